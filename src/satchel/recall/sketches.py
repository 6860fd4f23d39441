"""Sketches of vectors: small enough that a query compares all of them.

A sketch is a vector quantized to integers from -127 to 127, of at most ``MOST_NUMBERS`` of its
numbers. ``SKETCHED_TOGETHER`` log positions share a side value, a part: one bit for each position
that has a sketch, then the sketches, 256 bytes each for a vector of 256 numbers. Sketches are
written and removed with the vectors, and removed when a record is erased
(``ports.vectors.sketches_of``).

The signs, 32 bytes of each sketch, select ``LOOKED_AT`` candidates, and those are compared.
Measured on 3,435 turns of conversations: of the fifty nearest by whole vectors, 92 % are among the
200 nearest by signs, and no cosine of a sketch is off by more than 0.01.

The query is quantized as well, so sums are exact: numpy, and plain Python for a single query, give
the same results to the last digit.
"""

import sys
from array import array
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from math import sqrt
from operator import mul
from secrets import token_hex
from threading import Lock
from typing import Any, NamedTuple, Protocol

import msgspec
from blake3 import blake3

from satchel.ledger.view import View
from satchel.model.values import resolved
from satchel.ports.store import Reader, Writer
from satchel.ports.vectors import SKETCHED_TOGETHER, SKETCHES, WIDTHS, Generation, sketch_prefix
from satchel.recall.fusion import PLACES, round_score
from satchel.runtime.arrays import numpy

MOST_NUMBERS = 512
"""Maximum numbers of a vector that a sketch has, from its start."""

BITS = SKETCHED_TOGETHER // 8
"""Bytes at the start of a part with a bit for each position that has a sketch, lowest first."""

STAMP = "vectors/stamp/"
"""Prefix of the stamp, which sorts after the sketches, so that finding it does not read them."""

_SHARP = 127
_LEAST = 1e-300
"""A vector whose numbers are all smaller than this counts as zero."""

_REMEMBERED = 64
"""Maximum changes that a stamp lists."""

Changes = list[tuple[str, list[int]]]
"""Changes, oldest first: each has a unique name and the numbers of the parts that it wrote."""


def draw(writing: Writer, bank: str, generation: Generation, made: Mapping[int, bytes]) -> None:
    """Store the sketches of vectors by log position, in the caller's transaction."""
    if not made:
        return
    size, side = size_of(generation), dict[str, bytes | None]()
    key, parts = key_of(generation), dict[int, list[int]]()
    for place in made:
        parts.setdefault(place // SKETCHED_TOGETHER, []).append(place)
    drawn = dict(zip(made, _drawn(list(made.values()), generation), strict=True))
    for number, places in parts.items():
        name = sketch_prefix(number * SKETCHED_TOGETHER) + key
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
    """Return the log positions that have no sketch."""
    size, lacking, parts = size_of(generation), set[int](), dict[int, bytes]()
    for place in places:
        number, at = divmod(place, SKETCHED_TOGETHER)
        if number not in parts:
            name = sketch_prefix(place) + key_of(generation)
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
    """Return the changes that a stamp lists; none for a stamp of an earlier version."""
    try:
        return msgspec.json.decode(stamp or b"", type=resolved(Changes))
    except msgspec.DecodeError:
        return []


def part_of(name: str, kept: bytes, generation: Generation) -> int | None:
    """Return the number of a part of a generation; None for other side values."""
    if name.endswith(key_of(generation)) and len(kept) == part_size(size_of(generation)):
        return int(name.removeprefix(SKETCHES)[:8], 16)
    return None


def part_size(size: int) -> int:
    """Return the size in bytes of a part whose sketches have so many numbers."""
    return BITS + SKETCHED_TOGETHER * size


def key_of(generation: Generation) -> str:
    """Return the suffix of the names of a generation's side values."""
    told = f"{generation.number} {generation.dimensions} {generation.model}"
    return blake3(told.encode("utf-8", "surrogatepass")).hexdigest(length=8)


def size_of(generation: Generation) -> int:
    """Return the number of numbers of a sketch."""
    return min(generation.dimensions, MOST_NUMBERS)


def _there(part: bytes | None, size: int) -> bytes:
    """Return a stored part, or an empty one if it is missing or has the wrong size."""
    whole = part_size(size)
    return part if part is not None and len(part) == whole else bytes(whole)


def _drawn(vectors: Sequence[bytes], generation: Generation) -> list[bytes]:
    """Return the sketches of vectors, with numpy if it is loaded; results are the same without.

    The largest number becomes 127; halves are rounded to even.
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


LOOKED_AT = 1000
"""Maximum sketches that are compared, those whose signs are most alike."""

_QUERY_SHARP = 32_767


class QuantizedQuery:
    """The vector of a query, quantized to integers.

    Args:
        vector: Its numbers.
        size: Number of them to use, from its start.
    """

    def __init__(self, vector: Sequence[float], size: int) -> None:
        most = max(map(abs, vector[:size]), default=0.0)
        self.numbers = (
            [round(number / most * _QUERY_SHARP) for number in vector[:size]] if most else []
        )
        self.numbers += [0] * (size - len(self.numbers))
        self.square = sum(number * number for number in self.numbers)
        """The square of its length."""


class VectorSketches(Protocol):
    """The sketches of a generation."""

    def nearest(self, asked: QuantizedQuery, limit: int) -> dict[int, float]:
        """Return the log positions of the nearest sketches with their cosines, best first."""
        ...

    def cosines(self, asked: QuantizedQuery, places: Sequence[int]) -> dict[int, float]:
        """Return the cosines of the sketches at log positions; others are omitted."""
        ...


_WORD, _HALF = 64, 256
_TOGETHER = 64
"""Parts whose signs are compared in one step."""


class _CachedSketches(NamedTuple):
    """Parts in arrays, with room for more at the end.

    A lookup uses one of these throughout, so a concurrent ``put`` does not affect it.
    """

    slots: dict[int, int]
    """Index of each part, by its number."""

    numbers: Any
    """Numbers of the parts, by index."""

    there: Any
    """Whether a position has a sketch: (parts, 256)."""

    rows: Any
    """The sketches: (parts, 256, numbers)."""

    signs: Any
    """Their signs, 64 to a word: (parts, words, 256)."""

    squares: Any
    """Sums of the squares of their numbers; -1 until computed: (parts, 256)."""


class MatrixSketches:
    """The sketches of a generation in memory: 297 bytes for a vector of 256 numbers.

    Args:
        np: numpy.
        generation: The generation.
        parts: Number of parts to allocate; more are allocated when needed.
    """

    def __init__(self, np: Any, generation: Generation, parts: int) -> None:
        self._np = np
        self._generation = generation
        self._size = size_of(generation)
        self._held = self._room(parts, None)

    def put(self, side: Mapping[str, bytes]) -> None:
        """Add the parts in side values, replacing parts of the same numbers."""
        np = self._np
        found = {part_of(name, kept, self._generation): kept for name, kept in side.items()}
        parts = {number: kept for number, kept in found.items() if number is not None}
        slots = dict(self._held.slots)
        for number in sorted(parts):
            slots.setdefault(number, len(slots))
        held = self._held
        if len(slots) > len(held.rows):
            # Allocate spare room, so that not every new part moves all others.
            held = self._room(len(slots) + (len(slots) // 8 if held.slots else 0), held)
        for number, kept in parts.items():
            at, rows = slots[number], np.frombuffer(kept, np.int8, offset=BITS)
            held.numbers[at] = number
            held.rows[at] = rows.reshape(SKETCHED_TOGETHER, -1)
            bits = np.unpackbits(np.frombuffer(kept[:BITS], np.uint8), bitorder="little")
            held.there[at] = bits
            held.signs[at] = self._signs_of(held.rows[at]).T
            held.squares[at] = -1
        self._held = held._replace(slots=slots)

    def nearest(self, asked: QuantizedQuery, limit: int) -> dict[int, float]:
        """Return the log positions of the nearest sketches with their cosines, best first."""
        np, held = self._np, self._held
        some = self._alike(held, asked)
        cosines, places = self._cosines(held, some, asked), _places(held, some)
        best = np.lexsort((places, -cosines))[:limit]
        return dict(zip(places[best].tolist(), self._told(cosines[best]), strict=True))

    def cosines(self, asked: QuantizedQuery, places: Sequence[int]) -> dict[int, float]:
        """Return the cosines of the sketches at log positions; others are omitted."""
        held, there = self._held, dict[int, int]()
        for place in places:
            number, at = divmod(place, SKETCHED_TOGETHER)
            slot = held.slots.get(number)
            if slot is not None:
                there[place] = slot * SKETCHED_TOGETHER + at
        some = self._np.array(list(there.values()), dtype=int)
        drawn = held.there.ravel()[some]
        found = self._told(self._cosines(held, some, asked))
        pairs = zip(there, found, drawn.tolist(), strict=True)
        return {place: cosine for place, cosine, is_there in pairs if is_there}

    def _alike(self, held: _CachedSketches, asked: QuantizedQuery) -> Any:
        """Return the indices of the sketches with the most similar signs; ties in log order."""
        np, used = self._np, len(held.slots)
        there = held.there[:used].ravel()
        if np.count_nonzero(there) <= LOOKED_AT:
            return np.flatnonzero(there)
        [signs] = self._signs_of(np.array([asked.numbers]))
        apart = np.empty((used, SKETCHED_TOGETHER), np.uint16)
        for start in range(0, used, _TOGETHER):  # steps that fit the processor's caches
            end = min(used, start + _TOGETHER)
            counts = np.bitwise_count(held.signs[start:end] ^ signs[:, None])
            np.add.reduce(counts, axis=1, dtype=np.uint16, out=apart[start:end])
        apart = apart.ravel()
        apart[~there] = self._size + 1
        far = np.partition(apart, LOOKED_AT - 1)[LOOKED_AT - 1]
        nearer, as_far = np.flatnonzero(apart < far), np.flatnonzero(apart == far)
        as_far = as_far[np.argsort(_places(held, as_far))]
        return np.concatenate([nearer, as_far[: LOOKED_AT - len(nearer)]])

    def _cosines(self, held: _CachedSketches, some: Any, asked: QuantizedQuery) -> Any:
        """Return the cosines of sketches.

        All sums are integers and exact in any order: below 2**24 in 32-bit floats, since the
        numbers of the query are split into two halves, and below 2**53 after that.
        """
        np = self._np
        rows = held.rows.reshape(-1, self._size)[some].astype(np.float32)
        squares = held.squares.ravel()[some]
        lacking = np.flatnonzero(squares < 0)
        if len(lacking):
            # Only for these rows: all of a bank take longer than its first query.
            wide = rows[lacking]
            squares[lacking] = np.einsum("ij,ij->i", wide, wide)
            held.squares.ravel()[some[lacking]] = squares[lacking]
        halves = np.divmod(np.array(asked.numbers), _HALF)
        high, low = (rows @ np.array(halves, np.float32).T).T.astype(float)
        squares = squares * float(asked.square)
        dots = high * _HALF + low
        return np.divide(dots, np.sqrt(squares), out=np.zeros_like(dots), where=squares > 0)

    def _told(self, cosines: Any) -> list[float]:
        found: list[float] = (self._np.rint(cosines * PLACES) / PLACES).tolist()
        return found

    def _signs_of(self, rows: Any) -> Any:
        """Return the signs of each row, 64 to a word."""
        np = self._np
        bits = np.packbits(rows > 0, axis=-1)
        wide = np.zeros((*bits.shape[:-1], self._words * (_WORD // 8)), np.uint8)
        wide[..., : bits.shape[-1]] = bits
        return wide.view(np.uint64)

    @property
    def _words(self) -> int:
        return -(-self._size // _WORD)

    def _room(self, parts: int, before: _CachedSketches | None) -> _CachedSketches:
        """Return arrays for so many parts, with the previous parts at their start."""
        np, together = self._np, SKETCHED_TOGETHER
        made = _CachedSketches(
            {},
            np.zeros(parts, np.int64),
            np.zeros((parts, together), bool),
            np.zeros((parts, together, self._size), np.int8),
            np.zeros((parts, self._words, together), np.uint64),
            np.zeros((parts, together)),
        )
        if before is not None:
            used = len(before.slots)
            for new, old in zip(made[1:], before[1:], strict=True):
                new[:used] = old[:used]
        return made


def _places(held: _CachedSketches, some: Any) -> Any:
    return held.numbers[some // SKETCHED_TOGETHER] * SKETCHED_TOGETHER + some % SKETCHED_TOGETHER


_SIGNS = bytes(ord("1") if 0 < byte < 1 << 7 else ord("0") for byte in range(256))


class PlainSketches:
    """The sketches of a generation, compared without numpy.

    Args:
        generation: The generation.
        side: Side values with its parts.
    """

    def __init__(self, generation: Generation, side: Mapping[str, bytes]) -> None:
        self._size = size_of(generation)
        self._parts = dict[int, bytes]()
        for name, kept in side.items():
            number = part_of(name, kept, generation)
            if number is not None:
                self._parts[number] = kept

    def nearest(self, asked: QuantizedQuery, limit: int) -> dict[int, float]:
        """Return the log positions of the nearest sketches with their cosines, best first."""
        # Log positions by the number of different signs, in log order.
        apart: list[list[int]] = [[] for _ in range(self._size + 1)]
        signs = int("".join("1" if number > 0 else "0" for number in asked.numbers), 2)
        size = self._size
        for number, kept in sorted(self._parts.items()):
            first, drawn = number * SKETCHED_TOGETHER, kept[BITS:].translate(_SIGNS)
            for at in _plain_there(kept):
                own = int(drawn[at * size : (at + 1) * size], 2)
                apart[(own ^ signs).bit_count()].append(first + at)
        some = list[int]()
        for places in apart:
            some += places[: LOOKED_AT - len(some)]
        found = self._cosines(asked, some)
        best = sorted(found, key=lambda place: (-found[place], place))[:limit]
        return {place: round_score(found[place]) for place in best}

    def cosines(self, asked: QuantizedQuery, places: Sequence[int]) -> dict[int, float]:
        """Return the cosines of the sketches at log positions; others are omitted."""
        there = [place for place in places if self._has(place)]
        return {place: round_score(one) for place, one in self._cosines(asked, there).items()}

    def _has(self, place: int) -> bool:
        number, at = divmod(place, SKETCHED_TOGETHER)
        kept = self._parts.get(number)
        return kept is not None and bool(kept[at // 8] >> at % 8 & 1)

    def _cosines(self, asked: QuantizedQuery, places: Sequence[int]) -> dict[int, float]:
        views = {number: memoryview(kept).cast("b") for number, kept in self._parts.items()}
        found, size = dict[int, float](), self._size
        for place in places:
            number, at = divmod(place, SKETCHED_TOGETHER)
            row = views[number][BITS + at * size : BITS + (at + 1) * size]
            square = sum(map(mul, row, row)) * asked.square
            dot = sum(map(mul, row, asked.numbers))
            found[place] = dot / sqrt(square) if square else 0.0
        return found


def _plain_there(part: bytes) -> Iterator[int]:
    """Yield the offsets in a part of the positions that have a sketch."""
    bits = int.from_bytes(part[:BITS], "little")
    return (at for at in range(SKETCHED_TOGETHER) if bits >> at & 1)


_KEPT = 4
"""Banks whose sketches are cached in memory."""

_FEW_PARTS = 80
"""Number of parts that are compared faster without numpy than numpy loads."""

_SHARED = len(SKETCHES) + 7
"""Characters that the names of 16 parts share: all but the last digit of the number."""

_lock = Lock()
_known: OrderedDict[str, MatrixSketches] = OrderedDict()
_once: set[str] = set()
"""Generations that were queried without numpy; a second query loads it."""


def sketches(view: View, generation: Generation) -> VectorSketches | None:
    """Return the sketches of a generation as of a view; None if there are none."""
    name = STAMP + key_of(generation)
    stamp = view.side(name).get(name)
    if stamp is None:
        return None
    told = changes(stamp) or [(stamp.decode("ascii", "replace"), [])]
    last = told[-1][0]
    with _lock:
        if last not in _known:
            held = _kept_on(view, generation, told)
            if held is None:
                parts = -(-view.head.size // SKETCHED_TOGETHER)
                if _is_asked_once(name, parts):
                    return PlainSketches(generation, view.side(SKETCHES))
                held = MatrixSketches(numpy(), generation, parts)
                for some in _prefixes(parts):
                    held.put(view.side(some))
            _known[last] = held
            while len(_known) > _KEPT:
                _known.popitem(last=False)
        _known.move_to_end(last)
        return _known[last]


def _prefixes(parts: int) -> Iterator[str]:
    """Yield prefixes of the names of so many parts, each for 16 of them.

    Reading in steps reuses memory, which is faster than allocating for all.
    """
    for first in range(0, parts, 16):
        yield sketch_prefix(first * SKETCHED_TOGETHER)[:_SHARED]


def _kept_on(view: View, generation: Generation, told: Changes) -> MatrixSketches | None:
    """Return the cached sketches of an earlier stamp, updated with the parts written since."""
    parts = set[int]()
    for name, drawn in reversed(told):
        held = _known.pop(name, None)
        if held is not None:
            for number in sorted(parts):
                part = sketch_prefix(number * SKETCHED_TOGETHER) + key_of(generation)
                held.put(view.side(part))
            return held
        parts.update(drawn)
    return None


def _is_asked_once(name: str, parts: int) -> bool:
    """Return whether numpy is not worth loading, or not installed."""
    if "numpy" in sys.modules:
        return sys.modules["numpy"] is None
    if parts <= _FEW_PARTS and name not in _once:
        _once.add(name)
        return True
    from importlib.util import find_spec

    return find_spec("numpy") is None
