"""Conversations with branches as events: one that counts, and a fork for each way not taken.

A product keeps a tree: an edited question or another answer is a second child. The way to the
leaf that it shows is the session; every other way is a fork from the message before it, so no
message is twice in the log (decision 0045).
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from satchel.model.records import SessionEvent
from satchel.model.values import Origin, TrustClass
from satchel.ports.drafts import placeholder
from satchel.ports.losses import Report

TYPE = "session_event"

INSTRUCTIONS = "context"
"""The role of a message that is instructions, or surroundings: nobody said it there."""

Row = dict[str, Any]


class ChatTurn(NamedTuple):
    """A message of a tree."""

    id: str
    parent: str | None
    """The message before it; None, or one that is not there, for a first one."""

    event: SessionEvent
    """Its role, words, time and origin; where it stands is put in here."""


class ChatConversation(NamedTuple):
    """A conversation that was read."""

    start: SessionEvent
    turns: list[ChatTurn]
    leaf: str | None
    """The last message of the way that counts; None for the last in the list."""


def origin_at(provider: str, identity: str, source: str | None, kept: Row) -> Origin:
    """Return where a record was in an export.

    Args:
        provider: The format's name.
        identity: Its id there.
        source: The account, where the export names it.
        kept: What has no member of its own.
    """
    return Origin(
        provider=provider, source=source, id=identity, as_written=kept, trust=TrustClass.IMPORTED
    )


def events(talk: ChatConversation, report: Report) -> Iterator[SessionEvent]:
    """Yield a conversation's events, what is named before what names it.

    Args:
        talk: The conversation; every turn has an id of its own.
        report: Where messages that hang together in a ring are counted.
    """
    tree = _Tree(talk)
    yield talk.start
    yield from tree.way(tree.main(), _Chain(standing(talk.start)))
    for first in tree.others():
        fork, chain = tree.fork(first)
        yield fork
        yield from tree.way(tree.down(first), chain)
    lost = len(talk.turns) - len(tree.out)
    if lost:
        report.lost("message", "it comes before itself", example=talk.start.name or "", count=lost)


class _Chain:
    """Where the next message of a session goes."""

    def __init__(self, session: str, last: str | None = None, number: int = 0) -> None:
        self.session = session
        self.last = last or session
        self.number = number


class _Tree:
    """The messages of one conversation."""

    def __init__(self, talk: ChatConversation) -> None:
        self.out = dict[str, _Chain]()
        """Where the message after each one goes that was given out."""

        self._start = talk.start
        self._turns = {turn.id: turn for turn in talk.turns}
        self._children = dict[str | None, list[str]]()
        for turn in talk.turns:
            self._children.setdefault(self._before(turn), []).append(turn.id)
        self._leaf = talk.leaf if talk.leaf in self._turns else None
        if self._leaf is None and talk.turns:
            self._leaf = talk.turns[-1].id

    def main(self) -> list[str]:
        """Return the way to the leaf, from the first."""
        found, at = dict[str, None](), self._leaf
        while at is not None and at not in found:
            found[at] = None
            at = self._before(self._turns[at])
        # Of a ring nothing comes first.
        return [] if at is not None else list(reversed(found))

    def others(self) -> Iterator[str]:
        """Yield the first message of every other way; what a way leads to, when that is out."""
        waiting = [None, *self.main()]
        for at in waiting:
            for child in self._children.get(at, ()):
                if child not in self.out:
                    yield child
                    waiting.extend(self.down(child))

    def down(self, first: str) -> list[str]:
        """Return the way from a message on; where it parts, to the newest."""
        found = [first]
        while children := self._children.get(found[-1]):
            found.append(children[-1])
        return found

    def fork(self, first: str) -> tuple[SessionEvent, _Chain]:
        """Return what begins another way, and where its first message goes."""
        before = self._before(self._turns[first])
        chain = self.out[before] if before is not None else _Chain(standing(self._start))
        origin = self._start.origin
        assert origin is not None  # noqa: S101 - each event that is read has one
        fork = SessionEvent(
            event="fork",
            parent=chain.last,
            name=self._start.name,
            state={"number": chain.number, "step": chain.number, "source": chain.session},
            created_at=self._turns[first].event.created_at,
            origin=origin_at(
                origin.provider or "", f"{origin.id}/{first}/branch", origin.source, {}
            ),
        )
        return fork, _Chain(standing(fork), number=chain.number)

    def way(self, ids: list[str], chain: _Chain) -> Iterator[SessionEvent]:
        """Yield messages that follow each other."""
        for each in ids:
            number = chain.number + 1
            found = _put(self._turns[each].event, chain, number)
            chain = _Chain(chain.session, standing(found), number)
            self.out[each] = chain
            yield found

    def _before(self, turn: ChatTurn) -> str | None:
        return turn.parent if turn.parent in self._turns else None


def _put(event: SessionEvent, chain: _Chain, number: int) -> SessionEvent:
    return SessionEvent(
        event="message",
        session=chain.session,
        parent=chain.last,
        role=event.role,
        name=event.name,
        text=event.text,
        content=event.content,
        state={"number": number, "step": number},
        created_at=event.created_at,
        metadata=event.metadata,
        origin=event.origin,
    )


def standing(event: SessionEvent) -> str:
    """Return what stands for an event's id until it has one."""
    origin = event.origin
    assert origin is not None  # noqa: S101 - each event that is read has one
    return placeholder(TYPE, event.scope, origin)


class TranscriptConversation:
    """A conversation that is read line by line, as a program appended to it.

    What goes on from the last message goes on; what goes on from an earlier one is a fork. So the
    same file, when it has grown, begins with the same events.

    Args:
        start: The conversation's own event.
    """

    def __init__(self, start: SessionEvent) -> None:
        self.start = start
        self._first = _Chain(standing(start))
        self._at = dict[str, _Chain]()
        self._gone_on = set[str]()

    def passes(self, name: str, parent: str | None) -> None:
        """Take note of a line that is no message, but that messages may name as the one before."""
        self._at.setdefault(name, self._chain(parent))

    def knows(self, name: str) -> bool:
        """Tell whether a line of that id was there."""
        return name in self._at

    def last(self) -> str | None:
        """Return the id of the last line."""
        return next(reversed(self._at), None)

    def message(self, name: str, parent: str | None, event: SessionEvent) -> Iterator[SessionEvent]:
        """Yield a message, and before it a fork, where one begins with it."""
        chain = self._chain(parent)
        if chain.last in self._gone_on:
            fork = SessionEvent(
                event="fork",
                parent=chain.last,
                name=self.start.name,
                state={"number": chain.number, "step": chain.number, "source": chain.session},
                created_at=event.created_at,
                origin=self.origin(f"{name}/branch"),
            )
            yield fork
            chain = _Chain(standing(fork), number=chain.number)
        self._gone_on.add(chain.last)
        found = _put(event, chain, chain.number + 1)
        self._at[name] = _Chain(chain.session, standing(found), chain.number + 1)
        yield found

    def called(self, name: str, line: str) -> SessionEvent:
        """Return what gives the conversation another name.

        Args:
            name: The name.
            line: What to call the line that said so.
        """
        return SessionEvent(
            event="session",
            session=self._first.session,
            parent=self._first.session,
            name=name,
            origin=self.origin(line),
        )

    def origin(self, name: str) -> Origin:
        """Return where something is in this conversation."""
        origin = self.start.origin
        assert origin is not None  # noqa: S101 - each event that is read has one
        return origin_at(origin.provider or "", f"{origin.id}/{name}", origin.source, {})

    def _chain(self, parent: str | None) -> _Chain:
        return self._at.get(parent or "", self._first)
