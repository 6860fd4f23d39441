"""A graph of Graphiti, or of Zep, which is built on it: as JSON, or in a database of Kuzu.

Graphiti has no export. The reader accepts the dump of its classes (``model_dump(mode="json")``), or
the same rows of Zep's API: lists of entities (``nodes``), episodes (``episodes``), facts
(``edges``) and other links (``mentions``, ``has_member``, ``has_episode``, ``next_episode``),
communities and sagas; other usual names of these lists are known. A file of Kuzu is copied and read
directly. The writer produces JSON; ``examples/graphiti_json.py`` loads it into any database that
graphiti-core opens, and dumps such JSON from one. Compared with graphiti-core 0.31.2 over Kuzu
0.11.3.
"""

from collections.abc import Generator, Iterator
from contextlib import closing
from typing import Any, BinaryIO, ClassVar, cast
from uuid import UUID

import msgspec
from blake3 import blake3

from satchel.artifact.body import TYPED_SECTIONS
from satchel.artifact.encodings import gzip_sink
from satchel.crypto.canonical import ABSENT, escape_keys
from satchel.crypto.sealed_records import Sealed
from satchel.errors import LimitError, MalformedError
from satchel.formats._graph_files import (
    GRAPH_MAGICS,
    GRAPHITI,
    GraphRow,
    graph_file,
    is_graphiti,
    rows_of,
)
from satchel.formats._graphiti import (
    ALWAYS,
    EPISODES,
    FACTS,
    LINKS,
    NAME,
    NO_BODY,
    NOBODY,
    NODES,
    OBJECT,
    PREDICATELESS,
    ROW_SIGNS,
    SOURCE,
    SOURCES,
    SUBJECT,
    TABLE_OF,
    TABLES,
    TARGET,
    THINGS,
    GraphitiEnd,
    GraphitiGraph,
    Row,
    as_written_of,
    group_of,
    is_graph,
    is_safe_group,
    is_safe_label,
    label_of,
    own_node,
    row_of_episode,
    row_of_fact,
    row_of_link,
    row_of_node,
    time_text,
)
from satchel.formats._json import as_json, json_members, reader_of
from satchel.formats._row_lists import sole_container
from satchel.model.records import Edge, Entry, Episodic, GraphNode, Model, Semantic
from satchel.model.values import Component, Origin, now, read_time, resolved
from satchel.ports.format import Info, Location, ReadContext, Signs, Target, Traits, WriteContext
from satchel.ports.record_set import RecordSet, Report
from satchel.runtime.scratch import ScratchMap, Spool, SpoolStreams

_TIMES = ("created_at", "valid_at", "invalid_at", "expired_at", "reference_time")
_JOINTS = "relates_to"
_FACT, _START, _END = b"f", b"s", b"e"


def tables_in(location: Location, reading: ReadContext) -> Generator[tuple[str, Row], None, None]:
    """Yield the rows of a graph, each with its table; facts come when both ends are known.

    Raises:
        InputError: As ``_graph_files.rows_of``.
    """
    joints, facts = ScratchMap(), Spool()
    with closing(facts), closing(joints), closing(rows_of(location, reading, GRAPHITI)) as rows:
        yield from _other_rows(rows, joints, facts)
        for line in facts.lines():
            row = msgspec.json.decode(line)
            for name, side in ((SOURCE, _START), (TARGET, _END)):
                node = joints.get(_key(side, row["uuid"]))
                if node is not None:
                    row[name] = node.decode()
            yield FACTS, row


def _other_rows(
    rows: Generator[GraphRow, None, None], joints: ScratchMap, facts: Spool
) -> Iterator[tuple[str, Row]]:
    """Yield the rows other than facts; facts and their links are stored for later."""
    for graph_row in rows:
        row = _plain(graph_row.row)
        if graph_row.array == FACTS:
            joints.add(_key(_FACT, row["uuid"]))
            facts.write(msgspec.json.encode(row) + b"\n")
        elif graph_row.array == _JOINTS:
            start, end = str(row["source_id"]), str(row["target_id"])
            if _key(_FACT, end) in joints:
                joints.add(_key(_START, end), start.encode())
            else:
                joints.add(_key(_END, start), end.encode())
        else:
            if graph_row.array in LINKS:
                row[SOURCE], row[TARGET] = row.pop("source_id"), row.pop("target_id")
            yield graph_row.array, row


def _plain(row: Row) -> Row:
    """Return a row in the form of the JSON."""
    for name in _TIMES:
        when = row.get(name)
        moment = read_time(when) if type(when) is str else None
        if moment is not None:
            row[name] = time_text(moment)
    return row


def _key(side: bytes, name: str) -> bytes:
    return side + b"/" + name.encode()


_ALWAYS = frozenset({"id", "nonce", "type", "text", "origin", "created_at", "metadata", "scope"})
_OF_FACTS = frozenset({"subject", "predicate", "object", "valid_from", "valid_until", "parent_ids"})
_OF_EPISODES = frozenset({"occurred_at", "kind"})
_OF_NODES = frozenset({"id", "nonce", "type", "name", "labels", "summary", "properties", "scope"})
_WRITTEN_TYPES = frozenset({"semantic", "episodic", "graph_node", "edge", "source", "receipt"})
_NO_FIELD = "Graphiti has no such field"

_RESERVED = frozenset(
    {
        *("uuid", "name", "group_id", "labels", "created_at", "summary", "name_embedding"),
        *("fact", "fact_embedding", "episodes", "expired_at", "valid_at", "invalid_at"),
        *("reference_time", "source_node_uuid", "target_node_uuid"),
    }
)
"""Attributes that Graphiti reserves when it reads a graph."""


def count_entry(record: Sealed, entry: Entry, report: Report) -> None:
    """Count the members of an entry that are not in its row."""
    held = set(_ALWAYS | (_OF_EPISODES if isinstance(entry, Episodic) else _OF_FACTS))
    if isinstance(entry, Semantic):
        held |= _supported_entities(entry)
        if entry.object is None and entry.predicate in PREDICATELESS:
            reason = "the name of a fact without a predicate"
            report.lost("predicate", reason, example=record.id)
        if _RESERVED & entry.metadata.keys() and not _is_ours(entry):
            reason = "a name reserved by Graphiti"
            report.lost("metadata", reason, example=record.id)
    elif isinstance(entry, Episodic):
        if entry.text is None and entry.observation is not None:
            held.add("observation")
        if entry.kind is not None and entry.kind not in SOURCES[:2] + SOURCES[3:]:
            held.discard("kind")
    for name in sorted(record.value.keys() - held):
        report.lost(name, _NO_FIELD, example=record.id)
    _count_scope(record, entry, report)
    origin = entry.origin
    if origin is not None and not _is_ours(entry):
        reason = "Graphiti does not record provenance"
        report.lost("origin", reason, example=record.id)


def _supported_entities(entry: Semantic) -> set[str]:
    """Return ``entities`` if an entry has one, which is its subject and has no other members."""
    if len(entry.entities) != 1 or entry.predicate is not None or entry.object is not None:
        return set()
    about = entry.entities[0]
    fits = about.entity_type is None or is_safe_label(about.entity_type)
    if fits and not about.aliases and entry.subject in (None, about.name):
        return set() if about.entity_type == NO_BODY else {"entities"}
    return set()


def _is_ours(entry: Entry) -> bool:
    return entry.origin is not None and entry.origin.provider == NAME


def _count_scope(record: Sealed, entry: Entry, report: Report) -> None:
    scope = entry.scope
    if scope is None:
        return
    if len(scope.namespace) != 1 or scope.user or scope.agent or scope.app or scope.run:
        reason = "it becomes a group; Graphiti has only groups"
        report.lost("scope", reason, example=record.id)


def count_node(record: Sealed, node: GraphNode, report: Report) -> None:
    """Count the members of a node of other origin that are not in its row."""
    for name in sorted(record.value.keys() - _OF_NODES - {"origin"}):
        report.lost(f"graph_node/{name}", _NO_FIELD, example=record.id)
    if not all(map(is_safe_label, node.labels)):
        report.lost("graph_node/labels", "not a Graphiti label", example=record.id)
    if node.origin is not None:
        reason = "Graphiti does not record provenance"
        report.lost("graph_node/origin", reason, example=record.id)


def count_others(records: RecordSet, report: Report) -> None:
    """Count the records that the format cannot hold."""
    for section, count in records.counts.items():
        kind = TYPED_SECTIONS.get(section, section)
        if kind not in _WRITTEN_TYPES:
            report.lost(kind, "Graphiti has no such records", count=count)


_KINDS = {kind: table for table, kind in LINKS.items()}
_TIME_COLUMNS = {FACTS: ("created_at",), EPISODES: ("created_at", "valid_at")}
_UUID = 36
_GROUP_CHARS = 40
_pack = msgspec.msgpack.Encoder().encode
_end = msgspec.msgpack.Decoder(resolved(GraphitiEnd)).decode


class GraphitiWriter:
    """The tables of a new graph. Close it after writing.

    Args:
        records: The records to write.
        report: Counts losses.
        then: The time for memories without one, since Graphiti requires it.
    """

    def __init__(self, records: RecordSet, report: Report, then: str) -> None:
        self._records = records
        self._report = report
        self._then = then
        self._used, self._ends, self._joined = ScratchMap(), ScratchMap(), ScratchMap()
        self._by_name, self._groups = ScratchMap(), ScratchMap()
        self._streams = SpoolStreams()
        self._rows = {table: self._streams.new_stream() for table in TABLES}
        self._counts = dict.fromkeys(TABLES, 0)

    def close(self) -> None:
        """Free the temporary space."""
        for resource in (self._used, self._ends, self._joined, self._by_name, self._groups):
            resource.close()
        self._streams.close()

    def gather(self) -> None:
        """Prepare all rows."""
        self._gather_joints()
        for record in self._records.of("graph_node"):
            self._take_node(record, cast("GraphNode", record.model))
        for record in self._records.of("episodic"):
            self._take_episode(record, cast("Episodic", record.model))
        for record in self._records.of("semantic"):
            self._take_fact(record, cast("Semantic", record.model))
        for record in self._records.of("edge"):
            self._take_link(record, cast("Edge", record.model))
        count_others(self._records, self._report)

    def has(self, table: str) -> bool:
        """Return whether a table has rows."""
        return self._counts[table] > 0

    def rows(self, table: str) -> Iterator[Row]:
        """Yield the rows of a table."""
        for line in self._rows[table].lines():
            yield msgspec.json.decode(line)

    # -- records ---------------------------------------------------------------------------

    def _gather_joints(self) -> None:
        for record in self._records.of("edge"):
            edge = cast("Edge", record.model)
            if edge.kind in (SUBJECT, OBJECT):
                self._joined.add(_joint(edge.source, edge.kind), edge.target.encode())

    def _take_node(self, record: Sealed, node: GraphNode) -> None:
        name = node.name
        if name is None:
            reason = "an entity must have a name"
            self._report.lost("graph_node", reason, example=record.id)
            return
        table, known = NODES, ""
        if node.origin is not None and node.origin.provider == NAME:
            known = node.origin.id or ""
            for thing, start in THINGS.items():
                if start and known.startswith(start):
                    table, known = thing, known.removeprefix(start)
        else:
            count_node(record, node, self._report)
            labels = tuple(filter(is_safe_label, node.labels))
            node = msgspec.structs.replace(node, labels=labels)
        identity = self._identity(record.id, known)
        row = self._with_group(row_of_node(table, node, identity), record.id)
        self._append(table, row)
        self._note_end(record.id, GraphitiEnd(identity, name, label_of(node.labels)))
        if table == NODES:
            self._by_name.add(_name_key(row.get("group_id", ""), name), record.id.encode())

    def _take_episode(self, record: Sealed, entry: Episodic) -> None:
        content = entry.observation
        if entry.text is None and content is None and entry.data is not None:
            content = msgspec.json.encode(entry.data).decode()
        if entry.text is None and content is None:
            self._report.lost("episodic", "an episode must be text", example=record.id)
            return
        count_entry(record, entry, self._report)
        identity = self._identity(record.id, _known_id(entry))
        row = row_of_episode(entry, identity, content or "")
        self._append(
            EPISODES, self._with_times(EPISODES, self._with_group(row, record.id), record, entry)
        )
        self._note_end(record.id, GraphitiEnd(identity, "", EPISODES))

    def _take_fact(self, record: Sealed, entry: Semantic) -> None:
        entry = self._with_text(record, entry)
        if entry.text is None:
            self._report.lost("semantic", "a fact must be text", example=record.id)
            return
        count_entry(record, entry, self._report)
        group = self._group(group_of(entry.scope), record.id)
        ends = (
            self._end_of(record, entry, SUBJECT, group),
            self._end_of(record, entry, OBJECT, group),
        )
        identity = self._identity(record.id, _known_id(entry))
        row = row_of_fact(entry, identity, ends, self._episodes_of(record, entry))
        self._append(
            FACTS, self._with_times(FACTS, self._with_group(row, record.id), record, entry)
        )
        self._note_end(record.id, GraphitiEnd(identity, "", FACTS))

    def _with_text(self, record: Sealed, entry: Semantic) -> Semantic:
        """Return a fact with a text; that of a triple is its three parts."""
        parts = (entry.subject, entry.predicate, entry.object)
        if entry.text is not None or None in parts:
            return entry
        reason = "a fact must be a sentence: its three parts are joined"
        self._report.lost("text", reason, example=record.id)
        return msgspec.structs.replace(entry, text=" ".join(map(str, parts)))

    def _take_link(self, record: Sealed, edge: Edge) -> None:
        if edge.kind in (SUBJECT, OBJECT) and self._written_end(edge.source) is not None:
            return
        table = _KINDS.get(edge.kind)
        ends = self._written_end(edge.source), self._written_end(edge.target)
        if edge.kind == "derives_from" and None not in ends:
            return  # it is in the fact
        if table is None or ends[0] is None or ends[1] is None:
            reason = (
                "Graphiti does not support such links"
                if table is None
                else "one of its ends is not exported"
            )
            self._report.lost("edge", reason, example=edge.kind[:_UUID])
            return
        known = edge.origin.id if edge.origin and edge.origin.provider == NAME else None
        identity = self._identity(record.id, known)
        row = row_of_link(edge, identity, (ends[0].identity, ends[1].identity))
        self._append(table, self._with_group(row, record.id))

    # -- ends of a fact --------------------------------------------------------------------

    def _end_of(self, record: Sealed, entry: Semantic, kind: str, group: str) -> GraphitiEnd | None:
        """Return an end of a fact; if it has only a name, an entity of that name is created."""
        target = self._joined.get(_joint(record.id, kind))
        end_node = None if target is None else self._written_end(target.decode())
        if end_node is not None:
            return end_node
        side = SOURCE if kind == SUBJECT else TARGET
        stored = as_written_of(entry.origin).get(side, "")
        if stored != "" and (stored == ABSENT or type(stored) is str):
            return None
        name, label = _named_end(entry, kind)
        key = _name_key(group, name, nobody=label == NO_BODY)
        known = self._by_name.get(key)
        if known is None:
            return self._generated(name, label, group, key)
        end = self._written_end(known.decode())
        if entry.entities and end is not None and end.label != label:
            reason = "another memory gives the entity of that name a different type, or none"
            self._report.lost("entities/entity_type", reason, example=record.id)
        return end

    def _generated(self, name: str, label: str | None, group: str, key: bytes) -> GraphitiEnd:
        if label is not None and not is_safe_label(label):
            reason = "a type that is not a valid Graphiti label"
            self._report.lost("entities/entity_type", reason, example=label[:_UUID])
            label = None
        row = own_node(name, label, group)
        self._append(NODES, row)
        node_end = GraphitiEnd(row["uuid"], name, label)
        self._note_end(node_end.identity, node_end)
        self._by_name.add(key, node_end.identity.encode())
        return node_end

    def _episodes_of(self, record: Sealed, entry: Semantic) -> list[str]:
        episodes = list[str]()
        for parent in entry.parent_ids:
            end = self._written_end(parent)
            if end is None or end.label != EPISODES:
                reason = "a fact can derive from episodes only"
                self._report.lost("parent_ids", reason, example=record.id)
            else:
                episodes.append(end.identity)
        return episodes

    def _note_end(self, name: str, end: GraphitiEnd) -> None:
        self._ends.add(name.encode(), _pack(end))

    def _written_end(self, name: str) -> GraphitiEnd | None:
        packed = self._ends.get(name.encode())
        return None if packed is None else _end(packed)

    # -- rows ------------------------------------------------------------------------------

    def _append(self, table: str, row: Row) -> None:
        self._rows[table].write(msgspec.json.encode(row) + b"\n")
        self._counts[table] += 1

    def _identity(self, record_id: str, known: str | None) -> str:
        """Return the ID of a row: that of its source, or one from its record."""
        if known and self._used.add(known.encode()):
            return known
        raw = bytes.fromhex(record_id.removeprefix("blake3:"))
        identity = str(UUID(bytes=raw[:16], version=5))
        self._used.add(identity.encode())
        return identity

    def _with_group(self, row: Row, example: str) -> Row:
        if "group_id" in row:
            row["group_id"] = self._group(row["group_id"], example)
        return row

    def _group(self, group: Any, example: str) -> Any:
        """Return a group name that Graphiti accepts; two groups never become one."""
        if type(group) is not str or is_safe_group(group):
            return group
        if self._groups.add(f"{group}\0{example}".encode()):
            reason = "a Graphiti group can contain only letters, digits, - and _"
            self._report.lost("scope", reason, example=group[:_GROUP_CHARS])
        plain = "".join(c if c.isascii() and c.isalnum() else "_" for c in group[:_GROUP_CHARS])
        return f"{plain}-{blake3(group.encode()).hexdigest(4)}"

    def _with_times(self, table: str, row: Row, record: Sealed, entry: Entry) -> Row:
        """Add the times that Graphiti requires to a row of other origin."""
        if entry.origin is not None and entry.origin.provider == NAME:
            return row
        for name in _TIME_COLUMNS[table]:
            if name not in row:
                known = entry.created_at or entry.occurred_at or entry.valid_from
                row[name] = time_text(known or self._then)
                if known is None:
                    reason = "Graphiti requires a time: the time of writing was used"
                    self._report.lost("created_at", reason, example=record.id)
        return row


def _known_id(entry: Entry) -> str | None:
    """Return the ID that an entry had at its source, if it is valid for Graphiti."""
    origin: Origin | None = entry.origin
    if origin is None or origin.id is None:
        return None
    if origin.provider == NAME:
        return origin.id
    try:
        is_one = len(origin.id) == _UUID and str(UUID(origin.id)) == origin.id
    except ValueError:
        return None
    return origin.id if is_one else None


def _named_end(entry: Semantic, kind: str) -> tuple[str, str | None]:
    """Return the name and type of an end of a fact."""
    about = entry.entities[0] if entry.entities else None
    name = entry.subject if kind == SUBJECT else entry.object
    if name is None and kind == SUBJECT and about is not None and entry.predicate is None:
        name = about.name
    if name is None:
        return NOBODY, NO_BODY
    types = [one.entity_type for one in entry.entities if one.name == name]
    return name, next(filter(None, types), None)


def _joint(identity: str, kind: str) -> bytes:
    return f"{identity}/{kind}".encode()


def _name_key(group: Any, name: str, *, nobody: bool = False) -> bytes:
    return msgspec.json.encode([group, name, nobody])


class Graphiti:
    """The format."""

    info: ClassVar[Info] = Info(
        title="Graphiti or Zep graph",
        suffixes=(".graphiti.json",),
        signs=Signs(
            starts=GRAPH_MAGICS,
            texts=((SOURCE.encode(),), *((b"uuid", sign) for sign in ROW_SIGNS)),
        ),
        spec="graphiti-core 0.31.2, what its nodes and edges are as JSON; Zep's API",
        checked="2026-11-22",
        traits=Traits(components=frozenset({Component.SEMANTIC, Component.EPISODIC}), exact=True),
        lost_on_writing=(
            "Procedural, working and identity memory, tags, confidence and salience, provenance,"
            " more than one entity of a memory, and what a group stands for."
        ),
    )

    def recognizes(self, location: Location) -> bool:
        return is_graphiti(location) or is_graph(json_members(location.unpacked_head))

    def read(self, location: Location, reading: ReadContext) -> Iterator[Model | Sealed]:
        reading.linked = True
        if graph_file(location) is not None:
            yield from _from_database(location, reading)
        else:
            yield from _from_json(location, reading)

    def write(self, records: RecordSet, target: Target, writing: WriteContext) -> None:
        then = (writing.header.extra or {}).get("created_at") or now()
        with closing(GraphitiWriter(records, writing.report, then)) as writer:
            writer.gather()
            if writing.vectors is not None and writing.vectors.count:
                writing.report.note(
                    "the bank's vectors are not exported: Graphiti computes its own"
                )
            with target.open() as sink:
                if writing.compress:
                    with gzip_sink(sink) as packed:
                        _write_tables(packed, writer, sole_container(records, NAME), writing.report)
                else:
                    _write_tables(sink, writer, sole_container(records, NAME), writing.report)


FORMAT = Graphiti()
"""The instance that the registry loads."""


def _from_database(location: Location, reading: ReadContext) -> Iterator[Model]:
    with (
        GraphitiGraph(reading, location.name) as graph,
        closing(tables_in(location, reading)) as rows,
    ):
        for table, row in rows:
            yield from graph.rows(table, table, [row])
        yield from graph.rest()


def _from_json(location: Location, reading: ReadContext) -> Iterator[Model]:
    arrays, around = list[str](), Row()
    with GraphitiGraph(reading, location.name) as graph:
        with location.open() as stream:
            document = reader_of(stream, location, reading)
            reading.line = lambda: document.line
            if document.peek() != "{":
                raise MalformedError(
                    "not a graph: not an object", file=location.name, line=document.line
                )
            for key in document.members():
                if key in TABLE_OF and document.peek() == "[":
                    arrays.append(key)
                    yield from graph.rows(TABLE_OF[key], key, document.values())
                else:
                    around.update(escape_keys([(key, document.value())]))
                    _require_bound(around, location, reading)
            document.end()
        reading.line = lambda: None
        yield from graph.rest()
    reading.container["arrays"] = arrays
    if around:
        reading.container["fields"] = around


def _require_bound(around: Row, location: Location, reading: ReadContext) -> None:
    bound = reading.limits.entry_bytes // 2
    if len(msgspec.json.encode(around)) > bound:
        problem = f"the data around the graph exceeds {bound} bytes"
        raise LimitError(problem, file=location.name, line=reading.line())


def _write_tables(sink: BinaryIO, writer: GraphitiWriter, container: Row, report: Report) -> None:
    """Write the tables, under their names in the source."""
    named = dict[str, str]()
    for name in container.get("arrays", []):
        if name in TABLE_OF:
            named.setdefault(TABLE_OF[name], name)
    required = named.keys() if named else ALWAYS
    tables = [*named, *(table_name for table_name in TABLES if table_name not in named)]
    sink.write(b"{")
    first = True
    for table in tables:
        if table not in required and not writer.has(table):
            continue
        sink.writelines((b"" if first else b",", b"\n", _json(named.get(table, table), report)))
        sink.write(b": [")
        for index, row in enumerate(writer.rows(table)):
            sink.writelines((b",\n" if index else b"\n", _json(row, report)))
        sink.write(b"]")
        first = False
    for name, part in container.get("fields", {}).items():
        if name not in TABLE_OF:
            sink.writelines((b",\n", _json({name: part}, report)[1:-1]))
    sink.write(b"\n}\n")


def _json(value: Any, report: Report) -> bytes:
    return as_json(value, report)
