"""Memory that is measured, carried as people carry it: exported, signed, imported elsewhere.

Each machine has a store of its own; they have one owner, as when somebody moves. All of it is in
one folder, and nothing of the user's own is read or written.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from satchel.bank.banks import create_bank_in
from satchel.bank.connections import configured_store
from satchel.bank.open_bank import OpenBank, open_bank
from satchel.bank.remember import superseding
from satchel.bank.signing_keys import signing_key
from satchel.config.settings import Settings, load_settings
from satchel.crypto.sealed_records import Sealed, seal
from satchel.crypto.signatures import SigningKey
from satchel.errors import UsageError
from satchel.evaluation.probes import ProbeMemory, ProbeSet
from satchel.ledger.view import View
from satchel.model.entries import Entry, Episodic
from satchel.model.text import memory_text
from satchel.ports.inference import Embedder
from satchel.recall.vector_index import GenerationInfo, fill
from satchel.rehydrate.pipeline import rehydrate
from satchel.rehydrate.request import RehydrateContext, RehydrateRequest, RehydrateResult
from satchel.screening.injection import Enforce
from satchel.transfer.export_records import ExportOptions
from satchel.transfer.exports import export
from satchel.transfer.import_results import ImportOptions
from satchel.transfer.imports import import_file

BANK = "probes"
NOW = "2026-07-01T09:00:00.000000Z"
"""When probes are asked; the sessions that come along were before."""


_UNBOUNDED = 1 << 24
_NONCE = "730518264"
"""Of every text: nobody attacks here, and the same number takes the same tokens in each run."""


@dataclass(frozen=True, slots=True)
class DatedMemory:
    """A memory with when it was told, and the world that it is about."""

    at: str
    world: str
    memory: ProbeMemory


@dataclass(frozen=True, slots=True)
class Owner:
    """Somebody with several machines.

    Args:
        folder: Of all of them.
        embedder: Makes the vectors of their banks; None for banks without.
    """

    folder: Path
    embedder: Embedder | None = None
    ids: dict[tuple[str, str], str] = field(default_factory=dict)
    """The ids of memories by world and key; a memory keeps its id wherever it goes."""

    def settings(self, machine: str) -> Settings:
        """Return the settings of a machine; keys are the same on each."""
        file = self.folder / "satchel.toml"
        file.touch()
        return load_settings(
            home=self.folder / "home",
            config=file,
            store=str(self.folder / f"{machine}.db"),
            environment={"SATCHEL_WITNESS": str(self.folder / f"{machine}-state")},
        )

    def remember(self, machine: str, told: Iterable[DatedMemory]) -> None:
        """Remember something on a machine, in the order of its times."""
        settings = self.settings(machine)
        with configured_store(settings) as store:
            with store.reading() as reader:
                is_new = not reader.banks(limit=1)
            if is_new:
                create_bank_in(settings, store, BANK, self._key(settings))
        with open_bank(settings, BANK, writes=True) as bank:
            bank.ledger.append(list(self._records(sorted(told, key=lambda one: one.at))))
            self._embed(bank)

    def carry(self, source: str, target: str) -> Path:
        """Carry the bank of a machine to another, in a signed file, and return that."""
        file = self.folder / f"{source}-to-{target}.pam"
        with open_bank(self.settings(source), BANK) as bank:
            key = self._key(bank.settings)
            export(bank, file, ExportOptions(key=key, overwrite=True, keeps_receipt=False))
        settings = self.settings(target)
        key = self._key(settings)
        import_file(settings, file, BANK, lambda: key, ImportOptions(keeps_receipt=False))
        with open_bank(settings, BANK, writes=True) as bank:
            self._embed(bank)
        return file

    @contextmanager
    def framing(self, machine: str) -> Iterator["MemoryFramer"]:
        """Give what frames the memory of a machine."""
        with open_bank(self.settings(machine), BANK) as bank, bank.ledger.reading() as view:
            yield MemoryFramer(view, self.embedder)

    def _records(self, told: Iterable[DatedMemory]) -> Iterator[Sealed]:
        for one in told:
            record = seal(_dated(one.memory.entry, one.at))
            self.ids[one.world, one.memory.key] = record.id
            yield record
            if one.memory.replaces is not None:
                yield superseding(self.ids[one.world, one.memory.replaces], record.id)

    def _embed(self, bank: OpenBank) -> None:
        if self.embedder is not None:
            fill(bank.store, bank.ledger, self.embedder)

    @staticmethod
    def _key(settings: Settings) -> SigningKey:
        return signing_key(settings, environment={})[0]


class MemoryFramer:
    """Frames the memory of one bank for questions."""

    def __init__(self, view: View, embedder: Embedder | None) -> None:
        self._view, self._embedder = view, embedder

    def __call__(self, task: str, model: str, budget: int) -> RehydrateResult | None:
        """Return the memory for a question; None where the budget does not hold the frame."""

        def embedders(_made: GenerationInfo) -> Embedder | None:
            return self._embedder

        given = None if self._embedder is None else embedders
        try:
            asked = RehydrateRequest(task=task, model=model, budget=budget)
            return rehydrate(
                self._view,
                asked,
                RehydrateContext(embedders=given, now=lambda: NOW, nonce=lambda: _NONCE),
            )
        except UsageError:
            return None

    def everything(self, model: str, *, enforce: Enforce = "outside") -> RehydrateResult:
        """Return all of the memory, framed."""
        asked = RehydrateRequest(
            model=model, budget=_UNBOUNDED, verbatim=0.0, summarised=0.0, enforce=enforce
        )
        return rehydrate(self._view, asked, RehydrateContext(now=lambda: NOW, nonce=lambda: _NONCE))


def dated_memories(sets: Iterable[ProbeSet], *, sessions: range | None = None) -> list[DatedMemory]:
    """Return the memories of some sets, in the order of their times.

    Args:
        sets: The sets.
        sessions: Which session of each world, from 0 on; all of them when None.
    """
    found = [
        DatedMemory(session.at, f"{at}/{world.name}", memory)
        for at, one in enumerate(sets)
        for world in one.worlds
        for number, session in enumerate(world.sessions)
        if sessions is None or number in sessions
        for memory in session.memories
    ]
    return sorted(found, key=lambda one: one.at)


def in_full(memories: Iterable[DatedMemory]) -> str:
    """Return what is remembered as plain text, one memory a line, without what was replaced."""
    there = {(one.world, one.memory.key): one for one in memories}
    for one in list(there.values()):
        if one.memory.replaces is not None:
            there.pop((one.world, one.memory.replaces), None)
    return "\n".join(" ".join(memory_text(one.memory.entry).split()) for one in there.values())


def _dated(entry: Entry, at: str) -> Entry:
    """Return a draft that was made when it was told, unless it says otherwise."""
    made = msgspec.structs.replace(entry, created_at=entry.created_at or at)
    if isinstance(made, Episodic) and made.occurred_at is None:
        return msgspec.structs.replace(made, occurred_at=at)
    return made
