"""What an agent is besides its memory, on its way into a backup: its settings and its files."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

from satchel.actions.agents.agents import Agent, agent_called
from satchel.actions.agents.workspace import Workspace, WorkspaceRules
from satchel.actions.agents.writing_config import table_of
from satchel.actions.config import Settings
from satchel.actions.wiring import local_path
from satchel.backup.folders import Told, keep_agent
from satchel.backup.manifests import AgentPart, BankPart
from satchel.backup.pieces.packs import Packs
from satchel.errors import InputError, PathRefusedError
from satchel.memory.records import Source
from satchel.memory.times import now
from satchel.screen.records import scrubbed
from satchel.seal.encoding.carry import carry

_EXPECTED = frozenset({"ignored", "memory itself or its backups"})
"""Reasons that nobody has to be told of each time."""

_MOST_NAMED = 3
_SIDES = ("", "-wal", "-shm", "-journal", ".key", ".key.next")


def agents_meant(settings: Settings, banks: Sequence[str], agents: Sequence[str]) -> list[Agent]:
    """Return the agents that are backed up: those that are named, else all that are active.

    Args:
        settings: The surroundings.
        banks: Banks that are named: whoever names these alone means no agents.
        agents: Ids of agents that are named.

    Raises:
        UnknownAgentError: If one is not configured.
        ConfigError: If the folder of one is no absolute path.
    """
    if agents:
        return [agent_called(settings, one) for one in dict.fromkeys(agents)]
    if banks:
        return []
    every = (agent_called(settings, one) for one in sorted(settings.options.agents))
    return [one for one in every if not one.archived]


def take_agents(
    settings: Settings,
    agents: Sequence[Agent],
    banks: Sequence[BankPart],
    packs: Packs,
    missing: list[str],
    notes: list[str],
) -> Iterator[AgentPart]:
    """Keep what agents are besides their memory.

    Args:
        settings: The surroundings.
        agents: The agents.
        banks: The banks that are in the same backup.
        packs: Where to.
        missing: What could not be read is added.
        notes: What was left behind is added, by reason.

    Raises:
        TargetError: If something cannot be kept.
    """
    ids = {part.name: part.bank for part in banks} | {part.bank: part.bank for part in banks}
    for agent in agents:
        try:
            yield _taken(settings, agent, ids.get(agent.bank), packs, notes)
        except (InputError, PathRefusedError) as error:
            missing.append(f"the files of the agent {agent.id}: {error}")


def _taken(
    settings: Settings, agent: Agent, bank: str | None, packs: Packs, notes: list[str]
) -> AgentPart:
    """Keep the settings and the files of an agent; each file is as it was at one moment.

    The rules are those of an export: text and binary files, links told of and never followed, what
    looks like a secret left behind and named, also in the settings.
    """
    said, secrets = _said(agent)
    folder = agent.folder
    if folder is None:
        return keep_agent(packs, agent.id, bank, (), lambda: Told(said=said))
    rules = WorkspaceRules(binary=True)
    workspace = Workspace(folder, rules, without=frozenset(_memory(settings)))

    def around() -> Told:
        return Told(
            said=said,
            links={one.path: one.target for one in workspace.links},
            left={one.path: one.reason for one in workspace.left},
        )

    files = ((path, data) for path, data, _ in workspace.contents())
    part = keep_agent(packs, agent.id, bank, files, around)
    notes += _left_behind(agent.id, workspace)
    notes += [f"the agent {agent.id}: {secrets:,} secrets in its settings replaced"][: secrets > 0]
    return part


def _left_behind(identity: str, workspace: Workspace) -> Iterator[str]:
    """Yield what stayed behind, a line for each reason, with some names."""
    for why, number in sorted(workspace.counts.items()):
        if why in _EXPECTED:
            continue
        names = [one.path for one in workspace.left if one.reason == why]
        names = names or [one.path for one in workspace.links]
        some = ", ".join(names[:_MOST_NAMED])
        more = f" and {number - _MOST_NAMED:,} more" if number > _MOST_NAMED else ""
        yield f"the agent {identity}: not included: {some}{more} ({why})"


def _said(agent: Agent) -> tuple[dict[str, Any], int]:
    """Return what the configuration says of an agent, without secrets, and how many there were."""
    around = Source(
        provider="satchel", format="toml", container={"said": carry(table_of(agent))}, at=now()
    )
    clean, found = scrubbed(around)
    return cast("Source", clean).container["said"], len(found)


def _memory(settings: Settings) -> Iterator[Path]:
    """Yield where memory and its backups are: they are no files of an agent, wherever they are."""
    places = [settings.home, settings.state]
    places += [Path(one) for one in settings.options.backup.destinations if "://" not in one]
    store = local_path(settings.store)
    if store is not None:
        places += [store.with_name(store.name + side) for side in _SIDES]
        places += store.parent.glob(f"{store.name}*")
    yield from (one.expanduser().absolute().resolve() for one in places)
