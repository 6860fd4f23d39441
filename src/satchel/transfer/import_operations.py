"""Import, as every interface offers it."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Annotated, Literal

from satchel.artifact.body import Progress as OnBytes
from satchel.artifact.verification import Outcome
from satchel.bank.jobs import Job
from satchel.bank.machine_keys import require_owner
from satchel.bank.open_bank import OpenBank
from satchel.config.options import (
    NO_FILES_FOR_MODELS,
    NOT_FOR_MODELS,
    ONE_FILE,
    SERVER,
    SERVER_KEYS,
    ContainedOptions,
    DryRun,
    IgnoreSidecar,
    LossOptions,
    PathOptions,
    PathPermission,
    RecordProgress,
    ScrubSecrets,
    SkipBad,
    TextMember,
    TrustOptions,
    file_to_read,
    file_to_write,
    require_uncontained,
)
from satchel.config.settings import Settings
from satchel.crypto.keys import SigningKey
from satchel.errors import ReadOnlyStoreError, shown_address
from satchel.ports.operations import (
    Absent,
    Option,
    Options,
    PathText,
    operation,
    step_callback,
    texts,
    values_of,
)
from satchel.recall.duplicates import NearDuplicateMode
from satchel.receipts.archive import BY_ID
from satchel.runtime.files import OpenFile
from satchel.transfer import imports
from satchel.transfer.export_operations import StoreBanks, require_bank_name
from satchel.transfer.folders import connector_for, input_to_read
from satchel.transfer.import_results import ConflictPolicy, ImportOptions, ImportSummary
from satchel.transfer.imports import ImportLine, JobCancelResult
from satchel.transfer.providers import import_into
from satchel.transfer.verification import From

STDIN = "-"

_LIVE = Absent(why="An upload is a file; only a live source has it.")


@dataclass(frozen=True, kw_only=True)
class ImportSettings(LossOptions, TrustOptions):
    """How to import."""

    from_: From = None
    on_conflict: Annotated[
        Literal["skip", "overwrite", "rename", "error"] | None,
        Option(
            "What to do with another version of a memory in the bank. Default: as the bank's"
            " settings say, otherwise skip."
        ),
    ] = None
    mirror: Annotated[
        bool, Option("Overwrite, and delete memories that the source no longer has.")
    ] = False
    maps: Annotated[
        str | Sequence[str],
        Option(
            "Bank for an owner's memories, as user:ada=bank-ada. Repeatable.",
            flag="--map",
            metavar="OWNER=BANK",
            max_items=10_000,
            examples=[["user:ada=bank-ada"]],
        ),
    ] = ()
    include_deleted: Annotated[
        bool, Option("Include memories deleted at a live source, as deleted memories.", http=_LIVE)
    ] = False
    include_embeddings: Annotated[
        bool,
        Option(
            "Include the vectors of a live source.",
            flag="--include-embeddings/--no-include-embeddings",
            http=_LIVE,
        ),
    ] = False
    near_duplicates: Annotated[
        Literal["off", "list", "skip", "merge"] | None,
        Option("What to do with near-duplicates: memories that say the same in other words."),
    ] = None
    re_embed: Annotated[bool, Option("Compute vectors afterwards, as satchel embed does.")] = False
    re_extract_entities: Annotated[
        bool, Option("Extract entities again, instead of those in the file.")
    ] = False
    scrub_secrets: ScrubSecrets = False
    skip_bad: SkipBad = False
    text_member: TextMember = None
    dry_run: DryRun = False
    sidecar: Annotated[
        PathText | None,
        Option("Sidecar of the file, if it is not next to it.", metavar="FILE", http=SERVER),
    ] = None
    ignore_sidecar: IgnoreSidecar = False
    signing_key: Annotated[
        str | None,
        Option(
            "Name of the owner's key for banks that are created. Default: the configured one.",
            values="key",
            http=SERVER_KEYS,
        ),
    ] = None
    progress: RecordProgress = None


@dataclass(frozen=True, slots=True)
class ImportRequest(ImportSettings, PathOptions):
    """What to import, and how."""

    path: Annotated[
        PathText,
        Option(
            "File to read, - for standard input; or folder or address of a live source.",
            argument=True,
            metavar="FILE",
            cli_default=STDIN,
            http=ONE_FILE,
        ),
    ]


@dataclass(frozen=True, slots=True)
class ImportBankRequest(ImportSettings, ContainedOptions):
    """What to import into which bank, and how."""

    bank_id: Annotated[
        str,
        Option("Name or ID of the bank; created if missing.", examples=["assistant"]),
    ]
    path: Annotated[PathText, Option("File to read.", examples=["assistant.ama.jsonl"])]


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportTarget:
    """Target of an import, and what an interface decides about it."""

    settings: Settings
    bank: str | None
    """The bank for everything; None for one for each owner, or the default bank."""

    owner: Callable[[str | None], SigningKey]
    """Returns the key of a name, which owns new banks."""

    read_only: bool = False
    source: OpenFile | None = None
    """File to read in place of the path of the options."""

    reads_stdin: bool = False
    """Whether the path - means standard input."""

    permission: PathPermission | None = None
    """Allowed paths; by default those of the options."""

    on_reading: OnBytes | None = None


@operation(
    ImportRequest,
    name="import",
    example="satchel import mem0.json --bank assistant",
    for_models=NO_FILES_FOR_MODELS,
)
def import_(target: ImportTarget, options: ImportRequest) -> ImportSummary:
    """Import memories from a file into a bank, or into one for each user in the file.

    Everything is read and checked first, and becomes visible in one step; an import that was
    killed is resumed when it is run again. `satchel undo` reverses it. Exit status 1 if a value was
    lost that `--accept-loss` does not name. What the file's format cannot hold is read from its
    sidecar, FILE.satchel.jsonl, if `satchel export --sidecar` wrote one. With a provider set, the
    memories are imported into the provider.

    If no bank is named, each user or agent in the file gets its own. A file that names no user or
    agent, or is an export of your own chats, is imported into the default bank.

    Raises:
        ContainmentError: If the path is outside the roots; a ``ValueError``.
        PathRefusedError: If the path leads through a link, or the file has another hard link.
        InputError: If it cannot be read or is malformed; nothing is changed then.
        VerificationError: If it is sealed, and does not verify.
        ConflictError: With ``on_conflict="error"``, if there is one.
    """
    settings, path = target.settings, options.path
    permission = target.permission or options.permission
    if target.read_only and not options.dry_run:
        raise ReadOnlyStoreError("opened read-only", file=shown_address(settings.store))
    if options.receipt is not None:
        with file_to_write(settings, options.receipt, permission):
            pass
    with ExitStack() as held:
        sidecar = None
        if options.sidecar is not None:
            sidecar = held.enter_context(file_to_read(settings, options.sidecar, permission))
        source: Path | OpenFile | str | None = target.source
        if source is None and not (target.reads_stdin and path == STDIN):
            if connector_for(str(path), options.from_) is not None:
                require_uncontained(settings, str(path), permission)
                source = str(path)
            else:
                source = held.enter_context(input_to_read(settings, path, permission))
        return import_into(
            settings,
            source,
            target.bank,
            lambda: target.owner(options.signing_key),
            _options(options, sidecar, target.on_reading),
        )


@import_.alias(
    ImportBankRequest,
    name="bank import",
    why="Astrocyte documents it by this name, and refuses a path that nothing allows.",
    absent={
        "cli": "`satchel import FILE --bank NAME` does it.",
        "mcp": "A model names no files.",
    },
)
@contextmanager
def import_bank(
    banks: StoreBanks, options: ImportBankRequest
) -> Iterator[tuple[ImportTarget, ImportRequest]]:
    """Import a file into a bank, by its name. The bank is created if there is none.

    It need not be the bank in the file. With a provider set, the provider gets the memories.

    Raises:
        ContainmentError: If the path is outside the allowed folders, or none are set; a
            ``ValueError``.
        ReadOnlyStoreError: If the store is open for reading.
        SatchelError: As ``Bank.import_``.
    """
    with file_to_read(banks.settings, options.path, options.permission) as source:
        target = ImportTarget(
            settings=banks.settings,
            bank=require_bank_name(options.bank_id),
            owner=banks.owner,
            read_only=banks.read_only,
            source=source,
            permission=options.permission,
        )
        yield target, ImportRequest(options.path, **values_of(options, ImportSettings))


def _options(
    options: ImportSettings, sidecar: OpenFile | None, on_reading: OnBytes | None
) -> ImportOptions:
    conflict, near = options.on_conflict, options.near_duplicates
    return ImportOptions(
        source_format=options.from_,
        on_conflict=None if conflict is None else ConflictPolicy(conflict),
        mirror=options.mirror,
        maps=texts(options.maps),
        include_deleted=options.include_deleted,
        embeddings=options.include_embeddings,
        near_duplicates=None if near is None else NearDuplicateMode(near),
        re_embed=options.re_embed,
        re_extract_entities=options.re_extract_entities,
        scrub_secrets=options.scrub_secrets,
        skip_bad=options.skip_bad,
        text_member=options.text_member,
        dry_run=options.dry_run,
        accept_loss=texts(options.accept_loss),
        sidecar=sidecar,
        ignore_sidecar=options.ignore_sidecar,
        receipt=None if options.receipt is None else Path(options.receipt),
        unsafe_accept=frozenset(map(Outcome, texts(options.unsafe_accept))),
        trusted_keys=texts(options.trusted_keys),
        on_reading=on_reading,
        on_step=step_callback(options.progress),
    )


Reason = Annotated[str | None, Option("Reason, for the history.", max_length=1000)]


@dataclass(frozen=True, slots=True)
class NoOptions(Options):
    """No options."""


@dataclass(frozen=True, slots=True)
class JobCancelOptions(Options):
    """Which job to cancel."""

    job: Annotated[str, Option(f"Job: {BY_ID}.", argument=True, metavar="JOB")]
    _: KW_ONLY
    reason: Reason = None


@dataclass(frozen=True, slots=True)
class JobResumeOptions(Options):
    """Which job to resume."""

    job: Annotated[str, Option(f"Job: {BY_ID}.", argument=True, metavar="JOB")]
    _: KW_ONLY
    signing_key: Annotated[
        str | None,
        Option(
            "Name of the owner's key for banks that are created. Default: the configured one.",
            values="key",
            http=SERVER_KEYS,
        ),
    ] = None
    progress: RecordProgress = None


@operation(
    NoOptions,
    name="bank imports",
    example="satchel bank imports --bank assistant",
    items="imports",
    absent=NOT_FOR_MODELS,
)
def list_imports(bank: OpenBank, options: NoOptions) -> list[ImportLine]:
    """List the imports into a bank, in the order in which they began."""
    del options
    return imports.list_imports_in(bank)


@operation(
    NoOptions, name="job list", example="satchel job list", items="jobs", absent=NOT_FOR_MODELS
)
def list_jobs(settings: Settings, options: NoOptions) -> list[Job]:
    """List the imports that are running or were interrupted.

    Nothing of them is visible until they are complete: resume them, or cancel them.

    Raises:
        VerificationError: If a bank is not what was signed.
    """
    del options
    return imports.list_jobs(settings)


@operation(
    JobResumeOptions,
    name="job resume",
    example="satchel job resume 3f9a2c",
    absent=NOT_FOR_MODELS | {"http": "A request that uploads the same file again resumes it."},
)
def resume_job(target: ImportTarget, options: JobResumeOptions) -> ImportSummary:
    """Resume an import that was interrupted, with the options that it was started with.

    Raises:
        UnknownJobError: If there is no such job.
        UsageError: If its input is not known, or is another one now.
        SatchelError: As ``Bank.import_``.
    """
    require_owner(target.settings, "jobs")
    return imports.resume_job(
        target.settings,
        options.job,
        lambda: target.owner(options.signing_key),
        on_reading=target.on_reading,
        on_step=step_callback(options.progress),
    )


@operation(
    JobCancelOptions,
    name="job cancel",
    example="satchel job cancel 3f9a2c",
    absent=NOT_FOR_MODELS
    | {"http": "`DELETE /v1/jobs/{job}` stops a server's work before anything is visible."},
)
def cancel_job(settings: Settings, options: JobCancelOptions) -> JobCancelResult:
    """Cancel an import that was interrupted: remove what it logged. None of it was visible.

    Raises:
        UnknownJobError: If there is no such job.
        LockedError: If an import is running.
    """
    return imports.cancel_job(settings, options.job, reason=options.reason)
