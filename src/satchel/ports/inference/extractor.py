"""Extractors: what finds the people, places and things that a text is about."""

from collections.abc import Sequence
from typing import Literal, NamedTuple, Protocol

EntityType = Literal["person", "organisation", "place", "date", "product"]
"""What an entity can be."""


class Mention(NamedTuple):
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

    def extract(self, texts: Sequence[str]) -> list[list[Mention]]:
        """Return for each text its mentions, in their order; none overlaps another."""
        ...
