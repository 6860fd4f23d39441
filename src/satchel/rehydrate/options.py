"""Options of rehydration, quarantine and promotion."""

from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any, Literal

from satchel.bank.operations import ChangeOptions, ForgetOptions, Ids
from satchel.config.options import DryRun, OnProgress, ScopeOptions, Texts, TrustOptions
from satchel.config.tables import RehydrateSettings
from satchel.errors import UsageError
from satchel.ports.inference import Summarizer, Tokenizer
from satchel.ports.operations import Absent, Option, Options, texts
from satchel.recall.query import COMPONENTS
from satchel.recall.search import Trust, trust_from
from satchel.rehydrate.frames import profile_of
from satchel.rehydrate.request import (
    Framing,
    Judge,
    RehydrateRequest,
    RelevanceWeights,
    Similarity,
    Style,
)
from satchel.screening.injection import Enforce

SummarizerName = Literal["sentences", "openai"]

_SUMMARIZERS = ("sentences", "openai")
_PROGRAM = Absent(why="It is an object of a program.")
_MOST_LISTED = 10_000


def _summarizer(value: Any) -> Any:
    if isinstance(value, str) and value not in _SUMMARIZERS:
        raise UsageError(
            f"unknown value {value!r}", field="summarizer", hint="Choose from: sentences, openai."
        )
    return value


@dataclass(frozen=True, slots=True)
class RehydrateOptions(ScopeOptions):
    """Task, model and form of the context. Settings supply the defaults."""

    task: Annotated[
        str,
        Option(
            "Task of the model. Default: the newest and most important memories.",
            max_length=100_000,
            mcp=True,
            examples=["plan Ada's week"],
        ),
    ] = ""
    _: KW_ONLY
    budget: Annotated[
        int | None,
        Option(
            "Maximum number of tokens. Default: as configured for the model.",
            minimum=1,
            maximum=10_000_000,
            mcp="token_budget",
            examples=[2000],
        ),
    ] = None
    model: Annotated[
        str | None,
        Option(
            "Model that gets the text, such as gpt-4o, claude, gemini or llama.",
            max_length=200,
            mcp=True,
            examples=["gpt-4o"],
        ),
    ] = None
    style: Annotated[
        Style | None, Option("How memories are written: labeled members, or sentences.", mcp=True)
    ] = None
    framing: Annotated[
        Framing | None, Option("How memories are delimited: encoded, or as in the paper.")
    ] = None
    trust: Annotated[Trust | None, Option("Only memories with at least this trust class.")] = None
    enforce: Annotated[
        Enforce | None,
        Option("Trust classes whose memories are withheld if they look like prompt injections."),
    ] = None
    similarity: Annotated[
        Similarity, Option("Compare by words and meaning (recall), or by vectors alone (cosine).")
    ] = "recall"
    relevance: Annotated[
        float | None, Option("Skip memories of lower relevance.", minimum=0, maximum=1)
    ] = None
    any_time: Annotated[bool, Option("Ignore a time named in the task.")] = False
    summarizer: Annotated[
        Summarizer | SummarizerName | None,
        Option(
            "Summarizer that shortens memories. Default: as configured.",
            http=Absent(why="The operator configures it: a model elsewhere costs money."),
            parse=_summarizer,
        ),
    ] = None
    system: Annotated[
        str | None, Option("System prompt that the messages start with.", max_length=1_000_000)
    ] = None
    judge: Annotated[
        Judge | None,
        Option(
            "Returns the relevance of a memory, 0 to 1, instead of the weighted mean.",
            cli=_PROGRAM,
            http=_PROGRAM,
        ),
    ] = None
    tokenizer: Annotated[
        Tokenizer | None,
        Option("Counts tokens. Default: the model's tokenizer.", cli=_PROGRAM, http=_PROGRAM),
    ] = None


FileFormat = Annotated[
    str | None, Option("Format of the file. Default: detected.", flag="--from", values="format")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineOptions(RehydrateOptions, TrustOptions):
    """Options of rehydration, and options for reading a file."""

    format: FileFormat = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantineListOptions(Options):
    """The number of quarantined memories to list."""

    limit: Annotated[
        int, Option("Maximum number of memories.", minimum=1, maximum=_MOST_LISTED)
    ] = 100


@dataclass(frozen=True, slots=True)
class QuarantineShowOptions(Options):
    """The quarantined memory to show."""

    memory: Annotated[str, Option("ID or ID prefix of the memory.", argument=True, metavar="ID")]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanOptions(Options):
    """What to scan for."""

    enforce: Annotated[
        Enforce | None,
        Option(
            "Trust classes whose memories are reported if they look like prompt injections. "
            "Default: as configured."
        ),
    ] = None
    dry_run: DryRun = False
    progress: OnProgress = None


@dataclass(frozen=True, slots=True)
class ReviewOptions(ForgetOptions):
    """The memories to change."""


@dataclass(frozen=True, slots=True)
class ReleaseOptions(ChangeOptions):
    """The memories to release."""

    memories: Ids = ()
    _: KW_ONLY
    own: Annotated[
        bool, Option("Release your own memories that an earlier version quarantined at read time.")
    ] = False
    dry_run: DryRun = False


@dataclass(frozen=True, slots=True)
class PromoteOptions(ChangeOptions):
    """The memories to promote, and their new trust class."""

    memories: Annotated[
        Texts,
        Option(
            "Memories, or the source record of an import: IDs or ID prefixes.",
            argument=True,
            metavar="ID",
            max_items=1000,
            examples=[["blake3:" + "0" * 64]],
        ),
    ]
    _: KW_ONLY
    trust: Annotated[Trust, Option("Trust class to raise them to.")] = "user"
    dry_run: DryRun = False


def request_of(options: RehydrateOptions, settings: RehydrateSettings) -> RehydrateRequest:
    """Return the request of options, with defaults from the settings.

    Raises:
        UsageError: If an option is out of range.
    """
    model = options.model if options.model is not None else settings.model
    usual: int = getattr(settings, f"budget_{profile_of(model).name}")
    least = settings.summarized if options.relevance is None else options.relevance
    return RehydrateRequest(
        task=options.task,
        budget=usual if options.budget is None else options.budget,
        model=model,
        style=options.style or settings.style,
        framing=options.framing or settings.framing,
        enforce=options.enforce or settings.enforce,
        similarity=options.similarity,
        weights=RelevanceWeights(
            recency=settings.weight_recency,
            salience=settings.weight_salience,
            similarity=settings.weight_similarity,
            depth=settings.weight_depth,
        ),
        verbatim=settings.verbatim if options.relevance is None else max(settings.verbatim, least),
        summarized=least,
        max_age=settings.max_age,
        salience={name: getattr(settings, f"salience_{name}") for name in COMPONENTS},
        untrusted_salience=settings.salience_outside,
        components=frozenset(texts(options.type)) or COMPONENTS,
        trust=trust_from(options.trust, "trust"),
        user=options.user,
        agent=options.agent,
        run=options.run,
        app=options.app,
        times=not options.any_time,
        system=options.system,
    )
