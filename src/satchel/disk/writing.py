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

PRIVATE_FILE = 0o600
"""Mode of what only the owner may read: keys, state."""

PRIVATE_FOLDER = 0o700
"""Mode of the folders such files are in."""

_ADVICE = {
    errno.ENOSPC: "The disk is full; nothing was left behind. Free some space and run it again.",
    errno.EDQUOT: "The quota is used up; nothing was left behind.",
    errno.EACCES: "Check who may write there.",
    errno.EROFS: "The file system is read-only.",
    errno.ENOENT: "The folder does not exist; make it first.",
    errno.EFBIG: "The file system does not take files of this size.",
}


@contextmanager
def writing(path: Path, *, overwrite: bool = True, mode: int = 0o666) -> Iterator[BinaryIO]:
    """Give a file to write that becomes ``path`` when the block ends without an error.

    Args:
        path: The target. A symbolic link there is replaced, never followed.
        overwrite: False refuses a target that exists, also one that appears meanwhile.
        mode: Permissions before the umask; ``PRIVATE_FILE`` for secrets.

    Raises:
        TargetExistsError: If the target exists and ``overwrite`` is False.
        TargetError: If the system refuses; the message says what to do.
    """
    _refuse_odd_target(path, overwrite=overwrite)
    temporary = path.with_name(f".{path.name[:64]}.{secrets.token_hex(8)}.tmp")
    try:
        handle = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    except OSError as error:
        raise unwritable(path, error) from error
    try:
        with os.fdopen(handle, "w+b") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        _publish(temporary, path, overwrite=overwrite)
    except OSError as error:
        raise unwritable(path, error) from error
    finally:
        with suppress(FileNotFoundError):
            temporary.unlink()


def _publish(temporary: Path, path: Path, *, overwrite: bool) -> None:
    if overwrite:
        temporary.replace(path)
    else:
        try:
            os.link(temporary, path)  # unlike a rename, fails when the name is taken
        except FileExistsError:
            raise _exists(path) from None
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Force a folder's list of names to disk."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def private_folder(path: Path) -> Path:
    """Make a folder that only its owner may enter, and return it.

    Raises:
        TargetError: If it cannot be made, is a link, or is not a folder.
    """
    try:
        path.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
        found = path.lstat()
        if not stat.S_ISDIR(found.st_mode):
            raise TargetError("this is a link, not a folder of our own", file=str(path))
        if found.st_mode & 0o077 and found.st_uid == os.getuid():
            path.chmod(PRIVATE_FOLDER)
    except OSError as error:
        raise unwritable(path, error) from error
    return path


def _refuse_odd_target(path: Path, *, overwrite: bool) -> None:
    if "\0" in str(path):
        raise TargetError("a file name cannot hold a NUL", file=repr(str(path)))
    try:
        found = path.lstat()
    except FileNotFoundError:
        return
    except OSError as error:
        raise unwritable(path, error) from error
    if not overwrite:
        raise _exists(path)
    if not (stat.S_ISREG(found.st_mode) or stat.S_ISLNK(found.st_mode)):
        raise TargetError("the target is not a regular file", file=str(path), hint="Name a file.")


def _exists(path: Path) -> TargetExistsError:
    return TargetExistsError(
        "the target exists already", file=str(path), hint="Use --force to replace it."
    )


def unwritable(path: Path, error: OSError) -> TargetError:
    """Return the error to raise when the system refuses to write ``path``."""
    return TargetError(
        f"cannot write: {error.strerror or error}",
        file=str(path),
        hint=_ADVICE.get(error.errno or 0),
    )
