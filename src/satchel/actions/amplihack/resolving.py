"""Opening the backends of amplihack's roles, and saying which kind of store is meant."""

from pathlib import Path

from msgspec import structs

from satchel.actions.amplihack.keeping import OwnerKey, agents_apart, hierarchical, is_foreign
from satchel.actions.amplihack.roles import (
    GENERAL,
    AgentMemory,
    MemoryRuntimeBackend,
    MemorySessionBackend,
    MemoryTreeBackend,
)
from satchel.actions.config import Settings, load_settings
from satchel.actions.permitted.owning import require_owner
from satchel.actions.selecting.backends import BackendChoice, backend_from
from satchel.actions.selecting.layout import agents_in
from satchel.actions.signing import signing_key
from satchel.actions.wiring import empty_store, has_store, open_configured
from satchel.disk.private import private_folder
from satchel.errors import UsageError
from satchel.memory.agent_names import agent_name
from satchel.ports.store import Store


def resolve_backend_with_autodetect(
    agent: str | None = None, *, backend: str | None = None, home: Path | None = None
) -> BackendChoice:
    """Return the kind of store that is meant, by the order that holds for every command.

    Args:
        agent: Whose memory is meant; a graph of any agent counts when None.
        backend: What was said on the command line.
        home: Where stores are; the configured home when None.

    Raises:
        ConfigError: If what was said is no kind of store, or there is no home directory.
        PathRefusedError: If there is a link where a graph is looked for.
        UsageError: If no agent can have the name, or the configured store is of no known kind.
    """
    settings = load_settings(home=home, backend=backend)
    agents = agents_in(settings.home) if agent is None else [agent_name(agent)]
    chosen = settings.selection.of(agents)
    if chosen.backend is None:
        raise UsageError("the configured store has an unknown kind", field="store")
    return chosen.backend


def resolve_transfer_backend_choice(
    agent: str | None = None, *, home: Path | None = None
) -> BackendChoice:
    """Return the kind of store for a transfer: the same order, and the same errors.

    amplihack takes a graph for whatever it does not understand, after a warning; nothing is
    guessed here.
    """
    return resolve_backend_with_autodetect(agent, home=home)


def open_tree_backend(choice: BackendChoice | str | None = None) -> MemoryTreeBackend:
    """Open the store of a kind, or the one that is meant, for ``memory tree``; nothing is made."""
    return open_agents(chosen_settings(choice), read_only=True)


def open_cleanup_backend(choice: BackendChoice | str | None = None) -> MemorySessionBackend:
    """Open the store of a kind, or the one that is meant, to list and delete sessions."""
    settings = chosen_settings(choice)
    return open_agents(settings, makes=False)


def open_runtime_backend(
    choice: BackendChoice | str | None = None, *, agent: str = GENERAL
) -> MemoryRuntimeBackend:
    """Open the store of a kind, or the one that is meant, for hooks; it is made when needed.

    Args:
        choice: The kind; as configured when None.
        agent: Whose memory a session gets that is not known yet.
    """
    return open_agents(chosen_settings(choice), agent=agent)


def chosen_settings(
    choice: BackendChoice | str | None = None, settings: Settings | None = None
) -> Settings:
    """Return the surroundings with a kind of store chosen, as ``--backend`` would.

    Args:
        choice: The kind; as it is when None.
        settings: The surroundings; as configured when None.

    Raises:
        ConfigError: If it is no kind of store.
    """
    if settings is None:
        return load_settings(backend=None if choice is None else str(choice))
    if choice is None:
        return settings
    kind = backend_from(str(choice), "--backend")
    return structs.replace(settings, selection=settings.selection.with_backend(kind))


def open_agents(
    settings: Settings,
    *,
    agent: str = GENERAL,
    read_only: bool = False,
    makes: bool = True,
    owner: OwnerKey | None = None,
) -> AgentMemory:
    """Open the flat memory of all agents: in the configured store, and in stores of their own.

    Args:
        settings: The surroundings.
        agent: Whose memory a session gets that is not known yet.
        read_only: Nothing is made; a store that is not there is an empty one.
        makes: Whether the configured store is made where it is not there, to write to it.
        owner: Gives the key that new banks belong to; the default key when None.
    """
    require_owner(settings, "amplihack")
    agent_name(agent)
    key, apart = _owner(settings, owner), _apart(settings, read_only=read_only)
    if (read_only or not makes) and not has_store(settings):
        return AgentMemory(settings, empty_store(), agent=agent, owner=key, apart=apart)
    if not read_only:
        private_folder(settings.home)
    try:
        opened = open_configured(settings, read_only=read_only)
    except BaseException:
        for _, store in apart:
            store.close()
        raise
    return AgentMemory(settings, opened, agent=agent, owner=key, close=opened.close, apart=apart)


def _apart(settings: Settings, *, read_only: bool) -> list[tuple[Settings, Store]]:
    """Open the stores of agents that have one of their own."""
    found = list[tuple[Settings, Store]]()
    try:
        for name in agents_apart(settings):
            if not is_foreign(settings, name):
                there = hierarchical(settings, name, writes=not read_only)
                found.append((there, open_configured(there, read_only=read_only)))
    except BaseException:
        for _, store in found:
            store.close()
        raise
    return found


def _owner(settings: Settings, owner: OwnerKey | None) -> OwnerKey:
    return owner or (lambda: signing_key(settings)[0])
