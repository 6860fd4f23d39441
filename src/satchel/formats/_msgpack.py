"""What LangGraph's checkpointers pack, as data: no class is looked up, nothing is called.

The library packs objects in extensions of MessagePack that name a module, a class and arguments,
and makes them again by importing the one and calling the other. Here they stay what they are: a
name, and the arguments. Compared with langgraph-checkpoint 4.3 (``JsonPlusSerializer``).
"""

import json
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from satchel.errors import LimitError, MalformedError

_OBJECTS = range(6)
_ARRAY, _SNAPSHOT = 6, 7
_DEEPEST, _INSIDE = 48, 16
_MOST_NODES = 2_000_000
_LEAST_OF_AN_OBJECT = 3


class PackedObject(NamedTuple):
    """What would be an object: nothing was made of it."""

    cls: str
    """Module and name, as the file has them."""

    arguments: Any


def unpacked(kind: Any, data: Any) -> Any:
    """Return a value that was packed.

    Args:
        kind: What the column ``type`` says of it.
        data: The bytes.

    Raises:
        MalformedError: If it is damaged, or packed in a way that is not data.
        LimitError: If it is too deep or too much.
    """
    if kind == "pickle":
        raise MalformedError(
            "a pickle, which can execute code and is not loaded",
            hint="Write it again with a checkpointer without pickle_fallback.",
        )
    if kind is None and data is not None:  # from before there was more than one way
        kind = "json"
    reader = _READERS.get(kind) if type(kind) is str else None
    if reader is None or not isinstance(data, bytes | str | None):
        raise MalformedError(f"packed in an unknown way: {str(kind)[:40]!r}")
    try:
        found = reader(data)
    except RecursionError:
        raise LimitError("packed data is nested too deeply") from None
    except (msgspec.DecodeError, ValueError, TypeError) as error:
        raise MalformedError(f"packed data is damaged: {error}") from error
    return _Plain().of(found, 0)


def _from_pack(data: Any, depth: int = 0) -> Any:
    if depth > _INSIDE:
        raise LimitError("packed data is nested too deeply")

    def extension(code: int, inner: memoryview) -> Any:
        if code not in _OBJECTS and code not in (_ARRAY, _SNAPSHOT):
            return PackedObject(f"extension {code}", bytes(inner))
        found = _from_pack(bytes(inner), depth + 1)
        if code == _ARRAY:
            return PackedObject("numpy.ndarray", found)
        if code == _SNAPSHOT:
            return found
        if type(found) is not list or len(found) < _LEAST_OF_AN_OBJECT:
            raise MalformedError("an object without a class and arguments")
        return PackedObject(f"{found[0]}.{found[1]}", found[2])

    return msgspec.msgpack.decode(data, ext_hook=extension)


_READERS: dict[str, Callable[[Any], Any]] = {
    "null": lambda _: None,
    "bytes": bytes,
    "bytearray": bytes,
    "json": json.loads,
    "msgpack": _from_pack,
}


class _Plain:
    """Makes of what was packed what JSON has, and counts what it looks at."""

    def __init__(self) -> None:
        self._left = _MOST_NODES

    def of(self, value: Any, depth: int) -> Any:
        self._left -= 1
        if self._left < 0 or depth > _DEEPEST:
            raise LimitError("packed data is nested too deeply, or too large")
        if isinstance(value, PackedObject):
            return PackedObject(value.cls, self.of(value.arguments, depth + 1))
        if isinstance(value, dict):
            if _is_constructor(value):
                named = ".".join(map(str, value["id"]))
                return PackedObject(named, self.of(value["kwargs"], depth + 1))
            return {_name(key): self.of(part, depth + 1) for key, part in value.items()}
        if isinstance(value, list | tuple):
            return [self.of(part, depth + 1) for part in value]
        if value is None or isinstance(value, str | bool | int | float | bytes):
            return value
        return value.isoformat() if hasattr(value, "isoformat") else str(value)


def _is_constructor(value: dict[Any, Any]) -> bool:
    """Tell whether it is how LangChain writes an object in JSON."""
    return (
        value.get("type") == "constructor"
        and "lc" in value
        and type(value.get("id")) is list
        and type(value.get("kwargs")) is dict
    )


def _name(key: Any) -> str:
    if type(key) is str:
        return key
    return str(key).lower() if type(key) is bool else str(key)


def as_data(value: Any) -> Any:
    """Return a value with objects as a name and what belongs to it."""
    if isinstance(value, PackedObject):
        return {"class": value.cls, "arguments": as_data(value.arguments)}
    if isinstance(value, dict):
        return {name: as_data(part) for name, part in value.items()}
    if isinstance(value, list):
        return [as_data(part) for part in value]
    return value
