"""The three roles of a memory backend, with amplihack's names, over any store."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from operator import itemgetter
from types import TracebackType
from typing import Protocol, Self, runtime_checkable

from satchel.actions.amplihack.context import BUDGET, prompt_context
from satchel.actions.amplihack.keeping import OwnerKey, agent_bank, hierarchical
from satchel.actions.amplihack.learning import SessionLearning, store_learnings
from satchel.actions.amplihack.sessions import (
    MemoryRecord,
    SessionRows,
    Sessions,
    SessionSummary,
    of_sessions,
)
from satchel.actions.config import Settings
from satchel.actions.opened import OpenBank, name_of, open_bank_in
from satchel.actions.selecting.backends import BackendChoice, backend_of
from satchel.actions.wiring import is_there, open_configured
from satchel.memory.entries import Entry
from satchel.memory.records import Status
from satchel.memory.times import now
from satchel.ports.store import Store
from satchel.seal.sealing import seal

GENERAL = "general"
"""The agent that is meant when none is named."""

_TOGETHER = 500
_CLEANED = "its session was cleaned up"


@runtime_checkable
class MemoryTreeBackend(Protocol):
    """What ``memory tree`` needs."""

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
    """What ``memory clean`` needs."""

    def list_sessions(self) -> list[SessionSummary]:
        """Return all sessions, the one with the newest memory first."""
        ...

    def delete_session(self, session_id: str) -> bool:
        """Forget what is of a session, and tell whether there was anything."""
        ...


@runtime_checkable
class MemoryRuntimeBackend(Protocol):
    """What the hooks of an agent host need."""

    def load_prompt_context_memories(
        self, session_id: str, *, query: str = "", budget: int = BUDGET
    ) -> list[MemoryRecord]:
        """Return memories for the prompt of a session, of all sessions of its agent."""
        ...

    def store_session_learning(self, record: SessionLearning) -> str | None:
        """Keep what a session taught, and return its id; None where it is known already."""
        ...


class AgentMemory:
    """The flat memory of all agents in one store, in all three roles. A context manager.

    Args:
        settings: The surroundings.
        store: Open; closed with this.
        agent: Whose memory a session gets that is not known yet.
        owner: Gives the key that new banks belong to.
        close: Called at the end.
        apart: The stores of agents that have one of their own, with where each is; closed with
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

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give the store back."""
        self._stack.close()

    def backend_name(self) -> str:
        """Return the kind of store: ``sqlite``, ``graph-db``, ``postgres``.

        Several where agents have stores of their own of other kinds.
        """
        common = str(backend_of(self._settings.store) or BackendChoice.SQLITE)
        kinds = {str(backend_of(there.store)) for there, _ in self._apart}
        if kinds and not is_there(self._settings.store):
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
                    one.row.agent or bank.name or bank.id
                    for one in of_sessions(view)
                    if isinstance(one.model, Entry)
                )
        return sorted(counts.items())

    def list_sessions(self) -> list[SessionSummary]:
        """Return all sessions, the one with the newest memory first."""
        return [summary for summary, _ in self._sessions().rows()]

    def delete_session(self, session_id: str) -> bool:
        """Forget the memories of a session in every bank, and tell whether there were any.

        They are no longer recalled or listed. Their text stays in the log, as with ``forget``,
        until ``prune`` erases it.
        """
        if not session_id:
            return False
        found = False
        for bank in self._banks(writes=True):
            with bank.ledger.reading() as view:
                gone = [one.record.id for one in of_sessions(view, session_id)]
            for start in range(0, len(gone), _TOGETHER):
                some = gone[start : start + _TOGETHER]
                said = [
                    seal(Status(target=each, state="deleted", reason=_CLEANED, at=now()))
                    for each in some
                ]
                bank.ledger.append(said)
                bank.tell("on_forget", some, {"memories": len(some)}, list)
            found = found or bool(gone)
        return found

    def load_prompt_context_memories(
        self, session_id: str, *, query: str = "", budget: int = BUDGET
    ) -> list[MemoryRecord]:
        """Return memories for the prompt of a session, best first; none twice.

        They are of all sessions of the agents that take part in this one; of a session that is
        new, of the agent that was named when this was opened.
        """
        names = self._agents_of(session_id) or [self._agent]
        found = list[MemoryRecord]()
        left = budget
        for bank in self._banks():
            if bank.name in names and left > 0:
                context = prompt_context(bank, query=query, budget=left)
                found += context.memories
                left -= context.tokens
        return found

    def store_session_learning(self, record: SessionLearning) -> str | None:
        """Keep what a session taught, secrets replaced, and return its id.

        None where the agent knows it already, from whatever session, or it says nothing.

        Raises:
            UsageError: If no agent can have the name, the type is none, or the like.
        """
        there, store = self._place_of(record.agent_id)
        bank = agent_bank(there, store, record.agent_id, self._owner)
        done = store_learnings(bank, [record])
        return done.stored[0] if done.stored else None

    def _place_of(self, agent: str) -> tuple[Settings, Store]:
        """Return the store with an agent's memory, by the rule that holds for every command."""
        there = hierarchical(self._settings, agent, writes=True)
        if there.store == self._settings.store:
            return self._settings, self._store
        for known, store in self._apart:
            if known.store == there.store:
                return known, store
        store = open_configured(there, read_only=False)
        self._stack.callback(store.close)
        self._apart.append((there, store))
        return there, store

    def _sessions(self, session_id: str | None = None) -> Sessions:
        sessions = Sessions()
        for bank in self._banks():
            with bank.ledger.reading() as view:
                sessions.take(view, bank.name or bank.id, session_id)
        return sessions

    def _agents_of(self, session_id: str) -> list[str]:
        """Return the names of the banks that have memories of a session."""
        found = list[str]()
        for bank in self._banks():
            with bank.ledger.reading() as view:
                there = any(isinstance(one.model, Entry) for one in of_sessions(view, session_id))
                if there and bank.name is not None:
                    found.append(bank.name)
        return found

    def _banks(self, *, writes: bool = False) -> Iterator[OpenBank]:
        found = list[tuple[str, str, Settings, Store]]()
        for settings, store in [(self._settings, self._store), *self._apart]:
            with store.reading() as reader:
                found += [
                    (name_of(reader, bank) or "", bank, settings, store) for bank in reader.banks()
                ]
        for _, bank, settings, store in sorted(found, key=itemgetter(0, 1)):
            yield open_bank_in(settings, store, bank, writes=writes)
