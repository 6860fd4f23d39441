"""Ranking the nominated memories of a query by all signals."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, pairwise
from math import log
from typing import Any, NamedTuple

from msgspec import structs

from satchel.ports.rows import Row
from satchel.recall.fusion import (
    AROUND,
    BRIEF,
    DEFAULT_WEIGHTS,
    LEAST_RARITY,
    PLACES,
    QUESTIONS,
    SHORT,
    SHORT_BYTES,
    TOGETHER,
    FusedScores,
    Nominees,
    Scores,
    Signals,
    SignalWeights,
    fuse_plain,
    fuse_signals,
    normalized,
    weighted_sum,
)
from satchel.recall.fusion import round_score as rounded
from satchel.recall.texts import SearchTerms, SearchText, search_text
from satchel.recall.time_expressions import TimeRange, asks_when
from satchel.stores.text_search import CorpusTotals, Term, bm25, rarity

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
        near = list(_neighbours(np, positions, runs))
        parts = [(at, AROUND[far] * np.minimum(shares[at], shares[by]), by) for at, far, by in near]
        words = _with_neighbours(self._word_scores(lengths, near), parts)
        asking = np.array(self._nominees.asking, dtype=int)
        words[asking] *= 1 - QUESTIONS * np.minimum(1.0, BRIEF / np.maximum(lengths[asking], 1))
        words, covered = _normalized(np, words), self._covered()
        thread = np.zeros(len(words))
        if covered is not None:
            thread = np.where(runs < 0, words, covered[runs])
        meaning = _normalized(np, _with_neighbours(np.array(cosines), parts))
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


def _neighbours(np: Any, positions: Any, runs: Any) -> Iterator[tuple[Any, int, Any]]:
    """Yield for each distance the indices of turns and of the turns at that distance."""
    order = np.argsort(positions)
    ascending = positions[order]
    for far in AROUND:
        nearest = np.minimum(np.searchsorted(ascending, positions + far), len(ascending) - 1)
        by = order[nearest]
        exists = ascending[nearest] == positions + far
        at = np.flatnonzero(exists & (runs[by] == runs) & (runs >= 0))
        yield at, far, by[at]


def _with_neighbours(scores: Any, parts: Sequence[tuple[Any, Any, Any]]) -> Any:
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
    return {position: rounded(score / most) for position, score in scores.items() if score}


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
                turns are scored by their own words and their neighbours'.
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
        meaning = rounded(base.meaning * (1 + base.long * length))
        phrase = rounded(base.phrase * length)
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
    """Return the part of a memory that its neighbours get: 1, or less the longer it is."""
    return 1.0 if size <= short else short / size
