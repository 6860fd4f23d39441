"""``satchel bank``: the banks of the store, their owners and configuration."""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Annotated, Any

import click

from satchel.admin import bank_operations
from satchel.admin import settings as operations
from satchel.admin.bank_copy import BankCopyResult, BankDeleteResult, delete_bank
from satchel.admin.bank_operations import AcceptedBank, AdmittedWriter, ResumedBank
from satchel.admin.settings import BankConfigReport
from satchel.bank import banks as actions
from satchel.bank import key_operations
from satchel.bank.connections import configured_store, shown_address
from satchel.bank.key_operations import OwnedBank
from satchel.bank.keys import OwnerList, ProposedAction
from satchel.bank.listings import LogPage, log
from satchel.bank.machine_keys import require_owner
from satchel.bank.open_bank import OpenBank, find_bank, open_bank
from satchel.cli._console import (
    activity,
    count,
    excerpt,
    line,
    message,
    print_facts,
    short,
    short_time,
    state,
    table,
)
from satchel.cli._operations import command, open_to_read
from satchel.cli._options import NAME, owner_key, show_proposals
from satchel.cli._tree import Group
from satchel.cli.imports import show_imports
from satchel.config.options import BankName
from satchel.errors import UsageError
from satchel.ports.operations import Option, Options
from satchel.setup.init import InitResult
from satchel.transfer.import_operations import list_imports

owners = Group(help="Manage who decides about a bank, and how many must agree.")


@dataclass(frozen=True, slots=True)
class OwnedBankOptions(Options):
    """Which bank."""

    bank: BankName


@contextmanager
def _owned_to_read(_: Any, of: OwnedBankOptions) -> Iterator[OwnedBank]:
    with _open_owned(of.bank, read_only=True) as owned:
        yield owned


@contextmanager
def _owned_to_write(_: Any, of: OwnedBankOptions) -> Iterator[OwnedBank]:
    with _open_owned(of.bank, read_only=False) as owned:
        yield owned


@contextmanager
def _open_owned(bank: str, *, read_only: bool) -> Iterator[OwnedBank]:
    settings = state.settings
    require_owner(settings, "banks")
    with configured_store(settings, read_only=read_only) as store:
        yield OwnedBank(settings, store, find_bank(store, bank))


def _newcomer_key(_: Any) -> Mapping[str, Any]:
    return {"newcomer": owner_key}


def _show_owners(owners: OwnerList, _: OwnedBankOptions) -> None:
    table(
        ["name", "secret key", "key"],
        [[each.name or "", "here" if each.signs else "", each.key] for each in owners.owners],
    )
    number = f"{owners.threshold} of {len(owners.owners)}"
    line(f"{number} must sign a decision about the bank")


def _show_enacted(decisions: Sequence[ProposedAction]) -> None:
    show_proposals(decisions)
    is_new = any(each.enacted for each in decisions)
    message("recorded in its log" if is_new else "already in its log")


command(
    owners, key_operations.list_owners, _show_owners, context=_owned_to_read, extra=OwnedBankOptions
)
command(
    owners,
    key_operations.add_owner,
    _show_owners,
    context=_owned_to_write,
    extra=OwnedBankOptions,
    internal=_newcomer_key,
)
command(
    owners,
    key_operations.set_threshold,
    _show_owners,
    context=_owned_to_write,
    extra=OwnedBankOptions,
)
command(owners, key_operations.sign_proposal, show_proposals)
command(owners, key_operations.enact_proposal, _show_enacted)


bank_config = Group(help="Manage the configuration of one bank.")


def _open_config(_: Any, of: OwnedBankOptions) -> AbstractContextManager[OpenBank]:
    return open_bank(state.settings, of.bank)


def _open_config_to_write(_: Any, of: OwnedBankOptions) -> AbstractContextManager[OpenBank]:
    return open_bank(state.settings, of.bank, writes=True)


def _read_values(values: dict[str, Any], _: OwnedBankOptions) -> None:
    """Parse values that are JSON; an empty one removes the setting."""
    values["values"] = {name: _config_value(text) for name, text in values["values"].items()}


def _config_value(text: Any) -> Any:
    if not isinstance(text, str):
        return text
    try:
        return json.loads(text) if text else None
    except (ValueError, RecursionError):
        return text


def _show_config(report: BankConfigReport, _: OwnedBankOptions) -> None:
    if not report.settings:
        message("Only defaults. To change one: satchel bank config set")
        return
    print_facts(
        (name, f"{json.dumps(value, ensure_ascii=False)}  ({report.origins.get(name, 'file')})")
        for name, value in sorted(report.settings.items())
    )


def _show_config_export(result: BankConfigReport) -> None:
    if result.output != NAME:
        message(f"written to {result.output}")


def _show_config_import(result: BankConfigReport) -> None:
    message("imported" if result.is_changed else "unchanged")


command(
    bank_config,
    operations.show_config,
    _show_config,
    context=_open_config,
    extra=OwnedBankOptions,
)
command(
    bank_config,
    operations.set_config,
    _show_config,
    context=_open_config_to_write,
    extra=OwnedBankOptions,
    prepare=_read_values,
)
command(bank_config, operations.export_config, _show_config_export)
command(bank_config, operations.import_config, _show_config_import)


_REFUSED = 3

banks = Group(help="Manage banks: each is the memory of one agent.")


def add_to(app: Group) -> None:
    """Add the commands of this module."""
    command(app, bank_operations.init, _show_started)
    command(banks, actions.use_bank, _show_default)
    command(banks, log, _show_log, bank=open_to_read)
    command(banks, list_imports, show_imports, bank=open_to_read)
    app.add(banks, name="bank")


def _show_started(started: InitResult) -> None:
    bank = started.name or started.bank or f"{count(started.banks, 'bank')}: satchel bank list"
    print_facts([("home", started.home), ("store", started.store), ("bank", bank)])
    if "bank" in started.made:
        message('Next: satchel remember "..."')
    elif not started.made:
        message("Nothing to do: everything exists.")


banks.add(bank_config, name="config")
banks.add(owners, name="owner")


def _show_default(bank: actions.BankLine) -> None:
    message(f"{bank.name or bank.id} is the default bank of {shown_address(state.settings.store)}")


def _show_log(page: LogPage) -> None:
    for note in page.notes:
        message("note: ", note)
    table(
        ["position", "added", "type", "state", "verified", "id", "text"],
        [
            [
                f"{entry.position:,}",
                short_time(entry.at, seconds=True),
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
    """Whether to ask for confirmation."""

    yes: Annotated[bool, Option("Do not ask for confirmation.")] = False


def _confirm(values: dict[str, Any], confirmation: BankConfirmOptions) -> None:
    """Ask for confirmation to delete a bank; without a terminal, refuse it."""
    if confirmation.yes or values.get("dry_run"):
        return
    if state.json or not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError(
            "deleting a bank needs a confirmation", hint="Add --yes, or see --dry-run."
        )
    planned = delete_bank(state.settings, values["bank"], dry_run=True)
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
                    if bank.trust == "own"
                    else bank.trust or "",
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
