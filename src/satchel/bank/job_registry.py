"""The registry that all processes of a server share: claimed words and notes about jobs."""

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
from satchel.bank.machine_keys import require_owner
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
    """A job registry in a file. Thread-safe.

    Args:
        path: The file, created if it does not exist.
        clock: Returns the time in seconds.

    Raises:
        StoreError: If it cannot be opened.
    """

    shared = False

    def __init__(self, path: Path, clock: Callable[[], float] = time.time) -> None:
        self._path = path
        if not path.exists():  # closing a descriptor of an open SQLite file drops its locks
            os.close(open_private(path, create=True).handle)
        self._clock = clock
        self._lock = threading.Lock()
        with self._errors():
            self._db = sqlite3.connect(
                path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
            )
            self._db.executescript(_OPEN)

    def claim(self, word: str, seconds: float) -> bool:
        """Claim a word; see ``JobRegistry``."""
        at = self._clock()
        with self._writing():
            self._db.execute("DELETE FROM claimed WHERE until < ?", (at,))
            sql = "INSERT OR IGNORE INTO claimed VALUES (?, ?)"
            return bool(self._db.execute(sql, (word, at + seconds)).rowcount)

    def put(self, name: str, note: bytes | None) -> None:
        """Store or remove a note; see ``JobRegistry``."""
        with self._writing():
            if note is None:
                self._db.execute("DELETE FROM note WHERE name = ?", (name,))
            else:
                self._db.execute("INSERT OR REPLACE INTO note VALUES (?, ?)", (name, note))

    def notes(self, prefix: str) -> dict[str, bytes]:
        """Return notes by name; see ``JobRegistry``."""
        sql = "SELECT name, body FROM note WHERE substr(name, 1, ?) = ? ORDER BY name"
        with self._errors(), self._lock:
            return dict(self._db.execute(sql, (len(prefix), prefix)).fetchall())

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._db.close()

    @contextmanager
    def _writing(self) -> Iterator[None]:
        with self._errors(), self._lock:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Raise errors of SQLite as ``StoreError``."""
        try:
            yield
        except sqlite3.Error as error:
            raise StoreError(
                f"the job registry of the servers: {error}", file=str(self._path)
            ) from error


_NOTES, _WORDS = "board", "board/words/"
_TIME = struct.Struct(">d")
_CLOCK_SKEW = 300.0
"""Maximum difference in seconds between the clocks of machines."""


class StoreJobRegistry:
    """A job registry in a store that several machines use. Thread-safe.

    Args:
        store: The store.
        clock: Returns the time in seconds.
    """

    shared = True

    def __init__(self, store: Store, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._clock = clock

    def claim(self, word: str, seconds: float) -> bool:
        """Claim a word; see ``JobRegistry``."""
        at = self._clock()
        # Claims are spread over 256 side values, and wait only for others in the same one.
        drawer = _WORDS + blake3(word.encode()).hexdigest(length=1)
        with self._store.writing() as writing:
            claims = writing.side(drawer)
            expired = [claim for claim, until in claims.items() if _TIME.unpack(until)[0] < at]
            is_new = word not in claims or word in expired
            values: dict[str, bytes | None] = dict.fromkeys(expired)
            if is_new:
                values[word] = _TIME.pack(at + seconds + _CLOCK_SKEW)
            writing.put_side(drawer, values)
        return is_new

    def put(self, name: str, note: bytes | None) -> None:
        """Store or remove a note; see ``JobRegistry``."""
        with self._store.writing() as writing:
            writing.put_side(_NOTES, {name: note})

    def notes(self, prefix: str) -> dict[str, bytes]:
        """Return notes by name; see ``JobRegistry``."""
        with self._store.reading() as reader:
            return reader.side(_NOTES, prefix)

    def close(self) -> None:
        """Do nothing: the caller closes the store."""


class JobRegistry(Protocol):
    """Small notes that processes share, such as jobs and used nonces. Thread- and process-safe.

    It contains no memories.
    """

    shared: bool
    """Whether all machines on the store share it; else only the processes of this machine."""

    def claim(self, word: str, seconds: float) -> bool:
        """Claim a word and return whether it was free. The claim is durable when this returns.

        Args:
            word: A word that can be claimed once, such as the nonce of a request.
            seconds: Minimum duration of the claim.

        Raises:
            StoreError: If it cannot be written.
        """
        ...

    def put(self, name: str, note: bytes | None) -> None:
        """Store a note, replacing any of the same name; None removes it.

        Raises:
            StoreError: If it cannot be written.
        """
        ...

    def notes(self, prefix: str) -> dict[str, bytes]:
        """Return the notes whose names start with a prefix, by name.

        Raises:
            StoreError: If they cannot be read.
        """
        ...

    def close(self) -> None:
        """Release resources; notes stay."""
        ...


_TEST_NOTE = "tried"


def open_job_registry(settings: Settings, store: Store) -> JobRegistry:
    """Return the job registry of all servers of a store.

    It is in a store on a server, which machines share; otherwise, or if this machine may write only
    one bank of it, it is in the state folder of this machine.

    Raises:
        StoreError: If it cannot be opened.
    """
    require_owner(settings, "serve")
    if local_path(settings.store) is None:
        registry = StoreJobRegistry(store)
        try:
            registry.put(_TEST_NOTE, b"")
        except SatchelError:  # a tenant's role may write only its own bank
            pass
        else:
            return registry
    return FileJobRegistry(settings.state / "serving.db")


def require_servable(settings: Settings, workers: int) -> None:
    """Check that a number of worker processes can open the store.

    Raises:
        UsageError: If several processes cannot write to it.
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
