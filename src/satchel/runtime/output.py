"""Output files: a name in a folder that stays open from the first check to the last.

Replacing the folder by a link in the meantime has no effect: files are written, read back and
removed in the folder that was opened.
"""

import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO, Self

from satchel.errors import PathRefusedError, TargetError, TargetExistsError
from satchel.runtime.contained_folder import ContainedFolder
from satchel.runtime.files import (
    PRIVATE_FILE,
    PRIVATE_FOLDER,
    Draft,
    OpenDescriptor,
    OpenFile,
    draft_at,
    file_errors,
    open_file,
    refuse_other_names,
    target_error,
)

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


class Outlet(OpenDescriptor):
    """A name for an output file. A context manager.

    Args:
        folder: Descriptor of the folder; closed with this object.
        path: Its last part is the name; the rest is for messages.
        strict: Replace an existing file only if it has no other name.
    """

    kept: Path | None = None
    """The new path of the file or folder that had the name before, if it was saved."""

    before: bytes | None = None
    """Content of the file that a part is written into; None if not needed."""

    called: str | None = None
    """Its name in receipts, if its path is temporary."""

    def __init__(self, folder: int, path: Path, *, strict: bool) -> None:
        self.path = path
        self._handle = folder
        self._strict = strict
        self._written: tuple[int, int] | None = None
        self._drafts: ExitStack | None = None
        self._draft: Draft | None = None

    @classmethod
    def named(cls, path: Path, *, called: str | None = None) -> Self:
        """Open the folder of a path, following links; a link with the name itself is replaced.

        Args:
            path: The path.
            called: Its name in receipts, if the path is temporary.

        Raises:
            TargetError: If the folder does not exist, or may not be used.
        """
        if "\0" in str(path):
            raise TargetError("a file name cannot contain NUL", file=repr(str(path)))
        with file_errors(path, writes=True):
            outlet = cls(os.open(path.parent, _FOLDER), path, strict=False)
        outlet.called = called
        return outlet

    def __str__(self) -> str:
        return str(self.path)

    def sibling(self, name: str) -> "Outlet":
        """Return another name in the same folder, such as that of a receipt; the caller closes it.

        Raises:
            PathRefusedError: If it is not a valid name.
        """
        if name in {"", ".", ".."} or {"/", "\0"} & set(name):
            raise PathRefusedError("not a valid file name", file=repr(name))
        return Outlet(os.dup(self._handle), self.path.with_name(name), strict=self._strict)

    @property
    def status(self) -> os.stat_result | None:
        """The status of the name, a link being itself; None if it does not exist."""
        with file_errors(self.path, writes=True):
            try:
                return os.stat(self.path.name or ".", dir_fd=self._handle, follow_symlinks=False)
            except FileNotFoundError:
                return None

    def is_same(self, file: OpenFile) -> bool:
        """Return whether the name leads to a file, through links if they would be replaced."""
        try:
            follow = not self._strict
            status = os.stat(self.path.name, dir_fd=self._handle, follow_symlinks=follow)
        except OSError:  # reported when it is used
            return False
        return os.path.samestat(status, file.status)

    @contextmanager
    def writing(self, *, overwrite: bool, mode: int = PRIVATE_FILE) -> Iterator[BinaryIO]:
        """Yield a stream for a file that gets the name when the block ends without an error.

        Within ``defer_publication`` it gets the name at the end of that block.

        Args:
            overwrite: False refuses an existing file, also one that appears during the block.
            mode: Its permissions, before the umask.

        Raises:
            PathRefusedError: If it is strict, and the name is a link or a file with other names.
            TargetExistsError: If the name exists and ``overwrite`` is False.
            TargetError: If the system refuses; an existing file is unchanged.
        """
        status = self.status
        if self._strict and overwrite and status is not None:
            refuse_other_names(status, self.path)
        with ExitStack() as stack:
            whose = self._drafts or stack
            draft = whose.enter_context(
                draft_at(self._handle, self.path, overwrite=overwrite, mode=mode)
            )
            with draft.writing() as stream:
                yield stream
                written = os.fstat(stream.fileno())
            if self._drafts is None:
                draft.publish()
            else:
                self._draft = draft
        self._written = written.st_dev, written.st_ino

    @contextmanager
    def defer_publication(self) -> Iterator[None]:
        """Publish what is written in the block only when the block ends without an error.

        So it can be read back while the name still leads to the previous file.

        Raises:
            TargetExistsError: If the name appeared and may not be replaced.
            TargetError: If the system refuses.
        """
        with ExitStack() as drafts:
            self._drafts = drafts
            try:
                yield
                if self._draft is not None:
                    self._draft.publish()
            finally:
                self._drafts, self._draft = None, None

    def open_previous(self) -> OpenFile:
        """Open the file with the name before the write; the caller closes it.

        Raises:
            PathRefusedError: If it is a link or not a file.
            UnreadableError: If it does not exist.
        """
        with file_errors(self.path, writes=False):
            handle = open_file(self.path, os.O_RDONLY, within=self._handle)
            return OpenFile(handle, self.path)

    def written(self) -> OpenFile:
        """Open the written file, or the one with the name, to read it back; the caller closes it.

        Raises:
            PathRefusedError: If it is a link or not a file; or, if strict, not the written one.
            UnreadableError: If it does not exist.
        """
        with file_errors(self.path, writes=False):
            there = self.path.with_name(self._draft.name) if self._draft else self.path
            file = OpenFile(open_file(there, os.O_RDONLY, within=self._handle), self.path)
            found = file.status
            if self._strict and (found.st_dev, found.st_ino) != self._written:
                file.close()
                raise PathRefusedError(
                    "another program replaced the file that was written",
                    file=str(self.path),
                    hint="Find out which other program writes in this folder.",
                )
        return file

    def open_existing(self) -> OpenFile | None:
        """Open the file with the name, or return None if it does not exist; the caller closes it.

        Raises:
            PathRefusedError: If it is a link or not a file.
            UnreadableError: If it may not be read.
        """
        with file_errors(self.path, writes=False):
            try:
                handle = open_file(self.path, os.O_RDONLY, within=self._handle)
            except FileNotFoundError:
                return None
        return OpenFile(handle, self.path)

    @contextmanager
    def staging(self) -> Iterator["StagedFolder"]:
        """Yield an empty folder beside the name; unless published, it is removed at the end.

        Raises:
            TargetError: If it cannot be created.
        """
        name = f".{self.path.name[:48]}.{secrets.token_hex(8)}.tmp"
        with file_errors(self.path, writes=True):
            os.mkdir(name, PRIVATE_FOLDER, dir_fd=self._handle)
        try:
            with ContainedFolder(self.path.with_name(name), within=self._handle) as folder:
                yield StagedFolder(self._handle, self.path, folder)
        finally:
            shutil.rmtree(name, ignore_errors=True, dir_fd=self._handle)

    def stored(self) -> OpenFile:
        """Open the bytes as they are on disk; the caller closes it. Raises as ``written``."""
        return self.written()

    def remove(self) -> None:
        """Remove the file or link with the name, if it exists.

        Within ``defer_publication`` it removes the written file.
        """
        if self._drafts is not None:
            self._draft = None
            return
        with file_errors(self.path, writes=True):
            try:
                os.unlink(self.path.name, dir_fd=self._handle)
            except FileNotFoundError:
                return


class WrappedOutlet(Outlet):
    """An outlet around another one, which has the name; the written bytes differ from the stored.

    Args:
        inner: The other outlet.
    """

    def __init__(self, inner: Outlet) -> None:
        self.path, self.called = inner.path, inner.called
        self._inner = inner

    def close(self) -> None:
        """Close the inner outlet."""
        self._inner.close()

    def sibling(self, name: str) -> Outlet:
        """Return another name in the same folder, without the wrapper."""
        return self._inner.sibling(name)

    @property
    def status(self) -> os.stat_result | None:
        """The status of the name."""
        return self._inner.status

    def is_same(self, file: OpenFile) -> bool:
        """Return whether the name leads to a file."""
        return self._inner.is_same(file)


class StagedFolder:
    """A folder beside its target that may be renamed to it.

    Args:
        above: Descriptor of their folder.
        path: The target.
        folder: The open folder; files are created in it.
    """

    def __init__(self, above: int, path: Path, folder: ContainedFolder) -> None:
        self.folder = folder
        self._above, self._path = above, path

    def publish(self, *, overwrite: bool) -> Path | None:
        """Rename it to its target, and return the new path of a folder that it replaced.

        An empty folder is replaced.

        Raises:
            TargetExistsError: If the target exists and ``overwrite`` is False.
            TargetError: If the target is not a folder, or the system refuses.
        """
        try:
            try:
                self._rename(self.folder.path.name, self._path.name)
            except OSError:
                found = os.stat(self._path.name, dir_fd=self._above, follow_symlinks=False)
                if not stat.S_ISDIR(found.st_mode):
                    raise TargetError(
                        "the path exists and is not a folder", file=str(self._path)
                    ) from None
                if not overwrite:
                    raise TargetExistsError(
                        "the folder already exists",
                        file=str(self._path),
                        hint=(
                            "Use --overwrite (overwrite=True) to replace it; the old folder is "
                            "renamed."
                        ),
                    ) from None
                return self._replace()
        except OSError as error:
            raise target_error(self._path, error) from error
        return None

    def _replace(self) -> Path:
        aside = self._free_name()
        self._rename(self._path.name, aside)
        try:
            self._rename(self.folder.path.name, self._path.name)
        except OSError:
            self._rename(aside, self._path.name)
            raise
        return self._path.with_name(aside)

    def _rename(self, old: str, new: str) -> None:
        os.rename(old, new, src_dir_fd=self._above, dst_dir_fd=self._above)
        os.fsync(self._above)

    def _free_name(self) -> str:
        with os.scandir(self._above) as found:
            names, number = {one.name for one in found}, 1
        name = start = f"{self._path.name}.before"
        while name in names:
            number += 1
            name = f"{start}-{number}"
        return name


def refuse_existing(output: Outlet, *, overwrite: bool) -> None:
    """Refuse an existing output before any work is done.

    Raises:
        TargetExistsError: If it exists and ``overwrite`` is False.
    """
    if not overwrite and output.status is not None:
        raise TargetExistsError(
            "the target already exists",
            file=str(output),
            hint="Use --overwrite (overwrite=True) to replace it.",
        )
