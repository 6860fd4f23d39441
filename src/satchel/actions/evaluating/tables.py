"""Reports as tables: what is printed, and what stands on their pages."""

from satchel.actions.evaluating.containment.evaluating import Contained
from satchel.actions.evaluating.continuity.evaluating import Fidelity, TransferScore
from satchel.actions.evaluating.continuity.statistics import Interval
from satchel.actions.evaluating.framed import Framed
from satchel.actions.evaluating.paper.table import Cell, Table


def transfer_rows(found: TransferScore) -> Table:
    """Return TCS by category."""
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
    """Return RHF by budget."""
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


def framed_rows(found: Framed) -> Table:
    """Return evidence by budget."""
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


def contained_rows(found: Contained) -> Table:
    """Return what got out and what is held back, by corpus."""
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
