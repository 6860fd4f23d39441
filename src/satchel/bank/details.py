"""One memory with all that is known of it, and what became of it over time."""

from collections.abc import Iterable, Iterator
from heapq import nlargest
from typing import Any, overload

import msgspec

from satchel.bank.changes import differing
from satchel.bank.memory import CORRECTION, Memory, fields_of, memory_of, notes_of, with_retracted
from satchel.bank.memory_input import find_memory, find_record, versions_of
from satchel.bank.open_bank import OpenBank
from satchel.errors import UsageError
from satchel.ledger.columns import LINKS
from satchel.ledger.projection import VerifiedRecord
from satchel.ledger.view import View
from satchel.model.records import Entry, Status
from satchel.model.values import JsonObject, now
from satchel.ports.rows import RETIRING, Filter

_TOGETHER = 256
_OF_EACH_VERSION = frozenset({"updated_at"})


class RecordProof(msgspec.Struct, frozen=True, kw_only=True):
    """The signed head that a record was proved by."""

    bank: str
    epoch: int
    size: int
    """Records in the log."""

    root: str
    at: str
    """When it was signed."""

    key: str
    """Whose key signed it."""


class MemoryDetails(Memory, frozen=True, kw_only=True, omit_defaults=True):
    """A memory with its record, versions and proof; or a record of another type."""

    record: JsonObject
    """As it was sealed."""

    versions: list[str] = msgspec.field(default_factory=list)
    """Ids of all its versions, oldest first, where there are several."""

    children: list[str] = msgspec.field(default_factory=list)
    """Ids of the memories that were drawn from it."""

    proof: RecordProof
    notes: list[str] = msgspec.field(default_factory=list)
    """What this machine saw of the bank and was given up; whether it is untrusted."""


class VersionEvent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something that was said of a version."""

    state: str
    """``superseded``, ``deleted``, ``restored`` and so on; see ``docs/spec/2-records.md``."""

    at: str
    """When, by the clock of who said it, or else when it arrived."""

    position: int
    by: str | None = None
    """Id of the version that took its place."""

    reason: str | None = None
    actor: str | None = None


class MemoryVersion(Memory, frozen=True, kw_only=True, omit_defaults=True):
    """One version of a memory."""

    differs: dict[str, list[Any]] = msgspec.field(default_factory=dict)
    """What is different from the version before: by name, what it was and what it is; None for
    what is absent."""

    corrects: bool = False
    """Whether it says that the version before was wrong."""

    events: list[VersionEvent] = msgspec.field(default_factory=list)


class History(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The versions of a memory, oldest first."""

    versions: list[MemoryVersion]
    left_out: int = 0
    """Older versions that are not shown, because there are too many, or their text was erased."""

    notes: list[str] = []
    """What this machine saw of the bank and was given up; whether it is untrusted."""

    def __iter__(self) -> Iterator[MemoryVersion]:
        return iter(self.versions)

    def __len__(self) -> int:
        return len(self.versions)

    @overload
    def __getitem__(self, index: int) -> MemoryVersion: ...

    @overload
    def __getitem__(self, index: slice) -> list[MemoryVersion]: ...

    def __getitem__(self, index: int | slice) -> MemoryVersion | list[MemoryVersion]:
        return self.versions[index]

    def __repr__(self) -> str:
        return f"History(versions={self.versions!r})"


def show(bank: OpenBank, wanted: str) -> MemoryDetails:
    """Return a record of any type, with what is known of it.

    Args:
        bank: The bank.
        wanted: Its id, or the first six digits or more of that.

    Raises:
        UnknownMemoryError: If there is none.
    """
    with bank.asked("show").ledger.reading() as view:
        found = find_record(view, wanted)
        moment, head = now(), view.head
        versions = [each.record.id for each in versions_of(view, found)]
        view.require_columns(LINKS)
        children = [
            each.record.id
            for each in view.neighbours(found.record.id, incoming=True)
            if isinstance(each.model, Entry)
        ]
        memory = memory_of(view, found, moment=moment)
        if isinstance(found.model, Entry):
            (memory,) = with_retracted(view, [memory])
        return MemoryDetails(
            **fields_of(memory),
            record=found.record.value,
            versions=versions if len(versions) > 1 else [],
            children=children,
            notes=notes_of(view),
            proof=RecordProof(
                bank=head.bank,
                epoch=head.epoch,
                size=head.size,
                root=head.root,
                at=head.at,
                key=head.key,
            ),
        )


def raw(bank: OpenBank, wanted: str) -> bytes:
    """Return the canonical bytes of a record of any type, which its id is the hash of.

    Args and Raises: as ``show``.
    """
    with bank.asked("show").ledger.reading() as view:
        return find_record(view, wanted).record.body


def history(bank: OpenBank, wanted: str, *, limit: int = 100) -> History:
    """Return the versions of a memory: those that took one another's place, and all of its key.

    Args:
        bank: The bank.
        wanted: Id of any of them, or the first six digits or more of that.
        limit: How many of the newest.

    Raises:
        UnknownMemoryError: If there is no such memory.
        UsageError: If the limit is below 1.
    """
    if limit < 1:
        raise UsageError("the limit must be at least 1 version", field="limit")
    with bank.asked("history").ledger.reading() as view:
        found = find_memory(view, wanted)
        seen, ids = set[int](), sorted(view.versions(found.record.id))
        linked = nlargest(limit + 1, _read(view, ids, seen), key=_place)
        erased = len(ids) - len(seen)
        others = nlargest(limit + 1, _of_slot(view, found.row.slot, seen), key=_place)
        newest = sorted(linked + others, key=_place)[-limit - 1 :]
        before = newest.pop(0) if len(newest) > limit else None
        versions, moment, notes = list[MemoryVersion](), now(), notes_of(view)
        for each in newest:
            versions.append(_version(view, each, before, moment))
            before = each
    return History(versions=versions, left_out=len(seen) - len(versions) + erased, notes=notes)


def _read(view: View, ids: list[str], seen: set[int]) -> Iterator[VerifiedRecord]:
    """Yield what is there of some versions, a few at a time, and note their places."""
    for start in range(0, len(ids), _TOGETHER):
        yield from _new(view.get(ids[start : start + _TOGETHER]).values(), seen)


def _of_slot(view: View, slot: str | None, seen: set[int]) -> Iterator[VerifiedRecord]:
    """Yield what spoke of the same thing, though nothing says that it was replaced."""
    if slot is not None:
        yield from _new(view.scan(Filter(slot=slot, retired=True, held=True)), seen)


def _place(logged: VerifiedRecord) -> int:
    return logged.seq


def _new(found: Iterable[VerifiedRecord], seen: set[int]) -> Iterator[VerifiedRecord]:
    for each in found:
        if each.seq not in seen and isinstance(each.model, Entry):
            seen.add(each.seq)
            yield each


def _version(
    view: View, logged: VerifiedRecord, before: VerifiedRecord | None, moment: str
) -> MemoryVersion:
    events = [_event(each) for each in _statuses(view, logged)]
    return MemoryVersion(
        **fields_of(memory_of(view, logged, moment=moment)),
        differs={} if before is None else _differences(before, logged),
        corrects=before is not None and _corrects(view, before, logged),
        events=events,
    )


def _statuses(view: View, logged: VerifiedRecord) -> list[VerifiedRecord]:
    return view.at([said.seq for said in view.status_events(logged)])


def _event(logged: VerifiedRecord) -> VersionEvent:
    status = logged.model
    assert isinstance(status, Status)  # noqa: S101 - the fold takes no other
    return VersionEvent(
        state=status.state,
        at=status.at or logged.row.at,
        position=logged.seq,
        by=status.by,
        reason=status.reason,
        actor=status.actor,
    )


def _corrects(view: View, before: VerifiedRecord, logged: VerifiedRecord) -> bool:
    return any(
        event.by == logged.record.id and (event.reason or "").split(":")[0] == CORRECTION
        for event in map(_event, _statuses(view, before))
        if event.state in RETIRING
    )


def _differences(before: VerifiedRecord, logged: VerifiedRecord) -> dict[str, list[Any]]:
    one, other = before.record.value, logged.record.value
    names = [name for name in differing(one, other) if name not in _OF_EACH_VERSION]
    return {name: [one.get(name), other.get(name)] for name in names}
