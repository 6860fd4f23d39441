"""Writes the bad samples of LangGraph's checkpoints from the good one; run again, nothing changes.

``python tests/data/formats/langgraph_checkpoints/make.py``. ``good-threads.db`` was made by the
real library (``benchmarks/peers/langgraph_work.py``): two threads, a fork, a tool, a store.
"""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

HERE = Path(__file__).parent
GOOD = HERE / "good-threads.db"
SET = "UPDATE checkpoints SET {} WHERE rowid = 3"
FEW = "DELETE FROM checkpoints WHERE rowid > 4; DELETE FROM writes; DELETE FROM store; VACUUM;"
BAD = {
    "empty": "DELETE FROM checkpoints; DELETE FROM store",
    "pickle": SET.format("type = 'pickle', checkpoint = x'80049520'"),
    "unknown-type": SET.format("type = 'zstd'"),
    "cut-pack": SET.format("checkpoint = substr(checkpoint, 1, 90)"),
    "deep-pack": SET.format(f"checkpoint = x'{'91' * 9000}c0'"),
    "huge-array": SET.format("checkpoint = x'ddffffffff'"),
    "list": SET.format("checkpoint = x'90'"),
    "metadata-list": SET.format("metadata = '[]'"),
    "no-column": "ALTER TABLE checkpoints RENAME COLUMN metadata TO about",
}


def main() -> None:
    """Write everything."""
    for name, statements in BAD.items():
        path = HERE / f"bad-{name}.db"
        shutil.copyfile(GOOD, path)
        with closing(sqlite3.connect(path)) as database:
            database.executescript(FEW + statements)
    data = (HERE / "bad-list.db").read_bytes()
    (HERE / "bad-cut.db").write_bytes(data[:-700])


if __name__ == "__main__":
    main()
