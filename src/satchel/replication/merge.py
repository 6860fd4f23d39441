"""Merge a diverged copy of a bank: records that only it has are added like an import.

They keep their IDs and get new positions. They are logged invisibly, in their own imports or in one
of the merge, and become visible together. Status records are included, so that a memory forgotten
there is forgotten here. There are still two logs, but with the same state once each has merged the
other. Source: docs/spec/5-log.md, 5.9.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal, NamedTuple

import msgspec

from satchel.crypto.sealed_records import Sealed, seal
from satchel.errors import AdoptedError, ForkedError, VerificationError
from satchel.ledger.authority import DECISIONS
from satchel.ledger.heads import require_logged
from satchel.ledger.ledger import Ledger
from satchel.ledger.projection import CLOSED, GROUP, Fold, LogFact
from satchel.ledger.transaction import closing_receipt
from satchel.model.records import Config, Erasure, Model, Receipt, Source, Status
from satchel.model.values import TrustClass, now
from satchel.ports.rows import PENDING, Filter, Row
from satchel.ports.store import Reader, Store
from satchel.replication.copies import (
    TOGETHER,
    FastForwardResult,
    Progress,
    Replica,
    blobs_named,
    copy_blobs,
    load_replica,
    read_log_from,
)
from satchel.runtime.scratch import Spool

FORMAT = "satchel-merge"
"""Format in the source record of a merge."""

_SOURCES = Filter(types=frozenset({"source"}), retired=True, held=True)


class Conflict(NamedTuple):
    """A slot of which both copies had a current record."""

    kept: str
    """ID of the record that stays current."""

    superseded: str


@dataclass(slots=True)
class MergeResult:
    """Result of a merge, or of a dry run."""

    taken: dict[str, int] = field(default_factory=dict)
    """Number of added records by type."""

    known: int = 0
    """Number of records that already existed."""

    erased: int = 0
    """Number of records that are not added, since one of the copies erased them."""

    waiting: int = 0
    """Number of records of incomplete imports there."""

    decisions: int = 0
    """Number of records about the other log itself, which cannot be added."""

    emptied: int = 0
    """Number of records that were erased here, since they are erased there."""

    blobs: int = 0
    blobs_missing: int = 0
    conflicts: int = 0
    first_conflicts: list[Conflict] = field(default_factory=list)

    @property
    def records(self) -> int:
        """Number of added records."""
        return sum(self.taken.values())

    def count(self, record: Sealed) -> None:
        """Count an added record."""
        self.taken[record.type] = self.taken.get(record.type, 0) + 1


class NewRecord(NamedTuple):
    """A record that only the other copy has."""

    record: Sealed
    batch: str | None
    """ID of the source record of its import there."""


def plan_merge(source: Replica, target: Replica, common: int) -> MergeResult:
    """Return the result of a dry run, without conflicts."""
    result = MergeResult()
    unmerged = Unmerged(source, target, common, result)
    for new in unmerged.new():
        result.count(new.record)
    for record in unmerged.erasures:
        result.count(record)
    return result


class Unmerged:
    """Reads the records that only one copy has."""

    def __init__(self, source: Replica, target: Replica, common: int, result: MergeResult) -> None:
        self.erasures: list[Sealed] = []
        """Records there that are not here and belong to no import."""

        self.closed: list[str] = []
        """The complete imports there, in order of completion."""

        self.blobs: set[str] = set()
        self._source = source
        self._target = target
        self._result = result
        self._start = max(common, _merged_before(source, target))
        self._batches: dict[int, str] = {}

    @property
    def positions(self) -> range:
        """The positions of the log that are read."""
        return range(self._start, self._source.size)

    def new(self) -> Iterator[NewRecord]:
        """Yield the records in the order of the log there."""
        fold, size = self._source.trusted.fold, self._source.size
        for records in read_log_from(self._source, self._start):
            known = self._existing_ids(records)
            self.blobs.update(blobs_named(records))
            for row, logged in records:
                if logged is None:
                    self._result.erased += 1
                    continue
                record, model = logged
                record.model = model
                if isinstance(model, Erasure) and row.id not in known:
                    self.erasures.append(record)
                    continue
                if self._is_about_the_log(row, model):
                    continue
                if row.id in known:
                    self._result.known += 1
                elif self._is_erased(row.id):
                    self._result.erased += 1
                elif fold.standing(row.id, row.seq, size).retired == PENDING:
                    self._result.waiting += 1
                else:
                    yield NewRecord(record, self._batch(fold.batch_number(row.seq)))

    def _is_about_the_log(self, row: Row, model: Model) -> bool:
        """Return whether a record is about the log itself, and count it."""
        if isinstance(model, Source):
            return model.format == FORMAT
        if isinstance(model, Config):
            is_decision = model.action in DECISIONS
            self._result.decisions += is_decision
            return is_decision
        if isinstance(model, Receipt) and model.action == CLOSED:
            name = str(model.result.get("source"))
            batch = self._source.trusted.fold.batch(name)
            if batch is not None and batch.closed == row.seq:
                self.closed.append(name)
            return True
        return isinstance(model, Receipt) and model.action == GROUP

    def _existing_ids(self, records: Sequence[tuple[Row, Any]]) -> set[str]:
        rows = self._target.reader.get(self._target.bank, [row.id for row, _ in records])
        return {row.id for row in rows}

    def _is_erased(self, identity: str) -> bool:
        return self._target.trusted.fold.is_erased(identity, self._target.size)

    def _batch(self, number: int) -> str | None:
        if not number:
            return None
        if number not in self._batches:
            (row,) = self._source.reader.at(self._source.bank, [number])
            self._batches[number] = row.id
        return self._batches[number]


def sources(reader: Reader, copy: Replica) -> Iterator[tuple[Row, Source]]:
    """Yield the verified source records of a copy."""
    rows = list(reader.scan(copy.bank, _SOURCES))
    for row, logged in zip(rows, require_logged(copy.tree, copy.bank, rows), strict=True):
        if logged is not None and isinstance(logged[1], Source):
            yield row, logged[1]


def _merged_before(source: Replica, target: Replica) -> int:
    """Return the position up to which complete merges added a copy's log."""
    best = 0
    for row, model in sources(target.reader, target):
        batch = target.trusted.fold.batch(row.id)
        mark = model.container.get("merged")
        if model.format != FORMAT or not isinstance(mark, dict) or batch is None:
            continue
        size, done = mark.get("size"), mark.get("done")
        if (
            batch.closed is not None
            and isinstance(size, int)
            and isinstance(done, int)
            and 0 < done <= size <= source.size
            and source.tree.root_id(size) == mark.get("root")
        ):
            best = max(best, done)
    return best


_MOST_NAMED = 100


class MergeConflictPolicy(StrEnum):
    """Which record stays current if both copies changed the same slot."""

    LATER = "later"
    """The one that was logged later."""

    HERE = "here"
    """The target's."""

    THERE = "there"
    """The source's."""


def require_same_owners(source: Replica, target: Replica) -> None:
    """Require that both copies have the same owners, and no revoked key signed the source.

    Raises:
        ForkedError: If an owner's key has different successors in the copies.
        AdoptedError: If the owners of the copies differ.
        VerificationError: If the owners of one copy changed, or revoked the key of the other.
    """
    theirs, ours = source.trusted.authority, target.trusted.authority
    heirs = {ended.key: ended.heir for ended in ours.ended if ended.heir is not None}
    for ended in theirs.ended:
        if ended.heir is not None and heirs.get(ended.key, ended.heir) != ended.heir:
            raise ForkedError(
                f"{ended.key} was replaced by {ended.heir} there, and by {heirs[ended.key]} here",
                hint=(
                    "Only one of them belongs to its owner. If it is the one here, revoke the "
                    "other; if not, restore a copy that agrees."
                ),
            )
    if source.trusted.head.key in ours.revoked_keys:
        raise VerificationError(
            f"the other copy is signed by {source.trusted.head.key}, which an owner revoked here",
            hint="It may have been written with the stolen key. Nothing was copied from it.",
        )
    if theirs.owners != ours.owners:
        if ours.owned_by(theirs.owners) or theirs.owned_by(ours.owners):
            raise VerificationError(
                "an owner's key was replaced in one of the copies and not in the other",
                hint="Replace it there, too, and try again: satchel --store ADDRESS key hand-over.",
            )
        raise AdoptedError(
            "the copies have different owners: one of them was adopted",
            hint="To get its memories, export it and import the file.",
        )


def merge(
    source: Replica,
    store: Store,
    ledger: Ledger,
    common: int,
    *,
    on_conflict: MergeConflictPolicy = MergeConflictPolicy.LATER,
    progress: Progress | None = None,
) -> MergeResult:
    """Add what only another copy has. An interrupted merge is resumed.

    Args:
        source: The other copy.
        store: The store of the target copy.
        ledger: Ledger of the target copy.
        common: Length of the common prefix of both logs.
        on_conflict: Which record stays current if both copies changed the same slot.
        progress: Called with the progress.

    Raises:
        AdoptedError, ForkedError: If the owners of the copies differ.
        VerificationError: If a record is not what was logged, or a key was revoked.
        ReadOnlyStoreError: If this machine may not append to the copy.
    """
    task = _MergeTask(source, store, ledger, on_conflict)
    spool = Spool()
    try:
        # Everything is read and verified before anything is appended.
        with store.reading() as reader:
            target = _replica(reader, source.bank)
            require_same_owners(source, target)
            unmerged = Unmerged(source, target, common, task.result)
            task.resume(reader, target)
            for number, new in enumerate(unmerged.new()):
                spool.write(b"%b %b\n" % ((new.batch or "").encode(), new.record.body))
                if progress is not None and number % TOGETHER == 0:
                    progress(number, len(unmerged.positions))
        task.stage(spool.lines())
    finally:
        spool.close()
    task.erase(unmerged.erasures)  # first: what was settled is not read again
    task.settle(unmerged.closed)
    with store.writing() as writing:
        blobs = FastForwardResult(named=unmerged.blobs)
        copy_blobs(source, writing, blobs)
    task.result.blobs, task.result.blobs_missing = blobs.blobs, blobs.blobs_missing
    return task.result


class _MergeTask:
    """One merge into a copy."""

    def __init__(
        self, source: Replica, store: Store, ledger: Ledger, on_conflict: MergeConflictPolicy
    ) -> None:
        self.result = MergeResult()
        self._source = source
        self._store = store
        self._ledger = ledger
        self._on_conflict = on_conflict
        self._own: str | None = None
        self._open: set[str] = set()
        """IDs of the source records of imports to which records are added here."""

    def resume(self, reader: Reader, target: Replica) -> None:
        """Find the open imports here, and an interrupted merge, if any."""
        for row, model in sources(reader, target):
            batch = target.trusted.fold.batch(row.id)
            if batch is not None and batch.closed is None:
                self._open.add(row.id)
                state = target.trusted.fold.standing(row.id, row.seq, target.size)
                if model.format == FORMAT and state.retired is None:
                    self._own = row.id

    def stage(self, lines: Iterable[bytes]) -> None:
        """Append the new records, still invisible; each line has an import's ID and a record."""
        waiting, into = list[Sealed](), None
        for line in lines:
            name, _, body = line.removesuffix(b"\n").partition(b" ")
            value = msgspec.json.decode(body)
            record = Sealed(value["id"], value["type"], body)
            self.result.count(record)
            if record.type == "source":
                self._append(waiting, into)
                self._ledger.append([record])
                self._open.add(record.id)
                waiting = []
                continue
            batch = name.decode() if name.decode() in self._open else self._merge_source()
            if batch != into or len(waiting) == TOGETHER:
                self._append(waiting, into)
                waiting, into = [], batch
            waiting.append(record)
        self._append(waiting, into)

    def settle(self, closed: Sequence[str]) -> None:
        """Resolve conflicts, and make all added records visible together."""
        completed = [name for name in dict.fromkeys(closed) if name in self._open]
        if self._own is None and not completed:
            return
        own = self._merge_source()
        fixes = list[Sealed]()
        with self._store.reading() as reader:
            target = _replica(reader, self._source.bank)
            fold, size = _as_if_closed(target, [*completed, own])
            for name in [*completed, own]:
                fixes += self._fixes(reader, target, fold, size, name)
        for start in range(0, len(fixes), TOGETHER):
            self._append(fixes[start : start + TOGETHER], own)
        at = now()
        self._ledger.append([closing_receipt(name, at) for name in [*completed, own]])

    def erase(self, erasures: Sequence[Sealed]) -> None:
        """Erase what is erased there, even if it is current here."""
        for start in range(0, len(erasures), TOGETHER):
            records = erasures[start : start + TOGETHER]
            names = [sealed.model.entry for sealed in records if isinstance(sealed.model, Erasure)]
            with self._ledger.reading() as view:
                here, positions = view.get(names), view.places(names)
                present = [name for name in positions if view.erasure(name) is None]
            stays = [name for name in present if name not in here or here[name].row.retired is None]
            self._append([*(_status(name, "deleted") for name in stays), *records], None)
            for record in records:
                self.result.count(record)
            self.result.emptied += len(present)

    def _fixes(
        self, reader: Reader, target: Replica, fold: Fold, size: int, name: str
    ) -> Iterator[Sealed]:
        """Yield the statuses that give records of an import the same state as there."""
        batch = fold.batch(name)
        for first, last in batch.spans if batch is not None else ():
            for start in range(first, last + 1, TOGETHER):
                positions = range(start, min(start + TOGETHER, last + 1))
                rows = reader.at(target.bank, positions)
                theirs = {
                    row.id: row
                    for row in self._source.reader.get(target.bank, [row.id for row in rows])
                }
                for row in sorted(rows, key=lambda row: row.seq):
                    other = theirs.get(row.id)
                    if other is not None:
                        yield from self._fix(reader, fold, size, row, other)

    def _fix(
        self, reader: Reader, fold: Fold, size: int, row: Row, theirs: Row
    ) -> Iterator[Sealed]:
        end = self._source.size
        wanted_state = self._source.trusted.fold.standing(row.id, theirs.seq, end)
        state = fold.standing(row.id, row.seq, size)
        if wanted_state.hold and not state.hold:
            yield _status(row.id, "quarantined")
        if state.retired is not None:
            if wanted_state.retired is None:
                yield _status(row.id, "restored")
        elif wanted_state.retired is not None:
            yield _status(row.id, "deleted")
        elif row.slot is not None:
            holder = reader.current(self._source.bank, row.slot)
            if holder is not None and fold.standing(holder.id, holder.seq, size).retired is None:
                yield self._decided(theirs, holder)

    def _decided(self, theirs: Row, ours: Row) -> Sealed:
        """Return the status that supersedes one of two records of the same slot."""
        later = (theirs.at, theirs.id) > (ours.at, ours.id)
        prefers_theirs = self._on_conflict is MergeConflictPolicy.THERE or (
            self._on_conflict is MergeConflictPolicy.LATER and later
        )
        winner, superseded = (theirs.id, ours.id) if prefers_theirs else (ours.id, theirs.id)
        self.result.conflicts += 1
        if len(self.result.first_conflicts) < _MOST_NAMED:
            self.result.first_conflicts.append(Conflict(winner, superseded))
        return _status(superseded, "superseded", by=winner)

    def _append(self, records: Sequence[Sealed], batch: str | None) -> None:
        if records:
            self._ledger.append(records, batch=batch)

    def _merge_source(self) -> str:
        """Return the ID of the source record of the merge, which is appended on first use."""
        if self._own is None:
            head, fold = self._source.trusted.head, self._source.trusted.fold
            done = min([head.size, *(first for first, _ in fold.open_spans(head.size))])
            mark = {"epoch": head.epoch, "size": head.size, "root": head.root, "done": done}
            source = seal(
                Source(
                    provider="satchel",
                    format=FORMAT,
                    container={"merged": mark},
                    signer=head.key,
                    trust=TrustClass.USER,  # the same bank, so the same trust
                    at=now(),
                )
            )
            self._ledger.append([source])
            self._own = source.id
        return self._own


def _status(
    target: str,
    state: Literal["quarantined", "deleted", "restored", "superseded"],
    by: str | None = None,
) -> Sealed:
    return seal(Status(target=target, state=state, by=by, reason="merged", at=now()))


def _replica(reader: Reader, bank: str) -> Replica:
    replica = load_replica(reader, bank)
    assert replica is not None  # noqa: S101 - it was looked at before
    return replica


def _as_if_closed(target: Replica, names: Sequence[str]) -> tuple[Fold, int]:
    """Return the fold of a log, with a size, as if imports were completed at its end."""
    fold, size = target.trusted.fold, target.size
    facts = [
        LogFact(size + number, "", Receipt(action=CLOSED, result={"source": name}))
        for number, name in enumerate(names)
    ]
    fold.take(facts, size + len(facts))
    return fold, size + len(facts)
