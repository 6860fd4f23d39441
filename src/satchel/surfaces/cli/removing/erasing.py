"""``satchel erase``, ``prune`` and ``everything``: what has to go, and what is known."""

import sys
from pathlib import Path
from typing import Annotated

import click
import msgspec

from satchel.actions.erasing.choosing import CONDITIONS, conditions_of
from satchel.actions.erasing.erasing import Erased, EraseOptions, erase
from satchel.actions.opened import opened_bank
from satchel.errors import UsageError
from satchel.surfaces.cli._console import (
    count,
    line,
    message,
    print_json,
    progress,
    short,
    size,
    state,
)
from satchel.surfaces.cli._options import DryRun, InBank, Json, ReceiptFile
from satchel.surfaces.cli._stdout import file_or_none
from satchel.surfaces.cli._tree import Argument, Group, Option

_SHOWN = 10


def add_to(app: Group) -> None:
    """Add the commands of this module."""
    app.command("erase")(erase_command)
    app.command("prune")(prune_command)
    app.command("everything")(everything_command)


def erase_command(
    ids: Annotated[
        list[str] | None, Argument(metavar="[ID]...", help="Ids, or the start of them.")
    ] = None,
    where: Annotated[
        list[str] | None,
        Option(
            "--where",
            metavar="NAME=VALUE",
            help=f"What the records say: {', '.join(CONDITIONS)}, import. Repeatable: each has to"
            " hold; one name twice, either value.",
        ),
    ] = None,
    bank: InBank = None,
    cascade: Annotated[
        bool, Option("--cascade", help="Also what was drawn from it, or is part of it.")
    ] = False,
    reason: Annotated[
        str | None, Option(help="For whoever reads the log; it is not erased itself.")
    ] = None,
    scan: Annotated[
        bool, Option("--scan/--no-scan", help="Whether all bytes are looked through after.")
    ] = True,
    receipt: ReceiptFile = None,
    yes: Annotated[bool, Option("--yes", help="Do not ask.")] = False,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> int:
    """Erase memories for good, also current ones, with their versions and links; no undoing it.

    Their bytes go: from the store, its indexes, its log and the memory files. That something was
    at their places stays proved. Then all raw bytes that can be reached are looked through, and a
    signed report says what was erased, where pieces of it are left, and what could not be reached.

    Example: `satchel erase --where user=ada --cascade --dry-run`
    """
    options = EraseOptions(
        ids=ids or (),
        where=conditions_of(where or ()),
        cascade=cascade,
        reason=reason,
        scan=scan,
        receipt=receipt,
        dry_run=dry_run,
    )
    if not yes and not dry_run:
        _require_person()
    with opened_bank(state.settings, bank, writes=not dry_run) as opened:
        if not yes and not dry_run:
            _show_plan(erase(opened, msgspec.structs.replace(options, dry_run=True)))
            _ask()
        with progress("erasing", True, records=True) as tell:
            done = erase(opened, options, progress=tell)
    if as_json:
        print_json(done)
    elif dry_run:
        _show_plan(done)
    else:
        _show_erased(done)
    return done.exit_status if not dry_run else 0


def _require_person() -> None:
    """Refuse to erase where nobody can be asked whether it may be."""
    if state.json or not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError(
            "nobody can be asked whether it may be erased", hint="Add --yes, or see --dry-run."
        )


def _ask() -> None:
    message("It cannot be undone. Erase it? Type yes:")
    if sys.stdin.readline().strip().lower() != "yes":
        raise click.Abort


def _show_plan(plan: Erased) -> None:
    line(f"{count(plan.erased, 'record')} would be erased: {plan.chosen:,} asked for")
    _show_kinds(plan)
    if plan.derived_left:
        such = ", ".join(short(one) for one in plan.derived_examples[:_SHOWN])
        line(f"{count(plan.derived_left, 'record')} drawn from it would stay; --cascade takes them")
        line(f"  such as {such}")
    _show_arriving(plan)


def _show_kinds(found: Erased) -> None:
    reasons = {
        "version": "other versions of it",
        "joins": "links with an end in it",
        "derived": "drawn from it, or part of it",
    }
    for why, number in found.with_them.items():
        line(f"  {number:,} {reasons[why]}")
    for name, number in found.types.items():
        line(f"  {number:,} {name}")


def _show_arriving(found: Erased) -> None:
    if found.arriving:
        message(
            f"{count(found.arriving, 'record')} of imports that are not complete cannot be erased:"
            " finish them, or undo them",
            style="yellow",
        )


def _show_erased(done: Erased) -> None:
    line(f"{count(done.erased, 'record')} erased, {size(done.bytes)}")
    _show_kinds(done)
    for name, number in done.held.items():
        line(f"  {number:,} in {name}")
    _show_arriving(done)
    if done.scanned:
        looked = size(sum(one.bytes for one in done.scanned))
        line(f"looked through {looked} in {count(len(done.scanned), 'place')}: {_result(done)}")
    for one in [each for each in done.scanned if each.found][:_SHOWN]:
        message(f"  {one.found:,} in {one.name}", style="yellow")
    if done.still_said:
        message(f"{done.still_said:,} or more records that stay say some of it, too:")
        for said in done.still_said_examples[:_SHOWN]:
            bank, _, identity = said.partition(" ")
            message(f"  {short(identity)} in bank {short(bank)}")
    if done.derived_left:
        message(f"{count(done.derived_left, 'record')} drawn from it stay; --cascade takes them")
    for name in done.unreached:
        message(f"not reached: {name}")
    for note in done.notes:
        message("note: ", note)
    if done.receipt:
        message(f"report: satchel receipt show {short(done.receipt)}")


def _result(done: Erased) -> str:
    return f"{done.found:,} PIECES OF IT ARE LEFT" if done.found else "no piece of it found"


def prune_command(
    before: Annotated[
        str,
        Option(
            "--superseded-before",
            metavar="DATE|AGE",
            help="A date such as 2026-01-31, or an age: 12h, 90d, 8w, 2y.",
        ),
    ],
    bank: InBank = None,
    deleted: Annotated[
        bool,
        Option("--deleted", help="Also what was deleted, expired or rejected before then."),
    ] = False,
    reason: Annotated[str | None, Option(help="For whoever reads the log.")] = None,
    dry_run: Annotated[bool, Option("--dry-run", help="Only say what would go.")] = False,
    as_json: Json = False,
) -> None:
    """Erase memories that were superseded long ago: their bytes go, their places stay proved.

    The log says of each that it was erased, when and why. Nothing that is current is touched.
    Copies of the store that were made before hold it still.

    Example: `satchel prune --superseded-before 90d --dry-run`
    """
    from satchel.actions.upkeep.pruning import moment_of, prune

    moment = moment_of(before)
    with (
        opened_bank(state.settings, bank, writes=not dry_run) as opened,
        progress("pruning", True, records=True) as tell,
    ):
        done = prune(opened, moment, deleted=deleted, reason=reason, dry_run=dry_run, progress=tell)
    if as_json:
        print_json(done)
        return
    verb = "would be erased" if dry_run else "erased"
    line(f"{count(done.erased, 'record')} {verb}, {size(done.bytes)}")
    for name, number in done.types.items():
        line(f"  {number:,} {name}")
    if done.blobs:
        line(f"{count(done.blobs, 'blob')} dropped that nothing names any more")
    if not done.erased:
        message(f"nothing was superseded before {moment}")
    for note in done.notes:
        message("note: ", note)


def everything_command(
    about: Annotated[
        list[str],
        Option(
            "--about",
            metavar="NAME",
            help="A name, user id or address; may be given several times, any of them counts.",
        ),
    ],
    bank: InBank = None,
    output: Annotated[
        Path | None, Option("--output", "-o", help="A new private file; else stdout.")
    ] = None,
    force: Annotated[bool, Option("--overwrite", help="Replace the file.")] = False,
    as_json: Annotated[
        bool, Option("--json", help="Write JSON instead of Markdown, and print JSON.")
    ] = False,
) -> None:
    """Write everything a bank holds about somebody: one file that a person can read.

    The whole log is read: memories, edges, turns of conversations, versions that were replaced or
    deleted, what is in quarantine, with where each came from; and what was erased, when and why.

    Example: `satchel everything --about "Ada Lovelace" --about ada@example.com -o ada.md`
    """
    from satchel.actions.access.everything import tell_everything
    from satchel.actions.paths.permission import file_to_write

    output = file_or_none(output)
    with (
        opened_bank(state.settings, bank) as opened,
        progress("reading", output is not None, records=True) as tell,
    ):
        if output is None:
            tell_everything(opened, about, sys.stdout.write, as_json=as_json)
            return
        with (
            file_to_write(state.settings, output) as outlet,
            outlet.writing(overwrite=force) as stream,
        ):
            done = tell_everything(
                opened,
                about,
                lambda text: stream.write(text.encode()),
                as_json=as_json,
                progress=tell,
            )
    if as_json:
        print_json({"output": str(output), **msgspec.to_builtins(done)})
    else:
        line(f"{count(done.records, 'record')} in {output}")
