"""The same tests for a store in plain and for one that is encrypted at rest."""

from functools import partial
from pathlib import Path

import pytest

from satchel.crypto.encryption import StoreKey
from satchel.stores.sqlite import SqliteStore
from satchel.stores.sqlite.connection import is_plain

KEY = StoreKey(bytes(range(32)), b"held elsewhere")


@pytest.fixture(params=[None, KEY], ids=["plain", "encrypted"])
def at_rest(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have all stores that a module of tests opens be of one of both kinds."""
    monkeypatch.setattr(request.module, "SqliteStore", partial(SqliteStore, key=request.param))


def key_of(path: Path) -> StoreKey | None:
    """Return the key of a store that such a test made."""
    return KEY if is_plain(path) is False else None
