"""Writing rows to the tables. What can be refused is, before anything of it is written."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from satchel.errors import SlotTakenError, StoreError
from satchel.ports.rows import PENDING, Row
from satchel.ports.store import Change, Commit, Sweep, Was
from satchel.seal.proved_tree import leaf_position
from satchel.stores._threads import thread_of
from satchel.stores.ladybug.blobs import BlobsWriting
from satchel.stores.ladybug.linking import Linking
from satchel.stores.ladybug.reading import words_of
from satchel.stores.ladybug.schema import (
    NODE_BITS,
    NODES,
    PIECE_BITS,
    SEQ_BITS,
    SEQ_MASK,
    Values,
    side_key,
    thing_key,
)
from satchel.stores.ladybug.slots import slots_after
from satchel.stores.ladybug.vectors import VectorsWriting

_WITHIN = "MATCH (r:Record) WHERE r.place >= $first AND r.place <= $last"
_WAS = {
    Was.CURRENT: "r.retired IS NULL",
    Was.RETIRED: "r.retired >= 0",
    Was.PENDING: f"r.retired = {PENDING}",
}
_DERIVED = (
    *("body", "slot", "kind", "user", "agent", "run", "app", "session", "moment", "expires_at"),
    *("words", "terms"),
)
_EMPTY = "SET " + ", ".join(f"r.`{name}` = NULL" for name in _DERIVED) + ", r.size = 0"
_TOGETHER = 1 << 22
"""Bytes of records in one statement."""


class Transaction(Linking):
    """The right to write, inside a transaction."""

    def append(self, bank: str, commit: Commit) -> None:
        found = self._all("MATCH (b:Bank {id: $bank}) RETURN b.number", bank=bank)
        number = int(found[0][0]) if found else self._next("Bank")
        self._refuse_doubles(number, [row.id for row in commit.rows])
        slots = slots_after(self, number, commit)
        self._set_head(bank, number, commit, new=not found)
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
    def vectors(self) -> VectorsWriting:
        return VectorsWriting(self._block)

    @property
    def blobs(self) -> BlobsWriting:
        return BlobsWriting(self._block)

    def _refuse_doubles(self, number: int, ids: Sequence[str]) -> None:
        twice = len(set(ids)) < len(ids) or self.places(number, ids)
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

    def _change(self, number: int, changes: Iterable[Change]) -> None:
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

    def _sweep(self, number: int, sweep: Sweep) -> None:
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
        """Say who has slots from now on."""
        there = self._slots(number, list(slots))
        rows = [
            {
                "key": thing_key(number, slot),
                "bank": number,
                "place": place,
                "new": slot not in there,
            }
            for slot, place in slots.items()
        ]
        self._make("Slot", [row for row in rows if row["new"]])
        cypher = "MATCH (s:Slot) WHERE s.key = x.key SET s.place = x.place"
        self._many(cypher, [row for row in rows if not row["new"]], NODES["Slot"])

    def _erase(self, bank: str, number: int, erased: Sequence[int]) -> None:
        """Empty rows; what follows one in its session or run is indexed without its words."""
        first, followed = number << SEQ_BITS, list[tuple[tuple[str, str], int]]()
        for seq in erased:
            for row in self._at([first + seq]):
                self.unlink(number, row)
                thread = thread_of(row)
                if thread is not None:
                    followed.append((thread, first + seq))
        places = [first + seq for seq in erased]
        self._many(f"MATCH (r:Record) WHERE r.place = x {_EMPTY}", places, "INT64")
        self.vectors.drop_of(bank, erased)
        for thread, place in followed:
            self._index_after(number, thread, place)

    def _index_after(self, number: int, thread: tuple[str, str], place: int) -> None:
        """Index again what is said next in a session or run, where there is anything."""
        values = {"first": place + 1, "last": (number << SEQ_BITS) + SEQ_MASK, "value": thread[1]}
        cypher = f"{_WITHIN} AND {self._said_in(thread[0])} RETURN r.place ORDER BY r.place LIMIT 1"
        for row in self._at([after for (after,) in self._all(cypher, **values)]):
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
            place = first + row.seq
            for thread in (*self._threads_at(place), thread_of(row)):
                if thread is not None:
                    followed.append((thread, place))
            self.forget(number, place)
            if row.body is None:
                self.vectors.drop_of(bank, [row.seq])
            self._add(number, [row])
            if row.slot is not None and row.retired is None:
                slots[row.slot] = place
        self._refuse_taken(number)
        self._set_slots(number, slots)
        for thread, place in followed:  # their words hold those of the rows before them
            self._index_after(number, thread, place)

    def _threads_at(self, place: int) -> Iterator[tuple[str, str] | None]:
        """Yield what the row at a place is said in, whatever else it holds."""
        cypher = "MATCH (r:Record {place: $place}) RETURN r.run, r.session"
        for run, session in self._all(cypher, place=place):
            yield thread_of(Row(seq=0, id="", type="", at="", body=None, run=run, session=session))

    def _refuse_taken(self, number: int) -> None:
        """Refuse what was written when two current rows have one slot; the block is over then."""
        values = {"first": number << SEQ_BITS, "last": (number << SEQ_BITS) + SEQ_MASK}
        cypher = (
            f"{_WITHIN} AND r.slot IS NOT NULL AND r.retired IS NULL"
            " WITH r.slot AS slot, count(*) AS many WHERE many > 1 RETURN slot LIMIT 1"
        )
        if self._all(cypher, **values):
            self._block.over = "a slot was used twice"
            raise SlotTakenError("a current record for the same key or origin already exists")

    def put_nodes(self, bank: str, first: int, nodes: Sequence[bytes]) -> None:
        start = (self._number(bank) << NODE_BITS) + first
        rows = [{"place": place, "hash": node} for place, node in enumerate(nodes, start)]
        cypher = "MATCH (n:TreeNode) WHERE n.place = x RETURN n.place"
        there = {place for (place,) in self._in(cypher, [row["place"] for row in rows])}
        self._make("TreeNode", [row for row in rows if row["place"] not in there])
        cypher = "MATCH (n:TreeNode) WHERE n.place = x.place SET n.hash = x.hash"
        self._many(cypher, [row for row in rows if row["place"] in there], NODES["TreeNode"])

    def put_side(self, bank: str, values: Mapping[str, bytes | None]) -> None:
        keys = {name: side_key(bank, name) for name in values}
        cypher = "MATCH (s:Side) WHERE s.key = x DELETE s"
        self._many(cypher, list(keys.values()), "STRING")
        for name, value in values.items():
            if value is not None:
                row: dict[str, Any] = {"key": keys[name], "bank": bank, "name": name}
                self._make("Side", [{**row, "value": value}])


def _weighed(rows: Sequence[Row]) -> Iterator[list[Row]]:
    """Cut rows into parts that one statement takes."""
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
