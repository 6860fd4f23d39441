"""Killed and failed backups, prunes and restores; power cuts and full disks.

Afterwards the newest verified backup, or a newer one, is complete, and the store is in its old or
its new state. At a power cut the simulated disk keeps what was forced to it, and any part of the
rest; an object of the destination is complete or missing, except for the one being written.
"""

from __future__ import annotations

import gc
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import apsw
import pytest
from backup_kit import (
    Machine,
    added,
    backed,
    backed_up,
    files_in,
    own_bank,
    require_good,
    restored,
    sound,
)
from ledger_kit import noting
from power_kit import Disk, disk_in, until_the_power_goes

from satchel.backup import storage
from satchel.backup.prune import prune_backups
from satchel.backup.run import run_backup
from satchel.backup.storage import FolderStorage
from satchel.bank.machine_keys import create_identity
from satchel.config.settings import Settings, load_settings
from satchel.errors import SatchelError, TargetError
from satchel.stores.sqlite import store as sqlite_store

if TYPE_CHECKING:
    from collections.abc import Callable


_SEED = 20261122
_KILLS = int(os.environ.get("SATCHEL_KILLS", "70"))
"""The number of backups and of prunes that are killed; half of them encrypted."""
_RESTORES = max(200, _KILLS)
"""The number of restores that are killed; half of them encrypted."""


class PowerCut(BaseException):
    """The machine is off; nobody handles this."""


class FailingStorage(FolderStorage):
    """A folder in which an act fails: the disk is full, or the power is cut before or after it.

    A power cut may leave a partial temporary file beside its target, and may undo a removal that
    was not forced to the disk.
    """

    acts = 0
    fails_at: int | None = None
    how = "full"
    chance = random.Random(_SEED)  # noqa: S311 - no secret

    def put(self, name: str, data: bytes) -> None:
        """Write, or fail."""
        if self._fails():
            if self.how == "full":
                raise TargetError("cannot write: no space left", file=name)
            if self.chance.random() < 0.5:
                super().put(name, data)
            else:
                part = data[: self.chance.randrange(len(data) + 1)]
                above, _, last = name.rpartition("/")
                super().put(f"{above}/.{last[:40]}.0011223344556677.tmp", part)
            raise PowerCut
        super().put(name, data)

    def remove(self, name: str) -> None:
        """Remove, or fail."""
        if self._fails():
            if self.how == "full":
                raise TargetError("cannot remove: input/output error", file=name)
            if self.chance.random() < 0.5:
                super().remove(name)
            raise PowerCut
        super().remove(name)

    def _fails(self) -> bool:
        cls = type(self)
        cls.acts += 1
        if cls.how == "power" and cls.fails_at is not None and cls.acts > cls.fails_at:
            raise PowerCut
        return cls.acts == cls.fails_at


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[FailingStorage]]:
    """A destination that fails on request."""
    monkeypatch.setattr(storage, "FolderStorage", FailingStorage)
    FailingStorage.acts, FailingStorage.fails_at, FailingStorage.how = 0, None, "full"
    yield FailingStorage
    FailingStorage.fails_at = None


def count_acts(failing: type[FailingStorage], work: Callable[[], object]) -> int:
    """Return how many writes and removals a function makes."""
    failing.acts, failing.fails_at = 0, None
    work()
    return failing.acts


@contextmanager
def fail_at(failing: type[FailingStorage], at: int, how: str) -> Iterator[None]:
    """Make one act in the block fail, and suppress its error."""
    failing.acts, failing.fails_at, failing.how = 0, at, how
    try:
        with suppress(SatchelError, PowerCut):
            yield
    finally:
        failing.fails_at = None


@pytest.mark.parametrize("how", ["full", "power"])
def test_a_failed_backup_leaves_the_previous_one(
    here: Settings,
    where: str,
    tmp_path: Path,
    failing: type[FailingStorage],
    monkeypatch: pytest.MonkeyPatch,
    how: str,
) -> None:
    """At any write, encrypted or not. The next run succeeds and leaves no temporary files."""
    if how == "power":
        create_identity(here, "mine")
        monkeypatch.setenv("SATCHEL_BACKUP_ENCRYPT_TO", "mine")
        here = load_settings(store=here.store)
    first = backed(here, where)
    added(here, own_bank(here), 3)
    shutil.copytree(where, tmp_path / "before")
    acts = count_acts(failing, lambda: run_backup(here, destinations=(where,)))
    assert acts > 3
    for at in range(1, acts + 1):
        with noting(f"act {at} of {acts}, {how}"):
            shutil.rmtree(where)
            shutil.copytree(tmp_path / "before", where)
            with fail_at(failing, at, how):
                run = run_backup(here, destinations=(where,))
                assert run.exit_status  # a full disk is reported
            assert first.id in sound(where, here)
    assert backed(here, where).verified
    prune_backups(here, destinations=where, days=0, keep_last=1)
    assert len(sound(where, here)) == 1
    assert not [name for name in files_in(where) if name.endswith(".tmp")]


@pytest.mark.parametrize("how", ["full", "power"])
def test_a_failed_prune_leaves_the_newest_backup(
    here: Settings, where: str, tmp_path: Path, failing: type[FailingStorage], how: str
) -> None:
    """At any removal. The next prune completes it."""
    last = ""
    for number in range(3):
        added(here, own_bank(here), 2, 1000 * number + 1000)
        last = backed(here, where).id or ""
    shutil.copytree(where, tmp_path / "before")

    def work() -> object:
        return prune_backups(here, destinations=where, days=0, keep_last=1)

    acts = count_acts(failing, work)
    left = files_in(where)
    assert acts > 4
    for at in range(1, acts + 1):
        with noting(f"act {at} of {acts}, {how}"):
            shutil.rmtree(where)
            shutil.copytree(tmp_path / "before", where)
            with fail_at(failing, at, how):
                work()
            assert sound(where)[-1] == last
            work()
            assert files_in(where).keys() == left.keys()


_PROGRAM = """
import sys
import satchel

print("begun", flush=True)
what, where, store = sys.argv[1:]
backups = satchel.Backups(store=store)
if what == "run":
    backups.run(destinations=[where])
elif what == "prune":
    backups.prune(destinations=where, days=0, keep_last=1)
else:
    backups.restore(destination=where, overwrite=True)
print("done", flush=True)
"""


def run_killed(machine: Machine, what: str, delay: float) -> bool:
    """Start a program and kill it some time after it has started; return whether it was done."""
    words = [sys.executable, "-c", _PROGRAM, what, machine.backups, machine.store]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **machine.environment}
    with subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        with suppress(subprocess.TimeoutExpired):
            process.wait(delay)
        process.kill()
        return "done" in process.communicate()[0]


@pytest.mark.prove
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("encrypted", [False, True], ids=["plain", "encrypted"])
@pytest.mark.parametrize("what", ["run", "prune", "restore"])
def test_a_killed_program_leaves_the_last_backup_and_the_store_complete(
    store_folder: Path, tmp_path: Path, what: str, *, encrypted: bool
) -> None:
    """At random moments of a backup, a prune and a restore."""
    draw = random.Random(f"{_SEED} {what} {encrypted}")  # noqa: S311 - no secret
    machine, last = backed_up(store_folder, tmp_path / "machine", encrypted=encrypted)
    image, was = tmp_path / "image", machine.remembered
    machine.kept_in(image)
    began = time.monotonic()
    assert run_killed(machine, what, 300)
    whole = time.monotonic() - began
    states, done = [was, machine.remembered], 0
    kills = (_RESTORES if what == "restore" else _KILLS) // 2
    for number in range(kills):
        delay = draw.uniform(0.0, whole)
        with noting(f"seed {_SEED}, {what} number {number}, killed after {delay:.3f} s"):
            machine.put_back(image)
            done += run_killed(machine, what, delay)
            require_good(machine, last, states, restores=number % 5 == 0)
    assert done < kills


# -- power cuts and full disks -----------------------------------------------------------


_POWER_SEED = 20261123
WORKS: dict[str, Callable[[Machine], object]] = {
    "run": lambda one: backed(one.settings, one.backups),
    "prune": lambda one: prune_backups(one.settings, destinations=one.backups, days=0, keep_last=1),
    "restore": lambda one: restored(one.settings, one.backups, overwrite=True, files=False),
}


class PoweredStorage(FolderStorage):
    """A folder on the disk whose power can be cut."""

    disk: ClassVar[Disk | None] = None
    chance: ClassVar[random.Random]
    was_off: ClassVar[bool]

    def put(self, name: str, data: bytes) -> None:
        """Write an object; at a power cut it may be missing, partial or complete."""
        if self._has_power(name, len(data)):
            super().put(name, data)
            return
        above, _, last = name.rpartition("/")
        part = data[: self.chance.randrange(len(data) + 1)]
        in_flight = self.chance.random() < 0.5
        place = name if in_flight else f"{above}/.{last[:40]}.0011223344556677.tmp"
        super().put(place, data if in_flight else part)
        raise TargetError("the power is off", file=name)

    def remove(self, name: str) -> None:
        """Remove an object; at a power cut perhaps not."""
        if self._has_power(name, 0):
            super().remove(name)
            return
        if self.chance.random() < 0.5:
            super().remove(name)
        raise TargetError("the power is off", file=name)

    def _has_power(self, name: str, size: int) -> bool:
        """Count an act; return False at the one of the power cut."""
        cls, disk = type(self), self.disk
        if disk is None:
            return True
        if disk.room is not None and size > disk.room:
            raise TargetError("cannot write: no space left on device", file=name)
        disk.room = None if disk.room is None else disk.room - size
        try:
            disk.step()
        except apsw.IOError:
            first, cls.was_off = not cls.was_off, True
            if not first:
                raise TargetError("the power is off", file=name) from None
            return False
        return True


def patch_disk(patch: pytest.MonkeyPatch, disk: Disk) -> None:
    """Use the simulated disk for the stores and destinations of a folder."""
    disk.patch(patch)
    patch.setattr(storage, "FolderStorage", PoweredStorage)
    PoweredStorage.disk, PoweredStorage.was_off = disk, False

    def instead(name: str) -> None:
        real = getattr(sqlite_store, name)

        def opened(path: Path, **asked: Any) -> Any:
            if Path(path).is_relative_to(disk.folder):
                asked["vfs"] = disk.name
            return real(path, **asked)

        patch.setattr(sqlite_store, name, opened)

    instead("open_for_reading")
    instead("open_for_writing")


def run_cut(
    machine: Machine, what: str, chance: random.Random, cut: tuple[str, int] | None
) -> tuple[int, int]:
    """Run an operation until the power is cut, the disk is full, or it is done.

    Afterwards the machine has what the disk kept.

    Returns:
        The number of steps and of bytes written.
    """
    held = machine.folder / "held"
    machine.disk.rename(held)
    with disk_in(machine.disk, chance) as disk, pytest.MonkeyPatch.context() as patch:
        shutil.copytree(held, machine.disk, dirs_exist_ok=True)
        patch_disk(patch, disk)
        PoweredStorage.chance = chance
        disk.room = room = 1 << 40
        if cut is not None and cut[0] == "power":
            disk.cut_at = cut[1]
        elif cut is not None:
            disk.room = cut[1]
        try:
            with until_the_power_goes(disk):
                WORKS[what](machine)
        except (SatchelError, AssertionError):
            assert cut is not None
            assert cut[0] == "full"
        finally:
            PoweredStorage.disk = None
            gc.collect()  # close connections of the interrupted run here
        written = room - (disk.room or 0)
        for name in [*disk._files, *disk._gone]:
            Path(name).unlink(missing_ok=True)
        disk.survive(machine.disk)
        shutil.rmtree(held)
        return disk.steps, written


def run_interrupted(
    store_folder: Path, folder: Path, what: str, points: range, *, encrypted: bool
) -> None:
    """Cut the power or fill the disk at several points of an operation."""
    machine, last = backed_up(store_folder, folder / "machine", encrypted=encrypted)
    image, was = folder / "image", machine.remembered
    machine.kept_in(image)
    chance = random.Random(f"{_POWER_SEED} {what}")  # noqa: S311 - no secret
    steps, size = run_cut(machine, what, chance, None)
    assert steps > 5
    states = [was, machine.remembered]
    for point in points:
        chance = random.Random(f"{_POWER_SEED} {what} {point}")  # noqa: S311 - the same each time
        how = "full" if point % 2 and size else "power"
        cut = how, chance.randrange(1, steps + 1) if how == "power" else chance.randrange(size)
        with noting(f"{what}, point {point}: {cut}, of {steps} steps and {size} bytes"):
            machine.put_back(image)
            run_cut(machine, what, chance, cut)
            require_good(machine, last, states, restores=point % 4 == 0)


@pytest.mark.in_check(1)
@pytest.mark.parametrize("what", list(WORKS))
def test_a_power_cut_or_a_full_disk_leaves_the_last_backup(
    store_folder: Path, tmp_path: Path, what: str
) -> None:
    """One of each."""
    run_interrupted(store_folder, tmp_path, what, range(2), encrypted=False)


@pytest.mark.prove
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("part", range(2))
@pytest.mark.parametrize("what", list(WORKS))
def test_many_power_cuts_and_full_disks_leave_the_last_backup(
    store_folder: Path, tmp_path: Path, what: str, part: int
) -> None:
    """Seventy of each, half of them encrypted."""
    run_interrupted(
        store_folder, tmp_path, what, range(100 + 35 * part, 135 + 35 * part), encrypted=part == 1
    )
