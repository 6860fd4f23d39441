"""What is compared of a fact: its words, its numbers, whether it denies, and when it held."""

import re
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any, NamedTuple

from satchel.memory.entries import Semantic
from satchel.stores._stop_words import DENIED, STOP_WORDS
from satchel.stores.matching import tokens_of
from satchel.transfer.near._words import NEGATIONS

INDEX = "temporal_index"
"""Member of a fact's metadata that says its place in the order of what happened, from 1."""

_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")  # noqa: RUF001 - both apostrophes
_QUANTITY = re.compile(r"[-+~<>=$€£]*(\d+(?:[.,]\d+)?)(?:%|[a-z]{1,3})?", re.IGNORECASE)
_DENIED = re.compile(r"n['’]t\b", re.IGNORECASE)  # noqa: RUF001 - idem
_DIGIT = re.compile(r"\d")
_AROUND = ".,;:!?()[]{}<>\"'`*"
_NAMED = frozenset({"version", "release", "build", "in", "since", "until", "port", "id", "number"})
"""Words after which a number names something, such as a year, and is none of how many."""

_YEARS = range(1900, 2100)
_MOST_CHARACTERS = 4096
_MOST_TOKENS = 128

PAIRS = (
    "enabled disabled|enables disables|on off|true false|open closed|opens closes|up down"
    "|allowed forbidden|allowed denied|allows denies|allows forbids|active inactive"
    "|started stopped|starts stops|increased decreased|increases decreases|always never"
    "|available unavailable|supported unsupported|public private|required optional|passed failed"
    "|passes fails|online offline|valid invalid|accepted rejected|accepts rejects|added removed"
    "|likes dislikes|likes hates|loves hates|prefers avoids|healthy unhealthy|locked unlocked"
    "|connected disconnected|installed uninstalled|synchronous asynchronous|safe unsafe"
)
"""Words of which the one in the place of the other turns what is said into its opposite."""


class Fact(NamedTuple):
    """A fact as it is compared."""

    id: str
    terms: frozenset[str]
    """Stems of its words, without those that say nothing alone, denials and numbers."""

    words: frozenset[str]
    """Those, and its quantities."""

    concept: frozenset[str]
    tags: frozenset[str]
    numbers: tuple[str, ...]
    """Quantities in their order; no dates, versions, ids."""

    states: frozenset[str]
    """Stems that have an opposite."""

    denials: int
    order: int
    """Its place in the order of what happened, where that was said; 0 otherwise."""

    moment: str
    """When it happened, else was made; empty where nobody knows."""

    place: int
    """In the log, or behind it for one that is not logged yet."""

    text: str
    """The start of it."""

    def is_before(self, other: "Fact") -> bool:
        """Tell whether it held before another did: by what was said, by time, by arrival."""
        if self.order and other.order and self.order != other.order:
            return self.order < other.order
        return (self.moment, self.place) < (other.moment, other.place)


def fact_of(identity: str, entry: Semantic, place: int) -> Fact:
    """Return what is compared of an entry.

    Args:
        identity: Its id.
        entry: The entry; what it says in words is its text.
        place: In the log, or where it would be.
    """
    text = (entry.text or "")[:_MOST_CHARACTERS]
    tokens = tokens_of(text)
    index = entry.metadata.get(INDEX)
    terms, numbers = _telling(tokens), quantities(text)
    return Fact(
        id=identity,
        terms=terms,
        words=terms.union(numbers) if numbers else terms,
        concept=_concept(entry.subject or ""),
        tags=frozenset(map(str.casefold, entry.tags)),
        numbers=numbers,
        states=opposed().intersection(tokens),
        denials=_denials(text),
        order=index if type(index) is int and index > 0 else 0,
        moment=entry.occurred_at or entry.created_at or "",
        place=place,
        text=text[:200],
    )


def quantities(text: str) -> tuple[str, ...]:
    """Return the numbers in a text that say how many or how much, in their order."""
    if _DIGIT.search(text) is None:
        return ()
    found, before = list[str](), ""
    for raw in text.split():
        word = raw.strip(_AROUND)
        if before not in _NAMED and _DIGIT.search(word) is not None:
            match = _QUANTITY.fullmatch(word)
            if match is not None and not _is_year(word):
                found.append(match[1])
        before = word.casefold()
    return tuple(found)


def _is_year(word: str) -> bool:
    return len(word) == len("2026") and word.isdecimal() and int(word) in _YEARS


@cache
def opposites() -> dict[str, frozenset[str]]:
    """Return the stems that have an opposite, and which."""
    found = dict[str, frozenset[str]]()
    for pair in PAIRS.split("|"):
        one, other = (tokens_of(word)[0] for word in pair.split())
        found[one] = found.get(one, frozenset()) | {other}
        found[other] = found.get(other, frozenset()) | {one}
    return found


@cache
def opposed() -> frozenset[str]:
    """Return the stems that have an opposite."""
    return frozenset(opposites())


def _telling(tokens: Sequence[str]) -> frozenset[str]:
    silent = _silent()
    return frozenset(
        [one for one in tokens[:_MOST_TOKENS] if one not in silent and not one.isdigit()]
    )


@lru_cache(4096)
def _concept(text: str) -> frozenset[str]:
    return frozenset(tokens_of(text[:_MOST_CHARACTERS])) - _silent()


@cache
def _silent() -> frozenset[str]:
    words: Any = STOP_WORDS | DENIED | NEGATIONS | {"currently", "longer", "anymore", "now"}
    return frozenset(words) | frozenset(tokens_of(" ".join(sorted(words))))


def _denials(text: str) -> int:
    words = _WORD.findall(text.casefold())
    denied = len([word for word in words if word in NEGATIONS])
    return denied + len(_DENIED.findall(text)) if "’" in text or "'" in text else denied  # noqa: RUF001 - idem
