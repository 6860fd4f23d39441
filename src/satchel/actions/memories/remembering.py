"""Remembering: a new memory, or a new version of the one that has its key already."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from satchel.actions.memories.drafting import Members, sealed_of
from satchel.actions.memories.naming import find_memory
from satchel.actions.memories.values import PROVIDER
from satchel.actions.opened import OpenBank
from satchel.errors import ChangedError, RetiredMemoryError, SlotTakenError, UsageError
from satchel.ledger.logged import Logged
from satchel.ledger.view import View
from satchel.memory.parts import TrustClass
from satchel.memory.records import Status
from satchel.memory.times import now
from satchel.ports.rows import slot_of
from satchel.seal.limits import Limits
from satchel.seal.records import Sealed
from satchel.seal.sealing import seal
from satchel.transfer.screening import Screening

MOST_TRIES = 100
"""How often something is begun again because another writer was faster."""

_OF_EACH_TIME = ("id", "nonce", "created_at", "updated_at")


class Remembered(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What became of something that was to be remembered."""

    id: str
    bank: str
    """The bank's id."""

    place: int
    """Its place in the log."""

    replaces: str | None = None
    """Id of the version that it takes the place of."""

    is_new: bool
    """False where the very same was remembered under its key already, so nothing was written."""

    secrets: dict[str, int] = {}
    """What looks like keys, tokens, passwords and cards, by kind."""

    secrets_kept: int = 0
    """How many of them were kept as they are."""


def remember(
    bank: OpenBank,
    members: Members,
    *,
    key: str | None = None,
    parents: Sequence[str] = (),
    actor: str | None = None,
    scrub_secrets: bool = False,
) -> Remembered:
    """Keep a memory; when this returns it is durable.

    Args:
        bank: Where.
        members: As ``drafting.sealed_of`` takes them. Without ``created_at`` it was made now.
        key: A stable name that the caller gives it, unique for one owner (``scope``) and one
            ``kind``: what is remembered under it again takes the place of what was. Of several
            writers one is last; the versions of the others stay in the history.
        parents: The memories it was drawn from: ids, or the first digits of them.
        actor: Who says that an older version is replaced, such as ``agent:planner``.
        scrub_secrets: Whether secrets are replaced by tokens; otherwise they are only counted.

    Raises:
        UnknownMemoryError: If a parent is not in the bank.
        RetiredMemoryError: If a parent is held back.
        EmptyInputError, UsageError, ValueRefusedError, LimitError: As ``sealed_of``.
    """
    asked = bank.asked("derive" if parents or members.get("parent_ids") else "remember")
    members = _keyed(members, key, bank)
    for turn in range(MOST_TRIES):
        try:
            return _remember(asked, members, parents, actor, Screening(scrub=scrub_secrets))
        except (ChangedError, SlotTakenError):
            if turn == MOST_TRIES - 1:
                raise
    raise AssertionError("unreachable")


def contents(bank: OpenBank, ids: Sequence[str]) -> list[Any]:
    """Return records as they were logged, for hooks that asked for them."""
    with bank.ledger.reading() as view:
        found = view.get(ids)
        return [found[each].record.value for each in ids if each in found]


def _keyed(members: Members, key: str | None, bank: OpenBank) -> dict[str, Any]:
    """Return the members with the origin that names a memory; see ``_signed`` for a holder's."""
    if key is not None and not key.strip():
        raise UsageError("a key cannot be empty", field="key")
    if key is not None and members.get("origin") is not None:
        raise UsageError("the memory has an origin, which names it already", field="key")
    named = {} if key is None else {"origin": {"provider": PROVIDER, "id": key}}
    made = {**members, **named}
    return made if bank.bearer is None else {**made, "origin": _signed(made, bank.bearer.name)}


def _signed(members: Members, name: str) -> dict[str, Any]:
    """Return the origin of what the holder of a token says.

    It names the holder, and claims no more trust than an agent. A key is one of the holder's own:
    whether anybody else has given it to something is not to be found out by giving it.
    """
    said = members.get("origin")
    origin = dict(said) if isinstance(said, Mapping) else {"provider": PROVIDER}
    if origin.get("provider", PROVIDER) == PROVIDER:
        origin["source"] = name
    trust = origin.get("trust")
    worst = trust if trust in set(TrustClass) - {TrustClass.USER} else TrustClass.AGENT.value
    return {**origin, "trust": worst}


def _remember(
    bank: OpenBank,
    members: dict[str, Any],
    parents: Sequence[str],
    actor: str | None,
    screening: Screening,
) -> Remembered:
    limits = bank.settings.options.limits
    said: dict[str, Any] = {"created_at": now(), **members}
    with bank.ledger.reading() as view:
        if bank.settled(view).scrub_secrets and not screening.scrub:
            screening = Screening(scrub=True)
        if parents:
            said["parent_ids"] = parents_of(view, parents)
        made = _screened(sealed_of(said, limits), screening, limits)
        slot = slot_of(made.model)
        there = view.current(slot) if slot is not None else None
        if there is not None:
            if _same(made, there) and bank.shows("read"):
                return Remembered(id=there.record.id, bank=bank.id, place=there.seq, is_new=False)
            again = sealed_of(_following(said, members, there), limits)
            made = _screened(again, Screening(scrub=screening.scrub), limits)
        given = view.unchanged([there] if there is not None else [])
    records = [made]
    if there is not None:
        records.append(superseding(there.record.id, made.id, actor=actor))
    place = bank.ledger.append(records, given=given)[0]
    bank.tell("on_remember", [made.id], {"memories": 1}, lambda: contents(bank, [made.id]))
    return Remembered(
        id=made.id,
        bank=bank.id,
        place=place,
        replaces=there.record.id if there is not None and bank.shows("read") else None,
        is_new=True,
        secrets=screening.found,
        secrets_kept=screening.kept,
    )


def _screened(made: Sealed, screening: Screening, limits: Limits) -> Sealed:
    model = made.model
    shown = screening(model)
    return made if shown is model else seal(shown, unknown=made.unknown, limits=limits)


def _following(said: dict[str, Any], members: dict[str, Any], there: Logged) -> dict[str, Any]:
    """Return the members of a later version: made when the first was, and changed now."""
    created = members.get("created_at") or there.record.value.get("created_at")
    return {"updated_at": now(), **said, "created_at": created}


def _same(made: Sealed, there: Logged) -> bool:
    """Tell whether two say the same, whenever they were made."""
    one, other = dict(made.value), dict(there.record.value)
    for name in _OF_EACH_TIME:
        one.pop(name, None)
        other.pop(name, None)
    return one == other and not there.row.hold


def parents_of(view: View, wanted: Sequence[str]) -> list[str]:
    """Return the ids of the memories that something is drawn from, each once.

    Raises:
        UnknownMemoryError: If one is not in the bank.
        RetiredMemoryError: If one is held back: what is drawn from it would not be.
    """
    found = [find_memory(view, each, "parent_ids") for each in wanted]
    if any(each.row.hold for each in found):
        raise RetiredMemoryError(
            "a parent is held back until it is judged", field="parent_ids", hint="Release it first."
        )
    return list(dict.fromkeys(each.record.id for each in found))


def superseding(
    old: str, new: str, *, reason: str | None = None, actor: str | None = None
) -> Sealed:
    """Return the record that says that one memory takes the place of another."""
    return seal(
        Status(target=old, state="superseded", by=new, reason=reason, actor=actor, at=now())
    )
