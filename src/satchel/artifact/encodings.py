"""Artifacts in three encodings: reading them without verification, and writing them.

One body, one statement and one set of signatures are the same in all encodings.
"""

import gzip
import zlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, BinaryIO, Protocol, Self, cast

import msgspec

from satchel.artifact import ARTIFACT_FORMAT
from satchel.artifact.body import (
    COMPONENTS,
    RECORD_SECTIONS,
    SDK_MEMBERS,
    Body,
    BodyBuilder,
    BodyTotals,
    ByteSink,
    FileScope,
    SourceAgent,
    Span,
    Statement,
    build,
    check_name,
    parse,
    rank,
)
from satchel.crypto.canonical import (
    DEFAULT_LIMITS,
    Limits,
    canonical,
    canonical_checked,
    decode_canonical,
)
from satchel.crypto.cbor import CborReader, array_head, encode, map_head
from satchel.crypto.json_reader import JsonReader
from satchel.crypto.keys import PayloadType, Signature, SigningKey, parse_signatures, sign
from satchel.crypto.sealed_records import Sealed
from satchel.errors import EmptyInputError, LimitError, MalformedError, UnknownFormatError
from satchel.runtime.files import InputPath, open_input, open_regular
from satchel.runtime.scratch import CHUNK, Spool

PREAMBLE = b'{"format":"%b"}\n' % ARTIFACT_FORMAT.encode()
"""First line of a ``.pam.jsonl`` file."""

MAGIC = b"PAM\x01"
"""First bytes of a ``.pam.cbor`` file."""

GZIP_MAGIC = b"\x1f\x8b"
_SIGNATURE_ROOM = 4096


class Encoding(StrEnum):
    """The layout of the one value."""

    JSONL = "pam.jsonl"
    JSON = "pam"
    CBOR = "pam.cbor"


class SdkFileError(Exception):
    """Raised on opening: this is a file of the published SDK, to be verified by its profile."""


@dataclass(frozen=True, slots=True)
class Artifact:
    """An open file: parsed, not verified."""

    name: str
    encoding: Encoding
    compressed: bool
    statement: Statement
    statement_value: dict[str, Any]
    """The statement as JSON, as it was signed."""

    signatures: list[Signature]
    body: Body


class _Reader(Protocol):
    """The common interface of the JSON and the CBOR reader."""

    def members(self) -> Iterator[str]: ...

    def elements(self) -> Iterator[int]: ...

    def value(self) -> Any: ...

    def end(self) -> None: ...


@contextmanager
def open_artifact(path: InputPath, limits: Limits) -> Iterator[Artifact]:
    """Open an artifact; its body can be read in the block.

    Raises:
        UnreadableError: If the file cannot be read.
        MalformedError: If it is not an artifact, or its structure is broken.
        LimitError: If a bound is reached.
        SdkFileError: If the published SDK wrote it.
        UnknownFormatError: If it is another kind of file.
    """
    with (
        open_input(path) as raw,
        plain_bytes(raw, limits) as (handle, compressed),
        ExitStack() as stack,
    ):
        name = str(path)
        head = handle.read(len(PREAMBLE))
        handle.seek(0)
        if head.startswith(MAGIC):
            _refuse_large(handle, name, limits)
            again = _twin(path, handle, stack, compressed=compressed)
            cbor = _cbor(handle, again, name, limits)
            yield _open_document(Encoding.CBOR, cbor, name, compressed, limits, stack)
        elif head == PREAMBLE or head.lstrip(b" \t\r\n").startswith(b'{"format"'):
            yield _open_jsonl(handle, name, compressed, limits)
        elif head.lstrip(b" \t\r\n").startswith(b"{"):
            _refuse_large(handle, name, limits)
            reader = JsonReader(handle, name, item_bytes=limits.line_bytes)
            yield _open_document(Encoding.JSON, reader, name, compressed, limits, stack)
        elif head[:1] and 0xA0 <= head[0] <= 0xBF:  # noqa: PLR2004 - a CBOR map without magic
            raise SdkFileError
        elif not head:
            raise EmptyInputError("the file is empty", file=name)
        else:
            raise UnknownFormatError(
                "this is not a sealed file",
                file=name,
                hint="For other formats: satchel inspect, satchel convert.",
            )


@contextmanager
def plain_bytes(raw: BinaryIO, limits: Limits) -> Iterator[tuple[BinaryIO, bool]]:
    """Yield the file's bytes, decompressed into a temporary file if they are gzip."""
    magic = raw.read(len(GZIP_MAGIC))
    raw.seek(0)
    if magic != GZIP_MAGIC:
        yield raw, False
        return
    spool = Spool()
    try:
        _gunzip(raw, spool, limits)
        yield spool.handle(), True
    finally:
        spool.close()


def _gunzip(raw: BinaryIO, spool: Spool, limits: Limits) -> None:
    inflate = zlib.decompressobj(wbits=31)
    consumed = 0
    try:
        while not inflate.eof:
            data = inflate.unconsumed_tail or raw.read(CHUNK)
            if not data:
                raise MalformedError("the compressed file is truncated", byte=consumed)
            consumed += 0 if inflate.unconsumed_tail else len(data)
            spool.write(inflate.decompress(data, CHUNK))
            if spool.size > max(limits.expansion_free_bytes, limits.expansion * consumed):
                raise LimitError(f"the file expands to more than {limits.expansion} times its size")
    except zlib.error as error:
        raise MalformedError(f"not gzip: {error}", byte=consumed) from None
    if inflate.unused_data or raw.read(1):
        raise MalformedError("unexpected data after the compressed data")


def _twin(path: InputPath, handle: BinaryIO, stack: ExitStack, *, compressed: bool) -> BinaryIO:
    """Return a second handle on the same bytes, for comparison with the decoded values."""
    if not compressed:
        return stack.enter_context(open_regular(path))
    spool = stack.enter_context(closing(Spool()))
    while chunk := handle.read(CHUNK):
        spool.write(chunk)
    handle.seek(0)
    return spool.handle()


def _cbor(handle: BinaryIO, again: BinaryIO, name: str, limits: Limits) -> CborReader:
    handle.seek(len(MAGIC))
    if again.read(len(MAGIC)) != MAGIC:
        raise MalformedError("the file changed while it was being read", file=name)
    return CborReader(handle, name, again=again, item_bytes=limits.line_bytes)


def _open_jsonl(handle: BinaryIO, name: str, compressed: bool, limits: Limits) -> Artifact:  # noqa: FBT001
    if handle.read(len(PREAMBLE)) != PREAMBLE:
        raise MalformedError(
            f"the first line is not exactly {PREAMBLE.decode().strip()}", file=name, line=1
        )
    size = handle.seek(0, 2)
    room = limits.statement_bytes + limits.signatures * 256 + _SIGNATURE_ROOM
    start = max(len(PREAMBLE), size - room)
    handle.seek(start)
    tail = handle.read(size - start)
    if not tail.endswith(b"\n"):
        raise MalformedError(
            "the last line is truncated", file=name, byte=size, hint="Was the copy complete?"
        )
    newline = tail.rfind(b"\n", 0, len(tail) - 1)
    if newline < 0 and start > len(PREAMBLE):
        raise LimitError("the last line is too long for a statement", file=name)
    trailer_start = start + newline + 1
    trailer = _trailer(tail[newline + 1 : -1], name, trailer_start)
    return _artifact(
        Encoding.JSONL,
        trailer,
        Body(handle, len(PREAMBLE), trailer_start, limits, first_line=2),
        name,
        compressed,
        limits,
    )


def _trailer(line: bytes, name: str, at: int) -> dict[str, Any]:
    try:
        value = decode_canonical(line, around=1)  # of the statement, which is inside an object
    except MalformedError as error:
        raise MalformedError(f"the last line is {error.message}", file=name, byte=at) from None
    if not isinstance(value, dict) or value.keys() != {"signatures", "statement"}:
        raise MalformedError(
            "the last line is not a statement with its signatures",
            file=name,
            byte=at,
            hint="The file was truncated, or was never sealed.",
        )
    return value


def _open_document(
    encoding: Encoding,
    reader: _Reader,
    name: str,
    compressed: bool,  # noqa: FBT001
    limits: Limits,
    stack: ExitStack,
) -> Artifact:
    with closing(BodyBuilder()) as builder:
        outside = _transcribe(reader, builder, name)
        spool = stack.enter_context(closing(Spool()))
        builder.write(spool)
    body = Body(spool.handle(), 0, _size(spool.handle()), limits, first_line=None)
    return _artifact(encoding, outside, body, name, compressed, limits)


def _refuse_large(handle: BinaryIO, name: str, limits: Limits) -> None:
    size = _size(handle)
    if size > limits.document_bytes:
        raise LimitError(
            f"a whole document of {size} bytes is over {limits.document_bytes}",
            file=name,
            hint="Use .pam.jsonl, which is streamed.",
        )


def _size(handle: BinaryIO) -> int:
    size = handle.seek(0, 2)
    handle.seek(0)
    return size


def _transcribe(reader: _Reader, builder: BodyBuilder, name: str) -> dict[str, Any]:
    """Move the sections of a document into a body; return the other members."""
    outside: dict[str, Any] = {}
    sections: set[str] = set()
    for key in reader.members():
        if key in SDK_MEMBERS:
            _refuse_mixture(outside, name)
        if key in ("statement", "signatures"):
            outside[key] = reader.value()
        elif key == "components":
            outside[key] = True
            _components(reader, builder, sections, name)
        elif not _section(reader, key, builder):
            raise MalformedError("an empty section must be omitted", file=name, field=key)
    reader.end()
    if not outside:
        raise MalformedError(
            "this is not a sealed file: it has no statement, signatures or components",
            file=name,
            hint="For other formats: satchel inspect, satchel convert.",
        )
    if outside.keys() != {"statement", "signatures", "components"} or sections != set(COMPONENTS):
        missing = {"statement", "signatures", "components"} - outside.keys()
        missing = missing or set(COMPONENTS) - sections
        raise MalformedError(
            "this is not a whole artifact: a member is missing",
            file=name,
            field=min(missing),
        )
    del outside["components"]
    return outside


def _refuse_mixture(outside: dict[str, Any], name: str) -> None:
    if outside:
        raise MalformedError("both a satchel artifact and a file of the SDK", file=name)
    raise SdkFileError


def _components(reader: _Reader, builder: BodyBuilder, sections: set[str], name: str) -> None:
    for key in reader.members():
        if key not in COMPONENTS:
            raise MalformedError("not one of the five components", file=name, field=key[:80])
        sections.add(key)
        _section(reader, key, builder)


def _section(reader: _Reader, section: str, builder: BodyBuilder) -> int:
    check_name(section)
    count = 0
    for count, _ in enumerate(reader.elements(), start=1):
        value = reader.value()
        if not isinstance(value, dict):
            raise MalformedError("a record must be an object", field=f"{section}/{count - 1}")
        try:
            builder.add(section, canonical_checked(value))
        except RecursionError:
            raise MalformedError("nested too deep", field=f"{section}/{count - 1}") from None
    return count


def _artifact(
    encoding: Encoding,
    outside: dict[str, Any],
    body: Body,
    name: str,
    compressed: bool,  # noqa: FBT001
    limits: Limits,
) -> Artifact:
    try:
        return Artifact(
            name=name,
            encoding=encoding,
            compressed=compressed,
            statement=parse(outside["statement"], limits),
            statement_value=outside["statement"],
            signatures=parse_signatures(outside["signatures"], limits.signatures),
            body=body,
        )
    except (MalformedError, LimitError) as error:
        raise error.located(file=name) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """The members of a new statement besides hashes and counts."""

    source_agent: SourceAgent | None = None
    scope: FileScope | None = None
    extra: dict[str, Any] | None = None
    """Further members, such as ``bank``, ``head``, ``metadata`` and ``created_at``."""

    def statement(self, totals: BodyTotals) -> dict[str, Any]:
        """Return the statement of a body."""
        return build(
            body_hash=totals.body_hash,
            root_hash=totals.root_hash,
            counts=totals.counts,
            scope=self.scope,
            source_agent=self.source_agent,
            extra=self.extra,
        )


class ArtifactBuilder:
    """Collects sealed records into the body of an artifact."""

    def __init__(self) -> None:
        self._body = BodyBuilder()
        self._spool = Spool()
        self.records = 0
        """Number of records added."""

        self.refers = False
        """Whether one of them may refer to another."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._body.close()
        self._spool.close()

    def add(self, record: Sealed) -> None:
        """Add a record to the section of its type."""
        self._body.add(RECORD_SECTIONS[record.type], record.body)
        self.records += 1
        self.refers = self.refers or _may_refer(record)

    def add_item(self, section: str, value: dict[str, Any]) -> None:
        """Add an object to a section without records, such as ``withheld``."""
        self._body.add(section, canonical(value))

    def finish(self, limits: Limits = DEFAULT_LIMITS) -> tuple[Body, BodyTotals]:
        """Return the body, readable until the builder is closed, and its totals."""
        totals = self._body.write(self._spool)
        size = self._spool.size
        return Body(self._spool.handle(), 0, size, limits, first_line=None), totals


def sign_statement(statement: dict[str, Any], keys: Sequence[SigningKey]) -> list[Signature]:
    """Sign a statement with each key; without keys there are no signatures."""
    return sign(PayloadType.ARTIFACT, statement, keys)


def trailer(statement: dict[str, Any], signatures: Sequence[Signature]) -> bytes:
    """Return the last line of a ``.pam.jsonl`` file."""
    outside = {"signatures": msgspec.to_builtins(list(signatures)), "statement": statement}
    return canonical_checked(outside) + b"\n"


def write_artifact(
    sink: ByteSink,
    encoding: Encoding,
    body: Body,
    statement: dict[str, Any],
    signatures: Sequence[Signature],
) -> None:
    """Write a body with its statement and signatures, which are the same in each encoding."""
    if encoding is Encoding.JSONL:
        sink.write(PREAMBLE)
        for chunk in body.chunks():
            sink.write(chunk)
        sink.write(trailer(statement, signatures))
    elif encoding is Encoding.JSON:
        _write_json(sink, body, statement, signatures)
    else:
        _write_cbor(sink, body, statement, signatures)


def _write_json(
    sink: ByteSink, body: Body, statement: dict[str, Any], signatures: Sequence[Signature]
) -> None:
    """Write one record per line, for tools that read lines."""
    spans = body.spans()
    sink.write(b'{"statement":' + canonical_checked(statement))
    sink.write(b',\n"signatures":' + canonical_checked(msgspec.to_builtins(list(signatures))))
    sink.write(b',\n"components":{')
    for index, name in enumerate(COMPONENTS):
        sink.write((b"," if index else b"") + b'\n"%b":[' % name.encode())
        _write_array(sink, body, spans.get(name))
    sink.write(b"}")
    for name in sorted(spans.keys() - set(COMPONENTS), key=rank):
        sink.write(b',\n"%b":[' % name.encode())
        _write_array(sink, body, spans[name])
    sink.write(b"}\n")


def _write_array(sink: ByteSink, body: Body, span: Span | None) -> None:
    if span is not None:
        for index, line in enumerate(body.within(span)):
            sink.write((b",\n" if index else b"\n") + line)
    sink.write(b"]")


def _write_cbor(
    sink: ByteSink, body: Body, statement: dict[str, Any], signatures: Sequence[Signature]
) -> None:
    """Write deterministic CBOR: keys in the order of their encoded bytes, known lengths."""
    spans = body.spans()
    others = spans.keys() - set(COMPONENTS)
    outside: dict[str, Any] = {
        "statement": statement,
        "signatures": msgspec.to_builtins(list(signatures)),
    }
    names = sorted({*outside, *others, "components"}, key=encode)
    sink.write(MAGIC + map_head(len(names)))
    for name in names:
        sink.write(encode(name))
        if name in outside:
            sink.write(encode(outside[name]))
        elif name == "components":
            sink.write(map_head(len(COMPONENTS)))
            for component in sorted(COMPONENTS, key=encode):
                sink.write(encode(component))
                _write_cbor_array(sink, body, spans.get(component))
        else:
            _write_cbor_array(sink, body, spans[name])


def _write_cbor_array(sink: ByteSink, body: Body, span: Span | None) -> None:
    sink.write(array_head(0 if span is None else span.count))
    if span is not None:
        for line in body.within(span):
            sink.write(encode(decode_canonical(line)))


def _may_refer(record: Sealed) -> bool:
    """Return whether a record may name others; text that looks like it counts as well."""
    if record.type not in COMPONENTS:
        return record.type != "source"
    return b'_ids":[' in record.body  # parent_ids and source_event_ids


@contextmanager
def gzip_sink(sink: BinaryIO) -> Iterator[BinaryIO]:
    """Yield a reproducible gzip stream to ``sink``: one member without name and time."""
    with gzip.GzipFile(filename="", mode="wb", fileobj=sink, mtime=0) as stream:
        yield cast("BinaryIO", stream)  # a GzipFile is one in all but its declared type
