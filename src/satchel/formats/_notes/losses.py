"""What of a memory has no place in a text file, counted by name."""

from satchel.ports.records import RecordSet
from satchel.ports.report import Report
from satchel.seal.artifact.sections import TYPED_SECTIONS
from satchel.seal.records import Sealed

_OF_THE_TRANSFER = frozenset({"source", "receipt"})
_NOT_ITS_OWN = frozenset({"id", "nonce", "type"})


def count_records(records: RecordSet, held: frozenset[str], report: Report) -> None:
    """Count the records of types that have no place at all."""
    for section, count in records.counts.items():
        kind = TYPED_SECTIONS.get(section, section)
        if kind not in held | _OF_THE_TRANSFER:
            report.lost(kind, "notes hold the text of memories only", count=count)


def count_members(record: Sealed, held: frozenset[str], provider: str, report: Report) -> None:
    """Count the members of a memory that have no place.

    Args:
        record: The memory.
        held: The members that have one.
        provider: The format; where a memory was in another one is lost.
        report: Where they are counted.
    """
    value = record.value
    for name in sorted(value.keys() - _NOT_ITS_OWN - held - {"origin"}):
        report.lost(name, "a note has no such field", example=record.id)
    origin = value.get("origin", {"provider": provider})
    if origin.get("provider") != provider or origin.keys() & {"source", "revision"}:
        reason = "a note cannot store provenance"
        report.lost("origin", reason, example=record.id)
