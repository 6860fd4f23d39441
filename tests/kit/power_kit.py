"""A disk that loses power: files as they were written, and as they may survive.

``Disk`` is a file system for SQLite (register it by its name) over real files in a folder. Beside
each file it keeps what was forced to disk and what was only written since. ``cut_at`` says before
which write, sync or removal the power goes; from then on nothing can be written, and ``survive``
puts into another folder what might be found there: of what was not forced, each 512-byte sector
may be there, lost or torn, files may be shorter, and names may be missing or back.

The witness writes through ``os``; ``Disk.patch`` has it do so here.
"""

import errno
import os
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import apsw
import pytest

SECTOR = 512

_numbers = count()  # no name twice: what encrypts keeps a file system of its own for each
_JOURNALS = apsw.SQLITE_OPEN_WAL | apsw.SQLITE_OPEN_MAIN_JOURNAL


@dataclass
class _File:
    """One file: its durable content, and the operations since."""

    forced: bytes = b""
    named: bool = False
    """Whether its name is durable."""

    since: list[tuple[int, bytes | None]] = field(default_factory=list)
    """Writes at an offset, and truncations (None)."""


class Disk(apsw.VFS):
    """A file system whose power can be cut.

    Args:
        folder: The folder of the real files.
        chance: Determines what survives.
    """

    def __init__(self, folder: Path, chance: random.Random) -> None:
        self.name = f"power-{next(_numbers)}"
        super().__init__(self.name, "")
        self.folder = folder
        self.steps = 0
        """Writes, syncs and removals so far."""
        self.cut_at: int | None = None
        self.room: int | None = None
        """Bytes that can still be written; None for any number."""
        self._chance = chance
        self._files: dict[str, _File] = {}
        self._gone: dict[str, _File] = {}

    @property
    def off(self) -> bool:
        """Whether the power was cut."""
        return self.cut_at is not None and self.steps >= self.cut_at

    # -- what SQLite calls -----------------------------------------------------------------

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:  # noqa: N802 - SQLite's name
        """Open a file; one without a name does not survive."""
        if name is None:
            return super().xOpen(name, flags)
        path = Path(name.filename() if isinstance(name, apsw.URIFilename) else name)
        self.known(path)
        return _Open(self, path, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: FBT001, N802 - SQLite's name
        """Delete a file."""
        self.step()
        super().xDelete(filename, syncdir)
        if (file := self._files.pop(filename, None)) is not None:
            self._gone[filename] = file
        if syncdir:
            self.force_names(Path(filename).parent)

    # -- what is kept ----------------------------------------------------------------------

    def step(self) -> None:
        """Count an operation that changes the disk.

        Raises:
            apsw.IOError: If there is no power.
        """
        if self.off:
            raise apsw.IOError("the power is off")
        self.steps += 1

    def known(self, path: Path) -> _File:
        """Return the state of a file; an existing one is durable."""
        file = self._files.get(str(path))
        if file is None:
            there = path.exists()
            file = _File(path.read_bytes() if there else b"", named=there)
            self._files[str(path)] = file
        return file

    def write(self, path: Path, place: int, data: bytes) -> None:
        """Write to a file, without a sync."""
        self.step()
        if self.room is not None:
            if len(data) > self.room:
                raise apsw.FullError("no space left")
            self.room -= len(data)
        self.known(path).since.append((place, bytes(data)))

    def truncate(self, path: Path, size: int) -> None:
        """Truncate a file, without a sync."""
        self.step()
        self.known(path).since.append((size, None))

    def sync(self, path: Path, *, names: bool = False) -> None:
        """Sync a file, and with ``names`` its folder."""
        self.step()
        file = self.known(path)
        file.forced, file.since = _applied(file.forced, file.since), []
        if names:
            self.force_names(path.parent)

    def force_names(self, folder: Path) -> None:
        """Sync the names in a folder, including files that were created otherwise."""
        for path in filter(Path.is_file, folder.iterdir()):  # folders are taken for forced
            if str(path) not in self._files:
                self._files[str(path)] = _File()
            self._files[str(path)].named = True
        for name in [name for name in self._gone if Path(name).parent == folder]:
            del self._gone[name]

    def survive(self, folder: Path) -> None:
        """Write files to a folder as they may be after the power loss."""
        chance = self._chance
        left = dict(self._files)
        for name, file in self._gone.items():
            if name not in left and file.named and chance.random() < 0.5:
                left[name] = file
        for name, file in left.items():
            if name.endswith("-shm") or (not file.named and chance.random() < 0.5):
                continue
            path = folder / Path(name).relative_to(self.folder)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(_survived(file, chance))
            path.chmod(0o600)

    # -- what the witness calls ------------------------------------------------------------

    def patch(self, patch: pytest.MonkeyPatch) -> None:
        """Redirect writes of ``os`` in the folder to this disk."""

        def instead(name: str, told: Callable[..., None], *, real: bool) -> None:
            original = getattr(os, name)

            def call(handle: int, *arguments: Any) -> Any:
                path = Path(f"/proc/self/fd/{handle}").readlink()
                if not path.is_relative_to(self.folder):
                    return original(handle, *arguments)
                with _as_os():
                    told(path, *arguments)
                return original(handle, *arguments) if real else None

            patch.setattr(os, name, call)

        def fsync(path: Path) -> None:
            if not path.is_dir():
                self.sync(path)
                return
            self.step()
            self.force_names(path)

        hear = sys.unraisablehook

        def unraisable(what: Any) -> None:
            if not self.off:  # what SQLite cannot clear up without power is no news
                hear(what)

        patch.setattr(sys, "unraisablehook", unraisable)
        instead("pwrite", lambda path, data, place: self.write(path, place, data), real=True)
        instead("ftruncate", self.truncate, real=True)
        instead("fdatasync", self.sync, real=False)
        instead("fsync", fsync, real=False)


class _Open(apsw.VFSFile):
    """An open file of a disk."""

    def __init__(self, disk: Disk, path: Path, name: Any, flags: list[int]) -> None:
        self._disk, self._path = disk, path
        self._names = bool(flags[0] & _JOURNALS)  # their first sync forces the folder as well
        super().__init__("", name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802 - SQLite's name
        """Write."""
        self._disk.write(self._path, offset, data)
        super().xWrite(data, offset)

    def xTruncate(self, newsize: int) -> None:  # noqa: N802 - SQLite's name
        """Truncate the file."""
        self._disk.truncate(self._path, newsize)
        super().xTruncate(newsize)

    def xSync(self, flags: int) -> None:  # noqa: N802 - SQLite's name
        """Sync it in the model; the real disk need not."""
        self._disk.sync(self._path, names=self._names)
        self._names = False


@contextmanager
def _as_os() -> Iterator[None]:
    try:
        yield
    except apsw.FullError as error:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)) from error
    except apsw.IOError as error:
        raise OSError(errno.EIO, os.strerror(errno.EIO)) from error


def _applied(data: bytes, steps: list[tuple[int, bytes | None]]) -> bytes:
    found = bytearray(data)
    for place, written in steps:
        _apply(found, place, written)
    return bytes(found)


def _apply(found: bytearray, place: int, written: bytes | None) -> None:
    if written is None:
        del found[place:]
        found.extend(bytes(place - len(found)))
    else:
        found.extend(bytes(max(0, place - len(found))))
        found[place : place + len(written)] = written


def _survived(file: _File, chance: random.Random) -> bytes:
    """Return one of the contents that a file may have after the power loss."""
    kept = chance.choice([0.0, 0.2, 0.5, 0.9, 1.0])  # of what was not forced
    found = bytearray(file.forced)
    for place, written in file.since:
        if written is None:
            if chance.random() < kept:
                _apply(found, place, None)
            continue
        for start, part in _sectors(place, written):
            if chance.random() < kept:
                _apply(found, start, part)
            elif chance.random() < 0.3:
                # Memory and buses move 8 bytes at least.
                torn = max(0, (start + chance.randrange(len(part) + 1)) // 8 * 8 - start)
                first = chance.random() < 0.5
                _apply(
                    found, start if first else start + torn, part[:torn] if first else part[torn:]
                )
    if file.since and len(found) > len(file.forced) and chance.random() < 0.3:
        del found[chance.randrange(len(file.forced), len(found)) :]
    return bytes(found)


def _sectors(place: int, written: bytes) -> Iterator[tuple[int, bytes]]:
    end = place + len(written)
    while place < end:
        until = min(end, (place // SECTOR + 1) * SECTOR)
        yield place, written[place - (end - len(written)) : until - (end - len(written))]
        place = until


@contextmanager
def disk_in(folder: Path, chance: random.Random) -> Iterator[Disk]:
    """Yield a new disk over a folder."""
    folder.mkdir()
    disk = Disk(folder, chance)
    try:
        yield disk
    finally:
        disk.unregister()


@contextmanager
def until_the_power_goes(disk: Disk) -> Iterator[None]:
    """Run a block that ends with any error when the power is cut.

    What fails while there is power fails here, too.
    """
    try:
        yield
    except Exception:
        if not disk.off:
            raise


def let_go(connections: list[apsw.Connection]) -> None:
    """Close what the process without power had open."""
    for connection in connections:
        with suppress(apsw.Error):
            connection.close()
