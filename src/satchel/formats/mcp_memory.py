"""The file of the MCP memory server, ``memory.jsonl``, and the result of its ``read_graph``.

An observation becomes a semantic entry about its entity; a relation becomes a triple without a
text; an entity without observations becomes a fact about its type. The server has no IDs and no
times, and identifies things by their contents. Unknown members of a line are stored and written
again, though the server deletes them on its next write. The output is compact, entities first,
without a line feed at the end, as the server's. Compared with @modelcontextprotocol/server-memory
2026.8.31.
"""

import os
import struct
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, cast

import msgspec
from blake3 import blake3

from satchel.artifact.body import TYPED_SECTIONS
from satchel.artifact.encodings import GZIP_MAGIC, gzip_sink
from satchel.crypto.canonical import escape_keys
from satchel.crypto.json_reader import ForeignReader, float_spellings
from satchel.crypto.sealed_records import Sealed
from satchel.errors import EmptyInputError, InputError, LockedError, MalformedError
from satchel.formats._json import (
    Decompressor,
    LineReader,
    as_json,
    json_members,
    json_object,
    parse_rows,
    text_in,
)
from satchel.formats._row_lists import sole_container
from satchel.model.records import Entry, Model, Semantic
from satchel.model.values import Component, Entity, Origin, TrustClass
from satchel.ports.format import (
    HEAD_BYTES,
    Info,
    Location,
    ReadContext,
    Signs,
    Target,
    Traits,
    WriteContext,
)
from satchel.ports.record_set import RecordSet, Report
from satchel.runtime.scratch import ScratchMap

NAME = "mcp_memory"
"""The format, and the provider in the origin of its entries."""

ENTITY, OBSERVATION, RELATION = "entity", "observation", "relation"
"""The kinds of its entries."""

NOBODY, NOTHING = "memory", "memory"
"""The placeholder entity for memories without one, and its type."""

_IS_A = "is a"
_OF_AN_ENTITY = ("name", "entityType", "observations")
_OF_A_RELATION = ("from", "relationType", "to")
_NO_FIELD = "the server has no such field"
_ALWAYS = frozenset({"id", "nonce", "type", "kind", "origin", "text"})
_TRIPLE = frozenset({"subject", "predicate", "object"})
_NUMBER = struct.Struct(">QQ")
_pack, _unpack = msgspec.json.encode, msgspec.json.Decoder().decode

Row = dict[str, Any]
"""An object of a file, without its ``type``."""


class Types:
    """Distinguishes entities of the same name by type; on disk if there are many."""

    def __init__(self) -> None:
        self._first = ScratchMap()

    def close(self) -> None:
        """Free the temporary space."""
        self._first.close()

    def entries_of(self, row: Row) -> Iterator[Semantic]:
        """Yield the entries of an entity, as ``entries_of``; the second type of a name is noted."""
        name, kind = row.get("name"), row.get("entityType")
        if type(name) is not str:
            yield from entries_of(row)
            return
        packed = _pack(kind if type(kind) is str else None)
        first = self._first.get(name.encode())
        if first is None:
            self._first.put(name.encode(), packed)
        yield from entries_of(row, is_second=first not in (None, packed))


def entries_of(row: Row, *, is_second: bool = False) -> Iterator[Semantic]:
    """Yield the entries of an entity: one for each observation, and the entity if necessary.

    Its type is part of its identity if another entity has the same name.

    The entity has its own entry if it has no observations, or if the file has other members than
    its name and type. Files that were written by hand, or by older servers, may lack the type or
    the observations.

    Raises:
        MalformedError: If it has no name, or its type or observations are not texts.
    """
    name, kind = text_in(row, "name"), row.get("entityType")
    if kind is not None:
        kind = text_in(row, "entityType")
    observations = row.get("observations")
    observations = [] if observations is None else observations
    if type(observations) is not list or not all(type(one) is str for one in observations):
        raise MalformedError("`observations` is not a list of texts", field="observations")
    about = (Entity(name=name, entity_type=kind),)
    apart = ("type", kind or "") if is_second else ()
    as_written = {key: part for key, part in row.items() if key not in _OF_AN_ENTITY}
    if as_written or not observations:
        yield Semantic(
            kind=ENTITY,
            subject=name,
            predicate=_IS_A,
            object=NOTHING if kind is None else kind,
            entities=about,
            origin=_origin(as_written, ENTITY, name, *apart),
        )
    seen = Counter[str]()
    for text in observations:
        seen[text] += 1
        yield Semantic(
            kind=OBSERVATION,
            text=text,
            subject=name,
            entities=about,
            origin=_origin(
                {}, OBSERVATION, name, text, *([seen[text]] if seen[text] > 1 else []), *apart
            ),
        )


def relation_of(row: Row) -> Semantic:
    """Return a relation as a fact.

    Raises:
        MalformedError: If one of its three texts is missing.
    """
    start, kind, end = (text_in(row, name) for name in _OF_A_RELATION)
    as_written = {key: part for key, part in row.items() if key not in _OF_A_RELATION}
    return Semantic(
        kind=RELATION,
        subject=start,
        predicate=kind,
        object=end,
        origin=_origin(as_written, RELATION, start, kind, end),
    )


def _origin(as_written: Row, kind: str, *parts: str | int) -> Origin:
    """Return the origin of an entry, identified by its contents, as in the server."""
    known = blake3(_pack(parts)).hexdigest(16)
    return Origin(
        provider=NAME,
        id=f"{kind}:{known}",
        as_written=as_written | float_spellings(as_written),
        trust=TrustClass.IMPORTED,
    )


class McpMemoryWriter:
    """Converts entries to entities and relations.

    Observations wait on disk until all those of their entity are known.

    Args:
        report: Counts losses.
    """

    def __init__(self, report: Report) -> None:
        self._report = report
        self._numbers, self._heads, self._observed = ScratchMap(), ScratchMap(), ScratchMap()
        self._count = 0
        self._relations = ScratchMap()

    def close(self) -> None:
        """Free the temporary space."""
        for resource in (self._numbers, self._heads, self._observed, self._relations):
            resource.close()

    def take(self, record: Sealed, entry: Semantic) -> None:
        """Add an entry, and count what cannot be stored of it."""
        self._count += 1
        if entry.text is not None:
            self._observation(record, entry, entry.text)
        elif _is_entity(entry):
            self._entity(record, entry)
        elif None not in (entry.subject, entry.predicate, entry.object):
            self._lost(record, _TRIPLE, (RELATION,))
            row = {"from": entry.subject, "to": entry.object, "relationType": entry.predicate}
            self._relations.put(
                _NUMBER.pack(self._count, 0), _pack(_with_stored_members(row, entry))
            )
        else:
            self._report.lost(
                record.type, "the server stores texts and relations only", example=record.id
            )

    def entities(self) -> Iterator[Row]:
        """Yield the entities, in the order of their first mention."""
        head: Row | None = None
        observed = iter(self._observed)
        for key in observed:
            number, index = _NUMBER.unpack(key)
            if index == 0:
                if head is not None:
                    yield head
                head = _unpack(self._heads.get(_NUMBER.pack(number, 0)) or b"{}")
            elif head is not None:
                head["observations"].append(_unpack(self._observed.get(key) or b'""'))
        if head is not None:
            yield head

    def relations(self) -> Iterator[Row]:
        """Yield the relations, in order."""
        for key in self._relations:
            yield _unpack(self._relations.get(key) or b"{}")

    def _observation(self, record: Sealed, entry: Semantic, text: str) -> None:
        about = entry.entities[0] if entry.entities else None
        name = about.name if about is not None else entry.subject
        kind = about.entity_type if about is not None else None
        number = self._number(record, NOBODY if name is None else name, kind)
        self._observed.put(_NUMBER.pack(number, self._count), _pack(text))
        held = {"entities"} | ({"subject"} if entry.subject == name else set())
        self._lost(record, held, (OBSERVATION,))
        if len(entry.entities) > 1:
            reason = "an observation belongs to one entity"
            self._report.lost("entities", reason, example=record.id)
        elif about is not None and about.aliases:
            self._report.lost("entities/aliases", _NO_FIELD, example=record.id)

    def _entity(self, record: Sealed, entry: Semantic) -> None:
        name = entry.subject or ""
        number = self._number(record, name, entry.object)
        key = _NUMBER.pack(number, 0)
        head: Row = _unpack(self._heads.get(key) or b"{}")
        self._heads.put(key, _pack(_with_stored_members(head, entry)))
        held = set(_TRIPLE)
        if entry.entities in ((), (Entity(name=name, entity_type=entry.object),)):
            held.add("entities")
        self._lost(record, held, (ENTITY,))

    def _number(self, record: Sealed, name: str, kind: str | None) -> int:
        """Return the number of an entity, from 1, in the order of first mention."""
        key, typed = blake3(name.encode()).digest(), blake3(_pack((name, kind))).digest()
        known = self._numbers.get(typed) or (self._numbers.get(key) if kind is None else None)
        known = known or self._untyped(key, kind)
        if known is None:
            number = self._count
            self._numbers.put(typed, _NUMBER.pack(number, 0))
            if self._numbers.get(key) is None:
                self._numbers.put(key, _NUMBER.pack(number, 0))
            self._observed.put(_NUMBER.pack(number, 0), b"")
            entity: Row = {"name": name, "entityType": kind, "observations": []}
            self._heads.put(_NUMBER.pack(number, 0), _pack(entity))
            return number
        number, _ = _NUMBER.unpack(known)
        return int(number)

    def _untyped(self, key: bytes, kind: str | None) -> bytes | None:
        """Return the entity of a name without a type so far, which gets this one."""
        number = self._numbers.get(key)
        row: Row = _unpack(self._heads.get(number) or b"{}") if number is not None else {}
        if number is None or row.get("entityType") is not None:
            return None
        self._heads.put(number, _pack({**row, "entityType": kind}))
        self._numbers.put(blake3(_pack((row["name"], kind))).digest(), number)
        return number

    def _lost(
        self, record: Sealed, held: frozenset[str] | set[str], kinds: tuple[str, ...]
    ) -> None:
        value = record.value
        for name in sorted(value.keys() - _ALWAYS - held):
            self._report.lost(name, _NO_FIELD, example=record.id)
        if value.get("kind") not in (None, *kinds):
            self._report.lost("kind", _NO_FIELD, example=record.id)
        origin = value.get("origin", {"provider": NAME})
        if origin.get("provider") != NAME or origin.keys() & {"source", "revision"}:
            reason = "the server does not record provenance"
            self._report.lost("origin", reason, example=record.id)


def _is_entity(entry: Entry) -> bool:
    return (
        isinstance(entry, Semantic)
        and entry.kind == ENTITY
        and entry.subject is not None
        and entry.predicate == _IS_A
        and entry.object is not None
    )


def _with_stored_members(row: Row, entry: Entry) -> Row:
    """Add the stored members of the source's line; known members are not replaced."""
    origin = entry.origin
    if origin is None or origin.provider != NAME:
        return row
    return {**row, **{k: v for k, v in origin.as_written.items() if k not in row}}


_PROCESSES = Path("/proc")
_SCRIPT = ("server-memory", "dist", "index.js")
_FILE = "memory.jsonl"
_FILE_VARIABLE = "MEMORY_FILE_PATH="
_ARGUMENTS = 8
_MOST_BYTES = 1 << 20


def require_no_server(path: Path) -> None:
    """Refuse to write a file that a server uses.

    Raises:
        LockedError: If a server process is known to use it.
    """
    for process in servers_of(path):
        raise LockedError(
            f"an MCP memory server is using this file (process {process})",
            file=str(path),
            hint="Stop the program that runs it first: it overwrites changes of others.",
        )


def servers_of(path: Path) -> Iterator[int]:
    """Yield the IDs of server processes that are known to use a file."""
    file = os.path.realpath(path)
    with suppress(OSError):
        for process in _PROCESSES.iterdir():
            if process.name.isdecimal() and int(process.name) != os.getpid():
                opened = _file_of(process)
                if opened is not None and os.path.realpath(opened) == file:
                    yield int(process.name)


def _file_of(process: Path) -> Path | None:
    """Return the file of a server process; None for another, or an inaccessible one."""
    with suppress(OSError, ValueError):
        script = _script_of(process)
        if script is None:
            return None
        for one in _texts(process / "environ"):
            if one.startswith(_FILE_VARIABLE) and one != _FILE_VARIABLE:
                return script.parent / one.removeprefix(_FILE_VARIABLE)
        return script.parent / _FILE
    return None


def _script_of(process: Path) -> Path | None:
    folder = (process / "cwd").readlink()
    for one in _texts(process / "cmdline")[:_ARGUMENTS]:
        script = Path(os.path.realpath(folder / one))
        if script.parts[-len(_SCRIPT) :] == _SCRIPT:
            return script
    return None


def _texts(file: Path) -> list[str]:
    with file.open("rb") as stream:
        return [os.fsdecode(one) for one in stream.read(_MOST_BYTES).split(b"\0")]


_GRAPH = {"entities": ENTITY, "relations": RELATION}
_SIGNS = (
    {(b"name",), (b"entityType",), (b"observations",)},
    {(b"from",), (b"to",), (b"relationType",)},
)
_GRAPH_SIGNS = ((b"entities", 0, b"entityType"), (b"relations", 0, b"relationType"))
_TRANSFER_RECORDS = ("source", "receipt")
_BREAKS = (("\x85", "\\u0085"), ("\u2028", "\\u2028"), ("\u2029", "\\u2029"))
"""Characters that are line ends in Python, but not in JSON; the server reads both spellings."""


class McpMemory:
    """The format."""

    info: ClassVar[Info] = Info(
        title="MCP memory server",
        suffixes=(".memory.jsonl",),
        signs=Signs(texts=((b"relationType",), (b"entityType",))),
        spec="@modelcontextprotocol/server-memory 2026.8.31, memory.jsonl and read_graph",
        checked="2026-11-22",
        traits=Traits(
            components=frozenset({Component.SEMANTIC}), exact=True, streams=True, ordered=False
        ),
        lost_on_writing=(
            "Episodic, procedural, working and identity memory, times, scope, tags, metadata,"
            " provenance, edges, and all entities of a memory but the first."
        ),
    )

    def recognizes(self, location: Location) -> bool:
        return _is_lines(location) or _is_returned(location)

    def read(self, location: Location, reading: ReadContext) -> Iterator[Model | Sealed]:
        with location.open() as stream:
            seen = _FileHead(stream)
            source = cast("BinaryIO", seen)
            entries = (_graph if seen.is_graph else _lines)(source, location, reading)
            count = 0
            for count, entry in enumerate(entries, 1):  # noqa: B007 - it is used below
                yield entry
            if count == 0 and not reading.report.left_out:
                raise EmptyInputError("the file contains no memories", file=location.name)

    def write(self, records: RecordSet, target: Target, writing: WriteContext) -> None:
        require_no_server(target.path)
        report = writing.report
        for section, count in records.counts.items():
            kind = TYPED_SECTIONS.get(section, section)
            if kind != Component.SEMANTIC and kind not in _TRANSFER_RECORDS:
                report.lost(kind, "the server has no such records", count=count)
        with closing(McpMemoryWriter(report)) as writer, target.open() as sink:
            for record in records.of("semantic"):
                writer.take(record, cast("Semantic", record.model))
            fields = _returned(records, writing)
            if fields is not None:
                _put_graph(sink, writer, fields, report)
            elif writing.compress:
                with gzip_sink(sink) as packed:
                    _put_lines(packed, writer, report)
            else:
                _put_lines(sink, writer, report)


# -- reading -------------------------------------------------------------------------------


def _is_lines(location: Location) -> bool:
    starts = {path for path, _ in json_members(location.unpacked_head)}
    return (b"type",) in starts and any(signs <= starts for signs in _SIGNS)


def _is_returned(location: Location) -> bool:
    return any(path in _GRAPH_SIGNS for path, _ in json_members(location.head))


class _FileHead:
    """A file with as many first bytes read as show its form.

    Attributes:
        is_graph: Whether it is a result of ``read_graph``.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._start = b""
        self.is_graph = False
        while len(self._start) < HEAD_BYTES and (more := stream.read(HEAD_BYTES)):
            self._start += more
            head = {path[0] for path, _ in json_members(self._start) if len(path) == 1}
            if b"type" in head or self._start.startswith(GZIP_MAGIC):
                return
            if not head.isdisjoint(name.encode() for name in _GRAPH):
                self.is_graph = True
                return

    def read(self, size: int = -1) -> bytes:
        start, self._start = self._start, b""
        return start or self._stream.read(size)


def _lines(stream: BinaryIO, location: Location, reading: ReadContext) -> Iterator[Semantic]:
    lines = LineReader(Decompressor(stream, reading.limits))
    bound = reading.limits.line_bytes
    reading.line = lambda: lines.number
    reading.by_line = True
    with closing(Types()) as types:
        yield from _entries_of_lines(lines, bound, types, location, reading)


def _entries_of_lines(
    lines: LineReader, bound: int, types: Types, location: Location, reading: ReadContext
) -> Iterator[Semantic]:
    while True:
        try:
            line = lines.next(bound)
            if line is None:
                return
            row = json_object(line, bound, reading.mended)
            entries = _entries(row, lines.number, types, reading)
        except InputError as error:
            error.file, error.line, error.byte = location.name, lines.number, None
            reading.refuse(error)
            if lines.broken:
                return
        else:
            yield from entries


def _entries(row: Row, line: int, types: Types, reading: ReadContext) -> list[Semantic]:
    kind = row.pop("type", None)
    if kind == ENTITY:
        return list(types.entries_of(row))
    if kind == RELATION:
        return [relation_of(row)]
    if type(kind) is not str:
        raise MalformedError("a line without a `type`", field="type")
    reason = "neither an entity nor a relation: the server deletes such lines"
    reading.report.lost("line", reason, example=f"line {line}")
    return []


def _graph(stream: BinaryIO, location: Location, reading: ReadContext) -> Iterator[Semantic]:
    document = ForeignReader(
        stream, location.name, item_bytes=reading.limits.line_bytes, mending=reading.mended
    )
    reading.line = lambda: document.value_line
    around: Row = {}
    with closing(Types()) as types:
        yield from _arrays(document, types, around, reading)
    document.end()
    reading.container["shape"] = "graph"
    if around:
        reading.container["fields"] = around


def _arrays(
    document: ForeignReader, types: Types, around: Row, reading: ReadContext
) -> Iterator[Semantic]:
    for key in document.members():
        if key in _GRAPH and document.peek() == "[":
            make: Callable[[Row], Any] = types.entries_of if key == "entities" else _one_relation
            yield from parse_rows(document.values(), document, reading, make, key)
        else:
            around.update(escape_keys([(key, document.value())]))


def _one_relation(row: Row) -> list[Semantic]:
    return [relation_of(row)]


# -- writing -------------------------------------------------------------------------------


def _returned(records: RecordSet, writing: WriteContext) -> Row | None:
    """Return the members around a result of ``read_graph``, in a conversion of one.

    None if the file is for the server, as in an export of a bank.
    """
    container = sole_container(records, NAME)
    if writing.bank is not None or container.get("shape") != "graph":
        return None
    fields = container.get("fields", {})
    return fields if isinstance(fields, dict) else {}


def _put_lines(sink: BinaryIO, writer: McpMemoryWriter, report: Report) -> None:
    first = True
    for kind, rows in ((ENTITY, writer.entities()), (RELATION, writer.relations())):
        for row in rows:
            line = {"type": kind} | _typed(row) | {"type": kind}
            sink.writelines((b"" if first else b"\n", _json(line, report)))
            first = False


def _put_graph(sink: BinaryIO, writer: McpMemoryWriter, fields: Row, report: Report) -> None:
    sink.write(b'{"entities":')
    _array(sink, writer.entities(), report)
    sink.write(b',"relations":')
    _array(sink, writer.relations(), report)
    for name, part in fields.items():
        if name not in _GRAPH:
            sink.write(b"," + _json({name: part}, report)[1:-1])
    sink.write(b"}")


def _array(sink: BinaryIO, rows: Iterator[Row], report: Report) -> None:
    sink.write(b"[")
    for number, row in enumerate(rows):
        sink.writelines((b"," if number else b"", _json(_typed(row), report)))
    sink.write(b"]")


def _typed(row: Row) -> Row:
    """Return an entity with a type, which the server requires to be a text."""
    if row.get("entityType", "") is None:
        return {**row, "entityType": NOTHING}
    return row


def _json(value: Row, report: Report) -> bytes:
    """Encode as the server does, on one line."""
    text = as_json(value, report, compact=True).decode()
    for sign, escaped in _BREAKS:
        text = text.replace(sign, escaped)
    return text.encode()


FORMAT = McpMemory()
"""The instance that the registry loads."""
