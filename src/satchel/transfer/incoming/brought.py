"""Vectors that came in a file beside memories: kept on disk until it is known who may use them."""

import sqlite3
from collections import Counter
from collections.abc import Sequence
from typing import Any

from satchel.disk.databases.scratch import scratch
from satchel.ports.carried import MARK_BYTES, Maker, as_kept

_TABLE = "CREATE TABLE vector(mark BLOB PRIMARY KEY, numbers BLOB) WITHOUT ROWID;"
_NOT_ONE = "they are not {} finite 32-bit numbers"
_TWO = "the text has two vectors"


class Brought:
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
