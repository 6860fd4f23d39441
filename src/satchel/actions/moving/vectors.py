"""The vectors of a bank, for an export that takes them along."""

from collections.abc import Mapping, Sequence

from blake3 import blake3

from satchel.actions.opened import OpenBank
from satchel.ledger.view import View
from satchel.ports.carried import Maker, Sum
from satchel.recall.generations import Made, in_use

_DIGITS = 16


class BankVectors:
    """The generation that a bank uses.

    Args:
        bank: The bank.
        made: What is known of the generation.
        count: How many vectors it has.
    """

    def __init__(self, bank: OpenBank, made: Made, count: int) -> None:
        self.count = count
        self.maker = Maker(
            model=made.model,
            dimensions=made.dimensions,
            revision=made.revision,
            learnt="" if made.learnt is None else blake3(made.learnt).hexdigest()[:_DIGITS],
        )
        self.sent = Sum()
        """Those that were written."""

        self.placed = False
        """Whether the format has a place for them."""

        self._bank = bank
        self._generation = made.generation

    def begin(self) -> None:
        """Forget what was written: it is written again."""
        self.sent, self.placed = Sum(), True

    def of(self, ids: Sequence[str]) -> Mapping[str, Sequence[float]]:
        """Return vectors by id, of this generation or none: it may be replaced meanwhile."""
        with self._bank.ledger.reading() as view:
            return view.vectors(self._generation, ids)

    def wrote(self, mark: str, vector: Sequence[float]) -> None:
        """Count a vector that was written."""
        self.sent.take(mark, vector)


def vectors_of(bank: OpenBank, view: View) -> BankVectors | None:
    """Return the vectors that somebody had made for a bank; None where there are none.

    Those that were made unasked can be made again by whoever reads the file, at no cost: they would
    only take the place of vectors that came with memories.
    """
    made = in_use(view) if view.is_whole else None
    if made is None or not made.asked:
        return None
    return BankVectors(bank, made, view.generations().get(made.generation, 0))
