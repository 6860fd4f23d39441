"""In which stores this machine saw which banks, so that one that is gone is missed there alone.

The heads of a bank are remembered once for all stores: they bind every copy of it. What a store
has to have is remembered by store: one folder a store, named by a hash of its address, and in it
one file a bank. The file's name says the bank's id and a hash of its name; it holds the name. So a
second home or store misses nothing that was never there, and a home that moved or was copied has
its own folder from the first use on.
"""

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from blake3 import blake3

from satchel.disk.kept import opened
from satchel.disk.private import make_folders
from satchel.disk.writing import PRIVATE_FILE, writing
from satchel.errors import SatchelError

_FILE = re.compile(r"([0-9a-f]{64})-([0-9a-f]{16})")
_PREFIX = "blake3:"
_DIGITS = 16
_MOST_BYTES = 1 << 16


class Sighting(NamedTuple):
    """A bank that was seen in a store."""

    bank: str
    mark: str
    """The hash of its name; see ``mark_of``."""

    file: Path

    def name(self) -> str | None:
        """Return what the bank was called when it was seen last; None where that is not known."""
        with suppress(OSError, SatchelError, ValueError), opened(self.file, os.O_RDONLY) as handle:
            return os.read(handle, _MOST_BYTES).decode() or None
        return None


def mark_of(name: str | None) -> str:
    """Return the hash of a bank's name by which sightings are found."""
    return blake3((name or "").encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]


def sightings(folder: Path) -> Iterator[Sighting]:
    """Yield the banks that were seen in the store that a folder stands for."""
    with suppress(OSError):
        for file in sorted(folder.iterdir()):
            found = _FILE.fullmatch(file.name)
            if found is not None:
                yield Sighting(_PREFIX + found[1], found[2], file)


def note(folder: Path, bank: str, name: str | None) -> None:
    """Note that a bank is in a store, and what it is called; where nothing can be written, not."""
    digits = bank.removeprefix(_PREFIX)
    path = folder / f"{digits}-{mark_of(name)}"
    if path.exists():
        return
    with suppress(OSError, SatchelError):
        make_folders(folder)
        with writing(path, mode=PRIVATE_FILE) as stream:
            stream.write((name or "").encode("utf-8", "replace"))
        for other in folder.glob(f"{digits}-*"):
            if other != path and _FILE.fullmatch(other.name):
                other.unlink(missing_ok=True)


def drop(folder: Path, bank: str) -> bool:
    """Forget that a bank was seen in a store; tell whether it was."""
    found = [one for one in sightings(folder) if one.bank == bank]
    for one in found:
        one.file.unlink(missing_ok=True)
    return bool(found)


def elsewhere(folder: Path) -> set[str]:
    """Return the banks that were seen in any other store."""
    found = set[str]()
    with suppress(OSError):
        for other in folder.parent.iterdir():
            if other != folder:
                found.update(one.bank for one in sightings(other))
    return found
