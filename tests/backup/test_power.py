"""The power goes, or the disk is full, at any write of a backup, a prune or a restore.

Of the store, its log and the witness only what was forced to the disk is sure to survive, and of
the rest whatever a disk may keep; an object of the destination is there whole or not at all, but
for the one that was being written. Afterwards the last backup is there and holds, the store is as
it was or as it is to be, and the same work done again is done.
"""

from __future__ import annotations

import gc
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import apsw
import pytest
from backup_kit import Machine, backed, backed_up, require_good, restored
from ledger_kit import noting
from power_kit import Disk, disk_in, until_the_power_goes

from satchel.backup import storage
from satchel.backup.prune import prune_backups
from satchel.backup.storage import FolderStorage
from satchel.errors import SatchelError, TargetError
from satchel.stores.sqlite import store as sqlite_store

_SEED = 20261123
WORKS: dict[str, Callable[[Machine], object]] = {
    "run": lambda one: backed(one.settings, one.backups),
    "prune": lambda one: prune_backups(one.settings, destinations=one.backups, days=0, keep_last=1),
    "restore": lambda one: restored(one.settings, one.backups, overwrite=True, files=False),
}


class Powered(FolderStorage):
    """A folder on the disk whose power can be cut."""

    disk: ClassVar[Disk | None] = None
    chance: ClassVar[random.Random]
    was_off: ClassVar[bool]

    def put(self, name: str, data: bytes) -> None:
        """Write an object; of the one in which the power goes anything may be there."""
        if self._goes_on(name, len(data)):
            super().put(name, data)
            return
        above, _, last = name.rpartition("/")
        part = data[: self.chance.randrange(len(data) + 1)]
        in_flight = self.chance.random() < 0.5
        place = name if in_flight else f"{above}/.{last[:40]}.0011223344556677.tmp"
        super().put(place, data if in_flight else part)
        raise TargetError("the power is off", file=name)

    def remove(self, name: str) -> None:
        """Remove an object, or not, where the power goes."""
        if self._goes_on(name, 0):
            super().remove(name)
            return
        if self.chance.random() < 0.5:
            super().remove(name)
        raise TargetError("the power is off", file=name)

    def _goes_on(self, name: str, size: int) -> bool:
        """Count an act; False for the one in which the power goes."""
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


def on_disk(patch: pytest.MonkeyPatch, disk: Disk) -> None:
    """Have the stores and the destinations of a folder be on the disk that stands for it."""
    disk.patch(patch)
    patch.setattr(storage, "FolderStorage", Powered)
    Powered.disk, Powered.was_off = disk, False

    def instead(name: str) -> None:
        real = getattr(sqlite_store, name)

        def opened(path: Path, **asked: Any) -> Any:
            if Path(path).is_relative_to(disk.folder):
                asked["vfs"] = disk.name
            return real(path, **asked)

        patch.setattr(sqlite_store, name, opened)

    instead("open_for_reading")
    instead("open_for_writing")


def worked(
    machine: Machine, what: str, chance: random.Random, cut: tuple[str, int] | None
) -> tuple[int, int]:
    """Do some work until the power goes, or the disk is full, or it is done.

    The machine is then what there is when the power is back.

    Returns:
        The steps that it took, and the bytes.
    """
    held = machine.folder / "held"
    machine.disk.rename(held)
    with disk_in(machine.disk, chance) as disk, pytest.MonkeyPatch.context() as patch:
        shutil.copytree(held, machine.disk, dirs_exist_ok=True)
        on_disk(patch, disk)
        Powered.chance = chance
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
            Powered.disk = None
            gc.collect()  # what had no power to close itself says so now, to whom it is no news
        written = room - (disk.room or 0)
        for name in [*disk._files, *disk._gone]:
            Path(name).unlink(missing_ok=True)
        disk.survive(machine.disk)
        shutil.rmtree(held)
        return disk.steps, written


def interrupted(kept: Path, folder: Path, what: str, points: range, *, encrypted: bool) -> None:
    """Cut the power, or fill the disk, in one work after the other."""
    machine, last = backed_up(kept, folder / "machine", encrypted=encrypted)
    image, was = folder / "image", machine.remembered
    machine.kept_in(image)
    chance = random.Random(f"{_SEED} {what}")  # noqa: S311 - no secret
    steps, size = worked(machine, what, chance, None)
    assert steps > 5
    states = [was, machine.remembered]
    for point in points:
        chance = random.Random(f"{_SEED} {what} {point}")  # noqa: S311 - the same each time
        how = "full" if point % 2 and size else "power"
        cut = how, chance.randrange(1, steps + 1) if how == "power" else chance.randrange(size)
        with noting(f"{what}, point {point}: {cut}, of {steps} steps and {size} bytes"):
            machine.put_back(image)
            worked(machine, what, chance, cut)
            require_good(machine, last, states, restores=point % 4 == 0)


@pytest.mark.parametrize("what", list(WORKS))
def test_power_that_goes_and_disks_that_are_full_leave_the_last_backup(
    kept: Path, tmp_path: Path, what: str
) -> None:
    """At a power cut and a full disk of each."""
    interrupted(kept, tmp_path, what, range(2), encrypted=False)


@pytest.mark.prove
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("part", range(2))
@pytest.mark.parametrize("what", list(WORKS))
def test_power_that_goes_often_leaves_the_last_backup(
    kept: Path, tmp_path: Path, what: str, part: int
) -> None:
    """Seventy of each, half of them encrypted."""
    interrupted(kept, tmp_path, what, range(100 + 35 * part, 135 + 35 * part), encrypted=part == 1)
