"""Inputs and outputs that are no single file: folders, and live products by name.

A folder, for example an unpacked export, is packed into a private temporary file, so that readers
have one file that they can read more than once, unaffected by changes in the folder during the run.
"""

import os
import re
import shutil
import tempfile
import zipfile
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any, BinaryIO, ClassVar, cast

import msgspec

from satchel.config.options import OWN, PathPermission, file_to_read, folder_to_read
from satchel.config.settings import Settings
from satchel.connectors._address import of_server, require_whole
from satchel.crypto.canonical import DEFAULT_LIMITS
from satchel.crypto.encryption import Lock
from satchel.crypto.sealed_records import Sealed
from satchel.errors import (
    EmptyInputError,
    InputError,
    LimitError,
    PathRefusedError,
    TargetError,
    UsageError,
    shown_address,
)
from satchel.formats._archive import ArchiveFile, ChatArchive, open_archive
from satchel.model.records import AnyRecord, Model, State
from satchel.model.values import resolved
from satchel.ports.format import (
    MOST_WITHIN,
    Connector,
    ConnectorOptions,
    Format,
    Info,
    Location,
    Page,
    ReadContext,
    Target,
    WriteContext,
    pages,
)
from satchel.ports.record_set import RecordSet, Report
from satchel.runtime.contained_folder import ContainedFolder
from satchel.runtime.files import PRIVATE_FILE, OpenFile, open_input
from satchel.runtime.output import Outlet, StagedFolder, WrappedOutlet
from satchel.runtime.roots import PathInput
from satchel.runtime.scratch import temporary_file
from satchel.transfer.import_stage import SourceEnd

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
        with open_archive(Location(folder.path / name, held=held)) as packed:
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


MEM0_LOCAL, QDRANT_LOCAL, CHROMA_LOCAL = "mem0-local", "qdrant-local", "chroma-local"
LANGGRAPH_POSTGRES, LETTA_MEMFS = "langgraph-postgres", "letta-memfs"

_META_BYTES = 16 * 2**20
_OF_MEM0 = re.compile("^mem0$|_entities$|-entities$|^mem0migrations$")

_Line = tuple[State | None, str | None, AnyRecord]
"""A record, with its final state at the source, if any, and the time of that."""


def connector_for(text: str, name: str | None) -> str | None:
    """Return the connector for an address and the name of a format; None for a file.

    Args:
        text: A path, or an address such as ``mem0:///folder``.
        name: The format that the user named.

    Raises:
        UsageError: If the address is of another product.
    """
    require_whole(text)
    by_address = next((one for scheme, one in _SCHEMES.items() if text.startswith(scheme)), None)
    if by_address is not None and name not in (None, by_address):
        raise UsageError(
            f"this is an address for {by_address}, not for {name}",
            field="format",
            hint=f"Drop the format, or use {by_address}.",
        )
    if by_address is None and name in _OPENERS:
        return name
    if by_address is None and name is None:
        return _of_folder(text)
    return by_address


def _of_folder(text: str) -> str | None:
    """Return the product of a folder: Mem0, Qdrant or Letta; None for others."""
    with suppress(OSError, ValueError):  # opening it reports what is wrong with the name
        folder = Path(text)
        if (folder / "qdrant" / "meta.json").is_file():
            return MEM0_LOCAL
        if (folder / "meta.json").is_file():
            return MEM0_LOCAL if _is_mem0s(folder) else QDRANT_LOCAL
        if (folder / "system").is_dir():
            from satchel.connectors.letta_memfs import is_memfs

            return LETTA_MEMFS if is_memfs(folder) else None
    return None


def _is_mem0s(folder: Path) -> bool:
    if any((one / "history.db").is_file() for one in (folder, folder.parent)):
        return True
    with (folder / "meta.json").open("rb") as stream:
        found = msgspec.json.decode(stream.read(_META_BYTES), type=resolved(_Meta))
    return any(map(_OF_MEM0.search, found.collections))


def display_address(name: str, text: str) -> str:
    """Return the address of a live product without a password, for display and storage.

    Args:
        name: Connector of the product.
        text: The address.
    """
    return shown_address(of_server(text) if name == LANGGRAPH_POSTGRES else text)


class _Meta(msgspec.Struct):
    collections: dict[str, Any]


def opened_connector(
    name: str, text: str, settings: Settings, options: ConnectorOptions
) -> Connector:
    """Open a live product; the caller closes it.

    Raises:
        UnreadableError: If it does not exist.
        LockedError: If another process has it.
        TargetError: If it cannot be written.
        UsageError: If its address is invalid.
    """
    return _OPENERS[name](text, replace(options, limits=settings.options.limits))


def _mem0_local(text: str, options: ConnectorOptions) -> Connector:
    from satchel.connectors._mem0_store import Mem0Address
    from satchel.connectors.mem0_local import Mem0Local

    return Mem0Local(Mem0Address.read(text), options)


def _qdrant_local(text: str, options: ConnectorOptions) -> Connector:
    from satchel.connectors.qdrant_local import QdrantAddress, QdrantLocal

    return QdrantLocal(QdrantAddress.read(text), options)


def _chroma_local(text: str, options: ConnectorOptions) -> Connector:
    from satchel.connectors.chroma_local import ChromaAddress, ChromaLocal

    return ChromaLocal(ChromaAddress.read(text), options)


def _langgraph_postgres(text: str, options: ConnectorOptions) -> Connector:
    from satchel.connectors.langgraph_postgres import LangGraphAddress, LangGraphPostgres

    return LangGraphPostgres(LangGraphAddress.read(text), options)


def _letta_memfs(text: str, options: ConnectorOptions) -> Connector:
    from satchel.connectors.letta_memfs import LettaMemfs, MemfsAddress

    return LettaMemfs(MemfsAddress.read(text), options)


_OPENERS: dict[str, Callable[[str, ConnectorOptions], Connector]] = {
    MEM0_LOCAL: _mem0_local,
    QDRANT_LOCAL: _qdrant_local,
    CHROMA_LOCAL: _chroma_local,
    LANGGRAPH_POSTGRES: _langgraph_postgres,
    LETTA_MEMFS: _letta_memfs,
}
_SCHEMES = {
    "mem0:": MEM0_LOCAL,
    "qdrant:": QDRANT_LOCAL,
    "chroma:": CHROMA_LOCAL,
    "langgraph+postgres": LANGGRAPH_POSTGRES,
    "memfs:": LETTA_MEMFS,
}


@dataclass(slots=True, kw_only=True)
class ListReading(ReadContext):
    """Context for reading a listing: a skipped record also drops its ending."""

    endings: deque[SourceEnd | None]

    def refuse(self, error: InputError) -> None:
        """Skip a malformed record; see ``ReadContext.refuse``."""
        ReadContext.refuse(self, error)  # super() does not work: slots=True creates another class
        self.endings.popleft()


class ListedSource:
    """The listing of a live source, as a format whose file is the listing.

    Args:
        path: Path of the listing.
        info: Description of the connector.
        report: Report of the connector.
    """

    info: ClassVar[Info]

    def __init__(self, path: Path, info: Info, report: Report) -> None:
        self.path = path
        # Each product has its own; the protocol declares a class variable.
        self.info = info  # type: ignore[misc]
        self._report = report
        self.endings = deque[SourceEnd | None]()
        """Endings at the source of the records that were read and not yet processed.

        Skipping a record removes its ending.
        """

    def recognizes(self, location: Location) -> bool:
        """Return False: no file is a listing."""
        del location
        return False

    def read(self, location: Location, reading: ReadContext) -> Iterator[Model | Sealed]:
        """Yield the records in the order of the listing."""
        for note in self._report.notes:
            reading.report.note(note)
        reading.report.losses.update(deepcopy(self._report.losses))
        reading.report.refused += self._report.refused
        reading.report.left_out += self._report.left_out
        self.endings.clear()
        with location.open() as stream:
            while line := stream.readline():
                state, at, record = _decode(line)
                self.endings.append(SourceEnd(state, at) if state is not None else None)
                yield record

    def write(self, records: RecordSet, target: Target, writing: WriteContext) -> None:
        """Raise an error: a listing cannot be written."""
        del records, target, writing
        raise UsageError("a listing of a live source cannot be written")


_decode = msgspec.json.Decoder(resolved(_Line)).decode


@contextmanager
def list_source(
    name: str, text: str, settings: Settings, options: ConnectorOptions
) -> Iterator[ListedSource]:
    """Store everything that a live source has in a private file, and provide the listing.

    Raises:
        TargetError: If the temporary folder is full.
        EmptyInputError: If it has no memories.
        InputError: If it cannot be read.
        LockedError: If another process has it.
    """
    report = Report()
    with (
        tempfile.NamedTemporaryFile() as file,
        closing(opened_connector(name, text, settings, options)) as connector,
    ):
        count = 0
        for page in pages(connector, report):
            count += len(page.items) + len(page.past)
            _write_page(page, file)
        if count == 0:
            hint = report.first_refused
            raise EmptyInputError(
                "it contains no memories", file=display_address(name, text), hint=hint
            )
        _flushed(file)
        yield ListedSource(Path(file.name), connector.info, report)


def _write_page(page: Page, file: Any) -> None:
    lines = [_line(version.item, version.state, version.at) for version in page.past]
    lines += [_line(item, None, None) for item in page.items]
    try:
        file.writelines(lines)
    except OSError as error:
        raise _full(error) from error


def _line(item: Model | Sealed, state: str | None, at: str | None) -> bytes:
    model = item.model if isinstance(item, Sealed) else item
    return msgspec.json.encode((state, at, model)) + b"\n"


def _flushed(file: Any) -> None:
    try:
        file.flush()
    except OSError as error:
        raise _full(error) from error


def _full(error: OSError) -> TargetError:
    return TargetError(
        f"cannot buffer the source's records: {error.strerror or error}",
        file=tempfile.gettempdir(),
        hint="Free disk space there, or set TMPDIR to a larger folder.",
    )
