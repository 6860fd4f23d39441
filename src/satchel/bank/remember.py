"""Remembering: a new memory, or a new version of the one that has its key already."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from satchel.bank.drafts import MemoryFields, sealed_of
from satchel.bank.memory import PROVIDER, Memory, stored
from satchel.bank.memory_ids import find_memory
from satchel.bank.open_bank import OpenBank
from satchel.crypto.canonical import Limits
from satchel.crypto.sealed_records import Sealed, seal
from satchel.errors import (
    ChangedError,
    EmptyInputError,
    MalformedError,
    RetiredMemoryError,
    SlotTakenError,
    UsageError,
)
from satchel.ledger.projection import VerifiedRecord
from satchel.ledger.view import View
from satchel.model.records import Entry, Status
from satchel.model.text import parse_message, words_of
from satchel.model.values import Component, TrustClass, now
from satchel.ports.rows import slot_of
from satchel.screening.records import SecretScreener

MOST_TRIES = 100
"""How often something is begun again because another writer was faster."""

_AGENT = "agent:"
"""How the name of a program begins that stores what others say."""

_OF_EACH_TIME = ("id", "nonce", "created_at", "updated_at")


class RememberResult(Memory, frozen=True, kw_only=True, omit_defaults=True):
    """A memory that was stored, with what became of it."""

    bank: str
    """The bank's ID."""

    replaces: str | None = None
    """ID of the version that it replaces."""

    is_new: bool
    """False where the very same was remembered under its key already, so nothing was written."""

    secrets: dict[str, int] = msgspec.field(default_factory=dict)
    """What looks like keys, tokens, passwords and cards, by kind."""

    secrets_kept: int = 0
    """How many of them were kept as they are."""

    turns: list[str] = msgspec.field(default_factory=list)
    """Ids of all turns, where messages were remembered; ``id`` is the last one's."""

    flagged: list[str] = msgspec.field(default_factory=list)
    """Why it reads like a prompt. It is stored, listed and recalled like any other, and withheld
    from what is provided as context until it is released."""


def remember(
    bank: OpenBank,
    members: MemoryFields,
    *,
    key: str | None = None,
    parents: Sequence[str] = (),
    actor: str | None = None,
    scrub_secrets: bool = False,
) -> RememberResult:
    """Keep a memory; when this returns it is durable.

    Args:
        bank: Where.
        members: As ``drafting.sealed_of`` takes them. Without ``created_at`` it was made now.
        key: A stable name that the caller gives it, unique for one owner (``scope``) and one
            ``kind``: what is remembered under it again takes the place of what was. Of several
            writers one is last; the versions of the others stay in the history.
        parents: The memories it was drawn from: ids, or the first digits of them.
        actor: Who says it, and that an older version is replaced. With a run (a conversation) and
            no type it makes the memory a turn: episodic, with the actor as its speaker. An
            episodic memory has them as its actor, unless it names one or it is an ``agent:``.
        scrub_secrets: Whether secrets are replaced by tokens; otherwise they are only counted.

    Raises:
        UnknownMemoryError: If a parent is not in the bank.
        RetiredMemoryError: If a parent is held back.
        EmptyInputError, UsageError, ValueRefusedError, LimitError: As ``sealed_of``.
    """
    asked = bank.asked("derive" if parents or members.get("parent_ids") else "remember")
    members = _keyed(_spoken(members, actor), key, bank)
    for turn in range(MOST_TRIES):
        try:
            return _remember(asked, members, parents, actor, SecretScreener(scrub=scrub_secrets))
        except (ChangedError, SlotTakenError):
            if turn == MOST_TRIES - 1:
                raise
    raise AssertionError("unreachable")


def remember_messages(
    bank: OpenBank,
    messages: Sequence[Any],
    members: MemoryFields,
    *,
    scrub_secrets: bool = False,
) -> RememberResult:
    """Store the messages of a conversation, each a turn, and return the last one.

    All are stored, or none. Their texts count, whatever else their content has; a message without
    one is skipped.

    Args:
        bank: Where.
        messages: Each with ``role`` and ``content``; ``name`` is the speaker, else the role is.
            ``created_at`` is when it was said.
        members: Of every turn, such as the scope; ``run`` in it is the conversation.
        scrub_secrets: As ``remember`` takes it.

    Raises:
        EmptyInputError: If there is no message with text.
        MalformedError: If one is no message; ``field`` says which.
        UsageError: If the members have what belongs to a single memory.
    """
    for name in ("text", "type", "actor", "occurred_at", "origin", "parent_ids", "data"):
        if members.get(name) is not None:
            raise UsageError("messages do not take this option", field=name)
    asked, limits = bank.asked("remember"), bank.settings.options.limits
    with asked.ledger.reading() as view:
        screening = SecretScreener(scrub=scrub_secrets or bool(asked.settled(view).scrub_secrets))
    records = [
        _screened(sealed_of({**said, "created_at": now()}, limits), screening, limits)
        for said in (_keyed(turn, None, asked) for turn in _turns(messages, members))
    ]
    if not records:
        raise EmptyInputError("no message has text", field="messages")
    places, ids = asked.ledger.append(records), [made.id for made in records]
    asked.tell("on_remember", ids, {"memories": len(ids)}, lambda: contents(asked, ids))
    return RememberResult(
        **stored(asked, records[-1], places[-1]),
        bank=asked.id,
        is_new=True,
        turns=ids,
        secrets=screening.found,
        secrets_kept=screening.kept,
        flagged=list(dict.fromkeys(why for made in records for why in _flagged(asked, made))),
    )


def _turns(messages: Sequence[Any], members: MemoryFields) -> Iterator[MemoryFields]:
    """Yield messages as the members of entries."""
    for number, message in enumerate(messages):
        try:
            said = parse_message(message)
        except MalformedError as error:
            field = f"messages[{number}].{error.field}"
            raise MalformedError(error.message, field=field) from error
        text = words_of(said.content)
        if text.strip():
            yield {
                **members,
                "type": Component.EPISODIC.value,
                "text": text,
                "actor": said.name or said.role,
                "occurred_at": said.created_at,
            }


def _spoken(members: MemoryFields, actor: str | None) -> MemoryFields:
    """Return the members of a memory with its speaker; see ``remember``."""
    scope, kind = members.get("scope"), members.get("type")
    in_run = isinstance(scope, Mapping) and bool(scope.get("run"))
    if not actor or members.get("actor") is not None:
        return members
    if (kind is None and in_run) or (
        kind == Component.EPISODIC and (in_run or not actor.startswith(_AGENT))
    ):
        return {**members, "type": Component.EPISODIC.value, "actor": actor}
    return members


def contents(bank: OpenBank, ids: Sequence[str]) -> list[Any]:
    """Return records as they were logged, for hooks that asked for them."""
    with bank.ledger.reading() as view:
        found = view.get(ids)
        return [found[each].record.value for each in ids if each in found]


def _keyed(members: MemoryFields, key: str | None, bank: OpenBank) -> dict[str, Any]:
    """Return the members with the origin that names a memory; see ``_signed`` for a holder's."""
    if key is not None and not key.strip():
        raise UsageError("a key must not be empty", field="key")
    if key is not None and members.get("origin") is not None:
        raise UsageError("the memory has an origin, which already identifies it", field="key")
    named = {} if key is None else {"origin": {"provider": PROVIDER, "id": key}}
    made = {**members, **named}
    return made if bank.bearer is None else {**made, "origin": _signed(made, bank.bearer.name)}


def _signed(members: MemoryFields, name: str) -> dict[str, Any]:
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
    screening: SecretScreener,
) -> RememberResult:
    limits = bank.settings.options.limits
    said: dict[str, Any] = {"created_at": now(), **members}
    with bank.ledger.reading() as view:
        if bank.settled(view).scrub_secrets and not screening.scrub:
            screening = SecretScreener(scrub=True)
        if parents:
            said["parent_ids"] = parents_of(view, parents)
        made = _screened(sealed_of(said, limits), screening, limits)
        slot = slot_of(made.model)
        there = view.current(slot) if slot is not None else None
        if there is not None:
            if _same(made, there) and bank.shows("read"):
                return RememberResult(
                    **stored(bank, there.record, there.seq), bank=bank.id, is_new=False
                )
            again = sealed_of(_following(said, members, there), limits)
            made = _screened(again, SecretScreener(scrub=screening.scrub), limits)
        given = view.unchanged([there] if there is not None else [])
    records = [made]
    if there is not None:
        records.append(superseding(there.record.id, made.id, actor=actor))
    place = bank.ledger.append(records, given=given)[0]
    bank.tell("on_remember", [made.id], {"memories": 1}, lambda: contents(bank, [made.id]))
    return RememberResult(
        **stored(bank, made, place),
        bank=bank.id,
        replaces=there.record.id if there is not None and bank.shows("read") else None,
        is_new=True,
        secrets=screening.found,
        secrets_kept=screening.kept,
        flagged=_flagged(bank, made),
    )


def _flagged(bank: OpenBank, made: Sealed) -> list[str]:
    """Return why a memory that was stored now would be withheld from context."""
    from satchel.screening.injection import may_have_shape

    entry = made.model
    if not isinstance(entry, Entry):
        return []
    trust = entry.origin.trust if entry.origin is not None else None
    enforce: Any = bank.settings.options.rehydrate.enforce
    is_own = trust in (None, TrustClass.USER, TrustClass.AGENT) and enforce != "all"
    if is_own and not may_have_shape(made.body.decode()):
        return []
    from satchel.model.text import entry_statements
    from satchel.screening.injection import reasons_against

    return reasons_against(entry_statements(entry), made.type, trust or TrustClass.USER, enforce)


def _screened(made: Sealed, screening: SecretScreener, limits: Limits) -> Sealed:
    model = made.model
    shown = screening(model)
    return made if shown is model else seal(shown, unknown=made.unknown, limits=limits)


def _following(
    said: dict[str, Any], members: dict[str, Any], there: VerifiedRecord
) -> dict[str, Any]:
    """Return the members of a later version: made when the first was, and changed now."""
    created = members.get("created_at") or there.record.value.get("created_at")
    return {"updated_at": now(), **said, "created_at": created}


def _same(made: Sealed, there: VerifiedRecord) -> bool:
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
            "a parent is quarantined", field="parent_ids", hint="Release it first."
        )
    return list(dict.fromkeys(each.record.id for each in found))


def superseding(
    old: str, new: str, *, reason: str | None = None, actor: str | None = None
) -> Sealed:
    """Return the record that says that one memory takes the place of another."""
    return seal(
        Status(target=old, state="superseded", by=new, reason=reason, actor=actor, at=now())
    )
