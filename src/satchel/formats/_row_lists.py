"""JSON with a list of rows, as servers and libraries return it, and the order of rows.

It is a list, an object with a list, perhaps one level down, or a single row. Members around the
rows are stored, and written again.
"""

import base64
import binascii
import zlib
from collections.abc import Callable, Generator, Iterator
from typing import Any, BinaryIO

from satchel.artifact.body import COMPONENTS, TYPED_SECTIONS
from satchel.crypto.canonical import escape_keys
from satchel.crypto.json_reader import ForeignReader
from satchel.crypto.sealed_records import ENTRY_TAGS, Sealed
from satchel.errors import EmptyInputError, MalformedError
from satchel.formats._json import as_json as json_of
from satchel.formats._json import parse_rows
from satchel.model.records import Entry, Model
from satchel.model.values import Component
from satchel.ports.format import Location, ReadContext
from satchel.ports.record_set import RecordSet, Report

_TRANSFER_RECORDS = ("source", "receipt")


def as_json(value: Any, report: Report) -> bytes:
    """Encode as Python's ``json`` does, on one line without white space."""
    return json_of(value, report, compact=True)


def count_others(records: RecordSet, report: Report, product: str) -> None:
    """Count the records other than memories as lost."""
    for section, count in records.counts.items():
        kind = TYPED_SECTIONS.get(section, section)
        if kind not in frozenset(Component) and kind not in _TRANSFER_RECORDS:
            report.lost(kind, f"{product} has no such records", count=count)


def container_of(records: RecordSet, name: str) -> dict[str, Any]:
    """Return the members around the records, if one file of the format was their only source."""
    sources = list(records.of("source")) if records.count("source") == 1 else []
    if len(sources) == 1 and sources[0].value.get("format") == name:
        return dict(sources[0].value.get("container", {}))
    return {}


def containers_in(records: RecordSet, name: str) -> list[dict[str, Any]]:
    """Return the members around the records of each file of the format that was read."""
    return [
        source.value.get("container", {})
        for source in records.of("source")
        if source.value.get("format") == name
    ]


def sole_container(records: RecordSet, name: str) -> dict[str, Any]:
    """Return the members around the records, if they came with one file of the format."""
    containers = containers_in(records, name)
    return containers[0] if len(containers) == 1 else {}


ALONE, ONE = "list", "one"
"""The shapes of a plain list, and of a single row."""

Row = dict[str, Any]
Make = Callable[[Row], Model]


class RowLayout:
    """The layout of a product's rows.

    Args:
        name: The member with the list.
        inside: The member with the object that has the list, if a server wraps it.
        sign: A member that every row has.
    """

    def __init__(self, name: str, sign: str, inside: str | None = None) -> None:
        self._name = name
        self._sign = sign
        self._inside = inside

    def read(self, location: Location, reading: ReadContext, make: Make) -> Iterator[Model]:
        """Yield the records of the rows.

        Raises:
            MalformedError: If a row is not valid, naming its position.
        """
        with location.open() as stream:
            document = ForeignReader(stream, location.name, item_bytes=reading.limits.line_bytes)
            reading.line = lambda: document.value_line
            count = 0
            for count, record in enumerate(self._records(document, reading, make), 1):  # noqa: B007 - used below
                yield record
            document.end()
            if count == 0 and not reading.report.left_out:
                raise EmptyInputError("the file contains no memories", file=location.name)

    def _records(
        self, document: ForeignReader, reading: ReadContext, make: Make
    ) -> Iterator[Model]:
        start = document.peek()
        if start == "[":
            reading.container["shape"] = ALONE
            yield from _rows(document, reading, make, "")
        elif start == "{":
            yield from self._object(document, reading, make)
        else:
            raise MalformedError("neither an object nor a list", line=document.line)

    def _object(self, document: ForeignReader, reading: ReadContext, make: Make) -> Iterator[Model]:
        around, within = Row(), Row()
        shape = None
        for key in document.members():
            if key == self._name and document.peek() == "[":
                shape = self._name
                yield from _rows(document, reading, make, key)
            elif key == self._inside and document.peek() == "{":
                shape = f"{key}/{self._name}"
                within = yield from self._wrapped(document, reading, make)
            else:
                around.update(escape_keys([(key, document.value())]))
        if shape is None:
            if self._sign not in around:
                problem = f"neither a list `{self._name}` nor one with a `{self._sign}`"
                raise MalformedError(problem, line=document.line)
            reading.container["shape"] = ONE
            yield make(around)
            return
        reading.container["shape"] = shape
        if around:
            reading.container["fields"] = around
        if within:
            reading.container["within"] = within

    def _wrapped(
        self, document: ForeignReader, reading: ReadContext, make: Make
    ) -> Generator[Model, None, Row]:
        """Yield the records of the rows in the next object; return its other members."""
        within, listed = Row(), False
        for key in document.members():
            if key == self._name and document.peek() == "[":
                listed = True
                yield from _rows(document, reading, make, f"{self._inside}/{key}")
            else:
                within.update(escape_keys([(key, document.value())]))
        if not listed:
            problem = f"there is no list `{self._name}` in `{self._inside}`"
            raise MalformedError(problem, line=document.line, field=self._inside)
        return within

    def write(
        self, sink: BinaryIO, rows: Iterator[Row], container: Row, report: Report, usual: str
    ) -> None:
        """Write rows, with the members around them.

        Args:
            sink: The output.
            rows: The rows.
            container: The members around them in the file that was read.
            report: Counts losses.
            usual: The default shape.
        """
        shape = container.get("shape", usual)
        if shape == ONE and (first := next(rows, None)) is not None:
            second = next(rows, None)
            if second is None:
                sink.writelines((as_json(first, report), b"\n"))
                return
            rows = (one for part in ((first, second), rows) for one in part)
        if shape in (ALONE, ONE):
            _write_rows(sink, rows, report)
            sink.write(b"\n")
            return
        sink.write(b"{")
        _write_fields(sink, container.get("fields", {}), report)
        inside = "/" in str(shape)
        if inside:
            sink.writelines((as_json(self._inside, report), b": {"))
            _write_fields(sink, container.get("within", {}), report)
        sink.writelines((as_json(self._name, report), b": "))
        _write_rows(sink, rows, report)
        sink.write(b"}}\n" if inside else b"}\n")


def _rows(
    document: ForeignReader, reading: ReadContext, make: Make, path: str
) -> Generator[Model, None, int]:
    return parse_rows(document.values(), document, reading, lambda row: (make(row),), path)


def _write_fields(sink: BinaryIO, fields: Row, report: Report) -> None:
    for name, part in fields.items():
        sink.writelines((as_json({name: part}, report)[1:-1], b",\n"))


def _write_rows(sink: BinaryIO, rows: Iterator[Row], report: Report) -> None:
    sink.write(b"[")
    for number, row in enumerate(rows):
        sink.writelines((b",\n" if number else b"\n", as_json(row, report)))
    sink.write(b"\n]")


_MOST_ORDER_CHARS = 1 << 18
_KINDS = tuple(COMPONENTS)
_NUMBER_OF = {kind: place for place, kind in enumerate(_KINDS)}
_MEMBER = "order"


class Order:
    """Records the order of types of memory, one byte each, packed at the end."""

    def __init__(self) -> None:
        self._kinds = bytearray()

    def add(self, entry: Entry) -> None:
        """Add the next memory."""
        self._kinds.append(_NUMBER_OF[ENTRY_TAGS[type(entry)]])

    def store(self, reading: ReadContext) -> None:
        """Store the order in the container, if the sections do not determine it."""
        if bytes(self._kinds) == bytes(sorted(self._kinds)):
            return
        packed = base64.b64encode(zlib.compress(self._kinds, 9)).decode()
        if len(packed) > _MOST_ORDER_CHARS:
            reading.report.note("memories will be written grouped by kind")
        else:
            reading.container[_MEMBER] = packed


def in_order(records: RecordSet, container: dict[str, Any]) -> Iterator[Sealed]:
    """Yield the entries, in reading order if it is known."""
    waiting = [records.of(kind) for kind in _KINDS]
    count = sum(records.count(kind) for kind in _KINDS)
    for kind in _unpacked(container.get(_MEMBER), count):
        if kind < len(waiting) and (record := next(waiting[kind], None)) is not None:
            yield record
    for rest in waiting:
        yield from rest


def _unpacked(packed: object, count: int) -> bytes:
    """Return at most this many types; empty if the order is not valid."""
    if not isinstance(packed, str):
        return b""
    try:
        return zlib.decompressobj().decompress(base64.b64decode(packed, validate=True), count or 1)
    except (binascii.Error, ValueError, zlib.error):
        return b""
