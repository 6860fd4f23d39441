"""Facts that are alike: how much, and where that is kept.

What we compute of likeness can be computed again, so it is not logged: a value beside the log for
each fact, with the ids of earlier ones and how alike they are. Links that a source or a person
states are records, and come first.

A value is 34 bytes for each link: the id, the likeness in 255ths, and 1 where they contradict.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from satchel.ledger.erasure.targets import DERIVED
from satchel.ledger.view import View
from satchel.seal.records import PREFIX
from satchel.tiers.contradicting import change_between, jaccard
from satchel.tiers.facts import Fact

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


class Alike(NamedTuple):
    """A link that was computed."""

    source: str
    """Id of the later fact."""

    target: str
    weight: float
    """From 0 to 1, in steps of 1/255."""

    contradicts: bool


def likeness(one: Fact, other: Fact) -> float:
    """Return how alike two facts are, from 0 to 1: words half, concept 3 tenths, tags 2."""
    weight = 0.5 * jaccard(one.words, other.words)
    if one.concept and other.concept:
        weight += 0.3 * jaccard(one.concept, other.concept)
    if one.tags and other.tags:
        weight += 0.2 * jaccard(one.tags, other.tags)
    return weight


def near(fact: Fact, others: Sequence[Fact]) -> list[tuple[float, Fact]]:
    """Return those of some facts that are at all like one, and how much, the most alike first."""
    found = [(likeness(fact, other), other.id, other) for other in others]
    found.sort(reverse=True)
    return [(weight, other) for weight, _, other in found if weight > CONSIDERED]


def alike(fact: Fact, found: Sequence[tuple[float, Fact]]) -> list[Alike]:
    """Return the links from a fact to the most alike of what ``near`` found."""
    return [
        Alike(
            fact.id,
            other.id,
            weight,
            weight > CONTRADICTS and change_between(other, fact) is not None,
        )
        for weight, other in found[:MOST_LINKS]
        if weight > LEAST
    ]


def packed(links: Sequence[Alike]) -> dict[str, bytes]:
    """Return the value to keep for links from one fact; none for no links."""
    rows = [
        bytes.fromhex(link.target.removeprefix(PREFIX))
        + bytes([round(link.weight * _STEPS), link.contradicts])
        for link in links
    ]
    return {SIMILAR + links[0].source.removeprefix(PREFIX): b"".join(rows)} if rows else {}


def similar_links(view: View, source: str | None = None) -> Iterator[Alike]:
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


def _unpacked(values: Mapping[str, bytes]) -> Iterator[Alike]:
    for name in sorted(values):
        value, source = values[name], PREFIX + name.removeprefix(SIMILAR)
        for at in range(0, len(value) - len(value) % _ROW, _ROW):
            target = PREFIX + value[at : at + _ID].hex()
            yield Alike(source, target, value[at + _ID] / _STEPS, bool(value[at + _ID + 1]))
