"""Chroma's database: the folder of a ``PersistentClient``, or ``chroma.sqlite3`` in it.

A record becomes a fact with its members; its vector, from the index or the queue, is stored with
it. Members that name its owner become the scope.
"""

from collections.abc import Iterator
from contextlib import closing
from typing import Any, ClassVar

from satchel.crypto.canonical import encode_foreign
from satchel.crypto.sealed_records import Sealed
from satchel.errors import EmptyInputError, MalformedError, UsageError
from satchel.formats._chroma import (
    URI,
    VECTOR,
    ChromaSegment,
    ChromaVectors,
    collections_in,
    entry_of,
    records_in,
    segments_in,
)
from satchel.formats._database import MAGIC, open_database_copy, tables_of
from satchel.model.records import Model
from satchel.model.values import Component
from satchel.ports.format import Info, Location, ReadContext, Signs, Target, Traits, WriteContext
from satchel.ports.record_set import RecordSet
from satchel.runtime.foreign_databases import Database

FILE = "chroma.sqlite3"
"""The database in the folder of a client."""

_DETAILS = ("name", "dimension", "metadata")
_MOST_DETAILED = 1000
_SIGNS = frozenset({"embeddings_queue", "embedding_metadata", "collections", "segments"})


class Chroma:
    """The format."""

    info: ClassVar[Info] = Info(
        title="Chroma database",
        suffixes=(),
        signs=Signs(starts=(MAGIC,), folder=True),
        spec="chromadb 1.5.9 PersistentClient: chroma.sqlite3 and the indexes beside it",
        checked="2026-11-22",
        traits=Traits(components=frozenset({Component.SEMANTIC}), writes=False),
        beside=frozenset({VECTOR, URI}),
    )

    def recognizes(self, location: Location) -> bool:
        return tables_of(_database(location)) >= _SIGNS

    def read(self, location: Location, reading: ReadContext) -> Iterator[Model | Sealed]:
        source = _database(location)
        with open_database_copy(source, reading) as database:
            collections = collections_in(database, location.name)
            _store_details(collections, reading)
            if len(collections) > 1:
                reading.report.note(
                    f"all {len(collections)} collections are read; one alone:"
                    " chroma:///folder?collection=NAME"
                )
            count = 0
            for segment in segments_in(database, collections):
                for entry in entries_in(database, segment, source, reading):
                    count += 1
                    yield entry
            if count == 0 and not reading.report.left_out:
                raise EmptyInputError("it contains no memories", file=location.name)

    def write(self, records: RecordSet, target: Target, writing: WriteContext) -> None:
        del records, target, writing
        raise UsageError(
            "Chroma's own database is read-only",
            field="format",
            hint="To write what a collection accepts: --to chroma_get.",
        )


def _database(location: Location) -> Location:
    return Location(location.path / FILE, location.on_progress) if location.is_folder else location


def _store_details(collections: list[dict[str, Any]], reading: ReadContext) -> None:
    """Store the metadata of the collections, unless there are too many."""
    details = [
        {name: collection[name] for name in _DETAILS if name in collection}
        for collection in collections
    ]
    if len(details) <= _MOST_DETAILED:
        reading.container["collections"] = details
    else:
        reason = "its details, since there are too many"
        reading.report.lost("collection", reason, count=len(details))


def entries_in(
    database: Database, segment: ChromaSegment, source: Location, reading: ReadContext
) -> Iterator[Model]:
    """Yield the records of a collection; bad ones are refused."""
    with closing(ChromaVectors(database, segment, source.path.parent)) as vectors:
        for number, row in enumerate(records_in(database, segment, source.name)):
            identity = row["id"]
            vector = vectors.of(identity) if type(identity) is str else None
            try:
                record = {**row, VECTOR: encode_foreign(vector)}
                yield entry_of(record, segment.name, space=segment.space)
            except MalformedError as error:
                error.field = f"{segment.name}/{number}/{error.field}"
                reading.refuse(error.located(file=source.name))
                continue
            if vector is None:
                reason = "it is neither in the index next to the database nor in the queue"
                reading.report.lost(VECTOR, reason, example=identity)


FORMAT = Chroma()
"""The instance that the registry loads."""
