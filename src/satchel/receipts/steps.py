"""Receipts of transfers in several steps: migrations, and transfers through a temporary store.

The receipts of the steps name the temporary store; the stored one names both ends.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from satchel.bank.connections import configured_store, open_ledger
from satchel.config.files import Activation
from satchel.config.settings import Settings
from satchel.crypto.keys import SigningKey
from satchel.errors import shown_address
from satchel.model.values import now, tool_version
from satchel.ports.record_set import Loss
from satchel.receipts.archive import save_receipts, signer
from satchel.receipts.receipt import (
    REFUSED,
    VERSION,
    Counts,
    EmbeddingCost,
    FieldLoss,
    Kind,
    ReadBack,
    ReceiptBody,
    TransferEnd,
    TransferPlan,
    receipt_of,
    receipt_text,
)

_FAILED, _DIFFERS = 5, 1

OnMigratedBank = Callable[["MigratedBank"], None]
"""Called with each bank when it is done, in any order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrateOptions:
    """Options of a migration."""

    banks: tuple[str, ...] = ()
    """Names or IDs of the banks; empty for all."""

    jobs: int = 4
    """Number of banks that are migrated concurrently."""

    new: Path | None = None
    """The configuration file to activate afterwards; None to keep the active one."""

    active: Path | None = None
    """The configuration file that is read by default."""

    accept_loss: tuple[str, ...] = ()
    """Fields that may be lost to or from a product; ``all`` for any."""

    leaves_others: bool = False
    """Whether to switch to a store that lacks banks of the old one."""

    dry_run: bool = False
    owner: Callable[[], SigningKey] | None = None
    """Returns the key that owns new banks, for memories from a provider."""

    on_bank: OnMigratedBank | None = None
    progress: Callable[[int, int], None] | None = None
    """Called with the number of records copied plus read back, and twice the total."""


class MigratedBank(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Result of migrating one bank."""

    bank: str
    name: str | None = None
    relation: str | None = None
    """Relation of the source copy to the target copy before."""

    size: int = 0
    """Number of records in its log."""

    root: str | None = None
    carried: int = 0
    """Number of records copied now; fewer than ``size`` if an earlier run copied some."""

    vectors: int = 0
    blobs: int = 0
    read_back: dict[str, int] = {}
    """Number of records of each type, read back from the target and verified."""

    verified: bool = False
    """Whether it was read back completely, with the same head."""

    losses: list[Loss] = []
    """What the target cannot hold; for a provider."""

    receipt: str | None = None
    """ID of the receipt; ``satchel receipt show`` prints it."""

    account: ReceiptBody | None = None
    """Body of the receipt."""

    default: bool = False
    """Whether it is the default bank of the target store."""

    notes: list[str] = []
    problem: str | None = None
    code: str | None = None
    """Error code of the problem."""

    exit_status: int = 0


class MigrationResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Result of a migration."""

    source: str
    target: str
    banks: list[MigratedBank]
    dry_run: bool = False
    switched: Activation | None = None
    """The activation of the new configuration; None if it was not activated."""

    switch_wanted: bool = False
    """Whether the new configuration was to be activated."""

    left: list[str] = []
    """Banks of the old store that were not selected, and that the new store lacks."""

    notes: list[str] = []

    @property
    def failed(self) -> list[MigratedBank]:
        """The banks that failed."""
        return [one for one in self.banks if one.problem is not None]

    @property
    def exit_status(self) -> int:
        """0 if all is done, 5 if a bank cannot be written or read, 1 otherwise."""
        statuses = {one.exit_status for one in self.failed}
        is_left = self.switch_wanted and not self.dry_run and self.switched is None
        return _FAILED if _FAILED in statuses else _DIFFERS if statuses or is_left else 0


_WORST_FIRST: tuple[ReadBack | None, ...] = ("differs", None, "equal", "verified")


def end_of_bank(name: str | None, bank: str, store: str) -> TransferEnd:
    """Return a bank as one end of a transfer."""
    return TransferEnd(
        name=receipt_text(name or bank), bank=bank, store=receipt_text(shown_address(store))
    )


def end_in(settings: Settings, name: str | None, bank: str) -> TransferEnd:
    """Return a bank in the configured store as one end of a transfer.

    Raises:
        VerificationError: If it is not what was signed.
        StoreError: If it cannot be read.
    """
    with (
        configured_store(settings, read_only=True) as store,
        open_ledger(settings, store, bank).reading() as view,
    ):
        head = view.head
    end = end_of_bank(name, bank, settings.store)
    return msgspec.structs.replace(end, size=head.size, root=head.root, records=head.size)


def account_of_log(
    done: MigratedBank, ends: tuple[TransferEnd, TransferEnd], began: str
) -> ReceiptBody:
    """Return the receipt body for copying a log and reading it back, or for failing to.

    Args:
        done: Result for the bank.
        ends: Source and target.
        began: Start time.
    """
    if done.problem is None:
        source, target = (
            msgspec.structs.replace(end, size=done.size, root=done.root, records=done.size)
            for end in ends
        )
        lost = list[FieldLoss]()
    else:
        source, target = ends
        lost = [
            FieldLoss(field=REFUSED, count=max(1, done.size), reason=receipt_text(done.problem))
        ]
    return ReceiptBody(
        version=VERSION,
        kind="migrate",
        tool=tool_version(),
        began=began,
        ended=now(),
        input=source,
        output=target,
        # Counts by type are those in the signed head, against which everything was verified.
        counts={
            name: Counts(read=number, planned=number, written=number, read_back=number)
            for name, number in done.read_back.items()
        },
        unchanged=done.problem is None and done.carried == 0,
        done={"carried": done.carried, "there before": max(0, done.size - done.carried)},
        read_back="equal" if done.verified else None,
        lost=lost,
        notes=[receipt_text(note) for note in done.notes],
    )


def with_receipt(settings: Settings, done: MigratedBank, account: ReceiptBody) -> MigratedBank:
    """Return the result for a bank with its receipt, which is signed and stored."""
    receipt, notes = save_receipt(settings, account)
    return msgspec.structs.replace(
        done, account=account, receipt=receipt, notes=[*done.notes, *notes]
    )


def save_receipt(
    settings: Settings,
    account: ReceiptBody,
    *,
    key: SigningKey | None = None,
    copy: Path | None = None,
) -> tuple[str | None, list[str]]:
    """Sign a receipt and store it on this machine; return its ID, and notes on problems.

    Args:
        settings: Settings of the machine.
        account: Body of the receipt.
        key: The signing key; this machine's writer key by default.
        copy: File for a copy of it.

    Raises:
        TargetError: If the copy cannot be written.
    """
    ids, notes = save_receipts(settings, [receipt_of(account, signer(settings, key))], copy)
    return (ids[0] if ids else None), notes


def join_receipt_bodies(
    kind: Kind,
    ends: tuple[TransferEnd, TransferEnd],
    read: Sequence[ReceiptBody],
    written: Sequence[ReceiptBody],
) -> ReceiptBody:
    """Return the receipt body of a transfer through a temporary store.

    Args:
        kind: Kind of the whole transfer.
        ends: Source and target.
        read: Receipt bodies of the import, one for each temporary bank.
        written: Receipt bodies of the export, one for each of these banks.
    """
    first = read[0]
    steps = [first, *written]
    return ReceiptBody(
        version=VERSION,
        kind=kind,
        tool=tool_version(),
        began=first.began,
        ended=now(),
        input=ends[0],
        output=ends[1],
        counts=_counts(read, written),
        done=dict(_summed(body.done for body in written)),
        verdict=first.verdict,
        read_back=_read_back(written),
        kept=dict(sorted(_summed(body.kept for body in written).items())),
        added=dict(sorted(_summed(body.added for body in written).items())),
        lost=_lost(body.lost for body in steps),
        refused=first.refused,
        refusals=first.refusals,
        accepted=first.accepted,
        secrets=first.secrets,
        secrets_kept=first.secrets_kept,
        signed_by=next((body.signed_by for body in written if body.signed_by), None),
        notes=list(dict.fromkeys(note for body in steps for note in body.notes)),
    )


def _counts(read: Sequence[ReceiptBody], written: Sequence[ReceiptBody]) -> dict[str, Counts]:
    arrived, planned, wrote, back = (Counter[str]() for _ in range(4))
    for body in written:
        for name, counts in body.counts.items():
            planned[name] += counts.planned
            wrote[name] += counts.written
            back[name] += counts.read_back
    for body in read:
        for name, counts in body.counts.items():
            arrived[name] += counts.read
    return {
        name: Counts(
            read=arrived[name],
            planned=planned[name],
            written=wrote[name],
            read_back=back[name],
        )
        for name in sorted({*arrived, *planned})
    }


def _summed(parts: Iterable[Mapping[str, int]]) -> Counter[str]:
    total = Counter[str]()
    for part in parts:
        total.update(part)
    return total


def _lost(steps: Iterable[Sequence[FieldLoss]]) -> list[FieldLoss]:
    """Return the losses of all steps, with each field and reason once."""
    merged = dict[tuple[str, str, bool], FieldLoss]()
    for lost in steps:
        for loss in lost:
            key = (loss.field, loss.reason, loss.accepted)
            before = merged.get(key)
            count = loss.count + (0 if before is None else before.count)
            merged[key] = msgspec.structs.replace(before or loss, count=count)
    return list(merged.values())


def _read_back(written: Iterable[ReceiptBody]) -> ReadBack | None:
    """Return the worst result of reading back in several steps."""
    words = {one.read_back for one in written}
    for word in _WORST_FIRST:
        if word in words:
            return word
    return None


def joined_plan(
    ends: tuple[TransferEnd, TransferEnd], read: ReceiptBody, plans: Sequence[TransferPlan]
) -> TransferPlan:
    """Return the plan of an import through a temporary store.

    Args:
        ends: Source and target.
        read: Receipt body of the input.
        plans: Plans for the temporary banks; at least one.
    """
    costs = [plan.embedding for plan in plans]
    notes = [*read.notes, *(note for plan in plans for note in plan.notes)]
    return TransferPlan(
        version=VERSION,
        kind="import",
        tool=tool_version(),
        input=ends[0],
        output=ends[1],
        read=dict(sorted(_summed(plan.read for plan in plans).items())),
        targets=[
            msgspec.structs.replace(target, name=plan.input.name)
            for plan in plans
            for target in plan.targets
        ],
        embedding=EmbeddingCost(
            records=sum(cost.records for cost in costs),
            characters=sum(cost.characters for cost in costs),
            tokens=sum(cost.tokens for cost in costs),
        ),
        seconds=round(sum(plan.seconds for plan in plans), 2),
        bytes_per_second=min(plan.bytes_per_second for plan in plans),
        tenants=[owner for plan in plans for owner in plan.tenants],
        tenants_left=sum(plan.tenants_left for plan in plans),
        cannot_hold=_lost([read.lost, *(plan.cannot_hold for plan in plans)]),
        refused=read.refused,
        refusals=read.refusals,
        secrets=read.secrets,
        notes=list(dict.fromkeys(notes)),
    )
