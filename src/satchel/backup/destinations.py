"""Destinations of backups: configuration, series, trust, locks, and the status of their backups."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from blake3 import blake3

from satchel.agents.agents import Agent, agent_called
from satchel.backup.catalog import Catalog, StoredBackup
from satchel.backup.manifests import BEFORE_RESTORE, BankBackup
from satchel.backup.storage import PackEncryption, open_storage
from satchel.bank.checks import Check
from satchel.bank.connections import writer_key, written_place
from satchel.bank.machine_keys import create_identity, list_identities, lock_for, require_owner
from satchel.config.files import is_yaml, read_file
from satchel.config.options import NOT_FOR_MODELS
from satchel.config.settings import Settings
from satchel.errors import (
    ConfigError,
    EmptyInputError,
    EncryptionError,
    SatchelError,
    UnknownBackupError,
    UnknownBankError,
    VerificationError,
    shown_address,
)
from satchel.model.values import now, read_time, resolved, tool_version
from satchel.ports.operations import Option, Options, operation
from satchel.receipts.archive import save_receipts, signer
from satchel.receipts.receipt import (
    VERSION,
    ReceiptBody,
    TransferEnd,
    combine_counts,
    receipt_of,
    receipt_text,
)
from satchel.runtime.files import PRIVATE_FILE, atomic_write, open_input
from satchel.runtime.locks import ProcessLock
from satchel.runtime.private_files import private_folder

_DIGITS = 16
_LEAST_DIGITS = 4


def destinations(
    settings: Settings, requested: Sequence[str] = (), *, option: str = "--destination"
) -> tuple[str, ...]:
    """Return the destinations: the given ones, otherwise the configured ones.

    Args:
        settings: Settings of the machine.
        requested: The given ones.
        option: Option that names them, for the error.

    Raises:
        ConfigError: If there is none.
    """
    configured_or_requested = requested or settings.options.backup.destinations
    addresses = tuple(dict.fromkeys(map(_absolute, configured_or_requested)))
    if not addresses:
        raise ConfigError(
            "no backup destination is configured",
            field="backup.destination",
            hint=f'Add {option} FOLDER, or set it: [backup] destination = "/mnt/backups".',
        )
    return addresses


def source_destination(settings: Settings, requested: str | None) -> str:
    """Return the destination to read from: the given one, otherwise the first configured one.

    Raises:
        ConfigError: If there is none.
    """
    return destinations(settings, () if requested is None else (requested,))[0]


def _absolute(address: str) -> str:
    """Return a destination as an absolute name."""
    return address if "://" in address else str(Path(address).expanduser().absolute())


def series_of(settings: Settings) -> str:
    """Return the series of backups of this machine and store."""
    identity = f"{writer_key(settings).did}\0{written_place(settings.store)}"
    return blake3(identity.encode()).hexdigest()[:_DIGITS]


def state_of(settings: Settings, destination: str) -> Path:
    """Return the path of the status file of a destination, without its suffix."""
    digest = blake3(f"{series_of(settings)}\0{destination}".encode()).hexdigest()
    return settings.state / "backups" / digest[:_DIGITS]


@contextmanager
def open_catalog(
    settings: Settings,
    destination: str,
    *,
    create: bool = False,
    recipients: Sequence[str] | None = None,
) -> Iterator[Catalog]:
    """Open a destination; it is closed at the end of the block.

    Args:
        settings: Settings of the machine.
        destination: The destination.
        create: Create it if it is missing.
        recipients: Recipients that new data is encrypted to; as configured by default.

    Raises:
        UnreadableError: If it does not exist and is not to be created.
        UsageError: If a recipient is invalid.
        TargetError: If it cannot be opened.
    """
    requested = settings.options.backup.encrypt_to if recipients is None else recipients
    to = lock_for(settings, requested or ()).recipients
    shelf = open_storage(destination, create=create)
    try:
        own = _own_recipient(settings) if to else None
        yield Catalog(shelf, PackEncryption(settings.unlocking, to, own))
    finally:
        shelf.close()


def _own_recipient(settings: Settings) -> str:
    """Return the recipient of this machine's identity for backups, which is created if missing.

    It decrypts the indexes of a backup, but not its contents.
    """
    name = f"backups-{series_of(settings)}"
    known = {line.name: line.recipient for line in list_identities(settings)}
    return known.get(name) or create_identity(settings, name).recipient


@contextmanager
def backup_lock(settings: Settings, destination: str, purpose: str) -> Iterator[None]:
    """Lock a destination against other programs of this machine.

    Raises:
        LockedError: If another program has the lock.
    """
    path = state_of(settings, destination).with_suffix(".lock")
    private_folder(settings.state)
    private_folder(path.parent)
    with ProcessLock(path, purpose=purpose).exclusive():
        yield


def require_trusted(settings: Settings, backup: StoredBackup, signers: Sequence[str] = ()) -> None:
    """Require that a trusted key, or one of the given keys, signed a backup.

    Raises:
        VerificationError: If it was not.
    """
    if is_trusted_signer(settings, backup.key, signers):
        return
    raise VerificationError(
        f"the backup {backup.id} is signed by {backup.key}, which is not trusted here",
        hint=f"If you recognize the key: --trust-key {backup.key}",
    )


def is_trusted_signer(settings: Settings, key: str, signers: Sequence[str] = ()) -> bool:
    """Return whether signatures of a key at a destination are trusted."""
    known = settings.registry.find(key)
    if known is not None and known.state == "revoked":
        return False
    return key in signers or (known is not None and not known.banks)


def chosen_backup(
    backups: Sequence[StoredBackup],
    requested: str | None,
    catalog: Catalog,
    *,
    bank: str | None = None,
    agents: Sequence[str] = (),
) -> StoredBackup:
    """Return the backup with an ID or prefix, otherwise the newest verified one.

    Safety copies of earlier restores are only returned if there is nothing else.

    Args:
        backups: The backups.
        requested: ID or prefix.
        catalog: Catalog of the destination.
        bank: Name or ID of a bank that the newest must have.
        agents: IDs of agents that it must have, if any backup does.

    Raises:
        UnknownBackupError: If there is no such backup.
        EmptyInputError: If there are no backups.
        EncryptionError: If no identity here decrypts it.
    """
    where = catalog.name
    _require_opened(backups, requested, catalog)
    if not backups:
        raise EmptyInputError(
            "there is no backup", file=where, hint="Create one: satchel backup run"
        )
    if requested is not None:
        named = [backup for backup in backups if backup.id == requested]
        if not named and len(requested) >= _LEAST_DIGITS:
            named = [
                backup
                for backup in backups
                if backup.id.startswith(requested) or backup.id.endswith(requested)
            ]
        if len(named) != 1:
            raise UnknownBackupError(
                f"no backup matches {requested!r}" if not named else f"{requested!r} means several",
                file=where,
                hint="See: satchel backup list.",
            )
        return named[0]
    holding = [backup for backup in backups if bank is None or _has_bank(backup, bank)]
    if bank is not None and not holding:
        raise UnknownBankError(
            f"no backup has the bank {bank!r}", file=where, hint="See: satchel backup list."
        )
    ids = set(agents)
    holding = [
        backup for backup in holding if ids <= {part.id for part in backup.manifest.agents}
    ] or holding
    # A safety copy holds what a restore replaced; it is restored only by its ID.
    holding = [backup for backup in holding if backup.manifest.reason != BEFORE_RESTORE] or holding
    sound = [backup for backup in holding if backup.verified] or holding
    return sound[-1]


def _require_opened(
    backups: Sequence[StoredBackup], requested: str | None, catalog: Catalog
) -> None:
    closed = catalog.closed
    if requested is not None:
        closed = [
            backup
            for backup in closed
            if backup.id.startswith(requested) or backup.id.endswith(requested)
        ]
    if closed and (requested is not None or not backups):
        raise EncryptionError(
            f"the backup {closed[-1].id} is encrypted, and no identity here decrypts it",
            file=catalog.name,
            hint="Pass an identity it was encrypted to: satchel --identity FILE.",
        )


def _has_bank(backup: StoredBackup, bank: str) -> bool:
    return any(bank in (part.bank, part.name) for part in backup.manifest.banks)


def parse_moment(text: str) -> str:
    """Return the time in a text.

    Raises:
        ConfigError: If it is not a time.
    """
    moment = read_time(text.strip())
    if moment is None:
        raise ConfigError(
            f"{text!r} is not a valid time", field="at", hint="Such as 2026-01-31T12:00:00Z."
        )
    return moment


_EXAMPLE = "/mnt/backups"
_TABLE = "backup"


@dataclass(frozen=True, slots=True)
class SetupOptions(Options):
    """Destination for the lines to add."""

    destination: Annotated[
        str,
        Option(
            "Folder or object-store address for the lines to add, such as s3://BUCKET/PREFIX.",
            argument=True,
            max_length=1000,
        ),
    ] = _EXAMPLE


class BackupSetup(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How backups are configured."""

    file: str
    """The configuration file, which need not exist."""

    file_exists: bool
    enabled: bool
    """Whether backups are expected on a schedule."""

    schedule: str
    destinations: list[str]
    """Without passwords."""

    under: str | None = None
    """Table that the file already has, under which the lines belong."""

    lines: str
    """Lines to add to the file."""

    problem: str | None = None
    """Why the configuration cannot be used."""


@operation(
    SetupOptions,
    name="backup setup",
    example="satchel backup setup /mnt/backups",
    absent=NOT_FOR_MODELS,
)
def backup_setup(settings: Settings, options: SetupOptions) -> BackupSetup:
    """Show how backups are configured, and which lines to add to which file.

    Nothing is written: where backups go is decided by the operator of the machine.
    """
    require_owner(settings, "backup")
    configured, destinations, problem = settings.options.backup, tuple[str, ...](), None
    try:
        destinations = configured.destinations
    except SatchelError as error:
        problem = error.message
    has_table = _has_table(settings.file)
    return BackupSetup(
        file=str(settings.file),
        file_exists=settings.file.exists(),
        enabled=configured.enabled,
        schedule=configured.schedule,
        destinations=[shown_address(destination) for destination in destinations],
        under=(f"{_TABLE}:" if is_yaml(settings.file) else f"[{_TABLE}]") if has_table else None,
        lines=_lines(settings.file, options.destination, has_table=has_table),
        problem=problem,
    )


def _has_table(file: Path) -> bool:
    with suppress(SatchelError):
        return _TABLE in read_file(file).table
    return False


def _lines(file: Path, destination: str, *, has_table: bool) -> str:
    """Return the lines to add; JSON strings are valid in TOML and YAML."""
    text = json.dumps(destination)
    if is_yaml(file):
        head, lines = f"{_TABLE}:", ["  enabled: true", f"  destination: {text}"]
    else:
        head, lines = f"[{_TABLE}]", ["enabled = true", f"destination = {text}"]
    return "\n".join([*([] if has_table else [head]), *lines, ""])


_MOST_BYTES = 1 << 16
_RUN = "Make one now: satchel backup run"


class DestinationStatus(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Status of the last backups to a destination."""

    destination: str
    id: str | None = None
    """ID of the last verified backup."""

    at: str | None = None
    """Time of the last verified backup."""

    failed_at: str | None = None
    """Time of a later failure."""

    error: str | None = None


def read_status(settings: Settings, destination: str) -> DestinationStatus:
    """Return the status of the last backups from here to a destination."""
    path = state_of(settings, destination).with_suffix(".json")
    with suppress(SatchelError, msgspec.DecodeError), open_input(path) as stream:
        return msgspec.json.decode(stream.read(_MOST_BYTES), type=resolved(DestinationStatus))
    return DestinationStatus(destination=shown_address(destination))


def known_destinations(settings: Settings) -> list[str]:
    """Return the destinations of this store's backups, configured or used before.

    A destination whose address has a password is known only while it is configured.
    """
    known = list[str]()
    folder = settings.state / "backups"
    for path in sorted(folder.glob("*.json")) if folder.is_dir() else ():
        with suppress(SatchelError, msgspec.DecodeError), open_input(path) as stream:
            destination = msgspec.json.decode(
                stream.read(_MOST_BYTES), type=resolved(DestinationStatus)
            ).destination
            if state_of(settings, destination).with_suffix(".json") == path:
                known.append(destination)
    return known


def succeeded(settings: Settings, destination: str, identity: str, at: str) -> None:
    """Record a verified backup and its time."""
    _write_status(
        settings,
        destination,
        DestinationStatus(destination=shown_address(destination), id=identity, at=at),
    )


def failed(settings: Settings, destination: str, error: str) -> None:
    """Record a failed backup."""
    before = read_status(settings, destination)
    status = msgspec.structs.replace(before, failed_at=now(), error=error)
    _write_status(settings, destination, status)


def _write_status(settings: Settings, destination: str, status: DestinationStatus) -> None:
    path = state_of(settings, destination).with_suffix(".json")
    with suppress(SatchelError, OSError):  # a full disk: the run reports its own result
        private_folder(settings.state)
        private_folder(path.parent)
        with atomic_write(path, mode=PRIVATE_FILE) as stream:
            stream.write(msgspec.json.encode(status))


@dataclass(frozen=True, slots=True)
class BackupStatusOptions(Options):
    """No options."""


@operation(
    BackupStatusOptions,
    name="backup status",
    items="checks",
    absent=NOT_FOR_MODELS | {"cli": "`satchel doctor` reports it, with its other checks."},
)
def backup_status(settings: Settings, options: BackupStatusOptions) -> list[Check]:
    """Check that the newest backup at each configured destination is recent enough.

    The destinations themselves are not read.

    Args:
        settings: Settings of the machine.
        options: No options.
    """
    del options
    return list(check_backups(settings))


def check_backups(settings: Settings, moment: datetime | None = None) -> Iterator[Check]:
    """Check whether the newest backup at each configured destination is recent enough.

    The destinations themselves are not read.

    Args:
        settings: Settings of the machine.
        moment: The current time; by default that of the clock.
    """
    require_owner(settings, "doctor")
    configured = settings.options.backup
    try:
        addresses = configured.destinations
    except SatchelError as error:
        yield Check(name="backups", state="problem", detail=error.message, hint=error.hint)
        return
    if not addresses:
        if configured.enabled:
            hint = 'Set it: [backup] destination = "/mnt/backups".'
            yield Check(name="backups", state="problem", detail="no destination", hint=hint)
        return
    for destination in destinations(settings):
        yield _check_destination(settings, destination, moment or datetime.now(UTC))


def _check_destination(settings: Settings, destination: str, moment: datetime) -> Check:
    status, name = read_status(settings, destination), f"backup to {shown_address(destination)}"
    enabled = settings.options.backup.enabled
    if status.error is not None:
        detail = f"the last backup failed at {status.failed_at}: {status.error}"
        return Check(name=name, state="problem", detail=detail, hint=_RUN)
    if status.at is None:
        detail = "no backup has been made from this machine"
        return Check(name=name, state="problem" if enabled else "note", detail=detail, hint=_RUN)
    age = moment - datetime.fromisoformat(status.at)
    detail = f"{status.id}, verified {status.at}"
    if enabled and age > timedelta(hours=settings.options.backup.stale_after):
        hours = int(age.total_seconds() // 3600)
        detail = f"the newest is {hours} hours old: {detail}"
        return Check(name=name, state="problem", detail=detail, hint=_RUN)
    return Check(name=name, state="ok", detail=detail)


FORMAT = "satchel-backup"
_PREFIX = "blake3:"


def receipt_body(
    kind: Literal["restore", "drill"],
    began: str,
    ends: tuple[TransferEnd, TransferEnd],
    counts: dict[str, int],
    *,
    differs: bool = False,
) -> ReceiptBody:
    """Return the receipt body for one bank; the caller sets the other members.

    Args:
        kind: Restore or drill.
        began: Start time.
        ends: The backup, and the target or what it was compared with.
        counts: Number of restored records by type; all of them were read back.
        differs: Whether what was read back differs.
    """
    return ReceiptBody(
        version=VERSION,
        kind=kind,
        tool=tool_version(),
        began=began,
        ended=now(),
        input=ends[0],
        output=ends[1],
        counts=combine_counts(counts, counts, counts, counts),
        read_back="differs" if differs else "verified",
    )


def backup_end(backup: StoredBackup, part: BankBackup) -> TransferEnd:
    """Return a bank in a backup as one end of a transfer."""
    return TransferEnd(
        name=receipt_text(backup.id),
        format=FORMAT,
        digest=_PREFIX + backup.digest,
        bank=part.bank,
        size=part.size,
        root=part.root,
        records=part.size,
    )


def store_receipts(
    settings: Settings, accounts: Iterable[ReceiptBody]
) -> tuple[list[str], list[str]]:
    """Sign and store receipts; return their IDs, and notes on problems."""
    key = signer(settings, None)
    return save_receipts(settings, [receipt_of(body, key) for body in accounts])


def nonzero_counts(**counts: int) -> dict[str, int]:
    """Return the counts other than 0, by name."""
    return dict(+Counter(counts))


def selected_agents(settings: Settings, banks: Sequence[str], agents: Sequence[str]) -> list[Agent]:
    """Return the agents to back up: the named ones, otherwise all active ones.

    Args:
        settings: Settings of the machine.
        banks: Named banks: if only banks are named, there are no agents.
        agents: IDs of named agents.

    Raises:
        UnknownAgentError: If one is not configured.
        ConfigError: If the folder of one is not an absolute path.
    """
    if agents:
        return [agent_called(settings, agent) for agent in dict.fromkeys(agents)]
    if banks:
        return []
    configured = (agent_called(settings, agent) for agent in sorted(settings.options.agents))
    return [agent for agent in configured if not agent.archived]
