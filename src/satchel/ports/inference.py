"""Models: embedders, distillers, entity extractors, rerankers, summarizers, tokenizers."""

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple, Protocol, runtime_checkable


@runtime_checkable
class Embedder(Protocol):
    """Makes vectors of texts, comparable by their angle."""

    @property
    def model(self) -> str:
        """The name of the vectors' model: 1 to 1,000 characters."""
        ...

    @property
    def dimensions(self) -> int:
        """The length of each vector."""
        ...

    @property
    def revision(self) -> str:
        """The model's revision; vectors of different ones must not be compared. May be empty."""
        ...

    def embed(self, texts: Sequence[str]) -> list[bytes]:
        """Return a vector for each text: little-endian 32-bit floats.

        The vector of a text does not depend on other texts. An empty text gets a vector of zeros,
        which is similar to no other.

        Raises:
            InferenceError: If the model does not respond with vectors.
        """
        ...


@runtime_checkable
class SlowEmbedder(Embedder, Protocol):
    """A slow embedder."""

    @property
    def cost(self) -> int:
        """The time of one vector, in vectors of the built-in table: 1 or more."""
        ...


@runtime_checkable
class StagedEmbedder(Embedder, Protocol):
    """An embedder that can answer a question before its model is loaded in full."""

    def for_questions(self) -> Embedder:
        """Return an embedder of the same vectors, but for rounding, that makes the first sooner."""
        ...


@runtime_checkable
class TrainableEmbedder(Embedder, Protocol):
    """An embedder that reads all texts of a bank before it makes the first vector."""

    def learn(self, texts: Iterable[str]) -> bytes:
        """Return what was learned from texts; vectors are comparable only with the same."""
        ...

    def knowing(self, learned: bytes) -> Embedder:
        """Return an embedder with what ``learn`` returned.

        Raises:
            ValueError: If ``learn`` cannot have returned that.
        """
        ...


FindingKind = Literal["fact", "decision", "preference", "correction", "open_item"]
"""Kinds of findings."""

MOST_SUMMARY = 2000
"""Maximum characters of a summary."""

MOST_FINDINGS = {"fact": 20, "decision": 10, "preference": 10, "correction": 10, "open_item": 10}
"""Maximum findings of each kind, of one distillation."""


LONGEST_FINDING = 1000
"""Maximum characters of a finding."""

SPEAKERS = frozenset({"user", "human", "assistant", "ai", "agent"})
"""Roles of speakers; tools and system prompts are no speakers."""


class DialogueTurn(NamedTuple):
    """One message."""

    id: str
    """Id of its record."""

    number: int
    """Its number in the conversation, from 1."""

    role: str
    """The speaker: user, assistant, system, tool, or another program's word."""

    text: str
    """Its text."""


class DistilledFinding(NamedTuple):
    """A fact, decision or the like, to store as a memory."""

    kind: FindingKind
    text: str
    turns: tuple[str, ...]
    """IDs of the messages that it was extracted from, at least one."""


class Distillate(NamedTuple):
    """The result of distilling a conversation."""

    summary: str
    """The summary of the whole conversation, earlier parts included; at most ``MOST_SUMMARY``
    characters."""

    findings: list[DistilledFinding]
    left_out: int = 0
    """Output of the model that is no valid finding."""


class Distiller(Protocol):
    """Extracts a summary and findings from a conversation."""

    @property
    def model(self) -> str:
        """Its name and version."""
        ...

    def distill(self, turns: Iterable[DialogueTurn], before: str | None) -> Distillate:
        """Return a summary and findings of messages.

        Args:
            turns: The messages, in order; iterable more than once, and too many for memory.
            before: The summary of the messages before.
        """
        ...


EntityType = Literal["person", "organisation", "place", "date", "product"]
"""Kinds of entities."""


class EntityMention(NamedTuple):
    """A mention of an entity in a text."""

    name: str
    """The text of the mention."""

    type: EntityType
    start: int
    """Offset of its first character, from 0."""

    end: int
    """Offset after its last character."""


class Extractor(Protocol):
    """Finds entities."""

    @property
    def model(self) -> str:
        """Its name and version."""
        ...

    def extract(self, texts: Sequence[str]) -> list[list[EntityMention]]:
        """Return the mentions in each text, in order, without overlaps."""
        ...


@runtime_checkable
class Reranker(Protocol):
    """Scores the best memories of a recall, to reorder them.

    ``satchel.conformance.rerankers`` tests this contract.
    """

    @property
    def model(self) -> str:
        """Its name in results: 1 to 1,000 characters."""
        ...

    def scores(self, question: str, texts: Sequence[str]) -> list[float]:
        """Return a score for each text, in their order; higher is better, on any scale.

        A score depends on the question and its text alone, not on other texts, and is always the
        same. It is a finite number, for an empty text too. Threads may call it one after another,
        never concurrently.

        Args:
            question: The question, unchanged.
            texts: The texts of memories; nothing in them is an instruction.

        Raises:
            InferenceError: If the model cannot be loaded, or does not answer with numbers.
        """
        ...


class Summarizer(Protocol):
    """Shortens texts."""

    @property
    def model(self) -> str:
        """Its name."""
        ...

    def summarize(self, texts: Sequence[str], task: str, words: int) -> list[str]:
        """Return a shorter version of each text, with what helps in a task.

        Args:
            texts: The texts to shorten. Nothing in them is an instruction.
            task: The task that the texts are needed for.
            words: Approximate maximum words of each.

        Raises:
            InferenceError: If a model does not respond.
        """
        ...


class Tokenizer(Protocol):
    """Counts tokens."""

    @property
    def name(self) -> str:
        """The name of the vocabulary, or of the estimate."""
        ...

    @property
    def exact(self) -> bool:
        """Whether it is the model's own vocabulary; an estimate rather overcounts."""
        ...

    def count(self, text: str) -> int:
        """Return the number of tokens of a text."""
        ...
