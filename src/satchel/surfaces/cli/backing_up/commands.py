"""``satchel backup``."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

from satchel.actions.backing_up.drilling import drill_backup
from satchel.actions.backing_up.dropping import prune_backups
from satchel.actions.backing_up.listing import list_backups, verify_backups
from satchel.actions.backing_up.restoring import restore_backup
from satchel.actions.backing_up.running import run_backup
from satchel.actions.backing_up.schedules.scheduling import Scheduled, schedule_backups
from satchel.actions.backing_up.setup import backup_setup
from satchel.actions.invocation import Timer
from satchel.surfaces.cli._console import message, print_json, state
from satchel.surfaces.cli._operations import command
from satchel.surfaces.cli._tree import Group
from satchel.surfaces.cli.backing_up._showing import (
    show_backups,
    show_drill,
    show_pruned,
    show_restored,
    show_run,
    show_setup,
    show_verified,
)
from satchel.surfaces.cli.operating._timers import show_timer

_REFUSED = 3

backup = Group(help="Back up the store and its memory files.")


def add_to(app: Group) -> None:
    """Add the commands of this module."""
    app.add(backup, name="backup")


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
    label="restoring",
)
command(backup, prune_backups, show_pruned)
command(backup, backup_setup, show_setup)
command(
    backup,
    drill_backup,
    show_drill,
    label="restoring",
    status=lambda drill: 0 if drill.is_good else _REFUSED,
)


def _report(_: Any) -> dict[str, Callable[[Any], None]]:
    def waiting(due: datetime) -> None:
        message(f"the next backup is due at {due.astimezone():%Y-%m-%d %H:%M}")

    return {"told": print_json if state.json else show_run, "waiting": waiting}


def _show_scheduled(result: Scheduled | Timer) -> None:
    if isinstance(result, Timer):
        show_timer(result)


command(
    backup,
    schedule_backups,
    _show_scheduled,
    label=None,
    internal=_report,
    status=lambda result: 0 if isinstance(result, Timer) else result.exit_status,
)
