"""Fusing signals with numpy; the same to the last digit as without it.

Each step adds, multiplies and divides the same numbers in the same order as the plain one does for
one memory after the other. Sums over memories are added up one by one.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from satchel.recall.digits import PLACES
from satchel.recall.ranking.fusing import (
    AROUND,
    BRIEF,
    QUESTIONS,
    TOGETHER,
    Fused,
    Nominees,
    Weights,
    weighted,
)
from satchel.stores.matching import Totals, bm25


def fused_matrix(np: Any, one: Nominees, weights: Weights, meant: Sequence[float]) -> Fused:
    """Return memories in order, as ``fused_plain`` does.

    Args:
        np: numpy.
        one: The memories.
        weights: Of the signals.
        meant: The cosines.
    """
    names = dict[str, int]()
    for run in one.runs:
        if run is not None:
            names.setdefault(run, len(names))
    runs = np.array([-1 if run is None else names[run] for run in one.runs])
    places, lengths, shares = map(np.array, (one.places, one.lengths, one.shares))
    near = list(_near(np, places, runs))
    parts = [(at, AROUND[far] * np.minimum(shares[at], shares[by]), by) for at, far, by in near]
    words = _around(_by_words(np, one, lengths, near), parts)
    asking = np.array(one.asking, dtype=int)
    words[asking] *= 1 - QUESTIONS * np.minimum(1.0, BRIEF / np.maximum(lengths[asking], 1))
    words, covered = _even(np, words), one.covered()
    thread = np.zeros(len(words))
    if covered:
        thread = np.where(runs < 0, words, np.array([covered[run] for run in names])[runs])
    meaning = _even(np, _around(np.array(meant), parts))
    own = map(np.array, (one.speaker, one.dated, one.time))
    scores = _rounded(np, weighted(weights, words, meaning, thread, *own))
    best = np.lexsort((places, -scores))
    return Fused(*(each.tolist() for each in (words, meaning, thread, scores, best)))


def _near(np: Any, places: Any, runs: Any) -> Iterator[tuple[Any, int, Any]]:
    """Yield the numbers of turns, and of those that are so far from them, for each distance."""
    order = np.argsort(places)
    there = places[order]
    for far in AROUND:
        found = np.minimum(np.searchsorted(there, places + far), len(there) - 1)
        by = order[found]
        at = np.flatnonzero((there[found] == places + far) & (runs[by] == runs) & (runs >= 0))
        yield at, far, by[at]


def _by_words(np: Any, one: Nominees, lengths: Any, near: Sequence[tuple[Any, int, Any]]) -> Any:
    has = np.zeros((one.terms, len(lengths)))
    for at, each in enumerate(one.has):
        for term, number in each.items():
            has[term, at] = number
    times, long = has.copy(), lengths.astype(float)
    for at, far, by in near:
        if far in TOGETHER:
            longer = np.maximum(np.maximum(lengths[at], lengths[by]), 1)
            share = TOGETHER[far] * np.minimum(1.0, BRIEF / longer)
            long[at] += share * lengths[by]
            times[:, at] += share * has[:, by]
    total = sum(long.tolist())
    rarities, totals = one.rarities(total), Totals(len(lengths), total)
    return _rounded(np, bm25(dict(enumerate(times)), rarities, long, totals))


def _around(scores: Any, parts: Sequence[tuple[Any, Any, Any]]) -> Any:
    found = scores.copy()
    for at, part, by in parts:
        found[at] += part * scores[by]
    return found


def _even(np: Any, scores: Any) -> Any:
    most = scores.max()
    return _rounded(np, scores / most) if most > 0 else np.zeros(len(scores))


def _rounded(np: Any, scores: Any) -> Any:
    return np.rint(scores * PLACES) / PLACES
