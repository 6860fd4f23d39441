"""Views: reading rows, links and words."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from satchel.ports.links import Kinds, LoggedLink
from satchel.ports.rows import CONFIG, Filter, RecordLink, Row
from satchel.ports.store import BLOCK_BITS, ColumnBlock, MarkedRow, StoredHead
from satchel.stores.postgres.statements import (
    INDEXED,
    MOST_PLACE,
    NAME_SAID,
    NAMING,
    OwnTransactions,
    PostgresSession,
    among,
    raw_text,
    same,
    translated,
)
from satchel.stores.postgres.vectors import PostgresBlobs, PostgresVectors
from satchel.stores.postgres.words import SELECT, SELECT_SMALL, PostgresWords, clauses, row_of
from satchel.stores.vectors import ID_PREFIX, column_blocks, id_bounds, raw_id, raw_slot

_NAMED = "SELECT id FROM bank WHERE head <> '' AND ({found}) ORDER BY id"
_SAYING = "SELECT bank FROM record WHERE {naming} AND {said} AND position(%s IN body) > 0"
_BY_INDEX = _NAMED.format(
    found="number IN ("
    + " UNION ".join(
        _SAYING.format(naming=NAMING, said=said)
        for said in (f"{NAME_SAID} >= %s AND {NAME_SAID} < %s", f"{NAME_SAID} = ''::bytea")
    )
    + ")"
)
# Each by a key: the first place of a bank, and the places of its rows of a type.
_ONE_BY_ONE = _NAMED.format(
    found=" OR ".join(
        "EXISTS (SELECT FROM record WHERE record.bank = number"
        f" AND {one} AND position(%s IN body) > 0)"
        for one in ("seq = 0", f"type = '{CONFIG}'")
    )
)
_MARKED = """
SELECT seq, id, type, at, retired, hold FROM record
WHERE bank = %s AND seq BETWEEN %s AND %s AND (retired IS NOT NULL OR hold)"""
_BLOCKS = """
SELECT seq >> {bits}, count(*), min(seq), max(seq), {columns} FROM record
WHERE bank = %s AND seq BETWEEN %s AND %s GROUP BY 1 ORDER BY 1"""
_TOGETHER = "convert_to(array_agg(\"{}\" ORDER BY seq)::text, 'UTF8')"
_INDEXED_RIGHT = """
SELECT word.seq FROM word JOIN unnest(
    %s::bigint[], %s::integer[], %s::boolean[], %s::text[], %s::text[]
) AS own (seq, size, huge, terms, lexemes) ON own.seq = word.seq
WHERE word.bank = %s AND (word.size, word.huge, word.terms) = (own.size, own.huge, own.terms)
AND word.lexemes = own.lexemes::tsvector"""

# The numbers in a table are looked up one by one, by an index that begins with them.
_STRETCHES = """
WITH RECURSIVE stretch AS (
    SELECT min({column}) AS number FROM {table}
    UNION ALL
    SELECT (SELECT min({column}) FROM {table} WHERE {column} > stretch.number)
    FROM stretch WHERE stretch.number IS NOT NULL
)
SELECT 1 FROM stretch WHERE number IS NOT NULL
AND number NOT IN (SELECT number FROM {owners}) LIMIT 1"""
_OTHERS = """
SELECT 1 FROM {table} JOIN {owners} ON {owners}.number = {table}.{column}
WHERE {table}.bank <> {owners}.bank LIMIT 1"""
_ORPHANS = (
    *(
        (what, "bank", _STRETCHES.format(table=table, column="bank", owners="bank"))
        for table, what in (
            ("record", "records"),
            ("link", "links"),
            ("node", "nodes of trees"),
            ("word", "words"),
            ("generation", "vectors"),
            ("blob", "files"),
        )
    ),
    *(
        (what, owner, sql.format(table=table, column=column, owners=column))
        for table, what, column, owner in (
            ("vector", "vectors", "generation", "generation"),
            ("piece", "pieces of files", "blob", "file"),
        )
        for sql in (_STRETCHES, _OTHERS)
    ),
)
"""Rows that may belong to nothing, and the queries for them."""


class PostgresView(PostgresWords):
    """A consistent view, on a connection inside a transaction."""

    words_apart = True

    def __init__(self, session: PostgresSession, own: OwnTransactions) -> None:
        super().__init__(session)
        self._own = own

    def stamp(self) -> int:
        return self._own.stamp(self._all("SELECT pg_current_snapshot()::text")[0][0])

    def banks(self, start: str = "", *, limit: int | None = None) -> list[str]:
        sql, values = "SELECT id FROM bank WHERE head <> ''", list[Any]()
        if start:
            sql += " AND id >= %s AND id < %s"
            values += (start, start[:-1] + chr(ord(start[-1]) + 1))
        sql += " ORDER BY id LIMIT %s"  # NULL is no limit
        return [bank for (bank,) in self._all(sql, *values, limit)]

    def named(self, fragment: bytes) -> list[str]:
        rows = list[Any]()
        if self._all("SELECT to_regclass('record_name')") != [(None,)]:  # older tables have none
            *first, last = start = fragment[:INDEXED]
            rows = self._all(_BY_INDEX, start, bytes((*first, last + 1)), fragment, fragment)
        if not rows:  # the index alone cannot show that no bank has the name
            rows = self._all(_ONE_BY_ONE, fragment, fragment)
        return [bank for (bank,) in rows]

    def begun(self) -> list[str]:
        return [bank for (bank,) in self._all("SELECT id FROM bank WHERE head = '' ORDER BY id")]

    def head(self, bank: str) -> StoredHead | None:
        number = self._known(bank)
        rows = self._all("SELECT head, peaks FROM bank WHERE number = %s", number)
        return StoredHead(*rows[0]) if rows else None

    def counts(self, bank: str) -> dict[str, int]:
        sql = "SELECT type, count(*) FROM record WHERE bank = %s GROUP BY type"
        return dict(self._all(sql, self._number(bank)))

    def nodes(self, bank: str, positions: Sequence[int]) -> dict[int, bytes]:
        requested = [position for position in positions if 0 <= position <= MOST_PLACE]
        sql = "SELECT place, hash FROM node WHERE bank = %s AND place = ANY (%s::bigint[])"
        return dict(self._in(sql, requested, self._number(bank)))

    def get(self, bank: str, ids: Sequence[str]) -> list[Row]:
        sql = f"{SELECT} WHERE bank = %s AND id = ANY (%s::bytea[])"
        requested = list(dict.fromkeys(map(raw_id, ids)))
        return self._rows(self._in(sql, requested, self._number(bank)))

    def ids(self, bank: str, digits: str, *, limit: int) -> list[str]:
        number = self._number(bank)
        ends = id_bounds(digits)
        if ends is None:
            return []
        sql = "SELECT id FROM record WHERE bank = %s AND id BETWEEN %s AND %s ORDER BY id LIMIT %s"
        return [ID_PREFIX + identity.hex() for (identity,) in self._all(sql, number, *ends, limit)]

    def at(self, bank: str, places: Sequence[int]) -> list[Row]:
        sql = f"{SELECT} WHERE bank = %s AND seq = ANY (%s::bigint[])"
        requested = [position for position in set(places) if 0 <= position <= MOST_PLACE]
        return self._rows(self._in(sql, requested, self._number(bank)))

    def scan(
        self, bank: str, where: Filter, *, after: int = -1, newest_first: bool = False
    ) -> Iterator[Row]:
        number = self._number(bank)
        condition, values = "bank = %s AND seq > %s", list[Any]((number, after))
        for clause, parameters in clauses(where):
            condition += f" AND {clause}"
            values += parameters
        order = "DESC" if newest_first else "ASC"
        sql = f"{SELECT_SMALL} WHERE {condition} ORDER BY seq {order}"
        for is_large, *columns in self._each(sql, *values):
            if is_large:
                yield from self.at(bank, [columns[0]])
            else:
                with translated(self._name):
                    row = row_of(columns)
                yield row

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
        number, start = self._number(bank), first << bits
        last = MOST_PLACE if end is None else (end << bits) - 1
        marked_rows = self._all(_MARKED, number, start, last) if marked else []
        marks = (
            MarkedRow(seq, ID_PREFIX + identity.hex(), tag, at, retired, hold)
            for seq, identity, tag, at, retired, hold in marked_rows
        )
        by_block = {block.number: block for block in column_blocks((), marks, bits)}
        if not names:
            yield from by_block.values()
            return
        sql = _BLOCKS.format(bits=bits, columns=", ".join(map(_TOGETHER.format, names)))
        for block, count, low, high, *values in self._all(sql, number, start, last):
            marks_of_block = by_block[block].marked if block in by_block else []
            yield ColumnBlock(block, count, low, high, tuple(values), marks_of_block)

    def every_link(self, bank: str) -> Iterable[LoggedLink]:
        sql = "SELECT seq, source, target, kind FROM link WHERE bank = %s"
        with translated(self._name):
            return [
                LoggedLink(seq, RecordLink(*(text.decode() for text in link)))
                for seq, *link in self._all(sql, self._number(bank))
            ]

    def current(self, bank: str, slot: str) -> Row | None:
        sql = f"{SELECT} WHERE bank = %s AND slot = %s AND retired IS NULL"
        rows = self._rows(self._all(sql, self._number(bank), raw_slot(slot)))
        return rows[0] if rows else None

    def neighbors(self, bank: str, end: str, *, incoming: bool) -> Iterator[Row]:
        raw = raw_text(end)
        column = same("target" if incoming else "source")
        sql = f"SELECT DISTINCT seq FROM link WHERE bank = %s AND {column} ORDER BY seq"  # noqa: S608 - one of two words
        positions = [position for (position,) in self._all(sql, self._number(bank), raw, raw)]
        for start in range(0, len(positions), _FEW):
            rows = self.at(bank, positions[start : start + _FEW])
            yield from sorted(rows, key=lambda row: row.seq)

    def links(
        self, bank: str, ends: Sequence[str], *, incoming: bool, kinds: Kinds, limit: int
    ) -> list[LoggedLink]:
        names = list(map(raw_text, ends))
        values = [self._number(bank), names, names]
        condition = among(f"link.{'target' if incoming else 'source'}")
        if kinds is not None:
            condition += " AND link.kind = ANY (%s::bytea[])"
            values.append(list(map(raw_text, sorted(kinds))))
        sql = (
            "SELECT link.seq, source, target, link.kind FROM link"  # noqa: S608 - our own names
            " JOIN record ON record.bank = link.bank AND record.seq = link.seq"
            f" WHERE link.bank = %s AND {condition} AND record.retired IS NULL AND NOT record.hold"
            " ORDER BY link.seq, link.kind, source, target LIMIT %s"
        )
        with translated(self._name):
            return [
                LoggedLink(position, RecordLink(*(text.decode() for text in link)))
                for position, *link in self._all(sql, *values, min(limit, MOST_PLACE))
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
        return self.nominated(self._number(bank), text, limit, where, without)

    def side(self, bank: str, prefix: str = "") -> dict[str, bytes]:
        if "\0" in bank:
            return {}
        raw = prefix.encode()
        sql = (
            "SELECT name, value FROM side"
            " WHERE bank = %s AND substr(name, 1, %s) = %s ORDER BY name"
        )
        with translated(self._name):
            return {name.decode(): value for name, value in self._all(sql, bank, len(raw), raw)}

    def is_indexed(self, bank: str, row: Row) -> bool:
        number = self._number(bank)
        sql = "SELECT source, target, kind FROM link WHERE bank = %s AND seq = %s"
        stored = {tuple(columns) for columns in self._all(sql, number, row.seq)}
        expected = {tuple(map(raw_text, link)) for link in row.links}
        return stored == expected and self.is_searched_by_its_words(number, row)

    def misindexed(self, bank: str, rows: Sequence[Row]) -> list[int]:
        number = self._number(bank)
        expected = {words[1]: words for words in self.indexed(number, rows)}
        columns = [list(column) for column in zip(*expected.values(), strict=True)][1:]
        right = set[int]()
        if columns:
            right = {seq for (seq,) in self._all(_INDEXED_RIGHT, *columns, number)}
        by_id = "SELECT seq, id FROM record WHERE bank = %s AND id = ANY (%s::bytea[])"
        stored_ids = dict(self._in(by_id, [raw_id(row.id) for row in rows], number))
        lost = {row.seq for row in rows if stored_ids.get(row.seq) != raw_id(row.id)}
        bounds = rows[0].seq, rows[-1].seq
        sql = "SELECT seq FROM word WHERE bank = %s AND seq BETWEEN %s AND %s"
        indexed = {seq for (seq,) in self._all(sql, number, *bounds)}
        return sorted(lost | (expected.keys() - right) | (indexed - expected.keys()))

    def word_positions(self, bank: str) -> Iterable[int]:
        sql = "SELECT seq FROM word WHERE bank = %s"
        return [seq for (seq,) in self._all(sql, self._number(bank))]

    def orphans(self) -> list[str]:
        problems = [
            f"there are {content} that belong to no {owner}"
            for content, owner, sql in _ORPHANS
            if self._all(sql)
        ]
        if self._all("SELECT 1 FROM blob WHERE digest IS NULL LIMIT 1"):
            problems.append("there are files without a digest")
        return problems

    @property
    def vectors(self) -> PostgresVectors:
        return PostgresVectors(self._session)

    @property
    def blobs(self) -> PostgresBlobs:
        return PostgresBlobs(self._session)

    def _rows(self, rows: Sequence[Any]) -> list[Row]:
        with translated(self._name):
            return list(map(row_of, rows))


_FEW = 16
"""Neighbors per query; each may have the maximum size of a record."""
