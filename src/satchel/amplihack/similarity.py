"""Facts that are alike: how much, and where that is kept.

What we compute of likeness can be computed again, so it is not logged: a value beside the log for
each fact, with the ids of earlier ones and how alike they are. Links that a source or a person
states are records, and come first.

A value is 34 bytes for each link: the id, the likeness in 255ths, and 1 where they contradict.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any, NamedTuple

from satchel.crypto.sealed_records import PREFIX
from satchel.ledger.erasure import DERIVED
from satchel.ledger.view import View
from satchel.model.records import Semantic
from satchel.recall.near_duplicates import NEGATIONS
from satchel.stores.matching import tokens_of
from satchel.stores.words import DENIED, STOP_WORDS

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


class ComparedFact(NamedTuple):
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

    def is_before(self, other: "ComparedFact") -> bool:
        """Tell whether it held before another did: by what was said, by time, by arrival."""
        if self.order and other.order and self.order != other.order:
            return self.order < other.order
        return (self.moment, self.place) < (other.moment, other.place)


def fact_of(identity: str, entry: Semantic, place: int) -> ComparedFact:
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
    return ComparedFact(
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


_MOSTLY, _HALF = 0.6, 0.5
_SHOWN = 100


class FactChange(NamedTuple):
    """What is different in the later one of two facts that contradict each other."""

    type: str
    """``numeric_update``, ``negation`` or ``state_change``."""

    before: str
    after: str

    @property
    def reason(self) -> str:
        """Why the later one takes the place of the earlier one, in words."""
        return f"Updated values: {self.before} -> {self.after}"

    @property
    def values(self) -> str:
        """The two against each other."""
        return f"{self.before} vs {self.after}"


def change_between(older: ComparedFact, newer: ComparedFact) -> FactChange | None:
    """Return what changed from one fact to another; None where both may hold."""
    if not _may_differ(older, newer):
        return None
    mine, theirs = older.terms - older.states, newer.terms - newer.states
    if not _same_thing(older, newer, mine, theirs):
        return None
    if older.denials % 2 != newer.denials % 2:
        return FactChange("negation", older.text[:_SHOWN], newer.text[:_SHOWN])
    if older.states != newer.states:
        turned = _turned(older, newer)
        return None if turned is None else FactChange("state_change", *turned)
    before = [one for one in older.numbers if one not in newer.numbers]
    after = [one for one in newer.numbers if one not in older.numbers]
    if before and after:
        return FactChange("numeric_update", ", ".join(before), ", ".join(after))
    return None


def _may_differ(older: ComparedFact, newer: ComparedFact) -> bool:
    """Tell quickly whether there is anything that could be a change."""
    return (
        older.numbers != newer.numbers
        or older.states != newer.states
        or (older.denials - newer.denials) % 2 == 1
    ) and (not older.terms.isdisjoint(newer.terms) or not older.concept.isdisjoint(newer.concept))


def _turned(older: ComparedFact, newer: ComparedFact) -> tuple[str, str] | None:
    """Return a state and its opposite that stands in its place."""
    for one in sorted(older.states - newer.states):
        for other in sorted(opposites()[one] & (newer.states - older.states)):
            return one, other
    return None


def _same_thing(
    older: ComparedFact, newer: ComparedFact, mine: frozenset[str], theirs: frozenset[str]
) -> bool:
    if not mine or not theirs:
        return bool(older.concept) and older.concept == newer.concept
    if older.concept and older.concept == newer.concept:
        return jaccard(mine, theirs) >= _HALF
    if older.concept and newer.concept and older.concept.isdisjoint(newer.concept):
        return False
    return (mine <= theirs or theirs <= mine) and jaccard(mine, theirs) >= _MOSTLY


def jaccard(one: frozenset[str], other: frozenset[str]) -> float:
    """Return how much two sets have in common, from 0 to 1; nothing is not like nothing."""
    if one == other:  # as tags and concepts of most that are compared are
        return 1.0 if one else 0.0
    both = len(one & other)
    if not both:
        return 0.0
    return both / (len(one) + len(other) - both)


SIMILAR_TO = "similar_to"
SIMILAR = f"{DERIVED}similar/"
"""Start of the names of those values; the id of the later fact follows."""

CONSIDERED = 0.2
"""Likeness from which on two facts may speak of one thing."""

LEAST = 0.3
CONTRADICTS = 0.5
"""Likeness from which on two facts are linked; from which on a contradiction is noted."""

MOST_LINKS = 8
"""Links from one fact to earlier ones at most: the most alike."""

_ID, _ROW, _STEPS = 32, 34, 255
_TOGETHER = 256


class SimilarityLink(NamedTuple):
    """A link that was computed."""

    source: str
    """Id of the later fact."""

    target: str
    weight: float
    """From 0 to 1, in steps of 1/255."""

    contradicts: bool


def likeness(one: ComparedFact, other: ComparedFact) -> float:
    """Return how alike two facts are, from 0 to 1: words half, concept 3 tenths, tags 2."""
    weight = 0.5 * jaccard(one.words, other.words)
    if one.concept and other.concept:
        weight += 0.3 * jaccard(one.concept, other.concept)
    if one.tags and other.tags:
        weight += 0.2 * jaccard(one.tags, other.tags)
    return weight


def near(fact: ComparedFact, others: Sequence[ComparedFact]) -> list[tuple[float, ComparedFact]]:
    """Return those of some facts that are at all like one, and how much, the most alike first."""
    found = [(likeness(fact, other), other.id, other) for other in others]
    found.sort(reverse=True)
    return [(weight, other) for weight, _, other in found if weight > CONSIDERED]


def alike(fact: ComparedFact, found: Sequence[tuple[float, ComparedFact]]) -> list[SimilarityLink]:
    """Return the links from a fact to the most alike of what ``near`` found."""
    return [
        SimilarityLink(
            fact.id,
            other.id,
            weight,
            weight > CONTRADICTS and change_between(other, fact) is not None,
        )
        for weight, other in found[:MOST_LINKS]
        if weight > LEAST
    ]


def packed(links: Sequence[SimilarityLink]) -> dict[str, bytes]:
    """Return the value to keep for links from one fact; none for no links."""
    rows = [
        bytes.fromhex(link.target.removeprefix(PREFIX))
        + bytes([round(link.weight * _STEPS), link.contradicts])
        for link in links
    ]
    return {SIMILAR + links[0].source.removeprefix(PREFIX): b"".join(rows)} if rows else {}


def similar_links(view: View, source: str | None = None) -> Iterator[SimilarityLink]:
    """Yield the links that were computed, of one fact or of all; both ends are current.

    Nothing proves how alike they are; that the ends are memories of the bank is proved.
    """
    digits = "" if source is None else source.removeprefix(PREFIX)
    kept = list(_unpacked(view.side(SIMILAR + digits)))
    for start in range(0, len(kept), _TOGETHER):
        some = kept[start : start + _TOGETHER]
        there = view.get(sorted({end for link in some for end in (link.source, link.target)}))
        current = {name for name, one in there.items() if one.row.retired is None}
        yield from (link for link in some if {link.source, link.target} <= current)


def _unpacked(values: Mapping[str, bytes]) -> Iterator[SimilarityLink]:
    for name in sorted(values):
        value, source = values[name], PREFIX + name.removeprefix(SIMILAR)
        for at in range(0, len(value) - len(value) % _ROW, _ROW):
            target = PREFIX + value[at : at + _ID].hex()
            yield SimilarityLink(
                source, target, value[at + _ID] / _STEPS, bool(value[at + _ID + 1])
            )
