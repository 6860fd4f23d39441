"""Local Mem0 stores: copies of the sample, and points in the format of Qdrant."""

import shutil
import sqlite3
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Any

from satchel.connectors._mem0_store import Mem0Address
from satchel.connectors._qdrant import QdrantFolder, _key, pickled, point
from satchel.connectors.mem0_local import Mem0Local
from satchel.model.records import Entry
from satchel.ports.format import ConnectorOptions, Page, PastVersion
from satchel.ports.record_set import Report

SAMPLE = Path(__file__).parent.parent / "data" / "mem0-local"
"""Created by mem0ai 2.2.1: 22 memories of three users, some changed, two deleted."""

STORAGE = Path("qdrant/collection/mem0/storage.sqlite")


def copy_of_sample(path: Path) -> Path:
    """Return a writable copy of the sample."""
    return Path(shutil.copytree(SAMPLE, path))


def digests(folder: Path) -> dict[str, str]:
    """Return the paths of a folder with a hash of each file."""
    return {
        str(path.relative_to(folder)): sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def with_points(folder: Path, *payloads: dict[str, Any], collection: str = "mem0") -> Path:
    """Create a store with a point for each payload, numbered from 1, with vectors of length two."""
    with closing(QdrantFolder(folder / "qdrant", writes=True)) as made:
        made.make(collection, 2)
    path = folder / "qdrant" / "collection" / collection / "storage.sqlite"
    rows = [
        (_key(number), pickled(point(number, {"": [0.5, 0.5]}, payload)))
        for number, payload in enumerate(payloads, 1)
    ]
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("CREATE TABLE IF NOT EXISTS points (id TEXT PRIMARY KEY, point BLOB)")
        database.executemany("INSERT INTO points VALUES (?, ?)", rows)
    return folder


def opened(folder: Path | str, **how: Any) -> Mem0Local:
    """Open a store."""
    return Mem0Local(Mem0Address.read(str(folder)), ConnectorOptions(**how))


def read(
    folder: Path | str, report: Report | None = None, **how: Any
) -> tuple[list[Entry], list[PastVersion]]:
    """Return everything in a store: current memories and their history."""
    items, past = list[Entry](), list[PastVersion]()
    with closing(opened(folder, **how)) as connector:
        cursor: str | None = None
        while True:
            page: Page = connector.page(cursor, report or Report())
            items += [one for one in page.items if isinstance(one, Entry)]
            past += page.past
            cursor = page.cursor
            if cursor is None:
                return items, past


def entry_of(past: PastVersion) -> Entry:
    """Return the earlier text of a memory."""
    assert isinstance(past.item, Entry)
    return past.item
