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
    said_after,
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
from satchel.model.records import SessionEvent
from satchel.model.values import Evidence, Origin, Scope, read_time, resolved
from satchel.ports.drafts import placeholder

TYPE = "session_event"
TIMELINE = "timeline"
"""Member with changes of state and checkpoints, each with the number of messages before it.

If it exists, it includes the last state."""

ABOUT = "about"
"""Member of ``record`` with later names of a conversation, and when it was archived."""

_HEAD = ("id", "name", "createdAt", "archived", "metadata", RECORD)
_BESIDE = ("messages", "workingState", "threadSummary", "notes", TIMELINE)
_MESSAGE = ("id", "role", "name", "content", "createdAt", "metadata", RECORD)
_NOTE = ("content", "category", "createdAt")

HELD = (*_HEAD, *_BESIDE)
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
        place = BranchPoint("") if beginning is None else beginning.place
        self._number, self._step = place.number, place.step
        self._state, self._latest, self._said = place.state, dict(place.latest), place.said
        self._there = place.number if beginning is not None and beginning.included else 0
        """Number of messages in the row that were read with the conversation of origin."""

        known = self._there > 0
        self._moments = _moments_in(row, 0 if beginning is not None else _lacking(row), known=known)
        self.start = self._started()
        self._session = self._last = _standing(self.start)
        note(self._id, self._place(self._session))

    def message(self, row: Row) -> SessionEvent | None:
        """Return the next message; None if it was read with the conversation of origin.

        Raises:
            MalformedError: If it is not valid, naming the member.
        """
        if self._there:
            self._there -= 1
            return None
        role = text_in(row, "role")
        self._number += 1
        self._said = said_after(self._said, row)
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
                scope=_converted(said, "scope", Scope | None),
                sources=_converted(said, "sources", tuple[Evidence, ...]) or (),
                origin=self._origin(f"{self._id}/{name}", said.get("origin"), kept),
            ),
            name,
        )

    def moments(self, *, last: bool = False) -> Iterator[SessionEvent]:
        """Yield the moments of the timeline before the next message; after the last, the rest."""
        if self._there:
            return
        while self._moments and (last or self._moments[-1][0] <= self._number):
            _, place, said = self._moments.pop()
            when, name = said.get("at"), said.get("id")
            name = name if type(name) is str and name else f"moment {place}"
            created = require_time(when, f"{TIMELINE}/{place}/at")
            if "change" in said:
                change = an_object(said["change"], f"{TIMELINE}/{place}/change")
                known = {kind: change[kind] for kind in KINDS if change.get(kind) is not None}
                yield self._change(known, name, created)
            else:
                point = an_object(said.get("checkpoint"), f"{TIMELINE}/{place}/checkpoint")
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
        said = an_object(row.get(RECORD), RECORD)
        plain = [{"id": "archived", "archived": True}] if row.get("archived") is True else []
        found = a_list(said[ABOUT], ABOUT) if ABOUT in said else plain
        for place, one in enumerate(found):
            about = an_object(one, f"{RECORD}/{ABOUT}/{place}")
            name, when, archived = about.get("name"), about.get("at"), about.get("archived")
            yield SessionEvent(
                event="session",
                session=self._session,
                parent=_standing(self.start),
                name=name if type(name) is str else None,
                state={"archived": archived} if type(archived) is bool else None,
                created_at=require_time(when, f"{RECORD}/{ABOUT}/{place}/at"),
                origin=self._origin(f"{self._id}/{about.get('id') or f'{ABOUT} {place}'}"),
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
        row, fork = self._row, self._fork
        known = (*_HEAD, *_BESIDE, FORKED)
        created, kept = _time_in(row, {k: v for k, v in row.items() if k not in known})
        if fork is None and FORKED in row:
            kept[WAS_FORKED] = row[FORKED]
        said = an_object(row.get(RECORD), RECORD)
        name = said["name"] if "name" in said else row.get("name")
        return SessionEvent(
            event="session" if fork is None else "fork",
            parent=None if fork is None else fork.place.element,
            name=name if type(name) is str else None,
            state=None if fork is None else _pointer(fork),
            created_at=created,
            scope=_converted(said, "scope", Scope | None),
            sources=_converted(said, "sources", tuple[Evidence, ...]) or (),
            metadata=an_object(row.get("metadata"), "metadata"),
            origin=self._origin(self._id, said.get("origin"), kept),
        )

    def _change(self, said: Row, name: str, created: str | None) -> SessionEvent:
        place: Row = {"number": self._number, "step": self._step + 1, **said}
        if self._latest:
            place["latest"] = dict(self._latest)
        return self._next(
            SessionEvent(
                event="session",
                session=self._session,
                parent=self._last,
                state=place,
                created_at=created,
                origin=self._origin(f"{self._id}/{name}"),
            ),
            name,
            said,
        )

    def _checkpoint(self, said: Row, name: str, created: str | None) -> SessionEvent:
        place: Row = {"number": self._number, "step": self._step}
        if self._state is not None:
            place["state"] = self._state
        place |= {k: said[k] for k in ("why", "distillation") if said.get(k) is not None}
        called = said.get("name")
        made = SessionEvent(
            event="checkpoint",
            session=self._session,
            parent=self._last,
            name=called if type(called) is str else None,
            state=place,
            created_at=created,
            origin=self._origin(f"{self._id}/{name}"),
        )
        self._note(f"{self._id}/{name}", self._place(_standing(made)))
        return made

    def _origin(self, name: str, said: Any = None, kept: Row | None = None) -> Origin:
        return origin_of(name, self._source, said, kept or {})

    def _next(self, made: SessionEvent, name: str, said: Row | None = None) -> SessionEvent:
        self._last = _standing(made)
        self._step += 1
        if said is not None:
            self._state = self._last
            self._latest |= dict.fromkeys(said, self._last)
        self._note(f"{self._id}/{name}", self._place(self._last))
        return made

    def _place(self, element: str) -> BranchPoint:
        return BranchPoint(element, self._number, self._step, self._state, self._latest, self._said)


def _pointer(fork: ForkPoint) -> Row:
    """Return where a fork begins, according to its record."""
    place = fork.place
    said: Row = {"number": place.number, "step": place.step, "source": fork.source}
    more = {"state": place.state, "checkpoint": fork.checkpoint, "memories": fork.memories}
    return {**said, **{name: part for name, part in more.items() if part is not None}}


def _lacking(row: Row) -> int:
    """Return how many messages a fork counts that are nowhere in the file."""
    said = row.get(FORKED)
    after = said.get(AFTER) if type(said) is dict and said.get(INCLUDED) is not True else 0
    return after if type(after) is int else 0


def _moments_in(row: Row, lacking: int, *, known: bool) -> list[tuple[int, int, Row]]:
    """Return the moments of the timeline: message count, position and moment; last first.

    Args:
        row: The conversation.
        lacking: Number of messages to subtract from its counts.
        known: Whether those before its fork were read already.
    """
    found = []
    for place, said in enumerate(a_list(row.get(TIMELINE), TIMELINE)):
        after = said.get("after", 0) if type(said) is dict else None
        if type(after) is not int or after < 0:
            raise MalformedError("`after` is not a number of messages", field=f"{TIMELINE}/{place}")
        if not (known and said.get(BEFORE) is True):
            found.append((max(0, after - lacking), place, said))
    found.sort(key=lambda one: one[:2], reverse=True)
    return found


def _converted(said: Row, name: str, shape: Any) -> Any:
    """Return a member of a row's ``record``, converted to a type."""
    try:
        return msgspec.convert(said[name], resolved(shape)) if name in said else None
    except msgspec.ValidationError as error:
        raise MalformedError(f"not a {name}: {error}", field=f"{RECORD}/{name}") from None


def _standing(event: SessionEvent) -> str:
    """Return the placeholder of an event's ID."""
    origin = event.origin
    assert origin is not None  # noqa: S101 - each event that is read has one
    return placeholder(TYPE, event.scope, origin)


def _time_in(row: Row, kept: Row) -> tuple[str | None, Row]:
    """Return a row's time, and the original text if that is spelled differently."""
    text = row.get("createdAt")
    found = read_time(text) if type(text) is str else None
    if "createdAt" in row and found != text:
        kept = {**kept, "createdAt": text}
    return found, kept
