"""Views: reading rows, links and words."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from types import NoneType
from typing import Any

import apsw
from blake3 import blake3

from satchel.model.values import Component
from satchel.ports.links import Kinds as LinkKinds
from satchel.ports.links import LoggedLink
from satchel.ports.rows import Filter, RecordLink, Row
from satchel.ports.store import BLOCK_BITS, ColumnBlock, MarkedRow, RowsDigest
from satchel.stores import text_search
from satchel.stores import words as _terms
from satchel.stores.sqlite.statements import Kinds, SqliteBanks
from satchel.stores.sqlite.vectors import SqliteBlobs, SqliteVectors
from satchel.stores.sqlite.word_index import (
    FTS5_VERSION,
    INSTANCES,
    TOTALS,
    VOCABULARY,
    WordIndex,
    WordIndexes,
    WordSums,
    varints,
)
from satchel.stores.tables import (
    COLUMNS,
    ID_PREFIX,
    NODE_BITS,
    PIECE_BITS,
    SEQ_BITS,
    SEQ_MASK,
    column_blocks,
    id_bounds,
    raw_id,
    raw_slot,
    words_of,
)
from satchel.stores.text_search import is_searched, thread_of

_TEXT, _BYTES = (str, NoneType), (bytes, NoneType)
_KINDS: Kinds = (
    *(int, bytes, str, str, _BYTES, int, (int, NoneType), int, _BYTES, _TEXT),
    *(_TEXT, _TEXT, _TEXT, _TEXT, _TEXT, _TEXT, _TEXT),
)
_HOLD = "CASE WHEN record.hold IN (0, 1) THEN record.hold END"
"""NULL, which is refused, if the column has another number."""

_SELECT = (
    f"SELECT {', '.join(f'record.{name}' for name in ('place', *COLUMNS))} FROM record".replace(  # noqa: S608 - our own names
        "record.hold", _HOLD
    )
)
_NOMINATED = """
SELECT place, score FROM (
    SELECT words.rowid AS place, round(rank, 9) AS score FROM words {joined}
    WHERE words MATCH ? AND words.rowid BETWEEN ? AND ? {narrowed}
    ORDER BY words.rowid DESC LIMIT ?
) ORDER BY score, place LIMIT ?"""
_SPREAD = """
SELECT count(*), coalesce(min(rowid), 0) FROM (
    SELECT rowid FROM words WHERE words MATCH ? AND rowid BETWEEN ? AND ? {narrowed}
    ORDER BY rowid DESC LIMIT ?
)"""
_IS_MARKED = "(retired IS NOT NULL OR hold <> 0 OR bank <> ?)"
_MARKED = f"""
SELECT place, bank, id, type, at, retired, {_HOLD} FROM record
WHERE place BETWEEN ? AND ? AND {_IS_MARKED}"""  # noqa: S608 - our own names
_NEXT = "SELECT min(place) FROM record WHERE place BETWEEN ? AND ?"
_NEWEST = "SELECT max(place) FROM record WHERE place BETWEEN ? AND ?"
_ENDS = "SELECT min(place), max(place) FROM record WHERE place BETWEEN ? AND ?"
_RAW = frozenset({"id", "slot", "body"})
_MARKED_KINDS: Kinds = (int, int, bytes, str, str, (int, NoneType), int)
_MANY = 1 << 14
"""Rows that do not fit the cache."""

_LITTLE = -1024
"""Size of the cache in KiB, negative as SQLite expects it."""

_MOST_TERMS = 200
_TOGETHER = 1024
_MOST_MERGED = 16
_MEMORIES = frozenset(map(str, Component))
_CURRENT = "record.retired IS NULL"


Spreads = dict[tuple[Any, ...], text_search.Spread]
"""Cache of the spread of words over banks at a head: queries share words."""

_MOST_SPREADS = 5000


class SqliteView(SqliteBanks):
    """A consistent view, on a connection inside a transaction.

    Args:
        connection: The connection.
        name: The name of the file, for errors.
        spreads: The cache of spreads; None in a transaction that may be rolled back.
        indexes: The cache of the index of words.
        serial: The number of the connection in the store.
    """

    words_apart = True

    def __init__(
        self,
        connection: apsw.Connection,
        name: str,
        spreads: Spreads | None = None,
        *,
        indexes: WordIndexes | None = None,
        serial: int = 0,
    ) -> None:
        super().__init__(connection, name)
        self._spreads = spreads
        self._indexes = {} if indexes is None else indexes
        self._sums: WordSums | None = None
        self._serial = serial
        self._numbers = dict[str, int]()

    def _number(self, bank: str) -> int:
        number = self._numbers.get(bank)
        if number is None:
            number = super()._number(bank)
            if self._spreads is not None:  # a view that only reads: no bank can go
                self._numbers[bank] = number
        return number

    def stamp(self) -> int:
        return (self._serial << 32) + int(self._all("PRAGMA data_version")[0][0])

    def counts(self, bank: str) -> dict[str, int]:
        number = self._number(bank)
        # The index has only the counted columns, and is checked against the table.
        sql = "SELECT type, count(*) FROM record WHERE bank = ? GROUP BY type"
        return dict(self._all(sql, number, kinds=(str, int)))

    def nodes(self, bank: str, positions: Sequence[int]) -> dict[int, bytes]:
        first = self._number(bank) << NODE_BITS
        sql = "SELECT place, hash FROM node WHERE place IN "
        wanted = [first + place for place in positions if 0 <= place >> NODE_BITS < 1]
        return {place - first: found for place, found in self._in(sql, wanted, (int, bytes))}

    def get(self, bank: str, ids: Sequence[str]) -> list[Row]:
        number = self._number(bank)
        sql = f"{_SELECT} WHERE bank = {number} AND id IN "
        wanted = [raw_id(identity) for identity in ids]
        return [_row(found) for found in self._in(sql, wanted, _KINDS)]

    def ids(self, bank: str, digits: str, *, limit: int) -> list[str]:
        number = self._number(bank)
        ends = id_bounds(digits)
        if ends is None:
            return []
        # The plus keeps SQLite from scanning the whole bank instead of a range of IDs.
        sql = "SELECT id FROM record WHERE id BETWEEN ? AND ? AND +bank = ? ORDER BY id LIMIT ?"
        found = self._all(sql, *ends, number, limit, kinds=(bytes,))
        return [ID_PREFIX + identity.hex() for (identity,) in found]

    def at(self, bank: str, places: Sequence[int]) -> list[Row]:
        first = self._number(bank) << SEQ_BITS
        wanted = [first + place for place in set(places) if 0 <= place <= SEQ_MASK]
        return [_row(found) for found in self._in(f"{_SELECT} WHERE place IN ", wanted, _KINDS)]

    def digest(
        self, bank: str, places: tuple[int, int], nodes: tuple[int, int]
    ) -> tuple[bytes, bytes]:
        number, rows, hashes = self._number(bank), RowsDigest(), blake3()
        sql = "SELECT id, type, at, body FROM record WHERE place >= ? AND place < ? ORDER BY place"
        start = number << SEQ_BITS
        found = self._each(sql, *(start + seq for seq in places), kinds=None)
        while some := list(islice(found, _TOGETHER)):
            raws, tags, ats, bodies = zip(*some, strict=True)
            self._require_kinds((raws, tags, ats, bodies), (bytes, str, str, _BYTES))
            rows.add_columns([ID_PREFIX + raw.hex() for raw in raws], tags, ats, bodies)
        sql, start = (
            "SELECT hash FROM node WHERE place >= ? AND place < ? ORDER BY place",
            (number << NODE_BITS),
        )
        found = self._each(sql, *(start + position for position in nodes), kinds=None)
        while some := list(islice(found, _TOGETHER)):
            (column,) = zip(*some, strict=True)
            self._require_kinds((column,), (bytes,))
            hashes.update(b"".join(column))
        return rows.value, hashes.digest()

    def scan(
        self, bank: str, wanted: Filter, *, after: int = -1, newest_first: bool = False
    ) -> Iterator[Row]:
        selects, values, first = list[str](), list[Any](), self._number(bank) << SEQ_BITS
        for source, part in self._parts(bank, wanted, newest_first=newest_first):
            clauses = ["place > ?", "place <= ?"]
            values += [first + after, first + SEQ_MASK]
            for clause, value in _clauses(part):
                clauses.append(clause)
                values += value
            selects.append(f"{source} {' AND '.join(clauses)}")
        sql = f"{' UNION ALL '.join(selects)} ORDER BY 1 {'DESC' if newest_first else 'ASC'}"
        yield from map(_row, self._each(sql, *values, kinds=_KINDS))

    def _parts(
        self, bank: str, wanted: Filter, *, newest_first: bool
    ) -> Iterator[tuple[str, Filter]]:
        """Yield the parts of a query: a SELECT, and its filter.

        A query for the newest of some types ends early if SQLite follows the index of each type and
        merges; otherwise it would scan a whole bank for a rare type. Types that are no memories are
        rare: opening a bank reads them first.
        """
        bank = f"bank = {self._number(bank)} AND"
        if any(name is not None for name in (wanted.session, wanted.run, wanted.slot)):
            yield f"{_SELECT} WHERE {bank}", wanted  # whose indexes begin with the bank
            return
        is_few = newest_first and wanted.types and len(wanted.types) <= _MOST_MERGED
        is_few = is_few and wanted.user is None
        if wanted.types and (is_few or wanted.types.isdisjoint(_MEMORIES)):
            for one in sorted(wanted.types):
                typed = f"{_SELECT} INDEXED BY record_type WHERE {bank}"
                yield typed, replace(wanted, types=frozenset([one]))
        else:
            yield f"{_SELECT} WHERE", wanted

    def column_blocks(
        self,
        bank: str,
        names: Sequence[str],
        *,
        first: int,
        end: int | None = None,
        bits: int = BLOCK_BITS,
        marked: bool = True,
    ) -> Iterator[ColumnBlock]:
        number = self._number(bank)
        start = number << SEQ_BITS
        place = start + (first << bits)
        last = start + (SEQ_MASK if end is None else (end << bits) - 1)
        with self._little_cache(place, last):
            if names:
                yield from self._blocks_of(names, place, last, bits, marked=marked)
            else:
                there = self._marked(number, place, last) if marked else ()
                yield from column_blocks((), there, bits)

    @contextmanager
    def _little_cache(self, first: int, last: int) -> Iterator[None]:
        """Scan many rows with a small cache.

        Scanned rows are not read again soon, and filling the cache takes half as long as reading.
        """
        ((newest,),) = self._all(_NEWEST, first, last)
        if newest is None or newest - first < _MANY:
            yield
            return
        before = self._connection.pragma("cache_size")
        self._connection.pragma("cache_size", _LITTLE)
        try:
            yield
        finally:
            self._connection.pragma("cache_size", before)

    def _blocks_of(
        self, names: Sequence[str], place: int, last: int, bits: int, *, marked: bool
    ) -> Iterator[ColumnBlock]:
        number, size = place >> SEQ_BITS, 1 << bits
        # SQLite concatenates the values of a block: half the time of fetching them.
        sql = (
            f"SELECT count(*), {f'sum({_IS_MARKED})' if marked else '? < 0'},"  # noqa: S608 - our own names
            f" {', '.join(map(_together, names))} FROM record WHERE place BETWEEN ? AND ?"
        )
        while place <= last:
            low, high = place, place + size - 1
            ((rows, marks, *values),) = self._all(sql, number, low, high)
            if not rows:
                ((following,),) = self._all(_NEXT, place, last)
                if following is None:
                    return
                place = following >> bits << bits
                continue
            if rows < size:
                ((low, high),) = self._all(_ENDS, low, high)
            there = self._marked(number, low, high) if marks else []
            block = (place & SEQ_MASK) >> bits
            yield ColumnBlock(block, rows, low & SEQ_MASK, high & SEQ_MASK, tuple(values), there)
            place += size

    def _marked(self, number: int, first: int, last: int) -> list[MarkedRow]:
        found = self._all(_MARKED, first, last, number, kinds=_MARKED_KINDS)
        if any(other != number for _, other, *_ in found):
            raise self._damaged("a row belongs to another bank")
        return [
            MarkedRow(place & SEQ_MASK, ID_PREFIX + identity.hex(), tag, at, retired, hold != 0)
            for place, _, identity, tag, at, retired, hold in found
        ]

    def every_link(self, bank: str) -> Iterable[LoggedLink]:
        sql = "SELECT place, source, target, kind FROM link WHERE bank = ?"
        found = self._all(sql, self._number(bank), kinds=(int, str, str, str))
        return (LoggedLink(place & SEQ_MASK, RecordLink(*link)) for place, *link in found)

    def newest_of_sessions(
        self, bank: str, sessions: Sequence[str], types: Collection[str]
    ) -> list[int]:
        sql = (
            "SELECT place FROM record INDEXED BY record_session WHERE bank = ? AND session = ?"  # noqa: S608 - question marks
            f" AND type IN ({_marks(sorted(types))}) AND {_CURRENT} AND hold = 0"
            " ORDER BY place DESC LIMIT 1"
        )
        number, named = self._number(bank), sorted(types)
        found = (self._all(sql, number, session, *named, kinds=(int,)) for session in sessions)
        return [place & SEQ_MASK for rows in found for (place,) in rows]

    def current(self, bank: str, slot: str) -> Row | None:
        sql = f"{_SELECT} WHERE bank = ? AND slot = ? AND {_CURRENT}"
        found = self._all(sql, self._number(bank), raw_slot(slot), kinds=_KINDS)
        return _row(found[0]) if found else None

    def neighbours(self, bank: str, end: str, *, incoming: bool) -> Iterator[Row]:
        column = "target" if incoming else "source"
        sql = f"SELECT DISTINCT place FROM link WHERE bank = ? AND {column} = ? ORDER BY place"  # noqa: S608 - one of two words
        places = [place for (place,) in self._all(sql, self._number(bank), end, kinds=(int,))]
        for start in range(0, len(places), _TOGETHER):
            some = places[start : start + _TOGETHER]
            found = self._in(f"{_SELECT} WHERE place IN ", some, _KINDS)
            yield from sorted(map(_row, found), key=lambda row: row.seq)

    def links(
        self, bank: str, ends: Sequence[str], *, incoming: bool, kinds: LinkKinds, limit: int
    ) -> list[LoggedLink]:
        number, wanted = self._number(bank), sorted(kinds or ())
        column = "target" if incoming else "source"
        narrowed = "" if kinds is None else f" AND link.kind IN ({_marks(wanted)})"
        sql = (
            "SELECT link.place, source, target, link.kind FROM link"  # noqa: S608 - our own names
            " CROSS JOIN record ON record.place = link.place"
            f" WHERE link.bank = ? AND {column} IN ({_marks(ends)}){narrowed}"
            f" AND {_CURRENT} AND record.hold = 0"
            " ORDER BY link.place, link.kind, source, target LIMIT ?"
        )
        values = (number, *ends, *wanted, limit)
        return [
            LoggedLink(place & SEQ_MASK, RecordLink(source, target, kind))
            for place, source, target, kind in self._all(sql, *values, kinds=(int, str, str, str))
        ]

    def candidates(
        self,
        bank: str,
        text: str,
        *,
        limit: int,
        wanted: Filter | None = None,
        without: Sequence[tuple[int, int]] = (),
    ) -> list[tuple[int, float]]:
        terms, number = _terms.query_terms(text), self._number(bank)
        first = number << SEQ_BITS
        hidden = " AND words.rowid NOT BETWEEN ? AND ?" * len(without)
        bounds = [first, first + SEQ_MASK]
        for start, end in without:
            bounds += (first + start, first + end)
        few = text_search.FEW
        spreads = self._spread_of(terms, bank, bounds, hidden, few + 1)
        joined, narrowed, values = _narrowing(wanted)
        sql = _NOMINATED.format(joined=joined, narrowed=hidden + narrowed)
        found: dict[int, float] = {}
        for search in text_search.searches(spreads, few):
            asked = (search.expression, *bounds, *values, max(search.newest, limit), limit)
            for place, rank in self._all(sql, *asked, kinds=(int, float)):
                found.setdefault(place & SEQ_MASK, -rank)
            if len(found) >= limit:
                break
        return sorted(found.items(), key=lambda pair: (-pair[1], pair[0]))[:limit]

    def _spread_of(
        self, terms: Sequence[str], bank: str, bounds: list[int], hidden: str, most: int
    ) -> list[text_search.Spread]:
        kept = {} if self._spreads is None else self._spreads
        head, found = self.head(bank), list[text_search.Spread]()
        for term in terms:
            key = (bank, head, term, most, *bounds)
            spread = kept.get(key) or self._spread(term, bounds, hidden, most)
            if len(kept) >= _MOST_SPREADS:
                kept.clear()
            kept[key] = spread
            found.append(spread)
        return found

    def _spread(self, term: str, bounds: list[int], hidden: str, most: int) -> text_search.Spread:
        sql = _SPREAD.format(narrowed=hidden)
        ((rows, reach),) = self._all(sql, term, *bounds, most, kinds=(int, int))
        return text_search.Spread(term, rows, reach)

    def side(self, bank: str, prefix: str = "") -> dict[str, bytes]:
        # Only the start is a condition on the key, which is in byte order: to check that a row is
        # before an end, SQLite would read all of it, and then once more.
        sql = "SELECT bank, name, value FROM side WHERE (bank, name) >= (?, ?) ORDER BY bank, name"
        found = dict[str, bytes]()
        for owner, name, value in self._each(sql, bank, prefix, kinds=(str, str, bytes)):
            if owner != bank or not name.startswith(prefix):
                break
            found[name] = value
        return found

    def is_indexed(self, bank: str, row: Row) -> bool:
        number = self._number(bank)
        place = (number << SEQ_BITS) + row.seq
        for link in row.links:
            sql = "SELECT 1 FROM link WHERE (bank, source, kind, target, place) = (?, ?, ?, ?, ?)"
            back = "SELECT 1 FROM link WHERE bank = ? AND target = ? AND source = ? AND place = ?"
            if not (
                self._all(sql, number, link.source, link.kind, link.target, place)
                and self._all(back, number, link.target, link.source, place)
            ):
                return False
        there = self._all("SELECT 1 FROM words WHERE rowid = ?", place)
        if not row.text or not is_searched(row):
            return not there
        terms = sorted(set(self.indexed_text(number, row, {}).split()))
        for start in range(0, len(terms), _MOST_TERMS):
            match = " ".join(f'"{term}"' for term in terms[start : start + _MOST_TERMS])
            if not self._all("SELECT 1 FROM words WHERE words MATCH ? AND rowid = ?", match, place):
                return False
        return bool(there)

    def misindexed(self, bank: str, rows: Sequence[Row]) -> list[int]:
        number, before = self._number(bank), dict[tuple[str, str], str]()
        first, words = number << SEQ_BITS, self._word_sums()
        sql = "SELECT id, sz FROM words_docsize WHERE id BETWEEN ? AND ?"
        bounds = first + rows[0].seq, first + rows[-1].seq
        there = {place - first: size for place, size in self._all(sql, *bounds, kinds=(int, bytes))}
        by_id = f"SELECT place, id FROM record WHERE bank = {number} AND id IN "  # noqa: S608 - our own number
        found = dict(self._in(by_id, [raw_id(row.id) for row in rows], (int, bytes)))
        wrong = [row.seq for row in rows if found.get(first + row.seq) != raw_id(row.id)]
        for row in rows:
            terms, expected, stems = self.indexed_text(number, row, before), None, list[str]()
            if row.text and is_searched(row):
                stems = text_search.stems(terms)
                expected = _varint(len(stems))
            if there.get(row.seq) != expected or not words.are(first + row.seq, stems):
                wrong.append(row.seq)
        return wrong

    def word_positions(self, bank: str) -> Iterable[int]:
        first = self._number(bank) << SEQ_BITS
        sql = "SELECT id FROM words_docsize WHERE id BETWEEN ? AND ?"
        found = {place for (place,) in self._all(sql, first, first + SEQ_MASK, kinds=(int,))}
        found.update(self._word_index().between(first, first + SEQ_MASK))
        return [place - first for place in found]

    def orphans(self) -> list[str]:
        numbers = "SELECT number FROM {}"
        banks, generations, blobs = (
            {number for (number,) in self._all(numbers.format(table), kinds=(int,))}
            for table in ("bank", "generation", "blob")
        )
        stretches = (
            ("record", "records", "bank", SEQ_BITS, banks),
            ("node", "nodes of trees", "bank", NODE_BITS, banks),
            ("vector", "vectors", "generation", SEQ_BITS, generations),
            ("piece", "pieces of files", "file", PIECE_BITS, blobs),
        )
        found = [
            f"there are {what} of no {owner}"
            for table, what, owner, bits, known in stretches
            if not self._stretches(table, bits) <= known
        ]
        for table, what in (("link", "links"), ("generation", "vectors"), ("blob", "files")):
            sql = f"SELECT DISTINCT bank FROM {table}"  # noqa: S608 - our own names
            if not {number for (number,) in self._all(sql, kinds=(int,))} <= banks:
                found.append(f"there are {what} of no bank")
        if self._all("SELECT 1 FROM blob WHERE digest IS NULL LIMIT 1"):
            found.append("there are files without a digest")
        if not banks.issuperset(self._word_index().banks()):
            found.append("there are words of no bank")
        return found

    def _stretches(self, table: str, bits: int) -> set[int]:
        """Return the numbers with rows in a table, each looked up by the key."""
        found, start = set[int](), -(1 << 63)
        sql = f"SELECT min(place) FROM {table} WHERE place >= ?"  # noqa: S608 - our own names
        while (place := self._all(sql, start)[0][0]) is not None:
            number = place >> bits
            found.add(number)
            start = (number + 1) << bits
            if start >= 1 << 63:
                break
        return found

    def _word_sums(self) -> WordSums:
        """Return the sums of words for comparisons with the index; they cache words."""
        index = self._word_index()
        if self._sums is None or not self._sums.is_of(index):
            self._sums = index.comparing()
        return self._sums

    def _word_index(self) -> WordIndex:
        """Return the index of words, read and verified once until the next write.

        Raises:
            StoreDamagedError: If it is inconsistent.
        """
        self._all(VOCABULARY)  # the first time, it counts as a change
        moment = self.stamp(), self._connection.total_changes()
        found = self._indexes.get(moment)
        if found is None:
            self._require_sound_words()
            found = WordIndex(self._each(INSTANCES, kinds=None))
            if self._connection.txn_state("main") != apsw.SQLITE_TXN_WRITE:
                self._indexes.clear()  # a write transaction may be rolled back
                self._indexes[moment] = found
        return found

    def _require_sound_words(self) -> None:
        """Require that the tables of the index of words are consistent."""
        problems = [text for (text,) in self._all("PRAGMA integrity_check(words)")]
        if problems != ["ok"]:
            raise self._damaged(f"the index of words is damaged: {problems[0]}")
        totals = self._all(TOTALS, kinds=(bytes,))
        told = varints(totals[0][0]) if totals else []
        sizes = self._all("SELECT sz FROM words_docsize", kinds=(bytes,))
        counted = [len(sizes), sum(sum(varints(size)) for (size,) in sizes)]
        if (told or [0, 0]) != counted:
            raise self._damaged("the index of words counts other words than it has")
        if self._all("SELECT k, v FROM words_config") != [("version", FTS5_VERSION)]:
            raise self._damaged("the index of words has settings that are not ours")

    def indexed_text(self, number: int, row: Row, before: dict[tuple[str, str], str]) -> str:
        """Return the words to index for a row: its own, and those of the row before it.

        Args:
            number: The number of the bank.
            row: The row.
            before: The terms of the preceding rows, by session or run, which are not queried then.
                The row's own are added.
        """
        terms, thread = _terms.index_text(row.text or ""), thread_of(row)
        if thread is None:
            return terms
        last = before.get(thread)
        if last is None:
            words = self._last_words(number, thread, (number << SEQ_BITS) + row.seq)
            last = _terms.index_text(words)
        before[thread] = terms
        return f"{last} {terms}"  # no term spans lines, so none is cut here

    def _last_words(self, number: int, thread: tuple[str, str], place: int) -> str:
        column, value = thread
        sql = (
            f"SELECT body FROM record WHERE bank = ? AND {column} = ? AND place < ?"  # noqa: S608 - one of two words
            " AND body IS NOT NULL ORDER BY place DESC LIMIT 1"
        )
        found = self._all(sql, number, value, place)
        return words_of(found[0][0]) if found else ""

    @property
    def vectors(self) -> SqliteVectors:
        return SqliteVectors(self._connection, self._name)

    @property
    def blobs(self) -> SqliteBlobs:
        return SqliteBlobs(self._connection, self._name)


def _together(name: str) -> str:
    """Return an expression with all values of a column, unambiguous."""
    value = f'quote("{name}")' if name in _RAW else f'"{name}"'
    return f"CAST(json_group_array({value}) AS BLOB)"


def _varint(number: int) -> bytes:
    """Return a number as SQLite encodes it, seven bits to a byte."""
    found = bytes([number & 0x7F])
    while number := number >> 7:
        found = bytes([0x80 | number & 0x7F]) + found
    return found


def _marks(values: Sequence[Any]) -> str:
    return ", ".join("?" * len(values))


def _clauses(wanted: Filter) -> Iterator[tuple[str, list[Any]]]:
    for name, values in (("type", wanted.types), ("kind", wanted.kinds)):
        if values is not None:
            yield f"record.{name} IN ({_marks(sorted(values))})", sorted(values)
    slot = raw_slot(wanted.slot)
    for name in ("user", "agent", "run", "app", "session", "slot"):
        value = slot if name == "slot" else getattr(wanted, name)
        if value is not None:
            yield f"record.{name} = ?", [value]
    if wanted.since is not None:
        yield "record.moment >= ?", [wanted.since]
    if wanted.until is not None:
        yield "record.moment < ?", [wanted.until]
    if wanted.as_of is not None:
        yield f"record.place & {SEQ_MASK} < ?", [wanted.as_of]
    yield from _standing_clauses(wanted)


def _standing_clauses(wanted: Filter) -> Iterator[tuple[str, list[Any]]]:
    if not wanted.retired:
        yield (
            _CURRENT if wanted.as_of is None else f"({_CURRENT} OR record.retired >= ?)",
            ([] if wanted.as_of is None else [wanted.as_of]),
        )
    if not wanted.held and wanted.as_of is None:
        yield "record.hold = 0", []


def _narrowing(wanted: Filter | None) -> tuple[str, str, list[Any]]:
    """Return the join of the table of rows to that of words, the conditions, and their values."""
    if wanted is None:
        return "", "", []
    clauses, values = "", list[Any]()
    for clause, given in _clauses(wanted):
        clauses += f" AND {clause}"
        values += given
    return "JOIN record ON record.place = words.rowid", clauses, values


def _row(found: Sequence[Any]) -> Row:
    place, identity, tag, at, body, batch, retired, hold, slot, *owners_and_times = found
    return Row(  # in the order of the columns, for speed: a query has hundreds of rows
        place & SEQ_MASK,
        ID_PREFIX + identity.hex(),
        tag,
        at,
        body,
        batch,
        retired,
        hold != 0,
        None if slot is None else slot.hex(),
        *owners_and_times,
    )
