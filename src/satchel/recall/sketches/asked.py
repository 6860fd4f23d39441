"""A question as it is held against sketches."""

from collections.abc import Sequence
from typing import Protocol

LOOKED_AT = 1000
"""Sketches that are compared at most, of those whose signs are most alike."""

_SHARP = 32_767


class Asked:
    """The vector of a question in whole numbers.

    Args:
        vector: Its numbers.
        size: How many of them count, from its start.
    """

    def __init__(self, vector: Sequence[float], size: int) -> None:
        most = max(map(abs, vector[:size]), default=0.0)
        self.numbers = [round(number / most * _SHARP) for number in vector[:size]] if most else []
        self.numbers += [0] * (size - len(self.numbers))
        self.square = sum(number * number for number in self.numbers)
        """The square of its length."""


class Compared(Protocol):
    """The sketches of a generation."""

    def nearest(self, asked: Asked, limit: int) -> dict[int, float]:
        """Return places with the cosines of their sketches, best first."""
        ...

    def cosines(self, asked: Asked, places: Sequence[int]) -> dict[int, float]:
        """Return the cosines of the sketches at places that have one."""
        ...
