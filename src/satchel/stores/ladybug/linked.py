"""Links by many names at once, for walks along them: a pattern in the graph."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from satchel.ports.linking.traversal import Linked, in_order
from satchel.ports.rows import Link
from satchel.stores.ladybug.schema import EDGE, LINK_TABLES, LINKS, SEQ_MASK, Values, thing_key
from satchel.stores.ladybug.statements import Statements, writable

KIND_OF = {table: kind for kind, table in LINKS.items()}
"""The type of the links in each table but that of all others."""


def table_of(kind: str) -> str:
    """Return the table of a type of links."""
    return LINKS.get(kind, EDGE)


def linked(
    view: Statements,
    number: int,
    ends: Sequence[str],
    *,
    incoming: bool,
    kinds: frozenset[str] | None,
    limit: int,
) -> list[Linked]:
    """Return links of a bank as ``ports.traversal.Walked.links``.

    Args:
        view: Of the store.
        number: Of the bank.
        ends: Names.
        incoming: Whether they are the targets.
        kinds: The types that are wanted; None for all.
        limit: How many at most.
    """
    keys = [thing_key(number, end) for end in dict.fromkeys(ends) if writable(end)]
    tables = LINK_TABLES if kinds is None else {table_of(kind) for kind in kinds}
    named, names = _named(view, keys)
    found, after = list[Linked](), -1
    while names and tables and len(found) < limit:
        asked = _Asked(named, names, sorted(tables), incoming)
        some = asked.some(view, after=after, most=limit)
        shown = _shown(view, {place for place, *_ in some})
        links = {
            Linked(place & SEQ_MASK, Link(source, target, kind or KIND_OF[table]))
            for place, source, target, table, kind in some
            if place in shown
        }
        found += (each for each in links if kinds is None or each.link.kind in kinds)
        if len(some) < limit:
            break
        after = some[-1][0]
    return sorted(found, key=in_order)[:limit]


def _named(view: Statements, keys: list[str]) -> tuple[str, Values]:
    """Return what is asked of the things that have some keys, and the values that it names.

    A pattern looks up one key alone. For several it reads all things there are, and their places
    in the table cost a twentieth of what their keys do: measured, 45 ms and 750 among 300,000.
    """
    if len(keys) == 1:
        return "a.key = $key", {"key": keys[0]}
    cypher = "MATCH (t:Thing) WHERE t.key = x RETURN offset(id(t))"
    there = [place for (place,) in view._in(cypher, keys)]  # noqa: SLF001 - a part of it
    return "offset(id(a)) IN $there", {"there": there} if there else {}


class _Asked(NamedTuple):
    """Which links are asked for."""

    named: str
    names: Values
    tables: Sequence[str]
    incoming: bool

    def some(self, view: Statements, *, after: int, most: int) -> list[list[Any]]:
        """Return links that records after a place make, in their order; all of each record."""
        ends = "(b:Thing)-[l:{}]->(a:Thing)" if self.incoming else "(a:Thing)-[l:{}]->(b:Thing)"
        source, target = ("b", "a") if self.incoming else ("a", "b")
        kind = "l.kind" if EDGE in self.tables else "''"
        pattern = f"MATCH {ends.format('|'.join(self.tables))} WHERE {self.named} AND "
        found = (
            f" RETURN l.place AS place, {source}.name, {target}.name, label(l), {kind}"
            " ORDER BY place"
        )
        cypher = f"{pattern}l.place > $after{found} LIMIT $most"
        some = list(view._each(cypher, **self.names, after=after, most=most))  # noqa: SLF001 - a part of it
        if len(some) == most:  # the last record may make more of them
            last = some[-1][0]
            some = [each for each in some if each[0] != last]
            cypher = f"{pattern}l.place = $last{found}"
            some += view._each(cypher, **self.names, last=last)  # noqa: SLF001 - a part of it
        return some


def _shown(view: Statements, places: set[int]) -> set[int]:
    """Return those places whose records are current and not in quarantine."""
    cypher = (
        "MATCH (r:Record) WHERE r.place = x AND r.retired IS NULL AND r.hold = false RETURN r.place"
    )
    return {place for (place,) in view._in(cypher, sorted(places))}  # noqa: SLF001 - a part of it
