"""What a memory says: whether there is anything in it, and which member of a row is its text.

Vector databases and key-value stores keep rows that any program fills. Where no reader knows which
member is the text, a row must not become an empty memory: it is refused, and the error names the
members that could be meant.
"""

from typing import Any

import msgspec

from satchel.errors import MalformedError
from satchel.model.entries import Entry
from satchel.model.records import Model
from satchel.model.values import Origin
from satchel.ports.vectors import text_mark

TEXT_MEMBER = "text member"
"""The member of ``origin.as_written`` that names the member of the row which the text was in."""

OF_ROWS = frozenset({"chroma", "qdrant", "langgraph"})
"""Providers whose rows any program fills, so that their text is looked for."""

_USUAL = {"qdrant": "text"}
"""The member which the text was in where none is named, by provider."""

_CONTENTS = (
    *("text", "data", "observation", "context", "subject", "predicate", "object"),
    *("name", "description", "parameters", "body", "preconditions"),
    *("goals", "subgoals", "scratch", "pending_actions"),
    *("persona", "preferences", "communication_style", "policies", "custom_instructions"),
)
_MOST_NAMED = 5


def is_empty(draft: Model) -> bool:
    """Tell whether a memory says nothing: no text, and no other content of its type."""
    if not isinstance(draft, Entry) or _says_something(draft.text):
        return False
    return not any(map(_says_something, (getattr(draft, name, None) for name in _CONTENTS)))


def is_unsaid(draft: Model) -> bool:
    """Tell whether a memory has no content at all, not even an empty text."""
    return (
        isinstance(draft, Entry) and draft.text is None and draft.data is None and is_empty(draft)
    )


def _says_something(part: Any) -> bool:
    if isinstance(part, str):
        return not part.isspace() and part != ""
    return part is not None and part not in ((), {}, [])


def require_content(draft: Model) -> None:
    """Refuse a memory that says nothing.

    Raises:
        MalformedError: If it does, naming the members that could be its text.
    """
    if not isinstance(draft, Entry) or not is_unsaid(draft):
        return
    found = [
        name for name, part in draft.metadata.items() if type(part) is str and part.strip() != ""
    ]
    found.sort(key=lambda name: -len(draft.metadata[name]))
    named = ", ".join(f"`{name}`" for name in found[:_MOST_NAMED])
    skip = "--skip-bad skips and counts such records."
    hint = f"If one of {named} is the text: --text-member {found[0]}. " if found else ""
    raise MalformedError("it contains no text", hint=hint + skip)


def with_text_of(draft: Model, name: str) -> Model:
    """Return a memory with the text that a member of its row has.

    What was taken for its text is a member of the metadata again, where it was one of the row.

    Args:
        draft: The memory.
        name: The member; a memory without it is returned as it is.
    """
    if not isinstance(draft, Entry) or draft.origin is None:
        return draft
    from_data = draft.text is None and isinstance(draft.data, dict)
    rest = dict(draft.data if from_data and isinstance(draft.data, dict) else draft.metadata)
    text = rest.get(name)
    if type(text) is not str:
        return draft
    kept = dict(draft.origin.as_written)
    before = kept.get(TEXT_MEMBER, _USUAL.get(draft.origin.provider or ""))
    if draft.text is not None:
        if type(before) is not str or before in rest:
            return draft  # its text was no member of a row
        rest[before] = draft.text
    del rest[name]
    kept[TEXT_MEMBER] = name
    old = text_mark(draft.text or "")
    for member, part in kept.items():
        if isinstance(part, dict) and part.get("of") == old:
            kept[member] = {**part, "of": text_mark(text)}
    values = {one: getattr(draft, one) for one in draft.__struct_fields__}
    values |= {"text": text, "metadata": rest, "origin": _with(draft.origin, kept)}
    values |= {"data": None} if from_data else {}
    return type(draft)(**values)


def _with(origin: Origin, kept: dict[str, Any]) -> Origin:
    return msgspec.structs.replace(origin, as_written=kept)
