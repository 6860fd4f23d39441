"""What becomes of records that are written to a file: read again, compared, and told."""

from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from satchel.config.settings import Settings
from satchel.crypto.keys import SigningKey
from satchel.errors import EmptyInputError, InputError, LossError, TargetError
from satchel.model.values import Scope, now, resolved
from satchel.ports.format import Format, Place, WriteContext
from satchel.ports.losses import Report
from satchel.ports.record_set import RecordSet
from satchel.receipts.account import (
    VERSION,
    ReceiptBody,
    TransferEnd,
    combine_counts,
    lost_in,
    notes_in,
    receipt_text,
    refusals_in,
    unaccepted,
)
from satchel.receipts.archive import save_receipts, signer, tool_version
from satchel.receipts.census import RecordCounter
from satchel.receipts.comparison import (
    DeliveredRecords,
    Differences,
    ReadBackResult,
    WrittenOutput,
    read_again,
)
from satchel.receipts.plans import TargetPlan, Tenant, TransferPlan
from satchel.receipts.receipt import receipt_of
from satchel.receipts.record_plan import lines_of, tallied, trim_of, unchanged
from satchel.receipts.tally import CARRIED, Tally, by_type
from satchel.runtime.files import OpenFile
from satchel.runtime.output import Outlet
from satchel.screening.records import SecretScreener
from satchel.transfer.export_file import ScratchTarget, require_no_loss
from satchel.transfer.import_plan import Owner, owner_of
from satchel.transfer.sidecars import SidecarFormat

_MOST_TENANTS = 1000
_MOST_NAMED = 12
_PASSES = 1.5
"""How often a trial takes as long as all of it: reading, writing, reading back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer:
    """A transfer out of here, as far as it is known before anything is written."""

    settings: Settings
    kind: Literal["export", "convert"]
    began: str
    input: TransferEnd
    format: str
    """Of the output."""

    report: Report
    accepted: tuple[str, ...]
    fail_on_loss: bool = False
    verdict: str | None = None
    screening: SecretScreener | None = None
    key: SigningKey | None = None
    """Who signs the receipt; this machine's writer key when not given."""

    copy: Path | None = None
    """Where a copy of the receipt goes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputJob(Transfer):
    """A transfer to a file."""

    outlet: Outlet
    """Where it goes."""

    writer: Format
    sidecar: Outlet | None = None
    """Where what the format cannot hold goes; None where that is lost."""

    replaces: bool = False
    """Whether a sidecar that is there already may be replaced."""

    @property
    def output(self) -> Path:
        """The path of the output."""
        return self.outlet.path

    @property
    def called(self) -> str:
        """What a receipt calls the output."""
        return receipt_text(self.outlet.called or str(self.output))


@dataclass(frozen=True, slots=True)
class Sidecar:
    """A sidecar that was written, before it has its name."""

    there: TransferEnd
    known: frozenset[tuple[str, str]]
    """Losses that are none of the format: those that were told of before it was written."""

    digest: str
    """Of the output."""

    report: Report
    """What is in the sidecar only."""

    def over(self, errand: OutputJob, stack: ExitStack) -> SidecarFormat:
        """Return the format of an output as it is read with this; the caller closes it."""
        assert errand.sidecar is not None  # noqa: S101 - it was written there
        file = stack.enter_context(errand.sidecar.written())
        return SidecarFormat(errand.writer, errand.format, file, self.there.name, self.digest)

    def keep_losses(self, report: Report) -> None:
        """Take what the format cannot hold out of what is lost."""
        for name in report.losses.keys() - self.known:
            self.report.losses[name] = report.losses.pop(name)
        if self.report.total:
            report.note(f"in the sidecar {self.there.name}: {named_in(self.report)}")


def named_in(report: Report) -> str:
    """Return the fields that a report counts, with their numbers."""
    found = Counter[str]()
    for loss in report.losses.values():
        found[receipt_text(loss.name)] += loss.count
    named = [f"{name} ({number:,})" for name, number in sorted(found.items())]
    rest = len(named) - _MOST_NAMED
    return ", ".join(named[:_MOST_NAMED]) + (f" and {rest} more" if rest > 0 else "")


class OutputCheck(NamedTuple):
    """What is at the output."""

    word: Literal["equal", "verified", "differs"]
    planned: Tally
    records: Mapping[str, int]
    """Read back, by type."""

    differences: Differences
    sidecar: Sidecar | None = None


def compare_output(
    errand: OutputJob, records: RecordSet, writing: WriteContext, sidecar: Sidecar | None = None
) -> OutputCheck:
    """Read an output again, and count what is not as it was planned in the errand's report.

    A sealed one that holds everything was verified: that is more than comparing. One with a sidecar
    is read with that, as an import reads it.

    Raises:
        TargetError: If it cannot be read; it is taken away then.
        LossError: If all or nothing was asked for; the output is taken away then.
    """
    planned = tallied(records, trim_of(errand.writer, writing))
    if _is_proved(errand.writer):
        return OutputCheck("verified", planned, by_type(records, CARRIED), Differences())
    try:
        found = _found(errand, records, writing, errand.outlet.written, sidecar)
    except TargetError:
        errand.outlet.remove()
        raise
    if sidecar is not None and not found.differences:
        sidecar.keep_losses(errand.report)
    found.differences.into(errand.report)
    if errand.fail_on_loss and unaccepted(errand.report, errand.accepted):
        errand.outlet.remove()
        fields = sorted({loss.name for loss in errand.report.losses.values()})
        raise LossError(
            f"on reading back, the output lacks: {', '.join(fields)}; it was removed",
            file=str(errand.output),
            hint="Drop --fail-on-loss to write what the format can hold.",
        )
    word: Literal["equal", "differs"] = "differs" if found.differences else "equal"
    return OutputCheck(word, planned, found.records, found.differences, sidecar)


def _is_proved(writer: Format) -> bool:
    """Tell whether a seal says of what was written that it is all as it was."""
    return writer.info.traits.sealed and writer.info.traits.exact


def _found(
    errand: OutputJob,
    records: RecordSet,
    writing: WriteContext,
    written: Callable[[], OpenFile],
    sidecar: Sidecar | None = None,
) -> ReadBackResult:
    """Read what was written, wherever that is, and compare it with what was planned.

    Raises:
        TargetError: If it cannot be read, or there is nothing in it.
    """
    limits, sent = errand.settings.options.limits, None
    if writing.vectors is not None and writing.embeddings:
        sent = writing.vectors.sent
    try:
        with ExitStack() as stack:
            made = stack.enter_context(written())
            adapter, trim = errand.writer, trim_of(errand.writer, writing)
            if sidecar is not None:
                trim = unchanged
                adapter = stack.enter_context(closing(sidecar.over(errand, stack)))
            place = Place(made.path, held=made)
            there = WrittenOutput(errand.format, adapter, place, limits, trim, sent, writing.around)
            found = read_again(there, records)
    except EmptyInputError as error:
        raise nothing_in(errand) from error
    except InputError as error:
        raise TargetError(
            f"the output cannot be read back: {error.message}; it was removed",
            file=str(errand.output),
        ) from error
    if not found.records:
        raise nothing_in(errand)
    return found


def nothing_in(errand: OutputJob) -> TargetError:
    """Return the error for an output that has nothing in it, and is to be taken away."""
    return TargetError(
        f"the format {errand.format} cannot hold any of these records; nothing was written",
        file=str(errand.output),
        hint="Choose another format: satchel formats.",
    )


def compare_handed(transfer: Transfer, handed: DeliveredRecords, records: RecordSet) -> OutputCheck:
    """Read a live product again, and count what is not as it was planned in the report.

    Raises:
        TargetError: If it cannot be read.
    """
    limits, name = transfer.settings.options.limits, handed.info.title
    try:
        written = WrittenOutput(transfer.format, handed, Place(Path(name)), limits)
        found = read_again(written, records)
    except InputError as error:
        raise TargetError(
            f"the output cannot be read back: {error.message}", file=error.file
        ) from error
    found.differences.into(transfer.report)
    word: Literal["equal", "differs"] = "differs" if found.differences else "equal"
    return OutputCheck(word, tallied(records), found.records, found.differences)


def account_of_output(
    errand: Transfer, output: TransferEnd, found: OutputCheck, *, signed_by: str | None = None
) -> ReceiptBody:
    """Return what was done.

    Args:
        errand: The transfer.
        output: What is there now.
        found: What was read back.
        signed_by: Who signed the output.
    """
    report, screening = errand.report, errand.screening
    taken = {name: there for name, there in found.planned.records.items() if name in CARRIED}
    lost = Counter[str]()
    for loss in report.losses.values():
        lost[loss.name] += loss.count
    written = {name: max(0, number - lost[name]) for name, number in taken.items()}
    kept = Counter(found.planned.kept) - found.differences.members
    return ReceiptBody(
        version=VERSION,
        kind=errand.kind,
        tool=tool_version(),
        began=errand.began,
        ended=now(),
        input=errand.input,
        output=output,
        counts=combine_counts(taken, taken, written, found.records),
        verdict=errand.verdict,
        read_back=found.word,
        sidecar=found.sidecar.there if found.sidecar else None,
        beside=lost_in(found.sidecar.report, ()) if found.sidecar else [],
        kept=dict(sorted(kept.items())),
        added=dict(sorted(found.differences.added.items())[:100]),
        lost=lost_in(report, errand.accepted),
        refused=report.left_out,
        refusals=refusals_in(report),
        accepted=[receipt_text(one) for one in errand.accepted],
        secrets=screening.found if screening else {},
        secrets_kept=screening.kept if screening else 0,
        signed_by=signed_by,
        notes=notes_in(report),
    )


def keep_receipt(errand: Transfer, account: ReceiptBody) -> str | None:
    """Sign and keep the receipt of a transfer, and return its id; what goes wrong is noted."""
    receipt = receipt_of(account, signer(errand.settings, errand.key))
    ids, notes = save_receipts(errand.settings, [receipt], errand.copy)
    for note in notes:
        errand.report.note(note)
    return ids[0] if ids else None


class _Scoped(msgspec.Struct, gc=False):
    scope: Scope | None = None


_decode = msgspec.json.Decoder(resolved(_Scoped)).decode


def tried_plan(
    errand: OutputJob, records: RecordSet, writing: WriteContext, census: RecordCounter
) -> TransferPlan:
    """Return what a transfer to a file would do; what would be lost goes into its report.

    It is written into a nameless file and read back, so that what is told is what would be.

    Raises:
        LossError: If all or nothing was asked for, and something would be lost.
        TargetError: If nothing of it has a place in the format.
    """
    known = Report() if errand.sidecar is not None else errand.report
    trial = replace(writing, report=known)
    with ScratchTarget(errand.output) as scratch:
        errand.writer.write(records, scratch, trial)
        if not _is_proved(errand.writer):
            _found(errand, records, trial, scratch.written).differences.into(known)
    if errand.sidecar is not None:
        if known.total:
            errand.report.note(f"written to the sidecar: {named_in(known)}")
        for note in known.notes:
            errand.report.note(note)
    if errand.fail_on_loss:
        require_no_loss(errand.report, errand.output, errand.accepted)
    target = TargetPlan(
        name=errand.called, makes=errand.outlet.status is None, created=records_in(records)
    )
    return plan_of(errand, records, target, census)


def records_in(records: RecordSet) -> int:
    """Return how many records of a set are memory."""
    return sum(by_type(records, CARRIED).values())


def plan_of(
    errand: Transfer, records: RecordSet, target: TargetPlan, census: RecordCounter
) -> TransferPlan:
    """Return what a transfer would do, once its report has what would be lost.

    Args:
        errand: The transfer.
        records: What would be written.
        target: What would become of the output.
        census: Counts them.
    """
    owners = Counter[Owner]()
    for kind, line in lines_of(records):
        census.add([(kind, line)])
        owners[owner_of(_decode(line).scope)] += 1
    return TransferPlan(
        version=VERSION,
        kind=errand.kind,
        tool=tool_version(),
        input=errand.input,
        output=TransferEnd(name=target.name, format=errand.format, records=census.types.total()),
        read=dict(sorted(census.types.items())),
        targets=[target],
        embedding=census.embedding,
        seconds=census.seconds_for(_PASSES),
        bytes_per_second=census.rate(census.size),
        tenants=[
            Tenant(sort=owner[0] or "nobody", name=receipt_text(owner[1]), records=there)
            for owner, there in owners.most_common(_MOST_TENANTS)
        ],
        tenants_left=max(0, len(owners) - _MOST_TENANTS),
        cannot_hold=lost_in(errand.report, errand.accepted),
        refused=errand.report.left_out,
        refusals=refusals_in(errand.report),
        secrets=errand.screening.found if errand.screening else {},
        notes=notes_in(errand.report),
    )
