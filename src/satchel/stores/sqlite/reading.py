"""Reading rows from the tables."""

from collections.abc import Iterable, Iterator, Sequence
from types import NoneType
from typing import Any

import apsw

from satchel.errors import UnknownBankError
from satchel.ports.rows import Filter, Row
from satchel.ports.store import StoredHead
from satchel.stores import _terms
from satchel.stores.sqlite.errors import damaged, decoding
from satchel.stores.sqlite.schema import SEQ_BITS

_COLUMNS = (
    *("place", "id", "type", "at", "body", "batch", "retired", "hold", "slot", "kind"),
    *("user", "agent", "run", "app", "session", "moment", "expires_at"),
)
_Kinds = Sequence[type | tuple[type, ...]]
_TEXT = (str, NoneType)
_KINDS: _Kinds = (
    *(int, bytes, str, str, (bytes, NoneType), int, (int, NoneType), int, _TEXT, _TEXT),
    *(_TEXT, _TEXT, _TEXT, _TEXT, _TEXT, _TEXT, _TEXT),
)
"""What each column holds. SQLite looks when it writes; a damaged file may hold anything."""

_SELECT = "SELECT " + ", ".join(f"record.{name}" for name in _COLUMNS) + " FROM record"  # noqa: S608 - our own names
_SEQ = (1 << SEQ_BITS) - 1
NODE_BITS = SEQ_BITS + 1  # a tree has fewer than two nodes for each leaf
_MOST_AT_ONCE = 500
_CURRENT = "record.retired IS NULL"

ID_PREFIX = "blake3:"


def raw_id(identity: str) -> bytes:
    """Return the 32 bytes of an id; of anything else, bytes that no id has."""
    try:
        return bytes.fromhex(identity.removeprefix(ID_PREFIX))
    except ValueError:
        return b""


class View:
    """One consistent view, on a connection inside a transaction."""

    def __init__(self, connection: apsw.Connection, name: str) -> None:
        self._connection = connection
        self._name = name

    def stamp(self) -> int:
        return int(self._all("PRAGMA data_version")[0][0])

    def banks(self) -> list[str]:
        return [bank for (bank,) in self._all("SELECT id FROM bank ORDER BY id", kinds=(str,))]

    def head(self, bank: str) -> StoredHead | None:
        sql = "SELECT head, peaks FROM bank WHERE id = ?"
        found = self._all(sql, bank, kinds=(bytes, bytes))
        return StoredHead(*found[0]) if found else None

    def counts(self, bank: str) -> dict[str, int]:
        number = self._number(bank)
        # The index holds no more than what is counted, and is checked against the table.
        sql = "SELECT type, count(*) FROM record WHERE bank = ? GROUP BY type"
        return dict(self._all(sql, number, kinds=(str, int)))

    def nodes(self, bank: str, positions: Sequence[int]) -> dict[int, bytes]:
        first = self._number(bank) << NODE_BITS
        sql = "SELECT place, hash FROM node WHERE place IN "
        wanted = [first + place for place in positions if 0 <= place >> NODE_BITS < 1]
        return {place - first: found for place, found in self._in(sql, wanted, (int, bytes))}

    def get(self, bank: str, ids: Sequence[str]) -> list[Row]:
        number = self._number(bank)
        sql = f"{_SELECT} WHERE bank = {number} AND id IN "
        wanted = [raw_id(identity) for identity in ids]
        return [_row(found) for found in self._in(sql, wanted, _KINDS)]

    def at(self, bank: str, places: Sequence[int]) -> list[Row]:
        first = self._number(bank) << SEQ_BITS
        wanted = [first + place for place in set(places) if 0 <= place <= _SEQ]
        return [_row(found) for found in self._in(f"{_SELECT} WHERE place IN ", wanted, _KINDS)]

    def scan(self, bank: str, wanted: Filter, *, after: int = -1) -> Iterator[Row]:
        first = self._number(bank) << SEQ_BITS
        clauses = ["place > ?", "place <= ?"]
        values: list[Any] = [first + after, first + _SEQ]
        for clause, value in _clauses(wanted):
            clauses.append(clause)
            values += value
        sql = f"{_SELECT} WHERE {' AND '.join(clauses)} ORDER BY place"
        with decoding(self._name):
            for found in self._typed(self._connection.execute(sql, values), _KINDS):
                yield _row(found)

    def current(self, bank: str, slot: str) -> Row | None:
        sql = f"{_SELECT} WHERE bank = ? AND slot = ? AND {_CURRENT}"
        found = self._all(sql, self._number(bank), slot, kinds=_KINDS)
        return _row(found[0]) if found else None

    def neighbours(self, bank: str, end: str, *, incoming: bool) -> Iterator[Row]:
        column = "target" if incoming else "source"
        sql = f"SELECT DISTINCT place FROM link WHERE bank = ? AND {column} = ? ORDER BY place"  # noqa: S608 - one of two words
        places = [place for (place,) in self._all(sql, self._number(bank), end, kinds=(int,))]
        found = self._in(f"{_SELECT} WHERE place IN ", places, _KINDS)
        yield from sorted(map(_row, found), key=lambda row: row.seq)

    def candidates(self, bank: str, text: str, *, limit: int) -> list[tuple[int, float]]:
        match = _terms.query(text)
        if match is None:
            return []
        first = self._number(bank) << SEQ_BITS
        sql = (
            "SELECT rowid, rank FROM words WHERE words MATCH ? AND rowid BETWEEN ? AND ?"
            " ORDER BY rank, rowid LIMIT ?"
        )
        found = self._all(sql, match, first, first + _SEQ, limit, kinds=(int, float))
        return [(place & _SEQ, -rank) for place, rank in found]

    def side(self, bank: str, prefix: str = "") -> dict[str, bytes]:
        # As bytes: of a text, SQLite's functions see what comes before the first NUL only.
        sql = (
            "SELECT name, value FROM side"
            " WHERE bank = ? AND instr(CAST(name AS BLOB), ?) = 1 ORDER BY name"
        )
        return dict(self._all(sql, bank, prefix.encode(), kinds=(str, bytes)))

    def _number(self, bank: str) -> int:
        found = self._all("SELECT number FROM bank WHERE id = ?", bank)
        if not found:
            raise UnknownBankError(f"there is no bank {bank} here", file=self._name)
        return int(found[0][0])

    def _all(self, sql: str, *values: Any, kinds: _Kinds | None = None) -> list[Any]:
        with decoding(self._name):
            found = self._connection.execute(sql, values)
            return found.fetchall() if kinds is None else list(self._typed(found, kinds))

    def _in(self, sql: str, values: Sequence[Any], kinds: _Kinds) -> list[Any]:
        found = []
        for start in range(0, len(values), _MOST_AT_ONCE):
            part = values[start : start + _MOST_AT_ONCE]
            found += self._all(f"{sql}({', '.join('?' * len(part))})", *part, kinds=kinds)
        return found

    def _typed(self, rows: Iterable[Any], kinds: _Kinds) -> Iterator[Any]:
        for row in rows:
            if not all(map(isinstance, row, kinds)):
                raise damaged(self._name, "a column holds what it cannot")
            yield row


def _clauses(wanted: Filter) -> Iterator[tuple[str, list[Any]]]:
    for name, values in (("type", wanted.types), ("kind", wanted.kinds)):
        if values is not None:
            yield f"{name} IN ({', '.join('?' * len(values))})", sorted(values)
    for name in ("user", "agent", "run", "app", "session"):
        value = getattr(wanted, name)
        if value is not None:
            yield f"{name} = ?", [value]
    if wanted.since is not None:
        yield "moment >= ?", [wanted.since]
    if wanted.until is not None:
        yield "moment < ?", [wanted.until]
    if wanted.as_of is not None:
        yield f"place & {_SEQ} < ?", [wanted.as_of]
    if not wanted.retired:
        yield (
            _CURRENT if wanted.as_of is None else f"({_CURRENT} OR retired >= ?)",
            ([] if wanted.as_of is None else [wanted.as_of]),
        )
    if not wanted.held:
        yield "hold = 0", []


def _row(found: Sequence[Any]) -> Row:
    place, identity, *rest = found
    values = dict(zip(_COLUMNS[2:], rest, strict=True))
    values["hold"] = bool(values["hold"])
    return Row(seq=place & _SEQ, id=ID_PREFIX + identity.hex(), **values)
