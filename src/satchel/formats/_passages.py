"""One passage of Letta's archival memory as an entry, and back."""

from typing import Any
from uuid import UUID

import msgspec

from satchel.errors import MalformedError
from satchel.formats._as_written import differences, settled
from satchel.formats._members import text_in
from satchel.memory.entries import Entry, Semantic
from satchel.memory.parts import Origin, Scope, TrustClass
from satchel.memory.times import exact_time, iso_text, read_time
from satchel.ports.carried import mark_of
from satchel.seal.records import Sealed

NAME = "letta_passages"
"""The format, and the provider that entries from it name."""

PASSAGE = "passage"
"""The kind of its entries, and what stands before the id of each."""

_VECTOR, _OF = "embedding", "of"
_MEANS = {
    "text": "text",
    "tags": "tags",
    "metadata": "metadata",
    "created_at": "created_at",
    "updated_at": "updated_at",
    "agent_id": "scope",
}
_HELD = frozenset({"id", "nonce", "type", "kind", "origin", *_MEANS.values()})
_NO_FIELD = "a passage has no such field"

Row = dict[str, Any]


def entry_of(row: Any) -> Semantic:
    """Return a passage as an entry.

    Raises:
        MalformedError: If there is no text in it, naming the member.
    """
    if type(row) is not dict:
        raise MalformedError("not an object")
    text_in(row, "text")
    made = Semantic(kind=PASSAGE, **_said(row))
    kept = differences({k: v for k, v in row.items() if k != "id"}, _written(made))
    if isinstance(kept.get(_VECTOR), list):
        kept[_VECTOR] = {_OF: mark_of(row["text"]), _VECTOR: kept[_VECTOR]}
    identity = row.get("id")
    if type(identity) is not str:
        identity = None
        kept |= {"id": row["id"]} if "id" in row else {}
    trust = TrustClass.IMPORTED
    origin = Origin(provider=NAME, id=identity, as_written=kept, trust=trust)
    return msgspec.structs.replace(made, origin=origin)


def _said(row: Row) -> Row:
    tags, metadata, agent = row.get("tags"), row.get("metadata"), row.get("agent_id")
    is_list = isinstance(tags, list) and all(type(one) is str for one in tags)
    return {
        "text": row.get("text"),
        "tags": tuple(tags) if is_list and tags else (),
        "metadata": metadata if type(metadata) is dict else {},
        "created_at": _time(row.get("created_at")),
        "updated_at": _time(row.get("updated_at")),
        "scope": Scope(agent=agent) if type(agent) is str and agent else None,
    }


def _time(value: Any) -> str | None:
    return read_time(value) if type(value) is str else None


def _written(entry: Entry) -> Row:
    row: Row = {
        "text": entry.text,
        "tags": list(entry.tags),
        "metadata": entry.metadata,
        "created_at": None if entry.created_at is None else _time_text(entry.created_at),
        "updated_at": None if entry.updated_at is None else _time_text(entry.updated_at),
        "agent_id": entry.scope.agent if entry.scope is not None else None,
    }
    return {name: part for name, part in row.items() if part is not None}


def _time_text(text: str) -> str:
    written = iso_text(text)
    return written if exact_time(written) is not None else text


def row_of(record: Sealed, entry: Entry) -> Row:
    """Return an entry as a passage; one from elsewhere gets an id that Letta can take."""
    origin = entry.origin
    is_ours = origin is not None and origin.provider == NAME
    kept = dict(origin.as_written) if is_ours and origin is not None else {}
    now = {name: getattr(entry, name) for name in _MEANS.values()}
    row = settled(_written(entry), kept, _said, now, _MEANS)
    held = row.get(_VECTOR)
    if isinstance(held, dict):
        row[_VECTOR] = held.get(_VECTOR) if held.get(_OF) == mark_of(entry.text or "") else None
    if is_ours and origin is not None:
        return row if origin.id is None else {"id": origin.id, **row}
    raw = bytes.fromhex(record.id.removeprefix("blake3:"))[:16]
    return {"id": f"{PASSAGE}-{UUID(bytes=raw, version=5)}", **row}


def losses_of(record: Sealed, entry: Entry) -> dict[str, str]:
    """Return what of an entry is not in its row, each with the reason."""
    lost = dict.fromkeys(sorted(record.value.keys() - _HELD), _NO_FIELD)
    if entry.kind not in (None, PASSAGE):
        lost["kind"] = _NO_FIELD
    scope = entry.scope
    if scope is not None and not (scope.agent and scope == Scope(agent=scope.agent)):
        lost["scope"] = "a passage has an agent and no other owner"
    if entry.origin is not None and entry.origin.provider != NAME:
        lost["origin"] = "a passage cannot store provenance"
    if record.type != "semantic":
        lost[record.type] = "it becomes a plain passage"
    return lost
