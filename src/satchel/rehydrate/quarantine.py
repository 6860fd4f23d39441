"""Quarantine: memories that are neither recalled nor provided until a person has reviewed them.

Only the owner quarantines memories; reading never does. What reads like a prompt is withheld from
context whether it is in quarantine or not (``satchel.rehydrate``).
"""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from satchel.bank.changes import MOST_TRIES, MemoryChange, change_states
from satchel.bank.machine_keys import require_owner
from satchel.bank.memory import Memory, find_memory, find_record, memory_of, notes_of
from satchel.bank.open_bank import OpenBank
from satchel.config.options import NOT_FOR_MODELS
from satchel.crypto.sealed_records import Sealed, seal
from satchel.errors import ChangedError, UnknownMemoryError, UsageError
from satchel.ledger.projection import VerifiedRecord
from satchel.ledger.view import View
from satchel.model.records import Entry, Source, State, Status
from satchel.model.text import entry_statements
from satchel.model.values import Component, TrustClass, now
from satchel.ports.operations import operation, texts
from satchel.ports.rows import Filter
from satchel.recall.order import effective_trust, is_trusted
from satchel.recall.search import trust_from
from satchel.rehydrate.options import (
    PromoteOptions,
    QuarantineListOptions,
    QuarantineShowOptions,
    ReleaseOptions,
    ReviewOptions,
    ScanOptions,
)
from satchel.rehydrate.request import ENFORCED
from satchel.screening.injection import FROM_OUTSIDE, is_released, reasons_against

ACTOR = "satchel quarantine scan"

_READ = "satchel rehydrate"
"""Actor of memories that earlier versions quarantined at read time."""

_GROUP = 1000
_PROGRESS_INTERVAL = 100
"""Memories between two progress reports."""

_QUARANTINED = Filter(types=frozenset(Component), held=True)
_STATUSES = Filter(types=frozenset({"status"}), retired=True, held=True)
_MOST_CHARACTERS = 1 << 16


class FlaggedMemory(msgspec.Struct, frozen=True, kw_only=True):
    """A memory that reads like a prompt."""

    memory: Memory
    trust: str
    reasons: list[str]
    quarantined: bool
    """Whether it is from outside, and therefore quarantined."""


class QuarantineScan(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The result of scanning a bank."""

    memories: int
    """Memories that were searched."""

    flagged: list[FlaggedMemory]
    notes: list[str] = []
    dry_run: bool = False


class QuarantinedMemory(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A memory in quarantine."""

    memory: Memory
    trust: str
    since: str | None = None
    """When it was quarantined."""

    reason: str | None = None
    actor: str | None = None
    """Who quarantined it."""

    findings: list[str] = []
    """Findings of a scan now, including imperatives from any author."""


class QuarantineList(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Quarantined memories, newest first."""

    held: list[QuarantinedMemory]
    more: bool = False
    """Whether there are more than the limit."""

    notes: list[str] = []


@operation(
    QuarantineListOptions,
    name="quarantine list",
    example="satchel quarantine list",
    absent=NOT_FOR_MODELS,
)
def list_quarantine(bank: OpenBank, options: QuarantineListOptions) -> QuarantineList:
    """List quarantined memories, newest first."""
    require_owner(bank.settings, "quarantine")
    quarantined, seen = list[QuarantinedMemory](), set[str]()
    with bank.ledger.reading() as view:
        for logged in view.newest(_STATUSES):
            status = logged.model
            if (
                not isinstance(status, Status)
                or status.state != "quarantined"
                or status.target in seen
            ):
                continue
            seen.add(status.target)
            target = view.get([status.target]).get(status.target)
            if target is None or not target.row.hold or target.row.retired is not None:
                continue
            if isinstance(target.model, Entry):
                if len(quarantined) == options.limit:
                    return QuarantineList(held=quarantined, more=True, notes=notes_of(view))
                quarantined.append(_quarantined_memory(view, target, status))
        return QuarantineList(held=quarantined, notes=notes_of(view))


@operation(
    QuarantineShowOptions,
    name="quarantine show",
    example="satchel quarantine show 0f3c12",
    absent=NOT_FOR_MODELS,
)
def show_held(bank: OpenBank, options: QuarantineShowOptions) -> QuarantinedMemory:
    """Show a quarantined memory, the reason, and what was detected in its text.

    Raises:
        UnknownMemoryError: If there is none.
        UsageError: If it is not in quarantine.
    """
    require_owner(bank.settings, "quarantine")
    with bank.ledger.reading() as view:
        target = find_memory(view, options.memory)
        if not target.row.hold:
            raise UsageError(
                "the memory is not in quarantine", field="id", hint="See: satchel show ID."
            )
        return _quarantined_memory(view, target, _last_quarantine(view, target))


@operation(
    ScanOptions,
    name="quarantine scan",
    example="satchel quarantine scan --dry-run",
    absent=NOT_FOR_MODELS,
)
def screen_bank(bank: OpenBank, options: ScanOptions) -> QuarantineScan:
    """Scan all memories for text that reads like a prompt, and quarantine what is from outside.

    Memories that you or your agent wrote are reported, and stay where they are.
    """
    require_owner(bank.settings, "quarantine")
    enforce: Any = options.enforce or bank.settings.options.rehydrate.enforce
    if enforce not in ENFORCED:
        raise UsageError(f"enforce must be one of {', '.join(ENFORCED)}", field="rehydrate.enforce")
    flagged, count, moment = list[FlaggedMemory](), 0, now()
    with bank.ledger.reading() as view:
        total = sum(view.head.counts.get(each, 0) for each in Component)
        for logged in view.newest(Filter(types=frozenset(Component))):
            if options.progress is not None and count % _PROGRESS_INTERVAL == 0:
                options.progress(count, total)
            entry = logged.model
            if not isinstance(entry, Entry):
                continue
            count += 1
            trust = effective_trust(view, logged)
            reasons = reasons_against(entry_statements(entry), logged.record.type, trust, enforce)
            if reasons and not is_released(view, logged):
                flagged.append(
                    FlaggedMemory(
                        memory=memory_of(view, logged, moment=moment),
                        trust=trust.value,
                        reasons=reasons,
                        quarantined=trust in FROM_OUTSIDE,
                    )
                )
        notes = notes_of(view)
    if not options.dry_run:
        _quarantine(bank, [each for each in flagged if each.quarantined])
    return QuarantineScan(memories=count, flagged=flagged, notes=notes, dry_run=options.dry_run)


@operation(
    ReviewOptions,
    name="quarantine add",
    example='satchel quarantine add 0f3c12 --reason "copied from a web page"',
    items="memories",
    absent=NOT_FOR_MODELS,
)
def quarantine(bank: OpenBank, options: ReviewOptions) -> list[MemoryChange]:
    """Quarantine memories: they are not recalled, listed or provided until they are released.

    Raises:
        UnknownMemoryError: If there is no such memory.
    """
    require_owner(bank.settings, "quarantine")

    def move(_view: View, each: VerifiedRecord) -> State | None:
        return "quarantined" if not each.row.hold and each.row.retired is None else None

    return _moved(bank, texts(options.memories), move, options)


@operation(
    ReleaseOptions,
    name="quarantine release",
    example='satchel quarantine release 0f3c12 --reason "a quotation"',
    items="memories",
    absent=NOT_FOR_MODELS,
)
def release(bank: OpenBank, options: ReleaseOptions) -> list[MemoryChange]:
    """Release memories: provide them as context although they read like a prompt.

    They stay released. Review each first: `satchel quarantine show ID`, `satchel show ID`.

    Raises:
        UnknownMemoryError: If there is no such memory.
        UsageError: If no memory is named.
    """
    require_owner(bank.settings, "quarantine")
    names = [*texts(options.memories), *(_own_quarantined(bank) if options.own else ())]
    if options.own and not names:
        return []
    return _moved(bank, names, _released, options)


@operation(
    ReviewOptions,
    name="quarantine reject",
    example='satchel quarantine reject 0f3c12 --reason "a web page said so"',
    items="memories",
    absent=NOT_FOR_MODELS,
)
def reject(bank: OpenBank, options: ReviewOptions) -> list[MemoryChange]:
    """Reject memories as false, in quarantine or not. Their text stays in the log, for the history.

    Raises:
        UnknownMemoryError: If there is no such memory.
    """
    require_owner(bank.settings, "quarantine")

    def move(_view: View, each: VerifiedRecord) -> State | None:
        return "rejected" if each.row.retired is None else None

    return _moved(bank, texts(options.memories), move, options)


def _moved(
    bank: OpenBank,
    names: Sequence[str],
    move: Callable[[View, VerifiedRecord], State | None],
    options: ReviewOptions | ReleaseOptions,
) -> list[MemoryChange]:
    return change_states(bank, names, move, options.reason, options.actor, dry_run=options.dry_run)


def _released(view: View, each: VerifiedRecord) -> State | None:
    """Return ``released`` for a memory that is quarantined or would be withheld."""
    entry = each.model
    if each.row.retired is not None or not isinstance(entry, Entry):
        return None
    if each.row.hold:
        return "released"
    if is_released(view, each):
        return None
    text = entry_statements(entry)[:_MOST_CHARACTERS]
    reasons = reasons_against(text, each.record.type, effective_trust(view, each), "all")
    return "released" if reasons else None


def _own_quarantined(bank: OpenBank) -> list[str]:
    """Return the IDs of memories not from outside that an earlier version quarantined."""
    ids = list[str]()
    with bank.ledger.reading() as view:
        for logged in view.newest(_QUARANTINED):
            status = _last_quarantine(view, logged)
            was_read = logged.row.hold and status is not None and status.actor == _READ
            if was_read and effective_trust(view, logged) not in FROM_OUTSIDE:
                ids.append(logged.record.id)
    return ids


def _quarantine(bank: OpenBank, flagged: Sequence[FlaggedMemory]) -> None:
    at = now()
    for start in range(0, len(flagged), _GROUP):
        group = flagged[start : start + _GROUP]
        with bank.ledger.reading() as view:
            existing = view.get([each.memory.id for each in group])
            unchanged = view.unchanged(existing.values())
        bank.ledger.append(
            [
                seal(
                    Status(
                        target=each.memory.id,
                        state="quarantined",
                        reason="; ".join(each.reasons),
                        actor=ACTOR,
                        at=at,
                    )
                )
                for each in group
            ],
            precondition=unchanged,
        )


def _last_quarantine(view: View, target: VerifiedRecord) -> Status | None:
    statuses = (logged.model for logged in reversed(view.statuses_of(target.record.id)))
    return next(
        (
            status
            for status in statuses
            if isinstance(status, Status) and status.state == "quarantined"
        ),
        None,
    )


def _quarantined_memory(
    view: View, target: VerifiedRecord, status: Status | None
) -> QuarantinedMemory:
    entry, trust = target.model, effective_trust(view, target)
    assert isinstance(entry, Entry)  # noqa: S101 - callers check it
    text = entry_statements(entry)[:_MOST_CHARACTERS]
    return QuarantinedMemory(
        memory=memory_of(view, target, moment=now()),
        trust=trust.value,
        since=status.at if status else None,
        reason=status.reason if status else None,
        actor=status.actor if status else None,
        findings=reasons_against(text, target.record.type, trust, "all"),
    )


class TrustPromotion(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The promotion of a record."""

    id: str
    type: str
    before: str
    """Its trust class before."""

    after: str
    is_changed: bool
    dry_run: bool = False


@operation(
    PromoteOptions,
    name="promote",
    example='satchel promote 0f3c12 --trust agent --reason "read it"',
    items="memories",
    absent=NOT_FOR_MODELS,
)
def promote(bank: OpenBank, options: PromoteOptions) -> list[TrustPromotion]:
    """Raise the trust of memories from outside, or of all that an import added. All, or none.

    Procedures and identity from outside are provided as context only once they are promoted. The
    trust of no memory is lowered.

    Raises:
        UnknownMemoryError: If there is no such memory, or it is a record of another type.
        UsageError: If no memory is named.
    """
    require_owner(bank.settings, "promote")
    trust = trust_from(options.trust, "trust") or TrustClass.USER
    names, reason, actor = texts(options.memories), options.reason, options.actor
    if not names:
        raise UsageError("no memory given", field="id")
    promotions = list[TrustPromotion]()
    for attempt in range(MOST_TRIES):
        with bank.ledger.reading() as view:
            targets = {
                each.record.id: each for each in (_find_promotable(view, name) for name in names)
            }
            promotions = [
                _promotion(view, target, trust, dry_run=options.dry_run)
                for target in targets.values()
            ]
            unchanged = view.unchanged(targets.values())
        records = [
            _promotion_status(promotion.id, trust, reason, actor)
            for promotion in promotions
            if promotion.is_changed
        ]
        if not records or options.dry_run:
            break
        try:
            bank.ledger.append(records, precondition=unchanged)
            break
        except ChangedError:
            if attempt == MOST_TRIES - 1:
                raise
    return promotions


def _find_promotable(view: View, name: str) -> VerifiedRecord:
    logged = find_record(view, name)
    if not isinstance(logged.model, Entry | Source):
        raise UnknownMemoryError(
            f"this is the ID of a {logged.record.type} record",
            field="id",
            hint=(
                "Only memories and source records of imports can be promoted. See: satchel receipt "
                "list."
            ),
        )
    return logged


def _promotion(
    view: View, logged: VerifiedRecord, trust: TrustClass, *, dry_run: bool
) -> TrustPromotion:
    before = _current_trust(view, logged)
    return TrustPromotion(
        id=logged.record.id,
        type=logged.record.type,
        before=before.value,
        after=(before if is_trusted(before, trust) else trust).value,
        is_changed=not is_trusted(before, trust),
        dry_run=dry_run,
    )


def _current_trust(view: View, logged: VerifiedRecord) -> TrustClass:
    if not isinstance(logged.model, Source):
        return effective_trust(view, logged)
    earned = logged.model.trust or TrustClass.IMPORTED
    raised = [
        TrustClass(status.trust) for status in view.promotions(logged.record.id) if status.trust
    ]
    return min([earned, *raised], key=list(TrustClass).index)


def _promotion_status(
    identity: str, trust: TrustClass, reason: str | None, actor: str | None
) -> Sealed:
    metadata = {"trust": trust.value}
    return seal(
        Status(
            target=identity,
            state="promoted",
            reason=reason,
            actor=actor,
            at=now(),
            metadata=metadata,
        )
    )
