"""A folder as an input: an unpacked export.

It is packed into a private temporary file, so that readers have one file that they can read more
than once, unaffected by changes in the folder during the run.
"""

import os
import shutil
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, BinaryIO, cast

from satchel.config.options import OWN, PathPermission, file_to_read, folder_to_read
from satchel.config.settings import Settings
from satchel.crypto.canonical import DEFAULT_LIMITS
from satchel.crypto.encryption import Lock
from satchel.errors import LimitError, PathRefusedError, TargetError, UsageError
from satchel.formats._archive import ArchiveFile, ChatArchive, open_archive
from satchel.ports.format import MOST_WITHIN, Format, Place
from satchel.runtime.contained_folder import ContainedFolder
from satchel.runtime.files import PRIVATE_FILE, OpenFile, open_input
from satchel.runtime.output import Outlet, StagedFolder, WrappedOutlet
from satchel.runtime.roots import PathInput
from satchel.runtime.scratch import temporary_file

READ = (".json", ".jsonl", ".md", ".html", ".txt")
"""Suffixes of the files whose contents are read; of others, only the names are."""

_SAID_AGAIN = "chat.html"
"""ChatGPT's page of all conversations, which are also in files next to it: large and redundant."""

_PACKED = ".zip"
"""An archive in the folder: its files are read as if they were in the folder."""

_EXPANSION, _CHUNK = DEFAULT_LIMITS.expansion, 1 << 20

DATABASES = ("chroma.sqlite3",)
"""Names of databases that represent the folder they are in."""

_MOST_FILES = 100_000
_DEEPEST = 16
_THEN = (1980, 1, 1, 0, 0, 0)


@contextmanager
def input_to_read(
    settings: Settings, path: PathInput | OpenFile, permission: PathPermission = OWN
) -> Iterator[OpenFile]:
    """Open an input: a file, or a folder with the files of an export.

    Raises:
        SatchelError: As ``file_to_read`` for a file, and ``folder_to_read`` for a folder.
        LimitError: If a folder has more files than any export.
        TargetError: If there is no space to pack the files of a folder.
    """
    if isinstance(path, OpenFile) or not _is_folder(path):
        with file_to_read(settings, path, permission) as file:
            yield file
        return
    with folder_to_read(settings, path, permission) as folder:
        names = names_in(folder)
        database = next((name for name in DATABASES if name in names), None)
        if database is not None:
            path = Path(path) / database
        elif any(name.lower().endswith((*READ, _PACKED)) for name in names):
            with pack_files(folder, names, Path(path)) as file:
                yield file
            return
    with file_to_read(settings, path, permission) as file:  # raises an error: it is a folder
        yield file


def _is_folder(path: PathInput) -> bool:
    try:
        return Path(path).is_dir()
    except (OSError, ValueError):  # a name that is too long or invalid; opening it reports that
        return False


def names_in(folder: ContainedFolder) -> list[str]:
    """Return the paths of the files below a folder, sorted.

    Raises:
        PathRefusedError: If there is a link.
        LimitError: If there are too many, or they are nested too deeply.
    """
    return sorted(_names_in(folder))


def _names_in(folder: ContainedFolder) -> Iterator[str]:
    waiting, count = [tuple[str, ...]()], 0
    while waiting:
        below = waiting.pop()
        for name, kind in folder.listing(below):
            path, count = (*below, name), count + 1
            if kind == "link":
                raise PathRefusedError(
                    "a symbolic link in an export", file=str(folder.path.joinpath(*path))
                )
            if count > _MOST_FILES or len(path) > _DEEPEST:
                problem = f"more than {_MOST_FILES} files, or {_DEEPEST} folders deep"
                raise LimitError(problem, file=str(folder.path))
            if kind == "folder":
                waiting.append(path)
            elif kind == "file":
                yield "/".join(path)


def pack_files(folder: ContainedFolder, names: list[str], path: Path) -> OpenFile:
    """Return a deterministic archive of the files of a folder; the caller closes it.

    Raises:
        TargetError: If there is no space for it.
    """
    with tempfile.TemporaryFile() as file:
        try:
            _pack(folder, names, cast("BinaryIO", file))
        except OSError as error:
            raise TargetError(
                f"cannot combine the files: {error.strerror or error}",
                file=tempfile.gettempdir(),
                hint="Free disk space there, or set TMPDIR to a larger folder.",
            ) from error
        return OpenFile(os.dup(file.fileno()), path)


def _pack(folder: ContainedFolder, names: list[str], file: BinaryIO) -> None:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name in names:
            if name.lower().endswith(_PACKED):
                _put_in(archive, folder, name)
                continue
            info = zipfile.ZipInfo(name, _THEN)
            with archive.open(info, "w", force_zip64=True) as sink:
                if name.lower().endswith(READ) and not name.endswith(_SAID_AGAIN):
                    with folder.open(name) as source:
                        shutil.copyfileobj(source, sink)
    file.flush()


def _put_in(archive: zipfile.ZipFile, folder: ContainedFolder, name: str) -> None:
    """Add the files of a nested archive, below its name.

    Products split one export into several archives, with a list of them.

    Raises:
        MalformedError: If it is damaged; download it again.
        LimitError: If it expands too far.
    """
    with folder.open(name) as stream, OpenFile(os.dup(stream.fileno()), Path(name)) as held:
        left = max(DEFAULT_LIMITS.expansion_free_bytes, _EXPANSION * held.status.st_size)
        with open_archive(Place(folder.path / name, held=held)) as packed:
            for file in packed.files:
                info = zipfile.ZipInfo(f"{name}/{file.path}", _THEN)
                with archive.open(info, "w", force_zip64=True) as sink:
                    if file.ends(READ) and file.name != _SAID_AGAIN:
                        left -= _copied(packed, file, sink, left)


def _copied(packed: ChatArchive, file: ArchiveFile, sink: IO[bytes], most: int) -> int:
    done = 0
    with packed.stream(file) as source:
        while chunk := source.read(_CHUNK):
            done += len(chunk)
            if done > most:
                raise LimitError("an archive in the folder expands too far", field=file.path)
            sink.write(chunk)
    return done


ARCHIVE = ".zip"
"""Suffix of an output that is an archive instead of a folder."""

_MODES = 0o777


class FolderOutlet(WrappedOutlet):
    """An outlet for a folder, to which an archive of its files is written.

    What is read back is packed from the files on the disk.

    Args:
        inner: The outlet with the name of the folder.
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
        mode: int = PRIVATE_FILE,  # noqa: ARG002 - files in our own folders are private
    ) -> Iterator[BinaryIO]:
        """Open an archive for writing, whose files are then extracted to a temporary folder."""
        if self._stack is None:
            raise UsageError("a folder can be written only if it is read back")
        with temporary_file() as packed:
            yield packed
            packed.seek(0)
            self._staged = self._stack.enter_context(self._inner.staging())
            _unpack(packed, self._staged)
        self._replaces = overwrite

    @contextmanager
    def defer_publication(self) -> Iterator[None]:
        """Delay the renaming of the folder until the block ends; see ``Outlet``."""
        with ExitStack() as stack:
            self._stack = stack
            try:
                yield
                if self._staged is not None:
                    self.kept = self._staged.publish(overwrite=self._replaces)
            finally:
                self._stack = self._staged = None

    def written(self) -> OpenFile:
        """Open the written files, packed again from the disk; the caller closes it."""
        if self._staged is None:
            raise TargetError("nothing was written", file=str(self.path))
        folder = self._staged.folder
        return pack_files(folder, names_in(folder), self.path)

    def stored(self) -> OpenFile:
        """Open the same as ``written``: what a reader of the folder gets."""
        return self.written()

    def remove(self) -> None:
        """Remove what was written."""
        self._staged = None


class WithinOutlet(WrappedOutlet):
    """An outlet for a part of a file, which may exist already.

    The previous content is stored next to it as ``NAME.bak`` if it changes.

    Args:
        inner: The outlet with the name of the file.

    Raises:
        PathRefusedError: If it is a link, or not a regular file.
        LimitError: If the existing file is too large.
    """

    def __init__(self, inner: Outlet) -> None:
        super().__init__(inner)
        self._mode: int | None = None
        self.before = self._now()

    @property
    def status(self) -> os.stat_result | None:
        """None: an existing file is edited, not replaced."""
        return None

    @contextmanager
    def writing(self, *, overwrite: bool, mode: int = PRIVATE_FILE) -> Iterator[BinaryIO]:
        """Open the whole file for writing, with its permissions."""
        replaces = self.before is not None
        with self._inner.writing(overwrite=replaces or overwrite, mode=mode) as stream:
            if self._mode is not None:
                os.fchmod(stream.fileno(), self._mode)
            yield stream

    @contextmanager
    def defer_publication(self) -> Iterator[None]:
        """Keep the original file until the block ends; refuse it if it changed during the block."""
        with self._inner.defer_publication():
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
        """Open the written file; the caller closes it."""
        return self._inner.written()

    def remove(self) -> None:
        """Remove what was written."""
        self._inner.remove()

    def _now(self) -> bytes | None:
        file = self._inner.open_existing()
        if file is None:
            return None
        with file, open_input(file) as stream:
            self._mode = file.status.st_mode & _MODES
            data = stream.read(MOST_WITHIN + 1)
        if len(data) > MOST_WITHIN:
            raise LimitError(f"the file has more than {MOST_WITHIN:,} bytes", file=str(self.path))
        return data

    def _keep(self) -> None:
        with self.written() as file, open_input(file) as stream:
            is_same = stream.read(MOST_WITHIN + 1) == self.before
        if self.before is None or is_same:
            return
        with self.sibling(f"{self.path.name}.bak") as beside:
            with beside.writing(overwrite=True, mode=self._mode or PRIVATE_FILE) as sink:
                sink.write(self.before)
            self.kept = beside.path


def output_for(outlet: Outlet, writer: Format, lock: Lock) -> Outlet:
    """Return the outlet for a format: a file, a folder, or a part of a file.

    Raises:
        PathRefusedError: If the format is a part of a file, and the output is not a regular file.
        UsageError: If the format is a part of a file, and the output is to be encrypted.
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
