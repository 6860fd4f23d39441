"""Tables for one piece of work, on disk where they are large, and gone with it."""

import sqlite3
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Self


def scratch(tables: str, *, cache_kib: int) -> sqlite3.Connection:
    """Open SQLite's temporary database, with tables in it.

    It keeps what is small in memory and spills what is large by itself, into a file without a name:
    a program that is killed leaves nothing. Nothing is forced to disk, and nothing can be taken
    back: all of it is one transaction.

    Args:
        tables: The statements that make them, each ended by a semicolon.
        cache_kib: How much is kept in memory, in KiB.
    """
    database = sqlite3.connect("", isolation_level=None)
    database.executescript(
        "PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; PRAGMA temp_store=FILE;"
        f"PRAGMA cache_size=-{cache_kib}; {tables} BEGIN"
    )
    return database


class Scratch:
    """What works on such tables. To be closed, or used as a context manager."""

    def __init__(self, tables: str, *, cache_kib: int) -> None:
        self._db = scratch(tables, cache_kib=cache_kib)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give the space back."""
        self._db.close()


_TABLE = "CREATE TABLE held(key BLOB PRIMARY KEY, value BLOB) WITHOUT ROWID;"
_ADD = "INSERT OR IGNORE INTO held VALUES (?, ?)"

MOST_IN_MEMORY = 1 << 21
"""Bytes of keys and values, with what holds them, from which they are moved to disk."""

PLAN_TIMES = 8
"""How much more the maps of an import's plan hold, which are asked about each record."""

A_KEY, A_VALUE = 100, 50
"""Bytes that a key takes beside its own, with its share of a table; and a value that has some."""


class ScratchMap:
    """Values by key. What is on disk is in a file without a name.

    Args:
        times: How much more than others this map may hold in memory.
    """

    def __init__(self, *, times: int = 1) -> None:
        self._held = dict[bytes, bytes]()
        self._most = times * MOST_IN_MEMORY
        self._bytes = 0
        self._db: sqlite3.Connection | None = None

    def add(self, key: bytes, value: bytes = b"") -> bool:
        """Put a value in, and tell whether there was none; one that is there stays."""
        if self._db is None:
            if key in self._held:
                return False
            self._put(key, value)
            return True
        return bool(self._db.execute(_ADD, (key, value)).rowcount)

    def update(self, keys: Sequence[bytes]) -> None:
        """Put in keys without a value; what is there stays."""
        if self._db is not None:
            self._db.executemany(_ADD, ((key, b"") for key in keys))
            return
        held, before = self._held, len(self._held)
        held.update(dict.fromkeys((key for key in keys if key not in held), b""))
        if keys:
            self._bytes += (len(held) - before) * (A_KEY + len(keys[0]))
        self._move_if_large()

    def add_new(self, keys: Sequence[bytes]) -> bool:
        """Put in keys without a value, unless one is there or comes twice; tell whether it did."""
        new = dict.fromkeys(keys, b"")
        if len(new) < len(keys):
            return False
        if self._db is None:
            is_new = new.keys().isdisjoint(self._held.keys())
        else:
            is_new = not any(map(self.__contains__, new))
        if is_new:
            self.update(keys)
        return is_new

    def put(self, key: bytes, value: bytes) -> None:
        """Put a value in, in the place of any other."""
        if self._db is None:
            self._put(key, value)
        else:
            self._db.execute("INSERT OR REPLACE INTO held VALUES (?, ?)", (key, value))

    def extend(self, key: bytes, more: bytes, *, most: int) -> None:
        """Add to the end of a value, unless it would be longer than ``most`` bytes then."""
        value = self.get(key)
        if value is None:
            self.put(key, more)
        elif len(value) + len(more) <= most:
            self.put(key, value + more)

    def get(self, key: bytes) -> bytes | None:
        """Return the value of a key; None where there is none."""
        if self._db is None:
            return self._held.get(key)
        row = self._db.execute("SELECT value FROM held WHERE key = ?", (key,)).fetchone()
        return None if row is None else bytes(row[0])

    def discard(self, key: bytes) -> None:
        """Take a value out, if there is one."""
        if self._db is None:
            self._held.pop(key, None)
        else:
            self._db.execute("DELETE FROM held WHERE key = ?", (key,))

    def __contains__(self, key: object) -> bool:
        return isinstance(key, bytes) and self.get(key) is not None

    def __iter__(self) -> Iterator[bytes]:
        """Yield the keys, the smallest first."""
        if self._db is None:
            yield from sorted(self._held)
            return
        for (key,) in self._db.execute("SELECT key FROM held ORDER BY key"):
            yield bytes(key)

    def close(self) -> None:
        """Give the space back."""
        db, self._db = self._db, None
        self._held.clear()
        if db is not None:
            db.close()

    def _put(self, key: bytes, value: bytes) -> None:
        self._held[key] = value
        self._bytes += A_KEY + len(key) + (A_VALUE + len(value) if value else 0)
        self._move_if_large()

    def _move_if_large(self) -> None:
        if self._bytes > self._most:
            self._db = scratch(_TABLE, cache_kib=2048)
            self._db.executemany("INSERT INTO held VALUES (?, ?)", sorted(self._held.items()))
            self._held.clear()
