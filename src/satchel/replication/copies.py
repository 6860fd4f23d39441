"""Two copies of one bank: how they stand to each other, and carrying a log from one to the other.

That one log begins with the other is proved by their trees. Then the rest of it is carried as it
is, places, times and head included: all of it in one transaction, each record proved before it is
kept. Logs that went different ways are not carried; see ``merging``. Source: docs/spec/5-log.md.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from satchel.crypto.canonical import DEFAULT_LIMITS, MIB
from satchel.crypto.log import Frontier, VerifiedTree, append_leaves, record_leaf
from satchel.crypto.sealed_records import PREFIX, Sealed
from satchel.errors import VerificationError
from satchel.ledger.erasure import cleanup_values
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
from satchel.model.records import Erasure, FileVersion, Model, Redaction
from satchel.ports.rows import Filter, Row, derive_row
from satchel.ports.store import ColumnChange, Commit, Reader, Writer, verified_pieces

TOGETHER = 256
"""Records of a log that are in memory at a time, when they are not large."""

_BYTES_TOGETHER = 4 * MIB

Progress = Callable[[int, int], None]
"""Called now and then with the records done and the records there are."""

_ALL = Filter(retired=True, held=True)
_TOLD = Filter(types=FOLDED, retired=True, held=True)


class Relation(StrEnum):
    """How the copy that is read stands to the one that is written."""

    SAME = "same"
    AHEAD = "ahead"
    """It goes on from where the other one ends."""

    BEHIND = "behind"
    """The other one goes on from where it ends."""

    DIVERGED = "diverged"
    """Both go on, in different ways."""

    NEW = "new"
    """The other one is not there yet."""


@dataclass(frozen=True, slots=True)
class Replica:
    """One copy of a bank in a view of its store, sound in itself."""

    reader: Reader
    found: TrustedHead
    tree: VerifiedTree

    @property
    def bank(self) -> str:
        """The bank's id."""
        return self.found.head.bank

    @property
    def size(self) -> int:
        """Records in its log."""
        return self.found.head.size


@dataclass(frozen=True, slots=True)
class ReplicaComparison:
    """How two copies stand to each other."""

    relation: Relation
    common: int
    """Records that both logs begin with."""


@dataclass(slots=True)
class FastForwardResult:
    """What was carried."""

    records: int = 0
    erased: int = 0
    """Records that were emptied, since the log that came says that they are erased."""

    blobs: int = 0
    blobs_missing: int = 0
    """Blobs that a record names, and that the copy does not have."""

    named: set[str] = field(default_factory=set)
    """Digests of the blobs that the records name."""


def load_replica(reader: Reader, bank: str) -> Replica | None:
    """Return the copy of a bank in a view, once its head is proved sound in itself.

    Whether it is to be believed by what was seen before is for the caller to judge.

    Raises:
        VerificationError: Naming what does not hold.
    """
    stored = reader.head(bank)
    if stored is None:
        return None
    found = load_trusted_head(reader, bank, stored, lambda *_: OWN)
    return Replica(reader, found, VerifiedTree(found.frontier, node_fetcher(reader, bank)))


def compare_replicas(source: Replica, target: Replica | None) -> ReplicaComparison:
    """Return how the copy that is read stands to the one that is written.

    Raises:
        VerificationError: If they have nothing in common, or a tree does not prove what it was.
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


def _common(one: Replica, other: Replica) -> int:
    """Return how many records both logs begin with; found by halving, since roots tell."""
    low, high = 0, min(one.size, other.size)
    while low < high:
        middle = (low + high + 1) // 2
        if one.tree.root_at(middle) == other.tree.root_at(middle):
            low = middle
        else:
            high = middle - 1
    return low


def read_log_from(
    copy: Replica, start: int
) -> Iterator[list[tuple[Row, tuple[Sealed, Model] | None]]]:
    """Yield the records of a log from a place on, proved, some at a time; None for erased ones.

    Raises:
        VerificationError: If one is missing, or not what was logged.
    """
    fold, size, place = copy.found.fold, copy.size, start
    for rows in _some(copy.reader.scan(copy.bank, _ALL, after=start - 1)):
        places = range(place, place + len(rows))
        if [row.seq for row in rows] != list(places):
            raise VerificationError(f"records between {place} and {places.stop} are missing")
        logged = require_logged(copy.tree, copy.bank, rows, redacted_in(copy))
        for row, one in zip(rows, logged, strict=True):
            if one is None and not fold.is_erased(row.id, size):
                raise VerificationError(f"record {row.seq} is empty, but no erasure is logged")
        yield list(zip(rows, logged, strict=True))
        place = places.stop
    if place != size:
        raise VerificationError(f"records after {place} are missing")


def _some(rows: Iterator[Row]) -> Iterator[list[Row]]:
    """Yield rows some at a time, never much of what somebody else's store gives.

    Raises:
        VerificationError: If one is larger than a record may be.
    """
    held, size = list[Row](), 0
    for row in rows:
        length = len(row.body or b"")
        if length > DEFAULT_LIMITS.entry_bytes:
            raise VerificationError(f"record {row.seq} has {length} bytes, which exceeds the limit")
        held.append(row)
        size += length
        if len(held) == TOGETHER or size > _BYTES_TOGETHER:
            yield held
            held, size = [], 0
    if held:
        yield held


def fast_forward(
    source: Replica, writing: Writer, target: Replica | None, progress: Progress | None = None
) -> FastForwardResult:
    """Carry what a copy's log has beyond another's, which it begins with; nothing is signed anew.

    Args:
        source: The copy that is ahead.
        writing: The transaction that it is carried in. When this raises, the transaction must not
            be committed.
        target: The copy in there; None to begin it.
        progress: Is told how far it got.

    Raises:
        VerificationError: If a record is not what was logged, or the log not what was signed.
    """
    found, head, bank = FastForwardResult(), source.found.head, source.bank
    start = target.size if target is not None else 0
    before = target.found if target is not None else None
    fold = before.fold if before is not None else Fold()
    facts = _facts(source, start)
    effect = fold.take(facts, head.size)
    if target is not None:
        _change_there(writing, target, effect, fold, head.size)
    counts = Counter(before.head.counts if before is not None else {})
    frontier = Frontier(before.frontier.size, before.frontier.peaks) if before else Frontier()
    for some in read_log_from(source, start):
        rows = [own_row(row, logged, fold, head.size) for row, logged in some]
        leaves = [record_leaf(bank, row.seq, row.type, row.id, row.at) for row in rows]
        nodes = append_leaves(frontier, leaves)
        counts.update(row.type for row in rows)
        writing.append(bank, Commit(rows=rows, nodes=nodes, head=source.found.stored))
        found.records += len(rows)
        found.named.update(blobs_named(some))
        if progress is not None:
            progress(found.records, head.size - start)
    said = sum(counts[name] - (before.head.counts.get(name, 0) if before else 0) for name in FOLDED)
    if PREFIX + frontier.root.hex() != head.root or counts != head.counts or said != len(facts):
        raise VerificationError("the received log does not match the signed head")
    found.erased = empty_erased(writing, bank, facts) + redact_there(source, writing, facts, start)
    carry_blobs(source, writing, found)
    return found


def _facts(source: Replica, start: int) -> list[LogFact]:
    """Return what the log says of its own records, from a place on."""
    found, rows = list[LogFact](), source.reader.scan(source.bank, _TOLD, after=start - 1)
    for some in _some(rows):
        for row, logged in zip(some, require_logged(source.tree, source.bank, some), strict=True):
            if logged is None:
                raise VerificationError(f"record {row.seq} is empty, but its type is never erased")
            found.append(LogFact(row.seq, row.id, logged[1]))
    return found


def own_row(row: Row, logged: tuple[Sealed, Model] | None, fold: Fold, size: int) -> Row:
    """Return a row with the columns that follow from its bytes and the log."""
    batch = fold.batch_number(row.seq)
    if logged is None or fold.is_erased(row.id, size):
        own = erased_row(row, batch)
    else:
        record, model = logged
        own = derive_row(model, seq=row.seq, at=row.at, body=record.body, batch=batch)
    return own.changed(fold.standing(row.id, row.seq, size))


def erased_row(row: Row, batch: int) -> Row:
    """Return the row of a record that is erased: what its leaf says, and nothing more."""
    return Row(seq=row.seq, id=row.id, type=row.type, at=row.at, body=None, batch=batch)


def _change_there(writing: Writer, target: Replica, effect: Effect, fold: Fold, size: int) -> None:
    """Set the columns of records that were there, of which the rest of the log says more.

    First those that are retired, in all, then those that are current again: a thing may have
    changed hands.
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
                stored = target.found.stored
                writing.append(target.bank, Commit(rows=(), nodes=(), head=stored, changes=changes))


def _touched(reader: Reader, target: Replica, effect: Effect) -> Iterator[list[Row]]:
    """Yield the rows of a copy whose standing may be another now, some at a time."""
    for start in range(0, len(effect.targets), TOGETHER):
        rows = reader.get(target.bank, effect.targets[start : start + TOGETHER])
        yield _proved(target, rows)
    for sweep in effect.sweeps:
        for first in range(sweep.first, min(sweep.last + 1, target.size), TOGETHER):
            places = range(first, min(first + TOGETHER, sweep.last + 1, target.size))
            yield _proved(target, reader.at(target.bank, places))


def _proved(target: Replica, rows: Sequence[Row]) -> list[Row]:
    there = [row for row in rows if row.seq < target.size]
    require_leaves(target.tree, target.bank, there)
    return there


def empty_erased(writing: Writer, bank: str, facts: Sequence[LogFact]) -> int:
    """Empty what is erased by what a log says; return how many records were not empty yet.

    The store still keeps their bytes until the erasure is finished.
    """
    erased = [fact.model.entry for fact in facts if isinstance(fact.model, Erasure)]
    stored, emptied = writing.head(bank), 0
    assert stored is not None  # noqa: S101 - the log is there
    for start in range(0, len(erased), TOGETHER):
        rows = writing.get(bank, erased[start : start + TOGETHER])
        full = [row for row in rows if row.body is not None]
        if full:
            places, side = [row.seq for row in full], cleanup_values(writing, bank, full)
            commit = Commit(rows=(), nodes=(), head=stored, erased=places, side=side)
            writing.append(bank, commit)
            emptied += len(full)
    return emptied


def redacted_in(copy: Replica) -> RedactionLookup:
    """Return what tells in which form a record of a copy stands."""
    fold, size = copy.found.fold, copy.size
    return lambda row: fold.redacted(row.id, size)


def redact_there(source: Replica, writing: Writer, facts: Sequence[LogFact], end: int) -> int:
    """Put redacted forms in the place of entries that were carried whole; return how many.

    Args:
        source: The copy that has the forms.
        writing: Where the entries are.
        facts: What the log says, some redactions among it.
        end: Entries from this place on came as they are now.
    """
    ids = list({one.model.entry: 0 for one in facts if isinstance(one.model, Redaction)})
    stored, done, fold = writing.head(source.bank), 0, source.found.fold
    assert stored is not None  # noqa: S101 - the log is there
    for start in range(0, len(ids), TOGETHER):
        rows = source.reader.get(source.bank, ids[start : start + TOGETHER])
        logged = require_logged(source.tree, source.bank, rows, redacted_in(source))
        forms = [
            own_row(row, found, fold, source.size)
            for row, found in zip(rows, logged, strict=True)
            if found is not None and row.seq < end
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


def blobs_named(some: Sequence[tuple[Row, tuple[Sealed, Model] | None]]) -> Iterator[str]:
    """Yield the digests of the blobs that records name."""
    for _, logged in some:
        if logged is not None and isinstance(logged[1], FileVersion) and logged[1].blob:
            yield logged[1].blob


def carry_blobs(source: Replica, writing: Writer, found: FastForwardResult) -> None:
    """Carry the blobs that were named, each proved by its digest; others are nobody's.

    Raises:
        VerificationError: If one is not what was put there.
    """
    for digest in sorted(found.named):
        if writing.blobs.has(source.bank, digest):
            continue
        if not source.reader.blobs.has(source.bank, digest):
            found.blobs_missing += 1
            continue
        pieces = verified_pieces(source.reader.blobs.get(source.bank, digest), digest)
        writing.blobs.put(source.bank, pieces)
        found.blobs += 1
