"""Tables and statements. One row a record, keyed by bank number and log position.

``place = number << 40 | seq`` is the integer key, so a bank is one stretch of the table, in log
order, and the full-text index needs no key of its own. Everything but ``body``, ``node``,
``bank``, ``blob`` and ``piece`` can be rebuilt from the log (``doctor`` does, and compares);
vectors need their model as well.
"""

import errno
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import apsw

from satchel.errors import (
    ReadOnlyStoreError,
    SatchelError,
    SlotTakenError,
    StoreBusyError,
    StoreDamagedError,
    StoreError,
    StoreFullError,
    StoreVersionError,
    UnknownBankError,
)
from satchel.ports.rows import CONFIG, NAME
from satchel.ports.store import StoredHead
from satchel.stores.vectors import NODE_BITS, SEQ_BITS, SEQ_MASK, StoreTables, damaged_store

APPLICATION_ID = 0x53415443
"""Marks the file as ours (``SATC``)."""

VERSION = 1
"""The version of the tables; a newer file is refused, an older one is migrated."""

SLOT_INDEX = (
    "CREATE UNIQUE INDEX record_slot ON record (bank, slot)"
    " WHERE slot IS NOT NULL AND retired IS NULL"
)

NAMING = f"(place & {SEQ_MASK} = 0 OR type = '{CONFIG}')"
"""The condition on the rows that may name a bank."""

NAME_BYTES = 100
"""Bytes of such a row in the index, from the name on."""

_SAYS = f"instr(body, X'{NAME.hex()}')"
NAME_SAID = (
    f"CASE WHEN {_SAYS} = 0 THEN NULL"
    f" WHEN instr(substr(body, {_SAYS} + 1), X'{NAME.hex()}') > 0 THEN X''"
    f" ELSE substr(body, {_SAYS}, {NAME_BYTES}) END"
)
"""These bytes; empty for a row with several names, which is scanned."""

NAME_INDEX = f"CREATE INDEX record_name ON record ({NAME_SAID}) WHERE {NAMING}"
"""The index of names. Not every file has it: see ``index_names``."""

_TABLES = f"""
CREATE TABLE bank (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    head BLOB NOT NULL,
    peaks BLOB NOT NULL
) STRICT;
CREATE TABLE record (
    place INTEGER PRIMARY KEY,
    bank INTEGER NOT NULL,
    id BLOB NOT NULL,
    type TEXT NOT NULL,
    at TEXT NOT NULL,
    body BLOB,
    batch INTEGER NOT NULL,
    retired INTEGER,
    hold INTEGER NOT NULL,
    slot BLOB,
    kind TEXT,
    user TEXT,
    agent TEXT,
    run TEXT,
    app TEXT,
    session TEXT,
    moment TEXT,
    expires_at TEXT
) STRICT;
CREATE UNIQUE INDEX record_id ON record (id, bank);
CREATE INDEX record_type ON record (bank, type);
{SLOT_INDEX};
{NAME_INDEX};
CREATE INDEX record_user ON record (bank, user) WHERE user IS NOT NULL AND retired IS NULL;
CREATE INDEX record_run ON record (bank, run) WHERE run IS NOT NULL;
CREATE INDEX record_session ON record (bank, session) WHERE session IS NOT NULL;
CREATE TABLE link (
    bank INTEGER NOT NULL,
    source TEXT NOT NULL,
    target TEXT NOT NULL,
    kind TEXT NOT NULL,
    place INTEGER NOT NULL,
    PRIMARY KEY (bank, source, kind, target, place)
) STRICT, WITHOUT ROWID;
CREATE INDEX link_target ON link (bank, target);
CREATE TABLE node (place INTEGER PRIMARY KEY, hash BLOB NOT NULL) STRICT;
CREATE TABLE side (
    bank TEXT NOT NULL,
    name TEXT NOT NULL,
    value BLOB NOT NULL,
    PRIMARY KEY (bank, name)
) STRICT, WITHOUT ROWID;
CREATE TABLE generation (
    number INTEGER PRIMARY KEY,
    bank INTEGER NOT NULL,
    model TEXT NOT NULL,
    dimensions INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    UNIQUE (bank, model, dimensions, generation)
) STRICT;
CREATE TABLE vector (
    place INTEGER PRIMARY KEY, -- number of the generation << 40 | place in the log
    width INTEGER NOT NULL,
    numbers BLOB NOT NULL
) STRICT;
CREATE TABLE blob (
    number INTEGER PRIMARY KEY,
    bank INTEGER NOT NULL,
    digest BLOB, -- none while it is being put
    size INTEGER NOT NULL,
    UNIQUE (bank, digest)
) STRICT;
CREATE TABLE piece (
    place INTEGER PRIMARY KEY, -- number of the blob << 24 | index
    data BLOB NOT NULL
) STRICT;
CREATE VIRTUAL TABLE words USING fts5 (
    terms, content = '', contentless_delete = 1, tokenize = 'porter unicode61 remove_diacritics 2'
);
"""


# One statement, one view: another process may be making the tables.
_MARKS = """
SELECT * FROM pragma_application_id, pragma_user_version, (SELECT count(*) FROM sqlite_schema)
"""
_FOREIGN = "SELECT 1 FROM sqlite_schema WHERE type NOT IN ('table', 'index') LIMIT 1"


def stored_version(connection: apsw.Connection, name: str) -> int | None:
    """Return the version of the tables of a file; None for an empty one.

    Raises:
        StoreVersionError: If the file is not Satchel's, or newer than this program.
    """
    found: list[Any] = connection.execute(_MARKS).fetchall()
    ((application, version, tables),) = found
    if (application, version, tables) == (0, 0, 0):
        return None
    if application != APPLICATION_ID:
        raise StoreVersionError("this is not a Satchel database", file=name)
    if version > VERSION:
        raise StoreVersionError(
            f"the store has version {version}, this program reads up to {VERSION}",
            file=name,
            hint="Use a newer satchel.",
        )
    require_no_triggers(connection, name)
    return int(version)


def require_no_triggers(connection: apsw.Connection, name: str) -> None:
    """Refuse a file with triggers or views, which would act on behalf of a writer.

    Raises:
        StoreDamagedError: If it has some.
    """
    if connection.execute(_FOREIGN).fetchall():
        raise StoreDamagedError(
            "the store has triggers or views, which are not ours",
            file=name,
            hint="It was changed by another program. Restore it: satchel backup restore.",
        )


def make(connection: apsw.Connection) -> None:
    """Create the tables in an empty file, inside a transaction."""
    connection.execute(_TABLES)
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {VERSION}")


def has_names(connection: apsw.Connection) -> bool:
    """Return whether names have exactly the expected index."""
    sql = "SELECT sql FROM sqlite_schema WHERE type = 'index' AND name = 'record_name'"
    return connection.execute(sql).fetchall() == [(NAME_INDEX,)]


def index_names(connection: apsw.Connection) -> None:
    """Add the index of names to a file of an older program, inside a transaction.

    The version stays the same: SQLite maintains the index itself, whichever program writes.
    """
    (version,) = connection.execute("PRAGMA user_version").fetchall()
    if version == (VERSION,) and lacks_names(connection):
        connection.execute(NAME_INDEX)


def lacks_names(connection: apsw.Connection) -> bool:
    """Return whether names have no index at all."""
    return not connection.execute("SELECT 1 FROM pragma_index_info('record_name')").fetchall()


_NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT})


def translated(
    name: str, connection: apsw.Connection | None = None
) -> AbstractContextManager[None]:
    """Translate errors of SQLite in a block.

    Args:
        name: The store's name.
        connection: The connection, for the last error of the system.

    Raises:
        StoreError: With a hint.
    """
    return _Translated(name, connection)


def decoding(name: str, connection: apsw.Connection) -> AbstractContextManager[None]:
    """Translate errors of decoding damaged rows, and of SQLite, in a block.

    Raises:
        StoreError: As ``translated``.
    """
    return _Decoding(name, connection)


class _Translated:
    """A context for each statement: a class costs a third of a generator."""

    __slots__ = ("_connection", "_name")

    def __init__(self, name: str, connection: apsw.Connection | None) -> None:
        self._name = name
        self._connection = connection

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, apsw.Error):
            raise _ours(error, self._name, self._connection) from error


class _Decoding(_Translated):
    __slots__ = ()

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, UnicodeDecodeError):
            raise damaged(self._name, "it contains invalid text") from error
        super().__exit__(kind, error, trace)


def _ours(error: apsw.Error, name: str, connection: apsw.Connection | None) -> SatchelError:
    """Return the error for an error of SQLite."""
    if isinstance(error, apsw.BusyError | apsw.LockedError):
        return StoreBusyError(
            "another process is writing and did not finish in time",
            file=name,
            hint="Try again; if nothing else runs, see: satchel doctor.",
        )
    if isinstance(error, apsw.FullError | apsw.IOError | apsw.CantOpenError):
        return _failed(name, error, connection)
    if isinstance(error, apsw.ReadOnlyError):
        return ReadOnlyStoreError("the store is read-only", file=name)
    if isinstance(error, apsw.CorruptError | apsw.NotADBError):
        return damaged(name, str(error))
    if not isinstance(error, apsw.ConstraintError):
        return StoreError(f"the store failed: {error}", file=name)
    if "record.slot" in str(error):
        return SlotTakenError("a current record for the same key or origin already exists")
    return StoreError(f"rejected by the store: {error}", file=name)


def damaged(name: str, problem: str) -> StoreDamagedError:
    """Return the error for a file whose contents are invalid."""
    return damaged_store(name, problem, "the file")


def _failed(name: str, error: apsw.Error, connection: apsw.Connection | None) -> StoreError:
    """Return the error for a failure of the system; SQLite reports a full disk only sometimes."""
    said = connection.system_errno if connection is not None else 0
    if (
        isinstance(error, apsw.FullError)
        or said in _NO_SPACE
        or getattr(error, "extendedresult", 0)
        == apsw.SQLITE_IOERR_SHMSIZE  # the index of the log cannot grow
    ):
        return StoreFullError("no space left", file=name, hint="Free disk space and run again.")
    if isinstance(error, apsw.CantOpenError):
        return StoreError(
            "the store cannot be opened",
            file=name,
            hint="Check that the folder exists, and its permissions.",
        )
    return StoreError(f"the store failed: {error}", file=name)


Kinds = Sequence[type | tuple[type, ...]]
"""The type of each column. SQLite checks it on writing; a damaged file may have any."""

_NAMED = "SELECT id FROM bank WHERE length(head) > 0 AND number IN ({found}) ORDER BY id"
_INDEXED = "SELECT place >> {bits} FROM record INDEXED BY record_name WHERE {naming} AND {said}"
_BY_INDEX = _NAMED.format(
    found=" UNION ".join(
        _INDEXED.format(bits=SEQ_BITS, naming=NAMING, said=said) + " AND instr(body, ?1) > 0"
        for said in (f"{NAME_SAID} >= ?2 AND {NAME_SAID} < ?3", f"{NAME_SAID} = X''")
    )
)
# Each by a key: the first place of a bank, and the places of its rows of a type.
_ONE_BY_ONE = _NAMED.format(
    found=f"""
    SELECT number FROM bank CROSS JOIN record ON record.place = number << {SEQ_BITS}
    WHERE instr(body, ?1) > 0
    UNION
    SELECT number FROM bank CROSS JOIN record INDEXED BY record_type
    ON record.bank = number AND record.type = '{CONFIG}' WHERE instr(body, ?1) > 0"""  # noqa: S608 - our own names
)
_MOST_AT_ONCE = 500
_PADDED_TO = 32


class SqliteStatements(StoreTables):
    """Running statements, on a connection in a transaction."""

    def __init__(self, connection: apsw.Connection, name: str) -> None:
        self._connection = connection
        self._name = name

    def _number(self, bank: str) -> int:
        rows = self._all("SELECT number FROM bank WHERE id = ?", bank)
        if not rows:
            raise UnknownBankError(f"there is no bank {bank} here", file=self._name)
        self._start(rows[0][0], NODE_BITS)
        return int(rows[0][0])

    def _all(self, sql: str, *values: Any, kinds: Kinds | None = None) -> list[Any]:
        with decoding(self._name, self._connection):
            cursor = self._connection.execute(sql, values)
            rows = cursor.fetchall()
        if kinds is not None and rows:
            self._require_kinds(list(zip(*rows, strict=True)), kinds)
        return rows

    def _each(self, sql: str, *values: Any, kinds: Kinds | None) -> Iterator[Any]:
        with decoding(self._name, self._connection):
            cursor = self._connection.execute(sql, values)
            try:
                yield from cursor if kinds is None else self._typed(cursor, kinds)
            finally:
                # A reader that stops early, or runs another query, leaves no running statement:
                # apsw 3.54.0.0 never frees a cursor beside which another one ended. (Nor one that
                # is closed so: this is not for those that are read at once.)
                cursor.close(force=True)

    def _in(self, sql: str, values: Sequence[Any], kinds: Kinds) -> list[Any]:
        rows = []
        for start in range(0, len(values), _MOST_AT_ONCE):
            part = [*values[start : start + _MOST_AT_ONCE]]
            # Padded with the last value: few lengths are few statements to prepare.
            part += part[-1:] * (-len(part) % _PADDED_TO)
            rows += self._all(f"{sql}({', '.join('?' * len(part))})", *part, kinds=kinds)
        return rows

    def _many(self, sql: str, values: Iterable[Sequence[Any]]) -> None:
        with translated(self._name, self._connection):
            self._connection.executemany(sql, values)

    def _require_kinds(self, columns: Sequence[Sequence[Any]], kinds: Kinds) -> None:
        """Check the columns of many rows, as ``_typed`` checks each row."""
        for column, kind in zip(columns, kinds, strict=True):
            if not all(issubclass(actual, kind) for actual in set(map(type, column))):
                raise damaged(self._name, "a column contains an invalid value")

    def _typed(self, rows: Iterable[Any], kinds: Kinds) -> Iterator[Any]:
        seen = set[tuple[type, ...]]()  # most rows are like the one before
        for row in rows:
            actual = tuple(map(type, row))
            if actual not in seen:
                if not all(map(isinstance, row, kinds)):
                    raise damaged(self._name, "a column contains an invalid value")
                seen.add(actual)
            yield row

    @contextmanager
    def _whole(self) -> Iterator[None]:
        """Roll back a block that fails, and only that, whatever the transaction around it does."""
        if not self._connection.in_transaction:
            # After an error such as a full disk; a savepoint would be committed on its own now.
            raise StoreError("the transaction was already rolled back", file=self._name)
        with translated(self._name, self._connection):
            self._connection.execute("SAVEPOINT whole")
            try:
                yield
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK TO whole")
                    self._connection.execute("RELEASE whole")
                raise
            self._connection.execute("RELEASE whole")


class SqliteBanks(SqliteStatements):
    """Queries for banks."""

    def banks(self, start: str = "", *, limit: int | None = None) -> list[str]:
        sql, values = "SELECT id FROM bank WHERE length(head) > 0", list[Any]()
        if start:
            sql += " AND id >= ? AND id < ?"
            values += (start, start[:-1] + chr(ord(start[-1]) + 1))
        sql += " ORDER BY id LIMIT ?"  # a negative one is no limit
        values.append(-1 if limit is None else limit)
        return [bank for (bank,) in self._all(sql, *values, kinds=(str,))]

    def named(self, fragment: bytes) -> list[str]:
        rows = list[Any]()
        with decoding(self._name, self._connection):
            is_indexed = has_names(self._connection)
        if is_indexed:
            *first, last = start = fragment[:NAME_BYTES]
            rows = self._all(_BY_INDEX, fragment, start, bytes((*first, last + 1)), kinds=(str,))
        if not rows:  # the index alone cannot show that no bank has the name
            rows = self._all(_ONE_BY_ONE, fragment, kinds=(str,))
        return [bank for (bank,) in rows]

    def begun(self) -> list[str]:
        sql = "SELECT id FROM bank WHERE length(head) = 0 ORDER BY id"
        return [bank for (bank,) in self._all(sql, kinds=(str,))]

    def head(self, bank: str) -> StoredHead | None:
        sql = "SELECT head, peaks FROM bank WHERE id = ?"
        rows = self._all(sql, bank, kinds=(bytes, bytes))
        return StoredHead(*rows[0]) if rows else None
