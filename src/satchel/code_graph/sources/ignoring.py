"""What a ``.gitignore`` leaves out, by git's rules (gitignore(5)).

Patterns come with the source tree, so they are matched without regular expressions: whatever one
says, the time is bounded by its length times that of the path.
"""

from functools import lru_cache
from typing import NamedTuple

MOST_BYTES, MOST_PATTERNS, LONGEST = 1 << 20, 10_000, 1000
"""Of one ignore file; of patterns in it; bytes of one pattern. What is beyond is not looked at."""

_ANY = "**"


class Pattern(NamedTuple):
    """One line of an ignore file."""

    parts: tuple[str, ...]
    """Of the path, from the folder that the file is in; the first is ``**`` for any depth."""

    negated: bool
    folders_only: bool


def patterns_of(text: str) -> list[Pattern]:
    """Return the patterns of an ignore file, in its order."""
    lines = text[:MOST_BYTES].splitlines()
    found = (_pattern(line) for line in lines[:MOST_PATTERNS] if len(line) <= LONGEST)
    return [pattern for pattern in found if pattern is not None]


def _pattern(line: str) -> Pattern | None:
    line = _without_spaces(line)
    if not line or line.startswith("#"):
        return None
    negated = line.startswith("!")
    line = line[negated:]
    folders_only = line.endswith("/")
    rooted = "/" in line.rstrip("/")
    parts = [part for part in line.split("/") if part]
    if not parts:
        return None
    if not rooted:
        parts.insert(0, _ANY)
    kept = [part for at, part in enumerate(parts) if part != _ANY or parts[at - 1 : at] != [_ANY]]
    return Pattern(tuple(kept), negated, folders_only)


def _without_spaces(line: str) -> str:
    """Return a line without the spaces at its end, unless the last is escaped."""
    line = line.rstrip("\r\n")
    bare = line.rstrip(" ")
    escaped = len(bare) - len(bare.rstrip("\\"))
    return bare + " " if escaped % 2 and len(bare) < len(line) else bare


class Rules(NamedTuple):
    """The patterns that hold in a folder: its own, and those of the folders above it."""

    lists: tuple[tuple[int, list[Pattern]], ...] = ()
    """Each with how deep the folder is that it is of; the later ones decide."""

    depth: int = 0

    def below(self) -> "Rules":
        """Return what holds in a folder of the folder, before its own patterns are added."""
        return self._replace(depth=self.depth + 1)

    def with_patterns(self, patterns: list[Pattern]) -> "Rules":
        """Return what holds with more patterns of the folder, which come last and so decide."""
        if not patterns:
            return self
        return self._replace(lists=(*self.lists, (self.depth, patterns)))

    def ignore(self, path: tuple[str, ...], *, folder: bool) -> bool:
        """Tell whether a file or a folder is left out.

        Args:
            path: Its parts, from the folder where the first rules are; its folder is the one that
                these rules are of.
            folder: Whether it is a folder.
        """
        for depth, patterns in reversed(self.lists):
            rest = path[depth:]
            for pattern in reversed(patterns):
                if (folder or not pattern.folders_only) and _matches(pattern.parts, rest):
                    return not pattern.negated
        return False


def _matches(pattern: tuple[str, ...], path: tuple[str, ...]) -> bool:
    """Tell whether a path matches, going back to the last ``**`` only."""
    at, place = 0, 0
    back: tuple[int, int] | None = None
    while place < len(path):
        if at < len(pattern) and pattern[at] == _ANY:
            if at + 1 == len(pattern):
                return True  # everything inside
            back = (at + 1, place)
            at += 1
        elif at < len(pattern) and part_matches(pattern[at], path[place]):
            at, place = at + 1, place + 1
        elif back is not None:
            back = (back[0], back[1] + 1)
            at, place = back
        else:
            return False
    return at == len(pattern)


@lru_cache(maxsize=4096)
def _tokens(pattern: str) -> tuple[str, ...]:
    """Return a pattern as its characters; ``*`` and ``?`` alone are special, sets are ``[...``."""
    found, at = list[str](), 0
    while at < len(pattern):
        char = pattern[at]
        if char == "\\" and at + 1 < len(pattern):
            found.append("\\" + pattern[at + 1])
            at += 2
            continue
        if char == "[":
            end = _end_of_set(pattern, at)
            if end is not None:
                found.append(pattern[at : end + 1])
                at = end + 1
                continue
        if char != "*" or found[-1:] != ["*"]:
            found.append(char)
        at += 1
    return tuple(found)


def _end_of_set(pattern: str, start: int) -> int | None:
    at = start + 1
    if pattern[at : at + 1] in {"!", "^"}:
        at += 1
    at += pattern[at : at + 1] == "]"
    while at < len(pattern):
        if pattern[at] == "]":
            return at
        at += 2 if pattern[at] == "\\" else 1
    return None


def part_matches(pattern: str, name: str) -> bool:
    """Tell whether one name matches a pattern with ``*``, ``?``, ``[a-z]`` and backslashes."""
    tokens = _tokens(pattern)
    at, place, star, kept = 0, 0, -1, 0
    while place < len(name):
        if at < len(tokens) and tokens[at] == "*":
            star, kept = at, place
            at += 1
        elif at < len(tokens) and _is_one(tokens[at], name[place]):
            at, place = at + 1, place + 1
        elif star >= 0:
            kept += 1
            at, place = star + 1, kept
        else:
            return False
    return all(each == "*" for each in tokens[at:])


def _is_one(wanted: str, char: str) -> bool:
    if wanted == "?":
        return True
    if wanted[0] == "[" and len(wanted) > 1:
        return _is_in_set(wanted[1:-1], char)
    return wanted[-1] == char if wanted[0] == "\\" else wanted == char


def _is_in_set(members: str, char: str) -> bool:
    negated = members[:1] in {"!", "^"}
    members, at, found = members[negated:], 0, False
    while at < len(members):
        at += members[at] == "\\" and at + 1 < len(members)
        low = members[at]
        if members[at + 1 : at + 2] == "-" and at + 2 < len(members):
            at += 2
            at += members[at] == "\\" and at + 1 < len(members)
            found = found or low <= char <= members[at]
        else:
            found = found or low == char
        at += 1
    return found != negated
