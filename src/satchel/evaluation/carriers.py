"""Memories of probe sets, carried as a user carries them: exported, signed, imported elsewhere.

Each machine has a store of its own; all have one owner, as when a user moves. Everything is in one
folder; no data of the user is read or written. The paper's sample is 127 entries of the five types.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import cycle, islice
from pathlib import Path

import msgspec

from satchel.artifact.encodings import (
    ArtifactBuilder,
    Encoding,
    Header,
    sign_statement,
    write_artifact,
)
from satchel.bank.banks import create_bank_in
from satchel.bank.changes import superseding
from satchel.bank.connections import configured_store
from satchel.bank.machine_keys import signing_key
from satchel.bank.open_bank import OpenBank, open_bank
from satchel.config.settings import Settings, load_settings
from satchel.crypto.keys import SigningKey
from satchel.crypto.sealed_records import Sealed, seal, seeded_nonces
from satchel.errors import UsageError
from satchel.evaluation.probes import ProbeMemory, ProbeSet, shipped_sets
from satchel.ledger.view import View
from satchel.model.records import Entry, Episodic
from satchel.model.text import memory_text
from satchel.ports.inference import Embedder
from satchel.recall.vector_index import GenerationInfo, fill
from satchel.rehydrate.pipeline import rehydrate
from satchel.rehydrate.request import RehydrateContext, RehydrateRequest, RehydrateResult
from satchel.runtime.files import atomic_write
from satchel.screening.injection import Enforce
from satchel.transfer.export_records import ExportOptions
from satchel.transfer.exports import export
from satchel.transfer.import_results import ImportOptions
from satchel.transfer.imports import import_file

BANK = "probes"
NOW = "2026-07-01T09:00:00.000000Z"
"""The time of the questions; the built-in sessions are earlier."""


_UNBOUNDED = 1 << 24
_NONCE = "730518264"
"""The nonce of every text: there are no attacks here, and a fixed one takes the same tokens in
every run."""


@dataclass(frozen=True, slots=True)
class DatedMemory:
    """A memory with its time, and its world."""

    at: str
    world: str
    memory: ProbeMemory


@dataclass(frozen=True, slots=True)
class Owner:
    """A user with several machines.

    Args:
        folder: The folder of all machines.
        embedder: Makes the vectors of the banks; None for none.
    """

    folder: Path
    embedder: Embedder | None = None
    ids: dict[tuple[str, str], str] = field(default_factory=dict)
    """IDs of memories by world and key, the same on every machine."""

    def settings(self, machine: str) -> Settings:
        """Return the settings of a machine; all have the same keys."""
        file = self.folder / "satchel.toml"
        file.touch()
        return load_settings(
            home=self.folder / "home",
            config=file,
            store=str(self.folder / f"{machine}.db"),
            environment={"SATCHEL_WITNESS": str(self.folder / f"{machine}-state")},
        )

    def remember(self, machine: str, memories: Iterable[DatedMemory]) -> None:
        """Store memories on a machine, in order of time."""
        settings = self.settings(machine)
        with configured_store(settings) as store:
            with store.reading() as reader:
                is_new = not reader.banks(limit=1)
            if is_new:
                create_bank_in(settings, store, BANK, self._key(settings))
        with open_bank(settings, BANK, writes=True) as bank:
            bank.ledger.append(list(self._records(sorted(memories, key=lambda memory: memory.at))))
            self._embed(bank)

    def carry(self, source: str, target: str) -> Path:
        """Transfer the bank of a machine to another in a signed file, and return the file."""
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
        """Open the memory of a machine for framing."""
        with open_bank(self.settings(machine), BANK) as bank, bank.ledger.reading() as view:
            yield MemoryFramer(view, self.embedder)

    def _records(self, memories: Iterable[DatedMemory]) -> Iterator[Sealed]:
        for dated in memories:
            record = seal(_dated(dated.memory.entry, dated.at))
            self.ids[dated.world, dated.memory.key] = record.id
            yield record
            if dated.memory.replaces is not None:
                yield superseding(self.ids[dated.world, dated.memory.replaces], record.id)

    def _embed(self, bank: OpenBank) -> None:
        if self.embedder is not None:
            fill(bank.store, bank.ledger, self.embedder)

    @staticmethod
    def _key(settings: Settings) -> SigningKey:
        return signing_key(settings, environment={})[0]


class MemoryFramer:
    """Frames the memory of a bank for questions."""

    def __init__(self, view: View, embedder: Embedder | None) -> None:
        self._view, self._embedder = view, embedder

    def __call__(self, task: str, model: str, budget: int) -> RehydrateResult | None:
        """Return the memory for a question; None if the budget is too small for the frame."""

        def embedders(_made: GenerationInfo) -> Embedder | None:
            return self._embedder

        generations = None if self._embedder is None else embedders
        try:
            request = RehydrateRequest(task=task, model=model, budget=budget)
            return rehydrate(
                self._view,
                request,
                RehydrateContext(embedders=generations, now=lambda: NOW, nonce=lambda: _NONCE),
            )
        except UsageError:
            return None

    def everything(self, model: str, *, enforce: Enforce = "outside") -> RehydrateResult:
        """Return the whole memory, framed."""
        request = RehydrateRequest(
            model=model, budget=_UNBOUNDED, verbatim=0.0, summarized=0.0, enforce=enforce
        )
        return rehydrate(
            self._view, request, RehydrateContext(now=lambda: NOW, nonce=lambda: _NONCE)
        )


def dated_memories(sets: Iterable[ProbeSet], *, sessions: range | None = None) -> list[DatedMemory]:
    """Return the memories of some sets, in order of time.

    Args:
        sets: The sets.
        sessions: Sessions of each world, from 0; None for all.
    """
    dated = [
        DatedMemory(session.at, f"{at}/{world.name}", memory)
        for at, probe_set in enumerate(sets)
        for world in probe_set.worlds
        for number, session in enumerate(world.sessions)
        if sessions is None or number in sessions
        for memory in session.memories
    ]
    return sorted(dated, key=lambda memory: memory.at)


def in_full(memories: Iterable[DatedMemory]) -> str:
    """Return the memories as plain text, one a line, without replaced ones."""
    current = {(dated.world, dated.memory.key): dated for dated in memories}
    for dated in list(current.values()):
        if dated.memory.replaces is not None:
            current.pop((dated.world, dated.memory.replaces), None)
    return "\n".join(
        " ".join(memory_text(dated.memory.entry).split()) for dated in current.values()
    )


def _dated(entry: Entry, at: str) -> Entry:
    """Return a draft with the time of its session, unless it has one."""
    dated = msgspec.structs.replace(entry, created_at=entry.created_at or at)
    if isinstance(dated, Episodic) and dated.occurred_at is None:
        return msgspec.structs.replace(dated, occurred_at=at)
    return dated


MIX = {"episodic": 42, "semantic": 35, "procedural": 20, "working": 25, "identity": 5}
"""Source: the paper, section 5.4."""

_SEED = b"satchel evaluate paper"

_ANSWERS = (
    (
        "Thanks for telling me. I will keep that in mind for everything that follows, and I "
        "will say so when something I propose would go against it. Before we go on, let me sum "
        "up where we are: the parts that were open this morning are mostly settled, two "
        "questions are still to be answered, and nothing that was agreed on earlier has to be "
        "changed because of this. If it turns out that I misunderstood you, tell me and I will "
        "correct it. Shall I go on with the next point now, or would you like to look at the "
        "details first? Both are fine with me, and neither takes long."
    ),
    (
        "That makes sense. Here is how I would go about it. First I would look at what is there "
        "already, so that we do not do anything twice. Then I would make the smallest change "
        "that shows whether the idea works at all, and only after that spend time on the rest. "
        "There are three things that could go wrong: the numbers could be older than we think, "
        "somebody else could be working on the same part, or the rule could have an exception "
        "that nobody wrote down. None of them is likely, but each is cheap to check. I can "
        "prepare a short list of what to check and in which order, and you decide which of them "
        "are worth it. In the meantime I have noted what you said, with the date, so that we "
        "can come back to it later without looking for it again."
    ),
    (
        "Understood. To be sure that we mean the same, I repeat it in my own words and add what "
        "follows from it. It changes what comes next a little: the step that I had planned "
        "first can wait, and the one after it becomes more important. It does not change the "
        "goal, nor the date by which we want to be done. I would suggest that we keep the old "
        "plan beside the new one for a while, until it is clear that nothing was forgotten. If "
        "you agree I will write both down, mark the differences, and come back to you with a "
        "proposal of at most one page. You asked me earlier to be brief; if this was too long, "
        "say so, and next time I will only confirm."
    ),
)
"""The assistant's replies: invented, of a usual length."""


def sample_memories() -> list[DatedMemory]:
    """Return the memories, the same in every run; types with too few are repeated."""
    memories = dated_memories(shipped_sets())
    sample = list[DatedMemory]()
    for component, count in MIX.items():
        typed = [
            dated for dated in memories if dated.memory.entry.__struct_config__.tag == component
        ]
        for at, dated in enumerate(islice(cycle(typed), count)):
            sample.append(_numbered(dated, at // len(typed)))
    return sample


def entries() -> list[Entry]:
    """Return drafts of the memories, with their times."""
    return [
        msgspec.structs.replace(dated.memory.entry, created_at=dated.at)
        for dated in sample_memories()
    ]


def sealed() -> list[Sealed]:
    """Return the memories sealed."""
    nonces = seeded_nonces(_SEED)
    return [seal(entry, nonces=nonces) for entry in entries()]


def write_artifact_file(
    path: Path, records: Iterator[Sealed] | list[Sealed], encoding: Encoding, key: SigningKey
) -> Path:
    """Write records as a signed artifact, and return its path."""
    with ArtifactBuilder() as builder:
        for record in records:
            builder.add(record)
        body, totals = builder.finish()
        statement = Header().statement(totals)
        with atomic_write(path, overwrite=True) as sink:
            write_artifact(sink, encoding, body, statement, sign_statement(statement, [key]))
    return path


def conversation() -> bytes:
    """Return a conversation with the memories, as chats are stored."""
    messages = list[dict[str, str]]()
    for at, dated in enumerate(sample_memories()):
        text = memory_text(dated.memory.entry)
        messages.append({"role": "user", "timestamp": dated.at, "content": text})
        answer = _ANSWERS[at % len(_ANSWERS)]
        messages.append({"role": "assistant", "timestamp": dated.at, "content": answer})
    return msgspec.json.encode({"messages": messages})


def latest(memories: list[DatedMemory]) -> list[DatedMemory]:
    """Return memories without their references to replaced ones."""
    return [
        DatedMemory(dated.at, dated.world, msgspec.structs.replace(dated.memory, replaces=None))
        for dated in memories
    ]


def _numbered(dated: DatedMemory, turn: int) -> DatedMemory:
    """Return a memory that differs from earlier copies."""
    if not turn:
        return dated
    entry = msgspec.structs.replace(dated.memory.entry, tags=(f"copy-{turn}",))
    return DatedMemory(dated.at, dated.world, msgspec.structs.replace(dated.memory, entry=entry))
