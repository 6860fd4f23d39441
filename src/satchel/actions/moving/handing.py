"""Handing a bank's memory to a live product, and reading it again there."""

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import msgspec

from satchel.actions.moving.connecting import Asked, opened_connector, shown
from satchel.actions.moving.delivering import Delivered, Product, deliver
from satchel.actions.moving.exported import Export, ExportOptions
from satchel.actions.moving.taking_out import (
    begun,
    input_of,
    note_taken,
    require_some,
    screening_of,
    told_of,
)
from satchel.actions.opened import OpenBank
from satchel.actions.receipts.keeping import refuse_copy
from satchel.actions.receipts.of_outputs import (
    Transfer,
    account_of_output,
    compare_handed,
    keep_receipt,
    plan_of,
)
from satchel.ledger.view import View
from satchel.memory.times import now
from satchel.ports.connector import Connector
from satchel.ports.records import RecordSet
from satchel.ports.report import Report
from satchel.seal.artifact.writing import ArtifactBuilder
from satchel.transfer.exporting import Outgoing, take_out
from satchel.transfer.receipts.account import End, told
from satchel.transfer.receipts.census import Census
from satchel.transfer.receipts.handed import Handed
from satchel.transfer.receipts.plans import Target
from satchel.transfer.writing import require_no_loss


def hand_over(bank: OpenBank, name: str, output: Path, asked: ExportOptions) -> Export:
    """Hand a bank's current memory, and what it said before, to a live product.

    Args:
        bank: The bank.
        name: The product's connector.
        output: The address of the product.
        asked: What is asked for.

    Raises:
        EmptyInputError: If nothing is wanted of the bank.
        LossError: With ``fail_on_loss``, if something would not survive; nothing is written then.
        TargetError: If the product cannot be written, or cannot be read again.
        LockedError: If another process has it.
    """
    report, began = Report(), now()
    how = Asked(writes=True, overwrite=asked.overwrite, embeddings=asked.embeddings)
    product = Product(name=name, address=str(output), how=how)
    output = Path(shown(name, product.address))
    limits, dry_run = bank.settings.options.limits, asked.dry_run
    if not dry_run:
        refuse_copy(bank.settings, asked.receipt, output)
    census = Census(texts=dry_run)
    with ExitStack() as stack:
        timed = stack.enter_context(ExitStack())
        timed.enter_context(census.timed())
        builder = stack.enter_context(ArtifactBuilder())
        view = stack.enter_context(bank.ledger.reading())
        head, screening = view.head, screening_of(bank, view, asked, sealed=False)
        outgoing = Outgoing(builder=builder, report=report, sealed=False, screening=screening)
        found = take_out(view, asked.selection, outgoing, asked.progress)
        note_taken(view, found, report)
        require_some(bank, found, asked)
        records = RecordSet(*builder.finish(limits)).without_redactions(report)
        # What was replaced by tokens is said in older versions as it was.
        past = None if screening.scrub else view
        if past is None:
            report.note("earlier versions were not exported, since they may contain secrets")
        transfer = Transfer(
            settings=bank.settings,
            kind="export",
            began=began,
            input=input_of(bank, head, found),
            format=name,
            report=report,
            accepted=asked.accept_loss,
            fail_on_loss=asked.fail_on_loss,
            screening=screening,
            key=asked.key,
            copy=asked.receipt,
        )
        export = begun(bank, head, asked, (output, name), (records, found, screening))
        handing = _Handing(transfer, product, asked, records, past)
        trial, tried = Report(dict(report.losses), list(report.notes)), Delivered()
        if dry_run or asked.fail_on_loss:
            tried = handing.tried(trial)
            if asked.fail_on_loss:
                require_no_loss(trial, output, asked.accept_loss)
        timed.close()
        if dry_run:
            return handing.planned(export, tried, trial, census)
        export = handing.done(export)
    bank.tell("on_export", counts={"memories": found.entries, "lost": report.total})
    return export


class _Handing:
    """One transfer of records to a product."""

    def __init__(
        self,
        transfer: Transfer,
        product: Product,
        asked: ExportOptions,
        records: RecordSet,
        past: View | None,
    ) -> None:
        self._transfer = transfer
        self._product = product
        self._shown = told(shown(product.name, product.address))
        self._asked = asked
        self._records = records
        self._past = past

    def tried(self, trial: Report) -> Delivered:
        """Return what would become of it, and count losses in a report; nothing is written."""
        product = replace(self._product, how=replace(self._product.how, dry_run=True))
        return deliver(self._transfer.settings, product, self._records, self._past, trial)

    def planned(self, export: Export, tried: Delivered, trial: Report, census: Census) -> Export:
        """Return what would be done."""
        transfer = replace(self._transfer, report=trial)
        target = Target(name=self._shown, created=tried.written, left_alone=tried.known)
        plan = plan_of(transfer, self._records, target, census)
        export = msgspec.structs.replace(export, written=tried.written, known=tried.known)
        return msgspec.structs.replace(told_of(export, transfer), plan=plan)

    def done(self, export: Export) -> Export:
        """Hand it over, read it again, and return what was done, with its receipt."""
        transfer, product = self._transfer, self._product
        with Handed(self._again) as handed:
            done = deliver(
                transfer.settings, product, self._records, self._past, transfer.report, handed
            )
            again = compare_handed(transfer, handed, self._records)
        if done.older:
            transfer.report.note(
                f"{done.older} older versions were exported; they were not verified by reading back"
            )
        there = sum(again.records.values())
        output = End(name=self._shown, format=transfer.format, records=there)
        account = account_of_output(transfer, output, again)
        receipt = keep_receipt(transfer, account) if self._asked.keeps_receipt else None
        return msgspec.structs.replace(
            told_of(export, transfer),
            written=done.written,
            known=done.known,
            account=account,
            receipt=receipt,
        )

    def _again(self) -> Connector:
        product, settings = self._product, self._transfer.settings
        how = Asked(embeddings=product.how.embeddings)
        return opened_connector(product.name, product.address, settings, how)
