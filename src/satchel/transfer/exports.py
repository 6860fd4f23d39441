"""Export a bank's current memory to a file of any writable format, or to a live product."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import msgspec
from blake3 import blake3

from satchel.artifact.body import TYPED_SECTIONS, FileScope
from satchel.artifact.encodings import ArtifactBuilder, Header
from satchel.bank.connections import again_if_disturbed
from satchel.bank.memory import UNTRUSTED, current_memory, versions_of
from satchel.bank.open_bank import OpenBank
from satchel.config.options import file_to_write, require_uncontained
from satchel.config.settings import Settings
from satchel.crypto.encryption import encrypted_outlet
from satchel.crypto.log import Head
from satchel.crypto.sealed_records import Sealed
from satchel.errors import EmptyInputError, UsageError
from satchel.files.catch_up import must_log_changes
from satchel.ledger.heads import BankStanding
from satchel.ledger.view import View
from satchel.model.records import Entry
from satchel.model.values import now
from satchel.ports.format import (
    Connector,
    ConnectorOptions,
    Format,
    VersionedConnector,
    WriteContext,
    WriteResult,
)
from satchel.ports.record_set import RecordSet, Report
from satchel.ports.vectors import Maker, VectorChecksum
from satchel.recall.vector_index import GenerationInfo, current_generation
from satchel.receipts.archive import refuse_copy
from satchel.receipts.comparison import DeliveredRecords
from satchel.receipts.receipt import RecordCounter, TargetPlan, TransferEnd, receipt_text
from satchel.runtime.output import Outlet, refuse_existing
from satchel.screening.records import SecretScreener
from satchel.transfer.dry_run import plan_output, plan_transfer
from satchel.transfer.export_records import (
    Export,
    ExportCounts,
    ExportDestination,
    ExportOptions,
    MemorySelection,
    collect_records,
    export_format,
    head_members,
    scope_of,
)
from satchel.transfer.folders import connector_for, display_address, opened_connector, output_for
from satchel.transfer.outputs import (
    OutputJob,
    OutputVerification,
    Transfer,
    account_of_output,
    compare_handed,
    is_own,
    refuse_other,
    require_no_loss,
    sidecar_outlet,
    with_output,
    with_receipt,
    with_report,
    write_output,
)
from satchel.transfer.verification import VerifyOptions, policy_of, request_of


def require_some(bank: OpenBank, counts: ExportCounts, options: ExportOptions) -> None:
    """Require that something was selected.

    Raises:
        EmptyInputError: If nothing was selected.
    """
    if counts.entries + counts.others:
        return
    more = "" if options.selection.is_whole else " Use fewer filters."
    raise EmptyInputError(
        "no memories to export",
        file=bank.name or bank.id,
        hint=f"Nothing was written.{more}",
    )


def screening_of(
    bank: OpenBank, view: View, options: ExportOptions, *, sealed: bool
) -> SecretScreener:
    """Return the screener: secrets are replaced if the options or the bank require it."""
    return SecretScreener(
        scrub=options.scrub_secrets or (not sealed and bool(bank.settled(view).scrub_secrets))
    )


def note_taken(view: View, counts: ExportCounts, report: Report) -> None:
    """Add notes about the exported records to a report."""
    for note in view.notes:
        report.note(note)
    if view.standing is BankStanding.UNTRUSTED:
        report.note(UNTRUSTED)
    if counts.expired:
        report.note(f"expired entries, included: {counts.expired}")
    if counts.edges_left:
        report.note(
            f"edges skipped, since they link to records that are not exported: {counts.edges_left}"
        )
    if counts.withheld:
        report.note(
            f"{counts.withheld} parents are not exported; the file contains proofs that they "
            "were logged"
        )
    if counts.absent:
        report.note(
            f"{counts.absent} parents are not in the bank, such as"
            f" {', '.join(counts.absent_examples)}; the file is marked as incomplete"
        )


def input_of(bank: OpenBank, head: Head, counts: ExportCounts) -> TransferEnd:
    """Return the bank as the input end of a receipt, with the head that was read."""
    return TransferEnd(
        name=receipt_text(bank.name or bank.id),
        bank=bank.id,
        size=head.size,
        root=head.root,
        records=counts.entries + counts.others,
    )


def start_export(
    bank: OpenBank,
    head: Head,
    options: ExportOptions,
    target: tuple[Path, str],
    selected: tuple[RecordSet, ExportCounts, SecretScreener],
) -> Export:
    """Return the result of an export before anything is written.

    Args:
        bank: The bank.
        head: The head that was read.
        options: Options of the export.
        target: The output and its format.
        selected: The records, their counts, and the screener.
    """
    (output, name), (records, counts, screening) = target, selected
    return Export(
        bank=bank.id,
        name=bank.name,
        epoch=head.epoch,
        size=head.size,
        root=head.root,
        selection=options.selection,
        output=str(output),
        format=name,
        records=records.counts,
        entries=counts.entries,
        losses=[],
        notes=[],
        secrets=screening.found,
        secrets_kept=screening.kept,
        dry_run=options.dry_run,
    )


_DIGITS = 16


class BankVectors:
    """The current generation of a bank's vectors.

    Args:
        bank: The bank.
        generation: The generation.
        count: Number of its vectors.
    """

    def __init__(self, bank: OpenBank, generation: GenerationInfo, count: int) -> None:
        self.count = count
        self.maker = Maker(
            model=generation.model,
            dimensions=generation.dimensions,
            revision=generation.revision,
            learned=""
            if generation.learned is None
            else blake3(generation.learned).hexdigest()[:_DIGITS],
        )
        self.sent = VectorChecksum()
        """Checksum of the written vectors."""

        self.placed = False
        """Whether the format stores vectors."""

        self._bank = bank
        self._generation = generation.generation

    def begin(self) -> None:
        """Reset the checksum before the output is written again."""
        self.sent, self.placed = VectorChecksum(), True

    def of(self, ids: Sequence[str]) -> Mapping[str, Sequence[float]]:
        """Return vectors by ID; none if the generation was replaced during the export."""
        with self._bank.ledger.reading() as view:
            return view.vectors(self._generation, ids)

    def wrote(self, mark: str, vector: Sequence[float]) -> None:
        """Add a written vector to the checksum."""
        self.sent.take(mark, vector)


def vectors_of(bank: OpenBank, view: View) -> BankVectors | None:
    """Return the vectors that were requested for a bank; None if there are none.

    Vectors that were computed automatically are not exported: the recipient can compute them, and
    they would replace vectors that came with memories.
    """
    generation = current_generation(view) if view.is_whole else None
    if generation is None or not generation.asked:
        return None
    return BankVectors(bank, generation, view.generations().get(generation.generation, 0))


_TOGETHER = 256
_OF_THE_TRANSFER = frozenset({"source", "receipt"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """A live product as the target of an export."""

    name: str
    """Name of the connector."""

    address: str
    how: ConnectorOptions


@dataclass(slots=True)
class DeliveryResult:
    """Result of writing to a live product."""

    written: int = 0
    known: int = 0
    """Memories that it already had, with the same content."""

    older: int = 0
    """Earlier versions that were written; reading a product back does not show them."""


def deliver(
    settings: Settings,
    product: Product,
    records: RecordSet,
    view: View | None,
    report: Report,
    delivered: DeliveredRecords | None = None,
) -> DeliveryResult:
    """Write records to a live product; what it did not store is counted in the report.

    A batch is durable before the next one begins, and existing memories are left unchanged, so an
    interrupted export can be run again.

    Args:
        settings: Settings with the limits.
        product: The product.
        records: The records.
        view: View of the bank, for earlier versions; None to omit them.
        report: Receives losses and refusals.
        delivered: Receives the IDs that the product gave, for reading back.

    Raises:
        TargetError: If it cannot be written; earlier batches remain.
        LockedError: If another process has it.
    """
    done = DeliveryResult()
    opened = opened_connector(product.name, product.address, settings, product.how)
    with closing(opened) as connector:
        if delivered is not None:
            delivered.describe(connector)
        deliverable = _deliverable(records, report)
        while batch := list(islice(deliverable, _TOGETHER)):
            results, older = _write_batch(connector, batch, view, report)
            done.older += older
            for record, result in zip(batch, results, strict=True):
                if result.problem is not None:
                    report.lost(record.type, result.problem, example=record.id)
                    continue
                done.known += result.known
                done.written += not result.known
                if delivered is not None and result.there is not None:
                    delivered.add(result.there, record)
    return done


def _deliverable(records: RecordSet, report: Report) -> Iterator[Sealed]:
    """Yield all records except those about transfers."""
    for section, count in records.counts.items():
        kind = TYPED_SECTIONS.get(section)
        if kind is None:
            report.lost(section, "a live product has no such section", count=count)
        elif kind not in _OF_THE_TRANSFER:
            yield from records.of(kind)


def _write_batch(
    connector: Connector, batch: list[Sealed], view: View | None, report: Report
) -> tuple[list[WriteResult], int]:
    """Write a batch; return the results and the number of earlier versions written."""
    if view is None or not isinstance(connector, VersionedConnector):
        return list(connector.take(batch, report)), 0
    existing = view.get([record.id for record in batch])
    older = dict[str, list[Sealed]]()
    for name, logged in existing.items():
        if isinstance(logged.model, Entry):
            versions = [one for one in versions_of(view, logged) if one.seq < logged.seq]
            older[name] = [one.record for one in versions if isinstance(one.model, Entry)]
    return list(connector.take_versions(batch, older, report)), sum(map(len, older.values()))


def export_to_product(bank: OpenBank, name: str, output: Path, options: ExportOptions) -> Export:
    """Write a bank's current memory and its earlier versions to a live product.

    Args:
        bank: The bank.
        name: The product's connector.
        output: The address of the product.
        options: Options of the export.

    Raises:
        EmptyInputError: If nothing is selected.
        LossError: With ``fail_on_loss``, if something would be lost; nothing is written then.
        TargetError: If the product cannot be written or read back.
        LockedError: If another process has it.
    """
    report, began = Report(), now()
    how = ConnectorOptions(writes=True, overwrite=options.overwrite, embeddings=options.embeddings)
    product = Product(name=name, address=str(output), how=how)
    output = Path(display_address(name, product.address))
    limits, dry_run = bank.settings.options.limits, options.dry_run
    if not dry_run:
        refuse_copy(bank.settings, options.receipt, output)
    census = RecordCounter(texts=dry_run)
    with ExitStack() as stack:
        timed = stack.enter_context(ExitStack())
        timed.enter_context(census.timed())
        builder = stack.enter_context(ArtifactBuilder())
        view = stack.enter_context(bank.ledger.reading())
        head, screening = view.head, screening_of(bank, view, options, sealed=False)
        outgoing = ExportDestination(
            builder=builder, report=report, sealed=False, screening=screening
        )
        counts = collect_records(view, options.selection, outgoing, options.progress)
        note_taken(view, counts, report)
        require_some(bank, counts, options)
        records = RecordSet(*builder.finish(limits)).without_redactions(report)
        # Earlier versions still contain the secrets that were replaced.
        past = None if screening.scrub else view
        if past is None:
            report.note("earlier versions were not exported, since they may contain secrets")
        transfer = Transfer(
            settings=bank.settings,
            kind="export",
            began=began,
            input=input_of(bank, head, counts),
            format=name,
            report=report,
            accepted=options.accept_loss,
            fail_on_loss=options.fail_on_loss,
            screening=screening,
            key=options.key,
            copy=options.receipt,
        )
        export = start_export(bank, head, options, (output, name), (records, counts, screening))
        delivery = _ProductExport(transfer, product, options, records, past)
        trial, tried = Report(dict(report.losses), list(report.notes)), DeliveryResult()
        if dry_run or options.fail_on_loss:
            tried = delivery.try_out(trial)
            if options.fail_on_loss:
                require_no_loss(trial, output, options.accept_loss)
        timed.close()
        if dry_run:
            return delivery.planned(export, tried, trial, census)
        export = delivery.write(export)
    bank.tell("on_export", counts={"memories": counts.entries, "lost": report.total})
    return export


class _ProductExport:
    """An export of records to a live product."""

    def __init__(
        self,
        transfer: Transfer,
        product: Product,
        options: ExportOptions,
        records: RecordSet,
        past: View | None,
    ) -> None:
        self._transfer = transfer
        self._product = product
        self._shown = receipt_text(display_address(product.name, product.address))
        self._options = options
        self._records = records
        self._past = past

    def try_out(self, trial: Report) -> DeliveryResult:
        """Return what would be written, and count losses in a report; nothing is written."""
        product = replace(self._product, how=replace(self._product.how, dry_run=True))
        return deliver(self._transfer.settings, product, self._records, self._past, trial)

    def planned(
        self, export: Export, tried: DeliveryResult, trial: Report, census: RecordCounter
    ) -> Export:
        """Return the result of a dry run."""
        transfer = replace(self._transfer, report=trial)
        target = TargetPlan(name=self._shown, created=tried.written, left_alone=tried.known)
        plan = plan_transfer(transfer, self._records, target, census)
        export = msgspec.structs.replace(export, written=tried.written, known=tried.known)
        return msgspec.structs.replace(with_report(export, transfer), plan=plan)

    def write(self, export: Export) -> Export:
        """Write the records, read them back, and return the result with its receipt."""
        transfer, product = self._transfer, self._product
        with DeliveredRecords(self._reopen) as delivered:
            done = deliver(
                transfer.settings, product, self._records, self._past, transfer.report, delivered
            )
            check = compare_handed(transfer, delivered, self._records)
        if done.older:
            transfer.report.note(
                f"{done.older} older versions were exported; they were not verified by reading back"
            )
        total = sum(check.records.values())
        output = TransferEnd(name=self._shown, format=transfer.format, records=total)
        account = account_of_output(transfer, output, check)
        export = msgspec.structs.replace(
            with_report(export, transfer), written=done.written, known=done.known
        )
        return with_receipt(export, transfer, account, stores=self._options.keeps_receipt)

    def _reopen(self) -> Connector:
        product, settings = self._product, self._transfer.settings
        how = ConnectorOptions(embeddings=product.how.embeddings)
        return opened_connector(product.name, product.address, settings, how)


@dataclass(frozen=True, slots=True)
class ExportPart:
    """A part of a bank that is exported."""

    take: Callable[[View, ExportDestination], ExportCounts]
    """Adds its records to a destination."""

    scope: FileScope
    """Scope of the statement."""

    @property
    def proves(self) -> bool:
        """Whether the file has a proof for each entry, which is read back."""
        return self.scope.kind == "disclosure"


def export(bank: OpenBank, output: Path | Outlet, options: ExportOptions | None = None) -> Export:
    """Write a bank's current memory to a file or to a live product.

    The bank is not changed. Expired memories are included with their expiry; quarantined ones are
    not. The output is written atomically and read back.

    Args:
        bank: The bank.
        output: Path or address, or an open output.
        options: Options of the export.

    Raises:
        PathRefusedError: If roots are set, and a path leads out of them.
        VerificationError: If the bank is not what was signed.
        EmptyInputError: If nothing is selected.
        LossError: With ``fail_on_loss``, if something would be lost.
        TargetError: If the output cannot be written.
        UsageError: If its format cannot be determined or written.
        UnknownMemoryError: If there is no memory with a given ID.
        RetiredMemoryError: If one is not current, or is quarantined.
    """
    bank, requested = bank.asked("export"), options or ExportOptions()
    if must_log_changes(bank):
        from satchel.files.bank_files import log_pending_changes  # most banks have no files

        log_pending_changes(bank)
    if requested.selection.ids:
        requested = replace(requested, selection=_named_in_full(bank, requested.selection))
    live = None if isinstance(output, Outlet) else connector_for(str(output), requested.format)
    if live is not None:
        if requested.sidecar:
            raise UsageError(
                "a live product has no file, so it cannot have a sidecar", field="sidecar"
            )
        if requested.lock.is_set:
            raise UsageError(
                "a live product is not a file, so it cannot be encrypted", field="lock"
            )
        require_uncontained(bank.settings, str(output))
        return export_to_product(bank, live, Path(str(output)), requested)
    with file_to_write(bank.settings, output) as outlet:
        return again_if_disturbed(
            lambda: export_part(bank, outlet, requested, _selected(requested))
        )


def _selected(options: ExportOptions) -> ExportPart:
    def take(view: View, outgoing: ExportDestination) -> ExportCounts:
        for identity in options.selection.ids:  # one may have changed since it was looked up
            current_memory(view, identity)
        return collect_records(view, options.selection, outgoing, options.progress)

    return ExportPart(take, scope_of(options.selection))


def _named_in_full(bank: OpenBank, selection: MemorySelection) -> MemorySelection:
    with bank.ledger.reading() as view:
        ids = {current_memory(view, each).record.id for each in selection.ids}
    return msgspec.structs.replace(selection, ids=tuple(sorted(ids)))


def export_part(bank: OpenBank, outlet: Outlet, options: ExportOptions, part: ExportPart) -> Export:
    """Write a part of a bank's memory to a file; see ``export``."""
    output = outlet.path
    name, writer = export_format(output, options.format)
    outlet = output_for(encrypted_outlet(outlet, options.lock), writer, options.lock)
    _refuse(bank, outlet, writer, options)
    sealed, report, began = writer.info.traits.sealed, Report(), now()
    census = RecordCounter(texts=options.dry_run)
    with ExitStack() as held:
        held.enter_context(census.timed())
        builder = held.enter_context(ArtifactBuilder())
        with bank.ledger.reading() as view:
            screening = screening_of(bank, view, options, sealed=sealed)
            outgoing = ExportDestination(
                builder=builder, report=report, sealed=sealed, screening=screening
            )
            counts = part.take(view, outgoing)
            head, header, vectors = view.head, _header(view, options, part), vectors_of(bank, view)
            note_taken(view, counts, report)
        require_some(bank, counts, options)
        limits = bank.settings.options.limits
        records = held.enter_context(closing(RecordSet(*builder.finish(limits))))
        if not is_own(name):
            records.without_redactions(report)
        writing = WriteContext(
            limits=limits,
            report=report,
            keys=(options.key,) if options.key else (),
            header=header,
            compress=output.name.removesuffix(".age").endswith(".gz"),
            bank=bank.name or bank.id,
            before=outlet.before,
            replacing=options.overwrite,
            entities=options.entities,
            embeddings=options.embeddings,
            vectors=vectors,
        )
        result = start_export(bank, head, options, (output, name), (records, counts, screening))
        job = OutputJob(
            settings=bank.settings,
            kind="export",
            began=began,
            input=input_of(bank, head, counts),
            outlet=outlet,
            format=name,
            writer=writer,
            sidecar=held.enter_context(sidecar_outlet(outlet, options.lock))
            if options.sidecar
            else None,
            replaces=options.overwrite,
            report=report,
            accepted=options.accept_loss,
            fail_on_loss=options.fail_on_loss,
            screening=screening,
            key=options.key,
            copy=options.receipt,
        )
        if options.dry_run:
            plan = plan_output(job, records, writing, census)
            return msgspec.structs.replace(with_report(result, job), plan=plan)
        if options.fail_on_loss:
            require_no_loss(report, output, options.accept_loss)
        deep = VerifyOptions(deep=builder.refers or bool(counts.withheld) or part.proves)
        judging = OutputVerification(
            policy_of(bank.settings, VerifyOptions()), request_of(bank.settings, deep)
        )
        written = write_output(job, records, writing, judging, overwrite=options.overwrite)
        _note_vectors(vectors, writing, name)
    signed_by = options.key.did if options.key and sealed else None
    bank.tell("on_export", counts={"memories": counts.entries, "lost": report.total})
    return with_output(result, job, written, signed_by=signed_by, stores=options.keeps_receipt)


def _refuse(bank: OpenBank, outlet: Outlet, writer: Format, options: ExportOptions) -> None:
    """Reject invalid combinations of options before any work."""
    if not options.dry_run:
        refuse_existing(outlet, overwrite=options.overwrite)
        refuse_other(outlet, writer, with_sidecar=options.sidecar, overwrite=options.overwrite)
        refuse_copy(bank.settings, options.receipt, outlet.path)
    if writer.info.traits.sealed and options.scrub_secrets:
        raise UsageError(
            "sealed records keep their IDs, so secrets in them cannot be replaced",
            field="scrub_secrets",
            hint="Export to another format, or exclude those memories.",
        )


def _note_vectors(vectors: BankVectors | None, writing: WriteContext, name: str) -> None:
    """Note that the requested vectors could not be exported."""
    if writing.embeddings and vectors is not None and not vectors.placed:
        writing.report.note(f"{name} does not support vectors; they were not exported")


def _header(view: View, options: ExportOptions, part: ExportPart) -> Header:
    return Header(
        source_agent=options.source_agent,
        scope=part.scope,
        extra=head_members(view),
    )
