"""``satchel watch``: capture transcripts and memories of agent hosts before they are deleted."""

from collections.abc import Mapping
from typing import Any

from satchel.cli._console import count, line, message, print_json, show_timer, state
from satchel.cli._operations import command
from satchel.cli._tree import Group
from satchel.setup.watch import WatchResult, watch


def add_to(app: Group) -> None:
    """Add the command of this module."""
    command(
        app,
        watch,
        _show,
        label="watching",
        internal=_report,
        status=lambda found: found.exit_status,
    )


def _report(_: Any) -> Mapping[str, Any]:
    return {"on_capture": print_json if state.json else _show_captured}


def _show(result: WatchResult) -> None:
    if result.timer is not None:
        show_timer(result.timer)
    else:
        _show_captured(result)


def _show_captured(result: WatchResult) -> None:
    verb = "would read" if result.dry_run else "captured from"
    line(
        f"{verb} {count(len(result.captured), 'file')}, {result.unchanged:,} unchanged;"
        f" into the bank {result.bank}"
    )
    for each in result.captured:
        new = "" if result.dry_run else f"{count(each.added, 'new record')}  "
        line(f"  {new}{each.file}")
    if result.gone:
        line(f"  {result.gone:,} deleted by the host, still stored here")
    if result.empty:
        message(f"without a message so far: {result.empty:,}")
    for file in result.unknown:
        message(f"unknown format: {file}")
    for loss in result.losses:
        message(f"skipped: {loss.name}, {loss.count:,}: {loss.reason}")
    if result.secrets:
        kinds = ", ".join(f"{number:,} {kind}" for kind, number in sorted(result.secrets.items()))
        message(f"secrets replaced: {kinds}")
    for missed in result.missed:
        message(f"not captured: {missed.file}: {missed.message}")
