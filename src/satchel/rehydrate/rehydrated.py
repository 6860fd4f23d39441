"""What the pipeline gives: text and messages, and an account of each stage."""

from typing import Any, Literal

import msgspec

STAGES = ("verify", "filter", "rank", "compress", "format", "frame", "inject")
"""The stages, in their order."""

Form = Literal["verbatim", "summary"]


class Stage(msgspec.Struct, frozen=True, kw_only=True):
    """What one stage came to."""

    name: str
    detail: str
    """In a sentence."""

    entries: int
    """Memories that it left for the next."""


class Parts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the relevance of a memory is made of; each between 0 and 1, before it is weighed."""

    recency: float
    salience: float
    similarity: float | None = None
    depth: float
    penalty: float = 1.0
    """What the weighed mean is multiplied by."""


class Shown(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
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

    parts: Parts | None = None


class HeldBack(msgspec.Struct, frozen=True, kw_only=True):
    """A memory that is withheld from the text; in the bank it stays as it is."""

    id: str
    type: str
    trust: str
    reasons: list[str]
    """Why: what it says that no memory of its block says."""


class LeftOut(msgspec.Struct, frozen=True, kw_only=True):
    """How many memories were looked at and are not in the text, by why."""

    irrelevant: int = 0
    """Below the relevance that is asked for."""

    over_budget: int = 0
    quarantined: int = 0
    unpromoted: int = 0
    """Procedures and identity from outside that nobody promoted."""

    expired: int = 0
    """Past the moment after which they must not be shown."""


class Rehydrated(msgspec.Struct, frozen=True, kw_only=True):
    """Memory, ready for a model."""

    text: str
    """The framed memory: what goes after the system prompt and before what the user says."""

    messages: dict[str, Any]
    """The same in the shapes that the SDKs of ``openai``, ``anthropic`` and ``gemini`` take."""

    stages: list[Stage]
    entries: list[Shown]
    left_out: LeftOut
    quarantined: list[HeldBack]
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
    """For the user: how many memories, from where, signed by whom, and what to do about them."""

    complete: bool
    """Whether everything that was nominated was looked at."""

    looked_at: int
    """Memories that were proved and read."""

    notes: list[str] = []
    """What else there is to be told: of the bank, and of what could not be done."""
