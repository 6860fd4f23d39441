"""Telling for one ``stat`` that a file is what it was when it was read."""

import os
import time
from pathlib import Path
from typing import NamedTuple

_SETTLED_NS = 2_000_000_000
"""The clock of file times is coarse, at worst (FAT) two seconds: a file changed since could look
the same, so a younger one is looked into."""


class Stamp(NamedTuple):
    """What changes when a file does."""

    inode: int
    size: int
    changed_ns: int


def _stamp(found: os.stat_result) -> Stamp:
    return Stamp(found.st_ino, found.st_size, found.st_mtime_ns)


def settled(found: os.stat_result) -> Stamp | None:
    """Return the stamp of a file, None while a later change could have the same one."""
    return _stamp(found) if time.time_ns() - found.st_mtime_ns > _SETTLED_NS else None


def is_unchanged(path: Path, stamp: Stamp | None) -> bool:
    """Tell whether a file has the stamp still; False when there is no file or no stamp."""
    try:
        return stamp is not None and stamp == _stamp(path.lstat())
    except OSError:
        return False
