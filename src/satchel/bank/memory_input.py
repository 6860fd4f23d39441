"""Input of callers: the members of a memory, and the ID, ID prefix or text that names one."""

from collections.abc import Mapping
from dataclasses import replace
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
_ALL_ENTRIES = replace(_ENTRIES, retired=True)
_DIGITS = frozenset("0123456789abcdef")


def find_record(
    view: View, reference: str, field: str = "id", *, forgotten: bool = False
) -> VerifiedRecord:
    """Return a record of any type, by ID, ID prefix or text.

    Args:
        view: A view of the bank.
        reference: Its ID, or at least the first six digits of it; or the text of a current memory,
            or a part of the text that no other current memory has.
        field: Name of the argument in errors.
        forgotten: Whether a text names a forgotten memory instead of a current one.

    Raises:
        UnknownMemoryError: If there is no such record.
        UsageError: If several match, or it is neither an ID nor a text.
    """
    if not isinstance(reference, str):
        raise UsageError(
            f"an ID must be a string, not {type(reference).__name__}",
            field=field,
            hint="Pass several IDs as several arguments: forget(*ids).",
        )
    if len(reference) == _ID_LENGTH and is_id(reference):
        matches = list(view.get([reference]).values())
        if not matches:  # an index alone cannot prove absence
            view.require_columns("id")
    elif (quoted := _quoted(view, reference, field, forgotten=forgotten)) is not None:
        return quoted
    else:
        digits = reference.removeprefix(_PREFIX).lower()
        if len(digits) < _LEAST_DIGITS or not _DIGITS.issuperset(digits):
            raise UsageError(
                f"not a memory ID: {_shown(reference)!r}",
                field=field,
                hint=(
                    f"Pass its ID, a prefix of at least {_LEAST_DIGITS} digits, or two or more "
                    "words of its text."
                ),
            )
        matches = view.with_prefix(digits, limit=_MOST_SHOWN)
    if not matches:
        raise UnknownMemoryError(
            f"there is no memory {_shown(reference)!r} in this bank",
            field=field,
            hint="See: satchel list. To use another bank: --bank NAME.",
        )
    if len(matches) > 1:
        ids = ", ".join(sorted(logged.record.id for logged in matches))
        raise UsageError(
            f"several IDs start with {reference!r}", field=field, hint=f"Choose one: {ids}"
        )
    return matches[0]


def _quoted(view: View, reference: str, field: str, *, forgotten: bool) -> VerifiedRecord | None:
    """Return the current or forgotten memory that contains a text; None if it is not words.

    Raises:
        UnknownMemoryError: If no such memory contains it.
        UsageError: If several do; the hint lists their IDs.
    """
    words = " ".join(reference.split()).casefold()
    if len(words) < _LEAST_QUOTED or " " not in words:
        return None
    containing = list[tuple[str, VerifiedRecord]]()
    for logged in view.newest(_ALL_ENTRIES if forgotten else _ENTRIES):
        text = " ".join((logged.row.text or "").split()).casefold()
        if words in text and (not forgotten or _is_forgotten(view, logged)):
            containing.append((text, logged))
    state, command = ("forgotten", "list --all") if forgotten else ("current", "list")
    if not containing:
        raise UnknownMemoryError(
            f"no {state} memory contains {_shown(reference)!r}",
            field=field,
            hint=f"See: satchel {command}.",
        )
    exact = [logged for text, logged in containing if text == words]
    matches = exact or [logged for _, logged in containing]
    if len(matches) > 1:
        ids = ", ".join(each.record.id[:_ID_SHOWN] for each in matches[:_MOST_SHOWN])
        raise UsageError(
            f"{len(matches)} {state} memories contain {_shown(reference)!r}",
            field=field,
            hint=f"Choose one: {ids}",
        )
    return matches[0]


def _is_forgotten(view: View, logged: VerifiedRecord) -> bool:
    if logged.row.retired is None:
        return False
    retirement = view.retirement(logged.row)
    is_deleted = retirement is not None and retirement.state == "deleted"
    return is_deleted and newest_of(view, logged) is None


def find_memory(
    view: View, reference: str, field: str = "id", *, forgotten: bool = False
) -> VerifiedRecord:
    """Return a memory; see ``find_record``.

    Raises:
        UnknownMemoryError: Also if it is a record of another type.
    """
    logged = find_record(view, reference, field, forgotten=forgotten)
    if not isinstance(logged.model, Entry):
        raise UnknownMemoryError(
            f"this is the id of a {logged.record.type} record, not of a memory",
            field=field,
            hint=_TYPE_HINTS.get(logged.record.type, "See: satchel list."),
        )
    return logged


_TYPE_HINTS = {"bank": "See: satchel bank list."}


def current_memory(view: View, reference: str) -> VerifiedRecord:
    """Return a current memory; see ``find_record``.

    Raises:
        RetiredMemoryError: If it has a newer version, was forgotten, or is quarantined.
    """
    logged = find_memory(view, reference)
    if logged.row.retired is not None:
        raise not_current(view, logged)
    if logged.row.hold:
        raise RetiredMemoryError(
            "the memory is quarantined",
            field="id",
            hint="Release it first, or forget it.",
        )
    return logged


def not_current(view: View, logged: VerifiedRecord) -> RetiredMemoryError:
    """Return the error for a memory that is not current; it names the current version."""
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
    """Return the versions of a memory that updates link, in log order."""
    versions = view.get(sorted(view.versions(logged.record.id)))
    return sorted(versions.values(), key=lambda each: each.seq)


def newest_of(view: View, logged: VerifiedRecord) -> VerifiedRecord | None:
    """Return the current version of a memory, if there is one."""
    current = [each for each in versions_of(view, logged) if each.row.retired is None]
    if not current and logged.row.slot is not None:
        return view.current(logged.row.slot)
    return current[-1] if current else None


def _shown(reference: str) -> str:
    return reference if len(reference) <= _ID_LENGTH else reference[:32] + "…"


MemoryFields = Mapping[str, Any]
"""JSON members of an entry by name, including ``type``; times are text or ``datetime``."""

GIVEN = frozenset({"id", "nonce"})
"""Members that are set automatically."""

_NOT_CONTENT = frozenset({"type", "scope", "origin", "created_at", "updated_at", "parent_ids"})


def sealed_of(members: MemoryFields, limits: Limits) -> Sealed:
    """Return the sealed entry with members. Errors name the member.

    Args:
        members: Members by name, without those that are None; the type defaults to ``semantic``.
        limits: Limits of a record.

    Raises:
        EmptyInputError: If there is no content.
        UsageError: If a member is set automatically, or a time or the type is not valid.
        ValueRefusedError: If a member has the wrong shape, or no canonical form.
        LimitError: If the record is too large.
    """
    values = {name: part for name, part in members.items() if part is not None}
    for name in sorted(GIVEN & values.keys()):
        raise UsageError("this member is set automatically", field=name)
    component = values.pop("type", Component.SEMANTIC)
    if not isinstance(component, str) or component not in set(Component):
        raise UsageError(f"the type must be one of {', '.join(Component)}", field="type")
    if not any(_has_content(part) for name, part in values.items() if name not in _NOT_CONTENT):
        raise EmptyInputError("the memory is empty", field="text")
    for name in TIMES:
        if name in values:
            values[name] = parse_moment(values[name], name)
    if "tags" in values:
        values["tags"] = unique_tags(values["tags"])
    known = known_members(component)
    fields = {name: part for name, part in values.items() if name in known}
    unknown = {name: part for name, part in values.items() if name not in known}
    return seal(_entry(Component(component), fields), unknown=unknown, limits=limits)


def _entry(component: Component, fields: dict[str, Any]) -> Entry:
    try:
        return msgspec.convert(fields, resolved(ENTRY_CLASSES[component]))
    except msgspec.ValidationError as error:
        problem, field = shape_problem(error)
        raise ValueRefusedError(f"not a memory: {problem}", field=field) from None
    except RecursionError:
        raise ValueRefusedError("not a memory: nested too deeply") from None


def _has_content(part: Any) -> bool:
    return bool(part.strip()) if isinstance(part, str) else part not in ([], {}, ())


def unique_tags(tags: Any) -> list[str]:
    """Return tags without duplicates, in order.

    Raises:
        UsageError: If a tag is empty or not a string.
    """
    if not isinstance(tags, list | tuple) or not all(isinstance(tag, str) for tag in tags):
        raise UsageError("tags must be a list of strings", field="tags")
    if not all(tag.strip() for tag in tags):
        raise UsageError("a tag must not be empty", field="tags")
    return list(dict.fromkeys(tags))


def parse_moment(value: Any, field: str) -> str:
    """Return a time in canonical form.

    Args:
        value: A text such as ``2026-03-01`` or ``2026-03-01T09:30+01:00``, in UTC if it has no
            zone; a ``datetime`` with a zone; or a ``date``, which is its first moment in UTC.
        field: Name of the argument in errors.

    Raises:
        UsageError: If it is not a valid time.
    """
    time = None
    if isinstance(value, datetime):
        time = format_time(value) if value.tzinfo is not None else None
    elif isinstance(value, date):
        time = read_time(value.isoformat())
    elif isinstance(value, str):
        time = read_time(value)
    if time is None:
        raise UsageError(
            f"{str(value)[:60]!r} is not a valid time",
            field=field,
            hint="Write it as 2026-03-01, or 2026-03-01T09:30:00+01:00; a datetime needs a zone.",
        )
    return time
