"""Stage 5, format: a memory in words, all of it that matters to whoever goes on from it.

What is ours and what is the memory's is kept apart, so that the next stage encodes the one and
leaves the other. ``structured`` names each part; ``narrative`` says it in a sentence.
"""

from typing import NamedTuple

from satchel.model.entries import Entry, Identity, Procedural
from satchel.model.labels import _DAY, _parts
from satchel.rehydrate.ranking import Ranked
from satchel.rehydrate.request import Style


class Piece(NamedTuple):
    """A part of a line."""

    text: str
    is_memory: bool
    """Whether it is what was remembered; else it is ours."""


class Line(NamedTuple):
    """A memory, formatted."""

    block: str
    """Its component."""

    day: str
    """When it happened, else when it was made; empty where that says nothing."""

    pieces: tuple[Piece, ...]


def formatted(ranked: Ranked, style: Style) -> Line:
    """Return a memory as a line."""
    entry = ranked.entry
    parts = [part for part in _parts(entry) if part.value]
    day = (ranked.logged.row.moment or "")[:_DAY] if _is_dated(entry) else ""
    pieces = list[Piece]()
    for number, part in enumerate(parts):
        if style == "structured":
            ours = ("|" if number else "") + (f"{part.label}: " if part.label else "")
        else:
            ours = (" " if number else "") + part.sentence
        pieces += [Piece(ours, is_memory=False), Piece(part.value, is_memory=True)]
        if style == "narrative" and not part.value.endswith((".", "!", "?", "。")):
            pieces.append(Piece(".", is_memory=False))
    if style == "narrative" and day:
        pieces.insert(0, Piece(f"{day}, ", is_memory=False))
        day = ""
    return Line(ranked.logged.record.type, day, tuple(one for one in pieces if one.text))


def said_by(line: Line) -> str:
    """Return all that is the memory's own in a line."""
    return "\n".join(piece.text for piece in line.pieces if piece.is_memory)


def _is_dated(entry: Entry) -> bool:
    return not isinstance(entry, Identity | Procedural)
