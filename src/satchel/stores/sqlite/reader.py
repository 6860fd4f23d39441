"""Views: reading rows, links, words, vectors and blobs."""

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
from satchel.ports.store import (
    BLOCK_BITS,
    PIECE_BYTES,
    BlobPieces,
    ColumnBlock,
    MarkedRow,
    RowsDigest,
)
from satchel.ports.vectors import Generation
from satchel.stores import text_search
from satchel.stores import text_search as _terms
from satchel.stores.sqlite.statements import Kinds, SqliteBanks, SqliteStatements, decoding
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
from satchel.stores.text_search import is_searched, thread_of
from satchel.stores.vectors import (
    COLUMNS,
    ID_PREFIX,
    NODE_BITS,
    PIECE_BITS,
    SEQ_BITS,
    SEQ_MASK,
    StoredVector,
    TableBlobs,
    TableBlobsWriter,
    TableVectors,
    TableVectorsWriter,
    column_blocks,
    id_bounds,
    nearest,
    raw_id,
    raw_slot,
    words_of,
)

_KEY = "bank = ? AND model = ? AND dimensions = ? AND generation = ?"
_NUMBERS = "CASE WHEN length(numbers) = width * {} THEN numbers END"
"""Values of another length are never loaded, however long they are."""


class SqliteVectors(SqliteStatements, TableVectors):
    """Reading vectors. The table of a generation is the first place of its stretch."""

    def generations(self, bank: str) -> dict[Generation, int]:
        sql = "SELECT model, dimensions, generation, number FROM generation WHERE bank = ?"
        rows = self._all(sql, self._number(bank), kinds=(str, int, int, int))
        return {self._generation(*key): self._count(number) for *key, number in sorted(rows)}

    def _table(self, bank: str, generation: Generation) -> int | None:
        sql = f"SELECT number FROM generation WHERE {_KEY}"  # noqa: S608 - our own names
        rows = self._all(sql, *self._key(bank, generation), kinds=(int,))
        return self._start(rows[0][0], SEQ_BITS) if rows else None

    def _positions(self, number: int, ids: Sequence[str]) -> dict[str, int]:
        sql = f"SELECT id, place & {SEQ_MASK} FROM record WHERE bank = {number} AND id IN "  # noqa: S608 - our own numbers
        rows = self._in(sql, [raw_id(identity) for identity in ids], (bytes, int))
        positions = {ID_PREFIX + identity.hex(): position for identity, position in rows}
        return {identity: positions[identity] for identity in ids if identity in positions}

    def _stored(
        self, table: int, positions: Sequence[int], dimensions: int
    ) -> Iterator[StoredVector]:
        numbers = _NUMBERS.format(dimensions)
        sql = f"SELECT place, width, {numbers} FROM vector WHERE place IN "  # noqa: S608 - our own numbers
        places = [table + position for position in positions]
        for place, width, packed in self._in(sql, places, (int, int, bytes)):
            yield place - table, width, packed

    def _nearest(
        self, number: int, table: int, vector: tuple[float, ...], limit: int
    ) -> list[tuple[int, float]]:
        sql = (
            f"SELECT vector.place - ?, {_NUMBERS.format(len(vector))} FROM vector"  # noqa: S608 - our own numbers
            " CROSS JOIN record ON record.place = vector.place + ?"
            " WHERE vector.place BETWEEN ? AND ? AND retired IS NULL AND hold = 0"
        )
        values = (table, (number << SEQ_BITS) - table, table, table + SEQ_MASK)
        with decoding(self._name, self._connection):
            return nearest(self._connection.execute(sql, values), vector, limit)

    def _ids(self, number: int, positions: Sequence[int]) -> dict[int, str]:
        first = number << SEQ_BITS
        places = [first + position for position in positions]
        rows = self._in("SELECT place, id FROM record WHERE place IN ", places, (int, bytes))
        return {place - first: ID_PREFIX + identity.hex() for place, identity in rows}

    def _key(self, bank: str, generation: Generation) -> tuple[Any, ...]:
        number = self._number(bank)
        return number, generation.model, generation.dimensions, generation.number

    def _count(self, number: int) -> int:
        first = self._start(number, SEQ_BITS)
        sql = "SELECT count(*) FROM vector WHERE place BETWEEN ? AND ?"
        return int(self._all(sql, first, first + SEQ_MASK)[0][0])


class SqliteVectorsWriter(SqliteVectors, TableVectorsWriter):
    """Writing vectors."""

    def drop(self, bank: str, generation: Generation) -> None:
        first = self._table(bank, generation)
        if first is not None:
            with self._whole():
                self._all("DELETE FROM vector WHERE place BETWEEN ? AND ?", first, first + SEQ_MASK)
                sql = f"DELETE FROM generation WHERE {_KEY}"  # noqa: S608 - our own names
                self._all(sql, *self._key(bank, generation))

    def _store(
        self, bank: str, generation: Generation, rows: Sequence[tuple[int, int, bytes]]
    ) -> None:
        with self._whole():
            first = self._table(bank, generation)
            if first is None:
                sql = "INSERT INTO generation VALUES (NULL, ?, ?, ?, ?) RETURNING number"
                number = self._all(sql, *self._key(bank, generation))[0][0]
                first = self._start(number, SEQ_BITS)
            values = ((first + position, *packed) for position, *packed in rows)
            self._many("INSERT OR REPLACE INTO vector VALUES (?, ?, ?)", values)


class SqliteBlobs(SqliteStatements, TableBlobs):
    """Reading blobs."""

    def listed(self, bank: str) -> Iterator[tuple[str, int]]:
        sql = "SELECT digest, size FROM blob WHERE bank = ? ORDER BY digest"
        rows = self._each(sql, self._number(bank), kinds=(bytes, int))
        return ((ID_PREFIX + digest.hex(), size) for digest, size in rows)

    def _pieces(self, blob: int) -> Iterator[bytes]:
        first = self._start(blob, PIECE_BITS)
        sql = (
            # Values longer than any piece are never loaded.
            "SELECT place, CASE WHEN length(data) <= ? THEN data END FROM piece"
            " WHERE place BETWEEN ? AND ? ORDER BY place"
        )
        last = first + (1 << PIECE_BITS) - 1
        return self._in_order(self._each(sql, PIECE_BYTES, first, last, kinds=(int, bytes)), first)

    def _blob(self, bank: str, digest: str) -> int | None:
        raw, number = raw_id(digest), self._number(bank)
        if ID_PREFIX + raw.hex() != digest:  # another spelling is the digest of no blob
            return None
        sql = "SELECT number FROM blob WHERE bank = ? AND digest = ?"
        rows = self._all(sql, number, raw, kinds=(int,))
        return int(rows[0][0]) if rows else None


class SqliteBlobsWriter(SqliteBlobs, TableBlobsWriter):
    """Writing blobs."""

    def _add(self, number: int, pieces: BlobPieces) -> int:
        sql = "INSERT INTO blob (bank, size) VALUES (?, 0) RETURNING number"
        blob = int(self._all(sql, number)[0][0])
        self._many("INSERT INTO piece VALUES (?, ?)", enumerate(pieces, blob << PIECE_BITS))
        return blob

    def _set_digest(self, blob: int, digest: str, size: int) -> None:
        sql = "UPDATE blob SET digest = ?, size = ? WHERE number = ?"
        self._all(sql, raw_id(digest), size, blob)

    def _remove(self, blob: int) -> None:
        with self._whole():
            first = self._start(blob, PIECE_BITS)
            last = first + (1 << PIECE_BITS) - 1
            self._all("DELETE FROM piece WHERE place BETWEEN ? AND ?", first, last)
            self._all("DELETE FROM blob WHERE number = ?", blob)


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
        rowids = [first + position for position in positions if 0 <= position >> NODE_BITS < 1]
        return {
            position - first: digest for position, digest in self._in(sql, rowids, (int, bytes))
        }

    def get(self, bank: str, ids: Sequence[str]) -> list[Row]:
        number = self._number(bank)
        sql = f"{_SELECT} WHERE bank = {number} AND id IN "
        raw_ids = [raw_id(identity) for identity in ids]
        return [_row(columns) for columns in self._in(sql, raw_ids, _KINDS)]

    def ids(self, bank: str, digits: str, *, limit: int) -> list[str]:
        number = self._number(bank)
        ends = id_bounds(digits)
        if ends is None:
            return []
        # The plus keeps SQLite from scanning the whole bank instead of a range of IDs.
        sql = "SELECT id FROM record WHERE id BETWEEN ? AND ? AND +bank = ? ORDER BY id LIMIT ?"
        rows = self._all(sql, *ends, number, limit, kinds=(bytes,))
        return [ID_PREFIX + identity.hex() for (identity,) in rows]

    def at(self, bank: str, places: Sequence[int]) -> list[Row]:
        first = self._number(bank) << SEQ_BITS
        rowids = [first + position for position in set(places) if 0 <= position <= SEQ_MASK]
        return [_row(columns) for columns in self._in(f"{_SELECT} WHERE place IN ", rowids, _KINDS)]

    def digest(
        self, bank: str, places: tuple[int, int], nodes: tuple[int, int]
    ) -> tuple[bytes, bytes]:
        number, rows, hashes = self._number(bank), RowsDigest(), blake3()
        sql = "SELECT id, type, at, body FROM record WHERE place >= ? AND place < ? ORDER BY place"
        start = number << SEQ_BITS
        cursor = self._each(sql, *(start + seq for seq in places), kinds=None)
        while page := list(islice(cursor, _TOGETHER)):
            raws, tags, ats, bodies = zip(*page, strict=True)
            self._require_kinds((raws, tags, ats, bodies), (bytes, str, str, _BYTES))
            rows.add_columns([ID_PREFIX + raw.hex() for raw in raws], tags, ats, bodies)
        sql, start = (
            "SELECT hash FROM node WHERE place >= ? AND place < ? ORDER BY place",
            (number << NODE_BITS),
        )
        cursor = self._each(sql, *(start + position for position in nodes), kinds=None)
        while page := list(islice(cursor, _TOGETHER)):
            (column,) = zip(*page, strict=True)
            self._require_kinds((column,), (bytes,))
            hashes.update(b"".join(column))
        return rows.value, hashes.digest()

    def scan(
        self, bank: str, where: Filter, *, after: int = -1, newest_first: bool = False
    ) -> Iterator[Row]:
        selects, values, first = list[str](), list[Any](), self._number(bank) << SEQ_BITS
        for source, part in self._parts(bank, where, newest_first=newest_first):
            clauses = ["place > ?", "place <= ?"]
            values += [first + after, first + SEQ_MASK]
            for clause, value in _clauses(part):
                clauses.append(clause)
                values += value
            selects.append(f"{source} {' AND '.join(clauses)}")
        sql = f"{' UNION ALL '.join(selects)} ORDER BY 1 {'DESC' if newest_first else 'ASC'}"
        yield from map(_row, self._each(sql, *values, kinds=_KINDS))

    def _parts(
        self, bank: str, where: Filter, *, newest_first: bool
    ) -> Iterator[tuple[str, Filter]]:
        """Yield the parts of a query: a SELECT, and its filter.

        A query for the newest of some types ends early if SQLite follows the index of each type and
        merges; otherwise it would scan a whole bank for a rare type. Types that are no memories are
        rare: opening a bank reads them first.
        """
        bank = f"bank = {self._number(bank)} AND"
        if any(name is not None for name in (where.session, where.run, where.slot)):
            yield f"{_SELECT} WHERE {bank}", where  # whose indexes begin with the bank
            return
        is_few = newest_first and where.types and len(where.types) <= _MOST_MERGED
        is_few = is_few and where.user is None
        if where.types and (is_few or where.types.isdisjoint(_MEMORIES)):
            for tag in sorted(where.types):
                select = f"{_SELECT} INDEXED BY record_type WHERE {bank}"
                yield select, replace(where, types=frozenset([tag]))
        else:
            yield f"{_SELECT} WHERE", where

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
        low = start + (first << bits)
        last = start + (SEQ_MASK if end is None else (end << bits) - 1)
        with self._little_cache(low, last):
            if names:
                yield from self._blocks_of(names, low, last, bits, marked=marked)
            else:
                marks = self._marked(number, low, last) if marked else ()
                yield from column_blocks((), marks, bits)

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
        self, names: Sequence[str], rowid: int, last: int, bits: int, *, marked: bool
    ) -> Iterator[ColumnBlock]:
        number, size = rowid >> SEQ_BITS, 1 << bits
        # SQLite concatenates the values of a block: half the time of fetching them.
        sql = (
            f"SELECT count(*), {f'sum({_IS_MARKED})' if marked else '? < 0'},"  # noqa: S608 - our own names
            f" {', '.join(map(_together, names))} FROM record WHERE place BETWEEN ? AND ?"
        )
        while rowid <= last:
            low, high = rowid, rowid + size - 1
            ((rows, marks, *values),) = self._all(sql, number, low, high)
            if not rows:
                ((following,),) = self._all(_NEXT, rowid, last)
                if following is None:
                    return
                rowid = following >> bits << bits
                continue
            if rows < size:
                ((low, high),) = self._all(_ENDS, low, high)
            marked_rows = self._marked(number, low, high) if marks else []
            block = (rowid & SEQ_MASK) >> bits
            yield ColumnBlock(
                block, rows, low & SEQ_MASK, high & SEQ_MASK, tuple(values), marked_rows
            )
            rowid += size

    def _marked(self, number: int, first: int, last: int) -> list[MarkedRow]:
        rows = self._all(_MARKED, first, last, number, kinds=_MARKED_KINDS)
        if any(other != number for _, other, *_ in rows):
            raise self._damaged("a row belongs to another bank")
        return [
            MarkedRow(rowid & SEQ_MASK, ID_PREFIX + identity.hex(), tag, at, retired, hold != 0)
            for rowid, _, identity, tag, at, retired, hold in rows
        ]

    def every_link(self, bank: str) -> Iterable[LoggedLink]:
        sql = "SELECT place, source, target, kind FROM link WHERE bank = ?"
        rows = self._all(sql, self._number(bank), kinds=(int, str, str, str))
        return (LoggedLink(rowid & SEQ_MASK, RecordLink(*link)) for rowid, *link in rows)

    def newest_of_sessions(
        self, bank: str, sessions: Sequence[str], types: Collection[str]
    ) -> list[int]:
        sql = (
            "SELECT place FROM record INDEXED BY record_session WHERE bank = ? AND session = ?"  # noqa: S608 - question marks
            f" AND type IN ({_marks(sorted(types))}) AND {_CURRENT} AND hold = 0"
            " ORDER BY place DESC LIMIT 1"
        )
        number, type_names = self._number(bank), sorted(types)
        pages = (self._all(sql, number, session, *type_names, kinds=(int,)) for session in sessions)
        return [rowid & SEQ_MASK for rows in pages for (rowid,) in rows]

    def current(self, bank: str, slot: str) -> Row | None:
        sql = f"{_SELECT} WHERE bank = ? AND slot = ? AND {_CURRENT}"
        rows = self._all(sql, self._number(bank), raw_slot(slot), kinds=_KINDS)
        return _row(rows[0]) if rows else None

    def neighbors(self, bank: str, end: str, *, incoming: bool) -> Iterator[Row]:
        column = "target" if incoming else "source"
        sql = f"SELECT DISTINCT place FROM link WHERE bank = ? AND {column} = ? ORDER BY place"  # noqa: S608 - one of two words
        rowids = [rowid for (rowid,) in self._all(sql, self._number(bank), end, kinds=(int,))]
        for start in range(0, len(rowids), _TOGETHER):
            page = rowids[start : start + _TOGETHER]
            rows = self._in(f"{_SELECT} WHERE place IN ", page, _KINDS)
            yield from sorted(map(_row, rows), key=lambda row: row.seq)

    def links(
        self, bank: str, ends: Sequence[str], *, incoming: bool, kinds: LinkKinds, limit: int
    ) -> list[LoggedLink]:
        number, kind_names = self._number(bank), sorted(kinds or ())
        column = "target" if incoming else "source"
        condition = "" if kinds is None else f" AND link.kind IN ({_marks(kind_names)})"
        sql = (
            "SELECT link.place, source, target, link.kind FROM link"  # noqa: S608 - our own names
            " CROSS JOIN record ON record.place = link.place"
            f" WHERE link.bank = ? AND {column} IN ({_marks(ends)}){condition}"
            f" AND {_CURRENT} AND record.hold = 0"
            " ORDER BY link.place, link.kind, source, target LIMIT ?"
        )
        values = (number, *ends, *kind_names, limit)
        return [
            LoggedLink(rowid & SEQ_MASK, RecordLink(source, target, kind))
            for rowid, source, target, kind in self._all(sql, *values, kinds=(int, str, str, str))
        ]

    def candidates(
        self,
        bank: str,
        text: str,
        *,
        limit: int,
        where: Filter | None = None,
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
        joined, condition, values = _narrowing(where)
        sql = _NOMINATED.format(joined=joined, narrowed=hidden + condition)
        scored: dict[int, float] = {}
        for search in text_search.searches(spreads, few):
            parameters = (search.expression, *bounds, *values, max(search.newest, limit), limit)
            for rowid, rank in self._all(sql, *parameters, kinds=(int, float)):
                scored.setdefault(rowid & SEQ_MASK, -rank)
            if len(scored) >= limit:
                break
        return sorted(scored.items(), key=lambda pair: (-pair[1], pair[0]))[:limit]

    def _spread_of(
        self, terms: Sequence[str], bank: str, bounds: list[int], hidden: str, most: int
    ) -> list[text_search.Spread]:
        cache = {} if self._spreads is None else self._spreads
        head, spreads = self.head(bank), list[text_search.Spread]()
        for term in terms:
            key = (bank, head, term, most, *bounds)
            spread = cache.get(key) or self._spread(term, bounds, hidden, most)
            if len(cache) >= _MOST_SPREADS:
                cache.clear()
            cache[key] = spread
            spreads.append(spread)
        return spreads

    def _spread(self, term: str, bounds: list[int], hidden: str, most: int) -> text_search.Spread:
        sql = _SPREAD.format(narrowed=hidden)
        ((rows, reach),) = self._all(sql, term, *bounds, most, kinds=(int, int))
        return text_search.Spread(term, rows, reach)

    def side(self, bank: str, prefix: str = "") -> dict[str, bytes]:
        # Only the start is a condition on the key, which is in byte order: to check that a row is
        # before an end, SQLite would read all of it, and then once more.
        sql = "SELECT bank, name, value FROM side WHERE (bank, name) >= (?, ?) ORDER BY bank, name"
        values = dict[str, bytes]()
        for owner, name, value in self._each(sql, bank, prefix, kinds=(str, str, bytes)):
            if owner != bank or not name.startswith(prefix):
                break
            values[name] = value
        return values

    def is_indexed(self, bank: str, row: Row) -> bool:
        number = self._number(bank)
        rowid = (number << SEQ_BITS) + row.seq
        for link in row.links:
            sql = "SELECT 1 FROM link WHERE (bank, source, kind, target, place) = (?, ?, ?, ?, ?)"
            back = "SELECT 1 FROM link WHERE bank = ? AND target = ? AND source = ? AND place = ?"
            if not (
                self._all(sql, number, link.source, link.kind, link.target, rowid)
                and self._all(back, number, link.target, link.source, rowid)
            ):
                return False
        indexed = self._all("SELECT 1 FROM words WHERE rowid = ?", rowid)
        if not row.text or not is_searched(row):
            return not indexed
        terms = sorted(set(self.indexed_text(number, row, {}).split()))
        for start in range(0, len(terms), _MOST_TERMS):
            match = " ".join(f'"{term}"' for term in terms[start : start + _MOST_TERMS])
            if not self._all("SELECT 1 FROM words WHERE words MATCH ? AND rowid = ?", match, rowid):
                return False
        return bool(indexed)

    def misindexed(self, bank: str, rows: Sequence[Row]) -> list[int]:
        number, before = self._number(bank), dict[tuple[str, str], str]()
        first, words = number << SEQ_BITS, self._word_sums()
        sql = "SELECT id, sz FROM words_docsize WHERE id BETWEEN ? AND ?"
        bounds = first + rows[0].seq, first + rows[-1].seq
        indexed_sizes = {
            rowid - first: size for rowid, size in self._all(sql, *bounds, kinds=(int, bytes))
        }
        by_id = f"SELECT place, id FROM record WHERE bank = {number} AND id IN "  # noqa: S608 - our own number
        stored_ids = dict(self._in(by_id, [raw_id(row.id) for row in rows], (int, bytes)))
        wrong = [row.seq for row in rows if stored_ids.get(first + row.seq) != raw_id(row.id)]
        for row in rows:
            terms, expected, stems = self.indexed_text(number, row, before), None, list[str]()
            if row.text and is_searched(row):
                stems = text_search.stems(terms)
                expected = _varint(len(stems))
            if indexed_sizes.get(row.seq) != expected or not words.are(first + row.seq, stems):
                wrong.append(row.seq)
        return wrong

    def word_positions(self, bank: str) -> Iterable[int]:
        first = self._number(bank) << SEQ_BITS
        sql = "SELECT id FROM words_docsize WHERE id BETWEEN ? AND ?"
        rowids = {rowid for (rowid,) in self._all(sql, first, first + SEQ_MASK, kinds=(int,))}
        rowids.update(self._word_index().between(first, first + SEQ_MASK))
        return [rowid - first for rowid in rowids]

    def orphans(self) -> list[str]:
        numbers = "SELECT number FROM {}"
        banks, generations, blobs = (
            {number for (number,) in self._all(numbers.format(table), kinds=(int,))}
            for table in ("bank", "generation", "blob")
        )
        ranges = (
            ("record", "records", "bank", SEQ_BITS, banks),
            ("node", "nodes of trees", "bank", NODE_BITS, banks),
            ("vector", "vectors", "generation", SEQ_BITS, generations),
            ("piece", "pieces of files", "file", PIECE_BITS, blobs),
        )
        problems = [
            f"there are {content} that belong to no {owner}"
            for table, content, owner, bits, known in ranges
            if not self._stretches(table, bits) <= known
        ]
        for table, content in (("link", "links"), ("generation", "vectors"), ("blob", "files")):
            sql = f"SELECT DISTINCT bank FROM {table}"  # noqa: S608 - our own names
            if not {number for (number,) in self._all(sql, kinds=(int,))} <= banks:
                problems.append(f"there are {content} that belong to no bank")
        if self._all("SELECT 1 FROM blob WHERE digest IS NULL LIMIT 1"):
            problems.append("there are files without a digest")
        if not banks.issuperset(self._word_index().banks()):
            problems.append("there are words that belong to no bank")
        return problems

    def _stretches(self, table: str, bits: int) -> set[int]:
        """Return the numbers with rows in a table, each looked up by the key."""
        numbers, start = set[int](), -(1 << 63)
        sql = f"SELECT min(place) FROM {table} WHERE place >= ?"  # noqa: S608 - our own names
        while (rowid := self._all(sql, start)[0][0]) is not None:
            number = rowid >> bits
            numbers.add(number)
            start = (number + 1) << bits
            if start >= 1 << 63:
                break
        return numbers

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
        index = self._indexes.get(moment)
        if index is None:
            self._require_sound_words()
            index = WordIndex(self._each(INSTANCES, kinds=None))
            if self._connection.txn_state("main") != apsw.SQLITE_TXN_WRITE:
                self._indexes.clear()  # a write transaction may be rolled back
                self._indexes[moment] = index
        return index

    def _require_sound_words(self) -> None:
        """Require that the tables of the index of words are consistent."""
        problems = [text for (text,) in self._all("PRAGMA integrity_check(words)")]
        if problems != ["ok"]:
            raise self._damaged(f"the index of words is damaged: {problems[0]}")
        totals = self._all(TOTALS, kinds=(bytes,))
        recorded = varints(totals[0][0]) if totals else []
        sizes = self._all("SELECT sz FROM words_docsize", kinds=(bytes,))
        counted = [len(sizes), sum(sum(varints(size)) for (size,) in sizes)]
        if (recorded or [0, 0]) != counted:
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

    def _last_words(self, number: int, thread: tuple[str, str], rowid: int) -> str:
        column, value = thread
        sql = (
            f"SELECT body FROM record WHERE bank = ? AND {column} = ? AND place < ?"  # noqa: S608 - one of two words
            " AND body IS NOT NULL ORDER BY place DESC LIMIT 1"
        )
        rows = self._all(sql, number, value, rowid)
        return words_of(rows[0][0]) if rows else ""

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
    encoded = bytes([number & 0x7F])
    while number := number >> 7:
        encoded = bytes([0x80 | number & 0x7F]) + encoded
    return encoded


def _marks(values: Sequence[Any]) -> str:
    return ", ".join("?" * len(values))


def _clauses(where: Filter) -> Iterator[tuple[str, list[Any]]]:
    for name, values in (("type", where.types), ("kind", where.kinds)):
        if values is not None:
            yield f"record.{name} IN ({_marks(sorted(values))})", sorted(values)
    slot = raw_slot(where.slot)
    for name in ("user", "agent", "run", "app", "session", "slot"):
        value = slot if name == "slot" else getattr(where, name)
        if value is not None:
            yield f"record.{name} = ?", [value]
    if where.since is not None:
        yield "record.moment >= ?", [where.since]
    if where.until is not None:
        yield "record.moment < ?", [where.until]
    if where.as_of is not None:
        yield f"record.place & {SEQ_MASK} < ?", [where.as_of]
    yield from _state_clauses(where)


def _state_clauses(where: Filter) -> Iterator[tuple[str, list[Any]]]:
    if not where.retired:
        yield (
            _CURRENT if where.as_of is None else f"({_CURRENT} OR record.retired >= ?)",
            ([] if where.as_of is None else [where.as_of]),
        )
    if not where.held and where.as_of is None:
        yield "record.hold = 0", []


def _narrowing(where: Filter | None) -> tuple[str, str, list[Any]]:
    """Return the join of the table of rows to that of words, the conditions, and their values."""
    if where is None:
        return "", "", []
    clauses, values = "", list[Any]()
    for clause, parameters in _clauses(where):
        clauses += f" AND {clause}"
        values += parameters
    return "JOIN record ON record.place = words.rowid", clauses, values


def _row(columns: Sequence[Any]) -> Row:
    rowid, identity, tag, at, body, batch, retired, hold, slot, *owners_and_times = columns
    return Row(  # in the order of the columns, for speed: a query has hundreds of rows
        rowid & SEQ_MASK,
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
