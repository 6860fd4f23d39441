"""``doctor`` on stores and banks, and ``--repair``."""

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
def machine_bank() -> str:
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
    """Edit the database directly."""
    connection = apsw.Connection(load_settings().store)
    connection.execute(sql)
    assert connection.total_changes()
    connection.close()


def state_of(satchel: Run, name: str, *options: str) -> tuple[str, str, int]:
    """Return state and detail of one check of ``doctor``, and the exit status."""
    ran = satchel("doctor", *options, "--json")
    found = [check for check in ran.json["checks"] if check["name"] == name][-1]
    return found["state"], found["detail"], ran.status


def test_doctor_notes_a_missing_store_and_does_not_create_it(satchel: Run) -> None:
    """A note, with exit status 0."""
    state, detail, status = state_of(satchel, "store", "--deep", "--repair")
    assert (state, status) == ("note", 0)
    assert "created on first use" in detail
    assert not Path(load_settings().store).exists()


def test_doctor_reports_a_valid_bank_as_ok(satchel: Run, machine_bank: str) -> None:
    """With the quick check and with ``--deep``."""
    sound = ("ok", "32 records, each verified with its columns and indexes", 0)
    assert state_of(satchel, machine_bank) == sound
    assert state_of(satchel, machine_bank, "--deep") == sound
    assert state_of(satchel, "witness of banks")[0] == "ok"


def test_doctor_prints_the_name_of_each_bank(satchel: Run) -> None:
    """The check is named by the ID, which does not change."""
    satchel("init", "notes")
    [machine_bank] = satchel("machine_bank", "list", "--json").json["banks"]
    state, detail, _ = state_of(satchel, machine_bank["id"])
    assert state == "ok"
    assert detail.startswith("'notes': ")


def test_doctor_finds_and_repairs_a_changed_column(satchel: Run, machine_bank: str) -> None:
    """Exit status 1 until it is repaired; the hint names ``--repair``."""
    edit("UPDATE record SET user = 'eve' WHERE place & 1023 = 20")
    assert state_of(satchel, machine_bank)[2] == 1
    state, detail, status = state_of(satchel, machine_bank, "--deep")
    assert (state, status) == ("problem", 1)
    assert detail == "1 column; first: a column differs from the log (record 20)"
    assert "--repair" in satchel("doctor", "--deep").err
    assert satchel("doctor", "--repair").status == 0
    assert state_of(satchel, machine_bank, "--deep")[2] == 0


def test_repair_sets_a_damaged_record_aside_and_counts_it(satchel: Run, machine_bank: str) -> None:
    """The rest of the bank is readable afterwards."""
    edit("UPDATE record SET body = zeroblob(100) WHERE place & 1023 = 20")
    ran = satchel("doctor", "--repair")
    assert (ran.status, "damaged and set aside: 1" in ran.out) == (0, True)
    settings = load_settings()
    with configured_store(settings) as store, open_ledger(settings, store, machine_bank).reading() as view:
        assert len(list(view.scan())) == 32


def test_doctor_reports_missing_and_rolled_back_banks(satchel: Run, machine_bank: str) -> None:
    """Attack: an older or an empty store replaces the current one."""
    path = Path(load_settings().store)
    older = path.read_bytes()
    with configured_store(load_settings()) as store:
        open_ledger(load_settings(), store, machine_bank, writes=True).append(memories(1, start=50))
    path.write_bytes(older)
    state, detail, status = state_of(satchel, machine_bank)
    assert (state, status) == ("problem", 1)
    assert "32 records" in detail
    path.unlink()
    with configured_store(load_settings(), lost=True):
        pass
    assert state_of(satchel, machine_bank)[::2] == ("problem", 1)


def test_doctor_reports_a_bank_of_unknown_owners_as_untrusted(satchel: Run) -> None:
    """A note: the records verify, but anyone can create keys."""
    with configured_store(load_settings()) as store:
        machine_bank = created(store).bank
    state, detail, status = state_of(satchel, machine_bank, "--deep")
    assert (state, status) == ("note", 0)
    assert "untrusted" in detail


def test_doctor_prints_the_command_that_trusts_the_owner_of_an_untrusted_bank(
    satchel: Run,
) -> None:
    """The printed command works as it is, and the bank is trusted afterwards."""
    with configured_store(load_settings()) as store:
        machine_bank = created(store).bank
    (check,) = (one for one in satchel("doctor", "--json").json["checks"] if one["name"] == machine_bank)
    command = check["hint"].removeprefix("If you know the owner: ").split()
    assert satchel(*command[1:]).status == 0
    assert state_of(satchel, machine_bank)[0] == "ok"


def test_doctor_checks_the_store_of_the_flag_or_the_environment(
    satchel: Run, machine_bank: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Flag over environment over file; an unknown scheme is a usage error."""
    other = tmp_path / "other.db"
    assert machine_bank not in satchel("--store", str(other), "doctor").out
    monkeypatch.setenv("SATCHEL_STORE", f"sqlite:///{other}")
    assert str(other) in satchel("doctor").out
    for wrong in ("postgres://somewhere/x", "sqlite://host/x.db", "sqlite:///x.db?mode=rw"):
        assert satchel("--store", wrong, "doctor").status == 2
