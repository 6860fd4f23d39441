"""One database object for a place in a process, whoever opens it, and one process for a place.

A second object on the same files would cut the log that the first one writes: measured, 51
acknowledged records became 2. So handles share what is open by the real path of its folder, and
other processes are kept out by a lock that names its holder.
"""

import atexit
import ctypes
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from satchel.disk.forks import in_child
from satchel.disk.locks import ProcessLock
from satchel.disk.private import open_private, private_folder
from satchel.disk.writing import PRIVATE_FILE
from satchel.errors import PathRefusedError, SatchelError, StoreBusyError, StoreError
from satchel.stores.ladybug.errors import translated
from satchel.stores.ladybug.files.opening import FILE, LOCK, LOG, engine, opened, prepare
from satchel.stores.ladybug.statements import Block

_LOG_BYTES = 1 << 26
"""A log that is longer goes into the file, as soon as nobody reads."""

_READ, _WRITE = "BEGIN TRANSACTION READ ONLY", "BEGIN TRANSACTION"


class Shared:
    """What a process has open at one place.

    Args:
        folder: The place.
        read_only: Whether nothing is going to be written.
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
            self._file = self._found()
        except BaseException:
            self._end()
            raise

    def _make_private(self) -> None:
        """See to it that the files are the owner's alone, a new one from the start."""
        for name in (FILE, LOG):
            if name == FILE or os.path.lexists(self.folder / name):
                os.close(open_private(self.folder / name, create=name == FILE).handle)

    @property
    def is_ours(self) -> bool:
        """Whether it was opened by this process, and can be used."""
        return self._database is not None

    @contextmanager
    def reading(self) -> Iterator[Block]:
        """Give a view that nothing of what is committed meanwhile is seen in."""
        with self._in_it() as connection, self._begun(connection, _READ) as block:
            yield block

    @contextmanager
    def writing(self) -> Iterator[Block]:
        """Give the right to write, to one at a time; durable when the block has ended well."""
        if not self._turn.acquire(timeout=self._wait):
            raise StoreBusyError(
                "another thread is writing and did not finish in time",
                file=self.name,
                hint="Try again.",
            )
        try:
            with self._in_it() as connection, self._begun(connection, _WRITE) as block:
                yield block
            self._require_there()
        finally:
            self._turn.release()
        if (log := self._log()) is not None:
            if log.st_mode & 0o077:  # the engine makes it anew, as the umask says
                (self.folder / LOG).chmod(PRIVATE_FILE)
            if log.st_size > _LOG_BYTES:
                self.empty_log()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Have nobody read or write in a block, this thread neither.

        Raises:
            StoreBusyError: If somebody does and does not end in time.
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
        """Put another file in the place of the database.

        Args:
            work: Is given the open database and returns the file, closed and in the same folder.
        """
        with self.alone():
            file = work(self._database)
            self._close_database()
            try:
                file.replace(self.folder / FILE)
                _force_names(self.folder)
            finally:
                self._database = opened(self.folder)
                self._file = self._found()

    def empty_log(self) -> None:
        """Write what is in the log into the file, unless somebody reads just now."""
        with self._gate:
            if not self._inside and not self.read_only:
                with translated(self.name):
                    connection = self._connection()
                    connection.execute("CHECKPOINT")
                    self._idle.append(connection)

    def close(self) -> None:
        """Close the files; whoever is still inside is waited for."""
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
                database.close()  # empties the log and forces the file to disk

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
            self._require_there()
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
                block.run("COMMIT")  # refused where the engine took it back before
        finally:
            block.over = block.over or "it has ended"  # for what is still being listed
            if os.getpid() == process:
                _take_back(connection)

    def _found(self) -> tuple[int, int] | None:
        with suppress(FileNotFoundError, NotADirectoryError):
            there = (self.folder / FILE).stat(follow_symlinks=False)
            return there.st_dev, there.st_ino
        return None

    def _require_there(self) -> None:
        """Require the file that was opened: what the engine writes to another one is lost."""
        if self._found() != self._file:
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
        """Let go, in a child, of what its parent has open: ending it here would end that."""
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


_open: dict[tuple[str, bool], Shared] = {}
_registry = threading.Lock()


def share(folder: Path, *, read_only: bool, wait: float) -> Shared:
    """Return what this process has open at a place, opened where it is not; ``leave`` gives it up.

    Raises:
        LockedError: If another process has it, or this one for reading only.
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
        found = _open.get((real, False)) or (_open.get((real, True)) if read_only else None)
        if found is None:
            found = Shared(Path(real), read_only=read_only, wait=wait)
            _open[real, read_only] = found
        found.users += 1
        return found


def leave(shared: Shared) -> None:
    """Give up what ``share`` returned; the last one closes it."""
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
    """Forget, in a child, what its parent has open."""
    global _registry  # noqa: PLW0603 - there is one process
    _registry = threading.Lock()
    _open.clear()


os.register_at_fork(after_in_child=_forget)
atexit.register(_close_all)
