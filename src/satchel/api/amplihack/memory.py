"""An agent's hierarchical memory for programs: facts, episodes, and the links between them."""

import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self, TypedDict, Unpack

from satchel.actions.amplihack.hierarchy import (
    NewEpisode,
    NewFact,
    StoredFact,
    store_episode,
    store_facts,
)
from satchel.actions.amplihack.keeping import hierarchical, opened_agent
from satchel.actions.config import load_settings
from satchel.actions.signing import signing_key
from satchel.api.lifetime import Lifetime
from satchel.memory.records import Edge
from satchel.tiers.linking import Linker
from satchel.tiers.similar import SIMILAR_TO, similar_links

__all__ = ["HierarchicalMemory", "Link", "NewFact", "StoredFact"]


class Link(NamedTuple):
    """A link between two memories."""

    source: str
    """Id of the newer one, or of what was drawn from the other."""

    target: str
    kind: str
    """``similar_to``, ``supersedes``, ``transitioned_to``, ``derives_from``, or another's word."""

    properties: dict[str, Any]
    """``weight`` and ``metadata`` among them, where the link has such."""


class FactArguments(TypedDict, total=False):
    """What can be said of a fact besides; see ``NewFact``."""

    confidence: float
    source_id: str
    extraction_method: str | None
    entity_name: str
    tags: Sequence[str]
    metadata: Mapping[str, Any]
    created_at: Any


class HierarchicalMemory:
    """The hierarchical memory of one agent, open. A context manager; from any thread.

    It is in the configured store, in a bank of the agent's name; or in a store of its own where
    amplihack's layout is used.

    Args:
        agent: The agent: up to 64 letters, digits, ``_`` and ``-``.
        storage_path: The folder of the layout, in the place of ``hierarchical_memory``.
        backend: ``sqlite``, ``graph-db`` or ``postgres``; as configured when None.
        home: Where keys and stores are; the usual folder when None.
        passphrase: Of the owner's key, which a new bank needs, where it has one.

    Raises:
        UsageError: If no agent can have the name; nothing was made then.
        ConfigError: If there is no such backend.
        PathRefusedError: If there is a link on the way.
        StoreError: If the store cannot be opened.
    """

    def __init__(
        self,
        agent: str,
        *,
        storage_path: str | Path | None = None,
        backend: str | None = None,
        home: str | Path | None = None,
        passphrase: str | None = None,
    ) -> None:
        settings = load_settings(home=None if home is None else Path(home), backend=backend)
        place = None if storage_path is None else Path(storage_path)
        there = hierarchical(settings, agent, storage_path=place, writes=True)
        self._agent = agent
        self._linker = Linker()
        self._turn = threading.Lock()
        self._stack = ExitStack()
        self._stack.callback(settings.hooks.finish)
        self._lifetime = Lifetime(self._stack.close)
        self._bank = self._stack.enter_context(
            opened_agent(there, agent, lambda: signing_key(settings, passphrase=passphrase)[0])
        )

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
        self._lifetime.close()

    def store_episode(
        self,
        content: str,
        source_label: str = "",
        *,
        tags: Sequence[str] = (),
        metadata: Mapping[str, Any] | None = None,
        created_at: Any = None,
    ) -> str:
        """Keep something that happened, and return its id.

        Raises:
            EmptyInputError: If it says nothing.
            UsageError: If a time names no moment, or a tag is none.
        """
        episode = NewEpisode(
            content=content,
            source_label=source_label,
            tags=tags,
            metadata=metadata or {},
            created_at=created_at,
        )
        with self._lifetime.use():
            return store_episode(self._bank, episode, agent=self._agent)

    def store_knowledge(
        self, content: str, concept: str = "", **more: Unpack[FactArguments]
    ) -> StoredFact:
        """Keep a fact with the links that it makes; see ``NewFact`` for what can be said of it.

        Raises:
            TypeError: If something is said that a fact has no place for.
            SatchelError: As ``store_many``.
        """
        return self.store_many([NewFact(content=content, concept=concept, **more)])[0]

    def store_many(self, facts: Sequence[NewFact]) -> list[StoredFact]:
        """Keep facts with the links that they make, up to a thousand in one commit.

        Raises:
            EmptyInputError: If one says nothing.
            UnknownMemoryError: If an episode is not there.
            UsageError: If a member cannot be meant; ``field`` says which.
            StoreError: If the store cannot be written.
        """
        with self._lifetime.use(), self._turn:
            return store_facts(self._bank, facts, agent=self._agent, linker=self._linker)

    def links(self) -> list[Link]:
        """Return all links, those that were stated or logged before those that were computed."""
        with self._lifetime.use(), self._bank.ledger.reading() as view:
            found = [
                _link(one.model)
                for one in view.scan()
                if isinstance(one.model, Edge) and one.row.retired is None and not one.row.hold
            ]
            stated = {(one.source, one.target) for one in found if one.kind == SIMILAR_TO}
            for alike in similar_links(view):
                if (alike.source, alike.target) not in stated:
                    metadata = {"contradiction": True} if alike.contradicts else {}
                    said = {"weight": alike.weight, "metadata": metadata}
                    found.append(Link(alike.source, alike.target, SIMILAR_TO, said))
        return found


def _link(edge: Edge) -> Link:
    said = dict(edge.properties)
    if edge.weight is not None:
        said["weight"] = edge.weight
    if edge.metadata:
        said["metadata"] = edge.metadata
    return Link(edge.source, edge.target, edge.kind, said)
