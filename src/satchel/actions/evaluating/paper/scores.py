"""TCS of pairs of agents, RHF by budget, and TCS over several sessions."""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from satchel.actions.config import Settings
from satchel.actions.evaluating.agents.agent import Agent
from satchel.actions.evaluating.continuity.carrying import Owner, in_full, told
from satchel.actions.evaluating.continuity.evaluating import (
    BUDGET,
    Trial,
    evaluate_fidelity,
    evaluate_transfer,
    trial,
)
from satchel.actions.evaluating.continuity.transfer_score import OVERALL, Continuity, continuities
from satchel.actions.evaluating.continuity.trials import (
    Item,
    Telling,
    items,
    with_memory,
    with_text,
)
from satchel.actions.evaluating.conversing import comparing
from satchel.actions.evaluating.paper.table import Cell, Table
from satchel.actions.evaluating.probes.sets import ProbeSet

PAIRS = (("Claude", "gpt-4o"), ("GPT-4", "gemini-1.5-pro"), ("Gemini", "claude-3-5-sonnet"))
"""Of the paper: who had the memory, and the model that it is carried to."""

_THEIRS = {
    "gpt-4o": (0.87, 0.92, 0.85, 0.88),
    "gemini-1.5-pro": (0.83, 0.89, 0.81, 0.84),
    "claude-3-5-sonnet": (0.85, 0.91, 0.83, 0.86),
    "": (0.31, 0.45, 0.28, 0.35),
}
_THEIR_RHF = {25: 0.71, 50: 0.82, 75: 0.87, 100: 0.91}


def transfer_table(
    settings: Settings, source: Agent, target: Agent, sets: Sequence[ProbeSet]
) -> Table:
    """Return TCS for the paper's pairs, with the baseline without memory."""
    rows, scores = list[list[Cell]](), list[Continuity]()
    for first, model in PAIRS:
        asked = trial(source, target, sets=sets, model=model)
        scores = evaluate_transfer(settings, asked).scores
        name = f"{source.name} to {target.name}, framed for {model} ({first} in the paper)"
        rows.append([name, *map(_tcs, scores), _within(scores[-1]), _joined(_THEIRS[model])])
    baseline = [one.baseline_tcs.value if one.baseline_tcs else None for one in scores]
    rows.append(["no memory (baseline)", *baseline, "", _joined(_THEIRS[""])])
    categories = [one.category for one in scores[:-1]]
    probes = ", ".join(f"{one.probes} {one.category}" for one in scores[:-1])
    return Table(
        name="tcs",
        title="Transfer continuity (TCS)",
        columns=["pair", *categories, OVERALL, "95 %", "the paper's"],
        rows=rows,
        note=f"Probes: {probes}; {BUDGET:,} tokens for each. The source has its whole memory as "
        f"plain "
        f"text and answers {scores[-1].source.rate:.2f} right; the target has a bank that was "
        "exported, signed and imported elsewhere. Target against baseline: p = "
        f"{scores[-1].p_baseline:.2g} (McNemar, exact).",
    )


def fidelity_table(
    settings: Settings, source: Agent, target: Agent, sets: Sequence[ProbeSet]
) -> Table:
    """Return RHF by budget."""
    found = evaluate_fidelity(settings, trial(source, target, sets=sets, model="gpt-4o"))
    rows: list[list[Cell]] = [
        [
            one.budget,
            f"{one.share} %",
            one.rhf.value if one.rhf else None,
            f"{one.rhf.low:.2f}-{one.rhf.high:.2f}" if one.rhf else "",
            one.right.rate,
            one.verbatim,
            one.summarised,
            _THEIR_RHF.get(one.share),
        ]
        for one in reversed(found.levels)
    ]
    return Table(
        name="rhf",
        title="Re-hydration fidelity (RHF) by budget",
        columns=[
            "tokens",
            "of full",
            "RHF",
            "95 %",
            "right",
            "verbatim",
            "summarised",
            "the paper's",
        ],
        rows=rows,
        note=f"All of the memory takes {found.full:,} tokens ({found.tokenizer}). Answers are "
        f"compared "
        f"by {found.embedder}. Memories are chosen for each question.",
    )


def sessions_table(
    settings: Settings, source: Agent, target: Agent, sets: Sequence[ProbeSet], folder: Path
) -> Table:
    """Return TCS after each of several sessions, each of which is had on another machine."""
    asked = trial(source, target, sets=sets, model="gpt-4o")
    longest = max(len(world.sessions) for one in sets for world in one.worlds)
    rows = list[list[Cell]]()
    with TemporaryDirectory(dir=folder) as place:
        owner = Owner(Path(place), comparing(settings)[0])
        for number in range(longest):
            if number:
                owner.carry(f"session-{number - 1}", f"session-{number}")
            owner.remember(f"session-{number}", told(sets, sessions=range(number, number + 1)))
            score = _after(owner, asked, number)
            share = score.target
            rows.append([number + 1, number, score.probes, share.rate, _tcs(score), _within(score)])
    return Table(
        name="sessions",
        title="TCS over several sessions",
        columns=["sessions", "machines left behind", "probes", "right", "TCS", "95 %"],
        rows=rows,
        note="Before each session but the first, the memory is exported and imported elsewhere. "
        "Asked "
        "is what was told so far.",
    )


def _after(owner: Owner, asked: Trial, number: int) -> Continuity:
    there = told(asked.sets, sessions=range(number + 1))
    keys = {(one.world, one.memory.key) for one in there}
    replaced = {(one.world, one.memory.replaces or "") for one in there}
    probes = [one for one in items(asked.sets) if _is_told(one, keys - replaced)]
    telling = Telling(3 * len(probes), None)
    source = with_text(asked.source, probes, in_full(there), telling)
    with owner.framing(f"session-{number}") as framing:
        wanted = (asked.model, asked.budget)
        target, _ = with_memory(asked.target, probes, framing, wanted, telling)
    none = with_text(asked.target, probes, "", telling)
    return continuities(probes, source, target, none, asked.seed)[-1]


def _is_told(item: Item, keys: set[tuple[str, str]]) -> bool:
    return all((item.world, key) in keys for key in item.probe.needs)


def _tcs(one: Continuity) -> float | None:
    return one.tcs.value if one.tcs else None


def _within(one: Continuity) -> str:
    return f"{one.tcs.low:.2f}-{one.tcs.high:.2f}" if one.tcs else ""


def _joined(values: tuple[float, ...]) -> str:
    return " / ".join(f"{value:.2f}" for value in values)
