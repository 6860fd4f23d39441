"""The three roles of an amplihack memory backend, over any store."""

import fnmatch
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from operator import itemgetter
from pathlib import Path
from typing import Protocol, runtime_checkable

import msgspec
from msgspec import structs

from satchel.amplihack.agents import OwnerKey, agent_bank, agents_apart, hierarchical, is_foreign
from satchel.amplihack.hosts import BUDGET, prompt_context
from satchel.amplihack.sessions import (
    MemoryRecord,
    SessionCollector,
    SessionLearning,
    SessionRows,
    SessionSummary,
    of_sessions,
    store_learnings,
)
from satchel.bank.connections import (
    empty_store,
    has_store,
    open_configured,
    store_exists,
)
from satchel.bank.machine_keys import require_owner, signing_key
from satchel.bank.open_bank import OpenBank, name_of, open_bank_in
from satchel.config.settings import Settings, load_settings
from satchel.config.store_selection import BackendChoice, agents_in, backend_from, backend_of
from satchel.crypto.sealed_records import seal
from satchel.errors import SatchelError, UsageError
from satchel.model.records import Entry, Status
from satchel.model.values import agent_name, now
from satchel.ports.store import Store
from satchel.runtime.files import Closable
from satchel.runtime.private_files import private_folder

GENERAL = "general"
"""The default agent."""

_TOGETHER = 500
_CLEANED = "its session was cleaned up"


@runtime_checkable
class MemoryTreeBackend(Protocol):
    """The backend of ``memory tree``."""

    def backend_name(self) -> str:
        """Return the kind of store."""
        ...

    def load_session_rows(
        self, session_id: str | None = None, memory_type: str | None = None
    ) -> SessionRows:
        """Return sessions with their memories, the one with the newest memory first."""
        ...

    def collect_agent_counts(self) -> list[tuple[str, int]]:
        """Return how many memories of sessions each agent has, by name."""
        ...


@runtime_checkable
class MemorySessionBackend(Protocol):
    """The backend of ``memory clean``."""

    def list_sessions(self) -> list[SessionSummary]:
        """Return all sessions, the one with the newest memory first."""
        ...

    def delete_session(self, session_id: str) -> bool:
        """Forget the memories of a session; return whether there were any."""
        ...


@runtime_checkable
class MemoryRuntimeBackend(Protocol):
    """The backend of an agent host's hooks."""

    def load_prompt_context_memories(
        self, session_id: str, *, query: str = "", budget: int = BUDGET
    ) -> list[MemoryRecord]:
        """Return memories for the prompt of a session, of all sessions of its agent."""
        ...

    def store_session_learning(self, record: SessionLearning) -> str | None:
        """Store a learning of a session and return its ID; None if it is known already."""
        ...


class AgentMemory(Closable):
    """The flat memory of all agents in one store, in all three roles. A context manager.

    Args:
        settings: The settings.
        store: An open store, closed with this.
        agent: The agent of sessions that are new.
        owner: Returns the owner's key for new banks.
        close: Called on close.
        apart: The stores of agents that have their own, with their locations; closed with
            this.
    """

    def __init__(
        self,
        settings: Settings,
        store: Store,
        *,
        agent: str = GENERAL,
        owner: OwnerKey,
        close: Callable[[], None] | None = None,
        apart: Sequence[tuple[Settings, Store]] = (),
    ) -> None:
        self._settings = settings
        self._store = store
        self._apart = list(apart)
        self._agent = agent
        self._owner = owner
        self._stack = ExitStack()
        self._stack.callback(settings.hooks.finish)
        if close is not None:
            self._stack.callback(close)
        for _, other in apart:
            self._stack.callback(other.close)

    def close(self) -> None:
        """Close the store."""
        self._stack.close()

    def backend_name(self) -> str:
        """Return the kind of store: ``sqlite``, ``graph-db``, ``postgres``.

        Several if agents have their own stores of other kinds.
        """
        common = str(backend_of(self._settings.store) or BackendChoice.SQLITE)
        kinds = {str(backend_of(settings.store)) for settings, _ in self._apart}
        if kinds and not store_exists(self._settings.store):
            return ", ".join(sorted(kinds))
        return ", ".join([common, *sorted(kinds - {common})])

    def load_session_rows(
        self, session_id: str | None = None, memory_type: str | None = None
    ) -> SessionRows:
        """Return sessions with their memories, the one with the newest memory first.

        Args:
            session_id: Only this session.
            memory_type: Only memories of this type, and sessions that have some.
        """
        return self._sessions(session_id).rows(memory_type)

    def collect_agent_counts(self) -> list[tuple[str, int]]:
        """Return how many memories of sessions each agent has, by name."""
        counts = Counter[str]()
        for bank in self._banks():
            with bank.ledger.reading() as view:
                counts.update(
                    logged.row.agent or bank.name or bank.id
                    for logged in of_sessions(view)
                    if isinstance(logged.model, Entry)
                )
        return sorted(counts.items())

    def list_sessions(self) -> list[SessionSummary]:
        """Return all sessions, the one with the newest memory first."""
        return [summary for summary, _ in self._sessions().rows()]

    def delete_session(self, session_id: str) -> bool:
        """Forget the memories of a session in every bank; return whether there were any.

        They are no longer recalled or listed. Their text stays in the log, as with ``forget``,
        until ``prune`` erases it.
        """
        if not session_id:
            return False
        deleted = False
        for bank in self._banks(writes=True):
            with bank.ledger.reading() as view:
                ids = [logged.record.id for logged in of_sessions(view, session_id)]
            for start in range(0, len(ids), _TOGETHER):
                batch = ids[start : start + _TOGETHER]
                statuses = [
                    seal(Status(target=each, state="deleted", reason=_CLEANED, at=now()))
                    for each in batch
                ]
                bank.ledger.append(statuses)
                bank.tell("on_forget", batch, {"memories": len(batch)}, list)
            deleted = deleted or bool(ids)
        return deleted

    def load_prompt_context_memories(
        self, session_id: str, *, query: str = "", budget: int = BUDGET
    ) -> list[MemoryRecord]:
        """Return memories for the prompt of a session, best first; none twice.

        They are from all sessions of the agents in this one; for a new session, from those of the
        agent that was named on opening.
        """
        names = self._agents_of(session_id) or [self._agent]
        memories = list[MemoryRecord]()
        left = budget
        for bank in self._banks():
            if bank.name in names and left > 0:
                context = prompt_context(bank, query=query, budget=left)
                memories += context.memories
                left -= context.tokens
        return memories

    def store_session_learning(self, record: SessionLearning) -> str | None:
        """Store a learning of a session, with secrets replaced, and return its ID.

        None if the agent knows it already, from any session, or it is empty.

        Raises:
            UsageError: If the name, the type or another member is not valid.
        """
        own_settings, store = self._store_of(record.agent_id)
        bank = agent_bank(own_settings, store, record.agent_id, self._owner)
        done = store_learnings(bank, [record])
        return done.stored[0] if done.stored else None

    def _store_of(self, agent: str) -> tuple[Settings, Store]:
        """Return the store with an agent's memory, by the rule of every command."""
        own_settings = hierarchical(self._settings, agent, writes=True)
        if own_settings.store == self._settings.store:
            return self._settings, self._store
        for known, store in self._apart:
            if known.store == own_settings.store:
                return known, store
        store = open_configured(own_settings, read_only=False)
        self._stack.callback(store.close)
        self._apart.append((own_settings, store))
        return own_settings, store

    def _sessions(self, session_id: str | None = None) -> SessionCollector:
        sessions = SessionCollector()
        for bank in self._banks():
            with bank.ledger.reading() as view:
                sessions.take(view, bank.name or bank.id, session_id)
        return sessions

    def _agents_of(self, session_id: str) -> list[str]:
        """Return the names of the banks with memories of a session."""
        names = list[str]()
        for bank in self._banks():
            with bank.ledger.reading() as view:
                has_memories = any(
                    isinstance(logged.model, Entry) for logged in of_sessions(view, session_id)
                )
                if has_memories and bank.name is not None:
                    names.append(bank.name)
        return names

    def _banks(self, *, writes: bool = False) -> Iterator[OpenBank]:
        banks = list[tuple[str, str, Settings, Store]]()
        for settings, store in [(self._settings, self._store), *self._apart]:
            with store.reading() as reader:
                banks += [
                    (name_of(reader, bank) or "", bank, settings, store) for bank in reader.banks()
                ]
        for _, bank, settings, store in sorted(banks, key=itemgetter(0, 1)):
            yield open_bank_in(settings, store, bank, writes=writes)


def resolve_backend_with_autodetect(
    agent: str | None = None, *, backend: str | None = None, home: Path | None = None
) -> BackendChoice:
    """Return the kind of store to use, by the rule of every command.

    Args:
        agent: The agent; None for any agent's graph.
        backend: The kind from the command line.
        home: The folder with the stores; None for the configured one.

    Raises:
        ConfigError: If the kind is unknown, or there is no home directory.
        PathRefusedError: If the path of a graph is a link.
        UsageError: If the name is not valid for an agent, or the kind of the configured
            store is unknown.
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
    """Return the kind of store for a transfer, by the same rule, with the same errors.

    amplihack uses a graph for any unknown kind, after a warning; this does not guess.
    """
    return resolve_backend_with_autodetect(agent, home=home)


def open_tree_backend(choice: BackendChoice | str | None = None) -> MemoryTreeBackend:
    """Open the store of a kind, or the configured one, for ``memory tree``; nothing is created."""
    return open_agents(chosen_settings(choice), read_only=True)


def open_cleanup_backend(choice: BackendChoice | str | None = None) -> MemorySessionBackend:
    """Open the store of a kind, or the configured one, to list and delete sessions."""
    settings = chosen_settings(choice)
    return open_agents(settings, makes=False)


def open_runtime_backend(
    choice: BackendChoice | str | None = None, *, agent: str = GENERAL
) -> MemoryRuntimeBackend:
    """Open the store of a kind, or the configured one, for hooks; created when needed.

    Args:
        choice: The kind; None for the configured one.
        agent: The agent of sessions that are new.
    """
    return open_agents(chosen_settings(choice), agent=agent)


def chosen_settings(
    choice: BackendChoice | str | None = None, settings: Settings | None = None
) -> Settings:
    """Return settings with a kind of store chosen, as with ``--backend``.

    Args:
        choice: The kind; None for no change.
        settings: The settings; None for the configured ones.

    Raises:
        ConfigError: If the kind is unknown.
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
    """Open the flat memory of all agents: in the configured store, and in their own stores.

    Args:
        settings: The settings.
        agent: The agent of sessions that are new.
        read_only: Whether to create nothing; a missing store is an empty one.
        makes: Whether to create the configured store for writing, if missing.
        owner: Returns the owner's key for new banks; None for the default key.
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
    """Open the stores of agents that have their own."""
    stores = list[tuple[Settings, Store]]()
    try:
        for name in agents_apart(settings):
            if not is_foreign(settings, name):
                own_settings = hierarchical(settings, name, writes=not read_only)
                stores.append((own_settings, open_configured(own_settings, read_only=read_only)))
    except BaseException:
        for _, store in stores:
            store.close()
        raise
    return stores


def _owner(settings: Settings, owner: OwnerKey | None) -> OwnerKey:
    return owner or (lambda: signing_key(settings)[0])


PATTERN = "test_*"
"""The default pattern of sessions."""

_LONGEST = 200


class CleanResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of forgetting the sessions that match."""

    pattern: str
    matched: list[SessionSummary]
    deleted: list[str] = []
    failed: dict[str, str] = {}
    """Sessions that were not forgotten, with the reason."""

    dry_run: bool = True


def matching(backend: MemorySessionBackend, pattern: str) -> list[SessionSummary]:
    """Return the sessions whose names match, case-sensitive: ``*`` any text, ``?`` any character.

    Raises:
        UsageError: If the pattern is empty or too long.
    """
    if not pattern or len(pattern) > _LONGEST:
        raise UsageError(f"a pattern has 1 to {_LONGEST} characters", field="pattern")
    literal = pattern.replace("[", "[[]")  # a bracket has no special meaning
    return [one for one in backend.list_sessions() if fnmatch.fnmatchcase(one.session_id, literal)]


def clean(
    backend: MemorySessionBackend, pattern: str, sessions: list[SessionSummary]
) -> CleanResult:
    """Forget sessions one by one; a failure does not stop the others."""
    deleted, failed = list[str](), dict[str, str]()
    for session in sessions:
        try:
            if backend.delete_session(session.session_id):
                deleted.append(session.session_id)
        except SatchelError as error:
            failed[session.session_id] = error.message
    return CleanResult(
        pattern=pattern, matched=sessions, deleted=deleted, failed=failed, dry_run=False
    )
