"""Changing what is remembered: a new version, a correction, forgetting, and bringing back.

Nothing is overwritten. An update is a new entry and the statement that it takes the place of the
old one; so is a correction, which says besides, by an edge ``supersedes``, that the old one was
wrong. Forgetting is the statement alone. Source: docs/decisions/0015.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import msgspec

from satchel.bank.drafts import GIVEN, MemoryFields, labels, sealed_of
from satchel.bank.memory import CURRENT, Memory, shown, stored
from satchel.bank.memory_ids import current_memory, find_memory, newest_of, not_current, versions_of
from satchel.bank.open_bank import OpenBank
from satchel.bank.remember import MOST_TRIES, contents, parents_of, superseding
from satchel.crypto.sealed_records import Sealed, seal
from satchel.errors import ChangedError, RetiredMemoryError, SlotTakenError, UsageError
from satchel.ledger.projection import VerifiedRecord
from satchel.ledger.view import View
from satchel.model.records import Edge, Entry, Source, State, Status
from satchel.model.values import Origin, TrustClass, now

CORRECTION = "correction"
"""What the reason of a correction starts with."""

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
        EmptyInputError, UsageError, ValueRefusedError, LimitError: As ``drafting.sealed_of``.
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
        dropped = set(labels(list(edit.drop_tags)))
        tags = [*value.get("tags", []), *labels(list(edit.add_tags))]
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


_MOST = 2000
"""Ancestors that are read for one answer."""

_DEEPEST = 20


def with_retracted(view: View, memories: Sequence[Memory]) -> list[Memory]:
    """Return memories with the IDs of their ancestors that were corrected or deleted.

    A memory that was only updated was right in its time: what derives from it is not marked.

    Args:
        view: The bank.
        memories: As they are shown.
    """
    parents = {memory.id: list(memory.parents) for memory in memories}
    retracted = _among(view, parents)
    if not retracted:
        return list(memories)
    return [
        msgspec.structs.replace(
            memory, retracted=[each for each in _ancestors(memory.id, parents) if each in retracted]
        )
        for memory in memories
    ]


def _among(view: View, parents: dict[str, list[str]]) -> set[str]:
    """Read ancestors, level by level, into ``parents``; return those that were retracted."""
    retracted, known, level = set[str](), set[str](), list(parents)
    for _ in range(_DEEPEST):
        ends = dict.fromkeys(end for name in level for end in parents.get(name, ()))
        level = [end for end in ends if end not in known][: _MOST - len(known)]
        if not level:
            break
        known.update(level)
        for name, logged in view.get(level).items():
            if isinstance(logged.model, Entry):
                parents.setdefault(name, list(logged.model.parent_ids))
                if _is_retracted(view, logged):
                    retracted.add(name)
    return retracted


def _ancestors(name: str, parents: dict[str, list[str]]) -> list[str]:
    seen, waiting = {name: None}, list(parents[name])
    while waiting:
        each = waiting.pop(0)
        if each not in seen:
            seen[each] = None
            waiting += parents.get(each, ())
    return list(seen)[1:]


def _is_retracted(view: View, logged: VerifiedRecord) -> bool:
    if logged.row.retired is None:
        return False
    ended = [said for said in view.said(logged) if said.place == logged.row.retired]
    if any(said.state in ("deleted", "rejected") for said in ended):
        return True
    return any(
        isinstance(status.model, Status)
        and (status.model.reason or "").partition(":")[0] == CORRECTION
        for status in view.at([said.seq for said in ended if said.state == "superseded"])
    )
