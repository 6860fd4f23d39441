"""RHF: how much what the target answers means the same as what the source answers.

``RHF = mean of cos(embedding(target's answer), embedding(source's answer))`` over the same probes.
Source: the paper, section 5.2, formula 4. Vectors of words alone do not hear a "not"; so beside the
mean stands how often an answer is near to the source's and yet judged otherwise.
"""

from array import array
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import fmean

import msgspec

from satchel.actions.evaluating.agents.reader import terms_of
from satchel.actions.evaluating.continuity.statistics import (
    Interval,
    Share,
    resampled,
    share,
    sign_flips,
)
from satchel.actions.evaluating.continuity.trials import Item, Response, Taken
from satchel.ports.inference.embedder import Embedder

NEAR = 0.9
"""From which cosine on two answers count as near."""

WORDS = "counted words"

Vector = Sequence[float]


class Level(msgspec.Struct, frozen=True, kw_only=True):
    """What was measured at one budget."""

    share: int
    """Of the tokens that all of the memory takes, in percent."""

    budget: int
    """Tokens."""

    rhf: Interval | None
    categories: dict[str, float]
    right: Share
    """Answers of the target that are right."""

    near_but_otherwise: int
    """Answers near to the source's of which one is right and one is not."""

    tokens: float
    """That the texts took, on average."""

    verbatim: float
    """Memories given word for word, on average."""

    summarised: float
    p_full: float
    """How likely it differs so much from the largest budget by chance (exchanged signs)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AtBudget:
    """What came of one budget."""

    percent: int
    budget: int
    answers: Sequence[Response]
    alike: Sequence[float | None]
    """To the source's answers; None where the source has none."""

    taken: Taken


def likeness(
    source: Sequence[Response], target: Sequence[Response], embedder: Embedder | None
) -> list[float | None]:
    """Return how alike the answers are, 0 to 1; None where the source has none.

    Args:
        source: The source's answers.
        target: The target's, to the same questions.
        embedder: Makes vectors of them; words are counted when None.
    """
    texts = [one.answer for one in (*source, *target)]
    vectors = _counted(texts) if embedder is None else _embedded(texts, embedder)
    return [
        _alike(one.answer, other.answer, vectors[at], vectors[len(source) + at])
        for at, (one, other) in enumerate(zip(source, target, strict=True))
    ]


def level(
    one: AtBudget, full: AtBudget, source: Sequence[Response], asked: Sequence[Item], seed: int
) -> Level:
    """Return what was measured at one budget, held against the largest."""
    alike = [value for value in one.alike if value is not None]
    categories = dict[str, list[float]]()
    for item, value in zip(asked, one.alike, strict=True):
        if value is not None:
            categories.setdefault(item.category, []).append(value)
    judged = zip(one.alike, source, one.answers, strict=True)
    pairs = zip(one.alike, full.alike, strict=True)
    differences = [a - b for a, b in pairs if a is not None and b is not None]

    def mean(places: Sequence[int]) -> float | None:
        return fmean(alike[place] for place in places) if places else None

    return Level(
        share=one.percent,
        budget=one.budget,
        rhf=resampled(len(alike), mean, seed),
        categories={name: round(fmean(some), 4) for name, some in categories.items()},
        right=share(sum(answer.right for answer in one.answers), len(one.answers)),
        near_but_otherwise=sum(
            value is not None and value >= NEAR and theirs.right != ours.right
            for value, theirs, ours in judged
        ),
        tokens=_mean(one.taken.tokens),
        verbatim=_mean(one.taken.verbatim),
        summarised=_mean(one.taken.summarised),
        p_full=round(sign_flips(differences, seed), 6),
    )


def _alike(one: str, other: str, first: Vector, second: Vector) -> float | None:
    if not one.strip():
        return None
    if one.split() == other.split():
        return 1.0
    return max(0.0, min(1.0, _cosine(first, second)))


def _embedded(texts: Sequence[str], embedder: Embedder) -> list[Vector]:
    found = list[Vector]()
    for raw in embedder.embed(texts):
        vector = array("f")
        vector.frombytes(raw)
        found.append(vector)
    return found


def _counted(texts: Sequence[str]) -> list[Vector]:
    """Return how often each word of all texts is in each."""
    counts = [Counter(terms_of(text)) for text in texts]
    words = sorted({word for count in counts for word in count})
    return [[float(count[word]) for word in words] for count in counts]


def _cosine(one: Vector, other: Vector) -> float:
    size = sqrt(sum(a * a for a in one) * sum(b * b for b in other))
    return sum(a * b for a, b in zip(one, other, strict=True)) / size if size else 0.0


def _mean(values: Sequence[int]) -> float:
    return round(fmean(values), 1) if values else 0.0
