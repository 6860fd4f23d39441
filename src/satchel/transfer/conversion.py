"""Converting memory from one format to another, sealed on the way, read back at the end."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec

from satchel.artifact.body import Progress
from satchel.artifact.encodings import ArtifactBuilder, Header
from satchel.artifact.statement import SourceAgent
from satchel.artifact.verification import Outcome, TrustPolicy, Verification
from satchel.artifact.verifier import VerificationRequest, verify_file
from satchel.bank.signing_keys import read_public_key
from satchel.config.options import file_to_read, file_to_write
from satchel.config.settings import Settings
from satchel.crypto.encryption import NOBODY, Lock, encrypted_outlet
from satchel.crypto.json_reader import float_spellings
from satchel.crypto.keys import SigningKey
from satchel.crypto.sealed_records import Sealed, seal
from satchel.errors import (
    EmptyInputError,
    MalformedError,
    UnreadableError,
    UsageError,
    VerificationError,
)
from satchel.model.records import Source
from satchel.model.values import TrustClass, now
from satchel.ports.drafts import read_with_drafts
from satchel.ports.format import Format, Place, ReadContext, WriteContext
from satchel.ports.losses import Loss, RefusedRecord, Report
from satchel.ports.record_set import RecordSet, open_record_set
from satchel.ports.registry import formats
from satchel.receipts.account import EmptyTexts, ReceiptBody, TransferEnd, receipt_text, unaccepted
from satchel.receipts.archive import refuse_copy, require_whole
from satchel.receipts.census import RecordCounter
from satchel.receipts.plans import TransferPlan
from satchel.receipts.tally import CARRIED, by_type
from satchel.runtime.files import OpenFile
from satchel.runtime.output import Outlet, refuse_existing
from satchel.transfer.export_file import NEVER, chosen_format, digest_of, is_own
from satchel.transfer.folders import input_to_read, output_for
from satchel.transfer.output_files import (
    OutputVerification,
    refuse_other,
    sidecar_outlet,
    write_output,
)
from satchel.transfer.output_files import open_sidecar as found_beside
from satchel.transfer.outputs import OutputJob, account_of_output, keep_receipt, tried_plan
from satchel.transfer.sidecars import SidecarFormat


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyOptions:
    """How much to verify, and which keys to trust."""

    deep: bool = False
    require_fresh: bool = False
    entry: str | None = None
    keys: tuple[str, ...] = field(default_factory=tuple)
    """Keys to trust for this call: did:key, hex, or files."""

    threshold: int | None = None
    remember: bool = True
    """Whether the witness records how new the file is, to recognise an older one later."""

    on_progress: Progress | None = None


def verify(
    path: Path | OpenFile, settings: Settings, options: VerifyOptions | None = None
) -> Verification:
    """Verify a sealed file; problems are in the result.

    Raises:
        PathRefusedError: If roots are set, and the file is not in them.
        UnreadableError: If it cannot be read.
        UnknownFormatError: If it is no sealed file.
        UsageError: If the entry asked for is not in it.
    """
    asked = options or VerifyOptions()
    with file_to_read(settings, path) as file:
        return verify_file(file, policy_of(settings, asked), request_of(settings, asked))


def policy_of(settings: Settings, options: VerifyOptions) -> TrustPolicy:
    """Return which signatures are trusted."""
    keys = frozenset(read_public_key(key) for key in options.keys)
    policy = settings.policy(keys, options.threshold)
    return policy if options.remember else replace(policy, remembers=False)


def request_of(settings: Settings, options: VerifyOptions) -> VerificationRequest:
    """Return how much to verify."""
    return VerificationRequest(
        deep=options.deep,
        require_fresh=options.require_fresh or settings.options.verify.require_fresh,
        entry=options.entry,
        limits=settings.options.limits,
        on_progress=options.on_progress,
    )


def refusal(verdict: Verification, name: str) -> MalformedError | VerificationError:
    """Return the error for a file whose verdict cannot be accepted."""
    worst = next(found for found in verdict.findings if found.outcome is verdict.outcome)
    kind = MalformedError if verdict.outcome is Outcome.MALFORMED else VerificationError
    return kind(
        f"the file is {verdict.outcome}: {worst.message}",
        file=name,
        line=worst.line,
        byte=worst.byte,
        field=worst.field,
        hint="See: satchel verify --deep.",
    )


def trust_hint(verdict: Verification) -> str | None:
    """Return how to trust the signer of a file; None if no unknown key signed it."""
    if Outcome.UNTRUSTED not in verdict.outcomes:
        return None
    valid = [signer for signer in verdict.signers if signer.valid]
    unknown = [signer.key for signer in valid if signer.standing == "unknown"]
    if Outcome.ENTRIES_ONLY in verdict.outcomes and not valid:  # such a file names no key
        return how_to_trust("KEY --profile pam-sdk-1.0")
    return how_to_trust(unknown[0]) if unknown else None


def how_to_trust(key: str) -> str:
    """Return how to trust a key that signed something."""
    return f"To trust the signer, once its owner confirms the key: satchel key trust {key}"


PROFILES = {"pam-sdk-1.0": "pam_sdk"}
"""Profiles that choose a format by another name."""

_UNSAFE = frozenset({Outcome.UNSIGNED, Outcome.UNTRUSTED, Outcome.ENTRIES_ONLY, Outcome.INCOMPLETE})


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertOptions:
    """What a conversion is asked to do."""

    source_format: str | None = None
    """Recognised when not given."""

    target_format: str | None = None
    """From the output's name when not given."""

    profile: str | None = None
    key: SigningKey | None = None
    """Signs a new artifact; None writes it unsigned."""

    lock: Lock = NOBODY
    """Whom the output is encrypted to; nobody means in plain."""

    overwrite: bool = False
    skip_bad: bool = False
    """Leave out records that are malformed or too large, and count and name them."""

    text_member: str | None = None
    """The member of a row that is its text, where no reader knows it."""

    fail_on_loss: bool = False
    accept_loss: tuple[str, ...] = ()
    """Fields that may be lost; ``all`` for whatever there is."""

    receipt: Path | None = None
    """Where a copy of the receipt goes; it must not be there yet."""

    sidecar: bool = False
    """Write what the format cannot hold into a file beside the output."""

    ignore_sidecar: bool = False
    """Read the input without its sidecar, though there is one."""

    dry_run: bool = False
    """Say what would be written and lost, and write nothing."""

    unsafe_accept: frozenset[Outcome] = field(default_factory=frozenset)
    """Verdicts on a sealed input that are accepted."""

    source_agent: SourceAgent | None = None
    trusted_keys: tuple[str, ...] = ()
    on_progress: Progress | None = None
    """Called with bytes done and bytes there are, from the start again for each pass."""


class Conversion(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a conversion did."""

    input: str
    output: str
    source_format: str
    target_format: str
    input_digest: str
    input_bytes: int
    records: dict[str, int]
    """Objects in each section, as read."""

    losses: list[Loss]
    notes: list[str]
    refused: list[RefusedRecord] = []
    """Bad records that were left out, with their places; the first thousand."""

    output_digest: str | None = None
    output_bytes: int | None = None
    sidecar: str | None = None
    """The file beside the output that holds what its format cannot."""

    same_seal: bool = False
    """Whether the statement and its signatures were kept."""

    source_outcome: str | None = None
    """The verdict on a sealed input."""

    signed_by: str | None = None
    read_back: str | None = None
    """The verdict on a sealed output, read again from the disk."""

    dry_run: bool = False
    plan: TransferPlan | None = None
    """What would be done, of a dry run."""

    receipt: str | None = None
    """Id of the receipt; ``satchel receipt show`` prints it."""

    account: ReceiptBody | None = None
    """What the receipt says."""

    unaccepted: int = 0
    """How much was lost, or would be, that nobody said may be lost."""

    @property
    def lost(self) -> int:
        """How many things did not make it."""
        return sum(loss.count for loss in self.losses)


def convert(
    source: Path | OpenFile,
    output: Path | Outlet,
    settings: Settings,
    options: ConvertOptions | None = None,
) -> Conversion:
    """Convert one file to another format.

    A sealed input is verified first. Between the encodings of an artifact the seal is kept; into
    an artifact a new one is made; the output is read back before this returns.

    Raises:
        PathRefusedError: If roots are set, and a name leads out of them.
        InputError: If the input cannot be read, is malformed or empty.
        VerificationError: If a sealed input does not verify.
        TargetError: If the output cannot be written. No partial file remains.
        LossError: With ``fail_on_loss``, if something would not survive.
        ShortInputError: If the input says that it lacks something, and that was not accepted.
        UsageError: If the formats cannot be told.
    """
    with input_to_read(settings, source) as file, file_to_write(settings, output) as outlet:
        asked = options or ConvertOptions()
        return _converted(file, outlet, settings, asked)


def _converted(
    file: OpenFile, outlet: Outlet, settings: Settings, asked: ConvertOptions
) -> Conversion:
    output = outlet.path
    place = Place(file.path, asked.on_progress, file)
    source_name = asked.source_format or formats.recognise(place)
    target_name, writer = _target(output, asked)
    outlet = output_for(encrypted_outlet(outlet, asked.lock), writer, asked.lock)
    _refuse_same(file, outlet)
    if not asked.dry_run:
        refuse_existing(outlet, overwrite=asked.overwrite)
        refuse_other(outlet, writer, wanted=asked.sidecar, overwrite=asked.overwrite)
        refuse_copy(settings, asked.receipt, file.path, output)
    (before, size), began = digest_of(file), now()
    if size == 0:
        raise EmptyInputError("the file is empty", file=place.name)
    report, census = Report(), RecordCounter(texts=asked.dry_run)
    with ExitStack() as held:
        held.enter_context(census.timed())
        reading = ReadContext(
            limits=settings.options.limits,
            report=report,
            skip_bad=asked.skip_bad,
            text_member=asked.text_member,
            requires_content=is_own(target_name),
        )
        given = _records(place, source_name, before, settings, asked, reading)
        records, verdict, deep = held.enter_context(given)
        if not is_own(target_name):
            records.without_redactions(report)
        keep = records.sealed is not None and is_own(target_name)
        writing = WriteContext(
            limits=settings.options.limits,
            report=report,
            keys=(asked.key,) if asked.key else (),
            header=Header(source_agent=asked.source_agent),
            compress=output.name.removesuffix(".age").endswith(".gz"),
            before=outlet.before,
            replacing=asked.overwrite,
        )
        if verdict is not None and not keep:
            require_trust(verdict, asked.unsafe_accept, place.name)
        errand = OutputJob(
            settings=settings,
            kind="convert",
            began=began,
            input=TransferEnd(
                name=receipt_text(place.name),
                format=source_name,
                digest=before,
                bytes=size,
                records=sum(by_type(records, CARRIED).values()),
            ),
            outlet=outlet,
            format=target_name,
            writer=writer,
            sidecar=held.enter_context(sidecar_outlet(outlet, asked.lock))
            if asked.sidecar
            else None,
            replaces=asked.overwrite,
            report=report,
            accepted=asked.accept_loss,
            fail_on_loss=asked.fail_on_loss,
            verdict=verdict.outcome.value if verdict else None,
            key=asked.key,
            copy=asked.receipt,
        )
        done = Conversion(
            input=place.name,
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
            source_outcome=errand.verdict,
            dry_run=asked.dry_run,
        )
        if asked.dry_run:
            plan = tried_plan(errand, records, writing, census)
            return msgspec.structs.replace(_reported(done, errand), plan=plan)
        judging = OutputVerification(
            policy_of(settings, VerifyOptions(keys=asked.trusted_keys)),
            request_of(settings, VerifyOptions(deep=deep, on_progress=asked.on_progress)),
            verdict.outcome if verdict else None,
        )
        put = write_output(
            errand,
            records,
            writing,
            judging,
            overwrite=asked.overwrite,
            meanwhile=lambda: _require_unchanged(file, before),
        )
    signed_by = asked.key.did if asked.key and writer.info.traits.sealed and not keep else None
    account = account_of_output(errand, put.there, put.again, signed_by=signed_by)
    receipt = keep_receipt(errand, account)
    return msgspec.structs.replace(
        _reported(done, errand),
        output_digest=put.there.digest,
        output_bytes=put.there.bytes,
        sidecar=account.sidecar.name if account.sidecar else None,
        signed_by=signed_by,
        read_back=put.verdict,
        receipt=receipt,
        account=account,
    )


def _reported(done: Conversion, errand: OutputJob) -> Conversion:
    report = errand.report
    return msgspec.structs.replace(
        done,
        losses=list(report.losses.values()),
        notes=list(report.notes),
        unaccepted=unaccepted(report, errand.accepted),
    )


def _require_unchanged(source: OpenFile, before: str) -> None:
    if digest_of(source)[0] != before:
        raise UnreadableError(
            "the file changed while it was being read; nothing was written",
            file=str(source),
            hint="Run again when no other program writes to it.",
        )


def _target(output: Path, asked: ConvertOptions) -> tuple[str, Format]:
    name = asked.target_format
    if asked.profile is not None:
        if asked.profile not in PROFILES:
            raise UsageError(
                f"unknown profile {asked.profile!r}", hint=f"Known: {', '.join(PROFILES)}."
            )
        name = PROFILES[asked.profile]
    return chosen_format(output, name)


def _refuse_same(file: OpenFile, outlet: Outlet) -> None:
    if outlet.is_same(file):
        raise UsageError("input and output are the same file", file=str(file))


@contextmanager
def _records(
    place: Place,
    name: str,
    digest: str,
    settings: Settings,
    asked: ConvertOptions,
    reading: ReadContext,
) -> Iterator[tuple[RecordSet, Verification | None, bool]]:
    """Give the input as sealed records, verified when it was sealed, sealed when it was not.

    With them come the verdict, and whether what they say about each other is still to be proved.
    Into an artifact, rows without text are judged as by an import: they would become memories.
    """
    reader, limits, verdict = formats[name], settings.options.limits, None
    if reader.info.traits.sealed:
        options = VerifyOptions(deep=True, keys=asked.trusted_keys, on_progress=asked.on_progress)
        verdict = verify(place.file, settings, options)
        if verdict.outcome in NEVER:
            raise refusal(verdict, place.name)
    if reader.info.traits.sealed and name != PROFILES["pam-sdk-1.0"]:
        with open_record_set(place.file, limits) as records:
            yield records, verdict, True
        return
    with ExitStack() as held:
        builder = held.enter_context(ArtifactBuilder())
        report = reading.report
        empty = EmptyTexts(report)
        if not asked.ignore_sidecar:
            sidecar = held.enter_context(found_beside(settings, place.path, None, digest))
            if sidecar is not None:
                called = receipt_text(str(sidecar.path))
                restoring = SidecarFormat(reader, name, sidecar, called, digest)
                held.callback(restoring.close)
                reader = restoring
        for record, draft in read_with_drafts(reader, place, reading):
            builder.add(record)
            if reading.requires_content:
                empty.see(record.id, draft)
        empty.end()
        if builder.records == 0:
            hint = report.first_refused
            raise EmptyInputError("the file contains no memories", file=place.name, hint=hint)
        if isinstance(reader, SidecarFormat):
            report.note(reader.told)
        require_whole(reading, asked.accept_loss, place.name)
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


def require_trust(verdict: Verification, accepted: frozenset[Outcome], name: str) -> None:
    """Refuse to read records from a file that no trusted key signed, unless that is accepted."""
    refused = [found for found in verdict.outcomes if found in _UNSAFE and found not in accepted]
    if refused:
        first = {one.outcome: one.message for one in reversed(verdict.findings)}
        why = "; ".join(first[outcome] for outcome in refused)
        accept = " ".join(f"--unsafe-accept {found}" for found in refused)
        trust = trust_hint(verdict) if Outcome.UNTRUSTED in refused else None
        raise VerificationError(
            f"the file is {' and '.join(refused)}: {why}",
            file=name,
            hint=f"{f'{trust}. ' if trust else ''}To accept it anyway: {accept}",
        )
