"""What an import is asked to do, and what it did."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import msgspec

from satchel.artifact.body import Progress
from satchel.artifact.verification import Outcome
from satchel.bank.jobs import OnStep
from satchel.crypto.keys import SigningKey
from satchel.model.values import now
from satchel.ports.losses import Loss, RefusedRecord
from satchel.recall.duplicates import DuplicateFinder, NearDuplicateMode, NearPair
from satchel.recall.embedding import EmbedResult
from satchel.recall.imported_vectors import VectorReuse
from satchel.receipts.account import (
    VERSION,
    ReceiptBody,
    TransferEnd,
    combine_counts,
    lost_in,
    notes_in,
    receipt_text,
    refusals_in,
)
from satchel.receipts.archive import tool_version
from satchel.receipts.census import RecordCounter
from satchel.receipts.plans import NearDuplicate, TargetPlan, Tenant, TransferPlan
from satchel.receipts.tally import Tally
from satchel.runtime.files import OpenFile
from satchel.transfer.import_plan import ImportPlan
from satchel.transfer.import_rules import ConflictPolicy, ImportCounts
from satchel.transfer.import_source import ImportSource
from satchel.transfer.tenants import TenantRouter


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


_MOST_TENANTS, _MOST_NEAR = 1000, 100
_PASSES = 2.5
"""How often reading takes as long as all of it: reading, logging, reading back."""


class ImportState(Protocol):
    """An import, as far as it is told of."""

    arriving: ImportSource
    asked: ImportOptions
    census: RecordCounter
    tenants: TenantRouter
    banks: dict[str, BankImportResult]
    plans: dict[str, ImportPlan]
    near: DuplicateFinder


def account_of_import(
    work: ImportState, bank: BankImportResult, read: Counter[str], tally: Tally | None
) -> ReceiptBody:
    """Return what was done to one bank.

    Args:
        work: The import.
        bank: The bank.
        read: What arrived for it, by type.
        tally: What was logged, as read back; None where there was nothing to log.
    """
    arriving = work.arriving
    there = tally.records if tally is not None else Counter[str]()
    done = {
        name: number
        for name, number in msgspec.to_builtins(bank.done).items()
        if name not in ("left", "read")
    }
    return ReceiptBody(
        version=VERSION,
        kind="import",
        tool=tool_version(),
        began=work.arriving.began,
        ended=now(),
        input=_input(work),
        output=TransferEnd(
            name=receipt_text(bank.name or ""),
            bank=bank.bank,
            records=there.total() if tally is not None else None,
        ),
        counts=combine_counts(read, there, there, there),
        source=bank.source,
        unchanged=tally is None,
        done=done,
        left=bank.done.left,
        resumed=bank.resumed,
        verdict=arriving.verdict.outcome.value if arriving.verdict else None,
        read_back="equal" if tally is not None else None,
        kept=tally.kept if tally is not None else {},
        **_told_of(work),
    )


def _input(work: ImportState) -> TransferEnd:
    arriving = work.arriving
    return TransferEnd(
        name=receipt_text(arriving.name),
        format=arriving.format,
        digest=arriving.digest,
        bytes=arriving.size,
        records=work.census.types.total(),
    )


def _told_of(work: ImportState) -> dict[str, Any]:
    """Return what is said of the input as a whole."""
    report, screening = work.arriving.report, work.arriving.screening
    return {
        "sidecar": work.arriving.sidecar,
        "lost": lost_in(report, work.asked.accept_loss),
        "refused": report.left_out,
        "refusals": refusals_in(report),
        "accepted": [receipt_text(one) for one in work.asked.accept_loss],
        "secrets": screening.found,
        "secrets_kept": screening.kept,
        "notes": notes_in(report),
    }


def plan_of_import(work: ImportState) -> TransferPlan:
    """Return what an import would do."""
    report, census, size = work.arriving.report, work.census, work.arriving.size
    near = work.near
    targets = [_target(bank, work.plans[name]) for name, bank in work.banks.items()]
    owners = work.tenants.owners.most_common(_MOST_TENANTS)
    only = targets[0].name if len(targets) == 1 else f"{len(targets)} banks"
    return TransferPlan(
        version=VERSION,
        kind="import",
        tool=tool_version(),
        input=_input(work),
        output=TransferEnd(name=only),
        read=dict(sorted(census.types.items())),
        targets=targets,
        embedding=census.embedding,
        seconds=census.seconds_for(_PASSES),
        bytes_per_second=census.rate(size),
        tenants=[
            Tenant(
                sort=owner[0] or "nobody",
                name=receipt_text(owner[1]),
                records=number,
                bank=work.tenants.bank_of(owner),
                mapped=work.tenants.is_mapped(owner),
            )
            for owner, number in owners
        ],
        tenants_left=max(0, len(work.tenants.owners) - _MOST_TENANTS),
        cannot_hold=lost_in(report, work.asked.accept_loss),
        refused=report.left_out,
        refusals=refusals_in(report),
        near_duplicates=near.found if near.looked else None,
        near_examples=[
            NearDuplicate(one=pair.id, other=pair.like, similarity=round(pair.similarity, 4))
            for pair in near.pairs[:_MOST_NEAR]
        ],
        secrets=work.arriving.screening.found,
        notes=[*notes_in(report), *map(receipt_text, near.notes)],
    )


def _target(bank: BankImportResult, plan: ImportPlan) -> TargetPlan:
    done: ImportCounts = bank.done
    return TargetPlan(
        name=receipt_text(bank.name or bank.bank or ""),
        bank=bank.bank,
        makes=bank.bank is None,
        created=done.added + done.others,
        changed=done.overwritten + done.vanished + done.restored + done.others_changed,
        left_alone=done.known + done.forgotten + done.twice + done.skipped + done.others_left,
        conflicts=done.skipped + done.overwritten + done.renamed + done.others_in_conflict,
        conflict_examples=[receipt_text(one) for one in plan.conflicts],
    )
