"""``satchel watch``: transcripts and memories of agent hosts, captured before they are deleted."""

from datetime import timedelta
from pathlib import Path
from typing import Annotated

from satchel.actions.backing_up.schedules.timing import Kind
from satchel.actions.hosts.known import Host
from satchel.actions.hosts.watching import (
    Watched,
    WatchOptions,
    keep_watching,
    timer_to_watch,
    watch_once,
)
from satchel.actions.invocation import unwritten
from satchel.errors import UsageError
from satchel.surfaces.cli._console import count, line, message, print_json, print_text, state
from satchel.surfaces.cli._options import DryRun, Json, Owner, owner_key
from satchel.surfaces.cli._tree import Argument, Group, Option

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_MOST = 366 * 86400


def add_to(app: Group) -> None:
    """Add the commands of this module."""
    app.command("watch")(watch_command)


def watch_command(
    hosts: Annotated[
        list[Host] | None,
        Argument(metavar="[HOST]...", help="Which hosts; else all that are here."),
    ] = None,
    folders: Annotated[
        list[Path] | None,
        Option("--from", help="A folder with transcripts or exports. Repeatable."),
    ] = None,
    bank: Annotated[
        str | None,
        Option(
            "--bank",
            help="Where it goes, made if need be; else as set, or transcripts.",
            values="bank",
        ),
    ] = None,
    once: Annotated[
        bool, Option("--once", help="Look once and end; this is what a timer starts.")
    ] = False,
    every: Annotated[
        str, Option("--every", help="How often: 15m, 1h, 6h, 1d. Looks at once, too.")
    ] = "1h",
    print_for: Annotated[
        Kind | None,
        Option("--print", help="Only print what has the system do it, for this."),
    ] = None,
    key: Owner = None,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> int:
    """Capture what agent hosts keep of conversations, before they delete it.

    Only what changed is looked at, only what is new is added, and what is deleted at the host
    stays here. Secrets are replaced. Runs until it is ended, unless --once or --print is given.

    Example: `satchel watch claude-code codex --once`
    """
    interval = _interval(every)
    if print_for is not None:
        words = [*(str(one) for one in hosts or ()), "--once"]
        words += [word for one in folders or () for word in ("--from", str(one.absolute()))]
        words += ["--bank", bank] if bank else []
        text = timer_to_watch(state.settings, print_for, ["watch", *words], interval)
        if as_json:
            print_json({"kind": print_for, "text": text})
        else:
            print_text(text)
        for name in unwritten(state.settings):
            message(f"{name} holds a secret and is not in it: say it in {state.settings.file}")
        return 0
    asked = WatchOptions(
        hosts=tuple(hosts or ()), folders=tuple(folders or ()), bank=bank, dry_run=dry_run
    )

    def told(found: Watched) -> None:
        if as_json:
            print_json(found)
        else:
            _show(found)

    if once or dry_run:
        found = watch_once(state.settings, asked, lambda: owner_key(key))
        told(found)
        return found.exit_status
    return keep_watching(state.settings, asked, lambda: owner_key(key), interval, told=told)


def _interval(text: str) -> timedelta:
    number, unit = text[:-1], text[-1:]
    if not (number.isascii() and number.isdigit() and len(number) <= 8 and unit in _SECONDS):  # noqa: PLR2004
        raise UsageError(f"no interval: {text!r}", field="every", hint="Such as 15m, 1h or 1d.")
    seconds = int(number) * _SECONDS[unit]
    if not 0 < seconds <= _MOST:
        raise UsageError("from a second to a year", field="every")
    return timedelta(seconds=seconds)


def _show(found: Watched) -> None:
    would = "would look at" if found.dry_run else "captured from"
    line(
        f"{would} {count(len(found.captured), 'file')}, {found.unchanged:,} unchanged;"
        f" into the bank {found.bank}"
    )
    for one in found.captured:
        new = "" if found.dry_run else f"{count(one.added, 'new record')}  "
        line(f"  {new}{one.file}")
    if found.gone:
        line(f"  {found.gone:,} are gone at the host, and stay here")
    if found.empty:
        message(f"without a message so far: {found.empty:,}")
    for file in found.unknown:
        message(f"of no known format: {file}")
    for loss in found.losses:
        message(f"left behind: {loss.name}, {loss.count:,}: {loss.reason}")
    if found.secrets:
        kinds = ", ".join(f"{number:,} {kind}" for kind, number in sorted(found.secrets.items()))
        message(f"secrets replaced: {kinds}")
    for missed in found.missed:
        message(f"not captured: {missed.file}: {missed.message}")
