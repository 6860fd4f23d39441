"""What a point of Mem0's own store says, as ``get_all()`` shows it, and back.

``get_all()`` shows a point's ``data`` as ``memory``, eleven more members under their names, and
the rest, which were laid flat beside them, as ``metadata``. The libraries for Python and for
TypeScript name some members differently; a point is in the one spelling or in the other.
Compared with mem0ai 2.2.1 for Python and 3.3.1 for TypeScript.
"""

from typing import Any
from uuid import NAMESPACE_URL, UUID, uuid5

from satchel.crypto.canonical import decode_foreign, encode_foreign, escape_keys
from satchel.formats._mem0 import NAME, Row
from satchel.model.records import Entry
from satchel.ports.losses import Report

_PYTHON = {
    "data": "memory",
    **{
        name: name
        for name in (
            *("hash", "created_at", "updated_at", "text_lemmatized", "attributed_to"),
            *("user_id", "agent_id", "run_id", "actor_id", "role", "expiration_date"),
        )
    },
}
"""The member of a row that says what a member of a point does."""

_TYPESCRIPT = {
    **{name: part for name, part in _PYTHON.items() if not name.endswith(("_at", "_to", "zed"))},
    **{name: name for name in ("createdAt", "updatedAt", "textLemmatized", "attributedTo")},
}
_CASES = {"text_lemmatized", "textLemmatized"}

_NO_PLACE = "Mem0's own store cannot hold it"
_SPACE = uuid5(NAMESPACE_URL, "mem0-local")
_MOST_INTEGER = 2**64 - 1

Payload = dict[str, Any]
"""What a point says, besides its id and its vectors."""


def row_of_payload(identity: str | int, payload: Payload) -> Row:
    """Return a point as one memory of ``get_all()``, in the reversible form for foreign values.

    Args:
        identity: The point's id.
        payload: What it says.
    """
    names = _TYPESCRIPT if _is_typescript(payload) else _PYTHON
    row: Row = {"id": str(identity)}
    metadata: list[tuple[str, Any]] = []
    for name, part in payload.items():
        if name in names:
            row[names[name]] = encode_foreign(part)
        else:
            metadata.append((name, encode_foreign(part)))
    for name in _CASES & row.keys():
        if row[name] == row.get("memory"):
            del row[name]  # without a lemmatizer Mem0 repeats the text
    row["metadata"] = dict(escape_keys(metadata)) or None
    return row


def _is_typescript(payload: Payload) -> bool:
    return "createdAt" in payload and "created_at" not in payload


def payload_of_row(row: Row, report: Report, example: str) -> Payload:
    """Return what a point is to say; what has no place in it is counted.

    Args:
        row: A memory as an export has it.
        report: Where losses go.
        example: The record's id, for the report.
    """
    names = _TYPESCRIPT if _is_typescript(row) else _PYTHON
    payload: Payload = {}
    for name, part in row.items():
        if name in ("id", "metadata"):
            continue
        target = next((there for there, here in names.items() if here == name), None)
        if target is not None:
            payload[target] = decode_foreign(part)
        elif part is not None:
            report.lost(_said(name), _NO_PLACE, example=example)
    lemmas = "textLemmatized" if names is _TYPESCRIPT else "text_lemmatized"
    payload.setdefault(lemmas, payload.get("data"))
    metadata = decode_foreign(row.get("metadata") or {})
    if not isinstance(metadata, dict):
        report.lost("metadata", "Mem0's own store flattens its members", example=example)
        metadata = {}
    for name, part in metadata.items():
        if name in names:
            report.lost(f"metadata/{name}", "Mem0 uses that member itself", example=example)
        else:
            payload[name] = part
    return payload


def _said(name: str) -> str:
    return {"categories": "tags", "app_id": "scope/app"}.get(name, name)


def point_id(entry: Entry, oldest: str) -> tuple[str | int, bool]:
    """Return the id of the point for a memory, and whether it is the one that the memory had.

    Args:
        entry: The memory.
        oldest: Our id of its first version.
    """
    origin = entry.origin
    if origin is None or origin.id is None:
        return str(uuid5(_SPACE, oldest)), True
    if origin.provider == NAME:
        kept = _own_id(origin.id)
        if kept is not None:
            return kept, True
    parts = (origin.provider, origin.source, origin.id)
    return str(uuid5(_SPACE, repr(parts))), origin.provider != NAME


def _own_id(text: str) -> str | int | None:
    if text.isascii() and text.isdecimal() and str(int(text[:21])) == text:
        return int(text) if int(text) <= _MOST_INTEGER else None
    try:
        return text if str(UUID(text)) == text else None
    except ValueError:
        return None


def derived_id(*parts: object) -> str:
    """Return an id that is the same whenever it is asked for with the same parts."""
    return str(uuid5(_SPACE, repr(parts)))
