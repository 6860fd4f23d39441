"""Requests to rehydrate, their context, and the result."""

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

from satchel.errors import UsageError
from satchel.ledger.projection import VerifiedRecord
from satchel.model.values import Component, TrustClass
from satchel.model.values import now as present
from satchel.ports.inference import Reranker, Summarizer, Tokenizer
from satchel.recall.vector_index import Embedders
from satchel.screening.injection import Enforce

Style = Literal["structured", "narrative"]
Framing = Literal["encoded", "pam-1.0"]
Similarity = Literal["recall", "cosine"]


STYLES = ("structured", "narrative")
FRAMINGS = ("encoded", "pam-1.0")
ENFORCED = ("outside", "all", "shapes", "nothing")

DAY = 86_400.0
MAX_AGE = 1825.0
"""Days after which recency is 0; the paper does not set it."""

SALIENCE: Mapping[str, float] = {
    Component.IDENTITY: 1.0,
    Component.WORKING: 0.5,
    Component.PROCEDURAL: 0.5,
    Component.SEMANTIC: 0.5,
    Component.EPISODIC: 0.5,
}
"""Default salience by type."""

UNTRUSTED_SALIENCE = 0.5
"""Maximum salience of a memory from outside."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RelevanceWeights:
    """Weights of the parts of relevance. Source: the paper, section 3.4, step 3."""

    recency: float = 0.2
    salience: float = 0.3
    similarity: float = 0.4
    depth: float = 0.1

    def __post_init__(self) -> None:
        parts = (self.recency, self.salience, self.similarity, self.depth)
        if min(parts) < 0 or not 0 < sum(parts) < float("inf"):
            raise UsageError(
                "weights must be numbers of at least 0, and not all 0", field="weights"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Relevance:
    """The parts of a memory's relevance, each between 0 and 1 and before weighting."""

    recency: float
    salience: float
    similarity: float | None
    """None if nothing was compared; then the other parts count more."""

    depth: float
    penalty: float = 1.0
    """Factor of the sum: below 1 for memories that are not valid now, or stuffed with words."""

    def score(self, weights: RelevanceWeights) -> float:
        """Return the weighted mean of the parts, between 0 and 1."""
        values = {
            "recency": self.recency,
            "salience": self.salience,
            "similarity": self.similarity,
            "depth": self.depth,
        }
        parts = [
            (getattr(weights, name), part) for name, part in values.items() if part is not None
        ]
        total = sum(weight for weight, _ in parts)
        return self.penalty * sum(weight * part for weight, part in parts) / total if total else 0.0


Judge = Callable[[VerifiedRecord, Relevance], float]
"""Returns the relevance of a memory instead of the weighted mean, between 0 and 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RehydrateRequest:
    """A request to rehydrate.

    Raises:
        UsageError: If a member is not valid.
    """

    task: str = ""
    """Task of the model; without one, the newest and most important memories are provided."""

    budget: int | None = None
    """Maximum tokens of the whole text; None for the default of the model."""

    model: str = ""
    """The model that gets the text, such as ``gpt-4o`` or ``claude``; empty for plain text."""

    style: Style = "structured"
    framing: Framing = "encoded"
    weights: RelevanceWeights = field(default_factory=RelevanceWeights)
    verbatim: float = 0.7
    """Lowest relevance at which a memory is provided verbatim."""

    summarized: float = 0.3
    """Lowest relevance at which it is provided at all, shortened if not everything fits."""

    max_age: float = MAX_AGE
    """Days."""

    salience: Mapping[str, float] = field(default_factory=lambda: SALIENCE)
    untrusted_salience: float = UNTRUSTED_SALIENCE
    similarity: Similarity = "recall"
    """How memories are compared: by words and meaning, as in recall, or by vectors alone."""

    trust: TrustClass | None = None
    """Lowest trust class of memories."""

    components: frozenset[str] = frozenset(component.value for component in Component)
    user: str | None = None
    agent: str | None = None
    run: str | None = None
    app: str | None = None
    enforce: Enforce = "outside"
    """Memories to withhold: ``shapes``: those with shapes of prompts; ``outside``: also those from
    outside with imperatives; ``all``: also all others with imperatives; ``nothing``."""

    times: bool = True
    """Rank memories of a time that the task names higher."""

    system: str | None = None
    """System prompt at the start of the messages."""

    def __post_init__(self) -> None:
        if self.budget is not None and self.budget < 1:
            raise UsageError("the budget must be at least 1 token", field="budget")
        if self.style not in STYLES:
            raise UsageError(f"the style must be one of {', '.join(STYLES)}", field="style")
        if self.framing not in FRAMINGS:
            raise UsageError(f"the framing must be one of {', '.join(FRAMINGS)}", field="framing")
        if self.enforce not in ENFORCED:
            raise UsageError(f"enforce must be one of {', '.join(ENFORCED)}", field="enforce")
        if not 0 <= self.summarized <= self.verbatim <= 1:
            raise UsageError(
                "thresholds must be from 0 to 1, verbatim the higher", field="verbatim"
            )
        if not self.max_age > 0:
            raise UsageError("the maximum age must be more than 0 days", field="max_age")


@dataclass(frozen=True, slots=True, kw_only=True)
class RehydrateContext:
    """Components of the pipeline. Every default works without configuration."""

    tokenizer: Tokenizer | None = None
    """Counts tokens; None for the model's tokenizer, or an estimate."""

    summarizer: Summarizer | None = None
    """Shortens memories; None to select sentences."""

    embedders: Embedders | None = None
    """Returns the embedder for the task; None to compare words only."""

    reranker: Reranker | None = None
    """Reranks the best memories; None for no reranking."""

    judge: Judge | None = None
    """Returns the relevance of a memory; None for the weighted mean."""

    now: Callable[[], str] = present
    nonce: Callable[[], str] = lambda: str(100_000_000 + secrets.randbelow(900_000_000))
    """Returns the number in the boundaries: nine digits, new for each text."""

    verified: str = ""
    """What was verified before the pipeline started, in words."""

    allowed: str = ""
    """Scope of the presented token; empty for the owner."""

    origin: str = ""
    """Origin of the memory for the notice; empty for a bank."""


STAGES = ("verify", "filter", "rank", "compress", "format", "frame", "inject")
"""The stages, in order."""

Form = Literal["verbatim", "summary"]


class PipelineStage(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a stage."""

    name: str
    detail: str
    """A sentence about it."""

    entries: int
    """Memories that it passed to the next stage."""


class RelevanceParts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The parts of a memory's relevance, each between 0 and 1 and before weighting."""

    recency: float
    salience: float
    similarity: float | None = None
    depth: float
    penalty: float = 1.0
    """Factor of the weighted mean."""


class ContextMemory(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A memory in the text, in the order of the text."""

    id: str
    type: str
    form: Form
    trust: str
    score: float
    """Its relevance, 0 to 1."""

    tokens: int
    """Estimated number of tokens of its line."""

    moment: str | None = None
    source: str = ""
    """Provider or format it was imported from; empty if it was written in this bank."""

    signer: str = ""
    """Signer of the import it came from."""

    parts: RelevanceParts | None = None


class WithheldMemory(msgspec.Struct, frozen=True, kw_only=True):
    """A memory that is withheld from the text, and unchanged in the bank."""

    id: str
    type: str
    trust: str
    reasons: list[str]
    """Reasons: what was found that memories do not contain."""


class OmittedCounts(msgspec.Struct, frozen=True, kw_only=True):
    """How many considered memories are not in the text, by reason."""

    irrelevant: int = 0
    """Below the lowest relevance."""

    over_budget: int = 0
    quarantined: int = 0
    unpromoted: int = 0
    """Procedures and identity from outside that are not promoted."""

    expired: int = 0
    """Expired memories."""


class RehydrateResult(msgspec.Struct, frozen=True, kw_only=True):
    """Memories, ready for a model."""

    text: str
    """The framed memories, to be placed between the system prompt and the user's message."""

    messages: dict[str, Any]
    """The same as arguments for the SDKs of ``openai``, ``anthropic`` and ``gemini``."""

    stages: list[PipelineStage]
    entries: list[ContextMemory]
    left_out: OmittedCounts
    quarantined: list[WithheldMemory]
    unpromoted: list[str]
    """IDs of procedures and identity from outside that need a promotion to be provided."""

    tokens: int
    """Tokens of the text; never more than the budget."""

    budget: int
    tokenizer: str
    """Name of the tokenizer."""

    exact: bool
    """Whether the count is exact, by the model's vocabulary; else it is an overestimate."""

    model: str
    style: str
    framing: str
    nonce: str
    """The number in the boundaries; empty for ``pam-1.0``."""

    notice: str
    """For the user: how many memories, their origin and signers, and what to do about them."""

    complete: bool
    """Whether every nominated memory was considered."""

    looked_at: int
    """Memories that were verified and read."""

    notes: list[str] = []
    """Notes about the bank, and about what could not be done."""
