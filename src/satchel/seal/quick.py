"""The fast way through a file of entries: what most entries are is proved with few steps.

``quick_shape`` gives the same value as ``satchel.seal.records.shape_of`` or None, and then the
entry takes that one. The shape of an id is left to whoever compares it with the hash of the
content, that of nonces and times to ``members_hold``, which looks at many at once.
"""

from collections.abc import Callable, Sequence
from functools import cache
from operator import attrgetter
from typing import Annotated, Any, cast

import msgspec

from satchel.memory.entries import ENTRY_CLASSES, Entry
from satchel.memory.parts import Component
from satchel.memory.times import TIME_LENGTH, all_canonical
from satchel.seal.encoding.jcs import SMALLEST, encode_sorted, free_members, is_odd

_TIMES = ("created_at", "updated_at", "occurred_at", "valid_from", "valid_until", "expires_at")
_times_of = attrgetter(*_TIMES)


@cache
def quick_shape(component: str) -> Callable[[bytes], Entry | None]:
    """Return what gives an entry its typed value when few steps prove its bytes canonical.

    Args:
        component: The type that the entries should have.
    """
    cls = ENTRY_CLASSES[Component(component)]
    decode = _unchecked_decoder(component, cls)
    floats_of, free_of, nothing = _numbers_and_free(cls)

    def shape(line: bytes) -> Entry | None:
        try:
            model = decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return None
        if encode_sorted(model) != line:
            return None
        for value in floats_of(model):
            if value is not None and not SMALLEST <= value < 1:
                return None
        free = free_of(model)
        return model if free == nothing or not is_odd(free) else None

    return shape


def members_hold(entries: Sequence[Entry]) -> bool:
    """Tell whether nonces and times of entries from ``quick_shape`` are what they should be.

    Args:
        entries: Some that have nonces.
    """
    nonces = "".join([str(entry.nonce) for entry in entries])
    try:
        if bytes.fromhex(nonces).hex() != nonces:
            return False
    except ValueError:
        return False
    return all_canonical(
        [text for entry in entries for text in _times_of(entry) if text is not None]
    )


def _unchecked_decoder(component: str, cls: type[Entry]) -> Callable[[bytes], Entry]:
    """Return a decoder for the class that looks at the lengths only of what every entry has."""
    unchecked = msgspec.defstruct(
        cls.__name__,
        [
            ("id", _text_of(71), None),
            ("nonce", _text_of(32), None),
            *((name, _text_of(TIME_LENGTH), None) for name in _TIMES),
        ],
        bases=(cls,),
        namespace={"__post_init__": _distinct_parents},
        tag_field="type",
        tag=component,
        frozen=True,
        kw_only=True,
        omit_defaults=True,
    )
    return cast("Callable[[bytes], Entry]", msgspec.json.Decoder(unchecked).decode)


def _text_of(length: int) -> Any:
    return Annotated[str, msgspec.Meta(min_length=length, max_length=length)] | None


def _distinct_parents(entry: Entry) -> None:
    if entry.parent_ids:
        Entry.__post_init__(entry)


def _numbers_and_free(
    cls: type[Entry],
) -> tuple[
    Callable[[Entry], tuple[float | None, ...]], Callable[[Entry], tuple[Any, ...]], tuple[Any, ...]
]:
    """Return what gets the number members, what gets those of free JSON, and how these start."""
    floats = [name for name in ("salience", "confidence") if name in cls.__struct_fields__]
    free = [name for name in free_members(cls) if name not in floats]
    # Of two names or more an attrgetter gives a tuple.
    free_of = attrgetter(*free, *free)
    return attrgetter(*floats, *floats), free_of, free_of(cls())
