"""From what a caller says to a sealed entry: members by name, checked, each error naming one."""

from collections.abc import Mapping
from datetime import date, datetime
from typing import Any

import msgspec

from satchel.crypto.canonical import Limits
from satchel.crypto.sealed_records import Sealed, known_members, seal, shape_problem
from satchel.errors import EmptyInputError, UsageError, ValueRefusedError
from satchel.model.records import ENTRY_CLASSES, TIMES, Entry
from satchel.model.values import Component, format_time, read_time, resolved

MemoryFields = Mapping[str, Any]
"""Members of an entry by name, ``type`` among them, as JSON; times as text or ``datetime``."""

GIVEN = frozenset({"id", "nonce"})
"""Members that nobody chooses."""

_SAYS_NOTHING = frozenset({"type", "scope", "origin", "created_at", "updated_at", "parent_ids"})


def sealed_of(members: MemoryFields, limits: Limits) -> Sealed:
    """Return the entry with some members.

    Args:
        members: Those that are None are left out; the type is ``semantic`` unless it is said.
        limits: The bounds on a record.

    Raises:
        EmptyInputError: If it says nothing.
        UsageError: If a member cannot be chosen, or a time or the type is none.
        ValueRefusedError: If a member has the wrong shape, or no canonical form.
        LimitError: If it is too large.
    """
    said = {name: part for name, part in members.items() if part is not None}
    for name in sorted(GIVEN & said.keys()):
        raise UsageError("this member is set automatically", field=name)
    component = said.pop("type", Component.SEMANTIC)
    if not isinstance(component, str) or component not in set(Component):
        raise UsageError(f"the type must be one of {', '.join(Component)}", field="type")
    if not any(_says(part) for name, part in said.items() if name not in _SAYS_NOTHING):
        raise EmptyInputError("the memory is empty", field="text")
    for name in TIMES:
        if name in said:
            said[name] = moment(said[name], name)
    if "tags" in said:
        said["tags"] = labels(said["tags"])
    known = known_members(component)
    fields = {name: part for name, part in said.items() if name in known}
    unknown = {name: part for name, part in said.items() if name not in known}
    return seal(_entry(Component(component), fields), unknown=unknown, limits=limits)


def _entry(component: Component, fields: dict[str, Any]) -> Entry:
    try:
        return msgspec.convert(fields, resolved(ENTRY_CLASSES[component]))
    except msgspec.ValidationError as error:
        problem, field = shape_problem(error)
        raise ValueRefusedError(f"not a memory: {problem}", field=field) from None
    except RecursionError:
        raise ValueRefusedError("not a memory: nested too deeply") from None


def _says(part: Any) -> bool:
    return bool(part.strip()) if isinstance(part, str) else part not in ([], {}, ())


def labels(tags: Any) -> list[str]:
    """Return tags, each once, in their order.

    Raises:
        UsageError: If one is empty, or no text.
    """
    if not isinstance(tags, list | tuple) or not all(isinstance(tag, str) for tag in tags):
        raise UsageError("tags must be a list of strings", field="tags")
    if not all(tag.strip() for tag in tags):
        raise UsageError("a tag must not be empty", field="tags")
    return list(dict.fromkeys(tags))


def moment(value: Any, field: str) -> str:
    """Return a time as the model keeps it.

    Args:
        value: A text such as ``2026-03-01`` or ``2026-03-01T09:30+01:00``, without a zone meant
            in UTC; or a ``datetime`` with its zone, or a ``date``, which is its first moment in
            UTC.
        field: What to call it in errors.

    Raises:
        UsageError: If it names no moment.
    """
    found = None
    if isinstance(value, datetime):
        found = format_time(value) if value.tzinfo is not None else None
    elif isinstance(value, date):
        found = read_time(value.isoformat())
    elif isinstance(value, str):
        found = read_time(value)
    if found is None:
        raise UsageError(
            f"{str(value)[:60]!r} is not a valid time",
            field=field,
            hint="Write it as 2026-03-01, or 2026-03-01T09:30:00+01:00; a datetime needs a zone.",
        )
    return found
