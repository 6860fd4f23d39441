"""``satchel.Backups``: what ``satchel backup`` does, from Python."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from satchel.actions.backing_up.drilling import drill_backup
from satchel.actions.backing_up.dropping import prune_backups
from satchel.actions.backing_up.kept.standing import backup_status
from satchel.actions.backing_up.listing import list_backups, verify_backups
from satchel.actions.backing_up.restoring import restore_backup
from satchel.actions.backing_up.running import BackupRun, run_backup
from satchel.actions.backing_up.setup import backup_setup
from satchel.actions.config import Settings, load_settings
from satchel.api.operations import method
from satchel.errors import TargetError


def _require_success(run: BackupRun) -> None:
    for made in run.made:
        if made.error is not None:
            raise TargetError(f"a backup failed: {made.error}", file=made.destination)


class Backups:
    """The backups of a store.

    Args:
        home: Folder of keys and trust; ``SATCHEL_HOME`` or the platform's folder by default.
        config: Configuration file.
        store: Address of the store; the configured one by default.
    """

    def __init__(
        self,
        *,
        home: str | Path | None = None,
        config: str | Path | None = None,
        store: str | Path | None = None,
    ) -> None:
        self._settings = load_settings(
            home=None if home is None else Path(home),
            config=None if config is None else Path(config),
            store=None if store is None else str(store),
        )

    @contextmanager
    def _context(self) -> Iterator[Settings]:
        try:
            yield self._settings
        finally:
            self._settings.hooks.finish()

    run = method(run_backup, check=_require_success)
    list = method(list_backups)
    verify = method(verify_backups)
    restore = method(restore_backup)
    prune = method(prune_backups)
    drill = method(drill_backup)
    setup = method(backup_setup)
    status = method(backup_status)
