"""A folder of source files: walked without following links, as its ignore files say."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from blake3 import blake3

from satchel.code_graph.facts import Facts
from satchel.code_graph.languages.known import language_called, language_of_file
from satchel.code_graph.languages.language import UnparsedError
from satchel.code_graph.sources.ignoring import MOST_BYTES, Rules, patterns_of
from satchel.code_graph.sources.offer import SOURCE, Offer, Seen
from satchel.disk import opening
from satchel.disk.contained import ContainedFolder
from satchel.disk.stamp import settled
from satchel.errors import InputError, LimitError, PathRefusedError

LARGEST_FILE = 1 << 20
"""Bytes of a file that is read; larger ones are named and left out."""

MOST_FILES, DEEPEST = 100_000, 64
"""Files of one tree, and folders inside one another."""

IGNORE_FILES = (".gitignore", ".satchelignore")
"""Their rules hold below the folder they are in; those of the second come last."""

_NEVER = frozenset({".git", ".hg", ".svn", "node_modules", "__pycache__"})
_VENV = "pyvenv.cfg"
_MOST_ABOVE = 64
_DIGEST = 16


class Folder:
    """The source files below a folder.

    A context manager. Nothing that is laid in it leads out of it.

    Args:
        folder: It, held open.
        look_above: Whether the ignore files of the repository that it is in hold as well.
    """

    kind = SOURCE

    def __init__(self, folder: ContainedFolder, *, look_above: bool = True) -> None:
        self._folder = folder
        self._look_above = look_above
        self.root = written_out(folder.path)
        self.seen = Seen()
        self._last: tuple[str, bytes] = ("", b"")

    def offers(self) -> Iterator[Offer]:
        """Yield the source files, folder by folder.

        Raises:
            LimitError: If there are more than ``MOST_FILES``.
        """
        parts = self._folder.path.parts[1:]
        rules, depth = _above(self._folder.path) if self._look_above else (Rules(), 0)
        with self._folder.held() as handle:
            walk = _Walk(self.seen, parts[len(parts) - depth :])
            for number, offer in enumerate(walk.through(handle, (), rules)):
                if number >= MOST_FILES:
                    raise LimitError(
                        f"more than {MOST_FILES:,} source files",
                        file=self.root,
                        hint="Index its parts, or exclude some with a .satchelignore file.",
                    )
                yield offer

    def digest(self, offer: Offer) -> bytes:
        """Return the digest of a file's bytes."""
        data = self._folder.read(offer.path, limit=LARGEST_FILE)
        self._last = offer.path, data
        return blake3(data).digest(length=_DIGEST)

    def facts(self, offer: Offer) -> Facts:
        """Return what a file says; of one that is no program, only that."""
        path, data = self._last
        assert path == offer.path  # noqa: S101 - its digest was asked for
        try:
            return language_called(offer.language).read(data)
        except UnparsedError as error:
            return Facts(offer.language, data.count(b"\n") + 1, (), (), (), str(error))


def written_out(path: Path) -> str:
    """Return a path as Unicode: bytes of its name that are none are written as escapes."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


class _Walk:
    """Going through a folder, and the folders in it."""

    def __init__(self, seen: Seen, above: tuple[str, ...]) -> None:
        self._seen = seen
        self._above = above
        """Parts of the path between the folder with the first rules and the one we started in."""

    def through(self, handle: int, parts: tuple[str, ...], rules: Rules) -> Iterator[Offer]:
        """Yield what is in one folder, given by its descriptor."""
        shown = "/".join(parts) or "."
        try:
            with os.scandir(handle) as found:
                entries = sorted(found, key=lambda entry: entry.name)
        except OSError as error:
            self._seen.find(shown, f"cannot be listed: {error.strerror}")
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

    def _inside(self, handle: int, parts: tuple[str, ...], rules: Rules) -> Iterator[Offer]:
        shown = "/".join(parts)
        if len(parts) > DEEPEST:
            self._seen.find(shown, f"more than {DEEPEST} folders deep")
            return
        try:
            inner = opening.open_folder(Path(shown), within=handle)
        except (OSError, PathRefusedError) as error:
            self._seen.find(shown, f"cannot be opened: {error}")
            return
        try:
            yield from self.through(inner, parts, rules.below())
        finally:
            os.close(inner)

    def _is_wanted(self, entry: os.DirEntry[str], parts: tuple[str, ...], rules: Rules) -> bool:
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

    def _file(self, entry: os.DirEntry[str], path: str) -> Iterator[Offer]:
        language = language_of_file(entry.name)
        if not entry.is_file(follow_symlinks=False) or language is None:
            self._seen.others += 1
            return
        try:
            path.encode()
            found = entry.stat(follow_symlinks=False)
        except UnicodeEncodeError:
            self._seen.find(ascii(path), "its name is not Unicode")
            return
        except OSError as error:
            self._seen.find(path, f"cannot be read: {error.strerror}")
            return
        if found.st_size > LARGEST_FILE:
            self._seen.find(path, f"larger than {LARGEST_FILE:,} bytes")
            return
        yield Offer(path, language.name, settled(found))

    def _with_own(self, handle: int, names: set[str], rules: Rules) -> Rules:
        for name in IGNORE_FILES:
            if name in names:
                rules = rules.with_patterns(patterns_of(_text(handle, name)))
        return rules


def _text(handle: int, name: str) -> str:
    """Return what an ignore file says; nothing for one that is no plain file."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        with os.fdopen(os.open(name, flags, dir_fd=handle), "rb") as stream:
            return stream.read(MOST_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""


def _above(root: Path) -> tuple[Rules, int]:
    """Return the rules of the folders above, up to the top of the repository, and how many."""
    folders = [root]
    while not (folders[-1] / ".git").exists():
        if folders[-1].parent == folders[-1] or len(folders) > _MOST_ABOVE:
            return Rules(), 0  # no repository: only what is inside holds
        folders.append(folders[-1].parent)
    rules = Rules()
    for folder in reversed(folders):
        with suppress(OSError, InputError):
            handle = opening.open_folder(folder)
            try:
                if folder == folders[-1]:
                    rules = rules.with_patterns(patterns_of(_excluded(handle)))
                if folder == root:
                    break  # its own are read on the way
                for name in IGNORE_FILES:
                    rules = rules.with_patterns(patterns_of(_text(handle, name)))
            finally:
                os.close(handle)
        rules = rules.below()
    return rules, len(folders) - 1


def _excluded(handle: int) -> str:
    return _text(handle, ".git/info/exclude")
