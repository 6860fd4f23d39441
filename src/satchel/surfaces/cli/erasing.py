"""``satchel prune`` and ``satchel everything``: what is no longer needed, and what is known."""

import sys
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from satchel.actions.opened import opened_bank
from satchel.surfaces.cli._console import count, line, message, print_json, progress, size, state
from satchel.surfaces.cli._options import InBank, Json


def add_to(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command("prune")(prune_command)
    app.command("everything")(everything_command)


def prune_command(
    before: Annotated[
        str,
        typer.Option(
            "--superseded-before",
            metavar="DATE|AGE",
            help="A date such as 2026-01-31, or an age: 12h, 90d, 8w, 2y.",
        ),
    ],
    bank: InBank = None,
    deleted: Annotated[
        bool,
        typer.Option("--deleted", help="Also what was deleted, expired or rejected before then."),
    ] = False,
    reason: Annotated[str | None, typer.Option(help="For whoever reads the log.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would go.")] = False,
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
        typer.Option(
            "--about",
            metavar="NAME",
            help="A name, user id or address; may be given several times, any of them counts.",
        ),
    ],
    bank: InBank = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="A new private file; else stdout.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the file.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Write JSON instead of Markdown, and print JSON.")
    ] = False,
) -> None:
    """Write everything a bank holds about somebody: one file that a person can read.

    The whole log is read: memories, edges, turns of conversations, versions that were replaced or
    deleted, what is in quarantine, with where each came from; and what was erased, when and why.

    Example: `satchel everything --about "Ada Lovelace" --about ada@example.com -o ada.md`
    """
    from satchel.actions.access.everything import tell_everything
    from satchel.actions.paths.permission import file_to_write

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
