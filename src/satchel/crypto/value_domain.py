"""The value domain: which values have a canonical form, checked by exact type.

Source: docs/spec/1-canonical-bytes.md. Nothing is repaired or coerced here; the one change is
that an integral float becomes the integer with the same canonical text.
"""

import base64
import math
import re
from functools import cache
from typing import Any

import msgspec
from msgspec.structs import fields

from satchel.errors import SatchelError, ValueRefusedError

MAX_DEPTH = 64
"""Levels of arrays and objects, the outermost counted."""

MAX_INTEGER = 2**53 - 1
"""Largest magnitude of an integral number; beyond it languages disagree about the value."""

_SHOWN = 80  # characters of a key in a pointer; keys can be as large as files
ITEM_BYTES = 16 * 2**20
"""Largest single value that is read from a document: bytes, or characters of JSON."""

_SURROGATE = re.compile("[\ud800-\udfff]")
_MISSING = object()


def check_value(value: Any, *, around: int = 0) -> Any:
    """Return ``value`` with integral floats as integers, after checking every part of it.

    Exact types only: dict with str keys, list, str, bool, None, int, float. A tuple, bytes, a
    date, a Decimal or a subclass is refused, since an encoder would silently turn it into
    something else.

    Args:
        value: Any value.
        around: Outermost levels that do not count, of what only holds the value.

    Raises:
        ValueRefusedError: With a JSON pointer to the part at fault.
    """
    return _checked(value, -around)


def _checked(value: Any, depth: int) -> Any:
    kind = type(value)
    if kind is str:
        return value if value.isascii() else _text(value)
    if kind is bool or value is None:
        return value
    if kind is int:
        if -MAX_INTEGER <= value <= MAX_INTEGER:
            return value
        raise _big(value)
    if kind is float:
        return _number(value)
    if kind is dict:
        return _object(value, depth + 1)
    if kind is list:
        return _array(value, depth + 1)
    raise ValueRefusedError(
        f"a value of type {kind.__name__} has no canonical form",
        hint="Use text, numbers, booleans, null, lists and objects with text keys.",
    )


def _text(value: str) -> str:
    if _SURROGATE.search(value):
        raise ValueRefusedError("text with a lone surrogate is not Unicode text")
    return value


def _big(value: int) -> ValueRefusedError:
    return ValueRefusedError(
        f"an integer of {value.bit_length()} bits is beyond 2^53-1",
        hint='Carry it as {"$int": "<digits>"}.',
    )


def _number(value: float) -> float | int:
    if not math.isfinite(value):
        raise ValueRefusedError(
            f"{value} is not a JSON number", hint='Carry it as {"$float": "NaN"} or the like.'
        )
    if not value.is_integer():
        return value
    whole = int(value)
    if abs(whole) > MAX_INTEGER:
        raise _big(whole)
    return whole


def _object(value: dict[Any, Any], depth: int) -> dict[str, Any]:
    if depth > MAX_DEPTH:
        raise _deep()
    out = {}
    key: Any = _MISSING
    try:
        for key, part in value.items():
            if type(key) is not str or not key.isascii():
                _key(key)
            # Most values are short ASCII text: spare them the call.
            out[key] = part if type(part) is str and part.isascii() else _checked(part, depth)
    except ValueRefusedError as error:
        raise _under(error, key) from None
    return out


def _key(key: object) -> None:
    if type(key) is not str:
        raise ValueRefusedError(f"a key of type {type(key).__name__} is not text")
    _text(key)


def _array(value: list[Any], depth: int) -> list[Any]:
    if depth > MAX_DEPTH:
        raise _deep()
    out = []
    try:
        for part in value:
            out.append(_checked(part, depth))  # noqa: PERF401 - the index is wanted on error
    except ValueRefusedError as error:
        raise _under(error, len(out)) from None
    return out


def _deep() -> ValueRefusedError:
    return ValueRefusedError(f"nesting is deeper than {MAX_DEPTH} levels")


def _under(error: SatchelError, step: object) -> SatchelError:
    """Put one step in front of the error's pointer, escaped as RFC 6901 has it."""
    shown = repr(step) if not isinstance(step, str | int) else str(step)
    shown = shown[:_SHOWN].encode("utf-8", "backslashreplace").decode()
    shown = shown.replace("~", "~0").replace("/", "~1")
    error.field = f"{shown}/{error.field}" if error.field else shown
    return error


def plain(model: msgspec.Struct) -> dict[str, Any]:
    """Return a model value as a checked JSON object, members at their default left out.

    Only the model's own fields may be tuples or structs; user data inside them may not.

    Raises:
        ValueRefusedError: With a JSON pointer to the part at fault.
    """
    tag_field, tag, required = _described(type(model))
    out: dict[str, Any] = {tag_field: tag} if tag_field else {}
    name = ""
    try:
        for name, value in msgspec.structs.asdict(model).items():
            if type(value) is str:
                out[name] = value if value.isascii() else _text(value)
                continue
            if value is not None and (value or not is_empty(value)):
                member = _member(value)
                if member or not is_empty(member):
                    out[name] = member
                    continue
            if name in required:
                raise _left_out()
    except ValueRefusedError as error:
        raise _under(error, name) from None
    return out


def _left_out() -> ValueRefusedError:
    """Without the member the record could not be read again."""
    return ValueRefusedError("this member cannot be empty")


@cache
def _described(model: type[msgspec.Struct]) -> tuple[str, str, frozenset[str]]:
    """Return the field and value of a class's tag, empty without one, and its required members."""
    config = model.__struct_config__
    required = frozenset(field.name for field in fields(model) if field.required)
    return (config.tag_field or "", str(config.tag), required)


def is_empty(value: Any) -> bool:
    """Tell whether a value is one that is never written as a top-level member."""
    return not value and (value is None or isinstance(value, tuple | list | dict))


def _member(value: Any) -> Any:
    kind = type(value)
    if kind is dict or kind is float or kind is bool or kind is int:
        return _checked(value, 1)
    if isinstance(value, tuple):
        return [_of_ours(part, 0) for part in value]
    return _of_ours(value, 1)


def _of_ours(value: Any, depth: int) -> Any:
    if isinstance(value, msgspec.Struct):
        return plain(value)
    if isinstance(value, str):
        return _checked(str(value), depth)  # an enum member of ours is text
    return _checked(value, depth)


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


def encode_foreign(value: Any) -> Any:
    """Return a foreign value in the reversible form; values that need none are unchanged.

    Raises:
        ValueRefusedError: If an integer has more digits than Python prints.
    """
    kind = type(value)
    if kind is dict:
        return {_escaped(key): encode_foreign(part) for key, part in value.items()}
    if kind is list or kind is tuple:
        return [encode_foreign(part) for part in value]
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


def decode_foreign(value: Any) -> Any:
    """Return the foreign value that ``carry`` was given.

    Raises:
        ValueRefusedError: If a carried form is not one that ``carry`` makes.
    """
    if type(value) is list:
        return [decode_foreign(part) for part in value]
    if type(value) is not dict:
        return value
    if len(value) == 1:
        ((key, text),) = value.items()
        if key in (_INT, _FLOAT, _BYTES):
            return _restored(key, text)
    return {_unescaped(key): decode_foreign(part) for key, part in value.items()}


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
