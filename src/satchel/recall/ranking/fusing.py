"""Fusing what tells how well memories go with a question.

Each signal is divided by its largest value among what was nominated, so that it is between 0 and 1
whatever it is counted in, and the sum of them, weighted, orders. What was tried, and what each
signal adds, is in docs/decisions/0034.

- **words**: the store's score for the words; **meaning**: the cosine of the vectors. In a
  conversation a turn also counts a part of those of the two turns before it and of the one after.
- **thread**: how much of the question the whole conversation speaks of.
- **speaker**: whether the question names who said it.
- **linked**: a part of what another memory has that an edge leads to or from.
"""

from collections.abc import Iterable, Mapping, Sequence
from math import log

import msgspec

from satchel.errors import InputError
from satchel.memory.entries import Entry, Episodic
from satchel.ports.rows import Row, derive_row
from satchel.recall.digits import told
from satchel.seal.records import shape_of
from satchel.stores.matching import Term, tokens_of

WORDS, LINKED = 1.0, 0.5
"""What words weigh; and the part of another memory's whole score that an edge brings."""

AROUND = {-2: 0.2, -1: 0.4, 1: 0.5}
"""What a turn counts of others of its conversation, by how far from it they are in the log."""

SHORT = 1000
"""Bytes of a turn up to which it says little alone; the longer it is, the less it shares."""

_LONGEST = 1 << 12
"""Characters of a memory in which the words of a question are looked for, from its start."""

Scores = Mapping[int, float]
"""By the places of memories in the log."""


class Weights(msgspec.Struct, frozen=True, gc=False):
    """What the signals beside words weigh."""

    meaning: float = 0.7
    thread: float = 0.4
    speaker: float = 0.2


USUAL = Weights()

_WEIGHTS = {"all-MiniLM-L6-v2-int8": Weights(meaning=0.9, speaker=0.3)}
"""By the model of the vectors; see docs/decisions/0068."""


def weights_of(model: str | None) -> Weights:
    """Return what signals weigh where vectors of a model are compared."""
    return USUAL if model is None else _WEIGHTS.get(model, USUAL)


class Signals(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Why a memory stands where it does; each between 0 and 1, before it is weighed."""

    words: float = 0.0
    meaning: float = 0.0
    thread: float = 0.0
    speaker: float = 0.0
    linked: float = 0.0
    """The part of its score that it has from another memory, not weighed again."""

    cosine: float | None = None
    """How nearly it means the same; None without a vector."""

    linked_to: str | None = None
    """Id of the memory that it has that part from."""

    weights: Weights = USUAL

    @property
    def score(self) -> float:
        """The sum, weighed."""
        by = self.weights
        whole = WORDS * self.words + by.meaning * self.meaning
        return told(whole + by.thread * self.thread + by.speaker * self.speaker + self.linked)


def fused(
    terms: Sequence[Term],
    rows: Mapping[int, Row],
    words: Scores,
    cosines: Scores,
    weights: Weights = USUAL,
) -> dict[int, Signals]:
    """Return the signals of what was nominated, best first; what is as good, in log order.

    Args:
        terms: Of the question.
        rows: Of what was nominated, by place.
        words: What the store says of their words.
        cosines: How nearly they mean the same.
        weights: What each signal weighs.
    """
    said_so = {place: words.get(place, 0.0) for place in rows}
    meant = {place: cosines.get(place, 0.0) for place in rows}
    turns = {place: row.run for place, row in rows.items() if row.run is not None}
    shares = {place: min(1.0, SHORT / len(rows[place].body or b" " * SHORT)) for place in turns}
    by_words = _even(_around(said_so, turns, shares))
    by_meaning = _even(_around(meant, turns, shares))
    said = {place: _Said(terms, rows[place]) for place in turns}
    by_thread = _threads(terms, turns, said)
    found = {
        place: Signals(
            words=by_words[place],
            meaning=by_meaning[place],
            # What is in no conversation speaks of as much as its own words do.
            thread=by_thread.get(place, by_words[place]) if by_thread else 0.0,
            speaker=float(_named(terms, row, said.get(place))),
            cosine=cosines.get(place),
            weights=weights,
        )
        for place, row in rows.items()
    }
    return in_order(found)


def in_order(found: Mapping[int, Signals]) -> dict[int, Signals]:
    """Return signals best first; what is as good, in log order."""
    return dict(sorted(found.items(), key=lambda pair: (-pair[1].score, pair[0])))


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
    return {place: told(score / most) if most > 0 else 0.0 for place, score in scores.items()}


class _Said:
    """What is looked for in one memory: who said it, and which terms it has."""

    def __init__(self, terms: Sequence[Term], row: Row) -> None:
        self.who: list[str] = []
        self.has: frozenset[int] = frozenset()
        try:
            model = shape_of(row.body or b"")
        except InputError:
            return  # whoever proves it says so
        if isinstance(model, Episodic) and model.actor:
            self.who = tokens_of(model.actor.rpartition(":")[2])
        if isinstance(model, Entry):
            text = derive_row(model, seq=row.seq, at="", body=b"").text or ""
            tokens = tokens_of(text[:_LONGEST])
            self.has = frozenset(at for at, term in enumerate(terms) if term.times(tokens))


def _threads(
    terms: Sequence[Term], turns: Mapping[int, str], said: Mapping[int, _Said]
) -> dict[int, float]:
    """Return how much of a question each turn's conversation speaks of.

    A term counts by how few of the conversations have it.
    """
    has = dict[str, set[int]]()
    for place, thread in turns.items():
        has.setdefault(thread, set()).update(said[place].has)
    having = [sum(at in one for one in has.values()) for at in range(len(terms))]
    count = len(has)
    rarity = [log(1 + (count - each + 0.5) / (each + 0.5)) for each in having]
    spoken = {thread: _total(rarity, one) for thread, one in has.items()}
    most = max(spoken.values(), default=0.0)
    return {place: spoken[thread] / most for place, thread in turns.items()} if most else {}


def _total(rarity: Sequence[float], some: Iterable[int]) -> float:
    return sum(rarity[at] for at in sorted(some))


def _named(terms: Sequence[Term], row: Row, said: _Said | None) -> bool:
    """Tell whether the question names who said it, by the first word of the name at least."""
    if said is None:
        if b'"actor"' not in (row.body or b""):
            return False
        said = _Said((), row)
    return bool(said.who) and any(term.tokens == (said.who[0],) for term in terms)
