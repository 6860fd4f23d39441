"""The group ``satchel file``, with its commands in the order of the help."""

from satchel.surfaces.cli._tree import Group
from satchel.surfaces.cli.filing import changing, exchanging, looking, promoting
from satchel.surfaces.cli.filing._options import files

__all__ = ["add_to", "changing", "exchanging", "looking", "promoting"]


def add_to(app: Group) -> None:
    """Add the commands of this folder."""
    app.add(files, name="file")
