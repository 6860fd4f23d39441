"""Where the memory of an agent is, and opening it: a bank of its name, found by one rule.

1. the store whose address was stated
2. the agent's own graph in amplihack's layout
3. the agent's own SQLite file there
4. the store that commands use, where it has a bank of that name
5. for a new agent: a graph of its own where a graph is used, a file of its own where the layout's
   folder is there, else the store that commands use

A backend that was named limits 2 and 3 to that kind. Python, commands, hooks and ``doctor`` all ask
here. Stores of the layout are made private at every open.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from satchel.bank.banks import create_bank_in
from satchel.bank.checks import Check
from satchel.bank.connections import (
    configured_store,
    holds_anything,
    open_store,
    require_not_lost,
    shown_address,
)
from satchel.bank.open_bank import OpenBank, banks_called, open_bank_in
from satchel.bank.owner_rights import require_owner
from satchel.config import store_selection
from satchel.config.settings import Settings
from satchel.config.store_selection import BackendChoice, address_of, own_path, own_stores
from satchel.crypto.keys import SigningKey
from satchel.errors import (
    MissingExtraError,
    ReadOnlyStoreError,
    SatchelError,
    UnknownBankError,
    UsageError,
)
from satchel.model.values import agent_name
from satchel.ports.store import RawCopyStore, Store
from satchel.runtime.locks import ProcessLock
from satchel.runtime.private_files import private_folder, secure_database, secure_files

OwnerKey = Callable[[], SigningKey]
_PATIENCE = 60.0


def hierarchical(
    settings: Settings, agent: str, *, storage_path: Path | None = None, writes: bool = False
) -> Settings:
    """Return surroundings in which the store is the one with an agent's hierarchical memory.

    Args:
        settings: The surroundings.
        agent: The agent.
        storage_path: The folder that stands in the place of ``hierarchical_memory``.
        writes: Whether something is going to be added; then folders are made.

    Raises:
        UsageError: If no agent can have the name; nothing was looked at then. If a server was
            chosen, and a folder is named.
        PathRefusedError: If there is a link on the way, or a file is another user's.
        MissingExtraError: If only Kuzu's older graph has it.
    """
    agent_name(agent)
    selection = settings.selection.with_address(settings.options.store.address)
    kind = selection.of([agent]).backend
    if storage_path is None:
        own = own_kind(settings, agent)
        if own is None:
            return settings.at(selection.choice.address)
        storage_path, kind = settings.home / store_selection.HIERARCHY, own
    if kind is BackendChoice.POSTGRES:
        raise UsageError("a server has no storage path", field="storage_path")
    if writes or store_selection.exists_without_link(storage_path):
        private_folder(storage_path)
    if kind is BackendChoice.GRAPH_DB:
        path = _graph(storage_path, agent, writes=writes)
        return settings.at(address_of(BackendChoice.GRAPH_DB, path))
    return settings.at(str(_sqlite(storage_path, agent, writes=writes)))


def own_kind(settings: Settings, agent: str) -> BackendChoice | None:
    """Return the kind of store of its own that an agent has, or a new one gets, in the layout.

    None where its memory is in the store that commands use.

    Raises:
        UsageError: If no agent can have the name.
        PathRefusedError: If there is a link where a store is looked for.
    """
    agent_name(agent)
    selection = settings.selection.with_address(settings.options.store.address)
    common = selection.choice
    if common.stated:
        return None
    there = store_selection.own_stores(settings.home, agent)
    if selection.said.backend:
        there = [kind for kind in there if kind is common.backend]
    if there:
        return there[0]
    if _is_in(settings.at(common.address), agent):
        return None
    if common.backend is BackendChoice.GRAPH_DB:
        return BackendChoice.GRAPH_DB
    is_used = store_selection.exists_without_link(settings.home / store_selection.HIERARCHY)
    return BackendChoice.SQLITE if is_used else None


def agents_apart(settings: Settings) -> list[str]:
    """Return the agents that have a store of their own in the layout, sorted.

    None where the address of the store was stated.

    Raises:
        PathRefusedError: If there is a link where a store is looked for.
    """
    selection = settings.selection.with_address(settings.options.store.address)
    if selection.choice.stated:
        return []
    kind = selection.choice.backend if selection.said.backend else None
    return [
        name
        for name in store_selection.owners_in(settings.home)
        if kind is None or kind in store_selection.own_stores(settings.home, name)
    ]


def is_foreign(settings: Settings, agent: str) -> bool:
    """Tell whether the store that an agent has in the layout was made by amplihack itself.

    Such a store is read, and written as one, by transfers only.
    """
    own = own_kind(settings, agent)
    folder = settings.home / store_selection.HIERARCHY
    if own is BackendChoice.GRAPH_DB:
        return not store_selection.is_own_graph(folder, agent) and store_selection.has_graph(
            folder, agent
        )
    path = store_selection.agent_sqlite(folder, agent)
    return (
        own is BackendChoice.SQLITE
        and store_selection.exists_without_link(path)
        and not store_selection.is_flat_store(path)
    )


def is_in_common(settings: Settings, agent: str) -> bool:
    """Tell whether the store that commands use has a bank of an agent's name."""
    selection = settings.selection.with_address(settings.options.store.address)
    return _is_in(settings.at(selection.choice.address), agent)


def _is_in(settings: Settings, agent: str) -> bool:
    if not holds_anything(settings):
        return False
    with configured_store(settings, read_only=True) as store:
        return bool(banks_called(store, agent))


@contextmanager
def opened_agent(settings: Settings, agent: str, owner: OwnerKey) -> Iterator[OpenBank]:
    """Open the bank with an agent's name to add to; it is made when there is none."""
    require_owner(settings, "amplihack")
    there = hierarchical(settings, agent, writes=True)
    with configured_store(there) as store:
        yield agent_bank(there, store, agent, owner)


def agent_bank(settings: Settings, store: Store, agent: str, owner: OwnerKey) -> OpenBank:
    """Return the bank with an agent's name to add to; it is made when there is none.

    Only the name counts: an id, or the start of one, is no agent.

    Raises:
        UsageError: If no agent can have the name, or several banks have it.
    """
    agent_name(agent)
    found = _named(store, agent)
    if found is None:
        lock = ProcessLock(settings.home / "init.lock", purpose="creating an agent's bank")
        private_folder(settings.home)
        with lock.exclusive(wait=_PATIENCE):
            found = _named(store, agent)
            if found is None:
                found = create_bank_in(settings, store, agent, owner()).bank
    return open_bank_in(settings, store, found, writes=True)


@contextmanager
def reading_agent(settings: Settings, agent: str) -> Iterator[OpenBank]:
    """Open the bank with an agent's name for reading.

    Raises:
        UnknownBankError: If there is none; nothing is made.
    """
    there = hierarchical(settings, agent)
    missing = UnknownBankError(f"no memory found for agent {agent!r}", field="agent")
    if not holds_anything(there):
        require_not_lost(there, None)
        raise missing
    with configured_store(there, read_only=True) as store:
        found = _named(store, agent)
        if found is None:
            raise missing
        yield open_bank_in(there, store, found)


def _named(store: Store, agent: str) -> str | None:
    found = banks_called(store, agent)
    if len(found) > 1:
        raise UsageError(
            f"{len(found)} banks are named {agent!r}",
            field="agent",
            hint="Rename one: satchel bank rename.",
        )
    return found[0] if found else None


def _sqlite(folder: Path, agent: str, *, writes: bool) -> Path:
    """Return the file with an agent's memory, made private; what older versions left is read."""
    path = store_selection.agent_sqlite(folder, agent)
    older = [
        each
        for each in store_selection.older_sqlite(folder, agent)
        if store_selection.exists_without_link(each)
    ]
    if not store_selection.exists_without_link(path) and older:
        if not writes:
            secure_database(older[0])
            return older[0]
        _carry_over(older[0], path)
    if writes or store_selection.exists_without_link(path):
        secure_database(path)
    return path


def _carry_over(older: Path, path: Path) -> None:
    """Make the file that is written from the one that is only read, which stays as it is."""
    secure_database(older)
    store = open_store(str(older), read_only=True)
    try:
        assert isinstance(store, RawCopyStore)  # noqa: S101 - SQLite's is
        store.copy_to(path)
    finally:
        store.close()


def _graph(folder: Path, agent: str, *, writes: bool) -> Path:
    """Return the folder with an agent's graph, made private with all that is in it."""
    legacy = store_selection.legacy_graph(folder, agent)
    if legacy is not None:
        if writes:
            raise ReadOnlyStoreError(
                "this agent's memory is in an older Kuzu graph, which is read-only",
                file=str(legacy),
                hint=(
                    "Export it as JSON with the amplihack that uses Kuzu, then run: satchel "
                    "amplihack import"
                ),
            )
        raise MissingExtraError(
            "this agent's memory is in an older Kuzu graph",
            file=str(legacy),
            hint='Install its engine: python -m pip install "satchel[graph]"',
        )
    path = store_selection.agent_graph(folder, agent)
    if writes:
        private_folder(path.parent)
        private_folder(path)
    if store_selection.exists_without_link(path.parent) and store_selection.exists_without_link(
        path
    ):
        secure_files(path.parent)
        secure_files(path)
    return path


def check_agents(settings: Settings) -> list[Check]:
    """Say where agents are that have a store of their own, and which have memory twice."""
    try:
        return [_agent(settings, name) for name in agents_apart(settings)]
    except SatchelError as error:
        hint = error.hint or error.place
        return [Check(name="agents", state="problem", detail=error.message, hint=hint)]


def _agent(settings: Settings, agent: str) -> Check:
    kinds = own_stores(settings.home, agent)
    places = [f"{kind}: {own_path(settings.home, agent, kind)}" for kind in kinds]
    if is_in_common(settings, agent):
        places.append(f"the bank {agent} in {shown_address(settings.store)}")
    if len(places) == 1:
        return Check(name=f"agent {agent}", state="ok", detail=places[0])
    hint = f"Commands use the first. Export the others with --store and import them: {agent}."
    return Check(name=f"agent {agent}", state="note", detail="; ".join(places), hint=hint)
