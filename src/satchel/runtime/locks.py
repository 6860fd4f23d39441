"""Locks between processes that name their holder.

The system holds the lock (``flock`` on a file that is never deleted) and drops it when its holder
ends, however it ends, so no lock is ever stale. The text in the file is for people: it is shown if
its process is alive, and decides nothing.
"""

import fcntl
import os
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from satchel.errors import LockedError, SatchelError, UsageError
from satchel.model.values import format_time, resolved
from satchel.runtime.files import ModeRepair, file_errors
from satchel.runtime.private_files import open_private
from satchel.runtime.processes import Wait, describe_process

_LONGEST_LINE = 4096
_FIRST_PAUSE = 0.001
_WRITING_A_NAME = 10
"""Pauses for a new holder that has not written its name yet."""


class LockHolder(msgspec.Struct, frozen=True, kw_only=True):
    """The holder of a lock, as one line of JSON in the lock file."""

    pid: Annotated[int, Meta(ge=1, le=2**31 - 1)]
    host: Annotated[str, Meta(max_length=255)]
    started: str
    """Start time of the program, in UTC; exact to the system's clock tick if available."""

    ticks: int | None = None
    """The same in clock ticks since the system's start: distinguishes a later process with this
    PID.
    """

    purpose: Annotated[str, Meta(max_length=200)] = ""

    def __str__(self) -> str:
        purpose = f", {self.purpose}" if self.purpose else ""
        text = f"process {self.pid} on {self.host} (running since {self.started}{purpose})"
        return "".join(sign if sign.isprintable() else "?" for sign in text)


class ProcessLock:
    """A lock that processes share by the name of a file.

    It excludes other processes, and other ``ProcessLock`` objects of this process too: create one
    object for a path. The threads of the process share the lock of the object: each ``acquire`` is
    matched by a ``release``, and the last one frees the lock. So it is reentrant, but does not
    exclude threads from each other.

    There is no queue: a process that waits for the exclusive lock may wait long while others share
    it.

    A child made by ``fork`` does not have its parent's lock and cannot free it.

    Args:
        path: The lock file; created with mode 0600. Never delete it: a process that waits for the
            deleted file and one that creates a new one would not exclude each other.
        purpose: Its purpose, in a few words for a person.
        own_folder: See ``private_files.open_private``.
    """

    def __init__(self, path: Path, *, purpose: str = "", own_folder: bool = True) -> None:
        self.path = path
        self.purpose = purpose
        self.repairs: list[ModeRepair] = []
        """The modes that were corrected when the file was opened."""
        self._own_folder = own_folder
        self._handle: int | None = None
        self._shared = False
        self._count = 0
        self._pid = os.getpid()
        _all.add(self)

    @property
    def held(self) -> bool:
        """Whether this process holds the lock through this object."""
        return self._handle is not None and self._pid == os.getpid()

    def acquire(self, *, shared: bool = False, wait: float = 0.0) -> None:
        """Acquire the lock.

        Args:
            shared: Share it with others; otherwise exclusively. A holder of the exclusive lock may
                also acquire it shared.
            wait: Seconds to wait; ``math.inf`` for no limit. A watched wait is longer; see
                ``processes.Wait``.

        Raises:
            LockedError: If another process holds it; names the process and says what to do.
            UsageError: If this object shares it and the exclusive lock is requested: another that
                shares it could do the same, and both would wait forever.
            PathRefusedError: If the path is a link, or not a file of this user.
            TargetError: If the lock file cannot be created, or the file system has no locks.
        """
        waiting = Wait(self.path.name, wait, self._other) if wait > 0 else None
        while not self._try(shared=shared):
            if waiting is None or not waiting.goes_on():
                raise self._locked()

    def release(self) -> None:
        """Undo one ``acquire``; does nothing if the lock is not held."""
        self._leave_parents()
        with _threads:
            if self._handle is None:
                return
            self._count -= 1
            if self._count == 0:
                handle, self._handle = self._handle, None
                try:
                    if not self._shared:
                        with suppress(OSError):  # the text is only for people
                            os.ftruncate(handle, 0)
                    # Not by closing alone: a process that is just being started may have it open.
                    fcntl.flock(handle, fcntl.LOCK_UN)
                finally:
                    os.close(handle)

    @contextmanager
    def exclusive(self, *, wait: float = 0.0) -> Iterator[None]:
        """Hold it exclusively during the block; see ``acquire``."""
        with self._holding(shared=False, wait=wait):
            yield

    @contextmanager
    def shared(self, *, wait: float = 0.0) -> Iterator[None]:
        """Share it during the block; see ``acquire``."""
        with self._holding(shared=True, wait=wait):
            yield

    def holder(self) -> LockHolder | None:
        """Return the exclusive holder according to the file; for people, not for decisions.

        None if the file names nobody, or a process of this host that has ended.
        """
        try:
            with file_errors(self.path, writes=False):
                opened = open_private(self.path, os.O_RDONLY, own_folder=self._own_folder)
                try:
                    text = os.read(opened.handle, _LONGEST_LINE)
                finally:
                    os.close(opened.handle)
            holder = msgspec.json.decode(text.partition(b"\n")[0], type=resolved(LockHolder))
        except (SatchelError, msgspec.MsgspecError, UnicodeDecodeError):
            return None
        return holder if _may_live(holder) else None

    def _other(self) -> str | None:
        """Return the holder, if it is another process."""
        holder = self.holder()
        if holder is None or (holder.pid, holder.host) == (os.getpid(), _host()):
            return None
        return describe_process(holder.pid) if holder.host == _host() else str(holder)

    @contextmanager
    def _holding(self, *, shared: bool, wait: float) -> Iterator[None]:
        self.acquire(shared=shared, wait=wait)
        pid = os.getpid()
        try:
            yield
        finally:
            if os.getpid() == pid:  # a child that leaves its parent's block releases nothing
                self.release()

    def _try(self, *, shared: bool) -> bool:
        self._leave_parents()
        with _threads:
            if self._handle is not None:
                if self._shared and not shared:
                    raise UsageError(
                        "this lock is held shared and requested exclusively",
                        file=str(self.path),
                        hint="Release it first.",
                    )
                self._count += 1
                return True
            handle = self._locked_handle(fcntl.LOCK_SH if shared else fcntl.LOCK_EX)
            if handle is None:
                return False
            self._handle, self._shared, self._count = handle, shared, 1
            return True

    def _locked_handle(self, how: int) -> int | None:
        """Return a descriptor of the lock file with the lock, or None if another process has it."""
        while True:
            opened = open_private(self.path, create=True, own_folder=self._own_folder)
            self.repairs += opened.repairs
            try:
                with file_errors(self.path, writes=True):
                    acquired = _flock(opened.handle, how)
                    if acquired and self._is_at_path(opened.handle):
                        self._sign(opened.handle, alone=how == fcntl.LOCK_EX)
                        return opened.handle
            except BaseException:
                os.close(opened.handle)
                raise
            os.close(opened.handle)
            if not acquired:
                return None
            # The file was deleted between opening and locking it: lock the current one.

    def _is_at_path(self, handle: int) -> bool:
        """Return whether the locked file is the one that others would lock."""
        try:
            return os.path.samestat(os.fstat(handle), self.path.lstat())
        except FileNotFoundError:
            return False

    def _sign(self, handle: int, *, alone: bool) -> None:
        """Write the holder; an existing text is from a killed process."""
        os.ftruncate(handle, 0)
        if alone:
            # A full disk must not prevent the work that the lock is for.
            with suppress(OSError):
                os.pwrite(handle, msgspec.json.encode(_myself(self.purpose)) + b"\n", 0)

    def _locked(self) -> LockedError:
        for _ in range(_WRITING_A_NAME):
            holder = self.holder()
            if holder is not None:
                break
            time.sleep(_FIRST_PAUSE)
        else:
            return LockedError(
                "another process is using this; it left no name, so it may be reading",
                file=str(self.path),
                hint="Wait until it has finished, or close other programs that use it.",
            )
        if (holder.pid, holder.host) == (os.getpid(), _host()):
            hint = (
                "This process itself holds the lock: use that lock, or wait until it is released."
            )
        elif holder.host == _host():
            hint = f"Wait until it has finished, or end it: kill {holder.pid}."
        else:
            hint = f"Wait until it has finished, or end it on {holder.host}."
        return LockedError(f"in use by {holder}", file=str(self.path), hint=hint)

    def _leave_parents(self) -> None:
        """Drop the parent's lock if this is a forked child that was not notified."""
        if self._pid != os.getpid():
            self._forget()

    def _forget(self) -> None:
        handle, self._handle = self._handle, None
        self._count, self._pid = 0, os.getpid()
        if handle is not None:
            with suppress(OSError):  # closed, not unlocked: unlocking would unlock the parent's
                os.close(handle)


_all: weakref.WeakSet[ProcessLock] = weakref.WeakSet()

_threads = threading.RLock()
"""Held while a lock changes hands, and during a fork: a child then knows every descriptor."""


def _forget_in_child() -> None:
    # A descriptor left open in a child would hold the lock after the parent is killed.
    for lock in list(_all):
        lock._forget()  # noqa: SLF001 - the same module
    _threads.release()


os.register_at_fork(
    before=_threads.acquire,
    after_in_parent=_threads.release,
    after_in_child=_forget_in_child,
)


def _flock(handle: int, how: int) -> bool:
    try:
        fcntl.flock(handle, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _host() -> str:
    return os.uname().nodename


def _myself(purpose: str) -> LockHolder:
    ticks = _start_ticks(os.getpid())
    started = _imported
    if ticks is not None:
        age = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
        started = time.time() - age
    return LockHolder(
        pid=os.getpid(),
        host=_host()[:255],
        started=format_time(datetime.fromtimestamp(started, UTC)),
        ticks=ticks,
        purpose=purpose[:200],
    )


_imported = time.time()


def _start_ticks(pid: int) -> int | None:
    """Return the start of a process in clock ticks, if the system tells (Linux, proc(5))."""
    try:
        # The second field is the program's name in parentheses and may contain anything.
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        return int(fields[19])
    except (OSError, ValueError, IndexError):
        return None


def _may_live(holder: LockHolder) -> bool:
    """Return whether the process is alive, or on a host that cannot be asked."""
    if holder.host != _host():
        return True
    try:
        os.kill(holder.pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # another user's, and alive
    return holder.ticks is None or _start_ticks(holder.pid) in {None, holder.ticks}
