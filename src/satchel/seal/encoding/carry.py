"""A reversible form for what the value domain cannot hold.

A foreign file may hold integers beyond 2^53-1, NaN or bytes. They travel as ``{"$int": "..."}``,
``{"$float": "..."}`` and ``{"$bytes": "..."}``; a real key that starts with ``$`` gets one more.
The writer of the same format restores them. Source: docs/spec/1-canonical-bytes.md.
"""

import base64
import math
import re
from typing import Any

from satchel.errors import ValueRefusedError
from satchel.seal.encoding.domain import MAX_INTEGER

_NOT_ZERO = re.compile(r"-?[0.]*[1-9]")

ABSENT: dict[str, Any] = {"$absent": True}
"""Says, inside ``origin.as_written``, that the source's record had no such member."""

_INT, _FLOAT, _BYTES = "$int", "$float", "$bytes"
_FORMS = {
    _INT: re.compile(r"-?(?:0|[1-9][0-9]*)"),
    # As JSON writes a number, or as Python names what JSON cannot write.
    _FLOAT: re.compile(r"NaN|-?Infinity|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?"),
    _BYTES: re.compile(r"[A-Za-z0-9+/]*={0,2}"),
}


def carry(value: Any) -> Any:
    """Return a foreign value in the reversible form; values that need none are unchanged.

    Raises:
        ValueRefusedError: If an integer has more digits than Python prints.
    """
    kind = type(value)
    if kind is dict:
        return {_escaped(key): carry(part) for key, part in value.items()}
    if kind is list or kind is tuple:
        return [carry(part) for part in value]
    if kind is int and abs(value) > MAX_INTEGER:
        return carried_int(_digits(value))
    if kind is float and _unholdable(value):
        return carried_float(_float_name(value))
    if kind in (bytes, bytearray, memoryview):
        return {_BYTES: base64.b64encode(value).decode()}
    return value


def carried_int(digits: str) -> dict[str, str]:
    """Return an integer of any size, by its digits."""
    return {_INT: digits}


def carried_float(text: str) -> dict[str, str]:
    """Return a number that is not finite, or integral and too large, by its text."""
    return {_FLOAT: text}


def holds(token: str, value: float) -> bool:
    """Tell whether a double, made of a number in JSON, stands for it in a record.

    Not one that is too large, or so small that nothing is left of it.
    """
    if value == 0:
        return not _NOT_ZERO.match(token)
    return not _unholdable(value)


def escape_keys(pairs: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """Return an object's members with keys that start with ``$`` given one more."""
    return [(_escaped(key), part) for key, part in pairs]


def restore(value: Any) -> Any:
    """Return the foreign value that ``carry`` was given.

    Raises:
        ValueRefusedError: If a carried form is not one that ``carry`` makes.
    """
    if type(value) is list:
        return [restore(part) for part in value]
    if type(value) is not dict:
        return value
    if len(value) == 1:
        ((key, text),) = value.items()
        if key in (_INT, _FLOAT, _BYTES):
            return _restored(key, text)
    return {_unescaped(key): restore(part) for key, part in value.items()}


def unheld_number(value: dict[str, Any]) -> str | None:
    """Return the text of a carried float that no double holds; None for any other value.

    Raises:
        ValueRefusedError: If it is not one that ``carry`` makes.
    """
    if len(value) != 1 or _FLOAT not in value:
        return None
    found = _restored(_FLOAT, value[_FLOAT])
    text = str(value[_FLOAT])
    return text if not math.isfinite(found) or not holds(text, found) else None


def unescape_keys(value: Any) -> Any:
    """Return what ``carry`` was given where that was in the reversible form itself.

    Forms of numbers and bytes, which it makes of no such value, are left as they are.
    """
    if type(value) is list:
        return [unescape_keys(part) for part in value]
    if type(value) is not dict:
        return value
    return {_unescaped(key): unescape_keys(part) for key, part in value.items()}


def _restored(key: str, text: Any) -> Any:
    try:
        if type(text) is str and _FORMS[key].fullmatch(text):
            if key == _INT:
                return int(text)
            if key == _FLOAT:
                return float(text)
            raw = base64.b64decode(text, validate=True)
            if base64.b64encode(raw).decode() == text:
                return raw
    except ValueError:
        pass
    raise ValueRefusedError(f"{key} contains an invalid value")


def _digits(value: int) -> str:
    try:
        return str(value)
    except ValueError:
        raise ValueRefusedError(f"an integer of {value.bit_length()} bits is too long") from None


def _unholdable(value: float) -> bool:
    return not math.isfinite(value) or (value.is_integer() and abs(value) > MAX_INTEGER)


def _float_name(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return repr(value)


def _escaped(key: str) -> str:
    return f"${key}" if key.startswith("$") else key


def _unescaped(key: str) -> str:
    return key[1:] if key.startswith("$$") else key
