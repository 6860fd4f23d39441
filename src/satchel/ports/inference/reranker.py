"""Rerankers: what reads a question and a memory together, and says how well it answers."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable


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
