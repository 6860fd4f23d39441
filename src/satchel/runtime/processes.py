"""Processes: work in a forked one, cleanup after a fork, file locks, and waits for them.

A process is forked only while this one has a single thread, since a fork copies locks that other
threads may hold. Work that the other process fails at, or does not finish because it was killed, is
repeated here; its errors are not passed on. After a fork, locks that other threads of the parent
hold stay locked in the child, so objects reset theirs with ``in_child``.
"""

import fcntl
import gc
import os
import signal
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta

from satchel.errors import LockedError, SatchelError, UsageError
from satchel.model.values import format_time, resolved
from satchel.runtime.files import ModeRepair, file_errors
from satchel.runtime.private_files import open_private

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

_AHEAD = 1 << 20
"""Bytes that the other process may be ahead, so that it seldom waits."""

_GO, _END = b"\0", b"\1"


class UnfinishedError(Exception):
    """The other process ended before it was done."""


def may_fork() -> bool:
    """Return whether a process can be forked here, and is useful."""
    import multiprocessing

    return (
        threading.active_count() == 1
        and sys.platform == "linux"
        and "fork" in multiprocessing.get_all_start_methods()
        and len(os.sched_getaffinity(0)) > 1
    )


@contextmanager
def run_in_fork(frames: Callable[[], Iterable[bytes]]) -> Iterator[Iterator[memoryview]]:
    """Run work in a forked process and yield its frames, in order.

    The process is killed when the block ends. The pipe between the two limits how far it is ahead.

    Args:
        frames: The work; nothing else of this process continues there.

    Raises:
        UnfinishedError: From the iterator, if the other process fails or is killed.
    """
    import multiprocessing

    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    with suppress(OSError):  # over the user's limit; the pipe then has its default size
        fcntl.fcntl(sender.fileno(), fcntl.F_SETPIPE_SZ, _AHEAD)
    process = context.Process(target=_run, args=(receiver, sender, frames), daemon=True)
    is_frozen = gc.get_freeze_count() > 0
    try:
        gc.freeze()  # the collector would copy the memory that both share
        process.start()
        sender.close()  # so that the end of the other process is seen here
        yield _received(receiver)
    finally:
        if not is_frozen:
            gc.unfreeze()
        receiver.close()
        sender.close()
        if process.pid is not None:
            process.kill()
            process.join()
            process.close()


def _received(receiver: "Connection") -> Iterator[memoryview]:
    while True:
        try:
            frame = receiver.recv_bytes()
        except (EOFError, OSError) as error:
            raise UnfinishedError("the reader process ended early") from error
        if frame[:1] == _END:
            return
        yield memoryview(frame)[1:]


def _run(
    receiver: "Connection", sender: "Connection", frames: Callable[[], Iterable[bytes]]
) -> None:
    receiver.close()  # so that this process ends soon after its parent was killed
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends it
    gc.disable()
    with suppress(Exception):  # the parent repeats the work, and meets the same error
        for frame in frames():
            sender.send_bytes(_GO + frame)
        sender.send_bytes(_END)


_wanted: list["weakref.WeakMethod[Callable[[], Any]]"] = []


def in_child(method: Callable[[], Any]) -> None:
    """Call a method in each process forked from this one, as long as its object exists."""
    _wanted.append(weakref.WeakMethod(method, _wanted.remove))


def _call_all() -> None:
    for each in tuple(_wanted):
        method = each()
        if method is not None:
            method()


os.register_at_fork(after_in_child=_call_all)


OnWait = Callable[[str, float], None]
"""Called repeatedly during a wait, with what is waited for and the seconds so far."""

_PAUSES = (0.001, 0.002, 0.005, 0.01, 0.015, 0.02, 0.025, 0.025, 0.025, 0.05, 0.05, 0.1)
"""Seconds, the same as SQLite's."""

_ASKED_EVERY = 0.5
"""Seconds after which the holder is looked up again."""

_SHOWN = 60
"""Maximum characters of a command."""

_LOG_LOCKS = range(120, 128)
"""Bytes of a log's index (``-shm``) that SQLite locks; the first is the writer's."""


_watcher: OnWait | None = None


@contextmanager
def watched(watcher: OnWait) -> Iterator[None]:
    """Call a watcher for every wait of this process in the block."""
    global _watcher  # noqa: PLW0603 - one watcher per process
    before, _watcher = _watcher, watcher
    try:
        yield
    finally:
        _watcher = before


def is_watched() -> bool:
    """Return whether waits are watched."""
    return _watcher is not None


class Wait:
    """One wait for a lock.

    Args:
        what: Name of the locked resource.
        patience: Seconds until the wait ends.
        holder: Returns the holder of the lock, if it is another living process.
    """

    def __init__(self, resource: str, patience: float, holder: Callable[[], str | None]) -> None:
        self._what = resource
        self._holder_now = holder
        self._began = time.monotonic()
        self._end = self._began + patience
        self._pauses = 0
        self._asked_at = 0.0
        self._holder: str | None = None

    def goes_on(self) -> bool:
        """Pause for a moment and return whether to try again."""
        now = time.monotonic()
        if _watcher is not None and self._pauses >= len(_PAUSES):
            if now - self._asked_at >= _ASKED_EVERY:
                self._holder, self._asked_at = self._holder_now(), now
            holder = self._holder or "another program"
            _watcher(f"{self._what}, held by {holder}", now - self._began)
        left = self._end - now
        if left <= 0 and (_watcher is None or self._holder is None):
            return False
        pause = _PAUSES[min(self._pauses, len(_PAUSES) - 1)]
        time.sleep(pause if left <= 0 else min(pause, left))
        self._pauses += 1
        return True


class BusyHandler:
    """Called by SQLite while another connection locks a database.

    Args:
        path: The database.
        busy_ms: Milliseconds until the wait ends.
    """

    def __init__(self, path: Path, busy_ms: int) -> None:
        self._path = path
        self._busy_ms = busy_ms
        self._wait: Wait | None = None

    def __call__(self, before: int) -> bool:
        """Wait for a moment and return whether to try again."""
        if before == 0 or self._wait is None:
            path = self._path
            self._wait = Wait(
                path.name, self._busy_ms / 1000, lambda: describe_process(database_holder(path))
            )
        return self._wait.goes_on()


def describe_process(pid: int | None) -> str | None:
    """Return a process with its command if it is this user's; None for no process."""
    if pid is None:
        return None
    name = f"process {pid}"
    folder = Path(f"/proc/{pid}")
    try:
        if folder.stat().st_uid != os.geteuid():
            return name
        words = (folder / "cmdline").read_bytes().rstrip(b"\0").decode(errors="replace").split("\0")
    except OSError:
        return name
    command = _command(words)
    if not command:
        return name
    shown = "".join(sign if sign.isprintable() else "?" for sign in command)
    return f"{name} ({shown if len(shown) <= _SHOWN else shown[: _SHOWN - 1] + '…'})"


def _command(words: list[str]) -> str:
    """Return a command as typed: without the interpreter, and without its folder."""
    at = next((at for at, word in enumerate(words) if Path(word).name == "satchel"), 0)
    return " ".join([Path(words[at]).name, *words[at + 1 :]]).strip()


def database_holder(path: Path) -> int | None:
    """Return the process that writes a database, or else one that reads it, if the system lists it.

    It uses the locks that Linux lists (proc(5)) and opens no file, since closing it would drop this
    process's own locks on it.
    """
    index = path.with_name(f"{path.name}-shm")
    found = _locks(index, _LOG_LOCKS) or _locks(path, None)
    return next((pid for is_write, pid in sorted(found, reverse=True)), None)


def _locks(path: Path, locked: range | None) -> list[tuple[bool, int]]:
    """Return the holders of locks on a file: whether each writes, and its process.

    Args:
        path: The file.
        locked: The relevant bytes; None for writers' locks on any byte.
    """
    result = list[tuple[bool, int]]()
    try:
        inode = path.stat().st_ino
        lines = Path("/proc/locks").read_text(encoding="ascii").splitlines()
    except (OSError, UnicodeDecodeError):
        return result
    for line in lines:
        fields = line.split()
        if len(fields) != 8 or fields[5].rpartition(":")[2] != str(inode):  # noqa: PLR2004
            continue  # a waiting one has another field
        is_write, pid, first = fields[3] == "WRITE", int(fields[4]), int(fields[6])
        if pid <= 0 or pid == os.getpid():
            continue
        if (locked is None and is_write) or (locked is not None and first in locked):
            result.append((is_write, pid))
    return result


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
                ``Wait``.

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
