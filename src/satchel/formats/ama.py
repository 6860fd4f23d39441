"""Astrocyte Memory Archive (AMA), version 1: a header line, then one memory per line.

The reader preserves what Astrocyte's own loses: IDs, fact types, times, entities, embeddings and
unknown members; the header's count must be the number of lines. What AMA cannot hold is in
``_satchel``, a member that Astrocyte ignores. Compared with astrocyte 0.22.0.
"""

import re
from collections.abc import Iterator
from typing import Any, BinaryIO, ClassVar, cast

import msgspec

from satchel.artifact.body import COMPONENTS, TYPED_SECTIONS
from satchel.artifact.encodings import gzip_sink
from satchel.crypto.canonical import decode_foreign
from satchel.crypto.sealed_records import Sealed
from satchel.errors import EmptyInputError, InputError
from satchel.formats._ama import (
    HEADER,
    MODEL,
    NAME,
    SATCHEL,
    VERSION,
    AmaArchive,
    Members,
    Row,
    exact_line_of,
    has_embedding,
    header_member,
    holdable,
    line_of,
    maker_in,
    with_vector,
    without_embedding,
    without_entities,
)
from satchel.formats._json import json_members
from satchel.formats._own_vectors import BankVectorReader, BankVectorWriter
from satchel.formats._row_lists import Order, containers_in, in_order
from satchel.model.records import Entry, Model
from satchel.model.values import Component, Origin, now, resolved
from satchel.ports.format import Info, Location, ReadContext, Signs, Target, Traits, WriteContext
from satchel.ports.record_set import RecordSet, Report
from satchel.ports.vectors import Maker

_WRITER = "satchel"
_LINK, _LINKS = b'_ids":[', frozenset({"parent_ids", "source_event_ids"})
_BREAKS = tuple((sign.encode(), b"\\u%04x" % ord(sign)) for sign in "\x85\u2028\u2029")
"""Characters that some readers treat as line ends."""

_TRANSFER_RECORDS = frozenset({"source", "receipt"})
_NAMED = re.compile(r"\.ama\.jsonl(?:\.gz)?\Z", re.IGNORECASE)
_PROVIDER = f'"provider":"{NAME}"'.encode()


class _Origin(msgspec.Struct):
    """The origin of a memory."""

    origin: Origin | None = None


class Ama:
    """The format."""

    info: ClassVar[Info] = Info(
        title="Astrocyte Memory Archive (AMA) 1",
        suffixes=(".ama.jsonl",),
        signs=Signs(texts=((VERSION.encode(),),), names=(".ama.jsonl", ".ama.jsonl.gz")),
        spec="Astrocyte memory portability, section 2; astrocyte 0.22.0",
        checked="2026-11-22",
        traits=Traits(components=frozenset(Component), exact=True, streams=True, keeps_ids=True),
        lost_on_writing=(
            "Edges, graph nodes, sessions, files and every other record that is not an entry. "
            "What AMA cannot hold is stored in `_satchel`, which Astrocyte ignores."
        ),
    )

    def recognizes(self, location: Location) -> bool:
        first = location.unpacked_head.lstrip(b"\xef\xbb\xbf \t\r\n").partition(b"\n")[0]
        paths = {path for path, _ in json_members(first)}
        if (VERSION.encode(),) in paths:
            return True
        # A file of this name without a header is recognized, so that reading reports the problem.
        return bool(_NAMED.search(location.name)) and {(b"id",), (b"text",)} <= paths

    def read(self, location: Location, reading: ReadContext) -> Iterator[Model | Sealed]:
        with location.open() as stream:
            archive = AmaArchive(stream, location.name, reading.limits)
            reading.line = lambda: archive.line
            reading.by_line = reading.has_text_member = True
            reading.container["header"] = archive.header_row
            reader = _EntryReader(archive, reading)
            while (row := _next(archive, reading)) is not None:
                try:
                    entry = reader.entry_of(row)
                except InputError as error:
                    reading.refuse(error.located(file=location.name, line=archive.line))
                else:
                    yield entry
            if archive.count == archive.header.memory_count == 0:
                raise EmptyInputError("the file contains no memories", file=location.name)
            reader.report(reading)

    def as_asked(self, entry: Entry, writing: WriteContext) -> Entry:
        return _as_asked(entry, writing)

    def write(self, records: RecordSet, target: Target, writing: WriteContext) -> None:
        report = writing.report
        for section, count in records.counts.items():
            kind = TYPED_SECTIONS.get(section, section)
            if kind not in COMPONENTS and kind not in _TRANSFER_RECORDS:
                report.lost(kind, "an archive can hold memories only", count=count)
        container = _container(records, report)
        own = BankVectorWriter(writing)
        header = _header(records, container, writing, own.maker)
        lines = _Lines(header["bank_id"], writing, own, nonce=_has_references(records))
        with target.open() as sink:
            if writing.compress:
                with gzip_sink(sink) as packed:
                    _write(packed, header, lines.of(in_order(records, container)))
            else:
                _write(sink, header, lines.of(in_order(records, container)))
        lines.report(report)
        own.report(writing)


# -- reading -------------------------------------------------------------------------------


def _next(archive: AmaArchive, reading: ReadContext) -> Row | None:
    """Return the next line that is JSON; at the end, compare the header's count with the lines."""
    while True:
        try:
            row = archive.read()
        except InputError as error:
            reading.refuse(error)
        else:
            if row is None:
                _check_count(archive, reading)
            return row


def _check_count(archive: AmaArchive, reading: ReadContext) -> None:
    problem = archive.count_problem()
    if problem is None:
        return
    if not reading.skip_bad:
        raise problem
    missing = archive.header.memory_count - archive.count
    if missing > 0:
        reading.report.lost("record", "counted by the header, but missing", count=missing)
    else:
        reading.report.note(problem.message)


class _EntryReader:
    """Converts lines to entries, and collects notes for the end."""

    def __init__(self, archive: AmaArchive, reading: ReadContext) -> None:
        maker = maker_in(archive.header.extra)
        self._members = Members(archive.header.bank_id, own=maker is not None)
        self._own = BankVectorReader(reading, maker)
        self._model = None if maker is not None else _model_of(archive.header.extra)
        self._order = Order()
        self._embeddings = 0
        self._times = 0

    def entry_of(self, row: Row) -> Entry:
        """Return a line as an entry."""
        entry = self._members.entry_of(row)
        if self._members.vector is not None:
            self._own.take(self._members.vector, entry)
        self._order.add(entry)
        self._embeddings += has_embedding(entry)
        for name in ("occurred_at", "created_at"):
            self._times += bool(row.get(name)) and getattr(entry, name) is None
        return entry

    def report(self, reading: ReadContext) -> None:
        """Report the notes."""
        self._order.store(reading)
        self._own.report(reading)
        report = reading.report
        if self._members.unbelieved:
            reason = "it contradicts the rest of its line"
            report.lost(SATCHEL, reason, count=self._members.unbelieved)
        if self._embeddings and self._model is None:
            report.note(
                f"{self._embeddings} embeddings are kept for re-export only; the file names no "
                "model, so recall computes its own"
            )
        elif self._embeddings:
            report.note(
                f"{self._embeddings} embeddings of {self._model} are kept with the memories"
            )
        if self._times:
            report.note(f"{self._times} times are not exact; they are kept as written")


def _model_of(extra: dict[str, Any]) -> str | None:
    """Return the model of the embeddings, if the header names it."""
    ours = extra.get(SATCHEL)
    model = ours.get(MODEL) if isinstance(ours, dict) else None
    return model if isinstance(model, str) else None


# -- writing -------------------------------------------------------------------------------


def _container(records: RecordSet, report: Report) -> Row:
    """Return the members around the records, if one archive was their only source."""
    containers = containers_in(records, NAME)
    if len(containers) > 1:
        report.note("the memories of several archives get a new header")
        return {}
    return containers[0] if containers else {}


def _header(records: RecordSet, container: Row, writing: WriteContext, maker: Maker | None) -> Row:
    """Return the header: in a conversion of an archive, the original one."""
    written_header = container.get("header")
    header = holdable(decode_foreign(written_header)) if isinstance(written_header, dict) else {}
    # An export of a bank is not the archive that was imported.
    base = {} if writing.bank is not None else header
    created = ((writing.header.extra or {}).get("created_at") or now()).replace(".000000", "")
    known = {
        VERSION: 1,
        "bank_id": _bank_id(records, header, writing),
        "exported_at": base.get("exported_at", created),
        "provider": base.get("provider", _WRITER),
        "memory_count": sum(records.count(kind) for kind in COMPONENTS),
    }
    more = {name: part for name, part in header.items() if name not in HEADER}
    if maker is not None or SATCHEL in more:
        more[SATCHEL] = header_member(more.get(SATCHEL), maker)
    return {**known, **more}


def _bank_id(records: RecordSet, header: Row, writing: WriteContext) -> str:
    """Return the bank ID: that of the archive, if all memories came from one."""
    bank = header.get("bank_id")
    own = writing.bank or _WRITER
    if not isinstance(bank, str):
        return own
    if writing.bank is None or all(_is_from_archive(one) for one in _memories(records)):
        return bank
    return own


def _memories(records: RecordSet) -> Iterator[bytes]:
    for batch in records.body.batches():
        if batch.section in COMPONENTS:
            yield from batch.lines


def _is_from_archive(line: bytes) -> bool:
    """Return whether a memory came from an archive."""
    if _PROVIDER not in line:
        return False
    origin = msgspec.json.decode(line, type=resolved(_Origin)).origin
    return origin is not None and origin.provider == NAME


def _has_references(records: RecordSet) -> bool:
    """Return whether memories refer to others by ID, so that IDs must be preserved."""
    return any(
        _LINK in line and not _LINKS.isdisjoint(msgspec.json.decode(line))
        for batch in records.body.batches()
        if batch.section in COMPONENTS and _LINK in batch.text
        for line in batch.lines
    )


class _Lines:
    """Converts records to lines, and counts what is omitted."""

    def __init__(
        self, bank: str, writing: WriteContext, own: BankVectorWriter, *, nonce: bool
    ) -> None:
        self._bank = bank
        self._own = own
        self._writing = writing
        self._nonce = nonce
        # Whether lines omit the embeddings that came with memories.
        self._omits_embeddings = not writing.embeddings or own.maker is not None
        self._embeddings = self._entities = 0

    def of(self, records: Iterator[Sealed]) -> Iterator[Row]:
        """Yield the line of each record."""
        for record, vector in self._own.beside(records):
            line = exact_line_of(record, self._bank) if self._is_complete(record) else None
            if line is None:
                line = self._full_line(record)
            yield line if vector is None else with_vector(line, *vector)

    def _is_complete(self, record: Sealed) -> bool:
        """Return whether a record's line omits and adds nothing."""
        return not (
            self._nonce
            or (self._omits_embeddings and b'"embedding":' in record.body)
            or (not self._writing.entities and b'"entities":' in record.body)
        )

    def _full_line(self, record: Sealed) -> Row:
        for name in record.unknown:
            self._writing.report.lost(name, "not a member of this format", example=record.id)
        entry = self._selected(cast("Entry", record.model))
        bare = self._own.maker is not None
        return line_of(record, entry, self._bank, nonce=self._nonce, bare=bare)

    def _selected(self, entry: Entry) -> Entry:
        self._embeddings += not self._writing.embeddings and has_embedding(entry)
        self._entities += 0 if self._writing.entities else len(entry.entities)
        return _as_asked(entry, self._writing)

    def report(self, report: Report) -> None:
        """Report what was omitted since it was not requested."""
        if self._embeddings:
            report.note(
                f"{self._embeddings} embeddings were not exported; to include them: "
                "--include-embeddings"
            )
        if self._entities:
            report.note(
                f"{self._entities} entities were not exported; to include them: --include-entities"
            )


def _as_asked(entry: Entry, writing: WriteContext) -> Entry:
    if not writing.embeddings and has_embedding(entry):
        entry = without_embedding(entry)
    if not writing.entities and entry.entities:
        entry = without_entities(entry)
    return entry


def _write(sink: BinaryIO, header: Row, lines: Iterator[Row]) -> None:
    sink.write(_json(header))
    sink.writelines(_json(line) for line in lines)


def _json(value: Row) -> bytes:
    line = msgspec.json.encode(value)
    for sign, escaped in _BREAKS:
        if sign in line:
            line = line.replace(sign, escaped)
    return line + b"\n"


FORMAT = Ama()
"""The instance that the registry loads."""
