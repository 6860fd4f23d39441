"""A contained folder does what it is asked, whole or not at all, and keeps it private."""

import errno
import os
import stat
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from pathlib import Path

import pytest
from descriptors_kit import descriptors
from folder_kit import ACTS, picture

from satchel.errors import (
    LimitError,
    PathRefusedError,
    SatchelError,
    TargetError,
    TargetExistsError,
    UnreadableError,
)
from satchel.runtime.contained_folder import ContainedFolder, FolderItem
from satchel.runtime.files import ModeRepair

Umask = Callable[[int], AbstractContextManager[None]]


def test_what_is_put_in_can_be_got_out(folder: ContainedFolder) -> None:
    """The good case of each method, with joined and with single parts."""
    folder.make_folder("a/b")
    folder.make_folder(("a", "b"))
    folder.write(("a", "b", "c"), b"one")
    assert folder.read("a/b/c") == b"one"
    with folder.writing("a/b/c") as stream:
        stream.write(b"two")
        assert folder.read("a/b/c") == b"one"
    with folder.open("a/b/c") as stream:
        assert stream.read() == b"two"
    with folder.create("a/new") as stream:
        stream.write(b"grows")
    folder.rename("a/new", "moved")
    assert folder.listing("a") == [FolderItem("b", "folder")]
    assert folder.listing() == [
        FolderItem("a", "folder"),
        FolderItem("file", "file"),
        FolderItem("moved", "file"),
        FolderItem("sub", "folder"),
    ]
    folder.remove("a/b/c")
    folder.remove("a/b")
    assert folder.listing("a") == []
    with ContainedFolder(folder.path) as again:
        assert again.read("moved") == b"grows"


def test_a_folder_that_is_missing_or_closed_is_an_error(tmp_path: Path) -> None:
    """One of ours, each time."""
    with pytest.raises(UnreadableError):
        ContainedFolder(tmp_path / "missing")
    with pytest.raises(PathRefusedError):
        ContainedFolder(tmp_path / "a\0b", create=True)
    folder = ContainedFolder(tmp_path / "ours", create=True)
    folder.close()
    folder.close()
    for act in ACTS.values():
        with pytest.raises(SatchelError):
            act(folder, "file")


def test_what_is_made_is_private_under_every_umask(folder: ContainedFolder, umask: Umask) -> None:
    """0600 and 0700, from the first moment."""
    for mask in (0, 0o022, 0o077):
        with umask(mask):
            folder.make_folder(f"{mask}/below")
            with folder.writing(f"{mask}/below/whole") as stream:
                assert stat.S_IMODE(os.fstat(stream.fileno()).st_mode) == 0o600
            folder.create(f"{mask}/grows").close()
    modes = {stat.S_ISDIR(mode): stat.S_IMODE(mode) for mode, _ in picture(folder.path).values()}
    assert modes == {True: 0o700, False: 0o600}
    assert stat.S_IMODE(folder.path.stat().st_mode) == 0o700


def test_in_a_private_folder_modes_are_put_right_and_reported(tmp_path: Path, umask: Umask) -> None:
    """At each opening, of the folder, those in it and the files; elsewhere they are left alone."""
    path = tmp_path / "ours"
    with ContainedFolder(path, create=True) as folder:
        folder.make_folder("sub")
        folder.write("sub/file", b"x")
        opened = [path, path / "sub", path / "sub" / "file"]
        for at, mode in zip(opened, (0o755, 0o777, 0o666), strict=True):
            at.chmod(mode)
        assert folder.read("sub/file") == b"x"
        assert folder.repairs == []
    with umask(0), ContainedFolder(path, private=True) as folder:
        assert folder.read("sub/file") == b"x"
        assert folder.repairs == [
            ModeRepair(opened[0], 0o755, 0o700),
            ModeRepair(opened[1], 0o777, 0o700),
            ModeRepair(opened[2], 0o666, 0o600),
        ]
        folder.read("sub/file")
        assert len(folder.repairs) == 3


def test_a_file_longer_than_allowed_is_refused(folder: ContainedFolder) -> None:
    """Without reading all of it."""
    assert folder.read("file", limit=3) == b"old"
    with pytest.raises(LimitError, match="more than 2 bytes"):
        folder.read("file", limit=2)
    os.truncate(folder.path / "file", 1 << 40)
    with pytest.raises(LimitError):
        folder.read("file", limit=1000)


def test_missing_parts_are_reported(folder: ContainedFolder) -> None:
    """Reading, removing, moving; a folder on the way; with the name."""
    for act in ("open", "read", "listing", "remove", "rename from"):
        with pytest.raises(UnreadableError, match="No such file") as caught:
            ACTS[act](folder, "missing")
        assert caught.value.file == str(folder.path / "missing")
    for act in ("write", "create"):
        with pytest.raises(TargetError, match="No such file"):
            ACTS[act](folder, "missing/file")


def test_nothing_is_replaced_that_was_not_meant_to_be(folder: ContainedFolder) -> None:
    """A move does not replace by default; a folder is not replaced by a file, nor removed full."""
    with pytest.raises(TargetExistsError):
        folder.rename("file", "sub/file")
    with pytest.raises(TargetExistsError):
        folder.create("sub/file")
    calls: list[Callable[[], None]] = [
        lambda: folder.write("sub", b"x"),
        lambda: folder.rename("file", "sub", overwrite=True),
        lambda: folder.rename("sub", "sub/below"),
        lambda: folder.remove("sub"),
    ]
    for call in calls:
        with pytest.raises(TargetError):
            call()
    assert (folder.read("file"), folder.read("sub/file")) == (b"old", b"old below")
    folder.rename("file", "sub/file", overwrite=True)
    assert folder.read("sub/file") == b"old"


@pytest.mark.parametrize("call", ["fsync", "replace", "fdopen"])
def test_a_system_call_that_fails_leaves_nothing_half_written(
    folder: ContainedFolder, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """Fault: the old content is there, no temporary file, and no descriptor stays open."""

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    before = picture(folder.path)
    with monkeypatch.context() as patched:
        patched.setattr(os, call, refuse)
        with pytest.raises(TargetError, match="Input/output"):
            folder.write("sub/file", b"new")
    assert picture(folder.path) == before


def test_an_exception_in_the_block_leaves_the_file_as_it_was(folder: ContainedFolder) -> None:
    """Also an interrupt."""

    def fail(error: type[BaseException]) -> None:
        with folder.writing("file") as stream:
            stream.write(b"x" * 100_000)
            raise error

    before = picture(folder.path)
    for error in (ValueError, KeyboardInterrupt):
        with pytest.raises(error):
            fail(error)
    assert picture(folder.path) == before


def test_a_written_file_and_its_name_are_forced_to_disk(
    folder: ContainedFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file before it has its name, the folder after; each change of names, too."""
    synced: list[str] = []
    real = os.fsync

    def recorded(handle: int) -> None:
        synced.append("folder" if stat.S_ISDIR(os.fstat(handle).st_mode) else "file")
        real(handle)

    monkeypatch.setattr(os, "fsync", recorded)
    steps: list[tuple[list[str], Callable[[], None]]] = [
        (["file", "folder"], lambda: folder.write("sub/new", b"x")),
        (["folder", "folder"], lambda: folder.rename("sub/new", "new")),
        (["folder"], lambda: folder.remove("new")),
        (["folder", "folder"], lambda: folder.make_folder("sub/a/b")),
        ([], lambda: folder.make_folder("sub/a/b")),
    ]
    for want, act in steps:
        synced.clear()
        act()
        assert synced == want


def test_a_really_full_disk_leaves_the_file_as_it_was(small_disk: Path) -> None:
    """Fault: a real file system without room."""
    with ContainedFolder(small_disk / "ours", create=True) as folder:
        folder.write("file", b"old")
        before = picture(folder.path)
        with pytest.raises(TargetError, match="No space left") as caught:
            folder.write("file", b"x" * 1_000_000)
        assert "Free disk space" in (caught.value.hint or "")
        assert picture(folder.path) == before
        folder.write("file", b"there is room again")
        assert folder.read("file") == b"there is room again"


def test_no_descriptor_stays_open_whatever_happens(folder: ContainedFolder) -> None:
    """A server that is asked for bad names all day does not run out of them."""
    (folder.path / "link").symlink_to("/")
    os.mkfifo(folder.path / "pipe")
    before = descriptors()
    for place in (
        "link",
        "link/x",
        "pipe",
        "pipe/x",
        "missing/x",
        "file/x",
        "sub",
        "..",
        "sub/file",
    ):
        for act in ("open", "read", "listing", "create", "make_folder"):
            with suppress(SatchelError):
                ACTS[act](folder, place)
    assert descriptors() <= before


def test_threads_may_use_one_folder_together(folder: ContainedFolder) -> None:
    """Listings of the same folder do not disturb each other."""
    for number in range(50):
        folder.create(f"sub/{number}").close()
    counts: list[int] = []

    def look() -> None:
        for _ in range(50):
            counts.append(len(folder.listing("sub")))
            counts.append(len(folder.listing()) + 49)

    threads = [threading.Thread(target=look) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(counts) == {51}
    assert len(counts) == 400
