"""``doctor`` and the store: what it says of banks, and what ``--repair`` does."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import apsw
import pytest
from ledger_kit import created, memories

from satchel.bank.connections import configured_store, open_ledger, witness_of, writer_key
from satchel.bank.machine_keys import signing_key
from satchel.config.settings import load_settings
from satchel.ledger.ledger import Ledger

if TYPE_CHECKING:
    from tests.cli.conftest import Run


@pytest.fixture
def bank() -> str:
    """A bank in the configured store."""
    settings = load_settings()
    owner, _ = signing_key(settings)
    with configured_store(settings) as store:
        ledger = Ledger.create(
            store, owner=owner, writer=writer_key(settings), witness=witness_of(settings)
        )
        ledger.append(memories(30))
        return ledger.bank


def edit(sql: str) -> None:
    """Change the database from outside."""
    connection = apsw.Connection(load_settings().store)
    connection.execute(sql)
    assert connection.total_changes()
    connection.close()


def state_of(satchel: Run, name: str, *options: str) -> tuple[str, str, int]:
    """Return what the doctor says of one thing, and the exit status."""
    ran = satchel("doctor", *options, "--json")
    found = [check for check in ran.json["checks"] if check["name"] == name][-1]
    return found["state"], found["detail"], ran.status


def test_a_store_that_is_not_there_is_no_problem(satchel: Run) -> None:
    """And looking for it does not make it."""
    state, detail, status = state_of(satchel, "store", "--deep", "--repair")
    assert (state, status) == ("note", 0)
    assert "created on first use" in detail
    assert not Path(load_settings().store).exists()


def test_a_sound_bank_is_reported_as_sound(satchel: Run, bank: str) -> None:
    """Whether the first difference was looked for, or all of them."""
    sound = ("ok", "32 records, each verified with its columns and indexes", 0)
    assert state_of(satchel, bank) == sound
    assert state_of(satchel, bank, "--deep") == sound
    assert state_of(satchel, "witness of banks")[0] == "ok"


def test_the_report_on_a_bank_names_it(satchel: Run) -> None:
    """The check is named by the ID, which does not change; people know the name."""
    satchel("init", "notes")
    [bank] = satchel("bank", "list", "--json").json["banks"]
    state, detail, _ = state_of(satchel, bank["id"])
    assert state == "ok"
    assert detail.startswith("'notes': ")


def test_a_changed_column_is_found_and_put_right_by_repair(satchel: Run, bank: str) -> None:
    """Exit 1 until it is repaired, and what to do is said."""
    edit("UPDATE record SET user = 'eve' WHERE place & 1023 = 20")
    assert state_of(satchel, bank)[2] == 1
    state, detail, status = state_of(satchel, bank, "--deep")
    assert (state, status) == ("problem", 1)
    assert detail == "1 column; first: a column differs from the log (record 20)"
    assert "--repair" in satchel("doctor", "--deep").err
    assert satchel("doctor", "--repair").status == 0
    assert state_of(satchel, bank, "--deep")[2] == 0


def test_a_lost_record_is_set_aside_and_counted(satchel: Run, bank: str) -> None:
    """The rest of the bank is read again afterwards."""
    edit("UPDATE record SET body = zeroblob(100) WHERE place & 1023 = 20")
    ran = satchel("doctor", "--repair")
    assert (ran.status, "damaged and set aside: 1" in ran.out) == (0, True)
    settings = load_settings()
    with configured_store(settings) as store, open_ledger(settings, store, bank).reading() as view:
        assert len(list(view.scan())) == 32


def test_a_missing_or_rolled_back_bank_is_a_problem(satchel: Run, bank: str) -> None:
    """Attack: the store is exchanged for an older or an empty one."""
    path = Path(load_settings().store)
    older = path.read_bytes()
    with configured_store(load_settings()) as store:
        open_ledger(load_settings(), store, bank, writes=True).append(memories(1, start=50))
    path.write_bytes(older)
    state, detail, status = state_of(satchel, bank)
    assert (state, status) == ("problem", 1)
    assert "32 records" in detail
    path.unlink()
    with configured_store(load_settings(), lost=True):
        pass
    assert state_of(satchel, bank)[::2] == ("problem", 1)


def test_a_bank_of_unknown_owners_is_reported_as_untrusted(satchel: Run) -> None:
    """Every proof holds, but anybody can make keys; nothing is wrong with the store."""
    with configured_store(load_settings()) as store:
        bank = created(store).bank
    state, detail, status = state_of(satchel, bank, "--deep")
    assert (state, status) == ("note", 0)
    assert "untrusted" in detail


def test_doctor_prints_the_command_that_trusts_the_owner_of_an_untrusted_bank(
    satchel: Run,
) -> None:
    """It can be run as it is printed, and the bank is one's own afterwards."""
    with configured_store(load_settings()) as store:
        bank = created(store).bank
    (check,) = (one for one in satchel("doctor", "--json").json["checks"] if one["name"] == bank)
    command = check["hint"].removeprefix("If you know the owner: ").split()
    assert satchel(*command[1:]).status == 0
    assert state_of(satchel, bank)[0] == "ok"


def test_another_store_is_searched_when_it_is_named(
    satchel: Run, bank: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Flag over environment over file; an address of no known kind is a usage error."""
    other = tmp_path / "other.db"
    assert bank not in satchel("--store", str(other), "doctor").out
    monkeypatch.setenv("SATCHEL_STORE", f"sqlite:///{other}")
    assert str(other) in satchel("doctor").out
    for wrong in ("postgres://somewhere/x", "sqlite://host/x.db", "sqlite:///x.db?mode=rw"):
        assert satchel("--store", wrong, "doctor").status == 2
