"""Vectors: numbers that stand for what a record means, kept beside the log and rebuilt at will.

Those of one model, length and generation are compared with each other, and with no others.
"""

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from operator import ne
from typing import Any, NamedTuple, Protocol

import msgspec
from blake3 import blake3

from satchel.errors import ValueRefusedError

MAX_DIMENSIONS = 65_536
"""Numbers in one vector."""

WIDTHS = (4, 8)
"""Bytes of a number, as kept: IEEE 754 of 32 or 64 bits, little-endian."""

_MODEL_CHARACTERS = 1_000
_MOST = 2**63 - 1

SKETCHES = "vectors/near/"
"""What the names of side values begin with that hold sketches of vectors; see ``sketches_of``."""

SKETCHED_TOGETHER = 256
"""Places of the log whose sketches are one side value."""

Given = Sequence[float] | bytes
"""A vector as it is handed in: numbers, or their bytes in one of the two widths."""


@dataclass(frozen=True, slots=True, order=True)
class Generation:
    """The vectors that may be compared with each other.

    Raises:
        ValueRefusedError: If a member cannot be.
    """

    model: str
    """What made them: 1 to 1,000 characters."""

    dimensions: int
    """How many numbers each has, from 1 to 65,536."""

    number: int = 0
    """Tells apart what the same model made of the same records in other ways, from 0."""

    def __post_init__(self) -> None:
        if not 1 <= len(self.model) <= _MODEL_CHARACTERS or not _is_text(self.model):
            raise ValueRefusedError(
                f"the name of a model must have 1 to {_MODEL_CHARACTERS} characters", field="model"
            )
        if not _is_whole(self.dimensions, 1, MAX_DIMENSIONS):
            raise ValueRefusedError(
                f"a vector must have 1 to {MAX_DIMENSIONS} numbers", field="dimensions"
            )
        if not _is_whole(self.number, 0, _MOST):
            raise ValueRefusedError(
                "a generation must be a whole number from 0", field="generation"
            )


class PackedVector(NamedTuple):
    """A vector as it is kept."""

    width: int
    """Bytes of each number: 4 where that is exact for every one of them, otherwise 8."""

    numbers: bytes


def pack_vector(vector: Given, dimensions: int, name: str) -> PackedVector:
    """Return a vector as it is kept; what comes back is what went in, bit for bit.

    Args:
        vector: Its numbers.
        dimensions: How many it has to have.
        name: What to call it in errors: the id of its record.

    Raises:
        ValueRefusedError: If it has another length, or holds what is no finite number of 64 bits.
    """
    given = _read(vector, dimensions) if isinstance(vector, bytes) else vector
    if len(given) != dimensions:
        raise ValueRefusedError(
            f"a vector of {len(vector)} {'bytes' if isinstance(vector, bytes) else 'numbers'} "
            f"is not one of {dimensions} numbers",
            field=name,
        )
    numbers = _exact(given)
    if numbers is None:
        raise ValueRefusedError(
            "a vector contains a value that is not a finite 64-bit number",
            field=name,
            hint="NaN, infinities and larger whole numbers cannot be compared.",
        )
    try:
        short = struct.pack(f"<{dimensions}f", *numbers)
    except OverflowError:
        short = b""
    if short and struct.unpack(f"<{dimensions}f", short) == numbers:
        return PackedVector(4, short)
    return PackedVector(8, struct.pack(f"<{dimensions}d", *numbers))


def unpack_vector(kept: PackedVector, dimensions: int) -> tuple[float, ...]:
    """Return the numbers of a vector that was kept.

    Raises:
        ValueError: If it is none of that length, or holds what is no finite number.
    """
    if kept.width not in WIDTHS or len(kept.numbers) != kept.width * dimensions:
        raise ValueError("a vector does not have the length of its generation")
    numbers = struct.unpack(f"<{dimensions}{'f' if kept.width == WIDTHS[0] else 'd'}", kept.numbers)
    # The sum is no finite number where one of them is none, and hardly ever otherwise.
    if not isfinite(sum(numbers)) and not all(map(isfinite, numbers)):
        raise ValueError("a vector contains a value that is not a finite number")
    return numbers


def sketch_prefix(place: int) -> str:
    """Return what the names begin with that hold the sketch of a record's vector.

    A sketch is drawn from a vector and tells nearly as much, so both go when a record is erased.
    """
    return f"{SKETCHES}{place // SKETCHED_TOGETHER:08x}/"


class Vectors(Protocol):
    """The vectors of a store, for reading.

    Every method raises ``UnknownBankError`` for a bank that is not here.
    """

    def generations(self, bank: str) -> dict[Generation, int]:
        """Return how many vectors each generation of a bank has; it is there while it has any."""
        ...

    def get(
        self, bank: str, generation: Generation, ids: Sequence[str]
    ) -> dict[str, tuple[float, ...]]:
        """Return the vectors of records by id; those that are not there are left out.

        Raises:
            StoreDamagedError: If one is not what can have been put.
        """
        ...

    def near(
        self, bank: str, generation: Generation, vector: Given, *, limit: int
    ) -> list[tuple[str, float]]:
        """Return the ids of the current records whose vectors point most nearly the same way.

        Retired and held records are passed over. All vectors of the generation are looked at,
        with memory for some of them and for ``limit`` results.

        Returns:
            At most ``limit`` ids with the cosine of the angle, -1 to 1, best first and those that
            are alike in the order of the log; a vector of zeros is like nothing: 0.

        Raises:
            ValueRefusedError: If the vector is not one of the generation.
            StoreDamagedError: If a stored one is not what can have been put.
        """
        ...


class VectorsWriter(Vectors, Protocol):
    """The vectors of a store, for the one who may write; committed with the block around."""

    def put(self, bank: str, generation: Generation, vectors: Mapping[str, Given]) -> None:
        """Set the vectors of records by id, all or none.

        Raises:
            ValueRefusedError: Naming the record whose vector is none of the generation, or that
                is not in the bank.
        """
        ...

    def drop(self, bank: str, generation: Generation) -> None:
        """Remove a generation, where it is there."""
        ...


def _read(vector: bytes, dimensions: int) -> Sequence[float]:
    """Return the numbers in bytes, or none when there are not as many in either width."""
    for width, kind in zip(WIDTHS, "fd", strict=True):
        if len(vector) == width * dimensions:
            return struct.unpack(f"<{dimensions}{kind}", vector)
    return b""


def _exact(given: Iterable[float]) -> tuple[float, ...] | None:
    """Return numbers as floats, or None where one is no finite number or would be changed."""
    given = tuple(given)
    try:
        numbers = tuple(map(float, given))
    except (TypeError, ValueError, OverflowError):
        return None
    if not all(map(isfinite, numbers)) or any(map(ne, numbers, given)):
        return None
    return numbers


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_whole(value: int, least: int, most: int) -> bool:
    return type(value) is int and least <= value <= most


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


def text_mark(text: str) -> str:
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


class VectorChecksum:
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


class VectorSource(Protocol):
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
    def sent(self) -> VectorChecksum:
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


class VectorSink(Protocol):
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
