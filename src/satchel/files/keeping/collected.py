"""What removing came to: packs that nothing refers to."""

from typing import NamedTuple

DAY = 86_400.0
"""Seconds for which those who read may go on with what they read last."""


class Collected(NamedTuple):
    """What a collection did."""

    removed: int
    """Packs that are gone."""

    waiting: int
    """Packs that nothing refers to, which go once readers had their time."""

    rewritten: int
    """Packs whose wanted contents were copied, so that they could go."""
