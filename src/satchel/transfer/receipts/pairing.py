"""Two sides laid beside each other on disk, and which record of one is which of the other.

Ids are drawn anew by most readers, so a record is known by what it says: by all of it, else by all
but its origin, else by the id that it has there, else by its words, else by its text alone, as some
formats have no place for the rest; where nothing of that tells, by its turn among those of its type
that are left.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple

from blake3 import blake3

from satchel.disk.databases.scratch import Scratch
from satchel.memory.parts import is_id
from satchel.seal.encoding.jcs import canonical_checked
from satchel.seal.records import Sealed
from satchel.transfer.fingerprints import fingerprint

_TOGETHER = 500
_ITS_OWN = frozenset({"id", "nonce", "origin"})
_WORDS = ("text", "subject", "predicate", "object", "name")

MARK_BYTES = 16
"""Length of what a record is known by, in bytes."""

# Grouped, not joined: SQLite joins what it has numbered row by row with row.
_PAIR = """
INSERT INTO pair (a, b)
SELECT max(n) FILTER (WHERE side = 0), max(n) FILTER (WHERE side = 1) FROM (
  SELECT side, n, {key} AS key, row_number() OVER (PARTITION BY side, {key} ORDER BY n) AS turn
  FROM record WHERE {key} IS NOT NULL AND CASE side
    WHEN 0 THEN n NOT IN (SELECT a FROM pair) ELSE n NOT IN (SELECT b FROM pair) END
)
GROUP BY key, turn HAVING count(*) = 2
"""

_EVEN = """
WITH rest AS (
  SELECT type, side, count(*) AS number FROM record
  WHERE (side = 0 AND n NOT IN (SELECT a FROM pair)) OR (side = 1 AND n NOT IN (SELECT b FROM pair))
  GROUP BY type, side
)
UPDATE record SET even = type WHERE type IN (
  SELECT one.type FROM rest AS one JOIN rest AS two ON one.type = two.type
  WHERE one.side = 0 AND two.side = 1 AND one.number = two.number
)
"""


class Said(NamedTuple):
    """A record, and what it is known by."""

    type: str
    print: bytes
    """All of it but id and nonce."""

    bare: bytes | None
    """All but its origin as well; None where it has none."""

    key: bytes | None
    """Its id at its origin, or its own."""

    words: bytes | None
    """Whatever type it is: some formats have one for all."""

    body: bytes

    text: bytes | None = None
    """Its text alone; a sidecar has no line for it."""


class Pair(NamedTuple):
    """One record of each side: its number there, and its bytes."""

    first: int
    one: bytes
    second: int
    other: bytes


def said_by(record: Sealed, *, draft: bool = False) -> Said:
    """Return what a record is known by.

    Args:
        record: The record.
        draft: Whether its id was drawn just now, and says nothing.
    """
    value = record.value
    key = (value.get("origin") or {}).get("id") or (None if draft else record.id or None)
    last = str(key).rpartition("/")[2]
    key = last if is_id(last) else key  # what is part of something is named after both
    said = [value.get(name) for name in _WORDS]
    bare = {name: part for name, part in value.items() if name not in _ITS_OWN}
    text = value.get("text")
    return Said(
        record.type,
        print_of(record.id, record.body),
        _mark(canonical_checked(bare)) if "origin" in value else None,
        None if key is None else _mark(str(key).encode()),
        _mark(canonical_checked(said)) if any(said) else None,
        record.body,
        _mark(text.encode()) if text else None,
    )


def print_of(identity: str, body: bytes) -> bytes:
    """Return what tells a record from any other that says something else."""
    return fingerprint(identity, body)[:MARK_BYTES]


def _mark(data: bytes) -> bytes:
    return blake3(data).digest(length=MARK_BYTES)


class Pairing(Scratch):
    """Two sides in a temporary database, which spills to disk by itself. A context manager."""

    def __init__(self) -> None:
        self._number = [0, 0]
        super().__init__(
            "CREATE TABLE record(side INTEGER, n INTEGER, type TEXT, print BLOB, bare BLOB,"
            " key BLOB, words BLOB, body BLOB, text BLOB, even TEXT, PRIMARY KEY (side, n))"
            " WITHOUT ROWID;"
            "CREATE TABLE pair(a INTEGER PRIMARY KEY, b INTEGER UNIQUE);",
            cache_kib=16384,
        )

    def add(self, side: int, records: Iterable[Said]) -> None:
        """Take records of a side, 0 or 1, which are numbered from 0."""
        rows = (self._row(side, record) for record in records)
        while some := list(islice(rows, _TOGETHER)):
            self._db.executemany(
                "INSERT INTO record VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, NULL)", some
            )

    def pair(self, columns: Iterable[str]) -> None:
        """Pair what is the same by each of some columns of ``Said``, the surest first."""
        for column in columns:
            self._db.execute(f"CREATE INDEX record_{column} ON record(side, {column})")
            self._db.execute(_PAIR.format(key=column))

    def pair_by_turn(self, *, surely: bool = False) -> None:
        """Pair what is left, by type and in its order.

        Args:
            surely: Only of types of which as many are left on both sides.
        """
        if surely:
            self._db.execute(_EVEN)
            self._db.execute(_PAIR.format(key="even"))
            return
        self._db.execute(_PAIR.format(key="type"))

    def pairs(self, *, differing: bool = False) -> Iterator[Pair]:
        """Yield the pairs in the order of the first side; only those that differ, if so wished."""
        found = self._db.execute(
            "SELECT one.n, one.body, two.n, two.body FROM pair"
            " JOIN record AS one ON one.side = 0 AND one.n = pair.a"
            " JOIN record AS two ON two.side = 1 AND two.n = pair.b"
            " WHERE NOT (? AND one.print = two.print) ORDER BY one.n",
            [differing],
        )
        return (Pair(*row) for row in found)

    def alone(self, side: int) -> Iterator[tuple[int, str, bytes]]:
        """Yield number, type and bytes of the records of a side that have no pair."""
        return self._db.execute(
            "SELECT n, type, body FROM record WHERE side = ?"  # noqa: S608 - one of two letters
            f" AND n NOT IN (SELECT {'ab'[side]} FROM pair) ORDER BY n",
            [side],
        )

    def first_of(self, number: int) -> bytes | None:
        """Return the bytes of what a record of the second side is paired with."""
        row = self._db.execute(
            "SELECT body FROM pair JOIN record ON side = 0 AND n = a WHERE b = ?", [number]
        ).fetchone()
        return None if row is None else bytes(row[0])

    def _row(self, side: int, record: Said) -> tuple[int | str | bytes | None, ...]:
        number = self._number[side]
        self._number[side] += 1
        return side, number, *record
