"""``satchel amplihack``: each command is a module of this folder."""

from satchel.surfaces.cli._tree import Group
from satchel.surfaces.cli.amplihack.cleaning import clean_command
from satchel.surfaces.cli.amplihack.exporting import export_command
from satchel.surfaces.cli.amplihack.importing import import_command
from satchel.surfaces.cli.amplihack.tree import tree_command

memory = Group(help="Manage the memory of amplihack's agents.")
memory.command("tree")(tree_command)
memory.command("clean")(clean_command)
memory.command("export")(export_command)
memory.command("import")(import_command)


def add_to(app: Group) -> None:
    """Add the commands of this folder."""
    app.add(memory, name="amplihack")
