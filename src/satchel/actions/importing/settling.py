"""What the settings of a bank say of an import into it, and telling hooks that it was done."""

from collections.abc import Iterable
from contextlib import suppress

import msgspec

from satchel.actions.config import Settings
from satchel.actions.configured.effective import effective
from satchel.actions.configured.sections import BankSettings
from satchel.actions.opened import find_bank, open_bank_in
from satchel.actions.wiring import has_store, opened_store
from satchel.errors import StoreError, UnknownBankError


def settings_for(settings: Settings, wanted: str | None) -> BankSettings:
    """Return what holds for a bank, whether it is there already or not.

    Args:
        settings: The surroundings.
        wanted: The bank, as ``find_bank`` takes it; None where several are meant, for which only
            what holds for all of them counts.

    Raises:
        SatchelError: If the bank is there, and cannot be read.
    """
    if wanted is not None and has_store(settings):
        # What is not there yet, or only a writer can put right, is for the import to see to.
        with (
            suppress(UnknownBankError, StoreError),
            opened_store(settings, read_only=True) as store,
        ):
            opened = open_bank_in(settings, store, find_bank(store, wanted))
            with opened.ledger.reading() as view:
                return opened.settled(view)
    return effective(settings.options, wanted or "", wanted)


def tell_imported(settings: Settings, banks: Iterable[msgspec.Struct]) -> None:
    """Have hooks told of an import, for each bank that it changed."""
    for one in banks:
        found = msgspec.to_builtins(one)
        source = found.get("source")
        if source is None:
            continue
        counts = {name: n for name, n in found["done"].items() if isinstance(n, int)}
        bank = (found.get("bank"), found["name"])
        settings.hooks.tell("on_import", bank=bank, ids=[source], counts=counts)
