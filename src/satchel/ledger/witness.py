"""The witness: what this machine saw of each bank, so that an older store is not believed.

A store's files or rows can be put back to an earlier state, each signature in order. Against
that helps only what is kept elsewhere: one append-only file of signed heads per bank, outside the
store's folder and outside its backups. The order is: commit durably, ``record``, acknowledge; so
the witness may lag behind the store and never leads it. Readers take ``cached_last`` before their
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
    changing,
    checked_head,
    checked_lines,
    compact,
    covers,
    framed,
    is_shut,
    looking,
    read_removed,
    tail_of,
    witnessed,
    write_removed,
)
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
_PREFIX = "blake3:"
_DIGITS = 16
_MOST_BYTES = 1 << 16


class Sighting(NamedTuple):
    """A bank that was seen in a store."""

    bank: str
    mark: str
    """The hash of its name; see ``mark_of``."""

    file: Path

    def name(self) -> str | None:
        """Return what the bank was called when it was seen last; None where that is not known."""
        with (
            suppress(OSError, SatchelError, ValueError),
            open_unshared(self.file, os.O_RDONLY) as handle,
        ):
            return os.read(handle, _MOST_BYTES).decode() or None
        return None


def mark_of(name: str | None) -> str:
    """Return the hash of a bank's name by which sightings are found."""
    return blake3((name or "").encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]


def sightings(folder: Path) -> Iterator[Sighting]:
    """Yield the banks that were seen in the store that a folder stands for."""
    with suppress(OSError):
        for file in sorted(folder.iterdir()):
            found = _STORES_FILE.fullmatch(file.name)
            if found is not None:
                yield Sighting(_PREFIX + found[1], found[2], file)


def note(folder: Path, bank: str, name: str | None) -> None:
    """Note that a bank is in a store, and what it is called; where nothing can be written, not."""
    digits = bank.removeprefix(_PREFIX)
    path = folder / f"{digits}-{mark_of(name)}"
    if path.exists():
        return
    with suppress(OSError, SatchelError):
        make_folders(folder)
        with atomic_write(path, mode=PRIVATE_FILE) as stream:
            stream.write((name or "").encode("utf-8", "replace"))
        for other in folder.glob(f"{digits}-*"):
            if other != path and _STORES_FILE.fullmatch(other.name):
                other.unlink(missing_ok=True)


def drop(folder: Path, bank: str) -> bool:
    """Forget that a bank was seen in a store; tell whether it was."""
    found = [one for one in sightings(folder) if one.bank == bank]
    for one in found:
        one.file.unlink(missing_ok=True)
    return bool(found)


def elsewhere(folder: Path) -> set[str]:
    """Return the banks that were seen in any other store."""
    found = set[str]()
    with suppress(OSError):
        for other in folder.parent.iterdir():
            if other != folder:
                found.update(one.bank for one in sightings(other))
    return found


_HEADS, _REMOVED, _LOCK = ".heads", ".removed", ".lock"
_COLUMNS, _FOLD = ".columns", ".fold"
_BANK = re.compile(r"blake3:([0-9a-f]{64})")
_FILE = re.compile(r"([0-9a-f]{64})\.heads")
_T = TypeVar("_T")


class WitnessOutcome(StrEnum):
    """What became of a head that was to be recorded."""

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

    Without a folder (a fresh container) nothing is known, so there is no protection against a
    rollback; on a medium that cannot be written nothing new is learnt. Neither is an error:
    what was asked for is ``None``, and ``available`` tells.

    Args:
        folder: Where the files are, one per bank, named by the bank's id; made when the first
            head is recorded. It must not be inside a store's folder.
        here: Where it is noted which banks were seen in the store at hand; see
            ``ledger.witness``. None for no store of its own.
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
        """Whether there is a witness here that can learn of new heads."""
        try:
            found = self.folder.lstat()
        except OSError:
            return False
        may = os.R_OK | os.W_OK | os.X_OK
        return stat.S_ISDIR(found.st_mode) and os.access(self.folder, may)

    def record(
        self, signed_head: dict[str, Any], *, given_up: AcceptedRollback | None = None
    ) -> WitnessOutcome | None:
        """Remember the head of a durable commit; when this returns, it is on disk.

        Commits may be acknowledged out of order, so a smaller head of the newest epoch is fine.
        That one head is a prefix of another, or that an owner decided on its epoch, has to be
        proven elsewhere (see ``epochs``).

        Args:
            signed_head: As ``sign_head`` returns it.
            given_up: What of the newest head is given up with it: the positions that were noted
                from there on are forgotten as well, unless that was done meanwhile.

        Returns:
            None when no witness can be written here: say ``unwitnessed`` to the person.

        Raises:
            MalformedError: If it is not a signed head, or its signature does not hold.
            WitnessError: If it is of an earlier epoch than the newest, another head of its epoch
                and size was recorded, or the witness is damaged.
            TargetError: If the disk is full or broken; the witness is as it was.
        """
        return self.record_believed(checked_head(signed_head), given_up=given_up)

    def record_believed(
        self, new: WitnessedHead, *, given_up: AcceptedRollback | None = None
    ) -> WitnessOutcome | None:
        """As ``record``, for a head that this program signed, or whose signature it checked.

        Checking a signature that was just made would be a quarter of what an append costs.

        Args:
            new: The head, with its canonical JSON.
            given_up: As ``record``.
        """
        line, bank = framed(new.signed), new.head.bank
        path = self._path(bank, _HEADS)
        with changing(path):
            try:
                with self._locked(bank) as folder:
                    if given_up is not None:
                        self._give_up(path, bank, given_up)
                    done = self._advance(path, folder, new, line)
                    if done is WitnessOutcome.WRITTEN:
                        # No stamp, so the file is read again; but the line is known then.
                        self._held[bank] = _LockedFile(None, line.removesuffix(b"\n"), new)
                    return done
            except (OSError, TargetError) as error:
                if not is_shut(error):
                    raise
        return self._compare(path, new)

    def last(self, bank: str) -> WitnessedHead | None:
        """Return the newest head of a bank; None when it was never witnessed here.

        Reads the last few kB of the file, however long it is.

        Raises:
            MalformedError: If ``bank`` is not an id.
            WitnessError: If the file is damaged, cannot be read, or is not a file of our own.
        """
        return self._look(bank).newest

    def cached_last(self, bank: str) -> WitnessedHead | None:
        """Return what ``last`` would, for one ``stat`` when nothing changed.

        Raises:
            MalformedError: As ``last``.
            WitnessError: As ``last``.
        """
        held = self._held.get(bank)
        if held is not None and is_unchanged(self._path(bank, _HEADS), held.stamp):
            return held.newest
        self._held[bank] = held = self._look(bank)
        return held.newest

    def heads(self, bank: str) -> list[WitnessedHead]:
        """Return all heads that are kept of a bank, oldest first, each checked.

        Raises:
            MalformedError: As ``last``.
            WitnessError: As ``last``, also for damage before the last line.
        """
        path = self._path(bank, _HEADS)

        def read() -> list[WitnessedHead]:
            with looking(path), suppress(FileNotFoundError, NotADirectoryError):
                with open_unshared(path, os.O_RDONLY) as handle:
                    lines = all_lines(handle)
                return checked_lines(lines, bank)
            return []

        return self._twice(bank, read)

    def banks(self, start: str = "") -> list[str]:
        """Return the ids of the banks that were witnessed here, also where the file is damaged.

        Args:
            start: What the ids begin with; the files of others are not opened.

        Raises:
            WitnessError: If the folder cannot be read.
        """
        found = map(_FILE.fullmatch, self._files())
        banks = sorted(f"blake3:{name[1]}" for name in found if name)
        return [bank for bank in banks if bank.startswith(start) and self.knows(bank)]

    def knows(self, bank: str) -> bool:
        """Tell whether a bank was witnessed here, also where the file is damaged.

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
        """Note that a bank that was witnessed is in the store at hand, and what it is called."""
        if self.here is not None and (bank not in self._noted or self._noted[bank] != name):
            note(self.here, bank, name)
            self._noted[bank] = name

    def seen_here(self) -> list[Sighting]:
        """Return the banks that were seen in the store at hand."""
        return [] if self.here is None else list(sightings(self.here))

    def never_placed(self) -> list[str]:
        """Return the banks of which it was never noted in which store they are.

        An earlier version noted none. Where one of them is, its last head tells whose key signed.
        """
        if self.here is None:
            return self.banks()
        placed = {one.bank for one in self.seen_here()} | elsewhere(self.here)
        return [bank for bank in self.banks() if bank not in placed]

    def forget(self, bank: str) -> bool:
        """Forget a bank in the store at hand, because a person decided so; tell whether it was.

        Its heads are forgotten too, unless another store has it: they protect that one. What was
        removed from the bank stays noted: forgetting must not bring back erased text.

        Raises:
            MalformedError: As ``last``.
            TargetError: If the system refuses.
        """
        path = self._path(bank, _HEADS)
        was_here = self.here is not None and drop(self.here, bank)
        self._noted.pop(bank, None)
        if self.here is not None and bank in elsewhere(self.here):
            return was_here
        if not os.path.lexists(path):
            return was_here
        with changing(path), self._locked(bank) as folder:
            for file in (path, self.columns_path(bank), self.fold_path(bank)):
                file.unlink(missing_ok=True)
            os.fsync(folder)
        return True

    def compact(self, bank: str) -> None:
        """Drop most of a bank's older heads if there are many; ``record`` does so by itself.

        Raises:
            MalformedError: As ``last``.
            TargetError: If the system refuses; the file is as it was.
            WitnessError: If a line is damaged; the file is as it was.
        """
        path = self._path(bank, _HEADS)
        if os.path.lexists(path):
            with changing(path), self._locked(bank):
                compact(path, bank)

    def positions(self, bank: str) -> tuple[int, ...]:
        """Return the sorted positions of redacted and erased records, for one ``stat`` as a rule.

        Raises:
            MalformedError: As ``last``.
            WitnessError: As ``last``.
        """
        path = self._path(bank, _REMOVED)

        def read() -> tuple[Stamp | None, tuple[int, ...]]:
            with looking(path), suppress(FileNotFoundError, NotADirectoryError):
                found, status = read_removed(path, bank)
                return stable_stamp(status), found
            return None, ()

        held = self._removed.get(bank)
        if held is None or not is_unchanged(path, held[0]):
            self._removed[bank] = held = self._twice(bank, read)
        return held[1]

    def note_removed(self, bank: str, positions: Iterable[int]) -> bool:
        """Add positions of redacted or erased records.

        Returns:
            False when no witness can be written here.

        Raises:
            MalformedError: As ``last``.
            TargetError: If the disk is full or broken; what was noted is as it was.
            WitnessError: If what was noted is damaged.
            ValueError: If a position is below 0.
        """
        new = set(positions)
        if min(new, default=0) < 0:
            raise ValueError("positions start at 0")
        return self._change_removed(bank, lambda held: held | new)

    def _advance(self, path: Path, folder: int, new: WitnessedHead, line: bytes) -> WitnessOutcome:
        with open_unshared(path, os.O_RDWR | os.O_CREAT, within=folder) as handle:
            newest = tail_of(handle)
            if covers(handle, newest, self._told(newest.line, new.head.bank), new):
                os.fdatasync(handle)  # who wrote it may have died before it was on disk
                return WitnessOutcome.COVERED
            if not newest.end:
                os.fchmod(handle, PRIVATE_FILE)
                os.fsync(folder)  # before the first line, so that no line lacks its file
            append(handle, newest, line)
        if newest.end // COMPACT_BYTES != (newest.end + len(line)) // COMPACT_BYTES:
            # The head is on disk; that old ones could not be dropped is no reason to say it is not.
            with suppress(OSError, SatchelError):
                compact(path, new.head.bank)
        return WitnessOutcome.WRITTEN

    def _give_up(self, path: Path, bank: str, given_up: AcceptedRollback) -> None:
        # Before the head is recorded, so that both are done again if one is cut short.
        with suppress(FileNotFoundError), open_unshared(path, os.O_RDONLY) as handle:
            newest = tail_of(handle).line
            if newest and witnessed(newest, bank).head.epoch == given_up.epoch:
                removed = self._path(bank, _REMOVED)
                _rewrite_removed(
                    removed, bank, lambda held: {seq for seq in held if seq < given_up.size}
                )

    def _compare(self, path: Path, new: WitnessedHead) -> WitnessOutcome | None:
        absent = suppress(FileNotFoundError, NotADirectoryError)
        with looking(path), absent, open_unshared(path, os.O_RDONLY) as handle:
            newest = tail_of(handle)
            last = self._told(newest.line, new.head.bank)
            return WitnessOutcome.COVERED if covers(handle, newest, last, new) else None
        return None

    def _look(self, bank: str) -> _LockedFile:
        path = self._path(bank, _HEADS)

        def read() -> _LockedFile:
            with looking(path), suppress(FileNotFoundError, NotADirectoryError):
                with open_unshared(path, os.O_RDONLY) as handle:
                    stamp = stable_stamp(os.fstat(handle))  # first: what comes later changes it
                    line = tail_of(handle).line
                return _LockedFile(stamp, line, self._told(line, bank))
            return _LockedFile(None, b"", None)

        return self._twice(bank, read)

    def _told(self, line: bytes, bank: str) -> WitnessedHead | None:
        """Return what a file's newest line says; the one that is held was checked before."""
        held = self._held.get(bank)
        if held is not None and line == held.line:
            return held.newest
        return witnessed(line, bank) if line else None

    def _twice(self, bank: str, read: Callable[[], _T]) -> _T:
        try:
            return read()
        except WitnessError:
            # Whoever reads without the lock may meet a line that is being cut or written.
            with suppress(OSError, PathRefusedError), lock_file(self._path(bank, _LOCK)):
                return read()
            raise

    def _files(self) -> list[str]:
        with looking(self.folder), suppress(FileNotFoundError, NotADirectoryError):
            return [path.name for path in self.folder.iterdir()]
        return []

    def _change_removed(self, bank: str, change: Callable[[set[int]], set[int]]) -> bool:
        path = self._path(bank, _REMOVED)
        with changing(path):
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
        """Hold a bank's lock, and give the descriptor of the folder, which is ours alone."""
        with file_errors(self.folder, writes=True):
            folder, _ = open_private_folder(self.folder, create=True)
        try:
            with lock_file(self._path(bank, _LOCK), within=folder):
                yield folder
        finally:
            os.close(folder)

    def columns_path(self, bank: str) -> Path:
        """Return the file in which ``ledger.columns`` remembers what it verified of a bank."""
        return self._path(bank, _COLUMNS)

    def fold_path(self, bank: str) -> Path:
        """Return the file in which ``ledger.fold_cache`` remembers what the log of a bank says."""
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
    held: set[int] = set()
    with suppress(FileNotFoundError):
        held.update(read_removed(path, bank)[0])
    wanted = change(held)
    if wanted != held:
        write_removed(path, bank, wanted)
