"""Files of our own that stay in place: opened without following links, changed under a lock."""

import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from satchel.disk.writing import PRIVATE_FILE
from satchel.errors import UnreadableError

_SAFE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@contextmanager
def opened(path: Path, flags: int) -> Iterator[int]:
    """Open a file that nobody else has a name for; it is closed when the block ends.

    No link is followed, be it the file or its folder, no pipe is waited for, and a file with a
    second name (a hard link) counts as somebody else's.

    Args:
        path: The file.
        flags: As for ``os.open``; a file that ``O_CREAT`` makes is its owner's alone.

    Raises:
        OSError: As the system says, such as ``FileNotFoundError``.
        UnreadableError: If there is something else at the path, or its folder is a link.
    """
    handle = _open(path, flags)
    try:
        _refuse_odd(path, os.fstat(handle))
        yield handle
    finally:
        os.close(handle)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a lock, against other processes and other threads, until the block ends.

    The file stays, empty: a lock whose file is removed could be held twice.

    Raises:
        OSError: If the file cannot be made or opened.
        UnreadableError: As ``opened``.
    """
    with opened(path, os.O_RDWR | os.O_CREAT) as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        try:
            yield
        finally:
            # Said, not left to the closing: a process forked meanwhile holds the file open too.
            fcntl.flock(handle, fcntl.LOCK_UN)


def _open(path: Path, flags: int) -> int:
    try:
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | _SAFE)
    except NotADirectoryError:
        if os.path.lexists(path.parent):
            raise _odd(path.parent, "a link or a file, not a folder of our own") from None
        raise
    try:
        return os.open(path.name, flags | _SAFE, PRIVATE_FILE, dir_fd=folder)
    except OSError as error:
        if error.errno in {errno.ELOOP, errno.ENXIO, errno.EISDIR}:
            raise _odd(path, "not a regular file") from None
        raise
    finally:
        os.close(folder)


def _refuse_odd(path: Path, found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise _odd(path, "not a regular file")
    if found.st_nlink > 1:  # none is a file that was replaced since it was opened
        raise _odd(path, "a file that has a second name elsewhere")


def _odd(path: Path, what: str) -> UnreadableError:
    return UnreadableError(f"this is {what}", file=str(path), hint="Find out who put it there.")
