"""Temporary space for one piece of work: tables, streams and folders, gone with the process.

Small data is in memory; large data is on disk, in files without a name unless a program needs one.
"""

import struct
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, starmap
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from blake3 import blake3

from satchel.errors import TargetError
from satchel.runtime.files import Closable

if TYPE_CHECKING:
    import sqlite3


def scratch(tables: str, *, cache_kib: int) -> "sqlite3.Connection":
    """Open a temporary SQLite database with tables.

    It keeps small data in memory and spills large data into a file without a name, so a killed
    program leaves nothing. Nothing is synced, and nothing can be rolled back: all of it is one
    transaction.

    Args:
        tables: The statements that create them, each ended by a semicolon.
        cache_kib: Size of the cache in memory, in KiB.
    """
    import sqlite3  # most commands need none

    database = sqlite3.connect("", isolation_level=None)
    database.executescript(
        "PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; PRAGMA temp_store=FILE;"
        f"PRAGMA cache_size=-{cache_kib}; {tables} BEGIN"
    )
    return database


class Scratch(Closable):
    """An object with temporary tables."""

    def __init__(self, tables: str, *, cache_kib: int) -> None:
        self._db = scratch(tables, cache_kib=cache_kib)

    def close(self) -> None:
        """Release the space."""
        self._db.close()


_TABLE = "CREATE TABLE held(key BLOB PRIMARY KEY, value BLOB) WITHOUT ROWID;"
_ADD = "INSERT OR IGNORE INTO held VALUES (?, ?)"

MOST_IN_MEMORY = 1 << 21
"""Bytes of keys and values, with overhead, from which they are moved to disk."""

PLAN_TIMES = 8
"""Factor for the maps of an import's plan, which are read for each record."""

A_KEY, A_VALUE = 100, 50
"""Overhead in bytes: of a key, with its share of a table, and of a value."""


class ScratchMap:
    """Values by key, in memory or in a file without a name.

    Args:
        times: Factor by which this map may use more memory.
    """

    def __init__(self, *, times: int = 1) -> None:
        self._held = dict[bytes, bytes]()
        self._most = times * MOST_IN_MEMORY
        self._bytes = 0
        self._db: sqlite3.Connection | None = None

    def add(self, key: bytes, value: bytes = b"") -> bool:
        """Add a value if the key is new, and return whether it was."""
        if self._db is None:
            if key in self._held:
                return False
            self._put(key, value)
            return True
        return bool(self._db.execute(_ADD, (key, value)).rowcount)

    def update(self, keys: Sequence[bytes]) -> None:
        """Add keys without a value; existing values stay."""
        if self._db is not None:
            self._db.executemany(_ADD, ((key, b"") for key in keys))
            return
        held, before = self._held, len(self._held)
        held.update(dict.fromkeys((key for key in keys if key not in held), b""))
        if keys:
            self._bytes += (len(held) - before) * (A_KEY + len(keys[0]))
        self._move_if_large()

    def add_new(self, keys: Sequence[bytes]) -> bool:
        """Add keys without a value if all are new and distinct, and return whether they were."""
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
        """Set a value."""
        if self._db is None:
            self._put(key, value)
        else:
            self._db.execute("INSERT OR REPLACE INTO held VALUES (?, ?)", (key, value))

    def extend(self, key: bytes, more: bytes, *, most: int) -> None:
        """Append to a value, unless it would become longer than ``most`` bytes."""
        value = self.get(key)
        if value is None:
            self.put(key, more)
        elif len(value) + len(more) <= most:
            self.put(key, value + more)

    def get(self, key: bytes) -> bytes | None:
        """Return the value of a key; None if there is none."""
        if self._db is None:
            return self._held.get(key)
        row = self._db.execute("SELECT value FROM held WHERE key = ?", (key,)).fetchone()
        return None if row is None else bytes(row[0])

    def discard(self, key: bytes) -> None:
        """Remove a key, if it exists."""
        if self._db is None:
            self._held.pop(key, None)
        else:
            self._db.execute("DELETE FROM held WHERE key = ?", (key,))

    def __contains__(self, key: object) -> bool:
        return isinstance(key, bytes) and self.get(key) is not None

    def __iter__(self) -> Iterator[bytes]:
        """Yield the keys in ascending order."""
        if self._db is None:
            yield from sorted(self._held)
            return
        for (key,) in self._db.execute("SELECT key FROM held ORDER BY key"):
            yield bytes(key)

    def close(self) -> None:
        """Release the space."""
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


CHUNK = 1 << 20
"""Bytes moved at once."""

_NAME = "body"
_LONGEST_SUFFIX = 32
_HOLD = 1 << 16
_CHECK = 16
_framing = struct.Struct(f">I{_CHECK}s")
_FRAME, _frame, _unframe = _framing.size, _framing.pack, _framing.unpack_from


class Spool:
    """A temporary file that is appended to, then read.

    Up to ``memory_bytes`` it is in memory, then in a file without a name in the temporary folder
    (``TMPDIR``).
    """

    def __init__(self, memory_bytes: int = 1 << 20) -> None:
        self._file = tempfile.SpooledTemporaryFile(max_size=memory_bytes)  # noqa: SIM115
        self._held = bytearray()

    def write(self, data: bytes) -> None:
        """Append ``data``.

        Raises:
            TargetError: If the temporary folder is full.
        """
        # Records are small; writing each to the file would cost more than creating it.
        self._held += data
        if len(self._held) >= _HOLD:
            self._flush()

    @property
    def size(self) -> int:
        """Bytes written so far."""
        self._flush()
        return self._file.tell()

    def chunks(self) -> Iterator[bytes]:
        """Yield all bytes, from the start."""
        self._flush()
        self._file.seek(0)
        while chunk := self._file.read(CHUNK):
            yield chunk

    def lines(self) -> Iterator[bytes]:
        """Yield all bytes line by line, each with its LF."""
        self._flush()
        self._file.seek(0)
        yield from self._file

    def handle(self) -> BinaryIO:
        """Return a file object at the start; it is valid as long as the spool."""
        self._flush()
        self._file.seek(0)
        # A SpooledTemporaryFile is a BinaryIO in all but its declared type.
        return cast("BinaryIO", self._file)

    def close(self) -> None:
        """Release the space."""
        self._held.clear()
        self._file.close()

    def _flush(self) -> None:
        if self._held:
            _guarded(self._file.write, bytes(self._held))
            self._held.clear()


class SpoolStreams:
    """Many streams of bytes in one temporary file, each appended to and read separately."""

    _MOST_HELD = 1 << 21

    def __init__(self) -> None:
        self._file = tempfile.SpooledTemporaryFile(max_size=1 << 20)  # noqa: SIM115
        self._end = 0
        self._all: list[SpoolStream] = []
        self._held = 0

    def new_stream(self) -> "SpoolStream":
        """Return a new stream."""
        stream = SpoolStream(self)
        self._all.append(stream)
        return stream

    def close(self) -> None:
        """Release the space."""
        self._file.close()

    def hold(self, size: int) -> None:
        """Count bytes that a stream has in memory; if they are many, all streams are flushed."""
        self._held += size
        if self._held > self._MOST_HELD:
            for one in self._all:
                one.flush()
            self._held = 0

    def append(self, data: bytes) -> tuple[int, int]:
        """Write to the end of the file, and return the start and end of the written range."""
        start, self._end = self._end, self._end + len(data)
        self._file.seek(start)
        _guarded(self._file.write, data)
        return start, self._end

    def read_range(self, start: int, end: int) -> Iterator[bytes]:
        """Yield the bytes of a range of the file."""
        for at in range(start, end, CHUNK):
            self._file.seek(at)  # others may have read in between
            yield self._file.read(min(CHUNK, end - at))


class SpoolStream:
    """One of the streams of ``SpoolStreams``."""

    def __init__(self, strands: SpoolStreams) -> None:
        self._strands = strands
        self._spans: list[tuple[int, int]] = []
        self._held = bytearray()

    def write(self, data: bytes) -> None:
        """Append ``data``.

        Raises:
            TargetError: If the temporary folder is full.
        """
        self._held += data
        self._strands.hold(len(data))

    def lines(self) -> Iterator[bytes]:
        """Yield all lines written so far, without their LF."""
        stored = chain.from_iterable(starmap(self._strands.read_range, list(self._spans)))
        rest = b""
        for piece in chain(stored, [bytes(self._held)]):
            *lines, rest = (rest + piece).split(b"\n")
            yield from lines
        if rest:
            yield rest

    def write_pack(self, data: bytes) -> None:
        """Append ``data`` as one pack; a stream of packs has nothing else in it.

        Raises:
            TargetError: If the temporary folder is full.
        """
        self.write(_frame(len(data), blake3(data).digest(_CHECK)) + data)

    def packs(self) -> Iterator[bytes]:
        """Yield the packs written so far.

        Raises:
            TargetError: If one differs from what was written: the temporary folder damaged it.
        """
        stored = chain.from_iterable(starmap(self._strands.read_range, list(self._spans)))
        rest = bytearray()
        for piece in chain(stored, [bytes(self._held)]):
            rest += piece
            while len(rest) >= _FRAME:
                size, check = _unframe(rest)
                if len(rest) < _FRAME + size:
                    break
                pack = bytes(rest[_FRAME : _FRAME + size])
                del rest[: _FRAME + size]
                if blake3(pack).digest(_CHECK) != check:
                    raise TargetError("temporary data was damaged", file=tempfile.gettempdir())
                yield pack

    def flush(self) -> None:
        """Move the bytes in memory to the file."""
        if self._held:
            self._spans.append(self._strands.append(bytes(self._held)))
            self._held.clear()


class PrivateFolder(Closable):
    """A folder that only this process can read, with one file. A context manager.

    Args:
        name: A name for the file; only its suffix is used.
    """

    def __init__(self, name: str = "") -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="satchel-")
        self.folder = Path(self._folder.name)
        suffix = "".join(PurePosixPath(name).suffixes)[-_LONGEST_SUFFIX:]
        plain = suffix.isascii() and suffix.replace(".", "").replace("_", "").isalnum()
        self.file = self.folder / (_NAME + (suffix if plain else ""))

    def close(self) -> None:
        """Remove it with its contents."""
        self._folder.cleanup()


@contextmanager
def temporary_space() -> Iterator[None]:
    """Convert errors in writing temporary data.

    Raises:
        TargetError: If the temporary folder is full.
    """
    try:
        yield
    except OSError as error:
        raise TargetError(
            f"cannot write temporary data: {error.strerror or error}",
            file=tempfile.gettempdir(),
            hint="Free disk space there, or set TMPDIR to a larger folder.",
        ) from error


@contextmanager
def temporary_file() -> Iterator[BinaryIO]:
    """Yield a nameless temporary file, open for reading and writing.

    Raises:
        TargetError: If the temporary folder is full.
    """
    with temporary_space(), tempfile.TemporaryFile() as stream:
        yield cast("BinaryIO", stream)


def _guarded(call: Callable[[bytes], Any], data: bytes) -> None:
    with temporary_space():
        call(data)
