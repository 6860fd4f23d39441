"""A distiller that needs no model: it picks sentences, and writes none of its own.

Which sentences are decisions, preferences and the like is told by a few English turns of phrase;
a conversation in another language gets a summary and hardly anything else. Tool output and system
prompts are not searched for things to remember: what others wrote there would become the agent's
own memory.
"""

import heapq
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from satchel.ports.inference.distiller import (
    MOST_FINDINGS,
    MOST_SUMMARY,
    SPEAKERS,
    Distillate,
    Finding,
    FindingKind,
    Turn,
)

_ASKS = frozenset({"user", "human"})
_LONGEST, _SHORTEST = 400, 12
_MOST_WORDS = 50_000
_SENTENCE = re.compile(r"(?<=[.!?。！？])\s+|\n+")  # noqa: RUF001 - full-width ends of sentences
_WORD = re.compile(r"[^\W\d_]{3,}")
_FENCE = re.compile(r"^\s*(?:```|~~~)")
_CUES: dict[FindingKind, tuple[str, ...]] = {
    "correction": (
        r"^(?:no|actually|correction|wait)\b[,:. ]",
        r"\bi meant\b",
        r"\bthat(?:'s| is) wrong",
    ),
    "decision": (
        r"\b(?:we|i)(?:'ve| have)? (?:decided|agreed|chose)\b",
        r"\blet(?:'s| us) (?:go with|use)\b",
        r"^decision\b",
        r"\bwe(?:'ll| will) (?:use|go with)\b",
    ),
    "open_item": (
        r"\bto-?do\b",
        r"^next(?: step)?s?\b",
        r"\b(?:we|i|you) (?:still )?need to\b",
        r"\bremind me\b",
        r"\bfollow up\b",
        r"\bnot yet\b",
    ),
    "preference": (
        r"\bi (?:really )?(?:prefer|like|love|hate|dislike|want you to|don't like)\b",
        r"\bmy favou?rite\b",
        r"^(?:always|never|please (?:always|never|don't))\b",
    ),
    "fact": (
        r"\bmy (?:\w+ ){0,2}\w+ (?:is|are)\b",
        r"\bi(?:'m| am) (?:a|an|the|from|allergic|based)\b",
        r"\bi (?:live|work|have|own|speak|moved)\b",
        r"\bis (?:called|located|due|on)\b",
    ),
}
_cues = {kind: re.compile("|".join(cues), re.IGNORECASE) for kind, cues in _CUES.items()}


class _Sentence(NamedTuple):
    text: str
    turn: Turn | None
    """None for what was summarised before."""


class ExtractiveDistiller:
    """Picks the sentences that say most of what a conversation is about."""

    @property
    def model(self) -> str:
        """Its name and version."""
        return "extractive-1"

    def distill(self, turns: Iterable[Turn], before: str | None) -> Distillate:
        """Return what messages come down to; see ``Distiller.distill``."""
        known = Counter[str]()
        for sentence in _sentences(turns, before):
            for word in set(_words(sentence.text)):
                if word in known or len(known) < _MOST_WORDS:
                    known[word] += 1
        best = list[tuple[float, int, str]]()
        found = dict[str, Finding]()
        room = Counter(MOST_FINDINGS)
        for place, sentence in enumerate(_sentences(turns, before)):
            score = _score(sentence, known)
            if score > 0:
                heapq.heappush(best, (score, -place, sentence.text))
            if len(best) > MOST_SUMMARY // _SHORTEST:
                heapq.heappop(best)
            finding = _finding(sentence)
            if finding is not None and room[finding.kind] > 0:
                key = finding.text.casefold()
                room[finding.kind] -= key not in found
                found.setdefault(key, finding)
        return Distillate(_summary(best) or _first(turns), list(found.values()))


def _first(turns: Iterable[Turn]) -> str:
    """Return the first words that somebody said, where nothing is a sentence."""
    count = 0
    for turn in turns:
        count += 1
        words = " ".join(turn.text[:_LONGEST].split())
        if words and turn.role.casefold() in SPEAKERS:
            return words
    return f"{count:,} messages without text"


def _summary(best: list[tuple[float, int, str]]) -> str:
    """Return the best sentences that there is room for, in their order, none twice."""
    chosen, room, there = list[tuple[int, str]](), MOST_SUMMARY, set[str]()
    for _, place, text in sorted(best, reverse=True):
        if text.casefold() not in there and len(text) < room:
            there.add(text.casefold())
            chosen.append((-place, text))
            room -= len(text) + 1
    return "\n".join(text for _, text in sorted(chosen))


def _sentences(turns: Iterable[Turn], before: str | None) -> Iterator[_Sentence]:
    """Yield the sentences of what was summarised before, and of what people and agents say."""
    for text in _split(before or ""):
        yield _Sentence(text, None)
    for turn in turns:
        if turn.role.casefold() in SPEAKERS:
            for text in _split(turn.text):
                yield _Sentence(text, turn)


def _split(text: str) -> Iterator[str]:
    """Yield sentences of ordinary length; what is fenced as code is not language."""
    fenced = False
    for piece in _SENTENCE.split(text):
        if _FENCE.match(piece):
            fenced = not fenced
        elif not fenced and _SHORTEST <= len(piece.strip()) <= _LONGEST:
            yield " ".join(piece.split())


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())


def _score(sentence: _Sentence, known: Counter[str]) -> float:
    """Return how much of the conversation's vocabulary a sentence has, for its length."""
    words = set(_words(sentence.text))
    shared = sum(known[word] - 1 for word in words)
    weight = 2.0 if _kind(sentence.text) is not None or sentence.turn is None else 1.0
    return weight * (1 + shared) / (8 + len(words))


def _finding(sentence: _Sentence) -> Finding | None:
    turn, kind = sentence.turn, _kind(sentence.text)
    if turn is None or kind is None or sentence.text.endswith("?"):
        return None
    if turn.role.casefold() not in _ASKS and kind not in ("decision", "open_item"):
        return None  # what an agent says of itself is no fact about whom it speaks with
    return Finding(kind, sentence.text, (turn.id,))


def _kind(text: str) -> FindingKind | None:
    return next((kind for kind, cue in _cues.items() if cue.search(text)), None)
