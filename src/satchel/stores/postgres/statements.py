"""Running statements on a connection inside a transaction, and reading long answers in parts."""

import os
import secrets
import threading
from bisect import bisect_right, insort
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Any

from satchel.errors import (
    MissingExtraError,
    ReadOnlyStoreError,
    SatchelError,
    SlotTakenError,
    StoreBusyError,
    StoreDamagedError,
    StoreError,
    StoreFullError,
    UnknownBankError,
)
from satchel.stores.postgres.schema import INDEXED, SLOT_INDEX

try:
    import psycopg
    import psycopg.conninfo
except ImportError as error:
    raise MissingExtraError(
        "a store in PostgreSQL needs its driver",
        hint='Install it: python -m pip install "satchel[postgres]"',
    ) from error

DRIVER: Any = psycopg
"""The driver; untyped here, since it is an extra."""

_PASSING = frozenset({"53300", "57P03", "40001", "40P01"})
"""No room for another connection, still starting, beaten by another, in each other's way."""

_BUSY = frozenset({"55P03", "57014", "40001", "40P01", "53300"})
_DENIED = frozenset({"28000", "28P01"})
_MISSING = frozenset({"3F000", "42P01"})
_CHANGED = frozenset({"42703", "42883"})
_DAMAGED = frozenset({"XX001", "XX002"})


class translated:  # noqa: N801 - used as a function
    """Turn errors of the driver in a block into ours.

    Args:
        name: The store's name.

    Raises:
        StoreError: Which says what to do.
    """

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, DRIVER.Error):
            # Without what it was: a server that cannot be reached is named with its address.
            raise _ours(error, self._name) from None
        if isinstance(error, UnicodeDecodeError):
            raise damaged(self._name, "it contains invalid text") from error


def is_passing(error: Any) -> bool:
    """Tell whether the same may go well in a moment."""
    return error.sqlstate in _PASSING or _is_starting(error)


def _is_starting(error: Any) -> bool:
    # While it connects, the driver does not say under which code the server refused.
    said = str(error)
    return error.sqlstate is None and (
        "the database system is" in said or "too many clients" in said or "remaining conn" in said
    )


def _ours(error: Any, name: str) -> SatchelError:
    """Return what to say instead of what PostgreSQL says."""
    code = error.sqlstate
    said = (error.diag.message_primary or "").strip() if code else ""
    if code in _BUSY:
        return StoreBusyError(
            "other clients are writing and did not finish in time",
            file=name,
            hint="Try again; see pg_stat_activity for the blocking client.",
        )
    if code == "23505":
        if error.diag.constraint_name == SLOT_INDEX:
            return SlotTakenError("a current record for the same key or origin already exists")
        return StoreError(f"rejected by the store: {said}", file=name)
    if code == "53100":
        return StoreFullError("no space left", file=name, hint="Free disk space and run again.")
    if code in _DAMAGED:
        return damaged(name, said)
    return _refused(code, said, name) or _failed(error, code, said, name)


def _refused(code: str | None, said: str, name: str) -> SatchelError | None:
    if code == "25006":
        return ReadOnlyStoreError("the server is read-only", file=name)
    if code == "42501":
        return ReadOnlyStoreError(
            f"permission denied for the role: {said}",
            file=name,
            hint="Ask the owner of the tables to grant it.",
        )
    if code == "25P02":
        return StoreError(
            "an earlier statement of this transaction failed",
            file=name,
            hint="See: satchel doctor.",
        )
    if code in _MISSING:
        return StoreError(
            "the tables of the store are missing: its schema was dropped or renamed, or the "
            "address is wrong",
            file=name,
            hint=(
                "Check the schema and database of the address. To restore a backup: satchel backup "
                "restore. To create a new store: satchel init"
            ),
        )
    if code in _CHANGED:
        return StoreError(
            "the tables of the store are damaged: a column or a function is missing",
            file=name,
            hint="Undo the change of the schema, or restore a backup: satchel backup restore."
            " See: satchel doctor.",
        )
    return None


def _failed(error: Any, code: str | None, said: str, name: str) -> StoreError:
    if code in _DENIED or (code is None and "authentication failed" in str(error)):
        return StoreError("the server rejects the role or its password", file=name)
    if code == "3D000" or (code is None and "does not exist" in str(error)):
        return StoreError("no such database or role", file=name)
    if code is None or code.startswith(("08", "57P")):
        return gone(name)
    return StoreError(f"the store failed: {said}", file=name)


def gone(name: str) -> StoreError:
    """Return the error for a server that does not answer, or not any more."""
    return StoreError(
        "the server does not respond",
        file=name,
        hint="Check that it runs and is reachable. Acknowledged writes are durable.",
    )


def damaged(name: str, what: str) -> StoreDamagedError:
    """Return the error for tables that do not hold what they have to."""
    return StoreDamagedError(
        f"the database is damaged: {what}",
        file=name,
        hint="Do not change it, and run: satchel doctor.",
    )


ID_PREFIX = "blake3:"
MOST_AT_ONCE = 500
MOST_PLACE = (1 << 62) - 1
"""A log and its tree have fewer places."""

_COPIED = 32
"""Rows from which on they are copied in one stream rather than inserted one by one."""


def raw_id(identity: str) -> bytes:
    """Return the 32 bytes of an id; of anything else, bytes that no id has."""
    try:
        return bytes.fromhex(identity.removeprefix(ID_PREFIX))
    except ValueError:
        return b""


def raw_slot(slot: str | None) -> bytes | None:
    """Return the bytes of a slot's name; of anything else, bytes that no slot has."""
    return None if slot is None else raw_id(slot)


def raw_text(text: str | None) -> bytes | None:
    """Return a text as its column holds it."""
    return None if text is None else text.encode()


def same(column: str) -> str:
    """Return the condition that a column is a value, asked twice: of its index, and whole."""
    return f"(substr({column}, 1, {INDEXED}) = substr(%s, 1, {INDEXED}) AND {column} = %s)"


def among(column: str) -> str:
    """Return the condition that a column is one of some values, asked twice as in ``same``."""
    starts = f"SELECT substr(value, 1, {INDEXED}) FROM unnest(%s::bytea[]) AS given (value)"  # noqa: S608 - our own names
    return (
        f"(substr({column}, 1, {INDEXED}) = ANY (ARRAY({starts})) AND {column} = ANY (%s::bytea[]))"
    )


class PostgresSession:
    """A connection inside one block, and what was learnt in it."""

    def __init__(self, connection: Any, name: str, extension: str | None) -> None:
        self.connection = connection
        self.name = name
        self.extension = extension
        """The schema of pgvector, where vectors are compared on the server."""
        self.numbers: dict[str, int] = {}
        """Of the banks that were asked about; those of a writer are locked."""
        self.awaited: set[str] = set()
        """Banks that are not here, and that nobody else makes until the block ends."""
        self.locked: Callable[[str], int | None] | None = None
        """Locks a bank and returns its number; None where nothing is written."""
        self.cursors = count()
        self.stale: list[int] = []
        self.lost: list[range] = []
        self.is_over = False
        self._process = os.getpid()

    def require(self) -> None:
        """Refuse what is asked after the block, or in a child of the process that began it."""
        if self.is_over or os.getpid() != self._process:
            raise StoreError("the view is over", file=self.name)


class PostgresStatements:
    """What everything that reads or writes the tables does."""

    def __init__(self, session: PostgresSession) -> None:
        self._session = session
        self._name = session.name

    def _known(self, bank: str) -> int | None:
        """Return the number of a bank, or None where it is not here."""
        if self._session.locked is not None:
            return self._session.locked(bank)
        known = self._session.numbers.get(bank)
        if known is None and "\0" not in bank:
            found = self._all("SELECT number FROM bank WHERE id = %s", bank)
            if found:
                known = self._session.numbers[bank] = int(found[0][0])
        return known

    def _number(self, bank: str) -> int:
        number = self._known(bank)
        if number is None:
            raise UnknownBankError(f"there is no bank {bank} here", file=self._name)
        return number

    def _all(self, sql: str, *values: Any) -> list[Any]:
        """Run a statement and return what it answers, all of it."""
        self._session.require()
        with translated(self._name):
            self._tidy()
            found = self._session.connection.execute(sql, values, binary=True)
            return found.fetchall() if found.description else []

    def _each(self, sql: str, *values: Any, together: int = MOST_AT_ONCE) -> Iterator[Any]:
        """Yield what a statement answers, fetched from the server a few at a time."""
        session = self._session
        session.require()
        number = next(session.cursors)
        name = f"each_{number}"
        with translated(self._name):
            self._tidy()
            sql = f"DECLARE {name} NO SCROLL CURSOR FOR {sql}"
            # On the client's side: a cursor cannot be declared with values from outside.
            with DRIVER.ClientCursor(session.connection) as cursor:
                cursor.execute(sql, values)
        try:
            while found := self._all(f"FETCH {together} FROM {name}"):
                yield from found
                if len(found) < together:
                    break
        finally:
            # Whoever stops in the middle does so anywhere, so it is closed with the next statement.
            session.stale.append(number)

    def _tidy(self) -> None:
        stale, lost = self._session.stale, self._session.lost
        while stale:
            number = stale.pop()
            if not any(number in those for those in lost):
                self._session.connection.execute(f"CLOSE each_{number}")

    def _many(self, sql: str, values: Iterable[Sequence[Any]]) -> None:
        self._session.require()
        with translated(self._name), self._session.connection.cursor() as cursor:
            self._tidy()
            cursor.executemany(sql, values)

    def _add_rows(self, table: str, types: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """Put rows into a table: many at once are copied, where its policies do not forbid that.

        Args:
            table: Its name, and its columns where not all are given.
            types: Of each column.
            rows: The values, one for each column.
        """
        if len(rows) < _COPIED:
            marks = ", ".join(f"%s::{kind}" for kind in types)
            self._many(f"INSERT INTO {table} VALUES ({marks})", rows)  # noqa: S608 - our own names
            return
        name = table.partition(" ")[0]
        if self._all("SELECT row_security_active(%s::text)", name)[0][0]:
            lists = ", ".join(f"%s::{kind}[]" for kind in types)
            sql = f"INSERT INTO {table} SELECT * FROM unnest({lists})"  # noqa: S608 - our own names
            for start in range(0, len(rows), MOST_AT_ONCE):
                part = rows[start : start + MOST_AT_ONCE]
                self._all(sql, *map(list, zip(*part, strict=True)))
            return
        with translated(self._name), self._session.connection.cursor() as cursor:
            self._tidy()
            binary = "tsvector" not in types  # which is written as text only
            form = "BINARY" if binary else "TEXT"
            with cursor.copy(f"COPY {table} FROM STDIN (FORMAT {form})") as copy:
                if binary:
                    copy.set_types(list(types))
                for row in rows:
                    copy.write_row(row)

    @contextmanager
    def _whole(self) -> Iterator[None]:
        """Do all of a block or nothing of it, whatever becomes of the transaction around it."""
        session, connection = self._session, self._session.connection
        self._all("SAVEPOINT whole")
        first = next(session.cursors)
        before = dict(session.numbers), set(session.awaited)
        try:
            yield
        except BaseException:
            status = DRIVER.pq.TransactionStatus
            if connection.info.transaction_status in {status.INTRANS, status.INERROR}:
                session.numbers, session.awaited = before  # their locks are gone as well
                session.lost.append(range(first, next(session.cursors)))  # declared inside
                with translated(self._name):
                    connection.execute("ROLLBACK TO whole; RELEASE whole")
            raise
        self._all("RELEASE whole")


_MOST = 1_000
"""Stretches that are remembered; before them a transaction counts as somebody else's."""


class OwnTransactions:
    """The transactions that one store object began."""

    def __init__(self) -> None:
        self.number = secrets.randbits(62)
        """What older programs, which compare ``bank.changed_by``, tell this object by."""

        self._lock = threading.Lock()
        self._stretches: list[list[int]] = []

    def add(self, transaction: int) -> None:
        """Note a transaction, before it is committed."""
        with self._lock:
            position = bisect_right(self._stretches, [transaction]) - 1
            before = self._stretches[position] if position >= 0 else None
            if before is not None and before[1] + 1 == transaction:
                before[1] = transaction
                return
            insort(self._stretches, [transaction, transaction])
            del self._stretches[:-_MOST]

    def stamp(self, snapshot: str) -> int:
        """Return a number that is another one once somebody else's transaction can be seen.

        Args:
            snapshot: As ``pg_current_snapshot`` writes it: ``xmin:xmax:running,running``.
        """
        _, end, running = snapshot.split(":")
        with self._lock:
            last = int(end) - 1
            while (start := self._start_of(last)) is not None:
                last = start - 1
            numbers = sorted(map(int, filter(None, running.split(","))))
            others = [number for number in numbers if self._start_of(number) is None]
        return hash((last, *others))

    def _start_of(self, transaction: int) -> int | None:
        """Return where the stretch begins that a transaction is in."""
        position = bisect_right(self._stretches, [transaction, transaction + 1]) - 1
        if position < 0 or transaction > self._stretches[position][1]:
            return None
        return self._stretches[position][0]
