"""Fusing signals with numpy; the same to the last digit as without it.

Each step adds, multiplies and divides the same numbers in the same order as the plain one does for
one memory after the other. Sums over memories are added up one by one.
"""

from collections.abc import Iterator, Sequence
from math import log
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

_COLUMNS = ("places", "lengths", "shares", "speaker", "dated", "time")


class Matrix:
    """The nominated memories of one question, as arrays.

    Memories that are added later are converted alone.

    Args:
        np: numpy.
        nominees: The memories.
    """

    def __init__(self, np: Any, nominees: Nominees) -> None:
        self._np = np
        self._nominees = nominees
        self._columns = {name: np.zeros(0, self._kind(name)) for name in _COLUMNS}
        self._numbers = dict[str, int]()
        """Of the conversations."""

        self._runs = np.zeros(0, int)
        """The number of each memory's conversation; -1 for none."""

        self._has = np.zeros((nominees.terms, 0))
        """How often each memory has each term: (terms, memories)."""

    def fused(self, weights: Weights, meant: Sequence[float]) -> Fused:
        """Return memories in order, as ``fused_plain`` does.

        Args:
            weights: Of the signals.
            meant: The cosines.
        """
        np = self._np
        self._grow()
        columns, runs = self._columns, self._runs
        places, lengths, shares = columns["places"], columns["lengths"], columns["shares"]
        near = list(_near(np, places, runs))
        parts = [(at, AROUND[far] * np.minimum(shares[at], shares[by]), by) for at, far, by in near]
        words = _around(self._by_words(lengths, near), parts)
        asking = np.array(self._nominees.asking, dtype=int)
        words[asking] *= 1 - QUESTIONS * np.minimum(1.0, BRIEF / np.maximum(lengths[asking], 1))
        words, covered = _even(np, words), self._covered()
        thread = np.zeros(len(words))
        if covered is not None:
            thread = np.where(runs < 0, words, covered[runs])
        meaning = _even(np, _around(np.array(meant), parts))
        own = (columns[name] for name in ("speaker", "dated", "time"))
        scores = _rounded(np, weighted(weights, words, meaning, thread, *own))
        best = np.lexsort((places, -scores))
        return Fused(*(each.tolist() for each in (words, meaning, thread, scores, best)))

    def _grow(self) -> None:
        """Convert the memories that were added since the last time."""
        np, nominees, start = self._np, self._nominees, len(self._runs)
        for name in _COLUMNS:
            added = np.array(getattr(nominees, name)[start:], self._kind(name))
            self._columns[name] = np.concatenate((self._columns[name], added))
        numbers = self._numbers
        runs = [
            -1 if run is None else numbers.setdefault(run, len(numbers))
            for run in nominees.runs[start:]
        ]
        self._runs = np.concatenate((self._runs, np.array(runs, int)))
        cells = [
            (term, at, often)
            for at, times in enumerate(nominees.has[start:])
            if times
            for term, often in times.items()
        ]
        has = np.zeros((nominees.terms, len(runs)))
        if cells:
            terms, memories, often = zip(*cells, strict=True)
            has[np.array(terms), np.array(memories)] = often
        self._has = np.concatenate((self._has, has), axis=1)

    def _kind(self, name: str) -> type:
        return int if name in {"places", "lengths"} else float

    def _by_words(self, lengths: Any, near: Sequence[tuple[Any, int, Any]]) -> Any:
        np, has = self._np, self._has
        times, long = has.copy(), lengths.astype(float)
        for at, far, by in near:
            if far in TOGETHER:
                longer = np.maximum(np.maximum(lengths[at], lengths[by]), 1)
                share = TOGETHER[far] * np.minimum(1.0, BRIEF / longer)
                long[at] += share * lengths[by]
                times[:, at] += share * has[:, by]
        total = sum(long.tolist())
        having = np.count_nonzero(has, axis=1).tolist()
        rarities = self._nominees.rarities(having, total)
        totals = Totals(len(lengths), total)
        return _rounded(np, bm25(dict(enumerate(times)), rarities, long, totals))

    def _covered(self) -> Any:
        """Return how much of the question each conversation covers; None where none does."""
        np, size = self._np, len(self._numbers)
        covers = np.zeros((self._nominees.terms, size), bool)
        terms, memories = np.nonzero(self._has)
        runs = self._runs[memories]
        covers[terms[runs >= 0], runs[runs >= 0]] = True
        spoken = np.zeros(size)
        for covering in covers:
            having = int(np.count_nonzero(covering))
            spoken += log(1 + (size - having + 0.5) / (having + 0.5)) * covering
        most = spoken.max(initial=0.0)
        return spoken / most if most > 0 else None


def _near(np: Any, places: Any, runs: Any) -> Iterator[tuple[Any, int, Any]]:
    """Yield the numbers of turns, and of those that are so far from them, for each distance."""
    order = np.argsort(places)
    there = places[order]
    for far in AROUND:
        found = np.minimum(np.searchsorted(there, places + far), len(there) - 1)
        by = order[found]
        at = np.flatnonzero((there[found] == places + far) & (runs[by] == runs) & (runs >= 0))
        yield at, far, by[at]


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
