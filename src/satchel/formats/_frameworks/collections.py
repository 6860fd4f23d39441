"""What one record of a Chroma collection says, as an entry, and back.

A record is a document, an id and members that are texts, numbers, truth values or lists of one
kind of them. Compared with chromadb 1.5.9.
"""

import math
from typing import Any

from satchel.errors import MalformedError
from satchel.formats._frameworks.chroma_vectors import SPACES, USUAL
from satchel.formats._frameworks.payloads import (
    TEXTS,
    covered_by,
    losses_of,
    payload_of,
    said_in,
    text_in,
)
from satchel.memory.entries import Entry, Semantic
from satchel.memory.parts import Origin, TrustClass
from satchel.memory.times import read_time
from satchel.ports.carried import mark_of
from satchel.ports.contents import TEXT_MEMBER
from satchel.ports.report import Report
from satchel.seal.encoding.carry import restore
from satchel.seal.encoding.notation import NUMBERS, numbers_of, with_numbers
from satchel.seal.records import Sealed

NAME = "chroma"
"""The provider that entries from Chroma name, from a database or from what a collection returns."""

VECTOR = "embedding"
"""The member of ``origin.as_written`` with the vector, and a mark of the text it was made of."""

URI = "uri"
SPACE = "space"
"""Beside the numbers of a vector: how it is compared, where that is not the usual way."""

_RESERVED = "chroma:"
_MOST_INTEGER = 2**63
_HELD = frozenset(
    {"id", "nonce", "type", "text", "metadata", "tags", "scope", "origin", "created_at"}
)

Row = dict[str, Any]
"""A record: ``id``, ``document``, ``metadata``, ``embedding``, ``uri``, ``created_at``."""


def entry_of(row: Row, collection: str | None, *, space: str = USUAL) -> Semantic:
    """Return a record as an entry.

    Args:
        row: The record; its vector are 32-bit numbers in bytes, or a list, in the reversible form.
        collection: The collection that it is in, where that is known.
        space: How its vector is compared, which is kept where it is not the usual way.

    Raises:
        MalformedError: If it has no id, or members that are none.
    """
    identity, document, metadata = row.get("id"), row.get("document"), row.get("metadata")
    if type(identity) is not str:
        raise MalformedError("a record without an ID", field="ids")
    if document is not None and type(document) is not str:
        raise MalformedError("a document that is not text", field="documents")
    if metadata is not None and type(metadata) is not dict:
        raise MalformedError("metadata that is not an object", field="metadatas")
    kept: Row = {}
    rest = dict(metadata or {})
    named = None if (document or "").strip() else text_in(rest)
    text = document
    if named is not None and (document is None or rest[named].strip()):
        text = rest.pop(named)
        kept[TEXT_MEMBER] = named
        if document is not None:
            kept["document"] = document
    if row.get(VECTOR) is not None:
        kept[VECTOR] = {"of": mark_of(text or ""), "numbers": row[VECTOR]}
        kept[VECTOR] |= {SPACE: space} if space in SPACES else {}
    if row.get(URI) is not None:
        kept[URI] = row[URI]
    if metadata is not None and not metadata:
        kept["metadata"] = {}
    kept |= numbers_of({"metadata": metadata, VECTOR: row.get(VECTOR)})
    when = row.get("created_at")
    return Semantic(
        text=text,
        created_at=read_time(when) if type(when) is str else None,
        origin=Origin(
            provider=NAME,
            source=collection,
            id=identity,
            as_written=kept,
            trust=TrustClass.IMPORTED,
        ),
        **said_in(rest),
    )


def row_of(record: Sealed, entry: Entry, report: Report) -> Row:
    """Return an entry as a record; what has no place in one is counted."""
    origin = entry.origin
    own = origin is not None and origin.provider == NAME
    kept = origin.as_written if own and origin is not None else {}
    lost = losses_of(record.value, _HELD)
    lost |= {f"metadata/{name}": "another member has the same name" for name in covered_by(entry)}
    payload, document = payload_of(entry), entry.text
    named = kept.get(TEXT_MEMBER)
    if named in TEXTS and entry.text is not None and named not in payload:
        payload[named], document = entry.text, kept.get("document")
        if text_in(payload) != named:
            lost["text"] = "it would be confused with another member"
    elif named is not None:
        lost[f"text/{named}"] = "the text is stored as the document"
    metadata = {name: part for name, part in payload.items() if _fits(name, restore(part))}
    reason = "Chroma stores texts, numbers, booleans, and lists of one kind"
    lost |= {f"metadata/{name}": reason for name in sorted(payload.keys() - metadata.keys())}
    if not own or "revision" in record.value.get("origin", {}):
        lost |= {"origin": "a record cannot store provenance"} if origin else {}
    for name, why in lost.items():
        report.lost(name, why, example=record.id)
    identity = origin.id if origin is not None and origin.id else record.id.partition(":")[2][:32]
    written = {
        "id": identity,
        "document": document,
        "metadata": metadata if metadata or "metadata" in kept else None,
        VECTOR: vector_in(kept.get(VECTOR), entry.text),
        URI: kept.get(URI),
        "created_at": entry.created_at,
    }
    return with_numbers(written, kept.get(NUMBERS))


def _fits(name: str, value: Any) -> bool:
    if not name or name.startswith(_RESERVED):
        return False
    if type(value) is list:
        kinds = {type(one) for one in value}
        return len(kinds) == 1 and all(_is_plain(one) for one in value)
    return _is_plain(value)


def _is_plain(value: Any) -> bool:
    kind = type(value)
    if kind is int:
        return bool(-_MOST_INTEGER <= value < _MOST_INTEGER)
    return kind in (str, bool) or (kind is float and math.isfinite(value))


def vector_in(kept: Any, text: str | None) -> Any:
    """Return the vector that came with a record, as long as it says what it said then."""
    if not isinstance(kept, dict) or kept.get("of") != mark_of(text or ""):
        return None
    return kept.get("numbers")
