"""Many entries at once: the same checks as one by one, with what can be shared done together.

Whatever is out of the ordinary in an entry is left to the careful way, ``records.shape_of``, which
says what is wrong and where.
"""

from collections.abc import Callable, Sequence
from functools import cache
from operator import attrgetter
from typing import cast

import msgspec

from satchel.memory.entries import ENTRY_CLASSES, TIMES, Entry
from satchel.memory.parts import Component, is_hex
from satchel.memory.times import is_canonical_time
from satchel.seal.encoding.domain import MAX_DEPTH
from satchel.seal.encoding.jcs import SMALLEST, encode_sorted, plain_float

_times_of = attrgetter(*TIMES)
# A number of sixteen digits in a batch, once digits are alike, signs gone and what can stand
# before a number is a colon; a batch with one is looked at line by line.
_FLAT = bytes.maketrans(b"123456789[,\xf0\xf1\xf2\xf3\xf4", b"000000000::" + b"\xff" * 5)
_LONG = b":" + b"0" * 16
_ASTRAL = b"\xff"


def is_ordinary(batch: bytes) -> bool:
    """Tell whether no line of a batch can hold a number beyond 2^53-1 or a key beyond the BMP."""
    flat = batch.translate(_FLAT, b"-")
    return _LONG not in flat and _ASTRAL not in flat


@cache
def reader(component: str) -> Callable[[bytes], Entry | None]:
    """Return what gives an entry's typed value when few steps prove its bytes canonical.

    For lines of a batch that ``is_ordinary``; that ids, nonces and times have the right digits is
    left to the caller (the id to the hash of the content, the others to ``members_hold``).
    """
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
    )
    decode = msgspec.json.Decoder(unchecked, float_hook=plain_float).decode
    numbers = [name for name in ("salience", "confidence") if name in cls.__struct_fields__]

    def read(line: bytes) -> Entry | None:
        try:
            model = cast("Entry", decode(line))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return None
        if encode_sorted(model) != line or line.count(b"{") + line.count(b"[") > MAX_DEPTH:
            return None
        for name in numbers:
            number = getattr(model, name)
            if number is not None and not SMALLEST <= number < 1:
                return None
        return model

    return read


def _later(entry: Entry) -> None:
    """Leave the checks of one entry to ``members_hold``, except what is rarely there."""
    if entry.parent_ids:
        Entry.__post_init__(entry)


def members_hold(entries: Sequence[Entry]) -> bool:
    """Tell whether the nonces and times of entries from ``reader`` are what they should be."""
    if not is_hex("".join([entry.nonce or "" for entry in entries])):
        return False
    texts = {text for entry in entries for text in _times_of(entry)}
    texts.discard(None)
    return all(map(is_canonical_time, texts))
