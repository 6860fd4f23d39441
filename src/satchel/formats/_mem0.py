"""What one Mem0 record says, as an entry, and back."""

import hashlib
import re
from collections.abc import Callable
from datetime import timedelta
from functools import lru_cache
from typing import Any

import msgspec

from satchel.crypto.canonical import ABSENT
from satchel.crypto.json_reader import float_spellings, has_odd_numbers
from satchel.errors import MalformedError
from satchel.formats._json import differences, reproduce, text_in
from satchel.model.records import Entry, PlainSemantic, Procedural, Semantic
from satchel.model.values import (
    Origin,
    Scope,
    TrustClass,
    exact_time,
    format_time,
    iso_text,
    read_time,
    to_datetime,
)

NAME = "mem0"
"""The format, and the provider that entries from it name."""

RELATION = "relation"
"""The kind of an entry that was a relation of the graph memory."""

HISTORY = "history.db"
"""The member of ``origin.as_written`` with what the update history says of a version."""

VECTOR = "qdrant.vector"
"""The one with the vector of a memory, and the hash of the text that it was made for."""

OF_THE_STORE = frozenset({HISTORY, VECTOR})
"""What is kept for Mem0's own store, and is in no export."""

_PROCEDURAL = "procedural_memory"
_TYPE = "memory_type"
_DAY = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_NO_FIELD = "Mem0 has no such field"
_MIDNIGHT = "T00:00:00.000000Z"

_FIELDS = {
    "memory": "text",
    "hash": "text",
    "text_lemmatized": "text",
    "metadata": "metadata",
    "categories": "tags",
    "created_at": "created_at",
    "updated_at": "updated_at",
    "expiration_date": "expires_at",
    "user_id": "scope",
    "agent_id": "scope",
    "app_id": "scope",
    "run_id": "scope",
    "session_id": "scope",
    "source": "subject",
    "relationship": "predicate",
    "target": "object",
    "destination": "object",
    "id": "origin",
}
"""The member of an entry that says what a member of a Mem0 record says."""

_CAMEL = {name: re.sub("_(.)", lambda found: found[1].upper(), name) for name in _FIELDS}
_SNAKE = {camel: name for name, camel in _CAMEL.items()}

_USUAL_TEXTS = (
    *("id", "memory", "created_at", "updated_at"),
    *("user_id", "agent_id", "run_id", "app_id"),
)
_UNUSUAL = (_SNAKE.keys() - _FIELDS.keys()) | {"session_id"}

_NEVER = object()
_NEVER_USUAL = frozenset({_TYPE, *ABSENT})

_SAID = frozenset(_FIELDS.values())
_TRIPLE = frozenset({"subject", "predicate", "object"})
_IN_ALL = frozenset({"id", "nonce", "type", "kind", "origin"})

_SHOWN = ("id", "text", "created_at", "updated_at", "expires_at", "tags", "metadata", "scope")
_NOBODY = Scope()

Row = dict[str, Any]
"""One object of a Mem0 file."""


def entry_of(row: Row) -> Entry:
    """Return a memory as an entry.

    Raises:
        MalformedError: If there is no text in it, naming the member.
    """
    return _usual_entry(row) or _any_entry(row)


def decoded_entry_of(row: Row) -> Entry:
    """Return a memory that was decoded from JSON as an entry.

    Raises:
        MalformedError: As ``entry_of``.
    """
    return _usual_entry(row, is_decoded=True) or _any_entry(row)


def _usual_entry(row: Row, *, is_decoded: bool = False) -> Entry | None:
    """Return what ``_any_entry`` does, in few steps, for a memory as most exports have it.

    That is one whose mapped members would all be written as they are in it.

    Args:
        row: The memory.
        is_decoded: Whether everything in it was decoded from JSON.
    """
    said, kept = dict[str, Any].fromkeys(_USUAL_TEXTS), Row()
    for name, part in row.items():
        if name not in said:
            kept[name] = part
        elif type(part) is str:
            said[name] = part
        else:
            return None
    metadata, tags = kept.pop("metadata", ABSENT), kept.pop("categories", ())
    day = kept.pop("expiration_date", _NEVER)
    expires_at = None if type(day) is not str else _exact_expiry(day)
    created, updated = said["created_at"], said["updated_at"]
    created_at, updated_at = created and exact_time(created), updated and exact_time(updated)
    if (
        said["memory"] is None
        or said["id"] is None
        or not (metadata is None or _is_usual(metadata))
        or not (tags == () or _tags(tags))
        or (created is not None and not created_at)
        or (updated is not None and not updated_at)
        or (day is not _NEVER and expires_at is None)
        or not _UNUSUAL.isdisjoint(kept)
    ):
        return None
    if kept.setdefault("hash", ABSENT) == hash_of(said["memory"]):
        del kept["hash"]
    is_odd = has_odd_numbers(row.values())
    if is_odd:
        kept |= float_spellings(row)
    make = PlainSemantic if is_decoded and not is_odd else Semantic
    return make(
        text=said["memory"],
        created_at=created_at,
        updated_at=updated_at,
        expires_at=expires_at,
        tags=tuple(tags),
        metadata=metadata or {},
        scope=_scope_of(said["user_id"], said["agent_id"], said["run_id"], said["app_id"]),
        origin=Origin(provider=NAME, id=said["id"], trust=TrustClass.IMPORTED, as_written=kept),
    )


def _is_usual(metadata: Any) -> bool:
    return type(metadata) is dict and bool(metadata) and _NEVER_USUAL.isdisjoint(metadata)


def _any_entry(row: Row) -> Entry:
    """Return a memory as an entry, whatever is in it."""
    said = _mapped_members(row)
    # An id is always written; where the source has none, that is a difference to keep.
    written = _written_members(said, procedural=said["kind"] is not None)
    return _entry(said, differences(row, {"id": ABSENT, **written}))


def _mapped(row: Row) -> Entry:
    return _entry(_mapped_members(row), {})


def _entry(said: Row, kept: Row) -> Entry:
    cls = Semantic if said["kind"] is None else Procedural
    identity = said.pop("id")
    origin = Origin(provider=NAME, id=identity, trust=TrustClass.IMPORTED, as_written=kept)
    return cls(origin=origin, **said)


def _mapped_members(row: Row) -> Row:
    """Return the members of an entry by name; ``id`` is the one in its origin."""
    text = text_in(row, "memory")
    metadata = row.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    procedural = metadata.get(_TYPE) == _PROCEDURAL
    if procedural:
        metadata = {name: part for name, part in metadata.items() if name != _TYPE}
    return {
        "id": _text(row.get("id")),
        "text": text,
        "kind": _PROCEDURAL if procedural else None,
        "created_at": _time(_get(row, "created_at")),
        "updated_at": _time(_get(row, "updated_at")),
        "expires_at": _expiry(_get(row, "expiration_date")),
        "tags": _tags(row.get("categories")),
        "metadata": metadata,
        "scope": _scope(row),
    }


def triple_of(row: Row) -> Entry:
    """Return a relation of the graph memory as a fact."""
    entry = _mapped_triple(row)
    return _keeping(entry, differences(row, _written_triple(entry)))


def _mapped_triple(row: Row) -> Semantic:
    return Semantic(
        kind=RELATION,
        subject=_text(row.get("source")),
        predicate=_text(row.get("relationship")),
        object=_text(row.get("target" if "target" in row else "destination")),
        origin=Origin(provider=NAME, trust=TrustClass.IMPORTED),
    )


def _keeping(entry: Entry, kept: Row) -> Entry:
    if not kept or entry.origin is None:
        return entry
    origin = msgspec.structs.replace(entry.origin, as_written=kept)
    return msgspec.structs.replace(entry, origin=origin)


def _get(row: Row, name: str) -> Any:
    """Return a member by its name in Python, or else as TypeScript spells it."""
    return row[name] if name in row else row.get(_CAMEL[name])


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _time(value: Any) -> str | None:
    return read_time(value) if isinstance(value, str) else None


def _expiry(value: Any) -> str | None:
    """Mem0 shows a memory until its last day (UTC) is over."""
    first = _time(value)
    if first is None or not _DAY.fullmatch(value):
        return first
    try:
        return format_time(to_datetime(first) + timedelta(days=1))
    except OverflowError:
        return None


@lru_cache(512)
def _exact_expiry(day: str) -> str | None:
    """Return the expiry where its last day is written as the very same text."""
    expires_at = _expiry(day)
    return expires_at if expires_at is not None and _last_day(expires_at) == day else None


def _tags(value: Any) -> tuple[str, ...]:
    if isinstance(value, list) and all(isinstance(part, str) for part in value):
        return tuple(value)
    return ()


def _scope(row: Row) -> Scope | None:
    run = _text(_get(row, "run_id"))
    # The platform calls the same thing session_id.
    run = _text(_get(row, "session_id")) if run is None else run
    user, agent = _text(_get(row, "user_id")), _text(_get(row, "agent_id"))
    return _scope_of(user, agent, run, _text(_get(row, "app_id")))


def _scope_of(
    user: str | None, agent: str | None, run: str | None, app: str | None
) -> Scope | None:
    scope = Scope(user=user, agent=agent, run=run, app=app)
    return None if scope == _NOBODY else scope


def row_of(entry: Entry) -> Row:
    """Return a memory for writing, as its source had it where it came from Mem0."""
    return _reproduced(entry, _written(entry), _mapped)


def triple_row_of(entry: Semantic) -> Row:
    """Return a relation for writing."""
    return _reproduced(entry, _written_triple(entry), _mapped_triple)


def _reproduced(entry: Entry, written: Row, read: Callable[[Row], Entry]) -> Row:
    """Put back what was kept, except where it would say something else than the entry does."""
    origin = entry.origin
    if origin is None or origin.provider != NAME or not origin.as_written:
        return written
    kept = {name: part for name, part in origin.as_written.items() if name not in OF_THE_STORE}
    row = reproduce(written, kept)
    try:
        again = read(row)
    except MalformedError:
        return written
    now, then = _said(entry), _said(again)
    stale = {field for field, part in now.items() if part != then[field]}
    if not stale:
        return row
    fresh = {k: v for k, v in kept.items() if _FIELDS.get(_SNAKE.get(k, k)) not in stale}
    return reproduce(written, fresh)


def _said(entry: Entry) -> Row:
    """Return what an entry says that a Mem0 record can say."""
    said = {field: getattr(entry, field, None) for field in _SAID}
    said["metadata"] = (said["metadata"], type(entry))
    said["origin"] = entry.origin.id if entry.origin else None
    return said


def _written(entry: Entry) -> Row:
    """Return a memory as ``get_all()`` of mem0ai 2.2.1 shows it."""
    said = {name: getattr(entry, name) for name in _SHOWN}
    if entry.origin is not None and entry.origin.id is not None:
        said["id"] = entry.origin.id
    return _written_members(said, procedural=isinstance(entry, Procedural))


def _written_members(said: Row, *, procedural: bool) -> Row:
    """Return a memory as ``get_all()`` shows it, from members by name."""
    scope, text, metadata = said["scope"] or _NOBODY, said["text"], said["metadata"]
    if procedural and _TYPE not in metadata:
        metadata = {**metadata, _TYPE: _PROCEDURAL}
    row: Row = {
        "id": said["id"],
        "memory": text,
        "hash": hash_of(text or ""),
        "created_at": _written_time(said["created_at"]),
        "updated_at": _written_time(said["updated_at"]),
        "user_id": scope.user,
        "agent_id": scope.agent,
        "run_id": scope.run,
        "app_id": scope.app,
        "categories": list(said["tags"]) or None,
        "expiration_date": _last_day(said["expires_at"]),
    }
    row = {name: part for name, part in row.items() if part is not None}
    row["metadata"] = metadata or None  # always there, null when there is none
    return row


def hash_of(text: str) -> str:
    """Return the hash that Mem0 keeps of a text."""
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()


def _written_triple(entry: Semantic) -> Row:
    row = {"source": entry.subject, "relationship": entry.predicate, "target": entry.object}
    return {name: part for name, part in row.items() if part is not None}


def _written_time(text: str | None) -> str | None:
    return None if text is None else iso_text(text)


def _last_day(expires_at: str | None) -> str | None:
    if expires_at is None or not expires_at.endswith(_MIDNIGHT):
        return expires_at and expires_at[:10]
    try:
        return (to_datetime(expires_at) - timedelta(days=1)).date().isoformat()
    except OverflowError:
        return expires_at[:10]


def losses_of(value: Row, row: Row) -> dict[str, str]:
    """Return what of a record is not in the row that was made of it, each with the reason."""
    held = _IN_ALL | (_SAID - _TRIPLE if "text" in value else _TRIPLE)
    lost = dict.fromkeys(sorted(value.keys() - held), _NO_FIELD)
    procedural = value["type"] == "procedural"
    if value.get("kind") not in (None, RELATION, *([_PROCEDURAL] if procedural else [])):
        lost["kind"] = _NO_FIELD
    said = value.get("metadata", {}).get(_TYPE)
    if said is not None and procedural != (said == _PROCEDURAL):
        lost["type"] = "its metadata has another memory_type"
    if "namespace" in value.get("scope", {}):
        lost["scope/namespace"] = _NO_FIELD
    if _expiry(_get(row, "expiration_date")) != value.get("expires_at"):
        lost["expires_at"] = "Mem0 stores the day only"
    origin = value.get("origin", {"provider": NAME})
    if origin.get("provider") != NAME or origin.keys() & {"source", "revision"}:
        lost["origin"] = "Mem0 does not record provenance"
    return lost
