"""Records, vectors and blobs in tables: what every engine shares, and the nearest vectors.

The nearest vectors are computed in one pass over all of them, with numpy where it is installed:
the same cosines with and without, but for their last digits. A cosine depends on its own vector
alone, so equal vectors have equal cosines to the last bit either way.
"""

import struct
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import groupby, islice
from math import hypot, inf, isnan
from operator import mul
from typing import Any, ClassVar

import msgspec

from satchel.crypto.sealed_records import PREFIX, decode_record
from satchel.errors import (
    InputError,
    StoreDamagedError,
    UnknownBlobError,
    ValueRefusedError,
    VerificationError,
)
from satchel.ports.rows import RecordLink, Row, derive_row
from satchel.ports.store import BLOCK_BITS, BlobPieces, ColumnBlock, MarkedRow
from satchel.ports.vectors import (
    WIDTHS,
    Generation,
    PackedVector,
    VectorValues,
    pack_vector,
    unpack_vector,
)
from satchel.runtime.arrays import numpy

ID_PREFIX = PREFIX
"""The prefix of every ID; columns have the 32 bytes after it."""

SEQ_BITS = 40
"""Bits of ``place`` that hold the log position."""

SEQ_MASK = (1 << SEQ_BITS) - 1

NODE_BITS = SEQ_BITS + 1  # a tree has fewer than two nodes for each leaf

PIECE_BITS = 24
"""Bits of a piece's place that hold its index."""

_KEY_BITS = 63

COLUMNS = (
    *("id", "type", "at", "body", "batch", "retired", "hold", "slot", "kind"),
    *("user", "agent", "run", "app", "session", "moment", "expires_at"),
)
"""The columns of a record, after its key."""

_DIGITS, _HEX = 64, frozenset("0123456789abcdef")


class StoreTables(ABC):
    """Statements on the tables of a store."""

    _name: str
    """The name of the store, for errors."""

    _UNTOUCHED: ClassVar[str] = "the file"
    """The object that a user must not change once it is damaged."""

    @abstractmethod
    def _number(self, bank: str) -> int:
        """Return the number of a bank.

        Raises:
            UnknownBankError: If the store has no such bank.
        """

    def _damaged(self, problem: str) -> StoreDamagedError:
        return damaged_store(self._name, problem, self._UNTOUCHED)

    def _start(self, number: Any, bits: int) -> int:
        """Return the first place of the stretch of a table that belongs to a number."""
        if not isinstance(number, int) or not 0 < number < 1 << (_KEY_BITS - bits):
            raise self._damaged("an invalid internal number")
        return number << bits


def damaged_store(name: str, problem: str, untouched: str) -> StoreDamagedError:
    """Return the error for a store whose contents are invalid."""
    return StoreDamagedError(
        f"the database is damaged: {problem}",
        file=name,
        hint=f"Do not change {untouched}, and run: satchel doctor.",
    )


def raw_id(identity: str) -> bytes:
    """Return the 32 bytes of an ID; of any other text, bytes that no ID has."""
    try:
        return bytes.fromhex(identity.removeprefix(ID_PREFIX))
    except ValueError:
        return b""


def raw_slot(slot: str | None) -> bytes | None:
    """Return the bytes of a slot's name; of any other text, bytes that no slot has."""
    return None if slot is None else raw_id(slot)


def id_bounds(digits: str) -> tuple[bytes, bytes] | None:
    """Return the least and the greatest raw ID with a prefix of hex digits; None for no such ID."""
    if len(digits) > _DIGITS or not _HEX.issuperset(digits):
        return None
    low, high = (bytes.fromhex(digits.ljust(_DIGITS, filler)) for filler in "0f")
    return low, high


def words_of(body: bytes) -> str:
    """Return the words of a record; a damaged record has none."""
    row = _derived(body)
    return "" if row is None else row.text or ""


def links_of(body: bytes | None) -> tuple[RecordLink, ...] | None:
    """Return the links that a record makes, each once; None for an erased or a damaged record."""
    row = None if body is None else _derived(body)
    return None if row is None else tuple(dict.fromkeys(row.links))


def _derived(body: bytes) -> Row | None:
    try:
        model = decode_record(body)
    except InputError:
        return None
    return derive_row(model, seq=0, at="", body=body)


def column_blocks(
    rows: Iterable[Sequence[Any]], marked: Iterable[MarkedRow], bits: int = BLOCK_BITS
) -> Iterator[ColumnBlock]:
    """Yield the blocks of rows, in order.

    Args:
        rows: The log position and the values of each row, in log order.
        marked: The marked ones among the same rows, in any order.
        bits: As in ``Reader.column_blocks``.
    """
    marked_by_block: dict[int, list[MarkedRow]] = {}
    for row in marked:
        marked_by_block.setdefault(row.seq >> bits, []).append(row)
    for number, block in groupby(rows, lambda row: row[0] >> bits):
        seqs, *columns = zip(*block, strict=True)
        values = tuple(map(msgspec.msgpack.encode, columns))
        in_block = marked_by_block.pop(number, [])
        yield ColumnBlock(number, len(seqs), seqs[0], seqs[-1], values, in_block)
    for number, in_block in sorted(marked_by_block.items()):
        yield ColumnBlock(number, 0, 0, 0, (), in_block)


Rows = Iterable[tuple[int, bytes | None]]
"""Log positions with the numbers there, in either width; None for what is no vector."""

_Cosines = Callable[[Sequence[bytes], int, Sequence[float]], list[float]]
"""Returns the cosines between vectors, all of one width, and one of length 1."""

StoredVector = tuple[int, Any, Any]
"""A vector as its table has it: log position, width, numbers."""

_BLOCK_BYTES = 1 << 20


def nearest(rows: Rows, vector: tuple[float, ...], limit: int) -> list[tuple[int, float]]:
    """Return the log positions of the vectors nearest to one, with their cosines, best first.

    Equal cosines are in log order. Takes memory for a block of rows, and for the result.

    Args:
        rows: The vectors; each must have as many numbers as ``vector``.
        vector: What they are compared with: finite numbers.
        limit: How many to return at most.

    Raises:
        ValueError: If a vector has another length, or a number that is not finite.
    """
    if limit < 1:
        return []
    rows, cosines, unit = iter(rows), _cosine_function(), unit_of(vector)
    best: list[tuple[float, int]] = []
    while block := list(islice(rows, max(1, _BLOCK_BYTES // (WIDTHS[-1] * len(unit))))):
        least = best[-1][0] if len(best) == limit else -inf
        best += (
            (max(-1.0, min(1.0, cosine)), -position)
            for position, cosine in _block_cosines(block, cosines, unit)
            if cosine >= least
        )
        best = sorted(best, reverse=True)[:limit]
    return [(-negated, cosine) for cosine, negated in best]


def _block_cosines(
    block: list[tuple[int, bytes | None]], cosines: _Cosines, unit: Sequence[float]
) -> list[tuple[int, float]]:
    result: list[tuple[int, float]] = []
    for width in WIDTHS:
        size = width * len(unit)
        rows = [(at, row) for at, row in block if isinstance(row, bytes) and len(row) == size]
        if rows:
            values = cosines([row for _, row in rows], width, unit)
            if any(map(isnan, values)):
                raise ValueError("a vector contains a value that is not a finite number")
            result += zip((at for at, _ in rows), values, strict=True)
    if len(result) < len(block):
        raise ValueError("a vector does not have the length of its generation")
    return result


def _cosine_function() -> _Cosines:
    try:
        return _numpy_cosines(numpy())
    except ImportError:
        return _plain_cosines


def _plain_cosines(rows: Sequence[bytes], width: int, unit: Sequence[float]) -> list[float]:
    kind, result = struct.Struct(f"<{len(unit)}{'f' if width == WIDTHS[0] else 'd'}"), []
    for row in rows:
        numbers = kind.unpack(row) if width == WIDTHS[0] else _scaled(kind.unpack(row))
        length = hypot(*numbers)
        result.append(sum(map(mul, numbers, unit)) / length if length else 0.0)
    return result


def _numpy_cosines(np: Any) -> _Cosines:
    def cosines(rows: Sequence[bytes], width: int, unit: Sequence[float]) -> list[float]:
        table = np.frombuffer(b"".join(rows), f"<f{width}").reshape(len(rows), -1).astype(float)
        with np.errstate(all="ignore"):  # damage shows in the result
            if width == WIDTHS[1]:
                most = abs(table).max(axis=1, keepdims=True)
                table /= np.where(most == 0, 1, most)
            # Not a matrix product, in which the last digits of a row depend on other rows.
            lengths = np.sqrt(np.einsum("ij,ij->i", table, table))
            values = np.einsum("ij,j->i", table, np.array(unit))
            values = np.divide(values, lengths, out=np.zeros_like(values), where=lengths != 0)
        return list(values.tolist())

    return cosines


def unit_of(vector: Sequence[float]) -> list[float]:
    """Return the vector of length 1 in the same direction; zeros stay zeros."""
    scaled = _scaled(vector)
    length = hypot(*scaled)
    return [number / length for number in scaled] if length else [0.0] * len(scaled)


def _scaled(numbers: Sequence[float]) -> Sequence[float]:
    """Scale the largest number to 1: squares of numbers of 64 bits may overflow or vanish."""
    largest = max(map(abs, numbers))
    return [number / largest for number in numbers] if largest else numbers


class TableVectors(StoreTables):
    """Reading vectors.

    A *table* identifies a generation: it is its number, or the first place of its stretch.
    """

    @abstractmethod
    def _table(self, bank: str, generation: Generation) -> int | None:
        """Return the table of a generation; None where the bank has no such generation."""

    @abstractmethod
    def _positions(self, number: int, ids: Sequence[str]) -> dict[str, int]:
        """Return the log positions of those records that the bank has, by ID."""

    @abstractmethod
    def _stored(
        self, table: int, positions: Sequence[int], dimensions: int
    ) -> Iterable[StoredVector]:
        """Yield the vectors at some log positions."""

    @abstractmethod
    def _nearest(
        self, number: int, table: int, vector: tuple[float, ...], limit: int
    ) -> list[tuple[int, float]]:
        """Return the nearest vectors of current records, as ``nearest`` does."""

    @abstractmethod
    def _ids(self, number: int, positions: Sequence[int]) -> dict[int, str]:
        """Return the IDs of records by log position."""

    def get(
        self, bank: str, generation: Generation, ids: Sequence[str]
    ) -> dict[str, tuple[float, ...]]:
        positions = self._positions(self._number(bank), ids)
        table = self._table(bank, generation)
        if table is None:
            return {}
        names = {position: identity for identity, position in positions.items()}
        return {
            names[position]: self._unpacked(width, numbers, generation.dimensions)
            for position, width, numbers in self._stored(table, list(names), generation.dimensions)
        }

    def near(
        self, bank: str, generation: Generation, vector: VectorValues, *, limit: int
    ) -> list[tuple[str, float]]:
        dimensions = generation.dimensions
        unpacked = unpack_vector(pack_vector(vector, dimensions, "vector"), dimensions)
        number, table = self._number(bank), self._table(bank, generation)
        if table is None:
            return []
        try:
            best = self._nearest(number, table, unpacked, limit)
        except ValueError as error:
            raise self._damaged(str(error)) from error
        ids = self._ids(number, [position for position, _ in best])
        return [(ids[position], cosine) for position, cosine in best]

    def _generation(self, model: str, dimensions: int, number: int) -> Generation:
        try:
            return Generation(model, dimensions, number)
        except ValueRefusedError as error:
            raise self._damaged(error.message) from error

    def _unpacked(self, width: Any, numbers: Any, dimensions: int) -> tuple[float, ...]:
        if not (isinstance(width, int) and isinstance(numbers, bytes)):
            raise self._damaged("a column contains an invalid value")
        try:
            return unpack_vector(PackedVector(width, numbers), dimensions)
        except ValueError as error:
            raise self._damaged(str(error)) from error


class TableVectorsWriter(TableVectors):
    """Writing vectors."""

    @abstractmethod
    def _store(
        self, bank: str, generation: Generation, rows: Sequence[tuple[int, int, bytes]]
    ) -> None:
        """Store packed vectors at log positions; the generation is created when missing."""

    def put(self, bank: str, generation: Generation, vectors: Mapping[str, VectorValues]) -> None:
        positions = self._positions(self._number(bank), list(vectors))
        for identity in vectors:
            if identity not in positions:
                raise ValueRefusedError("no such record in the bank", field=identity)
        rows = [
            (positions[identity], *pack_vector(vector, generation.dimensions, identity))
            for identity, vector in vectors.items()
        ]
        if rows:
            self._store(bank, generation, rows)


class TableBlobs(StoreTables):
    """Reading blobs."""

    @abstractmethod
    def _blob(self, bank: str, digest: str) -> int | None:
        """Return the number of a blob; None where the bank has no such blob."""

    @abstractmethod
    def _pieces(self, blob: int) -> Iterator[bytes]:
        """Yield the pieces of a blob, in order."""

    def has(self, bank: str, digest: str) -> bool:
        return self._blob(bank, digest) is not None

    def get(self, bank: str, digest: str) -> Iterator[bytes]:
        blob = self._blob(bank, digest)
        if blob is None:
            raise UnknownBlobError(f"no blob {digest} in the bank", file=self._name)
        return self._pieces(blob)

    def _in_order(self, pieces: Iterable[tuple[int, bytes]], first: int) -> Iterator[bytes]:
        """Yield pieces, each stored with its place; the first place is ``first``."""
        for expected, (place, data) in enumerate(pieces, first):
            if place != expected:
                raise VerificationError(
                    "a part of a blob is at the wrong position",
                    file=self._name,
                    hint="The store was changed by another program. Store it again from its "
                    "source.",
                )
            yield data


class TableBlobsWriter(TableBlobs):
    """Writing blobs, on an engine with savepoints."""

    @abstractmethod
    def _whole(self) -> AbstractContextManager[None]:
        """Roll back the block alone when it fails."""

    @abstractmethod
    def _add(self, number: int, pieces: BlobPieces) -> int:
        """Store pieces as a blob without a digest, and return its number."""

    @abstractmethod
    def _set_digest(self, blob: int, digest: str, size: int) -> None: ...

    @abstractmethod
    def _remove(self, blob: int) -> None:
        """Remove a blob and its pieces."""

    def put(self, bank: str, chunks: Iterable[bytes]) -> str:
        number, pieces = self._number(bank), BlobPieces(chunks)
        with self._whole():
            # The digest is known after the last piece.
            blob = self._add(number, pieces)
            self.drop(bank, pieces.digest)
            self._set_digest(blob, pieces.digest, pieces.size)
        return pieces.digest

    def drop(self, bank: str, digest: str) -> None:
        blob = self._blob(bank, digest)
        if blob is not None:
            self._remove(blob)
