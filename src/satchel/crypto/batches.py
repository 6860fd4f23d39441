"""Many entries at once: the same checks as one by one, with what can be shared done together.

Whatever is out of the ordinary in an entry is left to the careful way, ``records.shape_of``, which
says what is wrong and where.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from functools import cache
from itertools import chain
from operator import attrgetter
from typing import Any, NamedTuple, cast

import msgspec
from blake3 import blake3
from msgspec.structs import force_setattr

from satchel.crypto.canonical import (
    SMALLEST,
    encode_lines,
    encode_sorted,
    has_plain_layout,
    plain_float,
)
from satchel.crypto.limits import DEFAULT_LIMITS, Limits, over_bounds
from satchel.crypto.sealed_records import (
    ENTRY_TAGS,
    PREFIX,
    STAND_IN,
    STAND_IN_MEMBER,
    Nonces,
    Sealed,
    open_record,
    random_nonce,
    seal,
)
from satchel.crypto.value_domain import MAX_DEPTH
from satchel.errors import ValueRefusedError
from satchel.model.records import ENTRY_CLASSES, TIMES, Entry, Model, PlainSemantic, Semantic
from satchel.model.values import Component, are_canonical_times, is_hex, resolved

_times_of, _nonce_of = attrgetter(*TIMES), attrgetter("nonce")
_salience_of, _confidence_of = attrgetter("salience"), attrgetter("confidence")
_id_of, _data_of = attrgetter("id"), attrgetter("data")
UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
# A number of sixteen digits in a batch, once digits are alike, signs gone and what can stand
# before a number is a colon; a batch with one is looked at line by line.
_FLAT = bytes.maketrans(b"123456789[,\xf0\xf1\xf2\xf3\xf4", b"000000000::" + b"\xff" * 5)
_LONG = b":" + b"0" * 16
_ASTRAL = b"\xff"
# The id of an entry stands at its first `"id":`, unless free JSON before it has one as well; then
# the hash is of something else than the rest of the entry, and its own id cannot be that hash,
# which would be over itself. So it is the entry's own id that is compared, not what stands there.
_ID = b'"id":"blake3:'
_ID_LENGTH = len(_ID) + 64 + len(b'",')


_COMPONENTS = frozenset(map(str, Component))
_LEAST = 8
"""Entries of a component from which it is worth it to look at them together."""


def is_ordinary(batch: bytes) -> bool:
    """Tell whether a batch has no number beyond 2^53-1 and no key beyond the BMP."""
    flat = batch.translate(_FLAT, b"-")
    return _LONG not in flat and _ASTRAL not in flat


class _Codec(NamedTuple):
    """Reads many entries of one component, and writes them as msgspec would."""

    one: Callable[[bytes], Entry]
    many: Callable[[bytes], list[Entry]]


@cache
def codec(component: str) -> _Codec:
    """Return decoders for the entries of a component that leave their digits to later."""
    cls = ENTRY_CLASSES[Component(component)]
    unchecked = msgspec.defstruct(
        cls.__name__,
        [],
        bases=(cls,),
        namespace={"__post_init__": _later},
        tag_field="type",
        tag=component,
        frozen=True,
        kw_only=True,
        omit_defaults=True,
        gc=False,  # JSON has no cycles, and looking for them costs a tenth
    )
    decoder = msgspec.json.Decoder(resolved(unchecked), float_hook=plain_float)
    return _Codec(
        cast("Callable[[bytes], Entry]", decoder.decode),
        cast("Callable[[bytes], list[Entry]]", decoder.decode_lines),
    )


def _later(entry: Entry) -> None:
    """Leave the checks of one entry to ``_digits_hold``, except of what is rarely there."""
    if entry.parent_ids:
        Entry.__post_init__(entry)


class SortedBatch(NamedTuple):
    """The entries of a batch: those that are proved, and those that need the careful way."""

    proved: list[tuple[Entry, bytes, int]]
    """Typed value, the 32 bytes of the id, and the place in the batch."""

    odd: list[int]
    """Places of the others."""


def sort(component: str, lines: list[bytes], batch: bytes, limits: Limits) -> SortedBatch:
    """Prove what can be proved of many entries in few steps.

    Proved means: the bytes are canonical, every member has its type and shape, the bounds hold,
    and the id is the hash of the rest.

    Args:
        component: The type that the entries should have.
        lines: Their canonical bytes, as claimed.
        batch: The lines again, each with its end.
        limits: The bounds on an entry.
    """
    count = len(lines)
    places, models = _read(codec(component), lines, batch)
    if len(places) < len(lines):
        lines = [lines[place] for place in places]
    hashes = list(map(_hash_of_the_rest, lines))
    proved = list(zip(models, hashes, places, strict=True))
    ordinary = is_ordinary(batch)
    if not (
        _have_own_ids(models, hashes)
        and None not in map(_nonce_of, models)
        and (hold_no_free_json(models, batch) or (ordinary and are_shallow(lines)))
        and not any(over_bounds(*one, limits) for one in _large(models, lines, limits))
    ):
        proved = [
            found
            for found, line in zip(proved, lines, strict=True)
            if _holds(*found[:2], line, limits, ordinary=ordinary)
        ]
    if not _digits_hold([model for model, _, _ in proved]):
        proved.clear()
    held = {place for _, _, place in proved}
    return SortedBatch(proved, [place for place in range(count) if place not in held])


def open_many(
    records: Sequence[Sealed], *, limits: Limits = DEFAULT_LIMITS
) -> list[tuple[Sealed, Model]]:
    """Return what ``records.open_record`` gives for each record's bytes, in their order.

    Raises:
        MalformedError: If the bytes of one are not canonical, the shape is wrong, or the id is not
            that of the content.
        LimitError: If one is too large.
    """
    if len(records) < _LEAST:
        return [open_record(record.body, limits=limits) for record in records]
    found: list[tuple[Sealed, Model] | None] = [None] * len(records)
    by_type = dict[str, list[int]]()
    for place, record in enumerate(records):
        if record.type in _COMPONENTS:
            by_type.setdefault(record.type, []).append(place)
    for component, places in by_type.items():
        lines = [records[place].body for place in places]
        if len(lines) < _LEAST or any(b"\n" in line for line in lines):
            continue
        for model, raw, at in sort(component, lines, b"\n".join([*lines, b""]), limits).proved:
            record = Sealed(PREFIX + raw.hex(), component, lines[at])
            found[places[at]] = (record, model)
    return [
        one or open_record(record.body, limits=limits)
        for one, record in zip(found, records, strict=True)
    ]


def _read(codec: _Codec, lines: list[bytes], batch: bytes) -> tuple[Sequence[int], Sequence[Entry]]:
    """Return the entries whose bytes msgspec would write the same way, and their places.

    What is written of a value holds no line end, so equal bytes are equal line by line.
    """
    try:
        models = codec.many(batch)
        if encode_lines(models) == batch and plain_numbers(models):
            return range(len(models)), models
    except UNREADABLE:
        pass
    found = dict(_read_singly(codec, lines))
    return list(found), list(found.values())


def _read_singly(codec: _Codec, lines: list[bytes]) -> Iterator[tuple[int, Entry]]:
    for place, line in enumerate(lines):
        try:
            model = codec.one(line)
        except UNREADABLE:
            continue
        if encode_sorted(model) == line and plain_numbers([model]):
            yield place, model


def _hash_of_the_rest(line: bytes) -> bytes:
    start = line.find(_ID)
    return blake3(line[:start] + line[start + _ID_LENGTH :]).digest()


def _have_own_ids(models: Sequence[Entry], hashes: list[bytes]) -> bool:
    """Tell whether each id is its hash; all are as long, so each stands at its own place."""
    expected = PREFIX + b"".join(hashes).hex("\n", 32).replace("\n", "\n" + PREFIX)
    return None not in (ids := list(map(_id_of, models))) and "\n".join(ids) == expected


def hold_no_free_json(models: Sequence[Entry], batch: bytes) -> bool:
    """Tell whether no entry has free JSON, whose numbers can be spelled in ways of their own.

    Such numbers need an object around them, or are the data.
    """
    known = sum((one.scope is not None) + (one.origin is not None) + 1 for one in models)
    return batch.count(b"{") == known and all(one is None for one in map(_data_of, models))


def _holds(model: Entry, raw: bytes, line: bytes, limits: Limits, *, ordinary: bool) -> bool:
    """Tell whether one entry holds."""
    return (
        model.id == PREFIX + raw.hex()
        and model.nonce is not None
        and (
            hold_no_free_json([model], line)
            or (ordinary and line.count(b"{") + line.count(b"[") <= MAX_DEPTH)
            or has_plain_layout(line)
        )
        and not over_bounds(model, len(line), limits)
    )


def are_shallow(lines: Sequence[bytes]) -> bool:
    """Tell whether no line can be nested too deep."""
    return all(line.count(b"{") + line.count(b"[") <= MAX_DEPTH for line in lines)


def _large(
    models: Sequence[Entry], lines: Sequence[bytes], limits: Limits
) -> Iterator[tuple[Entry, int]]:
    """Yield the entries that may be over a bound, with their sizes."""
    sizes, bound = list(map(len, lines)), room(limits)
    if max(sizes, default=0) > bound:
        yield from (one for one in zip(models, sizes, strict=True) if one[1] > bound)


def room(limits: Limits) -> int:
    """Return a size in bytes under which an entry cannot be over any bound."""
    return min(limits.entry_bytes, limits.metadata_keys * 4, limits.tags * 3, limits.parents * 74)


def plain_numbers(entries: Sequence[Entry]) -> bool:
    """Tell whether the numbers of the model are spelled as everybody would."""
    numbers = [one for one in map(_salience_of, entries) if one is not None]
    if entries and isinstance(entries[0], Semantic):
        confidences = map(_confidence_of, cast("Sequence[Semantic]", entries))
        numbers += [one for one in confidences if one is not None]
    return not numbers or (min(numbers) >= SMALLEST and max(numbers) < 1)


def _digits_hold(entries: Sequence[Entry]) -> bool:
    """Tell whether the nonces and times of entries are what they should be."""
    if not is_hex("".join(map(_nonce_of, entries))):
        return False
    # No time is empty: its length was looked at.
    return are_canonical_times(list(filter(None, chain.from_iterable(map(_times_of, entries)))))


_TAGS: dict[type[Model], str] = {**ENTRY_TAGS, PlainSemantic: ENTRY_TAGS[Semantic]}
_NONCE_BYTES = 16
"""Entries from which a batch is worth it."""

_STAND_IN = STAND_IN.encode()
_EMPTY = (b":{}", b":[]")
"""What is empty is left out, at some levels."""

# Of a batch with digits alike, brackets alike and signs gone: what is empty, a number of sixteen
# digits, text beyond the BMP. One pass, and few looks for what is long.
_FLAT_FIELDS = bytes.maketrans(b"123456789[],\xf0\xf1\xf2\xf3\xf4", b"000000000{}:" + b"\xff" * 5)
_SIGNS = (b"\xff", b":" + b"0" * 16, b"{" + b"0" * 16, b":{}")
_UNENCODABLE = (msgspec.MsgspecError, TypeError, ValueError, RecursionError)


def seal_many(
    drafts: Sequence[Model], *, nonces: Nonces = random_nonce, limits: Limits = DEFAULT_LIMITS
) -> Iterator[Sealed]:
    """Give drafts their nonces and ids, in their order.

    Args:
        drafts: Some hundred record values, as ``seal`` takes them.
        nonces: Where new nonces come from, one for each draft that has none, in their order.
        limits: The bounds on a record.

    Yields:
        The records. When a draft is refused, those before it came already.

    Raises:
        ValueRefusedError: As ``seal``.
        LimitError: As ``seal``.
    """
    made = _named(drafts, nonces)
    found: list[Sealed | None] = [None] * len(drafts)
    for cls, places in _by_class(drafts).items():
        named = [cast("Entry", made[place]) for place in places]
        given = [drafts[place] for place in places]
        for place, record in zip(places, _sealed(_TAGS[cls], named, given, limits), strict=True):
            found[place] = record
    for record, draft in zip(found, made, strict=True):
        yield record or seal(_without_stand_in(draft), limits=limits)


def _by_class(drafts: Sequence[Model]) -> dict[type[Model], list[int]]:
    """Return the places of new entries, by class, where there are enough of one."""
    found = dict[type[Model], list[int]]()
    for place, draft in enumerate(drafts):
        if type(draft) in _TAGS and draft.nonce is None and draft.id is None:
            found.setdefault(type(draft), []).append(place)
    return {cls: places for cls, places in found.items() if len(places) >= _LEAST}


def _named(drafts: Sequence[Model], nonces: Nonces) -> list[Model]:
    """Return copies of drafts that have a nonce, and the stand-in for an id."""
    needed = sum(draft.nonce is None for draft in drafts)
    drawn = iter(_drawn(nonces, needed))
    made = []
    for draft in drafts:
        one = copy(draft)
        if one.nonce is None:
            force_setattr(one, "nonce", next(drawn))  # on a copy that nobody else has seen
        if one.id is None:
            force_setattr(one, "id", STAND_IN)
        made.append(one)
    return made


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
    tag: str, made: list[Entry], drafts: Sequence[Model], limits: Limits
) -> list[Sealed | None]:
    """Return the records of one class; None for those that need the careful way."""
    nothing: list[Sealed | None] = [None] * len(made)
    try:
        text = encode_lines(made)
    except _UNENCODABLE:
        return nothing
    parts, hashed = text.split(_STAND_IN), text.replace(STAND_IN_MEMBER, b"").split(b"\n")
    if len(parts) != len(made) + 1:
        return nothing
    ids = [PREFIX + blake3(line).hexdigest() for line in hashed[:-1]]
    batch = b"".join(chain(*zip(parts, map(str.encode, ids), strict=False), parts[-1:]))
    lines = batch.split(b"\n")[:-1]
    alike: dict[int, Entry]
    if type(drafts[0]) is PlainSemantic:  # what reading back would show is known
        alike = dict(enumerate(cast("Sequence[Entry]", drafts)))
    else:
        alike = _alike(_read_back(tag, batch, lines), drafts, _said(type(drafts[0])))
    if len(alike) < len(lines):
        batch = b"\n".join([*(lines[place] for place in alike), b""])
    kept = [lines[place] for place in alike]
    odd = set(_odd(batch, kept, list(alike.values()), limits))
    found = nothing
    for number, place in enumerate(alike):
        if number not in odd:
            found[place] = Sealed(ids[place], tag, lines[place])
    return found


def _read_back(tag: str, batch: bytes, lines: list[bytes]) -> list[Entry | None]:
    """Return what a reader makes of each line; None where it has to be read with care."""
    read = codec(tag)
    try:
        return [*read.many(batch)]
    except UNREADABLE:
        pass
    found: list[Entry | None] = []
    for line in lines:
        try:
            found.append(read.one(line))
        except UNREADABLE:
            found.append(None)
    return found


def _alike(
    models: Sequence[Entry | None],
    drafts: Sequence[Model],
    said: "attrgetter[tuple[Any, ...]]",
) -> dict[int, Entry]:
    """Return the entries that say the very same as their drafts, by place.

    They are compared all at once; where that fails, one by one, so that a single ``1.0`` in a draft
    does not send all of its batch the careful way.
    """
    whole = {place: model for place, model in enumerate(models) if model is not None}
    found = [*whole.values()]
    given = drafts if len(found) == len(drafts) else [drafts[place] for place in whole]
    if [*map(said, found)] == [*map(said, given)] and plain_numbers(found):
        return whole
    return {
        place: model
        for place, model in whole.items()
        if said(model) == said(drafts[place]) and plain_numbers([model])
    }


def _odd(
    batch: bytes, lines: list[bytes], models: Sequence[Entry], limits: Limits
) -> Iterator[int]:
    """Yield the places of entries that may be over a bound, or not in canonical form."""
    bound = room(limits)
    if max(map(len, lines), default=0) > bound:
        for place, (line, model) in enumerate(zip(lines, models, strict=True)):
            if len(line) > bound and over_bounds(model, len(line), limits):
                yield place
    flat = batch.translate(_FLAT_FIELDS, b"-")
    if not any(sign in flat for sign in _SIGNS) and are_shallow(lines):
        return
    if hold_no_free_json(models, batch):
        return
    ordinary = is_ordinary(batch)
    for place, line in enumerate(lines):
        if (
            line.count(b"{") + line.count(b"[") > MAX_DEPTH
            or not (ordinary or has_plain_layout(line))
            or any(sign in line for sign in _EMPTY)
        ):
            yield place


@cache
def _said(cls: type[Model]) -> "attrgetter[tuple[Any, ...]]":
    """Return what gives all that a draft says, and sealing does not add."""
    return attrgetter(*(name for name in cls.__struct_fields__ if name not in ("id", "nonce")))
