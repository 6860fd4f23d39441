"""Records as the rows of amplihack's arrays, as its strict reader accepts them.

Its reader refuses a whole file for a null, a tag that is not a text, or a number in a text. So
every member is present and has its type; what it cannot hold is counted.
"""

import base64
import math
from collections.abc import Iterator
from typing import Any, cast

import msgspec

from satchel.artifact.body import TYPED_SECTIONS
from satchel.crypto.canonical import decode_foreign
from satchel.crypto.sealed_records import Sealed
from satchel.formats._amplihack.reader import tables_for
from satchel.formats._amplihack.rows import (
    ARRAYS,
    EDGES,
    EPISODE,
    EPISODES,
    FACTS,
    JSON,
    LABEL,
    NAME,
    NUMBER,
    TAGS,
    TEXT,
    WHOLE,
    Member,
    Row,
    array_of,
    as_written_of,
    edge_row_of,
    identity_at,
    only_in_agent_core,
    row_of,
)
from satchel.model.records import Edge, Entry, Episodic, Semantic
from satchel.model.values import Scope, iso_text, now
from satchel.ports.format import WriteContext
from satchel.ports.record_set import TRANSFER_RECORDS, RecordSet, Report
from satchel.runtime.scratch import ScratchMap, SpoolStream, SpoolStreams

_TABLES = {"semantic": FACTS, "episodic": EPISODES}
_SECTION_OF = {table: kind for kind, table in _TABLES.items()}
_COMMON_MEMBERS = frozenset({"id", "nonce", "type", "origin", "scope", "kind", "parent_ids"})
_SUPPORTED = {
    FACTS: frozenset(
        {"text", "subject", "confidence", "sources", "tags", "metadata", "created_at", "entities"}
    ),
    EPISODES: frozenset({"text", "sources", "tags", "metadata", "created_at"}),
}
_EDGE_SUPPORTED = frozenset({"id", "nonce", "type", "origin", "scope", "kind", "source", "target"})
_NO_MEMBER = "amplihack has no such member"
_OTHER_TYPE = "amplihack's reader would reject the whole file"
_I64 = 2**63
_LINK = {"extraction_method": "", "confidence": 1}


class AmplihackWriter:
    """The memory of one agent, as rows.

    Args:
        records: The records to write.
        agent: The agent.
        report: Counts what the format cannot hold.
    """

    def __init__(self, records: RecordSet, agent: str, report: Report) -> None:
        self._records = records
        self._scope = Scope(agent=agent)
        self._report = report
        self._names, self._used, self._pairs = ScratchMap(), ScratchMap(), ScratchMap()
        self._streams = SpoolStreams()
        self._edges: dict[str, SpoolStream] = {}
        self._has_parents = False
        self._count_other_records()
        for table in (EPISODES, FACTS):
            self._name(table)

    def close(self) -> None:
        """Free the temporary space."""
        for resource in (self._names, self._used, self._pairs, self._streams):
            resource.close()

    def rows(self, array: str) -> Iterator[Row]:
        """Yield the rows of an array, each with all members and their types; call once per array.

        Reversible forms such as ``$int`` are restored if JSON can hold them.
        """
        if array in (FACTS, EPISODES):
            yield from self._nodes(array)
            return
        self._sort_edges()
        for line in self._edges[array].lines():
            yield self._strict(array, msgspec.json.decode(line), "", carried=b'"$' in line)

    # -- nodes -----------------------------------------------------------------------------

    def _entries(self, table: str) -> Iterator[tuple[Sealed, Semantic | Episodic]]:
        for record in self._records.of(_SECTION_OF[table]):
            entry = cast("Semantic | Episodic", record.model)
            if entry.text is not None:
                yield record, entry

    def _name(self, table: str) -> None:
        """Assign each node of a table a unique ID at amplihack."""
        for record, entry in self._entries(table):
            name = identity_at(entry, record.id)
            if not self._used.add(_key(table, name)):
                self._report.lost("id", "two nodes have it", example=record.id)
                name = record.id
                self._used.add(_key(table, name))
            self._names.put(record.id.encode(), _key(table, name))
            self._has_parents = self._has_parents or bool(entry.parent_ids)

    def _nodes(self, table: str) -> Iterator[Row]:
        for record, entry in self._entries(table):
            name = self._named(record.id)[1]
            source = ""
            if isinstance(entry, Semantic):
                source = next((one for _, one in self._episodes_of(entry)), "")
            row = row_of(entry, name, source)
            self._count_losses(record, entry, row)
            yield self._strict(table, row, record.id, carried=b'"$' in record.body)

    def _episodes_of(self, entry: Entry) -> Iterator[tuple[str, str]]:
        """Yield the parents of a fact that are episodes: their IDs, and those at amplihack."""
        for parent in entry.parent_ids:
            table, name = self._named(parent)
            if table == EPISODES:
                yield parent, name

    def _named(self, identity: str) -> tuple[str, str]:
        """Return the table and name of a node; None for each if it is not a node of the file."""
        table, _, name = (self._names.get(identity.encode()) or b"").decode().partition("/")
        return table, name

    def _count_losses(self, record: Sealed, entry: Semantic | Episodic, row: Row) -> None:
        table = EPISODES if isinstance(entry, Episodic) else FACTS
        lose = self._report.lost
        for name in sorted(record.value.keys() - _SUPPORTED[table] - _COMMON_MEMBERS):
            lose(name, _NO_MEMBER, example=record.id)
        if entry.scope not in (None, self._scope):
            lose("scope", "a file can hold one agent only", example=record.id)
        if entry.kind not in (None, EPISODE if table == EPISODES else None):
            lose("kind", _NO_MEMBER, example=record.id)
        linked = sum(1 for _ in self._episodes_of(entry)) if table == FACTS else 0
        if len(entry.parent_ids) > linked:
            reason = "only links from a fact to an episode in the file are supported"
            lose("parent_ids", reason, example=record.id)
        evidence_kind = LABEL if table == EPISODES else EPISODE
        if len(entry.sources) > 1 or any(
            one.kind != evidence_kind or not one.id for one in entry.sources
        ):
            lose("sources", "a fact can name one episode, an episode one label", example=record.id)
        self._count_entities(record, entry)
        if entry.created_at is not None and not row.get("created_at"):
            lose("created_at", _NO_MEMBER, example=record.id)
        self._count_origin(record.id, entry.origin)

    def _count_entities(self, record: Sealed, entry: Entry) -> None:
        first = entry.entities[0] if entry.entities else None
        if first is None or not isinstance(entry, Semantic):
            return
        more = first.entity_type is not None or first.aliases
        if len(entry.entities) > 1 or more or not first.name:
            reason = "a fact can name one entity"
            self._report.lost("entities", reason, example=record.id)

    def _count_origin(self, identity: str, origin: Any) -> None:
        for name in only_in_agent_core(origin):
            reason = "version 1.1 has no such member; agent-core has"
            self._report.lost(name, reason, example=identity)
        if origin is not None and (
            origin.provider not in (None, NAME) or origin.source or origin.revision
        ):
            reason = "amplihack does not record provenance"
            self._report.lost("origin", reason, example=identity)

    # -- edges -----------------------------------------------------------------------------

    def _sort_edges(self) -> None:
        """Group the edges by kind; links from parents come after stated ones."""
        if self._edges:
            return
        self._edges = {array_of(kind): self._streams.new_stream() for kind in EDGES}
        for record in self._records.of("edge"):
            self._write_edge(record, cast("Edge", record.model))
        links = self._entries(FACTS) if self._has_parents else iter(())
        for record, entry in links:
            for parent, episode in self._episodes_of(entry):
                if self._pairs.add(f"{record.id} {parent}".encode()):
                    ends = {"source_id": self._named(record.id)[1], "target_id": episode}
                    self._append_edge("derives_from", {**ends, **_LINK})

    def _write_edge(self, record: Sealed, edge: Edge) -> None:
        lose = self._report.lost
        if edge.kind not in EDGES:
            lose("edge", "amplihack does not support edges of this type", example=edge.kind[:80])
            return
        ends = [self._named(edge.source), self._named(edge.target)]
        for (table, name), side in zip(ends, ("source_id", "target_id"), strict=True):
            if not table:
                lose("edge", "its target is not in the file", example=record.id)
                return
            first = tables_for(edge.kind, side)[0]
            if table != first and self._used.get(_key(first, name)) is not None:
                lose("edge", "a fact and an episode have the same ID", example=record.id)
                return
        if edge.kind == "derives_from":
            self._pairs.add(f"{edge.source} {edge.target}".encode())
        self._count_edge(record, edge)
        self._append_edge(edge.kind, edge_row_of(edge, ends[0][1], ends[1][1]))

    def _append_edge(self, kind: str, row: Row) -> None:
        self._edges[array_of(kind)].write(msgspec.json.encode(row) + b"\n")

    def _count_edge(self, record: Sealed, edge: Edge) -> None:
        members, lose = EDGES[edge.kind], self._report.lost
        columns = {"weight", "metadata"} & members.keys() | {"properties"}
        for name in sorted(record.value.keys() - _EDGE_SUPPORTED - columns):
            lose(f"edge/{name}", _NO_MEMBER, example=record.id)
        as_written = as_written_of(edge.origin)
        for name, value in edge.properties.items():
            member = members.get(name)
            if member is None or (not member.fits(value) and name not in as_written):
                lose("edge/properties", _NO_MEMBER, example=record.id)
        if edge.scope not in (None, self._scope):
            lose("edge/scope", "a file can hold one agent only", example=record.id)
        self._count_origin(record.id, edge.origin)

    # -- both ------------------------------------------------------------------------------

    def _count_other_records(self) -> None:
        lose = self._report.lost
        for section, count in self._records.counts.items():
            kind = TYPED_SECTIONS.get(section)
            if kind is None:
                lose(section, "amplihack has no such section", count=count)
            elif kind not in (*_TABLES, "edge", *TRANSFER_RECORDS):
                for record in self._records.of(kind):
                    lose(kind, "amplihack has no such records", example=record.id)
        for kind in _TABLES:
            for record in self._records.of(kind):
                if cast("Entry", record.model).text is None:
                    lose(kind, "amplihack stores text only", example=record.id)

    def _strict(self, array: str, row: Row, example: str, *, carried: bool) -> Row:
        """Return a row in which each member has the type that the reader expects."""
        if carried:
            row = {
                name: _Plain(self._report, name, example).of(part)
                for name, part in decode_foreign(row).items()
            }
        for name, member in ARRAYS[array].items():
            if member is not JSON or name not in row:
                row[name] = self._typed(name, member, row.get(name), example)
        return row

    def _typed(self, name: str, member: Member, value: Any, example: str) -> Any:
        if member is JSON or member is TAGS or member is TEXT:
            return member.default if value is None else value
        good, number = value, type(value) in (int, float)
        if member is WHOLE:
            good = value if type(value) is int and -_I64 <= value < _I64 else None
        elif member.fits is NUMBER.fits:
            try:
                good = float(value) if number and math.isfinite(value) else None
            except OverflowError:
                good = None
            if good is not None and number and good != value:
                self._report.lost(name, "a number with more digits", example=example)
        if good is None:
            if value is not None:
                self._report.lost(name, _OTHER_TYPE, example=example)
            default = member.default
            return float(default) if member.fits is NUMBER.fits else default
        return good


class _Plain:
    """Converts restored values to JSON, and counts those that it cannot hold."""

    def __init__(self, report: Report, name: str, example: str) -> None:
        self._report = report
        self._name = name
        self._example = example

    def of(self, value: Any) -> Any:
        """Return a value as JSON."""
        kind = type(value)
        if kind is dict:
            return {name: self.of(part) for name, part in value.items()}
        if kind is list:
            return [self.of(part) for part in value]
        if kind is bytes:
            self._report.lost(self._name, "bytes become base64 text", example=self._example)
            return base64.b64encode(value).decode()
        if kind is float and not math.isfinite(value):
            self._report.lost(self._name, "a number that JSON cannot hold", example=self._example)
            return None
        return value


def _key(table: str, name: str) -> bytes:
    return f"{table}/{name}".encode()


_NOBODY = "satchel"


def container_of(records: RecordSet, writing: WriteContext, name: str = NAME) -> dict[str, Any]:
    """Return the members around the records in their source file, or else in the last one."""
    last: dict[str, Any] = {}
    for record in records.of("source"):
        if record.value.get("format") != name:
            continue
        container = record.value.get("container", {})
        if last.get("fields", container.get("fields")) != container.get("fields"):
            writing.report.lost(
                "container", "only that of one file can be stored", example=record.id
            )
        last = container
    return last


def agent_of(records: RecordSet, writing: WriteContext, container: dict[str, Any]) -> str:
    """Return the agent to write: that of the records, the file's, or else the bank's name."""
    agents = _agents_in(records)
    if len(agents) == 1:
        return agents.pop()
    agent = writing.bank or container.get("agent_name")
    if isinstance(agent, str) and agent:
        return agent
    return min(agents, default=_NOBODY)


def _agents_in(records: RecordSet) -> set[str]:
    """Return the agents of the memories, at most two."""
    agents = set[str]()
    for kind in ("semantic", "episodic"):
        for record in records.of(kind):
            scope = record.model.scope if isinstance(record.model, Entry) else None
            if scope is not None and scope.agent:
                agents.add(scope.agent)
            if len(agents) > 1:
                return agents
    return agents


def exported_at(writing: WriteContext, container: dict[str, Any]) -> str:
    """Return the export time of the file; a conversion preserves that of its source."""
    exported = container.get("exported_at")
    if writing.bank is None and isinstance(exported, str):
        return exported
    created = (writing.header.extra or {}).get("created_at")
    return iso_text(created if isinstance(created, str) else now())
