"""The first steps on a machine."""

import subprocess
import sys

import pytest
from bank_kit import filled, keep, owner, texts

from satchel.actions.banks import create_bank, list_banks
from satchel.actions.config import load_settings
from satchel.actions.starting import initialise
from satchel.errors import UnknownBankError, UsageError
from satchel.seal.signing.key import SigningKey


def test_what_is_missing_is_made_once() -> None:
    """Home, key, store and bank; the second time everything is there."""
    settings = load_settings()
    first = initialise(settings, None, owner)
    assert (first.made, first.name, first.banks) == (["key", "store", "bank"], "default", 1)
    assert settings.home.stat().st_mode & 0o777 == 0o700

    def never() -> SigningKey:
        raise AssertionError("no key is needed")

    again = initialise(settings, None, never)
    assert (again.made, again.bank) == ([], first.bank)
    assert initialise(settings, "default", never).made == []
    assert initialise(settings, (first.bank or "")[:20], never).made == []


def test_a_bank_that_is_named_is_made_beside_others() -> None:
    """Which one is meant without a name is not guessed then."""
    settings = load_settings()
    initialise(settings, "one", owner)
    assert initialise(settings, "two", owner).made == ["bank"]
    found = initialise(settings, None, owner)
    assert (found.made, found.bank, found.banks) == ([], None, 2)


def test_the_configured_name_is_that_of_the_first_bank(monkeypatch: pytest.MonkeyPatch) -> None:
    """So remembering finds it again."""
    monkeypatch.setenv("SATCHEL_BANK", "work")
    with filled() as bank:
        keep(bank, "x")
        assert bank.name == "work"
    with filled() as bank:
        assert texts(bank) == ["x"]


def test_names_that_cannot_be_are_refused() -> None:
    """An empty one, and one that looks like an id; nothing is made."""
    settings = load_settings()
    for wrong in ("", " ", "blake3:" + "0" * 64):
        with pytest.raises(UsageError) as raised:
            initialise(settings, wrong, owner)
        assert raised.value.field == "name"
    assert list_banks(settings) == []


def test_a_name_that_is_wrong_makes_no_bank_where_there_are_some() -> None:
    """A typing error is no new bank."""
    create_bank(load_settings(), "one", owner())
    with pytest.raises(UnknownBankError), filled("onne"):
        pass
    assert [line.name for line in list_banks(load_settings())] == ["one"]


_PROGRAM = """
from bank_kit import filled, keep
with filled() as bank:
    keep(bank, "from one of several")
"""


def test_several_processes_that_begin_at_once_make_one_bank() -> None:
    """Attack: a crew of agents on a fresh machine; one makes it, the others find it."""
    program = f"import sys; sys.path[:0] = {sys.path!r}\n{_PROGRAM}"
    started = [
        subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.PIPE) for _ in range(4)
    ]
    errors = [each.communicate(timeout=60)[1] for each in started]
    assert errors == [b""] * 4
    (line,) = list_banks(load_settings())
    assert line.records == 6
