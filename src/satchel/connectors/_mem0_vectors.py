"""Vectors of a local Mem0's memories: kept when asked for, given back where they belong.

Mem0 does not write down which model made them; whoever asks for them vouches that the Mem0 they
go into uses the same one. They are of a text, so they go with that text only.
"""

from typing import Any

import msgspec

from satchel.formats._mem0 import VECTOR, Row, hash_of
from satchel.memory.entries import Entry
from satchel.ports.report import Report
from satchel.seal.encoding.carry import carry

_DEFAULT = ""
"""The name that Qdrant has for the one vector of a point that has no others."""


def default_vector(vectors: Any) -> list[float] | None:
    """Return the vector of a point that Mem0 compares, or None where there is none of numbers."""
    found = vectors.get(_DEFAULT) if isinstance(vectors, dict) else vectors
    if not isinstance(found, list) or not found:
        return None
    return found if all(type(number) in (int, float) for number in found) else None


def kept_vector(vector: list[float], text: str) -> dict[str, Any]:
    """Return what an entry keeps of a vector."""
    return {VECTOR: {"hash": hash_of(text), "numbers": vector}}


def vector_of(entry: Entry) -> list[float] | None:
    """Return the vector that came with a memory, as long as it says what it said then."""
    kept = None if entry.origin is None else entry.origin.as_written.get(VECTOR)
    if not isinstance(kept, dict) or kept.get("hash") != hash_of(entry.text or ""):
        return None
    vector = default_vector(kept.get("numbers"))
    return None if vector is None else [float(number) for number in vector]


def written(vector: list[float], size: int | None, report: Report, example: str) -> dict[str, Any]:
    """Return the vectors of a point to write; one of another length is counted as lost.

    Args:
        vector: That came with the memory.
        size: How many numbers the vectors of the collection have; None where they have names.
        report: Where losses go.
        example: The record's id.
    """
    if len(vector) == size:
        return {_DEFAULT: vector}
    has = "have names" if size is None else f"have {size} numbers"
    report.lost("vector", f"the vectors of the collection {has}", example=example)
    return {}


def with_vector(entry: Entry, vectors: Any) -> Entry:
    """Return a memory that keeps the vector of its point, where that has one."""
    vector = default_vector(vectors)
    return entry if vector is None else keeping(entry, kept_vector(vector, entry.text or ""))


def keeping(entry: Entry, more: Row) -> Entry:
    """Return an entry that keeps more of what its product said of it."""
    origin = entry.origin
    assert origin is not None  # noqa: S101 - what is read has one
    kept = {**origin.as_written, **carry(more)}
    return msgspec.structs.replace(entry, origin=msgspec.structs.replace(origin, as_written=kept))
