"""A point of a Qdrant collection as an entry, and back.

A point is an ID (a number or a UUID), a payload that is any JSON object, and vectors, one or
several by name. The text is in the payload, under a name that depends on the program: LangChain's
``page_content``, Mem0's ``data``, ``text``, ``document``. Compared with qdrant-client 1.20.0.
"""

from typing import Any
from uuid import NAMESPACE_URL, UUID, uuid5

from satchel.crypto.canonical import decode_foreign, encode_foreign
from satchel.crypto.json_reader import NUMBERS, float_spellings, with_numbers
from satchel.crypto.sealed_records import Sealed
from satchel.errors import MalformedError
from satchel.model.records import Entry, Semantic
from satchel.model.values import Origin, Scope, TrustClass
from satchel.ports.drafts import TEXT_MEMBER
from satchel.ports.record_set import Report
from satchel.ports.vectors import text_mark

OWNERS = {"user_id": "user", "agent_id": "agent", "run_id": "run", "app_id": "app"}
"""Members for the parts of a scope."""

TAGS = "tags"

TEXTS = (
    *("text", "document", "page_content", "content", "data", "memory", "chunk"),
    *("body", "chunk_text", "passage", "message", "fact", "note"),
)
"""Members in which programs store the text of a row, likeliest first."""

Row = dict[str, Any]


def text_in(payload: Row) -> str | None:
    """Return the name of the member with the text of a row; None if there is none.

    A non-empty one has priority.
    """
    names = [name for name in TEXTS if type(payload.get(name)) is str]
    return next((name for name in names if payload[name].strip()), names[0] if names else None)


def fields_of(payload: Row) -> Row:
    """Return the members of an entry from a payload: scope, tags, and the rest as metadata."""
    rest = dict(payload)
    owners = {part: rest.pop(name) for name, part in OWNERS.items() if _is_name(rest.get(name))}
    fields: Row = {"scope": Scope(**owners)} if owners else {}
    if _are_tags(rest.get(TAGS)):
        fields["tags"] = tuple(rest.pop(TAGS))
    return {**fields, "metadata": rest}


def _is_name(value: Any) -> bool:
    return type(value) is str


def _are_tags(value: Any) -> bool:
    return type(value) is list and bool(value) and all(type(one) is str for one in value)


def payload_of(entry: Entry) -> Row:
    """Return the payload for the members of an entry other than its text."""
    payload = dict(entry.metadata)
    if entry.tags:
        payload[TAGS] = list(entry.tags)
    for name, part in OWNERS.items():
        found = getattr(entry.scope, part) if entry.scope is not None else None
        if found is not None:
            payload[name] = found
    return payload


def covered_by(entry: Entry) -> list[str]:
    """Return the members of the metadata whose names other members of the payload use."""
    own = payload_of(entry)
    return sorted(name for name, part in entry.metadata.items() if own[name] is not part)


def losses_of(value: Row, held: frozenset[str]) -> dict[str, str]:
    """Return the members of a record that a payload cannot hold, with the reason.

    Args:
        value: The record.
        held: The members that it can hold.
    """
    lost = dict.fromkeys(sorted(value.keys() - held), "it has no such field")
    if value["type"] != "semantic":
        lost["type"] = "it cannot store the memory type"
    if value.get("text") is not None and value.get("data") is not None:
        lost["data"] = "it stores the text"
    if value.get("scope", {}).get("namespace"):
        lost["scope/namespace"] = "it has no namespaces"
    return lost


NAME = "qdrant"
"""The provider in the origin of entries from Qdrant, from any of its formats."""

KINDS = "compared"
"""The member beside the vectors with their distances, other than cosine."""

VECTOR = "vector"
"""The member of ``origin.as_written`` with the vectors, and the mark of their text."""

_ROW = ("id", "payload", "vector")
_USUAL, _DATA = "text", "data"
_SPACE = uuid5(NAMESPACE_URL, "qdrant-point")
_MOST_NUMBER = 2**64
_SUPPORTED = frozenset(
    {"id", "nonce", "type", "text", "data", "metadata", "tags", "scope", "origin"}
)
"""A point: ``id``, ``payload``, ``vector``, and other members."""


def entry_of(row: Row, collection: str | None, kinds: Row | None = None) -> Semantic:
    """Return a point as an entry.

    Args:
        row: The point, in the reversible form for foreign values.
        collection: Its collection, if known.
        kinds: The distances of the collection's vectors, by name, other than cosine.

    Raises:
        MalformedError: If it has no ID, or its payload is not valid.
    """
    identity, payload = _id_of(row), row.get("payload")
    if payload is not None and type(payload) is not dict:
        raise MalformedError("`payload` is not an object", field="payload")
    rest: Row = dict(payload or {})
    named = text_in(rest)
    text = None if named is None else rest.pop(named)
    as_written = {name: part for name, part in row.items() if name not in _ROW}
    if named not in (None, _USUAL):
        as_written[TEXT_MEMBER] = named
    if row.get("vector") is not None:
        as_written[VECTOR] = {"of": text_mark(text or ""), "numbers": row["vector"]}
        as_written[VECTOR] |= {KINDS: kinds} if kinds else {}
    elif "vector" in row:
        as_written[VECTOR] = None
    as_written |= float_spellings(row)
    if payload is None:
        as_written["payload"] = None if "payload" in row else False
    is_data = text is None and rest.get(_DATA) is not None
    return Semantic(
        text=text,
        data=rest.pop(_DATA) if is_data else None,
        origin=Origin(
            provider=NAME,
            source=collection,
            id=identity,
            as_written=as_written,
            trust=TrustClass.IMPORTED,
        ),
        **fields_of(rest),
    )


def _id_of(row: Row) -> str:
    identity = decode_foreign(row.get("id"))
    if type(identity) is str and identity:
        return identity
    if type(identity) is not int or not 0 <= identity < _MOST_NUMBER:
        raise MalformedError("a point without an ID", field="id")
    return str(identity)


def row_of(record: Sealed, entry: Entry, report: Report) -> Row:
    """Return an entry as a point; what it cannot hold is counted as lost."""
    origin = entry.origin
    own = origin is not None and origin.provider == NAME
    as_written = origin.as_written if own and origin is not None else {}
    _count(record, entry, report, own=own)
    payload = payload_of(entry)
    if entry.text is not None:
        named = as_written.get(TEXT_MEMBER)
        payload[named if named in TEXTS else _USUAL] = entry.text
    elif entry.data is not None:
        payload[_DATA] = entry.data
    row: Row = {"id": encode_foreign(identity_of(record, entry, report))}
    if as_written.get("payload", True) is not False:
        row["payload"] = payload if payload or "payload" not in as_written else None
    if VECTOR in as_written:
        row["vector"] = vector_in(as_written[VECTOR], entry.text, report, record.id)
    known = (TEXT_MEMBER, VECTOR, "payload", "id", NUMBERS)
    row |= {name: part for name, part in as_written.items() if name not in known}
    return with_numbers(row, as_written.get(NUMBERS))


def identity_of(record: Sealed, entry: Entry, report: Report) -> str | int:
    """Return the ID of a point: the one it had, or a deterministic one."""
    origin = entry.origin
    if origin is None or origin.id is None:
        return str(UUID(record.id.partition(":")[2][:32]))
    if origin.provider == NAME:
        if origin.id.isascii() and origin.id.isdecimal() and int(origin.id[:21]) < _MOST_NUMBER:
            return int(origin.id)
        if _is_uuid(origin.id):
            return origin.id
        report.lost("origin/id", "Qdrant IDs must be numbers or UUIDs", example=record.id)
    return str(uuid5(_SPACE, repr((origin.provider, origin.source, origin.id, _owner(entry)))))


def _owner(entry: Entry) -> str:
    return "" if entry.scope is None else repr(entry.scope)


def _is_uuid(text: str) -> bool:
    try:
        return str(UUID(text)) == text.lower()
    except ValueError:
        return False


def vector_in(stored: Any, text: str | None, report: Report, example: str) -> Any:
    """Return the vectors that came with a point; None if the text has changed since."""
    if stored is None:
        return None
    if isinstance(stored, dict) and stored.get("of") == text_mark(text or ""):
        return stored.get("numbers")
    report.lost(VECTOR, "it was computed from another text", example=example)
    return None


def _count(record: Sealed, entry: Entry, report: Report, *, own: bool) -> None:
    lost = losses_of(record.value, _SUPPORTED)
    lost |= {f"metadata/{name}": "another member has the same name" for name in covered_by(entry)}
    origin = record.value.get("origin", {})
    named = entry.origin.as_written.get(TEXT_MEMBER) if own and entry.origin is not None else None
    if entry.text is not None and (named or _USUAL) in payload_of(entry):
        lost[f"metadata/{named or _USUAL}"] = "the text uses its name"
    if entry.text is None and entry.data is not None and _DATA in payload_of(entry):
        lost[f"metadata/{_DATA}"] = "the content uses its name"
    member = named if named in TEXTS else _USUAL
    if named not in (None, member):
        lost[f"text/{named}"] = f"the text is stored as `{member}`"
    if entry.text is not None and text_in({**payload_of(entry), member: entry.text}) != member:
        lost["text"] = "it would be confused with another member"
    if origin and (not own or "revision" in origin):
        lost["origin"] = "a point cannot store provenance"
    for name, reason in lost.items():
        report.lost(name, reason, example=record.id)
