"""Operations that measure: recall, context, containment, continuity, and the paper's tables."""

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from satchel.config.options import OnProgress
from satchel.config.settings import Settings
from satchel.ports.operations import Option, Options, PathText, operation, texts

if TYPE_CHECKING:  # each command needs one of them
    from satchel.evaluation.agents import ProbeAgent
    from satchel.evaluation.containment import ContainmentResult
    from satchel.evaluation.continuity import Fidelity, TransferScore, Trial
    from satchel.evaluation.paper import Paper
    from satchel.evaluation.recall import Evaluation, FramedResult

_MEASURES = dict.fromkeys(
    ("python", "http", "mcp"),
    "It measures, for minutes or hours, in stores of its own; the command line does it.",
)
_SEED, _BUDGET = 20260701, 2048

Vectors = Annotated[
    bool, Option("Use vectors; otherwise words alone.", flag="--vectors/--no-vectors")
]
Questions = Annotated[
    PathText,
    Option("Set of questions: a file, or a folder.", argument=True, metavar="DATA", values="file"),
]
FramedFor = Annotated[str, Option("Model to format memory for, and whose tokens to count.")]
Probes = Annotated[
    PathText | Sequence[PathText],
    Option("File with a set of probes. Default: the built-in sets. Repeatable.", values="file"),
]
Source = Annotated[
    str,
    Option("Agent with its whole memory: reader, command:PROGRAM or endpoint:MODEL."),
]
Target = Annotated[str | None, Option("Agent with transferred memory. Default: the source.")]
Seed = Annotated[int, Option("Seed of confidence intervals and random tests.")]
Timeout = Annotated[float, Option("Maximum seconds for an answer of a program.", minimum=0.1)]


@dataclass(frozen=True, slots=True)
class RecallMeasureOptions(Options):
    """Options of measuring recall."""

    data: Questions
    _: KW_ONLY
    model: Annotated[
        str | None,
        Option(
            "Embedding model: static-idf, static, minilm, onnx or openai. Default: as configured."
        ),
    ] = None
    vectors: Vectors = True
    any_time: Annotated[bool, Option("Ignore a time named in a question.")] = False
    reranker: Annotated[
        str | None,
        Option(
            "Rerank the first thirty with lexical, sentence-transformers:MODEL, fastembed:MODEL or"
            " onnx:FOLDER."
        ),
    ] = None
    progress: OnProgress = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PagedOptions(Options):
    """Options of measurements with an HTML page."""

    page: PathText | None = None
    overwrite: bool = False


@dataclass(frozen=True, slots=True)
class FramedMeasureOptions(PagedOptions):
    """Options of measuring the final text."""

    data: Questions
    _: KW_ONLY
    model: FramedFor = "gpt-4o"
    budgets: Annotated[
        Sequence[int],
        Option(
            "Token budget. Default: 512, 1,024, 2,048 and 4,096. Repeatable.",
            flag="--budget",
            minimum=1,
        ),
    ] = ()
    vectors: Vectors = True
    progress: OnProgress = None


@dataclass(frozen=True, slots=True)
class ContainmentMeasureOptions(Options):
    """Options of measuring containment."""

    data: Annotated[
        PathText,
        Option(
            "Corpus of JSON lines (text, label), or a folder of them.",
            argument=True,
            metavar="DATA",
            values="file",
        ),
    ]
    _: KW_ONLY
    mutated: Annotated[
        int, Option("Number of texts of each corpus to also test disguised and halved.", minimum=0)
    ] = 150
    progress: OnProgress = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ContinuityMeasureOptions(PagedOptions):
    """The agents to compare, and the probes."""

    probes: Probes = ()
    source: Source = "reader"
    target: Target = None
    model: FramedFor = "gpt-4o"
    seed: Seed = _SEED
    vectors: Vectors = True
    timeout: Timeout = 120.0
    progress: OnProgress = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferMeasureOptions(ContinuityMeasureOptions):
    """Options of measuring transfer continuity."""

    budget: Annotated[int, Option("Token budget of the target.", minimum=1)] = _BUDGET


@dataclass(frozen=True, slots=True, kw_only=True)
class FidelityMeasureOptions(ContinuityMeasureOptions):
    """Options of measuring rehydration fidelity."""

    levels: Annotated[
        Sequence[int],
        Option(
            "Budgets as percent of the tokens of the whole memory. Default: 25, 50, 75 and "
            "100. Repeatable.",
            flag="--level",
            minimum=1,
            maximum=100,
        ),
    ] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperMeasureOptions(PagedOptions):
    """Options of measuring the tables of the paper."""

    probes: Probes = ()
    source: Source = "reader"
    target: Target = None
    trials: Annotated[
        int | None,
        Option("Trials of each attack and change. Default: the paper's numbers.", minimum=1),
    ] = None
    timeout: Timeout = 120.0
    progress: OnProgress = None


@operation(
    RecallMeasureOptions,
    name="evaluate recall",
    example="satchel evaluate recall locomo10.json",
    absent=_MEASURES,
)
def measure_recall(settings: Settings, options: RecallMeasureOptions) -> "Evaluation":
    """Measure recall on conversations with questions, and the turns that answer them.

    Reads LoCoMo's JSON, a folder with BEAM's chat.json and probing_questions.json (or a folder of
    such), QMSum's JSON lines (one bank a file), and a plain form: docs/guides/recalling.md. Your
    banks are not changed.
    """
    from satchel.evaluation.recall import evaluate_recall

    return evaluate_recall(
        settings,
        Path(options.data),
        model=options.model,
        vectors=options.vectors,
        any_time=options.any_time,
        reranker=options.reranker,
        progress=options.progress,
    )


@operation(
    FramedMeasureOptions,
    name="evaluate framed",
    example="satchel evaluate framed locomo10.json --budget 1024",
    absent=_MEASURES,
)
def measure_framed(settings: Settings, options: FramedMeasureOptions) -> "FramedResult":
    """Measure how much of the evidence for questions is in the final text for a model.

    Reads what `satchel evaluate recall` reads. Your banks are not changed.
    """
    from satchel.evaluation.pages import framed_page
    from satchel.evaluation.recall import BUDGETS, evaluate_framed

    result = evaluate_framed(
        settings,
        Path(options.data),
        model=options.model,
        budgets=tuple(options.budgets) or BUDGETS,
        vectors=options.vectors,
        progress=options.progress,
    )
    _write_page(settings, options, framed_page, result)
    return result


@operation(
    ContainmentMeasureOptions,
    name="evaluate containment",
    example="satchel evaluate containment corpora --mutated 20",
    absent=_MEASURES,
)
def measure_containment(
    settings: Settings, options: ContainmentMeasureOptions
) -> "ContainmentResult":
    """Measure which texts break out of their record, and which are withheld.

    Each is treated as a memory from outside. The judge is independent of the encoder. Your banks
    are not changed.
    """
    from satchel.evaluation.containment import evaluate_containment

    return evaluate_containment(
        settings, Path(options.data), mutated=options.mutated, progress=options.progress
    )


@operation(
    TransferMeasureOptions,
    name="evaluate tcs",
    example='satchel evaluate tcs --target "command:python agent.py" --page tcs.html',
    absent=_MEASURES,
)
def measure_transfer(settings: Settings, options: TransferMeasureOptions) -> "TransferScore":
    """Measure task continuity (TCS): correct answers of the target, divided by those of the source.

    Memory is remembered, exported, signed, imported elsewhere and framed for each question. The
    reader is an agent without a model; others are named. Your banks are not changed.
    """
    from satchel.evaluation.continuity import evaluate_transfer
    from satchel.evaluation.pages import transfer_page

    trial = _trial(settings, options, budget=options.budget)
    result = evaluate_transfer(settings, trial, options.progress)
    _write_page(settings, options, transfer_page, result)
    return result


@operation(
    FidelityMeasureOptions,
    name="evaluate rhf",
    example="satchel evaluate rhf --level 25 --level 100 --page fidelity.html",
    absent=_MEASURES,
)
def measure_fidelity(settings: Settings, options: FidelityMeasureOptions) -> "Fidelity":
    """Measure rehydration fidelity (RHF): the similarity of both agents' answers, by budget."""
    from satchel.evaluation.continuity import LEVELS, evaluate_fidelity
    from satchel.evaluation.pages import fidelity_page

    trial = _trial(settings, options, levels=tuple(options.levels) or LEVELS)
    result = evaluate_fidelity(settings, trial, options.progress)
    _write_page(settings, options, fidelity_page, result)
    return result


@operation(
    PaperMeasureOptions,
    name="evaluate paper",
    example="satchel evaluate paper --page paper.html",
    absent=_MEASURES,
)
def measure_paper(settings: Settings, options: PaperMeasureOptions) -> "Paper":
    """Measure every table of the Portable Agent Memory paper. Takes minutes.

    Features, TCS, RHF, injection, tampering, tokens, sizes, latencies, several sessions, and the
    example of the appendix. Your banks are not changed.
    """
    from satchel.evaluation.pages import paper_page
    from satchel.evaluation.paper import Scale, evaluate_paper

    scale, trials = Scale(sets=_sets(options.probes)), options.trials
    if trials is not None:
        scale = Scale(
            sets=scale.sets, attempts=trials, fields=trials, parents=trials, tokens=trials, rounds=1
        )
    first, second = _agents(settings, options)
    result = evaluate_paper(settings, first, second, scale=scale, on_table=options.progress)
    _write_page(settings, options, paper_page, result)
    return result


def _trial(settings: Settings, options: ContinuityMeasureOptions, **more: Any) -> "Trial":
    from satchel.evaluation.continuity import trial

    first, second = _agents(settings, options)
    return trial(
        first,
        second,
        sets=_sets(options.probes),
        model=options.model,
        seed=options.seed,
        vectors=options.vectors,
        **more,
    )


def _agents(
    settings: Settings, options: ContinuityMeasureOptions | PaperMeasureOptions
) -> tuple["ProbeAgent", "ProbeAgent"]:
    from satchel.evaluation.agents import agent_called

    first = agent_called(settings, options.source, timeout=options.timeout)
    if options.target is None:
        return first, first
    return first, agent_called(settings, options.target, timeout=options.timeout)


def _sets(probes: PathText | Sequence[PathText]) -> tuple[Any, ...]:
    from satchel.evaluation.probes import probe_set

    return tuple(probe_set(Path(each)) for each in texts(probes))


def _write_page(
    settings: Settings, options: PagedOptions, page: Callable[[Any], str], result: object
) -> None:
    if options.page is not None:
        from satchel.evaluation.pages import write_page

        write_page(settings, Path(options.page), page(result), overwrite=options.overwrite)
