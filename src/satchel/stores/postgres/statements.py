"""Running statements on a connection inside a transaction, and reading long answers in parts."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Any

from satchel.errors import StoreError, UnknownBankError
from satchel.stores.postgres.errors import DRIVER, translated
from satchel.stores.postgres.schema import INDEXED

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


class Session:
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


class Statements:
    """What everything that reads or writes the tables does."""

    def __init__(self, session: Session) -> None:
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
