"""The flat tier: memories by the session that they are of, over all agents of a store.

A memory belongs to a session by its scope's run, to an agent by its scope, or else by the name of
its bank. What has no session is not shown here.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from satchel.bank.memory import gist_of, has_expired
from satchel.ledger.projection import VerifiedRecord
from satchel.ledger.view import View
from satchel.model.records import Entry, Semantic, SessionEvent
from satchel.model.values import Component, now
from satchel.ports.rows import Filter

MEMORY_TYPES = ("conversation", "decision", "pattern", "context", "learning", "artifact")
"""What a flat memory may be."""

MOST_IMPORTANT = 10
_TITLE = 50
_SHOWN = frozenset({*Component, "session_event"})


class MemoryRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One memory of a session."""

    memory_id: str
    session_id: str
    agent_id: str
    memory_type: str
    """One of ``MEMORY_TYPES``, its source's own word, or the component."""

    title: str
    content: str
    importance: int | None = None
    """From 0 to 10; None where nobody said."""

    confidence: float | None = None
    created_at: str | None = None
    metadata: dict[str, Any] = {}


class SessionSummary(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One session."""

    session_id: str
    agent_ids: list[str] = []
    created_at: str | None = None
    last_accessed: str | None = None
    """When its newest memory was made."""

    memory_count: int = 0


SessionRows = list[tuple[SessionSummary, list[MemoryRecord]]]


class SessionCollector:
    """Gathers sessions from the views of banks."""

    def __init__(self) -> None:
        self._found: dict[str, list[MemoryRecord]] = {}
        self._agents: dict[str, set[str]] = {}
        self._moments: dict[str, list[str]] = {}

    def take(self, view: View, bank: str, session: str | None = None) -> None:
        """Take in the current memories of a bank.

        Args:
            view: The bank.
            bank: Its name.
            session: Only this session.
        """
        for logged in of_sessions(view, session):
            name = session_of(logged)
            self._found.setdefault(name, [])
            agents = self._agents.setdefault(name, set())
            if isinstance(logged.model, Entry):
                record = record_of(logged, bank)
                self._found[name].append(record)
                agents.add(record.agent_id)
            elif logged.row.agent:
                agents.add(logged.row.agent)
            if logged.row.moment:
                self._moments.setdefault(name, []).append(logged.row.moment)

    def rows(
        self, memory_type: str | None = None
    ) -> list[tuple[SessionSummary, list[MemoryRecord]]]:
        """Return sessions with their memories; the session with the newest memory first.

        Args:
            memory_type: Only memories of this type, and sessions that have some.
        """
        rows = []
        for name, records in self._found.items():
            wanted = [one for one in records if memory_type in (None, one.memory_type)]
            if wanted or memory_type is None:
                rows.append((self._summary(name, len(records)), wanted))
        rows.sort(key=lambda row: row[0].session_id)
        return sorted(rows, key=lambda row: row[0].last_accessed or "", reverse=True)

    def _summary(self, name: str, count: int) -> SessionSummary:
        moments = self._moments.get(name, [])
        return SessionSummary(
            session_id=name,
            agent_ids=sorted(self._agents[name]),
            created_at=min(moments, default=None),
            last_accessed=max(moments, default=None),
            memory_count=count,
        )


def of_sessions(view: View, session: str | None = None) -> Iterator[VerifiedRecord]:
    """Yield the current memories and sessions that belong to some session, or to one."""
    moment = now()
    for logged in view.scan(Filter(types=_SHOWN, run=session)):
        if session_of(logged) and _counts(logged) and not has_expired(logged, moment):
            yield logged


def session_of(logged: VerifiedRecord) -> str:
    """Return the session that a record belongs to; empty for none."""
    return logged.row.run or ""


def record_of(logged: VerifiedRecord, bank: str) -> MemoryRecord:
    """Return a memory as a record of a session.

    Args:
        logged: The memory.
        bank: The name of its bank, whose memory it is where it does not say.
    """
    entry = logged.model
    assert isinstance(entry, Entry)  # noqa: S101 - whoever calls has looked
    written = entry.origin.as_written if entry.origin is not None else {}
    content = gist_of(logged.record.value)
    title = entry.metadata.get("title", written.get("title"))
    return MemoryRecord(
        memory_id=logged.record.id,
        session_id=session_of(logged),
        agent_id=logged.row.agent or bank,
        memory_type=entry.kind or logged.row.type,
        title=title if isinstance(title, str) and title else " ".join(content.split())[:_TITLE],
        content=content,
        importance=_importance(entry, written),
        confidence=entry.confidence if isinstance(entry, Semantic) else None,
        created_at=entry.created_at,
        metadata=entry.metadata,
    )


def _importance(entry: Entry, written: dict[str, Any]) -> int | None:
    stated = written.get("importance")
    if type(stated) is int and 0 <= stated <= MOST_IMPORTANT:
        return stated
    return None if entry.salience is None else round(entry.salience * MOST_IMPORTANT)


def _counts(logged: VerifiedRecord) -> bool:
    model = logged.model
    return isinstance(model, Entry) or (
        isinstance(model, SessionEvent) and model.event == "session"
    )
