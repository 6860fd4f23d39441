"""Writing rows to the tables."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import NoneType
from typing import Any

from satchel.ports.rows import PENDING, Row
from satchel.ports.store import Change, Commit, Sweep, Was
from satchel.seal.proved_tree import leaf_position
from satchel.stores._threads import is_searched, thread_of
from satchel.stores.sqlite.blobs import BlobsWriting
from satchel.stores.sqlite.reading import View, links_of, words_of
from satchel.stores.sqlite.schema import SEQ_BITS, SEQ_MASK, SLOT_INDEX
from satchel.stores.sqlite.statements import NODE_BITS, Kinds, raw_id, raw_slot
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
_ERASED = "SELECT place, run, session, body FROM record WHERE place IN "
_ERASED_KINDS: Kinds = (int, (str, NoneType), (str, NoneType), (bytes, NoneType))
_EMPTY = """
UPDATE record SET body = NULL, slot = NULL, kind = NULL, user = NULL, agent = NULL, run = NULL,
app = NULL, session = NULL, moment = NULL, expires_at = NULL WHERE place = ?"""
_TOGETHER = 256


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
            if commit.erased:
                self._erase(number, commit.erased)
            if commit.replaced:
                self._put_back(number, commit.replaced)
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
        sql = "UPDATE bank SET head = ?, peaks = ? WHERE id = ? RETURNING number"
        found = self._all(sql, *commit.head, bank)
        if not found:
            sql = "INSERT INTO bank (id, head, peaks) VALUES (?, ?, ?) RETURNING number"
            found = self._all(sql, bank, *commit.head)
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

    def _erase(self, number: int, erased: Sequence[int]) -> None:
        """Empty rows; what follows one in its session or run is indexed without its words."""
        first, followed = number << SEQ_BITS, list[tuple[str, str, int]]()
        with self._overwriting():
            for start in range(0, len(erased), _TOGETHER):
                places = [first + seq for seq in erased[start : start + _TOGETHER]]
                for place, *kept in self._in(_ERASED, places, _ERASED_KINDS):
                    followed += self._emptied(number, place, *kept)
        after = set[int]()
        for column, value, place in followed:
            after.update(self._after(number, (column, value), place))
        for place in sorted(after):
            self._index_again(number, place, place)

    def _put_back(self, number: int, rows: Sequence[Row]) -> None:
        """Put rows in places that were emptied."""
        after = set[int]()
        for row in rows:
            self._all("DELETE FROM record WHERE place = ?", (number << SEQ_BITS) + row.seq)
            self._add(number, [row])
            self._index(number, [row])
            after.update(self._next_place(number, row, thread_of(row)))
        for place in sorted(after):  # their index row holds the words of those before them
            self._index_again(number, place, place)

    def _emptied(
        self, number: int, place: int, run: str | None, session: str | None, body: bytes | None
    ) -> Iterator[tuple[str, str, int]]:
        """Empty one row, and yield what it was said in, with its place."""
        self._all(_EMPTY, place)
        self._all("DELETE FROM words WHERE rowid = ?", place)
        self._unlink(number, place, body)
        self._drop_vectors(number, place & SEQ_MASK, place & SEQ_MASK)
        thread = thread_of(Row(seq=0, id="", type="", at="", body=body, run=run, session=session))
        if thread is not None:
            yield (*thread, place)

    def _unlink(self, number: int, place: int, body: bytes | None) -> None:
        """Remove the links of a row: those that its bytes make, or whichever there are."""
        links = links_of(body) if body is not None else None
        if links is None:
            self._all("DELETE FROM link WHERE bank = ? AND place = ?", number, place)
            return
        one = "DELETE FROM link WHERE (bank, source, kind, target, place) = (?, ?, ?, ?, ?)"
        self._many(one, ((number, link.source, link.kind, link.target, place) for link in links))

    def _drop_vectors(self, number: int, first: int, last: int) -> None:
        """Remove the vectors of a stretch of the log; a generation is there while it has any."""
        sql = "SELECT number FROM generation WHERE bank = ?"
        for (generation,) in self._all(sql, number, kinds=(int,)):
            start = self._start(generation, SEQ_BITS)
            sql = "DELETE FROM vector WHERE place BETWEEN ? AND ?"
            self._all(sql, start + first, start + last)
            sql = "SELECT 1 FROM vector WHERE place BETWEEN ? AND ? LIMIT 1"
            if not self._all(sql, start, start + SEQ_MASK):
                self._all("DELETE FROM generation WHERE number = ?", generation)

    @contextmanager
    def _overwriting(self) -> Iterator[None]:
        """Have what is deleted in a block overwritten where it was."""
        before = self._all("PRAGMA secure_delete")[0][0]
        self._all("PRAGMA secure_delete = 1")
        try:
            yield
        finally:
            self._all(f"PRAGMA secure_delete = {int(before)}")

    def remove(self, bank: str) -> None:
        with self._whole(), self._overwriting():
            self._all("DELETE FROM side WHERE bank = ?", bank)
            if self.head(bank) is None:
                return
            number = self._number(bank)
            first = number << SEQ_BITS
            self._drop_vectors(number, 0, SEQ_MASK)
            for digest, _ in list(self.blobs.listed(bank)):
                self.blobs.drop(bank, digest)
            self._all("DELETE FROM words WHERE rowid BETWEEN ? AND ?", first, first + SEQ_MASK)
            self._all("DELETE FROM record WHERE place BETWEEN ? AND ?", first, first + SEQ_MASK)
            self._all("DELETE FROM link WHERE bank = ?", number)
            nodes = number << NODE_BITS
            sql = "DELETE FROM node WHERE place BETWEEN ? AND ?"
            self._all(sql, nodes, nodes + (1 << NODE_BITS) - 1)
            self._all("DELETE FROM bank WHERE number = ?", number)

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
                for _, run, session, _ in self._in(_ERASED, [place], _ERASED_KINDS):
                    was = Row(seq=0, id="", type="", at="", body=None, run=run, session=session)
                    after.update(self._next_place(number, row, thread_of(was)))
                after.update(self._next_place(number, row, thread_of(row)))
                self._all("DELETE FROM record WHERE place = ?", place)
                self._all("DELETE FROM link WHERE bank = ? AND place = ?", number, place)
                self._all("DELETE FROM words WHERE rowid = ?", place)
                if row.body is None:
                    self._drop_vectors(number, row.seq, row.seq)
                self._add(number, [row])
                self._index(number, [row])
            self._all(SLOT_INDEX)
            for place in sorted(after):  # their index row holds the words of those before them
                self._index_again(number, place, place)

    def _next_place(self, number: int, row: Row, thread: tuple[str, str] | None) -> list[int]:
        return [] if thread is None else self._after(number, thread, (number << SEQ_BITS) + row.seq)

    def _after(self, number: int, thread: tuple[str, str], place: int) -> list[int]:
        """Return the place of what is said next in a session or run, where there is anything."""
        sql = (
            f"SELECT place FROM record WHERE bank = ? AND {thread[0]} = ? AND place > ?"  # noqa: S608 - one of two words
            " ORDER BY place LIMIT 1"
        )
        return [found for (found,) in self._all(sql, number, thread[1], place)]

    def put_nodes(self, bank: str, first: int, nodes: Sequence[bytes]) -> None:
        places = enumerate(nodes, (self._number(bank) << NODE_BITS) + first)
        self._many("INSERT OR REPLACE INTO node VALUES (?, ?)", places)

    def put_side(self, bank: str, values: Mapping[str, bytes | None]) -> None:
        gone = [(bank, name) for name, value in values.items() if value is None]
        there = [(bank, name, value) for name, value in values.items() if value is not None]
        self._many("DELETE FROM side WHERE bank = ? AND name = ?", gone)
        self._many("INSERT OR REPLACE INTO side VALUES (?, ?, ?)", there)


def _values(row: Row, number: int, place: int) -> tuple[Any, ...]:
    return (
        *(place, number, raw_id(row.id), row.type, row.at, row.body, row.batch, row.retired),
        *(int(row.hold), raw_slot(row.slot), row.kind, row.user, row.agent, row.run, row.app),
        *(row.session, row.moment, row.expires_at),
    )
