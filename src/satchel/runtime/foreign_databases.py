"""SQLite files of other programs: read without changing them, or written as their programs do."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote_from_bytes

import apsw

from satchel.errors import LockedError, MalformedError, SatchelError, TargetError, UnreadableError

_BUSY_MS = 2000
_COMPANIONS = ("-journal", "-wal", "-shm")
_WAL_BYTES = slice(18, 20)
_WAL = b"\x02\x02"
_CACHE_KIB = 4096
_TOGETHER = 256

Values = tuple[Any, ...]
"""A row."""


class Database:
    """One SQLite file of another program.

    Reading leaves the file unchanged and creates nothing beside it. An unfinished journal or log
    beside it is applied in a copy.

    Args:
        path: The file.
        most_bytes: Maximum bytes of a text or blob.
        writes: Whether to open it for writing, and create it if it does not exist.
        name: Its name in errors; its path by default.

    Raises:
        UnreadableError: If it cannot be opened.
        LockedError: If another program is writing to it.
        MalformedError: If it is not a database, or damaged.
    """

    def __init__(
        self, path: Path, *, most_bytes: int, writes: bool = False, name: str | None = None
    ) -> None:
        self.path = path
        self._name = name or str(path)
        self._writes = writes
        self._copy: tempfile.TemporaryDirectory[str] | None = None
        self._connection: apsw.Connection | None = None
        try:
            with self._explained():
                self._connection = self._connected(most_bytes)
        except BaseException:
            self.close()
            raise

    def columns(self, table: str) -> list[str]:
        """Return the names of a table's columns; none if the table does not exist.

        Raises:
            MalformedError: If it is not a plain table: a view could compute rows without end.
        """
        types = list(self.rows("SELECT type FROM sqlite_schema WHERE name = ?", table))
        columns = list(self.rows("SELECT name, hidden FROM pragma_table_xinfo(?)", table))
        if types and (types != [("table",)] or any(hidden for _, hidden in columns)):
            raise MalformedError(f"`{table}` is not a plain table", file=self._name, field=table)
        return [name for name, _ in columns] if types else []

    def require_whole(self) -> None:
        """Refuse a file whose pages are inconsistent.

        Raises:
            MalformedError: Naming the first problem.
        """
        problems = [str(problem) for (problem,) in self.rows("PRAGMA integrity_check(1)")]
        if problems != ["ok"]:
            problem = problems[0].replace("\n", " ") if problems else "nothing is known"
            raise MalformedError(f"a damaged database: {problem}", file=self._name, byte=0)

    def rows(self, statement: str, *values: Any) -> Iterator[Values]:
        """Yield the rows of a statement.

        Raises:
            MalformedError: If the file is damaged.
        """
        with self._explained():
            yield from self._open().execute(statement, values)

    def run(self, statement: str, rows: list[Values]) -> None:
        """Run a statement for each row.

        Raises:
            TargetError: If it fails.
        """
        with self._explained():
            self._open().executemany(statement, rows)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Write all of a block or nothing; it is on disk at the end.

        Raises:
            TargetError: If it cannot be written.
        """
        with self._explained():
            connection = self._open()
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                connection.execute("COMMIT")
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")

    def close(self) -> None:
        """Close the database; a second call does nothing."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(apsw.Error):
                connection.close()
        if self._copy is not None:
            self._copy.cleanup()
            self._copy = None

    def _open(self) -> apsw.Connection:
        if self._connection is None:
            raise UnreadableError("the store is closed", file=str(self.path))
        return self._connection

    def _connected(self, most_bytes: int) -> apsw.Connection:
        path, flags = self.path.absolute(), apsw.SQLITE_OPEN_READONLY
        if self._writes:
            flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
        elif _is_unfinished(path):
            path, flags = self._copied(path), apsw.SQLITE_OPEN_READWRITE
        address = "file:" + quote_from_bytes(os.fsencode(path.parent.resolve() / path.name))
        flags |= apsw.SQLITE_OPEN_NOFOLLOW | apsw.SQLITE_OPEN_URI
        connection = apsw.Connection(address, flags=flags)
        connection.set_busy_timeout(_BUSY_MS)
        connection.limit(apsw.SQLITE_LIMIT_LENGTH, most_bytes)
        connection.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
        connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
        connection.pragma("cache_size", -_CACHE_KIB)
        if self._writes:
            connection.pragma("synchronous", "FULL")
        else:
            # Held to the end, so that all pages are from one moment.
            connection.execute("BEGIN")
        connection.execute("SELECT count(*) FROM sqlite_schema").fetchall()
        return connection

    def _copied(self, path: Path) -> Path:
        self._copy = tempfile.TemporaryDirectory(prefix="satchel-")
        target = Path(self._copy.name) / "copy"
        for end in ("", "-journal", "-wal"):
            companion = path.with_name(path.name + end)
            if companion.exists():
                shutil.copyfile(
                    companion, target.with_name(target.name + end), follow_symlinks=False
                )
        return target

    @contextmanager
    def _explained(self) -> Iterator[None]:
        name = self._name
        try:
            yield
        except SatchelError as error:
            raise error.located(file=name) from error.__cause__
        except (apsw.BusyError, apsw.LockedError) as error:
            problem = "another process is writing to it"
            raise LockedError(problem, file=name, hint="Close the program first.") from error
        except (apsw.CorruptError, apsw.NotADBError, apsw.TooBigError, UnicodeError) as error:
            raise MalformedError(f"a damaged database: {error}", file=name, byte=0) from error
        except (apsw.Error, OSError) as error:
            kind = TargetError if self._writes else UnreadableError
            raise kind(f"the database cannot be used: {error}", file=name) from error


def _is_unfinished(path: Path) -> bool:
    """Return whether reading the file alone would miss data, or create files beside it."""
    for end in ("-journal", "-wal"):
        with suppress(FileNotFoundError):
            if path.with_name(path.name + end).stat().st_size:
                return True
    with path.open("rb") as stream:
        return stream.read(_WAL_BYTES.stop)[_WAL_BYTES] == _WAL


class SortedRows:
    """Rows by key, in a temporary database: in memory if few, on disk if many."""

    def __init__(self) -> None:
        # An empty name is a temporary database that is removed with the connection.
        self._db: apsw.Connection | None = apsw.Connection("")
        self._db.pragma("journal_mode", "OFF")
        self._db.pragma("synchronous", "OFF")
        self._db.pragma("cache_size", -_CACHE_KIB)
        self._db.execute("CREATE TABLE held(key, place INTEGER, value BLOB)")

    def fill(self, rows: Iterator[tuple[str, int, bytes]]) -> None:
        """Add rows of a key, a position among those of the key, and a value."""
        assert self._db is not None  # noqa: S101 - it is filled before it is closed
        with self._db:
            self._db.executemany("INSERT INTO held VALUES (?, ?, ?)", rows)
        self._db.execute("CREATE INDEX by_key ON held(key, place)")

    def of(self, key: str) -> list[bytes]:
        """Return the values of a key, in order."""
        return [value for _, value in self.since(key, None)]

    def since(self, key: str, position: int | None, limit: int = -1) -> list[tuple[int, bytes]]:
        """Return positions and values of a key after a position."""
        assert self._db is not None  # noqa: S101 - as above
        rows = self._db.execute(
            "SELECT place, value FROM held WHERE key = ? AND (? IS NULL OR place > ?)"
            " ORDER BY place LIMIT ?",
            (key, position, position, limit),
        )
        return list(rows)

    def close(self) -> None:
        """Release the space."""
        connection, self._db = self._db, None
        if connection is not None:
            connection.close()
