"""Options, rules, counts and results of imports."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

import msgspec

from satchel.artifact.body import Progress
from satchel.artifact.verification import Outcome
from satchel.crypto.keys import SigningKey
from satchel.ports.operations import OnStep
from satchel.ports.record_set import Loss, RefusedRecord
from satchel.recall.duplicates import NearDuplicateMode, NearPair
from satchel.recall.vector_updates import EmbedResult, VectorReuse
from satchel.receipts.receipt import ReceiptBody, TransferPlan
from satchel.runtime.files import OpenFile


class ConflictPolicy(StrEnum):
    """What to do with a record if the bank has another version of it."""

    SKIP = "skip"
    OVERWRITE = "overwrite"
    RENAME = "rename"
    ERROR = "error"


class ImportCounts(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Counts of an import into one bank."""

    read: int = 0
    """Records read for the bank."""

    added: int = 0
    """New memories, including ``overwritten``, ``renamed`` and ``merged``."""

    known: int = 0
    """Imported before or already present: unchanged."""

    redacted: int = 0
    """Of these: complete in the file, but redacted here; they stay redacted."""

    returned: int = 0
    """Of these: imported redacted before, and complete now."""

    twice: int = 0
    """In the file more than once; imported once."""

    forgotten: int = 0
    """Memories that were imported before and forgotten here; they stay forgotten."""

    skipped: int = 0
    """Other versions of what the bank has, skipped."""

    overwritten: int = 0
    """Memories that replaced another version, of the bank or of the file."""

    renamed: int = 0
    """Memories added in addition to another version, under a new ID at their origin."""

    restored: int = 0
    """Memories that were retired here and are current again."""

    near: int = 0
    """Near-duplicates of other memories, skipped."""

    merged: int = 0
    """Memories that replaced a near-duplicate."""

    vanished: int = 0
    """Memories that the source no longer has, deleted here too."""

    past: int = 0
    """Earlier versions and memories deleted at the source, added as retired."""

    others: int = 0
    """New edges, nodes, session events and the like."""

    conversations: int = 0
    """Of these: conversations."""

    messages: int = 0
    """Of these: messages of conversations."""

    others_known: int = 0
    """Those that were imported before or are already present."""

    others_twice: int = 0
    others_skipped: int = 0
    others_overwritten: int = 0
    others_renamed: int = 0
    others_vanished: int = 0

    unjoined: int = 0
    """Edges to records that the bank no longer has, skipped."""

    left: dict[str, int] = {}
    """Records of types that are not imported, by type."""

    @property
    def beside(self) -> int:
        """Number of the others that are neither conversations nor messages."""
        return self.others - self.conversations - self.messages

    @property
    def others_changed(self) -> int:
        """Number of edges and the like of the bank that are no longer current."""
        return self.others_overwritten + self.others_vanished

    @property
    def others_left(self) -> int:
        """Number of records other than memories that are unchanged or skipped."""
        beside = self.others_known + self.others_twice + self.others_skipped
        return beside + self.unjoined + sum(self.left.values())

    @property
    def others_in_conflict(self) -> int:
        """Number of edges and the like of which the bank has another version."""
        return self.others_skipped + self.others_overwritten + self.others_renamed


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportRules:
    """Rules by which an import decides on records."""

    on_conflict: ConflictPolicy = ConflictPolicy.SKIP
    mirror: bool = False
    """Delete what the source no longer has, and overwrite other versions."""

    keeps_ids: bool = False
    """Whether records keep their IDs, so that they may already be present."""

    twins: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """IDs of imported near-duplicates, with the IDs of what they duplicate."""

    merge: bool = False
    """Whether a near-duplicate replaces the other memory; otherwise it is skipped."""

    linked: bool = False
    """Whether imported records may refer to each other: parents, ends of edges."""

    replaces: Mapping[str, str] = field(default_factory=dict)
    """IDs of records that were edited in the file, with the IDs of the originals."""

    bank: str = ""
    """ID of the bank of a verified file; empty if no trusted key signed it."""

    resumed: str = ""
    """ID of the source record of the import that is resumed."""

    @property
    def mode(self) -> ConflictPolicy:
        """What to do with other versions of a record."""
        return ConflictPolicy.OVERWRITE if self.mirror else self.on_conflict


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportOptions:
    """Options of an import."""

    source_format: str | None = None
    """Recognized by default."""

    include_deleted: bool = False
    """Import memories deleted at a live source, as deleted memories."""

    embeddings: bool = False
    """Import the vectors of a live source."""

    on_conflict: ConflictPolicy | None = None
    """As in the bank's settings by default, otherwise ``SKIP``."""

    mirror: bool = False
    """Delete what the source no longer has, and overwrite other versions."""

    scrub_secrets: bool = False
    """Replace secrets with placeholders; otherwise they are only counted."""

    skip_bad: bool = False
    """Skip records that are malformed or too large; they are counted and named."""

    text_member: str | None = None
    """Member of a row that is its text, if the reader does not know it."""

    agent: str | None = None
    """Agent of the memories in a file of one agent; as in the file by default."""

    any_version: bool = False
    """Read an unknown version of the format like the nearest known one."""

    without: frozenset[str] = frozenset()
    """Types of records to omit."""

    maps: tuple[str, ...] = ()
    """Banks of owners, each as ``user:ada=bank-ada``."""

    dry_run: bool = False
    accept_loss: tuple[str, ...] = ()
    """Fields that may be lost; ``all`` for any."""

    receipt: Path | None = None
    """File for a copy of the receipts, one a line; it must not exist."""

    keeps_receipt: bool = True
    """False for a step of a larger transfer, which has its own receipt."""

    sidecar: Path | OpenFile | None = None
    """Sidecar of the input; searched next to it by default."""

    ignore_sidecar: bool = False
    """Ignore the sidecar of the input."""

    re_embed: bool = False
    """Compute vectors of the imported memories, and of all others without one."""

    re_extract_entities: bool = False
    """Extract the entities of memories again, instead of those in the source."""

    near_duplicates: NearDuplicateMode | None = None
    """What to do with near-duplicates; None lists them on a dry run if that is cheap."""

    unsafe_accept: frozenset[Outcome] = field(default_factory=frozenset)
    """Outcomes of the verification of a sealed input that are accepted."""

    trusted_keys: tuple[str, ...] = ()
    resumes: str | None = None
    """ID of the job to resume; anything else is refused."""

    on_reading: Progress | None = None
    """Called with the number of bytes read and the total."""

    on_logging: Progress | None = None
    """Called with the number of logged records and the total; starts again for each bank."""

    on_step: OnStep | None = None
    """As ``on_logging``, and with the ID of the last logged record."""

    @property
    def request(self) -> dict[str, Any]:
        """The options that must be equal when an import is resumed."""
        members = {
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
        return {name: value for name, value in members.items() if value}


class BankImportResult(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Result of an import for one bank."""

    name: str | None
    done: ImportCounts
    bank: str | None = None
    """ID of the bank; None for one that a dry run would create."""

    made: bool = False
    """Whether the import created the bank."""

    source: str | None = None
    """ID of the source record, by which it is undone; None if nothing changed."""

    receipt: str | None = None
    """ID of the receipt in the bank's log; None if nothing changed."""

    resumed: int = 0
    """Number of records that an earlier attempt logged."""

    conflicts: list[str] = []
    """The first records of which the bank has another version."""

    reused: VectorReuse | None = None
    """Use of the vectors that came with the memories, if any."""

    embedded: EmbedResult | None = None
    """Result of computing vectors, if requested."""


class ImportSummary(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Result of an import, or of a dry run."""

    input: str
    source_format: str
    input_digest: str
    input_bytes: int
    banks: list[BankImportResult]
    losses: list[Loss]
    notes: list[str]
    refused: list[RefusedRecord] = []
    """Malformed records that were skipped, with their positions; the first thousand."""

    secrets: dict[str, int] = {}
    """Number of likely keys, tokens, passwords and card numbers, by kind."""

    secrets_kept: int = 0
    """How many of them were imported unchanged."""

    agent: str | None = None
    """Agent that the input names, if it is of one agent."""

    near_found: int = 0
    """Number of near-duplicates."""

    near: list[NearPair] = []
    """The first thousand of them, each with its nearest other memory."""

    source_outcome: str | None = None
    """Outcome of the verification of a sealed input."""

    dry_run: bool = False
    plan: TransferPlan | None = None
    """What would be done; of a dry run only."""

    receipts: list[str] = []
    """IDs of the receipts, one for each bank; ``satchel receipt show`` prints them."""

    accounts: list[ReceiptBody] = []
    """Bodies of the receipts."""

    unaccepted: int = 0
    """Number of values lost without being accepted."""

    advice: str | None = None
    """Command that scans texts that no trusted key signed for instructions."""

    @property
    def changed(self) -> bool:
        """Whether a bank was changed."""
        return any(one.source is not None for one in self.banks)


Owners = Callable[[], SigningKey]
"""Returns the key that owns new banks."""
