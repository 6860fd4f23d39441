"""Writing an artifact: one body, one statement, one set of signatures, three encodings."""

import gzip
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO, Self, cast

import msgspec

from satchel.artifact.body import (
    COMPONENTS,
    RECORD_SECTIONS,
    Body,
    BodyBuilder,
    BodyTotals,
    ByteSink,
    Span,
    rank,
)
from satchel.artifact.reader import MAGIC, PREAMBLE, Encoding
from satchel.artifact.statement import FileScope, SourceAgent, build
from satchel.crypto.canonical import canonical, canonical_checked, decode_canonical
from satchel.crypto.cbor import array_head, encode, map_head
from satchel.crypto.limits import DEFAULT_LIMITS, Limits
from satchel.crypto.sealed_records import Sealed
from satchel.crypto.signatures import PayloadType, Signature, SigningKey, sign
from satchel.runtime.spool import Spool


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """What a new statement says besides hashes and counts."""

    source_agent: SourceAgent | None = None
    scope: FileScope | None = None
    extra: dict[str, Any] | None = None
    """Further members, such as ``bank``, ``head``, ``metadata`` and a given ``created_at``."""

    def statement(self, totals: BodyTotals) -> dict[str, Any]:
        """Return the statement over a body."""
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
        """Records added so far."""

        self.refers = False
        """Whether any of them may refer to another."""

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
        """Add an object to a section that holds no records, such as ``withheld``."""
        self._body.add(section, canonical(value))

    def finish(self, limits: Limits = DEFAULT_LIMITS) -> tuple[Body, BodyTotals]:
        """Return the body, readable until the builder is closed, and what to say about it."""
        totals = self._body.write(self._spool)
        size = self._spool.size
        return Body(self._spool.handle(), 0, size, limits, first_line=None), totals


def sign_statement(statement: dict[str, Any], keys: Sequence[SigningKey]) -> list[Signature]:
    """Sign a statement with each key; no keys, no signatures."""
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
    """Write a body under a statement and its signatures, which do not depend on the encoding."""
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
    """One record a line, so that tools that read lines are of some use."""
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
    """Keys in the order of their encoded bytes, lengths known before: deterministic CBOR."""
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
    """Tell whether a record may name others; text that looks like it counts as well."""
    if record.type not in COMPONENTS:
        return record.type != "source"
    return b'_ids":[' in record.body  # parent_ids and source_event_ids


@contextmanager
def gzip_sink(sink: BinaryIO) -> Iterator[BinaryIO]:
    """Give a gzip stream onto ``sink``: one member, no name, no time, the same bytes each run."""
    with gzip.GzipFile(filename="", mode="wb", fileobj=sink, mtime=0) as stream:
        yield cast("BinaryIO", stream)  # a GzipFile is one in all but its declared name
