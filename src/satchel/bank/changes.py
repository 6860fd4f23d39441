"""Changing what is remembered: a new version, a correction, forgetting, and bringing back.

Nothing is overwritten. An update is a new entry and the statement that it takes the place of the
old one; so is a correction, which says besides, by an edge ``supersedes``, that the old one was
wrong. Forgetting is the statement alone. Source: docs/decisions/0015.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import msgspec

from satchel.bank.memory import CORRECTION, CURRENT, PROVIDER, Memory, shown, stored
from satchel.bank.memory_input import (
    GIVEN,
    MemoryFields,
    current_memory,
    find_memory,
    newest_of,
    not_current,
    sealed_of,
    unique_tags,
    versions_of,
)
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
from satchel.model.records import Edge, Entry, Source, State, Status
from satchel.model.text import parse_message, words_of
from satchel.model.values import Component, Origin, TrustClass, now
from satchel.ports.rows import slot_of
from satchel.screening.records import SecretScreener

_KEPT = frozenset({"origin", "updated_at", "parent_ids"}) | GIVEN
_MERGED = frozenset({"metadata", "scope"})
_WORDED = ("observation", "subject", "predicate", "object", "data", "name", "description", "body")
_WORSE = {trust: place for place, trust in enumerate(TrustClass)}
_Result = TypeVar("_Result")


class MemoryEdit(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be different in the next version of a memory."""

    members: Mapping[str, Any] = {}
    """New values by name; None takes a member away. ``metadata`` and ``scope`` are merged, name by
    name; everything else is replaced."""

    add_tags: Sequence[str] = ()
    drop_tags: Sequence[str] = ()
    parents: Sequence[str] | None = None
    """Other memories that it was drawn from, as ``remember`` takes them; None for the same."""


class MemoryUpdate(Memory, frozen=True, kw_only=True, omit_defaults=True):
    """The version of a memory that is current now, with what changed."""

    bank: str
    """The bank's ID."""

    replaces: str | None = None
    """ID of the version before."""

    fields: list[str] = msgspec.field(default_factory=list)
    """The members that are different."""

    is_new: bool
    """False where nothing was different, so nothing was written."""


class MemoryChange(Memory, frozen=True, kw_only=True, omit_defaults=True):
    """A memory that was to be forgotten, restored or reviewed, as it is afterwards."""

    is_changed: bool
    """False where it was so already."""

    dry_run: bool = False


def update(
    bank: OpenBank,
    wanted: str,
    edit: MemoryEdit,
    *,
    reason: str | None = None,
    actor: str | None = None,
) -> MemoryUpdate:
    """Give a memory a new version; the old one stays in its history.

    Key, origin, parents and ``created_at`` stay, unless they are in the edit; ``updated_at`` is
    now. The old version is no parent of the new one: parents are what a memory was drawn from.

    Args:
        bank: Where.
        wanted: Id of its current version, or the first digits of that.
        edit: What is different.
        reason: Why, for whoever reads the history.
        actor: Who does it, such as ``agent:planner``.

    Raises:
        UnknownMemoryError: If there is no such memory.
        RetiredMemoryError: If it has a newer version, which is named, or is not current.
        SlotTakenError: If its new owner has a memory with the same key.
        EmptyInputError, UsageError, ValueRefusedError, LimitError: As ``sealed_of``.
    """
    asked = bank.asked("update")
    return _again(lambda: _revise(asked, wanted, edit, reason, actor, correction=False))


def correct(
    bank: OpenBank,
    wanted: str,
    edit: MemoryEdit,
    *,
    reason: str | None = None,
    actor: str | None = None,
) -> MemoryUpdate:
    """Put right what was wrong: as ``update``, and the log says that the old one was never true.

    The new version has an edge ``supersedes`` to the old one, and the reason starts with
    ``correction``.

    Raises:
        UsageError: Also if the text is new, and the memory says the old one in other members, too.
        SatchelError: As ``update``.
    """
    asked, why = bank.asked("correct"), f"{CORRECTION}: {reason}" if reason else CORRECTION
    return _again(lambda: _revise(asked, wanted, edit, why, actor, correction=True))


def forget(
    bank: OpenBank,
    wanted: Sequence[str],
    *,
    reason: str | None = None,
    actor: str | None = None,
    dry_run: bool = False,
) -> list[MemoryChange]:
    """Say that memories are no longer wanted: all of those named, or none.

    They are not recalled or listed any more. Their text stays in the log, for the history.

    Args:
        bank: Where.
        wanted: Ids, or the first digits of them.
        reason: Why.
        actor: Who does it.
        dry_run: Only say what would be done.

    Raises:
        UnknownMemoryError: If one is not there, or is no memory.
        RetiredMemoryError: If one has a newer version, which is named.
    """

    def move(view: View, each: VerifiedRecord) -> State | None:
        if each.row.retired is None:
            return "deleted"
        if newest_of(view, each) is not None:
            raise not_current(view, each)
        return None

    return change_states(bank.asked("forget"), wanted, move, reason, actor, dry_run=dry_run)


def restore(
    bank: OpenBank,
    wanted: Sequence[str],
    *,
    reason: str | None = None,
    actor: str | None = None,
    dry_run: bool = False,
) -> list[MemoryChange]:
    """Make memories current again that were forgotten or had expired: all of them, or none.

    Args and Raises: as ``forget``; ``RetiredMemoryError`` also where another version is current.
    """

    def move(view: View, each: VerifiedRecord) -> State | None:
        if each.row.retired is None:
            return None
        if newest_of(view, each) is not None:
            raise not_current(view, each)
        return "restored"

    return change_states(bank.asked("restore"), wanted, move, reason, actor, dry_run=dry_run)


def change_states(
    bank: OpenBank,
    wanted: Sequence[str],
    move: Callable[[View, VerifiedRecord], State | None],
    reason: str | None = None,
    actor: str | None = None,
    *,
    dry_run: bool = False,
) -> list[MemoryChange]:
    """Say something of memories, of all of those named or of none; whoever calls has asked.

    Args:
        bank: Where, as an action was given it.
        wanted: Ids, or the first digits of them.
        move: Gives the state that each is put into; None to say nothing of it.
        reason: Why.
        actor: Who does it.
        dry_run: Only say what would be done.
    """
    return _again(lambda: _move(bank, wanted, move, reason, actor, dry_run=dry_run))


def _again(attempt: Callable[[], _Result]) -> _Result:
    """Do something until nobody changed meanwhile what it builds on."""
    for _ in range(MOST_TRIES - 1):
        try:
            return attempt()
        except ChangedError:
            continue
    return attempt()


def _revise(
    bank: OpenBank,
    wanted: str,
    edit: MemoryEdit,
    reason: str | None,
    actor: str | None,
    *,
    correction: bool,
) -> MemoryUpdate:
    limits = bank.settings.options.limits
    with bank.ledger.reading() as view:
        old = current_memory(view, wanted)
        members = _edited(view, old, edit)
        fields = differing(old.record.value, sealed_of(members, limits).value)
        if not fields:
            return MemoryUpdate(**stored(bank, old.record, old.seq), bank=bank.id, is_new=False)
        if correction:
            _require_all_said(old.record.value, fields)
        _keep_trust(bank, view, old, members)
        made = sealed_of({**members, "updated_at": now()}, limits)
        given = view.unchanged([old])
    records = [made, superseding(old.record.id, made.id, reason=reason, actor=actor)]
    if correction:
        edge = Edge(source=made.id, target=old.record.id, kind="supersedes", at=now())
        records.append(seal(edge))
    try:
        place = bank.ledger.append(records, given=given)[0]
    except SlotTakenError as error:
        error.field = "scope"
        error.hint = (
            "The new owner already has a memory of this kind with the same key: satchel list"
        )
        raise
    changed = [made.id, old.record.id]
    bank.tell("on_update", changed, {"memories": 1}, lambda: contents(bank, changed))
    return MemoryUpdate(
        **stored(bank, made, place),
        bank=bank.id,
        replaces=old.record.id,
        fields=fields,
        is_new=True,
    )


def _edited(view: View, old: VerifiedRecord, edit: MemoryEdit) -> dict[str, Any]:
    """Return the members of the next version, without those that nobody chooses."""
    value = {name: part for name, part in old.record.value.items() if name not in GIVEN}
    for name, part in edit.members.items():
        if name in _KEPT:
            raise UsageError("a new version cannot change this member", field=name)
        if part is None:
            value.pop(name, None)
        elif name in _MERGED and isinstance(part, Mapping):
            merged = {**value.get(name, {}), **part}
            value[name] = {key: held for key, held in merged.items() if held is not None}
        else:
            value[name] = part
    if edit.add_tags or edit.drop_tags:
        dropped = set(unique_tags(list(edit.drop_tags)))
        tags = [*value.get("tags", []), *unique_tags(list(edit.add_tags))]
        value["tags"] = [tag for tag in tags if tag not in dropped]
    if edit.parents is not None:
        value["parent_ids"] = parents_of(view, edit.parents)
    return value


def differing(one: MemoryFields, other: MemoryFields) -> list[str]:
    """Return the names of the members that two sealed entries do not have in common."""
    names = (one.keys() | other.keys()) - GIVEN
    return sorted(name for name in names if one.get(name) != other.get(name))


def _require_all_said(before: dict[str, Any], fields: Sequence[str]) -> None:
    """Refuse a correction of the text of what says the wrong thing elsewhere as well."""
    left = [name for name in _WORDED if before.get(name) and name not in fields]
    if "text" in fields and left:
        raise UsageError(
            f"other members contain the same text: {', '.join(left)}",
            field=left[0],
            hint="Set them too, or remove them: --clear NAME.",
        )


def _keep_trust(bank: OpenBank, view: View, old: VerifiedRecord, members: dict[str, Any]) -> None:
    """Keep a new version from being trusted more than the import that the old one came with.

    Nor more than an agent, when it is not the owner who makes it.
    """
    claimed = old.model.origin if isinstance(old.model, Entry) else None
    origin = view.source_of(old)
    source = origin.model if origin is not None else None
    earned = source.trust if isinstance(source, Source) else None
    claim = claimed.trust if claimed is not None else None
    known = [trust for trust in (earned, claim) if trust is not None]
    if bank.bearer is not None:
        known.append(TrustClass.AGENT)
    if earned is not None or bank.bearer is not None:
        worst = max(known, key=_WORSE.__getitem__)
        kept = msgspec.structs.replace(claimed or Origin(), trust=worst)
        members["origin"] = msgspec.to_builtins(kept)


def _move(
    bank: OpenBank,
    wanted: Sequence[str],
    move: Callable[[View, VerifiedRecord], State | None],
    reason: str | None,
    actor: str | None,
    *,
    dry_run: bool,
) -> list[MemoryChange]:
    if not wanted:
        raise UsageError("no memory given", field="id")
    with bank.ledger.reading() as view:
        found = {each.record.id: each for each in (find_memory(view, name) for name in wanted)}
        states = {identity: move(view, each) for identity, each in found.items()}
        known = {every.seq: every for each in found.values() for every in versions_of(view, each)}
        given = view.unchanged(known.values())
        _require_one_each(view, [name for name, state in states.items() if state == "restored"])
        moment = now()
        memories = {name: shown(bank, view, each, moment=moment) for name, each in found.items()}
    records = list[Sealed]()
    for identity, state in states.items():
        if state is not None:
            said = Status(target=identity, state=state, reason=reason, actor=actor, at=now())
            records.append(seal(said))
    if records and not dry_run:
        try:
            bank.ledger.append(records, given=given)
        except SlotTakenError as error:
            raise ChangedError(error.message, field="id") from error
        _tell_moved(bank, states)
    return [
        MemoryChange(
            **memories[identity] | ({} if state is None or dry_run else _AFTER[state]),
            is_changed=state is not None,
            dry_run=dry_run,
        )
        for identity, state in states.items()
    ]


_AFTER: dict[str, dict[str, Any]] = {
    "deleted": {"state": "deleted"},
    "rejected": {"state": "rejected"},
    "restored": {"state": CURRENT},
    "quarantined": {"held": True},
    "released": {"held": False},
}
"""What is different in a memory after a statement about it."""


def _tell_moved(bank: OpenBank, states: Mapping[str, State | None]) -> None:
    for state, event in (("deleted", "on_forget"), ("restored", "on_restore")):
        ids = [identity for identity, each in states.items() if each == state]
        if ids:
            bank.tell(event, ids, {"memories": len(ids)}, partial(contents, bank, ids))


def _require_one_each(view: View, restored: Sequence[str]) -> None:
    things = [min(view.versions(identity)) for identity in restored]
    if len(set(things)) < len(things):
        raise RetiredMemoryError(
            "these are versions of the same memory; only one can be current",
            field="id",
            hint="Choose one. See: satchel history ID.",
        )


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
        members: As ``sealed_of`` takes them. Without ``created_at`` it was made now.
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
