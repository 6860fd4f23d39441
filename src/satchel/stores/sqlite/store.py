"""The SQLite store: one writer at a time, any number of readers, durable when it says so.

WAL with ``synchronous=FULL``: with NORMAL, a power loss takes acknowledged commits with it.
"""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw

from satchel.disk.private import secure_database
from satchel.errors import ReadOnlyStoreError
from satchel.ports.store import StoreTraits
from satchel.stores.sqlite.errors import decoding, translated
from satchel.stores.sqlite.reading import View
from satchel.stores.sqlite.schema import prepare
from satchel.stores.sqlite.writing import Transaction

BUSY_MS = 30_000
"""How long to wait for another writer."""

_CACHE_KIB = 16 * 1024


class SqliteStore:
    """Banks in one database file.

    May be used from any thread, and after a fork: every thread of every process has a connection
    of its own.

    Args:
        path: The file; made when it is not there.
        read_only: Open what is there for reading only, also on media that cannot be written.
        busy_ms: How long to wait for another writer.
        vfs: Name of the SQLite file system to use.
    """

    traits = StoreTraits(full_text=True, vectors=True, concurrent_writers=True, raw_copy=True)

    def __init__(
        self,
        path: Path,
        *,
        read_only: bool = False,
        busy_ms: int = BUSY_MS,
        vfs: str | None = None,
    ) -> None:
        self.path = path
        self.name = str(path)
        self._read_only = read_only
        self._busy_ms = busy_ms
        self._vfs = vfs
        self._local = threading.local()
        self._open: list[apsw.Connection] = []
        self._connection()

    @contextmanager
    def reading(self) -> Iterator[View]:
        """Give a consistent view."""
        connection = self._connection()
        if connection.in_transaction:  # within a block of the same thread: the same view
            yield View(connection, self.name)
            return
        with translated(self.name):
            connection.execute("BEGIN")
            try:
                yield View(connection, self.name)
            finally:
                connection.execute("ROLLBACK")

    @contextmanager
    def writing(self) -> Iterator[Transaction]:
        """Give the right to write; committed when the block ends without an error."""
        if self._read_only:
            raise ReadOnlyStoreError("the store was opened for reading", file=self.name)
        connection = self._connection()
        with translated(self.name):
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield Transaction(connection, self.name)
                connection.execute("COMMIT")
            finally:
                # A commit that failed, on a full disk for one, leaves the transaction open.
                if connection.in_transaction:
                    connection.execute("ROLLBACK")

    def check(self) -> list[str]:
        """Return what SQLite's own check finds."""
        connection = self._connection()
        with decoding(self.name):
            found = connection.execute("PRAGMA integrity_check(100)").fetchall()
        return [str(message) for (message,) in found if message != "ok"]

    def close(self) -> None:
        """Close the connections of all threads."""
        for connection in self._open:
            connection.close()
        self._open.clear()
        self._local = threading.local()

    def _connection(self) -> apsw.Connection:
        held = getattr(self._local, "held", None)
        if held is not None and held[0] == os.getpid():
            return held[1]  # type: ignore[no-any-return]
        with translated(self.name):
            connection = self._opened()
        # A connection that came through a fork is left alone: closing it would drop our locks.
        self._local.held = (os.getpid(), connection)
        self._open.append(connection)
        return connection

    def _opened(self) -> apsw.Connection:
        flags = apsw.SQLITE_OPEN_NOFOLLOW | apsw.SQLITE_OPEN_URI
        name = self.name
        if self._read_only:
            flags |= apsw.SQLITE_OPEN_READONLY
        else:
            flags |= apsw.SQLITE_OPEN_READWRITE
            secure_database(self.path, own_folder=False)
        connection = apsw.Connection(name, flags=flags, vfs=self._vfs)
        connection.set_busy_timeout(self._busy_ms)
        connection.pragma("cache_size", -_CACHE_KIB)
        connection.pragma("trusted_schema", 0)
        if not self._read_only:
            connection.pragma("journal_mode", "wal")
            connection.pragma("synchronous", "full")
        prepare(connection, self.name)
        return connection
