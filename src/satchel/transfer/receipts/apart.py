"""What a product keeps beside a memory, and is no part of what the memory says."""

from typing import Any

import msgspec

from satchel.seal.encoding.jcs import canonical_checked


class Apart:
    """Leaves out of records what a product keeps beside them.

    Args:
        names: Members of ``origin.as_written``, as ``Info.beside`` has them.
    """

    def __init__(self, names: frozenset[str]) -> None:
        self._names = names
        self._quoted = [b'"%b":' % name.encode() for name in names]

    def line(self, line: bytes) -> bytes:
        """Return the canonical bytes of a record without it."""
        if not any(name in line for name in self._quoted):
            return line
        value = msgspec.json.decode(line)
        origin = value.get("origin")
        kept = origin.get("as_written") if isinstance(origin, dict) else None
        if not isinstance(kept, dict) or self._names.isdisjoint(kept):
            return line
        del origin["as_written"]
        rest = {name: part for name, part in kept.items() if name not in self._names}
        value["origin"] = origin | ({"as_written": rest} if rest else {})
        return canonical_checked(value)

    def draft(self, draft: Any) -> Any:
        """Return a draft without it."""
        origin = getattr(draft, "origin", None)
        if origin is None or self._names.isdisjoint(origin.as_written):
            return draft
        kept = {name: part for name, part in origin.as_written.items() if name not in self._names}
        return msgspec.structs.replace(
            draft, origin=msgspec.structs.replace(origin, as_written=kept)
        )
