"""A graph that is being made of records: its rows are laid out on disk, table by table."""

from collections.abc import Iterator
from typing import Any, cast
from uuid import UUID

import msgspec
from blake3 import blake3

from satchel.disk.databases.keyed import Keyed
from satchel.disk.spool import Strands
from satchel.formats._graphiti.counting import (
    count_entry,
    count_node,
    count_others,
)
from satchel.formats._graphiti.document import OBJECT, SUBJECT
from satchel.formats._graphiti.nodes import label_of, own_node, row_of_link, row_of_node
from satchel.formats._graphiti.rows import (
    NO_BODY,
    NOBODY,
    End,
    group_of,
    kept_of,
    row_of_episode,
    row_of_fact,
    time_text,
)
from satchel.formats._graphiti.shape import (
    EPISODES,
    FACTS,
    LINKS,
    NAME,
    NODES,
    SOURCE,
    TABLES,
    TARGET,
    THINGS,
    Row,
    is_safe_group,
    is_safe_label,
)
from satchel.memory.entries import Entry, Episodic, Semantic
from satchel.memory.parts import Origin
from satchel.memory.records import Edge, GraphNode
from satchel.ports.records import RecordSet
from satchel.ports.report import Report
from satchel.seal.encoding.carry import ABSENT
from satchel.seal.records import Sealed
from satchel.type_info import resolved

_KINDS = {kind: table for table, kind in LINKS.items()}
_TIMES = {FACTS: ("created_at",), EPISODES: ("created_at", "valid_at")}
_UUID = 36
_GROUP_CHARS = 40
_pack = msgspec.msgpack.Encoder().encode
_end = msgspec.msgpack.Decoder(resolved(End)).decode


class Leaving:
    """The tables of a graph. Close it when the file is written.

    Args:
        records: What goes into it.
        report: Where losses go.
        then: The time that stands where a memory has none, as Graphiti wants one.
    """

    def __init__(self, records: RecordSet, report: Report, then: str) -> None:
        self._records = records
        self._report = report
        self._then = then
        self._used, self._ends, self._joined = Keyed(), Keyed(), Keyed()
        self._by_name, self._groups = Keyed(), Keyed()
        self._strands = Strands()
        self._rows = {table: self._strands.strand() for table in TABLES}
        self._counts = dict.fromkeys(TABLES, 0)

    def close(self) -> None:
        """Give the space back."""
        for one in (self._used, self._ends, self._joined, self._by_name, self._groups):
            one.close()
        self._strands.close()

    def gather(self) -> None:
        """Lay all rows out."""
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
        """Tell whether there are rows of a table."""
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
        row = self._grouped(row_of_node(table, node, identity), record.id)
        self._put(table, row)
        self._note_end(record.id, End(identity, name, label_of(node.labels)))
        if table == NODES:
            self._by_name.add(_named(row.get("group_id", ""), name), record.id.encode())

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
        self._put(EPISODES, self._timed(EPISODES, self._grouped(row, record.id), record, entry))
        self._note_end(record.id, End(identity, "", EPISODES))

    def _take_fact(self, record: Sealed, entry: Semantic) -> None:
        entry = self._worded(record, entry)
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
        self._put(FACTS, self._timed(FACTS, self._grouped(row, record.id), record, entry))
        self._note_end(record.id, End(identity, "", FACTS))

    def _worded(self, record: Sealed, entry: Semantic) -> Semantic:
        """Return a fact that has words; those of a triple are its three parts."""
        parts = (entry.subject, entry.predicate, entry.object)
        if entry.text is not None or None in parts:
            return entry
        reason = "a fact must be a sentence: its three parts are joined"
        self._report.lost("text", reason, example=record.id)
        return msgspec.structs.replace(entry, text=" ".join(map(str, parts)))

    def _take_link(self, record: Sealed, edge: Edge) -> None:
        if edge.kind in (SUBJECT, OBJECT) and self._found(edge.source) is not None:
            return
        table = _KINDS.get(edge.kind)
        ends = self._found(edge.source), self._found(edge.target)
        if edge.kind == "derives_from" and None not in ends:
            return  # the fact says it
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
        self._put(table, self._grouped(row, record.id))

    # -- what a fact joins -----------------------------------------------------------------

    def _end_of(self, record: Sealed, entry: Semantic, kind: str, group: str) -> End | None:
        """Return what a fact joins; where nobody says it, an entity of that name is made."""
        target = self._joined.get(_joint(record.id, kind))
        found = None if target is None else self._found(target.decode())
        if found is not None:
            return found
        side = SOURCE if kind == SUBJECT else TARGET
        kept = kept_of(entry.origin).get(side, "")
        if kept != "" and (kept == ABSENT or type(kept) is str):
            return None
        name, label = _named_end(entry, kind)
        key = _named(group, name, nobody=label == NO_BODY)
        known = self._by_name.get(key)
        if known is None:
            return self._made(name, label, group, key)
        end = self._found(known.decode())
        if entry.entities and end is not None and end.label != label:
            reason = "another memory gives the entity of that name a different type, or none"
            self._report.lost("entities/entity_type", reason, example=record.id)
        return end

    def _made(self, name: str, label: str | None, group: str, key: bytes) -> End:
        if label is not None and not is_safe_label(label):
            reason = "a type that is not a valid Graphiti label"
            self._report.lost("entities/entity_type", reason, example=label[:_UUID])
            label = None
        row = own_node(name, label, group)
        self._put(NODES, row)
        made = End(row["uuid"], name, label)
        self._note_end(made.identity, made)
        self._by_name.add(key, made.identity.encode())
        return made

    def _episodes_of(self, record: Sealed, entry: Semantic) -> list[str]:
        found = list[str]()
        for parent in entry.parent_ids:
            end = self._found(parent)
            if end is None or end.label != EPISODES:
                reason = "a fact can derive from episodes only"
                self._report.lost("parent_ids", reason, example=record.id)
            else:
                found.append(end.identity)
        return found

    def _note_end(self, name: str, end: End) -> None:
        self._ends.add(name.encode(), _pack(end))

    def _found(self, name: str) -> End | None:
        found = self._ends.get(name.encode())
        return None if found is None else _end(found)

    # -- rows ------------------------------------------------------------------------------

    def _put(self, table: str, row: Row) -> None:
        self._rows[table].write(msgspec.json.encode(row) + b"\n")
        self._counts[table] += 1

    def _identity(self, record_id: str, known: str | None) -> str:
        """Return what a row is called: as where it came from, or by its record."""
        if known and self._used.add(known.encode()):
            return known
        raw = bytes.fromhex(record_id.removeprefix("blake3:"))
        made = str(UUID(bytes=raw[:16], version=5))
        self._used.add(made.encode())
        return made

    def _grouped(self, row: Row, example: str) -> Row:
        if "group_id" in row:
            row["group_id"] = self._group(row["group_id"], example)
        return row

    def _group(self, group: Any, example: str) -> Any:
        """Return a group that Graphiti takes; two groups never become one."""
        if type(group) is not str or is_safe_group(group):
            return group
        if self._groups.add(f"{group}\0{example}".encode()):
            reason = "a Graphiti group can contain only letters, digits, - and _"
            self._report.lost("scope", reason, example=group[:_GROUP_CHARS])
        plain = "".join(c if c.isascii() and c.isalnum() else "_" for c in group[:_GROUP_CHARS])
        return f"{plain}-{blake3(group.encode()).hexdigest(4)}"

    def _timed(self, table: str, row: Row, record: Sealed, entry: Entry) -> Row:
        """Give a row the times that Graphiti wants, where it is not from there."""
        if entry.origin is not None and entry.origin.provider == NAME:
            return row
        for name in _TIMES[table]:
            if name not in row:
                known = entry.created_at or entry.occurred_at or entry.valid_from
                row[name] = time_text(known or self._then)
                if known is None:
                    reason = "Graphiti requires a time: the time of writing was used"
                    self._report.lost("created_at", reason, example=record.id)
        return row


def _known_id(entry: Entry) -> str | None:
    """Return an id that an entry had elsewhere, where it can be one of Graphiti's."""
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
    """Return the name of what a fact joins, and its type."""
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


def _named(group: Any, name: str, *, nobody: bool = False) -> bytes:
    return msgspec.json.encode([group, name, nobody])
