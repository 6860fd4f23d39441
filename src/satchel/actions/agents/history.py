"""How much of an agent's conversations goes along.

Of its main one: what came after the last distillation, the newest 500 messages of that at most, and
all that was kept beside them. Of others that were active in the last seven days: that there were
some. All of everything where that is asked for.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from satchel.continuity.chains import forward, tip_of
from satchel.continuity.elements import count_in, event_of, key_of, members
from satchel.continuity.finding import checkpoints, pointers, sessions
from satchel.continuity.shown import CheckpointShown, SessionShown
from satchel.formats._aletheia.rows import identity_of
from satchel.ledger.logged import Logged
from satchel.ledger.view import View
from satchel.memory.times import format_time, now, read_time, to_datetime
from satchel.transfer.selecting import WHOLE

TAIL = 500
"""Messages of the main conversation that go along at most."""

DAYS = 7
"""How long ago a conversation was active that is told of."""

MOST_RECEIPTS = 10
_ACTIVE = f"active in the last {DAYS} days"
_MAIN = ("main", "primary")


@dataclass(slots=True, kw_only=True)
class History:
    """What of a bank goes along: its memory, and so much of its conversations."""

    full: bool
    primary: str | None = None
    """Id of the main conversation's record."""

    identity: str | None = None
    """What a file calls it."""

    kept: set[int] = field(default_factory=set)
    """Places of the events that go along, where not all do."""

    background: list[dict[str, Any]] = field(default_factory=list)
    receipts: list[dict[str, Any]] = field(default_factory=list)
    """Of distillations that there is no point to return to for in the file."""

    distilled: int = 0
    """How often the main conversation was distilled."""

    messages: int = 0
    """Of the main conversation."""

    taken: int = 0
    left: dict[str, int] = field(default_factory=dict)
    """Conversations that stay behind, by the reason."""

    files: bool = True
    """Whether versions of files in the log go along; not where there is a workspace."""

    as_of: int | None = None

    def wants(self, logged: Logged) -> bool:
        """Tell whether a record goes along."""
        if logged.row.type == "file_version" and not self.files:
            return False
        if logged.row.type == "session_event":
            return not _is_of_the_log(logged) if self.full else logged.seq in self.kept
        return WHOLE.wants(logged)


def history_of(view: View, before: dict[str, Any], *, full: bool, files: bool) -> History:
    """Return how much goes along of a bank.

    Args:
        view: Of it.
        before: What was around the memory in the file that the agent came in; empty for none.
        full: All of everything.
        files: Whether versions of files in the log go along.
    """
    found = History(full=full, files=files)
    known = sessions(view)
    came = before.get("primary")
    main = main_of(known, _came_as(view, known, came if isinstance(came, str) else None))
    found.primary = None if main is None else main.id
    since = format_time(to_datetime(now()) - timedelta(days=DAYS))
    for one in known:
        if main is not None and one.id == main.id:
            continue
        if not one.archived and (one.last_at or one.created_at or "") >= since:
            found.background.append(
                {
                    "key": one.name or one.id,
                    "messageCount": one.messages,
                    "lastActivity": one.last_at or one.created_at,
                }
            )
            if not full:
                _leave(found, f"mentioned, not included: {_ACTIVE}")
        elif not full:
            _leave(found, "archived" if one.archived else f"not active in the last {DAYS} days")
    for told in _told_before(before, {one.name or one.id for one in known}):
        last = read_time(str(told.get("lastActivity")))
        if not full and (last is None or last < since):
            _leave(found, f"not active in the last {DAYS} days")
            continue
        found.background.append(told)
        _leave(found, "mentioned, not included: " + ("where it came from" if full else _ACTIVE))
    if main is not None:
        _take_main(view, main, found)
    return found


def _told_before(before: dict[str, Any], known: set[str]) -> Iterator[dict[str, Any]]:
    """Yield the conversations that the agent's file only told of, and that are not here."""
    said = before.get("sessions")
    background = said.get("background") if isinstance(said, dict) else None
    for one in background if isinstance(background, list) else ():
        if not isinstance(one, dict) or not isinstance(one.get("key"), str):
            continue
        if one["key"] not in known:
            yield one


def _came_as(view: View, known: list[SessionShown], name: str | None) -> str | None:
    """Return the id of the conversation that a file called so."""
    if name is None:
        return None
    for one in known:
        there = view.get([one.id]).get(one.id)
        origin = getattr(there.model, "origin", None) if there is not None else None
        if origin is not None and origin.id == name:
            return one.id
    return None


def main_of(known: list[SessionShown], came: str | None = None) -> SessionShown | None:
    """Return an agent's main conversation: the one that says so, or else the last active one.

    Args:
        known: The conversations.
        came: Id of the one that was the main one where the agent came from.
    """
    if came is not None:
        return next(one for one in known if one.id == came)
    active = [one for one in known if not one.archived] or known
    said = [
        one
        for one in active
        if "primary" in (one.metadata.get("type"), one.metadata.get("sessionType"))
    ]
    said = said or [one for one in active if one.name in _MAIN]
    return max(said or active, key=lambda one: one.last_at or one.created_at or "", default=None)


def _leave(found: History, reason: str) -> None:
    found.left[reason] = found.left.get(reason, 0) + 1


def _take_main(view: View, main: SessionShown, found: History) -> None:
    start = view.get([main.id])[main.id]
    found.identity = identity_of(start.record, start.model)
    element = tip_of(view, start).element
    last = view.get([element]).get(element, start)
    points = checkpoints(view, start)
    distilled = [one for one in points if one.distillation is not None]
    numbers = [(one.distillation or {}).get("number") for one in distilled]
    found.distilled = max([len(distilled), *(one for one in numbers if type(one) is int)])
    after = 0 if found.full or not distilled else distilled[-1].number
    tail, counted = list[int](), 0
    found.kept.add(start.seq)
    starts = {key_of(start)}
    for logged in forward(view, last):
        starts.add(str(getattr(logged.model, "session", "")))
        if event_of(logged.model) != "message":
            found.kept.add(logged.seq)
            continue
        found.messages += 1
        counted = max(count_in(logged.model, "number"), counted + 1)
        if counted > after:
            tail.append(logged.seq)
            if not found.full and len(tail) > TAIL:
                del tail[0]
    found.kept.update(tail)
    found.taken = len(tail)
    first = counted - len(tail)
    for one in points:
        if one.number >= first:
            found.kept.add(view.places([one.id])[one.id])
        elif one.distillation is not None and not found.full:
            found.receipts.append(_receipt(one))
    del found.receipts[:-MOST_RECEIPTS]
    for logged in pointers(view, key_of(start)):  # its later names
        if event_of(logged.model) == "about" and not _is_of_the_log(logged):
            found.kept.add(logged.seq)
    # A conversation that was forked has messages of the one before it, whose record names it.
    there = view.get([name for name in starts if name.startswith("blake3:")])
    found.kept.update(logged.seq for logged in there.values())


def _is_of_the_log(logged: Logged) -> bool:
    """Tell whether an event says nothing but where the end of a conversation is in the log."""
    if event_of(logged.model) != "about" or getattr(logged.model, "name", None) is not None:
        return False
    return set(members(logged.model)) <= {"tip"}


def _receipt(one: CheckpointShown) -> dict[str, Any]:
    receipt = {"id": one.id, "sessionId": one.session, "distilledAt": one.created_at}
    return {**receipt, **(one.distillation or {})}
