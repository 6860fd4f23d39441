"""Classes for the operations on the settings: agents, backups and keys."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from satchel.agents import operations
from satchel.api.operations import method
from satchel.backup.destinations import backup_setup, backup_status
from satchel.backup.drill import drill_backup
from satchel.backup.inventory import list_backups, verify_backups
from satchel.backup.prune import prune_backups
from satchel.backup.restore import restore_backup
from satchel.backup.run import BackupRun, run_backup
from satchel.bank.key_operations import create_key, export_key, import_key, list_keys
from satchel.config.settings import Settings, load_settings
from satchel.errors import TargetError

FilePath = str | Path | None


class SettingsCalls:
    """Base of classes whose methods are operations on the settings."""

    def __init__(
        self, *, home: FilePath = None, config: FilePath = None, store: FilePath = None
    ) -> None:
        """Read the settings.

        Args:
            home: Folder of keys and trust; ``SATCHEL_HOME`` or the platform's folder by default.
            config: Configuration file.
            store: Address of the store; the configured one by default.
        """
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


class Agents(SettingsCalls):
    """The agents of the configuration: each with its memory, conversations, files and settings."""

    show = method(operations.show_agent)
    export = method(operations.export_agent)
    import_ = method(operations.import_agent)
    list = method(operations.list_agents)


def _require_success(run: BackupRun) -> None:
    for backup in run.made:
        if backup.error is not None:
            raise TargetError(f"a backup failed: {backup.error}", file=backup.destination)


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


class Keys(SettingsCalls):
    """The signing keys of a home, and the keys that it trusts."""

    def __init__(self, *, home: FilePath = None, config: FilePath = None) -> None:
        """Read the settings.

        Args:
            home: Folder of keys and trust; ``SATCHEL_HOME`` or the platform's folder by default.
            config: Configuration file.
        """
        super().__init__(home=home, config=config)

    create = method(create_key)
    list = method(list_keys)
    export = method(export_key)
    import_ = method(import_key)
