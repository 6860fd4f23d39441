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
from collections.abc import Callable, Iterator
from functools import partial
from io import BytesIO
from typing import Any, BinaryIO, ClassVar, TypeVar

from satchel.errors import MalformedError
from satchel.formats._letta.leaving import LISTS, MEMORIES, Leaving, agent_of_ours
from satchel.formats._letta.older import is_older, renewed
from satchel.formats._letta.rows import (
    AGENT,
    THINGS,
    Row,
    entry_of,
    message_of,
    node_of,
    start_of,
)
from satchel.formats._order import Order
from satchel.formats._sniffing import members
from satchel.memory.records import Model, SessionEvent
from satchel.ports.format import Info, Reading, Traits, Writing
from satchel.ports.place import Place, Target
from satchel.ports.records import RecordSet
from satchel.seal.artifact.sections import TYPED_SECTIONS
from satchel.seal.encoding.foreign_json import ForeignReader
from satchel.seal.records import Sealed

_T = TypeVar("_T")

_SIGNS = {b"agent_type", b"block_ids", b"tool_ids", b"llm_config", b"system", b"memory_blocks"}
_OF_THE_TRANSFER = ("source", "receipt")
_ESCAPED = re.compile(rb"\\(.)", re.DOTALL)


class Letta:
    """The format."""

    info: ClassVar[Info] = Info(
        title="Letta agent file",
        suffixes=(".af",),
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
        found = {path for path, _ in members(head)}
        newer = {path[-1] for path in found if path[:-1] == (b"agents", 0)}
        older = {(b"agent_type",), (b"core_memory",)} <= found
        return older or not newer.isdisjoint(_SIGNS)

    def read(self, place: Place, reading: Reading) -> Iterator[Model | Sealed]:
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
        yield from _Found(document, place, reading).records()

    def write(self, records: RecordSet, target: Target, writing: Writing) -> None:
        report = writing.report
        for section, count in records.counts.items():
            kind = TYPED_SECTIONS.get(section, section)
            if kind not in (*MEMORIES, *_OF_THE_TRANSFER, "graph_node", "session_event"):
                report.lost(kind, "an agent file has no such records", count=count)
        leaving = Leaving(records, writing)
        with target.open() as sink:
            leaving.write(sink)


FORMAT = Letta()
"""What the registry finds."""


# -- reading -------------------------------------------------------------------------------


def _document(place: Place, reading: Reading) -> Row:
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


class _Found:
    """What is in a document, given out row by row."""

    def __init__(self, document: Row, place: Place, reading: Reading) -> None:
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
