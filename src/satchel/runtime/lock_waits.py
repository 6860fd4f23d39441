"""Waits for a lock: its holder, and the progress to show."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

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
