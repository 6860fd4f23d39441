"""A sink in an SQLite file, next to tables of whoever analyses; rows and place in one commit."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import apsw

from satchel.disk.private import secure_database
from satchel.errors import TargetError
from satchel.ports.outward.sink import COLUMNS, SCHEMA_VERSION, Position, SinkRow
from satchel.remotes.sinks import sql

_BUSY_MS = 30_000
_OTHERS_PROGRAM = "this file belongs to another program, or is a Satchel store"


class SqliteSink:
    """Rows in an SQLite file.

    Args:
        path: The file; made, for its owner only, when it is not there.

    Raises:
        PathRefusedError: If a link or anything but a file of ours is there.
        TargetError: If it cannot be opened, or is a store.
    """

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        secure_database(path, own_folder=False)
        with self._explained():
            self._connection = apsw.Connection(str(path))
            self._connection.set_busy_timeout(_BUSY_MS)
            if self._connection.pragma("application_id"):
                self._connection.close()
                raise TargetError(_OTHERS_PROGRAM, file=self.name, hint="Choose another file.")
            self._connection.pragma("journal_mode", "wal")
            self._connection.pragma("synchronous", "full")
            for statement in sql.tables():
                self._connection.execute(statement)

    def last(self, bank: str) -> Position | None:
        """Return the last row of a bank."""
        with self._explained():
            rows = list(self._connection.execute(sql.asking("?"), (bank,)))
        return position_of(rows, self.name)

    def write(self, bank: str, rows: Sequence[SinkRow]) -> None:
        """Add rows and the place in one commit, so each is there once."""
        if not rows:
            return
        end = (bank, rows[-1].seq, rows[-1].id, SCHEMA_VERSION)
        with self._explained(), self._connection:
            values = ([getattr(row, name) for name in COLUMNS] for row in rows)
            self._connection.executemany(sql.adding("?"), values)
            gone = [(bank, row.target) for row in rows if row.type == "erasure"]
            self._connection.executemany(sql.emptying("?"), gone)
            self._connection.execute(sql.moving("?"), end)

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except apsw.Error as error:
            raise TargetError(f"SQLite error: {error}", file=self.name) from error


def position_of(rows: Sequence[Sequence[object]], name: str) -> Position | None:
    """Return a position from what was asked of a database.

    Raises:
        TargetError: If it is of another version.
    """
    if not rows:
        return None
    seq, identity, version = rows[0]
    if version != SCHEMA_VERSION:
        raise TargetError(f"the sink has column version {version}", file=name)
    return Position(int(str(seq)), str(identity))
