"""Status of backups on this machine, so that missing ones are noticed, and receipts of restores."""

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal

import msgspec

from satchel.backup.catalogue import StoredBackup
from satchel.backup.destinations import destinations, state_of
from satchel.backup.manifests import BankBackup
from satchel.bank.checks import Check
from satchel.bank.owner_rights import require_owner
from satchel.config.options import NOT_FOR_MODELS
from satchel.config.settings import Settings
from satchel.errors import SatchelError, shown_address
from satchel.model.values import now, resolved
from satchel.ports.operations import Options, operation
from satchel.receipts.archive import save_receipts, signer, tool_version
from satchel.receipts.receipt import (
    VERSION,
    ReceiptBody,
    TransferEnd,
    combine_counts,
    receipt_of,
    receipt_text,
)
from satchel.runtime.files import PRIVATE_FILE, atomic_write, open_input
from satchel.runtime.private_files import private_folder

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
