"""Convert memory from one format to another: records are sealed in between and read back."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from satchel.artifact.body import Progress, SourceAgent
from satchel.artifact.encodings import ArtifactBuilder, Header
from satchel.artifact.verification import Outcome, Verification
from satchel.bank.machine_keys import lock_for, signer_of
from satchel.config.options import (
    THIS_MACHINE,
    AgentName,
    DryRun,
    EncryptionOptions,
    FailOnLoss,
    IgnoreSidecar,
    LossOptions,
    Overwrite,
    SigningOptions,
    SkipBad,
    TextMember,
    TrustOptions,
    Unsigned,
    WithSidecar,
    file_to_write,
)
from satchel.config.settings import Settings
from satchel.crypto import keys
from satchel.crypto.encryption import NOBODY, Lock, encrypted_outlet
from satchel.crypto.json_reader import float_spellings
from satchel.crypto.keys import SigningKey
from satchel.crypto.sealed_records import Sealed, seal
from satchel.errors import EmptyInputError, UnreadableError, UsageError
from satchel.model.records import Source
from satchel.model.values import TrustClass, now
from satchel.ports.drafts import read_with_drafts
from satchel.ports.format import Format, Location, ReadContext, WriteContext, formats
from satchel.ports.operations import Option, PathText, operation, texts
from satchel.ports.record_set import Loss, RecordSet, RefusedRecord, Report, open_record_set
from satchel.receipts.archive import refuse_copy, require_whole
from satchel.receipts.receipt import (
    CARRIED,
    EmptyTexts,
    ReceiptBody,
    RecordCounter,
    TransferEnd,
    TransferPlan,
    by_type,
    receipt_text,
)
from satchel.runtime.files import OpenFile, file_digest
from satchel.runtime.output import Outlet, refuse_existing
from satchel.transfer.dry_run import plan_output
from satchel.transfer.folders import input_to_read, output_for
from satchel.transfer.outputs import (
    OutputJob,
    OutputVerification,
    chosen_format,
    is_own,
    refuse_other,
    sidecar_outlet,
    with_output,
    with_report,
    write_output,
)
from satchel.transfer.outputs import open_sidecar as found_beside
from satchel.transfer.sidecars import SidecarFormat
from satchel.transfer.verification import (
    NEVER,
    FileSource,
    From,
    OnBytes,
    VerifyOptions,
    policy_of,
    refusal,
    request_of,
    require_trust,
    verify,
)

PROFILES = {"pam-sdk-1.0": "pam_sdk"}
"""Formats by the names of profiles."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertOptions:
    """Options of a conversion."""

    source_format: str | None = None
    """Recognized by default."""

    target_format: str | None = None
    """By the output's name by default."""

    profile: str | None = None
    key: SigningKey | None = None
    """Signs a new artifact; None writes it unsigned."""

    lock: Lock = NOBODY
    """Recipients that the output is encrypted to; none means unencrypted."""

    overwrite: bool = False
    skip_bad: bool = False
    """Skip records that are malformed or too large; they are counted and named."""

    text_member: str | None = None
    """Member of a row that is its text, if the reader does not know it."""

    fail_on_loss: bool = False
    accept_loss: tuple[str, ...] = ()
    """Fields that may be lost; ``all`` for any."""

    receipt: Path | None = None
    """File for a copy of the receipt; it must not exist."""

    sidecar: bool = False
    """Write what the format cannot hold to a file next to the output."""

    ignore_sidecar: bool = False
    """Ignore the sidecar of the input."""

    dry_run: bool = False
    """Report what would be written and lost, and write nothing."""

    unsafe_accept: frozenset[Outcome] = field(default_factory=frozenset)
    """Outcomes of the verification of a sealed input that are accepted."""

    source_agent: SourceAgent | None = None
    trusted_keys: tuple[str, ...] = ()
    on_progress: Progress | None = None
    """Called with the number of bytes read and the total; starts again for each pass."""


class Conversion(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Result of a conversion."""

    input: str
    output: str
    source_format: str
    target_format: str
    input_digest: str
    input_bytes: int
    records: dict[str, int]
    """Number of objects in each section, as read."""

    losses: list[Loss]
    notes: list[str]
    refused: list[RefusedRecord] = []
    """Malformed records that were skipped, with their positions; the first thousand."""

    output_digest: str | None = None
    output_bytes: int | None = None
    sidecar: str | None = None
    """The file next to the output that holds what its format cannot."""

    same_seal: bool = False
    """Whether the statement and its signatures were kept."""

    source_outcome: str | None = None
    """Outcome of the verification of a sealed input."""

    signed_by: str | None = None
    read_back: str | None = None
    """Outcome of the verification of a sealed output, read back from the disk."""

    dry_run: bool = False
    plan: TransferPlan | None = None
    """What would be done; of a dry run only."""

    receipt: str | None = None
    """ID of the receipt; ``satchel receipt show`` prints it."""

    receipt_problem: str | None = None
    """Why this machine could not store the receipt; the output is complete all the same."""

    account: ReceiptBody | None = None
    """Body of the receipt."""

    unaccepted: int = 0
    """Number of values lost, or that would be lost, without being accepted."""

    @property
    def lost(self) -> int:
        """Number of values that were lost."""
        return sum(loss.count for loss in self.losses)


def convert(
    source: Path | OpenFile,
    output: Path | Outlet,
    settings: Settings,
    options: ConvertOptions | None = None,
) -> Conversion:
    """Convert one file to another format.

    A sealed input is verified first. Between encodings of an artifact, the seal is kept; otherwise
    an artifact is sealed. The output is read back before this returns.

    Raises:
        PathRefusedError: If roots are set, and a path leads out of them.
        InputError: If the input cannot be read, is malformed or empty.
        VerificationError: If a sealed input does not verify.
        TargetError: If the output cannot be written. No partial file remains.
        LossError: With ``fail_on_loss``, if something would be lost.
        ShortInputError: If the input is incomplete by its own count, and that was not accepted.
        UsageError: If a format cannot be determined.
    """
    with input_to_read(settings, source) as file, file_to_write(settings, output) as outlet:
        return _converted(file, outlet, settings, options or ConvertOptions())


def _converted(
    file: OpenFile, outlet: Outlet, settings: Settings, options: ConvertOptions
) -> Conversion:
    output = outlet.path
    location = Location(file.path, options.on_progress, file)
    source_name = options.source_format or formats.recognize(location)
    target_name, writer = _target(output, options)
    outlet = output_for(encrypted_outlet(outlet, options.lock), writer, options.lock)
    _refuse_same(file, outlet)
    if not options.dry_run:
        refuse_existing(outlet, overwrite=options.overwrite)
        refuse_other(outlet, writer, with_sidecar=options.sidecar, overwrite=options.overwrite)
        refuse_copy(settings, options.receipt, file.path, output)
    (before, size), began = file_digest(file), now()
    if size == 0:
        raise EmptyInputError("the file is empty", file=location.name)
    report, census = Report(), RecordCounter(texts=options.dry_run)
    with ExitStack() as held:
        held.enter_context(census.timed())
        reading = ReadContext(
            limits=settings.options.limits,
            report=report,
            skip_bad=options.skip_bad,
            text_member=options.text_member,
            requires_content=is_own(target_name),
        )
        source = _records(location, source_name, before, settings, options, reading)
        records, verdict, deep = held.enter_context(source)
        if not is_own(target_name):
            records.without_redactions(report)
        keep = records.sealed is not None and is_own(target_name)
        writing = WriteContext(
            limits=settings.options.limits,
            report=report,
            keys=(options.key,) if options.key else (),
            header=Header(source_agent=options.source_agent),
            compress=output.name.removesuffix(".age").endswith(".gz"),
            before=outlet.before,
            replacing=options.overwrite,
        )
        if verdict is not None and not keep:
            require_trust(verdict, options.unsafe_accept, location.name)
        job = OutputJob(
            settings=settings,
            kind="convert",
            began=began,
            input=TransferEnd(
                name=receipt_text(location.name),
                format=source_name,
                digest=before,
                bytes=size,
                records=sum(by_type(records, CARRIED).values()),
            ),
            outlet=outlet,
            format=target_name,
            writer=writer,
            sidecar=held.enter_context(sidecar_outlet(outlet, options.lock))
            if options.sidecar
            else None,
            replaces=options.overwrite,
            report=report,
            accepted=options.accept_loss,
            fail_on_loss=options.fail_on_loss,
            verdict=verdict.outcome.value if verdict else None,
            key=options.key,
            copy=options.receipt,
        )
        result = Conversion(
            input=location.name,
            output=str(output),
            source_format=source_name,
            target_format=target_name,
            input_digest=before,
            input_bytes=size,
            records=records.counts,
            losses=[],
            notes=[],
            refused=report.refused,
            same_seal=keep,
            source_outcome=job.verdict,
            dry_run=options.dry_run,
        )
        if options.dry_run:
            plan = plan_output(job, records, writing, census)
            return msgspec.structs.replace(with_report(result, job), plan=plan)
        judging = OutputVerification(
            policy_of(settings, VerifyOptions(keys=options.trusted_keys)),
            request_of(settings, VerifyOptions(deep=deep, on_progress=options.on_progress)),
            verdict.outcome if verdict else None,
        )
        written = write_output(
            job,
            records,
            writing,
            judging,
            overwrite=options.overwrite,
            check_input=lambda: _require_unchanged(file, before),
        )
    signed_by = options.key.did if options.key and writer.info.traits.sealed and not keep else None
    return with_output(result, job, written, signed_by=signed_by)


def _require_unchanged(source: OpenFile, before: str) -> None:
    if file_digest(source)[0] != before:
        raise UnreadableError(
            "the file changed while it was being read; nothing was written",
            file=str(source),
            hint="Run again when no other program writes to it.",
        )


def _target(output: Path, options: ConvertOptions) -> tuple[str, Format]:
    name = options.target_format
    if options.profile is not None:
        if options.profile not in PROFILES:
            raise UsageError(
                f"unknown profile {options.profile!r}", hint=f"Known: {', '.join(PROFILES)}."
            )
        name = PROFILES[options.profile]
    return chosen_format(output, name)


def _refuse_same(file: OpenFile, outlet: Outlet) -> None:
    if outlet.is_same(file):
        raise UsageError("input and output are the same file", file=str(file))


@contextmanager
def _records(
    location: Location,
    name: str,
    digest: str,
    settings: Settings,
    options: ConvertOptions,
    reading: ReadContext,
) -> Iterator[tuple[RecordSet, Verification | None, bool]]:
    """Provide the input as sealed records: verified if it was sealed, sealed otherwise.

    Yields the records, the verification, and whether references between the records are still to be
    verified. For an artifact, rows without text are handled as in an import: they would become
    memories.
    """
    reader, limits, verdict = formats[name], settings.options.limits, None
    if reader.info.traits.sealed:
        verify_options = VerifyOptions(
            deep=True, keys=options.trusted_keys, on_progress=options.on_progress
        )
        verdict = verify(location.file, settings, verify_options)
        if verdict.outcome in NEVER:
            raise refusal(verdict, location.name)
    if reader.info.traits.sealed and name != PROFILES["pam-sdk-1.0"]:
        with open_record_set(location.file, limits) as records:
            yield records, verdict, True
        return
    with ExitStack() as held:
        builder = held.enter_context(ArtifactBuilder())
        report = reading.report
        empty = EmptyTexts(report)
        if not options.ignore_sidecar:
            sidecar = held.enter_context(found_beside(settings, location.path, None, digest))
            if sidecar is not None:
                called = receipt_text(str(sidecar.path))
                restoring = SidecarFormat(reader, name, sidecar, called, digest)
                held.callback(restoring.close)
                reader = restoring
        for record, draft in read_with_drafts(reader, location, reading):
            builder.add(record)
            if reading.requires_content:
                empty.see(record.id, draft)
        empty.end()
        if builder.records == 0:
            hint = report.first_refused
            raise EmptyInputError("the file contains no memories", file=location.name, hint=hint)
        if isinstance(reader, SidecarFormat):
            report.note(reader.note)
        require_whole(reading, options.accept_loss, location.name)
        builder.add(_source_record(name, digest, reading))
        deep = verdict is not None or builder.refers
        yield RecordSet(*builder.finish(limits)), verdict, deep


def _source_record(name: str, digest: str, reading: ReadContext) -> Sealed:
    return seal(
        Source(
            at=now(),
            provider=name,
            format=name,
            digest=digest,
            container=reading.container | float_spellings(reading.container),
            trust=TrustClass.IMPORTED,
        )
    )


@dataclass(frozen=True, slots=True)
class ConvertRequest(SigningOptions, EncryptionOptions, LossOptions, TrustOptions):
    """What to convert, and how."""

    source: Annotated[
        PathText, Option("File to read; - for standard input.", argument=True, metavar="IN")
    ]
    output: Annotated[
        PathText, Option("File to write; - for standard output.", argument=True, metavar="OUT")
    ]
    _: KW_ONLY
    from_: From = None
    to: Annotated[
        str | None,
        Option(
            "Format to write. Default: by the file name.",
            metavar="FORMAT",
            values="format",
        ),
    ] = None
    profile: Annotated[
        Literal["pam-sdk-1.0"] | None, Option("Write for the reader of this profile.")
    ] = None
    unsigned: Unsigned = False
    agent: AgentName = None
    overwrite: Overwrite = False
    fail_on_loss: FailOnLoss = False
    skip_bad: SkipBad = False
    text_member: TextMember = None
    sidecar: WithSidecar = False
    ignore_sidecar: IgnoreSidecar = False
    dry_run: DryRun = False
    progress: OnBytes = None


@operation(
    ConvertRequest,
    name="convert",
    example="satchel convert mem0.json memory.pam.jsonl",
    absent={"http": THIS_MACHINE, "mcp": THIS_MACHINE},
)
def convert_file(source: FileSource, options: ConvertRequest) -> Conversion:
    """Convert memories from one format to another.

    A new artifact (.pam.jsonl, .pam, .pam.cbor, each also as .gz) is sealed and signed; between
    these three the seal is kept. The output is read back and compared. What the target
    cannot hold is counted and named; exit status 1, unless `--accept-loss` names it.

    Raises:
        InputError: If the input cannot be read or is malformed.
        VerificationError: If it is sealed, and does not verify.
        LossError: With ``fail_on_loss``, if something would be lost.
        TargetError: If the output cannot be written. No partial file remains.
    """
    result = convert(
        source.file or Path(options.source),
        source.output or Path(options.output),
        source.settings,
        ConvertOptions(
            source_format=options.from_,
            target_format=options.to,
            profile=options.profile,
            key=_key(source, options),
            lock=lock_for(source.settings, texts(options.encrypt_to), options.file_passphrase),
            overwrite=options.overwrite,
            fail_on_loss=options.fail_on_loss,
            skip_bad=options.skip_bad,
            text_member=options.text_member,
            accept_loss=texts(options.accept_loss),
            sidecar=options.sidecar,
            ignore_sidecar=options.ignore_sidecar,
            receipt=None if options.receipt is None else Path(options.receipt),
            dry_run=options.dry_run,
            unsafe_accept=frozenset(map(Outcome, texts(options.unsafe_accept))),
            source_agent=SourceAgent(name=options.agent) if options.agent else None,
            trusted_keys=texts(options.trusted_keys),
            on_progress=options.progress,
        ),
    )
    if source.output is None:
        return result
    return msgspec.structs.replace(result, output=str(options.output))


def _key(source: FileSource, options: ConvertRequest) -> keys.SigningKey | None:
    """Return the key to sign with, if the target is a sealed format."""
    output = Path(options.output).name
    target = PROFILES.get(options.profile or "") or options.to or formats.by_suffix(output)
    is_sealed = target in formats and formats[target].info.traits.sealed if target else False
    if options.unsigned or options.dry_run or not is_sealed:
        return None
    if source.key is not None:
        return source.key(options.signing_key)
    return signer_of(source.settings, options)
