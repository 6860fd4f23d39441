"""Comparing sketches without numpy: for a question of a process that asks no other."""

from collections.abc import Iterator, Mapping, Sequence
from math import sqrt
from operator import mul

from satchel.ports.vectors import SKETCHED_TOGETHER, Generation
from satchel.recall.digits import told
from satchel.recall.sketches.asked import LOOKED_AT, Asked
from satchel.recall.sketches.drawing import BITS, part_of, size_of

_SIGNS = bytes(ord("1") if 0 < byte < 1 << 7 else ord("0") for byte in range(256))


class PlainSketches:
    """The sketches of one generation.

    Args:
        generation: What they were drawn from.
        side: The side values that hold them.
    """

    def __init__(self, generation: Generation, side: Mapping[str, bytes]) -> None:
        self._size = size_of(generation)
        self._parts = dict[int, bytes]()
        for name, kept in side.items():
            number = part_of(name, kept, generation)
            if number is not None:
                self._parts[number] = kept

    def nearest(self, asked: Asked, limit: int) -> dict[int, float]:
        """Return places with the cosines of their sketches, best first."""
        # By how many signs are otherwise; within, in the order of the log.
        apart: list[list[int]] = [[] for _ in range(self._size + 1)]
        signs = int("".join("1" if number > 0 else "0" for number in asked.numbers), 2)
        size = self._size
        for number, kept in sorted(self._parts.items()):
            first, drawn = number * SKETCHED_TOGETHER, kept[BITS:].translate(_SIGNS)
            for at in _there(kept):
                own = int(drawn[at * size : (at + 1) * size], 2)
                apart[(own ^ signs).bit_count()].append(first + at)
        some = list[int]()
        for places in apart:
            some += places[: LOOKED_AT - len(some)]
        found = self._cosines(asked, some)
        best = sorted(found, key=lambda place: (-found[place], place))[:limit]
        return {place: told(found[place]) for place in best}

    def cosines(self, asked: Asked, places: Sequence[int]) -> dict[int, float]:
        """Return the cosines of the sketches at places that have one."""
        there = [place for place in places if self._has(place)]
        return {place: told(one) for place, one in self._cosines(asked, there).items()}

    def _has(self, place: int) -> bool:
        number, at = divmod(place, SKETCHED_TOGETHER)
        kept = self._parts.get(number)
        return kept is not None and bool(kept[at // 8] >> at % 8 & 1)

    def _cosines(self, asked: Asked, places: Sequence[int]) -> dict[int, float]:
        views = {number: memoryview(kept).cast("b") for number, kept in self._parts.items()}
        found, size = dict[int, float](), self._size
        for place in places:
            number, at = divmod(place, SKETCHED_TOGETHER)
            row = views[number][BITS + at * size : BITS + (at + 1) * size]
            square = sum(map(mul, row, row)) * asked.square
            dot = sum(map(mul, row, asked.numbers))
            found[place] = dot / sqrt(square) if square else 0.0
        return found


def _there(part: bytes) -> Iterator[int]:
    """Yield which places of a part have a sketch, counted from its first."""
    bits = int.from_bytes(part[:BITS], "little")
    return (at for at in range(SKETCHED_TOGETHER) if bits >> at & 1)
