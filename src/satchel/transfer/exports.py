"""Exporting a bank's current memory to a file of any format that writes."""

from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from satchel.artifact.encodings import ArtifactBuilder, Header
from satchel.artifact.statement import FileScope
from satchel.bank.connections import again_if_disturbed
from satchel.bank.memory_ids import current_memory
from satchel.bank.open_bank import OpenBank
from satchel.config.options import file_to_write, require_uncontained
from satchel.crypto.encryption import encrypted_outlet
from satchel.errors import UsageError
from satchel.files.catch_up import log_pending_changes
from satchel.ledger.view import View
from satchel.model.values import now
from satchel.ports.format import Format, WriteContext
from satchel.ports.losses import Report
from satchel.ports.record_set import RecordSet
from satchel.receipts.archive import refuse_copy
from satchel.receipts.census import RecordCounter
from satchel.runtime.output import Outlet, refuse_existing
from satchel.transfer.conversion import VerifyOptions, policy_of, request_of
from satchel.transfer.delivery import hand_over
from satchel.transfer.export_file import is_own, require_no_loss
from satchel.transfer.export_records import (
    ExportCounts,
    ExportDestination,
    MemorySelection,
    collect_records,
    head_members,
    scope_of,
)
from satchel.transfer.export_results import Export, ExportOptions, export_format
from satchel.transfer.export_selection import (
    BankVectors,
    input_of,
    note_taken,
    require_some,
    screening_of,
    start_export,
    vectors_of,
    with_report,
)
from satchel.transfer.folders import output_for
from satchel.transfer.live_products import connector_for
from satchel.transfer.output_files import (
    OutputVerification,
    refuse_other,
    sidecar_outlet,
    write_output,
)
from satchel.transfer.outputs import OutputJob, account_of_output, keep_receipt, tried_plan


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
