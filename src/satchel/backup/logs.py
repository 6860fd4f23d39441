"""A log in packs: stretches of it, cut so that what was backed up before is not again.

A row is kept as what its leaf is made of and its bytes; everything else follows from these and
from the rest of the log. Where the log only grew, the stretches of the last backup stand as they
are. Those of which a record was erased or redacted since are made again without its bytes; many
short ones are put into one.
"""

import sys
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Literal

import msgspec

from satchel.backup.manifests import BankIndex, LogSegment, SegmentVectors
from satchel.backup.packs import PIECE_BYTES, Packs, Ref
from satchel.crypto.canonical import DEFAULT_LIMITS
from satchel.crypto.sealed_records import PREFIX
from satchel.errors import VerificationError
from satchel.ledger.heads import require_logged
from satchel.model.records import Erasure, Redaction
from satchel.model.values import resolved
from satchel.ports.rows import Filter, Row
from satchel.ports.store import Reader
from satchel.replication.copies import Replica, redacted_in

ROWS = 4096
"""Records in a stretch, at most."""

SHORT = 16
"""How many stretches that are not full may stand at the end, until they are put into one."""

_ALL = Filter(retired=True, held=True)
_TAKING_AWAY = Filter(types=frozenset({"erasure", "redaction"}), retired=True, held=True)
_TOGETHER = 256
_ID_BYTES = 80


class PackedRow(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A row as it is kept."""

    seq: int
    id: str
    type: str
    at: str
    body: bytes | None

    def row(self) -> Row:
        """Return it without what follows from the rest."""
        return Row(seq=self.seq, id=self.id, type=self.type, at=self.at, body=self.body)


@dataclass(frozen=True, slots=True)
class PreviousBackup:
    """What the last backup has of a bank."""

    size: int
    root: str
    index: BankIndex


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(resolved(list[PackedRow])).decode
_decode_vectors = msgspec.msgpack.Decoder(
    resolved(tuple[list[str], Literal["f", "d"], bytes])
).decode


def put_log(source: Replica, before: PreviousBackup | None, packs: Packs) -> list[LogSegment]:
    """Keep a log, and the vectors of its records.

    Args:
        source: The bank, in one view of its store.
        before: What is kept already.
        packs: Where to.

    Raises:
        TargetError: If it cannot be written.
    """
    found, place = list[LogSegment](), 0
    for segment, stands in _standing(source, before):
        place = segment.first + segment.count
        if stands:
            found.append(_with_vectors(source, segment, packs))
        else:
            found += _cut(source, segment.first, place, packs)
    return [*found, *_cut(source, place, source.size, packs)]


def rows_in(segment: LogSegment, packs: Packs) -> list[PackedRow]:
    """Return the rows of a stretch, which are those that it says.

    Raises:
        VerificationError: If they are not.
    """
    try:
        rows = _decode(packs.get(segment.log))
    except msgspec.DecodeError as error:
        raise VerificationError(f"part of the log cannot be read: {error}") from None
    if [row.seq for row in rows] != list(range(segment.first, segment.first + segment.count)):
        raise VerificationError(f"records after {segment.first} of the log are out of order")
    for row in rows:
        if len(row.body or b"") > DEFAULT_LIMITS.entry_bytes:
            raise VerificationError(f"record {row.seq} exceeds the size limit")
    return rows


def vectors_in(held: SegmentVectors, packs: Packs) -> Iterator[dict[str, tuple[float, ...]]]:
    """Yield the vectors of a stretch, some at a time.

    Raises:
        VerificationError: If they are not what is said of them.
    """
    number = 0
    for ref in held.packs:
        found = _unpacked(packs.get(ref), held.dimensions)
        number += len(found)
        yield found
    if number != held.count:
        raise VerificationError("the number of vectors differs from the manifest")


def _standing(source: Replica, before: PreviousBackup | None) -> Iterator[tuple[LogSegment, bool]]:
    """Yield the stretches of the last backup, and whether they still hold what the log has."""
    if before is None or before.size > source.size:
        return
    if PREFIX + source.tree.root_at(before.size).hex() != before.root:
        return  # put back from elsewhere
    segments = before.index.segments
    short = _short(segments)
    if short >= SHORT:
        segments = segments[:-short]
    touched = _erased_since(source, before.size)
    for one in segments:
        places = range(one.first, one.first + one.count)
        yield one, not any(place in places for place in touched)


def _short(segments: Sequence[LogSegment]) -> int:
    """Return how many stretches at the end are not full."""
    number = 0
    for segment in reversed(segments):
        if segment.count >= ROWS or segment.log.bytes >= PIECE_BYTES:
            break
        number += 1
    return number


def _erased_since(source: Replica, size: int) -> set[int]:
    """Return the places of what was erased or redacted by records from a place on."""
    reader, bank, places = source.reader, source.bank, set[int]()
    rows = reader.scan(bank, _TAKING_AWAY, after=size - 1)
    while some := list(islice(rows, _TOGETHER)):
        logged = [one[1] for one in require_logged(source.tree, bank, some) if one is not None]
        names = [model.entry for model in logged if isinstance(model, Erasure | Redaction)]
        places.update(row.seq for row in reader.get(bank, names))
    return places


def _cut(source: Replica, first: int, end: int, packs: Packs) -> Iterator[LogSegment]:
    """Keep the records from a place on, and yield the stretches that they became."""
    held, size = list[Row](), 0
    rows = islice(source.reader.scan(source.bank, _ALL, after=first - 1), end - first)
    for row in rows:
        held.append(row)
        size += len(row.body or b"") + len(row.id)
        if len(held) == ROWS or size >= PIECE_BYTES:
            yield _kept(source, held, packs)
            held, size = [], 0
    if held:
        yield _kept(source, held, packs)


def _kept(source: Replica, rows: list[Row], packs: Packs) -> LogSegment:
    """Keep some records, each of which is the one that was logged.

    Raises:
        VerificationError: If one is not, or is empty and was not erased.
    """
    logged = require_logged(source.tree, source.bank, rows, redacted_in(source))
    for row, one in zip(rows, logged, strict=True):
        if one is None and not source.found.fold.is_erased(row.id, source.size):
            raise VerificationError(f"record {row.seq} is empty, but no erasure is logged")
    log = packs.put(
        _encode([PackedRow(row.seq, row.id, row.type, row.at, row.body) for row in rows])
    )
    segment = LogSegment(first=rows[0].seq, count=len(rows), log=log)
    return _vectored(source.reader, source.bank, segment, [row.id for row in rows], packs)


def _with_vectors(source: Replica, segment: LogSegment, packs: Packs) -> LogSegment:
    """Return a stretch that stands with the vectors that its records have now."""
    if not source.reader.vectors.generations(source.bank):
        return msgspec.structs.replace(segment, vectors=[])
    rows = source.reader.scan(source.bank, _ALL, after=segment.first - 1)
    ids = [row.id for row in islice(rows, segment.count)]
    return _vectored(source.reader, source.bank, segment, ids, packs)


def _vectored(
    reader: Reader, bank: str, segment: LogSegment, ids: list[str], packs: Packs
) -> LogSegment:
    held = list[SegmentVectors]()
    for generation in sorted(reader.vectors.generations(bank), key=repr):
        some = max(1, PIECE_BYTES // (8 * generation.dimensions + _ID_BYTES))
        refs, count = list[Ref](), 0
        for start in range(0, len(ids), some):
            part = ids[start : start + some]
            found = reader.vectors.get(bank, generation, part)
            if found:
                refs.append(packs.put(_packed({one: found[one] for one in part if one in found})))
                count += len(found)
        if refs:
            held.append(
                SegmentVectors(
                    model=generation.model,
                    dimensions=generation.dimensions,
                    number=generation.number,
                    count=count,
                    packs=refs,
                )
            )
    return msgspec.structs.replace(segment, vectors=held)


def _packed(vectors: Mapping[str, Sequence[float]]) -> bytes:
    """Return vectors in half the bytes where that loses nothing, as a rule."""
    numbers = array("d")
    for vector in vectors.values():
        numbers.extend(vector)
    halved = array("f", numbers)
    kind, kept = ("f", halved) if array("d", halved) == numbers else ("d", numbers)
    if sys.byteorder == "big":
        kept.byteswap()
    return _encode((list(vectors), kind, kept.tobytes()))


def _unpacked(data: bytes, dimensions: int) -> dict[str, tuple[float, ...]]:
    try:
        ids, kind, raw = _decode_vectors(data)
        numbers = array(kind)
        numbers.frombytes(raw)
    except (msgspec.DecodeError, ValueError) as error:
        raise VerificationError(f"vectors of the backup cannot be read: {error}") from None
    if sys.byteorder == "big":
        numbers.byteswap()
    if len(numbers) != dimensions * len(ids):
        raise VerificationError("vectors of the backup are truncated")
    starts = range(0, len(numbers), dimensions)
    return {one: tuple(numbers[at : at + dimensions]) for one, at in zip(ids, starts, strict=True)}
