"""Links in the graph: each from one thing to another, in the table of its type."""

from collections.abc import Iterable, Sequence

from satchel.errors import InputError
from satchel.ports.rows import Link, Row, derive_row
from satchel.seal.records import shape_of
from satchel.stores.ladybug.linked import table_of
from satchel.stores.ladybug.reading import View
from satchel.stores.ladybug.schema import (
    EDGE,
    ENDS,
    LINK_TABLES,
    NODES,
    SEQ_BITS,
    Values,
    thing_key,
)

_ANY = "|".join(LINK_TABLES)


class Linking(View):
    """What a writer does to the graph of links."""

    def link(self, number: int, rows: Sequence[Row]) -> None:
        """Add rows to the graph, and the links that they make.

        An end that is not here becomes a placeholder, until a record of that name arrives.
        """
        first = number << SEQ_BITS
        links = [(link, first + row.seq) for row in rows for link in dict.fromkeys(row.links)]
        ends: dict[str, int | None] = {}
        for link, _ in links:
            ends |= {link.source: None, link.target: None}
        ends |= {row.id: first + row.seq for row in rows}
        self._put_things(number, ends)
        for table in LINK_TABLES:
            kind = ", kind: x.kind" if table == EDGE else ""
            self._many(
                "MATCH (a:Thing {key: x.source}) MATCH (b:Thing {key: x.target})"
                f" CREATE (a)-[:{table} {{place: x.place{kind}}}]->(b)",
                [
                    {**_link(number, link), "place": place}
                    for link, place in links
                    if table_of(link.kind) == table
                ],
                ENDS,
            )

    def _put_things(self, number: int, ends: dict[str, int | None]) -> None:
        keys = {thing_key(number, name): name for name in ends}
        there = {key for (key,) in self._in("MATCH (t:Thing) WHERE t.key = x RETURN t.key", keys)}
        self._make(
            "Thing",
            [
                {"key": key, "bank": number, "name": name, "place": ends[name]}
                for key, name in keys.items()
                if key not in there
            ],
        )
        self._many(
            "MATCH (t:Thing) WHERE t.key = x.key SET t.place = x.place",
            [
                {"key": key, "place": ends[name]}
                for key, name in keys.items()
                if key in there and ends[name] is not None
            ],
            NODES["Thing"],
        )

    def unlink(self, number: int, row: Row) -> None:
        """Remove the links of a row: those that its bytes make, or whichever there are."""
        place, links = (number << SEQ_BITS) + row.seq, _links_of(row)
        if links is None:
            self._unlink_all(place)
            return
        for table in {table_of(link.kind) for link in links}:
            self._many(
                f"MATCH (a:Thing {{key: x.source}})-[l:{table}]->(b:Thing)"
                " WHERE b.key = x.target AND l.place = $place DELETE l",
                [_link(number, link) for link in links if table_of(link.kind) == table],
                ENDS,
                place=place,
            )
        ends = {name for link in links for name in (link.source, link.target)}
        self._drop_loose(thing_key(number, name) for name in ends)

    def forget(self, number: int, place: int) -> None:
        """Remove a row with all that the graph has of it, however damaged it is."""
        cypher = "MATCH (t:Thing) WHERE t.place = $place RETURN t.key"
        keys = [key for (key,) in self._all(cypher, place=place)]
        self._run("MATCH (t:Thing) WHERE t.place = $place SET t.place = NULL", place=place)
        self._unlink_all(place)
        self._drop_loose(keys)
        self._run("MATCH (r:Record {place: $place}) DELETE r", place=place)

    def _unlink_all(self, place: int) -> None:
        pattern = "MATCH (a:Thing)-[l:{}]->(b:Thing) WHERE l.place = $place"
        cypher = f"{pattern.format(_ANY)} RETURN a.key, b.key"
        ends = {key for pair in self._all(cypher, place=place) for key in pair}
        if ends:
            for table in LINK_TABLES:
                self._run(f"{pattern.format(table)} DELETE l", place=place)
            self._drop_loose(ends)

    def _drop_loose(self, keys: Iterable[str]) -> None:
        """Remove placeholders that no link ends at any more: their names may be what was erased."""
        for key in keys:
            cypher = "MATCH (t:Thing {key: $key}) WHERE t.place IS NULL RETURN t.key"
            linked = f"MATCH (t:Thing {{key: $key}})-[l:{_ANY}]-(:Thing) RETURN l.place LIMIT 1"
            if self._all(cypher, key=key) and not self._all(linked, key=key):
                self._run("MATCH (t:Thing {key: $key}) DELETE t", key=key)


def _link(number: int, link: Link) -> Values:
    return {
        "source": thing_key(number, link.source),
        "target": thing_key(number, link.target),
        "kind": link.kind,
    }


def _links_of(row: Row) -> tuple[Link, ...] | None:
    """Return the links that a row makes; None for a damaged one."""
    if row.body is None:
        return None
    try:
        model = shape_of(row.body)
    except InputError:
        return None
    return tuple(dict.fromkeys(derive_row(model, seq=0, at="", body=row.body).links))
