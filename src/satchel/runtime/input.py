"""Opening what a person named, with an error that says what is wrong with it."""

import errno
import io
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, NamedTuple, Self

from blake3 import blake3

from satchel.errors import SatchelError, UnreadableError

_BUFFER = 1 << 17
"""Bytes that are read at a time."""


class OpenFile:
    """A regular file that is held open, so that all that is read of it is of one and the same file.

    Whatever takes its name meanwhile, and however often it is read: each stream starts at the
    first byte and keeps a position of its own. A context manager; it may be read by several
    threads, each with its own stream.

    Args:
        handle: Its descriptor, which is closed with it.
        path: What to call it in errors.
    """

    def __init__(self, handle: int, path: Path) -> None:
        self.path = path
        self._handle = handle

    @classmethod
    def named(cls, path: Path) -> Self:
        """Open a file by its name; links on the way are followed.

        Raises:
            UnreadableError: As ``reading``.
        """
        return cls(_regular(path), path)

    def __str__(self) -> str:
        return str(self.path)

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
        """Give the descriptor back; a second time does nothing."""
        handle, self._handle = self._handle, -1
        if handle >= 0:
            os.close(handle)

    @property
    def status(self) -> os.stat_result:
        """What the system says of it now."""
        return os.fstat(self._handle)

    def stream(self) -> BinaryIO:
        """Return its bytes from the first; closing that leaves the file open."""
        return io.BufferedReader(_Bytes(self), _BUFFER)

    def read_at(self, position: int, into: Any) -> int:
        """Fill a buffer from a position, and return how many bytes there were."""
        return os.preadv(self._handle, [into], position)

    def fileno(self) -> int:
        """Return its descriptor."""
        return self._handle


class _Bytes(io.RawIOBase):
    """The bytes of an open file, with a position of its own."""

    def __init__(self, file: OpenFile) -> None:
        self._file = file
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._file.fileno()

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._end}
        at = start[whence] + offset
        if at < 0:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        self._at = at
        return at

    def readinto(self, buffer: Any, /) -> int:
        size = self._file.read_at(self._at, buffer)
        self._at += size
        return size

    @property
    def _end(self) -> int:
        return self._file.status.st_size


InputPath = Path | OpenFile
"""A file by its name, or open already."""


@contextmanager
def open_input(path: InputPath) -> Iterator[BinaryIO]:
    """Open a regular file for reading, and name it in errors that escape.

    Raises:
        UnreadableError: If there is no such file, it is a directory, a pipe or a device, or
            permission is missing.
    """
    with open_regular(path) as stream:
        try:
            yield stream
        except SatchelError as error:
            raise error.located(file=str(path)) from error.__cause__
        except OSError as error:
            raise unreadable(path, error) from error


def open_regular(path: InputPath) -> BinaryIO:
    """Open a regular file for reading; the caller closes it.

    Raises:
        UnreadableError: As ``reading``.
    """
    if isinstance(path, OpenFile):
        return path.stream()
    return os.fdopen(_regular(path), "rb")


def _regular(path: Path) -> int:
    """Return the descriptor of a regular file.

    Opened without blocking, so that a pipe laid in a file's place cannot hang the program.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise unreadable(path, error) from error
    except ValueError as error:  # a NUL in the name
        raise UnreadableError(f"not a file name: {error}", file=repr(str(path))) from error
    mode = os.fstat(handle).st_mode
    if not stat.S_ISREG(mode):
        os.close(handle)
        what = "a directory" if stat.S_ISDIR(mode) else "not a regular file"
        raise UnreadableError(f"this is {what}", file=str(path), hint="Give a file.")
    return handle


def unreadable(path: InputPath, error: OSError) -> UnreadableError:
    """Return the error to raise when the system refuses to read ``path``."""
    hints = {
        FileNotFoundError: "Check the name.",
        PermissionError: "Check its permissions.",
    }
    return UnreadableError(
        f"cannot read: {error.strerror or error}", file=str(path), hint=hints.get(type(error))
    )


_SETTLED_NS = 2_000_000_000
"""The clock of file times is coarse, at worst (FAT) two seconds: a file changed since could look
the same, so a younger one is looked into."""


class Stamp(NamedTuple):
    """What changes when a file does."""

    inode: int
    size: int
    changed_ns: int


def _stamp(found: os.stat_result) -> Stamp:
    return Stamp(found.st_ino, found.st_size, found.st_mtime_ns)


def stable_stamp(found: os.stat_result) -> Stamp | None:
    """Return the stamp of a file, None while a later change could have the same one."""
    return _stamp(found) if time.time_ns() - found.st_mtime_ns > _SETTLED_NS else None


def is_unchanged(path: Path, stamp: Stamp | None) -> bool:
    """Tell whether a file has the stamp still; False when there is no file or no stamp."""
    try:
        return stamp is not None and stamp == _stamp(path.lstat())
    except OSError:
        return False


def file_digest(path: InputPath) -> tuple[str, int]:
    """Return the digest of a file, ``blake3:`` and 64 hex digits, and its size in bytes.

    Raises:
        UnreadableError: If it cannot be read.
    """
    digest, size = blake3(), 0
    with open_input(path) as stream:
        while chunk := stream.read(_BUFFER):
            digest.update(chunk)
            size += len(chunk)
    return f"blake3:{digest.hexdigest()}", size
