"""Copy the records of one bank into another bank of the same store, as one import.

Records keep their bytes and IDs and get new leaves. Their status records are copied as well, so
each record has the state in the target that it had in the origin at one log position. Records of an
import stay with that import's source record. Everything becomes visible in one commit. A run after
an interruption resumes it.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import chain, islice
from typing import Any, NamedTuple

import msgspec

from satchel.bank.banks import create_bank_in
from satchel.bank.connections import (
    configured_store,
    has_store,
    open_ledger,
    witness_of,
)
from satchel.bank.machine_keys import require_owner
from satchel.bank.open_bank import bank_exists, banks_called, find_bank, is_partial_copy, name_of
from satchel.config.settings import Settings
from satchel.crypto.keys import SigningKey
from satchel.crypto.sealed_records import Sealed, seal
from satchel.errors import BankExistsError, SlotTakenError, UnknownBankError, UsageError
from satchel.ledger import decisions
from satchel.ledger.heads import BankStanding
from satchel.ledger.ledger import Ledger
from satchel.ledger.projection import MOST_IN_GROUP, VerifiedRecord
from satchel.ledger.transaction import ERASABLE, blob_digests_in, closing_receipt
from satchel.ledger.view import View
from satchel.model.records import Source, State, Status
from satchel.model.values import TrustClass, now, resolved
from satchel.ports.rows import HOLDS, RETIRING, Filter
from satchel.ports.store import Store, verified_pieces

_PROVIDER, _FORMAT, _MARK = "satchel", "bank", "carried"
_OWN = ""
"""Stands for the import of records that came with none."""


class SourceMapping:
    """Maps records to source records of the target, for one log position of the origin.

    Args:
        view: The origin.
        target_view: The target.
        how: The options, which must be those of an interrupted copy.

    Raises:
        UsageError: If an interrupted copy was started with other options.
    """

    def __init__(self, view: View, target_view: View, how: dict[str, Any]) -> None:
        head = view.head
        self.external = view.standing is BankStanding.UNTRUSTED
        """Whether trust that the origin states is ignored."""

        self.new: list[Sealed] = []
        """Source records to add before the next records."""

        self.promoted: list[Sealed] = []
        """Status records that promote whole imports, to add once these are complete."""

        self._moment = {"bank": head.bank, "size": head.size, "root": head.root, **how}
        self._batches = dict[str, str]()
        for name in target_view.open_imports():
            mark = mark_of(target_view.get([name])[name])
            if mark.get("bank") == head.bank and _is_moment(mark, view):
                self._resume(name, mark, how)
        if _OWN not in self._batches:
            self._begin(_OWN, TrustClass.EXTERNAL if self.external else None)

    @property
    def size(self) -> int:
        """Size of the origin's log at the position that is copied."""
        return int(self._moment["size"])

    @property
    def names(self) -> list[str]:
        """Unique IDs of the source records in the target."""
        return list(dict.fromkeys(self._batches.values()))

    def name_for(self, view: View, target_view: View, logged: VerifiedRecord) -> str:
        """Return the ID of a record's source record in the target."""
        position = logged.row.batch
        if not position or self.external:
            return self._batches[_OWN]
        source = view.log_records_at([position])[position]
        name = source.record.id
        if name not in self._batches:
            self._map_source(target_view, name, source)
            statuses = view.statuses_of(name, self.size)
            promotions = (_promoted(status, self._batches[name]) for status in statuses)
            self.promoted += [record for record in promotions if record is not None]
        return self._batches[name]

    def _map_source(self, target_view: View, name: str, source: VerifiedRecord) -> None:
        if name in target_view.open_imports():  # of an interrupted copy
            self._batches[name] = name
        elif target_view.places([name]):
            assert isinstance(source.model, Source)  # noqa: S101 - the fold takes no others
            self._begin(name, source.model.trust)
        else:
            self._batches[name] = name
            self.new.append(source.record)

    def _begin(self, name: str, trust: TrustClass | None) -> None:
        """Add a source record for records of an import of the origin, or of none."""
        mark = {**self._moment, **({"import": name} if name else {})}
        container = {_MARK: mark}
        record = seal(
            Source(provider=_PROVIDER, format=_FORMAT, trust=trust, container=container, at=now())
        )
        self._batches[name] = record.id
        self.new.append(record)

    def _resume(self, name: str, mark: dict[str, Any], how: dict[str, Any]) -> None:
        """Resume at the log position of an interrupted copy."""
        if {key: mark.get(key) for key in how} != how:
            original = f"with --on-conflict {mark.get('on_conflict')}"
            if mark.get("retired") != how["retired"]:
                original = f"{'with' if mark.get('retired') else 'without'} --include-deleted"
            raise UsageError(
                "an earlier run was interrupted, and was started with other options",
                hint=f"Run it again {original}.",
            )
        self._batches[str(mark.get("import", _OWN))] = name
        self._moment = {key: mark[key] for key in self._moment}


def is_begun(target_view: View, origin: str) -> bool:
    """Return whether a copy of a bank into another was interrupted."""
    sources = target_view.get(target_view.open_imports()).values()
    return any(mark_of(source).get("bank") == origin for source in sources)


def mark_of(logged: VerifiedRecord) -> dict[str, Any]:
    """Return the origin that the source record of a copy names; empty for other records."""
    model = logged.model
    if not isinstance(model, Source) or (model.provider, model.format) != (_PROVIDER, _FORMAT):
        return {}  # containers of imported files are in the same member
    mark = model.container.get(_MARK)
    return mark if isinstance(mark, dict) else {}


def _is_moment(mark: dict[str, Any], view: View) -> bool:
    """Return whether a mark names a position of this bank's log; a log can contain anything."""
    size = mark.get("size")
    sound = isinstance(size, int) and 0 < size <= view.head.size
    return sound and isinstance(mark.get("root"), str)


def _promoted(logged: VerifiedRecord, target: str) -> Sealed | None:
    """Return the promotion of a whole import, with the import in the target as its subject."""
    model = logged.model
    if not isinstance(model, Status) or model.state != "promoted":
        return None
    if model.target == target:
        return logged.record
    return seal(Status(target=target, state="promoted", reason=model.reason, actor=model.actor))


GROUP = 1_000
"""Records that are read and added in one step."""

_WAS_SO = "as in the bank it came from"

Progress = Callable[[int, int], None]
"""Receives the number of log positions that were read, and their total."""


class BankConflictPolicy(StrEnum):
    """What to do with a record if the target has a current one for the same slot."""

    SKIP = "skip"
    OVERWRITE = "overwrite"
    ERROR = "error"


class BankCopyCounts(msgspec.Struct, kw_only=True):
    """Counts of a copy, or of its plan."""

    records: int = 0
    """Records that the target lacked, including retired ones."""

    there: int = 0
    """Records that the target has already, or that were erased there."""

    kept: int = 0
    """Records that were skipped because the target has a current one for the same slot."""

    replaced: int = 0
    """Records that replaced another one."""

    blobs: int = 0
    dry_run: bool = False


class _Part(NamedTuple):
    """A record, and the records to add for it."""

    logged: VerifiedRecord
    adds: list[Sealed]
    """The record and its status records, or none of them."""


@dataclass(kw_only=True)
class BankCopier:
    """Copies the records of one bank into another.

    Args:
        store: The store of both banks.
        origin: The bank that is read.
        target: The bank that is written.
        on_conflict: What to do if both have a current record for the same slot.
        retired: Whether to include records that are no longer current; ancestors of others always
            are.
    """

    store: Store
    origin: Ledger
    target: Ledger
    on_conflict: BankConflictPolicy = BankConflictPolicy.SKIP
    retired: bool = False
    done: BankCopyCounts = field(default_factory=BankCopyCounts)
    _arrivals: SourceMapping = field(init=False)

    def plan(self, *, progress: Progress | None = None) -> BankCopyCounts:
        """Return what would be copied, and change nothing.

        Raises:
            SlotTakenError: If there is a conflict and that is an error.
            VerificationError: If the store is not what was signed.
        """
        return self._walk(writes=False, progress=progress)

    def carry(self, *, progress: Progress | None = None) -> BankCopyCounts:
        """Copy the records, and make them visible in one commit.

        Raises:
            SlotTakenError: If there is a conflict, and conflicts are errors: nothing was written.
                Also if a conflict arose in the last step: run it again.
            UsageError: If an interrupted copy was started with other options.
            ReadOnlyStoreError: If no key here may add to the target.
            VerificationError: If the store is not what was signed.
            StoreError: If the store cannot be written; another run resumes the copy.
        """
        if self.on_conflict is BankConflictPolicy.ERROR:
            self._walk(writes=False, progress=None)
        return self._walk(writes=True, progress=progress)

    def _walk(self, *, writes: bool, progress: Progress | None) -> BankCopyCounts:
        self.done = BankCopyCounts(dry_run=not writes)
        how = {"on_conflict": str(self.on_conflict), "retired": self.retired}
        with self.origin.reading() as view, self.target.reading() as target_view:
            arrivals = self._arrivals = SourceMapping(view, target_view, how)
            condition = Filter(as_of=arrivals.size, retired=self.retired, held=True)
            needed, graves = _ancestors(view, condition)
        position = -1
        while position < self._arrivals.size - 1:
            with self.origin.reading() as view, self.target.reading() as target_view:
                records, position = self._next(view, position, needed)
                parts = self._chosen(view, target_view, records)
                names = [arrivals.name_for(view, target_view, part.logged) for part in parts]
            if writes:
                self._put(parts, names)
            if progress is not None:
                progress(position + 1, self._arrivals.size)
        if writes:
            self._close(graves)
        return self.done

    def _next(self, view: View, after: int, needed: set[str]) -> tuple[list[VerifiedRecord], int]:
        """Return the next records, and the last log position that was read for them."""
        condition, records = (
            Filter(as_of=self._arrivals.size, retired=True, held=True),
            list[VerifiedRecord](),
        )
        for logged in view.scan(condition, after=after):
            after = logged.seq
            if logged.row.type not in ERASABLE:
                continue
            if self.retired or logged.row.retired is None or logged.record.id in needed:
                records.append(logged)
            if len(records) == GROUP:
                return records, after
        return records, self._arrivals.size - 1

    def _chosen(
        self, view: View, target_view: View, records: Sequence[VerifiedRecord]
    ) -> list[_Part]:
        """Return what to add for some records, except those that were added before."""
        known = target_view.places([logged.record.id for logged in records])
        visible = target_view.get(list(known))
        parts = list[_Part]()
        for logged in records:
            name = logged.record.id
            pending = name in known and name not in visible and target_view.erasure(name) is None
            if (name in known and not pending) or target_view.erasure(name) is not None:
                self.done.there += 1
                continue
            conflict = self._conflict(target_view, logged)
            if conflict is None:
                if pending:
                    parts.append(
                        _Part(logged, [_status(name, "rejected", "another memory was there")])
                    )
                continue
            self.done.records += 1
            copied = [] if pending else [*_whole(view, logged), *self._statuses_of(view, logged)]
            parts.append(_Part(logged, [*copied, *conflict]))
        return parts

    def _conflict(self, target_view: View, logged: VerifiedRecord) -> list[Sealed] | None:
        """Return the status records for a conflicting record; None if that one stays current."""
        slot, retired = logged.row.slot, logged.row.retired
        other = target_view.current(slot) if slot is not None and retired is None else None
        if other is None or other.record.id == logged.record.id:
            return []
        if self.on_conflict is BankConflictPolicy.ERROR:
            raise SlotTakenError(
                "both banks have a current record for the same key or origin",
                field=logged.record.id,
                hint=f"The other is {other.record.id}. Use --on-conflict skip or overwrite.",
            )
        if self.on_conflict is BankConflictPolicy.SKIP:
            self.done.kept += 1
            return None
        self.done.replaced += 1
        return [
            _status(other.record.id, "superseded", "merged from another bank", logged.record.id)
        ]

    def _statuses_of(self, view: View, logged: VerifiedRecord) -> list[Sealed]:
        """Return the status records that give a record the state that it has in the origin.

        Status records that name it are copied. Those of its whole import are written for it alone.
        """
        row, size = logged.row, self._arrivals.size
        statuses = [
            status
            for status in view.statuses_of(row.id, size)
            # A promotion by an untrusted owner is not copied.
            if not (self._arrivals.external and _state_of(status) == "promoted")
        ]
        retired = hold = False
        for state in map(_state_of, statuses):
            retired = state in RETIRING or (retired and state != "restored")
            hold = HOLDS.get(state, hold)
        more = list[State]()
        if retired != (row.retired is not None):
            ended = view.retirement(row, size)
            more.append(_as_state(ended.state) if ended is not None else "restored")
        if hold != row.hold:
            more.append("quarantined" if row.hold else "released")
        added = [_status(row.id, state, _WAS_SO) for state in more]
        return [*(status.record for status in statuses), *added]

    def _put(self, parts: Sequence[_Part], names: Sequence[str]) -> None:
        """Add some records, with their data beside the log."""
        if not any(part.adds for part in parts):
            return
        self.target.append(self._arrivals.new)
        self._arrivals.new.clear()
        ids = [part.logged.record.id for part in parts]
        self._put_blobs(set().union(*(blob_digests_in(part.logged.record.body) for part in parts)))
        groups = dict[str, list[Sealed]]()
        for part, name in zip(parts, names, strict=True):
            # A record and its status records stay in one group.
            if len(groups.setdefault(name, [])) + len(part.adds) > MOST_IN_GROUP:
                self.target.append(groups.pop(name), batch=name)
            groups.setdefault(name, []).extend(part.adds)
        for name, records in groups.items():
            self.target.append(records, batch=name)
        self._put_vectors(ids)

    def _put_blobs(self, named: set[str]) -> None:
        origin, target = self.origin.bank, self.target.bank
        with self.store.writing() as writing:
            blobs = writing.blobs
            if next(iter(blobs.listed(origin)), None) is None:
                return
            for digest in sorted(named):
                if blobs.has(origin, digest) and not blobs.has(target, digest):
                    blobs.put(target, verified_pieces(blobs.get(origin, digest), digest))
                    self.done.blobs += 1

    def _put_vectors(self, ids: Sequence[str]) -> None:
        origin, target = self.origin.bank, self.target.bank
        if not self.store.traits.vectors:
            return
        with self.store.writing() as writing:
            vectors = writing.vectors
            for generation in vectors.generations(origin):
                stored = vectors.get(origin, generation, ids)
                if stored:
                    vectors.put(target, generation, stored)

    def _close(self, graves: set[str]) -> None:
        """Make everything visible, with promotions of imports and tombstones of parents."""
        with self.origin.reading() as view, self.target.reading() as target_view:
            known = target_view.places(list(graves))
            erasures = [view.erasure(name) for name in sorted(graves - known.keys())]
            open_ = set(target_view.open_imports())
        closings = [closing_receipt(name, now()) for name in self._arrivals.names if name in open_]
        tombs = [erasure.record for erasure in erasures if erasure is not None]
        if tombs:
            with self.target.reading() as target_view:
                present = target_view.places([tomb.id for tomb in tombs])
            tombs = [tomb for tomb in tombs if tomb.id not in present]
        self.target.append([*closings, *self._arrivals.promoted, *tombs])


def _ancestors(view: View, condition: Filter) -> tuple[set[str], set[str]]:
    """Return the retired and the erased ancestors of records."""
    needed, graves = set[str](), set[str]()
    records = view.scan(condition)
    while some := list(islice(records, GROUP)):
        waiting = set(chain.from_iterable(map(_parents, some)))
        while waiting:
            parents = view.get(sorted(waiting))
            graves |= {name for name in waiting - parents.keys() if view.erasure(name) is not None}
            older = {
                name: logged for name, logged in parents.items() if logged.row.retired is not None
            }
            waiting = set(chain.from_iterable(map(_parents, older.values()))) - needed - graves
            needed |= older.keys()
            waiting -= needed
    return needed, graves


def _whole(view: View, logged: VerifiedRecord) -> Iterator[Sealed]:
    """Yield a record; a redacted form after the record that permits it."""
    redaction = view.redaction(logged.record.id)
    if redaction is not None:
        yield redaction.record
    yield logged.record


def _parents(logged: VerifiedRecord) -> Iterator[str]:
    return iter(getattr(logged.model, "parent_ids", ()))


def _state_of(logged: VerifiedRecord) -> str:
    return logged.model.state if isinstance(logged.model, Status) else ""


def _as_state(state: str) -> State:
    return msgspec.convert(state, resolved(State))  # type: ignore[no-any-return]


def _status(target: str, state: State, reason: str, by: str | None = None) -> Sealed:
    return seal(Status(target=target, state=state, reason=reason, by=by, at=now()))


_FOUNDING = 2
"""Number of records of a new bank."""
"""Receives the number of log positions that were read, and their total."""


class BankCopyResult(msgspec.Struct, frozen=True, kw_only=True):
    """Result of copying a bank."""

    bank: str
    """ID of the target."""

    name: str | None
    carried: BankCopyCounts


class BankDeleteResult(msgspec.Struct, frozen=True, kw_only=True):
    """A deleted bank, or one to delete."""

    id: str
    name: str | None = None
    records: dict[str, int] = {}
    """Number of records by type."""

    blobs: int = 0
    dry_run: bool = False


def copy_bank(
    settings: Settings,
    source: str,
    name: str,
    owner: SigningKey,
    *,
    retired: bool = False,
    progress: Progress | None = None,
) -> BankCopyResult:
    """Create a bank with the memories of another, under its own ID and log.

    Args:
        settings: The store and keys.
        source: The bank, as ``find_bank`` takes it.
        name: Name of the new bank. An unfinished copy of that name is resumed.
        owner: Key of the owner of the new bank.
        retired: Whether to include records that are no longer current.
        progress: Receives the progress.

    Raises:
        UsageError: If a bank has the name, or it is empty.
    """
    require_owner(settings, "banks")
    if not name.strip():
        raise UsageError("a bank name must not be empty", field="name")
    with configured_store(settings) as store:
        origin = find_bank(store, source)
        target = _unfinished(settings, store, origin, name)
        if target is None:
            target = create_bank_in(settings, store, name, owner).bank
        carrier = _carrier(settings, store, origin, target, writes=True)
        carrier.retired = retired
        return _copied(store, target, carrier.carry(progress=progress))


def merge_banks(
    settings: Settings,
    source: str,
    into: str,
    *,
    on_conflict: BankConflictPolicy = BankConflictPolicy.SKIP,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> BankCopyResult:
    """Copy the current memories of one bank into another; the first bank does not change.

    Args:
        settings: The store and keys.
        source: The bank that is read.
        into: The bank that is written.
        on_conflict: What to do if both have a current record for the same slot.
        dry_run: Count, and change nothing.
        progress: Receives the progress.

    Raises:
        UsageError: If the two are the same.
        SlotTakenError: If there is a conflict and that is an error.
    """
    require_owner(settings, "banks")
    with configured_store(settings, read_only=dry_run) as store:
        origin, target = find_bank(store, source), find_bank(store, into)
        if origin == target:
            raise UsageError("a bank cannot be merged into itself", field="into")
        carrier = _carrier(settings, store, origin, target, writes=not dry_run)
        carrier.on_conflict = on_conflict
        done = carrier.plan(progress=progress) if dry_run else carrier.carry(progress=progress)
        return _copied(store, target, done)


def delete_bank(settings: Settings, reference: str, *, dry_run: bool = False) -> BankDeleteResult:
    """Delete a bank from the store: its log, and everything stored beside it.

    This machine no longer reports it as missing. A missing bank, and one whose copy to this store
    is incomplete, must be named by its full ID.

    Args:
        settings: The store and keys.
        reference: The bank, as ``find_bank`` takes it.
        dry_run: Count, and change nothing.

    Raises:
        UnknownBankError: If there is no such bank, and none is missing.
        StoreError: If the store cannot be written. The bank still exists then, unless only its
            bytes could not be scrubbed from the files: run it again.
    """
    require_owner(settings, "banks")
    witness = witness_of(settings)
    if not has_store(settings):
        raise UnknownBankError("there is no store yet", hint="Create one: satchel init")
    with configured_store(settings, read_only=dry_run, lost=True) as store:
        missed = witness.knows(reference)
        with store.reading() as reader:
            begun = is_partial_copy(reader, reference)
            gone = missed and not begun and not bank_exists(reader, reference)
        if gone:
            result = BankDeleteResult(id=reference, dry_run=dry_run)
        else:
            bank = reference if begun else find_bank(store, reference)
            result = _counted(store, bank, dry_run=dry_run)
        if not dry_run:
            with store.writing() as writing:
                writing.remove(result.id)
            if not begun:  # an incomplete copy is not recorded by the witness
                decisions.forget(store, result.id, witness=witness)
            store.scrub()
        return result


def _counted(store: Store, bank: str, *, dry_run: bool) -> BankDeleteResult:
    with store.reading() as reader:
        return BankDeleteResult(
            id=bank,
            name=name_of(reader, bank),
            records=reader.counts(bank),
            blobs=sum(1 for _ in reader.blobs.listed(bank)),
            dry_run=dry_run,
        )


def _unfinished(settings: Settings, store: Store, origin: str, name: str) -> str | None:
    """Return the bank of an unfinished copy with a name; None if the name is free.

    Raises:
        UsageError: If the name is that of a bank that is in use.
    """
    named = banks_called(store, name)
    for bank in named:
        with open_ledger(settings, store, bank).reading() as view:
            begun = is_begun(view, origin)
            if bank != origin and (begun or view.head.size == _FOUNDING):
                return bank
    if named:
        raise BankExistsError(f"a bank named {name!r} already exists", field="name")
    return None


def _carrier(
    settings: Settings, store: Store, origin: str, target: str, *, writes: bool
) -> BankCopier:
    return BankCopier(
        store=store,
        origin=open_ledger(settings, store, origin),
        target=open_ledger(settings, store, target, writes=writes),
    )


def _copied(store: Store, target: str, done: BankCopyCounts) -> BankCopyResult:
    with store.reading() as reader:
        return BankCopyResult(bank=target, name=name_of(reader, target), carried=done)
