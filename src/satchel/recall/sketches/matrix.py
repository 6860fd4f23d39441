"""Comparing sketches with numpy: all of them are in memory, and are kept there."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from satchel.ports.vectors import SKETCHED_TOGETHER, Generation
from satchel.recall.digits import PLACES
from satchel.recall.sketches.asked import LOOKED_AT, Asked
from satchel.recall.sketches.drawing import BITS, part_of, size_of

_WORD, _HALF = 64, 256
_TOGETHER = 64
"""Parts whose signs are compared at once."""


class _Held(NamedTuple):
    """Parts one after another, with room for more behind the last one.

    Whoever looks something up works with one of these throughout, whatever is put meanwhile.
    """

    slots: dict[int, int]
    """Where each part is, by its number."""

    numbers: Any
    """The numbers of the parts, in the order in which they are held."""

    there: Any
    """Which places have a sketch: (parts, 256)."""

    rows: Any
    """The sketches: (parts, 256, numbers)."""

    signs: Any
    """Their signs, 64 in a word: (parts, words, 256)."""

    squares: Any
    """The sums of the squares of their numbers, whole; -1 until one is needed: (parts, 256)."""


class MatrixSketches:
    """The sketches of one generation, in memory: 297 bytes for a vector of 256 numbers.

    Args:
        np: numpy.
        generation: What they were drawn from.
        parts: How many there is room for; more of it is made when it is needed.
    """

    def __init__(self, np: Any, generation: Generation, parts: int) -> None:
        self._np = np
        self._generation = generation
        self._size = size_of(generation)
        self._held = self._room(parts, None)

    def put(self, side: Mapping[str, bytes]) -> None:
        """Take what some side values hold, in the place of what was held of the same parts."""
        np = self._np
        found = {part_of(name, kept, self._generation): kept for name, kept in side.items()}
        parts = {number: kept for number, kept in found.items() if number is not None}
        slots = dict(self._held.slots)
        for number in sorted(parts):
            slots.setdefault(number, len(slots))
        held = self._held
        if len(slots) > len(held.rows):
            # Room for some more, so that not everything is moved for each part that comes.
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

    def nearest(self, asked: Asked, limit: int) -> dict[int, float]:
        """Return places with the cosines of their sketches, best first."""
        np, held = self._np, self._held
        some = self._alike(held, asked)
        cosines, places = self._cosines(held, some, asked), _places(held, some)
        best = np.lexsort((places, -cosines))[:limit]
        return dict(zip(places[best].tolist(), self._told(cosines[best]), strict=True))

    def cosines(self, asked: Asked, places: Sequence[int]) -> dict[int, float]:
        """Return the cosines of the sketches at places that have one."""
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

    def _alike(self, held: _Held, asked: Asked) -> Any:
        """Return where those are whose signs are most alike, among equals the first of the log."""
        np, used = self._np, len(held.slots)
        there = held.there[:used].ravel()
        if np.count_nonzero(there) <= LOOKED_AT:
            return np.flatnonzero(there)
        [signs] = self._signs_of(np.array([asked.numbers]))
        apart = np.empty((used, SKETCHED_TOGETHER), np.uint16)
        for start in range(0, used, _TOGETHER):  # so much as the caches of a processor hold
            end = min(used, start + _TOGETHER)
            counts = np.bitwise_count(held.signs[start:end] ^ signs[:, None])
            np.add.reduce(counts, axis=1, dtype=np.uint16, out=apart[start:end])
        apart = apart.ravel()
        apart[~there] = self._size + 1
        far = np.partition(apart, LOOKED_AT - 1)[LOOKED_AT - 1]
        nearer, as_far = np.flatnonzero(apart < far), np.flatnonzero(apart == far)
        as_far = as_far[np.argsort(_places(held, as_far))]
        return np.concatenate([nearer, as_far[: LOOKED_AT - len(nearer)]])

    def _cosines(self, held: _Held, some: Any, asked: Asked) -> Any:
        """Return the cosines of sketches.

        Everything that is added up is whole, and exact in whatever order: below 2**24 with
        numbers of 32 bits, since those of the question are split into two halves, and 2**53 after.
        """
        np = self._np
        rows = held.rows.reshape(-1, self._size)[some].astype(np.float32)
        squares = held.squares.ravel()[some]
        lacking = np.flatnonzero(squares < 0)
        if len(lacking):
            # Of few only: those of a bank take longer than its first question.
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
        """Return the signs of numbers, 64 in a word, for each row."""
        np = self._np
        bits = np.packbits(rows > 0, axis=-1)
        wide = np.zeros((*bits.shape[:-1], self._words * (_WORD // 8)), np.uint8)
        wide[..., : bits.shape[-1]] = bits
        return wide.view(np.uint64)

    @property
    def _words(self) -> int:
        return -(-self._size // _WORD)

    def _room(self, parts: int, before: _Held | None) -> _Held:
        """Return room for so many parts, with what was held before at its start."""
        np, together = self._np, SKETCHED_TOGETHER
        made = _Held(
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


def _places(held: _Held, some: Any) -> Any:
    return held.numbers[some // SKETCHED_TOGETHER] * SKETCHED_TOGETHER + some % SKETCHED_TOGETHER
