"""Canonical JSON, RFC 8785 (JCS): the one byte string of a value.

``msgspec`` writes it at C speed except in three places, which are recognised in its output and
sent down the slow path: numbers in exponent form, and keys beyond the Basic Multilingual Plane
(JCS sorts by UTF-16 unit, msgspec by code point).
"""

import re
from typing import Any

import msgspec

from satchel.errors import MalformedError, ValueRefusedError
from satchel.seal.encoding.domain import MAX_DEPTH, checked

encode_sorted = msgspec.json.Encoder(order="sorted").encode
"""Sorted compact JSON; canonical only for values without the three exceptions above."""

_decode = msgspec.json.Decoder().decode

# A number token stands first or after `":`, `[` or `,`; the digits inside "blake3:1e5..." do not.
_EXPONENT = re.compile(rb'(?:":|[\[,]|\A)-?\d[\d.]*e')
_ODD_NUMBER = re.compile(rb'(?:":|[\[,]|\A)-?(?:\d[\d.]*e|\d{16}|\d+\.0+(?:[,\]}]|\Z))')
_ASTRAL = re.compile(rb"[\xf0-\xf4]")


def canonical(value: Any) -> bytes:
    """Return the canonical bytes of any value.

    Raises:
        ValueRefusedError: If the value has no canonical form.
    """
    return canonical_checked(checked(value))


def canonical_checked(value: Any) -> bytes:
    """Return the canonical bytes of a value from ``checked``, ``plain`` or a strict reader."""
    out = encode_sorted(value)
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
    odd = _odd_numbers_or_depth(data) or (_ASTRAL.search(data) and _has_astral_key(value))
    if not odd and encode_sorted(value) == data:
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


def looks_odd(data: bytes) -> bool:
    """Tell whether bytes that ``msgspec`` agrees with might still not be canonical.

    False is certain; true may be a false alarm.
    """
    return _odd_numbers_or_depth(data) or _ASTRAL.search(data) is not None


def _odd_numbers_or_depth(data: bytes) -> bool:
    return _ODD_NUMBER.search(data) is not None or data.count(b"{") + data.count(b"[") > MAX_DEPTH


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
