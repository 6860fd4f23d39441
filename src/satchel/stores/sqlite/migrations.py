"""Bringing an older file up to date, once, with a copy of how it was kept beside it.

The copy is made and the steps are taken under one lock, so that nothing is written in between;
all steps are one transaction with the new version number, so a program that is killed leaves the
old file. The result is checked before it is committed.
"""

from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from types import MappingProxyType
from typing import Any

import apsw

from satchel.disk.writing import left_behind
from satchel.errors import StoreVersionError
from satchel.memory.times import now
from satchel.stores.sqlite.copying import copy_database
from satchel.stores.sqlite.errors import damaged
from satchel.stores.sqlite.opening import deferred, immediate, open_for_reading
from satchel.stores.sqlite.schema import VERSION, found_version

Step = str | Callable[[apsw.Connection], object]
"""SQL, or what works on a connection inside the transaction, that leads to the next version."""

STEPS: Mapping[int, Step] = MappingProxyType({})
"""By the version that each step leads away from. Nothing older than version 1 was released."""

_BANKS = """
SELECT bank.id, bank.head, bank.peaks, count(record.place),
    (SELECT count(*) FROM node), (SELECT count(*) FROM piece)
FROM bank LEFT JOIN record ON record.bank = bank.number GROUP BY bank.number ORDER BY bank.number
"""


def migrate(
    connection: apsw.Connection,
    path: Path,
    steps: Mapping[int, Step],
    *,
    busy_ms: int,
    secret: bytes | None = None,
) -> Path | None:
    """Bring a file to ``VERSION`` and return the copy of how it was; None if another just did.

    Several programs may try at once; one does it, the others wait for it.

    Args:
        connection: Opened for writing.
        path: The file.
        steps: As ``STEPS``.
        busy_ms: How long to wait for another writer.
        secret: Its key, where it is encrypted; the copy has the same.

    Raises:
        StoreVersionError: If no step leads from its version.
        StoreDamagedError: If it is damaged, or the steps lost something; it is as it was.
        TargetError: If there is no room for the copy; it is as it was.
        apsw.Error: If it cannot be written; it is as it was.
    """
    name = str(path)
    with immediate(connection):
        version = found_version(connection, name)
        if version is None or version == VERSION:
            return None
        versions = range(version, VERSION)
        if any(each not in steps for each in versions):
            raise StoreVersionError(f"cannot upgrade from version {version}", file=name)
        kept = _keep(path, version, busy_ms, secret)
        try:
            _advance(connection, name, [steps[each] for each in versions])
        except BaseException:
            kept.unlink(missing_ok=True)
            raise
    return kept


def _keep(path: Path, version: int, busy_ms: int, secret: bytes | None) -> Path:
    """Copy a file that is locked against writing, and return where."""
    stem = path.with_name(f"{path.name}.v{version}")
    for stale in left_behind(stem):
        stale.unlink()  # of one that was killed; whoever holds the lock is the only one
    kept = stem.with_name(f"{stem.name}.{now().replace(':', '-')}.bak")
    # SQLite does not copy what the same connection might be writing.
    source = open_for_reading(path, busy_ms=busy_ms, vfs=None, secret=secret).connection
    with closing(source), deferred(source):
        copy_database(source, kept, progress=None, vfs=None, secret=secret)
    return kept


def _advance(connection: apsw.Connection, name: str, steps: list[Step]) -> None:
    before = holds(connection)
    for step in steps:
        if isinstance(step, str):
            connection.execute(step)
        else:
            step(connection)
    connection.pragma("user_version", VERSION)
    found = connection.execute("PRAGMA quick_check").fetchall()
    if found != [("ok",)]:
        raise damaged(name, str(found[0][0]))
    if holds(connection) != before:
        raise damaged(name, "upgrading it would lose records")
    # A full disk says so here, and not when it is being committed.
    connection.cache_flush()


def holds(connection: apsw.Connection) -> list[Any]:
    """Return each bank's head, and what cannot be built again, counted."""
    return connection.execute(_BANKS).fetchall()
