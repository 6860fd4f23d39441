"""A folder whose files are opened by relative paths that cannot leave it.

Names come from files of others. Each part of a path is opened relative to the descriptor of the
folder before it, and links are not followed, so neither ``..`` nor a link leads out, not even a
link that replaces a folder between two calls. (If the folder itself is moved during a write, the
file moves with it; only an owner of the whole path can prevent that.)
"""

import os
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO, Literal, NamedTuple

from satchel.errors import LimitError, PathRefusedError, TargetExistsError
from satchel.runtime.files import (
    PRIVATE_FILE,
    PRIVATE_FOLDER,
    ModeRepair,
    OpenDescriptor,
    enforce,
    file_errors,
    open_file,
    open_folder,
    unreadable,
    writing_at,
)
from satchel.runtime.private_files import make_folders, open_private_folder

RelativePath = str | tuple[str, ...]
"""A path in the folder: its parts, or the parts joined by ``/``; no part contains ``/``."""

LONGEST_NAME = 255
"""Maximum bytes of UTF-8 in one part."""

LONGEST_PLACE = 4_000
"""Maximum bytes of all parts with separators; other programs cannot open longer paths."""

Kind = Literal["file", "folder", "link", "other"]


class FolderItem(NamedTuple):
    """One name in a folder. Links are listed, so that they can be removed, but never opened."""

    name: str
    kind: Kind


def parts_of(path: RelativePath) -> tuple[str, ...]:
    """Return the parts of a path, each a valid name in a folder.

    Raises:
        PathRefusedError: If there is no part, or one is empty, ``.`` or ``..``, contains ``/``, a
            backslash or NUL, is longer than 255 bytes or not Unicode; an absolute path has an empty
            first part. Also if the path is longer than 4,000 bytes.
    """
    parts = tuple(path.split("/")) if isinstance(path, str) else path
    if not parts:
        raise PathRefusedError("a path must have at least one part")
    total = sum(_length_of(part) + 1 for part in parts)
    if total > LONGEST_PLACE:
        raise PathRefusedError(
            f"a path can have at most {LONGEST_PLACE:,} bytes, this one has {total:,}"
        )
    return parts


def _length_of(part: str) -> int:
    if part in {"", ".", ".."}:
        raise PathRefusedError(f"a path segment cannot be {part!r}")
    if odd := {"/", "\\", "\0"} & set(part):
        raise PathRefusedError(f"a path segment cannot contain {min(odd)!r}: {part[:80]!r}")
    try:
        length = len(part.encode())
    except UnicodeEncodeError:
        raise PathRefusedError(f"a path segment is not Unicode: {part[:80]!r}") from None
    if length > LONGEST_NAME:
        raise PathRefusedError(
            f"a path segment can have at most {LONGEST_NAME} bytes, this one has {length}: "
            f"{part[:80]!r}"
        )
    return length


class ContainedFolder(OpenDescriptor):
    """An open folder whose files are reached by names that cannot leave it.

    A context manager; it may be used from several threads. Files and folders created in it have
    mode 0600 and 0700. Methods raise ``PathRefusedError`` for a path that ``parts_of`` refuses and
    for a link, pipe, socket or device anywhere on the way.

    Args:
        path: The folder. It may not be a link; folders above may.
        create: Create it with mode 0700 if it does not exist.
        private: It belongs to this user alone: files opened in it must, too, and must have no
            second name, and a mode that grants access to others is corrected and listed in
            ``repairs``.
        within: Descriptor of the parent folder, if the path to it was verified; not with ``create``
            or ``private``.

    Raises:
        PathRefusedError: If it is a link or not a folder, or, if ``private``, belongs to another
            user.
        UnreadableError: If it cannot be opened.
        TargetError: If it cannot be created or its mode cannot be corrected.
    """

    def __init__(
        self,
        path: Path,
        *,
        create: bool = False,
        private: bool = False,
        within: int | None = None,
    ) -> None:
        self.path = path
        self.private = private
        self.repairs: list[ModeRepair] = []
        """The modes that were corrected so far."""
        with file_errors(path, writes=create):
            if private:
                self._handle, repairs = open_private_folder(path, create=create)
                self.repairs += repairs
            else:
                if create:
                    make_folders(path)
                self._handle = open_folder(path, within=within)

    def open(self, name: RelativePath) -> BinaryIO:
        """Open a file for reading; the caller closes it.

        Raises:
            UnreadableError: If it is missing or may not be read.
        """
        parts = parts_of(name)
        path = self._shown(parts)
        with file_errors(path, writes=False), self._folder(parts[:-1]) as folder:
            handle = open_file(path, os.O_RDONLY, within=folder)
            return os.fdopen(self._checked(handle, path), "rb")

    def read(self, name: RelativePath, *, limit: int | None = None) -> bytes:
        """Return all bytes of a file.

        Args:
            name: The file.
            limit: Maximum size in bytes.

        Raises:
            UnreadableError: If it is missing or cannot be read.
            LimitError: If it has more than ``limit`` bytes.
        """
        path = self._shown(parts_of(name))
        with self.open(name) as stream, file_errors(path, writes=False):
            data = stream.read() if limit is None else stream.read(limit + 1)
        if limit is not None and len(data) > limit:
            raise LimitError(f"the file has more than {limit:,} bytes", file=str(path))
        return data

    def create(self, name: RelativePath) -> BinaryIO:
        """Create a new file and open it for reading and writing.

        For files that grow; ``write`` is for files that appear whole. The caller closes it, and
        syncs it if necessary.

        Raises:
            TargetExistsError: If the name exists, also as a dangling link.
            TargetError: If it cannot be created.
        """
        parts = parts_of(name)
        path = self._shown(parts)
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL
        with file_errors(path, writes=True), self._folder(parts[:-1]) as folder:
            try:
                handle = open_file(path, flags, within=folder, mode=PRIVATE_FILE)
            except FileExistsError as error:
                raise _taken(path) from error
            return os.fdopen(handle, "w+b")

    @contextmanager
    def writing(self, name: RelativePath, *, overwrite: bool = True) -> Iterator[BinaryIO]:
        """Yield a stream for a file that appears whole and on disk at the end of the block.

        Raises:
            TargetExistsError: If the name exists and ``overwrite`` is False.
            TargetError: If it cannot be written; an existing file is unchanged.
        """
        parts = parts_of(name)
        path = self._shown(parts)
        with (
            file_errors(path, writes=True),
            self._folder(parts[:-1]) as folder,
            writing_at(folder, path, overwrite=overwrite, mode=PRIVATE_FILE) as stream,
        ):
            yield stream

    def write(self, name: RelativePath, data: bytes, *, overwrite: bool = True) -> None:
        """Write a whole file; see ``writing``."""
        with self.writing(name, overwrite=overwrite) as stream:
            stream.write(data)

    def listing(self, name: RelativePath = ()) -> list[FolderItem]:
        """Return the names in a folder, sorted; in this folder by default.

        Raises:
            UnreadableError: If the folder does not exist.
        """
        parts = parts_of(name) if name != () else ()
        with (
            file_errors(self._shown(parts), writes=False),
            self._folder(parts) as folder,
            os.scandir(folder) as entries,
        ):
            return sorted(FolderItem(entry.name, _kind(entry)) for entry in entries)

    @contextmanager
    def open_handle(self) -> Iterator[int]:
        """Yield a descriptor of this folder, for callers that traverse it themselves."""
        with file_errors(self.path, writes=False), self._folder(()) as handle:
            yield handle

    def make_folder(self, name: RelativePath) -> None:
        """Create a folder and its missing parents; it may exist.

        Raises:
            TargetError: If one cannot be created.
        """
        parts = parts_of(name)
        with file_errors(self._shown(parts), writes=True), self._folder(parts, make=True):
            pass

    def remove(self, name: RelativePath) -> None:
        """Remove a file, a link itself, or an empty folder.

        Raises:
            UnreadableError: If the name does not exist.
            TargetError: If it cannot be removed, such as a folder that is not empty.
        """
        parts = parts_of(name)
        path = self._shown(parts)
        with file_errors(path, writes=True), self._folder(parts[:-1]) as folder:
            if stat.S_ISDIR(_present(path, folder).st_mode):
                os.rmdir(path.name, dir_fd=folder)
            else:
                os.unlink(path.name, dir_fd=folder)
            os.fsync(folder)

    def rename(self, old: RelativePath, new: RelativePath, *, overwrite: bool = False) -> None:
        """Move a file or folder, in one step.

        A link is moved as it is.

        Args:
            old: The path to move.
            new: The new path; its folder exists.
            overwrite: Replace ``new``, unless it is a folder. Even if False, a file that another
                process creates at the same moment is replaced: hold a lock.

        Raises:
            UnreadableError: If ``old`` does not exist.
            TargetExistsError: If ``new`` exists and ``overwrite`` is False.
            TargetError: If it cannot be moved.
        """
        from_parts, to_parts = parts_of(old), parts_of(new)
        source, target = self._shown(from_parts), self._shown(to_parts)
        with (
            file_errors(target, writes=True),
            self._folder(from_parts[:-1]) as source_folder,
            self._folder(to_parts[:-1]) as target_folder,
        ):
            _present(source, source_folder)
            if not overwrite and _is_taken(target, target_folder):
                raise _taken(target)
            os.replace(source.name, target.name, src_dir_fd=source_folder, dst_dir_fd=target_folder)
            os.fsync(target_folder)
            os.fsync(source_folder)

    def _shown(self, parts: tuple[str, ...]) -> Path:
        return self.path.joinpath(*parts)

    @contextmanager
    def _folder(self, parts: tuple[str, ...], *, make: bool = False) -> Iterator[int]:
        """Yield the descriptor of a folder in this one, opened part by part."""
        # A new descriptor of the root as well: two listings of one descriptor disturb each other.
        handle = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=self._handle)
        with ExitStack() as stack:
            stack.callback(os.close, handle)
            path = self.path
            for part in parts:
                path /= part
                if make:
                    _make(path, handle)
                handle = open_folder(path, within=handle)
                stack.pop_all().close()
                stack.callback(os.close, handle)
                if self.private:
                    self._note(enforce(handle, path, PRIVATE_FOLDER))
            yield handle

    def _checked(self, handle: int, path: Path) -> int:
        if self.private:
            try:
                self._note(enforce(handle, path, PRIVATE_FILE))
            except BaseException:
                os.close(handle)
                raise
        return handle

    def _note(self, repair: ModeRepair | None) -> None:
        if repair:
            self.repairs.append(repair)


def _make(path: Path, within: int) -> None:
    try:
        os.mkdir(path.name, PRIVATE_FOLDER, dir_fd=within)
    except FileExistsError:
        return
    os.fsync(within)


def _present(path: Path, within: int) -> os.stat_result:
    try:
        return os.stat(path.name, dir_fd=within, follow_symlinks=False)
    except FileNotFoundError as error:
        raise unreadable(path, error) from error


def _is_taken(path: Path, within: int) -> bool:
    try:
        os.stat(path.name, dir_fd=within, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _taken(path: Path) -> TargetExistsError:
    return TargetExistsError("the name already exists", file=str(path))


def _kind(entry: os.DirEntry[str]) -> Kind:
    if entry.is_symlink():
        return "link"
    if entry.is_dir(follow_symlinks=False):
        return "folder"
    return "file" if entry.is_file(follow_symlinks=False) else "other"
