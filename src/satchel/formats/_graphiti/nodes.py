"""Entities, communities, sagas and links that are no facts: rows as records, and back."""

from typing import Any
from uuid import UUID

import msgspec
from blake3 import blake3

from satchel.formats._as_written import reproduce, settled
from satchel.formats._graphiti.rows import (
    NO_BODY,
    group_of,
    kept_of,
    kept_with,
    named_row,
    object_of,
    scope_of,
)
from satchel.formats._graphiti.shape import (
    LINKS,
    NODES,
    SOURCE,
    TARGET,
    THINGS,
    Row,
    id_in,
    texts,
)
from satchel.formats._members import text_in
from satchel.memory.records import Edge, GraphNode
from satchel.seal.encoding.carry import ABSENT

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
    made = GraphNode(**_node_said(row))
    written = written_node(made, table)
    return kept_with(made, THINGS[table] + identity, row, written, NODES)


def _node_said(row: Row) -> Row:
    summary = row.get("summary")
    return {
        "name": row.get("name"),
        "labels": texts(row.get("labels")),
        "summary": summary if type(summary) is str and summary else None,
        "properties": object_of(row.get("attributes")),
        "scope": scope_of(row),
    }


def written_node(node: GraphNode, table: str) -> Row:
    """Return a node as a row, without an id."""
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
    kept = kept_of(node.origin)
    row = settled(written_node(node, table), kept, _node_said, _node_of_record(node), _NODE_MEANS)
    return named_row(row, identity, kept, NODES)


def own_node(name: str, label: str | None, group: Any) -> Row:
    """Return the entity that is made where a memory only names one: it says nothing more."""
    key = blake3(msgspec.json.encode([group, name, label == NO_BODY])).digest(16)
    node = GraphNode(name=name, labels=(label,) if label else ())
    row = {"uuid": str(UUID(bytes=key, version=5)), **written_node(node, NODES)}
    return {**row, "group_id": group}


def label_of(labels: tuple[str, ...]) -> str | None:
    """Return the type of an entity: its last label that is not one of all entities."""
    own = [one for one in labels if one != "Entity" and not one.startswith("Entity_")]
    return own[-1] if own else None


# -- links ---------------------------------------------------------------------------------


def link_of(table: str, row: Row, ends: tuple[str, str]) -> Edge:
    """Return a link that is no fact.

    Args:
        table: The table that it is in.
        row: The link.
        ends: What stands for the ids at its ends.

    Raises:
        MalformedError: If the row is none, naming the member.
    """
    identity = id_in(row)
    written = {"group_id": group_of(scope_of(row)), SOURCE: row[SOURCE], TARGET: row[TARGET]}
    made = Edge(source=ends[0], target=ends[1], kind=LINKS[table], scope=scope_of(row))
    return kept_with(made, identity, row, written, table)


def row_of_link(edge: Edge, identity: str, ends: tuple[str, str]) -> Row:
    """Return a link as a row of its table."""
    kept = kept_of(edge.origin)
    for name in (SOURCE, TARGET, "group_id"):
        kept.pop(name, None)
    written = {"group_id": group_of(edge.scope), SOURCE: ends[0], TARGET: ends[1]}
    if edge.origin is not None and edge.origin.as_written.get("group_id") == ABSENT:
        del written["group_id"]
    return named_row(reproduce(written, kept), identity, kept, "")


def _node_of_record(node: GraphNode) -> Row:
    return {name: getattr(node, name) for name in _NODE_MEANS.values()}
