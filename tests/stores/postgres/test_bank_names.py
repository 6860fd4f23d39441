"""Bank names on a PostgreSQL server: with an index, without one, and for tenants."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from ledger_kit import OWNER, WRITER
from postgres_kit import as_role, run_sql, schema_of

from satchel.bank.open_bank import banks_called, named_banks
from satchel.ledger.authority import rename_record
from satchel.ledger.ledger import Ledger
from satchel.ports.rows import bank_name_bytes
from satchel.stores.postgres import PostgresStore
from satchel.stores.postgres.reader import _BY_INDEX

if TYPE_CHECKING:
    from collections.abc import Iterator

AT = "2026-03-01T09:30:00.000001Z"
NAMES = ("one", "two", "three", "four", "nobody")


@pytest.fixture
def store(place: str) -> Iterator[PostgresStore]:
    """Banks, one of which was renamed, and two with the same name."""
    made = PostgresStore(place)
    banks = [_founded(made, name) for name in ("one", "two", "three", "two")]
    banks[2].append([rename_record(banks[2].bank, "four", OWNER, AT)])
    yield made
    made.close()


def _founded(store: PostgresStore, name: str) -> Ledger:
    return Ledger.create(store, owner=OWNER, writer=WRITER, name=name)


def _banks_by_name(store: PostgresStore) -> dict[str, list[str]]:
    return {name: found for name in NAMES if (found := banks_called(store, name))}


def test_names_are_found_by_their_index(store: PostgresStore, postgres: str) -> None:
    """The server's plan uses it when a scan costs more."""
    said = f"'\\x{bank_name_bytes('four').hex()}'::bytea"
    found = run_sql(
        postgres,
        f"SET search_path = {schema_of(store.address)}",
        "SET enable_seqscan = off",
        f"EXPLAIN {_BY_INDEX.replace('%s', said)}",
    )
    assert sum("Index Cond" in line and "CASE" in line for (line,) in found) == 2


def test_older_tables_are_searched_without_an_index(store: PostgresStore, postgres: str) -> None:
    """The results are the same, including two banks of one name."""
    expected = _banks_by_name(store)
    assert expected == named_banks(store)
    assert len(expected["two"]) == 2
    run_sql(postgres, f"DROP INDEX {schema_of(store.address)}.record_name")
    assert _banks_by_name(store) == expected


def test_attack_an_index_without_the_names_hides_no_bank(
    store: PostgresStore, postgres: str
) -> None:
    """Attack: the owner of the tables replaces the index."""
    expected, schema = _banks_by_name(store), schema_of(store.address)
    run_sql(
        postgres,
        f"DROP INDEX {schema}.record_name",
        f"CREATE INDEX record_name ON {schema}.record (body) WHERE false",
    )
    assert _banks_by_name(store) == expected


def test_attack_a_tenant_cannot_find_other_banks_by_name(
    store: PostgresStore, postgres: str
) -> None:
    """Attack: a role that sees one bank asks for the names of others."""
    schema, role = schema_of(store.address), f"asks_{schema_of(store.address)[:20]}"
    run_sql(
        postgres,
        f"CREATE ROLE {role} LOGIN",
        f"GRANT USAGE ON SCHEMA {schema} TO {role}",
        f"GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {role}",
    )
    (mine,) = banks_called(store, "four")
    tenant = PostgresStore(f"{as_role(store.address, role)}&bank={mine}", read_only=True)
    try:
        assert _banks_by_name(tenant) == {"four": [mine]}
        with tenant.reading() as reader:
            assert reader.named(bank_name_bytes("one")) == []
            assert reader.named(bank_name_bytes("three")) == [mine]  # as which it was founded
    finally:
        tenant.close()
        run_sql(postgres, f"DROP OWNED BY {role}", f"DROP ROLE {role}")
