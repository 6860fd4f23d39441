"""Failed and stale backups: reports by status, doctor and hooks; concurrent runs."""

from __future__ import annotations

import json
from collections.abc import Iterator
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
from receiver_kit import NEVER, Receiver

from satchel.backup.destinations import backup_lock, check_backups
from satchel.backup.inventory import verify_backups
from satchel.backup.prune import prune_backups
from satchel.backup.run import BackupRun, run_backup
from satchel.config.settings import Settings, load_settings
from satchel.errors import VerificationError


def test_a_failed_run_is_reported_by_status_doctor_and_hooks(
    here: Settings, tmp_path: Path
) -> None:
    """Of two destinations, the other one still gets its backup."""
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


def test_a_hook_command_is_run_when_a_backup_fails(here: Settings, tmp_path: Path) -> None:
    """It gets the error and the destination."""
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


def test_doctor_reports_a_stale_backup(here: Settings, tmp_path: Path) -> None:
    """After the configured hours, if backups are enabled."""
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


def test_doctor_finds_backups_at_a_relative_path(
    here: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run records the absolute path of the folder."""
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "satchel.toml"
    file.write_text('[backup]\nenabled = true\ndestination = "b"\n')
    settings = load_settings(config=file, store=here.store)
    assert run_backup(settings).exit_status == 0
    assert [check.state for check in check_backups(settings)] == ["ok"]


def test_a_bank_that_does_not_verify_does_not_stop_the_others_and_prevents_pruning(
    here: Settings, where: str
) -> None:
    """The backup reports the missing bank and does not count as verified."""
    first, bank = backed(here, where), own_bank(here)
    tamper(here, bank)
    run = run_backup(here, destinations=(where,))
    made = run.made[0]
    assert (run.exit_status, made.banks, made.verified) == (3, 1, None)
    assert bank in made.missing[0]
    prune_backups(here, destinations=where, days=0, keep_last=1)
    assert first.id in [one.id for one in cataloged(where)]


def test_a_damaged_pack_is_reported_and_written_again(
    here: Settings, where: str, tmp_path: Path
) -> None:
    """All packs of a backup are verified."""
    backed(here, where)
    for path in Path(where).glob("packs/*/*/*"):
        path.write_bytes(path.read_bytes()[:-1] + b"!")
    (found,) = verify_backups(here, destinations=where)
    assert "does not match" in (found.error or "")
    made = backed(here, where)
    assert made.written == made.packs
    restored(here, where, str(tmp_path / "n.db"))
    assert told(str(tmp_path / "n.db")) == told(here.store)


def test_prune_stops_if_the_newest_backup_does_not_verify(here: Settings, where: str) -> None:
    """The next prune treats the older one as the newest."""
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
    )  # the other one is the newest that verifies
    assert len([one for one in cataloged(where) if one.verified]) == 1


def test_concurrent_runs_do_not_interfere(here: Settings, where: str) -> None:
    """The second one is refused with the holder of the lock."""
    backed(here, where)
    with backup_lock(here, where, "a test"):
        run = run_backup(here, destinations=(where,))
    assert run.made[0].code == "locked"


# -- hooks -------------------------------------------------------------------------------


SECRET = "hunter2-of-the-nas"  # noqa: S105 - of this test


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """A web server that records requests."""
    found = Receiver()
    yield found
    found.close()


def failing_settings(here: Settings, tmp_path: Path, hook: str, where: str = "") -> Settings:
    """Return settings with an unusable destination and a hook for the failure."""
    (tmp_path / "a file").write_text("no folder")
    file = tmp_path / "satchel.toml"
    file.write_text(
        f"[backup]\nenabled = true\ndestination = {json.dumps(where or str(tmp_path / 'a file'))}\n"
        f"[[hooks.on_backup_failed]]\n{hook}\n"
    )
    return load_settings(config=file, store=here.store)


def run_and_finish_hooks(settings: Settings) -> BackupRun:
    """Run a backup, and wait for the hooks, as the command does at its end."""
    run = run_backup(settings)
    settings.hooks.finish()
    return run


@pytest.mark.parametrize(
    ("answer", "delivered"), [(204, 1), (500, 0), (302, 0), (NEVER, 0)], ids=str
)
def test_a_failing_webhook_does_not_hide_a_failed_backup(
    here: Settings, tmp_path: Path, receiver: Receiver, answer: int, delivered: int
) -> None:
    """Nor one that hangs or redirects. It is called once, and a redirect is not followed."""
    receiver.answers = [answer]
    hook = f'webhook = "{receiver.address}"\ntimeout = 1\nretries = 0'
    settings = failing_settings(here, tmp_path, hook)
    run = run_and_finish_hooks(settings)
    assert run.exit_status != 0
    assert run.made[0].error is not None
    assert settings.hooks.counts == (delivered, 1 - delivered, 0)
    assert [one.state for one in check_backups(settings)] == ["problem"]
    ((headers, body),) = receiver.got
    assert headers["Satchel-Event"] == json.loads(body)["event"] == "on_backup_failed"


@pytest.mark.parametrize("contents", ["true", "false"])
def test_a_notification_contains_no_secrets_or_memories(
    here: Settings, tmp_path: Path, receiver: Receiver, contents: str
) -> None:
    """Neither the password of an address nor the text of a memory."""
    hook = f'webhook = "{receiver.address}"\nretries = 0\ninclude_content = {contents}'
    settings = failing_settings(here, tmp_path, hook, f"ftp://me:{SECRET}@nas.example.org/backups")
    run = run_and_finish_hooks(settings)
    ((_, body),) = receiver.got
    said = json.loads(body)
    assert SECRET not in body.decode()
    assert SECRET not in json.dumps([one.error for one in run.made])
    assert not any(SECRET in check.detail for check in check_backups(settings))
    assert ("nas.example.org" in json.dumps(said.get("content", []))) is (contents == "true")
    assert b"memory 1" not in body


def test_a_failing_hook_command_does_not_hide_a_failed_backup(
    here: Settings, tmp_path: Path
) -> None:
    """A missing command, one that fails and one that hangs."""
    for command in (["/nowhere/at/all"], ["false"], ["sleep", "60"]):
        settings = failing_settings(
            here, tmp_path, f"command = {json.dumps(command)}\ntimeout = 0.2"
        )
        assert run_and_finish_hooks(settings).exit_status != 0
        assert settings.hooks.counts == (0, 1, 0)
