"""Finding words without an index: in texts at hand, as the full-text index of SQLite would.

For stores that have no index of their own, and for whoever wants to know why something was found.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache
from math import log
from typing import Any, NamedTuple, cast

from satchel.stores._driving import Search
from satchel.stores._terms import index_text, readable, sought

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


class Totals(NamedTuple):
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
    return list(map(term_of, sought(text)))


def term_of(expression: str) -> Term:
    """Return a term of ``sought``, taken apart."""
    phrase = expression.removesuffix(" *")
    return Term(expression, tuple(_stemmer()(phrase.strip('"'))), phrase is not expression)


def scores(
    search: Search,
    texts: Mapping[int, Tokens],
    everything: Collection[Tokens],
    totals: Totals,
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
    search: Search, found: Mapping[int, Tokens], rarities: Mapping[str, float], totals: Totals
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


def rarity(having: int, totals: Totals) -> float:
    """Return what a term counts that so many texts have."""
    idf = log((totals.texts - having + 0.5) / (having + 0.5))
    return idf if idf > 0 else _LEAST_IDF


def bm25(times: Mapping[int, Any], rarities: Sequence[float], length: Any, totals: Totals) -> Any:
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
    return scores(search, texts, texts.values(), Totals(count, tokens), count)
