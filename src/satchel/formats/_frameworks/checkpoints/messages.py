"""Messages in the state of a graph: LangChain's objects, or plain ones with a role."""

from typing import Any, NamedTuple

from satchel.formats._frameworks.checkpoints.packed import Packed, as_data
from satchel.seal.encoding.carry import carry

_USUAL = "messages"
_OF_LANGCHAIN = ".messages."
_ROLES = {"human": "user", "ai": "assistant", "function": "tool"}
_CHUNK = "MessageChunk"
_CALLS = frozenset({"tool_calls", "function_call", "additional_kwargs", "refusal"})
_KNOWN = ("role", "type", "content", "name", "id")


class Said(NamedTuple):
    """A message."""

    role: str
    name: str | None
    content: Any
    """A text, or parts as data."""

    more: dict[str, Any]
    """What belongs to it: calls of tools, what the model said of its answer."""

    kept: dict[str, Any]
    """Its id in the graph, and its class."""


def messages_in(values: dict[str, Any]) -> tuple[str | None, list[Said]]:
    """Return the channel with the conversation, and its messages.

    That is the one that is called ``messages``, or the first with nothing but messages in it.
    """
    for name in sorted(values, key=lambda one: one != _USUAL):
        part = values[name]
        if not name.startswith("__") and type(part) is list and part:
            found = [_said(one) for one in part]
            if None not in found:
                return name, [one for one in found if one is not None]
    return None, []


def _said(value: Any) -> Said | None:
    cls = value.cls if isinstance(value, Packed) else None
    row = value.arguments if isinstance(value, Packed) else value
    if type(row) is not dict or "content" not in row:
        return None
    role, content = row.get("role", row.get("type", _class_of(cls))), row["content"]
    if content is None and not _CALLS.isdisjoint(row):  # a model that only called tools
        content = ""
    is_other = cls is not None and _OF_LANGCHAIN not in cls
    if type(role) is not str or is_other or not isinstance(content, str | list):
        return None
    name = row.get("name")
    more = {key: carry(as_data(part)) for key, part in row.items() if key not in _KNOWN and part}
    kept = {"id": row["id"]} if type(row.get("id")) is str else {}
    return Said(
        role=_role(role),
        name=name if type(name) is str else None,
        content=content if type(content) is str else carry(as_data(content)),
        more=more,
        kept=kept | ({"class": cls} if cls is not None else {}),
    )


def _class_of(cls: str | None) -> str | None:
    """Return the role that a class says, where the object does not: so JavaScript writes them."""
    last = (cls or "").rpartition(".")[2]
    return last.removesuffix("Chunk").removesuffix("Message").lower() or None


def _role(text: str) -> str:
    return _ROLES.get(text.removesuffix(_CHUNK).lower() if text.endswith(_CHUNK) else text, text)
