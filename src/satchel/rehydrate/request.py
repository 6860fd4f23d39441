"""What is asked of the pipeline, and what it works with."""

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

from satchel.errors import UsageError
from satchel.ledger.projection import VerifiedRecord
from satchel.model.values import Component, TrustClass
from satchel.model.values import now as present
from satchel.ports.inference import Reranker, Summariser, Tokenizer
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
"""Days after which a memory is as old as can be; the paper leaves it open."""

SALIENCE: Mapping[str, float] = {
    Component.IDENTITY: 1.0,
    Component.WORKING: 0.5,
    Component.PROCEDURAL: 0.5,
    Component.SEMANTIC: 0.5,
    Component.EPISODIC: 0.5,
}
"""How much what says nothing of it matters, by component."""

UNTRUSTED_SALIENCE = 0.5
"""What a memory from outside can claim to matter at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RelevanceWeights:
    """What each part of relevance weighs. Source: the paper, section 3.4, step 3."""

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
    """How relevant a memory is; each part between 0 and 1, before it is weighed."""

    recency: float
    salience: float
    similarity: float | None
    """None where nothing was compared: then the other parts weigh more."""

    depth: float
    penalty: float = 1.0
    """What the sum is multiplied by: less than 1 for what is not valid now, or is stuffed."""

    def score(self, weights: RelevanceWeights) -> float:
        """Return the weighed mean of the parts, between 0 and 1."""
        told = {
            "recency": self.recency,
            "salience": self.salience,
            "similarity": self.similarity,
            "depth": self.depth,
        }
        parts = [(getattr(weights, name), part) for name, part in told.items() if part is not None]
        total = sum(weight for weight, _ in parts)
        return self.penalty * sum(weight * part for weight, part in parts) / total if total else 0.0


Judge = Callable[[VerifiedRecord, Relevance], float]
"""Gives the relevance of a memory in place of the weighed mean; between 0 and 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RehydrateRequest:
    """What is wanted.

    Raises:
        UsageError: If a member cannot be meant.
    """

    task: str = ""
    """What the model is going to do; without it, the newest and weightiest memories are given."""

    budget: int | None = None
    """Tokens that the final text may have, all of it; the model's default when None."""

    model: str = ""
    """The model it is for, such as ``gpt-4o`` or ``claude``; plain text when empty."""

    style: Style = "structured"
    framing: Framing = "encoded"
    weights: RelevanceWeights = field(default_factory=RelevanceWeights)
    verbatim: float = 0.7
    """Relevance from which on a memory is given word for word."""

    summarised: float = 0.3
    """Relevance from which on it is given at all, shortened where there is not room for all."""

    max_age: float = MAX_AGE
    """Days."""

    salience: Mapping[str, float] = field(default_factory=lambda: SALIENCE)
    untrusted_salience: float = UNTRUSTED_SALIENCE
    similarity: Similarity = "recall"
    """What is compared: words and meaning, as recall does; or nothing but cosines of vectors."""

    trust: TrustClass | None = None
    """How far a memory must be trusted to be shown at all."""

    components: frozenset[str] = frozenset(component.value for component in Component)
    user: str | None = None
    agent: str | None = None
    run: str | None = None
    app: str | None = None
    enforce: Enforce = "outside"
    """What is held back for not matching its block: shapes of prompts from anybody, and imperatives
    from ``outside``; from ``all``; only ``shapes``; or ``nothing``."""

    times: bool = True
    """Whether memories of a time that the task names rank higher."""

    system: str | None = None
    """The system prompt that the messages begin with."""

    def __post_init__(self) -> None:
        if self.budget is not None and self.budget < 1:
            raise UsageError("the budget must be at least 1 token", field="budget")
        if self.style not in STYLES:
            raise UsageError(f"the style must be one of {', '.join(STYLES)}", field="style")
        if self.framing not in FRAMINGS:
            raise UsageError(f"the framing must be one of {', '.join(FRAMINGS)}", field="framing")
        if self.enforce not in ENFORCED:
            raise UsageError(f"enforce must be one of {', '.join(ENFORCED)}", field="enforce")
        if not 0 <= self.summarised <= self.verbatim <= 1:
            raise UsageError(
                "thresholds must be from 0 to 1, verbatim the higher", field="verbatim"
            )
        if not self.max_age > 0:
            raise UsageError("the maximum age must be more than 0 days", field="max_age")


@dataclass(frozen=True, slots=True, kw_only=True)
class RehydrateContext:
    """What the pipeline works with; each has a default that needs nothing."""

    tokenizer: Tokenizer | None = None
    """Counts tokens; that of the model, or an estimate, when None."""

    summariser: Summariser | None = None
    """Shortens memories; sentences are chosen from them when None."""

    embedders: Embedders | None = None
    """Makes vectors of the task; words alone count when None."""

    reranker: Reranker | None = None
    """Puts the memories that go best with the task in order again; nothing does when None."""

    judge: Judge | None = None
    """Says how relevant a memory is; the weighed mean when None."""

    now: Callable[[], str] = present
    nonce: Callable[[], str] = lambda: str(100_000_000 + secrets.randbelow(900_000_000))
    """Makes the number that boundaries carry: nine digits, new for each text."""

    verified: str = ""
    """What was verified before the pipeline was given its view."""

    allowed: str = ""
    """What the presented token covers; empty for the owner."""

    origin: str = ""
    """What the memory comes from, for the notice; the bank's own name when empty."""


STAGES = ("verify", "filter", "rank", "compress", "format", "frame", "inject")
"""The stages, in their order."""

Form = Literal["verbatim", "summary"]


class PipelineStage(msgspec.Struct, frozen=True, kw_only=True):
    """What one stage came to."""

    name: str
    detail: str
    """In a sentence."""

    entries: int
    """Memories that it left for the next."""


class RelevanceParts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the relevance of a memory is made of; each between 0 and 1, before it is weighed."""

    recency: float
    salience: float
    similarity: float | None = None
    depth: float
    penalty: float = 1.0
    """What the weighed mean is multiplied by."""


class ContextMemory(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A memory that is in the text, in the order of the text."""

    id: str
    type: str
    form: Form
    trust: str
    score: float
    """Its relevance, 0 to 1."""

    tokens: int
    """About how many its line takes."""

    moment: str | None = None
    source: str = ""
    """Provider or format it was imported from; empty for what was written here."""

    signer: str = ""
    """Who signed what it was imported from."""

    parts: RelevanceParts | None = None


class WithheldMemory(msgspec.Struct, frozen=True, kw_only=True):
    """A memory that is withheld from the text; in the bank it stays as it is."""

    id: str
    type: str
    trust: str
    reasons: list[str]
    """Why: what it says that no memory of its block says."""


class OmittedCounts(msgspec.Struct, frozen=True, kw_only=True):
    """How many considered memories are not in the text, by reason."""

    irrelevant: int = 0
    """Below the relevance that is asked for."""

    over_budget: int = 0
    quarantined: int = 0
    unpromoted: int = 0
    """Procedures and identity from outside that nobody promoted."""

    expired: int = 0
    """Past the moment after which they must not be shown."""


class RehydrateResult(msgspec.Struct, frozen=True, kw_only=True):
    """Memory, ready for a model."""

    text: str
    """The framed memory: what goes after the system prompt and before what the user says."""

    messages: dict[str, Any]
    """The same in the shapes that the SDKs of ``openai``, ``anthropic`` and ``gemini`` take."""

    stages: list[PipelineStage]
    entries: list[ContextMemory]
    left_out: OmittedCounts
    quarantined: list[WithheldMemory]
    unpromoted: list[str]
    """Ids of procedures and identity from outside that need a promotion to be shown."""

    tokens: int
    """Tokens of the text; never more than the budget."""

    budget: int
    tokenizer: str
    """What counted them."""

    exact: bool
    """Whether that is the model's own vocabulary; else it is an overestimate."""

    model: str
    style: str
    framing: str
    nonce: str
    """The number in the text's boundaries; empty for ``pam-1.0``."""

    notice: str
    """For the user: how many memories, their origin and signers, and what to do about them."""

    complete: bool
    """Whether every nominated memory was considered."""

    looked_at: int
    """Memories that were verified and read."""

    notes: list[str] = []
    """What else there is to be told: of the bank, and of what could not be done."""
