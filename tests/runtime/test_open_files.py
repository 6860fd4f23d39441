"""A file that is held open is read from one and the same file, however often."""

import os
from pathlib import Path

import pytest

from satchel.errors import PathRefusedError, TargetError, UnreadableError
from satchel.runtime.files import OpenFile, open_input, open_regular
from satchel.runtime.output import Outlet

DATA = bytes(range(256)) * 2000


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file of half a megabyte."""
    found = tmp_path / "file"
    found.write_bytes(DATA)
    return found


def test_streams_of_one_file_do_not_move_each_other(path: Path) -> None:
    """Each has a position of its own, as two that were opened by name have."""
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


def test_what_takes_its_name_is_not_read(path: Path) -> None:
    """Attack: header and body of two files, each good by itself."""
    with OpenFile.named(path) as file:
        with open_input(file) as stream:
            assert stream.read(4) == DATA[:4]
        path.unlink()
        path.write_bytes(b"another")
        with open_input(file) as stream:
            assert stream.read() == DATA


def test_a_closed_file_is_not_read(path: Path) -> None:
    """Not even where its descriptor is another file's by now."""
    file = OpenFile.named(path)
    stream = file.stream()
    file.close()
    file.close()
    with path.open("rb"), pytest.raises(OSError, match="Bad file"):
        stream.read(1)
    with pytest.raises(UnreadableError), open_input(file) as again:
        again.read(1)


def test_what_is_written_beside_goes_to_the_same_folder(tmp_path: Path) -> None:
    """Attack: the folder is exchanged for a link before the receipt is written."""
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


def test_a_person_may_go_through_links(tmp_path: Path) -> None:
    """What is typed at this machine is taken as it is; a link at the end is replaced."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "real" / "out").symlink_to("elsewhere")
    with Outlet.named(tmp_path / "link" / "out") as outlet:
        assert outlet.status is not None
        with outlet.writing(overwrite=True) as stream:
            stream.write(b"x")
    assert (tmp_path / "real" / "out").read_bytes() == b"x"
    assert not (tmp_path / "real" / "elsewhere").exists()


def test_what_is_removed_is_the_name_in_the_folder(tmp_path: Path) -> None:
    """And nothing when it is gone already."""
    with Outlet.named(tmp_path / "out") as outlet:
        (tmp_path / "out").write_bytes(b"x")
        outlet.remove()
        outlet.remove()
        assert outlet.status is None
    assert list(tmp_path.iterdir()) == []


def test_an_outlet_in_no_folder_is_refused(tmp_path: Path) -> None:
    """With the advice to make it."""
    with pytest.raises(TargetError, match="create it first"):
        Outlet.named(tmp_path / "none" / "out")
    with pytest.raises(TargetError, match="NUL"):
        Outlet.named(tmp_path / "a\0b")
