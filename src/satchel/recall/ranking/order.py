"""What is nominated for one question, put in order."""

import sys
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from msgspec import structs

from satchel.ports.rows import Row
from satchel.recall.digits import told as rounded
from satchel.recall.ranking.fusing import (
    SHORT,
    SHORT_BYTES,
    USUAL,
    Fused,
    Nominees,
    Scores,
    Signals,
    Weights,
    even,
    fused_plain,
    ordered,
)
from satchel.recall.ranking.matrix import Matrix
from satchel.recall.ranking.phrases import FIRST, LEAST_WEIGHT, phrases
from satchel.recall.ranking.texts import Sought, Text, known
from satchel.recall.when import Told, asks_when
from satchel.stores.matching import Term


class Question(NamedTuple):
    """What memories are compared with."""

    terms: Sequence[Term]
    text: str = ""
    """As it was asked."""

    told: Told | None = None
    """The time that it names."""


class Ranking:
    """The memories that are nominated for one question, put in order by all signals.

    A question has hundreds of memories, and most are put in order twice: first without the turns
    around the best. What depends on one memory alone is worked out once. The rest is done with
    numpy where that is loaded, and else without; both give the same, to the last digit.

    Args:
        question: What is asked.
        weights: Of the signals. Meaning counts for more, the longer
            the nominated memories are: a long text has some of any question's words.
    """

    def __init__(self, question: Question, weights: Weights = USUAL) -> None:
        self._question = question
        self._usual = self._weights = weights
        self._sought = Sought(question.terms)
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
        self._fused = Fused((), (), (), (), ())
        self._phrases = dict[int, float]()

    def add(self, rows: Mapping[int, Row], words: Scores, cosines: Scores) -> dict[int, float]:
        """Add memories, and return the scores of all by position, best first.

        Args:
            rows: By position.
            words: The store's scores of their words. They count only where no memory is part of a
                conversation; turns are scored by their own words and their neighbours'.
            cosines: Of the vectors.
        """
        self._rows |= rows
        self._words |= words
        self._cosines |= cosines
        if not self._has_turns and any(row.run is not None for row in rows.values()):
            # What memories say is compared from now on: all of them.
            self._has_turns, self._numbers = True, {}
            self._nominees, rows = Nominees(self._nominees.terms), self._rows
        self._take({at: row for at, row in rows.items() if at not in self._numbers})
        longer = self._usual.meaning * (1 + self._usual.long * self._nominees.length())
        phrase = rounded(self._usual.phrase * self._nominees.length())
        self._weights = structs.replace(self._usual, meaning=rounded(longer), phrase=phrase)
        self._fused = self._in_order()
        places, scores = self._nominees.places, self._fused.scores
        return {places[at]: scores[at] for at in self._fused.best}

    def with_phrases(self, scores: dict[int, float]) -> dict[int, float]:
        """Return scores best first, those of the best with what their phrases count."""
        if self._weights.phrase < LEAST_WEIGHT:
            return scores
        texts = {place: known(self._rows[place]) for place in islice(scores, FIRST)}
        self._phrases = phrases(self._question.terms, texts)
        found = scores | {place: self.signals(place).score for place in self._phrases}
        return dict(sorted(found.items(), key=lambda pair: (-pair[1], pair[0])))

    @property
    def is_of_time(self) -> bool:
        """Whether any of it is of the time that the question names."""
        return any(self._nominees.time)

    def signals(self, place: int) -> Signals:
        """Return the signals of one of the memories."""
        at = self._numbers[place]
        return Signals(
            words=self._fused.words[at],
            meaning=self._fused.meaning[at],
            thread=self._fused.thread[at],
            speaker=self._nominees.speaker[at],
            dated=self._nominees.dated[at],
            time=self._nominees.time[at],
            phrase=self._phrases.get(place, 0.0),
            cosine=self._cosines.get(place),
            weights=self._weights,
        )

    def _take(self, rows: Mapping[int, Row]) -> None:
        """Put memories to the columns."""
        one, given, told = self._nominees, list(rows.values()), self._question.told
        start, none = len(one.places), [0.0] * len(rows)
        self._numbers |= zip(rows, range(start, start + len(rows)), strict=True)
        runs, named, dated = [row.run for row in given], [False] * len(rows), none
        if self._has_turns:
            sought, texts = self._sought, list(map(known, given))
            lengths = [text.length for text in texts]
            one.asking += [
                at
                for at, (text, run) in enumerate(zip(texts, runs, strict=True), start)
                if text.asks and run is not None
            ]
            one.has += [text.times(sought) for text in texts]
            one.speaker += [self._speaks(text) if text.who else 0.0 for text in texts]
            if told is not None:
                named = [text.names(row, told) for text, row in zip(texts, given, strict=True)]
                dated = [*map(float, named)]
            if self._asks_when:
                dated = [text.dated or other for text, other in zip(texts, dated, strict=True)]
        else:
            lengths = [0] * len(rows)
            one.has += [{}] * len(rows)
            one.speaker += [
                self._speaks(known(row)) if b'"actor"' in (row.body or b"") else 0.0
                for row in given
            ]
        one.dated += map(float, dated)
        one.places += rows
        one.runs += runs
        one.lengths += lengths
        one.shares += [
            _share(len(row.body or b""), SHORT_BYTES) if run is None else _share(length, SHORT)
            for row, run, length in zip(given, runs, lengths, strict=True)
        ]
        one.time += (
            none
            if told is None
            else [
                float(names or told.includes(row.moment))
                for row, names in zip(given, named, strict=True)
            ]
        )

    def _speaks(self, text: Text) -> float:
        """Tell whether the question names who says it, by the first word of the name at least."""
        return float(bool(text.who) and text.who[0] in self._names)

    def _in_order(self) -> Fused:
        one = self._nominees
        meant = [self._cosines.get(place, 0.0) for place in one.places]
        if not self._has_turns:
            words = even([self._words.get(place, 0.0) for place in one.places])
            return ordered(one, self._weights, words, even(meant), [0.0] * len(words))
        np = sys.modules.get("numpy")
        if np is None:
            return fused_plain(one, self._weights, meant)
        self._matrix = self._matrix or Matrix(np, one)
        return self._matrix.fused(self._weights, meant)


def _share(size: int, short: int) -> float:
    """Return what counts of something beside others: 1, or less the longer it is."""
    return 1.0 if size <= short else short / size
