"""The witness: the heads of each bank that this machine saw, so that it detects older stores.

A store's files or rows can be replaced by an earlier state, with valid signatures. Only data stored
elsewhere detects that: one append-only file of signed heads per bank, outside the store's folder
and outside its backups. A writer commits durably, calls ``record``, then acknowledges; so the
witness may be behind the store but never ahead. Readers call ``cached_last`` before they take their
snapshot. Source: docs/spec/5-log.md, 5.6.
"""

import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from blake3 import blake3

from satchel.errors import MalformedError, PathRefusedError, SatchelError, TargetError, WitnessError
from satchel.ledger.witness_file import (
    COMPACT_BYTES,
    AcceptedRollback,
    WitnessedHead,
    all_lines,
    append,
    compact,
    covers,
    frame_line,
    is_shut,
    parse_line,
    parse_lines,
    read_errors,
    read_removed,
    read_tail,
    verify_signed_head,
    write_errors,
    write_removed,
)
from satchel.model.values import ID_PREFIX
from satchel.runtime.files import (
    PRIVATE_FILE,
    Stamp,
    atomic_write,
    file_errors,
    is_unchanged,
    stable_stamp,
)
from satchel.runtime.private_files import (
    lock_file,
    make_folders,
    open_private_folder,
    open_unshared,
)

_STORES_FILE = re.compile(r"([0-9a-f]{64})-([0-9a-f]{16})")
_DIGITS = 16
_MOST_BYTES = 1 << 16


class Sighting(NamedTuple):
    """A bank that was seen in a store."""

    bank: str
    mark: str
    """The hash of its name; see ``mark_of``."""

    file: Path

    def name(self) -> str | None:
        """Return the last known name of the bank; None if it is not known."""
        with (
            suppress(OSError, SatchelError, ValueError),
            open_unshared(self.file, os.O_RDONLY) as handle,
        ):
            return os.read(handle, _MOST_BYTES).decode() or None
        return None


def name_hash(name: str | None) -> str:
    """Return the hash of a bank's name, by which sightings are found."""
    return blake3((name or "").encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]


def sightings(folder: Path) -> Iterator[Sighting]:
    """Yield the banks that were seen in the store of a folder."""
    with suppress(OSError):
        for file in sorted(folder.iterdir()):
            found = _STORES_FILE.fullmatch(file.name)
            if found is not None:
                yield Sighting(ID_PREFIX + found[1], found[2], file)


def note_sighting(folder: Path, bank: str, name: str | None) -> None:
    """Note that a bank is in a store, and its name; nothing happens if it cannot be written."""
    digits = bank.removeprefix(ID_PREFIX)
    path = folder / f"{digits}-{name_hash(name)}"
    if path.exists():
        return
    with suppress(OSError, SatchelError):
        make_folders(folder)
        with atomic_write(path, mode=PRIVATE_FILE) as stream:
            stream.write((name or "").encode("utf-8", "replace"))
        for other in folder.glob(f"{digits}-*"):
            if other != path and _STORES_FILE.fullmatch(other.name):
                other.unlink(missing_ok=True)


def drop_sighting(folder: Path, bank: str) -> bool:
    """Forget that a bank was seen in a store, and return whether it was."""
    found = [one for one in sightings(folder) if one.bank == bank]
    for one in found:
        one.file.unlink(missing_ok=True)
    return bool(found)


def banks_elsewhere(folder: Path) -> set[str]:
    """Return the banks that were seen in other stores."""
    banks = set[str]()
    with suppress(OSError):
        for other in folder.parent.iterdir():
            if other != folder:
                banks.update(one.bank for one in sightings(other))
    return banks


_HEADS, _REMOVED, _LOCK = ".heads", ".removed", ".lock"
_COLUMNS, _FOLD = ".columns", ".fold"
_BANK = re.compile(r"blake3:([0-9a-f]{64})")
_FILE = re.compile(r"([0-9a-f]{64})\.heads")
_T = TypeVar("_T")


class WitnessOutcome(StrEnum):
    """The result of recording a head."""

    WRITTEN = "written"
    """It is the newest now, and durable."""

    COVERED = "covered"
    """It, or a later one of its epoch, was recorded before."""


class _LockedFile(NamedTuple):
    stamp: Stamp | None
    line: bytes
    newest: WitnessedHead | None


class Witness:
    """The witnessed heads of all banks of this machine.

    Without a folder (a fresh container) nothing is known, so rollbacks are not detected; on a
    read-only medium no head is recorded. Neither is an error: the methods return None, and
    ``available`` is False.

    Args:
        folder: The folder of the files, one per bank, named by its ID; created with the first head.
            It must not be inside a store's folder.
        here: The folder that notes the banks seen in the current store. None for no store.
    """

    def __init__(self, folder: Path, here: Path | None = None) -> None:
        self.folder = folder
        self.here = here
        self._noted: dict[str, str | None] = {}
        self._held: dict[str, _LockedFile] = {}
        self._paths: dict[str, Path] = {}
        self._removed: dict[str, tuple[Stamp | None, tuple[int, ...]]] = {}

    @property
    def available(self) -> bool:
        """Whether a witness exists that can record new heads."""
        try:
            status = self.folder.lstat()
        except OSError:
            return False
        may = os.R_OK | os.W_OK | os.X_OK
        return stat.S_ISDIR(status.st_mode) and os.access(self.folder, may)

    def record(
        self, signed_head: dict[str, Any], *, given_up: AcceptedRollback | None = None
    ) -> WitnessOutcome | None:
        """Record the head of a durable commit; it is on disk when this returns.

        Commits may be acknowledged out of order, so a smaller head of the newest epoch is accepted.
        That one head is a prefix of another, or that an owner decided on its epoch, must be
        verified elsewhere (see ``heads``).

        Args:
            signed_head: As ``sign_head`` returns it.
            given_up: The part of the newest head that is abandoned with it: the positions noted
                from there on are discarded as well, unless that was done before.

        Returns:
            None if no witness can be written here; report ``unwitnessed``.

        Raises:
            MalformedError: If it is not a signed head, or its signature is invalid.
            WitnessError: If its epoch is earlier than the newest, if another head of its epoch and
                size was recorded, or if the witness is damaged.
            TargetError: If the disk is full or broken; the witness is unchanged.
        """
        return self.record_verified(verify_signed_head(signed_head), given_up=given_up)

    def record_verified(
        self, new: WitnessedHead, *, given_up: AcceptedRollback | None = None
    ) -> WitnessOutcome | None:
        """As ``record``, for a head that this program signed or whose signature it verified.

        Verifying a signature that was just made would be a quarter of the cost of an append.

        Args:
            new: The head, with its canonical JSON.
            given_up: As ``record``.
        """
        line, bank = frame_line(new.signed), new.head.bank
        path = self._path(bank, _HEADS)
        with write_errors(path):
            try:
                with self._locked(bank) as folder:
                    if given_up is not None:
                        self._discard_removed(path, bank, given_up)
                    done = self._advance(path, folder, new, line)
                    if done is WitnessOutcome.WRITTEN:
                        # Without a stamp the file is read again, but its last line is known.
                        self._held[bank] = _LockedFile(None, line.removesuffix(b"\n"), new)
                    return done
            except (OSError, TargetError) as error:
                if not is_shut(error):
                    raise
        return self._compare(path, new)

    def last(self, bank: str) -> WitnessedHead | None:
        """Return the newest head of a bank; None if it was never witnessed here.

        Reads only the last few kB of the file.

        Raises:
            MalformedError: If ``bank`` is not an ID.
            WitnessError: If the file is damaged, cannot be read, or belongs to another user.
        """
        return self._read_newest(bank).newest

    def cached_last(self, bank: str) -> WitnessedHead | None:
        """Return the result of ``last``, with one ``stat`` if nothing changed.

        Raises:
            MalformedError: As ``last``.
            WitnessError: As ``last``.
        """
        cached = self._held.get(bank)
        if cached is not None and is_unchanged(self._path(bank, _HEADS), cached.stamp):
            return cached.newest
        self._held[bank] = cached = self._read_newest(bank)
        return cached.newest

    def heads(self, bank: str) -> list[WitnessedHead]:
        """Return all recorded heads of a bank, oldest first, each verified.

        Raises:
            MalformedError: As ``last``.
            WitnessError: As ``last``, also for damage before the last line.
        """
        path = self._path(bank, _HEADS)

        def read() -> list[WitnessedHead]:
            with read_errors(path), suppress(FileNotFoundError, NotADirectoryError):
                with open_unshared(path, os.O_RDONLY) as handle:
                    lines = all_lines(handle)
                return parse_lines(lines, bank)
            return []

        return self._twice(bank, read)

    def banks(self, start: str = "") -> list[str]:
        """Return the IDs of the witnessed banks, also if a file is damaged.

        Args:
            start: Prefix of the IDs; the files of others are not opened.

        Raises:
            WitnessError: If the folder cannot be read.
        """
        found = map(_FILE.fullmatch, self._files())
        banks = sorted(f"blake3:{name[1]}" for name in found if name)
        return [bank for bank in banks if bank.startswith(start) and self.knows(bank)]

    def knows(self, bank: str) -> bool:
        """Return whether a bank was witnessed here, also if its file is damaged.

        Raises:
            WitnessError: If the folder cannot be read.
        """
        if _BANK.fullmatch(bank) is None:
            return False
        try:
            return self.last(bank) is not None
        except WitnessError:
            return self._path(bank, _HEADS).name in self._files()

    def note_here(self, bank: str, name: str | None) -> None:
        """Note that a witnessed bank is in the current store, and its name."""
        if self.here is not None and (bank not in self._noted or self._noted[bank] != name):
            note_sighting(self.here, bank, name)
            self._noted[bank] = name

    def seen_here(self) -> list[Sighting]:
        """Return the banks that were seen in the current store."""
        return [] if self.here is None else list(sightings(self.here))

    def banks_without_store(self) -> list[str]:
        """Return the banks without a note of their store.

        An earlier version wrote none. The last head of a bank shows which key signed it.
        """
        if self.here is None:
            return self.banks()
        placed = {one.bank for one in self.seen_here()} | banks_elsewhere(self.here)
        return [bank for bank in self.banks() if bank not in placed]

    def forget(self, bank: str) -> bool:
        """Forget a bank in the current store, and return whether it was known.

        Its heads are removed too, unless another store has the bank: they protect that one. The
        positions of removed records stay noted: forgetting must not bring back erased text.

        Raises:
            MalformedError: As ``last``.
            TargetError: If the system refuses.
        """
        path = self._path(bank, _HEADS)
        was_here = self.here is not None and drop_sighting(self.here, bank)
        self._noted.pop(bank, None)
        if self.here is not None and bank in banks_elsewhere(self.here):
            return was_here
        if not os.path.lexists(path):
            return was_here
        with write_errors(path), self._locked(bank) as folder:
            for file in (path, self.columns_path(bank), self.fold_path(bank)):
                file.unlink(missing_ok=True)
            os.fsync(folder)
        return True

    def compact(self, bank: str) -> None:
        """Drop most of a bank's older heads if there are many; ``record`` calls it when needed.

        Raises:
            MalformedError: As ``last``.
            TargetError: If the system refuses; the file is unchanged.
            WitnessError: If a line is damaged; the file is unchanged.
        """
        path = self._path(bank, _HEADS)
        if os.path.lexists(path):
            with write_errors(path), self._locked(bank):
                compact(path, bank)

    def positions(self, bank: str) -> tuple[int, ...]:
        """Return the sorted log positions of redacted and erased records; usually costs a ``stat``.

        Raises:
            MalformedError: As ``last``.
            WitnessError: As ``last``.
        """
        path = self._path(bank, _REMOVED)

        def read() -> tuple[Stamp | None, tuple[int, ...]]:
            with read_errors(path), suppress(FileNotFoundError, NotADirectoryError):
                found, status = read_removed(path, bank)
                return stable_stamp(status), found
            return None, ()

        held = self._removed.get(bank)
        if held is None or not is_unchanged(path, held[0]):
            self._removed[bank] = held = self._twice(bank, read)
        return held[1]

    def note_removed(self, bank: str, positions: Iterable[int]) -> bool:
        """Add log positions of redacted or erased records.

        Returns:
            False if no witness can be written here.

        Raises:
            MalformedError: As ``last``.
            TargetError: If the disk is full or broken; the notes are unchanged.
            WitnessError: If the notes are damaged.
            ValueError: If a position is below 0.
        """
        new = set(positions)
        if min(new, default=0) < 0:
            raise ValueError("positions start at 0")
        return self._change_removed(bank, lambda noted: noted | new)

    def _advance(self, path: Path, folder: int, new: WitnessedHead, line: bytes) -> WitnessOutcome:
        with open_unshared(path, os.O_RDWR | os.O_CREAT, within=folder) as handle:
            newest = read_tail(handle)
            if covers(handle, newest, self._parse_newest(newest.line, new.head.bank), new):
                os.fdatasync(handle)  # its writer may have died before it was on disk
                return WitnessOutcome.COVERED
            if not newest.end:
                os.fchmod(handle, PRIVATE_FILE)
                os.fsync(folder)  # before the first line, so that no line lacks its file
            append(handle, newest, line)
        if newest.end // COMPACT_BYTES != (newest.end + len(line)) // COMPACT_BYTES:
            # The head is on disk; failing to drop old ones does not change that.
            with suppress(OSError, SatchelError):
                compact(path, new.head.bank)
        return WitnessOutcome.WRITTEN

    def _discard_removed(self, path: Path, bank: str, given_up: AcceptedRollback) -> None:
        # Before the head is recorded, so that both are repeated if one is interrupted.
        with suppress(FileNotFoundError), open_unshared(path, os.O_RDONLY) as handle:
            newest = read_tail(handle).line
            if newest and parse_line(newest, bank).head.epoch == given_up.epoch:
                removed = self._path(bank, _REMOVED)
                _rewrite_removed(
                    removed,
                    bank,
                    lambda positions: {seq for seq in positions if seq < given_up.size},
                )

    def _compare(self, path: Path, new: WitnessedHead) -> WitnessOutcome | None:
        absent = suppress(FileNotFoundError, NotADirectoryError)
        with read_errors(path), absent, open_unshared(path, os.O_RDONLY) as handle:
            newest = read_tail(handle)
            last = self._parse_newest(newest.line, new.head.bank)
            return WitnessOutcome.COVERED if covers(handle, newest, last, new) else None
        return None

    def _read_newest(self, bank: str) -> _LockedFile:
        path = self._path(bank, _HEADS)

        def read() -> _LockedFile:
            with read_errors(path), suppress(FileNotFoundError, NotADirectoryError):
                with open_unshared(path, os.O_RDONLY) as handle:
                    stamp = stable_stamp(os.fstat(handle))  # first: a later change changes it
                    line = read_tail(handle).line
                return _LockedFile(stamp, line, self._parse_newest(line, bank))
            return _LockedFile(None, b"", None)

        return self._twice(bank, read)

    def _parse_newest(self, line: bytes, bank: str) -> WitnessedHead | None:
        """Return the head in a file's newest line; the current one was verified before."""
        held = self._held.get(bank)
        if held is not None and line == held.line:
            return held.newest
        return parse_line(line, bank) if line else None

    def _twice(self, bank: str, read: Callable[[], _T]) -> _T:
        try:
            return read()
        except WitnessError:
            # A reader without the lock may meet a line that is being cut or written.
            with suppress(OSError, PathRefusedError), lock_file(self._path(bank, _LOCK)):
                return read()
            raise

    def _files(self) -> list[str]:
        with read_errors(self.folder), suppress(FileNotFoundError, NotADirectoryError):
            return [path.name for path in self.folder.iterdir()]
        return []

    def _change_removed(self, bank: str, change: Callable[[set[int]], set[int]]) -> bool:
        path = self._path(bank, _REMOVED)
        with write_errors(path):
            try:
                with self._locked(bank):
                    _rewrite_removed(path, bank, change)
            except (OSError, TargetError) as error:
                if not is_shut(error):
                    raise
                return False
        return True

    @contextmanager
    def _locked(self, bank: str) -> Iterator[int]:
        """Hold a bank's lock and yield the descriptor of the private folder."""
        with file_errors(self.folder, writes=True):
            folder, _ = open_private_folder(self.folder, create=True)
        try:
            with lock_file(self._path(bank, _LOCK), within=folder):
                yield folder
        finally:
            os.close(folder)

    def columns_path(self, bank: str) -> Path:
        """Return the file in which ``ledger.columns`` caches its digests of a bank."""
        return self._path(bank, _COLUMNS)

    def fold_path(self, bank: str) -> Path:
        """Return the file in which ``projection.FoldCache`` caches the state of a bank's log."""
        return self._path(bank, _FOLD)

    def _path(self, bank: str, suffix: str) -> Path:
        path = self._paths.get(bank + suffix)
        if path is None:
            found = _BANK.fullmatch(bank)
            if found is None:
                raise MalformedError(f"not a bank ID: {bank[:80]!r}", field="bank")
            self._paths[bank + suffix] = path = self.folder / (found[1] + suffix)
        return path


def _rewrite_removed(path: Path, bank: str, change: Callable[[set[int]], set[int]]) -> None:
    positions: set[int] = set()
    with suppress(FileNotFoundError):
        positions.update(read_removed(path, bank)[0])
    wanted = change(positions)
    if wanted != positions:
        write_removed(path, bank, wanted)
