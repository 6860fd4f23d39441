"""Printed jobs and host entries contain the settings of the current environment."""

from __future__ import annotations

import json
import plistlib
import shlex
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.cli.conftest import Run


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Home, configuration, store, bank and destination set by environment variables."""
    config = tmp_path / "other 100%.toml"
    config.write_text("")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SATCHEL_HOME", "other home")
    monkeypatch.setenv("SATCHEL_WITNESS", str(tmp_path / "other-witness"))
    monkeypatch.setenv("SATCHEL_CONFIG", str(config))
    monkeypatch.setenv("SATCHEL_STORE", "here.db")
    monkeypatch.setenv("SATCHEL_BANK", "mine")
    monkeypatch.setenv("SATCHEL_BACKUP_DESTINATION", str(tmp_path / "backups"))
    return tmp_path


@pytest.mark.parametrize("kind", ["cron", "systemd", "launchd"])
@pytest.mark.parametrize("command", [("backup", "schedule"), ("watch", "codex")], ids=" ".join)
def test_a_printed_job_contains_the_settings_of_the_environment(
    satchel: Run, environment: Path, kind: str, command: tuple[str, ...]
) -> None:
    """As absolute paths, so that it works from any folder."""
    ran = satchel(*command, "--print", kind)
    assert ran.status == 0
    text = (
        ran.out
        if kind != "launchd"
        else " ".join(plistlib.loads(ran.out.encode())["ProgramArguments"])
    )
    for said in (
        str(environment / "other home"),
        f"SATCHEL_WITNESS={environment / 'other-witness'}",
        str(environment / "here.db"),
        "SATCHEL_BANK=mine",
        f"SATCHEL_BACKUP_DESTINATION={environment / 'backups'}",
        "--config",
    ):
        assert said in text


def test_a_printed_backup_job_runs_in_an_empty_environment(satchel: Run, environment: Path) -> None:
    """As cron starts it: it backs up the configured store."""
    assert satchel("init", "mine").status == 0
    assert satchel("remember", "likes tea").status == 0
    line = satchel("backup", "schedule", "--print", "cron").out.strip().replace("\\%", "%")
    words = shlex.split(line)[5:]
    ran = subprocess.run(words, env={}, cwd="/", capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert list((environment / "backups" / "catalogue").rglob("*.json"))


def test_a_printed_job_names_a_secret_variable_without_its_value(
    satchel: Run, environment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A password in a store address is not printed."""
    monkeypatch.setenv("SATCHEL_STORE", "postgresql://ada:hunter2-secret@db.example/memory")
    ran = satchel("backup", "schedule", "--print", "cron")
    assert "hunter2-secret" not in ran.out
    assert "SATCHEL_STORE" in ran.err
    assert environment.exists()


def test_connect_writes_the_home_of_the_environment(satchel: Run, environment: Path) -> None:
    """In the server entry and the hooks; removal deletes all of it."""
    project = environment / "project"
    project.mkdir()
    satchel("connect", "claude-code", "--project", project, "--plugin")
    entry = json.loads((project / ".mcp.json").read_text())["mcpServers"]["satchel"]
    assert str(environment / "other home") in entry["args"]
    hooks = (project / ".claude" / "settings.json").read_text()
    assert str(environment / "other home") in hooks
    assert satchel("connect", "claude-code", "--project", project, "--remove").status == 0
    assert not (project / ".mcp.json").exists()
