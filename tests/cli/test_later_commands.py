"""Commands that are written for later say what the environment says now."""

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
def surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home, a configuration, a store, a bank and a destination that the environment names."""
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
def test_a_printed_job_names_what_the_environment_names(
    satchel: Run, surroundings: Path, kind: str, command: tuple[str, ...]
) -> None:
    """Home, witness, configuration, store, bank and destination, the same from any folder."""
    ran = satchel(*command, "--print", kind)
    assert ran.status == 0
    text = (
        ran.out
        if kind != "launchd"
        else " ".join(plistlib.loads(ran.out.encode())["ProgramArguments"])
    )
    for said in (
        str(surroundings / "other home"),
        f"SATCHEL_WITNESS={surroundings / 'other-witness'}",
        str(surroundings / "here.db"),
        "SATCHEL_BANK=mine",
        f"SATCHEL_BACKUP_DESTINATION={surroundings / 'backups'}",
        "--config",
    ):
        assert said in text


def test_a_printed_backup_works_in_an_empty_environment(satchel: Run, surroundings: Path) -> None:
    """Started as cron starts it: it backs up the store that was meant."""
    assert satchel("init", "mine").status == 0
    assert satchel("remember", "likes tea").status == 0
    line = satchel("backup", "schedule", "--print", "cron").out.strip().replace("\\%", "%")
    words = shlex.split(line)[5:]
    ran = subprocess.run(words, env={}, cwd="/", capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert list((surroundings / "backups" / "catalogue").rglob("*.json"))


def test_a_secret_of_the_environment_is_named_and_not_written(
    satchel: Run, surroundings: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A password in an address stays where it is."""
    monkeypatch.setenv("SATCHEL_STORE", "postgresql://ada:hunter2-secret@db.example/memory")
    ran = satchel("backup", "schedule", "--print", "cron")
    assert "hunter2-secret" not in ran.out
    assert "SATCHEL_STORE" in ran.err
    assert surroundings.exists()


def test_an_agent_host_starts_the_server_of_the_same_home(satchel: Run, surroundings: Path) -> None:
    """Also its hooks; and all of it is taken back."""
    project = surroundings / "project"
    project.mkdir()
    satchel("connect", "claude-code", "--project", project, "--plugin")
    entry = json.loads((project / ".mcp.json").read_text())["mcpServers"]["satchel"]
    assert str(surroundings / "other home") in entry["args"]
    hooks = (project / ".claude" / "settings.json").read_text()
    assert str(surroundings / "other home") in hooks
    assert satchel("connect", "claude-code", "--project", project, "--remove").status == 0
    assert not (project / ".mcp.json").exists()
