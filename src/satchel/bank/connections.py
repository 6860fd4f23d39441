"""Opening stores: addresses, the witness, the writer key, and missing banks.

Only this module names the modules of stores. A store has an address:
``sqlite:///path/to/file.db``, ``ladybug:///path/to/folder``, the path of an SQLite file, or
``postgresql://USER@HOST/DATABASE``. The address of a server may contain a password, so output uses
``shown_address``.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit, urlunsplit

from blake3 import blake3
from nacl.bindings import randombytes

from satchel.config.files import STORES
from satchel.config.settings import Settings
from satchel.crypto.encryption import KEY_BYTES, StoreKey, Unlocker
from satchel.crypto.keys import SigningKey
from satchel.errors import (
    ConfigError,
    PermissionRefusedError,
    RolledBackError,
    SatchelError,
    StoreBusyError,
    UsageError,
)
from satchel.errors import shown_address as shown_address  # noqa: PLC0414
from satchel.ledger.ledger import Ledger
from satchel.ledger.witness import Witness, name_hash
from satchel.ports.store import Reader, Store
from satchel.runtime.private_files import private_folder, secure_files, secure_modes

T = TypeVar("T")

_DIGITS = 16

WRITER_NAME = "writer"
"""Name of this machine's writer key in the key ring."""


@contextmanager
def configured_store(
    settings: Settings, *, read_only: bool = False, for_holder: bool = False, lost: bool = False
) -> Iterator[Store]:
    """Open the configured store, and close it at the end.

    Args:
        settings: Settings with the store.
        read_only: Whether nothing will be written.
        for_holder: Whether the caller checks the presented token, as ``open_bank_in`` does; other
            callers are for the owner only.
        lost: Whether the store may be empty although this machine has seen banks in it.

    Raises:
        RolledBackError: If the store is missing or empty, and must not be.
        PermissionRefusedError: If a token was presented, and the caller does not check it.
        ConfigError: If the store is not encrypted, and must be.
        EncryptionError: If it is encrypted, and no key opens it.
        StoreError: If it cannot be opened.
    """
    if settings.token is not None and not for_holder:
        raise PermissionRefusedError(
            "only the owner can do this, without a token",
            hint="As the owner, drop --token and unset SATCHEL_TOKEN.",
        )
    makes = local_path(settings.store) is not None or not read_only
    if not lost and makes and not holds_anything(settings):
        require_not_lost(settings, None)
    store = open_configured(settings, read_only=read_only)
    try:
        if not lost:
            with store.reading() as reader:
                require_not_lost(settings, reader)
        yield store
    finally:
        store.close()


def _make_private(settings: Settings, *, read_only: bool) -> None:
    """Make the home and the store private, also when they are only read.

    File contents do not change. A reader without the right to change modes reads all the same.
    """
    path = local_path(settings.store)
    refused: tuple[type[Exception], ...] = (SatchelError, OSError) if read_only else ()
    with suppress(*refused):
        if path is not None and path.parent == settings.home:
            private_folder(settings.home)
    with suppress(SatchelError, OSError):  # reported when the store is opened
        if settings.home.is_dir():
            private_folder(settings.home)
        if path is not None and path.is_file():
            secure_modes(path)
        elif path is not None and path.is_dir():
            secure_files(path)


def open_configured(settings: Settings, *, read_only: bool) -> Store:
    """Open the configured store; raises as ``configured_store``."""
    _make_private(settings, read_only=read_only)
    if settings.options.store.encrypted and not is_encrypted(settings.store):
        raise ConfigError(
            "the store is not encrypted, and store.encrypted requires it",
            file=shown_address(settings.store),
            field="store.encrypted",
            hint="Encrypt it: satchel store encrypt --encrypt-to NAME",
        )
    return open_store(settings.store, read_only=read_only, unlocking=settings.unlocking)


def again_if_disturbed(work: Callable[[], T]) -> T:
    """Run a long read of an open store, and run it again if a writer interrupted it.

    The first run takes no locks if nobody else has the store open. The second one does, so writers
    cannot interrupt it.

    Raises:
        StoreBusyError: If the store cannot be locked either.
    """
    try:
        return work()
    except StoreBusyError:
        return work()


def has_store(settings: Settings) -> bool:
    """Return whether the configured store exists; refuse one that has vanished.

    Actions that work without a store, such as a restore, use ``store_exists``.

    Raises:
        RolledBackError: If it does not exist, and this machine has seen banks in it.
    """
    if store_exists(settings.store):
        return True
    require_not_lost(settings, None)
    return False


def holds_anything(settings: Settings) -> bool:
    """Return whether the configured store exists and is not an empty file."""
    path = local_path(settings.store)
    if path is not None and path.is_file() and not path.stat().st_size:
        return False
    return store_exists(settings.store)


def witness_of(settings: Settings) -> Witness:
    """Return the witness of this machine, for the configured store.

    All stores share the witnessed heads, except one that has a witness of its own (see
    ``witness_beside``). Which banks a store has is recorded for each store.
    """
    own = witness_beside(settings)
    here = settings.state / "stores" / own.name
    return Witness(own if own.is_dir() else settings.state / "banks", here)


def witness_beside(settings: Settings) -> Path:
    """Return the folder of a witness for this store alone, which usually does not exist.

    A restored older state that is only inspected has one: the shared witness would refuse it, and
    recording it there would have the store in use refused.
    """
    place = blake3(written_place(settings.store).encode()).hexdigest()[:_DIGITS]
    return settings.state / "beside" / place


def written_place(address: str) -> str:
    """Return an address without its password, with an absolute path."""
    shown = shown_address(address)
    return shown if "://" in shown else str(Path(shown).expanduser().absolute())


def writer_key(settings: Settings) -> SigningKey:
    """Return the key that signs heads on this machine, created on first use.

    It has no passphrase, since it signs every change; an owner admits it to a bank.
    """
    if WRITER_NAME not in settings.keyring.names():
        from satchel.bank.machine_keys import create_key

        return create_key(settings, WRITER_NAME, role="writer")
    return settings.keyring.load(WRITER_NAME)


def open_ledger(settings: Settings, store: Store, bank: str, *, writes: bool = False) -> Ledger:
    """Open one bank of a store."""
    writer = writer_key(settings) if writes else None
    trusted = known_owners(settings, bank)
    return Ledger(store, bank, writer=writer, witness=witness_of(settings), trusted=trusted)


def known_owners(settings: Settings, bank: str, *, retired: bool = True) -> frozenset[str]:
    """Return the trusted owner keys of a bank: this machine's own, and keys trusted for the bank.

    Keys that are trusted for any bank do not count: their holders could adopt every bank.

    Args:
        settings: Settings with the key registry.
        bank: ID of the bank.
        retired: Include replaced and retired keys; a copy of the bank may not have that yet.
    """
    states = {"trusted", "retired"} if retired else {"trusted"}
    return frozenset(
        key.key
        for key in settings.registry.listed()
        if key.state in states and key.role == "owner" and (key.own or bank in key.banks)
    )


Opener = Callable[[str, bool, Unlocker | None], Store]
"""Opens the store at a location from ``split_address``; the second argument is ``read_only``."""


def open_store(
    address: str, *, read_only: bool = False, unlocking: Unlocker | None = None
) -> Store:
    """Open the store at an address.

    Args:
        address: ``sqlite:///relative.db``, ``sqlite:////absolute.db``,
            ``ladybug:///absolute/folder``, the path of a file, or ``postgresql://USER@HOST/DATABASE``.
        read_only: Whether nothing will be written.
        unlocking: Identities that open the key of an encrypted store; those of the environment if
            None.

    Raises:
        UsageError: If the address names no known kind of store.
        EncryptionError: If it is encrypted, and no key opens it.
        StoreError: If it cannot be opened.
    """
    scheme, location = split_address(address)
    return _SCHEMES[scheme](location, read_only, unlocking)


def is_encrypted(address: str) -> bool:
    """Return whether a store is encrypted at rest by Satchel; only SQLite stores can be."""
    if split_address(address)[0] != "sqlite":
        return False
    from satchel.stores.sqlite.encryption import is_keyed

    path = local_path(address)
    return path is not None and is_keyed(path)


def empty_store() -> Store:
    """Return an empty store in memory, for readers when no store exists."""
    from satchel.stores.memory import InMemoryStore

    return InMemoryStore()


@contextmanager
def temporary_store() -> Iterator[Store]:
    """Open an empty temporary store on disk, and delete it at the end.

    Only this process can read it: it is encrypted with a key that is never stored.
    """
    from satchel.stores.sqlite import SqliteStore
    from satchel.stores.sqlite.connection import has_ciphers

    key = StoreKey(randombytes(KEY_BYTES), b"") if has_ciphers() else None
    with TemporaryDirectory(prefix="satchel-") as folder:
        store = SqliteStore(Path(folder) / "moment.db", key=key)
        try:
            yield store
        finally:
            store.close()


def split_address(address: str) -> tuple[str, str]:
    """Return the kind of store of an address, and its location: a path, or the address of a server.

    Raises:
        UsageError: If the kind is not known.
        ConfigError: If it is not installed.
    """
    if "://" not in address:
        if address.partition(":")[0].lower() in STORES and ":" in address:
            raise _invalid_address(address)  # a file of that name would be another store
        if _CONNECTION.search(address):
            raise UsageError(
                "not a store address, but a connection string",
                field="store",
                hint="Write it as postgresql://USER@HOST/DATABASE.",
            )
        return "sqlite", address
    try:
        parts = urlsplit(address)
    except ValueError:
        raise UsageError("not a store address", field="store") from None
    if parts.scheme in STORES and parts.scheme not in _SCHEMES:
        raise ConfigError(
            f"the store {parts.scheme!r} is not installed here",
            field="provider",
            hint=f"Choose from: {', '.join(_SCHEMES)}.",
        )
    if parts.scheme in _SERVERS:
        return parts.scheme, address
    if parts.scheme not in _SCHEMES or parts.netloc or parts.query or parts.fragment:
        raise _invalid_address(address)
    location = unquote(parts.path.removeprefix("/"))
    return parts.scheme, _graph_folder(location) if parts.scheme == "ladybug" else location


_CONNECTION = re.compile(r"(?:^|\s)(?:host|hostaddr|dbname|user|password|port)\s*=\s*\S")
"""Part of a PostgreSQL connection string, which no path contains."""


def _invalid_address(address: str) -> UsageError:
    return UsageError(
        f"not a store address: {shown_address(address)}",
        field="store",
        hint="Write it as sqlite:////path/to/file.db, with four slashes, or as"
        " ladybug:///path/to/folder. sqlite:///file.db and ladybug:///name are in this folder.",
    )


def _graph_folder(path: str) -> str:
    """Return the folder of a graph store: a name is in the current folder, a path is absolute.

    An earlier version read a path as relative to the current folder. It still is, if it exists
    there, or if only its first folder does.

    Raises:
        UsageError: If both exist.
    """
    absolute, first = f"/{path}", path.partition("/")[0]
    if path.startswith(("/", "~", ".")) or "/" not in path:
        return path
    if not Path(path).exists():
        return path if Path(first).is_dir() and not Path("/", first).is_dir() else absolute
    if Path(absolute).exists():
        raise UsageError(
            f"ladybug:///{path} is ambiguous: both {absolute} and {Path(path).absolute()} exist",
            field="store",
            hint=f"Use ladybug:///{absolute} or ladybug:///./{path}.",
        )
    return path


def store_exists(address: str) -> bool:
    """Return whether there is a store at an address.

    Raises:
        StoreError: If a server does not answer.
    """
    scheme, location = split_address(address)
    if scheme in _SERVERS:
        return _SERVERS[scheme](location)
    path = Path(location).expanduser()
    return path.exists() and not (path.is_dir() and _is_empty(path))


def _is_empty(folder: Path) -> bool:
    """Return whether a folder is empty, or contains only the lock file of a store."""
    with suppress(OSError):  # opening it reports the problem
        return all(path.name == "lock" for path in folder.iterdir())
    return False


def is_same(address: str, other: str) -> bool:
    """Return whether two addresses name the same store."""
    path, other_path = local_path(address), local_path(other)
    if path is None or other_path is None:
        return path is other_path and _without_password(address) == _without_password(other)
    if path.absolute() == other_path.absolute():
        return True
    with suppress(OSError):
        return path.samefile(other_path)
    return False


def _without_password(address: str) -> str:
    """Return the address of a server without passwords, for comparison; it is never shown."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return address
    user, at, host = parts.netloc.rpartition("@")
    query = [pair for pair in parse_qsl(parts.query) if "pass" not in pair[0].lower()]
    netloc = f"{user.partition(':')[0]}{at}{host}"
    return urlunsplit(parts._replace(netloc=netloc, query=urlencode(query)))


def local_path(address: str) -> Path | None:
    """Return the file or folder of a store; None for a store on a server."""
    scheme, location = split_address(address)
    return None if scheme in _SERVERS else Path(location).expanduser()


def _sqlite(path: str, read_only: bool, unlocking: Unlocker | None) -> Store:  # noqa: FBT001 - called by table only
    from satchel.stores.sqlite import SqliteStore
    from satchel.stores.sqlite.encryption import key_for

    file = Path(path).expanduser()
    return SqliteStore(file, read_only=read_only, key=key_for(file, unlocking))


def _ladybug(path: str, read_only: bool, _: Unlocker | None) -> Store:  # noqa: FBT001 - idem
    from satchel.stores.ladybug import LadybugStore

    return LadybugStore(Path(path).expanduser(), read_only=read_only)


def _postgresql(address: str, read_only: bool, _: Unlocker | None) -> Store:  # noqa: FBT001 - idem
    from satchel.stores.postgres import PostgresStore

    return PostgresStore(address, read_only=read_only)


def _is_made(address: str) -> bool:
    from satchel.stores.postgres import store_is_created

    return store_is_created(address)


# -- missing banks ---------------------------------------------------------------------------

_SHOWN = 3
_HINT = (
    "Move the store back, or restore it: satchel backup restore. To accept that it is missing: "
    "satchel bank accept-gone --all, or one by one with its ID. See: satchel doctor."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingBank:
    """A bank that this machine has seen in the store and that is missing from it."""

    id: str
    name: str | None
    """Its name; None if it is not known."""

    @property
    def shown(self) -> str:
        """Its name and ID, for messages."""
        return self.id if self.name is None else f"{self.name!r} ({self.id})"


def missing_banks(settings: Settings, present: Callable[[str], bool]) -> list[MissingBank]:
    """Return the banks that this machine has seen in the store and that are missing from it.

    Args:
        settings: Settings with the store and the witness.
        present: Returns whether the store has the bank of an ID.
    """
    witness = witness_of(settings)
    missing = [
        MissingBank(id=seen.bank, name=seen.name())
        for seen in witness.seen_here()
        if not present(seen.bank) and witness.knows(seen.bank)
    ]
    missing += [
        MissingBank(id=bank, name=None)
        for bank in _never_placed(settings, witness)
        if not present(bank)
    ]
    return missing


def require_not_lost(settings: Settings, reader: Reader | None) -> None:
    """Refuse a store that is missing or empty although this machine has seen banks in it.

    Args:
        settings: Settings with the store and the witness.
        reader: A reader of the store; None if the store does not exist.

    Raises:
        RolledBackError: Names the store and the banks, but not to the holder of a token.
    """
    if reader is not None and (reader.banks(limit=1) or reader.begun()):
        return
    missing = missing_banks(settings, lambda _: False)
    if not missing:
        return
    how = "is missing" if reader is None else "has no banks"
    if settings.token is not None:
        raise RolledBackError(
            f"the store {how}, but this machine has seen banks in it",
            hint="Contact the store's owner.",
        )
    raise RolledBackError(
        f"the store {how}, and this machine saw {_listed(missing)} in it",
        file=shown_address(settings.store),
        hint=_HINT,
    )


def require_not_missing(settings: Settings, reader: Reader, name: str | None, but: str) -> None:
    """Refuse to use a name if another bank of that name, seen in the store, is missing from it.

    Args:
        settings: Settings with the store and the witness.
        reader: A reader of the store.
        name: Name of the bank; None if none was given and the only bank is used.
        but: ID of the bank to use; empty for none.

    Raises:
        RolledBackError: Names the missing bank.
    """
    mark, witness = name_hash(name), witness_of(settings)
    for seen in witness.seen_here():
        if (
            seen.bank != but
            and (name is None or seen.mark == mark)
            and reader.head(seen.bank) is None
            and witness.knows(seen.bank)
        ):
            missing = MissingBank(id=seen.bank, name=seen.name())
            raise RolledBackError(
                f"the bank {missing.shown} is missing from the store, but this machine has seen "
                "it there",
                file=shown_address(settings.store),
                hint=_HINT,
            )


def _listed(missing: Iterable[MissingBank]) -> str:
    every = [bank.shown for bank in missing]
    more = f" and {len(every) - _SHOWN} more" if len(every) > _SHOWN else ""
    return f"the bank{'s' if len(every) > 1 else ''} {', '.join(every[:_SHOWN])}{more}"


def _never_placed(settings: Settings, witness: Witness) -> list[str]:
    """Return the banks that an earlier version witnessed without recording their store.

    They are taken to be in the home's own store if this machine's writer key signed their heads.
    """
    try:
        if settings.chosen.stated or WRITER_NAME not in settings.keyring.names():
            return []
        writer = settings.keyring.read(WRITER_NAME).key
        heads = ((bank, witness.last(bank)) for bank in witness.banks_without_store())
        return [bank for bank, last in heads if last is not None and last.head.key == writer]
    except SatchelError:
        return []


_SCHEMES: dict[str, Opener] = {"ladybug": _ladybug, "postgresql": _postgresql, "sqlite": _sqlite}

_SERVERS: dict[str, Callable[[str], bool]] = {"postgresql": _is_made}
"""Kinds of stores on servers, with a function that returns whether one exists."""
