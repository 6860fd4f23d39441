"""What arrives and speaks of other records: parents and the ends of edges.

They are named by the ids that the others arrive with. Where the bank has one of them already, under
another id, the link goes there; so importing the same thing again finds the same links.
"""

from collections.abc import Callable
from typing import Any, cast

import msgspec

from satchel.disk.databases.keyed import Keyed
from satchel.memory.records import SessionEvent
from satchel.ports.linking.placeholders import event_with
from satchel.ports.rows import Row, unplaced_row
from satchel.seal.records import Sealed, as_model
from satchel.seal.sealing import Nonces, seal
from satchel.type_info import resolved

_PREFIX, _ID_BYTES = "blake3:", 32
_MOST_STEPS = 64
_ENDS = ("source", "target")
_PARENTS = b'"parent_ids":['

Current = Callable[[bytes | None], Sealed | None]
"""Gives the record of the bank that a slot has now."""


class _Ends(msgspec.Struct, gc=False):
    source: str = ""
    target: str = ""


_ends = msgspec.json.Decoder(resolved(_Ends)).decode


class Finals:
    """Where records of an import are found that are not in the bank under the ids they came with.

    Args:
        current: Of the bank.
        nonces: For records that are sealed anew, since they name others.
    """

    def __init__(self, current: Current, nonces: Nonces) -> None:
        self._current = current
        self._nonces = nonces
        self._found = Keyed()

    def is_at(self, arriving: str, there: str) -> None:
        """Remember that another record stands for one that arrived."""
        if arriving != there and there:
            self._found.put(_raw(arriving), _raw(there))

    def is_in(self, arriving: str, slot: bytes) -> None:
        """Remember that whatever the bank has of a thing stands for one that arrived."""
        self._found.put(_raw(arriving), slot)

    def joined(self, row: Row) -> Row | None:
        """Return a record with the ids that what it speaks of has in the bank.

        A parent that is not there is left out; an edge that leads to what is not there is None.
        """
        body = row.body or b""
        if row.type == "edge":
            said = _ends(body)
            ends = {"source": self._of(said.source), "target": self._of(said.target)}
            if None in ends.values():
                return None
            same = ends == {"source": said.source, "target": said.target}
            return row if same else self._again(row, ends)
        if row.type == "session_event":
            return self._event(row)
        if _PARENTS not in body:
            return row
        before = msgspec.json.decode(body).get("parent_ids", [])
        found = [there for there in map(self._of, before) if there is not None]
        parents = list(dict.fromkeys(found))
        return row if parents == before else self._again(row, {"parent_ids": parents})

    def _event(self, row: Row) -> Row:
        record = Sealed(row.id, row.type, row.body or b"")
        before = cast("SessionEvent", record.model)
        after = event_with(before, self._named)
        if after == before:
            return row
        unnamed = msgspec.structs.replace(after, id=None, nonce=None)
        made = seal(unnamed, nonces=self._nonces, unknown=record.unknown)
        return unplaced_row(made.model, made.id, made.body)

    def _named(self, identity: str) -> str:
        return self._of(identity) or identity

    def close(self) -> None:
        """Give the space back."""
        self._found.close()

    def _of(self, identity: str) -> str | None:
        for _ in range(_MOST_STEPS):
            found = self._found.get(_raw(identity))
            if found is None:
                return identity
            if len(found) != _ID_BYTES:
                there = self._current(found)
                return None if there is None else there.id
            identity = _PREFIX + found.hex()
        return None

    def _again(self, row: Row, members: dict[str, Any]) -> Row:
        record = Sealed(row.id, row.type, row.body or b"")
        value = msgspec.to_builtins(record.model) | members
        del value["id"], value["nonce"]
        made = seal(as_model(value), nonces=self._nonces, unknown=record.unknown)
        return unplaced_row(made.model, made.id, made.body)


def joins_alike(record: Sealed, row: Row) -> bool:
    """Tell whether two edges have the same ends; what is no edge is not asked."""
    return row.type != "edge" or _ends(record.body) == _ends(row.body or b"")


def _raw(identity: str) -> bytes:
    try:
        return bytes.fromhex(identity.removeprefix(_PREFIX))
    except ValueError:  # an end of an edge may be any text
        return b"name:" + identity.encode("utf-8", "surrogatepass")
