"""Identities of this machine: what is encrypted to one can be read here and nowhere else."""

import re
from collections.abc import Sequence
from pathlib import Path

import msgspec

from satchel.bank.owner_rights import require_owner
from satchel.config.settings import Settings
from satchel.crypto.canonical import canonical
from satchel.crypto.encryption import (
    IDENTITY_SUFFIX,
    Lock,
    check_recipients,
    identity_value,
    new_identity,
    parse_identity_file,
)
from satchel.errors import TargetExistsError, UsageError
from satchel.runtime.files import PRIVATE_FILE, atomic_write, open_input
from satchel.runtime.private_files import private_folder

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)
_MOST_BYTES = 65_536


class IdentityLine(msgspec.Struct, frozen=True, kw_only=True):
    """One identity of this machine."""

    name: str
    recipient: str
    protected: bool
    created_at: str


def create_identity(settings: Settings, name: str, passphrase: str | None = None) -> IdentityLine:
    """Make an identity and its file, mode 0600.

    Args:
        settings: Where it is kept.
        name: Letters, digits, dot, dash and underscore.
        passphrase: Protects it when given; then it is used only where it is named.

    Raises:
        UsageError: If the name cannot be one.
        TargetExistsError: If there is one of that name.
        MissingExtraError: If what encrypts is not installed.
    """
    require_owner(settings, "keys")
    path = _path(settings, name)
    identity, recipient = new_identity()
    private_folder(path.parent)
    value = identity_value(identity, recipient, passphrase)
    try:
        with atomic_write(path, overwrite=False, mode=PRIVATE_FILE) as stream:
            stream.write(canonical(value) + b"\n")
    except TargetExistsError:
        raise TargetExistsError(
            f"an identity named {name!r} already exists", file=str(path)
        ) from None
    return _line(path)


def list_identities(settings: Settings) -> list[IdentityLine]:
    """Return the identities that are here, by name."""
    folder = settings.home / "identities"
    return [_line(path) for path in sorted(folder.glob(f"*{IDENTITY_SUFFIX}"))]


def lock_for(settings: Settings, recipients: Sequence[str], passphrase: str | None = None) -> Lock:
    """Return for whom a file is to be encrypted.

    Args:
        settings: Where identities of this machine are.
        recipients: Each ``age1...``, a file with one a line, or the name of an identity here.
        passphrase: A passphrase that opens it as well.

    Raises:
        UsageError: If one is no recipient.
        UnreadableError: If one is a file that cannot be read.
    """
    if isinstance(recipients, str):
        raise TypeError("recipients must be a list, not one string")
    found = list[str]()
    names = {line.name: line.recipient for line in list_identities(settings)} if recipients else {}
    for one in recipients:
        if one in names:
            found.append(names[one])
        elif one.startswith("age1") or one.upper().startswith("AGE-SECRET"):
            found.append(one)
        else:
            found += _in_file(Path(one))
    return Lock(recipients=check_recipients(found), passphrase=passphrase)


def _in_file(path: Path) -> list[str]:
    with open_input(path) as stream:
        lines = stream.read(_MOST_BYTES).decode("ascii", "replace").splitlines()
    found = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
    if not found:
        raise UsageError("it contains no recipient", file=str(path))
    return found


def _path(settings: Settings, name: str) -> Path:
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} is not a valid identity name",
            hint="Use letters, digits, dot, dash and underscore.",
        )
    return settings.home / "identities" / f"{name}{IDENTITY_SUFFIX}"


def _line(path: Path) -> IdentityLine:
    with open_input(path) as stream:
        held = parse_identity_file(stream.read(_MOST_BYTES))
    return IdentityLine(
        name=path.name.removesuffix(IDENTITY_SUFFIX),
        recipient=held.recipient,
        protected=held.wrapped is not None,
        created_at=held.created_at,
    )
