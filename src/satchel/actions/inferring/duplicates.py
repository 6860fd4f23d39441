"""Near-duplicates: in a bank, and between a bank and what is going to be imported into it."""

from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum

import msgspec

from satchel.actions.config import Settings
from satchel.actions.inferring.models import STATIC, embedder_of
from satchel.actions.opened import OpenBank
from satchel.errors import MissingExtraError
from satchel.memory.entries import Entry
from satchel.memory.records import Model
from satchel.ports.rows import Row, texts_of
from satchel.recall.generations import CURRENT
from satchel.seal.records import Sealed
from satchel.transfer.near.finding import Texts, Twin

MOST = 1_000
"""Pairs that are told of, when nothing else is said; all are counted."""

_AT_ONCE, _AT_ONCE_LONG = 20_000, 4_000_000
"""Texts, and characters of them, that are compared unasked: some seconds at most."""


class NearDuplicates(StrEnum):
    """What an import does with a memory that says what another one says already."""

    OFF = "off"
    LIST = "list"
    SKIP = "skip"
    MERGE = "merge"


TAKEN_UP = (NearDuplicates.SKIP, NearDuplicates.MERGE)
"""What changes the plan."""


class NearPair(msgspec.Struct, frozen=True, kw_only=True):
    """A record that an import reads, and the one that it repeats, read too or in the bank."""

    id: str
    text: str
    like: str
    """ID of the one that it repeats."""

    like_text: str
    similarity: float


Parts = Callable[[], Iterator[dict[str, Sequence[Row]]]]
"""Gives what arrives from its start, some at a time, by the name of the bank it goes into."""

Opened = Callable[[str], OpenBank | None]
"""Opens a bank that is there."""


class Arrivals:
    """The near-duplicates among what arrives.

    Args:
        settings: Of this machine.
        asked: What is to be done with them; None to list them where that costs little.
        dry_run: Whether nothing is going to be imported.
    """

    def __init__(self, settings: Settings, asked: NearDuplicates | None, *, dry_run: bool) -> None:
        self._settings = settings
        self._unasked = asked is None
        self.mode = asked or (NearDuplicates.LIST if dry_run else NearDuplicates.OFF)
        self.pairs: list[NearPair] = []
        """Those that are told of."""

        self.found = 0
        self.looked = False
        """Whether they were looked for."""

        self.notes: list[str] = []

    def find(self, parts: Parts, opened: Opened) -> dict[str, list[Twin]]:
        """Return what arrives and says what something else says, by id.

        Raises:
            MissingExtraError: If it was asked for, and numpy is not installed.
        """
        self.pairs, self.found, self.notes, self.looked = [], 0, [], False
        if self.mode is NearDuplicates.OFF:
            return {}
        try:
            embedder = embedder_of(self._settings, STATIC)
        except MissingExtraError:
            if not self._unasked:
                raise
            return {}
        with Texts(embedder) as texts:
            if not self._filled(texts, parts, opened):
                self.notes.append(
                    "near-duplicates were not detected, since there are many memories; to "
                    "detect them: --near-duplicates list"
                )
                return {}
            twins = texts.twins()
            self.found, self.looked = len(twins), True
            for name, found in list(twins.items())[:MOST]:
                self.pairs.append(
                    _pair(name, texts.text(name), found[0], texts.text(found[0].name))
                )
        return twins

    def _filled(self, texts: Texts, parts: Parts, opened: Opened) -> bool:
        """Add what the banks have, then what arrives; False where that is too much unasked."""
        names = dict.fromkeys(name for part in parts() for name in part)
        too_many = _is_much if self._unasked else _is_never
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


def _is_much(texts: Texts) -> bool:
    return texts.count > _AT_ONCE or texts.characters > _AT_ONCE_LONG


def _is_never(_texts: Texts) -> bool:
    return False


def add_memories(
    texts: Texts,
    bank: OpenBank,
    group: str = "",
    too_many: Callable[[Texts], bool] = _is_never,
) -> int:
    """Add the current memories of a bank to texts that are compared; return how many there are."""
    count = 0
    with bank.ledger.reading() as view:
        for count, logged in enumerate(view.scan(CURRENT), 1):  # noqa: B007 - how many there were
            texts.add(logged.record.id, _words(logged.model), group)
            if too_many(texts):
                break
    return count


def _pair(name: str, text: str, twin: Twin, like: str) -> NearPair:
    return NearPair(id=name, text=text, like=twin.name, like_text=like, similarity=twin.similarity)


def _words(model: Model) -> str:
    return texts_of(model) if isinstance(model, Entry) else ""
