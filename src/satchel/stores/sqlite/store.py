"""The SQLite store: one writer at a time, any number of readers, durable commits.

WAL with ``synchronous=FULL``: with NORMAL, a power failure may lose acknowledged commits.
"""

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from itertools import count
from pathlib import Path
from types import NoneType
from typing import Any

import apsw

from satchel.crypto.encryption import StoreKey
from satchel.crypto.log import leaf_position
from satchel.errors import (
    ReadOnlyStoreError,
    StoreBusyError,
    StoreDamagedError,
    StoreError,
    StoreVersionError,
    UsageError,
)
from satchel.ports.rows import PENDING, Row
from satchel.ports.store import (
    ColumnChange,
    Commit,
    Extent,
    Progress,
    RangeChange,
    RetiredFilter,
    StoreTraits,
    beside,
)
from satchel.stores.sqlite.connection import (
    STEPS,
    Log,
    ReadConnection,
    Step,
    answers,
    closing_on_error,
    copy_database,
    deferred,
    has_moved,
    immediate,
    indexed,
    is_current,
    log_at,
    migrate,
    open_for_reading,
    open_for_writing,
    save_log,
    transaction,
    undisturbed,
    watch,
)
from satchel.stores.sqlite.encryption import copied_key, laid_open, require_key
from satchel.stores.sqlite.reader import Spreads, SqliteBlobsWriter, SqliteVectorsWriter, SqliteView
from satchel.stores.sqlite.statements import (
    SLOT_INDEX,
    VERSION,
    Kinds,
    decoding,
    make,
    require_no_triggers,
    stored_version,
    translated,
)
from satchel.stores.sqlite.word_index import WordIndexes
from satchel.stores.text_search import is_searched, thread_of
from satchel.stores.vectors import (
    NODE_BITS,
    SEQ_BITS,
    SEQ_MASK,
    links_of,
    raw_id,
    raw_slot,
    words_of,
)

_INSERT = "INSERT INTO record VALUES (" + ", ".join("?" * 18) + ")"  # noqa: S608 - our own names
_WAS = {
    RetiredFilter.CURRENT: "retired IS NULL",
    RetiredFilter.RETIRED: "retired >= 0",
    RetiredFilter.PENDING: f"retired = {PENDING}",
}
_RETIRE = "UPDATE record SET retired = ? WHERE place BETWEEN ? AND ?"
_SEARCHED = """
SELECT place, run, session, body FROM record WHERE place BETWEEN ? AND ? AND body IS NOT NULL
AND (retired IS NULL OR retired = -1) ORDER BY place LIMIT 1000"""
_INDEX = "INSERT INTO words (rowid, terms) VALUES (?, ?)"
_ERASED = "SELECT place, run, session, body FROM record WHERE place IN "
_ERASED_KINDS: Kinds = (int, (str, NoneType), (str, NoneType), (bytes, NoneType))
_EMPTY = """
UPDATE record SET body = NULL, slot = NULL, kind = NULL, user = NULL, agent = NULL, run = NULL,
app = NULL, session = NULL, moment = NULL, expires_at = NULL WHERE place = ?"""
_TOGETHER = 256


class SqliteTransaction(SqliteView):
    """A write transaction."""

    def append(self, bank: str, commit: Commit) -> None:
        with self._whole():
            number = self._bank(bank, commit)
            # Rows that leave a slot first, so that it is free for its next holder.
            for sweep in commit.sweeps:
                if sweep.retired is not None:
                    self._sweep(number, sweep)
            last = {change.seq: change for change in commit.changes}
            for change in sorted(last.values(), key=lambda change: change.retired is None):
                self._change(number, change)
            for sweep in commit.sweeps:
                self._sweep(number, sweep)
            if commit.erased:
                self._erase(number, commit.erased)
            if commit.replaced:
                self._put_back(number, commit.replaced)
            self._add(number, commit.rows)
            self._index(number, commit.rows)
            if commit.rows:
                first = (number << NODE_BITS) + leaf_position(commit.rows[0].seq)
                self._many("INSERT INTO node VALUES (?, ?)", enumerate(commit.nodes, first))
            self.put_side(bank, commit.side)

    @property
    def vectors(self) -> SqliteVectorsWriter:
        return SqliteVectorsWriter(self._connection, self._name)

    @property
    def blobs(self) -> SqliteBlobsWriter:
        return SqliteBlobsWriter(self._connection, self._name)

    def _bank(self, bank: str, commit: Commit) -> int:
        """Set a bank's head, and return its number."""
        sql = "UPDATE bank SET head = ?, peaks = ? WHERE id = ? RETURNING number"
        rows = self._all(sql, *commit.head, bank)
        if not rows:
            sql = "INSERT INTO bank (id, head, peaks) VALUES (?, ?, ?) RETURNING number"
            rows = self._all(sql, bank, *commit.head)
        return int(rows[0][0])

    def _add(self, number: int, rows: Sequence[Row]) -> None:
        first = number << SEQ_BITS
        self._many(_INSERT, (_values(row, number, first + row.seq) for row in rows))
        links = (
            (number, link.source, link.target, link.kind, first + row.seq)
            for row in rows
            for link in row.links
        )
        self._many("INSERT OR IGNORE INTO link VALUES (?, ?, ?, ?, ?)", links)

    def _index(self, number: int, rows: Sequence[Row]) -> None:
        """Index the words of entries: its own and those of the turn before it."""
        self._many(_INDEX, self._indexed(number, rows))

    def _indexed(self, number: int, rows: Sequence[Row]) -> Iterator[tuple[int, str]]:
        first, before = number << SEQ_BITS, dict[tuple[str, str], str]()
        for row in rows:
            text = self.indexed_text(number, row, before)
            if row.text and is_searched(row):
                yield first + row.seq, text

    def _change(self, number: int, change: ColumnChange) -> None:
        rowid = (number << SEQ_BITS) + change.seq
        sql = "UPDATE record SET retired = ?, hold = ? WHERE place = ?"
        self._all(sql, change.retired, int(change.hold), rowid)
        self._all("DELETE FROM words WHERE rowid = ?", rowid)
        if change.retired in (None, PENDING):
            self._index_again(number, rowid, rowid)

    def _sweep(self, number: int, sweep: RangeChange) -> None:
        first, last = (number << SEQ_BITS) + sweep.first, (number << SEQ_BITS) + sweep.last
        if sweep.hold is not None:
            sql = "UPDATE record SET hold = ? WHERE place BETWEEN ? AND ?"
            self._all(sql, int(sweep.hold), first, last)
        if sweep.was is None:
            return
        self._all(f"{_RETIRE} AND {_WAS[sweep.was]}", sweep.retired, first, last)
        if sweep.was is RetiredFilter.RETIRED:
            self._index_again(number, first, last)
        elif sweep.retired is not None:
            self._all("DELETE FROM words WHERE rowid BETWEEN ? AND ?", first, last)

    def _index_again(self, number: int, first: int, last: int) -> None:
        """Index the words of rows that become searchable again."""
        at = first - 1
        while rows := self._all(_SEARCHED, at + 1, last):
            self._many("DELETE FROM words WHERE rowid = ?", ((rowid,) for rowid, *_ in rows))
            for at, run, session, body in rows:
                spoken = {"text": words_of(body), "run": run, "session": session}
                row = Row(seq=at & SEQ_MASK, id="", type="", at="", body=body, **spoken)
                self._index(number, [row])

    def _erase(self, number: int, erased: Sequence[int]) -> None:
        """Empty rows; the row after each in its session or run is indexed without its words."""
        first, followed = number << SEQ_BITS, list[tuple[str, str, int]]()
        with self._overwriting():
            for start in range(0, len(erased), _TOGETHER):
                rowids = [first + seq for seq in erased[start : start + _TOGETHER]]
                for rowid, *columns in self._in(_ERASED, rowids, _ERASED_KINDS):
                    followed += self._emptied(number, rowid, *columns)
        after = set[int]()
        for column, value, rowid in followed:
            after.update(self._after(number, (column, value), rowid))
        for rowid in sorted(after):
            self._index_again(number, rowid, rowid)

    def _put_back(self, number: int, rows: Sequence[Row]) -> None:
        """Replace emptied rows."""
        after = set[int]()
        for row in rows:
            self._all("DELETE FROM record WHERE place = ?", (number << SEQ_BITS) + row.seq)
            self._add(number, [row])
            self._index(number, [row])
            after.update(self._next_rowid(number, row, thread_of(row)))
        for rowid in sorted(after):  # their index rows include the words of those before them
            self._index_again(number, rowid, rowid)

    def _emptied(
        self, number: int, rowid: int, run: str | None, session: str | None, body: bytes | None
    ) -> Iterator[tuple[str, str, int]]:
        """Empty one row, and yield its thread, with its row key."""
        self._all(_EMPTY, rowid)
        self._all("DELETE FROM words WHERE rowid = ?", rowid)
        self._unlink(number, rowid, body)
        self._drop_vectors(number, rowid & SEQ_MASK, rowid & SEQ_MASK)
        thread = thread_of(Row(seq=0, id="", type="", at="", body=body, run=run, session=session))
        if thread is not None:
            yield (*thread, rowid)

    def _unlink(self, number: int, rowid: int, body: bytes | None) -> None:
        """Remove the links of a row: those in its bytes, or all of a damaged one."""
        links = links_of(body) if body is not None else None
        if links is None:
            self._all("DELETE FROM link WHERE bank = ? AND place = ?", number, rowid)
            return
        sql = "DELETE FROM link WHERE (bank, source, kind, target, place) = (?, ?, ?, ?, ?)"
        self._many(sql, ((number, link.source, link.kind, link.target, rowid) for link in links))

    def _drop_vectors(self, number: int, first: int, last: int) -> None:
        """Remove the vectors of a range of the log; a generation exists while it has any."""
        sql = "SELECT number FROM generation WHERE bank = ?"
        for (generation,) in self._all(sql, number, kinds=(int,)):
            start = self._start(generation, SEQ_BITS)
            sql = "DELETE FROM vector WHERE place BETWEEN ? AND ?"
            self._all(sql, start + first, start + last)
            sql = "SELECT 1 FROM vector WHERE place BETWEEN ? AND ? LIMIT 1"
            if not self._all(sql, start, start + SEQ_MASK):
                self._all("DELETE FROM generation WHERE number = ?", generation)

    @contextmanager
    def _overwriting(self) -> Iterator[None]:
        """Overwrite data that is deleted in a block."""
        before = self._all("PRAGMA secure_delete")[0][0]
        self._all("PRAGMA secure_delete = 1")
        try:
            yield
        finally:
            self._all(f"PRAGMA secure_delete = {int(before)}")

    def remove(self, bank: str) -> None:
        with self._whole(), self._overwriting():
            self._all("DELETE FROM side WHERE bank = ?", bank)
            if self.head(bank) is None:
                return
            number = self._number(bank)
            first = number << SEQ_BITS
            self._drop_vectors(number, 0, SEQ_MASK)
            for digest, _ in list(self.blobs.listed(bank)):
                self.blobs.drop(bank, digest)
            self._all("DELETE FROM words WHERE rowid BETWEEN ? AND ?", first, first + SEQ_MASK)
            self._all("DELETE FROM record WHERE place BETWEEN ? AND ?", first, first + SEQ_MASK)
            self._all("DELETE FROM link WHERE bank = ?", number)
            nodes = number << NODE_BITS
            sql = "DELETE FROM node WHERE place BETWEEN ? AND ?"
            self._all(sql, nodes, nodes + (1 << NODE_BITS) - 1)
            self._all("DELETE FROM bank WHERE number = ?", number)

    def rewrite(self, bank: str, rows: Iterable[Row]) -> None:
        number = self._number(bank)
        first = number << SEQ_BITS
        with self._whole():
            # Rows may exchange slots.
            self._all("DROP INDEX record_slot")
            self._all("REINDEX")
            after = set[int]()
            for row in rows:
                rowid = first + row.seq
                for _, run, session, _ in self._in(_ERASED, [rowid], _ERASED_KINDS):
                    previous = Row(
                        seq=0, id="", type="", at="", body=None, run=run, session=session
                    )
                    after.update(self._next_rowid(number, row, thread_of(previous)))
                after.update(self._next_rowid(number, row, thread_of(row)))
                self._all("DELETE FROM record WHERE place = ?", rowid)
                self._all("DELETE FROM link WHERE bank = ? AND place = ?", number, rowid)
                self._all("DELETE FROM words WHERE rowid = ?", rowid)
                if row.body is None:
                    self._drop_vectors(number, row.seq, row.seq)
                self._add(number, [row])
                self._index(number, [row])
            self._all(SLOT_INDEX)
            for rowid in sorted(after):  # their index rows include the words of those before them
                self._index_again(number, rowid, rowid)

    def _next_rowid(self, number: int, row: Row, thread: tuple[str, str] | None) -> list[int]:
        return [] if thread is None else self._after(number, thread, (number << SEQ_BITS) + row.seq)

    def _after(self, number: int, thread: tuple[str, str], rowid: int) -> list[int]:
        """Return the key of the next row in a session or run, if any."""
        sql = (
            f"SELECT place FROM record WHERE bank = ? AND {thread[0]} = ? AND place > ?"  # noqa: S608 - one of two words
            " ORDER BY place LIMIT 1"
        )
        return [following for (following,) in self._all(sql, number, thread[1], rowid)]

    def put_nodes(self, bank: str, first: int, nodes: Sequence[bytes]) -> None:
        places = enumerate(nodes, (self._number(bank) << NODE_BITS) + first)
        self._many("INSERT OR REPLACE INTO node VALUES (?, ?)", places)

    def put_side(self, bank: str, values: Mapping[str, bytes | None]) -> None:
        removed = [(bank, name) for name, value in values.items() if value is None]
        stored = [(bank, name, value) for name, value in values.items() if value is not None]
        self._many("DELETE FROM side WHERE bank = ? AND name = ?", removed)
        self._many("INSERT OR REPLACE INTO side VALUES (?, ?, ?)", stored)


def _values(row: Row, number: int, rowid: int) -> tuple[Any, ...]:
    return (
        *(rowid, number, raw_id(row.id), row.type, row.at, row.body, row.batch, row.retired),
        *(int(row.hold), raw_slot(row.slot), row.kind, row.user, row.agent, row.run, row.app),
        *(row.session, row.moment, row.expires_at),
    )


BUSY_MS = 30_000
"""How long to wait for another writer."""


_SAVED = {
    True: "all its content is in the file now",
    False: "the latest writes may be lost",
}

_parents: list[apsw.Connection] = []
"""Connections of the parent in a child process, referenced so that they are never closed."""


class SqliteStore:
    """Banks in one database file.

    May be used from any thread, and after a fork: every thread of every process has a connection of
    its own. An older file is migrated when it is opened for writing. A view that was open when the
    process forked is the parent's; in the child it cannot be read, and leaving its block does
    nothing. Do not fork within ``writing``.

    Args:
        path: The file; created when missing.
        read_only: Open an existing file for reading only, also on read-only media.
        busy_ms: How long to wait for another writer.
        vfs: Name of the SQLite file system to use.
        steps: Migrations of older files, as ``STEPS``.
        key: Its key, as ``key_for`` returns it; None for a plain file.

    Raises:
        StoreVersionError: If the file is not Satchel's, or newer; or older, for reading only.
        PathRefusedError: If it or a file beside it is a link, or writable by others.
        EncryptionError: If it is encrypted with another key.
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
        self.migration_backup: Path | None = None
        """The copy of the file before this object migrated it."""
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
        self._is_created = False
        self._connection()
        self._is_created = True
        watch(self)

    @contextmanager
    def reading(self) -> Iterator[SqliteView]:
        """Open a consistent view.

        Raises:
            StoreBusyError: Also at the end, if a program wrote that had not opened the store before
                it was opened for reading; then discard what was read. The next view takes locks.
        """
        connection, seen, serial = self._opened()
        if connection.in_transaction:  # within a block of the same thread: the same view
            yield SqliteView(connection, self.name, indexes=self._word_indexes, serial=serial)
            return
        alone = nullcontext() if seen is None else undisturbed(self.path, seen)
        try:
            with (
                transaction() as here,
                alone,
                translated(self.name, connection),
                deferred(connection, here),
            ):
                yield SqliteView(
                    connection,
                    self.name,
                    self._spreads,
                    indexes=self._word_indexes,
                    serial=serial,
                )
        except StoreBusyError:
            self._disturbed = True  # the next view takes locks
            raise

    @contextmanager
    def writing(self) -> Iterator[SqliteTransaction]:
        """Open a write transaction; committed when the block ends without an error.

        Raises:
            StoreError: Also at the end, if the file was deleted or replaced in the meantime: then
                the changes are lost.
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
            yield SqliteTransaction(connection, self.name, serial=serial)
        if has_moved(connection):
            raise self._vanished()
        self._require_log(connection)

    def copy_to(self, path: Path, *, progress: Progress | None = None) -> None:
        """Copy the store to a new file, while others use it.

        The copy is private, complete or absent, and flushed to disk; that of an encrypted store has
        the same key, written beside it. Memory is bounded. Within a view, the view is copied.

        Raises:
            TargetExistsError: If ``path`` exists, or files that SQLite would treat as a part of the
                copy.
            TargetError: If it cannot be written.
            UsageError: Within a write transaction.
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
        """Rewrite the index of words and the whole file without removed data; empty the log.

        Needs as much free space as the file has. ``docs/decisions/0016`` explains why.

        Raises:
            StoreBusyError: If another reader or writer does not finish in time.
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
        """Yield the file, its log, and the copies of it before migrations.

        Another store beside it whose name begins with its name is included.
        """
        if self._secret is None:
            yield from beside(self.path)
        else:
            yield from laid_open(self._connection(), self.path, self._secret)

    def out_of_reach(self) -> list[str]:
        return []

    def check(self) -> list[str]:
        """Return the findings of SQLite's own check."""
        connection = self._connection()
        try:
            with decoding(self.name, connection):
                found = connection.execute("PRAGMA integrity_check(100)").fetchall()
        except StoreDamagedError as error:  # so badly that the check itself fails
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
        """Close, in a child process, the parent's connections."""
        for connection in self._open:
            # One in a write transaction stays open: closing it here would end the parent's.
            with suppress(apsw.Error):
                if connection.txn_state("main") != apsw.SQLITE_TXN_WRITE:
                    connection.close()
        _parents.extend(self._open)
        self._open = []
        self._log = None
        self._local = threading.local()

    def _connection(self) -> apsw.Connection:
        return self._opened().connection

    def _opened(self) -> ReadConnection:
        """Return the connection of this thread, reopened if it is no longer usable."""
        held: ReadConnection | None = getattr(self._local, "held", None)
        if held is not None:
            if held.connection.in_transaction or self._is_usable(held):
                return held
            self._local.held = None
            self._open.remove(held.connection)
            held.connection.close()
            self._log = None  # the last connection removes it
        if self._is_created and not self._is_filled():
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

    def _is_usable(self, held: ReadConnection) -> bool:
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
        """Require that the open log was not deleted or replaced.

        Raises:
            StoreError: If it was. Its contents are written to the file first, if possible.
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

    def _for_reading(self) -> ReadConnection:
        opened = open_for_reading(
            self.path,
            busy_ms=self._busy_ms,
            vfs=self._vfs,
            with_locks=self._disturbed,
            secret=self._secret,
        )
        with closing_on_error(self.path, opened.connection):
            version = stored_version(opened.connection, self.name)
            if version is None:
                raise StoreVersionError("the store is empty", file=self.name)
            if version < VERSION:
                raise StoreVersionError(
                    f"the store has version {version}, this program reads version {VERSION}",
                    file=self.name,
                    hint="Open it once for writing: it is upgraded, and a copy is kept.",
                )
        return opened

    def _for_writing(self) -> ReadConnection:
        connection = open_for_writing(
            self.path, busy_ms=self._busy_ms, vfs=self._vfs, secret=self._secret
        )
        with closing_on_error(self.path, connection):
            version = stored_version(connection, self.name)  # before anything is changed
            connection.pragma("journal_mode", "wal")
            connection.pragma("synchronous", "full")
            connection.pragma(
                "user_version"
            )  # opens the log of a file without one, to keep it open
            if version is None and self._is_created:
                raise self._vanished()
            if version is None:
                with immediate(connection):
                    # Another process may have created them.
                    if stored_version(connection, self.name) is None:
                        make(connection)
            elif version < VERSION:
                backup = migrate(
                    connection, self.path, self._steps, busy_ms=self._busy_ms, secret=self._secret
                )
                self.migration_backup = backup or self.migration_backup
        return ReadConnection(connection, None)
