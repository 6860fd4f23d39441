"""Which store, keys and witness the actions work with; the one place that names a store's module.

A store has an address: ``sqlite:///path/to/file.db``, ``ladybug:///path/to/folder``, or the plain
path of a file of SQLite's.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote, urlsplit

from satchel.actions.config import Settings
from satchel.actions.configured.provider import STORES
from satchel.disk.private import private_folder
from satchel.errors import ConfigError, UsageError
from satchel.ledger.ledger import Ledger
from satchel.ledger.witness import Witness
from satchel.ports.store import Store
from satchel.seal.signing.key import SigningKey

WRITER_NAME = "writer"
"""The name of the key file with this machine's writer key."""


@contextmanager
def opened_store(settings: Settings, *, read_only: bool = False) -> Iterator[Store]:
    """Give the configured store, and close it.

    Raises:
        StoreError: If it cannot be opened.
    """
    path = local_path(settings.store)
    if not read_only and path is not None and path.parent == settings.home:
        private_folder(settings.home)
    store = open_store(settings.store, read_only=read_only)
    try:
        yield store
    finally:
        store.close()


def has_store(settings: Settings) -> bool:
    """Tell whether the configured store was ever made."""
    path = local_path(settings.store)
    return path is None or path.exists()


def witness_of(settings: Settings) -> Witness:
    """Return what this machine saw of its banks."""
    return Witness(settings.state / "banks")


def writer_key(settings: Settings) -> SigningKey:
    """Return the key that signs heads on this machine, made on first use.

    It has no passphrase, since it signs with every change; an owner's key admits it to a bank.
    """
    if WRITER_NAME not in settings.keyring.names():
        from satchel.actions.signing import create_key

        return create_key(settings, WRITER_NAME, role="writer")
    return settings.keyring.load(WRITER_NAME)


def open_ledger(settings: Settings, store: Store, bank: str, *, writes: bool = False) -> Ledger:
    """Open one bank of a store."""
    writer = writer_key(settings) if writes else None
    trusted = known_owners(settings, bank)
    return Ledger(store, bank, writer=writer, witness=witness_of(settings), trusted=trusted)


def known_owners(settings: Settings, bank: str) -> frozenset[str]:
    """Return the keys that this machine believes to own a bank: its own, and those bound to it.

    One that is trusted for any bank does not count: its holder could adopt them all.
    """
    known = settings.registry.listed()
    return frozenset(
        key.key
        for key in known
        if key.state == "trusted" and key.role == "owner" and (key.own or bank in key.banks)
    )


Opener = Callable[[str, bool], Store]
"""Opens the store at what comes after ``SCHEME://``, for reading only or not."""


def open_store(address: str, *, read_only: bool = False) -> Store:
    """Open the store at an address.

    Args:
        address: ``sqlite:///relative.db``, ``sqlite:////absolute.db``, ``ladybug:///folder``, or
            the path of a file.
        read_only: Whether nothing is going to be written.

    Raises:
        UsageError: If the address names no kind of store that is known here.
        StoreError: If it cannot be opened.
    """
    scheme, there = split_address(address)
    return _SCHEMES[scheme](there, read_only)


def split_address(address: str) -> tuple[str, str]:
    """Return the kind of store that an address names, and where it is.

    Raises:
        UsageError: If the kind is not known here, or not installed.
    """
    if "://" not in address:
        return "sqlite", address
    parts = urlsplit(address)
    if parts.scheme in STORES and parts.scheme not in _SCHEMES:
        raise ConfigError(
            f"the store {parts.scheme!r} is not installed here",
            field="provider",
            hint=f"There are: {', '.join(_SCHEMES)}.",
        )
    if parts.scheme not in _SCHEMES or parts.netloc or parts.query or parts.fragment:
        raise UsageError(
            f"not the address of a store: {address}",
            field="store",
            hint="Write it as sqlite:///path/to/file.db or ladybug:///path/to/folder; four slashes"
            " for an absolute path.",
        )
    return parts.scheme, unquote(parts.path.removeprefix("/"))


def local_path(address: str) -> Path | None:
    """Return the file that an address names; None for a store that is no file here."""
    return Path(split_address(address)[1]).expanduser()


def _sqlite(path: str, read_only: bool) -> Store:  # noqa: FBT001 - called by table only
    from satchel.stores.sqlite import SqliteStore

    return SqliteStore(Path(path).expanduser(), read_only=read_only)


def _ladybug(path: str, read_only: bool) -> Store:  # noqa: FBT001 - called by table only
    from satchel.stores.ladybug import LadybugStore

    return LadybugStore(Path(path).expanduser(), read_only=read_only)


_SCHEMES: dict[str, Opener] = {"ladybug": _ladybug, "sqlite": _sqlite}
