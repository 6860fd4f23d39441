"""Backups that fail, are not fresh or do not hold, and runs that meet: told, nothing dropped."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from backup_kit import (
    added,
    backed,
    cataloged,
    files_in,
    own_bank,
    restored,
    tamper,
    told,
)

from satchel.backup.destinations import backup_lock, check_backups
from satchel.backup.inventory import verify_backups
from satchel.backup.prune import prune_backups
from satchel.backup.run import run_backup
from satchel.config.settings import Settings, load_settings
from satchel.errors import VerificationError


def test_a_failed_run_is_reported_by_status_doctor_and_hooks(
    here: Settings, tmp_path: Path
) -> None:
    """At one destination of two; the other one has its backup all the same."""
    heard = list[str]()
    (tmp_path / "a file").write_text("no folder")
    bad, good = str(tmp_path / "a file"), str(tmp_path / "good")
    file = tmp_path / "satchel.toml"
    file.write_text(f'[backup]\nenabled = true\ndestination = ["{bad}", "{good}"]\n')
    settings = load_settings(config=file, store=here.store)
    both = {name: lambda event: heard.append(event.event) for name in HOOKS}
    import msgspec

    settings = msgspec.structs.replace(settings, hooks=settings.hooks.with_listeners(both))
    assert [one.state for one in check_backups(settings)] == ["problem", "problem"]
    run = run_backup(settings)
    settings.hooks.finish()
    assert run.exit_status != 0
    assert [one.error is None for one in run.made] == [False, True]
    assert heard == ["on_backup_failed", "on_backup"]
    assert [one.state for one in check_backups(settings)] == ["problem", "ok"]
    (tmp_path / "a file").unlink()
    assert run_backup(settings).exit_status == 0
    assert [one.state for one in check_backups(settings)] == ["ok", "ok"]


HOOKS = ("on_backup", "on_backup_failed")


def test_a_command_is_run_when_a_backup_fails(here: Settings, tmp_path: Path) -> None:
    """As configured; it is told what went wrong, and where."""
    (tmp_path / "a file").write_text("no folder")
    heard = tmp_path / "heard.json"
    file = tmp_path / "satchel.toml"
    command = ["sh", "-c", f"cat > '{heard}'"]
    file.write_text(
        f'[backup]\ndestination = "{tmp_path / "a file"}"\n'
        "[[hooks.on_backup_failed]]\ninclude_content = true\n"
        f"command = {json.dumps(command)}\n"
    )
    settings = load_settings(config=file, store=here.store)
    assert run_backup(settings).exit_status != 0
    settings.hooks.finish()
    said = json.loads(heard.read_text())
    assert said["event"] == "on_backup_failed"
    assert "a file" in json.dumps(said)


def test_doctor_misses_a_backup_that_is_not_fresh(here: Settings, tmp_path: Path) -> None:
    """After as many hours as are configured, and only where backups are enabled."""
    from datetime import UTC, datetime, timedelta

    file = tmp_path / "satchel.toml"
    file.write_text(
        f'[backup]\nenabled = true\nstale_after = 5\ndestination = "{tmp_path / "b"}"\n'
    )
    settings = load_settings(config=file, store=here.store)
    assert run_backup(settings).exit_status == 0
    later = datetime.now(UTC) + timedelta(hours=6)
    (check,) = check_backups(settings, later)
    assert (check.state, "6 hours old" in check.detail) == ("problem", True)
    (check,) = check_backups(settings, later - timedelta(hours=2))
    assert check.state == "ok"


def test_doctor_knows_backups_of_a_destination_that_is_a_relative_path(
    here: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run notes the absolute path of the folder."""
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "satchel.toml"
    file.write_text('[backup]\nenabled = true\ndestination = "b"\n')
    settings = load_settings(config=file, store=here.store)
    assert run_backup(settings).exit_status == 0
    assert [check.state for check in check_backups(settings)] == ["ok"]


def test_a_bank_that_does_not_verify_does_not_stop_the_others_and_nothing_is_pruned(
    here: Settings, where: str
) -> None:
    """The backup is there, says what is missing, and does not count as one that was read again."""
    first, bank = backed(here, where), own_bank(here)
    tamper(here, bank)
    run = run_backup(here, destinations=(where,))
    made = run.made[0]
    assert (run.exit_status, made.banks, made.verified) == (3, 1, None)
    assert bank in made.missing[0]
    prune_backups(here, destinations=where, days=0, keep_last=1)
    assert first.id in [one.id for one in cataloged(where)]


def test_a_piece_that_was_damaged_is_written_again_by_the_next_run(
    here: Settings, where: str, tmp_path: Path
) -> None:
    """It is noticed since all of a backup is read again, and told."""
    backed(here, where)
    for path in Path(where).glob("packs/*/*/*"):
        path.write_bytes(path.read_bytes()[:-1] + b"!")
    (found,) = verify_backups(here, destinations=where)
    assert "does not match" in (found.error or "")
    made = backed(here, where)
    assert made.written == made.packs
    restored(here, where, str(tmp_path / "n.db"))
    assert told(str(tmp_path / "n.db")) == told(here.store)


def test_nothing_is_pruned_when_the_newest_does_not_verify(here: Settings, where: str) -> None:
    """Whoever prunes looks first whether what is left is there."""
    backed(here, where)
    added(here, own_bank(here))
    before = set(files_in(where))
    backed(here, where)
    for name in set(files_in(where)) - before:
        if name.startswith("packs/"):
            (Path(where) / name).unlink()
    with pytest.raises(VerificationError, match="no longer verifies"):
        prune_backups(here, destinations=where, days=0, keep_last=1)
    assert len(cataloged(where)) == 2
    prune_backups(
        here, destinations=where, days=0, keep_last=1
    )  # the other one is the newest that holds
    assert len([one for one in cataloged(where) if one.verified]) == 1


def test_concurrent_runs_do_not_interfere(here: Settings, where: str) -> None:
    """The second one says who is at it."""
    backed(here, where)
    with backup_lock(here, where, "a test"):
        run = run_backup(here, destinations=(where,))
    assert run.made[0].code == "locked"
