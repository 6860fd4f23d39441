"""Banks in each store."""

from collections.abc import Callable
from pathlib import Path

import pytest
from recall_kit import Remembering

from satchel.stores.memory import InMemoryStore
from satchel.stores.sqlite import SqliteStore


@pytest.fixture
def make_bank(tmp_path: Path) -> Callable[[str], Remembering]:
    """Return a function that makes a bank in a new store of a kind."""

    def make(kind: str) -> Remembering:
        store = InMemoryStore() if kind == "memory" else SqliteStore(tmp_path / "recalled.db")
        return Remembering(store)

    return make


@pytest.fixture(params=["memory", "sqlite"])
def bank(request: pytest.FixtureRequest, make_bank: Callable[[str], Remembering]) -> Remembering:
    """A bank in each store in turn."""
    return make_bank(request.param)
