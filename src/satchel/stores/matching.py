"""Finding words without an index: in texts at hand, as the full-text index of SQLite would.

For stores that have no index of their own, and for whoever wants to know why something was found.
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
"""Rows: a term in more of them is common."""

HANDFUL = 20
"""Rows whose order is not worth looking at common words for."""

RANKED = 4000
"""Of the rows that rare terms nominate together, the newest so many are ranked."""

COMMON = 1000
"""Of the rows that common terms nominate, the newest so many are ranked."""

_HELPING = 2


class Spread(NamedTuple):
    """How a term is spread over the searched rows of a bank."""

    term: str
    rows: int
    """In how many it is; counted up to one more than few are."""

    reach: int
    """The place of the oldest row of those that were counted, the newest first."""


class Search(NamedTuple):
    """What is looked up."""

    needed: tuple[str, ...]
    all_needed: bool
    """Whether a row must have all of them, or any."""

    helping: tuple[str, ...]
    """What counts besides for ranking."""

    newest: int
    """How many rows are ranked at most: the newest."""

    @property
    def phrases(self) -> tuple[str, ...]:
        """Everything that counts for ranking: what is needed counts twice where others help."""
        return (*self.needed, *self.needed, *self.helping) if self.helping else self.needed

    @property
    def expression(self) -> str:
        """The search in FTS5's language."""
        needed = (" AND " if self.all_needed else " OR ").join(self.needed)
        if not self.helping:
            return needed
        return f"({needed}) AND ({' OR '.join((*self.needed, *self.helping))})"


def searches(spreads: Sequence[Spread], few: int) -> Iterator[Search]:
    """Yield what to look up, until enough is found.

    Args:
        spreads: Of all terms of a query.
        few: Rows that are few: ``FEW``.
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
        # The order of a handful is not worth counting in how many rows the common ones are.
        handful = sum(spread.rows for spread in rare) <= HANDFUL
        helping = () if handful else (*others, *common)[:_HELPING]
        yield Search(needed, all_needed=False, helping=helping, newest=RANKED)
    elif common:
        rarest, *others = common
        if others:
            yield Search(common, all_needed=True, helping=(), newest=COMMON)
        yield Search((rarest,), all_needed=False, helping=tuple(others), newest=COMMON)


def _rarest(by_rows: Sequence[Spread], few: int) -> set[str]:
    """Return the terms that nominate, the rarest first, until they have few rows together."""
    chosen, rows = set[str](), 0
    for spread in by_rows:
        if rows < few:
            chosen.add(spread.term)
        rows += spread.rows
    return chosen


_K1, _B = 1.2, 0.75
_LEAST_IDF = 1e-6
SCORE_DIGITS = 9
"""Decimals of a score: what is alike to a person is alike here, in whatever order it was added."""
_TOKENIZER = ("porter", ["unicode61", "remove_diacritics", "2"])

Tokens = Sequence[str]
"""The words of a text as an index has them: folded, stems."""


class Term(NamedTuple):
    """A term of a query."""

    expression: str
    """As FTS5 is asked for it."""

    tokens: tuple[str, ...]
    """What must stand together."""

    prefix: bool
    """Whether the last token may go on."""

    @property
    def words(self) -> str:
        """The term for a person."""
        return readable(self.expression)

    def times(self, tokens: Tokens) -> int:
        """Return how often the term is in a text."""
        *first, last = self.tokens
        if not self.prefix and (not first or last not in tokens):
            return 0 if first else tokens.count(last)  # most terms, and no step of it in Python
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
    """What a ranking compares a text with."""

    texts: int
    tokens: float
    """Of all of them together; a part of one may count."""


@cache
def _stemmer() -> Callable[[str], list[str]]:
    import apsw

    # Typed as what it returns for a text with neither offsets nor tokens at the same place.
    tokenize: Any = apsw.Connection(":memory:").fts5_tokenizer(*_TOKENIZER)
    reason = apsw.FTS5_TOKENIZE_DOCUMENT

    def stems(terms: str) -> list[str]:
        found = tokenize(terms.encode(), reason, None, include_offsets=False)
        return [token for (token,) in cast("list[tuple[str]]", found)]

    return stems


def stems(terms: str) -> list[str]:
    """Return the words that an index makes of terms, as ``_terms.index_text`` gives them."""
    return _stemmer()(terms)


def tokens_of(text: str) -> list[str]:
    """Return the words of a text as an index has them."""
    return _stemmer()(index_text(text))


def terms_of(text: str) -> list[Term]:
    """Return the terms of a query, stop words left out."""
    return list(map(term_of, query_terms(text)))


def term_of(expression: str) -> Term:
    """Return a term of ``sought``, taken apart."""
    phrase = expression.removesuffix(" *")
    return Term(expression, tuple(_stemmer()(phrase.strip('"'))), phrase is not expression)


def scores(
    search: Search,
    texts: Mapping[int, Tokens],
    everything: Collection[Tokens],
    totals: CorpusTotals,
    newest: int,
) -> dict[int, float]:
    """Return the score of each text that a search finds.

    Args:
        search: What is looked for.
        texts: By their places.
        everything: The texts that tell how rare a term is; each term is counted in all of them.
        totals: Of ``everything``.
        newest: How many are ranked at most: those with the highest places.
    """
    every = {name: term_of(name) for name in search.phrases}
    having = {
        name: sum(bool(term.times(one)) for one in everything) for name, term in every.items()
    }
    rarities = {name: rarity(count, totals) for name, count in having.items()}
    needs = [every[name] for name in search.needed]
    found = {
        place: tokens
        for place, tokens in texts.items()
        if (all if search.all_needed else any)(term.times(tokens) for term in needs)
    }
    shown = {place: found[place] for place in sorted(found, reverse=True)[:newest]}
    return ranked(search, shown, rarities, totals)


def ranked(
    search: Search, found: Mapping[int, Tokens], rarities: Mapping[str, float], totals: CorpusTotals
) -> dict[int, float]:
    """Return the score of each text that a search found.

    Args:
        search: What is looked for.
        found: What it found, by place.
        rarities: As ``rarity`` gives them, for each term.
        totals: Of the texts that the rarities were counted in.
    """
    terms = [term_of(name) for name in search.phrases]
    rare = [rarities[name] for name in search.phrases]
    score = dict[int, float]()
    for place, tokens in found.items():
        times = {at: term.times(tokens) for at, term in enumerate(terms)}
        score[place] = round(bm25(times, rare, len(tokens), totals), SCORE_DIGITS)
    return score


def rarity(having: int, totals: CorpusTotals) -> float:
    """Return what a term counts that so many texts have."""
    idf = log((totals.texts - having + 0.5) / (having + 0.5))
    return idf if idf > 0 else _LEAST_IDF


def bm25(
    times: Mapping[int, Any], rarities: Sequence[float], length: Any, totals: CorpusTotals
) -> Any:
    """Return the score of a text; of many, where arrays are given instead of numbers.

    Args:
        times: How often it has each term, by the term's number; what it has in part counts, too.
        rarities: Of the terms, as ``rarity`` gives them.
        length: How many words it has.
        totals: Of the texts that it is compared with.
    """
    mean = max(totals.tokens, 1) / totals.texts
    norm, score = _K1 * (1 - _B + _B * length / mean), 0.0
    for at in sorted(times):
        often = times[at]
        score += rarities[at] * (often * (_K1 + 1) / (often + norm))
    return score


def relevance(terms: Sequence[Term], texts: Mapping[int, Tokens], size: int) -> dict[int, float]:
    """Return how well texts go with a query; those that have none of its terms are left out.

    Args:
        terms: Of the query.
        texts: By their places: all that have a term, so that they tell how rare it is.
        size: How many texts there are with those that have none.
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
    """Return what a row is said after another in: its session, or else its run."""
    if row.session is not None:
        return "session", row.session
    return None if row.run is None else ("run", row.run)


class Mentions:
    """The names of somebody or something.

    Args:
        names: Each as it may stand in a text: a name, a user id, a mail address.

    Raises:
        UsageError: If there is none, or one has no letters, digits or signs that a text is
            searched by.
    """

    def __init__(self, names: Sequence[str]) -> None:
        found = [needle(name) for name in names]
        wrong = [name for name, one in zip(names, found, strict=True) if one is None]
        if wrong or not found:
            what = f"nothing to search for in {wrong[0]!r}" if wrong else "no name to search for"
            raise UsageError(what, field="about", hint="Give a person, an ID or an address.")
        self._needles = [one for one in found if one is not None]

    def are_in(self, text: str) -> bool:
        """Return whether a text mentions one of them, as words of its own."""
        terms = f" {index_text(text)} "
        return any(one in terms for one in self._needles)

    def places_in(self, value: Any) -> list[str]:
        """Return where a JSON value mentions one of them, in keys or values, as JSON pointers.

        Numbers are read as their digits: an id is often one. The ids of records name nobody.
        """
        return [path for path, text in _texts(value) if not is_id(text) and self.are_in(text)]


def _texts(value: Any) -> Iterator[tuple[str, str]]:
    """Yield the texts in a JSON value, keys included, each with the pointer to it."""
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
