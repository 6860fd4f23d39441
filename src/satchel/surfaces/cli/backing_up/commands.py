"""``satchel backup``: made, listed, read again, put back, dropped, tried, and on a schedule."""

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from satchel.actions.backing_up.destinations import moment_said
from satchel.actions.backing_up.drilling import DrillOptions, drill_backup
from satchel.actions.backing_up.dropping import prune_backups, rules_of
from satchel.actions.backing_up.listing import list_backups, verify_backups
from satchel.actions.backing_up.restored import RestoreOptions
from satchel.actions.backing_up.restoring import restore_backup
from satchel.actions.backing_up.running import BackupOptions, BackupRun, run_backup
from satchel.actions.backing_up.schedules.scheduling import keep_schedule, schedule_for
from satchel.actions.backing_up.schedules.timing import Kind
from satchel.actions.invocation import unwritten
from satchel.actions.keys.told import Owners
from satchel.surfaces.cli._console import (
    count,
    line,
    message,
    print_json,
    print_text,
    progress,
    state,
    table,
)
from satchel.surfaces.cli._options import (
    Also,
    DryRun,
    EncryptTo,
    Json,
    Owner,
    Propose,
    owner_keys,
)
from satchel.surfaces.cli.backing_up._showing import listed, show_drill, show_restored, show_run
from satchel.surfaces.cli.operating._proposing import proposed

_REFUSED = 3

Destinations = Annotated[
    list[str] | None,
    typer.Option(
        "--to",
        help="A folder, or the address of an object store; else as configured. Repeatable.",
    ),
]
Source = Annotated[
    str | None,
    typer.Option("--from", help="Where the backup is: a folder or an address; else as configured."),
]
Signers = Annotated[
    list[str] | None,
    typer.Option("--signer", help="A key, as did:key, that is believed for this. Repeatable."),
]
Banks = Annotated[
    list[str] | None,
    typer.Option("--bank", help="Only this bank: its name or id. Repeatable."),
]
Which = Annotated[
    str | None, typer.Option("--backup", help="Its name, or the start of it; else the newest.")
]

backup = typer.Typer(no_args_is_help=True, help="Backups of the store and its memory files.")


def add_to(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.add_typer(backup, name="backup")


@backup.command("run")
def run_command(
    to: Destinations = None,
    bank: Banks = None,
    agent: Annotated[
        list[str] | None,
        typer.Option("--agent", help="Only this agent: its bank and its files. Repeatable."),
    ] = None,
    files: Annotated[
        bool | None,
        typer.Option(
            "--files/--no-files",
            help="Whether memory files and agents' files go along; else as set.",
        ),
    ] = None,
    prune: Annotated[
        bool, typer.Option("--prune/--no-prune", help="Whether older ones that no rule keeps go.")
    ] = True,
    anew: Annotated[
        bool, typer.Option("--anew", help="Write everything again, whatever is there.")
    ] = False,
    encrypt_to: EncryptTo = None,
    plain: Annotated[
        bool, typer.Option("--plain", help="Not encrypted, whatever is set and whatever is there.")
    ] = False,
    as_json: Json = False,
) -> int:
    """Back the store up, while others write to it, and read the backup again.

    What an earlier backup has already is not copied again. Older backups go only once this one was
    read again whole. What went wrong at one destination is told at the end, by the exit status too.

    Example: `satchel backup run --to /mnt/backups`
    """
    with progress("reading again", True, records=True) as tell:
        options = BackupOptions(
            to=tuple(to or ()),
            banks=tuple(bank or ()),
            agents=tuple(agent or ()),
            files=files,
            prune=prune,
            anew=anew,
            encrypt_to=tuple(encrypt_to or ()),
            plain=plain,
            progress=tell,
        )
        found = run_backup(state.settings, options)
    if as_json:
        print_json(found)
    else:
        show_run(found)
    return found.exit_status


@backup.command("list")
def list_command(to: Destinations = None, as_json: Json = False) -> None:
    """List the backups at each destination, oldest first.

    Example: `satchel backup list --to /mnt/backups`
    """
    found = list_backups(state.settings, tuple(to or ()))
    if as_json:
        print_json(found)
        return
    if found.backups:
        table(
            ["backup", "banks", "records", "files", "", ""],
            [
                [
                    one.id,
                    ", ".join(one.banks),
                    f"{one.records:,}",
                    str(len(one.files)),
                    "verified" if one.verified else "NOT verified",
                    "; ".join(listed(one)),
                ]
                for one in found.backups
            ],
        )
    else:
        message("there is no backup yet: satchel backup run")
    for problem in found.problems:
        message("not a backup: ", problem)


@backup.command("verify")
def verify_command(
    wanted: Annotated[
        list[str] | None, typer.Argument(metavar="[BACKUP]...", help="Its name, or the start.")
    ] = None,
    to: Destinations = None,
    every: Annotated[bool, typer.Option("--all", help="All of them, not only the newest.")] = False,
    as_json: Json = False,
) -> int:
    """Read backups again: each record is held to the signed head, each piece to its hash.

    Example: `satchel backup verify --all --to /mnt/backups`
    """
    with progress("reading again", True, records=True) as tell:
        found = verify_backups(
            state.settings, tuple(to or ()), wanted=wanted or (), every=every, progress=tell
        )
    if as_json:
        print_json(found)
    else:
        for one in found:
            size = f"holds: {one.records:,} records, {one.packs:,} pieces"
            line(f"{one.id}: ", one.error or size)
            for note in one.notes:
                message(f"{one.id}: note: ", note)
    return _REFUSED if any(one.error for one in found) else 0


@backup.command("restore")
def restore_command(
    source: Source = None,
    which: Which = None,
    at: Annotated[
        str | None,
        typer.Option("--at", help="How it was at this moment: 2026-01-31T12:00:00Z."),
    ] = None,
    bank: Banks = None,
    agent: Annotated[
        list[str] | None,
        typer.Option("--agent", help="Only this agent: its bank and its files. Repeatable."),
    ] = None,
    workspace: Annotated[
        Path | None,
        typer.Option("--workspace", help="A folder for the agent's files; nothing is configured."),
    ] = None,
    session: Annotated[
        str | None,
        typer.Option(
            "--session", help="Only this conversation of the bank: its id, its start, or its name."
        ),
    ] = None,
    into: Annotated[
        str | None,
        typer.Option("--into", help="Another store, of any kind, as for --store; made if need be."),
    ] = None,
    over: Annotated[
        bool, typer.Option("--over", help="Have what is there give way; it is backed up first.")
    ] = False,
    accept_loss: Annotated[
        bool,
        typer.Option("--accept-loss", help="Give up what this machine saw beyond it, as owner."),
    ] = False,
    files: Annotated[
        bool,
        typer.Option("--files/--no-files", help="Whether memory files and agents' files are, too."),
    ] = True,
    signer: Signers = None,
    key: Owner = None,
    also: Also = None,
    propose: Propose = None,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Put a backup back: all of it, some banks, an agent, one session; or how it was at a moment.

    What was erased since is erased again before it is anywhere. Nothing that is there is touched
    without --over, and then it is backed up first. A session needs no --over: what is missing is
    added, what was deleted is back, and later messages stay. A signed receipt is kept. With
    --propose, nobody reads a bank that gives something up until the other owners have signed.

    Example: `satchel backup restore --at 2026-01-31T12:00:00Z --into old.db`
    """
    with (
        proposed(propose, as_json=as_json),
        progress("restoring", True, records=True) as tell,
    ):
        options = RestoreOptions(
            source=source,
            backup=which,
            at=None if at is None else moment_said(at),
            banks=tuple(bank or ()),
            agents=tuple(agent or ()),
            workspace=workspace,
            session=session,
            into=into,
            over=over,
            accept_loss=accept_loss,
            files=files,
            signers=tuple(signer or ()),
            owners=_owners(key, also),
            proposes=propose is not None,
            dry_run=dry_run,
            progress=tell,
        )
        found = restore_backup(state.settings, options)
    if as_json:
        print_json(found)
    else:
        show_restored(found)


@backup.command("prune")
def prune_command(
    to: Destinations = None,
    days: Annotated[
        int | None, typer.Option("--days", min=0, help="Keep those of so many days; else as set.")
    ] = None,
    last: Annotated[
        int | None, typer.Option("--keep-last", min=0, help="Keep so many; else as set.")
    ] = None,
    erased: Annotated[
        bool | None,
        typer.Option(
            "--holding-erased/--no-holding-erased",
            help="Whether those go that hold what was erased since; else as set.",
        ),
    ] = None,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Drop the backups that no rule keeps; the newest that was read again whole stays.

    Example: `satchel backup prune --days 30 --keep-last 3 --dry-run`
    """
    rules = rules_of(state.settings)
    rules = rules._replace(
        days=rules.days if days is None else days, last=rules.last if last is None else last
    )
    found = prune_backups(
        state.settings, tuple(to or ()), rules=rules, erased=erased, dry_run=dry_run
    )
    if as_json:
        print_json(found)
        return
    for one in found:
        did = "would go" if dry_run else "gone"
        line(f"{one.destination}: {count(len(one.dropped), 'backup')} {did}, {one.kept:,} kept")
        for name in one.dropped:
            line(f"  {name}")


@backup.command("drill")
def drill_command(
    source: Source = None,
    which: Which = None,
    questions: Annotated[
        int, typer.Option("--questions", min=0, max=1000, help="To ask each bank.")
    ] = 10,
    signer: Signers = None,
    key: Owner = None,
    also: Also = None,
    as_json: Json = False,
) -> int:
    """Restore a backup for a moment, and compare: heads, counts, what is recalled first.

    Nothing that is in use is touched.

    Example: `satchel backup drill --from /mnt/backups`
    """
    with progress("restoring", True, records=True) as tell:
        options = DrillOptions(
            source=source,
            backup=which,
            questions=questions,
            signers=tuple(signer or ()),
            owners=_owners(key, also),
            progress=tell,
        )
        found = drill_backup(state.settings, options)
    if as_json:
        print_json(found)
    else:
        show_drill(found)
    return 0 if found.is_good else _REFUSED


@backup.command("schedule")
def schedule_command(
    print_for: Annotated[
        Kind | None,
        typer.Option("--print", help="Only print what has the system make them, for this."),
    ] = None,
    as_json: Json = False,
) -> int:
    """Make backups when they are due, until it is ended; or print a timer that does.

    Example: `satchel backup schedule --print systemd`
    """
    if print_for is not None:
        text = schedule_for(state.settings, print_for, ["backup", "run"])
        if as_json:
            print_json({"kind": print_for, "text": text})
        else:
            print_text(text)
        for name in unwritten(state.settings):
            message(f"{name} holds a secret and is not in it: say it in {state.settings.file}")
        return 0

    def told(run: BackupRun) -> None:
        if as_json:
            print_json(run)
        else:
            show_run(run)

    def waiting(due: datetime) -> None:
        message(f"the next backup is due at {due.astimezone():%Y-%m-%d %H:%M}")

    return keep_schedule(state.settings, told=told, waiting=waiting)


def _owners(key: str | None, also: list[str] | None) -> Callable[[], Owners]:
    return lambda: owner_keys(key, also)
