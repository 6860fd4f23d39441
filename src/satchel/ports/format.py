"""Formats, their registry, and connectors: what memory is read from and written to.

A format reads and writes a file or a folder, not only a stream of bytes; a connector
lists the records of a live product page by page, and writes to it in batches.
"""

import json
import os
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from pkgutil import iter_modules
from typing import (
    TYPE_CHECKING,
    Any,
    BinaryIO,
    ClassVar,
    Literal,
    NamedTuple,
    Protocol,
    cast,
    runtime_checkable,
)

from satchel.artifact.body import Progress
from satchel.artifact.encodings import GZIP_MAGIC, Header
from satchel.crypto.canonical import DEFAULT_LIMITS, Limits
from satchel.crypto.keys import SigningKey
from satchel.crypto.sealed_records import Sealed
from satchel.errors import (
    EmptyInputError,
    InputError,
    MalformedError,
    UnknownFormatError,
    UnreadableError,
    UsageError,
)
from satchel.model.records import Entry, Model
from satchel.model.values import Component
from satchel.ports.record_set import RecordSet, Report
from satchel.ports.vectors import VectorSink, VectorSource
from satchel.runtime.files import PRIVATE_FILE, InputPath, OpenFile, atomic_write, open_input
from satchel.runtime.output import Outlet

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

BOM = b"\xef\xbb\xbf"
"""Byte order mark of UTF-8."""

HEAD_BYTES = 4096
"""Bytes of a file from which a format is recognized."""

MOST_WITHIN = 4 * 2**20
"""The largest file that memory may be written into; an agent reads all of it."""


@dataclass(frozen=True)
class Location:
    """A file or folder to read from."""

    path: Path
    on_progress: Progress | None = None
    held: OpenFile | None = None
    """The open file, so that all reads are of the same file."""

    @property
    def file(self) -> InputPath:
        """The open file, or its path."""
        return self.held or self.path

    @property
    def name(self) -> str:
        """Its name, for errors."""
        return str(self.path)

    @property
    def is_folder(self) -> bool:
        """Whether it is a folder."""
        if self.held is not None:
            return False
        try:
            return self.path.is_dir()
        except OSError:  # such as a name that is too long; opening it raises the error
            return False

    @cached_property
    def head(self) -> bytes:
        """The first bytes of a file; empty for a folder."""
        if self.is_folder:
            return b""
        with self.open() as stream:
            return stream.read(HEAD_BYTES)

    @cached_property
    def unpacked_head(self) -> bytes:
        """The first bytes inside a gzip file, or of the file itself."""
        if not self.head.startswith(GZIP_MAGIC):
            return self.head
        try:
            return zlib.decompressobj(wbits=31).decompress(self.head, HEAD_BYTES)
        except zlib.error:
            return self.head

    @contextmanager
    def open(self) -> Iterator[BinaryIO]:
        """Open the file.

        Raises:
            UnreadableError: If it cannot be read.
        """
        with open_input(self.file) as stream:
            if self.on_progress is None:
                yield stream
            else:
                yield cast("BinaryIO", _ProgressStream(stream, self.on_progress))


class _ProgressStream:
    """A file that reports how much of it was read."""

    def __init__(self, stream: BinaryIO, on_progress: Progress) -> None:
        self._stream = stream
        self._tell = on_progress
        self._size = os.fstat(stream.fileno()).st_size

    def read(self, size: int = -1) -> bytes:
        data = self._stream.read(size)
        self._tell(self._stream.tell(), self._size)
        return data

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@dataclass(frozen=True)
class Target:
    """A file or folder to write to; the output appears whole or not at all.

    Only its owner may read it.
    """

    path: Path
    overwrite: bool = False
    outlet: Outlet | None = None
    """The open folder, so that it cannot be replaced before the end."""

    @contextmanager
    def open(self) -> Iterator[BinaryIO]:
        """Yield a file to write; it gets the target's name when the block ends without an error.

        Raises:
            TargetError: If it cannot be written.
        """
        if self.outlet is not None:
            with self.outlet.writing(overwrite=self.overwrite) as stream:
                yield stream
        else:
            with atomic_write(self.path, overwrite=self.overwrite, mode=PRIVATE_FILE) as stream:
                yield stream


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """The capabilities of a format; the conformance suite checks every claim."""

    components: frozenset[Component]
    """Types of memory that it can hold."""

    writes: bool = True
    """Whether it can be written, not only read."""

    exact: bool = False
    """Whether reading and writing restores an equal value, unknown fields included."""

    ordered: bool = True
    """Whether memories of one type keep their order; a format may group them by subject."""

    streams: bool = False
    """Whether the first record is available before the last byte was read."""

    sealed: bool = False
    """Whether its records have IDs and signatures that must be verified before use."""

    keeps_ids: bool = False
    """Whether records keep their IDs."""

    plain: bool = False
    """Whether it is free text, of which a part cannot be told from the whole."""

    folder: bool = False
    """Whether it is a folder of files. Readers and writers use a ZIP archive of them; so do users
    where the name ends in ``.zip``."""

    personal: bool = False
    """Whether a file is the export of one person's account: records without an owner, and the owner
    that other records name, are that person's."""

    within: bool = False
    """Whether it is written into a file with content of others, which stays unchanged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Signs:
    """Signs of a format: a file or folder without them is not passed to ``recognizes``.

    One sign is enough. They are a quick filter: a format must have at least one of its signs in
    every file or folder that it recognizes, and may have one in others.
    """

    starts: tuple[bytes, ...] = ()
    """First bytes, after a byte order mark and white space; of the contents of a gzip file."""

    texts: tuple[tuple[bytes, ...], ...] = ()
    """Groups of texts, such as names of JSON members: those of a group are all in the head."""

    names: tuple[str, ...] = ()
    """Endings of the file's name, in any case."""

    folder: bool = False
    """Whether a folder is one."""

    def fit(self, location: Location) -> bool:
        """Return whether a file or folder shows one of them; reads its name and head only."""
        if location.is_folder:
            return self.folder
        head = location.unpacked_head
        return (
            location.path.name.casefold().endswith(tuple(name.casefold() for name in self.names))
            or head.removeprefix(BOM).lstrip().startswith(self.starts)
            or any(all(text in head for text in group) for group in self.texts)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Info:
    """The description of a format, for help and the reference page."""

    title: str
    suffixes: tuple[str, ...]
    """File name endings, or whole names, that select the format without ``--to``; empty for none.
    """

    spec: str
    """The definition of the format: a document, or a product with its version."""

    checked: str
    """ISO date on which the samples were last compared with the real product."""

    traits: Traits
    signs: Signs | None = None
    """Its signs; None to pass every file and folder to ``recognizes``."""

    lost_on_writing: str = ""
    """What it cannot hold, in a sentence."""

    beside: frozenset[str] = frozenset()
    """Members of ``origin.as_written`` with the product's data about a memory (its history, a
    vector). They are not content, so an output is not checked for them."""


@dataclass(slots=True, kw_only=True)
class ReadContext:
    """The input options of a reader, and its outputs besides records."""

    limits: Limits = DEFAULT_LIMITS
    report: Report = field(default_factory=Report)
    container: dict[str, Any] = field(default_factory=dict)
    """Filled by the reader: fields of the file outside the records, unchanged."""

    missing: int = 0
    """Set by the reader at the end: how many memories, at least, the file declares missing."""

    line: Callable[[], int | None] = lambda: None
    """Set by the reader, where the input has lines: returns the line where the last record starts.
    """

    by_line: bool = False
    """Set by the reader, where each record is a line and ``line`` costs nothing."""

    skip_bad: bool = False
    """Whether bad records are skipped and counted instead of being an error."""

    vectors: VectorSink | None = None
    """Receives the vectors of a file; without it they count as lost."""

    linked: bool = False
    """Set by the reader before its first record, where records link to others by placeholders
    (``ports.drafts``): link targets come first."""

    chained: bool = False
    """Set with ``linked``, where records may also link to their own type."""

    agent: str | None = None
    """The owner of the memories, for a file of one agent; None for the owner in the file."""

    only_ours: bool = False
    """Whether to skip the content of others, in a file that memory is written into."""

    any_version: bool = False
    """Whether an unknown version is read as the most similar one instead of refused."""

    text_member: str | None = None
    """The member of a row that is its text, as given by the user."""

    requires_content: bool = False
    """Whether a row without text, or other content of its type, is refused."""

    has_text_member: bool = False
    """Set by the reader before its first record, if its format fixes the member for the text and
    the reader refuses a row without it."""

    def refuse(self, error: InputError) -> None:
        """Skip a bad record.

        Raises:
            InputError: The error, unless bad records are skipped; always if the disk failed.
        """
        if isinstance(error, UnreadableError):
            raise error
        if not self.skip_bad:
            error.hint = error.hint or "import and convert skip bad records with --skip-bad."
            raise error
        self.report.refuse(error)

    def mended(self) -> None:
        """Count a value with half of a surrogate pair, which is no valid text.

        JavaScript truncates texts between the two halves of an emoji.
        """
        self.report.lost("character", "an unpaired surrogate, which is not text, becomes U+FFFD")


@dataclass(slots=True, kw_only=True)
class WriteContext:
    """The input of a writer."""

    limits: Limits = DEFAULT_LIMITS
    report: Report = field(default_factory=Report)
    keys: tuple[SigningKey, ...] = ()
    """The signing key, where the format has signatures."""

    header: Header = field(default_factory=Header)
    """The header of the statement, where the format has one."""

    compress: bool = False
    """Whether the target's name ends in ``.gz``."""

    bank: str | None = None
    """Name or ID of the exported bank; None for a conversion."""

    entities: bool = True
    """Whether to include entities, in formats where they are optional."""

    embeddings: bool = True
    """Whether to include embeddings, in formats where they are optional."""

    before: bytes | None = None
    """The content of the target, for formats that write ``within`` it; None for no file."""

    around: bool = False
    """Set by the writer: whether the target has memory of others, to be skipped when the output is
    read back."""

    replacing: bool = False
    """Whether to overwrite changes that others made to earlier output."""

    vectors: VectorSource | None = None
    """The vectors of the exported bank, if any."""


@runtime_checkable
class Format(Protocol):
    """A format of memory."""

    info: ClassVar[Info]

    def recognizes(self, location: Location) -> bool:
        """Return whether a file or folder is in this format; reads its name and ``head`` only.

        Raises:
            InputError: If it is too damaged to decide; optional.
        """
        ...

    def read(self, location: Location, reading: ReadContext) -> Iterator[Model | Sealed]:
        """Yield the records of a file or folder, in order: drafts, or sealed records.

        Raises:
            MalformedError: If the bytes are invalid; names line or byte.
            LimitError: If a limit is exceeded.
        """
        ...

    def write(self, records: RecordSet, target: Target, writing: WriteContext) -> None:
        """Write the records; losses are counted in ``writing.report``.

        Raises:
            TargetError: If the target cannot be written.
        """
        ...


class ReadOnlyFormat:
    """Base of formats that no product imports, so that they are only read."""

    info: ClassVar[Info]
    write_hint: ClassVar[str] = "Choose another format: satchel formats."

    def write(self, records: RecordSet, target: Target, writing: WriteContext) -> None:
        """Refuse to write.

        Raises:
            UsageError: Always.
        """
        del records, target, writing
        raise UsageError(
            f"this format is read-only: {self.info.title}",
            field="format",
            hint=self.write_hint,
        )


@runtime_checkable
class SelectiveFormat(Protocol):
    """A format that drops part of a memory by default."""

    def as_asked(self, entry: Entry, writing: WriteContext) -> Entry:
        """Return the part of a memory that is written; the memory itself if it is whole."""


@dataclass(frozen=True, slots=True)
class PastVersion:
    """A past version of a memory at the source."""

    item: Model | Sealed
    state: Literal["superseded", "deleted"]
    """Superseded by the next one of the same origin id; or deleted, then no other follows."""

    at: str | None = None
    """When that happened, if the source records it."""


@dataclass(frozen=True, slots=True)
class Page:
    """A page of records of a live source."""

    items: Sequence[Model | Sealed]
    cursor: str | None
    """The cursor of the next page; None for the last page."""

    past: Sequence[PastVersion] = ()
    """Earlier versions of ``items``: those of a memory together, oldest first."""


@dataclass(frozen=True, slots=True)
class WriteResult:
    """The result of writing one record to a live product."""

    id: str
    """ID of the record."""

    there: str | None
    """Its ID in the product, if it was accepted."""

    problem: str | None = None
    known: bool = False
    """Whether the product had it already, with the same content; then nothing was written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectorOptions:
    """Options for opening a live product; a connector ignores those that do not apply to it."""

    limits: Limits = DEFAULT_LIMITS
    include_deleted: bool = False
    """Whether to read deleted memories."""

    embeddings: bool = False
    """Whether to read and write vectors."""

    writes: bool = False
    """Whether to open it for writing, and create it if missing."""

    overwrite: bool = False
    """Whether to replace other versions."""

    dry_run: bool = False
    """Whether to decide what would be written, and write and create nothing."""

    skip_bad: bool = False
    """Whether to skip damaged memories, counted."""


class Connector(Protocol):
    """A live product."""

    info: ClassVar[Info]

    def page(self, cursor: str | None, report: Report) -> Page:
        """Return the page at ``cursor`` (None for the first page); always the same for a cursor."""
        ...

    def take(self, batch: Sequence[Sealed], report: Report) -> Sequence[WriteResult]:
        """Write records; returns a result for each, in order."""
        ...

    def close(self) -> None:
        """Close connections."""
        ...


def pages(connector: Connector, report: Report) -> Iterator[Page]:
    """Yield all pages of a live source, from the start."""
    cursor: str | None = None
    while True:
        page = connector.page(cursor, report)
        yield page
        cursor = page.cursor
        if cursor is None:
            return


@runtime_checkable
class VersionedConnector(Protocol):
    """A connector to a product that stores the history of memories."""

    def take_versions(
        self,
        batch: Sequence[Sealed],
        older: Mapping[str, Sequence[Sealed]],
        report: Report,
    ) -> Sequence[WriteResult]:
        """Write records as ``Connector.take`` does, each with its history.

        Args:
            batch: The current records.
            older: Earlier versions by ID of a current record, oldest first.
            report: Receives losses.
        """
        ...


CONNECTORS, CONNECTOR_GROUP = "satchel.connectors", "satchel.connectors"
"""The package of the built-in connectors, and the entry point group of others."""

ENTRY_POINT_GROUP = "satchel.formats"
"""The entry point group of other formats; a built-in name cannot be replaced."""

_NEAREST = 5
_TAR, _TAR_AT = b"ustar", 257
_UTF16 = (b"\xff\xfe", b"\xfe\xff")


INDEX = "index.json"
"""The index of the formats, read instead of importing them; ``docs.generate`` writes it."""


class _Listing(NamedTuple):
    """A row of the index."""

    suffixes: tuple[str, ...]
    writes: bool
    signs: Signs | None

    @classmethod
    def of(cls, format_: Format) -> "_Listing":
        """Return the row of a format."""
        info = format_.info
        return cls(info.suffixes, info.traits.writes, info.signs)

    @classmethod
    def read(cls, row: dict[str, Any]) -> "_Listing":
        """Read a row of the index."""
        signs = Signs(
            starts=tuple(each.encode("latin-1") for each in row["starts"]),
            texts=tuple(tuple(each.encode("latin-1") for each in group) for group in row["texts"]),
            names=tuple(row["names"]),
            folder=row["folder"],
        )
        return cls(tuple(row["suffixes"]), row["writes"], signs)

    def row(self, signs: Signs) -> dict[str, Any]:
        """Return its row of the index; bytes are characters up to U+00FF."""
        return {
            "suffixes": self.suffixes,
            "writes": self.writes,
            "starts": [each.decode("latin-1") for each in signs.starts],
            "texts": sorted(
                sorted(each.decode("latin-1") for each in group) for group in signs.texts
            ),
            "names": sorted(signs.names),
            "folder": signs.folder,
        }


class Registry(Mapping[str, Format]):
    """The installed formats; a module is imported when its format is first used.

    Args:
        folder: The package whose modules are formats.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._found: dict[str, str | EntryPoint] | None = None
        self._listings: dict[str, _Listing] | None = None

    def __getitem__(self, name: str) -> Format:
        where = self._modules.get(name)
        if where is None:
            raise UnknownFormatError(f"unknown format {name!r}", hint=f"Known: {', '.join(self)}.")
        loaded = import_module(where) if isinstance(where, str) else where.load()
        found = getattr(loaded, "FORMAT", loaded)
        if not isinstance(found, Format):
            raise UnknownFormatError(f"{name!r} is installed, but is not a format")
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._modules))

    def __len__(self) -> int:
        return len(self._modules)

    def by_suffix(self, file_name: str) -> str | None:
        """Return the format of a file's longest suffix, ignoring ``.gz`` and ``.age``."""
        bare = file_name.removesuffix(".age").removesuffix(".gz")
        owners = [
            (len(suffix), name)
            for name in self
            for listing in (self._listing(name),)
            for suffix in listing.suffixes
            if bare.endswith(suffix) and listing.writes
        ]
        return max(owners)[1] if owners else None

    def recognize(self, location: Location) -> str:
        """Return the one format that recognizes a place; those without a sign in it are not asked.

        Raises:
            UnknownFormatError: If none does, or several do.
            EmptyInputError: If it is an empty file.
            InputError: If it cannot be read, such as a truncated archive or text in UTF-16.
        """
        claims, trouble = list[str](), None
        for name in self.candidates(location):
            try:
                if self[name].recognizes(location):
                    claims.append(name)
            except InputError as error:
                trouble = trouble or error
        if len(claims) == 1:
            return claims[0]
        if not claims:
            if trouble is not None:
                raise trouble
            _require_readable(location)
            raise UnknownFormatError(
                "unrecognized format",
                file=location.name,
                hint=self._nearest(location),
            )
        raise UnknownFormatError(
            f"ambiguous format: could be {', '.join(claims)}",
            file=location.name,
            hint="Choose one with --from.",
        )

    def candidates(self, location: Location) -> list[str]:
        """Return the formats that a place shows a sign of, sorted.

        Raises:
            InputError: If the place cannot be read.
        """
        signs = {name: self._listing(name).signs for name in self}
        return [name for name, each in signs.items() if each is None or each.fit(location)]

    def made_index(self) -> str:
        """Return what the index has to hold: one line for each format of this package."""
        listings = {
            name: _Listing.of(self[name])
            for name, where in self._modules.items()
            if isinstance(where, str)
        }
        lines = [
            f"{json.dumps(name)}: {json.dumps(listing.row(listing.signs))}"
            for name, listing in sorted(listings.items())
            if listing.signs is not None
        ]
        return "{\n" + ",\n".join(lines) + "\n}\n"

    @property
    def index(self) -> Path:
        """The file with the index."""
        return Path(next(iter(import_module(self._folder).__path__))) / INDEX

    def _listing(self, name: str) -> _Listing:
        """Return what is known of a format; one that is not in the index is imported."""
        if self._listings is None:
            rows = json.loads(self.index.read_text("utf-8")) if self.index.exists() else {}
            self._listings = {
                name: _Listing.read(row)
                for name, row in rows.items()
                if isinstance(self._modules.get(name), str)
            }
        if name not in self._listings:
            self._listings[name] = _Listing.of(self[name])
        return self._listings[name]

    def _nearest(self, location: Location) -> str:
        """Return a hint: formats with files of such a name, and where all of them are listed."""
        name = location.name.lower().removesuffix(".gz")
        ending = "." + name.rpartition(".")[2] if "." in name else None
        near = [
            known
            for known in self
            if ending and any(own.endswith(ending) for own in self._listing(known).suffixes)
        ]
        named = f" Files like this one can be: {', '.join(near[:_NEAREST])}." if near else ""
        return f"Set the format with --from.{named} All formats: satchel formats."

    @property
    def _modules(self) -> dict[str, "str | EntryPoint"]:
        if self._found is None:
            own: dict[str, str | EntryPoint] = {
                found.name: f"{self._folder}.{found.name}"
                for found in iter_modules(import_module(self._folder).__path__)
                if not found.name.startswith("_")
            }
            from importlib.metadata import entry_points  # slow to import

            foreign = {point.name: point for point in entry_points(group=ENTRY_POINT_GROUP)}
            self._found = {**foreign, **own}
        return self._found


def _require_readable(location: Location) -> None:
    if not (location.is_folder or location.head):
        raise EmptyInputError("the file is empty", file=location.name)
    if location.head.startswith(_UTF16):
        raise MalformedError(
            "the text is UTF-16, as written by Windows PowerShell",
            file=location.name,
            byte=0,
            hint="Save it as UTF-8 again.",
        )
    if _is_tar(location.head):
        raise MalformedError(
            "this is a tar archive",
            file=location.name,
            byte=0,
            hint="Unpack it, and use the folder.",
        )


def _is_tar(head: bytes) -> bool:
    with suppress(zlib.error):
        head = zlib.decompressobj(wbits=31).decompress(head, _TAR_AT + len(_TAR))
    return head[_TAR_AT : _TAR_AT + len(_TAR)] == _TAR


formats = Registry("satchel.formats")
"""The formats that are installed."""


def installed_connectors() -> list[str]:
    """Return the names of the live products that have a connector, sorted; imports none."""
    found = find_spec(CONNECTORS)
    folders = found.submodule_search_locations if found is not None else None
    own = {one.name for one in iter_modules(folders or []) if not one.name.startswith("_")}
    from importlib.metadata import entry_points  # slow to import

    return sorted(own | {point.name for point in entry_points(group=CONNECTOR_GROUP)})
