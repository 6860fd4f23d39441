"""What is around amplihack's arrays when a file is written: whose it is, and when."""

from typing import Any

from satchel.formats._amplihack.shape import NAME
from satchel.memory.entries import Entry
from satchel.memory.times import iso_text, now
from satchel.ports.format import Writing
from satchel.ports.records import RecordSet

_NOBODY = "satchel"


def container_of(records: RecordSet, writing: Writing, name: str = NAME) -> dict[str, Any]:
    """Return what was around the records, when one file of the format was the only one."""
    found = [one.value for one in records.of("source") if one.value.get("format") == name]
    if len(found) > 1:
        writing.report.note("the memories of several files get surroundings of their own")
        return {}
    return dict(found[0].get("container", {})) if found else {}


def agent_of(records: RecordSet, writing: Writing, container: dict[str, Any]) -> str:
    """Return whose memory is written: the bank's, the file's, or that of the first memory."""
    found = writing.bank or container.get("agent_name")
    if isinstance(found, str) and found:
        return found
    for kind in ("semantic", "episodic"):
        for record in records.of(kind):
            scope = record.model.scope if isinstance(record.model, Entry) else None
            if scope is not None and scope.agent:
                return scope.agent
            break
    return _NOBODY


def exported_at(writing: Writing, container: dict[str, Any]) -> str:
    """Return when a file says that it was written; a conversion keeps what it says."""
    found = container.get("exported_at")
    if writing.bank is None and isinstance(found, str):
        return found
    made = (writing.header.extra or {}).get("created_at")
    return iso_text(made if isinstance(made, str) else now())
