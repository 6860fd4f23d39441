"""Finds and opens the memory of an agent: a bank of its name, by one rule.

1. the store whose address was stated
2. the agent's own graph in amplihack's layout
3. the agent's own SQLite file there
4. the store that commands use, where it has a bank of that name
5. for a new agent: its own graph if a graph is used, its own file if the layout's folder exists,
   else the store that commands use

A named backend limits 2 and 3 to that kind. Python, commands, hooks and ``doctor`` all use this
rule. Stores of the layout are made private at every open.
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
from satchel.bank.machine_keys import require_owner
from satchel.bank.open_bank import OpenBank, banks_called, open_bank_in
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
    """Return settings whose store is the one with an agent's hierarchical memory.

    Args:
        settings: The present settings.
        agent: The agent.
        storage_path: The folder to use in place of ``hierarchical_memory``.
        writes: Whether something will be added; folders are created then.

    Raises:
        UsageError: If the name is not valid for an agent; nothing was read then. If a server was
            chosen, and a folder is given.
        PathRefusedError: If the path contains a link, or a file belongs to another user.
        MissingExtraError: If it is in a graph of the older Kuzu only.
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
    """Return the kind of an agent's own store in the layout, existing or to be created.

    None if its memory is in the store that commands use.

    Raises:
        UsageError: If the name is not valid for an agent.
        PathRefusedError: If the path of a store is a link.
    """
    agent_name(agent)
    selection = settings.selection.with_address(settings.options.store.address)
    common = selection.choice
    if common.stated:
        return None
    kinds = store_selection.own_stores(settings.home, agent)
    if selection.request.backend:
        kinds = [kind for kind in kinds if kind is common.backend]
    if kinds:
        return kinds[0]
    if _is_in(settings.at(common.address), agent):
        return None
    if common.backend is BackendChoice.GRAPH_DB:
        return BackendChoice.GRAPH_DB
    is_used = store_selection.exists_without_link(settings.home / store_selection.HIERARCHY)
    return BackendChoice.SQLITE if is_used else None


def agents_apart(settings: Settings) -> list[str]:
    """Return the agents that have their own store in the layout, sorted.

    None if the address of the store was stated.

    Raises:
        PathRefusedError: If the path of a store is a link.
    """
    selection = settings.selection.with_address(settings.options.store.address)
    if selection.choice.stated:
        return []
    kind = selection.choice.backend if selection.request.backend else None
    return [
        name
        for name in store_selection.owners_in(settings.home)
        if kind is None or kind in store_selection.own_stores(settings.home, name)
    ]


def is_foreign(settings: Settings, agent: str) -> bool:
    """Return whether the store of an agent in the layout was created by amplihack itself.

    Only transfers read or write such a store.
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
    """Return whether the store that commands use has a bank of an agent's name."""
    selection = settings.selection.with_address(settings.options.store.address)
    return _is_in(settings.at(selection.choice.address), agent)


def _is_in(settings: Settings, agent: str) -> bool:
    if not holds_anything(settings):
        return False
    with configured_store(settings, read_only=True) as store:
        return bool(banks_called(store, agent))


@contextmanager
def opened_agent(settings: Settings, agent: str, owner: OwnerKey) -> Iterator[OpenBank]:
    """Open the bank with an agent's name for writing; create it if missing."""
    require_owner(settings, "amplihack")
    own_settings = hierarchical(settings, agent, writes=True)
    with configured_store(own_settings) as store:
        yield agent_bank(own_settings, store, agent, owner)


def agent_bank(settings: Settings, store: Store, agent: str, owner: OwnerKey) -> OpenBank:
    """Return the bank with an agent's name for writing; create it if missing.

    Only the name counts, not an ID or its prefix.

    Raises:
        UsageError: If the name is not valid for an agent, or several banks have it.
    """
    agent_name(agent)
    bank = bank_named(store, agent)
    if bank is None:
        lock = ProcessLock(settings.home / "init.lock", purpose="creating an agent's bank")
        private_folder(settings.home)
        with lock.exclusive(wait=_PATIENCE):
            bank = bank_named(store, agent)
            if bank is None:
                bank = create_bank_in(settings, store, agent, owner()).bank
    return open_bank_in(settings, store, bank, writes=True)


@contextmanager
def reading_agent(settings: Settings, agent: str) -> Iterator[OpenBank]:
    """Open the bank with an agent's name for reading.

    Raises:
        UnknownBankError: If there is none; nothing is created.
    """
    own_settings = hierarchical(settings, agent)
    missing = UnknownBankError(f"no memory found for agent {agent!r}", field="agent")
    if not holds_anything(own_settings):
        require_not_lost(own_settings, None)
        raise missing
    with configured_store(own_settings, read_only=True) as store:
        bank = bank_named(store, agent)
        if bank is None:
            raise missing
        yield open_bank_in(own_settings, store, bank)


def bank_named(store: Store, agent: str) -> str | None:
    """Return the ID of the bank with an agent's name; None if there is none.

    Raises:
        UsageError: If several banks have it.
    """
    banks = banks_called(store, agent)
    if len(banks) > 1:
        raise UsageError(
            f"{len(banks)} banks are named {agent!r}",
            field="agent",
            hint="Rename one: satchel bank rename.",
        )
    return banks[0] if banks else None


def _sqlite(folder: Path, agent: str, *, writes: bool) -> Path:
    """Return the file with an agent's memory, made private; files of older versions are read."""
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
    """Create the file to write from the older one, which is not changed."""
    secure_database(older)
    store = open_store(str(older), read_only=True)
    try:
        assert isinstance(store, RawCopyStore)  # noqa: S101 - SQLite's is
        store.copy_to(path)
    finally:
        store.close()


def _graph(folder: Path, agent: str, *, writes: bool) -> Path:
    """Return the folder with an agent's graph, made private with its contents."""
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
    """Report agents with their own store, and agents that have memory in two stores."""
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
