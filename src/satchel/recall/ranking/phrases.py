"""Phrases: whether words that stand together in a question do so in a memory.

A long text has some of any question's words, wherever they stand. How much that counts goes by
how long the nominated memories are; among short ones it is left out.
"""

from collections.abc import Mapping, Sequence
from itertools import islice, pairwise

from msgspec import structs

from satchel.ports.rows import Row
from satchel.recall.digits import told as rounded
from satchel.recall.ranking.fusing import LEAST_RARITY, Signals, in_order
from satchel.recall.ranking.texts import known
from satchel.stores.matching import Term, Totals, rarity

FIRST = 30
"""How many of the best are looked at."""

_LEAST_WEIGHT = 0.05
_NEAR = 2
"""Words from one to the other, at most: one may stand between them."""


def with_phrases(
    terms: Sequence[Term], rows: Mapping[int, Row], signals: dict[int, Signals]
) -> dict[int, Signals]:
    """Return signals best first, those of the first thirty with what their phrases count.

    Args:
        terms: Of the question, in its order.
        rows: The memories, by position.
        signals: Of them, best first.
    """
    first = dict(islice(signals.items(), FIRST))
    weight = next((one.weights.phrase for one in first.values()), 0.0)
    words = [term.tokens[0] for term in terms if len(term.tokens) == 1 and not term.prefix]
    pairs = [pair for pair in pairwise(words) if len(set(pair)) > 1]
    if weight < _LEAST_WEIGHT or not pairs:
        return signals
    where = {place: _places(known(rows[place]).tokens, frozenset(words)) for place in first}
    totals = Totals(len(where), 1)
    rarities = {
        word: max(rarity(sum(word in each for each in where.values()), totals), LEAST_RARITY)
        for word in words
    }
    scores = {
        place: rounded(
            sum(
                rarities[one] + rarities[other]
                for one, other in pairs
                if _is_near(each.get(one, ()), each.get(other, ()))
            )
        )
        for place, each in where.items()
    }
    most = max(scores.values())
    if not most:
        return signals
    found = {
        place: structs.replace(one, phrase=rounded(scores[place] / most))
        for place, one in first.items()
    }
    return in_order(signals | found)


def _places(tokens: Sequence[str], words: frozenset[str]) -> dict[str, list[int]]:
    found = dict[str, list[int]]()
    for at, token in enumerate(tokens):
        if token in words:
            found.setdefault(token, []).append(at)
    return found


def _is_near(some: Sequence[int], others: Sequence[int]) -> bool:
    """Tell whether places of one word are near those of another; both are in order."""
    at = 0
    for place in some:
        while at < len(others) and others[at] < place - _NEAR:
            at += 1
        if at < len(others) and others[at] <= place + _NEAR:
            return True
    return False
