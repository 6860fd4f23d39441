"""Writing memories: remember, update, correct, forget and restore.

Nothing is overwritten. An update appends a new entry and a status that it supersedes the old one. A
correction adds an edge ``supersedes``, which records that the old one was wrong. Forgetting appends
a status alone. Source: docs/decisions/0015.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import msgspec

from satchel.bank.memory import (
    CORRECTION,
    CURRENT,
    GIVEN,
    PROVIDER,
    Memory,
    MemoryFields,
    current_memory,
    find_memory,
    newest_of,
    not_current,
    sealed_of,
    shown,
    stored,
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
_TRUST_RANK = {trust: rank for rank, trust in enumerate(TrustClass)}
_Result = TypeVar("_Result")


class MemoryEdit(msgspec.Struct, frozen=True, kw_only=True):
    """Changes for the next version of a memory."""

    members: Mapping[str, Any] = {}
    """New values by name; None removes a member. ``metadata`` and ``scope`` are merged by name;
    everything else is replaced."""

    add_tags: Sequence[str] = ()
    drop_tags: Sequence[str] = ()
    parents: Sequence[str] | None = None
    """New parents, as for ``remember``; None for no change."""


class MemoryUpdate(Memory, frozen=True, kw_only=True, omit_defaults=True):
    """The current version of a memory, with the fields that changed."""

    bank: str
    """The bank's ID."""

    replaces: str | None = None
    """ID of the previous version."""

    fields: list[str] = msgspec.field(default_factory=list)
    """Names of the members that changed."""

    is_new: bool
    """False if nothing changed, so nothing was written."""


class MemoryChange(Memory, frozen=True, kw_only=True, omit_defaults=True):
    """A memory after it was forgotten, restored or reviewed."""

    is_changed: bool
    """False if it was already in that state."""

    dry_run: bool = False


def update(
    bank: OpenBank,
    reference: str,
    edit: MemoryEdit,
    *,
    reason: str | None = None,
    actor: str | None = None,
) -> MemoryUpdate:
    """Store a new version of a memory; the old one stays in its history.

    Key, origin, parents and ``created_at`` stay, unless the edit changes them; ``updated_at`` is
    now. The old version is not a parent of the new one: parents are memories that it derives from.

    Args:
        bank: The bank.
        reference: ID or ID prefix of the current version.
        edit: The changes.
        reason: Reason, for the history.
        actor: Author of the change, such as ``agent:planner``.

    Raises:
        UnknownMemoryError: If there is no such memory.
        RetiredMemoryError: If it is not current; ``current`` names a newer version.
        SlotTakenError: If its new owner has a memory with the same key.
        EmptyInputError, UsageError, ValueRefusedError, LimitError: As for ``sealed_of``.
    """
    permitted = bank.asked("update")
    return _retried(lambda: _revise(permitted, reference, edit, reason, actor, correction=False))


def correct(
    bank: OpenBank,
    reference: str,
    edit: MemoryEdit,
    *,
    reason: str | None = None,
    actor: str | None = None,
) -> MemoryUpdate:
    """Correct a memory: like ``update``, and the log records that the old version was never true.

    The new version has an edge ``supersedes`` to the old one, and the reason starts with
    ``correction``.

    Raises:
        UsageError: Also if the text is new and other members still contain the old one.
        SatchelError: As for ``update``.
    """
    permitted, why = bank.asked("correct"), f"{CORRECTION}: {reason}" if reason else CORRECTION
    return _retried(lambda: _revise(permitted, reference, edit, why, actor, correction=True))


def forget(
    bank: OpenBank,
    references: Sequence[str],
    *,
    reason: str | None = None,
    actor: str | None = None,
    dry_run: bool = False,
) -> list[MemoryChange]:
    """Forget memories: all that are named, or none.

    They are no longer recalled or listed. Their text stays in the log, for the history.

    Args:
        bank: The bank.
        references: IDs or ID prefixes.
        reason: Reason, for the history.
        actor: Author of the change.
        dry_run: Report what would change, and write nothing.

    Raises:
        UnknownMemoryError: If there is no such memory.
        RetiredMemoryError: If one has a newer version, which ``current`` names.
    """

    def next_state(view: View, each: VerifiedRecord) -> State | None:
        if each.row.retired is None:
            return "deleted"
        if newest_of(view, each) is not None:
            raise not_current(view, each)
        return None

    return change_states(
        bank.asked("forget"), references, next_state, reason, actor, dry_run=dry_run
    )


def restore(
    bank: OpenBank,
    references: Sequence[str],
    *,
    reason: str | None = None,
    actor: str | None = None,
    dry_run: bool = False,
) -> list[MemoryChange]:
    """Restore memories that were forgotten or have expired: all that are named, or none.

    Args and Raises: as for ``forget``, but a text names a forgotten memory; ``RetiredMemoryError``
    also if another version is current.
    """
    permitted = bank.asked("restore")
    with permitted.ledger.reading() as view:
        ids = [find_memory(view, name, forgotten=True).record.id for name in references]

    def next_state(view: View, each: VerifiedRecord) -> State | None:
        if each.row.retired is None:
            return None
        if newest_of(view, each) is not None:
            raise not_current(view, each)
        return "restored"

    return change_states(permitted, ids, next_state, reason, actor, dry_run=dry_run)


def change_states(
    bank: OpenBank,
    references: Sequence[str],
    next_state: Callable[[View, VerifiedRecord], State | None],
    reason: str | None = None,
    actor: str | None = None,
    *,
    dry_run: bool = False,
) -> list[MemoryChange]:
    """Change the state of memories, of all that are named or of none.

    The caller has checked the permission.

    Args:
        bank: The bank, as ``OpenBank.asked`` returned it.
        references: IDs or ID prefixes.
        next_state: Returns the new state of a memory; None for no change.
        reason: Reason, for the history.
        actor: Author of the change.
        dry_run: Report what would change, and write nothing.
    """
    return _retried(lambda: _change(bank, references, next_state, reason, actor, dry_run=dry_run))


def _retried(attempt: Callable[[], _Result]) -> _Result:
    """Call a function again while concurrent writers change what it is based on."""
    for _ in range(MOST_TRIES - 1):
        try:
            return attempt()
        except ChangedError:
            continue
    return attempt()


def _revise(
    bank: OpenBank,
    reference: str,
    edit: MemoryEdit,
    reason: str | None,
    actor: str | None,
    *,
    correction: bool,
) -> MemoryUpdate:
    limits = bank.settings.options.limits
    with bank.ledger.reading() as view:
        old = current_memory(view, reference)
        members = _edited(view, old, edit)
        fields = differing(old.record.value, sealed_of(members, limits).value)
        if not fields:
            return MemoryUpdate(**stored(bank, old.record, old.seq), bank=bank.id, is_new=False)
        if correction:
            _require_no_old_words(old.record.value, fields)
        _limit_trust(bank, view, old, members)
        revised = sealed_of({**members, "updated_at": now()}, limits)
        preconditions = view.unchanged([old])
    records = [revised, superseding(old.record.id, revised.id, reason=reason, actor=actor)]
    if correction:
        edge = Edge(source=revised.id, target=old.record.id, kind="supersedes", at=now())
        records.append(seal(edge))
    try:
        position = bank.ledger.append(records, precondition=preconditions)[0]
    except SlotTakenError as error:
        error.field = "scope"
        error.hint = (
            "The new owner already has a memory of this kind with the same key: satchel list"
        )
        raise
    changed = [revised.id, old.record.id]
    bank.tell("on_update", changed, {"memories": 1}, lambda: contents(bank, changed))
    return MemoryUpdate(
        **stored(bank, revised, position),
        bank=bank.id,
        replaces=old.record.id,
        fields=fields,
        is_new=True,
    )


def _edited(view: View, old: VerifiedRecord, edit: MemoryEdit) -> dict[str, Any]:
    """Return the members of the next version, without those that are set automatically."""
    value = {name: part for name, part in old.record.value.items() if name not in GIVEN}
    for name, part in edit.members.items():
        if name in _KEPT:
            raise UsageError("a new version cannot change this member", field=name)
        if part is None:
            value.pop(name, None)
        elif name in _MERGED and isinstance(part, Mapping):
            merged = {**value.get(name, {}), **part}
            value[name] = {key: member for key, member in merged.items() if member is not None}
        else:
            value[name] = part
    if edit.add_tags or edit.drop_tags:
        dropped = set(unique_tags(list(edit.drop_tags)))
        tags = [*value.get("tags", []), *unique_tags(list(edit.add_tags))]
        value["tags"] = [tag for tag in tags if tag not in dropped]
    if edit.parents is not None:
        value["parent_ids"] = parents_of(view, edit.parents)
    return value


def differing(before: MemoryFields, after: MemoryFields) -> list[str]:
    """Return the names of the members in which two sealed entries differ."""
    names = (before.keys() | after.keys()) - GIVEN
    return sorted(name for name in names if before.get(name) != after.get(name))


def _require_no_old_words(before: dict[str, Any], fields: Sequence[str]) -> None:
    """Refuse to correct the text of a memory whose other members still contain the old text."""
    left = [name for name in _WORDED if before.get(name) and name not in fields]
    if "text" in fields and left:
        raise UsageError(
            f"other members contain the same text: {', '.join(left)}",
            field=left[0],
            hint="Set them too, or remove them: --clear NAME.",
        )


def _limit_trust(bank: OpenBank, view: View, old: VerifiedRecord, members: dict[str, Any]) -> None:
    """Limit the trust of a new version to that of the import the old one came with.

    The holder of a token gets no more trust than an agent.
    """
    claimed = old.model.origin if isinstance(old.model, Entry) else None
    imported = view.source_of(old)
    source = imported.model if imported is not None else None
    earned = source.trust if isinstance(source, Source) else None
    claim = claimed.trust if claimed is not None else None
    known = [trust for trust in (earned, claim) if trust is not None]
    if bank.bearer is not None:
        known.append(TrustClass.AGENT)
    if earned is not None or bank.bearer is not None:
        worst = max(known, key=_TRUST_RANK.__getitem__)
        origin = msgspec.structs.replace(claimed or Origin(), trust=worst)
        members["origin"] = msgspec.to_builtins(origin)


def _change(
    bank: OpenBank,
    references: Sequence[str],
    next_state: Callable[[View, VerifiedRecord], State | None],
    reason: str | None,
    actor: str | None,
    *,
    dry_run: bool,
) -> list[MemoryChange]:
    if not references:
        raise UsageError("no memory given", field="id")
    with bank.ledger.reading() as view:
        targets = {
            each.record.id: each for each in (find_memory(view, name) for name in references)
        }
        states = {identity: next_state(view, each) for identity, each in targets.items()}
        versions = {
            version.seq: version for each in targets.values() for version in versions_of(view, each)
        }
        preconditions = view.unchanged(versions.values())
        _require_different(view, [name for name, state in states.items() if state == "restored"])
        moment = now()
        memories = {name: shown(bank, view, each, moment=moment) for name, each in targets.items()}
    records = list[Sealed]()
    for identity, state in states.items():
        if state is not None:
            status = Status(target=identity, state=state, reason=reason, actor=actor, at=now())
            records.append(seal(status))
    if records and not dry_run:
        try:
            bank.ledger.append(records, precondition=preconditions)
        except SlotTakenError as error:
            raise ChangedError(error.message, field="id") from error
        _run_hooks(bank, states)
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
"""Fields of a memory that change with a new state."""


def _run_hooks(bank: OpenBank, states: Mapping[str, State | None]) -> None:
    for state, event in (("deleted", "on_forget"), ("restored", "on_restore")):
        ids = [identity for identity, each in states.items() if each == state]
        if ids:
            bank.tell(event, ids, {"memories": len(ids)}, partial(contents, bank, ids))


def _require_different(view: View, restored: Sequence[str]) -> None:
    """Refuse to restore two versions of the same memory."""
    first_versions = [min(view.versions(identity)) for identity in restored]
    if len(set(first_versions)) < len(first_versions):
        raise RetiredMemoryError(
            "these are versions of the same memory; only one can be current",
            field="id",
            hint="Choose one. See: satchel history ID.",
        )


MOST_TRIES = 100
"""Maximum attempts of a write that concurrent writers interrupt."""

_AGENT = "agent:"
"""Prefix of the names of programs that store what others say."""

_OF_EACH_TIME = ("id", "nonce", "created_at", "updated_at")


class RememberResult(Memory, frozen=True, kw_only=True, omit_defaults=True):
    """A memory that was stored."""

    bank: str
    """The bank's ID."""

    replaces: str | None = None
    """ID of the version that it replaces."""

    is_new: bool
    """False if the same memory is already stored under its key, so nothing was written."""

    secrets: dict[str, int] = msgspec.field(default_factory=dict)
    """Number of keys, tokens, passwords and card numbers found in it, by kind."""

    secrets_kept: int = 0
    """Number of them that were stored unchanged."""

    turns: list[str] = msgspec.field(default_factory=list)
    """IDs of all turns, if messages were stored; ``id`` is that of the last one."""

    flagged: list[str] = msgspec.field(default_factory=list)
    """Reasons why it reads like a prompt. It is stored, listed and recalled like any other, and
    withheld from context until it is released."""


def remember(
    bank: OpenBank,
    members: MemoryFields,
    *,
    key: str | None = None,
    parents: Sequence[str] = (),
    actor: str | None = None,
    scrub_secrets: bool = False,
) -> RememberResult:
    """Store a memory. It is durable when this returns.

    Args:
        bank: The bank.
        members: Members by name, as for ``sealed_of``. ``created_at`` defaults to now.
        key: A stable name, unique for an owner (``scope``) and a ``kind``: a memory stored under it
            again replaces the previous one. Of several writers the last one wins; the versions of
            the others stay in the history.
        parents: IDs or ID prefixes of the memories it derives from.
        actor: Its speaker, and the author of the change if it replaces a version. With a run (a
            conversation) and no type, the memory becomes a turn: episodic, with the actor as its
            speaker. An episodic memory without an actor gets this one, unless it is an ``agent:``.
        scrub_secrets: Replace secrets by tokens; otherwise they are only counted.

    Raises:
        UnknownMemoryError: If a parent is not in the bank.
        RetiredMemoryError: If a parent is quarantined.
        EmptyInputError, UsageError, ValueRefusedError, LimitError: As for ``sealed_of``.
    """
    permitted = bank.asked("derive" if parents or members.get("parent_ids") else "remember")
    members = _with_origin(_with_speaker(members, actor), key, bank)
    for attempt in range(MOST_TRIES):
        screener = SecretScreener(scrub=scrub_secrets)
        try:
            return _remember(permitted, members, parents, actor, screener)
        except (ChangedError, SlotTakenError):
            if attempt == MOST_TRIES - 1:
                raise
    raise AssertionError("unreachable")


def remember_messages(
    bank: OpenBank,
    messages: Sequence[Any],
    members: MemoryFields,
    *,
    scrub_secrets: bool = False,
) -> RememberResult:
    """Store the messages of a conversation, each as a turn, and return the last one.

    All are stored, or none. Only the text of a message is stored; one without text is skipped.

    Args:
        bank: The bank.
        messages: Messages with ``role`` and ``content``. The speaker is ``name``, else the role;
            ``created_at`` is when it was said.
        members: Members of every turn, such as the scope; its ``run`` is the conversation.
        scrub_secrets: As for ``remember``.

    Raises:
        EmptyInputError: If no message has text.
        MalformedError: If a message is malformed; ``field`` names it.
        UsageError: If the members include one that only a single memory can have.
    """
    for name in ("text", "type", "actor", "occurred_at", "origin", "parent_ids", "data"):
        if members.get(name) is not None:
            raise UsageError("this option does not apply to messages", field=name)
    permitted, limits = bank.asked("remember"), bank.settings.options.limits
    with permitted.ledger.reading() as view:
        scrub = scrub_secrets or bool(permitted.settled(view).scrub_secrets)
    screener = SecretScreener(scrub=scrub)
    records = [
        _screened(sealed_of({**turn, "created_at": now()}, limits), screener, limits)
        for turn in (_with_origin(turn, None, permitted) for turn in _turns(messages, members))
    ]
    if not records:
        raise EmptyInputError("no message has text", field="messages")
    positions, ids = permitted.ledger.append(records), [record.id for record in records]
    permitted.tell("on_remember", ids, {"memories": len(ids)}, lambda: contents(permitted, ids))
    reasons = (reason for record in records for reason in _flags(permitted, record))
    return RememberResult(
        **stored(permitted, records[-1], positions[-1]),
        bank=permitted.id,
        is_new=True,
        turns=ids,
        secrets=screener.found,
        secrets_kept=screener.kept,
        flagged=list(dict.fromkeys(reasons)),
    )


def _turns(messages: Sequence[Any], members: MemoryFields) -> Iterator[MemoryFields]:
    """Yield the messages that have text, as members of entries."""
    for number, message in enumerate(messages):
        try:
            parsed = parse_message(message)
        except MalformedError as error:
            field = f"messages[{number}].{error.field}"
            raise MalformedError(error.message, field=field) from error
        text = words_of(parsed.content)
        if text.strip():
            yield {
                **members,
                "type": Component.EPISODIC.value,
                "text": text,
                "actor": parsed.name or parsed.role,
                "occurred_at": parsed.created_at,
            }


def _with_speaker(members: MemoryFields, actor: str | None) -> MemoryFields:
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
    """Return the values of records, for hooks that ask for content."""
    with bank.ledger.reading() as view:
        records = view.get(ids)
        return [records[each].record.value for each in ids if each in records]


def _with_origin(members: MemoryFields, key: str | None, bank: OpenBank) -> dict[str, Any]:
    """Return the members with the origin that a key, or the holder of a token, gives them."""
    if key is not None and not key.strip():
        raise UsageError("a key must not be empty", field="key")
    if key is not None and members.get("origin") is not None:
        raise UsageError("the memory has an origin, which already identifies it", field="key")
    keyed = {} if key is None else {"origin": {"provider": PROVIDER, "id": key}}
    members = {**members, **keyed}
    if bank.bearer is None:
        return members
    return {**members, "origin": _holder_origin(members, bank.bearer.name)}


def _holder_origin(members: MemoryFields, name: str) -> dict[str, Any]:
    """Return the origin of a memory that the holder of a token stores.

    It names the holder, and claims no more trust than an agent. The holder's keys are separate from
    those of others, so a holder cannot test whether a key is in use.
    """
    given = members.get("origin")
    origin = dict(given) if isinstance(given, Mapping) else {"provider": PROVIDER}
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
    screener: SecretScreener,
) -> RememberResult:
    limits = bank.settings.options.limits
    fields: dict[str, Any] = {"created_at": now(), **members}
    with bank.ledger.reading() as view:
        if bank.settled(view).scrub_secrets and not screener.scrub:
            screener = SecretScreener(scrub=True)
        if parents:
            fields["parent_ids"] = parents_of(view, parents)
        record = _screened(sealed_of(fields, limits), screener, limits)
        slot = slot_of(record.model)
        existing = view.current(slot) if slot is not None else None
        if existing is not None:
            if _says_the_same(record, existing) and bank.shows("read"):
                return RememberResult(
                    **stored(bank, existing.record, existing.seq), bank=bank.id, is_new=False
                )
            next_version = sealed_of(_later_fields(fields, members, existing), limits)
            record = _screened(next_version, SecretScreener(scrub=screener.scrub), limits)
        preconditions = view.unchanged([existing] if existing is not None else [])
    records = [record]
    if existing is not None:
        records.append(superseding(existing.record.id, record.id, actor=actor))
    position = bank.ledger.append(records, precondition=preconditions)[0]
    bank.tell("on_remember", [record.id], {"memories": 1}, lambda: contents(bank, [record.id]))
    return RememberResult(
        **stored(bank, record, position),
        bank=bank.id,
        replaces=existing.record.id if existing is not None and bank.shows("read") else None,
        is_new=True,
        secrets=screener.found,
        secrets_kept=screener.kept,
        flagged=_flags(bank, record),
    )


def _flags(bank: OpenBank, record: Sealed) -> list[str]:
    """Return the reasons why a stored memory would be withheld from context."""
    from satchel.screening.injection import may_have_shape

    entry = record.model
    if not isinstance(entry, Entry):
        return []
    trust = entry.origin.trust if entry.origin is not None else None
    enforce: Any = bank.settings.options.rehydrate.enforce
    is_own = trust in (None, TrustClass.USER, TrustClass.AGENT) and enforce != "all"
    if is_own and not may_have_shape(record.body.decode()):
        return []
    from satchel.model.text import entry_statements
    from satchel.screening.injection import reasons_against

    return reasons_against(entry_statements(entry), record.type, trust or TrustClass.USER, enforce)


def _screened(record: Sealed, screener: SecretScreener, limits: Limits) -> Sealed:
    model = record.model
    screened = screener(model)
    return record if screened is model else seal(screened, unknown=record.unknown, limits=limits)


def _later_fields(
    fields: dict[str, Any], members: dict[str, Any], existing: VerifiedRecord
) -> dict[str, Any]:
    """Return the members of a later version, created when the first was and updated now."""
    created = members.get("created_at") or existing.record.value.get("created_at")
    return {"updated_at": now(), **fields, "created_at": created}


def _says_the_same(record: Sealed, existing: VerifiedRecord) -> bool:
    """Return whether two entries are equal except for their IDs and times."""
    new, old = dict(record.value), dict(existing.record.value)
    for name in _OF_EACH_TIME:
        new.pop(name, None)
        old.pop(name, None)
    return new == old and not existing.row.hold


def parents_of(view: View, references: Sequence[str]) -> list[str]:
    """Return the IDs of parents, each once.

    Raises:
        UnknownMemoryError: If one is not in the bank.
        RetiredMemoryError: If one is quarantined: a memory derived from it would not be.
    """
    parents = [find_memory(view, each, "parent_ids") for each in references]
    if any(each.row.hold for each in parents):
        raise RetiredMemoryError(
            "a parent is quarantined", field="parent_ids", hint="Release it first."
        )
    return list(dict.fromkeys(each.record.id for each in parents))


def superseding(
    old: str, new: str, *, reason: str | None = None, actor: str | None = None
) -> Sealed:
    """Return the status record by which one memory supersedes another."""
    return seal(
        Status(target=old, state="superseded", by=new, reason=reason, actor=actor, at=now())
    )
