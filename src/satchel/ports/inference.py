"""Embedders: what makes vectors of texts."""

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple, Protocol, runtime_checkable


@runtime_checkable
class Embedder(Protocol):
    """Makes vectors that can be compared with each other by the angle between them."""

    @property
    def model(self) -> str:
        """What the vectors are named by: 1 to 1,000 characters."""
        ...

    @property
    def dimensions(self) -> int:
        """How many numbers each vector has."""
        ...

    @property
    def revision(self) -> str:
        """Tells two makes of a model apart, whose vectors must not be compared; may be empty."""
        ...

    def embed(self, texts: Sequence[str]) -> list[bytes]:
        """Return a vector for each text: its numbers as little-endian 32-bit floats, one by one.

        What comes of a text does not depend on the texts beside it. A text that says nothing gets
        a vector of zeros, which is like no other.

        Raises:
            InferenceError: If the model does not answer, or not with vectors.
        """
        ...


@runtime_checkable
class SlowEmbedder(Embedder, Protocol):
    """An embedder that takes long for each text."""

    @property
    def cost(self) -> int:
        """How many vectors of the built-in table take as long as one of its own: 1 or more."""
        ...


@runtime_checkable
class StagedEmbedder(Embedder, Protocol):
    """An embedder that can answer a question before its model is loaded in full."""

    def for_questions(self) -> Embedder:
        """Return what makes the same vectors, but for rounding, and the first of them sooner."""
        ...


@runtime_checkable
class TrainableEmbedder(Embedder, Protocol):
    """An embedder that looks at all texts of a bank before it makes the first vector."""

    def learn(self, texts: Iterable[str]) -> bytes:
        """Return what there is to know of texts; vectors are alike only under the same."""
        ...

    def knowing(self, learnt: bytes) -> Embedder:
        """Return the embedder that knows what ``learn`` returned.

        Raises:
            ValueError: If ``learn`` cannot have returned that.
        """
        ...


FindingKind = Literal["fact", "decision", "preference", "correction", "open_item"]
"""What a finding can be."""

MOST_SUMMARY = 2000
"""Characters of a summary that is kept."""

MOST_FINDINGS = {"fact": 20, "decision": 10, "preference": 10, "correction": 10, "open_item": 10}
"""Findings of each kind that are kept, of one distillation."""


LONGEST_FINDING = 1000
"""Characters of one."""

SPEAKERS = frozenset({"user", "human", "assistant", "ai", "agent"})
"""Roles of those who speak; what tools and system prompts say is nobody's word."""


class DialogueTurn(NamedTuple):
    """One message."""

    id: str
    """Id of its record."""

    number: int
    """From 1, in its conversation."""

    role: str
    """Who speaks: user, assistant, system, tool, or another program's word."""

    text: str
    """What it says in words."""


class DistilledFinding(NamedTuple):
    """Something to be remembered."""

    kind: FindingKind
    text: str
    turns: tuple[str, ...]
    """Ids of the messages that it was drawn from, at least one."""


class Distillate(NamedTuple):
    """What a conversation comes down to."""

    summary: str
    """Of all of it, what was summarised before included; at most ``MOST_SUMMARY`` characters."""

    findings: list[DistilledFinding]
    left_out: int = 0
    """What else a model said that can be no finding."""


class Distiller(Protocol):
    """Draws what is to last from a conversation."""

    @property
    def model(self) -> str:
        """What does it, by name and version."""
        ...

    def distill(self, turns: Iterable[DialogueTurn], before: str | None) -> Distillate:
        """Return what messages come down to.

        Args:
            turns: The messages, in their order; they can be iterated again, and do not all fit
                into memory.
            before: The summary of what came before them.
        """
        ...


EntityType = Literal["person", "organisation", "place", "date", "product"]
"""What an entity can be."""


class EntityMention(NamedTuple):
    """One place of a text that names an entity."""

    name: str
    """As it stands in the text."""

    type: EntityType
    start: int
    """Of its first character, from 0."""

    end: int
    """Of the character after its last."""


class Extractor(Protocol):
    """Finds entities."""

    @property
    def model(self) -> str:
        """What finds them, by name and version."""
        ...

    def extract(self, texts: Sequence[str]) -> list[list[EntityMention]]:
        """Return for each text its mentions, in their order; none overlaps another."""
        ...


@runtime_checkable
class Reranker(Protocol):
    """Scores the few memories that recall has found best, so that they can be put in order again.

    ``satchel.conformance.rerankers`` tests what is promised here.
    """

    @property
    def model(self) -> str:
        """What it is named by in answers: 1 to 1,000 characters."""
        ...

    def scores(self, question: str, texts: Sequence[str]) -> list[float]:
        """Return a score for each text, in their order; higher is better, on any scale.

        A score depends on the question and its text alone, not on the texts beside it, and is the
        same each time. It is a finite number, for an empty text too. Threads may call it one after
        another, never two at once.

        Args:
            question: As it was asked.
            texts: The memories in words; none of it is an instruction.

        Raises:
            InferenceError: If the model cannot be loaded, or does not answer with numbers.
        """
        ...


class Summariser(Protocol):
    """Shortens texts."""

    @property
    def model(self) -> str:
        """What shortens them, by name."""
        ...

    def summarise(self, texts: Sequence[str], task: str, words: int) -> list[str]:
        """Return a shorter text for each, which keeps what helps with a task.

        Args:
            texts: What to shorten. None of it is an instruction.
            task: What the texts are going to be needed for.
            words: About how many each may have.

        Raises:
            InferenceError: If a model does not answer.
        """
        ...


class Tokenizer(Protocol):
    """Counts tokens."""

    @property
    def name(self) -> str:
        """The vocabulary, or that it is an estimate."""
        ...

    @property
    def exact(self) -> bool:
        """Whether it is the model's own vocabulary; else it counts rather too many than too few."""
        ...

    def count(self, text: str) -> int:
        """Return how many tokens a text takes."""
        ...
