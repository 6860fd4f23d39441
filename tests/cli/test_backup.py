"""``satchel backup``, and the same from Python."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import satchel as library
from satchel import aio
from satchel.errors import TargetError

if TYPE_CHECKING:
    from tests.cli.conftest import Run


@pytest.fixture
def destination(satchel: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A bank with a memory, and a destination in the configuration."""
    file = tmp_path / "satchel.toml"
    where = tmp_path / "backups"
    file.write_text(f'[backup]\nenabled = true\ndestination = "{where}"\n')
    monkeypatch.setenv("SATCHEL_CONFIG", str(file))
    assert satchel("init", "assistant").status == 0
    assert satchel("remember", "likes green tea").status == 0
    return where


def test_a_backup_is_created_drilled_and_restored(
    satchel: Run, destination: Path, home: Path
) -> None:
    """Later records are replaced only with a flag, and kept in a safety backup."""
    del destination
    ran = satchel("backup", "run")
    assert ran.status == 0
    assert "1 bank, 3 records" in ran.out
    assert "; verified" in ran.out
    satchel("remember", "likes coffee")
    assert ": restorable" in satchel("backup", "drill").out
    assert "3 records, 2 packs verified" in satchel("backup", "verify").out
    refused = satchel("backup", "restore")
    assert refused.status == 3
    assert "--accept-loss" in refused.err
    done = satchel("backup", "restore", "--overwrite")
    assert done.status == 0
    assert "likes coffee" not in satchel("list").out
    listed = satchel("backup", "list")
    assert "before a restore" in listed.out
    safety = listed.out.splitlines()[-1].split()[0]
    again = satchel("backup", "restore", safety, "--into", home / "s.db")
    assert again.status == 0
    assert "tracked separately" in again.err  # this machine accepted its loss before
    assert "likes coffee" in satchel("--store", home / "s.db", "list").out
    assert "likes coffee" not in satchel("list").out
    assert "ok" in satchel("doctor").out


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A folder for stores."""
    return tmp_path


def test_a_failed_backup_is_reported_by_exit_status_and_doctor(
    satchel: Run, destination: Path
) -> None:
    """Until a run succeeds."""
    destination.write_text("in the way")
    ran = satchel("backup", "run")
    assert ran.status != 0
    assert "failed" in ran.err
    assert satchel("doctor").status == 1
    destination.unlink()
    assert satchel("backup", "run", "--json").json["made"][0]["written"] > 0
    assert satchel("doctor").status == 0


def test_python_runs_backups_as_the_command_does(destination: Path, tmp_path: Path) -> None:
    """Synchronous and asynchronous."""
    backups = library.Backups()
    made = backups.run().made[0]
    assert made.verified
    assert [one.id for one in backups.list()] == [made.id]
    assert [one.error for one in backups.verify()] == [None]
    assert backups.drill().is_good
    assert backups.prune(days=0, keep_last=1)[0].dropped == []
    found = backups.restore(into=tmp_path / "a.db")
    assert [one.name for one in found.banks] == ["assistant"]

    async def awaited() -> int:
        other = aio.Backups(store=tmp_path / "a.db")
        await other.run(destinations=destination)
        return len(await other.list(destinations=destination))

    assert asyncio.run(awaited()) == 2
    (tmp_path / "file").write_text("")
    with pytest.raises(TargetError, match="a backup failed"):
        backups.run(destinations=[tmp_path / "file"])
