"""``satchel sink``: a bank's log, followed into a database or files for analysis."""

from contextlib import closing
from typing import Annotated

from satchel.actions.operating.following import (
    Followed,
    FollowOptions,
    follow,
    follow_once,
    open_sink,
)
from satchel.surfaces.cli._console import count, line, message, print_json, progress, state
from satchel.surfaces.cli._options import Json
from satchel.surfaces.cli._tree import Argument, Group, Option

sink = Group(help="Follow banks into a database or files.")


def add_to(app: Group) -> None:
    """Add the commands of this module."""
    app.add(sink, name="sink")


@sink.command("run")
def run_command(
    target: Annotated[
        str,
        Argument(
            help="sqlite:///FILE, postgresql://..., parquet:///FOLDER, file:///FOLDER, s3://..."
        ),
    ],
    bank: Annotated[
        str | None, Option("--bank", help="Only this bank; else all of them.", values="bank")
    ] = None,
    follow_on: Annotated[
        bool, Option("--follow/--once", help="Go on until it is interrupted, or end.")
    ] = False,
    interval: Annotated[float, Option(help="Seconds between looking again.")] = 2.0,
    as_json: Json = False,
) -> None:
    """Write what a sink lacks of the log, in its order: each record at least once, never none.

    The sink itself keeps how far it is; cut short, the same command goes on. A change of state is a
    row of its own. It is for analysis: nothing comes back from there.

    Example: `satchel sink run sqlite:///warehouse.db --bank assistant`
    """
    with (
        closing(open_sink(state.settings, target)) as opened,
        progress("following", not follow_on, records=True) as tell,
    ):
        options = FollowOptions(
            bank=bank, interval=interval, told=_tell if follow_on else None, progress=tell
        )
        work = follow if follow_on else follow_once
        found = work(state.settings, opened, options)
    if as_json:
        print_json(found)
        return
    for one in found:
        line(f"{one.name or one.bank}: {count(one.rows, 'row')}, up to place {one.seq}")
        if one.waiting:
            message(
                f"{count(one.waiting, 'record')} wait for an import to be complete: run it again,"
                " or satchel undo"
            )


def _tell(one: Followed) -> None:
    message(f"{one.name or one.bank}: {count(one.rows, 'row')}, up to place {one.seq}")
