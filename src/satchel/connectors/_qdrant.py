"""The folder of Qdrant's local mode: ``meta.json``, a lock, and an SQLite file per collection.

Written as qdrant-client 1.20 writes it, and read without Qdrant's library, which loads all points
at once and runs code in them (see ``formats._pickles``).
"""

import base64
import binascii
import fcntl
import os
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import msgspec

from satchel.errors import (
    InputError,
    LimitError,
    LockedError,
    MalformedError,
    SatchelError,
    TargetError,
    UnreadableError,
)
from satchel.formats._pickles import POINTS, UUID_CLASS, Global, Model, unpickled
from satchel.runtime.files import atomic_write, open_input
from satchel.runtime.foreign_databases import Database
from satchel.runtime.private_files import make_folders


def pickled(value: Any) -> bytes:
    """Return the pickle, of protocol 4, of a plain value or of a ``Model``."""
    out = bytearray(b"\x80\x04")
    _write(value, out)
    out += b"."
    return bytes(out)


def point(identity: str | int, vectors: dict[str, Any], payload: dict[str, Any]) -> Model:
    """Return a point of Qdrant's local mode, ready to be pickled."""
    model = Model(Global(POINTS, "PointStruct"))
    model.members = {"id": identity, "vector": vectors, "payload": payload}
    return model


def _write(value: Any, out: bytearray) -> None:
    kind = type(value)
    writer = _WRITERS.get(kind)
    if writer is None:
        raise TypeError(kind.__name__)
    writer(value, out)


def _write_text(text: str, out: bytearray) -> None:
    data = text.encode()
    short = len(data) < 1 << 8
    out += b"\x8c" + bytes([len(data)]) if short else b"X" + struct.pack("<I", len(data))
    out += data


def _write_bytes(data: bytes, out: bytearray) -> None:
    out += b"B" + struct.pack("<I", len(data)) + data


def _write_whole(number: int, out: bytearray) -> None:
    if 0 <= number < 1 << 8:
        out += b"K" + bytes([number])
    elif 0 <= number < 1 << 16:
        out += b"M" + struct.pack("<H", number)
    elif -(1 << 31) <= number < 1 << 31:
        out += b"J" + struct.pack("<i", number)
    else:
        data = number.to_bytes(number.bit_length() // 8 + 1, "little", signed=True)
        short = len(data) < 1 << 8
        out += b"\x8a" + bytes([len(data)]) if short else b"\x8b" + struct.pack("<I", len(data))
        out += data


def _write_list(items: list[Any], out: bytearray) -> None:
    out += b"]("
    for item in items:
        _write(item, out)
    out += b"e"


def _write_dict(members: dict[str, Any], out: bytearray) -> None:
    out += b"}("
    for name, part in members.items():
        _write(name, out)
        _write(part, out)
    out += b"u"


def _write_set(items: set[Any], out: bytearray) -> None:
    out += b"\x8f("
    for item in sorted(items):
        _write(item, out)
    out += b"\x90"


def _write_model(model: Model, out: bytearray) -> None:
    """Write an object as pydantic pickles models: the class, no arguments, then its state."""
    _write_text(model.cls.module, out)
    _write_text(model.cls.name, out)
    out += b"\x93)\x81"
    state = {
        "__dict__": model.members,
        "__pydantic_extra__": None,
        "__pydantic_fields_set__": set(model.members),
        "__pydantic_private__": None,
    }
    _write_dict(state, out)
    out += b"b"


_WRITERS: dict[type[Any], Callable[[Any, bytearray], None]] = {
    type(None): lambda _, out: out.extend(b"N"),
    bool: lambda value, out: out.extend(b"\x88" if value else b"\x89"),
    int: _write_whole,
    float: lambda value, out: out.extend(b"G" + struct.pack(">d", value)),
    str: _write_text,
    bytes: _write_bytes,
    list: _write_list,
    dict: _write_dict,
    set: _write_set,
    Model: _write_model,
}


def key_of(identity: str | int) -> bytes:
    """Return the pickle of a point's id exactly as Qdrant's local mode makes its row's key."""
    body = bytearray()
    _write(identity, body)
    if isinstance(identity, str):
        body += b"\x94"
    body += b"."
    frame = 4  # a shorter one is written without a frame
    head = b"\x95" + struct.pack("<Q", len(body)) if len(body) >= frame else b""
    return b"\x80\x04" + head + bytes(body)


_MOST_NODES = 300_000
_DEEPEST = 100


def as_json(value: Any) -> Any:
    """Return an unpickled value as JSON, as Qdrant would show it.

    Bytes, and numbers that JSON cannot hold, are unchanged.

    Raises:
        LimitError: If it is nested too deep, or repeated parts make it endless.
        MalformedError: If a part of it has no form in JSON.
    """
    return _Shown().of(value, 0)


class _Shown:
    """Converts a value to JSON and counts its parts."""

    def __init__(self) -> None:
        self._left = _MOST_NODES

    def of(self, value: Any, depth: int) -> Any:
        self._left -= 1
        if self._left < 0 or depth > _DEEPEST:
            raise LimitError(
                "a value of a point is nested too deeply, or repeats references too often"
            )
        if isinstance(value, dict):
            return {self._key(key): self.of(part, depth + 1) for key, part in value.items()}
        if isinstance(value, list | tuple):
            return [self.of(part, depth + 1) for part in value]
        if isinstance(value, set | frozenset):
            return sorted((self.of(part, depth + 1) for part in value), key=repr)
        return _leaf(value)

    def _key(self, key: Any) -> str:
        self._left -= 1
        value = _leaf(key)
        if isinstance(value, str):
            return value
        if isinstance(value, bool):
            return str(value).lower()
        if value is None or isinstance(value, int | float):
            return str(value)
        raise MalformedError("a member name of a point is not text")


def _leaf(value: Any) -> Any:
    if value is None or isinstance(value, str | bool | int | float | bytes):
        return value
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, Model) and value.cls == UUID_CLASS:
        return _uuid(value)
    raise MalformedError("a point contains a value that JSON cannot represent")


def _uuid(model: Model) -> str:
    number = model.members.get("int")
    if type(number) is not int or not 0 <= number < 1 << 128:
        raise MalformedError("a damaged UUID in a point")
    return str(UUID(int=number))


_META = "meta.json"
_LOCK = ".lock"
_STORAGE = "storage.sqlite"
_META_BYTES = 16 * 2**20
_TABLE = "CREATE TABLE IF NOT EXISTS points (id TEXT PRIMARY KEY, point BLOB)"

Identity = str | int


class QdrantPoint(NamedTuple):
    """A point of a collection."""

    place: int
    """Number of its row; of two rows of a point, the later one counts."""

    id: Identity
    vectors: Any
    payload: dict[str, Any]


class QdrantFolder:
    """A folder of Qdrant's local mode, locked while open.

    Args:
        path: The folder.
        writes: Whether to open it for writing, and create it if missing.

    Raises:
        UnreadableError: If it is not such a folder.
        LockedError: If another process has it open.
    """

    def __init__(self, path: Path, *, writes: bool = False) -> None:
        self.path = path
        self._writes = writes
        if writes:
            _made(path)
        elif not (path / _META).is_file():
            raise UnreadableError(
                "not a Qdrant local-mode folder: meta.json is missing",
                file=str(path),
                hint="Use the client's `path`; with Mem0, vector_store.config.path.",
            )
        self._lock = _locked(path / _LOCK, writes=writes)
        try:
            self._meta = _read_meta(path / _META)
        except BaseException:
            self.close()
            raise

    @property
    def collections(self) -> dict[str, Any]:
        """The configuration of each collection."""
        return dict(self._meta["collections"])

    def storage(self, collection: str) -> Path:
        """Return the file with a collection's points; its folder is created when writing.

        Raises:
            MalformedError: If the name is not valid.
        """
        if collection in ("", ".", "..") or "/" in collection or "\x00" in collection:
            raise MalformedError("a collection with an invalid name", file=str(self.path / _META))
        folder = self.path / "collection" / collection
        if self._writes:
            _make_folders(folder)
        return folder / _STORAGE

    def dimensions(self, collection: str) -> int | None:
        """Return the dimensions of a collection's vector; None if it has named vectors."""
        config = self.collections.get(collection)
        vectors = config.get("vectors") if isinstance(config, dict) else None
        size = vectors.get("size") if isinstance(vectors, dict) else None
        return size if type(size) is int else None

    def make(self, collection: str, dimensions: int) -> None:
        """Create a collection as Mem0 2 does: a cosine vector, and a sparse one of words.

        Raises:
            TargetError: If it cannot be written.
        """
        vector = {"size": dimensions, "distance": "Cosine", "on_disk": False}
        words = {"bm25": {"index": None, "modifier": "idf"}}
        self.make_with(collection, {"vectors": vector, "sparse_vectors": words})

    def make_with(self, collection: str, config: dict[str, Any]) -> None:
        """Create a collection.

        Args:
            collection: Its name.
            config: Its ``vectors`` and ``sparse_vectors``.

        Raises:
            TargetError: If it cannot be written.
        """
        meta = {**self._meta, "collections": {**self.collections, collection: config}}
        self.storage(collection)  # Qdrant expects its folder
        with atomic_write(self.path / _META) as stream:
            stream.write(msgspec.json.encode(meta))
        self._meta = meta

    def close(self) -> None:
        """Release the lock; can be called twice."""
        handle, self._lock = self._lock, None
        if handle is not None:
            os.close(handle)


def _made(path: Path) -> None:
    _make_folders(path)
    if not (path / _META).exists():
        with atomic_write(path / _META, overwrite=False) as stream:
            stream.write(b'{"collections": {}, "aliases": {}}')


def _make_folders(path: Path) -> None:
    try:
        make_folders(path)
    except OSError as error:
        problem = f"cannot create the folder: {error.strerror or error}"
        raise TargetError(problem, file=str(path)) from error


def _read_meta(path: Path) -> dict[str, Any]:
    with open_input(path) as stream:
        data = stream.read(_META_BYTES + 1)
    if len(data) > _META_BYTES:
        raise LimitError("too large", file=str(path))
    try:
        meta = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedError(f"not JSON: {error}", file=str(path)) from error
    if not isinstance(meta, dict) or not isinstance(meta.get("collections"), dict):
        raise MalformedError("it lists no collections", file=str(path), field="collections")
    return meta


def _locked(path: Path, *, writes: bool) -> int | None:
    """Return the descriptor that holds the lock; None if the folder has no lock file."""
    flags = os.O_RDWR | os.O_CREAT if writes else os.O_RDONLY
    try:
        handle = os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, 0o600)
    except FileNotFoundError:
        return None
    except OSError as error:
        kind = TargetError if writes else UnreadableError
        raise kind(f"cannot open the lock: {error.strerror}", file=str(path)) from error
    try:
        fcntl.flock(handle, (fcntl.LOCK_EX if writes else fcntl.LOCK_SH) | fcntl.LOCK_NB)
    except BlockingIOError as error:
        holder = _holder(os.fstat(handle).st_ino)
        os.close(handle)
        raise LockedError(
            f"{holder or 'another process'} has this store open",
            file=str(path.parent),
            hint="Close the program that uses it, or read a copy of the folder.",
        ) from error
    return handle


def _holder(inode: int) -> str:
    """Return the process that holds a lock; None where the system does not report it (proc(5))."""
    with suppress(OSError, ValueError, IndexError):
        for line in Path("/proc/locks").read_text().splitlines():
            words = line.split()
            if words[1] == "FLOCK" and int(words[5].rpartition(":")[2]) == inode:
                pid = int(words[4])
                name = Path(f"/proc/{pid}/comm").read_text(errors="replace").strip()
                shown = "".join(sign for sign in name if sign.isprintable())
                return f"process {pid} ({shown})"
    return ""


class Points:
    """The points of one collection.

    Args:
        path: Its file.
        most_bytes: Largest size of a point.
        writes: Whether to open it for writing, and create the file if missing.

    Raises:
        MalformedError: If it has no table of points.
    """

    def __init__(self, path: Path, *, most_bytes: int, writes: bool = False) -> None:
        self._database = Database(path, most_bytes=most_bytes, writes=writes)
        try:
            if writes and not self._database.columns("points"):
                with self._database.transaction():
                    self._database.run(_TABLE, [()])
            self._require_table()
            self._outdated = frozenset(() if writes else self._replaced())
        except BaseException:
            self._database.close()
            raise

    def _require_table(self) -> None:
        if self._database.columns("points") != ["id", "point"]:
            raise MalformedError("the points table is missing", file=str(self._database.path))

    def page(
        self,
        after: int | None,
        limit: int,
        refuse: Callable[[InputError], None] | None = None,
    ) -> tuple[list[QdrantPoint], int | None]:
        """Return the points after a position, and the position for the next page; None at the end.

        Args:
            after: The position; None for the start.
            limit: The largest number of points.
            refuse: Called with the error of a damaged point, which is skipped; None to raise it.

        Raises:
            MalformedError: If one is damaged, or the position is not valid.
        """
        if after is not None and not list(
            self._database.rows("SELECT 1 FROM points WHERE rowid = ?", after)
        ):
            raise MalformedError("no page starts at this cursor", field="cursor")
        statement = (
            "SELECT rowid, point FROM points WHERE ? IS NULL OR rowid > ? ORDER BY rowid LIMIT ?"
        )
        rows = list(self._database.rows(statement, after, after, limit + 1))
        points = list[QdrantPoint]()
        for position, data in rows[:limit]:
            if position not in self._outdated:
                try:
                    points.append(self._point(position, data))
                except InputError as error:
                    if refuse is None:
                        raise
                    refuse(error)
        return points, rows[limit - 1][0] if len(rows) > limit else None

    def get(self, identity: Identity) -> QdrantPoint | None:
        """Return one point."""
        rows = list(
            self._database.rows("SELECT rowid, point FROM points WHERE id = ?", _key(identity))
        )
        return self._point(*rows[0]) if rows else None

    def put(self, points: Sequence[tuple[Identity, dict[str, Any], dict[str, Any]]]) -> None:
        """Write points with their vectors and payloads; durable on return.

        Raises:
            TargetError: If they cannot be written; none of them is.
        """
        rows = [(_key(name), pickled(point(name, *rest))) for name, *rest in points]
        with self._database.transaction():
            self._database.run("INSERT OR REPLACE INTO points VALUES (?, ?)", rows)

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    def _point(self, position: int, data: Any) -> QdrantPoint:
        try:
            point = unpickled(data) if isinstance(data, bytes) else None
            if not isinstance(point, Model) or point.cls.name != "PointStruct":
                raise MalformedError("not a point")
            identity = as_json(point.members.get("id"))
            if isinstance(identity, bool) or not isinstance(identity, str | int):
                raise MalformedError("a point without an ID")
            payload = as_json(point.members.get("payload") or {})
            if not isinstance(payload, dict):
                raise MalformedError("a point without a payload")
        except SatchelError as error:
            error.byte, error.field = None, f"points/{position}"
            raise error.located(file=str(self._database.path)) from error.__cause__
        return QdrantPoint(position, identity, point.members.get("vector"), payload)

    def _replaced(self) -> Iterator[int]:
        """Yield the positions of points that were written again under another key.

        Other versions spell the key of a row differently, and leave both rows.
        """
        others = dict[Identity, list[int]]()
        for position, key in self._database.rows("SELECT rowid, id FROM points"):
            identity = _identity(key)
            if identity is not None and _key(identity) != key:
                others.setdefault(identity, []).append(position)
        for identity, positions in others.items():
            usual = self._database.rows("SELECT rowid FROM points WHERE id = ?", _key(identity))
            yield from sorted([*positions, *(position for (position,) in usual)])[:-1]


def _key(identity: Identity) -> str:
    return base64.b64encode(key_of(identity)).decode()


def _identity(key: Any) -> Identity | None:
    try:
        value = as_json(unpickled(base64.b64decode(key, validate=True)))
    except (SatchelError, binascii.Error, TypeError, ValueError):
        return None  # the ID in the point decides
    if isinstance(value, str):
        return value.lower()
    return value if isinstance(value, int) else None
