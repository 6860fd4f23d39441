"""What a question means, beside what memories mean: cosines, by the places of records."""

from collections.abc import Callable, Sequence
from math import hypot
from operator import mul
from struct import unpack

from satchel.errors import SatchelError
from satchel.ledger.view import View
from satchel.ports.inference import Embedder
from satchel.ports.rows import Row
from satchel.recall.fusion import SignalWeights, round_score, weights_of
from satchel.recall.sketches import QuantizedQuery, VectorSketches, size_of, sketches
from satchel.recall.vector_index import GenerationInfo, current_generation

LEAST = 0.25
"""The cosine from which on a memory is nominated by what it means alone.

Of a hundred turns of conversations taken at random, three are so near a question.
"""

Embedders = Callable[[GenerationInfo], Embedder | None]
"""Gives what made a generation, where questions may be handed to it."""


class SemanticQuery:
    """What a question means, for one bank.

    Args:
        view: The bank.
        text: The question.
        embedders: Gives what makes its vector.
    """

    def __init__(self, view: View, text: str, embedders: Embedders | None) -> None:
        self._view = view
        self.made = current_generation(view) if embedders is not None and text.strip() else None
        self.note = ""
        """Why it is left out, where the bank has vectors."""

        self._vector: tuple[float, ...] | None = None
        self._asked: QuantizedQuery | None = None
        self._sketches: VectorSketches | None = None
        if self.made is not None and embedders is not None:
            self._ask(self.made, text, embedders)

    def __bool__(self) -> bool:
        """Tell whether there is anything to compare with."""
        return self._vector is not None

    @property
    def weights(self) -> SignalWeights:
        """What signals weigh beside it."""
        return weights_of(self.made.model if self and self.made is not None else None)

    def nearest(self, limit: int) -> list[int]:
        """Return the places of the records that mean most nearly the same, best first."""
        if self._vector is None or self.made is None:
            return []
        if self._sketches is not None and self._asked is not None:
            found = self._sketches.nearest(self._asked, limit)
            return [place for place, cosine in found.items() if cosine >= LEAST]
        near = self._view.near(self.made.generation, self._vector, limit=limit)
        places = self._view.places([name for name, cosine in near if cosine >= LEAST])
        return list(places.values())

    def cosines(self, rows: Sequence[Row]) -> dict[int, float]:
        """Return how nearly records mean the same, by place; those without a vector are left out.

        Below 0 counts as 0.
        """
        if self._vector is None or self.made is None:
            return {}
        if self._sketches is not None and self._asked is not None:
            found = self._sketches.cosines(self._asked, [row.seq for row in rows])
        else:
            found = self._compared(self.made, self._vector, rows)
        return {place: max(0.0, cosine) for place, cosine in found.items()}

    def _ask(self, made: GenerationInfo, text: str, embedders: Embedders) -> None:
        try:
            embedder = embedders(made)
            if embedder is None:
                self.note = f"queries are not sent to {made.model}; searched by words only"
                return
            (raw,) = made.embedder(embedder).embed([text])
        except SatchelError as error:
            self.note = f"{made.model} did not respond; searched by words only: {error.message}"
            return
        numbers = unpack(f"<{made.dimensions}f", raw)
        if not any(numbers):
            self.note = f"{made.model} knows none of the words; searched by words only"
        else:
            self._vector = numbers
            self._asked = QuantizedQuery(numbers, size_of(made.generation))
            self._sketches = sketches(self._view, made.generation)

    def _compared(
        self, made: GenerationInfo, vector: Sequence[float], rows: Sequence[Row]
    ) -> dict[int, float]:
        there = self._view.vectors(made.generation, [row.id for row in rows])
        return {
            row.seq: round_score(_cosine(vector, there[row.id])) for row in rows if row.id in there
        }


def _cosine(one: Sequence[float], other: Sequence[float]) -> float:
    lengths = hypot(*one) * hypot(*other)
    return sum(map(mul, one, other)) / lengths if lengths else 0.0
