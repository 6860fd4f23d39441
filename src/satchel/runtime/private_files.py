"""Files and folders that are the owner's alone: state, databases, keys.

Each open makes sure of it anew: a link is refused before anything is made, so is what belongs to
another user or has a second name, and a mode that lets others in is put right and reported.
"""

import fcntl
import os
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from satchel.errors import PathRefusedError
from satchel.runtime.files import (
    PRIVATE_FILE,
    PRIVATE_FOLDER,
    ModeRepair,
    enforce,
    file_errors,
    keeps_no_modes,
    open_file,
    open_folder,
    refuse_foreign,
    refuse_odd,
)

COMPANIONS = ("-wal", "-shm", "-journal")
"""What SQLite adds to a database's name for the files it keeps beside it."""

_PLAIN = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC

_ROOT = Path("/")

_making = threading.Lock()


class PrivateFile(NamedTuple):
    """An open file, and what had to be put right to make it private."""

    handle: int
    """Its descriptor; the receiver closes it."""

    repairs: tuple[ModeRepair, ...]


def open_private(
    path: Path, access: int = os.O_RDWR, *, create: bool = False, own_folder: bool = True
) -> PrivateFile:
    """Open a state file that is a plain file of ours with mode 0600.

    Not for a file that SQLite has open in this process: closing the descriptor would drop
    SQLite's locks. ``secure_database`` is for those.

    Args:
        path: The file. Neither it nor its folder may be a link; folders above may.
        access: ``os.O_RDONLY`` or ``os.O_RDWR``, and ``os.O_APPEND`` if wanted.
        create: Make the file, and folders that are missing, when there is none.
        own_folder: The folder holds nothing but our state: it is made when missing, must be ours,
            and has mode 0700 afterwards. False for a folder that a person chose.

    Raises:
        PathRefusedError: If the file or its folder is a link, belongs to another user, is not a
            regular file or has a second name. Nothing was made.
        UnreadableError: If it cannot be opened for reading.
        TargetError: If it cannot be made or opened for writing, or the mode cannot be put right.
    """
    _refuse_no_name(path)
    writes = create or access & os.O_ACCMODE != os.O_RDONLY
    with (
        file_errors(path, writes=writes),
        _folder_of(path, create=create, ours=own_folder) as (folder, repairs),
    ):
        handle, made = _make_or_open(path, access, within=folder, create=create)
        try:
            repair = enforce(handle, path, PRIVATE_FILE)
            if made:
                os.fsync(folder)  # or the file may be gone after a power loss
        except BaseException:
            os.close(handle)
            raise
        # A mode that the umask made of ours is no news.
        return PrivateFile(handle, (*repairs, repair) if repair and not made else repairs)


def secure_database(path: Path, *, own_folder: bool = True) -> tuple[ModeRepair, ...]:
    """Make an SQLite database safe to open by name, and return what had to be put right.

    Makes an empty one with mode 0600 when there is none (SQLite would follow the umask, and gives
    its companions the mode of the database). In a folder of our own nobody can exchange anything
    between this and SQLite's own opening.

    Existing files are looked at without opening them for real: when a program closes any
    descriptor of a database, the system drops all locks that SQLite holds on it for that program.

    Args:
        path: The database; its companions (``COMPANIONS``) are looked at, too.
        own_folder: As ``open_private``.

    Raises:
        PathRefusedError: As ``open_private``, for the database and each companion.
        TargetError: If it cannot be made or a mode cannot be put right.
    """
    _refuse_no_name(path)
    with (
        file_errors(path, writes=True),
        _folder_of(path, create=True, ours=own_folder) as (folder, repairs),
    ):
        found = [path.with_name(path.name + ending) for ending in ("", *COMPANIONS)]
        # All are judged before one is made: a planted companion leaves nothing behind.
        changes = [_unopened(file, within=folder) for file in found]
        # Another thread that waits here opens the database only when this descriptor is closed.
        with _making, suppress(FileExistsError):
            handle = open_file(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, within=folder)
            try:
                enforce(handle, path, PRIVATE_FILE)
                os.fsync(folder)
            finally:
                os.close(handle)
        return (*repairs, *(change for change in changes if change))


def database_files(path: Path) -> dict[str, os.stat_result]:
    """Look at an SQLite database that is only read, and its companions; nothing is opened.

    Whose they are does not matter: a backup may be anybody's.

    Returns:
        What is there, by what is added to the database's name (``COMPANIONS``; "" for itself).

    Raises:
        PathRefusedError: If one of them is a link or not a regular file.
        UnreadableError: If the folder cannot be entered.
    """
    found = {}
    with file_errors(path, writes=False):
        for ending in ("", *COMPANIONS):
            file = path.with_name(path.name + ending)
            with suppress(FileNotFoundError):
                found[ending] = file.lstat()
                refuse_odd(found[ending], file)
    return found


def secure_modes(path: Path) -> tuple[ModeRepair, ...]:
    """Put right the modes of a file of ours and of what SQLite keeps beside it; read no byte.

    Raises:
        PathRefusedError: If one is a link, another user's, or has a second name.
        TargetError: If a mode cannot be put right.
    """
    with (
        file_errors(path, writes=True),
        _folder_of(path, create=False, ours=False) as (folder, _),
    ):
        found = [path.with_name(path.name + ending) for ending in ("", *COMPANIONS)]
        changes = [_unopened(file, within=folder) for file in found]
        return tuple(change for change in changes if change)


def secure_files(folder: Path) -> tuple[ModeRepair, ...]:
    """Make a folder of ours and the files in it private; none of these is opened.

    For files that a program makes as the umask says, and opens by name.

    Raises:
        PathRefusedError: If it or one of them is a link or another user's, or a file has a second
            name.
        TargetError: If a mode cannot be put right.
    """
    with file_errors(folder, writes=True):
        handle, repairs = open_private_folder(folder, create=False)
        with _closing(handle):
            names = sorted(os.listdir(handle))  # noqa: PTH208 - of a descriptor
            kinds = ((name, _status(name, handle)) for name in names)
            files = [folder / name for name, found in kinds if found and not _is_folder(found)]
            changes = [_unopened(file, within=handle) for file in files]
    return (*repairs, *(change for change in changes if change))


def _is_folder(found: os.stat_result) -> bool:
    return stat.S_ISDIR(found.st_mode)


def private_folder(path: Path) -> Path:
    """Make a folder that only its owner may enter, and return it.

    Folders above that are missing are made the same way.

    Raises:
        PathRefusedError: If it is a link, not a folder, or another user's.
        TargetError: If it cannot be made.
    """
    with file_errors(path, writes=True):
        handle, _ = open_private_folder(path, create=True)
        os.close(handle)
    return path


def open_private_folder(path: Path, *, create: bool) -> tuple[int, tuple[ModeRepair, ...]]:
    """Open a folder of ours; return its descriptor, for the caller to close, and repairs.

    Args:
        path: The folder. It may not be a link; folders above may.
        create: Make it, and those above, when missing.

    Raises:
        PathRefusedError: If it is a link, not a folder, another user's, or the system's.
        OSError: Whatever else the system says.
    """
    try:
        handle = open_folder(path)
    except (FileNotFoundError, PathRefusedError) as error:
        # What was not there may be there now: another process makes it, too.
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


def _refuse_everyones(found: os.stat_result, path: Path) -> None:
    """Refuse a folder that others need, such as the one for temporary files, before closing it."""
    if found.st_mode & stat.S_ISVTX or os.path.samestat(found, _ROOT.stat()):
        raise PathRefusedError(
            "this folder is shared by all users; state needs a private folder",
            file=str(path),
            hint="Use a folder inside it.",
        )


def make_folders(path: Path) -> None:
    """Make a folder and those above it that are missing, each with mode 0700.

    Raises:
        OSError: What the system says.
    """
    # Not mkdir(parents=True): that makes those above with the umask's mode.
    for folder in reversed((path, *path.parents)):
        if os.path.lexists(folder):
            continue
        with suppress(FileExistsError):
            folder.mkdir(mode=PRIVATE_FOLDER)
        # Who may write in the folder above but not list it cannot ask for this.
        with suppress(PermissionError), _closing(os.open(folder.parent, _PLAIN)) as above:
            os.fsync(above)


@contextmanager
def _folder_of(
    path: Path, *, create: bool, ours: bool
) -> Iterator[tuple[int, tuple[ModeRepair, ...]]]:
    """Give the descriptor of the folder that ``path`` is in, and repairs."""
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
    """Return the descriptor, and whether the file was made."""
    if create:
        with suppress(FileExistsError):
            return open_file(path, access | os.O_CREAT | os.O_EXCL, within=within), True
    return open_file(path, access, within=within), False


def _unopened(path: Path, *, within: int) -> ModeRepair | None:
    """Enforce a file's mode without a descriptor whose closing would drop locks."""
    found = _status(path.name, within)
    if found is None:
        return None
    refuse_foreign(found, path)
    refuse_odd(found, path)
    was = stat.S_IMODE(found.st_mode)
    if was == PRIVATE_FILE:
        return None
    with suppress(FileNotFoundError):
        _change_mode(path.name, within)
    found = _status(path.name, within)
    if found is None:  # SQLite removes companions when the last one leaves
        return None
    if stat.S_IMODE(found.st_mode) != PRIVATE_FILE:
        raise keeps_no_modes(path)
    return ModeRepair(path, was, PRIVATE_FILE)


def _status(name: str, within: int) -> os.stat_result | None:
    try:
        found = os.stat(name, dir_fd=within, follow_symlinks=False)
    except FileNotFoundError:
        return None
    # Some file systems still find a file by its name while another process removes it.
    return found if found.st_nlink else None


def _change_mode(name: str, within: int) -> None:
    if not hasattr(os, "O_PATH"):
        os.chmod(name, PRIVATE_FILE, dir_fd=within, follow_symlinks=False)
        return
    # Older C libraries cannot change a mode without following; this descriptor never follows,
    # and is not one that holds or drops locks.
    with _closing(os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=within)) as it:
        if stat.S_ISREG(os.fstat(it).st_mode):
            Path(f"/proc/self/fd/{it}").chmod(PRIVATE_FILE)


def _refuse_no_name(path: Path) -> None:
    if path.name in {"", ".."}:
        raise PathRefusedError("not the path of a file", file=str(path))


class Exposure(NamedTuple):
    """Why a file with a secret is refused."""

    problem: str
    command: str
    """What puts it right."""


def require_secret(path: Path, found: os.stat_result, what: str) -> None:
    """Refuse a file with a secret that others may know or replace.

    Args:
        path: The file.
        found: Its status, once it is open.
        what: What it holds, for a sentence.

    Raises:
        PathRefusedError: If they may.
    """
    exposed = exposure(path, found)
    if exposed is not None:
        raise PathRefusedError(
            f"{what} is not safe: {exposed.problem}",
            file=str(path),
            hint=f"If not, restrict it: {exposed.command}",
        )


def exposure(path: Path, found: os.stat_result | None = None) -> Exposure | None:
    """Return why others may know or replace the secret in a file; None where nobody can.

    Args:
        path: The file.
        found: Its status, where it is open; of the file at the path otherwise.

    Raises:
        OSError: If it cannot be looked at.
    """
    status = path.stat() if found is None else found
    if not stat.S_ISREG(status.st_mode):  # a pipe is its reader's alone
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
        if not os.path.lexists(path.parent):  # a file where a folder above it should be
            raise NotADirectoryError(str(path.parent)) from error
        raise


@contextmanager
def lock_file(path: Path, *, within: int | None = None) -> Iterator[None]:
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
    with open_unshared(path, os.O_RDWR | os.O_CREAT, within=within) as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        try:
            yield
        finally:
            # Said, not left to the closing: a process forked meanwhile holds the file open too.
            fcntl.flock(handle, fcntl.LOCK_UN)
