"""What LadybugDB says, in our words. It has one kind of error, so its text is what there is."""

from collections.abc import Iterator
from contextlib import contextmanager

from satchel.errors import StoreBusyError, StoreDamagedError, StoreError, StoreFullError

_BUSY = ("Only one write transaction at a time", "Could not set lock on file")
_FULL = ("No space left on device", "Disk quota exceeded")
_DAMAGED = (
    *("Checksum verification failed", "Reading past the end of the file", "corrupt"),
    *("not a valid Lbug database file", "bad_alloc", "invalid WAL record"),
)


@contextmanager
def translated(name: str) -> Iterator[None]:
    """Turn errors of the engine in a block into ours.

    Args:
        name: The store's name.

    Raises:
        StoreError: Which says what to do.
    """
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        raise ours(error, name) from error
    except UnicodeDecodeError as error:
        raise damaged(name, "it contains invalid text") from error


def ours(error: Exception, name: str) -> StoreError:
    """Return what to say instead of what the engine says."""
    said = str(error)
    if any(part in said for part in _BUSY):
        return StoreBusyError(
            "another program is writing and did not finish in time",
            file=name,
            hint="Try again; if nothing else runs, see: satchel doctor.",
        )
    if any(part in said for part in _FULL):
        return StoreFullError("no space left", file=name, hint="Free disk space and run again.")
    if isinstance(error, MemoryError) or any(part in said for part in _DAMAGED):
        return damaged(name, said)
    return StoreError(f"the store failed: {said}", file=name)


def damaged(name: str, what: str) -> StoreDamagedError:
    """Return the error for files that do not hold what they have to."""
    return StoreDamagedError(
        f"the database is damaged: {what}",
        file=name,
        hint="Do not change the folder, and run: satchel doctor.",
    )
