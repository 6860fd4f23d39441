"""Drawing sketches, and keeping them beside the log.

A stamp beside them tells what a process holds in memory from what is there now: which parts were
drawn by each of the last changes.
"""

import sys
from array import array
from collections.abc import Mapping, Sequence
from secrets import token_hex

import msgspec
from blake3 import blake3

from satchel.ports.store import Reader, Writer
from satchel.ports.vectors import SKETCHED_TOGETHER, SKETCHES, WIDTHS, Generation, sketches_of
from satchel.type_info import resolved

MOST_NUMBERS = 512
"""Numbers of a vector that a sketch is drawn from, from its start."""

BITS = SKETCHED_TOGETHER // 8
"""Bytes at the start of a part that say which places have a sketch, the lowest bit first."""

STAMP = "vectors/stamp/"
"""Sorts behind the sketches, so that a store need not read these to find it."""

_SHARP = 127
_LEAST = 1e-300
"""Numbers that are all smaller than this are nothing."""

_REMEMBERED = 64
"""Changes that a stamp tells of."""

Changes = list[tuple[str, list[int]]]
"""Each with a name of its own and the parts that it drew, the last one last."""


def draw(writing: Writer, bank: str, generation: Generation, made: Mapping[int, bytes]) -> None:
    """Keep the sketches of vectors, by the places of their records, with the block around."""
    if not made:
        return
    size, side = size_of(generation), dict[str, bytes | None]()
    key, parts = key_of(generation), dict[int, list[int]]()
    for place in made:
        parts.setdefault(place // SKETCHED_TOGETHER, []).append(place)
    drawn = dict(zip(made, _drawn(list(made.values()), generation), strict=True))
    for number, places in parts.items():
        name = sketches_of(number * SKETCHED_TOGETHER) + key
        part = bytearray(_there(writing.side(bank, name).get(name), size))
        for place in places:
            at = place % SKETCHED_TOGETHER
            part[at // 8] |= 1 << at % 8
            part[BITS + at * size : BITS + (at + 1) * size] = drawn[place]
        side[name] = bytes(part)
    told = changes(writing.side(bank, STAMP + key).get(STAMP + key))
    told = [*told[1 - _REMEMBERED :], (token_hex(16), sorted(parts))]
    writing.put_side(bank, {**side, STAMP + key: msgspec.json.encode(told)})


def undrawn(reader: Reader, bank: str, generation: Generation, places: Sequence[int]) -> set[int]:
    """Return those of some places that have no sketch."""
    size, lacking, parts = size_of(generation), set[int](), dict[int, bytes]()
    for place in places:
        number, at = divmod(place, SKETCHED_TOGETHER)
        if number not in parts:
            name = sketches_of(place) + key_of(generation)
            parts[number] = _there(reader.side(bank, name).get(name), size)
        if not parts[number][at // 8] >> at % 8 & 1:
            lacking.add(place)
    return lacking


def drop(writing: Writer, bank: str, generation: Generation) -> None:
    """Remove the sketches of a generation."""
    key = key_of(generation)
    names = [name for name in writing.side(bank, SKETCHES) if name.endswith(key)]
    writing.put_side(bank, dict.fromkeys([*names, STAMP + key], None))


def changes(stamp: bytes | None) -> Changes:
    """Return what a stamp tells; that of an earlier version tells nothing."""
    try:
        return msgspec.json.decode(stamp or b"", type=resolved(Changes))
    except msgspec.DecodeError:
        return []


def part_of(name: str, kept: bytes, generation: Generation) -> int | None:
    """Return the number of a part of a generation; None for what is none of its parts."""
    if name.endswith(key_of(generation)) and len(kept) == part_size(size_of(generation)):
        return int(name.removeprefix(SKETCHES)[:8], 16)
    return None


def part_size(size: int) -> int:
    """Return how many bytes a part has whose sketches have so many numbers."""
    return BITS + SKETCHED_TOGETHER * size


def key_of(generation: Generation) -> str:
    """Return what the names of a generation's side values end with."""
    told = f"{generation.number} {generation.dimensions} {generation.model}"
    return blake3(told.encode("utf-8", "surrogatepass")).hexdigest(length=8)


def size_of(generation: Generation) -> int:
    """Return how many numbers a sketch has."""
    return min(generation.dimensions, MOST_NUMBERS)


def _there(part: bytes | None, size: int) -> bytes:
    """Return what is kept of a part; what cannot be one is drawn anew."""
    whole = part_size(size)
    return part if part is not None and len(part) == whole else bytes(whole)


def _drawn(vectors: Sequence[bytes], generation: Generation) -> list[bytes]:
    """Return the sketches of vectors; the same with numpy, which is faster with many, and without.

    The largest number becomes 127; halves go to the even side.
    """
    size = size_of(generation)
    if sys.modules.get("numpy") is None:
        return [_by_hand(vector, generation.dimensions, size) for vector in vectors]
    import numpy as np

    drawn = [b""] * len(vectors)
    for width in WIDTHS:
        some = [at for at, one in enumerate(vectors) if len(one) == width * generation.dimensions]
        joined = b"".join(vectors[at] for at in some)
        numbers = np.frombuffer(joined, f"<f{width}").reshape(len(some), generation.dimensions)
        numbers = numbers[:, :size].astype(float)
        most = np.abs(numbers).max(axis=1, initial=0.0, keepdims=True)
        scale = np.divide(float(_SHARP), most, out=np.zeros_like(most), where=most > _LEAST)
        for at, row in zip(some, np.rint(numbers * scale).astype(np.int8), strict=True):
            drawn[at] = row.tobytes()
    return drawn


def _by_hand(vector: bytes, dimensions: int, size: int) -> bytes:
    width = len(vector) // dimensions
    numbers = array("f" if width == WIDTHS[0] else "d")
    numbers.frombytes(vector[: width * size])
    most = max(map(abs, numbers))
    scale = _SHARP / most if most > _LEAST else 0.0
    return array("b", [round(number * scale) for number in numbers]).tobytes()
