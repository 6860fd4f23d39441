"""A folder of source files, walked by its ignore files, without following links."""

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from blake3 import blake3

from satchel.code_graph.facts import SOURCE, Facts, ScanReport, SourceFile
from satchel.code_graph.languages.language import UnparsedError, language_called, language_of_file
from satchel.errors import InputError, LimitError, PathRefusedError
from satchel.runtime import files
from satchel.runtime.contained_folder import ContainedFolder
from satchel.runtime.files import stable_stamp

MOST_BYTES, MOST_PATTERNS, LONGEST = 1 << 20, 10_000, 1000
"""Maximum bytes of an ignore file, patterns in it, and bytes of a pattern. The rest is ignored."""

_ANY = "**"


class Pattern(NamedTuple):
    """One line of an ignore file."""

    parts: tuple[str, ...]
    """Parts of the pattern, from the folder of the ignore file; ``**`` first for any depth."""

    negated: bool
    folders_only: bool


def patterns_of(text: str) -> list[Pattern]:
    """Return the patterns of an ignore file, in order."""
    lines = text[:MOST_BYTES].splitlines()
    parsed = (_pattern(line) for line in lines[:MOST_PATTERNS] if len(line) <= LONGEST)
    return [pattern for pattern in parsed if pattern is not None]


def _pattern(line: str) -> Pattern | None:
    line = _without_spaces(line)
    if not line or line.startswith("#"):
        return None
    negated = line.startswith("!")
    line = line[negated:]
    folders_only = line.endswith("/")
    rooted = "/" in line.rstrip("/")
    parts = [part for part in _split(line) if part]
    if not parts:
        return None
    if not rooted:
        parts.insert(0, _ANY)
    content = [
        part for at, part in enumerate(parts) if part != _ANY or parts[at - 1 : at] != [_ANY]
    ]
    return Pattern(tuple(content), negated, folders_only)


_SET = re.compile(r"\[[!^]?\]?(?:\[:[a-z]+:\]|\\.|[^\]\\])*\]")


def _split(line: str) -> list[str]:
    """Split a pattern at its slashes, except for those in a set of characters."""
    parts, start, at, has_sets = list[str](), 0, 0, "]" in line
    while at < len(line):
        if line[at] == "/":
            parts.append(line[start:at])
            start = at + 1
        elif line[at] == "\\" and line[at + 1 : at + 2] != "/":
            at += 1
        elif line[at] == "[" and has_sets:
            end = _SET.match(line, at)
            has_sets = end is not None  # if one has no end, later ones have none
            at = end.end() - 1 if end is not None else at
        at += 1
    return [*parts, line[start:]]


def _without_spaces(line: str) -> str:
    """Return a line without trailing spaces, unless the last is escaped."""
    line = line.rstrip("\r\n")
    bare = line.rstrip(" ")
    escaped = len(bare) - len(bare.rstrip("\\"))
    return bare + " " if escaped % 2 and len(bare) < len(line) else bare


class IgnoreRules(NamedTuple):
    """The patterns that apply to a folder: its own, and those of the folders above it."""

    lists: tuple[tuple[int, list[Pattern]], ...] = ()
    """Each with the depth of its folder; the last match decides."""

    depth: int = 0

    def below(self) -> "IgnoreRules":
        """Return the rules of a subfolder, before its own patterns are added."""
        return self._replace(depth=self.depth + 1)

    def with_patterns(self, patterns: list[Pattern]) -> "IgnoreRules":
        """Return the rules with more patterns of the folder, which come last and so decide."""
        if not patterns:
            return self
        return self._replace(lists=(*self.lists, (self.depth, patterns)))

    def ignore(self, path: tuple[str, ...], *, folder: bool) -> bool:
        """Return whether a file or a folder is ignored.

        Args:
            path: Its parts, from the folder of the first rules; its parent is the folder of these
                rules.
            folder: Whether it is a folder.
        """
        for depth, patterns in reversed(self.lists):
            rest = path[depth:]
            for pattern in reversed(patterns):
                if (folder or not pattern.folders_only) and _matches(pattern.parts, rest):
                    return not pattern.negated
        return False


def _matches(pattern: tuple[str, ...], path: tuple[str, ...]) -> bool:
    """Return whether a path matches, backtracking to the last ``**`` only."""
    at, position = 0, 0
    back: tuple[int, int] | None = None
    while position < len(path):
        if at < len(pattern) and pattern[at] == _ANY:
            if at + 1 == len(pattern):
                return True  # everything inside
            back = (at + 1, position)
            at += 1
        elif at < len(pattern) and part_matches(pattern[at], path[position]):
            at, position = at + 1, position + 1
        elif back is not None:
            back = (back[0], back[1] + 1)
            at, position = back
        else:
            return False
    return at == len(pattern)


@lru_cache(maxsize=4096)
def _tokens(pattern: str) -> tuple[str, ...]:
    """Return a pattern as tokens: ``*`` and ``?`` are special, sets are ``[...``."""
    tokens, at = list[str](), 0
    while at < len(pattern):
        char = pattern[at]
        if char == "\\" and at + 1 < len(pattern):
            tokens.append("\\" + pattern[at + 1])
            at += 2
            continue
        if char == "[":
            end = _end_of_set(pattern, at)
            if end is not None:
                tokens.append(pattern[at : end + 1])
                at = end + 1
                continue
        if char != "*" or tokens[-1:] != ["*"]:
            tokens.append(char)
        at += 1
    return tuple(tokens)


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
    """Return whether one name matches a pattern with ``*``, ``?``, ``[a-z]`` and backslashes."""
    tokens = _tokens(pattern)
    at, position, star, retry = 0, 0, -1, 0
    while position < len(name):
        if at < len(tokens) and tokens[at] == "*":
            star, retry = at, position
            at += 1
        elif at < len(tokens) and _matches_char(tokens[at], name[position]):
            at, position = at + 1, position + 1
        elif star >= 0:
            retry += 1
            at, position = star + 1, retry
        else:
            return False
    return all(each == "*" for each in tokens[at:])


def _matches_char(element: str, char: str) -> bool:
    if element == "?":
        return True
    if element[0] == "[" and len(element) > 1:
        return _is_in_set(element[1:-1], char)
    return element[-1] == char if element[0] == "\\" else element == char


def _is_in_set(members: str, char: str) -> bool:
    negated = members[:1] in {"!", "^"}
    members, at, is_member = members[negated:], 0, False
    while at < len(members):
        at += members[at] == "\\" and at + 1 < len(members)
        low = members[at]
        if members[at + 1 : at + 2] == "-" and at + 2 < len(members):
            at += 2
            at += members[at] == "\\" and at + 1 < len(members)
            is_member = is_member or low <= char <= members[at]
        else:
            is_member = is_member or low == char
        at += 1
    return is_member != negated


LARGEST_FILE = 1 << 20
"""Maximum bytes of a file; larger ones are reported and skipped."""

MOST_FILES, DEEPEST = 100_000, 64
"""Maximum files of a tree, and nested folders."""

IGNORE_FILES = (".gitignore", ".satchelignore")
"""Their rules apply below their folder; those of the second come last."""

_NEVER = frozenset({".git", ".hg", ".svn", "node_modules", "__pycache__"})
_VENV = "pyvenv.cfg"
_MOST_ABOVE = 64
_DIGEST = 16


class SourceFolder:
    """The source files below a folder.

    A context manager. Links are not followed, so nothing outside the folder is read.

    Args:
        folder: The open folder.
        look_above: Whether the ignore files of its repository apply as well.
    """

    kind = SOURCE

    def __init__(self, folder: ContainedFolder, *, look_above: bool = True) -> None:
        self._folder = folder
        self._look_above = look_above
        self.root = written_out(folder.path)
        self.seen = ScanReport()
        self._last: tuple[str, bytes] = ("", b"")

    def offers(self) -> Iterator[SourceFile]:
        """Yield the source files, folder by folder.

        Raises:
            LimitError: If there are more than ``MOST_FILES``.
        """
        parts = self._folder.path.parts[1:]
        rules, depth = _above(self._folder.path) if self._look_above else (IgnoreRules(), 0)
        with self._folder.open_handle() as handle:
            walk = _Walk(self.seen, parts[len(parts) - depth :])
            for number, offer in enumerate(walk.through(handle, (), rules)):
                if number >= MOST_FILES:
                    raise LimitError(
                        f"more than {MOST_FILES:,} source files",
                        file=self.root,
                        hint="Index its parts, or exclude some with a .satchelignore file.",
                    )
                yield offer

    def digest(self, offer: SourceFile) -> bytes:
        """Return the digest of a file's bytes."""
        data = self._folder.read(offer.path, limit=LARGEST_FILE)
        self._last = offer.path, data
        return blake3(data).digest(length=_DIGEST)

    def facts(self, offer: SourceFile) -> Facts:
        """Return the facts of a file, or only a finding if it cannot be parsed."""
        path, data = self._last
        assert path == offer.path  # noqa: S101 - digest() is called first
        try:
            return language_called(offer.language).read(data)
        except UnparsedError as error:
            return Facts(offer.language, data.count(b"\n") + 1, (), (), (), str(error))


def written_out(path: Path) -> str:
    """Return a path as Unicode; invalid bytes are written as escapes."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


class _Walk:
    """A walk through a folder and its subfolders."""

    def __init__(self, seen: ScanReport, above: tuple[str, ...]) -> None:
        self._seen = seen
        self._above = above
        """Parts of the path from the folder of the first rules to the start."""

    def through(
        self, handle: int, parts: tuple[str, ...], rules: IgnoreRules
    ) -> Iterator[SourceFile]:
        """Yield the files of a folder, given by its descriptor."""
        path = "/".join(parts) or "."
        try:
            with os.scandir(handle) as listing:
                entries = sorted(listing, key=lambda entry: entry.name)
        except OSError as error:
            self._seen.find(path, f"cannot be listed: {error.strerror}")
            return
        names = {entry.name for entry in entries}
        if _VENV in names and parts:
            self._seen.ignored += 1
            return
        rules = self._with_own(handle, names, rules)
        folders = []
        for entry in entries:
            if not self._is_wanted(entry, parts, rules):
                continue
            if entry.is_dir(follow_symlinks=False):
                folders.append(entry.name)
            else:
                yield from self._file(entry, "/".join((*parts, entry.name)))
        for name in folders:
            yield from self._inside(handle, (*parts, name), rules)

    def _inside(
        self, handle: int, parts: tuple[str, ...], rules: IgnoreRules
    ) -> Iterator[SourceFile]:
        path = "/".join(parts)
        if len(parts) > DEEPEST:
            self._seen.find(path, f"more than {DEEPEST} folders deep")
            return
        try:
            inner = files.open_folder(Path(path), within=handle)
        except (OSError, PathRefusedError) as error:
            self._seen.find(path, f"cannot be opened: {error}")
            return
        try:
            yield from self.through(inner, parts, rules.below())
        finally:
            os.close(inner)

    def _is_wanted(
        self, entry: os.DirEntry[str], parts: tuple[str, ...], rules: IgnoreRules
    ) -> bool:
        if entry.is_symlink():
            self._seen.links += 1
            return False
        folder = entry.is_dir(follow_symlinks=False)
        if folder and entry.name in _NEVER:
            self._seen.ignored += 1
            return False
        if not folder and language_of_file(entry.name) is None:
            self._seen.others += 1
            return False
        if rules.ignore((*self._above, *parts, entry.name), folder=folder):
            self._seen.ignored += 1
            return False
        return True

    def _file(self, entry: os.DirEntry[str], path: str) -> Iterator[SourceFile]:
        language = language_of_file(entry.name)
        if not entry.is_file(follow_symlinks=False) or language is None:
            self._seen.others += 1
            return
        try:
            path.encode()
            status = entry.stat(follow_symlinks=False)
        except UnicodeEncodeError:
            self._seen.find(ascii(path), "its name is not Unicode")
            return
        except OSError as error:
            self._seen.find(path, f"cannot be read: {error.strerror}")
            return
        if status.st_size > LARGEST_FILE:
            self._seen.find(path, f"larger than {LARGEST_FILE:,} bytes")
            return
        yield SourceFile(path, language.name, stable_stamp(status))

    def _with_own(self, handle: int, names: set[str], rules: IgnoreRules) -> IgnoreRules:
        for name in IGNORE_FILES:
            if name in names:
                rules = rules.with_patterns(patterns_of(_text(handle, name)))
        return rules


def _text(handle: int, name: str) -> str:
    """Return the text of an ignore file; empty if it is not a regular file."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        with os.fdopen(os.open(name, flags, dir_fd=handle), "rb") as stream:
            return stream.read(MOST_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""


def _above(root: Path) -> tuple[IgnoreRules, int]:
    """Return the rules of the folders above, up to the root of the repository, and their number."""
    folders = [root]
    while not (folders[-1] / ".git").exists():
        if folders[-1].parent == folders[-1] or len(folders) > _MOST_ABOVE:
            return IgnoreRules(), 0  # no repository: only the rules inside apply
        folders.append(folders[-1].parent)
    rules = IgnoreRules()
    for folder in reversed(folders):
        with suppress(OSError, InputError):
            handle = files.open_folder(folder)
            try:
                if folder == folders[-1]:
                    rules = rules.with_patterns(patterns_of(_excluded(handle)))
                if folder == root:
                    break  # its own are read during the walk
                for name in IGNORE_FILES:
                    rules = rules.with_patterns(patterns_of(_text(handle, name)))
            finally:
                os.close(handle)
        rules = rules.below()
    return rules, len(folders) - 1


def _excluded(handle: int) -> str:
    return _text(handle, ".git/info/exclude")
