"""What became of the banks of the store when a key of theirs changed."""

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from satchel.actions.config import Settings
from satchel.actions.opened import name_of
from satchel.actions.wiring import has_store, open_ledger, opened_store, witness_of
from satchel.errors import SatchelError, ThresholdError
from satchel.ledger.authority import Authority
from satchel.ledger.deciding.about_keys import KeyDecider
from satchel.ports.store import Store
from satchel.seal.encoding.jcs import decode_canonical
from satchel.seal.signing.key import SigningKey


class BankTold(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One bank in whose log something was to be noted about a key."""

    id: str
    name: str | None = None
    noted: bool = False
    """Whether a record was added; False where the log says so already, or could not."""

    problem: str | None = None
    """Why not."""

    hint: str | None = None

    to_sign: list[dict[str, Any]] = []
    """What more owners have to sign."""


Owners = tuple[SigningKey, ...]
"""The keys of one owner or several, who sign together."""

Telling = Callable[[Store, str, Authority], bool | None]
"""Notes something in one bank's log; None where it does not concern the bank."""


def each_bank(settings: Settings, tell: Telling) -> list[BankTold]:
    """Note something in the logs of the banks that it concerns; one that fails stops no other."""
    if not has_store(settings):
        return []
    with opened_store(settings) as store:
        return list(_each(settings, store, tell))


def _each(settings: Settings, store: Store, tell: Telling) -> Iterator[BankTold]:
    with store.reading() as reader:
        banks = {bank: name_of(reader, bank) for bank in reader.banks()}
    for bank, name in banks.items():
        try:
            with open_ledger(settings, store, bank).reading() as view:
                authority = view.authority
            noted = tell(store, bank, authority)
        except ThresholdError as error:
            drawn = [decode_canonical(one) for one in error.drawn]
            yield BankTold(
                id=bank, name=name, problem=error.message, hint=error.hint, to_sign=drawn
            )
            continue
        except SatchelError as error:
            yield BankTold(id=bank, name=name, problem=error.message, hint=error.hint)
            continue
        if noted is not None:
            yield BankTold(id=bank, name=name, noted=noted)


def decider(
    settings: Settings, store: Store, bank: str, owners: Owners, writer: SigningKey
) -> KeyDecider:
    """Return what owners decide with, whose records a key signs the head over."""
    return KeyDecider(
        store=store,
        bank=bank,
        owner=owners[0],
        also=owners[1:],
        writer=writer,
        witness=witness_of(settings),
    )
