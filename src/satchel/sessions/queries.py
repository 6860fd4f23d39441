"""Queries on conversations: list, show, compare."""

from collections.abc import Iterator
from itertools import islice

import msgspec

from satchel.bank.machine_keys import require_owner
from satchel.bank.open_bank import OpenBank
from satchel.ledger.projection import VerifiedRecord
from satchel.ledger.view import View
from satchel.model.values import ENTRY_TYPES
from satchel.ports.operations import ItemList, operation
from satchel.ports.rows import Filter
from satchel.sessions import lookup
from satchel.sessions.chains import Divergence, elements_at, positions_of
from satchel.sessions.elements import count_in, event_of
from satchel.sessions.lookup import point_at
from satchel.sessions.options import (
    OWNER_ONLY,
    CheckpointListOptions,
    SessionDiffOptions,
    SessionListOptions,
    SessionShowOptions,
)
from satchel.sessions.views import CheckpointInfo, MessageInfo, SessionInfo, StateInfo

_TOGETHER = 256


class SessionList(
    ItemList[SessionInfo], msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True
):
    """Conversations: one tree of forks after another, each fork after its source."""

    sessions: list[SessionInfo]
    more: bool = False
    """Whether there are more than the limit."""

    def _items(self) -> list[SessionInfo]:
        return self.sessions


class SessionSnapshot(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A session at one of its points."""

    session: SessionInfo
    number: int
    """Messages up to the point."""

    messages: list[MessageInfo] = []
    """The last messages, oldest first."""

    left_out: int = 0
    """Number of earlier messages."""

    state: StateInfo = StateInfo()
    checkpoints: list[CheckpointInfo] = []
    memories_later: int = 0
    """Number of current memories that were added to the bank after the point."""


class Side(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Messages that only one of two sessions has."""

    session: SessionInfo
    messages: int
    """Their number."""

    first: list[MessageInfo] = []
    """The first ones."""

    state: StateInfo = StateInfo()


class SessionsDiff(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Comparison of two sessions."""

    common: int
    """Number of common messages."""

    at: str | None
    """ID of the last common element."""

    one: Side
    other: Side
    same_state: bool = True
    """Whether the state beside the messages is the same."""

    @property
    def is_same(self) -> bool:
        """Whether there is no difference."""
        return not self.one.messages and not self.other.messages and self.same_state


@operation(
    SessionListOptions,
    name="session list",
    example="satchel session list --include-archived",
    absent=OWNER_ONLY,
)
def list_sessions(bank: OpenBank, options: SessionListOptions) -> SessionList:
    """List the newest conversations, each fork below the one that it continues."""
    require_owner(bank.settings, "sessions")
    with bank.ledger.reading() as view:
        sessions, more = lookup.newest_sessions(
            view, limit=options.limit, archived=options.include_archived
        )
        return SessionList(sessions=sessions, more=more)


@operation(
    SessionShowOptions,
    name="session show",
    example="satchel session show trip --at 50",
    absent=OWNER_ONLY,
)
def show_session(bank: OpenBank, options: SessionShowOptions) -> SessionSnapshot:
    """Show a conversation at a point: its last messages, its state, its checkpoints.

    Raises:
        UnknownSessionError: If there is no such conversation, or no such point in it.
        UsageError: If several match.
    """
    require_owner(bank.settings, "sessions")
    with bank.ledger.reading() as view:
        start = lookup.find(view, options.session)
        point = point_at(view, start, options.at)
        messages = list(lookup.messages(view, point.element, last=options.last))
        messages.reverse()
        return SessionSnapshot(
            session=lookup.session(view, start),
            number=point.tip.number,
            messages=messages,
            left_out=messages[0].number - 1 if messages else point.tip.number,
            state=lookup.state(view, point.checkpoint or point.element),
            checkpoints=lookup.checkpoints(view, start),
            memories_later=memories_since(view, point.log),
        )


def messages_of(bank: OpenBank, session: str, *, at: str | None = None) -> Iterator[MessageInfo]:
    """Yield all messages of a session in order, in constant memory.

    Args and Raises: as ``show_session``.
    """
    require_owner(bank.settings, "sessions")
    with bank.ledger.reading() as view:
        positions = positions_of(view, point_at(view, lookup.find(view, session), at).element)
    number = 0
    for start in range(0, len(positions), _TOGETHER):
        with bank.ledger.reading() as view:  # a new view: the caller may take long
            batch = list(elements_at(view, positions[start : start + _TOGETHER]))
        for logged in batch:
            if _is_message(logged):
                counted = count_in(logged.model, "number")
                number = counted if counted > 0 else number + 1
                yield lookup.message(logged, number)


@operation(
    CheckpointListOptions,
    name="session checkpoint list",
    example="satchel session checkpoint list trip",
    items="checkpoints",
    absent=OWNER_ONLY,
)
def list_checkpoints(bank: OpenBank, options: CheckpointListOptions) -> list[CheckpointInfo]:
    """List the checkpoints of a conversation, those from before it was forked included.

    Raises:
        UnknownSessionError: If there is no such conversation.
        UsageError: If several match.
    """
    require_owner(bank.settings, "sessions")
    with bank.ledger.reading() as view:
        return lookup.checkpoints(view, lookup.find(view, options.session))


@operation(
    SessionDiffOptions,
    name="session diff",
    example='satchel session diff trip "trip by train"',
    absent=OWNER_ONLY,
)
def diff_sessions(bank: OpenBank, options: SessionDiffOptions) -> SessionsDiff:
    """Compare two conversations: where they diverge, and the messages of each after that.

    The exit status is 1 if they differ.

    Raises:
        UnknownSessionError: If there is no such conversation.
        UsageError: If several match.
    """
    require_owner(bank.settings, "sessions")
    with bank.ledger.reading() as view:
        starts = [lookup.find(view, name) for name in (options.session, options.other)]
        points = [point_at(view, start, None) for start in starts]
        parting = Divergence(view, points[0].element, points[1].element)
        states = [lookup.state(view, point.element) for point in points]
        sides = [
            Side(
                session=lookup.session(view, start),
                messages=_messages_in(view, parting.own[which]),
                first=_first(view, parting, which, options.limit),
                state=states[which],
            )
            for which, start in enumerate(starts)
        ]
        common = parting.common
        return SessionsDiff(
            common=0 if common is None else max(count_in(common.model, "number"), 0),
            at=None if common is None else common.record.id,
            one=sides[0],
            other=sides[1],
            same_state=states[0] == states[1],
        )


def memories_since(view: View, size: int) -> int:
    """Return the number of current memories that were added after a log position."""
    if not any(view.head.counts.get(name) for name in ENTRY_TYPES):
        return 0
    return sum(1 for _ in view.scan(Filter(types=ENTRY_TYPES), after=size - 1))


def _messages_in(view: View, positions: list[int]) -> int:
    pieces = (positions[start : start + 256] for start in range(0, len(positions), 256))
    return sum(_is_message(logged) for piece in pieces for logged in view.at(piece))


def _first(view: View, parting: Divergence, which: int, limit: int) -> list[MessageInfo]:
    messages = (logged for logged in parting.newest(view, which, 4 * limit) if _is_message(logged))
    return [
        lookup.message(logged, max(count_in(logged.model, "number"), 0))
        for logged in islice(messages, limit)
    ]


def _is_message(logged: VerifiedRecord) -> bool:
    return event_of(logged.model) == "message"
