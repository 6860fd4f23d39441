"""Fixtures of the runtime tests."""

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
from folder_kit import neighbor

from satchel.runtime.contained_folder import ContainedFolder


@pytest.fixture
def small_disk(mount_small: Callable[[str], Path]) -> Path:
    """A file system of 256 kB; making one needs root."""
    return mount_small("256k")


@pytest.fixture
def umask() -> Callable[[int], AbstractContextManager[None]]:
    """A context manager that changes the umask."""

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
    """A folder next to it with a file, which no test may change."""
    return neighbor(tmp_path)
