"""Putting the same store under another key, or under none.

SQLite writes all of it anew into a file beside it, which is looked through before it takes the
store's place. Nobody else can have the store open meanwhile, and who came too late and waited has
the old file: SQLite refuses to write to one that lost its name.
"""

import math
import os
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from urllib.parse import quote_from_bytes

import apsw

from satchel.disk.writing import left_behind, writing_by_name
from satchel.errors import StoreBusyError, StoreDamagedError
from satchel.ports.store import Progress
from satchel.seal.encryption.store_keys import StoreKey
from satchel.stores.sqlite.at_rest.pages import pages
from satchel.stores.sqlite.errors import translated
from satchel.stores.sqlite.migrations import holds
from satchel.stores.sqlite.opening import has_moved, open_for_reading, open_for_writing

_STEPS = 20_000
"""Of SQLite's machine, after which it is told how far it is."""

_BUSY_MS = 5_000


def put_under(
    path: Path,
    old: StoreKey | None,
    new: StoreKey | None,
    *,
    first: Callable[[], None],
    last: Callable[[], None],
    progress: Progress | None = None,
) -> None:
    """Write a store anew under another key, in its own place; it is there, whole, at any moment.

    Args:
        path: The store's file.
        old: Its key; None for one in plain.
        new: The key that it gets; None for none.
        first: Done when all is written and looked through, before it takes the store's place.
        last: Done when it has, before anybody else can open it to write.
        progress: Told of the bytes that are written, and how many there are about.

    Raises:
        StoreBusyError: If another program has the store open.
        StoreDamagedError: If what was written is not what was there; all is as it was.
        TargetError: If there is no room; all is as it was.
        StoreError: If the store cannot be read.
    """
    name = str(path)
    under, secret = (None if one is None else one.secret for one in (old, new))
    with closing(open_for_writing(path, busy_ms=_BUSY_MS, vfs=None, secret=under)) as connection:
        with translated(name, connection):
            _alone(connection, name)
            before = holds(connection)
        for stale in left_behind(path):
            stale.unlink()  # of one that was killed, and may be in plain; nobody else writes here
        with writing_by_name(path, overwrite=True) as temporary:
            with translated(name, connection):
                _write(connection, temporary, secret, progress)
            _compare(temporary, secret, before, name)
            first()
        last()


def _alone(connection: apsw.Connection, name: str) -> None:
    """Have the file to ourselves until the connection closes, with nothing left in a log."""
    try:
        connection.pragma("locking_mode", "exclusive")
        mode = connection.pragma("journal_mode", "delete")
        connection.execute("BEGIN EXCLUSIVE; COMMIT")
    except (apsw.BusyError, apsw.LockedError) as error:
        raise _busy(name) from error
    if mode != "delete" or has_moved(connection):  # somebody put another file there while we waited
        raise _busy(name)


def _busy(name: str) -> StoreBusyError:
    return StoreBusyError(
        "another program has the store open, or is changing its key",
        file=name,
        hint="Stop it (satchel serve, satchel mcp, satchel watch), and try again.",
    )


def _write(
    connection: apsw.Connection, path: Path, secret: bytes | None, progress: Progress | None
) -> None:
    # An empty key is none: without one, the new file would get that of the old.
    keyed = "key=" if secret is None else f"cipher=chacha20&key=raw:{secret.hex()}"
    address = f"file:{quote_from_bytes(os.fsencode(path))}?{keyed}"
    whole = math.prod(pages(connection))

    def tell() -> bool:
        if progress is not None:
            progress(min(path.stat().st_size, whole), whole)
        return False

    connection.set_progress_handler(tell, _STEPS)
    try:
        connection.execute("VACUUM INTO ?", (address,))
    finally:
        connection.set_progress_handler(None)
    tell()


def _compare(path: Path, secret: bytes | None, before: object, name: str) -> None:
    opened = open_for_reading(path, busy_ms=_BUSY_MS, vfs=None, secret=secret).connection
    with closing(opened), translated(str(path), opened):
        problems = opened.execute("PRAGMA integrity_check(1)").fetchall()
        if problems != [("ok",)] or holds(opened) != before:
            raise StoreDamagedError(
                "the rewritten store differs from the original",
                file=name,
                hint="Nothing was changed. See: satchel doctor.",
            )
