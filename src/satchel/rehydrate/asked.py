"""What is asked of the pipeline, and what it works with."""

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from satchel.errors import UsageError
from satchel.ledger.logged import Logged
from satchel.memory.parts import Component, TrustClass
from satchel.memory.times import now as present
from satchel.ports.inference.reranker import Reranker
from satchel.ports.inference.summariser import Summariser
from satchel.ports.inference.tokenizer import Tokenizer
from satchel.recall.ranking.meaning import Embedders
from satchel.rehydrate.policy import Enforce

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
class Weights:
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

    def score(self, weights: Weights) -> float:
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


Judge = Callable[[Logged, Relevance], float]
"""Gives the relevance of a memory in place of the weighed mean; between 0 and 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
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
    weights: Weights = field(default_factory=Weights)
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
class Around:
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
