"""``satchel import``, ``undo`` and ``job``."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Any

from satchel.agents.imports import undo
from satchel.bank.jobs import Job
from satchel.cli._console import (
    activity,
    count,
    excerpt,
    line,
    message,
    print_facts,
    short_time,
    state,
    table,
)
from satchel.cli._operations import command, open_to_write
from satchel.cli._options import (
    owner_key,
    report_receipts,
    report_refused,
    report_secrets,
    show_plan,
)
from satchel.cli._tree import Group
from satchel.config.options import OWN
from satchel.ports.operations import Option, Options, PathText
from satchel.receipts.receipt import undo_command
from satchel.transfer.import_operations import (
    ImportRequest,
    ImportTarget,
    JobResumeOptions,
    cancel_job,
    import_,
    list_jobs,
    resume_job,
)
from satchel.transfer.import_results import BankImportResult, ImportSummary
from satchel.transfer.imports import ImportLine, JobCancelResult, UndoResult

_PAIRS = 20

_WORDS = {
    "added": "{} added",
    "restored": "{} restored",
    "overwritten": "of these, {} superseding another version",
    "renamed": "of these, {} under a new ID, beside another version",
    "merged": "of these, {} superseding near-duplicates",
    "known": "{} unchanged",
    "redacted": "of these, {} redacted here",
    "returned": "of these, {} complete again; they were redacted before",
    "forgotten": "{} forgotten here; --on-conflict overwrite restores them",
    "twice": "{} more than once in the file",
    "skipped": "{} skipped, as the bank has another version; --on-conflict overwrite replaces it",
    "near": "{} skipped, as near-duplicates of memories in the bank",
    "vanished": "{} deleted, as the source no longer has them",
    "past": "{} older or deleted versions added to the history",
}
"""Texts for counts of memories."""

_OF_OTHERS = {
    "conversations": ("conversation", "added"),
    "messages": ("message", "added"),
    "beside": ("other record", "added"),
    "others_known": ("other record", "unchanged"),
    "others_twice": ("other record", "more than once in the file"),
    "others_skipped": ("other record", "skipped, as the bank has another version"),
    "others_overwritten": ("other record", "superseding another version"),
    "others_renamed": ("other record", "under a new ID, beside another version"),
    "others_vanished": ("other record", "deleted, as the source no longer has them"),
    "unjoined": ("link", "skipped, as one end is missing"),
}
"""Texts for counts of conversations, messages, links, sources and the like."""


def add_to(app: Group) -> None:
    """Add the commands of this module."""
    command(
        app,
        import_,
        show_import,
        bank=_target,
        bank_help="Bank to import everything into; created if missing.",
        label="logging",
        extra=Input,
        prepare=_prepare,
        status=lambda result: int(bool(result.unaccepted)),
    )
    command(app, undo, _show_undone, bank=open_to_write, label="undoing")
    app.add(jobs, name="job")


@dataclass(frozen=True, slots=True, kw_only=True)
class Input(Options):
    """Another way to name the file."""

    input: Annotated[PathText | None, Option("File to read, as an option.", metavar="FILE")] = None


def _prepare(values: dict[str, Any], other: Input) -> None:
    values["path"] = other.input or values["path"]


@contextmanager
def _target(bank: str | None, *_: ImportRequest | Input) -> Iterator[ImportTarget]:
    yield ImportTarget(
        settings=state.settings,
        bank=bank,
        owner=owner_key,
        permission=OWN,
        reads_stdin=True,
        on_reading=activity.stage("reading", "bytes"),
    )


def show_import(summary: ImportSummary, _: Input | None = None) -> int:
    """Print the result of an import, and return its exit status."""
    would = "would import" if summary.dry_run else "imported" if summary.changed else "read"
    read = sum(bank.done.read for bank in summary.banks)
    line(f"{would} {count(read, 'record')} from {summary.input} ({summary.source_format})")
    for bank in summary.banks:
        _show_bank(bank)
    created = sum(bank.made for bank in summary.banks)
    if created > 1:
        message(
            f"created {created:,} banks; the default bank is unchanged. To change it: satchel bank"
            " use NAME"
        )
    for loss in summary.losses:
        message(f"lost: {loss.name}, {loss.count:,}: {loss.reason}")
    report_refused(summary.refused)
    _show_near(summary)
    report_secrets(summary.secrets, summary.secrets_kept)
    for note in summary.notes:
        message("note: ", note)
    if summary.advice is not None:
        message(summary.advice)
    if summary.plan is not None:
        show_plan(summary.plan)
    elif not summary.changed:
        line("nothing changed")
    return report_receipts(summary.receipts, summary.unaccepted)


def _show_near(summary: ImportSummary) -> None:
    if summary.near_found:
        message(f"{count(summary.near_found, 'memory')} the bank has in other words:")
    for pair in summary.near[:_PAIRS]:
        message(
            f"  {pair.similarity:.3f}  ", excerpt(pair.text), "  like  ", excerpt(pair.like_text)
        )
    if len(summary.near) > _PAIRS:
        message("  and more: --json has them")


def _show_bank(bank: BankImportResult) -> None:
    new = " (new)" if bank.made or bank.bank is None else ""
    rows: list[tuple[str, object]] = [("bank", f"{bank.name or bank.bank}{new}")]
    for name, words in _WORDS.items():
        number = getattr(bank.done, name)
        if number:
            rows.append(("", words.format(count(number, "memory"))))
    for name, (noun, words) in _OF_OTHERS.items():
        number = getattr(bank.done, name)
        if number:
            rows.append(("", f"{count(number, noun)} {words}"))
    for name, number in bank.done.left.items():
        rows.append(("", f"{count(number, name + ' record')} ignored: part of the other log"))
    if bank.resumed:
        rows.append(("", f"resumed: {count(bank.resumed, 'record')} had been logged before"))
    if bank.reused is not None and bank.reused.reused:
        rows.append(("vectors", f"{bank.reused.reused:,} included ({bank.reused.model})"))
    if bank.embedded is not None:
        embedded = bank.embedded
        rows.append(
            ("vectors", f"{embedded.made:,} made, {embedded.kept:,} unchanged ({embedded.model})")
        )
    if bank.source is not None:
        rows.append(("undo", undo_command(bank.source, bank.bank, bank.name)))
    print_facts(rows)


def show_imports(lines: list[ImportLine]) -> None:
    """Print the imports into a bank."""
    if not lines:
        message("This bank has no imports. To import a file: satchel import FILE")
        return
    rows: list[list[object]] = [
        [short_time(one.at), one.format, one.records, one.state, one.source] for one in lines
    ]
    table(["began", "format", "records", "state", "import"], rows)


def _show_undone(done: UndoResult) -> None:
    if done.already:
        message("This import was already undone.")
        return
    would = "would remove" if done.dry_run else "removed"
    line(f"{would} {count(done.records, 'record')} of {done.source}")
    if done.agent:
        message(f"also the files and settings of the agent {done.agent}")
    for name in done.stays:
        message("not removed, as it was changed since: ", name)
    if done.replaced:
        message(f"not restored, as newer versions exist: {count(len(done.replaced), 'memory')}")


jobs = Group("Manage imports that are running or were interrupted.")


@contextmanager
def _job_target(_: JobResumeOptions) -> Iterator[ImportTarget]:
    reading = activity.stage("reading", "bytes")
    yield ImportTarget(settings=state.settings, bank=None, owner=owner_key, on_reading=reading)


def _show_jobs(jobs: list[Job]) -> None:
    if not jobs:
        message("No import is running, and none was interrupted.")
        return
    rows: list[list[object]] = [
        [job.id, short_time(job.at), job.state, *_job_columns(job)] for job in jobs
    ]
    table(["job", "began", "state", "logged", "into", "from"], rows)


def _job_columns(job: Job) -> list[object]:
    of = f" of {job.total:,}" if job.total else ""
    banks = ", ".join(part.name or part.bank for part in job.parts)
    return [f"{job.done:,}{of}", banks, job.input or "standard input"]


def _show_cancelled(done: JobCancelResult) -> None:
    line(f"removed {count(done.records, 'record')} of {done.job.id}")


command(jobs, list_jobs, _show_jobs)
command(
    jobs,
    resume_job,
    show_import,
    context=_job_target,
    label="logging",
    status=lambda result: int(bool(result.unaccepted)),
)
command(jobs, cancel_job, _show_cancelled)
