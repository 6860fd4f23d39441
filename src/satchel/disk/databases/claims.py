"""Words that count once: what was claimed lately, for all processes that share a folder."""

import sqlite3
import threading
import time
from collections.abc import Callable
from pathlib import Path

from satchel.disk.writing import PRIVATE_FILE, PRIVATE_FOLDER

_OPEN = (
    "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;"
    "CREATE TABLE IF NOT EXISTS claimed(word TEXT PRIMARY KEY, at REAL NOT NULL) WITHOUT ROWID;"
    "CREATE INDEX IF NOT EXISTS claimed_at ON claimed(at)"
)
_BUSY_SECONDS = 10.0


class Claims:
    """Words, each of which can be claimed once within some time. For any thread.

    Args:
        path: A file, which is made.
        seconds: How long a word is remembered.
        clock: Tells the time, in seconds.
    """

    def __init__(self, path: Path, seconds: float, clock: Callable[[], float] = time.time) -> None:
        path.parent.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
        path.touch(mode=PRIVATE_FILE)
        self._seconds = seconds
        self._clock = clock
        self._lock = threading.Lock()
        self._db = sqlite3.connect(
            path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )
        self._db.executescript(_OPEN)

    def claim(self, word: str) -> bool:
        """Claim a word, and tell whether nobody had; it is durable when this returns."""
        at = self._clock()
        with self._lock:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                self._db.execute("DELETE FROM claimed WHERE at < ?", (at - self._seconds,))
                sql = "INSERT OR IGNORE INTO claimed VALUES (?, ?)"
                is_new = bool(self._db.execute(sql, (word, at)).rowcount)
            finally:
                self._db.execute("COMMIT")
        return is_new

    def close(self) -> None:
        """Give the file back."""
        with self._lock:
            self._db.close()
