"""Roots: no path and no planted link gives access to files outside."""

import os
import socket
import stat
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from descriptors_kit import descriptors
from folder_kit import leftovers, neighbor, picture
from hypothesis import given
from hypothesis import strategies as st

from satchel.errors import (
    ContainmentError,
    PathRefusedError,
    SatchelError,
    TargetExistsError,
    UnreadableError,
)
from satchel.runtime.files import refuse_irregular
from satchel.runtime.roots import Roots


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A root with a file in a folder, next to ``outside``."""
    neighbor(tmp_path)
    folder = tmp_path / "root" / "sub"
    folder.mkdir(parents=True)
    (folder / "file").write_bytes(b"ours")
    return tmp_path / "root"


def read(path: str | Path, *roots: list[str | Path]) -> bytes:
    """Read a file in the roots."""
    with Roots(*roots).open_file(path) as file, file.stream() as stream:
        return stream.read()


def write(path: str | Path, *roots: list[str | Path], overwrite: bool = True) -> None:
    """Write a file in the roots."""
    with Roots(*roots).open_outlet(path) as outlet, outlet.writing(overwrite=overwrite) as stream:
        stream.write(b"new")


Access = Callable[..., object]
each_access = pytest.mark.parametrize("access", [read, write])


def test_files_in_a_root_are_read_and_written(root: Path) -> None:
    """With mode 0600 under every umask; complete, or refused when the file exists."""
    assert read(root / "sub" / "file", [root]) == b"ours"
    was = os.umask(0)
    try:
        write(root / "sub" / "new", [root])
    finally:
        os.umask(was)
    assert stat.S_IMODE((root / "sub" / "new").stat().st_mode) == 0o600
    write(root / "sub" / "file", [root])
    assert read(root / "sub" / "file", [root]) == b"new"
    with pytest.raises(TargetExistsError):
        write(root / "sub" / "file", [root], overwrite=False)
    assert leftovers(root) == []


def test_a_relative_path_is_resolved_from_the_current_folder(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``./backup.pam`` works if the current folder is in a root."""
    monkeypatch.chdir(root / "sub")
    assert read("./file", [root]) == b"ours"
    monkeypatch.chdir(root.parent)
    with pytest.raises(ContainmentError, match="is outside"):
        read("outside/file", [root])


def test_attack_changing_the_current_folder_has_no_effect(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another thread changes it between the check and the use."""
    monkeypatch.chdir(root / "sub")
    with Roots([root]).open_outlet("new") as outlet, Roots([root]).open_file("file") as file:
        monkeypatch.chdir(root.parent / "outside")
        with outlet.writing(overwrite=False) as stream:
            stream.write(b"new")
        assert file.stream().read() == b"ours"
        assert outlet.written().stream().read() == b"new"
    assert (root / "sub" / "new").read_bytes() == b"new"
    assert [found.name for found in (root.parent / "outside").iterdir()] == ["file"]


@each_access
def test_a_missing_current_folder_is_refused(
    root: Path, access: Access, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without it a relative path has no meaning."""
    gone = root / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(ContainmentError, match="current folder no longer exists"):
        access("file", [root])


@each_access
@pytest.mark.parametrize(
    "said",
    [
        "{root}/../outside/file",
        "{root}/sub/../../outside/file",
        "../outside/file",
        "{outside}/file",
        "/etc/passwd",
        "{root}-sibling/file",
        "{root}",
        "{root}/",
        "/",
        "",
        ".",
        "~/file",
        "~root/file",
        "{root}/~/file",
        "{root}/file\0",
        "{root}/\0../outside/file",
        "{root}/sub/fi\nle",
        "{root}/sub/file\x7f",
        "{root}/sub/file\x85",
        "{root}/sub/\u202eelif",
        "{root}/sub/\u2066file",
        "{root}/sub/\u200efile",
        "{root}/sub/file\ud800",
        "{root}/sub/file.",
        "{root}/sub/file ",
        "{root}/sub /file",
        "{root}/sub./file",
        "{root}/sub/file\u3000",
        "{root}/sub\\..\\..\\outside\\file",
        "{root}/" + "x" * 256,
        "{root}/" + "x/" * 2500 + "file",
        "/proc/self/root{outside}/file",
        "/proc/self/cwd/file",
        "/proc/self/fd/0",
        "/proc/self/environ",
        "/dev/fd/0",
        "/dev/stdin",
        "/dev/zero",
        "/dev/null/file",
        "/sys/kernel/notes",
        "//{outside}/file",
    ],
)
def test_attack_a_path_that_leads_out_is_refused_before_any_file_is_opened(
    root: Path, access: Access, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``..``, a tilde, control and bidirectional characters, system folders."""
    monkeypatch.chdir(root)
    outside = root.parent / "outside"
    (root.parent / "root-sibling").mkdir()
    before = picture(root.parent)
    opened: list[Any] = []

    def noted(*said: Any, **more: Any) -> int:
        opened.append(said)
        return really(*said, **more)

    really = os.open
    monkeypatch.setattr(os, "open", noted)
    with pytest.raises(ContainmentError) as caught:
        access(said.format(root=root, outside=outside), [root])
    monkeypatch.undo()
    assert isinstance(caught.value, ValueError)
    assert opened == []
    assert picture(root.parent) == before


@each_access
@pytest.mark.parametrize("said", ["/proc/self/root/etc/passwd", "/dev/fd/0", "/sys/x", "/proc/1"])
def test_attack_system_folders_are_refused_even_with_the_root_slash(
    access: Access, said: str
) -> None:
    """Their files lead to the open files of any process."""
    with pytest.raises(ContainmentError, match="system folder"):
        access(said, ["/"])


def test_a_path_of_bytes_is_a_typed_error(root: Path) -> None:
    """It cannot be compared with the roots."""
    with pytest.raises(ContainmentError, match="must be text"):
        Roots([root]).open_file(os.fsencode(root / "sub" / "file"))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "said",
    ["", ".", "exports", "./exports", "~/exports", "/a/../b", "/srv/a\0", "/proc", "/dev"],
)
def test_attack_a_relative_root_is_refused(said: str) -> None:
    """It would move with the current folder."""
    with pytest.raises(ContainmentError):
        Roots([said])


@each_access
def test_lists_of_roots_intersect(root: Path, access: Access) -> None:
    """A second list narrows the first and never widens it, in any order."""
    path = root / "sub" / "file"
    everything, narrow, other = ["/"], [root / "sub"], [root.parent / "outside"]
    access(path, everything, narrow)
    access(path, narrow, everything)
    for lists in ([narrow, other], [other, everything], [narrow, []], [[], everything]):
        with pytest.raises(ContainmentError):
            access(path, *lists)
    with pytest.raises(ContainmentError):
        access(root.parent / "outside" / "file", everything, narrow)


@each_access
def test_an_empty_list_of_roots_permits_no_path(root: Path, access: Access) -> None:
    """It is not the same as no list."""
    with pytest.raises(ContainmentError, match="empty"):
        access(root / "sub" / "file", [])


@each_access
def test_attack_a_link_at_any_part_of_a_path_is_refused(root: Path, access: Access) -> None:
    """A folder on the way or the file itself; also a link that stays inside."""
    outside = root.parent / "outside"
    before = picture(outside)
    (root / "out").symlink_to(outside)
    (root / "in").symlink_to("sub")
    (root / "sub" / "link").symlink_to(outside / "file")
    (root / "sub" / "nowhere").symlink_to(outside / "made")
    for path in ("out/file", "in/file", "out/new", "sub/link", "sub/nowhere"):
        with pytest.raises(PathRefusedError, match="link"):
            access(root / path, [root])
    assert picture(outside) == before


@each_access
def test_attack_a_root_that_is_a_link_is_refused(root: Path, access: Access) -> None:
    """Otherwise its target could be exchanged."""
    (root.parent / "link").symlink_to(root)
    (root.parent / "above").symlink_to(root.parent)
    for said in (root.parent / "link", root.parent / "above" / "root"):
        with pytest.raises(PathRefusedError, match="link"):
            access(said / "sub" / "file", [said])


def test_attack_a_link_planted_after_opening_has_no_effect(root: Path) -> None:
    """Folder, root and file are exchanged between the check and the use."""
    outside = root.parent / "outside"
    before = picture(outside)
    path = root / "sub" / "file"
    with Roots([root]).open_file(path) as file, Roots([root]).open_outlet(path) as outlet:
        path.unlink()
        path.symlink_to(outside / "file")
        (root / "sub").rename(root / "aside")
        (root / "sub").symlink_to(outside)
        root.rename(root.parent / "moved")
        root.symlink_to(outside)
        assert file.stream().read() == b"ours"
        assert file.stream().read(2) == b"ou"
        with pytest.raises(PathRefusedError, match="link"), outlet.writing(overwrite=True):
            pass
        (root.parent / "moved" / "aside" / "file").unlink()
        with outlet.writing(overwrite=False) as stream:
            stream.write(b"new")
        assert outlet.written().stream().read() == b"new"
    assert picture(outside) == before
    assert (root.parent / "moved" / "aside" / "file").read_bytes() == b"new"


def test_attack_a_link_planted_at_the_target_during_a_write_is_replaced(root: Path) -> None:
    """It is planted after the check, and is not written through."""
    outside = root.parent / "outside"
    before = picture(outside)
    path = root / "sub" / "new"
    with (
        Roots([root]).open_outlet(path) as outlet,
        outlet.writing(overwrite=True) as stream,
    ):
        stream.write(b"new")
        path.symlink_to(outside / "file")
    assert (path.is_symlink(), path.read_bytes()) == (False, b"new")
    assert picture(outside) == before


def test_attack_a_file_that_replaces_the_output_is_not_read_back(root: Path) -> None:
    """Another file, signed by any key, replaces the export."""
    path = root / "sub" / "new"
    with Roots([root]).open_outlet(path) as outlet:
        with outlet.writing(overwrite=True) as stream:
            stream.write(b"new")
        (root / "sub" / "file").rename(path)
        with pytest.raises(PathRefusedError, match="another program replaced"):
            outlet.written()


@each_access
def test_attack_a_hard_link_to_a_file_outside_is_refused(root: Path, access: Access) -> None:
    """It would be read, or overwritten."""
    outside = root.parent / "outside" / "file"
    os.link(outside, root / "sub" / "hard")
    with pytest.raises(PathRefusedError, match="2 names"):
        access(root / "sub" / "hard", [root])
    assert outside.read_bytes() == b"theirs"


@each_access
def test_attack_a_pipe_socket_or_folder_is_refused_without_waiting(
    root: Path, access: Access
) -> None:
    """Opening a pipe without a writer would block for ever."""
    os.mkfifo(root / "pipe")
    (root / "folder").mkdir()
    with socket.socket(socket.AF_UNIX) as listening:
        here = Path.cwd()
        os.chdir(root)  # the name of a socket is short
        try:
            listening.bind("socket")
        finally:
            os.chdir(here)
        for name in ("pipe", "socket", "folder"):
            with pytest.raises(PathRefusedError, match="not a regular file"):
                access(root / name, [root])


@each_access
def test_attack_a_device_is_refused(root: Path, access: Access) -> None:
    """/dev/zero under another name never ends. Without permission to create one, a fake is used."""
    with pytest.raises(PathRefusedError, match="not a regular file"):
        refuse_irregular(Path("/dev/zero").stat(), root / "device")
    with suppress(PermissionError):
        os.mknod(root / "device", 0o600 | stat.S_IFCHR, os.makedev(1, 5))
        with pytest.raises((PathRefusedError, UnreadableError)):
            access(root / "device", [root])


@each_access
@pytest.mark.parametrize("mode", [0o777, 0o707, 0o722])
def test_attack_a_world_writable_folder_is_refused(root: Path, access: Access, mode: int) -> None:
    """Another user could exchange what was written there.

    The temporary folder is accepted: its sticky bit prevents that.
    """
    access(root / "sub" / "file", [root])
    for folder in (root, root / "sub"):
        folder.chmod(mode)
        with pytest.raises(PathRefusedError, match="every user may write"):
            access(root / "sub" / "file", [root])
        folder.chmod(mode | stat.S_ISVTX)
        access(root / "sub" / "file", [root])
        folder.chmod(0o755)


@each_access
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_attack_a_folder_of_another_user_is_refused(root: Path, access: Access) -> None:
    """Its owner can place anything there at any moment."""
    os.chown(root / "sub", 12345, -1)
    with pytest.raises(PathRefusedError, match="uid 12345"):
        access(root / "sub" / "file", [root])


def test_a_missing_root_is_not_created(root: Path) -> None:
    """No folder is created on the way to a file."""
    missing = root.parent / "missing"
    with pytest.raises(SatchelError, match="No such file"):
        write(missing / "file", [missing])
    with pytest.raises(SatchelError, match="No such file"):
        read(missing / "file", [missing])
    assert not missing.exists()


def test_a_refusal_names_the_roots_only_to_the_operator(root: Path) -> None:
    """``public``, for remote callers, contains the reason and no name of this machine."""
    with pytest.raises(ContainmentError) as caught:
        read("/etc/passwd", [root])
    assert str(root) in str(caught.value)
    assert caught.value.problem()["roots"] == [str(root)]
    said = str(caught.value.public())
    assert str(root) not in said
    assert "passwd" not in said
    assert "is outside" in said


def test_roots_close_their_descriptors(root: Path) -> None:
    """After successes and refusals alike."""
    (root / "sub" / "link").symlink_to("file")
    before = descriptors()
    for _ in range(10):
        read(root / "sub" / "file", [root])
        write(root / "sub" / "file", [root])
        for access in (read, write):
            with pytest.raises(PathRefusedError):
                access(root / "sub" / "link", [root])
            with pytest.raises(SatchelError):
                access(root / "none" / "file", [root])
    assert descriptors() <= before


_PARTS = st.one_of(
    st.sampled_from(["..", ".", "", "~", "link", "out", "sub", "file", "hard", " ", "a\nb", "new"]),
    st.text(max_size=4),
)
_SAID = st.one_of(
    st.lists(_PARTS, max_size=5).map("/".join),
    st.text(alphabet="./~\\ab\0", max_size=10),
)


@given(said=st.lists(_SAID, min_size=5, max_size=20), absolute=st.booleans())
def test_attack_no_path_changes_a_file_outside_the_roots(said: list[str], absolute: bool) -> None:  # noqa: FBT001
    """For all paths: an operation works inside, or raises a typed error."""
    with tempfile.TemporaryDirectory() as temporary:
        above = Path(temporary)
        outside = neighbor(above)
        root = above / "root"
        (root / "sub").mkdir(parents=True)
        (root / "file").write_bytes(b"ours")
        (root / "link").symlink_to("../outside/file")
        (root / "out").symlink_to("../outside")
        (root / "sub" / "out").symlink_to(outside)
        os.link(outside / "file", root / "hard")
        before, here = picture(outside), Path.cwd()
        os.chdir(root)
        try:
            for text in said:
                path = f"{root}/{text}" if absolute else text
                with suppress(SatchelError):
                    assert read(path, [root]) != b"theirs"
                with suppress(SatchelError):
                    write(path, [root])
        finally:
            os.chdir(here)
        assert picture(outside) == before
        assert {found.name for found in above.iterdir()} == {"root", "outside"}
        assert leftovers(above) == []


@pytest.mark.prove
@pytest.mark.parametrize("what", ["folder", "file", "root"])
def test_attack_a_thread_that_swaps_links_gets_no_access_outside(tmp_path: Path, what: str) -> None:
    """A part of the path alternates with a link to the same names outside."""
    outside = neighbor(tmp_path)
    (outside / "sub").mkdir()
    for path in ("sub/file", "secret"):
        (outside / path).write_bytes(b"theirs")
    root = tmp_path / "root"
    (root / "sub").mkdir(parents=True)
    (root / "sub" / "file").write_bytes(b"ours")
    target = {"folder": root / "sub", "file": root / "sub" / "file", "root": root}[what]
    lure = {"folder": outside / "sub", "file": outside / "secret", "root": outside}[what]
    before = picture(outside)
    ends = Counter[str]()
    end = time.monotonic() + 1
    with _swapping_link(target, lure):
        while time.monotonic() < end:
            for act in (_read_in_root, _write_in_root):
                try:
                    act(root, root / "sub" / "file")
                    ends[act.__name__] += 1
                except PathRefusedError:
                    ends["refused"] += 1
                except SatchelError:  # no such file, for a moment
                    pass
    assert picture(outside) == before
    assert ends.keys() == {"_read_in_root", "_write_in_root", "refused"}


def _read_in_root(root: Path, path: Path) -> None:
    with Roots([root]).open_file(path) as file:
        assert file.stream().read() in {b"ours", b"new"}


def _write_in_root(root: Path, path: Path) -> None:
    with Roots([root]).open_outlet(path) as outlet:
        with outlet.writing(overwrite=True) as stream:
            stream.write(b"new")
        with outlet.written() as written:
            assert written.stream().read() == b"new"


@contextmanager
def _swapping_link(target: Path, lure: Path) -> Iterator[None]:
    """In the block, exchange a name and a link as fast as possible."""
    stop = threading.Event()
    aside, link = target.with_name("aside"), target.with_name("link")

    def swap() -> None:
        while not stop.is_set():
            try:
                target.rename(aside)
                link.symlink_to(lure)
                link.rename(target)
                stop.wait(0.0002)  # so that the other side meets it, and gets through, now and then
                target.unlink()
                aside.rename(target)
                stop.wait(0.0002)
            except OSError:  # the other side made the name meanwhile
                link.unlink(missing_ok=True)
                if target.is_symlink():
                    target.unlink()
                if aside.exists():
                    aside.rename(target)

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
