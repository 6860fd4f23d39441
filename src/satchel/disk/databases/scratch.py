"""Tables for one piece of work, on disk where they are large, and gone with it."""

import sqlite3
from types import TracebackType
from typing import Self


def scratch(tables: str, *, cache_kib: int) -> sqlite3.Connection:
    """Open SQLite's temporary database, with tables in it.

    It keeps what is small in memory and spills what is large by itself, into a file without a name:
    a program that is killed leaves nothing. Nothing is forced to disk, and nothing can be taken
    back: all of it is one transaction.

    Args:
        tables: The statements that make them, each ended by a semicolon.
        cache_kib: How much is kept in memory, in KiB.
    """
    database = sqlite3.connect("", isolation_level=None)
    database.executescript(
        "PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; PRAGMA temp_store=FILE;"
        f"PRAGMA cache_size=-{cache_kib}; {tables} BEGIN"
    )
    return database


class Scratch:
    """What works on such tables. To be closed, or used as a context manager."""

    def __init__(self, tables: str, *, cache_kib: int) -> None:
        self._db = scratch(tables, cache_kib=cache_kib)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give the space back."""
        self._db.close()
