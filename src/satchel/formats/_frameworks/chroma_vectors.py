"""The vectors of a Chroma collection: in its index on disk, and in the queue of what is newer.

An index is a folder beside the database: records of one length with a label at the end, in
``data_level0.bin``; how long they are, in ``header.bin``; the length that a vector had before it
was made one of length 1, in ``length.bin``; which id a label stands for, in a pickle that is read
as data. Compared with chromadb 1.5.9 (hnswlib).
"""

import os
import re
import struct
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from satchel.disk.databases.foreign import Database
from satchel.disk.databases.keyed import Keyed
from satchel.errors import LimitError, MalformedError
from satchel.formats._unpickling import unpickled

_FOLDER = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII)
_HEADER = struct.Struct("<iQQQQQQ")
_LABEL = struct.Struct("<Q")
_LENGTH = struct.Struct("<f")
_MOST_NAMES = 256 * 2**20
_MOST_RECORD = 2**20
_DELETE = 3

USUAL, SPACES = "l2", ("cosine", "ip")
"""How a collection compares vectors where nothing is said, and the other ways."""


class Segment(NamedTuple):
    """One collection's place in the database."""

    collection: str
    name: str
    records: str
    """The segment of its records."""

    vectors: str | None
    """The segment of its vectors, whose index is in the folder of that name."""

    space: str = USUAL
    """How vectors are compared; with `cosine`, they were made ones of length 1 in the index."""


class Vectors:
    """The vectors of one collection, by id.

    Args:
        database: The database.
        segment: The collection.
        folder: What the database is in.
    """

    def __init__(self, database: Database, segment: Segment, folder: Path) -> None:
        self._held = Keyed()
        try:
            if segment.vectors is not None and _FOLDER.fullmatch(segment.vectors):
                self._read_index(folder / segment.vectors, cosine=segment.space == "cosine")
            self._read_queue(database, segment.collection)
        except BaseException:
            self.close()
            raise

    def of(self, identity: str) -> bytes | None:
        """Return a vector, as 32-bit numbers."""
        return self._held.get(identity.encode())

    def close(self) -> None:
        """Give the space back."""
        self._held.close()

    def _read_queue(self, database: Database, collection: str) -> None:
        sql = (
            "SELECT id, operation, vector, encoding FROM embeddings_queue"
            " WHERE topic LIKE ? ORDER BY seq_id"
        )
        for identity, operation, vector, encoding in database.rows(sql, f"%/{collection}"):
            if type(identity) is not str:
                continue
            if operation == _DELETE:
                self._held.discard(identity.encode())
            elif type(vector) is bytes and encoding == "FLOAT32":
                self._held.put(identity.encode(), vector)

    def _read_index(self, folder: Path, *, cosine: bool) -> None:
        if not (folder / "index_metadata.pickle").is_file():
            return  # all of it is in the queue yet
        with (
            closing(_opened(folder / "index_metadata.pickle")) as names,
            closing(_opened(folder / "header.bin")) as header,
            closing(_opened(folder / "data_level0.bin")) as data,
            closing(_opened(folder / "length.bin")) as lengths,
        ):
            labels = _labels(names, folder)
            try:
                _, _, _, _, size, label_at, vector_at = _HEADER.unpack(header.read(_HEADER.size))
            except struct.error:
                raise _damaged(folder) from None
            if not 0 < vector_at < label_at <= size - _LABEL.size or size > _MOST_RECORD:
                raise _damaged(folder)
            while len(record := data.read(size)) == size:
                vector = record[vector_at:label_at]
                length = lengths.read(_LENGTH.size)
                identity = labels.get(_LABEL.unpack_from(record, label_at)[0])
                if identity is not None:
                    whole = _stretched(vector, length) if cosine else vector
                    self._held.put(identity.encode(), whole)


def _labels(stream: BinaryIO, folder: Path) -> dict[int, str]:
    data = stream.read(_MOST_NAMES + 1)
    if len(data) > _MOST_NAMES:
        raise LimitError("an index has too many names", file=str(folder))
    try:
        found = unpickled(data)
    except MalformedError as error:
        raise error.located(file=str(folder / "index_metadata.pickle")) from error.__cause__
    names = found.get("id_to_label") if isinstance(found, dict) else None
    if not isinstance(names, dict):
        raise _damaged(folder)
    return {
        label: name for name, label in names.items() if type(name) is str and type(label) is int
    }


def _stretched(vector: bytes, length: bytes) -> bytes:
    """Return a vector of length 1 as it was, as far as 32-bit numbers tell."""
    if len(length) != _LENGTH.size:
        return vector
    (factor,) = _LENGTH.unpack(length)
    form = f"<{len(vector) // 4}f"
    try:
        return struct.pack(form, *(one * factor for one in struct.unpack(form, vector)))
    except OverflowError:
        return vector


def _opened(path: Path) -> BinaryIO:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        problem = f"an index cannot be read: {error.strerror}"
        raise MalformedError(problem, file=str(path), byte=0) from error
    return os.fdopen(handle, "rb")


def _damaged(folder: Path) -> MalformedError:
    return MalformedError("a damaged index", file=str(folder), byte=0)


def segments_in(database: Database, collections: list[dict[str, Any]]) -> Iterator[Segment]:
    """Yield where each collection is."""
    for one in collections:
        sql = "SELECT id, scope FROM segments WHERE collection = ?"
        found = {scope: name for name, scope in database.rows(sql, one["id"])}
        if "METADATA" in found:
            config = f"{one.get('config_json_str')}{one.get('schema_str')}".replace(" ", "")
            yield Segment(
                collection=one["id"],
                name=one["name"],
                records=found["METADATA"],
                vectors=found.get("VECTOR"),
                space=next((one for one in SPACES if f'"space":"{one}"' in config), USUAL),
            )
