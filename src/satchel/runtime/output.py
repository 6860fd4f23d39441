"""Where a file is written: a name in a folder that is held open from the first look to the last.

Who exchanges the folder's name for a link meanwhile changes nothing: what is written, read back or
removed is in the folder that was opened.
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
    """A name that a file is going to have. A context manager.

    Args:
        folder: Descriptor of the folder, which is closed with it.
        path: Its last part is the name; the rest is for messages.
        strict: What is there already may be replaced only if it is a file with no other name.
    """

    kept: Path | None = None
    """Where is now what had the name before, if it was kept."""

    before: bytes | None = None
    """What is in the file that something is written into; None where that is not asked for."""

    called: str | None = None
    """What receipts call it, where its path is gone as soon as it was fetched."""

    def __init__(self, folder: int, path: Path, *, strict: bool) -> None:
        self.path = path
        self._handle = folder
        self._strict = strict
        self._written: tuple[int, int] | None = None
        self._drafts: ExitStack | None = None
        self._draft: Draft | None = None

    @classmethod
    def named(cls, path: Path, *, called: str | None = None) -> Self:
        """Open the folder of a path; links on the way are followed, one of that name is replaced.

        Args:
            path: The path.
            called: What receipts call it, where the path will mean nothing to anybody.

        Raises:
            TargetError: If there is no such folder, or it may not be used.
        """
        if "\0" in str(path):
            raise TargetError("a file name cannot contain NUL", file=repr(str(path)))
        with file_errors(path, writes=True):
            made = cls(os.open(path.parent, _FOLDER), path, strict=False)
        made.called = called
        return made

    def __str__(self) -> str:
        return str(self.path)

    def beside(self, name: str) -> "Outlet":
        """Return another name in the same folder, such as that of a receipt; its holder closes it.

        Raises:
            PathRefusedError: If it is no name.
        """
        if name in {"", ".", ".."} or {"/", "\0"} & set(name):
            raise PathRefusedError("not a valid file name", file=repr(name))
        return Outlet(os.dup(self._handle), self.path.with_name(name), strict=self._strict)

    @property
    def status(self) -> os.stat_result | None:
        """What there is of that name, a link being one itself; None for nothing."""
        with file_errors(self.path, writes=True):
            try:
                return os.stat(self.path.name or ".", dir_fd=self._handle, follow_symlinks=False)
            except FileNotFoundError:
                return None

    def is_same(self, file: OpenFile) -> bool:
        """Tell whether the name leads to a file, through links where they would be replaced."""
        try:
            follow = not self._strict
            found = os.stat(self.path.name, dir_fd=self._handle, follow_symlinks=follow)
        except OSError:  # what is wrong with it is said when it is used
            return False
        return os.path.samestat(found, file.status)

    @contextmanager
    def writing(self, *, overwrite: bool, mode: int = PRIVATE_FILE) -> Iterator[BinaryIO]:
        """Give a file to write that takes the name when the block ends without an error.

        Within ``proving`` it takes the name when that block ends.

        Args:
            overwrite: False refuses what is there already, also what appears meanwhile.
            mode: Its permissions, before the umask.

        Raises:
            PathRefusedError: If it is strict, and a link or a file with other names is there.
            TargetExistsError: If there is something and ``overwrite`` is False.
            TargetError: If the system refuses; what was there before is untouched.
        """
        found = self.status
        if self._strict and overwrite and found is not None:
            refuse_other_names(found, self.path)
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
    def proving(self) -> Iterator[None]:
        """Keep what is written from its name until the block ends without an error.

        So it can be read back while what has the name is still what was there before.

        Raises:
            TargetExistsError: If the name was taken meanwhile, and is not to be.
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

    def earlier(self) -> OpenFile:
        """Open what has the name before anything is written; the caller closes it.

        Raises:
            PathRefusedError: If it is a link or no file.
            UnreadableError: If there is nothing.
        """
        with file_errors(self.path, writes=False):
            handle = open_file(self.path, os.O_RDONLY, within=self._handle)
            return OpenFile(handle, self.path)

    def written(self) -> OpenFile:
        """Open what was written or has the name now, to read it back; the caller closes it.

        Raises:
            PathRefusedError: If it is a link or no file; or, when strict, not what was written.
            UnreadableError: If it is gone.
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

    def there(self) -> OpenFile | None:
        """Open what has the name, whoever wrote it, or None for nothing; the caller closes it.

        Raises:
            PathRefusedError: If it is a link or no file.
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
        """Give an empty folder beside the name that may take it; else it is gone at the end.

        Raises:
            TargetError: If it cannot be made.
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
        """Open the very bytes that are on the disk; the caller closes it. Raises as ``written``."""
        return self.written()

    def remove(self) -> None:
        """Take what has the name away, if there is something; a link itself.

        Within ``proving`` it is what was written that goes.
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
    """An outlet made over another one, which has the name; what is written is not what is there.

    Args:
        inner: The other one.
    """

    def __init__(self, inner: Outlet) -> None:
        self.path, self.called = inner.path, inner.called
        self._inner = inner

    def close(self) -> None:
        """Do what closing the outlet does that it is made over."""
        self._inner.close()

    def beside(self, name: str) -> Outlet:
        """Return another name in the same folder, as it is."""
        return self._inner.beside(name)

    @property
    def status(self) -> os.stat_result | None:
        """What there is of that name."""
        return self._inner.status

    def is_same(self, file: OpenFile) -> bool:
        """Tell whether the name leads to a file."""
        return self._inner.is_same(file)


class StagedFolder:
    """A folder beside its target that may take the target's name.

    Args:
        above: Descriptor of the folder that both are in.
        path: The target.
        folder: The folder, open; files are made in it.
    """

    def __init__(self, above: int, path: Path, folder: ContainedFolder) -> None:
        self.folder = folder
        self._above, self._path = above, path

    def publish(self, *, overwrite: bool) -> Path | None:
        """Give it the target's name, and return where a folder is kept that had it before.

        An empty folder of that name is replaced.

        Raises:
            TargetExistsError: If there is something, and ``overwrite`` is False.
            TargetError: If there is something that is no folder, or the system refuses.
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
    """Refuse an output that is there, before any work is done.

    Raises:
        TargetExistsError: If there is something, and it is not to be replaced.
    """
    if not overwrite and output.status is not None:
        raise TargetExistsError(
            "the target already exists",
            file=str(output),
            hint="Use --overwrite (overwrite=True) to replace it.",
        )
