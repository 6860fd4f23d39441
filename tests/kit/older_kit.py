"""A store as an older program would have left it, and the steps that bring it up to date.

Nothing older than the first version was released, so this one is made up: it has no links yet and
one index less. Its version is -1; version 0 has the index.
"""

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
from ledger_kit import created, memories

from satchel.crypto.sealed_records import Sealed, decode_record, seal
from satchel.model.records import Semantic
from satchel.ports.rows import derive_row
from satchel.stores.sqlite import SqliteStore
from satchel.stores.sqlite.connection import Step

OLDEST = -1
_INDEX = "CREATE INDEX record_session ON record (bank, session) WHERE session IS NOT NULL"
_LINK = """
CREATE TABLE link (
    bank INTEGER NOT NULL,
    source TEXT NOT NULL,
    target TEXT NOT NULL,
    kind TEXT NOT NULL,
    place INTEGER NOT NULL,
    PRIMARY KEY (bank, source, kind, target, place)
) STRICT, WITHOUT ROWID;
CREATE INDEX link_target ON link (bank, target);
"""


def build_links(connection: apsw.Connection) -> None:
    """Derive every link from the records."""
    connection.execute(_LINK)
    rows: list[Any] = connection.execute("SELECT place, bank, body FROM record").fetchall()
    for place, bank, body in rows:
        for link in derive_row(decode_record(body), seq=0, at="", body=body).links:
            values = (bank, *link, place)
            connection.execute("INSERT INTO link VALUES (?, ?, ?, ?, ?)", values)


STEPS: dict[int, Step] = {-1: _INDEX, 0: build_links}


def make_older(path: Path, size: int = 20) -> tuple[str, list[Sealed]]:
    """Make a store of the oldest version; return its bank and its records but for the first two.

    The last is a child of the one before it.
    """
    store = SqliteStore(path)
    ledger = created(store)
    records = memories(size)
    ledger.append(records)
    child = seal(Semantic(text="a child", parent_ids=(records[-1].id,)))
    ledger.append([child])
    store.close()
    connection = apsw.Connection(str(path))
    connection.execute("DROP INDEX record_session; DROP TABLE link;")
    connection.pragma("user_version", OLDEST)
    connection.close()
    return ledger.bank, [*records, child]


def version_of(path: Path) -> int:
    """Return the version of a file without changing it."""
    connection = apsw.Connection(f"file:{path}?immutable=1", flags=apsw.SQLITE_OPEN_URI | 1)
    try:
        return int(connection.pragma("user_version"))
    finally:
        connection.close()


def killed_at(moment: str, path: Path) -> None:
    """Open a store of the oldest version for writing, and kill the process at a step."""
    steps = dict(STEPS)

    def die(*_: object, **__: object) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def then_die(step: Callable[[apsw.Connection], object]) -> Step:
        def both(connection: apsw.Connection) -> None:
            step(connection)
            connection.cache_flush()  # so that some of it is on disk
            die()

        return both

    if moment == "in a step":
        steps[0] = then_die(build_links)
    elif moment == "between steps":
        steps[-1] = then_die(lambda connection: connection.execute(_INDEX))
    else:
        setattr(os, moment, die)
    SqliteStore(path, steps=steps)
