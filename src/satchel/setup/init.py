"""Initialization of a machine: a home, a key, a store and a bank, created if missing."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import msgspec

from satchel.bank.banks import create_bank
from satchel.bank.connections import configured_store, has_store, shown_address
from satchel.bank.machine_keys import require_owner
from satchel.bank.open_bank import OpenBank, default_bank, find_bank, name_of, open_bank_in
from satchel.config.settings import Settings
from satchel.crypto.keys import SigningKey
from satchel.errors import UnknownBankError, UsageError
from satchel.ports.store import Store
from satchel.runtime.locks import ProcessLock
from satchel.runtime.private_files import private_folder

FIRST_BANK = "default"
"""Default name of the first bank."""

_PATIENCE = 60.0
_ID_PREFIX = "blake3:"

OwnerKey = Callable[[], SigningKey]
"""Returns the key of the owner of a new bank, created on first use; called only if needed."""


class InitResult(msgspec.Struct, frozen=True, kw_only=True):
    """Result of the initialization."""

    home: str
    store: str
    bank: str | None
    """ID of the default bank; None if there are several, and none is the default."""

    name: str | None
    banks: int
    made: list[str]
    """Which of ``key``, ``store`` and ``bank`` were created."""

    key: str | None = None
    """Name of the owner's signing key."""


def initialize(settings: Settings, name: str | None, owner: OwnerKey) -> InitResult:
    """Create the home, the key, the store and a first bank, as far as they are missing.

    Concurrent processes are serialized: one creates them, the others find them.

    Args:
        settings: The settings.
        name: Name of the bank; None for the configured one, or ``default`` if there is no bank.
        owner: Returns the key of the owner of a new bank.

    Raises:
        UsageError: If the name is empty, or an ID.
        LockedError: If another process does the same and does not end.
        StoreError: If the store cannot be opened.
    """
    require_owner(settings, "init")
    if name is not None and not name.strip():
        raise UsageError("a bank name must not be empty", field="name")
    requested = name or settings.options.store.bank or None
    private_folder(settings.home)
    lock = ProcessLock(settings.home / "init.lock", purpose="creating the first bank")
    with lock.exclusive(wait=_PATIENCE):
        keys, had_store = set(settings.keyring.names()), has_store(settings)
        bank, count = _default_bank_of(settings, requested)
        created = list[str]()
        if bank is None and (count == 0 or requested is not None):
            line = create_bank(settings, _new_name(requested), owner())
            bank, count = (line.id, line.name), count + 1
            created.append("bank")
        if not had_store:
            created.insert(0, "store")
        if settings.options.keys.name in set(settings.keyring.names()) - keys:
            created.insert(0, "key")
    return InitResult(
        home=str(settings.home),
        store=shown_address(settings.store),
        bank=bank[0] if bank is not None else None,
        name=bank[1] if bank is not None else None,
        banks=count,
        made=created,
    )


def open_or_create_bank(
    settings: Settings,
    store: Store,
    bank: str | None,
    owner: OwnerKey,
    on_created: Callable[[InitResult], None] | None = None,
) -> OpenBank:
    """Open a bank of an open store for writing; the first bank is created if there is none.

    Args:
        settings: The settings.
        store: The store, open for writing.
        bank: As ``open_bank`` takes it.
        owner: As above.
        on_created: Called with the result if something was created.

    Raises:
        UnknownBankError: If there are banks, but not this one.
        UsageError: If there are several, and none is named.
    """
    with store.reading() as reader:
        is_empty = not reader.banks(limit=1)
    if is_empty:
        created = initialize(settings, bank, owner)
        if on_created is not None:
            on_created(created)
    return open_bank_in(settings, store, bank, writes=True)


@contextmanager
def open_bank_for_writing(
    settings: Settings,
    bank: str | None,
    owner: OwnerKey,
    on_created: Callable[[InitResult], None] | None = None,
) -> Iterator[OpenBank]:
    """Open the configured store and one of its banks for writing; see ``open_or_create_bank``."""
    if not has_store(settings):
        created = initialize(settings, bank, owner)
        if on_created is not None:
            on_created(created)
    with configured_store(settings, for_holder=True) as store:
        yield open_or_create_bank(settings, store, bank, owner, on_created)


def _default_bank_of(
    settings: Settings, requested: str | None
) -> tuple[tuple[str, str | None] | None, int]:
    """Return the default bank, if it exists, and the number of banks."""
    with configured_store(settings) as store:
        with store.reading() as reader:
            banks = reader.banks()
        if requested is not None:
            try:
                bank = find_bank(store, requested)
            except UnknownBankError:
                return None, len(banks)
        elif len(banks) == 1:
            bank = banks[0]
        elif (default := default_bank(settings)) in banks and default is not None:
            bank = default
        else:
            return None, len(banks)
        with store.reading() as reader:
            return (bank, name_of(reader, bank)), len(banks)


def _new_name(requested: str | None) -> str:
    chosen = requested or FIRST_BANK
    if chosen.startswith(_ID_PREFIX):
        raise UsageError("a bank name cannot be an ID", field="name", hint="Choose another name.")
    return chosen
