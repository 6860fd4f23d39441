"""Many entries at once: the same checks as one by one, with what can be shared done together.

Whatever is out of the ordinary in an entry is left to the careful way, ``records.shape_of``, which
says what is wrong and where.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import chain
from operator import attrgetter
from typing import NamedTuple, cast

import msgspec
from blake3 import blake3

from satchel.memory.entries import ENTRY_CLASSES, TIMES, Entry, Semantic
from satchel.memory.parts import Component, is_hex
from satchel.memory.records import Model
from satchel.memory.times import are_canonical_times
from satchel.seal.encoding.domain import MAX_DEPTH
from satchel.seal.encoding.jcs import (
    SMALLEST,
    encode_lines,
    encode_sorted,
    has_plain_layout,
    plain_float,
)
from satchel.seal.limits import DEFAULT_LIMITS, Limits, over_bounds
from satchel.seal.records import PREFIX, Sealed, open_record
from satchel.type_info import resolved

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


class Sorted(NamedTuple):
    """The entries of a batch: those that are proved, and those that need the careful way."""

    proved: list[tuple[Entry, bytes, int]]
    """Typed value, the 32 bytes of the id, and the place in the batch."""

    odd: list[int]
    """Places of the others."""


def sort(component: str, lines: list[bytes], batch: bytes, limits: Limits) -> Sorted:
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
    return Sorted(proved, [place for place in range(count) if place not in held])


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
