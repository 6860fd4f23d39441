"""Private files: only the owner has access, and planted files are refused."""

import errno
import os
import socket
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from pathlib import Path
from typing import Any

import pytest
from descriptors_kit import descriptors

from satchel.errors import PathRefusedError, TargetError, UnreadableError
from satchel.runtime import private_files
from satchel.runtime.files import ModeRepair, open_folder
from satchel.runtime.private_files import COMPANIONS, open_private, private_folder, secure_database

Umask = Callable[[int], AbstractContextManager[None]]

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")


def mode_of(path: Path) -> int:
    """Return the permissions of a path."""
    return stat.S_IMODE(path.lstat().st_mode)


def open_and_close(path: Path, *, create: bool = True) -> tuple[ModeRepair, ...]:
    """Open a private file, close it, and return the repairs."""
    opened = open_private(path, create=create)
    os.close(opened.handle)
    return opened.repairs


@pytest.fixture
def state_file(tmp_path: Path) -> Path:
    """A private file in a private folder."""
    path = tmp_path / "state" / "file"
    open_and_close(path)
    return path


@pytest.mark.parametrize("mask", [0, 0o022, 0o077])
def test_new_files_and_folders_are_private_under_every_umask(
    tmp_path: Path, umask: Umask, mask: int
) -> None:
    """0600 and 0700, also for new parent folders; this is not reported as a repair."""
    path = tmp_path / "above" / "state" / "file"
    with umask(mask):
        assert open_and_close(path) == ()
    assert mode_of(path) == 0o600
    assert mode_of(path.parent) == 0o700
    assert mode_of(path.parent.parent) == 0o700


@pytest.mark.parametrize("mode", [0o644, 0o666, 0o640, 0o777, 0o700])
def test_an_open_mode_is_repaired_and_reported(state_file: Path, umask: Umask, mode: int) -> None:
    """At every opening, for the file and its folder, under every umask; once."""
    state_file.chmod(mode)
    state_file.parent.chmod(0o755)
    with umask(0):
        repairs = open_and_close(state_file, create=False)
    assert repairs == (
        ModeRepair(state_file.parent, 0o755, 0o700),
        ModeRepair(state_file, mode, 0o600),
    )
    assert (mode_of(state_file.parent), mode_of(state_file)) == (0o700, 0o600)
    assert "it was accessible to others (mode 0755)" in str(repairs[0])
    assert open_and_close(state_file) == ()


def test_a_folder_chosen_by_the_operator_keeps_its_mode(tmp_path: Path) -> None:
    """A database in a documents folder does not close that folder."""
    chosen = tmp_path / "documents"
    chosen.mkdir()
    chosen.chmod(0o755)
    os.close(open_private(chosen / "file", create=True, own_folder=False).handle)
    assert mode_of(chosen) == 0o755
    assert mode_of(chosen / "file") == 0o600
    with pytest.raises(TargetError):
        open_private(tmp_path / "missing" / "file", create=True, own_folder=False)


def test_state_in_a_shared_system_folder_is_refused(tmp_path: Path) -> None:
    """Making the temporary folder or the root private would lock out other users."""
    everyones = tmp_path / "everyones"
    everyones.mkdir()
    everyones.chmod(0o1777)
    root = mode_of(Path("/"))
    for folder in (everyones, Path("/")):
        with pytest.raises(PathRefusedError, match="shared by all users"):
            open_private(folder / "satchel-state-that-is-not-there", create=True)
        with pytest.raises(PathRefusedError, match="shared by all users"):
            private_folder(folder)
    assert (mode_of(everyones), mode_of(Path("/"))) == (0o1777, root)
    assert list(everyones.iterdir()) == []


@pytest.mark.parametrize("leads_to", ["file", "nowhere", "folder", "itself"])
def test_attack_a_link_in_place_of_a_private_file_is_refused(
    state_file: Path, leads_to: str
) -> None:
    """It leads to another file, or to one that does not exist yet."""
    outside = state_file.parent.parent / "outside"
    outside.mkdir()
    (outside / "file").write_bytes(b"theirs")
    state_file.unlink()
    state_file.symlink_to(
        {"folder": outside, "itself": state_file}.get(leads_to, outside / leads_to)
    )
    for create in (True, False):
        with pytest.raises(PathRefusedError, match="link") as caught:
            open_private(state_file, create=create)
        assert caught.value.file == str(state_file)
    assert [found.name for found in outside.iterdir()] == ["file"]
    assert (outside / "file").read_bytes() == b"theirs"


@pytest.mark.parametrize("own_folder", [True, False])
@pytest.mark.parametrize("leads_to", ["folder", "nowhere"])
def test_attack_a_link_in_place_of_the_folder_is_refused_before_any_write(
    tmp_path: Path, leads_to: str, *, own_folder: bool
) -> None:
    """It leads to a folder of other users."""
    theirs, link = tmp_path / "folder", tmp_path / "state"
    theirs.mkdir(mode=0o755)
    link.symlink_to(tmp_path / leads_to)
    with pytest.raises(PathRefusedError, match="link"):
        open_private(link / "file", create=True, own_folder=own_folder)
    with pytest.raises(PathRefusedError, match="link"):
        secure_database(link / "file", own_folder=own_folder)
    assert list(theirs.iterdir()) == []
    assert mode_of(theirs) == 0o755
    assert not (tmp_path / "nowhere").exists()


def test_a_link_above_the_folder_is_accepted(tmp_path: Path) -> None:
    """A home folder that is a link works."""
    (tmp_path / "disk").mkdir()
    (tmp_path / "home").symlink_to(tmp_path / "disk")
    open_and_close(tmp_path / "home" / "state" / "file")
    assert (tmp_path / "disk" / "state" / "file").exists()


@pytest.mark.parametrize("access", [os.O_RDONLY, os.O_RDWR])
@pytest.mark.parametrize("kind", ["folder", "fifo", "socket", "device"])
def test_attack_anything_but_a_file_is_refused_without_waiting(
    state_file: Path, kind: str, access: int
) -> None:
    """A pipe that never answers in place of the state file."""
    state_file.unlink()
    if kind == "folder":
        state_file.mkdir()
    elif kind == "fifo":
        os.mkfifo(state_file)
    elif kind == "socket":
        # The name of a socket is bound where it is short enough: 108 bytes.
        folder = os.open(state_file.parent, os.O_RDONLY)
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(f"/proc/self/fd/{folder}/{state_file.name}")
        os.close(folder)
    elif os.geteuid() == 0:
        os.mknod(state_file, 0o600 | stat.S_IFCHR, os.makedev(1, 5))
    else:
        pytest.skip("only root may make devices")
    with pytest.raises(PathRefusedError, match="not a regular file"):
        open_private(state_file, access)
    with pytest.raises(PathRefusedError, match="not a regular file"):
        secure_database(state_file)


def test_attack_a_hard_link_is_refused_as_a_private_file(state_file: Path) -> None:
    """Another user reads or changes it through the other name."""
    other = state_file.parent.parent / "other"
    other.hardlink_to(state_file)
    with pytest.raises(PathRefusedError, match="2 names"):
        open_private(state_file)
    with pytest.raises(PathRefusedError, match="2 names"):
        secure_database(state_file)
    other.unlink()
    assert open_and_close(state_file) == ()


@needs_root
@pytest.mark.parametrize("which", ["file", "folder"])
def test_attack_a_file_of_another_user_is_refused(state_file: Path, which: str) -> None:
    """Its owner may read on through an open descriptor."""
    planted = state_file if which == "file" else state_file.parent
    os.chown(planted, 12345, 12345)
    planted.chmod(0o755)
    for opening in (open_private, secure_database):
        with pytest.raises(PathRefusedError, match="uid 12345") as caught:
            opening(state_file)
        assert "chown" in (caught.value.hint or "")
    assert mode_of(planted) == 0o755


@pytest.mark.parametrize("name", ["", "..", "a\0b"])
def test_an_invalid_file_name_is_a_typed_error(tmp_path: Path, name: str) -> None:
    """Not a traceback."""
    path = Path(name) if not name else tmp_path / name
    for opening in (open_private, secure_database):
        with pytest.raises(PathRefusedError):
            opening(path)


def test_a_missing_file_or_folder_is_a_typed_error(tmp_path: Path) -> None:
    """Reading reports the missing file, writing the missing folder; nothing is created."""
    with pytest.raises(UnreadableError):
        open_private(tmp_path / "state" / "file", os.O_RDONLY)
    with pytest.raises(TargetError):
        open_private(tmp_path / "state" / "file")
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize("call", ["fsync", "fchmod"])
def test_a_failed_system_call_leaves_no_descriptor_open(
    state_file: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """The mode cannot be repaired, or a new name cannot be synced to disk."""

    def refuse(*_: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    state_file.chmod(0o644)
    before = descriptors()
    with monkeypatch.context() as patched:
        patched.setattr(os, call, refuse)
        with pytest.raises(TargetError, match="Input/output"):
            open_private(
                state_file if call == "fchmod" else state_file.with_name("new"), create=True
            )
    assert descriptors() <= before


def test_a_file_system_without_permissions_is_refused(
    state_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """FAT accepts a change of mode without effect."""
    state_file.chmod(0o644)
    monkeypatch.setattr(os, "fchmod", lambda *_: None)
    monkeypatch.setattr(Path, "chmod", lambda *_: None)
    for opening in (open_private, secure_database):
        with pytest.raises(PathRefusedError, match="does not store permissions"):
            opening(state_file)


def test_a_database_and_its_companions_are_private(tmp_path: Path, umask: Umask) -> None:
    """SQLite gives its companion files the mode of the database."""
    path = tmp_path / "state" / "bank.db"
    with umask(0):
        assert secure_database(path) == ()
        with closing(sqlite3.connect(path)) as base:
            base.execute("PRAGMA journal_mode=WAL")
            base.execute("CREATE TABLE t (x)")
            names = sorted(found.name for found in path.parent.iterdir())
            assert names == ["bank.db", "bank.db-shm", "bank.db-wal"]
            assert {mode_of(found) for found in path.parent.iterdir()} == {0o600}


@pytest.mark.parametrize("ending", ["", *COMPANIONS])
def test_open_modes_of_a_database_and_its_companions_are_repaired(
    tmp_path: Path, ending: str
) -> None:
    """The write-ahead log contains memories as the database does."""
    path = tmp_path / "state" / "bank.db"
    secure_database(path)
    file = path.with_name(path.name + ending)
    file.touch()
    file.chmod(0o644)
    assert secure_database(path) == (ModeRepair(file, 0o644, 0o600),)
    assert mode_of(file) == 0o600
    assert secure_database(path) == ()


def test_a_companion_that_another_process_is_removing_is_ignored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On tmpfs a file can be found by name although its last link was removed."""
    path, stat_by_path = tmp_path / "state" / "bank.db", os.stat
    secure_database(path)
    path.with_name("bank.db-wal").touch(0o600)

    def removed(name: str, **options: Any) -> os.stat_result:
        found = stat_by_path(name, **options)
        links = 0 if name == "bank.db-wal" else found.st_nlink
        return os.stat_result((*found[:3], links, *found[4:]))

    monkeypatch.setattr(os, "stat", removed)
    assert secure_database(path) == ()


@pytest.mark.parametrize("ending", COMPANIONS)
@pytest.mark.parametrize("kind", ["link", "dangling", "hard link", "fifo"])
def test_attack_a_planted_companion_is_refused_before_a_database_is_created(
    tmp_path: Path, ending: str, kind: str
) -> None:
    """Memories would be written through a ``-wal`` that leads elsewhere."""
    victim, path = tmp_path / "victim", tmp_path / "state" / "bank.db"
    victim.write_bytes(b"theirs")
    path.parent.mkdir()
    planted = path.with_name(path.name + ending)
    if kind == "hard link":
        planted.hardlink_to(victim)
    elif kind == "fifo":
        os.mkfifo(planted)
    else:
        planted.symlink_to(victim if kind == "link" else tmp_path / "nowhere")
    with pytest.raises(PathRefusedError) as caught:
        secure_database(path)
    assert caught.value.file == str(planted)
    assert not path.exists()
    assert victim.read_bytes() == b"theirs"


_WRITE = """
import sqlite3, sys
try:
    sqlite3.connect(sys.argv[1], timeout=0, isolation_level=None).execute("BEGIN IMMEDIATE")
    print("written")
except sqlite3.OperationalError as error:
    print(error)
"""


@pytest.mark.parametrize("mode", ["DELETE", "WAL"])
def test_securing_a_database_does_not_release_sqlite_locks(tmp_path: Path, mode: str) -> None:
    """The system releases a program's locks on a file when any descriptor of it is closed."""
    path = tmp_path / "state" / "bank.db"
    secure_database(path)

    def other_writes() -> str:
        words = [sys.executable, "-c", _WRITE, str(path)]
        return subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()

    with closing(sqlite3.connect(path, isolation_level=None)) as base:
        base.execute(f"PRAGMA journal_mode={mode}")
        base.execute("CREATE TABLE t (x)")
        assert other_writes() == "written"
        base.execute("BEGIN IMMEDIATE")
        base.execute("INSERT INTO t VALUES (1)")
        for found in path.parent.iterdir():
            found.chmod(0o644)
        assert len(secure_database(path)) == len(list(path.parent.iterdir()))
        assert other_writes() == "database is locked"
        base.execute("COMMIT")


def test_a_private_folder_is_created_and_an_open_one_is_repaired(tmp_path: Path) -> None:
    """0700 under any umask; existing folders are closed to other users."""
    assert private_folder(tmp_path / "a" / "b").stat().st_mode & 0o777 == 0o700
    open_one = tmp_path / "open"
    open_one.mkdir()
    open_one.chmod(0o777)
    assert private_folder(open_one).stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("kind", ["link", "file", "dangling"])
def test_attack_a_link_in_place_of_a_private_folder_is_refused(tmp_path: Path, kind: str) -> None:
    """Secrets would be written to a folder of other users."""
    theirs, path = tmp_path / "theirs", tmp_path / "ours"
    theirs.mkdir(mode=0o755)
    if kind == "file":
        path.write_bytes(b"")
    else:
        path.symlink_to(theirs if kind == "link" else tmp_path / "nowhere")
    with pytest.raises(PathRefusedError):
        private_folder(path)
    assert theirs.stat().st_mode & 0o777 == 0o755


def test_a_folder_created_concurrently_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is missing at the first check, and exists at the next."""
    path, looks = tmp_path / "state", list[Path]()

    def looked(folder: Path) -> int:
        looks.append(folder)
        if len(looks) == 1:
            folder.mkdir()
            raise FileNotFoundError(errno.ENOENT, "not there", str(folder))
        return open_folder(folder)

    monkeypatch.setattr(private_files, "open_folder", looked)
    assert private_folder(path) == path
    assert len(looks) == 2
    assert mode_of(path) == 0o700
