"""The group ``files``, with its commands in the order of the help."""

import typer

from satchel.surfaces.cli.filing import changing, exchanging, looking, promoting
from satchel.surfaces.cli.filing._options import files

__all__ = ["add_to", "changing", "exchanging", "looking", "promoting"]


def add_to(app: typer.Typer) -> None:
    """Add the commands of this folder."""
    app.add_typer(files, name="files")
