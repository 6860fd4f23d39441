"""Word search without an index, with the matches and scores of SQLite's full-text index.

For stores without an index of their own, and to explain results. Also which terms of a query a
search needs.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cache
from math import log
from typing import Any, NamedTuple, cast

from satchel.errors import UsageError
from satchel.model.values import is_id
from satchel.ports.rows import PENDING, Row
from satchel.stores.words import index_text, needle, query_terms, readable

FEW = 1000
"""A term in more rows is common."""

HANDFUL = 20
"""Up to so many rows, common words do not count for the order."""

RANKED = 4000
"""The maximum of rows to rank that rare terms nominate: the newest."""

COMMON = 1000
"""The maximum of rows to rank that common terms nominate: the newest."""

_HELPING = 2


class Spread(NamedTuple):
    """How a term is spread over the searched rows of a bank."""

    term: str
    rows: int
    """The number of rows with it, counted up to one more than ``FEW``."""

    reach: int
    """The log position of the oldest counted row; the newest are counted first."""


class Search(NamedTuple):
    """A search for terms."""

    needed: tuple[str, ...]
    all_needed: bool
    """Whether a row must have all of them, or any."""

    helping: tuple[str, ...]
    """Terms that count for ranking only."""

    newest: int
    """The maximum of rows to rank: the newest."""

    @property
    def phrases(self) -> tuple[str, ...]:
        """The terms that count for ranking: needed ones twice if others help."""
        return (*self.needed, *self.needed, *self.helping) if self.helping else self.needed

    @property
    def expression(self) -> str:
        """The search in FTS5's language."""
        needed = (" AND " if self.all_needed else " OR ").join(self.needed)
        if not self.helping:
            return needed
        return f"({needed}) AND ({' OR '.join((*self.needed, *self.helping))})"


def searches(spreads: Sequence[Spread], few: int) -> Iterator[Search]:
    """Yield searches; run them until enough is found.

    Args:
        spreads: The spread of each term of a query.
        few: As ``FEW``.
    """
    there = [spread for spread in spreads if spread.rows]
    rare = [spread for spread in there if spread.rows <= few]
    by_reach = sorted((s for s in there if s.rows > few), key=lambda spread: spread.reach)
    common = tuple(spread.term for spread in by_reach)[:_HELPING]
    if rare:
        by_rows = sorted(rare, key=lambda spread: spread.rows)
        chosen = _rarest(by_rows, few)
        needed = tuple(spread.term for spread in rare if spread.term in chosen)
        others = [spread.term for spread in by_rows if spread.term not in needed]
        # The order of a handful of rows is not worth counting the rows of common terms.
        handful = sum(spread.rows for spread in rare) <= HANDFUL
        helping = () if handful else (*others, *common)[:_HELPING]
        yield Search(needed, all_needed=False, helping=helping, newest=RANKED)
    elif common:
        rarest, *others = common
        if others:
            yield Search(common, all_needed=True, helping=(), newest=COMMON)
        yield Search((rarest,), all_needed=False, helping=tuple(others), newest=COMMON)


def _rarest(by_rows: Sequence[Spread], few: int) -> set[str]:
    """Return the rarest terms, until they have ``few`` rows in total."""
    chosen, rows = set[str](), 0
    for spread in by_rows:
        if rows < few:
            chosen.add(spread.term)
        rows += spread.rows
    return chosen


_K1, _B = 1.2, 0.75
_LEAST_IDF = 1e-6
SCORE_DIGITS = 9
"""Decimals of a score: rounding makes equal scores equal in any order of addition."""
_TOKENIZER = ("porter", ["unicode61", "remove_diacritics", "2"])

Tokens = Sequence[str]
"""The words of a text as in an index: folded and stemmed."""


class Term(NamedTuple):
    """A term of a query."""

    expression: str
    """The term as an FTS5 expression."""

    tokens: tuple[str, ...]
    """Adjacent tokens."""

    prefix: bool
    """Whether the last token is a prefix."""

    @property
    def words(self) -> str:
        """The term for a user."""
        return readable(self.expression)

    def times(self, tokens: Tokens) -> int:
        """Return how often a text contains the term."""
        *first, last = self.tokens
        if not self.prefix and (not first or last not in tokens):
            return 0 if first else tokens.count(last)  # most terms; all steps in C
        if not first:
            return sum(self._ends(token) for token in tokens)
        return sum(
            self._ends(token) and [*tokens[end - len(first) : end]] == first
            for end, token in enumerate(tokens)
            if end >= len(first)
        )

    def _ends(self, token: str) -> bool:
        last = self.tokens[-1]
        return token.startswith(last) if self.prefix else token == last


class CorpusTotals(NamedTuple):
    """The totals of a corpus, for ranking."""

    texts: int
    tokens: float
    """Total number of tokens; may be fractional."""


@cache
def _stemmer() -> Callable[[str], list[str]]:
    import apsw

    # Typed as its result for a text without offsets and colocated tokens.
    tokenize: Any = apsw.Connection(":memory:").fts5_tokenizer(*_TOKENIZER)
    reason = apsw.FTS5_TOKENIZE_DOCUMENT

    def stems(terms: str) -> list[str]:
        found = tokenize(terms.encode(), reason, None, include_offsets=False)
        return [token for (token,) in cast("list[tuple[str]]", found)]

    return stems


def stems(terms: str) -> list[str]:
    """Return the words in the index for terms of ``index_text``."""
    return _stemmer()(terms)


def tokens_of(text: str) -> list[str]:
    """Return the words of a text as in an index."""
    return _stemmer()(index_text(text))


def terms_of(text: str) -> list[Term]:
    """Return the terms of a query, without stop words."""
    return list(map(term_of, query_terms(text)))


def term_of(expression: str) -> Term:
    """Parse a term of ``query_terms``."""
    phrase = expression.removesuffix(" *")
    return Term(expression, tuple(_stemmer()(phrase.strip('"'))), phrase is not expression)


def scores(
    search: Search,
    texts: Mapping[int, Tokens],
    everything: Collection[Tokens],
    totals: CorpusTotals,
    newest: int,
) -> dict[int, float]:
    """Return the score of each text that matches a search.

    Args:
        search: The search.
        texts: The texts, by log position.
        everything: The corpus: each term is counted in all of its texts.
        totals: Of ``everything``.
        newest: The maximum of texts to rank: those with the highest positions.
    """
    every = {name: term_of(name) for name in search.phrases}
    having = {
        name: sum(bool(term.times(text)) for text in everything) for name, term in every.items()
    }
    rarities = {name: rarity(count, totals) for name, count in having.items()}
    needs = [every[name] for name in search.needed]
    matching = {
        position: tokens
        for position, tokens in texts.items()
        if (all if search.all_needed else any)(term.times(tokens) for term in needs)
    }
    newest_matching = {
        position: matching[position] for position in sorted(matching, reverse=True)[:newest]
    }
    return ranked(search, newest_matching, rarities, totals)


def ranked(
    search: Search, texts: Mapping[int, Tokens], rarities: Mapping[str, float], totals: CorpusTotals
) -> dict[int, float]:
    """Return the score of each matching text.

    Args:
        search: The search.
        texts: The matching texts, by log position.
        rarities: The ``rarity`` of each term.
        totals: The totals of the corpus of the rarities.
    """
    terms = [term_of(name) for name in search.phrases]
    rare = [rarities[name] for name in search.phrases]
    scored = dict[int, float]()
    for position, tokens in texts.items():
        times = {at: term.times(tokens) for at, term in enumerate(terms)}
        scored[position] = round(bm25(times, rare, len(tokens), totals), SCORE_DIGITS)
    return scored


def rarity(having: int, totals: CorpusTotals) -> float:
    """Return the weight of a term that so many texts have."""
    idf = log((totals.texts - having + 0.5) / (having + 0.5))
    return idf if idf > 0 else _LEAST_IDF


def bm25(
    times: Mapping[int, Any], rarities: Sequence[float], length: Any, totals: CorpusTotals
) -> Any:
    """Return the score of a text; of many, if arrays are passed instead of numbers.

    Args:
        times: How often it has each term, by the term's number; may be fractional.
        rarities: The ``rarity`` of each term.
        length: Its number of words.
        totals: The totals of the corpus.
    """
    mean = max(totals.tokens, 1) / totals.texts
    norm, score = _K1 * (1 - _B + _B * length / mean), 0.0
    for at in sorted(times):
        often = times[at]
        score += rarities[at] * (often * (_K1 + 1) / (often + norm))
    return score


def relevance(terms: Sequence[Term], texts: Mapping[int, Tokens], size: int) -> dict[int, float]:
    """Return the relevance of texts to a query; texts without any of its terms are omitted.

    Args:
        terms: The terms of the query.
        texts: By log position: all texts with a term, from which its rarity is computed.
        size: The number of texts, including those without any term.
    """
    count = max(size, len(texts))
    tokens = sum(map(len, texts.values())) * count // max(len(texts), 1)
    names = tuple(term.expression for term in terms)
    search = Search(names, all_needed=False, helping=(), newest=count)
    return scores(search, texts, texts.values(), CorpusTotals(count, tokens), count)


def is_searched(row: Row) -> bool:
    """Return whether a row's words are indexed."""
    return row.retired is None or row.retired == PENDING


def thread_of(row: Row) -> tuple[str, str] | None:
    """Return the thread of a row: its session, or else its run."""
    if row.session is not None:
        return "session", row.session
    return None if row.run is None else ("run", row.run)


class Mentions:
    """Searches texts for the names of a person or thing.

    Args:
        names: Names as they occur in texts: a name, a user ID, a mail address.

    Raises:
        UsageError: If there is none, or one has no searchable characters.
    """

    def __init__(self, names: Sequence[str]) -> None:
        needles = [needle(name) for name in names]
        wrong = [name for name, words in zip(names, needles, strict=True) if words is None]
        if wrong or not needles:
            message = f"nothing to search for in {wrong[0]!r}" if wrong else "no name to search for"
            raise UsageError(message, field="about", hint="Give a person, an ID or an address.")
        self._needles = [words for words in needles if words is not None]

    def are_in(self, text: str) -> bool:
        """Return whether a text mentions one of the names, as separate words."""
        terms = f" {index_text(text)} "
        return any(needle in terms for needle in self._needles)

    def places_in(self, value: Any) -> list[str]:
        """Return the JSON pointers where a value mentions one of the names, in keys or values.

        Numbers are read as digits, since IDs are often numbers. IDs of records are ignored.
        """
        return [path for path, text in _texts(value) if not is_id(text) and self.are_in(text)]


def _texts(value: Any) -> Iterator[tuple[str, str]]:
    """Yield the texts in a JSON value, keys included, each with its pointer."""
    waiting: list[tuple[str, Any]] = [("", value)]
    while waiting:
        path, part = waiting.pop()
        if isinstance(part, dict):
            yield from ((f"{path}/{_escaped(key)}", key) for key in part)
            inner = [(f"{path}/{_escaped(key)}", each) for key, each in part.items()]
            waiting += reversed(inner)
        elif isinstance(part, list):
            waiting += reversed([(f"{path}/{at}", each) for at, each in enumerate(part)])
        elif isinstance(part, str):
            yield path, part
        elif isinstance(part, int | float) and not isinstance(part, bool):
            yield path, str(part)


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")
