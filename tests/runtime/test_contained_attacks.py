"""Nothing said to a contained folder, and nothing laid in it, leads out of it."""

import os
import stat
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from folder_kit import ACTS, Act, leftovers, neighbor, picture
from hypothesis import given
from hypothesis import strategies as st

from satchel.errors import (
    InputError,
    PathRefusedError,
    SatchelError,
    TargetError,
    TargetExistsError,
)
from satchel.runtime.contained_folder import ContainedFolder, FolderItem, RelativePath, parts_of

each_act = pytest.mark.parametrize("act", ACTS.values(), ids=ACTS)


_ODD_PARTS = st.sampled_from(
    ["..", ".", "", "/", "\\", "\0", "~", "link", "folder-link", "sub", "file", "deep", " ", "a\nb"]
)
_PARTS = st.one_of(_ODD_PARTS, st.text(max_size=5), st.text(st.characters(), min_size=80))
_PLACES = st.one_of(
    st.lists(
        st.sampled_from(["folder-link", "sub", "link", "file", "new"]), min_size=1, max_size=3
    ).map(tuple),
    st.lists(_PARTS, max_size=5).map(tuple),
    st.lists(_PARTS, max_size=5).map("/".join),
    st.text(alphabet="./\\ab\0", max_size=12),
)


@given(places=st.lists(st.tuples(st.sampled_from(sorted(ACTS)), _PLACES), min_size=5, max_size=30))
def test_for_all_places_nothing_outside_is_touched(places: list[tuple[str, RelativePath]]) -> None:
    """Whatever is done with whatever name: it works inside, or ends in one of our errors."""
    with tempfile.TemporaryDirectory() as temporary:
        above = Path(temporary)
        outside = neighbor(above)
        with ContainedFolder(above / "ours", create=True) as folder:
            folder.make_folder("sub/deep")
            folder.write("file", b"old")
            (folder.path / "link").symlink_to("../outside/file")
            (folder.path / "folder-link").symlink_to("../outside")
            (folder.path / "sub" / "link").symlink_to(outside)
            before = picture(outside)
            for act, place in places:
                with suppress(SatchelError):
                    assert ACTS[act](folder, place) != b"theirs"
            assert picture(outside) == before
            assert {found.name for found in above.iterdir()} == {"ours", "outside"}
            assert leftovers(above) == []


@given(place=_PLACES)
def test_for_all_places_the_parts_are_plain_names_or_refused(place: RelativePath) -> None:
    """What is let through is exactly what was said, part by part."""
    try:
        parts = parts_of(place)
    except PathRefusedError:
        return
    assert parts == (tuple(place.split("/")) if isinstance(place, str) else place)
    for part in parts:
        assert part not in {"", ".", ".."}
        assert not {"/", "\\", "\0"} & set(part)
        assert len(os.fsencode(part)) <= 255
    assert len(Path("/x", *parts).parts) == len(parts) + 2


@each_act
@pytest.mark.parametrize(
    "place",
    [
        "..",
        "../outside/file",
        "sub/../../outside/file",
        "sub/..",
        "/etc/passwd",
        "//etc",
        "./file",
        "sub//file",
        "sub/",
        "",
        "a\0b",
        "..\\outside",
        "n" * 256,
        "東" * 86,
        "/".join(["n" * 99] * 41),
        "\udc80",
        ("sub/file",),
        ("sub", ""),
    ],
    ids=ascii,
)
def test_a_place_that_is_no_list_of_names_is_refused(
    folder: ContainedFolder, act: Act, place: RelativePath
) -> None:
    """Attack: names from an archive that lead elsewhere."""
    before = picture(folder.path.parent)
    with pytest.raises(PathRefusedError) as caught:
        act(folder, place)
    assert (caught.value.exit_status, caught.value.code) == (4, "path.refused")
    assert isinstance(caught.value, InputError)
    assert picture(folder.path.parent) == before
    str(caught.value).encode()


def test_no_parts_at_all_are_the_folder_itself_for_listing_only(folder: ContainedFolder) -> None:
    """Nothing else can be done to the folder through itself."""
    assert len(folder.listing(())) == 2
    for name, act in ACTS.items():
        if name != "listing":
            with pytest.raises(PathRefusedError):
                act(folder, ())


def test_names_of_the_greatest_length_and_odd_looks_are_names(folder: ContainedFolder) -> None:
    """What a file system takes and cannot lead anywhere is kept."""
    for name in (
        "n" * 255,
        "東" * 85,
        "🧳" * 63,
        "...",
        "..a",
        "~",
        "-rf",
        " ",
        "a\nb",
        "C:x",
        "*",
    ):
        folder.write((name,), b"x")
        assert folder.read(name) == b"x"
        assert FolderItem(name, "file") in folder.listing()


@each_act
@pytest.mark.parametrize("position", [0, 1, 2])
@pytest.mark.parametrize("absolute", [True, False])
def test_a_link_in_the_place_of_any_folder_is_refused(
    folder: ContainedFolder,
    outside: Path,
    act: Act,
    position: int,
    *,
    absolute: bool,
) -> None:
    """Attack: a link at each component, to a folder outside or (relative) inside."""
    parts = ["a", "b", "c"]
    for at in range(4):
        (outside / Path(*parts[:at])).mkdir(exist_ok=True)
    (outside / "a/b/c/file").write_bytes(b"theirs")
    folder.make_folder("/".join(["real", *parts]))
    folder.write("/".join(["real", *parts, "file"]), b"ours")
    if position:
        folder.make_folder("/".join(parts[:position]))
    target = outside / Path(*parts[: position + 1])
    link = folder.path.joinpath(*parts[: position + 1])
    link.symlink_to(target if absolute else os.path.relpath(target, link.parent))
    before = picture(folder.path.parent)
    place = (*parts, "file")
    with pytest.raises(PathRefusedError, match="link") as caught:
        act(folder, place)
    assert caught.value.file == str(link)
    assert picture(folder.path.parent) == before


@pytest.mark.parametrize("leads_to", ["outside/file", "outside/new", "ours/sub/file", "ours/link"])
def test_a_link_in_a_files_place_is_never_followed(
    folder: ContainedFolder, outside: Path, leads_to: str
) -> None:
    """Attack: the last part; reading is refused, writing and removing concern the link itself."""
    link = folder.path / "link"
    link.symlink_to(folder.path.parent / leads_to)
    theirs, below = picture(outside), folder.read("sub/file")
    for act in ("open", "read", "make_folder", "listing"):
        with pytest.raises(PathRefusedError, match="link"):
            ACTS[act](folder, "link")
    for act in ("create", "write once"):
        with pytest.raises(TargetExistsError):
            ACTS[act](folder, "link")
    assert FolderItem("link", "link") in folder.listing()
    folder.rename("link", "sub/link")
    folder.rename("sub/link", "link")
    assert link.is_symlink()
    folder.write("link", b"new")
    assert not link.is_symlink()
    assert folder.read("link") == b"new"
    folder.remove("link")
    link.symlink_to(folder.path.parent / leads_to)
    folder.rename("file", "link", overwrite=True)
    assert folder.read("link") == b"old"
    folder.remove("link")
    link.symlink_to(folder.path.parent / leads_to)
    folder.remove("link")
    assert (picture(outside), folder.read("sub/file")) == (theirs, below)


@contextmanager
def exchanging(folder: Path, target: Path) -> Iterator[None]:
    """For the block, let a thread put a link to ``target`` in a folder's place, and back."""
    real, link = folder.with_name("real"), folder.with_name("link")
    link.symlink_to(target)
    started, done = threading.Event(), threading.Event()

    def exchange() -> None:
        while not done.is_set():
            folder.rename(real)
            link.rename(folder)
            started.set()
            folder.rename(link)
            real.rename(folder)

    attacker = threading.Thread(target=exchange)
    attacker.start()
    try:
        assert started.wait(60)
        yield
    finally:
        done.set()
        attacker.join()


def test_a_folder_exchanged_for_a_link_while_files_are_written_leads_nowhere(
    folder: ContainedFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Race: one thread exchanges a folder and a link to outside all the time.

    500 files are written, read, moved and removed through it; outside, nothing changes.
    """
    monkeypatch.setattr(os, "fsync", lambda _: None)  # more exchanges in less time
    outside = neighbor(tmp_path)
    before = picture(outside)
    written = refused = 0
    with exchanging(folder.path / "sub", outside):
        while written < 500 or not refused:
            name = ("sub", f"{written}")
            try:
                folder.write(name, b"ours")
                written += 1
                assert folder.read(name) == b"ours"
                folder.rename(name, ("sub", "moved"), overwrite=True)
                folder.remove(("sub", "file"))
            except SatchelError:
                refused += 1
    assert picture(outside) == before
    assert leftovers(tmp_path) == []


def test_the_folder_itself_exchanged_for_a_link_makes_no_difference(
    folder: ContainedFolder, outside: Path
) -> None:
    """Race: it is held open, so what is said to it reaches it wherever it is."""
    moved = folder.path.with_name("moved")
    folder.path.rename(moved)
    folder.path.symlink_to(outside)
    before = picture(outside)
    folder.write("new", b"ours")
    assert (moved / "new").read_bytes() == b"ours"
    assert folder.read("file") == b"old"
    assert picture(outside) == before


@pytest.mark.parametrize("private", [True, False])
@pytest.mark.parametrize("create", [True, False])
@pytest.mark.parametrize("kind", ["link", "dangling", "file", "fifo"])
def test_a_folder_that_is_none_is_refused(
    tmp_path: Path, outside: Path, kind: str, *, create: bool, private: bool
) -> None:
    """Attack: the whole folder led elsewhere; nothing is made where it leads."""
    path = tmp_path / "ours"
    if kind == "file":
        path.touch()
    elif kind == "fifo":
        os.mkfifo(path)
    else:
        path.symlink_to(outside if kind == "link" else tmp_path / "nowhere")
    before = picture(tmp_path)
    with pytest.raises(PathRefusedError):
        ContainedFolder(path, create=create, private=private)
    assert picture(tmp_path) == before


@each_act
@pytest.mark.parametrize("kind", ["fifo", "device"])
def test_pipes_and_devices_are_not_waited_for(folder: ContainedFolder, act: Act, kind: str) -> None:
    """Attack: a pipe that nobody writes to, a terminal; as a file and as a folder."""
    path = folder.path / "odd"
    if kind == "fifo":
        os.mkfifo(path)
    elif os.geteuid() == 0:
        os.mknod(path, 0o600 | stat.S_IFCHR, os.makedev(5, 0))
    else:
        pytest.skip("only root may make devices")
    assert FolderItem("odd", "other") in folder.listing()
    with pytest.raises(PathRefusedError, match="not a folder"):
        act(folder, "odd/file")
    with suppress(TargetError, PathRefusedError):
        act(folder, "odd")  # removing it, moving it and putting a file in its place are good


def test_in_a_private_folder_a_file_with_a_second_name_is_refused(
    folder: ContainedFolder, outside: Path
) -> None:
    """Attack: a hard link to another's file; elsewhere hard links are nobody's business."""
    (folder.path / "twin").hardlink_to(outside / "file")
    assert folder.read("twin") == b"theirs"
    with ContainedFolder(folder.path, private=True) as private:
        with pytest.raises(PathRefusedError, match="2 names"):
            private.read("twin")
        private.write("twin", b"ours")
        assert private.read("twin") == b"ours"
    assert (outside / "file").read_bytes() == b"theirs"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_in_a_private_folder_what_belongs_to_another_is_refused(folder: ContainedFolder) -> None:
    """Attack: a file, or a whole folder, laid there by another user."""
    os.chown(folder.path / "file", 12345, 12345)
    os.chown(folder.path / "sub", 12345, 12345)
    with ContainedFolder(folder.path, private=True) as private:
        for place in ("file", "sub/file"):
            with pytest.raises(PathRefusedError, match="another user"):
                private.read(place)
