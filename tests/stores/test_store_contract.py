"""Every store passes the contract suite."""

import itertools
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import psycopg
import pytest
from at_rest_kit import KEY
from hypothesis import is_hypothesis_test, settings
from postgres_kit import emptying, in_schema

from satchel.conformance.stores import *  # noqa: F403
from satchel.conformance.stores import StoreSubject
from satchel.ports.store import Store
from satchel.stores.ladybug import LadybugStore
from satchel.stores.memory import InMemoryStore
from satchel.stores.postgres import PostgresStore
from satchel.stores.sqlite import SqliteStore


def _memory(_: Path) -> StoreSubject:
    return StoreSubject("memory", InMemoryStore)


def _sqlite(folder: Path) -> StoreSubject:
    names = itertools.count()

    def make() -> Store:
        return SqliteStore(folder / f"{next(names)}.db")

    def elsewhere(store: Store) -> Callable[[], Store]:
        return partial(SqliteStore, Path(store.name))

    return StoreSubject("sqlite", make, elsewhere, SqliteStore)


def _encrypted(folder: Path) -> StoreSubject:
    names = itertools.count()

    def make() -> Store:
        return SqliteStore(folder / f"{next(names)}.db", key=KEY)

    def elsewhere(store: Store) -> Callable[[], Store]:
        return partial(SqliteStore, Path(store.name), key=KEY)

    return StoreSubject("sqlite encrypted", make, elsewhere, partial(SqliteStore, key=KEY))


def _ladybug(folder: Path) -> StoreSubject:
    names, empty = itertools.count(), folder / "empty.graph"
    LadybugStore(empty).close()

    def make() -> Store:
        # A copy of an empty one: making the tables takes longer than most of what is tried.
        return LadybugStore(Path(shutil.copytree(empty, folder / f"{next(names)}.graph")))

    def elsewhere(store: Store) -> Callable[[], Store]:
        return partial(LadybugStore, Path(store.name))

    return StoreSubject("ladybug", make, elsewhere)


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


_SUBJECTS: dict[str, Callable[[Path], StoreSubject]] = {
    "ladybug": _ladybug,
    "memory": _memory,
    "sqlite": _sqlite,
    "sqlite encrypted": _encrypted,
}

_SHARE = {"ladybug": 0.06, "postgresql": 0.1, "sqlite encrypted": 0.2}
"""Of the examples of a property, the share that a store is tried with: making some takes time."""

_FEWEST = 6


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
    """Use fewer examples of a property if a store is slow to make."""
    share = _SHARE.get(store.name, 1)
    if share < 1 and is_hypothesis_test(request.function):
        own = "_hypothesis_internal_use_settings"  # the only access after ``@given``
        whole = getattr(request.function, own)
        most = max(_FEWEST, int(whole.max_examples * share))
        monkeypatch.setattr(request.function, own, settings(whole, max_examples=most))
