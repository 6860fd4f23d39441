"""Canonical JSON, RFC 8785 (JCS): the one byte string of a value.

``msgspec`` writes it at C speed except in three places, which are recognised in the value and
sent down the slow path: numbers in exponent form, and keys beyond the Basic Multilingual Plane
(JCS sorts by UTF-16 unit, msgspec by code point).
"""

import re
from collections.abc import Callable
from functools import cache
from operator import attrgetter
from typing import Any, cast

import msgspec
from msgspec import inspect

from satchel.crypto.value_domain import MAX_DEPTH, MAX_INTEGER, check_value
from satchel.errors import MalformedError, ValueRefusedError
from satchel.model.values import resolved

_encoder = msgspec.json.Encoder(order="sorted")
encode_sorted = _encoder.encode
"""Sorted compact JSON; canonical only for values without the three exceptions above."""

encode_lines = _encoder.encode_lines
"""As ``encode_sorted``, for many values, with a line end after each."""

_decode = msgspec.json.Decoder().decode

# A number token stands first or after `":`, `[` or `,`; the digits inside "blake3:1e5..." do not.
_EXPONENT = re.compile(rb'(?:":|[\[,]|\A)-?\d[\d.]*e')
_LONG_NUMBER = re.compile(rb'(?:":|[\[,]|\A)-?\d{16}')
_ASTRAL = re.compile(rb"[\xf0-\xf4]")
# One pass that makes the rest single look-ups: digits alike, brackets alike, astral text marked.
_FLAT = bytes.maketrans(b"123456789[\xf0\xf1\xf2\xf3\xf4", b"000000000{" + b"\xff" * 5)
_SIXTEEN = b"0" * 16
_BRACKET, _MARK = b"{", b"\xff"
SMALLEST = 1e-5
"""Below this a number is written with an exponent, by one or the other."""


def canonical(value: Any) -> bytes:
    """Return the canonical bytes of any value.

    Raises:
        ValueRefusedError: If the value has no canonical form.
    """
    return canonical_checked(check_value(value))


def canonical_checked(value: Any) -> bytes:
    """Return the canonical bytes of a value from ``checked``, ``plain`` or a strict reader."""
    out = encode_sorted(value)
    # Such values have no number beyond 2^53, so every exponent is negative.
    if (b"e-" in out and _EXPONENT.search(out)) or (
        not out.isascii() and _ASTRAL.search(out) and _has_astral_key(value)
    ):
        return _slow(value).encode()
    return out


def plain_float(token: str) -> float:
    """Read a number with a fraction, as a decoder's ``float_hook``.

    Raises:
        ValueError: If the token may be spelled in another way: an integer, or with an exponent.
    """
    if token.endswith(".0") or "e" in token or "E" in token:
        raise ValueError(token)
    return float(token)


_decode_plain = msgspec.json.Decoder(float_hook=plain_float).decode


def decode_canonical(data: bytes, *, around: int = 0) -> Any:
    """Return the value of bytes that must be canonical already.

    Equality with the re-encoded value rules out duplicate keys, odd spacing and odd spelling;
    size of integers and depth are looked at separately, since a codec agrees with itself there.

    Args:
        data: The bytes.
        around: Outermost levels that do not count towards the depth.

    Raises:
        MalformedError: If the bytes are not JSON, or not canonical.
    """
    try:
        value = _decode_plain(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        pass
    else:
        if encode_sorted(value) == data and has_plain_layout(data):
            return value
    return _decode_carefully(data, around)


def _decode_carefully(data: bytes, around: int) -> Any:
    try:
        value = _decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise MalformedError(f"not JSON: {error}") from None
    except RecursionError:
        raise MalformedError(f"nesting is deeper than {MAX_DEPTH} levels") from None
    try:
        value = check_value(value, around=around)
    except ValueRefusedError as error:
        raise MalformedError(error.message, field=error.field) from None
    if _slow(value).encode() != data:
        raise MalformedError(
            "not in canonical form (RFC 8785)", hint="Was the file edited or re-formatted?"
        )
    return value


def has_plain_layout(data: bytes) -> bool:
    """Tell whether JSON that ``msgspec`` agrees with is canonical but for its fractions.

    True is certain: at most 64 brackets, so no deeper nesting; no number of 16 digits, so none
    beyond 2^53-1; no key beyond the BMP, so the order is right.
    """
    flat = data.translate(_FLAT)
    if flat.count(_BRACKET) > MAX_DEPTH:
        return False
    if _SIXTEEN in flat and _LONG_NUMBER.search(data):
        return False
    return _MARK not in flat or not _has_astral_key(_decode(data))


def _has_astral_key(value: Any) -> bool:
    if isinstance(value, dict):
        return any(
            (not key.isascii() and max(key) > "\uffff") or _has_astral_key(part)
            for key, part in value.items()
        )
    return isinstance(value, list) and any(map(_has_astral_key, value))


def _slow(value: Any) -> str:
    if isinstance(value, dict):
        members = sorted(value.items(), key=lambda member: member[0].encode("utf-16-be"))
        return "{" + ",".join(f"{_text(key)}:{_slow(part)}" for key, part in members) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_slow, value)) + "]"
    if isinstance(value, float):
        return number_text(value)
    return _text(value)


def _text(value: str | int | bool | None) -> str:  # noqa: FBT001 - a JSON scalar
    return encode_sorted(value).decode()


def number_text(value: float) -> str:
    """Return a finite number as ECMAScript prints it, which is what RFC 8785 asks for."""
    if value == 0:
        return "0"
    sign = "-" if value < 0 else ""
    digits, exponent = _shortest(abs(value))
    count = len(digits)
    if count <= exponent <= 21:  # noqa: PLR2004 - ECMA-262, Number::toString, step by step
        return sign + digits + "0" * (exponent - count)
    if 0 < exponent <= 21:  # noqa: PLR2004
        return f"{sign}{digits[:exponent]}.{digits[exponent:]}"
    if -6 < exponent <= 0:  # noqa: PLR2004
        return f"{sign}0.{'0' * -exponent}{digits}"
    mantissa = digits if count == 1 else f"{digits[0]}.{digits[1:]}"
    return f"{sign}{mantissa}e{exponent - 1:+d}"


def _shortest(value: float) -> tuple[str, int]:
    """Return the shortest digits and n such that value = 0.digits * 10^n."""
    mantissa, _, power = repr(value).partition("e")
    whole, _, fraction = mantissa.partition(".")
    fraction = fraction.rstrip("0")
    digits = (whole + fraction).lstrip("0")
    leading = len(whole + fraction) - len(digits)
    exponent = len(whole) - leading + int(power or 0)
    return digits.rstrip("0") or "0", exponent


_Check = Callable[[Any], bool]
_Checks = tuple[tuple[int, _Check], ...]
_Shape = tuple[type, ...]

# Records hold free JSON at most three levels down.
_ROOM = MAX_DEPTH - 3
_MOST_SHAPES = 4096


def is_ordinary(model: msgspec.Struct) -> bool:
    """Tell whether the sorted encoding of a model value certainly is its canonical form.

    Members that a class checks when it is made (digits of ids and times) are not looked at again.
    """
    members, shapes, _ = _described(type(model))
    values = members(model)
    shape = tuple(map(type, values))
    checks = shapes.get(shape)
    if checks is None:
        checks = _checks(type(model), shape)
        if len(shapes) < _MOST_SHAPES:
            shapes[shape] = checks
    for place, check in checks:  # noqa: SIM110 - a generator would double the time
        if not check(values[place]):
            return False
    return True


def is_plain(value: Any, room: int = _ROOM) -> bool:
    """Tell whether the sorted encoding of free JSON certainly is its canonical form.

    Args:
        value: Any value.
        room: Levels of arrays and objects that may be in it.
    """
    kind = type(value)
    if kind is dict:
        for key in value:
            if type(key) is not str or not (key.isascii() or max(key) <= "\uffff"):
                return False
        value = value.values()
    elif kind is not list:
        return _is_plain_scalar(value)
    for part in value:
        # Most are text: spare them the call.
        if type(part) is not str and not (room and is_plain(part, room - 1)):
            return False
    return True


def _is_plain_scalar(value: Any) -> bool:
    kind = type(value)
    if kind is int:
        return bool(-MAX_INTEGER <= value <= MAX_INTEGER)
    if kind is float:
        return SMALLEST <= abs(value) <= MAX_INTEGER and not value.is_integer()
    return kind is str or kind is bool or value is None


@cache
def _described(
    cls: type[msgspec.Struct],
) -> tuple[Callable[[Any], tuple[Any, ...]], dict[_Shape, _Checks], tuple[inspect.Field, ...]]:
    """Return what gives a class's members, what is known of their types, and their fields."""
    fields = cast("inspect.StructType", inspect.type_info(resolved(cls))).fields
    return attrgetter(*cls.__struct_fields__), {}, fields


def _checks(cls: type[msgspec.Struct], shape: _Shape) -> _Checks:
    """Return what to look at in members of these types, by their places."""
    _, _, fields = _described(cls)
    found = []
    for place, (field, held) in enumerate(zip(fields, shape, strict=True)):
        check = _check(field.type, held)
        if check is not _passes:
            # What is left out when it is empty, an encoder writes unless that is the default.
            left_out = field.default is None and held in (dict, list, tuple)
            found.append((place, _filled(check) if left_out else check))
    return tuple(found)


def _check(kind: inspect.Type, held: type) -> _Check:
    """Return what to look at in a member of an exact type."""
    if isinstance(kind, inspect.Metadata):
        return _check(kind.type, held)
    if isinstance(kind, inspect.UnionType):
        checks = (_check(part, held) for part in kind.types)
        return next((check for check in checks if check is not _fails), _fails)
    if isinstance(kind, inspect.AnyType):
        return _passes if held is type(None) else is_plain
    if held is tuple and isinstance(kind, inspect.VarTupleType):
        return _each(kind.item_type)
    if isinstance(kind, inspect.StructType) and held is kind.cls:
        return _part(kind)
    return _scalar_check(kind, held)


def _scalar_check(kind: inspect.Type, held: type) -> _Check:
    match kind:
        case inspect.NoneType() if held is type(None):
            return _passes
        case inspect.StrType(pattern=None) if held is str:
            return _passes
        case inspect.EnumType() if held is kind.cls:
            return _passes
        case inspect.LiteralType() if held is str:
            return kind.values.__contains__
        case inspect.FloatType(ge=0, le=1) if held is float:
            return _is_unit
        case inspect.DictType() if held is dict:
            return is_plain
    return _fails


def _passes(_: Any) -> bool:
    return True


def _fails(_: Any) -> bool:
    return False


def _filled(check: _Check) -> _Check:
    return lambda value: bool(value) and check(value)


def _is_unit(value: float) -> bool:
    return SMALLEST <= value < 1


def _part(kind: inspect.StructType) -> _Check:
    if any(field.required for field in kind.fields):
        return is_ordinary
    empty = kind.cls()
    return lambda part: part != empty and is_ordinary(part)


def _each(kind: inspect.Type) -> _Check:
    return lambda parts: not parts or all(_check(kind, type(part))(part) for part in parts)
