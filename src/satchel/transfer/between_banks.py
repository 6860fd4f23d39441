"""Carrying the records of one bank into another of the same store, as one import.

Records keep their bytes and ids and get new leaves. What was said of them comes with them, so that
each stands in the other bank as it stood in its own at one moment; what came with an import stays
with that import's source record. All of it becomes visible together. When it is cut short, doing
it again goes on from there.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import chain, islice
from typing import NamedTuple

import msgspec

from satchel.errors import SlotTakenError
from satchel.ledger.appending.batches import closing
from satchel.ledger.erasure.targets import ERASABLE, blobs_named
from satchel.ledger.folding import MOST_IN_GROUP
from satchel.ledger.ledger import Ledger
from satchel.ledger.logged import Logged
from satchel.ledger.view import View
from satchel.memory.records import State, Status
from satchel.memory.times import now
from satchel.ports.blobs import verified
from satchel.ports.rows import HOLDS, RETIRING, Filter
from satchel.ports.store import Store
from satchel.seal.records import Sealed
from satchel.seal.sealing import seal
from satchel.transfer.arrivals import Arrivals
from satchel.type_info import resolved

GROUP = 1_000
"""Records that are looked at, and added, together."""

_WAS_SO = "as in the bank it came from"

Progress = Callable[[int, int], None]
"""Told of the places of the log that were looked at, and how many there are."""


class OnConflict(StrEnum):
    """What to do with a record when the other bank has a current one for the same thing."""

    SKIP = "skip"
    OVERWRITE = "overwrite"
    ERROR = "error"


class Carried(msgspec.Struct, kw_only=True):
    """What was carried, or would be."""

    records: int = 0
    """Those that the other bank lacked, retired ones included."""

    there: int = 0
    """Those that it has already, or that were erased there."""

    kept: int = 0
    """Those that were left out since it has another one for the same thing."""

    replaced: int = 0
    """Those that took the place of another one."""

    blobs: int = 0
    dry_run: bool = False


class _Part(NamedTuple):
    """A record, and what of it is to be added."""

    logged: Logged
    adds: list[Sealed]
    """The record and the status records that go with it, or none of them."""


@dataclass(kw_only=True)
class Carrier:
    """One bank on its way into another.

    Args:
        store: Where both are.
        origin: The bank that is read.
        target: The bank that it goes into.
        on_conflict: What to do where both speak of the same thing.
        retired: Whether records that are no longer current come along; parents of others always do.
    """

    store: Store
    origin: Ledger
    target: Ledger
    on_conflict: OnConflict = OnConflict.SKIP
    retired: bool = False
    done: Carried = field(default_factory=Carried)
    _arrivals: Arrivals = field(init=False)

    def plan(self, *, progress: Progress | None = None) -> Carried:
        """Return what would be carried; nothing is changed.

        Raises:
            SlotTakenError: If there is a conflict and that is an error.
            VerificationError: If the store is not what was signed.
        """
        return self._walk(writes=False, progress=progress)

    def carry(self, *, progress: Progress | None = None) -> Carried:
        """Carry the records, and make them visible all at once.

        Raises:
            SlotTakenError: If there is a conflict and that is an error: then nothing was written.
                Also if one arose at the very end: do it again.
            UsageError: If one that was cut short was begun with other options.
            ReadOnlyStoreError: If no key may add to the target here.
            VerificationError: If the store is not what was signed.
            StoreError: If it cannot be written; do it again to go on.
        """
        if self.on_conflict is OnConflict.ERROR:
            self._walk(writes=False, progress=None)
        return self._walk(writes=True, progress=progress)

    def _walk(self, *, writes: bool, progress: Progress | None) -> Carried:
        self.done = Carried(dry_run=not writes)
        how = {"on_conflict": str(self.on_conflict), "retired": self.retired}
        with self.origin.reading() as view, self.target.reading() as there:
            arrivals = self._arrivals = Arrivals(view, there, how)
            wanted = Filter(as_of=arrivals.size, retired=self.retired, held=True)
            needed, graves = _ancestors(view, wanted)
        place = -1
        while place < self._arrivals.size - 1:
            with self.origin.reading() as view, self.target.reading() as there:
                found, place = self._next(view, place, needed)
                parts = self._chosen(view, there, found)
                names = [arrivals.name_for(view, there, part.logged) for part in parts]
            if writes:
                self._put(parts, names)
            if progress is not None:
                progress(place + 1, self._arrivals.size)
        if writes:
            self._close(graves)
        return self.done

    def _next(self, view: View, after: int, needed: set[str]) -> tuple[list[Logged], int]:
        """Return the records that come next, and how far the log was looked at for them."""
        wanted, found = Filter(as_of=self._arrivals.size, retired=True, held=True), list[Logged]()
        for logged in view.scan(wanted, after=after):
            after = logged.seq
            if logged.row.type not in ERASABLE:
                continue
            if self.retired or logged.row.retired is None or logged.record.id in needed:
                found.append(logged)
            if len(found) == GROUP:
                return found, after
        return found, self._arrivals.size - 1

    def _chosen(self, view: View, there: View, found: Sequence[Logged]) -> list[_Part]:
        """Return what is to be added of some records, and those that were added before."""
        known = there.places([logged.record.id for logged in found])
        shown = there.get(list(known))
        parts = list[_Part]()
        for logged in found:
            name = logged.record.id
            pending = name in known and name not in shown and there.erasure(name) is None
            if (name in known and not pending) or there.erasure(name) is not None:
                self.done.there += 1
                continue
            conflict = self._conflict(there, logged)
            if conflict is None:
                if pending:
                    parts.append(
                        _Part(logged, [_status(name, "rejected", "another memory was there")])
                    )
                continue
            self.done.records += 1
            said = [] if pending else [*_whole(view, logged), *self._said_of(view, logged)]
            parts.append(_Part(logged, [*said, *conflict]))
        return parts

    def _conflict(self, there: View, logged: Logged) -> list[Sealed] | None:
        """Return what is said of another record for the same thing; None where that one stays."""
        slot, retired = logged.row.slot, logged.row.retired
        other = there.current(slot) if slot is not None and retired is None else None
        if other is None or other.record.id == logged.record.id:
            return []
        if self.on_conflict is OnConflict.ERROR:
            raise SlotTakenError(
                "both banks have a current record for the same key or origin",
                field=logged.record.id,
                hint=f"The other is {other.record.id}. Use --on-conflict skip or overwrite.",
            )
        if self.on_conflict is OnConflict.SKIP:
            self.done.kept += 1
            return None
        self.done.replaced += 1
        return [
            _status(other.record.id, "superseded", "merged from another bank", logged.record.id)
        ]

    def _said_of(self, view: View, logged: Logged) -> list[Sealed]:
        """Return the status records by which a record stands here as it did there.

        Those that name it come as they are. What was said of its whole import is said of it alone.
        """
        row, size = logged.row, self._arrivals.size
        said = [
            one
            for one in view.said_of(row.id, size)
            # What an untrusted owner promoted is promoted nowhere else.
            if not (self._arrivals.external and _state_of(one) == "promoted")
        ]
        retired = hold = False
        for state in map(_state_of, said):
            retired = state in RETIRING or (retired and state != "restored")
            hold = HOLDS.get(state, hold)
        more = list[State]()
        if retired != (row.retired is not None):
            ended = view.retirement(row, size)
            more.append(_as_state(ended.state) if ended is not None else "restored")
        if hold != row.hold:
            more.append("quarantined" if row.hold else "released")
        again = [_status(row.id, state, _WAS_SO) for state in more]
        return [*(one.record for one in said), *again]

    def _put(self, parts: Sequence[_Part], names: Sequence[str]) -> None:
        """Add some records, with what belongs to them beside the log."""
        if not any(part.adds for part in parts):
            return
        self.target.append(self._arrivals.new)
        self._arrivals.new.clear()
        ids = [part.logged.record.id for part in parts]
        self._put_blobs(set().union(*(blobs_named(part.logged.record.body) for part in parts)))
        groups = dict[str, list[Sealed]]()
        for part, name in zip(parts, names, strict=True):
            # A record and what is said of it are never parted.
            if len(groups.setdefault(name, [])) + len(part.adds) > MOST_IN_GROUP:
                self.target.append(groups.pop(name), batch=name)
            groups.setdefault(name, []).extend(part.adds)
        for name, records in groups.items():
            self.target.append(records, batch=name)
        self._put_vectors(ids)

    def _put_blobs(self, named: set[str]) -> None:
        here, there = self.origin.bank, self.target.bank
        with self.store.writing() as writing:
            blobs = writing.blobs
            if next(iter(blobs.listed(here)), None) is None:
                return
            for digest in sorted(named):
                if blobs.has(here, digest) and not blobs.has(there, digest):
                    blobs.put(there, verified(blobs.get(here, digest), digest))
                    self.done.blobs += 1

    def _put_vectors(self, ids: Sequence[str]) -> None:
        here, there = self.origin.bank, self.target.bank
        if not self.store.traits.vectors:
            return
        with self.store.writing() as writing:
            vectors = writing.vectors
            for generation in vectors.generations(here):
                found = vectors.get(here, generation, ids)
                if found:
                    vectors.put(there, generation, found)

    def _close(self, graves: set[str]) -> None:
        """Make all of it visible, with what was said of whole imports, and of erased parents."""
        with self.origin.reading() as view, self.target.reading() as there:
            known = there.places(list(graves))
            erasures = [view.erasure(name) for name in sorted(graves - known.keys())]
            open_ = set(there.open_imports())
        closings = [closing(name, now()) for name in self._arrivals.names if name in open_]
        tombs = [one.record for one in erasures if one is not None]
        if tombs:
            with self.target.reading() as there:
                there_ = there.places([tomb.id for tomb in tombs])
            tombs = [tomb for tomb in tombs if tomb.id not in there_]
        self.target.append([*closings, *self._arrivals.promoted, *tombs])


def _ancestors(view: View, wanted: Filter) -> tuple[set[str], set[str]]:
    """Return the retired records that some are derived from, and those that are erased."""
    needed, graves = set[str](), set[str]()
    records = view.scan(wanted)
    while some := list(islice(records, GROUP)):
        waiting = set(chain.from_iterable(map(_parents, some)))
        while waiting:
            found = view.get(sorted(waiting))
            graves |= {name for name in waiting - found.keys() if view.erasure(name) is not None}
            older = {name: one for name, one in found.items() if one.row.retired is not None}
            waiting = set(chain.from_iterable(map(_parents, older.values()))) - needed - graves
            needed |= older.keys()
            waiting -= needed
    return needed, graves


def _whole(view: View, logged: Logged) -> Iterator[Sealed]:
    """Yield a record; a redacted form behind the record that allows it."""
    redaction = view.redaction(logged.record.id)
    if redaction is not None:
        yield redaction.record
    yield logged.record


def _parents(logged: Logged) -> Iterator[str]:
    return iter(getattr(logged.model, "parent_ids", ()))


def _state_of(logged: Logged) -> str:
    return logged.model.state if isinstance(logged.model, Status) else ""


def _as_state(state: str) -> State:
    return msgspec.convert(state, resolved(State))  # type: ignore[no-any-return]


def _status(target: str, state: State, reason: str, by: str | None = None) -> Sealed:
    return seal(Status(target=target, state=state, reason=reason, by=by, at=now()))
