"""The records of Chroma's database, collection by collection.

A record is a row of ``embeddings`` with its members in ``embedding_metadata``, one row each, and
lists in ``embedding_metadata_array``. What was queued and not yet put there comes after it.
Compared with chromadb 1.5.9.
"""

from collections.abc import Iterator
from typing import Any

from satchel.disk.databases.foreign import Database
from satchel.errors import MalformedError
from satchel.formats._database import columns_of, parsed
from satchel.formats._frameworks.chroma_vectors import Segment
from satchel.formats._frameworks.collections import URI, Row
from satchel.seal.encoding.carry import carry

DOCUMENT, URIS = "chroma:document", "chroma:uri"
DEFAULT = ("default_tenant", "default_database")
TABLES = {
    "collections": ("id", "name", "database_id"),
    "segments": ("id", "scope", "collection"),
    "embeddings": ("id", "segment_id", "embedding_id"),
    "embedding_metadata": ("id", "key", "string_value", "int_value", "float_value", "bool_value"),
    "embeddings_queue": ("seq_id", "operation", "topic", "id", "vector", "encoding", "metadata"),
}
"""The tables that are read, with the columns that they need."""

_ARRAYS = "embedding_metadata_array"
_VALUES = ("string_value", "int_value", "float_value", "bool_value")
_KEPT = ("id", "name", "dimension", "config_json_str", "schema_str")
_MOST_COLLECTIONS = 10_000
_DELETE = 3


def collections_in(database: Database, file: str) -> list[Row]:
    """Return what is said of the collections, by the names that tell them apart.

    Raises:
        MalformedError: If it is no database of Chroma.
    """
    for table, wanted in TABLES.items():
        columns_of(database, table, wanted, file)
    there = [name for name in _KEPT if name in database.columns("collections")]
    sql = (
        f"SELECT {', '.join('c.' + name for name in there)}, d.name, d.tenant_id"  # noqa: S608 - our own
        " FROM collections c LEFT JOIN databases d ON d.id = c.database_id"
        " ORDER BY c.rowid LIMIT ?"
    )
    found = []
    for *values, name, tenant in database.rows(sql, _MOST_COLLECTIONS + 1):
        one = dict(zip(there, values, strict=True))
        if type(one["id"]) is not str or type(one["name"]) is not str:
            raise MalformedError("a collection without a name", file=file, field="collections")
        if (tenant, name) != DEFAULT:
            one["name"] = f"{tenant}/{name}/{one['name']}"
        one["metadata"] = _of_collection(database, one["id"])
        found.append({key: carry(part) for key, part in one.items() if part is not None})
    if len(found) > _MOST_COLLECTIONS:
        raise MalformedError("too many collections", file=file, field="collections")
    return found


def _of_collection(database: Database, identity: str) -> Row | None:
    known = database.columns("collection_metadata")
    values = [name for name in ("str_value", "int_value", "float_value") if name in known]
    if not values:
        return None
    said = [*values, *(["bool_value"] if "bool_value" in known else [])]
    sql = f"SELECT key, {', '.join(said)} FROM collection_metadata WHERE collection_id = ?"  # noqa: S608 - our own
    found = {
        str(key): _value([*rest, *[None] * (len(_VALUES) - len(rest))])
        for key, *rest in database.rows(sql, identity)
    }
    return found or None


def records_in(database: Database, segment: Segment, file: str) -> Iterator[Row]:
    """Yield the records of a collection, in the order in which they came.

    Raises:
        MalformedError: If what is queued is damaged.
    """
    try:
        newer, gone = _queued(database, segment)
    except MalformedError as error:
        error.field = f"embeddings_queue/{error.field}"
        raise error.located(file=file) from None
    has_arrays = bool(database.columns(_ARRAYS))
    has_times = "created_at" in database.columns("embeddings")
    time = "created_at" if has_times else "NULL"
    sql = f"SELECT id, embedding_id, {time} FROM embeddings WHERE segment_id = ? ORDER BY id"  # noqa: S608 - our own
    for number, identity, when in database.rows(sql, segment.records):
        if identity not in gone:
            members = _members(database, number, has_arrays=has_arrays)
            yield _row(identity, {**members, **newer.pop(identity, {})}, when)
    for identity, members in newer.items():
        yield _row(identity, members, None)


def _row(identity: Any, members: Row, when: Any) -> Row:
    document, uri = members.pop(DOCUMENT, None), members.pop(URIS, None)
    row = {"id": identity, "document": document, "metadata": members or None, URI: uri}
    return {**row, "created_at": when}


def _members(database: Database, number: int, *, has_arrays: bool) -> Row:
    columns = f"key, {', '.join(_VALUES)}"
    sql = f"SELECT {columns} FROM embedding_metadata WHERE id = ?"  # noqa: S608 - our own
    found = {str(key): carry(_value(rest)) for key, *rest in database.rows(sql, number)}
    if has_arrays:
        lists = dict[str, list[Any]]()
        sql = f"SELECT {columns} FROM {_ARRAYS} WHERE id = ? ORDER BY rowid"  # noqa: S608 - our own
        for key, *rest in database.rows(sql, number):
            lists.setdefault(str(key), []).append(carry(_value(rest)))
        found |= lists
    return found


def _value(values: list[Any]) -> Any:
    text, whole, real, truth = values
    if truth is not None:
        return bool(truth)
    return next((one for one in (text, whole, real) if one is not None), None)


def _queued(database: Database, segment: Segment) -> tuple[dict[str, Row], set[str]]:
    """Return what the queue says of records after their segment was last written.

    And which of those in the segment are there no more, whatever came after them.
    """
    done = list(
        database.rows("SELECT seq_id FROM max_seq_id WHERE segment_id = ?", segment.records)
    )
    last = done[0][0] if done and type(done[0][0]) is int else -1
    sql = (
        "SELECT id, operation, metadata FROM embeddings_queue"
        " WHERE topic LIKE ? AND seq_id > ? ORDER BY seq_id"
    )
    found, gone = dict[str, Row](), set[str]()
    for identity, operation, metadata in database.rows(sql, f"%/{segment.collection}", last):
        if type(identity) is not str:
            continue
        if operation == _DELETE:
            found.pop(identity, None)
            gone.add(identity)
        else:
            said = parsed(metadata, "metadata")
            found.setdefault(identity, {}).update(said if isinstance(said, dict) else {})
    return found, gone
