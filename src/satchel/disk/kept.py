"""Files of our own that stay in place: opened without following links, changed under a lock."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from satchel.disk.opening import open_file, open_folder
from satchel.errors import PathRefusedError


@contextmanager
def opened(path: Path, flags: int, *, within: int | None = None) -> Iterator[int]:
    """Open a file that nobody else has a name for; it is closed when the block ends.

    No link is followed, be it the file or its folder, no pipe is waited for, and a file with a
    second name (a hard link) counts as somebody else's.

    Args:
        path: The file.
        flags: As for ``os.open``; a file that ``O_CREAT`` makes is its owner's alone.
        within: Descriptor of its folder, where that is open already; it stays open.

    Raises:
        OSError: As the system says, such as ``FileNotFoundError``.
        PathRefusedError: If there is something else at the path, or its folder is a link.
    """
    folder = _folder_of(path) if within is None else within
    try:
        handle = open_file(path, flags, within=folder, sole=True)
    finally:
        if within is None:
            os.close(folder)
    try:
        yield handle
    finally:
        os.close(handle)


def _folder_of(path: Path) -> int:
    try:
        return open_folder(path.parent)
    except PathRefusedError as error:
        if not os.path.lexists(path.parent):  # a file where a folder above it should be
            raise NotADirectoryError(str(path.parent)) from error
        raise


@contextmanager
def locked(path: Path, *, within: int | None = None) -> Iterator[None]:
    """Hold a lock, against other processes and other threads, until the block ends.

    Waits as long as it takes and names nobody: for steps of milliseconds. ``locks.ProcessLock``
    is for what is held longer. The file stays, empty: one that is removed could be held twice.

    Args:
        path: The file; made when it is not there.
        within: As ``opened``.

    Raises:
        OSError: If the file cannot be made or opened.
        PathRefusedError: As ``opened``.
    """
    with opened(path, os.O_RDWR | os.O_CREAT, within=within) as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        try:
            yield
        finally:
            # Said, not left to the closing: a process forked meanwhile holds the file open too.
            fcntl.flock(handle, fcntl.LOCK_UN)
