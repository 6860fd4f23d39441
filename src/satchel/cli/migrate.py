"""``satchel migrate``."""

from dataclasses import dataclass
from typing import Annotated, Any

from satchel.cli._console import count, line, message, state
from satchel.cli._operations import command
from satchel.cli._options import owner_key, report_default_bank, report_receipts
from satchel.cli._tree import Group
from satchel.config.files import STORES
from satchel.errors import UsageError
from satchel.ports.operations import Option, Options
from satchel.receipts.steps import MigratedBank, MigrationResult
from satchel.replication.store_operations import migrate


def add_to(app: Group) -> None:
    """Add the commands of this module."""
    command(
        app,
        migrate,
        _show,
        label="migrating",
        internal=lambda _: {"key": lambda: owner_key(None)},
        extra=BankNamesOptions,
        prepare=_prepare,
        status=lambda found: found.exit_status,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class BankNamesOptions(Options):
    """Another way to name banks."""

    banks_listed: Annotated[
        str | None, Option("The same, with commas between.", flag="--banks", metavar="NAME,...")
    ] = None


def _prepare(given: dict[str, Any], listed: BankNamesOptions) -> None:
    if state.store is not None:
        raise UsageError(
            "a migration has two stores", field="store", hint="Use: satchel migrate FROM TO"
        )
    names = (listed.banks_listed or "").split(",")
    given["banks"] = (*given.get("banks", ()), *(name.strip() for name in names if name.strip()))
    given |= {"home": state.home, "config": state.config, "told": _tell}


def _tell(done: MigratedBank) -> None:
    if done.problem is None:
        message(f"{done.name or done.bank}: ", "verified" if done.verified else "compared")


def _show(found: MigrationResult, _: BankNamesOptions) -> None:
    for one in found.banks:
        name = one.name or one.bank
        if one.problem is not None:
            line(f"{name}: failed: ", one.problem)
            for loss in one.losses:
                message(f"{name}: lost: {loss.name}, {loss.count:,}: {loss.reason}")
            continue
        size, would = count(one.size, "record"), "would be " if found.dry_run else ""
        now = f"{one.carried:,} {would}copied" if not found.dry_run else f"to do: {one.relation}"
        line(f"{name}: {size}, {now}" + (", verified" if one.verified else ""))
        for note in one.notes:
            message(f"{name}: note: ", note)
    done = len(found.banks) - len(found.failed)
    line(
        f"{done} of {count(len(found.banks), 'bank')} " + ("compared" if found.dry_run else "done")
    )
    if found.left:
        message(f"not migrated, and not in {found.target}: {', '.join(found.left)}", style="yellow")
    _show_switch(found)
    report_default_bank([one.name or one.bank for one in found.banks if one.default])
    for note in found.notes:
        message("note: ", note)
    report_receipts([one.receipt for one in found.banks if one.receipt], 0)


def _show_switch(found: MigrationResult) -> None:
    if found.switched is not None:
        was = "" if found.switched.changed else " (unchanged)"
        line(f"switched: {found.switched.file}{was}")
        if found.switched.kept is not None:
            message("the previous configuration is kept in ", found.switched.kept)
    elif (found.failed or found.left) and found.switch_wanted and not found.dry_run:
        hint = "" if found.failed else ": migrate the others as well, or use --leave-others"
        message(f"the configuration is unchanged{hint}", style="yellow")
    elif not found.dry_run and found.target.partition("://")[0] in STORES:
        message("to use it: ", f"satchel --store {found.target}")
