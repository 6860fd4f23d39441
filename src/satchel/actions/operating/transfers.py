"""What became of transfers, as every interface offers it: imports, jobs and receipts."""

from dataclasses import KW_ONLY, dataclass
from typing import Annotated

from satchel.actions.config import Settings
from satchel.actions.importing import jobs, undoing
from satchel.actions.importing.imported import Imported
from satchel.actions.importing.jobs import Cancelled
from satchel.actions.importing.undoing import ImportLine
from satchel.actions.opened import OpenBank
from satchel.actions.operating.imports import ImportTarget
from satchel.actions.options import NOT_FOR_MODELS, SERVER_KEYS, RecordProgress
from satchel.actions.permitted.owning import require_owner
from satchel.actions.receipts import finding
from satchel.actions.receipts.finding import Receipt, ReceiptLine
from satchel.jobs.callbacks import teller
from satchel.jobs.job import Job
from satchel.ports.operations import Option, Options, operation

BY_ID = "ID, or a prefix of at least six digits"

Reason = Annotated[str | None, Option("Reason, for the history.", max_length=1000)]


@dataclass(frozen=True, slots=True)
class NoOptions(Options):
    """Nothing to choose."""


@dataclass(frozen=True, slots=True)
class JobOptions(Options):
    """Which job to cancel."""

    job: Annotated[str, Option(f"Job: {BY_ID}.", argument=True, metavar="JOB")]
    _: KW_ONLY
    reason: Reason = None


@dataclass(frozen=True, slots=True)
class ResumeOptions(Options):
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


@dataclass(frozen=True, slots=True)
class ReceiptListOptions(Options):
    """Which receipts to list."""

    bank: Annotated[
        str | None,
        Option("Only receipts of this bank, including those in its log.", values="bank"),
    ] = None
    _: KW_ONLY
    limit: Annotated[
        int, Option("Maximum number of receipts.", minimum=1, maximum=finding.MOST)
    ] = 100


@dataclass(frozen=True, slots=True)
class ReceiptOptions(Options):
    """Which receipt to show."""

    receipt: Annotated[
        str,
        Option(
            f"Receipt: {BY_ID}. On the command line also a file.",
            argument=True,
            metavar="ID|FILE",
        ),
    ]


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
    return undoing.list_imports_in(bank)


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
    return jobs.list_jobs(settings)


@operation(
    ResumeOptions,
    name="job resume",
    example="satchel job resume 3f9a2c",
    absent=NOT_FOR_MODELS | {"http": "A request that uploads the same file again resumes it."},
)
def resume_job(target: ImportTarget, options: ResumeOptions) -> Imported:
    """Resume an import that was interrupted, with the options that it was begun with.

    Raises:
        UnknownJobError: If there is no such job.
        UsageError: If its input is not known, or is another one now.
        SatchelError: As ``Bank.import_``.
    """
    require_owner(target.settings, "jobs")
    return jobs.resume_job(
        target.settings,
        options.job,
        lambda: target.owner(options.signing_key),
        on_reading=target.on_reading,
        on_step=teller(options.progress),
    )


@operation(
    JobOptions,
    name="job cancel",
    example="satchel job cancel 3f9a2c",
    absent=NOT_FOR_MODELS
    | {"http": "`DELETE /v1/jobs/{job}` stops a server's work before anything is visible."},
)
def cancel_job(settings: Settings, options: JobOptions) -> Cancelled:
    """Cancel an import that was interrupted: remove what it logged. Nobody had seen any of it.

    Raises:
        UnknownJobError: If there is no such job.
        LockedError: If an import is running.
    """
    return jobs.cancel_job(settings, options.job, reason=options.reason)


@operation(
    ReceiptListOptions,
    name="receipt list",
    example="satchel receipt list --bank assistant",
    items="receipts",
    absent=NOT_FOR_MODELS,
)
def list_receipts(settings: Settings, options: ReceiptListOptions) -> list[ReceiptLine]:
    """List the receipts of imports, exports and conversions, newest first.

    Raises:
        UnknownBankError: If there is no such bank.
    """
    return finding.list_receipts(settings, options.bank, limit=options.limit)


@operation(
    ReceiptOptions,
    name="receipt show",
    example="satchel receipt show ours.receipt.json",
    absent=NOT_FOR_MODELS,
)
def show_receipt(settings: Settings, options: ReceiptOptions, *, files: bool = False) -> Receipt:
    """Show a receipt, and whether its signature verifies.

    Raises:
        UnknownReceiptError: If there is none.
        MalformedError: If a file holds something else.
    """
    require_owner(settings, "receipts")
    if not files:
        return finding.find_receipt(settings, options.receipt)
    return finding.first_of(finding.find_receipts(settings, options.receipt))


@operation(
    ReceiptOptions,
    name="receipt verify",
    example="satchel receipt verify ours.receipt.json",
    absent=NOT_FOR_MODELS
    | {
        "python": "`Satchel.receipt` reports it as the receipt's standing.",
        "http": "`GET /v1/receipts/{receipt}` reports it as the receipt's standing.",
    },
)
def verify_receipt(settings: Settings, options: ReceiptOptions, *, files: bool = False) -> Receipt:
    """Verify that a receipt is unchanged and signed by a trusted key.

    Exit status: 0 good, 3 unsigned, untrusted, revoked or tampered, 4 malformed.

    Raises:
        UnknownReceiptError: If there is none.
        MalformedError: If a file holds something else.
    """
    return show_receipt.run(settings, options, files=files)
