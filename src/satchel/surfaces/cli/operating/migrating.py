"""``satchel migrate``."""

from pathlib import Path
from typing import Annotated

from satchel.actions.configured.provider import STORES
from satchel.actions.operating.ends import Ends, ends
from satchel.actions.operating.migrated import Migrated, MigratedBank, MigrateOptions
from satchel.actions.operating.migrating import migrate
from satchel.errors import UsageError
from satchel.surfaces.cli._console import count, line, message, print_json, state
from satchel.surfaces.cli._options import AcceptLoss, DryRun, Json, owner_key, tell_receipts
from satchel.surfaces.cli._tree import Group, Option


def add_to(app: Group) -> None:
    """Add the commands of this module."""
    app.command("migrate")(migrate_command)


def migrate_command(
    from_config: Annotated[
        Path | None, Option("--from-config", help="The configuration to leave.")
    ] = None,
    to_config: Annotated[
        Path | None, Option("--to-config", help="The configuration to go to.")
    ] = None,
    from_: Annotated[
        str | None, Option("--from", help="The store to leave, as for --store.")
    ] = None,
    to: Annotated[
        str | None, Option("--to", help="The store to go to; made if it is not there.")
    ] = None,
    banks: Annotated[
        str | None, Option("--banks", help="Only these, with commas between; else all.")
    ] = None,
    jobs: Annotated[int, Option("--jobs", help="How many banks at a time.")] = 4,
    no_switch: Annotated[
        bool, Option("--no-switch", help="Leave the active configuration as it is.")
    ] = False,
    leave_others: Annotated[
        bool,
        Option("--leave-others", help="Switch although the new store lacks other banks."),
    ] = False,
    accept_loss: AcceptLoss = None,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> int:
    """Bring all banks of one store to another, verified, and switch to it.

    Each bank keeps its ids, its log and its head, and is read back whole; each has a receipt. When
    all are done, the active configuration becomes the new one, and what it was is kept beside it.
    What a product has no place for is a loss, and leaves the configuration as it is, unless
    `--accept-loss` names it. Banks that `--banks` does not name, and that the new store lacks, are
    named, and leave the configuration as it is, unless `--leave-others`. Cut short, the same
    command resumes. Exit status: 0 all done, 1 a copy differs or the configuration was not
    switched, 5 one could not be written.

    Example: `satchel migrate --from-config old.toml --to-config new.toml`
    """
    if state.store is not None:
        raise UsageError("a migration has two stores", field="store", hint="Say --from and --to.")
    said = Ends(from_config=from_config, to_config=to_config, from_store=from_, to_store=to)
    source, target = ends(said, home=state.home, config=state.config)
    options = MigrateOptions(
        banks=tuple(name.strip() for name in (banks or "").split(",") if name.strip()),
        jobs=jobs,
        new=None if no_switch else to_config,
        active=_active(),
        accept_loss=tuple(accept_loss or ()),
        leaves_others=leave_others,
        dry_run=dry_run,
        owner=lambda: owner_key(None),
        told=_tell,
    )
    try:
        found = migrate(source, target, options)
    finally:
        source.hooks.finish()
        target.hooks.finish()
    if as_json:
        print_json(found)
    else:
        _show(found, wants_switch=bool(to_config) and not no_switch)
    tell_receipts([one.receipt for one in found.banks if one.receipt], 0)
    unswitched = to_config is not None and not (no_switch or dry_run or found.switched)
    return found.exit_status or int(unswitched)


def _active() -> Path:
    """Return the file that is read when nobody names another."""
    return state.settings.file


def _tell(done: MigratedBank) -> None:
    if done.problem is None:
        message(f"{done.name or done.bank}: ", "verified" if done.verified else "looked at")


def _show(found: Migrated, *, wants_switch: bool) -> None:
    for one in found.banks:
        name = one.name or one.bank
        if one.problem is not None:
            line(f"{name}: not done: ", one.problem)
            for loss in one.losses:
                message(f"{name}: lost: {loss.name}, {loss.count:,}: {loss.reason}")
            continue
        size, would = count(one.size, "record"), "would be " if found.dry_run else ""
        now = f"{one.carried:,} {would}carried" if not found.dry_run else f"to do: {one.relation}"
        line(f"{name}: {size}, {now}" + (", verified" if one.verified else ""))
        for note in one.notes:
            message(f"{name}: note: ", note)
    done = len(found.banks) - len(found.failed)
    line(
        f"{done} of {count(len(found.banks), 'bank')} " + ("looked at" if found.dry_run else "done")
    )
    if found.left:
        message(f"left behind, and not in {found.target}: {', '.join(found.left)}", style="yellow")
    _show_switch(found, wants_switch=wants_switch)
    for note in found.notes:
        message("note: ", note)


def _show_switch(found: Migrated, *, wants_switch: bool) -> None:
    if found.switched is not None:
        was = "" if found.switched.changed else ", which it was already"
        line(f"switched: {found.switched.file}{was}")
        if found.switched.kept is not None:
            message("what it was is kept in ", found.switched.kept)
    elif (found.failed or found.left) and wants_switch and not found.dry_run:
        hint = "" if found.failed else ": migrate the others as well, or say --leave-others"
        message(f"the configuration was left as it is{hint}", style="yellow")
    elif not found.dry_run and found.target.partition("://")[0] in STORES:
        message("to use it: ", f"satchel --store {found.target}")
