"""Conversations of a COGX archive: an episode with its turns, as a session with messages."""

from collections.abc import Iterator
from typing import Any

from satchel.errors import MalformedError
from satchel.formats._as_written import differences, reproduce
from satchel.formats._cognee.rows import kept_of, time_text
from satchel.formats._cognee.shape import EPISODE, NAME, Row
from satchel.formats._members import text_in
from satchel.memory.parts import Origin, TrustClass
from satchel.memory.records import SessionEvent
from satchel.memory.times import read_time

_TURN = ("role", "content", "occurred_at")


def events_of(row: Row) -> Iterator[SessionEvent]:
    """Yield an episode: its start, then its turns.

    Raises:
        MalformedError: If it is none, naming the member.
    """
    identity, turns, title = text_in(row, "external_id"), row.get("turns", []), row.get("title")
    if type(turns) is not list:
        raise MalformedError("`turns` is not a list", field="turns")
    name, made = title if type(title) is str else None, _time(row.get("created_at"))
    session = f"{EPISODE}:{identity}"
    written = _start(name, made)
    known = ("external_id", "turns")
    kept = differences({k: v for k, v in row.items() if k not in known}, written)
    if "turns" not in row:
        kept["turns"] = None
    origin = Origin(provider=NAME, id=session, as_written=kept, trust=TrustClass.IMPORTED)
    yield SessionEvent(event="session", name=name, created_at=made, origin=origin)
    for number, turn in enumerate(turns):
        try:
            yield _turn(turn, session, number)
        except MalformedError as error:
            error.field = f"turns/{number}" + (f"/{error.field}" if error.field else "")
            raise


def _turn(turn: Any, session: str, number: int) -> SessionEvent:
    if type(turn) is not dict:
        raise MalformedError("not an object")
    role, text = text_in(turn, "role"), text_in(turn, "content")
    made = _time(turn.get("occurred_at"))
    kept = differences(turn, _written_turn(role, text, made))
    name = f"{session}/{number}"
    origin = Origin(provider=NAME, id=name, as_written=kept, trust=TrustClass.IMPORTED)
    return SessionEvent(
        event="message", session=session, role=role, text=text, created_at=made, origin=origin
    )


def row_of_start(event: SessionEvent | None, identity: str) -> Row:
    """Return the start of a conversation as an episode without turns."""
    if event is None:
        return {"external_id": identity, **_start(None, None)}
    kept = kept_of(event.origin)
    kept.pop("turns", None)
    made, title = event.created_at, event.name
    row = reproduce(_start(title, made), kept)
    if _time(row.get("created_at")) != made or row.get("title") != title:
        row |= _start(title, made)
    return {"external_id": identity, **row}


def row_of_turn(event: SessionEvent) -> Row:
    """Return a message as a turn."""
    role, text, made = event.role or "user", event.text or "", event.created_at
    kept = {k: v for k, v in kept_of(event.origin).items() if k not in ("role", "content")}
    written = _written_turn(role, text, made)
    row = reproduce(written, kept)
    return row if _time(row.get("occurred_at")) == made else {**row, **written}


def has_turns(event: SessionEvent | None) -> bool:
    """Tell whether an episode says its turns, even where there are none."""
    return event is None or "turns" not in kept_of(event.origin)


def _start(title: str | None, made: str | None) -> Row:
    row: Row = {"external_system": NAME, "scope": {}}
    row |= {} if made is None else {"created_at": time_text(made)}
    row |= {"metadata": {}, "kind": EPISODE}
    return row if title is None else {**row, "title": title}


def _written_turn(role: str, text: str, made: str | None) -> Row:
    row: Row = {"role": role, "content": text}
    return row if made is None else {**row, "occurred_at": time_text(made)}


def _time(value: Any) -> str | None:
    return read_time(value) if type(value) is str else None
