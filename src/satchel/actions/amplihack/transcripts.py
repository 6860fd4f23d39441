"""What was said in a session, from the file that an agent host writes of it, and what it taught.

A transcript is JSON, one object a line: a turn with ``role`` and ``content``, or with these in
``message`` or, as Codex writes it, in ``payload``; content is a text or a list of parts, of which
those of text count. What tools returned is not what anybody said, and teaches nothing: it may come
from anywhere. Nor is what Codex told the model of its surroundings. The whole file is gone through,
line by line, in little memory; a line that is no JSON is passed over and counted.
"""

import heapq
import re
from collections.abc import Iterator
from typing import Any, BinaryIO, NamedTuple

import msgspec

from satchel.actions.amplihack.cues import kind_of

LONGEST_LINE = 8 * 2**20
"""Bytes of a line that is looked at; a longer one is passed over."""

MOST_LEARNINGS = 12
"""Learnings that one session may leave: those that say most."""

_PEOPLE = frozenset({"user", "human"})
_SPOKEN = _PEOPLE | {"assistant", "ai", "model"}
_SENTENCE = re.compile(r"(?<=[.!?])\s+|(?<=[\u3002\uff01\uff1f])|\n+")
_ASKS = ("?", "\uff1f")
_MARKS = re.compile(r"^\s*(?:[-*+>#]+|\d+[.)])\s*")
_SHORTEST, _LONGEST = 20, 400
_WIDE = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3]")
"""Characters that say as much as two or three letters."""
_MOST_CHARACTERS = 200_000
_MOST_SENTENCES = 4000
_START = 300

_TEXTS = ("text", "input_text", "output_text")
_GIVEN = re.compile(r"\s*(?:<[A-Za-z_ ]+>|# AGENTS\.md instructions\b)")
_CODE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)


class Turn(NamedTuple):
    """One thing that was said."""

    role: str
    text: str


class Lesson(NamedTuple):
    """Something that a session taught."""

    worth: int
    text: str
    kind: str
    """One of the types of flat memories."""


class Heard(msgspec.Struct, kw_only=True):
    """What a transcript was like."""

    turns: int = 0
    passed_over: int = 0
    """Lines that are no JSON, or too long."""

    first: str = ""
    """What was asked first, the start of it."""

    last: str = ""
    """What was answered last, the start of it."""


def turns(stream: BinaryIO, heard: Heard) -> Iterator[Turn]:
    """Yield what was said, in order.

    Args:
        stream: The transcript.
        heard: Told what it was like.
    """
    decode = msgspec.json.Decoder().decode
    while line := stream.readline(LONGEST_LINE + 1):
        if len(line) > LONGEST_LINE:
            heard.passed_over += 1
            while line and not line.endswith(b"\n"):
                line = stream.readline(LONGEST_LINE)
            continue
        if not line.strip():
            continue
        try:
            value = decode(line)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            heard.passed_over += 1
            continue
        for turn in _said(value):
            heard.turns += 1
            if turn.role in _PEOPLE:
                heard.first = heard.first or turn.text[:_START]
            else:
                heard.last = turn.text[:_START]
            yield turn


def lessons(spoken: Iterator[Turn]) -> list[Lesson]:
    """Return what was learned, those that say most first; of as much worth, the later ones."""
    best = list[tuple[int, int, str, str]]()
    seen, number = set[str](), 0
    for turn in spoken:
        for sentence in _sentences(turn.text):
            number += 1
            found = _judged(sentence, turn.role)
            key = " ".join(sentence.casefold().split())
            if found is None or key in seen:
                continue
            heapq.heappush(best, (found[0], number, sentence, found[1]))
            seen.add(key)
            if len(best) > MOST_LEARNINGS:
                _, _, gone, _ = heapq.heappop(best)
                seen.discard(" ".join(gone.casefold().split()))
    return [Lesson(worth, text, kind) for worth, _, text, kind in sorted(best, reverse=True)]


def gist(heard: Heard) -> str:
    """Return in a few words what a session was about, where it taught nothing else."""
    asked, answered = (" ".join(text.split()) for text in (heard.first, heard.last))
    return " ".join(
        part for part in (asked and f"Asked: {asked}", answered and f"Answered: {answered}") if part
    )


def _judged(sentence: str, role: str) -> tuple[int, str] | None:
    """Return how much a sentence says, and what kind of thing; None for nothing."""
    found = None if sentence.endswith(_ASKS) else kind_of(sentence)
    return None if found is None else (found[0] + (role in _PEOPLE), found[1])


def _sentences(text: str) -> Iterator[str]:
    plain = _CODE.sub("\n", text[:_MOST_CHARACTERS])
    for number, raw in enumerate(_SENTENCE.split(plain)):
        if number == _MOST_SENTENCES:
            return
        sentence = _MARKS.sub("", raw).strip()
        if len(sentence) <= _LONGEST and _width(sentence) >= _SHORTEST:
            yield sentence


def _width(sentence: str) -> int:
    return len(sentence) + len(_WIDE.findall(sentence))


def _said(value: Any) -> Iterator[Turn]:
    if not isinstance(value, dict):
        return
    of_codex = value.get("payload") if value.get("type") == "response_item" else None
    inner = of_codex if isinstance(of_codex, dict) else value.get("message")
    held = inner if isinstance(inner, dict) else value
    role = held.get("role") or value.get("role") or value.get("type")
    if role not in _SPOKEN or value.get("isMeta") is True:
        return
    content = held.get("content", inner if isinstance(inner, str) else None)
    parts = content if isinstance(content, list) else [content]
    for part in parts:
        text = part
        if isinstance(part, dict):
            text = part.get("text") if part.get("type") in _TEXTS else None
        if isinstance(text, str) and text.strip() and not (of_codex and _GIVEN.match(text)):
            yield Turn(str(role), text)
