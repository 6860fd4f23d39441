"""Many entries at once: the same checks as one by one, with what can be shared done together.

Whatever is out of the ordinary in an entry is left to the careful way, ``records.shape_of``, which
says what is wrong and where.
"""

from collections.abc import Callable, Sequence
from functools import cache
from itertools import chain
from operator import attrgetter
from typing import NamedTuple, cast

import msgspec
from blake3 import blake3

from satchel.memory.entries import ENTRY_CLASSES, TIMES, Entry
from satchel.memory.parts import Component, is_hex
from satchel.memory.times import are_canonical_times
from satchel.seal.encoding.domain import MAX_DEPTH
from satchel.seal.encoding.jcs import SMALLEST, encode_sorted, has_plain_layout, plain_float
from satchel.seal.limits import Limits, over_bounds
from satchel.seal.records import PREFIX

_times_of, _nonce_of = attrgetter(*TIMES), attrgetter("nonce")
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


def _is_ordinary(batch: bytes) -> bool:
    """Tell whether a batch has no number beyond 2^53-1 and no key beyond the BMP."""
    flat = batch.translate(_FLAT, b"-")
    return _LONG not in flat and _ASTRAL not in flat


@cache
def _decoder(component: str) -> Callable[[bytes], Entry]:
    """Return a decoder for the entries of a component that leaves their digits to later."""
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
    decode = msgspec.json.Decoder(unchecked, float_hook=plain_float).decode
    return cast("Callable[[bytes], Entry]", decode)


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
        batch: The lines again, joined.
        limits: The bounds on an entry.
    """
    decode, room = _decoder(component), _room(limits)
    proved, odd = list[tuple[Entry, bytes, int]](), list[int]()
    ordinary = _is_ordinary(batch)
    for place, line in enumerate(lines):
        try:
            model = decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            odd.append(place)
            continue
        start = line.find(_ID)
        raw = blake3(line[:start] + line[start + _ID_LENGTH :]).digest()
        if (
            encode_sorted(model) == line
            and model.id == PREFIX + raw.hex()
            and model.nonce is not None
            # Numbers of free JSON need an object around them, or are the data.
            and (
                ((braces := line.count(b"{")) == 1 and model.data is None)
                or (ordinary and braces + line.count(b"[") <= MAX_DEPTH)
                or has_plain_layout(line)
            )
            and (len(line) <= room or not over_bounds(model, len(line), limits))
            and _plain_numbers(model)
        ):
            proved.append((model, raw, place))
        else:
            odd.append(place)
    if not _digits_hold([model for model, _, _ in proved]):
        return Sorted([], list(range(len(lines))))
    return Sorted(proved, odd)


def _room(limits: Limits) -> int:
    """Return a size in bytes under which an entry cannot be over any bound."""
    return min(limits.entry_bytes, limits.metadata_keys * 4, limits.tags * 3, limits.parents * 74)


def _plain_numbers(entry: Entry) -> bool:
    """Tell whether the numbers of the model are spelled as everybody would."""
    if entry.salience is not None and not SMALLEST <= entry.salience < 1:
        return False
    confidence = getattr(entry, "confidence", None)
    return confidence is None or SMALLEST <= confidence < 1


def _digits_hold(entries: Sequence[Entry]) -> bool:
    """Tell whether the nonces and times of entries are what they should be."""
    if not is_hex("".join(map(_nonce_of, entries))):
        return False
    # No time is empty: its length was looked at.
    return are_canonical_times(list(filter(None, chain.from_iterable(map(_times_of, entries)))))
