"""Tokenizers: what counts how much of a model's window a text takes."""

from typing import Protocol


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
