"""Outputs of transfers: the format, the sidecar, writing, reading back, comparison, receipt."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from io import RawIOBase
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, Literal, NamedTuple, TypeVar, cast

import msgspec

from satchel.artifact.verification import Outcome, TrustPolicy
from satchel.artifact.verifier import VerificationRequest
from satchel.config.options import OWN, PathPermission, file_to_read
from satchel.config.settings import Settings
from satchel.crypto.encryption import ENCRYPTED_SUFFIX, Lock, encrypted_outlet
from satchel.crypto.keys import SigningKey
from satchel.errors import (
    EmptyInputError,
    InputError,
    LossError,
    SatchelError,
    TargetError,
    TargetExistsError,
    UsageError,
)
from satchel.model.values import now, tool_version
from satchel.ports.format import Format, Location, ReadContext, Target, WriteContext, formats
from satchel.ports.record_set import RecordSet, Report
from satchel.receipts.archive import folder_of, save_receipts, signer
from satchel.receipts.comparison import (
    DeliveredRecords,
    Differences,
    ReadBackResult,
    WrittenOutput,
    read_again,
)
from satchel.receipts.receipt import (
    CARRIED,
    VERSION,
    ReceiptBody,
    Tally,
    TransferEnd,
    by_type,
    combine_counts,
    is_accepted,
    lost_in,
    notes_in,
    receipt_of,
    receipt_text,
    receipts_in,
    refusals_in,
    tallied,
    trim_of,
    unaccepted,
    unchanged,
)
from satchel.runtime.files import OpenFile, file_digest
from satchel.runtime.output import Outlet
from satchel.screening.records import SecretScreener
from satchel.transfer.sidecars import SUFFIX, Output, SidecarBuilder, SidecarFormat, head_of
from satchel.transfer.verification import read_back


class _TrialTarget(Target):
    """A target with the same name that discards its bytes."""

    @contextmanager
    def open(self) -> Iterator[BinaryIO]:
        with _NullStream() as stream:
            yield cast("BinaryIO", stream)


class _NullStream(RawIOBase):
    """A stream that discards its bytes."""

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        return memoryview(data).nbytes


def chosen_format(
    output: Path, name: str | None = None, *, otherwise: str | None = None
) -> tuple[str, Format]:
    """Return the format to write: the named one, or by the suffix of the output.

    Args:
        output: Path of the output.
        name: Name of the format.
        otherwise: Name of the format for an unknown suffix; None to refuse it.

    Raises:
        UsageError: If it cannot be determined or written.
        UnknownFormatError: If there is no such format.
    """
    name = name or formats.by_suffix(output.name) or otherwise
    if name is None:
        raise UsageError(
            "the output's name does not show its format",
            file=str(output),
            hint="Use --to, or a name that ends in .pam.jsonl, .pam or .pam.cbor.",
        )
    chosen = formats[name]
    if not chosen.info.traits.writes:
        raise UsageError(f"{name} can be read, but not written")
    return name, chosen


def is_own(name: str) -> bool:
    """Return whether a format is an encoding of an artifact, which can hold a whole bank."""
    return formats[name].info.traits.sealed and name != "pam_sdk"


def trial_losses(writer: Format, records: RecordSet, output: Path, writing: WriteContext) -> Report:
    """Return a report of what writing would lose; nothing is written."""
    report = Report()
    trial = replace(writing, report=report)
    writer.write(records, _TrialTarget(output), trial)
    return report


def write(
    writer: Format,
    records: RecordSet,
    target: Target,
    writing: WriteContext,
    *,
    whole: bool,
    accepted: tuple[str, ...] = (),
) -> None:
    """Write records; with ``whole``, only if nothing would be lost, accepted losses aside.

    Raises:
        LossError: With ``whole``, if something would be lost.
        TargetError: If the output cannot be written. No partial file remains.
    """
    if whole:
        require_no_loss(trial_losses(writer, records, target.path, writing), target.path, accepted)
    writer.write(records, target, writing)


def require_no_loss(report: Report, output: Path, accepted: tuple[str, ...] = ()) -> None:
    """Require that nothing would be lost, accepted losses aside.

    Raises:
        LossError: If something would be lost.
    """
    lost = [loss for loss in report.losses.values() if not is_accepted(loss.name, accepted)]
    if lost:
        fields = sorted({loss.name for loss in lost})
        raise LossError(
            f"{sum(loss.count for loss in lost)} values would be lost: {', '.join(fields)}",
            file=str(output),
            hint="Drop --fail-on-loss to write what the format can hold.",
        )


_MOST_NAMED = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer:
    """An outgoing transfer, before anything is written."""

    settings: Settings
    kind: Literal["export", "convert"]
    began: str
    input: TransferEnd
    format: str
    """Format of the output."""

    report: Report
    accepted: tuple[str, ...]
    fail_on_loss: bool = False
    verdict: str | None = None
    screening: SecretScreener | None = None
    key: SigningKey | None = None
    """Key that signs the receipt; by default the writer key of this machine."""

    copy: Path | None = None
    """File for a copy of the receipt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputJob(Transfer):
    """An outgoing transfer to a file."""

    outlet: Outlet
    """The output."""

    writer: Format
    sidecar: Outlet | None = None
    """The sidecar for what the format cannot hold; None for none."""

    replaces: bool = False
    """Whether an existing sidecar may be replaced."""

    @property
    def output(self) -> Path:
        """Path of the output."""
        return self.outlet.path

    @property
    def called(self) -> str:
        """Name of the output in receipts."""
        return receipt_text(self.outlet.called or str(self.output))


@dataclass(frozen=True, slots=True)
class Sidecar:
    """A written sidecar, before it is renamed to its final name."""

    end: TransferEnd
    known: frozenset[tuple[str, str]]
    """Losses that are not due to the format: those reported before it was written."""

    digest: str
    """Format of the output."""

    report: Report
    """Counts of what only the sidecar holds."""

    def over(self, job: OutputJob, stack: ExitStack) -> SidecarFormat:
        """Return the format that reads the output with this sidecar; the caller closes it."""
        assert job.sidecar is not None  # noqa: S101 - it was written there
        file = stack.enter_context(job.sidecar.written())
        return SidecarFormat(job.writer, job.format, file, self.end.name, self.digest)

    def keep_losses(self, report: Report) -> None:
        """Move the losses of the format from a report to this sidecar's."""
        for name in report.losses.keys() - self.known:
            self.report.losses[name] = report.losses.pop(name)
        if self.report.total:
            report.note(f"in the sidecar {self.end.name}: {loss_summary(self.report)}")


def loss_summary(report: Report) -> str:
    """Return the fields in a report with their counts, as text."""
    counts = Counter[str]()
    for loss in report.losses.values():
        counts[receipt_text(loss.name)] += loss.count
    named = [f"{name} ({number:,})" for name, number in sorted(counts.items())]
    rest = len(named) - _MOST_NAMED
    return ", ".join(named[:_MOST_NAMED]) + (f" and {rest} more" if rest > 0 else "")


class OutputCheck(NamedTuple):
    """Result of reading an output back."""

    word: Literal["equal", "verified", "differs"]
    planned: Tally
    records: Mapping[str, int]
    """Number of records read back, by type."""

    differences: Differences
    sidecar: Sidecar | None = None


def compare_output(
    job: OutputJob, records: RecordSet, writing: WriteContext, sidecar: Sidecar | None = None
) -> OutputCheck:
    """Read an output back, and count differences from the plan in the job's report.

    A sealed output that holds everything was verified, which is stronger than a comparison. An
    output with a sidecar is read with it, as an import does.

    Raises:
        TargetError: If it cannot be read; it is removed then.
        LossError: With ``fail_on_loss``, if something was lost; the output is removed then.
    """
    planned = tallied(records, trim_of(job.writer, writing))
    if is_verified_by_seal(job.writer):
        return OutputCheck("verified", planned, by_type(records, CARRIED), Differences())
    try:
        comparison = read_back_output(job, records, writing, job.outlet.written, sidecar)
    except TargetError:
        job.outlet.remove()
        raise
    if sidecar is not None and not comparison.differences:
        sidecar.keep_losses(job.report)
    comparison.differences.into(job.report)
    if job.fail_on_loss and unaccepted(job.report, job.accepted):
        job.outlet.remove()
        fields = sorted({loss.name for loss in job.report.losses.values()})
        raise LossError(
            f"on reading back, the output lacks: {', '.join(fields)}; it was removed",
            file=str(job.output),
            hint="Drop --fail-on-loss to write what the format can hold.",
        )
    word: Literal["equal", "differs"] = "differs" if comparison.differences else "equal"
    return OutputCheck(word, planned, comparison.records, comparison.differences, sidecar)


def is_verified_by_seal(writer: Format) -> bool:
    """Return whether the seal of an output covers everything that was written."""
    return writer.info.traits.sealed and writer.info.traits.exact


def read_back_output(
    job: OutputJob,
    records: RecordSet,
    writing: WriteContext,
    written: Callable[[], OpenFile],
    sidecar: Sidecar | None = None,
) -> ReadBackResult:
    """Read what was written, and compare it with the plan.

    Raises:
        TargetError: If it cannot be read, or has no records.
    """
    limits, sent = job.settings.options.limits, None
    if writing.vectors is not None and writing.embeddings:
        sent = writing.vectors.sent
    try:
        with ExitStack() as stack:
            file = stack.enter_context(written())
            adapter, trim = job.writer, trim_of(job.writer, writing)
            if sidecar is not None:
                trim = unchanged
                adapter = stack.enter_context(closing(sidecar.over(job, stack)))
            location = Location(file.path, held=file)
            output = WrittenOutput(
                job.format, adapter, location, limits, trim, sent, writing.around
            )
            comparison = read_again(output, records)
    except EmptyInputError as error:
        raise empty_output_error(job) from error
    except InputError as error:
        raise TargetError(
            f"the output cannot be read back: {error.message}; it was removed",
            file=str(job.output),
        ) from error
    if not comparison.records:
        raise empty_output_error(job)
    return comparison


def empty_output_error(job: OutputJob) -> TargetError:
    """Return the error for an output without records, which the caller removes."""
    return TargetError(
        f"the format {job.format} cannot hold any of these records; nothing was written",
        file=str(job.output),
        hint="Choose another format: satchel formats.",
    )


def compare_handed(
    transfer: Transfer, delivered: DeliveredRecords, records: RecordSet
) -> OutputCheck:
    """Read a live product back, and count differences from the plan in the report.

    Raises:
        TargetError: If it cannot be read.
    """
    limits, name = transfer.settings.options.limits, delivered.info.title
    try:
        written = WrittenOutput(transfer.format, delivered, Location(Path(name)), limits)
        comparison = read_again(written, records)
    except InputError as error:
        raise TargetError(
            f"the output cannot be read back: {error.message}", file=error.file
        ) from error
    comparison.differences.into(transfer.report)
    word: Literal["equal", "differs"] = "differs" if comparison.differences else "equal"
    return OutputCheck(word, tallied(records), comparison.records, comparison.differences)


def account_of_output(
    transfer: Transfer, output: TransferEnd, check: OutputCheck, *, signed_by: str | None = None
) -> ReceiptBody:
    """Return the body of the receipt of an outgoing transfer.

    Args:
        transfer: The transfer.
        output: The output as written.
        check: Result of reading it back.
        signed_by: Key that signed the output.
    """
    report, screening = transfer.report, transfer.screening
    carried = {name: number for name, number in check.planned.records.items() if name in CARRIED}
    lost = Counter[str]()
    for loss in report.losses.values():
        lost[loss.name] += loss.count
    written = {name: max(0, number - lost[name]) for name, number in carried.items()}
    preserved = Counter(check.planned.kept) - check.differences.members
    return ReceiptBody(
        version=VERSION,
        kind=transfer.kind,
        tool=tool_version(),
        began=transfer.began,
        ended=now(),
        input=transfer.input,
        output=output,
        counts=combine_counts(carried, carried, written, check.records),
        verdict=transfer.verdict,
        read_back=check.word,
        sidecar=check.sidecar.end if check.sidecar else None,
        beside=lost_in(check.sidecar.report, ()) if check.sidecar else [],
        kept=dict(sorted(preserved.items())),
        added=dict(sorted(check.differences.added.items())[:100]),
        lost=lost_in(report, transfer.accepted),
        refused=report.left_out,
        refusals=refusals_in(report),
        accepted=[receipt_text(one) for one in transfer.accepted],
        secrets=screening.found if screening else {},
        secrets_kept=screening.kept if screening else 0,
        signed_by=signed_by,
        notes=notes_in(report),
    )


ResultT = TypeVar("ResultT", bound=msgspec.Struct)


def with_report(result: ResultT, transfer: Transfer) -> ResultT:
    """Return the result of a transfer with the losses and notes of its report."""
    report = transfer.report
    return msgspec.structs.replace(
        result,
        losses=list(report.losses.values()),
        notes=list(report.notes),
        unaccepted=unaccepted(report, transfer.accepted),
    )


def with_receipt(
    result: ResultT, transfer: Transfer, account: ReceiptBody, *, stores: bool = True
) -> ResultT:
    """Sign and store the receipt of a transfer; return the result with its ID and body.

    If it cannot be stored, the result names the problem: the output is written already.

    Args:
        result: The result of the transfer.
        transfer: The transfer.
        account: Body of the receipt.
        stores: Whether this transfer stores a receipt; False if it is a step of another.
    """
    if not stores:
        return msgspec.structs.replace(result, account=account)
    receipt = receipt_of(account, signer(transfer.settings, transfer.key))
    ids, problems = save_receipts(transfer.settings, [receipt], transfer.copy)
    return msgspec.structs.replace(
        result,
        receipt=ids[0] if ids else None,
        receipt_problem=problems[0] if problems else None,
        account=account,
    )


_NEEDLESS = "the format can hold everything: no sidecar was written"
_MOST_BESIDE = 1000
"""Maximum number of files that are searched for the sidecar of a renamed file."""


def name_for(output: Path, *, encrypted: bool) -> str:
    """Return the name of the sidecar of an output."""
    bare = output.name.removesuffix(ENCRYPTED_SUFFIX)
    return f"{bare}{SUFFIX}{ENCRYPTED_SUFFIX}" if encrypted else f"{output.name}{SUFFIX}"


def sidecar_outlet(outlet: Outlet, lock: Lock) -> Outlet:
    """Return the outlet for the sidecar of an output, encrypted to the same recipients."""
    return encrypted_outlet(outlet.sibling(name_for(outlet.path, encrypted=lock.is_set)), lock)


def refuse_other(outlet: Outlet, writer: Format, *, with_sidecar: bool, overwrite: bool) -> None:
    """Refuse an output if a sidecar of that name exists, which would belong to another file.

    Raises:
        TargetExistsError: If there is one, and it may not be replaced.
    """
    if overwrite or (with_sidecar and writer.info.traits.within):
        return
    for name in _names(outlet.path):
        with outlet.sibling(name) as sibling:
            if sibling.status is not None:
                raise TargetExistsError(
                    "the sidecar already exists",
                    file=str(sibling),
                    hint="Use --overwrite (overwrite=True) to replace both.",
                )


def write_sidecar(
    job: OutputJob,
    outlet: Outlet,
    records: RecordSet,
    writing: WriteContext,
    known: frozenset[tuple[str, str]],
) -> Sidecar | None:
    """Write the sidecar of an output; None if the output holds everything.

    Args:
        job: The transfer.
        outlet: The sidecar.
        records: The records of the transfer.
        writing: Context in which the output was written.
        known: Losses before anything was written.

    Raises:
        TargetError: If it cannot be written.
        InputError: If what was written cannot be read.
    """
    limits, writer = job.settings.options.limits, job.writer
    if writer.info.traits.sealed and writer.info.traits.exact:
        job.report.note(_NEEDLESS)
        return None
    with job.outlet.written() as file:
        digest, size = file_digest(file)
        reading = ReadContext(limits=limits, only_ours=writing.around)
        items = writer.read(Location(file.path, held=file), reading)
        try:
            builder = SidecarBuilder(records, items, keeps_ids=writer.info.traits.keeps_ids)
        except EmptyInputError as error:
            job.outlet.remove()
            raise empty_output_error(job) from error
        with closing(builder):
            if not builder.is_needed:
                job.report.note(_NEEDLESS)
                return None
            replaces = job.replaces or writer.info.traits.within
            with outlet.writing(overwrite=replaces) as sink:
                builder.write(sink, job.format, Output(digest=digest, bytes=size))
    with outlet.stored() as file:
        sidecar_digest, length = file_digest(file)
    end = TransferEnd(name=receipt_text(str(outlet.path)), digest=sidecar_digest, bytes=length)
    return Sidecar(end, known, digest, Report())


def remove_stale(job: OutputJob) -> None:
    """Remove the sidecar of a replaced file: it would be read as that of the new file."""
    if not job.replaces:
        return
    for name in _names(job.outlet.path):
        with job.outlet.sibling(name) as sibling:
            if sibling.status is not None:
                sibling.remove()
                job.report.note(
                    f"the sidecar of the previous file was removed: {receipt_text(name)}"
                )


@contextmanager
def open_sidecar(
    settings: Settings, source: Path, named: Path | OpenFile | None, digest: str
) -> Iterator[OpenFile | None]:
    """Open the sidecar of an input, decrypted if necessary; None if there is none.

    Args:
        settings: Settings with the allowed paths.
        source: The input.
        named: The sidecar; by default it is searched next to the input, by its name and by the
            digest in it.
        digest: Digest of the input.

    Raises:
        SatchelError: If a named sidecar, or one with the expected name, cannot be read.
    """
    folder = source.absolute().parent
    # The caller named the input, not this file: links are not followed.
    permission = OWN if named else PathPermission(allowed_roots=[folder.resolve()])
    path = named or _beside(settings, folder.resolve() / source.name, digest)
    if path is None:
        yield None
        return
    with file_to_read(settings, path, permission) as file:
        yield file


def _beside(settings: Settings, source: Path, digest: str) -> Path | None:
    for name in _names(source):
        path = source.with_name(name)
        if path.is_symlink() or path.exists():
            return path
    others = islice(source.parent.glob(f"*{SUFFIX}"), _MOST_BESIDE)
    return next((one for one in sorted(others) if _is_of(settings, one, digest)), None)


def was_written_with_one(settings: Settings, digest: str) -> bool:
    """Return whether a stored receipt says that a file was written with a sidecar."""
    folder = folder_of(settings)
    if not folder.is_dir():
        return False
    newest = sorted(folder.glob("*.json"), reverse=True)[:_MOST_BESIDE]
    return any(_says_so(path, digest) for path in newest)


def _says_so(path: Path, digest: str) -> bool:
    with suppress(SatchelError, OSError):
        if digest.encode() in path.read_bytes():
            accounts = [account for _, account in receipts_in(path)]
            return any(
                one is not None and one.output.digest == digest and one.sidecar for one in accounts
            )
    return False


def _is_of(settings: Settings, path: Path, digest: str) -> bool:
    try:
        with file_to_read(settings, path, PathPermission(allowed_roots=[path.parent])) as file:
            return head_of(file).output.digest == digest
    except SatchelError:
        return False


def _names(output: Path) -> dict[str, None]:
    """Return the possible names of the sidecar of a file."""
    both = (name_for(output, encrypted=one) for one in (False, True))
    bare = output.with_name(output.name.removesuffix(ENCRYPTED_SUFFIX) or output.name)
    return dict.fromkeys([*both, name_for(bare, encrypted=False)])


class OutputVerification(NamedTuple):
    """How to verify a sealed output."""

    policy: TrustPolicy
    request: VerificationRequest
    known: Outcome | None = None
    """Outcome for the same seal before it was written again."""


class OutputResult(NamedTuple):
    """A written and verified output."""

    end: TransferEnd
    check: OutputCheck
    verdict: str | None
    """Outcome of the verification of a sealed output."""


def write_output(
    job: OutputJob,
    records: RecordSet,
    writing: WriteContext,
    judging: OutputVerification,
    *,
    overwrite: bool,
    check_input: Callable[[], None] | None = None,
) -> OutputResult:
    """Write records, read them back, and only then rename the output to its final name.

    Args:
        job: The transfer; losses are added to its report.
        records: The records.
        writing: Context of writing.
        judging: How to verify a sealed output.
        overwrite: Replace an existing file.
        check_input: Raises an error if the input changed during the run.

    Raises:
        TargetError: If it cannot be written, or reads back differently. An existing file is kept.
        LossError: With ``fail_on_loss``, if something would be lost.
    """
    outlet, beside = job.outlet, job.sidecar
    whole = job.fail_on_loss and beside is None
    target = Target(outlet.path, overwrite=overwrite, outlet=outlet)
    known = frozenset(job.report.losses)
    with (
        outlet.defer_publication(),
        nullcontext() if beside is None else beside.defer_publication(),
    ):
        write(job.writer, records, target, writing, whole=whole, accepted=job.accepted)
        if check_input is not None:
            check_input()
        verdict = read_back(outlet, job.writer, *judging)
        sidecar = None if beside is None else write_sidecar(job, beside, records, writing, known)
        check = compare_output(job, records, writing, sidecar)
        with outlet.stored() as file:
            digest, size = file_digest(file)
    if sidecar is None:
        remove_stale(job)
    if outlet.kept is not None:
        job.report.note(f"the previous file was renamed to {receipt_text(outlet.kept.name)}")
    end = TransferEnd(
        name=job.called,
        format=job.format,
        digest=digest,
        bytes=size,
        records=sum(check.records.values()),
    )
    return OutputResult(end, check, verdict)


def with_output(
    result: ResultT,
    job: OutputJob,
    written: OutputResult,
    *,
    signed_by: str | None,
    stores: bool = True,
) -> ResultT:
    """Return the result of a written transfer, after its receipt was signed and stored.

    Args:
        result: The result before anything was written.
        job: The transfer.
        written: The output.
        signed_by: Key that signed the output.
        stores: As for ``with_receipt``.
    """
    account = account_of_output(job, written.end, written.check, signed_by=signed_by)
    return msgspec.structs.replace(
        with_receipt(with_report(result, job), job, account, stores=stores),
        output_digest=written.end.digest,
        output_bytes=written.end.bytes,
        sidecar=account.sidecar.name if account.sidecar else None,
        signed_by=signed_by,
        read_back=written.verdict,
    )
