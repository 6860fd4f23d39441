"""Row level security: a role that does not own the tables sees one bank, whatever it queries."""

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


class TenantStore:
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

    def opened_for(self, bank: str | None) -> PostgresStore:
        """Open the store as the tenant of a bank."""
        place = as_role(self.place, self.role)
        return PostgresStore(place if bank is None else f"{place}&bank={bank}")


@pytest.fixture
def tenants(postgres: str, place: str) -> Iterator[TenantStore]:
    """Two banks, one tenant."""
    found = TenantStore(postgres, place)
    yield found
    found.store.close()
    run_sql(postgres, f"DROP OWNED BY {found.role}", f"DROP ROLE {found.role}")


def test_a_connection_bound_to_one_bank_sees_no_other(tenants: TenantStore) -> None:
    """Not its head, rows, words, links, vectors, blobs or side values, nor that it exists."""
    store = tenants.opened_for(tenants.mine.bank)
    with store.reading() as reader:
        assert reader.banks() == [tenants.mine.bank]
        assert reader.head(tenants.other.bank) is None
        assert reader.side(tenants.other.bank) == {}
        for ask in (
            lambda: reader.counts(tenants.other.bank),
            lambda: list(reader.scan(tenants.other.bank, Filter())),
            lambda: reader.candidates(tenants.other.bank, "memory", limit=9),
            lambda: reader.blobs.has(tenants.other.bank, tenants.digest),
        ):
            with pytest.raises(SatchelError) as refused:
                ask()
            assert refused.value.code == "bank.unknown"
    assert len(listed(Ledger(store, tenants.mine.bank, writer=None))) == 52
    store.close()


def test_raw_sql_of_a_tenant_finds_no_rows_of_others_in_any_table(
    tenants: TenantStore,
) -> None:
    """Also if it changes the settings of its session, once its role is bound to a bank."""
    run_sql(
        tenants.address,
        f"INSERT INTO {tenants.schema}.tenant VALUES ('{tenants.role}', '{tenants.mine.bank}')",  # noqa: S608 - our own names
    )
    numbers = dict(run_sql(tenants.address, f"SELECT id, number FROM {tenants.schema}.bank"))  # noqa: S608 - our own names
    with psycopg.connect(as_role(tenants.address, tenants.role), autocommit=True) as connection:
        connection.execute("SELECT set_config('satchel.bank', %s, false)", (tenants.other.bank,))
        for table in TABLES:
            if table in ("store", "tenant"):
                continue
            name, mine = (
                ("id", tenants.mine.bank)
                if table == "bank"
                else (
                    "bank",
                    tenants.mine.bank if table == "side" else numbers[tenants.mine.bank],
                )
            )
            rows = connection.execute(f"SELECT DISTINCT {name} FROM {tenants.schema}.{table}")  # noqa: S608 - our own names
            assert {row[0] for row in rows} <= {mine}, table
            gone = connection.execute(
                f"DELETE FROM {tenants.schema}.{table} WHERE {name} <> %s",  # noqa: S608 - our own names
                (mine,),
            )
            assert gone.rowcount == 0
    assert len(listed(tenants.other)) == 5


def test_a_tenant_without_a_bank_sees_no_bank(tenants: TenantStore) -> None:
    """An unset bank does not mean every bank."""
    store = tenants.opened_for(None)
    with store.reading() as reader:
        assert reader.banks() == []
    with pytest.raises(ReadOnlyStoreError):
        created(store)
    store.close()


def test_a_tenant_can_write_its_own_bank(tenants: TenantStore) -> None:
    """Single records and many at once, where rows cannot be copied in a stream."""
    store = tenants.opened_for(tenants.mine.bank)
    ledger = Ledger(store, tenants.mine.bank, writer=WRITER)
    ledger.append(memories(1, start=100))
    ledger.append(memories(700, start=200))
    store.close()
    assert len(listed(Ledger(tenants.store, tenants.mine.bank, writer=None))) == 52 + 701
    with tenants.store.reading() as reader:
        assert len(reader.candidates(tenants.mine.bank, "memory 333", limit=1)) == 1


def test_a_role_that_sees_all_banks_cannot_be_bound_to_one(tenants: TenantStore) -> None:
    """The policies do not apply to the owner of the tables, so it is refused."""
    with pytest.raises(StoreError, match="can see every bank"):
        PostgresStore(f"{tenants.place}&bank={tenants.mine.bank}")


def test_a_read_only_role_gets_a_clear_error(tenants: TenantStore) -> None:
    """Nothing of its write is stored."""
    run_sql(
        tenants.address,
        f"REVOKE INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {tenants.schema}"
        f" FROM {tenants.role}",
    )
    store = tenants.opened_for(tenants.mine.bank)
    assert len(listed(Ledger(store, tenants.mine.bank, writer=None))) == 52
    with pytest.raises(ReadOnlyStoreError), store.writing() as writing:
        writing.put_side(tenants.mine.bank, {"a": b"b"})
    store.close()
