"""``satchel bank owner``: who decides about a bank, and how many have to agree."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from satchel.bank import key_operations
from satchel.bank.connections import configured_store
from satchel.bank.key_operations import OwnedBank
from satchel.bank.keys import OwnerList, ProposedAction
from satchel.bank.open_bank import find_bank
from satchel.bank.owner_rights import require_owner
from satchel.cli._console import line, message, state, table
from satchel.cli._operations import command
from satchel.cli._options import owner_key, show_matters
from satchel.cli._tree import Group
from satchel.config.options import BankName
from satchel.ports.operations import Options

owners = Group(help="Manage who decides about a bank, and how many must agree.")


@dataclass(frozen=True, slots=True)
class OwnedBankOptions(Options):
    """Which bank."""

    bank: BankName


@contextmanager
def _to_read(_: Any, of: OwnedBankOptions) -> Iterator[OwnedBank]:
    with _owned(of.bank, read_only=True) as owned:
        yield owned


@contextmanager
def _to_decide(_: Any, of: OwnedBankOptions) -> Iterator[OwnedBank]:
    with _owned(of.bank, read_only=False) as owned:
        yield owned


@contextmanager
def _owned(bank: str, *, read_only: bool) -> Iterator[OwnedBank]:
    settings = state.settings
    require_owner(settings, "banks")
    with configured_store(settings, read_only=read_only) as store:
        yield OwnedBank(settings, store, find_bank(store, bank))


def _newcomer(_: Any) -> Mapping[str, Any]:
    return {"newcomer": owner_key}


def _show(found: OwnerList, _: OwnedBankOptions) -> None:
    table(
        ["name", "secret key", "key"],
        [[each.name or "", "here" if each.signs else "", each.key] for each in found.owners],
    )
    number = f"{found.threshold} of {len(found.owners)}"
    line(f"{number} must sign a decision about the bank")


def _show_enacted(decisions: Sequence[ProposedAction]) -> None:
    show_matters(decisions)
    is_new = any(each.enacted for each in decisions)
    message("recorded in its log" if is_new else "already in its log")


command(owners, key_operations.list_owners, _show, context=_to_read, extra=OwnedBankOptions)
command(
    owners,
    key_operations.add_owner,
    _show,
    context=_to_decide,
    extra=OwnedBankOptions,
    internal=_newcomer,
)
command(owners, key_operations.set_threshold, _show, context=_to_decide, extra=OwnedBankOptions)
command(owners, key_operations.sign_proposal, show_matters)
command(owners, key_operations.enact_proposal, _show_enacted)
