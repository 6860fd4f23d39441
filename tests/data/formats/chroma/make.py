"""Writes the samples of Chroma's database from the folder that the real library made.

``python tests/data/formats/chroma/make.py``; ``tests/data/chroma-folder`` is of
``benchmarks/peers/chroma_work.py``, five records a collection, with their indexes beside it. Here
the vectors of what is not in the queue any more are therefore lost.
"""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

HERE = Path(__file__).parent
GOOD = HERE.parent.parent / "chroma-folder" / "chroma.sqlite3"
SMALL = (
    "DROP TABLE embedding_fulltext_search",
    "UPDATE migrations SET sql = ''",
    "PRAGMA page_size = 512",
    "VACUUM",
)
BAD = {
    "empty": "DELETE FROM embeddings; DELETE FROM embeddings_queue",
    "id-number": "UPDATE embeddings SET embedding_id = x'00' WHERE id = 1",
    "document-number": "UPDATE embedding_metadata SET string_value = NULL, int_value = 5"
    " WHERE id = 1 AND key = 'chroma:document'",
    "no-queue": "ALTER TABLE embeddings_queue RENAME COLUMN topic TO subject",
    "collection-without-name": "UPDATE collections SET name = x'00' WHERE rowid = 1",
    "queued-no-json": "UPDATE embeddings_queue SET metadata = '{' ; DELETE FROM max_seq_id",
}


def main() -> None:
    """Write everything."""
    _changed(HERE / "good-two.sqlite3", "SELECT 1")
    for name, statements in BAD.items():
        _changed(HERE / f"bad-{name}.sqlite3", statements)
    (HERE / "bad-cut.sqlite3").write_bytes((HERE / "good-two.sqlite3").read_bytes()[:-300])


def _changed(path: Path, statements: str) -> None:
    shutil.copyfile(GOOD, path)
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.executescript(statements)
        for statement in SMALL:
            database.execute(statement)


if __name__ == "__main__":
    main()
