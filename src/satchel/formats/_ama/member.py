"""The member ``_satchel`` of a line: what AMA has no place for, so that it comes back.

Astrocyte ignores it. It holds the members of the entry that the rest of the line does not give,
and the nonce, with which the entry gets the id that it had, so links between entries hold. It is
believed only where writing the entry again gives the rest of the line: whoever changed the line
with other tools is heard, and no line shows one thing and means another.
"""

import base64
from collections.abc import Sequence
from typing import Any

import msgspec

from satchel.errors import InputError, MalformedError
from satchel.formats._ama.lines import Row
from satchel.formats._ama.rows import (
    EMBEDDING,
    SATCHEL,
    entry_of,
    likely_row_of,
    row_of,
    without_embedding,
)
from satchel.formats._as_written import differences, reproduce
from satchel.formats._own_vectors import minus_zeros, signed
from satchel.memory.entries import Entry, Episodic, Identity, Procedural, Semantic, Working
from satchel.memory.parts import is_hex
from satchel.seal.encoding.carry import carry, restore
from satchel.seal.encoding.domain import plain
from satchel.seal.encoding.jcs import encode_sorted
from satchel.seal.records import Sealed, as_model, known_members
from satchel.type_info import resolved

_ENTRY, _NONCE = "entry", "nonce"
_VECTOR_OF, _MINUS_ZEROS = "vector_of", "minus_zeros"
_OF_VECTORS = frozenset({_VECTOR_OF, _MINUS_ZEROS})
_DIGITS = 32
_DOLLAR = b'"$'
"""Only where this is, there can be a carried form."""

_decode = msgspec.json.Decoder(
    resolved(Episodic | Identity | Procedural | Semantic | Working)
).decode
_OF_THE_SEAL = frozenset({"id", "nonce"})


def exact_line_of(record: Sealed, bank: str) -> Row | None:
    """Return what ``line_of`` does, in few steps, where a line alone says the whole record.

    That is so for memories as they came from an archive.
    """
    if _DOLLAR in record.body:
        return None
    entry = _decode(record.body)
    row = likely_row_of(entry, bank)
    if row is None:
        return None
    try:
        again = entry_of(row, bank, id=record.id, nonce=entry.nonce)
    except MalformedError:
        return None
    return row if encode_sorted(again) == record.body else None


def line_of(record: Sealed, entry: Entry, bank: str, *, nonce: bool, bare: bool = False) -> Row:
    """Return a line as JSON that every reader takes.

    Args:
        record: The memory, for its id and nonce.
        entry: What it says; not all of the record where something is to be left out.
        bank: The ``bank_id`` of the header.
        nonce: Whether the id must come back even if the line alone says everything.
        bare: Whether the place of the embedding is for one of the bank's own.
    """
    row = row_of(without_embedding(entry) if bare else entry, record.id, bank)
    carried = _DOLLAR in record.body
    line = holdable(restore(row)) if carried else row
    base = entry_of(carry(line) if carried else line, bank)
    kept = differences(plain(entry), plain(base))
    kept = {name: part for name, part in kept.items() if name not in _OF_THE_SEAL}
    if kept or nonce:
        line = {**line, SATCHEL: {_ENTRY: kept}}
        if (own := record.value.get(_NONCE)) is not None:  # a redacted memory comes back as another
            line[SATCHEL][_NONCE] = own
    return line


def with_vector(line: Row, mark: str, vector: Sequence[float]) -> Row:
    """Return a line with a vector of the bank's own, which is of the text with a mark."""
    ours = {**line.get(SATCHEL, {}), _VECTOR_OF: mark}
    zeros = minus_zeros(vector)
    ours |= {_MINUS_ZEROS: zeros} if zeros else {}
    return {**line, EMBEDDING: vector, SATCHEL: ours}


def holdable(value: Any) -> Any:
    """Return a value with null where there is no JSON for a number, and base64 for bytes."""
    kind = type(value)
    if kind is dict:
        return {key: holdable(part) for key, part in value.items()}
    if kind is list:
        return [holdable(part) for part in value]
    if kind is bytes:
        return base64.b64encode(value).decode()
    if kind is float and (value != value or value in (float("inf"), float("-inf"))):  # noqa: PLR0124
        return None
    return value


class Members:
    """Reads ``_satchel`` of the lines of one file.

    Args:
        bank: The ``bank_id`` of the header.
        own: Whether the header says what made the vectors of a bank that are in it.
    """

    def __init__(self, bank: str, *, own: bool = False) -> None:
        self.unbelieved = 0
        """How many did not fit the rest of their line."""

        self.vector: tuple[str, Any] | None = None
        """The bank's own vector of the last line, with the mark of its text."""

        self._own = own

        self._bank = bank
        self._nonces: set[int] = set()

    def entry_of(self, row: Row) -> Entry:
        """Return a line as an entry, a draft that may have its nonce.

        Raises:
            MalformedError: As ``rows.entry_of``.
        """
        self.vector = None
        if self._own and SATCHEL in row:
            row = self._without_vector(row)
        entry = entry_of(row, self._bank)
        if SATCHEL not in row:
            return entry
        found = self._whole(row, entry)
        if found is None:
            self.unbelieved += 1
            return entry
        return found

    def _without_vector(self, row: Row) -> Row:
        """Return a line without the bank's own vector, which is no part of the memory."""
        ours = row[SATCHEL]
        if type(ours) is not dict or type(ours.get(_VECTOR_OF)) is not str:
            return row
        self.vector = ours[_VECTOR_OF], signed(row.get(EMBEDDING), ours.get(_MINUS_ZEROS))
        rest = {name: part for name, part in ours.items() if name not in _OF_VECTORS}
        line = {name: part for name, part in row.items() if name not in (EMBEDDING, SATCHEL)}
        return {**line, SATCHEL: rest} if rest else line

    def _whole(self, row: Row, entry: Entry) -> Entry | None:
        """Return what the line and its ``_satchel`` say together; None if they contradict."""
        ours = row[SATCHEL]
        try:
            ours = restore(ours)
            nonce, kept = ours.get(_NONCE), ours[_ENTRY]
            value = reproduce(plain(entry), kept)
            whole = as_model(value)
            fits = _is_entry(value) and isinstance(whole, Entry) and self._fits(whole, row)
        except (InputError, KeyError, AttributeError, TypeError, ValueError):
            return None
        if fits and nonce is None:
            return whole  # type: ignore[return-value]
        if not fits or not _is_nonce(nonce):
            return None
        # A second entry with the nonce of the first could have its id; it gets another one.
        mark = int(nonce[:15], 16)
        fresh = mark not in self._nonces
        self._nonces.add(mark)
        return as_model({**value, _NONCE: nonce}) if fresh else whole  # type: ignore[return-value]

    def _fits(self, entry: Entry, row: Row) -> bool:
        """Tell whether a line is what is written of an entry."""
        if self._own and EMBEDDING not in row:
            entry = without_embedding(entry)  # its place was for one of the bank's own
        again = carry(holdable(restore(row_of(entry, row["id"], self._bank))))
        return not differences({k: v for k, v in row.items() if k != SATCHEL}, again)


def _is_entry(value: Row) -> bool:
    return value.keys() <= known_members(value["type"]) - _OF_THE_SEAL


def _is_nonce(nonce: Any) -> bool:
    return type(nonce) is str and len(nonce) == _DIGITS and is_hex(nonce)
