"""The agents of the configuration."""

import tempfile
from pathlib import Path
from typing import Any

import msgspec

from satchel.bank.connections import configured_store, has_store
from satchel.bank.machine_keys import require_owner
from satchel.bank.open_bank import find_bank
from satchel.config.files import activate, is_yaml, read_file, with_table
from satchel.config.settings import Settings
from satchel.config.tables import AgentSettings
from satchel.errors import ConfigError, SatchelError, UnknownAgentError
from satchel.runtime.files import open_input


class Agent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One agent."""

    id: str
    name: str
    bank: str
    """Name or ID of the bank with its memory."""

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
    """Why its memory is missing."""


def list_agents(settings: Settings) -> list[AgentLine]:
    """Return the agents by ID; active ones are not archived."""
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


def show_agent(settings: Settings, agent: str) -> Agent:
    """Return one agent.

    Raises:
        UnknownAgentError: If there is no agent with this ID.
    """
    require_owner(settings, "agent")
    return agent_called(settings, agent)


def agent_called(settings: Settings, identity: str) -> Agent:
    """Return the agent with an ID.

    Raises:
        UnknownAgentError: If there is none.
        ConfigError: If its workspace is not an absolute path.
    """
    table = settings.options.agents.get(identity)
    if table is None:
        known = ", ".join(sorted(settings.options.agents)) or "none yet"
        raise UnknownAgentError(
            f"no agent {identity[:80]!r} is configured",
            field=f"agents.{identity[:80]}",
            hint=f"Known: {known}. Each is a table [agents.<id>] of {settings.file}.",
        )
    return agent_of(identity, table)


def agent_of(identity: str, table: AgentSettings) -> Agent:
    """Return an agent, given its table of the configuration.

    Raises:
        ConfigError: If its workspace is not an absolute path.
    """
    if table.workspace is not None and not Path(table.workspace).expanduser().is_absolute():
        raise ConfigError(
            "an agent's folder must be an absolute path", field=f"agents.{identity}.workspace"
        )
    folder = None if table.workspace is None else str(Path(table.workspace).expanduser())
    return Agent(
        id=identity,
        name=table.name or identity,
        bank=table.bank or identity,
        model=table.model,
        workspace=folder,
        archived=table.archived,
        config=table.config,
    )


def _problem(settings: Settings, agent: Agent) -> str | None:
    try:
        if not has_store(settings):
            return "there is no store yet"
        with configured_store(settings, read_only=True) as store:
            find_bank(store, agent.bank)
    except SatchelError as error:
        return error.message
    return None


TABLE = "agents"


def agent_config(settings: Settings, agent: str) -> dict[str, Any] | None:
    """Return the table of an agent in the file; None if there is none."""
    if not settings.file.exists():
        return None
    found = read_file(settings.file).table.get(TABLE, {}).get(agent)
    return found if isinstance(found, dict) else None


def write_agent_config(settings: Settings, agent: str, value: dict[str, Any] | None) -> bool:
    """Write the table of an agent to the file; return whether it changed.

    Everything else in the file is kept, including comments in TOML. The file is backed up first.

    Args:
        settings: The settings with the path of the file, which is created if missing.
        agent: The agent's ID.
        value: The table; None to remove it.

    Raises:
        UsageError: If the file cannot be changed at that place.
        TargetError: If the file cannot be written.
    """
    if agent_config(settings, agent) == value:
        return False
    data = _with(settings.file, agent, value)
    with tempfile.NamedTemporaryFile(suffix=settings.file.suffix or ".toml") as new:
        new.write(data)
        new.flush()
        return activate(Path(new.name), settings.file).changed


def table_of(agent: Agent) -> dict[str, Any]:
    """Return the table of an agent for the configuration."""
    settings = AgentSettings(
        name=agent.name if agent.name != agent.id else None,
        model=agent.model,
        bank=agent.bank if agent.bank != agent.id else None,
        workspace=agent.workspace,
        archived=agent.archived,
    )
    table = {
        name: value
        for name, value in msgspec.to_builtins(settings).items()
        if value not in (None, {})
    }
    if not agent.archived:
        del table["archived"]
    return {**table, **({"config": agent.config} if agent.config else {})}


def _with(file: Path, agent: str, value: dict[str, Any] | None) -> bytes:
    text = ""
    if file.exists():
        with open_input(file) as stream:
            text = stream.read().decode()
    if not is_yaml(file):
        return with_table(text, (TABLE, agent), value).encode()
    import yaml

    table = yaml.safe_load(text) or {}
    agents = table.setdefault(TABLE, {})
    if value is None:
        agents.pop(agent, None)
    else:
        agents[agent] = value
    return yaml.safe_dump(table, sort_keys=False, allow_unicode=True, encoding="utf-8")
