"""``satchel.Backups``: what ``satchel backup`` does, from Python."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypedDict, Unpack

from satchel.actions.backing_up.destinations import moment_said
from satchel.actions.backing_up.drilling import Drill, DrillOptions, drill_backup
from satchel.actions.backing_up.dropping import Dropped, prune_backups, rules_of
from satchel.actions.backing_up.listing import (
    BackupLine,
    VerifiedBackup,
    list_backups,
    verify_backups,
)
from satchel.actions.backing_up.restored import Restored, RestoreOptions
from satchel.actions.backing_up.restoring import restore_backup
from satchel.actions.backing_up.running import BackupOptions, BackupRun, run_backup
from satchel.actions.config import Settings, load_settings
from satchel.actions.signing import signing_key
from satchel.errors import TargetError
from satchel.seal.signing.key import SigningKey

Progress = Callable[[int, int], None]
"""Called with the records that are done, and how many there are."""


class RunArguments(TypedDict, total=False):
    """Optional arguments of ``Backups.run``."""

    to: Sequence[str | Path]
    """Destinations; those of the configuration when not given."""

    banks: Sequence[str]
    agents: Sequence[str]
    """Ids of agents, as configured: their banks and files."""

    files: bool
    """Whether memory files and the files of agents go along."""

    prune: bool
    """False keeps what the rules no longer do."""

    anew: bool
    """Whether everything is written again."""

    encrypt_to: Sequence[str]
    """For whom it is encrypted; as configured when not given."""

    plain: bool
    """True for one that is not encrypted, whatever is configured and whatever is there."""

    progress: Progress


class RestoreArguments(TypedDict, total=False):
    """Optional arguments of ``Backups.restore``."""

    source: str | Path
    """The destination that it is in; the first of the configuration when not given."""

    backup: str
    """Its name, or the start of it; the newest when not given."""

    at: str
    """A moment, ISO 8601, between backups too."""

    banks: Sequence[str]
    agents: Sequence[str]
    """Ids of agents: their banks and files."""

    workspace: str | Path
    """A folder for the files of the one agent that is named; nothing is configured then."""

    session: str
    """One conversation of one bank, and nothing else."""

    into: str | Path
    """The address of another store."""

    over: bool
    """Whether what is there gives way, once it was backed up."""

    accept_loss: bool
    """Whether this machine gives up what it saw beyond the backup."""

    files: bool
    signers: Sequence[str]
    """Keys that are believed for this, as did:key."""

    passphrase: str | None
    """Of the owner's key, where one is needed."""

    dry_run: bool
    progress: Progress


class Backups:
    """The backups of a store.

    Args:
        home: Where keys and trust are; ``SATCHEL_HOME`` or the platform's folder when not given.
        config: The configuration.
        store: The address of the store; the configured one when not given.
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

    def run(self, **said: Unpack[RunArguments]) -> BackupRun:
        """Back the store up to each destination, and read each backup again.

        Args:
            **said: See ``RunArguments``.

        Raises:
            ConfigError: If there is no destination.
            TargetError: If a backup failed, once all were tried; it says which.
        """
        options = BackupOptions(
            to=tuple(map(str, said.get("to", ()))),
            banks=tuple(said.get("banks", ())),
            agents=tuple(said.get("agents", ())),
            files=said.get("files"),
            prune=said.get("prune", True),
            anew=said.get("anew", False),
            encrypt_to=tuple(said.get("encrypt_to", ())),
            plain=said.get("plain", False),
            progress=said.get("progress"),
        )
        try:
            found = run_backup(self._settings, options)
        finally:
            self._settings.hooks.finish()
        for one in found.made:
            if one.error is not None:
                raise TargetError(f"a backup failed: {one.error}", file=one.destination)
        return found

    def verify(
        self, *wanted: str, to: Sequence[str | Path] = (), every: bool = False
    ) -> list[VerifiedBackup]:
        """Read backups again: the newest, those named, or all; ``error`` says what is wrong."""
        where = tuple(map(str, to))
        return verify_backups(self._settings, where, wanted=wanted, every=every)

    def restore(self, **said: Unpack[RestoreArguments]) -> Restored:
        """Put a backup back; see the command.

        Args:
            **said: See ``RestoreArguments``.

        Raises:
            UnknownBackupError: If there is no such backup.
            TargetExistsError: If something else is there, and ``over`` was not said.
            RolledBackError: If this machine saw more than the backup has, and that is not given up.
            VerificationError: If the backup does not hold, or nobody trusts its signer.
        """
        source, at, into = said.get("source"), said.get("at"), said.get("into")
        workspace = said.get("workspace")
        return restore_backup(
            self._settings,
            RestoreOptions(
                source=None if source is None else str(source),
                backup=said.get("backup"),
                at=None if at is None else moment_said(at),
                banks=tuple(said.get("banks", ())),
                agents=tuple(said.get("agents", ())),
                workspace=None if workspace is None else Path(workspace),
                session=said.get("session"),
                into=None if into is None else str(into),
                over=said.get("over", False),
                accept_loss=said.get("accept_loss", False),
                files=said.get("files", True),
                signers=tuple(said.get("signers", ())),
                owner=_owner(self._settings, said.get("passphrase")),
                dry_run=said.get("dry_run", False),
                progress=said.get("progress"),
            ),
        )

    def prune(
        self,
        *to: str | Path,
        days: int | None = None,
        keep_last: int | None = None,
        dry_run: bool = False,
    ) -> list[Dropped]:
        """Drop the backups that no rule keeps: those of the configuration, but for what is said.

        Raises:
            VerificationError: If the newest one does not hold any more; nothing is dropped then.
        """
        rules = rules_of(self._settings)
        rules = rules._replace(
            days=rules.days if days is None else days,
            last=rules.last if keep_last is None else keep_last,
        )
        return prune_backups(self._settings, tuple(map(str, to)), rules=rules, dry_run=dry_run)

    def drill(
        self, *, source: str | Path | None = None, backup: str | None = None, questions: int = 10
    ) -> Drill:
        """Restore a backup for a moment and compare it; ``is_good`` says whether it would do."""
        options = DrillOptions(
            source=None if source is None else str(source),
            backup=backup,
            questions=questions,
            owner=_owner(self._settings, None),
        )
        return drill_backup(self._settings, options)

    def list(self, *to: str | Path) -> list[BackupLine]:
        """Return the backups at some destinations, oldest first."""
        return list_backups(self._settings, tuple(map(str, to))).backups


def _owner(settings: Settings, passphrase: str | None) -> Callable[[], SigningKey]:
    return lambda: signing_key(settings, passphrase=passphrase)[0]
