"""The schema of an agent file: what each member that is known has to be.

Declared once. A file that is read is validated against it, row by row; ``schemas/agent_file.json``
is made from it, and a test validates every file that is written. Members that are not named here
are kept as they are. ``None`` stands for a member that is null or missing.
"""

from typing import Any

import msgspec
from msgspec import Struct

from satchel.errors import MalformedError
from satchel.formats._aletheia.older import KNOWLEDGE
from satchel.formats._aletheia.shape import text_in
from satchel.memory.times import read_time
from satchel.type_info import resolved

Text = str | None
Json = dict[str, Any] | None


class RecordMember(Struct, rename="camel"):
    """What a record says beyond its row; its other members are those of the record's type."""

    origin: Json = None


class MemoryRecord(RecordMember, rename=None):
    """Of a memory."""

    parent_ids: list[str] | None = None


class ConversationRecord(RecordMember, rename=None):
    """Of a conversation."""

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
    record: MemoryRecord | None = None


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
    """A message; its content may be text or the parts that a model was given."""

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
    """A change of what is kept beside the messages."""

    working_state: Any = None
    thread_summary: Text = None
    note: Any = None


class CheckpointPoint(Struct, forbid_unknown_fields=True):
    """A point that a conversation can return to."""

    why: Text = None
    name: Text = None
    distillation: Json = None


class MomentRow(Struct, forbid_unknown_fields=True):
    """What happened beside the messages, after so many of them."""

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
    """A session that is only named."""

    key: str
    message_count: int | None = None
    last_activity: Text = None


class Nous(Struct, rename="camel"):
    """Who the agent is."""

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


class Workspace(Struct, rename="camel"):
    """The files of the agent."""

    files: dict[str, str] | None = None
    binary_files: list[str | BinaryRow] | None = None
    binary_file_contents: list[BinaryRow] | None = None


class Graph(Struct):
    """The graph."""

    nodes: list[NodeRow] | None = None
    edges: list[EdgeRow] | None = None


class Memory(Struct):
    """What the agent knows."""

    embeddings: Json = None
    vectors: list[VectorRow] | None = None
    graph: Graph | None = None


class Sessions(Struct):
    """The conversations of the agent."""

    primary: SessionRow | None = None
    background: list[BackgroundRow] | None = None
    others: list[SessionRow] | None = None


class Distillation(Struct):
    """Receipts of what was drawn from conversations."""

    receipts: list[dict[str, Any]] | None = None
    reflections: list[dict[str, Any]] | None = None


class ExportMetadata(Struct, rename="camel"):
    """What the program that wrote the file says of it."""

    lossless: bool | None = None
    omitted_sections: list[dict[str, Any]] | None = None
    truncations: list[dict[str, Any]] | None = None


class AgentFile(Struct, rename="camel"):
    """An agent file, version 1."""

    version: int
    nous: Nous
    exported_at: Text = None
    generator: Text = None
    workspace: Workspace | None = None
    memory: Memory | None = None
    sessions: Sessions | None = None
    distillation: Distillation | None = None
    export_metadata: ExportMetadata | None = None


def require(value: Any, shape: Any) -> Any:
    """Return a value that is as the schema has it.

    Raises:
        MalformedError: If a member is not, naming it.
    """
    try:
        msgspec.convert(value, resolved(shape), strict=True)
    except msgspec.ValidationError as error:
        problem, _, at = str(error).partition(" - at `")
        raise MalformedError(_plainly(problem), field=_path(at.rstrip("`"))) from None
    return value


SECTIONS: dict[str, Any] = {
    "workspace": Workspace,
    "memory": Memory,
    "graph": Graph,
    "sessions": Sessions,
}
"""What the members of each section have to be; all of them may be missing."""


def require_part(section: str, part: str, value: Any) -> None:
    """Require a member of a section to be as the schema has it; one that is not named may be any.

    Raises:
        MalformedError: As ``require``.
    """
    if section == "knowledge" and part in KNOWLEDGE and value is not None:
        require(value, list[Any])
    if section in SECTIONS:
        require({part: value}, SECTIONS[section])


def require_id(nous: Any) -> None:
    """Require an agent to have an id.

    Raises:
        MalformedError: If it has none, or is no object.
    """
    if type(nous) is not dict:
        raise MalformedError("`nous` is not an object", field="nous")
    try:
        text_in(nous, "id")
    except MalformedError as error:
        error.field = "nous/id"
        raise


def require_time(text: str | None, field: str) -> str | None:
    """Return a time as it is kept.

    Raises:
        MalformedError: If it is none.
    """
    made = None if text is None else read_time(text)
    if text is not None and made is None:
        raise MalformedError("not a valid time", field=field)
    return made


def _plainly(problem: str) -> str:
    return problem[:1].lower() + problem[1:]


def _path(at: str) -> str | None:
    """Return a path of msgspec's as ours: ``$.a[2].b`` is ``a/2/b``."""
    plain = at.removeprefix("$").replace("[", ".").replace("]", "")
    return plain.strip(".").replace(".", "/") or None
