"""Converting memory from one format to another, sealed on the way, read back at the end."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from satchel.actions.config import Settings
from satchel.actions.paths.permission import file_to_read, file_to_write
from satchel.actions.verifying import VerifyOptions, policy_of, refusal, request_of, verify
from satchel.disk.outlet import Outlet
from satchel.disk.reading import OpenFile
from satchel.errors import (
    EmptyInputError,
    UnreadableError,
    UsageError,
    VerificationError,
)
from satchel.memory.parts import TrustClass
from satchel.memory.records import Source
from satchel.memory.times import now
from satchel.ports.format import Format, Reading, Writing
from satchel.ports.place import Place, Target
from satchel.ports.records import RecordSet, opened_records
from satchel.ports.registry import formats
from satchel.ports.report import Loss, Refused, Report
from satchel.ports.taking import taken
from satchel.seal.artifact.body import Progress
from satchel.seal.artifact.statement import SourceAgent
from satchel.seal.artifact.writing import ArtifactBuilder, Header
from satchel.seal.records import Sealed
from satchel.seal.sealing import seal
from satchel.seal.signing.key import SigningKey
from satchel.seal.verify.verification import Outcome, Verification
from satchel.transfer.writing import (
    NEVER,
    chosen_format,
    digest_of,
    read_back,
    refuse_existing,
    write,
)

PROFILES = {"pam-sdk-1.0": "pam_sdk"}
"""Profiles that choose a format by another name."""

_UNSAFE = frozenset({Outcome.UNSIGNED, Outcome.STRANGER, Outcome.ENTRIES_ONLY, Outcome.INCOMPLETE})


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

    overwrite: bool = False
    skip_bad: bool = False
    """Leave out records that are malformed or too large, and count and name them."""

    fail_on_loss: bool = False
    unsafe_accept: frozenset[Outcome] = field(default_factory=frozenset)
    """Verdicts on a sealed input that are put up with."""

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
    output_digest: str
    input_bytes: int
    output_bytes: int
    records: dict[str, int]
    """Objects in each section, as read."""

    losses: list[Loss]
    notes: list[str]
    refused: list[Refused] = []
    """Bad records that were left out, with their places; the first thousand."""

    same_seal: bool = False
    """Whether the statement and its signatures were kept."""

    source_outcome: str | None = None
    """The verdict on a sealed input."""

    signed_by: str | None = None
    read_back: str | None = None
    """The verdict on a sealed output, read again from the disk."""

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
        TargetError: If the output cannot be written; nothing is left behind then.
        LossError: With ``fail_on_loss``, if something would not survive.
        UsageError: If the formats cannot be told.
    """
    with file_to_read(settings, source) as file, file_to_write(settings, output) as outlet:
        return _converted(file, outlet, settings, options or ConvertOptions())


def _converted(
    file: OpenFile, outlet: Outlet, settings: Settings, asked: ConvertOptions
) -> Conversion:
    output = outlet.path
    place = Place(file.path, asked.on_progress, file)
    source_name = asked.source_format or formats.recognise(place)
    target_name, writer = _target(output, asked)
    _refuse_same(file, outlet)
    refuse_existing(outlet, overwrite=asked.overwrite)
    before, size = digest_of(file)
    if size == 0:
        raise EmptyInputError("the file is empty", file=place.name)
    report, writing_report = Report(), Report()
    with _records(place, source_name, before, settings, asked, report) as found:
        records, verdict, deep = found
        keep = records.sealed is not None and writer.info.traits.sealed and target_name != "pam_sdk"
        writing = Writing(
            limits=settings.options.limits,
            report=writing_report,
            keys=(asked.key,) if asked.key else (),
            header=Header(source_agent=asked.source_agent),
            compress=output.name.endswith(".gz"),
        )
        if verdict is not None and not keep:
            require_trust(verdict, asked.unsafe_accept, place.name)
        target = Target(output, overwrite=asked.overwrite, outlet=outlet)
        write(writer, records, target, writing, whole=asked.fail_on_loss)
        counts = records.counts
    if digest_of(file)[0] != before:
        raise UnreadableError(
            "the file changed while it was read; the output may be a mixture",
            file=place.name,
            hint="Run it again when nothing writes to it.",
        )
    with outlet.written() as made:
        after, written = digest_of(made)
    return Conversion(
        input=place.name,
        output=str(output),
        source_format=source_name,
        target_format=target_name,
        input_digest=before,
        output_digest=after,
        input_bytes=size,
        output_bytes=written,
        records=counts,
        losses=[*report.losses.values(), *writing_report.losses.values()],
        notes=[*report.notes, *writing_report.notes],
        refused=report.refused,
        same_seal=keep,
        source_outcome=verdict.outcome.value if verdict else None,
        signed_by=asked.key.did if asked.key and writer.info.traits.sealed and not keep else None,
        read_back=read_back(
            outlet,
            writer,
            policy_of(settings, VerifyOptions(keys=asked.trusted_keys)),
            request_of(settings, VerifyOptions(deep=deep, on_progress=asked.on_progress)),
            verdict.outcome if verdict else None,
        ),
    )


def _target(output: Path, asked: ConvertOptions) -> tuple[str, Format]:
    name = asked.target_format
    if asked.profile is not None:
        if asked.profile not in PROFILES:
            raise UsageError(f"no profile {asked.profile!r}", hint=f"Known: {', '.join(PROFILES)}.")
        name = PROFILES[asked.profile]
    return chosen_format(output, name)


def _refuse_same(file: OpenFile, outlet: Outlet) -> None:
    if outlet.is_same(file):
        raise UsageError("input and output are the same file", file=str(file))


@contextmanager
def _records(
    place: Place, name: str, digest: str, settings: Settings, asked: ConvertOptions, report: Report
) -> Iterator[tuple[RecordSet, Verification | None, bool]]:
    """Give the input as sealed records, verified when it was sealed, sealed when it was not.

    With them come the verdict, and whether what they say about each other is still to be proved.
    """
    reader, limits, verdict = formats[name], settings.options.limits, None
    if reader.info.traits.sealed:
        options = VerifyOptions(deep=True, keys=asked.trusted_keys, on_progress=asked.on_progress)
        verdict = verify(place.file, settings, options)
        if verdict.outcome in NEVER:
            raise refusal(verdict, place.name)
    if reader.info.traits.sealed and name != PROFILES["pam-sdk-1.0"]:
        with opened_records(place.file, limits) as records:
            yield records, verdict, True
        return
    with ArtifactBuilder() as builder:
        reading = Reading(limits=limits, report=report, skip_bad=asked.skip_bad)
        for record in taken(reader, place, reading):
            builder.add(record)
        if builder.records == 0:
            hint = report.first_refused
            raise EmptyInputError("there is no memory in this file", file=place.name, hint=hint)
        builder.add(_source_record(name, digest, reading))
        deep = verdict is not None or builder.refers
        yield RecordSet(*builder.finish(limits)), verdict, deep


def _source_record(name: str, digest: str, reading: Reading) -> Sealed:
    return seal(
        Source(
            at=now(),
            provider=name,
            format=name,
            digest=digest,
            container=reading.container,
            trust=TrustClass.IMPORTED,
        )
    )


def require_trust(verdict: Verification, accepted: frozenset[Outcome], name: str) -> None:
    """Refuse to take records out of a file that nobody trusted vouches for, unless told to."""
    refused = [found for found in verdict.outcomes if found in _UNSAFE and found not in accepted]
    if refused:
        raise VerificationError(
            f"the file is {' and '.join(refused)}: {verdict.findings[0].message}",
            file=name,
            hint=" ".join(
                ["Trust its key (satchel keys trust), or put up with it:"]
                + [f"--unsafe-accept {found}" for found in refused]
            ),
        )
