"""What a server says when its disk is full, or is not forced: told, and nothing half-written."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest
from ledger_kit import created, listed, memories
from postgres_kit import run_sql, server

from satchel.errors import StoreError, StoreFullError
from satchel.ledger.examination import examine
from satchel.stores.postgres import PostgresStore

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.prove  # a server of its own each


def test_a_full_server_disk_keeps_acknowledged_appends(
    mount_small: Callable[[str], Path],
) -> None:
    """The failed append left nothing; the store is sound, and continues with space."""
    folder = mount_small("6m")
    (folder / "there").mkdir()
    with server() as one:
        shutil.chown(folder / "there", one.system_user)
        place = f"{one.get_uri()}&options=-cdefault_tablespace%3Dsmall"
        run_sql(one.get_uri(), f"CREATE TABLESPACE small LOCATION '{folder / 'there'}'")
        store = PostgresStore(place)
        ledger = created(store)
        kept = 2
        with pytest.raises(StoreFullError):  # noqa: PT012 - until it is full
            for start in range(0, 100_000, 200):
                ledger.append(memories(200, start=start))
                kept += 200
        assert kept > 200
        assert len(listed(ledger)) == kept
        assert examine(store, ledger.bank).is_sound
        store.close()
        run_sql(one.get_uri(), "DROP SCHEMA satchel CASCADE", "DROP TABLESPACE small")


def test_a_server_with_fsync_off_is_refused_for_writing() -> None:
    """A power loss would lose acknowledged writes; reading is not refused."""
    with server() as one:
        store = PostgresStore(one.get_uri())
        ledger = created(store)
        ledger.append(memories(3))
        run_sql(one.get_uri(), "ALTER SYSTEM SET fsync = off", "SELECT pg_reload_conf()")
        while run_sql(one.get_uri(), "SHOW fsync") != [("off",)]:
            pass  # it reads its settings anew a moment after it was told to
        with pytest.raises(StoreError, match="does not flush"):
            ledger.append(memories(1, start=3))
        assert len(listed(ledger)) == 5
        store.close()
