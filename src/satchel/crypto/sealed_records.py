"""Sealed records, one or many: a value, its canonical bytes and its content address.

The ID is computed over the value as it is, never over a model object, so members unknown to this
version keep their place and the ID stays valid. ``seal_many`` and ``open_many`` do the same work
for many entries at once; entries that are unusual in any way take the slow path, which reports
problems. Source: docs/spec/2-records.md.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from functools import cache, cached_property
from itertools import chain
from operator import attrgetter
from typing import Any, Final, NamedTuple, cast

import msgspec
from blake3 import blake3
from msgspec.structs import force_setattr

from satchel.crypto.canonical import (
    DEFAULT_LIMITS,
    MAX_DEPTH,
    SMALLEST,
    Limits,
    canonical_checked,
    check_record,
    check_value,
    decode_canonical,
    encode_lines,
    encode_sorted,
    has_plain_layout,
    is_empty,
    is_ordinary,
    over_bounds,
    plain,
    plain_float,
)
from satchel.errors import MalformedError, UsageError, ValueRefusedError
from satchel.model.records import (
    ENTRY_CLASSES,
    RECORD_CLASSES,
    TIMES,
    AnyRecord,
    Embedding,
    Entry,
    Model,
    PlainSemantic,
    Semantic,
)
from satchel.model.values import (
    ENTRY_TYPES,
    ID_PREFIX,
    Component,
    are_canonical_times,
    is_hex,
    now,
    parse_as,
    resolved,
    shape_problem,
)

_decode_plain = msgspec.json.Decoder(resolved(AnyRecord), float_hook=plain_float).decode
# Members that are numbers in the model; a hook sees only those in free JSON.
_NUMBERS = ("salience", "confidence", "weight")
_numbers_of = {
    cls: [name for name in _NUMBERS if name in cls.__struct_fields__]
    for cls in RECORD_CLASSES.values()
}


def digest(data: bytes) -> str:
    """Return ``blake3:`` and 64 hex digits of BLAKE3-256."""
    return ID_PREFIX + blake3(data).hexdigest()


class Sealed:
    """One record with its ID; equal if the canonical bytes are equal.

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
        """The record as JSON, with members unknown to this version."""
        return cast("dict[str, Any]", msgspec.json.decode(self.body))

    @cached_property
    def model(self) -> Model:
        """The record as a typed value, without members unknown to this version."""
        return _known_shape(self.body) or as_model(self.value)

    @property
    def unknown(self) -> dict[str, Any]:
        """Top-level members unknown to this version."""
        known = known_members(self.type)
        return {name: part for name, part in self.value.items() if name not in known}


def known_members(record_type: str) -> frozenset[str]:
    """Return the names of the known members of a record type."""
    cls = RECORD_CLASSES.get(record_type)
    return frozenset() if cls is None else _MEMBERS[record_type]


_MEMBERS = {
    name: frozenset({*cls.__struct_fields__, "type"}) for name, cls in RECORD_CLASSES.items()
}


def open_record(line: bytes, *, limits: Limits = DEFAULT_LIMITS) -> tuple[Sealed, Model]:
    """Return the record with canonical bytes ``line``, completely verified.

    Raises:
        MalformedError: If the bytes are not canonical, the shape is wrong, or the ID is not that of
            the content.
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
            "the ID does not match the content",
            field="id",
            hint="The record was changed after it was sealed: get it again from its source.",
        )
    return record, model


def open_shape(line: bytes, *, limits: Limits = DEFAULT_LIMITS) -> tuple[Sealed, Model]:
    """As ``open_record``, without verifying the ID.

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
    """Return the typed value of canonical bytes, without verifying limits and ID.

    Raises:
        MalformedError: If the bytes are not canonical or the shape is wrong.
    """
    return _known_shape(line) or as_model(_object(line))


def _known_shape(line: bytes) -> Model | None:
    """Return the typed value if that alone shows the bytes canonical; the fast, common case.

    If the typed value encodes to the same bytes, they contain no unknown member, no duplicate key
    and no other spelling. Other bytes take the general path.
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
    """Return whether a record's ID is the hash of its other members."""
    return record.id == ID_PREFIX + hash_without_id(record.body, record.id).hex()


def hash_without_id(line: bytes, identity: str) -> bytes:
    """Return the required hash of a record's ID, from its canonical bytes.

    The text of the ID is cut out of the bytes, which is faster than encoding again; ``type`` always
    follows it. If the same text occurred twice, no cut could give a hash equal to the ID, since the
    hashed bytes would contain that hash.
    """
    return blake3(line.replace(b'"id":"%b",' % identity.encode(), b"", 1)).digest()


def as_model(value: dict[str, Any]) -> Model:
    """Return a record's typed value.

    A foreign record may have null members; they count as absent.

    Raises:
        MalformedError: If the type is unknown or a member has the wrong type.
    """
    if None in value.values():
        value = {name: part for name, part in value.items() if part is not None}
    return parse_as(AnyRecord, value, "not a record")  # type: ignore[arg-type]


_decode_typed = msgspec.json.Decoder(resolved(AnyRecord)).decode

# As long as an ID, and not a possible text in a record.
STAND_IN = ID_PREFIX + os.urandom(32).hex()
STAND_IN_MEMBER = b'"id":"%b",' % STAND_IN.encode()
_NONCE_DIGITS = 32
ENTRY_TAGS: dict[type[Model], str] = {cls: name.value for name, cls in ENTRY_CLASSES.items()}

Nonces = Callable[[], str]
"""Returns a new 128-bit nonce, 32 lower-case hex digits, at each call."""


def random_nonce() -> str:
    """Return 128 random bits."""
    return os.urandom(16).hex()


def seeded_nonces(seed: bytes) -> Nonces:
    """Return nonces derived from ``seed``: the same seed gives the same sequence.

    For an import that may be resumed; the seed must be random, secret, and deleted when the import
    is committed.
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
    """Return a draft as a record with nonce and ID.

    Args:
        draft: A record value; an existing nonce is used, an existing ID must be correct.
        nonces: Returns a new nonce.
        unknown: Further members, written at the top level.
        limits: The limits of a record.

    Raises:
        ValueRefusedError: If the value has no canonical form, or a member has the wrong type.
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
    """Return the record if the encoder's bytes are certainly canonical; None otherwise."""
    if not is_ordinary(draft):
        return None
    copied = copy(draft)
    force_setattr(copied, "nonce", nonce)  # on a private copy
    force_setattr(copied, "id", STAND_IN)
    try:
        line = encode_sorted(copied)
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
        # The members of a struct created in a program are not verified before.
        model = _decode_typed(body)
    except msgspec.ValidationError as error:
        problem, field = shape_problem(error)
        raise ValueRefusedError(f"readers would reject this: {problem}", field=field) from None
    check_record(model, len(body), limits)
    return Sealed(identity, value["type"], body)


def _with_id(line: bytes) -> tuple[str, bytes]:
    """Return the ID of a record with the stand-in, and the record with the ID in its place."""
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
    """Return a new entry derived from ``parents`` (the paper's ``derive``, section 3.2).

    Args:
        parents: The entries it is derived from, at least one.
        fields: Its members; ``type`` is one of the five components. ``created_at`` is the current
            time by default.
        nonces: Returns its nonce.

    Raises:
        UsageError: If there is no parent, a parent is not an entry, or the type is not a component.
        MalformedError: If a member has the wrong type.
    """
    component = fields.get("type")
    if not isinstance(component, str) or component not in set(Component):
        raise UsageError(f"the type must be one of {', '.join(Component)}", field="type")
    if not parents or any(parent.type not in set(Component) for parent in parents):
        raise UsageError("an entry must derive from at least one entry", field="parent_ids")
    entry_members = {"created_at": now(), **fields, "parent_ids": [parent.id for parent in parents]}
    cls = ENTRY_CLASSES[Component(component)]
    members = known_members(component)
    known = {name: part for name, part in entry_members.items() if name in members}
    unknown = {name: part for name, part in entry_members.items() if name not in members}
    try:
        entry: Entry = msgspec.convert(known, resolved(cls))
    except msgspec.ValidationError as error:
        raise MalformedError(f"not an entry: {error}") from None
    return seal(entry, nonces=nonces, unknown=unknown)


_times_of, _nonce_of = attrgetter(*TIMES), attrgetter("nonce")
_salience_of, _confidence_of = attrgetter("salience"), attrgetter("confidence")
_id_of, _data_of = attrgetter("id"), attrgetter("data")
UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
# A number of sixteen digits in a batch, after digits are made equal, signs removed, and all
# characters that can precede a number made a colon; a batch with one is processed line by line.
_FLAT = bytes.maketrans(b"123456789[,\xf0\xf1\xf2\xf3\xf4", b"000000000::" + b"\xff" * 5)
_LONG = b":" + b"0" * 16
_ASTRAL = b"\xff"
# The ID of an entry is at its first `"id":`, unless free JSON before it has one as well; then the
# hash covers other bytes than the entry without its ID, and its ID cannot be that hash, which would
# cover itself. So the entry's own ID is compared, not the text at that position.
_ID = b'"id":"blake3:'
_ID_LENGTH = len(_ID) + 64 + len(b'",')


_LEAST = 8
"""Entries of a component from which processing them together is faster."""


def is_ordinary_batch(batch: bytes) -> bool:
    """Return whether a batch has no number beyond 2^53-1 and no key beyond the BMP."""
    flat = batch.translate(_FLAT, b"-")
    return _LONG not in flat and _ASTRAL not in flat


class _Codec(NamedTuple):
    """Decoders for one entry and for many entries of one component."""

    one: Callable[[bytes], Entry]
    many: Callable[[bytes], list[Entry]]


@cache
def entry_codec(component: str) -> _Codec:
    """Return decoders for the entries of a component that skip the verification of digits."""
    cls = ENTRY_CLASSES[Component(component)]
    unchecked = msgspec.defstruct(
        cls.__name__,
        [],
        bases=(cls,),
        namespace={"__post_init__": _skip_verification},
        tag_field="type",
        tag=component,
        frozen=True,
        kw_only=True,
        omit_defaults=True,
        gc=False,  # JSON has no cycles, and tracking them costs a tenth
    )
    decoder = msgspec.json.Decoder(resolved(unchecked), float_hook=plain_float)
    return _Codec(
        cast("Callable[[bytes], Entry]", decoder.decode),
        cast("Callable[[bytes], list[Entry]]", decoder.decode_lines),
    )


def _skip_verification(entry: Entry) -> None:
    """Skip verification, which ``_have_valid_digits`` does, except of rare members."""
    if entry.parent_ids:
        Entry.__post_init__(entry)


class VerifiedEntries(NamedTuple):
    """The entries of a batch: verified ones, and those for the slow path."""

    proved: list[tuple[Entry, bytes, int]]
    """Typed value, the 32 bytes of the ID, and the position in the batch."""

    odd: list[int]
    """Positions of the others."""


def verify_entries(
    component: str, lines: list[bytes], batch: bytes, limits: Limits
) -> VerifiedEntries:
    """Verify many entries together, as far as the fast path can.

    Verified means: the bytes are canonical, every member has its type, the limits are observed, and
    the ID is the hash of the other members.

    Args:
        component: The required type of the entries.
        lines: Their bytes.
        batch: The lines joined, each with its end.
        limits: The limits of an entry.
    """
    count = len(lines)
    places, models = _read(entry_codec(component), lines, batch)
    if len(places) < len(lines):
        lines = [lines[position] for position in places]
    hashes = list(map(_hash_of_the_rest, lines))
    proved = list(zip(models, hashes, places, strict=True))
    ordinary = is_ordinary_batch(batch)
    if not (
        _have_own_ids(models, hashes)
        and None not in map(_nonce_of, models)
        and (have_no_free_json(models, batch) or (ordinary and are_shallow(lines)))
        and not any(over_bounds(*one, limits) for one in _large(models, lines, limits))
    ):
        proved = [
            parts
            for parts, line in zip(proved, lines, strict=True)
            if _is_valid(*parts[:2], line, limits, ordinary=ordinary)
        ]
    if not _have_valid_digits([model for model, _, _ in proved]):
        proved.clear()
    held = {position for _, _, position in proved}
    return VerifiedEntries(proved, [position for position in range(count) if position not in held])


def open_many(
    records: Sequence[Sealed], *, limits: Limits = DEFAULT_LIMITS
) -> list[tuple[Sealed, Model]]:
    """Return the results of ``open_record`` for each record's bytes, in order.

    Raises:
        MalformedError: If the bytes of one are not canonical, the shape is wrong, or the ID is not
            that of the content.
        LimitError: If one is too large.
    """
    if len(records) < _LEAST:
        return [open_record(record.body, limits=limits) for record in records]
    results: list[tuple[Sealed, Model] | None] = [None] * len(records)
    by_type = dict[str, list[int]]()
    for position, record in enumerate(records):
        if record.type in ENTRY_TYPES:
            by_type.setdefault(record.type, []).append(position)
    for component, places in by_type.items():
        lines = [records[position].body for position in places]
        if len(lines) < _LEAST or any(b"\n" in line for line in lines):
            continue
        for model, raw, at in verify_entries(
            component, lines, b"\n".join([*lines, b""]), limits
        ).proved:
            record = Sealed(ID_PREFIX + raw.hex(), component, lines[at])
            results[places[at]] = (record, model)
    return [
        one or open_record(record.body, limits=limits)
        for one, record in zip(results, records, strict=True)
    ]


def _read(codec: _Codec, lines: list[bytes], batch: bytes) -> tuple[Sequence[int], Sequence[Entry]]:
    """Return the entries that msgspec encodes to the same bytes, and their positions.

    Encoded values contain no line end, so equal bytes are equal line by line.
    """
    try:
        models = codec.many(batch)
        if encode_lines(models) == batch and have_plain_numbers(models):
            return range(len(models)), models
    except UNREADABLE:
        pass
    found = dict(_read_singly(codec, lines))
    return list(found), list(found.values())


def _read_singly(codec: _Codec, lines: list[bytes]) -> Iterator[tuple[int, Entry]]:
    for position, line in enumerate(lines):
        try:
            model = codec.one(line)
        except UNREADABLE:
            continue
        if encode_sorted(model) == line and have_plain_numbers([model]):
            yield position, model


def _hash_of_the_rest(line: bytes) -> bytes:
    start = line.find(_ID)
    return blake3(line[:start] + line[start + _ID_LENGTH :]).digest()


def _have_own_ids(models: Sequence[Entry], hashes: list[bytes]) -> bool:
    """Return whether each ID is its hash; all have one length, so the texts can be joined."""
    expected = ID_PREFIX + b"".join(hashes).hex("\n", 32).replace("\n", "\n" + ID_PREFIX)
    return None not in (ids := list(map(_id_of, models))) and "\n".join(ids) == expected


def have_no_free_json(models: Sequence[Entry], batch: bytes) -> bool:
    """Return whether no entry has free JSON, whose numbers can have other spellings.

    Free JSON with numbers is an object or in one, or is the data.
    """
    known = sum((one.scope is not None) + (one.origin is not None) + 1 for one in models)
    return batch.count(b"{") == known and all(one is None for one in map(_data_of, models))


def _is_valid(model: Entry, raw: bytes, line: bytes, limits: Limits, *, ordinary: bool) -> bool:
    """Return whether one entry is valid."""
    return (
        model.id == ID_PREFIX + raw.hex()
        and model.nonce is not None
        and (
            have_no_free_json([model], line)
            or (ordinary and line.count(b"{") + line.count(b"[") <= MAX_DEPTH)
            or has_plain_layout(line)
        )
        and not over_bounds(model, len(line), limits)
    )


def are_shallow(lines: Sequence[bytes]) -> bool:
    """Return whether no line can be nested too deep."""
    return all(line.count(b"{") + line.count(b"[") <= MAX_DEPTH for line in lines)


def _large(
    models: Sequence[Entry], lines: Sequence[bytes], limits: Limits
) -> Iterator[tuple[Entry, int]]:
    """Yield the entries that may exceed a limit, with their sizes."""
    sizes, bound = list(map(len, lines)), unbounded_size(limits)
    if max(sizes, default=0) > bound:
        yield from (one for one in zip(models, sizes, strict=True) if one[1] > bound)


def unbounded_size(limits: Limits) -> int:
    """Return a size in bytes up to which an entry cannot exceed a limit."""
    return min(limits.entry_bytes, limits.metadata_keys * 4, limits.tags * 3, limits.parents * 74)


def have_plain_numbers(entries: Sequence[Entry]) -> bool:
    """Return whether the numbers of the model have the only possible spelling."""
    numbers = [one for one in map(_salience_of, entries) if one is not None]
    if entries and isinstance(entries[0], Semantic):
        confidences = map(_confidence_of, cast("Sequence[Semantic]", entries))
        numbers += [one for one in confidences if one is not None]
    return not numbers or (min(numbers) >= SMALLEST and max(numbers) < 1)


def _have_valid_digits(entries: Sequence[Entry]) -> bool:
    """Return whether the nonces and times of entries are valid."""
    if not is_hex("".join(map(_nonce_of, entries))):
        return False
    # No time is empty: its length was verified.
    return are_canonical_times(list(filter(None, chain.from_iterable(map(_times_of, entries)))))


_TAGS: dict[type[Model], str] = {**ENTRY_TAGS, PlainSemantic: ENTRY_TAGS[Semantic]}
_NONCE_BYTES = 16

_STAND_IN = STAND_IN.encode()
_EMPTY = (b":{}", b":[]")
"""Empty members are omitted, at some levels."""

# In a batch with digits made equal, brackets made equal and signs removed: empty members, numbers
# of sixteen digits, text beyond the BMP. One pass, and few searches.
_FLAT_FIELDS = bytes.maketrans(b"123456789[],\xf0\xf1\xf2\xf3\xf4", b"000000000{}:" + b"\xff" * 5)
_SIGNS = (b"\xff", b":" + b"0" * 16, b"{" + b"0" * 16, b":{}")
_UNENCODABLE = (msgspec.MsgspecError, TypeError, ValueError, RecursionError)


def seal_many(
    drafts: Sequence[Model], *, nonces: Nonces = random_nonce, limits: Limits = DEFAULT_LIMITS
) -> Iterator[Sealed]:
    """Yield drafts as records with nonces and IDs, in order.

    Args:
        drafts: Some hundred record values; see ``seal``.
        nonces: Returns a new nonce for each draft without one, in order.
        limits: The limits of a record.

    Yields:
        The records; those before a refused draft are yielded first.

    Raises:
        ValueRefusedError: As ``seal``.
        LimitError: As ``seal``.
    """
    prepared = _with_nonces(drafts, nonces)
    results: list[Sealed | None] = [None] * len(drafts)
    for cls, positions in _by_class(drafts).items():
        named = [cast("Entry", prepared[position]) for position in positions]
        unsealed = [drafts[position] for position in positions]
        for position, record in zip(
            positions, _sealed(_TAGS[cls], named, unsealed, limits), strict=True
        ):
            results[position] = record
    for record, draft in zip(results, prepared, strict=True):
        yield record or seal(_without_stand_in(draft), limits=limits)


def _by_class(drafts: Sequence[Model]) -> dict[type[Model], list[int]]:
    """Return the positions of new entries by class, for classes with enough of them."""
    positions = dict[type[Model], list[int]]()
    for index, draft in enumerate(drafts):
        if type(draft) in _TAGS and draft.nonce is None and draft.id is None:
            positions.setdefault(type(draft), []).append(index)
    return {cls: places for cls, places in positions.items() if len(places) >= _LEAST}


def _with_nonces(drafts: Sequence[Model], nonces: Nonces) -> list[Model]:
    """Return copies of drafts with a nonce, and the stand-in for an ID."""
    needed = sum(draft.nonce is None for draft in drafts)
    drawn = iter(_drawn(nonces, needed))
    named = []
    for draft in drafts:
        copied = copy(draft)
        if copied.nonce is None:
            force_setattr(copied, "nonce", next(drawn))  # on a private copy
        if copied.id is None:
            force_setattr(copied, "id", STAND_IN)
        named.append(copied)
    return named


def _drawn(nonces: Nonces, count: int) -> Iterable[str]:
    if nonces is random_nonce:
        digits, width = os.urandom(_NONCE_BYTES * count).hex(), 2 * _NONCE_BYTES
        return [digits[start : start + width] for start in range(0, len(digits), width)]
    drawn = [nonces() for _ in range(count)]
    if {*map(len, drawn)} - {2 * _NONCE_BYTES} or not is_hex("".join(drawn)):
        raise ValueRefusedError("not 32 lower-case hexadecimal digits", field="nonce")
    return drawn


def _without_stand_in(draft: Model) -> Model:
    if draft.id == STAND_IN:
        force_setattr(draft, "id", None)
    return draft


def _sealed(
    tag: str, entries: list[Entry], drafts: Sequence[Model], limits: Limits
) -> list[Sealed | None]:
    """Return the records of one class; None for those that need the slow path."""
    nothing: list[Sealed | None] = [None] * len(entries)
    try:
        text = encode_lines(entries)
    except _UNENCODABLE:
        return nothing
    parts, hashed = text.split(_STAND_IN), text.replace(STAND_IN_MEMBER, b"").split(b"\n")
    if len(parts) != len(entries) + 1:
        return nothing
    ids = [ID_PREFIX + blake3(line).hexdigest() for line in hashed[:-1]]
    batch = b"".join(chain(*zip(parts, map(str.encode, ids), strict=False), parts[-1:]))
    lines = batch.split(b"\n")[:-1]
    alike: dict[int, Entry]
    if type(drafts[0]) is PlainSemantic:  # the result of reading back is known
        alike = dict(enumerate(cast("Sequence[Entry]", drafts)))
    else:
        alike = _equal_entries(
            _read_back(tag, batch, lines), drafts, _content_getter(type(drafts[0]))
        )
    if len(alike) < len(lines):
        batch = b"\n".join([*(lines[position] for position in alike), b""])
    kept = [lines[position] for position in alike]
    odd = set(_suspect_positions(batch, kept, list(alike.values()), limits))
    results = nothing
    for number, position in enumerate(alike):
        if number not in odd:
            results[position] = Sealed(ids[position], tag, lines[position])
    return results


def _read_back(tag: str, batch: bytes, lines: list[bytes]) -> list[Entry | None]:
    """Return the parsed entry of each line; None if it needs the slow path."""
    read = entry_codec(tag)
    try:
        return [*read.many(batch)]
    except UNREADABLE:
        pass
    results: list[Entry | None] = []
    for line in lines:
        try:
            results.append(read.one(line))
        except UNREADABLE:
            results.append(None)
    return results


def _equal_entries(
    models: Sequence[Entry | None],
    drafts: Sequence[Model],
    content_of: "attrgetter[tuple[Any, ...]]",
) -> dict[int, Entry]:
    """Return the entries that are equal to their drafts, by position.

    They are compared together; if that fails, one by one, so that a single ``1.0`` in a draft does
    not send its whole batch to the slow path.
    """
    whole = {position: model for position, model in enumerate(models) if model is not None}
    entries = [*whole.values()]
    unsealed = drafts if len(entries) == len(drafts) else [drafts[position] for position in whole]
    if [*map(content_of, entries)] == [*map(content_of, unsealed)] and have_plain_numbers(entries):
        return whole
    return {
        position: model
        for position, model in whole.items()
        if content_of(model) == content_of(drafts[position]) and have_plain_numbers([model])
    }


def _suspect_positions(
    batch: bytes, lines: list[bytes], models: Sequence[Entry], limits: Limits
) -> Iterator[int]:
    """Yield the positions of entries that may exceed a limit, or not be canonical."""
    bound = unbounded_size(limits)
    if max(map(len, lines), default=0) > bound:
        for position, (line, model) in enumerate(zip(lines, models, strict=True)):
            if len(line) > bound and over_bounds(model, len(line), limits):
                yield position
    flat = batch.translate(_FLAT_FIELDS, b"-")
    if not any(sign in flat for sign in _SIGNS) and are_shallow(lines):
        return
    if have_no_free_json(models, batch):
        return
    ordinary = is_ordinary_batch(batch)
    for position, line in enumerate(lines):
        if (
            line.count(b"{") + line.count(b"[") > MAX_DEPTH
            or not (ordinary or has_plain_layout(line))
            or any(sign in line for sign in _EMPTY)
        ):
            yield position


@cache
def _content_getter(cls: type[Model]) -> "attrgetter[tuple[Any, ...]]":
    """Return a getter of all members of a draft that sealing does not add."""
    return attrgetter(*(name for name in cls.__struct_fields__ if name not in ("id", "nonce")))
