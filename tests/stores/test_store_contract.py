"""Every store keeps the contract."""

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import psycopg
import pytest
from hypothesis import settings
from postgres_kit import emptying, in_schema

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


@contextmanager
def _postgres(address: str) -> Iterator[StoreSubject]:
    place = in_schema(address, "contract")
    PostgresStore(place).close()
    with psycopg.connect(address, autocommit=True) as connection:

        def make() -> Store:
            # Making the tables anew takes a tenth of a second, and a property asks for a hundred.
            connection.execute(emptying("contract"))
            return PostgresStore(place)

        yield StoreSubject("postgresql", make, lambda _: partial(PostgresStore, place))


_SUBJECTS: dict[str, Callable[[Path], StoreSubject]] = {"memory": _memory, "sqlite": _sqlite}


@pytest.fixture(scope="session", params=[*sorted(_SUBJECTS), "postgresql"])
def store(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[StoreSubject]:
    """Each store in turn."""
    if request.param == "postgresql":
        with _postgres(request.getfixturevalue("postgres")) as subject:
            yield subject
    else:
        yield _SUBJECTS[request.param](tmp_path_factory.mktemp(request.param))


@pytest.fixture(autouse=True)
def fewer_examples(
    store: StoreSubject, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Try a server with fewer examples of a property: each takes it twenty times as long."""
    kept = "_hypothesis_internal_use_settings"  # the suite's functions are those of all stores
    whole = getattr(request.function, kept, None)
    if store.name == "postgresql" and whole is not None:
        fewer = settings(whole, max_examples=max(_FEWEST, whole.max_examples // 10))
        monkeypatch.setattr(request.function, kept, fewer)


_FEWEST = 6
