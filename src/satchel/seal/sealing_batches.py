"""Making many sealed records at once: what ``sealing.seal`` makes of each, in fewer steps.

A batch is encoded whole, and read back as whoever reads it later would: where that gives the very
values that were given, the bytes are canonical and nothing in them was turned into something else
on the way. Whatever is out of the ordinary in a draft is left to ``sealing.seal``. One thing passes
here that is refused there: a value of a class of its own that equals the plain one it is written
as, such as a member of an enumeration of texts.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from functools import cache
from itertools import chain
from operator import attrgetter
from typing import Any, cast

import msgspec
from blake3 import blake3
from msgspec.structs import force_setattr

from satchel.errors import ValueRefusedError
from satchel.memory.entries import Entry, PlainSemantic, Semantic
from satchel.memory.parts import is_hex
from satchel.memory.records import Model
from satchel.seal.batches import (
    UNREADABLE,
    are_shallow,
    codec,
    hold_no_free_json,
    is_ordinary,
    plain_numbers,
    room,
)
from satchel.seal.encoding.domain import MAX_DEPTH
from satchel.seal.encoding.jcs import encode_lines, has_plain_layout
from satchel.seal.limits import DEFAULT_LIMITS, Limits, over_bounds
from satchel.seal.records import PREFIX, Sealed
from satchel.seal.sealing import ENTRY_TAGS, STAND_IN, STAND_IN_MEMBER, Nonces, random_nonce, seal

_TAGS: dict[type[Model], str] = {**ENTRY_TAGS, PlainSemantic: ENTRY_TAGS[Semantic]}
_NONCE_BYTES = 16
_LEAST = 8
"""Entries from which a batch is worth it."""

_STAND_IN = STAND_IN.encode()
_EMPTY = (b":{}", b":[]")
"""What is empty is left out, at some levels."""

# Of a batch with digits alike, brackets alike and signs gone: what is empty, a number of sixteen
# digits, text beyond the BMP. One pass, and few looks for what is long.
_FLAT = bytes.maketrans(b"123456789[],\xf0\xf1\xf2\xf3\xf4", b"000000000{}:" + b"\xff" * 5)
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
    flat = batch.translate(_FLAT, b"-")
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
