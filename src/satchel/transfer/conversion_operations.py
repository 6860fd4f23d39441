"""Convert, inspect, verify and formats, as every interface offers them."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from satchel.artifact.body import Progress
from satchel.artifact.statement import SourceAgent
from satchel.artifact.verification import Outcome, Verification
from satchel.bank.identities import lock_for
from satchel.bank.signing_keys import signer_of
from satchel.config.options import (
    BAR,
    NO_FILES_FOR_MODELS,
    ONE_FILE,
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
    TrustedKeys,
    TrustOptions,
    Unsigned,
    WithSidecar,
)
from satchel.config.settings import Settings
from satchel.crypto import keys
from satchel.crypto.sealed_records import Sealed
from satchel.errors import EmptyInputError
from satchel.model.records import Entry, Model
from satchel.model.values import now
from satchel.ports.format import Format, Place, ReadContext
from satchel.ports.losses import Loss
from satchel.ports.operations import Absent, Option, Options, PathText, operation, texts
from satchel.ports.registry import formats
from satchel.runtime.files import OpenFile
from satchel.screening.records import screened
from satchel.transfer import conversion
from satchel.transfer.conversion import PROFILES, Conversion, ConvertOptions, VerifyOptions, verify
from satchel.transfer.folders import input_to_read
from satchel.transfer.import_operations import From

_MOST = 20
_MAX_DISTINCT = 10_000


class Overview(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What a file holds."""

    file: str
    format: str
    title: str
    bytes: int
    records: dict[str, int]
    """Records of each type."""

    users: dict[str, int] = {}
    """Entries of each owner, the twenty with most."""

    agents: dict[str, int] = {}
    runs: int = 0
    """How many runs or sessions entries name."""

    tags: dict[str, int] = {}
    kept_as_written: dict[str, int] = {}
    """Source fields that have no member of their own; kept, and written back to the same format."""

    earliest: str | None = None
    latest: str | None = None
    undated: int = 0
    expired: int = 0
    secrets: dict[str, int] = {}
    """Keys, tokens, passwords and cards in the records, of each kind; how many, never which."""

    container: dict[str, Any] = {}
    """Fields around the records, or the statement of a sealed file."""

    outcome: str | None = None
    """The verdict on a sealed file, without looking at every record."""

    notes: list[str] = []
    losses: list[Loss] = []
    """What an import of it would lose or ignore: files and lines that this format does not read."""


def inspect(
    path: Path | OpenFile,
    settings: Settings,
    source_format: str | None = None,
    *,
    on_progress: Progress | None = None,
) -> Overview:
    """Read a file and return what is in it.

    Args:
        path: The file.
        settings: Whose keys count, and the limits.
        source_format: The name of its format; None to recognise it.
        on_progress: Called with bytes done and bytes there are.

    Raises:
        PathRefusedError: If roots are set, and the file is not in them.
        InputError: If it cannot be read or is malformed.
        UnknownFormatError: If no format recognises it.
    """
    with input_to_read(settings, path) as file:
        return _inspected(file, settings, source_format, on_progress)


def _inspected(
    file: OpenFile, settings: Settings, source_format: str | None, on_progress: Progress | None
) -> Overview:
    place = Place(file.path, on_progress, held=file)
    name = source_format or formats.recognise(place)
    reader = formats[name]
    outcome = None
    if reader.info.traits.sealed:
        options = VerifyOptions(remember=False, on_progress=on_progress)
        outcome = verify(file, settings, options).outcome.value
    reading = ReadContext(limits=settings.options.limits)
    tally = _Tally()
    for model in _models(reader, place, reading):
        tally.add(model)
    if not tally.records:
        raise EmptyInputError("the file contains no memories", file=place.name)
    return Overview(
        file=place.name,
        format=name,
        title=reader.info.title,
        bytes=file.status.st_size,
        container=reading.container,
        outcome=outcome,
        notes=reading.report.notes,
        losses=list(reading.report.losses.values()),
        **tally.facts(),
    )


def _models(reader: Format, place: Place, reading: ReadContext) -> Iterator[Model]:
    for item in reader.read(place, reading):
        yield item.model if isinstance(item, Sealed) else item


class _Tally:
    """Counts, in bounded memory."""

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
    """The surroundings in which files are read, and what an interface decides about them."""

    settings: Settings
    file: OpenFile | None = None
    """What is read instead of the first path of the options."""

    output: Path | None = None
    """What is written in place of the output of the options."""

    key: Callable[[str | None], keys.SigningKey] | None = None
    """Gives the signing key of a name; by the passphrase of the options by default."""


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
        Literal["pam-sdk-1.0"] | None, Option("Write for another reader of the format.")
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
    """What to verify, and whom to believe."""

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
        Option("Follow the chain of this entry back to its roots: ID or prefix.", max_length=200),
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
    """Whether an older copy is recognised later by what is verified now."""


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
    ConvertRequest,
    name="convert",
    example="satchel convert mem0.json memory.pam.jsonl",
    absent={"http": THIS_MACHINE, "mcp": THIS_MACHINE},
)
def convert_file(source: FileSource, options: ConvertRequest) -> Conversion:
    """Convert memories from one format to another.

    A new artifact (.pam.jsonl, .pam, .pam.cbor, each also as .gz) is sealed and signed; between
    these three the seal is kept. What was written is read again and compared. What the target
    cannot hold is counted and named; exit status 1, unless `--accept-loss` names it.

    Raises:
        InputError: If the input cannot be read or is malformed.
        VerificationError: If it is sealed, and does not verify.
        LossError: With ``fail_on_loss``, if something would be lost.
        TargetError: If the output cannot be written. No partial file remains.
    """
    result = conversion.convert(
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
        UnknownFormatError: If no format recognises it.
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

    The result is truthy if the outcome is good, and lists the result of each step. Exit status: 0
    good or older; 3 unsigned, untrusted, tampered, incomplete, fork, entries-only, and older with
    --require-fresh; 4 malformed.

    Raises:
        UnreadableError: If it cannot be read.
        UnknownFormatError: If it is no sealed file.
        UsageError: If the entry asked for is not in it.
    """
    return conversion.verify(
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

    A format streams if its first memory is there before the last byte was read, and is lossless if
    it holds all that a memory has. It was compared with what others write on the day that is shown.

    Raises:
        UnknownFormatError: If there is no format of the name.
    """
    return [_format(name) for name in ([options.name] if options.name else formats)]


def _format(name: str) -> dict[str, Any]:
    info = msgspec.to_builtins(formats[name].info)
    traits = info.pop("traits")
    traits["components"] = sorted(traits["components"])
    return {"name": name, **info, **traits}
