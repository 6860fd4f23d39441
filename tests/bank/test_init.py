"""Init: the first bank on a machine, and further ones."""

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


def test_init_creates_home_key_store_and_bank_once() -> None:
    """A second call changes nothing."""
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


def test_init_with_a_new_name_creates_another_bank() -> None:
    """The first one stays the default."""
    settings = load_settings()
    first = initialize(settings, "one", owner)
    assert initialize(settings, "two", owner).made == ["bank"]
    found = initialize(settings, None, owner)
    assert (found.made, found.bank, found.banks) == ([], first.bank, 2)


def test_the_first_bank_has_the_configured_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """So it is found again."""
    monkeypatch.setenv("SATCHEL_BANK", "work")
    with filled() as bank:
        keep(bank, "x")
        assert bank.name == "work"
    with filled() as bank:
        assert texts(bank) == ["x"]


def test_invalid_bank_names_are_refused() -> None:
    """An empty one, and one that looks like an ID; nothing is created."""
    settings = load_settings()
    for wrong in ("", " ", "blake3:" + "0" * 64):
        with pytest.raises(UsageError) as raised:
            initialize(settings, wrong, owner)
        assert raised.value.field == "name"
    assert list_banks(settings) == []


def test_an_unknown_name_creates_no_bank_beside_existing_ones() -> None:
    """It may be a typing error."""
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
    """One process of several on a new machine creates it, and the others open it."""
    program = f"import sys; sys.path[:0] = {sys.path!r}\n{_PROGRAM}"
    started = [
        subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.PIPE) for _ in range(4)
    ]
    errors = [each.communicate(timeout=60)[1] for each in started]
    assert errors == [b""] * 4
    (line,) = list_banks(load_settings())
    assert line.records == 6


def test_a_bank_is_refused_for_an_agent_with_a_store_of_its_own() -> None:
    """The error has the path; an explicitly named store is used."""
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


def test_a_missing_configuration_file_is_an_error_with_a_fix(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Named by the environment or by a flag."""
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


# -- the example agent -------------------------------------------------------------------


LOOP = Path(__file__).parent.parent.parent / "examples" / "agent_loop.py"


def run_agent(*sentences: str) -> list[str]:
    """Run the agent with some sentences, and return its answers."""
    ran = subprocess.run(
        [sys.executable, str(LOOP), *sentences], capture_output=True, text=True, check=True
    )
    return [line for line in ran.stdout.splitlines() if not line.startswith("> ")]


def test_the_example_agent_remembers_across_runs() -> None:
    """The second run knows what the first one was told."""
    assert run_agent("what do you know?") == ["I know nothing about you yet."]
    assert run_agent("my name is Bob", "I like tea") == ["I will remember that."] * 2
    assert run_agent("my name is Ada", "my name is Ada.") == ["I will remember that.", "I know."]
    assert run_agent("?") == ["The user likes tea", "The user is called Ada"]
    assert run_agent("forget tea", "?") == [
        "Forgotten: The user likes tea",
        "The user is called Ada",
    ]
