"""Word search: the stems of SQLite's index, in a ``tsvector``.

The server only returns which rows have them. A word is indexed with its bank's number before it, so
that a query reads the words of one bank only. A ``tsvector`` holds about a mebibyte of different
words; a row with more is read by every query. Adjacent words are searched in the row's text of
stems. Scores are those of FTS5: the same in a bank of at most 10,000 records, computed from all of
its rows; in a larger one, computed from the matching rows.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from satchel.model.values import ID_PREFIX
from satchel.ports.rows import Filter, Row
from satchel.stores import text_search
from satchel.stores.postgres.statements import PostgresStatements, raw_text, same
from satchel.stores.text_search import is_searched, thread_of
from satchel.stores.vectors import COLUMNS, raw_id, raw_slot, words_of

LARGE = 1 << 14
"""Bytes of a record that is fetched alone."""

RECORD_TYPES = (
    *("bigint", "bigint", "bytea", "text", "text", "bytea", "bigint", "bigint", "boolean"),
    *(["bytea"] * 9),
)
"""The types of the columns, the bank's number first."""

_SAID = ("kind", "user", "agent", "run", "app", "session", "moment", "expires_at")
"""Columns with text of users, stored as bytes."""

_LONG = frozenset(("body", *_SAID))
_NAMES = {name: f'record."{name}"' for name in ("seq", *COLUMNS)}
SELECT = "SELECT " + ", ".join(_NAMES.values()) + " FROM record"  # noqa: S608 - our own names
SELECT_SMALL = (
    f"SELECT octet_length(body) > {LARGE}, "  # noqa: S608 - our own names
    + ", ".join(
        f"CASE WHEN octet_length(body) > {LARGE} THEN NULL ELSE {column} END"
        if name in _LONG
        else column
        for name, column in _NAMES.items()
    )
    + " FROM record"
)
"""Rows without the long columns of large ones, which the first column marks."""

_CURRENT = "record.retired IS NULL"


def row_of(columns: Sequence[Any]) -> Row:
    """Return a row of the table.

    Raises:
        UnicodeDecodeError: If a text is not valid UTF-8.
    """
    values = dict(zip(_NAMES, columns, strict=True))
    for name in _SAID:
        if values[name] is not None:
            values[name] = values[name].decode()
    values["id"] = ID_PREFIX + values["id"].hex()
    if values["slot"] is not None:
        values["slot"] = values["slot"].hex()
    return Row(**values)


def values_of(row: Row, number: int) -> tuple[Any, ...]:
    """Return the values of a row in the table."""
    texts = (raw_text(getattr(row, name)) for name in _SAID)
    return (
        *(number, row.seq, raw_id(row.id), row.type, row.at, row.body, row.batch, row.retired),
        *(row.hold, raw_slot(row.slot), *texts),
    )


def clauses(where: Filter) -> Iterator[tuple[str, list[Any]]]:
    """Yield the conditions of a filter, each with its values."""
    if where.types is not None:
        yield "record.type = ANY (%s::text[])", [sorted(where.types)]
    if where.kinds is not None:
        yield "record.kind = ANY (%s::bytea[])", [[raw_text(kind) for kind in where.kinds]]
    for name in ("user", "agent", "run", "app", "session"):
        value = raw_text(getattr(where, name))
        if value is not None:
            yield same(_NAMES[name]), [value, value]
    if where.slot is not None:
        yield "record.slot = %s", [raw_slot(where.slot)]
    if where.since is not None:
        yield "record.moment >= %s", [raw_text(where.since)]
    if where.until is not None:
        yield "record.moment < %s", [raw_text(where.until)]
    yield from _state_clauses(where)


def _state_clauses(where: Filter) -> Iterator[tuple[str, list[Any]]]:
    """Yield the conditions on the state of rows."""
    as_of = [] if where.as_of is None else [where.as_of]
    if as_of:
        yield "record.seq < %s", as_of
    if not where.retired:
        yield (f"({_CURRENT} OR record.retired >= %s)" if as_of else _CURRENT), as_of
    if not where.held and not as_of:
        yield "NOT record.hold", []


WORD_TYPES = ("bigint", "bigint", "integer", "boolean", "text", "tsvector")

_MOST_BYTES = 900_000
"""Maximum bytes of the different words of a row, as indexed; a tsvector holds 1 MiB."""

_MOST_LEXEME = 2_000
"""Maximum bytes of a word; a tsvector accepts 2,046."""

_COUNTED = 10_000
"""Maximum words of a row in which terms are counted."""

_WHOLE = 10_000
"""Maximum records of a log whose words are all counted for a ranking, in 2 ms."""

# A sum is in no index, so the server has to use the index of words, with or without statistics of
# the table: scanning a bank for a rare word would read all of it.
_NOMINATED = """
SELECT word.seq, word.size{counts} FROM word {joined}
WHERE word.bank + 0 = %s AND {found} {narrowed} ORDER BY word.seq + 0 DESC LIMIT %s"""
_SPREAD = """
SELECT count(*), coalesce(min(seq), 0) FROM (
    SELECT seq FROM word WHERE word.bank + 0 = %s AND {found} {narrowed}
    ORDER BY seq + 0 DESC LIMIT %s
) AS newest"""
_LAST_WORDS = """
SELECT body FROM record WHERE bank = %s AND {same} AND seq < %s AND body IS NOT NULL
ORDER BY seq DESC LIMIT 1"""


class _Sought(NamedTuple):
    """The condition and parameters of a term of a query."""

    condition: str
    """The condition that a row has it."""

    values: tuple[Any, ...]
    pattern: str
    """Its substring in a row's stems."""


class PostgresWords(PostgresStatements):
    """Nominates rows by their words, and indexes words."""

    def nominated(
        self,
        number: int,
        text: str,
        limit: int,
        where: Filter | None,
        without: Sequence[tuple[int, int]],
    ) -> list[tuple[int, float]]:
        """Return log positions of rows with scores, as ``Reader.candidates``."""
        terms = {term.expression: term for term in text_search.terms_of(text)}
        last = self._all("SELECT max(seq) FROM record WHERE bank = %s", number)[0][0]
        size = 0 if last is None else last + 1
        few = text_search.FEW
        hidden = (
            " AND word.seq NOT BETWEEN %s AND %s" * len(without),
            sum(map(tuple, without), ()),
        )
        spreads = [self._spread(number, term, hidden, few + 1) for term in terms.values()]
        rows = {spread.term: _having(spread, few, size) for spread in spreads}
        totals = self._totals(number) if size <= _WHOLE else None
        best: dict[int, float] = {}
        for search in text_search.searches(spreads, few):
            phrases = {name: terms[name] for name in search.phrases}
            statement = self._statement(number, search, phrases, where, hidden)
            newest = self._all(*statement, max(search.newest, limit))
            for position, score in _scored(
                search, phrases, newest, rows, totals or _estimated(newest, size)
            )[:limit]:
                best.setdefault(position, score)
            if len(best) >= limit:
                break
        return _best(best.items())[:limit]

    def _totals(self, number: int) -> text_search.CorpusTotals:
        sql = "SELECT count(*), coalesce(sum(size), 0)::bigint FROM word WHERE bank = %s"
        ((texts, words),) = self._all(sql, number)
        return text_search.CorpusTotals(max(texts, 1), words)

    def _statement(
        self,
        number: int,
        search: text_search.Search,
        phrases: dict[str, text_search.Term],
        where: Filter | None,
        hidden: tuple[str, tuple[Any, ...]],
    ) -> tuple[Any, ...]:
        """Return a statement with its parameters, except for the limit."""
        counts, counted = "", list[Any]()
        for term in phrases.values():
            counts += (
                f", CASE WHEN word.size > {_COUNTED} THEN 1 ELSE (length(terms)"
                " - length(replace(terms, %s, ''))) / %s END"
            )
            pattern = _pattern(term)
            counted += [pattern, len(pattern)]
        needs = [_sought(number, phrases[name]) for name in search.needed]
        joining = " AND " if search.all_needed else " OR "
        condition = "(" + joining.join(need.condition for need in needs) + ")"
        values = [value for need in needs for value in need.values]
        conditions, joined = hidden[0], ""
        parameters: list[Any] = list(hidden[1])
        if where is not None:
            joined = "JOIN record ON (record.bank, record.seq) = (word.bank, word.seq)"
            for clause, clause_values in clauses(where):
                conditions += f" AND {clause}"
                parameters += clause_values
        sql = _NOMINATED.format(counts=counts, joined=joined, found=condition, narrowed=conditions)
        return (sql, *counted, number, *values, *parameters)

    def _spread(
        self, number: int, term: text_search.Term, hidden: tuple[str, tuple[Any, ...]], most: int
    ) -> text_search.Spread:
        sought = _sought(number, term)
        sql = _SPREAD.format(found=sought.condition, narrowed=hidden[0])
        ((rows, reach),) = self._all(sql, number, *sought.values, *hidden[1], most)
        return text_search.Spread(term.expression, rows, reach)

    def is_searched_by_its_words(self, number: int, row: Row) -> bool:
        """Return whether the index has exactly the words of a row."""
        sql = "SELECT size, huge, terms, lexemes = %s::tsvector FROM word"
        expected = None
        if row.text and is_searched(row):
            (expected,) = self.indexed(number, [row])
        lexemes = "" if expected is None else expected[-1]
        stored = self._all(f"{sql} WHERE bank = %s AND seq = %s", lexemes, number, row.seq)
        if expected is None:
            return not stored
        return stored == [(*expected[2:5], True)]

    def indexed(self, number: int, rows: Iterable[Row]) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of the table of words, each with the words of the turn before."""
        before = dict[tuple[str, str], str]()
        for row in rows:
            words, thread = row.text or "", thread_of(row)
            spoken = words
            if thread is not None:
                last = before.get(thread)
                if last is None:
                    last = self._last_words(number, thread, row.seq)
                before[thread] = words
                spoken = f"{last}\n{words}"
            if words and is_searched(row):
                yield (number, row.seq, *_indexed(number, text_search.tokens_of(spoken)))

    def _last_words(self, number: int, thread: tuple[str, str], seq: int) -> str:
        column, value = thread
        raw = raw_text(value)
        rows = self._all(_LAST_WORDS.format(same=same(column)), number, raw, raw, seq)
        return words_of(rows[0][0]) if rows else ""


def _indexed(number: int, tokens: Sequence[str]) -> tuple[int, bool, str, str]:
    """Return the number of words, whether they are too many, and both indexed forms."""
    different = dict.fromkeys(tokens)
    sizes = [len(f"{number}.{token}".encode()) for token in different]
    huge = sum(sizes) > _MOST_BYTES or max(sizes, default=0) > _MOST_LEXEME
    lexemes = "" if huge else " ".join(_lexeme(number, token) for token in different)
    return len(tokens), huge, "".join(f" {token} " for token in tokens), lexemes


def _lexeme(number: int, token: str) -> str:
    escaped = token.replace("\\", "\\\\").replace("'", "''")
    return f"'{number}.{escaped}'"


def _pattern(term: text_search.Term) -> str:
    """Return the substring of a row's stems where it has a term."""
    pattern = "".join(f" {token} " for token in term.tokens)
    return pattern[:-1] if term.prefix else pattern


def _sought(number: int, term: text_search.Term) -> _Sought:
    pattern = _pattern(term)
    query = " & ".join(_lexeme(number, token) for token in term.tokens)
    query += ":*" if term.prefix else ""
    if len(term.tokens) == 1:
        found = "(lexemes @@ %s::tsquery OR (huge AND strpos(terms, %s) > 0))"
    else:
        found = "((lexemes @@ %s::tsquery OR huge) AND strpos(terms, %s) > 0)"
    return _Sought(found, (query, pattern), pattern)


def _having(spread: text_search.Spread, few: int, size: int) -> int:
    """Return the number of rows with a term, estimated from the newest for a common term."""
    if spread.rows <= few:
        return spread.rows
    return min(size, max(spread.rows, spread.rows * size // max(size - spread.reach, 1)))


def _estimated(rows: Sequence[Sequence[int]], size: int) -> text_search.CorpusTotals:
    """Return the totals of a whole bank, estimated from the matching rows."""
    texts = max(size, 1)
    return text_search.CorpusTotals(texts, sum(row[1] for row in rows) * texts // max(len(rows), 1))


def _scored(
    search: text_search.Search,
    phrases: dict[str, text_search.Term],
    rows: Sequence[Sequence[int]],
    having: dict[str, int],
    totals: text_search.CorpusTotals,
) -> list[tuple[int, float]]:
    """Return the scores of matching rows, best first."""
    rarities = [
        search.phrases.count(name) * text_search.rarity(having[name], totals) for name in phrases
    ]
    scores = (
        (place, text_search.bm25(dict(enumerate(found)), rarities, length, totals))
        for place, length, *found in rows
    )
    return _best((place, round(score, text_search.SCORE_DIGITS)) for place, score in scores)


def _best(scores: Iterable[tuple[int, float]]) -> list[tuple[int, float]]:
    return sorted(scores, key=lambda pair: (-pair[1], pair[0]))
