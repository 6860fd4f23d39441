"""``satchel recall``."""

import typer

from satchel.actions.recall import recall_in
from satchel.surfaces.cli._operations import command
from satchel.surfaces.cli._recall import show_answer, to_recall


def add_to(app: typer.Typer) -> None:
    """Add the command of this module."""
    command(app, recall_in, show_answer, bank=to_recall)
