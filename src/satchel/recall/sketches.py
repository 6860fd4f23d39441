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
from satchel.recall.order import PLACES, round_score
from satchel.runtime.arrays import numpy

MOST_NUMBERS = 512
"""Maximum numbers of a vector that a sketch has, from its start."""

BITS = SKETCHED_TOGETHER // 8
"""Bytes at the start of a part with a bit for each position that has a sketch, lowest first."""

STAMP = "vectors/stamp/"
"""Prefix of the stamp, which sorts after the sketches, so that finding it does not read them."""

_SCALE = 127
_LEAST = 1e-300
"""A vector whose numbers are all smaller than this counts as zero."""

_REMEMBERED = 64
"""Maximum changes that a stamp lists."""

Changes = list[tuple[str, list[int]]]
"""Changes, oldest first: each has a unique name and the numbers of the parts that it wrote."""


def store_sketches(
    writing: Writer, bank: str, generation: Generation, vectors: Mapping[int, bytes]
) -> None:
    """Store the sketches of vectors by log position, in the caller's transaction."""
    if not vectors:
        return
    size, side = size_of(generation), dict[str, bytes | None]()
    key, parts = key_of(generation), dict[int, list[int]]()
    for position in vectors:
        parts.setdefault(position // SKETCHED_TOGETHER, []).append(position)
    drawn = dict(zip(vectors, _quantize(list(vectors.values()), generation), strict=True))
    for number, positions in parts.items():
        name = sketch_prefix(number * SKETCHED_TOGETHER) + key
        part = bytearray(_usable_part(writing.side(bank, name).get(name), size))
        for position in positions:
            at = position % SKETCHED_TOGETHER
            part[at // 8] |= 1 << at % 8
            part[BITS + at * size : BITS + (at + 1) * size] = drawn[position]
        side[name] = bytes(part)
    stamp = changes(writing.side(bank, STAMP + key).get(STAMP + key))
    stamp = [*stamp[1 - _REMEMBERED :], (token_hex(16), sorted(parts))]
    writing.put_side(bank, {**side, STAMP + key: msgspec.json.encode(stamp)})


def without_sketches(
    reader: Reader, bank: str, generation: Generation, positions: Sequence[int]
) -> set[int]:
    """Return the log positions that have no sketch."""
    size, lacking, parts = size_of(generation), set[int](), dict[int, bytes]()
    for position in positions:
        number, at = divmod(position, SKETCHED_TOGETHER)
        if number not in parts:
            name = sketch_prefix(position) + key_of(generation)
            parts[number] = _usable_part(reader.side(bank, name).get(name), size)
        if not parts[number][at // 8] >> at % 8 & 1:
            lacking.add(position)
    return lacking


def drop_sketches(writing: Writer, bank: str, generation: Generation) -> None:
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


def part_number(name: str, part: bytes, generation: Generation) -> int | None:
    """Return the number of a part of a generation; None for other side values."""
    if name.endswith(key_of(generation)) and len(part) == part_size(size_of(generation)):
        return int(name.removeprefix(SKETCHES)[:8], 16)
    return None


def part_size(size: int) -> int:
    """Return the size in bytes of a part whose sketches have so many numbers."""
    return BITS + SKETCHED_TOGETHER * size


def key_of(generation: Generation) -> str:
    """Return the suffix of the names of a generation's side values."""
    text = f"{generation.number} {generation.dimensions} {generation.model}"
    return blake3(text.encode("utf-8", "surrogatepass")).hexdigest(length=8)


def size_of(generation: Generation) -> int:
    """Return the number of numbers of a sketch."""
    return min(generation.dimensions, MOST_NUMBERS)


def _usable_part(part: bytes | None, size: int) -> bytes:
    """Return a stored part, or an empty one if it is missing or has the wrong size."""
    whole = part_size(size)
    return part if part is not None and len(part) == whole else bytes(whole)


def _quantize(vectors: Sequence[bytes], generation: Generation) -> list[bytes]:
    """Return the sketches of vectors, with numpy if it is loaded; results are the same without.

    The largest number becomes 127; halves are rounded to even.
    """
    size = size_of(generation)
    if sys.modules.get("numpy") is None:
        return [_quantize_plain(vector, generation.dimensions, size) for vector in vectors]
    import numpy as np

    drawn = [b""] * len(vectors)
    for width in WIDTHS:
        length = width * generation.dimensions
        same = [at for at, vector in enumerate(vectors) if len(vector) == length]
        joined = b"".join(vectors[at] for at in same)
        numbers = np.frombuffer(joined, f"<f{width}").reshape(len(same), generation.dimensions)
        numbers = numbers[:, :size].astype(float)
        most = np.abs(numbers).max(axis=1, initial=0.0, keepdims=True)
        scale = np.divide(float(_SCALE), most, out=np.zeros_like(most), where=most > _LEAST)
        for at, row in zip(same, np.rint(numbers * scale).astype(np.int8), strict=True):
            drawn[at] = row.tobytes()
    return drawn


def _quantize_plain(vector: bytes, dimensions: int, size: int) -> bytes:
    width = len(vector) // dimensions
    numbers = array("f" if width == WIDTHS[0] else "d")
    numbers.frombytes(vector[: width * size])
    most = max(map(abs, numbers))
    scale = _SCALE / most if most > _LEAST else 0.0
    return array("b", [round(number * scale) for number in numbers]).tobytes()


LOOKED_AT = 1000
"""Maximum sketches that are compared, those whose signs are most alike."""

_QUERY_SCALE = 32_767


class QuantizedQuery:
    """The vector of a query, quantized to integers.

    Args:
        vector: Its numbers.
        size: Number of them to use, from its start.
    """

    def __init__(self, vector: Sequence[float], size: int) -> None:
        most = max(map(abs, vector[:size]), default=0.0)
        self.numbers = (
            [round(number / most * _QUERY_SCALE) for number in vector[:size]] if most else []
        )
        self.numbers += [0] * (size - len(self.numbers))
        self.square = sum(number * number for number in self.numbers)
        """The square of its length."""


class VectorSketches(Protocol):
    """The sketches of a generation."""

    def nearest(self, query: QuantizedQuery, limit: int) -> dict[int, float]:
        """Return the log positions of the nearest sketches with their cosines, best first."""
        ...

    def cosines(self, query: QuantizedQuery, positions: Sequence[int]) -> dict[int, float]:
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

    exists: Any
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
        self._cached = self._allocate(parts, None)

    def put(self, side: Mapping[str, bytes]) -> None:
        """Add the parts in side values, replacing parts of the same numbers."""
        np = self._np
        numbered = {part_number(name, part, self._generation): part for name, part in side.items()}
        parts = {number: part for number, part in numbered.items() if number is not None}
        slots = dict(self._cached.slots)
        for number in sorted(parts):
            slots.setdefault(number, len(slots))
        cached = self._cached
        if len(slots) > len(cached.rows):
            # Allocate spare room, so that not every new part moves all others.
            cached = self._allocate(len(slots) + (len(slots) // 8 if cached.slots else 0), cached)
        for number, part in parts.items():
            at, rows = slots[number], np.frombuffer(part, np.int8, offset=BITS)
            cached.numbers[at] = number
            cached.rows[at] = rows.reshape(SKETCHED_TOGETHER, -1)
            bits = np.unpackbits(np.frombuffer(part[:BITS], np.uint8), bitorder="little")
            cached.exists[at] = bits
            cached.signs[at] = self._signs_of(cached.rows[at]).T
            cached.squares[at] = -1
        self._cached = cached._replace(slots=slots)

    def nearest(self, query: QuantizedQuery, limit: int) -> dict[int, float]:
        """Return the log positions of the nearest sketches with their cosines, best first."""
        np, cached = self._np, self._cached
        candidates = self._candidates(cached, query)
        cosines, positions = self._cosines(cached, candidates, query), _places(cached, candidates)
        best = np.lexsort((positions, -cosines))[:limit]
        return dict(zip(positions[best].tolist(), self._rounded(cosines[best]), strict=True))

    def cosines(self, query: QuantizedQuery, positions: Sequence[int]) -> dict[int, float]:
        """Return the cosines of the sketches at log positions; others are omitted."""
        cached, indices = self._cached, dict[int, int]()
        for position in positions:
            number, at = divmod(position, SKETCHED_TOGETHER)
            slot = cached.slots.get(number)
            if slot is not None:
                indices[position] = slot * SKETCHED_TOGETHER + at
        rows = self._np.array(list(indices.values()), dtype=int)
        exists = cached.exists.ravel()[rows]
        cosines = self._rounded(self._cosines(cached, rows, query))
        pairs = zip(indices, cosines, exists.tolist(), strict=True)
        return {position: cosine for position, cosine, is_drawn in pairs if is_drawn}

    def _candidates(self, cached: _CachedSketches, query: QuantizedQuery) -> Any:
        """Return the indices of the sketches with the most similar signs; ties in log order."""
        np, used = self._np, len(cached.slots)
        exists = cached.exists[:used].ravel()
        if np.count_nonzero(exists) <= LOOKED_AT:
            return np.flatnonzero(exists)
        [signs] = self._signs_of(np.array([query.numbers]))
        apart = np.empty((used, SKETCHED_TOGETHER), np.uint16)
        for start in range(0, used, _TOGETHER):  # steps that fit the processor's caches
            end = min(used, start + _TOGETHER)
            counts = np.bitwise_count(cached.signs[start:end] ^ signs[:, None])
            np.add.reduce(counts, axis=1, dtype=np.uint16, out=apart[start:end])
        apart = apart.ravel()
        apart[~exists] = self._size + 1
        far = np.partition(apart, LOOKED_AT - 1)[LOOKED_AT - 1]
        nearer, as_far = np.flatnonzero(apart < far), np.flatnonzero(apart == far)
        as_far = as_far[np.argsort(_places(cached, as_far))]
        return np.concatenate([nearer, as_far[: LOOKED_AT - len(nearer)]])

    def _cosines(self, cached: _CachedSketches, indices: Any, query: QuantizedQuery) -> Any:
        """Return the cosines of sketches.

        All sums are integers and exact in any order: below 2**24 in 32-bit floats, since the
        numbers of the query are split into two halves, and below 2**53 after that.
        """
        np = self._np
        rows = cached.rows.reshape(-1, self._size)[indices].astype(np.float32)
        squares = cached.squares.ravel()[indices]
        lacking = np.flatnonzero(squares < 0)
        if len(lacking):
            # Only for these rows: all of a bank take longer than its first query.
            wide = rows[lacking]
            squares[lacking] = np.einsum("ij,ij->i", wide, wide)
            cached.squares.ravel()[indices[lacking]] = squares[lacking]
        halves = np.divmod(np.array(query.numbers), _HALF)
        high, low = (rows @ np.array(halves, np.float32).T).T.astype(float)
        squares = squares * float(query.square)
        dots = high * _HALF + low
        return np.divide(dots, np.sqrt(squares), out=np.zeros_like(dots), where=squares > 0)

    def _rounded(self, cosines: Any) -> list[float]:
        rounded: list[float] = (self._np.rint(cosines * PLACES) / PLACES).tolist()
        return rounded

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

    def _allocate(self, parts: int, before: _CachedSketches | None) -> _CachedSketches:
        """Return arrays for so many parts, with the previous parts at their start."""
        np, together = self._np, SKETCHED_TOGETHER
        cached = _CachedSketches(
            {},
            np.zeros(parts, np.int64),
            np.zeros((parts, together), bool),
            np.zeros((parts, together, self._size), np.int8),
            np.zeros((parts, self._words, together), np.uint64),
            np.zeros((parts, together)),
        )
        if before is not None:
            used = len(before.slots)
            for new, old in zip(cached[1:], before[1:], strict=True):
                new[:used] = old[:used]
        return cached


def _places(cached: _CachedSketches, indices: Any) -> Any:
    """Return the log positions of the sketches at indices."""
    numbers = cached.numbers[indices // SKETCHED_TOGETHER]
    return numbers * SKETCHED_TOGETHER + indices % SKETCHED_TOGETHER


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
        for name, part in side.items():
            number = part_number(name, part, generation)
            if number is not None:
                self._parts[number] = part

    def nearest(self, query: QuantizedQuery, limit: int) -> dict[int, float]:
        """Return the log positions of the nearest sketches with their cosines, best first."""
        # Log positions by the number of different signs, in log order.
        apart: list[list[int]] = [[] for _ in range(self._size + 1)]
        signs = int("".join("1" if number > 0 else "0" for number in query.numbers), 2)
        size = self._size
        for number, part in sorted(self._parts.items()):
            first, drawn = number * SKETCHED_TOGETHER, part[BITS:].translate(_SIGNS)
            for at in _offsets(part):
                own = int(drawn[at * size : (at + 1) * size], 2)
                apart[(own ^ signs).bit_count()].append(first + at)
        candidates = list[int]()
        for positions in apart:
            candidates += positions[: LOOKED_AT - len(candidates)]
        cosines = self._cosines(query, candidates)
        best = sorted(cosines, key=lambda position: (-cosines[position], position))[:limit]
        return {position: round_score(cosines[position]) for position in best}

    def cosines(self, query: QuantizedQuery, positions: Sequence[int]) -> dict[int, float]:
        """Return the cosines of the sketches at log positions; others are omitted."""
        drawn = [position for position in positions if self._has(position)]
        cosines = self._cosines(query, drawn)
        return {position: round_score(cosine) for position, cosine in cosines.items()}

    def _has(self, position: int) -> bool:
        number, at = divmod(position, SKETCHED_TOGETHER)
        part = self._parts.get(number)
        return part is not None and bool(part[at // 8] >> at % 8 & 1)

    def _cosines(self, query: QuantizedQuery, positions: Sequence[int]) -> dict[int, float]:
        views = {number: memoryview(part).cast("b") for number, part in self._parts.items()}
        cosines, size = dict[int, float](), self._size
        for position in positions:
            number, at = divmod(position, SKETCHED_TOGETHER)
            row = views[number][BITS + at * size : BITS + (at + 1) * size]
            square = sum(map(mul, row, row)) * query.square
            dot = sum(map(mul, row, query.numbers))
            cosines[position] = dot / sqrt(square) if square else 0.0
        return cosines


def _offsets(part: bytes) -> Iterator[int]:
    """Yield the offsets in a part of the positions that have a sketch."""
    bits = int.from_bytes(part[:BITS], "little")
    return (at for at in range(SKETCHED_TOGETHER) if bits >> at & 1)


_CACHED_BANKS = 4
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
    listed = changes(stamp) or [(stamp.decode("ascii", "replace"), [])]
    last = listed[-1][0]
    with _lock:
        if last not in _known:
            cached = _updated(view, generation, listed)
            if cached is None:
                parts = -(-view.head.size // SKETCHED_TOGETHER)
                if _is_plain_faster(name, parts):
                    return PlainSketches(generation, view.side(SKETCHES))
                cached = MatrixSketches(numpy(), generation, parts)
                for prefix in _prefixes(parts):
                    cached.put(view.side(prefix))
            _known[last] = cached
            while len(_known) > _CACHED_BANKS:
                _known.popitem(last=False)
        _known.move_to_end(last)
        return _known[last]


def _prefixes(parts: int) -> Iterator[str]:
    """Yield prefixes of the names of so many parts, each for 16 of them.

    Reading in steps reuses memory, which is faster than allocating for all.
    """
    for first in range(0, parts, 16):
        yield sketch_prefix(first * SKETCHED_TOGETHER)[:_SHARED]


def _updated(view: View, generation: Generation, listed: Changes) -> MatrixSketches | None:
    """Return the cached sketches of an earlier stamp, updated with the parts written since."""
    parts = set[int]()
    for name, drawn in reversed(listed):
        cached = _known.pop(name, None)
        if cached is not None:
            for number in sorted(parts):
                part = sketch_prefix(number * SKETCHED_TOGETHER) + key_of(generation)
                cached.put(view.side(part))
            return cached
        parts.update(drawn)
    return None


def _is_plain_faster(name: str, parts: int) -> bool:
    """Return whether numpy is not worth loading, or not installed."""
    if "numpy" in sys.modules:
        return sys.modules["numpy"] is None
    if parts <= _FEW_PARTS and name not in _once:
        _once.add(name)
        return True
    from importlib.util import find_spec

    return find_spec("numpy") is None
