"""Letta's agent files (``.af``): agents with their blocks, messages, tools and groups.

A block becomes an entry with its label: ``persona`` is the identity of the agent, the others are
its knowledge. Messages become the turns of a conversation. Other rows (an agent's settings, tools
with their source code, groups, files, sources) become nodes, which are stored as data: nothing of
it is ever run or recalled. The reader accepts the form of the last server, the same as a JSON text
inside JSON, and the older form that Letta refuses; the writer produces the first.

A file never has archival memory, nor messages that were out of context at export. Compared with
letta-ai/agent-file of 2026-03-24 and files of servers 0.6.47 and later.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from io import BytesIO
from typing import Any, BinaryIO, ClassVar, TypeVar, cast

from satchel.artifact.body import TYPED_SECTIONS
from satchel.crypto.canonical import ABSENT
from satchel.crypto.json_reader import (
    NUMBERS,
    SURROGATE,
    ForeignReader,
    float_spellings,
    with_numbers,
)
from satchel.crypto.sealed_records import Sealed
from satchel.errors import MalformedError
from satchel.formats._json import as_json, differences, json_members, reproduce, text_in
from satchel.formats._row_lists import Order, in_order, sole_container
from satchel.model.records import Entry, GraphNode, Identity, Model, Semantic, SessionEvent
from satchel.model.values import Component, Origin, Scope, TrustClass, iso_text, read_time
from satchel.ports.format import Info, Location, ReadContext, Signs, Target, Traits, WriteContext
from satchel.ports.record_set import RecordSet, Report

NAME = "letta"
"""The format, and the provider in the origin of its records."""

MEMFS = "letta_memfs"
"""The provider in the origin of memory from a folder of Letta (MemFS)."""

BLOCK = "block"
"""The kind of an entry from a block of core memory."""

PERSONA = "persona"
"""The label of the block with the agent's identity."""

SELF = re.compile(r"persona(?:_[0-9]{1,9})?", re.ASCII)
"""Labels of blocks with an agent's identity."""

LIMIT = 20_000
"""Default limit on the characters of a block."""

THINGS = {
    "groups": "group",
    "files": "file",
    "sources": "source",
    "tools": "tool",
    "mcp_servers": "mcp_server",
    "skills": "skill",
}
"""The lists besides agents and blocks, with the kinds of their rows."""

AGENT = "agent"
"""The kind of a node with the settings of an agent."""

_FILE_MEMBERS = ("description", "limit", "read_only")
"""Members of a file in the folder that blocks have, too."""

_SEND = "send_message"

ID = re.compile(r"[a-z_]{1,16}-[0-9]{1,9}", re.ASCII)
"""The form of IDs inside a file."""

Row = dict[str, Any]


def entry_of(row: Row, agent: str | None, source: str | None) -> Entry:
    """Return a block as an entry: the identity of the agent, or a fact.

    Args:
        row: The block.
        agent: Name of its agent; None for none.
        source: The container in which its label is unique.

    Raises:
        MalformedError: If it has no label or no value.
    """
    label, text = text_in(row, "label"), text_in(row, "value")
    cls = Identity if SELF.fullmatch(label) else Semantic
    entry = cls(
        kind=BLOCK,
        text=text,
        scope=Scope(agent=agent) if agent is not None else None,
        origin=Origin(provider=NAME, source=source, id=label, trust=TrustClass.IMPORTED),
    )
    # Its ID is one of this file; it is always stored, to be written again.
    as_written = differences(row, _block(label, text))
    return _with_as_written(entry, as_written)


def _with_as_written(entry: Entry, as_written: Row) -> Entry:
    origin = entry.origin
    assert origin is not None  # noqa: S101 - it was just given one
    whole = Origin(
        provider=origin.provider,
        source=origin.source,
        id=origin.id,
        trust=origin.trust,
        as_written=as_written,
    )
    return type(entry)(kind=entry.kind, text=entry.text, scope=entry.scope, origin=whole)


def _block(label: str, text: str) -> Row:
    return {
        "value": text,
        "limit": max(LIMIT, len(text)),
        "label": label,
        "read_only": False,
        "description": None,
        "metadata": {},
        "is_template": False,
        "hidden": None,
        "tags": None,
    }


def block_of(entry: Entry, label: str) -> Row:
    """Return an entry as a block, without an ID unless it came with one."""
    text = entry.text or ""
    written = _block(label, text)
    as_written = as_written_of(entry.origin)
    if entry.origin is not None and entry.origin.provider == MEMFS:
        file_members = entry.origin.as_written
        as_written = {name: file_members[name] for name in _FILE_MEMBERS if name in file_members}
    row = reproduce(written, {k: v for k, v in as_written.items() if k not in ("value", "label")})
    if type(row.get("limit")) is int and row["limit"] < len(text) and "limit" in as_written:
        row["limit"] = len(text)
    return row


def label_of(entry: Entry) -> str | None:
    """Return the label of an entry; None if one has to be generated."""
    origin = entry.origin
    if origin is not None and origin.provider == NAME and entry.kind == BLOCK:
        return origin.id
    if origin is not None and origin.provider == MEMFS and origin.id:
        return origin.id.removeprefix("system/").removesuffix(".md")
    return PERSONA if isinstance(entry, Identity) else None


def as_written_of(origin: Origin | None) -> Row:
    """Return the members of a row that its record does not reproduce."""
    return origin.as_written if origin is not None and origin.provider == NAME else {}


def node_of(row: Row, thing: str, source: str | None) -> GraphNode:
    """Return a row other than memory (settings, a tool, a file) as a node; it is never run."""
    name = row.get("name", row.get("file_name"))
    identity = row.get("id", name)
    summary = row.get("description")
    return GraphNode(
        name=name if type(name) is str else None,
        labels=(thing,),
        summary=summary if type(summary) is str else None,
        properties=row,
        origin=Origin(
            provider=NAME,
            source=source,
            id=f"{thing}:{identity}" if type(identity) is str else None,
            as_written=float_spellings(row),
            trust=TrustClass.IMPORTED,
        ),
    )


def start_of(session: str, name: str | None, source: str | None) -> SessionEvent:
    """Return the start of the conversation of an agent's messages."""
    return SessionEvent(event="session", name=name, origin=_origin(session, source, {}))


def message_of(row: Row, session: str, source: str | None) -> SessionEvent:
    """Return a message as a turn of its conversation.

    Raises:
        MalformedError: If it has no role.
    """
    role = text_in(row, "role")
    text, when = _message_text(row), row.get("created_at")
    created = read_time(when) if type(when) is str else None
    name = row.get("id")
    written = {"id": ABSENT, **_message(role, text, created)}
    return SessionEvent(
        event="message",
        session=session,
        role=role,
        text=text,
        created_at=created,
        origin=_origin(
            f"{session}/{name}" if type(name) is str else None, source, differences(row, written)
        ),
    )


def row_of(event: SessionEvent) -> Row:
    """Return a turn as a message."""
    written = _message(event.role or "", event.text, event.created_at)
    as_written = as_written_of(event.origin)
    row = reproduce(written, {k: v for k, v in as_written.items() if k != "role"})
    if _message_text(row) != event.text:
        row["content"] = written["content"]
        if _sent(row):  # the present text is in the contents
            row["tool_calls"] = []
    when = row.get("created_at")
    if event.created_at != (read_time(when) if type(when) is str else None):
        row |= {"created_at": written.get("created_at")}
    return row


def _message(role: str, text: str | None, created: str | None) -> Row:
    row: Row = {"type": "message", "role": role}
    row["content"] = [] if text is None else [{"type": "text", "text": text}]
    return row if created is None else {**row, "created_at": iso_text(created)}


def _message_text(row: Row) -> str | None:
    """Return the text of a message: what an agent sent, else its contents.

    Older agents answer by calling a tool; the contents beside the call are their reasoning.
    """
    sent = _sent(row)
    return "\n".join(sent) if sent else _words(row.get("content"))


def _sent(row: Row) -> list[str]:
    calls = row.get("tool_calls")
    if type(calls) is not list or row.get("role") != "assistant":
        return []
    functions = [call.get("function") for call in calls if type(call) is dict]
    texts = list[str]()
    for call in functions:
        if type(call) is dict and call.get("name") == _SEND and type(call.get("arguments")) is str:
            text = _message_in(call["arguments"])
            texts += [text] if text is not None else []
    return texts


def _message_in(arguments: str) -> str | None:
    try:
        value = json.loads(arguments)
    except (ValueError, RecursionError):
        return None
    text = value.get("message") if type(value) is dict else None
    return text if type(text) is str and not SURROGATE.search(text) else None


def _words(content: Any) -> str | None:
    """Return the text of a message's contents."""
    if type(content) is str:
        return content
    parts = content if type(content) is list else []
    texts = [one["text"] for one in parts if type(one) is dict and type(one.get("text")) is str]
    return "\n".join(texts) if texts else None


def _origin(identity: str | None, source: str | None, as_written: Row) -> Origin:
    trust = TrustClass.IMPORTED
    return Origin(provider=NAME, source=source, id=identity, as_written=as_written, trust=trust)


_AGENT = "agent-0"
_RENAMED = {"metadata_": "metadata"}
_INSIDE = (
    *("core_memory", "messages", "tools", "tags", "in_context_message_indices", "version"),
    *("tool_exec_environment_variables", "multi_agent_group", "created_at", "updated_at"),
)


def is_older(document: Row) -> bool:
    """Return whether a document has the older form."""
    return "agents" not in document and "core_memory" in document


def renewed(old: Row, report: Report) -> Row:
    """Convert a document of the older form to the newer one.

    Args:
        old: The document.
        report: Counts what the newer form cannot hold.

    Raises:
        MalformedError: If a list is not valid, or has a row that is not an object.
    """
    blocks = _numbered(old, "core_memory", "block")
    messages = _numbered(old, "messages", "message")
    tools = _numbered(old, "tools", "tool")
    agent = {_RENAMED.get(name, name): part for name, part in old.items() if name not in _INSIDE}
    agent |= {
        "id": _AGENT,
        "tags": [_tag(one) for one in _rows(old, "tags")],
        "tool_ids": [row["id"] for row in tools],
        "block_ids": [row["id"] for row in blocks],
        "source_ids": [],
        "group_ids": [],
        "files_agents": [],
        "tool_exec_environment_variables": _names(old, report),
        "in_context_message_ids": _in_context(old, messages),
        "messages": [{"type": "message", **row, "agent_id": _AGENT} for row in messages],
    }
    for name in ("multi_agent_group", "updated_at"):
        if old.get(name) is not None:
            report.lost(name, "the newer format has no such member", example=_AGENT)
    report.note(
        f"the older format, version {old.get('version')}; it is written as the newer format"
    )
    document: Row = {"agents": [agent], "groups": [], "blocks": blocks, "files": [], "sources": []}
    document |= {"tools": tools, "mcp_servers": [], "metadata": {}}
    return document | ({"created_at": old["created_at"]} if "created_at" in old else {})


def _rows(old: Row, name: str) -> list[Any]:
    rows = old.get(name)
    if rows is None:
        return []
    if type(rows) is not list:
        raise MalformedError(f"`{name}` is not a list", field=name)
    return rows


def _numbered(old: Row, name: str, kind: str) -> list[Row]:
    rows = _rows(old, name)
    for number, row in enumerate(rows):
        if type(row) is not dict:
            raise MalformedError("not an object", field=f"{name}/{number}")
    return [
        {**{_RENAMED.get(k, k): part for k, part in row.items()}, "id": f"{kind}-{number}"}
        for number, row in enumerate(rows)
    ]


def _tag(value: Any) -> Any:
    return value.get("tag") if type(value) is dict else value


def _names(old: Row, report: Report) -> Row:
    """Return the names of the environment variables; their values are secrets and are not read."""
    variables = _rows(old, "tool_exec_environment_variables")
    for variable in variables:
        reason = "its value is a secret; only the name is kept"
        report.lost("tool_exec_environment_variables", reason, example=str(_key(variable))[:80])
    return {str(_key(variable)): "" for variable in variables}


def _key(variable: Any) -> Any:
    return variable.get("key") if type(variable) is dict else variable


def _in_context(old: Row, messages: list[Row]) -> list[str]:
    indices = _rows(old, "in_context_message_indices")
    for number, index in enumerate(indices):
        if type(index) is not int or not 0 <= index < len(messages):
            where = f"in_context_message_indices/{number}"
            raise MalformedError("there is no such message", field=where)
    return [messages[index]["id"] for index in indices]


LISTS = ("agents", "blocks", *THINGS)
_NEEDED = ("agents", "groups", "blocks", "files", "sources", "tools", "mcp_servers")
_SUPPORTED = frozenset({"id", "nonce", "type", "kind", "text", "origin", "scope"})
MEMORIES = (Component.IDENTITY, Component.SEMANTIC)
_NO_FIELD = "a block has no such field"
_NEW_AGENT: Row = {
    "system": "",
    "agent_type": "letta_v1_agent",
    "description": None,
    "metadata": None,
    "tags": [],
    "llm_config": None,
    "embedding_config": None,
    "tool_ids": [],
    "source_ids": [],
    "group_ids": [],
    "tool_rules": [],
    "files_agents": [],
    "tool_exec_environment_variables": {},
    "message_buffer_autoclear": False,
    "in_context_message_ids": [],
}


def agent_of_ours(name: str, blocks: list[Any]) -> Row:
    """Return the agent that is written if there is none; it has only a name."""
    return {"id": "agent-0", "name": name, **_NEW_AGENT, "block_ids": blocks, "messages": []}


class LettaWriter:
    """A new agent file.

    Args:
        records: The records to write.
        writing: The agent and the report.
    """

    def __init__(self, records: RecordSet, writing: WriteContext) -> None:
        self._records = records
        self._report = writing.report
        container = sole_container(records, NAME)
        self._container: Row = container
        self._name = writing.bank or str(container.get("agent", "agent"))
        self._things: dict[str, list[Row]] = {thing: [] for thing in (AGENT, *THINGS.values())}
        self._messages = dict[str, list[Row]]()

    def write(self, sink: BinaryIO) -> None:
        """Write the file."""
        self._take_nodes()
        self._take_events()
        blocks, added = self._blocks()
        agents = self._agents([row["id"] for row in blocks], added)
        self._have_slots(agents, blocks)
        lists = {"agents": agents, "blocks": blocks}
        lists |= {name: self._things[thing] for name, thing in THINGS.items()}
        required = {*_NEEDED, *self._container.get("lists", [])}
        fields = {"metadata": {}, **self._container.get("fields", {})}
        sink.write(b"{")
        for index, name in enumerate(n for n in LISTS if n in required or lists[n]):
            sink.writelines((b",\n" if index else b"\n", _json(name, self._report), b": ["))
            self._write_list(sink, lists[name])
            sink.write(b"]")
        for name, part in fields.items():
            if name not in LISTS:
                sink.writelines((b",\n", _json({name: part}, self._report)[1:-1]))
        sink.write(b"\n}\n")

    def _write_list(self, sink: BinaryIO, rows: Iterable[Row]) -> None:
        for index, row in enumerate(rows):
            sink.writelines((b",\n" if index else b"\n", _json(row, self._report)))

    def _take_nodes(self) -> None:
        for record in self._records.of("graph_node"):
            node = cast("GraphNode", record.model)
            thing = node.labels[0] if node.labels else ""
            if node.origin is None or node.origin.provider != NAME or thing not in self._things:
                self._report.lost("graph_node", "not a Letta type", example=record.id)
            else:
                numbers = node.origin.as_written.get(NUMBERS)
                self._things[thing].append(with_numbers(dict(node.properties), numbers))

    def _take_events(self) -> None:
        for record in self._records.of("session_event"):
            event = cast("SessionEvent", record.model)
            if event.origin is None or event.origin.provider != NAME:
                reason = "a conversation that does not come from Letta"
                self._report.lost("session_event", reason, example=record.id)
            elif event.event == "message" and event.session is not None:
                self._messages.setdefault(event.session, []).append(row_of(event))
            elif event.event != "session":
                self._report.lost("session_event", "no message", example=record.id)

    def _blocks(self) -> tuple[list[Row], list[str]]:
        """Return the blocks, and the IDs of those that no agent of the file refers to."""
        rows, added = list[Row](), list[str]()
        ids, labels = set[str](), set[str]()
        free = self._free_numbers()
        for record in in_order(self._records, self._container):
            entry = cast("Entry", record.model)
            if record.type not in MEMORIES:
                continue
            if entry.text is None:
                self._report.lost(record.type, "a block must be text", example=record.id)
                continue
            own = label_of(entry)
            from_there = str(as_written_of(entry.origin).get("id", ""))
            known = bool(ID.fullmatch(from_there))
            identity = from_there if known and from_there not in ids else f"block-{next(free)}"
            label = own if own is not None and (known or own not in labels) else None
            if label is None:
                label = _unique_label(own or "memory", labels)
            row = block_of(entry, label)
            row["id"] = identity
            ids.add(identity)
            labels.add(label)
            rows.append(row)
            if identity != from_there:
                added.append(identity)
            self._count(record, entry, own, label)
        return rows, added

    def _free_numbers(self) -> Iterator[int]:
        """Yield numbers that no block of the records uses."""
        used = set[str]()
        for kind in MEMORIES:
            for record in self._records.of(kind):
                used.add(str(as_written_of(cast("Entry", record.model).origin).get("id")))
        number = 0
        while True:
            if f"block-{number}" not in used:
                yield number
            number += 1

    def _agents(self, blocks: list[str], added: list[str]) -> list[Row]:
        rows = [dict(row) for row in self._things[AGENT]]
        if not rows and (blocks or "agent" in self._container or not self._container):
            rows, added = [agent_of_ours(self._name, blocks)], []
        written_blocks = set(blocks)
        for number, row in enumerate(rows):
            ids = row.get("block_ids")
            if type(ids) is list and (added or not written_blocks.issuperset(map(str, ids))):
                new = added if number == 0 else []
                row["block_ids"] = [*(one for one in ids if one in written_blocks), *new]
            session = f"{row.get('name')}/{row.get('id', number)}"
            if "messages" in row or session in self._messages:
                row["messages"] = self._messages.pop(session, [])
            else:
                row.setdefault("messages", [])
        for session, rest in self._messages.items():
            reason = "its agent is not among the records"
            self._report.lost("session_event", reason, example=session[:80], count=len(rest))
        return rows

    def _have_slots(self, agents: list[Row], blocks: list[Row]) -> None:
        """Set a unique label in each block of an agent, which Letta requires."""
        by_id = {row["id"]: row for row in blocks}
        labels = {row["label"] for row in blocks}
        for agent in agents:
            used_labels = set[str]()
            ids = agent.get("block_ids")
            for row in (by_id.get(one) for one in (ids if type(ids) is list else ())):
                if row is None:
                    continue
                if row["label"] in used_labels:
                    row["label"] = _unique_label(row["label"], labels)
                    labels.add(row["label"])
                    reason = "another block of the agent has the same label"
                    self._report.lost("origin/id", reason, example=row["id"])
                used_labels.add(row["label"])

    def _count(self, record: Sealed, entry: Entry, own: str | None, label: str) -> None:
        value = record.value
        limit = entry.origin.as_written.get("limit") if entry.origin is not None else None
        if type(limit) is int and limit < len(entry.text or ""):
            reason = "the text exceeds the block's limit, which is raised"
            self._report.lost("limit", reason, example=record.id)
        for name in sorted(value.keys() - _SUPPORTED):
            self._report.lost(name, _NO_FIELD, example=record.id)
        if value.get("kind") not in (None, BLOCK):
            self._report.lost("kind", _NO_FIELD, example=record.id)
        origin = value.get("origin", {"provider": NAME})
        ours = origin.get("provider") == NAME
        if not ours or "revision" in origin:
            self._report.lost("origin", "a block cannot store provenance", example=record.id)
        is_agents = "origin" in value and ours and value.get("scope", {}).keys() <= {"agent"}
        if entry.scope is not None and not is_agents:
            self._report.lost("scope", _NO_FIELD, example=record.id)
        if own not in (None, label):
            reason = "another block has the same label"
            self._report.lost("origin/id", reason, example=record.id)


def _unique_label(label: str, labels: set[str]) -> str:
    number = len(labels)
    while (candidate := f"{label}_{number}") in labels:
        number += 1
    return candidate


def _json(value: Any, report: Report) -> bytes:
    """Encode as Python's ``json`` does, including large integers."""
    return as_json(value, report)


_T = TypeVar("_T")

_SIGNS = {b"agent_type", b"block_ids", b"tool_ids", b"llm_config", b"system", b"memory_blocks"}
_TRANSFER_RECORDS = ("source", "receipt")
_ESCAPED = re.compile(rb"\\(.)", re.DOTALL)


class Letta:
    """The format."""

    info: ClassVar[Info] = Info(
        title="Letta agent file",
        suffixes=(".af",),
        signs=Signs(
            starts=(b'"',),
            texts=((b"agent_type", b"core_memory"), *((b"agents", sign) for sign in _SIGNS)),
        ),
        spec="letta-ai/agent-file of 2026-03-24; Letta server 0.6.47 to 0.16.8",
        checked="2026-11-22",
        traits=Traits(components=frozenset(MEMORIES), exact=True),
        lost_on_writing=(
            "Episodic, procedural and working memory, times, tags, metadata, provenance and edges;"
            " conversations that were not Letta's."
        ),
    )

    def recognizes(self, location: Location) -> bool:
        head = location.head.lstrip()
        if head.startswith(b'"'):
            head = _ESCAPED.sub(rb"\1", head[1:])
        starts = {path for path, _ in json_members(head)}
        newer = {path[-1] for path in starts if path[:-1] == (b"agents", 0)}
        older = {(b"agent_type",), (b"core_memory",)} <= starts
        return older or not newer.isdisjoint(_SIGNS)

    def read(self, location: Location, reading: ReadContext) -> Iterator[Model | Sealed]:
        document = _document(location, reading)
        if is_older(document):
            try:
                document = renewed(document, reading.report)
            except MalformedError as error:
                raise error.located(file=location.name, line=1) from None
        # Letta and other writers use null for an empty list.
        document = {k: part for k, part in document.items() if part is not None or k not in LISTS}
        for name in LISTS:
            if type(document.get(name, [])) is not list:
                raise MalformedError(f"`{name}` is not a list", file=location.name, field=name)
        fields = {name: part for name, part in document.items() if name not in LISTS}
        lists = [name for name in LISTS if name in document]
        reading.container.update({"fields": fields, "lists": lists})
        for name, part in fields.items():
            if type(part) is list and part:
                note = f"{len(part)} of {name!r} are kept as data, not as memories"
                reading.report.note(note)
        yield from _DocumentRows(document, location, reading).records()

    def write(self, records: RecordSet, target: Target, writing: WriteContext) -> None:
        report = writing.report
        for section, count in records.counts.items():
            kind = TYPED_SECTIONS.get(section, section)
            if kind not in (*MEMORIES, *_TRANSFER_RECORDS, "graph_node", "session_event"):
                report.lost(kind, "an agent file has no such records", count=count)
        writer = LettaWriter(records, writing)
        with target.open() as sink:
            writer.write(sink)


FORMAT = Letta()
"""The instance that the registry loads."""


# -- reading -------------------------------------------------------------------------------


def _document(location: Location, reading: ReadContext) -> Row:
    bound = reading.limits.line_bytes
    with location.open() as stream:
        document = _value(stream, location, bound)
    if type(document) is str:  # some files are a JSON text inside JSON
        document = _value(BytesIO(document.encode()), location, bound)
    if type(document) is not dict or not (
        is_older(document) or type(document.get("agents")) is list
    ):
        raise MalformedError(
            "not an agent file: the list `agents` is missing", file=location.name, line=1
        )
    return document


def _value(stream: BinaryIO, location: Location, bound: int) -> Any:
    document = ForeignReader(stream, location.name, item_bytes=bound)
    value = document.value()
    document.end()
    return value


class _DocumentRows:
    """The rows of a document, as records."""

    def __init__(self, document: Row, location: Location, reading: ReadContext) -> None:
        self._document = document
        self._location = location
        self._reading = reading
        self._order = Order()

    def records(self) -> Iterator[Model]:
        """Yield the records: blocks, agents with their messages, and other rows."""
        source, owners = self._names()
        for where, row in self._rows("blocks"):
            owner = owners.get(str(row.get("id")))
            entry = self._draft(where, partial(entry_of, row, owner, owner))
            if entry is not None:
                self._order.add(entry)
                yield entry
        self._order.store(self._reading)
        if _is_ours(self._document):
            self._reading.container["agent"] = self._document["agents"][0]["name"]
        else:
            for number, (_, row) in enumerate(self._rows("agents")):
                yield from self._agent(row, number, source)
        code = 0
        for name, thing in THINGS.items():
            for _, row in self._rows(name):
                code += name == "tools" and type(row.get("source_code")) is str
                yield node_of(row, thing, source)
        if code:
            self._reading.report.note(
                f"{code} tools have source code: it is stored as data and never executed"
            )

    def _names(self) -> tuple[str | None, dict[str, str]]:
        """Return the name of the first agent, and of the first agent of each block."""
        first, owners = None, dict[str, str]()
        for agent in self._document["agents"]:
            name = agent.get("name") if type(agent) is dict else None
            if type(name) is str:
                first = name if first is None else first
                ids = agent.get("block_ids")
                for one in ids if type(ids) is list else []:
                    owners.setdefault(str(one), name)
        return first, owners

    def _agent(self, row: Row, number: int, source: str | None) -> Iterator[Model]:
        name = row.get("name")
        session = f"{name}/{row.get('id', number)}"
        as_written = {key: part for key, part in row.items() if key != "messages"}
        if "messages" in row:
            as_written["messages"] = []
        yield node_of(as_written, AGENT, source)
        messages = row.get("messages")
        messages = [] if messages is None else messages
        if type(messages) is not list:
            where = f"agents/{number}/messages"
            raise MalformedError("`messages` is not a list", file=self._location.name, field=where)
        if not messages:
            return
        yield start_of(session, name if type(name) is str else None, source)
        for index, message in enumerate(messages):
            where = f"agents/{number}/messages/{index}"
            event = self._draft(where, partial(_turn, message, session, source))
            if event is not None:
                yield event

    def _rows(self, name: str) -> Iterator[tuple[str, Row]]:
        """Yield the rows of a list, with their positions."""
        for number, row in enumerate(self._document.get(name, [])):
            where = f"{name}/{number}"
            record = self._draft(where, partial(_row, row))
            if record is not None:
                yield where, record

    def _draft(self, where: str, make: Callable[[], _T]) -> _T | None:
        try:
            return make()
        except MalformedError as error:
            error.within(where)
            error.file = self._location.name
            self._reading.refuse(error)
            return None


def _turn(row: Any, session: str, source: str | None) -> SessionEvent:
    return message_of(_row(row), session, source)


def _is_ours(document: Row) -> bool:
    """Return whether its only agent is the one that we write if there is none."""
    agents = document["agents"]
    agent = agents[0] if len(agents) == 1 else None
    if type(agent) is not dict or type(agent.get("name")) is not str:
        return False
    ids = [one.get("id") for one in document.get("blocks", []) if type(one) is dict]
    return bool(agent == agent_of_ours(agent["name"], ids))


def _row(row: Any) -> Row:
    if type(row) is not dict:
        raise MalformedError("not an object")
    return row
