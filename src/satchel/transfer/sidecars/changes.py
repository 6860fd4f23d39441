"""What makes one JSON value of another, so that an edit of the other in between is kept.

A change says what is to be, and a mark of what was there. Where something else is there now,
somebody changed it, and that stays. Objects are changed member by member, lists as a whole.
"""

from typing import Any

import msgspec
from blake3 import blake3

from satchel.seal.encoding.jcs import canonical_checked

_MARK_BYTES = 8


class Change(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """What makes one object of another."""

    to: dict[str, Any] = {}
    """Members that are to be."""

    was: dict[str, str] = {}
    """Marks of members that were there; one that is not in ``to`` is to go."""

    within: dict[str, "Change"] = {}
    """Changes of members that are objects on both sides."""

    def __bool__(self) -> bool:
        return bool(self.to or self.was or self.within)


def change_of(before: dict[str, Any], after: dict[str, Any]) -> Change:
    """Return what makes ``after`` of ``before``; both are in the canonical domain."""
    found = Change({}, {}, {})
    for name in sorted(before.keys() | after.keys()):
        one, other = before.get(name), after.get(name)
        if name in before and name in after:
            if canonical_checked(one) == canonical_checked(other):
                continue
            if isinstance(one, dict) and isinstance(other, dict):
                found.within[name] = change_of(one, other)
                continue
        if name in before:
            found.was[name] = _mark(one)
        if name in after:
            found.to[name] = other
    return found


def changed(now: dict[str, Any], change: Change) -> dict[str, Any]:
    """Return an object with a change made to it, except for what is not as it was."""
    made = dict(now)
    for name in change.to.keys() | change.was.keys():
        there = _mark(now[name]) if name in now else None
        if there != change.was.get(name):
            continue
        if name in change.to:
            made[name] = change.to[name]
        else:
            del made[name]
    for name, inner in change.within.items():
        part = now.get(name)
        if isinstance(part, dict):
            made[name] = changed(part, inner)
    return made


def _mark(value: Any) -> str:
    return blake3(canonical_checked(value)).hexdigest(length=_MARK_BYTES)
