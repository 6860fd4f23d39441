"""Conversations of an agent file as events, and back.

An event names the conversation and the event before it (decision 0045), so what a reader yields
has placeholders there, and comes one after the other. A conversation that was forked has all its
messages in a file, those before the fork as well; it can be read alone.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from satchel.errors import MalformedError
from satchel.formats._aletheia.rows import origin_of, said_of_origin
from satchel.formats._aletheia.shape import (
    KINDS,
    NOTE,
    RECORD,
    SUMMARY,
    WORKING,
    Row,
    a_list,
    an_object,
    text_in,
)
from satchel.memory.parts import Origin
from satchel.memory.records import SessionEvent
from satchel.memory.times import read_time
from satchel.ports.linking.placeholders import placeholder

TYPE = "session_event"
TIMELINE = "timeline"
"""What changed beside the messages, and the points to return to, each after how many messages.

Where it is there, what was last said of the state is a part of it."""

_HEAD = ("id", "name", "createdAt", "archived", "metadata", RECORD)
_BESIDE = ("messages", "workingState", "threadSummary", "notes", TIMELINE)
_MESSAGE = ("id", "role", "name", "content", "createdAt", "metadata", RECORD)
_NOTE = ("content", "category", "createdAt")

HELD = (*_HEAD, *_BESIDE)
"""The members of a conversation; ``messages`` is read by itself."""


class Conversation:
    """One conversation that is being read.

    Args:
        row: All of it but its messages.
        agent: Whose file it is.

    Raises:
        MalformedError: If it is none, naming the member.
    """

    def __init__(self, row: Row, agent: str) -> None:
        self._row = row
        self._source = f"{agent}/sessions"
        self._id = text_in(row, "id")
        self._number = self._step = 0
        self._state: str | None = None
        self._latest: dict[str, str] = {}
        self._moments = _moments_in(row)
        self.start = self._started()
        self._session = self._last = _standing(self.start)

    def message(self, row: Row) -> SessionEvent:
        """Return the next message.

        Raises:
            MalformedError: If it is none, naming the member.
        """
        role = text_in(row, "role")
        self._number += 1
        created, kept = _time_in(row, {k: v for k, v in row.items() if k not in _MESSAGE})
        content, said = row.get("content"), an_object(row.get(RECORD), RECORD)
        if content is None and "content" in row:
            kept["content"] = None
        name = row.get("id")
        if name is None:
            name = str(self._number)
            kept["id"] = None
        place: Row = {"number": self._number, "step": self._step + 1}
        if self._state is not None:
            place["state"] = self._state
        return self._next(
            SessionEvent(
                event="message",
                session=self._session,
                parent=self._last,
                role=role,
                name=row.get("name") if type(row.get("name")) is str else None,
                text=content if type(content) is str else None,
                content=None if type(content) is str else content,
                state=place,
                created_at=created,
                metadata=an_object(row.get("metadata"), "metadata"),
                origin=self._origin(f"{self._id}/{name}", said.get("origin"), kept),
            )
        )

    def moments(self, *, last: bool = False) -> Iterator[SessionEvent]:
        """Yield what happened beside the messages before the next one; or all, after the last."""
        while self._moments and (last or self._moments[-1][0] <= self._number):
            _, place, said = self._moments.pop()
            when, name = said.get("at"), said.get("id")
            name = name if type(name) is str and name else f"moment {place}"
            created = read_time(when) if type(when) is str else None
            if "change" in said:
                change = an_object(said["change"], f"{TIMELINE}/{place}/change")
                known = {kind: change[kind] for kind in KINDS if change.get(kind) is not None}
                yield self._change(known, name, created)
            else:
                point = an_object(said.get("checkpoint"), f"{TIMELINE}/{place}/checkpoint")
                yield self._checkpoint(point, name, created)

    def rest(self) -> Iterator[SessionEvent]:
        """Yield what is kept beside the messages, as it was after the last one.

        Raises:
            MalformedError: If it is not what it has to be, naming the member.
        """
        row = self._row
        if TIMELINE not in row:
            yield from self._state_of(row)
        yield from self.moments(last=True)
        if row.get("archived") is True:
            yield SessionEvent(
                event="session",
                session=self._session,
                state={"archived": True},
                origin=self._origin(f"{self._id}/archived"),
            )

    def _state_of(self, row: Row) -> Iterator[SessionEvent]:
        said = {WORKING: row.get("workingState"), SUMMARY: row.get("threadSummary")}
        found = {name: one for name, one in said.items() if one is not None}
        if found:
            yield self._change(found, "state", None)
        notes = row.get("notes")
        if notes is not None and type(notes) is not list:
            raise MalformedError("`notes` is not a list", field="notes")
        for place, note in enumerate(notes or []):
            if type(note) is not dict or type(note.get("content")) is not str:
                raise MalformedError("a note without `content`", field=f"notes/{place}")
            created, kept = _time_in(note, {k: v for k, v in note.items() if k not in _NOTE})
            said = {"content": note["content"]}
            if type(note.get("category")) is str:
                said["category"] = note["category"]
            yield self._change({NOTE: {**said, **kept}}, f"note {place}", created)

    def _started(self) -> SessionEvent:
        row = self._row
        known = (*_HEAD, *_BESIDE)
        created, kept = _time_in(row, {k: v for k, v in row.items() if k not in known})
        said = an_object(row.get(RECORD), RECORD)
        name = row.get("name")
        return SessionEvent(
            event="session",
            name=name if type(name) is str else None,
            created_at=created,
            metadata=an_object(row.get("metadata"), "metadata"),
            origin=self._origin(self._id, said.get("origin"), kept),
        )

    def _change(self, said: Row, name: str, created: str | None) -> SessionEvent:
        place: Row = {"number": self._number, "step": self._step + 1, **said}
        if self._latest:
            place["latest"] = dict(self._latest)
        made = self._next(
            SessionEvent(
                event="session",
                session=self._session,
                parent=self._last,
                state=place,
                created_at=created,
                origin=self._origin(f"{self._id}/{name}"),
            )
        )
        self._state = self._last
        self._latest |= dict.fromkeys(said, self._last)
        return made

    def _checkpoint(self, said: Row, name: str, created: str | None) -> SessionEvent:
        place: Row = {"number": self._number, "step": self._step}
        if self._state is not None:
            place["state"] = self._state
        place |= {k: said[k] for k in ("why", "distillation") if said.get(k) is not None}
        called = said.get("name")
        return SessionEvent(
            event="checkpoint",
            session=self._session,
            parent=self._last,
            name=called if type(called) is str else None,
            state=place,
            created_at=created,
            origin=self._origin(f"{self._id}/{name}"),
        )

    def _origin(self, name: str, said: Any = None, kept: Row | None = None) -> Origin:
        return origin_of(name, self._source, said, kept or {})

    def _next(self, made: SessionEvent) -> SessionEvent:
        self._last = _standing(made)
        self._step += 1
        return made


def _moments_in(row: Row) -> list[tuple[int, int, Row]]:
    """Return what happened beside the messages: after how many, its place, and it; last first."""
    found = []
    for place, said in enumerate(a_list(row.get(TIMELINE), TIMELINE)):
        after = said.get("after", 0) if type(said) is dict else None
        if type(after) is not int or after < 0:
            raise MalformedError("`after` is not a number of messages", field=f"{TIMELINE}/{place}")
        found.append((after, place, said))
    found.sort(key=lambda one: one[:2], reverse=True)
    return found


def _standing(event: SessionEvent) -> str:
    """Return what stands for an event's id until it has one."""
    origin = event.origin
    assert origin is not None  # noqa: S101 - each event that is read has one
    return placeholder(TYPE, event.scope, origin)


def _time_in(row: Row, kept: Row) -> tuple[str | None, Row]:
    """Return a row's time, and what to keep so that it is written as it was."""
    text = row.get("createdAt")
    found = read_time(text) if type(text) is str else None
    if "createdAt" in row and found != text:
        kept = {**kept, "createdAt": text}
    return found, kept


# -- writing -------------------------------------------------------------------------------


def row_of_message(event: SessionEvent, record_id: str, session: str, agent: str) -> Row:
    """Return a message as a row.

    Args:
        event: The message.
        record_id: Its record's id.
        session: What the file calls its conversation.
        agent: Whose file it is.
    """
    origin, kept = said_of_origin(event.origin, f"{agent}/sessions")
    row: Row = {"id": _name_in(event, record_id, session), "role": event.role or ""}
    if event.name is not None:
        row["name"] = event.name
    row["content"] = event.content if event.text is None else event.text
    row["metadata"] = event.metadata
    row |= {"createdAt": event.created_at} if event.created_at else {}
    return _with_kept(row, kept, origin, event.created_at)


def _name_in(event: SessionEvent, record_id: str, session: str) -> str:
    found = event.origin.id if event.origin and event.origin.provider is not None else None
    start = f"{session}/"
    return found[len(start) :] if found and found.startswith(start) else record_id


def row_of_start(event: SessionEvent, identity: str, name: str | None, agent: str) -> Row:
    """Return a conversation as a row, without what comes after its start."""
    origin, kept = said_of_origin(event.origin, f"{agent}/sessions")
    row: Row = {"id": identity}
    row |= {"name": name} if name is not None else {}
    row |= {"createdAt": event.created_at} if event.created_at else {}
    row |= {"metadata": event.metadata} if event.metadata else {}
    return _with_kept(row, kept, origin, event.created_at)


def row_of_note(said: Any, created: str | None) -> Row:
    """Return a note as a row."""
    note = dict(said) if isinstance(said, dict) else {"content": str(said)}
    kept = note.pop("createdAt", None)
    note.pop("created_at", None)
    when = kept if kept is not None and read_time(str(kept)) == created else created
    return {**note, **({"createdAt": when} if when else {})}


def _with_kept(row: Row, kept: Row, origin: Row, created: str | None) -> Row:
    kept = dict(kept)
    text = kept.pop("createdAt", None)
    if text is not None and (type(text) is not str or read_time(text) == created):
        row["createdAt"] = text
    if kept.get("id", "") is None:  # it had none
        del kept["id"], row["id"]
    if kept.get("content", "") is None:
        del kept["content"]
    row |= {name: part for name, part in kept.items() if name not in row}
    return {**row, RECORD: {"origin": origin}} if origin else row


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
