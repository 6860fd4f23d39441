"""``satchel backup``."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from satchel.actions.backing_up.drilling import drill_backup
from satchel.actions.backing_up.dropping import prune_backups
from satchel.actions.backing_up.listing import list_backups, verify_backups
from satchel.actions.backing_up.options import RestoreOptions
from satchel.actions.backing_up.restoring import restore_backup
from satchel.actions.backing_up.running import BackupRun, run_backup
from satchel.actions.backing_up.schedules.scheduling import keep_schedule, schedule_for
from satchel.actions.backing_up.schedules.timing import Kind
from satchel.actions.backing_up.setup import backup_setup
from satchel.actions.config import Settings
from satchel.actions.invocation import unwritten
from satchel.ports.operations import texts
from satchel.surfaces.cli._console import message, print_json, print_text, state
from satchel.surfaces.cli._operations import command
from satchel.surfaces.cli._options import Json, owner_keys
from satchel.surfaces.cli._proposals import proposed
from satchel.surfaces.cli._tree import Group, Option
from satchel.surfaces.cli.backing_up._showing import (
    show_backups,
    show_drill,
    show_pruned,
    show_restored,
    show_run,
    show_setup,
    show_verified,
)

_REFUSED = 3

backup = Group(help="Back up the store and its memory files.")


def add_to(app: Group) -> None:
    """Add the commands of this module."""
    app.add(backup, name="backup")


def _owners(options: Any) -> dict[str, Callable[[], Any]]:
    """Ask for the passphrases of the owners' keys, if they are needed."""
    return {"owners": partial(owner_keys, options.signing_key, texts(options.co_signers))}


@contextmanager
def _restore_context(options: RestoreOptions) -> Iterator[Settings]:
    path = None if options.propose is None else Path(options.propose)
    with proposed(path, as_json=state.json):
        yield state.settings


command(backup, run_backup, show_run, label="verifying", status=lambda run: run.exit_status)
command(backup, list_backups, show_backups)
command(
    backup,
    verify_backups,
    show_verified,
    label="verifying",
    status=lambda result: _REFUSED if any(each.error for each in result) else 0,
)
command(
    backup,
    restore_backup,
    show_restored,
    context=_restore_context,
    label="restoring",
    internal=_owners,
)
command(backup, prune_backups, show_pruned)
command(backup, backup_setup, show_setup)
command(
    backup,
    drill_backup,
    show_drill,
    label="restoring",
    internal=_owners,
    status=lambda drill: 0 if drill.is_good else _REFUSED,
)


@backup.command("schedule")
def schedule_command(
    print_for: Annotated[
        Kind | None,
        Option("--print", help="Only print what has the system make them, for this."),
    ] = None,
    as_json: Json = False,
) -> int:
    """Make backups when they are due, until it is ended; or print a timer that does.

    Example: `satchel backup schedule --print systemd`
    """
    if print_for is not None:
        text = schedule_for(state.settings, print_for, ["backup", "run"])
        if as_json:
            print_json({"kind": print_for, "text": text})
        else:
            print_text(text)
        for name in unwritten(state.settings):
            message(f"{name} holds a secret and is not in it: say it in {state.settings.file}")
        return 0

    def told(run: BackupRun) -> None:
        if as_json:
            print_json(run)
        else:
            show_run(run)

    def waiting(due: datetime) -> None:
        message(f"the next backup is due at {due.astimezone():%Y-%m-%d %H:%M}")

    return keep_schedule(state.settings, told=told, waiting=waiting)
