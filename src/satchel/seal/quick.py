"""The fast way through a file of entries: what most entries are is proved with few steps.

``quick_shape`` gives the same value as ``satchel.seal.records.shape_of`` or None, and then the
entry takes that one. The shape of an id is left to whoever compares it with the hash of the
content, that of nonces and times to ``members_hold``, which looks at many at once.
"""

from collections.abc import Callable, Sequence
from copy import copy
from functools import cache
from operator import attrgetter
from typing import Annotated, Any, cast

import msgspec
from blake3 import blake3
from msgspec.structs import force_setattr

from satchel.memory.entries import ENTRY_CLASSES, Entry
from satchel.memory.parts import Component
from satchel.memory.times import TIME_LENGTH, all_canonical
from satchel.seal.encoding.jcs import SMALLEST, encode_sorted, free_members, is_odd

PREFIX = "blake3:"
"""What every content address starts with."""

Nonces = Callable[[], str]
"""Gives a new 128-bit nonce, 32 lower-case hex digits, at each call."""

_TIMES = ("created_at", "updated_at", "occurred_at", "valid_from", "valid_until", "expires_at")
_times_of = attrgetter(*_TIMES)


_OF_CLASS = {cls: component.value for component, cls in ENTRY_CLASSES.items()}


@cache
def quick_shape(component: str) -> Callable[[bytes], Entry | None]:
    """Return what gives an entry its typed value when few steps prove its bytes canonical.

    Args:
        component: The type that the entries should have.
    """
    cls = ENTRY_CLASSES[Component(component)]
    decode = _decoder(component)
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


def quick_seal(draft: msgspec.Struct, nonces: Nonces) -> tuple[str, bytes] | None:
    """Return a new entry's id and canonical bytes when few steps prove them right.

    What is decoded from the bytes equals the draft, so every member had a type that can be
    written; nothing in it is odd. Times were looked at when the draft was made.

    Args:
        draft: A value without id and nonce.
        nonces: Where its nonce comes from; not asked when this gives None.
    """
    cls = type(draft)
    if cls not in _OF_CLASS or draft.id is not None or draft.nonce is not None or is_odd(draft):  # type: ignore[attr-defined]
        return None
    entry = copy(draft)
    try:
        if not _is_written_whole(encode_sorted(draft), draft, _OF_CLASS[cls]):
            return None
    except (TypeError, ValueError, msgspec.MsgspecError):
        return None
    force_setattr(entry, "nonce", nonces())
    identity = PREFIX + blake3(encode_sorted(entry)).hexdigest()
    force_setattr(entry, "id", identity)
    return identity, encode_sorted(entry)


def _is_written_whole(data: bytes, draft: msgspec.Struct, component: str) -> bool:
    # An empty member at the top level is left out, which msgspec does for defaults only.
    if b":{}" in data or b":[]" in data:
        return False
    again = _decoder(component)(data)
    return _members_of(component)(again) == _members_of(component)(draft)


@cache
def _decoder(component: str) -> Callable[[bytes], Entry]:
    """Return a decoder for the class that looks at the lengths only of what every entry has."""
    cls = ENTRY_CLASSES[Component(component)]
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


@cache
def _members_of(component: str) -> Callable[[Any], tuple[Any, ...]]:
    return attrgetter(*ENTRY_CLASSES[Component(component)].__struct_fields__)


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
