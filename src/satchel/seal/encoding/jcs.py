"""Canonical JSON, RFC 8785 (JCS): the one byte string of a value.

``msgspec`` writes it at C speed except in three places, which are recognised in the value and
sent down the slow path: numbers in exponent form, and keys beyond the Basic Multilingual Plane
(JCS sorts by UTF-16 unit, msgspec by code point).
"""

import re
from collections.abc import Callable
from operator import attrgetter
from typing import Any

import msgspec

from satchel.errors import MalformedError, ValueRefusedError
from satchel.seal.encoding.domain import MAX_DEPTH, MAX_INTEGER, checked

encode_sorted = msgspec.json.Encoder(order="sorted").encode
"""Sorted compact JSON; canonical only for values without the three exceptions above."""

_decode = msgspec.json.Decoder().decode

# A number token stands first or after `":`, `[` or `,`; the digits inside "blake3:1e5..." do not.
_EXPONENT = re.compile(rb'(?:":|[\[,]|\A)-?\d[\d.]*e')
_ASTRAL = re.compile(rb"[\xf0-\xf4]")
SMALLEST = 1e-5
"""Below this a number is written with an exponent, by one or the other."""


def canonical(value: Any) -> bytes:
    """Return the canonical bytes of any value.

    Raises:
        ValueRefusedError: If the value has no canonical form.
    """
    return canonical_checked(checked(value))


def canonical_checked(value: Any) -> bytes:
    """Return the canonical bytes of a value from ``checked``, ``plain`` or a strict reader."""
    out = encode_sorted(value)
    if not is_odd(value):
        return out
    if _EXPONENT.search(out) or (_ASTRAL.search(out) and _has_astral_key(value)):
        return _slow(value).encode()
    return out


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
        value = _decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise MalformedError(f"not JSON: {error}") from None
    except RecursionError:
        raise MalformedError(f"nesting is deeper than {MAX_DEPTH} levels") from None
    if not is_odd(value) and encode_sorted(value) == data:
        return value
    try:
        value = checked(value, around=around)
    except ValueRefusedError as error:
        raise MalformedError(error.message, field=error.field) from None
    if _slow(value).encode() != data:
        raise MalformedError(
            "not in canonical form (RFC 8785)", hint="Was the file edited or re-formatted?"
        )
    return value


def is_odd(value: Any, depth: int = MAX_DEPTH) -> bool:
    """Tell whether what ``msgspec`` makes of a value might not be canonical.

    False is certain: no number that it writes in another way, none beyond the range, no key that
    it sorts in another way, no nesting beyond ``depth``. Of a struct only the members are looked
    at that may hold such a thing. Values of other types count as odd.
    """
    level, below = [value], list[Any]()
    while level:
        for part in level:
            kind = type(part)
            if kind is str or part is None or kind is bool:
                continue
            if kind is float:
                if part.is_integer() or -SMALLEST < part < SMALLEST:
                    return True
            elif kind is int:
                if not -MAX_INTEGER <= part <= MAX_INTEGER:
                    return True
            elif depth <= 0 or not _opened(part, kind, below):
                return True
        level, below, depth = below, [], depth - 1
    return False


def _opened(part: Any, kind: type, below: list[Any]) -> bool:
    """Add what is in a part to ``below``; False where it has a key sorted in another way."""
    if kind is dict:
        below += part.values()
        return "".join(part).isascii() or not any(map(_is_astral, part))
    if kind is list or kind is tuple:
        below += part
        return True
    if isinstance(part, msgspec.Struct):
        below += (_FREE.get(kind) or _find_free(kind))(part)
        return True
    return isinstance(part, str)  # an enum member is text


_FREE: dict[type, Callable[[Any], tuple[Any, ...]]] = {}


def _find_free(cls: type[msgspec.Struct]) -> Callable[[Any], tuple[Any, ...]]:
    # Of two names or more an attrgetter gives a tuple.
    first = cls.__struct_fields__[0]
    _FREE[cls] = attrgetter(*free_members(cls), first, first)
    return _FREE[cls]


def free_members(cls: type[msgspec.Struct]) -> list[str]:
    """Return the members of a class that hold numbers or free JSON."""
    from msgspec import inspect

    def free(kind: inspect.Type) -> bool:
        if isinstance(kind, inspect.Metadata):
            return free(kind.type)
        if isinstance(kind, inspect.UnionType):
            return any(map(free, kind.types))
        if isinstance(kind, inspect.VarTupleType):
            return free(kind.item_type)
        if isinstance(kind, inspect.StructType):
            return any(free(field.type) for field in kind.fields)
        return not isinstance(
            kind, inspect.StrType | inspect.NoneType | inspect.LiteralType | inspect.EnumType
        )

    described = inspect.type_info(cls)
    assert isinstance(described, inspect.StructType)  # noqa: S101 - as a struct's description is
    return [field.name for field in described.fields if free(field.type)]


def _is_astral(key: str) -> bool:
    return not key.isascii() and max(key) > "\uffff"


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
