"""The group ``satchel evaluate``."""

from satchel.surfaces.cli._tree import Group
from satchel.surfaces.cli.evaluating import containment, continuity, framed, paper, recall


def add_to(root: Group) -> None:
    """Add the commands of this module."""
    evaluate = Group("Measure recall, continuity and containment.")
    for module in (recall, framed, containment, continuity, paper):
        module.add_to(evaluate)
    root.add(evaluate, name="evaluate")
