"""The agents that the configuration names: what each consists of."""

from pathlib import Path
from typing import Any

import msgspec

from satchel.actions.config import Settings
from satchel.actions.configured.sections import AgentSettings
from satchel.actions.opened import find_bank
from satchel.actions.permitted.owning import require_owner
from satchel.actions.wiring import has_store, opened_store
from satchel.errors import ConfigError, SatchelError, UnknownAgentError


class Agent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One agent."""

    id: str
    name: str
    bank: str
    """The name or id of the bank with its memory."""

    model: str | None = None
    workspace: str | None = None
    """The folder with its files."""

    archived: bool = False
    config: dict[str, Any] = {}

    @property
    def folder(self) -> Path | None:
        """The folder with its files; None for none."""
        return None if self.workspace is None else Path(self.workspace)


class AgentLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One agent in a listing."""

    id: str
    name: str
    bank: str
    model: str | None = None
    workspace: str | None = None
    archived: bool = False
    problem: str | None = None
    """Why its memory is not to be found."""


def list_agents(settings: Settings) -> list[AgentLine]:
    """Return the agents, by id; active ones are those that are not archived."""
    require_owner(settings, "agent")
    lines = []
    for one in sorted(settings.options.agents):
        agent = agent_called(settings, one)
        lines.append(
            AgentLine(
                id=agent.id,
                name=agent.name,
                bank=agent.bank,
                model=agent.model,
                workspace=agent.workspace,
                archived=agent.archived,
                problem=_problem(settings, agent),
            )
        )
    return lines


def show_agent(settings: Settings, wanted: str) -> Agent:
    """Return one agent.

    Raises:
        UnknownAgentError: If there is none of that id.
    """
    require_owner(settings, "agent")
    return agent_called(settings, wanted)


def agent_called(settings: Settings, wanted: str) -> Agent:
    """Return the agent of an id.

    Raises:
        UnknownAgentError: If there is none.
        ConfigError: If its workspace is no absolute path.
    """
    found = settings.options.agents.get(wanted)
    if found is None:
        known = ", ".join(sorted(settings.options.agents)) or "none yet"
        raise UnknownAgentError(
            f"no agent {wanted[:80]!r} is configured",
            field=f"agents.{wanted[:80]}",
            hint=f"Known: {known}. Each is a table [agents.<id>] of {settings.file}.",
        )
    return agent_of(wanted, found)


def agent_of(identity: str, said: AgentSettings) -> Agent:
    """Return an agent from what the configuration says of it.

    Raises:
        ConfigError: If its workspace is no absolute path.
    """
    if said.workspace is not None and not Path(said.workspace).expanduser().is_absolute():
        raise ConfigError(
            "an agent's folder must be an absolute path", field=f"agents.{identity}.workspace"
        )
    folder = None if said.workspace is None else str(Path(said.workspace).expanduser())
    return Agent(
        id=identity,
        name=said.name or identity,
        bank=said.bank or identity,
        model=said.model,
        workspace=folder,
        archived=said.archived,
        config=said.config,
    )


def _problem(settings: Settings, agent: Agent) -> str | None:
    try:
        if not has_store(settings):
            return "there is no store yet"
        with opened_store(settings, read_only=True) as store:
            find_bank(store, agent.bank)
    except SatchelError as error:
        return error.message
    return None
