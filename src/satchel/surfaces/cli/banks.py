"""``satchel bank``: the banks of the store, and what an owner decides about one."""

import sys
from contextlib import AbstractContextManager
from typing import Annotated, Literal

import click

from satchel.actions import banks as actions
from satchel.actions.log import LogOptions, LogPage, log
from satchel.actions.opened import OpenBank, opened_bank
from satchel.actions.operating.transfers import list_imports
from satchel.actions.wiring import shown_address
from satchel.errors import UsageError
from satchel.ledger.authority import Decision
from satchel.surfaces.cli._console import (
    count,
    gist,
    line,
    message,
    print_json,
    progress,
    short,
    state,
    table,
)
from satchel.surfaces.cli._operations import command
from satchel.surfaces.cli._options import Also, Json, Owner, Propose, owner_key, owner_keys
from satchel.surfaces.cli._tree import Argument, Group, Option
from satchel.surfaces.cli.importing import show_imports
from satchel.surfaces.cli.operating._proposing import proposed
from satchel.surfaces.cli.operating.bank_config import bank_config
from satchel.surfaces.cli.operating.owners import owners

Bank = Annotated[str, Argument(help="Bank name, ID or unique ID prefix.", values="bank")]
Reason = Annotated[str | None, Option("--reason", help="For whoever reads the log.")]

_OWNERS = {"own": "you", "stranger": "untrusted"}

Conflict = Literal["skip", "overwrite", "error"]

banks = Group(help="Manage banks: each is the memory of one agent.")


def add_to(app: Group) -> None:
    """Add the commands of this module."""
    command(banks, actions.use_bank, _show_default)
    command(banks, log, _show_log, bank=_to_read)
    command(banks, list_imports, show_imports, bank=_to_read)
    app.add(banks, name="bank")


banks.add(bank_config, name="config")
banks.add(owners, name="owner")


def _show_default(bank: actions.BankLine) -> None:
    message(f"{bank.name or bank.id} is the default bank of {shown_address(state.settings.store)}")


def _to_read(bank: str | None, _: LogOptions) -> AbstractContextManager[OpenBank]:
    return opened_bank(state.settings, bank)


def _show_log(page: LogPage) -> None:
    for note in page.notes:
        message("note: ", note)
    table(
        ["position", "added", "type", "state", "verified", "id", "text"],
        [
            [
                f"{entry.position:,}",
                entry.at[:19],
                entry.type,
                entry.state,
                "yes" if entry.verified else entry.problem,
                short(entry.id),
                gist(entry.text or ""),
            ]
            for entry in page.entries
        ],
        cut=True,
    )
    message(f"{count(page.size, 'entry')}, root {page.root}, signed by {page.key}")
    if page.next is not None:
        message(f"There are more: --after {page.next}")


@banks.command("create")
def create_command(
    name: Annotated[str, Argument(help="Any text.")], key: Owner = None, as_json: Json = False
) -> None:
    """Start a bank.

    Example: `satchel bank create assistant`
    """
    found = actions.create_bank(state.settings, name, owner_key(key))
    if as_json:
        print_json(found)
    else:
        line(found.id)


@banks.command("list")
def list_command(as_json: Json = False) -> int:
    """List the banks of the store. Each is opened and verified.

    Example: `satchel bank list`
    """
    found = actions.list_banks(state.settings)
    if as_json:
        print_json(found)
    elif not found:
        message("No banks yet: satchel bank create NAME")
    else:
        table(
            ["name", "records", "owner", "default", "id"],
            [
                [
                    bank.name or "",
                    "" if bank.records is None else f"{bank.records:,}",
                    "refused" if bank.problem else _OWNERS.get(bank.standing or "", ""),
                    "default" if bank.default else "",
                    bank.id,
                ]
                for bank in found
            ],
        )
    for bank in found:
        for note in [*bank.notes, *([bank.problem] if bank.problem else [])]:
            message(f"{bank.name or bank.id}: {note}")
    return 3 if any(bank.problem for bank in found) else 0


@banks.command("rename")
def rename_command(
    bank: Bank,
    name: Annotated[str, Argument(metavar="NEW", help="Any text.")],
    key: Owner = None,
    also: Also = None,
    propose: Propose = None,
    as_json: Json = False,
) -> None:
    """Give a bank another name, as its owner. Its id, and all that is in it, stay.

    Example: `satchel bank rename assistant "work assistant"`
    """
    with proposed(propose, as_json=as_json):
        found = actions.rename_bank(state.settings, bank, name, *owner_keys(key, also))
    if as_json:
        print_json(found)
    else:
        line(f"{found.id} is called {found.name}")


@banks.command("copy")
def copy_command(
    bank: Bank,
    name: Annotated[str, Argument(metavar="NEW", help="Name of the new bank.")],
    retired: Annotated[
        bool, Option("--retired", help="Also what was superseded or deleted.")
    ] = False,
    key: Owner = None,
    as_json: Json = False,
) -> None:
    """Make a bank with the current memories of another, under an id and a log of its own.

    Memories keep their ids. When it is cut short, the same command goes on.

    Example: `satchel bank copy assistant experiment`
    """
    from satchel.actions.upkeep.whole_banks import copy_bank

    owner = owner_key(key)
    with progress("copying", True, records=True) as tell:
        done = copy_bank(state.settings, bank, name, owner, retired=retired, progress=tell)
    if as_json:
        print_json(done)
    else:
        line(done.bank)
        message(f"{count(done.carried.records, 'record')} copied")


@banks.command("merge")
def merge_command(
    bank: Annotated[str, Argument(metavar="FROM", help="The bank that is read.")],
    into: Annotated[str, Argument(metavar="INTO", help="The bank that is added to.")],
    on_conflict: Annotated[
        Conflict, Option(help="Where both have a current record for the same thing.")
    ] = "skip",
    dry_run: Annotated[bool, Option("--dry-run", help="Only say what would come.")] = False,
    as_json: Json = False,
) -> None:
    """Add the current memories of one bank to another; the first stays as it is.

    They become visible all at once. What the other bank has already is passed over, also where it
    was changed or deleted there. When it is cut short, the same command goes on.

    Example: `satchel bank merge experiment assistant --on-conflict overwrite`
    """
    from satchel.actions.upkeep.whole_banks import merge_banks
    from satchel.transfer.between_banks import OnConflict

    with progress("merging", True, records=True) as tell:
        done = merge_banks(
            state.settings,
            bank,
            into,
            on_conflict=OnConflict(on_conflict),
            dry_run=dry_run,
            progress=tell,
        )
    if as_json:
        print_json(done)
        return
    found = done.carried
    line(f"{count(found.records, 'record')} {'would be ' if dry_run else ''}added")
    if found.replaced:
        line(f"  {found.replaced:,} in the place of another for the same thing")
    if found.kept:
        line(f"{found.kept:,} left out: there is another for the same thing")
    if found.there:
        line(f"{found.there:,} there already")


@banks.command("delete")
def delete_command(
    bank: Bank,
    yes: Annotated[bool, Option("--yes", help="Do not ask.")] = False,
    dry_run: Annotated[bool, Option("--dry-run", help="Only say what would go.")] = False,
    as_json: Json = False,
) -> None:
    """Remove a bank from the store, whole: its log, its files, its vectors. It cannot be undone.

    This machine does not miss it afterwards. Backups, and copies that a newer version kept when it
    brought the store up to date (.bak), still hold it.

    Example: `satchel bank delete experiment --yes`
    """
    from satchel.actions.upkeep.whole_banks import delete_bank

    if not yes and not dry_run:
        _ask(bank)
    done = delete_bank(state.settings, bank, dry_run=dry_run)
    if as_json:
        print_json(done)
        return
    records = sum(done.records.values())
    verb = "would be removed" if dry_run else "removed"
    line(f"{done.name or done.id} {verb}: {count(records, 'record')}")


def _ask(bank: str) -> None:
    """Have a person say that a bank may go; nobody is asked who cannot answer."""
    if state.json or not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError(
            "nobody can be asked whether the bank may go", hint="Add --yes, or see --dry-run."
        )
    from satchel.actions.upkeep.whole_banks import delete_bank

    found = delete_bank(state.settings, bank, dry_run=True)
    size = count(sum(found.records.values()), "record")
    message(f"{found.name or found.id}, {size}, {found.id}")
    message("Remove it for good? Type yes:")
    if sys.stdin.readline().strip().lower() != "yes":
        raise click.Abort


@banks.command("admit")
def admit_command(
    bank: Bank,
    writer: Annotated[
        str | None, Option(help="Another machine's writer key, as did:key; else this one's.")
    ] = None,
    key: Owner = None,
    also: Also = None,
    propose: Propose = None,
    as_json: Json = False,
) -> None:
    """Let a machine add to a bank, as its owner.

    Example: `satchel bank admit assistant --writer did:key:z6Mk...`
    """
    with proposed(propose, as_json=as_json):
        admitted = actions.admit_writer(state.settings, bank, owner_keys(key, also), writer)
    if as_json:
        print_json({"admitted": admitted})
    else:
        message(f"admitted {admitted}")


@banks.command("adopt")
def adopt_command(
    bank: Bank,
    reason: Reason = None,
    with_loss: Annotated[
        bool, Option("--with-loss", help="Also where this machine saw more of it.")
    ] = False,
    key: Owner = None,
    as_json: Json = False,
) -> None:
    """Go on with a bank whose owner's keys are lost. Everything in it is proved first.

    It is then yours on this machine. Others, who knew its owner, need not believe it.

    Example: `satchel bank adopt assistant --reason "the laptop is gone"`
    """
    decision = actions.adopt_bank(state.settings, bank, owner_key(key), reason, with_loss=with_loss)
    _decided(decision, as_json=as_json)


@banks.command("accept-loss")
def accept_loss_command(
    bank: Bank,
    reason: Reason = None,
    key: Owner = None,
    also: Also = None,
    propose: Propose = None,
    as_json: Json = False,
) -> None:
    """Go on from a store that lacks what this machine saw of a bank, as its owner.

    Look for the newer store first: what the present one lacks is given up.

    Example: `satchel bank accept-loss assistant --reason "restored from Monday's backup"`
    """
    with proposed(propose, as_json=as_json):
        decision = actions.accept_loss(state.settings, bank, owner_keys(key, also), reason)
    _decided(decision, as_json=as_json)


@banks.command("accept-gone")
def accept_gone_command(
    bank: Annotated[str | None, Argument(help="The bank's whole id.")] = None,
    every: Annotated[
        bool, Option("--all", help="All banks that are missing from the store.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Accept that a bank is gone from the store, so that it is not missed any more.

    What protects a copy of it in another store stays.

    Example: `satchel bank accept-gone blake3:0f3c...`
    """
    if (bank is None) is not every:
        raise UsageError("name a bank by its whole id, or say --all", field="bank")
    if bank is None:
        gone = actions.accept_all_gone(state.settings)
        if as_json:
            print_json({"known": [one.id for one in gone]})
        for one in () if as_json else gone:
            message(f"not missed any more: {one.shown}")
        return
    known = actions.accept_gone(state.settings, bank)
    if as_json:
        print_json({"known": known})
    else:
        message("it is not missed any more" if known else "this machine never saw it")


def _decided(decision: Decision | None, *, as_json: bool) -> None:
    if as_json:
        print_json(decision)
    elif decision is None:
        message("nothing was lost, so there is nothing to decide")
    else:
        line(f"epoch {decision.epoch}, from the first {count(decision.resumed.size, 'record')}")
