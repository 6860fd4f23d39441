"""The state of a bank's records as its log defines it, at any size of the log.

Whether a record is current, retired or not yet visible is decided here alone, from status, source,
receipt and erasure records that are verified to be in the log. A store has the result in columns
for its searches; these are compared with this state and not trusted beyond that.

An import is a batch: its ``source`` record, then groups, each a receipt that says how many of the
following records belong to the batch, then a receipt that closes it. Until then its records are
invisible and its status records have no effect. A status of its source record that says ``undone``
has the same effect. The state of a bank is cached outside the store, because opening a bank would
otherwise read all of these records (see ``FoldCache``). Source: docs/spec/5-log.md, 5.8.
"""

import os
import threading
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec
from blake3 import blake3

from satchel.crypto.log import Head, VerifiedTree
from satchel.crypto.sealed_records import Sealed
from satchel.errors import SatchelError, VerificationError
from satchel.model.records import Erasure, Model, Receipt, Redaction, Source, Status
from satchel.model.values import resolved
from satchel.ports.rows import HOLDS, PENDING, RETIRING, Row, RowState
from satchel.ports.store import RangeChange, RetiredFilter
from satchel.runtime.files import PRIVATE_FILE, atomic_write
from satchel.runtime.private_files import open_unshared

Likely = Callable[[bytes], bool]
"""Returns whether a record with these canonical bytes may match."""


@dataclass(frozen=True, slots=True)
class VerifiedRecord:
    """A record that is verified to be at its position in the log of its bank."""

    record: Sealed
    model: Model
    """Its typed value."""

    row: Row
    """Its columns, derived from the bytes and the log, as of the requested moment."""

    @property
    def seq(self) -> int:
        """Its log position."""
        return self.row.seq


@dataclass(frozen=True, slots=True, kw_only=True)
class LogImport:
    """One import into a bank."""

    source: str
    """ID of its source record."""

    place: int
    """Log position of the source record."""

    records: int
    """Records imported so far, statuses included."""

    complete: bool
    """Whether its records are visible."""

    undone: bool
    """Whether it was undone."""


class StatusEvent(NamedTuple):
    """The effect of one status record on a record."""

    place: int
    """Log position from which it applies."""

    seq: int
    """Log position of the status record; differs from ``place`` if it was imported."""

    state: str
    by: str | None
    """ID of the record that replaces the other."""


class Promotion(NamedTuple):
    """A record that raises the trust in another."""

    trust: str | None
    """The trust class that it sets; None if it sets none."""

    batch: int
    """Number of the import that contains it; 0 if it was not imported."""


class Precondition(NamedTuple):
    """The state that an append is based on."""

    size: int
    """Records in the log."""

    records: Sequence[tuple[str, int]]
    """IDs and log positions of the records whose state must not have changed."""

    sessions: Sequence[str] = ()
    """Sessions that must have no new records."""


def column_mismatch(row: Row) -> VerificationError:
    """Return the error for a store whose columns differ from a record."""
    return VerificationError(
        f"the index contradicts record {row.seq}",
        hint="The store was changed by another program. See: satchel doctor.",
    )


GROUP, CLOSED = "batch_group", "batch_closed"
"""Actions of the receipts that make up a batch."""

MOST_IN_GROUP = 1 << 16
"""Maximum number of records in one group; a receipt that names more has no effect."""

FOLDED = frozenset({"status", "source", "receipt", "erasure", "redaction"})
"""Types of the records that change the state of others."""


class LogFact(NamedTuple):
    """A record of the log that changes the state of others."""

    seq: int
    id: str
    model: Model


class Effect(NamedTuple):
    """The change that new records make to existing ones."""

    targets: list[str]
    """IDs of the records whose state may have changed."""

    sweeps: list[RangeChange]


@dataclass(slots=True)
class LogBatch:
    """One import."""

    source: str
    """ID of its source record."""

    number: int
    """Log position of the source record; rows of the batch have this number."""

    spans: list[tuple[int, int]] = field(default_factory=list)
    """First and last log positions of its records; records between two spans are not of the batch.
    """

    closed: int | None = None
    """Log position of the receipt that closed it."""

    def is_open(self, size: int) -> bool:
        """Return whether the batch was open when the log had ``size`` records."""
        return self.closed is None or self.closed >= size


class _Event(NamedTuple):
    seq: int
    state: str
    batch: LogBatch | None
    by: str | None = None
    trust: str | None = None
    """The trust class that a promotion sets, if it names one."""

    def place(self) -> int | None:
        """Return the log position from which it applies."""
        return self.seq if self.batch is None else self.batch.closed


class _SavedEvent(msgspec.Struct, frozen=True, array_like=True, gc=False):
    seq: int
    state: str
    batch: str | None = None
    """ID of the import's source record."""

    by: str | None = None
    trust: str | None = None

    @classmethod
    def of(cls, event: _Event) -> "_SavedEvent":
        source = None if event.batch is None else event.batch.source
        return cls(event.seq, event.state, source, event.by, event.trust)

    def event(self, batches: Mapping[str, LogBatch]) -> _Event:
        batch = None if self.batch is None else batches[self.batch]
        return _Event(self.seq, self.state, batch, self.by, self.trust)


class _SavedBatch(msgspec.Struct, frozen=True, array_like=True):
    source: str
    number: int
    spans: list[tuple[int, int]]
    closed: int | None


class SavedFold(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a log's records, as it is saved."""

    events: dict[str, msgspec.Raw]
    """By the ID of the record that the events are about; each is decoded on first use."""

    replaced: dict[str, list[str]]
    batches: list[_SavedBatch]
    erased: dict[str, int]
    redacted: dict[str, list[tuple[int, str]]]


_STAYS = RowState(None, hold=False)


class Fold:
    """The state of a log's records. It only grows, so one instance serves views of all sizes."""

    def __init__(self) -> None:
        self.size = 0
        """Records of the log that were read."""

        self._lock = threading.Lock()
        self._events: dict[str, tuple[_Event, ...]] = {}
        self._saved: dict[str, msgspec.Raw] = {}
        """Saved events that are not decoded yet."""

        self._replaced: dict[str, list[str]] = {}  # by the record that replaced them
        self._batches: dict[str, LogBatch] = {}
        self._starts: list[int] = []
        self._spans: list[tuple[int, LogBatch]] = []
        self._erased: dict[str, int] = {}
        self._redacted: dict[str, list[tuple[int, str]]] = {}

    def saved(self, size: int) -> SavedFold:
        """Return the state of the first ``size`` records, for ``restored``."""
        with self._lock:
            events = dict(self._saved)
            for target, changes in list(self._events.items()):
                counted = [_SavedEvent.of(event) for event in changes if event.seq < size]
                events.pop(target, None)
                if counted:
                    events[target] = msgspec.Raw(msgspec.msgpack.encode(counted))
            return SavedFold(
                events=events,
                replaced={by: list(targets) for by, targets in self._replaced.items()},
                batches=[
                    _SavedBatch(
                        batch.source,
                        batch.number,
                        [span for span in batch.spans if span[0] <= size],
                        None if batch.is_open(size) else batch.closed,
                    )
                    for batch in self._batches.values()
                    if batch.number < size
                ],
                erased={name: seq for name, seq in self._erased.items() if seq < size},
                redacted={
                    name: [one for one in changes if one[0] < size]
                    for name, changes in self._redacted.items()
                },
            )

    @classmethod
    def restored(cls, saved: SavedFold, size: int) -> "Fold":
        """Return the state of the first ``size`` records from what ``saved`` returned."""
        fold = cls()
        fold.size = size
        fold._saved, fold._replaced = saved.events, saved.replaced
        fold._erased, fold._redacted = saved.erased, saved.redacted
        for imported in saved.batches:
            batch = LogBatch(imported.source, imported.number, imported.spans, imported.closed)
            fold._batches[imported.source] = batch
            fold._spans += [(last, batch) for _, last in imported.spans]
        fold._spans.sort(key=lambda span: span[0])
        fold._starts = sorted(first for imported in saved.batches for first, _ in imported.spans)
        return fold

    def _events_of(self, identity: str) -> tuple[_Event, ...]:
        """Return the events of a record, as far as the log was read."""
        events = self._events.get(identity)
        if events is None:
            raw = self._saved.get(identity)
            if raw is None:
                return ()
            found = msgspec.msgpack.decode(raw, type=resolved(list[_SavedEvent]))
            made = tuple(one.event(self._batches) for one in found)
            # A caller that decoded events since then has these as well.
            events = self._events.setdefault(identity, made)
        return events

    def _all_said(self) -> list[tuple[str, tuple[_Event, ...]]]:
        """Return the events of all records."""
        for target in self._saved:
            self._events_of(target)
        return list(self._events.items())

    def take(self, facts: Iterable[LogFact], size: int) -> Effect:
        """Read records up to ``size`` and return the change that they make.

        Args:
            facts: All records of the types ``FOLDED`` from ``self.size`` on, in order; they may
                include records that were read before.
            size: Number of records in the log, these included.
        """
        effect = Effect([], [])
        with self._lock:
            for fact in facts:
                if fact.seq >= self.size:
                    self._take(fact, effect)
            self.size = max(self.size, size)
        return effect

    def forget_from(self, size: int) -> None:
        """Forget the records from a log position on, because they were not committed."""
        with self._lock:
            remaining = {
                target: tuple(event for event in events if event.seq < size)
                for target, events in list(self._events.items())
            }
            self._events = {target: events for target, events in remaining.items() if events}
            self._erased = {name: seq for name, seq in self._erased.items() if seq < size}
            for name, said in list(self._redacted.items()):
                self._redacted[name] = [one for one in said if one[0] < size]
            while self._starts and self._starts[-1] > size:  # its receipt is one before
                self._starts.pop()
                self._spans.pop()[1].spans.pop()
            for batch in list(self._batches.values()):
                if batch.number >= size:
                    del self._batches[batch.source]
                elif batch.closed is not None and batch.closed >= size:
                    batch.closed = None
            self.size = size

    def standing(self, identity: str, seq: int, size: int) -> RowState:
        """Return the state of a record when the log had ``size`` records."""
        batch = self._batch_at(seq)
        events = self._all_events(identity, seq)
        if batch is None and not events:
            return _STAYS
        retired, hold = None, False
        for place, _, state in sorted(self._counted(events, size)):
            if state in RETIRING and retired is None:
                retired = place
            elif state == "restored":
                retired = None
            hold = HOLDS.get(state, hold)
        if retired is None and batch is not None and batch.is_open(size):
            retired = PENDING
        return RowState(retired, hold)

    def status_events(self, identity: str, seq: int, size: int) -> list[StatusEvent]:
        """Return the status events of a record when the log had ``size`` records, in order."""
        events = self._events_of(identity)
        batch = self._batch_at(seq)
        if batch is not None:
            events += self._events_of(batch.source)
        result = (
            StatusEvent(event.place() or 0, event.seq, event.state, event.by) for event in events
        )
        counted = {(place, seq) for place, seq, _ in self._counted(events, size)}
        return sorted(said for said in result if said[:2] in counted)

    def versions(self, identity: str, size: int) -> set[str]:
        """Return the IDs of all versions of a record, earlier and later ones included."""
        result, waiting = {identity}, [identity]
        while waiting:
            one = waiting.pop()
            before = [each for each in self._replaced.get(one, ()) if one in self._by(each, size)]
            new = {*before, *self._by(one, size)} - result
            result |= new
            waiting += new
        return result

    def _by(self, identity: str, size: int) -> set[str]:
        """Return the records that replaced a record."""
        events = [event for event in self._events_of(identity) if event.by is not None]
        counted = {seq for _, seq, _ in self._counted(events, size)}
        return {event.by for event in events if event.by is not None and event.seq in counted}

    def is_same(
        self, was: Precondition, size: int, changing: AbstractSet[str] = frozenset()
    ) -> bool:
        """Return whether the state that an append is based on is unchanged.

        Args:
            was: The state.
            size: Number of records in the log now.
            changing: IDs of records that are about to change.
        """
        for identity, seq in was.records:
            batch = self._batch_at(seq)
            if identity in changing or (batch is not None and batch.source in changing):
                return False
            if self.standing(identity, seq, was.size) != self.standing(identity, seq, size):
                return False
        return True

    def promotions(self, identity: str, size: int) -> list[Promotion]:
        """Return the promotions of a record when the log had ``size`` records."""
        return [
            Promotion(event.trust, 0 if event.batch is None else event.batch.number)
            for event in self._events_of(identity)
            if event.state == "promoted" and self._counts(event, size)
        ]

    def retired_since(self, size: int) -> list[str]:
        """Return IDs of records that may have been retired after the first ``size`` records.

        The newest status comes first. An import that was undone is named by its source record.
        """
        result = {
            target: event.seq
            for target, events in self._all_said()
            for event in events
            if event.state in RETIRING and not self._counts(event, size)
        }
        return sorted(result, key=lambda target: -result[target])

    def batch_number(self, seq: int) -> int:
        """Return the number of the batch at a log position; 0 if there is none."""
        batch = self._batch_at(seq)
        return 0 if batch is None else batch.number

    def batch(self, source: str) -> LogBatch | None:
        """Return the batch of a source record."""
        return self._batches.get(source)

    def batches(self) -> list[LogBatch]:
        """Return the imports, oldest first."""
        with self._lock:
            return sorted(self._batches.values(), key=attrgetter("number"))

    def is_undone(self, batch: LogBatch, size: int) -> bool:
        """Return whether an import was undone when the log had ``size`` records."""
        undone = False
        for event in self._events_of(batch.source):
            if event.batch is None and event.seq < size:
                undone = (undone or event.state in RETIRING) and event.state != "restored"
        return undone

    def is_erased(self, identity: str, size: int) -> bool:
        """Return whether a record was erased when the log had ``size`` records."""
        return self._erased.get(identity, size) < size

    def redaction(self, identity: str, size: int) -> tuple[int, str] | None:
        """Return the log position of a record's last redaction, and the hash of its form."""
        said = self._redacted.get(identity, ())
        return next((one for one in reversed(said) if one[0] < size), None)

    def redacted(self, identity: str, size: int) -> str | None:
        """Return the hash of a record's redacted form; None if it is not redacted."""
        found = self.redaction(identity, size) if self._redacted else None
        return None if found is None else found[1]

    @property
    def has_erasures(self) -> bool:
        """Whether anything was erased, as far as the log was read."""
        return bool(self._erased)

    def erased_at(self, identity: str) -> int | None:
        """Return the log position of the erasure record of a record."""
        return self._erased.get(identity)

    def retirement(self, identity: str, seq: int, size: int) -> StatusEvent | None:
        """Return the event that retired a record as of ``size`` records; None if it was current."""
        retired = None
        for said in self.status_events(identity, seq, size):
            if said.state in RETIRING:
                retired = retired or said
            elif said.state == "restored":
                retired = None
        return retired

    def status_positions(self, identity: str, size: int) -> list[int]:
        """Return the log positions of the status records about a record, where they apply."""
        return [seq for _, seq, _ in sorted(self._counted(self._events_of(identity), size))]

    def open_spans(self, size: int) -> list[tuple[int, int]]:
        """Return the first and last log positions of the spans whose records are not visible yet.

        The receipts between two groups of one import are included.
        """
        spans: list[tuple[int, int]] = []
        for (last, batch), first in zip(self._spans, self._starts, strict=True):
            if first < size and batch.is_open(size):
                if spans and spans[-1][1] == first - 2:
                    first = spans.pop()[0]  # noqa: PLW2901 - one span
                spans.append((first, last))
        return spans

    def _all_events(self, identity: str, seq: int) -> tuple[_Event, ...]:
        """Return the events of a record, and of the import that contains it."""
        batch = self._batch_at(seq)
        events = self._events_of(identity)
        return events if batch is None else events + self._events_of(batch.source)

    def _take(self, fact: LogFact, effect: Effect) -> None:
        seq, identity, model = fact
        batch = self._batch_at(seq)
        if isinstance(model, Status):
            event = _Event(seq, model.state, batch, model.by, _named_trust(model))
            self._events[model.target] = (*self._events_of(model.target), event)
            if model.by is not None:
                self._replaced.setdefault(model.by, []).append(model.target)
            if batch is None:
                effect.targets.append(model.target)
                self._sweep(model.target, event, effect)
        elif isinstance(model, Erasure):
            self._erased.setdefault(model.entry, seq)
        elif isinstance(model, Redaction):  # also in an import, for a form that it contains
            self._redacted.setdefault(model.entry, []).append((seq, model.result))
        elif batch is not None:
            return
        elif isinstance(model, Source):
            self._batches.setdefault(identity, LogBatch(identity, seq))
        elif isinstance(model, Receipt):
            self._take_receipt(seq, model, effect)

    def _take_receipt(self, seq: int, receipt: Receipt, effect: Effect) -> None:
        batch = self._batches.get(str(receipt.result.get("source")))
        if batch is None or batch.closed is not None:
            return
        count = _count(receipt.result.get("records"))
        if receipt.action == GROUP and count:
            batch.spans.append((seq + 1, seq + count))
            self._spans.append((seq + count, batch))  # first: a reader finds it by its start
            self._starts.append(seq + 1)
        elif receipt.action == CLOSED:
            batch.closed = seq
            effect.sweeps.extend(
                RangeChange(*span, RetiredFilter.PENDING, retired=None) for span in batch.spans
            )
            effect.targets.extend(self._targets(batch))
            for target in self._targets(batch):
                for event in self._events[target]:
                    if event.batch is batch:
                        self._sweep(target, event, effect)

    def _targets(self, batch: LogBatch) -> list[str]:
        """Return the records that an import changes."""
        return [
            target
            for target, events in self._all_said()
            if any(event.batch is batch for event in events)
        ]

    def _sweep(self, source: str, event: _Event, effect: Effect) -> None:
        """Note the changes of a status that applies to a whole import."""
        batch = self._batches.get(source)
        if batch is None:
            return
        if batch.closed is not None:
            effect.targets.extend(self._targets(batch))
        for span in batch.spans:
            if event.state in RETIRING:
                effect.sweeps.append(
                    RangeChange(*span, RetiredFilter.CURRENT, retired=event.place())
                )
                effect.sweeps.append(
                    RangeChange(*span, RetiredFilter.PENDING, retired=event.place())
                )
            elif event.state == "restored":
                again = None if batch.closed is not None else PENDING
                effect.sweeps.append(RangeChange(*span, RetiredFilter.RETIRED, retired=again))
            elif event.state in HOLDS:
                effect.sweeps.append(RangeChange(*span, None, hold=HOLDS[event.state]))

    def _counted(self, events: Iterable[_Event], size: int) -> Iterator[tuple[int, int, str]]:
        """Yield the events in force at a size: applicable from, log position, state."""
        for event in events:
            place = event.place()
            if place is not None and self._counts(event, size):
                yield place, event.seq, event.state

    def _counts(self, event: _Event, size: int) -> bool:
        place = event.place()
        if place is None or place >= size:
            return False
        return event.batch is None or not self.is_undone(event.batch, size)

    def _batch_at(self, seq: int) -> LogBatch | None:
        found = bisect_right(self._starts, seq) - 1
        if found < 0:
            return None
        last, batch = self._spans[found]
        return batch if seq <= last else None


def _named_trust(status: Status) -> str | None:
    trust = status.metadata.get("trust") if status.state == "promoted" else None
    return trust if isinstance(trust, str) else None


def _count(value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= MOST_IN_GROUP:
        return value
    return 0


_SEAL = 32
_T = TypeVar("_T")


class CacheFile:
    """One file with a cached value.

    Args:
        path: The file; None to cache nothing.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path

    def read(self, type_: type[_T]) -> _T | None:
        """Return the value that was written last; None if there is none or it cannot be read."""
        if self._path is None:
            return None
        with suppress(OSError, SatchelError, msgspec.DecodeError):
            with (
                open_unshared(self._path, os.O_RDONLY) as handle,
                os.fdopen(os.dup(handle), "rb") as file,
            ):
                data = file.read()
            seal, body = data[:_SEAL], data[_SEAL:]
            if blake3(body).digest() == seal:
                return msgspec.msgpack.decode(body, type=resolved(type_))
        return None

    def write(self, value: object) -> None:
        """Replace the cached value; nothing happens if it cannot be written."""
        if self._path is None:
            return
        body = msgspec.msgpack.encode(value)
        with suppress(OSError, SatchelError), atomic_write(self._path, mode=PRIVATE_FILE) as stream:
            stream.write(blake3(body).digest() + body)


_FORMAT = "satchel-fold/1"
_MANY = 256
"""Number of records from which caching is worth it."""

_PART = 8
"""The cache is rewritten when the number of records has grown by a fraction of one in this many."""


class KnownFold(NamedTuple):
    """The cached state of the start of a log."""

    fold: Fold
    size: int
    counts: dict[str, int]
    """Number of records, by type."""


class FoldCache:
    """The cached state of one bank.

    A cached state is valid for a log that starts with the head for which it was computed; the tree
    verifies that. The records after it are read from the store and verified; the counts of both
    heads show that none is missing. So an edit of an older record that changes others has no effect
    here; ``satchel doctor`` does not use the cache and finds it.

    Args:
        bank: ID of the bank.
        path: The file, outside the store; None to cache nothing.
    """

    def __init__(self, bank: str, path: Path | None) -> None:
        self._bank = bank
        self._file = CacheFile(path)

    def read(self, tree: VerifiedTree) -> KnownFold:
        """Return the cached state, if the log under a head starts with it."""
        cached = self._file.read(_CachedFold)
        if cached is None or (cached.format, cached.bank) != (_FORMAT, self._bank):
            return KnownFold(Fold(), 0, {})
        try:
            is_start = cached.size <= tree.size and tree.root_id(cached.size) == cached.root
        except VerificationError:
            is_start = False
        if not is_start:
            return KnownFold(Fold(), 0, {})
        return KnownFold(Fold.restored(cached.fold, cached.size), cached.size, cached.counts)

    def write(self, head: Head, fold: Fold, known: KnownFold) -> None:
        """Write the state of a log, if it is much larger than the cached one.

        Args:
            head: The head of the log.
            fold: The state.
            known: The cached state.
        """
        before = _speaking(known.counts)
        if _speaking(head.counts) - before < max(_MANY, before // _PART):
            return
        self._file.write(
            _CachedFold(
                format=_FORMAT,
                bank=self._bank,
                size=head.size,
                root=head.root,
                counts=head.counts,
                fold=fold.saved(head.size),
            )
        )


class _CachedFold(msgspec.Struct, frozen=True, kw_only=True):
    format: str
    bank: str
    size: int
    root: str
    counts: dict[str, int]
    fold: SavedFold


def _speaking(counts: dict[str, int]) -> int:
    return sum(counts.get(name, 0) for name in FOLDED)
