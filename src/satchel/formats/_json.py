"""JSON of other products: recognition, lines, rows, and members that a memory does not restore."""

import base64
import json
import os
import re
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from io import BytesIO
from typing import Any, BinaryIO, TypeVar, cast

from satchel.artifact.encodings import GZIP_MAGIC
from satchel.crypto.canonical import ABSENT, Limits, decode_foreign, unheld_number
from satchel.crypto.json_reader import (
    NUMBERS,
    ForeignReader,
    float_spellings,
    ordinary_values,
    with_numbers,
)
from satchel.errors import InputError, LimitError, MalformedError, UnreadableError
from satchel.ports.format import BOM, Location, ReadContext
from satchel.ports.record_set import Report

_T = TypeVar("_T")
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*(?:"|\\?\Z)|[\[\]{},:]|[^\s\[\]{},:"]+', re.DOTALL)

Step = bytes | int
"""A key as spelled in the file, or an index of an array."""


def json_members(head: bytes) -> Iterator[tuple[tuple[Step, ...], bytes]]:
    """Yield the path of every value that starts in ``head``, with its first byte.

    It is lenient: it is for recognition and validates nothing. Text in strings is never taken for
    structure, so a memory's text cannot make its file look like another product's. A file that does
    not begin as JSON, such as an archive with JSON in it, has no paths.
    """
    path: list[Step] = []
    naming, plain = False, head.removeprefix(BOM)
    if plain.lstrip()[:1] not in (b"{", b"["):
        return
    for token in _TOKEN.findall(plain):
        if token in b"[{":
            yield tuple(path), token
            path.append(b"" if token == b"{" else 0)
            naming = token == b"{"
        elif token in b"]}":
            path = path[:-1]
        elif token == b",":
            naming = not _step(path)
        elif token == b":":
            naming = False
        elif naming and path:
            path[-1] = token.strip(b'"')
        else:
            yield tuple(path), token[:1]


def says_nothing(head: bytes, others: frozenset[bytes]) -> bool:
    """Return whether a file is not empty, and has no members of another product.

    Args:
        head: Its first bytes.
        others: Members of the other product's rows.
    """
    if head.removeprefix(BOM).strip() in (b"", b"[]", b"{}"):
        return False
    return not any(path and path[-1] in others for path, _ in json_members(head))


def _step(path: list[Step]) -> bool:
    """Advance to the next element, if inside an array; return whether it is."""
    if not path or not isinstance(path[-1], int):
        return False
    path[-1] += 1
    return True


CHUNK = 1 << 18
"""Number of bytes read at a time."""


class Decompressor:
    """The bytes of a file, decompressed if it is gzip; nothing is written to disk.

    Args:
        stream: The file; read, never closed.
        limits: Limits on its expansion.
    """

    def __init__(self, stream: BinaryIO, limits: Limits) -> None:
        self._stream = stream
        self._limits = limits
        self._consumed = self._expanded = 0
        start = b""
        while len(start) < len(GZIP_MAGIC) and (more := self._more()):
            start += more
        self._waiting = start
        self._inflate = zlib.decompressobj(wbits=31) if start.startswith(GZIP_MAGIC) else None

    def read(self) -> bytes:
        """Return the next bytes; empty at the end.

        Raises:
            MalformedError: If it is truncated, damaged, or has data after the compressed part.
            LimitError: If it expands too far.
        """
        if self._inflate is None:
            waiting, self._waiting = self._waiting, b""
            return waiting or self._more()
        while not self._inflate.eof:
            data = self._waiting or self._more()
            if not data:
                raise MalformedError("the compressed file is truncated", byte=self._consumed)
            try:
                expanded = self._inflate.decompress(data, CHUNK)
            except zlib.error as error:
                raise MalformedError(f"not gzip: {error}", byte=self._consumed) from None
            self._waiting = self._inflate.unconsumed_tail
            if expanded:
                return self._bounded(expanded)
        if self._inflate.unused_data or self._more():
            raise MalformedError("unexpected data after the compressed data", byte=self._consumed)
        return b""

    def _bounded(self, data: bytes) -> bytes:
        self._expanded += len(data)
        bounds = self._limits
        if self._expanded > max(bounds.expansion_free_bytes, bounds.expansion * self._consumed):
            raise LimitError(f"the file expands to more than {bounds.expansion} times its size")
        return data

    def _more(self) -> bytes:
        data = self._stream.read(CHUNK)
        self._consumed += len(data)
        return data


def reader_of(stream: BinaryIO, location: Location, reading: ReadContext) -> ForeignReader:
    """Return a JSON reader of a file, compressed or not."""
    source = cast("BinaryIO", _Source(stream, location.name, reading))
    return ForeignReader(source, location.name, item_bytes=reading.limits.line_bytes)


class _Source:
    """A file, decompressed if it is gzip."""

    def __init__(self, stream: BinaryIO, name: str, reading: ReadContext) -> None:
        self._stream = stream
        self._name = name
        self._limits = reading.limits
        self._unpacked: Decompressor | None = None

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes, of any number; empty at the end."""
        del size
        try:
            if self._unpacked is None:
                self._unpacked = Decompressor(self._stream, self._limits)
            return self._unpacked.read()
        except InputError as error:
            raise error.located(file=self._name) from None


_SPACE = b" \t\r\n"


class LineReader:
    """The non-blank lines of a file.

    Args:
        source: The bytes of the file.
    """

    def __init__(self, source: Decompressor) -> None:
        self.number = 0
        """Number of the last line, from 1."""

        self.broken = False
        """Whether reading failed, so that no line follows."""

        self._source = source
        self._chunk = b""
        self._at = 0
        self._ended = False

    def next(self, bound: int) -> bytes | None:
        """Return the next line, or None at the end.

        Raises:
            LimitError: If it is longer than ``bound`` bytes; the next call continues after it.
        """
        while not self._ended:
            line = self._line(bound)
            if self.number == 1:
                line = line.removeprefix(BOM)
            line = line.strip(_SPACE)
            if line:
                return line
        return None

    def _line(self, bound: int) -> bytes:
        self.number += 1
        parts, size = list[bytes](), 0
        while True:
            end = self._chunk.find(b"\n", self._at)
            piece = self._chunk[self._at : end if end >= 0 else None]
            self._at = end + 1
            size += len(piece)
            if size <= bound:
                parts.append(piece)
            else:
                parts.clear()
            if end >= 0 or not self._fill():
                break
        if size > bound:
            raise LimitError(f"a line is longer than {bound} bytes")
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _fill(self) -> bool:
        """Read the next bytes; return whether there are any."""
        try:
            self._chunk, self._at = self._source.read(), 0
        except InputError:
            self._ended = self.broken = True
            raise
        except OSError as error:
            self._ended = self.broken = True
            raise UnreadableError(f"reading failed: {error.strerror}") from error
        self._ended = not self._chunk
        return not self._ended


def json_object(
    line: bytes, bound: int, mending: Callable[[], None] | None = None
) -> dict[str, Any]:
    """Return the JSON object in a line.

    Args:
        line: Its bytes.
        bound: Largest value in it, in characters.
        mending: Called for unpaired surrogates, as by ``ForeignReader``.

    Raises:
        MalformedError: If it is not a JSON object.
        LimitError: If it is too large or too deep.
    """
    try:
        text = line.decode()
    except UnicodeDecodeError as error:
        raise MalformedError(f"the text is not UTF-8 at byte {error.start} of the line") from None
    values = ordinary_values(text)
    if values is None or len(values) != 1:
        reader = ForeignReader(BytesIO(line), "", item_bytes=bound, mending=mending)
        values = [reader.value()]
        reader.end()
    if type(values[0]) is not dict:
        raise MalformedError("the line is not a JSON object")
    return values[0]


def parse_rows(
    rows: Iterable[Any],
    document: ForeignReader,
    reading: ReadContext,
    parse: Callable[[dict[str, Any]], Iterable[_T]],
    path: str = "",
    *,
    first: int = 0,
) -> Generator[_T, None, int]:
    """Yield the records of rows; bad rows are refused. Return the number of rows, with bad ones.

    Args:
        rows: The rows, read from the document.
        document: The document.
        reading: Takes bad rows.
        parse: Converts a row to its records.
        path: The member with the rows, for errors; empty for the document itself.
        first: The number of the first row.
    """
    count = 0
    for count, row in enumerate(rows, 1):
        try:
            if type(row) is not dict:
                raise MalformedError("a row is not an object")
            records = list(parse(row))
        except InputError as error:
            number = first + count - 1
            error.within(f"{path}/{number}" if path else str(number))
            reading.refuse(error.located(line=document.value_line))
            continue
        yield from records
    return count


_MARK = f"number-{os.urandom(16).hex()}-"
_MARKED = re.compile(f'"{_MARK}([-+.0-9eE]+)"')
_NAMED_NUMBERS = "numbers that JSON cannot represent (NaN, Infinity) are written as in Python"


def as_json(
    value: Any, report: Report, *, compact: bool = False, indent: int | None = None
) -> bytes:
    """Encode as Python's ``json`` does, including large integers and numbers beyond a double.

    Args:
        value: The value, in the reversible form for foreign values.
        report: Counts values that JSON cannot hold.
        compact: Whether to omit white space.
        indent: Spaces per level; None for one line.
    """

    def other(part: object) -> str:
        if isinstance(part, bytes):
            report.lost("metadata", "bytes become base64 text")
            return base64.b64encode(part).decode()
        raise TypeError(type(part).__name__)

    if type(value) is dict and NUMBERS in value:
        rest = {name: part for name, part in value.items() if name != NUMBERS}
        value = with_numbers(rest, value[NUMBERS])
    marked = _Marked()
    plain = decode_foreign(marked.of(value))
    text = json.dumps(
        plain,
        ensure_ascii=False,
        default=other,
        separators=(",", ":") if compact else None,
        indent=indent,
    )
    if marked.found:
        text = _MARKED.sub(r"\1", text)
    if marked.named:
        report.note(_NAMED_NUMBERS)
    return text.encode()


class _Marked:
    """Replaces numbers beyond a double by marked texts, which become numbers again on writing."""

    def __init__(self) -> None:
        self.found = False
        self.named = False
        """Whether a value is not a number in JSON, such as NaN."""

    def of(self, value: Any) -> Any:
        """Return a value with marked texts; a value without such numbers is returned unchanged."""
        if type(value) is list:
            return self._list(value)
        if type(value) is not dict:
            return value
        text = unheld_number(value)
        if text is not None:
            if text[-1:].isdigit():
                self.found = True
                return f"{_MARK}{text}"
            self.named = True
            return value
        marked = None
        for name, part in value.items():
            if type(part) is dict or type(part) is list:
                marked_part = self.of(part)
                if marked_part is not part:
                    marked = dict(value) if marked is None else marked
                    marked[name] = marked_part
        return value if marked is None else marked

    def _list(self, value: list[Any]) -> list[Any]:
        marked = [self.of(part) for part in value]
        same = all(one is other for one, other in zip(marked, value, strict=True))
        return value if same else marked


def text_in(row: Mapping[str, Any], name: str) -> str:
    """Return a required text member.

    Raises:
        MalformedError: If it is not a text.
    """
    part = row.get(name)
    if type(part) is not str:
        problem = "is missing" if name not in row else "is not text"
        raise MalformedError(f"`{name}` {problem}", field=name)
    return part


_MISSING = object()


def differences(source: dict[str, Any], written: dict[str, Any]) -> dict[str, Any]:
    """Return the members to store so that ``reproduce`` returns ``source``.

    Args:
        source: The source's record.
        written: The writer's output for the mapped record.
    """
    members = {
        name: part
        for name, part in source.items()
        # Most are the same object, or plain texts.
        if (other := written.get(name, _MISSING)) is not part
        and (other is _MISSING or not _same(part, other))
    }
    members.update(dict.fromkeys(written.keys() - source.keys(), ABSENT))
    return members | float_spellings(source)


def reproduce(written: dict[str, Any], members: dict[str, Any]) -> dict[str, Any]:
    """Return the source's record from the writer's output and the stored members."""
    out = {name: part for name, part in written.items() if members.get(name) != ABSENT}
    out.update({name: part for name, part in members.items() if part != ABSENT})
    return with_numbers(out, out.pop(NUMBERS, None))


def settled(
    written: dict[str, Any],
    stored: dict[str, Any],
    again: Callable[[dict[str, Any]], dict[str, Any]],
    current: dict[str, Any],
    means: Mapping[str, str],
) -> dict[str, Any]:
    """Return the result of ``reproduce`` without members that contradict the record.

    Args:
        written: The writer's output for the record.
        stored: The stored members of the source's record.
        again: Returns the members of the record of a row.
        current: The members of the record.
        means: Members of a row, with the members of a record that have the same meaning.
    """
    row = reproduce(written, stored)
    restored = again(row)
    stale = {name for name in restored if name in current and restored[name] != current[name]}
    if not stale:
        return row
    return reproduce(written, {k: v for k, v in stored.items() if means.get(k) not in stale})


def _same(first: Any, second: Any) -> bool:
    """Return whether two JSON values are equal; ``1`` and ``true`` are not."""
    if first is second:
        return True
    kind = type(first)
    if kind is not type(second):
        return False
    if kind is str:
        return bool(first == second)
    if kind is dict:
        return len(first) == len(second) and all(
            key in second and (part is second[key] or _same(part, second[key]))
            for key, part in first.items()
        )
    if kind is list:
        return len(first) == len(second) and all(map(_same, first, second))
    return bool(first == second)
