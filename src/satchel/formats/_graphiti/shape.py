"""The tables of a graph of Graphiti, what files call them, and how their rows are told apart."""

import re
from collections.abc import Iterable
from typing import Any

from satchel.formats._members import text_in

NAME = "graphiti"
"""The format, and the provider that records from it name."""

NODES, EPISODES, FACTS, MENTIONS = "nodes", "episodes", "edges", "mentions"
COMMUNITIES, SAGAS = "communities", "sagas"

THINGS = {NODES: "", COMMUNITIES: "community:", SAGAS: "saga:"}
"""Tables of nodes that are no episodes, each with what stands before the id of one."""

LINKS = {
    MENTIONS: "MENTIONS",
    "has_member": "HAS_MEMBER",
    "has_episode": "HAS_EPISODE",
    "next_episode": "NEXT_EPISODE",
}
"""Tables of links that are no facts, each with the type of its links."""

TABLES = (NODES, EPISODES, COMMUNITIES, SAGAS, FACTS, *LINKS)
"""All of them, in the order in which they are written."""

ALWAYS = (NODES, EPISODES, FACTS, MENTIONS)
"""Those that a file always has."""

_OTHERS = {
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

CALLED = {name: table for table in TABLES for name in (table, *_OTHERS[table])}
"""The table that a member of a file is."""

SOURCE, TARGET = "source_node_uuid", "target_node_uuid"

Row = dict[str, Any]

_NODE_SIGNS = frozenset({b"group_id", b"labels", b"summary"})
_EPISODE_SIGNS = frozenset({b"group_id", b"source_description", b"content"})
_IDS = frozenset({b"uuid", b"uuid_"})
_SAFE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_GROUP = re.compile(r"[A-Za-z0-9_-]*", re.ASCII)


def is_graph(found: Iterable[tuple[tuple[bytes | int, ...], bytes]]) -> bool:
    """Tell whether the first members of a document are those of a graph."""
    rows = dict[str, set[bytes]]()
    for path, _ in found:
        if len(path) == 3 and path[1] == 0 and isinstance(path[0], bytes):  # noqa: PLR2004 - a member of a row
            table = CALLED.get(path[0].decode("latin-1"))
            if table is not None and isinstance(path[2], bytes):
                rows.setdefault(table, set()).add(path[2])
    return any(_is_row(table, names) for table, names in rows.items())


def _is_row(table: str, names: set[bytes]) -> bool:
    if table == FACTS or table in LINKS:
        return SOURCE.encode() in names
    signs = _EPISODE_SIGNS if table == EPISODES else _NODE_SIGNS
    return not names.isdisjoint(_IDS) and not names.isdisjoint(signs)


def is_safe_label(label: str) -> bool:
    """Tell whether Graphiti takes a label."""
    return _SAFE.fullmatch(label) is not None


def is_safe_group(group: str) -> bool:
    """Tell whether Graphiti takes the name of a group."""
    return _GROUP.fullmatch(group) is not None


def id_in(row: Row) -> str:
    """Return what a row is called; the SDK of Zep spells the member another way.

    Raises:
        MalformedError: If there is none.
    """
    return text_in(row, "uuid_" if "uuid_" in row and "uuid" not in row else "uuid")


def texts(value: Any) -> tuple[str, ...]:
    """Return a list of texts; nothing where a value is none."""
    if isinstance(value, list) and all(type(one) is str for one in value):
        return tuple(value)
    return ()
