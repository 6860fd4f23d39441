"""Canonical JSON, RFC 8785 (JCS): the value domain, its limits and its bytes.

Values are verified by exact type. ``msgspec`` writes canonical bytes with three exceptions:
fractions with an exponent, numbers beyond 2^53-1, and the order of keys beyond the BMP. Values with
one of these take the slow path. ``docs/spec/8-limits.md`` has the limits; all can be configured.
"""

import base64
import math
import re
from collections.abc import Callable
from functools import cache
from operator import attrgetter
from typing import Any, cast

import msgspec
from blake3 import blake3
from msgspec import inspect
from msgspec.structs import fields

from satchel.errors import LimitError, MalformedError, SatchelError, ValueRefusedError
from satchel.model.records import Entry, Model
from satchel.model.values import resolved

MAX_DEPTH = 64
"""Maximum levels of arrays and objects, the outermost included."""

MAX_INTEGER = 2**53 - 1
"""Largest magnitude of an integral number; languages disagree about larger ones."""

_SHOWN = 80  # characters of a key in a pointer; keys can be as large as files
ITEM_BYTES = 16 * 2**20
"""Largest single value in a document: bytes, or characters of JSON."""

_SURROGATE = re.compile("[\ud800-\udfff]")
_MISSING = object()


def check_value(value: Any, *, around: int = 0) -> Any:
    """Return ``value`` with integral floats as integers, after verifying every part.

    Exact types only: dict with str keys, list, str, bool, None, int, float. A tuple, bytes, a date,
    a Decimal or a subclass is refused, since an encoder would silently convert it.

    Args:
        value: Any value.
        around: Outermost levels that do not count, because they only contain the value.

    Raises:
        ValueRefusedError: With a JSON pointer to the invalid part.
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
        hint='Write it as {"$int": "<digits>"}.',
    )


def _number(value: float) -> float | int:
    if not math.isfinite(value):
        raise ValueRefusedError(
            f"{value} is not a JSON number", hint='Write it as {"$float": "NaN"}.'
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
            out.append(_checked(part, depth))  # noqa: PERF401 - errors need the index
    except ValueRefusedError as error:
        raise _under(error, len(out)) from None
    return out


def _deep() -> ValueRefusedError:
    return ValueRefusedError(f"nesting is deeper than {MAX_DEPTH} levels")


def _under(error: SatchelError, step: object) -> SatchelError:
    """Prepend one step to the error's pointer, escaped according to RFC 6901."""
    token = repr(step) if not isinstance(step, str | int) else str(step)
    token = token[:_SHOWN].encode("utf-8", "backslashreplace").decode()
    token = token.replace("~", "~0").replace("/", "~1")
    error.field = f"{token}/{error.field}" if error.field else token
    return error


def plain(model: msgspec.Struct) -> dict[str, Any]:
    """Return a model value as a verified JSON object, without members at their default.

    Only the model's own fields may be tuples or structs; user data inside them may not.

    Raises:
        ValueRefusedError: With a JSON pointer to the invalid part.
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
                raise _missing_member_error()
    except ValueRefusedError as error:
        raise _under(error, name) from None
    return out


def _missing_member_error() -> ValueRefusedError:
    """Return the error for a missing member, without which the record could not be read again."""
    return ValueRefusedError("this member cannot be empty")


@cache
def _described(model: type[msgspec.Struct]) -> tuple[str, str, frozenset[str]]:
    """Return the tag field and tag of a class, empty without one, and its required members."""
    config = model.__struct_config__
    required = frozenset(field.name for field in fields(model) if field.required)
    return (config.tag_field or "", str(config.tag), required)


def is_empty(value: Any) -> bool:
    """Return whether a value is never written as a top-level member."""
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
        return _checked(str(value), depth)  # an enum member of the model is text
    return _checked(value, depth)


_NOT_ZERO = re.compile(r"-?[0.]*[1-9]")

ABSENT: dict[str, Any] = {"$absent": True}
"""In ``origin.as_written``, means that the source's record had no such member."""

_INT, _FLOAT, _BYTES = "$int", "$float", "$bytes"
_FORMS = {
    _INT: re.compile(r"-?(?:0|[1-9][0-9]*)"),
    # As JSON writes a number, or as Python names one that JSON cannot write.
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
    """Return the reversible form of an integer of any size, from its digits."""
    return {_INT: digits}


def carried_float(text: str) -> dict[str, str]:
    """Return the reversible form of a number that is not finite, or integral and too large."""
    return {_FLOAT: text}


def represents(token: str, value: float) -> bool:
    """Return whether a double represents a JSON number in a record.

    It does not if the number is too large, or so small that the double is zero.
    """
    if value == 0:
        return not _NOT_ZERO.match(token)
    return not _unholdable(value)


def escape_keys(pairs: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """Return an object's members with a further ``$`` before keys that start with one."""
    return [(_escaped(key), part) for key, part in pairs]


def decode_foreign(value: Any) -> Any:
    """Return the foreign value from the result of ``encode_foreign``.

    Raises:
        ValueRefusedError: If a reversible form is not one of ``encode_foreign``.
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
    """Return the text of a float in reversible form that no double represents; None for others.

    Raises:
        ValueRefusedError: If it is not one of ``encode_foreign``.
    """
    if len(value) != 1 or _FLOAT not in value:
        return None
    number = _restored(_FLOAT, value[_FLOAT])
    text = str(value[_FLOAT])
    return text if not math.isfinite(number) or not represents(text, number) else None


def unescape_keys(value: Any) -> Any:
    """Return the argument of ``encode_foreign`` if that had reversible forms itself.

    Forms of numbers and bytes, which it creates from no such value, stay as they are.
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


MIB = 2**20
GIB = 2**30


class Limits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits on what is read and written: sizes in bytes, counts in items."""

    entry_bytes: int = 1 * MIB
    """Canonical bytes of one record."""

    line_bytes: int = 16 * MIB
    """One line, or one value inside a document."""

    document_bytes: int = 1 * GIB
    """A whole ``.pam`` or ``.pam.cbor`` file."""

    statement_bytes: int = 1 * MIB
    signatures: int = 16
    tokens: int = 64
    parents: int = 1024
    tags: int = 256
    metadata_keys: int = 1024
    expansion: int = 200
    """Ratio of decompressed to compressed bytes, beyond ``expansion_free_bytes``."""

    expansion_free_bytes: int = 64 * MIB
    records: int = 100_000_000
    """Records in one file."""


DEFAULT_LIMITS = Limits()
"""The limits if nothing is configured."""


def over_bounds(record: Model, size: int, limits: Limits) -> bool:
    """Return whether ``check_record`` refuses a record.

    Args:
        record: The record.
        size: Length of its canonical bytes.
        limits: The limits.
    """
    return (
        size > limits.entry_bytes
        or len(record.metadata) > limits.metadata_keys
        or (
            isinstance(record, Entry)
            and (len(record.tags) > limits.tags or len(record.parent_ids) > limits.parents)
        )
    )


def check_record(record: Model, size: int, limits: Limits) -> None:
    """Refuse a record that exceeds a limit.

    Args:
        record: The record.
        size: Length of its canonical bytes.
        limits: The limits.

    Raises:
        LimitError: Naming the limit and the member.
    """
    if not over_bounds(record, size, limits):
        return
    if size > limits.entry_bytes:
        raise LimitError(
            f"a record of {size} bytes is over the limit of {limits.entry_bytes}",
            hint=f"Raise it: set limits.entry_bytes to {size} or more in the configuration, or"
            " SATCHEL_LIMITS_ENTRY_BYTES. Or skip such records: --skip-bad.",
        )
    _bound("metadata", len(record.metadata), limits.metadata_keys)
    if isinstance(record, Entry):
        _bound("parent_ids", len(record.parent_ids), limits.parents)
        _bound("tags", len(record.tags), limits.tags)


def _bound(member: str, count: int, bound: int) -> None:
    if count > bound:
        raise LimitError(f"{count} values are over the limit of {bound}", field=member)


_encoder = msgspec.json.Encoder(order="sorted")
encode_sorted = _encoder.encode
"""Sorted compact JSON; canonical only for values without the three exceptions above."""

encode_lines = _encoder.encode_lines
"""As ``encode_sorted``, for many values, each followed by a line end."""

_decode = msgspec.json.Decoder().decode

# A number token is first or follows `":`, `[` or `,`; the digits inside "blake3:1e5..." are not.
_EXPONENT = re.compile(rb'(?:":|[\[,]|\A)-?\d[\d.]*e')
_LONG_NUMBER = re.compile(rb'(?:":|[\[,]|\A)-?\d{16}')
_ASTRAL = re.compile(rb"[\xf0-\xf4]")
# One pass after which single look-ups suffice: digits equal, brackets equal, astral text marked.
_FLAT = bytes.maketrans(b"123456789[\xf0\xf1\xf2\xf3\xf4", b"000000000{" + b"\xff" * 5)
_SIXTEEN = b"0" * 16
_BRACKET, _MARK = b"{", b"\xff"
SMALLEST = 1e-5
"""Below this, one of the encoders writes a number with an exponent."""


def canonical(value: Any) -> bytes:
    """Return the canonical bytes of any value.

    Raises:
        ValueRefusedError: If the value has no canonical form.
    """
    return canonical_checked(check_value(value))


def canonical_checked(value: Any) -> bytes:
    """Return the canonical bytes of a value from ``check_value``, ``plain`` or a strict reader."""
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
        ValueError: If the token may have another spelling: an integer, or one with an exponent.
    """
    if token.endswith(".0") or "e" in token or "E" in token:
        raise ValueError(token)
    return float(token)


_decode_plain = msgspec.json.Decoder(float_hook=plain_float).decode


def decode_canonical(data: bytes, *, around: int = 0) -> Any:
    """Return the value of bytes that must be canonical.

    Equality with the re-encoded value excludes duplicate keys, other spacing and other spelling;
    size of integers and depth are verified separately, since a codec agrees with itself there.

    Args:
        data: The bytes.
        around: Outermost levels that do not count for the depth.

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
    """Return whether JSON that ``msgspec`` re-encodes identically is canonical but for fractions.

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
        return "{" + ",".join(f"{_scalar_text(key)}:{_slow(part)}" for key, part in members) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_slow, value)) + "]"
    if isinstance(value, float):
        return number_text(value)
    return _scalar_text(value)


def _scalar_text(value: str | int | bool | None) -> str:  # noqa: FBT001 - a JSON scalar
    return encode_sorted(value).decode()


def number_text(value: float) -> str:
    """Return a finite number as ECMAScript prints it, as RFC 8785 requires."""
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

# Records contain free JSON at most three levels down.
_ROOM = MAX_DEPTH - 3
_MOST_SHAPES = 4096


def is_ordinary(model: msgspec.Struct) -> bool:
    """Return whether the sorted encoding of a model value is certainly its canonical form.

    Members that a class verifies on creation (digits of IDs and times) are not verified again.
    """
    members, shapes, _ = _members_of(type(model))
    values = members(model)
    shape = tuple(map(type, values))
    checks = shapes.get(shape)
    if checks is None:
        checks = _checks(type(model), shape)
        if len(shapes) < _MOST_SHAPES:
            shapes[shape] = checks
    for place, check in checks:  # noqa: SIM110 - a generator would take twice the time
        if not check(values[place]):
            return False
    return True


def is_plain(value: Any, room: int = _ROOM) -> bool:
    """Return whether the sorted encoding of free JSON is certainly its canonical form.

    Args:
        value: Any value.
        room: Maximum levels of arrays and objects.
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
def _members_of(
    cls: type[msgspec.Struct],
) -> tuple[Callable[[Any], tuple[Any, ...]], dict[_Shape, _Checks], tuple[inspect.Field, ...]]:
    """Return a getter of a class's members, the cache of its shapes, and its fields."""
    fields = cast("inspect.StructType", inspect.type_info(resolved(cls))).fields
    return attrgetter(*cls.__struct_fields__), {}, fields


def _checks(cls: type[msgspec.Struct], shape: _Shape) -> _Checks:
    """Return the checks of members of these types, by position."""
    _, _, fields = _members_of(cls)
    checks = []
    for position, (field, value_type) in enumerate(zip(fields, shape, strict=True)):
        check = _check(field.type, value_type)
        if check is not _passes:
            # An encoder writes an empty member that is omitted here, unless empty is its default.
            left_out = field.default is None and value_type in (dict, list, tuple)
            checks.append((position, _filled(check) if left_out else check))
    return tuple(checks)


def _check(kind: inspect.Type, value_type: type) -> _Check:
    """Return the check of a member of an exact type."""
    if isinstance(kind, inspect.Metadata):
        return _check(kind.type, value_type)
    if isinstance(kind, inspect.UnionType):
        checks = (_check(part, value_type) for part in kind.types)
        return next((check for check in checks if check is not _fails), _fails)
    if isinstance(kind, inspect.AnyType):
        return _passes if value_type is type(None) else is_plain
    if value_type is tuple and isinstance(kind, inspect.VarTupleType):
        return _each(kind.item_type)
    if isinstance(kind, inspect.StructType) and value_type is kind.cls:
        return _part(kind)
    return _scalar_check(kind, value_type)


def _scalar_check(kind: inspect.Type, value_type: type) -> _Check:
    match kind:
        case inspect.NoneType() if value_type is type(None):
            return _passes
        case inspect.StrType(pattern=None) if value_type is str:
            return _passes
        case inspect.EnumType() if value_type is kind.cls:
            return _passes
        case inspect.LiteralType() if value_type is str:
            return kind.values.__contains__
        case inspect.FloatType(ge=0, le=1) if value_type is float:
            return _is_unit
        case inspect.DictType() if value_type is dict:
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


_NONCE = b'"nonce":"'
_NONCE_LENGTH = len(_NONCE) + 32 + len(b'",')


def fingerprint(identity: str, body: bytes) -> bytes:
    """Return the hash of a record without its ID and nonce (docs/spec/2-records.md, 2.7), 32 bytes.

    Args:
        identity: ID of the record.
        body: Its canonical bytes.
    """
    member = f'"id":"{identity}",'.encode()
    start = body.find(member)
    after = start + len(member) if start >= 0 else 0
    nonce = body.find(_NONCE)
    if nonce < after or body.find(_NONCE, nonce + 1) >= 0:  # free JSON may have one of its own
        value = msgspec.json.decode(body)
        said = {name: part for name, part in value.items() if name not in ("id", "nonce")}
        return blake3(canonical_checked(said)).digest()
    before = body[:start] if start > 0 else b""
    return blake3(before + body[after:nonce] + body[nonce + _NONCE_LENGTH :]).digest()
