"""A bank with a code graph, on the stores that need no server."""

from pathlib import Path

import pytest
from code_kit import Coded

from satchel.stores.memory import InMemoryStore
from satchel.stores.sqlite import SqliteStore


@pytest.fixture(params=["memory", "sqlite"])
def coded(request: pytest.FixtureRequest, tmp_path: Path) -> Coded:
    """A bank without code, on each store."""
    if request.param == "memory":
        return Coded(InMemoryStore())
    store = SqliteStore(tmp_path / "bank.db")
    request.addfinalizer(store.close)  # noqa: PT021 - one of two stores has something to close
    return Coded(store)
