"""Temporary data of an import plan: records to log, fingerprints, IDs, slots, vectors."""

import sqlite3
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple, Protocol, cast

import msgspec
from blake3 import blake3

from satchel.bank.jobs import side_name
from satchel.crypto.canonical import fingerprint
from satchel.crypto.sealed_records import Nonces, Sealed, as_model, seal
from satchel.ledger.transaction import FINGERPRINTS
from satchel.ledger.view import View
from satchel.model.records import SessionEvent, State, Status
from satchel.model.values import ENTRY_TYPES, ID_PREFIX, resolved
from satchel.ports.drafts import event_with
from satchel.ports.rows import Row, unplaced_row
from satchel.ports.vectors import MARK_BYTES, Maker, pack_imported
from satchel.runtime.scratch import PLAN_TIMES, ScratchMap, SpoolStream, SpoolStreams, scratch

GROUP = 4096
"""Maximum number of records of one group, which gets one head."""

GROUP_BYTES = 4 << 20
"""Size of records in bytes after which a group ends. Its rows are in memory several times: with the
derived words and columns, and in the statements that store them."""

GIVEN = 2048
"""Number of records in each later group that a sink gets.

With more, reading stalls; with 256, updating the index of words adds half of the cost of logging.
"""

COMMIT_BYTES = 96 << 20
"""Size of records in bytes after which a transaction is committed."""

_PACK = 128
_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder(resolved(list[Row])).decode


Sink = Callable[[Sequence[Row]], bool]
"""Receives records, and returns whether it logged them."""


class CommitTooLargeError(Exception):
    """A streamed import does not fit into one transaction; the input must be read again."""


class ImportStage:
    """Records to log in order, then their statuses, as rows.

    Args:
        strands: Temporary storage.
    """

    def __init__(self, strands: SpoolStreams) -> None:
        self._records = _Rows(strands.new_stream())
        self._statuses = _Rows(strands.new_stream())
        self.records = 0
        self.statuses = 0
        self.size = 0
        """Size of the records in bytes."""

        self.last: str | None = None
        """ID of the last record, not counting statuses."""

        self.sink: Sink | None = None
        """Receives groups of records while they are read; those that it logged are not stored."""

        self._group: list[Row] = []
        self._group_size = 0
        self._sink_used = False

    def add(self, row: Row) -> None:
        """Add a record.

        Raises:
            CommitTooLargeError: If the sink logged records, too many for one transaction.
        """
        size = len(row.body or b"")
        self.records += 1
        self.size += size
        self.last = row.id
        if self.sink is None:
            self._records.add(row)
            return
        self._group.append(row)
        self._group_size += size
        most = GIVEN if self._sink_used else GROUP
        if len(self._group) >= most or self._group_size >= GROUP_BYTES:
            self._flush_group()

    def add_many(self, rows: Sequence[Row]) -> None:
        """Add many records.

        Raises:
            CommitTooLargeError: As ``add``.
        """
        size = sum(len(row.body or b"") for row in rows)
        most = (GIVEN if self._sink_used else GROUP) - 1
        fits = len(self._group) + len(rows) <= most and self._group_size + size < GROUP_BYTES
        if self.sink is None or not rows or not fits:
            for row in rows:
                self.add(row)
            return
        self.records += len(rows)
        self.size += size
        self.last = rows[-1].id
        self._group += rows
        self._group_size += size

    def flush(self) -> None:
        """Pass the remaining records to the sink, if it logged earlier ones."""
        if self._sink_used and self._group:
            self._flush_group()

    def _flush_group(self) -> None:
        if self._sink_used and self.size >= COMMIT_BYTES:
            raise CommitTooLargeError
        if self.sink is not None and self.sink(self._group):
            self._sink_used = True
        else:
            self.sink = None
            for row in self._group:
                self._records.add(row)
        self._group, self._group_size = [], 0

    def add_status(
        self, target: str, state: State, *, by: str | None, at: str, nonces: Nonces
    ) -> None:
        """Add a status of a record of the bank or of the import.

        Raises:
            CommitTooLargeError: If the sink logged records: they are current when logged.
        """
        if self._sink_used:
            raise CommitTooLargeError
        status = Status(target=target, state=state, by=by, reason="import", at=at)
        record = seal(status, nonces=nonces)
        self._statuses.add(unplaced_row(status, record.id, record.body))
        self.statuses += 1

    def groups(self, after: int = 0) -> Iterator[Sequence[Row]]:
        """Yield all rows in groups, without the first ``after``."""
        group, size = list[Row](), 0
        for row in islice(self._all(), after, None):
            group.append(row)
            size += len(row.body or b"")
            if len(group) == GROUP or size >= GROUP_BYTES:
                yield group
                group, size = [], 0
        if group:
            yield group

    def commits(self, after: int = 0) -> Iterator[Iterator[Sequence[Row]]]:
        """Yield groups by transaction; each must be consumed before the next."""
        waiting = self.groups(after)

        def part(first: Sequence[Row]) -> Iterator[Sequence[Row]]:
            group, size = first, 0
            while group:
                yield group
                size += sum(len(row.body or b"") for row in group)
                if size >= COMMIT_BYTES:
                    return
                group = next(waiting, ())

        while first := next(waiting, ()):
            yield part(first)

    @property
    def is_one_commit(self) -> bool:
        """Whether everything can be logged in one transaction."""
        return not self.statuses and self.size < COMMIT_BYTES

    def _all(self) -> Iterator[Row]:
        yield from self._records
        yield from self._group
        yield from self._statuses


class _Rows:
    """Rows in packs."""

    def __init__(self, strand: SpoolStream) -> None:
        self._strand = strand
        self._waiting: list[Row] = []

    def add(self, row: Row) -> None:
        self._waiting.append(row)
        if len(self._waiting) == _PACK:
            self._strand.write_pack(_pack(self._waiting))
            self._waiting.clear()

    def __iter__(self) -> Iterator[Row]:
        for pack in self._strand.packs():
            yield from _unpack(pack)
        yield from self._waiting


_TABLE = "CREATE TABLE vector(mark BLOB PRIMARY KEY, numbers BLOB) WITHOUT ROWID;"
_NOT_ONE = "they are not {} finite 32-bit numbers"
_TWO = "the text has two vectors"


class SourceVectors:
    """Vectors of a file, by the mark of the text that each was computed from."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Remove all vectors before the file is read again."""
        self.maker: Maker | None = None
        self.unusable = Counter[str]()
        """Number of unusable vectors, by reason."""

        self._db: sqlite3.Connection | None = None

    def begin(self, maker: Maker) -> None:
        """Set the model that computed them."""
        self.maker = maker

    def take(self, mark: str, vector: Any) -> None:
        """Add a vector; an invalid one is counted."""
        key, maker = _raw(mark), self.maker
        encoded = None if maker is None or not key else pack_imported(vector, maker.dimensions)
        if encoded is None:
            self.refuse(_NOT_ONE.format("" if maker is None else maker.dimensions))
            return
        db = self._opened()
        new = db.execute("INSERT OR IGNORE INTO vector VALUES (?, ?)", [key, encoded]).rowcount
        if not new and self._vector(key) not in (encoded, b""):
            db.execute("UPDATE vector SET numbers = x'' WHERE mark = ?", [key])
            self.refuse(_TWO)

    def refuse(self, reason: str) -> None:
        """Count an unusable vector."""
        self.unusable[reason] += 1

    @property
    def count(self) -> int:
        """Number of distinct usable vectors."""
        if self._db is None:
            return 0
        return int(
            self._db.execute("SELECT count(*) FROM vector WHERE numbers <> x''").fetchone()[0]
        )

    def find(self, marks: Sequence[str]) -> dict[str, bytes]:
        """Return vectors of texts by mark."""
        found = {mark: self._vector(_raw(mark)) for mark in marks} if self._db is not None else {}
        return {mark: numbers for mark, numbers in found.items() if numbers}

    def _vector(self, key: bytes) -> bytes | None:
        sql = "SELECT numbers FROM vector WHERE mark = ?"
        row = self._opened().execute(sql, [key]).fetchone()
        return None if row is None else row[0]

    def _opened(self) -> sqlite3.Connection:
        if self._db is None:
            self._db = scratch(_TABLE, cache_kib=4096)
        return self._db


def _raw(mark: str) -> bytes:
    """Return a mark as bytes; empty if it is not a mark."""
    try:
        raw = bytes.fromhex(mark)
    except ValueError:
        return b""
    return raw if len(raw) == MARK_BYTES and raw.hex() == mark else b""


WIDTH = 16
"""Size of a fingerprint in bytes."""

_SIDE = FINGERPRINTS


_EDGE, _EVENT, _PARENTS = b'"type":"edge"', b'"type":"session_event"', b'"parent_ids":['
_LINKING = frozenset({"edge", "session_event"})
_LINKS = frozenset({"parent_ids"})
_ENDS = frozenset({"source", "target"})
_BEFORE = frozenset({"session", "parent"})
_POINTERS = frozenset({"state", "latest", "source"})
_members = msgspec.json.Decoder(resolved(dict[str, msgspec.Raw])).decode


def key_of(identity: str, body: bytes) -> bytes:
    """Return the fingerprint of a record without its ID and nonce, ``WIDTH`` bytes.

    For a record with an origin, the IDs that it names are not included: an import assigns those.

    Args:
        identity: ID of the record.
        body: Its canonical bytes.
    """
    if _PARENTS in body or _EDGE in body or _EVENT in body:
        body = _without_links(body)
    return fingerprint(identity, body)[:WIDTH]


def key_of_row(row: Row) -> bytes:
    """Return ``key_of`` of the record of a row; only rows with links are parsed.

    Args:
        row: Row from ``unplaced_row``.
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
    """Return the content of a session event without the IDs of other events."""
    content: dict[str, Any] = {name: part for name, part in members.items() if name not in _BEFORE}
    if "state" in content:
        state = msgspec.json.decode(members["state"])
        if isinstance(state, dict):
            content["state"] = {name: part for name, part in state.items() if name not in _POINTERS}
    return msgspec.json.encode(content)


def repeated(key: bytes, times: int) -> bytes:
    """Return the key of a repetition in one file; ``times`` is 0 for the first."""
    return key if times == 0 else blake3(key + times.to_bytes(8)).digest(length=WIDTH)


class SortedKeys:
    """Packed sorted fingerprints with binary search."""

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
    """Fingerprints of the records that complete imports brought into a bank.

    Args:
        view: View of the bank; None for a new bank.
    """

    def __init__(self, view: View | None) -> None:
        self.missing: dict[str, bytes | None] = {}
        """Unlogged values that were recomputed, to be stored with the next append."""

        self._all: list[SortedKeys] = []
        if view is None:
            return
        stored = view.side(_SIDE)
        for imported in view.imports():
            name = side_name(imported.place)
            packed = stored.pop(name, None)
            if not imported.complete or imported.undone:
                if packed is not None:
                    self.missing[name] = None
                continue
            if packed is None:
                packed = _recompute_keys(view, imported.source)
                self.missing[name] = packed
            self._all.append(SortedKeys(packed))

    @property
    def is_empty(self) -> bool:
        """Whether there are none."""
        return not any(map(len, self._all))

    def __contains__(self, key: object) -> bool:
        return any(key in keys for keys in self._all)


def pack_keys(keys: ScratchMap) -> bytes:
    """Return sorted fingerprints, concatenated as they are stored."""
    packed = bytearray()
    for key in keys:
        packed += key
    return bytes(packed)


class RepeatCounter:
    """Counts of identical records in a file; on disk, since there may be many."""

    def __init__(self) -> None:
        self._held = ScratchMap(times=PLAN_TIMES)

    def before(self, key: bytes) -> int:
        """Return the count of a key before this call, and increment it."""
        times = int.from_bytes(self._held.get(key) or b"")
        self._held.put(key, (times + 1).to_bytes(8))
        return times

    def close(self) -> None:
        """Free the space."""
        self._held.close()


def _recompute_keys(view: View, source: str) -> bytes:
    times, keys = RepeatCounter(), ScratchMap()
    for logged in view.imported(source):
        if logged.record.type in ENTRY_TYPES or logged.row.slot is not None:
            key = key_of(logged.record.id, logged.record.body)
            keys.add(repeated(key, times.before(key)))
    times.close()
    packed = pack_keys(keys)
    keys.close()
    return packed


def pending_in(view: View, resumed: str) -> Iterator[str]:
    """Yield the IDs of records that other imports logged and that are not visible yet.

    Args:
        view: Of the bank.
        resumed: ID of the source record of the import that is resumed, which is not another one.
    """
    for one in view.imports():
        if not one.complete and not one.undone and one.source != resumed:
            yield from (logged.record.id for logged in view.pending(one.source))


class SourceEnd(NamedTuple):
    """State and time at which a record stopped being current at its source."""

    state: State
    at: str | None
    """Time of the change; None if unknown."""


class OlderVersion(NamedTuple):
    """An earlier version that waits for the current one."""

    row: Row
    key: bytes
    """Fingerprint of its content."""

    ended: SourceEnd


Endings = Mapping[str, SourceEnd]
"""Endings by ID of the record."""

NONE: Endings = {}
"""All records are current."""


class _Times(msgspec.Struct, gc=False):
    created_at: str = ""
    updated_at: str = ""


_times = msgspec.json.Decoder(resolved(_Times)).decode


class _Plan(Protocol):
    """The members of an import plan that earlier versions need."""

    stage: ImportStage
    known: KnownRecords
    done: Any
    seen: ScratchMap

    def add_status(
        self, target: str, state: State, by: str | None, at: str | None = None
    ) -> None: ...

    def current(self, slot: bytes | None) -> Sealed | None: ...


class OlderVersions:
    """Earlier versions that wait for the current one, by slot.

    Args:
        plan: Plan of the import.
    """

    def __init__(self, plan: _Plan) -> None:
        self._plan = plan
        self._waiting = dict[bytes, list[OlderVersion]]()

    @property
    def waits(self) -> bool:
        """Whether there are any."""
        return bool(self._waiting)

    def add(self, slot: bytes, version: OlderVersion) -> None:
        """Add a version after the earlier ones of its slot."""
        self._waiting.setdefault(slot, []).append(version)

    def add_versions(self, slot: bytes | None, existing: str | None, *, then: str | None) -> None:
        """Add the earlier versions of a memory that is added, if they are new.

        Args:
            slot: Slot of the memory.
            existing: ID of the bank's record, which the first new version replaces.
            then: ID of the record that replaces the last of them; None for none.
        """
        plan, last, at = self._plan, existing, None
        waiting = self._waiting.pop(slot, []) if slot is not None else []
        floor = plan.current(slot) if waiting and existing is not None else None
        for version in waiting:
            plan.seen.add(version.key)
            if version.key in plan.known or (floor and not _is_newer(version.row, floor)):
                plan.done.known += 1
                continue
            if last is not None:
                plan.add_status(last, "superseded", version.row.id, at)
            plan.done.past += 1
            plan.stage.add(version.row)
            last, at = version.row.id, version.ended.at
        if last is not None and then is not None:
            plan.add_status(last, "superseded", then, at)

    def skip(self, slot: bytes | None, *, known: bool = False) -> None:
        """Skip the earlier versions of a memory that is not added."""
        for version in self._waiting.pop(slot, []) if slot is not None else []:
            self._plan.seen.add(version.key)
            if known or version.key in self._plan.known:
                self._plan.done.known += 1
            else:
                self._plan.done.skipped += 1

    def end(self, slot: bytes, current: Sealed | None, *, overwrite: bool) -> None:
        """Decide on a memory that was deleted at the source, all of whose versions wait.

        Args:
            slot: Slot of the memory.
            current: The bank's record.
            overwrite: Delete the bank's record, too.
        """
        plan, last = self._plan, self._waiting[slot][-1]
        if current is None and last.key not in plan.known:
            self.add_versions(slot, None, then=None)
            plan.add_status(last.row.id, "deleted", None, last.ended.at)
            return
        if current is not None and overwrite:
            plan.done.vanished += 1
            plan.add_status(current.id, "deleted", None, last.ended.at)
        self.skip(slot, known=current is None)


def _is_newer(row: Row, than: Sealed) -> bool:
    """Return whether a version is newer than another."""
    one, other = _times(row.body or b""), _times(than.body)
    return (one.updated_at or one.created_at) > (other.updated_at or other.created_at)


_ID_BYTES = 32


_MOST_STEPS = 64


Current = Callable[[bytes | None], Sealed | None]
"""Returns the bank's current record of a slot."""


class _Ends(msgspec.Struct, gc=False):
    source: str = ""
    target: str = ""


_ends = msgspec.json.Decoder(resolved(_Ends)).decode


class FinalIds:
    """Final IDs of imported records that get another ID in the bank.

    Args:
        current: Returns the bank's current record of a slot.
        nonces: Nonces for records that are sealed again because they refer to others.
    """

    def __init__(self, current: Current, nonces: Nonces) -> None:
        self._current = current
        self._nonces = nonces
        self._final_ids = ScratchMap()

    def map_to_record(self, imported: str, final: str) -> None:
        """Map an imported record to another record."""
        if imported != final and final:
            self._final_ids.put(_raw_parent(imported), _raw_parent(final))

    def map_to_slot(self, imported: str, slot: bytes) -> None:
        """Map an imported record to the bank's current record of a slot."""
        self._final_ids.put(_raw_parent(imported), slot)

    def resealed(self, row: Row) -> Row | None:
        """Return a record with the bank's IDs of the records that it refers to.

        A missing parent is dropped; an edge with a missing end becomes None.
        """
        body = row.body or b""
        if row.type == "edge":
            edge = _ends(body)
            ends = {"source": self._final_id(edge.source), "target": self._final_id(edge.target)}
            if None in ends.values():
                return None
            same = ends == {"source": edge.source, "target": edge.target}
            return row if same else self._with_members(row, ends)
        if row.type == "session_event":
            return self._event(row)
        if _PARENTS not in body:
            return row
        before = msgspec.json.decode(body).get("parent_ids", [])
        resolved = [identity for identity in map(self._final_id, before) if identity is not None]
        parents = list(dict.fromkeys(resolved))
        return row if parents == before else self._with_members(row, {"parent_ids": parents})

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
        return self._final_id(identity) or identity

    def close(self) -> None:
        """Free the space."""
        self._final_ids.close()

    def _final_id(self, identity: str) -> str | None:
        for _ in range(_MOST_STEPS):
            replacement = self._final_ids.get(_raw_parent(identity))
            if replacement is None:
                return identity
            if len(replacement) != _ID_BYTES:
                current = self._current(replacement)
                return None if current is None else current.id
            identity = ID_PREFIX + replacement.hex()
        return None

    def _with_members(self, row: Row, members: dict[str, Any]) -> Row:
        record = Sealed(row.id, row.type, row.body or b"")
        value = msgspec.to_builtins(record.model) | members
        del value["id"], value["nonce"]
        made = seal(as_model(value), nonces=self._nonces, unknown=record.unknown)
        return unplaced_row(made.model, made.id, made.body)


def joins_alike(record: Sealed, row: Row) -> bool:
    """Return whether two edges have the same ends; True for other records."""
    return row.type != "edge" or _ends(record.body) == _ends(row.body or b"")


def _raw_parent(identity: str) -> bytes:
    try:
        return bytes.fromhex(identity.removeprefix(ID_PREFIX))
    except ValueError:  # an end of an edge may be any text
        return b"name:" + identity.encode("utf-8", "surrogatepass")


_NOTHING = b""


class Slots:
    """Slots of the records read, each with the ID of its last record if that can be replaced."""

    def __init__(self) -> None:
        self._held = ScratchMap(times=PLAN_TIMES)

    def add(self, slot: bytes, last: str | None) -> bool:
        """Add a slot; return whether it is new."""
        return self._held.add(slot, _packed(last))

    def add_new(self, slots: Sequence[bytes]) -> bool:
        """Add many slots if all are new; return whether they were added."""
        return self._held.add_new(slots)

    def put(self, slot: bytes, last: str | None) -> None:
        """Set the last record of a slot."""
        self._held.put(slot, _packed(last))

    def last(self, slot: bytes) -> str | None:
        """Return the last record of a slot; None if it cannot be replaced."""
        found = self._held.get(slot)
        return found.decode() if found else None

    def __contains__(self, slot: object) -> bool:
        return slot in self._held

    def close(self) -> None:
        """Free the space."""
        self._held.close()


def _packed(last: str | None) -> bytes:
    return _NOTHING if last is None else last.encode()
