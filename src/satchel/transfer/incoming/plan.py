"""Deciding what becomes of each record that arrives, against what the bank has."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

import msgspec

from satchel.disk.spool import Strands
from satchel.errors import ConflictError
from satchel.ledger.logged import Logged
from satchel.ledger.view import View
from satchel.memory.parts import Component, Origin, Scope
from satchel.memory.records import State
from satchel.ports.rows import Filter, Row, origin_slot
from satchel.seal.records import Sealed, as_model
from satchel.seal.sealing import Nonces, seal
from satchel.transfer.incoming.known import Known, key_of, packed, repeated
from satchel.transfer.incoming.stage import Stage

_ENTRIES = frozenset(map(str, Component))
_CARRIED = frozenset({"edge", "graph_node", "session_event", "file_version", "source"})


class OnConflict(StrEnum):
    """What to do with a record when the bank has another version of the same thing."""

    SKIP = "skip"
    OVERWRITE = "overwrite"
    RENAME = "rename"
    ERROR = "error"


class Planned(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What an import does to one bank, counted."""

    read: int = 0
    """Records that arrived for the bank."""

    added: int = 0
    """Memories that are new to it, with those that replace others."""

    known: int = 0
    """Imported before, or here already: left as they are."""

    twice: int = 0
    """In the file more than once; one of them counts."""

    skipped: int = 0
    """Other versions of what the bank has, left out."""

    overwritten: int = 0
    """Memories of the bank that are superseded."""

    renamed: int = 0
    """Other versions that are kept beside those of the bank, under an id of their own."""

    restored: int = 0
    """Memories that had been retired here and are current again."""

    near: int = 0
    """Memories that say what another one says, left out."""

    merged: int = 0
    """Memories that took the place of one that says the same."""

    vanished: int = 0
    """Memories that the source has no longer, deleted here too."""

    others: int = 0
    """Edges, nodes, sessions and the like."""

    left: dict[str, int] = {}
    """Records of kinds that stay with the log they come from, by kind."""


class _Spoken(msgspec.Struct, gc=False):
    """What a record says of what it is a version of."""

    type: str = ""
    kind: str | None = None
    scope: Scope | None = None
    origin: Origin | None = None


_decode = msgspec.json.Decoder(_Spoken).decode


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """How an import decides."""

    on_conflict: OnConflict = OnConflict.SKIP
    mirror: bool = False
    """Whether the bank is to lose what the source has lost; other versions overwrite then."""

    sealed: bool = False
    """Whether the records come with their ids, so that they may be here already."""

    twins: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Ids of what arrives and says the same as something else, with the ids of that."""

    merge: bool = False
    """Whether it takes the place of that; otherwise it is left out."""

    going_on: str = ""
    """Id of the source record of the import that is gone on with."""

    @property
    def mode(self) -> OnConflict:
        """What to do with other versions."""
        return OnConflict.OVERWRITE if self.mirror else self.on_conflict


class Plan:
    """Takes the records of an import some at a time, in their order.

    Args:
        view: Of the bank as it is; None where it is still to be made.
        rules: How to decide.
        strands: Where what is planned is held.
        nonces: For the records that the plan itself makes.
        at: The present moment.
    """

    def __init__(
        self, view: View | None, rules: Rules, strands: Strands, *, nonces: Nonces, at: str
    ) -> None:
        self.stage = Stage(strands)
        self.done = Planned()
        self.known = Known(view)
        self._view = view
        self._rules = rules
        self._gone = set[str]()
        """What is not there, for all that something arrives that is like it."""
        self._sealed = rules.sealed
        self._mode = rules.mode
        self._mirror = rules.mirror
        self._nonces = nonces
        self._at = at
        self._keys = set[bytes]()
        self._times = dict[bytes, int]()
        self._slots = dict[bytes, str | None]()
        """What the file spoke of, and where it may be replaced, the last record of it."""
        self._owners = set[Owner]()
        self._accounts = set[tuple[str | None, str | None]]()
        imports = view.imports() if view is not None else []
        self._undone = {one.place for one in imports if one.undone}
        self._pending = frozenset(_pending(view, rules)) if view is not None else frozenset[str]()
        counts = view.head.counts if view is not None else {}
        self._empty = not any(counts.get(name) for name in _ENTRIES)

    def take(self, records: Sequence[Sealed]) -> None:
        """Decide what becomes of some records.

        Raises:
            ConflictError: If the bank has another version of one, and that was not to be.
        """
        here = self._here([record.id for record in records])
        for record in records:
            self.done.read += 1
            if record.id in here:
                self._know(record, here[record.id])
            elif record.id in self._pending:
                raise ConflictError(
                    f"{record.id} came with an import that is not complete",
                    hint="Go on with that one (import its file again), or: satchel undo",
                )
            elif record.type in _ENTRIES:
                self._take_entry(record)
            elif record.type in _CARRIED:
                self.done.others += 1
                self.stage.add(record)
            else:
                self.done.left[record.type] = self.done.left.get(record.type, 0) + 1

    def finish(self) -> None:
        """Decide what becomes of the memories that did not arrive."""
        if self._mirror:
            for logged in self._vanished():
                self._say(logged.record.id, "deleted", None)
                self.done.vanished += 1

    @property
    def keys(self) -> bytes:
        """The fingerprints of what arrived, as they are kept."""
        return packed(self._keys)

    @property
    def is_empty(self) -> bool:
        """Whether nothing is going to change."""
        return self.stage.records + self.stage.statuses == 0

    def _know(self, record: Sealed, there: Row) -> None:
        """Leave a record that is here, or let it be current again."""
        said = _decode(record.body)
        slot = _slot(said) if record.type in _ENTRIES else None
        self._remember_owner(said)
        if slot is not None:
            self._slots.setdefault(slot, self._last(record))
        gone = there.retired is not None and (
            self._mode is OnConflict.OVERWRITE or there.batch in self._undone
        )
        if not gone:
            self.done.known += 1
            return
        current = self._current(slot)
        if current is not None and self._mode is not OnConflict.OVERWRITE:
            self.done.skipped += 1
            return
        if current is not None:
            self.done.overwritten += 1
            self._say(current.id, "superseded", record.id)
        self.done.restored += 1
        self._say(record.id, "restored", None)

    def _say(self, target: str, state: State, by: str | None) -> None:
        self.stage.say(target, state, by=by, at=self._at, nonces=self._nonces)

    def _take_entry(self, record: Sealed) -> None:
        said = _decode(record.body)
        key, slot = key_of(record.id, record.body), _slot(said)
        self._remember_owner(said)
        if slot is None:
            times = self._times[key] = self._times.get(key, -1) + 1
            key = repeated(key, times)
        elif slot in self._slots:
            self._take_again(record, said, slot, key)
            return
        else:
            self._slots[slot] = self._last(record)
        self._keys.add(key)
        if key in self.known and (slot is None or self._mode is not OnConflict.OVERWRITE):
            self.done.known += 1
            return
        current = self._current(slot)
        if current is None:
            self._add_unlike(record, key)
        elif key_of(current.id, current.body) == key:
            self.done.known += 1
        else:
            self._settle(record, said, slot, current.id)

    def _take_again(self, record: Sealed, said: _Spoken, slot: bytes, key: bytes) -> None:
        """Take a record of something that the file spoke of before."""
        if key in self._keys:
            self.done.twice += 1
            return
        self._keys.add(key)
        self._settle(record, said, slot, self._slots[slot] or "")

    def _settle(self, record: Sealed, said: _Spoken, slot: bytes | None, there: str) -> None:
        """Decide between a record and another version of it."""
        match self._mode:
            case OnConflict.ERROR:
                raise ConflictError(
                    f"there is another version of {_named(said)}",
                    hint="Say what to do: --on-conflict skip, overwrite or rename.",
                )
            case OnConflict.SKIP:
                self.done.skipped += 1
            case OnConflict.RENAME:
                self.done.renamed += 1
                self._add(self._renamed(record, said))
            case OnConflict.OVERWRITE:
                self.done.overwritten += 1
                self._say(there, "superseded", record.id)
                self._add(record)
                if slot is not None:
                    self._slots[slot] = record.id

    def _last(self, record: Sealed) -> str | None:
        return record.id if self._mode is OnConflict.OVERWRITE else None

    def _add(self, record: Sealed) -> None:
        self.done.added += 1
        self.stage.add(record)

    def _add_unlike(self, record: Sealed, key: bytes) -> None:
        """Add a record, unless it says the same as one that stays; it can come another time."""
        twins = [name for name in self._rules.twins.get(record.id, ()) if name not in self._gone]
        if twins and not self._rules.merge:
            self.done.near += 1
            self._keys.discard(key)
            self._gone.add(record.id)
            return
        if twins:
            self.done.merged += 1
            self._gone.add(twins[0])
            self._say(twins[0], "superseded", record.id)
        self._add(record)

    def _current(self, slot: bytes | None) -> Sealed | None:
        """Return the record of the bank that a slot has now."""
        if slot is None or self._empty or self._view is None:
            return None
        found = self._view.current(slot.hex())
        return None if found is None else found.record

    def _renamed(self, record: Sealed, said: _Spoken) -> Sealed:
        """Return a record under the first id of its kind that nobody has."""
        name, slot = self._free_name(said)
        value = msgspec.to_builtins(record.model)
        value["origin"]["id"] = name
        del value["id"], value["nonce"]
        again = seal(as_model(value), nonces=self._nonces, unknown=record.unknown)
        self._slots[slot] = None
        return again

    def _free_name(self, said: _Spoken) -> tuple[str, bytes]:
        origin, number = said.origin or Origin(), 1
        while True:
            number += 1
            name = f"{origin.id}~{number}"
            renamed = msgspec.structs.replace(origin, id=name)
            slot = _slot(_Spoken(kind=said.kind, scope=said.scope, origin=renamed))
            if slot is not None and slot not in self._slots and self._current(slot) is None:
                return name, slot

    def _here(self, ids: list[str]) -> dict[str, Row]:
        """Return the rows that the bank has of some ids."""
        if not self._sealed or self._view is None:
            return {}
        return {name: logged.row for name, logged in self._view.get(ids).items()}

    def _remember_owner(self, said: _Spoken) -> None:
        if self._mirror:
            self._owners.add(owner_of(said.scope))
            self._accounts.add(_account(said.origin))

    def _vanished(self) -> Iterator[Logged]:
        """Yield what the bank has of the same owners and accounts, and the file has not."""
        if self._view is None:
            return
        for logged in self._view.scan(Filter(types=_ENTRIES)):
            origin = getattr(logged.model, "origin", None)
            slot = logged.row.slot
            if (
                slot is not None
                and bytes.fromhex(slot) not in self._slots
                and _account(origin) in self._accounts
                and owner_of(getattr(logged.model, "scope", None)) in self._owners
            ):
                yield logged


Owner = tuple[Literal["user", "agent", "run", ""], str]
"""Whose memory something is: the most lasting id in its scope, and which sort it is."""


def owner_of(scope: Scope | None) -> Owner:
    """Return whose memory something is."""
    if scope is not None and scope.user is not None:
        return "user", scope.user
    if scope is not None and scope.agent is not None:
        return "agent", scope.agent
    if scope is not None and scope.run is not None:
        return "run", scope.run
    return "", ""


def _pending(view: View, rules: Rules) -> Iterator[str]:
    """Yield the ids that other imports brought and that are not visible yet."""
    for one in view.imports() if rules.sealed else ():
        if not one.complete and not one.undone and one.source != rules.going_on:
            yield from (logged.record.id for logged in view.pending(one.source))


def _slot(said: _Spoken) -> bytes | None:
    if said.origin is None or said.origin.id is None:
        return None
    return bytes.fromhex(origin_slot(said.kind, said.scope, said.origin))


def _named(said: _Spoken) -> str:
    origin = said.origin or Origin()
    return f"{origin.id!r} of {origin.provider or 'nobody'}"


def _account(origin: Origin | None) -> tuple[str | None, str | None]:
    return (None, None) if origin is None else (origin.provider, origin.source)
