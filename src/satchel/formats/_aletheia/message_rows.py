"""Conversations as rows of an agent file: their messages, notes, and what stands before them."""

from collections.abc import Iterable
from typing import Any

import msgspec

from satchel.formats._aletheia.rows import said_of_origin
from satchel.formats._aletheia.shape import NOTE, RECORD, SUMMARY, WORKING, Row
from satchel.memory.records import SessionEvent
from satchel.memory.times import read_time


def row_of_message(event: SessionEvent, name: str, session: str, agent: str) -> Row:
    """Return a message as a row.

    Args:
        event: The message.
        name: Its id in the file.
        session: What that calls its conversation.
        agent: Whose file it is.
    """
    origin, kept = said_of_origin(event.origin, f"{agent}/sessions", f"{session}/{name}")
    row: Row = {"id": name, "role": event.role or ""}
    if event.name is not None:
        row["name"] = event.name
    row["content"] = event.text if event.content is None else event.content
    row["metadata"] = event.metadata
    row |= {"createdAt": event.created_at} if event.created_at else {}
    return _with_kept(row, kept, event, origin)


def name_of(event: SessionEvent, record_id: str, session: str) -> str:
    """Return what an event is called within its conversation.

    Args:
        event: The event.
        record_id: Its record's id.
        session: What the file calls its conversation.
    """
    found = event.origin.id if event.origin and event.origin.provider is not None else None
    start = f"{session}/"
    return found[len(start) :] if found and found.startswith(start) else record_id


def row_of_start(event: SessionEvent, identity: str, name: str | None, agent: str) -> Row:
    """Return a conversation as a row, without what comes after its start."""
    origin, kept = said_of_origin(event.origin, f"{agent}/sessions", identity)
    row: Row = {"id": identity}
    row |= {"name": name} if name is not None else {}
    row |= {"createdAt": event.created_at} if event.created_at else {}
    row |= {"metadata": event.metadata} if event.metadata else {}
    return _with_kept(row, kept, event, origin)


def row_of_note(said: Any, created: str | None) -> Row:
    """Return a note as a row."""
    note = dict(said) if isinstance(said, dict) else {"content": str(said)}
    kept = note.pop("createdAt", None)
    note.pop("created_at", None)
    when = kept if kept is not None and read_time(str(kept)) == created else created
    return {**note, **({"createdAt": when} if when else {})}


def _with_kept(row: Row, kept: Row, event: SessionEvent, origin: Row) -> Row:
    kept = dict(kept)
    text = kept.pop("createdAt", None)
    if text is not None and (type(text) is not str or read_time(text) == event.created_at):
        row["createdAt"] = text
    if kept.get("id", "") is None:  # it had none
        del kept["id"], row["id"]
    if kept.get("content", "") is None:
        del kept["content"]
    row |= {name: part for name, part in kept.items() if name not in row}
    more = {"origin": origin, "scope": event.scope, "sources": event.sources}
    said = {name: msgspec.to_builtins(part) for name, part in more.items() if part}
    return {**row, RECORD: said} if said else row


def last_of(changes: Iterable[Row]) -> tuple[Row, list[Row]]:
    """Return the working state and the summary that count, and all notes.

    Args:
        changes: Each with what a change said, and ``created_at``.
    """
    found, notes = dict[str, Any](), list[Row]()
    for change in changes:
        for member, name in (("workingState", WORKING), ("threadSummary", SUMMARY)):
            if name in change:
                found[member] = change[name]
        if NOTE in change:
            notes.append(row_of_note(change[NOTE], change.get("created_at")))
    return found, notes
