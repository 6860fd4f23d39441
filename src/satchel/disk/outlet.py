"""Where a file is written: a name in a folder that is held open from the first look to the last.

Who exchanges the folder's name for a link meanwhile changes nothing: what is written, read back or
removed is in the folder that was opened.
"""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

from satchel.disk.opening import explaining, open_file, refuse_other_names
from satchel.disk.reading import OpenFile
from satchel.disk.writing import PRIVATE_FILE, Draft, draft_at
from satchel.errors import PathRefusedError, TargetError

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


class Outlet:
    """A name that a file is going to have. A context manager.

    Args:
        folder: Descriptor of the folder, which is closed with it.
        path: Its last part is the name; the rest is for messages.
        strict: What is there already may be replaced only if it is a file with no other name.
    """

    def __init__(self, folder: int, path: Path, *, strict: bool) -> None:
        self.path = path
        self.called: str | None = None
        """What receipts call it, where its path is gone as soon as it was fetched."""
        self._folder = folder
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
            raise TargetError("a file name cannot hold a NUL", file=repr(str(path)))
        with explaining(path, writes=True):
            made = cls(os.open(path.parent, _FOLDER), path, strict=False)
        made.called = called
        return made

    def __str__(self) -> str:
        return str(self.path)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give the descriptor back; a second time does nothing."""
        handle, self._folder = self._folder, -1
        if handle >= 0:
            os.close(handle)

    def beside(self, name: str) -> "Outlet":
        """Return another name in the same folder, such as that of a receipt; its holder closes it.

        Raises:
            PathRefusedError: If it is no name.
        """
        if name in {"", ".", ".."} or {"/", "\0"} & set(name):
            raise PathRefusedError("this is no name of a file", file=repr(name))
        return Outlet(os.dup(self._folder), self.path.with_name(name), strict=self._strict)

    @property
    def status(self) -> os.stat_result | None:
        """What there is of that name, a link being one itself; None for nothing."""
        with explaining(self.path, writes=True):
            try:
                return os.stat(self.path.name or ".", dir_fd=self._folder, follow_symlinks=False)
            except FileNotFoundError:
                return None

    def is_same(self, file: OpenFile) -> bool:
        """Tell whether the name leads to a file, through links where they would be replaced."""
        try:
            follow = not self._strict
            found = os.stat(self.path.name, dir_fd=self._folder, follow_symlinks=follow)
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
                draft_at(self._folder, self.path, overwrite=overwrite, mode=mode)
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

    def written(self) -> OpenFile:
        """Open what was written or has the name now, to read it back; the caller closes it.

        Raises:
            PathRefusedError: If it is a link or no file; or, when strict, not what was written.
            UnreadableError: If it is gone.
        """
        with explaining(self.path, writes=False):
            there = self.path.with_name(self._draft.name) if self._draft else self.path
            file = OpenFile(open_file(there, os.O_RDONLY, within=self._folder), self.path)
            found = file.status
            if self._strict and (found.st_dev, found.st_ino) != self._written:
                file.close()
                raise PathRefusedError(
                    "somebody has put another file in the place of what was written",
                    file=str(self.path),
                    hint="Find out who else writes in this folder.",
                )
        return file

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
        with explaining(self.path, writes=True):
            try:
                os.unlink(self.path.name, dir_fd=self._folder)
            except FileNotFoundError:
                return
