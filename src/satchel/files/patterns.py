"""Patterns of paths, matched in time that a pattern from outside cannot make long."""

import fnmatch
import re
from collections.abc import Callable

from satchel.errors import MemoryStoreError

_Parts = list[re.Pattern[str] | None]


def fitting(pattern: str) -> Callable[[str], bool]:
    """Return what tells whether a path fits; in time that grows with the path alone."""
    if not pattern or len(pattern) > 1_000:  # noqa: PLR2004
        raise MemoryStoreError("a pattern must be text of at most 1,000 characters")
    parts = [part for part in pattern.split("/") if part]
    if parts.count("**") > 4 or any(part.count("*") > 4 for part in parts):  # noqa: PLR2004
        raise MemoryStoreError("a pattern can have at most four stars in a segment, and four '**'")
    each: _Parts = [None if part == "**" else re.compile(fnmatch.translate(part)) for part in parts]

    def fits(path: str) -> bool:
        names = path.split("/")
        reached = {0}
        for name in names:
            following: set[int] = set()
            for at in reached:
                following |= _step(each, at, name)
            reached = following
        return len(each) in _skipped(each, reached)

    return fits


def _step(each: _Parts, at: int, name: str) -> set[int]:
    """Return where in a pattern one may be after one more part of a path."""
    found = set()
    while at < len(each) and each[at] is None:
        found.add(at)  # the stars take it
        at += 1
    here = each[at] if at < len(each) else None
    if here is not None and here.match(name):
        found.add(at + 1)
    return found


def _skipped(each: _Parts, reached: set[int]) -> set[int]:
    found = set(reached)
    for start in reached:
        at = start
        while at < len(each) and each[at] is None:
            at += 1
            found.add(at)
    return found
