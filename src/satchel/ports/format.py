"""Formats and connectors: what memory is read from and written to.

A format reads and writes a *place* (a file or a folder, not only a stream of bytes); a connector
lists the records of a live product page by page, and writes to it in batches.
"""

import os
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, Literal, Protocol, cast, runtime_checkable

from satchel.artifact.body import Progress
from satchel.artifact.encodings import GZIP_MAGIC, Header
from satchel.crypto.canonical import DEFAULT_LIMITS, Limits
from satchel.crypto.keys import SigningKey
from satchel.crypto.sealed_records import Sealed
from satchel.errors import InputError, UnreadableError
from satchel.model.records import Entry, Model
from satchel.model.values import Component
from satchel.ports.losses import Report
from satchel.ports.record_set import RecordSet
from satchel.ports.vectors import VectorSink, VectorSource
from satchel.runtime.files import PRIVATE_FILE, InputPath, OpenFile, atomic_write, open_input
from satchel.runtime.output import Outlet

BOM = b"\xef\xbb\xbf"
"""Byte order mark of UTF-8."""

HEAD_BYTES = 4096
"""How much of a file a format may look at to recognise it."""

MOST_WITHIN = 4 * 2**20
"""Bytes of a file of somebody's that memory is written into; an agent reads all of it."""


@dataclass(frozen=True)
class Place:
    """Something to read from."""

    path: Path
    on_progress: Progress | None = None
    held: OpenFile | None = None
    """The file, open already, so that all that is read is of one and the same."""

    @property
    def file(self) -> InputPath:
        """The file as it is to be opened."""
        return self.held or self.path

    @property
    def name(self) -> str:
        """What to call it in errors."""
        return str(self.path)

    @property
    def is_folder(self) -> bool:
        """Whether it is a folder."""
        if self.held is not None:
            return False
        try:
            return self.path.is_dir()
        except OSError:  # such as a name that is too long; opening it says what is wrong
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
    """A file that tells how far it was read."""

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
    """Something to write to; what is written appears whole or not at all.

    Only its owner may read it: it is somebody's memory.
    """

    path: Path
    overwrite: bool = False
    outlet: Outlet | None = None
    """The folder, open already, so that it cannot be exchanged before the end."""

    @contextmanager
    def open(self) -> Iterator[BinaryIO]:
        """Give a file to write that takes the target's name when the block ends well.

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
    """What a format can do; every claim is checked by the conformance suite."""

    components: frozenset[Component]
    """Parts of memory that have a place in it."""

    writes: bool = True
    """Whether we can produce it, not only read it."""

    exact: bool = False
    """Whether reading and writing again gives back an equal value, unknown fields included."""

    ordered: bool = True
    """Whether memories of one component come back in their order; it may gather them by what they
    are about."""

    streams: bool = False
    """Whether the first record is available before the last byte was read."""

    sealed: bool = False
    """Whether its records carry ids and signatures, and must be verified before they are used."""

    keeps_ids: bool = False
    """Whether records come back from it under the ids they had."""

    plain: bool = False
    """Whether it is text as people write it, so that nobody can tell a part of it from all."""

    folder: bool = False
    """Whether it is a folder of files. Readers and writers know it as a ZIP archive of them; it is
    one for people, too, where the name ends in ``.zip``."""

    personal: bool = False
    """Whether a file is the export of one person's account: what names no owner is that person's,
    and an owner that other records name is that person."""

    within: bool = False
    """Whether it is written into a file that others write, too; what they wrote stays as it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Signs:
    """What a place must show so that a format is asked whether it recognises it.

    One sign is enough. They are a quick filter: a format must have at least one of its signs in
    every place that it recognises, and may have one in others.
    """

    starts: tuple[bytes, ...] = ()
    """First bytes, after a byte order mark and white space; of the contents of a gzip file."""

    texts: tuple[tuple[bytes, ...], ...] = ()
    """Groups of texts, such as names of JSON members: those of a group are all in the head."""

    names: tuple[str, ...] = ()
    """Endings of the file's name, in any case."""

    folder: bool = False
    """Whether a folder is one."""

    def fit(self, place: Place) -> bool:
        """Return whether a place shows one of them; reads its name and head only."""
        if place.is_folder:
            return self.folder
        head = place.unpacked_head
        return (
            place.path.name.casefold().endswith(tuple(name.casefold() for name in self.names))
            or head.removeprefix(BOM).lstrip().startswith(self.starts)
            or any(all(text in head for text in group) for group in self.texts)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Info:
    """What a person needs to know about a format; help and the reference page are made from it."""

    title: str
    suffixes: tuple[str, ...]
    """File name endings, or whole names, by which ``--to`` may be left out; empty when none is its
    own."""

    spec: str
    """Where the format is defined: a document, or a product with its version."""

    checked: str
    """ISO date on which the samples were last compared with the real product."""

    traits: Traits
    signs: Signs | None = None
    """What a place must show to be one; without them, the format is asked about every place."""

    lost_on_writing: str = ""
    """What memory it has no place for, in a sentence."""

    beside: frozenset[str] = frozenset()
    """Members of ``origin.as_written`` with what the product keeps beside a memory (its history, a
    vector). They are no part of what the memory says, so they are not looked for in an output."""


@dataclass(slots=True, kw_only=True)
class ReadContext:
    """What a reader is given, and where it puts what is not a record."""

    limits: Limits = DEFAULT_LIMITS
    report: Report = field(default_factory=Report)
    container: dict[str, Any] = field(default_factory=dict)
    """Filled by the reader: fields of the file around the records, as found."""

    missing: int = 0
    """Set by the reader at the end: how many memories, at least, the file itself says it lacks."""

    line: Callable[[], int | None] = lambda: None
    """Set by the reader, where the input has lines: tells on which the last record starts."""

    by_line: bool = False
    """Set by the reader, where each record is a line and ``line`` is told at no cost."""

    skip_bad: bool = False
    """Whether bad records are left out, counted, instead of being an error."""

    vectors: VectorSink | None = None
    """Takes a bank's own vectors, where a file has some; without it they count as lost."""

    linked: bool = False
    """Set by the reader before its first record, where records name others by placeholders
    (``ports.linking``): those that are named come before those that name them."""

    chained: bool = False
    """Set with ``linked``, where records may also name others of their own type."""

    agent: str | None = None
    """Whose memory it is taken for, where a file is that of one agent; as it says otherwise."""

    only_ours: bool = False
    """Whether to leave out what others wrote, in a file that memory is written into."""

    any_version: bool = False
    """Whether a version that is not known is read as the one most like it, not refused."""

    text_member: str | None = None
    """The member of a row that is its text, as a person named it."""

    requires_content: bool = False
    """Whether a row without text, or other content of its type, is refused."""

    has_text_member: bool = False
    """Set by the reader before its first record, where its format names the member that is the
    text, and the reader refuses a row without that member: a row that is read has no other text."""

    def refuse(self, error: InputError) -> None:
        """Leave a bad record out.

        Raises:
            InputError: The error, unless bad records are left out; always if the disk failed.
        """
        if isinstance(error, UnreadableError):
            raise error
        if not self.skip_bad:
            error.hint = error.hint or "import and convert skip bad records with --skip-bad."
            raise error
        self.report.refuse(error)

    def mended(self) -> None:
        """Count a value with half of a character in it, of which there is no text.

        JavaScript cuts texts between the two halves of an emoji, and writes what is left.
        """
        self.report.lost("character", "an unpaired surrogate, which is not text, becomes U+FFFD")


@dataclass(slots=True, kw_only=True)
class WriteContext:
    """What a writer is given."""

    limits: Limits = DEFAULT_LIMITS
    report: Report = field(default_factory=Report)
    keys: tuple[SigningKey, ...] = ()
    """Who signs, where the format has signatures."""

    header: Header = field(default_factory=Header)
    """What a new statement says, where the format has one."""

    compress: bool = False
    """Whether the target's name asks for gzip."""

    bank: str | None = None
    """Name or id of the bank that the records were just taken out of; None for a conversion."""

    entities: bool = True
    """Whether entities go along, in formats that can do without them."""

    embeddings: bool = True
    """Whether embeddings go along, in such formats."""

    before: bytes | None = None
    """What the target holds already, for formats that write ``within`` it; None for nothing."""

    around: bool = False
    """Set by the writer: whether there is memory in the target that is not of these records, and
    is to be left out when they are read back."""

    replacing: bool = False
    """Whether changes that others made to what was written there before may be replaced."""

    vectors: VectorSource | None = None
    """The vectors of the bank that the records were taken out of, where it has some."""


@runtime_checkable
class Format(Protocol):
    """One way to lay memory out."""

    info: ClassVar[Info]

    def recognises(self, place: Place) -> bool:
        """Tell whether a place holds this format, from its name and ``head``; no other I/O.

        Raises:
            InputError: If it is so damaged that this cannot be told; nothing has to be.
        """
        ...

    def read(self, place: Place, reading: ReadContext) -> Iterator[Model | Sealed]:
        """Yield what the place holds, in its order: drafts, or sealed records.

        Raises:
            MalformedError: If the bytes are not what they should be, naming line or byte.
            LimitError: If a bound is reached.
        """
        ...

    def write(self, records: RecordSet, target: Target, writing: WriteContext) -> None:
        """Write the records; what the format cannot hold goes into ``writing.report``.

        Raises:
            TargetError: If the target cannot be written.
        """
        ...


@runtime_checkable
class SelectiveFormat(Protocol):
    """A format that leaves something of a memory out where nobody asked for it."""

    def as_asked(self, entry: Entry, writing: WriteContext) -> Entry:
        """Return what is left of a memory; the memory itself where that is all of it."""


@dataclass(frozen=True, slots=True)
class PastVersion:
    """A memory that is not current at the source any more."""

    item: Model | Sealed
    state: Literal["superseded", "deleted"]
    """Superseded by the next one of the same origin id; or deleted, then no other follows."""

    at: str | None = None
    """When that happened, where the source says it."""


@dataclass(frozen=True, slots=True)
class Page:
    """Some records of a live source, and where the next ones start."""

    items: Sequence[Model | Sealed]
    cursor: str | None
    """Hand this back for the next page; None when this was the last."""

    past: Sequence[PastVersion] = ()
    """What came before ``items``: all older versions of a memory together, the oldest first."""


@dataclass(frozen=True, slots=True)
class WriteResult:
    """What became of one record that a live target was given."""

    id: str
    """Our id of it."""

    there: str | None
    """Its id there, when it was accepted."""

    problem: str | None = None
    known: bool = False
    """Whether it was there already, saying the same; nothing was written then."""


class Connector(Protocol):
    """A product that is talked to, not a file."""

    info: ClassVar[Info]

    def page(self, cursor: str | None, report: Report) -> Page:
        """List records from ``cursor`` (None is the start); a cursor always gives one page."""
        ...

    def take(self, batch: Sequence[Sealed], report: Report) -> Sequence[WriteResult]:
        """Write records; one result each, in order."""
        ...

    def close(self) -> None:
        """Let go of connections."""
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
    """A connector whose product also keeps what its memories said before."""

    def take_versions(
        self,
        batch: Sequence[Sealed],
        older: Mapping[str, Sequence[Sealed]],
        report: Report,
    ) -> Sequence[WriteResult]:
        """Write records as ``Connector.take`` does, each with its history.

        Args:
            batch: The current records.
            older: By our id of a current record: what it said before, oldest first.
            report: Where losses go.
        """
        ...
