"""A graph for the benchmarks, and the same rows raw: the best that each store's engine can do."""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import apsw

from benchmarks import data
from satchel.crypto.sealed_records import Sealed
from satchel.model.records import Edge

CORE = ("similar_to", "derives_from", "supersedes", "transitioned_to")
_SHARES = (50, 40, 5, 5)
_DENSE = 200
"""Entries that an eighth of all edges join, so that each has many."""

_STARTS = 20

Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Graph:
    """Entries, twice as many edges, and where walks start."""

    entries: list[Sealed]
    edges: list[Sealed]
    sparse: list[str]
    dense: list[str]

    @property
    def records(self) -> list[Sealed]:
        """All of it, in the order in which it is logged."""
        return self.entries + self.edges

    def rows(self) -> tuple[list[Row], list[Row]]:
        """Return the nodes and the edges as rows: what no store of such records can do without."""
        nodes = [(each.id, each.type, each.body) for each in self.entries]
        edges = []
        for each in self.edges:
            edge = each.model
            assert isinstance(edge, Edge)
            edges.append((edge.source, edge.target, edge.kind, edge.weight, each.id, each.body))
        return nodes, edges


def graph(entries: int, seed: int = 17) -> Graph:
    """Return a graph with twice as many edges as entries, the same in every run."""
    chance = random.Random(seed)  # noqa: S311 - the same data in every run is the point
    nodes = [*data.sealed(data.entries(entries))]
    names = [node.id for node in nodes]
    dense = names[: min(_DENSE, entries // 8)]
    # Walks from the others start where an eighth of the edges does not end.
    others = names[len(dense) :]
    edges = data.sealed(_edges(chance, 2 * entries, others, dense))
    starts = min(_STARTS, entries // 50)
    return Graph(nodes, [*edges], chance.sample(others, starts), chance.sample(dense, starts))


def _edges(
    chance: random.Random, count: int, others: Sequence[str], dense: Sequence[str]
) -> Iterator[Any]:
    for number in range(count):
        among = dense if number % 8 == 0 else others
        source, target = chance.choice(among), chance.choice(among)
        (kind,) = chance.choices(CORE, _SHARES)
        yield Edge(source=source, target=target, kind=kind, weight=chance.randrange(100) / 100)


# -- raw -----------------------------------------------------------------------------------------

_NODE = "CREATE TABLE node (id TEXT PRIMARY KEY, type TEXT, body {})"
_EDGE = (
    "CREATE TABLE edge (source TEXT, target TEXT, kind TEXT, weight DOUBLE PRECISION, id TEXT"
    " PRIMARY KEY, body {})"
)
_INDEXES = ("node (type)", "edge (source)", "edge (target)", "edge (kind)")


def raw_sqlite(path: Path, graph: Graph) -> Callable[[], None]:
    """Return what writes the rows with ``executemany``, one durable transaction a table."""
    nodes, edges = graph.rows()

    def write() -> None:
        connection = apsw.Connection(str(path))
        connection.pragma("journal_mode", "wal")
        connection.pragma("synchronous", "full")
        for table in (_NODE, _EDGE):
            connection.execute(table.format("BLOB"))
        for number, columns in enumerate(_INDEXES):
            connection.execute(f"CREATE INDEX i{number} ON {columns}")
        with connection:
            connection.executemany("INSERT INTO node VALUES (?, ?, ?)", nodes)
        with connection:
            connection.executemany("INSERT INTO edge VALUES (?, ?, ?, ?, ?, ?)", edges)
        connection.close()

    return write


def raw_postgres(address: str, graph: Graph) -> Callable[[], None]:
    """Return what writes the rows with ``executemany``, one transaction a table."""
    import psycopg

    nodes, edges = graph.rows()

    def write() -> None:
        with psycopg.connect(address) as connection:
            connection.execute("CREATE SCHEMA raw; SET search_path TO raw")
            for table in (_NODE, _EDGE):
                connection.execute(table.format("BYTEA"))
            for columns in _INDEXES:
                connection.execute(f"CREATE INDEX ON {columns}")
            connection.commit()
            with connection.cursor() as cursor:
                cursor.executemany("INSERT INTO node VALUES (%s, %s, %s)", nodes)
                connection.commit()
                cursor.executemany("INSERT INTO edge VALUES (%s, %s, %s, %s, %s, %s)", edges)
                connection.commit()

    return write


def raw_ladybug(path: Path, graph: Graph) -> Callable[[], None]:
    """Return what writes the rows with ``COPY`` from Arrow's tables, the engine's fastest way."""
    import ladybug

    nodes, edges = graph.rows()

    def write() -> None:
        database = ladybug.Database(str(path), max_db_size=1 << 40)
        connection = ladybug.Connection(database)
        connection.execute("CREATE NODE TABLE node (id STRING PRIMARY KEY, type STRING, body BLOB)")
        _copy(connection, "node", ("id", "type", "body"), nodes)
        for kind in CORE:
            connection.execute(
                f"CREATE REL TABLE {kind} (FROM node TO node, weight DOUBLE, id STRING, body BLOB)"
            )
            some = [(*edge[:2], *edge[3:]) for edge in edges if edge[2] == kind]
            _copy(connection, kind, ("source", "target", "weight", "id", "body"), some)
        connection.close()
        database.close()

    return write


def _copy(connection: Any, table: str, names: Sequence[str], rows: Sequence[Row]) -> None:
    import pyarrow as pa

    columns = dict(zip(names, zip(*rows, strict=True), strict=True))
    connection.execute(f"COPY {table} FROM $t", {"t": pa.table(columns)})


_REACHED = """
WITH RECURSIVE reached (id, hops) AS (VALUES (?1, 0) UNION
SELECT CASE WHEN edge.source = reached.id THEN edge.target ELSE edge.source END, hops + 1
FROM reached JOIN edge ON edge.source = reached.id OR edge.target = reached.id WHERE hops < ?2)
SELECT DISTINCT id FROM reached WHERE id <> ?1"""


def raw_hops_sqlite(path: Path) -> Callable[[str, int], set[str]]:
    """Return what reaches names in some hops with a recursive query over the raw rows."""
    connection = apsw.Connection(str(path))

    def ask(start: str, hops: int) -> set[str]:
        return {str(name) for (name,) in connection.execute(_REACHED, (start, hops))}

    return ask


def raw_hops_ladybug(path: Path) -> Callable[[str, int], set[str]]:
    """Return what reaches names in some hops with the engine's own patterns."""
    import ladybug

    connection = ladybug.Connection(ladybug.Database(str(path), max_db_size=1 << 40))

    def ask(start: str, hops: int) -> set[str]:
        result = connection.execute(
            f"MATCH (a:node {{id: $start}})-[* SHORTEST 1..{hops}]-(b:node)"
            " WHERE b.id <> $start RETURN DISTINCT b.id",
            {"start": start},
        )
        return {str(name) for (name,) in result.get_all()}

    return ask
