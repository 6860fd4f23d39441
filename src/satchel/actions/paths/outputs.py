"""Outputs that are no file by themselves: a folder of files, and a part of somebody's file.

Each takes the place of the name that a file is going to have, so that what is written is read back
before anybody sees it, as it is of a file.
"""

import os
import shutil
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import BinaryIO, cast

from satchel.actions.paths.folders import names_in, put_together
from satchel.disk.outlet import Outlet, OutletOver, StagedFolder
from satchel.disk.reading import OpenFile, reading
from satchel.disk.writing import PRIVATE_FILE
from satchel.errors import LimitError, TargetError, UsageError
from satchel.ports.format import Format
from satchel.ports.place import MOST_WITHIN
from satchel.seal.encryption.age import Lock

ARCHIVE = ".zip"
"""How the name of a folder of files ends that is to be an archive."""

_MODES = 0o777


class FolderOutlet(OutletOver):
    """A name that a folder is going to have; who writes to it writes an archive of its files.

    What is read back is put together from the files on the disk.

    Args:
        inner: The name.
    """

    def __init__(self, inner: Outlet) -> None:
        super().__init__(inner)
        self._staged: StagedFolder | None = None
        self._stack: ExitStack | None = None
        self._replaces = False

    @contextmanager
    def writing(
        self,
        *,
        overwrite: bool,
        mode: int = PRIVATE_FILE,  # noqa: ARG002 - what is in a folder of ours is private
    ) -> Iterator[BinaryIO]:
        """Give an archive to write, whose files are in a folder beside the name afterwards."""
        if self._stack is None:
            raise UsageError("a folder can be written only if it is read back")
        with _temporary() as packed:
            yield packed
            packed.seek(0)
            self._staged = self._stack.enter_context(self._inner.staging())
            _unpack(packed, self._staged)
        self._replaces = overwrite

    @contextmanager
    def proving(self) -> Iterator[None]:
        """Keep the folder from its name until the block ends; see ``Outlet.proving``."""
        with ExitStack() as stack:
            self._stack = stack
            try:
                yield
                if self._staged is not None:
                    self.kept = self._staged.publish(overwrite=self._replaces)
            finally:
                self._stack = self._staged = None

    def written(self) -> OpenFile:
        """Open what was written, put together from what is on the disk; the caller closes it."""
        if self._staged is None:
            raise TargetError("nothing was written", file=str(self.path))
        folder = self._staged.folder
        return put_together(folder, names_in(folder), self.path)

    def stored(self) -> OpenFile:
        """Open the same as ``written``: what a reader of the folder is given."""
        return self.written()

    def remove(self) -> None:
        """Take what was written away."""
        self._staged = None


class WithinOutlet(OutletOver):
    """The name of a file that something is written into, which may be there already.

    What was there is kept beside it, as ``NAME.bak``, when it changes.

    Args:
        inner: The name.

    Raises:
        PathRefusedError: If it is a link, or no file.
        LimitError: If the file is larger than any that is meant for this.
    """

    def __init__(self, inner: Outlet) -> None:
        super().__init__(inner)
        self._mode: int | None = None
        self.before = self._now()

    @property
    def status(self) -> os.stat_result | None:
        """Nothing that would have to be replaced: the file stays."""
        return None

    @contextmanager
    def writing(self, *, overwrite: bool, mode: int = PRIVATE_FILE) -> Iterator[BinaryIO]:
        """Give the whole file to write, which keeps its permissions."""
        replaces = self.before is not None
        with self._inner.writing(overwrite=replaces or overwrite, mode=mode) as stream:
            if self._mode is not None:
                os.fchmod(stream.fileno(), self._mode)
            yield stream

    @contextmanager
    def proving(self) -> Iterator[None]:
        """Keep the file as it was until the block ends, and refuse it if it changed meanwhile."""
        with self._inner.proving():
            yield
            if self._now() != self.before:
                raise TargetError(
                    "another program changed the file while it was being written; its version "
                    "was kept",
                    file=str(self.path),
                    hint="Run again when no other program edits it.",
                )
            self._keep()

    def written(self) -> OpenFile:
        """Open what was written; the caller closes it."""
        return self._inner.written()

    def remove(self) -> None:
        """Take what was written away."""
        self._inner.remove()

    def _now(self) -> bytes | None:
        file = self._inner.there()
        if file is None:
            return None
        with file, reading(file) as stream:
            self._mode = file.status.st_mode & _MODES
            found = stream.read(MOST_WITHIN + 1)
        if len(found) > MOST_WITHIN:
            raise LimitError(f"the file has more than {MOST_WITHIN:,} bytes", file=str(self.path))
        return found

    def _keep(self) -> None:
        with self.written() as file, reading(file) as stream:
            is_same = stream.read(MOST_WITHIN + 1) == self.before
        if self.before is None or is_same:
            return
        with self.beside(f"{self.path.name}.bak") as beside:
            with beside.writing(overwrite=True, mode=self._mode or PRIVATE_FILE) as sink:
                sink.write(self.before)
            self.kept = beside.path


def output_for(outlet: Outlet, writer: Format, lock: Lock) -> Outlet:
    """Return what a format is written to: the file of that name, a folder, or a part of a file.

    Raises:
        PathRefusedError: If it would be a part of what is no file.
        UsageError: If it would be a part of an encrypted file.
    """
    traits, name = writer.info.traits, outlet.path.name
    if traits.within:
        if lock.is_set:
            raise UsageError("part of a file cannot be encrypted", file=str(outlet), field="lock")
        return WithinOutlet(outlet)
    if traits.folder and not lock.is_set and not name.endswith(ARCHIVE):
        return FolderOutlet(outlet)
    return outlet


def _unpack(packed: BinaryIO, staged: StagedFolder) -> None:
    with zipfile.ZipFile(packed) as archive:
        for info in archive.infolist():
            above = info.filename.rpartition("/")[0]
            if above:
                staged.folder.make_folder(above)
            with staged.folder.create(info.filename) as sink, archive.open(info) as source:
                shutil.copyfileobj(source, sink)
                sink.flush()
                os.fsync(sink.fileno())


@contextmanager
def _temporary() -> Iterator[BinaryIO]:
    try:
        with tempfile.TemporaryFile() as packed:
            yield cast("BinaryIO", packed)
    except OSError as error:
        raise TargetError(
            f"cannot write temporary data: {error.strerror or error}",
            file=tempfile.gettempdir(),
            hint="Free disk space there, or set TMPDIR to a larger folder.",
        ) from error
