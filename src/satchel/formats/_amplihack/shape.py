"""The shape of amplihack's hierarchical memory, the same in its JSON and in its databases."""

from collections.abc import Callable
from typing import Any, NamedTuple

from satchel.errors import MalformedError

NAME = "amplihack"
"""The provider that records from it name, whichever of its files they were in."""

FACTS, EPISODES = "semantic_nodes", "episodic_nodes"
"""The two tables of nodes."""

EPISODE = "episode"
"""The kind of an entry that was an episode: a fact may have the same id."""

Row = dict[str, Any]
"""A node or an edge; what the value domain cannot hold is in its reversible form."""


class Member(NamedTuple):
    """A member of a row."""

    fits: Callable[[Any], bool]
    what: str
    """What it has to be, in words."""

    default: Any
    """What stands there when nothing is known."""


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

_BELIEF = NUMBER._replace(default=0.8)
"""What memory-lib takes for the confidence of a fact that states none."""

NODES: dict[str, dict[str, Member]] = {
    FACTS: {
        "memory_id": TEXT,
        "concept": TEXT,
        "content": TEXT,
        "confidence": _BELIEF,
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
"""The members of a node, in the order in which they are written."""

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
"""The members of an edge of each kind, in the order in which the kinds and they are written."""


def array_of(kind: str) -> str:
    """Return the name of the array that edges of a kind are in."""
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
    """Return a row whose members are what they have to be, or absent; null counts as absent.

    Raises:
        MalformedError: If one is something else, naming it.
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
            for place, tag in enumerate(value):
                if type(tag) is not str:
                    raise MalformedError("a tag is not text", field=f"{name}/{place}")
    return row


def named(row: Row, name: str) -> str:
    """Return the id in a row.

    Raises:
        MalformedError: If there is none.
    """
    found = row.get(name)
    if not found:
        raise MalformedError(f"`{name}` is {'empty' if found == '' else 'missing'}", field=name)
    return str(found)
