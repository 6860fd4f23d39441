"""Nothing said to roots, and nothing laid in them, is outside of them."""

import os
import socket
import stat
import tempfile
from collections.abc import Callable
from contextlib import suppress
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
    """A root with a file in a folder; ``outside`` is beside it."""
    neighbor(tmp_path)
    folder = tmp_path / "root" / "sub"
    folder.mkdir(parents=True)
    (folder / "file").write_bytes(b"ours")
    return tmp_path / "root"


def read(path: str | Path, *roots: list[str | Path]) -> bytes:
    """Read a file in roots."""
    with Roots(*roots).open_file(path) as file, file.stream() as stream:
        return stream.read()


def write(path: str | Path, *roots: list[str | Path], overwrite: bool = True) -> None:
    """Write a file in roots."""
    with Roots(*roots).open_outlet(path) as outlet, outlet.writing(overwrite=overwrite) as stream:
        stream.write(b"new")


Door = Callable[..., object]
each_door = pytest.mark.parametrize("door", [read, write])


def test_what_is_in_a_root_is_read_and_written(root: Path) -> None:
    """With mode 0600 under every umask; whole, or refused when it is there already."""
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


def test_a_relative_path_is_that_of_the_current_folder(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``./backup.pam`` works, where the current folder is in a root."""
    monkeypatch.chdir(root / "sub")
    assert read("./file", [root]) == b"ours"
    monkeypatch.chdir(root.parent)
    with pytest.raises(ContainmentError, match="is outside"):
        read("outside/file", [root])


def test_a_change_of_the_current_folder_changes_nothing(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Attack: another thread changes the folder between the check and the use."""
    monkeypatch.chdir(root / "sub")
    with Roots([root]).open_outlet("new") as outlet, Roots([root]).open_file("file") as file:
        monkeypatch.chdir(root.parent / "outside")
        with outlet.writing(overwrite=False) as stream:
            stream.write(b"new")
        assert file.stream().read() == b"ours"
        assert outlet.written().stream().read() == b"new"
    assert (root / "sub" / "new").read_bytes() == b"new"
    assert [found.name for found in (root.parent / "outside").iterdir()] == ["file"]


@each_door
def test_a_missing_current_folder_is_refused(
    root: Path, door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A relative path means nothing there."""
    gone = root / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(ContainmentError, match="current folder no longer exists"):
        door("file", [root])


@each_door
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
def test_a_path_that_leads_out_by_its_words_is_refused_before_anything_is_opened(
    root: Path, door: Door, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Attacks: ``..``, a tilde, control characters, bidirectional ones, the system's folders."""
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
        door(said.format(root=root, outside=outside), [root])
    monkeypatch.undo()
    assert isinstance(caught.value, ValueError)
    assert opened == []
    assert picture(root.parent) == before


@each_door
@pytest.mark.parametrize("said", ["/proc/self/root/etc/passwd", "/dev/fd/0", "/sys/x", "/proc/1"])
def test_the_folders_of_the_system_are_refused_under_a_root_of_everything(
    door: Door, said: str
) -> None:
    """Attack: names there lead to the open files of any process."""
    with pytest.raises(ContainmentError, match="system folder"):
        door(said, ["/"])


def test_a_path_of_bytes_is_refused_as_an_error_of_ours(root: Path) -> None:
    """What is not text was never compared with the roots."""
    with pytest.raises(ContainmentError, match="must be text"):
        Roots([root]).open_file(os.fsencode(root / "sub" / "file"))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "said",
    ["", ".", "exports", "./exports", "~/exports", "/a/../b", "/srv/a\0", "/proc", "/dev"],
)
def test_a_root_that_could_be_more_than_one_folder_is_refused(said: str) -> None:
    """Attack: a relative root moves with the current folder."""
    with pytest.raises(ContainmentError):
        Roots([said])


@each_door
def test_roots_intersect(root: Path, door: Door) -> None:
    """A second list narrows the first and never widens it, whichever of them comes first."""
    path = root / "sub" / "file"
    everything, narrow, other = ["/"], [root / "sub"], [root.parent / "outside"]
    door(path, everything, narrow)
    door(path, narrow, everything)
    for lists in ([narrow, other], [other, everything], [narrow, []], [[], everything]):
        with pytest.raises(ContainmentError):
            door(path, *lists)
    with pytest.raises(ContainmentError):
        door(root.parent / "outside" / "file", everything, narrow)


@each_door
def test_an_empty_list_allows_nothing(root: Path, door: Door) -> None:
    """It is not the same as no list."""
    with pytest.raises(ContainmentError, match="empty"):
        door(root / "sub" / "file", [])


@each_door
def test_a_link_at_any_part_is_refused(root: Path, door: Door) -> None:
    """Attack: a link to a folder outside, on the way or as the file; one that stays inside, too."""
    outside = root.parent / "outside"
    before = picture(outside)
    (root / "out").symlink_to(outside)
    (root / "in").symlink_to("sub")
    (root / "sub" / "link").symlink_to(outside / "file")
    (root / "sub" / "nowhere").symlink_to(outside / "made")
    for path in ("out/file", "in/file", "out/new", "sub/link", "sub/nowhere"):
        with pytest.raises(PathRefusedError, match="link"):
            door(root / path, [root])
    assert picture(outside) == before


@each_door
def test_a_root_that_is_a_link_is_refused(root: Path, door: Door) -> None:
    """Attack: who can exchange the root, or what it is in, for a link chooses where it leads."""
    (root.parent / "link").symlink_to(root)
    (root.parent / "above").symlink_to(root.parent)
    for said in (root.parent / "link", root.parent / "above" / "root"):
        with pytest.raises(PathRefusedError, match="link"):
            door(said / "sub" / "file", [said])


def test_a_link_laid_after_the_opening_changes_nothing(root: Path) -> None:
    """Attack: the folder, the root and the file are exchanged between the check and the use."""
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


def test_a_link_laid_at_the_target_while_it_is_written_is_replaced(root: Path) -> None:
    """Attack: it appears after the look at what is there, and is not written through."""
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


def test_what_took_the_place_of_the_output_is_not_read_back(root: Path) -> None:
    """Attack: another file, signed by anybody, is put where the export was written."""
    path = root / "sub" / "new"
    with Roots([root]).open_outlet(path) as outlet:
        with outlet.writing(overwrite=True) as stream:
            stream.write(b"new")
        (root / "sub" / "file").rename(path)
        with pytest.raises(PathRefusedError, match="another program replaced"):
            outlet.written()


@each_door
def test_a_hard_link_out_of_the_root_is_refused(root: Path, door: Door) -> None:
    """Attack: a second name of a file outside is read, or written over."""
    outside = root.parent / "outside" / "file"
    os.link(outside, root / "sub" / "hard")
    with pytest.raises(PathRefusedError, match="2 names"):
        door(root / "sub" / "hard", [root])
    assert outside.read_bytes() == b"theirs"


@each_door
def test_a_pipe_socket_or_folder_is_refused_and_not_waited_for(root: Path, door: Door) -> None:
    """Attack: opening a pipe that nobody writes to would hang for ever."""
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
                door(root / name, [root])


@each_door
def test_a_device_is_refused(root: Path, door: Door) -> None:
    """Attack: /dev/zero under another name never ends. Where none can be made, its like is."""
    with pytest.raises(PathRefusedError, match="not a regular file"):
        refuse_irregular(Path("/dev/zero").stat(), root / "device")
    with suppress(PermissionError):
        os.mknod(root / "device", 0o600 | stat.S_IFCHR, os.makedev(1, 5))
        with pytest.raises((PathRefusedError, UnreadableError)):
            door(root / "device", [root])


@each_door
@pytest.mark.parametrize("mode", [0o777, 0o707, 0o722])
def test_a_folder_in_which_everyone_may_write_is_refused(root: Path, door: Door, mode: int) -> None:
    """Attack: another user exchanges what was written there.

    The folder for temporary files is good: nobody can exchange there what another made.
    """
    door(root / "sub" / "file", [root])
    for folder in (root, root / "sub"):
        folder.chmod(mode)
        with pytest.raises(PathRefusedError, match="every user may write"):
            door(root / "sub" / "file", [root])
        folder.chmod(mode | stat.S_ISVTX)
        door(root / "sub" / "file", [root])
        folder.chmod(0o755)


@each_door
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_another_users_folder_is_refused(root: Path, door: Door) -> None:
    """Attack: its owner can lay anything there at any moment."""
    os.chown(root / "sub", 12345, -1)
    with pytest.raises(PathRefusedError, match="uid 12345"):
        door(root / "sub" / "file", [root])


def test_a_root_that_is_not_there_is_not_made(root: Path) -> None:
    """Nothing is made on the way to a file."""
    missing = root.parent / "missing"
    with pytest.raises(SatchelError, match="No such file"):
        write(missing / "file", [missing])
    with pytest.raises(SatchelError, match="No such file"):
        read(missing / "file", [missing])
    assert not missing.exists()


def test_a_refusal_names_the_roots_to_the_operator_and_nothing_to_others(root: Path) -> None:
    """``public`` is for a caller elsewhere: it says what is wrong, and no name of this machine."""
    with pytest.raises(ContainmentError) as caught:
        read("/etc/passwd", [root])
    assert str(root) in str(caught.value)
    assert caught.value.problem()["roots"] == [str(root)]
    said = str(caught.value.public())
    assert str(root) not in said
    assert "passwd" not in said
    assert "is outside" in said


def test_descriptors_are_closed(root: Path) -> None:
    """After successes and refusals alike."""
    (root / "sub" / "link").symlink_to("file")
    before = descriptors()
    for _ in range(10):
        read(root / "sub" / "file", [root])
        write(root / "sub" / "file", [root])
        for door in (read, write):
            with pytest.raises(PathRefusedError):
                door(root / "sub" / "link", [root])
            with pytest.raises(SatchelError):
                door(root / "none" / "file", [root])
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
def test_for_all_paths_nothing_outside_is_touched(said: list[str], absolute: bool) -> None:  # noqa: FBT001
    """Whatever is said: it works inside, or ends in one of our errors."""
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
