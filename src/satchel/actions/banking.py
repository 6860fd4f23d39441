"""The store and the banks that commands work on, and the key that adds to them."""

from collections.abc import Iterator
from contextlib import contextmanager

from satchel.actions.config import Settings
from satchel.actions.signing import create_key
from satchel.ledger.ledger import Ledger
from satchel.ledger.witness import Witness
from satchel.ports.store import Store
from satchel.seal.signing.key import SigningKey
from satchel.stores.opening import local_path, open_store

WRITER_NAME = "writer"
"""The name of the key file with this machine's writer key."""


@contextmanager
def opened_store(settings: Settings, *, read_only: bool = False) -> Iterator[Store]:
    """Give the configured store, and close it.

    Raises:
        StoreError: If it cannot be opened.
    """
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
        return create_key(settings, WRITER_NAME, role="writer")
    return settings.keyring.load(WRITER_NAME)


def open_ledger(settings: Settings, store: Store, bank: str, *, writes: bool = False) -> Ledger:
    """Open one bank of a store."""
    writer = writer_key(settings) if writes else None
    return Ledger(store, bank, writer=writer, witness=witness_of(settings))
