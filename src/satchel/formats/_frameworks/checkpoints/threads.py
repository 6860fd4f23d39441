"""The checkpoints of one thread of LangGraph, as a conversation with points and forks.

A checkpoint holds all of the state at a moment: every message, and every other channel. Of those
that follow each other only what is new is an element: a message, or a change of the working state
(decision 0045). A checkpoint that goes on from one that others already went on from, or one in
which earlier messages are changed or gone, begins a fork where the two part.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from blake3 import blake3

from satchel.formats._frameworks.checkpoints.messages import Said, messages_in
from satchel.formats._frameworks.checkpoints.packed import as_data
from satchel.memory.messages import spoken_in
from satchel.memory.parts import Origin, TrustClass
from satchel.memory.records import SessionEvent
from satchel.memory.times import read_time
from satchel.ports.linking.placeholders import placeholder
from satchel.seal.encoding.carry import carry
from satchel.seal.encoding.jcs import encode_sorted

PROVIDER = "langgraph"
_TYPE = "session_event"
_WORKING, _SUMMARY = "working_state", "thread_summary"
_OF_THE_ENGINE = ("__", "branch:", "start:", "join:")

Row = dict[str, Any]


class Point(NamedTuple):
    """A checkpoint that was read."""

    id: str
    parent: str | None
    values: Row
    """By channel."""

    time: Any
    """As the checkpoint says it."""

    said: Row
    """What is kept of it: its source, its step and whatever was said of the run."""


class _Tip(NamedTuple):
    """Where the next element goes, and what there is so far."""

    session: str
    last: str
    number: int = 0
    step: int = 0
    state: str | None = None
    latest: Row = {}  # noqa: RUF012 - never changed in place
    messages: bytes = b""
    """Stands for all messages so far."""

    values: bytes = b""
    """Stands for the working state."""


class Thread:
    """A thread whose checkpoints are read in the order in which they were made.

    Args:
        name: Its id.
        space: The namespace of a graph inside a graph; empty for the outermost.
        first: Its first checkpoint.
    """

    def __init__(self, name: str, space: str, first: Point) -> None:
        self._source = f"{name}/{space}" if space else name
        self.start = SessionEvent(
            event="session",
            name=self._source,
            created_at=_time(first.time),
            metadata={"thread_id": name} | ({"checkpoint_ns": space} if space else {}),
            origin=self._origin(self._source),
        )
        standing = _standing(self.start)
        self._first = _Tip(standing, standing)
        self._tips = dict[str, _Tip]()
        self._after = {b"": self._first}
        """Where each beginning of a conversation that was met goes on."""

        self._gone_on = set[str]()

    def events(self, point: Point) -> Iterator[SessionEvent]:
        """Yield what a checkpoint adds, and the checkpoint."""
        channel, said = messages_in(point.values)
        tip = self._tips.get(point.parent or "", self._first)
        marks = list(_marks(said))
        at = marks.index(tip.messages) if tip.messages in marks else -1
        if at < 0:  # earlier messages are other ones than before
            known = max(place for place, mark in enumerate(marks) if mark in self._after)
            tip, at = self._after[marks[known]], known
        for place, one in enumerate(said[at:], at):
            tip, found = self._message(tip, point, one, place)
            tip = tip._replace(messages=marks[place + 1])
            self._after.setdefault(marks[place + 1], tip)
            yield from found
        tip, found = self._change(tip, point, channel)
        yield from found
        self._tips[point.id] = tip
        yield self._checkpoint(tip, point)

    def _message(
        self, tip: _Tip, point: Point, said: Said, place: int
    ) -> tuple[_Tip, list[SessionEvent]]:
        tip, events = self._ahead(tip, point)
        made = SessionEvent(
            event="message",
            session=tip.session,
            parent=tip.last,
            role=said.role,
            name=said.name,
            text=said.content if type(said.content) is str else spoken_in(said.content),
            content=None if type(said.content) is str else said.content,
            state=_place(tip, tip.number + 1, tip.step + 1),
            created_at=_time(point.time),
            metadata=said.more,
            origin=self._origin(f"{self._source}/{point.id}/{place}", said.kept),
        )
        return self._put(tip, made, tip.number + 1), [*events, made]

    def _change(
        self, tip: _Tip, point: Point, channel: str | None
    ) -> tuple[_Tip, list[SessionEvent]]:
        values = {
            name: carry(as_data(part))
            for name, part in point.values.items()
            if name != channel and not name.startswith(_OF_THE_ENGINE)
        }
        mark = blake3(encode_sorted(values)).digest() if values else b""
        if mark == tip.values:
            return tip, []
        new: Row = {_SUMMARY: values.pop("summary")} if type(values.get("summary")) is str else {}
        new |= {_WORKING: values} if values else {}
        tip, events = self._ahead(tip, point)
        state = _place(tip, tip.number, tip.step + 1) | new
        state.pop("state", None)
        made = SessionEvent(
            event="session",
            session=tip.session,
            parent=tip.last,
            state=state | ({"latest": tip.latest} if tip.latest else {}),
            created_at=_time(point.time),
            origin=self._origin(f"{self._source}/{point.id}/state"),
        )
        tip = self._put(tip, made, tip.number)
        latest = {**tip.latest, **dict.fromkeys(new, tip.last)}
        return tip._replace(values=mark, state=tip.last, latest=latest), [*events, made]

    def _checkpoint(self, tip: _Tip, point: Point) -> SessionEvent:
        source = point.said.get("source")
        why = {"why": source} if type(source) is str else {}
        return SessionEvent(
            event="checkpoint",
            session=tip.session,
            parent=tip.last,
            name=point.id,
            state=_place(tip, tip.number, tip.step) | why,
            created_at=_time(point.time),
            metadata=carry(point.said),
            origin=self._origin(f"{self._source}/{point.id}"),
        )

    def _ahead(self, tip: _Tip, point: Point) -> tuple[_Tip, list[SessionEvent]]:
        """Return where an element goes: on from the tip, or on a fork that begins there."""
        if tip.last not in self._gone_on:
            return tip, []
        fork = SessionEvent(
            event="fork",
            parent=tip.last,
            name=f"{self._source} {point.id}",
            state=_place(tip, tip.number, tip.step)
            | ({"latest": tip.latest} if tip.latest else {})
            | {"source": tip.session},
            created_at=_time(point.time),
            origin=self._origin(f"{self._source}/{point.id}/fork"),
        )
        standing = _standing(fork)
        return tip._replace(session=standing, last=standing), [fork]

    def _put(self, tip: _Tip, made: SessionEvent, number: int) -> _Tip:
        self._gone_on.add(tip.last)
        return tip._replace(last=_standing(made), number=number, step=tip.step + 1)

    def _origin(self, identity: str, kept: Row | None = None) -> Origin:
        return Origin(
            provider=PROVIDER, id=identity, as_written=kept or {}, trust=TrustClass.IMPORTED
        )


def _place(tip: _Tip, number: int, step: int) -> Row:
    place: Row = {"number": number, "step": step}
    return place | ({"state": tip.state} if tip.state is not None else {})


def _standing(event: SessionEvent) -> str:
    assert event.origin is not None  # noqa: S101 - each event that is read has one
    return placeholder(_TYPE, event.scope, event.origin)


def _time(value: Any) -> str | None:
    return read_time(value) if type(value) is str else None


def _marks(said: list[Said]) -> Iterator[bytes]:
    """Yield what stands for no message, for the first, for the first two, and so on."""
    mark = b""
    yield mark
    for one in said:
        content = encode_sorted([one.role, one.name, one.content, one.more, one.kept])
        mark = blake3(mark + content).digest(16)
        yield mark
