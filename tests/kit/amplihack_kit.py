"""Contents of amplihack's databases, independent of the writer."""

from __future__ import annotations

import json
import sqlite3
from base64 import b64decode
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import ladybug

_IN_JSON = ("metadata", "tags")


def tables_in(data: bytes) -> list[Any]:
    """Return the rows of a database by table, with parsed JSON and without row numbers."""
    with closing(sqlite3.connect(":memory:")) as db:
        db.deserialize(data)
        names = [
            name
            for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")
            if not name.startswith("sqlite_")
        ]
        return [{name: _rows(db, name) for name in sorted(names)}]


def _rows(db: sqlite3.Connection, table: str) -> list[dict[str, Any]]:
    found = db.execute(f"SELECT * FROM {table} ORDER BY rowid")  # noqa: S608 - of a sample
    names = [one[0] for one in found.description]
    rows = (dict(zip(names, values, strict=True)) for values in found)
    return [
        {
            name: json.loads(value) if name in _IN_JSON and value else value
            for name, value in row.items()
            if name != "id" or not isinstance(value, int)
        }
        for row in rows
    ]


def graph_in(data: bytes) -> list[Any]:
    """Return the nodes and links of a graph, with their plain or base64 JSON parsed."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "graph"
        path.write_bytes(data)
        database = ladybug.Database(str(path), read_only=True, max_db_size=1 << 30)
        connection = ladybug.Connection(database)
        nodes = connection.execute("MATCH (n) RETURN n").get_all()
        links = connection.execute("MATCH ()-[l]->() RETURN l").get_all()
        connection.close()
        database.close()
    return [
        {
            name: _from_json(value) if name in _IN_JSON and value else value
            for name, value in row.items()
            if not name.startswith("_") and value not in (None, "")
        }
        for (row,) in [*nodes, *links]
    ]


def _from_json(text: str) -> Any:
    return json.loads(text if text.startswith(("{", "[")) else b64decode(text))
