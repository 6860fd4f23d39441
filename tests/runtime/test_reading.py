"""What is not a file is refused at once, with a name and a reason."""

import errno
import os
import tempfile
from pathlib import Path

import pytest

from satchel.errors import MalformedError, TargetError, UnreadableError
from satchel.runtime.files import open_input, open_regular
from satchel.runtime.scratch import Spool


def test_a_file_is_read(tmp_path: Path) -> None:
    """The good case, also through a link."""
    path, link = tmp_path / "file", tmp_path / "link"
    path.write_bytes(b"here")
    link.symlink_to(path)
    for name in (path, link):
        with open_input(name) as stream:
            assert stream.read() == b"here"


@pytest.mark.parametrize("kind", ["folder", "fifo", "device", "missing", "loop", "long", "nul"])
def test_anything_but_a_regular_file_is_refused_immediately(tmp_path: Path, kind: str) -> None:
    """Attack: a pipe that never answers, a device that never ends, names that lead nowhere."""
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
def test_a_file_that_may_not_be_read_is_refused(tmp_path: Path) -> None:
    """The reason and who to ask."""
    path = tmp_path / "file"
    path.touch(mode=0)
    with pytest.raises(UnreadableError, match="Permission denied"):
        open_regular(path)


def test_errors_from_inside_name_the_file(tmp_path: Path) -> None:
    """A fault found while reading says where, and keeps a place that is known already."""
    path = tmp_path / "file"
    path.write_bytes(b"x")
    with pytest.raises(MalformedError) as caught, open_input(path):
        raise MalformedError("odd", line=3)
    assert (caught.value.file, caught.value.line) == (str(path), 3)
    with pytest.raises(UnreadableError) as failed, open_input(path):
        raise OSError(errno.EIO, os.strerror(errno.EIO))
    assert failed.value.file == str(path)


def test_a_spool_returns_what_was_written() -> None:
    """In memory and on disk alike."""
    for size in (10, 3_000_000):
        spool = Spool(memory_bytes=1000)
        spool.write(b"x" * size + b"\n")
        spool.write(b"y")
        assert spool.size == size + 2
        assert b"".join(spool.chunks()) == b"x" * size + b"\ny"
        assert [len(line) for line in spool.lines()] == [size + 1, 1]
        spool.close()
        spool.close()


def test_a_full_temporary_folder_is_an_error_with_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault: TMPDIR is full; the message says which folder and how to choose another."""
    spool = Spool(memory_bytes=0)

    class Full:
        """A file that takes nothing."""

        def write(self, data: bytes) -> None:
            """Refuse."""
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(spool, "_file", Full())
        with pytest.raises(TargetError) as caught:
            spool.write(b"x" * 3_000_000)
    assert caught.value.file == tempfile.gettempdir()
    assert "TMPDIR" in (caught.value.hint or "")
    spool.close()
