"""What SQLite says, in our words."""

import errno
from contextlib import AbstractContextManager

import apsw

from satchel.errors import (
    ReadOnlyStoreError,
    SatchelError,
    SlotTakenError,
    StoreBusyError,
    StoreDamagedError,
    StoreError,
    StoreFullError,
)

_NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT})


def translated(
    name: str, connection: apsw.Connection | None = None
) -> AbstractContextManager[None]:
    """Turn errors of SQLite in a block into ours.

    Args:
        name: The store's name.
        connection: That knows what the system said last.

    Raises:
        StoreError: Which says what to do.
    """
    return _Translated(name, connection)


def decoding(name: str, connection: apsw.Connection) -> AbstractContextManager[None]:
    """Turn what damaged rows do to whoever fetches them into our error, and SQLite's as well.

    Raises:
        StoreError: As ``translated``.
    """
    return _Decoding(name, connection)


class _Translated:
    """A block around each statement: as a class, it costs a third of a generator."""

    __slots__ = ("_connection", "_name")

    def __init__(self, name: str, connection: apsw.Connection | None) -> None:
        self._name = name
        self._connection = connection

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, apsw.Error):
            raise _ours(error, self._name, self._connection) from error


class _Decoding(_Translated):
    __slots__ = ()

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, UnicodeDecodeError):
            raise damaged(self._name, "it contains invalid text") from error
        super().__exit__(kind, error, trace)


def _ours(error: apsw.Error, name: str, connection: apsw.Connection | None) -> SatchelError:
    """Return what to say instead of what SQLite says."""
    if isinstance(error, apsw.BusyError | apsw.LockedError):
        return StoreBusyError(
            "another process is writing and did not finish in time",
            file=name,
            hint="Try again; if nothing else runs, see: satchel doctor.",
        )
    if isinstance(error, apsw.FullError | apsw.IOError | apsw.CantOpenError):
        return _failed(name, error, connection)
    if isinstance(error, apsw.ReadOnlyError):
        return ReadOnlyStoreError("the store is read-only", file=name)
    if isinstance(error, apsw.CorruptError | apsw.NotADBError):
        return damaged(name, str(error))
    if not isinstance(error, apsw.ConstraintError):
        return StoreError(f"the store failed: {error}", file=name)
    if "record.slot" in str(error):
        return SlotTakenError("a current record for the same key or origin already exists")
    return StoreError(f"rejected by the store: {error}", file=name)


def damaged(name: str, what: str) -> StoreDamagedError:
    """Return the error for a file that does not hold what it has to."""
    return StoreDamagedError(
        f"the database is damaged: {what}",
        file=name,
        hint="Do not change the file, and run: satchel doctor.",
    )


def _failed(name: str, error: apsw.Error, connection: apsw.Connection | None) -> StoreError:
    """Return the error for a system that refuses; SQLite itself calls only some a full disk."""
    said = connection.system_errno if connection is not None else 0
    if (
        isinstance(error, apsw.FullError)
        or said in _NO_SPACE
        or getattr(error, "extendedresult", 0)
        == apsw.SQLITE_IOERR_SHMSIZE  # the index of the log cannot grow
    ):
        return StoreFullError("no space left", file=name, hint="Free disk space and run again.")
    if isinstance(error, apsw.CantOpenError):
        return StoreError(
            "the store cannot be opened",
            file=name,
            hint="Check that the folder exists, and its permissions.",
        )
    return StoreError(f"the store failed: {error}", file=name)
