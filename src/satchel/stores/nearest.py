"""Finding the vectors that point most nearly the same way, in one pass over all of them.

With numpy where it is installed, otherwise without: the same cosines, but for their last digits.
A cosine depends on its own vector alone, so equal vectors are alike to the last bit in either way.
"""

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby, islice
from math import hypot, inf, isnan
from operator import mul
from typing import Any

import msgspec

from satchel.ports.store import BLOCK_BITS, ColumnBlock, MarkedRow
from satchel.ports.vectors import WIDTHS
from satchel.runtime.arrays import numpy

Rows = Iterable[tuple[int, bytes | None]]
"""Places in the log with the numbers there, in either width; None for what is no vector."""

_Way = Callable[[Sequence[bytes], int, Sequence[float]], list[float]]
"""Gives the cosines between vectors, all of one width, and one of length 1."""

_BLOCK_BYTES = 1 << 20


def nearest(rows: Rows, vector: tuple[float, ...], limit: int) -> list[tuple[int, float]]:
    """Return the places of the vectors most like one, with the cosine, best first.

    Those that are alike come in the order of their places. Takes memory for a block of rows, and
    for the result.

    Args:
        rows: What is there; each with as many numbers as ``vector``.
        vector: What they are compared with: finite numbers.
        limit: How many are wanted.

    Raises:
        ValueError: If one has another length, or holds what is no finite number.
    """
    if limit < 1:
        return []
    rows, way, unit = iter(rows), _way(), unit_of(vector)
    best: list[tuple[float, int]] = []
    while block := list(islice(rows, max(1, _BLOCK_BYTES // (WIDTHS[-1] * len(unit))))):
        least = best[-1][0] if len(best) == limit else -inf
        best += (
            (max(-1.0, min(1.0, cosine)), -place)
            for place, cosine in _cosines(block, way, unit)
            if cosine >= least
        )
        best = sorted(best, reverse=True)[:limit]
    return [(-back, cosine) for cosine, back in best]


def _cosines(
    block: list[tuple[int, bytes | None]], way: _Way, unit: Sequence[float]
) -> list[tuple[int, float]]:
    found: list[tuple[int, float]] = []
    for width in WIDTHS:
        size = width * len(unit)
        some = [(at, row) for at, row in block if isinstance(row, bytes) and len(row) == size]
        if some:
            cosines = way([row for _, row in some], width, unit)
            if any(map(isnan, cosines)):
                raise ValueError("a vector contains a value that is not a finite number")
            found += zip((at for at, _ in some), cosines, strict=True)
    if len(found) < len(block):
        raise ValueError("a vector does not have the length of its generation")
    return found


def _way() -> _Way:
    try:
        return _together(numpy())
    except ImportError:
        return _one_by_one


def _one_by_one(rows: Sequence[bytes], width: int, unit: Sequence[float]) -> list[float]:
    kind, found = struct.Struct(f"<{len(unit)}{'f' if width == WIDTHS[0] else 'd'}"), []
    for row in rows:
        numbers = kind.unpack(row) if width == WIDTHS[0] else _scaled(kind.unpack(row))
        length = hypot(*numbers)
        found.append(sum(map(mul, numbers, unit)) / length if length else 0.0)
    return found


def _together(np: Any) -> _Way:
    def way(rows: Sequence[bytes], width: int, unit: Sequence[float]) -> list[float]:
        table = np.frombuffer(b"".join(rows), f"<f{width}").reshape(len(rows), -1).astype(float)
        with np.errstate(all="ignore"):  # damage shows in the result
            if width == WIDTHS[1]:
                most = abs(table).max(axis=1, keepdims=True)
                table /= np.where(most == 0, 1, most)
            # Not a product of matrices: there a row's last digits depend on the rows around it.
            lengths = np.sqrt(np.einsum("ij,ij->i", table, table))
            found = np.einsum("ij,j->i", table, np.array(unit))
            found = np.divide(found, lengths, out=np.zeros_like(found), where=lengths != 0)
        return list(found.tolist())

    return way


def unit_of(vector: Sequence[float]) -> list[float]:
    """Return a vector of length 1 that points the same way; zeros stay zeros."""
    scaled = _scaled(vector)
    length = hypot(*scaled)
    return [number / length for number in scaled] if length else [0.0] * len(scaled)


def _scaled(numbers: Sequence[float]) -> Sequence[float]:
    """Make the largest number 1: squares of 64 bits may be too large or too small for them."""
    most = max(map(abs, numbers))
    return [number / most for number in numbers] if most else numbers


def column_blocks(
    rows: Iterable[Sequence[Any]], marked: Iterable[MarkedRow], bits: int = BLOCK_BITS
) -> Iterator[ColumnBlock]:
    """Yield the blocks of rows, in order.

    Args:
        rows: The position and the values of each, in the order of the log.
        marked: Those of the same rows that are marked, in any order.
        bits: As ``Reader.column_blocks`` takes it.
    """
    by_block: dict[int, list[MarkedRow]] = {}
    for one in marked:
        by_block.setdefault(one.seq >> bits, []).append(one)
    for number, some in groupby(rows, lambda row: row[0] >> bits):
        seqs, *columns = zip(*some, strict=True)
        values = tuple(map(msgspec.msgpack.encode, columns))
        there = by_block.pop(number, [])
        yield ColumnBlock(number, len(seqs), seqs[0], seqs[-1], values, there)
    for number, found in sorted(by_block.items()):
        yield ColumnBlock(number, 0, 0, 0, (), found)
