"""Backups, prunes and restores that are killed, run out of room or lose power: what is left holds.

Whatever was the newest backup that had been read again before is there afterwards, whole, or a
newer one is; and the store that was restored over is as it was, or as it is to be.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from backup_kit import (
    Machine,
    added,
    backed,
    backed_up,
    files_in,
    own_bank,
    require_good,
    sound,
)
from ledger_kit import noting

from satchel.backup import storage
from satchel.backup.prune import prune_backups
from satchel.backup.run import run_backup
from satchel.backup.storage import FolderStorage
from satchel.bank.machine_keys import create_identity
from satchel.config.settings import Settings, load_settings
from satchel.errors import SatchelError, TargetError

if TYPE_CHECKING:
    from collections.abc import Callable

_SEED = 20261122
_KILLS = int(os.environ.get("SATCHEL_KILLS", "70"))
"""Of backups and of prunes; half of them encrypted."""
_RESTORES = max(200, _KILLS)
"""Restores that are killed; half of them encrypted."""


class NoPower(BaseException):
    """The machine is off; nobody handles this."""


class Failing(FolderStorage):
    """A folder in which an act fails: the disk is full, or the power goes before or after it.

    A power cut may leave the file that was being written beside its target, with any bytes, and a
    removal that was not forced to the disk may be undone.
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
            raise NoPower
        super().put(name, data)

    def remove(self, name: str) -> None:
        """Remove, or fail."""
        if self._fails():
            if self.how == "full":
                raise TargetError("cannot remove: input/output error", file=name)
            if self.chance.random() < 0.5:
                super().remove(name)
            raise NoPower
        super().remove(name)

    def _fails(self) -> bool:
        cls = type(self)
        cls.acts += 1
        if cls.how == "power" and cls.fails_at is not None and cls.acts > cls.fails_at:
            raise NoPower
        return cls.acts == cls.fails_at


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Failing]]:
    """A destination that can be made to fail."""
    monkeypatch.setattr(storage, "FolderStorage", Failing)
    Failing.acts, Failing.fails_at, Failing.how = 0, None, "full"
    yield Failing
    Failing.fails_at = None


def acts_of(failing: type[Failing], work: Callable[[], object]) -> int:
    """Return how many acts some work takes."""
    failing.acts, failing.fails_at = 0, None
    work()
    return failing.acts


@contextmanager
def failure(failing: type[Failing], at: int, how: str) -> Iterator[None]:
    """Have an act fail in the block, which ends in an error then."""
    failing.acts, failing.fails_at, failing.how = 0, at, how
    try:
        with suppress(SatchelError, NoPower):
            yield
    finally:
        failing.fails_at = None


@pytest.mark.parametrize("how", ["full", "power"])
def test_a_backup_that_fails_at_any_act_leaves_the_one_before(
    here: Settings,
    where: str,
    tmp_path: Path,
    failing: type[Failing],
    monkeypatch: pytest.MonkeyPatch,
    how: str,
) -> None:
    """And the next run is good, with nothing of the failed one left over; encrypted as well."""
    if how == "power":
        create_identity(here, "mine")
        monkeypatch.setenv("SATCHEL_BACKUP_ENCRYPT_TO", "mine")
        here = load_settings(store=here.store)
    first = backed(here, where)
    added(here, own_bank(here), 3)
    shutil.copytree(where, tmp_path / "before")
    acts = acts_of(failing, lambda: run_backup(here, destinations=(where,)))
    assert acts > 3
    for at in range(1, acts + 1):
        with noting(f"act {at} of {acts}, {how}"):
            shutil.rmtree(where)
            shutil.copytree(tmp_path / "before", where)
            with failure(failing, at, how):
                run = run_backup(here, destinations=(where,))
                assert run.exit_status  # a full disk is told
            assert first.id in sound(where, here)
    assert backed(here, where).verified
    prune_backups(here, destinations=where, days=0, keep_last=1)
    assert len(sound(where, here)) == 1
    assert not [name for name in files_in(where) if name.endswith(".tmp")]


@pytest.mark.parametrize("how", ["full", "power"])
def test_a_prune_that_fails_at_any_act_leaves_the_newest(
    here: Settings, where: str, tmp_path: Path, failing: type[Failing], how: str
) -> None:
    """And every other that still counts is whole; the next prune does the rest."""
    last = ""
    for number in range(3):
        added(here, own_bank(here), 2, 1000 * number + 1000)
        last = backed(here, where).id or ""
    shutil.copytree(where, tmp_path / "before")

    def work() -> object:
        return prune_backups(here, destinations=where, days=0, keep_last=1)

    acts = acts_of(failing, work)
    left = files_in(where)
    assert acts > 4
    for at in range(1, acts + 1):
        with noting(f"act {at} of {acts}, {how}"):
            shutil.rmtree(where)
            shutil.copytree(tmp_path / "before", where)
            with failure(failing, at, how):
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


def killed(machine: Machine, what: str, delay: float) -> bool:
    """Start a program and kill it some time after it has begun; tell whether it was done."""
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
def test_a_program_that_is_killed_leaves_the_last_backup(
    kept: Path, tmp_path: Path, what: str, *, encrypted: bool
) -> None:
    """By the system, at random moments: the last backup is whole, and so is the store."""
    draw = random.Random(f"{_SEED} {what} {encrypted}")  # noqa: S311 - no secret
    machine, last = backed_up(kept, tmp_path / "machine", encrypted=encrypted)
    image, was = tmp_path / "image", machine.remembered
    machine.kept_in(image)
    began = time.monotonic()
    assert killed(machine, what, 300)
    whole = time.monotonic() - began
    states, done = [was, machine.remembered], 0
    kills = (_RESTORES if what == "restore" else _KILLS) // 2
    for number in range(kills):
        delay = draw.uniform(0.0, whole)
        with noting(f"seed {_SEED}, {what} number {number}, killed after {delay:.3f} s"):
            machine.put_back(image)
            done += killed(machine, what, delay)
            require_good(machine, last, states, restores=number % 5 == 0)
    assert done < kills
