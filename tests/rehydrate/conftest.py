"""Banks in each store."""

from pathlib import Path

import pytest
from recall_kit import Remembering

from satchel.stores.memory import InMemoryStore
from satchel.stores.sqlite import SqliteStore


@pytest.fixture(params=["memory", "sqlite"])
def bank(request: pytest.FixtureRequest, tmp_path: Path) -> Remembering:
    """A bank in each store in turn."""
    if request.param == "memory":
        return Remembering(InMemoryStore())
    return Remembering(SqliteStore(tmp_path / "waking.db"))
