"""Exact round trips: what a source's record said that its mapped form does not reproduce.

A reader maps a record to the model; then the format's own writer is asked what it would write for
that. Where the two differ, the original member goes into ``origin.as_written``, and the writer
puts it back as long as the entry still says the same. So nothing is lost for want of a place, and
what is mapped exactly is not kept twice.
"""

from collections.abc import Callable, Mapping
from typing import Any

from satchel.seal.encoding.carry import ABSENT
from satchel.seal.encoding.notation import NUMBERS, numbers_of, with_numbers

_MISSING = object()


def differences(found: dict[str, Any], written: dict[str, Any]) -> dict[str, Any]:
    """Return the members to keep so that ``reproduce`` gives ``found`` back.

    Args:
        found: The source's record.
        written: What the writer makes of the mapped record.
    """
    kept = {
        name: part
        for name, part in found.items()
        # Most are the very same object, or plain texts.
        if (other := written.get(name, _MISSING)) is not part
        and (other is _MISSING or not _same(part, other))
    }
    kept.update(dict.fromkeys(written.keys() - found.keys(), ABSENT))
    return kept | numbers_of(found)


def reproduce(written: dict[str, Any], kept: dict[str, Any]) -> dict[str, Any]:
    """Return the source's record again, from what the writer made and what was kept."""
    out = {name: part for name, part in written.items() if kept.get(name) != ABSENT}
    out.update({name: part for name, part in kept.items() if part != ABSENT})
    return with_numbers(out, out.pop(NUMBERS, None))


def settled(
    written: dict[str, Any],
    kept: dict[str, Any],
    again: Callable[[dict[str, Any]], dict[str, Any]],
    now: dict[str, Any],
    means: Mapping[str, str],
) -> dict[str, Any]:
    """Return what ``reproduce`` does, without what would say something else than the record does.

    Args:
        written: What the writer made of the record.
        kept: What was kept of the source's record.
        again: Gives what a record says that is made of a row.
        now: What the record says.
        means: The member of a record that says what a member of a row says.
    """
    row = reproduce(written, kept)
    then = again(row)
    stale = {name for name in then if name in now and then[name] != now[name]}
    if not stale:
        return row
    return reproduce(written, {k: v for k, v in kept.items() if means.get(k) not in stale})


def _same(one: Any, other: Any) -> bool:
    """Tell whether two JSON values are the same; ``1`` and ``true`` are not."""
    if one is other:
        return True
    kind = type(one)
    if kind is not type(other):
        return False
    if kind is str:
        return bool(one == other)
    if kind is dict:
        return len(one) == len(other) and all(
            key in other and (part is other[key] or _same(part, other[key]))
            for key, part in one.items()
        )
    if kind is list:
        return len(one) == len(other) and all(map(_same, one, other))
    return bool(one == other)
