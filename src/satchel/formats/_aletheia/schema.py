"""The schema of agent files: the types of all known members.

It is declared once: files are validated against it on reading, row by row;
``schemas/agent_file.json`` is generated from it, and a test validates every file that is written.
Unknown members are stored unchanged. ``None`` is a member that is null or missing.
"""

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Struct

from satchel.errors import MalformedError
from satchel.formats._json import time_of
from satchel.model.values import read_time, resolved

NAME = "aletheia"
"""The provider in the origin of records from agent files."""

VERSION = 1
"""The version that is written."""

NEWEST = 4
"""The newest version that is read, that of the Rust program."""

Row = dict[str, Any]

RECORD = "record"
HEAD = ("version", "exportedAt", "generator")
KNOWN = (
    *HEAD,
    "nous",
    "workspace",
    "memory",
    "knowledge",
    "sessions",
    "distillation",
    "exportMetadata",
)
"""The members of a file; ``generator``, ``knowledge`` and ``exportMetadata`` are not in the
specification."""

MAKER = "embeddings"
"""Member before the memories with the maker of the bank's own vectors."""

EMBEDDING, VECTOR_OF, MINUS_ZEROS = "embedding", "vector_of", "minus_zeros"
"""A vector; in ``record``, the mark of its text, and the positions of negative zeros."""

WORKING, SUMMARY, NOTE = "working_state", "thread_summary", "note"
KINDS = (WORKING, SUMMARY, NOTE)
"""Kinds of state of a conversation, besides messages, with those of the log."""

NAMED = "namedOnly"
"""Member of the container: paths of binary files without contents in the file."""

MOST_NAMED = 1000

PARTS, PART = "parts", "part"
"""Number of parts of a file's version, and the number of this part."""

BINARY = "binary"
"""Set if a file is not text."""


def require_version(value: Any, line: int, *, any_version: bool) -> None:
    """Require a known version, or any if requested.

    Raises:
        MalformedError: If the version is unknown.
    """
    if type(value) is int and (1 <= value <= NEWEST or any_version):
        return
    problem = f"version {str(value)[:40]!r} is not supported; supported: 1 to {NEWEST}"
    raise MalformedError(problem, line=line, field="version")


def text_in(row: Row, name: str) -> str:
    """Return a required text.

    Raises:
        MalformedError: If it is missing or empty.
    """
    value = row.get(name)
    if type(value) is not str or not value:
        problem = "is not text" if value is not None and type(value) is not str else "is missing"
        raise MalformedError(f"`{name}` {problem}", field=name)
    return value


def an_object(value: Any, name: str) -> Row:
    """Return an object; an empty one for null.

    Raises:
        MalformedError: If it has another type.
    """
    if value is None:
        return {}
    if type(value) is not dict:
        raise MalformedError(f"`{name}` is not an object", field=name)
    return value


def a_list(value: Any, name: str) -> list[Any]:
    """Return a list; an empty one for null.

    Raises:
        MalformedError: If it has another type.
    """
    if value is None:
        return []
    if type(value) is not list:
        raise MalformedError(f"`{name}` is not a list", field=name)
    return value


def a_row(value: Any) -> Row:
    """Return a row.

    Raises:
        MalformedError: If it is not an object.
    """
    if type(value) is not dict:
        raise MalformedError("not an object")
    return value


def source_of(nous: Any) -> str:
    """Return the agent whose IDs a file has: its own, or the one that it is a copy of."""
    if type(nous) is not dict:
        return ""
    return str(nous.get("cameFrom") or nous.get("id") or "")


_MESSAGE_OURS = ("role", "content", "createdAt", "metadata", "id", "name")


def is_primary(row: Row) -> bool:
    """Return whether a session of the flat list is an agent's main one."""
    return row.get("sessionType", row.get("type")) == "primary" and row.get("status") == "active"


def session_of(row: Row) -> Row:
    """Return a session of the flat list; its messages are read separately."""
    session = dict(row)
    if "name" not in session and type(session.get("sessionKey")) is str:
        session["name"] = session["sessionKey"]
    if session.get("status") == "archived":
        session["archived"] = True
    return session


def message_of(row: Row) -> Row:
    """Return a message of the flat list; members that version 1 lacks become metadata."""
    if "metadata" in row:
        return row
    message = {name: row[name] for name in _MESSAGE_OURS if name in row}
    return {**message, "metadata": {k: v for k, v in row.items() if k not in _MESSAGE_OURS}}


def node_of(row: Row) -> Row:
    """Return a node of the TypeScript program, which has a name instead of an ID."""
    if "id" in row or type(row.get("name")) is not str:
        return row
    return {"id": row["name"], RECORD: {"name": row["name"]}, **row}


def edge_of(row: Row) -> Row:
    """Return an edge of the TypeScript program, which has ``relType`` instead of ``type``."""
    if "type" in row or "relType" not in row:
        return row
    edge = dict(row)
    edge["type"] = edge.pop("relType")
    return edge


def vector_of_fact(value: Any) -> Row:
    """Return a fact of the Rust program as a memory.

    A forgotten one has an expiry in the past, so that it is not shown.
    """
    row = a_row(value)
    record: Row = {"type": "semantic"}
    confidence = row.get("confidence")
    if isinstance(confidence, int | float) and 0 <= confidence <= 1 and confidence is not True:
        record["confidence"] = confidence
    for name, member in (
        ("recorded_at", "created_at"),
        ("valid_from", "valid_from"),
        ("valid_to", "valid_until"),
    ):
        time = time_of(row.get(name))
        # Its program writes the end of the calendar for facts that are still true.
        if time is not None and not time.startswith("9999"):
            record[member] = time
    if row.get("is_forgotten") is True:
        past = time_of(row.get("forgotten_at")) or record.get("created_at")
        record["expires_at"] = past or "1970-01-01T00:00:00.000000Z"
    if type(row.get("fact_type")) is str:
        record["kind"] = row["fact_type"]
    metadata = {name: part for name, part in row.items() if name not in ("id", "content")}
    text = {"text": row["content"]} if "content" in row else {}
    return {"id": row.get("id"), **text, "metadata": metadata, RECORD: record}


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
    record = {"weight": weight} if type(weight) in (int, float) else {}
    return {
        "source": row.get("src"),
        "target": row.get("dst"),
        "type": row.get("relation"),
        "properties": properties,
        **({RECORD: record} if record else {}),
    }


def edge_of_mention(value: Any) -> Row:
    """Return the mention of an entity in a fact as an edge."""
    row = a_row(value)
    properties = {k: v for k, v in row.items() if k not in ("factId", "entityId")}
    return {
        "source": row.get("factId"),
        "target": row.get("entityId"),
        "type": "mentions",
        "properties": properties,
    }


KNOWLEDGE: dict[str, tuple[str, Callable[[Any], Row]]] = {
    "facts": ("vectors", vector_of_fact),
    "entities": ("nodes", node_of_entity),
    "relationships": ("edges", edge_of_relationship),
    "factEntityEdges": ("edges", edge_of_mention),
}
"""The tables of the Rust program, with those of version 1 and the conversion of their rows."""


Text = str | None
Json = dict[str, Any] | None


class RecordMember(Struct, rename="camel"):
    """Members of a record that its row lacks; others are those of the record's type."""

    origin: Json = None


class AgentFileMemoryRecord(RecordMember, rename=None):
    """The ``record`` of a memory."""

    parent_ids: list[str] | None = None


class ConversationRecord(RecordMember, rename=None):
    """The ``record`` of a conversation."""

    name: Text = None
    about: "list[AboutRow] | None" = None


class AboutRow(Struct):
    """A later name of a conversation, or that it was archived."""

    id: Text = None
    name: Text = None
    at: Text = None
    archived: bool | None = None


class VectorRow(Struct):
    """A memory."""

    id: str
    text: Text = None
    metadata: Json = None
    embedding: list[float] | None = None
    record: AgentFileMemoryRecord | None = None


class NodeRow(Struct):
    """A node of the graph."""

    id: str
    labels: list[str] | None = None
    properties: Json = None
    record: RecordMember | None = None


class EdgeRow(Struct):
    """An edge of the graph."""

    source: str
    target: str
    type: str
    properties: Json = None
    record: RecordMember | None = None


class MessageRow(Struct, rename="camel"):
    """A message; its content may be a text, or the parts that a model got."""

    role: str
    content: Any = None
    metadata: Json = None
    id: Text = None
    name: Text = None
    created_at: Text = None
    record: RecordMember | None = None


class NoteRow(Struct, rename="camel"):
    """A note of a conversation."""

    content: str
    category: Text = None
    created_at: Text = None


class StateChange(Struct, forbid_unknown_fields=True):
    """A change of the state of a conversation."""

    working_state: Any = None
    thread_summary: Text = None
    note: Any = None


class CheckpointPoint(Struct, forbid_unknown_fields=True):
    """A checkpoint of a conversation."""

    why: Text = None
    name: Text = None
    distillation: Json = None


class MomentRow(Struct, forbid_unknown_fields=True):
    """A moment of the timeline, with the number of messages before it."""

    after: int = 0
    id: Text = None
    at: Text = None
    change: StateChange | None = None
    checkpoint: CheckpointPoint | None = None
    before: bool | None = None


class SessionRow(Struct, rename="camel"):
    """A conversation; its messages are validated one by one."""

    id: str
    name: Text = None
    created_at: Text = None
    archived: bool | None = None
    metadata: Json = None
    record: ConversationRecord | None = None
    messages: list[Any] | None = None
    working_state: Any = None
    thread_summary: Text = None
    notes: list[NoteRow] | None = None
    timeline: list[MomentRow] | None = None
    forked_from: Json = None


class BackgroundRow(Struct, rename="camel"):
    """A session of which only the name is stored."""

    key: str
    message_count: int | None = None
    last_activity: Text = None


class Nous(Struct, rename="camel"):
    """The identity of the agent."""

    id: str
    name: Text = None
    model: Text = None
    config: Json = None
    came_from: Text = None


class BinaryRow(Struct, rename="camel"):
    """A file that is not text."""

    path: str
    size_bytes: int | None = None
    sha256: Text = None
    contents_base64: Text = msgspec.field(name="contentsBase64", default=None)


class AgentFileWorkspace(Struct, rename="camel"):
    """The files of the agent."""

    files: dict[str, str] | None = None
    binary_files: list[str | BinaryRow] | None = None
    binary_file_contents: list[BinaryRow] | None = None


class AgentFileGraph(Struct):
    """The graph."""

    nodes: list[NodeRow] | None = None
    edges: list[EdgeRow] | None = None


class AgentFileMemory(Struct):
    """The memory of the agent."""

    embeddings: Json = None
    vectors: list[VectorRow] | None = None
    graph: AgentFileGraph | None = None


class AgentFileSessions(Struct):
    """The conversations of the agent."""

    primary: SessionRow | None = None
    background: list[BackgroundRow] | None = None
    others: list[SessionRow] | None = None


class Distillation(Struct):
    """Receipts of distilled conversations."""

    receipts: list[dict[str, Any]] | None = None
    reflections: list[dict[str, Any]] | None = None


class ExportMetadata(Struct, rename="camel"):
    """Metadata of the program that wrote the file."""

    lossless: bool | None = None
    omitted_sections: list[dict[str, Any]] | None = None
    truncations: list[dict[str, Any]] | None = None


class AgentFile(Struct, rename="camel"):
    """An agent file, version 1."""

    version: int
    nous: Nous
    exported_at: Text = None
    generator: Text = None
    workspace: AgentFileWorkspace | None = None
    memory: AgentFileMemory | None = None
    sessions: AgentFileSessions | None = None
    distillation: Distillation | None = None
    export_metadata: ExportMetadata | None = None


def require(value: Any, shape: Any) -> Any:
    """Return a value, validated against a type of the schema.

    Raises:
        MalformedError: If a member is not valid, naming it.
    """
    try:
        msgspec.convert(value, resolved(shape), strict=True)
    except msgspec.ValidationError as error:
        problem, _, at = str(error).partition(" - at `")
        raise MalformedError(_plainly(problem), field=_path(at.rstrip("`"))) from None
    return value


SECTIONS: dict[str, Any] = {
    "workspace": AgentFileWorkspace,
    "memory": AgentFileMemory,
    "graph": AgentFileGraph,
    "sessions": AgentFileSessions,
}
"""The types of the members of each section; all of them are optional."""


def require_part(section: str, part: str, value: Any) -> None:
    """Validate a member of a section; an unknown one may have any type.

    Raises:
        MalformedError: As ``require``.
    """
    if section == "knowledge" and part in KNOWLEDGE and value is not None:
        require(value, list[Any])
    if section in SECTIONS:
        require({part: value}, SECTIONS[section])


def require_id(nous: Any) -> None:
    """Require an agent to have an ID.

    Raises:
        MalformedError: If it has none, or is not an object.
    """
    if type(nous) is not dict:
        raise MalformedError("`nous` is not an object", field="nous")
    try:
        text_in(nous, "id")
    except MalformedError as error:
        error.field = "nous/id"
        raise


def require_time(text: str | None, field: str) -> str | None:
    """Return a time in the form that is stored.

    Raises:
        MalformedError: If it is not valid.
    """
    time = None if text is None else read_time(text)
    if text is not None and time is None:
        raise MalformedError("not a valid time", field=field)
    return time


def _plainly(problem: str) -> str:
    return problem[:1].lower() + problem[1:]


def _path(at: str) -> str | None:
    """Return a path of msgspec in our form: ``$.a[2].b`` is ``a/2/b``."""
    plain = at.removeprefix("$").replace("[", ".").replace("]", "")
    return plain.strip(".").replace(".", "/") or None
