"""Mem0: what ``get_all()`` returns, as a dict or a list, one memory, or a platform export.

``memory`` becomes the text of a semantic entry (procedural where Mem0 says so); user, agent, app
and run ids become the scope; ``metadata``, ``categories`` and the times have their own members.
Everything else a record holds (``hash``, ``role``, ``actor_id``, ``score``, ``replaced_by``, ...)
is kept in ``origin.as_written`` and written back. The TypeScript SDKs spell the same members in
camel case; that is read, and written back as it was. A ``relations`` list (graph memory) becomes
semantic triples. Compared with mem0ai 2.2.1 and the platform API v3.

``get_all()`` returns 20 memories unless told otherwise, and hides expired ones: the reader cannot
see what is not in the file, but says so where the file shows that there is more.
"""

import re
from collections.abc import Callable, Generator, Iterator
from itertools import chain, islice
from typing import Any, BinaryIO, ClassVar, cast

from satchel.artifact.body import TYPED_SECTIONS
from satchel.crypto.json_reader import ForeignReader
from satchel.crypto.sealed_records import Sealed
from satchel.crypto.value_domain import escape_keys
from satchel.errors import MalformedError
from satchel.formats._files import json_members
from satchel.formats._json import as_json
from satchel.formats._mem0 import (
    NAME,
    OF_THE_STORE,
    RELATION,
    Row,
    decoded_entry_of,
    losses_of,
    row_of,
    triple_of,
    triple_row_of,
)
from satchel.model.entries import Entry, Procedural, Semantic
from satchel.model.records import Model
from satchel.model.values import Component
from satchel.ports.format import Info, ReadContext, Signs, Traits, WriteContext
from satchel.ports.losses import Report
from satchel.ports.place import BOM, Place, Target
from satchel.ports.record_set import RecordSet

_DEFAULT_PAGE = 20
_MEMORY = {(b"memory",), (0, b"memory"), (b"results", 0, b"memory")}
_EMPTY_RESULTS = re.compile(rb'\s*\{[^{}\[\]]*"results"\s*:\s*\[\s*\]')
_MEMORY_TYPES = ("semantic", "procedural")
_OF_THE_TRANSFER = ("source", "receipt")
_MOST_RUNS = 10_000
_LEFT_THERE = "a Mem0 export does not include the history and vectors of Mem0's own store"

_Rows = Generator[Model, None, int]
_Map = Callable[[Row], Entry]


class Mem0:
    """Memories as Mem0 hands them out."""

    info: ClassVar[Info] = Info(
        title="Mem0 export",
        suffixes=(".mem0.json",),
        signs=Signs(texts=((b"memory",), (b'"results"',))),
        spec="mem0ai 2.2.1 get_all(); Mem0 platform API v3 memories",
        checked="2026-11-21",
        traits=Traits(
            components=frozenset({Component.SEMANTIC, Component.PROCEDURAL}),
            exact=True,
            streams=True,
        ),
        lost_on_writing=(
            "Episodic, working and identity memory, edges, provenance, salience and validity; "
            "times of day of an expiry."
        ),
        beside=OF_THE_STORE,
    )

    def recognises(self, place: Place) -> bool:
        head = place.head
        if _EMPTY_RESULTS.match(head.removeprefix(BOM)):
            return True
        return any(path in _MEMORY and start == b'"' for path, start in json_members(head))

    def read(self, place: Place, reading: ReadContext) -> Iterator[Model | Sealed]:
        with place.open() as stream:
            document = ForeignReader(stream, place.name, item_bytes=reading.limits.line_bytes)
            reading.line = lambda: document.value_line
            start = document.peek()
            if start == "[":
                reading.container["shape"] = "list"
                count = yield from _array(document, reading, "", decoded_entry_of)
            elif start == "{":
                count = yield from _object(document, reading)
            else:
                problem = "not a Mem0 export: neither an object nor a list"
                raise MalformedError(problem, line=document.line)
            document.end()
            _note_what_is_missing(reading, count)

    def write(self, records: RecordSet, target: Target, writing: WriteContext) -> None:
        report = writing.report
        container = _container(records, report)
        shape = container.get("shape", "results")
        runs = container.get("runs", [])
        _count_what_has_no_place(records, report)
        with target.open() as sink:
            if shape == "results":
                _write_results(sink, records, container, report)
                return
            for record, _ in _triples(records):
                reason = "a bare list or a single memory cannot hold relations"
                report.lost(RELATION, reason, example=record.id)
            if shape == "one" and records.count("semantic") + records.count("procedural") == 1:
                sink.writelines(_json(row, report) for row in _rows(records, runs, report))
            else:
                _write_array(sink, _rows(records, runs, report), report)
            sink.write(b"\n")


# -- reading -------------------------------------------------------------------------------


def _object(document: ForeignReader, reading: ReadContext) -> _Rows:
    """Read an object, a result list with fields around it or one memory; return how many.

    After one memory others may follow, each on a line.
    """
    around: Row = {}
    count, listed = 0, False
    for key in document.members():
        if key == "results" and document.peek() == "[":
            listed = True
            count = yield from _array(document, reading, "results/", decoded_entry_of)
        elif key == "relations" and document.peek() == "[":
            reading.container["relations"] = True
            yield from _array(document, reading, "relations/", triple_of)
        else:
            around.update(escape_keys([(key, document.value())]))
    if listed:
        reading.container.update({"shape": "results"} | ({"fields": around} if around else {}))
        return count
    if "memory" not in around or "relations" in reading.container:
        problem = MalformedError(
            "not a Mem0 export: neither a `results` list nor a `memory`",
            hint="Save what get_all() returns as JSON.",
        )
        raise problem.located(line=document.line)
    if document.peek() == "{":
        reading.container["shape"] = "list"
        lines = chain((around,), document.following())
        return (yield from _each(lines, document, reading, "", decoded_entry_of))
    reading.container["shape"] = "one"
    try:
        entry = decoded_entry_of(around)
    except MalformedError as error:
        raise error.located(line=document.line) from None
    yield entry
    return 1


def _array(document: ForeignReader, reading: ReadContext, prefix: str, make: _Map) -> _Rows:
    """Read a list of rows; return how many there were, bad ones that are left out included."""
    return (yield from _each(document.values(), document, reading, prefix, make))


def _each(
    rows: Iterator[Any], document: ForeignReader, reading: ReadContext, prefix: str, make: _Map
) -> _Rows:
    count, order = 0, _Order()
    for count, row in enumerate(rows, 1):
        try:
            entry = make(_checked(row))
        except MalformedError as error:
            error.field = f"{prefix}{count - 1}" + (f"/{error.field}" if error.field else "")
            error.located(line=document.value_line)
            reading.refuse(error)
            continue
        yield entry
        order.add(entry)
    order.keep(reading)
    return count


class _Order:
    """Remembers how the two kinds of memory alternate; in an artifact each has its own section."""

    def __init__(self) -> None:
        self._runs = [0]

    def add(self, entry: Entry) -> None:
        if isinstance(entry, Procedural) is (len(self._runs) % 2 == 1):
            self._runs.append(0)
        self._runs[-1] += 1

    def keep(self, reading: ReadContext) -> None:
        if len(self._runs) > _MOST_RUNS:
            reading.report.note("procedural memories will be written after the others")
        elif len(self._runs) > 1:
            reading.container["runs"] = self._runs


def _checked(row: Any) -> Row:
    if not isinstance(row, dict):
        raise MalformedError("a memory or relation is not an object")
    return row


def _note_what_is_missing(reading: ReadContext, count: int) -> None:
    around = reading.container.get("fields", {})
    total = around.get("count")
    if isinstance(total, int) and total > count:
        reading.report.note(f"the file declares {total} memories and contains {count}")
        reading.missing = total - count
    elif around.get("next"):
        reading.missing = 1
        reading.report.note("this is one page of several; export the next pages too")
    elif total is None and count == _DEFAULT_PAGE:
        reading.report.note(
            "exactly 20 memories, the default limit of get_all(); the export may be incomplete"
        )


# -- writing -------------------------------------------------------------------------------


def _container(records: RecordSet, report: Report) -> Row:
    """Return the fields around the records, when one Mem0 file was the only source."""
    if records.count("source") == 1:
        for source in records.of("source"):
            if source.value.get("format") == NAME:
                return dict(source.value.get("container", {}))
        return {}
    for source in records.of("source"):
        container = source.value.get("container", {})
        if source.value.get("format") == NAME and "fields" in container:
            reason = "the members around the memories of several files cannot all be kept"
            report.lost("container", reason, example=source.id)
    return {}


def _count_what_has_no_place(records: RecordSet, report: Report) -> None:
    for section, count in records.counts.items():
        kind = TYPED_SECTIONS.get(section)
        if kind is None:
            report.lost(section, "Mem0 has no such section", count=count)
        elif kind not in _MEMORY_TYPES and kind not in _OF_THE_TRANSFER:
            for record in records.of(kind):
                report.lost(kind, "Mem0 has no such records", example=record.id)


def _rows(records: RecordSet, runs: list[int], report: Report) -> Iterator[Row]:
    """Yield the memories, in the order in which they were read."""
    kinds = [_rows_of(kind, records, report) for kind in _MEMORY_TYPES]
    for turn, length in enumerate(runs):
        yield from islice(kinds[turn % len(kinds)], length)
    for kind in kinds:
        yield from kind


def _rows_of(kind: str, records: RecordSet, report: Report) -> Iterator[Row]:
    for record in records.of(kind):
        entry = cast("Entry", record.model)
        if entry.text is not None:
            row = row_of(entry)
            _count_losses(record, row, report)
            if entry.origin is not None and not OF_THE_STORE.isdisjoint(entry.origin.as_written):
                report.note(_LEFT_THERE)
            yield row
        elif not _is_relation(entry):
            report.lost(record.type, "Mem0 stores text only", example=record.id)


def _triples(records: RecordSet) -> Iterator[tuple[Sealed, Semantic]]:
    for record in records.of("semantic"):
        entry = record.model
        if isinstance(entry, Semantic) and _is_relation(entry):
            yield record, entry


def _is_relation(entry: Entry) -> bool:
    return entry.kind == RELATION and entry.text is None


def _triple_rows(records: RecordSet, report: Report) -> Iterator[Row]:
    for record, entry in _triples(records):
        row = triple_row_of(entry)
        _count_losses(record, row, report)
        yield row


def _count_losses(record: Sealed, row: Row, report: Report) -> None:
    for name, reason in losses_of(record.value, row).items():
        report.lost(name, reason, example=record.id)


def _json(value: Any, report: Report) -> bytes:
    """Encode as Python's own JSON does, NaN and large integers included."""
    return as_json(value, report)


def _write_results(sink: BinaryIO, records: RecordSet, container: Row, report: Report) -> None:
    sink.write(b"{")
    for name, part in container.get("fields", {}).items():
        sink.writelines((_json({name: part}, report)[1:-1], b",\n"))
    sink.write(b'"results": ')
    _write_array(sink, _rows(records, container.get("runs", []), report), report)
    if "relations" in container or any(True for _ in _triples(records)):
        sink.write(b',\n"relations": ')
        _write_array(sink, _triple_rows(records, report), report)
    sink.write(b"}\n")


def _write_array(sink: BinaryIO, rows: Iterator[Row], report: Report) -> None:
    sink.write(b"[")
    for index, row in enumerate(rows):
        sink.writelines((b",\n" if index else b"\n", _json(row, report)))
    sink.write(b"\n]")


FORMAT = Mem0()
