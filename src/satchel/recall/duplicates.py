"""Near-duplicates in a bank, and between a bank and the memories of an import."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

import msgspec

from satchel.bank.memory import Memory, memory_of
from satchel.bank.open_bank import OpenBank
from satchel.config.options import OnProgress
from satchel.config.settings import Settings
from satchel.crypto.sealed_records import Sealed
from satchel.errors import MissingExtraError
from satchel.model.records import Entry, Model
from satchel.model.values import now
from satchel.ports.operations import Option, Options, operation
from satchel.ports.rows import Row, entry_texts
from satchel.recall.models import STATIC, embedder_of
from satchel.recall.near_duplicates import LEAST, DuplicateIndex, SimilarText
from satchel.recall.vector_index import CURRENT

MOST = 1_000
"""Default maximum number of pairs that are returned; all are counted."""

_MOST_TEXTS, _MOST_CHARACTERS = 20_000, 4_000_000
"""Texts, and their characters, that are compared without being requested: a few seconds."""


class NearDuplicateMode(StrEnum):
    """What an import does with a near-duplicate."""

    OFF = "off"
    LIST = "list"
    SKIP = "skip"
    MERGE = "merge"


CHANGES_PLAN = (NearDuplicateMode.SKIP, NearDuplicateMode.MERGE)
"""Modes that change the plan of an import."""


class NearPair(msgspec.Struct, frozen=True, kw_only=True):
    """An imported record, and the imported or stored one that it repeats."""

    id: str
    text: str
    like: str
    """ID of the record that it repeats."""

    like_text: str
    similarity: float


Parts = Callable[[], Iterator[dict[str, Sequence[Row]]]]
"""Returns the imported rows from the start, in batches, by the name of their bank."""

Opened = Callable[[str], OpenBank | None]
"""Opens a bank by name; returns None if it does not exist."""


class DuplicateFinder:
    """Finds the near-duplicates of an import.

    Args:
        settings: The settings.
        asked: The mode; None to list them in a dry run, if that is quick.
        dry_run: Whether nothing will be imported.
    """

    def __init__(
        self, settings: Settings, mode: NearDuplicateMode | None, *, dry_run: bool
    ) -> None:
        self._settings = settings
        self._is_default = mode is None
        self.mode = mode or (NearDuplicateMode.LIST if dry_run else NearDuplicateMode.OFF)
        self.pairs: list[NearPair] = []
        """Pairs to report."""

        self.found = 0
        self.looked = False
        """Whether duplicates were searched."""

        self.notes: list[str] = []

    def find(self, parts: Parts, opened: Opened) -> dict[str, list[SimilarText]]:
        """Return the near-duplicates of imported records, by ID.

        Raises:
            MissingExtraError: If a mode was given and numpy is not installed.
        """
        self.pairs, self.found, self.notes, self.looked = [], 0, [], False
        if self.mode is NearDuplicateMode.OFF:
            return {}
        try:
            embedder = embedder_of(self._settings, STATIC)
        except MissingExtraError:
            if not self._is_default:
                raise
            return {}
        with DuplicateIndex(embedder) as texts:
            if not self._fill(texts, parts, opened):
                self.notes.append(
                    "near-duplicates were not detected, since there are many memories; to "
                    "detect them: --near-duplicates list"
                )
                return {}
            twins = texts.twins()
            self.found, self.looked = len(twins), True
            for name, similar in list(twins.items())[:MOST]:
                twin = similar[0]
                self.pairs.append(_pair(name, texts.text(name), twin, texts.text(twin.name)))
        return twins

    def _fill(self, texts: DuplicateIndex, parts: Parts, opened: Opened) -> bool:
        """Add the memories of the banks, then the imported ones; return False if too many."""
        names = dict.fromkeys(name for part in parts() for name in part)
        too_many = _is_much if self._is_default else _is_never
        for name in names:
            bank = opened(name)
            if bank is not None:
                add_memories(texts, bank, name, too_many)
            if too_many(texts):
                return False
        texts.begin()
        for part in parts():
            for name, rows in part.items():
                for row in rows:
                    record = Sealed(row.id, row.type, row.body or b"")
                    texts.add(row.id, _words(record.model), name)
            if too_many(texts):
                return False
        return True


def _is_much(texts: DuplicateIndex) -> bool:
    return texts.count > _MOST_TEXTS or texts.characters > _MOST_CHARACTERS


def _is_never(_texts: DuplicateIndex) -> bool:
    return False


def add_memories(
    texts: DuplicateIndex,
    bank: OpenBank,
    group: str = "",
    too_many: Callable[[DuplicateIndex], bool] = _is_never,
) -> int:
    """Add the current memories of a bank to an index; return how many there are."""
    count = 0
    with bank.ledger.reading() as view:
        for count, logged in enumerate(view.scan(CURRENT), 1):  # noqa: B007 - the count is returned
            texts.add(logged.record.id, _words(logged.model), group)
            if too_many(texts):
                break
    return count


def _pair(name: str, text: str, twin: SimilarText, like: str) -> NearPair:
    return NearPair(id=name, text=text, like=twin.name, like_text=like, similarity=twin.similarity)


def _words(model: Model) -> str:
    return entry_texts(model) if isinstance(model, Entry) else ""


_LOWEST = 0.5
_TOGETHER = 256


class DuplicatePair(msgspec.Struct, frozen=True, kw_only=True):
    """Two memories that are near-duplicates."""

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
    """Number of pairs that were compared."""

    found: int
    """Memories that repeat an earlier one."""

    pairs: list[DuplicatePair]
    """Each such memory with the most similar earlier one."""


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
    with DuplicateIndex(embedder) as texts:
        memories = add_memories(texts, bank)
        twins, compared = texts.twins(options.similarity, options.progress), texts.pairs
    closest = [(name, similar[0]) for name, similar in list(twins.items())[: options.limit]]
    with bank.ledger.reading() as view:
        known, moment = dict[str, Memory](), now()
        ids = list(dict.fromkeys(each for name, twin in closest for each in (name, twin.name)))
        for start in range(0, len(ids), _TOGETHER):
            records = view.get(ids[start : start + _TOGETHER])
            known |= {
                name: memory_of(view, logged, moment=moment) for name, logged in records.items()
            }
    pairs = [
        DuplicatePair(memory=known[name], like=known[twin.name], similarity=twin.similarity)
        for name, twin in closest
        if name in known and twin.name in known  # not erased since
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
