"""Writing a store anew, row by row, and reading all of it to see whether that goes."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from satchel.errors import StoreError
from satchel.stores.ladybug.database import engine, opened, prepare
from satchel.stores.ladybug.schema import EDGE, ENDS, LINK_TABLES, NODES, key_of
from satchel.stores.ladybug.statements import Block, LadybugStatements, translated

_FILE = "graph.new.lbug"
_KEYS = 2000
_ROWS = 16
"""Rows at a time: each may have a mebibyte."""


class _Whole(LadybugStatements):
    """Everything in a store, table by table."""

    def rows(self, table: str) -> Iterator[list[dict[str, Any]]]:
        """Yield the rows of a table, some at a time."""
        columns = ", ".join(f"n.`{name}`" for name in NODES[table])
        cypher = f"MATCH (n:{table}) WHERE n.`{key_of(table)}` = x RETURN {columns}"
        for keys in self._keys(table):
            for start in range(0, len(keys), _ROWS):
                found = self._in(cypher, keys[start : start + _ROWS])
                yield [dict(zip(NODES[table], row, strict=True)) for row in found]

    def links(self, table: str) -> Iterator[list[dict[str, Any]]]:
        """Yield the links in a table, some at a time."""
        kind = ", l.kind" if table == EDGE else ", ''"
        cypher = (
            f"MATCH (a:Thing {{key: x}})-[l:{table}]->(b:Thing) RETURN a.key, b.key, l.place{kind}"
        )
        names = ("source", "target", "place", "kind")
        for keys in self._keys("Thing"):
            yield [dict(zip(names, row, strict=True)) for row in self._in(cypher, keys)]

    def _keys(self, table: str) -> Iterator[list[Any]]:
        key, last = key_of(table), None
        while True:
            after = "" if last is None else f"WHERE n.`{key}` > $last"
            cypher = f"MATCH (n:{table}) {after} RETURN n.`{key}` ORDER BY n.`{key}` LIMIT $most"
            values = {"most": _KEYS} if last is None else {"most": _KEYS, "last": last}
            keys = [found for (found,) in self._all(cypher, **values)]
            if not keys:
                return
            yield keys
            last = keys[-1]


class _New(LadybugStatements):
    """A store that has nothing but its tables yet."""

    def fill(self, whole: _Whole) -> None:
        """Copy everything."""
        for table in NODES:
            for rows in whole.rows(table):
                if table != "Meta":
                    self._make(table, rows)
        for table in LINK_TABLES:
            kind = ", kind: x.kind" if table == EDGE else ""
            cypher = (
                "MATCH (a:Thing {key: x.source}) MATCH (b:Thing {key: x.target})"
                f" CREATE (a)-[:{table} {{place: x.place{kind}}}]->(b)"
            )
            for links in whole.links(table):
                self._many(cypher, links, ENDS)


def rewrite_database(folder: Path, database: Any) -> Path:
    """Write everything in a database to a new file beside it, and return that, closed.

    Raises:
        StoreError: If it cannot be written; nothing of it is left then.
    """
    name, path = str(folder), folder / _FILE
    _remove(path)
    try:
        new = opened(folder, _FILE)
        try:
            prepare(new, name, read_only=False)
            with translated(name):
                old, made = (engine().Connection(each, num_threads=1) for each in (database, new))
            try:
                _New(Block(made, name)).fill(_Whole(Block(old, name)))
            finally:
                old.close()
                made.close()
        finally:
            with translated(name):
                new.close()
    except BaseException:
        _remove(path)
        raise
    return path


def unreadable(view: LadybugStatements) -> list[str]:
    """Return what the engine says of what it cannot read."""
    whole, wrong = _Whole(view._block), list[str]()  # noqa: SLF001 - the same block
    try:
        for table in NODES:
            for _ in whole.rows(table):
                pass
        for table in LINK_TABLES:
            for _ in whole.links(table):
                pass
    except StoreError as error:
        wrong.append(error.message)
    return wrong


def _remove(path: Path) -> None:
    for each in path.parent.glob(path.name + "*"):
        with suppress(FileNotFoundError):
            each.unlink()
