"""Measuring all tables of the paper."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from satchel.actions.config import Settings
from satchel.actions.evaluating.agents.agent import Agent
from satchel.actions.evaluating.agents.reader import Reader
from satchel.actions.evaluating.conversing import comparing
from satchel.actions.evaluating.paper.costs import ROUNDS, latencies_table, sizes_table
from satchel.actions.evaluating.paper.example import example
from satchel.actions.evaluating.paper.features import features_table
from satchel.actions.evaluating.paper.injecting import ATTEMPTS, injection_table
from satchel.actions.evaluating.paper.scores import fidelity_table, sessions_table, transfer_table
from satchel.actions.evaluating.paper.table import Table
from satchel.actions.evaluating.paper.tampering import (
    FIELDS,
    PARENTS,
    TOKENS,
    tampering_table,
    tokens_table,
)
from satchel.actions.evaluating.probes.sets import ProbeSet, shipped_sets
from satchel.actions.permitted.owning import require_owner

OnTable = Callable[[int, int], None]
"""Is told how many tables there are, and of how many."""

_ORDER = (
    "features", "tcs", "rhf", "injection", "tampering", "tokens", "sizes", "latencies", "sessions",
)  # fmt: skip


class Paper(msgspec.Struct, frozen=True, kw_only=True):
    """All tables of the paper, for this implementation."""

    source: str
    target: str
    tables: list[Table]
    """In the order of the paper; those that it lacks come last."""

    example: str
    """The appendix's framed text."""

    notes: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """How much is tried; the paper's numbers by default."""

    sets: Sequence[ProbeSet] = ()
    """Those that come along when empty."""

    attempts: int = ATTEMPTS
    fields: int = FIELDS
    parents: int = PARENTS
    tokens: int = TOKENS
    rounds: int = ROUNDS
    """Of each operation that is timed."""


def evaluate_paper(
    settings: Settings,
    source: Agent | None = None,
    target: Agent | None = None,
    *,
    scale: Scale | None = None,
    on_table: OnTable | None = None,
) -> Paper:
    """Measure all tables of the paper. Nothing of it touches the banks that are there.

    Args:
        settings: Say which model makes vectors.
        source: The agent that has its whole memory; the reader when None.
        target: The agent that gets what was carried over; the source when None.
        scale: How much is tried.
        on_table: Told of each table.

    Raises:
        InferenceError: If an agent does not answer.
    """
    require_owner(settings, "evaluate")
    first = source or Reader()
    second, size = target or first, scale or Scale()
    sets = tuple(size.sets) or shipped_sets()
    embedder, notes = comparing(settings)
    escapes, shown, tables = 0, "", dict[str, Table]()
    with TemporaryDirectory(prefix="satchel-paper-") as place:
        folder = Path(place)

        def injected() -> Table:
            nonlocal escapes
            table, escapes = injection_table(second, attempts=size.attempts)
            return table

        jobs: list[Callable[[], Table]] = [
            lambda: transfer_table(settings, first, second, sets),
            lambda: fidelity_table(settings, first, second, sets),
            injected,
            lambda: tampering_table(folder, fields=size.fields, parents=size.parents),
            lambda: tokens_table(size.tokens),
            lambda: sizes_table(folder),
            lambda: latencies_table(folder, embedder, rounds=size.rounds),
            lambda: sessions_table(settings, first, second, sets, folder),
        ]
        for number, job in enumerate(jobs, start=1):
            table = job()
            tables[table.name] = table
            if on_table is not None:
                on_table(number, len(jobs))
        shown = example(folder, embedder)
    tables["features"] = features_table(tables, escapes)
    return Paper(
        source=first.name,
        target=second.name,
        tables=[tables[name] for name in _ORDER],
        example=shown,
        notes=notes,
    )
