"""Exporting a bank's current memory to a file of any format that writes."""

from dataclasses import dataclass
from pathlib import Path

import msgspec

from satchel.actions.opened import OpenBank
from satchel.actions.paths.permission import file_to_write
from satchel.actions.receipts.keeping import refuse_copy
from satchel.actions.receipts.of_outputs import (
    Errand,
    account_of_output,
    compare_output,
    keep_receipt,
    tried_plan,
)
from satchel.actions.verifying import VerifyOptions, policy_of, request_of
from satchel.disk.outlet import Outlet
from satchel.errors import EmptyInputError, UsageError
from satchel.ledger.epochs import BankStanding
from satchel.ledger.view import View
from satchel.memory.parts import Component
from satchel.memory.times import now, read_time
from satchel.ports.format import Format, Writing
from satchel.ports.place import Target
from satchel.ports.records import RecordSet
from satchel.ports.report import Loss, Report
from satchel.seal.artifact.statement import SourceAgent
from satchel.seal.artifact.writing import ArtifactBuilder, Header
from satchel.seal.signing.key import SigningKey
from satchel.transfer.exporting import Outgoing, Progress, Taken, head_members, scope_of, take_out
from satchel.transfer.receipts.account import Account, End, told, unaccepted
from satchel.transfer.receipts.census import Census
from satchel.transfer.receipts.plans import TransferPlan
from satchel.transfer.screening import Screening
from satchel.transfer.selecting import WHOLE, Selection
from satchel.transfer.writing import (
    chosen_format,
    digest_of,
    read_back,
    refuse_existing,
    require_no_loss,
    write,
)

OTHERWISE = "pam"
"""The format of a file whose name does not say it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportOptions:
    """What an export is asked to do."""

    format: str | None = None
    """From the output's name when not given, or else ``OTHERWISE``."""

    selection: Selection = WHOLE
    key: SigningKey | None = None
    """Signs an artifact; None writes it unsigned."""

    overwrite: bool = False
    fail_on_loss: bool = False
    scrub_secrets: bool = False
    """Replace secrets by tokens; otherwise they are only counted."""

    entities: bool = True
    """Whether entities go along, in formats that can do without them."""

    embeddings: bool = False
    """Whether embeddings that came with memories go along, in such formats."""

    accept_loss: tuple[str, ...] = ()
    """Fields that may be lost; ``all`` for whatever there is."""

    receipt: Path | None = None
    """Where a copy of the receipt goes; it must not be there yet."""

    dry_run: bool = False
    """Say what would be written and lost, and write nothing."""

    source_agent: SourceAgent | None = None
    progress: Progress | None = None


class Export(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an export did: read, written, read back, lost."""

    bank: str
    name: str | None = None
    epoch: int
    size: int
    """Records in the bank's log when it was read."""

    root: str
    selection: Selection
    output: str
    format: str
    records: dict[str, int]
    """Objects in each section, as read from the bank."""

    entries: int
    losses: list[Loss]
    notes: list[str]
    secrets: dict[str, int] = {}
    """What looks like keys, tokens, passwords and cards, by kind."""

    secrets_kept: int = 0
    """How many of them went out as they are."""

    dry_run: bool = False
    output_digest: str | None = None
    output_bytes: int | None = None
    signed_by: str | None = None
    read_back: str | None = None
    """The verdict on a sealed output, read again from the disk."""

    plan: TransferPlan | None = None
    """What would be done, of a dry run."""

    receipt: str | None = None
    """Id of the receipt; ``satchel receipt show`` prints it."""

    account: Account | None = None
    """What the receipt says."""

    unaccepted: int = 0
    """How much was lost, or would be, that nobody said may be lost."""

    @property
    def lost(self) -> int:
        """How many things did not make it."""
        return sum(loss.count for loss in self.losses)


def export_format(output: Path, name: str | None) -> tuple[str, Format]:
    """Return the format that an export writes: by name, else by suffix, else an artifact.

    Raises:
        UsageError: If it cannot be written.
    """
    return chosen_format(output, name, otherwise=OTHERWISE)


def selection(
    *,
    components: tuple[str, ...] = (),
    tags: tuple[str, ...] = (),
    since: str | None = None,
    until: str | None = None,
    owner: str | None = None,
    as_of: int | None = None,
) -> Selection:
    """Return which memory is meant, from what a person says.

    Args:
        components: Names of components.
        tags: Tags; one of them is enough.
        since: First moment, as a date or time.
        until: Last moment, not included.
        owner: A user, or an agent.
        as_of: A size of the log.

    Raises:
        UsageError: If a component or a moment is none.
    """
    unknown = sorted(set(components) - set(Component))
    if unknown:
        raise UsageError(
            f"there is no component {unknown[0]!r}",
            field="component",
            hint=f"Known: {', '.join(Component)}.",
        )
    if as_of is not None and as_of < 1:
        raise UsageError("a log has at least one record", field="as_of")
    return Selection(
        components=tuple(sorted(set(components))),
        tags=tuple(sorted(set(tags))),
        since=_moment(since, "since"),
        until=_moment(until, "until"),
        owner=owner,
        as_of=as_of,
    )


def _moment(text: str | None, field: str) -> str | None:
    if text is None:
        return None
    found = read_time(text)
    if found is None:
        raise UsageError(
            f"{text!r} is not a date or time", field=field, hint="Write it as 2026-01-31."
        )
    return found


def export(bank: OpenBank, output: Path | Outlet, options: ExportOptions | None = None) -> Export:
    """Write a bank's current memory to a file.

    The bank is not changed. What is past its expiry goes along, with its expiry; what is in
    quarantine does not. The output is there whole or not at all, and is read back.

    Args:
        bank: The bank.
        output: What a person at this machine names; or what was opened for a caller.
        options: What is asked for.

    Raises:
        PathRefusedError: If roots are set, and a name leads out of them.
        VerificationError: If the bank is not what was signed.
        EmptyInputError: If nothing is wanted of it.
        LossError: With ``fail_on_loss``, if something would not survive.
        TargetError: If the output cannot be written.
        UsageError: If its format cannot be told or written.
    """
    with file_to_write(bank.settings, output) as outlet:
        return _exported(bank, outlet, options or ExportOptions())


def _exported(bank: OpenBank, outlet: Outlet, asked: ExportOptions) -> Export:
    output = outlet.path
    name, writer = export_format(output, asked.format)
    if not asked.dry_run:
        refuse_existing(outlet, overwrite=asked.overwrite)
        refuse_copy(bank.settings, asked.receipt, output)
    sealed, report, began = writer.info.traits.sealed, Report(), now()
    if sealed and asked.scrub_secrets:
        raise UsageError(
            "what is sealed keeps its ids, so nothing in it can be replaced",
            field="scrub_secrets",
            hint="Export to another format, or leave those memories out.",
        )
    screening, census = Screening(scrub=asked.scrub_secrets), Census(texts=asked.dry_run)
    with census.timed(), ArtifactBuilder() as builder:
        outgoing = Outgoing(builder=builder, report=report, sealed=sealed, screening=screening)
        with bank.ledger.reading() as view:
            found = take_out(view, asked.selection, outgoing, asked.progress)
            head, header = view.head, _header(view, asked)
            _note(view, found, report)
        if not found.entries + found.others:
            raise _nothing(bank, asked.selection)
        limits = bank.settings.options.limits
        records = RecordSet(*builder.finish(limits))
        writing = Writing(
            limits=limits,
            report=report,
            keys=(asked.key,) if asked.key else (),
            header=header,
            compress=output.name.endswith(".gz"),
            bank=bank.name or bank.id,
            entities=asked.entities,
            embeddings=asked.embeddings,
        )
        done = Export(
            bank=bank.id,
            name=bank.name,
            epoch=head.epoch,
            size=head.size,
            root=head.root,
            selection=asked.selection,
            output=str(output),
            format=name,
            records=records.counts,
            entries=found.entries,
            losses=[],
            notes=[],
            secrets=screening.found,
            secrets_kept=screening.kept,
            dry_run=asked.dry_run,
        )
        errand = Errand(
            settings=bank.settings,
            kind="export",
            began=began,
            input=End(
                name=told(bank.name or bank.id),
                bank=bank.id,
                size=head.size,
                root=head.root,
                records=found.entries + found.others,
            ),
            outlet=outlet,
            format=name,
            writer=writer,
            report=report,
            accepted=asked.accept_loss,
            fail_on_loss=asked.fail_on_loss,
            screening=screening,
            key=asked.key,
            copy=asked.receipt,
        )
        if asked.dry_run:
            plan = tried_plan(errand, records, writing, census)
            return msgspec.structs.replace(_reported(done, errand), plan=plan)
        if asked.fail_on_loss:
            require_no_loss(report, output, asked.accept_loss)
        target, whole = Target(output, overwrite=asked.overwrite, outlet=outlet), asked.fail_on_loss
        write(writer, records, target, writing, whole=whole, accepted=asked.accept_loss)
        verdict = read_back(
            outlet,
            writer,
            policy_of(bank.settings, VerifyOptions()),
            request_of(bank.settings, VerifyOptions(deep=builder.refers or bool(found.withheld))),
        )
        again = compare_output(errand, records)
    with outlet.written() as written:
        digest, size = digest_of(written)
    signed_by = asked.key.did if asked.key and sealed else None
    there = End(
        name=told(str(output)),
        format=name,
        digest=digest,
        bytes=size,
        records=sum(again.records.values()),
    )
    account = account_of_output(errand, there, again, signed_by=signed_by)
    return msgspec.structs.replace(
        _reported(done, errand),
        output_digest=digest,
        output_bytes=size,
        signed_by=signed_by,
        read_back=verdict,
        receipt=keep_receipt(errand, account),
        account=account,
    )


def _nothing(bank: OpenBank, wanted: Selection) -> EmptyInputError:
    more = "" if wanted.is_whole else " Ask for more: fewer options leave less out."
    return EmptyInputError(
        "there is no memory to export",
        file=bank.name or bank.id,
        hint="Nothing was written." + more,
    )


def _header(view: View, asked: ExportOptions) -> Header:
    return Header(
        source_agent=asked.source_agent,
        scope=scope_of(asked.selection),
        extra=head_members(view),
    )


def _note(view: View, found: Taken, report: Report) -> None:
    for note in view.notes:
        report.note(note)
    if view.standing is BankStanding.STRANGER:
        report.note(
            "the bank is a stranger's: it was proved by keys that this machine does not know"
        )
    if found.expired:
        report.note(f"entries past their expiry, which go along with it: {found.expired}")
    if found.edges_left:
        report.note(f"edges left out, since they lead to what is not exported: {found.edges_left}")
    if found.withheld:
        report.note(
            f"{found.withheld} parents are not exported; the file proves that they were logged"
        )
    if found.absent:
        report.note(
            f"{found.absent} parents are not in the bank, such as"
            f" {', '.join(found.absent_examples)}; the file says so too: it is incomplete"
        )


def _reported(done: Export, errand: Errand) -> Export:
    report = errand.report
    return msgspec.structs.replace(
        done,
        losses=list(report.losses.values()),
        notes=list(report.notes),
        unaccepted=unaccepted(report, errand.accepted),
    )
