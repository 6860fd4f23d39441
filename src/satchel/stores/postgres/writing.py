"""Writing rows to the tables."""

from collections.abc import Iterable, Mapping, Sequence

from satchel.ports.rows import PENDING, Row
from satchel.ports.store import Change, Commit, StoredHead, Sweep, Was
from satchel.seal.proved_tree import leaf_position
from satchel.stores._threads import thread_of
from satchel.stores.postgres.blobs import BlobsWriting
from satchel.stores.postgres.errors import translated
from satchel.stores.postgres.reading import View
from satchel.stores.postgres.rows import RECORD_TYPES, values_of, words_of
from satchel.stores.postgres.statements import MOST_PLACE, Session, raw_text, same
from satchel.stores.postgres.transactions import OwnTransactions
from satchel.stores.postgres.vectors import VectorsWriting
from satchel.stores.postgres.words import WORD_TYPES

_WAS = {
    Was.CURRENT: "retired IS NULL",
    Was.RETIRED: "retired >= 0",
    Was.PENDING: f"retired = {PENDING}",
}
_STRETCH = "bank = %s AND seq BETWEEN %s AND %s"
_SEARCHED = f"""
SELECT seq, run, session, body FROM record WHERE {_STRETCH} AND body IS NOT NULL
AND (retired IS NULL OR retired = {PENDING}) ORDER BY seq LIMIT 100"""  # noqa: S608 - our own names
_SAID = "SELECT run, session, body FROM record WHERE bank = %s AND seq = %s"
_EMPTY = """
UPDATE record SET body = NULL, slot = NULL, kind = NULL, "user" = NULL, agent = NULL, run = NULL,
app = NULL, session = NULL, moment = NULL, expires_at = NULL WHERE bank = %s AND seq = %s"""
_MADE = """
INSERT INTO bank (id, head, peaks, changed, changed_by)
VALUES (%s, %s, %s, nextval('change'), %s) RETURNING number"""
_MOVED = """
UPDATE bank SET head = %s, peaks = %s, changed = nextval('change'), changed_by = %s
WHERE number = %s"""
_SIDE = """
INSERT INTO side (bank, name, value) VALUES (%s, %s, %s)
ON CONFLICT (bank, sha256(name)) DO UPDATE SET value = excluded.value"""
_NODE = """
INSERT INTO node VALUES (%s, %s, %s) ON CONFLICT (bank, place) DO UPDATE SET hash = excluded.hash"""
_NEW_BANK = "SELECT pg_advisory_xact_lock(hashtextextended(current_schema() || %s, 0))"
_LOCK = "LOCK TABLE bank IN EXCLUSIVE MODE"
_LINK_TYPES = ("bigint", "bigint", "bytea", "bytea", "bytea")


class Transaction(View):
    """The right to write. A bank is locked when it is first asked about, until the block ends."""

    def __init__(self, session: Session, own: OwnTransactions) -> None:
        super().__init__(session, own)
        session.locked = self._locked

    def banks(self, start: str = "", *, limit: int | None = None) -> list[str]:
        # Nobody may add one while whoever asked goes by the answer.
        self._all(_LOCK)
        return super().banks(start, limit=limit)

    def named(self, said: bytes) -> list[str]:
        self._all(_LOCK)
        return super().named(said)

    def append(self, bank: str, commit: Commit) -> None:
        with self._whole():
            number = self._bank(bank, commit.head)
            # Who leaves a slot first, so that who takes it over finds it free.
            for sweep in commit.sweeps:
                if sweep.retired is not None:
                    self._sweep(number, sweep)
            last = {change.seq: change for change in commit.changes}
            for change in sorted(last.values(), key=lambda change: change.retired is None):
                self._change(number, change)
            for sweep in commit.sweeps:
                self._sweep(number, sweep)
            for seq in commit.erased:
                self._erase(number, seq)
            if commit.replaced:
                self.rewrite(bank, commit.replaced)
            self._add(number, commit.rows)
            if commit.rows:
                first = leaf_position(commit.rows[0].seq)
                nodes = [(number, place, node) for place, node in enumerate(commit.nodes, first)]
                self._add_rows("node", ("bigint", "bigint", "bytea"), nodes)
            self.put_side(bank, commit.side)

    @property
    def vectors(self) -> VectorsWriting:
        return VectorsWriting(self._session)

    @property
    def blobs(self) -> BlobsWriting:
        return BlobsWriting(self._session)

    def side(self, bank: str, prefix: str = "") -> dict[str, bytes]:
        self._known(bank)
        return super().side(bank, prefix)

    def remove(self, bank: str) -> None:
        number = self._known(bank)
        with self._whole():
            self._all("DELETE FROM side WHERE bank = %s", bank)
            if number is None:
                return
            for table in ("piece", "blob", "vector", "generation", "word", "link", "node"):
                self._all(f"DELETE FROM {table} WHERE bank = %s", number)  # noqa: S608 - our own names
            self._all("DELETE FROM record WHERE bank = %s", number)
            self._all("DELETE FROM bank WHERE number = %s", number)
            self._session.numbers.pop(bank)

    def rewrite(self, bank: str, rows: Iterable[Row]) -> None:
        number = self._number(bank)
        with self._whole():
            # A slot may have to change hands among them, so each gets its own back at the end.
            self._all("CREATE TEMPORARY TABLE moved (seq bigint, slot bytea) ON COMMIT DROP")
            after = set[int]()
            for row in rows:
                after.update(self._following(number, row.seq))
                for table in ("record", "link", "word"):
                    self._delete(table, number, row.seq, row.seq)
                if row.body is None:
                    self._drop_vectors(number, row.seq)
                after.update(self._next(number, thread_of(row), row.seq))
                (*values,) = values_of(row, number)
                slot, values[_SLOT] = values[_SLOT], None
                self._add_rows("record", RECORD_TYPES, [values])
                if slot is not None:
                    self._all("INSERT INTO moved VALUES (%s, %s)", row.seq, slot)
                self._add_derived(number, [row])
            sql = (
                "UPDATE record SET slot = moved.slot FROM moved"
                " WHERE record.bank = %s AND record.seq = moved.seq"
            )
            self._all(sql, number)
            self._all("DROP TABLE moved")
            for place in sorted(after):  # their index row holds the words of those before them
                self._index_again(number, place, place)
            self._touched(number)

    def put_nodes(self, bank: str, first: int, nodes: Sequence[bytes]) -> None:
        number = self._number(bank)
        self._many(_NODE, ((number, place, node) for place, node in enumerate(nodes, first)))
        self._touched(number)

    def put_side(self, bank: str, values: Mapping[str, bytes | None]) -> None:
        if not values:
            return
        self._known(bank)
        gone = [(bank, name.encode()) for name, value in values.items() if value is None]
        kept = [(bank, name.encode(), value) for name, value in values.items() if value is not None]
        if gone:
            self._many("DELETE FROM side WHERE bank = %s AND name = %s", gone)
        if kept:
            self._many(_SIDE, kept)

    # -- banks -----------------------------------------------------------------------------

    def _locked(self, bank: str) -> int | None:
        """Return the number of a bank, which nobody else changes from here on, if it is here."""
        known = self._session.numbers.get(bank)
        if known is not None or "\0" in bank:
            return known
        if bank in self._session.awaited:
            return None
        sql = "SELECT number FROM bank WHERE id = %s FOR UPDATE"
        found = self._all(sql, bank)
        if not found:
            # There is no row to lock yet; somebody may have made it while we waited.
            self._all(_NEW_BANK, bank)
            found = self._all(sql, bank)
        if not found:
            self._session.awaited.add(bank)
            return None
        self._session.numbers[bank] = int(found[0][0])
        return self._session.numbers[bank]

    def _bank(self, bank: str, head: StoredHead) -> int:
        """Set a bank's head, and return its number."""
        number = self._known(bank)
        if number is not None:
            self._all(_MOVED, *head, self._own.number, number)
            return number
        if bank not in self._session.awaited:  # removed within this block
            self._all(_NEW_BANK, bank)
        number = int(self._all(_MADE, bank, *head, self._own.number)[0][0])
        self._session.numbers[bank] = number
        return number

    def _touched(self, number: int) -> None:
        """Have older programs see that a bank was changed in another way than by its head."""
        sql = "UPDATE bank SET changed = nextval('change'), changed_by = %s WHERE number = %s"
        self._all(sql, self._own.number, number)

    # -- rows ------------------------------------------------------------------------------

    def _add(self, number: int, rows: Sequence[Row]) -> None:
        self._add_rows("record", RECORD_TYPES, [values_of(row, number) for row in rows])
        self._add_derived(number, rows)

    def _add_derived(self, number: int, rows: Sequence[Row]) -> None:
        """Index links, and words: of each entry with those before it in its session or run."""
        links = [
            (number, row.seq, *map(raw_text, link))
            for row in rows
            for link in dict.fromkeys(row.links)
        ]
        self._add_rows("link", _LINK_TYPES, links)
        self._add_rows("word", WORD_TYPES, list(self.indexed(number, rows)))

    def _change(self, number: int, change: Change) -> None:
        sql = "UPDATE record SET retired = %s, hold = %s WHERE bank = %s AND seq = %s"
        self._all(sql, change.retired, change.hold, number, change.seq)
        if change.retired in (None, PENDING):
            self._index_again(number, change.seq, change.seq)
        else:
            self._delete("word", number, change.seq, change.seq)

    def _sweep(self, number: int, sweep: Sweep) -> None:
        stretch = (number, sweep.first, min(sweep.last, MOST_PLACE))
        if sweep.hold is not None:
            self._all(f"UPDATE record SET hold = %s WHERE {_STRETCH}", sweep.hold, *stretch)  # noqa: S608 - our own names
        if sweep.was is None:
            return
        sql = f"UPDATE record SET retired = %s WHERE {_STRETCH} AND {_WAS[sweep.was]}"  # noqa: S608 - our own names
        self._all(sql, sweep.retired, *stretch)
        if sweep.was is Was.RETIRED:
            self._index_again(*stretch)
        elif sweep.retired is not None:
            self._delete("word", *stretch)

    def _index_again(self, number: int, first: int, last: int) -> None:
        """Index the words of rows, where they are searched."""
        self._delete("word", number, first, last)
        at = first - 1
        while found := self._all(_SEARCHED, number, at + 1, last):
            with translated(self._name):
                rows = [_spoken(*said) for said in found]
            at = rows[-1].seq
            # One by one: between those that are searched, others are said.
            self._add_rows(
                "word", WORD_TYPES, [said for row in rows for said in self.indexed(number, [row])]
            )

    def _erase(self, number: int, seq: int) -> None:
        """Empty a row; what follows it in its session or run is indexed without its words."""
        followed = self._following(number, seq)
        self._all(_EMPTY, number, seq)
        self._delete("word", number, seq, seq)
        self._delete("link", number, seq, seq)
        self._drop_vectors(number, seq)
        for place in followed:
            self._index_again(number, place, place)

    def _following(self, number: int, seq: int) -> list[int]:
        """Return the place of what is said next where a row that is there was said."""
        for run, session, body in self._all(_SAID, number, seq):
            with translated(self._name):
                row = _spoken(seq, run, session, body)
            return self._next(number, thread_of(row), seq)
        return []

    def _next(self, number: int, thread: tuple[str, str] | None, seq: int) -> list[int]:
        """Return the place of what is said next in a session or run, where there is anything."""
        if thread is None:
            return []
        column, value = thread
        sql = (
            f"SELECT seq FROM record WHERE bank = %s AND {same(column)} AND seq > %s"  # noqa: S608 - one of two words
            " ORDER BY seq LIMIT 1"
        )
        raw = raw_text(value)
        return [found for (found,) in self._all(sql, number, raw, raw, seq)]

    def _delete(self, table: str, number: int, first: int, last: int) -> None:
        self._all(f"DELETE FROM {table} WHERE {_STRETCH}", number, first, last)  # noqa: S608 - our own names

    def _drop_vectors(self, number: int, seq: int) -> None:
        """Remove the vectors of a row; a generation is there while it has any."""
        for (generation,) in self._all("SELECT number FROM generation WHERE bank = %s", number):
            sql = "DELETE FROM vector WHERE generation = %s AND seq = %s"
            self._all(sql, generation, seq)
            sql = (
                "DELETE FROM generation WHERE number = %s"
                " AND NOT EXISTS (SELECT FROM vector WHERE generation = %s)"
            )
            self._all(sql, generation, generation)


_SLOT = 9  # among the values of a row


def _spoken(seq: int, run: bytes | None, session: bytes | None, body: bytes | None) -> Row:
    """Return a row with what it is indexed by."""
    text = None if body is None else words_of(body)
    one, other = (None if value is None else value.decode() for value in (run, session))
    return Row(seq=seq, id="", type="", at="", body=body, text=text, run=one, session=other)
