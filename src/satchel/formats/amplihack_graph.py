"""amplihack's hierarchical memory as a graph of LadybugDB or of Kuzu, read only.

It has the nodes and edges of the JSON (``formats.amplihack``). A place is the graph's file, or an
agent's folder with the file ``graph_db``, ``ladybug_db`` or ``kuzu_db``. A copy is opened by a
separate process, so the file is not changed; storage versions 40 and later of LadybugDB are read,
and Kuzu's 39.
"""

from collections.abc import Iterator
from contextlib import closing
from typing import ClassVar

from satchel.crypto.sealed_records import Sealed
from satchel.errors import EmptyInputError, UsageError
from satchel.formats._amplihack.reader import (
    MOST_AGENTS,
    AmplihackAgents,
    AmplihackCollector,
    RowPosition,
)
from satchel.formats._amplihack.rows import EDGES, EPISODES, FACTS, Row, array_of, lean_number
from satchel.formats._graph_files import (
    GRAPH_MAGICS,
    TABLES,
    GraphRow,
    graph_file,
    is_graphiti,
    rows_of,
)
from satchel.model.records import Model
from satchel.model.values import Component
from satchel.ports.format import Info, Location, ReadContext, Signs, Target, Traits, WriteContext
from satchel.ports.record_set import RecordSet, Report

_NODES = (FACTS, EPISODES)
_KINDS = {array_of(kind): kind for kind in EDGES}
_TABLE_OF = {array: table for table, array in TABLES.items()}


class AmplihackGraph:
    """The format."""

    info: ClassVar[Info] = Info(
        title="amplihack hierarchical memory, graph of LadybugDB or Kuzu",
        suffixes=(),
        signs=Signs(starts=GRAPH_MAGICS, folder=True),
        spec="amplihack-memory-lib 0.4.0, hierarchical graph; LadybugDB 0.22.0, Kuzu 0.11.3",
        checked="2026-11-22",
        traits=Traits(components=frozenset({Component.SEMANTIC, Component.EPISODIC}), writes=False),
    )

    def recognizes(self, location: Location) -> bool:
        return graph_file(location) is not None and not is_graphiti(location)

    def read(self, location: Location, reading: ReadContext) -> Iterator[Model | Sealed]:
        reading.linked = True
        agents = [] if reading.agent is None else _agents(location, reading)
        owners = AmplihackAgents(agents, reading.agent, file=location.name, report=reading.report)
        with (
            AmplihackCollector(reading, location.name) as collector,
            closing(owners),
            closing(rows_of(location, reading)) as rows,
        ):
            for found_row in rows:
                array, row = found_row.array, _lean(found_row)
                where = RowPosition(_TABLE_OF[array], found_row.number)
                if array in _NODES:
                    scope = owners.of_node(_TABLE_OF[array], array, row)
                    if scope is not None:
                        yield from collector.node(where, array, row, scope, _row_of_json)
                else:
                    scope = owners.of_edge(row)
                    if scope is not None:
                        collector.edge(where, _KINDS[array], row, scope)
            if not collector.nodes:
                raise EmptyInputError("the graph contains no memories", file=location.name)
            yield from collector.rest()

    def write(self, records: RecordSet, target: Target, writing: WriteContext) -> None:
        del records, target, writing
        raise UsageError(
            "amplihack's graphs are read-only",
            field="format",
            hint="To write JSON or an SQLite database: amplihack or amplihack_db.",
        )


def _agents(location: Location, reading: ReadContext) -> list[str]:
    """Return the agents with nodes in a graph; notes are left to the later read."""
    agents = dict[str, None]()
    trial = ReadContext(limits=reading.limits, report=Report())
    with closing(rows_of(location, trial)) as rows:
        for row in rows:
            if row.array not in _NODES or len(agents) == MOST_AGENTS:
                break
            agents[str(row.row.get("agent_id"))] = None
    return list(agents)


def _lean(row: GraphRow) -> Row:
    return {name: lean_number(value) for name, value in row.row.items()}


def _row_of_json(row: Row) -> Row:
    """Return a node in the form of the JSON format, without empty members."""
    return {name: value for name, value in row.items() if name != "agent_id" and value is not None}


FORMAT = AmplihackGraph()
"""The instance that the registry loads."""
