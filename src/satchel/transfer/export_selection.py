"""Taking memory out of a bank, whoever it is for: what has to be there, and what is told of it."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
from blake3 import blake3

from satchel.bank.memory import UNTRUSTED
from satchel.bank.open_bank import OpenBank
from satchel.crypto.log import Head
from satchel.errors import EmptyInputError
from satchel.ledger.heads import BankStanding
from satchel.ledger.view import View
from satchel.ports.losses import Report
from satchel.ports.record_set import RecordSet
from satchel.ports.vectors import Maker, VectorChecksum
from satchel.recall.vector_index import GenerationInfo, current_generation
from satchel.receipts.account import TransferEnd, receipt_text, unaccepted
from satchel.screening.records import SecretScreener
from satchel.transfer.export_records import ExportCounts
from satchel.transfer.export_results import Export, ExportOptions
from satchel.transfer.outputs import Transfer


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
