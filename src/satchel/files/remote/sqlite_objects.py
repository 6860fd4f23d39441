"""Objects in one SQLite database: many stores in a file, safe for several processes."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import apsw

from satchel.errors import StoreVersionError, TargetError
from satchel.files.remote.objects import NotWritten, Taken
from satchel.stores.sqlite.errors import translated
from satchel.stores.sqlite.forking import transaction
from satchel.stores.sqlite.opening import immediate, open_for_writing

_APPLICATION = 0x53466F31  # "SFo1"
_BUSY_MS = 30_000
_RETRY_S = 0.005
_SCHEMA = """
CREATE TABLE object (name TEXT PRIMARY KEY, tag INTEGER NOT NULL, data BLOB NOT NULL);
CREATE TABLE counter (last INTEGER NOT NULL);
INSERT INTO counter VALUES (0);
"""


class SqliteObjects:
    """Objects in a database, each connection for as long as one call.

    Args:
        path: The database; made when it is not there.
        prefix: What all names begin with.
    """

    def __init__(self, path: Path, prefix: str) -> None:
        self.shared = f"sqlite:{path}"
        self._path = path
        self._prefix = prefix.strip("/") + "/"

    @contextmanager
    def _open(self, *, writes: bool) -> Iterator[apsw.Connection]:
        self._path.parent.mkdir(0o700, parents=True, exist_ok=True)
        with transaction() as here:
            connection = open_for_writing(self._path, busy_ms=_BUSY_MS, vfs=None)
            try:
                with translated(str(self._path), connection):
                    connection.pragma("synchronous", 2)
                    connection.pragma("secure_delete", 1)  # what is removed leaves no bytes
                    self._settle(connection)
                    if writes:
                        with immediate(connection, here):
                            yield connection
                    else:
                        yield connection
            finally:
                connection.close()

    def _settle(self, connection: apsw.Connection) -> None:
        """Make the tables of a new database; SQLite itself does not wait to change modes."""
        until = monotonic() + _BUSY_MS / 1000
        while connection.pragma("application_id") != _APPLICATION:
            try:
                self._make_tables(connection)
            except apsw.BusyError:  # others begin it, too
                if monotonic() > until:
                    raise
                sleep(_RETRY_S)

    def _make_tables(self, connection: apsw.Connection) -> None:
        connection.pragma("journal_mode", "wal")
        with immediate(connection):
            if connection.pragma("application_id") == _APPLICATION:
                return
            if connection.execute("SELECT count(*) FROM sqlite_schema").get:
                raise StoreVersionError(
                    "this database belongs to another program", file=str(self._path)
                )
            connection.execute(_SCHEMA)
            connection.pragma("application_id", _APPLICATION)

    def _row(self, connection: apsw.Connection, name: str) -> tuple[Any, str] | None:
        statement = "SELECT data, tag FROM object WHERE name = ?"
        found = connection.execute(statement, (self._prefix + name,))
        return next(((data, str(tag)) for data, tag in found), None)

    def get(self, name: str) -> Taken | None:
        """See ``Objects``; who asks for something makes no database."""
        if not self._path.exists():
            return None
        with self._open(writes=False) as connection:
            found = self._row(connection, name)
        return None if found is None else Taken(*found)

    def part(self, name: str, start: int, length: int) -> bytes:
        """See ``Objects``."""
        statement = "SELECT substr(data, ?, ?) FROM object WHERE name = ?"
        with self._open(writes=False) as connection:
            found = connection.execute(statement, (start + 1, length, self._prefix + name)).get
        if not isinstance(found, bytes):
            raise TargetError("part of the store is missing", file=f"{self._path}: {name}")
        return found

    def size(self, name: str) -> int | None:
        """See ``Objects``."""
        statement = "SELECT length(data) FROM object WHERE name = ?"
        with self._open(writes=False) as connection:
            found = connection.execute(statement, (self._prefix + name,)).get
        return None if found is None else int(found)

    def _write(self, name: str, data: bytes, *, over: str | None, always: bool = False) -> None:
        with self._open(writes=True) as connection:
            found = self._row(connection, name)
            there = found[1] if found else None
            if not always and there != over:
                raise NotWritten
            connection.execute("UPDATE counter SET last = last + 1")
            connection.execute(
                "INSERT OR REPLACE INTO object SELECT ?, last, ? FROM counter",
                (self._prefix + name, data),
            )

    def create(self, name: str, data: bytes) -> None:
        """See ``Objects``."""
        self._write(name, data, over=None)

    def replace(self, name: str, data: bytes, tag: str) -> None:
        """See ``Objects``."""
        self._write(name, data, over=tag)

    def put(self, name: str, data: bytes) -> None:
        """See ``Objects``."""
        self._write(name, data, over=None, always=True)

    def remove(self, name: str) -> None:
        """See ``Objects``."""
        with self._open(writes=True) as connection:
            connection.execute("DELETE FROM object WHERE name = ?", (self._prefix + name,))
        with self._open(writes=False) as connection:  # nor in the log, unless somebody reads it
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").get  # noqa: B018 - runs it

    def names(self) -> Iterator[str]:
        """See ``Objects``."""
        below = self._prefix
        with self._open(writes=False) as connection:
            found = connection.execute(
                "SELECT name FROM object WHERE name > ? AND name < ?", (below, below[:-1] + "0")
            )
            names = [str(row[0])[len(below) :] for row in found]
        yield from names

    def probe(self) -> bool:
        """See ``Objects``."""
        return True
