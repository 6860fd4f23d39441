"""``satchel bank``: create, list, use, admit, adopt, accept-loss and accept-gone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from ledger_kit import created, memories

from satchel.bank.connections import configured_store, open_ledger
from satchel.config.settings import load_settings
from satchel.crypto.keys import SigningKey

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
