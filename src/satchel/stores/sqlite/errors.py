"""What SQLite says, in our words."""

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


@contextmanager
def translated(name: str) -> Iterator[None]:
    """Turn errors of SQLite into ours.

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
    except apsw.FullError as error:
        raise StoreFullError(
            "there is no space left", file=name, hint="Free some space and do it again."
        ) from error
    except apsw.ReadOnlyError as error:
        raise ReadOnlyStoreError("the store can only be read", file=name) from error
    except (apsw.CorruptError, apsw.NotADBError) as error:
        raise damaged(name, str(error)) from error
    except apsw.ConstraintError as error:
        if "record.slot" in str(error):
            raise SlotTakenError("there is a current record for the same thing already") from error
        raise StoreError(f"the store refuses this: {error}", file=name) from error
    except apsw.CantOpenError as error:
        raise StoreError(
            "the store cannot be opened",
            file=name,
            hint="Check that the folder exists and who may read it.",
        ) from error
    except apsw.Error as error:
        raise StoreError(f"the store failed: {error}", file=name) from error


@contextmanager
def decoding(name: str) -> Iterator[None]:
    """Turn what damaged rows do to whoever fetches them into our error, and SQLite's as well.

    Raises:
        StoreError: As ``translated``.
    """
    with translated(name):
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
