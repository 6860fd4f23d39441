"""Contained folders: complete and private writes, and no access outside of the folder."""

import errno
import os
import stat
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

import pytest
from descriptors_kit import descriptors
from folder_kit import ACTS, Act, leftovers, neighbor, picture
from hypothesis import given
from hypothesis import strategies as st

from satchel.errors import (
    InputError,
    LimitError,
    PathRefusedError,
    SatchelError,
    TargetError,
    TargetExistsError,
    UnreadableError,
)
from satchel.runtime.contained_folder import ContainedFolder, FolderItem, RelativePath, parts_of
from satchel.runtime.files import ModeRepair

Umask = Callable[[int], AbstractContextManager[None]]


def test_written_files_can_be_read_listed_and_moved(folder: ContainedFolder) -> None:
    """Each method, with joined and with single path parts."""
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


def test_a_missing_or_closed_folder_is_a_typed_error(tmp_path: Path) -> None:
    """From every method."""
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


def test_new_files_and_folders_are_private_under_every_umask(
    folder: ContainedFolder, umask: Umask
) -> None:
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


def test_a_private_folder_repairs_and_reports_open_modes(tmp_path: Path, umask: Umask) -> None:
    """At each opening, of the folder, its folders and its files; other folders are not changed."""
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


def test_a_file_over_the_size_limit_is_refused(folder: ContainedFolder) -> None:
    """Without reading all of it."""
    assert folder.read("file", limit=3) == b"old"
    with pytest.raises(LimitError, match="more than 2 bytes"):
        folder.read("file", limit=2)
    os.truncate(folder.path / "file", 1 << 40)
    with pytest.raises(LimitError):
        folder.read("file", limit=1000)


def test_missing_parts_are_reported(folder: ContainedFolder) -> None:
    """When reading, removing or moving; a missing folder on the way, by name."""
    for act in ("open", "read", "listing", "remove", "rename from"):
        with pytest.raises(UnreadableError, match="No such file") as caught:
            ACTS[act](folder, "missing")
        assert caught.value.file == str(folder.path / "missing")
    for act in ("write", "create"):
        with pytest.raises(TargetError, match="No such file"):
            ACTS[act](folder, "missing/file")


def test_existing_targets_are_replaced_only_with_overwrite(folder: ContainedFolder) -> None:
    """A file does not replace a folder, and a folder with files is not removed."""
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
def test_a_failed_system_call_leaves_no_partial_file(
    folder: ContainedFolder, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """The former content stays, no temporary file, and no open descriptor."""

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    before = picture(folder.path)
    with monkeypatch.context() as patched:
        patched.setattr(os, call, refuse)
        with pytest.raises(TargetError, match="Input/output"):
            folder.write("sub/file", b"new")
    assert picture(folder.path) == before


def test_an_exception_in_the_block_leaves_the_file_unchanged(folder: ContainedFolder) -> None:
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


def test_a_written_file_and_its_name_are_synced_to_disk(
    folder: ContainedFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file before it gets its name, the folder after; each change of names, too."""
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


def test_a_full_disk_leaves_the_file_unchanged(small_disk: Path) -> None:
    """A real file system without free space."""
    with ContainedFolder(small_disk / "ours", create=True) as folder:
        folder.write("file", b"old")
        before = picture(folder.path)
        with pytest.raises(TargetError, match="No space left") as caught:
            folder.write("file", b"x" * 1_000_000)
        assert "Free disk space" in (caught.value.hint or "")
        assert picture(folder.path) == before
        folder.write("file", b"there is room again")
        assert folder.read("file") == b"there is room again"


def test_no_descriptor_stays_open_after_errors(folder: ContainedFolder) -> None:
    """A server that gets invalid names all day does not run out of descriptors."""
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


def test_threads_can_share_one_folder(folder: ContainedFolder) -> None:
    """Concurrent listings of a folder do not affect each other."""
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
def test_attack_no_path_changes_a_file_outside_the_folder(
    places: list[tuple[str, RelativePath]],
) -> None:
    """For all paths: an operation works inside, or raises a typed error."""
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
def test_every_accepted_path_consists_of_plain_names(place: RelativePath) -> None:
    """For all paths: an accepted path is used exactly as given."""
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
def test_attack_a_path_that_is_not_a_list_of_plain_names_is_refused(
    folder: ContainedFolder, act: Act, place: RelativePath
) -> None:
    """For example names from an archive that lead elsewhere."""
    before = picture(folder.path.parent)
    with pytest.raises(PathRefusedError) as caught:
        act(folder, place)
    assert (caught.value.exit_status, caught.value.code) == (4, "path.refused")
    assert isinstance(caught.value, InputError)
    assert picture(folder.path.parent) == before
    str(caught.value).encode()


def test_an_empty_path_is_accepted_only_by_listing(folder: ContainedFolder) -> None:
    """It is the folder itself."""
    assert len(folder.listing(())) == 2
    for name, act in ACTS.items():
        if name != "listing":
            with pytest.raises(PathRefusedError):
                act(folder, ())


def test_unusual_and_maximum_length_names_are_accepted(folder: ContainedFolder) -> None:
    """A name that cannot lead anywhere is preserved."""
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
def test_attack_a_link_in_place_of_any_folder_is_refused(
    folder: ContainedFolder,
    outside: Path,
    act: Act,
    position: int,
    *,
    absolute: bool,
) -> None:
    """At each level of the path, to a folder outside or (relative) inside."""
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
def test_attack_a_link_in_place_of_a_file_is_never_followed(
    folder: ContainedFolder, outside: Path, leads_to: str
) -> None:
    """Reading is refused; writing and removing affect the link itself."""
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
def swapping_with_link(folder: Path, target: Path) -> Iterator[None]:
    """In the block, a thread exchanges the folder and a link to ``target``."""
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


def test_attack_swapping_a_folder_with_a_link_during_writes_changes_nothing_outside(
    folder: ContainedFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread exchanges a folder and a link to outside all the time.

    500 files are written, read, moved and removed through it.
    """
    monkeypatch.setattr(os, "fsync", lambda _: None)  # more exchanges in less time
    outside = neighbor(tmp_path)
    before = picture(outside)
    written = refused = 0
    with swapping_with_link(folder.path / "sub", outside):
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


def test_attack_replacing_the_folder_with_a_link_has_no_effect(
    folder: ContainedFolder, outside: Path
) -> None:
    """The folder is held open, so every operation reaches it wherever it is."""
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
def test_attack_a_link_or_file_in_place_of_the_folder_is_refused(
    tmp_path: Path, outside: Path, kind: str, *, create: bool, private: bool
) -> None:
    """Nothing is created at the target of the link."""
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
def test_attack_pipes_and_devices_do_not_block(
    folder: ContainedFolder, act: Act, kind: str
) -> None:
    """As a file and as a folder."""
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


def test_attack_a_hard_link_in_a_private_folder_is_refused(
    folder: ContainedFolder, outside: Path
) -> None:
    """In other folders hard links are accepted."""
    (folder.path / "twin").hardlink_to(outside / "file")
    assert folder.read("twin") == b"theirs"
    with ContainedFolder(folder.path, private=True) as private:
        with pytest.raises(PathRefusedError, match="2 names"):
            private.read("twin")
        private.write("twin", b"ours")
        assert private.read("twin") == b"ours"
    assert (outside / "file").read_bytes() == b"theirs"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_attack_files_of_other_users_in_a_private_folder_are_refused(
    folder: ContainedFolder,
) -> None:
    """A file, or a whole folder, created by another user."""
    os.chown(folder.path / "file", 12345, 12345)
    os.chown(folder.path / "sub", 12345, 12345)
    with ContainedFolder(folder.path, private=True) as private:
        for place in ("file", "sub/file"):
            with pytest.raises(PathRefusedError, match="another user"):
                private.read(place)
