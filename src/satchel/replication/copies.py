"""Two copies of one bank: their relation, and copying a log and its side data between them.

The trees show that one log is a prefix of the other. The rest is then copied unchanged, with
positions, times and head, in one transaction; each record is verified before it is stored. Diverged
logs are not copied; see ``merge``. Source: docs/spec/5-log.md.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import chain

import msgspec
from blake3 import blake3

from satchel.crypto.canonical import DEFAULT_LIMITS, MIB
from satchel.crypto.log import Frontier, VerifiedTree, append_leaves, leaf_position, record_leaf
from satchel.crypto.sealed_records import Sealed
from satchel.errors import StoreBusyError, UnknownBankError, VerificationError
from satchel.ledger.heads import (
    OWN,
    RedactionLookup,
    TrustedHead,
    load_trusted_head,
    node_fetcher,
    require_leaves,
    require_logged,
)
from satchel.ledger.projection import FOLDED, Effect, Fold, LogFact
from satchel.ledger.transaction import BLOB, UNFINISHED, blob_digests_in, cleanup_values
from satchel.model.records import Erasure, FileVersion, Model, Redaction
from satchel.model.values import ID_PREFIX, resolved
from satchel.ports.rows import ALL_RECORDS, Filter, Row, derive_row
from satchel.ports.store import (
    ColumnChange,
    Commit,
    Reader,
    Store,
    StoredHead,
    Writer,
    verified_pieces,
)
from satchel.ports.vectors import Generation

TOGETHER = 256
"""Maximum number of records of a log in memory, if they are not large."""

_BYTES_TOGETHER = 4 * MIB

Progress = Callable[[int, int], None]
"""Called with the number of records done and the total."""

_FACTS = Filter(types=FOLDED, retired=True, held=True)


class Relation(StrEnum):
    """Relation of the source copy to the target copy."""

    SAME = "same"
    AHEAD = "ahead"
    """The source continues the log of the target."""

    BEHIND = "behind"
    """The target continues the log of the source."""

    DIVERGED = "diverged"
    """The logs diverged."""

    NEW = "new"
    """There is no target copy yet."""


@dataclass(frozen=True, slots=True)
class Replica:
    """One copy of a bank in a view of its store, with a verified head."""

    reader: Reader
    trusted: TrustedHead
    tree: VerifiedTree

    @property
    def bank(self) -> str:
        """ID of the bank."""
        return self.trusted.head.bank

    @property
    def size(self) -> int:
        """Number of records in its log."""
        return self.trusted.head.size


@dataclass(frozen=True, slots=True)
class ReplicaComparison:
    """Relation of two copies."""

    relation: Relation
    common: int
    """Number of records in the common prefix of both logs."""


@dataclass(slots=True)
class FastForwardResult:
    """Result of copying the rest of a log."""

    records: int = 0
    erased: int = 0
    """Number of records that were erased, as the copied log says."""

    blobs: int = 0
    blobs_missing: int = 0
    """Number of blobs that a record names and the source lacks."""

    named: set[str] = field(default_factory=set)
    """Digests of the blobs that the records name."""


def load_replica(reader: Reader, bank: str) -> Replica | None:
    """Return the copy of a bank in a view, with its head verified on its own.

    The caller compares it with what this machine has seen before.

    Raises:
        VerificationError: If the head is invalid.
    """
    stored = reader.head(bank)
    if stored is None:
        return None
    head = load_trusted_head(reader, bank, stored, lambda *_: OWN)
    return Replica(reader, head, VerifiedTree(head.frontier, node_fetcher(reader, bank)))


def require_replica(reader: Reader, bank: str) -> Replica:
    """Return the copy of a bank, as ``load_replica``.

    Raises:
        UnknownBankError: If the view has no such bank.
        VerificationError: If the head is invalid.
    """
    replica = load_replica(reader, bank)
    if replica is None:
        raise UnknownBankError(f"there is no bank {bank}")
    return replica


def compare_replicas(source: Replica, target: Replica | None) -> ReplicaComparison:
    """Return the relation of the source copy to the target copy.

    Raises:
        VerificationError: If they have nothing in common, or a tree is inconsistent.
    """
    if target is None:
        return ReplicaComparison(Relation.NEW, 0)
    common = _common(source, target)
    if not common:
        raise VerificationError(
            "the copies differ from the first record on",
            hint="One of them was changed by another program.",
        )
    if common == source.size == target.size:
        relation = Relation.SAME
    elif common == target.size:
        relation = Relation.AHEAD
    elif common == source.size:
        relation = Relation.BEHIND
    else:
        relation = Relation.DIVERGED
    return ReplicaComparison(relation, common)


def _common(source: Replica, target: Replica) -> int:
    """Return the length of the common prefix of both logs, by binary search over the roots."""
    low, high = 0, min(source.size, target.size)
    while low < high:
        middle = (low + high + 1) // 2
        if source.tree.root_at(middle) == target.tree.root_at(middle):
            low = middle
        else:
            high = middle - 1
    return low


def read_log_from(
    copy: Replica, start: int
) -> Iterator[list[tuple[Row, tuple[Sealed, Model] | None]]]:
    """Yield the verified records of a log from a position on, in batches; None for erased ones.

    Raises:
        VerificationError: If one is missing, or not what was logged.
    """
    fold, size, position = copy.trusted.fold, copy.size, start
    for rows in _batches(copy.reader.scan(copy.bank, ALL_RECORDS, after=start - 1)):
        positions = range(position, position + len(rows))
        if [row.seq for row in rows] != list(positions):
            raise VerificationError(f"records between {position} and {positions.stop} are missing")
        logged = require_logged(copy.tree, copy.bank, rows, redacted_in(copy))
        for row, record in zip(rows, logged, strict=True):
            if record is None and not fold.is_erased(row.id, size):
                raise VerificationError(f"record {row.seq} is empty, but no erasure is logged")
        yield list(zip(rows, logged, strict=True))
        position = positions.stop
    if position != size:
        raise VerificationError(f"records after {position} are missing")


def _batches(rows: Iterator[Row]) -> Iterator[list[Row]]:
    """Yield rows in batches, with bounded memory even if the store is malicious.

    Raises:
        VerificationError: If one exceeds the size limit of records.
    """
    batch, size = list[Row](), 0
    for row in rows:
        length = len(row.body or b"")
        if length > DEFAULT_LIMITS.entry_bytes:
            raise VerificationError(f"record {row.seq} has {length} bytes, which exceeds the limit")
        batch.append(row)
        size += length
        if len(batch) == TOGETHER or size > _BYTES_TOGETHER:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def fast_forward(
    source: Replica, writing: Writer, target: Replica | None, progress: Progress | None = None
) -> FastForwardResult:
    """Copy the rest of a log to a copy that is behind; nothing is signed again.

    Args:
        source: The copy that is ahead.
        writing: The transaction to write in. It must not be committed if this raises.
        target: The copy there; None for none.
        progress: Called with the progress.

    Raises:
        VerificationError: If a record is not what was logged, or the log not what was signed.
    """
    result, head, bank = FastForwardResult(), source.trusted.head, source.bank
    start = target.size if target is not None else 0
    before = target.trusted if target is not None else None
    fold = before.fold if before is not None else Fold()
    facts = _facts(source, start)
    effect = fold.take(facts, head.size)
    if target is not None:
        _update_columns(writing, target, effect, fold, head.size)
    counts = Counter(before.head.counts if before is not None else {})
    frontier = Frontier(before.frontier.size, before.frontier.peaks) if before else Frontier()
    for records in read_log_from(source, start):
        rows = [own_row(row, logged, fold, head.size) for row, logged in records]
        leaves = [record_leaf(bank, row.seq, row.type, row.id, row.at) for row in rows]
        nodes = append_leaves(frontier, leaves)
        counts.update(row.type for row in rows)
        writing.append(bank, Commit(rows=rows, nodes=nodes, head=source.trusted.stored))
        result.records += len(rows)
        result.named.update(blobs_named(records))
        if progress is not None:
            progress(result.records, head.size - start)
    changes = sum(
        counts[name] - (before.head.counts.get(name, 0) if before else 0) for name in FOLDED
    )
    if (
        ID_PREFIX + frontier.root.hex() != head.root
        or counts != head.counts
        or changes != len(facts)
    ):
        raise VerificationError("the received log does not match the signed head")
    result.erased = empty_erased(writing, bank, facts) + apply_redactions(
        source, writing, facts, start
    )
    copy_blobs(source, writing, result)
    return result


def _facts(source: Replica, start: int) -> list[LogFact]:
    """Return the facts that the log states about its own records, from a position on."""
    facts, rows = list[LogFact](), source.reader.scan(source.bank, _FACTS, after=start - 1)
    for batch in _batches(rows):
        for row, logged in zip(batch, require_logged(source.tree, source.bank, batch), strict=True):
            if logged is None:
                raise VerificationError(f"record {row.seq} is empty, but its type is never erased")
            facts.append(LogFact(row.seq, row.id, logged[1]))
    return facts


def own_row(row: Row, logged: tuple[Sealed, Model] | None, fold: Fold, size: int) -> Row:
    """Return a row with the columns derived from its bytes and the log."""
    batch = fold.batch_number(row.seq)
    if logged is None or fold.is_erased(row.id, size):
        own = erased_row(row, batch)
    else:
        record, model = logged
        own = derive_row(model, seq=row.seq, at=row.at, body=record.body, batch=batch)
    return own.changed(fold.standing(row.id, row.seq, size))


def erased_row(row: Row, batch: int) -> Row:
    """Return the row of an erased record: only what its leaf contains."""
    return Row(seq=row.seq, id=row.id, type=row.type, at=row.at, body=None, batch=batch)


def _update_columns(
    writing: Writer, target: Replica, effect: Effect, fold: Fold, size: int
) -> None:
    """Update the columns of existing records that the rest of the log changes.

    Retired ones first, then those that are current again: a slot may have a new holder.
    """
    for retiring in (True, False):
        for rows in _touched(writing, target, effect):
            changes = []
            for row in rows:
                then = fold.standing(row.id, row.seq, size)
                gives_way = then.retired is not None and then.retired >= 0
                if gives_way is retiring and (row.retired, row.hold) != then:
                    changes.append(ColumnChange(row.seq, *then))
            if changes:
                stored = target.trusted.stored
                writing.append(target.bank, Commit(rows=(), nodes=(), head=stored, changes=changes))


def _touched(reader: Reader, target: Replica, effect: Effect) -> Iterator[list[Row]]:
    """Yield the rows of a copy whose state may have changed, in batches."""
    for start in range(0, len(effect.targets), TOGETHER):
        rows = reader.get(target.bank, effect.targets[start : start + TOGETHER])
        yield _verified(target, rows)
    for sweep in effect.sweeps:
        for first in range(sweep.first, min(sweep.last + 1, target.size), TOGETHER):
            positions = range(first, min(first + TOGETHER, sweep.last + 1, target.size))
            yield _verified(target, reader.at(target.bank, positions))


def _verified(target: Replica, rows: Sequence[Row]) -> list[Row]:
    existing = [row for row in rows if row.seq < target.size]
    require_leaves(target.tree, target.bank, existing)
    return existing


def empty_erased(writing: Writer, bank: str, facts: Sequence[LogFact]) -> int:
    """Empty the records that a log says are erased; return how many were not empty yet.

    The store still holds their bytes until the erasure is finished.
    """
    erased = [fact.model.entry for fact in facts if isinstance(fact.model, Erasure)]
    stored, emptied = writing.head(bank), 0
    assert stored is not None  # noqa: S101 - the log is there
    for start in range(0, len(erased), TOGETHER):
        rows = writing.get(bank, erased[start : start + TOGETHER])
        full = [row for row in rows if row.body is not None]
        if full:
            positions, side = [row.seq for row in full], cleanup_values(writing, bank, full)
            commit = Commit(rows=(), nodes=(), head=stored, erased=positions, side=side)
            writing.append(bank, commit)
            emptied += len(full)
    return emptied


def redacted_in(copy: Replica) -> RedactionLookup:
    """Return a function that returns in which form a copy holds a record."""
    fold, size = copy.trusted.fold, copy.size
    return lambda row: fold.redacted(row.id, size)


def apply_redactions(source: Replica, writing: Writer, facts: Sequence[LogFact], end: int) -> int:
    """Replace entries that were copied complete with their redacted forms; return how many.

    Args:
        source: The copy that has the forms.
        writing: The transaction with the entries.
        facts: Facts of the log, including redactions.
        end: Position from which entries were copied in their current form.
    """
    ids = list({fact.model.entry: 0 for fact in facts if isinstance(fact.model, Redaction)})
    stored, done, fold = writing.head(source.bank), 0, source.trusted.fold
    assert stored is not None  # noqa: S101 - the log is there
    for start in range(0, len(ids), TOGETHER):
        rows = source.reader.get(source.bank, ids[start : start + TOGETHER])
        logged = require_logged(source.tree, source.bank, rows, redacted_in(source))
        forms = [
            own_row(row, record, fold, source.size)
            for row, record in zip(rows, logged, strict=True)
            if record is not None and row.seq < end
        ]
        if forms:
            commit = Commit(
                rows=(),
                nodes=(),
                head=stored,
                erased=[row.seq for row in forms],
                replaced=forms,
                side=cleanup_values(writing, source.bank, forms),
            )
            writing.append(source.bank, commit)
            done += len(forms)
    return done


def blobs_named(records: Sequence[tuple[Row, tuple[Sealed, Model] | None]]) -> Iterator[str]:
    """Yield the digests of the blobs that records name."""
    for _, logged in records:
        if logged is not None and isinstance(logged[1], FileVersion) and logged[1].blob:
            yield logged[1].blob


def copy_blobs(source: Replica, writing: Writer, result: FastForwardResult) -> None:
    """Copy the named blobs, each verified by its digest; other blobs are ignored.

    Raises:
        VerificationError: If one does not match its digest.
    """
    for digest in sorted(result.named):
        if writing.blobs.has(source.bank, digest):
            continue
        if not source.reader.blobs.has(source.bank, digest):
            result.blobs_missing += 1
            continue
        pieces = verified_pieces(source.reader.blobs.get(source.bank, digest), digest)
        writing.blobs.put(source.bank, pieces)
        result.blobs += 1


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
    for row in reader.scan(bank, ALL_RECORDS):
        ids.append(row.id)
        if len(ids) == _TOGETHER:
            yield ids
            ids = []
    if ids:
        yield ids


def blobs_of(reader: Reader, bank: str) -> list[tuple[str, int]]:
    """Return the digests and sizes of a bank's blobs, without those that an erasure will drop."""
    erased = {name.removeprefix(BLOB) for name in reader.side(bank, BLOB)}
    for row in reader.scan(bank, ALL_RECORDS) if erased else ():
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


"""Called with the number of records done and the total."""
