"""What an import is going to log, held on disk until all of it was looked at."""

import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any

import msgspec

from satchel.crypto.sealed_records import Nonces, seal
from satchel.model.records import State, Status
from satchel.model.values import resolved
from satchel.ports.rows import Row, unplaced_row
from satchel.ports.vectors import MARK_BYTES, Maker, as_kept
from satchel.runtime.scratch import SpoolStream, SpoolStreams, scratch

GROUP = 4096
"""Records of one group at most: one head."""

GROUP_BYTES = 4 << 20
"""Bytes of records after which a group ends. Its rows are in memory several times over: with the
words and columns that are derived of them, and in the statements that store them."""

GIVEN = 2048
"""Records that the sink gets at once when it has a first group.

With more whoever reads waits meanwhile; with 256 what an index of words does each time is half as
much again of what it costs to log them.
"""

COMMIT_BYTES = 96 << 20
"""Bytes of records after which a transaction is committed; a smaller import is one transaction."""

_PACK = 128
_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder(resolved(list[Row])).decode


Sink = Callable[[Sequence[Row]], bool]
"""Takes some records, and tells whether it did."""


class CommitTooLargeError(Exception):
    """What was logged as it was read does not fit into one transaction; it is to be read again."""


class ImportStage:
    """Records in their order, then the statuses that go with them; each as the row it will be.

    Args:
        strands: Where they are held.
    """

    def __init__(self, strands: SpoolStreams) -> None:
        self._records = _Rows(strands.strand())
        self._statuses = _Rows(strands.strand())
        self.records = 0
        self.statuses = 0
        self.size = 0
        """Bytes of the records."""

        self.last: str | None = None
        """Id of the last record, statuses aside."""

        self.sink: Sink | None = None
        """Takes records from the first group on as they come; those that it took are not held."""

        self._group: list[Row] = []
        self._group_size = 0
        self._took = False

    def add(self, row: Row) -> None:
        """Hold a record.

        Raises:
            NotAtOnceError: If the sink has others, and they are too many for one transaction.
        """
        size = len(row.body or b"")
        self.records += 1
        self.size += size
        self.last = row.id
        if self.sink is None:
            self._records.add(row)
            return
        self._group.append(row)
        self._group_size += size
        most = GIVEN if self._took else GROUP
        if len(self._group) >= most or self._group_size >= GROUP_BYTES:
            self._give()

    def add_many(self, rows: Sequence[Row]) -> None:
        """Hold many records.

        Raises:
            NotAtOnceError: As ``add``.
        """
        size = sum(len(row.body or b"") for row in rows)
        most = (GIVEN if self._took else GROUP) - 1
        fits = len(self._group) + len(rows) <= most and self._group_size + size < GROUP_BYTES
        if self.sink is None or not rows or not fits:
            for row in rows:
                self.add(row)
            return
        self.records += len(rows)
        self.size += size
        self.last = rows[-1].id
        self._group += rows
        self._group_size += size

    def give_rest(self) -> None:
        """Give the sink what is held, where it has what came before."""
        if self._took and self._group:
            self._give()

    def _give(self) -> None:
        if self._took and self.size >= COMMIT_BYTES:
            raise CommitTooLargeError
        if self.sink is not None and self.sink(self._group):
            self._took = True
        else:
            self.sink = None
            for row in self._group:
                self._records.add(row)
        self._group, self._group_size = [], 0

    def say(self, target: str, state: State, *, by: str | None, at: str, nonces: Nonces) -> None:
        """Hold a status of a record that is in the bank, or in here.

        Raises:
            NotAtOnceError: If the sink has records: they are current as soon as they are logged.
        """
        if self._took:
            raise CommitTooLargeError
        status = Status(target=target, state=state, by=by, reason="import", at=at)
        record = seal(status, nonces=nonces)
        self._statuses.add(unplaced_row(status, record.id, record.body))
        self.statuses += 1

    def groups(self, after: int = 0) -> Iterator[Sequence[Row]]:
        """Yield everything in groups, without the first ``after``."""
        group, size = list[Row](), 0
        for row in islice(self._all(), after, None):
            group.append(row)
            size += len(row.body or b"")
            if len(group) == GROUP or size >= GROUP_BYTES:
                yield group
                group, size = [], 0
        if group:
            yield group

    def commits(self, after: int = 0) -> Iterator[Iterator[Sequence[Row]]]:
        """Yield what ``groups`` does, by transaction; each is to be used up before the next."""
        waiting = self.groups(after)

        def part(first: Sequence[Row]) -> Iterator[Sequence[Row]]:
            group, size = first, 0
            while group:
                yield group
                size += sum(len(row.body or b"") for row in group)
                if size >= COMMIT_BYTES:
                    return
                group = next(waiting, ())

        while first := next(waiting, ()):
            yield part(first)

    @property
    def is_one_commit(self) -> bool:
        """Whether all of it can be logged, and be visible, in one transaction."""
        return not self.statuses and self.size < COMMIT_BYTES

    def _all(self) -> Iterator[Row]:
        yield from self._records
        yield from self._group
        yield from self._statuses


class _Rows:
    """Rows in packs of some."""

    def __init__(self, strand: SpoolStream) -> None:
        self._strand = strand
        self._waiting: list[Row] = []

    def add(self, row: Row) -> None:
        self._waiting.append(row)
        if len(self._waiting) == _PACK:
            self._strand.write_pack(_pack(self._waiting))
            self._waiting.clear()

    def __iter__(self) -> Iterator[Row]:
        for pack in self._strand.packs():
            yield from _unpack(pack)
        yield from self._waiting


_TABLE = "CREATE TABLE vector(mark BLOB PRIMARY KEY, numbers BLOB) WITHOUT ROWID;"
_NOT_ONE = "they are not {} finite 32-bit numbers"
_TWO = "the text has two vectors"


class SourceVectors:
    """The vectors of one file, by the mark of the text that each was made of."""

    def __init__(self) -> None:
        self.begin_again()

    def begin_again(self) -> None:
        """Forget what there was; the file is read again."""
        self.maker: Maker | None = None
        self.unusable = Counter[str]()
        """How many can be used nowhere, by the reason."""

        self._db: sqlite3.Connection | None = None

    def begin(self, maker: Maker) -> None:
        """Remember what made them."""
        self.maker = maker

    def take(self, mark: str, vector: Any) -> None:
        """Keep a vector; one that no such model gave is counted."""
        key, maker = _raw(mark), self.maker
        kept = None if maker is None or not key else as_kept(vector, maker.dimensions)
        if kept is None:
            self.refuse(_NOT_ONE.format("" if maker is None else maker.dimensions))
            return
        db = self._opened()
        new = db.execute("INSERT OR IGNORE INTO vector VALUES (?, ?)", [key, kept]).rowcount
        if not new and self._at(key) not in (kept, b""):
            db.execute("UPDATE vector SET numbers = x'' WHERE mark = ?", [key])
            self.refuse(_TWO)

    def refuse(self, reason: str) -> None:
        """Count one that is of no use."""
        self.unusable[reason] += 1

    @property
    def count(self) -> int:
        """How many different ones there are to use."""
        if self._db is None:
            return 0
        return int(
            self._db.execute("SELECT count(*) FROM vector WHERE numbers <> x''").fetchone()[0]
        )

    def find(self, marks: Sequence[str]) -> dict[str, bytes]:
        """Return the vectors of some texts, by their marks."""
        found = {mark: self._at(_raw(mark)) for mark in marks} if self._db is not None else {}
        return {mark: numbers for mark, numbers in found.items() if numbers}

    def _at(self, key: bytes) -> bytes | None:
        sql = "SELECT numbers FROM vector WHERE mark = ?"
        row = self._opened().execute(sql, [key]).fetchone()
        return None if row is None else row[0]

    def _opened(self) -> sqlite3.Connection:
        if self._db is None:
            self._db = scratch(_TABLE, cache_kib=4096)
        return self._db


def _raw(mark: str) -> bytes:
    """Return a mark as bytes; none for what is no mark."""
    try:
        raw = bytes.fromhex(mark)
    except ValueError:
        return b""
    return raw if len(raw) == MARK_BYTES and raw.hex() == mark else b""
