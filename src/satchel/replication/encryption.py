"""Encrypting a store at rest: every page of its file, of its log, and of what SQLite lays out.

The key is a random one. Beside the store there is a file with it, encrypted to identities or under
a passphrase (Argon2id): ``satchel.db.key``. Whoever loses that file has lost the store.
"""

from functools import partial
from pathlib import Path

import msgspec

from satchel.bank.connections import local_path, shown_address, split_address
from satchel.bank.owner_rights import require_owner
from satchel.config.settings import Settings
from satchel.crypto.encryption import Lock, StoreKey, new_store_key
from satchel.errors import UnknownBankError, UsageError
from satchel.ports.store import Progress
from satchel.runtime.private_files import private_folder


class StoreEncryption(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What became of a store."""

    store: str
    encrypted: bool
    """Whether it is now."""

    begun: bool = False
    """Whether it is a new one: there was none."""

    key: str | None = None
    """The file with its key: a copy of it belongs where copies of keys are."""

    recipients: tuple[str, ...] = ()
    """Whom the key is encrypted to."""

    passphrase: bool = False
    """Whether a passphrase opens it."""

    plain: tuple[str, ...] = ()
    """Copies of the store that are beside it, still in plain."""


def encrypt_store(
    settings: Settings, lock: Lock, *, progress: Progress | None = None
) -> StoreEncryption:
    """Encrypt the configured store, put it under another key, or begin it encrypted.

    It is written anew under a new key, looked through, and takes the place of the old file; at any
    moment one of the two is there, whole. Nobody else can have it open meanwhile.

    Args:
        settings: The surroundings.
        lock: Whom the key is for: identities, a passphrase, or both.
        progress: Told of the bytes that are written, and how many there are about.

    Raises:
        UsageError: If it is for nobody, or the store is no file of SQLite's.
        MissingExtraError: If what encrypts is not installed.
        EncryptionError: If it is encrypted, and nothing here opens it.
        StoreBusyError: If another program has it open.
        TargetError: If there is no room for it; it is as it was.
        StoreError: If it cannot be read.
    """
    from satchel.stores.sqlite import encryption

    require_owner(settings, "store")
    path = _file(settings)
    if not lock.is_set:
        raise UsageError(
            "no recipient given for the store's encryption",
            field="to",
            hint="Create an identity and use it: satchel key identity create mine;"
            " satchel store encrypt --encrypt-to mine. Or use a passphrase: --encrypt-passphrase.",
        )
    new = new_store_key(lock)
    begun = not path.exists()
    if begun:
        if path.parent == settings.home:
            private_folder(settings.home)
        encryption.put_key(path, new)
        _brought_up_to_date(path, new)
    else:
        old = encryption.key_for(path, settings.unlocking)
        _brought_up_to_date(path, old)
        encryption.rewrite_with_key(
            path,
            old,
            new,
            first=partial(encryption.put_next, path, old, new),
            last=partial(encryption.settle, path, encrypted=True),
            progress=progress,
        )
    return StoreEncryption(
        store=shown_address(settings.store),
        encrypted=True,
        begun=begun,
        key=str(encryption.key_file(path)),
        recipients=lock.recipients,
        passphrase=lock.passphrase is not None,
        plain=_in_plain(path),
    )


def decrypt_store(settings: Settings, *, progress: Progress | None = None) -> StoreEncryption:
    """Put the configured store in plain again; cut short, the same goes on.

    Args:
        settings: The surroundings.
        progress: As for ``encrypt_store``.

    Raises:
        UnknownBankError: If there is no store.
        UsageError: If it is in plain, or no file of SQLite's.
        EncryptionError, StoreBusyError, TargetError, StoreError: As ``encrypt_store``.
    """
    from satchel.stores.sqlite import connection, encryption

    require_owner(settings, "store")
    path = _file(settings)
    if not path.exists():
        raise UnknownBankError("there is no store", file=shown_address(settings.store))
    if not encryption.is_keyed(path):
        raise UsageError("the store is not encrypted", file=str(path))
    done = partial(encryption.settle, path, encrypted=False)
    if connection.is_plain(path):  # it was cut short when all but this was done
        _brought_up_to_date(path, None)
        done()
    else:
        key = encryption.key_for(path, settings.unlocking)
        _brought_up_to_date(path, key)
        encryption.rewrite_with_key(
            path,
            key,
            None,
            first=partial(encryption.put_next, path, key, None),
            last=done,
            progress=progress,
        )
    return StoreEncryption(store=shown_address(settings.store), encrypted=False)


def _file(settings: Settings) -> Path:
    path = local_path(settings.store)
    if path is None or split_address(settings.store)[0] != "sqlite":
        raise UsageError(
            "only an SQLite store can be encrypted by Satchel",
            file=shown_address(settings.store),
            hint=(
                "Put a graph store in an encrypted folder; for a server, use its disk encryption. "
                "Exports and backups are encrypted with --encrypt-to, whatever the store."
            ),
        )
    return path


def _brought_up_to_date(path: Path, key: StoreKey | None) -> None:
    """Have the store be one of ours, of this version; it is made where there is none."""
    from satchel.stores.sqlite import SqliteStore

    SqliteStore(path, key=key).close()


def _in_plain(path: Path) -> tuple[str, ...]:
    from satchel.stores.sqlite.connection import is_plain

    beside = (one for one in path.parent.iterdir() if one.name.startswith(path.name))
    return tuple(str(one) for one in sorted(beside) if one != path and is_plain(one))
