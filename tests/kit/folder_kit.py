"""Operations on contained folders, and snapshots to detect changes."""

import stat
from collections.abc import Callable
from pathlib import Path

from satchel.runtime.contained_folder import ContainedFolder, RelativePath

Act = Callable[[ContainedFolder, RelativePath], object]

ACTS: dict[str, Act] = {
    "open": lambda folder, place: folder.open(place).close(),
    "read": lambda folder, place: folder.read(place),
    "create": lambda folder, place: folder.create(place).close(),
    "write": lambda folder, place: folder.write(place, b"new"),
    "write once": lambda folder, place: folder.write(place, b"new", overwrite=False),
    "listing": lambda folder, place: folder.listing(place),
    "make_folder": lambda folder, place: folder.make_folder(place),
    "remove": lambda folder, place: folder.remove(place),
    "rename from": lambda folder, place: folder.rename(place, "renamed"),
    "rename to": lambda folder, place: folder.rename("file", place, overwrite=True),
}


def neighbor(above: Path) -> Path:
    """Create a folder with a file."""
    path = above / "outside"
    path.mkdir()
    (path / "file").write_bytes(b"theirs")
    return path


def picture(path: Path) -> dict[str, tuple[int, bytes]]:
    """Return everything below a path: modes and contents, without following links."""
    found = {}
    for at in sorted(path.rglob("*")):
        status = at.lstat()
        content = at.read_bytes() if stat.S_ISREG(status.st_mode) else b""
        found[str(at.relative_to(path))] = (status.st_mode, content)
    return found


def leftovers(path: Path) -> list[str]:
    """Return the names of temporary files."""
    return [found.name for found in path.rglob("*.tmp")]
