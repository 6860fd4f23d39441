"""Looking for words: the engine reads the words of a bank's rows from end to end.

Its own full-text index is an extension that has to be downloaded. A column of words is read at
some 10 million rows a second and term; what nominates is decided as in every store
(``stores._driving``), and ranked as SQLite ranks it, with the counts of the bank itself.
"""

from collections.abc import Sequence
from typing import Any

from satchel.stores import _driving, matching
from satchel.stores.ladybug.schema import SEQ_MASK, Values
from satchel.stores.ladybug.statements import Statements

_SEARCHED = (
    "MATCH (r:Record) WHERE r.place >= $first AND r.place <= $last"
    " AND r.words IS NOT NULL AND (r.retired IS NULL OR r.retired = -1)"
)


def candidates(
    view: Statements,
    first: int,
    text: str,
    *,
    limit: int,
    shown: tuple[str, Values],
    without: Sequence[tuple[int, int]],
) -> list[tuple[int, float]]:
    """Return the places of the rows that words nominate, as ``Reader.candidates``.

    Args:
        view: Of the store.
        first: The first place of the bank.
        text: Words.
        limit: How many at most.
        shown: What else is asked of the rows, and the values for it.
        without: Stretches that are left out.
    """
    return _Looking(view, first, matching.terms_of(text), without).found(limit, shown)


class _Looking:
    def __init__(
        self,
        view: Statements,
        first: int,
        terms: Sequence[matching.Term],
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

    def found(self, limit: int, shown: tuple[str, Values]) -> list[tuple[int, float]]:
        """Return places with scores, best first."""
        few = _driving.FEW
        totals, having = self._counted()
        spreads = [self._spread(name, rows, few + 1) for name, rows in having.items()]
        found: dict[int, float] = {}
        for search in _driving.searches(spreads, few):
            newest = max(search.newest, limit)
            texts = self._texts(search, newest, shown)
            rarity = {name: matching.rarity(having[name], totals) for name in search.phrases}
            for place, score in matching.ranked(search, texts, rarity, totals).items():
                found.setdefault(place, score)
            if len(found) >= limit:
                break
        return sorted(found.items(), key=lambda pair: (-pair[1], pair[0]))[:limit]

    def _counted(self) -> tuple[matching.Totals, dict[str, int]]:
        """Return how much is searched, and in how many rows each term is."""
        asked, values = "", dict(self._values)
        for number, term in enumerate(self._terms.values()):
            asked += f", sum(CASE WHEN r.words CONTAINS $term{number} THEN 1 ELSE 0 END)"
            values[f"term{number}"] = _part(term)
        ((texts, tokens, *having),) = self._ask(
            f"{self._rows} RETURN count(*), sum(r.terms){asked}", **values
        )
        counts = (int(count or 0) for count in having)
        totals = matching.Totals(max(texts, 1), int(tokens or 0))
        return totals, dict(zip(self._terms, counts, strict=True))

    def _spread(self, name: str, rows: int, most: int) -> _driving.Spread:
        """Return how a term is spread; how far back matters for common ones alone."""
        if rows < most:
            return _driving.Spread(name, rows, 0)
        cypher = (
            f"{self._rows} AND r.words CONTAINS $term"
            " RETURN r.place ORDER BY r.place DESC LIMIT $most"
        )
        asked = {**self._values, "term": _part(self._terms[name]), "most": most}
        return _driving.Spread(name, most, min(place for (place,) in self._ask(cypher, **asked)))

    def _texts(
        self, search: _driving.Search, newest: int, shown: tuple[str, Values]
    ) -> dict[int, list[str]]:
        """Return the words of the newest rows that a search needs, by place."""
        values, needed = {**self._values, **shown[1], "newest": newest}, list[str]()
        for number, name in enumerate(search.needed):
            values[f"term{number}"] = _part(self._terms[name])
            needed.append(f"r.words CONTAINS $term{number}")
        either = (" AND " if search.all_needed else " OR ").join(needed)
        cypher = (
            f"{self._rows}{shown[0]} AND ({either})"
            " RETURN r.place, r.words ORDER BY r.place DESC LIMIT $newest"
        )
        return {place & SEQ_MASK: words.split() for place, words in self._ask(cypher, **values)}


def _part(term: matching.Term) -> str:
    """Return the part of a row's words that a term is."""
    return f" {' '.join(term.tokens)}{'' if term.prefix else ' '}"
