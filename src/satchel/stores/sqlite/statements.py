"""Running statements on a connection, and looking at what comes back before it is believed."""

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
    UnknownBankError,
)
from satchel.ports.rows import CONFIG
from satchel.ports.store import StoredHead
from satchel.stores.sqlite.schema import NAME_BYTES, NAME_SAID, NAMING, SEQ_BITS, has_names

_NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT})


def translated(
    name: str, connection: apsw.Connection | None = None
) -> AbstractContextManager[None]:
    """Turn errors of SQLite in a block into ours.

    Args:
        name: The store's name.
        connection: That knows what the system said last.

    Raises:
        StoreError: Which says what to do.
    """
    return _Translated(name, connection)


def decoding(name: str, connection: apsw.Connection) -> AbstractContextManager[None]:
    """Turn what damaged rows do to whoever fetches them into our error, and SQLite's as well.

    Raises:
        StoreError: As ``translated``.
    """
    return _Decoding(name, connection)


class _Translated:
    """A block around each statement: as a class, it costs a third of a generator."""

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
    """Return what to say instead of what SQLite says."""
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


def damaged(name: str, what: str) -> StoreDamagedError:
    """Return the error for a file that does not hold what it has to."""
    return StoreDamagedError(
        f"the database is damaged: {what}",
        file=name,
        hint="Do not change the file, and run: satchel doctor.",
    )


def _failed(name: str, error: apsw.Error, connection: apsw.Connection | None) -> StoreError:
    """Return the error for a system that refuses; SQLite itself calls only some a full disk."""
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
"""What each column holds. SQLite looks when it writes; a damaged file may hold anything."""

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
ID_PREFIX = "blake3:"
_MOST_AT_ONCE = 500
_PADDED_TO = 32
_KEY_BITS = 63
NODE_BITS = SEQ_BITS + 1  # a tree has fewer than two nodes for each leaf


def raw_id(identity: str) -> bytes:
    """Return the 32 bytes of an id; of anything else, bytes that no id has."""
    try:
        return bytes.fromhex(identity.removeprefix(ID_PREFIX))
    except ValueError:
        return b""


def raw_slot(slot: str | None) -> bytes | None:
    """Return the bytes of a slot's name; of anything else, bytes that no slot has."""
    return None if slot is None else raw_id(slot)


class SqliteStatements:
    """What everything that reads or writes the tables does, on a connection in a transaction."""

    def __init__(self, connection: apsw.Connection, name: str) -> None:
        self._connection = connection
        self._name = name

    def _number(self, bank: str) -> int:
        found = self._all("SELECT number FROM bank WHERE id = ?", bank)
        if not found:
            raise UnknownBankError(f"there is no bank {bank} here", file=self._name)
        self._start(found[0][0], NODE_BITS)
        return int(found[0][0])

    def _start(self, number: int, bits: int) -> int:
        """Return the first place of the stretch of a table that belongs to a number."""
        if not 0 < number < 1 << (_KEY_BITS - bits):
            raise damaged(self._name, "an invalid internal number")
        return number << bits

    def _all(self, sql: str, *values: Any, kinds: Kinds | None = None) -> list[Any]:
        with decoding(self._name, self._connection):
            found = self._connection.execute(sql, values)
            rows = found.fetchall()
        if kinds is not None and rows:
            self._require_kinds(list(zip(*rows, strict=True)), kinds)
        return rows

    def _each(self, sql: str, *values: Any, kinds: Kinds | None) -> Iterator[Any]:
        with decoding(self._name, self._connection):
            found = self._connection.execute(sql, values)
            try:
                yield from found if kinds is None else self._typed(found, kinds)
            finally:
                # Who stops early, or asks something else meanwhile, leaves no statement that runs:
                # apsw 3.54.0.0 never frees a cursor beside which another one ended. (Nor one that
                # is closed so: this is not for those that are read at once.)
                found.close(force=True)

    def _in(self, sql: str, values: Sequence[Any], kinds: Kinds) -> list[Any]:
        found = []
        for start in range(0, len(values), _MOST_AT_ONCE):
            part = [*values[start : start + _MOST_AT_ONCE]]
            # The last one again and again: few lengths are few statements to prepare.
            part += part[-1:] * (-len(part) % _PADDED_TO)
            found += self._all(f"{sql}({', '.join('?' * len(part))})", *part, kinds=kinds)
        return found

    def _many(self, sql: str, values: Iterable[Sequence[Any]]) -> None:
        with translated(self._name, self._connection):
            self._connection.executemany(sql, values)

    def _require_kinds(self, columns: Sequence[Sequence[Any]], kinds: Kinds) -> None:
        """Require of many rows what ``_typed`` requires of each, given their columns."""
        for column, kind in zip(columns, kinds, strict=True):
            if not all(issubclass(one, kind) for one in set(map(type, column))):
                raise damaged(self._name, "a column contains an invalid value")

    def _typed(self, rows: Iterable[Any], kinds: Kinds) -> Iterator[Any]:
        seen = set[tuple[type, ...]]()  # most rows are like the one before
        for row in rows:
            held = tuple(map(type, row))
            if held not in seen:
                if not all(map(isinstance, row, kinds)):
                    raise damaged(self._name, "a column contains an invalid value")
                seen.add(held)
            yield row

    @contextmanager
    def _whole(self) -> Iterator[None]:
        """Do all of a block or nothing of it, whatever becomes of the transaction around it."""
        if not self._connection.in_transaction:
            # After an error such as a full disk; a savepoint would be committed by itself now.
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
    """Which banks there are."""

    def banks(self, start: str = "", *, limit: int | None = None) -> list[str]:
        sql, values = "SELECT id FROM bank WHERE length(head) > 0", list[Any]()
        if start:
            sql += " AND id >= ? AND id < ?"
            values += (start, start[:-1] + chr(ord(start[-1]) + 1))
        sql += " ORDER BY id LIMIT ?"  # of which less than nothing is no limit
        values.append(-1 if limit is None else limit)
        return [bank for (bank,) in self._all(sql, *values, kinds=(str,))]

    def named(self, said: bytes) -> list[str]:
        found = list[Any]()
        with decoding(self._name, self._connection):
            is_indexed = has_names(self._connection)
        if is_indexed:
            *first, last = start = said[:NAME_BYTES]
            found = self._all(_BY_INDEX, said, start, bytes((*first, last + 1)), kinds=(str,))
        if not found:  # that nobody has a name is not for an index to say
            found = self._all(_ONE_BY_ONE, said, kinds=(str,))
        return [bank for (bank,) in found]

    def begun(self) -> list[str]:
        sql = "SELECT id FROM bank WHERE length(head) = 0 ORDER BY id"
        return [bank for (bank,) in self._all(sql, kinds=(str,))]

    def head(self, bank: str) -> StoredHead | None:
        sql = "SELECT head, peaks FROM bank WHERE id = ?"
        found = self._all(sql, bank, kinds=(bytes, bytes))
        return StoredHead(*found[0]) if found else None
