"""Plan of an import: which bank each record goes into, and what is done with it there."""

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
from satchel.model.values import ENTRY_TYPES, Origin, Scope, resolved
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
    """Redactions whose redacted form is expected next.

    Args:
        done: Counts of the import: a redaction counts as skipped until its form is added.
    """

    def __init__(self, done: ImportCounts) -> None:
        self._done = done
        self._last: Row | None = None

    def skip(self, row: Row) -> None:
        """Count a record of a type that is not imported, and remember a redaction."""
        left = self._done.left
        left[row.type] = left.get(row.type, 0) + 1
        self._last = row if row.type == _KIND else None

    def with_redaction(self, row: Row) -> Sequence[Row]:
        """Return the rows to add for a record: a redacted form comes with its redaction."""
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
"""Owner of a record: the kind and value of the most permanent ID in its scope."""


def owner_of(record: Row | Scope | None) -> Owner:
    """Return the owner of a record."""
    if record is not None and record.user is not None:
        return "user", record.user
    if record is not None and record.agent is not None:
        return "agent", record.agent
    if record is not None and record.run is not None:
        return "run", record.run
    return "", ""


def account_of(origin: Origin | None) -> tuple[str | None, str | None]:
    """Return the provider and the account of an origin."""
    return (None, None) if origin is None else (origin.provider, origin.source)


_EXAMPLES = 5
_CARRIED = frozenset({"edge", "graph_node", "session_event", "file_version", "source"})
BANK = "bank"
"""Member of a source record's container with the bank of a verified file."""

_BESIDE = {"added": "others"}
_OF_SESSIONS = {"session": "conversations", "fork": "conversations", "message": "messages"}


class _IdentityMembers(msgspec.Struct, gc=False):
    """The members of a record that identify what it is a version of."""

    type: str = ""
    kind: str | None = None
    scope: Scope | None = None
    origin: Origin | None = None
    event: str | None = None


_decode = msgspec.json.Decoder(resolved(_IdentityMembers)).decode


def is_vacant(view: View) -> bool:
    """Return whether a bank never had a record that could conflict with an import."""
    return not any(view.head.counts.get(name) for name in (*ENTRY_TYPES, *_CARRIED))


class ImportPlan:
    """Decides on the records of an import, in batches and in order.

    Args:
        view: View of the bank; None for a new bank.
        rules: Rules of the decisions.
        strands: Temporary storage of the plan.
        nonces: Nonces for records that the plan creates.
        at: The current time.
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
        """The first records of which the bank has another version."""

        self._view = view
        self._keeps_ids = rules.keeps_ids
        self._rules = rules
        self._gone = set[str]()
        """IDs of records that are not added or are superseded because of a near-duplicate."""
        self._mode = rules.mode
        self._mirror = rules.mirror
        self._nonces = nonces
        self._at = at
        self.keys = b""
        """Packed fingerprints of the imported records; set by ``finish``."""

        self.seen = ScratchMap(times=PLAN_TIMES)
        """Fingerprints of the records read; on disk, like everything that grows with the file."""

        self.returned = ScratchMap()
        """Complete memories by ID that replace redacted forms from an earlier import."""

        self._forgotten: ScratchMap | None = None
        """Slots of retired records; read on first use."""

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
            frozenset(pending_in(view, rules.resumed))
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
        """Decide on a batch of records.

        Args:
            rows: Rows from ``unplaced_row``.
            endings: Those that are not current at the source. Earlier versions of a memory are
                followed by the next version, or end with a deleted one.

        Raises:
            ConflictError: If the bank has another version of one, and conflicts are errors.
        """
        if not endings and self._is_plain and self._add_new(rows):
            return
        existing = self._existing_rows([row.id for row in rows])
        for row in rows:
            self.done.read += 1
            before = self._rules.replaces.get(row.id)
            if before is not None:
                self._map_id(before, row.id)
            if row.id in existing:
                self._skip_or_restore(row, existing[row.id])
            elif row.id in self._pending:
                raise ConflictError(
                    f"{row.id} belongs to an incomplete import",
                    hint="Resume that one (import its file again), or run: satchel undo",
                )
            elif row.id in endings:
                self._decide_past(row, endings[row.id])
            elif before is not None and self._is_current(before):
                self._decide_changed(row, before)
            elif row.type in ENTRY_TYPES:
                self._decide_entry(row)
            elif row.type in _CARRIED:
                self._decide_other(row)
            else:
                self._forms.skip(row)

    def _add_new(self, rows: Sequence[Row]) -> bool:
        """Add memories together if none is like an earlier one; return whether it did.

        In a vacant bank, nothing else can happen to them. The rest is decided one by one.
        """
        slots = [row.slot for row in rows if row.slot is not None and row.type in ENTRY_TYPES]
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
        """Handle memories that the source no longer has, and free the space."""
        if self._mirror:
            for logged in self._vanished():
                self.add_status(logged.record.id, "deleted", None)
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
        """Whether nothing would change."""
        return self.stage.records + self.stage.statuses + self.done.returned == 0

    def _skip_or_restore(self, row: Row, existing: Row) -> None:
        """Skip a record that exists, or restore it."""
        slot = _raw(row.slot) if row.type in ENTRY_TYPES else None
        self._remember_owner(row)
        if slot is not None:
            self._slots.add(slot, self._last(row))
        is_restored = existing.retired is not None and (
            self._mode is ConflictPolicy.OVERWRITE or existing.batch in self._undone
        )
        if not is_restored:
            self.done.known += 1
            # An ID is the hash of the bytes: they can differ only by a redaction.
            if (
                existing.body is not None
                and existing.body != row.body
                and not is_redacted_form(row.body or b"")
            ):
                self._restore_redacted(row, existing)
            return
        current = self.current(slot)
        if current is not None and self._mode is not ConflictPolicy.OVERWRITE:
            self.done.skipped += 1
            return
        if (
            existing.body is not None
            and existing.body != row.body
            and not is_redacted_form(row.body or b"")
        ):
            self._restore_redacted(row, existing)
        if current is not None:
            self.done.overwritten += 1
            self.add_status(current.id, "superseded", row.id)
        self.done.restored += 1
        self.add_status(row.id, "restored", None)

    def _restore_redacted(self, row: Row, existing: Row) -> None:
        """Replace a redacted form with the complete memory, unless its own bank redacted it.

        The ID shows that it is what was redacted. Redactions by this bank, or by the bank of the
        file, stay; one that another import brought does not prevent the memory from being restored.

        Raises:
            RedactionRefusedError: If the form was logged as another type, which the ID rules out.
        """
        assert self._view is not None  # noqa: S101 - only a bank that exists has such records
        if existing.type != row.type:
            raise RedactionRefusedError(
                f"this {row.type} memory is in the bank already, redacted, as one of type"
                f" {existing.type}: that redaction was forged, and the log cannot be changed",
                field=row.id,
                hint=(
                    "Import the file into a bank of its own: --bank NAME. To see the existing "
                    f"memory: satchel show {row.id[7:19]}."
                ),
            )
        redaction = self._view.redaction(row.id)
        brought = redaction.row.batch if redaction is not None else 0
        if not brought or not self._rules.bank or self._source_bank(brought) == self._rules.bank:
            self.done.redacted += 1
            return
        self.returned.put(row.id.encode(), row.body or b"")
        self.done.returned += 1

    def _source_bank(self, position: int) -> str | None:
        """Return the bank whose file an import read; None if unknown, or if it was undone."""
        assert self._view is not None  # noqa: S101 - only a bank that exists has such records
        if position in self._undone:
            return None
        model = self._view.log_records_at([position])[position].model
        bank = model.container.get(BANK) if isinstance(model, Source) else None
        return bank if isinstance(bank, str) else None

    def add_status(self, target: str, state: State, by: str | None, at: str | None = None) -> None:
        """Plan a status of a record, at the current time by default."""
        self.stage.add_status(target, state, by=by, at=at or self._at, nonces=self._nonces)

    def _decide_past(self, row: Row, ended: SourceEnd) -> None:
        """Hold an earlier version until the current one is read, or add a deleted memory."""
        key, slot = key_of_row(row), _raw(row.slot)
        self._remember_owner(row)
        if slot is None:
            self.done.left[row.type] = self.done.left.get(row.type, 0) + 1
            return
        self._older.add(slot, OlderVersion(row, key, ended))
        if ended.state == "deleted":
            self._slots.put(slot, None)
            self._older.end(
                slot, self.current(slot), overwrite=self._mode is ConflictPolicy.OVERWRITE
            )

    def _is_current(self, identity: str) -> bool:
        existing = self._existing_rows([identity]).get(identity)
        return existing is not None and existing.retired is None

    def _decide_changed(self, row: Row, before: str) -> None:
        """Add a record that was edited from the bank's own: no conflict."""
        joined = self._finals.resealed(row) if self._finals is not None else row
        if joined is None:
            self.done.unjoined += 1
            return
        self._map_id(row.id, joined.id)
        slot = _raw(joined.slot)
        if slot is not None:
            self._slots.put(slot, joined.id)
        self._count(joined, "overwritten")
        self.add_status(before, "superseded", joined.id)
        self._add(joined)

    def _decide_other(self, row: Row) -> None:
        """Decide on a record that is not a memory: like one if it has an ID at its origin."""
        if row.slot is not None:
            self._decide_entry(row)
            return
        joined = row if self._finals is None else self._finals.resealed(row)
        if joined is None:
            self.done.unjoined += 1
        else:
            self._add(joined)

    def _decide_entry(self, row: Row) -> None:
        key, slot = key_of_row(row), _raw(row.slot)
        self._remember_owner(row)
        if slot is None:
            key = repeated(key, self._times.before(key))
        elif not self._slots.add(slot, self._last(row)):
            self._decide_repeated(row, slot, key)
            return
        self.seen.add(key)
        if key in self.known and (slot is None or self._mode is not ConflictPolicy.OVERWRITE):
            self._skip_existing(row, slot, None)
            return
        joined = row if self._finals is None else self._finals.resealed(row)
        if joined is None:
            self.done.unjoined += 1
            self.seen.discard(key)
            return
        if joined is not row:
            self._map_id(row.id, joined.id)
            if slot is not None:
                self._slots.put(slot, self._last(joined))
        current = self.current(slot)
        if current is None:
            self._add_unlike(joined, slot, key)
        elif key_of(current.id, current.body) == key and joins_alike(current, joined):
            self._skip_existing(joined, slot, current.id)
        else:
            self._resolve_conflict(joined, slot, current.id)

    def _skip_existing(self, row: Row, slot: bytes | None, existing: str | None) -> None:
        """Skip what the bank has or had."""
        is_gone = existing is None and row.type in ENTRY_TYPES and self._was_forgotten(slot)
        self._count(row, "forgotten" if is_gone else "known")
        self._older.skip(slot, known=True)
        if existing is not None:
            self._map_id(row.id, existing)
        elif self._finals is not None and slot is not None:
            self._finals.map_to_slot(row.id, slot)

    def _was_forgotten(self, slot: bytes | None) -> bool:
        """Return whether something was forgotten here and has no other version."""
        if slot is None or self._view is None:
            return False
        if self._forgotten is None:
            self._forgotten = ScratchMap()
            for logged in self._view.scan(Filter(types=ENTRY_TYPES, retired=True)):
                if logged.row.slot is not None:
                    self._forgotten.add(bytes.fromhex(logged.row.slot))
        return slot in self._forgotten and self.current(slot) is None

    def _map_id(self, imported: str, final: str) -> None:
        if self._finals is not None:
            self._finals.map_to_record(imported, final)

    def _count(self, row: Row, outcome: str) -> None:
        if row.type not in ENTRY_TYPES:
            if outcome == "added" and row.type == "session_event":
                self._count_session(row)
            outcome = _BESIDE.get(outcome) or f"others_{outcome}"
        setattr(self.done, outcome, getattr(self.done, outcome) + 1)

    def _count_session(self, row: Row) -> None:
        name = _OF_SESSIONS.get(_decode(row.body or b"").event or "")
        if name is not None:
            setattr(self.done, name, getattr(self.done, name) + 1)

    def _decide_repeated(self, row: Row, slot: bytes, key: bytes) -> None:
        """Decide on another version of something that was in the file before."""
        if not self.seen.add(key):
            self._count(row, "twice")
            return
        joined = row if self._finals is None else self._finals.resealed(row)
        if joined is None:
            self.done.unjoined += 1
            return
        self._resolve_conflict(joined, slot, self._slots.last(slot) or "")

    def _resolve_conflict(self, row: Row, slot: bytes | None, existing: str) -> None:
        """Decide between a record and another version of it."""
        if len(self.conflicts) < _EXAMPLES:
            self.conflicts.append(_named(_decode(row.body or b"")))
        mode = self._mode
        if mode is ConflictPolicy.RENAME and is_redacted_form(
            row.body or b""
        ):  # its ID cannot be changed
            mode = ConflictPolicy.SKIP
        match mode:
            case ConflictPolicy.ERROR:
                raise ConflictError(
                    f"another version exists: {_named(_decode(row.body or b''))}",
                    hint="Choose: --on-conflict skip, overwrite or rename.",
                )
            case ConflictPolicy.SKIP:
                self._count(row, "skipped")
                self._older.skip(slot)
                self._map_id(row.id, existing)
            case ConflictPolicy.RENAME:
                self._count(row, "renamed")
                self._older.skip(slot)
                renamed = self._renamed(row)
                self._map_id(row.id, renamed.id)
                self._add(renamed)
            case ConflictPolicy.OVERWRITE:
                self._count(row, "overwritten")
                self._older.add_versions(slot, existing, then=row.id)
                self._map_id(existing, row.id)
                self._add(row)
                if slot is not None:
                    self._slots.put(slot, row.id)

    def _last(self, row: Row) -> str | None:
        return row.id if self._mode is ConflictPolicy.OVERWRITE else None

    def _add(self, row: Row) -> None:
        self._count(row, "added")
        for one in self._forms.with_redaction(row):
            self.stage.add(one)

    def _add_unlike(self, row: Row, slot: bytes | None, key: bytes) -> None:
        """Add a record unless a near-duplicate stays; a later import can add it."""
        twins = [name for name in self._rules.twins.get(row.id, ()) if name not in self._gone]
        if twins and not self._rules.merge:
            self.done.near += 1
            self.seen.discard(key)
            self._gone.add(row.id)
            self._older.skip(slot)
            self._map_id(row.id, twins[0])
            return
        self._older.add_versions(slot, None, then=row.id)
        if twins:
            self.done.merged += 1
            self._gone.add(twins[0])
            self.add_status(twins[0], "superseded", row.id)
        self._add(row)

    def current(self, slot: bytes | None) -> Sealed | None:
        """Return the bank's current record of a slot."""
        if slot is None or self._empty or self._view is None:
            return None
        found = self._view.current(slot.hex())
        return None if found is None else found.record

    def _renamed(self, row: Row) -> Row:
        """Return a record under the first free ID at its origin."""
        record = Sealed(row.id, row.type, row.body or b"")
        name, slot = self._free_name(_decode(record.body))
        value = msgspec.to_builtins(record.model)
        value["origin"]["id"] = name
        del value["id"], value["nonce"]
        again = seal(as_model(value), nonces=self._nonces, unknown=record.unknown)
        self._slots.put(slot, None)
        return unplaced_row(again.model, again.id, again.body)

    def _free_name(self, members: _IdentityMembers) -> tuple[str, bytes]:
        origin, number = members.origin or Origin(), 1
        while True:
            number += 1
            name = f"{origin.id}~{number}"
            renamed = msgspec.structs.replace(origin, id=name)
            slot = _slot(_IdentityMembers(kind=members.kind, scope=members.scope, origin=renamed))
            if slot is not None and slot not in self._slots and self.current(slot) is None:
                return name, slot

    def _existing_rows(self, ids: list[str]) -> dict[str, Row]:
        """Return the bank's rows with the given IDs."""
        if not self._keeps_ids or self._view is None:
            return {}
        return {name: logged.row for name, logged in self._view.get(ids).items()}

    def _remember_owner(self, row: Row) -> None:
        if self._mirror:
            self._owners.add(owner_of(row))
            self._accounts.add(account_of(_decode(row.body or b"").origin))

    def _vanished(self) -> Iterator[VerifiedRecord]:
        """Yield the bank's records of the same owners and accounts that are not in the file."""
        if self._view is None:
            return
        for logged in self._view.scan(Filter(types=ENTRY_TYPES | _CARRIED)):
            origin = getattr(logged.model, "origin", None)
            slot = logged.row.slot
            if (
                slot is not None
                and bytes.fromhex(slot) not in self._slots
                and account_of(origin) in self._accounts
                and owner_of(logged.row) in self._owners
            ):
                yield logged


def _slot(members: _IdentityMembers) -> bytes | None:
    if members.origin is None or members.origin.id is None:
        return None
    return bytes.fromhex(origin_slot(members.kind, members.scope, members.origin))


def _raw(slot: str | None) -> bytes | None:
    return None if slot is None else bytes.fromhex(slot)


def _named(members: _IdentityMembers) -> str:
    origin = members.origin or Origin()
    return f"{origin.id!r} of {origin.provider or 'nobody'}"


_SORTS = ("user", "agent", "run")
_NAMED = 10
_NOBODY: Owner = ("", "")
OneOwner = Literal["unowned", "personal"]
"""Why a file goes into one bank without being told: it names no owner, or is of one person."""


def maps_from(texts: Iterable[str]) -> dict[Owner, str]:
    """Return the bank of each owner, from texts like ``user:ada=bank-ada``.

    Raises:
        UsageError: If a text is malformed, or two texts are for the same owner.
    """
    banks = dict[Owner, str]()
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
        if banks.setdefault(key, bank) != bank:
            raise UsageError(f"{sort}:{name} is mapped to two banks", field="map")
    return banks


class TenantRouter:
    """Routes each record to its bank, and counts owners.

    Args:
        bank: The bank for everything; None for one bank for each owner.
        maps: Banks of owners whose bank does not have their name.
        counting: Count owners even if everything goes into one bank.
        one_owner: Why everything goes into one bank: no record names an owner, or the file is a
            personal export. None if the bank was named.

    Raises:
        UsageError: If there are both one bank for everything and maps.
    """

    def __init__(
        self,
        bank: str | None,
        maps: dict[Owner, str],
        *,
        counting: bool = False,
        one_owner: OneOwner | None = None,
    ) -> None:
        if bank is not None and maps:
            raise UsageError(
                "use one bank for everything, or one for each owner",
                field="map",
                hint="Drop --bank or --map.",
            )
        self._bank = bank
        self._maps = maps
        self._counting = counting
        self._one_owner = one_owner
        self._is_personal = one_owner == "personal"
        self.owners = Counter[Owner]()
        self._number = 0

    def begin(self) -> None:
        """Reset the counts before the input is read again."""
        self.owners.clear()
        self._number = 0

    def is_mapped(self, owner: Owner) -> bool:
        """Return whether an owner is mapped to a bank."""
        return owner in self._maps

    def is_explicit(self, bank: str) -> bool:
        """Return whether a bank was named by the caller, possibly by its ID."""
        return self._bank is not None or bank in self._maps.values()

    def bank_of(self, owner: Owner) -> str | None:
        """Return the name of an owner's bank; None if there is none."""
        sort, name = owner
        if self._bank is not None:
            return self._bank
        mapped = self._maps.get(owner)
        if mapped is not None:
            return mapped
        return name if sort in ("user", "agent") and name.strip() else None

    def routed(self, rows: Sequence[Row], file: str) -> dict[str, Sequence[Row]]:
        """Return records by the name of their bank.

        Raises:
            MalformedError: If the owner of a record is unknown; the error names the record.
        """
        if self._bank is not None:
            if self._one_owner is not None:
                self._require_one_owner(rows, file)
            elif self._counting:
                self.owners.update(map(owner_of, rows))
            return {self._bank: list(rows)}
        routes = dict[str, list[Row]]()
        for row in rows:
            owner = owner_of(row)
            bank = self.bank_of(owner)
            if bank is None:
                raise self._ownerless(row, owner, file)
            self.owners[owner] += 1
            self._number += 1
            routes.setdefault(bank, []).append(row)
        return dict(routes)

    def require_mapped_owners(self, file: str) -> None:
        """Require that all mapped owners exist, and that owners share a bank only if mapped.

        Raises:
            UsageError: Otherwise.
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
        if self._bank is not None:
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
            message = f"this {kind} names only a run ({name!r}), and no user or agent"
        else:
            message = f"this {kind} names no user or agent"
            message += ", and other records of the file do" if self.owners else ""
        more = f" Or map the run: --map run:{name}=BANK." if sort == "run" else ""
        is_first = owner == _NOBODY and not self.owners and not self._maps
        return (NoOwnerError if is_first else MalformedError)(
            message,
            file=file,
            field=str(self._number),
            hint=f"Use one bank for all (--bank NAME), or create one: satchel init.{more}"
            if is_first
            else f"Use one bank for all: --bank NAME.{more}",
        )


def _owner(sort: str, name: str) -> Owner:
    return cast("Owner", (sort, name))  # checked by the caller


def _shown(owners: Iterable[Owner]) -> str:
    names = [f"{sort}:{name}" for sort, name in owners]
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
