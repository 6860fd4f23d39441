"""A store in one schema of a PostgreSQL database."""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from types import MappingProxyType
from typing import Any

from satchel.crypto.log import leaf_position
from satchel.errors import (
    ReadOnlyStoreError,
    StoreBusyError,
    StoreError,
    StoreVersionError,
    UsageError,
)
from satchel.model.values import now
from satchel.ports.rows import PENDING, Row
from satchel.ports.store import (
    ColumnChange,
    Commit,
    Extent,
    RangeChange,
    RetiredFilter,
    StoredHead,
    StoreTraits,
)
from satchel.runtime.processes import in_child
from satchel.stores.postgres.connection import PostgresConnections, read_address
from satchel.stores.postgres.reader import PostgresView
from satchel.stores.postgres.statements import (
    DRIVER,
    MOST_PLACE,
    TABLES,
    VERSION,
    OwnTransactions,
    PostgresSession,
    damaged,
    extension_of,
    make,
    raw_text,
    same,
    stored_version,
    translated,
)
from satchel.stores.postgres.vectors import PostgresBlobsWriter, PostgresVectorsWriter
from satchel.stores.postgres.words import RECORD_TYPES, WORD_TYPES, values_of
from satchel.stores.text_search import thread_of
from satchel.stores.vectors import words_of

_ERRORS = DRIVER.errors

_MOST = 40
_SEGMENTS = "SELECT count(*) FROM pg_ls_waldir()"


def written_over(connection: Any) -> bool:
    """Overwrite the unused segments of the server's log; return whether that was done.

    The server recycles an unused segment under a new name, with its old bytes until it is written.
    So there are as many rounds as segments, usually of 16 MiB.
    """
    try:
        ((segments,),) = connection.execute(_SEGMENTS).fetchall()
        connection.execute("CHECKPOINT")
        for _ in range(min(int(segments) + 2, _MOST)):
            connection.execute("SELECT pg_switch_wal()")
            connection.execute("CHECKPOINT")
    except _ERRORS.InsufficientPrivilege:
        return False
    return int(segments) + 2 <= _MOST


Connecting = Callable[[], AbstractContextManager[Any]]
"""Opens a connection for a block."""

_PIECE = 1 << 20
_MAY_READ = """
SELECT has_function_privilege('pg_read_binary_file(text,bigint,bigint,boolean)', 'EXECUTE')
AND has_function_privilege('pg_ls_waldir()', 'EXECUTE')"""
_MAY_SWITCH = "SELECT has_function_privilege('pg_switch_wal()', 'EXECUTE')"
# Tables and indexes of the schema, their TOAST tables, and sampled values.
_FILES = """
WITH own AS (
  SELECT oid, reltoastrelid FROM pg_class
  WHERE relnamespace = %s::regnamespace OR oid = 'pg_statistic'::regclass
), aside AS (SELECT reltoastrelid AS oid FROM own WHERE reltoastrelid <> 0)
SELECT pg_relation_filepath(oid) FROM own
UNION SELECT pg_relation_filepath(oid) FROM aside
UNION SELECT pg_relation_filepath(indexrelid) FROM pg_index JOIN aside ON indrelid = oid"""
_LOG = "SELECT 'pg_wal/' || name FROM pg_ls_waldir() ORDER BY name"
_READ_FILE = "SELECT pg_read_binary_file(%s, %s, %s, true)"


def laid_open(connecting: Connecting, schema: str) -> Iterator[Extent]:
    """Yield the files of a schema and of the server's log; none if the role may not read them."""
    with connecting() as connection:
        if connection.execute(_MAY_READ).fetchall() != [(True,)]:
            return
        tables = [path for (path,) in connection.execute(_FILES, (schema,)).fetchall() if path]
        log = [path for (path,) in connection.execute(_LOG).fetchall()]
    # A checkpoint moves bytes from the log to the tables and recycles the log. A scan of the
    # tables first could miss bytes that another client's checkpoint moves in the meantime.
    for path in log:
        yield Extent(path, lambda path=path: _file(connecting, path))  # type: ignore[misc]
    for path in sorted(tables):
        yield Extent(path, lambda path=path: _table(connecting, path))  # type: ignore[misc]


def out_of_reach(connecting: Connecting) -> list[str]:
    """Return where the server may have bytes that cannot be scanned, in words."""
    locations = ["replicas, snapshots and base backups of the server"]
    with connecting() as connection:
        if connection.execute(_MAY_READ).fetchall() != [(True,)]:
            locations.append("the server's files, which this role may not read")
        if connection.execute(_MAY_SWITCH).fetchall() != [(True,)]:
            locations.append("the server's log (pg_wal), which this role may not overwrite")
        if connection.execute("SHOW archive_mode").fetchall() != [("off",)]:
            locations.append("the archive of the server's log")
    return locations


def _table(connecting: Connecting, path: str) -> Iterator[bytes]:
    """Yield the bytes of a table, in several files if it is large."""
    number = 0
    while True:
        name, exists = path if not number else f"{path}.{number}", False
        for piece in _file(connecting, name):
            exists = True
            yield piece
        if not exists:
            return
        number += 1


def _file(connecting: Connecting, path: str) -> Iterator[bytes]:
    at = 0
    with connecting() as connection:
        while True:
            ((piece,),) = connection.execute(_READ_FILE, (path, at, _PIECE)).fetchall()
            if not piece:
                return
            yield bytes(piece)
            at += len(piece)


_WAS = {
    RetiredFilter.CURRENT: "retired IS NULL",
    RetiredFilter.RETIRED: "retired >= 0",
    RetiredFilter.PENDING: f"retired = {PENDING}",
}
_STRETCH = "bank = %s AND seq BETWEEN %s AND %s"
_SEARCHED = f"""
SELECT seq, run, session, body FROM record WHERE {_STRETCH} AND body IS NOT NULL
AND (retired IS NULL OR retired = {PENDING}) ORDER BY seq LIMIT 100"""  # noqa: S608 - our own names
_SAID = "SELECT run, session, body FROM record WHERE bank = %s AND seq = %s"
_EMPTY = """
UPDATE record SET body = NULL, slot = NULL, kind = NULL, "user" = NULL, agent = NULL, run = NULL,
app = NULL, session = NULL, moment = NULL, expires_at = NULL WHERE bank = %s AND seq = %s"""
_MADE = """
INSERT INTO bank (id, head, peaks, changed, changed_by)
VALUES (%s, %s, %s, nextval('change'), %s) RETURNING number"""
_MOVED = """
UPDATE bank SET head = %s, peaks = %s, changed = nextval('change'), changed_by = %s
WHERE number = %s"""
_SIDE = """
INSERT INTO side (bank, name, value) VALUES (%s, %s, %s)
ON CONFLICT (bank, sha256(name)) DO UPDATE SET value = excluded.value"""
_NODE = """
INSERT INTO node VALUES (%s, %s, %s) ON CONFLICT (bank, place) DO UPDATE SET hash = excluded.hash"""
_NEW_BANK = "SELECT pg_advisory_xact_lock(hashtextextended(current_schema() || %s, 0))"
_LOCK = "LOCK TABLE bank IN EXCLUSIVE MODE"
_LINK_TYPES = ("bigint", "bigint", "bytea", "bytea", "bytea")


class PostgresTransaction(PostgresView):
    """A write transaction. A bank is locked from its first use until the block ends."""

    def __init__(self, session: PostgresSession, own: OwnTransactions) -> None:
        super().__init__(session, own)
        session.locked = self._locked

    def banks(self, start: str = "", *, limit: int | None = None) -> list[str]:
        # No other client may add one while the caller relies on the result.
        self._all(_LOCK)
        return super().banks(start, limit=limit)

    def named(self, fragment: bytes) -> list[str]:
        self._all(_LOCK)
        return super().named(fragment)

    def append(self, bank: str, commit: Commit) -> None:
        with self._whole():
            number = self._bank(bank, commit.head)
            # Rows that leave a slot first, so that it is free for its next holder.
            for sweep in commit.sweeps:
                if sweep.retired is not None:
                    self._sweep(number, sweep)
            last = {change.seq: change for change in commit.changes}
            for change in sorted(last.values(), key=lambda change: change.retired is None):
                self._change(number, change)
            for sweep in commit.sweeps:
                self._sweep(number, sweep)
            for seq in commit.erased:
                self._erase(number, seq)
            if commit.replaced:
                self.rewrite(bank, commit.replaced)
            self._add(number, commit.rows)
            if commit.rows:
                first = leaf_position(commit.rows[0].seq)
                nodes = [(number, place, node) for place, node in enumerate(commit.nodes, first)]
                self._add_rows("node", ("bigint", "bigint", "bytea"), nodes)
            self.put_side(bank, commit.side)

    @property
    def vectors(self) -> PostgresVectorsWriter:
        return PostgresVectorsWriter(self._session)

    @property
    def blobs(self) -> PostgresBlobsWriter:
        return PostgresBlobsWriter(self._session)

    def side(self, bank: str, prefix: str = "") -> dict[str, bytes]:
        self._known(bank)
        return super().side(bank, prefix)

    def remove(self, bank: str) -> None:
        number = self._known(bank)
        with self._whole():
            self._all("DELETE FROM side WHERE bank = %s", bank)
            if number is None:
                return
            for table in ("piece", "blob", "vector", "generation", "word", "link", "node"):
                self._all(f"DELETE FROM {table} WHERE bank = %s", number)  # noqa: S608 - our own names
            self._all("DELETE FROM record WHERE bank = %s", number)
            self._all("DELETE FROM bank WHERE number = %s", number)
            self._session.numbers.pop(bank)

    def rewrite(self, bank: str, rows: Iterable[Row]) -> None:
        number = self._number(bank)
        with self._whole():
            # Rows may exchange slots, so all slots are set at the end.
            self._all("CREATE TEMPORARY TABLE moved (seq bigint, slot bytea) ON COMMIT DROP")
            after = set[int]()
            for row in rows:
                after.update(self._following(number, row.seq))
                for table in ("record", "link", "word"):
                    self._delete(table, number, row.seq, row.seq)
                if row.body is None:
                    self._drop_vectors(number, row.seq)
                after.update(self._next(number, thread_of(row), row.seq))
                (*values,) = values_of(row, number)
                slot, values[_SLOT] = values[_SLOT], None
                self._add_rows("record", RECORD_TYPES, [values])
                if slot is not None:
                    self._all("INSERT INTO moved VALUES (%s, %s)", row.seq, slot)
                self._add_derived(number, [row])
            sql = (
                "UPDATE record SET slot = moved.slot FROM moved"
                " WHERE record.bank = %s AND record.seq = moved.seq"
            )
            self._all(sql, number)
            self._all("DROP TABLE moved")
            for place in sorted(after):  # their index rows include the words of those before them
                self._index_again(number, place, place)
            self._touched(number)

    def put_nodes(self, bank: str, first: int, nodes: Sequence[bytes]) -> None:
        number = self._number(bank)
        self._many(_NODE, ((number, position, node) for position, node in enumerate(nodes, first)))
        self._touched(number)

    def put_side(self, bank: str, values: Mapping[str, bytes | None]) -> None:
        if not values:
            return
        self._known(bank)
        removed = [(bank, name.encode()) for name, value in values.items() if value is None]
        stored = [
            (bank, name.encode(), value) for name, value in values.items() if value is not None
        ]
        if removed:
            self._many("DELETE FROM side WHERE bank = %s AND name = %s", removed)
        if stored:
            self._many(_SIDE, stored)

    # -- banks -----------------------------------------------------------------------------

    def _locked(self, bank: str) -> int | None:
        """Lock a bank, and return its number; None for an unknown bank."""
        known = self._session.numbers.get(bank)
        if known is not None or "\0" in bank:
            return known
        if bank in self._session.awaited:
            return None
        sql = "SELECT number FROM bank WHERE id = %s FOR UPDATE"
        rows = self._all(sql, bank)
        if not rows:
            # There is no row to lock yet; another client may have created it during the wait.
            self._all(_NEW_BANK, bank)
            rows = self._all(sql, bank)
        if not rows:
            self._session.awaited.add(bank)
            return None
        self._session.numbers[bank] = int(rows[0][0])
        return self._session.numbers[bank]

    def _bank(self, bank: str, head: StoredHead) -> int:
        """Set a bank's head, and return its number."""
        number = self._known(bank)
        if number is not None:
            self._all(_MOVED, *head, self._own.number, number)
            return number
        if bank not in self._session.awaited:  # removed within this block
            self._all(_NEW_BANK, bank)
        number = int(self._all(_MADE, bank, *head, self._own.number)[0][0])
        self._session.numbers[bank] = number
        return number

    def _touched(self, number: int) -> None:
        """Mark a bank as changed for older programs, where its head did not change."""
        sql = "UPDATE bank SET changed = nextval('change'), changed_by = %s WHERE number = %s"
        self._all(sql, self._own.number, number)

    # -- rows ------------------------------------------------------------------------------

    def _add(self, number: int, rows: Sequence[Row]) -> None:
        self._add_rows("record", RECORD_TYPES, [values_of(row, number) for row in rows])
        self._add_derived(number, rows)

    def _add_derived(self, number: int, rows: Sequence[Row]) -> None:
        """Index links, and words: each entry's own and those of the turn before it."""
        links = [
            (number, row.seq, *map(raw_text, link))
            for row in rows
            for link in dict.fromkeys(row.links)
        ]
        self._add_rows("link", _LINK_TYPES, links)
        self._add_rows("word", WORD_TYPES, list(self.indexed(number, rows)))

    def _change(self, number: int, change: ColumnChange) -> None:
        sql = "UPDATE record SET retired = %s, hold = %s WHERE bank = %s AND seq = %s"
        self._all(sql, change.retired, change.hold, number, change.seq)
        if change.retired in (None, PENDING):
            self._index_again(number, change.seq, change.seq)
        else:
            self._delete("word", number, change.seq, change.seq)

    def _sweep(self, number: int, sweep: RangeChange) -> None:
        stretch = (number, sweep.first, min(sweep.last, MOST_PLACE))
        if sweep.hold is not None:
            self._all(f"UPDATE record SET hold = %s WHERE {_STRETCH}", sweep.hold, *stretch)  # noqa: S608 - our own names
        if sweep.was is None:
            return
        sql = f"UPDATE record SET retired = %s WHERE {_STRETCH} AND {_WAS[sweep.was]}"  # noqa: S608 - our own names
        self._all(sql, sweep.retired, *stretch)
        if sweep.was is RetiredFilter.RETIRED:
            self._index_again(*stretch)
        elif sweep.retired is not None:
            self._delete("word", *stretch)

    def _index_again(self, number: int, first: int, last: int) -> None:
        """Index the words of rows that are searched."""
        self._delete("word", number, first, last)
        at = first - 1
        while searched := self._all(_SEARCHED, number, at + 1, last):
            with translated(self._name):
                rows = [_spoken(*columns) for columns in searched]
            at = rows[-1].seq
            # One by one: searched rows alternate with others.
            self._add_rows(
                "word", WORD_TYPES, [word for row in rows for word in self.indexed(number, [row])]
            )

    def _erase(self, number: int, seq: int) -> None:
        """Empty a row; the row after it in its session or run is indexed without its words."""
        followed = self._following(number, seq)
        self._all(_EMPTY, number, seq)
        self._delete("word", number, seq, seq)
        self._delete("link", number, seq, seq)
        self._drop_vectors(number, seq)
        for place in followed:
            self._index_again(number, place, place)

    def _following(self, number: int, seq: int) -> list[int]:
        """Return the log position of the row after an existing one in its session or run."""
        for run, session, body in self._all(_SAID, number, seq):
            with translated(self._name):
                row = _spoken(seq, run, session, body)
            return self._next(number, thread_of(row), seq)
        return []

    def _next(self, number: int, thread: tuple[str, str] | None, seq: int) -> list[int]:
        """Return the log position of the next row in a session or run, if any."""
        if thread is None:
            return []
        column, value = thread
        sql = (
            f"SELECT seq FROM record WHERE bank = %s AND {same(column)} AND seq > %s"  # noqa: S608 - one of two words
            " ORDER BY seq LIMIT 1"
        )
        raw = raw_text(value)
        return [found for (found,) in self._all(sql, number, raw, raw, seq)]

    def _delete(self, table: str, number: int, first: int, last: int) -> None:
        self._all(f"DELETE FROM {table} WHERE {_STRETCH}", number, first, last)  # noqa: S608 - our own names

    def _drop_vectors(self, number: int, seq: int) -> None:
        """Remove the vectors of a row; a generation exists while it has any."""
        for (generation,) in self._all("SELECT number FROM generation WHERE bank = %s", number):
            sql = "DELETE FROM vector WHERE generation = %s AND seq = %s"
            self._all(sql, generation, seq)
            sql = (
                "DELETE FROM generation WHERE number = %s"
                " AND NOT EXISTS (SELECT FROM vector WHERE generation = %s)"
            )
            self._all(sql, generation, generation)


_SLOT = 9  # among the values of a row


def _spoken(seq: int, run: bytes | None, session: bytes | None, body: bytes | None) -> Row:
    """Return a row with the members that it is indexed by."""
    text = None if body is None else words_of(body)
    one, other = (None if value is None else value.decode() for value in (run, session))
    return Row(seq=seq, id="", type="", at="", body=body, text=text, run=one, session=other)


Step = str | Callable[[Any], object]
"""SQL, or a function of a connection inside the transaction, that migrates to the next version."""

STEPS: Mapping[int, Step] = MappingProxyType({})
"""Steps by the version that they migrate from. Version 1 is the oldest release."""

_BANKS = """
SELECT id, head, peaks, (SELECT count(*) FROM record WHERE record.bank = bank.number),
    (SELECT count(*) FROM node WHERE node.bank = bank.number),
    (SELECT count(*) FROM piece WHERE piece.bank = bank.number)
FROM bank ORDER BY id"""
_ONE_AT_A_TIME = "SELECT pg_advisory_xact_lock(hashtextextended('satchel schema ' || %s, 0))"


def prepare(connection: Any, schema: str, name: str, steps: Mapping[int, Step]) -> str | None:
    """Create the tables, or migrate older ones.

    Concurrent programs wait for the one that does it.

    Args:
        connection: For writing, in no transaction.
        schema: The schema of the tables.
        name: The store's.
        steps: As ``STEPS``.

    Returns:
        The schema with a copy of the older tables; None if nothing was migrated.

    Raises:
        StoreVersionError: If no step migrates their version, or they are not Satchel's.
        StoreDamagedError: If the steps lost something; the tables are unchanged.
    """
    if stored_version(connection, schema, name) == VERSION:
        return None
    with connection.transaction():
        connection.execute(_ONE_AT_A_TIME, (schema,))
        version = stored_version(connection, schema, name)
        if version is None:
            there = connection.execute("SELECT to_regnamespace(%s)", (schema,)).fetchall()
            if there == [(None,)]:
                connection.execute(f"CREATE SCHEMA {schema}")
            make(connection, schema)
        elif version < VERSION:
            return _migrate(connection, schema, name, version, steps)
    return None


def _migrate(
    connection: Any, schema: str, name: str, version: int, steps: Mapping[int, Step]
) -> str:
    versions = range(version, VERSION)
    if any(old not in steps for old in versions):
        raise StoreVersionError(f"cannot upgrade from version {version}", file=name)
    connection.execute("LOCK TABLE store IN ACCESS EXCLUSIVE MODE")  # which every writer reads
    digits = "".join(filter(str.isdigit, now()))
    backup = f"{schema[:30]}_v{version}_{digits}"
    connection.execute(f"CREATE SCHEMA {backup}")
    for table in TABLES:
        if connection.execute("SELECT to_regclass(%s)", (f"{schema}.{table}",)).fetchall()[0][0]:
            connection.execute(f"CREATE TABLE {backup}.{table} AS TABLE {schema}.{table}")
    before = connection.execute(_BANKS).fetchall()
    for old in versions:
        step = steps[old]
        if isinstance(step, str):
            connection.execute(step)
        else:
            step(connection)
    connection.execute("UPDATE store SET version = %s", (VERSION,))
    if connection.execute(_BANKS).fetchall() != before:
        raise damaged(name, "upgrading it would lose records")
    return backup


BUSY_MS = 30_000
"""How long to wait for another writer of the same bank."""

PATIENCE = 10.0
"""Seconds to wait for a server that is starting or has too many connections."""

_READ_ONLY = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
# Each statement sees what was committed when it began; a bank that is locked does not change.
_WRITE = """
BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;
SELECT set_config('synchronous_commit', 'on', true)
WHERE current_setting('synchronous_commit') = 'off';
SELECT version, current_setting('fsync'), pg_current_xact_id()::text FROM store"""
_INVALID = """
SELECT relname FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid
WHERE relnamespace = %s::regnamespace AND NOT (indisvalid AND indisready)"""
_SEEN_BY_OTHERS = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_xmin IS NOT NULL"""


class PostgresStore:
    """Banks in one schema of a database.

    May be used from any thread, and after a fork: every block has a connection of its own. Writers
    of different banks do not wait for each other; a writer of several banks may get
    ``StoreBusyError`` if another one uses them in a different order. A view that was open when the
    process forked is the parent's; in the child it cannot be read, and leaving its block does
    nothing. Do not fork within ``writing``.

    Args:
        address: ``postgresql://USER@HOST/DATABASE?schema=NAME&bank=ID``, the last two optional: a
            schema other than ``satchel``, and the only bank to see.
        read_only: Open an existing store for reading only.
        busy_ms: How long to wait for another writer.
        patience: Seconds to wait for a server that is starting or has too many connections.
        steps: Migrations of older tables, as ``STEPS``.

    Raises:
        UsageError: If the address is invalid.
        StoreVersionError: If the tables are not Satchel's, or newer; or older, for reading only.
        StoreError: If it cannot be opened; or if the address has a bank, and row level security
            does not apply to the role.
    """

    traits = StoreTraits(full_text=True, vectors=True, traversal=True, concurrent_writers=True)

    def __init__(
        self,
        address: str,
        *,
        read_only: bool = False,
        busy_ms: int = BUSY_MS,
        patience: float = PATIENCE,
        steps: Mapping[int, Step] = STEPS,
    ) -> None:
        parsed = read_address(address)
        self.address = address
        self.name = parsed.name
        self.migration_backup: str | None = None
        """The schema with a copy of the tables before this object migrated them."""
        self._schema = parsed.schema
        self._read_only = read_only
        self._connections = PostgresConnections(parsed, busy_ms=busy_ms, patience=patience)
        self._local = threading.local()
        self._set_own()
        in_child(self._set_own)
        try:
            self._prepare(steps, only=parsed.bank)
        except BaseException:
            self.close()
            raise

    def __repr__(self) -> str:
        return f"PostgresStore({self.name!r})"  # no password in a traceback

    @contextmanager
    def reading(self) -> Iterator[PostgresView]:
        """Open a consistent view; within a block of the same thread, that block's."""
        session: PostgresSession | None = getattr(self._local, "session", None)
        if session is not None and not session.is_over:
            yield PostgresView(session, self._own)
            return
        with self._block(_READ_ONLY) as (session, _):
            yield PostgresView(session, self._own)

    @contextmanager
    def writing(self) -> Iterator[PostgresTransaction]:
        """Open a write transaction; committed when the block ends without an error.

        A bank is locked from its first use.

        Raises:
            StoreError: Also if the server does not respond to the commit: then all was written, or
                nothing.
        """
        if self._read_only:
            raise ReadOnlyStoreError("the store was opened read-only", file=self.name)
        if getattr(self._local, "session", None) is not None:
            raise UsageError("this thread already has an open transaction", file=self.name)
        with self._block(_WRITE) as (session, found):
            ((version, forced, transaction),) = found or [(None, None, None)]
            if version != VERSION:
                raise StoreVersionError(
                    "the store was upgraded by a newer version",
                    file=self.name,
                    hint="Use a newer satchel.",
                )
            if forced != "on":
                raise StoreError(
                    "the server does not flush writes to disk",
                    file=self.name,
                    hint="Set fsync = on in postgresql.conf.",
                )
            self._own.add(int(str(transaction)))
            yield PostgresTransaction(session, self._own)
            session.require()
            with translated(self.name):
                said = session.connection.execute("COMMIT").statusmessage
            if said != "COMMIT":  # a statement in it had failed, and the error was ignored
                raise StoreError("the transaction was already rolled back", file=self.name)

    def scrub(self) -> None:
        """Rewrite every table without removed rows.

        The server's log is overwritten, if the role may do that; otherwise it has those bytes until
        a checkpoint recycles them. Backups and replicas keep them.

        Raises:
            StoreBusyError: If another client reads or writes: rows visible to it would remain.
            UsageError: Within a block of the same thread.
        """
        if self._read_only:
            raise ReadOnlyStoreError("the store was opened read-only", file=self.name)
        if getattr(self._local, "session", None) is not None:
            raise UsageError("a store cannot be scrubbed while it is being read", file=self.name)
        with self._connections.begun("SELECT 1") as (connection, _), translated(self.name):
            if connection.execute(_SEEN_BY_OTHERS).fetchall() != [(0,)]:
                raise StoreBusyError(
                    "another client reads the database, so erased bytes cannot be removed yet",
                    file=self.name,
                    hint="The records are erased; run again to remove their bytes.",
                )
            for table in TABLES:
                connection.execute(f"VACUUM FULL {self._schema}.{table}")
                connection.execute(f"ANALYZE {self._schema}.{table}")  # it keeps sampled values
            written_over(connection)

    def laid_open(self) -> Iterator[Extent]:
        """Yield the files of its tables and of the server's log, if the role may read them."""
        yield from laid_open(self._looking, self._schema)

    def out_of_reach(self) -> list[str]:
        return out_of_reach(self._looking)

    @contextmanager
    def _looking(self) -> Iterator[Any]:
        with self._connections.begun("SELECT 1") as (connection, _), translated(self.name):
            yield connection

    def check(self) -> list[str]:
        """Return the indexes that the server reports as invalid, and its damaged pages."""
        with self._connections.begun("SELECT 1") as (connection, _), translated(self.name):
            invalid = connection.execute(_INVALID, (self._schema,)).fetchall()
            sql = (
                "SELECT coalesce(checksum_failures, 0) FROM pg_stat_database"
                " WHERE datname = current_database()"
            )
            failed = sum(count for (count,) in connection.execute(sql).fetchall())
        found = [f"the index {index} is invalid; run REINDEX" for (index,) in invalid]
        return found + ([f"{failed} pages failed their checksum"] if failed else [])

    def close(self) -> None:
        """Close unused connections, and those of blocks when they end."""
        self._connections.close()

    def _set_own(self) -> None:
        """Start the list of this object's transactions; a child process has its own."""
        self._own = OwnTransactions()
        self._local = threading.local()

    def _prepare(self, steps: Mapping[int, Step], only: str | None) -> None:
        with self._connections.begun("SELECT 1") as (connection, _), translated(self.name):
            version = stored_version(connection, self._schema, self.name)
            if not self._read_only and version != VERSION:
                self.migration_backup = prepare(connection, self._schema, self.name, steps)
            elif version is None:
                raise StoreVersionError("the store is empty", file=self.name)
            elif version < VERSION:
                raise StoreVersionError(
                    f"the store has version {version}, this program reads version {VERSION}",
                    file=self.name,
                    hint="Open it once for writing: it is upgraded, and a copy is kept.",
                )
            self._extension = extension_of(connection)
            if only is not None:
                sql = "SELECT row_security_active('bank')"
                if connection.execute(sql).fetchall() != [(True,)]:
                    raise StoreError(
                        "this role can see every bank",
                        file=self.name,
                        hint="Use a role that neither owns the tables nor is a superuser.",
                    )

    @contextmanager
    def _block(self, sql: str) -> Iterator[tuple[PostgresSession, list[tuple[object, ...]]]]:
        """Open a transaction of this thread; rolled back at the end if it is still open."""
        with self._connections.begun(sql) as (connection, found):
            session = self._local.session = PostgresSession(connection, self.name, self._extension)
            try:
                yield session, found
            finally:
                session.is_over = True
                self._local.session = None


def store_is_created(address: str, *, patience: float = PATIENCE) -> bool:
    """Return whether there is a store at an address, without creating one.

    Raises:
        UsageError: If the address is invalid.
        StoreVersionError: If its tables are not Satchel's, or newer.
        StoreError: If the server does not respond.
    """
    parsed = read_address(address)
    connections = PostgresConnections(parsed, busy_ms=BUSY_MS, patience=patience)
    try:
        with connections.begun("SELECT 1") as (connection, _), translated(parsed.name):
            return stored_version(connection, parsed.schema, parsed.name) is not None
    finally:
        connections.close()
