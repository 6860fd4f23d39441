"""Quarantine: memories that are neither recalled nor provided until a person has reviewed them.

Only the owner puts something there, by ``screen_bank``; reading never does. What reads like a
prompt is withheld from context whether it is in quarantine or not (``satchel.rehydrate``).
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from satchel.actions.memories.changing import Moved, say_of
from satchel.actions.memories.naming import find_memory
from satchel.actions.memories.values import Memory, gist_of, memory_of, notes_of
from satchel.actions.opened import OpenBank
from satchel.actions.permitted.owning import require_owner
from satchel.errors import UsageError
from satchel.ledger.logged import Logged
from satchel.ledger.view import View
from satchel.memory.entries import Entry
from satchel.memory.parts import Component
from satchel.memory.records import State, Status
from satchel.memory.times import now
from satchel.ports.rows import Filter
from satchel.recall.trust import effective_trust
from satchel.rehydrate.asked import ENFORCED
from satchel.rehydrate.enforcing.judging import FROM_OUTSIDE, is_released, reasons_against
from satchel.rehydrate.formatting import said_by_entry
from satchel.seal.sealing import seal

MOST = 10_000
"""Memories that are listed at most."""

ACTOR = "satchel quarantine scan"

_READ = "satchel rehydrate"
"""The actor of what earlier versions quarantined while they read."""

_GROUP = 1000

_HELD = Filter(types=frozenset(Component), held=True)
_STATUSES = Filter(types=frozenset({"status"}), retired=True, held=True)
_LOOKED_THROUGH = 1 << 16


class Flagged(msgspec.Struct, frozen=True, kw_only=True):
    """A memory that reads like a prompt."""

    id: str
    type: str
    text: str
    trust: str
    reasons: list[str]
    quarantined: bool
    """Whether it is from outside, and so put into quarantine."""


class Screened(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a screening of a bank found."""

    memories: int
    """Memories that were looked through."""

    flagged: list[Flagged]
    notes: list[str] = []


class Held(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A memory in quarantine."""

    memory: Memory
    trust: str
    since: str | None = None
    """When it was put there."""

    reason: str | None = None
    actor: str | None = None
    """Who put it there."""

    findings: list[str] = []
    """What is found in it now, imperatives from anybody included."""


class Quarantine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is in quarantine, the last that was put there first."""

    held: list[Held]
    more: bool = False
    """Whether there is more than was asked for."""

    notes: list[str] = []


def list_quarantine(bank: OpenBank, *, limit: int = 100) -> Quarantine:
    """Return what is in quarantine.

    Args:
        bank: The bank.
        limit: How many at most.

    Raises:
        UsageError: If the limit is out of range.
    """
    require_owner(bank.settings, "quarantine")
    if not 1 <= limit <= MOST:
        raise UsageError(f"a limit is 1 to {MOST:,}", field="limit")
    found, seen = list[Held](), set[str]()
    with bank.ledger.reading() as view:
        for logged in view.newest(_STATUSES):
            said = logged.model
            if not isinstance(said, Status) or said.state != "quarantined" or said.target in seen:
                continue
            seen.add(said.target)
            target = view.get([said.target]).get(said.target)
            if target is None or not target.row.hold or target.row.retired is not None:
                continue
            if isinstance(target.model, Entry):
                if len(found) == limit:
                    return Quarantine(held=found, more=True, notes=notes_of(view))
                found.append(_held(view, target, said))
        return Quarantine(held=found, notes=notes_of(view))


def show_held(bank: OpenBank, wanted: str) -> Held:
    """Return a memory, why it is in quarantine, and what is found in it.

    Raises:
        UnknownMemoryError: If there is none.
        UsageError: If it is not in quarantine.
    """
    require_owner(bank.settings, "quarantine")
    with bank.ledger.reading() as view:
        target = find_memory(view, wanted)
        if not target.row.hold:
            raise UsageError("it is not in quarantine", field="id", hint="See: satchel show ID.")
        return _held(view, target, _last(view, target))


def screen_bank(bank: OpenBank, *, enforce: str | None = None, dry_run: bool = False) -> Screened:
    """Look through all current memories for what reads like a prompt, and quarantine it.

    That is for memories from outside. What the owner or the agent wrote is listed too, and stays
    where it is.

    Args:
        bank: The bank.
        enforce: What is looked for, as rehydration takes it; the setting otherwise.
        dry_run: List only.

    Raises:
        UsageError: If there is no such enforcement.
    """
    require_owner(bank.settings, "quarantine")
    asked: Any = enforce or bank.settings.options.rehydrate.enforce
    if asked not in ENFORCED:
        raise UsageError(f"enforce one of {', '.join(ENFORCED)}", field="enforce")
    flagged, count = list[Flagged](), 0
    with bank.ledger.reading() as view:
        for logged in view.newest(Filter(types=frozenset(Component))):
            entry = logged.model
            if not isinstance(entry, Entry):
                continue
            count += 1
            trust = effective_trust(view, logged)
            reasons = reasons_against(said_by_entry(entry), logged.record.type, trust, asked)
            if reasons and not is_released(view, logged):
                flagged.append(
                    Flagged(
                        id=logged.record.id,
                        type=logged.record.type,
                        text=gist_of(logged.record.value),
                        trust=trust.value,
                        reasons=reasons,
                        quarantined=trust in FROM_OUTSIDE,
                    )
                )
        notes = notes_of(view)
    if not dry_run:
        _quarantine(bank, [each for each in flagged if each.quarantined])
    return Screened(memories=count, flagged=flagged, notes=notes)


def quarantine(
    bank: OpenBank,
    wanted: Sequence[str],
    *,
    reason: str | None = None,
    actor: str | None = None,
    dry_run: bool = False,
) -> list[Moved]:
    """Put memories into quarantine: not recalled, listed or provided until they are released.

    Raises:
        UnknownMemoryError: If there is none.
    """
    require_owner(bank.settings, "quarantine")

    def move(_view: View, each: Logged) -> State | None:
        return "quarantined" if not each.row.hold and each.row.retired is None else None

    return say_of(bank, wanted, move, reason, actor, dry_run=dry_run)


def release(
    bank: OpenBank,
    wanted: Sequence[str] = (),
    *,
    own: bool = False,
    reason: str | None = None,
    actor: str | None = None,
    dry_run: bool = False,
) -> list[Moved]:
    """Let memories be provided, out of quarantine where they are in it; they stay released.

    Args:
        bank: The bank.
        wanted: Ids, or prefixes of them.
        own: Also everything of the owner's and the agent's own that an earlier version
            quarantined while it read.
        reason: Why, for the history.
        actor: Who does it.
        dry_run: Only report what would be done.

    Raises:
        UnknownMemoryError: If there is none.
        UsageError: If nothing is named.
    """
    require_owner(bank.settings, "quarantine")
    names = [*wanted, *(_own(bank) if own else ())]
    if own and not names:
        return []
    return say_of(bank, names, _released, reason, actor, dry_run=dry_run)


def reject(
    bank: OpenBank,
    wanted: Sequence[str],
    *,
    reason: str | None = None,
    actor: str | None = None,
    dry_run: bool = False,
) -> list[Moved]:
    """Say that memories are not to be believed, whether they are in quarantine or not.

    They are not current any more; their text stays in the log, for the history.

    Raises:
        UnknownMemoryError: If there is none.
    """
    require_owner(bank.settings, "quarantine")

    def move(_view: View, each: Logged) -> State | None:
        return "rejected" if each.row.retired is None else None

    return say_of(bank, wanted, move, reason, actor, dry_run=dry_run)


def _released(view: View, each: Logged) -> State | None:
    """Return the state of what is in quarantine, or would be withheld."""
    entry = each.model
    if each.row.retired is not None or not isinstance(entry, Entry):
        return None
    if each.row.hold:
        return "released"
    if is_released(view, each):
        return None
    text = said_by_entry(entry)[:_LOOKED_THROUGH]
    found = reasons_against(text, each.record.type, effective_trust(view, each), "all")
    return "released" if found else None


def _own(bank: OpenBank) -> list[str]:
    """Return what an earlier version quarantined although nobody from outside wrote it."""
    found = list[str]()
    with bank.ledger.reading() as view:
        for logged in view.newest(_HELD):
            status = _last(view, logged)
            was_read = logged.row.hold and status is not None and status.actor == _READ
            if was_read and effective_trust(view, logged) not in FROM_OUTSIDE:
                found.append(logged.record.id)
    return found


def _quarantine(bank: OpenBank, flagged: Sequence[Flagged]) -> None:
    at = now()
    for start in range(0, len(flagged), _GROUP):
        group = flagged[start : start + _GROUP]
        with bank.ledger.reading() as view:
            there = view.get([each.id for each in group])
            given = view.unchanged(there.values())
        bank.ledger.append(
            [
                seal(
                    Status(
                        target=each.id,
                        state="quarantined",
                        reason="; ".join(each.reasons),
                        actor=ACTOR,
                        at=at,
                    )
                )
                for each in group
            ],
            given=given,
        )


def _last(view: View, target: Logged) -> Status | None:
    said = (logged.model for logged in reversed(view.said_of(target.record.id)))
    return next(
        (one for one in said if isinstance(one, Status) and one.state == "quarantined"), None
    )


def _held(view: View, target: Logged, said: Status | None) -> Held:
    entry, trust = target.model, effective_trust(view, target)
    assert isinstance(entry, Entry)  # noqa: S101 - whoever calls has looked
    text = said_by_entry(entry)[:_LOOKED_THROUGH]
    return Held(
        memory=memory_of(view, target, moment=now()),
        trust=trust.value,
        since=said.at if said else None,
        reason=said.reason if said else None,
        actor=said.actor if said else None,
        findings=reasons_against(text, target.record.type, trust, "all"),
    )
