"""What an import is going to log, held on disk until all of it was looked at."""

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
from satchel.ledger.erasure import FINGERPRINTS
from satchel.ledger.view import View
from satchel.model.records import SessionEvent, State, Status
from satchel.model.values import Component, resolved
from satchel.ports.drafts import event_with
from satchel.ports.rows import Row, unplaced_row
from satchel.ports.vectors import MARK_BYTES, Maker, as_kept
from satchel.runtime.scratch import PLAN_TIMES, ScratchMap, SpoolStream, SpoolStreams, scratch

GROUP = 4096
"""Records of one group at most: one head."""

GROUP_BYTES = 4 << 20
"""Bytes of records after which a group ends. Its rows are in memory several times over: with the
words and columns that are derived of them, and in the statements that store them."""

GIVEN = 2048
"""Records that the sink gets at once when it has a first group.

With more whoever reads waits meanwhile; with 256 what an index of words does each time is half as
much again of what it costs to log them.
"""

COMMIT_BYTES = 96 << 20
"""Bytes of records after which a transaction is committed; a smaller import is one transaction."""

_PACK = 128
_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder(resolved(list[Row])).decode


Sink = Callable[[Sequence[Row]], bool]
"""Takes some records, and tells whether it did."""


class CommitTooLargeError(Exception):
    """What was logged as it was read does not fit into one transaction; it is to be read again."""


class ImportStage:
    """Records in their order, then the statuses that go with them; each as the row it will be.

    Args:
        strands: Where they are held.
    """

    def __init__(self, strands: SpoolStreams) -> None:
        self._records = _Rows(strands.strand())
        self._statuses = _Rows(strands.strand())
        self.records = 0
        self.statuses = 0
        self.size = 0
        """Bytes of the records."""

        self.last: str | None = None
        """Id of the last record, statuses aside."""

        self.sink: Sink | None = None
        """Takes records from the first group on as they come; those that it took are not held."""

        self._group: list[Row] = []
        self._group_size = 0
        self._took = False

    def add(self, row: Row) -> None:
        """Hold a record.

        Raises:
            NotAtOnceError: If the sink has others, and they are too many for one transaction.
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
        most = GIVEN if self._took else GROUP
        if len(self._group) >= most or self._group_size >= GROUP_BYTES:
            self._give()

    def add_many(self, rows: Sequence[Row]) -> None:
        """Hold many records.

        Raises:
            NotAtOnceError: As ``add``.
        """
        size = sum(len(row.body or b"") for row in rows)
        most = (GIVEN if self._took else GROUP) - 1
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

    def give_rest(self) -> None:
        """Give the sink what is held, where it has what came before."""
        if self._took and self._group:
            self._give()

    def _give(self) -> None:
        if self._took and self.size >= COMMIT_BYTES:
            raise CommitTooLargeError
        if self.sink is not None and self.sink(self._group):
            self._took = True
        else:
            self.sink = None
            for row in self._group:
                self._records.add(row)
        self._group, self._group_size = [], 0

    def say(self, target: str, state: State, *, by: str | None, at: str, nonces: Nonces) -> None:
        """Hold a status of a record that is in the bank, or in here.

        Raises:
            NotAtOnceError: If the sink has records: they are current as soon as they are logged.
        """
        if self._took:
            raise CommitTooLargeError
        status = Status(target=target, state=state, by=by, reason="import", at=at)
        record = seal(status, nonces=nonces)
        self._statuses.add(unplaced_row(status, record.id, record.body))
        self.statuses += 1

    def groups(self, after: int = 0) -> Iterator[Sequence[Row]]:
        """Yield everything in groups, without the first ``after``."""
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
        """Yield what ``groups`` does, by transaction; each is to be used up before the next."""
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
        """Whether all of it can be logged, and be visible, in one transaction."""
        return not self.statuses and self.size < COMMIT_BYTES

    def _all(self) -> Iterator[Row]:
        yield from self._records
        yield from self._group
        yield from self._statuses


class _Rows:
    """Rows in packs of some."""

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
    """The vectors of one file, by the mark of the text that each was made of."""

    def __init__(self) -> None:
        self.begin_again()

    def begin_again(self) -> None:
        """Forget what there was; the file is read again."""
        self.maker: Maker | None = None
        self.unusable = Counter[str]()
        """How many can be used nowhere, by the reason."""

        self._db: sqlite3.Connection | None = None

    def begin(self, maker: Maker) -> None:
        """Remember what made them."""
        self.maker = maker

    def take(self, mark: str, vector: Any) -> None:
        """Keep a vector; one that no such model gave is counted."""
        key, maker = _raw(mark), self.maker
        kept = None if maker is None or not key else as_kept(vector, maker.dimensions)
        if kept is None:
            self.refuse(_NOT_ONE.format("" if maker is None else maker.dimensions))
            return
        db = self._opened()
        new = db.execute("INSERT OR IGNORE INTO vector VALUES (?, ?)", [key, kept]).rowcount
        if not new and self._at(key) not in (kept, b""):
            db.execute("UPDATE vector SET numbers = x'' WHERE mark = ?", [key])
            self.refuse(_TWO)

    def refuse(self, reason: str) -> None:
        """Count one that is of no use."""
        self.unusable[reason] += 1

    @property
    def count(self) -> int:
        """How many different ones there are to use."""
        if self._db is None:
            return 0
        return int(
            self._db.execute("SELECT count(*) FROM vector WHERE numbers <> x''").fetchone()[0]
        )

    def find(self, marks: Sequence[str]) -> dict[str, bytes]:
        """Return the vectors of some texts, by their marks."""
        found = {mark: self._at(_raw(mark)) for mark in marks} if self._db is not None else {}
        return {mark: numbers for mark, numbers in found.items() if numbers}

    def _at(self, key: bytes) -> bytes | None:
        sql = "SELECT numbers FROM vector WHERE mark = ?"
        row = self._opened().execute(sql, [key]).fetchone()
        return None if row is None else row[0]

    def _opened(self) -> sqlite3.Connection:
        if self._db is None:
            self._db = scratch(_TABLE, cache_kib=4096)
        return self._db


def _raw(mark: str) -> bytes:
    """Return a mark as bytes; none for what is no mark."""
    try:
        raw = bytes.fromhex(mark)
    except ValueError:
        return b""
    return raw if len(raw) == MARK_BYTES and raw.hex() == mark else b""


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
    """That a record which arrives is not current at the source."""

    state: State
    at: str | None
    """When that happened; None where the source does not say."""


class OlderVersion(NamedTuple):
    """An older version that waits."""

    row: Row
    key: bytes
    """What it says, as it is recognised again."""

    ended: SourceEnd


Endings = Mapping[str, SourceEnd]
"""By id of the record."""

NONE: Endings = {}
"""Nothing but what is current."""


class _Times(msgspec.Struct, gc=False):
    created_at: str = ""
    updated_at: str = ""


_times = msgspec.json.Decoder(resolved(_Times)).decode


class _Plan(Protocol):
    """What the plan of an import does for older versions."""

    stage: ImportStage
    known: KnownRecords
    done: Any
    seen: ScratchMap

    def say(self, target: str, state: State, by: str | None, at: str | None = None) -> None: ...

    def current(self, slot: bytes | None) -> Sealed | None: ...


class OlderVersions:
    """Older versions that wait, by the name of their slot.

    Args:
        plan: That decides about the current ones.
    """

    def __init__(self, plan: _Plan) -> None:
        self._plan = plan
        self._waiting = dict[bytes, list[OlderVersion]]()

    @property
    def waits(self) -> bool:
        """Whether there is one."""
        return bool(self._waiting)

    def wait(self, slot: bytes, version: OlderVersion) -> None:
        """Let one wait, after those that were before it."""
        self._waiting.setdefault(slot, []).append(version)

    def bring(self, slot: bytes | None, there: str | None, *, then: str | None) -> None:
        """Bring the older versions of a memory that comes, as far as they are new.

        Args:
            slot: What they are versions of.
            there: What the bank has of it, which the first that is new replaces.
            then: What replaces the last of them; None where nothing does.
        """
        plan, last, at = self._plan, there, None
        waiting = self._waiting.pop(slot, []) if slot is not None else []
        floor = plan.current(slot) if waiting and there is not None else None
        for version in waiting:
            plan.seen.add(version.key)
            if version.key in plan.known or (floor and not _is_newer(version.row, floor)):
                plan.done.known += 1
                continue
            if last is not None:
                plan.say(last, "superseded", version.row.id, at)
            plan.done.past += 1
            plan.stage.add(version.row)
            last, at = version.row.id, version.ended.at
        if last is not None and then is not None:
            plan.say(last, "superseded", then, at)

    def leave(self, slot: bytes | None, *, known: bool = False) -> None:
        """Leave the older versions of a memory that does not come."""
        for version in self._waiting.pop(slot, []) if slot is not None else []:
            self._plan.seen.add(version.key)
            if known or version.key in self._plan.known:
                self._plan.done.known += 1
            else:
                self._plan.done.skipped += 1

    def end(self, slot: bytes, current: Sealed | None, *, overwrite: bool) -> None:
        """Decide about a memory that was deleted at the source, whose versions all wait.

        Args:
            slot: What they are versions of.
            current: What the bank has of it.
            overwrite: Whether that is to go too.
        """
        plan, last = self._plan, self._waiting[slot][-1]
        if current is None and last.key not in plan.known:
            self.bring(slot, None, then=None)
            plan.say(last.row.id, "deleted", None, last.ended.at)
            return
        if current is not None and overwrite:
            plan.done.vanished += 1
            plan.say(current.id, "deleted", None, last.ended.at)
        self.leave(slot, known=current is None)


def _is_newer(row: Row, than: Sealed) -> bool:
    """Tell whether a version was made after another."""
    one, other = _times(row.body or b""), _times(than.body)
    return (one.updated_at or one.created_at) > (other.updated_at or other.created_at)


_PREFIX, _ID_BYTES = "blake3:", 32


_MOST_STEPS = 64


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
