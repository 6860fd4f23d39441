"""Writing rows to the tables."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from satchel.ports.rows import Row, derive_row
from satchel.ports.store import Change, Commit
from satchel.seal.proved_tree import leaf_position
from satchel.seal.records import shape_of
from satchel.stores import _terms
from satchel.stores.sqlite.errors import translated
from satchel.stores.sqlite.reading import NODE_BITS, View, raw_id
from satchel.stores.sqlite.schema import SEQ_BITS

_INSERT = "INSERT INTO record VALUES (" + ", ".join("?" * 18) + ")"  # noqa: S608 - our own names
_INDEX = "INSERT INTO words (rowid, terms) VALUES (?, ?)"


class _Spoken(NamedTuple):
    """What the full-text index needs to know of a row."""

    seq: int
    text: str
    run: str | None
    session: str | None


class Transaction(View):
    """The right to write, inside an immediate transaction."""

    def append(self, bank: str, commit: Commit) -> None:
        # A savepoint, so that of an append that is refused nothing is left in the transaction.
        with translated(self._name), self._connection:
            number = self._bank(bank, commit)
            # Who leaves a slot first, so that who takes it over finds it free.
            last = {change.seq: change for change in commit.changes}
            for change in sorted(last.values(), key=lambda change: change.retired is None):
                self._change(number, change)
            self._add(number, commit.rows)
            self._index(number, [row for row in commit.rows if row.retired is None and row.text])
            if commit.rows:
                first = (number << NODE_BITS) + leaf_position(commit.rows[0].seq)
                self._many("INSERT INTO node VALUES (?, ?)", enumerate(commit.nodes, first))
            for name, value in commit.side.items():
                self._set(bank, name, value)

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

    def _index(self, number: int, rows: Sequence[Row | _Spoken]) -> None:
        """Index words, each entry with those of the one before it in its session or run."""
        before: dict[tuple[str, str], str] = {}
        self._many(_INDEX, self._indexed(number, rows, before))

    def _indexed(
        self, number: int, rows: Sequence[Row | _Spoken], before: dict[tuple[str, str], str]
    ) -> Iterator[tuple[int, str]]:
        first = number << SEQ_BITS
        for row in rows:
            words = row.text or ""
            thread = _thread(row)
            if thread is not None:
                last = before.get(thread)
                if last is None:
                    last = self._last_words(number, thread, first + row.seq)
                before[thread] = words
                words = f"{last}\n{words}"
            yield first + row.seq, _terms.index_text(words)

    def _last_words(self, number: int, thread: tuple[str, str], place: int) -> str:
        column, value = thread
        sql = (
            f"SELECT place, at, body FROM record WHERE bank = ? AND {column} = ? AND place < ?"  # noqa: S608 - one of two words
            " AND body IS NOT NULL ORDER BY place DESC LIMIT 1"
        )
        found = self._all(sql, number, value, place)
        return _words(found[0][2]) if found else ""

    def _change(self, number: int, change: Change) -> None:
        place = (number << SEQ_BITS) + change.seq
        sql = "UPDATE record SET retired = ?, hold = ? WHERE place = ?"
        self._all(sql, change.retired, int(change.hold), place)
        self._all("DELETE FROM words WHERE rowid = ?", place)
        if change.retired is None:
            found = self._all("SELECT run, session, body FROM record WHERE place = ?", place)
            for run, session, body in found:
                if body is not None and (words := _words(body)):
                    self._index(number, [_Spoken(change.seq, words, run, session)])

    def _set(self, bank: str, name: str, value: bytes | None) -> None:
        if value is None:
            self._all("DELETE FROM side WHERE bank = ? AND name = ?", bank, name)
        else:
            self._all("INSERT OR REPLACE INTO side VALUES (?, ?, ?)", bank, name, value)

    def _many(self, sql: str, values: Any) -> None:
        with translated(self._name):
            self._connection.executemany(sql, values)


def _thread(row: Row | _Spoken) -> tuple[str, str] | None:
    """Return what a row is said after another in: its session, or else its run."""
    if row.session is not None:
        return "session", row.session
    return None if row.run is None else ("run", row.run)


def _words(body: bytes) -> str:
    return derive_row(shape_of(body), seq=0, at="", body=body).text or ""


def _values(row: Row, number: int, place: int) -> tuple[Any, ...]:
    return (
        *(place, number, raw_id(row.id), row.type, row.at, row.body, row.batch, row.retired),
        *(int(row.hold), row.slot, row.kind, row.user, row.agent, row.run, row.app),
        *(row.session, row.moment, row.expires_at),
    )
