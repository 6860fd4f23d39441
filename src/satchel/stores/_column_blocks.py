"""Columns by blocks of rows, for a store that returns values one row at a time."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any

import msgspec

from satchel.ports.store import BLOCK_BITS, ColumnBlock, Marked


def column_blocks(
    rows: Iterable[Sequence[Any]], marked: Iterable[Marked], bits: int = BLOCK_BITS
) -> Iterator[ColumnBlock]:
    """Yield the blocks of rows, in order.

    Args:
        rows: The position and the values of each, in the order of the log.
        marked: Those of the same rows that are marked, in any order.
        bits: As ``Reader.column_blocks`` takes it.
    """
    by_block: dict[int, list[Marked]] = {}
    for one in marked:
        by_block.setdefault(one.seq >> bits, []).append(one)
    for number, some in groupby(rows, lambda row: row[0] >> bits):
        seqs, *columns = zip(*some, strict=True)
        values = tuple(map(msgspec.msgpack.encode, columns))
        there = by_block.pop(number, [])
        yield ColumnBlock(number, len(seqs), seqs[0], seqs[-1], values, there)
    for number, found in sorted(by_block.items()):
        yield ColumnBlock(number, 0, 0, 0, (), found)
