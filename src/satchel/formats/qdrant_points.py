"""Points of Qdrant as JSON: the result of a server's ``points/scroll``, or a list of points.

The output is accepted by ``PUT /collections/NAME/points``. A server's IDs, payloads and vectors are
preserved. A collection on this machine is read and written in place (``connectors.qdrant_local``).
"""

from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import Any, ClassVar

from satchel.crypto.sealed_records import Sealed
from satchel.formats._json import json_members
from satchel.formats._points import NAME, VECTOR, entry_of, row_of
from satchel.formats._row_lists import RowLayout, container_of, count_others, in_order
from satchel.model.records import Entry, Model
from satchel.model.values import Component
from satchel.ports.format import Info, Location, ReadContext, Signs, Target, Traits, WriteContext
from satchel.ports.record_set import RecordSet, Report
from satchel.runtime.scratch import ScratchMap

_NAME = "qdrant_points"
_LISTING = RowLayout("points", sign="payload", inside="result")
_STARTS = ((0,), (b"points", 0), (b"result", b"points", 0))


def _is_point(
    starts: Mapping[tuple[bytes | int, ...], bytes], start: tuple[bytes | int, ...]
) -> bool:
    return starts.get((*start, b"payload")) in (b"{", b"n") and (*start, b"id") in starts


class QdrantPoints:
    """The format."""

    info: ClassVar[Info] = Info(
        title="Qdrant points as JSON",
        suffixes=(".qdrant.json",),
        signs=Signs(texts=((b"id", b"payload"),)),
        spec="Qdrant 1.20: POST points/scroll, PUT points; qdrant-client 1.20.0 records",
        checked="2026-11-22",
        traits=Traits(components=frozenset({Component.SEMANTIC}), exact=True, streams=True),
        lost_on_writing=(
            "Memory types, its kind and times, entities, provenance, salience,"
            " validity, edges and namespaces."
        ),
        beside=frozenset({VECTOR}),
    )

    def recognizes(self, location: Location) -> bool:
        # Of lines, only the first: many formats have an ID in one line and a payload in another.
        line = dict(json_members(location.head.partition(b"\n")[0]))
        starts = dict(json_members(location.head))
        return _is_point(line, ()) or any(_is_point(starts, start) for start in _STARTS)

    def read(self, location: Location, reading: ReadContext) -> Iterator[Model | Sealed]:
        yield from _LISTING.read(location, reading, lambda row: entry_of(row, None))

    def write(self, records: RecordSet, target: Target, writing: WriteContext) -> None:
        count_others(records, writing.report, "Qdrant")
        container = container_of(records, _NAME)
        with target.open() as sink, closing(ScratchMap()) as seen:
            rows = _rows(records, seen, writing.report)
            _LISTING.write(sink, rows, container, writing.report, "points")


def _rows(records: RecordSet, seen: ScratchMap, report: Report) -> Iterator[dict[str, Any]]:
    for record in in_order(records, {}):
        entry = record.model
        if not isinstance(entry, Entry) or not _says_something(entry):
            report.lost(record.type, "a point must be a text or data", example=record.id)
            continue
        row = row_of(record, entry, report)
        if not seen.add(repr(row["id"]).encode()):
            report.lost(record.type, "another point has the same ID", example=record.id)
            continue
        if entry.origin is not None and entry.origin.provider == NAME and entry.origin.source:
            reason = "a list of points does not include the collection's name"
            report.lost("origin/source", reason, example=record.id)
        yield row


def _says_something(entry: Entry) -> bool:
    own = entry.origin is not None and entry.origin.provider == NAME
    return own or entry.text is not None or entry.data is not None


FORMAT = QdrantPoints()
"""The instance that the registry loads."""
