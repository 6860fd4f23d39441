"""The PostgreSQL store: many machines write, each bank one writer at a time.

What was acknowledged is durable: every transaction has ``synchronous_commit`` on, and a server that
does not force its log to disk (``fsync = off``) is refused for writing.
"""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from satchel.disk.forks import in_child
from satchel.errors import (
    ReadOnlyStoreError,
    StoreBusyError,
    StoreError,
    StoreVersionError,
    UsageError,
)
from satchel.ports.store import Extent, StoreTraits
from satchel.stores.postgres.connecting import Connections, read_address
from satchel.stores.postgres.erased import raw
from satchel.stores.postgres.erased.log import written_over
from satchel.stores.postgres.errors import translated
from satchel.stores.postgres.migrations import STEPS, Step, prepare
from satchel.stores.postgres.reading import View
from satchel.stores.postgres.schema import TABLES, VERSION, extension_of, found_version
from satchel.stores.postgres.statements import Session
from satchel.stores.postgres.transactions import OwnTransactions
from satchel.stores.postgres.writing import Transaction

BUSY_MS = 30_000
"""How long to wait for another writer of the same bank."""

PATIENCE = 10.0
"""Seconds after which a server that is starting or has no room is given up."""

_READ = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
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
    of different banks do not wait for each other; one who works on several in a block, in another
    order than somebody else does, may be told that the store is busy. A view that was open when the
    process forked is the parent's; in the child it cannot be read, and leaving its block does
    nothing. Do not fork within ``writing``.

    Args:
        address: ``postgresql://USER@HOST/DATABASE?schema=NAME&bank=ID``, the last two as needed: a
            schema of another name than ``satchel``, and the one bank that is to be seen.
        read_only: Open what is there for reading only.
        busy_ms: How long to wait for another writer.
        patience: Seconds after which a server that is starting or has no room is given up.
        steps: How older tables are brought up to date, as ``migrations.STEPS``.

    Raises:
        UsageError: If it is no address.
        StoreVersionError: If the tables are not ours, or newer; or older and only to be read.
        StoreError: If it cannot be opened; or if one bank is to be seen by a role that row level
            security does not hold.
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
        found = read_address(address)
        self.address = address
        self.name = found.name
        self.kept: str | None = None
        """The schema with the tables as they were before this object brought them up to date."""
        self._schema = found.schema
        self._read_only = read_only
        self._connections = Connections(found, busy_ms=busy_ms, patience=patience)
        self._local = threading.local()
        self._set_own()
        in_child(self._set_own)
        try:
            self._prepare(steps, only=found.bank)
        except BaseException:
            self.close()
            raise

    def __repr__(self) -> str:
        return f"PostgresStore({self.name!r})"  # no password in a traceback

    @contextmanager
    def reading(self) -> Iterator[View]:
        """Give a consistent view; within a block of the same thread, that block's."""
        session: Session | None = getattr(self._local, "session", None)
        if session is not None and not session.is_over:
            yield View(session, self._own)
            return
        with self._block(_READ) as (session, _):
            yield View(session, self._own)

    @contextmanager
    def writing(self) -> Iterator[Transaction]:
        """Give the right to write; committed when the block ends without an error.

        A bank is locked when it is first asked about.

        Raises:
            StoreError: Also when the server is gone before it answers whether it committed. Then
                what was written may be there, whole, or not.
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
            yield Transaction(session, self._own)
            session.require()
            with translated(self.name):
                said = session.connection.execute("COMMIT").statusmessage
            if said != "COMMIT":  # a statement in it had failed, and whoever saw that went on
                raise StoreError("the transaction was already rolled back", file=self.name)

    def scrub(self) -> None:
        """Write every table anew without what was removed.

        The server's log is written over, where the role may have that done; else it has those
        bytes until a checkpoint and its settings decide it. Its backups and replicas keep them.

        Raises:
            StoreBusyError: If somebody reads or writes; rows that he may still see would stay.
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
        """Yield the files of its tables and of the server's log, where the role may read them."""
        yield from raw.laid_open(self._looking, self._schema)

    def out_of_reach(self) -> list[str]:
        return raw.out_of_reach(self._looking)

    @contextmanager
    def _looking(self) -> Iterator[Any]:
        with self._connections.begun("SELECT 1") as (connection, _), translated(self.name):
            yield connection

    def check(self) -> list[str]:
        """Return which indexes the server calls invalid, and how many pages it found damaged."""
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
        """Close the connections that no block has, and those of others when they end."""
        self._connections.close()

    def _set_own(self) -> None:
        """Begin to note which changes are this object's; a child's parent goes on with its own."""
        self._own = OwnTransactions()
        self._local = threading.local()

    def _prepare(self, steps: Mapping[int, Step], only: str | None) -> None:
        with self._connections.begun("SELECT 1") as (connection, _), translated(self.name):
            version = found_version(connection, self._schema, self.name)
            if not self._read_only and version != VERSION:
                self.kept = prepare(connection, self._schema, self.name, steps)
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
    def _block(self, sql: str) -> Iterator[tuple[Session, list[tuple[object, ...]]]]:
        """Give a transaction of this thread, rolled back at the end where it is still open."""
        with self._connections.begun(sql) as (connection, found):
            session = self._local.session = Session(connection, self.name, self._extension)
            try:
                yield session, found
            finally:
                session.is_over = True
                self._local.session = None


def is_made(address: str, *, patience: float = PATIENCE) -> bool:
    """Tell whether there is a store at an address; nothing is made.

    Raises:
        UsageError: If it is no address.
        StoreVersionError: If the tables there are not ours, or newer.
        StoreError: If the server does not answer.
    """
    there = read_address(address)
    connections = Connections(there, busy_ms=BUSY_MS, patience=patience)
    try:
        with connections.begun("SELECT 1") as (connection, _), translated(there.name):
            return found_version(connection, there.schema, there.name) is not None
    finally:
        connections.close()
