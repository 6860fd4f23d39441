"""A file system in which a chosen operation fails, once or until it is repaired.

Register it by its name, as SQLite asks; it stands over the real one, so that what was written
before a fault is really there. The errors are those that SQLite's own file system gives.
"""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any, NamedTuple

import apsw

_CODES = {
    "open": apsw.SQLITE_CANTOPEN,
    "read": apsw.SQLITE_IOERR_READ,
    "write": apsw.SQLITE_IOERR_WRITE,
    "sync": apsw.SQLITE_IOERR_FSYNC,
    "truncate": apsw.SQLITE_IOERR_TRUNCATE,
    "size": apsw.SQLITE_IOERR_FSTAT,
    "delete": apsw.SQLITE_IOERR_DELETE,
}
ACTS = tuple(_CODES)

_numbers = count()  # no name twice: what encrypts keeps one of its own for each


class Fault(NamedTuple):
    """A failure."""

    act: str
    """One of ``ACTS``."""

    after: int
    """How many of these acts still work."""

    error: int
    """``errno.EIO`` or ``errno.ENOSPC``."""

    lasting: bool
    """Whether all later ones fail as well."""

    def __str__(self) -> str:
        lasting = "from then on" if self.lasting else "once"
        return f"{self.act} {self.after}: {errno.errorcode[self.error]}, {lasting}"


class FaultyDisk(apsw.VFS):
    """A file system with at most one fault."""

    def __init__(self) -> None:
        self.name = f"faulty-{next(_numbers)}"
        super().__init__(self.name, "")
        self.fault: Fault | None = None
        self.done = dict.fromkeys(ACTS, 0)
        """How often each act was done since the fault was set."""
        self.failed = 0
        self._said = 0

    def set(self, fault: Fault | None) -> None:
        """Set the operation that fails from now on, or none."""
        self.fault, self.failed = fault, 0
        self.done = dict.fromkeys(ACTS, 0)

    def does(self, act: str) -> None:
        """Count an act.

        Raises:
            apsw.Error: If it is to fail.
        """
        before, fault = self.done[act], self.fault
        self.done[act] = before + 1
        if fault is None or fault.act != act or before < fault.after:
            return
        if before == fault.after or fault.lasting:
            self.failed += 1
            self._said = fault.error
            full = act == "write" and fault.error == errno.ENOSPC
            raise apsw.exception_for(apsw.SQLITE_FULL if full else _CODES[act])

    def xOpen(self, name: Any, flags: list[int]) -> "_File":  # noqa: N802 - SQLite's name
        """Open a file."""
        self.does("open")
        return _File(self, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: FBT001, N802 - SQLite's name
        """Delete a file."""
        self.does("delete")
        super().xDelete(filename, syncdir)

    def xGetLastError(self) -> tuple[int, str]:  # noqa: N802 - SQLite's name
        """Return the last error of the system."""
        return self._said, os.strerror(self._said)


class _File(apsw.VFSFile):
    """An open file."""

    def __init__(self, disk: FaultyDisk, name: Any, flags: list[int]) -> None:
        self._disk = disk
        super().__init__("", name, flags)

    def xRead(self, amount: int, offset: int) -> bytes:  # noqa: N802 - SQLite's name
        self._disk.does("read")
        return super().xRead(amount, offset)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802 - SQLite's name
        self._disk.does("write")
        super().xWrite(data, offset)

    def xSync(self, flags: int) -> None:  # noqa: N802 - SQLite's name
        self._disk.does("sync")
        super().xSync(flags)

    def xTruncate(self, newsize: int) -> None:  # noqa: N802 - SQLite's name
        self._disk.does("truncate")
        super().xTruncate(newsize)

    def xFileSize(self) -> int:  # noqa: N802 - SQLite's name
        self._disk.does("size")
        return super().xFileSize()


@contextmanager
def faulty_disk() -> Iterator[FaultyDisk]:
    """Yield a new faulty file system."""
    disk = FaultyDisk()
    try:
        yield disk
    finally:
        disk.unregister()
