"""Session events: the elements of a conversation and their positions.

A conversation is a chain: each message, and each change of the state beside the messages, names the
previous element by its content address. So an element identifies a whole prefix, a fork is one
record that names an element, and cycles are impossible. Elements are also numbered (``step``), so
that a chain continues where a part of it was erased. Source: decision 0045.
"""

from typing import Any, NamedTuple

from satchel.ledger.projection import VerifiedRecord
from satchel.model.records import Model, SessionEvent
from satchel.model.values import is_id
from satchel.ports.rows import Filter

EVENTS = frozenset({"session_event"})
"""The record type of conversations."""

WORKING, SUMMARY, NOTE = "working_state", "thread_summary", "note"
KINDS = (WORKING, SUMMARY, NOTE)
"""State beside the messages; of the first two, the last change counts."""

FOREIGN = -1
"""Count of an uncounted conversation, which other software wrote."""


class Tip(NamedTuple):
    """The end of a session, with all that the next element needs."""

    session: str
    """ID of the session or fork record; or the source's own session ID."""

    element: str
    """ID of the last element; of the session or fork record if there is none."""

    number: int = 0
    """Number of messages."""

    step: int = 0
    """Number of elements."""

    state: str | None = None
    """ID of the last change of state."""

    latest: dict[str, str] = {}  # noqa: RUF012 - never changed in place
    """IDs of the last change of each of ``KINDS``."""


def of_session(session: str, as_of: int | None = None) -> Filter:
    """Return a filter for the records of one session."""
    return Filter(types=EVENTS, session=session, as_of=as_of)


def event_of(model: Model) -> str | None:
    """Return the event of a record: that of its model, or ``state`` or ``about``.

    ``state`` is a change of the state beside the messages, and an element of the chain.
    ``about`` renames or archives a session.
    """
    if not isinstance(model, SessionEvent):
        return None
    if model.event != "session" or parent_of(model) is None:
        return model.event
    return "state" if "step" in members(model) else "about"


ELEMENTS = frozenset({"message", "state"})
"""Events that are elements of a chain."""

STARTS = frozenset({"session", "fork"})
"""Events that start a conversation."""


def members(model: Model) -> dict[str, Any]:
    """Return the position members of an event; empty if there are none."""
    state = getattr(model, "state", None)
    return state if isinstance(state, dict) else {}


def count_in(model: Model, name: str) -> int:
    """Return ``number`` or ``step`` of an event; ``FOREIGN`` if it has none."""
    value = members(model).get(name)
    return value if type(value) is int and value >= 0 else FOREIGN


def pointer_in(model: Model, name: str = "state") -> str | None:
    """Return an ID that an event names."""
    value = members(model).get(name)
    return value if isinstance(value, str) and is_id(value) else None


def parent_of(model: Model) -> str | None:
    """Return the ID of the previous element, or of the conversation's first record."""
    parent = model.parent if isinstance(model, SessionEvent) else None
    return parent if parent is not None and is_id(parent) else None


def key_of(logged: VerifiedRecord) -> str:
    """Return the name by which the messages of a conversation refer to it.

    It is the ID of its record; for a conversation of other software, its name there.
    """
    model = logged.model
    assert isinstance(model, SessionEvent)  # noqa: S101 - callers check it
    return model.session if model.event == "session" and model.session else logged.record.id


def tip_after(logged: VerifiedRecord, session: str, state: VerifiedRecord | None = None) -> Tip:
    """Return the tip of a session, given its last element or its own record.

    Args:
        logged: The element or the record.
        session: The name by which the session's elements refer to it.
        state: The current change of state, if any.
    """
    model, identity = logged.model, logged.record.id
    return Tip(
        session,
        identity,
        max(count_in(model, "number"), 0),
        max(count_in(model, "step"), 0),
        None if state is None else state.record.id,
        {} if state is None else latest_after(state.model, state.record.id),
    )


def latest_after(model: Model, identity: str) -> dict[str, str]:
    """Return the IDs of the last change of each of ``KINDS``, after this one."""
    changed = members(model)
    before = changed.get("latest")
    earlier = before if isinstance(before, dict) else {}
    latest = {
        kind: change
        for kind, change in earlier.items()
        if kind in KINDS and isinstance(change, str)
    }
    return {**latest, **{kind: identity for kind in KINDS if kind in changed}}
