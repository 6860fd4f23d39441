"""Writing a file whole or not at all.

The bytes go to a temporary file in the same directory, are forced to disk, and take the target's
name in one step. Whatever goes wrong before, the target is as it was and nothing half-written
stays behind.
"""

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from satchel.errors import TargetError, TargetExistsError

_END = ".tmp"

PRIVATE_FILE = 0o600
"""Mode of what only the owner may read: keys, state."""

PRIVATE_FOLDER = 0o700
"""Mode of the folders such files are in."""

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
    """Give a file to write that becomes ``path`` when the block ends without an error.

    Args:
        path: The target. A symbolic link there is replaced, never followed.
        overwrite: False refuses a target that exists, also one that appears meanwhile.
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
    """As ``writing``, in a folder that is open already and cannot be exchanged meanwhile.

    Args:
        folder: Descriptor of the folder; it stays open.
        path: Its last part is the target's name in ``folder``; the rest is for messages.
        overwrite: As ``writing``.
        mode: As ``writing``.
    """
    with draft_at(folder, path, overwrite=overwrite, mode=mode) as draft:
        with draft.writing() as stream:
            yield stream
        draft.publish()


class Draft:
    """A file beside its target that may take the target's name.

    Args:
        folder: Descriptor of the folder that both are in.
        path: The target.
        overwrite: As ``writing``.
        name: What it is called meanwhile.
        handle: Its descriptor, which ``writing`` closes.
    """

    def __init__(self, folder: int, path: Path, *, overwrite: bool, name: str, handle: int) -> None:
        self.name = name
        self._folder, self._path, self._overwrite, self._handle = folder, path, overwrite, handle

    @contextmanager
    def writing(self) -> Iterator[BinaryIO]:
        """Give it to write, once; it is on the disk when the block ends."""
        with os.fdopen(self._handle, "w+b") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())

    def publish(self) -> None:
        """Give it the target's name.

        Raises:
            TargetExistsError: If the name was taken meanwhile, and is not to be.
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
    """Give a file that may take the name of ``path`` in an open folder.

    It is gone when the block ends, unless it was published.
    """
    found = _temporary(folder, path, overwrite=overwrite, mode=mode)
    with found as (name, handle):
        yield Draft(folder, path, overwrite=overwrite, name=name, handle=handle)


@contextmanager
def writing_by_name(path: Path, *, overwrite: bool = False) -> Iterator[Path]:
    """Give the name of an empty private file that becomes ``path`` when the block ends well.

    For what opens files itself, such as SQLite; it has closed the file when the block ends.

    Args:
        path: The target.
        overwrite: False refuses a target that exists, also one that appears meanwhile.

    Raises:
        TargetExistsError: If there is something at ``path``, and it is not to be replaced.
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
    """Give the descriptor of the folder that ``path`` is written in."""
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
    """Give the name and the descriptor of a new file beside the target; the name is gone after.

    The receiver closes the descriptor.
    """
    _refuse_odd_target(folder, path, overwrite=overwrite)
    # A name has at most 255 bytes, a character at most 4, and the rest of this one is 22.
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
        with suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=folder)


def _publish(folder: int, temporary: str, path: Path, *, overwrite: bool) -> None:
    if overwrite:
        os.replace(temporary, path.name, src_dir_fd=folder, dst_dir_fd=folder)
    else:
        try:  # unlike a rename, fails when the name is taken
            os.link(
                temporary, path.name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False
            )
        except FileExistsError:
            raise _exists(path) from None
    os.fsync(folder)


def _refuse_odd_target(folder: int, path: Path, *, overwrite: bool) -> None:
    try:
        found = os.stat(path.name or ".", dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return
    except OSError as error:
        raise target_error(path, error) from error
    if not overwrite:
        raise _exists(path)
    if not (stat.S_ISREG(found.st_mode) or stat.S_ISLNK(found.st_mode)):
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
    """Return the error to raise when the system refuses to write ``path``."""
    return TargetError(
        f"cannot write: {error.strerror or error}",
        file=str(path),
        hint=_ADVICE.get(error.errno or 0),
    )


def leftover_files(path: Path) -> list[Path]:
    """Return what writers of ``path`` that were killed left beside it.

    One that is being written now looks the same: hold a lock, or know that there is none.
    """
    return [
        found
        for found in path.parent.iterdir()
        if found.name.startswith(_start(path)) and found.name.endswith(_END)
    ]


def _start(path: Path) -> str:
    return f".{path.name[:48]}."
