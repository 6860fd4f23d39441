"""Sketches of vectors: small enough that a question looks at all of them.

A sketch is a vector in whole numbers from -127 to 127, of at most ``MOST_NUMBERS`` of its numbers.
``SKETCHED_TOGETHER`` places of the log are one side value: which of them have one, as bits, and
the sketches, 256 bytes each for a vector of 256 numbers. They are written with the vectors, go with
them, and go when a record is erased (``ports.vectors.sketches_of``); what lacks one gets it with
the next ``fill``.

The signs alone, 32 bytes of them, choose ``_LOOKED_AT`` sketches, and those are compared. Measured
on 3,435 turns of conversations: of the fifty most alike by whole vectors, 92 % are among the 200
most alike by signs, and no cosine of a sketch is off by more than 0.01.
"""

from array import array
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from secrets import token_hex
from threading import Lock
from typing import Any

from blake3 import blake3

from satchel.ledger.view import View
from satchel.ports.store import Reader, Writer
from satchel.ports.vectors import SKETCHED_TOGETHER, SKETCHES, WIDTHS, Generation, sketches_of

MOST_NUMBERS = 512
"""Numbers of a vector that a sketch is drawn from, from its start."""

_STAMP = "vectors/stamp/"
"""Sorts behind the sketches, so that a store need not read these to find it."""

_BITS = SKETCHED_TOGETHER // 8
_LOOKED_AT = 1000
_SHARP = 127
_KEPT = 4
"""Banks whose sketches are held in memory."""


def draw(writing: Writer, bank: str, generation: Generation, made: Mapping[int, bytes]) -> None:
    """Keep the sketches of vectors, by the places of their records, with the block around."""
    if not made:
        return
    size, side = _size(generation), dict[str, bytes | None]()
    parts = dict[int, list[int]]()
    for place in made:
        parts.setdefault(place // SKETCHED_TOGETHER, []).append(place)
    for number, places in parts.items():
        name = sketches_of(number * SKETCHED_TOGETHER) + _key(generation)
        part = bytearray(_there(writing.side(bank, name).get(name), size))
        for place in places:
            at = place % SKETCHED_TOGETHER
            part[at // 8] |= 1 << at % 8
            part[_BITS + at * size : _BITS + (at + 1) * size] = _drawn(made[place], generation)
        side[name] = bytes(part)
    writing.put_side(bank, {**side, _STAMP + _key(generation): token_hex(16).encode()})


def undrawn(reader: Reader, bank: str, generation: Generation, places: Sequence[int]) -> set[int]:
    """Return those of some places that have no sketch."""
    size, lacking, parts = _size(generation), set[int](), dict[int, bytes]()
    for place in places:
        number, at = divmod(place, SKETCHED_TOGETHER)
        if number not in parts:
            name = sketches_of(place) + _key(generation)
            parts[number] = _there(reader.side(bank, name).get(name), size)
        if not parts[number][at // 8] >> at % 8 & 1:
            lacking.add(place)
    return lacking


def drop(writing: Writer, bank: str, generation: Generation) -> None:
    """Remove the sketches of a generation."""
    key = _key(generation)
    names = [name for name in writing.side(bank, SKETCHES) if name.endswith(key)]
    writing.put_side(bank, dict.fromkeys([*names, _STAMP + key], None))


class Sketches:
    """The sketches of one generation, in memory.

    Args:
        np: numpy.
        generation: What they were drawn from.
        side: The side values that hold them.
    """

    def __init__(self, np: Any, generation: Generation, side: Mapping[str, bytes]) -> None:
        size, key, places, rows = _size(generation), _key(generation), [], []
        for name, kept in sorted(side.items()):
            if not name.endswith(key) or len(kept) != _BITS + SKETCHED_TOGETHER * size:
                continue
            first = int(name.removeprefix(SKETCHES)[:8], 16) * SKETCHED_TOGETHER
            bits = np.unpackbits(np.frombuffer(kept[:_BITS], np.uint8), bitorder="little")
            there = np.flatnonzero(bits)
            places.append(first + there)
            rows.append(np.frombuffer(kept, np.int8, offset=_BITS).reshape(-1, size)[there])
        self._np = np
        self._size = size
        self._places = np.concatenate(places) if places else np.zeros(0, np.int64)
        self._rows = np.concatenate(rows) if rows else np.zeros((0, size), np.int8)
        self._index: dict[int, int] | None = None
        self._signs = self._signs_of(self._rows)

    def nearest(self, vector: Any, limit: int) -> dict[int, float]:
        """Return places with the cosines of their sketches, best first."""
        np, count = self._np, len(self._places)
        asked, some = self._signs_of(vector[None, : self._size]), np.arange(count)
        if count > _LOOKED_AT:
            apart = np.zeros(count, np.uint16)
            for own, given in zip(self._signs, asked, strict=True):
                apart += np.bitwise_count(own ^ given[0])
            # Of those that are just as far apart as the last one, the first of the log.
            far = np.partition(apart, _LOOKED_AT)[_LOOKED_AT]
            nearer, as_far = np.flatnonzero(apart < far), np.flatnonzero(apart == far)
            some = np.concatenate([nearer, as_far[: _LOOKED_AT - len(nearer)]])
        cosines = self._cosines(some, vector)
        best = np.lexsort((self._places[some], -cosines))[:limit]
        return dict(zip(self._places[some[best]].tolist(), cosines[best].tolist(), strict=True))

    def cosines(self, vector: Any, places: Sequence[int]) -> dict[int, float]:
        """Return the cosines of the sketches at places that have one."""
        if self._index is None:
            self._index = {place: at for at, place in enumerate(self._places.tolist())}
        there = [place for place in places if place in self._index]
        some = self._np.array([self._index[place] for place in there], dtype=int)
        return dict(zip(there, self._cosines(some, vector).tolist(), strict=True))

    def _cosines(self, some: Any, vector: Any) -> Any:
        np = self._np
        rows, given = self._rows[some].astype(np.float32), vector[: self._size]
        # Row by row, not as a product of matrices: a row's last digits depend on itself alone.
        lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows) * np.dot(given, given))
        found = np.einsum("ij,j->i", rows, given)
        found = np.divide(found, lengths, out=np.zeros_like(found), where=lengths > 0)
        return np.round(found.astype(float), 6)

    def _signs_of(self, rows: Any) -> Any:
        """Return the signs of numbers, 64 in a column, a column in one piece each."""
        np = self._np
        bits = np.packbits(rows > 0, axis=1)
        wide = np.zeros((len(rows), -(-bits.shape[1] // 8) * 8), np.uint8)
        wide[:, : bits.shape[1]] = bits
        return np.ascontiguousarray(wide.view(np.uint64).T)


_lock = Lock()
_known: OrderedDict[bytes, Sketches] = OrderedDict()


def sketches(view: View, generation: Generation) -> Sketches | None:
    """Return the sketches of a generation; None where there are none, or no numpy."""
    stamp = view.side(_STAMP + _key(generation)).get(_STAMP + _key(generation))
    if stamp is None:
        return None
    with _lock:
        found = _known.get(stamp)
        if found is not None:
            _known.move_to_end(stamp)
            return found
    try:
        import numpy as np
    except ImportError:
        return None
    made = Sketches(np, generation, view.side(SKETCHES))
    with _lock:
        _known[stamp] = made
        while len(_known) > _KEPT:
            _known.popitem(last=False)
    return made


def _key(generation: Generation) -> str:
    told = f"{generation.number} {generation.dimensions} {generation.model}"
    return blake3(told.encode("utf-8", "surrogatepass")).hexdigest(length=8)


def _size(generation: Generation) -> int:
    return min(generation.dimensions, MOST_NUMBERS)


def _there(part: bytes | None, size: int) -> bytes:
    """Return what is kept of a part; what cannot be one is drawn anew."""
    whole = _BITS + SKETCHED_TOGETHER * size
    return part if part is not None and len(part) == whole else bytes(whole)


def _drawn(vector: bytes, generation: Generation) -> bytes:
    width = len(vector) // generation.dimensions
    numbers = array("f" if width == WIDTHS[0] else "d")
    numbers.frombytes(vector[: width * _size(generation)])
    most = max(map(abs, numbers))
    scale = _SHARP / most if most else 0.0
    return array("b", [round(number * scale) for number in numbers]).tobytes()
