"""A bank on each store."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from agents_kit import bank_of

from satchel.bank.open_bank import OpenBank
from satchel.ports.store import Store
from satchel.stores.memory import InMemoryStore
from satchel.stores.sqlite import SqliteStore

STORES = ["memory", "sqlite", "ladybug", "postgres"]


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """An empty store of each backend."""
    found: Store
    if request.param == "memory":
        found = InMemoryStore()
    elif request.param == "sqlite":
        found = SqliteStore(tmp_path / "store.db")
    elif request.param == "ladybug":
        from satchel.stores.ladybug import LadybugStore

        found = LadybugStore(tmp_path / "graph")
    else:
        from postgres_kit import in_schema

        from satchel.stores.postgres import PostgresStore

        schema = f"t{abs(hash(request.node.nodeid))}"
        found = PostgresStore(in_schema(request.getfixturevalue("postgres"), schema))
    yield found
    found.close()


@pytest.fixture
def bank(store: Store) -> OpenBank:
    """A bank with one agent."""
    return bank_of(store, "ada")
