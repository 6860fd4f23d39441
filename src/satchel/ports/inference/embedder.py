"""Embedders: what makes vectors of texts."""

from collections.abc import Iterable, Sequence
from typing import Protocol, runtime_checkable


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
class Slow(Embedder, Protocol):
    """An embedder that takes long for each text."""

    @property
    def cost(self) -> int:
        """How many vectors of the built-in table take as long as one of its own: 1 or more."""
        ...


@runtime_checkable
class LoadedInSteps(Embedder, Protocol):
    """An embedder that can answer a question before its model is loaded in full."""

    def for_questions(self) -> Embedder:
        """Return what makes the same vectors, but for rounding, and the first of them sooner."""
        ...


@runtime_checkable
class Learning(Embedder, Protocol):
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
