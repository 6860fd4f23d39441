"""Row level security: a role that does not own the tables sees one bank, whatever it asks for."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

import psycopg
import pytest
from ledger_kit import WRITER, created, listed, memories
from postgres_kit import as_role, run_sql, schema_of

from satchel.errors import ReadOnlyStoreError, SatchelError, StoreError
from satchel.ledger.ledger import Ledger
from satchel.ports.rows import Filter
from satchel.stores.postgres import PostgresStore
from satchel.stores.postgres.statements import TABLES

if TYPE_CHECKING:
    from collections.abc import Iterator


class Two:
    """A store with two banks, and a role that owns nothing."""

    def __init__(self, address: str, place: str) -> None:
        self.address, self.place = address, place
        self.schema = schema_of(place)
        self.store = PostgresStore(place)
        self.mine, self.other = created(self.store), created(self.store)
        self.mine.append(memories(50))
        self.other.append(memories(3))
        with self.store.writing() as writing:
            writing.put_side(self.other.bank, {"note": b"secret"})
            self.digest = writing.blobs.put(self.other.bank, [b"secret"])
        self.role = f"tenant_{secrets.token_hex(6)}"
        run_sql(
            address,
            f"CREATE ROLE {self.role} LOGIN",
            f"GRANT USAGE ON SCHEMA {self.schema} TO {self.role}",
            f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {self.schema}"
            f" TO {self.role}",
            f"REVOKE INSERT, UPDATE, DELETE ON {self.schema}.tenant, {self.schema}.store"
            f" FROM {self.role}",
            f"GRANT USAGE ON ALL SEQUENCES IN SCHEMA {self.schema} TO {self.role}",
        )

    def seen_by(self, bank: str | None) -> PostgresStore:
        """Open the store as the tenant."""
        place = as_role(self.place, self.role)
        return PostgresStore(place if bank is None else f"{place}&bank={bank}")


@pytest.fixture
def two(postgres: str, place: str) -> Iterator[Two]:
    """Two banks, one tenant."""
    found = Two(postgres, place)
    yield found
    found.store.close()
    run_sql(postgres, f"DROP OWNED BY {found.role}", f"DROP ROLE {found.role}")


def test_a_connection_that_is_set_to_one_bank_sees_no_other(two: Two) -> None:
    """Not its head, rows, words, links, vectors, blobs or side values, and not that it is there."""
    store = two.seen_by(two.mine.bank)
    with store.reading() as reader:
        assert reader.banks() == [two.mine.bank]
        assert reader.head(two.other.bank) is None
        assert reader.side(two.other.bank) == {}
        for ask in (
            lambda: reader.counts(two.other.bank),
            lambda: list(reader.scan(two.other.bank, Filter())),
            lambda: reader.candidates(two.other.bank, "memory", limit=9),
            lambda: reader.blobs.has(two.other.bank, two.digest),
        ):
            with pytest.raises(SatchelError) as refused:
                ask()
            assert refused.value.code == "bank.unknown"
    assert len(listed(Ledger(store, two.mine.bank, writer=None))) == 52
    store.close()


def test_raw_sql_of_a_tenant_finds_nothing_of_others_in_any_table(two: Two) -> None:
    """Also where it changes what its session says, once its role is bound to a bank."""
    run_sql(
        two.address,
        f"INSERT INTO {two.schema}.tenant VALUES ('{two.role}', '{two.mine.bank}')",  # noqa: S608 - our own names
    )
    numbers = dict(run_sql(two.address, f"SELECT id, number FROM {two.schema}.bank"))  # noqa: S608 - our own names
    with psycopg.connect(as_role(two.address, two.role), autocommit=True) as connection:
        connection.execute("SELECT set_config('satchel.bank', %s, false)", (two.other.bank,))
        for table in TABLES:
            if table in ("store", "tenant"):
                continue
            name, mine = (
                ("id", two.mine.bank)
                if table == "bank"
                else ("bank", two.mine.bank if table == "side" else numbers[two.mine.bank])
            )
            rows = connection.execute(f"SELECT DISTINCT {name} FROM {two.schema}.{table}")  # noqa: S608 - our own names
            assert {row[0] for row in rows} <= {mine}, table
            gone = connection.execute(
                f"DELETE FROM {two.schema}.{table} WHERE {name} <> %s",  # noqa: S608 - our own names
                (mine,),
            )
            assert gone.rowcount == 0
    assert len(listed(two.other)) == 5


def test_a_tenant_without_a_bank_sees_none(two: Two) -> None:
    """What was not said is not everything."""
    store = two.seen_by(None)
    with store.reading() as reader:
        assert reader.banks() == []
    with pytest.raises(ReadOnlyStoreError):
        created(store)
    store.close()


def test_a_tenant_writes_its_own_bank(two: Two) -> None:
    """Single records and many at once, where rows cannot be copied in a stream."""
    store = two.seen_by(two.mine.bank)
    ledger = Ledger(store, two.mine.bank, writer=WRITER)
    ledger.append(memories(1, start=100))
    ledger.append(memories(700, start=200))
    store.close()
    assert len(listed(Ledger(two.store, two.mine.bank, writer=None))) == 52 + 701
    with two.store.reading() as reader:
        assert len(reader.candidates(two.mine.bank, "memory 333", limit=1)) == 1


def test_one_bank_is_not_promised_to_a_role_that_sees_all(two: Two) -> None:
    """The owner of the tables is not held by their policies, so it is refused, not believed."""
    with pytest.raises(StoreError, match="can see every bank"):
        PostgresStore(f"{two.place}&bank={two.mine.bank}")


def test_a_read_only_role_gets_a_clear_error(two: Two) -> None:
    """And nothing of what it wanted to write is there."""
    run_sql(
        two.address,
        f"REVOKE INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {two.schema} FROM {two.role}",
    )
    store = two.seen_by(two.mine.bank)
    assert len(listed(Ledger(store, two.mine.bank, writer=None))) == 52
    with pytest.raises(ReadOnlyStoreError), store.writing() as writing:
        writing.put_side(two.mine.bank, {"a": b"b"})
    store.close()
