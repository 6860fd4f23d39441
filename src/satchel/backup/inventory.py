"""List and verify backups."""

from collections.abc import Iterator, Sequence

import msgspec

from satchel.backup.catalog import Catalog, ErasedRecord, StoredBackup, UndecryptedBackup
from satchel.backup.contents import verify_contents
from satchel.backup.destinations import (
    chosen_backup,
    destinations,
    is_trusted_signer,
    open_catalog,
    series_of,
)
from satchel.backup.options import BackupListOptions, BackupVerifyOptions
from satchel.backup.prune import count_erased
from satchel.bank.connections import writer_key
from satchel.bank.machine_keys import require_owner
from satchel.config.options import NOT_FOR_MODELS, OnProgress
from satchel.config.settings import Settings
from satchel.errors import EmptyInputError, VerificationError, shown_address
from satchel.ports.operations import operation, texts

UNOPENED = (
    "encrypted pieces were verified by hash only; to verify the signed log in them, pass an "
    "identity: satchel --identity FILE"
)
"""Note on an encrypted backup that could not be decrypted."""


class BackupLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One backup in a listing."""

    id: str
    at: str
    destination: str
    store: str
    banks: list[str]
    """Names of banks, otherwise IDs."""

    records: int
    files: list[str] = []
    """Keys of the memory files in it."""

    agents: list[str] = []
    """IDs of the agents in it."""

    verified: str | None = None
    """When it was verified."""

    own: bool = False
    """Whether it is of this machine and store."""

    believed: bool = False
    """Whether its signer is trusted here."""

    key: str
    holds_erased: int = 0
    """Number of records erased since; a restore erases them again."""

    missing: list[str] = []
    reason: str = ""
    encrypted: bool = False
    closed: bool = False
    """Whether no identity here decrypts it, so that its contents are unknown."""

    unopened: int = 0
    """Number of packs that could only be verified by the hash of their encrypted bytes."""


class BackupList(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All backups of some destinations, oldest first."""

    backups: list[BackupLine]
    problems: list[str] = []
    """Names of invalid backups."""

    def __iter__(self) -> Iterator[BackupLine]:
        return iter(self.backups)

    def __len__(self) -> int:
        return len(self.backups)

    def __getitem__(self, index: int) -> BackupLine:
        return self.backups[index]


class VerifiedBackup(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Result of verifying a backup."""

    id: str
    destination: str
    packs: int = 0
    unopened: int = 0
    """Number of packs that no identity here decrypts: only their encrypted bytes were verified."""

    records: int = 0
    error: str | None = None
    notes: list[str] = []


@operation(
    BackupListOptions,
    name="backup list",
    example="satchel backup list --destination /mnt/backups",
    absent=NOT_FOR_MODELS,
)
def list_backups(settings: Settings, options: BackupListOptions) -> BackupList:
    """List the backups at each destination, oldest first.

    Raises:
        ConfigError: If there is no destination.
        UnreadableError, TargetError: If one cannot be read.
    """
    require_owner(settings, "backup")
    lines, problems = list[BackupLine](), list[str]()
    for destination in destinations(settings, texts(options.destinations)):
        with open_catalog(settings, destination) as catalog:
            known = dict[str, dict[str, ErasedRecord]]()
            lines += [_line(settings, catalog, backup, known) for backup in catalog.all()]
            lines += [_closed_line(settings, catalog, backup) for backup in catalog.closed]
            problems += catalog.problems
    lines.sort(key=lambda line: (line.at, line.id))
    return BackupList(backups=lines, problems=problems)


@operation(
    BackupVerifyOptions,
    name="backup verify",
    example="satchel backup verify --all --destination /mnt/backups",
    items="backups",
    absent=NOT_FOR_MODELS,
)
def verify_backups(settings: Settings, options: BackupVerifyOptions) -> list[VerifiedBackup]:
    """Read backups back: every record is verified against the signed head, every pack by its hash.

    A valid backup of this machine is marked as verified; an invalid one loses the mark: later
    backups do not reuse it, and nothing older is removed because of it. Packs of an
    encrypted backup that nothing here decrypts are verified by their hash alone.

    Raises:
        EmptyInputError: If there is no backup.
        UnknownBackupError: If there is no backup with an ID.
        TargetError: If a destination does not answer.
    """
    require_owner(settings, "backup")
    requested, result = texts(options.backups), list[VerifiedBackup]()
    for destination in destinations(settings, texts(options.destinations)):
        with open_catalog(settings, destination) as catalog:
            for backup in _chosen(catalog, requested, every=options.all):
                result.append(_verified(settings, catalog, backup, options.progress))
            result += [
                VerifiedBackup(id=problem, destination=shown_address(destination), error=problem)
                for problem in catalog.problems
            ]
    return result


def _chosen(
    catalog: Catalog, requested: Sequence[str], *, every: bool
) -> list[StoredBackup | UndecryptedBackup]:
    readable = catalog.all()
    backups: list[StoredBackup | UndecryptedBackup] = [*readable, *catalog.closed]
    backups.sort(key=lambda backup: backup.id)
    if every:
        if not backups and not catalog.problems:
            raise EmptyInputError("there is no backup", file=catalog.name)
        return backups
    if requested:
        return [
            next((closed for closed in catalog.closed if closed.id.startswith(name)), None)
            or chosen_backup(readable, name, catalog)
            for name in requested
        ]
    if not backups and not catalog.problems:
        chosen_backup(readable, None, catalog)
    return backups[-1:]


def _verified(
    settings: Settings,
    catalog: Catalog,
    backup: StoredBackup | UndecryptedBackup,
    progress: OnProgress,
) -> VerifiedBackup:
    notes = (
        [] if is_trusted_signer(settings, backup.key) else [f"signed by {backup.key}: unknown key"]
    )
    result = VerifiedBackup(id=backup.id, destination=shown_address(catalog.name), notes=notes)
    if isinstance(backup, UndecryptedBackup):
        return _verify_stored(catalog, backup, result)
    mine = backup.manifest.series == series_of(settings) and backup.key == writer_key(settings).did
    result = msgspec.structs.replace(
        result,
        records=sum(part.size for part in backup.manifest.banks),
        notes=[*notes, *backup.manifest.missing],
    )
    try:
        counts = verify_contents(backup.manifest, catalog.packs(backup), progress)
    except VerificationError as error:
        if mine:
            catalog.unmark(backup)
        return msgspec.structs.replace(result, error=str(error))
    if mine and not backup.manifest.missing:
        catalog.mark(backup, counts, writer_key(settings))
    if counts.unopened:
        result.notes.append(UNOPENED)
    return msgspec.structs.replace(result, packs=counts.packs, unopened=counts.unopened)


def _verify_stored(
    catalog: Catalog, backup: UndecryptedBackup, result: VerifiedBackup
) -> VerifiedBackup:
    """Verify the packs of an undecryptable backup by its signed cover."""
    try:
        number = sum(1 for _ in catalog.verify_stored(backup))
    except VerificationError as error:
        return msgspec.structs.replace(result, error=str(error))
    result.notes.append(UNOPENED)
    return msgspec.structs.replace(result, packs=number, unopened=number)


def _line(
    settings: Settings,
    catalog: Catalog,
    backup: StoredBackup,
    known: dict[str, dict[str, ErasedRecord]],
) -> BackupLine:
    manifest = backup.manifest
    return BackupLine(
        id=backup.id,
        at=manifest.at,
        destination=shown_address(catalog.name),
        store=manifest.store,
        banks=[part.name or part.bank for part in manifest.banks],
        records=sum(part.size for part in manifest.banks),
        files=[part.key for part in manifest.files],
        agents=[part.id for part in manifest.agents],
        verified=backup.verified,
        own=manifest.series == series_of(settings),
        believed=is_trusted_signer(settings, backup.key),
        key=backup.key,
        holds_erased=count_erased(catalog, backup, known),
        missing=manifest.missing,
        reason=manifest.reason,
        encrypted=backup.cover is not None,
        unopened=backup.unopened,
    )


def _closed_line(settings: Settings, catalog: Catalog, closed: UndecryptedBackup) -> BackupLine:
    return BackupLine(
        id=closed.id,
        at=closed.at,
        destination=shown_address(catalog.name),
        store="",
        banks=[],
        records=0,
        verified=closed.verified,
        own=closed.cover.series == series_of(settings),
        believed=is_trusted_signer(settings, closed.key),
        key=closed.key,
        encrypted=True,
        closed=True,
        unopened=closed.unopened,
    )
