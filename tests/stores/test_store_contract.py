"""Every store keeps the contract."""

import itertools
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from hypothesis import settings

from satchel.conformance.stores import *  # noqa: F403
from satchel.conformance.stores import StoreSubject
from satchel.ports.store import Store
from satchel.stores.ladybug import LadybugStore
from satchel.stores.memory import MemoryStore
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


def _ladybug(folder: Path) -> StoreSubject:
    names = itertools.count()

    def make() -> Store:
        return LadybugStore(folder / f"{next(names)}.graph")

    def elsewhere(store: Store) -> Callable[[], Store]:
        return partial(LadybugStore, Path(store.name))

    return StoreSubject("ladybug", make, elsewhere)


_SUBJECTS: dict[str, Callable[[Path], StoreSubject]] = {
    "ladybug": _ladybug,
    "memory": _memory,
    "sqlite": _sqlite,
}


_EXAMPLES = {"ladybug": 0.1}
"""Of the examples of a property, the share that a store is tried with: making one takes time."""


@pytest.fixture(scope="session", params=sorted(_SUBJECTS))
def store(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[StoreSubject]:
    """Each store in turn."""
    profile = settings.get_current_profile_name()
    share = _EXAMPLES.get(request.param, 1)
    most = max(5, int(settings().max_examples * share))
    settings.register_profile("share", settings.get_profile(profile), max_examples=most)
    settings.load_profile("share")
    yield _SUBJECTS[request.param](tmp_path_factory.mktemp(request.param))
    settings.load_profile(profile)
