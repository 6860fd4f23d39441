"""``satchel job``: imports that are running, or were interrupted."""

from collections.abc import Iterator
from contextlib import contextmanager

from satchel.bank.jobs import Job
from satchel.cli._console import count, line, message, state, table
from satchel.cli._operations import command
from satchel.cli._options import owner_key
from satchel.cli._progress import activity
from satchel.cli._tree import Group
from satchel.cli.imports import show_import
from satchel.transfer.import_operations import (
    ImportTarget,
    JobResumeOptions,
    cancel_job,
    list_jobs,
    resume_job,
)
from satchel.transfer.imports import JobCancelResult

jobs = Group("Imports that are running or were interrupted.")


def add_to(app: Group) -> None:
    """Add the commands of this module."""
    app.add(jobs, name="job")


@contextmanager
def _target(_: JobResumeOptions) -> Iterator[ImportTarget]:
    reading = activity.stage("reading", "bytes")
    yield ImportTarget(settings=state.settings, bank=None, owner=owner_key, on_reading=reading)


def _show_jobs(found: list[Job]) -> None:
    if not found:
        message("No import is running, and none was interrupted.")
        return
    rows: list[list[object]] = [[one.id, one.at[:19], one.state, *_shown(one)] for one in found]
    table(["job", "began", "state", "logged", "into", "from"], rows)


def _shown(job: Job) -> list[object]:
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
    context=_target,
    label="logging",
    status=lambda result: int(bool(result.unaccepted)),
)
command(jobs, cancel_job, _show_cancelled)
