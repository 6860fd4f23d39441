"""Fixtures that run tests with plain and with encrypted stores."""

from functools import partial
from pathlib import Path

import pytest

from satchel.crypto.encryption import StoreKey
from satchel.stores.sqlite import SqliteStore
from satchel.stores.sqlite.connection import is_plain

KEY = StoreKey(bytes(range(32)), b"held elsewhere")


@pytest.fixture(params=[None, KEY], ids=["plain", "encrypted"])
def at_rest(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Open all stores of a test module as plain or as encrypted ones."""
    monkeypatch.setattr(request.module, "SqliteStore", partial(SqliteStore, key=request.param))


def key_of(path: Path) -> StoreKey | None:
    """Return the key of a store that such a test created."""
    return KEY if is_plain(path) is False else None
