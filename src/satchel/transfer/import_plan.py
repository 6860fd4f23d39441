"""Deciding what becomes of each record that arrives, against what the bank has."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, cast

import msgspec

from satchel.crypto.redaction import is_redacted_form
from satchel.crypto.sealed_records import Nonces, Sealed, as_model, seal
from satchel.errors import (
    ConflictError,
    MalformedError,
    NoOwnerError,
    RedactionRefusedError,
    UsageError,
)
from satchel.ledger.projection import VerifiedRecord
from satchel.ledger.view import View
from satchel.model.records import Source, State
from satchel.model.values import Component, Origin, Scope, resolved
from satchel.ports.rows import Filter, Row, origin_slot, unplaced_row
from satchel.runtime.scratch import PLAN_TIMES, ScratchMap, SpoolStreams
from satchel.transfer.import_results import ConflictPolicy, ImportCounts, ImportRules
from satchel.transfer.import_stage import (
    NONE,
    Endings,
    FinalIds,
    ImportStage,
    KnownRecords,
    OlderVersion,
    OlderVersions,
    RepeatCounter,
    Slots,
    SourceEnd,
    joins_alike,
    key_of,
    key_of_row,
    pack_keys,
    pending_in,
    repeated,
)

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
        self._pending = (
            frozenset(pending_in(view, rules.going_on))
            if view is not None and rules.keeps_ids
            else frozenset[str]()
        )
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
        model = self._view.log_records_at([place])[place].model
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


_SORTS = ("user", "agent", "run")
_NAMED = 10
_NOBODY: Owner = ("", "")
OneOwner = Literal["unowned", "personal"]
"""Why a file whose bank nobody named goes into one bank: it names no owner, or is one person's."""


def maps_from(texts: Iterable[str]) -> dict[Owner, str]:
    """Return which bank each owner's memory goes into, from texts as ``user:ada=bank-ada``.

    Raises:
        UsageError: If a text is not of that form, or two speak of one owner.
    """
    found = dict[Owner, str]()
    for text in texts:
        owner, _, bank = text.rpartition("=")
        sort, _, name = owner.partition(":")
        if sort not in _SORTS or not name.strip() or not bank.strip():
            raise UsageError(
                f"not an owner and a bank: {text!r}",
                field="map",
                hint="Use user:NAME=BANK, agent:NAME=BANK or run:NAME=BANK.",
            )
        key = _owner(sort, name)
        if found.setdefault(key, bank) != bank:
            raise UsageError(f"{sort}:{name} is mapped to two banks", field="map")
    return found


class TenantRouter:
    """Sends each record to the bank that it goes into, and remembers whose there were.

    Args:
        wanted: The bank that everything goes into; None for one for each owner.
        maps: Owners whose memory goes into another bank than the one that has their name.
        counting: Whether to count owners also where everything goes into one bank.
        one_owner: Whether everything goes into one bank since no record names an owner, or, of a
            personal export, since all is of one person; None where a person named the bank.

    Raises:
        UsageError: If everything goes into one bank, and owners are sent to others.
    """

    def __init__(
        self,
        wanted: str | None,
        maps: dict[Owner, str],
        *,
        counting: bool = False,
        one_owner: OneOwner | None = None,
    ) -> None:
        if wanted is not None and maps:
            raise UsageError(
                "use one bank for everything, or one for each owner",
                field="map",
                hint="Drop --bank or --map.",
            )
        self._wanted = wanted
        self._maps = maps
        self._counting = counting
        self._one_owner = one_owner
        self._is_personal = one_owner == "personal"
        self.owners = Counter[Owner]()
        self._number = 0

    def begin(self) -> None:
        """Forget what was read; it is going to be read again."""
        self.owners.clear()
        self._number = 0

    def is_mapped(self, owner: Owner) -> bool:
        """Tell whether a person said where an owner's memory goes."""
        return owner in self._maps

    def is_said(self, bank: str) -> bool:
        """Tell whether a person named a bank, which may then be told by its id."""
        return self._wanted is not None or bank in self._maps.values()

    def bank_of(self, owner: Owner) -> str | None:
        """Return the name of the bank that an owner's memory goes into; None for none."""
        sort, name = owner
        if self._wanted is not None:
            return self._wanted
        mapped = self._maps.get(owner)
        if mapped is not None:
            return mapped
        return name if sort in ("user", "agent") and name.strip() else None

    def routed(self, rows: Sequence[Row], file: str) -> dict[str, Sequence[Row]]:
        """Return records by the name of the bank that they go into.

        Raises:
            MalformedError: If it cannot be proven whose a record is, naming which.
        """
        if self._wanted is not None:
            if self._one_owner is not None:
                self._require_one_owner(rows, file)
            elif self._counting:
                self.owners.update(map(owner_of, rows))
            return {self._wanted: list(rows)}
        found = dict[str, list[Row]]()
        for row in rows:
            owner = owner_of(row)
            bank = self.bank_of(owner)
            if bank is None:
                raise self._ownerless(row, owner, file)
            self.owners[owner] += 1
            self._number += 1
            found.setdefault(bank, []).append(row)
        return dict(found)

    def require_said(self, file: str) -> None:
        """Refuse what nobody said: owners that are not there, and several owners in one bank.

        Raises:
            UsageError: If there are such.
        """
        absent = [owner for owner in self._maps if owner not in self.owners]
        if absent:
            raise UsageError(
                f"the file has no memories of {_shown(absent)}",
                file=file,
                field="map",
                hint=f"It has memories of: {_shown(self.owners)}.",
            )
        for bank, owners in self._shared():
            raise UsageError(
                f"memory of {_shown(owners)} would go into one bank, {bank!r}",
                file=file,
                field="map",
                hint="To allow that, map each owner (--map), or use one bank for all: --bank NAME.",
            )

    def _shared(self) -> Iterator[tuple[str, list[Owner]]]:
        if self._wanted is not None:
            return
        by_bank = dict[str, list[Owner]]()
        for owner in self.owners:
            by_bank.setdefault(str(self.bank_of(owner)), []).append(owner)
        for bank, owners in by_bank.items():
            if len(owners) > 1 and not all(owner in self._maps for owner in owners):
                yield bank, owners

    def _require_one_owner(self, rows: Sequence[Row], file: str) -> None:
        for row in rows:
            owner = owner_of(row)
            if owner != _NOBODY and owner not in self.owners:
                self.owners[owner] += 1
                if not self._is_personal or len(self.owners) > 1:
                    others = (
                        "name no user or agent"
                        if not self._is_personal
                        else "belong to another owner"
                    )
                    raise MalformedError(
                        f"this record belongs to {_shown([owner])}, and other records {others}",
                        file=file,
                        field=str(self._number),
                        hint="Use one bank for all: --bank NAME.",
                    )
            self._number += 1

    def _ownerless(self, row: Row, owner: Owner, file: str) -> MalformedError:
        sort, name = owner
        kind = "conversation" if row.type == "session_event" else f"{row.type} memory"
        if sort == "run":
            what = f"this {kind} names only a run ({name!r}), and no user or agent"
        else:
            what = f"this {kind} names no user or agent"
            what += ", and other records of the file do" if self.owners else ""
        more = f" Or map the run: --map run:{name}=BANK." if sort == "run" else ""
        is_first = owner == _NOBODY and not self.owners and not self._maps
        return (NoOwnerError if is_first else MalformedError)(
            what,
            file=file,
            field=str(self._number),
            hint=f"Use one bank for all (--bank NAME), or create one: satchel init.{more}"
            if is_first
            else f"Use one bank for all: --bank NAME.{more}",
        )


def _owner(sort: str, name: str) -> Owner:
    return cast("Owner", (sort, name))  # it is one of the sorts: that was looked at


def _shown(owners: Iterable[Owner]) -> str:
    names = [f"{sort}:{name}" for sort, name in owners]
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
