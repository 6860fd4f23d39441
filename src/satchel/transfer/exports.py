"""Exporting a bank's current memory to a file of any format that writes."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import msgspec
from blake3 import blake3

from satchel.artifact.body import TYPED_SECTIONS
from satchel.artifact.encodings import ArtifactBuilder, Header
from satchel.artifact.statement import FileScope
from satchel.bank.connections import again_if_disturbed
from satchel.bank.memory import UNTRUSTED
from satchel.bank.memory_input import current_memory, versions_of
from satchel.bank.open_bank import OpenBank
from satchel.config.options import file_to_write, require_uncontained
from satchel.config.settings import Settings
from satchel.crypto.encryption import encrypted_outlet
from satchel.crypto.log import Head
from satchel.crypto.sealed_records import Sealed
from satchel.errors import EmptyInputError, UsageError
from satchel.files.catch_up import log_pending_changes
from satchel.ledger.heads import BankStanding
from satchel.ledger.view import View
from satchel.model.records import Entry
from satchel.model.values import now
from satchel.ports.format import Connector, Format, VersionedConnector, WriteContext, WriteResult
from satchel.ports.losses import Report
from satchel.ports.record_set import RecordSet
from satchel.ports.vectors import Maker, VectorChecksum
from satchel.recall.vector_index import GenerationInfo, current_generation
from satchel.receipts.archive import refuse_copy
from satchel.receipts.comparison import DeliveredRecords
from satchel.receipts.receipt import TargetPlan, TransferEnd, receipt_text, unaccepted
from satchel.receipts.tally import RecordCounter
from satchel.runtime.output import Outlet, refuse_existing
from satchel.screening.records import SecretScreener
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
from satchel.transfer.folders import output_for
from satchel.transfer.live_products import (
    ConnectorOptions,
    connector_for,
    display_address,
    opened_connector,
)
from satchel.transfer.outputs import (
    OutputJob,
    OutputVerification,
    Transfer,
    account_of_output,
    compare_handed,
    is_own,
    keep_receipt,
    plan_of,
    refuse_other,
    require_no_loss,
    sidecar_outlet,
    tried_plan,
    write_output,
)
from satchel.transfer.verification import VerifyOptions, policy_of, request_of


def require_some(bank: OpenBank, found: ExportCounts, asked: ExportOptions) -> None:
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


def screening_of(
    bank: OpenBank, view: View, asked: ExportOptions, *, sealed: bool
) -> SecretScreener:
    """Return what goes out through: secrets are replaced where it is asked for, or settled."""
    return SecretScreener(
        scrub=asked.scrub_secrets or (not sealed and bool(bank.settled(view).scrub_secrets))
    )


def note_taken(view: View, found: ExportCounts, report: Report) -> None:
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


def with_report(done: Export, errand: Transfer) -> Export:
    """Return an export with what its report has to say."""
    report = errand.report
    return msgspec.structs.replace(
        done,
        losses=list(report.losses.values()),
        notes=list(report.notes),
        unaccepted=unaccepted(report, errand.accepted),
    )


def input_of(bank: OpenBank, head: Head, found: ExportCounts) -> TransferEnd:
    """Return the bank as a receipt has it: what was taken out of it, and under which head."""
    return TransferEnd(
        name=receipt_text(bank.name or bank.id),
        bank=bank.id,
        size=head.size,
        root=head.root,
        records=found.entries + found.others,
    )


def start_export(
    bank: OpenBank,
    head: Head,
    asked: ExportOptions,
    target: tuple[Path, str],
    taken: tuple[RecordSet, ExportCounts, SecretScreener],
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


_DIGITS = 16


class BankVectors:
    """The generation that a bank uses.

    Args:
        bank: The bank.
        made: What is known of the generation.
        count: How many vectors it has.
    """

    def __init__(self, bank: OpenBank, made: GenerationInfo, count: int) -> None:
        self.count = count
        self.maker = Maker(
            model=made.model,
            dimensions=made.dimensions,
            revision=made.revision,
            learnt="" if made.learnt is None else blake3(made.learnt).hexdigest()[:_DIGITS],
        )
        self.sent = VectorChecksum()
        """Those that were written."""

        self.placed = False
        """Whether the format has a place for them."""

        self._bank = bank
        self._generation = made.generation

    def begin(self) -> None:
        """Forget what was written: it is written again."""
        self.sent, self.placed = VectorChecksum(), True

    def of(self, ids: Sequence[str]) -> Mapping[str, Sequence[float]]:
        """Return vectors by id, of this generation or none: it may be replaced meanwhile."""
        with self._bank.ledger.reading() as view:
            return view.vectors(self._generation, ids)

    def wrote(self, mark: str, vector: Sequence[float]) -> None:
        """Count a vector that was written."""
        self.sent.take(mark, vector)


def vectors_of(bank: OpenBank, view: View) -> BankVectors | None:
    """Return the vectors that somebody had made for a bank; None where there are none.

    Those that were made unasked can be made again by whoever reads the file, at no cost: they would
    only take the place of vectors that came with memories.
    """
    made = current_generation(view) if view.is_whole else None
    if made is None or not made.asked:
        return None
    return BankVectors(bank, made, view.generations().get(made.generation, 0))


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


@dataclass(frozen=True, slots=True)
class ExportPart:
    """What of a bank goes out."""

    take: Callable[[View, ExportDestination], ExportCounts]
    """Takes it out."""

    scope: FileScope
    """What the statement says of it."""

    @property
    def proves(self) -> bool:
        """Whether the file has a proof for each entry, which is to be read back."""
        return self.scope.kind == "disclosure"


def export(bank: OpenBank, output: Path | Outlet, options: ExportOptions | None = None) -> Export:
    """Write a bank's current memory to a file, or hand it to a live product.

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
        UnknownMemoryError: If a memory that is named is not there.
        RetiredMemoryError: If one is not current, or in quarantine.
    """
    bank, asked = bank.asked("export"), options or ExportOptions()
    log_pending_changes(bank)
    if asked.selection.ids:
        asked = replace(asked, selection=_named_in_full(bank, asked.selection))
    live = None if isinstance(output, Outlet) else connector_for(str(output), asked.format)
    if live is not None:
        if asked.sidecar:
            raise UsageError(
                "a live product has no file, so it cannot have a sidecar", field="sidecar"
            )
        if asked.lock.is_set:
            raise UsageError(
                "a live product is not a file, so it cannot be encrypted", field="lock"
            )
        require_uncontained(bank.settings, str(output))
        return hand_over(bank, live, Path(str(output)), asked)
    with file_to_write(bank.settings, output) as outlet:
        return again_if_disturbed(lambda: export_part(bank, outlet, asked, _selected(asked)))


def _selected(asked: ExportOptions) -> ExportPart:
    def take(view: View, outgoing: ExportDestination) -> ExportCounts:
        for identity in asked.selection.ids:  # one may have changed since it was looked up
            current_memory(view, identity)
        return collect_records(view, asked.selection, outgoing, asked.progress)

    return ExportPart(take, scope_of(asked.selection))


def _named_in_full(bank: OpenBank, wanted: MemorySelection) -> MemorySelection:
    with bank.ledger.reading() as view:
        ids = {current_memory(view, each).record.id for each in wanted.ids}
    return msgspec.structs.replace(wanted, ids=tuple(sorted(ids)))


def export_part(bank: OpenBank, outlet: Outlet, asked: ExportOptions, part: ExportPart) -> Export:
    """Write a part of a bank's memory to a file; see ``export``."""
    output = outlet.path
    name, writer = export_format(output, asked.format)
    outlet = output_for(encrypted_outlet(outlet, asked.lock), writer, asked.lock)
    _refuse(bank, outlet, writer, asked)
    sealed, report, began = writer.info.traits.sealed, Report(), now()
    census = RecordCounter(texts=asked.dry_run)
    with ExitStack() as held:
        held.enter_context(census.timed())
        builder = held.enter_context(ArtifactBuilder())
        with bank.ledger.reading() as view:
            screening = screening_of(bank, view, asked, sealed=sealed)
            outgoing = ExportDestination(
                builder=builder, report=report, sealed=sealed, screening=screening
            )
            found = part.take(view, outgoing)
            head, header, vectors = view.head, _header(view, asked, part), vectors_of(bank, view)
            note_taken(view, found, report)
        require_some(bank, found, asked)
        limits = bank.settings.options.limits
        records = held.enter_context(closing(RecordSet(*builder.finish(limits))))
        if not is_own(name):
            records.without_redactions(report)
        writing = WriteContext(
            limits=limits,
            report=report,
            keys=(asked.key,) if asked.key else (),
            header=header,
            compress=output.name.removesuffix(".age").endswith(".gz"),
            bank=bank.name or bank.id,
            before=outlet.before,
            replacing=asked.overwrite,
            entities=asked.entities,
            embeddings=asked.embeddings,
            vectors=vectors,
        )
        done = start_export(bank, head, asked, (output, name), (records, found, screening))
        errand = OutputJob(
            settings=bank.settings,
            kind="export",
            began=began,
            input=input_of(bank, head, found),
            outlet=outlet,
            format=name,
            writer=writer,
            sidecar=held.enter_context(sidecar_outlet(outlet, asked.lock))
            if asked.sidecar
            else None,
            replaces=asked.overwrite,
            report=report,
            accepted=asked.accept_loss,
            fail_on_loss=asked.fail_on_loss,
            screening=screening,
            key=asked.key,
            copy=asked.receipt,
        )
        if asked.dry_run:
            plan = tried_plan(errand, records, writing, census)
            return msgspec.structs.replace(with_report(done, errand), plan=plan)
        if asked.fail_on_loss:
            require_no_loss(report, output, asked.accept_loss)
        deep = VerifyOptions(deep=builder.refers or bool(found.withheld) or part.proves)
        judging = OutputVerification(
            policy_of(bank.settings, VerifyOptions()), request_of(bank.settings, deep)
        )
        put = write_output(errand, records, writing, judging, overwrite=asked.overwrite)
        _note_vectors(vectors, writing, name)
    signed_by = asked.key.did if asked.key and sealed else None
    account = account_of_output(errand, put.there, put.again, signed_by=signed_by)
    bank.tell("on_export", counts={"memories": found.entries, "lost": report.total})
    return msgspec.structs.replace(
        with_report(done, errand),
        output_digest=put.there.digest,
        output_bytes=put.there.bytes,
        sidecar=account.sidecar.name if account.sidecar else None,
        signed_by=signed_by,
        read_back=put.verdict,
        receipt=keep_receipt(errand, account) if asked.keeps_receipt else None,
        account=account,
    )


def _refuse(bank: OpenBank, outlet: Outlet, writer: Format, asked: ExportOptions) -> None:
    """Refuse what cannot be done, before any work."""
    if not asked.dry_run:
        refuse_existing(outlet, overwrite=asked.overwrite)
        refuse_other(outlet, writer, wanted=asked.sidecar, overwrite=asked.overwrite)
        refuse_copy(bank.settings, asked.receipt, outlet.path)
    if writer.info.traits.sealed and asked.scrub_secrets:
        raise UsageError(
            "sealed records keep their IDs, so secrets in them cannot be replaced",
            field="scrub_secrets",
            hint="Export to another format, or exclude those memories.",
        )


def _note_vectors(vectors: BankVectors | None, writing: WriteContext, name: str) -> None:
    """Say that vectors stay behind which somebody asked for."""
    if writing.embeddings and vectors is not None and not vectors.placed:
        writing.report.note(f"{name} does not support vectors; they were not exported")


def _header(view: View, asked: ExportOptions, part: ExportPart) -> Header:
    return Header(
        source_agent=asked.source_agent,
        scope=part.scope,
        extra=head_members(view),
    )
