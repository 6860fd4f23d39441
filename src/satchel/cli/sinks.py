"""``satchel sink``: a bank's log, followed into a database or files for analysis."""

from satchel.cli._console import count, line, message
from satchel.cli._operations import command
from satchel.cli._tree import Group
from satchel.replication.sinks import SinkResult
from satchel.replication.store_operations import run_sink

sink = Group(help="Follow banks into a database or files.")


def add_to(app: Group) -> None:
    """Add the commands of this module."""
    app.add(sink, name="sink")


def _show(found: list[SinkResult]) -> None:
    for one in found:
        line(f"{one.name or one.bank}: {count(one.rows, 'row')}, up to position {one.seq}")
        if one.waiting:
            message(
                f"{count(one.waiting, 'record')} wait for an import to be complete: run it again,"
                " or satchel undo"
            )


def _tell(one: SinkResult) -> None:
    message(f"{one.name or one.bank}: {count(one.rows, 'row')}, up to position {one.seq}")


command(
    sink,
    run_sink,
    _show,
    label="following",
    internal=lambda options: {"told": _tell if options.follow else None},
)
