"""Ranking the nominated memories of a query by all signals."""

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice, pairwise
from math import log
from typing import Any, NamedTuple

import msgspec
from msgspec import structs

from satchel.bank.memory import ScoreParts
from satchel.ledger.projection import Promotion, VerifiedRecord
from satchel.ledger.view import View
from satchel.model.records import Source
from satchel.model.values import Origin, TrustClass
from satchel.ports.rows import Row
from satchel.recall.texts import SearchTerms, SearchText, TimeRange, asks_when, search_text
from satchel.stores.text_search import CorpusTotals, Term, bm25, rarity

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
"""The part of its neighbors' scores that a turn gets, by their distance in the log."""

TOGETHER = {-2: 0.5, -1: 1.0, 1: 0.5}
"""The part of its neighbors' words that count as its own, by their distance in the log."""

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
        """The part of each that its neighbors get: 1, or less the longer it is."""

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
    near, shares = _neighbor_lists(nominees), nominees.shares
    parts = [(at, AROUND[far] * min(shares[at], shares[by]), by) for at, far, by in near]
    words = _add_neighbor_scores(_word_scores(nominees, near), parts)
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
    meaning = normalized(_add_neighbor_scores(cosines, parts))
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


def _neighbor_lists(nominees: Nominees) -> list[tuple[int, int, int]]:
    """Return the indices of turns and of the turns around them, with their distance between."""
    indices, runs = {position: at for at, position in enumerate(nominees.places)}, nominees.runs
    pairs = list[tuple[int, int, int]]()
    for position, at in indices.items():
        run = runs[at]
        if run is not None:
            for far in AROUND:
                neighbor = indices.get(position + far)
                if neighbor is not None and runs[neighbor] == run:
                    pairs.append((at, far, neighbor))
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


def _add_neighbor_scores(
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


_COLUMNS = ("places", "lengths", "shares", "speaker", "dated", "time")


class Matrix:
    """The nominated memories of a query as numpy arrays.

    Only memories added since the last call are converted.

    Args:
        np: numpy.
        nominees: The memories.
    """

    def __init__(self, np: Any, nominees: Nominees) -> None:
        self._np = np
        self._nominees = nominees
        self._columns = {name: np.zeros(0, self._kind(name)) for name in _COLUMNS}
        self._numbers = dict[str, int]()
        """Numbers of the conversations."""

        self._runs = np.zeros(0, int)
        """The number of each memory's conversation; -1 for none."""

        self._has = np.zeros((nominees.terms, 0))
        """Occurrences of terms in memories: (terms, memories)."""

    def fuse(self, weights: SignalWeights, cosines: Sequence[float]) -> FusedScores:
        """Return the scores of the memories, as ``fuse_plain`` does.

        Args:
            weights: Weights of the signals.
            cosines: Cosine of each memory.
        """
        np = self._np
        self._grow()
        columns, runs = self._columns, self._runs
        positions, lengths, shares = columns["places"], columns["lengths"], columns["shares"]
        near = list(_neighbors(np, positions, runs))
        parts = [(at, AROUND[far] * np.minimum(shares[at], shares[by]), by) for at, far, by in near]
        words = _with_neighbors(self._word_scores(lengths, near), parts)
        asking = np.array(self._nominees.asking, dtype=int)
        words[asking] *= 1 - QUESTIONS * np.minimum(1.0, BRIEF / np.maximum(lengths[asking], 1))
        words, covered = _normalized(np, words), self._covered()
        thread = np.zeros(len(words))
        if covered is not None:
            thread = np.where(runs < 0, words, covered[runs])
        meaning = _normalized(np, _with_neighbors(np.array(cosines), parts))
        own = (columns[name] for name in ("speaker", "dated", "time"))
        scores = _rounded(np, weighted_sum(weights, words, meaning, thread, *own))
        best = np.lexsort((positions, -scores))
        return FusedScores(*(each.tolist() for each in (words, meaning, thread, scores, best)))

    def _grow(self) -> None:
        """Convert the memories that were added since the last call."""
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

    def _word_scores(self, lengths: Any, near: Sequence[tuple[Any, int, Any]]) -> Any:
        np, has = self._np, self._has
        times, total_lengths = has.copy(), lengths.astype(float)
        for at, far, by in near:
            if far in TOGETHER:
                longer = np.maximum(np.maximum(lengths[at], lengths[by]), 1)
                share = TOGETHER[far] * np.minimum(1.0, BRIEF / longer)
                total_lengths[at] += share * lengths[by]
                times[:, at] += share * has[:, by]
        total = sum(total_lengths.tolist())
        having = np.count_nonzero(has, axis=1).tolist()
        rarities = self._nominees.rarities(having, total)
        totals = CorpusTotals(len(lengths), total)
        return _rounded(np, bm25(dict(enumerate(times)), rarities, total_lengths, totals))

    def _covered(self) -> Any:
        """Return how much of the query each conversation covers; None if none covers any."""
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


def _neighbors(np: Any, positions: Any, runs: Any) -> Iterator[tuple[Any, int, Any]]:
    """Yield for each distance the indices of turns and of the turns at that distance."""
    order = np.argsort(positions)
    ascending = positions[order]
    for far in AROUND:
        nearest = np.minimum(np.searchsorted(ascending, positions + far), len(ascending) - 1)
        by = order[nearest]
        exists = ascending[nearest] == positions + far
        at = np.flatnonzero(exists & (runs[by] == runs) & (runs >= 0))
        yield at, far, by[at]


def _with_neighbors(scores: Any, parts: Sequence[tuple[Any, Any, Any]]) -> Any:
    total = scores.copy()
    for at, part, by in parts:
        total[at] += part * scores[by]
    return total


def _normalized(np: Any, scores: Any) -> Any:
    most = scores.max()
    return _rounded(np, scores / most) if most > 0 else np.zeros(len(scores))


def _rounded(np: Any, scores: Any) -> Any:
    return np.rint(scores * PLACES) / PLACES


FIRST = 30
"""Number of the best memories that are searched for phrases."""

LEAST_WEIGHT = 0.05
"""Lowest weight of phrases for which they are searched."""

_NEAR = 2
"""Maximum distance of two words of a phrase: one word may be between them."""


def phrase_scores(terms: Sequence[Term], texts: Mapping[int, SearchText]) -> dict[int, float]:
    """Return how much of a query's phrases each text has; the one with most has 1.

    Texts without any are omitted. Pairs of words are weighted by how rare the words are.

    Args:
        terms: Terms of the query, in order.
        texts: The best memories, by log position.
    """
    words = [term.tokens[0] for term in terms if len(term.tokens) == 1 and not term.prefix]
    pairs = [pair for pair in pairwise(words) if len(set(pair)) > 1]
    if not pairs:
        return {}
    positions = {position: text.positions(set(words)) for position, text in texts.items()}
    totals = CorpusTotals(len(positions), 1)
    rarities = {
        word: max(
            rarity(sum(word in found_at for found_at in positions.values()), totals), LEAST_RARITY
        )
        for word in words
    }
    scores = {
        position: sum(
            rarities[first] + rarities[second]
            for first, second in pairs
            if is_near(found_at.get(first, ()), found_at.get(second, ()))
        )
        for position, found_at in positions.items()
    }
    most = max(scores.values(), default=0.0)
    return {position: round_score(score / most) for position, score in scores.items() if score}


def is_near(positions: Sequence[int], others: Sequence[int]) -> bool:
    """Return whether a position of one word is near one of another; both are ascending."""
    at = 0
    for position in positions:
        while at < len(others) and others[at] < position - _NEAR:
            at += 1
        if at < len(others) and others[at] <= position + _NEAR:
            return True
    return False


class ParsedQuery(NamedTuple):
    """A query, parsed for ranking."""

    terms: Sequence[Term]
    text: str = ""
    """The query as written."""

    time: TimeRange | None = None
    """The time that it names."""


class SignalRanking:
    """Ranks the nominated memories of a query by all signals.

    A query has hundreds of nominees, and most are ranked twice: first without the turns around the
    best. What depends on one memory alone is computed once. The rest uses numpy if it is loaded;
    results are the same with and without, to the last digit.

    Args:
        question: The query.
        weights: Weights of the signals. The longer the nominees are, the more meaning counts: a
            long text has some of any query's words.
    """

    def __init__(self, question: ParsedQuery, weights: SignalWeights = DEFAULT_WEIGHTS) -> None:
        self._question = question
        self._base_weights = self._weights = weights
        self._sought = SearchTerms(question.terms)
        self._asks_when = asks_when(question.text)
        # Words that may be the name of a speaker.
        self._names = {term.tokens[0] for term in question.terms if len(term.tokens) == 1}
        self._rows = dict[int, Row]()
        self._words = dict[int, float]()
        self._cosines = dict[int, float]()
        self._has_turns = False
        self._nominees = Nominees(len(question.terms))
        self._numbers = dict[int, int]()
        self._matrix: Matrix | None = None
        self._fused = FusedScores((), (), (), (), ())
        self._phrases = dict[int, float]()

    def add(self, rows: Mapping[int, Row], words: Scores, cosines: Scores) -> dict[int, float]:
        """Add memories, and return the scores of all by log position, best first.

        Args:
            rows: Rows by log position.
            words: The store's word scores. They count only if no memory is part of a conversation;
                turns are scored by their own words and their neighbors'.
            cosines: Cosines of the vectors.
        """
        self._rows |= rows
        self._words |= words
        self._cosines |= cosines
        if not self._has_turns and any(row.run is not None for row in rows.values()):
            # From now on, the texts of all memories are compared.
            self._has_turns, self._numbers = True, {}
            self._nominees, rows = Nominees(self._nominees.terms), self._rows
        self._add_columns({at: row for at, row in rows.items() if at not in self._numbers})
        base, length = self._base_weights, self._nominees.length()
        meaning = round_score(base.meaning * (1 + base.long * length))
        phrase = round_score(base.phrase * length)
        self._weights = structs.replace(base, meaning=meaning, phrase=phrase)
        self._fused = self._fuse()
        positions, scores = self._nominees.places, self._fused.scores
        return {positions[at]: scores[at] for at in self._fused.best}

    def with_phrases(self, scores: dict[int, float]) -> dict[int, float]:
        """Return scores best first, with the phrase signal of the best memories added."""
        if self._weights.phrase < LEAST_WEIGHT:
            return scores
        texts = {position: search_text(self._rows[position]) for position in islice(scores, FIRST)}
        self._phrases = phrase_scores(self._question.terms, texts)
        updated = scores | {position: self.signals(position).score for position in self._phrases}
        return dict(sorted(updated.items(), key=lambda pair: (-pair[1], pair[0])))

    @property
    def is_of_time(self) -> bool:
        """Whether any memory is of the time that the query names."""
        return any(self._nominees.time)

    def signals(self, position: int) -> Signals:
        """Return the signals of a memory."""
        at = self._numbers[position]
        return Signals(
            words=self._fused.words[at],
            meaning=self._fused.meaning[at],
            thread=self._fused.thread[at],
            speaker=self._nominees.speaker[at],
            dated=self._nominees.dated[at],
            time=self._nominees.time[at],
            phrase=self._phrases.get(position, 0.0),
            cosine=self._cosines.get(position),
            weights=self._weights,
        )

    def _add_columns(self, rows: Mapping[int, Row]) -> None:
        """Add memories to the columns of the nominees."""
        nominees, added, time = self._nominees, list(rows.values()), self._question.time
        start, none = len(nominees.places), [0.0] * len(rows)
        self._numbers |= zip(rows, range(start, start + len(rows)), strict=True)
        runs, named, dated = [row.run for row in added], [False] * len(rows), none
        if self._has_turns:
            sought, texts = self._sought, list(map(search_text, added))
            lengths = [text.length for text in texts]
            nominees.asking += [
                at
                for at, (text, run) in enumerate(zip(texts, runs, strict=True), start)
                if text.asks and run is not None
            ]
            nominees.has += [text.times(sought) for text in texts]
            nominees.speaker += [self._speaks(text) if text.who else 0.0 for text in texts]
            if time is not None:
                named = [text.names(row, time) for text, row in zip(texts, added, strict=True)]
                dated = [*map(float, named)]
            if self._asks_when:
                dated = [text.dated or other for text, other in zip(texts, dated, strict=True)]
        else:
            lengths = [0] * len(rows)
            nominees.has += [{}] * len(rows)
            nominees.speaker += [
                self._speaks(search_text(row)) if b'"actor"' in (row.body or b"") else 0.0
                for row in added
            ]
        nominees.dated += map(float, dated)
        nominees.places += rows
        nominees.runs += runs
        nominees.lengths += lengths
        nominees.shares += [
            _share(len(row.body or b""), SHORT_BYTES) if run is None else _share(length, SHORT)
            for row, run, length in zip(added, runs, lengths, strict=True)
        ]
        nominees.time += (
            none
            if time is None
            else [
                float(names or time.includes(row.moment))
                for row, names in zip(added, named, strict=True)
            ]
        )

    def _speaks(self, text: SearchText) -> float:
        """Return 1.0 if the query has the first word of the speaker's name, else 0.0."""
        return float(bool(text.who) and text.who[0] in self._names)

    def _fuse(self) -> FusedScores:
        nominees, weights = self._nominees, self._weights
        cosines = [self._cosines.get(position, 0.0) for position in nominees.places]
        if not self._has_turns:
            words = normalized([self._words.get(position, 0.0) for position in nominees.places])
            meaning, thread = normalized(cosines), [0.0] * len(words)
            return fuse_signals(nominees, weights, words, meaning, thread)
        np = sys.modules.get("numpy")
        if np is None:
            return fuse_plain(nominees, weights, cosines)
        self._matrix = self._matrix or Matrix(np, nominees)
        return self._matrix.fuse(weights, cosines)


def _share(size: int, short: int) -> float:
    """Return the part of a memory that its neighbors get: 1, or less the longer it is."""
    return 1.0 if size <= short else short / size


FROM_HIGH_TO_LOW = (
    TrustClass.USER,
    TrustClass.AGENT,
    TrustClass.TOOL,
    TrustClass.EXTERNAL,
    TrustClass.IMPORTED,
)
"""The trust classes in order."""

_RANK = {trust: rank for rank, trust in enumerate(FROM_HIGH_TO_LOW)}


def effective_trust(view: View, logged: VerifiedRecord) -> TrustClass:
    """Return the trust class of a record.

    A record without a claim has the class of its import, or ``user`` if it was written in this
    bank. An import without a class has ``imported``. A promotion raises a record to the class in
    its ``metadata.trust``, or to ``user``; an imported promotion raises it at most to the class of
    that import, so that no file promotes itself.
    """
    source = view.source_of(logged)
    if source is None and logged.row.batch:
        earned = TrustClass.IMPORTED  # its record was erased
    else:
        earned = TrustClass.USER if source is None else _earned(view, source)
    origin: Origin | None = getattr(logged.model, "origin", None)
    claimed = origin.trust if origin is not None and origin.trust is not None else earned
    return _raised(view, lower(claimed, earned), logged.record.id)


def lower(trust: TrustClass, other: TrustClass) -> TrustClass:
    """Return the lower of two trust classes."""
    return max(trust, other, key=_RANK.__getitem__)


def is_trusted(trust: TrustClass, least: TrustClass) -> bool:
    """Return whether a trust class is at least another."""
    return _RANK[trust] <= _RANK[least]


def _earned(view: View, source: VerifiedRecord) -> TrustClass:
    stated = source.model.trust if isinstance(source.model, Source) else None
    return _raised(view, stated or TrustClass.IMPORTED, source.record.id)


def _raised(view: View, trust: TrustClass, identity: str) -> TrustClass:
    promoted = [_promoted(view, promotion) for promotion in view.promotions(identity)]
    return min([trust, *promoted], key=_RANK.__getitem__)


def _promoted(view: View, promotion: Promotion) -> TrustClass:
    named = promotion.trust
    trust = TrustClass(named) if named in set(TrustClass) else TrustClass.USER
    if not promotion.batch:
        return trust
    source = view.source_at(promotion.batch)
    stated = source.model.trust if source and isinstance(source.model, Source) else None
    return lower(trust, stated or TrustClass.IMPORTED)
