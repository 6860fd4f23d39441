"""Tables of records: code that the engines share.

``place = number << bits | position`` is the integer key of SQLite's and LadybugDB's tables: the
rows of a bank, a generation or a blob are one stretch of their table, in order.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any, ClassVar

import msgspec

from satchel.crypto.sealed_records import PREFIX, decode_record
from satchel.errors import InputError, StoreDamagedError
from satchel.ports.rows import RecordLink, Row, derive_row
from satchel.ports.store import BLOCK_BITS, ColumnBlock, MarkedRow

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
