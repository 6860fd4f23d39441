"""One step down from a folder that is open: what is there is opened, never followed.

Whoever may write in a folder can put a link, a pipe or another's file in the place of ours at any
moment. So nothing is looked at by name first and opened by name later: it is opened without
following, and what was opened is looked at.
"""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from satchel.errors import PathRefusedError
from satchel.runtime.atomic_files import target_error
from satchel.runtime.input import unreadable

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_PASS = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # without waiting: it may be a pipe

_MODE = 0o777
_OTHERS = 0o077


class ModeRepair(NamedTuple):
    """A mode that was not the private one, and was made so."""

    path: Path
    was: int
    now: int

    def __str__(self) -> str:
        what = (
            "it was accessible to others"
            if self.was & _OTHERS
            else "it was not fully accessible to us"
        )
        return f"{self.path}: {what} (mode {self.was:04o}); the mode is {self.now:04o} now"


def open_folder(path: Path, *, within: int | None = None, passing: bool = False) -> int:
    """Open a folder and return its descriptor; the caller closes it.

    Args:
        path: The folder. Its last part is not followed when it is a link.
        within: Descriptor of the folder that holds it: then only the last part is used, and the
            rest is for messages.
        passing: Only to open what is in it, which is possible where it may not be listed.

    Raises:
        PathRefusedError: If it is a link or not a folder.
        OSError: Whatever else the system says.
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
        within: Descriptor of the folder that holds it.
        mode: Permissions, before the umask, of a file that is made.
        sole: Refuse a file that has a second name (a hard link): it counts as somebody else's.

    Raises:
        PathRefusedError: If it is a link, a folder, a pipe, a socket or a device.
        OSError: Whatever else the system says.
    """
    try:
        handle = os.open(path.name, access | _FILE, mode, dir_fd=within)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise _link(path) from error
        if error.errno in {errno.EISDIR, errno.ENXIO, errno.ENODEV}:
            raise _no_file(path) from error
        raise
    found = os.fstat(handle)
    if not stat.S_ISREG(found.st_mode):
        os.close(handle)
        raise _no_file(path)
    if sole and found.st_nlink > 1:  # none is a file that was replaced since it was opened
        os.close(handle)
        raise PathRefusedError(
            "this file has another hard link elsewhere",
            file=str(path),
            hint="Find out which program created it.",
        )
    return handle


def refuse_foreign(found: os.stat_result, path: Path) -> None:
    """Refuse what another user could have laid there.

    Raises:
        PathRefusedError: If it is a link, belongs to another user, or is a file that has a second
            name somewhere.
    """
    _refuse_link(found, path)
    if found.st_uid != os.geteuid():
        raise PathRefusedError(
            f"this belongs to another user (uid {found.st_uid}; ours is {os.geteuid()})",
            file=str(path),
            hint="Run this as that user, or change the owner with chown.",
        )
    if not stat.S_ISDIR(found.st_mode) and found.st_nlink != 1:
        raise many_names(found, path)


def refuse_other_names(found: os.stat_result, path: Path) -> None:
    """Refuse a file that is reached by other names, which may be anywhere.

    One that has lost its name since it was opened is good.

    Raises:
        PathRefusedError: If it is a link, no regular file, or has a second name.
    """
    refuse_odd(found, path)
    if found.st_nlink > 1:
        raise many_names(found, path)


def many_names(found: os.stat_result, path: Path) -> PathRefusedError:
    """Return the error for a file with hard links."""
    return PathRefusedError(
        f"this file has {found.st_nlink} names (hard links)",
        file=str(path),
        hint="Remove the other links, or replace it with a copy.",
    )


def refuse_odd(found: os.stat_result, path: Path) -> None:
    """Refuse what is not a regular file.

    Raises:
        PathRefusedError: If it is a link, a folder, a pipe, a socket or a device.
    """
    _refuse_link(found, path)
    if not stat.S_ISREG(found.st_mode):
        raise _no_file(path)


def enforce(handle: int, path: Path, mode: int) -> ModeRepair | None:
    """Make an open file or folder ours alone, and return what had to be changed.

    Args:
        handle: Its descriptor.
        path: For messages.
        mode: The permissions it must have, exactly.

    Raises:
        PathRefusedError: As ``refuse_foreign``.
        OSError: If the system does not let the mode be changed.
    """
    found = os.fstat(handle)
    refuse_foreign(found, path)
    was = found.st_mode & _MODE
    if was == mode:
        return None
    os.fchmod(handle, mode)
    if os.fstat(handle).st_mode & _MODE != mode:  # FAT and its like agree and do nothing
        raise keeps_no_modes(path)
    return ModeRepair(path, was, mode)


def keeps_no_modes(path: Path) -> PathRefusedError:
    """Return the error for a file system on which nothing can be private."""
    return PathRefusedError(
        "the file system does not store permissions, so others may read this",
        file=str(path),
        hint="Use a folder on a local disk of this system.",
    )


@contextmanager
def file_errors(path: Path, *, writes: bool) -> Iterator[None]:
    """Turn what the system says in the block into an error that names ``path``.

    Raises:
        PathRefusedError: If the name holds a NUL; the block is not run.
        TargetError: If the system refuses and the block ``writes``.
        UnreadableError: If it refuses and the block only reads.
    """
    if "\0" in str(path):
        raise PathRefusedError("a name cannot contain NUL", file=repr(str(path)))
    try:
        yield
    except OSError as error:
        raise (target_error if writes else unreadable)(path, error) from error


def _refuse_link(found: os.stat_result, path: Path) -> None:
    if stat.S_ISLNK(found.st_mode):
        raise _link(path)


def _link(path: Path) -> PathRefusedError:
    return PathRefusedError(
        "this is a symbolic link that Satchel did not create; it was not followed",
        file=str(path),
        hint="Use the target path itself, or remove the link if you did not create it.",
    )


def _no_file(path: Path) -> PathRefusedError:
    return PathRefusedError("this is not a regular file", file=str(path))
