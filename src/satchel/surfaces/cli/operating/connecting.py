"""``satchel connect``: agent hosts told of this memory."""

from pathlib import Path
from typing import Annotated

from satchel.actions.hosts.connecting import ConnectOptions, connect_host
from satchel.actions.hosts.known import Host
from satchel.surfaces.cli._console import line, message, print_json, state
from satchel.surfaces.cli._options import DryRun, Json
from satchel.surfaces.cli._tree import Argument, Group, Option


def add_to(app: Group) -> None:
    """Add the commands of this module."""
    app.command("connect")(connect_command)


def connect_command(
    host: Annotated[Host, Argument(help="Which host.")],
    bank: Annotated[
        str | None,
        Option("--bank", help="Whose memory is meant; else the usual one.", values="bank"),
    ] = None,
    project: Annotated[
        Path | None, Option("--project", help="Only for the project in this folder.")
    ] = None,
    hooks: Annotated[
        bool,
        Option("--hooks", help="Also begin sessions with what is known, and keep what they teach."),
    ] = False,
    plugin: Annotated[
        bool,
        Option("--plugin", help="All that the plugin has: hooks, and a skill for the agent."),
    ] = False,
    remove: Annotated[bool, Option("--remove", help="Take it back.")] = False,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Tell an agent host of this memory: an entry in its own configuration, for satchel mcp.

    All else in its files stays; each is kept as it was beside it, and is that again with --remove.
    The host reads it when it is started again.

    Example: `satchel connect claude-code --plugin --dry-run`
    """
    asked = ConnectOptions(
        bank=bank, project=project, hooks=hooks, plugin=plugin, remove=remove, dry_run=dry_run
    )
    done = connect_host(state.settings, host, asked)
    if as_json:
        print_json(done)
        return
    for one in done.files:
        would = "would be " if dry_run else ""
        line(f"{one.path}: {would + 'changed' if one.changed else 'as it should be'}")
        if one.backup is not None:
            message(f"as it was before: {one.backup}")
