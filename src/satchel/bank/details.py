"""A single memory: its record with proof, and the history of its versions."""

from collections.abc import Iterable, Iterator
from heapq import nlargest
from typing import Any, overload

import msgspec

from satchel.bank.changes import differing
from satchel.bank.memory import (
    CORRECTION,
    Memory,
    fields_of,
    find_memory,
    find_record,
    memory_of,
    notes_of,
    versions_of,
    with_retracted,
)
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
    """The signed head that a record was verified against."""

    bank: str
    epoch: int
    size: int
    """Records in the log."""

    root: str
    at: str
    """When the head was signed."""

    key: str
    """Key that signed the head."""


class MemoryDetails(Memory, frozen=True, kw_only=True, omit_defaults=True):
    """A memory with its record, versions and proof; or a record of another type."""

    record: JsonObject
    """The sealed record."""

    versions: list[str] = msgspec.field(default_factory=list)
    """IDs of all its versions, oldest first, if there are several."""

    children: list[str] = msgspec.field(default_factory=list)
    """IDs of the memories that derive from it."""

    proof: RecordProof
    notes: list[str] = msgspec.field(default_factory=list)
    """Losses of the bank that were accepted, and whether it is untrusted."""


class VersionEvent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A status of a version."""

    state: str
    """``superseded``, ``deleted``, ``restored`` and so on; see ``docs/spec/2-records.md``."""

    at: str
    """When, by the clock of its author, else when it was logged."""

    position: int
    by: str | None = None
    """ID of the version that replaced it."""

    reason: str | None = None
    actor: str | None = None


class MemoryVersion(Memory, frozen=True, kw_only=True, omit_defaults=True):
    """One version of a memory."""

    differs: dict[str, list[Any]] = msgspec.field(default_factory=dict)
    """Changes since the previous version: by name, the old and the new value; None for absent."""

    corrects: bool = False
    """Whether it records that the previous version was wrong."""

    events: list[VersionEvent] = msgspec.field(default_factory=list)


class History(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The versions of a memory, oldest first."""

    versions: list[MemoryVersion]
    left_out: int = 0
    """Older versions that are omitted: beyond the limit, or with erased text."""

    notes: list[str] = []
    """Losses of the bank that were accepted, and whether it is untrusted."""

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


def show(bank: OpenBank, reference: str) -> MemoryDetails:
    """Return a record of any type, with its state, versions and proof.

    Args:
        bank: The bank.
        reference: The record, as for ``find_record``.

    Raises:
        UnknownMemoryError: If there is no such record.
    """
    with bank.asked("show").ledger.reading() as view:
        logged = find_record(view, reference)
        moment, head = now(), view.head
        versions = [each.record.id for each in versions_of(view, logged)]
        view.require_columns(LINKS)
        children = [
            each.record.id
            for each in view.neighbors(logged.record.id, incoming=True)
            if isinstance(each.model, Entry)
        ]
        memory = memory_of(view, logged, moment=moment)
        if isinstance(logged.model, Entry):
            (memory,) = with_retracted(view, [memory])
        return MemoryDetails(
            **fields_of(memory),
            record=logged.record.value,
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


def raw(bank: OpenBank, reference: str) -> bytes:
    """Return the canonical bytes of a record of any type, whose hash is its ID.

    Args and Raises: as for ``show``.
    """
    with bank.asked("show").ledger.reading() as view:
        return find_record(view, reference).record.body


def history(bank: OpenBank, reference: str, *, limit: int = 100) -> History:
    """Return the versions of a memory: those linked by updates, and all others of its key.

    Args:
        bank: The bank.
        reference: Any version, as for ``find_record``.
        limit: Maximum number of versions; the newest are returned.

    Raises:
        UnknownMemoryError: If there is no such memory.
        UsageError: If the limit is below 1.
    """
    if limit < 1:
        raise UsageError("the limit must be at least 1 version", field="limit")
    with bank.asked("history").ledger.reading() as view:
        logged = find_memory(view, reference)
        seen, ids = set[int](), sorted(view.versions(logged.record.id))
        linked = nlargest(limit + 1, _linked_versions(view, ids, seen), key=_position)
        erased = len(ids) - len(seen)
        others = nlargest(limit + 1, _others_of_key(view, logged.row.slot, seen), key=_position)
        newest = sorted(linked + others, key=_position)[-limit - 1 :]
        before = newest.pop(0) if len(newest) > limit else None
        versions, moment, notes = list[MemoryVersion](), now(), notes_of(view)
        for each in newest:
            versions.append(_version(view, each, before, moment))
            before = each
    return History(versions=versions, left_out=len(seen) - len(versions) + erased, notes=notes)


def _linked_versions(view: View, ids: list[str], seen: set[int]) -> Iterator[VerifiedRecord]:
    """Yield versions by ID, without erased ones, and add their positions to ``seen``."""
    for start in range(0, len(ids), _TOGETHER):
        yield from _new(view.get(ids[start : start + _TOGETHER]).values(), seen)


def _others_of_key(view: View, slot: str | None, seen: set[int]) -> Iterator[VerifiedRecord]:
    """Yield entries of the same key that no status links with the versions seen so far."""
    if slot is not None:
        yield from _new(view.scan(Filter(slot=slot, retired=True, held=True)), seen)


def _position(logged: VerifiedRecord) -> int:
    return logged.seq


def _new(records: Iterable[VerifiedRecord], seen: set[int]) -> Iterator[VerifiedRecord]:
    for each in records:
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
    return view.at([status.seq for status in view.status_events(logged)])


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
    old, new = before.record.value, logged.record.value
    names = [name for name in differing(old, new) if name not in _OF_EACH_VERSION]
    return {name: [old.get(name), new.get(name)] for name in names}
