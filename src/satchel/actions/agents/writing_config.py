"""What the configuration file says of one agent, changed in place."""

import tempfile
from pathlib import Path
from typing import Any

import msgspec

from satchel.actions.agents.agents import Agent
from satchel.actions.config import Settings
from satchel.actions.configured.activating import activate
from satchel.actions.configured.files import is_yaml, read_file
from satchel.actions.configured.sections import AgentSettings
from satchel.actions.configured.toml_files import with_table
from satchel.disk.reading import reading

TABLE = "agents"


def said_of(settings: Settings, agent: str) -> dict[str, Any] | None:
    """Return what the file says of an agent; None for nothing."""
    if not settings.file.exists():
        return None
    found = read_file(settings.file).table.get(TABLE, {}).get(agent)
    return found if isinstance(found, dict) else None


def say(settings: Settings, agent: str, value: dict[str, Any] | None) -> bool:
    """Have the file say this of an agent, and tell whether it changed.

    All else in the file stays, its comments too where it is TOML. What it was is kept beside it.

    Args:
        settings: Which file it is; it is made if it is not there.
        agent: The agent's id.
        value: What to say; None for nothing.

    Raises:
        UsageError: If it cannot be said where it stands.
        TargetError: If the file cannot be written.
    """
    if said_of(settings, agent) == value:
        return False
    data = _with(settings.file, agent, value)
    with tempfile.NamedTemporaryFile(suffix=settings.file.suffix or ".toml") as new:
        new.write(data)
        new.flush()
        return activate(Path(new.name), settings.file).changed


def table_of(agent: Agent) -> dict[str, Any]:
    """Return what the configuration says of an agent."""
    said = AgentSettings(
        name=agent.name if agent.name != agent.id else None,
        model=agent.model,
        bank=agent.bank if agent.bank != agent.id else None,
        workspace=agent.workspace,
        archived=agent.archived,
    )
    table = {name: one for name, one in msgspec.to_builtins(said).items() if one not in (None, {})}
    if not agent.archived:
        del table["archived"]
    return {**table, **({"config": agent.config} if agent.config else {})}


def _with(file: Path, agent: str, value: dict[str, Any] | None) -> bytes:
    text = ""
    if file.exists():
        with reading(file) as stream:
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
