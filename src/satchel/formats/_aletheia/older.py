"""Agent files as the programs really wrote them, as version 1 has it.

The TypeScript program says version 1 and writes a flat list of sessions; the Rust program says 2 to
4 and has ``knowledge`` in place of ``memory``. Whatever is not named here stays where it is, as a
member that nobody knows.
"""

from collections.abc import Callable
from typing import Any

from satchel.formats._aletheia.shape import RECORD, Row, a_row
from satchel.memory.times import read_time

_MESSAGE_OURS = ("role", "content", "createdAt", "metadata", "id", "name")


def is_primary(row: Row) -> bool:
    """Tell whether a session of the flat list is an agent's main one."""
    return row.get("sessionType", row.get("type")) == "primary" and row.get("status") == "active"


def session_of(row: Row) -> Row:
    """Return a session of the flat list; its messages are read by themselves."""
    made = dict(row)
    if "name" not in made and type(made.get("sessionKey")) is str:
        made["name"] = made["sessionKey"]
    if made.get("status") == "archived":
        made["archived"] = True
    return made


def message_of(row: Row) -> Row:
    """Return a message of the flat list: what version 1 has no member for is its metadata."""
    if "metadata" in row:
        return row
    made = {name: row[name] for name in _MESSAGE_OURS if name in row}
    return {**made, "metadata": {k: v for k, v in row.items() if k not in _MESSAGE_OURS}}


def node_of(row: Row) -> Row:
    """Return a node of the TypeScript program, which has a name in place of an id."""
    if "id" in row or type(row.get("name")) is not str:
        return row
    return {"id": row["name"], RECORD: {"name": row["name"]}, **row}


def edge_of(row: Row) -> Row:
    """Return an edge of the TypeScript program, which has ``relType`` in place of ``type``."""
    if "type" in row or "relType" not in row:
        return row
    made = dict(row)
    made["type"] = made.pop("relType")
    return made


def vector_of_fact(value: Any) -> Row:
    """Return a fact of the Rust program as a memory.

    What was forgotten is past its expiry, so that nobody is shown it.
    """
    row = a_row(value)
    said: Row = {"type": "semantic"}
    confidence = row.get("confidence")
    if isinstance(confidence, int | float) and 0 <= confidence <= 1 and confidence is not True:
        said["confidence"] = confidence
    for name, member in (
        ("recorded_at", "created_at"),
        ("valid_from", "valid_from"),
        ("valid_to", "valid_until"),
    ):
        found = _time(row.get(name))
        # Its program writes the end of the calendar for what is still true.
        if found is not None and not found.startswith("9999"):
            said[member] = found
    if row.get("is_forgotten") is True:
        past = _time(row.get("forgotten_at")) or said.get("created_at")
        said["expires_at"] = past or "1970-01-01T00:00:00.000000Z"
    if type(row.get("fact_type")) is str:
        said["kind"] = row["fact_type"]
    metadata = {name: part for name, part in row.items() if name not in ("id", "content")}
    text = {"text": row["content"]} if "content" in row else {}
    return {"id": row.get("id"), **text, "metadata": metadata, RECORD: said}


def node_of_entity(value: Any) -> Row:
    """Return an entity of the Rust program as a node."""
    row = a_row(value)
    kind = row.get("entity_type")
    properties = {name: part for name, part in row.items() if name not in ("id", "entity_type")}
    return {
        "id": row.get("id"),
        "labels": [kind] if type(kind) is str else [],
        "properties": properties,
    }


def edge_of_relationship(value: Any) -> Row:
    """Return a relationship of the Rust program as an edge."""
    row = a_row(value)
    properties = {k: v for k, v in row.items() if k not in ("src", "dst", "relation")}
    weight = row.get("weight")
    said = {"weight": weight} if type(weight) in (int, float) else {}
    return {
        "source": row.get("src"),
        "target": row.get("dst"),
        "type": row.get("relation"),
        "properties": properties,
        **({RECORD: said} if said else {}),
    }


def edge_of_mention(value: Any) -> Row:
    """Return that a fact speaks of an entity as an edge."""
    row = a_row(value)
    properties = {k: v for k, v in row.items() if k not in ("factId", "entityId")}
    return {
        "source": row.get("factId"),
        "target": row.get("entityId"),
        "type": "mentions",
        "properties": properties,
    }


def _time(text: Any) -> str | None:
    return read_time(text) if type(text) is str else None


KNOWLEDGE: dict[str, tuple[str, Callable[[Any], Row]]] = {
    "facts": ("vectors", vector_of_fact),
    "entities": ("nodes", node_of_entity),
    "relationships": ("edges", edge_of_relationship),
    "factEntityEdges": ("edges", edge_of_mention),
}
"""The tables of the Rust program: which of version 1 each is, and what makes a row of it."""
