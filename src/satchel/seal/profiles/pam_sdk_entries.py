"""Profile ``pam-sdk-1.0``: an entry of the SDK as one of ours, and back.

What our members do not reproduce to the letter stays in ``origin.as_written``, so that an entry
that was not changed goes back under the very id it had.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from satchel.errors import MalformedError, ValueRefusedError
from satchel.memory.entries import ENTRY_CLASSES, Entry
from satchel.memory.parts import Component, Origin, TrustClass
from satchel.seal.encoding.carry import carried_float, carry
from satchel.seal.profiles.pam_sdk_fields import fields_of
from satchel.seal.profiles.pam_sdk_hashing import root_hash, sdk_text
from satchel.seal.profiles.pam_sdk_members import (
    DEFAULTED,
    PROVIDER,
    UNKNOWN_TIME,
    MemberWriter,
    once,
    restored,
)
from satchel.seal.profiles.pam_sdk_shape import ENTRY_MEMBERS, check_entry

_FREE = frozenset({"schema_version", "usage_count", "last_used"})
_LINKS = frozenset({"parent_ids", "source_event_ids"})


def draft_of(component: str, value: Mapping[str, Any], ours: Mapping[str, str]) -> Entry:
    """Return a checked entry of the SDK as a draft.

    Args:
        component: The array it stood in.
        value: The entry, its id included.
        ours: Our ids of the file's entries that were sealed before it, by their ids there.

    Raises:
        ValueRefusedError: If it holds what our value domain cannot hold in any form.
    """
    fields = fields_of(component, value)
    for member in _LINKS & value.keys():
        fields[member] = once(ours[link] for link in value[member] if link in ours)
    bare = ENTRY_CLASSES[Component(component)](**fields)
    theirs = {
        ours[link]: link
        for member in _LINKS & value.keys()
        for link in value[member]
        if link in ours
    }
    back = MemberWriter(bare, theirs).members()
    as_written = {
        member: _exactly(part)
        for member, part in value.items()
        if member != "id" and not _same(back[member], part)
    }
    fields["origin"] = Origin(
        provider=PROVIDER, id=value["id"], as_written=as_written, trust=TrustClass.IMPORTED
    )
    return ENTRY_CLASSES[Component(component)](**fields)


def _same(one: Any, other: Any) -> bool:
    """Tell whether two values are one to the SDK's hash, which tells 1.0 from 1 and from true."""
    if type(one) is str or type(other) is str:
        return bool(one == other)
    return sdk_text(one) == sdk_text(other)


def _exactly(value: Any) -> Any:
    """Return a value in a reversible form that also tells 1.0 from 1, as the SDK's hash does."""
    return _floats_named(carry(value))


def _floats_named(value: Any) -> Any:
    if type(value) is dict:
        return {key: _floats_named(part) for key, part in value.items()}
    if type(value) is list:
        return [_floats_named(part) for part in value]
    if type(value) is float and value.is_integer():
        return carried_float(repr(value))
    return value


@dataclass(frozen=True, slots=True)
class Written:
    """An entry for the SDK."""

    members: dict[str, Any]
    """All but the id."""

    losses: list[tuple[str, str]]
    """Members that could not be carried, each with the reason."""

    defaulted: bool
    """Whether something absent had to be written as the SDK's default."""


def written(entry: Entry, theirs: Mapping[str, str]) -> Written:
    """Return what the SDK can hold of an entry.

    Args:
        entry: Any entry.
        theirs: Their ids of the entries that were written before it, by our ids.
    """
    writer = MemberWriter(entry, theirs)
    members = writer.members()
    writer.note_unplaced()
    if entry.origin is not None and entry.origin.provider == PROVIDER:
        _as_it_was(entry, members)
    if members["created_at"] == UNKNOWN_TIME:
        writer.lost("created_at", "absent, which the SDK cannot express")
    defaulted = any(getattr(entry, name) is None for name in DEFAULTED[writer.component])
    return Written(members, writer.losses, defaulted)


def _as_it_was(entry: Entry, members: dict[str, Any]) -> None:
    """Write again what the SDK wrote, wherever that still says what the entry says."""
    origin = entry.origin
    component = str(entry.__struct_config__.tag)
    for name, carried in (origin.as_written if origin else {}).items():
        if name not in ENTRY_MEMBERS[component] or name == "id":
            continue
        candidate = {**members, name: restored(carried)}
        if _well_formed(component, candidate) and _agrees(entry, members, candidate, name):
            members[name] = candidate[name]


def _well_formed(component: str, members: Mapping[str, Any]) -> bool:
    try:
        check_entry(component, {**members, "id": root_hash(())})
    except MalformedError:
        return False
    return True


def _agrees(
    entry: Entry, members: Mapping[str, Any], candidate: Mapping[str, Any], name: str
) -> bool:
    if name in _FREE:
        return True
    if name in _LINKS:
        kept = set(members[name])
        again: list[str] = [link for link in once(candidate[name]) if link in kept]
        return again == list(members[name])
    component = str(entry.__struct_config__.tag)
    try:
        before, after = fields_of(component, members), fields_of(component, candidate)
    except ValueRefusedError:
        return False
    return all(
        sdk_text(part) in (sdk_text(before.get(field)), sdk_text(getattr(entry, field)))
        for field, part in after.items()
    )
