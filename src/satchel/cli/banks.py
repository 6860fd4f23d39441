"""``satchel bank``: the banks of the store, and what an owner decides about one."""

import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Annotated, Any

import click

from satchel.admin import bank_operations
from satchel.admin.bank_copy import BankCopyResult, BankDeleteResult, delete_bank
from satchel.admin.bank_operations import AcceptedBank, AdmittedWriter, ResumedBank
from satchel.bank import banks as actions
from satchel.bank.connections import shown_address
from satchel.bank.listing import LogOptions, LogPage, log
from satchel.bank.open_bank import OpenBank, open_bank
from satchel.cli._bank_owners import owners
from satchel.cli._bank_settings import bank_config
from satchel.cli._console import count, excerpt, line, message, short, state, table
from satchel.cli._operations import command
from satchel.cli._progress import activity
from satchel.cli._tree import Group
from satchel.cli.imports import show_imports
from satchel.errors import UsageError
from satchel.ports.operations import Option, Options
from satchel.transfer.import_operations import list_imports

_REFUSED = 3

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
    return open_bank(state.settings, bank)


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
                excerpt(entry.text or ""),
            ]
            for entry in page.entries
        ],
        cut=True,
    )
    message(f"{count(page.size, 'entry')}, root {page.root}, signed by {page.key}")
    if page.next is not None:
        message(f"More: --after {page.next}")


@dataclass(frozen=True, slots=True, kw_only=True)
class BankConfirmOptions(Options):
    """Whether a person is asked."""

    yes: Annotated[bool, Option("Do not ask for confirmation.")] = False


def _confirm(given: dict[str, Any], confirmation: BankConfirmOptions) -> None:
    """Ask a person whether a bank may be deleted; without a terminal it is refused."""
    if confirmation.yes or given.get("dry_run"):
        return
    if state.json or not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError(
            "deleting a bank needs a confirmation", hint="Add --yes, or see --dry-run."
        )
    planned = delete_bank(state.settings, given["bank"], dry_run=True)
    message(f"{planned.name or planned.id}, {_size(planned)}, {planned.id}")
    message("Delete it for good? Type yes:")
    with activity.hidden():
        answer = sys.stdin.readline().strip().lower()
    if answer != "yes":
        raise click.Abort


def _size(deleted: BankDeleteResult) -> str:
    return count(sum(deleted.records.values()), "record")


def _show_created(bank: actions.BankLine) -> None:
    line(bank.id)


def _show_banks(listed: Sequence[actions.BankLine]) -> int:
    if not listed:
        message("No banks yet: satchel bank create NAME")
    else:
        table(
            ["name", "records", "owner", "default", "id"],
            [
                [
                    bank.name or "",
                    "" if bank.records is None else f"{bank.records:,}",
                    "refused"
                    if bank.problem
                    else "you"
                    if bank.standing == "own"
                    else bank.standing or "",
                    "yes" if bank.default else "",
                    bank.id,
                ]
                for bank in listed
            ],
        )
    for bank in listed:
        for note in [*bank.notes, *([bank.problem] if bank.problem else [])]:
            message(f"{bank.name or bank.id}: {note}")
    return _status(listed)


def _status(listed: Sequence[actions.BankLine]) -> int:
    return _REFUSED if any(bank.problem for bank in listed) else 0


def _show_renamed(bank: actions.BankLine) -> None:
    line(f"{bank.id} renamed to {bank.name}")


def _show_copied(copied: BankCopyResult) -> None:
    line(copied.bank)
    message(f"{count(copied.carried.records, 'record')} copied")


def _show_merged(merged: BankCopyResult) -> None:
    carried = merged.carried
    verb = "would be added" if carried.dry_run else "added"
    line(f"{count(carried.records, 'record')} {verb}")
    if carried.replaced:
        line(f"  {carried.replaced:,} replace a memory for the same thing")
    if carried.kept:
        line(f"{carried.kept:,} skipped: there is another memory for the same thing")
    if carried.there:
        line(f"{carried.there:,} unchanged")


def _show_deleted(deleted: BankDeleteResult, _: BankConfirmOptions) -> None:
    verb = "would be deleted" if deleted.dry_run else "deleted"
    line(f"{deleted.name or deleted.id} {verb}: {_size(deleted)}")


def _show_admitted(result: AdmittedWriter) -> None:
    message(f"admitted {result.admitted}")


def _show_resumed(resumed: ResumedBank) -> None:
    decision = resumed.decision
    if decision is None:
        message("Nothing is missing, so there is no loss to accept.")
    else:
        size = count(decision.resumed.size, "record")
        line(f"epoch {decision.epoch}: resumed after the first {size}")


def _show_accepted(accepted: Sequence[AcceptedBank]) -> None:
    for bank in accepted:
        message(f"no longer reported as missing: {bank.name or bank.id}")
    if not accepted:
        message("Nothing to accept: this machine has seen no such bank.")


command(banks, bank_operations.create_bank, _show_created)
command(banks, bank_operations.list_banks, _show_banks, status=_status)
command(banks, bank_operations.rename_bank, _show_renamed)
command(banks, bank_operations.copy_bank, _show_copied, label="copying")
command(banks, bank_operations.merge_banks, _show_merged, label="merging")
command(
    banks, bank_operations.delete_bank, _show_deleted, extra=BankConfirmOptions, prepare=_confirm
)
command(banks, bank_operations.admit_writer, _show_admitted)
command(banks, bank_operations.adopt_bank, _show_resumed)
command(banks, bank_operations.accept_loss, _show_resumed)
command(banks, bank_operations.accept_gone, _show_accepted)
