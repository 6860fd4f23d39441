"""Which point of a conversation a person means: a message, a checkpoint, a distillation."""

from typing import NamedTuple

from satchel.continuity.chains import back, element_of, session_of, state_at, tip_of
from satchel.continuity.elements import (
    ELEMENTS,
    FOREIGN,
    STARTS,
    Tip,
    count_in,
    event_of,
    key_of,
    members,
    tip_after,
)
from satchel.continuity.finding import CHECKPOINTS, lineage, pointers, size_there
from satchel.errors import UnknownSessionError, UsageError
from satchel.ledger.logged import Logged
from satchel.ledger.view import View
from satchel.memory.parts import is_id
from satchel.memory.records import Receipt

_PREFIX = "blake3:"
_LEAST_DIGITS, _MOST_SHOWN = 6, 5
_DIGITS = frozenset("0123456789abcdef")
_LONGEST_NUMBER = 9
DISTILLATION, CHECKPOINT, MESSAGE = "distillation:", "checkpoint:", "message:"
"""What may stand before a number or a name."""


class Point(NamedTuple):
    """A point of a conversation."""

    tip: Tip
    """What a session that goes on from there builds on; ``element`` is where it is."""

    element: Logged
    """The message or change of state; the session's record before its first."""

    log: int
    """Records that the bank's log had then."""

    checkpoint: Logged | None = None
    """Where it is one."""


def point_at(view: View, start: Logged, wanted: str | None) -> Point:
    """Return the point of a conversation that a person means.

    Args:
        view: The bank.
        start: The session or the fork.
        wanted: The id, or the start of it, of a message, a checkpoint or a distillation's receipt;
            ``50`` or ``message:50`` for a message by its number; ``distillation:2``;
            ``checkpoint:NAME``, or just the name. None for the end as it is.

    Raises:
        UnknownSessionError: If there is no such point in it.
        UsageError: If several are meant.
    """
    if wanted is None:
        return _of_element(view, start, _end(view, start))
    number = wanted.removeprefix(MESSAGE)
    if number.isascii() and number.isdecimal() and len(number) <= _LONGEST_NUMBER:
        return _of_element(view, start, _numbered(view, start, int(number)))
    for before, matches in ((DISTILLATION, _is_distillation), (CHECKPOINT, _is_called)):
        if wanted.startswith(before):
            said = wanted.removeprefix(before)
            return _only(
                view,
                start,
                wanted,
                [one for one in _checkpoints(view, start) if matches(one, said)],
            )
    found = _by_id(view, start, wanted)
    if found is not None:
        return found
    called = [one for one in _checkpoints(view, start) if _is_called(one, wanted)]
    return _only(view, start, wanted, called)


def _end(view: View, start: Logged) -> Logged:
    tip = tip_of(view, start)
    return view.get([tip.element])[tip.element]


def _of_element(view: View, start: Logged, element: Logged) -> Point:
    """Return the point right after an element, or at the beginning of a conversation."""
    at: Logged | None = element
    if event_of(element.model) == "fork":  # nothing was appended to it: what it points to
        log, at = size_there(element), element_of(view, element)
        element = element if at is None else at
    else:
        log = element.seq + 1
    number = count_in(element.model, "step")
    tip = tip_after(element, key_of(start), state_at(view, element))
    if event_of(element.model) == "message" and number == FOREIGN:
        number = sum(1 for _ in back(view, element))
        tip = tip._replace(number=number, step=number)
    return Point(tip, element, log)


def _of_checkpoint(view: View, start: Logged, checkpoint: Logged) -> Point:
    element = element_of(view, checkpoint)
    if element is None:
        raise UnknownSessionError("everything before the checkpoint was erased", field="at")
    point = _of_element(view, start, element)
    return point._replace(log=size_there(checkpoint), checkpoint=checkpoint)


def _numbered(view: View, start: Logged, number: int) -> Logged:
    """Return the message with a number, counting from 1; what is before the first with 0."""
    last = start
    for logged in back(view, _end(view, start)):
        if event_of(logged.model) != "message":
            continue
        last = logged
        if count_in(logged.model, "number") == number:
            return logged
    if number == 0:
        return lineage(view, start)[-1][0]
    if count_in(last.model, "number") == FOREIGN and event_of(last.model) == "message":
        every = [one for one in back(view, _end(view, start)) if event_of(one.model) == "message"]
        if number <= len(every):
            return every[-number]
    raise UnknownSessionError(
        f"the conversation has no message {number:,}",
        field="at",
        hint="See: satchel session show SESSION.",
    )


def _by_id(view: View, start: Logged, wanted: str) -> Point | None:
    digits = wanted.removeprefix(_PREFIX)
    if len(digits) < _LEAST_DIGITS or not _DIGITS.issuperset(digits):
        return None
    found = (
        list(view.get([wanted]).values())
        if is_id(wanted)
        else view.starting(digits, limit=_MOST_SHOWN)
    )
    if len(found) > 1:
        ids = ", ".join(sorted(one.record.id for one in found))
        raise UsageError(
            f"several IDs start with {wanted!r}", field="at", hint=f"Use one of: {ids}"
        )
    if not found:
        return None
    logged = _meant(view, found[0])
    event = event_of(logged.model)
    whole = {key_of(one): step for one, step in lineage(view, start)}
    if event == "checkpoint" and _is_within(logged, whole):
        return _of_checkpoint(view, start, logged)
    if event in ELEMENTS and _is_within(logged, whole):
        return _of_element(view, start, logged)
    if event in STARTS and key_of(logged) in whole:
        return _of_element(view, start, logged)
    raise UnknownSessionError(
        "not a point of the conversation",
        field="at",
        hint="See: satchel session checkpoint list SESSION, and satchel session show SESSION.",
    )


def _meant(view: View, logged: Logged) -> Logged:
    """Return the checkpoint of a distillation whose receipt was named; else the same."""
    if isinstance(logged.model, Receipt):
        named = str(logged.model.result.get("checkpoint", ""))
        return view.get([named]).get(named, logged)
    return logged


def _is_within(logged: Logged, whole: dict[str, int]) -> bool:
    """Tell whether an element or a checkpoint is of a conversation, also before it was forked."""
    if logged.row.retired is not None or logged.row.hold:
        return False
    last = whole.get(session_of(logged))
    return last is not None and (last < 0 or count_in(logged.model, "step") <= last)


def _checkpoints(view: View, start: Logged) -> list[Logged]:
    found = list[Logged]()
    for above, step in lineage(view, start):
        for logged in pointers(view, key_of(above), CHECKPOINTS):
            is_one = event_of(logged.model) == "checkpoint"
            if is_one and (step < 0 or count_in(logged.model, "step") <= step):
                found.append(logged)
    return found


def _is_distillation(logged: Logged, said: str) -> bool:
    distillation = members(logged.model).get("distillation")
    return isinstance(distillation, dict) and str(distillation.get("number")) == said


def _is_called(logged: Logged, said: str) -> bool:
    return getattr(logged.model, "name", None) == said


def _only(view: View, start: Logged, wanted: str, found: list[Logged]) -> Point:
    if not found:
        raise UnknownSessionError(
            f"the conversation has no point {wanted[:80]!r}",
            field="at",
            hint="See: satchel session checkpoint list SESSION.",
        )
    if len(found) > 1:
        ids = ", ".join(one.record.id for one in found[:_MOST_SHOWN])
        raise UsageError(
            f"{len(found)} points are named {wanted[:80]!r}", field="at", hint=f"Use an ID: {ids}"
        )
    return _of_checkpoint(view, start, found[0])
