"""JSON that is written for another product, and records of kinds that it does not know."""

from typing import Any

from satchel.formats._json import as_json as json_of
from satchel.memory.parts import Component
from satchel.ports.records import RecordSet
from satchel.ports.report import Report
from satchel.seal.artifact.sections import TYPED_SECTIONS

_OF_THE_TRANSFER = ("source", "receipt")


def as_json(value: Any, report: Report) -> bytes:
    """Encode as Python's own JSON does, on one line without white space."""
    return json_of(value, report, compact=True)


def count_others(records: RecordSet, report: Report, product: str) -> None:
    """Count the records that are no memories."""
    for section, count in records.counts.items():
        kind = TYPED_SECTIONS.get(section, section)
        if kind not in frozenset(Component) and kind not in _OF_THE_TRANSFER:
            report.lost(kind, f"{product} has no such records", count=count)


def container_of(records: RecordSet, name: str) -> dict[str, Any]:
    """Return the fields around the records, when one file of the format was their only source."""
    found = list(records.of("source")) if records.count("source") == 1 else []
    if len(found) == 1 and found[0].value.get("format") == name:
        return dict(found[0].value.get("container", {}))
    return {}
