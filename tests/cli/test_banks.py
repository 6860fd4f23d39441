"""``satchel bank``: create, list, use, admit, adopt, accept-loss and accept-gone."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from ledger_kit import created, memories

from satchel import Satchel
from satchel.bank.connections import configured_store, open_ledger
from satchel.bank.open_bank import DEFAULT_BANKS_FILE
from satchel.config.settings import load_settings
from satchel.crypto.keys import SigningKey
from satchel.errors import UnknownBankError

if TYPE_CHECKING:
    from tests.cli.conftest import Run


def append_memory(bank: str, number: int) -> None:
    """Add one memory on this machine."""
    settings = load_settings()
    with configured_store(settings) as store:
        open_ledger(settings, store, bank, writes=True).append(memories(1, start=number))


@pytest.fixture
def bank(satchel: Run) -> str:
    """A bank that this machine owns, with one memory."""
    made = satchel("bank", "create", "assistant")
    assert made.status == 0
    append_memory(made.out.strip(), 1)
    return made.out.strip()


def test_a_bank_is_created_once_and_listed(satchel: Run, bank: str) -> None:
    """The listing opens and verifies each bank."""
    (found,) = satchel("bank", "list", "--json").json["banks"]
    assert found == {
        "id": bank,
        "name": "assistant",
        "records": 3,
        "trust": "own",
        "default": True,
    }
    shown = satchel("bank", "list").out
    assert "assistant" in shown
    assert bank in shown
    again = satchel("bank", "create", "assistant", "--json")
    assert (again.status, again.error["field"]) == (2, "name")
    assert satchel("bank", "create", " ").status == 2


def test_bank_list_does_not_create_a_store(satchel: Run) -> None:
    """It prints the command that creates a bank."""
    ran = satchel("bank", "list")
    assert (ran.status, ran.out) == (0, "")
    assert "satchel bank create" in ran.err
    assert satchel("bank", "list", "--json").json["banks"] == []
    assert not Path(load_settings().store).exists()


def test_a_rolled_back_store_is_refused_until_an_owner_accepts_the_loss(
    satchel: Run, bank: str
) -> None:
    """Attack: yesterday's file is restored; after the decision the bank is writable."""
    path = Path(load_settings().store)
    older = path.read_bytes()
    append_memory(bank, 2)
    path.write_bytes(older)
    ran = satchel("bank", "list")
    assert (ran.status, "refused" in ran.out) == (3, True)
    assert "3 records" in ran.err
    assert satchel("bank", "accept-loss", "assistant", "--signing-key", "nobody").status == 3
    ran = satchel("bank", "accept-loss", "assistant", "--reason", "the disk died")
    assert (ran.status, ran.out) == (0, "epoch 1: resumed after the first 3 records\n")
    (found,) = satchel("bank", "list", "--json").json["banks"]
    assert (found["records"], found["epoch"], found["trust"]) == (4, 1, "own")
    append_memory(bank, 3)
    again = satchel("bank", "accept-loss", "assistant")
    assert (again.status, again.out) == (0, "")
    assert "Nothing is missing" in again.err


def test_a_bank_with_lost_keys_is_adopted(satchel: Run) -> None:
    """Untrusted before, trusted after, on this machine only."""
    with configured_store(load_settings()) as store:
        bank = created(store).bank
    (before,) = satchel("bank", "list", "--json").json["banks"]
    assert before["trust"] == "untrusted"
    ran = satchel("bank", "adopt", bank[:15], "--reason", "the laptop is gone")
    assert (ran.status, ran.out) == (0, "epoch 1: resumed after the first 2 records\n")
    (after,) = satchel("bank", "list", "--json").json["banks"]
    assert (after["trust"], after["epoch"]) == ("own", 1)
    append_memory(bank, 1)


def test_another_machine_is_admitted_by_its_writer_key(satchel: Run, bank: str) -> None:
    """Its key may sign heads from then on."""
    other = SigningKey.generate()
    assert satchel("bank", "admit", "assistant", "--writer", other.did).status == 0
    settings = load_settings()
    with configured_store(settings) as store, open_ledger(settings, store, bank).reading() as view:
        assert view.head.size == 4
    assert satchel("bank", "admit", "assistant", "--writer", other.did).status == 0


def test_a_missing_bank_is_reported_until_its_absence_is_accepted(satchel: Run, bank: str) -> None:
    """By ``doctor``."""
    assert satchel("bank", "accept-gone", bank).status == 2
    Path(load_settings().store).unlink()
    with configured_store(load_settings(), lost=True):
        pass
    assert satchel("doctor").status == 1
    assert satchel("bank", "accept-gone", bank).status == 0
    assert satchel("doctor").status == 0


def test_an_unknown_bank_is_an_error_that_names_bank_list(satchel: Run, bank: str) -> None:
    """By an unknown name, an unknown ID, and too short a prefix."""
    for wrong in ("nobody", "blake3:000000", bank[7:11]):
        ran = satchel("bank", "admit", wrong, "--signing-key", "default")
        assert ran.status == 2
        assert "satchel bank list" in ran.err


def write_memories_of_three_users(path: Path) -> Path:
    """Write a file with memories of three users."""
    rows = [
        {"id": str(number), "memory": f"{user} likes tea", "user_id": user}
        for number, user in enumerate(("ada", "bob", "eve"))
    ]
    path.write_text(json.dumps(rows))
    return path


def default_banks(satchel: Run) -> list[str]:
    """Return the names of the default banks, of which there is at most one."""
    banks = satchel("bank", "list", "--json").json["banks"]
    return [bank["name"] for bank in banks if bank.get("default")]


def test_the_first_bank_stays_the_default_when_others_are_created(
    satchel: Run, mem0: Path, tmp_path: Path
) -> None:
    """By a command, by an import into one bank, and by one that creates several."""
    assert satchel("remember", "Ada drinks tea").status == 0
    assert satchel("bank", "create", "web").status == 0
    assert satchel("import", mem0, "--bank", "assistant").status == 0
    ran = satchel("import", write_memories_of_three_users(tmp_path / "owners.json"))
    assert ran.status == 0
    assert "created 3 banks; the default bank is unchanged" in ran.err
    assert "Ada drinks tea" in satchel("recall", "tea").out
    assert satchel("list", "--json").json["memories"][0]["text"] == "Ada drinks tea"
    assert default_banks(satchel) == ["default"]


def test_bank_use_sets_the_default_bank(satchel: Run) -> None:
    """By ID, so a rename keeps it; the choice is stored in the home directory."""
    for name in ("one", "two", "three"):
        assert satchel("bank", "create", name).status == 0
    assert default_banks(satchel) == ["one"]
    ran = satchel("bank", "use", "two")
    assert (ran.status, "two is the default bank" in ran.err) == (0, True)
    assert satchel("bank", "rename", "two", "second").status == 0
    assert satchel("remember", "kept in the second").status == 0
    assert "kept in" in satchel("list", "--bank", "second").out
    assert satchel("list", "--bank", "one").out == ""
    assert default_banks(satchel) == ["second"]
    path = load_settings().home / DEFAULT_BANKS_FILE
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_satchel_bank_overrides_the_default_bank(
    satchel: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without changing the stored default."""
    for name in ("one", "two"):
        assert satchel("bank", "create", name).status == 0
    monkeypatch.setenv("SATCHEL_BANK", "two")
    assert satchel("remember", "tea").status == 0
    monkeypatch.delenv("SATCHEL_BANK")
    assert satchel("list").out == ""


def test_each_store_has_its_own_default_bank(satchel: Run, tmp_path: Path) -> None:
    """Two stores in one home."""
    other = tmp_path / "other.db"
    for words in ((), ("--store", other)):
        for name in ("one", "two"):
            assert satchel(*words, "bank", "create", name).status == 0
    assert satchel("bank", "use", "two").status == 0
    assert satchel("--store", other, "remember", "tea").status == 0
    assert "tea" in satchel("--store", other, "list", "--bank", "one").out
    assert satchel("list").out == ""


def test_without_a_default_bank_the_error_lists_the_banks(satchel: Run, tmp_path: Path) -> None:
    """After an import that created several; the hint names ``bank use``."""
    assert satchel("import", write_memories_of_three_users(tmp_path / "owners.json")).status == 0
    ran = satchel("recall", "tea", "--json")
    assert (ran.status, ran.error["code"], ran.error["field"]) == (2, "usage", "bank")
    assert all(name in ran.error["message"] for name in ("ada", "bob", "eve"))
    assert "satchel bank use" in ran.error["hint"]
    bob = next(
        each["name"]
        for each in satchel("bank", "list", "--json").json["banks"]
        if "bob" in each["name"]
    )
    assert satchel("bank", "use", bob).status == 0
    assert "bob likes tea" in satchel("recall", "tea").out


def test_a_deleted_bank_is_not_the_default(satchel: Run) -> None:
    """The only remaining bank becomes the default."""
    for name in ("one", "two"):
        assert satchel("bank", "create", name).status == 0
    assert satchel("bank", "delete", "one", "--yes").status == 0
    assert satchel("remember", "tea").status == 0
    assert default_banks(satchel) == ["two"]


@pytest.mark.parametrize("text", ["[]", "{", '{"x": 1}', '{"x": "blake3:0"}'])
def test_a_damaged_file_of_defaults_is_refused_by_name(satchel: Run, text: str) -> None:
    """Commands do not write into another bank instead."""
    for name in ("one", "two"):
        assert satchel("bank", "create", name).status == 0
    (load_settings().home / DEFAULT_BANKS_FILE).write_text(text)
    ran = satchel("remember", "tea", "--json")
    assert (ran.status, ran.error["code"]) == (2, "config.invalid")
    assert DEFAULT_BANKS_FILE in ran.error["file"]


def test_python_uses_the_same_default_bank(own_home: Path) -> None:
    """``bank()``, ``use_bank`` and ``bank(name, create=True)``."""
    del own_home
    with Satchel.open() as store:
        first = store.bank()
        web = store.bank("web", create=True)
        assert store.bank("web", create=True).id == web.id
        assert store.bank().id == first.id
        with pytest.raises(UnknownBankError):
            store.bank("nobody")
        assert store.use_bank("web").default
        assert store.bank().id == web.id


def test_attack_a_token_holder_changes_the_default_bank(satchel: Run, tmp_path: Path) -> None:
    """Attack: a holder redirects the owner's later writes."""
    for name in ("one", "two"):
        assert satchel("bank", "create", name).status == 0
    token = tmp_path / "x.token"
    issue = ("token", "issue", "--audience", "default", "--everything", "--bank", "two")
    assert satchel(*issue, "--output", token).status == 0
    assert satchel("--token", token, "bank", "use", "two").status == 3
    assert default_banks(satchel) == ["one"]


def test_a_restored_store_has_the_same_default_bank(satchel: Run, tmp_path: Path) -> None:
    """Restored into another file, it behaves like the backed-up store."""
    for name in ("one", "two", "three"):
        assert satchel("bank", "create", name).status == 0
    assert satchel("bank", "use", "two").status == 0
    assert satchel("remember", "in the second").status == 0
    backups, other = tmp_path / "backups", tmp_path / "old.db"
    assert satchel("backup", "run", "--destination", backups).status == 0
    restored = satchel("backup", "restore", "--destination", backups, "--into", other)
    assert restored.status == 0, restored.err
    assert "in the second" in satchel("--store", other, "list").out


def create_three_banks(satchel: Run, store: Path) -> None:
    """Create three banks in a store, the second of which is its default."""
    for name in ("one", "two", "three"):
        assert satchel("--store", store, "bank", "create", name).status == 0
    assert satchel("--store", store, "bank", "use", "two").status == 0
    assert satchel("--store", store, "remember", "in the second").status == 0


@pytest.mark.parametrize("command", [("store", "copy"), ("migrate",)])
def test_a_copied_store_has_the_same_default_bank(
    satchel: Run, tmp_path: Path, command: tuple[str, ...]
) -> None:
    """With ``store copy`` and with ``migrate``."""
    first, other = tmp_path / "first.db", tmp_path / "other.db"
    create_three_banks(satchel, first)
    dry = satchel(*command, first, other, "--dry-run", "--json").json
    assert not any(bank.get("default") for bank in dry["banks"])
    copied = satchel(*command, first, other, "--json").json
    assert [bank["name"] for bank in copied["banks"] if bank.get("default")] == ["two"]
    assert "in the second" in satchel("--store", other, "list").out
    assert "two is the default bank there" in satchel(*command, first, other).err


@pytest.mark.parametrize("command", [("store", "copy"), ("migrate",)])
def test_a_target_store_keeps_its_own_default_bank(
    satchel: Run, tmp_path: Path, command: tuple[str, ...]
) -> None:
    """A copy into it does not redirect its later writes."""
    first, other = tmp_path / "first.db", tmp_path / "other.db"
    create_three_banks(satchel, first)
    assert satchel("--store", other, "bank", "create", "mine").status == 0
    assert satchel(*command, first, other).status == 0
    assert satchel("--store", other, "remember", "in mine").status == 0
    assert "in mine" in satchel("--store", other, "list", "--bank", "mine").out


@pytest.mark.parametrize("command", [("store", "copy"), ("migrate",)])
def test_a_copy_without_the_default_bank_names_bank_use(
    satchel: Run, tmp_path: Path, command: tuple[str, ...]
) -> None:
    """The command of the note works."""
    first, other = tmp_path / "first.db", tmp_path / "other.db"
    create_three_banks(satchel, first)
    ran = satchel(*command, first, other, "--bank", "one", "--bank", "three", "--json")
    assert any("bank use NAME" in note for note in ran.json["notes"])
    assert satchel("--store", other, "list").status == 2
    assert satchel("--store", other, "bank", "use", "three").status == 0
    assert satchel("--store", other, "list").status == 0


def test_migrate_keeps_the_bank_named_in_the_old_configuration(
    satchel: Run, tmp_path: Path
) -> None:
    """By name; the new configuration need not name it."""
    first, other = tmp_path / "first.db", tmp_path / "other.db"
    create_three_banks(satchel, first)
    old, new = tmp_path / "old.toml", tmp_path / "new.toml"
    old.write_text(f'[store]\naddress = "{first}"\nbank = "three"\n')
    new.write_text(f'[store]\naddress = "{other}"\n')
    ran = satchel("migrate", "--from-config", old, "--to-config", new, "--no-switch")
    assert ran.status == 0, ran.err
    assert satchel("--config", new, "remember", "in the third").status == 0
    assert "in the third" in satchel("--store", other, "list", "--bank", "three").out
