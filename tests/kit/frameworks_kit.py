"""Looking into the databases of LangGraph and Chroma, whoever wrote them."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from typing import Any

import msgspec

_IN_JSON = ("value", "metadata", "config_json_str", "schema_str")
_ENGINES = ("v", "channel_versions", "versions_seen", "updated_channels", "pending_sends")
_SQLITE = b"SQLite format 3\x00"
_OF_THE_LIBRARY = ("migrations", "writes")
_NO_VALUES = ("hash", "sql")


def rows_in(data: bytes) -> list[Any]:
    """Return the rows of a database by table, what is packed in them as data."""
    assert data.startswith(_SQLITE)
    with closing(sqlite3.connect(":memory:")) as db:
        db.deserialize(data)
        names = [
            name
            for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")
            if not name.startswith(("sqlite_", "embedding_fulltext_search"))
            and name not in _OF_THE_LIBRARY
        ]
        return [{name: _rows(db, name) for name in sorted(names)}]


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
