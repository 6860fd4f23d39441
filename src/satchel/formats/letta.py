"""Letta's agent files (``.af``): agents with their blocks, messages, tools and groups.

A block becomes an entry under its label: ``persona`` says who the agent is, the others what it
knows. Messages become the turns of a conversation. What is no memory (an agent's settings, tools
with their source code, groups, files, sources) becomes nodes, which are kept as data: nothing of it
is ever run, and none of it is recalled. Read are the shape that the last server wrote, the same as
a JSON text inside JSON, and the older shape that Letta itself refuses; written is the first.

A file never holds archival memory, nor messages that were out of context when it was made. Compared
with letta-ai/agent-file of 2026-03-24 and files of servers 0.6.47 and later.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from io import BytesIO
from typing import Any, BinaryIO, ClassVar, TypeVar, cast

from satchel.artifact.body import TYPED_SECTIONS
from satchel.crypto.json_reader import ForeignReader
from satchel.crypto.notation import NUMBERS, with_numbers
from satchel.crypto.sealed_records import Sealed
from satchel.errors import MalformedError
from satchel.formats._files import json_members
from satchel.formats._json import as_json
from satchel.formats._letta import (
    AGENT,
    BLOCK,
    ID,
    NAME,
    THINGS,
    Row,
    block_of,
    entry_of,
    is_older,
    kept_of,
    label_of,
    message_of,
    node_of,
    renewed,
    row_of,
    start_of,
)
from satchel.formats._order import Order, in_order
from satchel.model.entries import Entry
from satchel.model.records import GraphNode, Model, SessionEvent
from satchel.model.values import Component
from satchel.ports.format import Info, ReadContext, Signs, Traits, WriteContext
from satchel.ports.losses import Report
from satchel.ports.place import Place, Target
from satchel.ports.record_set import RecordSet

LISTS = ("agents", "blocks", *THINGS)
_NEEDED = ("agents", "groups", "blocks", "files", "sources", "tools", "mcp_servers")
_HELD = frozenset({"id", "nonce", "type", "kind", "text", "origin", "scope"})
MEMORIES = (Component.IDENTITY, Component.SEMANTIC)
_NO_FIELD = "a block has no such field"
_AGENT_OF_OURS: Row = {
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
    """Return the agent that is written where there is none: it says nothing but its name."""
    return {"id": "agent-0", "name": name, **_AGENT_OF_OURS, "block_ids": blocks, "messages": []}


class LettaWriter:
    """The file.

    Args:
        records: What goes into it.
        writing: Whose memory it is, and where losses go.
    """

    def __init__(self, records: RecordSet, writing: WriteContext) -> None:
        self._records = records
        self._report = writing.report
        found = [one.value for one in records.of("source") if one.value.get("format") == NAME]
        container = found[0].get("container", {}) if len(found) == 1 else {}
        self._container: Row = container
        self._name = writing.bank or str(container.get("agent", "agent"))
        self._things: dict[str, list[Row]] = {thing: [] for thing in (AGENT, *THINGS.values())}
        self._messages = dict[str, list[Row]]()

    def write(self, sink: BinaryIO) -> None:
        """Write it."""
        self._take_nodes()
        self._take_events()
        blocks, added = self._blocks()
        agents = self._agents([row["id"] for row in blocks], added)
        self._have_slots(agents, blocks)
        lists = {"agents": agents, "blocks": blocks}
        lists |= {name: self._things[thing] for name, thing in THINGS.items()}
        wanted = {*_NEEDED, *self._container.get("lists", [])}
        fields = {"metadata": {}, **self._container.get("fields", {})}
        sink.write(b"{")
        for place, name in enumerate(n for n in LISTS if n in wanted or lists[n]):
            sink.writelines((b",\n" if place else b"\n", _json(name, self._report), b": ["))
            self._put(sink, lists[name])
            sink.write(b"]")
        for name, part in fields.items():
            if name not in LISTS:
                sink.writelines((b",\n", _json({name: part}, self._report)[1:-1]))
        sink.write(b"\n}\n")

    def _put(self, sink: BinaryIO, rows: Iterable[Row]) -> None:
        for place, row in enumerate(rows):
            sink.writelines((b",\n" if place else b"\n", _json(row, self._report)))

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
        """Return the blocks, and the ids of those that no agent of the file names."""
        rows, added = list[Row](), list[str]()
        ids, labels = set[str](), set[str]()
        free = self._free()
        for record in in_order(self._records, self._container):
            entry = cast("Entry", record.model)
            if record.type not in MEMORIES:
                continue
            if entry.text is None:
                self._report.lost(record.type, "a block must be text", example=record.id)
                continue
            own = label_of(entry)
            from_there = str(kept_of(entry.origin).get("id", ""))
            known = bool(ID.fullmatch(from_there))
            identity = from_there if known and from_there not in ids else f"block-{next(free)}"
            label = own if own is not None and (known or own not in labels) else None
            if label is None:
                label = _unused(own or "memory", labels)
            row = block_of(entry, label)
            row["id"] = identity
            ids.add(identity)
            labels.add(label)
            rows.append(row)
            if identity != from_there:
                added.append(identity)
            self._count(record, entry, own, label)
        return rows, added

    def _free(self) -> Iterator[int]:
        """Yield numbers that no block of the records has."""
        taken = set[str]()
        for kind in MEMORIES:
            for record in self._records.of(kind):
                taken.add(str(kept_of(cast("Entry", record.model).origin).get("id")))
        number = 0
        while True:
            if f"block-{number}" not in taken:
                yield number
            number += 1

    def _agents(self, blocks: list[str], added: list[str]) -> list[Row]:
        rows = [dict(row) for row in self._things[AGENT]]
        if not rows and (blocks or "agent" in self._container or not self._container):
            rows, added = [agent_of_ours(self._name, blocks)], []
        there = set(blocks)
        for number, row in enumerate(rows):
            ids = row.get("block_ids")
            if type(ids) is list and (added or not there.issuperset(map(str, ids))):
                new = added if number == 0 else []
                row["block_ids"] = [*(one for one in ids if one in there), *new]
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
        """Give each block of an agent a label of its own: Letta takes no agent with one twice."""
        by_id = {row["id"]: row for row in blocks}
        labels = {row["label"] for row in blocks}
        for agent in agents:
            there = set[str]()
            ids = agent.get("block_ids")
            for row in (by_id.get(one) for one in (ids if type(ids) is list else ())):
                if row is None:
                    continue
                if row["label"] in there:
                    row["label"] = _unused(row["label"], labels)
                    labels.add(row["label"])
                    reason = "another block of the agent has the same label"
                    self._report.lost("origin/id", reason, example=row["id"])
                there.add(row["label"])

    def _count(self, record: Sealed, entry: Entry, own: str | None, label: str) -> None:
        value = record.value
        limit = entry.origin.as_written.get("limit") if entry.origin is not None else None
        if type(limit) is int and limit < len(entry.text or ""):
            reason = "the text exceeds the block's limit, which is raised"
            self._report.lost("limit", reason, example=record.id)
        for name in sorted(value.keys() - _HELD):
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


def _unused(label: str, labels: set[str]) -> str:
    number = len(labels)
    while (found := f"{label}_{number}") in labels:
        number += 1
    return found


def _json(value: Any, report: Report) -> bytes:
    """Encode as Python's own JSON does, large integers included."""
    return as_json(value, report)


_T = TypeVar("_T")

_SIGNS = {b"agent_type", b"block_ids", b"tool_ids", b"llm_config", b"system", b"memory_blocks"}
_OF_THE_TRANSFER = ("source", "receipt")
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

    def recognises(self, place: Place) -> bool:
        head = place.head.lstrip()
        if head.startswith(b'"'):
            head = _ESCAPED.sub(rb"\1", head[1:])
        found = {path for path, _ in json_members(head)}
        newer = {path[-1] for path in found if path[:-1] == (b"agents", 0)}
        older = {(b"agent_type",), (b"core_memory",)} <= found
        return older or not newer.isdisjoint(_SIGNS)

    def read(self, place: Place, reading: ReadContext) -> Iterator[Model | Sealed]:
        document = _document(place, reading)
        if is_older(document):
            try:
                document = renewed(document, reading.report)
            except MalformedError as error:
                raise error.located(file=place.name, line=1) from None
        # Letta writes null where there is nothing in a list; so do others that write such files.
        document = {k: part for k, part in document.items() if part is not None or k not in LISTS}
        for name in LISTS:
            if type(document.get(name, [])) is not list:
                raise MalformedError(f"`{name}` is not a list", file=place.name, field=name)
        fields = {name: part for name, part in document.items() if name not in LISTS}
        lists = [name for name in LISTS if name in document]
        reading.container.update({"fields": fields, "lists": lists})
        for name, part in fields.items():
            if type(part) is list and part:
                what = f"{len(part)} of {name!r} are kept as data, not as memories"
                reading.report.note(what)
        yield from _DocumentRows(document, place, reading).records()

    def write(self, records: RecordSet, target: Target, writing: WriteContext) -> None:
        report = writing.report
        for section, count in records.counts.items():
            kind = TYPED_SECTIONS.get(section, section)
            if kind not in (*MEMORIES, *_OF_THE_TRANSFER, "graph_node", "session_event"):
                report.lost(kind, "an agent file has no such records", count=count)
        leaving = LettaWriter(records, writing)
        with target.open() as sink:
            leaving.write(sink)


FORMAT = Letta()
"""What the registry finds."""


# -- reading -------------------------------------------------------------------------------


def _document(place: Place, reading: ReadContext) -> Row:
    bound = reading.limits.line_bytes
    with place.open() as stream:
        found = _value(stream, place, bound)
    if type(found) is str:  # some files are a JSON text inside JSON
        found = _value(BytesIO(found.encode()), place, bound)
    if type(found) is not dict or not (is_older(found) or type(found.get("agents")) is list):
        raise MalformedError(
            "not an agent file: the list `agents` is missing", file=place.name, line=1
        )
    return found


def _value(stream: BinaryIO, place: Place, bound: int) -> Any:
    document = ForeignReader(stream, place.name, item_bytes=bound)
    found = document.value()
    document.end()
    return found


class _DocumentRows:
    """What is in a document, given out row by row."""

    def __init__(self, document: Row, place: Place, reading: ReadContext) -> None:
        self._document = document
        self._place = place
        self._reading = reading
        self._order = Order()

    def records(self) -> Iterator[Model]:
        """Yield the records: blocks, agents with their messages, and everything else."""
        source, owners = self._names()
        for where, row in self._rows("blocks"):
            owner = owners.get(str(row.get("id")))
            made = self._made(where, partial(entry_of, row, owner, owner))
            if made is not None:
                self._order.add(made)
                yield made
        self._order.keep(self._reading)
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
        """Return the name of the first agent, and of the first that has each block."""
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
        kept = {key: part for key, part in row.items() if key != "messages"}
        if "messages" in row:
            kept["messages"] = []
        yield node_of(kept, AGENT, source)
        messages = row.get("messages")
        messages = [] if messages is None else messages
        if type(messages) is not list:
            where = f"agents/{number}/messages"
            raise MalformedError("`messages` is not a list", file=self._place.name, field=where)
        if not messages:
            return
        yield start_of(session, name if type(name) is str else None, source)
        for place, message in enumerate(messages):
            where = f"agents/{number}/messages/{place}"
            made = self._made(where, partial(_turn, message, session, source))
            if made is not None:
                yield made

    def _rows(self, name: str) -> Iterator[tuple[str, Row]]:
        """Yield the rows of a list, each with its place."""
        for number, row in enumerate(self._document.get(name, [])):
            where = f"{name}/{number}"
            made = self._made(where, partial(_row, row))
            if made is not None:
                yield where, made

    def _made(self, where: str, make: Callable[[], _T]) -> _T | None:
        try:
            return make()
        except MalformedError as error:
            error.field = f"{where}/{error.field}" if error.field else where
            error.file = self._place.name
            self._reading.refuse(error)
            return None


def _turn(row: Any, session: str, source: str | None) -> SessionEvent:
    return message_of(_row(row), session, source)


def _is_ours(document: Row) -> bool:
    """Tell whether its one agent is what we write where there was none: it says nothing more."""
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
