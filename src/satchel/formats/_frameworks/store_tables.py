"""The tables in which LangGraph's ``SqliteStore`` keeps items, read and made.

Times are texts in UTC without a zone; an expiry has one. Values are JSON, in a blob by the library
and in a text by hand. Compared with langgraph-checkpoint-sqlite 3.
"""

from collections.abc import Iterator
from contextlib import closing, suppress
from typing import Any

import apsw

from satchel.disk.databases.foreign import Database
from satchel.disk.databases.keyed import Keyed
from satchel.errors import InputError, MalformedError
from satchel.formats._database import columns_of, parsed
from satchel.formats._frameworks.items import VECTORS, Row, entry_of, row_of
from satchel.formats._frameworks.json_text import as_json
from satchel.formats._frameworks.namespaces import joined
from satchel.formats._order import in_order
from satchel.memory.entries import Entry, Semantic
from satchel.memory.times import iso_text
from satchel.ports.format import Reading
from satchel.ports.records import RecordSet
from satchel.ports.report import Report
from satchel.seal.encoding.carry import carry, restore

STORE = "store"
"""The table of items."""

MIGRATIONS, VECTOR_MIGRATIONS = "store_migrations", "vector_migrations"
TABLES = frozenset({STORE, MIGRATIONS, VECTORS, VECTOR_MIGRATIONS})
"""What belongs to a store of items; of the last two nothing is said in a store without vectors."""

_NEEDED = ("prefix", "key", "value")
_IN_A_VECTOR = ("prefix", "key", "field_name", "embedding")
_KNOWN = ("prefix", "key", "value", "created_at", "updated_at", "expires_at", "ttl_minutes")
_VERSIONS = {MIGRATIONS: 5, VECTOR_MIGRATIONS: 1}
_MOST_FIELDS = 64
_ITEMS = (
    "prefix text NOT NULL, key text NOT NULL, value text NOT NULL,"
    " created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP,"
    " updated_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP,"
    " expires_at TIMESTAMP, ttl_minutes REAL, PRIMARY KEY (prefix, key)"
)
_EMBEDDINGS = (
    "prefix text NOT NULL, key text NOT NULL, field_name text NOT NULL, embedding BLOB,"
    " created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP,"
    " updated_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP, PRIMARY KEY (prefix, key, field_name),"
    f" FOREIGN KEY (prefix, key) REFERENCES {STORE}(prefix, key) ON DELETE CASCADE"
)
_SCHEMA = (
    f"CREATE TABLE {MIGRATIONS} (v INTEGER PRIMARY KEY)",
    f"CREATE TABLE {STORE} ({_ITEMS})",
    f"CREATE INDEX store_prefix_idx ON {STORE} (prefix)",
    f"CREATE INDEX idx_store_expires_at ON {STORE} (expires_at) WHERE expires_at IS NOT NULL",
)
_VECTOR_SCHEMA = (
    f"CREATE TABLE {VECTOR_MIGRATIONS} (v INTEGER PRIMARY KEY)",
    f"CREATE TABLE {VECTORS} ({_EMBEDDINGS})",
)


def in_sqlite(name: str, time: str) -> str:
    """Return a time as the library writes it into a column."""
    text = iso_text(time).replace("T", " ")
    return text if name == "expires_at" else text.removesuffix("+00:00")


# -- reading -------------------------------------------------------------------------------


def items_in(database: Database, file: str, reading: Reading) -> Iterator[Semantic]:
    """Yield the items, in the order in which they were put in.

    Args:
        database: The store.
        file: What to call it in errors.
        reading: The bounds; where bad items go that are to be left out.

    Raises:
        MalformedError: If an item is none, naming table, row and member.
    """
    columns = columns_of(database, STORE, _NEEDED, file)
    has_vectors = bool(database.columns(VECTORS))
    if has_vectors:
        columns_of(database, VECTORS, _IN_A_VECTOR, file)
    quoted = ", ".join('"' + name.replace('"', '""') + '"' for name in columns)
    sql = f"SELECT {quoted} FROM {STORE} ORDER BY rowid"  # noqa: S608 - quoted
    for number, values in enumerate(database.rows(sql)):
        row = dict(zip(columns, values, strict=True))
        try:
            vectors = _vectors_of(database, row) if has_vectors else {}
            yield entry_of(_item(row, vectors), in_sqlite)
        except MalformedError as error:
            error.field = f"{STORE}/{number}" + (f"/{error.field}" if error.field else "")
            reading.refuse(error.located(file=file))  # type: ignore[arg-type]


def _item(row: Row, vectors: Row) -> Row:
    prefix, value = row.pop("prefix"), row.pop("value")
    if type(prefix) is not str:
        raise MalformedError("`prefix` is not text", field="prefix")
    if type(value) is bytes:
        try:
            value = value.decode()
        except UnicodeDecodeError:
            raise MalformedError("`value` is not UTF-8", field="value") from None
    item = {"namespace": prefix.split("."), "value": parsed(value, "value")}
    for name, part in row.items():
        if part is not None:
            item[name] = carry(part) if type(part) is not str else part
    return item | ({VECTORS: vectors} if vectors else {})


def _vectors_of(database: Database, row: Row) -> Row:
    sql = f"SELECT field_name, embedding FROM {VECTORS} WHERE prefix = ? AND key = ? LIMIT ?"  # noqa: S608 - our own
    found = database.rows(sql, row["prefix"], row["key"], _MOST_FIELDS)
    return {str(name): carry(vector) for name, vector in found if type(vector) is bytes}


# -- writing -------------------------------------------------------------------------------


def make_store(connection: apsw.Connection, records: RecordSet, report: Report) -> None:
    """Put items into a new database, with everything that the library makes beside them.

    Args:
        connection: The database, in a transaction.
        records: What becomes items.
        report: Where losses go.
    """
    for statement in _SCHEMA:
        connection.execute(statement)
    _migrated(connection, MIGRATIONS)
    making = _Making(connection, report)
    with closing(making):
        for record in in_order(records, {}):
            entry = record.model
            if isinstance(entry, Entry) and (entry.text is not None or entry.data is not None):
                making.put(row_of(record, entry, report, in_sqlite), record.id)
            else:
                report.lost(record.type, "an item must be a text or data", example=record.id)


def _migrated(connection: apsw.Connection, table: str) -> None:
    rows = [(number,) for number in range(_VERSIONS[table])]
    connection.executemany(f"INSERT INTO {table} VALUES (?)", rows)  # noqa: S608 - our own


class _Making:
    """Items that are put into a store."""

    def __init__(self, connection: apsw.Connection, report: Report) -> None:
        self._connection = connection
        self._report = report
        self._there = Keyed()
        self._has_vectors = False

    def close(self) -> None:
        """Give the space back."""
        self._there.close()

    def put(self, row: Row, identity: str) -> None:
        """Put an item in; where one has its key, under one of its own."""
        prefix, key = joined(tuple(row.pop("namespace"))), row.pop("key")
        vectors = row.pop(VECTORS, {})
        if not self._there.add(f"{prefix}\0{key}".encode()):
            key = identity.partition(":")[2]
            self._report.lost("origin/id", "another item has the same key", example=identity)
            self._there.add(f"{prefix}\0{key}".encode())
        value = as_json(row.pop("value"), self._report)
        values = [prefix, key, value, *(plain(row.pop(name, None)) for name in _KNOWN[3:])]
        self._connection.execute(f"INSERT INTO {STORE} VALUES (?, ?, ?, ?, ?, ?, ?)", values)  # noqa: S608 - our own
        for name in sorted(name for name, part in row.items() if part is not None):
            self._report.lost(name, "not a column of the store", example=identity)
        if isinstance(vectors, dict):
            self._put_vectors(prefix, key, vectors, values[4])

    def _put_vectors(self, prefix: str, key: str, vectors: Row, time: Any) -> None:
        for name, carried in vectors.items():
            vector = plain(carried)
            if type(vector) is not bytes:
                self._report.lost(VECTORS, "SQLite has no vectors of bits", example=key)
                continue
            if not self._has_vectors:
                for statement in _VECTOR_SCHEMA:
                    self._connection.execute(statement)
                _migrated(self._connection, VECTOR_MIGRATIONS)
                self._has_vectors = True
            values = (prefix, key, name, vector, time, time)
            self._connection.execute(f"INSERT INTO {VECTORS} VALUES (?, ?, ?, ?, ?, ?)", values)  # noqa: S608 - our own


def plain(carried: Any) -> Any:
    """Return what a column takes; nothing for what none does."""
    with suppress(InputError):
        value = restore(carried)
        if value is None or isinstance(value, str | bytes | int | float):
            return value
    return None
