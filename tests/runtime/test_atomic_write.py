"""Atomic writes: a file appears complete or not at all, and private files stay private."""

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from satchel.errors import TargetError, TargetExistsError
from satchel.runtime.files import PRIVATE_FILE, atomic_write

OLD = b"what was there"


@pytest.fixture(params=["new", "old"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A target that does not exist yet, or does."""
    path = tmp_path / "folder" / "target"
    path.parent.mkdir()
    if request.param == "old":
        path.write_bytes(OLD)
    return path


def is_unchanged(path: Path) -> bool:
    """Return whether the target is unchanged and alone in its folder."""
    names = [found.name for found in path.parent.iterdir()]
    return names == [] or (names == [path.name] and path.read_bytes() == OLD)


def test_written_data_appears_when_the_block_ends(target: Path) -> None:
    """Until then readers see the old file or none."""
    with atomic_write(target) as stream:
        stream.write(b"new")
        stream.flush()
        assert not target.exists() or target.read_bytes() == OLD
    assert target.read_bytes() == b"new"
    assert [found.name for found in target.parent.iterdir()] == [target.name]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit, GeneratorExit])
def test_an_exception_leaves_the_target_unchanged(target: Path, error: type[BaseException]) -> None:
    """Also an interrupt, and one after many bytes were written."""

    def fail() -> None:
        with atomic_write(target) as stream:
            stream.write(b"x" * 300_000)
            raise error

    with pytest.raises(error):
        fail()
    assert is_unchanged(target)


def failing_call(number: int) -> Callable[..., None]:
    """Return a replacement for a system call that fails."""

    def fail(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    return fail


@pytest.mark.parametrize("call", ["fsync", "replace"])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EROFS])
def test_a_failed_system_call_is_a_typed_error_with_a_hint(
    target: Path, monkeypatch: pytest.MonkeyPatch, call: str, number: int
) -> None:
    """The disk is full or fails at the last moment."""
    monkeypatch.setattr(os, call, failing_call(number))
    with pytest.raises(TargetError) as caught, atomic_write(target) as stream:
        stream.write(b"new")
    assert caught.value.file == str(target)
    assert os.strerror(number) in caught.value.message
    assert caught.value.exit_status == 5
    assert (caught.value.hint is None) == (number == errno.EIO)
    assert is_unchanged(target)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_disk_full_during_a_write_is_a_typed_error_with_a_hint(
    target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """/dev/full answers like such a disk."""
    real = os.fdopen

    def full(handle: int, mode: str) -> object:
        os.dup2(os.open("/dev/full", os.O_RDWR), handle)
        return real(handle, mode)

    monkeypatch.setattr(os, "fdopen", full)
    with (
        pytest.raises(TargetError, match="No space left") as caught,
        atomic_write(target) as stream,
    ):
        stream.write(b"x" * 300_000)
    assert "Free disk space" in (caught.value.hint or "")
    assert is_unchanged(target)


def test_a_full_disk_leaves_the_target_unchanged(small_disk: Path) -> None:
    """A real file system without free space."""
    path = small_disk / "target"
    path.write_bytes(OLD)
    with pytest.raises(TargetError, match="No space left"), atomic_write(path) as stream:
        stream.write(b"x" * 1_000_000)
    assert is_unchanged(path)
    with atomic_write(path) as stream:
        stream.write(b"there is room again")
    assert path.read_bytes() == b"there is room again"


def test_attack_a_link_at_the_target_is_replaced_not_followed(tmp_path: Path) -> None:
    """It would make the program overwrite another file."""
    victim, path = tmp_path / "victim", tmp_path / "target"
    victim.write_bytes(OLD)
    for leads_to in (victim, tmp_path / "nowhere", path):
        path.unlink(missing_ok=True)
        path.symlink_to(leads_to)
        with atomic_write(path) as stream:
            stream.write(b"new")
        assert not path.is_symlink()
        assert path.read_bytes() == b"new"
    assert victim.read_bytes() == OLD
    assert not (tmp_path / "nowhere").exists()


def test_attack_a_hard_link_at_the_target_is_replaced_not_written_through(tmp_path: Path) -> None:
    """The same with a hard link."""
    victim, path = tmp_path / "victim", tmp_path / "target"
    victim.write_bytes(OLD)
    path.hardlink_to(victim)
    with atomic_write(path) as stream:
        stream.write(b"new")
    assert victim.read_bytes() == OLD


@pytest.mark.parametrize("kind", ["file", "link", "folder"])
def test_an_existing_target_is_refused_without_overwrite(tmp_path: Path, kind: str) -> None:
    """Before anything is written; a dangling link counts as existing."""
    path = tmp_path / "target"
    if kind == "file":
        path.write_bytes(OLD)
    elif kind == "link":
        path.symlink_to("nowhere")
    else:
        path.mkdir()
    with pytest.raises(TargetExistsError), atomic_write(path, overwrite=False):
        pytest.fail("the block must not run")
    assert [found.name for found in tmp_path.iterdir()] == ["target"]


def test_a_target_that_appears_concurrently_is_not_replaced(tmp_path: Path) -> None:
    """Another process creates the file between the check and the end."""
    path = tmp_path / "target"
    with pytest.raises(TargetExistsError), atomic_write(path, overwrite=False):
        path.write_bytes(OLD)
    assert path.read_bytes() == OLD
    assert [found.name for found in tmp_path.iterdir()] == ["target"]


@pytest.mark.parametrize("kind", ["folder", "fifo", "device"])
def test_a_target_that_is_not_a_file_is_refused(tmp_path: Path, kind: str) -> None:
    """A folder, a pipe or a device is never replaced, and does not block."""
    path = Path("/dev/null") if kind == "device" else tmp_path / "target"
    if kind == "folder":
        path.mkdir()
    elif kind == "fifo":
        os.mkfifo(path)
    with pytest.raises(TargetError, match="not a regular file"), atomic_write(path):
        pytest.fail("the block must not run")


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("no/such/folder", "create it first"),
        ("n" * 300, None),
        ("a\0b", None),
        ("file/below", None),
    ],
    ids=["missing folder", "too long", "nul", "below a file"],
)
def test_an_impossible_target_is_a_typed_error(tmp_path: Path, name: str, hint: str | None) -> None:
    """The reason of the system and a hint, not a traceback."""
    (tmp_path / "file").write_bytes(OLD)
    with pytest.raises(TargetError) as caught, atomic_write(tmp_path / name):
        pytest.fail("the block must not run")
    assert hint is None or hint in (caught.value.hint or "")


def test_a_name_of_maximum_length_can_be_written(tmp_path: Path) -> None:
    """The temporary name has the same limit, in bytes."""
    for name in ("n" * 255, "東" * 85, "🧳" * 63):
        with atomic_write(tmp_path / name) as stream:
            stream.write(b"new")
        assert (tmp_path / name).read_bytes() == b"new"


@pytest.mark.parametrize(("mode", "mask", "want"), [(0o666, 0o022, 0o644), (0o666, 0, 0o666)])
def test_files_have_the_requested_permissions(
    tmp_path: Path, mode: int, mask: int, want: int
) -> None:
    """Plain files follow the umask; secrets are private from the first byte."""
    old = os.umask(mask)
    try:
        with atomic_write(tmp_path / "plain", mode=mode):
            pass
        with atomic_write(tmp_path / "secret", mode=PRIVATE_FILE) as stream:
            assert os.fstat(stream.fileno()).st_mode & 0o777 == 0o600
    finally:
        os.umask(old)
    assert (tmp_path / "plain").stat().st_mode & 0o777 == want
    assert (tmp_path / "secret").stat().st_mode & 0o777 == 0o600


def test_a_secret_that_replaces_an_open_file_is_private(tmp_path: Path) -> None:
    """It does not inherit the permissions of the old file."""
    path = tmp_path / "secret"
    path.touch(mode=0o666)
    path.chmod(0o666)
    with atomic_write(path, mode=PRIVATE_FILE):
        pass
    assert path.stat().st_mode & 0o777 == 0o600
