"""``satchel init``, and the commands on memories."""

from contextlib import AbstractContextManager
from typing import Annotated, Any

from satchel.actions import starting
from satchel.actions.memories import counting, operations, showing
from satchel.actions.opened import OpenBank, opened_bank
from satchel.actions.upkeep import operations as upkeep
from satchel.surfaces.cli._console import count, facts, message, print_json, print_raw, state
from satchel.surfaces.cli._operations import command
from satchel.surfaces.cli._options import InBank, Json, export_of, owner_key
from satchel.surfaces.cli._tree import Argument, Group, Option
from satchel.surfaces.cli.memories import _showing as views
from satchel.surfaces.cli.memories._source import (
    Changes,
    Source,
    read_changes,
    read_new,
)


def add_to(app: Group) -> None:
    """Add the commands of this module."""
    command(app, upkeep.init, _show_started)
    command(
        app,
        operations.remember,
        views.show_remembered,
        bank=_to_fill,
        extra=Source,
        prepare=read_new,
    )
    command(app, operations.list_memories, views.show_listing, bank=_to_read, label="searching")
    app.command("show")(show_command)
    command(app, operations.history, views.show_history, bank=_to_read)
    command(app, counting.show_stats, views.show_stats, bank=_to_read, label="counting")
    for operation in (operations.update, operations.correct):
        command(
            app,
            operation,
            views.show_revised,
            bank=_to_write,
            extra=Changes,
            prepare=read_changes,
        )
    command(app, operations.forget, views.show_forgotten, bank=_to_write)
    command(app, operations.restore, views.show_memories_restored, bank=_to_write)
    command(app, operations.links, views.show_links, bank=_to_read)
    command(app, operations.path, views.show_paths, bank=_to_read)


def _to_read(bank: str | None, *_: Any) -> AbstractContextManager[OpenBank]:
    return opened_bank(state.settings, bank)


def _to_write(bank: str | None, *_: Any) -> AbstractContextManager[OpenBank]:
    return opened_bank(state.settings, bank, writes=True)


def _to_fill(bank: str | None, *_: Any) -> AbstractContextManager[OpenBank]:
    return starting.opened_to_fill(state.settings, bank, lambda: owner_key(None), _report_created)


def _report_created(done: starting.Started) -> None:
    message(f"created the bank {done.name!r} in {done.store}")


def _show_started(started: starting.Started) -> None:
    bank = started.name or started.bank or f"{count(started.banks, 'bank')}: satchel bank list"
    facts([("home", started.home), ("store", started.store), ("bank", bank)])
    if "bank" in started.made and started.key is not None:
        message(f"Keep a copy of your key elsewhere: {export_of(started.key)}")
        message('Next: satchel remember "..."')
    elif not started.made:
        message("Nothing to do: everything exists.")


def show_command(
    memory: Annotated[
        str, Argument(metavar="ID", help="ID of the memory, or its first six digits or more.")
    ],
    raw: Annotated[
        bool, Option("--raw", help="Print its canonical bytes, whose hash is its ID.")
    ] = False,
    bank: InBank = None,
    as_json: Json = False,
) -> None:
    """Show a memory, or any other record, with its state, versions and proof.

    Example: `satchel show 0f3c12`
    """
    with opened_bank(state.settings, bank) as there:
        if raw:
            print_raw(showing.raw(there, memory))
            return
        result = operations.show(there, memory)
    if as_json:
        print_json(result)
    else:
        views.show_memory(result)


show_command.__operation__ = operations.show  # type: ignore[attr-defined]  # --raw prints bytes
