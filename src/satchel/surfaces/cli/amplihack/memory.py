"""``satchel memory``: each command is a module of this folder."""

import typer

from satchel.surfaces.cli.amplihack.cleaning import clean_command
from satchel.surfaces.cli.amplihack.exporting import export_command
from satchel.surfaces.cli.amplihack.importing import import_command
from satchel.surfaces.cli.amplihack.tree import tree_command

memory = typer.Typer(no_args_is_help=True, help="The memory of amplihack's agents.")
memory.command("tree")(tree_command)
memory.command("clean")(clean_command)
memory.command("export")(export_command)
memory.command("import")(import_command)


def add_to(app: typer.Typer) -> None:
    """Add the commands of this folder."""
    app.add_typer(memory, name="memory")
