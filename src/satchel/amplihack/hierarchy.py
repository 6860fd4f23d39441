"""The hierarchical tier: facts, the episodes below them, and the links between them."""

import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple, TypedDict, Unpack

import msgspec

from satchel.amplihack.agents import hierarchical, opened_agent
from satchel.amplihack.facts import INDEX, NO_LINKS, SIMILAR_TO, Linker, similar_links
from satchel.bank.lifetime import Lifetime
from satchel.bank.machine_keys import require_owner, signing_key
from satchel.bank.memory import find_memory, unique_tags
from satchel.bank.open_bank import OpenBank
from satchel.config.settings import load_settings
from satchel.crypto.sealed_records import seal_many
from satchel.errors import EmptyInputError, UsageError
from satchel.model.records import Edge, Entry, Episodic, Model, Semantic
from satchel.model.values import Entity, Evidence, Scope, now, parse_moment
from satchel.ports.rows import DERIVES_FROM
from satchel.runtime.files import Closable
from satchel.screening.records import SecretScreener

EPISODE = "episode"
"""The kind of an episode, and of a fact's evidence from one elsewhere."""

LABEL = "source_label"
TOGETHER = 1000
"""Largest number of facts in one commit."""


class NewFact(msgspec.Struct, frozen=True, kw_only=True):
    """A fact to store."""

    content: str
    concept: str = ""
    """Its subject, in a few words."""

    confidence: float = 0.8
    """From 0 to 1."""

    source_id: str = ""
    """ID of its source episode, or a prefix of it; empty for none."""

    extraction_method: str | None = None
    """How it was extracted; stored in an edge."""

    entity_name: str = ""
    tags: Sequence[str] = ()
    metadata: Mapping[str, Any] = {}
    """``temporal_index`` is its position in the order of events, from 1."""

    created_at: Any = None
    """A moment in any form of ``parse_moment``; None for now."""


class StoredFact(msgspec.Struct, frozen=True, kw_only=True):
    """The result of storing a fact."""

    id: str
    place: int
    supersedes: list[str] = []
    """IDs of the facts that it superseded."""

    similar: int = 0
    """Number of similar earlier facts."""


class NewEpisode(msgspec.Struct, frozen=True, kw_only=True):
    """An episode to store."""

    content: str
    source_label: str = ""
    tags: Sequence[str] = ()
    metadata: Mapping[str, Any] = {}
    created_at: Any = None


def store_episode(bank: OpenBank, episode: NewEpisode, *, agent: str | None = None) -> str:
    """Store an episode and return its ID.

    Raises:
        EmptyInputError: If it is empty.
        UsageError: If a time or a tag is not valid.
    """
    require_owner(bank.settings, "amplihack")
    label = episode.source_label
    entry = Episodic(
        kind=EPISODE,
        sources=(Evidence(kind=LABEL, id=label),) if label else (),
        **_shared(episode, agent),
    )
    entry = _screened(bank, [entry])[0]
    record = next(seal_many([entry], limits=bank.settings.options.limits))
    bank.ledger.append([record])
    return record.id


def store_facts(
    bank: OpenBank,
    facts: Sequence[NewFact],
    *,
    agent: str | None = None,
    linker: Linker | None = None,
    links: bool = True,
) -> list[StoredFact]:
    """Store facts with their links; durable when this returns.

    Args:
        bank: The bank.
        facts: In log order; ``TOGETHER`` of them are one commit.
        agent: Their agent.
        linker: One of this bank, for frequent callers, since it caches what it has read. None for
            a temporary one.
        links: Whether to link them; otherwise the next call that links includes these.

    Raises:
        EmptyInputError: If one is empty.
        UnknownMemoryError: If an episode is not in the bank.
        UsageError: If a member is not valid; ``field`` names it.
    """
    require_owner(bank.settings, "amplihack")
    linker = (linker or Linker()) if links else None
    stored = list[StoredFact]()
    drafts = [_fact(fact, agent) for fact in facts]
    for start in range(0, len(drafts), TOGETHER):
        stored += _store(
            bank, facts[start : start + TOGETHER], drafts[start : start + TOGETHER], linker
        )
    return stored


def _store(
    bank: OpenBank, facts: Sequence[NewFact], drafts: Sequence[Semantic], linker: Linker | None
) -> list[StoredFact]:
    limits = bank.settings.options.limits
    if linker is not None:
        _catch_up(bank, linker)
    with bank.ledger.reading() as view:
        episodes = {
            name: find_memory(view, name, "source_id").record.id
            for name in {fact.source_id for fact in facts if fact.source_id}
        }
        complete = [
            msgspec.structs.replace(draft, parent_ids=(episodes[fact.source_id],))
            if fact.source_id
            else draft
            for fact, draft in zip(facts, drafts, strict=True)
        ]
        entries = _screened(bank, complete)
        sealed = list(seal_many(entries, limits=limits))
        links = NO_LINKS
        if linker is not None:
            pairs = [(record.id, entry) for record, entry in zip(sealed, entries, strict=True)]
            links = linker.link(view, pairs)
    stated = [
        _derived(record.id, episodes[fact.source_id], fact)
        for record, fact in zip(sealed, facts, strict=True)
        if fact.source_id and fact.extraction_method is not None
    ]
    more = seal_many([*stated, *links.records], limits=limits)
    try:
        positions = bank.ledger.append([*sealed, *more], side=links.side)
    except BaseException:
        if linker is not None:
            linker.failed()
        raise
    if linker is not None:
        linker.logged(positions)
    return [
        StoredFact(
            id=record.id,
            place=position,
            supersedes=links.superseded.get(record.id, []),
            similar=links.similar.get(record.id, 0),
        )
        for record, position in zip(sealed, positions, strict=False)
    ]


def link_stored(bank: OpenBank) -> None:
    """Store the similarity links of imported facts beside the log, as storing does."""
    require_owner(bank.settings, "amplihack")
    _catch_up(bank, Linker(), wholly=True)


def _catch_up(bank: OpenBank, linker: Linker, *, wholly: bool = False) -> None:
    """Index records of other writers, in parts with a view each, since a view cannot write."""
    while True:
        with bank.ledger.reading() as view:
            values = linker.catch_up(view, wholly=wholly)
        if values is None:
            return
        with bank.store.writing() as writing:
            writing.put_side(bank.id, values)


def _screened(bank: OpenBank, drafts: Sequence[Entry]) -> list[Any]:
    """Return entries with secrets replaced, if the bank's settings require it."""
    with bank.ledger.reading() as view:
        scrub = bool(bank.settled(view).scrub_secrets)
    return list(SecretScreener(scrub=True).many(drafts)) if scrub else list(drafts)


def _fact(fact: NewFact, agent: str | None) -> Semantic:
    if not 0 <= fact.confidence <= 1:
        raise UsageError("confidence must be between 0 and 1", field="confidence")
    index = fact.metadata.get(INDEX)
    if index is not None and (type(index) is not int or index < 0):
        raise UsageError("an order index must be a whole number", field=f"metadata.{INDEX}")
    return Semantic(
        subject=fact.concept or None,
        confidence=fact.confidence,
        entities=(Entity(name=fact.entity_name),) if fact.entity_name else (),
        **_shared(fact, agent),
    )


def _shared(memory: NewFact | NewEpisode, agent: str | None) -> dict[str, Any]:
    if not memory.content.strip():
        raise EmptyInputError("the memory is empty", field="content")
    created_at = memory.created_at
    return {
        "text": memory.content,
        "tags": tuple(unique_tags(list(memory.tags))),
        "metadata": dict(memory.metadata),
        "created_at": now() if created_at is None else parse_moment(created_at, "created_at"),
        "scope": None if agent is None else Scope(agent=agent),
    }


def _derived(fact: str, episode: str, stated: NewFact) -> Model:
    return Edge(
        source=fact,
        target=episode,
        kind=DERIVES_FROM,
        properties={"extraction_method": stated.extraction_method, "confidence": stated.confidence},
        at=now(),
    )


class Link(NamedTuple):
    """A link between two memories."""

    source: str
    """ID of the newer memory, or of the derived one."""

    target: str
    kind: str
    """``similar_to``, ``supersedes``, ``transitioned_to``, ``derives_from``, or another word."""

    properties: dict[str, Any]
    """Including ``weight`` and ``metadata``, if the link has them."""


class FactArguments(TypedDict, total=False):
    """Optional members of a fact; see ``NewFact``."""

    confidence: float
    source_id: str
    extraction_method: str | None
    entity_name: str
    tags: Sequence[str]
    metadata: Mapping[str, Any]
    created_at: Any


class HierarchicalMemory(Closable):
    """The open hierarchical memory of one agent. A context manager; thread-safe.

    It is in the configured store, in a bank of the agent's name; or in its own store if amplihack's
    layout is used.

    Args:
        agent: The agent: up to 64 letters, digits, ``_`` and ``-``.
        storage_path: The folder of the layout, in place of ``hierarchical_memory``.
        backend: ``sqlite``, ``graph-db`` or ``postgres``; None for the configured one.
        home: The folder with keys and stores; None for the usual one.
        passphrase: That of the owner's key, if it has one; a new bank needs it.

    Raises:
        UsageError: If the name is not valid for an agent; nothing was created then.
        ConfigError: If the backend is unknown.
        PathRefusedError: If the path contains a link.
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
        folder = None if storage_path is None else Path(storage_path)
        own_settings = hierarchical(settings, agent, storage_path=folder, writes=True)
        self._agent = agent
        self._linker = Linker()
        self._turn = threading.Lock()
        self._stack = ExitStack()
        self._stack.callback(settings.hooks.finish)
        self._lifetime = Lifetime(self._stack.close)
        self._bank = self._stack.enter_context(
            opened_agent(
                own_settings, agent, lambda: signing_key(settings, passphrase=passphrase)[0]
            )
        )

    def close(self) -> None:
        """Close the store."""
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
        """Store an episode and return its ID.

        Raises:
            EmptyInputError: If it is empty.
            UsageError: If a time or a tag is not valid.
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
        """Store a fact with its links; see ``NewFact`` for its members.

        Raises:
            TypeError: If a fact has no such member.
            SatchelError: As ``store_many``.
        """
        return self.store_many([NewFact(content=content, concept=concept, **more)])[0]

    def store_many(self, facts: Sequence[NewFact]) -> list[StoredFact]:
        """Store facts with their links, up to a thousand in one commit.

        Raises:
            EmptyInputError: If one is empty.
            UnknownMemoryError: If an episode does not exist.
            UsageError: If a member is not valid; ``field`` names it.
            StoreError: If the store cannot be written.
        """
        with self._lifetime.use(), self._turn:
            return store_facts(self._bank, facts, agent=self._agent, linker=self._linker)

    def links(self) -> list[Link]:
        """Return all links; stated and logged ones come before computed ones."""
        with self._lifetime.use(), self._bank.ledger.reading() as view:
            links = [
                _link(logged.model)
                for logged in view.scan()
                if isinstance(logged.model, Edge)
                and logged.row.retired is None
                and not logged.row.hold
            ]
            stated = {(link.source, link.target) for link in links if link.kind == SIMILAR_TO}
            for alike in similar_links(view):
                if (alike.source, alike.target) not in stated:
                    metadata = {"contradiction": True} if alike.contradicts else {}
                    properties = {"weight": alike.weight, "metadata": metadata}
                    links.append(Link(alike.source, alike.target, SIMILAR_TO, properties))
        return links


def _link(edge: Edge) -> Link:
    properties = dict(edge.properties)
    if edge.weight is not None:
        properties["weight"] = edge.weight
    if edge.metadata:
        properties["metadata"] = edge.metadata
    return Link(edge.source, edge.target, edge.kind, properties)


__all__ = ["HierarchicalMemory", "Link", "NewFact", "StoredFact"]
