"""The SQLite database of LangGraph's store (``SqliteStore``), including items of LangMem.

An item becomes a fact: its namespace is the scope, its value the text, with its kind and the rest
as metadata, or data if there is no text. Its time to live and its vectors are stored and written
again. The writer creates a database as the library does.
"""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import ClassVar

import apsw

from satchel.crypto.sealed_records import Sealed
from satchel.errors import EmptyInputError, TargetError
from satchel.formats._database import MAGIC, open_database_copy, other_tables, tables_of
from satchel.formats._langgraph import STORE, TABLES, VECTORS, items_in, make_store
from satchel.formats._row_lists import count_others
from satchel.model.records import Model
from satchel.model.values import Component
from satchel.ports.format import Info, Location, ReadContext, Signs, Target, Traits, WriteContext
from satchel.ports.record_set import RecordSet

_OTHER = "checkpoints"


class LangGraph:
    """The format."""

    info: ClassVar[Info] = Info(
        title="LangGraph store, SQLite database",
        suffixes=(".langgraph.db",),
        signs=Signs(starts=(MAGIC,)),
        spec="langgraph-checkpoint-sqlite 3.1.2 SqliteStore; values of LangMem 0.0.30",
        checked="2026-11-22",
        traits=Traits(components=frozenset({Component.SEMANTIC}), exact=True),
        lost_on_writing=(
            "Memory types, tags, entities, provenance, salience, validity and"
            " edges; whether a label of a namespace is a user, an agent or a run."
        ),
        beside=frozenset({VECTORS}),
    )

    def recognizes(self, location: Location) -> bool:
        tables = tables_of(location)
        return {STORE, "store_migrations"} <= tables and _OTHER not in tables

    def read(self, location: Location, reading: ReadContext) -> Iterator[Model | Sealed]:
        with open_database_copy(location, reading) as database:
            count = 0
            for count, entry in enumerate(items_in(database, location.name, reading), 1):  # noqa: B007 - used below
                yield entry
            for table in other_tables(database, TABLES):
                reading.report.lost("table", "not a table of the store", example=table[:80])
            if count == 0 and not reading.report.left_out:
                raise EmptyInputError("the store contains no memories", file=location.name)

    def write(self, records: RecordSet, target: Target, writing: WriteContext) -> None:
        count_others(records, writing.report, "a LangGraph store")
        with tempfile.TemporaryDirectory(prefix="satchel-") as folder:
            database = Path(folder) / "made.db"
            try:
                with closing(apsw.Connection(str(database))) as connection:
                    connection.pragma("journal_mode", "OFF")
                    connection.pragma("synchronous", "OFF")
                    with connection:
                        make_store(connection, records, writing.report)
            except apsw.Error as error:
                raise TargetError(
                    f"cannot create the database: {error}",
                    file=tempfile.gettempdir(),
                    hint="Free disk space there, or set TMPDIR to a larger folder.",
                ) from error
            with target.open() as sink, database.open("rb") as stream:
                shutil.copyfileobj(stream, sink)


FORMAT = LangGraph()
"""The instance that the registry loads."""
