"""A backup that fails is heard of, whatever becomes of those who are told."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from receiver_kit import NEVER, Receiver

from satchel.backup.destinations import check_backups
from satchel.backup.run import BackupRun, run_backup
from satchel.config.settings import Settings, load_settings

SECRET = "hunter2-of-the-nas"  # noqa: S105 - of this test


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """Give a web server."""
    found = Receiver()
    yield found
    found.close()


def failing(here: Settings, tmp_path: Path, hook: str, where: str = "") -> Settings:
    """Return settings of a destination that is none, and of a hook that is told of it."""
    (tmp_path / "a file").write_text("no folder")
    file = tmp_path / "satchel.toml"
    file.write_text(
        f"[backup]\nenabled = true\ndestination = {json.dumps(where or str(tmp_path / 'a file'))}\n"
        f"[[hooks.on_backup_failed]]\n{hook}\n"
    )
    return load_settings(config=file, store=here.store)


def ran(settings: Settings) -> BackupRun:
    """Run a backup, and wait for the hooks, as the program does in the end."""
    run = run_backup(settings)
    settings.hooks.finish()
    return run


@pytest.mark.parametrize(
    ("answer", "delivered"), [(204, 1), (500, 0), (302, 0), (NEVER, 0)], ids=str
)
def test_a_webhook_that_fails_hangs_or_leads_elsewhere_hides_nothing(
    here: Settings, tmp_path: Path, receiver: Receiver, answer: int, delivered: int
) -> None:
    """Status, message and ``doctor`` say the same; it is asked once, and nobody else is."""
    receiver.answers = [answer]
    hook = f'webhook = "{receiver.address}"\ntimeout = 1\nretries = 0'
    settings = failing(here, tmp_path, hook)
    run = ran(settings)
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
    """Neither the password in an address nor a word of what is remembered, in no place."""
    hook = f'webhook = "{receiver.address}"\nretries = 0\ninclude_content = {contents}'
    settings = failing(here, tmp_path, hook, f"ftp://me:{SECRET}@nas.example.org/backups")
    run = ran(settings)
    ((_, body),) = receiver.got
    said = json.loads(body)
    assert SECRET not in body.decode()
    assert SECRET not in json.dumps([one.error for one in run.made])
    assert not any(SECRET in check.detail for check in check_backups(settings))
    assert ("nas.example.org" in json.dumps(said.get("content", []))) is (contents == "true")
    assert b"memory 1" not in body


def test_a_command_that_fails_hides_nothing_either(here: Settings, tmp_path: Path) -> None:
    """It is not there, it fails, it never ends: the run ends, and says what it has to."""
    for command in (["/nowhere/at/all"], ["false"], ["sleep", "60"]):
        settings = failing(here, tmp_path, f"command = {json.dumps(command)}\ntimeout = 0.2")
        assert ran(settings).exit_status != 0
        assert settings.hooks.counts == (0, 1, 0)
