"""Regular files: opened without surprises, and written whole or not at all.

Files named by a person are opened with errors that explain what is wrong. Files and folders in an
open folder are opened by one step, and links are not followed. ``atomic_write`` writes a file
beside its target and renames it once it is complete and on disk.
"""

import errno
import io
import os
import secrets
import stat
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Self

from blake3 import blake3

from satchel.errors import (
    PathRefusedError,
    SatchelError,
    TargetError,
    TargetExistsError,
    UnreadableError,
)

_BUFFER = 1 << 17
"""Bytes read at once."""


class Closable(ABC):
    """A resource that is closed at the end of a ``with`` block."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @abstractmethod
    def close(self) -> None:
        """Release the resource; a second call does nothing."""


class OpenDescriptor(Closable):
    """An open file descriptor, which ``close`` closes once."""

    _handle = -1

    def close(self) -> None:
        """Close the descriptor; a second call does nothing."""
        handle, self._handle = self._handle, -1
        if handle >= 0:
            os.close(handle)


class OpenFile(OpenDescriptor):
    """An open regular file, so that everything read from it is from the same file.

    That holds if its name is reused in the meantime, and however often it is read: each stream
    starts at the first byte and has its own position. A context manager; several threads may read
    it, each with its own stream.

    Args:
        handle: Its descriptor; closed with this object.
        path: Its path in errors.
    """

    def __init__(self, handle: int, path: Path) -> None:
        self.path = path
        self._handle = handle

    @classmethod
    def named(cls, path: Path) -> Self:
        """Open a file by its name; links are followed.

        Raises:
            UnreadableError: As ``open_input``.
        """
        return cls(_regular(path), path)

    def __str__(self) -> str:
        return str(self.path)

    @property
    def status(self) -> os.stat_result:
        """Its current status."""
        return os.fstat(self._handle)

    def stream(self) -> BinaryIO:
        """Return a stream from the first byte; closing it leaves the file open."""
        return io.BufferedReader(_Bytes(self), _BUFFER)

    def read_at(self, position: int, into: Any) -> int:
        """Fill a buffer from a position, and return the number of bytes read."""
        return os.preadv(self._handle, [into], position)

    def fileno(self) -> int:
        """Return its descriptor."""
        return self._handle


class _Bytes(io.RawIOBase):
    """The bytes of an open file, with a position of their own."""

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
"""A file by its path, or an open one."""


@contextmanager
def open_input(path: InputPath) -> Iterator[BinaryIO]:
    """Open a regular file for reading, and add its path to errors.

    Raises:
        UnreadableError: If it does not exist, is a directory, a pipe or a device, or may not be
            read.
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
        UnreadableError: As ``open_input``.
    """
    if isinstance(path, OpenFile):
        return path.stream()
    return os.fdopen(_regular(path), "rb")


def _regular(path: Path) -> int:
    """Return the descriptor of a regular file.

    It is opened without blocking, so that a pipe in place of the file cannot block the program.
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
    """Return the error to raise if the system refuses to read ``path``."""
    hints = {
        FileNotFoundError: "Check the name.",
        PermissionError: "Check its permissions.",
    }
    return UnreadableError(
        f"cannot read: {error.strerror or error}", file=str(path), hint=hints.get(type(error))
    )


_SETTLED_NS = 2_000_000_000
"""The clock of file times is coarse, at worst (FAT) two seconds. A file changed since then may have
the same stamp, so the content of a younger file is compared.
"""


class Stamp(NamedTuple):
    """Attributes that change when a file changes."""

    inode: int
    size: int
    changed_ns: int


def _stamp(status: os.stat_result) -> Stamp:
    return Stamp(status.st_ino, status.st_size, status.st_mtime_ns)


def stable_stamp(status: os.stat_result) -> Stamp | None:
    """Return the stamp of a file; None if a later change could have the same one."""
    return _stamp(status) if time.time_ns() - status.st_mtime_ns > _SETTLED_NS else None


def is_unchanged(path: Path, stamp: Stamp | None) -> bool:
    """Return whether a file still has a stamp; False if there is no file or no stamp."""
    try:
        return stamp is not None and stamp == _stamp(path.lstat())
    except OSError:
        return False


_END = ".tmp"
_LEFTOVERS = tuple(f"{_END}{suffix}" for suffix in ("", "-journal", "-wal", "-shm"))
"""Endings of what a killed writer leaves; a database engine has files beside its own."""

PRIVATE_FILE = 0o600
"""Mode of files that only the owner may read: keys, state."""

PRIVATE_FOLDER = 0o700
"""Mode of the folders of such files."""

_ADVICE = {
    errno.ENOSPC: "The disk is full; no partial file was left. Free disk space and run again.",
    errno.EDQUOT: "The quota is used up; no partial file was left.",
    errno.EACCES: "Check the folder's permissions.",
    errno.EROFS: "The file system is read-only.",
    errno.ENOENT: "The folder does not exist; create it first.",
    errno.EFBIG: "The file system does not support files of this size.",
}


@contextmanager
def atomic_write(path: Path, *, overwrite: bool = True, mode: int = 0o666) -> Iterator[BinaryIO]:
    """Yield a stream for a file that becomes ``path`` when the block ends without an error.

    Args:
        path: The target. A symbolic link there is replaced, never followed.
        overwrite: False refuses an existing target, also one that appears during the block.
        mode: Permissions before the umask; ``PRIVATE_FILE`` for secrets.

    Raises:
        TargetExistsError: If the target exists and ``overwrite`` is False.
        TargetError: If the system refuses; the message says what to do.
    """
    _refuse_no_name(path)
    with (
        _folder(path.parent, path) as folder,
        writing_at(folder, path, overwrite=overwrite, mode=mode) as stream,
    ):
        yield stream


@contextmanager
def writing_at(
    folder: int, path: Path, *, overwrite: bool = True, mode: int = 0o666
) -> Iterator[BinaryIO]:
    """As ``atomic_write``, in an open folder that cannot be exchanged.

    Args:
        folder: Descriptor of the folder; it stays open.
        path: Its last part is the target's name in ``folder``; the rest is for messages.
        overwrite: As ``atomic_write``.
        mode: As ``atomic_write``.
    """
    with draft_at(folder, path, overwrite=overwrite, mode=mode) as draft:
        with draft.writing() as stream:
            yield stream
        draft.publish()


class Draft:
    """A file beside its target that may be renamed to it.

    Args:
        folder: Descriptor of their folder.
        path: The target.
        overwrite: As ``atomic_write``.
        name: Its temporary name.
        handle: Its descriptor, which ``writing`` closes.
    """

    def __init__(self, folder: int, path: Path, *, overwrite: bool, name: str, handle: int) -> None:
        self.name = name
        self._folder, self._path, self._overwrite, self._handle = folder, path, overwrite, handle

    @contextmanager
    def writing(self) -> Iterator[BinaryIO]:
        """Yield its stream, once; the file is on disk when the block ends."""
        with os.fdopen(self._handle, "w+b") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())

    def publish(self) -> None:
        """Rename it to its target.

        Raises:
            TargetExistsError: If the target appeared and may not be replaced.
            TargetError: If the system refuses.
        """
        try:
            _publish(self._folder, self.name, self._path, overwrite=self._overwrite)
        except OSError as error:
            raise target_error(self._path, error) from error


@contextmanager
def draft_at(
    folder: int, path: Path, *, overwrite: bool = True, mode: int = 0o666
) -> Iterator[Draft]:
    """Yield a draft of ``path`` in an open folder.

    It is removed at the end of the block, unless it was published.
    """
    found = _temporary(folder, path, overwrite=overwrite, mode=mode)
    with found as (name, handle):
        yield Draft(folder, path, overwrite=overwrite, name=name, handle=handle)


@contextmanager
def writing_by_name(path: Path, *, overwrite: bool = False) -> Iterator[Path]:
    """Yield the path of an empty private file that becomes ``path`` at the end of the block.

    For programs that open files by name, such as SQLite; they must have closed it at the end of the
    block.

    Args:
        path: The target.
        overwrite: False refuses an existing target, also one that appears during the block.

    Raises:
        TargetExistsError: If the target exists and ``overwrite`` is False.
        TargetError: If the system refuses; the message says what to do.
    """
    _refuse_no_name(path)
    above = Path(os.path.realpath(path.parent))
    with (
        _folder(above, path) as folder,
        _temporary(folder, path, overwrite=overwrite, mode=PRIVATE_FILE) as (temporary, handle),
    ):
        os.close(handle)
        yield above / temporary
        written = os.open(temporary, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
        try:
            os.fsync(written)
        finally:
            os.close(written)
        _publish(folder, temporary, path, overwrite=overwrite)


@contextmanager
def _folder(folder: Path, path: Path) -> Iterator[int]:
    """Yield the descriptor of the folder of ``path``."""
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise target_error(path, error) from error
    try:
        yield handle
    finally:
        os.close(handle)


@contextmanager
def _temporary(folder: int, path: Path, *, overwrite: bool, mode: int) -> Iterator[tuple[str, int]]:
    """Yield the name and descriptor of a new file beside the target; its name is then removed.

    The caller closes the descriptor.
    """
    _refuse_odd_target(folder, path, overwrite=overwrite)
    # A name has at most 255 bytes, a character at most 4, and the rest of this name is 22.
    temporary = f"{_start(path)}{secrets.token_hex(8)}{_END}"
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        handle = os.open(temporary, flags, mode, dir_fd=folder)
    except OSError as error:
        raise target_error(path, error) from error
    try:
        yield temporary, handle
    except OSError as error:
        raise target_error(path, error) from error
    finally:
        for ending in _LEFTOVERS:
            with suppress(FileNotFoundError):
                os.unlink(temporary.removesuffix(_END) + ending, dir_fd=folder)


def _publish(folder: int, temporary: str, path: Path, *, overwrite: bool) -> None:
    if overwrite:
        os.replace(temporary, path.name, src_dir_fd=folder, dst_dir_fd=folder)
    else:
        try:  # unlike a rename, fails if the name exists
            os.link(
                temporary, path.name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False
            )
        except FileExistsError:
            raise _exists(path) from None
    os.fsync(folder)


def _refuse_odd_target(folder: int, path: Path, *, overwrite: bool) -> None:
    try:
        status = os.stat(path.name or ".", dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return
    except OSError as error:
        raise target_error(path, error) from error
    if not overwrite:
        raise _exists(path)
    if not (stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode)):
        raise TargetError("the target is not a regular file", file=str(path), hint="Give a file.")


def _refuse_no_name(path: Path) -> None:
    if "\0" in str(path):
        raise TargetError("a file name cannot contain NUL", file=repr(str(path)))


def _exists(path: Path) -> TargetExistsError:
    return TargetExistsError(
        "the target already exists",
        file=str(path),
        hint="Use --overwrite (overwrite=True) to replace it.",
    )


def target_error(path: Path, error: OSError) -> TargetError:
    """Return the error to raise if the system refuses to write ``path``."""
    return TargetError(
        f"cannot write: {error.strerror or error}",
        file=str(path),
        hint=_ADVICE.get(error.errno or 0),
    )


def leftover_files(path: Path) -> list[Path]:
    """Return the temporary files that killed writers of ``path`` left beside it.

    A file that is being written looks the same: hold a lock, or know that there is no writer.
    """
    return [
        file
        for file in path.parent.iterdir()
        if file.name.startswith(_start(path)) and file.name.endswith(_LEFTOVERS)
    ]


def _start(path: Path) -> str:
    return f".{path.name[:48]}."


_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_PASS = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # do not block: it may be a pipe

_MODE = 0o777
_OTHERS = 0o077


class ModeRepair(NamedTuple):
    """A mode that was corrected to the private one."""

    path: Path
    was: int
    now: int

    def __str__(self) -> str:
        description = (
            "it was accessible to others"
            if self.was & _OTHERS
            else "it was not fully accessible to us"
        )
        return f"{self.path}: {description} (mode {self.was:04o}); the mode is {self.now:04o} now"


def open_folder(path: Path, *, within: int | None = None, passing: bool = False) -> int:
    """Open a folder and return its descriptor; the caller closes it.

    Args:
        path: The folder. Its last part may not be a link.
        within: Descriptor of its parent: then only the last part is used, and the rest is for
            messages.
        passing: Open it for traversal only, which needs no permission to list it.

    Raises:
        PathRefusedError: If it is a link or not a folder.
        OSError: Any other error of the system.
    """
    name = path if within is None else path.name
    try:
        return os.open(name, _PASS if passing else _FOLDER, dir_fd=within)
    except OSError as error:
        if error.errno not in {errno.ENOTDIR, errno.ELOOP}:
            raise
        with suppress(OSError):
            _refuse_link(os.stat(name, dir_fd=within, follow_symlinks=False), path)
        raise PathRefusedError("this is not a folder", file=str(path)) from error


def open_file(
    path: Path, access: int, *, within: int, mode: int = 0o600, sole: bool = False
) -> int:
    """Open a regular file and return its descriptor; the caller closes it.

    Args:
        path: Its last part is the name in ``within``; the rest is for messages.
        access: ``os.O_RDONLY`` or ``os.O_RDWR``, and flags to add, such as ``os.O_CREAT``.
        within: Descriptor of its folder.
        mode: Permissions, before the umask, of a new file.
        sole: Refuse a file with a second name (a hard link), which may belong to another user.

    Raises:
        PathRefusedError: If it is a link, a folder, a pipe, a socket or a device.
        OSError: Any other error of the system.
    """
    try:
        handle = os.open(path.name, access | _FILE, mode, dir_fd=within)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise _link(path) from error
        if error.errno in {errno.EISDIR, errno.ENXIO, errno.ENODEV}:
            raise _no_file(path) from error
        raise
    status = os.fstat(handle)
    if not stat.S_ISREG(status.st_mode):
        os.close(handle)
        raise _no_file(path)
    if sole and status.st_nlink > 1:  # 0: the file was replaced since it was opened
        os.close(handle)
        raise PathRefusedError(
            "this file has another hard link elsewhere",
            file=str(path),
            hint="Find out which program created it.",
        )
    return handle


def refuse_foreign(status: os.stat_result, path: Path) -> None:
    """Refuse a file that another user could have put there.

    Raises:
        PathRefusedError: If it is a link, belongs to another user, or is a file with a second name.
    """
    _refuse_link(status, path)
    if status.st_uid != os.geteuid():
        raise PathRefusedError(
            f"this belongs to another user (uid {status.st_uid}; ours is {os.geteuid()})",
            file=str(path),
            hint="Run this as that user, or change the owner with chown.",
        )
    if not stat.S_ISDIR(status.st_mode) and status.st_nlink != 1:
        raise other_names_error(status, path)


def refuse_other_names(status: os.stat_result, path: Path) -> None:
    """Refuse a file that has other names, which may be anywhere.

    A file that lost its name since it was opened is accepted.

    Raises:
        PathRefusedError: If it is a link, no regular file, or has a second name.
    """
    refuse_irregular(status, path)
    if status.st_nlink > 1:
        raise other_names_error(status, path)


def other_names_error(status: os.stat_result, path: Path) -> PathRefusedError:
    """Return the error for a file with hard links."""
    return PathRefusedError(
        f"this file has {status.st_nlink} names (hard links)",
        file=str(path),
        hint="Remove the other links, or replace it with a copy.",
    )


def refuse_irregular(status: os.stat_result, path: Path) -> None:
    """Refuse anything but a regular file.

    Raises:
        PathRefusedError: If it is a link, a folder, a pipe, a socket or a device.
    """
    _refuse_link(status, path)
    if not stat.S_ISREG(status.st_mode):
        raise _no_file(path)


def enforce(handle: int, path: Path, mode: int) -> ModeRepair | None:
    """Restrict an open file or folder to this user, and return what was changed.

    Args:
        handle: Its descriptor.
        path: For messages.
        mode: The exact permissions to set.

    Raises:
        PathRefusedError: As ``refuse_foreign``.
        OSError: If the mode cannot be changed.
    """
    status = os.fstat(handle)
    refuse_foreign(status, path)
    was = status.st_mode & _MODE
    if was == mode:
        return None
    os.fchmod(handle, mode)
    if (
        os.fstat(handle).st_mode & _MODE != mode
    ):  # FAT and similar file systems accept the call and do nothing
        raise no_modes_error(path)
    return ModeRepair(path, was, mode)


def no_modes_error(path: Path) -> PathRefusedError:
    """Return the error for a file system without permissions."""
    return PathRefusedError(
        "the file system does not store permissions, so others may read this",
        file=str(path),
        hint="Use a folder on a local disk of this system.",
    )


@contextmanager
def file_errors(path: Path, *, writes: bool) -> Iterator[None]:
    """Convert system errors in the block to errors that name ``path``.

    Raises:
        PathRefusedError: If the path contains NUL; the block is not run.
        TargetError: If the system refuses and the block ``writes``.
        UnreadableError: If it refuses and the block only reads.
    """
    if "\0" in str(path):
        raise PathRefusedError("a name cannot contain NUL", file=repr(str(path)))
    try:
        yield
    except OSError as error:
        raise (target_error if writes else unreadable)(path, error) from error


def _refuse_link(status: os.stat_result, path: Path) -> None:
    if stat.S_ISLNK(status.st_mode):
        raise _link(path)


def _link(path: Path) -> PathRefusedError:
    return PathRefusedError(
        "this is a symbolic link that Satchel did not create; it was not followed",
        file=str(path),
        hint="Use the target path itself, or remove the link if you did not create it.",
    )


def _no_file(path: Path) -> PathRefusedError:
    return PathRefusedError("this is not a regular file", file=str(path))


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
