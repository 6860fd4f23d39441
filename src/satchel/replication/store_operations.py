"""Operations on whole stores and their copies, as every interface offers them."""

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import KW_ONLY, dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import structs

from satchel.bank.connections import local_path, split_address
from satchel.bank.machine_keys import lock_for, require_owner, signing_key
from satchel.config.options import BAR, THIS_MACHINE, AcceptLoss, DryRun, EncryptTo, Texts
from satchel.config.settings import Settings, load_settings
from satchel.crypto.encryption import Lock, StoreKey, new_store_key
from satchel.crypto.keys import SigningKey
from satchel.errors import UnknownBankError, UsageError, shown_address
from satchel.ports import absent_options
from satchel.ports.operations import Absent, Option, Options, PathText, operation, texts
from satchel.ports.store import Progress
from satchel.receipts.steps import MigratedBank, MigrateOptions, MigrationResult
from satchel.replication import migration, store_copy
from satchel.replication import operations as replication_operations
from satchel.replication.merge import MergeConflictPolicy
from satchel.replication.migration import MigrationEnds, resolve_ends
from satchel.replication.operations import Exchange, ExchangeOptions
from satchel.replication.sinks import FollowOptions, SinkResult, follow, follow_once, open_sink
from satchel.replication.store_copy import CopyOptions, StoreCopy
from satchel.runtime.private_files import private_folder


class StoreEncryption(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Result of encrypting or decrypting a store."""

    store: str
    encrypted: bool
    """Whether it is encrypted now."""

    begun: bool = False
    """Whether the store was created."""

    key: str | None = None
    """The file with its key, of which you need a copy."""

    recipients: tuple[str, ...] = ()
    """Recipients of the key."""

    passphrase: bool = False
    """Whether a passphrase decrypts the key."""

    plain: tuple[str, ...] = ()
    """Unencrypted copies of the store next to it."""


def rekey_store(
    settings: Settings, lock: Lock, *, progress: Progress | None = None
) -> StoreEncryption:
    """Encrypt the configured store, change its key, or create it encrypted.

    The key is random, and stored encrypted in a file next to the store, ``satchel.db.key``: without
    that file the store is lost. The store is written again under the new key, verified, and
    replaces the old file; at any moment one of the two is complete. No other program may have it
    open.

    Args:
        settings: Settings with the store.
        lock: Recipients of the key: identities, a passphrase, or both.
        progress: Called with the number of bytes written and the approximate total.

    Raises:
        UsageError: If there is no recipient, or the store is not an SQLite file.
        MissingExtraError: If the extra for encryption is not installed.
        EncryptionError: If it is encrypted, and no identity here decrypts it.
        StoreBusyError: If another program has it open.
        TargetError: If there is no space; the store is unchanged.
        StoreError: If it cannot be read.
    """
    from satchel.stores.sqlite import encryption

    require_owner(settings, "store")
    path = _database_file(settings)
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
        _migrate_schema(path, new)
    else:
        old = encryption.key_for(path, settings.unlocking)
        _migrate_schema(path, old)
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
        plain=_plain_copies(path),
    )


def remove_encryption(settings: Settings, *, progress: Progress | None = None) -> StoreEncryption:
    """Decrypt the configured store; an interrupted call is resumed by the next.

    Args:
        settings: Settings with the store.
        progress: As for ``rekey_store``.

    Raises:
        UnknownBankError: If there is no store.
        UsageError: If it is not encrypted, or not an SQLite file.
        EncryptionError, StoreBusyError, TargetError, StoreError: As ``rekey_store``.
    """
    from satchel.stores.sqlite import connection, encryption

    require_owner(settings, "store")
    path = _database_file(settings)
    if not path.exists():
        raise UnknownBankError("there is no store", file=shown_address(settings.store))
    if not encryption.is_keyed(path):
        raise UsageError("the store is not encrypted", file=str(path))
    done = partial(encryption.settle, path, encrypted=False)
    if connection.is_plain(path):  # an earlier call was interrupted right before this step
        _migrate_schema(path, None)
        done()
    else:
        key = encryption.key_for(path, settings.unlocking)
        _migrate_schema(path, key)
        encryption.rewrite_with_key(
            path,
            key,
            None,
            first=partial(encryption.put_next, path, key, None),
            last=done,
            progress=progress,
        )
    return StoreEncryption(store=shown_address(settings.store), encrypted=False)


def _database_file(settings: Settings) -> Path:
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


def _migrate_schema(path: Path, key: StoreKey | None) -> None:
    """Create the store or migrate it to the current schema."""
    from satchel.stores.sqlite import SqliteStore

    SqliteStore(path, key=key).close()


def _plain_copies(path: Path) -> tuple[str, ...]:
    from satchel.stores.sqlite.connection import is_plain

    files = (file for file in path.parent.iterdir() if file.name.startswith(path.name))
    return tuple(str(file) for file in sorted(files) if file != path and is_plain(file))


HERE_ONLY = {"http": THIS_MACHINE, "mcp": THIS_MACHINE}

_GLOBAL = Absent(
    why="The options before the command name home, configuration, store and identities."
)
_PROMPT = Absent(why="--encrypt-passphrase asks for it.")
_PRINTED = Absent(why="The command line prints it.")
_ONCE = Absent(why="Call it again.")

OnProgress = Annotated[
    Callable[[int, int], None] | None,
    Option("Called with the amount done and the total.", cli=BAR),
]


@dataclass(frozen=True, kw_only=True)
class ExchangeSettings(Options):
    """What to exchange with another store."""

    bank: Annotated[
        str | None,
        Option("Bank name, ID or unique ID prefix. Default: the default bank.", values="bank"),
    ] = None
    merge: Annotated[
        bool, Option("Merge what is new, if both copies have records of their own.")
    ] = False
    on_conflict: Annotated[
        Literal["later", "here", "there"],
        Option(
            "Which version wins if both copies changed the same memory: the later one, that of "
            "the store that is written (here), or that of the other (there)."
        ),
    ] = "later"
    dry_run: Annotated[bool, Option("Report how the copies compare, and change nothing.")] = False
    progress: OnProgress = None


_ADDRESS = "Address of the other store, as for --store."


@dataclass(frozen=True, slots=True)
class PullOptions(ExchangeSettings):
    """What to bring from another store."""

    source: Annotated[PathText, Option(_ADDRESS, argument=True, metavar="STORE")]


@dataclass(frozen=True, slots=True)
class PushOptions(ExchangeSettings):
    """What to bring to another store."""

    target: Annotated[PathText, Option(_ADDRESS, argument=True, metavar="STORE")]


@dataclass(frozen=True, slots=True)
class SinkOptions(Options):
    """The sink to write, and for how long."""

    target: Annotated[
        str,
        Option(
            "sqlite:///FILE, postgresql://..., parquet:///FOLDER, file:///FOLDER or s3://...",
            argument=True,
            metavar="TARGET",
        ),
    ]
    _: KW_ONLY
    bank: Annotated[str | None, Option("Only this bank. Default: all.", values="bank")] = None
    follow: Annotated[
        bool,
        Option("Continue until interrupted.", flag="--follow/--once", python=_ONCE),
    ] = absent_options.field(default=False, init=False)
    interval: Annotated[float, Option("Seconds between checks with --follow.", python=_ONCE)] = (
        absent_options.field(default=2.0, init=False)
    )
    progress: OnProgress = None


@dataclass(frozen=True, kw_only=True)
class HomeOptions(Options):
    """Folder of keys, trust and the configuration."""

    home: Annotated[
        PathText | None,
        Option("Folder of keys and trust. Default: SATCHEL_HOME or the platform's.", cli=_GLOBAL),
    ] = None
    config: Annotated[
        PathText | None, Option("Configuration file. Default: the usual one.", cli=_GLOBAL)
    ] = None


@dataclass(frozen=True, slots=True)
class StoreCopyOptions(HomeOptions):
    """What to copy."""

    source: Annotated[
        PathText,
        Option("Address of the store to read, as for --store.", argument=True, metavar="FROM"),
    ]
    target: Annotated[
        PathText,
        Option(
            "Address of the store to write; created if missing.",
            argument=True,
            metavar="TO",
        ),
    ]
    _: KW_ONLY
    banks: Annotated[
        Texts, Option("Only this bank: its name or ID. Repeatable.", flag="--bank", values="bank")
    ] = ()
    dry_run: DryRun = False
    progress: OnProgress = None


@dataclass(frozen=True, slots=True)
class MigrateRequest(HomeOptions):
    """What to migrate."""

    from_store: Annotated[
        PathText | None, Option("Address of the current store.", argument=True, metavar="FROM")
    ] = None
    to_store: Annotated[
        PathText | None,
        Option(
            "Address of the new store; created if missing.",
            argument=True,
            metavar="TO",
        ),
    ] = None
    _: KW_ONLY
    from_config: Annotated[
        PathText | None, Option("Current configuration, instead of FROM.", metavar="FILE")
    ] = None
    to_config: Annotated[
        PathText | None, Option("New configuration, instead of TO.", metavar="FILE")
    ] = None
    banks: Annotated[
        Texts, Option("Only this bank: its name or ID. Repeatable.", flag="--bank", values="bank")
    ] = ()
    jobs: Annotated[int, Option("Number of banks at a time.", minimum=1, maximum=64)] = 4
    switch: Annotated[
        bool,
        Option(
            "Make the new configuration the active one when all banks are done.",
            flag="--switch/--no-switch",
        ),
    ] = True
    leave_others: Annotated[
        bool, Option("Switch even if the new store lacks banks of the old one.")
    ] = False
    accept_loss: AcceptLoss = ()
    dry_run: DryRun = False
    passphrase: Annotated[
        str | None,
        Option(
            "Passphrase of the owner's key, required for banks from a provider.",
            cli=Absent(why="The command line asks for it."),
        ),
    ] = None
    on_bank: Annotated[
        Callable[[MigratedBank], None] | None,
        Option("Called with the result of each bank when it is done.", cli=_PRINTED),
    ] = None
    progress: OnProgress = None


@dataclass(frozen=True, slots=True)
class DecryptStoreOptions(HomeOptions):
    """Which store to decrypt."""

    store: Annotated[
        PathText | None, Option("The store. Default: the configured one.", cli=_GLOBAL)
    ] = None
    _: KW_ONLY
    identities: Annotated[
        PathText | Sequence[PathText],
        Option(
            "Files with identities that open its key, besides those of this machine.", cli=_GLOBAL
        ),
    ] = ()
    file_passphrase: Annotated[
        str | None,
        Option("Passphrase that opens its key, or one of the identities.", cli=_GLOBAL),
    ] = None
    progress: OnProgress = None


@dataclass(frozen=True, slots=True)
class EncryptStoreOptions(DecryptStoreOptions):
    """The store to encrypt, and its recipients."""

    encrypt_to: EncryptTo = ()
    passphrase: Annotated[
        str | None, Option("Passphrase that opens the store as well.", cli=_PROMPT)
    ] = None


@operation(
    PullOptions,
    name="pull",
    example="satchel pull /media/stick/satchel.db",
    absent=HERE_ONLY,
)
def pull(settings: Settings, options: PullOptions) -> Exchange:
    """Copy the new records of a bank from another store to this one.

    Records are verified, and copied unchanged with their positions, times and signed head. If both
    copies have new records, that is reported, and --merge adds those of the other copy. Exit
    status: 0 complete, 1 the copies diverged.

    Raises:
        UnknownBankError: If the other has no such store or bank.
        RolledBackError: If the other is older than what this machine saw.
        ForkedError: If this machine saw another history.
        VerificationError: If a copy is not what was signed. Nothing is stored then.
        ReadOnlyStoreError: If this machine may not merge.
    """
    return replication_operations.pull(settings, str(options.source), _exchange(options))


@operation(
    PushOptions,
    name="push",
    example="satchel push /media/stick/satchel.db",
    absent=HERE_ONLY,
)
def push(settings: Settings, options: PushOptions) -> Exchange:
    """Copy the new records of a bank from this store to another one, created if missing.

    Exit status: 0 complete, 1 the copies diverged.

    Raises:
        UnknownBankError: If there is no such bank here.
        VerificationError: If a copy is not what was signed. Nothing is stored then.
        ReadOnlyStoreError: If this machine may not merge there.
    """
    return replication_operations.push(settings, str(options.target), _exchange(options))


def _exchange(options: ExchangeSettings) -> ExchangeOptions:
    return ExchangeOptions(
        bank=options.bank,
        merge=options.merge,
        on_conflict=MergeConflictPolicy(options.on_conflict),
        dry_run=options.dry_run,
        progress=options.progress,
    )


@operation(
    SinkOptions,
    name="sink run",
    example="satchel sink run sqlite:///warehouse.db --bank assistant",
    items="banks",
    absent=HERE_ONLY,
)
def run_sink(
    settings: Settings,
    options: SinkOptions,
    *,
    on_result: Callable[[SinkResult], None] | None = None,
) -> list[SinkResult]:
    """Write new records of the logs of banks to a sink, in order, each at least once.

    The sink stores its own position; an interrupted run is resumed by the next. A change of state
    is a row of its own. Sinks are for analysis: nothing is read back from them.

    Raises:
        UsageError: If the target is invalid, or needs an extra.
        VerificationError: If the sink followed another history.
        TargetError: If it cannot be written; what it has stays.
    """
    with closing(open_sink(settings, options.target)) as sink:
        work = follow if options.follow else follow_once
        how = FollowOptions(
            bank=options.bank,
            interval=options.interval,
            on_result=on_result,
            progress=options.progress,
        )
        return work(settings, sink, how)


@operation(
    StoreCopyOptions,
    name="store copy",
    example="satchel store copy satchel.db postgresql://me@db.example/memory",
    absent=HERE_ONLY,
)
def copy_store(settings: Settings, options: StoreCopyOptions) -> StoreCopy:
    """Copy a whole store to another one of the same or another kind.

    Each bank keeps its IDs, its log, its signed head, its vectors, blobs and unlogged values.
    Everything is read back and compared before the bank becomes visible, and each has a signed
    receipt. An interrupted copy is resumed by the same command. A bank that exists there with
    another log is refused; one that is behind is updated.

    Raises:
        UnknownBankError: If there is no such store, or a named bank does not exist.
        EmptyInputError: If there is no bank.
        TargetExistsError: If a bank exists there with another log; nothing is written then.
        RolledBackError: If the source is older than what this machine saw.
        VerificationError: If a record is not what was signed.
        StoreError: If a store cannot be read or written.
    """
    how = CopyOptions(
        banks=texts(options.banks), dry_run=options.dry_run, progress=options.progress
    )
    return store_copy.copy_store(settings, str(options.source), str(options.target), how)


@operation(
    EncryptStoreOptions,
    name="store encrypt",
    example="satchel store encrypt --encrypt-to mine",
    absent=HERE_ONLY,
)
def encrypt_store(settings: Settings, options: EncryptStoreOptions) -> StoreEncryption:
    """Encrypt the store at rest: its file, its log, and the temporary files of SQLite.

    It is written again under a new key, which is stored encrypted next to it. A store that is
    already encrypted gets another key; a missing one is created. An identity without a passphrase
    opens it unattended; one with a passphrase must be named (satchel --identity FILE). No other
    program may have the store open during this.

    Raises:
        UsageError: If there is no recipient, or the store is not an SQLite file.
        MissingExtraError: If the extra for encryption is not installed.
        EncryptionError: If it is encrypted, and no identity here decrypts it.
        StoreBusyError: If another program has it open.
        StoreError: If it cannot be read or written; it is unchanged.
    """
    lock = lock_for(settings, texts(options.encrypt_to), options.passphrase)
    return rekey_store(settings, lock, progress=options.progress)


@operation(
    DecryptStoreOptions,
    name="store decrypt",
    example="satchel store decrypt",
    absent=HERE_ONLY,
)
def decrypt_store(settings: Settings, options: DecryptStoreOptions) -> StoreEncryption:
    """Decrypt an encrypted store. No other program may have it open during this.

    Raises:
        UnknownBankError: If there is no store.
        UsageError: If it is not encrypted, or not an SQLite file.
        EncryptionError: If no identity here decrypts it.
        StoreBusyError: If another program has it open.
        StoreError: If it cannot be read or written; it is unchanged.
    """
    return remove_encryption(settings, progress=options.progress)


@operation(
    MigrateRequest,
    name="migrate",
    example="satchel migrate --from-config old.toml --to-config new.toml",
    absent=HERE_ONLY,
)
def migrate(
    settings: Settings,
    options: MigrateRequest,
    *,
    key: Callable[[], SigningKey] | None = None,
) -> MigrationResult:
    """Migrate all banks of a store to another store, verify the copy, and switch to it.

    Each bank keeps its IDs, its log and its head, and is read back completely; each has a receipt.
    When all are done, the new configuration becomes the active one; the old one is stored next to
    it. The configuration is not switched if a product cannot hold something, unless `--accept-loss`
    names it, or if the new store lacks banks that were not selected, unless `--leave-others`. An
    interrupted migration is resumed by the same command. Exit status: 0 all done, 1 a copy differs
    or the configuration was not switched, 5 a bank could not be written.

    Raises:
        UsageError: If an end is missing.
        UnknownBankError: If a named bank does not exist; nothing is written then.
        TargetError: If the configuration cannot be switched; the banks are migrated then.
    """
    require_owner(settings, "migrate")
    new = None if options.to_config is None else Path(options.to_config)
    source, target = resolve_ends(
        MigrationEnds(
            from_config=None if options.from_config is None else Path(options.from_config),
            to_config=new,
            from_store=None if options.from_store is None else str(options.from_store),
            to_store=None if options.to_store is None else str(options.to_store),
        ),
        home=None if options.home is None else Path(options.home),
        config=None if options.config is None else Path(options.config),
    )
    how = MigrateOptions(
        banks=texts(options.banks),
        jobs=options.jobs,
        new=new if options.switch else None,
        leaves_others=options.leave_others,
        active=settings.file,
        accept_loss=texts(options.accept_loss),
        dry_run=options.dry_run,
        owner=key or (lambda: signing_key(target, passphrase=options.passphrase)[0]),
        on_bank=options.on_bank,
        progress=options.progress,
    )
    try:
        result = migration.migrate(source, target, how)
        return structs.replace(result, switch_wanted=how.new is not None)
    finally:
        source.hooks.finish()
        target.hooks.finish()


def settings_of(options: HomeOptions) -> Settings:
    """Return the settings that the options name."""
    named: Any = options
    store = getattr(named, "store", None)
    settings = load_settings(
        home=None if options.home is None else Path(options.home),
        config=None if options.config is None else Path(options.config),
        store=None if store is None else str(store),
    )
    identities = tuple(map(str, texts(getattr(named, "identities", ()))))
    more = settings.unlocking.with_sources(identities, getattr(named, "file_passphrase", None))
    return structs.replace(settings, unlocking=more)
