"""Input files: streams of one held file, refused kinds of files, and outlets."""

import errno
import os
from pathlib import Path

import pytest

from satchel.errors import MalformedError, PathRefusedError, TargetError, UnreadableError
from satchel.runtime.files import OpenFile, open_input, open_regular
from satchel.runtime.output import Outlet

DATA = bytes(range(256)) * 2000


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file of half a megabyte."""
    found = tmp_path / "file"
    found.write_bytes(DATA)
    return found


def test_streams_of_one_file_have_separate_positions(path: Path) -> None:
    """As two files that were opened by name."""
    with OpenFile.named(path) as file, open_input(file) as one, open_regular(file) as other:
        assert one.read(10) == DATA[:10]
        assert other.seek(-5, os.SEEK_END) == len(DATA) - 5
        assert one.read(10) == DATA[10:20]
        assert other.read() == DATA[-5:]
        assert one.seek(5, os.SEEK_CUR) == 25
        assert one.read() == DATA[25:]
        assert (one.read(), other.tell()) == (b"", len(DATA))
        assert list(other) == []
        with pytest.raises(OSError, match="Invalid"):
            other.seek(-1)
        assert os.fstat(one.fileno()).st_size == len(DATA)


def test_attack_a_file_that_replaces_an_open_file_is_not_read(path: Path) -> None:
    """Header and body would come from two files, each valid by itself."""
    with OpenFile.named(path) as file:
        with open_input(file) as stream:
            assert stream.read(4) == DATA[:4]
        path.unlink()
        path.write_bytes(b"another")
        with open_input(file) as stream:
            assert stream.read() == DATA


def test_a_closed_file_is_not_read(path: Path) -> None:
    """Not even if its descriptor now belongs to another file."""
    file = OpenFile.named(path)
    stream = file.stream()
    file.close()
    file.close()
    with path.open("rb"), pytest.raises(OSError, match="Bad file"):
        stream.read(1)
    with pytest.raises(UnreadableError), open_input(file) as again:
        again.read(1)


def test_attack_a_sibling_of_an_outlet_is_written_to_the_same_folder(tmp_path: Path) -> None:
    """The folder is replaced with a link before the receipt is written."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "outside").mkdir()
    with Outlet.named(tmp_path / "folder" / "out.pam") as outlet:
        (tmp_path / "folder").rename(tmp_path / "moved")
        (tmp_path / "folder").symlink_to("outside")
        with (
            outlet.sibling("out.receipt.json") as receipt,
            receipt.writing(overwrite=False) as stream,
        ):
            stream.write(b"{}")
        for name in ("", ".", "..", "a/b", "a\0"):
            with pytest.raises(PathRefusedError):
                outlet.sibling(name)
    assert (tmp_path / "moved" / "out.receipt.json").read_bytes() == b"{}"
    assert list((tmp_path / "outside").iterdir()) == []


def test_an_operator_may_use_links_in_paths(tmp_path: Path) -> None:
    """Paths that are typed on this machine are trusted; a link at the end is replaced."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "real" / "out").symlink_to("elsewhere")
    with Outlet.named(tmp_path / "link" / "out") as outlet:
        assert outlet.status is not None
        with outlet.writing(overwrite=True) as stream:
            stream.write(b"x")
    assert (tmp_path / "real" / "out").read_bytes() == b"x"
    assert not (tmp_path / "real" / "elsewhere").exists()


def test_an_outlet_is_removed_by_its_name(tmp_path: Path) -> None:
    """Removing a missing file does nothing."""
    with Outlet.named(tmp_path / "out") as outlet:
        (tmp_path / "out").write_bytes(b"x")
        outlet.remove()
        outlet.remove()
        assert outlet.status is None
    assert list(tmp_path.iterdir()) == []


def test_an_outlet_in_a_missing_folder_is_refused(tmp_path: Path) -> None:
    """The hint says to create it."""
    with pytest.raises(TargetError, match="create it first"):
        Outlet.named(tmp_path / "none" / "out")
    with pytest.raises(TargetError, match="NUL"):
        Outlet.named(tmp_path / "a\0b")


def test_a_regular_file_is_read(tmp_path: Path) -> None:
    """Also through a link."""
    path, link = tmp_path / "file", tmp_path / "link"
    path.write_bytes(b"here")
    link.symlink_to(path)
    for name in (path, link):
        with open_input(name) as stream:
            assert stream.read() == b"here"


@pytest.mark.parametrize("kind", ["folder", "fifo", "device", "missing", "loop", "long", "nul"])
def test_attack_anything_but_a_regular_file_is_refused_without_waiting(
    tmp_path: Path, kind: str
) -> None:
    """A pipe that never answers, an endless device, invalid names."""
    path = tmp_path / {"long": "n" * 300, "nul": "a\0b"}.get(kind, "it")
    if kind == "folder":
        path.mkdir()
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "loop":
        path.symlink_to(path)
    elif kind == "device":
        path = Path("/dev/zero")
    with pytest.raises(UnreadableError) as caught, open_input(path):
        pytest.fail("the block must not run")
    assert caught.value.exit_status == 4
    assert path.name.split("\0")[0] in (caught.value.file or "")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_read_permission_is_a_typed_error(tmp_path: Path) -> None:
    """With the reason of the system."""
    path = tmp_path / "file"
    path.touch(mode=0)
    with pytest.raises(UnreadableError, match="Permission denied"):
        open_regular(path)


def test_errors_in_the_block_name_the_file(tmp_path: Path) -> None:
    """An error raised while reading gets the file name, and keeps its line."""
    path = tmp_path / "file"
    path.write_bytes(b"x")
    with pytest.raises(MalformedError) as caught, open_input(path):
        raise MalformedError("odd", line=3)
    assert (caught.value.file, caught.value.line) == (str(path), 3)
    with pytest.raises(UnreadableError) as failed, open_input(path):
        raise OSError(errno.EIO, os.strerror(errno.EIO))
    assert failed.value.file == str(path)
