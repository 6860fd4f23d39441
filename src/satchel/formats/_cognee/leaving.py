"""A COGX archive that is being made of records: its files are laid out on disk, kind by kind."""

from typing import Any, BinaryIO, cast

import msgspec

from satchel.disk.databases.keyed import Keyed
from satchel.disk.spool import Spool, Strand, Strands
from satchel.formats._cognee.archive import put_end, put_file
from satchel.formats._cognee.document import OBJECT, REFS, SUBJECT
from satchel.formats._cognee.episodes import has_turns, row_of_start, row_of_turn
from satchel.formats._cognee.rows import is_raw, kept_of, row_of_entry, row_of_node
from satchel.formats._cognee.shape import (
    BLOCK,
    DOCUMENT,
    ENTITY,
    EPISODE,
    FACT,
    FILES,
    MANIFEST,
    MEMORY,
    NAME,
    RAW,
    VERSION,
    Row,
)
from satchel.formats._json import as_json
from satchel.formats._order import in_order
from satchel.memory.entries import Entry, Identity, Semantic
from satchel.memory.records import Edge, GraphNode, SessionEvent
from satchel.ports.records import RecordSet
from satchel.ports.report import Report
from satchel.seal.artifact.sections import TYPED_SECTIONS
from satchel.seal.records import Sealed

_COMMON = frozenset({"id", "nonce", "type", "kind", "text", "origin", "created_at", "updated_at"})
_HELD = _COMMON | {"metadata", "scope"}
_OF_KINDS = {
    MEMORY: {"tags"},
    FACT: {"subject", "predicate", "object", "valid_from", "valid_until", "confidence"},
}
_OF_NODES = frozenset({"id", "nonce", "type", "name", "labels", "summary", "properties", "origin"})
_NO_FIELD = "COGX has no such field"
_TAKEN = frozenset(
    {"semantic", "episodic", "identity", "graph_node", "edge", "session_event", "source", "receipt"}
)


_BREAKS = (("\x85", "\\u0085"), ("\u2028", "\\u2028"), ("\u2029", "\\u2029"))
"""Line ends to Python, though not to JSON."""


class Leaving:
    """The files of an archive. Close it when it is written.

    Args:
        records: What goes into it.
        report: Where losses go.
        container: What was around the records, where all are of one archive.
    """

    def __init__(self, records: RecordSet, report: Report, container: Row) -> None:
        self._records = records
        self._container = container
        self._report = report
        self._files = {kind: Spool() for kind in FILES}
        self._counts = dict.fromkeys(FILES, 0)
        self._joined, self._refs = Keyed(), Keyed()
        self._turns = Strands()

    def close(self) -> None:
        """Give the space back."""
        for file in self._files.values():
            file.close()
        self._joined.close()
        self._refs.close()
        self._turns.close()

    def gather(self) -> None:
        """Lay all files out."""
        for record in self._records.of("edge"):
            edge = cast("Edge", record.model)
            if edge.kind in REFS:
                self._joined.add(f"{edge.source}/{edge.kind}".encode(), edge.target.encode())
        for record in self._records.of("graph_node"):
            self._take_node(record, cast("GraphNode", record.model))
        for record in in_order(self._records, self._container):
            if record.type in _TAKEN:
                self._take_entry(record, cast("Entry", record.model))
        for record in self._records.of("edge"):
            edge = cast("Edge", record.model)
            if edge.kind not in REFS or self._refs.get(edge.source.encode()) is None:
                reason = "no link between a fact and its subject"
                self._report.lost("edge", reason, example=edge.kind[:80])
        self._take_conversations()
        for section, count in self._records.counts.items():
            kind = TYPED_SECTIONS.get(section, section)
            if kind not in _TAKEN:
                self._report.lost(kind, "COGX has no such records", count=count)

    def write(self, sink: BinaryIO, manifest: Row) -> None:
        """Write the archive: the manifest, then what there is of each kind."""
        counts = {kind: count for kind, count in self._counts.items() if count}
        whole = {"cogx_version": VERSION, "source_system": NAME, **manifest, "counts": counts}
        text = as_json(whole, self._report, indent=2)
        put_file(sink, MANIFEST, len(text), iter((text,)))
        for kind, file in FILES.items():
            if self._counts[kind]:
                put_file(sink, file, self._files[kind].size, self._files[kind].chunks())
        put_end(sink)

    # -- records ---------------------------------------------------------------------------

    def _take_node(self, record: Sealed, node: GraphNode) -> None:
        known = _known_id(node)
        if is_raw(node):
            self._put(RAW, row_of_node(node, ""))
            self._refs.add(record.id.encode(), known.removeprefix(f"{RAW}:").encode())
            return
        if node.name is None:
            self._report.lost("graph_node", "an entity must have a name", example=record.id)
            return
        if not kept_of(node.origin) and (node.origin is None or node.origin.provider != NAME):
            self._count_node(record, node)
        identity = known or record.id
        self._put(ENTITY, row_of_node(node, identity))
        self._refs.add(record.id.encode(), identity.encode())

    def _count_node(self, record: Sealed, node: GraphNode) -> None:
        for name in sorted(record.value.keys() - _OF_NODES - {"scope", "metadata"}):
            self._report.lost(f"graph_node/{name}", _NO_FIELD, example=record.id)
        if len(node.labels) > 1:
            self._report.lost(
                "graph_node/labels", "an entity can have one type only", example=record.id
            )
        self._count_origin(record, "graph_node/origin")

    def _take_entry(self, record: Sealed, entry: Entry) -> None:
        kind = _kind_of(entry)
        if kind is None or (kind != FACT and entry.text is None):
            self._report.lost(record.type, "neither text nor a complete fact", example=record.id)
            return
        if record.type == "episodic":
            self._report.lost(record.type, "it becomes a plain memory", example=record.id)
        self._count_lost(record, entry, kind)
        identity = _known_id(entry) or record.id
        row = row_of_entry(kind, entry, identity)
        if kind == FACT and isinstance(entry, Semantic):
            row = self._with_refs(record, entry, row)
        self._put(kind, row)
        self._refs.add(record.id.encode(), identity.encode())

    def _with_refs(self, record: Sealed, entry: Semantic, row: Row) -> Row:
        kept = kept_of(entry.origin)
        for side, name in ((SUBJECT, entry.subject), (OBJECT, entry.object)):
            target = self._joined.get(f"{record.id}/{side}".encode())
            found = None if target is None else self._refs.get(target)
            ref = kept.get(REFS[side])
            if found is not None:
                row[REFS[side]] = found.decode()
            elif type(ref) is not str:
                row[REFS[side]] = name
        return row

    def _count_lost(self, record: Sealed, entry: Entry, kind: str) -> None:
        held = _HELD | _OF_KINDS.get(kind, set())
        for name in sorted(record.value.keys() - held):
            self._report.lost(name, _NO_FIELD, example=record.id)
        if entry.kind not in (None, kind):
            self._report.lost("kind", _NO_FIELD, example=record.id)
        scope = entry.scope
        if scope is not None and (scope.namespace or scope.app is not None):
            self._report.lost("scope", _NO_FIELD, example=record.id)
        self._count_origin(record, "origin")

    def _count_origin(self, record: Sealed, name: str) -> None:
        origin = record.value.get("origin", {"provider": NAME})
        if origin.get("provider") != NAME:
            reason = "COGX stores only the product and its ID"
            self._report.lost(name, reason, example=record.id)

    def _take_conversations(self) -> None:
        """Write each conversation as an episode, its turns in their order."""
        starts, turns = dict[str, SessionEvent](), dict[str, Strand]()
        names = dict[str, str]()
        for record in self._records.of("session_event"):
            event = cast("SessionEvent", record.model)
            if event.event == "session":
                known = (event.origin.id if event.origin else None) or record.id
                names[record.id] = known
                starts[known] = event
            elif event.event == "message" and event.session is not None and event.role:
                whose = names.get(event.session, event.session)
                if whose not in turns:
                    turns[whose] = self._turns.strand()
                turns[whose].write(msgspec.json.encode(row_of_turn(event)) + b"\n")
                self._count_turn(record, event)
            else:
                reason = "COGX stores only the messages of a conversation"
                self._report.lost("session_event", reason, example=record.id)
        for name in {**starts, **turns}:
            start, identity = starts.get(name), name.removeprefix(f"{EPISODE}:")
            row = row_of_start(start, identity)
            if has_turns(start):
                found = turns[name].lines() if name in turns else ()
                row["turns"] = [msgspec.json.decode(line) for line in found]
            self._put(EPISODE, row)

    def _count_turn(self, record: Sealed, event: SessionEvent) -> None:
        if event.origin is not None and event.origin.provider == NAME:
            return
        for name in ("content", "state", "scope", "parent"):
            if getattr(event, name) is not None:
                self._report.lost(f"session_event/{name}", _NO_FIELD, example=record.id)
        if event.text is None:
            reason = "a turn must be text"
            self._report.lost("session_event/text", reason, example=record.id)

    def _put(self, kind: str, row: Row) -> None:
        self._files[kind].write(_json(row, self._report) + b"\n")
        self._counts[kind] += 1


def _kind_of(entry: Entry) -> str | None:
    """Return what an entry becomes; None where it can be nothing."""
    if isinstance(entry, Identity):
        return BLOCK
    if isinstance(entry, Semantic):
        whole = None not in (entry.subject, entry.predicate, entry.object)
        is_ours = entry.origin is not None and entry.origin.provider == NAME
        if is_ours and entry.kind in (DOCUMENT, BLOCK):
            return entry.kind
        return FACT if whole else MEMORY
    return MEMORY


def _known_id(record: Entry | GraphNode) -> str:
    origin = record.origin
    return (origin.id if origin is not None else None) or ""


def _json(value: Any, report: Report) -> bytes:
    text = as_json(value, report, compact=True).decode()
    for sign, escaped in _BREAKS:
        text = text.replace(sign, escaped)
    return text.encode()
