"""HTML pages of the measurements, with plots and tables."""

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import NamedTuple

from satchel.config.options import file_to_write
from satchel.config.settings import Settings
from satchel.evaluation.containment import ContainmentResult
from satchel.evaluation.continuity import Fidelity, TransferScore
from satchel.evaluation.paper import Paper
from satchel.evaluation.recall import FramedResult
from satchel.evaluation.statistics import Cell, Interval, Share, Table, cell_text

_WIDTH, _HEIGHT, _LEFT, _FOOT = 640, 260, 48, 46
_TOP = 16
_COLOURS = ("#2b6cb0", "#c05621", "#2f855a", "#6b46c1", "#718096")


class Bar(NamedTuple):
    """A figure from 0 to about 1, with its interval."""

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
                parts.append(_plot_bar(left, wide, bar, tallest, colour))
        parts.append(_legend(place, name, colour))
    parts += (
        _label(_LEFT + (at + 0.5) * room, _HEIGHT - _FOOT + 16, name)
        for at, name in enumerate(groups)
    )
    return _drawn(title, parts)


def lines(title: str, places: Sequence[float], series: dict[str, Sequence[Bar | None]]) -> str:
    """Return a plot of lines over positions, such as budgets, with intervals."""
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


def _plot_bar(left: float, wide: float, bar: Bar, tallest: float, colour: str) -> str:
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


def transfer_rows(found: TransferScore) -> Table:
    """Return the table of TCS by category."""
    rows: list[list[Cell]] = [
        [
            one.category,
            one.probes,
            one.source.rate,
            one.target.rate,
            one.baseline.rate,
            *_shown(one.tcs),
            one.baseline_tcs.value if one.baseline_tcs else None,
            f"{one.p_baseline:.2g}",
            f"{one.p_source:.2g}",
        ]
        for one in found.scores
    ]
    columns = ["", "probes", "source", "target", "no memory", "TCS", "95 %", "TCS, no memory"]
    return Table(
        name="tcs",
        title="Scores",
        columns=[*columns, "p, no memory", "p, source"],
        rows=rows,
        note="p: how likely the target's answers differ so much by chance from those without "
        "memory, "
        "and from the source's (McNemar, exact).",
    )


def fidelity_rows(found: Fidelity) -> Table:
    """Return the table of RHF by budget."""
    rows: list[list[Cell]] = [
        [
            f"{one.share} %",
            one.budget,
            *_shown(one.rhf),
            *one.categories.values(),
            one.right.rate,
            one.near_but_otherwise,
            one.verbatim,
            one.summarised,
            f"{one.p_full:.2g}",
        ]
        for one in found.levels
    ]
    names = list(found.levels[0].categories) if found.levels else []
    return Table(
        name="rhf",
        title="By budget",
        columns=[
            *("of full", "tokens", "RHF", "95 %", *names, "right", "near, judged otherwise"),
            *("verbatim", "summarised", "p, full"),
        ],
        rows=rows,
        note="Near, judged otherwise: answers that mean nearly the same as the source's by "
        "their vectors "
        "while one is right and the other is not. p: how likely the answers differ so much by "
        "chance "
        "from those at the largest budget (exchanged signs).",
    )


def framed_rows(found: FramedResult) -> Table:
    """Return the table of evidence by budget."""
    return Table(
        name="framed",
        title="By budget",
        columns=[
            *("tokens", "evidence", "shortened", "session Hit@1", "session NDCG@5"),
            *("tokens used", "memories", "over budget"),
        ],
        rows=[
            [
                one.budget,
                one.evidence,
                one.shortened,
                one.session_hit_1,
                one.session_ndcg_5,
                one.tokens,
                one.entries,
                one.over,
            ]
            for one in found.budgets
        ],
    )


def contained_rows(found: ContainmentResult) -> Table:
    """Return the table of escapes and withheld texts by corpus."""
    rows: list[list[Cell]] = [
        [
            *(one.name, one.ordinary, one.ordinary_held, one.attacks, one.attacks_held),
            *(one.mutated, one.escapes),
        ]
        for one in (*found.corpora, found.whole)
    ]
    columns = ["", "ordinary", "held back", "attacks", "held back", "made of them", "escapes"]
    return Table(
        name="containment",
        title="By corpus",
        columns=columns,
        rows=rows,
        note="Escapes are looked for in all of them, with quarantine switched off.",
    )


def _shown(one: Interval | None) -> tuple[Cell, Cell]:
    return (one.value, f"{one.low:.2f}-{one.high:.2f}") if one is not None else (None, "")


_STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;"
    "color:#222}table{border-collapse:collapse;margin:1rem 0}th,td{border:1px solid #ccc;"
    "padding:.25rem .6rem;text-align:left}td.n{text-align:right}pre{background:#f6f6f6;"
    "padding:1rem;overflow:auto}svg{width:100%;height:auto;font-size:11px}p.note{color:#555}"
)
# The page loads nothing and runs nothing, wherever it is served.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def write_page(settings: Settings, output: Path, page: str, *, overwrite: bool = False) -> None:
    """Write a page to a file atomically.

    Raises:
        PathRefusedError: If roots are set, and the file is outside of them.
        TargetExistsError: If it exists, and ``overwrite`` is not set.
        TargetError: If it cannot be written.
    """
    with file_to_write(settings, output) as outlet, outlet.writing(overwrite=overwrite) as stream:
        stream.write(page.encode())


def transfer_page(found: TransferScore) -> str:
    """Return the page of TCS."""
    names = [one.category for one in found.scores]
    plot = bars(
        "Transfer continuity",
        names,
        {
            "carried memory": [_bar(one.tcs) for one in found.scores],
            "no memory": [_bar(one.baseline_tcs) for one in found.scores],
        },
    )
    right = bars(
        "Right answers",
        names,
        {
            "source": [_share(one.source) for one in found.scores],
            "target": [_share(one.target) for one in found.scores],
            "no memory": [_share(one.baseline) for one in found.scores],
        },
    )
    facts = (
        f"{found.source} to {found.target}; {found.memories:,} memories of {found.sessions} "
        f"sessions; "
        f"{found.budget:,} tokens ({found.tokenizer}); seed {found.seed}. {' '.join(found.notes)}"
    )
    return _page("Transfer continuity (TCS)", facts, [plot, right, _table(transfer_rows(found))])


def fidelity_page(found: Fidelity) -> str:
    """Return the page of RHF."""
    places = [float(one.budget) for one in found.levels]
    plot = lines(
        "Fidelity by tokens",
        places,
        {
            "RHF": [_bar(one.rhf) for one in found.levels],
            "right answers": [_share(one.right) for one in found.levels],
        },
    )
    facts = (
        f"{found.source} to {found.target}; all of the memory takes {found.full:,} tokens "
        f"({found.tokenizer}); answers compared by {found.embedder}; seed {found.seed}. "
        f"{' '.join(found.notes)}"
    )
    return _page("Re-hydration fidelity (RHF)", facts, [plot, _table(fidelity_rows(found))])


def framed_page(found: FramedResult) -> str:
    """Return the page of evidence in the framed text."""
    places = [float(one.budget) for one in found.budgets]
    plot = lines(
        "Evidence by tokens",
        places,
        {"evidence": [Bar(one.evidence, one.evidence, one.evidence) for one in found.budgets]},
    )
    facts = (
        f"{found.data}: {found.questions:,} questions, {found.conversations} conversations; for "
        f"{found.model}, tokens counted by {found.tokenizer}. {' '.join(found.notes)}"
    )
    return _page("Evidence in the framed text", facts, [plot, _table(framed_rows(found))])


def paper_page(found: Paper) -> str:
    """Return the page of the paper's tables."""
    parts = [_table(table) for table in found.tables]
    parts.append(f"<h2>Example</h2><pre>{escape(found.example)}</pre>")
    facts = f"{found.source} to {found.target}. {' '.join(found.notes)}"
    return _page("The paper's tables, for this implementation", facts, parts)


def _page(title: str, facts: str, parts: Sequence[str]) -> str:
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body>"
        f"<h1>{escape(title)}</h1><p>{escape(facts)}</p>{''.join(parts)}</body></html>\n"
    )


def _table(table: Table) -> str:
    head = "".join(f"<th>{escape(column)}</th>" for column in table.columns)
    rows = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in table.rows)
    note = f'<p class="note">{escape(table.note)}</p>' if table.note else ""
    return f"<h2>{escape(table.title)}</h2><table><tr>{head}</tr>{rows}</table>{note}"


def _cell(cell: str | float | None) -> str:
    kind = "" if isinstance(cell, str) else ' class="n"'
    return f"<td{kind}>{escape(cell_text(cell))}</td>"


def _bar(one: Interval | None) -> Bar | None:
    return Bar(one.value, one.low, one.high) if one is not None else None


def _share(one: Share) -> Bar:
    return Bar(one.rate, one.low, one.high)
