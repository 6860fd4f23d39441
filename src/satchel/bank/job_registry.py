"""A board of small notes for all processes of a machine: a file."""

import os
import sqlite3
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from blake3 import blake3

from satchel.bank.connections import configured_store, local_path, shown_address
from satchel.bank.owner_rights import require_owner
from satchel.config.settings import Settings
from satchel.errors import SatchelError, StoreError, UsageError
from satchel.ports.store import Store
from satchel.runtime.private_files import open_private

_OPEN = (
    "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA secure_delete=ON;"
    "CREATE TABLE IF NOT EXISTS claimed(word TEXT PRIMARY KEY, until REAL NOT NULL) WITHOUT ROWID;"
    "CREATE INDEX IF NOT EXISTS claimed_until ON claimed(until);"
    "CREATE TABLE IF NOT EXISTS note(name TEXT PRIMARY KEY, body BLOB NOT NULL) WITHOUT ROWID;"
)
_BUSY_SECONDS = 10.0


class FileJobRegistry:
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


_NOTES, _WORDS = "board", "board/words/"
_TIME = struct.Struct(">d")
_APART = 300.0
"""Seconds by which the clocks of machines may differ."""


class StoreJobRegistry:
    """A board in a store that several machines write. For any thread.

    Args:
        store: The store.
        clock: Tells the time, in seconds.
    """

    shared = True

    def __init__(self, store: Store, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._clock = clock

    def claim(self, word: str, seconds: float) -> bool:
        """Claim a word; see ``Board``."""
        at = self._clock()
        # Whoever claims waits for others in the same drawer alone.
        drawer = _WORDS + blake3(word.encode()).hexdigest(length=1)
        with self._store.writing() as writing:
            there = writing.side(drawer)
            gone = [one for one, until in there.items() if _TIME.unpack(until)[0] < at]
            is_new = word not in there or word in gone
            values: dict[str, bytes | None] = dict.fromkeys(gone)
            if is_new:
                values[word] = _TIME.pack(at + seconds + _APART)
            writing.put_side(drawer, values)
        return is_new

    def put(self, name: str, note: bytes | None) -> None:
        """Put a note up, or take it down; see ``Board``."""
        with self._store.writing() as writing:
            writing.put_side(_NOTES, {name: note})

    def notes(self, prefix: str) -> dict[str, bytes]:
        """Return notes by name; see ``Board``."""
        with self._store.reading() as reader:
            return reader.side(_NOTES, prefix)

    def close(self) -> None:
        """Do nothing: the store is closed by whoever opened it."""


class JobRegistry(Protocol):
    """A board of small notes. For any thread, and for any number of processes.

    Nothing on it is memory: requests that were made, work that is under way.
    """

    shared: bool
    """Whether other machines on the same store read it, too; else those of this machine do."""

    def claim(self, word: str, seconds: float) -> bool:
        """Claim a word, and tell whether nobody had; it is durable when this returns.

        Args:
            word: What can be claimed once, such as the nonce of a request.
            seconds: How long it is remembered at least.

        Raises:
            StoreError: If it cannot be written.
        """
        ...

    def put(self, name: str, note: bytes | None) -> None:
        """Put a note up in the place of any other of its name, or take it down.

        Raises:
            StoreError: If it cannot be written.
        """
        ...

    def notes(self, prefix: str) -> dict[str, bytes]:
        """Return the notes whose names begin with something, by name.

        Raises:
            StoreError: If they cannot be read.
        """
        ...

    def close(self) -> None:
        """Give back what it holds; notes stay."""
        ...


_TRIED = "tried"


def board_of(settings: Settings, store: Store) -> JobRegistry:
    """Return the board of all that serve a store.

    It is in the store where several machines use that; else, and where this one may see a single
    bank of it only, in the machine's state.

    Raises:
        StoreError: If it cannot be opened.
    """
    require_owner(settings, "serve")
    if local_path(settings.store) is None:
        found = StoreJobRegistry(store)
        try:
            found.put(_TRIED, b"")
        except SatchelError:  # a tenant's role may write of its own bank alone
            pass
        else:
            return found
    return FileJobRegistry(settings.state / "serving.db")


def require_servable(settings: Settings, workers: int) -> None:
    """Require that a store can be opened, by as many as are going to.

    Raises:
        UsageError: If several processes cannot write it.
        StoreError: If it cannot be opened.
    """
    require_owner(settings, "serve")
    with configured_store(settings) as store:
        if workers > 1 and not store.traits.concurrent_writers:
            raise UsageError(
                f"only one process at a time can open this store, not {workers} workers",
                file=shown_address(settings.store),
                field="workers",
                hint="Use one worker, or copy it to another store: satchel store copy.",
            )
