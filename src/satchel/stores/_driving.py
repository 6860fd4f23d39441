"""Which words of a query nominate: the rare ones; common ones only help to rank.

A word that every third memory has says little about any of them, and costs the most to look up. So
those terms nominate that are in few rows, at most ``FEW``: ranking so many takes a millisecond, in
a bank of any size (docs/decisions/0102). Common words never add a row to
what rarer ones nominate. Of several rare ones, the rarest nominate until they have as many rows
together as one may; what has none of these, but only less rare ones, would stand last.

Where every term is common, the rarest do it: first the rows that have the two rarest together,
then, where these are too few, the rows of the rarest alone; in both the newest ``COMMON`` are
ranked. Which is the rarest is told by
how far back in the log its newest rows reach, so that no long list has to be counted.

Counts are those of the rows of one bank. Source of the ranking: BM25, as SQLite's FTS5 has it.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

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
