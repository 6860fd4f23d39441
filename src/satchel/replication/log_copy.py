"""Copy a whole log to another store in many commits, from each of which a later run can resume.

Until everything is copied and compared, the bank has no head in the target store: its rows are
under an empty head, so that nothing takes a part for the whole (``ports.store``,
``Reader.begun``). That head holds the peaks of the tree so far, and an unlogged journal names the
head that is being copied. The real head comes last, in the commit that removes the journal.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain

import msgspec
from blake3 import blake3

from satchel.crypto.log import Frontier, VerifiedTree, append_leaves, leaf_position, record_leaf
from satchel.crypto.sealed_records import Sealed
from satchel.errors import StoreBusyError, VerificationError
from satchel.ledger.erasure import BLOB, UNFINISHED, blob_digests_in
from satchel.ledger.heads import node_fetcher
from satchel.model.records import Model
from satchel.model.values import resolved
from satchel.ports.rows import Filter, Row
from satchel.ports.store import Commit, Reader, Store, StoredHead, Writer, verified_pieces
from satchel.ports.vectors import Generation
from satchel.replication.copies import Replica, own_row, read_log_from

_ALL = Filter(retired=True, held=True)
_TOGETHER = 256
_NUMBERS_IN_COMMIT = 1 << 20
"""Maximum number of vector components in one commit: 8 MiB."""


@dataclass(slots=True)
class SideDataCounts:
    """Counts of unlogged data that was copied."""

    vectors: int = 0
    vectors_now: int = 0
    vectors_other: int = 0
    """Number of vectors that the target has in the same generations with other components."""

    blobs: int = 0
    blobs_now: int = 0


def side_of(reader: Reader, bank: str) -> dict[str, bytes]:
    """Return the unlogged values of a bank that are copied with it.

    Values about the store are not: which erased bytes its files may still hold.
    """
    values = reader.side(bank)
    return {name: value for name, value in values.items() if not name.startswith(UNFINISHED)}


def copy_side_data(source: Reader, bank: str, store: Store, counts: SideDataCounts) -> None:
    """Copy the vectors and blobs that a copy of a bank lacks. Idempotent.

    Existing ones are not changed.

    Args:
        source: A view of the source store.
        bank: The bank, whose rows the target has.
        store: The target store.
        counts: Receives the counts.

    Raises:
        VerificationError: If a blob does not match its digest.
    """
    for generation in source.vectors.generations(bank):
        _copy_vectors_of(source, bank, store, generation, counts)
    for digest, _ in blobs_of(source, bank):
        counts.blobs += 1
        with store.reading() as reader:
            exists = reader.blobs.has(bank, digest)
        if not exists:
            counts.blobs_now += 1
            with store.writing() as writing:
                writing.blobs.put(bank, verified_pieces(source.blobs.get(bank, digest), digest))


def verify_side_data(source: Reader, bank: str, reader: Reader) -> None:
    """Read unlogged data back from the target, and compare it.

    Raises:
        VerificationError: If a vector is missing or differs, or a blob does not match its digest.
    """
    for generation in source.vectors.generations(bank):
        for ids in _ids(source, bank):
            expected = source.vectors.get(bank, generation, ids)
            if reader.vectors.get(bank, generation, ids) != expected:
                raise VerificationError("vectors are missing or differ in the copy")
    for digest, _ in blobs_of(source, bank):
        if not reader.blobs.has(bank, digest):
            raise VerificationError(f"the blob {digest} is missing in the copy")
        for _ in verified_pieces(reader.blobs.get(bank, digest), digest):
            pass


def _copy_vectors_of(
    source: Reader, bank: str, store: Store, generation: Generation, counts: SideDataCounts
) -> None:
    missing = dict[str, tuple[float, ...]]()
    for ids in _ids(source, bank):
        own = source.vectors.get(bank, generation, ids)
        if not own:
            continue
        with store.reading() as reader:
            existing = reader.vectors.get(bank, generation, list(own))
        counts.vectors += len(own)
        counts.vectors_other += sum(
            own[identity] != vector for identity, vector in existing.items()
        )
        missing |= {
            identity: vector for identity, vector in own.items() if identity not in existing
        }
        if len(missing) * generation.dimensions > _NUMBERS_IN_COMMIT:
            _store_vectors(store, bank, generation, missing, counts)
    _store_vectors(store, bank, generation, missing, counts)


def _store_vectors(
    store: Store,
    bank: str,
    generation: Generation,
    vectors: dict[str, tuple[float, ...]],
    counts: SideDataCounts,
) -> None:
    if vectors:
        with store.writing() as writing:
            writing.vectors.put(bank, generation, vectors)
        counts.vectors_now += len(vectors)
        vectors.clear()


def _ids(reader: Reader, bank: str) -> Iterator[Sequence[str]]:
    """Yield the IDs of a bank's records in log order, in batches."""
    ids = list[str]()
    for row in reader.scan(bank, _ALL):
        ids.append(row.id)
        if len(ids) == _TOGETHER:
            yield ids
            ids = []
    if ids:
        yield ids


def blobs_of(reader: Reader, bank: str) -> list[tuple[str, int]]:
    """Return the digests and sizes of a bank's blobs, without those that an erasure will drop."""
    erased = {name.removeprefix(BLOB) for name in reader.side(bank, BLOB)}
    for row in reader.scan(bank, _ALL) if erased else ():
        erased -= blob_digests_in(row.body or b"")
    return [blob for blob in reader.blobs.listed(bank) if blob[0] not in erased]


JOURNAL = "copying"
"""Name of the unlogged value that exists while a bank is being copied here."""

ROWS_IN_COMMIT = 4096
"""Maximum number of records in one commit, if they are not large."""

BYTES_IN_COMMIT = 8 << 20

_HASH = 32

Tell = Callable[[int], None]
"""Called with the number of further records copied or compared."""


class CopyJournal(msgspec.Struct, frozen=True, kw_only=True):
    """Journal of an unfinished copy."""

    head: str
    """Hash of the signed head that is copied; for another head, the copy starts over."""

    done: int
    """Number of records copied so far."""


@dataclass(frozen=True, slots=True)
class LogCopyResult:
    """Counts of copying a log."""

    records: int
    """Number of records copied now."""

    earlier: int
    """Number of records that an earlier run copied."""

    restarted: bool
    """Whether an earlier run copied another head; its records were removed."""


@dataclass(frozen=True, slots=True)
class _Start:
    frontier: Frontier
    left: StoredHead | None
    """The head that an earlier run left; None for none."""


def copy_log(source: Replica, store: Store, tell: Tell) -> LogCopyResult:
    """Copy the rows of a log to a store that has none of them, or some from an earlier run.

    Args:
        source: The source copy.
        store: The target store. The bank still has no head there afterwards; see ``store_head``.
        tell: Called with the progress.

    Raises:
        StoreBusyError: If another process writes the bank there concurrently.
        VerificationError: If a record is not what was logged, or rows of an earlier run have
            changed.
        StoreError: If it cannot be written; what was committed stays for a later run.
    """
    bank, restarted = source.bank, False
    with store.writing() as writing:
        journal = _journal(writing, bank)
        if journal is not None and journal.head != _head_hash(source):
            writing.remove(bank)
            restarted, journal = True, None
        start = _Start(Frontier(), writing.head(bank))
        if journal is not None:
            start = _resume_point(source, start.left, journal)
        elif start.left is not None:
            raise _concurrent_copy(bank, store.name)
    frontier, left, earlier = start.frontier, start.left, start.frontier.size
    tell(earlier)
    for part in _commits(read_log_from(source, earlier)):
        rows = [own_row(row, logged, source.trusted.fold, source.size) for row, logged in part]
        leaves = [record_leaf(bank, row.seq, row.type, row.id, row.at) for row in rows]
        nodes = append_leaves(frontier, leaves)
        head = StoredHead(b"", b"".join(frontier.peaks))
        entry = msgspec.json.encode(CopyJournal(head=_head_hash(source), done=frontier.size))
        with store.writing() as writing:
            _require_unchanged(writing, bank, left, store.name)
            writing.append(bank, Commit(rows=rows, nodes=nodes, head=head, side={JOURNAL: entry}))
        left = head
        tell(len(rows))
    return LogCopyResult(frontier.size - earlier, earlier, restarted)


def store_head(source: Replica, store: Store) -> int:
    """Complete a copy: this commit stores the signed head.

    Args:
        source: The source copy.
        store: The target store, whose rows have been compared.

    Returns:
        Number of unlogged values that were copied.
    """
    bank, values = source.bank, side_of(source.reader, source.bank)
    left = StoredHead(b"", source.trusted.stored.peaks)
    with store.writing() as writing:
        _require_unchanged(writing, bank, left, store.name)
        side: dict[str, bytes | None] = {**values, JOURNAL: None}
        writing.append(bank, Commit(rows=(), nodes=(), head=source.trusted.stored, side=side))
    return len(values)


def compare(source: Replica, reader: Reader, tell: Tell) -> dict[str, int]:
    """Verify every row of the target against the signed head; return counts by type.

    Bytes, positions, times, IDs, derived columns, the state of each record and the nodes of the
    tree are verified. The source is not read again: its signed head is enough.

    Args:
        source: The source copy.
        reader: A view of the target store, in which the bank may have no head yet.
        tell: Called with the progress.

    Raises:
        VerificationError: Naming the first position that differs.
    """
    bank, fold, counts = source.bank, source.trusted.fold, dict[str, int]()
    tree = VerifiedTree(source.trusted.frontier, node_fetcher(reader, bank))
    frontier = Frontier()
    for records in read_log_from(Replica(reader, source.trusted, tree), 0):
        rows = [row for row, _ in records]
        for row, logged in records:
            if row.columns() != own_row(row, logged, fold, source.size).columns():
                raise _differs(f"record {row.seq} has different columns there")
            counts[row.type] = counts.get(row.type, 0) + 1
        leaves = [record_leaf(bank, row.seq, row.type, row.id, row.at) for row in rows]
        first = leaf_position(rows[0].seq)
        expected = dict(enumerate(append_leaves(frontier, leaves), first))
        if reader.nodes(bank, list(expected)) != expected:
            raise _differs(f"the tree differs there at record {rows[0].seq} or soon after")
        tell(len(rows))
    if counts != source.trusted.head.counts or reader.counts(bank) != counts:
        raise _differs("the record counts differ there")
    return dict(sorted(counts.items()))


def copied_records(reader: Reader, bank: str) -> int | None:
    """Return the number of records copied so far; None if no copy is in progress."""
    stored = reader.head(bank)
    if stored is None or stored.signed:
        return None
    journal = _journal(reader, bank)
    return journal.done if journal is not None else 0


def _head_hash(source: Replica) -> str:
    return blake3(source.trusted.stored.signed).hexdigest()


def _journal(reader: Reader, bank: str) -> CopyJournal | None:
    """Return the journal of an earlier run, if the bank has no head yet.

    Raises:
        VerificationError: If it cannot be read.
    """
    stored = reader.head(bank)
    if stored is None or stored.signed:
        return None
    try:
        return msgspec.json.decode(
            reader.side(bank, JOURNAL).get(JOURNAL, b""), type=resolved(CopyJournal)
        )
    except msgspec.DecodeError:
        raise _altered(bank) from None


def _resume_point(source: Replica, left: StoredHead | None, journal: CopyJournal) -> _Start:
    """Return where an earlier run stopped, verified against the source's tree.

    Raises:
        VerificationError: If they differ.
    """
    peaks = left.peaks if left is not None else b""
    try:
        frontier = Frontier(
            journal.done, [peaks[at : at + _HASH] for at in range(0, len(peaks), _HASH)]
        )
    except ValueError:
        raise _altered(source.bank) from None
    if not 0 < journal.done <= source.size or frontier.root != source.tree.root_at(journal.done):
        raise _altered(source.bank)
    return _Start(frontier, left)


def _commits(
    records: Iterator[list[tuple[Row, tuple[Sealed, Model] | None]]],
) -> Iterator[list[tuple[Row, tuple[Sealed, Model] | None]]]:
    """Yield records in batches of one commit."""
    batch, size = list[tuple[Row, tuple[Sealed, Model] | None]](), 0
    for record in chain.from_iterable(records):
        batch.append(record)
        size += len(record[0].body or b"")
        if len(batch) == ROWS_IN_COMMIT or size > BYTES_IN_COMMIT:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _require_unchanged(writing: Writer, bank: str, left: StoredHead | None, name: str) -> None:
    if writing.head(bank) != left:
        raise _concurrent_copy(bank, name)


def _concurrent_copy(bank: str, name: str) -> StoreBusyError:
    return StoreBusyError(
        f"another process is writing the bank {bank} there",
        file=name,
        hint="Only one copy at a time; run again when the other has finished.",
    )


def _altered(bank: str) -> VerificationError:
    return VerificationError(
        f"the partial copy of the bank {bank} from an earlier run was changed",
        hint=f"Remove it and start again: satchel bank delete {bank}",
    )


def _differs(message: str) -> VerificationError:
    return VerificationError(message, hint="The copy is not used. Remove it, and copy again.")


Progress = Callable[[int, int], None]
"""Called with the number of records done and the total."""


@dataclass(slots=True)
class ReplicaCheck:
    """Result of reading a copy back."""

    records: dict[str, int] = field(default_factory=dict)
    """Number of records of each type."""

    vectors: int = 0


def verify_copy(source: Replica, target: Replica, progress: Progress | None = None) -> ReplicaCheck:
    """Read and verify all records of a copy, and compare it with another.

    Raises:
        VerificationError: If it is not the same log, or a record of it is missing or not what was
            logged.
    """
    if target.trusted.stored != source.trusted.stored:
        raise VerificationError("the heads of the two copies differ")
    counts = Counter[str]()
    for records in read_log_from(target, 0):
        counts.update(row.type for row, _ in records)
        if progress is not None:
            progress(counts.total(), target.size)
    if counts != source.trusted.head.counts:
        raise VerificationError("the record counts of the copy differ from the signed ones")
    return ReplicaCheck(records=dict(sorted(counts.items())))


def copy_vectors(source: Reader, store: Store, bank: str, ids: list[str]) -> int:
    """Copy the vectors of records, with their generations.

    Args:
        source: A view of the source store.
        store: The target store; existing vectors are replaced.
        bank: The bank, which is in both.
        ids: IDs of the records, in batches.
    """
    number = 0
    for generation in source.vectors.generations(bank):
        vectors = source.vectors.get(bank, generation, ids)
        if vectors:
            with store.writing() as writing:
                writing.vectors.put(bank, generation, vectors)
            number += len(vectors)
    return number


def lacks_vectors(source: Reader, target: Reader, bank: str) -> bool:
    """Return whether one copy has vectors that the other lacks."""
    existing = target.vectors.generations(bank)
    own = source.vectors.generations(bank)
    return any(existing.get(generation, 0) < number for generation, number in own.items())
