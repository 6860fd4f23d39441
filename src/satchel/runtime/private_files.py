"""Files and folders of this user alone: state, databases, keys.

Each open verifies it again: links, files of other users and files with a second name are refused
before anything is created, and a mode that grants access to others is corrected and reported.
"""

import fcntl
import os
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from satchel.errors import PathRefusedError, SatchelError
from satchel.runtime.files import (
    PRIVATE_FILE,
    PRIVATE_FOLDER,
    ModeRepair,
    enforce,
    file_errors,
    no_modes_error,
    open_file,
    open_folder,
    refuse_foreign,
    refuse_irregular,
)

COMPANIONS = ("-wal", "-shm", "-journal")
"""Suffixes of the files that SQLite keeps beside a database."""

_PLAIN = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC

_ROOT = Path("/")

_making = threading.Lock()


class PrivateFile(NamedTuple):
    """An open file, and the modes that were corrected to make it private."""

    handle: int
    """Its descriptor; the caller closes it."""

    repairs: tuple[ModeRepair, ...]


def open_private(
    path: Path, access: int = os.O_RDWR, *, create: bool = False, own_folder: bool = True
) -> PrivateFile:
    """Open a state file that is a regular file of this user with mode 0600.

    Not for a file that SQLite has open in this process: closing the descriptor would drop SQLite's
    locks. Use ``secure_database`` for those.

    Args:
        path: The file. Neither it nor its folder may be a link; folders above may.
        access: ``os.O_RDONLY`` or ``os.O_RDWR``, and ``os.O_APPEND`` if wanted.
        create: Create the file and missing folders.
        own_folder: The folder contains only state of this program: it is created if missing, must
            belong to this user, and gets mode 0700. False for a folder that a person chose.

    Raises:
        PathRefusedError: If the file or its folder is a link, belongs to another user, is not a
            regular file or has a second name. Nothing was created.
        UnreadableError: If it cannot be opened for reading.
        TargetError: If it cannot be created or opened for writing, or the mode cannot be corrected.
    """
    _refuse_no_name(path)
    writes = create or access & os.O_ACCMODE != os.O_RDONLY
    with (
        file_errors(path, writes=writes),
        _folder_of(path, create=create, ours=own_folder) as (folder, repairs),
    ):
        handle, is_new = _make_or_open(path, access, within=folder, create=create)
        try:
            repair = enforce(handle, path, PRIVATE_FILE)
            if is_new:
                os.fsync(folder)  # or the file may be gone after a power loss
        except BaseException:
            os.close(handle)
            raise
        # A mode of a new file that the umask changed is not reported.
        return PrivateFile(handle, (*repairs, repair) if repair and not is_new else repairs)


def secure_database(path: Path, *, own_folder: bool = True) -> tuple[ModeRepair, ...]:
    """Make an SQLite database safe to open by name, and return the corrected modes.

    Creates an empty one with mode 0600 if it does not exist (SQLite would follow the umask, and
    gives its companions the mode of the database). In a folder of this user nobody can exchange
    anything between this call and SQLite's own opening.

    Existing files are checked without opening them: when a program closes any descriptor of a
    database, the system drops all locks that SQLite holds on it for that program.

    Args:
        path: The database; its companions (``COMPANIONS``) are checked, too.
        own_folder: As ``open_private``.

    Raises:
        PathRefusedError: As ``open_private``, for the database and each companion.
        TargetError: If it cannot be created or a mode cannot be corrected.
    """
    _refuse_no_name(path)
    with (
        file_errors(path, writes=True),
        _folder_of(path, create=True, ours=own_folder) as (folder, repairs),
    ):
        files = [path.with_name(path.name + ending) for ending in ("", *COMPANIONS)]
        # All are checked before one is created: a planted companion leaves nothing behind.
        changes = [_unopened(file, within=folder) for file in files]
        # Another thread that waits here opens the database only after this descriptor is closed.
        with _making, suppress(FileExistsError):
            handle = open_file(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, within=folder)
            try:
                enforce(handle, path, PRIVATE_FILE)
                os.fsync(folder)
            finally:
                os.close(handle)
        return (*repairs, *(change for change in changes if change))


def database_files(path: Path) -> dict[str, os.stat_result]:
    """Check an SQLite database that is only read, and its companions; nothing is opened.

    Their owner does not matter: a backup may belong to anybody.

    Returns:
        The status of each existing file, by suffix (``COMPANIONS``; "" for the database).

    Raises:
        PathRefusedError: If one of them is a link or not a regular file.
        UnreadableError: If the folder cannot be entered.
    """
    statuses = {}
    with file_errors(path, writes=False):
        for ending in ("", *COMPANIONS):
            file = path.with_name(path.name + ending)
            with suppress(FileNotFoundError):
                statuses[ending] = file.lstat()
                refuse_irregular(statuses[ending], file)
    return statuses


def secure_modes(path: Path) -> tuple[ModeRepair, ...]:
    """Correct the modes of a private file and its SQLite companions, without opening them.

    Raises:
        PathRefusedError: If one is a link, another user's, or has a second name.
        TargetError: If a mode cannot be corrected.
    """
    with (
        file_errors(path, writes=True),
        _folder_of(path, create=False, ours=False) as (folder, _),
    ):
        found = [path.with_name(path.name + ending) for ending in ("", *COMPANIONS)]
        changes = [_unopened(file, within=folder) for file in found]
        return tuple(change for change in changes if change)


def secure_files(folder: Path) -> tuple[ModeRepair, ...]:
    """Make a folder of this user and the files in it private; no file is opened.

    For files that a program creates according to the umask and opens by name.

    Raises:
        PathRefusedError: If it or one of them is a link or another user's, or a file has a second
            name.
        TargetError: If a mode cannot be corrected.
    """
    with file_errors(folder, writes=True):
        handle, repairs = open_private_folder(folder, create=False)
        with _closing(handle):
            names = sorted(os.listdir(handle))  # noqa: PTH208 - of a descriptor
            kinds = ((name, _status(name, handle)) for name in names)
            files = [folder / name for name, found in kinds if found and not _is_folder(found)]
            changes = [_unopened(file, within=handle) for file in files]
    return (*repairs, *(change for change in changes if change))


def _is_folder(status: os.stat_result) -> bool:
    return stat.S_ISDIR(status.st_mode)


def private_folder(path: Path) -> Path:
    """Create a folder that only its owner may enter, and return it.

    Missing parents are created the same way.

    Raises:
        PathRefusedError: If it is a link, not a folder, or another user's.
        TargetError: If it cannot be created.
    """
    with file_errors(path, writes=True):
        handle, _ = open_private_folder(path, create=True)
        os.close(handle)
    return path


def open_private_folder(path: Path, *, create: bool) -> tuple[int, tuple[ModeRepair, ...]]:
    """Open a folder of this user; return its descriptor, for the caller to close, and repairs.

    Args:
        path: The folder. It may not be a link; folders above may.
        create: Create it and its parents if missing.

    Raises:
        PathRefusedError: If it is a link, not a folder, another user's, or the system's.
        OSError: Any other error of the system.
    """
    try:
        handle = open_folder(path)
    except (FileNotFoundError, PathRefusedError) as error:
        # Another process may have created it in the meantime.
        if not create or (isinstance(error, PathRefusedError) and os.path.lexists(path)):
            raise
        make_folders(path)
        handle = open_folder(path)
    try:
        _refuse_everyones(os.fstat(handle), path)
        repair = enforce(handle, path, PRIVATE_FOLDER)
    except BaseException:
        os.close(handle)
        raise
    return handle, (repair,) if repair else ()


def _refuse_everyones(status: os.stat_result, path: Path) -> None:
    """Refuse a folder that others need, such as the temporary folder, before restricting it."""
    if status.st_mode & stat.S_ISVTX or os.path.samestat(status, _ROOT.stat()):
        raise PathRefusedError(
            "this folder is shared by all users; state needs a private folder",
            file=str(path),
            hint="Use a folder inside it.",
        )


def make_folders(path: Path) -> None:
    """Create a folder and its missing parents, each with mode 0700.

    Raises:
        OSError: Errors of the system.
    """
    # Not mkdir(parents=True): it creates parents with the umask's mode.
    for folder in reversed((path, *path.parents)):
        if os.path.lexists(folder):
            continue
        with suppress(FileExistsError):
            folder.mkdir(mode=PRIVATE_FOLDER)
        # This fails for a user that may write in the parent folder but not list it.
        with suppress(PermissionError), _closing(os.open(folder.parent, _PLAIN)) as above:
            os.fsync(above)


@contextmanager
def _folder_of(
    path: Path, *, create: bool, ours: bool
) -> Iterator[tuple[int, tuple[ModeRepair, ...]]]:
    """Yield the descriptor of the folder of ``path``, and repairs."""
    if ours:
        handle, repairs = open_private_folder(path.parent, create=create)
    else:
        handle, repairs = open_folder(path.parent), ()
    with _closing(handle):
        yield handle, repairs


@contextmanager
def _closing(handle: int) -> Iterator[int]:
    try:
        yield handle
    finally:
        os.close(handle)


def _make_or_open(path: Path, access: int, *, within: int, create: bool) -> tuple[int, bool]:
    """Return the descriptor, and whether the file was created."""
    if create:
        with suppress(FileExistsError):
            return open_file(path, access | os.O_CREAT | os.O_EXCL, within=within), True
    return open_file(path, access, within=within), False


def _unopened(path: Path, *, within: int) -> ModeRepair | None:
    """Enforce a file's mode without a descriptor whose closing would drop locks."""
    status = _status(path.name, within)
    if status is None:
        return None
    refuse_foreign(status, path)
    refuse_irregular(status, path)
    was = stat.S_IMODE(status.st_mode)
    if was == PRIVATE_FILE:
        return None
    with suppress(FileNotFoundError):
        _change_mode(path.name, within)
    status = _status(path.name, within)
    if status is None:  # SQLite removes companions with the last connection
        return None
    if stat.S_IMODE(status.st_mode) != PRIVATE_FILE:
        raise no_modes_error(path)
    return ModeRepair(path, was, PRIVATE_FILE)


def _status(name: str, within: int) -> os.stat_result | None:
    try:
        status = os.stat(name, dir_fd=within, follow_symlinks=False)
    except FileNotFoundError:
        return None
    # Some file systems still find a file by its name while another process removes it.
    return status if status.st_nlink else None


def _change_mode(name: str, within: int) -> None:
    if not hasattr(os, "O_PATH"):
        os.chmod(name, PRIVATE_FILE, dir_fd=within, follow_symlinks=False)
        return
    # Older C libraries cannot change a mode without following links; this descriptor never follows,
    # and neither holds nor drops locks.
    with _closing(os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=within)) as it:
        if stat.S_ISREG(os.fstat(it).st_mode):
            Path(f"/proc/self/fd/{it}").chmod(PRIVATE_FILE)


def _refuse_no_name(path: Path) -> None:
    if path.name in {"", ".."}:
        raise PathRefusedError("not the path of a file", file=str(path))


class Exposure(NamedTuple):
    """The reason to refuse a file with a secret."""

    problem: str
    command: str
    """The command that corrects it."""


def require_secret(
    path: Path,
    status: os.stat_result,
    content: str,
    error: Callable[..., SatchelError] = PathRefusedError,
) -> None:
    """Refuse a file with a secret that others may read or replace.

    Args:
        path: The file.
        status: Its status, if it is open.
        content: Its content, for the message.
        error: Class of the error.

    Raises:
        PathRefusedError: If others may; or the given class.
    """
    exposed = exposure(path, status)
    if exposed is not None:
        raise error(
            f"{content} is not safe: {exposed.problem}",
            file=str(path),
            hint=f"Restrict it: {exposed.command}",
        )


def exposure(path: Path, file_status: os.stat_result | None = None) -> Exposure | None:
    """Return why others may read or replace the secret in a file; None if they cannot.

    Args:
        path: The file.
        file_status: Its status, if it is open; that of the path by default.

    Raises:
        OSError: If its status cannot be read.
    """
    status = path.stat() if file_status is None else file_status
    if not stat.S_ISREG(status.st_mode):  # only its reader has a pipe
        return None
    mode = stat.S_IMODE(status.st_mode)
    if status.st_uid not in (os.geteuid(), 0):
        return Exposure(f"another user owns it (user {status.st_uid})", f"chown $USER {path}")
    if mode & 0o077:
        return Exposure(f"others may read it (mode {mode:04o})", f"chmod 600 {path}")
    folder = path.absolute().parent
    above = folder.stat()
    if above.st_uid not in (os.geteuid(), 0):
        return Exposure(
            f"another user owns its folder (user {above.st_uid})", f"chown $USER {folder}"
        )
    mode = stat.S_IMODE(above.st_mode)
    if mode & 0o022 and not mode & stat.S_ISVTX:
        return Exposure(f"others may replace it (folder of mode {mode:04o})", f"chmod 700 {folder}")
    return None


@contextmanager
def open_unshared(path: Path, flags: int, *, within: int | None = None) -> Iterator[int]:
    """Open a file that has no other name; it is closed at the end of the block.

    Links are not followed, for the file and its folder, a pipe does not block, and a file with a
    second name (a hard link), which may belong to another user, is refused.

    Args:
        path: The file.
        flags: As for ``os.open``; a new file has mode 0600.
        within: Descriptor of its folder, if open; it stays open.

    Raises:
        OSError: Errors of the system, such as ``FileNotFoundError``.
        PathRefusedError: If the path is not such a file, or its folder is a link.
    """
    folder = _open_folder_of(path) if within is None else within
    try:
        handle = open_file(path, flags, within=folder, sole=True)
    finally:
        if within is None:
            os.close(folder)
    try:
        yield handle
    finally:
        os.close(handle)


def _open_folder_of(path: Path) -> int:
    try:
        return open_folder(path.parent)
    except PathRefusedError as error:
        if not os.path.lexists(path.parent):  # a parent that is a file
            raise NotADirectoryError(str(path.parent)) from error
        raise


@contextmanager
def lock_file(path: Path, *, within: int | None = None) -> Iterator[None]:
    """Hold a lock, against other processes and threads, until the block ends.

    It waits without limit and names no holder: for steps of milliseconds. Use ``locks.ProcessLock``
    for longer ones. The file stays, empty: a removed file could be locked twice.

    Args:
        path: The file; created if it does not exist.
        within: As ``open_unshared``.

    Raises:
        OSError: If the file cannot be created or opened.
        PathRefusedError: As ``open_unshared``.
    """
    with open_unshared(path, os.O_RDWR | os.O_CREAT, within=within) as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        try:
            yield
        finally:
            # Unlocked explicitly: a process forked in the meantime has the file open, too.
            fcntl.flock(handle, fcntl.LOCK_UN)
