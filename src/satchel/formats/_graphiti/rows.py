"""One row of a graph as a record, and back.

An episode is an episodic entry; a fact between two entities is a semantic entry, which says when
it began and ceased to be true; entities, communities and sagas are nodes. What a row says beside
that is kept with its record, and comes back into a row as long as the record still says the same.
"""

from typing import Any, NamedTuple, TypeVar

import msgspec

from satchel.formats._as_written import differences, settled
from satchel.formats._graphiti.shape import (
    EPISODES,
    FACTS,
    NAME,
    NODES,
    SOURCE,
    TARGET,
    Row,
    id_in,
)
from satchel.formats._members import text_in
from satchel.memory.entries import Entry, Episodic, Semantic
from satchel.memory.parts import Entity, Origin, Scope, TrustClass
from satchel.memory.records import Edge, GraphNode
from satchel.memory.times import read_time
from satchel.ports.carried import mark_of
from satchel.seal.encoding.carry import ABSENT

NOBODY, NO_BODY = "memory", "Nobody"
"""The entity at an end of a fact that is about nobody in particular, and its label."""

ABOUT_ENTITY, ABOUT_SUBJECT, ABOUT_BOTH = "REMEMBERED", "ABOUT", "OBSERVED"
"""What facts are called that join something to nobody: whether an entry named an entity, a
subject, or one and the same as both."""

WITHOUT = (ABOUT_ENTITY, ABOUT_SUBJECT, ABOUT_BOTH)
"""All of them: what facts without a predicate are called."""

SOURCES = ("message", "json", "text", "fact_triple")
"""What an episode can be."""

_TEXT = "text"
_EMBEDDINGS = {NODES: ("name_embedding", "name"), FACTS: ("fact_embedding", "fact")}
_OF, _VECTOR = "of", "vector"

_MEANS = {
    "name": "predicate",
    "fact": "text",
    "content": "text",
    "source": "kind",
    "created_at": "created_at",
    "valid_at": "valid",
    "invalid_at": "valid",
    "expired_at": "valid",
    "attributes": "metadata",
    "episode_metadata": "metadata",
    "group_id": "scope",
}
"""What of an entry a member of its row says."""


class End(NamedTuple):
    """What a fact or link is joined to."""

    identity: str
    """Its id in the file."""

    name: str
    label: str | None

    @property
    def is_nobody(self) -> bool:
        """Whether it only stands where nobody is."""
        return self.name == NOBODY and self.label == NO_BODY


Ends = tuple[End | None, End | None]

_T = TypeVar("_T", Semantic, Episodic, GraphNode, Edge)


def time_text(text: str | None) -> str | None:
    """Return a time as Graphiti writes it."""
    return None if text is None else text[:19] + text[19:26].removesuffix(".000000") + "Z"


def _time(value: Any) -> str | None:
    return read_time(value) if type(value) is str else None


def object_of(value: Any) -> Row:
    """Return an object; an empty one where a value is none."""
    return value if type(value) is dict else {}


def scope_of(row: Row) -> Scope | None:
    """Return the group that a row is in, as a scope."""
    group = row.get("group_id")
    return Scope(namespace=(group,)) if type(group) is str and group else None


def group_of(scope: Scope | None) -> str:
    """Return the group that a scope is."""
    if scope is None:
        return ""
    named = scope.user or scope.agent or scope.app or scope.run
    return "/".join(scope.namespace) or named or ""


# -- facts ---------------------------------------------------------------------------------


def fact_of(row: Row, ends: Ends, episodes: dict[str, str]) -> Semantic:
    """Return a fact as an entry.

    Args:
        row: The fact.
        ends: What it joins, where that is in the file.
        episodes: Those of its episodes that are in the file, each with what stands for its id.

    Raises:
        MalformedError: If there is no fact in it, naming the member.
    """
    identity = id_in(row)
    text_in(row, "fact")
    said = _fact_said(row, ends)
    valid_from, valid_until = said.pop("valid")
    made = Semantic(
        **said, valid_from=valid_from, valid_until=valid_until, parent_ids=tuple(episodes.values())
    )
    named = tuple(None if one is None else one.identity for one in ends)
    written = _written_fact(made, (named[0], named[1]), list(episodes))
    return kept_with(made, identity, row, written, FACTS)


def _fact_said(row: Row, ends: Ends) -> Row:
    """Return what an entry says that is made of a row."""
    start, end = ends
    name, fact = row.get("name"), row.get("fact")
    begins, ends_at = _time(row.get("valid_at")), _time(row.get("invalid_at"))
    if ends_at is None:  # withdrawn, and nobody said when it had ceased to be true
        ends_at = _time(row.get("expired_at"))
    said: Row = {
        "text": fact,
        "created_at": _time(row.get("created_at")),
        "valid": (begins, ends_at),
        "metadata": object_of(row.get("attributes")),
        "scope": scope_of(row),
        "predicate": name if type(name) is str else None,
        "subject": None if start is None or start.is_nobody else start.name,
        "object": None if end is None or end.is_nobody else end.name,
    }
    if end is not None and end.is_nobody and name in WITHOUT:
        said["predicate"] = None
        if start is not None and not start.is_nobody and name != ABOUT_SUBJECT:
            said["entities"] = (Entity(name=start.name, entity_type=start.label),)
        if name == ABOUT_ENTITY:
            said["subject"] = None
    return said


def _written_fact(entry: Semantic, ends: tuple[str | None, str | None], episodes: list[str]) -> Row:
    row: Row = {
        "group_id": group_of(entry.scope),
        SOURCE: ends[0],
        TARGET: ends[1],
        "created_at": time_text(entry.created_at),
        "name": _called(entry),
        "fact": entry.text,
        "fact_embedding": None,
        "episodes": episodes,
        "expired_at": None,
        "valid_at": time_text(entry.valid_from),
        "invalid_at": time_text(entry.valid_until),
        "reference_time": None,
        "attributes": entry.metadata,
    }
    for name in (SOURCE, TARGET, "created_at"):
        if row[name] is None:
            del row[name]
    return row


def _called(entry: Semantic) -> str:
    """Return what a fact is called; one that joins nothing is called by what it is about."""
    if entry.predicate is not None:
        return entry.predicate
    if entry.subject is None:
        return ABOUT_ENTITY
    return ABOUT_BOTH if entry.entities else ABOUT_SUBJECT


def row_of_fact(entry: Semantic, identity: str, ends: Ends, episodes: list[str]) -> Row:
    """Return an entry as a fact.

    Args:
        entry: The entry.
        identity: What it is to be called.
        ends: What it joins; None for what its file did not have either.
        episodes: The ids of those that it was drawn from.
    """
    named = tuple(None if one is None else one.identity for one in ends)
    written = _written_fact(entry, (named[0], named[1]), episodes)
    kept = kept_of(entry.origin)
    for name in written.keys() & {SOURCE, TARGET}:
        kept.pop(name, None)
    found = kept.get("episodes")
    if "episodes" in kept and (found != ABSENT or episodes) and not _holds(found, episodes):
        del kept["episodes"]

    def again(row: Row) -> Row:
        return _fact_said(row, ends)

    row = settled(written, kept, again, _said(entry), _MEANS)
    return named_row(row, identity, kept, FACTS)


def _holds(found: Any, some: list[str]) -> bool:
    return isinstance(found, list) and all(one in found for one in some)


# -- episodes ------------------------------------------------------------------------------


def episode_of(row: Row) -> Episodic:
    """Return an episode as an entry.

    Raises:
        MalformedError: If there is nothing in it, naming the member.
    """
    identity = id_in(row)
    text_in(row, "content")
    said = _episode_said(row)
    occurred_at, _ = said.pop("valid")
    made = Episodic(**said, occurred_at=occurred_at)
    return kept_with(made, identity, row, _written_episode(made, ""), EPISODES)


def _episode_said(row: Row) -> Row:
    kind = row.get("source")
    return {
        "text": row.get("content"),
        "kind": kind if kind in SOURCES and kind != _TEXT else None,
        "created_at": _time(row.get("created_at")),
        "valid": (_time(row.get("valid_at")), None),
        "metadata": object_of(row.get("episode_metadata")),
        "scope": scope_of(row),
    }


def _written_episode(entry: Episodic, content: str) -> Row:
    text = content if entry.text is None else entry.text
    row: Row = {
        "name": NOBODY,
        "group_id": group_of(entry.scope),
        "labels": [],
        "created_at": time_text(entry.created_at),
        "source": entry.kind if entry.kind in SOURCES else _TEXT,
        "source_description": _came_from(entry),
        "content": text,
        "valid_at": time_text(entry.occurred_at),
        "entity_edges": [],
        "episode_metadata": entry.metadata or None,
    }
    for name in ("created_at", "valid_at"):
        if row[name] is None:
            del row[name]
    return row


def _came_from(entry: Episodic) -> str:
    provider = entry.origin.provider if entry.origin is not None else None
    return NOBODY if provider in (None, NAME) else str(provider)


def row_of_episode(entry: Episodic, identity: str, content: str) -> Row:
    """Return an entry as an episode; ``content`` is what is in it where it has no text."""
    kept = kept_of(entry.origin)
    row = settled(_written_episode(entry, content), kept, _episode_said, _said(entry), _MEANS)
    return named_row(row, identity, kept, EPISODES)


# -- all of them ---------------------------------------------------------------------------


def kept_of(origin: Origin | None) -> Row:
    """Return what a row said beside what its record says."""
    return dict(origin.as_written) if origin is not None and origin.provider == NAME else {}


def kept_with(made: _T, identity: str, row: Row, written: Row, table: str) -> _T:
    """Return a record with what its row said that the record does not."""
    spelled = "uuid" if "uuid" in row else "uuid_"
    kept = differences({k: v for k, v in row.items() if k != spelled}, written)
    if spelled == "uuid_":
        kept["uuid_"] = True
    vector, of = _EMBEDDINGS.get(table, ("", ""))
    if isinstance(kept.get(vector), list):
        kept[vector] = {_OF: mark_of(str(row.get(of))), _VECTOR: kept[vector]}
    trust = TrustClass.IMPORTED
    origin = Origin(provider=NAME, id=identity, as_written=kept, trust=trust)
    return msgspec.structs.replace(made, origin=origin)


def named_row(row: Row, identity: str, kept: Row, table: str) -> Row:
    """Return a row with its id, and with its vector where that is of what it says now."""
    spelled = "uuid_" if kept.get("uuid_") is True else "uuid"
    row.pop("uuid_", None)
    vector, of = _EMBEDDINGS.get(table, ("", ""))
    held = row.get(vector)
    if isinstance(held, dict):
        is_of_it = held.get(_OF) == mark_of(str(row.get(of)))
        row[vector] = held.get(_VECTOR) if is_of_it else None
    return {spelled: identity, **{k: v for k, v in row.items() if k != spelled}}


def _said(record: Entry) -> Row:
    said = {name: getattr(record, name, None) for name in {*_MEANS.values()} - {"valid"}}
    if isinstance(record, Episodic):
        return {**said, "valid": (record.occurred_at, None)}
    return {**said, "valid": (record.valid_from, record.valid_until)}
