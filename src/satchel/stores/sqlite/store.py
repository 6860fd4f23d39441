"""The SQLite store: one writer at a time, any number of readers, durable when it says so.

WAL with ``synchronous=FULL``: with NORMAL, a power loss takes acknowledged commits with it.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import apsw

from satchel.disk.private import secure_database
from satchel.errors import ReadOnlyStoreError
from satchel.ports.store import StoreTraits
from satchel.stores.sqlite.errors import translated
from satchel.stores.sqlite.forking import transaction, watch
from satchel.stores.sqlite.reading import View
from satchel.stores.sqlite.schema import prepare
from satchel.stores.sqlite.writing import Transaction

BUSY_MS = 30_000
"""How long to wait for another writer."""

_CACHE_KIB = 16 * 1024

_parents: list[apsw.Connection] = []
"""Of a child: what it came with, kept from being closed when nobody names it any more."""


class SqliteStore:
    """Banks in one database file.

    May be used from any thread, and after a fork: every thread of every process has a connection
    of its own. A view that was open when the process forked is the parent's; in the child it
    cannot be read, and leaving its block does nothing. Do not fork within ``writing``.

    Args:
        path: The file; made when it is not there.
        read_only: Open what is there for reading only, also on media that cannot be written.
        busy_ms: How long to wait for another writer.
        vfs: Name of the SQLite file system to use.
    """

    traits = StoreTraits(full_text=True, concurrent_writers=True, raw_copy=True)

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
        watch(self)

    @contextmanager
    def reading(self) -> Iterator[View]:
        """Give a consistent view."""
        connection = self._connection()
        if connection.in_transaction:  # within a block of the same thread: the same view
            yield View(connection, self.name)
            return
        with transaction() as here, translated(self.name):
            connection.execute("BEGIN")
            try:
                yield View(connection, self.name)
            finally:
                if here():
                    connection.execute("ROLLBACK")

    @contextmanager
    def writing(self) -> Iterator[Transaction]:
        """Give the right to write; committed when the block ends without an error."""
        if self._read_only:
            raise ReadOnlyStoreError("the store was opened for reading", file=self.name)
        connection = self._connection()
        with transaction() as here, translated(self.name):
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield Transaction(connection, self.name)
                connection.execute("COMMIT")
            finally:
                # A commit that failed, on a full disk for one, leaves the transaction open.
                if here() and connection.in_transaction:
                    connection.execute("ROLLBACK")

    def close(self) -> None:
        """Close the connections of all threads."""
        for connection in self._open:
            connection.close()
        self._open.clear()
        self._local = threading.local()

    def forget_parent(self) -> None:
        """Close, in a child, the connections that it came with."""
        for connection in self._open:
            # One in the middle of a write is left alone: ending it here would end the parent's.
            with suppress(apsw.Error):
                if connection.txn_state("main") != apsw.SQLITE_TXN_WRITE:
                    connection.close()
        _parents.extend(self._open)
        self._open = []
        self._local = threading.local()

    def _connection(self) -> apsw.Connection:
        held: apsw.Connection | None = getattr(self._local, "held", None)
        if held is not None:
            return held
        with transaction(), translated(self.name):
            held = self._opened()
        self._local.held = held
        self._open.append(held)
        return held

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
