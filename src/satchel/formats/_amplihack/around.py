"""What is around amplihack's arrays when a file is written: whose it is, and when."""

from typing import Any

from satchel.formats._amplihack.shape import NAME
from satchel.memory.entries import Entry
from satchel.memory.times import iso_text, now
from satchel.ports.format import Writing
from satchel.ports.records import RecordSet

_NOBODY = "satchel"


def container_of(records: RecordSet, writing: Writing, name: str = NAME) -> dict[str, Any]:
    """Return what was around the records: in the file that they came in, or else in the last."""
    last: dict[str, Any] = {}
    for record in records.of("source"):
        if record.value.get("format") != name:
            continue
        found = record.value.get("container", {})
        if last.get("fields", found.get("fields")) != found.get("fields"):
            writing.report.lost(
                "container", "only that of one file can be stored", example=record.id
            )
        last = found
    return last


def agent_of(records: RecordSet, writing: Writing, container: dict[str, Any]) -> str:
    """Return whose memory is written: the one agent's, the file's, or else the bank's."""
    agents = _agents_in(records)
    if len(agents) == 1:
        return agents.pop()
    found = writing.bank or container.get("agent_name")
    if isinstance(found, str) and found:
        return found
    return min(agents, default=_NOBODY)


def _agents_in(records: RecordSet) -> set[str]:
    """Return the agents that memories are of, where they are few; two are as good as many."""
    found = set[str]()
    for kind in ("semantic", "episodic"):
        for record in records.of(kind):
            scope = record.model.scope if isinstance(record.model, Entry) else None
            if scope is not None and scope.agent:
                found.add(scope.agent)
            if len(found) > 1:
                return found
    return found


def exported_at(writing: Writing, container: dict[str, Any]) -> str:
    """Return when a file says that it was written; a conversion keeps what it says."""
    found = container.get("exported_at")
    if writing.bank is None and isinstance(found, str):
        return found
    made = (writing.header.extra or {}).get("created_at")
    return iso_text(made if isinstance(made, str) else now())
