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


def _show(found: WatchResult) -> None:
    if found.timer is not None:
        show_timer(found.timer)
    else:
        _show_captured(found)


def _show_captured(found: WatchResult) -> None:
    verb = "would read" if found.dry_run else "captured from"
    line(
        f"{verb} {count(len(found.captured), 'file')}, {found.unchanged:,} unchanged;"
        f" into the bank {found.bank}"
    )
    for each in found.captured:
        new = "" if found.dry_run else f"{count(each.added, 'new record')}  "
        line(f"  {new}{each.file}")
    if found.gone:
        line(f"  {found.gone:,} deleted by the host, still stored here")
    if found.empty:
        message(f"without a message so far: {found.empty:,}")
    for file in found.unknown:
        message(f"unknown format: {file}")
    for loss in found.losses:
        message(f"skipped: {loss.name}, {loss.count:,}: {loss.reason}")
    if found.secrets:
        kinds = ", ".join(f"{number:,} {kind}" for kind, number in sorted(found.secrets.items()))
        message(f"secrets replaced: {kinds}")
    for missed in found.missed:
        message(f"not captured: {missed.file}: {missed.message}")
