"""Sealed records: a value, its canonical bytes and its content address.

The id is computed over the value as it is, never over a model object, so members that this
version does not know keep their place and the id holds. Source: docs/spec/2-records.md.
"""

import os
from collections.abc import Callable, Sequence
from copy import copy
from functools import cached_property
from typing import Any, Final, cast

import msgspec
from blake3 import blake3
from msgspec.structs import force_setattr

from satchel.crypto.canonical import (
    SMALLEST,
    canonical_checked,
    decode_canonical,
    encode_sorted,
    has_plain_layout,
    is_ordinary,
    plain_float,
)
from satchel.crypto.limits import DEFAULT_LIMITS, Limits, check_record
from satchel.crypto.value_domain import check_value, is_empty, plain
from satchel.errors import MalformedError, UsageError, ValueRefusedError
from satchel.model.records import ENTRY_CLASSES, RECORD_CLASSES, AnyRecord, Embedding, Entry, Model
from satchel.model.values import Component, is_hex, now, resolved

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
    if not has_valid_id(record):
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
    model = decode_record(line)
    check_record(model, len(line), limits)
    if model.id is None:
        raise MalformedError("a record must have an ID", field="id")
    return Sealed(model.id, str(model.__struct_config__.tag), line), model


def decode_record(line: bytes) -> Model:
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


def has_valid_id(record: Sealed) -> bool:
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


_decode_typed = msgspec.json.Decoder(resolved(AnyRecord)).decode

# As long as an id, and nothing that a record could hold.
STAND_IN = PREFIX + os.urandom(32).hex()
STAND_IN_MEMBER = b'"id":"%b",' % STAND_IN.encode()
_NONCE_DIGITS = 32
ENTRY_TAGS: dict[type[Model], str] = {cls: name.value for name, cls in ENTRY_CLASSES.items()}

Nonces = Callable[[], str]
"""Gives a new 128-bit nonce, 32 lower-case hex digits, at each call."""


def random_nonce() -> str:
    """Return 128 random bits."""
    return os.urandom(16).hex()


def seeded_nonces(seed: bytes) -> Nonces:
    """Return nonces drawn from ``seed``: the same seed gives the same row.

    For an import that may be resumed; the seed must be random, kept secret, and deleted when the
    import commits.
    """
    stream = blake3(seed, derive_key_context="satchel 2026 import nonces")
    position = 0

    def draw() -> str:
        nonlocal position
        position += 16
        return stream.digest(length=16, seek=position - 16).hex()

    return draw


def seal(
    draft: Model,
    *,
    nonces: Nonces = random_nonce,
    unknown: dict[str, Any] | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> Sealed:
    """Give a draft its nonce and its id.

    Args:
        draft: A record value; a nonce it has is kept, an id it has must be right.
        nonces: Where a new nonce comes from.
        unknown: Members beyond the model, written at the top level.
        limits: The bounds on a record.

    Raises:
        ValueRefusedError: If the value has no canonical form, or a member has the wrong shape.
        LimitError: If the record is too large.
    """
    nonce = nonces() if draft.nonce is None else draft.nonce
    ours = draft.nonce is None and nonces is random_nonce
    sound = ours or (len(nonce) == _NONCE_DIGITS and is_hex(nonce))
    if not unknown and draft.id is None and sound and type(draft) in ENTRY_TAGS:
        record = _sealed_quickly(cast("Entry", draft), nonce, limits)
        if record is not None:
            return record
    return _sealed_carefully(draft, nonce, unknown, limits)


def _sealed_quickly(draft: Entry, nonce: str, limits: Limits) -> Sealed | None:
    """Return the record where the encoder's bytes certainly are those of the careful way."""
    if not is_ordinary(draft):
        return None
    made = copy(draft)
    force_setattr(made, "nonce", nonce)  # on a copy that nobody else has seen
    force_setattr(made, "id", STAND_IN)
    try:
        line = encode_sorted(made)
    except UnicodeEncodeError:  # a lone surrogate
        return None
    check_record(draft, len(line), limits)
    identity, body = _with_id(line)
    return Sealed(identity, ENTRY_TAGS[type(draft)], body)


def _sealed_carefully(
    draft: Model, nonce: str, unknown: dict[str, Any] | None, limits: Limits
) -> Sealed:
    value = plain(draft)
    if unknown:
        _add_unknown(value, unknown)
    value.setdefault("nonce", nonce)
    claimed = value.pop("id", None)
    identity, body = _with_id(canonical_checked({**value, "id": STAND_IN}))
    if claimed is not None and claimed != identity:
        raise ValueRefusedError(
            f"the ID does not match the content, whose ID is {identity}", field="id"
        )
    try:
        # A struct made in a program is not checked by anyone before.
        made = _decode_typed(body)
    except msgspec.ValidationError as error:
        problem, field = shape_problem(error)
        raise ValueRefusedError(f"readers would reject this: {problem}", field=field) from None
    check_record(made, len(body), limits)
    return Sealed(identity, value["type"], body)


def _with_id(line: bytes) -> tuple[str, bytes]:
    """Return the id of a record around the stand-in, and the record with it in its place."""
    before, _, after = line.partition(STAND_IN_MEMBER)
    identity = digest(before + after)
    return identity, b'%b"id":"%b",%b' % (before, identity.encode(), after)


def _add_unknown(value: dict[str, Any], unknown: dict[str, Any]) -> None:
    clash = sorted(known_members(value["type"]) & unknown.keys())
    if clash:
        raise ValueRefusedError("not an unknown member", field=clash[0])
    value.update(check_value({name: part for name, part in unknown.items() if not is_empty(part)}))


def derive(
    parents: Sequence[Sealed], fields: dict[str, Any], *, nonces: Nonces = random_nonce
) -> Sealed:
    """Make a new entry that was drawn from ``parents`` (the paper's ``derive``, section 3.2).

    Args:
        parents: The entries it comes from, at least one.
        fields: Its members; ``type`` is one of the five components. ``created_at`` is now unless
            given.
        nonces: Where its nonce comes from.

    Raises:
        UsageError: If there is no parent, a parent is not an entry, or the type is not a component.
        MalformedError: If a member has the wrong shape.
    """
    component = fields.get("type")
    if not isinstance(component, str) or component not in set(Component):
        raise UsageError(f"the type must be one of {', '.join(Component)}", field="type")
    if not parents or any(parent.type not in set(Component) for parent in parents):
        raise UsageError("an entry must derive from at least one entry", field="parent_ids")
    made = {"created_at": now(), **fields, "parent_ids": [parent.id for parent in parents]}
    cls = ENTRY_CLASSES[Component(component)]
    members = known_members(component)
    known = {name: part for name, part in made.items() if name in members}
    unknown = {name: part for name, part in made.items() if name not in members}
    try:
        entry: Entry = msgspec.convert(known, resolved(cls))
    except msgspec.ValidationError as error:
        raise MalformedError(f"not an entry: {error}") from None
    return seal(entry, nonces=nonces, unknown=unknown)
