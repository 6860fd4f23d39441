"""The appendix's example: a small memory, as a model is given it."""

from pathlib import Path

from satchel.actions.evaluating.continuity.carrying import Owner, Told
from satchel.actions.evaluating.probes.sets import Remembered
from satchel.memory.entries import Episodic, Identity, Procedural, Semantic, Working
from satchel.ports.inference.embedder import Embedder

MODEL, BUDGET = "gpt-4-turbo", 4096
"""Source: the paper, appendix B."""

TASK = "Go on with the quarterly report for Accra Harbour."

_MEMORIES: tuple[Episodic | Semantic | Procedural | Working | Identity, ...] = (
    Identity(
        persona="An assistant for financial analysts", policies=("Figures carry their source.",)
    ),
    Semantic(
        subject="Accra Harbour", predicate="revenue_q3_2026", object="4.2 million", confidence=0.9
    ),
    Episodic(text="Ada asked for the report as a table, not as prose.", actor="user"),
    Procedural(
        name="quarterly_report",
        description="How the report is made",
        body="Read the ledger, compare it with the quarter before, mark what changed by over 10 %.",
        preconditions=("the ledger of the quarter is closed",),
    ),
    Working(
        goals=("finish the quarterly report",),
        subgoals=("check the berth fees",),
        pending_actions=("ask Bela for the September ledger",),
    ),
)


def example(folder: Path, embedder: Embedder | None) -> str:
    """Return the framed text."""
    owner = Owner(folder, embedder)
    owner.remember(
        "example",
        [
            Told("2026-06-30T09:00:00.000000Z", "example", Remembered(key=str(at), entry=entry))
            for at, entry in enumerate(_MEMORIES)
        ],
    )
    with owner.framing("example") as framing:
        framed = framing(TASK, MODEL, BUDGET)
    return framed.text if framed is not None else ""
