"""Links between drafts: a reader names the other record by its origin, sealing puts the id there.

A draft has no id, so a reader that knows links (``Reading.linked``) writes, where an id belongs, a
*placeholder*: a hash of the other record's type, owner and original id. It yields what is linked to
before what links. When that is sealed, its id takes the placeholder's place.
"""

from typing import cast

import msgspec
from blake3 import blake3

from satchel.disk.databases.keyed import Keyed
from satchel.errors import MalformedError
from satchel.memory.entries import Entry
from satchel.memory.parts import Origin, Scope
from satchel.memory.records import Edge, Model
from satchel.seal.encoding.jcs import encode_sorted

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


class Links:
    """The ids that placeholders stand for, of one input."""

    def __init__(self) -> None:
        self._ids = Keyed()

    def learn(self, draft: Model, identity: str) -> None:
        """Remember the id of a record; of two with one original id, the first is meant."""
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
        return draft

    def close(self) -> None:
        """Give the space back."""
        self._ids.close()

    def _id(self, name: str) -> str | None:
        found = self._ids.get(_raw(name))
        return None if found is None else _PREFIX + found.hex()


def _raw(name: str) -> bytes:
    return bytes.fromhex(name.removeprefix(_PREFIX))
