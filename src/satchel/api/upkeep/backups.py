"""``satchel.Backups``: what ``satchel backup`` does, from Python."""

from satchel.actions.backing_up.drilling import drill_backup
from satchel.actions.backing_up.dropping import prune_backups
from satchel.actions.backing_up.kept.standing import backup_status
from satchel.actions.backing_up.listing import list_backups, verify_backups
from satchel.actions.backing_up.restoring import restore_backup
from satchel.actions.backing_up.running import BackupRun, run_backup
from satchel.actions.backing_up.setup import backup_setup
from satchel.api.operations import method
from satchel.api.settings import SettingsCalls
from satchel.errors import TargetError


def _require_success(run: BackupRun) -> None:
    for made in run.made:
        if made.error is not None:
            raise TargetError(f"a backup failed: {made.error}", file=made.destination)


class Backups(SettingsCalls):
    """The backups of a store."""

    run = method(run_backup, check=_require_success)
    list = method(list_backups)
    verify = method(verify_backups)
    restore = method(restore_backup)
    prune = method(prune_backups)
    drill = method(drill_backup)
    setup = method(backup_setup)
    status = method(backup_status)
