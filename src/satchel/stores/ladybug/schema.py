"""The tables of the graph.

``place = number of the bank << 40 | place in the log`` is a record's key, as in SQLite's tables.
A ``Thing`` is whatever a link can end at, by its name in its bank: a record (then it has the
record's place, and serves as the index of ids) or something that is not here, a placeholder. The
four core types of links have tables of their own, every other type is a row of ``EDGE``.

``words`` are the terms of a record and of the turn before it, with a space around each: any term,
phrase or start of a term is a part of that text.
"""

from collections.abc import Mapping
from typing import Any, Literal

VERSION = 1
"""Of the tables; a newer store is refused."""

SEQ_BITS = 40
"""Bits of ``place`` that hold the place in the log."""

SEQ_MASK = (1 << SEQ_BITS) - 1

NODE_BITS = SEQ_BITS + 1  # a tree has fewer than two nodes for each leaf

PIECE_BITS = 24
"""Bits of a piece's place that hold its index."""

EDGE = "EDGE"
"""The table of every type of link that has none of its own."""

LINKS = {
    "derives_from": "DERIVES_FROM",
    "similar_to": "SIMILAR_TO",
    "supersedes": "SUPERSEDES",
    "transitioned_to": "TRANSITIONED_TO",
}
"""The core types of links, and their tables."""

LINK_TABLES = (*LINKS.values(), EDGE)

Column = Literal["STRING", "INT64", "BLOB", "BOOL"]
"""What a column holds."""

Columns = Mapping[str, Column]
"""What several columns hold, by name."""

NODES: dict[str, Columns] = {
    "Meta": {"name": "STRING", "value": "INT64"},
    "Bank": {"id": "STRING", "number": "INT64", "head": "BLOB", "peaks": "BLOB"},
    "Record": {
        "place": "INT64",
        "bank": "INT64",
        "id": "STRING",
        "type": "STRING",
        "at": "STRING",
        "body": "BLOB",
        "batch": "INT64",
        "retired": "INT64",
        "hold": "BOOL",
        "slot": "STRING",
        "kind": "STRING",
        "user": "STRING",
        "agent": "STRING",
        "run": "STRING",
        "app": "STRING",
        "session": "STRING",
        "moment": "STRING",
        "expires_at": "STRING",
        "size": "INT64",
        "words": "STRING",
        "terms": "INT64",
    },
    "Thing": {"key": "STRING", "bank": "INT64", "name": "STRING", "place": "INT64"},
    "Slot": {"key": "STRING", "bank": "INT64", "place": "INT64"},
    "TreeNode": {"place": "INT64", "hash": "BLOB"},
    "Side": {"key": "STRING", "bank": "STRING", "name": "STRING", "value": "BLOB"},
    "Generation": {
        "number": "INT64",
        "bank": "INT64",
        "model": "STRING",
        "dimensions": "INT64",
        "generation": "INT64",
    },
    "Vector": {"place": "INT64", "width": "INT64", "numbers": "BLOB"},
    "Blob": {"number": "INT64", "bank": "INT64", "digest": "STRING", "size": "INT64"},
    "Piece": {"place": "INT64", "data": "BLOB"},
}
"""The tables of nodes, with their columns; the first is the key."""

ENDS: Columns = {"source": "STRING", "target": "STRING", "place": "INT64", "kind": "STRING"}
"""What a link is made from: the keys of its ends, and what its table may hold."""


def key_of(table: str) -> str:
    """Return the name of a table's key."""
    return next(iter(NODES[table]))


def statements() -> list[str]:
    """Return what makes the tables."""
    made = [
        f"CREATE NODE TABLE {table} ("
        + ", ".join(f"`{name}` {kind}" for name, kind in columns.items())
        + f", PRIMARY KEY (`{key_of(table)}`))"
        for table, columns in NODES.items()
    ]
    for table in LINK_TABLES:
        kind = "kind STRING, " if table == EDGE else ""
        made.append(f"CREATE REL TABLE {table} (FROM Thing TO Thing, {kind}place INT64)")
    made.append(f"CREATE (:Meta {{name: 'version', value: {VERSION}}})")
    return made


def thing_key(number: int, name: str) -> str:
    """Return the key of what a link ends at."""
    return f"{number}:{name}"


def side_key(bank: str, name: str) -> str:
    """Return the key of an unlogged value; no two have the same."""
    return f"{len(bank)}:{bank}{name}"


def made_of(table: str, source: str = "x") -> str:
    """Return the pattern that makes a node of a table from the members of a value."""
    columns = ", ".join(f"`{name}`: {source}.`{name}`" for name in NODES[table])
    return f"CREATE (:{table} {{{columns}}})"


Values = dict[str, Any]
"""The columns of a row."""
