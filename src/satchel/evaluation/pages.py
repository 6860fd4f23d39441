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
_COLORS = ("#2b6cb0", "#c05621", "#2f855a", "#6b46c1", "#718096")


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
    for number, (name, some) in enumerate(series.items()):
        color = _COLORS[number % len(_COLORS)]
        for at, bar in enumerate(some):
            if bar is not None:
                left = _LEFT + at * room + room * 0.1 + number * wide
                parts.append(_plot_bar(left, wide, bar, tallest, color))
        parts.append(_legend(number, name, color))
    parts += (
        _label(_LEFT + (at + 0.5) * room, _HEIGHT - _FOOT + 16, name)
        for at, name in enumerate(groups)
    )
    return _drawn(title, parts)


def lines(title: str, positions: Sequence[float], series: dict[str, Sequence[Bar | None]]) -> str:
    """Return a plot of lines over positions, such as budgets, with intervals."""
    parts = [_axes(title, 1.0)]
    most = max([1.0, *positions])

    def across(position: float) -> float:
        return _LEFT + 10 + (_WIDTH - _LEFT - 30) * position / most

    for number, (name, some) in enumerate(series.items()):
        color = _COLORS[number % len(_COLORS)]
        points = [
            (across(position), bar) for position, bar in zip(positions, some, strict=True) if bar
        ]
        joined = " ".join(f"{x:.1f},{_y(bar.value, 1.0):.1f}" for x, bar in points)
        parts.append(f'<polyline points="{joined}" fill="none" stroke="{color}" stroke-width="2"/>')
        parts += (_whisker(x, bar, 1.0, color) for x, bar in points)
        parts.append(_legend(number, name, color))
    parts += (
        _label(across(position), _HEIGHT - _FOOT + 16, f"{position:,.0f}") for position in positions
    )
    return _drawn(title, parts)


def _drawn(title: str, parts: Sequence[str]) -> str:
    head = f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(title)}">'
    return head + "".join(parts) + "</svg>"


def _axes(title: str, tallest: float) -> str:
    marks = [step / 4 for step in range(5)] + ([tallest] if tallest > 1 else [])
    rows = "".join(
        f'<line x1="{_LEFT}" x2="{_WIDTH - 10}" y1="{_y(mark, tallest):.1f}"'
        f' y2="{_y(mark, tallest):.1f}" stroke="#ddd"/>'
        f'<text x="{_LEFT - 6}" y="{_y(mark, tallest) + 4:.1f}" text-anchor="end">'
        f"{mark:.2f}</text>"
        for mark in marks
    )
    return f"<title>{escape(title)}</title>{rows}"


def _y(value: float, tallest: float) -> float:
    return _HEIGHT - _FOOT - (_HEIGHT - _FOOT - _TOP) * value / tallest


def _plot_bar(left: float, wide: float, bar: Bar, tallest: float, color: str) -> str:
    top = _y(bar.value, tallest)
    high = _HEIGHT - _FOOT - top
    return (
        f'<rect x="{left:.1f}" y="{top:.1f}" width="{wide * 0.9:.1f}" height="{high:.1f}"'
        f' fill="{color}"><title>{bar.value:.2f} ({bar.low:.2f}-{bar.high:.2f})</title></rect>'
        + _whisker(left + wide * 0.45, bar, tallest, "#222")
    )


def _whisker(x: float, bar: Bar, tallest: float, color: str) -> str:
    low, high = _y(bar.low, tallest), _y(bar.high, tallest)
    return (
        f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{low:.1f}" y2="{high:.1f}" stroke="{color}"/>'
        f'<circle cx="{x:.1f}" cy="{_y(bar.value, tallest):.1f}" r="3" fill="{color}"/>'
    )


def _label(x: float, y: float, text: str) -> str:
    return f'<text x="{x:.1f}" y="{y}" text-anchor="middle">{escape(text)}</text>'


def _legend(number: int, name: str, color: str) -> str:
    x = _LEFT + number * 150
    return (
        f'<rect x="{x}" y="{_HEIGHT - 18}" width="10" height="10" fill="{color}"/>'
        f'<text x="{x + 14}" y="{_HEIGHT - 9}">{escape(name)}</text>'
    )


def transfer_rows(score: TransferScore) -> Table:
    """Return the table of TCS by category."""
    rows: list[list[Cell]] = [
        [
            continuity.category,
            continuity.probes,
            continuity.source.rate,
            continuity.target.rate,
            continuity.baseline.rate,
            *_with_interval(continuity.tcs),
            continuity.baseline_tcs.value if continuity.baseline_tcs else None,
            f"{continuity.p_baseline:.2g}",
            f"{continuity.p_source:.2g}",
        ]
        for continuity in score.scores
    ]
    columns = ["", "probes", "source", "target", "no memory", "TCS", "95 % CI", "TCS, no memory"]
    return Table(
        name="tcs",
        title="Scores",
        columns=[*columns, "p, no memory", "p, source"],
        rows=rows,
        note="p: probability that chance alone makes the target's answers differ this much from "
        "those without memory, and from the source's (exact McNemar test).",
    )


def fidelity_rows(fidelity: Fidelity) -> Table:
    """Return the table of RHF by budget."""
    rows: list[list[Cell]] = [
        [
            f"{level.share} %",
            level.budget,
            *_with_interval(level.rhf),
            *level.categories.values(),
            level.right.rate,
            level.near_but_otherwise,
            level.verbatim,
            level.summarized,
            f"{level.p_full:.2g}",
        ]
        for level in fidelity.levels
    ]
    names = list(fidelity.levels[0].categories) if fidelity.levels else []
    return Table(
        name="rhf",
        title="By budget",
        columns=[
            *("budget", "tokens", "RHF", "95 % CI", *names, "correct", "similar, other verdict"),
            *("verbatim", "summarized", "p, full"),
        ],
        rows=rows,
        note="Budget: share of the tokens of the whole memory. Similar, other verdict: answers "
        "whose vectors are close to the source's, while only one of the two is correct. p: "
        "probability that chance alone makes the answers differ this much from those at the "
        "largest budget (sign-flip permutation test).",
    )


def framed_rows(result: FramedResult) -> Table:
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
                framed.budget,
                framed.evidence,
                framed.shortened,
                framed.session_hit_1,
                framed.session_ndcg_5,
                framed.tokens,
                framed.entries,
                framed.over,
            ]
            for framed in result.budgets
        ],
    )


def contained_rows(result: ContainmentResult) -> Table:
    """Return the table of escapes and withheld texts by corpus."""
    rows: list[list[Cell]] = [
        [
            corpus.name,
            corpus.ordinary,
            corpus.ordinary_held,
            corpus.attacks,
            corpus.attacks_held,
            corpus.mutated,
            corpus.escapes,
        ]
        for corpus in (*result.corpora, result.whole)
    ]
    columns = ["", "ordinary", "withheld", "attacks", "withheld", "mutated", "escapes"]
    return Table(
        name="containment",
        title="By corpus",
        columns=columns,
        rows=rows,
        note="All texts and mutations are searched for escapes, with quarantine disabled.",
    )


def _with_interval(interval: Interval | None) -> tuple[Cell, Cell]:
    if interval is None:
        return None, ""
    return interval.value, f"{interval.low:.2f}-{interval.high:.2f}"


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


def transfer_page(score: TransferScore) -> str:
    """Return the page of TCS."""
    names = [continuity.category for continuity in score.scores]
    plot = bars(
        "Transfer continuity",
        names,
        {
            "carried memory": [_bar(continuity.tcs) for continuity in score.scores],
            "no memory": [_bar(continuity.baseline_tcs) for continuity in score.scores],
        },
    )
    right = bars(
        "Right answers",
        names,
        {
            "source": [_share(continuity.source) for continuity in score.scores],
            "target": [_share(continuity.target) for continuity in score.scores],
            "no memory": [_share(continuity.baseline) for continuity in score.scores],
        },
    )
    facts = (
        f"{score.source} to {score.target}; {score.memories:,} memories of {score.sessions} "
        f"sessions; "
        f"{score.budget:,} tokens ({score.tokenizer}); seed {score.seed}. {' '.join(score.notes)}"
    )
    return _page("Transfer continuity (TCS)", facts, [plot, right, _table(transfer_rows(score))])


def fidelity_page(fidelity: Fidelity) -> str:
    """Return the page of RHF."""
    budgets = [float(level.budget) for level in fidelity.levels]
    plot = lines(
        "Fidelity by tokens",
        budgets,
        {
            "RHF": [_bar(level.rhf) for level in fidelity.levels],
            "right answers": [_share(level.right) for level in fidelity.levels],
        },
    )
    facts = (
        f"{fidelity.source} to {fidelity.target}; all of the memory takes {fidelity.full:,} tokens "
        f"({fidelity.tokenizer}); answers compared by {fidelity.embedder}; seed {fidelity.seed}. "
        f"{' '.join(fidelity.notes)}"
    )
    return _page("Re-hydration fidelity (RHF)", facts, [plot, _table(fidelity_rows(fidelity))])


def framed_page(result: FramedResult) -> str:
    """Return the page of evidence in the framed text."""
    budgets = [float(framed.budget) for framed in result.budgets]
    plot = lines(
        "Evidence by tokens",
        budgets,
        {
            "evidence": [
                Bar(framed.evidence, framed.evidence, framed.evidence) for framed in result.budgets
            ]
        },
    )
    facts = (
        f"{result.data}: {result.questions:,} questions, {result.conversations} conversations; for "
        f"{result.model}, tokens counted by {result.tokenizer}. {' '.join(result.notes)}"
    )
    return _page("Evidence in the framed text", facts, [plot, _table(framed_rows(result))])


def paper_page(paper: Paper) -> str:
    """Return the page of the paper's tables."""
    parts = [_table(table) for table in paper.tables]
    parts.append(f"<h2>Example</h2><pre>{escape(paper.example)}</pre>")
    facts = f"{paper.source} to {paper.target}. {' '.join(paper.notes)}"
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


def _bar(interval: Interval | None) -> Bar | None:
    return Bar(interval.value, interval.low, interval.high) if interval is not None else None


def _share(share: Share) -> Bar:
    return Bar(share.rate, share.low, share.high)
