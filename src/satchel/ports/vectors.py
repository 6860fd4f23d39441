"""Vectors of records, stored beside the log; they can be rebuilt.

Only vectors of one model, length and generation are compared.
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
"""Bytes of a stored number: IEEE 754 of 32 or 64 bits, little-endian."""

_MODEL_CHARACTERS = 1_000
_MOST = 2**63 - 1

SKETCHES = "vectors/near/"
"""Prefix of the names of side values that hold sketches of vectors; see ``sketches_of``."""

SKETCHED_TOGETHER = 256
"""Log positions whose sketches are one side value."""

VectorValues = Sequence[float] | bytes
"""A vector as passed by a caller: numbers, or their bytes in one of the two widths."""


@dataclass(frozen=True, slots=True, order=True)
class Generation:
    """The identity of a set of comparable vectors.

    Raises:
        ValueRefusedError: If a member is invalid.
    """

    model: str
    """Name of the model: 1 to 1,000 characters."""

    dimensions: int
    """The length of each vector, from 1 to 65,536."""

    number: int = 0
    """Distinguishes vectors that the same model made of the same records differently, from 0."""

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
    """A vector as stored."""

    width: int
    """Bytes of each number: 4 where that is exact for every one of them, otherwise 8."""

    numbers: bytes


def pack_vector(vector: VectorValues, dimensions: int, name: str) -> PackedVector:
    """Return a vector as stored, without loss.

    Args:
        vector: Its numbers.
        dimensions: The required length.
        name: Its name for errors: the ID of its record.

    Raises:
        ValueRefusedError: If it has another length, or a number that is not finite in 64 bits.
    """
    values = _read(vector, dimensions) if isinstance(vector, bytes) else vector
    if len(values) != dimensions:
        raise ValueRefusedError(
            f"a vector of {len(vector)} {'bytes' if isinstance(vector, bytes) else 'numbers'} "
            f"is not one of {dimensions} numbers",
            field=name,
        )
    numbers = _exact(values)
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


def unpack_vector(packed: PackedVector, dimensions: int) -> tuple[float, ...]:
    """Return the numbers of a stored vector.

    Raises:
        ValueError: If it has another length, or a number that is not finite.
    """
    if packed.width not in WIDTHS or len(packed.numbers) != packed.width * dimensions:
        raise ValueError("a vector does not have the length of its generation")
    numbers = struct.unpack(
        f"<{dimensions}{'f' if packed.width == WIDTHS[0] else 'd'}", packed.numbers
    )
    # The sum is not finite if a number is not, and hardly ever otherwise.
    if not isfinite(sum(numbers)) and not all(map(isfinite, numbers)):
        raise ValueError("a vector contains a value that is not a finite number")
    return numbers


def sketch_prefix(position: int) -> str:
    """Return the prefix of the names of the values that hold the sketch of a record's vector.

    A sketch reveals nearly as much as its vector, so both are removed when a record is erased.
    """
    return f"{SKETCHES}{position // SKETCHED_TOGETHER:08x}/"


class Vectors(Protocol):
    """Reads the vectors of a store.

    Every method raises ``UnknownBankError`` for an unknown bank.
    """

    def generations(self, bank: str) -> dict[Generation, int]:
        """Return the number of vectors of each generation of a bank, 1 or more."""
        ...

    def get(
        self, bank: str, generation: Generation, ids: Sequence[str]
    ) -> dict[str, tuple[float, ...]]:
        """Return the vectors of records by ID; missing ones are omitted.

        Raises:
            StoreDamagedError: If a stored vector is invalid.
        """
        ...

    def near(
        self, bank: str, generation: Generation, vector: VectorValues, *, limit: int
    ) -> list[tuple[str, float]]:
        """Return the IDs of the current records with the nearest vectors.

        Retired and held records are skipped. All vectors of the generation are compared, with
        memory for some of them and for ``limit`` results.

        Returns:
            At most ``limit`` IDs with the cosine of the angle, -1 to 1, best first, equal ones in
            log order; the cosine of a vector of zeros is 0.

        Raises:
            ValueRefusedError: If the vector does not fit the generation.
            StoreDamagedError: If a stored vector is invalid.
        """
        ...


class VectorsWriter(Vectors, Protocol):
    """Writes the vectors of a store, within a transaction."""

    def put(self, bank: str, generation: Generation, vectors: Mapping[str, VectorValues]) -> None:
        """Set the vectors of records by ID, all or none.

        Raises:
            ValueRefusedError: If a vector does not fit the generation, or a record is not in the
                bank; names the record.
        """
        ...

    def drop(self, bank: str, generation: Generation) -> None:
        """Remove a generation, if it exists."""
        ...


def _read(vector: bytes, dimensions: int) -> Sequence[float]:
    """Return the numbers in bytes; none if the length fits neither width."""
    for width, kind in zip(WIDTHS, "fd", strict=True):
        if len(vector) == width * dimensions:
            return struct.unpack(f"<{dimensions}{kind}", vector)
    return b""


def _exact(values: Iterable[float]) -> tuple[float, ...] | None:
    """Return numbers as floats; None if one is not finite or would change."""
    values = tuple(values)
    try:
        numbers = tuple(map(float, values))
    except (TypeError, ValueError, OverflowError):
        return None
    if not all(map(isfinite, numbers)) or any(map(ne, numbers, values)):
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
"""Length of a mark in bytes; written in hex."""

MOST_LENGTH = 1e6
"""The largest number in an imported vector; those of models are about 1."""

_NUMBERS = frozenset({int, float})
_WRAP = (1 << 256) - 1


class Maker(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The maker of the vectors of a file. Vectors of two makers are never compared.

    Raises:
        ValueError: If it is invalid.
    """

    model: str
    dimensions: int
    revision: str = ""
    """The revision of the model."""

    learned: str = msgspec.field(default="", name="learnt")
    """Digest of what it learned from the bank before the first vector; such vectors fit no other
    bank."""

    def __post_init__(self) -> None:
        try:
            Generation(self.model, self.dimensions)
        except ValueRefusedError as error:
            raise ValueError(error.message) from None


def text_mark(text: str) -> str:
    """Return the mark of a text that a vector was made of."""
    return blake3(text.encode()).hexdigest(length=MARK_BYTES)


def pack_imported(vector: Any, dimensions: int) -> bytes | None:
    """Return an imported vector as 32-bit numbers, without loss.

    Returns:
        None for an invalid vector: NaN, infinities, numbers that do not fit 32 bits or exceed
        ``MOST_LENGTH``, another length, or no numbers.
    """
    if type(vector) not in (list, tuple) or len(vector) != dimensions:
        return None
    if not {*map(type, vector)} <= _NUMBERS:
        return None
    form = f"<{dimensions}f"
    try:
        packed = struct.pack(form, *vector)
    except OverflowError:
        return None
    unpacked = struct.unpack(form, packed)
    # NaN is not equal to itself.
    if unpacked != tuple(vector) or max(map(abs, unpacked), default=0) > MOST_LENGTH:
        return None
    return packed


class VectorChecksum:
    """An order-independent sum of vectors with their marks, to compare two sets."""

    def __init__(self) -> None:
        self.count = 0
        self.total = 0

    def begin(self, maker: Maker) -> None:
        """Ignore the maker."""

    def take(self, mark: str, vector: Any) -> None:
        """Add a vector."""
        kept = pack_imported(vector, len(vector)) if isinstance(vector, Sequence) else None
        whole = blake3(mark.encode() + (kept or repr(vector).encode())).digest()
        self.count += 1
        self.total = (self.total + int.from_bytes(whole)) & _WRAP

    def refuse(self, reason: str) -> None:
        """Ignore a vector: it is missing in the sum."""


class VectorSource(Protocol):
    """The vectors of a bank, for a writer whose format holds them."""

    @property
    def maker(self) -> Maker:
        """Their maker."""
        ...

    @property
    def count(self) -> int:
        """The number of vectors of the bank."""
        ...

    @property
    def sent(self) -> VectorChecksum:
        """The sum of the written vectors."""
        ...

    def begin(self) -> None:
        """Start again before the first record: earlier writes do not count."""
        ...

    def of(self, ids: Sequence[str]) -> Mapping[str, Sequence[float]]:
        """Return the vectors of some hundred records by ID; records without are omitted."""
        ...

    def wrote(self, mark: str, vector: Sequence[float]) -> None:
        """Count a written vector."""
        ...


class VectorSink(Protocol):
    """Receives the vectors of a file."""

    def begin(self, maker: Maker) -> None:
        """Called first, with the maker."""
        ...

    def take(self, mark: str, vector: Any) -> None:
        """Add the vector of the text with a mark, as it is in the file, valid or not."""
        ...

    def refuse(self, reason: str) -> None:
        """Count an unusable vector."""
        ...
