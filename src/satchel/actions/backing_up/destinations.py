"""Where backups go, whose they are, who is believed, and who may work on them at a time."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from blake3 import blake3

from satchel.actions.config import Settings
from satchel.actions.wiring import shown_address, writer_key
from satchel.backup.catalogue import Catalogue, Found
from satchel.backup.shelves import opened_shelf
from satchel.disk.locks import ProcessLock
from satchel.disk.private import private_folder
from satchel.errors import (
    ConfigError,
    EmptyInputError,
    UnknownBackupError,
    UnknownBankError,
    VerificationError,
)
from satchel.memory.times import read_time

_DIGITS = 16
_LEAST_DIGITS = 4


def destinations(settings: Settings, said: Sequence[str] = ()) -> tuple[str, ...]:
    """Return where backups are: what was said, else what is configured.

    Raises:
        ConfigError: If that is nowhere.
    """
    found = tuple(dict.fromkeys(map(_whole, said or settings.options.backup.destinations)))
    if not found:
        raise ConfigError(
            "no destination of backups is configured",
            field="backup.destination",
            hint='Say --to FOLDER, or set it: [backup] destination = "/mnt/backups".',
        )
    return found


def _whole(said: str) -> str:
    """Return a destination by a name that means the same from any folder."""
    return said if "://" in said else str(Path(said).expanduser().absolute())


def series_of(settings: Settings) -> str:
    """Return whose backups those of this machine and store are."""
    store = shown_address(settings.store)
    if "://" not in store:
        store = str(Path(store).expanduser().absolute())
    said = f"{writer_key(settings).did}\0{store}"
    return blake3(said.encode()).hexdigest()[:_DIGITS]


def state_of(settings: Settings, destination: str) -> Path:
    """Return the file that says how backups to a destination went, without its ending."""
    said = blake3(f"{series_of(settings)}\0{destination}".encode()).hexdigest()
    return settings.state / "backups" / said[:_DIGITS]


@contextmanager
def opened_catalogue(destination: str, *, create: bool = False) -> Iterator[Catalogue]:
    """Open a destination, and close it again.

    Raises:
        UnreadableError: If there is none, and none is to be made.
        TargetError: If it cannot be opened.
    """
    shelf = opened_shelf(destination, create=create)
    try:
        yield Catalogue(shelf)
    finally:
        shelf.close()


@contextmanager
def working_on(settings: Settings, destination: str, purpose: str) -> Iterator[None]:
    """Keep other programs of this machine from changing the same backups.

    Raises:
        LockedError: If one does.
    """
    path = state_of(settings, destination).with_suffix(".lock")
    private_folder(settings.state)
    private_folder(path.parent)
    with ProcessLock(path, purpose=purpose).exclusive():
        yield


def require_believed(settings: Settings, found: Found, signers: Sequence[str] = ()) -> None:
    """Require that a backup was signed by somebody who is trusted here, or named now.

    Raises:
        VerificationError: If it was not.
    """
    if is_believed(settings, found.key, signers):
        return
    raise VerificationError(
        f"the backup {found.id} is signed by {found.key}, which nobody here trusts",
        hint=f"If that is the machine that made it, and you know its key: --signer {found.key}",
    )


def is_believed(settings: Settings, key: str, signers: Sequence[str] = ()) -> bool:
    """Tell whether what a key signed beside backups is believed."""
    known = settings.registry.find(key)
    if known is not None and known.state == "revoked":
        return False
    return key in signers or (known is not None and not known.banks)


def chosen_backup(
    found: Sequence[Found], wanted: str | None, where: str, *, bank: str | None = None
) -> Found:
    """Return the backup that is meant: by its name or the start of it, else the newest sound one.

    Raises:
        UnknownBackupError: If there is none.
        EmptyInputError: If there is no backup at all.
    """
    if not found:
        raise EmptyInputError("there is no backup", file=where, hint="Make one: satchel backup run")
    if wanted is not None:
        named = [one for one in found if one.id == wanted]
        if not named and len(wanted) >= _LEAST_DIGITS:
            named = [one for one in found if one.id.startswith(wanted) or one.id.endswith(wanted)]
        if len(named) != 1:
            raise UnknownBackupError(
                f"there is no backup {wanted!r}" if not named else f"{wanted!r} means several",
                file=where,
                hint="See: satchel backup list.",
            )
        return named[0]
    holding = [one for one in found if bank is None or _holds(one, bank)]
    if bank is not None and not holding:
        raise UnknownBankError(
            f"no backup has the bank {bank!r}", file=where, hint="See: satchel backup list."
        )
    sound = [one for one in holding if one.verified] or holding
    return sound[-1]


def _holds(found: Found, bank: str) -> bool:
    return any(bank in (part.bank, part.name) for part in found.manifest.banks)


def moment_said(text: str) -> str:
    """Return the moment that a person means.

    Raises:
        ConfigError: If it names none.
    """
    found = read_time(text.strip())
    if found is None:
        raise ConfigError(
            f"{text!r} names no moment", field="at", hint="Such as 2026-01-31T12:00:00Z."
        )
    return found
