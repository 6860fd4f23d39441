"""Folders that paths from outside may lead into, and cannot lead out of.

A path is first checked as text, before anything is opened. Then it is walked from ``/``, each part
opened relative to the one before, and links are not followed: the checked path is the opened one. A
root is walked the same way; a root that is reached through a link is refused, since comparing it as
text would mean nothing.
"""

import os
import re
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from satchel.errors import ContainmentError, PathRefusedError
from satchel.runtime.contained_folder import ContainedFolder, parts_of
from satchel.runtime.files import OpenFile, file_errors, open_file, open_folder, refuse_other_names
from satchel.runtime.output import Outlet

PathInput = str | os.PathLike[str]
"""A path from outside."""

_Parts = tuple[str, ...]

_ODD = re.compile(
    "[\x00-\x1f\x7f-\x9f"  # control characters
    "\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff"  # bidirectional, invisible
    "\ud800-\udfff\ufff9-\ufffb\U000e0000-\U000e007f]"
)
"""Characters that make a name look like another one, or end early."""

_CONTROL = re.compile("[\x00-\x1f\x7f]")

_SYSTEM = frozenset({"dev", "proc", "sys"})
"""Folders whose names lead anywhere: to open files, other processes, devices."""


class Roots:
    """The allowed folders.

    Args:
        lists: Lists of absolute folders. A path must be in one folder of each list, so a second
            list can only restrict the first; an empty one allows nothing.

    Raises:
        ContainmentError: If a root is relative, or not a valid path.
    """

    def __init__(self, *lists: Iterable[PathInput]) -> None:
        self._lists = [[_root(said) for said in roots] for roots in lists]

    def open_file(self, path: PathInput) -> OpenFile:
        """Open a file for reading; the caller closes it.

        Raises:
            ContainmentError: If the path is not in the roots.
            PathRefusedError: If there is a link or another user's folder on the way, or it is not a
                regular file or has a second name.
            UnreadableError: If it does not exist, or may not be read.
        """
        parts, depth = self._allowed(path)
        absolute = Path("/", *parts)
        with file_errors(absolute, writes=False):
            folder = _walked(parts[:-1], depth)
            try:
                handle = open_file(absolute, os.O_RDONLY, within=folder)
            finally:
                os.close(folder)
            file = OpenFile(handle, absolute)
            try:
                refuse_other_names(file.status, absolute)
            except BaseException:
                file.close()
                raise
            return file

    def open_folder(self, path: PathInput) -> ContainedFolder:
        """Open a folder, which may be a root, for reading its files; the caller closes it.

        Raises:
            ContainmentError: If the path is not in the roots.
            PathRefusedError: If there is a link or another user's folder on the way.
            UnreadableError: If it does not exist, or may not be read.
        """
        parts, depth = self._allowed(path, itself=True)
        absolute = Path("/", *parts)
        with file_errors(absolute, writes=False):
            passed = _walked(parts[:-1], depth)
            try:
                return ContainedFolder(absolute, within=passed)
            finally:
                os.close(passed)

    def open_outlet(self, path: PathInput, *, makes: bool = False) -> Outlet:
        """Open the folder of an output file; the caller closes it.

        Args:
            path: The file.
            makes: Whether to create missing folders below the root, with mode 0700.

        Raises:
            ContainmentError: If the path is not in the roots.
            PathRefusedError: If there is a link or another user's folder on the way.
            TargetError: If the folder does not exist, or may not be used.
        """
        parts, depth = self._allowed(path)
        absolute = Path("/", *parts)
        with file_errors(absolute, writes=True):
            passed = _walked(parts[:-1], depth, makes=makes)
            try:
                folder = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=passed)
            finally:
                os.close(passed)
            return Outlet(folder, absolute, strict=True)

    def _allowed(self, path: PathInput, *, itself: bool = False) -> tuple[_Parts, int]:
        """Return the absolute parts of a path, and how many of them are the root's."""
        text, parts = _words(path)
        if not text.startswith("/"):
            parts = (*_here(text), *parts)
        if parts[:1] and parts[0] in _SYSTEM:
            raise ContainmentError("a path must not be inside a system folder", file=text)
        depth = 0
        for roots in self._lists:
            above = [root for root in roots if _is_in(parts, root) or (itself and parts == root)]
            if not above:
                raise self._refusal(text)
            depth = max(depth, min(map(len, above)))
        return parts, depth

    def _refusal(self, text: str) -> ContainmentError:
        if not all(self._lists):
            return ContainmentError("no folder is allowed: the list of roots is empty", file=text)
        roots = [Path("/", *root) for roots in self._lists for root in roots]
        shown = tuple(dict.fromkeys(map(str, roots)))
        return ContainmentError("the path is outside the allowed folders", file=text, roots=shown)


def absolute_root(path: PathInput) -> PathInput:
    """Return a root of a call as an absolute path, relative to the current folder.

    Roots that an operator sets must be absolute, since the current folder of a server is not
    visible.
    """
    text: str | bytes = os.fspath(path)
    if isinstance(text, bytes) or not text or text.startswith("/"):
        return path
    parts = [part for part in text.split("/") if part not in ("", ".")]
    return "/" + "/".join((*_here(text), *parts))


def refuse_control(path: PathInput) -> None:
    """Refuse a path with a control character.

    Raises:
        ContainmentError: If there is one.
    """
    text = os.fsdecode(path)
    if match := _CONTROL.search(text):
        raise ContainmentError(
            f"a path cannot contain the character U+{ord(match[0]):04X}", file=ascii(text)
        )


def _root(path: PathInput) -> _Parts:
    text, parts = _words(path)
    if not text.startswith("/"):
        raise ContainmentError(
            "a root must be an absolute path",
            file=repr(text),
            hint="Write the full path, starting with /.",
        )
    if parts[:1] and parts[0] in _SYSTEM:
        raise ContainmentError("a system folder cannot be a root", file=text)
    return parts


def _words(path: PathInput) -> tuple[str, _Parts]:
    """Return a path as text, and its parts, each verified to be a plain name."""
    text = os.fspath(path)
    if not isinstance(text, str):
        raise ContainmentError("a path must be text", file=repr(path))
    if odd := _ODD.search(text):
        raise ContainmentError(
            f"a path cannot contain the character U+{ord(odd[0]):04X}", file=ascii(text)
        )
    parts = tuple(part for part in text.split("/") if part not in {"", "."})
    if not parts and not text.startswith("/"):
        raise ContainmentError("a path must have a name", file=repr(text))
    try:
        if parts:
            parts_of(parts)
    except PathRefusedError as error:
        raise ContainmentError(error.message, file=text[:200]) from None
    for part in parts:
        if part.startswith("~"):
            raise ContainmentError("a path cannot contain ~: it is not expanded", file=text)
        if part.strip() != part or part.endswith("."):
            raise ContainmentError(
                "a path segment cannot begin with a space, nor end with a space or dot",
                file=repr(text),
            )
    return text, parts


def _here(text: str) -> _Parts:
    """Return the parts of the current folder, which the system reports without links."""
    try:
        return tuple(part for part in os.getcwd().split("/") if part)  # noqa: PTH109 - no Path
    except OSError:
        raise ContainmentError("the current folder no longer exists", file=text) from None


def _is_in(parts: _Parts, root: _Parts) -> bool:
    return len(parts) > len(root) and parts[: len(root)] == root


def _walked(parts: _Parts, depth: int, *, makes: bool = False) -> int:
    """Return the descriptor of a folder, for opening files in it.

    Args:
        parts: Its path from ``/``.
        depth: Number of parts of the root; from there on, other users may not write.
        makes: Whether to create missing folders from there on.
    """
    path = Path("/")
    handle = open_folder(path, passing=True)
    try:
        for number, part in enumerate(("", *parts)):
            if part:
                path /= part
                if makes and number > depth:
                    with suppress(FileExistsError):
                        os.mkdir(part, 0o700, dir_fd=handle)
                below = open_folder(path, within=handle, passing=True)
                os.close(handle)
                handle = below
            if number >= depth:
                _refuse_shared(os.fstat(handle), path)
    except BaseException:
        os.close(handle)
        raise
    return handle


def _refuse_shared(status: os.stat_result, path: Path) -> None:
    """Refuse a folder in which another user could exchange files."""
    if status.st_uid not in {0, os.geteuid()}:
        raise PathRefusedError(
            f"this folder belongs to another user (uid {status.st_uid}; ours is {os.geteuid()})",
            file=str(path),
            hint="Use one that belongs to the user this runs as.",
        )
    if status.st_mode & stat.S_IWOTH and not status.st_mode & stat.S_ISVTX:
        raise PathRefusedError(
            "every user may write in this folder",
            file=str(path),
            hint="Remove that permission (chmod o-w), or use another folder.",
        )
