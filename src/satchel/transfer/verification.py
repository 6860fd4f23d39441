"""Verify and inspect files, and list the formats: engines and operations."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY, dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import msgspec

from satchel.artifact import verifier
from satchel.artifact.body import Progress
from satchel.artifact.verification import Outcome, TrustPolicy, Verification
from satchel.artifact.verifier import VerificationRequest
from satchel.bank.machine_keys import read_public_key
from satchel.config.options import (
    BAR,
    NO_FILES_FOR_MODELS,
    ONE_FILE,
    THIS_MACHINE,
    TrustedKeys,
    file_to_read,
)
from satchel.config.settings import Settings
from satchel.crypto import keys
from satchel.crypto.sealed_records import Sealed
from satchel.errors import EmptyInputError, MalformedError, TargetError, VerificationError
from satchel.model.records import Entry, Model
from satchel.model.values import now
from satchel.ports.format import Format, Location, ReadContext, formats
from satchel.ports.operations import Absent, Option, Options, PathText, operation, texts
from satchel.ports.record_set import Loss
from satchel.runtime.files import OpenFile
from satchel.runtime.output import Outlet
from satchel.screening.records import screened
from satchel.transfer.folders import input_to_read

NEVER = frozenset({Outcome.MALFORMED, Outcome.TAMPERED, Outcome.FORK})
"""Outcomes that are never accepted."""


def read_back(
    output: Outlet,
    writer: Format,
    policy: TrustPolicy,
    request: VerificationRequest,
    known: Outcome | None = None,
) -> str | None:
    """Verify the written file and return the outcome; None if its format is not sealed.

    Records that were just sealed or verified are not verified again: the signed body hash shows
    that their bytes are on the disk. An invalid file is removed.

    Args:
        output: The file.
        writer: Its format.
        policy: The trusted keys.
        request: How much to verify.
        known: Outcome for the same seal before it was written again.

    Raises:
        TargetError: If it does not verify.
    """
    if not writer.info.traits.sealed:
        return None
    with output.written() as written:
        verdict = verifier.verify_file(written, policy, request)
    if verdict.outcome in NEVER and known not in NEVER:
        output.remove()
        raise TargetError(
            f"what was written reads back as {verdict.outcome}; it was removed",
            file=str(output),
            hint="The disk may be failing.",
        )
    return verdict.outcome.value


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
    """Whether the witness records the head, to recognize an older copy later."""

    on_progress: Progress | None = None


def verify(
    path: Path | OpenFile, settings: Settings, options: VerifyOptions | None = None
) -> Verification:
    """Verify a sealed file; problems are in the result.

    Raises:
        PathRefusedError: If roots are set, and the file is not in them.
        UnreadableError: If it cannot be read.
        UnknownFormatError: If it is not a sealed file.
        UsageError: If the given entry is not in it.
    """
    asked = options or VerifyOptions()
    with file_to_read(settings, path) as file:
        return verifier.verify_file(file, policy_of(settings, asked), request_of(settings, asked))


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
    unknown = [signer.key for signer in valid if signer.trust == "unknown"]
    if Outcome.ENTRIES_ONLY in verdict.outcomes and not valid:  # such a file names no key
        return how_to_trust("KEY --profile pam-sdk-1.0")
    return how_to_trust(unknown[0]) if unknown else None


def how_to_trust(key: str) -> str:
    """Return how to trust a key that signed something."""
    return f"To trust the signer, once its owner confirms the key: satchel key trust {key}"


_UNSAFE = frozenset({Outcome.UNSIGNED, Outcome.UNTRUSTED, Outcome.ENTRIES_ONLY, Outcome.INCOMPLETE})


def require_trust(verdict: Verification, accepted: frozenset[Outcome], name: str) -> None:
    """Refuse to read records from a file that no trusted key signed, unless that is accepted."""
    refused = [
        outcome for outcome in verdict.outcomes if outcome in _UNSAFE and outcome not in accepted
    ]
    if refused:
        first = {finding.outcome: finding.message for finding in reversed(verdict.findings)}
        why = "; ".join(first[outcome] for outcome in refused)
        accept = " ".join(f"--unsafe-accept {outcome}" for outcome in refused)
        trust = trust_hint(verdict) if Outcome.UNTRUSTED in refused else None
        raise VerificationError(
            f"the file is {' and '.join(refused)}: {why}",
            file=name,
            hint=f"{f'{trust}. ' if trust else ''}To accept it anyway: {accept}",
        )


_MOST = 20


_MAX_DISTINCT = 10_000


class Overview(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Contents of a file, summarized."""

    file: str
    format: str
    title: str
    bytes: int
    records: dict[str, int]
    """Number of records by type."""

    users: dict[str, int] = {}
    """Number of entries by owner, for the twenty with most."""

    agents: dict[str, int] = {}
    runs: int = 0
    """Number of runs or sessions that entries name."""

    tags: dict[str, int] = {}
    kept_as_written: dict[str, int] = {}
    """Fields without a member of their own; they are written back to the same format."""

    earliest: str | None = None
    latest: str | None = None
    undated: int = 0
    expired: int = 0
    secrets: dict[str, int] = {}
    """Number of likely keys, tokens, passwords and card numbers, by kind."""

    container: dict[str, Any] = {}
    """Fields around the records, or the statement of a sealed file."""

    outcome: str | None = None
    """Outcome of the verification of a sealed file, without verifying each record."""

    notes: list[str] = []
    losses: list[Loss] = []
    """What an import would lose or ignore: files and lines that the format does not read."""


def inspect(
    path: Path | OpenFile,
    settings: Settings,
    source_format: str | None = None,
    *,
    on_progress: Progress | None = None,
) -> Overview:
    """Read a file and return a summary of its contents.

    Args:
        path: The file.
        settings: Settings with the trusted keys and the limits.
        source_format: Name of its format; None to recognize it.
        on_progress: Called with the number of bytes read and the total.

    Raises:
        PathRefusedError: If roots are set, and the file is not in them.
        InputError: If it cannot be read or is malformed.
        UnknownFormatError: If no format recognizes it.
    """
    with input_to_read(settings, path) as file:
        return _inspected(file, settings, source_format, on_progress)


def _inspected(
    file: OpenFile, settings: Settings, source_format: str | None, on_progress: Progress | None
) -> Overview:
    location = Location(file.path, on_progress, held=file)
    name = source_format or formats.recognize(location)
    reader = formats[name]
    outcome = None
    if reader.info.traits.sealed:
        options = VerifyOptions(remember=False, on_progress=on_progress)
        outcome = verify(file, settings, options).outcome.value
    reading = ReadContext(limits=settings.options.limits)
    tally = _Tally()
    for model in _models(reader, location, reading):
        tally.add(model)
    if not tally.records:
        raise EmptyInputError("the file contains no memories", file=location.name)
    return Overview(
        file=location.name,
        format=name,
        title=reader.info.title,
        bytes=file.status.st_size,
        container=reading.container,
        outcome=outcome,
        notes=reading.report.notes,
        losses=list(reading.report.losses.values()),
        **tally.facts(),
    )


def _models(reader: Format, location: Location, reading: ReadContext) -> Iterator[Model]:
    for item in reader.read(location, reading):
        yield item.model if isinstance(item, Sealed) else item


class _Tally:
    """Counts in bounded memory."""

    def __init__(self) -> None:
        self.records: Counter[str] = Counter()
        self._users: Counter[str] = Counter()
        self._agents: Counter[str] = Counter()
        self._tags: Counter[str] = Counter()
        self._kept: Counter[str] = Counter()
        self._secrets: Counter[str] = Counter()
        self._runs: set[str] = set()
        self._earliest: str | None = None
        self._latest: str | None = None
        self._undated = 0
        self._expired = 0
        self._now = now()

    def add(self, model: Model) -> None:
        self.records[str(model.__struct_config__.tag)] += 1
        self._secrets.update(finding.kind for finding in screened(model))
        if isinstance(model, Entry):
            self._owner(model)
            self._when(model)
            _count(self._tags, model.tags)
            if model.origin is not None:
                _count(self._kept, model.origin.as_written)

    def _owner(self, entry: Entry) -> None:
        if entry.scope is None:
            return
        _count(self._users, [entry.scope.user] if entry.scope.user else [])
        _count(self._agents, [entry.scope.agent] if entry.scope.agent else [])
        if entry.scope.run and len(self._runs) < _MAX_DISTINCT:
            self._runs.add(entry.scope.run)

    def _when(self, entry: Entry) -> None:
        if entry.created_at is None:
            self._undated += 1
        else:
            self._earliest = min(self._earliest or entry.created_at, entry.created_at)
            self._latest = max(self._latest or entry.created_at, entry.created_at)
        self._expired += entry.expires_at is not None and entry.expires_at < self._now

    def facts(self) -> dict[str, Any]:
        return {
            "records": dict(self.records),
            "users": dict(self._users.most_common(_MOST)),
            "agents": dict(self._agents.most_common(_MOST)),
            "runs": len(self._runs),
            "tags": dict(self._tags.most_common(_MOST)),
            "kept_as_written": dict(self._kept.most_common(_MOST)),
            "earliest": self._earliest,
            "latest": self._latest,
            "undated": self._undated,
            "expired": self._expired,
            "secrets": dict(self._secrets.most_common()),
        }


def _count(counter: Counter[str], names: Any) -> None:
    for name in names:
        if name in counter or len(counter) < _MAX_DISTINCT:
            counter[name] += 1


From = Annotated[
    str | None,
    Option(
        "Format of the input. Default: recognized.",
        metavar="FORMAT",
        values="format",
        max_length=64,
        examples=["mem0"],
    ),
]

OnBytes = Annotated[
    Progress | None,
    Option(
        "Called with the number of bytes done and the total; again for each pass.",
        cli=BAR,
        http=Absent(why="A request has one answer."),
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSource:
    """Settings for reading files, and what an interface decides about them."""

    settings: Settings
    file: OpenFile | None = None
    """File to read in location of the first path of the options."""

    output: Path | None = None
    """File to write in location of the output of the options."""

    key: Callable[[str | None], keys.SigningKey] | None = None
    """Returns the signing key of a name; by default with the passphrase of the options."""


@dataclass(frozen=True, slots=True)
class InspectRequest(Options):
    """What to inspect."""

    path: Annotated[
        PathText, Option("File to read; - for standard input.", argument=True, metavar="FILE")
    ]
    _: KW_ONLY
    from_: From = None
    progress: OnBytes = None


@dataclass(frozen=True, slots=True)
class VerifyRequest(Options):
    """What to verify, and which keys to trust."""

    path: Annotated[
        PathText,
        Option("Sealed file; - for standard input.", argument=True, metavar="FILE", http=ONE_FILE),
    ]
    _: KW_ONLY
    deep: Annotated[
        bool, Option("Verify every record, even if a trusted key signed the whole.")
    ] = False
    entry: Annotated[
        str | None,
        Option("Verify the sources of this memory, too: ID or prefix.", max_length=200),
    ] = None
    trusted_keys: TrustedKeys = ()
    threshold: Annotated[
        int | None, Option("Number of distinct trusted keys that must have signed.", minimum=1)
    ] = None
    require_fresh: Annotated[
        bool, Option("Fail if this copy is older than the newest one seen here.")
    ] = False
    progress: OnBytes = None
    remember: bool = True
    """Whether the witness records the head, to recognize an older copy later."""


@dataclass(frozen=True, slots=True)
class FormatsRequest(Options):
    """Which formats to list."""

    name: Annotated[
        str | None,
        Option(
            "Only this format.",
            argument=True,
            values="format",
            http=Absent(why="Anybody may ask, so the answer is made once."),
        ),
    ] = None


@operation(
    InspectRequest,
    name="inspect",
    example="satchel inspect mem0.json",
    absent={"http": THIS_MACHINE, "mcp": THIS_MACHINE},
)
def inspect_file(source: FileSource, options: InspectRequest) -> Overview:
    """Report what a file holds, without changing anything.

    Raises:
        InputError: If it cannot be read or is malformed.
        UnknownFormatError: If no format recognizes it.
    """
    return inspect(
        source.file or Path(options.path),
        source.settings,
        options.from_,
        on_progress=options.progress,
    )


@operation(
    VerifyRequest,
    name="verify",
    example="satchel verify memory.pam.jsonl --deep",
    for_models=NO_FILES_FOR_MODELS,
)
def verify_file(source: FileSource, options: VerifyRequest) -> Verification:
    """Verify that a sealed file is unchanged and signed by a trusted key.

    The result of each step is listed, or why it was skipped. Exit status: 0 good or older; 3
    unsigned, untrusted, tampered, incomplete, fork, entries-only, and older with --require-fresh; 4
    malformed.

    Raises:
        UnreadableError: If it cannot be read.
        UnknownFormatError: If it is not a sealed file.
        UsageError: If the given entry is not in it.
    """
    return verify(
        source.file or Path(options.path),
        source.settings,
        VerifyOptions(
            deep=options.deep,
            require_fresh=options.require_fresh,
            entry=options.entry,
            keys=texts(options.trusted_keys),
            threshold=options.threshold,
            remember=options.remember,
            on_progress=options.progress,
        ),
    )


@operation(
    FormatsRequest,
    name="formats",
    example="satchel formats mem0",
    items="formats",
    absent={"mcp": THIS_MACHINE},
)
def list_formats(_: Any, options: FormatsRequest) -> list[dict[str, Any]]:
    """List the formats that can be read and written.

    A format streams if its first memory is available before the whole file was read, and is
    lossless if it can hold every field of a memory. The date is that of the last comparison with
    files of the other product.

    Raises:
        UnknownFormatError: If there is no format of the name.
    """
    return [_format(name) for name in ([options.name] if options.name else formats)]


def _format(name: str) -> dict[str, Any]:
    info = msgspec.to_builtins(formats[name].info)
    traits = info.pop("traits")
    traits["components"] = sorted(traits["components"])
    return {"name": name, **info, **traits}
