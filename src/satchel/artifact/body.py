"""The statement, the signed header of an artifact, and its body: sections of canonical records.

A body is always a range of a seekable file. Encodings without lines are transcribed into a
temporary file, so that hashing, verifying and converting are written once.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any, BinaryIO, Literal, NamedTuple, Protocol

import msgspec
from blake3 import blake3
from msgspec import Meta

from satchel.artifact import ARTIFACT_FORMAT
from satchel.crypto.canonical import Limits, canonical, canonical_checked, check_value
from satchel.crypto.sealed_records import digest
from satchel.errors import LimitError, MalformedError, UnreadableError, ValueRefusedError
from satchel.model.values import ID_PREFIX, Component, Id, Time, is_canonical_time, now, resolved
from satchel.runtime.scratch import CHUNK, Spool

COMPONENTS = tuple(component.value for component in Component)
"""The five sections with entries, in body order."""

ORDER = (
    "keys",
    "redactions",
    "erasures",
    *COMPONENTS,
    "status",
    "sources",
    "nodes",
    "edges",
    "sessions",
    "files",
    "workspace",
    "config",
    "statistics",
    "embeddings",
    "blobs",
    "receipts",
    "withheld",
)
"""Sections with a fixed position; others follow by name."""

RECORD_SECTIONS = {
    "bank": "keys",
    "redaction": "redactions",
    "erasure": "erasures",
    **{component: component for component in COMPONENTS},
    "status": "status",
    "source": "sources",
    "graph_node": "nodes",
    "edge": "edges",
    "session_event": "sessions",
    "file_version": "files",
    "config": "config",
    "embedding": "embeddings",
    "blob": "blobs",
    "receipt": "receipts",
    "token": "tokens",
}
"""The section of each record type."""

PROOF_SECTIONS = frozenset({"proofs", "withheld"})
"""Sections of audit paths, not records."""

TYPED_SECTIONS = {section: kind for kind, section in RECORD_SECTIONS.items()}
"""The record type of each section; a section that is not listed may contain any objects."""

RESERVED = frozenset({"statement", "signatures", "components"})
"""Names with another meaning at the top level of a ``.pam`` file."""

SDK_MEMBERS = frozenset(
    {
        "pam_version",
        "schema_version",
        "created_at",
        "source_agent",
        "root_hash",
        "signature",
        "capability_tokens",
        "metadata",
        *COMPONENTS,
    }
)
"""Top-level members of the published SDK's files; no section has such a name."""

_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}", re.ASCII)
_RANKS = {name: rank for rank, name in enumerate(ORDER)}


def check_name(name: str) -> None:
    """Refuse a text that is not a valid section name.

    Raises:
        MalformedError: If it is not a name, or has another meaning.
    """
    if not _NAME.fullmatch(name) or name in RESERVED | (SDK_MEMBERS - {*COMPONENTS}):
        raise MalformedError(f"{name[:80]!r} is not a valid section name")


def rank(name: str) -> tuple[int, str]:
    """Return the sort key that puts sections into body order."""
    return (_RANKS.get(name, len(ORDER)), name)


_HEADER = re.compile(rb'\{"section":"([a-z][a-z0-9_]{0,63})"\}')
_HEADER_START = b'{"section":"'
BATCH_BYTES = 1 << 17
"""Approximate size of a batch; the data derived from it stays in the processor's cache."""


Progress = Callable[[int, int], None]
"""Called regularly with the number of bytes done and their total."""


class ByteSink(Protocol):
    """An object that bytes are written to."""

    def write(self, data: bytes, /) -> object:
        """Write ``data``."""
        ...


@dataclass(frozen=True, slots=True)
class BodyTotals:
    """The members of a statement about a body."""

    body_hash: str
    root_hash: str
    counts: dict[str, int]


class RootHash:
    """H(JCS(components)), computed from the lines of the five sections in body order."""

    def __init__(self) -> None:
        self._hash = blake3(b"{")
        self._section = -1
        self._pending = b""

    def feed(self, section: str, lines: bytes) -> None:
        """Add complete or partial lines of one of the five sections."""
        self._open(COMPONENTS.index(section))
        data = self._pending + lines.replace(b"\n", b",")
        self._pending = b"," if data.endswith(b",") else b""
        self._hash.update(data[: len(data) - len(self._pending)])

    def finish(self) -> str:
        """Return the root hash."""
        self._open(len(COMPONENTS) - 1)
        self._hash.update(b"]}")
        return ID_PREFIX + self._hash.hexdigest()

    def _open(self, index: int) -> None:
        while self._section < index:
            closing = b"]," if self._section >= 0 else b""
            self._section += 1
            name = COMPONENTS[self._section].encode()
            self._hash.update(closing + b'"' + name + b'":[')
            self._pending = b""


class BodyBuilder:
    """Collects records in any order and writes their body."""

    def __init__(self) -> None:
        self._spools: dict[str, Spool] = {}
        self._counts: dict[str, int] = {}

    def add(self, section: str, line: bytes) -> None:
        """Add one record's canonical bytes, without the line end.

        Raises:
            MalformedError: If the section name is invalid, or the bytes would be read as a section
                header.
            TargetError: If the temporary folder is full.
        """
        spool = self._spools.get(section)
        if spool is None:
            check_name(section)
            spool = self._spools[section] = Spool()
            self._counts[section] = 0
        if line.startswith(_HEADER_START) and _HEADER.fullmatch(line):
            raise MalformedError("an object whose only member is `section`", field=section)
        spool.write(line + b"\n")
        self._counts[section] += 1

    def write(self, sink: ByteSink) -> BodyTotals:
        """Write the body in canonical order, and return its hashes; the builder is then empty."""
        body, root = blake3(), RootHash()
        names = sorted(self._spools, key=rank)
        for name in names:
            header = _HEADER_START + name.encode() + b'"}\n'
            body.update(header)
            sink.write(header)
            for chunk in self._spools[name].chunks():
                body.update(chunk)
                if name in COMPONENTS:
                    root.feed(name, chunk)
                sink.write(chunk)
        totals = BodyTotals(
            ID_PREFIX + body.hexdigest(),
            root.finish(),
            {name: self._counts[name] for name in sorted(names)},
        )
        self.close()
        return totals

    def close(self) -> None:
        """Release the space."""
        for spool in self._spools.values():
            spool.close()


@dataclass(frozen=True, slots=True)
class Span:
    """The position of a section's records in the file."""

    start: int
    end: int
    count: int
    first_line: int
    """Number of the first record's line, in the body as lines."""


class BodyLine(NamedTuple):
    """One record of a body."""

    section: str
    data: bytes
    """Canonical bytes, without the line end."""

    number: int
    """From 1, in the body as lines; one less than the line in a ``.pam.jsonl`` file."""


class BodyBatch(NamedTuple):
    """Consecutive records of one section."""

    section: str
    text: bytes
    """Canonical bytes, each record with its line end."""

    number: int
    """Of the first of them; see ``BodyLine``."""

    records: int
    """Number of records."""

    @property
    def lines(self) -> list[bytes]:
        """The records as a list, without line ends."""
        return lines_of(self.text)


class Body:
    """A range of a file that contains a body.

    Args:
        handle: The file; it stays open as long as the body is used.
        start: Offset of the first byte.
        end: Offset after the last byte.
        limits: The bounds on a line.
        first_line: Number of the body's first line in the file, for errors; None if the file has no
            lines.
    """

    def __init__(
        self, handle: BinaryIO, start: int, end: int, limits: Limits, first_line: int | None
    ) -> None:
        self._handle = handle
        self._start = start
        self._end = end
        self._limits = limits
        self.first_line = first_line
        self.on_progress: Progress | None = None

    @property
    def size(self) -> int:
        """Size of the body in bytes."""
        return self._end - self._start

    def hash(self) -> str:
        """Return H(body)."""
        body = blake3()
        for chunk in self.chunks():
            body.update(chunk)
        return ID_PREFIX + body.hexdigest()

    def chunks(self, size: int = CHUNK) -> Iterator[bytes]:
        """Yield the bytes.

        Raises:
            UnreadableError: If the disk fails or the file became shorter.
        """
        self._handle.seek(self._start)
        left = self._end - self._start
        while left:
            chunk = _read(self._handle, min(size, left))
            left -= len(chunk)
            self._tell(self._end - self._start - left)
            yield chunk

    def lines(self) -> Iterator[BodyLine]:
        """Yield the records, in order.

        Raises:
            MalformedError: If a section is empty, repeated, out of order or misnamed, or the body
                does not start with one.
            LimitError: If a line or the number of records is over a bound.
        """
        for batch in self.batches():
            for number, data in enumerate(batch.lines, batch.number):
                yield BodyLine(batch.section, data, number)

    def batches(self, size: int = BATCH_BYTES) -> Iterator[BodyBatch]:
        """Yield the records in batches of one section.

        Args:
            size: Approximate bytes in a batch.

        Raises:
            MalformedError: As ``lines``.
            LimitError: As ``lines``.
        """
        section, is_empty = "", True
        count, number = 0, 1
        for text in self._whole_lines(size):
            for piece, name in _pieces(text):
                if name is not None:
                    section, is_empty = self._next_section(section, name, is_empty, number), False
                    number += 1
                    continue
                if not section:
                    raise self._malformed("a record before the first section", number)
                is_empty, lines = True, piece.count(b"\n")
                yield BodyBatch(section, piece, number, lines)
                count += lines
                number += lines
        if not is_empty:
            raise self._malformed(f"the section {section!r} is empty", number - 1)
        if count > self._limits.records:
            raise LimitError(f"more than {self._limits.records} records")

    def spans(self) -> dict[str, Span]:
        """Return the span of each section, in body order, after one pass over the body."""
        spans: dict[str, Span] = {}
        end = self._start
        for batch in self.batches():
            span = spans.get(batch.section)
            if span is None:
                end += len(_HEADER_START) + len(batch.section) + len(b'"}\n')
                span = Span(end, end, 0, batch.number)
            end += len(batch.text)
            count = span.count + batch.records
            spans[batch.section] = Span(span.start, end, count, span.first_line)
        return spans

    def within(self, span: Span) -> Iterator[bytes]:
        """Yield the records of one section, without line ends; several iterators may alternate."""
        at = span.start
        for _ in range(span.count):
            self._handle.seek(at)
            line = self._handle.readline()
            at += len(line)
            yield line[:-1]

    def section(self, name: str) -> Iterator[bytes]:
        """Yield the records of one section, without line ends and without parsing other sections.

        Raises:
            LimitError: If a line is longer than the bound.
        """
        header = _HEADER_START + name.encode() + b'"}\n'
        start = self._start_of(header)
        if start is None:
            return
        at, bound = start, self._limits.line_bytes
        while at < self._end:
            self._handle.seek(at)
            line = self._handle.readline(min(bound + 1, self._end - at))
            if not line.endswith(b"\n"):
                raise LimitError(f"a line is longer than {bound} bytes")
            if line.startswith(_HEADER_START) and _HEADER.fullmatch(line[:-1]):
                return
            at += len(line)
            yield line[:-1]

    def _start_of(self, header: bytes) -> int | None:
        """Return the offset of the first record after a section header, a complete line."""
        marker, rest, offset = b"\n" + header, b"\n", self._start - 1
        for chunk in self.chunks():
            text = rest + chunk
            index = text.find(marker)
            if index >= 0:
                return offset + index + len(marker)
            rest = text[-len(marker) :]
            offset += len(text) - len(rest)
        return None

    def line_of(self, number: int) -> int | None:
        """Return the line in the file of a line of the body."""
        return None if self.first_line is None else self.first_line + number - 1

    def _tell(self, done: int) -> None:
        if self.on_progress is not None:
            self.on_progress(done, self._end - self._start)

    def _next_section(self, last: str, name: str, is_empty: bool, number: int) -> str:  # noqa: FBT001
        try:
            check_name(name)
        except MalformedError as error:
            raise self._malformed(error.message, number) from None
        if not is_empty:
            raise self._malformed(f"the section {last!r} is empty", number)
        if last and rank(name) <= rank(last):
            raise self._malformed(f"the section {name!r} is repeated or out of order", number)
        return name

    def _whole_lines(self, size: int) -> Iterator[bytes]:
        """Yield the bytes, split only at line ends."""
        rest, bound, offset = b"", self._limits.line_bytes, 0
        for chunk in self.chunks(size):
            text = rest + chunk
            end = text.rfind(b"\n") + 1
            rest, whole = text[end:], text[:end]
            if len(text) > bound:
                lines = [*lines_of(whole), rest]
                for index, line in enumerate(lines):
                    if len(line) > bound:
                        yield b"".join(one + b"\n" for one in lines[:index])
                        raise LimitError(
                            f"a line is longer than {bound} bytes",
                            line=self.line_of(self._number_at(offset) + index),
                        )
            if whole:
                yield whole
            offset += end
        if rest:
            raise self._malformed("the last line is truncated", self._number_at(offset))

    def _number_at(self, offset: int) -> int:
        """Return the number of the line that starts at an offset of the body."""
        self._handle.seek(self._start)
        number = 1
        while offset:
            chunk = _read(self._handle, min(CHUNK, offset))
            number += chunk.count(b"\n")
            offset -= len(chunk)
        return number

    def _malformed(self, message: str, number: int) -> MalformedError:
        return MalformedError(message, line=self.line_of(number))


def lines_of(text: bytes) -> list[bytes]:
    """Return complete lines without their ends."""
    return text.split(b"\n")[:-1]


def _pieces(text: bytes) -> Iterator[tuple[bytes, str | None]]:
    """Yield complete lines, split at section headers, with the section that each header names."""
    if _HEADER_START not in text:
        yield text, None
        return
    records = list[bytes]()
    for line in lines_of(text):
        header = _HEADER.fullmatch(line) if line.startswith(_HEADER_START) else None
        if header is None:
            records.append(line + b"\n")
            continue
        if records:
            yield b"".join(records), None
            records = []
        yield line, header[1].decode()
    if records:
        yield b"".join(records), None


def _read(handle: BinaryIO, size: int) -> bytes:
    try:
        chunk = handle.read(size)
    except OSError as error:
        raise UnreadableError(f"reading failed: {error.strerror}") from error
    if not chunk:
        raise UnreadableError("the file became shorter while it was being read")
    return chunk


class SourceAgent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The agent whose memory it is, and its runtime; claims of the signer."""

    name: str | None = None
    model_family: str | None = None
    runtime: str | None = None
    version: str | None = None


class FileScope(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The part of the memory that the file contains."""

    kind: Literal["full", "filter", "disclosure", "increment"]
    filter: dict[str, Any] = {}
    since_size: Annotated[int, Meta(ge=0)] | None = None
    """For an increment: the log size at which it starts."""

    def __post_init__(self) -> None:
        if self.kind == "increment" and self.since_size is None:
            raise ValueError("an increment must have `since_size`")


class Statement(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The members that this version knows; unknown ones stay in the JSON and are signed with it."""

    format: Literal["satchel/1"]
    created_at: Time
    body_hash: Id
    root_hash: Id
    counts: dict[str, Annotated[int, Meta(ge=1)]]
    scope: FileScope
    source_agent: SourceAgent | None = None
    bank: Id | None = None
    head: dict[str, Any] | None = None
    tokens: tuple[dict[str, Any], ...] = ()
    metadata: dict[str, Any] = {}
    critical: tuple[str, ...] = ()
    """Members that a reader must know to read the file correctly."""

    def __post_init__(self) -> None:
        if not is_canonical_time(self.created_at):
            raise ValueError("`created_at` is not a time")
        if (self.bank is None) != (self.head is None):
            raise ValueError("`bank` and `head` must both be present")


_MEMBERS = frozenset(Statement.__struct_fields__)


def build(
    *,
    body_hash: str,
    root_hash: str,
    counts: dict[str, int],
    scope: FileScope | None = None,
    source_agent: SourceAgent | None = None,
    extra: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Return a statement as the JSON that is signed.

    Args:
        body_hash: Hash of the body.
        root_hash: Hash of the components.
        counts: Records in each section that is not empty.
        scope: The part of the memory; all of it by default.
        source_agent: The agent whose memory it is.
        extra: Further members, such as ``bank``, ``head``, ``metadata`` or unknown ones;
            ``created_at`` replaces the current time.
    """
    statement: dict[str, Any] = {
        "format": ARTIFACT_FORMAT,
        "created_at": now(),
        "body_hash": body_hash,
        "root_hash": root_hash,
        "counts": counts,
        "scope": msgspec.to_builtins(scope or FileScope(kind="full")),
    }
    if source_agent and (agent := msgspec.to_builtins(source_agent)):
        statement["source_agent"] = agent
    statement.update(extra or {})
    statement = check_value(statement)
    parse(statement, Limits())
    return statement


def parse(value: Any, limits: Limits) -> Statement:
    """Return the typed statement from the JSON of a strict reader.

    Raises:
        MalformedError: If it is not a statement, has an empty member, or a critical member that
            this version does not know.
        LimitError: If it is too large.
    """
    if not isinstance(value, dict):
        raise MalformedError("the statement must be an object", field="statement")
    size = len(_canonical(value))
    if size > limits.statement_bytes:
        raise LimitError(f"a statement of {size} bytes is over {limits.statement_bytes}")
    try:
        statement = msgspec.convert(value, resolved(Statement))
    except msgspec.ValidationError as error:
        raise MalformedError(f"not a statement: {error}", field="statement") from None
    for name, part in value.items():
        if name != "counts" and (part is None or part in ([], {})):
            raise MalformedError("an empty member", field=f"statement/{name}")
    agent = value.get("source_agent") or {}
    for name in SourceAgent.__struct_fields__:
        if name in agent and agent[name] is None:
            raise MalformedError("null; an unknown one is absent", field=f"source_agent/{name}")
    unknown = sorted({name for name in statement.critical if name not in _MEMBERS})
    if unknown:
        raise MalformedError(
            "the file needs a reader that supports this member",
            field=f"statement/{unknown[0]}",
            hint="Upgrade satchel.",
        )
    if len(statement.tokens) > limits.tokens:
        raise LimitError(f"more than {limits.tokens} tokens", field="statement/tokens")
    return statement


def _canonical(value: dict[str, Any]) -> bytes:
    """Return the canonical bytes; the depth is verified here, since readers of documents do not."""
    try:
        return canonical(value)
    except ValueRefusedError as error:
        raise MalformedError(error.message, field=error.field) from None


def statement_digest(value: dict[str, Any]) -> str:
    """Return H(JCS(statement)), the key of the statement in the history."""
    return digest(canonical_checked(value))
