"""amplihack's hierarchical memory as JSON: semantic and episodic nodes, and four kinds of edges.

The reader accepts version 1.1 of Python and Rust, version 1.0 (memory-lib), and agent-core's form
without a version; the writer produces version 1.1 for the strict Rust reader. A fact is a semantic
entry, its concept the subject; an episode is an episodic entry of the kind ``episode``;
``derives_from`` links are parents and, if they have members, edges. Compared with amplihack-rs
0.17.0, amplihack (Python) of April 2026 and amplihack-memory-lib 0.4.0.
"""

import json
from collections.abc import Iterable, Iterator
from contextlib import closing
from typing import Any, BinaryIO, ClassVar

import msgspec

from satchel.artifact.encodings import gzip_sink
from satchel.crypto.canonical import decode_foreign
from satchel.crypto.sealed_records import Sealed
from satchel.formats._amplihack.reader import AmplihackDocument
from satchel.formats._amplihack.rows import ARRAYS, Row, statistic_of
from satchel.formats._amplihack.writer import AmplihackWriter, agent_of, container_of, exported_at
from satchel.formats._json import json_members
from satchel.model.records import Model
from satchel.model.values import Component
from satchel.ports.format import Info, Location, ReadContext, Signs, Target, Traits, WriteContext
from satchel.ports.record_set import RecordSet

_VERSION = "1.1"
_ARRAY = b"["
_VERSIONED = {(b"semantic_nodes",), (b"episodic_nodes",)}
_AGENT_CORE = {(b"nodes",), (b"edges",), (b"episodes",)}


class Amplihack:
    """The format."""

    info: ClassVar[Info] = Info(
        title="amplihack hierarchical memory, JSON",
        suffixes=(".amplihack.json",),
        signs=Signs(texts=((b"semantic_nodes",), (b"episodic_nodes",), (b"agent_name",))),
        spec="amplihack-rs 0.17.0 memory export, format 1.1; memory-lib 1.0; agent-core",
        checked="2026-11-22",
        traits=Traits(
            components=frozenset({Component.SEMANTIC, Component.EPISODIC}),
            exact=True,
        ),
        lost_on_writing=(
            "Procedural, working and identity memory, memories without text, edges of other kinds,"
            " provenance, validity and expiry, all but one entity. Version 1.0 and agent-core's"
            " own files are written as version 1.1."
        ),
    )

    def recognizes(self, location: Location) -> bool:
        arrays = {path for path, start in json_members(location.unpacked_head) if start == _ARRAY}
        if arrays & _VERSIONED:
            return True
        named = any(
            path == (b"agent_name",) and start == b'"'
            for path, start in json_members(location.unpacked_head)
        )
        return named and bool(arrays & _AGENT_CORE)

    def read(self, location: Location, reading: ReadContext) -> Iterator[Model | Sealed]:
        yield from AmplihackDocument(location, reading).records()

    def write(self, records: RecordSet, target: Target, writing: WriteContext) -> None:
        container = container_of(records, writing)
        agent = agent_of(records, writing, container)
        around = decode_foreign(container.get("fields", {}))
        head = {
            "agent_name": agent,
            "exported_at": exported_at(writing, container),
            "format_version": _VERSION,
        }
        with (
            closing(AmplihackWriter(records, agent, writing.report)) as writer,
            target.open() as sink,
        ):
            if writing.compress:
                with gzip_sink(sink) as packed:
                    _write(packed, head, writer, around)
            else:
                _write(sink, head, writer, around)


def _write(sink: BinaryIO, head: Row, writer: AmplihackWriter, around: Row) -> None:
    sink.write(b"{")
    sink.writelines(b"\n  %b: %b," % (_json(name), _json(value)) for name, value in head.items())
    counts = {
        statistic_of(array): _write_array(sink, array, writer.rows(array)) for array in ARRAYS
    }
    more = {name: part for name, part in around.items() if name not in (*head, *ARRAYS)}
    sink.writelines(_members({"statistics": counts, **more}))
    sink.write(b"\n}")


def _write_array(sink: BinaryIO, array: str, rows: Iterable[Row]) -> int:
    count = 0
    sink.write(b"\n  %b: [" % _json(array))
    for count, row in enumerate(rows, 1):
        sink.write((b",\n    " if count > 1 else b"\n    ") + _pretty(row, b"\n    "))
    sink.write(b"\n  ]," if count else b"],")
    return count


def _members(members: Row) -> Iterator[bytes]:
    for index, (name, value) in enumerate(members.items()):
        yield b"%b\n  %b: %b" % (b"," if index else b"", _json(name), _pretty(value, b"\n  "))


def _pretty(value: Any, margin: bytes) -> bytes:
    return msgspec.json.format(_json(value), indent=2).replace(b"\n", margin)


def _json(value: Any) -> bytes:
    try:
        return msgspec.json.encode(value)
    except OverflowError:  # an integer of more than 64 bits
        return json.dumps(value, ensure_ascii=False).encode()


FORMAT = Amplihack()
"""The instance that the registry loads."""
