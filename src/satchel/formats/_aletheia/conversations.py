"""Conversations of an agent file as events.

An event names the conversation and the previous event (decision 0045), so a reader yields
placeholders for them, and the events in order.
"""

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from satchel.errors import MalformedError
from satchel.formats._aletheia.branches import (
    AFTER,
    BEFORE,
    FORKED,
    INCLUDED,
    WAS_FORKED,
    BranchPoint,
    ForkPoint,
    digest_after,
)
from satchel.formats._aletheia.rows import origin_of
from satchel.formats._aletheia.schema import (
    KINDS,
    NOTE,
    RECORD,
    SUMMARY,
    WORKING,
    Row,
    a_list,
    an_object,
    require_time,
    text_in,
)
from satchel.formats._json import time_of
from satchel.model.records import SessionEvent
from satchel.model.values import Evidence, Origin, Scope, resolved
from satchel.ports.drafts import required_placeholder

TYPE = "session_event"
TIMELINE = "timeline"
"""Member with changes of state and checkpoints, each with the number of messages before it.

If it exists, it includes the last state."""

ABOUT = "about"
"""Member of ``record`` with later names of a conversation, and when it was archived."""

_HEAD = ("id", "name", "createdAt", "archived", "metadata", RECORD)
_PARTS = ("messages", "workingState", "threadSummary", "notes", TIMELINE)
_MESSAGE = ("id", "role", "name", "content", "createdAt", "metadata", RECORD)
_NOTE = ("content", "category", "createdAt")

HELD = (*_HEAD, *_PARTS)
"""The members of a conversation; ``messages`` is read separately."""


class AletheiaConversation:
    """A conversation that is being read.

    Args:
        row: The conversation without its messages.
        agent: The agent of the file.
        note: Called with each element's name in the file and its placeholder.
        beginning: Where a fork of a conversation that was read begins.

    Raises:
        MalformedError: If it is not valid, naming the member.
    """

    def __init__(
        self,
        row: Row,
        agent: str,
        note: Callable[[str, BranchPoint], object],
        beginning: ForkPoint | None = None,
    ) -> None:
        self._row = row
        self._source = f"{agent}/sessions"
        self._id = text_in(row, "id")
        self._note = note
        self._fork = beginning
        point = BranchPoint("") if beginning is None else beginning.point
        self._number, self._step = point.number, point.step
        self._state, self._latest, self._digest = point.state, dict(point.latest), point.digest
        self._shared = point.number if beginning is not None and beginning.included else 0
        """Number of messages in the row that were read with the conversation of origin."""

        is_included = self._shared > 0
        self._moments = _moments_in(
            row, 0 if beginning is not None else _lacking(row), known=is_included
        )
        self.start = self._started()
        self._session = self._last = required_placeholder(self.start)
        note(self._id, self._point(self._session))

    def message(self, row: Row) -> SessionEvent | None:
        """Return the next message; None if it was read with the conversation of origin.

        Raises:
            MalformedError: If it is not valid, naming the member.
        """
        if self._shared:
            self._shared -= 1
            return None
        role = text_in(row, "role")
        self._number += 1
        self._digest = digest_after(self._digest, row)
        created, as_written = _time_in(row, {k: v for k, v in row.items() if k not in _MESSAGE})
        content, record = row.get("content"), an_object(row.get(RECORD), RECORD)
        if content is None and "content" in row:
            as_written["content"] = None
        name = row.get("id")
        if name is None:
            name = str(self._number)
            as_written["id"] = None
        state: Row = {"number": self._number, "step": self._step + 1}
        if self._state is not None:
            state["state"] = self._state
        return self._next(
            SessionEvent(
                event="message",
                session=self._session,
                parent=self._last,
                role=role,
                name=row.get("name") if type(row.get("name")) is str else None,
                text=content if type(content) is str else None,
                content=None if type(content) is str else content,
                state=state,
                created_at=created,
                metadata=an_object(row.get("metadata"), "metadata"),
                scope=_converted(record, "scope", Scope | None),
                sources=_converted(record, "sources", tuple[Evidence, ...]) or (),
                origin=self._origin(f"{self._id}/{name}", record.get("origin"), as_written),
            ),
            name,
        )

    def moments(self, *, last: bool = False) -> Iterator[SessionEvent]:
        """Yield the moments of the timeline before the next message; after the last, the rest."""
        if self._shared:
            return
        while self._moments and (last or self._moments[-1][0] <= self._number):
            _, index, moment = self._moments.pop()
            when, name = moment.get("at"), moment.get("id")
            name = name if type(name) is str and name else f"moment {index}"
            created = require_time(when, f"{TIMELINE}/{index}/at")
            if "change" in moment:
                change = an_object(moment["change"], f"{TIMELINE}/{index}/change")
                known = {kind: change[kind] for kind in KINDS if change.get(kind) is not None}
                yield self._change(known, name, created)
            else:
                point = an_object(moment.get("checkpoint"), f"{TIMELINE}/{index}/checkpoint")
                yield self._checkpoint(point, name, created)

    def rest(self) -> Iterator[SessionEvent]:
        """Yield the state after the last message.

        Raises:
            MalformedError: If it is not valid, naming the member.
        """
        row = self._row
        if TIMELINE not in row:
            yield from self._state_of(row)
        yield from self.moments(last=True)
        yield from self._about(row)

    def _about(self, row: Row) -> Iterator[SessionEvent]:
        """Yield its later names, and that it was archived."""
        record = an_object(row.get(RECORD), RECORD)
        archived_only = (
            [{"id": "archived", "archived": True}] if row.get("archived") is True else []
        )
        changes = a_list(record[ABOUT], ABOUT) if ABOUT in record else archived_only
        for index, value in enumerate(changes):
            about = an_object(value, f"{RECORD}/{ABOUT}/{index}")
            name, when, archived = about.get("name"), about.get("at"), about.get("archived")
            yield SessionEvent(
                event="session",
                session=self._session,
                parent=required_placeholder(self.start),
                name=name if type(name) is str else None,
                state={"archived": archived} if type(archived) is bool else None,
                created_at=require_time(when, f"{RECORD}/{ABOUT}/{index}/at"),
                origin=self._origin(f"{self._id}/{about.get('id') or f'{ABOUT} {index}'}"),
            )

    def _state_of(self, row: Row) -> Iterator[SessionEvent]:
        members = {WORKING: row.get("workingState"), SUMMARY: row.get("threadSummary")}
        change = {name: one for name, one in members.items() if one is not None}
        if change:
            yield self._change(change, "state", None)
        notes = row.get("notes")
        if notes is not None and type(notes) is not list:
            raise MalformedError("`notes` is not a list", field="notes")
        for index, note in enumerate(notes or []):
            if type(note) is not dict or type(note.get("content")) is not str:
                raise MalformedError("a note without `content`", field=f"notes/{index}")
            created, rest = _time_in(note, {k: v for k, v in note.items() if k not in _NOTE})
            members = {"content": note["content"]}
            if type(note.get("category")) is str:
                members["category"] = note["category"]
            yield self._change({NOTE: {**members, **rest}}, f"note {index}", created)

    def _started(self) -> SessionEvent:
        row, fork = self._row, self._fork
        known = (*_HEAD, *_PARTS, FORKED)
        created, as_written = _time_in(row, {k: v for k, v in row.items() if k not in known})
        if fork is None and FORKED in row:
            as_written[WAS_FORKED] = row[FORKED]
        record = an_object(row.get(RECORD), RECORD)
        name = record["name"] if "name" in record else row.get("name")
        return SessionEvent(
            event="session" if fork is None else "fork",
            parent=None if fork is None else fork.point.element,
            name=name if type(name) is str else None,
            state=None if fork is None else _pointer(fork),
            created_at=created,
            scope=_converted(record, "scope", Scope | None),
            sources=_converted(record, "sources", tuple[Evidence, ...]) or (),
            metadata=an_object(row.get("metadata"), "metadata"),
            origin=self._origin(self._id, record.get("origin"), as_written),
        )

    def _change(self, change: Row, name: str, created: str | None) -> SessionEvent:
        state: Row = {"number": self._number, "step": self._step + 1, **change}
        if self._latest:
            state["latest"] = dict(self._latest)
        return self._next(
            SessionEvent(
                event="session",
                session=self._session,
                parent=self._last,
                state=state,
                created_at=created,
                origin=self._origin(f"{self._id}/{name}"),
            ),
            name,
            change,
        )

    def _checkpoint(self, point: Row, name: str, created: str | None) -> SessionEvent:
        state: Row = {"number": self._number, "step": self._step}
        if self._state is not None:
            state["state"] = self._state
        state |= {k: point[k] for k in ("why", "distillation") if point.get(k) is not None}
        title = point.get("name")
        event = SessionEvent(
            event="checkpoint",
            session=self._session,
            parent=self._last,
            name=title if type(title) is str else None,
            state=state,
            created_at=created,
            origin=self._origin(f"{self._id}/{name}"),
        )
        self._note(f"{self._id}/{name}", self._point(required_placeholder(event)))
        return event

    def _origin(self, name: str, record: Any = None, as_written: Row | None = None) -> Origin:
        return origin_of(name, self._source, record, as_written or {})

    def _next(self, event: SessionEvent, name: str, change: Row | None = None) -> SessionEvent:
        self._last = required_placeholder(event)
        self._step += 1
        if change is not None:
            self._state = self._last
            self._latest |= dict.fromkeys(change, self._last)
        self._note(f"{self._id}/{name}", self._point(self._last))
        return event

    def _point(self, element: str) -> BranchPoint:
        return BranchPoint(
            element, self._number, self._step, self._state, self._latest, self._digest
        )


def _pointer(fork: ForkPoint) -> Row:
    """Return where a fork begins, according to its record."""
    point = fork.point
    pointer: Row = {"number": point.number, "step": point.step, "source": fork.source}
    optional = {"state": point.state, "checkpoint": fork.checkpoint, "memories": fork.memories}
    return {**pointer, **{name: part for name, part in optional.items() if part is not None}}


def _lacking(row: Row) -> int:
    """Return how many messages a fork counts that are nowhere in the file."""
    fork = row.get(FORKED)
    after = fork.get(AFTER) if type(fork) is dict and fork.get(INCLUDED) is not True else 0
    return after if type(after) is int else 0


def _moments_in(row: Row, lacking: int, *, known: bool) -> list[tuple[int, int, Row]]:
    """Return the moments of the timeline: message count, position and moment; last first.

    Args:
        row: The conversation.
        lacking: Number of messages to subtract from its counts.
        known: Whether those before its fork were read already.
    """
    moments = []
    for index, moment in enumerate(a_list(row.get(TIMELINE), TIMELINE)):
        after = moment.get("after", 0) if type(moment) is dict else None
        if type(after) is not int or after < 0:
            raise MalformedError("`after` is not a number of messages", field=f"{TIMELINE}/{index}")
        if not (known and moment.get(BEFORE) is True):
            moments.append((max(0, after - lacking), index, moment))
    moments.sort(key=lambda one: one[:2], reverse=True)
    return moments


def _converted(record: Row, name: str, shape: Any) -> Any:
    """Return a member of a row's ``record``, converted to a type."""
    try:
        return msgspec.convert(record[name], resolved(shape)) if name in record else None
    except msgspec.ValidationError as error:
        raise MalformedError(f"not a {name}: {error}", field=f"{RECORD}/{name}") from None


def _time_in(row: Row, as_written: Row) -> tuple[str | None, Row]:
    """Return a row's time, and the original text if that is spelled differently."""
    text = row.get("createdAt")
    time = time_of(text)
    if "createdAt" in row and time != text:
        as_written = {**as_written, "createdAt": text}
    return time, as_written
