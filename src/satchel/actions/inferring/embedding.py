"""Making the vectors of a bank."""

import msgspec

from satchel.actions.inferring.models import embedder_of
from satchel.actions.opened import OpenBank
from satchel.actions.permitted.owning import require_owner
from satchel.ledger.view import View
from satchel.recall.generations import Progress, fill, in_use

_OUTGROWN = 2
_TOGETHER = 256


class Embedded(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What was done to a bank's vectors."""

    bank: str
    name: str | None
    model: str
    dimensions: int
    generation: int
    made: int
    """Vectors that were made now."""

    kept: int
    """Memories that had one already."""

    dropped: int
    """Vectors of another generation that were removed."""

    notes: list[str] = []


class VectorStats(msgspec.Struct, frozen=True, kw_only=True):
    """The vectors that a bank uses."""

    model: str
    dimensions: int
    generation: int
    count: int
    """Vectors, also of memories that are in the past."""

    missing: int
    """Current memories that have none."""


def embed_bank(
    bank: OpenBank,
    model: str | None = None,
    *,
    rebuild: bool = False,
    progress: Progress | None = None,
) -> Embedded:
    """Make the vectors that a bank's current memories lack.

    Args:
        bank: The bank.
        model: As ``embedder_of`` takes it.
        rebuild: Make all of them again, in a new generation, which then replaces the one in use.
        progress: Told how many places of the log were looked at, and of how many.

    Raises:
        UsageError: If there is no such model, or it is not installed.
        InferenceError: If it does not answer; what was made is kept, and gone on with.
    """
    require_owner(bank.settings, "embed")
    embedder = embedder_of(bank.settings, model)
    done = fill(bank.store, bank.ledger, embedder, rebuild=rebuild, told=progress)
    made, memories, notes = done.made, done.new + done.kept, list[str]()
    if made.learnt is not None and memories > _OUTGROWN * max(made.entries, made.memories, 1):
        then = made.entries or made.memories
        notes.append(
            f"words are weighed by the {then:,} memories there were when the first vector "
            f"was made; now there are {memories:,}: satchel embed --rebuild"
        )
    return Embedded(
        bank=bank.id,
        name=bank.name,
        model=made.model,
        dimensions=made.dimensions,
        generation=made.number,
        made=done.new,
        kept=done.kept,
        dropped=done.dropped,
        notes=notes,
    )


class Lacking:
    """Counts the memories that have no vector, some at a time.

    Args:
        view: Of the bank.
    """

    def __init__(self, view: View) -> None:
        self._view = view
        self._made = in_use(view)
        self._missing = 0
        self._ids: list[str] = []

    def take(self, identity: str) -> None:
        """Take a current memory."""
        if self._made is not None:
            self._ids.append(identity)
            if len(self._ids) == _TOGETHER:
                self._count()

    @property
    def stats(self) -> VectorStats | None:
        """What there is; None for a bank without vectors."""
        if self._made is None:
            return None
        self._count()
        made = self._made
        return VectorStats(
            model=made.model,
            dimensions=made.dimensions,
            generation=made.number,
            count=self._view.generations().get(made.generation, 0),
            missing=self._missing,
        )

    def _count(self) -> None:
        if self._made is not None:
            there = self._view.vectors(self._made.generation, self._ids)
            self._missing += len(self._ids) - len(there)
        self._ids.clear()
