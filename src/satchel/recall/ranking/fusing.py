"""Fusing the signals of how well memories match a question.

Each signal is divided by its largest value among the nominated memories, so that it is between 0
and 1 whatever its unit, and their weighted sum orders. How the weights were chosen, and what was
tried besides, is in docs/decisions/0088.

- **words**: BM25 of the memory's own words. A turn of a conversation is scored together with a
  weighted part of the turns around it, bounded by length: a long answer does not swamp the short
  turns beside it.
- **meaning**: the cosine of the vectors; a turn also counts a part of its neighbours'.
- **thread**: how much of the question the whole conversation covers.
- **speaker**: whether the question names who said it.
- **dated**: whether it names a time, where the question asks for one ("when").
- **time**: whether it is of the time that the question names ("last May").
- **linked**: a part of the score of another memory that an edge connects it with.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import log
from typing import NamedTuple

import msgspec
from msgspec import structs

from satchel.ports.rows import Row
from satchel.recall.digits import told as rounded
from satchel.recall.ranking.texts import Sought, known
from satchel.recall.when import Told, asks_when
from satchel.stores.matching import Term, Totals, bm25, rarity

WORDS, LINKED = 1.0, 0.5
"""The weight of words; and the part of another memory's whole score that an edge brings."""

AROUND = {-2: 0.3, -1: 0.5, 1: 0.5, 2: 0.3}
"""What a turn counts of its neighbours' scores, by their distance in the log."""

_TOGETHER = {-2: 0.5, -1: 1.0, 1: 0.5}
"""What a turn counts of its neighbours' words, as if they were its own, by their distance."""

_SHORT, _BRIEF = 75, 30
"""Words up to which a turn shares its score, and its words; the longer it is, the less."""

_SHORT_BYTES = 500
"""Bytes of a memory outside conversations that count as short."""

_LEAST_RARITY = 0.2
"""What a term counts that most of the nominated memories have."""

_QUESTIONS = 0.2
"""The part of the score for words that a brief question loses: it seldom answers another."""

Scores = Mapping[int, float]
"""By the positions of memories in the log."""


class Weights(msgspec.Struct, frozen=True, gc=False):
    """The weights of the signals besides words."""

    meaning: float = 0.7
    long: float = 1.0
    """How much more meaning counts, as a part of it, where all nominated memories are long."""

    thread: float = 0.7
    speaker: float = 0.4
    dated: float = 0.5
    time: float = 1.0


USUAL = Weights()

_WEIGHTS = {"all-MiniLM-L6-v2-int8": Weights(meaning=1.1, long=2.0)}
"""By the model of the vectors; see docs/decisions/0088."""


def weights_of(model: str | None) -> Weights:
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
    linked: float = 0.0
    """The part of its score that it has from another memory, not weighted again."""

    cosine: float | None = None
    """The cosine of its vector and the question's; None without a vector."""

    linked_to: str | None = None
    """Id of the memory that it has that part from."""

    weights: Weights = USUAL

    @property
    def score(self) -> float:
        """The weighted sum."""
        own = self.words, self.meaning, self.thread, self.speaker, self.dated, self.time
        return rounded(_whole(self.weights, own) + self.linked)


_Six = tuple[float, float, float, float, float, float]
"""Words, meaning, thread, speaker, dated and time."""


def _whole(by: Weights, own: _Six) -> float:
    words, meaning, thread, speaker, dated, time = own
    whole = WORDS * words + by.meaning * meaning + by.thread * thread
    return whole + (by.speaker * speaker + by.dated * dated + by.time * time)


class Question(NamedTuple):
    """What memories are compared with."""

    terms: Sequence[Term]
    text: str = ""
    """As it was asked."""

    told: Told | None = None
    """The time that it names."""


class _Nominee(NamedTuple):
    """What of a nominated memory depends on itself and the question alone."""

    run: str | None
    size: int
    """Bytes of its record."""

    length: int
    """How many words it has, where any of the nominated is part of a conversation."""

    asks: bool
    has: Mapping[int, int]
    """How often it has each term of the question, by the term's number and in that order."""

    mask: int
    """Which terms it has, as bits."""

    speaker: float
    dated: float
    time: float


class Ranking:
    """The memories that are nominated for one question, put in order by all signals.

    A question has hundreds of memories, and most are put in order twice: first without the turns
    around the best. What depends on one memory alone is worked out once; the rest is in lists
    that go by the order in which memories were added.

    Args:
        question: What is asked.
        weights: Of the signals. Meaning counts for more, the longer
            the nominated memories are: a long text has some of any question's words.
    """

    def __init__(self, question: Question, weights: Weights = USUAL) -> None:
        self._question = question
        self._weights = weights
        self._sought = Sought(question.terms)
        self._asks_when = asks_when(question.text)
        # Words that may be the name of a speaker.
        self._names = {term.tokens[0] for term in question.terms if len(term.tokens) == 1}
        self._rows = dict[int, Row]()
        self._nominees = dict[int, _Nominee]()
        self._words = dict[int, float]()
        self._cosines = dict[int, float]()
        self._has_turns = False

    def add(self, rows: Mapping[int, Row], words: Scores, cosines: Scores) -> None:
        """Add memories.

        Args:
            rows: By position.
            words: The store's scores of their words. They count only where no memory is part of a
                conversation; turns are scored by their own words and their neighbours'.
            cosines: Of the vectors.
        """
        if not self._has_turns and any(row.run is not None for row in rows.values()):
            self._has_turns = True
            self._nominees.clear()
        self._rows |= rows
        self._words |= words
        self._cosines |= cosines
        for place, row in self._rows.items():
            if place not in self._nominees:
                self._nominees[place] = self._nominee(row)

    def order(self) -> list[int]:
        """Return the positions of all, best first; equal ones in log order."""
        keys, _ = self._ranked()
        return [place for _, place, _ in keys]

    def signals(self) -> dict[int, Signals]:
        """Return the signals of all, best first; equal ones in log order."""
        keys, weights = self._ranked()
        found = dict[int, Signals]()
        for _, place, (words, meaning, thread, speaker, dated, time) in keys:
            found[place] = Signals(
                words=words,
                meaning=meaning,
                thread=thread,
                speaker=speaker,
                dated=dated,
                time=time,
                cosine=self._cosines.get(place),
                weights=weights,
            )
        return found

    def _nominee(self, row: Row) -> _Nominee:
        text = known(row) if self._has_turns or b'"actor"' in (row.body or b"") else None
        told = self._question.told
        has = text.times(self._sought) if text is not None and self._has_turns else {}
        return _Nominee(
            run=row.run,
            size=len(row.body or b""),
            length=0 if text is None else text.length,
            asks=text is not None and text.asks,
            has=has,
            mask=sum([1 << at for at in has]),
            # By the first word of the name at least.
            speaker=float(text is not None and bool(text.who) and text.who[0] in self._names),
            dated=float(self._asks_when and self._has_turns and text is not None and text.dated),
            time=float(told is not None and told.includes(row.moment)),
        )

    def _ranked(self) -> tuple[list[tuple[float, int, _Six]], Weights]:
        every, meant = [*self._nominees.values()], [self._cosines.get(at, 0.0) for at in self._rows]
        weights, thread = self._weighted(every), [0.0] * len(every)
        if self._has_turns:
            near = self._near()
            shares = [min(1.0, _SHORT / max(one.length, 1)) for one in every]
            parts = [(at, AROUND[far] * min(shares[at], shares[by]), by) for at, far, by in near]
            words = _around(_by_words(len(self._question.terms), every, near), parts)
            for at, one in enumerate(every):
                if one.asks and one.run is not None:
                    words[at] *= 1 - _QUESTIONS * min(1.0, _BRIEF / max(one.length, 1))
            words = _even(words)
            meant = _around(meant, parts)
            thread = _threads(len(self._question.terms), every, words)
        else:
            words = _even([self._words.get(place, 0.0) for place in self._rows])
        keys = list[tuple[float, int, _Six]]()
        for place, one, *own in zip(self._rows, every, words, _even(meant), thread, strict=True):
            six: _Six = (*own, one.speaker, one.dated, one.time)
            keys.append((-rounded(_whole(weights, six)), place, six))
        keys.sort()
        return keys, weights

    def _weighted(self, every: Sequence[_Nominee]) -> Weights:
        """Return the weights of the signals for memories as long as these."""
        short = [min(1.0, _SHORT / max(one.length, 1)) for one in every if one.run is not None]
        short += [min(1.0, _SHORT_BYTES / max(one.size, 1)) for one in every if one.run is None]
        if not short:
            return self._weights
        longer = 1 - sum(short) / len(short)
        meaning = rounded(self._weights.meaning * (1 + self._weights.long * longer))
        return structs.replace(self._weights, meaning=meaning)

    def _near(self) -> list[tuple[int, int, int]]:
        """Return the numbers of turns, and of those around them, with their distance."""
        there = {place: at for at, place in enumerate(self._rows)}
        runs = [row.run for row in self._rows.values()]
        found = list[tuple[int, int, int]]()
        for place, at in there.items():
            run = runs[at]
            if run is not None:
                for far in AROUND:
                    by = there.get(place + far)
                    if by is not None and runs[by] == run:
                        found.append((at, far, by))
        return found


def in_order(found: Mapping[int, Signals]) -> dict[int, Signals]:
    """Return signals best first; equal ones in log order."""
    return dict(sorted(found.items(), key=lambda pair: (-pair[1].score, pair[0])))


def _by_words(
    count: int, every: Sequence[_Nominee], near: Iterable[tuple[int, int, int]]
) -> list[float]:
    """Return BM25 scores, turns with a part of the words of those around them.

    How rare a term is, is counted among the nominated memories.

    Args:
        count: How many terms there are.
        every: The memories.
        near: Which turns are around which, by their numbers.
    """
    times, lengths = [one.has for one in every], [float(one.length) for one in every]
    for at, far, by in near:
        part = _TOGETHER.get(far)
        if part is not None:
            size, beside = every[at].length, every[by].length
            share = part * min(1.0, _BRIEF / max(size, beside, 1))
            lengths[at] += share * beside
            if every[by].has:
                together = dict[int, float](times[at])
                for term, number in every[by].has.items():
                    together[term] = together.get(term, 0) + share * number
                times[at] = together
    totals = Totals(len(every), sum(lengths))
    rarities = [
        max(rarity(having, totals), _LEAST_RARITY)
        for having in _having(count, (one.mask for one in every))
    ]
    return [
        rounded(bm25(each, rarities, length, totals))
        for each, length in zip(times, lengths, strict=True)
    ]


def _around(scores: Sequence[float], parts: Iterable[tuple[int, float, int]]) -> list[float]:
    """Return scores with a part of those of the turns around, less where either is long."""
    found = list(scores)
    for at, part, by in parts:
        found[at] += part * scores[by]
    return found


def _even(scores: Sequence[float]) -> list[float]:
    most = max(scores, default=0.0)
    return [rounded(score / most) if most > 0 else 0.0 for score in scores]


def _threads(count: int, every: Sequence[_Nominee], words: Sequence[float]) -> list[float]:
    """Return how much of a question the conversation of each memory covers.

    A term counts by how few of the conversations have it. A memory outside
    conversations covers as much as its own words do.
    """
    covered = dict[str, int]()
    for one in every:
        if one.run is not None:
            covered[one.run] = covered.get(one.run, 0) | one.mask
    size = len(covered)
    having = _having(count, covered.values())
    rare = [log(1 + (size - each + 0.5) / (each + 0.5)) for each in having]
    masks = {mask: _total(rare, mask) for mask in set(covered.values())}
    most = max(masks.values(), default=0.0)
    if not most:
        return [0.0] * len(every)
    return [
        own if one.run is None else masks[covered[one.run]] / most
        for one, own in zip(every, words, strict=True)
    ]


def _having(count: int, masks: Iterable[int]) -> list[int]:
    """Return in how many masks each of so many bits is."""
    often = Counter(masks).items()
    return [sum([times for mask, times in often if mask >> at & 1]) for at in range(count)]


def _total(rarities: Sequence[float], mask: int) -> float:
    return sum([rare for at, rare in enumerate(rarities) if mask >> at & 1])
