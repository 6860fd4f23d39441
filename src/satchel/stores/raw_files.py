"""Files as raw bytes, for whoever looks through them for what must not be there."""

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from satchel.ports.store import Extent

_PIECE = 1 << 20


def below(folder: Path) -> Iterator[Extent]:
    """Yield the files in a folder and those below it; links are not followed."""
    for path in sorted(folder.rglob("*")) if folder.is_dir() else ():
        if is_plain(path):
            yield file_extent(path)


def beside(path: Path) -> Iterator[Extent]:
    """Yield a file, and those beside it whose names go on from its own."""
    for other in sorted(path.parent.iterdir()) if path.parent.is_dir() else ():
        if other.name.startswith(path.name) and is_plain(other):
            yield file_extent(other)


def is_plain(path: Path) -> bool:
    """Tell whether there is a file: no link, pipe or device."""
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        return False


def file_extent(path: Path) -> Extent:
    """Return the bytes of a file."""

    def pieces() -> Iterator[bytes]:
        with suppress(FileNotFoundError):
            handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            with os.fdopen(handle, "rb") as stream:
                while piece := stream.read(_PIECE):
                    yield piece

    return Extent(str(path), pieces)
