"""Links between drafts: a reader names the other record by its origin, sealing puts the id there.

A draft has no id, so a reader that knows links (``Reading.linked``) writes, where an id belongs, a
*placeholder*: a hash of the other record's type, owner and original id. It yields what is linked to
before what links. When that is sealed, its id takes the placeholder's place. What has no id at its
origin is yielded under a placeholder that the reader chooses (``standing``).
"""

from collections.abc import Callable
from copy import copy
from typing import Any, cast

import msgspec
from blake3 import blake3
from msgspec.structs import force_setattr

from satchel.disk.databases.keyed import Keyed
from satchel.errors import MalformedError
from satchel.memory.entries import Entry
from satchel.memory.parts import Origin, Scope, is_id
from satchel.memory.records import Edge, Model, SessionEvent
from satchel.seal.encoding.jcs import encode_sorted

_PREFIX = "blake3:"
_STANDS = "stands:"


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


def standing(draft: Model, name: str) -> Model:
    """Return a draft that a placeholder stands for which is not that of its origin.

    Args:
        draft: A record that others name.
        name: A placeholder; ``placeholder`` of any origin that is its alone.
    """
    made = copy(draft)
    force_setattr(made, "id", _STANDS + name)  # on a copy; it is no id, and nobody takes it for one
    return made


def stands_for(draft: Model) -> str | None:
    """Return the placeholder under which a draft was yielded, if it was; see ``standing``."""
    found = draft.id
    return found[len(_STANDS) :] if found is not None and found.startswith(_STANDS) else None


class Links:
    """The ids that placeholders stand for, of one input."""

    def __init__(self) -> None:
        self._ids = Keyed()

    def learn(self, draft: Model, identity: str, name: str | None = None) -> None:
        """Remember the id of a record; of two with one original id, the first is meant.

        Args:
            draft: The record.
            identity: Its id.
            name: The placeholder under which it was yielded; None for that of its origin.
        """
        if name is not None:
            self._ids.add(_raw(name), _raw(identity))
            return
        origin = getattr(draft, "origin", None)
        if isinstance(draft, Edge) or origin is None or origin.id is None:
            return
        tag, scope = str(draft.__struct_config__.tag), getattr(draft, "scope", None)
        self._ids.add(_raw(placeholder(tag, scope, origin)), _raw(identity))

    def resolved(self, draft: Model) -> Model:
        """Return a draft with ids where placeholders are; a parent that has none is left out.

        Raises:
            MalformedError: If an end of an edge was left out as bad.
        """
        if isinstance(draft, Edge):
            source, target = self._id(draft.source), self._id(draft.target)
            if source is None or target is None:
                side = "source" if source is None else "target"
                raise MalformedError(f"its {side} was left out", field=side)
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
