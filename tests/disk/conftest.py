"""What the tests of files share."""

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
from folder_kit import neighbour

from satchel.disk.contained import ContainedFolder


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 256 kB; making one needs root."""
    folder = tmp_path / "small"
    folder.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(folder)],
        check=False,
        capture_output=True,
    )
    if made.returncode:
        pytest.skip("a small file system can be mounted by root only")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


@pytest.fixture
def umask() -> Callable[[int], AbstractContextManager[None]]:
    """Give a block another umask."""

    @contextmanager
    def changed(mask: int) -> Iterator[None]:
        old = os.umask(mask)
        try:
            yield
        finally:
            os.umask(old)

    return changed


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[ContainedFolder]:
    """A folder with a file and a folder in it."""
    with ContainedFolder(tmp_path / "ours", create=True) as made:
        made.make_folder("sub")
        made.write("file", b"old")
        made.write("sub/file", b"old below")
        yield made


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A neighbour with a file, which nothing may touch."""
    return neighbour(tmp_path)
