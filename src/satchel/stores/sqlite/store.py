"""The SQLite store: one writer at a time, any number of readers, durable when it says so.

WAL with ``synchronous=FULL``: with NORMAL, a power loss takes acknowledged commits with it.
"""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from itertools import count
from pathlib import Path

import apsw

from satchel.disk.databases.ciphers import answers
from satchel.errors import (
    ReadOnlyStoreError,
    StoreBusyError,
    StoreDamagedError,
    StoreError,
    StoreVersionError,
    UsageError,
)
from satchel.ports.store import Extent, Progress, StoreTraits
from satchel.seal.encryption.store_keys import StoreKey
from satchel.stores.raw_files import beside
from satchel.stores.sqlite.at_rest.key_files import copied_key, require_key
from satchel.stores.sqlite.at_rest.pages import laid_open
from satchel.stores.sqlite.copying import copy_database
from satchel.stores.sqlite.errors import decoding, translated
from satchel.stores.sqlite.forking import transaction, watch
from satchel.stores.sqlite.migrations import STEPS, Step, migrate
from satchel.stores.sqlite.opening import (
    Log,
    Opened,
    closing_on_error,
    deferred,
    has_moved,
    immediate,
    indexed,
    is_current,
    log_at,
    open_for_reading,
    open_for_writing,
    save_log,
    undisturbed,
)
from satchel.stores.sqlite.reading import Spreads, View
from satchel.stores.sqlite.schema import VERSION, found_version, make, require_no_triggers
from satchel.stores.sqlite.word_index import WordIndexes
from satchel.stores.sqlite.writing import Transaction

BUSY_MS = 30_000
"""How long to wait for another writer."""


_SAVED = {
    True: "all its content is in the file now",
    False: "the latest writes may be lost",
}

_parents: list[apsw.Connection] = []
"""Of a child: what it came with, kept from being closed when nobody names it any more."""


class SqliteStore:
    """Banks in one database file.

    May be used from any thread, and after a fork: every thread of every process has a connection
    of its own. An older file is brought up to date when it is opened for writing. A view that was
    open when the process forked is the parent's; in the child it cannot be read, and leaving its
    block does nothing. Do not fork within ``writing``.

    Args:
        path: The file; made when it is not there.
        read_only: Open what is there for reading only, also on media that cannot be written.
        busy_ms: How long to wait for another writer.
        vfs: Name of the SQLite file system to use.
        steps: How older files are brought up to date, as ``migrations.STEPS``.
        key: What it is encrypted under; ``at_rest.key_files`` finds it. None for one in plain.

    Raises:
        StoreVersionError: If the file is not ours, or newer; or older and only to be read.
        PathRefusedError: If it or a file beside it is a link, or somebody else's to be written.
        EncryptionError: If it is encrypted, and that is not its key.
        StoreError: If it cannot be opened.
    """

    traits = StoreTraits(
        full_text=True, vectors=True, traversal=True, concurrent_writers=True, raw_copy=True
    )

    def __init__(
        self,
        path: Path,
        *,
        read_only: bool = False,
        busy_ms: int = BUSY_MS,
        vfs: str | None = None,
        steps: Mapping[int, Step] = STEPS,
        key: StoreKey | None = None,
    ) -> None:
        self.path = path
        self.name = str(path)
        self.kept: Path | None = None
        """The copy of how the file was before this object brought it up to date."""
        self._read_only = read_only
        self._disturbed = False
        self._busy_ms = busy_ms
        self._vfs = vfs
        self._steps = steps
        self._key = key
        self._secret = None if key is None else key.secret
        self._local = threading.local()
        self._spreads: Spreads = {}
        self._word_indexes: WordIndexes = {}
        self._open: list[apsw.Connection] = []
        self._log: Log | None = None
        self._serials = count(1)
        self._is_made = False
        self._connection()
        self._is_made = True
        watch(self)

    @contextmanager
    def reading(self) -> Iterator[View]:
        """Give a consistent view.

        Raises:
            StoreBusyError: Also at the end, if somebody wrote beneath who was not there when
                a store for reading was opened; then nothing that was read counts. The next
                view is not disturbed again.
        """
        connection, seen, serial = self._opened()
        if connection.in_transaction:  # within a block of the same thread: the same view
            yield View(connection, self.name, indexes=self._word_indexes, serial=serial)
            return
        alone = nullcontext() if seen is None else undisturbed(self.path, seen)
        try:
            with (
                transaction() as here,
                alone,
                translated(self.name, connection),
                deferred(connection, here),
            ):
                yield View(
                    connection,
                    self.name,
                    self._spreads,
                    indexes=self._word_indexes,
                    serial=serial,
                )
        except StoreBusyError:
            self._disturbed = True  # the next view is to stand
            raise

    @contextmanager
    def writing(self) -> Iterator[Transaction]:
        """Give the right to write; committed when the block ends without an error.

        Raises:
            StoreError: Also at the end, if the file was deleted or replaced meanwhile: then what
                was written is lost.
        """
        if self._read_only:
            raise ReadOnlyStoreError("the store was opened read-only", file=self.name)
        connection, _, serial = self._opened()
        with (
            transaction() as here,
            translated(self.name, connection),
            indexed(connection, here),
            immediate(connection, here),
        ):
            if connection.execute("PRAGMA user_version").fetchall() != [(VERSION,)]:
                raise StoreVersionError(
                    "the store was upgraded by a newer version",
                    file=self.name,
                    hint="Use a newer satchel.",
                )
            require_no_triggers(connection, self.name)
            yield Transaction(connection, self.name, serial=serial)
        if has_moved(connection):
            raise self._vanished()
        self._require_log(connection)

    def copy_to(self, path: Path, *, progress: Progress | None = None) -> None:
        """Copy the store as it is now to a new file, while others use it.

        The copy is private, whole or not there, and forced to disk; that of an encrypted store
        has the same key, which is put beside it. Memory is bounded. Inside a
        block that reads, its view is what is copied.

        Raises:
            TargetExistsError: If there is something at ``path``, or files that SQLite would take
                for a part of the copy.
            TargetError: If it cannot be written.
            UsageError: Inside a block that writes.
            StoreError: If the store cannot be read.
        """
        connection = self._connection()
        if connection.txn_state("main") == apsw.SQLITE_TXN_WRITE:
            raise UsageError(
                "the store cannot be copied during a write transaction", file=self.name
            )
        with self.reading(), copied_key(path, self._key):
            copy_database(connection, path, progress=progress, vfs=self._vfs, secret=self._secret)

    def scrub(self) -> None:
        """Write the words and then the whole file anew without what was removed; empty the log.

        Needs as much space again as the file has. ``docs/decisions/0016`` says why all three.

        Raises:
            StoreBusyError: If somebody reads or writes and does not end in time.
            UsageError: Within a block of the same thread.
        """
        if self._read_only:
            raise ReadOnlyStoreError("the store was opened read-only", file=self.name)
        connection = self._connection()
        if connection.in_transaction:
            raise UsageError("a store cannot be scrubbed while it is being read", file=self.name)
        with transaction(), translated(self.name, connection):
            connection.execute("INSERT INTO words (words) VALUES ('optimize')")
            connection.execute("VACUUM")
            ((busy, _, _),) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        if busy:
            raise StoreBusyError(
                "another program reads the store, so its log could not be emptied",
                file=self.name,
                hint="The records are erased; run again to remove their bytes.",
            )

    def laid_open(self) -> Iterator[Extent]:
        """Yield the file, its log, and the copies of how it was before it was brought up to date.

        Another store beside it whose name goes on from this one's is looked through as well.
        """
        if self._secret is None:
            yield from beside(self.path)
        else:
            yield from laid_open(self._connection(), self.path, self._secret)

    def out_of_reach(self) -> list[str]:
        return []

    def check(self) -> list[str]:
        """Return what SQLite's own check finds."""
        connection = self._connection()
        try:
            with decoding(self.name, connection):
                found = connection.execute("PRAGMA integrity_check(100)").fetchall()
        except StoreDamagedError as error:  # so badly that the check itself ends there
            return [error.message]
        return [str(message) for (message,) in found if message != "ok"]

    def close(self) -> None:
        """Close the connections of all threads."""
        for connection in self._open:
            connection.close()
        self._open.clear()
        self._log = None
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
        self._log = None
        self._local = threading.local()

    def _connection(self) -> apsw.Connection:
        return self._opened().connection

    def _opened(self) -> Opened:
        """Return what this thread has open, opened again where that cannot be used any more."""
        held: Opened | None = getattr(self._local, "held", None)
        if held is not None:
            if held.connection.in_transaction or self._is_usable(held):
                return held
            self._local.held = None
            self._open.remove(held.connection)
            held.connection.close()
            self._log = None  # who leaves last removes it
        if self._is_made and not self._is_filled():
            raise self._vanished()
        if self._open:
            self._require_log()
        try:
            with transaction():
                opened = self._for_reading() if self._read_only else self._for_writing()
        except StoreDamagedError:
            if self._key is None:
                require_key(self.path)
            raise
        opened = opened._replace(serial=next(self._serials))
        if opened.seen is None:
            self._log = log_at(self.name)
        self._local.held = opened
        self._open.append(opened.connection)
        return opened

    def _is_usable(self, held: Opened) -> bool:
        connection, seen, _ = held
        if not is_current(self.path, seen) or has_moved(connection):
            return False
        if seen is None:
            self._require_log(connection)
        return self._secret is None or answers(connection)

    def _is_filled(self) -> bool:
        try:
            return self.path.stat().st_size > 0
        except FileNotFoundError:
            return False

    def _vanished(self) -> StoreError:
        return StoreError(
            "the file of the store was deleted or replaced while it was in use",
            file=self.name,
            hint="Move it back, or restore it: satchel backup restore. See: satchel doctor.",
        )

    def _require_log(self, connection: apsw.Connection | None = None) -> None:
        """Require that the log which is in use has not been deleted or replaced.

        Raises:
            StoreError: If it was. What it holds is brought into the file first, where that can be.
        """
        if self._log is None or None in self._log:
            return
        database, log, index = log_at(self.name)
        if database != self._log[0] or (log, index) == self._log[1:]:
            return
        is_saved = log is None and connection is not None and save_log(connection)
        raise StoreError(
            "the log of the store (its -wal or -shm file) was deleted or replaced while it was in"
            " use; " + _SAVED[is_saved],
            file=self.name,
            hint="Close every program that uses the store, then see: satchel doctor --deep",
        )

    def _for_reading(self) -> Opened:
        opened = open_for_reading(
            self.path,
            busy_ms=self._busy_ms,
            vfs=self._vfs,
            with_locks=self._disturbed,
            secret=self._secret,
        )
        with closing_on_error(self.path, opened.connection):
            version = found_version(opened.connection, self.name)
            if version is None:
                raise StoreVersionError("the store is empty", file=self.name)
            if version < VERSION:
                raise StoreVersionError(
                    f"the store has version {version}, this program reads version {VERSION}",
                    file=self.name,
                    hint="Open it once for writing: it is upgraded, and a copy is kept.",
                )
        return opened

    def _for_writing(self) -> Opened:
        connection = open_for_writing(
            self.path, busy_ms=self._busy_ms, vfs=self._vfs, secret=self._secret
        )
        with closing_on_error(self.path, connection):
            version = found_version(connection, self.name)  # before anything is changed
            connection.pragma("journal_mode", "wal")
            connection.pragma("synchronous", "full")
            connection.pragma("user_version")  # opens the log of a file that had none, to keep it
            if version is None and self._is_made:
                raise self._vanished()
            if version is None:
                with immediate(connection):
                    # Another process may have been faster.
                    if found_version(connection, self.name) is None:
                        make(connection)
            elif version < VERSION:
                kept = migrate(
                    connection, self.path, self._steps, busy_ms=self._busy_ms, secret=self._secret
                )
                self.kept = kept or self.kept
        return Opened(connection, None)
