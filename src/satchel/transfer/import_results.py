"""What an import is asked to do, and what it did."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

import msgspec

from satchel.artifact.body import Progress
from satchel.artifact.verification import Outcome
from satchel.bank.jobs import OnStep
from satchel.crypto.keys import SigningKey
from satchel.ports.losses import Loss, RefusedRecord
from satchel.recall.duplicates import NearDuplicateMode, NearPair
from satchel.recall.embedding import EmbedResult, VectorReuse
from satchel.receipts.receipt import ReceiptBody, TransferPlan
from satchel.runtime.files import OpenFile


class ConflictPolicy(StrEnum):
    """What to do with a record when the bank has another version of the same thing."""

    SKIP = "skip"
    OVERWRITE = "overwrite"
    RENAME = "rename"
    ERROR = "error"


class ImportCounts(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What an import does to one bank, counted."""

    read: int = 0
    """Records that arrived for the bank."""

    added: int = 0
    """Memories that are new to it; ``overwritten``, ``renamed`` and ``merged`` are among them."""

    known: int = 0
    """Imported before, or here already: left as they are."""

    redacted: int = 0
    """Of these: came whole, and are redacted here, which they stay."""

    returned: int = 0
    """Of these: came redacted before, from elsewhere, and are whole again."""

    twice: int = 0
    """In the file more than once; one of them counts."""

    forgotten: int = 0
    """Memories that were imported before and forgotten here; they stay forgotten."""

    skipped: int = 0
    """Other versions of what the bank has, left out."""

    overwritten: int = 0
    """Memories added or restored in the place of another version, of the bank or of the file."""

    renamed: int = 0
    """Memories added beside another version, under an id of their own."""

    restored: int = 0
    """Memories that had been retired here and are current again."""

    near: int = 0
    """Memories that say what another one says, left out."""

    merged: int = 0
    """Memories added in the place of one that says the same."""

    vanished: int = 0
    """Memories that the source has no longer, deleted here too."""

    past: int = 0
    """Older versions, and what was deleted at the source: they come retired."""

    others: int = 0
    """Edges, nodes, sessions and the like that are new to it."""

    conversations: int = 0
    """Of these: conversations."""

    messages: int = 0
    """Of these: messages of conversations."""

    others_known: int = 0
    """The same, imported before, or here already."""

    others_twice: int = 0
    others_skipped: int = 0
    others_overwritten: int = 0
    others_renamed: int = 0
    others_vanished: int = 0

    unjoined: int = 0
    """Edges that lead to what the bank has no longer, left out."""

    left: dict[str, int] = {}
    """Records of kinds that stay with the log they come from, by kind."""

    @property
    def beside(self) -> int:
        """How many of the others are neither conversations nor messages."""
        return self.others - self.conversations - self.messages

    @property
    def others_changed(self) -> int:
        """How many edges and the like of the bank are not current any more."""
        return self.others_overwritten + self.others_vanished

    @property
    def others_left(self) -> int:
        """How many records that are no memories are left as they are, or left out."""
        beside = self.others_known + self.others_twice + self.others_skipped
        return beside + self.unjoined + sum(self.left.values())

    @property
    def others_in_conflict(self) -> int:
        """How many edges and the like the bank has another version of."""
        return self.others_skipped + self.others_overwritten + self.others_renamed


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportRules:
    """How an import decides."""

    on_conflict: ConflictPolicy = ConflictPolicy.SKIP
    mirror: bool = False
    """Whether the bank is to lose what the source has lost; other versions overwrite then."""

    keeps_ids: bool = False
    """Whether the records come with their ids, so that they may be here already."""

    twins: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Ids of what arrives and says the same as something else, with the ids of that."""

    merge: bool = False
    """Whether it takes the place of that; otherwise it is left out."""

    linked: bool = False
    """Whether what arrives may name other things that arrive: parents, ends of edges."""

    replaces: Mapping[str, str] = field(default_factory=dict)
    """Ids of what arrives and somebody made of a record, with the id of that."""

    bank: str = ""
    """Id of the bank that a verified file is of; empty where nobody vouches for one."""

    going_on: str = ""
    """Id of the source record of the import that is gone on with."""

    @property
    def mode(self) -> ConflictPolicy:
        """What to do with other versions."""
        return ConflictPolicy.OVERWRITE if self.mirror else self.on_conflict


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportOptions:
    """What an import is asked to do."""

    source_format: str | None = None
    """Recognised when not given."""

    include_deleted: bool = False
    """Bring what was deleted at a live source, as deleted memories."""

    embeddings: bool = False
    """Keep the vectors of a live source with its memories."""

    on_conflict: ConflictPolicy | None = None
    """As the bank's settings say when not given, or else ``SKIP``."""

    mirror: bool = False
    """Delete what the source has no longer; other versions overwrite then."""

    scrub_secrets: bool = False
    """Replace secrets by tokens; otherwise they are only counted."""

    skip_bad: bool = False
    """Leave out records that are malformed or too large, and count and name them."""

    text_member: str | None = None
    """The member of a row that is its text, where no reader knows it."""

    agent: str | None = None
    """Whose memory it is taken for, where a file is that of one agent; as it says otherwise."""

    any_version: bool = False
    """Read a version that is not known as the one most like it."""

    without: frozenset[str] = frozenset()
    """Types of records that are left where they are; of what is more than memory."""

    maps: tuple[str, ...] = ()
    """Which owner's memory goes into which bank, each as ``user:ada=bank-ada``."""

    dry_run: bool = False
    accept_loss: tuple[str, ...] = ()
    """Fields that may be lost; ``all`` for whatever there is."""

    receipt: Path | None = None
    """Where a copy of the receipts goes, one a line; it must not be there yet."""

    keeps_receipt: bool = True
    """False where it is a step of something larger, whose receipt tells of it."""

    sidecar: Path | OpenFile | None = None
    """The sidecar of the input; looked for beside it when not given."""

    ignore_sidecar: bool = False
    """Read the input without a sidecar, though there is one."""

    re_embed: bool = False
    """Make the vectors of what came, and whatever else has none."""

    re_extract_entities: bool = False
    """Find the entities of memories anew, in the place of those that the source gives."""

    near_duplicates: NearDuplicateMode | None = None
    """What to do with them; None lists them on a dry run where that costs little."""

    unsafe_accept: frozenset[Outcome] = field(default_factory=frozenset)
    """Verdicts on a sealed input that are accepted."""

    trusted_keys: tuple[str, ...] = ()
    goes_on: str | None = None
    """Id of the job that is to be gone on with: anything else is refused."""

    on_reading: Progress | None = None
    """Called with bytes done and bytes there are."""

    on_logging: Progress | None = None
    """Called with records done and records there are, from the start again for each bank."""

    on_step: OnStep | None = None
    """As ``on_logging``, and with the id of the last record that is done."""

    @property
    def request(self) -> dict[str, Any]:
        """The options that have to be the same when an import is gone on with."""
        said = {
            "from": self.source_format,
            "on_conflict": None if self.on_conflict is None else str(self.on_conflict),
            "include_deleted": self.include_deleted,
            "embeddings": self.embeddings,
            "mirror": self.mirror,
            "scrub_secrets": self.scrub_secrets,
            "skip_bad": self.skip_bad,
            "text_member": self.text_member,
            "agent": self.agent,
            "any_version": self.any_version,
            "without": sorted(self.without),
            "sidecar": None if self.sidecar is None else str(Path(str(self.sidecar)).absolute()),
            "ignore_sidecar": self.ignore_sidecar,
            "re_embed": self.re_embed,
            "re_extract_entities": self.re_extract_entities,
            "near_duplicates": None if self.near_duplicates is None else str(self.near_duplicates),
            "map": list(self.maps),
            "accept_loss": list(self.accept_loss),
            "unsafe_accept": sorted(self.unsafe_accept),
            "trusted": list(self.trusted_keys),
        }
        return {name: part for name, part in said.items() if part}


class BankImportResult(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What an import does to one bank."""

    name: str | None
    done: ImportCounts
    bank: str | None = None
    """Its id; None for one that a dry run would make."""

    made: bool = False
    """Whether the bank was made for it."""

    source: str | None = None
    """Id of the source record, by which it is undone; None when nothing changed."""

    receipt: str | None = None
    """Id of the receipt in the bank's log; None when nothing changed."""

    resumed: int = 0
    """Records that an earlier attempt had logged already."""

    conflicts: list[str] = []
    """The first things that the bank has another version of."""

    reused: VectorReuse | None = None
    """What became of the vectors that came with its memories, where some did."""

    embedded: EmbedResult | None = None
    """What became of its vectors, where that was asked for."""


class ImportSummary(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an import did, or would do."""

    input: str
    source_format: str
    input_digest: str
    input_bytes: int
    banks: list[BankImportResult]
    losses: list[Loss]
    notes: list[str]
    refused: list[RefusedRecord] = []
    """Bad records that were left out, with their places; the first thousand."""

    secrets: dict[str, int] = {}
    """What looks like keys, tokens, passwords and cards, by kind."""

    secrets_kept: int = 0
    """How many of them went in as they are."""

    agent: str | None = None
    """Whose memory it is, as the input itself says, where it is one agent's."""

    near_found: int = 0
    """Memories that say what another one says already."""

    near: list[NearPair] = []
    """The first thousand of them, each with the one that it is most like."""

    source_outcome: str | None = None
    """The verdict on a sealed input."""

    dry_run: bool = False
    plan: TransferPlan | None = None
    """What would be done, of a dry run."""

    receipts: list[str] = []
    """Ids of the receipts, one for each bank; ``satchel receipt show`` prints them."""

    accounts: list[ReceiptBody] = []
    """What the receipts say."""

    unaccepted: int = 0
    """How much was lost that nobody said may be lost."""

    advice: str | None = None
    """How to search for instructions in texts that no trusted key signed."""

    @property
    def changed(self) -> bool:
        """Whether there was anything to do."""
        return any(one.source is not None for one in self.banks)


Owners = Callable[[], SigningKey]
"""Gives the key that owns banks that are made."""
