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
- **dated**: whether it names a time, where the question asks for one ("when"), or the very time
  that the question names; "yesterday" counts from when it was said.
- **time**: whether it is, or says that it is, of the time that the question names ("last May").
- **phrase**: whether words that stand together in the question do so in it; see ``phrases``.
- **reranked**: how well a reranker finds that it answers, where one is configured; of the best
  alone.
- **linked**: a part of the score of another memory that an edge connects it with.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from math import log
from typing import NamedTuple

import msgspec
from msgspec import structs

from satchel.ports.rows import Row
from satchel.recall.digits import told as rounded
from satchel.recall.ranking.texts import Text, known
from satchel.recall.when import Told, asks_when
from satchel.stores.matching import Term, Totals, rarity, weight

WORDS, LINKED = 1.0, 0.5
"""The weight of words; and the part of another memory's whole score that an edge brings."""

RERANKED = 1.0
"""The weight of a reranker, for the best memories alone: the others have less before it already."""

AROUND = {-2: 0.3, -1: 0.5, 1: 0.5, 2: 0.3}
"""What a turn counts of its neighbours' scores, by their distance in the log."""

_TOGETHER = {-2: 0.5, -1: 1.0, 1: 0.5}
"""What a turn counts of its neighbours' words, as if they were its own, by their distance."""

_SHORT, _BRIEF = 75, 30
"""Words up to which a turn shares its score, and its words; the longer it is, the less."""

_SHORT_BYTES = 500
"""Bytes of a memory outside conversations that count as short."""

LEAST_RARITY = 0.2
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
    phrase: float = 1.0
    """Where all nominated memories are long; the less, the shorter they are."""


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

    weights: Weights = USUAL

    @property
    def score(self) -> float:
        """The weighted sum."""
        by = self.weights
        whole = WORDS * self.words + by.meaning * self.meaning + by.thread * self.thread
        whole += by.speaker * self.speaker + by.dated * self.dated + by.time * self.time
        whole += by.phrase * self.phrase + RERANKED * self.reranked
        return rounded(whole + self.linked)


class Question(NamedTuple):
    """What memories are compared with."""

    terms: Sequence[Term]
    text: str = ""
    """As it was asked."""

    told: Told | None = None
    """The time that it names."""


class Texts:
    """What memories say, and how often each has each term of one question; by position.

    Args:
        terms: Of the question.
    """

    def __init__(self, terms: Sequence[Term]) -> None:
        self.seen: dict[int, Text] = {}
        self.has: dict[int, dict[int, int]] = {}
        """By the number of the term; without those that are not there, in the order of terms."""

        self.names = {term.tokens[0] for term in terms if len(term.tokens) == 1}
        """Words that may be the name of a speaker."""

        self._words, self._others = dict[str, list[int]](), list[tuple[int, Term]]()
        for at, term in enumerate(terms):
            if term.prefix or len(term.tokens) != 1:
                self._others.append((at, term))
            else:
                self._words.setdefault(term.tokens[0], []).append(at)

    def add(self, rows: Mapping[int, Row]) -> None:
        """Compare memories that were not compared before."""
        for place, row in rows.items():
            if place not in self.seen:
                text = self.seen[place] = known(row)
                self.has[place] = self._counted(text)

    def _counted(self, text: Text) -> dict[int, int]:
        found = dict[int, int]()
        for word in self._words.keys() & text.words:
            found |= dict.fromkeys(self._words[word], text.tokens.count(word))
        for at, term in self._others:
            if term.prefix or text.words.issuperset(term.tokens):
                times = term.times(text.tokens)
                if times:
                    found[at] = times
        return dict(sorted(found.items())) if len(found) > 1 else found


def fused(
    question: Question,
    rows: Mapping[int, Row],
    words: Scores,
    cosines: Scores,
    weights: Weights = USUAL,
    texts: Texts | None = None,
) -> dict[int, Signals]:
    """Return the signals of nominated memories, best first; equal ones in log order.

    Args:
        question: What is asked.
        rows: The nominated memories, by position.
        words: The store's scores of their words. They count only where no nominated memory is
            part of a conversation; turns are scored by their own words and their neighbours'.
        cosines: Of the vectors.
        weights: Of the signals. Meaning counts for more, the longer
            the nominated memories are: a long text has some of any question's words.
        texts: Of memories that were compared before.
    """
    terms, told = question.terms, question.told
    turns = {place: row.run for place, row in rows.items() if row.run is not None}
    texts = Texts(terms) if texts is None else texts
    if turns:
        texts.add(rows)
    seen = texts.seen if turns else {}
    lengths = {place: max(len(seen[place].tokens), 1) for place in turns}
    shares = {place: min(1.0, _SHORT / length) for place, length in lengths.items()}
    others = (len(row.body or b"") for place, row in rows.items() if place not in turns)
    short = [*shares.values(), *(min(1.0, _SHORT_BYTES / max(size, 1)) for size in others)]
    if short:
        longer = 1 - sum(short) / len(short)
        weights = structs.replace(
            weights,
            meaning=rounded(weights.meaning * (1 + weights.long * longer)),
            phrase=rounded(weights.phrase * longer),
        )
    has = {place: texts.has[place] for place in rows} if turns else {}
    if turns:
        own = _around(_scored(has, len(terms), seen, turns), turns, shares)
        for place in turns:
            if seen[place].asks:
                own[place] *= 1 - _QUESTIONS * min(1.0, _BRIEF / lengths[place])
    else:
        own = {place: words.get(place, 0.0) for place in rows}
    by_words = _even(own)
    by_meaning = _even(_around({at: cosines.get(at, 0.0) for at in rows}, turns, shares))
    by_thread = _threads(len(terms), turns, has)
    when = asks_when(question.text)
    named = {at for at in seen if told is not None and seen[at].names(rows[at], told)}
    found = {
        place: Signals(
            words=by_words[place],
            meaning=by_meaning[place],
            # A memory outside conversations covers as much as its own words do.
            thread=by_thread.get(place, by_words[place]) if by_thread else 0.0,
            speaker=float(_named(texts.names, row, seen.get(place))),
            dated=float(place in named or (when and place in seen and seen[place].dated)),
            time=float(place in named or (told is not None and told.includes(row.moment))),
            cosine=cosines.get(place),
            weights=weights,
        )
        for place, row in rows.items()
    }
    return in_order(found)


def in_order(found: Mapping[int, Signals]) -> dict[int, Signals]:
    """Return signals best first; equal ones in log order."""
    return dict(sorted(found.items(), key=lambda pair: (-pair[1].score, pair[0])))


def _scored(
    has: Mapping[int, Mapping[int, int]],
    count: int,
    texts: Mapping[int, Text],
    turns: Mapping[int, str],
) -> dict[int, float]:
    """Return BM25 scores, turns with a part of the words of those around them.

    How rare a term is, is counted among the nominated memories.

    Args:
        has: How often each has each term.
        count: How many terms there are.
        texts: What they say.
        turns: The conversation of each turn.
    """
    sizes = {place: len(texts[place].tokens) for place in has}
    counts: dict[int, tuple[Mapping[int, float], float]] = {}
    for place, times in has.items():
        size = sizes[place]
        together: dict[int, float] = dict(times)
        length = float(size)
        thread = turns.get(place)
        for far, part in _TOGETHER.items() if thread is not None else ():
            other = place + far
            if turns.get(other) == thread:
                beside = sizes[other]
                share = part * min(1.0, _BRIEF / max(size, beside, 1))
                length += share * beside
                for at, number in has[other].items():
                    together[at] = together.get(at, 0) + share * number
        counts[place] = together, length
    total = sum(length for _, length in counts.values())
    totals = Totals(len(counts), total)
    having = Counter(at for times in has.values() for at in times)
    rarities = [max(rarity(having[at], totals), LEAST_RARITY) for at in range(count)]
    return {
        place: rounded(
            sum(rarities[at] * weight(times[at], length, totals) for at in sorted(times))
        )
        for place, (times, length) in counts.items()
    }


def _around(scores: Scores, turns: Mapping[int, str], shares: Scores) -> dict[int, float]:
    """Return scores with a part of those of the turns around, less where either is long."""
    found = dict(scores)
    for place, thread in turns.items():
        for far, part in AROUND.items():
            other = place + far
            if turns.get(other) == thread:
                found[place] += part * min(shares[place], shares[other]) * scores[other]
    return found


def _even(scores: Scores) -> dict[int, float]:
    most = max(scores.values(), default=0.0)
    return {place: rounded(score / most) if most > 0 else 0.0 for place, score in scores.items()}


def _threads(
    count: int, turns: Mapping[int, str], has: Mapping[int, Iterable[int]]
) -> dict[int, float]:
    """Return how much of a question each turn's conversation covers.

    A term counts by how few of the conversations have it.
    """
    covered = dict[str, set[int]]()
    for place, thread in turns.items():
        covered.setdefault(thread, set()).update(has[place])
    having = [sum(at in each for each in covered.values()) for at in range(count)]
    size = len(covered)
    rare = [log(1 + (size - each + 0.5) / (each + 0.5)) for each in having]
    spoken = {thread: _total(rare, each) for thread, each in covered.items()}
    most = max(spoken.values(), default=0.0)
    return {place: spoken[thread] / most for place, thread in turns.items()} if most else {}


def _total(rarities: Sequence[float], some: Iterable[int]) -> float:
    return sum(rarities[at] for at in sorted(some))


def _named(names: AbstractSet[str], row: Row, text: Text | None) -> bool:
    """Tell whether the question names the speaker, by the first word of the name at least."""
    if text is None:
        if b'"actor"' not in (row.body or b""):
            return False
        text = known(row)
    return bool(text.who) and text.who[0] in names
