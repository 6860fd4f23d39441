"""Who owns a bank, and how many of them have to sign what is decided about it."""

import msgspec

from satchel.actions.config import Settings
from satchel.actions.keys.told import Owners, decider
from satchel.actions.opened import find_bank, name_of
from satchel.actions.permitted.owning import require_owner
from satchel.actions.signing import named_key
from satchel.actions.wiring import open_ledger, opened_store, writer_key
from satchel.ports.store import Store
from satchel.seal.signing.key import SigningKey


class OwnerLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One owner of a bank."""

    key: str
    name: str | None = None
    """What it is called on this machine."""

    signs: bool = False
    """Whether its secret is here."""


class BankOwners(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The owners of a bank."""

    bank: str
    threshold: int
    """How many of them have to sign."""

    owners: list[OwnerLine]
    name: str | None = None


Place = tuple[Store, str]
"""A store that is open, and the id of a bank in it."""


def list_owners(settings: Settings, wanted: str) -> BankOwners:
    """Return who owns a bank, by its log, which is proved.

    Raises:
        UnknownBankError: If there is no such bank.
        VerificationError: If the store is not what it was, or not what was signed.
    """
    require_owner(settings, "banks")
    with opened_store(settings, read_only=True) as store:
        return owners_in(settings, store, find_bank(store, wanted))


def add_owner(
    settings: Settings,
    wanted: str,
    owners: Owners,
    key: str,
    newcomer: SigningKey | None = None,
) -> BankOwners:
    """Make a key one of a bank's owners, by its name or itself; see ``KeyDecider.add_owner``."""
    require_owner(settings, "banks")
    with opened_store(settings) as store:
        place = (store, find_bank(store, wanted))
        return add_owner_in(settings, place, owners, key, newcomer)


def add_owner_in(
    settings: Settings,
    place: Place,
    owners: Owners,
    key: str,
    newcomer: SigningKey | None = None,
) -> BankOwners:
    """Make a key one of a bank's owners, in a store that is open."""
    require_owner(settings, "banks")
    store, bank = place
    added = named_key(settings, key)
    decider(settings, store, bank, owners, writer_key(settings)).add_owner(added, newcomer)
    return owners_in(settings, store, bank)


def set_threshold(settings: Settings, wanted: str, owners: Owners, threshold: int) -> BankOwners:
    """Say how many owners of a bank have to sign; see ``KeyDecider.set_threshold``."""
    require_owner(settings, "banks")
    with opened_store(settings) as store:
        place = (store, find_bank(store, wanted))
        return set_threshold_in(settings, place, owners, threshold)


def set_threshold_in(
    settings: Settings, place: Place, owners: Owners, threshold: int
) -> BankOwners:
    """Say how many owners have to sign, in a store that is open."""
    require_owner(settings, "banks")
    store, bank = place
    decider(settings, store, bank, owners, writer_key(settings)).set_threshold(threshold)
    return owners_in(settings, store, bank)


def owners_in(settings: Settings, store: Store, bank: str) -> BankOwners:
    """Return who owns a bank of a store that is open."""
    require_owner(settings, "banks")
    with store.reading() as reader:
        name = name_of(reader, bank)
    with open_ledger(settings, store, bank).reading() as view:
        authority = view.authority
    held = {settings.keyring.read(one).key for one in settings.keyring.names()}
    known = {one.key: one.name for one in settings.registry.listed()}
    return BankOwners(
        bank=bank,
        name=name,
        threshold=authority.threshold,
        owners=[
            OwnerLine(key=key, name=known.get(key), signs=key in held)
            for key in sorted(authority.owners)
        ],
    )
