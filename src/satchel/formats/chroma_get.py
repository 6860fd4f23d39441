"""The result of Chroma's ``collection.get()`` as JSON: parallel lists.

``collection.upsert(**...)`` accepts it, too, so it is a way to write to any Chroma. Vectors are
stored if the file has them (``include=["embeddings", ...]``).
"""

import struct
from collections.abc import Iterator
from contextlib import closing
from typing import Any, BinaryIO, ClassVar

import msgspec

from satchel.crypto.canonical import decode_foreign, encode_foreign, escape_keys
from satchel.crypto.json_reader import ForeignReader
from satchel.crypto.sealed_records import Sealed
from satchel.errors import EmptyInputError, MalformedError, UsageError
from satchel.formats._chroma import SPACE, SPACES, URI, USUAL, VECTOR, entry_of, row_of
from satchel.formats._json import json_members
from satchel.formats._row_lists import as_json, container_of, count_others, in_order
from satchel.model.records import Entry, Model
from satchel.model.values import Component
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

_NAME = "chroma_get"
_CONFIGURATION = "configuration"
"""The argument of ``create_collection()``, written for a distance other than the default."""
_LISTS = {
    "ids": "id",
    "embeddings": VECTOR,
    "documents": "document",
    "metadatas": "metadata",
    "uris": URI,
}
_COLUMNS = {name: place for place, name in enumerate(_LISTS)}
_ALWAYS = ("ids", "documents", "metadatas")
_KEY = struct.Struct(">BQ")
_BESIDE_IDS = ((b"documents",), (b"metadatas",), (b"embeddings",))
_pack, _unpack = msgspec.json.encode, msgspec.json.Decoder().decode

Row = dict[str, Any]


class ChromaGet:
    """The format."""

    info: ClassVar[Info] = Info(
        title="Chroma collection, as get() returns it",
        suffixes=(".chroma.json",),
        signs=Signs(texts=((b"ids",),)),
        spec="chromadb 1.5.9 Collection.get() as JSON; Collection.upsert() takes its lists",
        checked="2026-11-22",
        traits=Traits(components=frozenset({Component.SEMANTIC}), exact=True),
        lost_on_writing=(
            "Memory types, its kind and times, entities, provenance, salience,"
            " validity, edges, namespaces, the name of its collection, and members that are"
            " objects, null or lists of several kinds."
        ),
        beside=frozenset({VECTOR, URI}),
    )

    def recognizes(self, location: Location) -> bool:
        starts = dict(json_members(location.head))
        if starts.get((b"ids",)) != b"[" or starts.get((b"ids", 0), b'"') != b'"':
            return False
        # The IDs of many records may fill the whole head.
        return any(path in starts for path in _BESIDE_IDS) or len(location.head) == HEAD_BYTES

    def read(self, location: Location, reading: ReadContext) -> Iterator[Model | Sealed]:
        with closing(_Lists()) as lists:
            with location.open() as stream:
                around = lists.read(stream, location, reading)
            if not lists.counts.get("ids"):
                raise EmptyInputError("the file contains no memories", file=location.name)
            for name, count in lists.counts.items():
                if count != lists.counts["ids"]:
                    problem = f"there are {count} `{name}` for {lists.counts['ids']} `ids`"
                    raise MalformedError(problem, file=location.name, field=name)
            reading.container["lists"] = [name for name in _LISTS if name in lists.counts]
            if around:
                reading.container["fields"] = around
            space = _space_in(around)
            for number in range(lists.counts["ids"]):
                try:
                    yield entry_of(lists.row(number), None, space=space)
                except MalformedError as error:
                    error.field = f"{error.field}/{number}"
                    reading.refuse(error.located(file=location.name))

    def write(self, records: RecordSet, target: Target, writing: WriteContext) -> None:
        report = writing.report
        count_others(records, report, "Chroma")
        container = container_of(records, _NAME)
        with closing(_Lists()) as lists:
            space = _fill(lists, records, report)
            required = {*container.get("lists", _ALWAYS)}
            with target.open() as sink:
                lists.write(
                    sink, required, _fields_with_space(container.get("fields", {}), space), report
                )


class _Lists:
    """The lists of a file, on disk if they are long."""

    def __init__(self) -> None:
        self._held = ScratchMap()
        self.counts = dict[str, int]()
        """Number of values of each list."""

    def close(self) -> None:
        """Free the temporary space."""
        self._held.close()

    def read(self, stream: BinaryIO, location: Location, reading: ReadContext) -> Row:
        """Read the lists of a document; return its other members."""
        document = ForeignReader(stream, location.name, item_bytes=reading.limits.line_bytes)
        around: Row = {}
        if document.peek() != "{":
            raise MalformedError(
                "not a collection: not an object", file=location.name, line=document.line
            )
        for key in document.members():
            if key in _LISTS and document.peek() == "[":
                self.counts[key] = 0
                for value in document.values():
                    self.add(key, value)
            else:
                around.update(escape_keys([(key, document.value())]))
        document.end()
        return around

    def add(self, name: str, value: Any) -> None:
        """Add a value to a list."""
        number = self.counts.get(name, 0)
        if value is not None:
            self._held.put(_KEY.pack(_COLUMNS[name], number), _pack(value))
        self.counts[name] = number + 1

    def row(self, number: int) -> Row:
        """Return the values of all lists at an index."""
        return {member: self._value_at(name, number) for name, member in _LISTS.items()}

    def _value_at(self, name: str, number: int) -> Any:
        packed = self._held.get(_KEY.pack(_COLUMNS[name], number))
        return None if packed is None else _unpack(packed)

    def write(self, sink: BinaryIO, required: set[str], around: Row, report: Report) -> None:
        """Write the lists that are required or not empty."""
        sink.write(b"{")
        count = self.counts.get("ids", 0)
        joint = b"\n"
        for name, column in _COLUMNS.items():
            if name not in required and not self._has(column, count):
                continue
            sink.writelines((joint, as_json(name, report), b": ["))
            for number in range(count):
                value = as_json(self._value_at(name, number), report)
                sink.writelines((b",\n" if number else b"\n", value))
            sink.write(b"\n]")
            joint = b",\n"
        for name, part in around.items():
            if name not in _LISTS or part is None:
                sink.writelines((joint, as_json({name: part}, report)[1:-1]))
        sink.write(b"\n}\n")

    def _has(self, column: int, count: int) -> bool:
        return any(_KEY.pack(column, number) in self._held for number in range(count))


def _fill(lists: _Lists, records: RecordSet, report: Report) -> str:
    """Add every memory to the lists; return the distance of their vectors."""
    lengths, spaces = dict[int, str | None](), dict[str, str]()
    with closing(ScratchMap()) as ids:
        for record in in_order(records, {}):
            entry = record.model
            if not isinstance(entry, Entry) or (entry.text is None and not _was_one(entry)):
                report.lost(record.type, "Chroma stores text only", example=record.id)
                continue
            row = row_of(record, entry, report)
            if not ids.add(row["id"].encode()):
                row["id"] = record.id.partition(":")[2]
                report.lost("origin/id", "another record has the same ID", example=record.id)
                ids.add(row["id"].encode())
            _count(record, entry, report)
            if row[VECTOR] is not None and entry.origin is not None:
                _require_length(lengths, row[VECTOR], entry.origin.source)
                stored = entry.origin.as_written.get(VECTOR, {})
                spaces.setdefault(stored.get(SPACE, USUAL), record.id)
            for name, member in _LISTS.items():
                value = row[member]
                lists.add(name, _numbers(value) if member == VECTOR else value)
    if len(spaces) > 1:
        reason = f"a collection has one distance; these have {', '.join(sorted(spaces))}"
        report.lost(f"{VECTOR}/{SPACE}", reason, example=next(iter(spaces.values())))
        return USUAL
    return next(iter(spaces), USUAL)


def _require_length(lengths: dict[int, str | None], vector: Any, collection: str | None) -> None:
    """Refuse vectors that one collection cannot hold together.

    Raises:
        UsageError: If their lengths differ.
    """
    numbers = decode_foreign(_numbers(vector))
    if not isinstance(numbers, list):
        return
    lengths.setdefault(len(numbers), collection)
    if len(lengths) == 1 or collection is None or collection in list(lengths.values())[:-1]:
        return
    lengths_text = ", ".join(
        f"{name or 'unknown'} ({size} numbers)" for size, name in lengths.items()
    )
    raise UsageError(
        f"vectors of several collections do not fit into one collection: {lengths_text}",
        field="format",
        hint="Import each into its own bank: a chroma: address of the folder that ends in"
        f" ?collection={collection} is one alone.",
    )


def _space_in(around: Row) -> str:
    """Return the distance of the vectors of a file, if stated."""
    value: Any = around.get(_CONFIGURATION)
    for name in ("hnsw", SPACE):
        value = value.get(name) if isinstance(value, dict) else None
    return value if value in SPACES else USUAL


def _fields_with_space(fields: Row, space: str) -> Row:
    """Return the members around the lists: the distance of vectors, if not the default."""
    if _space_in(fields) == space:
        return fields
    rest = {name: part for name, part in fields.items() if name != _CONFIGURATION}
    return rest if space == USUAL else {**rest, _CONFIGURATION: {"hnsw": {SPACE: space}}}


def _was_one(entry: Entry) -> bool:
    return entry.origin is not None and entry.origin.provider in ("chroma", _NAME)


def _count(record: Sealed, entry: Entry, report: Report) -> None:
    """Count members that only the database can hold."""
    if entry.created_at is not None:
        report.lost("created_at", "get() returns no times", example=record.id)
    if _was_one(entry) and entry.origin is not None and entry.origin.source is not None:
        reason = "get() does not return the collection's name"
        report.lost("origin/source", reason, example=record.id)


def _numbers(carried: Any) -> Any:
    """Return a vector as a list of numbers."""
    value = decode_foreign(carried)
    if isinstance(value, bytes):
        return encode_foreign(list(struct.unpack(f"<{len(value) // 4}f", value)))
    return carried


FORMAT = ChromaGet()
"""The instance that the registry loads."""
