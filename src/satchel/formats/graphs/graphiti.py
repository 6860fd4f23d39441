"""A graph of Graphiti, or of Zep which is made with it: as JSON, or in a database of Kuzu.

Graphiti has no export of its own. What is read is what its classes say of themselves
(``model_dump(mode="json")``), or the same rows of Zep's API: lists of entities (``nodes``),
episodes (``episodes``), facts (``edges``) and of the links that are no facts (``mentions``,
``has_member``, ``has_episode``, ``next_episode``), communities and sagas; names that others give
these lists are known. A file of Kuzu is copied and read as it is. What is written is JSON;
``examples/graphiti_json.py`` puts it into any database that graphiti-core opens, and makes such
JSON of one. Compared with graphiti-core 0.31.2 over Kuzu 0.11.3.
"""

from collections.abc import Iterator
from contextlib import closing
from typing import Any, BinaryIO, ClassVar

import msgspec

from satchel.errors import LimitError, MalformedError
from satchel.formats._graph_files.rows import graph_file
from satchel.formats._graph_files.wanted import is_graphiti
from satchel.formats._graphiti.document import Graph
from satchel.formats._graphiti.embedded import tables_in
from satchel.formats._graphiti.leaving import Leaving
from satchel.formats._graphiti.shape import ALWAYS, CALLED, NAME, TABLES, Row, is_graph
from satchel.formats._json import as_json
from satchel.formats._sniffing import members, unpacked
from satchel.formats._unpacked_json import reader_of
from satchel.memory.parts import Component
from satchel.memory.records import Model
from satchel.memory.times import now
from satchel.ports.format import Info, Reading, Traits, Writing
from satchel.ports.place import Place, Target
from satchel.ports.records import RecordSet
from satchel.ports.report import Report
from satchel.seal.artifact.writing import compressing
from satchel.seal.encoding.carry import escape_keys
from satchel.seal.records import Sealed


class Graphiti:
    """The format."""

    info: ClassVar[Info] = Info(
        title="Graphiti or Zep graph",
        suffixes=(".graphiti.json",),
        spec="graphiti-core 0.31.2, what its nodes and edges are as JSON; Zep's API",
        checked="2026-11-22",
        traits=Traits(components=frozenset({Component.SEMANTIC, Component.EPISODIC}), exact=True),
        lost_on_writing=(
            "Procedural, working and identity memory, tags, confidence and salience, provenance,"
            " more than one entity of a memory, and what a group stands for."
        ),
    )

    def recognises(self, place: Place) -> bool:
        return is_graphiti(place) or is_graph(members(unpacked(place.head)))

    def read(self, place: Place, reading: Reading) -> Iterator[Model | Sealed]:
        reading.linked = True
        if graph_file(place) is not None:
            yield from _from_database(place, reading)
        else:
            yield from _from_json(place, reading)

    def write(self, records: RecordSet, target: Target, writing: Writing) -> None:
        then = (writing.header.extra or {}).get("created_at") or now()
        with closing(Leaving(records, writing.report, then)) as leaving:
            leaving.gather()
            if writing.vectors is not None and writing.vectors.count:
                writing.report.note(
                    "the bank's vectors are not exported: Graphiti computes its own"
                )
            with target.open() as sink:
                if writing.compress:
                    with compressing(sink) as packed:
                        _put(packed, leaving, _container(records), writing.report)
                else:
                    _put(sink, leaving, _container(records), writing.report)


FORMAT = Graphiti()
"""What the registry finds."""


def _from_database(place: Place, reading: Reading) -> Iterator[Model]:
    with Graph(reading, place.name) as graph, closing(tables_in(place, reading)) as rows:
        for table, row in rows:
            yield from graph.rows(table, table, [row])
        yield from graph.rest()


def _from_json(place: Place, reading: Reading) -> Iterator[Model]:
    arrays, around = list[str](), Row()
    with Graph(reading, place.name) as graph:
        with place.open() as stream:
            document = reader_of(stream, place, reading)
            reading.line = lambda: document.line
            if document.peek() != "{":
                raise MalformedError(
                    "not a graph: not an object", file=place.name, line=document.line
                )
            for key in document.members():
                if key in CALLED and document.peek() == "[":
                    arrays.append(key)
                    yield from graph.rows(CALLED[key], key, document.values())
                else:
                    around.update(escape_keys([(key, document.value())]))
                    _require_bound(around, place, reading)
            document.end()
        reading.line = lambda: None
        yield from graph.rest()
    reading.container["arrays"] = arrays
    if around:
        reading.container["fields"] = around


def _require_bound(around: Row, place: Place, reading: Reading) -> None:
    bound = reading.limits.entry_bytes // 2
    if len(msgspec.json.encode(around)) > bound:
        problem = f"the data around the graph exceeds {bound} bytes"
        raise LimitError(problem, file=place.name, line=reading.line())


def _container(records: RecordSet) -> Row:
    """Return what was around the records, where all came from one graph."""
    found = [one.value for one in records.of("source") if one.value.get("format") == NAME]
    container = found[0].get("container", {}) if len(found) == 1 else {}
    return container if isinstance(container, dict) else {}


def _put(sink: BinaryIO, leaving: Leaving, container: Row, report: Report) -> None:
    """Write the tables, under the names that they had where they came from."""
    named = dict[str, str]()
    for name in container.get("arrays", []):
        if name in CALLED:
            named.setdefault(CALLED[name], name)
    wanted = named.keys() if named else ALWAYS
    tables = [*named, *(one for one in TABLES if one not in named)]
    sink.write(b"{")
    first = True
    for table in tables:
        if table not in wanted and not leaving.has(table):
            continue
        sink.writelines((b"" if first else b",", b"\n", _json(named.get(table, table), report)))
        sink.write(b": [")
        for place, row in enumerate(leaving.rows(table)):
            sink.writelines((b",\n" if place else b"\n", _json(row, report)))
        sink.write(b"]")
        first = False
    for name, part in container.get("fields", {}).items():
        if name not in CALLED:
            sink.writelines((b",\n", _json({name: part}, report)[1:-1]))
    sink.write(b"\n}\n")


def _json(value: Any, report: Report) -> bytes:
    return as_json(value, report)
