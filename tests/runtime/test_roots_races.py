"""Links that are exchanged while something is read and written: nothing outside is touched."""

import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from folder_kit import neighbor, picture

from satchel.errors import PathRefusedError, SatchelError
from satchel.runtime.roots import Roots


@pytest.mark.prove
@pytest.mark.parametrize("what", ["folder", "file", "root"])
def test_a_thread_that_swaps_links_for_a_second_gets_nothing_out(tmp_path: Path, what: str) -> None:
    """Attack: a part of the path is now the real one, now a link to the same names outside."""
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
    with _swapping(target, lure):
        while time.monotonic() < end:
            for act in (_read, _write):
                try:
                    act(root, root / "sub" / "file")
                    ends[act.__name__] += 1
                except PathRefusedError:
                    ends["refused"] += 1
                except SatchelError:  # no such file, for a moment
                    pass
    assert picture(outside) == before
    assert ends.keys() == {"_read", "_write", "refused"}


def _read(root: Path, path: Path) -> None:
    with Roots([root]).open_file(path) as file:
        assert file.stream().read() in {b"ours", b"new"}


def _write(root: Path, path: Path) -> None:
    with Roots([root]).open_outlet(path) as outlet:
        with outlet.writing(overwrite=True) as stream:
            stream.write(b"new")
        with outlet.written() as written:
            assert written.stream().read() == b"new"


@contextmanager
def _swapping(target: Path, lure: Path) -> Iterator[None]:
    """Exchange a name for a link and back, as fast as it goes."""
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
