"""Conversations of Gemini that Google Takeout has one by one, with a title and their turns.

"Gemini in Workspace", and since 2026 the app: ``Conversation History/conversation_1.txt``, which is
JSON. A turn has a number; one that has another's number is another question or answer in its place.
"""

from collections.abc import Iterator
from typing import Any

from satchel.errors import MalformedError
from satchel.formats._chats.fields import Row, list_in, moment_of, rest_of, row_in, text_or_none
from satchel.formats._chats.threads import Talk, Turn, events, origin_at
from satchel.memory.records import Model, SessionEvent
from satchel.ports.report import Report

_NAME = "gemini"
_ROLES = {"user_turn": "user", "system_turn": "assistant"}
_KNOWN = ("title", "conversation_turns")
_TIMES = ("creation_time",)


def conversation(row: Row, name: str, report: Report) -> Iterator[Model]:
    """Yield a conversation.

    Args:
        row: The conversation.
        name: What its file is called; there is no other id.
        report: Where what cannot be kept is counted.

    Raises:
        MalformedError: If it is none.
    """
    if "conversation_turns" not in row:
        raise MalformedError("not a Gemini conversation", field="conversation_turns")
    start = SessionEvent(
        event="session",
        name=text_or_none(row.get("title")),
        created_at=moment_of(row.get("creation_time")),
        origin=origin_at(_NAME, name, None, rest_of(row, known=_KNOWN, times=_TIMES)),
    )
    turns, last, seen = list[Turn](), dict[int, str](), set[str]()
    for place, value in enumerate(list_in(row, "conversation_turns")):
        said = [(kind, value[kind]) for kind in _ROLES if type(value) is dict and value.get(kind)]
        if not said:
            report.lost("conversation_turns", "it has no author", example=f"{name}/{place}")
        for kind, part in said:
            turn = row_in(part, f"`{kind}`")
            number = turn.get("turn_index")
            number = number if type(number) is int else place
            before = last.get(max((one for one in last if one < number), default=-1))
            identity = _unused(f"{name}/{_ROLES[kind]}/{number}", seen)
            last = {one: each for one, each in last.items() if one < number} | {number: identity}
            turns.append(Turn(identity, before, _said(turn, kind, identity, name)))
    yield from events(Talk(start, turns, turns[-1].id if turns else None), report)


def _unused(identity: str, seen: set[str]) -> str:
    found, again = identity, 1
    while found in seen:
        again += 1
        found = f"{identity}/{again}"
    seen.add(found)
    return found


def _said(turn: Row, kind: str, identity: str, name: str) -> SessionEvent:
    is_asked = kind == "user_turn"
    text = turn.get("prompt") if is_asked else _answer_in(turn.get("text"))
    if text is not None and type(text) is not str:
        raise MalformedError("this is not text", field=f"conversation_turns/{kind}/prompt")
    kept = rest_of(turn, known=("prompt",) if is_asked else ())
    return SessionEvent(
        event="message",
        role=_ROLES[kind],
        text=text or "",
        created_at=moment_of(turn.get("turn_last_modified")),
        origin=origin_at(_NAME, identity, name, kept),
    )


def _answer_in(parts: Any) -> str:
    """Return the words of an answer, which is in pieces, and in cards of pieces."""
    found = list[str]()
    for one in parts if type(parts) is list else [parts]:
        if type(one) is str:
            found.append(one)
        elif type(one) is dict:
            cards = one.get("cards")
            cards = cards if type(cards) is list else []
            pieces = [one.get("data"), *map(_content_of, cards)]
            found += [piece for piece in pieces if type(piece) is str and piece]
    return "\n\n".join(found)


def _content_of(card: Any) -> Any:
    return card.get("content") if type(card) is dict else None
