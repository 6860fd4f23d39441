"""Recognising a file by its first bytes: what is in them, without a whole document."""

import re
import zlib
from collections.abc import Callable, Iterator
from io import BytesIO
from typing import Any, BinaryIO, cast

from satchel.artifact.reader import GZIP_MAGIC
from satchel.crypto.json_reader import ForeignReader, ordinary_values
from satchel.crypto.limits import Limits
from satchel.errors import InputError, LimitError, MalformedError, UnreadableError
from satchel.ports.format import ReadContext
from satchel.ports.place import BOM, Place

_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*(?:"|\\?\Z)|[\[\]{},:]|[^\s\[\]{},:"]+', re.DOTALL)

Step = bytes | int
"""A key as it is spelled in the file, or a position in an array."""


def json_members(head: bytes) -> Iterator[tuple[tuple[Step, ...], bytes]]:
    """Yield the path of every value that starts in ``head``, with the byte that it starts with.

    Lenient: it tells formats apart and validates nothing. Text inside strings is never taken for
    structure, so what a memory says cannot make its file look like another product's. What does not
    begin as JSON, such as an archive with JSON in it, has none.
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
    """Tell whether a file has something in it, and nothing by which another product is known.

    Args:
        head: Its first bytes.
        others: Members of the other product's rows.
    """
    if head.removeprefix(BOM).strip() in (b"", b"[]", b"{}"):
        return False
    return not any(path and path[-1] in others for path, _ in json_members(head))


def _step(path: list[Step]) -> bool:
    """Go to the next element, where this is inside an array."""
    if not path or not isinstance(path[-1], int):
        return False
    path[-1] += 1
    return True


CHUNK = 1 << 18
"""Bytes that are asked for at a time."""


class Decompressor:
    """The bytes of a file, decompressed where it is gzip; nothing is written anywhere.

    Args:
        stream: The file; read, never closed.
        limits: How far it may expand.
    """

    def __init__(self, stream: BinaryIO, limits: Limits) -> None:
        self._stream = stream
        self._limits = limits
        self._taken = self._given = 0
        start = b""
        while len(start) < len(GZIP_MAGIC) and (more := self._more()):
            start += more
        self._waiting = start
        self._inflate = zlib.decompressobj(wbits=31) if start.startswith(GZIP_MAGIC) else None

    def read(self) -> bytes:
        """Return some bytes more; none at the end.

        Raises:
            MalformedError: If the file is cut, damaged, or goes on behind the compressed data.
            LimitError: If it expands too far.
        """
        if self._inflate is None:
            waiting, self._waiting = self._waiting, b""
            return waiting or self._more()
        while not self._inflate.eof:
            data = self._waiting or self._more()
            if not data:
                raise MalformedError("the compressed file is truncated", byte=self._taken)
            try:
                found = self._inflate.decompress(data, CHUNK)
            except zlib.error as error:
                raise MalformedError(f"not gzip: {error}", byte=self._taken) from None
            self._waiting = self._inflate.unconsumed_tail
            if found:
                return self._bounded(found)
        if self._inflate.unused_data or self._more():
            raise MalformedError("unexpected data after the compressed data", byte=self._taken)
        return b""

    def _bounded(self, found: bytes) -> bytes:
        self._given += len(found)
        bounds = self._limits
        if self._given > max(bounds.expansion_free_bytes, bounds.expansion * self._taken):
            raise LimitError(f"the file expands to more than {bounds.expansion} times its size")
        return found

    def _more(self) -> bytes:
        data = self._stream.read(CHUNK)
        self._taken += len(data)
        return data


def reader_of(stream: BinaryIO, place: Place, reading: ReadContext) -> ForeignReader:
    """Return what reads a file, compressed or not."""
    source = cast("BinaryIO", _Source(stream, place.name, reading))
    return ForeignReader(source, place.name, item_bytes=reading.limits.line_bytes)


class _Source:
    """A file, decompressed where it is gzip."""

    def __init__(self, stream: BinaryIO, name: str, reading: ReadContext) -> None:
        self._stream = stream
        self._name = name
        self._limits = reading.limits
        self._unpacked: Decompressor | None = None

    def read(self, size: int = -1) -> bytes:
        """Return some bytes more, however many; none at the end."""
        del size
        try:
            if self._unpacked is None:
                self._unpacked = Decompressor(self._stream, self._limits)
            return self._unpacked.read()
        except InputError as error:
            raise error.located(file=self._name) from None


_SPACE = b" \t\r\n"


class LineReader:
    """The lines of a file that are not blank.

    Args:
        source: Where the bytes come from.
    """

    def __init__(self, source: Decompressor) -> None:
        self.number = 0
        """Of the last line."""

        self.broken = False
        """Whether nothing can be read any more."""

        self._source = source
        self._chunk = b""
        self._at = 0
        self._ended = False

    def next(self, bound: int) -> bytes | None:
        """Return the next line, or None at the end.

        Raises:
            LimitError: If it is longer than ``bound`` bytes; the next call goes on behind it.
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
        """Go to the next bytes; tell whether there are any."""
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
    """Return the object that a line is.

    Args:
        line: Its bytes.
        bound: Largest value in it, in characters.
        mending: Called where there are halves of characters in it, as ``ForeignReader`` does.

    Raises:
        MalformedError: If it is not one JSON object.
        LimitError: If it is too large or too deep.
    """
    try:
        text = line.decode()
    except UnicodeDecodeError as error:
        raise MalformedError(f"the text is not UTF-8 at byte {error.start} of the line") from None
    found = ordinary_values(text)
    if found is None or len(found) != 1:
        reader = ForeignReader(BytesIO(line), "", item_bytes=bound, mending=mending)
        found = [reader.value()]
        reader.end()
    if type(found[0]) is not dict:
        raise MalformedError("the line is not a JSON object")
    return found[0]
