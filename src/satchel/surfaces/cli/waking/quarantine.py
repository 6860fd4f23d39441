"""``satchel quarantine ...`` and ``satchel promote``."""

from typing import Annotated

import typer

from satchel.actions.memories.changing import Moved
from satchel.actions.opened import opened_bank
from satchel.actions.waking import promoting, quarantining
from satchel.actions.waking.quarantining import Held
from satchel.surfaces.cli._console import gist, line, message, print_json, short, state
from satchel.surfaces.cli._options import DryRun, InBank, Json

quarantine = typer.Typer(
    no_args_is_help=True, help="What is held back until somebody has looked at it."
)

Ids = Annotated[list[str], typer.Argument(help="Ids, or six of their first digits or more.")]
Why = Annotated[str | None, typer.Option("--reason", help="Why; for the history.")]
Who = Annotated[str | None, typer.Option("--actor", help="Who does it, such as agent:planner.")]


def add_to(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.add_typer(quarantine, name="quarantine")
    app.command("promote")(promote_command)


@quarantine.command("list")
def list_command(
    limit: Annotated[int, typer.Option(help="How many at most.")] = 100,
    bank: InBank = None,
    as_json: Json = False,
) -> None:
    """List what is held back, the last first: not recalled, not shown to any model.

    Example: `satchel quarantine list`
    """
    with opened_bank(state.settings, bank) as opened:
        found = quarantining.list_quarantine(opened, limit=limit)
    if as_json:
        print_json(found)
        return
    for one in found.held:
        _head(one)
    for note in found.notes:
        message(note)
    if not found.held:
        message("nothing is in quarantine")
    if found.more:
        message("there is more: --limit")


@quarantine.command("show")
def show_command(
    memory: Annotated[str, typer.Argument(help="Its id, or six of its first digits or more.")],
    bank: InBank = None,
    as_json: Json = False,
) -> None:
    """Show a memory that is held back, why, and what is found in it.

    Example: `satchel quarantine show 0f3c12`
    """
    with opened_bank(state.settings, bank) as opened:
        found = quarantining.show_held(opened, memory)
    if as_json:
        print_json(found)
        return
    _head(found)
    for row in found.memory.gist.splitlines():
        line("  ", row)
    for finding in found.findings:
        line("  found: ", finding, style="yellow")


@quarantine.command("release")
def release_command(
    memories: Ids,
    reason: Why = None,
    actor: Who = None,
    dry_run: DryRun = False,
    bank: InBank = None,
    as_json: Json = False,
) -> None:
    """Let memories out of quarantine: they are recalled again, and not held back again.

    Example: `satchel quarantine release 0f3c12 --reason "a quotation"`
    """
    with opened_bank(state.settings, bank, writes=True) as opened:
        done = quarantining.release(opened, memories, reason=reason, actor=actor, dry_run=dry_run)
    _say(done, "would be released" if dry_run else "released", "is not held", as_json=as_json)


@quarantine.command("reject")
def reject_command(
    memories: Ids,
    reason: Why = None,
    actor: Who = None,
    dry_run: DryRun = False,
    bank: InBank = None,
    as_json: Json = False,
) -> None:
    """Say that memories are not to be believed; their text stays in the log, for the history.

    Example: `satchel quarantine reject 0f3c12 --reason "a web page said so"`
    """
    with opened_bank(state.settings, bank, writes=True) as opened:
        done = quarantining.reject(opened, memories, reason=reason, actor=actor, dry_run=dry_run)
    would = "would be rejected" if dry_run else "rejected"
    _say(done, would, "is not current", as_json=as_json)


def promote_command(
    memories: Ids,
    trust: Annotated[
        str, typer.Option(help="Raise it to: user, agent, tool, external, imported.")
    ] = "user",
    reason: Why = None,
    actor: Who = None,
    dry_run: DryRun = False,
    bank: InBank = None,
    as_json: Json = False,
) -> None:
    """Trust memories from outside further than they earned, or all that came with an import.

    Procedures and identity from outside reach a model only once they are promoted.

    Example: `satchel promote 0f3c12 --trust agent --reason "read it"`
    """
    with opened_bank(state.settings, bank, writes=True) as opened:
        done = promoting.promote(
            opened, memories, trust=trust, reason=reason, actor=actor, dry_run=dry_run
        )
    if as_json:
        print_json(done)
        return
    for one in done:
        would = "would be trusted" if dry_run else "trusted"
        what = f"{would} as {one.after}, not {one.before}" if one.is_changed else "is trusted so"
        line(short(one.id), f"  {one.type}  {what}")


def _head(one: Held) -> None:
    memory = one.memory
    since = (one.since or "")[:10]
    line("  ".join(filter(None, (short(memory.id), memory.type, one.trust, since))), style="dim")
    line("  ", gist(memory.gist))
    if one.reason:
        line("  held back: ", one.reason, style="yellow")


def _say(done: list[Moved], changed: str, unchanged: str, *, as_json: bool) -> None:
    if as_json:
        print_json(done)
        return
    for each in done:
        what = changed if each.is_changed else unchanged
        line(short(each.id), f"  {what}  ", gist(each.text or ""))
