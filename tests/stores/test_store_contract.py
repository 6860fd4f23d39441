"""Every store keeps the contract."""

import itertools
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from postgres_kit import emptying, in_schema, run_sql

from satchel.conformance.stores import *  # noqa: F403
from satchel.conformance.stores import StoreSubject
from satchel.ports.store import Store
from satchel.stores.memory import MemoryStore
from satchel.stores.postgres import PostgresStore
from satchel.stores.sqlite import SqliteStore


def _memory(_: Path) -> StoreSubject:
    return StoreSubject("memory", MemoryStore)


def _sqlite(folder: Path) -> StoreSubject:
    names = itertools.count()

    def make() -> Store:
        return SqliteStore(folder / f"{next(names)}.db")

    def elsewhere(store: Store) -> Callable[[], Store]:
        return partial(SqliteStore, Path(store.name))

    return StoreSubject("sqlite", make, elsewhere, SqliteStore)


def _postgres(address: str) -> StoreSubject:
    place = in_schema(address, "contract")

    def make() -> Store:
        PostgresStore(place).close()
        run_sql(address, *emptying("contract"))
        return PostgresStore(place)

    return StoreSubject("postgresql", make, lambda store: partial(PostgresStore, place))


_SUBJECTS: dict[str, Callable[[Path], StoreSubject]] = {"memory": _memory, "sqlite": _sqlite}


@pytest.fixture(scope="session", params=[*sorted(_SUBJECTS), "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> StoreSubject:
    """Each store in turn."""
    if request.param == "postgresql":
        return _postgres(request.getfixturevalue("postgres"))
    return _SUBJECTS[request.param](tmp_path_factory.mktemp(request.param))
