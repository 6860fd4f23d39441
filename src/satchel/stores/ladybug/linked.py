"""Links by many names at once, for walks along them: a pattern in the graph."""

from collections.abc import Sequence
from typing import Any

from satchel.ports.rows import Link
from satchel.ports.traversal import Linked, in_order
from satchel.stores.ladybug.schema import EDGE, LINK_TABLES, LINKS, SEQ_MASK, thing_key
from satchel.stores.ladybug.statements import Statements, writable

_KIND_OF = {table: kind for kind, table in LINKS.items()}


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
    found, after = list[Linked](), -1
    while keys and tables and len(found) < limit:
        some = _some(view, keys, sorted(tables), incoming=incoming, after=after, most=limit)
        shown = _shown(view, {place for place, *_ in some})
        links = {
            Linked(place & SEQ_MASK, Link(source, target, kind or _KIND_OF[table]))
            for place, source, target, table, kind in some
            if place in shown
        }
        found += (each for each in links if kinds is None or each.link.kind in kinds)
        if len(some) < limit:
            break
        after = some[-1][0]
    return sorted(found, key=in_order)[:limit]


def _some(
    view: Statements, keys: list[str], tables: list[str], *, incoming: bool, after: int, most: int
) -> list[list[Any]]:
    """Return links that records after a place make, in their order; all of each record."""
    ends = "(b:Thing)-[l:{}]->(a:Thing)" if incoming else "(a:Thing)-[l:{}]->(b:Thing)"
    source, target = ("b", "a") if incoming else ("a", "b")
    kind = "l.kind" if EDGE in tables else "''"
    # Of a list that is unwound, the engine would read all links there are.
    named = "a.key = $key" if len(keys) == 1 else "a.key IN $keys"
    names = {"key": keys[0]} if len(keys) == 1 else {"keys": keys}
    pattern = f"MATCH {ends.format('|'.join(tables))} WHERE {named} AND "
    found = (
        f" RETURN l.place AS place, {source}.name, {target}.name, label(l), {kind} ORDER BY place"
    )
    cypher = f"{pattern}l.place > $after{found} LIMIT $most"
    some = list(view._each(cypher, **names, after=after, most=most))  # noqa: SLF001 - a part of it
    if len(some) == most:  # the last record may make more of them
        last = some[-1][0]
        some = [each for each in some if each[0] != last]
        cypher = f"{pattern}l.place = $last{found}"
        some += view._each(cypher, **names, last=last)  # noqa: SLF001 - a part of it
    return some


def _shown(view: Statements, places: set[int]) -> set[int]:
    """Return those places whose records are current and not in quarantine."""
    cypher = (
        "MATCH (r:Record) WHERE r.place = x AND r.retired IS NULL AND r.hold = false RETURN r.place"
    )
    return {place for (place,) in view._in(cypher, sorted(places))}  # noqa: SLF001 - a part of it
