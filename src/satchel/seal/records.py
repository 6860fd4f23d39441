"""Sealed records: a value, its canonical bytes and its content address.

The id is computed over the value as it is, never over a model object, so members that this
version does not know keep their place and the id holds. Source: docs/spec/2-records.md.
"""

from functools import cached_property
from typing import Any, Final, cast

import msgspec
from blake3 import blake3

from satchel.errors import MalformedError
from satchel.memory.records import RECORD_CLASSES, AnyRecord, Embedding, Model
from satchel.seal.encoding.jcs import (
    SMALLEST,
    decode_canonical,
    encode_sorted,
    has_plain_layout,
    plain_float,
)
from satchel.seal.limits import DEFAULT_LIMITS, Limits, check_record
from satchel.type_info import resolved

PREFIX = "blake3:"
"""What every content address starts with."""

_decode_plain = msgspec.json.Decoder(resolved(AnyRecord), float_hook=plain_float).decode
# Members that are numbers in the model; a hook sees only those in free JSON.
_NUMBERS = ("salience", "confidence", "weight")
_numbers_of = {
    cls: [name for name in _NUMBERS if name in cls.__struct_fields__]
    for cls in RECORD_CLASSES.values()
}


def digest(data: bytes) -> str:
    """Return ``blake3:`` and 64 hex digits of BLAKE3-256."""
    return PREFIX + blake3(data).hexdigest()


class Sealed:
    """One record with its id; equal to another when the canonical bytes are equal.

    Args:
        identity: The content address.
        record_type: The value of ``type``.
        body: The canonical bytes, id and nonce included.
    """

    def __init__(self, identity: str, record_type: str, body: bytes) -> None:
        self.id: Final = identity
        self.type: Final = record_type
        self.body: Final = body

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sealed) and self.body == other.body

    def __hash__(self) -> int:
        return hash(self.id)

    def __repr__(self) -> str:
        return f"Sealed({self.type}, {self.id})"

    @cached_property
    def value(self) -> dict[str, Any]:
        """The record as JSON; members unknown to this version included."""
        return cast("dict[str, Any]", msgspec.json.decode(self.body))

    @cached_property
    def model(self) -> Model:
        """The record as a typed value; members unknown to this version are not in it."""
        return _known_shape(self.body) or as_model(self.value)

    @property
    def unknown(self) -> dict[str, Any]:
        """Top-level members that this version does not know."""
        known = known_members(self.type)
        return {name: part for name, part in self.value.items() if name not in known}


def known_members(record_type: str) -> frozenset[str]:
    """Return the member names of a record type that this version knows."""
    cls = RECORD_CLASSES.get(record_type)
    return frozenset() if cls is None else _MEMBERS[record_type]


_MEMBERS = {
    name: frozenset({*cls.__struct_fields__, "type"}) for name, cls in RECORD_CLASSES.items()
}


def open_record(line: bytes, *, limits: Limits = DEFAULT_LIMITS) -> tuple[Sealed, Model]:
    """Return the record whose canonical bytes are ``line``, after checking all of it.

    Raises:
        MalformedError: If the bytes are not canonical, the shape is wrong, or the id is not that
            of the content.
        LimitError: If the record is too large.
    """
    record, model = open_shape(line, limits=limits)
    if not id_holds(record):
        if model.nonce is None:
            raise MalformedError(
                "a redacted memory, which only its own bank can contain",
                field="nonce",
                hint="It can be read there and in files, but not imported into another bank.",
            )
        raise MalformedError(
            "the ID does not match the content", field="id", hint="The record was changed."
        )
    return record, model


def open_shape(line: bytes, *, limits: Limits = DEFAULT_LIMITS) -> tuple[Sealed, Model]:
    """Do what ``open_record`` does, but leave the id to be judged by the caller.

    Raises:
        MalformedError: If the bytes are not canonical or the shape is wrong.
        LimitError: If the record is too large.
    """
    model = shape_of(line)
    check_record(model, len(line), limits)
    if model.id is None:
        raise MalformedError("a record must have an ID", field="id")
    return Sealed(model.id, str(model.__struct_config__.tag), line), model


def shape_of(line: bytes) -> Model:
    """Return the typed value of canonical bytes; bounds and id are left to the caller.

    Raises:
        MalformedError: If the bytes are not canonical or the shape is wrong.
    """
    return _known_shape(line) or as_model(_object(line))


def _known_shape(line: bytes) -> Model | None:
    """Return the typed value when that alone proves the bytes canonical; the common, fast case.

    When the typed value encodes to the very bytes, there was no unknown member, no duplicate key
    and no odd spelling in them. Anything else takes the general way.
    """
    try:
        model = _decode_plain(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    if encode_sorted(model) != line or not has_plain_layout(line):
        return None
    for name in _numbers_of[type(model)]:
        number = getattr(model, name)
        if number is not None and (number.is_integer() or abs(number) < SMALLEST):
            return None
    return None if isinstance(model, Embedding) else model


def _object(line: bytes) -> dict[str, Any]:
    value = decode_canonical(line)
    if not isinstance(value, dict):
        raise MalformedError("a record must be an object")
    return value


def id_holds(record: Sealed) -> bool:
    """Tell whether a record's id is the hash of the rest of it."""
    return record.id == PREFIX + hash_without_id(record.body, record.id).hex()


def hash_without_id(line: bytes, identity: str) -> bytes:
    """Return the hash that a record's id must be, from its canonical bytes.

    The id's own text is cut out of the bytes, which is cheaper than encoding again; ``type``
    always comes after it. Were the same text there twice, neither cut could give a hash that is
    the id, since what is hashed would hold that very hash.
    """
    return blake3(line.replace(b'"id":"%b",' % identity.encode(), b"", 1)).digest()


def as_model(value: dict[str, Any]) -> Model:
    """Return a record's typed value.

    A foreign record may hold members that are null; they count as absent.

    Raises:
        MalformedError: If the type is unknown or a member has the wrong shape.
    """
    if None in value.values():
        value = {name: part for name, part in value.items() if part is not None}
    try:
        return msgspec.convert(value, resolved(AnyRecord))  # type: ignore[no-any-return]
    except msgspec.ValidationError as error:
        problem, field = shape_problem(error)
        raise MalformedError(f"not a record: {problem}", field=field) from None


def shape_problem(error: msgspec.ValidationError) -> tuple[str, str | None]:
    """Return what is wrong and the member at fault, which msgspec says in one text."""
    message, _, path = str(error).partition(" - at `$")
    return message, path.rstrip("`").lstrip(".") or None
