"""Recognising what was imported before: an index of fingerprints that never leaves the store.

A fingerprint is a hash of a record without its id and its nonce, so the same memory of the same
provider, owner and original id has the same one whenever it arrives. Each import leaves one value
beside the log, under its place in it: sorted digests of 16 bytes. What is not there, in a bank
that came by a copy of its log, is made again from the log. Source: docs/spec/2-records.md, 2.7.
"""

from bisect import bisect_left
from collections.abc import Iterator
from typing import Any

import msgspec
from blake3 import blake3

from satchel.bank.jobs import side_name
from satchel.crypto.canonical import fingerprint
from satchel.ledger.erasure import FINGERPRINTS
from satchel.ledger.view import View
from satchel.model.values import Component, resolved
from satchel.ports.rows import Row
from satchel.runtime.scratch import PLAN_TIMES, ScratchMap
from satchel.transfer.import_rules import ImportRules

WIDTH = 16
"""Bytes of a fingerprint."""

_SIDE = FINGERPRINTS
_ENTRIES = frozenset(map(str, Component))


_EDGE, _EVENT, _PARENTS = b'"type":"edge"', b'"type":"session_event"', b'"parent_ids":['
_LINKING = frozenset({"edge", "session_event"})
_LINKS = frozenset({"parent_ids"})
_ENDS = frozenset({"source", "target"})
_BEFORE = frozenset({"session", "parent"})
_POINTERS = frozenset({"state", "latest", "source"})
_members = msgspec.json.Decoder(resolved(dict[str, msgspec.Raw])).decode


def key_of(identity: str, body: bytes) -> bytes:
    """Return what a record says, whatever its id and nonce are, in ``WIDTH`` bytes.

    Which ids it names is not part of it where it has an origin: an import gives those.

    Args:
        identity: The record's id.
        body: Its canonical bytes.
    """
    if _PARENTS in body or _EDGE in body or _EVENT in body:
        body = _without_links(body)
    return fingerprint(identity, body)[:WIDTH]


def key_of_row(row: Row) -> bytes:
    """Return ``key_of`` of the record of a row with its links; few rows have to be looked through.

    Args:
        row: From ``unplaced_row``.
    """
    body = row.body or b""
    if row.links or row.type in _LINKING:
        return key_of(row.id, body)
    return fingerprint(row.id, body)[:WIDTH]


def _without_links(body: bytes) -> bytes:
    members = _members(body)
    if "origin" not in members:
        return body
    if bytes(members["type"]) == b'"session_event"':
        return _without_chain(members)
    links = _LINKS | _ENDS if bytes(members["type"]) == b'"edge"' else _LINKS
    return msgspec.json.encode({name: part for name, part in members.items() if name not in links})


def _without_chain(members: dict[str, msgspec.Raw]) -> bytes:
    """Return what an event of a conversation says, without the events that it names."""
    kept: dict[str, Any] = {name: part for name, part in members.items() if name not in _BEFORE}
    if "state" in kept:
        state = msgspec.json.decode(members["state"])
        if isinstance(state, dict):
            kept["state"] = {name: part for name, part in state.items() if name not in _POINTERS}
    return msgspec.json.encode(kept)


def repeated(found: bytes, times: int) -> bytes:
    """Return the key of the same thing said again in one file; 0 times for the first."""
    return found if times == 0 else blake3(found + times.to_bytes(8)).digest(length=WIDTH)


class SortedKeys:
    """Sorted fingerprints, searched where they lie."""

    def __init__(self, packed: bytes) -> None:
        self._packed = packed

    def __len__(self) -> int:
        return len(self._packed) // WIDTH

    def __getitem__(self, index: int) -> bytes:
        return self._packed[index * WIDTH : (index + 1) * WIDTH]

    def __contains__(self, key: object) -> bool:
        if not isinstance(key, bytes):
            return False
        place = bisect_left(self, key)
        return place < len(self) and self[place] == key


class KnownRecords:
    """What a bank was given by imports that hold.

    Args:
        view: Of the bank; None where it is still to be made.
    """

    def __init__(self, view: View | None) -> None:
        self.missing: dict[str, bytes | None] = {}
        """Side values that were made again here, to be kept with the next append."""

        self._all: list[SortedKeys] = []
        if view is None:
            return
        kept = view.side(_SIDE)
        for one in view.imports():
            name = side_name(one.place)
            packed = kept.pop(name, None)
            if not one.complete or one.undone:
                if packed is not None:
                    self.missing[name] = None
                continue
            if packed is None:
                packed = _packed_again(view, one.source)
                self.missing[name] = packed
            self._all.append(SortedKeys(packed))

    @property
    def is_empty(self) -> bool:
        """Whether no import gave it anything that holds."""
        return not any(map(len, self._all))

    def __contains__(self, key: object) -> bool:
        return any(key in keys for keys in self._all)


def pack_keys(keys: ScratchMap) -> bytes:
    """Return fingerprints as they are kept: one after another, the smallest first."""
    found = bytearray()
    for key in keys:
        found += key
    return bytes(found)


class RepeatCounter:
    """How often a file says the same thing; on disk, as it may say very much."""

    def __init__(self) -> None:
        self._held = ScratchMap(times=PLAN_TIMES)

    def before(self, key: bytes) -> int:
        """Return how often the same thing was said before, and count it once more."""
        times = int.from_bytes(self._held.get(key) or b"")
        self._held.put(key, (times + 1).to_bytes(8))
        return times

    def close(self) -> None:
        """Give the space back."""
        self._held.close()


def _packed_again(view: View, source: str) -> bytes:
    times, keys = RepeatCounter(), ScratchMap()
    for logged in view.imported(source):
        if logged.record.type in _ENTRIES or logged.row.slot is not None:
            found = key_of(logged.record.id, logged.record.body)
            keys.add(repeated(found, times.before(found)))
    times.close()
    made = pack_keys(keys)
    keys.close()
    return made


def pending_in(view: View, rules: ImportRules) -> Iterator[str]:
    """Yield the ids that other imports brought and that are not visible yet."""
    for one in view.imports() if rules.keeps_ids else ():
        if not one.complete and not one.undone and one.source != rules.going_on:
            yield from (logged.record.id for logged in view.pending(one.source))
