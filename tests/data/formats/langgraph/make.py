"""Writes the bad samples of LangGraph's store from the good one; run it again, nothing changes.

``python tests/data/formats/langgraph/make.py``. ``good-store.db`` was made by the real library
(``benchmarks/peers/langgraph_work.py``, 12 items); ``good-vectors.db`` has the library's table of
vectors, which it fills where an index is configured.
"""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

HERE = Path(__file__).parent
GOOD = HERE / "good-store.db"
BAD = {
    "empty": ["DELETE FROM store"],
    "value-cut": ['UPDATE store SET value = \'{"kind": "Mem\' WHERE rowid = 2'],
    "value-list": ["UPDATE store SET value = '[]' WHERE rowid = 2"],
    "value-bytes": ["UPDATE store SET value = x'ff7b7d' WHERE rowid = 1"],
    "key-number": ["UPDATE store SET key = x'00' WHERE rowid = 1"],
    "no-column": ["ALTER TABLE store RENAME COLUMN prefix TO namespace"],
    "view": ["ALTER TABLE store RENAME TO old", "CREATE VIEW store AS SELECT * FROM old"],
}
VECTORS = """
CREATE TABLE vector_migrations (v INTEGER PRIMARY KEY);
INSERT INTO vector_migrations VALUES (0);
CREATE TABLE store_vectors (prefix text NOT NULL, key text NOT NULL, field_name text NOT NULL,
 embedding BLOB, created_at TIMESTAMP, updated_at TIMESTAMP, PRIMARY KEY (prefix, key, field_name));
INSERT INTO store_vectors SELECT prefix, key, 'text', x'0000803f0000003f', created_at, updated_at
 FROM store WHERE rowid < 4;
"""


def main() -> None:
    """Write everything."""
    for name, statements in BAD.items():
        _changed(HERE / f"bad-{name}.db", ";".join(statements))
    _changed(HERE / "good-vectors.db", VECTORS)
    (HERE / "bad-cut.db").write_bytes(GOOD.read_bytes()[:-700])
    (HERE / "bad-not-a-database.db").write_bytes(b"SQLite format 3\x00 no")


def _changed(path: Path, statements: str) -> None:
    shutil.copyfile(GOOD, path)
    with closing(sqlite3.connect(path)) as database:
        database.executescript(statements)


if __name__ == "__main__":
    main()
