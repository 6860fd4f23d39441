"""What SQLite says, in our words."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager

import apsw

from satchel.errors import (
    ReadOnlyStoreError,
    SlotTakenError,
    StoreBusyError,
    StoreDamagedError,
    StoreError,
    StoreFullError,
)

_NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT})


@contextmanager
def translated(name: str, connection: apsw.Connection | None = None) -> Iterator[None]:
    """Turn errors of SQLite into ours.

    Args:
        name: The store's name.
        connection: That knows what the system said last.

    Raises:
        StoreError: Which says what to do.
    """
    try:
        yield
    except (apsw.BusyError, apsw.LockedError) as error:
        raise StoreBusyError(
            "another process is writing and did not end in time",
            file=name,
            hint="Try again; if nothing else runs, see: satchel doctor.",
        ) from error
    except (apsw.FullError, apsw.IOError, apsw.CantOpenError) as error:
        raise _failed(name, error, connection) from error
    except apsw.ReadOnlyError as error:
        raise ReadOnlyStoreError("the store can only be read", file=name) from error
    except (apsw.CorruptError, apsw.NotADBError) as error:
        raise damaged(name, str(error)) from error
    except apsw.ConstraintError as error:
        if "record.slot" in str(error):
            raise SlotTakenError("there is a current record for the same thing already") from error
        raise StoreError(f"the store refuses this: {error}", file=name) from error
    except apsw.Error as error:
        raise StoreError(f"the store failed: {error}", file=name) from error


@contextmanager
def decoding(name: str, connection: apsw.Connection) -> Iterator[None]:
    """Turn what damaged rows do to whoever fetches them into our error, and SQLite's as well.

    Raises:
        StoreError: As ``translated``.
    """
    with translated(name, connection):
        try:
            yield
        except UnicodeDecodeError as error:
            raise damaged(name, "text in it is no text") from error


def damaged(name: str, what: str) -> StoreDamagedError:
    """Return the error for a file that does not hold what it has to."""
    return StoreDamagedError(
        f"the database is damaged: {what}",
        file=name,
        hint="Keep the file as it is and see: satchel doctor.",
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
        return StoreFullError(
            "there is no space left", file=name, hint="Free some space and do it again."
        )
    if isinstance(error, apsw.CantOpenError):
        return StoreError(
            "the store cannot be opened",
            file=name,
            hint="Check that the folder exists and who may read it.",
        )
    return StoreError(f"the store failed: {error}", file=name)
