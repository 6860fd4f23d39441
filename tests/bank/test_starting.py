"""The first steps on a machine."""

import subprocess
import sys
from pathlib import Path

import pytest
from bank_kit import filled, keep, owner, texts

from satchel.amplihack import HierarchicalMemory
from satchel.bank.banks import create_bank, list_banks
from satchel.config.settings import load_settings
from satchel.crypto.keys import SigningKey
from satchel.errors import ConfigError, UnknownBankError, UsageError
from satchel.setup.init import initialize


def test_what_is_missing_is_made_once() -> None:
    """Home, key, store and bank; the second time everything is there."""
    settings = load_settings()
    first = initialize(settings, None, owner)
    assert (first.made, first.name, first.banks) == (["key", "store", "bank"], "default", 1)
    assert settings.home.stat().st_mode & 0o777 == 0o700

    def never() -> SigningKey:
        raise AssertionError("no key is needed")

    again = initialize(settings, None, never)
    assert (again.made, again.bank) == ([], first.bank)
    assert initialize(settings, "default", never).made == []
    assert initialize(settings, (first.bank or "")[:20], never).made == []


def test_a_bank_that_is_named_is_made_beside_others() -> None:
    """The first one stays the default."""
    settings = load_settings()
    first = initialize(settings, "one", owner)
    assert initialize(settings, "two", owner).made == ["bank"]
    found = initialize(settings, None, owner)
    assert (found.made, found.bank, found.banks) == ([], first.bank, 2)


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
            initialize(settings, wrong, owner)
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


def test_concurrent_first_processes_create_one_bank() -> None:
    """Attack: a crew of agents on a fresh machine; one makes it, the others find it."""
    program = f"import sys; sys.path[:0] = {sys.path!r}\n{_PROGRAM}"
    started = [
        subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.PIPE) for _ in range(4)
    ]
    errors = [each.communicate(timeout=60)[1] for each in started]
    assert errors == [b""] * 4
    (line,) = list_banks(load_settings())
    assert line.records == 6


def test_an_agent_with_a_store_of_its_own_gets_no_second_memory() -> None:
    """The refusal says where its memory is; a store that is named is taken as named."""
    home = load_settings().home
    with HierarchicalMemory("zed", storage_path=home / "hierarchical_memory") as memory:
        memory.store_knowledge("zed likes tea", concept="tea")
    with pytest.raises(UsageError, match="in its own store") as refused:
        initialize(load_settings(), "zed", owner)
    path = home / "hierarchical_memory" / "zed.db"
    assert (refused.value.file, str(path) in str(refused.value.hint)) == (str(path), True)
    with pytest.raises(UsageError, match="in its own store"):
        create_bank(load_settings(), "zed", owner())
    assert initialize(load_settings(), "another", owner).made[-1] == "bank"
    named = load_settings(store=str(home / "satchel.db"))
    assert create_bank(named, "zed", owner()).name == "zed"


def test_a_configuration_file_that_is_not_there_is_named_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether it is named by the environment or by a flag."""
    missing = tmp_path / "satchel.toml"
    with pytest.raises(ConfigError, match="no such configuration file") as refused:
        load_settings(config=missing)
    assert refused.value.file == str(missing)
    assert "SATCHEL_CONFIG" in str(refused.value.hint)
    monkeypatch.setenv("SATCHEL_CONFIG", str(missing))
    with pytest.raises(ConfigError, match="no such configuration file"):
        load_settings()
    missing.write_text("")
    assert initialize(load_settings(), None, owner).banks == 1
