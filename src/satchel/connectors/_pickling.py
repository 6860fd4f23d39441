"""Plain values as Python's pickles, byte for byte without asking Python's own module."""

import struct
from collections.abc import Callable
from typing import Any

from satchel.formats._unpickling import POINTS, Global, Model


def pickled(value: Any) -> bytes:
    """Return the pickle, of protocol 4, of a plain value or of a ``Model``."""
    out = bytearray(b"\x80\x04")
    _write(value, out)
    out += b"."
    return bytes(out)


def point(identity: str | int, vectors: dict[str, Any], payload: dict[str, Any]) -> Model:
    """Return a point of Qdrant's local mode, to be pickled."""
    found = Model(Global(POINTS, "PointStruct"))
    found.members = {"id": identity, "vector": vectors, "payload": payload}
    return found


def _write(value: Any, out: bytearray) -> None:
    kind = type(value)
    writer = _WRITERS.get(kind)
    if writer is None:
        raise TypeError(kind.__name__)
    writer(value, out)


def _write_text(text: str, out: bytearray) -> None:
    data = text.encode()
    short = len(data) < 1 << 8
    out += b"\x8c" + bytes([len(data)]) if short else b"X" + struct.pack("<I", len(data))
    out += data


def _write_bytes(data: bytes, out: bytearray) -> None:
    out += b"B" + struct.pack("<I", len(data)) + data


def _write_whole(number: int, out: bytearray) -> None:
    if 0 <= number < 1 << 8:
        out += b"K" + bytes([number])
    elif 0 <= number < 1 << 16:
        out += b"M" + struct.pack("<H", number)
    elif -(1 << 31) <= number < 1 << 31:
        out += b"J" + struct.pack("<i", number)
    else:
        data = number.to_bytes(number.bit_length() // 8 + 1, "little", signed=True)
        short = len(data) < 1 << 8
        out += b"\x8a" + bytes([len(data)]) if short else b"\x8b" + struct.pack("<I", len(data))
        out += data


def _write_list(items: list[Any], out: bytearray) -> None:
    out += b"]("
    for item in items:
        _write(item, out)
    out += b"e"


def _write_dict(members: dict[str, Any], out: bytearray) -> None:
    out += b"}("
    for name, part in members.items():
        _write(name, out)
        _write(part, out)
    out += b"u"


def _write_set(items: set[Any], out: bytearray) -> None:
    out += b"\x8f("
    for item in sorted(items):
        _write(item, out)
    out += b"\x90"


def _write_model(model: Model, out: bytearray) -> None:
    """Write an object as pydantic's models are: the class, nothing given, then its state."""
    _write_text(model.cls.module, out)
    _write_text(model.cls.name, out)
    out += b"\x93)\x81"
    state = {
        "__dict__": model.members,
        "__pydantic_extra__": None,
        "__pydantic_fields_set__": set(model.members),
        "__pydantic_private__": None,
    }
    _write_dict(state, out)
    out += b"b"


_WRITERS: dict[type[Any], Callable[[Any, bytearray], None]] = {
    type(None): lambda _, out: out.extend(b"N"),
    bool: lambda value, out: out.extend(b"\x88" if value else b"\x89"),
    int: _write_whole,
    float: lambda value, out: out.extend(b"G" + struct.pack(">d", value)),
    str: _write_text,
    bytes: _write_bytes,
    list: _write_list,
    dict: _write_dict,
    set: _write_set,
    Model: _write_model,
}


def key_of(identity: str | int) -> bytes:
    """Return the pickle of a point's id exactly as Qdrant's local mode makes its row's key."""
    body = bytearray()
    _write(identity, body)
    if isinstance(identity, str):
        body += b"\x94"
    body += b"."
    frame = 4  # what is shorter is written without one
    head = b"\x95" + struct.pack("<Q", len(body)) if len(body) >= frame else b""
    return b"\x80\x04" + head + bytes(body)
