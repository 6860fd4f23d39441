"""The files of an export: those in a ZIP archive, or the file itself.

An archive is checked before a file in it is opened: number of files, paths, depth, sizes and
compression. Paths in it are never used for writing.
"""

import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO, NamedTuple, cast

from satchel.crypto.canonical import DEFAULT_LIMITS, Limits
from satchel.crypto.json_reader import ForeignReader
from satchel.errors import InputError, LimitError, MalformedError, PathRefusedError
from satchel.ports.format import HEAD_BYTES, Location, ReadContext
from satchel.runtime.contained_folder import parts_of

ZIP_MAGIC = b"PK\x03\x04"

_MOST_FILES = 100_000
_MOST_DIRECTORY = 64 * 2**20
_DEEPEST = 16
_MOST_HEADS = 64
_SHOWN_CHARS = 200
_PACKINGS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_END, _END64 = b"PK\x05\x06", b"PK\x06\x06"
_END_BYTES, _LOCATOR_BYTES = 22, 20
_FULL16, _FULL32 = 0xFFFF, 0xFFFFFFFF
_SYSTEM_FILES = frozenset({".DS_Store", "Thumbs.db", "desktop.ini"})
_MACOS_FOLDER, _MACOS_FORK = "__MACOSX/", "._"
_ENCRYPTED = 1
_ZIP_ERRORS = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    struct.error,
    NotImplementedError,
    ValueError,
)


class ArchiveFile(NamedTuple):
    """One file of an export."""

    path: str
    info: zipfile.ZipInfo | None
    """Its member of the archive; None if the input is the file itself."""

    @property
    def name(self) -> str:
        """The last part of its path."""
        return self.path.rpartition("/")[2]

    def ends(self, suffix: str | tuple[str, ...]) -> bool:
        """Return whether its name has a suffix, in any case."""
        return self.name.lower().endswith(suffix)


class ChatArchive:
    """The files of an input.

    Args:
        location: The input.
        files: Its files.
        opened: The open archive; None for a single file.
        limits: Limits on the expansion of a file.
    """

    def __init__(
        self,
        location: Location,
        files: list[ArchiveFile],
        opened: zipfile.ZipFile | None,
        limits: Limits,
    ) -> None:
        self.files = files
        """Its files, sorted by path."""

        self._location = location
        self._opened = opened
        self._limits = limits

    def of(self, files: list[ArchiveFile]) -> "ChatArchive":
        """Return an archive with only some of the files."""
        return ChatArchive(self._location, files, self._opened, self._limits)

    def file_of(self, file: ArchiveFile) -> str:
        """Return the name of a file in errors, below the input; empty for the input itself."""
        return file.path if self._opened is not None else ""

    @contextmanager
    def stream(self, file: ArchiveFile) -> Iterator[BinaryIO]:
        """Open one of the files.

        Raises:
            MalformedError: While it is read, if it is damaged.
            LimitError: While it is read, if it expands too far.
        """
        if self._opened is None or file.info is None:
            with self._location.open() as stream:
                yield stream
            return
        try:
            with self._opened.open(file.info) as stream:
                yield cast("BinaryIO", _Bounded(cast("BinaryIO", stream), file, self._limits))
        except _ZIP_ERRORS as error:
            if isinstance(error, InputError):
                raise
            raise _damaged(file.path, error) from None

    @contextmanager
    def document(
        self, file: ArchiveFile, reading: ReadContext, *, mends: bool = True
    ) -> Iterator[ForeignReader]:
        """Open one of the files as JSON; errors name its lines.

        Args:
            file: The file.
            reading: The limits; counts unpaired surrogates.
            mends: Whether unpaired surrogates are counted instead of being errors.
        """
        with self.stream(file) as stream:
            document = ForeignReader(
                stream,
                self._location.name,
                item_bytes=reading.limits.line_bytes,
                mending=reading.mended if mends else None,
            )
            reading.line = lambda: document.value_line
            yield document
        reading.line = lambda: None


@contextmanager
def open_archive(location: Location, limits: Limits = DEFAULT_LIMITS) -> Iterator[ChatArchive]:
    """Open an input: an archive, or one file.

    Raises:
        MalformedError: If it is a damaged archive, or has members that exports never have.
        LimitError: If it exceeds a limit.
        PathRefusedError: If a path leads out of it.
    """
    if not location.head.startswith(ZIP_MAGIC):
        yield ChatArchive(location, [ArchiveFile(location.path.name, None)], None, limits)
        return
    with location.open() as stream:
        try:
            _require_small_directory(stream)
            archive = zipfile.ZipFile(stream)
        except (*_ZIP_ERRORS, OSError) as error:
            if isinstance(error, InputError):
                raise error.located(file=location.name) from None
            raise _damaged("the archive", error, file=location.name) from None
        with archive:
            files = sorted(_files_in(archive, location.name))
            yield ChatArchive(location, files, archive, limits)


def heads(location: Location, suffix: str | tuple[str, ...] = ".json") -> Iterator[bytes]:
    """Yield the first bytes of the files with a suffix; damaged files are skipped.

    Raises:
        InputError: If the archive cannot be read.
    """
    if not location.head.startswith(ZIP_MAGIC):
        yield location.head
        return
    with open_archive(location) as archive:
        named = [one for one in archive.files if one.ends(suffix)]
        for file in likely(named, "conversation", "memor"):
            try:
                with archive.stream(file) as stream:
                    head = stream.read(HEAD_BYTES)
            except InputError:
                continue
            yield head


def likely(files: list[ArchiveFile], *words: str) -> list[ArchiveFile]:
    """Return the files to inspect for recognition: a limited number, likely names first."""

    def rank(file: ArchiveFile) -> bool:
        return not any(word in file.path.casefold() for word in words)

    return sorted(files, key=rank)[:_MOST_HEADS]


def _files_in(archive: zipfile.ZipFile, name: str) -> Iterator[ArchiveFile]:
    seen = set[str]()
    for info in archive.infolist():
        if info.is_dir() or info.filename.endswith("\\"):
            continue
        path = _path_of(info.filename)
        try:
            _require_plain(path, info)
            if path in seen:
                raise MalformedError("two files of the archive have the same name")
        except InputError as error:
            error.field = info.filename[:_SHOWN_CHARS]
            raise error.located(file=name) from None
        seen.add(path)
        if not _is_of_a_system(path):
            yield ArchiveFile(path, info)


def _path_of(name: str) -> str:
    """Return a path with slashes, since Windows PowerShell writes backslashes."""
    return name.replace("\\", "/").removeprefix("./")


def _is_of_a_system(path: str) -> bool:
    """Return whether a file is metadata of macOS or Windows."""
    name = path.rpartition("/")[2]
    return path.startswith(_MACOS_FOLDER) or name.startswith(_MACOS_FORK) or name in _SYSTEM_FILES


def _require_plain(path: str, info: zipfile.ZipInfo) -> None:
    if len(parts_of(path)) > _DEEPEST:
        raise LimitError(f"folders more than {_DEEPEST} deep in an archive")
    mode = info.external_attr >> 16
    if stat.S_IFMT(mode) not in (0, stat.S_IFREG):
        raise PathRefusedError("a link or a device in an archive")
    if info.flag_bits & _ENCRYPTED:
        raise MalformedError(
            "the archive is password-protected", hint="Unpack it, and use the folder."
        )
    if info.compress_type not in _PACKINGS:
        raise MalformedError(
            "compressed with an unsupported method",
            hint="Unpack it, and repack it without a password.",
        )


def _require_small_directory(stream: BinaryIO) -> None:
    """Check the size of the central directory before it is read as a whole."""
    size = stream.seek(0, 2)
    start = max(0, size - _END_BYTES - _FULL16 - _LOCATOR_BYTES)
    stream.seek(start)
    tail = stream.read()
    at = tail.rfind(_END)
    if at < 0 or len(tail) < at + _END_BYTES:
        raise MalformedError("the archive is truncated", byte=size)
    count, length = struct.unpack_from("<HI", tail, at + 10)
    if at >= _LOCATOR_BYTES and (count == _FULL16 or length == _FULL32):
        (where,) = struct.unpack_from("<Q", tail, at - _LOCATOR_BYTES + 8)
        stream.seek(min(where, size))
        more = stream.read(56)
        if more.startswith(_END64) and len(more) == 56:  # noqa: PLR2004 - its length
            count, length = struct.unpack_from("<QQ", more, 32)
    if count > _MOST_FILES or length > _MOST_DIRECTORY:
        raise LimitError(f"an archive can have at most {_MOST_FILES} files", field="files")
    stream.seek(0)


def _damaged(name: str, error: Exception, *, file: str | None = None) -> MalformedError:
    return MalformedError(f"{name} is damaged: {error}", file=file, byte=0)


class _Bounded:
    """A file of an archive whose expansion is limited."""

    def __init__(self, stream: BinaryIO, file: ArchiveFile, limits: Limits) -> None:
        self._stream = stream
        self._path = file.path
        packed = file.info.compress_size if file.info else 0
        self._factor = limits.expansion
        self._most = max(limits.expansion_free_bytes, limits.expansion * packed)
        self._expanded = 0

    def read(self, size: int = -1) -> bytes:
        """Return some bytes more."""
        # Never the whole size at once: a declared size may be wrong.
        data = self._stream.read(size if 0 <= size <= _CHUNK else _CHUNK)
        self._expanded += len(data)
        if self._expanded > self._most:
            problem = f"the file expands to more than {self._factor} times its size"
            raise LimitError(problem, field=self._path)
        return data


_CHUNK = 1 << 18
