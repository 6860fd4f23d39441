"""Reading protobuf's wire format, field by field; whatever is odd is refused, nothing is guessed.

As in protobuf's own specification: a tag says number and type; of the four types that are in use,
none nests without a length, so the time is that of one pass.
"""

from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

from satchel.errors import LimitError, MalformedError

_VARINT, _EIGHT, _BYTES, _FOUR = 0, 1, 2, 5
_FIXED = {_EIGHT: 8, _FOUR: 4}
_LONGEST_VARINT = 10
_BITS, _MORE = 7, 0x80


class Field(NamedTuple):
    """One field of a message."""

    number: int
    value: int
    """Of a number."""

    data: memoryview
    """Of a text, bytes or a message; empty for a number."""

    is_data: bool


_NOTHING = memoryview(b"")


def fields(data: memoryview) -> Iterator[Field]:
    """Yield the fields of a message.

    Raises:
        MalformedError: If it is cut, or no message.
    """
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        number, kind = tag >> 3, tag & 7
        if kind == _VARINT:
            value, at = _varint(data, at)
            yield Field(number, value, _NOTHING, is_data=False)
        elif kind == _BYTES:
            size, at = _varint(data, at)
            yield Field(number, 0, _part(data, at, size), is_data=True)
            at += size
        else:
            at = _behind(data, at, kind)
        if not number:
            raise MalformedError("not protobuf: a field has the number 0")


def texts(data: memoryview) -> str:
    """Return a text; what is no UTF-8 in it is replaced."""
    return bytes(data).decode("utf-8", "replace")


def numbers(field: Field) -> Iterator[int]:
    """Yield the numbers of a repeated field, packed or one by one."""
    if not field.is_data:
        yield field.value
        return
    at = 0
    while at < len(field.data):
        value, at = _varint(field.data, at)
        yield value


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    value = 0
    for place in range(_LONGEST_VARINT):
        if at >= len(data):
            raise MalformedError("not protobuf: truncated in a number", byte=at)
        byte = data[at]
        at += 1
        value |= (byte & ~_MORE) << (_BITS * place)
        if not byte & _MORE:
            return value, at
    raise MalformedError("not protobuf: a number is too long", byte=at)


def _part(data: memoryview, at: int, size: int) -> memoryview:
    if size > len(data) - at:
        raise MalformedError("not protobuf: truncated, or a length is wrong", byte=at)
    return data[at : at + size]


def _behind(data: memoryview, at: int, kind: int) -> int:
    size = _FIXED.get(kind)
    if size is None:
        raise MalformedError(f"not protobuf: a field of type {kind}", byte=at)
    _part(data, at, size)
    return at + size


class Piece(NamedTuple):
    """A field of the outermost message, and where its bytes are in the file."""

    number: int
    start: int
    size: int


def pieces(stream: BinaryIO, most: int) -> Iterator[Piece]:
    """Yield where the fields of a message in a file are, without reading what is in them.

    Args:
        stream: The file, at its start.
        most: How many bytes one may have.

    Raises:
        MalformedError: If it is cut, or no message.
        LimitError: If one is larger.
    """
    total = stream.seek(0, 2)
    at = stream.seek(0)
    while at < total:
        tag, at = _streamed(stream, at)
        number, kind = tag >> 3, tag & 7
        if kind == _VARINT:
            _, at = _streamed(stream, at)
            continue
        size = _FIXED.get(kind, 0)
        if kind == _BYTES:
            size, at = _streamed(stream, at)
        elif not size:
            raise MalformedError(f"not protobuf: a field of type {kind}", byte=at)
        if not number or size > total - at:
            raise MalformedError("not protobuf: truncated, or a length is wrong", byte=at)
        if size > most:
            raise LimitError(f"a part has more than {most:,} bytes", byte=at)
        yield Piece(number, at, size)
        at = stream.seek(at + size)


def _streamed(stream: BinaryIO, at: int) -> tuple[int, int]:
    """Return the number at a place of a file, and the place behind it."""
    stream.seek(at)
    head = memoryview(stream.read(_LONGEST_VARINT))
    try:
        value, length = _varint(head, 0)
    except MalformedError as error:
        raise MalformedError(error.message, byte=at) from None
    return value, at + length
