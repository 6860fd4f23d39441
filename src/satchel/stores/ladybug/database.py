"""Database files: a private folder, its lock, opening, recovery, and rewriting.

The engine writes ``graph.lbug`` and, beside it, a write-ahead log. It creates files with the
umask's mode, so the folder is what is private. A second process with the same files open would
silently lose what the first one acknowledged: so the process that owns the folder holds its lock.
"""

import atexit
import ctypes
import mmap
import os
import shutil
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from satchel.errors import (
    MissingExtraError,
    PathRefusedError,
    SatchelError,
    StoreBusyError,
    StoreDamagedError,
    StoreError,
    StoreVersionError,
)
from satchel.runtime.files import PRIVATE_FILE, atomic_write
from satchel.runtime.locks import ProcessLock
from satchel.runtime.private_files import open_private, private_folder
from satchel.runtime.processes import in_child
from satchel.stores.ladybug.statements import (
    EDGE,
    ENDS,
    LINK_TABLES,
    NODES,
    VERSION,
    Block,
    LadybugStatements,
    key_of,
    ours,
    statements,
    translated,
)

FILE = "graph.lbug"
LOG = FILE + ".wal"
LOCK = "lock"

_POOL_BYTES = 1 << 30
_LARGEST = 1 << 40  # bytes of addresses, not of memory; the engine's own choice is 8 times that
_THREADS = 2
_MAGIC = b"LBUG"
_HEADER = 12
_LAST_OF = {40: "0.15.3", 41: "0.17.1"}
"""Older storage versions, with a release that writes them."""

_LOG_FAILED = ("WAL", "Reading past the end", "Checksum verification failed")


def engine() -> Any:
    """Return the engine's module.

    Raises:
        MissingExtraError: If it is not installed, or another package has its name.
    """
    hint = 'Install it: python -m pip install "satchel[graph]"'
    try:
        import ladybug
    except ImportError as error:
        raise MissingExtraError("this store needs LadybugDB", hint=hint) from error
    if not hasattr(ladybug, "Database"):
        raise MissingExtraError(
            "the installed package `ladybug` is not LadybugDB",
            hint="The weather package ladybug-core has the same name: uninstall it. " + hint,
        )
    return ladybug


def opened(folder: Path, file: str = FILE, *, read_only: bool = False) -> Any:
    """Open the database in a folder that this process has locked.

    Raises:
        StoreDamagedError: If it cannot be opened. If the cause is its log, both files were copied
            aside and the log was truncated to its readable part, with which the store can be opened
            again. A write that was interrupted at the end of the log is not damage: it was never
            acknowledged, and is dropped.
        StoreVersionError: If its files are newer than the engine.
        StoreError: If it cannot be opened for another reason.
    """
    module, path = engine(), folder / file
    _check_version(module, path, read_only=read_only)
    try:
        return _database(module, path, read_only=read_only)
    except (RuntimeError, MemoryError) as error:
        message = str(error)
        log = path.with_name(path.name + ".wal")
        if not log.exists() or not any(part in message for part in _LOG_FAILED):
            raise ours(error, str(folder)) from error
        if (committed := _interrupted_after(log)) is None:
            if read_only:
                raise ours(error, str(folder)) from error
            raise _quarantined(module, folder, path) from error
    if not read_only:
        _truncate(log, committed)
        return opened(folder, file)
    with translated(str(folder)):
        return _database(module, path, read_only=True, throw=False)


_LOG_HEADER = 25
"""Bytes before the first record: the database's ID, whether records have checksums, a checksum."""
_LENGTH = struct.Struct("<Q")
_AROUND = 16
"""Bytes of a record besides its content: the length before it, the checksum after it."""
_COMMIT = _LENGTH.pack(9) + b"\2"
"""How the record that ends a transaction starts: its length, its type."""


def _interrupted_after(log: Path) -> int | None:
    """Return the size of a log up to its last commit, if a write was interrupted after it.

    A killed process can leave a part of a transaction at the end, which was never acknowledged. If
    the log ends with a commit, or has one after an incomplete record, a byte of it was changed
    instead, and the result is None.
    """
    size = log.stat().st_size
    if size < _LOG_HEADER:
        return 0
    with log.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        if data[16] != 1:
            return None
        position = committed = _LOG_HEADER
        while position + _LENGTH.size <= size:
            end = position + _AROUND + _LENGTH.unpack_from(data, position)[0]
            if end > size:
                break
            if data[position : position + len(_COMMIT)] == _COMMIT:
                committed = end
            position = end
        changed = committed == size or data.find(_COMMIT, position + 1) >= 0
        return None if changed else committed


def _truncate(log: Path, size: int) -> None:
    with log.open("r+b") as file:
        file.truncate(size)
        os.fsync(file.fileno())


def prepare(database: Any, name: str, *, read_only: bool) -> None:
    """Create the tables of a new store, and refuse files of other programs.

    Raises:
        StoreVersionError: If the files are not Satchel's, or newer than this program.
    """
    with translated(name):
        connection = engine().Connection(database, num_threads=1)
        try:
            tables = {name for (name,) in connection.execute(_TABLES).get_all()}
            if not tables and not read_only:
                connection.execute("BEGIN TRANSACTION")
                for statement in statements():
                    connection.execute(statement)
                connection.execute("COMMIT")
            elif "Meta" not in tables:
                raise StoreVersionError("this is not a Satchel database", file=name)
            else:
                _refuse_newer(connection.execute(_VERSION).get_all(), name)
        finally:
            connection.close()


_TABLES = "CALL show_tables() RETURN name"
_VERSION = "MATCH (m:Meta {name: 'version'}) RETURN m.value"


def _refuse_newer(rows: list[list[Any]], name: str) -> None:
    if rows != [[VERSION]]:
        raise StoreVersionError(
            f"the store has version {rows[0][0] if rows else None},"
            f" this program reads version {VERSION}",
            file=name,
            hint="Use a newer satchel.",
        )


def _database(module: Any, path: Path, *, read_only: bool, throw: bool = True) -> Any:
    return module.Database(
        str(path),
        buffer_pool_size=_POOL_BYTES,
        max_num_threads=_THREADS,
        max_db_size=_LARGEST,
        read_only=read_only,
        # Only without readers, and only by this process.
        auto_checkpoint=False,
        throw_on_wal_replay_failure=throw,
    )


def _check_version(module: Any, path: Path, *, read_only: bool) -> None:
    """Refuse files of a newer engine; copy older ones, which the engine would convert."""
    engine_version = int(module.Database.get_storage_version())
    with suppress(FileNotFoundError), path.open("rb") as file:
        header = file.read(_HEADER)
        if not header.startswith(_MAGIC):
            return  # empty, or not the engine's: it raises the error
        version = int.from_bytes(header[len(_MAGIC) :], "little")
        if version > engine_version:
            raise StoreVersionError(
                f"the files have storage version {version}, "
                f"the installed engine writes {engine_version}",
                file=str(path.parent),
                hint="Use a newer ladybug.",
            )
        if version < engine_version:
            _refuse_older_log(path, version, engine_version)
            if not read_only:
                _copy(path, path.with_name(f"{path.stem}.storage-{version}{path.suffix}"))


def _refuse_older_log(path: Path, version: int, engine_version: int) -> None:
    """Refuse a log of an older engine: this one cannot read it, and would truncate it."""
    with suppress(FileNotFoundError):
        if path.with_name(path.name + ".wal").stat().st_size:
            release = _LAST_OF.get(version, "VERSION")
            raise StoreVersionError(
                f"the latest writes are in a log of storage version {version}, which the "
                f"installed engine ({engine_version}) cannot read; nothing was changed",
                file=str(path.parent),
                hint="Open the store once with the engine that wrote it, which applies the log:"
                f" python -m pip install ladybug=={release}, then satchel doctor, then install"
                " the newer one again.",
            )


def _quarantined(module: Any, folder: Path, path: Path) -> StoreError:
    """Copy the files aside, leave the readable part of the store, and return the error."""
    copies = next(
        candidate
        for number in range(1, 1 << 20)
        if not (candidate := folder / f"damaged-{number}").exists()
    )
    copies.mkdir(mode=0o700)
    log = path.with_name(path.name + ".wal")
    for each in (path, log):
        _copy(each, copies / each.name)
    try:
        database = _database(module, path, read_only=False, throw=False)
        connection = module.Connection(database, num_threads=1)
        connection.execute("CHECKPOINT")
        connection.close()
        database.close()
    except (RuntimeError, MemoryError) as error:
        return ours(error, str(folder))
    return StoreDamagedError(
        "the log of the store could not be read to its end, so the latest writes may be missing",
        file=str(folder),
        hint=(
            f"Both files were copied to {copies}. Run again to continue with what could be read, "
            "and verify the bank: the witness shows whether anything is missing."
        ),
    )


def _copy(source: Path, target: Path) -> None:
    """Copy a file, private and flushed to disk with its name; an existing copy is not replaced."""
    if not target.exists():
        with source.open("rb") as old, atomic_write(target, overwrite=False, mode=0o600) as new:
            shutil.copyfileobj(old, new)


_LOG_BYTES = 1 << 26
"""A longer log is written to the file when there are no readers."""

_READ, _WRITE = "BEGIN TRANSACTION READ ONLY", "BEGIN TRANSACTION"


class SharedDatabase:
    """A database that this process has open, shared by its handles.

    Args:
        folder: The folder.
        read_only: Whether it is open for reading only.
        wait: Seconds to wait for other processes, and for other threads that write.
    """

    def __init__(self, folder: Path, *, read_only: bool, wait: float) -> None:
        self.folder = folder
        self.name = str(folder)
        self.read_only = read_only
        self.users = 0
        self._wait = wait
        self._lock = ProcessLock(folder / LOCK, purpose="LadybugDB store")
        self._turn = threading.Lock()
        self._gate = threading.Condition()
        self._inside = 0
        self._shut = False
        self._idle: list[Any] = []
        self._database: Any = None
        self._file: tuple[int, int] | None = None
        """Device and number of the database's file."""
        self._begin()
        in_child(self._forget_parent)

    def _begin(self) -> None:
        if not self.read_only:
            private_folder(self.folder)
        elif not (self.folder / FILE).exists():
            raise StoreError(
                "no store at this address",
                file=self.name,
                hint="Check the address; reading creates nothing.",
            )
        engine()
        self._lock.acquire(shared=self.read_only, wait=self._wait)
        try:
            if not self.read_only:
                self._make_private()
            self._database = opened(self.folder, read_only=self.read_only)
            prepare(self._database, self.name, read_only=self.read_only)
            self._file = self._file_identity()
        except BaseException:
            self._end()
            raise

    def _make_private(self) -> None:
        """Restrict the files to their owner, new ones from the start."""
        for name in (FILE, LOG):
            if name == FILE or os.path.lexists(self.folder / name):
                os.close(open_private(self.folder / name, create=name == FILE).handle)

    @property
    def is_ours(self) -> bool:
        """Whether this process opened it, and it can be used."""
        return self._database is not None

    @contextmanager
    def reading(self) -> Iterator[Block]:
        """Open a view in which later commits are not visible."""
        with self._in_it() as connection, self._begun(connection, _READ) as block:
            yield block

    @contextmanager
    def writing(self) -> Iterator[Block]:
        """Open a write transaction, one at a time; durable after a block without an error."""
        if not self._turn.acquire(timeout=self._wait):
            raise StoreBusyError(
                "another thread is writing and did not finish in time",
                file=self.name,
                hint="Try again.",
            )
        try:
            with self._in_it() as connection, self._begun(connection, _WRITE) as block:
                yield block
            self._require_same_file()
        finally:
            self._turn.release()
        if (log := self._log()) is not None:
            if log.st_mode & 0o077:  # the engine recreates it with the umask's mode
                (self.folder / LOG).chmod(PRIVATE_FILE)
            if log.st_size > _LOG_BYTES:
                self.empty_log()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Exclude all readers and writers during a block, this thread's too.

        Raises:
            StoreBusyError: If a reader or writer does not finish in time.
        """
        if not self._turn.acquire(timeout=self._wait):
            raise self._busy()
        try:
            with self._gate:
                if not self._gate.wait_for(lambda: not self._inside, self._wait):
                    raise self._busy()
                self._close_idle()
                yield
        finally:
            self._turn.release()

    def replace(self, work: Callable[[Any], Path]) -> None:
        """Replace the file of the database.

        Args:
            work: Called with the open database; returns the new file, closed and in the same
                folder.
        """
        with self.alone():
            file = work(self._database)
            self._close_database()
            try:
                file.replace(self.folder / FILE)
                _force_names(self.folder)
            finally:
                self._database = opened(self.folder)
                self._file = self._file_identity()

    def empty_log(self) -> None:
        """Write the log to the file, unless there are readers."""
        with self._gate:
            if not self._inside and not self.read_only:
                with translated(self.name):
                    connection = self._connection()
                    connection.execute("CHECKPOINT")
                    self._idle.append(connection)

    def close(self) -> None:
        """Close the files, after the last reader or writer."""
        with self._gate:
            self._shut = True
            if not self._inside:
                self._end()

    def _end(self) -> None:
        try:
            self._close_database()
        finally:
            self._lock.release()

    def _close_database(self) -> None:
        self._close_idle()
        database, self._database = self._database, None
        if database is not None:
            with translated(self.name):
                database.close()  # empties the log and flushes the file to disk

    def _close_idle(self) -> None:
        while self._idle:
            self._idle.pop().close()

    def _connection(self) -> Any:
        return (
            self._idle.pop() if self._idle else engine().Connection(self._database, num_threads=1)
        )

    @contextmanager
    def _in_it(self) -> Iterator[Any]:
        with self._gate:
            if self._database is None:
                raise StoreError("the store is closed", file=self.name, hint="Open it again.")
            self._require_same_file()
            with translated(self.name):
                connection = self._connection()
            self._inside += 1
        process = os.getpid()
        try:
            yield connection
        finally:
            if os.getpid() == process:
                with self._gate:
                    self._inside -= 1
                    self._idle.append(connection)
                    self._gate.notify_all()
                    if self._shut and not self._inside:
                        self._end()

    @contextmanager
    def _begun(self, connection: Any, begin: str) -> Iterator[Block]:
        block, process = Block(connection, self.name), os.getpid()
        block.run(begin)
        try:
            yield block
            if os.getpid() == process and begin == _WRITE:
                block.run("COMMIT")  # fails if the engine rolled back before
        finally:
            block.over = block.over or "it has ended"  # for open results
            if os.getpid() == process:
                _take_back(connection)

    def _file_identity(self) -> tuple[int, int] | None:
        with suppress(FileNotFoundError, NotADirectoryError):
            status = (self.folder / FILE).stat(follow_symlinks=False)
            return status.st_dev, status.st_ino
        return None

    def _require_same_file(self) -> None:
        """Require the open file at its path: writes to a replaced one would be lost."""
        if self._file_identity() != self._file:
            raise StoreError(
                "the files of the store were deleted or replaced while it was in use",
                file=self.name,
                hint=(
                    "Move them back, or restore them: satchel backup restore; then restart this "
                    "program. See: satchel doctor."
                ),
            )

    def _log(self) -> os.stat_result | None:
        with suppress(FileNotFoundError):
            return (self.folder / LOG).stat(follow_symlinks=False)
        return None

    def _busy(self) -> StoreBusyError:
        return StoreBusyError(
            "another program uses the store and did not finish in time",
            file=self.name,
            hint="Try again.",
        )

    def _forget_parent(self) -> None:
        """Drop the parent's database in a child process; closing it would end the parent's."""
        for left in (self._database, *self._idle):
            if left is not None:
                ctypes.pythonapi.Py_IncRef(ctypes.py_object(left))  # never closed, nor collected
        self._database, self._idle = None, []
        self._turn, self._gate, self._inside = threading.Lock(), threading.Condition(), 0


def _take_back(connection: Any) -> None:
    with suppress(RuntimeError):  # the engine did it already
        connection.execute("ROLLBACK")


def _force_names(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


_open: dict[tuple[str, bool], SharedDatabase] = {}
_registry = threading.Lock()


def acquire_database(folder: Path, *, read_only: bool, wait: float) -> SharedDatabase:
    """Return the database in a folder, open; ``release_database`` releases it.

    Raises:
        LockedError: If another process has it open, or this one has it for reading only.
        PathRefusedError: If the folder, or a file of the store in it, is a link.
        StoreError: If it cannot be opened.
    """
    if folder.is_symlink():
        raise PathRefusedError(
            "the folder of the store is a symbolic link",
            file=str(folder),
            hint="Use the folder itself; its parents may be links.",
        )
    real = os.path.realpath(folder)
    with _registry:
        shared = _open.get((real, False)) or (_open.get((real, True)) if read_only else None)
        if shared is None:
            shared = SharedDatabase(Path(real), read_only=read_only, wait=wait)
            _open[real, read_only] = shared
        shared.users += 1
        return shared


def release_database(shared: SharedDatabase) -> None:
    """Release a database of ``acquire_database``; the last release closes it."""
    with _registry:
        shared.users -= 1
        key = (shared.name, shared.read_only)
        if shared.users == 0 and _open.get(key) is shared:
            del _open[key]
            shared.close()


def _close_all() -> None:
    while _open:
        with suppress(SatchelError):
            _open.popitem()[1].close()


def _forget() -> None:
    """Drop, in a child process, what its parent has open."""
    global _registry  # noqa: PLW0603 - there is one process
    _registry = threading.Lock()
    _open.clear()


os.register_at_fork(after_in_child=_forget)
atexit.register(_close_all)


_FILE = "graph.new.lbug"
_KEYS = 2000
_ROWS = 16
"""Rows of a batch; a row may have a mebibyte."""


class _StoreReader(LadybugStatements):
    """Everything in a store, table by table."""

    def rows(self, table: str) -> Iterator[list[dict[str, Any]]]:
        """Yield batches of the rows of a table."""
        columns = ", ".join(f"n.`{name}`" for name in NODES[table])
        cypher = f"MATCH (n:{table}) WHERE n.`{key_of(table)}` = x RETURN {columns}"
        for keys in self._keys(table):
            for start in range(0, len(keys), _ROWS):
                rows = self._in(cypher, keys[start : start + _ROWS])
                yield [dict(zip(NODES[table], row, strict=True)) for row in rows]

    def links(self, table: str) -> Iterator[list[dict[str, Any]]]:
        """Yield batches of the links in a table."""
        kind = ", l.kind" if table == EDGE else ", ''"
        cypher = (
            f"MATCH (a:Thing {{key: x}})-[l:{table}]->(b:Thing) RETURN a.key, b.key, l.place{kind}"
        )
        names = ("source", "target", "place", "kind")
        for keys in self._keys("Thing"):
            yield [dict(zip(names, row, strict=True)) for row in self._in(cypher, keys)]

    def _keys(self, table: str) -> Iterator[list[Any]]:
        key, last = key_of(table), None
        while True:
            after = "" if last is None else f"WHERE n.`{key}` > $last"
            cypher = f"MATCH (n:{table}) {after} RETURN n.`{key}` ORDER BY n.`{key}` LIMIT $most"
            values = {"most": _KEYS} if last is None else {"most": _KEYS, "last": last}
            keys = [value for (value,) in self._all(cypher, **values)]
            if not keys:
                return
            yield keys
            last = keys[-1]


class _StoreWriter(LadybugStatements):
    """A new store with empty tables."""

    def fill(self, source: _StoreReader) -> None:
        """Copy everything."""
        for table in NODES:
            for rows in source.rows(table):
                if table != "Meta":
                    self._make(table, rows)
        for table in LINK_TABLES:
            kind = ", kind: x.kind" if table == EDGE else ""
            cypher = (
                "MATCH (a:Thing {key: x.source}) MATCH (b:Thing {key: x.target})"
                f" CREATE (a)-[:{table} {{place: x.place{kind}}}]->(b)"
            )
            for links in source.links(table):
                self._many(cypher, links, ENDS)


def rewrite_database(folder: Path, database: Any) -> Path:
    """Copy a database to a new file beside it, and return that file, closed.

    Raises:
        StoreError: If it cannot be written; nothing remains of it.
    """
    name, path = str(folder), folder / _FILE
    _remove(path)
    try:
        new = opened(folder, _FILE)
        try:
            prepare(new, name, read_only=False)
            with translated(name):
                source, target = (
                    engine().Connection(each, num_threads=1) for each in (database, new)
                )
            try:
                _StoreWriter(Block(target, name)).fill(_StoreReader(Block(source, name)))
            finally:
                source.close()
                target.close()
        finally:
            with translated(name):
                new.close()
    except BaseException:
        _remove(path)
        raise
    return path


def unreadable(view: LadybugStatements) -> list[str]:
    """Return the engine's errors for tables that it cannot read."""
    store, errors = _StoreReader(view._block), list[str]()  # noqa: SLF001 - the same block
    try:
        for table in NODES:
            for _ in store.rows(table):
                pass
        for table in LINK_TABLES:
            for _ in store.links(table):
                pass
    except StoreError as error:
        errors.append(error.message)
    return errors


def _remove(path: Path) -> None:
    for each in path.parent.glob(path.name + "*"):
        with suppress(FileNotFoundError):
            each.unlink()
