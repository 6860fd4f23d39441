"""``satchel banks``: the banks of the store, and what an owner decides about one."""

from typing import Annotated

import typer

from satchel.actions import banks as actions
from satchel.ledger.authority import Decision
from satchel.surfaces.cli._console import count, line, message, print_json, state, table
from satchel.surfaces.cli._options import Json, Owner, owner_key

Bank = Annotated[str, typer.Argument(help="Name of the bank, its id, or the start of that.")]
Reason = Annotated[str | None, typer.Option("--reason", help="For whoever reads the log.")]

banks = typer.Typer(no_args_is_help=True, help="Banks: each the memory of one agent.")


def add_to(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.add_typer(banks, name="banks")


@banks.command("create")
def create_command(
    name: Annotated[str, typer.Argument(help="Any text.")], key: Owner = None, as_json: Json = False
) -> None:
    """Start a bank.

    Example: `satchel banks create assistant`
    """
    found = actions.create_bank(state.settings, name, owner_key(key))
    if as_json:
        print_json(found)
    else:
        line(found.id)


@banks.command("list")
def list_command(as_json: Json = False) -> int:
    """List the banks of the store, each opened and proved.

    Example: `satchel banks list`
    """
    found = actions.list_banks(state.settings)
    if as_json:
        print_json(found)
    elif not found:
        message("No banks yet: satchel banks create NAME")
    else:
        table(
            ["name", "", "", "id"],
            [
                [
                    bank.name or "",
                    "" if bank.records is None else count(bank.records, "record"),
                    "refused" if bank.problem else bank.standing or "",
                    bank.id,
                ]
                for bank in found
            ],
        )
    for bank in found:
        for note in [*bank.notes, *([bank.problem] if bank.problem else [])]:
            message(f"{bank.name or bank.id}: {note}")
    return 3 if any(bank.problem for bank in found) else 0


@banks.command("admit")
def admit_command(
    bank: Bank,
    writer: Annotated[
        str | None, typer.Option(help="Another machine's writer key, as did:key; else this one's.")
    ] = None,
    key: Owner = None,
    as_json: Json = False,
) -> None:
    """Let a machine add to a bank, as its owner.

    Example: `satchel banks admit assistant --writer did:key:z6Mk...`
    """
    admitted = actions.admit_writer(state.settings, bank, owner_key(key), writer)
    if as_json:
        print_json({"admitted": admitted})
    else:
        message(f"admitted {admitted}")


@banks.command("adopt")
def adopt_command(
    bank: Bank,
    reason: Reason = None,
    with_loss: Annotated[
        bool, typer.Option("--with-loss", help="Also where this machine saw more of it.")
    ] = False,
    key: Owner = None,
    as_json: Json = False,
) -> None:
    """Go on with a bank whose owner's keys are lost. Everything in it is proved first.

    It is then yours on this machine. Others, who knew its owner, need not believe it.

    Example: `satchel banks adopt assistant --reason "the laptop is gone"`
    """
    decision = actions.adopt_bank(state.settings, bank, owner_key(key), reason, with_loss=with_loss)
    _decided(decision, as_json=as_json)


@banks.command("accept-loss")
def accept_loss_command(
    bank: Bank, reason: Reason = None, key: Owner = None, as_json: Json = False
) -> None:
    """Go on from a store that lacks what this machine saw of a bank, as its owner.

    Look for the newer store first: what the present one lacks is given up.

    Example: `satchel banks accept-loss assistant --reason "restored from Monday's backup"`
    """
    _decided(actions.accept_loss(state.settings, bank, owner_key(key), reason), as_json=as_json)


@banks.command("accept-gone")
def accept_gone_command(
    bank: Annotated[str, typer.Argument(help="The bank's whole id.")],
    as_json: Json = False,
) -> None:
    """Accept that a bank is gone from the store, so that it is not missed any more.

    Example: `satchel banks accept-gone blake3:0f3c...`
    """
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
