"""The file of the MCP memory server, ``memory.jsonl``, and what its ``read_graph`` returns.

An observation becomes a semantic entry about its entity; a relation becomes a triple without a
text; an entity of which nothing is observed becomes the fact that it is of its type. The server has
no ids and no times, and knows a thing by what it says. Members of a line that it does not know are
kept and written back, though the server deletes them when it next writes. What is written is
compact, entities first, with no line feed at the end, as the server itself has it. Compared with
@modelcontextprotocol/server-memory 2026.8.31.
"""

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any, BinaryIO, ClassVar, cast

from satchel.errors import EmptyInputError, InputError, MalformedError
from satchel.formats._json import as_json
from satchel.formats._lines import Lines, json_object
from satchel.formats._mcp_memory import (
    ENTITY,
    NAME,
    NOTHING,
    RELATION,
    Leaving,
    Row,
    Types,
    relation_of,
)
from satchel.formats._mcp_server import require_no_server
from satchel.formats._sniffing import members, unpacked
from satchel.formats._unpacking import Unpacked
from satchel.memory.entries import Semantic
from satchel.memory.parts import Component
from satchel.memory.records import Model
from satchel.ports.format import Info, Reading, Traits, Writing
from satchel.ports.place import HEAD_BYTES, Place, Target
from satchel.ports.records import RecordSet
from satchel.ports.report import Report
from satchel.seal.artifact.opening import GZIP_MAGIC
from satchel.seal.artifact.sections import TYPED_SECTIONS
from satchel.seal.artifact.writing import compressing
from satchel.seal.encoding.carry import escape_keys
from satchel.seal.encoding.foreign_json import ForeignReader
from satchel.seal.records import Sealed

_GRAPH = {"entities": ENTITY, "relations": RELATION}
_SIGNS = (
    {(b"name",), (b"entityType",), (b"observations",)},
    {(b"from",), (b"to",), (b"relationType",)},
)
_GRAPH_SIGNS = ((b"entities", 0, b"entityType"), (b"relations", 0, b"relationType"))
_OF_THE_TRANSFER = ("source", "receipt")
_BREAKS = (("\x85", "\\u0085"), ("\u2028", "\\u2028"), ("\u2029", "\\u2029"))
"""Line ends to Python, though not to JSON; the server reads both spellings."""


class McpMemory:
    """The format."""

    info: ClassVar[Info] = Info(
        title="MCP memory server",
        suffixes=(".memory.jsonl",),
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

    def recognises(self, place: Place) -> bool:
        return _is_lines(place) or _is_returned(place)

    def read(self, place: Place, reading: Reading) -> Iterator[Model | Sealed]:
        with place.open() as stream:
            seen = _Seen(stream)
            source = cast("BinaryIO", seen)
            found = (_graph if seen.is_graph else _lines)(source, place, reading)
            count = 0
            for count, entry in enumerate(found, 1):  # noqa: B007 - it is used below
                yield entry
            if count == 0 and not reading.report.left_out:
                raise EmptyInputError("the file contains no memories", file=place.name)

    def write(self, records: RecordSet, target: Target, writing: Writing) -> None:
        require_no_server(target.path)
        report = writing.report
        for section, count in records.counts.items():
            kind = TYPED_SECTIONS.get(section, section)
            if kind != Component.SEMANTIC and kind not in _OF_THE_TRANSFER:
                report.lost(kind, "the server has no such records", count=count)
        with closing(Leaving(report)) as leaving, target.open() as sink:
            for record in records.of("semantic"):
                leaving.take(record, cast("Semantic", record.model))
            fields = _returned(records, writing)
            if fields is not None:
                _put_graph(sink, leaving, fields, report)
            elif writing.compress:
                with compressing(sink) as packed:
                    _put_lines(packed, leaving, report)
            else:
                _put_lines(sink, leaving, report)


# -- reading -------------------------------------------------------------------------------


def _is_lines(place: Place) -> bool:
    found = {path for path, _ in members(unpacked(place.head))}
    return (b"type",) in found and any(signs <= found for signs in _SIGNS)


def _is_returned(place: Place) -> bool:
    return any(path in _GRAPH_SIGNS for path, _ in members(place.head))


class _Seen:
    """A file whose first bytes were looked at, as many as tell what it is.

    Attributes:
        is_graph: Whether it is what ``read_graph`` returns.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._start = b""
        self.is_graph = False
        while len(self._start) < HEAD_BYTES and (more := stream.read(HEAD_BYTES)):
            self._start += more
            found = {path[0] for path, _ in members(self._start) if len(path) == 1}
            if b"type" in found or self._start.startswith(GZIP_MAGIC):
                return
            if not found.isdisjoint(name.encode() for name in _GRAPH):
                self.is_graph = True
                return

    def read(self, size: int = -1) -> bytes:
        start, self._start = self._start, b""
        return start or self._stream.read(size)


def _lines(stream: BinaryIO, place: Place, reading: Reading) -> Iterator[Semantic]:
    lines = Lines(Unpacked(stream, reading.limits))
    bound = reading.limits.line_bytes
    reading.line = lambda: lines.number
    reading.by_line = True
    with closing(Types()) as types:
        yield from _made(lines, bound, types, place, reading)


def _made(
    lines: Lines, bound: int, types: Types, place: Place, reading: Reading
) -> Iterator[Semantic]:
    while True:
        try:
            line = lines.next(bound)
            if line is None:
                return
            row = json_object(line, bound, reading.mended)
            found = _entries(row, lines.number, types, reading)
        except InputError as error:
            error.file, error.line, error.byte = place.name, lines.number, None
            reading.refuse(error)
            if lines.broken:
                return
        else:
            yield from found


def _entries(row: Row, line: int, types: Types, reading: Reading) -> list[Semantic]:
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


def _graph(stream: BinaryIO, place: Place, reading: Reading) -> Iterator[Semantic]:
    document = ForeignReader(
        stream, place.name, item_bytes=reading.limits.line_bytes, mending=reading.mended
    )
    reading.line = lambda: document.value_line
    around: Row = {}
    with closing(Types()) as types:
        yield from _arrays(document, types, around, place, reading)
    document.end()
    reading.container["shape"] = "graph"
    if around:
        reading.container["fields"] = around


def _arrays(
    document: ForeignReader, types: Types, around: Row, place: Place, reading: Reading
) -> Iterator[Semantic]:
    for key in document.members():
        if key in _GRAPH and document.peek() == "[":
            make: Callable[[Row], Any] = types.entries_of if key == "entities" else _one_relation
            for number, row in enumerate(document.values()):
                try:
                    found = list(make(_checked(row)))
                except MalformedError as error:
                    error.field = f"{key}/{number}" + (f"/{error.field}" if error.field else "")
                    reading.refuse(error.located(file=place.name, line=document.value_line))  # type: ignore[arg-type]
                else:
                    yield from found
        else:
            around.update(escape_keys([(key, document.value())]))


def _checked(row: Any) -> Row:
    if type(row) is not dict:
        raise MalformedError("an entity or relation is not an object")
    return row


def _one_relation(row: Row) -> list[Semantic]:
    return [relation_of(row)]


# -- writing -------------------------------------------------------------------------------


def _returned(records: RecordSet, writing: Writing) -> Row | None:
    """Return what was around a graph that was returned, where one is only converted.

    None where a file for the server is to be written, which is what is wanted of a bank.
    """
    found = [one.value for one in records.of("source") if one.value.get("format") == NAME]
    container = found[0].get("container", {}) if len(found) == 1 else {}
    if writing.bank is not None or container.get("shape") != "graph":
        return None
    fields = container.get("fields", {})
    return fields if isinstance(fields, dict) else {}


def _put_lines(sink: BinaryIO, leaving: Leaving, report: Report) -> None:
    first = True
    for kind, rows in ((ENTITY, leaving.entities()), (RELATION, leaving.relations())):
        for row in rows:
            line = {"type": kind} | _typed(row) | {"type": kind}
            sink.writelines((b"" if first else b"\n", _json(line, report)))
            first = False


def _put_graph(sink: BinaryIO, leaving: Leaving, fields: Row, report: Report) -> None:
    sink.write(b'{"entities":')
    _array(sink, leaving.entities(), report)
    sink.write(b',"relations":')
    _array(sink, leaving.relations(), report)
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
    """Give an entity whose type nobody said one; the server asks for a text."""
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
"""What the registry finds."""
