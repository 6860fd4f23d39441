"""Deciding what becomes of each record that arrives, against what the bank has."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, cast

import msgspec

from satchel.crypto.redaction import is_redacted_form
from satchel.crypto.sealed_records import Nonces, Sealed, as_model, seal
from satchel.errors import ConflictError, RedactionRefusedError
from satchel.ledger.projection import VerifiedRecord
from satchel.ledger.view import View
from satchel.model.records import SessionEvent, Source, State
from satchel.model.values import Component, Origin, Scope, resolved
from satchel.ports.drafts import event_with
from satchel.ports.rows import Filter, Row, origin_slot, unplaced_row
from satchel.runtime.scratch import PLAN_TIMES, ScratchMap, SpoolStreams
from satchel.transfer.import_rules import ConflictPolicy, ImportCounts, ImportRules
from satchel.transfer.import_stage import ImportStage
from satchel.transfer.known_records import (
    KnownRecords,
    RepeatCounter,
    key_of,
    key_of_row,
    pack_keys,
    pending_in,
    repeated,
)
from satchel.transfer.source_history import NONE, Endings, OlderVersion, OlderVersions, SourceEnd

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


class FinalIds:
    """Where records of an import are found that are not in the bank under the ids they came with.

    Args:
        current: Of the bank.
        nonces: For records that are sealed anew, since they name others.
    """

    def __init__(self, current: Current, nonces: Nonces) -> None:
        self._current = current
        self._nonces = nonces
        self._found = ScratchMap()

    def is_at(self, arriving: str, there: str) -> None:
        """Remember that another record stands for one that arrived."""
        if arriving != there and there:
            self._found.put(_raw_parent(arriving), _raw_parent(there))

    def is_in(self, arriving: str, slot: bytes) -> None:
        """Remember that whatever the bank has of a thing stands for one that arrived."""
        self._found.put(_raw_parent(arriving), slot)

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
            found = self._found.get(_raw_parent(identity))
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


def _raw_parent(identity: str) -> bytes:
    try:
        return bytes.fromhex(identity.removeprefix(_PREFIX))
    except ValueError:  # an end of an edge may be any text
        return b"name:" + identity.encode("utf-8", "surrogatepass")


_KIND = "redaction"


class _PlannedForm(msgspec.Struct, gc=False):
    entry: str


_decode_form = msgspec.json.Decoder(resolved(_PlannedForm)).decode


class PendingForms:
    """What was said last of a form that is to follow.

    Args:
        done: Where redactions are counted: as left behind, until their form is taken.
    """

    def __init__(self, done: ImportCounts) -> None:
        self._done = done
        self._last: Row | None = None

    def leave(self, row: Row) -> None:
        """Count a record of a kind that stays where it is, and keep in mind one of ours."""
        left = self._done.left
        left[row.type] = left.get(row.type, 0) + 1
        self._last = row if row.type == _KIND else None

    def with_its_own(self, row: Row) -> Sequence[Row]:
        """Return a record that is taken; a form with the redaction that was waiting for it."""
        last, self._last = self._last, None
        if last is None or _decode_form(last.body or b"").entry != row.id:
            return [row]
        left = self._done.left
        left[_KIND] -= 1
        if not left[_KIND]:
            del left[_KIND]
        self._done.others += 1
        return [last, row]


_NOTHING = b""


class Slots:
    """By slot: where what it speaks of may be replaced, the last record that did so."""

    def __init__(self) -> None:
        self._held = ScratchMap(times=PLAN_TIMES)

    def add(self, slot: bytes, last: str | None) -> bool:
        """Remember that a slot was spoken of, and tell whether that is the first time."""
        return self._held.add(slot, _packed(last))

    def add_new(self, slots: Sequence[bytes]) -> bool:
        """Remember many slots, where none was spoken of before; tell whether it did."""
        return self._held.add_new(slots)

    def put(self, slot: bytes, last: str | None) -> None:
        """Remember the last record of a slot, in the place of any before it."""
        self._held.put(slot, _packed(last))

    def last(self, slot: bytes) -> str | None:
        """Return the last record of a slot; None where none may be replaced."""
        found = self._held.get(slot)
        return found.decode() if found else None

    def __contains__(self, slot: object) -> bool:
        return slot in self._held

    def close(self) -> None:
        """Give the space back."""
        self._held.close()


def _packed(last: str | None) -> bytes:
    return _NOTHING if last is None else last.encode()


Owner = tuple[Literal["user", "agent", "run", ""], str]
"""Whose memory something is: the most lasting id in its scope, and which sort it is."""


def owner_of(said: Row | Scope | None) -> Owner:
    """Return whose memory something is."""
    if said is not None and said.user is not None:
        return "user", said.user
    if said is not None and said.agent is not None:
        return "agent", said.agent
    if said is not None and said.run is not None:
        return "run", said.run
    return "", ""


def account_of(origin: Origin | None) -> tuple[str | None, str | None]:
    """Return the provider and the account that something comes from."""
    return (None, None) if origin is None else (origin.provider, origin.source)


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


class ImportPlan:
    """Takes the records of an import some at a time, in their order.

    Args:
        view: Of the bank as it is; None where it is still to be made.
        rules: How to decide.
        strands: Where what is planned is held.
        nonces: For the records that the plan itself makes.
        at: The present moment.
    """

    def __init__(
        self,
        view: View | None,
        rules: ImportRules,
        strands: SpoolStreams,
        *,
        nonces: Nonces,
        at: str,
    ) -> None:
        self.stage = ImportStage(strands)
        self.done = ImportCounts()
        self.known = KnownRecords(view)
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

        self.seen = ScratchMap(times=PLAN_TIMES)
        """Fingerprints of what arrived; on disk, as everything that grows with the file."""

        self.returned = ScratchMap()
        """Whole memories, by id, that take the place of forms which an import brought."""

        self._forgotten: ScratchMap | None = None
        """Slots of what is retired here; looked up when it is first needed."""

        self._forms = PendingForms(self.done)
        self._finals = FinalIds(self.current, nonces) if rules.linked else None
        self._times = RepeatCounter()
        self._slots = Slots()
        self._older = OlderVersions(self)
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
            and self._mode is not ConflictPolicy.OVERWRITE
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
        self.keys = pack_keys(self.seen)
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
            self._mode is ConflictPolicy.OVERWRITE or there.batch in self._undone
        )
        if not gone:
            self.done.known += 1
            # An id is the hash of the bytes, so there is no other way for these to differ.
            if (
                there.body is not None
                and there.body != row.body
                and not is_redacted_form(row.body or b"")
            ):
                self._bring_back(row, there)
            return
        current = self.current(slot)
        if current is not None and self._mode is not ConflictPolicy.OVERWRITE:
            self.done.skipped += 1
            return
        if (
            there.body is not None
            and there.body != row.body
            and not is_redacted_form(row.body or b"")
        ):
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
                    f"memory: satchel show {row.id[7:19]}."
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

    def _take_past(self, row: Row, ended: SourceEnd) -> None:
        """Let an older version wait for the current one, or bring what was deleted."""
        key, slot = key_of_row(row), _raw(row.slot)
        self._remember_owner(row)
        if slot is None:
            self.done.left[row.type] = self.done.left.get(row.type, 0) + 1
            return
        self._older.wait(slot, OlderVersion(row, key, ended))
        if ended.state == "deleted":
            self._slots.put(slot, None)
            self._older.end(
                slot, self.current(slot), overwrite=self._mode is ConflictPolicy.OVERWRITE
            )

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
        if key in self.known and (slot is None or self._mode is not ConflictPolicy.OVERWRITE):
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
            self._forgotten = ScratchMap()
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
        if mode is ConflictPolicy.RENAME and is_redacted_form(
            row.body or b""
        ):  # it has the id that it has
            mode = ConflictPolicy.SKIP
        match mode:
            case ConflictPolicy.ERROR:
                raise ConflictError(
                    f"another version exists: {_named(_decode(row.body or b''))}",
                    hint="Choose: --on-conflict skip, overwrite or rename.",
                )
            case ConflictPolicy.SKIP:
                self._count(row, "skipped")
                self._older.leave(slot)
                self._stands(row.id, there)
            case ConflictPolicy.RENAME:
                self._count(row, "renamed")
                self._older.leave(slot)
                renamed = self._renamed(row)
                self._stands(row.id, renamed.id)
                self._add(renamed)
            case ConflictPolicy.OVERWRITE:
                self._count(row, "overwritten")
                self._older.bring(slot, there, then=row.id)
                self._stands(there, row.id)
                self._add(row)
                if slot is not None:
                    self._slots.put(slot, row.id)

    def _last(self, row: Row) -> str | None:
        return row.id if self._mode is ConflictPolicy.OVERWRITE else None

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

    def _vanished(self) -> Iterator[VerifiedRecord]:
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
