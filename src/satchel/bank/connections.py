"""Which store, keys and witness the actions work with; the one place that names a store's module.

A store has an address: ``sqlite:///path/to/file.db``, ``ladybug:///path/to/folder``, the plain
path of a file of SQLite's, or ``postgresql://USER@HOST/DATABASE``. That of a server may hold a
password, so what is shown of it goes through ``shown_address``.
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
"""The name of the key file with this machine's writer key."""


@contextmanager
def configured_store(
    settings: Settings, *, read_only: bool = False, for_holder: bool = False, lost: bool = False
) -> Iterator[Store]:
    """Give the configured store, and close it.

    Args:
        settings: Where it is.
        read_only: Whether nothing is going to be written.
        for_holder: That what is done with it is judged by the token that was presented, if one
            was: a bank of it is opened by ``opened.open_bank_in``. Nothing else is done for one.
        lost: Whether it may be empty though this machine saw banks in it.

    Raises:
        RolledBackError: If it is gone or empty, and is not to be.
        PermissionRefusedError: If a token was presented, and it is not judged.
        ConfigError: If it is in plain, and is not to be.
        EncryptionError: If it is encrypted, and nothing here opens it.
        StoreError: If it cannot be opened.
    """
    if settings.token is not None and not for_holder:
        raise PermissionRefusedError(
            "only the owner may do this, with no token",
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


def _close_to_others(settings: Settings, *, read_only: bool) -> None:
    """Put right the modes of the home and of the store, for who reads as well.

    No byte changes. A reader may have no right to it, and reads all the same.
    """
    path = local_path(settings.store)
    refused: tuple[type[Exception], ...] = (SatchelError, OSError) if read_only else ()
    with suppress(*refused):
        if path is not None and path.parent == settings.home:
            private_folder(settings.home)
    with suppress(SatchelError, OSError):  # whoever writes is told when it is opened
        if settings.home.is_dir():
            private_folder(settings.home)
        if path is not None and path.is_file():
            secure_modes(path)
        elif path is not None and path.is_dir():
            secure_files(path)


def open_configured(settings: Settings, *, read_only: bool) -> Store:
    """Open the configured store; raises as ``opened_store``."""
    _close_to_others(settings, read_only=read_only)
    if settings.options.store.encrypted and not is_encrypted(settings.store):
        raise ConfigError(
            "the store is not encrypted, and store.encrypted requires it",
            file=shown_address(settings.store),
            field="store.encrypted",
            hint="Encrypt it: satchel store encrypt --encrypt-to NAME",
        )
    return open_store(settings.store, read_only=read_only, unlocking=settings.unlocking)


def again_if_disturbed(work: Callable[[], T]) -> T:
    """Do what takes long and only reads an open store; once more if a writer came meanwhile.

    A store that nobody had open was read without locks then. The second time it is read with
    them, so whoever writes now and again cannot keep it from ever ending.

    Raises:
        StoreBusyError: If it cannot be read with locks, either.
    """
    try:
        return work()
    except StoreBusyError:
        return work()


def has_store(settings: Settings) -> bool:
    """Return whether the configured store is there; one that vanished is refused.

    What has to work without the store, as restoring it has, asks ``is_there`` instead.

    Raises:
        RolledBackError: If it is not there, and this machine saw banks in it.
    """
    if store_exists(settings.store):
        return True
    require_not_lost(settings, None)
    return False


def holds_anything(settings: Settings) -> bool:
    """Tell whether the configured store is there, and not an empty file."""
    path = local_path(settings.store)
    if path is not None and path.is_file() and not path.stat().st_size:
        return False
    return store_exists(settings.store)


def witness_of(settings: Settings) -> Witness:
    """Return what this machine saw of its banks, in this store.

    The heads are one record for all stores, but for one that ``witness_beside`` was made for;
    which banks a store has is noted for each.
    """
    own = witness_beside(settings)
    here = settings.state / "stores" / own.name
    return Witness(own if own.is_dir() else settings.state / "banks", here)


def witness_beside(settings: Settings) -> Path:
    """Return the folder of a witness for this store alone; mostly there is none.

    An older state that was put into another store to look at has one. Judged by what this machine
    saw it would be refused; counted with that, it would have the store in use refused.
    """
    place = blake3(written_place(settings.store).encode()).hexdigest()[:_DIGITS]
    return settings.state / "beside" / place


def written_place(address: str) -> str:
    """Return an address without a password, the same from whatever folder it is said."""
    shown = shown_address(address)
    return shown if "://" in shown else str(Path(shown).expanduser().absolute())


def writer_key(settings: Settings) -> SigningKey:
    """Return the key that signs heads on this machine, made on first use.

    It has no passphrase, since it signs with every change; an owner's key admits it to a bank.
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
    """Return the keys that this machine believes to own a bank: its own, and those bound to it.

    One that is trusted for any bank does not count: its holder could adopt them all.

    Args:
        settings: Where the registry is.
        bank: The bank.
        retired: Also keys that were replaced or let go here; a copy of the bank may not know yet.
    """
    states = {"trusted", "retired"} if retired else {"trusted"}
    return frozenset(
        key.key
        for key in settings.registry.listed()
        if key.state in states and key.role == "owner" and (key.own or bank in key.banks)
    )


Opener = Callable[[str, bool, Unlocker | None], Store]
"""Opens the store at what ``split_address`` gives, for reading only or not."""


def open_store(
    address: str, *, read_only: bool = False, unlocking: Unlocker | None = None
) -> Store:
    """Open the store at an address.

    Args:
        address: ``sqlite:///relative.db``, ``sqlite:////absolute.db``,
            ``ladybug:///absolute/folder``, the path of a file, or ``postgresql://USER@HOST/DATABASE``.
        read_only: Whether nothing is going to be written.
        unlocking: What opens the key of one that is encrypted; the environment when None.

    Raises:
        UsageError: If the address names no kind of store that is known here.
        EncryptionError: If it is encrypted, and nothing here opens it.
        StoreError: If it cannot be opened.
    """
    scheme, there = split_address(address)
    return _SCHEMES[scheme](there, read_only, unlocking)


def is_encrypted(address: str) -> bool:
    """Tell whether a store is encrypted at rest, by this program; a file of SQLite's can be."""
    if split_address(address)[0] != "sqlite":
        return False
    from satchel.stores.sqlite.encryption import is_keyed

    path = local_path(address)
    return path is not None and is_keyed(path)


def empty_store() -> Store:
    """Return an empty store of the moment, for who only reads where there is none."""
    from satchel.stores.memory import InMemoryStore

    return InMemoryStore()


@contextmanager
def temporary_store() -> Iterator[Store]:
    """Give an empty store on the disk that goes with the block.

    Only this process can read it: it is encrypted under a key that nobody else ever has.
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
    """Return the kind of store that an address names, and where it is: the whole of a server's.

    Raises:
        UsageError: If the kind is not known here, or not installed.
    """
    if "://" not in address:
        if address.partition(":")[0].lower() in STORES and ":" in address:
            raise _no_address(address)  # a file of that name would be another store
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
        raise _no_address(address)
    there = unquote(parts.path.removeprefix("/"))
    return parts.scheme, _graph_folder(there) if parts.scheme == "ladybug" else there


_CONNECTION = re.compile(r"(?:^|\s)(?:host|hostaddr|dbname|user|password|port)\s*=\s*\S")
"""What a connection string of PostgreSQL's own has; no path has it."""


def _no_address(address: str) -> UsageError:
    return UsageError(
        f"not a store address: {shown_address(address)}",
        field="store",
        hint="Write it as sqlite:////path/to/file.db, with four slashes, or as"
        " ladybug:///path/to/folder. sqlite:///file.db and ladybug:///name are in this folder.",
    )


def _graph_folder(there: str) -> str:
    """Return the folder of a graph store: a name is in this folder, a path is absolute.

    An earlier version took a path for one below this folder, too. That is still meant where it is
    there, or could only be there.

    Raises:
        UsageError: If there is one in both places.
    """
    absolute, first = f"/{there}", there.partition("/")[0]
    if there.startswith(("/", "~", ".")) or "/" not in there:
        return there
    if not Path(there).exists():
        return there if Path(first).is_dir() and not Path("/", first).is_dir() else absolute
    if Path(absolute).exists():
        raise UsageError(
            f"ladybug:///{there} is ambiguous: both {absolute} and {Path(there).absolute()} exist",
            field="store",
            hint=f"Use ladybug:///{absolute} or ladybug:///./{there}.",
        )
    return there


def store_exists(address: str) -> bool:
    """Tell whether there is a store at an address.

    Raises:
        StoreError: If a server does not answer.
    """
    scheme, there = split_address(address)
    if scheme in _SERVERS:
        return _SERVERS[scheme](there)
    path = Path(there).expanduser()
    return path.exists() and not (path.is_dir() and _is_empty(path))


def _is_empty(folder: Path) -> bool:
    """Tell whether a folder holds nothing, or only the lock of a store that was looked for."""
    with suppress(OSError):  # opening it says what is wrong
        return all(one.name == "lock" for one in folder.iterdir())
    return False


def is_same(one: str, other: str) -> bool:
    """Tell whether two addresses are those of one store."""
    path, beside = local_path(one), local_path(other)
    if path is None or beside is None:
        return path is beside and _without_password(one) == _without_password(other)
    if path.absolute() == beside.absolute():
        return True
    with suppress(OSError):
        return path.samefile(beside)
    return False


def _without_password(address: str) -> str:
    """Return what tells a store on a server from others; it is compared, and never shown."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return address
    who, at, where = parts.netloc.rpartition("@")
    asked = [one for one in parse_qsl(parts.query) if "pass" not in one[0].lower()]
    netloc = f"{who.partition(':')[0]}{at}{where}"
    return urlunsplit(parts._replace(netloc=netloc, query=urlencode(asked)))


def local_path(address: str) -> Path | None:
    """Return the file that an address names; None for a store that is no file here."""
    scheme, there = split_address(address)
    return None if scheme in _SERVERS else Path(there).expanduser()


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
    from satchel.stores.postgres import is_made

    return is_made(address)


# -- banks that are gone ---------------------------------------------------------------------

_SHOWN = 3
_HINT = (
    "Move the store back, or restore it: satchel backup restore. To accept that it is missing: "
    "satchel bank accept-gone --all, or one by one with its ID. See: satchel doctor."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingBank:
    """A bank that was seen in the store at hand."""

    id: str
    name: str | None
    """What it was called; None where that is not known."""

    @property
    def shown(self) -> str:
        """The name and the id, as they are shown."""
        return self.id if self.name is None else f"{self.name!r} ({self.id})"


def missing_banks(settings: Settings, present: Callable[[str], bool]) -> list[MissingBank]:
    """Return the banks that were seen in the configured store, and that are not in it.

    Args:
        settings: Where the store and the witness are.
        present: Tells whether the store has a bank.
    """
    witness = witness_of(settings)
    missing = [
        MissingBank(id=one.bank, name=one.name())
        for one in witness.seen_here()
        if not present(one.bank) and witness.knows(one.bank)
    ]
    missing += [
        MissingBank(id=bank, name=None)
        for bank in _never_placed(settings, witness)
        if not present(bank)
    ]
    return missing


def require_not_lost(settings: Settings, reader: Reader | None) -> None:
    """Refuse a store that is not there, or has no bank, where this machine saw banks in it.

    Args:
        settings: Where the store and the witness are.
        reader: A view of the store; None for one that is not there.

    Raises:
        RolledBackError: Naming the store and the banks; to who presents a token, neither.
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
    """Refuse a bank in the place of another one of its name that this machine saw in the store.

    Args:
        settings: Where the store and the witness are.
        reader: A view of the store.
        name: The name that is meant; None where none was said, and the only bank there is meant.
        but: The id of the bank that was found; empty for none.

    Raises:
        RolledBackError: Naming the bank that is gone.
    """
    mark, witness = name_hash(name), witness_of(settings)
    for one in witness.seen_here():
        if (
            one.bank != but
            and (name is None or one.mark == mark)
            and reader.head(one.bank) is None
            and witness.knows(one.bank)
        ):
            found = MissingBank(id=one.bank, name=one.name())
            raise RolledBackError(
                f"the bank {found.shown} is missing from the store, but this machine has seen "
                "it there",
                file=shown_address(settings.store),
                hint=_HINT,
            )


def _listed(missing: Iterable[MissingBank]) -> str:
    every = [one.shown for one in missing]
    more = f" and {len(every) - _SHOWN} more" if len(every) > _SHOWN else ""
    return f"the bank{'s' if len(every) > 1 else ''} {', '.join(every[:_SHOWN])}{more}"


def _never_placed(settings: Settings, witness: Witness) -> list[str]:
    """Return the banks that an earlier version witnessed for this home, without saying where.

    They were in the home's own store, as far as anybody knows: its writer key signed their heads.
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
"""Kinds of store that are no file here, each with what tells whether there is one."""
