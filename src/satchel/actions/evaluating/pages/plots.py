"""Plots as SVG, drawn here: bars with what they lie between, and lines over budgets."""

from collections.abc import Sequence
from html import escape
from typing import NamedTuple

_WIDTH, _HEIGHT, _LEFT, _FOOT = 640, 260, 48, 46
_TOP = 16
_COLOURS = ("#2b6cb0", "#c05621", "#2f855a", "#6b46c1", "#718096")


class Bar(NamedTuple):
    """A figure from 0 to about 1, and between what it lies."""

    value: float
    low: float
    high: float


def bars(title: str, groups: Sequence[str], series: dict[str, Sequence[Bar | None]]) -> str:
    """Return a plot of bars side by side, one for each series in each group."""
    tallest = max([1.0, *(bar.high for some in series.values() for bar in some if bar)])
    parts = [_axes(title, tallest)]
    room = (_WIDTH - _LEFT - 10) / max(len(groups), 1)
    wide = room * 0.8 / max(len(series), 1)
    for place, (name, some) in enumerate(series.items()):
        colour = _COLOURS[place % len(_COLOURS)]
        for at, bar in enumerate(some):
            if bar is not None:
                left = _LEFT + at * room + room * 0.1 + place * wide
                parts.append(_bar(left, wide, bar, tallest, colour))
        parts.append(_legend(place, name, colour))
    parts += (
        _label(_LEFT + (at + 0.5) * room, _HEIGHT - _FOOT + 16, name)
        for at, name in enumerate(groups)
    )
    return _drawn(title, parts)


def lines(title: str, places: Sequence[float], series: dict[str, Sequence[Bar | None]]) -> str:
    """Return a plot of lines over some places, such as budgets, with what they lie between."""
    parts = [_axes(title, 1.0)]
    most = max([1.0, *places])

    def across(place: float) -> float:
        return _LEFT + 10 + (_WIDTH - _LEFT - 30) * place / most

    for number, (name, some) in enumerate(series.items()):
        colour = _COLOURS[number % len(_COLOURS)]
        there = [(across(place), bar) for place, bar in zip(places, some, strict=True) if bar]
        joined = " ".join(f"{x:.1f},{_up(bar.value, 1.0):.1f}" for x, bar in there)
        parts.append(
            f'<polyline points="{joined}" fill="none" stroke="{colour}" stroke-width="2"/>'
        )
        parts += (_whisker(x, bar, 1.0, colour) for x, bar in there)
        parts.append(_legend(number, name, colour))
    parts += (_label(across(place), _HEIGHT - _FOOT + 16, f"{place:,.0f}") for place in places)
    return _drawn(title, parts)


def _drawn(title: str, parts: Sequence[str]) -> str:
    head = f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(title)}">'
    return head + "".join(parts) + "</svg>"


def _axes(title: str, tallest: float) -> str:
    marks = [step / 4 for step in range(5)] + ([tallest] if tallest > 1 else [])
    rows = "".join(
        f'<line x1="{_LEFT}" x2="{_WIDTH - 10}" y1="{_up(mark, tallest):.1f}"'
        f' y2="{_up(mark, tallest):.1f}" stroke="#ddd"/>'
        f'<text x="{_LEFT - 6}" y="{_up(mark, tallest) + 4:.1f}" text-anchor="end">'
        f"{mark:.2f}</text>"
        for mark in marks
    )
    return f"<title>{escape(title)}</title>{rows}"


def _up(value: float, tallest: float) -> float:
    return _HEIGHT - _FOOT - (_HEIGHT - _FOOT - _TOP) * value / tallest


def _bar(left: float, wide: float, bar: Bar, tallest: float, colour: str) -> str:
    top = _up(bar.value, tallest)
    high = _HEIGHT - _FOOT - top
    return (
        f'<rect x="{left:.1f}" y="{top:.1f}" width="{wide * 0.9:.1f}" height="{high:.1f}"'
        f' fill="{colour}"><title>{bar.value:.2f} ({bar.low:.2f}-{bar.high:.2f})</title></rect>'
        + _whisker(left + wide * 0.45, bar, tallest, "#222")
    )


def _whisker(x: float, bar: Bar, tallest: float, colour: str) -> str:
    low, high = _up(bar.low, tallest), _up(bar.high, tallest)
    return (
        f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{low:.1f}" y2="{high:.1f}" stroke="{colour}"/>'
        f'<circle cx="{x:.1f}" cy="{_up(bar.value, tallest):.1f}" r="3" fill="{colour}"/>'
    )


def _label(x: float, y: float, text: str) -> str:
    return f'<text x="{x:.1f}" y="{y}" text-anchor="middle">{escape(text)}</text>'


def _legend(place: int, name: str, colour: str) -> str:
    x = _LEFT + place * 150
    return (
        f'<rect x="{x}" y="{_HEIGHT - 18}" width="10" height="10" fill="{colour}"/>'
        f'<text x="{x + 14}" y="{_HEIGHT - 9}">{escape(name)}</text>'
    )
