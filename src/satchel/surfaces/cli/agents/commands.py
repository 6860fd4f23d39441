"""``satchel agent``: whole agents, exported to one file and imported from one."""

import sys
from typing import Any

import click

from satchel.actions.agents import operations
from satchel.actions.agents.importing import OnAgent
from satchel.surfaces.cli._console import state
from satchel.surfaces.cli._operations import command
from satchel.surfaces.cli._tree import Group
from satchel.surfaces.cli.agents import _showing as views

agent = Group(help="Manage whole agents: memory, conversations, files and settings.")


def add_to(app: Group) -> None:
    """Add the commands of this module."""
    app.add(agent, name="agent")


def _asking(_: object) -> dict[str, Any]:
    can_ask = sys.stdin.isatty() and sys.stderr.isatty() and not state.json
    return {"ask": _ask if can_ask else None}


def _ask(wanted: str) -> OnAgent:
    choices = [each.value for each in OnAgent if each is not OnAgent.PROMPT]
    question = f"There is an agent {wanted} already: {', '.join(choices)}?"
    answer = click.prompt(question, default="fail", err=True)
    return OnAgent(answer) if answer in choices else OnAgent.FAIL


command(agent, operations.list_agents, views.show_list)
command(agent, operations.show_agent, views.show_agent)
command(
    agent,
    operations.export_agent,
    views.show_exported,
    label="exporting",
    status=lambda result: int(bool(result.export.unaccepted)),
)
command(
    agent,
    operations.import_agent,
    views.show_imported,
    internal=_asking,
    status=lambda result: int(result.memory is not None and bool(result.memory.unaccepted)),
)
