"""Erasing again what a backup has and was erased since, before anybody sees it."""

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from satchel.actions.config import Settings
from satchel.actions.wiring import writer_key
from satchel.errors import SigningKeyError
from satchel.ledger.acceptance import Decider
from satchel.ledger.erasure.finishing import finish
from satchel.ledger.erasure.targets import ERASABLE
from satchel.ledger.ledger import Ledger
from satchel.ledger.witness import Witness
from satchel.memory.records import Erasure, Status
from satchel.memory.times import now
from satchel.ports.store import Store
from satchel.seal.sealing import seal
from satchel.seal.signing.key import SigningKey
from satchel.transfer.copies import copy_in

_TOGETHER = 500
_REASON = "erased after the backup that it was restored from"


def erase_again(
    settings: Settings,
    store: Store,
    bank: str,
    erased: Sequence[str],
    owner: Callable[[], SigningKey] | None,
) -> int:
    """Erase records of a bank that was just made from a backup; return how many had to be.

    Args:
        settings: The surroundings.
        store: A store of the moment.
        bank: The bank.
        erased: What was erased since; what is not there is passed over.
        owner: Gives the owner's key, where this machine may not write to the bank yet.

    Raises:
        SigningKeyError: If nobody here may write to the bank.
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
            if owner is None:
                raise SigningKeyError(
                    "something was erased since, and nobody here may write that to the bank",
                    hint="Its owner can: name the key with --key.",
                )
            Decider(store=store, bank=bank, owner=owner(), writer=writer, witness=witness).admit()
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
