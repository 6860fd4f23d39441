"""What an operator does with whole stores, from Python."""

from collections.abc import Sequence
from pathlib import Path
from typing import TypedDict, Unpack

from msgspec import structs

from satchel.actions.config import Settings, load_settings
from satchel.actions.encrypting.identities import lock_for
from satchel.actions.operating import at_rest, copying_stores, migrating
from satchel.actions.operating.at_rest import AtRest
from satchel.actions.operating.copying_stores import CopyOptions, Progress, StoreCopy
from satchel.actions.operating.ends import Ends, ends
from satchel.actions.operating.migrated import Migrated, MigrateOptions, Told
from satchel.actions.signing import signing_key


class MigrateArguments(TypedDict, total=False):
    """Optional arguments of ``satchel.migrate``."""

    from_config: str | Path | None
    """The configuration to leave; with ``to_config``."""

    to_config: str | Path | None
    from_store: str | None
    """The address to leave, in place of configurations; with ``to_store``."""

    to_store: str | None
    banks: Sequence[str]
    """Only these; all when not given."""

    jobs: int
    """How many at a time; 4 when not given."""

    leave_others: bool
    """Switch although the new store lacks banks of the old one: ``Migrated.left``."""

    switch: bool
    """False leaves the active configuration as it is."""

    accept_loss: Sequence[str]
    """Fields that may be lost on the way to or from a product; ``all`` for whatever there is."""

    dry_run: bool
    passphrase: str | None
    """Of the owner's key, which banks that come from a provider need."""

    told: Told
    """Called with what became of each bank, when it is done."""


def migrate(**said: Unpack[MigrateArguments]) -> Migrated:
    """Bring all banks of one store to another, verified, and switch to it; see the command.

    Args:
        **said: See ``MigrateArguments``.

    Returns:
        What became of each bank; ``failed`` names those that are not done. Nothing is raised for
        these, and nothing is switched.

    Raises:
        UsageError: If an end is missing.
        UnknownBankError: If a bank that is named is not there; nothing is written then.
        TargetError: If the configuration cannot be switched; the banks are done then.
    """
    one, other = said.get("from_config"), said.get("to_config")
    new = None if other is None else Path(other)
    source, target = ends(
        Ends(
            from_config=None if one is None else Path(one),
            to_config=new,
            from_store=said.get("from_store"),
            to_store=said.get("to_store"),
        )
    )
    options = MigrateOptions(
        banks=tuple(said.get("banks", ())),
        jobs=said.get("jobs", 4),
        new=new if said.get("switch", True) else None,
        leaves_others=said.get("leave_others", False),
        active=load_settings().file,
        accept_loss=tuple(said.get("accept_loss", ())),
        dry_run=said.get("dry_run", False),
        owner=lambda: signing_key(target, passphrase=said.get("passphrase"))[0],
        told=said.get("told"),
    )
    try:
        return migrating.migrate(source, target, options)
    finally:
        source.hooks.finish()
        target.hooks.finish()


class AtRestArguments(TypedDict, total=False):
    """Optional arguments of ``satchel.encrypt_store`` and ``satchel.decrypt_store``."""

    home: str | Path | None
    """Where keys and trust are; ``SATCHEL_HOME`` or the platform's folder when not given."""

    config: str | Path | None
    identities: Sequence[str | Path]
    """Files with identities that open the key that it has, besides those of this machine."""

    file_passphrase: str | None
    """The passphrase that opens the key that it has, or one of the identities."""

    progress: Progress
    """Called with the bytes that are written, and how many there are about."""


def encrypt_store(
    store: str | Path | None = None,
    *,
    to: Sequence[str] = (),
    passphrase: str | None = None,
    **said: Unpack[AtRestArguments],
) -> AtRest:
    """Encrypt a store at rest, put it under another key, or begin it encrypted; see the command.

    Args:
        store: The store: a file of SQLite's; the configured one when None.
        to: Whom its key is for: ``age1...``, files with recipients, identities here.
        passphrase: A passphrase that opens it as well.
        **said: See ``AtRestArguments``.

    Raises:
        UsageError: If it is for nobody, or the store is no file of SQLite's.
        MissingExtraError: If what encrypts is not installed.
        EncryptionError: If it is encrypted, and nothing here opens it.
        StoreBusyError: If another program has it open.
        StoreError: If it cannot be read or written; it is as it was.
    """
    settings = _at_rest(store, said)
    lock = lock_for(settings, to, passphrase)
    return at_rest.encrypt_store(settings, lock, progress=said.get("progress"))


def decrypt_store(store: str | Path | None = None, **said: Unpack[AtRestArguments]) -> AtRest:
    """Put an encrypted store in plain again; see the command.

    Args:
        store: The store; the configured one when None.
        **said: See ``AtRestArguments``.

    Raises:
        UnknownBankError: If there is no store.
        UsageError: If it is in plain, or no file of SQLite's.
        EncryptionError, StoreBusyError, StoreError: As ``encrypt_store``.
    """
    return at_rest.decrypt_store(_at_rest(store, said), progress=said.get("progress"))


def _at_rest(store: str | Path | None, said: AtRestArguments) -> Settings:
    home, config = said.get("home"), said.get("config")
    settings = load_settings(
        home=None if home is None else Path(home),
        config=None if config is None else Path(config),
        store=None if store is None else str(store),
    )
    more = settings.unlocking.also(said.get("identities", ()), said.get("file_passphrase"))
    return structs.replace(settings, unlocking=more)


class CopyArguments(TypedDict, total=False):
    """Optional arguments of ``satchel.copy_store``."""

    home: str | Path | None
    """Where keys and trust are; ``SATCHEL_HOME`` or the platform's folder when not given."""

    config: str | Path | None
    banks: Sequence[str]
    """Only these, by name or id; all when not given."""

    dry_run: bool
    progress: Progress
    """Called with the records that were brought, then compared, and how many there are in both."""


def copy_store(source: str | Path, target: str | Path, **said: Unpack[CopyArguments]) -> StoreCopy:
    """Copy a whole store to another one, of the same kind or of any other; see the command.

    Args:
        source: The address of the store that is read: a file, or such as ``ladybug:///FOLDER``.
        target: The address of the other, which is made if it is not there.
        **said: See ``CopyArguments``.

    Returns:
        What became of each bank, read again and compared.

    Raises:
        UnknownBankError: If there is no such store, or not the bank that is named.
        EmptyInputError: If there is no bank at all.
        TargetExistsError: If a bank is there already with another log; nothing is written then.
        RolledBackError: If the source is older than what this machine saw.
        VerificationError: If a record is not what was signed.
        StoreError: If a store cannot be read or written. Done again, it goes on from there.
    """
    home, config = said.get("home"), said.get("config")
    settings = load_settings(
        home=None if home is None else Path(home), config=None if config is None else Path(config)
    )
    options = CopyOptions(
        banks=tuple(said.get("banks", ())),
        dry_run=said.get("dry_run", False),
        progress=said.get("progress"),
    )
    return copying_stores.copy_store(settings, str(source), str(target), options)
