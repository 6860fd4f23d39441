"""Fusing the signals of how well memories match a question.

Each signal is divided by its largest value among the nominated memories, so that it is between 0
and 1 whatever its unit, and their weighted sum orders. How the weights were chosen, and what was
tried besides, is in docs/decisions/0088 and 0099.

- **words**: BM25 of the memory's own words. A turn of a conversation is scored together with a
  weighted part of the turns around it, bounded by length: a long answer does not swamp the short
  turns beside it.
- **meaning**: the cosine of the vectors; a turn also counts a part of its neighbours'.
- **thread**: how much of the question the whole conversation covers.
- **speaker**: whether the question names who said it.
- **dated**: whether it names a time, where the question asks for one ("when"), or the very time
  that the question names; "yesterday" counts from when it was said.
- **time**: whether it is, or says that it is, of the time that the question names ("last May").
- **phrase**: whether words that stand together in the question do so in it; of the best alone, and
  the less, the shorter memories are.
- **reranked**: how well a reranker finds that it answers, where one is configured; of the best
  alone.
- **linked**: a part of the score of another memory that an edge connects it with.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import log
from typing import Any, NamedTuple

import msgspec

from satchel.stores.matching import CorpusTotals, bm25, rarity

PLACES = 1e6


def round_score(score: float) -> float:
    """Return a score with six digits behind the point.

    Stores and ways of reckoning add up in an order of their own; what is behind is noise. Not
    ``round(score, 6)``, which works the digits out as text: a question rounds a thousand scores.
    """
    return round(score * PLACES) / PLACES


WORDS, LINKED = 1.0, 0.5
"""The weight of words; and the part of another memory's whole score that an edge brings."""

RERANKED = 1.0
"""The weight of a reranker, for the best memories alone: the others have less before it already."""

AROUND = {-2: 0.3, -1: 0.5, 1: 0.5, 2: 0.3}
"""What a turn counts of its neighbours' scores, by their distance in the log."""

TOGETHER = {-2: 0.5, -1: 1.0, 1: 0.5}
"""What a turn counts of its neighbours' words, as if they were its own, by their distance."""

SHORT, BRIEF = 75, 30
"""Words up to which a turn shares its score, and its words; the longer it is, the less."""

SHORT_BYTES = 500
"""Bytes of a memory outside conversations that count as short."""

LEAST_RARITY = 0.2
"""What a term counts that most of the nominated memories have."""

QUESTIONS = 0.2
"""The part of the score for words that a brief question loses: it seldom answers another."""

Scores = Mapping[int, float]
"""By the positions of memories in the log."""


class SignalWeights(msgspec.Struct, frozen=True, gc=False):
    """The weights of the signals besides words."""

    meaning: float = 0.7
    long: float = 1.0
    """How much more meaning counts, as a part of it, where all nominated memories are long."""

    thread: float = 0.7
    speaker: float = 0.4
    dated: float = 0.5
    time: float = 1.0
    phrase: float = 1.0
    """Where all nominated memories are long; the less, the shorter they are."""


USUAL = SignalWeights()

_WEIGHTS = {"all-MiniLM-L6-v2-int8": SignalWeights(meaning=1.1, long=2.0)}
"""By the model of the vectors; see docs/decisions/0088."""


def weights_of(model: str | None) -> SignalWeights:
    """Return the weights of the signals where vectors of a model are compared."""
    return USUAL if model is None else _WEIGHTS.get(model, USUAL)


class Signals(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Why a memory has its rank; each between 0 and 1, before it is weighted."""

    words: float = 0.0
    meaning: float = 0.0
    thread: float = 0.0
    speaker: float = 0.0
    dated: float = 0.0
    time: float = 0.0
    phrase: float = 0.0
    """Whether words that stand together in the question do so in it; of the best alone."""

    reranked: float = 0.0
    """How well a reranker finds that it answers, from 0 for the worst of the best to 1."""

    linked: float = 0.0
    """The part of its score that it has from another memory, not weighted again."""

    cosine: float | None = None
    """The cosine of its vector and the question's; None without a vector."""

    linked_to: str | None = None
    """Id of the memory that it has that part from."""

    weights: SignalWeights = USUAL

    @property
    def score(self) -> float:
        """The weighted sum."""
        own = self.words, self.meaning, self.thread, self.speaker, self.dated, self.time
        best = self.weights.phrase * self.phrase + RERANKED * self.reranked
        return round_score(weighted(self.weights, *own) + best + self.linked)


def weighted(  # noqa: PLR0913 - an argument a signal
    by: SignalWeights, words: Any, meaning: Any, thread: Any, speaker: Any, dated: Any, time: Any
) -> Any:
    """Return the weighted sum of signals: of numbers, or of arrays of them."""
    whole = WORDS * words + by.meaning * meaning + by.thread * thread
    return whole + (by.speaker * speaker + by.dated * dated + by.time * time)


class Nominees:
    """What of the nominated memories depends on each by itself, for one question.

    In columns, which go by the order in which they were added.
    """

    def __init__(self, terms: int) -> None:
        self.terms = terms
        """How many the question has."""

        self.places = list[int]()
        self.runs = list[str | None]()
        """The conversation of each that is a turn of one."""

        self.lengths = list[int]()
        """How many words each has, where any is a turn."""

        self.shares = list[float]()
        """What counts of each beside others: 1, or less the longer it is."""

        self.asking = list[int]()
        """The numbers of the turns that ask."""

        self.has = list[Mapping[int, int]]()
        """How often each has each term of the question, by the term's number and in that order."""

        self.speaker = list[float]()
        self.dated = list[float]()
        self.time = list[float]()

    def rarities(self, having: Iterable[int], lengths: float) -> list[float]:
        """Return what each term counts.

        Args:
            having: How many of the memories have each.
            lengths: Of all of the memories together.
        """
        totals = CorpusTotals(len(self.places), lengths)
        return [max(rarity(each, totals), LEAST_RARITY) for each in having]

    def masks(self) -> list[int]:
        """Return which terms each has, as bits."""
        return [sum([1 << at for at in each]) if each else 0 for each in self.has]

    def covered(self) -> dict[str, float]:
        """Return how much of the question each conversation covers.

        A term counts by how few of the conversations have it. Nothing where none covers anything.
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
        """Return how long the memories are: 0 where all are short, towards 1 the longer."""
        shares = list(zip(self.shares, self.runs, strict=True))
        found = [share for share, run in shares if run is not None]
        found += [share for share, run in shares if run is None]
        return 1 - sum(found) / len(found) if found else 0.0


class FusedScores(NamedTuple):
    """Nominated memories in order. Columns go by the order in which they were added."""

    words: Sequence[float]
    meaning: Sequence[float]
    thread: Sequence[float]
    scores: Sequence[float]
    best: Sequence[int]
    """The numbers of all, best first; equal ones in log order."""


def fused_plain(one: Nominees, weights: SignalWeights, meant: Sequence[float]) -> FusedScores:
    """Return memories in order, some of which are turns of conversations, without numpy.

    Args:
        one: The memories.
        weights: Of the signals.
        meant: The cosines.
    """
    near, shares = _near(one), one.shares
    parts = [(at, AROUND[far] * min(shares[at], shares[by]), by) for at, far, by in near]
    words = _around(_by_words(one, near), parts)
    for at in one.asking:
        words[at] *= 1 - QUESTIONS * min(1.0, BRIEF / max(one.lengths[at], 1))
    words, covered = even(words), one.covered()
    # A memory outside conversations covers as much as its own words do.
    thread = (
        [own if run is None else covered[run] for run, own in zip(one.runs, words, strict=True)]
        if covered
        else [0.0] * len(words)
    )
    return ordered(one, weights, words, even(_around(meant, parts)), thread)


def ordered(
    one: Nominees,
    weights: SignalWeights,
    words: Sequence[float],
    meaning: Sequence[float],
    thread: Sequence[float],
) -> FusedScores:
    """Return memories in order by their signals."""
    every = zip(words, meaning, thread, one.speaker, one.dated, one.time, strict=True)
    scores = [round_score(weighted(weights, *own)) for own in every]
    keys = sorted(
        (-score, place, at)
        for at, (score, place) in enumerate(zip(scores, one.places, strict=True))
    )
    return FusedScores(words, meaning, thread, scores, [at for _, _, at in keys])


def _near(one: Nominees) -> list[tuple[int, int, int]]:
    """Return the numbers of turns, and of those around them, with their distance."""
    there, runs = {place: at for at, place in enumerate(one.places)}, one.runs
    found = list[tuple[int, int, int]]()
    for place, at in there.items():
        run = runs[at]
        if run is not None:
            for far in AROUND:
                by = there.get(place + far)
                if by is not None and runs[by] == run:
                    found.append((at, far, by))
    return found


def _by_words(one: Nominees, near: Iterable[tuple[int, int, int]]) -> list[float]:
    """Return BM25 scores, turns with a part of the words of those around them.

    How rare a term is, is counted among the nominated memories.
    """
    times: list[Mapping[int, float]] = list(one.has)
    lengths = [float(length) for length in one.lengths]
    for at, far, by in near:
        part = TOGETHER.get(far)
        if part is not None:
            beside = one.lengths[by]
            share = part * min(1.0, BRIEF / max(one.lengths[at], beside, 1))
            lengths[at] += share * beside
            if one.has[by]:
                together = dict[int, float](times[at])
                for term, number in one.has[by].items():
                    together[term] = together.get(term, 0) + share * number
                times[at] = together
    total = sum(lengths)
    rarities = one.rarities(_having(one.terms, one.masks()), total)
    totals = CorpusTotals(len(lengths), total)
    return [
        round_score(bm25(each, rarities, length, totals))
        for each, length in zip(times, lengths, strict=True)
    ]


def _around(scores: Sequence[float], parts: Iterable[tuple[int, float, int]]) -> list[float]:
    """Return scores with a part of those of the turns around, less where either is long."""
    found = list(scores)
    for at, part, by in parts:
        found[at] += part * scores[by]
    return found


def even(scores: Sequence[float]) -> list[float]:
    """Return scores as parts of the largest."""
    most = max(scores, default=0.0)
    return [round_score(score / most) if most > 0 else 0.0 for score in scores]


def _having(count: int, masks: Iterable[int]) -> list[int]:
    """Return in how many masks each of so many bits is."""
    often = Counter(masks).items()
    return [sum([times for mask, times in often if mask >> at & 1]) for at in range(count)]


def _total(rarities: Sequence[float], mask: int) -> float:
    total = 0.0
    for at, rare in enumerate(rarities):
        if mask >> at & 1:
            total += rare
    return total
