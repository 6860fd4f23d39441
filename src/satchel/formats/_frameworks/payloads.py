"""Members that vector databases keep beside a text: whose it is and its tags, by usual names.

Mem0, LangChain and LlamaIndex all put ``user_id`` and the like among the members that are searched
by, so that is where an owner is found, and where one is written.
"""

from typing import Any

from satchel.memory.entries import Entry
from satchel.memory.parts import Scope

OWNERS = {"user_id": "user", "agent_id": "agent", "run_id": "run", "app_id": "app"}
"""The member with each part of a scope."""

TAGS = "tags"

TEXTS = (
    *("text", "document", "page_content", "content", "data", "memory", "chunk"),
    *("body", "chunk_text", "passage", "message", "fact", "note"),
)
"""Members that programs keep the text of a row under, the likeliest first."""

Row = dict[str, Any]


def text_in(payload: Row) -> str | None:
    """Return the name of the member that is the text of a row; None where there is none.

    One that says something counts before an empty one.
    """
    found = [name for name in TEXTS if type(payload.get(name)) is str]
    return next((name for name in found if payload[name].strip()), found[0] if found else None)


def said_in(payload: Row) -> Row:
    """Return the members of an entry that a payload says: scope, tags, and the rest as metadata."""
    rest = dict(payload)
    owners = {part: rest.pop(name) for name, part in OWNERS.items() if _is_name(rest.get(name))}
    said: Row = {"scope": Scope(**owners)} if owners else {}
    if _are_tags(rest.get(TAGS)):
        said["tags"] = tuple(rest.pop(TAGS))
    return {**said, "metadata": rest}


def _is_name(value: Any) -> bool:
    return type(value) is str


def _are_tags(value: Any) -> bool:
    return type(value) is list and bool(value) and all(type(one) is str for one in value)


def payload_of(entry: Entry) -> Row:
    """Return what an entry says beside its text, as a payload has it."""
    payload = dict(entry.metadata)
    if entry.tags:
        payload[TAGS] = list(entry.tags)
    for name, part in OWNERS.items():
        found = getattr(entry.scope, part) if entry.scope is not None else None
        if found is not None:
            payload[name] = found
    return payload


def covered_by(entry: Entry) -> list[str]:
    """Return the members of the metadata that something else in the payload has the name of."""
    own = payload_of(entry)
    return sorted(name for name, part in entry.metadata.items() if own[name] is not part)


def losses_of(value: Row, held: frozenset[str]) -> dict[str, str]:
    """Return what of a record a payload has no place for, each with the reason.

    Args:
        value: The record.
        held: The members that have one.
    """
    lost = dict.fromkeys(sorted(value.keys() - held), "it has no such field")
    if value["type"] != "semantic":
        lost["type"] = "it cannot store the memory type"
    if value.get("text") is not None and value.get("data") is not None:
        lost["data"] = "it stores the text"
    if value.get("scope", {}).get("namespace"):
        lost["scope/namespace"] = "it has no namespaces"
    return lost
