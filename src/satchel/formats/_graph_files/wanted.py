"""What is wanted of a graph: the tables of one program's memory, and how they are spelled."""

import os
import struct
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from satchel.errors import InputError
from satchel.formats._graph_files.engines import found_in
from satchel.ports.place import Place


class Wanted(NamedTuple):
    """The tables of a program's memory."""

    owner: str
    """Whose they are, as in "not one of amplihack's"."""

    what: str
    """What they are called together."""

    key: str
    """The column that is the key of each table of nodes."""

    tables: Mapping[str, str]
    """The tables in the order in which they are read, with the arrays of the JSON."""

    nodes: tuple[str, ...]
    """Those without which there is no such memory."""

    in_json: Mapping[str, type]
    """Columns with JSON in a text, and what it is of."""


AMPLIHACK = Wanted(
    owner="amplihack's",
    what="hierarchical memory",
    key="memory_id",
    tables={
        "SemanticMemory": "semantic_nodes",
        "EpisodicMemory": "episodic_nodes",
        "SIMILAR_TO": "similar_to_edges",
        "DERIVES_FROM": "derives_from_edges",
        "SUPERSEDES": "supersedes_edges",
        "TRANSITIONED_TO": "transitioned_to_edges",
    },
    nodes=("SemanticMemory", "EpisodicMemory"),
    in_json={"tags": list, "metadata": dict},
)
"""amplihack's hierarchical memory."""

GRAPHITI = Wanted(
    owner="Graphiti's",
    what="memory of Graphiti",
    key="uuid",
    tables={
        "Entity": "nodes",
        "Episodic": "episodes",
        "Community": "communities",
        "Saga": "sagas",
        "RelatesToNode_": "edges",
        "RELATES_TO": "relates_to",
        "MENTIONS": "mentions",
        "HAS_MEMBER": "has_member",
        "HAS_EPISODE": "has_episode",
        "NEXT_EPISODE": "next_episode",
    },
    nodes=("Entity", "Episodic", "RelatesToNode_"),
    in_json={"attributes": dict},
)
"""A graph of Graphiti over Kuzu, where each fact is a node with a link to either side."""

_SIGN = b"RelatesToNode_"
_PAGE, _MOST_PAGES = 4096, 1024
_CATALOG = struct.Struct("<II")
_BEHIND = 12
_LOG_BYTES = 1 << 20


def is_graphiti(place: Place) -> bool:
    """Tell whether a graph's file is one of Graphiti's, by the catalog of its tables."""
    if place.is_folder or found_in(place.head) is None:
        return False
    start, pages = _CATALOG.unpack_from(place.head.ljust(_BEHIND + _CATALOG.size), _BEHIND)
    with suppress(InputError, OSError, OverflowError), place.open() as stream:
        stream.seek(start * _PAGE)
        if _SIGN in stream.read(min(pages, _MOST_PAGES) * _PAGE):
            return True
    return _SIGN in _start_of_log(place.path)


def _start_of_log(path: Path) -> bytes:
    """Return the first bytes of what a program left beside its file; nothing where nothing is."""
    with suppress(OSError, ValueError):
        name = path.with_name(path.name + ".wal")
        number = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(number, "rb") as stream:
            return stream.read(_LOG_BYTES)
    return b""
