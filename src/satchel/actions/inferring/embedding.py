"""Making the vectors of a bank."""

from dataclasses import KW_ONLY, dataclass
from typing import Annotated

import msgspec

from satchel.actions.inferring.models import embedder_of
from satchel.actions.opened import OpenBank
from satchel.actions.options import OnProgress
from satchel.actions.permitted.owning import require_owner
from satchel.ledger.view import View
from satchel.ports.operations import Option, Options, operation
from satchel.recall.generations import fill, in_use

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


@dataclass(frozen=True, slots=True)
class EmbedOptions(Options):
    """How to compute vectors."""

    model: Annotated[
        str | None,
        Option(
            "Model: static-idf, static, minilm, onnx or openai. Default: inference.embedder of the"
            " settings.",
            max_length=200,
        ),
    ] = None
    _: KW_ONLY
    rebuild: Annotated[bool, Option("Compute all vectors again, then drop the old ones.")] = False
    progress: OnProgress = None


@operation(
    EmbedOptions,
    name="embed",
    example="satchel embed --bank assistant",
    absent={"mcp": "`remember` computes the vector of a memory."},
)
def embed_bank(bank: OpenBank, options: EmbedOptions) -> Embedded:
    """Compute the vectors that memories lack: numbers for what a memory means.

    The built-in models need no network. An interrupted run is resumed by the next one.

    Raises:
        UsageError: If there is no such model.
        MissingExtraError: If the model needs an extra that is not installed.
        InferenceError: If the model does not answer; finished vectors are kept.
    """
    require_owner(bank.settings, "embed")
    embedder = embedder_of(bank.settings, options.model)
    done = fill(bank.store, bank.ledger, embedder, rebuild=options.rebuild, told=options.progress)
    made, memories, notes = done.made, done.new + done.kept, list[str]()
    if made.learnt is not None and memories > _OUTGROWN * max(made.entries, made.memories, 1):
        then = made.entries or made.memories
        notes.append(
            f"word weights come from {then:,} memories, and the bank now has {memories:,}; to "
            "update them: satchel embed --rebuild"
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
