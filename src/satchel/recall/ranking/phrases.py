"""Phrases: whether words that stand together in a question do so in a memory.

A long text has some of any question's words, wherever they stand.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise

from satchel.recall.digits import told as rounded
from satchel.recall.ranking.fusing import LEAST_RARITY
from satchel.recall.ranking.texts import Text
from satchel.stores.matching import Term, Totals, rarity

FIRST = 30
"""How many of the best memories are looked at."""

LEAST_WEIGHT = 0.05
"""Of phrases; for less they are not looked for."""

_NEAR = 2
"""Words from one to the other, at most: one may stand between them."""


def phrases(terms: Sequence[Term], texts: Mapping[int, Text]) -> dict[int, float]:
    """Return how much of a question's phrases each text has; the one with most has 1.

    Those that have nothing of them are left out. A pair of words weighs by how rare they are.

    Args:
        terms: Of the question, in its order.
        texts: The best memories, by position.
    """
    words = [term.tokens[0] for term in terms if len(term.tokens) == 1 and not term.prefix]
    pairs = [pair for pair in pairwise(words) if len(set(pair)) > 1]
    if not pairs:
        return {}
    where = {place: text.positions(set(words)) for place, text in texts.items()}
    totals = Totals(len(where), 1)
    rarities = {
        word: max(rarity(sum(word in each for each in where.values()), totals), LEAST_RARITY)
        for word in words
    }
    scores = {
        place: sum(
            rarities[one] + rarities[other]
            for one, other in pairs
            if is_near(each.get(one, ()), each.get(other, ()))
        )
        for place, each in where.items()
    }
    most = max(scores.values(), default=0.0)
    return {place: rounded(score / most) for place, score in scores.items() if score}


def is_near(some: Sequence[int], others: Sequence[int]) -> bool:
    """Tell whether places of one word are near those of another; both are in order."""
    at = 0
    for place in some:
        while at < len(others) and others[at] < place - _NEAR:
            at += 1
        if at < len(others) and others[at] <= place + _NEAR:
            return True
    return False
