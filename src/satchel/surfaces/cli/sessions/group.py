"""The group ``satchel session``."""

from satchel.surfaces.cli._tree import Group
from satchel.surfaces.cli.sessions import points, talks


def add_to(root: Group) -> None:
    """Add the commands of this folder."""
    sessions = Group("Manage conversations and their branches.")
    talks.add_to(sessions)
    points.add_to(sessions)
    root.add(sessions, name="session")
