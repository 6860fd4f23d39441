"""Contents of databases of LangGraph and Chroma, independent of the writer."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from typing import Any

import msgspec

_IN_JSON = ("value", "metadata")
_ENGINES = ("v", "channel_versions", "versions_seen", "updated_channels", "pending_sends")
_SQLITE = b"SQLite format 3\x00"
_WAL = slice(18, 20)


def rows_in(data: bytes) -> list[Any]:
    """Return the rows of a database by table, with packed values decoded."""
    with closing(_opened(data)) as db:
        names = [
            name
            for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")
            if not name.startswith("sqlite_") and name != "writes"
        ]
        return [{name: _rows(db, name) for name in sorted(names)}]


def _opened(data: bytes) -> sqlite3.Connection:
    assert data.startswith(_SQLITE)
    whole = bytearray(data)
    whole[_WAL] = b"\x01\x01"  # what is in memory has no log beside it
    db = sqlite3.connect(":memory:")
    db.deserialize(bytes(whole))
    return db


def collections_in(data: bytes) -> list[Any]:
    """Return the records of a Chroma database, and the vectors of its queue."""
    with closing(_opened(data)) as db:
        records = {
            number: {"id": name, "at": when, "in": segment}
            for number, name, when, segment in db.execute(
                "SELECT e.id, embedding_id, created_at, name FROM embeddings e"
                " JOIN segments s ON s.id = segment_id JOIN collections c ON c.id = s.collection"
            )
        }
        for table in ("embedding_metadata", "embedding_metadata_array"):
            for number, key, *values in db.execute(f"SELECT * FROM {table}"):  # noqa: S608 - ours
                found = [value for value in values if value is not None]
                records[number].setdefault(key, []).extend(found)
        queue = "SELECT topic, id, vector FROM embeddings_queue ORDER BY seq_id"
        vectors = {(topic, name): vector for topic, name, vector in db.execute(queue)}
        return [[*records.values(), *(one for one in vectors.values() if one is not None)]]


def _rows(db: sqlite3.Connection, table: str) -> list[dict[str, Any]]:
    found = db.execute(f'SELECT * FROM "{table}" ORDER BY rowid')  # noqa: S608 - of a sample
    names = [one[0] for one in found.description]
    return [
        {name: _value(name, value) for name, value in zip(names, row, strict=True)} for row in found
    ]


def _value(name: str, value: Any) -> Any:
    if name in _IN_JSON and value:
        return json.loads(value)
    if name == "checkpoint":
        packed = _unpacked(value)
        return {key: part for key, part in packed.items() if key not in _ENGINES}
    return value.hex() if isinstance(value, bytes) else value


def _unpacked(data: bytes) -> Any:
    def extension(_: int, inner: memoryview) -> Any:
        return _unpacked(bytes(inner))

    return msgspec.msgpack.decode(data, ext_hook=extension)
