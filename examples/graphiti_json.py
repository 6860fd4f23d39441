"""Write a Graphiti database as JSON that Satchel reads, and load such JSON into one.

Runs where ``graphiti-core`` is installed, with any database that it opens:

    python graphiti_json.py dump graph.kuzu out.graphiti.json
    python graphiti_json.py load out.graphiti.json other.kuzu

The arguments name Kuzu files; for Neo4j or FalkorDB change ``driver_of``. IDs, times and vectors
are preserved, and no model is called.
"""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, TextIO

from graphiti_core.driver.driver import GraphDriver, GraphProvider
from graphiti_core.driver.kuzu_driver import KuzuDriver
from graphiti_core.edges import (
    CommunityEdge,
    EntityEdge,
    EpisodicEdge,
    HasEpisodeEdge,
    NextEpisodeEdge,
)
from graphiti_core.errors import (
    EdgeNotFoundError,
    GroupsEdgesNotFoundError,
    GroupsNodesNotFoundError,
    NodeNotFoundError,
)
from graphiti_core.nodes import CommunityNode, EntityNode, EpisodicNode, SagaNode

TABLES: dict[str, Any] = {
    "nodes": EntityNode,
    "episodes": EpisodicNode,
    "communities": CommunityNode,
    "sagas": SagaNode,
    "edges": EntityEdge,
    "mentions": EpisodicEdge,
    "has_member": CommunityEdge,
    "has_episode": HasEpisodeEdge,
    "next_episode": NextEpisodeEdge,
}
TOGETHER = 500
NOTHING = (
    EdgeNotFoundError,
    GroupsEdgesNotFoundError,
    GroupsNodesNotFoundError,
    NodeNotFoundError,
)


def tables_of(driver: GraphDriver) -> dict[str, Any]:
    """Return the tables of a database; over Kuzu, graphiti-core 0.31.2 cannot keep sagas."""
    if driver.provider is not GraphProvider.KUZU:
        return TABLES
    return {name: kind for name, kind in TABLES.items() if name not in ("sagas", "has_episode")}


def driver_of(name: str) -> GraphDriver:
    """Open a database."""
    return KuzuDriver(name)


async def groups_of(driver: GraphDriver) -> list[str]:
    """Return the groups that there are; everything in Graphiti is asked for by its group."""
    groups = set[str]()
    for label in ("Entity", "Episodic"):
        rows, _, _ = await driver.execute_query(
            f"MATCH (n:{label}) RETURN DISTINCT n.group_id AS g"
        )
        groups |= {row["g"] for row in rows}
    return sorted(groups)


async def rows_of(driver: GraphDriver, table: str, group: str) -> AsyncIterator[dict[str, Any]]:
    """Yield the rows of a table, page by page."""
    more = {"with_embeddings": True} if table in ("nodes", "edges") else {}
    cursor = None
    while True:
        try:
            page = await TABLES[table].get_by_group_ids(
                driver, [group], limit=TOGETHER, uuid_cursor=cursor, **more
            )
        except NOTHING:
            return
        for one in page:
            yield one.model_dump(mode="json")
        if len(page) < TOGETHER:
            return
        cursor = page[-1].uuid


async def dump(database: str, sink: TextIO) -> None:
    """Write a database as JSON."""
    driver = driver_of(database)
    groups = await groups_of(driver)
    for place, table in enumerate(tables_of(driver)):
        sink.write(f"{', ' if place else '{'}{json.dumps(table)}: [")
        first = True
        for group in groups:
            async for row in rows_of(driver, table, group):
                sink.write(("\n" if first else ",\n") + json.dumps(row, ensure_ascii=False))
                first = False
        sink.write("]\n")
    sink.write("}\n")
    await driver.close()


async def load(tables: dict[str, Any], database: str) -> None:
    """Load the rows of a JSON file into a database."""
    driver = driver_of(database)
    for table, kind in tables_of(driver).items():
        for row in tables.get(table, []):
            await kind(**row).save(driver)
    await driver.close()


def main(what: str, start: str, end: str) -> None:
    """Do one or the other."""
    if what == "dump":
        with Path(end).open("w", encoding="utf-8") as sink:
            asyncio.run(dump(start, sink))
    else:
        asyncio.run(load(json.loads(Path(start).read_text("utf-8")), end))


if __name__ == "__main__":
    main(*sys.argv[1:])
