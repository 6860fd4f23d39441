"""``satchel quarantine ...`` and ``satchel promote``."""

from typing import Annotated

from satchel.actions.memories.changing import Moved
from satchel.actions.opened import opened_bank
from satchel.actions.waking import promoting, quarantining
from satchel.actions.waking.quarantining import Held
from satchel.surfaces.cli._console import gist, line, message, print_json, short, state
from satchel.surfaces.cli._options import DryRun, InBank, Json
from satchel.surfaces.cli._tree import Argument, Group, Option
from satchel.surfaces.cli.waking.rehydrating import Enforced

quarantine = Group(help="Review memories that are neither recalled nor provided.")

Ids = Annotated[list[str], Argument(help="Ids, or six of their first digits or more.")]
Why = Annotated[str | None, Option("--reason", help="Why; for the history.")]
Who = Annotated[str | None, Option("--actor", help="Who does it, such as agent:planner.")]


def add_to(app: Group) -> None:
    """Add the commands of this module."""
    app.add(quarantine, name="quarantine")
    app.command("promote")(promote_command)


@quarantine.command("list")
def list_command(
    limit: Annotated[int, Option(help="How many at most.")] = 100,
    bank: InBank = None,
    as_json: Json = False,
) -> None:
    """List what is in quarantine, newest first: neither recalled nor provided as context.

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
    memory: Annotated[str, Argument(help="Its id, or six of its first digits or more.")],
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


@quarantine.command("scan")
def scan_command(
    enforce: Annotated[
        Enforced | None, Option(help="What to look for; rehydrate.enforce otherwise.")
    ] = None,
    dry_run: DryRun = False,
    bank: InBank = None,
    as_json: Json = False,
) -> None:
    """Look through all memories for what reads like a prompt; quarantine what is from outside.

    Your own memories are listed, and stay where they are.

    Example: `satchel quarantine scan --dry-run`
    """
    with opened_bank(state.settings, bank, writes=not dry_run) as opened:
        found = quarantining.screen_bank(opened, enforce=enforce and enforce.value, dry_run=dry_run)
    if as_json:
        print_json(found)
        return
    for each in found.flagged:
        line("  ".join((short(each.id), each.type, each.trust)), style="dim")
        line("  ", gist(each.text))
        done = "would be quarantined" if dry_run else "quarantined"
        what = done if each.quarantined else "withheld from context"
        line(f"  {what}: ", "; ".join(each.reasons), style="yellow")
    for note in found.notes:
        message(note)
    message(f"{found.memories:,} memories, {len(found.flagged):,} read like a prompt")


@quarantine.command("add")
def add_command(
    memories: Ids,
    reason: Why = None,
    actor: Who = None,
    dry_run: DryRun = False,
    bank: InBank = None,
    as_json: Json = False,
) -> None:
    """Put memories into quarantine: not recalled, listed or provided until they are released.

    Example: `satchel quarantine add 0f3c12 --reason "copied from a web page"`
    """
    with opened_bank(state.settings, bank, writes=not dry_run) as opened:
        done = quarantining.quarantine(
            opened, memories, reason=reason, actor=actor, dry_run=dry_run
        )
    changed = "would be quarantined" if dry_run else "quarantined"
    _say(done, changed, "is in quarantine, or not current", as_json=as_json)


@quarantine.command("release")
def release_command(
    memories: Annotated[
        list[str] | None, Argument(help="IDs, or prefixes of six digits or more.")
    ] = None,
    own: Annotated[
        bool,
        Option(
            "--own", help="Everything of your own that an earlier version quarantined on reading."
        ),
    ] = False,
    reason: Why = None,
    actor: Who = None,
    dry_run: DryRun = False,
    bank: InBank = None,
    as_json: Json = False,
) -> None:
    """Let memories be provided as context, out of quarantine where they are in it.

    They stay released. Review each first: `satchel quarantine show ID`, `satchel show ID`.

    Example: `satchel quarantine release 0f3c12 --reason "a quotation"`
    """
    with opened_bank(state.settings, bank, writes=not dry_run) as opened:
        done = quarantining.release(
            opened, memories or [], own=own, reason=reason, actor=actor, dry_run=dry_run
        )
    changed = "would be released" if dry_run else "released"
    _say(done, changed, "is not withheld", as_json=as_json)
    if not done and not as_json:
        message("nothing of your own is in quarantine because it was read")


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
        str, Option(help="Raise it to: user, agent, tool, external, imported.")
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
