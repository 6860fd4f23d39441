"""Export, as every interface offers it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Annotated, Literal

from msgspec import structs

from satchel.artifact.body import SourceAgent
from satchel.bank.machine_keys import lock_for, signer_of
from satchel.bank.open_bank import OpenBank, open_bank
from satchel.config.options import (
    NO_FILES_FOR_MODELS,
    ONE_FILE,
    AgentName,
    ContainedOptions,
    DryRun,
    EncryptionOptions,
    FailOnLoss,
    LossOptions,
    Overwrite,
    PathOptions,
    PathPermission,
    RecordProgress,
    ScrubSecrets,
    SelectionOptions,
    SigningOptions,
    Time,
    Unsigned,
    WithSidecar,
    file_to_write,
    require_uncontained,
)
from satchel.config.settings import Settings
from satchel.crypto import keys
from satchel.errors import SatchelError, UsageError
from satchel.model.values import parse_moment
from satchel.ports.format import Location, formats
from satchel.ports.operations import (
    Option,
    PathText,
    ProgressStep,
    operation,
    step_callback,
    texts,
    values_of,
)
from satchel.runtime.output import Outlet
from satchel.transfer.export_records import (
    Export,
    ExportOptions,
    MemorySelection,
    is_signed,
    selection,
)
from satchel.transfer.export_records import Progress as OnProgress
from satchel.transfer.folders import connector_for
from satchel.transfer.import_results import Owners
from satchel.transfer.outputs import chosen_format
from satchel.transfer.providers import LiveBank, export_from

To = Annotated[
    str | None,
    Option(
        "Format to write. Default: by the file name, otherwise pam.",
        metavar="FORMAT",
        values="format",
        max_length=64,
        examples=["mem0"],
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportSettings(SelectionOptions, SigningOptions, EncryptionOptions, LossOptions):
    """Which memories to export, and how."""

    to: To = None
    unsigned: Unsigned = False
    agent: AgentName = None
    fail_on_loss: FailOnLoss = False
    scrub_secrets: ScrubSecrets = False
    include_entities: Annotated[
        bool,
        Option(
            "Include the entities of memories in an AMA archive.",
            flag="--include-entities/--no-include-entities",
        ),
    ] = True
    include_embeddings: Annotated[
        bool,
        Option(
            "Include vectors, if the format or product supports them.",
            flag="--include-embeddings/--no-include-embeddings",
        ),
    ] = False
    dry_run: DryRun = False
    progress: RecordProgress = None


@dataclass(frozen=True, slots=True)
class ExportRequest(ExportSettings, PathOptions):
    """What to export, where to, and how."""

    path: Annotated[
        PathText,
        Option(
            "File to write, or address of a live product; - for standard output.",
            flag="--output",
            short="-o",
            metavar="PATH",
            cli_default="-",
            http=ONE_FILE,
        ),
    ]
    _: KW_ONLY
    overwrite: Overwrite = False
    sidecar: WithSidecar = False


@dataclass(frozen=True, slots=True)
class ExportBankRequest(ExportSettings, ContainedOptions):
    """Which bank to export, where to, and how."""

    bank_id: Annotated[str, Option("Name or ID of the bank.", examples=["assistant"])]
    path: Annotated[
        PathText,
        Option(
            "File to write. Its folder is created if it is missing.",
            examples=["assistant.ama.jsonl"],
        ),
    ]
    _: KW_ONLY
    overwrite: Annotated[
        bool | None,
        Option("Replace the file. Default: only an earlier export in the same format."),
    ] = None
    sidecar: Annotated[
        bool,
        Option("Write what the format cannot hold into a file beside it, FILE.satchel.jsonl."),
    ] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportSource:
    """Source of an export, and what an interface decides about it."""

    bank: OpenBank | LiveBank
    """The bank, or the memory of a user of a provider."""

    output: Path | Outlet | None = None
    """File to write in place of the path of the options."""

    permission: PathPermission | None = None
    """Allowed paths; by default those of the options."""

    key: Callable[[str | None], keys.SigningKey] | None = None
    """Returns the signing key of a name; by default with the passphrase of the options."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreBanks:
    """The banks of an open store."""

    settings: Settings
    open: Callable[[str], OpenBank | LiveBank]
    """Opens a bank by its name or ID."""

    owner: Callable[[str | None], keys.SigningKey]
    """Returns the key of a name, which owns new banks."""

    read_only: bool = False


@contextmanager
def opened_source(
    settings: Settings, name: str | None, owner: Owners
) -> Iterator[OpenBank | LiveBank]:
    """Open a bank of the store, or of the configured provider."""
    if settings.provider is not None:
        yield LiveBank(settings, name, owner)
        return
    with open_bank(settings, name) as bank:
        yield bank


@operation(
    ExportRequest,
    name="export",
    example="satchel export -o memory.pam.jsonl --tag travel",
    for_models=NO_FILES_FOR_MODELS,
)
def export(source: ExportSource, options: ExportRequest) -> Export:
    """Export a bank's current memories to a file, in any format that can be written.

    An artifact (.pam.jsonl, .pam, .pam.cbor, each also as .gz) is signed, and shows that it is
    from the bank's log. The file is read again and compared. What the format cannot hold is
    counted and named; exit status 1, unless `--accept-loss` names it. With `--sidecar` it is
    stored in a file beside it, and nothing is lost. The bank is not changed. With a provider set,
    the provider's memories of the user with the bank's name are exported.

    Raises:
        ContainmentError: If the path is outside the roots; a ``ValueError``.
        PathRefusedError: If the path leads through a link, or is refused otherwise.
        LossError: With ``fail_on_loss``, if something would be lost.
        TargetError: If it cannot be written. No partial file remains.
    """
    settings, permission = source.bank.settings, source.permission or options.permission
    if options.receipt is not None:
        with file_to_write(settings, options.receipt, permission):
            pass
    output: PathText | Outlet = source.output or options.path
    if not isinstance(output, Outlet) and connector_for(str(output), options.to) is not None:
        require_uncontained(settings, str(output), permission)
        live = Path(output)
        done = export_from(source.bank, live, _options(source, options, live))
    else:
        with file_to_write(settings, output, permission) as outlet:
            done = export_from(source.bank, outlet, _options(source, options, outlet.path))
    return done if source.output is None else structs.replace(done, output=str(options.path))


@export.alias(
    ExportBankRequest,
    name="bank export",
    why="Astrocyte documents it by this name, and refuses a path that nothing allows.",
    absent={
        "cli": "`satchel export --bank NAME` does it.",
        "mcp": "A model names no files.",
    },
)
@contextmanager
def export_bank(
    banks: StoreBanks, options: ExportBankRequest
) -> Iterator[tuple[ExportSource, ExportRequest]]:
    """Export a bank to a file, by its name.

    An earlier export in the same format is replaced. With a provider set, the bank is one of the
    provider's users.

    Raises:
        ContainmentError: If the path is outside the allowed folders, or none are set; a
            ``ValueError``.
        UnknownBankError: If there is no such bank.
        SatchelError: As ``Bank.export``.
    """
    permission = options.permission
    with file_to_write(banks.settings, options.path, permission, makes=True) as output:
        overwrite = options.overwrite
        if overwrite is None:
            overwrite = _is_earlier_export(output, options.to)
        bank = banks.open(require_bank_name(options.bank_id))
        yield (
            ExportSource(bank=bank, output=output, permission=permission),
            ExportRequest(
                output.path,
                overwrite=overwrite,
                sidecar=options.sidecar,
                **values_of(options, ExportSettings),
            ),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactRequest(SelectionOptions):
    """What of a bank to seal."""

    bank: Annotated[str, Option("Name or ID of the bank.", examples=["assistant"])]
    to: Annotated[Literal["pam", "pam_jsonl", "pam_cbor"], Option("Encoding of the artifact.")] = (
        "pam"
    )


@operation(
    ArtifactRequest,
    name="artifact create",
    absent={
        "cli": "`satchel export` writes artifacts.",
        "python": "`Bank.export` writes artifacts.",
        "mcp": "The operation export has a tool, which returns an artifact.",
    },
)
def create_artifact(source: ExportSource, options: ArtifactRequest) -> Export:
    """Seal a bank, or a part of it, and store the artifact on the server.

    Raises:
        SatchelError: As ``Bank.export``.
    """
    request = ExportRequest(
        f"memory{ARTIFACT_SUFFIXES[options.to]}",
        to=options.to,
        type=options.type,
        tags=options.tags,
        since=options.since,
        until=options.until,
        owner=options.owner,
        as_of=options.as_of,
        ids=options.ids,
    )
    return export.run(source, request)


ARTIFACT_SUFFIXES = {"pam": ".pam", "pam_jsonl": ".pam.jsonl", "pam_cbor": ".pam.cbor"}


def require_bank_name(bank_id: str) -> str:
    """Return a bank's name: unlike elsewhere, an empty one does not mean the default bank.

    Raises:
        UsageError: If it is empty.
    """
    if not bank_id.strip():
        raise UsageError("no bank given", field="bank_id")
    return bank_id


def _options(source: ExportSource, options: ExportRequest, output: Path) -> ExportOptions:
    settings = source.bank.settings
    key = None
    if is_signed(output, options.to) and not options.unsigned and not options.dry_run:
        if source.key is not None:
            key = source.key(options.signing_key)
        else:
            key = signer_of(settings, options)
    return ExportOptions(
        format=options.to,
        selection=selected(options),
        key=key,
        lock=lock_for(settings, texts(options.encrypt_to), options.file_passphrase),
        overwrite=options.overwrite,
        fail_on_loss=options.fail_on_loss,
        accept_loss=texts(options.accept_loss),
        sidecar=options.sidecar,
        receipt=None if options.receipt is None else Path(options.receipt),
        scrub_secrets=options.scrub_secrets,
        entities=options.include_entities,
        embeddings=options.include_embeddings,
        dry_run=options.dry_run,
        source_agent=SourceAgent(name=options.agent) if options.agent else None,
        progress=_progress(options),
    )


def check(options: ExportRequest, output: Path) -> None:
    """Check the options that do not need a bank.

    Raises:
        UsageError: If a time, a type or the format is invalid.
    """
    selected(options)
    is_signed(output, options.to)


def selected(options: SelectionOptions) -> MemorySelection:
    """Return the selection that options describe."""
    return selection(
        components=texts(options.type),
        tags=texts(options.tags),
        since=_moment(options.since, "since"),
        until=_moment(options.until, "until"),
        owner=options.owner,
        as_of=options.as_of,
        ids=texts(options.ids),
    )


def _moment(value: Time | None, field: str) -> str | None:
    return None if value is None else parse_moment(value, field)


def _progress(options: ExportSettings) -> OnProgress | None:
    tell = step_callback(options.progress)
    if tell is None:
        return None

    def report(done: int, total: int, record: str | None) -> None:
        try:
            tell(ProgressStep(done, total, record))
        except Exception as error:
            error.add_note("Nothing was written.")
            raise

    return report


def _is_earlier_export(output: Outlet, name: str | None) -> bool:
    """Return whether an output exists in the format that will be written."""
    with suppress(SatchelError):
        expected, _ = chosen_format(output.path, name)
        with output.open_previous() as file:
            return formats.recognize(Location(output.path, held=file)) == expected
    return False
