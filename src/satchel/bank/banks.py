"""The banks of the store: create, list and rename them, and an owner's decisions about one."""

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Annotated

import msgspec
from msgspec import structs

from satchel.bank.connections import (
    MissingBank,
    configured_store,
    has_store,
    missing_banks,
    open_ledger,
    require_not_missing,
    store_exists,
    witness_of,
    writer_key,
)
from satchel.bank.keys import Owners, decider
from satchel.bank.machine_keys import require_owner
from satchel.bank.open_bank import (
    banks_called,
    default_bank,
    find_bank,
    name_of,
    own_store_of,
    set_default_bank,
)
from satchel.config.settings import Settings
from satchel.crypto.keys import SigningKey
from satchel.errors import BankExistsError, SatchelError, UsageError
from satchel.ledger import decisions
from satchel.ledger.authority import EpochDecision
from satchel.ledger.decisions import Decider
from satchel.ledger.ledger import Ledger
from satchel.ledger.transaction import LogTransaction
from satchel.ports.operations import Option, Options, operation
from satchel.ports.store import Store

_MISSING = "seen earlier by this machine, and missing from the store; see: satchel doctor"


class BankLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One bank in a listing."""

    id: str
    name: str | None = None
    records: int | None = None
    """Records in its log; None if it cannot be read."""

    epoch: int = 0
    trust: str | None = None
    """``own`` or ``untrusted``."""

    default: bool = False
    """Whether commands that name no bank use it."""

    notes: list[str] = []
    problem: str | None = None
    """Why it cannot be read."""


def create_bank(settings: Settings, name: str, owner: SigningKey) -> BankLine:
    """Create a bank with one owner, which this machine may write to.

    Raises:
        BankExistsError: If another bank has the name.
        UsageError: If the name is empty, or that of an agent whose memory is in its own store.
    """
    require_owner(settings, "banks")
    with configured_store(settings) as store:
        _require_free(settings, store, name)
        return _line(settings, store, create_bank_in(settings, store, name, owner).bank)


def _require_no_own_store(settings: Settings, name: str) -> None:
    """Refuse a bank for an agent that has its memory in its own store."""
    own = own_store_of(settings, name)
    if own is not None:
        raise UsageError(
            f"the agent {name!r} has its memory in its own store",
            file=str(own.path),
            hint=f"Use it: {own.command}. Or choose another name for the bank.",
        )


def bank_in_making(
    settings: Settings, store: Store, name: str, owner: SigningKey, *, joins: bool = True
) -> AbstractContextManager[tuple[Ledger, LogTransaction]]:
    """Return a context that creates a bank with the records appended in it; see ``Ledger.founded``.

    Args:
        settings: The settings.
        store: The store, open for writing.
        name: Name of the bank.
        owner: Its owner.
        joins: Whether the only bank so far becomes the default; False for the banks that one
            import creates.

    Raises:
        UsageError: If the agent of that name has its memory in its own store.
    """
    _require_no_own_store(settings, name)
    if joins:
        note_default_bank(settings, store)
    return Ledger.founded(
        store,
        owner=owner,
        writer=writer_key(settings),
        witness=witness_of(settings),
        name=name,
    )


def note_default_bank(settings: Settings, store: Store) -> None:
    """Make the only bank of the store its default, before a second one is created."""
    if settings.token is not None or default_bank(settings) is not None:
        return
    with store.reading() as reader:
        banks = reader.banks(limit=2)
    if len(banks) == 1:
        set_default_bank(settings, banks[0])


@dataclass(frozen=True)
class UseOptions(Options):
    """Which bank becomes the default."""

    bank: Annotated[str, Option("Bank name, ID or unique ID prefix.", argument=True, values="bank")]


@operation(
    UseOptions,
    name="bank use",
    example="satchel bank use assistant",
    absent={
        "http": "A request names the bank in its path.",
        "mcp": "The server is started for a bank: satchel mcp --bank.",
    },
)
def use_bank(settings: Settings, options: UseOptions) -> BankLine:
    """Make a bank the default: the one that commands use when they name none.

    Until then it is the first bank of the store. The home remembers the choice for each store.
    `--bank`, SATCHEL_BANK and `bank` of `[store]` in satchel.toml take precedence.
    """
    require_owner(settings, "banks")
    with configured_store(settings, read_only=True) as store:
        bank = find_bank(store, options.bank)
        line = _line(settings, store, bank)
    set_default_bank(settings, bank)
    return structs.replace(line, default=True)


def create_bank_in(
    settings: Settings, store: Store, name: str, owner: SigningKey, *, joins: bool = True
) -> Ledger:
    """Create a bank in an open store; another bank may have the same name."""
    with bank_in_making(settings, store, name, owner, joins=joins) as (ledger, _):
        return ledger


def rename_bank(settings: Settings, reference: str, name: str, *owners: SigningKey) -> BankLine:
    """Rename a bank as its owners. Its ID stays.

    Raises:
        BankExistsError: If another bank has the name.
        UsageError: If the name is empty.
        SigningKeyError: If a key is not that of an owner.
        ThresholdError: If more owners must sign.
    """
    require_owner(settings, "banks")
    with configured_store(settings) as store:
        bank = find_bank(store, reference)
        _require_free(settings, store, name, but=bank)
        _require_no_own_store(settings, name)
        _decider(settings, store, bank, owners).rename(name)
        return _line(settings, store, bank)


def list_banks(settings: Settings) -> list[BankLine]:
    """Return the banks of the store by name, including those that are missing from it."""
    require_owner(settings, "banks")
    if not has_store(settings):
        return []
    with configured_store(settings, read_only=True) as store:
        with store.reading() as reader:
            banks = reader.banks()
        lines = [_line(settings, store, bank) for bank in banks]
    default = lines[0].id if len(lines) == 1 else default_bank(settings)
    lines = [structs.replace(line, default=line.id == default) for line in lines]
    lines += [
        BankLine(id=missing.id, name=missing.name, problem=_MISSING)
        for missing in missing_banks(settings, set(banks).__contains__)
    ]
    return sorted(lines, key=lambda line: (line.name or "", line.id))


def adopt_bank(
    settings: Settings, reference: str, owner: SigningKey, reason: str | None, *, with_loss: bool
) -> EpochDecision:
    """Continue a bank whose owners' keys are lost, under a new owner; see ``Decider.adopt``."""
    require_owner(settings, "banks")
    with configured_store(settings) as store:
        decider = _decider(settings, store, find_bank(store, reference), (owner,))
        return decider.adopt(reason, with_loss=with_loss)


def accept_loss(
    settings: Settings, reference: str, owners: Owners, reason: str | None
) -> EpochDecision | None:
    """Accept that records this machine has seen are lost; see ``Decider.accept_rollback``."""
    require_owner(settings, "banks")
    with configured_store(settings) as store:
        decider = _decider(settings, store, find_bank(store, reference), owners)
        return decider.accept_rollback(reason)


def admit_writer(settings: Settings, reference: str, owners: Owners, key: str | None = None) -> str:
    """Admit a writer key to a bank, by default this machine's, and return the key."""
    require_owner(settings, "banks")
    admitted = key or writer_key(settings).did
    with configured_store(settings) as store:
        _decider(settings, store, find_bank(store, reference), owners).admit(admitted)
    return admitted


def accept_gone(settings: Settings, bank: str) -> bool:
    """Accept that a bank is missing from the store; return whether this machine knew it."""
    require_owner(settings, "banks")
    witness = witness_of(settings)
    if not store_exists(settings.store):  # do not create one
        return witness.forget(bank)
    with configured_store(settings, read_only=True, lost=True) as store:
        return decisions.forget(store, bank, witness=witness)


def accept_all_gone(settings: Settings) -> list[MissingBank]:
    """Accept all banks that are missing from the store, and return them."""
    require_owner(settings, "banks")
    missing = missing_from_store(settings)
    return [bank for bank in missing if accept_gone(settings, bank.id)]


def missing_from_store(settings: Settings) -> list[MissingBank]:
    """Return the banks that this machine has seen in the store and that are missing from it."""
    if not store_exists(settings.store):
        return missing_banks(settings, lambda _: False)
    with (
        configured_store(settings, read_only=True, lost=True) as store,
        store.reading() as reader,
    ):
        return missing_banks(settings, lambda bank: reader.head(bank) is not None)


def _require_free(settings: Settings, store: Store, name: str, but: str | None = None) -> None:
    """Refuse a name that is empty or that a bank other than ``but`` has."""
    if not name.strip():
        raise UsageError("a bank name must not be empty", field="name")
    if set(banks_called(store, name)) - {but}:
        raise BankExistsError(f"a bank named {name!r} already exists", field="name")
    with store.reading() as reader:
        require_not_missing(settings, reader, name, but or "")


def _decider(settings: Settings, store: Store, bank: str, owners: Owners) -> Decider:
    return decider(settings, store, bank, owners, writer_key(settings))


def _line(settings: Settings, store: Store, bank: str) -> BankLine:
    try:
        with open_ledger(settings, store, bank).reading() as view:
            return BankLine(
                id=bank,
                name=view.authority.name,
                records=view.head.size,
                epoch=view.head.epoch,
                trust=str(view.standing),
                notes=list(view.notes),
            )
    except SatchelError as error:
        with store.reading() as reader:
            name = name_of(reader, bank)
        return BankLine(id=bank, name=name, problem=error.message)
