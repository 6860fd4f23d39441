"""Whole banks: copying one, merging one into another, deleting one."""

from collections.abc import Callable

import msgspec

from satchel.actions.banks import made_bank
from satchel.actions.config import Settings
from satchel.actions.opened import banks_called, find_bank, is_here, is_on_its_way, name_of
from satchel.actions.permitted.owning import require_owner
from satchel.actions.wiring import has_store, open_ledger, opened_store, witness_of
from satchel.errors import BankExistsError, UnknownBankError, UsageError
from satchel.ledger import acceptance
from satchel.ports.store import Store
from satchel.seal.signing.key import SigningKey
from satchel.transfer.arrivals import is_begun
from satchel.transfer.between_banks import Carried, Carrier, OnConflict

_FOUNDING = 2
"""Records of a bank that nothing was added to yet."""

Progress = Callable[[int, int], None]
"""Told of the places of the log that were looked at, and how many there are."""


class Copied(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one bank in another."""

    bank: str
    """The id of the bank that it is in now."""

    name: str | None
    carried: Carried


class Deleted(msgspec.Struct, frozen=True, kw_only=True):
    """A bank that is gone, or would be."""

    id: str
    name: str | None = None
    records: dict[str, int] = {}
    """How many of each type there were."""

    blobs: int = 0
    dry_run: bool = False


def copy_bank(
    settings: Settings,
    wanted: str,
    name: str,
    owner: SigningKey,
    *,
    retired: bool = False,
    progress: Progress | None = None,
) -> Copied:
    """Make a bank with the memories of another, under its own id and log.

    Args:
        settings: The surroundings.
        wanted: The bank, as ``find_bank`` takes it.
        name: What the new one is called. One that an earlier copying left unfinished is gone on
            with.
        owner: Who owns the new one.
        retired: Whether what is no longer current comes along.
        progress: Told how far it is.

    Raises:
        UsageError: If a bank has the name, or it is empty.
    """
    require_owner(settings, "banks")
    if not name.strip():
        raise UsageError("a bank name must not be empty", field="name")
    with opened_store(settings) as store:
        origin = find_bank(store, wanted)
        target = _unfinished(settings, store, origin, name)
        if target is None:
            target = made_bank(settings, store, name, owner).bank
        carrier = _carrier(settings, store, origin, target, writes=True)
        carrier.retired = retired
        return _copied(store, target, carrier.carry(progress=progress))


def merge_banks(
    settings: Settings,
    wanted: str,
    into: str,
    *,
    on_conflict: OnConflict = OnConflict.SKIP,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> Copied:
    """Carry the current memories of one bank into another; the first stays as it is.

    Args:
        settings: The surroundings.
        wanted: The bank that is read.
        into: The bank that is added to.
        on_conflict: What to do where both have a current record for the same thing.
        dry_run: Only count.
        progress: Told how far it is.

    Raises:
        UsageError: If the two are the same.
        SlotTakenError: If there is a conflict and that is an error.
    """
    require_owner(settings, "banks")
    with opened_store(settings, read_only=dry_run) as store:
        origin, target = find_bank(store, wanted), find_bank(store, into)
        if origin == target:
            raise UsageError("a bank cannot be merged into itself", field="into")
        carrier = _carrier(settings, store, origin, target, writes=not dry_run)
        carrier.on_conflict = on_conflict
        done = carrier.plan(progress=progress) if dry_run else carrier.carry(progress=progress)
        return _copied(store, target, done)


def delete_bank(settings: Settings, wanted: str, *, dry_run: bool = False) -> Deleted:
    """Remove a bank from the store, whole, with what is beside its log; nothing is left of it.

    This machine does not miss it then. A bank that is gone already, and is only missed, is named
    by its whole id; so is one of which a copy to this store is not complete.

    Args:
        settings: The surroundings.
        wanted: The bank, as ``find_bank`` takes it.
        dry_run: Only say what would go.

    Raises:
        UnknownBankError: If there is none, and none is missed.
        StoreError: If it cannot be written; then it is there, unless only the files could not be
            rid of its bytes: do it again then.
    """
    require_owner(settings, "banks")
    witness = witness_of(settings)
    if not has_store(settings):
        raise UnknownBankError("there is no store yet", hint="Create one: satchel init")
    with opened_store(settings, read_only=dry_run, lost=True) as store:
        missed = witness.knows(wanted)
        with store.reading() as reader:
            begun = is_on_its_way(reader, wanted)
            gone = missed and not begun and not is_here(reader, wanted)
        if gone:
            found = Deleted(id=wanted, dry_run=dry_run)
        else:
            bank = wanted if begun else find_bank(store, wanted)
            found = _counted(store, bank, dry_run=dry_run)
        if not dry_run:
            with store.writing() as writing:
                writing.remove(found.id)
            if not begun:  # what was on its way here was never this machine's to miss
                acceptance.forget(store, found.id, witness=witness)
            store.scrub()
        return found


def _counted(store: Store, bank: str, *, dry_run: bool) -> Deleted:
    with store.reading() as reader:
        return Deleted(
            id=bank,
            name=name_of(reader, bank),
            records=reader.counts(bank),
            blobs=sum(1 for _ in reader.blobs.listed(bank)),
            dry_run=dry_run,
        )


def _unfinished(settings: Settings, store: Store, origin: str, name: str) -> str | None:
    """Return a bank of a name that a copying did not finish; None where the name is free.

    Raises:
        UsageError: If the name is that of a bank that is in use.
    """
    named = banks_called(store, name)
    for bank in named:
        with open_ledger(settings, store, bank).reading() as view:
            begun = is_begun(view, origin)
            if bank != origin and (begun or view.head.size == _FOUNDING):
                return bank
    if named:
        raise BankExistsError(f"a bank named {name!r} already exists", field="name")
    return None


def _carrier(
    settings: Settings, store: Store, origin: str, target: str, *, writes: bool
) -> Carrier:
    return Carrier(
        store=store,
        origin=open_ledger(settings, store, origin),
        target=open_ledger(settings, store, target, writes=writes),
    )


def _copied(store: Store, target: str, done: Carried) -> Copied:
    with store.reading() as reader:
        return Copied(bank=target, name=name_of(reader, target), carried=done)
