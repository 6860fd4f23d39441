"""Vectors that go along in a file: all of one model, each with a mark of the text it was made of.

A vector hangs on its text alone, so the mark is all that ties the two together. Whoever reads such
a file finds out what made them and of which text each is, or does not use them.
"""

import struct
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec
from blake3 import blake3

from satchel.errors import ValueRefusedError
from satchel.ports.vectors import Generation

MARK_BYTES = 16
"""Length of a mark; it is written in hex."""

MOST_LENGTH = 1e6
"""The largest number that a vector from elsewhere may have; those of models are about 1."""

_NUMBERS = frozenset({int, float})
_WRAP = (1 << 256) - 1


class Maker(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What made the vectors of a file. Vectors of two makers are never compared.

    Raises:
        ValueError: If there can be no such model.
    """

    model: str
    dimensions: int
    revision: str = ""
    """Which make of the model."""

    learnt: str = ""
    """Digest of what it learnt of the bank before the first vector; such vectors fit no other."""

    def __post_init__(self) -> None:
        try:
            Generation(self.model, self.dimensions)
        except ValueRefusedError as error:
            raise ValueError(error.message) from None


def mark_of(text: str) -> str:
    """Return what tells the text that a vector was made of from any other."""
    return blake3(text.encode()).hexdigest(length=MARK_BYTES)


def as_kept(vector: Any, dimensions: int) -> bytes | None:
    """Return a vector from elsewhere as 32-bit numbers, bit for bit.

    Returns:
        None for what no model of so many dimensions gave: NaN, infinities, numbers that are not of
        32 bits or beyond ``MOST_LENGTH``, another length, or no numbers at all.
    """
    if type(vector) not in (list, tuple) or len(vector) != dimensions:
        return None
    if not {*map(type, vector)} <= _NUMBERS:
        return None
    form = f"<{dimensions}f"
    try:
        kept = struct.pack(form, *vector)
    except OverflowError:
        return None
    there = struct.unpack(form, kept)
    # What is no number is not even equal to itself.
    if there != tuple(vector) or max(map(abs, there), default=0) > MOST_LENGTH:
        return None
    return kept


class Sum:
    """Adds up vectors with their marks in any order, so that two sides can be compared."""

    def __init__(self) -> None:
        self.count = 0
        self.total = 0

    def begin(self, maker: Maker) -> None:
        """Nothing depends on it."""

    def take(self, mark: str, vector: Any) -> None:
        """Add a vector."""
        kept = as_kept(vector, len(vector)) if isinstance(vector, Sequence) else None
        whole = blake3(mark.encode() + (kept or repr(vector).encode())).digest()
        self.count += 1
        self.total = (self.total + int.from_bytes(whole)) & _WRAP

    def refuse(self, reason: str) -> None:
        """It is missing in the sum, then."""


class Carrying(Protocol):
    """The vectors of a bank, for a writer that has a place for them."""

    @property
    def maker(self) -> Maker:
        """What made them."""
        ...

    @property
    def count(self) -> int:
        """How many the bank has."""
        ...

    @property
    def sent(self) -> Sum:
        """Those that were written."""
        ...

    def begin(self) -> None:
        """Is told before the first record: what was written before does not count."""
        ...

    def of(self, ids: Sequence[str]) -> Mapping[str, Sequence[float]]:
        """Return the vectors of some hundred records by id; those without are left out."""
        ...

    def wrote(self, mark: str, vector: Sequence[float]) -> None:
        """Is told of each vector that was written."""
        ...


class Carried(Protocol):
    """Takes the vectors that a reader finds beside memories."""

    def begin(self, maker: Maker) -> None:
        """Is told first what made them."""
        ...

    def take(self, mark: str, vector: Any) -> None:
        """Take the vector of the text with a mark, as it stands in the file, whatever that is."""
        ...

    def refuse(self, reason: str) -> None:
        """Count one that is of no use."""
        ...
