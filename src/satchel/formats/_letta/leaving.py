"""An agent file that is being made of records."""

from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO, cast

from satchel.formats._json import as_json
from satchel.formats._letta.rows import (
    AGENT,
    BLOCK,
    ID,
    NAME,
    THINGS,
    Row,
    block_of,
    kept_of,
    label_of,
    row_of,
)
from satchel.formats._order import in_order
from satchel.memory.entries import Entry
from satchel.memory.parts import Component
from satchel.memory.records import GraphNode, SessionEvent
from satchel.ports.format import Writing
from satchel.ports.records import RecordSet
from satchel.ports.report import Report
from satchel.seal.encoding.notation import NUMBERS, with_numbers
from satchel.seal.records import Sealed

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


class Leaving:
    """The file.

    Args:
        records: What goes into it.
        writing: Whose memory it is, and where losses go.
    """

    def __init__(self, records: RecordSet, writing: Writing) -> None:
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
