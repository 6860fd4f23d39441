"""``satchel job``: imports that are under way, or were cut short."""

from typing import Annotated

from satchel.actions.importing import jobs as actions
from satchel.jobs.job import Job
from satchel.surfaces.cli._console import count, line, message, print_json, progress, state, table
from satchel.surfaces.cli._options import Json, Owner, owner_key
from satchel.surfaces.cli._tree import Argument, Group, Option
from satchel.surfaces.cli.importing import show_import

Wanted = Annotated[str, Argument(metavar="JOB", help="Its id, or the start of it.")]

jobs = Group("Imports that are running or were interrupted.")


def add_to(app: Group) -> None:
    """Add the commands of this module."""
    app.add(jobs, name="job")


@jobs.command("list")
def list_command(as_json: Json = False) -> None:
    """List the imports that are running or were interrupted.

    Nobody sees anything of them until they are complete: resume them, or cancel them.

    Example: `satchel job list`
    """
    found = actions.list_jobs(state.settings)
    if as_json:
        print_json(found)
    elif not found:
        message("Nothing is under way, and nothing was cut short.")
    else:
        rows: list[list[object]] = [[one.id, one.at[:19], one.state, *_shown(one)] for one in found]
        table(["job", "began", "", "logged", "into", "from"], rows)


def _shown(job: Job) -> list[object]:
    of = f" of {job.total:,}" if job.total else ""
    banks = ", ".join(part.name or part.bank for part in job.parts)
    return [f"{job.done:,}{of}", banks, job.input or "standard input"]


@jobs.command("resume")
def resume_command(wanted: Wanted, key: Owner = None, as_json: Json = False) -> int:
    """Go on with an import that was cut short, with the options that it was begun with.

    Example: `satchel job resume 3f9a2c`
    """
    with (
        progress("reading", True) as reading,
        progress("logging", True, records=True) as logging,
    ):
        found = actions.resume_job(
            state.settings,
            wanted,
            lambda: owner_key(key),
            on_reading=reading,
            on_logging=logging,
        )
    return show_import(found, as_json=as_json)


@jobs.command("cancel")
def cancel_command(
    wanted: Wanted,
    reason: Annotated[str | None, Option("--reason", help="For whoever reads the log.")] = None,
    as_json: Json = False,
) -> None:
    """Take back what an import logged that was cut short; nobody had seen any of it.

    Example: `satchel job cancel 3f9a2c`
    """
    done = actions.cancel_job(state.settings, wanted, reason=reason)
    if as_json:
        print_json(done)
    else:
        line(f"took back {count(done.records, 'record')} of {done.job.id}")
