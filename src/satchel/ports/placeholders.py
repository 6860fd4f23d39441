"""Links between drafts: a reader names the other record by its origin, sealing puts the id there.

A draft has no id, so a reader that knows links (``Reading.linked``) writes, where an id belongs, a
*placeholder*: a hash of the other record's type, owner and original id. It yields what is linked to
before what links. When that is sealed, its id takes the placeholder's place.
"""

from collections.abc import Callable
from typing import Any, cast

import msgspec
from blake3 import blake3

from satchel.crypto.canonical import encode_sorted
from satchel.errors import MalformedError
from satchel.model.entries import Entry
from satchel.model.records import Edge, Model, SessionEvent
from satchel.model.values import Origin, Scope, is_id
from satchel.runtime.scratch import ScratchMap

_PREFIX = "blake3:"


def placeholder(record_type: str, scope: Scope | None, origin: Origin) -> str:
    """Return what stands for the id of a record until it has one.

    Args:
        record_type: Its type.
        scope: Whose it is.
        origin: Where it was, with its id there.
    """
    owner = None if scope is None else [scope.user, scope.agent, scope.run, scope.app]
    parts = ["placeholder", record_type, origin.provider, origin.source, owner, origin.id]
    return _PREFIX + blake3(encode_sorted(parts)).hexdigest()


def placeholder_of(item: Any) -> str | None:
    """Return what stands for the id of a draft; None for what nothing names."""
    origin = getattr(item, "origin", None)
    if isinstance(item, Edge) or origin is None or origin.id is None:
        return None
    tag, scope = str(item.__struct_config__.tag), getattr(item, "scope", None)
    return placeholder(tag, scope, origin)


class PlaceholderIds:
    """The ids that placeholders stand for, of one input."""

    def __init__(self) -> None:
        self._ids = ScratchMap()

    def learn(self, draft: Model, identity: str) -> None:
        """Remember the id of a record; of two with one original id, the first is meant."""
        name = placeholder_of(draft)
        if name is not None:
            self._ids.add(_raw(name), _raw(identity))

    def resolved(self, draft: Model) -> Model:
        """Return a draft with ids where placeholders are; a parent that has none is left out.

        Raises:
            MalformedError: If an end of an edge was left out as bad.
        """
        if isinstance(draft, Edge):
            source, target = self._id(draft.source), self._id(draft.target)
            if source is None or target is None:
                side = "source" if source is None else "target"
                raise MalformedError(f"its {side} was skipped", field=side)
            return msgspec.structs.replace(draft, source=source, target=target)
        if isinstance(draft, Entry) and draft.parent_ids:
            found = filter(None, map(self._id, draft.parent_ids))
            parents = tuple(dict.fromkeys(found))
            return cast("Model", msgspec.structs.replace(draft, parent_ids=parents))
        if isinstance(draft, SessionEvent):
            return event_with(draft, self._known)
        return draft

    def close(self) -> None:
        """Give the space back."""
        self._ids.close()

    def _known(self, name: str) -> str:
        return self._id(name) or name

    def _id(self, name: str) -> str | None:
        found = self._ids.get(_raw(name))
        return None if found is None else _PREFIX + found.hex()


def names_others(item: Any) -> bool:
    """Tell whether a draft may name records of its own type."""
    if isinstance(item, SessionEvent):
        return item.parent is not None or item.session is not None
    return isinstance(item, Entry) and bool(item.parent_ids)


def event_with(event: SessionEvent, there: Callable[[str], str]) -> SessionEvent:
    """Return an event of a conversation with other ids where it names other events.

    Args:
        event: The event.
        there: Gives the id to put in the place of one; the same for what is not known.
    """
    changed: dict[str, Any] = {
        name: there(found)
        for name in ("session", "parent")
        if (found := getattr(event, name)) is not None and is_id(found)
    }
    if isinstance(event.state, dict):
        changed["state"] = _pointers_with(event.state, there)
    return msgspec.structs.replace(event, **changed)


def _pointers_with(state: dict[str, Any], there: Callable[[str], str]) -> dict[str, Any]:
    """Return where an event stands, with other ids of what it names."""
    for name in ("state", "source", "checkpoint"):
        found = state.get(name)
        if isinstance(found, str) and is_id(found):
            state = {**state, name: there(found)}
    latest = state.get("latest")
    if isinstance(latest, dict):
        ids = {
            kind: there(one) if isinstance(one, str) and is_id(one) else one
            for kind, one in latest.items()
        }
        state = {**state, "latest": ids}
    return state


def _raw(name: str) -> bytes:
    return bytes.fromhex(name.removeprefix(_PREFIX))
