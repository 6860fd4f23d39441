"""A record of a Chroma collection as an entry, and back.

A record is a document, an ID and members that are texts, numbers, Booleans or lists of one of these
types. Compared with chromadb 1.5.9.
"""

import math
import os
import re
import struct
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from satchel.crypto.canonical import decode_foreign, encode_foreign
from satchel.crypto.json_reader import NUMBERS, float_spellings, with_numbers
from satchel.crypto.sealed_records import Sealed
from satchel.errors import LimitError, MalformedError
from satchel.formats._database import columns_of, parsed
from satchel.formats._json import time_of
from satchel.formats._pickles import unpickled
from satchel.formats._points import TEXTS, covered_by, fields_of, losses_of, payload_of, text_in
from satchel.model.records import Entry, Semantic
from satchel.model.values import Origin, TrustClass
from satchel.ports.drafts import TEXT_MEMBER
from satchel.ports.record_set import Report
from satchel.ports.vectors import text_mark
from satchel.runtime.foreign_databases import Database
from satchel.runtime.scratch import ScratchMap

_FOLDER = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII)
_HEADER = struct.Struct("<iQQQQQQ")
_LABEL = struct.Struct("<Q")
_LENGTH = struct.Struct("<f")
_MOST_NAMES = 256 * 2**20
_MOST_RECORD = 2**20
_DELETE = 3

USUAL, SPACES = "l2", ("cosine", "ip")
"""The default distance of a collection, and the others."""


class ChromaSegment(NamedTuple):
    """A collection and its segments in the database."""

    collection: str
    name: str
    records: str
    """The segment of its records."""

    vectors: str | None
    """The segment of its vectors; the folder of that name has their index."""

    space: str = USUAL
    """Distance of its vectors; with `cosine`, the index has them normalized."""


class ChromaVectors:
    """The vectors of a collection, by ID.

    Args:
        database: The database.
        segment: The collection.
        folder: The folder of the database.
    """

    def __init__(self, database: Database, segment: ChromaSegment, folder: Path) -> None:
        self._held = ScratchMap()
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
        """Free the temporary space."""
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
            return  # all of it is still in the queue
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
        labels = unpickled(data)
    except MalformedError as error:
        raise error.located(file=str(folder / "index_metadata.pickle")) from error.__cause__
    names = labels.get("id_to_label") if isinstance(labels, dict) else None
    if not isinstance(names, dict):
        raise _damaged(folder)
    return {
        label: name for name, label in names.items() if type(name) is str and type(label) is int
    }


def _stretched(vector: bytes, length: bytes) -> bytes:
    """Return a normalized vector in its original length, with 32-bit precision."""
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


def segments_in(database: Database, collections: list[dict[str, Any]]) -> Iterator[ChromaSegment]:
    """Yield each collection with its segments."""
    for collection in collections:
        sql = "SELECT id, scope FROM segments WHERE collection = ?"
        segments = {scope: name for name, scope in database.rows(sql, collection["id"])}
        if "METADATA" in segments:
            config = f"{collection.get('config_json_str')}{collection.get('schema_str')}".replace(
                " ", ""
            )
            yield ChromaSegment(
                collection=collection["id"],
                name=collection["name"],
                records=segments["METADATA"],
                vectors=segments.get("VECTOR"),
                space=next(
                    (collection for collection in SPACES if f'"space":"{collection}"' in config),
                    USUAL,
                ),
            )


NAME = "chroma"
"""The provider in the origin of entries from Chroma, from any of its formats."""

VECTOR = "embedding"
"""The member of ``origin.as_written`` with the vector, and the mark of its text."""

URI = "uri"
SPACE = "space"
"""Member beside the numbers of a vector with its distance, if not the default."""

_RESERVED = "chroma:"
_MOST_INTEGER = 2**63
_SUPPORTED = frozenset(
    {"id", "nonce", "type", "text", "metadata", "tags", "scope", "origin", "created_at"}
)

Row = dict[str, Any]
"""A record: ``id``, ``document``, ``metadata``, ``embedding``, ``uri``, ``created_at``."""


def entry_of(row: Row, collection: str | None, *, space: str = USUAL) -> Semantic:
    """Return a record as an entry.

    Args:
        row: The record; its vector is 32-bit numbers as bytes, or a list, in the reversible form.
        collection: Its collection, if known.
        space: The distance of its vector, stored if not the default.

    Raises:
        MalformedError: If it has no ID, or a member is not valid.
    """
    identity, document, metadata = row.get("id"), row.get("document"), row.get("metadata")
    if type(identity) is not str:
        raise MalformedError("a record without an ID", field="ids")
    if document is not None and type(document) is not str:
        raise MalformedError("a document that is not text", field="documents")
    if metadata is not None and type(metadata) is not dict:
        raise MalformedError("metadata that is not an object", field="metadatas")
    as_written: Row = {}
    rest = dict(metadata or {})
    named = None if (document or "").strip() else text_in(rest)
    text = document
    if named is not None and (document is None or rest[named].strip()):
        text = rest.pop(named)
        as_written[TEXT_MEMBER] = named
        if document is not None:
            as_written["document"] = document
    if row.get(VECTOR) is not None:
        as_written[VECTOR] = {"of": text_mark(text or ""), "numbers": row[VECTOR]}
        as_written[VECTOR] |= {SPACE: space} if space in SPACES else {}
    if row.get(URI) is not None:
        as_written[URI] = row[URI]
    if metadata is not None and not metadata:
        as_written["metadata"] = {}
    as_written |= float_spellings({"metadata": metadata, VECTOR: row.get(VECTOR)})
    when = row.get("created_at")
    return Semantic(
        text=text,
        created_at=time_of(when),
        origin=Origin(
            provider=NAME,
            source=collection,
            id=identity,
            as_written=as_written,
            trust=TrustClass.IMPORTED,
        ),
        **fields_of(rest),
    )


def row_of(record: Sealed, entry: Entry, report: Report) -> Row:
    """Return an entry as a record; what it cannot hold is counted as lost."""
    origin = entry.origin
    own = origin is not None and origin.provider == NAME
    as_written = origin.as_written if own and origin is not None else {}
    lost = losses_of(record.value, _SUPPORTED)
    lost |= {f"metadata/{name}": "another member has the same name" for name in covered_by(entry)}
    payload, document = payload_of(entry), entry.text
    named = as_written.get(TEXT_MEMBER)
    if named in TEXTS and entry.text is not None and named not in payload:
        payload[named], document = entry.text, as_written.get("document")
        if text_in(payload) != named:
            lost["text"] = "it would be confused with another member"
    elif named is not None:
        lost[f"text/{named}"] = "the text is stored as the document"
    metadata = {name: part for name, part in payload.items() if _fits(name, decode_foreign(part))}
    reason = "Chroma stores texts, numbers, booleans, and lists of one kind"
    lost |= {f"metadata/{name}": reason for name in sorted(payload.keys() - metadata.keys())}
    if not own or "revision" in record.value.get("origin", {}):
        lost |= {"origin": "a record cannot store provenance"} if origin else {}
    for name, why in lost.items():
        report.lost(name, why, example=record.id)
    identity = origin.id if origin is not None and origin.id else record.id.partition(":")[2][:32]
    written = {
        "id": identity,
        "document": document,
        "metadata": metadata if metadata or "metadata" in as_written else None,
        VECTOR: vector_in(as_written.get(VECTOR), entry.text),
        URI: as_written.get(URI),
        "created_at": entry.created_at,
    }
    return with_numbers(written, as_written.get(NUMBERS))


def _fits(name: str, value: Any) -> bool:
    if not name or name.startswith(_RESERVED):
        return False
    if type(value) is list:
        kinds = {type(item) for item in value}
        return len(kinds) == 1 and all(_is_plain(item) for item in value)
    return _is_plain(value)


def _is_plain(value: Any) -> bool:
    kind = type(value)
    if kind is int:
        return bool(-_MOST_INTEGER <= value < _MOST_INTEGER)
    return kind in (str, bool) or (kind is float and math.isfinite(value))


def vector_in(stored: Any, text: str | None) -> Any:
    """Return the vector that came with a record; None if the text has changed since."""
    if not isinstance(stored, dict) or stored.get("of") != text_mark(text or ""):
        return None
    return stored.get("numbers")


DOCUMENT, URIS = "chroma:document", "chroma:uri"
DEFAULT = ("default_tenant", "default_database")
TABLES = {
    "collections": ("id", "name", "database_id"),
    "segments": ("id", "scope", "collection"),
    "embeddings": ("id", "segment_id", "embedding_id"),
    "embedding_metadata": ("id", "key", "string_value", "int_value", "float_value", "bool_value"),
    "embeddings_queue": ("seq_id", "operation", "topic", "id", "vector", "encoding", "metadata"),
}
"""The tables that are read, with their required columns."""

_ARRAYS = "embedding_metadata_array"
_VALUES = ("string_value", "int_value", "float_value", "bool_value")
_COLLECTION_COLUMNS = ("id", "name", "dimension", "config_json_str", "schema_str")
_MOST_COLLECTIONS = 10_000


def collections_in(database: Database, file: str) -> list[Row]:
    """Return the collections, by unique names.

    Raises:
        MalformedError: If it is not a database of Chroma.
    """
    for table, required in TABLES.items():
        columns_of(database, table, required, file)
    columns = [name for name in _COLLECTION_COLUMNS if name in database.columns("collections")]
    sql = (
        f"SELECT {', '.join('c.' + name for name in columns)}, d.name, d.tenant_id"  # noqa: S608 - our own
        " FROM collections c LEFT JOIN databases d ON d.id = c.database_id"
        " ORDER BY c.rowid LIMIT ?"
    )
    collections = []
    for *values, name, tenant in database.rows(sql, _MOST_COLLECTIONS + 1):
        collection = dict(zip(columns, values, strict=True))
        if type(collection["id"]) is not str or type(collection["name"]) is not str:
            raise MalformedError("a collection without a name", file=file, field="collections")
        if (tenant, name) != DEFAULT:
            collection["name"] = f"{tenant}/{name}/{collection['name']}"
        collection["metadata"] = _collection_metadata(database, collection["id"])
        collections.append(
            {key: encode_foreign(part) for key, part in collection.items() if part is not None}
        )
    if len(collections) > _MOST_COLLECTIONS:
        raise MalformedError("too many collections", file=file, field="collections")
    return collections


def _collection_metadata(database: Database, identity: str) -> Row | None:
    known = database.columns("collection_metadata")
    values = [name for name in ("str_value", "int_value", "float_value") if name in known]
    if not values:
        return None
    columns = [*values, *(["bool_value"] if "bool_value" in known else [])]
    sql = f"SELECT key, {', '.join(columns)} FROM collection_metadata WHERE collection_id = ?"  # noqa: S608 - our own
    members = {
        str(key): _value([*rest, *[None] * (len(_VALUES) - len(rest))])
        for key, *rest in database.rows(sql, identity)
    }
    return members or None


def records_in(database: Database, segment: ChromaSegment, file: str) -> Iterator[Row]:
    """Yield the records of a collection, in the order of insertion.

    Raises:
        MalformedError: If the queue is damaged.
    """
    try:
        newer, deleted = _queued(database, segment)
    except MalformedError as error:
        error.field = f"embeddings_queue/{error.field}"
        raise error.located(file=file) from None
    has_arrays = bool(database.columns(_ARRAYS))
    has_times = "created_at" in database.columns("embeddings")
    time = "created_at" if has_times else "NULL"
    sql = f"SELECT id, embedding_id, {time} FROM embeddings WHERE segment_id = ? ORDER BY id"  # noqa: S608 - our own
    for number, identity, when in database.rows(sql, segment.records):
        if identity not in deleted:
            members = _members(database, number, has_arrays=has_arrays)
            yield _row(identity, {**members, **newer.pop(identity, {})}, when)
    for identity, members in newer.items():
        yield _row(identity, members, None)


def _row(identity: Any, members: Row, when: Any) -> Row:
    document, uri = members.pop(DOCUMENT, None), members.pop(URIS, None)
    row = {"id": identity, "document": document, "metadata": members or None, URI: uri}
    return {**row, "created_at": when}


def _members(database: Database, number: int, *, has_arrays: bool) -> Row:
    columns = f"key, {', '.join(_VALUES)}"
    sql = f"SELECT {columns} FROM embedding_metadata WHERE id = ?"  # noqa: S608 - our own
    members = {str(key): encode_foreign(_value(rest)) for key, *rest in database.rows(sql, number)}
    if has_arrays:
        lists = dict[str, list[Any]]()
        sql = f"SELECT {columns} FROM {_ARRAYS} WHERE id = ? ORDER BY rowid"  # noqa: S608 - our own
        for key, *rest in database.rows(sql, number):
            lists.setdefault(str(key), []).append(encode_foreign(_value(rest)))
        members |= lists
    return members


def _value(values: list[Any]) -> Any:
    text, whole, real, truth = values
    if truth is not None:
        return bool(truth)
    return next((one for one in (text, whole, real) if one is not None), None)


def _queued(database: Database, segment: ChromaSegment) -> tuple[dict[str, Row], set[str]]:
    """Return the records of the queue that are newer than their segment, by ID.

    Also return the IDs in the segment that were deleted in the queue.
    """
    rows = list(
        database.rows("SELECT seq_id FROM max_seq_id WHERE segment_id = ?", segment.records)
    )
    last = rows[0][0] if rows and type(rows[0][0]) is int else -1
    sql = (
        "SELECT id, operation, metadata FROM embeddings_queue"
        " WHERE topic LIKE ? AND seq_id > ? ORDER BY seq_id"
    )
    records, deleted = dict[str, Row](), set[str]()
    for identity, operation, metadata in database.rows(sql, f"%/{segment.collection}", last):
        if type(identity) is not str:
            continue
        if operation == _DELETE:
            records.pop(identity, None)
            deleted.add(identity)
        else:
            members = parsed(metadata, "metadata")
            records.setdefault(identity, {}).update(members if isinstance(members, dict) else {})
    return records, deleted
