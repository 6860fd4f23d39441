"""A board of small notes for all processes of a machine: a file."""

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from satchel.disk.private import open_private
from satchel.errors import StoreError

_OPEN = (
    "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA secure_delete=ON;"
    "CREATE TABLE IF NOT EXISTS claimed(word TEXT PRIMARY KEY, until REAL NOT NULL) WITHOUT ROWID;"
    "CREATE INDEX IF NOT EXISTS claimed_until ON claimed(until);"
    "CREATE TABLE IF NOT EXISTS note(name TEXT PRIMARY KEY, body BLOB NOT NULL) WITHOUT ROWID;"
)
_BUSY_SECONDS = 10.0


class FileBoard:
    """A board in a file. For any thread.

    Args:
        path: The file, which is made.
        clock: Tells the time, in seconds.

    Raises:
        StoreError: If it cannot be opened.
    """

    shared = False

    def __init__(self, path: Path, clock: Callable[[], float] = time.time) -> None:
        self._path = path
        if not path.exists():  # of one that SQLite has open, a descriptor must not be closed
            os.close(open_private(path, create=True).handle)
        self._clock = clock
        self._lock = threading.Lock()
        with self._told():
            self._db = sqlite3.connect(
                path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
            )
            self._db.executescript(_OPEN)

    def claim(self, word: str, seconds: float) -> bool:
        """Claim a word; see ``Board``."""
        at = self._clock()
        with self._writing():
            self._db.execute("DELETE FROM claimed WHERE until < ?", (at,))
            sql = "INSERT OR IGNORE INTO claimed VALUES (?, ?)"
            return bool(self._db.execute(sql, (word, at + seconds)).rowcount)

    def put(self, name: str, note: bytes | None) -> None:
        """Put a note up, or take it down; see ``Board``."""
        with self._writing():
            if note is None:
                self._db.execute("DELETE FROM note WHERE name = ?", (name,))
            else:
                self._db.execute("INSERT OR REPLACE INTO note VALUES (?, ?)", (name, note))

    def notes(self, prefix: str) -> dict[str, bytes]:
        """Return notes by name; see ``Board``."""
        sql = "SELECT name, body FROM note WHERE substr(name, 1, ?) = ? ORDER BY name"
        with self._told(), self._lock:
            return dict(self._db.execute(sql, (len(prefix), prefix)).fetchall())

    def close(self) -> None:
        """Give the file back."""
        with self._lock:
            self._db.close()

    @contextmanager
    def _writing(self) -> Iterator[None]:
        with self._told(), self._lock:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise StoreError(f"the board of the servers: {error}", file=str(self._path)) from error
