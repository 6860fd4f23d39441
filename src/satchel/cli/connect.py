"""``satchel connect``: Satchel's MCP server in the configuration of agent hosts."""

from satchel.cli._console import line, message, print_text
from satchel.cli._operations import command
from satchel.cli._tree import Group
from satchel.setup.connect import ConnectResult, connect


def add_to(app: Group) -> None:
    """Add the command of this module."""
    command(app, connect, _show)


def _show(done: ConnectResult) -> None:
    for each in done.files:
        if each.diff is not None:
            print_text(each.diff)
            continue
        line(f"{each.path}: {'updated' if each.changed else 'up to date'}")
        if each.backup is not None:
            message(f"backup: {each.backup}")
