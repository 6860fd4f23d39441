"""The hierarchical tier: facts above, episodes below, and the links that storing them makes."""

import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self, TypedDict, Unpack

import msgspec

from satchel.amplihack.agents import hierarchical, opened_agent
from satchel.amplihack.facts import INDEX, NO_LINKS, SIMILAR_TO, Linker, similar_links
from satchel.bank.drafts import labels, moment
from satchel.bank.lifetime import Lifetime
from satchel.bank.memory_ids import find_memory
from satchel.bank.open_bank import OpenBank
from satchel.bank.owner_rights import require_owner
from satchel.bank.signing_keys import signing_key
from satchel.config.settings import load_settings
from satchel.crypto.batches import seal_many
from satchel.errors import EmptyInputError, UsageError
from satchel.model.entries import Entry, Episodic, Semantic
from satchel.model.records import Edge, Model
from satchel.model.times import now
from satchel.model.values import Entity, Evidence, Scope
from satchel.ports.rows import DERIVES_FROM
from satchel.screening.records import SecretScreener

EPISODE = "episode"
"""The kind of an episode, and of the evidence that a fact has of one elsewhere."""

LABEL = "source_label"
TOGETHER = 1000
"""Facts that are written together at most."""


class NewFact(msgspec.Struct, frozen=True, kw_only=True):
    """A fact that is to be stored."""

    content: str
    concept: str = ""
    """What it is about, in a few words."""

    confidence: float = 0.8
    """From 0 to 1."""

    source_id: str = ""
    """Id of the episode that it was drawn from, or the first digits of that; empty for none."""

    extraction_method: str | None = None
    """How it was drawn from it; said in an edge of its own."""

    entity_name: str = ""
    tags: Sequence[str] = ()
    metadata: Mapping[str, Any] = {}
    """``temporal_index``, from 1, says its place in the order of what happened."""

    created_at: Any = None
    """A moment as ``drafting.moment`` takes it; now when None."""


class StoredFact(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a fact."""

    id: str
    place: int
    supersedes: list[str] = []
    """Ids of the facts that it took the place of."""

    similar: int = 0
    """How many earlier facts it is like."""


class NewEpisode(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened, and is to be stored."""

    content: str
    source_label: str = ""
    tags: Sequence[str] = ()
    metadata: Mapping[str, Any] = {}
    created_at: Any = None


def store_episode(bank: OpenBank, episode: NewEpisode, *, agent: str | None = None) -> str:
    """Keep an episode, and return its id.

    Raises:
        EmptyInputError: If it says nothing.
        UsageError: If a time names no moment, or a tag is none.
    """
    require_owner(bank.settings, "amplihack")
    label = episode.source_label
    entry = Episodic(
        kind=EPISODE,
        sources=(Evidence(kind=LABEL, id=label),) if label else (),
        **_shared(episode, agent),
    )
    entry = _screened(bank, [entry])[0]
    made = next(seal_many([entry], limits=bank.settings.options.limits))
    bank.ledger.append([made])
    return made.id


def store_facts(
    bank: OpenBank,
    facts: Sequence[NewFact],
    *,
    agent: str | None = None,
    linker: Linker | None = None,
    links: bool = True,
) -> list[StoredFact]:
    """Keep facts with the links that they make; durable when this returns.

    Args:
        bank: Where.
        facts: In the order in which they are to be logged; ``TOGETHER`` of them are one commit.
        agent: Whose they are.
        linker: Of this bank, for who stores often: it remembers what it has read. None for one of
            the moment.
        links: False where they are only to be kept; the next that are linked take these in.

    Raises:
        EmptyInputError: If one says nothing.
        UnknownMemoryError: If an episode is not in the bank.
        UsageError: If a member cannot be meant; ``field`` says which.
    """
    require_owner(bank.settings, "amplihack")
    linker = (linker or Linker()) if links else None
    found = list[StoredFact]()
    drafts = [_fact(one, agent) for one in facts]
    for start in range(0, len(drafts), TOGETHER):
        found += _store(
            bank, facts[start : start + TOGETHER], drafts[start : start + TOGETHER], linker
        )
    return found


def _store(
    bank: OpenBank, facts: Sequence[NewFact], drafts: Sequence[Semantic], linker: Linker | None
) -> list[StoredFact]:
    limits = bank.settings.options.limits
    if linker is not None:
        _catch_up(bank, linker)
    with bank.ledger.reading() as view:
        episodes = {
            name: find_memory(view, name, "source_id").record.id
            for name in {one.source_id for one in facts if one.source_id}
        }
        whole = [
            msgspec.structs.replace(draft, parent_ids=(episodes[one.source_id],))
            if one.source_id
            else draft
            for one, draft in zip(facts, drafts, strict=True)
        ]
        entries = _screened(bank, whole)
        sealed = list(seal_many(entries, limits=limits))
        links = NO_LINKS
        if linker is not None:
            pairs = [(made.id, entry) for made, entry in zip(sealed, entries, strict=True)]
            links = linker.link(view, pairs)
    stated = [
        _derived(made.id, episodes[one.source_id], one)
        for made, one in zip(sealed, facts, strict=True)
        if one.source_id and one.extraction_method is not None
    ]
    more = seal_many([*stated, *links.records], limits=limits)
    try:
        places = bank.ledger.append([*sealed, *more], side=links.side)
    except BaseException:
        if linker is not None:
            linker.failed()
        raise
    if linker is not None:
        linker.logged(places)
    return [
        StoredFact(
            id=made.id,
            place=place,
            supersedes=links.superseded.get(made.id, []),
            similar=links.similar.get(made.id, 0),
        )
        for made, place in zip(sealed, places, strict=False)
    ]


def link_stored(bank: OpenBank) -> None:
    """Give the facts that an import brought the links of likeness that storing gives; unlogged."""
    require_owner(bank.settings, "amplihack")
    _catch_up(bank, Linker(), wholly=True)


def _catch_up(bank: OpenBank, linker: Linker, *, wholly: bool = False) -> None:
    """Take in what others have stored; each part in a view of its own, since one cannot write."""
    while True:
        with bank.ledger.reading() as view:
            values = linker.catch_up(view, wholly=wholly)
        if values is None:
            return
        with bank.store.writing() as writing:
            writing.put_side(bank.id, values)


def _screened(bank: OpenBank, drafts: Sequence[Entry]) -> list[Any]:
    """Return entries with secrets replaced, where the bank is set up so."""
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


def _shared(said: NewFact | NewEpisode, agent: str | None) -> dict[str, Any]:
    if not said.content.strip():
        raise EmptyInputError("the memory is empty", field="content")
    made = said.created_at
    return {
        "text": said.content,
        "tags": tuple(labels(list(said.tags))),
        "metadata": dict(said.metadata),
        "created_at": now() if made is None else moment(made, "created_at"),
        "scope": None if agent is None else Scope(agent=agent),
    }


def _derived(fact: str, episode: str, said: NewFact) -> Model:
    return Edge(
        source=fact,
        target=episode,
        kind=DERIVES_FROM,
        properties={"extraction_method": said.extraction_method, "confidence": said.confidence},
        at=now(),
    )


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


__all__ = ["HierarchicalMemory", "Link", "NewFact", "StoredFact"]
