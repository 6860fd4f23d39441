"""Writing rows to the tables."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from satchel.ports.rows import PENDING, Row
from satchel.ports.store import Change, Commit, Sweep, Was
from satchel.seal.proved_tree import leaf_position
from satchel.stores._threads import is_searched, thread_of
from satchel.stores.sqlite.blobs import BlobsWriting
from satchel.stores.sqlite.errors import translated
from satchel.stores.sqlite.reading import View, words_of
from satchel.stores.sqlite.schema import SEQ_BITS, SEQ_MASK, SLOT_INDEX
from satchel.stores.sqlite.statements import NODE_BITS, raw_id, raw_slot
from satchel.stores.sqlite.vectors import VectorsWriting

_INSERT = "INSERT INTO record VALUES (" + ", ".join("?" * 18) + ")"  # noqa: S608 - our own names
_WAS = {
    Was.CURRENT: "retired IS NULL",
    Was.RETIRED: "retired >= 0",
    Was.PENDING: f"retired = {PENDING}",
}
_RETIRE = "UPDATE record SET retired = ? WHERE place BETWEEN ? AND ?"
_SEARCHED = """
SELECT place, run, session, body FROM record WHERE place BETWEEN ? AND ? AND body IS NOT NULL
AND (retired IS NULL OR retired = -1) ORDER BY place LIMIT 1000"""
_INDEX = "INSERT INTO words (rowid, terms) VALUES (?, ?)"


class Transaction(View):
    """The right to write, inside an immediate transaction."""

    def append(self, bank: str, commit: Commit) -> None:
        with self._whole():
            number = self._bank(bank, commit)
            # Who leaves a slot first, so that who takes it over finds it free.
            for sweep in commit.sweeps:
                if sweep.retired is not None:
                    self._sweep(number, sweep)
            last = {change.seq: change for change in commit.changes}
            for change in sorted(last.values(), key=lambda change: change.retired is None):
                self._change(number, change)
            for sweep in commit.sweeps:
                self._sweep(number, sweep)
            self._add(number, commit.rows)
            self._index(number, commit.rows)
            if commit.rows:
                first = (number << NODE_BITS) + leaf_position(commit.rows[0].seq)
                self._many("INSERT INTO node VALUES (?, ?)", enumerate(commit.nodes, first))
            self.put_side(bank, commit.side)

    @property
    def vectors(self) -> VectorsWriting:
        return VectorsWriting(self._connection, self._name)

    @property
    def blobs(self) -> BlobsWriting:
        return BlobsWriting(self._connection, self._name)

    def _bank(self, bank: str, commit: Commit) -> int:
        """Set a bank's head, and return its number."""
        found = self._all("SELECT number FROM bank WHERE id = ?", bank)
        if not found:
            sql = "INSERT INTO bank (id, head, peaks) VALUES (?, ?, ?) RETURNING number"
            found = self._all(sql, bank, *commit.head)
        else:
            sql = "UPDATE bank SET head = ?, peaks = ? WHERE number = ?"
            self._all(sql, *commit.head, found[0][0])
        return int(found[0][0])

    def _add(self, number: int, rows: Sequence[Row]) -> None:
        first = number << SEQ_BITS
        self._many(_INSERT, (_values(row, number, first + row.seq) for row in rows))
        links = (
            (number, link.source, link.target, link.kind, first + row.seq)
            for row in rows
            for link in row.links
        )
        self._many("INSERT OR IGNORE INTO link VALUES (?, ?, ?, ?, ?)", links)

    def _index(self, number: int, rows: Sequence[Row]) -> None:
        """Index words, each entry with those of the one before it in its session or run."""
        self._many(_INDEX, self._indexed(number, rows))

    def _indexed(self, number: int, rows: Sequence[Row]) -> Iterator[tuple[int, str]]:
        first, before = number << SEQ_BITS, dict[tuple[str, str], str]()
        for row in rows:
            text = self.indexed_text(number, row, before)
            if row.text and is_searched(row):
                yield first + row.seq, text

    def _change(self, number: int, change: Change) -> None:
        place = (number << SEQ_BITS) + change.seq
        sql = "UPDATE record SET retired = ?, hold = ? WHERE place = ?"
        self._all(sql, change.retired, int(change.hold), place)
        self._all("DELETE FROM words WHERE rowid = ?", place)
        if change.retired in (None, PENDING):
            self._index_again(number, place, place)

    def _sweep(self, number: int, sweep: Sweep) -> None:
        first, last = (number << SEQ_BITS) + sweep.first, (number << SEQ_BITS) + sweep.last
        if sweep.hold is not None:
            sql = "UPDATE record SET hold = ? WHERE place BETWEEN ? AND ?"
            self._all(sql, int(sweep.hold), first, last)
        if sweep.was is None:
            return
        self._all(f"{_RETIRE} AND {_WAS[sweep.was]}", sweep.retired, first, last)
        if sweep.was is Was.RETIRED:
            self._index_again(number, first, last)
        elif sweep.retired is not None:
            self._all("DELETE FROM words WHERE rowid BETWEEN ? AND ?", first, last)

    def _index_again(self, number: int, first: int, last: int) -> None:
        """Index the words of rows that are searched again."""
        at = first - 1
        while found := self._all(_SEARCHED, at + 1, last):
            self._many("DELETE FROM words WHERE rowid = ?", ((place,) for place, *_ in found))
            for at, run, session, body in found:
                spoken = {"text": words_of(body), "run": run, "session": session}
                row = Row(seq=at & SEQ_MASK, id="", type="", at="", body=body, **spoken)
                self._index(number, [row])

    def rewrite(self, bank: str, rows: Iterable[Row]) -> None:
        number = self._number(bank)
        first = number << SEQ_BITS
        with self._whole():
            # A slot may have to change hands among them.
            self._all("DROP INDEX record_slot")
            self._all("REINDEX")
            after = set[int]()
            for row in rows:
                place = first + row.seq
                after.update(self._next_place(number, row))
                self._all("DELETE FROM record WHERE place = ?", place)
                self._all("DELETE FROM link WHERE bank = ? AND place = ?", number, place)
                self._all("DELETE FROM words WHERE rowid = ?", place)
                self._add(number, [row])
                self._index(number, [row])
            self._all(SLOT_INDEX)
            for place in sorted(after):  # their index row holds the words of those before them
                self._index_again(number, place, place)

    def _next_place(self, number: int, row: Row) -> list[int]:
        thread = thread_of(row)
        if thread is None:
            return []
        sql = (
            f"SELECT place FROM record WHERE bank = ? AND {thread[0]} = ? AND place > ?"  # noqa: S608 - one of two words
            " ORDER BY place LIMIT 1"
        )
        place = (number << SEQ_BITS) + row.seq
        return [found for (found,) in self._all(sql, number, thread[1], place)]

    def put_nodes(self, bank: str, first: int, nodes: Sequence[bytes]) -> None:
        places = enumerate(nodes, (self._number(bank) << NODE_BITS) + first)
        self._many("INSERT OR REPLACE INTO node VALUES (?, ?)", places)

    def put_side(self, bank: str, values: Mapping[str, bytes | None]) -> None:
        with translated(self._name, self._connection):
            for name, value in values.items():
                self._set(bank, name, value)

    def _set(self, bank: str, name: str, value: bytes | None) -> None:
        if value is None:
            self._all("DELETE FROM side WHERE bank = ? AND name = ?", bank, name)
        else:
            self._all("INSERT OR REPLACE INTO side VALUES (?, ?, ?)", bank, name, value)


def _values(row: Row, number: int, place: int) -> tuple[Any, ...]:
    return (
        *(place, number, raw_id(row.id), row.type, row.at, row.body, row.batch, row.retired),
        *(int(row.hold), raw_slot(row.slot), row.kind, row.user, row.agent, row.run, row.app),
        *(row.session, row.moment, row.expires_at),
    )
