"""amplihack's hierarchical memory as its SQLite database: ``<agent>.db``.

It has the nodes and edges of the JSON (``formats.amplihack``), in a table each. The reader opens a
checked copy, with the journal beside the file; nothing that the file's schema could compute is run.
The writer creates a database with the schema of amplihack-rs 0.17.0, atomically. All rows are
written as rows of the agent that is exported.
"""

import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, ClassVar

import apsw

from satchel.crypto.canonical import encode_foreign
from satchel.crypto.sealed_records import Sealed
from satchel.errors import EmptyInputError, TargetError
from satchel.formats._amplihack.reader import (
    MOST_AGENTS,
    AmplihackAgents,
    AmplihackCollector,
    RowPosition,
)
from satchel.formats._amplihack.rows import (
    ARRAYS,
    EDGES,
    EPISODES,
    FACTS,
    Row,
    array_of,
    lean_number,
)
from satchel.formats._amplihack.writer import AmplihackWriter, agent_of, container_of
from satchel.formats._database import MAGIC, columns_of, open_database_copy, other_tables, parsed
from satchel.model.records import Model
from satchel.model.values import Component
from satchel.ports.format import Info, Location, ReadContext, Signs, Target, Traits, WriteContext
from satchel.ports.record_set import RecordSet
from satchel.runtime.foreign_databases import Database

_NAME = "amplihack_db"
_TABLES = {FACTS: "semantic_memories", EPISODES: "episodic_memories"}
_TABLES |= {array_of(kind): array_of(kind) for kind in EDGES}
_KNOWN = frozenset(_TABLES.values())
_IN_JSON = ("tags", "metadata")
_OWN_COLUMNS = ("id", "agent_id")

_COLUMNS = {
    "tags": "TEXT NOT NULL DEFAULT '[]'",
    "metadata": "TEXT NOT NULL DEFAULT '{}'",
    "confidence": "REAL NOT NULL DEFAULT 0.0",
    "weight": "REAL NOT NULL DEFAULT 0.0",
    "turn": "INTEGER NOT NULL DEFAULT 0",
    "memory_id": "TEXT PRIMARY KEY",
}
_ENDS = ("source_id", "target_id")
_INDEXES = {
    FACTS: (
        ("idx_semantic_agent", "agent_id"),
        ("idx_semantic_concept", "concept"),
        ("idx_semantic_created", "created_at"),
    ),
    EPISODES: (
        ("idx_episodic_agent", "agent_id"),
        ("idx_episodic_source", "source_label"),
        ("idx_episodic_created", "created_at"),
    ),
    **{
        array_of(kind): tuple((f"idx_{name}_{end[:-3]}", end) for end in _ENDS)
        for kind, name in zip(
            EDGES, ("similar", "derives", "supersedes", "transitioned"), strict=True
        )
    },
}


class AmplihackDb:
    """The format."""

    info: ClassVar[Info] = Info(
        title="amplihack hierarchical memory, SQLite database",
        suffixes=(".amplihack.db",),
        signs=Signs(texts=((MAGIC, b"semantic_memories"),)),
        spec="amplihack-rs 0.17.0, hierarchical SQLite schema",
        checked="2026-11-22",
        traits=Traits(
            components=frozenset({Component.SEMANTIC, Component.EPISODIC}),
            exact=True,
        ),
        lost_on_writing=(
            "Procedural, working and identity memory, memories without text, edges of other kinds,"
            " provenance, validity and expiry, all but one entity, members without a column."
        ),
    )

    def recognizes(self, location: Location) -> bool:
        head = location.head
        return head.startswith(MAGIC) and b"semantic_memories" in head

    def read(self, location: Location, reading: ReadContext) -> Iterator[Model | Sealed]:
        reading.linked = True
        with (
            open_database_copy(location, reading) as database,
            AmplihackCollector(reading, location.name) as collector,
        ):
            tables = _Tables(database, location.name, reading)
            for array in (FACTS, EPISODES):
                for number, row in enumerate(tables.rows(array)):
                    scope = tables.owners.of_node(_TABLES[array], array, row)
                    if scope is not None:
                        where = RowPosition(_TABLES[array], number)
                        yield from collector.node(where, array, row, scope, _in_json)
            if not collector.nodes:
                raise EmptyInputError("the database contains no memories", file=location.name)
            for kind in EDGES:
                for number, row in enumerate(tables.rows(array_of(kind))):
                    scope = tables.owners.of_edge(row)
                    if scope is not None:
                        where = RowPosition(_TABLES[array_of(kind)], number)
                        collector.edge(where, kind, row, scope, _in_json)
            tables.report()
            yield from collector.rest()

    def write(self, records: RecordSet, target: Target, writing: WriteContext) -> None:
        container = container_of(records, writing, _NAME)
        agent = agent_of(records, writing, container)
        with tempfile.TemporaryDirectory(prefix="satchel-") as folder:
            database = Path(folder) / "made.db"
            with closing(AmplihackWriter(records, agent, writing.report)) as writer:
                _write(database, agent, writer, writing)
            with target.open() as sink, database.open("rb") as stream:
                shutil.copyfileobj(stream, sink)


# -- reading -------------------------------------------------------------------------------


class _Tables:
    """The tables of a database, and the agents of its rows."""

    def __init__(self, database: Database, file: str, reading: ReadContext) -> None:
        self._database = database
        self._file = file
        self._report = reading.report
        self._columns = {
            array: columns_of(database, table, _needed(array), file)
            for array, table in _TABLES.items()
        }
        agents = [] if reading.agent is None else self._agents()
        self.owners = AmplihackAgents(agents, reading.agent, file=file, report=reading.report)

    def rows(self, array: str) -> Iterator[Row]:
        """Yield the rows of a table, in the order of insertion."""
        columns = self._columns[array]
        names = ", ".join('"' + name.replace('"', '""') + '"' for name in columns)
        sql = f"SELECT {names} FROM {_TABLES[array]} ORDER BY rowid"  # noqa: S608 - quoted
        for values in self._database.rows(sql):
            lean = (lean_number(encode_foreign(value)) for value in values)
            yield dict(zip(columns, lean, strict=True))

    def report(self) -> None:
        """Report other tables and rows, which are not read."""
        self.owners.close()
        for table in other_tables(self._database, _KNOWN):
            self._report.lost("table", "not an amplihack table", example=table[:80])

    def _agents(self) -> list[str]:
        tables = (_TABLES[FACTS], _TABLES[EPISODES])
        sql = " UNION ".join(f"SELECT agent_id FROM {one}" for one in tables)  # noqa: S608 - our own
        return [str(one) for (one,) in self._database.rows(f"{sql} LIMIT {MOST_AGENTS}")]


def _needed(array: str) -> tuple[str, ...]:
    return (*ARRAYS[array], *(("agent_id",) if array in (FACTS, EPISODES) else ()))


def _in_json(row: Row) -> Row:
    """Return a row in the form of the JSON format."""
    return {
        name: parsed(value, name) if name in _IN_JSON else value
        for name, value in row.items()
        if name not in _OWN_COLUMNS
    }


# -- writing -------------------------------------------------------------------------------


def _write(path: Path, agent: str, writer: AmplihackWriter, writing: WriteContext) -> None:
    try:
        with closing(apsw.Connection(str(path))) as connection:
            connection.pragma("journal_mode", "OFF")
            connection.pragma("synchronous", "OFF")
            with connection:
                for array in ARRAYS:
                    connection.execute(_schema(array))
                for array in ARRAYS:
                    rows = _values(array, agent, writer, writing)
                    connection.executemany(_insert(array), rows)
                for array in ARRAYS:
                    for name, column in _INDEXES[array]:
                        connection.execute(f"CREATE INDEX {name} ON {_TABLES[array]}({column})")
    except apsw.Error as error:
        raise TargetError(
            f"cannot create the database: {error}",
            file=tempfile.gettempdir(),
            hint="Free disk space there, or set TMPDIR to a larger folder.",
        ) from error


def _names(array: str) -> list[str]:
    members = list(ARRAYS[array])
    return [members[0], "agent_id", *members[1:]] if array in (FACTS, EPISODES) else members


def _schema(array: str) -> str:
    columns = []
    for name in _names(array):
        plain = name in ("agent_id", *_ENDS) and not (array == FACTS and name == "source_id")
        usual = "TEXT NOT NULL" if plain else "TEXT NOT NULL DEFAULT ''"
        columns.append(f"    {name} {_COLUMNS.get(name, usual)}")
    if array not in (FACTS, EPISODES):
        columns.insert(0, "    id INTEGER PRIMARY KEY AUTOINCREMENT")
    return f"CREATE TABLE {_TABLES[array]} (\n" + ",\n".join(columns) + "\n)"


def _insert(array: str) -> str:
    names = _names(array)
    marks = ", ".join("?" for _ in names)
    return f"INSERT INTO {_TABLES[array]} ({', '.join(names)}) VALUES ({marks})"  # noqa: S608 - our own


def _values(
    array: str, agent: str, writer: AmplihackWriter, writing: WriteContext
) -> Iterator[tuple[Any, ...]]:
    names = _names(array)
    for row in writer.rows(array):
        more = sorted(row.keys() - set(names))
        for name in more:
            writing.report.lost(
                name, "not a column of the database", example=str(row[names[0]])[:80]
            )
        row["agent_id"] = agent
        yield tuple(_as_text(row[name]) if name in _IN_JSON else row[name] for name in names)


def _as_text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


FORMAT = AmplihackDb()
"""The instance that the registry loads."""
