"""COGX archives of Cognee: a tar archive, which it sends and accepts, or a folder.

Memories, documents, core-memory blocks and facts are entries, entities and raw nodes are nodes,
episodes are conversations. The writer produces a tar archive, ``NAME.cogx.tar.gz``; unpacked, it is
the folder that Cognee's ``COGXArchiveSource`` reads. Permissions (``permissions.json``, with
password hashes) are not read. Compared with cognee 1.6.5, COGX 0.1.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from typing import Any, BinaryIO, ClassVar, cast

import msgspec

from satchel.artifact.body import TYPED_SECTIONS
from satchel.artifact.encodings import gzip_sink
from satchel.crypto.sealed_records import Sealed
from satchel.errors import EmptyInputError, InputError, MalformedError
from satchel.formats._archive import ZIP_MAGIC
from satchel.formats._cognee import (
    BLOCK,
    DOCUMENT,
    ENTITY,
    EPISODE,
    FACT,
    FILES,
    KINDS,
    MANIFEST,
    MEMORY,
    NAME,
    PERMISSIONS,
    RAW,
    VERSION,
    Chunks,
    Row,
    as_written_of,
    entry_of,
    events_of,
    files_in,
    has_turns,
    is_archive,
    is_raw,
    node_of,
    put_end,
    put_file,
    require_version,
    row_of_entry,
    row_of_node,
    row_of_start,
    row_of_turn,
)
from satchel.formats._json import Decompressor, LineReader, as_json, json_object, text_in
from satchel.formats._row_lists import Order, in_order, sole_container
from satchel.model.records import Edge, Entry, GraphNode, Identity, Model, Semantic, SessionEvent
from satchel.model.values import Component, Origin, TrustClass, resolved
from satchel.ports.drafts import placeholder
from satchel.ports.format import Info, Location, ReadContext, Signs, Target, Traits, WriteContext
from satchel.ports.record_set import RecordSet, Report
from satchel.runtime.scratch import ScratchMap, Spool, SpoolStream, SpoolStreams

SUBJECT, OBJECT = "subject", "object"
"""The kinds of the links from a fact to its ends."""

REFS = {SUBJECT: "subject_ref", OBJECT: "object_ref"}
"""The members of a fact for each end."""

_Known = tuple[str, str | None]
_SHOWN_CHARS = 80
_pack, _known = msgspec.msgpack.encode, msgspec.msgpack.Decoder(resolved(_Known)).decode


class CogneeArchive:
    """An archive that is being read.

    Args:
        location: The archive.
        reading: The limits and the report.
    """

    def __init__(self, location: Location, reading: ReadContext) -> None:
        self._location = location
        self._reading = reading
        self._names, self._facts = ScratchMap(), Spool()
        self._order, self._count = Order(), 0
        self._manifest: Row | None = None

    def records(self) -> Iterator[Model]:
        """Yield its records; a record comes before those that refer to it.

        Raises:
            InputError: If it is not such an archive, or a row is bad.
        """
        self._reading.linked = True
        with closing(self._names), closing(self._facts):
            for path, chunks in self._files():
                name = path.rpartition("/")[2]
                if name == MANIFEST:
                    self._take_manifest(chunks)
                elif name in KINDS:
                    yield from self._rows(KINDS[name], path, chunks)
                elif name == PERMISSIONS:
                    reason = "users and password hashes are not exported"
                    self._reading.report.lost(PERMISSIONS, reason)
                else:
                    self._reading.report.lost(path[:_SHOWN_CHARS], "an unexpected file")
            self._require_whole()
            for where, line, row in self._waiting_facts():
                with self._refusing(where, line):
                    fact = self._fact(row)
                    self._order.add(fact)
                    yield fact
            self._order.store(self._reading)
            for where, line, row in self._waiting_facts():
                with self._refusing(where, line):
                    yield from self._joints(row)

    def _files(self) -> Iterator[tuple[str, Chunks]]:
        try:
            yield from files_in(self._location, self._reading)
        except InputError as error:
            raise error.located(file=self._location.name) from None

    def _take_manifest(self, chunks: Chunks) -> None:
        lines, whole = LineReader(cast("Decompressor", chunks)), list[bytes]()
        bound = self._reading.limits.entry_bytes // 2
        while (line := lines.next(bound)) is not None and sum(map(len, whole)) <= bound:
            whole.append(line)
        try:
            self._manifest = json_object(b"\n".join(whole), bound)
            require_version(self._manifest, any_version=self._reading.any_version)
        except InputError as error:
            error.field = error.field or MANIFEST
            raise error.located(file=self._location.name) from None
        self._reading.container["manifest"] = self._manifest

    def _require_whole(self) -> None:
        if self._manifest is None:
            problem = f"not a COGX archive: `{MANIFEST}` is missing"
            raise MalformedError(problem, file=self._location.name, field=MANIFEST)
        if not self._count:
            raise EmptyInputError("the archive contains no memories", file=self._location.name)
        counts = self._manifest.get("counts")
        values = counts.values() if isinstance(counts, dict) else ()
        declared = sum(one for one in values if type(one) is int)
        if declared > self._count:
            self._reading.missing = declared - self._count

    # -- rows ------------------------------------------------------------------------------

    def _rows(self, kind: str, where: str, chunks: Chunks) -> Iterator[Model]:
        lines = LineReader(cast("Decompressor", chunks))
        bound = self._reading.limits.line_bytes
        while True:
            with self._refusing(where, lambda: lines.number):
                line = lines.next(bound)
                if line is None:
                    return
                self._count += 1
                yield from self._row(kind, where, lines.number, json_object(line, bound))
            if lines.broken:
                return

    def _row(self, kind: str, where: str, number: int, row: Row) -> Iterable[Model]:
        if kind == FACT:
            for name in ("external_id", "predicate", *REFS.values()):
                text_in(row, name)
            self._facts.write(msgspec.json.encode([where, number, row]) + b"\n")
            return ()
        if kind == EPISODE:
            return list(events_of(row))
        if kind in (ENTITY, RAW):
            node = node_of(kind, row)
            identity = text_in(row, "id" if kind == RAW else "external_id")
            self._names.add(identity.encode(), _pack((_placeholder(node), node.name)))
            return (node,)
        entry = entry_of(kind, row)
        self._order.add(entry)
        return (entry,)

    def _waiting_facts(self) -> Iterator[tuple[str, Callable[[], int], Row]]:
        for packed in self._facts.lines():
            where, number, row = msgspec.json.decode(packed)
            yield where, lambda number=number: number, row  # type: ignore[misc]

    def _node_of_ref(self, row: Row, side: str) -> _Known:
        packed = self._names.get(row[REFS[side]].encode())
        return ("", row[REFS[side]]) if packed is None else _known(packed)

    def _fact(self, row: Row) -> Entry:
        return entry_of(
            FACT, row, (self._node_of_ref(row, SUBJECT)[1], self._node_of_ref(row, OBJECT)[1])
        )

    def _joints(self, row: Row) -> Iterator[Edge]:
        fact = self._fact(row)
        assert isinstance(fact, Semantic)  # noqa: S101 - all facts are
        for side in REFS:
            standing, _ = self._node_of_ref(row, side)
            if standing:
                name = f"{row['external_id']}/{side}"
                origin = Origin(provider=NAME, id=name, trust=TrustClass.IMPORTED)
                yield Edge(source=_placeholder(fact), target=standing, kind=side, origin=origin)

    @contextmanager
    def _refusing(self, where: str, line: Callable[[], int]) -> Iterator[None]:
        try:
            yield
        except InputError as error:
            error.line, error.byte = line(), None
            self._reading.refuse(error.within(where).located(file=self._location.name))


def _placeholder(record: GraphNode | Semantic) -> str:
    assert record.origin is not None  # noqa: S101 - each record that is read has one
    return placeholder(str(record.__struct_config__.tag), record.scope, record.origin)


_COMMON = frozenset({"id", "nonce", "type", "kind", "text", "origin", "created_at", "updated_at"})
_SUPPORTED = _COMMON | {"metadata", "scope"}
_OF_KINDS = {
    MEMORY: {"tags"},
    FACT: {"subject", "predicate", "object", "valid_from", "valid_until", "confidence"},
}
_OF_NODES = frozenset({"id", "nonce", "type", "name", "labels", "summary", "properties", "origin"})
_NO_FIELD = "COGX has no such field"
_WRITTEN_TYPES = frozenset(
    {"semantic", "episodic", "identity", "graph_node", "edge", "session_event", "source", "receipt"}
)


_BREAKS = (("\x85", "\\u0085"), ("\u2028", "\\u2028"), ("\u2029", "\\u2029"))
"""Characters that are line ends in Python, but not in JSON."""


class CogneeWriter:
    """The files of a new archive. Close it after writing.

    Args:
        records: The records to write.
        report: Counts losses.
        container: The members around the records, if all are from one archive.
    """

    def __init__(self, records: RecordSet, report: Report, container: Row) -> None:
        self._records = records
        self._container = container
        self._report = report
        self._files = {kind: Spool() for kind in FILES}
        self._counts = dict.fromkeys(FILES, 0)
        self._joined, self._refs = ScratchMap(), ScratchMap()
        self._turns = SpoolStreams()

    def close(self) -> None:
        """Free the temporary space."""
        for file in self._files.values():
            file.close()
        self._joined.close()
        self._refs.close()
        self._turns.close()

    def gather(self) -> None:
        """Prepare all files."""
        for record in self._records.of("edge"):
            edge = cast("Edge", record.model)
            if edge.kind in REFS:
                self._joined.add(f"{edge.source}/{edge.kind}".encode(), edge.target.encode())
        for record in self._records.of("graph_node"):
            self._take_node(record, cast("GraphNode", record.model))
        for record in in_order(self._records, self._container):
            if record.type in _WRITTEN_TYPES:
                self._take_entry(record, cast("Entry", record.model))
        for record in self._records.of("edge"):
            edge = cast("Edge", record.model)
            if edge.kind not in REFS or self._refs.get(edge.source.encode()) is None:
                reason = "no link between a fact and its subject"
                self._report.lost("edge", reason, example=edge.kind[:80])
        self._take_conversations()
        for section, count in self._records.counts.items():
            kind = TYPED_SECTIONS.get(section, section)
            if kind not in _WRITTEN_TYPES:
                self._report.lost(kind, "COGX has no such records", count=count)

    def write(self, sink: BinaryIO, manifest: Row) -> None:
        """Write the archive: the manifest, then the rows of each kind."""
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
            self._append(RAW, row_of_node(node, ""))
            self._refs.add(record.id.encode(), known.removeprefix(f"{RAW}:").encode())
            return
        if node.name is None:
            self._report.lost("graph_node", "an entity must have a name", example=record.id)
            return
        if not as_written_of(node.origin) and (node.origin is None or node.origin.provider != NAME):
            self._count_node(record, node)
        identity = known or record.id
        self._append(ENTITY, row_of_node(node, identity))
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
        self._append(kind, row)
        self._refs.add(record.id.encode(), identity.encode())

    def _with_refs(self, record: Sealed, entry: Semantic, row: Row) -> Row:
        as_written = as_written_of(entry.origin)
        for side, name in ((SUBJECT, entry.subject), (OBJECT, entry.object)):
            target = self._joined.get(f"{record.id}/{side}".encode())
            joined = None if target is None else self._refs.get(target)
            ref = as_written.get(REFS[side])
            if joined is not None:
                row[REFS[side]] = joined.decode()
            elif type(ref) is not str:
                row[REFS[side]] = name
        return row

    def _count_lost(self, record: Sealed, entry: Entry, kind: str) -> None:
        held = _SUPPORTED | _OF_KINDS.get(kind, set())
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
        """Write each conversation as an episode, with its turns in order."""
        starts, turns = dict[str, SessionEvent](), dict[str, SpoolStream]()
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
                    turns[whose] = self._turns.new_stream()
                turns[whose].write(msgspec.json.encode(row_of_turn(event)) + b"\n")
                self._count_turn(record, event)
            else:
                reason = "COGX stores only the messages of a conversation"
                self._report.lost("session_event", reason, example=record.id)
        for name in {**starts, **turns}:
            start, identity = starts.get(name), name.removeprefix(f"{EPISODE}:")
            row = row_of_start(start, identity)
            if has_turns(start):
                rows = turns[name].lines() if name in turns else ()
                row["turns"] = [msgspec.json.decode(line) for line in rows]
            self._append(EPISODE, row)

    def _count_turn(self, record: Sealed, event: SessionEvent) -> None:
        if event.origin is not None and event.origin.provider == NAME:
            return
        for name in ("content", "state", "scope", "parent"):
            if getattr(event, name) is not None:
                self._report.lost(f"session_event/{name}", _NO_FIELD, example=record.id)
        if event.text is None:
            reason = "a turn must be text"
            self._report.lost("session_event/text", reason, example=record.id)

    def _append(self, kind: str, row: Row) -> None:
        self._files[kind].write(_json(row, self._report) + b"\n")
        self._counts[kind] += 1


def _kind_of(entry: Entry) -> str | None:
    """Return the kind of row of an entry; None if there is none."""
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


class Cognee:
    """The format."""

    info: ClassVar[Info] = Info(
        title="Cognee archive (COGX)",
        suffixes=(".cogx.tar",),
        signs=Signs(starts=(ZIP_MAGIC,), texts=((b"ustar",),)),
        spec="COGX 0.1, cognee 1.6.5",
        checked="2026-11-22",
        traits=Traits(
            components=frozenset({Component.SEMANTIC, Component.IDENTITY}),
            exact=True,
            ordered=False,
        ),
        lost_on_writing=(
            "Procedural and working memory, salience, expiry, links of memories other than facts,"
            " tags of facts, and everything in a conversation but its messages. Episodic memory"
            " becomes plain."
        ),
    )

    def recognizes(self, location: Location) -> bool:
        return is_archive(location)

    def read(self, location: Location, reading: ReadContext) -> Iterator[Model | Sealed]:
        yield from CogneeArchive(location, reading).records()

    def write(self, records: RecordSet, target: Target, writing: WriteContext) -> None:
        container = _container(records)
        with closing(CogneeWriter(records, writing.report, container)) as writer:
            writer.gather()
            with target.open() as sink:
                if writing.compress:
                    with gzip_sink(sink) as packed:
                        _write_archive(packed, writer, container, writing)
                else:
                    _write_archive(sink, writer, container, writing)


FORMAT = Cognee()
"""The instance that the registry loads."""


def _write_archive(
    sink: BinaryIO, writer: CogneeWriter, container: Row, writing: WriteContext
) -> None:
    manifest = container.get("manifest", {})
    made = (writing.header.extra or {}).get("created_at")
    if made is not None and "exported_at" not in manifest:
        manifest = {**manifest, "exported_at": made}
    writer.write(sink, manifest)


def _container(records: RecordSet) -> Row:
    """Return the members around the records, if all came from one archive."""
    container = sole_container(records, NAME)
    return container if isinstance(container.get("manifest", {}), dict) else {}
