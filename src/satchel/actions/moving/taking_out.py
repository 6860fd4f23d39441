"""Taking memory out of a bank, whoever it is for: what has to be there, and what is told of it."""

from pathlib import Path

import msgspec

from satchel.actions.memories.values import UNTRUSTED
from satchel.actions.moving.exported import Export, ExportOptions
from satchel.actions.opened import OpenBank
from satchel.actions.receipts.of_outputs import Transfer
from satchel.errors import EmptyInputError
from satchel.ledger.epochs import BankStanding
from satchel.ledger.view import View
from satchel.ports.records import RecordSet
from satchel.ports.report import Report
from satchel.seal.log import Head
from satchel.transfer.exporting import Taken
from satchel.transfer.receipts.account import End, told, unaccepted
from satchel.transfer.screening import Screening


def require_some(bank: OpenBank, found: Taken, asked: ExportOptions) -> None:
    """Refuse to go on with nothing.

    Raises:
        EmptyInputError: If nothing was taken out.
    """
    if found.entries + found.others:
        return
    more = "" if asked.selection.is_whole else " Use fewer filters."
    raise EmptyInputError(
        "no memories to export",
        file=bank.name or bank.id,
        hint=f"Nothing was written.{more}",
    )


def screening_of(bank: OpenBank, view: View, asked: ExportOptions, *, sealed: bool) -> Screening:
    """Return what goes out through: secrets are replaced where it is asked for, or settled."""
    return Screening(
        scrub=asked.scrub_secrets or (not sealed and bool(bank.settled(view).scrub_secrets))
    )


def note_taken(view: View, found: Taken, report: Report) -> None:
    """Note what is worth knowing about what was exported."""
    for note in view.notes:
        report.note(note)
    if view.standing is BankStanding.UNTRUSTED:
        report.note(UNTRUSTED)
    if found.expired:
        report.note(f"expired entries, included: {found.expired}")
    if found.edges_left:
        report.note(
            f"edges skipped, since they link to records that are not exported: {found.edges_left}"
        )
    if found.withheld:
        report.note(
            f"{found.withheld} parents are not exported; the file contains proofs that they "
            "were logged"
        )
    if found.absent:
        report.note(
            f"{found.absent} parents are not in the bank, such as"
            f" {', '.join(found.absent_examples)}; the file is marked as incomplete"
        )


def told_of(done: Export, errand: Transfer) -> Export:
    """Return an export with what its report has to say."""
    report = errand.report
    return msgspec.structs.replace(
        done,
        losses=list(report.losses.values()),
        notes=list(report.notes),
        unaccepted=unaccepted(report, errand.accepted),
    )


def input_of(bank: OpenBank, head: Head, found: Taken) -> End:
    """Return the bank as a receipt has it: what was taken out of it, and under which head."""
    return End(
        name=told(bank.name or bank.id),
        bank=bank.id,
        size=head.size,
        root=head.root,
        records=found.entries + found.others,
    )


def begun(
    bank: OpenBank,
    head: Head,
    asked: ExportOptions,
    target: tuple[Path, str],
    taken: tuple[RecordSet, Taken, Screening],
) -> Export:
    """Return what is known of an export before anything is written.

    Args:
        bank: The bank.
        head: The head that it was read under.
        asked: What is asked for.
        target: The output, and its format.
        taken: What was taken out, and what it went through.
    """
    (output, name), (records, found, screening) = target, taken
    return Export(
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
