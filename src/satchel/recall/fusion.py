"""Fusing the signals of how well memories match a query into one score.

Each signal is divided by its largest value among the nominated memories, so that it is between 0
and 1 whatever its unit; their weighted sum is the score. docs/decisions/0088 and 0099 explain the
weights and the alternatives.

- **words**: BM25 of the memory's words. A turn of a conversation also gets a weighted part of the
  turns around it, limited by length, so that a long answer does not dominate the short turns
  beside it.
- **meaning**: the cosine of the vectors; a turn also gets a part of its neighbours'.
- **thread**: how much of the query the whole conversation covers.
- **speaker**: whether the query names its speaker.
- **dated**: whether it names a time, if the query asks for one ("when"), or the very time that the
  query names; "yesterday" is relative to when it was said.
- **time**: whether it is of the time that the query names ("last May"), by its date or its text.
- **phrase**: how much of the query's pairs of neighbouring words it contains; only for the best
  memories, and weighted less the shorter memories are.
- **reranked**: the score of the configured reranker; only for the best memories.
- **linked**: a part of the score of another memory that an edge links it with.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import log
from typing import Any, NamedTuple

import msgspec

from satchel.bank.memory import ScoreParts
from satchel.stores.text_search import CorpusTotals, bm25, rarity

PLACES = 1e6


def round_score(score: float) -> float:
    """Return a score rounded to six digits.

    Stores add up in different orders, so further digits are noise. ``round(score, 6)`` is slower,
    and a query rounds a thousand scores.
    """
    return round(score * PLACES) / PLACES


WORDS, LINKED = 1.0, 0.5
"""The weight of words; and the part of a score that an edge passes on."""

RERANKED = 1.0
"""The weight of the reranker, for the best memories only; the others score less already."""

AROUND = {-2: 0.3, -1: 0.5, 1: 0.5, 2: 0.3}
"""The part of its neighbours' scores that a turn gets, by their distance in the log."""

TOGETHER = {-2: 0.5, -1: 1.0, 1: 0.5}
"""The part of its neighbours' words that count as its own, by their distance in the log."""

SHORT, BRIEF = 75, 30
"""Words up to which a turn fully shares its score (``SHORT``) and its words (``BRIEF``)."""

SHORT_BYTES = 500
"""Bytes of a memory outside conversations that count as short."""

LEAST_RARITY = 0.2
"""The lowest weight of a term, for one that most of the nominated memories have."""

QUESTIONS = 0.2
"""The part of the words score that a short turn loses if it is a question itself."""

Scores = Mapping[int, float]
"""Scores by log position."""


class SignalWeights(msgspec.Struct, frozen=True, gc=False):
    """The weights of the signals besides words."""

    meaning: float = 0.7
    long: float = 1.0
    """By how much the weight of meaning grows, as a part of it, if all nominees are long."""

    thread: float = 0.7
    speaker: float = 0.4
    dated: float = 0.5
    time: float = 1.0
    phrase: float = 1.0
    """If all nominees are long; less, the shorter they are."""


DEFAULT_WEIGHTS = SignalWeights()

_WEIGHTS = {"all-MiniLM-L6-v2-int8": SignalWeights(meaning=1.1, long=2.0)}
"""Weights by the model of the vectors; see docs/decisions/0088."""


def weights_of(model: str | None) -> SignalWeights:
    """Return the weights of the signals for vectors of a model."""
    return DEFAULT_WEIGHTS if model is None else _WEIGHTS.get(model, DEFAULT_WEIGHTS)


class Signals(ScoreParts, frozen=True, kw_only=True, gc=False):
    """The parts of a memory's score, with their weights."""

    words: float = 0.0
    meaning: float = 0.0
    thread: float = 0.0
    speaker: float = 0.0
    linked: float = 0.0
    weights: SignalWeights = DEFAULT_WEIGHTS

    @property
    def score(self) -> float:
        """The weighted sum."""
        own = self.words, self.meaning, self.thread, self.speaker, self.dated, self.time
        best = self.weights.phrase * self.phrase + RERANKED * self.reranked
        return round_score(weighted_sum(self.weights, *own) + best + self.linked)


def weighted_sum(  # noqa: PLR0913 - an argument a signal
    by: SignalWeights, words: Any, meaning: Any, thread: Any, speaker: Any, dated: Any, time: Any
) -> Any:
    """Return the weighted sum of signals, which are numbers or arrays."""
    total = WORDS * words + by.meaning * meaning + by.thread * thread
    return total + (by.speaker * speaker + by.dated * dated + by.time * time)


class Nominees:
    """The nominated memories of a query: everything that depends on each memory alone.

    Columns, in the order in which memories were added.
    """

    def __init__(self, terms: int) -> None:
        self.terms = terms
        """Number of terms of the query."""

        self.places = list[int]()
        self.runs = list[str | None]()
        """The conversation of each turn; None for other memories."""

        self.lengths = list[int]()
        """Number of words of each, if any memory is a turn."""

        self.shares = list[float]()
        """The part of each that its neighbours get: 1, or less the longer it is."""

        self.asking = list[int]()
        """Indices of the turns that are questions."""

        self.has = list[Mapping[int, int]]()
        """Occurrences of each term in each memory, by the term's number and in that order."""

        self.speaker = list[float]()
        self.dated = list[float]()
        self.time = list[float]()

    def rarities(self, having: Iterable[int], lengths: float) -> list[float]:
        """Return the weight of each term.

        Args:
            having: Number of memories that have each term.
            lengths: Total length of all memories.
        """
        totals = CorpusTotals(len(self.places), lengths)
        return [max(rarity(each, totals), LEAST_RARITY) for each in having]

    def masks(self) -> list[int]:
        """Return the terms of each memory, as bits."""
        return [sum([1 << at for at in each]) if each else 0 for each in self.has]

    def covered(self) -> dict[str, float]:
        """Return how much of the query each conversation covers; empty if none covers any of it.

        Terms are weighted by how few of the conversations have them.
        """
        masks = dict[str, int]()
        for run, mask in zip(self.runs, self.masks(), strict=True):
            if run is not None:
                masks[run] = masks.get(run, 0) | mask
        size, having = len(masks), _having(self.terms, masks.values())
        rare = [log(1 + (size - each + 0.5) / (each + 0.5)) for each in having]
        spoken = {mask: _total(rare, mask) for mask in set(masks.values())}
        most = max(spoken.values(), default=0.0)
        return {run: spoken[mask] / most for run, mask in masks.items()} if most else {}

    def length(self) -> float:
        """Return how long the memories are: 0 if all are short, up to 1."""
        shares = list(zip(self.shares, self.runs, strict=True))
        ordered = [share for share, run in shares if run is not None]
        ordered += [share for share, run in shares if run is None]
        return 1 - sum(ordered) / len(ordered) if ordered else 0.0


class FusedScores(NamedTuple):
    """Scores and signals of nominated memories, in the order in which they were added."""

    words: Sequence[float]
    meaning: Sequence[float]
    thread: Sequence[float]
    scores: Sequence[float]
    best: Sequence[int]
    """Indices of all, best first; equal ones in log order."""


def fuse_plain(nominees: Nominees, weights: SignalWeights, cosines: Sequence[float]) -> FusedScores:
    """Return the scores of memories, some of which are turns, without numpy.

    Args:
        nominees: The memories.
        weights: Weights of the signals.
        cosines: Cosine of each memory.
    """
    near, shares = _neighbours(nominees), nominees.shares
    parts = [(at, AROUND[far] * min(shares[at], shares[by]), by) for at, far, by in near]
    words = _with_neighbours(_word_scores(nominees, near), parts)
    for at in nominees.asking:
        words[at] *= 1 - QUESTIONS * min(1.0, BRIEF / max(nominees.lengths[at], 1))
    words, covered = normalized(words), nominees.covered()
    # A memory outside conversations covers as much as its own words do.
    runs = nominees.runs
    thread = (
        [own if run is None else covered[run] for run, own in zip(runs, words, strict=True)]
        if covered
        else [0.0] * len(words)
    )
    meaning = normalized(_with_neighbours(cosines, parts))
    return fuse_signals(nominees, weights, words, meaning, thread)


def fuse_signals(
    nominees: Nominees,
    weights: SignalWeights,
    words: Sequence[float],
    meaning: Sequence[float],
    thread: Sequence[float],
) -> FusedScores:
    """Return the scores of memories from their signals."""
    columns = (nominees.speaker, nominees.dated, nominees.time)
    scores = [
        round_score(weighted_sum(weights, *signals))
        for signals in zip(words, meaning, thread, *columns, strict=True)
    ]
    keys = sorted(
        (-score, position, at)
        for at, (score, position) in enumerate(zip(scores, nominees.places, strict=True))
    )
    return FusedScores(words, meaning, thread, scores, [at for _, _, at in keys])


def _neighbours(nominees: Nominees) -> list[tuple[int, int, int]]:
    """Return the indices of turns and of the turns around them, with their distance between."""
    indices, runs = {position: at for at, position in enumerate(nominees.places)}, nominees.runs
    pairs = list[tuple[int, int, int]]()
    for position, at in indices.items():
        run = runs[at]
        if run is not None:
            for far in AROUND:
                neighbour = indices.get(position + far)
                if neighbour is not None and runs[neighbour] == run:
                    pairs.append((at, far, neighbour))
    return pairs


def _word_scores(nominees: Nominees, near: Iterable[tuple[int, int, int]]) -> list[float]:
    """Return BM25 scores; turns get a part of the words of the turns around them.

    The rarity of terms is that among the nominated memories.
    """
    times: list[Mapping[int, float]] = list(nominees.has)
    lengths = [float(length) for length in nominees.lengths]
    for at, far, by in near:
        part = TOGETHER.get(far)
        if part is not None:
            beside = nominees.lengths[by]
            share = part * min(1.0, BRIEF / max(nominees.lengths[at], beside, 1))
            lengths[at] += share * beside
            if nominees.has[by]:
                combined = dict[int, float](times[at])
                for term, number in nominees.has[by].items():
                    combined[term] = combined.get(term, 0) + share * number
                times[at] = combined
    total = sum(lengths)
    rarities = nominees.rarities(_having(nominees.terms, nominees.masks()), total)
    totals = CorpusTotals(len(lengths), total)
    return [
        round_score(bm25(each, rarities, length, totals))
        for each, length in zip(times, lengths, strict=True)
    ]


def _with_neighbours(
    scores: Sequence[float], parts: Iterable[tuple[int, float, int]]
) -> list[float]:
    """Return scores with the parts that turns get of the turns around them."""
    total = list(scores)
    for at, part, by in parts:
        total[at] += part * scores[by]
    return total


def normalized(scores: Sequence[float]) -> list[float]:
    """Return scores divided by the largest."""
    most = max(scores, default=0.0)
    return [round_score(score / most) if most > 0 else 0.0 for score in scores]


def _having(count: int, masks: Iterable[int]) -> list[int]:
    """Return for each of so many bits the number of masks that have it."""
    often = Counter(masks).items()
    return [sum([times for mask, times in often if mask >> at & 1]) for at in range(count)]


def _total(rarities: Sequence[float], mask: int) -> float:
    total = 0.0
    for at, rare in enumerate(rarities):
        if mask >> at & 1:
            total += rare
    return total
