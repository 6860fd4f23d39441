"""Items of LangGraph's store as JSON: results of ``search()``, ``get()`` or the server.

They are the items of the database (``formats.langgraph``): a list, an object with ``items``, or a
single item. So a store on a server can be read and written, too.
"""

from collections.abc import Iterator
from typing import Any, ClassVar

from satchel.crypto.sealed_records import Sealed
from satchel.formats._json import json_members
from satchel.formats._langgraph import VECTORS, entry_of, row_of
from satchel.formats._row_lists import ALONE, RowLayout, container_of, count_others, in_order
from satchel.model.records import Entry, Model
from satchel.model.values import Component
from satchel.ports.format import Info, Location, ReadContext, Signs, Target, Traits, WriteContext
from satchel.ports.record_set import RecordSet, Report

_NAME = "langgraph_items"
_LISTING = RowLayout("items", sign="namespace")
_STARTS = ((), (0,), (b"items", 0))


class LangGraphItems:
    """The format."""

    info: ClassVar[Info] = Info(
        title="LangGraph store, items as JSON",
        suffixes=(".langgraph.json",),
        signs=Signs(texts=((b"namespace", b"key"),)),
        spec="langgraph 1.2 BaseStore.search(), Item.dict(); the server's /store/items/search",
        checked="2026-11-22",
        traits=Traits(components=frozenset({Component.SEMANTIC}), exact=True, streams=True),
        lost_on_writing=(
            "Memory types, tags, entities, provenance, salience, validity and"
            " edges; whether a label of a namespace is a user, an agent or a run."
        ),
        beside=frozenset({VECTORS}),
    )

    def recognizes(self, location: Location) -> bool:
        starts = dict(json_members(location.head))
        return any(
            starts.get((*start, b"namespace")) == b"[" and (*start, b"key") in starts
            for start in _STARTS
        )

    def read(self, location: Location, reading: ReadContext) -> Iterator[Model | Sealed]:
        yield from _LISTING.read(location, reading, entry_of)

    def write(self, records: RecordSet, target: Target, writing: WriteContext) -> None:
        count_others(records, writing.report, "a LangGraph store")
        container = container_of(records, _NAME)
        with target.open() as sink:
            rows = _rows(records, writing.report)
            _LISTING.write(sink, rows, container, writing.report, ALONE)


def _rows(records: RecordSet, report: Report) -> Iterator[dict[str, Any]]:
    for record in in_order(records, {}):
        entry = record.model
        if isinstance(entry, Entry) and (entry.text is not None or entry.data is not None):
            row = row_of(record, entry, report)
            for name in ("expires_at", "ttl_minutes", VECTORS):
                if row.pop(name, None) is not None:
                    report.lost(name, "an item as listed does not include it", example=record.id)
            yield row
        else:
            report.lost(record.type, "an item must be a text or data", example=record.id)


FORMAT = LangGraphItems()
"""The instance that the registry loads."""
