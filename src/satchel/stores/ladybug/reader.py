"""Views: reading rows, links and words."""

from collections.abc import Iterable, Iterator, Sequence
from types import NoneType
from typing import Any, NamedTuple

from satchel.crypto.sealed_records import PREFIX
from satchel.model.values import is_id
from satchel.ports.links import Kinds, LoggedLink, link_sort_key
from satchel.ports.rows import CONFIG, Filter, RecordLink, Row
from satchel.ports.store import BLOCK_BITS, ColumnBlock, MarkedRow, StoredHead
from satchel.stores import text_search
from satchel.stores.ladybug.statements import (
    EDGE,
    LINK_TABLES,
    LINKS,
    LadybugStatements,
    Values,
    seqs,
    thing_key,
    writable,
)
from satchel.stores.ladybug.vectors import LadybugBlobs, LadybugVectors
from satchel.stores.text_search import is_searched, thread_of
from satchel.stores.vectors import (
    COLUMNS,
    NODE_BITS,
    PIECE_BITS,
    SEQ_BITS,
    SEQ_MASK,
    column_blocks,
    id_bounds,
    words_of,
)

KIND_OF = {table: kind for kind, table in LINKS.items()}
"""The type of links by table, for the core types."""


def table_of(kind: str) -> str:
    """Return the table of a type of links."""
    return LINKS.get(kind, EDGE)


def linked(
    view: LadybugStatements,
    number: int,
    ends: Sequence[str],
    *,
    incoming: bool,
    kinds: frozenset[str] | None,
    limit: int,
) -> list[LoggedLink]:
    """Return links of a bank, as ``LinkedView.links``.

    Args:
        view: The view.
        number: The number of the bank.
        ends: Names.
        incoming: Whether they are the targets.
        kinds: The types of links; None for all.
        limit: How many at most.
    """
    keys = [thing_key(number, end) for end in dict.fromkeys(ends) if writable(end)]
    tables = LINK_TABLES if kinds is None else {table_of(kind) for kind in kinds}
    named, names = _named(view, keys)
    links, after = list[LoggedLink](), -1
    while names and tables and len(links) < limit:
        query = _LinkQuery(named, names, sorted(tables), incoming)
        rows = query.run(view, after=after, most=limit)
        current = _current(view, {rowid for rowid, *_ in rows})
        page = {
            LoggedLink(rowid & SEQ_MASK, RecordLink(source, target, kind or KIND_OF[table]))
            for rowid, source, target, table, kind in rows
            if rowid in current
        }
        links += (logged for logged in page if kinds is None or logged.link.kind in kinds)
        if len(rows) < limit:
            break
        after = rows[-1][0]
    return sorted(links, key=link_sort_key)[:limit]


def _named(view: LadybugStatements, keys: list[str]) -> tuple[str, Values]:
    """Return the condition on the things with some keys, and its parameters.

    The engine looks up a single key by its index. For several it scans all things, and comparing
    their offsets costs a twentieth of comparing their keys: 45 ms against 750 ms among 300,000.
    """
    if len(keys) == 1:
        return "a.key = $key", {"key": keys[0]}
    cypher = "MATCH (t:Thing) WHERE t.key = x RETURN offset(id(t))"
    offsets = [offset for (offset,) in view._in(cypher, keys)]  # noqa: SLF001 - a part of it
    return "offset(id(a)) IN $there", {"there": offsets} if offsets else {}


class _LinkQuery(NamedTuple):
    """A query for links."""

    named: str
    names: Values
    tables: Sequence[str]
    incoming: bool

    def run(self, view: LadybugStatements, *, after: int, most: int) -> list[list[Any]]:
        """Return links of the records after a row key, in order, all links of each record."""
        ends = "(b:Thing)-[l:{}]->(a:Thing)" if self.incoming else "(a:Thing)-[l:{}]->(b:Thing)"
        source, target = ("b", "a") if self.incoming else ("a", "b")
        kind = "l.kind" if EDGE in self.tables else "''"
        pattern = f"MATCH {ends.format('|'.join(self.tables))} WHERE {self.named} AND "
        columns = (
            f" RETURN l.place AS place, {source}.name, {target}.name, label(l), {kind}"
            " ORDER BY place"
        )
        cypher = f"{pattern}l.place > $after{columns} LIMIT $most"
        rows = list(view._each(cypher, **self.names, after=after, most=most))  # noqa: SLF001 - a part of it
        if len(rows) == most:  # the last record may have more links
            last = rows[-1][0]
            rows = [row for row in rows if row[0] != last]
            cypher = f"{pattern}l.place = $last{columns}"
            rows += view._each(cypher, **self.names, last=last)  # noqa: SLF001 - a part of it
        return rows


def _current(view: LadybugStatements, rowids: set[int]) -> set[int]:
    """Return the keys of current records that are not in quarantine."""
    cypher = (
        "MATCH (r:Record) WHERE r.place = x AND r.retired IS NULL AND r.hold = false RETURN r.place"
    )
    return {rowid for (rowid,) in view._in(cypher, sorted(rowids))}  # noqa: SLF001 - a part of it


_SEARCHED = (
    "MATCH (r:Record) WHERE r.place >= $first AND r.place <= $last"
    " AND r.words IS NOT NULL AND (r.retired IS NULL OR r.retired = -1)"
)


def candidates(
    view: LadybugStatements,
    first: int,
    text: str,
    *,
    limit: int,
    condition: tuple[str, Values],
    without: Sequence[tuple[int, int]],
) -> list[tuple[int, float]]:
    """Return the log positions of the rows that words nominate, as ``Reader.candidates``.

    Args:
        view: Of the store.
        first: The key of the bank's first row.
        text: Words.
        limit: How many at most.
        condition: Another condition on the rows, and its parameters.
        without: Ranges to skip.
    """
    search = _WordSearch(view, first, text_search.terms_of(text), without)
    return search.candidates(limit, condition)


class _WordSearch:
    def __init__(
        self,
        view: LadybugStatements,
        first: int,
        terms: Sequence[text_search.Term],
        without: Sequence[tuple[int, int]],
    ) -> None:
        self._ask: Any = view._all  # noqa: SLF001 - a part of the view
        self._terms = {term.expression: term for term in terms}
        self._first = first
        self._values: Values = {"first": first, "last": first + SEQ_MASK}
        self._rows = _SEARCHED
        for number, (start, end) in enumerate(without):
            self._rows += f" AND NOT (r.place >= $start{number} AND r.place <= $end{number})"
            self._values |= {f"start{number}": first + start, f"end{number}": first + end}

    def candidates(self, limit: int, condition: tuple[str, Values]) -> list[tuple[int, float]]:
        """Return log positions with scores, best first."""
        few = text_search.FEW
        totals, having = self._counted()
        spreads = [self._spread(name, rows, few + 1) for name, rows in having.items()]
        scored: dict[int, float] = {}
        for search in text_search.searches(spreads, few):
            newest = max(search.newest, limit)
            texts = self._texts(search, newest, condition)
            rarity = {name: text_search.rarity(having[name], totals) for name in search.phrases}
            for position, score in text_search.ranked(search, texts, rarity, totals).items():
                scored.setdefault(position, score)
            if len(scored) >= limit:
                break
        return sorted(scored.items(), key=lambda pair: (-pair[1], pair[0]))[:limit]

    def _counted(self) -> tuple[text_search.CorpusTotals, dict[str, int]]:
        """Return the totals of the searched rows, and the number of rows with each term."""
        sums, values = "", dict(self._values)
        for number, term in enumerate(self._terms.values()):
            sums += f", sum(CASE WHEN r.words CONTAINS $term{number} THEN 1 ELSE 0 END)"
            values[f"term{number}"] = _part(term)
        ((texts, tokens, *having),) = self._ask(
            f"{self._rows} RETURN count(*), sum(r.terms){sums}", **values
        )
        counts = (int(count or 0) for count in having)
        totals = text_search.CorpusTotals(max(texts, 1), int(tokens or 0))
        return totals, dict(zip(self._terms, counts, strict=True))

    def _spread(self, name: str, rows: int, most: int) -> text_search.Spread:
        """Return how a term is spread; its reach is computed for common terms only."""
        if rows < most:
            return text_search.Spread(name, rows, 0)
        cypher = (
            f"{self._rows} AND r.words CONTAINS $term"
            " RETURN r.place ORDER BY r.place DESC LIMIT $most"
        )
        parameters = {**self._values, "term": _part(self._terms[name]), "most": most}
        return text_search.Spread(
            name, most, min(rowid for (rowid,) in self._ask(cypher, **parameters))
        )

    def _texts(
        self, search: text_search.Search, newest: int, condition: tuple[str, Values]
    ) -> dict[int, list[str]]:
        """Return the words of the newest rows that match a search, by log position."""
        values, needed = {**self._values, **condition[1], "newest": newest}, list[str]()
        for number, name in enumerate(search.needed):
            values[f"term{number}"] = _part(self._terms[name])
            needed.append(f"r.words CONTAINS $term{number}")
        either = (" AND " if search.all_needed else " OR ").join(needed)
        cypher = (
            f"{self._rows}{condition[0]} AND ({either})"
            " RETURN r.place, r.words ORDER BY r.place DESC LIMIT $newest"
        )
        return {rowid & SEQ_MASK: words.split() for rowid, words in self._ask(cypher, **values)}


def _part(term: text_search.Term) -> str:
    """Return the substring that a row's words contain where it has a term."""
    return f" {' '.join(term.tokens)}{'' if term.prefix else ' '}"


_TEXT = (str, NoneType)
_KINDS: tuple[type | tuple[type, ...], ...] = (
    *(int, str, str, str, (bytes, NoneType), int, (int, NoneType), bool, _TEXT, _TEXT),
    *(_TEXT, _TEXT, _TEXT, _TEXT, _TEXT, _TEXT, _TEXT),
)
_ROW = "RETURN " + ", ".join(f"r.`{name}`" for name in ("place", *COLUMNS))
_AT = f"MATCH (r:Record) WHERE r.place = x {_ROW}"
_HEADED = "octet_length(b.head) > 0"
_SORTED = "RETURN b.id ORDER BY b.id"
_NAMING = "MATCH (r:Record) WHERE r.place % $places = 0 OR r.type = $type RETURN r.place, r.body"
_LISTED = 2000
"""Row keys in one query."""

_TOGETHER = 1 << 20
"""Bytes of records in one query."""


_OF_BANKS = (
    ("Generation", "vectors"),
    ("Blob", "files"),
    ("Thing", "links"),
    ("Slot", "keys"),
)
"""Tables whose rows have a bank's number, and their names for users."""


class LadybugView(LadybugStatements):
    """A consistent view, in a transaction."""

    def stamp(self) -> int:
        return 0  # only one process has the store, which tracks its own changes

    def banks(self, start: str = "", *, limit: int | None = None) -> list[str]:
        cypher = f"MATCH (b:Bank) WHERE {_HEADED} AND b.id STARTS WITH $start {_SORTED}"
        values: Values = {"start": start}
        if limit is not None:
            cypher, values = f"{cypher} LIMIT $limit", {**values, "limit": limit}
        return [bank for (bank,) in self._all(cypher, **values)]

    def named(self, fragment: bytes) -> list[str]:
        # The engine cannot search in bytes; its scan of the column of types is short.
        rows = self._each(_NAMING, places=SEQ_MASK + 1, type=CONFIG)
        numbers = {
            rowid >> SEQ_BITS
            for rowid, body in rows
            if isinstance(body, bytes) and fragment in body
        }
        cypher = f"MATCH (b:Bank) WHERE {_HEADED} AND b.number IN $numbers {_SORTED}"
        return [bank for (bank,) in self._all(cypher, numbers=sorted(numbers))] if numbers else []

    def begun(self) -> list[str]:
        cypher = f"MATCH (b:Bank) WHERE b.head IS NULL OR NOT {_HEADED} {_SORTED}"
        return [bank for (bank,) in self._all(cypher)]

    def head(self, bank: str) -> StoredHead | None:
        rows = self._all("MATCH (b:Bank {id: $bank}) RETURN b.head, b.peaks", bank=bank)
        if not rows:
            return None
        head, peaks = rows[0]
        if not (isinstance(head, bytes) and isinstance(peaks, bytes)):
            raise self._damaged("a column contains an invalid value")
        return StoredHead(head, peaks)

    def counts(self, bank: str) -> dict[str, int]:
        cypher = f"MATCH (r:Record) {_WITHIN} RETURN r.type, count(*)"
        rows = self._all(cypher, **self._bounds(bank))
        if not all(isinstance(name, str) for name, _ in rows):
            raise self._damaged("a column contains an invalid value")
        return dict(map(tuple, rows))

    def nodes(self, bank: str, positions: Sequence[int]) -> dict[int, bytes]:
        first = self._number(bank) << NODE_BITS
        rowids = [first + position for position in seqs(positions, (1 << NODE_BITS) - 1)]
        cypher = "MATCH (n:TreeNode) WHERE n.place = x RETURN n.place, n.hash"
        return {position - first: digest for position, digest in self._in(cypher, rowids)}

    def get(self, bank: str, ids: Sequence[str]) -> list[Row]:
        return self._at(self.rowids(self._number(bank), ids).values())

    def ids(self, bank: str, digits: str, *, limit: int) -> list[str]:
        self._number(bank)
        if id_bounds(digits) is None:
            return []
        cypher = (
            f"MATCH (r:Record) {_WITHIN} AND r.id STARTS WITH $start"
            " RETURN r.id ORDER BY r.id LIMIT $limit"
        )
        values = {**self._bounds(bank), "start": PREFIX + digits, "limit": limit}
        return [identity for (identity,) in self._each(cypher, **values)]

    def at(self, bank: str, places: Sequence[int]) -> list[Row]:
        first = self._number(bank) << SEQ_BITS
        return self._at(first + position for position in seqs(places, SEQ_MASK))

    def scan(
        self, bank: str, where: Filter, *, after: int = -1, newest_first: bool = False
    ) -> Iterator[Row]:
        first = self._number(bank) << SEQ_BITS
        clauses, values = narrowing(where, first)
        values |= {"first": first + after + 1, "last": first + SEQ_MASK, "most": _LISTED}
        cypher = (
            f"MATCH (r:Record) {_WITHIN}{clauses} RETURN r.place, r.size"
            f" ORDER BY r.place {'DESC' if newest_first else 'ASC'} LIMIT $most"
        )
        while rows := self._all(cypher, **values):
            if not all(isinstance(size, int) for _, size in rows):
                raise self._damaged("a column contains an invalid value")
            for rowids in _weighed(rows):
                yield from sorted(self._at(rowids), key=_seq, reverse=newest_first)
            last = rows[-1][0]
            values["last" if newest_first else "first"] = last + (-1 if newest_first else 1)

    def column_blocks(
        self,
        bank: str,
        names: Sequence[str],
        *,
        first: int,
        end: int | None = None,
        bits: int = BLOCK_BITS,
        marked: bool = True,
    ) -> Iterable[ColumnBlock]:
        number, bounds = self._number(bank), self._bounds(bank)
        if end is not None:
            bounds["last"] = bounds["first"] + (end << bits) - 1
        bounds["first"] += first << bits
        marked_rows = self._all(_MARKED, **bounds, bank=number) if marked else []
        if any(row[1] != number for row in marked_rows):
            raise self._damaged("a row belongs to another bank")
        marks = [MarkedRow(rowid & SEQ_MASK, *values) for rowid, _, *values in marked_rows]
        rows = list[Any]()
        if names:
            columns = ", ".join(f"r.`{name}`" for name in names)
            cypher = f"MATCH (r:Record) {_WITHIN} RETURN r.place, {columns} ORDER BY r.place"
            rows = self._all(cypher, **bounds)
        return column_blocks(((row[0] & SEQ_MASK, *row[1:]) for row in rows), marks, bits)

    def every_link(self, bank: str) -> Iterable[LoggedLink]:
        bounds = self._bounds(bank)
        for table in LINK_TABLES:
            kind = "l.kind" if table == EDGE else "''"
            cypher = (
                f"MATCH (a:Thing)-[l:{table}]->(b:Thing) WHERE l.place >= $first"
                f" AND l.place <= $last RETURN l.place, a.name, b.name, {kind}"
            )
            for rowid, source, target, own_kind in self._all(cypher, **bounds):
                yield LoggedLink(
                    rowid & SEQ_MASK, RecordLink(source, target, own_kind or KIND_OF[table])
                )

    def current(self, bank: str, slot: str) -> Row | None:
        number = self._number(bank)
        rowid = self._slots(number, [slot]).get(slot)
        rows = [] if rowid is None else self._at([rowid])
        return next((row for row in rows if row.slot == slot and row.retired is None), None)

    def neighbors(self, bank: str, end: str, *, incoming: bool) -> Iterator[Row]:
        number = self._number(bank)
        if not writable(end):
            return
        pattern = "<-[l:{}]-" if incoming else "-[l:{}]->"
        cypher = (
            f"MATCH (t:Thing {{key: $key}}){pattern.format('|'.join(LINK_TABLES))}(:Thing)"
            " RETURN DISTINCT l.place"
        )
        rowids = [rowid for (rowid,) in self._all(cypher, key=thing_key(number, end))]
        yield from sorted(self._at(rowids), key=_seq)

    def links(
        self, bank: str, ends: Sequence[str], *, incoming: bool, kinds: Kinds, limit: int
    ) -> list[LoggedLink]:
        return linked(self, self._number(bank), ends, incoming=incoming, kinds=kinds, limit=limit)

    def candidates(
        self,
        bank: str,
        text: str,
        *,
        limit: int,
        where: Filter | None = None,
        without: Sequence[tuple[int, int]] = (),
    ) -> list[tuple[int, float]]:
        first = self._number(bank) << SEQ_BITS
        condition = ("", {}) if where is None else narrowing(where, first)
        return candidates(self, first, text, limit=limit, condition=condition, without=without)

    def side(self, bank: str, prefix: str = "") -> dict[str, bytes]:
        cypher = "MATCH (s:Side) WHERE s.bank = $bank RETURN s.name, s.value"
        rows = self._all(cypher, bank=bank)
        if not all(isinstance(name, str) and isinstance(value, bytes) for name, value in rows):
            raise self._damaged("a column contains an invalid value")
        rows.sort()
        return {name: value for name, value in rows if name.startswith(prefix)}

    def is_indexed(self, bank: str, row: Row) -> bool:
        number = self._number(bank)
        rowid = (number << SEQ_BITS) + row.seq
        for link in row.links:
            cypher = (
                f"MATCH (:Thing {{key: $source}})-[l:{table_of(link.kind)}]->"
                f"(:Thing {{key: $target}}) WHERE l.place = $place{_of_kind(link.kind)} RETURN 1"
            )
            if not self._all(cypher, **_ends(number, link), place=rowid):
                return False
        rows = self._all("MATCH (r:Record {place: $place}) RETURN r.words", place=rowid)
        expected = self.indexed_words(number, row, {}) if row.text else None
        indexed = self.rowids(number, [row.id]).get(row.id) == rowid
        return indexed and bool(rows) and (not is_searched(row) or rows[0][0] == expected)

    def misindexed(self, bank: str, rows: Sequence[Row]) -> list[int]:
        number, before = self._number(bank), dict[tuple[str, str], str]()
        first = number << SEQ_BITS
        bounds = {"first": first + rows[0].seq, "last": first + rows[-1].seq}
        cypher = f"MATCH (r:Record) {_WITHIN} RETURN r.place, r.bank, r.size, r.words, r.terms"
        records = self._each(cypher, **bounds)
        stored: dict[int, list[Any]] = {rowid & SEQ_MASK: rest for rowid, *rest in records}
        slots = {row.slot: first + row.seq for row in rows if row.slot and row.retired is None}
        wrong = {
            rowid & SEQ_MASK
            for slot, rowid in slots.items()
            if self._slots(number, [slot]).get(slot) != rowid
        }
        things = self._things(number, rows)
        wrong |= {
            row.seq for row in rows if things.get(row.id) != [row.id, first + row.seq, number]
        }
        for row in rows:
            words = self.indexed_words(number, row, before) if row.text or row.body else None
            stored_bank, size, indexed, terms = stored.get(row.seq, (None, None, None, None))
            expected = words if row.text else None
            count = expected.count(" ") - 1 if expected else 0
            is_right = not is_searched(row) or (indexed, terms) == (expected, count)
            if stored_bank != number or size != len(row.body or b"") or not is_right:
                wrong.add(row.seq)
        return sorted(wrong)

    def word_positions(self, bank: str) -> Iterable[int]:
        cypher = (
            f"MATCH (r:Record) {_WITHIN} AND r.words IS NOT NULL"
            " AND (r.retired IS NULL OR r.retired = -1) RETURN r.place"
        )
        return (rowid & SEQ_MASK for (rowid,) in self._all(cypher, **self._bounds(bank)))

    def indexed_words(self, number: int, row: Row, before: dict[tuple[str, str], str]) -> str:
        """Return the words to index for a row: its own, and those of the row before it.

        Args:
            number: Of the bank.
            row: The row.
            before: The words of the preceding rows, by session or run, which are not queried then.
                The row's own are added.
        """
        words, thread = row.text or "", thread_of(row)
        if thread is not None:
            last = before.get(thread)
            if last is None:
                last = self._last_words(number, thread, (number << SEQ_BITS) + row.seq)
            if row.body is not None:
                before[thread] = words
            words = f"{last}\n{words}" if last else words
        return f" {' '.join(text_search.tokens_of(words))} "

    def rowids(self, number: int, ids: Sequence[str]) -> dict[str, int]:
        """Return the row keys of the records that exist, by ID."""
        keys = {thing_key(number, identity): identity for identity in ids if is_id(identity)}
        cypher = "MATCH (t:Thing) WHERE t.key = x AND t.place IS NOT NULL RETURN t.key, t.place"
        return {keys[key]: rowid for key, rowid in self._in(cypher, keys)}

    def _things(self, number: int, rows: Sequence[Row]) -> dict[str, list[Any]]:
        """Return name, row key and bank of the things of records, by ID."""
        keys = {thing_key(number, row.id): row.id for row in rows}
        cypher = "MATCH (t:Thing) WHERE t.key = x RETURN t.key, t.name, t.place, t.bank"
        return {keys[key]: values for key, *values in self._in(cypher, keys)}

    def _last_words(self, number: int, thread: tuple[str, str], rowid: int) -> str:
        column, owner = thread
        cypher = (
            f"MATCH (r:Record) {_WITHIN} AND {self._thread_condition(column)}"
            " AND r.body IS NOT NULL RETURN r.place ORDER BY r.place DESC LIMIT 1"
        )
        values = {"first": number << SEQ_BITS, "last": rowid - 1, "value": owner}
        rows = self._at(preceding for (preceding,) in self._all(cypher, **values))
        return words_of(rows[0].body or b"") if rows else ""

    @staticmethod
    def _thread_condition(column: str) -> str:
        """Return the condition on the rows of a session, or of a run outside of sessions."""
        return f"r.`{column}` = $value" + (" AND r.session IS NULL" if column == "run" else "")

    def _slots(self, number: int, slots: Sequence[str]) -> dict[str, int]:
        """Return the row keys of the last holders of slots, by slot."""
        keys = {thing_key(number, slot): slot for slot in slots if writable(slot)}
        cypher = "MATCH (s:Slot) WHERE s.key = x RETURN s.key, s.place"
        return {keys[key]: place for key, place in self._in(cypher, keys)}

    def _at(self, rowids: Any) -> list[Row]:
        return [self._row(columns) for columns in self._in(_AT, rowids)]

    def _row(self, columns: list[Any]) -> Row:
        if not all(map(isinstance, columns, _KINDS)):
            raise self._damaged("a column contains an invalid value")
        rowid, *rest = columns
        return Row(seq=rowid & SEQ_MASK, **dict(zip(COLUMNS, rest, strict=True)))

    def _bounds(self, bank: str) -> Values:
        first = self._number(bank) << SEQ_BITS
        return {"first": first, "last": first + SEQ_MASK}

    def orphans(self) -> list[str]:
        banks, generations, blobs = (
            self._numbers(f"MATCH (n:{table}) RETURN n.number")
            for table in ("Bank", "Generation", "Blob")
        )
        ranges = (
            ("Record", "records", "bank", SEQ_BITS, banks),
            ("TreeNode", "nodes of trees", "bank", NODE_BITS, banks),
            ("Vector", "vectors", "generation", SEQ_BITS, generations),
            ("Piece", "pieces of files", "file", PIECE_BITS, blobs),
        )
        problems = list[str]()
        for table, content, owner, bits, known in ranges:
            cypher = f"MATCH (n:{table}) RETURN DISTINCT n.place - n.place % $size"
            starts = self._numbers(cypher, size=1 << bits)
            if not {start >> bits for start in starts} <= known:
                problems.append(f"there are {content} that belong to no {owner}")
        for table, content in _OF_BANKS:
            if not self._numbers(f"MATCH (n:{table}) RETURN DISTINCT n.bank") <= banks:
                problems.append(f"there are {content} that belong to no bank")
        for table, content in (("Thing", "links"), ("Slot", "keys")):
            prefix = "concat(CAST(n.bank, 'STRING'), ':')"
            cypher = (
                f"MATCH (n:{table}) WHERE NOT starts_with(n.key, {prefix}) RETURN n.bank LIMIT 1"
            )
            if self._numbers(cypher):
                problems.append(f"there are {content} of another bank")
        if self._all("MATCH (b:Blob) WHERE b.digest IS NULL RETURN b.number LIMIT 1"):
            problems.append("there are files without a digest")
        return problems

    def _numbers(self, cypher: str, **values: Any) -> set[int]:
        numbers = {number for (number,) in self._all(cypher, **values)}
        if not all(isinstance(number, int) for number in numbers):
            raise self._damaged("a column contains an invalid value")
        return numbers

    @property
    def vectors(self) -> LadybugVectors:
        return LadybugVectors(self._block)

    @property
    def blobs(self) -> LadybugBlobs:
        return LadybugBlobs(self._block)


_WITHIN = "WHERE r.place >= $first AND r.place <= $last"
_MARKED = (
    f"MATCH (r:Record) {_WITHIN} AND (r.retired IS NOT NULL OR r.hold IS NULL OR r.hold"
    " OR r.bank IS NULL OR r.bank <> $bank)"
    " RETURN r.place, r.bank, r.id, r.type, r.at, r.retired, r.hold"
)


def _of_kind(kind: str) -> str:
    return " AND l.kind = $kind" if table_of(kind) == EDGE else ""


def _ends(number: int, link: RecordLink) -> Values:
    ends = {"source": thing_key(number, link.source), "target": thing_key(number, link.target)}
    return {**ends, "kind": link.kind} if table_of(link.kind) == EDGE else ends


def narrowing(where: Filter, first: int) -> tuple[str, Values]:
    """Return the conditions of a filter on the row ``r``, and their parameters.

    Args:
        where: The filter.
        first: The key of the bank's first row.
    """
    clauses, values = "", dict[str, Any]()
    for name, several in (("type", where.types), ("kind", where.kinds)):
        if several is not None:
            clauses += f" AND r.`{name}` IN $some_{name}" if several else " AND false"
            values |= {f"some_{name}": sorted(several)} if several else {}
    for name in ("user", "agent", "run", "app", "session", "slot"):
        value = getattr(where, name)
        if value is not None:
            clauses += f" AND r.`{name}` = $one_{name}"
            values[f"one_{name}"] = value
    for name, value in (("moment >= $since", where.since), ("moment < $until", where.until)):
        if value is not None:
            clauses += f" AND r.{name}"
            values[name.rpartition("$")[2]] = value
    if where.as_of is not None:
        clauses += " AND r.place < $as_of_place"
        values |= {"as_of_place": first + where.as_of}
    return clauses + _state_condition(where, values), values


def _state_condition(where: Filter, values: Values) -> str:
    if where.as_of is None:
        clause = "" if where.retired else " AND r.retired IS NULL"
        return clause if where.held else clause + " AND r.hold = false"
    if where.retired:
        return ""
    values["as_of"] = where.as_of
    return " AND (r.retired IS NULL OR r.retired >= $as_of)"


def _seq(row: Row) -> int:
    return row.seq


def _weighed(sizes: list[list[int]]) -> Iterator[list[int]]:
    """Split row keys, each with the size of its record, into parts that fit into memory."""
    part, weight = list[int](), 0
    for rowid, size in sizes:
        if part and weight + size > _TOGETHER:
            yield part
            part, weight = [], 0
        part.append(rowid)
        weight += size
    yield part
