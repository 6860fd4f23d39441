"""Processes: work in a forked one, cleanup after a fork, and waits for locks of others.

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
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
