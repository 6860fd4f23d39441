"""The page of each report."""

from collections.abc import Sequence
from html import escape
from pathlib import Path

from satchel.actions.config import Settings
from satchel.actions.evaluating.continuity.evaluating import Fidelity, TransferScore
from satchel.actions.evaluating.continuity.statistics import Interval, Share
from satchel.actions.evaluating.framed import Framed
from satchel.actions.evaluating.pages.plots import Bar, bars, lines
from satchel.actions.evaluating.paper.measuring import Paper
from satchel.actions.evaluating.paper.table import Table, cell_text
from satchel.actions.evaluating.tables import fidelity_rows, framed_rows, transfer_rows
from satchel.actions.paths.permission import file_to_write

_STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;"
    "color:#222}table{border-collapse:collapse;margin:1rem 0}th,td{border:1px solid #ccc;"
    "padding:.25rem .6rem;text-align:left}td.n{text-align:right}pre{background:#f6f6f6;"
    "padding:1rem;overflow:auto}svg{width:100%;height:auto;font-size:11px}p.note{color:#555}"
)
# Nothing is loaded, and nothing in the page runs, whoever serves it.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def write_page(settings: Settings, output: Path, page: str, *, overwrite: bool = False) -> None:
    """Write a page to a file, which is there whole or not at all.

    Raises:
        PathRefusedError: If roots are set, and it is not in them.
        TargetExistsError: If it is there, and is not to be replaced.
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


def framed_page(found: Framed) -> str:
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
