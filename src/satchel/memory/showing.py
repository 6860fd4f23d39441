"""A memory as text: what a person reads, and what a model is given."""

import json
from collections.abc import Iterator
from typing import Any

from satchel.memory.entries import Entry

_SAID = ("text", "observation", "name", "description", "body", "persona", "communication_style")
_LISTED = ("goals", "subgoals", "pending_actions", "preconditions", "policies")
_MORE = ("scratch", "custom_instructions", "preferences", "data")


def text_of(entry: Entry) -> str:
    """Return a memory in words, whatever its component; parts that are no text as JSON."""
    return "\n".join(_parts(entry))


def _parts(entry: Entry) -> Iterator[str]:
    for name in _SAID:
        if part := getattr(entry, name, None):
            yield part if isinstance(part, str) else _json(part)
    triple = [getattr(entry, name, None) for name in ("subject", "predicate", "object")]
    if any(triple):
        yield " ".join(part for part in triple if part)
    for name in (*_LISTED, *_MORE):
        value = getattr(entry, name, None)
        for one in value if isinstance(value, tuple) else [value]:
            if one:
                yield one if isinstance(one, str) else _json(one)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True)
