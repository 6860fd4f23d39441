"""Quarantine: what was held back until a person has looked at it."""

from collections.abc import Sequence

import msgspec

from satchel.actions.memories.changing import Moved, say_of
from satchel.actions.memories.naming import find_memory
from satchel.actions.memories.values import Memory, memory_of, notes_of
from satchel.actions.opened import OpenBank
from satchel.actions.permitted.owning import require_owner
from satchel.errors import UsageError
from satchel.ledger.logged import Logged
from satchel.ledger.view import View
from satchel.memory.entries import Entry
from satchel.memory.records import State, Status
from satchel.memory.times import now
from satchel.ports.rows import Filter
from satchel.recall.trust import effective_trust
from satchel.rehydrate.enforcing.judging import reasons_against
from satchel.rehydrate.formatting import said_by_entry
from satchel.rehydrate.rehydrated import HeldBack

MOST = 10_000
"""Memories that are listed at most."""

ACTOR = "satchel rehydrate"

_STATUSES = Filter(types=frozenset({"status"}), retired=True, held=True)
_LOOKED_THROUGH = 1 << 16


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


def hold_back(bank: OpenBank, found: Sequence[HeldBack]) -> list[Moved]:
    """Put memories into quarantine: they are not recalled or shown to a model any more.

    Raises:
        ReadOnlyStoreError: If nothing may be written.
    """
    require_owner(bank.settings, "quarantine")
    moved = list[Moved]()
    for one in found:  # each for its own reason
        moved += say_of(
            bank, [one.id], _into("quarantined", held=False), "; ".join(one.reasons), ACTOR
        )
    return moved


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


def release(
    bank: OpenBank,
    wanted: Sequence[str],
    *,
    reason: str | None = None,
    actor: str | None = None,
    dry_run: bool = False,
) -> list[Moved]:
    """Let memories out of quarantine; they are not put there again.

    Raises:
        UnknownMemoryError: If there is none.
    """
    require_owner(bank.settings, "quarantine")
    return say_of(bank, wanted, _into("released", held=True), reason, actor, dry_run=dry_run)


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


class _into:  # noqa: N801 - used as a function
    """Gives a state to what is, or is not, in quarantine."""

    def __init__(self, state: State, *, held: bool) -> None:
        self._state, self._held = state, held

    def __call__(self, _view: View, each: Logged) -> State | None:
        return self._state if each.row.hold is self._held and each.row.retired is None else None


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
