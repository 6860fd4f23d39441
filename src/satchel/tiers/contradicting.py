"""Whether two facts about one thing cannot both hold, and what changed from one to the other.

Three ways: another quantity ("4 workers", "8 workers"), a denial ("uses", "does not use"), the
opposite state ("enabled", "disabled"). Dates, versions and ids are no quantities. They must speak
of one thing: nearly the same words, or the same concept and half of them. Where each has a word
that the other lacks, a name may have taken another's place, and nothing is said without a concept.
"""

from typing import NamedTuple

from satchel.tiers.facts import Fact, opposites

_MOSTLY, _HALF = 0.6, 0.5
_SHOWN = 100


class Change(NamedTuple):
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


def change_between(older: Fact, newer: Fact) -> Change | None:
    """Return what changed from one fact to another; None where both may hold."""
    if not _may_differ(older, newer):
        return None
    mine, theirs = older.terms - older.states, newer.terms - newer.states
    if not _same_thing(older, newer, mine, theirs):
        return None
    if older.denials % 2 != newer.denials % 2:
        return Change("negation", older.text[:_SHOWN], newer.text[:_SHOWN])
    if older.states != newer.states:
        turned = _turned(older, newer)
        return None if turned is None else Change("state_change", *turned)
    before = [one for one in older.numbers if one not in newer.numbers]
    after = [one for one in newer.numbers if one not in older.numbers]
    if before and after:
        return Change("numeric_update", ", ".join(before), ", ".join(after))
    return None


def _may_differ(older: Fact, newer: Fact) -> bool:
    """Tell quickly whether there is anything that could be a change."""
    return (
        older.numbers != newer.numbers
        or older.states != newer.states
        or (older.denials - newer.denials) % 2 == 1
    ) and (not older.terms.isdisjoint(newer.terms) or not older.concept.isdisjoint(newer.concept))


def _turned(older: Fact, newer: Fact) -> tuple[str, str] | None:
    """Return a state and its opposite that stands in its place."""
    for one in sorted(older.states - newer.states):
        for other in sorted(opposites()[one] & (newer.states - older.states)):
            return one, other
    return None


def _same_thing(older: Fact, newer: Fact, mine: frozenset[str], theirs: frozenset[str]) -> bool:
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
