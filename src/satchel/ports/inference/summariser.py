"""Summarisers: what shortens memories."""

from collections.abc import Sequence
from typing import Protocol


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
