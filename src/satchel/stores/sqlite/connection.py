"""Connections to SQLite files: keys, settings, versions, copies.

Encrypted files have pages of SQLite3 Multiple Ciphers (ChaCha20-Poly1305; the file, its log and
temporary files), which the package ``apsw-sqlite3mc`` provides. The package ``apsw`` is the same
module without them; both open plain files.
"""

import ctypes
import errno
import os
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol
from urllib.parse import quote_from_bytes

import apsw

from satchel.errors import (
    EncryptionError,
    MissingExtraError,
    SatchelError,
    StoreBusyError,
    StoreError,
    StoreVersionError,
    TargetExistsError,
)
from satchel.model.values import now
from satchel.ports.store import Progress
from satchel.runtime.files import leftover_files, target_error, writing_by_name
from satchel.runtime.private_files import COMPANIONS, database_files, secure_database
from satchel.runtime.processes import BusyHandler
from satchel.stores.sqlite.statements import (
    VERSION,
    damaged,
    index_names,
    lacks_names,
    stored_version,
    translated,
)

KEY_ENDING = ".key"
"""The suffix of the file with a store's key."""

_CIPHER = "chacha20"
_MAGIC = b"SQLite format 3\x00"
_HEAD_BYTES = 24
_UNCHANGED = slice(21, 24)  # of a first page that is encrypted; for SQLite, each byte is a constant
_CONSTANTS = b"\x40\x20\x20"


def unlock(connection: apsw.Connection, secret: bytes, name: str) -> None:
    """Set the key of a new connection.

    Args:
        connection: A connection of a file system of ``with_ciphers``.
        secret: 32 bytes.
        name: The name of the store.

    Raises:
        MissingExtraError: If this SQLite cannot encrypt.
        EncryptionError: If the key does not open the file.
        apsw.Error: If it cannot be read.
    """
    if not has_ciphers():
        raise MissingExtraError(
            "the store is encrypted, but another package named apsw shadows apsw-sqlite3mc",
            file=name,
            hint="Reinstall it: pip uninstall apsw; pip install --force-reinstall apsw-sqlite3mc",
        )
    connection.pragma("cipher", _CIPHER)
    connection.pragma("key", f"raw:{secret.hex()}")
    try:
        connection.pragma("schema_version")
    except apsw.NotADBError:
        raise EncryptionError(
            "the store cannot be decrypted with its key",
            file=name,
            hint=f"It was altered, or {Path(name).name}{KEY_ENDING} is the key of another store.",
        ) from None


def answers(connection: apsw.Connection) -> bool:
    """Return whether a connection with a key can still be used.

    After a page could not be read, such a connection reports every page as damaged, although the
    next read might succeed; a new connection does not.
    """
    try:
        connection.pragma("schema_version")
    except (apsw.CorruptError, apsw.NotADBError):
        return False
    except apsw.Error:
        pass  # raised where it is used
    return True


def has_ciphers() -> bool:
    """Return whether this SQLite can encrypt."""
    return hasattr(apsw, "mc_version")


def with_ciphers(vfs: str | None) -> str | None:
    """Return the file system that encrypts the files of another; None for the default of each."""
    return vfs if vfs is None else f"multipleciphers-{vfs}"


def is_plain(path: Path) -> bool | None:
    """Return whether a file is a plain SQLite database; None if it is too short.

    It is read through SQLite: when a program closes a descriptor of its own, the system releases
    SQLite's locks on the file.
    """
    head = _head(path)
    return head.startswith(_MAGIC) if head else None


def looks_encrypted(path: Path) -> bool:
    """Return whether a file has the header of an encrypted store."""
    head = _head(path)
    return not head.startswith(_MAGIC) and head[_UNCHANGED] == _CONSTANTS


def _head(path: Path) -> bytes:
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_NOFOLLOW
    try:
        with closing(apsw.Connection(str(path.absolute()), flags=flags)) as connection:
            whole, head = connection.read("main", 0, 0, _HEAD_BYTES)
    except apsw.Error:
        return b""
    return bytes(head) if whole else b""


PAGES = 256
"""Pages copied per step: 1 MiB."""

_COPY_CACHE_KIB = 2 * 1024


def copy_database(
    source: apsw.Connection,
    path: Path,
    *,
    progress: Progress | None,
    vfs: str | None,
    secret: bytes | None = None,
) -> None:
    """Copy the view of a connection to a new private file, flushed to disk with its name.

    Args:
        source: A connection in a read transaction. Others may write during the run; the log grows
            in the meantime.
        path: The new file.
        progress: Called after each ``PAGES``.
        vfs: Name of the SQLite file system to write to.
        secret: The key of the source and of the copy.

    Raises:
        TargetExistsError: If it exists, or a file that SQLite would treat as a part of it.
        TargetError: If it cannot be written; nothing remains of it.
        apsw.Error: If the source cannot be read.
    """
    for ending in ("", *COMPANIONS):
        if os.path.lexists(taken := path.with_name(path.name + ending)):
            raise TargetExistsError(
                "the target of the copy already exists",
                file=str(taken),
                hint="Choose another path.",
            )
    # The first read fixes the view; before it, each step would see newer data.
    source.pragma("schema_version")
    with writing_by_name(path) as temporary:
        try:
            _copy(source, temporary, progress, vfs, secret)
        except apsw.FullError as error:
            raise target_error(path, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))) from error


def _copy(
    source: apsw.Connection,
    path: Path,
    progress: Progress | None,
    vfs: str | None,
    secret: bytes | None,
) -> None:
    flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_NOFOLLOW
    system = vfs if secret is None else with_ciphers(vfs)
    with closing(apsw.Connection(str(path), flags=flags, vfs=system)) as target:
        if secret is not None:
            unlock(target, secret, str(path))
        # It is flushed to disk at the end, and deleted after any error.
        target.pragma("journal_mode", "off")
        target.pragma("synchronous", "off")
        target.pragma("cache_size", -_COPY_CACHE_KIB)
        with target.backup("main", source, "main") as backup:
            while not backup.done:
                backup.step(PAGES)
                if progress is not None:
                    progress(backup.page_count - backup.remaining, backup.page_count)


_CACHE_KIB = 16 * 1024
_LOG_PAGES = 4096
"""Pages in the write-ahead log before a checkpoint. With SQLite's default of 1,000, each commit of
a large import would write the pages of an index to the file again."""
_LEAST_INDEX = 32 * 1024  # bytes of an index in use; smaller if the disk was full


def _always() -> bool:
    return True


Seen = tuple[tuple[str, int, int, int, int], ...]
"""For each file of a database: suffix, device, inode, size, time of the last change."""


Log = tuple[tuple[int, int] | None, ...]
"""Device and inode of a database, its write-ahead log and the log's index; None if missing."""


class ReadConnection(NamedTuple):
    """A connection for reading, and the state of the files if it takes no locks."""

    connection: apsw.Connection
    seen: Seen | None
    serial: int = 0
    """Identifies connections of one thread: each counts the changes of others separately."""


class _Alone(apsw.VFS):
    """A file system of SQLite without locks, to read files that no other program uses.

    Not SQLite's ``unix-none``: when that closes a file, it releases the locks of other connections
    of the process.
    """

    def __init__(self) -> None:
        self.name = "satchel-alone"
        super().__init__(self.name, "")

    def xOpen(self, name: Any, flags: list[int]) -> "_Unlocked":  # noqa: N802 - SQLite's name
        return _Unlocked("", name, flags)


class _Unlocked(apsw.VFSFile):
    def xLock(self, level: int) -> None:  # noqa: N802 - SQLite's name
        pass

    def xUnlock(self, level: int) -> None:  # noqa: N802 - SQLite's name
        pass

    def xCheckReservedLock(self) -> bool:  # noqa: N802 - SQLite's name
        return False


_ALONE = _Alone()


def open_for_writing(
    path: Path, *, busy_ms: int, vfs: str | None, secret: bytes | None = None
) -> apsw.Connection:
    """Open a file, or create an empty one that only its owner may read; nothing is written to it.

    Args:
        path: The file.
        busy_ms: How long to wait for others.
        vfs: Name of the SQLite file system to use.
        secret: Its key, if it is encrypted or will be.

    Raises:
        PathRefusedError: As ``secure_database``.
        EncryptionError: If the key does not open it.
        StoreError: If it cannot be opened.
    """
    secure_database(path, own_folder=False)
    flags = apsw.SQLITE_OPEN_READWRITE
    return _connected(path, _address(path), flags, busy_ms=busy_ms, vfs=vfs, secret=secret)


def open_for_reading(
    path: Path,
    *,
    busy_ms: int,
    vfs: str | None,
    with_locks: bool = False,
    secret: bytes | None = None,
) -> ReadConnection:
    """Open an existing file for reading. Nothing is created; only ``-shm``, the locks, is written.

    Args:
        path: The file.
        busy_ms: How long to wait for others.
        vfs: Name of the SQLite file system to use.
        with_locks: Use SQLite's locks although no program has the store open, if their files can be
            created: then a new writer does not disturb the view.
        secret: Its key, if it is encrypted.

    Raises:
        EncryptionError: If the key does not open it.
        PathRefusedError: If it or a companion is a link or not a regular file.
        StoreError: If it cannot be opened, or if only a writer can recover it after a crash.
    """
    files = database_files(path)
    if _is_filled(files, "-journal"):
        raise StoreError(
            "a program was killed while creating the store or changing its key",
            file=str(path),
            hint=(
                "Recover it: satchel init. If the folder is read-only, copy the store and its "
                "-journal to another one first."
            ),
        )
    seen = _seen(files)
    alone = seen is not None and _is_filled(files, "-wal")
    address = _address(path)
    if with_locks and os.access(path.parent, os.W_OK):
        seen, alone = None, False
    if seen is not None and not alone:
        address += "?immutable=1"
    vfs = _ALONE.name if alone else vfs
    flags = apsw.SQLITE_OPEN_READONLY
    connection = _connected(path, address, flags, busy_ms=busy_ms, vfs=vfs, secret=secret)
    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    return ReadConnection(connection, seen)


def is_current(path: Path, seen: Seen | None) -> bool:
    """Return whether a connection for reading can still be used."""
    return seen is None or _seen(database_files(path)) == seen


def has_moved(connection: apsw.Connection) -> bool:
    """Return whether the file of a connection was deleted or replaced.

    Later writes are lost, and SQLite does not report it while there is a log.
    """
    moved = ctypes.c_int()
    connection.file_control("main", apsw.SQLITE_FCNTL_HAS_MOVED, ctypes.addressof(moved))
    return bool(moved.value)


def log_at(path: str) -> Log:
    """Return the identities of a database, its log and the log's index.

    An open database has both. If they were replaced or deleted, another program did that: SQLite
    continues with its open ones, which are lost when it ends.
    """
    return tuple(_identity(path + ending) for ending in ("", "-wal", "-shm"))


def _identity(path: str) -> tuple[int, int] | None:
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def save_log(connection: apsw.Connection) -> bool:
    """Write the contents of a deleted log to the file, and return whether all of it was written.

    Only if no other log replaced it: the pages of two logs would be mixed.
    """
    with suppress(apsw.Error):
        ((busy, pages, saved),) = connection.execute("PRAGMA wal_checkpoint(FULL)").fetchall()
        return not busy and pages == saved
    return False


@contextmanager
def undisturbed(path: Path, seen: Seen) -> Iterator[None]:
    """Read a file without locks.

    Raises:
        StoreBusyError: If it was written to in the meantime; then discard what was read.
    """
    problem: SatchelError | None = None
    try:
        yield
    except SatchelError as error:
        problem = error
    if not is_current(path, seen):
        raise StoreBusyError(
            "the store was changed while it was being read", file=str(path), hint="Read it again."
        ) from problem
    if problem is not None:
        raise problem


@contextmanager
def closing_on_error(path: Path, connection: apsw.Connection) -> Iterator[None]:
    """Close a connection when the block fails.

    Raises:
        StoreError: For an error of SQLite.
    """
    try:
        with translated(str(path), connection):
            yield
    except BaseException:
        with suppress(apsw.Error):  # the first error counts
            connection.close()
        raise


@contextmanager
def deferred(connection: apsw.Connection, here: Callable[[], bool] = _always) -> Iterator[None]:
    """Begin a view for a block, fixed by its first read.

    Args:
        connection: The connection of this thread.
        here: Returns whether this is still the process that began the block.
    """
    connection.execute("BEGIN")
    try:
        yield
    finally:
        # After some errors SQLite has ended the transaction itself.
        if here() and connection.in_transaction:
            connection.execute("ROLLBACK")


@contextmanager
def immediate(connection: apsw.Connection, here: Callable[[], bool] = _always) -> Iterator[None]:
    """Begin a write transaction for a block; committed when it ends without an error.

    Args:
        connection: The connection of this thread.
        here: As ``deferred``.
    """
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    finally:
        # A failed commit, such as on a full disk, leaves the transaction open.
        if here() and connection.in_transaction:
            connection.execute("ROLLBACK")


@contextmanager
def indexed(connection: apsw.Connection, here: Callable[[], bool]) -> Iterator[None]:
    """Add the index of names to an older file before a write transaction, if possible.

    In a transaction of its own, since one that finds a damaged page cannot continue. Names are
    found without the index as well.
    """
    if lacks_names(connection):
        with suppress(apsw.CorruptError, apsw.FullError), immediate(connection, here):
            index_names(connection)
    yield


def _address(path: Path) -> str:
    # As a URI, so that file names may have any bytes.
    return "file:" + quote_from_bytes(os.fsencode(path.absolute()))


def _connected(
    path: Path, address: str, flags: int, *, busy_ms: int, vfs: str | None, secret: bytes | None
) -> apsw.Connection:
    flags |= apsw.SQLITE_OPEN_NOFOLLOW | apsw.SQLITE_OPEN_URI
    system = vfs if secret is None else with_ciphers(vfs)
    with translated(str(path)):
        connection = apsw.Connection(address, flags=flags, vfs=system)
    with closing_on_error(path, connection):
        connection.set_busy_handler(BusyHandler(path, busy_ms))
        if vfs == _ALONE.name:
            connection.pragma("locking_mode", "exclusive")  # the log's index is in memory then
        connection.pragma("temp_store", "file")  # encrypted, where the file is
        if secret is not None:
            unlock(connection, secret, str(path))
        connection.pragma("cache_size", -_CACHE_KIB)
        connection.pragma("wal_autocheckpoint", _LOG_PAGES)
        connection.pragma("trusted_schema", 0)
    return connection


def _seen(files: Mapping[str, os.stat_result]) -> Seen | None:
    """Return the state of the files; None if SQLite's locks are to be used."""
    if "-wal" in files and "-shm" in files and files["-shm"].st_size >= _LEAST_INDEX:
        return None
    return tuple(
        (ending, found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)
        for ending, found in files.items()
    )


def _is_filled(files: Mapping[str, os.stat_result], ending: str) -> bool:
    return ending in files and files[ending].st_size > 0


PATIENCE = 10
"""Seconds that a fork waits for transactions of other threads, one of which may wait for the fork.
"""


class ForkAware(Protocol):
    """An object with connections."""

    def forget_parent(self) -> None:
        """Close, in a child process, the parent's connections."""
        ...


_known: "weakref.WeakSet[ForkAware]" = weakref.WeakSet()
_change = threading.Condition()
_inside: dict[int, int] = {}  # how many blocks each thread is in
_forking = False


def watch(store: ForkAware) -> None:
    """Call ``forget_parent`` of a store in child processes."""
    _known.add(store)


@contextmanager
def transaction() -> Iterator[Callable[[], bool]]:
    """Block forks of other threads until the block has ended.

    Yields a function that returns whether this is still the process that began the block.
    """
    thread, process = threading.get_ident(), os.getpid()
    with _change:
        if thread not in _inside:
            _change.wait_for(lambda: not _forking)
        _inside[thread] = _inside.get(thread, 0) + 1
    try:
        yield lambda: os.getpid() == process
    finally:
        if os.getpid() == process:
            with _change:
                _inside[thread] -= 1
                if not _inside[thread]:
                    del _inside[thread]
                    _change.notify_all()


def _before() -> None:
    global _forking  # noqa: PLW0603 - there is one process
    _change.acquire()
    _forking = True
    me = threading.get_ident()
    _change.wait_for(lambda: not _inside.keys() - {me}, PATIENCE)


def _in_parent() -> None:
    global _forking  # noqa: PLW0603
    _forking = False
    _change.notify_all()
    _change.release()


def _in_child() -> None:
    global _change, _forking
    _change, _forking = threading.Condition(), False
    _inside.clear()
    for store in list(_known):
        store.forget_parent()


os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)


Step = str | Callable[[apsw.Connection], object]
"""SQL, or a function of a connection inside the transaction, that migrates to the next version."""

STEPS: Mapping[int, Step] = MappingProxyType({})
"""Steps by the version that they migrate from. Version 1 is the oldest release."""

_BANKS = """
SELECT bank.id, bank.head, bank.peaks, count(record.place),
    (SELECT count(*) FROM node), (SELECT count(*) FROM piece)
FROM bank LEFT JOIN record ON record.bank = bank.number GROUP BY bank.number ORDER BY bank.number
"""


def migrate(
    connection: apsw.Connection,
    path: Path,
    steps: Mapping[int, Step],
    *,
    busy_ms: int,
    secret: bytes | None = None,
) -> Path | None:
    """Migrate a file to ``VERSION``; return the copy of the older one, None if it is current.

    Concurrent programs wait for the one that does it.

    Args:
        connection: A connection for writing.
        path: The file.
        steps: As ``STEPS``.
        busy_ms: How long to wait for another writer.
        secret: Its key, if it is encrypted, and that of the copy.

    Raises:
        StoreVersionError: If no step migrates its version.
        StoreDamagedError: If it is damaged, or the steps lost something; the file is unchanged.
        TargetError: If there is no space for the copy; the file is unchanged.
        apsw.Error: If it cannot be written; the file is unchanged.
    """
    name = str(path)
    with immediate(connection):
        version = stored_version(connection, name)
        if version is None or version == VERSION:
            return None
        versions = range(version, VERSION)
        if any(old not in steps for old in versions):
            raise StoreVersionError(f"cannot upgrade from version {version}", file=name)
        backup = _back_up(path, version, busy_ms, secret)
        try:
            _advance(connection, name, [steps[old] for old in versions])
        except BaseException:
            backup.unlink(missing_ok=True)
            raise
    return backup


def _back_up(path: Path, version: int, busy_ms: int, secret: bytes | None) -> Path:
    """Copy a file that is locked against writing, and return the path of the copy."""
    stem = path.with_name(f"{path.name}.v{version}")
    for stale in leftover_files(stem):
        stale.unlink()  # left by a killed process; the lock is exclusive
    backup = stem.with_name(f"{stem.name}.{now().replace(':', '-')}.bak")
    # SQLite does not copy a file that the same connection may be writing.
    source = open_for_reading(path, busy_ms=busy_ms, vfs=None, secret=secret).connection
    with closing(source), deferred(source):
        copy_database(source, backup, progress=None, vfs=None, secret=secret)
    return backup


def _advance(connection: apsw.Connection, name: str, steps: list[Step]) -> None:
    before = holds(connection)
    for step in steps:
        if isinstance(step, str):
            connection.execute(step)
        else:
            step(connection)
    connection.pragma("user_version", VERSION)
    report = connection.execute("PRAGMA quick_check").fetchall()
    if report != [("ok",)]:
        raise damaged(name, str(report[0][0]))
    if holds(connection) != before:
        raise damaged(name, "upgrading it would lose records")
    # A full disk fails here, not in the commit.
    connection.cache_flush()


def holds(connection: apsw.Connection) -> list[Any]:
    """Return each bank's head, and the counts of rows that cannot be rebuilt."""
    return connection.execute(_BANKS).fetchall()
