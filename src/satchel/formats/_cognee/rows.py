"""One row of a COGX archive as a record, and back.

A memory, a document and a fact are semantic entries, a block is one as well or says who the agent
is; entities and raw nodes are nodes. What a row says beside that is kept with its record.
"""

from typing import Any, NamedTuple, TypeVar

import msgspec

from satchel.formats._as_written import differences, settled
from satchel.formats._cognee.shape import (
    BLOCK,
    DOCUMENT,
    ENTITY,
    FACT,
    MEMORY,
    NAME,
    RAW,
    Row,
)
from satchel.formats._members import text_in
from satchel.memory.entries import Entry, Identity, Semantic
from satchel.memory.parts import Origin, Scope, TrustClass
from satchel.memory.records import GraphNode, SessionEvent
from satchel.memory.times import read_time
from satchel.seal.encoding.notation import NUMBERS, numbers_of, with_numbers

PERSONA = "persona"
"""The label of the block that says who the agent is."""

_NOBODY = Scope()
_SYSTEM = "satchel"
_TEXTS = {MEMORY: "content", DOCUMENT: "content", BLOCK: "value", FACT: "fact_text"}
_SCOPES = (("user_id", "user"), ("agent_id", "agent"), ("run_id", "run"))

_MEANS = {
    "content": "text",
    "value": "text",
    "fact_text": "text",
    "description": "summary",
    "name": "name",
    "attributes": "properties",
    "entity_type": "labels",
    "categories": "tags",
    "created_at": "created_at",
    "updated_at": "updated_at",
    "valid_at": "valid_from",
    "invalid_at": "valid_until",
    "confidence": "confidence",
    "metadata": "metadata",
    "scope": "scope",
    "predicate": "predicate",
    "label": "kind",
}
"""What of a record a member of its row says."""

_T = TypeVar("_T", Semantic, Identity, GraphNode, SessionEvent)


class End(NamedTuple):
    """What a fact is about."""

    ref: str
    """Its id in the archive, or its name."""

    name: str | None


def time_text(text: str | None) -> str | None:
    """Return a time as Cognee writes it."""
    return None if text is None else text[:19] + text[19:26].removesuffix(".000000") + "Z"


def _time(value: Any) -> str | None:
    return read_time(value) if type(value) is str else None


def _object(value: Any) -> Row:
    return value if type(value) is dict else {}


def _scope_of(row: Row) -> Scope | None:
    said = _object(row.get("scope"))
    found = {ours: said[name] for name, ours in _SCOPES if type(said.get(name)) is str}
    return Scope(**found) if found else None


def _written_scope(scope: Scope | None) -> Row:
    said = scope or _NOBODY
    return {name: part for name, ours in _SCOPES if (part := getattr(said, ours)) is not None}


def _common(row: Row) -> Row:
    """Return what all entries say that are made of rows."""
    return {
        "created_at": _time(row.get("created_at")),
        "updated_at": _time(row.get("updated_at")),
        "metadata": _object(row.get("metadata")),
        "scope": _scope_of(row),
    }


def _written_common(kind: str, record: Entry | GraphNode) -> Row:
    row: Row = {"external_system": NAME, "scope": _written_scope(record.scope)}
    if isinstance(record, Entry):
        row |= {"created_at": time_text(record.created_at)}
        row |= {"updated_at": time_text(record.updated_at)}
    return {**row, "metadata": record.metadata, "kind": kind}


def _without_nothing(row: Row) -> Row:
    return {name: part for name, part in row.items() if part is not None}


# -- entries -------------------------------------------------------------------------------


def entry_of(kind: str, row: Row, ends: tuple[str | None, str | None] = (None, None)) -> Entry:
    """Return a memory, a document, a block or a fact as an entry.

    Args:
        kind: What the row is.
        row: The row.
        ends: What a fact is from and leads to, by name.

    Raises:
        MalformedError: If it is none, naming the member.
    """
    identity = text_in(row, "external_id")
    if kind == FACT:
        text_in(row, "predicate")
    else:
        text_in(row, _TEXTS[kind])
    if kind == BLOCK:
        text_in(row, "label")
    said = {**_entry_said(kind, row), "subject": ends[0], "object": ends[1]}
    if kind == BLOCK and row["label"] == PERSONA:
        names = Identity.__struct_fields__
        who = Identity(**{name: part for name, part in said.items() if name in names})
        return kept_with(who, identity, row, written_entry(kind, who))
    made = Semantic(**said)
    return kept_with(made, identity, row, written_entry(kind, made))


def _entry_said(kind: str, row: Row) -> Row:
    text, tags, confidence = row.get(_TEXTS[kind]), row.get("categories"), row.get("confidence")
    is_list = type(tags) is list and all(type(one) is str for one in tags)
    is_part = isinstance(confidence, int | float) and 0 <= confidence <= 1
    said = _common(row) | {"text": text if type(text) is str else None}
    said["kind"] = None if kind == MEMORY else kind
    if kind == MEMORY:
        said["tags"] = tuple(tags) if is_list and tags else ()
    if kind == FACT:
        predicate = row.get("predicate")
        said["predicate"] = predicate if type(predicate) is str else None
        said["valid_from"] = _time(row.get("valid_at"))
        said["valid_until"] = _time(row.get("invalid_at"))
        said["confidence"] = confidence if is_part and confidence is not True else None
    return said


def written_entry(kind: str, entry: Entry) -> Row:
    """Return an entry as a row, without an id and without what a fact is about."""
    row = _written_common(kind, entry) | {_TEXTS[kind]: entry.text}
    if kind == MEMORY:
        row["categories"] = list(entry.tags)
    if kind == FACT and isinstance(entry, Semantic):
        row |= {
            "predicate": entry.predicate,
            "valid_at": time_text(entry.valid_from),
            "invalid_at": time_text(entry.valid_until),
            "confidence": entry.confidence,
            "provenance": [],
        }
    if kind == BLOCK:
        row["label"] = PERSONA if isinstance(entry, Identity) else BLOCK
    return _without_nothing(row)


def row_of_entry(kind: str, entry: Entry, identity: str) -> Row:
    """Return an entry as a row."""
    now = {name: getattr(entry, name, None) for name in {*_MEANS.values()}}
    now["kind"] = None if kind == MEMORY else kind
    written, kept = written_entry(kind, entry), kept_of(entry.origin)
    row = settled(written, kept, lambda row: _entry_said(kind, row), now, _MEANS)
    return _named(row, identity, kind, entry.origin)


# -- nodes ---------------------------------------------------------------------------------


def node_of(kind: str, row: Row) -> GraphNode:
    """Return an entity or a raw node as a node.

    Raises:
        MalformedError: If it is none, naming the member.
    """
    if kind == RAW:
        identity, name, label = text_in(row, "id"), row.get("name"), row.get("type")
        origin = Origin(
            provider=NAME,
            id=f"{RAW}:{identity}",
            as_written=numbers_of(row),
            trust=TrustClass.IMPORTED,
        )
        return GraphNode(
            name=name if type(name) is str else None,
            labels=(label,) if type(label) is str else (),
            properties=row,
            origin=origin,
        )
    identity = text_in(row, "external_id")
    text_in(row, "name")
    made = GraphNode(**_node_said(row))
    return kept_with(made, identity, row, _written_node(made))


def _node_said(row: Row) -> Row:
    label, summary, name = row.get("entity_type"), row.get("description"), row.get("name")
    return {
        "name": name if type(name) is str else None,
        "labels": (label,) if type(label) is str else (),
        "summary": summary if type(summary) is str else None,
        "properties": _object(row.get("attributes")),
        "metadata": _object(row.get("metadata")),
        "scope": _scope_of(row),
    }


def _written_node(node: GraphNode) -> Row:
    row = _written_common(ENTITY, node)
    row |= {
        "name": node.name,
        "entity_type": node.labels[0] if node.labels else None,
        "description": node.summary,
        "aliases": [],
        "attributes": node.properties,
    }
    return _without_nothing(row)


def row_of_node(node: GraphNode, identity: str) -> Row:
    """Return a node as an entity, or as the raw node that it was."""
    if is_raw(node):
        kept = node.origin.as_written if node.origin is not None else {}
        return with_numbers(dict(node.properties), kept.get(NUMBERS))
    now = {name: getattr(node, name) for name in _node_said({})}
    row = settled(_written_node(node), kept_of(node.origin), _node_said, now, _MEANS)
    return _named(row, identity, ENTITY, node.origin)


def is_raw(node: GraphNode) -> bool:
    """Tell whether a node was a raw one."""
    origin = node.origin
    is_ours = origin is not None and origin.provider == NAME
    return is_ours and origin is not None and (origin.id or "").startswith(f"{RAW}:")


# -- all of them ---------------------------------------------------------------------------


def kept_of(origin: Origin | None) -> Row:
    """Return what a row said beside what its record says."""
    return dict(origin.as_written) if origin is not None and origin.provider == NAME else {}


def kept_with(made: _T, identity: str, row: Row, written: Row) -> _T:
    """Return a record with what its row said that the record does not."""
    kept = differences({k: v for k, v in row.items() if k != "external_id"}, written)
    origin = Origin(provider=NAME, id=identity, as_written=kept, trust=TrustClass.IMPORTED)
    return msgspec.structs.replace(made, origin=origin)


def _named(row: Row, identity: str, kind: str, origin: Origin | None) -> Row:
    if origin is None or origin.provider != NAME:
        row["external_system"] = origin.provider if origin and origin.provider else _SYSTEM
    return {"external_id": identity, **row, "kind": kind} if "kind" in row else row
