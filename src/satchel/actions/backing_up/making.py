"""Making a bank of a backup in a store of the moment, without what was erased since."""

import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from satchel.actions.backing_up.destinations import is_believed
from satchel.actions.config import Settings
from satchel.actions.keys.told import Owners
from satchel.actions.opened import is_here
from satchel.actions.wiring import witness_of, writer_key
from satchel.backup.assembling import Cut, assemble, size_at
from satchel.backup.catalogue import Catalogue, Found
from satchel.backup.erased import erased_in
from satchel.backup.manifests import BankPart
from satchel.errors import EncryptionError, SigningKeyError, VerificationError
from satchel.ledger.acceptance import Decider
from satchel.ledger.epochs import contains
from satchel.ledger.erasure.finishing import finish
from satchel.ledger.erasure.targets import ERASABLE
from satchel.ledger.ledger import Ledger
from satchel.ledger.witness import Witness
from satchel.memory.records import Erasure, Status
from satchel.memory.times import now
from satchel.ports.store import Store
from satchel.seal.sealing import seal
from satchel.transfer.copies import copy_in

_TOGETHER = 500
_REASON = "erased after the backup it was restored from"


def make_bank(  # noqa: PLR0913 - what is made, of what, and where
    settings: Settings,
    catalogue: Catalogue,
    found: Found,
    part: BankPart,
    at: str | None,
    store: Store,
    tell: Callable[[int], None],
) -> bool:
    """Make a bank of a backup; tell whether it was there at the moment that is meant.

    Args:
        settings: The surroundings.
        catalogue: Where the backup is.
        found: The backup.
        part: The bank.
        at: The moment; None for that of the backup.
        store: Where to; it has no such bank.
        tell: Told of the records.

    Raises:
        VerificationError: If the backup is not what was signed.
        SigningKeyError: If a log that ends between two heads cannot be signed here.
    """
    packs, cut = catalogue.packs(found), None
    if at is not None and at < found.manifest.at:
        size = size_at(part, packs, at)
        if not size:
            return False
        cut = Cut(size, writer_key(settings)) if size < part.size else None
    assemble(part, packs, store, tell, cut)
    return True


def require_lists(catalogue: Catalogue, found: Found) -> None:
    """Require that what was erased since a backup can be read, as far as its machine noted it.

    Raises:
        EncryptionError: If nothing here opens that: restoring would bring back what was erased.
    """
    if found.manifest.series in catalogue.lists.unopened():
        raise EncryptionError(
            "the list of later erasures is encrypted, and no identity here decrypts it",
            file=catalogue.name,
            hint="Pass an identity it was encrypted to: satchel --identity FILE.",
        )


def erased_since(
    settings: Settings,
    catalogue: Catalogue,
    bank: str,
    stores: Sequence[Store],
    signers: Sequence[str] = (),
) -> list[str]:
    """Return what was erased of a bank, by the lists beside the backups and by what is in use.

    A list that somebody signed who is not believed erases nothing, and a copy in use that does not
    verify says nothing.

    Args:
        settings: The surroundings.
        catalogue: Where the backup is.
        bank: The bank.
        stores: Stores that may have a newer state of it: the one in use, the one it goes into.
        signers: Keys that are believed this once.
    """
    ids = dict[str, None]()
    for erased, key in catalogue.lists.of(bank):
        if is_believed(settings, key, signers):
            ids |= dict.fromkeys(erased.records)
    for store in stores:
        with store.reading() as reader, suppress(VerificationError):
            copy = copy_in(reader, bank) if is_here(reader, bank) else None
            if copy is not None:
                ids |= dict.fromkeys(erased_in(copy))
    return list(ids)


def erased_here(settings: Settings, store: Store, bank: str) -> list[str]:
    """Return what this machine's witness noted as erased, of a bank that was made just now.

    The witness knows positions in the log. They hold up to the newest head of it that is in this
    log as well.
    """
    witness = witness_of(settings)
    positions = witness.positions(bank)
    if not positions:
        return []
    with store.reading() as reader:
        copy = copy_in(reader, bank)
        if copy is None:
            return []
        heads = (one.head for one in witness.heads(bank))
        common = max((head.size for head in heads if contains(copy.tree, head)), default=0)
        rows = reader.at(bank, [position for position in positions if position < common])
        return [
            row.id
            for row in rows
            if row.type in ERASABLE and copy.found.fold.redacted(row.id, copy.size) is None
        ]


def erase_again(
    settings: Settings,
    store: Store,
    bank: str,
    erased: Sequence[str],
    owners: Callable[[], Owners] | None,
) -> int:
    """Erase records of a bank that was just made from a backup; return how many had to be.

    Args:
        settings: The surroundings.
        store: A store of the moment.
        bank: The bank.
        erased: What was erased since; what is not there is passed over.
        owners: Gives the keys of owners, where this machine may not write to the bank yet.

    Raises:
        SigningKeyError: If nobody here may write to the bank.
        ThresholdError: If more owners have to let this machine.
        StoreError: If it cannot be written.
    """
    todo = _left(store, bank, erased)
    if not todo:
        return 0
    with tempfile.TemporaryDirectory(prefix="satchel-restore-") as folder:
        witness, writer = Witness(Path(folder) / "banks"), writer_key(settings)
        ledger = Ledger(store, bank, writer=writer, witness=witness)
        with store.reading() as reader:
            copy = copy_in(reader, bank)
            may = copy is not None and copy.found.authority.admits(writer.did)
        if not may:
            if owners is None:
                raise SigningKeyError(
                    "records were erased since, and no key here may write that to the bank",
                    hint="Its owner can: pass the key with --signing-key.",
                )
            first, *also = owners()
            Decider(
                store=store,
                bank=bank,
                owner=first,
                also=tuple(also),
                writer=writer,
                witness=witness,
            ).admit()
        for start in range(0, len(todo), _TOGETHER):
            names, at = todo[start : start + _TOGETHER], now()
            gone = [
                seal(Status(target=one, state="deleted", reason=_REASON, at=at)) for one in names
            ]
            again = [
                seal(Erasure(entry=one, reason=_REASON, by=writer.did, at=at)) for one in names
            ]
            ledger.append([*gone, *again])
        finish(store, bank)
    return len(todo)


def _left(store: Store, bank: str, erased: Sequence[str]) -> list[str]:
    """Return which of these records are there and are not said to be erased."""
    found = list[str]()
    with store.reading() as reader:
        copy = copy_in(reader, bank)
        for start in range(0, len(erased) if copy is not None else 0, _TOGETHER):
            rows = reader.get(bank, list(erased[start : start + _TOGETHER]))
            found += [
                row.id
                for row in sorted(rows, key=lambda row: row.seq)
                if row.type in ERASABLE
                and copy is not None
                and not copy.found.fold.is_erased(row.id, copy.size)
            ]
    return found
