"""Measuring TCS and RHF: remember, carry over, ask, score."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from satchel.actions.config import Settings
from satchel.actions.evaluating.agents.agent import Agent
from satchel.actions.evaluating.agents.reader import Reader
from satchel.actions.evaluating.continuity.carrying import Framing, Owner, in_full, told
from satchel.actions.evaluating.continuity.fidelity import (
    WORDS,
    AtBudget,
    Level,
    level,
    likeness,
)
from satchel.actions.evaluating.continuity.transfer_score import Continuity, continuities
from satchel.actions.evaluating.continuity.trials import (
    Progress,
    Telling,
    items,
    with_memory,
    with_text,
)
from satchel.actions.evaluating.conversing import comparing
from satchel.actions.evaluating.probes.sets import ProbeSet, shipped_sets
from satchel.actions.permitted.owning import require_owner
from satchel.errors import UsageError
from satchel.ports.inference.embedder import Embedder

LEVELS = (25, 50, 75, 100)
"""Percent of the tokens that all of the memory takes."""

BUDGET = 2048
"""Tokens that a target is given unless it is said."""

SEED = 20260701

_KEPT = 24
"""Tokens that the pipeline keeps for saying what was left out."""

_SOURCE, _TARGET = "source", "target"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """What is measured, and with whom."""

    source: Agent
    """Has its whole memory, as plain text."""

    target: Agent
    """Has what was carried over, framed."""

    sets: tuple[ProbeSet, ...]
    model: str = ""
    """The model that memory is framed for; plain text when empty."""

    budget: int = BUDGET
    levels: tuple[int, ...] = LEVELS
    seed: int = SEED
    vectors: bool = True
    """Whether vectors are made and compared."""

    def __post_init__(self) -> None:
        if self.budget < 1:
            raise UsageError("the budget must be at least 1 token", field="budget")
        if not self.levels or not all(1 <= one <= 100 for one in self.levels):  # noqa: PLR2004 - percent
            raise UsageError("budgets must be 1 to 100 percent", field="levels")


class TransferScore(msgspec.Struct, frozen=True, kw_only=True):
    """TCS of a pair of agents."""

    source: str
    target: str
    model: str
    budget: int
    tokenizer: str
    memories: int
    sessions: int
    seed: int
    scores: list[Continuity]
    """Of each category, and of all probes."""

    vectors: str | None
    notes: list[str]


class Fidelity(msgspec.Struct, frozen=True, kw_only=True):
    """RHF of a pair of agents, by budget."""

    source: str
    target: str
    model: str
    full: int
    """Tokens that all of the memory takes, framed."""

    tokenizer: str
    memories: int
    probes: int
    left_out: int
    """Probes that the source does not answer."""

    embedder: str
    """What the answers are compared by."""

    seed: int
    levels: list[Level]
    vectors: str | None
    notes: list[str]


def trial(  # noqa: PLR0913 - each is chosen on its own
    source: Agent | None = None,
    target: Agent | None = None,
    *,
    sets: Sequence[ProbeSet] = (),
    model: str = "",
    budget: int = BUDGET,
    levels: Sequence[int] = LEVELS,
    seed: int = SEED,
    vectors: bool = True,
) -> Trial:
    """Return a trial; without agents of the reader, without sets of those that come along."""
    return Trial(
        source=source or Reader(),
        target=target or source or Reader(),
        sets=tuple(sets) or shipped_sets(),
        model=model,
        budget=budget,
        levels=tuple(sorted(set(levels))),
        seed=seed,
        vectors=vectors,
    )


def evaluate_transfer(
    settings: Settings, asked: Trial, progress: Progress | None = None
) -> TransferScore:
    """Measure TCS. Nothing of it touches the banks that are there.

    Raises:
        InferenceError: If an agent does not answer.
    """
    require_owner(settings, "evaluate")
    probes = items(asked.sets)
    telling = Telling(3 * len(probes), progress)
    embedder, notes = comparing(settings) if asked.vectors else (None, [])
    whole = told(asked.sets)
    source = with_text(asked.source, probes, in_full(whole), telling)
    with _carried(asked, embedder) as framing:
        target, taken = with_memory(
            asked.target, probes, framing, (asked.model, asked.budget), telling
        )
    none = with_text(asked.target, probes, "", telling)
    return TransferScore(
        source=asked.source.name,
        target=asked.target.name,
        model=asked.model,
        budget=asked.budget,
        tokenizer=taken.tokenizer,
        memories=len(whole),
        sessions=len({(one.world, one.at) for one in whole}),
        seed=asked.seed,
        scores=continuities(probes, source, target, none, asked.seed),
        vectors=None if embedder is None else embedder.model,
        notes=notes,
    )


def evaluate_fidelity(
    settings: Settings, asked: Trial, progress: Progress | None = None
) -> Fidelity:
    """Measure RHF at several budgets. Nothing of it touches the banks that are there.

    Raises:
        InferenceError: If an agent, or the model that compares answers, does not answer.
    """
    require_owner(settings, "evaluate")
    probes = items(asked.sets)
    telling = Telling((1 + len(asked.levels)) * len(probes), progress)
    embedder, notes = comparing(settings) if asked.vectors else (None, [])
    whole = told(asked.sets)
    source = with_text(asked.source, probes, in_full(whole), telling)
    measured = list[AtBudget]()
    with _carried(asked, embedder) as framing:
        full = framing.everything(asked.model)
        most = full.tokens + _KEPT
        for percent in asked.levels:
            budget = max(1, most * percent // 100)
            answers, taken = with_memory(
                asked.target, probes, framing, (asked.model, budget), telling
            )
            alike = likeness(source, answers, embedder)
            measured.append(
                AtBudget(percent=percent, budget=budget, answers=answers, alike=alike, taken=taken)
            )
    return Fidelity(
        source=asked.source.name,
        target=asked.target.name,
        model=asked.model,
        full=most,
        tokenizer=full.tokenizer,
        memories=len(whole),
        probes=len(probes),
        left_out=sum(not one.answer.strip() for one in source),
        embedder=WORDS if embedder is None else embedder.model,
        seed=asked.seed,
        levels=[level(one, measured[-1], source, probes, asked.seed) for one in measured],
        vectors=None if embedder is None else embedder.model,
        notes=notes,
    )


@contextmanager
def _carried(asked: Trial, embedder: Embedder | None) -> Iterator[Framing]:
    """Give the memory of the sets as it is on a machine that it was carried to."""
    with TemporaryDirectory(prefix="satchel-evaluate-") as folder:
        owner = Owner(Path(folder), embedder)
        owner.remember(_SOURCE, told(asked.sets))
        owner.carry(_SOURCE, _TARGET)
        with owner.framing(_TARGET) as framing:
            yield framing
