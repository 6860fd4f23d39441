"""Lookup of conversations and their points, by name, ID, number or checkpoint."""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

import msgspec

from satchel.crypto.canonical import canonical
from satchel.errors import UnknownSessionError, UsageError, ValueRefusedError
from satchel.ledger.projection import Likely, VerifiedRecord
from satchel.ledger.view import View
from satchel.model.records import Receipt, SessionEvent
from satchel.model.text import attachments_in, words_of
from satchel.model.values import (
    id_digits,
    is_id,
    require_one,
)
from satchel.ports.rows import Filter
from satchel.sessions.chains import back, element_of, is_current, session_of, state_at, tip_of
from satchel.sessions.elements import (
    ELEMENTS,
    EVENTS,
    FOREIGN,
    NOTE,
    STARTS,
    SUMMARY,
    WORKING,
    Tip,
    count_in,
    event_of,
    key_of,
    latest_after,
    members,
    of_session,
    parent_of,
    pointer_in,
    tip_after,
)
from satchel.sessions.views import (
    Branch,
    CheckpointInfo,
    MessageInfo,
    NoteInfo,
    SessionInfo,
    StateInfo,
)

_MOST_SHOWN = 5
# Canonical bytes: a member has exactly this form. A message that contains one of these in its
# content is decoded and skipped, which costs only time.
BEGINNINGS = (b'"event":"session"', b'"event":"fork"')
CHECKPOINTS = (b'"event":"checkpoint"',)
POINTERS = (*BEGINNINGS, *CHECKPOINTS)
"""Bytes that such records contain."""


class _SessionData:
    """Data of one conversation beside its elements."""

    def __init__(self, start: VerifiedRecord) -> None:
        self.start = start
        self.name: str | None = None
        self.archived = False
        self.checkpoints = 0
        self.distillations = 0

    def called(self) -> str | None:
        """Return its name."""
        return self.name or getattr(self.start.model, "name", None)

    def take(self, logged: VerifiedRecord) -> None:
        """Add a checkpoint or a later record."""
        model = logged.model
        assert isinstance(model, SessionEvent)  # noqa: S101 - callers check it
        details = members(model)
        if model.event == "checkpoint":
            self.checkpoints += 1
            self.distillations += "distillation" in details
        else:
            self.name = model.name or self.name
            archived = details.get("archived")
            self.archived = archived if isinstance(archived, bool) else self.archived


def sessions(view: View) -> list[SessionInfo]:
    """Return all conversations of a bank, see ``newest_sessions``."""
    return newest_sessions(view, limit=None)[0]


def newest_sessions(
    view: View, *, limit: int | None, archived: bool = True
) -> tuple[list[SessionInfo], bool]:
    """Return conversations of a bank by tree of forks, oldest first, and whether there are more.

    Args:
        view: The bank.
        limit: Number of newest conversations; None for all.
        archived: Whether to include archived ones.
    """
    gathered_sessions = _all_session_data(view) if limit is None else _newest_session_data(view)
    chosen = (pair for pair in gathered_sessions if archived or not pair[0].archived)
    newest = list(islice(chosen, None if limit is None else limit + 1))
    more = limit is not None and len(newest) > limit
    pairs = sorted(newest[:limit], key=lambda pair: pair[1].seq)
    last = _last_elements(view, [start for _, start in pairs])
    infos = {
        start.record.id: _session_info(view, gathered, start, last.get(start.record.id))
        for gathered, start in pairs
    }
    children = dict[str | None, list[SessionInfo]]()
    for info in infos.values():
        above = info.origin.session if info.origin is not None else None
        children.setdefault(above if above in infos else None, []).append(info)
    ordered, waiting = list[SessionInfo](), [(info, 0) for info in reversed(children.get(None, []))]
    while waiting:
        info, depth = waiting.pop()
        ordered.append(msgspec.structs.replace(info, depth=depth))
        waiting += [(child, depth + 1) for child in reversed(children.get(info.id, []))]
    return ordered, more


def session(view: View, start: VerifiedRecord) -> SessionInfo:
    """Return one conversation."""
    info = _session_info(view, _session_data(view, start), start)
    return msgspec.structs.replace(info, depth=len(lineage(view, start)) - 1)


def find(view: View, name: str, field: str = "session") -> VerifiedRecord:
    """Return the record of a conversation.

    Args:
        view: The bank.
        name: Its ID, a prefix of six digits or more, or its name; for a conversation of other
            software, also its ID there.
        field: Name of the field in errors.

    Raises:
        UnknownSessionError: If there is no match.
        UsageError: If several match.
    """
    digits = id_digits(name)
    matches = list[VerifiedRecord]()
    if digits is not None:
        candidates = (
            [view.get([name]).get(name)]
            if is_id(name)
            else view.with_prefix(digits, limit=_MOST_SHOWN)
        )
        matches = [logged for logged in candidates if logged is not None and _is_listed(logged)]
    if not matches:
        matches = list(_sessions_named(view, name))
    if not matches:
        raise UnknownSessionError(
            f"no conversation {name[:80]!r} in this bank",
            field=field,
            hint="See: satchel session list. To use another bank: --bank NAME.",
        )
    if len(matches) > 1:
        ids = ", ".join(sorted(logged.record.id for logged in matches)[:_MOST_SHOWN])
        raise UsageError(
            f"{len(matches)} conversations are named {name[:80]!r}",
            field=field,
            hint=f"Use an ID: {ids}",
        )
    return matches[0]


def _sessions_named(view: View, name: str) -> Iterator[VerifiedRecord]:
    """Yield the records of the conversations with a name or key, in the order of the log."""
    try:
        marks = (canonical(name),)  # as in each record that has it
    except ValueRefusedError:
        return
    starts = dict[int, VerifiedRecord]()
    for logged in view.scan(Filter(types=EVENTS), likely=_likely(marks)):
        event = event_of(logged.model)
        if event in STARTS:
            starts[logged.seq] = logged
        elif event in ("about", "checkpoint"):
            key = session_of(logged)
            named = list(view.get([key]).values()) if is_id(key) else []
            for start in (*named, *pointers(view, key, BEGINNINGS)):
                if event_of(start.model) in STARTS:
                    starts[start.seq] = start
    for _, start in sorted(starts.items()):
        if name in (_session_data(view, start).called(), key_of(start)):
            yield start


def lineage(view: View, start: VerifiedRecord) -> list[tuple[VerifiedRecord, int]]:
    """Return a conversation and those that it was forked from, each with its last step.

    The step is where the fork leaves it; for the first, its end.
    """
    chain, at, step = list[tuple[VerifiedRecord, int]](), start, -1
    while True:
        chain.append((at, step))
        above = _start_of(view, session_of(at)) if event_of(at.model) == "fork" else None
        if above is None:
            return chain
        begins = max(count_in(at.model, "step"), 0)
        at, step = above, begins if step < 0 else min(step, begins)


def messages(
    view: View, element: VerifiedRecord, *, last: int | None = None
) -> Iterator[MessageInfo]:
    """Yield messages up to an element, newest first.

    Args:
        view: The bank.
        element: A message, a change of state, a session or a fork.
        last: Most messages.
    """
    number = None
    for logged in back(view, element):
        if last is not None and last <= 0:
            return
        if event_of(logged.model) != "message":
            continue
        counted = count_in(logged.model, "number")
        if counted < 0 and number is None:
            number = 1 + sum(1 for _ in back(view, logged))
        number = counted if counted >= 0 else (number or 1) - 1
        last = None if last is None else last - 1
        yield message(logged, number)


def message(logged: VerifiedRecord, number: int) -> MessageInfo:
    """Return a message for interfaces."""
    model = logged.model
    assert isinstance(model, SessionEvent)  # noqa: S101 - callers check it
    return MessageInfo(
        number=number,
        id=logged.record.id,
        role=model.role,
        name=model.name,
        content=model.text if model.content is None else model.content,
        text=None if model.content is None else model.text or words_of(model.content) or None,
        attachments=attachments_in(model.content),
        created_at=model.created_at,
        session=model.session,
        more=model.metadata,
    )


def state(view: View, element: VerifiedRecord) -> StateInfo:
    """Return the state beside the messages at an element, or at a pointer."""
    last = state_at(view, element)
    if last is None:
        return StateInfo()
    working = next(_state_changes(view, last, WORKING), None)
    summary = next(_state_changes(view, last, SUMMARY), None)
    text = members(summary.model).get(SUMMARY) if summary is not None else None
    notes = [
        note for change in _state_changes(view, last, NOTE) if (note := _note(change)) is not None
    ]
    notes.reverse()
    return StateInfo(
        working_state=members(working.model).get(WORKING) if working is not None else None,
        thread_summary=text if isinstance(text, str) else None,
        notes=notes,
    )


def checkpoints(view: View, start: VerifiedRecord) -> list[CheckpointInfo]:
    """Return the checkpoints of a conversation in order, including those before its forks."""
    numbered = list[tuple[int, CheckpointInfo]]()
    for above, step in lineage(view, start):
        for logged in pointers(view, key_of(above), CHECKPOINTS, after=above.seq):
            at = count_in(logged.model, "step")
            if event_of(logged.model) == "checkpoint" and (step < 0 or at <= step):
                numbered.append((at, checkpoint(logged)))
    return [info for _, info in sorted(numbered, key=lambda pair: pair[0])]


def checkpoint(logged: VerifiedRecord) -> CheckpointInfo:
    """Return a checkpoint for interfaces."""
    model, details = logged.model, members(logged.model)
    assert isinstance(model, SessionEvent)  # noqa: S101 - callers check it
    distillation = details.get("distillation")
    return CheckpointInfo(
        id=logged.record.id,
        session=session_of(logged),
        number=max(count_in(model, "number"), 0),
        element=model.parent or "",
        why=str(details.get("why", "asked")),
        name=model.name,
        created_at=model.created_at,
        log=log_size_at(logged),
        distillation=distillation if isinstance(distillation, dict) else None,
    )


def log_size_at(pointer: VerifiedRecord) -> int:
    """Return the size of the bank's log at a checkpoint, or at the point of a fork.

    A record of another bank names that bank's size, so its own position is used; a checkpoint of a
    distillation follows its memories.
    """
    size = members(pointer.model).get("as_of")
    if type(size) is int and not pointer.row.batch:
        return max(0, min(size, pointer.seq))
    return pointer.seq


def _start_of(view: View, key: str) -> VerifiedRecord | None:
    """Return the record of the conversation that elements refer to by a name."""
    start = view.get([key]).get(key) if is_id(key) else None
    if start is not None and event_of(start.model) in STARTS:
        return start
    starts = pointers(view, key, BEGINNINGS)
    return next((logged for logged in starts if event_of(logged.model) == "session"), None)


def _all_session_data(view: View) -> Iterator[tuple[_SessionData, VerifiedRecord]]:
    """Yield the data of each conversation with its record, in the order of the log."""
    conversations = dict[str, list[_SessionData]]()
    for logged in view.scan(Filter(types=EVENTS), likely=_likely(POINTERS)):
        event = event_of(logged.model)
        if event in STARTS:
            conversations.setdefault(key_of(logged), []).append(_SessionData(logged))
        elif event in ("about", "checkpoint"):
            for gathered in conversations.get(session_of(logged), ()):
                gathered.take(logged)
    every = [gathered for group in conversations.values() for gathered in group]
    yield from sorted(((each, each.start) for each in every), key=lambda pair: pair[1].seq)


def _newest_session_data(view: View) -> Iterator[tuple[_SessionData, VerifiedRecord]]:
    """Yield as ``_all_session_data``, newest first, so that a short listing reads little.

    The data of a conversation follow its record, so they were read before it.
    """
    later = dict[str, list[VerifiedRecord]]()
    for logged in view.newest(Filter(types=EVENTS), likely=_likely(POINTERS)):
        event = event_of(logged.model)
        if event in STARTS:
            gathered = _SessionData(logged)
            for pointer in reversed(later.get(key_of(logged), ())):
                gathered.take(pointer)
            yield gathered, logged
        elif event in ("about", "checkpoint"):
            later.setdefault(session_of(logged), []).append(logged)


def _session_data(view: View, start: VerifiedRecord) -> _SessionData:
    """Return the data of one conversation."""
    gathered = _SessionData(start)
    for logged in pointers(view, key_of(start), after=start.seq):
        if event_of(logged.model) in ("about", "checkpoint"):
            gathered.take(logged)
    return gathered


def _last_elements(view: View, starts: Sequence[VerifiedRecord]) -> dict[str, VerifiedRecord]:
    """Return the last element of each conversation whose newest record determines it.

    The newest record is the last element if this machine appended it, or if it was imported with
    the conversation itself. Other conversations must be traversed; see ``tip_of``.
    """
    keys = dict[str, list[VerifiedRecord]]()
    for start in starts:
        keys.setdefault(key_of(start), []).append(start)
    last = dict[str, VerifiedRecord]()
    first = min((start.seq for start in starts), default=0)
    for logged in view.newest_of_sessions(list(keys), EVENTS, after=first):
        counted = count_in(logged.model, "step") >= 0 and count_in(logged.model, "number") >= 0
        if event_of(logged.model) not in ELEMENTS or not counted:
            continue
        for start in keys.get(getattr(logged.model, "session", None) or "", ()):
            if logged.row.batch in (0, start.row.batch):
                last[start.record.id] = logged
    return last


def _likely(marks: tuple[bytes, ...]) -> Likely:
    return lambda body: any(mark in body for mark in marks)


def pointers(
    view: View, key: str, marks: tuple[bytes, ...] = POINTERS, *, after: int = -1
) -> Iterator[VerifiedRecord]:
    """Yield the records of one conversation beside its messages, and possibly others."""
    return view.scan(of_session(key), after=after, likely=_likely(marks))


def _is_listed(logged: VerifiedRecord) -> bool:
    row = logged.row
    return event_of(logged.model) in STARTS and row.retired is None and not row.hold


def _session_info(
    view: View, gathered: _SessionData, start: VerifiedRecord, end: VerifiedRecord | None = None
) -> SessionInfo:
    model = start.model
    assert isinstance(model, SessionEvent)  # noqa: S101 - callers check it
    if end is None:
        tip = tip_of(view, start)
        end, number = view.get([tip.element]).get(tip.element), tip.number
    else:
        number = count_in(end.model, "number")
    return SessionInfo(
        id=start.record.id,
        name=gathered.called(),
        messages=number,
        created_at=model.created_at,
        last_at=getattr(end.model, "created_at", None) if end is not None else None,
        agent=start.row.agent,
        user=start.row.user,
        archived=gathered.archived,
        checkpoints=gathered.checkpoints,
        distillations=gathered.distillations,
        origin=_branch(start) if model.event == "fork" else None,
        memories="as-of" if members(model).get("memories") == "as-of" else "all",
        provider=model.origin.provider if model.origin is not None else None,
        metadata=model.metadata,
    )


def _branch(fork: VerifiedRecord) -> Branch:
    return Branch(
        session=session_of(fork),
        number=max(count_in(fork.model, "number"), 0),
        element=parent_of(fork.model) or "",
        checkpoint=pointer_in(fork.model, "checkpoint"),
        log=log_size_at(fork),
    )


def _state_changes(view: View, state: VerifiedRecord, kind: str) -> Iterator[VerifiedRecord]:
    """Yield the changes of one kind up to a change of state, newest first."""
    at, identity = state, latest_after(state.model, state.record.id).get(kind)
    while identity is not None:
        change = view.get([identity]).get(identity)
        if change is None:  # erased: the previous ones are found by traversal
            older = (element for element in back(view, at) if element.seq != at.seq)
            change = next((element for element in older if kind in members(element.model)), None)
        if (
            change is None
            or event_of(change.model) != "state"
            or change.seq >= at.seq + (at is state)
        ):
            return
        if is_current(view, change):
            yield change
        at, before = change, members(change.model).get("latest")
        identity = before.get(kind) if isinstance(before, dict) else None


def _note(logged: VerifiedRecord) -> NoteInfo | None:
    note = members(logged.model).get(NOTE)
    if not isinstance(note, dict) or not isinstance(note.get("content"), str):
        return None
    category = note.get("category")
    return NoteInfo(
        content=note["content"],
        category=category if isinstance(category, str) else "context",
        id=logged.record.id,
        created_at=note.get("created_at") or getattr(logged.model, "created_at", None),
    )


_LONGEST_NUMBER = 9
DISTILLATION, CHECKPOINT, MESSAGE = "distillation:", "checkpoint:", "message:"
"""Prefixes of a number or a name."""


class SessionPoint(NamedTuple):
    """A point of a conversation."""

    tip: Tip
    """The tip that a session continuing from this point builds on."""

    element: VerifiedRecord
    """ID of the message or change of state; of the session's record before its first."""

    log: int
    """Size of the bank's log at that point."""

    checkpoint: VerifiedRecord | None = None
    """ID of the checkpoint, if it is one."""


def point_at(view: View, start: VerifiedRecord, text: str | None) -> SessionPoint:
    """Return a point of a conversation.

    Args:
        view: The bank.
        start: The session or the fork.
        text: The ID, or an ID prefix, of a message, a checkpoint or a distillation's receipt;
            ``50`` or ``message:50`` for a message by its number; ``distillation:2``;
            ``checkpoint:NAME``, or the name alone. None for the present end.

    Raises:
        UnknownSessionError: If there is no such point.
        UsageError: If several match.
    """
    if text is None:
        return _of_element(view, start, _end(view, start))
    number = text.removeprefix(MESSAGE)
    if number.isascii() and number.isdecimal() and len(number) <= _LONGEST_NUMBER:
        return _of_element(view, start, _numbered(view, start, int(number)))
    for before, matches in ((DISTILLATION, _is_distillation), (CHECKPOINT, _has_name)):
        if text.startswith(before):
            name = text.removeprefix(before)
            return _single_checkpoint(
                view,
                start,
                text,
                [
                    checkpoint
                    for checkpoint in _checkpoints(view, start)
                    if matches(checkpoint, name)
                ],
            )
    point = _by_id(view, start, text)
    if point is not None:
        return point
    called = [checkpoint for checkpoint in _checkpoints(view, start) if _has_name(checkpoint, text)]
    return _single_checkpoint(view, start, text, called)


def _end(view: View, start: VerifiedRecord) -> VerifiedRecord:
    tip = tip_of(view, start)
    return view.get([tip.element])[tip.element]


def _of_element(view: View, start: VerifiedRecord, element: VerifiedRecord) -> SessionPoint:
    """Return the point right after an element, or at the beginning of a conversation."""
    at: VerifiedRecord | None = element
    if event_of(element.model) == "fork":  # no elements of its own: the point of the fork
        log, at = log_size_at(element), element_of(view, element)
        element = element if at is None else at
    else:
        log = element.seq + 1
    number = count_in(element.model, "step")
    tip = tip_after(element, key_of(start), state_at(view, element))
    if event_of(element.model) == "message" and number == FOREIGN:
        number = sum(1 for _ in back(view, element))
        tip = tip._replace(number=number, step=number)
    return SessionPoint(tip, element, log)


def _of_checkpoint(view: View, start: VerifiedRecord, checkpoint: VerifiedRecord) -> SessionPoint:
    element = element_of(view, checkpoint)
    if element is None:
        raise UnknownSessionError("everything before the checkpoint was erased", field="at")
    point = _of_element(view, start, element)
    return point._replace(log=log_size_at(checkpoint), checkpoint=checkpoint)


def _numbered(view: View, start: VerifiedRecord, number: int) -> VerifiedRecord:
    """Return the message with a number, from 1; 0 is the point before the first."""
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
        every = [
            element
            for element in back(view, _end(view, start))
            if event_of(element.model) == "message"
        ]
        if number <= len(every):
            return every[-number]
    raise UnknownSessionError(
        f"the conversation has no message {number:,}",
        field="at",
        hint="See: satchel session show SESSION.",
    )


def _by_id(view: View, start: VerifiedRecord, text: str) -> SessionPoint | None:
    digits = id_digits(text)
    if digits is None:
        return None
    matches = (
        list(view.get([text]).values())
        if is_id(text)
        else view.with_prefix(digits, limit=_MOST_SHOWN)
    )
    require_one([each.record.id for each in matches], text, "at")
    if not matches:
        return None
    logged = _receipt_checkpoint(view, matches[0])
    event = event_of(logged.model)
    whole = {key_of(each): step for each, step in lineage(view, start)}
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


def _receipt_checkpoint(view: View, logged: VerifiedRecord) -> VerifiedRecord:
    """Return the checkpoint of a distillation, given its receipt; other elements unchanged."""
    if isinstance(logged.model, Receipt):
        named = str(logged.model.result.get("checkpoint", ""))
        return view.get([named]).get(named, logged)
    return logged


def _is_within(logged: VerifiedRecord, whole: dict[str, int]) -> bool:
    """Return whether an element or checkpoint belongs to a conversation, or to its sources."""
    if logged.row.retired is not None or logged.row.hold:
        return False
    last = whole.get(session_of(logged))
    return last is not None and (last < 0 or count_in(logged.model, "step") <= last)


def _checkpoints(view: View, start: VerifiedRecord) -> list[VerifiedRecord]:
    checkpoints = list[VerifiedRecord]()
    for above, step in lineage(view, start):
        for logged in pointers(view, key_of(above), CHECKPOINTS):
            is_one = event_of(logged.model) == "checkpoint"
            if is_one and (step < 0 or count_in(logged.model, "step") <= step):
                checkpoints.append(logged)
    return checkpoints


def _is_distillation(logged: VerifiedRecord, number: str) -> bool:
    distillation = members(logged.model).get("distillation")
    return isinstance(distillation, dict) and str(distillation.get("number")) == number


def _has_name(logged: VerifiedRecord, name: str) -> bool:
    return getattr(logged.model, "name", None) == name


def _single_checkpoint(
    view: View, start: VerifiedRecord, text: str, matches: list[VerifiedRecord]
) -> SessionPoint:
    if not matches:
        raise UnknownSessionError(
            f"the conversation has no point {text[:80]!r}",
            field="at",
            hint="See: satchel session checkpoint list SESSION.",
        )
    if len(matches) > 1:
        ids = ", ".join(checkpoint.record.id for checkpoint in matches[:_MOST_SHOWN])
        raise UsageError(
            f"{len(matches)} points are named {text[:80]!r}", field="at", hint=f"Use an ID: {ids}"
        )
    return _of_checkpoint(view, start, matches[0])
