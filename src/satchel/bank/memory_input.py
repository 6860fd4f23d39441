"""Which memory of a bank is meant: its id, or the first digits of that."""

from collections.abc import Mapping
from datetime import date, datetime
from typing import Any

import msgspec

from satchel.crypto.canonical import Limits
from satchel.crypto.sealed_records import Sealed, known_members, seal, shape_problem
from satchel.errors import (
    EmptyInputError,
    RetiredMemoryError,
    UnknownMemoryError,
    UsageError,
    ValueRefusedError,
)
from satchel.ledger.projection import VerifiedRecord
from satchel.ledger.view import View
from satchel.model.records import ENTRY_CLASSES, TIMES, Entry
from satchel.model.values import Component, format_time, is_id, read_time, resolved
from satchel.ports.rows import Filter

_PREFIX = "blake3:"
_LEAST_DIGITS, _ID_LENGTH = 6, 71
_MOST_SHOWN = 5
_LEAST_QUOTED = 3
_ID_SHOWN = len("blake3:") + 12
_ENTRIES = Filter(types=frozenset(component.value for component in Component))
_DIGITS = frozenset("0123456789abcdef")


def find_record(view: View, wanted: str, field: str = "id") -> VerifiedRecord:
    """Return the record of any type that a person means.

    Args:
        view: Where to look.
        wanted: Its ID, or the first six digits or more of that; or the text of a current memory,
            or a part of it that no other current memory has.
        field: What to call it in errors.

    Raises:
        UnknownMemoryError: If there is none.
        UsageError: If there are several, or it is no id.
    """
    if not isinstance(wanted, str):
        raise UsageError(
            f"an ID must be a string, not {type(wanted).__name__}",
            field=field,
            hint="Pass several IDs as several arguments: forget(*ids).",
        )
    if len(wanted) == _ID_LENGTH and is_id(wanted):
        found = list(view.get([wanted]).values())
        if not found:  # that there is none is not for an index to say
            view.require_columns("id")
    elif (quoted := _quoted(view, wanted, field)) is not None:
        return quoted
    else:
        digits = wanted.removeprefix(_PREFIX).lower()
        if len(digits) < _LEAST_DIGITS or not _DIGITS.issuperset(digits):
            raise UsageError(
                f"not a memory ID: {_shown(wanted)!r}",
                field=field,
                hint=(
                    f"Pass its ID, a prefix of at least {_LEAST_DIGITS} digits, or two or more "
                    "words of its text."
                ),
            )
        found = view.with_prefix(digits, limit=_MOST_SHOWN)
    if not found:
        raise UnknownMemoryError(
            f"there is no memory {_shown(wanted)!r} in this bank",
            field=field,
            hint="See: satchel list. To use another bank: --bank NAME.",
        )
    if len(found) > 1:
        ids = ", ".join(sorted(logged.record.id for logged in found))
        raise UsageError(
            f"several IDs start with {wanted!r}", field=field, hint=f"Choose one: {ids}"
        )
    return found[0]


def _quoted(view: View, wanted: str, field: str) -> VerifiedRecord | None:
    """Return the current memory with a text, where it is words that are given and not an ID.

    Raises:
        UnknownMemoryError: If no current memory says it.
        UsageError: If several do, with their IDs.
    """
    words = " ".join(wanted.split()).casefold()
    if len(words) < _LEAST_QUOTED or " " not in words:
        return None
    found = list[tuple[str, VerifiedRecord]]()
    for logged in view.newest(_ENTRIES):
        text = " ".join((logged.row.text or "").split()).casefold()
        if words in text:
            found.append((text, logged))
    if not found:
        raise UnknownMemoryError(
            f"no current memory contains {_shown(wanted)!r}", field=field, hint="See: satchel list."
        )
    exact = [logged for text, logged in found if text == words]
    matches = exact or [logged for _, logged in found]
    if len(matches) > 1:
        ids = ", ".join(each.record.id[:_ID_SHOWN] for each in matches[:_MOST_SHOWN])
        raise UsageError(
            f"{len(matches)} memories contain {_shown(wanted)!r}",
            field=field,
            hint=f"Choose one: {ids}",
        )
    return matches[0]


def find_memory(view: View, wanted: str, field: str = "id") -> VerifiedRecord:
    """Return the entry that a person means; ``find_record`` says how it is named.

    Raises:
        UnknownMemoryError: Also if it is a record of another type.
    """
    found = find_record(view, wanted, field)
    if not isinstance(found.model, Entry):
        raise UnknownMemoryError(
            f"this is the id of a {found.record.type} record, not of a memory",
            field=field,
            hint=_OTHERWISE.get(found.record.type, "See: satchel list."),
        )
    return found


_OTHERWISE = {"bank": "See: satchel bank list."}


def current_memory(view: View, wanted: str) -> VerifiedRecord:
    """Return the entry that a person means, for a new version of it.

    Raises:
        RetiredMemoryError: If it has a newer version, was forgotten, or is held back.
    """
    found = find_memory(view, wanted)
    if found.row.retired is not None:
        raise not_current(view, found)
    if found.row.hold:
        raise RetiredMemoryError(
            "the memory is quarantined",
            field="id",
            hint="Release it first, or forget it.",
        )
    return found


def not_current(view: View, logged: VerifiedRecord) -> RetiredMemoryError:
    """Return the refusal for what is no longer current, naming what is."""
    newer = newest_of(view, logged)
    if newer is not None:
        identity = newer.record.id
        return RetiredMemoryError(
            "the memory has a newer version",
            current=identity,
            field="id",
            hint=f"The current one is {identity}.",
        )
    return RetiredMemoryError(
        "the memory is no longer current",
        field="id",
        hint="Restore it first: satchel restore ID. See: satchel history ID.",
    )


def versions_of(view: View, logged: VerifiedRecord) -> list[VerifiedRecord]:
    """Return the versions of a memory that took one another's place, in the order of the log."""
    found = view.get(sorted(view.versions(logged.record.id)))
    return sorted(found.values(), key=lambda each: each.seq)


def newest_of(view: View, logged: VerifiedRecord) -> VerifiedRecord | None:
    """Return the current version of a memory, where there is one."""
    there = [each for each in versions_of(view, logged) if each.row.retired is None]
    if not there and logged.row.slot is not None:
        there = [found for found in [view.current(logged.row.slot)] if found is not None]
    return there[-1] if there else None


def _shown(wanted: str) -> str:
    return wanted if len(wanted) <= _ID_LENGTH else wanted[:32] + "…"


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
            said[name] = parse_moment(said[name], name)
    if "tags" in said:
        said["tags"] = unique_tags(said["tags"])
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


def unique_tags(tags: Any) -> list[str]:
    """Return tags, each once, in their order.

    Raises:
        UsageError: If one is empty, or no text.
    """
    if not isinstance(tags, list | tuple) or not all(isinstance(tag, str) for tag in tags):
        raise UsageError("tags must be a list of strings", field="tags")
    if not all(tag.strip() for tag in tags):
        raise UsageError("a tag must not be empty", field="tags")
    return list(dict.fromkeys(tags))


def parse_moment(value: Any, field: str) -> str:
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
