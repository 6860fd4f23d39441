"""A store in a folder with a LadybugDB graph."""

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from satchel.crypto.log import leaf_position
from satchel.errors import ReadOnlyStoreError, SlotTakenError, StoreError, UsageError
from satchel.ports.rows import PENDING, RecordLink, Row
from satchel.ports.store import (
    ColumnChange,
    Commit,
    Extent,
    RangeChange,
    RetiredFilter,
    StoreTraits,
    below,
)
from satchel.stores.ladybug.database import (
    SharedDatabase,
    acquire_database,
    release_database,
    rewrite_database,
    unreadable,
)
from satchel.stores.ladybug.reader import LadybugView, table_of
from satchel.stores.ladybug.statements import (
    EDGE,
    ENDS,
    LINK_TABLES,
    NODES,
    Block,
    Values,
    side_key,
    thing_key,
)
from satchel.stores.ladybug.vectors import LadybugBlobsWriter, LadybugVectorsWriter
from satchel.stores.text_search import thread_of
from satchel.stores.vectors import NODE_BITS, PIECE_BITS, SEQ_BITS, SEQ_MASK, links_of, words_of

_ANY = "|".join(LINK_TABLES)


class LinkWriter(LadybugView):
    """Writes to the graph of links."""

    def link(self, number: int, rows: Sequence[Row]) -> None:
        """Add rows and their links to the graph.

        An unknown end becomes a placeholder, until a record of that name arrives.
        """
        first = number << SEQ_BITS
        links = [(link, first + row.seq) for row in rows for link in dict.fromkeys(row.links)]
        ends: dict[str, int | None] = {}
        for link, _ in links:
            ends |= {link.source: None, link.target: None}
        ends |= {row.id: first + row.seq for row in rows}
        self._put_things(number, ends)
        for table in LINK_TABLES:
            kind = ", kind: x.kind" if table == EDGE else ""
            self._many(
                "MATCH (a:Thing {key: x.source}) MATCH (b:Thing {key: x.target})"
                f" CREATE (a)-[:{table} {{place: x.place{kind}}}]->(b)",
                [
                    {**_link(number, link), "place": rowid}
                    for link, rowid in links
                    if table_of(link.kind) == table
                ],
                ENDS,
            )

    def _put_things(self, number: int, ends: dict[str, int | None]) -> None:
        keys = {thing_key(number, name): name for name in ends}
        existing = {
            key for (key,) in self._in("MATCH (t:Thing) WHERE t.key = x RETURN t.key", keys)
        }
        self._make(
            "Thing",
            [
                {"key": key, "bank": number, "name": name, "place": ends[name]}
                for key, name in keys.items()
                if key not in existing
            ],
        )
        self._many(
            "MATCH (t:Thing) WHERE t.key = x.key SET t.place = x.place",
            [
                {"key": key, "place": ends[name]}
                for key, name in keys.items()
                if key in existing and ends[name] is not None
            ],
            NODES["Thing"],
        )

    def unlink(self, number: int, row: Row) -> None:
        """Remove the links of a row: those in its bytes, or all of a damaged one."""
        rowid, links = (number << SEQ_BITS) + row.seq, links_of(row.body)
        if links is None:
            self._unlink_all(rowid)
            return
        for table in {table_of(link.kind) for link in links}:
            self._many(
                f"MATCH (a:Thing {{key: x.source}})-[l:{table}]->(b:Thing)"
                " WHERE b.key = x.target AND l.place = $place DELETE l",
                [_link(number, link) for link in links if table_of(link.kind) == table],
                ENDS,
                place=rowid,
            )
        ends = {name for link in links for name in (link.source, link.target)}
        self._drop_loose(thing_key(number, name) for name in ends)

    def forget(self, number: int, rowid: int) -> None:
        """Remove a row and all that the graph has of it, also of a damaged one."""
        cypher = "MATCH (t:Thing) WHERE t.place = $place RETURN t.key"
        keys = [key for (key,) in self._all(cypher, place=rowid)]
        self._run("MATCH (t:Thing) WHERE t.place = $place SET t.place = NULL", place=rowid)
        self._unlink_all(rowid)
        self._drop_loose(keys)
        self._run("MATCH (r:Record {place: $place}) DELETE r", place=rowid)

    def _unlink_all(self, rowid: int) -> None:
        pattern = "MATCH (a:Thing)-[l:{}]->(b:Thing) WHERE l.place = $place"
        cypher = f"{pattern.format(_ANY)} RETURN a.key, b.key"
        ends = {key for pair in self._all(cypher, place=rowid) for key in pair}
        if ends:
            for table in LINK_TABLES:
                self._run(f"{pattern.format(table)} DELETE l", place=rowid)
            self._drop_loose(ends)

    def _drop_loose(self, keys: Iterable[str]) -> None:
        """Remove placeholders without links: their names may be erased data."""
        for key in keys:
            cypher = "MATCH (t:Thing {key: $key}) WHERE t.place IS NULL RETURN t.key"
            linked = f"MATCH (t:Thing {{key: $key}})-[l:{_ANY}]-(:Thing) RETURN l.place LIMIT 1"
            if self._all(cypher, key=key) and not self._all(linked, key=key):
                self._run("MATCH (t:Thing {key: $key}) DELETE t", key=key)


def _link(number: int, link: RecordLink) -> Values:
    return {
        "source": thing_key(number, link.source),
        "target": thing_key(number, link.target),
        "kind": link.kind,
    }


_HAVING = "MATCH (r:Record) WHERE r.place >= $first AND r.place <= $last AND r.slot IS NOT NULL"
_RETURN = "RETURN r.place, r.retired, r.slot"


class _SlotState(NamedTuple):
    retired: int | None
    slot: str


def slots_after(view: "LadybugView", number: int, commit: Commit) -> dict[str, int]:
    """Return, by slot, the keys of the rows that have slots after a commit changed or wrote them.

    Takes memory for the slots of an import that becomes visible.

    Args:
        view: The view of the transaction.
        number: Of the bank.
        commit: The commit.

    Raises:
        SlotTakenError: If two current rows would have the same slot.
    """
    first = number << SEQ_BITS
    states = _touched(view, first, commit)
    _swept(states, first, (sweep for sweep in commit.sweeps if sweep.retired is not None))
    for change in commit.changes:
        rowid = first + change.seq
        if rowid in states:
            states[rowid] = states[rowid]._replace(retired=change.retired)
    _swept(states, first, commit.sweeps)
    for seq in commit.erased:
        states.pop(first + seq, None)
    for row in commit.rows:
        if row.slot is not None:
            states[first + row.seq] = _SlotState(row.retired, row.slot)
    slots = dict[str, int]()
    for rowid, (retired, slot) in states.items():
        if retired is None and slots.setdefault(slot, rowid) != rowid:
            raise _slot_taken()
    touched = states.keys() | {first + seq for seq in commit.erased}
    _refuse_held(view, number, slots, touched)
    return slots


def _touched(view: "LadybugView", first: int, commit: Commit) -> dict[int, _SlotState]:
    """Return the state of the rows with slots that a commit changes."""
    rows = [
        row
        for sweep in commit.sweeps
        if sweep.was is not None
        for row in view._all(  # noqa: SLF001 - a part of the view
            f"{_HAVING} {_RETURN}", first=first + sweep.first, last=first + sweep.last
        )
    ]
    rowids = [first + change.seq for change in commit.changes]
    cypher = f"MATCH (r:Record) WHERE r.place = x AND r.slot IS NOT NULL {_RETURN}"
    rows += view._in(cypher, rowids)  # noqa: SLF001 - a part of the view
    return {rowid: _SlotState(retired, slot) for rowid, retired, slot in rows}


def _swept(states: dict[int, _SlotState], first: int, sweeps: Iterable[RangeChange]) -> None:
    for sweep in sweeps:
        if sweep.was is None:
            continue
        for rowid, state in states.items():
            if sweep.first <= rowid - first <= sweep.last and _was(state) is sweep.was:
                states[rowid] = state._replace(retired=sweep.retired)


def _was(state: _SlotState) -> RetiredFilter:
    if state.retired is None:
        return RetiredFilter.CURRENT
    return RetiredFilter.PENDING if state.retired == PENDING else RetiredFilter.RETIRED


def _refuse_held(
    view: "LadybugView", number: int, slots: dict[str, int], touched: set[int]
) -> None:
    """Refuse slots of rows that the commit does not change."""
    holders = view._slots(number, list(slots))  # noqa: SLF001 - a part of the view
    others = {rowid: slot for slot, rowid in holders.items() if rowid not in touched}
    rows = view._at(others)  # noqa: SLF001 - a part of the view
    if any(row.retired is None and row.slot in slots for row in rows):
        raise _slot_taken()


def _slot_taken() -> SlotTakenError:
    return SlotTakenError("a current record for the same key or origin already exists")


_WITHIN = "MATCH (r:Record) WHERE r.place >= $first AND r.place <= $last"
_WAS = {
    RetiredFilter.CURRENT: "r.retired IS NULL",
    RetiredFilter.RETIRED: "r.retired >= 0",
    RetiredFilter.PENDING: f"r.retired = {PENDING}",
}
_DERIVED = (
    *("body", "slot", "kind", "user", "agent", "run", "app", "session", "moment", "expires_at"),
    *("words", "terms"),
)
_EMPTY = "SET " + ", ".join(f"r.`{name}` = NULL" for name in _DERIVED) + ", r.size = 0"
_TOGETHER = 1 << 22
"""Bytes of records of one statement."""


class LadybugTransaction(LinkWriter):
    """A write transaction."""

    def append(self, bank: str, commit: Commit) -> None:
        rows = self._all("MATCH (b:Bank {id: $bank}) RETURN b.number", bank=bank)
        number = int(rows[0][0]) if rows else self._next("Bank")
        self._refuse_doubles(number, [row.id for row in commit.rows])
        slots = slots_after(self, number, commit)
        self._set_head(bank, number, commit, new=not rows)
        for sweep in commit.sweeps:
            if sweep.retired is not None:
                self._sweep(number, sweep)
        self._change(number, commit.changes)
        for sweep in commit.sweeps:
            self._sweep(number, sweep)
        if commit.erased:
            self._erase(bank, number, commit.erased)
        if commit.replaced:
            self.rewrite(bank, commit.replaced)
        self._add(number, commit.rows)
        self._set_slots(number, slots)
        if commit.rows:
            self.put_nodes(bank, leaf_position(commit.rows[0].seq), commit.nodes)
        self.put_side(bank, commit.side)

    @property
    def vectors(self) -> LadybugVectorsWriter:
        return LadybugVectorsWriter(self._block)

    @property
    def blobs(self) -> LadybugBlobsWriter:
        return LadybugBlobsWriter(self._block)

    def _refuse_doubles(self, number: int, ids: Sequence[str]) -> None:
        twice = len(set(ids)) < len(ids) or self.rowids(number, ids)
        if twice:
            raise StoreError("a record is logged twice", file=self._name)

    def _set_head(self, bank: str, number: int, commit: Commit, *, new: bool) -> None:
        head, peaks = commit.head
        values = {"bank": bank, "head": head, "peaks": peaks}
        if new:
            cypher = "CREATE (:Bank {id: $bank, number: $number, head: $head, peaks: $peaks})"
            self._run(cypher, number=number, **values)
        else:
            cypher = "MATCH (b:Bank {id: $bank}) SET b.head = $head, b.peaks = $peaks"
            self._run(cypher, **values)

    def _change(self, number: int, changes: Iterable[ColumnChange]) -> None:
        first, last = number << SEQ_BITS, {change.seq: change for change in changes}
        self._many(
            "MATCH (r:Record) WHERE r.place = x.place"
            " SET r.retired = CAST(x.retired AS INT64), r.hold = x.hold",
            (
                {"place": first + seq, "retired": change.retired, "hold": change.hold}
                for seq, change in last.items()
            ),
            {"place": "INT64", "retired": "INT64", "hold": "BOOL"},
        )

    def _sweep(self, number: int, sweep: RangeChange) -> None:
        first = number << SEQ_BITS
        values: Values = {"first": first + sweep.first, "last": first + sweep.last}
        if sweep.hold is not None:
            self._run(f"{_WITHIN} SET r.hold = $hold", **values, hold=sweep.hold)
        if sweep.was is not None:
            cypher = f"{_WITHIN} AND {_WAS[sweep.was]} SET r.retired = $retired"
            self._run(cypher, **values, retired=sweep.retired)

    def _add(self, number: int, rows: Sequence[Row]) -> None:
        before = dict[tuple[str, str], str]()
        for part in _weighed(rows):
            self._make("Record", [self._columns(number, row, before) for row in part])
        self.link(number, rows)

    def _columns(self, number: int, row: Row, before: dict[tuple[str, str], str]) -> Values:
        words = None
        if row.text or thread_of(row) is not None:
            words = self.indexed_words(number, row, before) if row.text or row.body else None
        values = {name: getattr(row, name) for name in Row.__struct_fields__[1:-2]}
        return values | {
            "place": (number << SEQ_BITS) + row.seq,
            "bank": number,
            "size": len(row.body or b""),
            "words": words if row.text else None,
            "terms": words.count(" ") - 1 if words and row.text else 0,
        }

    def _set_slots(self, number: int, slots: Mapping[str, int]) -> None:
        """Set the holders of slots."""
        existing = self._slots(number, list(slots))
        rows = [
            {
                "key": thing_key(number, slot),
                "bank": number,
                "place": rowid,
                "new": slot not in existing,
            }
            for slot, rowid in slots.items()
        ]
        self._make("Slot", [row for row in rows if row["new"]])
        cypher = "MATCH (s:Slot) WHERE s.key = x.key SET s.place = x.place"
        self._many(cypher, [row for row in rows if not row["new"]], NODES["Slot"])

    def _erase(self, bank: str, number: int, erased: Sequence[int]) -> None:
        """Empty rows; the row after each in its session or run is indexed without its words."""
        first, followed = number << SEQ_BITS, list[tuple[tuple[str, str], int]]()
        for seq in erased:
            for row in self._at([first + seq]):
                self.unlink(number, row)
                thread = thread_of(row)
                if thread is not None:
                    followed.append((thread, first + seq))
        rowids = [first + seq for seq in erased]
        self._many(f"MATCH (r:Record) WHERE r.place = x {_EMPTY}", rowids, "INT64")
        self.vectors.drop_of(bank, erased)
        for thread, rowid in followed:
            self._index_after(number, thread, rowid)

    def _index_after(self, number: int, thread: tuple[str, str], rowid: int) -> None:
        """Index the next row of a session or run again, if any."""
        values = {"first": rowid + 1, "last": (number << SEQ_BITS) + SEQ_MASK, "value": thread[1]}
        condition = f"{_WITHIN} AND {self._thread_condition(thread[0])}"
        cypher = f"{condition} RETURN r.place ORDER BY r.place LIMIT 1"
        for row in self._at([following for (following,) in self._all(cypher, **values)]):
            text = words_of(row.body or b"")
            spoken = Row(
                seq=row.seq,
                id=row.id,
                type=row.type,
                at=row.at,
                body=row.body,
                run=row.run,
                session=row.session,
                text=text,
            )
            columns = self._columns(number, spoken, {})
            cypher = "MATCH (r:Record {place: $place}) SET r.words = $words, r.terms = $terms"
            self._run(cypher, **{name: columns[name] for name in ("place", "words", "terms")})

    def remove(self, bank: str) -> None:
        self._run("MATCH (s:Side) WHERE s.bank = $bank DELETE s", bank=bank)
        if self.head(bank) is None:
            return
        number = self._number(bank)
        stretches = [("Record", number, SEQ_BITS), ("TreeNode", number, NODE_BITS)]
        for table, beneath, bits in (
            ("Generation", "Vector", SEQ_BITS),
            ("Blob", "Piece", PIECE_BITS),
        ):
            cypher = f"MATCH (n:{table}) WHERE n.bank = $bank RETURN n.number"
            stretches += [(beneath, each, bits) for (each,) in self._all(cypher, bank=number)]
            self._run(f"MATCH (n:{table}) WHERE n.bank = $bank DELETE n", bank=number)
        for table, each, bits in stretches:
            first = self._start(each, bits)
            cypher = f"MATCH (n:{table}) WHERE n.place >= $first AND n.place <= $last DELETE n"
            self._run(cypher, first=first, last=first + (1 << bits) - 1)
        self._run("MATCH (s:Slot) WHERE s.bank = $bank DELETE s", bank=number)
        self._run("MATCH (t:Thing) WHERE t.bank = $bank DETACH DELETE t", bank=number)
        self._run("MATCH (b:Bank {id: $bank}) DELETE b", bank=bank)

    def rewrite(self, bank: str, rows: Iterable[Row]) -> None:
        number = self._number(bank)
        first, followed = number << SEQ_BITS, list[tuple[tuple[str, str], int]]()
        slots = dict[str, int]()
        for row in rows:
            rowid = first + row.seq
            for thread in (*self._threads_at(rowid), thread_of(row)):
                if thread is not None:
                    followed.append((thread, rowid))
            self.forget(number, rowid)
            if row.body is None:
                self.vectors.drop_of(bank, [row.seq])
            self._add(number, [row])
            if row.slot is not None and row.retired is None:
                slots[row.slot] = rowid
        self._refuse_taken(number)
        self._set_slots(number, slots)
        for thread, rowid in followed:  # their words include those of the rows before them
            self._index_after(number, thread, rowid)

    def _threads_at(self, rowid: int) -> Iterator[tuple[str, str] | None]:
        """Yield the thread of the row with a key."""
        cypher = "MATCH (r:Record {place: $place}) RETURN r.run, r.session"
        for run, session in self._all(cypher, place=rowid):
            yield thread_of(Row(seq=0, id="", type="", at="", body=None, run=run, session=session))

    def _refuse_taken(self, number: int) -> None:
        """Refuse the transaction if two current rows have one slot; the block is over then."""
        values = {"first": number << SEQ_BITS, "last": (number << SEQ_BITS) + SEQ_MASK}
        cypher = (
            f"{_WITHIN} AND r.slot IS NOT NULL AND r.retired IS NULL"
            " WITH r.slot AS slot, count(*) AS many WHERE many > 1 RETURN slot LIMIT 1"
        )
        if self._all(cypher, **values):
            self._block.over = "a slot was used twice"
            raise _slot_taken()

    def put_nodes(self, bank: str, first: int, nodes: Sequence[bytes]) -> None:
        start = (self._number(bank) << NODE_BITS) + first
        rows = [{"place": rowid, "hash": node} for rowid, node in enumerate(nodes, start)]
        cypher = "MATCH (n:TreeNode) WHERE n.place = x RETURN n.place"
        existing = {rowid for (rowid,) in self._in(cypher, [row["place"] for row in rows])}
        self._make("TreeNode", [row for row in rows if row["place"] not in existing])
        cypher = "MATCH (n:TreeNode) WHERE n.place = x.place SET n.hash = x.hash"
        self._many(cypher, [row for row in rows if row["place"] in existing], NODES["TreeNode"])

    def put_side(self, bank: str, values: Mapping[str, bytes | None]) -> None:
        keys = {name: side_key(bank, name) for name in values}
        cypher = "MATCH (s:Side) WHERE s.key = x DELETE s"
        self._many(cypher, list(keys.values()), "STRING")
        for name, value in values.items():
            if value is not None:
                row: dict[str, Any] = {"key": keys[name], "bank": bank, "name": name}
                self._make("Side", [{**row, "value": value}])


def _weighed(rows: Sequence[Row]) -> Iterator[list[Row]]:
    """Split rows into parts for one statement each."""
    part, weight = list[Row](), 0
    for row in rows:
        size = len(row.body or b"")
        if part and weight + size > _TOGETHER:
            yield part
            part, weight = [], 0
        part.append(row)
        weight += size
    if part:
        yield part


BUSY_MS = 5_000
"""How long to wait for others."""


class LadybugStore:
    """Banks in a graph.

    A handle may be used from any thread; handles on one folder share one database. Only one process
    has a store open at a time; after a fork, a child waits for its parent.

    Args:
        path: The folder; created with mode 0700 when missing, unless for reading.
        read_only: Open for reading only; several processes may read.
        busy_ms: How long to wait for other processes and threads.

    Raises:
        MissingExtraError: If LadybugDB is not installed.
        LockedError: If another process has it open; the message names it.
        StoreError: If it cannot be opened.
    """

    traits = StoreTraits(full_text=True, vectors=True, traversal=True)

    def __init__(self, path: Path, *, read_only: bool = False, busy_ms: int = BUSY_MS) -> None:
        self.path = path
        self.name = str(path)
        self._read_only = read_only
        self._busy_ms = busy_ms
        self._shared: SharedDatabase | None = None
        self._local = threading.local()
        self._opening = threading.Lock()
        self._opened()

    @contextmanager
    def reading(self) -> Iterator[LadybugView]:
        """Open a consistent view."""
        block = self._within()
        if block is not None:  # within a block of the same thread: the same view
            yield LadybugView(block)
            return
        with self._opened().reading() as block, self._holding(block):
            yield LadybugView(block)

    @contextmanager
    def writing(self) -> Iterator[LadybugTransaction]:
        """Open a write transaction; committed when the block ends without an error."""
        if self._read_only:
            raise ReadOnlyStoreError("the store was opened read-only", file=self.name)
        if self._within() is not None:
            raise StoreError("this thread already has an open transaction", file=self.name)
        with self._opened().writing() as block, self._holding(block):
            yield LadybugTransaction(block)

    def scrub(self) -> None:
        """Rewrite everything to a new file, which replaces the old one.

        The engine frees space without overwriting it. Needs as much free space as the store has.

        Raises:
            StoreBusyError: If another reader or writer does not finish in time.
            UsageError: Within a block of the same thread.
        """
        if self._read_only:
            raise ReadOnlyStoreError("the store was opened read-only", file=self.name)
        if self._within() is not None:
            raise UsageError("a store cannot be scrubbed while it is being read", file=self.name)
        shared = self._opened()
        shared.replace(partial(rewrite_database, shared.folder))

    def laid_open(self) -> Iterator[Extent]:
        """Yield every file in its folder: those of the engine, its log, and copies."""
        yield from below(self.path)

    def out_of_reach(self) -> list[str]:
        return []

    def check(self) -> list[str]:
        """Return the errors of tables that cannot be read."""
        with self.reading() as view:
            return unreadable(view)

    def close(self) -> None:
        """Close the files, if no other handle of this process uses them."""
        with self._opening:
            shared, self._shared = self._shared, None
        self._local = threading.local()
        if shared is not None and shared.is_ours:
            release_database(shared)

    def _opened(self) -> SharedDatabase:
        with self._opening:
            if self._shared is None or not self._shared.is_ours:
                self._shared = acquire_database(
                    self.path, read_only=self._read_only, wait=self._busy_ms / 1000
                )
            return self._shared

    def _within(self) -> Block | None:
        block: Block | None = getattr(self._local, "block", None)
        return block

    @contextmanager
    def _holding(self, block: Block) -> Iterator[None]:
        self._local.block = block
        try:
            yield
        finally:
            self._local.block = None
