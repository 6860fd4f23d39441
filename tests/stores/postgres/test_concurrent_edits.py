"""Edits by SQL while a program keeps the store open."""

from collections.abc import Iterator

import pytest
from bank_kit import filled, keep
from postgres_kit import run_sql

from satchel.bank.links import links
from satchel.bank.listings import ListRequest, list_memories
from satchel.bank.open_bank import open_bank
from satchel.config.settings import load_settings
from satchel.errors import VerificationError
from satchel.stores.postgres.statements import OwnTransactions

HIDING = {
    "held": "UPDATE edited.record SET hold = true WHERE {row}",
    "retired": "UPDATE edited.record SET retired = 5 WHERE {row}",
    "another user": "UPDATE edited.record SET \"user\" = 'u9' WHERE {row}",
    "without triggers": "SET session_replication_role = replica;"
    " UPDATE edited.record SET hold = true WHERE {row}",
    "with the change reverted": "UPDATE edited.record SET hold = true WHERE {row};"
    " UPDATE edited.bank SET changed = changed, changed_by = changed_by",
    "deleted": "DELETE FROM edited.record WHERE {row}",
}


@pytest.fixture
def edited(postgres: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A schema to edit."""
    mark = "&" if "?" in postgres else "?"
    monkeypatch.setenv("SATCHEL_STORE", f"{postgres}{mark}schema=edited")
    yield postgres
    run_sql(postgres, "DROP SCHEMA edited CASCADE")


@pytest.mark.parametrize("edit", HIDING)
def test_a_row_hidden_by_sql_is_refused_by_a_program_that_keeps_the_store_open(
    edited: str, edit: str
) -> None:
    """The transaction counter of the server triggers a new comparison."""
    with filled() as bank:
        wanted = keep(bank, "the wombat sleeps", scope={"user": "u0"})
        keep(bank, "another", scope={"user": "u0"})
        row = f"id = '\\x{wanted.removeprefix('blake3:')}'"
        with open_bank(load_settings()) as reader:
            for program in (reader, bank):
                assert len(list_memories(program, ListRequest(user="u0"))) == 2
            run_sql(edited, HIDING[edit].format(row=row))
            for program in (reader, bank):
                with pytest.raises(VerificationError):
                    list_memories(program, ListRequest(user="u0"))


def test_a_link_deleted_by_sql_is_refused_by_a_program_that_keeps_the_store_open(
    edited: str,
) -> None:
    """The index of links is compared again too."""
    with filled() as bank:
        parent = keep(bank, "the wombat sleeps")
        keep(bank, "a child of it", parents=[parent])
        assert len(links(bank, parent).things) == 1
        run_sql(edited, "DELETE FROM edited.link")
        with pytest.raises(VerificationError, match="link"):
            links(bank, parent)


def test_own_transactions_do_not_change_the_stamp() -> None:
    """Alternating reads and writes verify nothing again."""
    own = OwnTransactions()
    before = own.stamp("100:100:")
    for number in range(100, 110):
        own.add(number)
        assert own.stamp(f"{number}:{number + 1}:{number}") == before
        assert own.stamp(f"{number + 1}:{number + 1}:") == before


def test_each_transaction_of_another_writer_changes_the_stamp() -> None:
    """Also one that begins before own ones and ends after or within them."""
    own = OwnTransactions()
    own.add(100)
    own.add(102)
    seen = [
        own.stamp("100:101:"),
        own.stamp("101:103:101"),  # 101 is somebody's, and runs
        own.stamp("103:103:"),  # and has ended
        own.stamp("103:105:103"),
        own.stamp("103:105:104"),
        own.stamp("105:105:"),
    ]
    assert len(set(seen)) == len(seen)


def test_an_old_own_transaction_counts_as_another_writers() -> None:
    """The list of own transactions is bounded, and nothing is missed."""
    own = OwnTransactions()
    for number in range(0, 6_000, 2):
        own.add(number)
    assert own.stamp("6000:6000:") == own.stamp("6000:6000:")
    assert own.stamp("1:1:") == hash((0,))
    assert own.stamp("5999:5999:") == hash((5_997,))
