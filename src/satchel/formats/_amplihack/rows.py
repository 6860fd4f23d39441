"""A node or an edge of amplihack as a record, and back.

The concept of a fact is its subject, its entity the only entity; the episode it names, and the
label of an episode, are evidence. Members that a record does not reproduce exactly are in
``origin.as_written``.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from msgspec.structs import replace

from satchel.crypto.canonical import ABSENT, encode_sorted
from satchel.errors import MalformedError
from satchel.formats._json import differences, reproduce
from satchel.model.records import Edge, Entry, Episodic, Semantic
from satchel.model.values import (
    Entity,
    Evidence,
    Origin,
    Scope,
    TrustClass,
    exact_time,
    iso_text,
    read_time,
)
from satchel.ports.drafts import placeholder

NAME = "amplihack"
"""The provider in the origin of its records, from any of its files."""

FACTS, EPISODES = "semantic_nodes", "episodic_nodes"
"""The two tables of nodes."""

EPISODE = "episode"
"""The kind of an entry that was an episode, since a fact may have the same ID."""

Row = dict[str, Any]
"""A node or an edge; values that the domain cannot hold are in their reversible form."""


class Member(NamedTuple):
    """A member of a row."""

    fits: Callable[[Any], bool]
    what: str
    """Its type, in words."""

    default: Any
    """Its default value."""


def _is_text(value: Any) -> bool:
    return type(value) is str


def _is_number(value: Any) -> bool:
    if type(value) is dict:
        return len(value) == 1 and next(iter(value)) in ("$int", "$float")
    return type(value) is float or type(value) is int


def _is_whole(value: Any) -> bool:
    return type(value) is int or (type(value) is dict and len(value) == 1 and "$int" in value)


def _is_list(value: Any) -> bool:
    return type(value) is list


def _is_any(value: Any) -> bool:
    del value
    return True


TEXT = Member(_is_text, "text", "")
NUMBER = Member(_is_number, "a number", 1)
WHOLE = Member(_is_whole, "a whole number", 0)
TAGS = Member(_is_list, "a list of texts", [])
JSON = Member(_is_any, "JSON", {})

_CONFIDENCE = NUMBER._replace(default=0.8)
"""The default confidence of a fact in memory-lib."""

NODES: dict[str, dict[str, Member]] = {
    FACTS: {
        "memory_id": TEXT,
        "concept": TEXT,
        "content": TEXT,
        "confidence": _CONFIDENCE,
        "source_id": TEXT,
        "tags": TAGS,
        "metadata": JSON,
        "created_at": TEXT,
        "entity_name": TEXT,
    },
    EPISODES: {
        "memory_id": TEXT,
        "content": TEXT,
        "source_label": TEXT,
        "tags": TAGS,
        "metadata": JSON,
        "created_at": TEXT,
    },
}
"""The members of a node, in the order of writing."""

_ENDS = {"source_id": TEXT, "target_id": TEXT}

EDGES: dict[str, dict[str, Member]] = {
    "similar_to": {**_ENDS, "weight": NUMBER, "metadata": JSON},
    "derives_from": {**_ENDS, "extraction_method": TEXT, "confidence": NUMBER},
    "supersedes": {**_ENDS, "reason": TEXT, "temporal_delta": TEXT},
    "transitioned_to": {
        **_ENDS,
        "from_value": TEXT,
        "to_value": TEXT,
        "turn": WHOLE,
        "transition_type": TEXT,
    },
}
"""The members of an edge, by kind; kinds and members in the order of writing."""


def array_of(kind: str) -> str:
    """Return the name of the array with the edges of a kind."""
    return f"{kind}_edges"


ARRAYS: dict[str, dict[str, Member]] = {
    **NODES,
    **{array_of(kind): members for kind, members in EDGES.items()},
}
"""All arrays of a file, in their order."""


def statistic_of(array: str) -> str:
    """Return the name of an array's count."""
    return f"{array.removesuffix('s')}_count"


def checked(row: Any, members: dict[str, Member]) -> Row:
    """Return a row whose members are valid or absent; null counts as absent.

    Raises:
        MalformedError: If one is not valid, naming it.
    """
    if type(row) is not dict:
        raise MalformedError("not an object")
    for name, member in members.items():
        value = row.get(name)
        if value is None or member.fits is _is_any:
            continue
        if not member.fits(value):
            raise MalformedError(f"`{name}` is not {member.what}", field=name)
        if member is TAGS:
            for index, tag in enumerate(value):
                if type(tag) is not str:
                    raise MalformedError("a tag is not text", field=f"{name}/{index}")
    return row


def require_id(row: Row, name: str) -> str:
    """Return the ID in a row.

    Raises:
        MalformedError: If there is none.
    """
    identity = row.get(name)
    if not identity:
        raise MalformedError(f"`{name}` is {'empty' if identity == '' else 'missing'}", field=name)
    return str(identity)


LABEL = "source_label"
"""The kind of evidence of an episode's label."""

AGENT_CORE = "$agent-core"
"""The member of ``origin.as_written`` for data that only agent-core's files can hold.

No member of a file has this name: ``$`` is escaped.
"""

_ISO_MICROSECONDS = 26


def node_of(table: str, row: Any, scope: Scope | None) -> Semantic | Episodic:
    """Return a node as an entry.

    Args:
        table: ``FACTS`` or ``EPISODES``.
        row: The node.
        scope: Its owner.

    Raises:
        MalformedError: If a member has the wrong type, naming it.
    """
    members = NODES[table]
    row = _typed(checked(row, members), members)
    identity = require_id(row, "memory_id")
    fields = _fields_of_row(row)
    as_written = _members_to_store(row, _row_of_fields(fields, members), members)
    origin = Origin(provider=NAME, id=identity, trust=TrustClass.IMPORTED, as_written=as_written)
    shared: Row = {
        "text": fields["content"],
        "tags": tuple(fields["tags"]),
        "metadata": fields["metadata"],
        "created_at": fields["created_at"],
        "scope": scope,
        "origin": origin,
    }
    if table == EPISODES:
        label = fields[LABEL]
        sources = (Evidence(kind=LABEL, id=label),) if label else ()
        return Episodic(kind=EPISODE, sources=sources, **shared)
    source, name = fields["source_id"], fields["entity_name"]
    return Semantic(
        subject=fields["concept"] or None,
        confidence=fields["confidence"],
        sources=(Evidence(kind=EPISODE, id=source),) if source else (),
        entities=(Entity(name=name),) if name else (),
        **shared,
    )


def row_of(entry: Entry, identity: str, source: str) -> Row:
    """Return an entry as a node, as in its source if that was amplihack.

    Numbers are in the form of the value domain, and unknown members come last.

    Args:
        entry: The entry, semantic or episodic, with a text.
        identity: Its ID at amplihack.
        source: The default source episode of a fact.
    """
    table = EPISODES if isinstance(entry, Episodic) else FACTS
    members = NODES[table]
    fields = _fields_of_entry(entry, identity, source)
    written = _row_of_fields(fields, members)
    as_written = as_written_of(entry.origin)
    if not as_written:
        return written
    as_written.pop("memory_id", None)
    restored = _restored_fields(written, as_written, members)
    stale = {name for name, part in fields.items() if name in restored and part != restored[name]}
    return reproduce(written, {k: v for k, v in as_written.items() if k not in stale})


def as_written_of(origin: Origin | None) -> Row:
    """Return a copy of the members that a record of amplihack does not reproduce."""
    if origin is None or origin.provider != NAME:
        return {}
    return {name: part for name, part in origin.as_written.items() if name != AGENT_CORE}


def only_in_agent_core(origin: Origin | None) -> list[str]:
    """Return the names of members that only agent-core's files can hold."""
    if origin is None or origin.provider != NAME:
        return []
    members = origin.as_written.get(AGENT_CORE)
    return sorted(members) if isinstance(members, dict) else []


def edge_of(kind: str, row: Row, scope: Scope | None, ends: tuple[str, str]) -> Edge:
    """Return an edge as a record.

    Args:
        kind: Its kind, one of the four or agent-core's.
        row: The edge, as ``checked_edge`` returned it.
        scope: Its owner.
        ends: The placeholders of the IDs at its ends.
    """
    members = EDGES.get(kind, EDGES["similar_to"])
    row = _typed(row, members)
    metadata = row.get("metadata")
    properties = {
        name: row[name]
        for name in members
        if name not in ("source_id", "target_id", "weight", "metadata")
        and row.get(name) is not None
    }
    weight = row.get("weight")
    edge = Edge(
        source=ends[0],
        target=ends[1],
        kind=kind,
        weight=weight if type(weight) in (int, float) else None,
        metadata=metadata if type(metadata) is dict else {},
        properties=properties,
        scope=scope,
    )
    names = (row["source_id"], row["target_id"])
    as_written = _members_to_store(row, edge_row_of(edge, *names), members)
    origin = Origin(
        provider=NAME,
        id=encode_sorted(list(names)).decode(),
        trust=TrustClass.IMPORTED,
        as_written=as_written,
    )
    return replace(edge, origin=origin)


def checked_edge(kind: str, row: Any) -> Row:
    """Return an edge with valid members.

    Raises:
        MalformedError: If one is not valid, naming it, or an end is missing.
    """
    members = EDGES.get(kind, EDGES["similar_to"])
    edge = checked(row, members)
    for end in ("source_id", "target_id"):
        require_id(edge, end)
    return edge


def edge_row_of(edge: Edge, source: str, target: str) -> Row:
    """Return an edge for writing, with numbers in the form of the value domain.

    Args:
        edge: The edge.
        source: The ID of its source at amplihack.
        target: The ID of its target at amplihack.
    """
    members = EDGES.get(edge.kind, EDGES["similar_to"])
    row: Row = {"source_id": source, "target_id": target}
    for name, member in members.items():
        if name in row:
            continue
        value: Any = edge.properties.get(name)
        if name == "weight":
            value = edge.weight
        elif name == "metadata":
            value = edge.metadata
        fits = value is not None and member.fits(value)
        row[name] = lean_number(value) if fits else member.default
    as_written = as_written_of(edge.origin)
    as_written.pop("source_id", None)
    as_written.pop("target_id", None)
    return reproduce(row, as_written) if as_written else row


def identity_at(entry: Entry, record_id: str) -> str:
    """Return the ID of an entry at amplihack: the one it came with, or ours."""
    origin = entry.origin
    if origin is not None and origin.provider == NAME and origin.id is not None:
        return origin.id
    return record_id


def node_placeholder(table: str, identity: str, scope: Scope | None) -> str:
    """Return the placeholder of a node's ID."""
    record_type = "semantic" if table == FACTS else "episodic"
    return placeholder(record_type, scope, Origin(provider=NAME, id=identity))


# -- agent-core ----------------------------------------------------------------------------


def from_agent_core(table: str, row: Any) -> Row:
    """Convert a node of agent-core's files to version 1.1.

    Its category goes into the metadata, as in version 1.1.

    Raises:
        MalformedError: If it is not an object.
    """
    if type(row) is not dict:
        raise MalformedError("not an object")
    members, left = NODES[table], dict(row)
    node: Row = {"memory_id": left.pop("node_id", None)}
    if table == EPISODES:
        node[LABEL] = left.pop("concept", None)
    node |= {name: left.pop(name) for name in members if name in left and name not in node}
    category, metadata = left.get("category"), node.get("metadata")
    metadata = {} if metadata is None else metadata
    if type(metadata) is dict and metadata.get("category", category) == category:
        left.pop("category", None)
        if category is not None and not (table == EPISODES and category == "episodic"):
            metadata = {**metadata, "category": category}
    node["metadata"] = metadata
    if table == EPISODES and left.get("source_id") == "":
        del left["source_id"]
    return {**node, AGENT_CORE: left} if left else node


def edge_from_agent_core(row: Any) -> tuple[str, Row]:
    """Return the kind of an edge of agent-core's files, and the edge in version 1.1.

    Raises:
        MalformedError: If it is not an object, or has no kind.
    """
    kind = row.get("relationship") if type(row) is dict else None
    if type(kind) is not str or not kind:
        raise MalformedError("`relationship` is not a valid name", field="relationship")
    kind = kind.lower() if kind.lower() in EDGES else kind
    members = EDGES.get(kind, EDGES["similar_to"])
    edge = {name: part for name, part in row.items() if name in members}
    left = {name: part for name, part in row.items() if name not in (*members, "relationship")}
    return kind, {**edge, AGENT_CORE: left} if left else edge


# -- mapping -------------------------------------------------------------------------------


def _fields_of_row(row: Row) -> Row:
    """Return the values of a node in the form of an entry, by the node's names."""
    metadata, confidence = row.get("metadata"), row.get("confidence")
    unit = isinstance(confidence, int | float) and 0 <= confidence <= 1
    return {
        "memory_id": row.get("memory_id"),
        "concept": row.get("concept") or "",
        "content": row.get("content") or "",
        "confidence": confidence if unit else None,
        "source_id": row.get("source_id") or "",
        LABEL: row.get(LABEL) or "",
        "tags": list(row.get("tags") or ()),
        "metadata": metadata if type(metadata) is dict else {},
        "created_at": time_of(row.get("created_at")),
        "entity_name": row.get("entity_name") or "",
    }


def _fields_of_entry(entry: Entry, identity: str, source: str) -> Row:
    fields: Row = {
        "memory_id": identity,
        "content": entry.text or "",
        "tags": list(entry.tags),
        "metadata": entry.metadata,
        "created_at": entry.created_at,
    }
    if isinstance(entry, Semantic):
        fields["concept"] = entry.subject or ""
        fields["confidence"] = None if entry.confidence is None else lean_number(entry.confidence)
        fields["source_id"] = _evidence(entry, EPISODE) or source
        fields["entity_name"] = entry.entities[0].name if entry.entities else ""
    else:
        fields[LABEL] = _evidence(entry, LABEL)
    return fields


def _evidence(entry: Entry, kind: str) -> str:
    return next((one.id for one in entry.sources if one.kind == kind), "")


def _row_of_fields(fields: Row, members: dict[str, Member]) -> Row:
    """Return a node as written for an entry of other origin."""
    row = {name: fields[name] for name in members if name in fields}
    if "confidence" in row and row["confidence"] is None:
        row["confidence"] = members["confidence"].default
    row["created_at"] = "" if fields["created_at"] is None else iso_text(fields["created_at"])
    return row


def _members_to_store(row: Row, written: Row, members: dict[str, Member]) -> Row:
    """Return the members of a row to store, without absent and null ones."""
    return {
        name: part
        for name, part in differences(row, written).items()
        if part != ABSENT and not (part is None and members.get(name, JSON) is not JSON)
    }


def _typed(row: Row, members: dict[str, Member]) -> Row:
    """Return a row whose float members are in the form of the value domain.

    amplihack always writes them as floats, so ``1`` and ``1.0`` are equal.
    """
    return {
        name: lean_number(part) if members.get(name, JSON).fits is NUMBER.fits else part
        for name, part in row.items()
    }


def _restored_fields(written: Row, as_written: Row, members: dict[str, Member]) -> Row:
    """Return the members of a node with the stored ones; those of the wrong type are removed."""
    while True:
        row = reproduce(written, as_written)
        try:
            return _fields_of_row(checked(row, members))
        except MalformedError as error:
            del as_written[str(error.field).partition("/")[0]]


def time_of(text: Any) -> str | None:
    """Return a time in the form of records, truncated to microseconds."""
    if type(text) is not str or not text:
        return None
    time = exact_time(text) or read_time(text)
    if time is not None or len(text) <= _ISO_MICROSECONDS or text[19] != ".":
        return time
    digits = len(text[20:]) - len(text[20:].lstrip("0123456789"))
    return read_time(text[:_ISO_MICROSECONDS] + text[20 + digits :])


def lean_number(value: Any) -> Any:
    """Return a number in the form of the value domain: a whole one is an integer."""
    return int(value) if type(value) is float and value.is_integer() else value
