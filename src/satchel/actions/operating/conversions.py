"""Convert, inspect, verify and formats, as every interface offers them."""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from satchel.actions import converting, inspecting, verifying
from satchel.actions.config import Settings
from satchel.actions.converting import PROFILES, Conversion, ConvertOptions
from satchel.actions.encrypting.identities import lock_for
from satchel.actions.inspecting import Overview
from satchel.actions.operating.imports import From
from satchel.actions.options import (
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
from satchel.actions.signing import signer_of
from satchel.actions.verifying import VerifyOptions
from satchel.disk.reading import OpenFile
from satchel.ports.operations import Absent, Option, Options, PathText, operation, texts
from satchel.ports.registry import formats
from satchel.seal.artifact.body import Progress
from satchel.seal.artifact.statement import SourceAgent
from satchel.seal.signing import key as keys
from satchel.seal.verify.verification import Outcome, Verification

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
        TargetError: If the output cannot be written; nothing half-written is left behind.
    """
    result = converting.convert(
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
    return inspecting.inspect(
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
    return verifying.verify(
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
