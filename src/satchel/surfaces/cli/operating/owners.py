"""``satchel bank owner``: who decides about a bank, and how many of them have to agree."""

from pathlib import Path
from typing import Annotated

from satchel.actions.keys import owners as actions
from satchel.actions.keys import proposing
from satchel.actions.keys.owners import BankOwners
from satchel.seal.signing.key import SigningKey
from satchel.surfaces.cli._console import line, message, print_json, state, table
from satchel.surfaces.cli._options import (
    Also,
    DryRun,
    Json,
    Owner,
    Propose,
    owner_key,
    owner_keys,
)
from satchel.surfaces.cli._tree import Argument, Group
from satchel.surfaces.cli.operating._proposing import proposed, show_matters

Bank = Annotated[str, Argument(help="Bank name, ID or unique ID prefix.", values="bank")]
File = Annotated[Path, Argument(help="The file that --propose wrote.")]

owners = Group(help="Who decides about a bank, and how many must agree.")


@owners.command("list")
def list_command(bank: Bank, as_json: Json = False) -> None:
    """List the owners of a bank, and how many of them have to sign what is decided.

    Example: `satchel bank owner list assistant`
    """
    _show(actions.list_owners(state.settings, bank), as_json=as_json)


@owners.command("add")
def add_command(
    bank: Bank,
    owner: Annotated[
        str, Argument(metavar="KEY", help="did:key, or the name of a key here or trusted.")
    ],
    key: Owner = None,
    also: Also = None,
    propose: Propose = None,
    as_json: Json = False,
) -> None:
    """Make a key one of a bank's owners. It has to agree, so it signs as well.

    Where its secret is on another machine: --propose, and it signs the file there.

    Example: `satchel bank owner add assistant did:key:z6Mk... --propose ben.json`
    """
    settings, newcomer = state.settings, _held(owner)
    with proposed(propose, as_json=as_json):
        found = actions.add_owner(settings, bank, owner_keys(key, also), owner, newcomer)
    _show(found, as_json=as_json)


@owners.command("threshold")
def threshold_command(
    bank: Bank,
    number: Annotated[int, Argument(minimum=1, help="How many owners have to sign.")],
    key: Owner = None,
    also: Also = None,
    propose: Propose = None,
    as_json: Json = False,
) -> None:
    """Set how many owners have to sign what is decided about a bank.

    That is who owns it, which machines add to it, its name, and going on after a loss. As many as
    before have to sign this, also to ask for fewer. Remembering needs no owner.

    Example: `satchel bank owner threshold assistant 2 --also ben`
    """
    with proposed(propose, as_json=as_json):
        found = actions.set_threshold(state.settings, bank, owner_keys(key, also), number)
    _show(found, as_json=as_json)


@owners.command("sign")
def sign_command(
    file: File, key: Owner = None, dry_run: DryRun = False, as_json: Json = False
) -> None:
    """Sign what is proposed about a bank, after saying what that is. It is not decided by this.

    Read it first, and whether the bank is the one you mean: --dry-run signs nothing.

    Example: `satchel bank owner sign proposal.json --key ben`
    """
    if dry_run:
        found = proposing.read_proposal(state.settings, file)
    else:
        found = proposing.sign_proposal(state.settings, file, owner_key(key))
    if as_json:
        print_json(found)
    else:
        show_matters(found)


@owners.command("enact")
def enact_command(file: File, as_json: Json = False) -> None:
    """Note in the log of a bank what enough of its owners signed.

    Example: `satchel bank owner enact proposal.json`
    """
    found = proposing.enact_proposal(state.settings, file)
    if as_json:
        print_json(found)
        return
    show_matters(found)
    is_new = any(one.enacted for one in found)
    message("noted in its log" if is_new else "its log says so already")


def _held(owner: str) -> SigningKey | None:
    """Return the key that joins, where its secret is here."""
    return owner_key(owner) if owner in state.settings.keyring.names() else None


def _show(found: BankOwners, *, as_json: bool) -> None:
    if as_json:
        print_json(found)
        return
    table(
        ["name", "", "key"],
        [[one.name or "", "here" if one.signs else "", one.key] for one in found.owners],
    )
    line(f"{found.threshold} of {len(found.owners)} have to sign what is decided about the bank")
