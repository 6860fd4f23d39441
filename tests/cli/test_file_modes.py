"""Permissions of files: corrected by commands, and exposed secrets refused."""

from __future__ import annotations

import io
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from satchel.bank.checks import secret_files
from satchel.config.settings import load_settings
from satchel.crypto import encryption
from satchel.runtime.private_files import exposure

if TYPE_CHECKING:
    from tests.cli.conftest import Run


def mode(path: Path) -> int:
    """Return the permission bits of a file or folder."""
    return path.stat().st_mode & 0o777


@pytest.mark.parametrize(
    "command",
    [
        ("list",),
        ("recall", "tea"),
        ("remember", "more tea"),
        ("stats",),
        ("amplihack", "tree"),
        ("hook", "session-start", "--agent", "default"),
        ("export", "--output", "out.pam"),
        ("bank", "list"),
    ],
    ids=" ".join,
)
def test_commands_that_open_the_store_correct_its_modes(
    satchel: Run,
    own_home: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: tuple[str, ...],
) -> None:
    """Home, database and SQLite's files beside it, without a change of content."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b'{"session_id": "s"}')))
    assert satchel("remember", "likes tea").status == 0
    own_home.chmod(0o755)
    store = own_home / "satchel.db"
    for path in own_home.glob("satchel.db*"):
        path.chmod(0o644)
    satchel(*command)
    assert mode(own_home) == 0o700
    assert {path.name: mode(path) for path in own_home.glob("satchel.db*")} == {
        path.name: 0o600 for path in own_home.glob("satchel.db*")
    }
    assert store.exists()


def test_secret_files_that_other_users_can_read_are_refused(
    satchel: Run, own_home: Path
) -> None:
    """Signing key, identity, store key: ``doctor`` prints the command that corrects it."""
    assert satchel("key", "identity", "create", "mine").status == 0
    assert satchel("remember", "likes tea").status == 0
    assert satchel("store", "encrypt", "--encrypt-to", "mine").status == 0
    files = secret_files(load_settings())
    assert {path.suffix for path in files} == {".key", ".identity"}
    assert own_home / "satchel.db.key" in files
    for path in (own_home / "identities" / "mine.identity", own_home / "satchel.db.key"):
        path.chmod(0o644)
        encryption._opened.clear()  # as another process
        ran = satchel("list")
        assert ran.status != 0
        assert "chmod 600" in ran.err
        told = satchel("doctor")
        assert told.status == 1
        assert f"chmod 600 {path}" in told.out + told.err
        path.chmod(0o600)
        assert satchel("list").status == 0


def test_a_secret_in_a_folder_that_other_users_can_write_is_refused(tmp_path: Path) -> None:
    """They could replace it. A folder with the sticky bit is accepted."""
    folder = tmp_path / "open"
    folder.mkdir(mode=0o700)
    file = folder / "a.identity"
    file.write_text("x")
    file.chmod(0o600)
    assert exposure(file) is None
    folder.chmod(0o777)
    found = exposure(file)
    assert found is not None
    assert found.command == f"chmod 700 {folder}"
    folder.chmod(0o1777)
    assert exposure(file) is None
    shutil.rmtree(folder)
