"""TCS: how many of the source's successes the target has with memory that was carried to it.

``TCS = success(target, carried memory) / success(source, its whole memory)`` over the same probes;
the baseline puts the target without memory in place of the first. Source: the paper, section 5.1,
formula 3. It is not capped: a target that does better has more than 1.
"""

from collections.abc import Sequence

import msgspec

from satchel.actions.evaluating.continuity.statistics import (
    Interval,
    Share,
    mcnemar,
    resampled,
    share,
)
from satchel.actions.evaluating.continuity.trials import Item, Response

OVERALL = "all"


class Continuity(msgspec.Struct, frozen=True, kw_only=True):
    """The score of some probes."""

    category: str
    probes: int
    source: Share
    """Right answers of the source, which has its whole memory."""

    target: Share
    """Of the target, with what was carried over."""

    baseline: Share
    """Of the target without memory."""

    tcs: Interval | None
    """None where the source has no answer right."""

    baseline_tcs: Interval | None
    p_baseline: float
    """How likely target and baseline differ so much by chance (McNemar, exact)."""

    p_source: float
    """The same of target and source."""


def continuities(
    asked: Sequence[Item],
    source: Sequence[Response],
    target: Sequence[Response],
    baseline: Sequence[Response],
    seed: int,
) -> list[Continuity]:
    """Return the score of each category, and of all probes."""
    right = [
        (item.category, one.right, two.right, none.right)
        for item, one, two, none in zip(asked, source, target, baseline, strict=True)
    ]
    names = list(dict.fromkeys(item.category for item in asked))
    found = [
        _continuity(name, [one[1:] for one in right if one[0] == name], seed) for name in names
    ]
    return [*found, _continuity(OVERALL, [one[1:] for one in right], seed)]


def _continuity(name: str, right: list[tuple[bool, bool, bool]], seed: int) -> Continuity:
    def ratio(column: int) -> Interval | None:
        def figure(places: Sequence[int]) -> float | None:
            best = sum(right[place][0] for place in places)
            return sum(right[place][column] for place in places) / best if best else None

        return resampled(len(right), figure, seed)

    counts = [sum(one[column] for one in right) for column in range(3)]
    return Continuity(
        category=name,
        probes=len(right),
        source=share(counts[0], len(right)),
        target=share(counts[1], len(right)),
        baseline=share(counts[2], len(right)),
        tcs=ratio(1),
        baseline_tcs=ratio(2),
        p_baseline=mcnemar([(one[2], one[1]) for one in right]),
        p_source=mcnemar([(one[0], one[1]) for one in right]),
    )
