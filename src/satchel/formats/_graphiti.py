"""A row of a graph as a record, and back.

An episode is an episodic entry; a fact between two entities is a semantic entry with its validity;
entities, communities and sagas are nodes. Other members of a row are stored with its record, and
written again as long as the record is unchanged.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, Self, TypeVar
from uuid import UUID

import msgspec
from blake3 import blake3

from satchel.crypto.canonical import ABSENT
from satchel.errors import EmptyInputError, InputError, MalformedError
from satchel.formats._json import (
    differences,
    object_of,
    reproduce,
    settled,
    text_in,
    time_of,
    time_text,
)
from satchel.model.records import Edge, Entry, Episodic, GraphNode, Semantic
from satchel.model.values import Entity, Origin, Scope, TrustClass, resolved
from satchel.ports.drafts import required_placeholder
from satchel.ports.format import ReadContext
from satchel.ports.vectors import text_mark
from satchel.runtime.scratch import ScratchMap, SpoolStreams

NAME = "graphiti"
"""The format, and the provider in the origin of its records."""

NODES, EPISODES, FACTS, MENTIONS = "nodes", "episodes", "edges", "mentions"
COMMUNITIES, SAGAS = "communities", "sagas"

THINGS = {NODES: "", COMMUNITIES: "community:", SAGAS: "saga:"}
"""Tables of nodes other than episodes, with the prefix of their IDs."""

LINKS = {
    MENTIONS: "MENTIONS",
    "has_member": "HAS_MEMBER",
    "has_episode": "HAS_EPISODE",
    "next_episode": "NEXT_EPISODE",
}
"""Tables of links other than facts, with the type of their links."""

TABLES = (NODES, EPISODES, COMMUNITIES, SAGAS, FACTS, *LINKS)
"""All tables, in the order of writing."""

ALWAYS = (NODES, EPISODES, FACTS, MENTIONS)
"""The tables that every file has."""

_ALIASES = {
    NODES: ("entities", "entity_nodes"),
    EPISODES: ("episode_nodes",),
    COMMUNITIES: ("community_nodes",),
    SAGAS: ("saga_nodes",),
    FACTS: ("entity_edges", "facts"),
    MENTIONS: ("episodic_edges",),
    "has_member": ("community_edges", "has_member_edges"),
    "has_episode": ("has_episode_edges",),
    "next_episode": ("next_episode_edges",),
}

TABLE_OF = {name: table for table in TABLES for name in (table, *_ALIASES[table])}
"""Members of a file, with their table."""

SOURCE, TARGET = "source_node_uuid", "target_node_uuid"

Row = dict[str, Any]

_NODE_SIGNS = frozenset({b"group_id", b"labels", b"summary"})
_EPISODE_SIGNS = frozenset({b"group_id", b"source_description", b"content"})
ROW_SIGNS = sorted(_NODE_SIGNS | _EPISODE_SIGNS)
"""Members of which every node or episode has at least one, besides its ID."""

_IDS = frozenset({b"uuid", b"uuid_"})
_SAFE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_GROUP = re.compile(r"[A-Za-z0-9_-]*", re.ASCII)


def is_graph(starts: Iterable[tuple[tuple[bytes | int, ...], bytes]]) -> bool:
    """Return whether the first members of a document are those of a graph."""
    rows = dict[str, set[bytes]]()
    for path, _ in starts:
        if len(path) == 3 and path[1] == 0 and isinstance(path[0], bytes):  # noqa: PLR2004 - a member of a row
            table = TABLE_OF.get(path[0].decode("latin-1"))
            if table is not None and isinstance(path[2], bytes):
                rows.setdefault(table, set()).add(path[2])
    return any(_is_row(table, names) for table, names in rows.items())


def _is_row(table: str, names: set[bytes]) -> bool:
    if table == FACTS or table in LINKS:
        return SOURCE.encode() in names
    signs = _EPISODE_SIGNS if table == EPISODES else _NODE_SIGNS
    return not names.isdisjoint(_IDS) and not names.isdisjoint(signs)


def is_safe_label(label: str) -> bool:
    """Return whether Graphiti accepts a label."""
    return _SAFE.fullmatch(label) is not None


def is_safe_group(group: str) -> bool:
    """Return whether Graphiti accepts the name of a group."""
    return _GROUP.fullmatch(group) is not None


def id_in(row: Row) -> str:
    """Return the ID of a row; the SDK of Zep spells the member differently.

    Raises:
        MalformedError: If there is none.
    """
    return text_in(row, "uuid_" if "uuid_" in row and "uuid" not in row else "uuid")


def texts(value: Any) -> tuple[str, ...]:
    """Return a list of texts; empty if the value is not a list."""
    if isinstance(value, list) and all(type(one) is str for one in value):
        return tuple(value)
    return ()


NOBODY, NO_BODY = "memory", "Nobody"
"""The placeholder entity at an end of a fact without one, and its label."""

ABOUT_ENTITY, ABOUT_SUBJECT, ABOUT_BOTH = "REMEMBERED", "ABOUT", "OBSERVED"
"""Names of facts with a placeholder entity: of entries that name an entity, a
subject, or the same as both."""

PREDICATELESS = (ABOUT_ENTITY, ABOUT_SUBJECT, ABOUT_BOTH)
"""The names of facts without a predicate."""

SOURCES = ("message", "json", "text", "fact_triple")
"""Sources of an episode."""

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
"""Members of a row, with the members of an entry that have the same meaning."""


class GraphitiEnd(NamedTuple):
    """An end of a fact or link."""

    identity: str
    """Its ID in the file."""

    name: str
    label: str | None

    @property
    def is_nobody(self) -> bool:
        """Whether it is the placeholder entity."""
        return self.name == NOBODY and self.label == NO_BODY


Ends = tuple[GraphitiEnd | None, GraphitiEnd | None]

_T = TypeVar("_T", Semantic, Episodic, GraphNode, Edge)


def scope_of(row: Row) -> Scope | None:
    """Return the group of a row, as a scope."""
    group = row.get("group_id")
    return Scope(namespace=(group,)) if type(group) is str and group else None


def group_of(scope: Scope | None) -> str:
    """Return the group of a scope."""
    if scope is None:
        return ""
    named = scope.user or scope.agent or scope.app or scope.run
    return "/".join(scope.namespace) or named or ""


# -- facts ---------------------------------------------------------------------------------


def fact_of(row: Row, ends: Ends, episodes: dict[str, str]) -> Semantic:
    """Return a fact as an entry.

    Args:
        row: The fact.
        ends: Its ends, if they are in the file.
        episodes: Those of its episodes that are in the file, with the placeholders of their IDs.

    Raises:
        MalformedError: If it is not a fact, naming the member.
    """
    identity = id_in(row)
    text_in(row, "fact")
    fields = _fact_fields(row, ends)
    valid_from, valid_until = fields.pop("valid")
    fact = Semantic(
        **fields,
        valid_from=valid_from,
        valid_until=valid_until,
        parent_ids=tuple(episodes.values()),
    )
    identities = tuple(None if one is None else one.identity for one in ends)
    written = _written_fact(fact, (identities[0], identities[1]), list(episodes))
    return with_origin(fact, identity, row, written, FACTS)


def _fact_fields(row: Row, ends: Ends) -> Row:
    """Return the members of the entry of a row."""
    start, end = ends
    name, fact = row.get("name"), row.get("fact")
    begins, ends_at = time_of(row.get("valid_at")), time_of(row.get("invalid_at"))
    if ends_at is None:  # invalidated, without an end of validity
        ends_at = time_of(row.get("expired_at"))
    fields: Row = {
        "text": fact,
        "created_at": time_of(row.get("created_at")),
        "valid": (begins, ends_at),
        "metadata": object_of(row.get("attributes")),
        "scope": scope_of(row),
        "predicate": name if type(name) is str else None,
        "subject": None if start is None or start.is_nobody else start.name,
        "object": None if end is None or end.is_nobody else end.name,
    }
    if end is not None and end.is_nobody and name in PREDICATELESS:
        fields["predicate"] = None
        if start is not None and not start.is_nobody and name != ABOUT_SUBJECT:
            fields["entities"] = (Entity(name=start.name, entity_type=start.label),)
        if name == ABOUT_ENTITY:
            fields["subject"] = None
    return fields


def _written_fact(entry: Semantic, ends: tuple[str | None, str | None], episodes: list[str]) -> Row:
    row: Row = {
        "group_id": group_of(entry.scope),
        SOURCE: ends[0],
        TARGET: ends[1],
        "created_at": time_text(entry.created_at),
        "name": _fact_name(entry),
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


def _fact_name(entry: Semantic) -> str:
    """Return the name of a fact; one with a placeholder entity has the name of its kind."""
    if entry.predicate is not None:
        return entry.predicate
    if entry.subject is None:
        return ABOUT_ENTITY
    return ABOUT_BOTH if entry.entities else ABOUT_SUBJECT


def row_of_fact(entry: Semantic, identity: str, ends: Ends, episodes: list[str]) -> Row:
    """Return an entry as a fact.

    Args:
        entry: The entry.
        identity: Its ID.
        ends: Its ends; None for one that its source file did not have.
        episodes: The IDs of its source episodes.
    """
    identities = tuple(None if one is None else one.identity for one in ends)
    written = _written_fact(entry, (identities[0], identities[1]), episodes)
    as_written = as_written_of(entry.origin)
    for name in written.keys() & {SOURCE, TARGET}:
        as_written.pop(name, None)
    stored_episodes = as_written.get("episodes")
    if (
        "episodes" in as_written
        and (stored_episodes != ABSENT or episodes)
        and not _includes_all(stored_episodes, episodes)
    ):
        del as_written["episodes"]

    def again(row: Row) -> Row:
        return _fact_fields(row, ends)

    row = settled(written, as_written, again, _fields_of(entry), _MEANS)
    return with_identity(row, identity, as_written, FACTS)


def _includes_all(stored: Any, some: list[str]) -> bool:
    return isinstance(stored, list) and all(one in stored for one in some)


# -- episodes ------------------------------------------------------------------------------


def episode_of(row: Row) -> Episodic:
    """Return an episode as an entry.

    Raises:
        MalformedError: If it is empty, naming the member.
    """
    identity = id_in(row)
    text_in(row, "content")
    fields = _episode_fields(row)
    occurred_at, _ = fields.pop("valid")
    episode = Episodic(**fields, occurred_at=occurred_at)
    return with_origin(episode, identity, row, _written_episode(episode, ""), EPISODES)


def _episode_fields(row: Row) -> Row:
    kind = row.get("source")
    return {
        "text": row.get("content"),
        "kind": kind if kind in SOURCES and kind != _TEXT else None,
        "created_at": time_of(row.get("created_at")),
        "valid": (time_of(row.get("valid_at")), None),
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
        "source_description": _source_description(entry),
        "content": text,
        "valid_at": time_text(entry.occurred_at),
        "entity_edges": [],
        "episode_metadata": entry.metadata or None,
    }
    for name in ("created_at", "valid_at"):
        if row[name] is None:
            del row[name]
    return row


def _source_description(entry: Episodic) -> str:
    provider = entry.origin.provider if entry.origin is not None else None
    return NOBODY if provider in (None, NAME) else str(provider)


def row_of_episode(entry: Episodic, identity: str, content: str) -> Row:
    """Return an entry as an episode; ``content`` is used if it has no text."""
    as_written = as_written_of(entry.origin)
    row = settled(
        _written_episode(entry, content), as_written, _episode_fields, _fields_of(entry), _MEANS
    )
    return with_identity(row, identity, as_written, EPISODES)


# -- all of them ---------------------------------------------------------------------------


def as_written_of(origin: Origin | None) -> Row:
    """Return the members of a row that its record does not reproduce."""
    return dict(origin.as_written) if origin is not None and origin.provider == NAME else {}


def with_origin(record: _T, identity: str, row: Row, written: Row, table: str) -> _T:
    """Return a record with the members of its row that it does not reproduce."""
    spelled = "uuid" if "uuid" in row else "uuid_"
    as_written = differences({k: v for k, v in row.items() if k != spelled}, written)
    if spelled == "uuid_":
        as_written["uuid_"] = True
    vector, of = _EMBEDDINGS.get(table, ("", ""))
    if isinstance(as_written.get(vector), list):
        as_written[vector] = {_OF: text_mark(str(row.get(of))), _VECTOR: as_written[vector]}
    trust = TrustClass.IMPORTED
    origin = Origin(provider=NAME, id=identity, as_written=as_written, trust=trust)
    return msgspec.structs.replace(record, origin=origin)


def with_identity(row: Row, identity: str, as_written: Row, table: str) -> Row:
    """Return a row with its ID, and with its vector if that is of the present text."""
    spelled = "uuid_" if as_written.get("uuid_") is True else "uuid"
    row.pop("uuid_", None)
    vector, of = _EMBEDDINGS.get(table, ("", ""))
    stored = row.get(vector)
    if isinstance(stored, dict):
        is_current = stored.get(_OF) == text_mark(str(row.get(of)))
        row[vector] = stored.get(_VECTOR) if is_current else None
    return {spelled: identity, **{k: v for k, v in row.items() if k != spelled}}


def _fields_of(record: Entry) -> Row:
    fields = {name: getattr(record, name, None) for name in {*_MEANS.values()} - {"valid"}}
    if isinstance(record, Episodic):
        return {**fields, "valid": (record.occurred_at, None)}
    return {**fields, "valid": (record.valid_from, record.valid_until)}


_NODE_MEANS = {
    "name": "name",
    "labels": "labels",
    "summary": "summary",
    "attributes": "properties",
    "group_id": "scope",
}


def node_of(table: str, row: Row) -> GraphNode:
    """Return an entity, a community or a saga as a node.

    Raises:
        MalformedError: If it has no name, naming the member.
    """
    identity = id_in(row)
    text_in(row, "name")
    node = GraphNode(**_node_fields(row))
    written = written_node(node, table)
    return with_origin(node, THINGS[table] + identity, row, written, NODES)


def _node_fields(row: Row) -> Row:
    summary = row.get("summary")
    return {
        "name": row.get("name"),
        "labels": texts(row.get("labels")),
        "summary": summary if type(summary) is str and summary else None,
        "properties": object_of(row.get("attributes")),
        "scope": scope_of(row),
    }


def written_node(node: GraphNode, table: str) -> Row:
    """Return a node as a row, without an ID."""
    row: Row = {
        "name": node.name or "",
        "group_id": group_of(node.scope),
        "labels": list(node.labels),
        "name_embedding": None,
        "summary": node.summary or "",
        "attributes": node.properties,
    }
    if table != NODES:
        del row["attributes"]
    return row


def row_of_node(table: str, node: GraphNode, identity: str) -> Row:
    """Return a node as a row of its table."""
    as_written = as_written_of(node.origin)
    row = settled(
        written_node(node, table), as_written, _node_fields, _node_of_record(node), _NODE_MEANS
    )
    return with_identity(row, identity, as_written, NODES)


def own_node(name: str, label: str | None, group: Any) -> Row:
    """Return the entity for a name in a memory; it has no other members."""
    key = blake3(msgspec.json.encode([group, name, label == NO_BODY])).digest(16)
    node = GraphNode(name=name, labels=(label,) if label else ())
    row = {"uuid": str(UUID(bytes=key, version=5)), **written_node(node, NODES)}
    return {**row, "group_id": group}


def label_of(labels: tuple[str, ...]) -> str | None:
    """Return the type of an entity: its last label that not all entities have."""
    own = [one for one in labels if one != "Entity" and not one.startswith("Entity_")]
    return own[-1] if own else None


# -- links ---------------------------------------------------------------------------------


def link_of(table: str, row: Row, ends: tuple[str, str]) -> Edge:
    """Return a link other than a fact.

    Args:
        table: Its table.
        row: The link.
        ends: The placeholders of the IDs at its ends.

    Raises:
        MalformedError: If the row is not valid, naming the member.
    """
    identity = id_in(row)
    written = {"group_id": group_of(scope_of(row)), SOURCE: row[SOURCE], TARGET: row[TARGET]}
    link = Edge(source=ends[0], target=ends[1], kind=LINKS[table], scope=scope_of(row))
    return with_origin(link, identity, row, written, table)


def row_of_link(edge: Edge, identity: str, ends: tuple[str, str]) -> Row:
    """Return a link as a row of its table."""
    as_written = as_written_of(edge.origin)
    for name in (SOURCE, TARGET, "group_id"):
        as_written.pop(name, None)
    written = {"group_id": group_of(edge.scope), SOURCE: ends[0], TARGET: ends[1]}
    if edge.origin is not None and edge.origin.as_written.get("group_id") == ABSENT:
        del written["group_id"]
    return with_identity(reproduce(written, as_written), identity, as_written, "")


def _node_of_record(node: GraphNode) -> Row:
    return {name: getattr(node, name) for name in _NODE_MEANS.values()}


SUBJECT, OBJECT = "subject", "object"
"""The kinds of the links from a fact to its ends."""

_ENDS = ((SOURCE, SUBJECT), (TARGET, OBJECT))
_SHOWN_CHARS = 80


class GraphitiNode(NamedTuple):
    """A node or an episode of the file."""

    placeholder_id: str
    """The placeholder of its ID; empty for an entity with only a name, which facts repeat."""

    name: str
    label: str | None
    is_episode: bool


_pack = msgspec.msgpack.Encoder().encode
_known = msgspec.msgpack.Decoder(resolved(GraphitiNode)).decode


class GraphitiGraph:
    """Collects the nodes, facts and links of one input; a context manager.

    Args:
        reading: Takes bad ones.
        file: The name of the input in errors.
    """

    def __init__(self, reading: ReadContext, file: str) -> None:
        self._counts = Counter[str]()
        self._reading = reading
        self._file = file
        self._names = ScratchMap()
        self._streams = SpoolStreams()
        self._open_ends = 0
        self._waiting = {name: self._streams.new_stream() for name in (FACTS, *LINKS)}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._names.close()
        self._streams.close()

    def rows(self, table: str, where: str, rows: Iterable[Any]) -> Iterator[GraphNode | Episodic]:
        """Add the rows of a table; nodes and episodes are yielded.

        Args:
            table: The table.
            where: Its name in the file.
            rows: Its rows.

        Raises:
            MalformedError: If one is bad, and bad ones are not skipped.
        """
        for row in rows:
            position = f"{where}/{self._counts[where]}"
            self._counts[where] += 1
            with self._refusing(position):
                if type(row) is not dict:
                    raise MalformedError("not an object")
                if table in self._waiting:
                    self._store(table, position, row)
                elif table == EPISODES:
                    episode = episode_of(row)
                    self._note(
                        episode,
                        GraphitiNode(required_placeholder(episode), "", None, is_episode=True),
                    )
                    yield episode
                else:
                    node = node_of(table, row)
                    label = label_of(node.labels)
                    is_generated = row == own_node(str(node.name), label, row.get("group_id"))
                    placeholder_id = "" if is_generated else required_placeholder(node)
                    self._note(
                        node, GraphitiNode(placeholder_id, node.name or "", label, is_episode=False)
                    )
                    if not is_generated:
                        yield node

    def rest(self) -> Iterator[Semantic | Edge]:
        """Yield the facts, then the links of both kinds.

        Raises:
            EmptyInputError: If the input is empty.
        """
        if not self._counts:
            raise EmptyInputError("the graph contains no memories", file=self._file)
        for position, row in self._stored_rows(FACTS):
            with self._refusing(position):
                yield self._fact(row)
        for position, row in self._stored_rows(FACTS):
            with self._refusing(position):
                yield from self._joints(row)
        if self._open_ends:
            reason = "ends of facts are not in the file; their IDs are kept"
            self._reading.report.note(f"{self._open_ends:,} {reason}")
        for table in LINKS:
            for position, row in self._stored_rows(table):
                with self._refusing(position):
                    yield from self._link(table, row)

    # -- rows ------------------------------------------------------------------------------

    def _store(self, table: str, position: str, row: Row) -> None:
        id_in(row)
        if table == FACTS:
            text_in(row, "fact")
        else:
            text_in(row, SOURCE)
            text_in(row, TARGET)
        self._waiting[table].write(msgspec.json.encode([position, row]) + b"\n")

    def _stored_rows(self, table: str) -> Iterator[tuple[str, Row]]:
        for line in self._waiting[table].lines():
            position, row = msgspec.json.decode(line)
            yield position, row

    def _note(self, record: GraphNode | Episodic, known: GraphitiNode) -> None:
        identity = _identity(record)
        if not self._names.add(identity.encode(), _pack(known)):
            self._reading.report.note(
                f"several records have the same ID, such as {identity[:_SHOWN_CHARS]!r}"
            )

    def _node(self, identity: Any) -> GraphitiNode | None:
        packed = self._names.get(identity.encode()) if type(identity) is str else None
        return None if packed is None else _known(packed)

    def _end(self, row: Row, side: str) -> GraphitiEnd | None:
        node = self._node(row.get(side))
        return None if node is None else GraphitiEnd(row[side], node.name, node.label)

    def _fact(self, row: Row) -> Semantic:
        episodes = dict[str, str]()
        for episode in texts(row.get("episodes")):
            known = self._node(episode)
            if known is not None and known.is_episode:
                episodes[episode] = known.placeholder_id
        return fact_of(row, (self._end(row, SOURCE), self._end(row, TARGET)), episodes)

    def _joints(self, row: Row) -> Iterator[Edge]:
        """Yield the links from a fact to its ends, if they are in the file."""
        fact = required_placeholder(self._fact(row))
        for side, kind in _ENDS:
            known = self._node(row.get(side))
            if known is None:
                self._open_ends += 1
            elif known.placeholder_id:
                name = f"{id_in(row)}/{kind}"
                origin = Origin(provider=NAME, id=name, trust=TrustClass.IMPORTED)
                yield Edge(source=fact, target=known.placeholder_id, kind=kind, origin=origin)

    def _link(self, table: str, row: Row) -> Iterator[Edge]:
        start, end = self._node(row[SOURCE]), self._node(row[TARGET])
        if start is None or end is None or not (start.placeholder_id and end.placeholder_id):
            reason = "its ends are not in the file"
            self._reading.report.lost(table, reason, example=id_in(row)[:_SHOWN_CHARS])
        else:
            yield link_of(table, row, (start.placeholder_id, end.placeholder_id))

    @contextmanager
    def _refusing(self, where: str) -> Iterator[None]:
        try:
            yield
        except InputError as error:
            error.located(file=self._file, line=self._reading.line())
            self._reading.refuse(error.within(where))


def _identity(record: GraphNode | Episodic) -> str:
    """Return the ID of a record in the links of the file."""
    origin = record.origin
    assert origin is not None  # noqa: S101 - each record that is read has one
    assert origin.id is not None  # noqa: S101 - so has each origin
    for start in filter(None, THINGS.values()):
        if isinstance(record, GraphNode) and origin.id.startswith(start):
            return origin.id.removeprefix(start)
    return origin.id
