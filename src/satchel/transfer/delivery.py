"""Handing a bank's memory to a live product, and reading it again there."""

from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import msgspec

from satchel.artifact.body import TYPED_SECTIONS
from satchel.artifact.encodings import ArtifactBuilder
from satchel.bank.memory_ids import versions_of
from satchel.bank.open_bank import OpenBank
from satchel.config.settings import Settings
from satchel.crypto.sealed_records import Sealed
from satchel.ledger.view import View
from satchel.model.records import Entry
from satchel.model.values import now
from satchel.ports.format import Connector, VersionedConnector, WriteResult
from satchel.ports.losses import Report
from satchel.ports.record_set import RecordSet
from satchel.receipts.account import TransferEnd, receipt_text
from satchel.receipts.archive import refuse_copy
from satchel.receipts.census import RecordCounter
from satchel.receipts.comparison import DeliveredRecords
from satchel.receipts.plans import TargetPlan
from satchel.transfer.export_file import require_no_loss
from satchel.transfer.export_records import ExportDestination, collect_records
from satchel.transfer.export_results import Export, ExportOptions
from satchel.transfer.export_selection import (
    input_of,
    note_taken,
    require_some,
    screening_of,
    start_export,
    with_report,
)
from satchel.transfer.live_products import ConnectorOptions, display_address, opened_connector
from satchel.transfer.outputs import (
    Transfer,
    account_of_output,
    compare_handed,
    keep_receipt,
    plan_of,
)

_TOGETHER = 256
_OF_THE_TRANSFER = frozenset({"source", "receipt"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """A live product that memory is handed to."""

    name: str
    """Of the connector."""

    address: str
    how: ConnectorOptions


@dataclass(slots=True)
class DeliveryResult:
    """What became of it."""

    written: int = 0
    known: int = 0
    """There already, saying the same."""

    older: int = 0
    """What the memories said before, handed along; reading a product back does not show it."""


def deliver(
    settings: Settings,
    product: Product,
    records: RecordSet,
    view: View | None,
    report: Report,
    handed: DeliveredRecords | None = None,
) -> DeliveryResult:
    """Hand records to a live product; what it did not take is counted in the report.

    A batch is durable there before the next one begins; what is there already is left as it is,
    so whoever was stopped runs it again.

    Args:
        settings: The limits.
        product: Where to.
        records: What to hand on.
        view: Of the bank, for what memories said before; None to keep that back.
        report: Where losses and refusals go.
        handed: Is told what the product has, and by which ids; to read that again.

    Raises:
        TargetError: If it cannot be written; the batches before are there.
        LockedError: If another process has it.
    """
    done = DeliveryResult()
    opened = opened_connector(product.name, product.address, settings, product.how)
    with closing(opened) as connector:
        if handed is not None:
            handed.is_to(connector)
        found = _worth_handing(records, report)
        while batch := list(islice(found, _TOGETHER)):
            results, older = _taken(connector, batch, view, report)
            done.older += older
            for record, result in zip(batch, results, strict=True):
                if result.problem is not None:
                    report.lost(record.type, result.problem, example=record.id)
                    continue
                done.known += result.known
                done.written += not result.known
                if handed is not None and result.there is not None:
                    handed.add(result.there, record)
    return done


def _worth_handing(records: RecordSet, report: Report) -> Iterator[Sealed]:
    """Yield everything but what is about the transfer itself."""
    for section, count in records.counts.items():
        kind = TYPED_SECTIONS.get(section)
        if kind is None:
            report.lost(section, "a live product has no such section", count=count)
        elif kind not in _OF_THE_TRANSFER:
            yield from records.of(kind)


def _taken(
    connector: Connector, batch: list[Sealed], view: View | None, report: Report
) -> tuple[list[WriteResult], int]:
    """Hand a batch over; return what became of it, and how many older versions went along."""
    if view is None or not isinstance(connector, VersionedConnector):
        return list(connector.take(batch, report)), 0
    there = view.get([record.id for record in batch])
    older = dict[str, list[Sealed]]()
    for name, logged in there.items():
        if isinstance(logged.model, Entry):
            versions = [one for one in versions_of(view, logged) if one.seq < logged.seq]
            older[name] = [one.record for one in versions if isinstance(one.model, Entry)]
    return list(connector.take_versions(batch, older, report)), sum(map(len, older.values()))


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
    how = ConnectorOptions(writes=True, overwrite=asked.overwrite, embeddings=asked.embeddings)
    product = Product(name=name, address=str(output), how=how)
    output = Path(display_address(name, product.address))
    limits, dry_run = bank.settings.options.limits, asked.dry_run
    if not dry_run:
        refuse_copy(bank.settings, asked.receipt, output)
    census = RecordCounter(texts=dry_run)
    with ExitStack() as stack:
        timed = stack.enter_context(ExitStack())
        timed.enter_context(census.timed())
        builder = stack.enter_context(ArtifactBuilder())
        view = stack.enter_context(bank.ledger.reading())
        head, screening = view.head, screening_of(bank, view, asked, sealed=False)
        outgoing = ExportDestination(
            builder=builder, report=report, sealed=False, screening=screening
        )
        found = collect_records(view, asked.selection, outgoing, asked.progress)
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
        export = start_export(bank, head, asked, (output, name), (records, found, screening))
        handing = _Handing(transfer, product, asked, records, past)
        trial, tried = Report(dict(report.losses), list(report.notes)), DeliveryResult()
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
        self._shown = receipt_text(display_address(product.name, product.address))
        self._asked = asked
        self._records = records
        self._past = past

    def tried(self, trial: Report) -> DeliveryResult:
        """Return what would become of it, and count losses in a report; nothing is written."""
        product = replace(self._product, how=replace(self._product.how, dry_run=True))
        return deliver(self._transfer.settings, product, self._records, self._past, trial)

    def planned(
        self, export: Export, tried: DeliveryResult, trial: Report, census: RecordCounter
    ) -> Export:
        """Return what would be done."""
        transfer = replace(self._transfer, report=trial)
        target = TargetPlan(name=self._shown, created=tried.written, left_alone=tried.known)
        plan = plan_of(transfer, self._records, target, census)
        export = msgspec.structs.replace(export, written=tried.written, known=tried.known)
        return msgspec.structs.replace(with_report(export, transfer), plan=plan)

    def done(self, export: Export) -> Export:
        """Hand it over, read it again, and return what was done, with its receipt."""
        transfer, product = self._transfer, self._product
        with DeliveredRecords(self._again) as handed:
            done = deliver(
                transfer.settings, product, self._records, self._past, transfer.report, handed
            )
            again = compare_handed(transfer, handed, self._records)
        if done.older:
            transfer.report.note(
                f"{done.older} older versions were exported; they were not verified by reading back"
            )
        there = sum(again.records.values())
        output = TransferEnd(name=self._shown, format=transfer.format, records=there)
        account = account_of_output(transfer, output, again)
        receipt = keep_receipt(transfer, account) if self._asked.keeps_receipt else None
        return msgspec.structs.replace(
            with_report(export, transfer),
            written=done.written,
            known=done.known,
            account=account,
            receipt=receipt,
        )

    def _again(self) -> Connector:
        product, settings = self._product, self._transfer.settings
        how = ConnectorOptions(embeddings=product.how.embeddings)
        return opened_connector(product.name, product.address, settings, how)
