"""Deciding what becomes of each record that arrives, against what the bank has."""

from collections.abc import Iterator, Sequence

import msgspec

from satchel.disk.databases.keyed import PLAN_TIMES, Keyed
from satchel.disk.spool import Strands
from satchel.errors import ConflictError, RedactionRefusedError
from satchel.ledger.logged import Logged
from satchel.ledger.view import View
from satchel.memory.parts import Component, Origin, Scope
from satchel.memory.records import Source, State
from satchel.ports.rows import Filter, Row, origin_slot, unplaced_row
from satchel.seal.records import Sealed, as_model
from satchel.seal.redacted_forms import is_form
from satchel.seal.sealing import Nonces, seal
from satchel.transfer.incoming.forms import Forms
from satchel.transfer.incoming.joining import Finals, joins_alike
from satchel.transfer.incoming.known import (
    Known,
    Times,
    key_of,
    key_of_row,
    packed,
    pending_in,
    repeated,
)
from satchel.transfer.incoming.older import NONE, Ended, Endings, Older, Version
from satchel.transfer.incoming.owners import Owner, account_of, owner_of
from satchel.transfer.incoming.planned import OnConflict, Planned, Rules
from satchel.transfer.incoming.slots import Slots
from satchel.transfer.incoming.stage import Stage
from satchel.type_info import resolved

_ENTRIES = frozenset(map(str, Component))
_EXAMPLES = 5
_CARRIED = frozenset({"edge", "graph_node", "session_event", "file_version", "source"})
BANK = "bank"
"""The member of a source record's container that says which bank a verified file was of."""

_BESIDE = {"added": "others"}
_OF_SESSIONS = {"session": "conversations", "fork": "conversations", "message": "messages"}


class _Spoken(msgspec.Struct, gc=False):
    """What a record says of what it is a version of."""

    type: str = ""
    kind: str | None = None
    scope: Scope | None = None
    origin: Origin | None = None
    event: str | None = None


_decode = msgspec.json.Decoder(resolved(_Spoken)).decode


def is_vacant(view: View) -> bool:
    """Tell whether a bank never had anything that an import could meet."""
    return not any(view.head.counts.get(name) for name in (*_ENTRIES, *_CARRIED))


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
        self.conflicts = list[str]()
        """The first things of which the bank has another version."""

        self._view = view
        self._keeps_ids = rules.keeps_ids
        self._rules = rules
        self._gone = set[str]()
        """What is not there, for all that something arrives that is like it."""
        self._mode = rules.mode
        self._mirror = rules.mirror
        self._nonces = nonces
        self._at = at
        self.keys = b""
        """The fingerprints of what arrived, as they are kept; once all of it did."""

        self.seen = Keyed(times=PLAN_TIMES)
        """Fingerprints of what arrived; on disk, as everything that grows with the file."""

        self.returned = Keyed()
        """Whole memories, by id, that take the place of forms which an import brought."""

        self._forgotten: Keyed | None = None
        """Slots of what is retired here; looked up when it is first needed."""

        self._forms = Forms(self.done)
        self._finals = Finals(self.current, nonces) if rules.linked else None
        self._times = Times()
        self._slots = Slots()
        self._older = Older(self)
        self._owners = set[Owner]()
        self._accounts = set[tuple[str | None, str | None]]()
        imports = view.imports() if view is not None else []
        self._undone = {one.place for one in imports if one.undone}
        self._pending = frozenset(pending_in(view, rules)) if view is not None else frozenset[str]()
        self._empty = view is None or is_vacant(view)
        self._is_plain = (
            self._empty
            and self.known.is_empty
            and not (rules.keeps_ids or rules.linked or rules.replaces or rules.twins)
            and self._mode is not OnConflict.OVERWRITE
        )

    def take(self, rows: Sequence[Row], endings: Endings = NONE) -> None:
        """Decide what becomes of some records.

        Args:
            rows: From ``unplaced_row``.
            endings: Which of them are not current at the source. Older versions of a memory are
                followed by the next one, or end with one that was deleted.

        Raises:
            ConflictError: If the bank has another version of one, and that was not to be.
        """
        if not endings and self._is_plain and self._take_new(rows):
            return
        here = self._here([row.id for row in rows])
        for row in rows:
            self.done.read += 1
            before = self._rules.replaces.get(row.id)
            if before is not None:
                self._stands(before, row.id)
            if row.id in here:
                self._know(row, here[row.id])
            elif row.id in self._pending:
                raise ConflictError(
                    f"{row.id} belongs to an incomplete import",
                    hint="Resume that one (import its file again), or run: satchel undo",
                )
            elif row.id in endings:
                self._take_past(row, endings[row.id])
            elif before is not None and self._is_current(before):
                self._take_changed(row, before)
            elif row.type in _ENTRIES:
                self._take_entry(row)
            elif row.type in _CARRIED:
                self._take_beside(row)
            else:
                self._forms.leave(row)

    def _take_new(self, rows: Sequence[Row]) -> bool:
        """Add memories all at once, where none is like anything before; tell whether it did.

        Nothing else can become of them in a bank that has nothing. The rest is decided one by one.
        """
        slots = [row.slot for row in rows if row.slot is not None and row.type in _ENTRIES]
        if len(slots) < len(rows) or self._older.waits:
            return False
        if not self._slots.add_new([*map(bytes.fromhex, slots)]):
            return False
        self.seen.update([*map(key_of_row, rows)])
        self.done.read += len(rows)
        self.done.added += len(rows)
        self.stage.add_many(rows)
        return True

    def finish(self) -> None:
        """Decide what becomes of the memories that did not arrive."""
        if self._mirror:
            for logged in self._vanished():
                self.say(logged.record.id, "deleted", None)
                self._count(logged.row, "vanished")
        if self._finals is not None:
            self._finals.close()
        self.keys = packed(self.seen)
        if self._forgotten is not None:
            self._forgotten.close()
        for done_with in (self.seen, self._slots, self._times):
            done_with.close()

    @property
    def is_empty(self) -> bool:
        """Whether nothing is going to change."""
        return self.stage.records + self.stage.statuses + self.done.returned == 0

    def _know(self, row: Row, there: Row) -> None:
        """Leave a record that is here, or let it be current again."""
        slot = _raw(row.slot) if row.type in _ENTRIES else None
        self._remember_owner(row)
        if slot is not None:
            self._slots.add(slot, self._last(row))
        gone = there.retired is not None and (
            self._mode is OnConflict.OVERWRITE or there.batch in self._undone
        )
        if not gone:
            self.done.known += 1
            # An id is the hash of the bytes, so there is no other way for these to differ.
            if there.body is not None and there.body != row.body and not is_form(row.body or b""):
                self._bring_back(row, there)
            return
        current = self.current(slot)
        if current is not None and self._mode is not OnConflict.OVERWRITE:
            self.done.skipped += 1
            return
        if there.body is not None and there.body != row.body and not is_form(row.body or b""):
            self._bring_back(row, there)
        if current is not None:
            self.done.overwritten += 1
            self.say(current.id, "superseded", row.id)
        self.done.restored += 1
        self.say(row.id, "restored", None)

    def _bring_back(self, row: Row, there: Row) -> None:
        """Let a whole memory take the place of its form, where that is not against its bank.

        The id says that it is what was redacted. What this bank redacted itself stays so, and what
        the bank redacted that the file is of; a redaction that others brought keeps out nothing.

        Raises:
            RedactionRefusedError: If the form was logged as another type, which the id rules out.
        """
        assert self._view is not None  # noqa: S101 - it is there
        if there.type != row.type:
            raise RedactionRefusedError(
                f"this {row.type} memory is in the bank already, redacted, as one of type"
                f" {there.type}: that redaction was forged, and the log cannot be changed",
                field=row.id,
                hint=(
                    "Import the file into a bank of its own: --bank NAME. To see the existing "
                    "memory: satchel show {row.id[7:19]}."
                ),
            )
        redaction = self._view.redaction(row.id)
        brought = redaction.row.batch if redaction is not None else 0
        if not brought or not self._rules.bank or self._bank_behind(brought) == self._rules.bank:
            self.done.redacted += 1
            return
        self.returned.put(row.id.encode(), row.body or b"")
        self.done.returned += 1

    def _bank_behind(self, place: int) -> str | None:
        """Return the bank whose word an import brought; None where it is not noted, or undone."""
        assert self._view is not None  # noqa: S101 - it is there
        if place in self._undone:
            return None
        model = self._view.told_at([place])[place].model
        found = model.container.get(BANK) if isinstance(model, Source) else None
        return found if isinstance(found, str) else None

    def say(self, target: str, state: State, by: str | None, at: str | None = None) -> None:
        """Plan a status of a record, of now when no moment is given."""
        self.stage.say(target, state, by=by, at=at or self._at, nonces=self._nonces)

    def _take_past(self, row: Row, ended: Ended) -> None:
        """Let an older version wait for the current one, or bring what was deleted."""
        key, slot = key_of_row(row), _raw(row.slot)
        self._remember_owner(row)
        if slot is None:
            self.done.left[row.type] = self.done.left.get(row.type, 0) + 1
            return
        self._older.wait(slot, Version(row, key, ended))
        if ended.state == "deleted":
            self._slots.put(slot, None)
            self._older.end(slot, self.current(slot), overwrite=self._mode is OnConflict.OVERWRITE)

    def _is_current(self, identity: str) -> bool:
        there = self._here([identity]).get(identity)
        return there is not None and there.retired is None

    def _take_changed(self, row: Row, before: str) -> None:
        """Take what somebody made of the very record that the bank has: no conflict."""
        joined = self._finals.joined(row) if self._finals is not None else row
        if joined is None:
            self.done.unjoined += 1
            return
        self._stands(row.id, joined.id)
        slot = _raw(joined.slot)
        if slot is not None:
            self._slots.put(slot, joined.id)
        self._count(joined, "overwritten")
        self.say(before, "superseded", joined.id)
        self._add(joined)

    def _take_beside(self, row: Row) -> None:
        """Take what is no memory: as one, where it has an id at its origin."""
        if row.slot is not None:
            self._take_entry(row)
            return
        joined = row if self._finals is None else self._finals.joined(row)
        if joined is None:
            self.done.unjoined += 1
        else:
            self._add(joined)

    def _take_entry(self, row: Row) -> None:
        key, slot = key_of_row(row), _raw(row.slot)
        self._remember_owner(row)
        if slot is None:
            key = repeated(key, self._times.before(key))
        elif not self._slots.add(slot, self._last(row)):
            self._take_again(row, slot, key)
            return
        self.seen.add(key)
        if key in self.known and (slot is None or self._mode is not OnConflict.OVERWRITE):
            self._leave_known(row, slot, None)
            return
        joined = row if self._finals is None else self._finals.joined(row)
        if joined is None:
            self.done.unjoined += 1
            self.seen.discard(key)
            return
        if joined is not row:
            self._stands(row.id, joined.id)
            if slot is not None:
                self._slots.put(slot, self._last(joined))
        current = self.current(slot)
        if current is None:
            self._add_unlike(joined, slot, key)
        elif key_of(current.id, current.body) == key and joins_alike(current, joined):
            self._leave_known(joined, slot, current.id)
        else:
            self._settle(joined, slot, current.id)

    def _leave_known(self, row: Row, slot: bytes | None, there: str | None) -> None:
        """Leave what the bank has already, or had."""
        is_gone = there is None and row.type in _ENTRIES and self._was_forgotten(slot)
        self._count(row, "forgotten" if is_gone else "known")
        self._older.leave(slot, known=True)
        if there is not None:
            self._stands(row.id, there)
        elif self._finals is not None and slot is not None:
            self._finals.is_in(row.id, slot)

    def _was_forgotten(self, slot: bytes | None) -> bool:
        """Tell whether something was forgotten here, and is not there in another version."""
        if slot is None or self._view is None:
            return False
        if self._forgotten is None:
            self._forgotten = Keyed()
            for logged in self._view.scan(Filter(types=_ENTRIES, retired=True)):
                if logged.row.slot is not None:
                    self._forgotten.add(bytes.fromhex(logged.row.slot))
        return slot in self._forgotten and self.current(slot) is None

    def _stands(self, arriving: str, there: str) -> None:
        if self._finals is not None:
            self._finals.is_at(arriving, there)

    def _count(self, row: Row, what: str) -> None:
        if row.type not in _ENTRIES:
            if what == "added" and row.type == "session_event":
                self._count_session(row)
            what = _BESIDE.get(what) or f"others_{what}"
        setattr(self.done, what, getattr(self.done, what) + 1)

    def _count_session(self, row: Row) -> None:
        name = _OF_SESSIONS.get(_decode(row.body or b"").event or "")
        if name is not None:
            setattr(self.done, name, getattr(self.done, name) + 1)

    def _take_again(self, row: Row, slot: bytes, key: bytes) -> None:
        """Take a record of something that the file spoke of before."""
        if not self.seen.add(key):
            self._count(row, "twice")
            return
        joined = row if self._finals is None else self._finals.joined(row)
        if joined is None:
            self.done.unjoined += 1
            return
        self._settle(joined, slot, self._slots.last(slot) or "")

    def _settle(self, row: Row, slot: bytes | None, there: str) -> None:
        """Decide between a record and another version of it."""
        if len(self.conflicts) < _EXAMPLES:
            self.conflicts.append(_named(_decode(row.body or b"")))
        mode = self._mode
        if mode is OnConflict.RENAME and is_form(row.body or b""):  # it has the id that it has
            mode = OnConflict.SKIP
        match mode:
            case OnConflict.ERROR:
                raise ConflictError(
                    f"another version exists: {_named(_decode(row.body or b''))}",
                    hint="Choose: --on-conflict skip, overwrite or rename.",
                )
            case OnConflict.SKIP:
                self._count(row, "skipped")
                self._older.leave(slot)
                self._stands(row.id, there)
            case OnConflict.RENAME:
                self._count(row, "renamed")
                self._older.leave(slot)
                renamed = self._renamed(row)
                self._stands(row.id, renamed.id)
                self._add(renamed)
            case OnConflict.OVERWRITE:
                self._count(row, "overwritten")
                self._older.bring(slot, there, then=row.id)
                self._stands(there, row.id)
                self._add(row)
                if slot is not None:
                    self._slots.put(slot, row.id)

    def _last(self, row: Row) -> str | None:
        return row.id if self._mode is OnConflict.OVERWRITE else None

    def _add(self, row: Row) -> None:
        self._count(row, "added")
        for one in self._forms.with_its_own(row):
            self.stage.add(one)

    def _add_unlike(self, row: Row, slot: bytes | None, key: bytes) -> None:
        """Add a record, unless it says the same as one that stays; it can come another time."""
        twins = [name for name in self._rules.twins.get(row.id, ()) if name not in self._gone]
        if twins and not self._rules.merge:
            self.done.near += 1
            self.seen.discard(key)
            self._gone.add(row.id)
            self._older.leave(slot)
            self._stands(row.id, twins[0])
            return
        self._older.bring(slot, None, then=row.id)
        if twins:
            self.done.merged += 1
            self._gone.add(twins[0])
            self.say(twins[0], "superseded", row.id)
        self._add(row)

    def current(self, slot: bytes | None) -> Sealed | None:
        """Return the record of the bank that a slot has now."""
        if slot is None or self._empty or self._view is None:
            return None
        found = self._view.current(slot.hex())
        return None if found is None else found.record

    def _renamed(self, row: Row) -> Row:
        """Return a record under the first id of its kind that nobody has."""
        record = Sealed(row.id, row.type, row.body or b"")
        name, slot = self._free_name(_decode(record.body))
        value = msgspec.to_builtins(record.model)
        value["origin"]["id"] = name
        del value["id"], value["nonce"]
        again = seal(as_model(value), nonces=self._nonces, unknown=record.unknown)
        self._slots.put(slot, None)
        return unplaced_row(again.model, again.id, again.body)

    def _free_name(self, said: _Spoken) -> tuple[str, bytes]:
        origin, number = said.origin or Origin(), 1
        while True:
            number += 1
            name = f"{origin.id}~{number}"
            renamed = msgspec.structs.replace(origin, id=name)
            slot = _slot(_Spoken(kind=said.kind, scope=said.scope, origin=renamed))
            if slot is not None and slot not in self._slots and self.current(slot) is None:
                return name, slot

    def _here(self, ids: list[str]) -> dict[str, Row]:
        """Return the rows that the bank has of some ids."""
        if not self._keeps_ids or self._view is None:
            return {}
        return {name: logged.row for name, logged in self._view.get(ids).items()}

    def _remember_owner(self, row: Row) -> None:
        if self._mirror:
            self._owners.add(owner_of(row))
            self._accounts.add(account_of(_decode(row.body or b"").origin))

    def _vanished(self) -> Iterator[Logged]:
        """Yield what the bank has of the same owners and accounts, and the file has not."""
        if self._view is None:
            return
        for logged in self._view.scan(Filter(types=_ENTRIES | _CARRIED)):
            origin = getattr(logged.model, "origin", None)
            slot = logged.row.slot
            if (
                slot is not None
                and bytes.fromhex(slot) not in self._slots
                and account_of(origin) in self._accounts
                and owner_of(logged.row) in self._owners
            ):
                yield logged


def _slot(said: _Spoken) -> bytes | None:
    if said.origin is None or said.origin.id is None:
        return None
    return bytes.fromhex(origin_slot(said.kind, said.scope, said.origin))


def _raw(slot: str | None) -> bytes | None:
    return None if slot is None else bytes.fromhex(slot)


def _named(said: _Spoken) -> str:
    origin = said.origin or Origin()
    return f"{origin.id!r} of {origin.provider or 'nobody'}"
