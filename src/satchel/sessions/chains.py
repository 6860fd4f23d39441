"""Traversal of conversations: from an element back to the beginning, and forward again.

Each record that a store nominates is compared with the ID that its successor names, so records of
other branches are never included. Each step decreases the element's number, so that a traversal
ends whatever the records claim.
"""

import sys
from array import array
from collections.abc import Iterator
from itertools import islice

from satchel.ledger.projection import VerifiedRecord
from satchel.ledger.view import View
from satchel.model.records import SessionEvent
from satchel.ports.rows import HOLDS, Filter
from satchel.sessions.elements import (
    ELEMENTS,
    EVENTS,
    FOREIGN,
    Tip,
    count_in,
    event_of,
    key_of,
    members,
    parent_of,
    pointer_in,
    tip_after,
)

_TOGETHER = 256


def back(view: View, element: VerifiedRecord) -> Iterator[VerifiedRecord]:
    """Yield the elements of a conversation from one of them back to the first.

    Deleted and erased elements are skipped; the chain continues before them.

    Args:
        view: The bank.
        element: A message or a change of state; or a checkpoint or a fork, which point to one.
    """
    return _Back(view).walk(element)


def positions_of(view: View, element: VerifiedRecord, *, since: int = 0) -> "array[int]":
    """Return the log positions of a conversation's elements up to one, in order; 8 bytes for each.

    Args:
        view: The bank.
        element: As ``back`` takes it.
        since: Number of messages to skip.
    """
    positions = array("q")
    for each in back(view, element):
        if since and 0 <= count_in(each.model, "number") <= since:
            break
        positions.append(each.seq)
    positions.reverse()
    return positions


def forward(view: View, element: VerifiedRecord) -> Iterator[VerifiedRecord]:
    """Yield the elements of a conversation up to one, in order; see ``positions_of``."""
    return elements_at(view, positions_of(view, element))


def elements_at(view: View, positions: "array[int]") -> Iterator[VerifiedRecord]:
    """Yield the elements at log positions, in that order."""
    for start in range(0, len(positions), _TOGETHER):
        batch = positions[start : start + _TOGETHER].tolist()
        elements = {each.seq: each for each in view.at(batch)}
        yield from (elements[seq] for seq in batch if seq in elements)


def tip_of(view: View, start: VerifiedRecord) -> Tip:
    """Return the tip of a conversation, to which the next element is appended.

    This machine always appends to the tip. So only elements of later imports must be read: the tip
    moves to those that continue it; diverging ones do not move it.

    Args:
        view: The bank.
        start: The session or the fork.
    """
    session, last, position = key_of(start), start, start.seq
    events = Filter(types=EVENTS, session=session)
    for logged in view.newest(events, after=start.seq):
        anchor = None if logged.row.batch else _anchor(view, logged, session)
        if anchor is not None:
            last, position = anchor, logged.seq
            break
    is_ours = session == start.record.id
    for logged in view.scan(events, after=position):
        if event_of(logged.model) not in ELEMENTS:
            continue
        parent = parent_of(logged.model)
        loose = not is_ours and parent is None and _is_loose(last)
        if loose or (parent == last.record.id and _follows(view, last, logged)):
            last = logged
    if last is not start and count_in(last.model, "step") == FOREIGN:
        number = sum(1 for _ in back(view, last))
        return Tip(session, last.record.id, number, number)
    return tip_after(last, session, state_at(view, last))


def _anchor(view: View, logged: VerifiedRecord, session: str) -> VerifiedRecord | None:
    """Return an earlier tip, if a record of this machine names it."""
    event = event_of(logged.model)
    if event in ELEMENTS:
        return logged
    named = pointer_in(logged.model, "tip") if event == "about" else None
    tip = view.get([named]).get(named) if named is not None else None
    if tip is None or event_of(tip.model) not in ELEMENTS or session_of(tip) != session:
        return None
    return tip if is_current(view, tip) else None


def _follows(view: View, last: VerifiedRecord, logged: VerifiedRecord) -> bool:
    """Return whether an element is numbered as the successor of another."""
    step, number = count_in(last.model, "step"), count_in(last.model, "number")
    if event_of(last.model) == "session":
        step = number = 0
    elif step == FOREIGN:
        step = number = sum(1 for _ in back(view, last))
    number += event_of(logged.model) == "message"
    return (count_in(logged.model, "step"), count_in(logged.model, "number")) == (step + 1, number)


def _is_loose(logged: VerifiedRecord) -> bool:
    """Return whether only the order of the log determines the successors of a record."""
    return event_of(logged.model) == "session" or count_in(logged.model, "step") == FOREIGN


def state_at(view: View, element: VerifiedRecord) -> VerifiedRecord | None:
    """Return the current change of state at an element, with its predecessors.

    If it was erased, the previous one is current.
    """
    if event_of(element.model) == "state":
        return element
    pointer = pointer_in(element.model)
    if pointer is None:
        return None
    change = view.get([pointer]).get(pointer)
    if change is not None:
        return change if event_of(change.model) == "state" else None
    older = (each for each in back(view, element) if event_of(each.model) == "state")
    return next(older, None)


def element_of(view: View, pointer: VerifiedRecord) -> VerifiedRecord | None:
    """Return the element that a fork or a checkpoint points to; the newest before an erased one."""
    identity = parent_of(pointer.model) or ""
    element = view.get([identity]).get(identity)
    if element is not None:
        return element
    session, step = session_of(pointer), count_in(pointer.model, "step")
    for logged in view.newest(_everything(session, pointer.seq)):
        if event_of(logged.model) in ELEMENTS and 0 <= count_in(logged.model, "step") <= step:
            return logged
    return view.get([session]).get(session)


def session_of(logged: VerifiedRecord) -> str:
    """Return the name by which an event refers to its session; for a fork, to its source."""
    model = logged.model
    source = members(model).get("source") if event_of(model) == "fork" else None
    if isinstance(source, str):
        return source
    return (model.session or "") if isinstance(model, SessionEvent) else ""


def is_current(view: View, logged: VerifiedRecord) -> bool:
    """Return whether a record that was read as of an earlier position is current and not held."""
    hold = logged.row.hold
    for status in view.status_events(logged):
        hold = HOLDS.get(status.state, hold)
    return not hold and view.retirement(logged.row) is None


def _everything(session: str, as_of: int) -> Filter:
    """Return a filter for all records of a session up to a position, including retired ones."""
    return Filter(types=EVENTS, session=session, as_of=as_of, retired=True, held=True)


class _Back:
    """One traversal back."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._bound = sys.maxsize
        self._expected: str | None = None
        self._loaded: tuple[str | None, VerifiedRecord | None] = (None, None)

    def walk(self, start: VerifiedRecord) -> Iterator[VerifiedRecord]:
        at: VerifiedRecord | None = start
        while at is not None:
            event, step = event_of(at.model), count_in(at.model, "step")
            if event in ("fork", "checkpoint"):
                at = element_of(self._view, at)
            elif event == "message" and parent_of(at.model) is None:
                yield from self._uncounted(at)
                return
            elif event not in ELEMENTS or not 0 <= step < self._bound:
                return
            else:
                self._expected = at.record.id
                yield from self._segment(at)
                at = self._next(session_of(at))

    def _segment(self, last: VerifiedRecord) -> Iterator[VerifiedRecord]:
        """Yield the elements of one session, while the log has them in order."""
        session = session_of(last)
        for logged in self._view.newest(_everything(session, last.seq + 1)):
            if not self._fits(logged):
                continue
            if is_current(self._view, logged):
                yield logged
            self._bound, self._expected = count_in(logged.model, "step"), parent_of(logged.model)
            if self._expected in (None, session):
                return

    def _fits(self, logged: VerifiedRecord) -> bool:
        if event_of(logged.model) not in ELEMENTS:
            return False
        if not 0 <= count_in(logged.model, "step") < self._bound:
            return False
        # An erased element has no data: its predecessor follows.
        return logged.record.id == self._expected or self._expected_element() is None

    def _expected_element(self) -> VerifiedRecord | None:
        """Return a record by its ID, from anywhere in the log."""
        if self._loaded[0] != self._expected:
            identity = self._expected or ""
            self._loaded = self._expected, self._view.get([identity]).get(identity)
        return self._loaded[1]

    def _next(self, session: str) -> VerifiedRecord | None:
        """Return the next elements: in another order of the log, or before its first element."""
        if self._expected is None:
            return None
        element = self._expected_element()
        return element or self._view.get([session]).get(session)

    def _uncounted(self, last: VerifiedRecord) -> Iterator[VerifiedRecord]:
        """Yield the messages of a conversation of other software, in the order of the log."""
        for logged in self._view.newest(_everything(session_of(last), last.seq + 1)):
            is_message = event_of(logged.model) == "message"
            if is_message and parent_of(logged.model) is None and is_current(self._view, logged):
                yield logged


class Divergence:
    """Two conversations, compared from their ends back to their common part.

    Of the common part, only the newest element is read.

    Args:
        view: The bank.
        one: The last element of the first conversation, or its fork's record.
        other: The last element of the other conversation, or its fork's record.
    """

    def __init__(self, view: View, first: VerifiedRecord, other: VerifiedRecord) -> None:
        self.own: tuple[list[int], list[int]] = ([], [])
        """Log positions of the elements that only one of them has, newest first."""

        self.common: VerifiedRecord | None = None
        """The newest common element; None if there is none."""

        self._walks = (_Walk(back(view, first)), _Walk(back(view, other)))
        self._part()

    def _part(self) -> None:
        first, second = self._walks
        while first.at is not None or second.at is not None:
            if first.at is not None and first.identity == second.identity:
                self.common = first.at
                return
            ahead = int(first.step < second.step)
            walk = self._walks[ahead]
            assert walk.at is not None  # noqa: S101 - it is the one that is further
            self.own[ahead].append(walk.at.seq)
            walk.go_back()

    def newest(self, view: View, which: int, limit: int) -> list[VerifiedRecord]:
        """Return the first elements that only one of them has, in order."""
        own = self.own[which]
        positions = list(islice(reversed(own), limit))
        elements = {logged.seq: logged for logged in view.at(positions)}
        return [elements[seq] for seq in positions if seq in elements]


class _Walk:
    def __init__(self, elements: Iterator[VerifiedRecord]) -> None:
        self._elements = elements
        self._passed = 0
        self.go_back()

    def go_back(self) -> None:
        self.at = next(self._elements, None)
        self._passed += 1
        if self.at is None:
            self.step = FOREIGN - self._passed
        else:
            counted = count_in(self.at.model, "step")
            # Unnumbered elements are older than numbered ones.
            self.step = counted if counted != FOREIGN else 0

    @property
    def identity(self) -> str | None:
        return None if self.at is None else self.at.record.id
