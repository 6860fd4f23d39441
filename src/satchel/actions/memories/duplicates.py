"""Memories of a bank that repeat an earlier one."""

from dataclasses import dataclass
from typing import Annotated

import msgspec

from satchel.actions.inferring.duplicates import MOST, add_memories
from satchel.actions.inferring.models import STATIC, embedder_of
from satchel.actions.memories.values import Memory, memory_of
from satchel.actions.opened import OpenBank
from satchel.actions.options import OnProgress
from satchel.memory.times import now
from satchel.ports.operations import Option, Options, operation
from satchel.transfer.near.finding import LEAST, Texts

_LOWEST = 0.5
_TOGETHER = 256


class DuplicatePair(msgspec.Struct, frozen=True, kw_only=True):
    """Two memories that say the same."""

    memory: Memory
    like: Memory
    """The earlier one."""

    similarity: float


class Duplicates(msgspec.Struct, frozen=True, kw_only=True):
    """The near-duplicates of a bank."""

    bank: str
    name: str | None
    memories: int
    model: str
    compared: int
    """Pairs of vectors."""

    found: int
    """Memories that say what an earlier one says."""

    pairs: list[DuplicatePair]
    """Each such memory with the earlier one that it is most like."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DuplicatesOptions(Options):
    """Which memories count as duplicates."""

    similarity: Annotated[
        float, Option("Lowest similarity of duplicates.", minimum=_LOWEST, maximum=1)
    ] = LEAST
    limit: Annotated[int, Option("Maximum number of pairs.", minimum=0, maximum=100_000)] = MOST
    progress: OnProgress = None


@operation(
    DuplicatesOptions,
    name="duplicates",
    example="satchel duplicates --bank assistant",
    absent={"mcp": "Memories reach a model only by `recall`, `list`, `show` and `rehydrate`."},
)
def duplicates(bank: OpenBank, options: DuplicatesOptions) -> Duplicates:
    """List memories that repeat an earlier one, for review. Nothing is changed.

    Memories that differ in a number, a negation or a name are never listed.

    Raises:
        MissingExtraError: If numpy is not installed.
    """
    bank, embedder = bank.asked("duplicates"), embedder_of(bank.settings, STATIC)
    with Texts(embedder) as texts:
        memories = add_memories(texts, bank)
        twins, compared = texts.twins(options.similarity, options.progress), texts.pairs
    told = [(name, found[0]) for name, found in list(twins.items())[: options.limit]]
    with bank.ledger.reading() as view:
        known, moment = dict[str, Memory](), now()
        ids = list(dict.fromkeys(each for name, twin in told for each in (name, twin.name)))
        for start in range(0, len(ids), _TOGETHER):
            there = view.get(ids[start : start + _TOGETHER])
            known |= {
                name: memory_of(view, logged, moment=moment) for name, logged in there.items()
            }
    pairs = [
        DuplicatePair(memory=known[name], like=known[twin.name], similarity=twin.similarity)
        for name, twin in told
        if name in known and twin.name in known  # erased meanwhile
    ]
    return Duplicates(
        bank=bank.id,
        name=bank.name,
        memories=memories,
        model=embedder.model,
        compared=compared,
        found=len(twins),
        pairs=pairs,
    )
