"""A map from bytes to bytes that is kept on disk where it is large."""

import sqlite3
from collections.abc import Iterator

from satchel.disk.databases.scratch import scratch

_TABLE = "CREATE TABLE held(key BLOB PRIMARY KEY, value BLOB) WITHOUT ROWID;"


class Keyed:
    """Values by key; nothing is made before the first is put in.

    SQLite's temporary database keeps small maps in memory and spills large ones by itself.
    """

    def __init__(self) -> None:
        self._db: sqlite3.Connection | None = None

    def add(self, key: bytes, value: bytes = b"") -> bool:
        """Put a value in, and tell whether there was none; one that is there stays."""
        sql = "INSERT OR IGNORE INTO held VALUES (?, ?)"
        return bool(self._opened().execute(sql, (key, value)).rowcount)

    def put(self, key: bytes, value: bytes) -> None:
        """Put a value in, in the place of any other."""
        self._opened().execute("INSERT OR REPLACE INTO held VALUES (?, ?)", (key, value))

    def extend(self, key: bytes, more: bytes, *, most: int) -> None:
        """Add to the end of a value, unless it would be longer than ``most`` bytes then."""
        self._opened().execute(
            "INSERT INTO held VALUES (?, ?) ON CONFLICT DO UPDATE"
            " SET value = CAST(value || excluded.value AS BLOB) WHERE length(value) + ? <= ?",
            (key, more, len(more), most),
        )

    def get(self, key: bytes) -> bytes | None:
        """Return the value of a key; None where there is none."""
        if self._db is None:
            return None
        row = self._db.execute("SELECT value FROM held WHERE key = ?", (key,)).fetchone()
        return None if row is None else bytes(row[0])

    def discard(self, key: bytes) -> None:
        """Take a value out, if there is one."""
        if self._db is not None:
            self._db.execute("DELETE FROM held WHERE key = ?", (key,))

    def __contains__(self, key: object) -> bool:
        return isinstance(key, bytes) and self.get(key) is not None

    def __iter__(self) -> Iterator[bytes]:
        """Yield the keys, the smallest first."""
        if self._db is not None:
            for (key,) in self._db.execute("SELECT key FROM held ORDER BY key"):
                yield bytes(key)

    def close(self) -> None:
        """Give the space back."""
        db, self._db = self._db, None
        if db is not None:
            db.close()

    def _opened(self) -> sqlite3.Connection:
        if self._db is None:
            self._db = scratch(_TABLE, cache_kib=2048)
        return self._db
