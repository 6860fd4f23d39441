"""Figures with their uncertainty (intervals, paired tests), and tables of figures.

Random draws have a fixed seed, so that every run gives the same figures. Intervals cover 95 %.
"""

import random
from collections.abc import Callable, Sequence
from math import comb, sqrt

import msgspec

_Z = 1.959963984540054
"""The normal deviate of 95 %, two-sided."""

_RESAMPLES = 2000
_FLIPS = 5000
_ALL_FLIPS = 12
"""Maximum number of differences for which every combination of signs is tried."""


Cell = str | int | float | None


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """A table of figures, some with those of the paper."""

    name: str
    title: str
    columns: list[str]
    rows: list[list[Cell]]
    note: str = ""


def cell_text(cell: Cell) -> str:
    """Return a figure as it is shown."""
    if cell is None:
        return "-"
    if isinstance(cell, float):
        return f"{cell:.2f}"
    return f"{cell:,}" if isinstance(cell, int) else cell


class Interval(msgspec.Struct, frozen=True, kw_only=True):
    """A figure with its interval."""

    value: float
    low: float
    high: float


class Share(msgspec.Struct, frozen=True, kw_only=True):
    """A share with its interval."""

    count: int
    of: int
    rate: float
    low: float
    high: float


def share(count: int, of: int) -> Share:
    """Return a share with its Wilson score interval; 0 to 1 for an empty sample."""
    if not of:
        return Share(count=0, of=0, rate=0.0, low=0.0, high=1.0)
    rate, spread = count / of, _Z * _Z / of
    middle = (rate + spread / 2) / (1 + spread)
    half = _Z / (1 + spread) * sqrt(rate * (1 - rate) / of + spread / (4 * of))
    low, high = max(0.0, middle - half), min(1.0, middle + half)
    return Share(count=count, of=of, rate=_rounded(rate), low=_rounded(low), high=_rounded(high))


def resampled(
    size: int, figure: Callable[[Sequence[int]], float | None], seed: int
) -> Interval | None:
    """Return a figure of a sample with its bootstrap interval.

    Args:
        size: The size of the sample.
        figure: Computes the figure of a resample, by indexes; None if it has no value.
        seed: The seed of the draws.
    """
    whole = figure(range(size))
    if whole is None:
        return None
    chance = random.Random(seed)  # noqa: S311 - the same in every run is the point
    places = range(size)
    drawn = (figure(chance.choices(places, k=size)) for _ in range(_RESAMPLES))
    values = sorted(value for value in drawn if value is not None) or [whole]
    last = len(values) - 1
    low, high = values[round(0.025 * last)], values[round(0.975 * last)]
    return Interval(value=_rounded(whole), low=_rounded(low), high=_rounded(high))


def mcnemar(pairs: Sequence[tuple[bool, bool]]) -> float:
    """Return the probability of paired outcomes that differ as much by chance; exact, two-sided.

    Source: McNemar 1947; the exact form is a sign test of the pairs that differ.
    """
    gained = sum(not before and after for before, after in pairs)
    lost = sum(before and not after for before, after in pairs)
    differ, fewer = gained + lost, min(gained, lost)
    if not differ:
        return 1.0
    tail: float = sum(comb(differ, count) for count in range(fewer + 1)) / 2**differ
    return min(1.0, 2 * tail)


def sign_flips(differences: Sequence[float], seed: int) -> float:
    """Return the probability of such a mean of paired differences by chance, by sign flips.

    Exact for few differences, else from 5,000 draws, including the measured one.
    """
    changed = [value for value in differences if value]
    if not changed:
        return 1.0
    least = abs(sum(changed)) - 1e-12
    if len(changed) <= _ALL_FLIPS:
        every = 1 << len(changed)
        return sum(abs(_signed(changed, signs)) >= least for signs in range(every)) / every
    chance = random.Random(seed)  # noqa: S311 - as above
    drawn = (_signed(changed, chance.getrandbits(len(changed))) for _ in range(_FLIPS))
    return (1 + sum(abs(total) >= least for total in drawn)) / (1 + _FLIPS)


def _signed(values: Sequence[float], signs: int) -> float:
    return sum(-value if signs >> at & 1 else value for at, value in enumerate(values))


def _rounded(value: float) -> float:
    return round(value, 4)
