"""Transfer continuity (TCS) and rehydration fidelity (RHF): store, transfer, ask, score."""

from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import sqrt
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory

import msgspec

from satchel.bank.machine_keys import require_owner
from satchel.config.settings import Settings
from satchel.errors import UsageError
from satchel.evaluation.agents import AgentQuestion, ProbeAgent, ReaderAgent, terms_of
from satchel.evaluation.carriers import MemoryFramer, Owner, dated_memories, in_full
from satchel.evaluation.probes import Probe, ProbeSet, is_right, shipped_sets
from satchel.evaluation.recall import comparison_embedder
from satchel.evaluation.statistics import Interval, Share, mcnemar, resampled, share, sign_flips
from satchel.ports.inference import Embedder

Progress = Callable[[int, int], None]
"""Called with the number of answers, and the total."""


@dataclass(frozen=True, slots=True)
class ProbeItem:
    """A probe with its category and its position."""

    category: str
    world: str
    probe: Probe


@dataclass(frozen=True, slots=True)
class Response:
    """The answer of an agent."""

    answer: str
    right: bool


@dataclass(slots=True)
class TextUsage:
    """The sizes of the texts for an agent."""

    tokens: list[int] = field(default_factory=list)
    verbatim: list[int] = field(default_factory=list)
    summarized: list[int] = field(default_factory=list)
    tokenizer: str = ""


class ProgressCounter:
    """Counts answers, and reports progress."""

    def __init__(self, total: int, progress: Progress | None) -> None:
        self._total, self._progress, self._done = total, progress, 0

    def count(self) -> None:
        """Count an answer."""
        self._done += 1
        if self._progress is not None:
            self._progress(self._done, self._total)


def items(sets: Sequence[ProbeSet]) -> list[ProbeItem]:
    """Return the probes of some sets."""
    return [
        ProbeItem(probe_set.category, f"{at}/{world.name}", probe)
        for at, probe_set in enumerate(sets)
        for world, probe in probe_set.probes()
    ]


def with_text(
    agent: ProbeAgent, probes: Iterable[ProbeItem], text: str, counter: ProgressCounter
) -> list[Response]:
    """Return the answers of an agent with the same text for every question."""
    return [_answer(agent, item.probe, text, counter) for item in probes]


def with_memory(
    agent: ProbeAgent,
    probes: Iterable[ProbeItem],
    framing: MemoryFramer,
    request: tuple[str, int],
    counter: ProgressCounter,
) -> tuple[list[Response], TextUsage]:
    """Return the answers of an agent with the memory framed for each question.

    Args:
        agent: The agent.
        probes: The probes.
        framing: Frames the memory.
        request: The model that it is framed for, and the token budget of the text.
        counter: Counts the answers.
    """
    responses, usage = list[Response](), TextUsage()
    for item in probes:
        framed = framing(item.probe.question, *request)
        text = "" if framed is None else framed.text
        if framed is not None:
            usage.tokens.append(framed.tokens)
            usage.verbatim.append(sum(entry.form == "verbatim" for entry in framed.entries))
            usage.summarized.append(sum(entry.form == "summary" for entry in framed.entries))
            usage.tokenizer = framed.tokenizer
        responses.append(_answer(agent, item.probe, text, counter))
    return responses, usage


def _answer(agent: ProbeAgent, probe: Probe, text: str, counter: ProgressCounter) -> Response:
    answer = agent.answer(AgentQuestion(question=probe.question, memory=text))
    counter.count()
    return Response(answer, is_right(probe, answer))


OVERALL = "all"


class Continuity(msgspec.Struct, frozen=True, kw_only=True):
    """The score of some probes."""

    category: str
    probes: int
    source: Share
    """Right answers of the source, with its whole memory."""

    target: Share
    """Right answers of the target, with the transferred memory."""

    baseline: Share
    """Right answers of the target without memory."""

    tcs: Interval | None
    """None if the source has no right answer."""

    baseline_tcs: Interval | None
    p_baseline: float
    """Probability of a difference as large between target and baseline by chance (McNemar, exact).
    """

    p_source: float
    """The same for target and source."""


def continuities(
    probes: Sequence[ProbeItem],
    source: Sequence[Response],
    target: Sequence[Response],
    baseline: Sequence[Response],
    seed: int,
) -> list[Continuity]:
    """Return the score of each category, and of all probes."""
    right = [
        (item.category, before.right, after.right, without.right)
        for item, before, after, without in zip(probes, source, target, baseline, strict=True)
    ]
    names = list(dict.fromkeys(item.category for item in probes))
    scores = [
        _continuity(name, [row[1:] for row in right if row[0] == name], seed) for name in names
    ]
    return [*scores, _continuity(OVERALL, [row[1:] for row in right], seed)]


def _continuity(name: str, right: list[tuple[bool, bool, bool]], seed: int) -> Continuity:
    def ratio(column: int) -> Interval | None:
        def figure(positions: Sequence[int]) -> float | None:
            best = sum(right[position][0] for position in positions)
            return sum(right[position][column] for position in positions) / best if best else None

        return resampled(len(right), figure, seed)

    counts = [sum(outcome[column] for outcome in right) for column in range(3)]
    return Continuity(
        category=name,
        probes=len(right),
        source=share(counts[0], len(right)),
        target=share(counts[1], len(right)),
        baseline=share(counts[2], len(right)),
        tcs=ratio(1),
        baseline_tcs=ratio(2),
        p_baseline=mcnemar([(outcome[2], outcome[1]) for outcome in right]),
        p_source=mcnemar([(outcome[0], outcome[1]) for outcome in right]),
    )


NEAR = 0.9
"""The minimum cosine of near answers."""

WORDS = "counted words"

Vector = Sequence[float]


class Level(msgspec.Struct, frozen=True, kw_only=True):
    """The results at one budget."""

    share: int
    """In percent of the tokens of the whole memory."""

    budget: int
    """Tokens."""

    rhf: Interval | None
    categories: dict[str, float]
    right: Share
    """Right answers of the target."""

    near_but_otherwise: int
    """Answers near the source's, of which only one is right."""

    tokens: float
    """Mean tokens of the texts."""

    verbatim: float
    """Mean number of memories in full."""

    summarized: float
    p_full: float
    """Probability of a difference as large from the largest budget by chance (sign flips)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetRun:
    """The answers at one budget."""

    percent: int
    budget: int
    answers: Sequence[Response]
    alike: Sequence[float | None]
    """Similarity to the source's answers; None if the source has none."""

    taken: TextUsage


def likeness(
    source: Sequence[Response], target: Sequence[Response], embedder: Embedder | None
) -> list[float | None]:
    """Return the similarity of answers, 0 to 1; None if the source has none.

    Args:
        source: The source's answers.
        target: The target's, to the same questions.
        embedder: Makes vectors of them; None to compare word counts.
    """
    texts = [response.answer for response in (*source, *target)]
    vectors = _counted(texts) if embedder is None else _embedded(texts, embedder)
    return [
        _alike(response.answer, other.answer, vectors[at], vectors[len(source) + at])
        for at, (response, other) in enumerate(zip(source, target, strict=True))
    ]


def level(
    run: BudgetRun,
    full: BudgetRun,
    source: Sequence[Response],
    probes: Sequence[ProbeItem],
    seed: int,
) -> Level:
    """Return the results at one budget, compared with the largest."""
    alike = [value for value in run.alike if value is not None]
    categories = dict[str, list[float]]()
    for item, value in zip(probes, run.alike, strict=True):
        if value is not None:
            categories.setdefault(item.category, []).append(value)
    judged = zip(run.alike, source, run.answers, strict=True)
    pairs = zip(run.alike, full.alike, strict=True)
    differences = [a - b for a, b in pairs if a is not None and b is not None]

    def mean(positions: Sequence[int]) -> float | None:
        return fmean(alike[position] for position in positions) if positions else None

    return Level(
        share=run.percent,
        budget=run.budget,
        rhf=resampled(len(alike), mean, seed),
        categories={name: round(fmean(some), 4) for name, some in categories.items()},
        right=share(sum(answer.right for answer in run.answers), len(run.answers)),
        near_but_otherwise=sum(
            value is not None and value >= NEAR and theirs.right != ours.right
            for value, theirs, ours in judged
        ),
        tokens=_mean(run.taken.tokens),
        verbatim=_mean(run.taken.verbatim),
        summarized=_mean(run.taken.summarized),
        p_full=round(sign_flips(differences, seed), 6),
    )


def _alike(answer: str, other: str, first: Vector, second: Vector) -> float | None:
    if not answer.strip():
        return None
    if answer.split() == other.split():
        return 1.0
    return max(0.0, min(1.0, _cosine(first, second)))


def _embedded(texts: Sequence[str], embedder: Embedder) -> list[Vector]:
    vectors = list[Vector]()
    for raw in embedder.embed(texts):
        vector = array("f")
        vector.frombytes(raw)
        vectors.append(vector)
    return vectors


def _counted(texts: Sequence[str]) -> list[Vector]:
    """Return the word counts of each text, over the words of all texts."""
    counts = [Counter(terms_of(text)) for text in texts]
    words = sorted({word for count in counts for word in count})
    return [[float(count[word]) for word in words] for count in counts]


def _cosine(vector: Vector, other: Vector) -> float:
    size = sqrt(sum(a * a for a in vector) * sum(b * b for b in other))
    return sum(a * b for a, b in zip(vector, other, strict=True)) / size if size else 0.0


def _mean(values: Sequence[int]) -> float:
    return round(fmean(values), 1) if values else 0.0


LEVELS = (25, 50, 75, 100)
"""Percent of the tokens of the whole memory."""

BUDGET = 2048
"""The default token budget of a target."""

SEED = 20260701

_KEPT = 24
"""Tokens that the pipeline reserves for the note on omitted memories."""

_SOURCE, _TARGET = "source", "target"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """The probes and agents of a measurement."""

    source: ProbeAgent
    """The source: has its whole memory, as plain text."""

    target: ProbeAgent
    """The target: has the transferred memory, framed."""

    sets: tuple[ProbeSet, ...]
    model: str = ""
    """The model that memory is framed for; empty for plain text."""

    budget: int = BUDGET
    levels: tuple[int, ...] = LEVELS
    seed: int = SEED
    vectors: bool = True
    """Whether to make and compare vectors."""

    def __post_init__(self) -> None:
        if self.budget < 1:
            raise UsageError("the budget must be at least 1 token", field="budget")
        if not self.levels or not all(1 <= level <= 100 for level in self.levels):  # noqa: PLR2004 - percent
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
    """For each category, and for all probes."""

    vectors: str | None
    notes: list[str]


class Fidelity(msgspec.Struct, frozen=True, kw_only=True):
    """RHF of a pair of agents, by budget."""

    source: str
    target: str
    model: str
    full: int
    """Tokens of the whole memory, framed."""

    tokenizer: str
    memories: int
    probes: int
    left_out: int
    """Probes without an answer of the source."""

    embedder: str
    """The method of comparing answers."""

    seed: int
    levels: list[Level]
    vectors: str | None
    notes: list[str]


def trial(  # noqa: PLR0913 - each is chosen on its own
    source: ProbeAgent | None = None,
    target: ProbeAgent | None = None,
    *,
    sets: Sequence[ProbeSet] = (),
    model: str = "",
    budget: int = BUDGET,
    levels: Sequence[int] = LEVELS,
    seed: int = SEED,
    vectors: bool = True,
) -> Trial:
    """Return a trial; by default with the reader and the built-in sets."""
    return Trial(
        source=source or ReaderAgent(),
        target=target or source or ReaderAgent(),
        sets=tuple(sets) or shipped_sets(),
        model=model,
        budget=budget,
        levels=tuple(sorted(set(levels))),
        seed=seed,
        vectors=vectors,
    )


def evaluate_transfer(
    settings: Settings, trial: Trial, progress: Progress | None = None
) -> TransferScore:
    """Measure TCS. Existing banks are not changed.

    Raises:
        InferenceError: If an agent does not respond.
    """
    require_owner(settings, "evaluate")
    probes = items(trial.sets)
    counter = ProgressCounter(3 * len(probes), progress)
    embedder, notes = comparison_embedder(settings) if trial.vectors else (None, [])
    whole = dated_memories(trial.sets)
    source = with_text(trial.source, probes, in_full(whole), counter)
    with _transferred_memory(trial, embedder) as framing:
        target, usage = with_memory(
            trial.target, probes, framing, (trial.model, trial.budget), counter
        )
    none = with_text(trial.target, probes, "", counter)
    return TransferScore(
        source=trial.source.name,
        target=trial.target.name,
        model=trial.model,
        budget=trial.budget,
        tokenizer=usage.tokenizer,
        memories=len(whole),
        sessions=len({(memory.world, memory.at) for memory in whole}),
        seed=trial.seed,
        scores=continuities(probes, source, target, none, trial.seed),
        vectors=None if embedder is None else embedder.model,
        notes=notes,
    )


def evaluate_fidelity(
    settings: Settings, trial: Trial, progress: Progress | None = None
) -> Fidelity:
    """Measure RHF at several budgets. Existing banks are not changed.

    Raises:
        InferenceError: If an agent, or the model that compares answers, does not respond.
    """
    require_owner(settings, "evaluate")
    probes = items(trial.sets)
    counter = ProgressCounter((1 + len(trial.levels)) * len(probes), progress)
    embedder, notes = comparison_embedder(settings) if trial.vectors else (None, [])
    whole = dated_memories(trial.sets)
    source = with_text(trial.source, probes, in_full(whole), counter)
    measured = list[BudgetRun]()
    with _transferred_memory(trial, embedder) as framing:
        full = framing.everything(trial.model)
        most = full.tokens + _KEPT
        for percent in trial.levels:
            budget = max(1, most * percent // 100)
            answers, usage = with_memory(
                trial.target, probes, framing, (trial.model, budget), counter
            )
            alike = likeness(source, answers, embedder)
            measured.append(
                BudgetRun(percent=percent, budget=budget, answers=answers, alike=alike, taken=usage)
            )
    return Fidelity(
        source=trial.source.name,
        target=trial.target.name,
        model=trial.model,
        full=most,
        tokenizer=full.tokenizer,
        memories=len(whole),
        probes=len(probes),
        left_out=sum(not response.answer.strip() for response in source),
        embedder=WORDS if embedder is None else embedder.model,
        seed=trial.seed,
        levels=[level(run, measured[-1], source, probes, trial.seed) for run in measured],
        vectors=None if embedder is None else embedder.model,
        notes=notes,
    )


@contextmanager
def _transferred_memory(trial: Trial, embedder: Embedder | None) -> Iterator[MemoryFramer]:
    """Open the memory of the sets on a machine that it was transferred to."""
    with TemporaryDirectory(prefix="satchel-evaluate-") as folder:
        owner = Owner(Path(folder), embedder)
        owner.remember(_SOURCE, dated_memories(trial.sets))
        owner.carry(_SOURCE, _TARGET)
        with owner.framing(_TARGET) as framing:
            yield framing
