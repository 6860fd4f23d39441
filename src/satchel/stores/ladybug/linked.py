"""Links by many names at once, for walks along them: one pattern in the graph a table."""

from collections.abc import Sequence

from satchel.ports.rows import Link
from satchel.ports.traversal import Linked, in_order
from satchel.stores.ladybug.schema import EDGE, LINKS, SEQ_MASK, thing_key
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
    keys = [thing_key(number, end) for end in ends if writable(end)]
    tables = {*_KIND_OF, EDGE} if kinds is None else {table_of(kind) for kind in kinds}
    found = list[Linked]()
    for table in sorted(tables) if keys else ():
        kind, narrowed = (f"'{_KIND_OF[table]}'", "") if table in _KIND_OF else ("l.kind", "")
        if table == EDGE and kinds is not None:
            narrowed = " AND l.kind IN $kinds"
        ends_of = "(b:Thing)-[l:{}]->(a)" if incoming else "(a)-[l:{}]->(b:Thing)"
        source, target = ("b", "a") if incoming else ("a", "b")
        cypher = (
            f"UNWIND $keys AS x MATCH (a:Thing {{key: x}}) MATCH {ends_of.format(table)}"
            " MATCH (r:Record) WHERE r.place = l.place AND r.retired IS NULL AND r.hold = false"
            f"{narrowed} RETURN DISTINCT l.place AS place, {source}.name AS source,"
            f" {target}.name AS target, {kind} AS kind"
            " ORDER BY place, kind, source, target LIMIT $limit"
        )
        asked = {"keys": keys, "limit": limit}
        asked |= {"kinds": sorted(kinds or ())} if narrowed else {}
        found += (
            Linked(place & SEQ_MASK, Link(source, target, name))
            for place, source, target, name in view._all(cypher, **asked)  # noqa: SLF001 - as above
        )
    return sorted(found, key=in_order)[:limit]
