"""Reads amplihack's hierarchical JSON: versions 1.0 and 1.1, and agent-core's form.

Agent-core writes ``nodes``, ``edges`` and ``episodes`` without a version; its nodes become those of
version 1.1. Members around the arrays are stored unchanged.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import islice
from typing import Any, NamedTuple, Self

import msgspec

from satchel.crypto.canonical import escape_keys
from satchel.crypto.json_reader import ForeignReader
from satchel.errors import EmptyInputError, InputError, LimitError, MalformedError
from satchel.formats._amplihack.rows import (
    ARRAYS,
    EDGES,
    EPISODES,
    FACTS,
    NODES,
    Row,
    array_of,
    checked_edge,
    edge_from_agent_core,
    edge_of,
    from_agent_core,
    node_of,
    node_placeholder,
    statistic_of,
)
from satchel.formats._json import reader_of
from satchel.model.records import Edge, Episodic, Model, Semantic
from satchel.model.values import Scope, resolved
from satchel.ports.format import Location, ReadContext
from satchel.ports.record_set import Report
from satchel.runtime.scratch import ScratchMap, SpoolStreams

_BATCH = 128
_ID_BYTES = 32
_PREFIX = "blake3:"
_SHOWN_CHARS = 80


class RowPosition(NamedTuple):
    """A position in the input: an array or table, and the index in it."""

    array: str
    number: int

    def __str__(self) -> str:
        return f"{self.array}/{self.number}"


Prepare = Callable[[Any], Row] | None
"""Converts a row to version 1.1."""

_Fact = tuple[RowPosition, Semantic]
_Joined = tuple[RowPosition, str, Row, Scope | None]
_pack = msgspec.msgpack.Encoder().encode
_facts = msgspec.msgpack.Decoder(resolved(list[_Fact])).decode
_edges = msgspec.msgpack.Decoder(resolved(list[_Joined])).decode


class AmplihackCollector:
    """Collects the nodes and edges of one input.

    Args:
        reading: Takes bad ones.
        file: The name of the input in errors.
    """

    def __init__(self, reading: ReadContext, file: str) -> None:
        self.counts = Counter[str]()
        """Number of rows of each array, including bad ones."""

        self.nodes = 0
        """Number of nodes among them."""

        self.last: RowPosition | None = None
        """The position of the last record that was yielded."""

        self._reading = reading
        self._file = file
        self._streams = SpoolStreams()
        self._facts, self._edges = self._streams.new_stream(), self._streams.new_stream()
        self._facts_held, self._edges_held = list[_Fact](), list[_Joined]()
        self._names, self._parents = ScratchMap(), ScratchMap()
        self._twice, self._first_twice = 0, ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for resource in (self._streams, self._names, self._parents):
            resource.close()

    def node(
        self, where: RowPosition, table: str, row: Any, scope: Scope | None, prepare: Prepare = None
    ) -> Iterator[Episodic]:
        """Add a node; an episode is yielded.

        Args:
            where: Its position.
            table: ``FACTS`` or ``EPISODES``.
            row: The row.
            scope: Its owner.
            prepare: Converts the row to version 1.1, if it has another form.

        Raises:
            MalformedError: If it is bad, and bad ones are not skipped.
        """
        self.nodes += 1
        with self._refusing(where):
            draft = node_of(table, row if prepare is None else prepare(row), scope)
            self._note_name(where, draft.origin.id if draft.origin else None, table, scope)
            if isinstance(draft, Episodic):
                self.last = where
                yield draft
                return
            self._facts_held.append((where, draft))
            if len(self._facts_held) == _BATCH:
                self._facts.write_pack(_pack(self._facts_held))
                self._facts_held.clear()

    def edge(
        self,
        where: RowPosition,
        kind: str | None,
        row: Any,
        scope: Scope | None,
        prepare: Prepare = None,
    ) -> None:
        """Add an edge; one of agent-core states its own kind.

        Args and Raises: as ``node``.
        """
        with self._refusing(where):
            row = row if prepare is None else prepare(row)
            if kind is None:
                kind, row = edge_from_agent_core(row)
            self._edges_held.append((where, kind, checked_edge(kind, row), scope))
            if len(self._edges_held) == _BATCH:
                self._edges.write_pack(_pack(self._edges_held))
                self._edges_held.clear()

    def rest(self) -> Iterator[Semantic | Edge]:
        """Yield the facts, then the edges whose ends exist; others are counted."""
        self._find_parents()
        for where, draft in self._all_facts():
            self.last = where
            origin = draft.origin
            name = node_placeholder(FACTS, str(origin.id), draft.scope) if origin else ""
            raw = self._parents.get(_raw(name)) or b""
            starts = range(0, len(raw), _ID_BYTES)
            parents = dict.fromkeys(raw[start : start + _ID_BYTES] for start in starts)
            ids = tuple(_PREFIX + parent.hex() for parent in parents)
            yield msgspec.structs.replace(draft, parent_ids=ids) if ids else draft
        for where, kind, row, scope in self._all_edges():
            self.last = where
            ends = [self._end(kind, row, scope, side) for side in ("source_id", "target_id")]
            if ends[0] is None or ends[1] is None:
                side = "source_id" if ends[0] is None else "target_id"
                self._dangling(where, side, row[side])
            else:
                yield edge_of(kind, row, scope, (ends[0], ends[1]))
        if self._twice:
            self._reading.report.note(
                f"nodes with the ID of another node: {self._twice:,},"
                f" the first of them is {self._first_twice}"
            )

    def _find_parents(self) -> None:
        most = self._reading.limits.parents * _ID_BYTES
        for _, kind, row, scope in self._all_edges():
            if kind != "derives_from":
                continue
            fact = node_placeholder(FACTS, row["source_id"], scope)
            episode = node_placeholder(EPISODES, row["target_id"], scope)
            if self._has_node(fact) and self._has_node(episode):
                self._parents.extend(_raw(fact), _raw(episode), most=most)

    def _end(self, kind: str, row: Row, scope: Scope | None, side: str) -> str | None:
        """Return the placeholder of the node at an end; None if it does not exist."""
        for table in tables_for(kind, side):
            name = node_placeholder(table, row[side], scope)
            if self._has_node(name):
                return name
        return None

    def _has_node(self, name: str) -> bool:
        return self._names.get(_raw(name)) is not None

    def _note_name(
        self, where: RowPosition, identity: str | None, table: str, scope: Scope | None
    ) -> None:
        if not self._names.add(_raw(node_placeholder(table, str(identity), scope))):
            self._first_twice = self._first_twice or str(where)
            self._twice += 1

    def _dangling(self, where: RowPosition, side: str, name: str) -> None:
        end = side.removesuffix("_id")
        problem = f"its {end} is not in the file: {name[:_SHOWN_CHARS]!r}"
        error = MalformedError(problem, file=self._file, field=f"{where}/{side}")
        self._reading.report.refuse(error)

    def _all_facts(self) -> Iterator[_Fact]:
        for pack in self._facts.packs():
            yield from _facts(pack)
        yield from self._facts_held

    def _all_edges(self) -> Iterator[_Joined]:
        for pack in self._edges.packs():
            yield from _edges(pack)
        yield from self._edges_held

    @contextmanager
    def _refusing(self, where: RowPosition) -> Iterator[None]:
        self.counts[where.array] += 1
        try:
            yield
        except InputError as error:
            error.located(file=self._file, line=self._reading.line())
            self._reading.refuse(error.within(str(where)))


def tables_for(kind: str, side: str) -> tuple[str, str]:
    """Return the tables to search for the node at an end of an edge, in order."""
    tables = tuple(NODES)
    is_episode = kind == "derives_from" and side == "target_id"
    return (tables[1], tables[0]) if is_episode else (tables[0], tables[1])


def _raw(name: str) -> bytes:
    return bytes.fromhex(name.removeprefix(_PREFIX))


VERSIONS = ("1.0", "1.1")
"""The known versions."""

_CORE = {"nodes": FACTS, "episodes": EPISODES, "edges": ""}
_CORE_COUNTS = {"nodes": "total_nodes", "episodes": "total_episodes", "edges": "total_edges"}
_KIND_OF = {array_of(kind): kind for kind in EDGES}
_TOP_MEMBERS = ("agent_name", "exported_at", "format_version", "statistics")


class AmplihackDocument:
    """A JSON export that is being read.

    Args:
        location: The file.
        reading: The limits and options.
    """

    def __init__(self, location: Location, reading: ReadContext) -> None:
        self._location = location
        self._reading = reading
        self._around: dict[str, Any] = {}
        self._core = self._versioned = False
        self._agent: str | None = reading.agent
        self._line: int | None = None

    def records(self) -> Iterator[Model]:
        """Yield the episodes, then the facts, then the edges.

        Raises:
            MalformedError: If it is not such an export, or of an unknown version.
            EmptyInputError: If it has no memory.
        """
        reading, name = self._reading, self._location.name
        reading.linked = True
        with self._location.open() as stream, AmplihackCollector(reading, name) as collector:
            document = reader_of(stream, self._location, reading)
            reading.line = lambda: document.value_line
            if document.peek() != "{":
                raise MalformedError("not an amplihack export: not an object", line=document.line)
            for key in document.members():
                yield from self._member(document, key, collector)
            document.end()
            self._settle(document, collector)
            if not collector.nodes:
                raise EmptyInputError("the file contains no memories", file=name)
            reading.line = lambda: self._line_of(collector.last)
            yield from collector.rest()

    def _member(
        self, document: ForeignReader, key: str, collector: AmplihackCollector
    ) -> Iterator[Model]:
        if key in ARRAYS and not self._core:
            self._versioned = True
            yield from self._array(document, key, collector)
        elif key in _CORE and not self._versioned and "format_version" not in self._around:
            self._core = True
            yield from self._array(document, key, collector)
        else:
            self._store_member(document, key)

    def _store_member(self, document: ForeignReader, key: str) -> None:
        """Store a member around the arrays."""
        line = document.line
        value = document.value()
        if key in ARRAYS:
            problem = f"`{key}` beside agent-core's own arrays"
            raise MalformedError(problem, line=line, field=key)
        if key == "format_version":
            self._require_version(value, line)
        if key == "agent_name":
            if type(value) is not str or not value:
                problem = "is empty" if value == "" else "is not text"
                raise MalformedError(f"`agent_name` {problem}", line=line, field=key)
            self._agent = self._reading.agent or value
        self._around.update(escape_keys([(key, value)]))
        size = len(msgspec.json.encode(self._around))
        bound = self._reading.limits.entry_bytes // 2
        if size > bound:
            problem = f"the data around the arrays exceeds {bound} bytes"
            raise LimitError(problem, line=line, field=key)

    def _require_version(self, value: Any, line: int) -> None:
        if value in VERSIONS or self._reading.any_version:
            return
        raise MalformedError(
            f"version {str(value)[:40]!r} is not supported; supported: {' and '.join(VERSIONS)}",
            line=line,
            field="format_version",
            hint="satchel amplihack import --unknown-version reads it as version 1.1.",
        )

    def _array(
        self, document: ForeignReader, key: str, collector: AmplihackCollector
    ) -> Iterator[Model]:
        scope = Scope(agent=self._found_agent())
        if document.peek() != "[":
            raise MalformedError(f"`{key}` is not a list", line=document.line, field=key)
        table = _CORE[key] if self._core else key
        prepare = partial(from_agent_core, table) if self._core else None
        for index, row in enumerate(document.values()):
            where = RowPosition(key, index)
            if table in NODES:
                yield from collector.node(where, table, row, scope, prepare)
            else:
                collector.edge(where, _KIND_OF.get(key), row, scope)

    def _found_agent(self) -> str:
        """Return the agent of the file, even if it comes after the arrays."""
        if self._agent is None:
            with self._location.open() as stream:
                document = reader_of(stream, self._location, self._reading)
                for key in document.members():
                    if key == "agent_name":
                        self._store_member(document, key)
                        del self._around[key]
                        break
                    _skip(document)
        if self._agent is None:
            raise MalformedError("`agent_name` is missing", line=1, field="agent_name")
        return self._agent

    def _settle(self, document: ForeignReader, collector: AmplihackCollector) -> None:
        """Note inconsistencies of the file, and store the members around the arrays."""
        if not (self._core or self._versioned):
            raise MalformedError(
                "not an export of amplihack: neither semantic_nodes nor nodes",
                file=self._location.name,
                line=document.line,
            )
        versioned = "format_version" in self._around or self._reading.any_version
        if self._versioned and not versioned:
            raise MalformedError(
                "`format_version` is missing",
                file=self._location.name,
                line=1,
                field="format_version",
                hint="satchel amplihack import --unknown-version reads it as version 1.1.",
            )
        self._compare_statistics(collector)
        container, around = self._reading.container, self._around
        container["shape"] = "agent-core" if self._core else "hierarchical"
        for key in _TOP_MEMBERS[:3]:
            if type(around.get(key)) is str:
                container[key] = around.pop(key)
        around.pop("statistics", None)
        if around:
            container["fields"] = around

    def _compare_statistics(self, collector: AmplihackCollector) -> None:
        statistics = self._around.get("statistics")
        if type(statistics) is not dict:
            return
        names = _CORE_COUNTS if self._core else {array: statistic_of(array) for array in ARRAYS}
        for array, name in names.items():
            if name in statistics and statistics[name] != collector.counts[array]:
                self._reading.report.note(
                    f"statistics/{name} says {str(statistics[name])[:40]}, and there are"
                    f" {collector.counts[array]:,}"
                )

    def _line_of(self, where: RowPosition | None) -> int | None:
        """Return the line of a record that was deferred; the file is read again for it."""
        if where is None:
            return None
        with suppress(InputError), self._location.open() as stream:
            document = reader_of(stream, self._location, self._reading)
            for key in document.members():
                if key != where.array:
                    _skip(document)
                    continue
                for _ in islice(document.values(), where.number + 1):
                    pass
                return document.value_line
        return None


def _skip(document: ForeignReader) -> None:
    if document.peek() == "[":
        for _ in document.values():
            pass
    else:
        document.value()


MOST_AGENTS = 1000
"""Largest number of agents that are collected to find the requested one."""

_ENDS = ("source_id", "target_id")
_OWNERS_SHOWN = 10


class AmplihackAgents:
    """The agents of a database.

    Args:
        agents: The agents with rows; the first ``MOST_AGENTS``.
        agent: The requested agent; None for all.
        file: The name of the database in errors.
        report: Counts rows of other agents.

    Raises:
        MalformedError: If there are several agents, and the requested one is not among them.
    """

    def __init__(
        self, agents: Sequence[str], agent: str | None, *, file: str, report: Report
    ) -> None:
        self._file = file
        self._report = report
        self._owners = ScratchMap()
        self._others = 0
        # All rows become one agent's, or only the rows of one agent are read.
        self._renamed = agent if len(agents) <= 1 else None
        self._only = agent if len(agents) > 1 else None
        if self._only is not None and self._only not in agents:
            raise MalformedError(
                f"the database is of {len(agents)} agents, and {agent!r} is none of them",
                file=file,
                field="agent_id",
                hint=f"It has memories of: {', '.join(sorted(agents)[:_OWNERS_SHOWN])}.",
            )

    def of_node(self, table: str, array: str, row: Row) -> Scope | None:
        """Return the owner of a node; None if it is not requested.

        Args:
            table: The name of its table.
            array: The array of the JSON for its rows.
            row: The node.

        Raises:
            MalformedError: If it names no agent.
        """
        agent, name = row.get("agent_id"), row.get("memory_id")
        if self._only is not None and agent != self._only:
            self._others += 1
            return None
        agent = self._renamed or agent
        if type(agent) is not str or not agent:
            raise MalformedError("`agent_id` names no agent", file=self._file, field=table)
        if self._renamed is None and type(name) is str:
            self._owners.add(f"{array}/{name}".encode(), agent.encode())
        return Scope(agent=agent)

    def of_edge(self, row: Row) -> Scope | None:
        """Return the owner of an edge's source, or else its target; None if not requested."""
        if self._renamed is not None:
            return Scope(agent=self._renamed)
        for end in _ENDS:
            for array in (FACTS, EPISODES):
                agent = self._owners.get(f"{array}/{row[end]}".encode())
                if agent is not None:
                    return Scope(agent=agent.decode())
        if self._only is not None:
            self._others += 1
            return None
        return Scope()  # both ends are missing, which is counted

    def close(self) -> None:
        """Report the number of rows that were not read, and free the temporary space."""
        self._owners.close()
        if self._others:
            self._report.lost("row", "they belong to another agent", count=self._others)
