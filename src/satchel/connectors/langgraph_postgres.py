"""The store of LangGraph (``PostgresStore``) in a schema of a PostgreSQL server.

It has the same items as LangGraph's SQLite database and JSON (``formats._langgraph``). One snapshot
of the tables is read, even if other programs change them in the meantime. Compared with
langgraph-checkpoint-postgres 3.2.0.
"""

import json
import re
from array import array
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar

from satchel.connectors._address import of_server
from satchel.crypto.canonical import encode_foreign
from satchel.crypto.sealed_records import Sealed
from satchel.errors import InputError, LimitError, MalformedError, UnreadableError, UsageError
from satchel.formats._database import parsed
from satchel.formats._langgraph import (
    NO_TIME,
    VECTORS,
    Row,
    entry_of,
    identity_of,
    joined,
    plain,
    row_of,
)
from satchel.formats._row_lists import as_json
from satchel.model.records import Entry
from satchel.model.values import Component, iso_text, read_time
from satchel.ports.format import ConnectorOptions, Info, Page, ReadContext, Traits, WriteResult
from satchel.ports.record_set import Report
from satchel.stores.postgres import connection
from satchel.stores.postgres.statements import DRIVER, translated

_NEEDED = ("prefix", "key", "value", "created_at", "updated_at")
_TIMES = ("created_at", "updated_at", "expires_at")
_LIVES = ("expires_at", "ttl_minutes")
_MOST_FIELDS = 64
_OTHER_VERSION = "another version exists there; --overwrite replaces it"
_ENDLESS = frozenset({"infinity", "-infinity"})
_REFUSED = ("22", "54")
"""Classes of SQL errors: a value that the server cannot hold, and one that is too long."""

_numbers = re.compile(r"\[(-?[0-9.]+(?:e[+-]?\d+)?(?:,-?[0-9.]+(?:e[+-]?\d+)?)*)\]").fullmatch

_MAKE = """
CREATE TABLE {0}.store_migrations (v INTEGER PRIMARY KEY);
CREATE TABLE {0}.store (
    prefix text NOT NULL, key text NOT NULL, value jsonb NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE DEFAULT CURRENT_TIMESTAMP,
    updated_at TIMESTAMP WITH TIME ZONE DEFAULT CURRENT_TIMESTAMP,
    expires_at TIMESTAMP WITH TIME ZONE, ttl_minutes INT, PRIMARY KEY (prefix, key));
CREATE INDEX store_prefix_idx ON {0}.store USING btree (prefix text_pattern_ops);
CREATE INDEX idx_store_expires_at ON {0}.store (expires_at) WHERE expires_at IS NOT NULL;
INSERT INTO {0}.store_migrations SELECT generate_series(0, 3)
"""
_COLUMNS = """
SELECT attname::text FROM pg_catalog.pg_attribute
WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped
"""


def make_tables(connection: Any, schema: str) -> None:
    """Create the tables exactly as LangGraph's library does.

    Args:
        connection: In a transaction.
        schema: An existing schema with a plain name.
    """
    connection.execute(_MAKE.format(schema))


@dataclass(frozen=True, slots=True)
class Columns:
    """The optional columns of a store's tables."""

    items: frozenset[str]
    has_vectors: bool

    @classmethod
    def of(cls, connection: Any, schema: str, file: str) -> "Columns | None":
        """Return the columns of the tables in a schema, or None if it has no such table.

        Raises:
            MalformedError: If the table belongs to another program.
        """
        items = _columns(connection, f"{schema}.store")
        if not items:
            return None
        missing = [name for name in _NEEDED if name not in items]
        if missing:
            what = f"`store` has no column `{missing[0]}`; it is not a LangGraph store"
            raise MalformedError(what, file=file, field="store")
        vectors = _columns(connection, f"{schema}.store_vectors")
        return cls(items, {"prefix", "key", "field_name", "embedding"} <= vectors)


def _columns(connection: Any, table: str) -> frozenset[str]:
    return frozenset(name for (name,) in connection.execute(_COLUMNS, (table,)))


# -- reading -------------------------------------------------------------------------------


def query(
    schema: str, columns: Columns, after: tuple[str, str] | None, most: int
) -> tuple[str, dict[str, Any]]:
    """Return the SQL that selects items in the order of their names, and its parameters.

    Args:
        schema: The schema of the tables.
        columns: Their optional columns.
        after: The namespace and key of the item before them.
        most: Largest size of a value in bytes; a longer one is returned as NULL.
    """
    text = "CASE WHEN octet_length(s.value::text) <= %(most)s THEN s.value::text END"
    lives = [f"s.{name}::text" if name in columns.items else "NULL" for name in _LIVES]
    known = "ARRAY['prefix','key','value','created_at','updated_at','expires_at','ttl_minutes']"
    vectors = "NULL"
    if columns.has_vectors:
        vectors = (
            "(SELECT json_object_agg(f.field_name, f.numbers) FROM (SELECT v.field_name,"  # noqa: S608 - ours
            f" v.embedding::text AS numbers FROM {schema}.store_vectors v WHERE v.prefix = s.prefix"
            f" AND v.key = s.key AND v.embedding IS NOT NULL LIMIT {_MOST_FIELDS}) f)::text"
        )
    more = "NULL"
    if columns.items - {*_NEEDED, *_LIVES}:
        more = f"(to_jsonb(s) - {known})::text"
    place = '(s.prefix COLLATE "C", s.key COLLATE "C")'
    where = "" if after is None else f" WHERE {place} > (%(prefix)s, %(key)s)"
    sql = (
        f"SELECT s.prefix, s.key, {text}, s.created_at::text, s.updated_at::text, {lives[0]},"  # noqa: S608 - ours
        f" {lives[1]}, {vectors}, {more} FROM {schema}.store s{where}"
        ' ORDER BY s.prefix COLLATE "C", s.key COLLATE "C"'
    )
    prefix, key = after or ("", "")
    return sql, {"most": most, "prefix": prefix, "key": key}


def item_of(row: Sequence[Any]) -> Row:
    """Return a row of ``query`` as an item in the form of LangGraph's library.

    Raises:
        MalformedError: If its value is not JSON that can be stored.
    """
    prefix, key, value, created, updated, expires, lives, vectors, more = row
    item: Row = {"namespace": prefix.split("."), "key": key, "value": parsed(value, "value")}
    for name, text in zip(_TIMES, (created, updated, expires), strict=True):
        if text is not None:
            found = read_time(text)
            item[name] = text if found is None else iso_text(found)
    if lives is not None:
        item["ttl_minutes"] = int(lives) if lives.isdecimal() else lives
    others = parsed(more, "store") or {}
    item |= {name: part for name, part in others.items() if part is not None}
    packed = {name: _packed(text) for name, text in (parsed(vectors, VECTORS) or {}).items()}
    return item | ({VECTORS: packed} if packed else {})


def _packed(text: str) -> Any:
    """Return a vector as LangGraph's SQLite store has it; a bit vector as its text."""
    numbers = _numbers(text)
    return (
        text
        if numbers is None
        else encode_foreign(array("f", map(float, numbers[1].split(","))).tobytes())
    )


# -- writing -------------------------------------------------------------------------------


def put(
    connection: Any,
    columns: Columns,
    item: tuple[str, Row],
    report: Report,
    *,
    overwrite: bool,
) -> WriteResult:
    """Insert an item, unless another version exists.

    Args:
        connection: In a transaction; the schema is first in the search path.
        columns: The optional columns of the tables.
        item: Our ID of it, and the item.
        report: Where losses go.
        overwrite: Whether to replace another version.
    """
    identity, row = item
    prefix, key = joined(tuple(row.pop("namespace"))), row.pop("key")
    vectors, value = row.pop(VECTORS, {}), as_json(row.pop("value"), report).decode()
    values = {name: plain(row.pop(name, None)) for name in (*_TIMES, "ttl_minutes")}
    _fit(values, identity, report)
    for name in sorted(name for name, part in row.items() if part is not None):
        report.lost(name, "not a column of the store", example=identity)
    if not columns.items.issuperset(_LIVES):
        for name in _LIVES:
            if values.pop(name) is not None:
                report.lost(name, "the store is of an older version", example=identity)
    values = {"value": value, **values}
    try:
        with connection.transaction():
            known = _put_item(connection, (prefix, key), values, overwrite=overwrite)
    except DRIVER.Error as error:
        by_driver = isinstance(error, DRIVER.DataError) and error.sqlstate is None
        if not by_driver and (error.sqlstate or "")[:2] not in _REFUSED:
            raise
        return WriteResult(
            identity, None, "PostgreSQL cannot store this text or number, or a name this long"
        )
    if known is None:
        return WriteResult(identity, None, _OTHER_VERSION)
    packed = {name: plain(part) for name, part in vectors.items()} if vectors else {}
    if _put_vectors(connection, columns, (prefix, key), packed):
        known = False
    lost = len(packed) - _count_vectors(connection, columns, (prefix, key), packed)
    if lost:
        report.lost(
            VECTORS, "the store has no vectors, or vectors of another length", example=identity
        )
    return WriteResult(identity, identity_of(prefix, key), known=known)


def _fit(values: dict[str, Any], identity: str, report: Report) -> None:
    """Convert values to those that the columns accept."""
    for name in _TIMES:
        time = values[name]
        if time is not None and time not in _ENDLESS and read_time(str(time)) is None:
            report.lost(name, "not a PostgreSQL time", example=identity)
            values[name] = None
    for name in _TIMES[:2]:
        values[name] = values[name] or iso_text(NO_TIME)
    minutes = values["ttl_minutes"]
    if minutes is None:
        return
    values["ttl_minutes"] = round(minutes) if isinstance(minutes, int | float) else None
    if values["ttl_minutes"] != minutes:
        report.lost("ttl_minutes", "PostgreSQL stores whole minutes", example=identity)


def _put_item(
    connection: Any, name: tuple[str, str], values: dict[str, Any], *, overwrite: bool
) -> bool | None:
    """Return whether an equal item exists; None if another version exists and is not replaced."""
    members = ", ".join(values)
    given = ", ".join("%s" for _ in values)
    sql = f"INSERT INTO store (prefix, key, {members}) VALUES (%s, %s, {given}) ON CONFLICT"  # noqa: S608 - ours
    if connection.execute(f"{sql} DO NOTHING", (*name, *values.values())).rowcount:
        return False
    shown = "value::text, expires_at" if "expires_at" in values else "value::text, NULL"
    sql = f"SELECT {shown} FROM store WHERE prefix = %s AND key = %s FOR UPDATE"  # noqa: S608 - ours
    ((there, expires),) = connection.execute(sql, name).fetchall()
    if json.loads(there) == json.loads(values["value"]) and _same_end(expires, values):
        return True
    if not overwrite:
        return None
    changes = ", ".join(f"{member} = %s" for member in values)
    sql = f"UPDATE store SET {changes} WHERE prefix = %s AND key = %s"  # noqa: S608 - ours
    connection.execute(sql, (*values.values(), *name))
    return False


def _same_end(stored: Any, values: dict[str, Any]) -> bool:
    planned = values.get("expires_at")
    if stored is None or planned is None:
        return stored is planned
    return read_time(stored.isoformat()) == read_time(str(planned))


def _put_vectors(
    connection: Any, columns: Columns, name: tuple[str, str], vectors: dict[str, Any]
) -> bool:
    """Insert vectors that are missing or different; return whether there were any."""
    changed = False
    if not columns.has_vectors:
        return changed
    for field, vector in vectors.items():
        text = _shown(vector)
        if text is None:
            continue
        with suppress(DRIVER.DataError), connection.transaction():
            sql = (
                "INSERT INTO store_vectors (prefix, key, field_name, embedding)"
                " VALUES (%s, %s, %s, %s) ON CONFLICT (prefix, key, field_name) DO UPDATE"
                " SET embedding = EXCLUDED.embedding, updated_at = CURRENT_TIMESTAMP"
                " WHERE store_vectors.embedding::text <> EXCLUDED.embedding::text"
            )
            changed |= bool(connection.execute(sql, (*name, field, text)).rowcount)
    return changed


def _count_vectors(
    connection: Any, columns: Columns, name: tuple[str, str], vectors: dict[str, Any]
) -> int:
    """Return how many of the vectors the store has already."""
    if not vectors or not columns.has_vectors:
        return 0
    sql = (
        "SELECT count(*) FROM store_vectors WHERE prefix = %s AND key = %s AND field_name = ANY(%s)"
    )
    ((found,),) = connection.execute(sql, (*name, list(vectors))).fetchall()
    return int(found)


def _shown(vector: Any) -> str | None:
    """Return a vector in the text form of pgvector."""
    if isinstance(vector, bytes) and vector and len(vector) % 4 == 0:
        numbers = array("f")
        numbers.frombytes(vector)
        return "[" + ",".join(map(repr, numbers)) + "]"
    return vector if isinstance(vector, str) else None


_SCHEMA = "public"
_TOGETHER = 64
_ROOM = 4
"""Largest ratio of an item's size at the server to its canonical size."""

_CURSOR = "items/"
_SNAPSHOT = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_SESSION = (
    "SET search_path = pg_catalog, {schema}, pg_temp; SET TimeZone = 'UTC'; SET DateStyle = 'ISO';"
    " SET client_encoding = 'UTF8'; SET lock_timeout = '10s'; SET extra_float_digits = 3"
)


@dataclass(frozen=True, slots=True, repr=False)
class LangGraphAddress:
    """The address of a store: ``langgraph+postgresql://USER@HOST/DATABASE?schema=NAME``."""

    url: str
    """For the driver; it may contain a password."""

    name: str
    """Its name in errors."""

    schema: str

    @classmethod
    def read(cls, text: str) -> "LangGraphAddress":
        """Parse an address, with or without ``langgraph+``.

        Raises:
            UsageError: If it is not valid; no part that may be a password is in the message.
        """
        parsed = connection.read_address(of_server(text), schema=_SCHEMA)
        if parsed.bank is not None:
            raise UsageError("a LangGraph store has no banks", field="bank")
        return cls(parsed.url, parsed.name, parsed.schema)


class LangGraphPostgres:
    """The items of a store.

    Args:
        address: Its address.
        options: How to open it.

    Raises:
        MissingExtraError: If the driver is not installed.
        StoreError: If the server cannot be reached, or refuses the login.
        UnreadableError: If the schema has no store.
        MalformedError: If its tables are not LangGraph's.
    """

    info: ClassVar[Info] = Info(
        title="LangGraph store on PostgreSQL",
        suffixes=(),
        spec="langgraph-checkpoint-postgres 3.2.0 PostgresStore; values of LangMem 0.0.30",
        checked="2026-11-23",
        traits=Traits(components=frozenset({Component.SEMANTIC}), exact=True, streams=True),
        lost_on_writing=(
            "Memory types, tags, entities, provenance, salience, validity and"
            " edges; whether a label of a namespace is a user, an agent or a run."
        ),
        beside=frozenset({VECTORS}),
    )

    def __init__(self, address: LangGraphAddress, options: ConnectorOptions) -> None:
        self.address = address
        self._options = options
        self._most = _ROOM * options.limits.entry_bytes
        self._open: Any = None
        self._next: str | None = None
        with translated(address.name):
            self._connection = DRIVER.connect(
                address.url,
                autocommit=True,
                connect_timeout=connection.CONNECT_SECONDS,
                application_name="satchel",
            )
        try:
            self._columns = self._tables(
                makes=options.writes and not options.dry_run, needs=not options.writes
            )
        except BaseException:
            self.close()
            raise

    def _tables(self, *, makes: bool, needs: bool) -> Columns | None:
        """Return the columns of the tables; None if there are none and none are needed."""
        schema, name = self.address.schema, self.address.name
        with translated(name):
            self._connection.execute(_SESSION.format(schema=schema))
            columns = Columns.of(self._connection, schema, name)
            if columns is None and makes:
                with self._connection.transaction():
                    make_tables(self._connection, schema)
                columns = Columns.of(self._connection, schema, name)
        if columns is None and needs:
            raise UnreadableError(
                f"no LangGraph store in the schema {schema!r}",
                file=name,
                hint="Set the schema: ?schema=NAME.",
            )
        return columns

    def page(self, cursor: str | None, report: Report) -> Page:
        """List items from ``cursor``."""
        after = None if cursor is None else _after(cursor)
        if self._columns is None:
            return Page([], None)
        name = self.address.name
        with translated(name):
            if self._open is None or cursor is None or cursor != self._next:
                self._begin(after)
            rows = self._open.fetchmany(_TOGETHER)
            # The next call finds out whether there are more.
            self._next = _CURSOR + json.dumps(rows[-1][:2]) if len(rows) == _TOGETHER else None
        refuse = ReadContext(report=report, skip_bad=self._options.skip_bad).refuse
        items = list[Entry]()
        for row in rows:
            try:
                items.append(entry_of(self._item(row)))
            except InputError as error:
                error.field = f"store/{row[0]}/{row[1]}/{error.field or ''}".rstrip("/")
                refuse(error.located(file=name))
        if self._next is None:
            self._end()
        return Page(items, self._next)

    def _item(self, row: Sequence[Any]) -> dict[str, Any]:
        if row[2] is None:
            raise LimitError(f"an item can have at most {self._most} bytes", field="value")
        return item_of(row)

    def _begin(self, after: tuple[str, str] | None) -> None:
        """Open a snapshot, and position it after an item."""
        self._end()
        self._connection.execute(_SNAPSHOT)
        self._open = self._connection.cursor("satchel_items")
        assert self._columns is not None  # noqa: S101 - the caller checked it
        self._open.execute(*query(self.address.schema, self._columns, after, self._most))

    def _end(self) -> None:
        """Close the snapshot."""
        if self._open is not None:
            cursor, self._open, self._next = self._open, None, None
            cursor.close()
            self._connection.execute("ROLLBACK")

    def take(self, batch: Sequence[Sealed], report: Report) -> Sequence[WriteResult]:
        """Write items; durable when this returns."""
        results = list[WriteResult]()
        with translated(self.address.name):
            self._end()
            with self._connection.transaction(force_rollback=self._options.dry_run):
                for record in batch:
                    results.append(self._write_record(record, report))
        return results

    def _write_record(self, record: Sealed, report: Report) -> WriteResult:
        entry = record.model
        if not isinstance(entry, Entry) or (entry.text is None and entry.data is None):
            return WriteResult(record.id, None, "an item must be a text or data")
        row = row_of(record, entry, report)
        if self._columns is None:  # it would be created
            return WriteResult(record.id, record.id)
        return put(
            self._connection,
            self._columns,
            (record.id, row),
            report,
            overwrite=self._options.overwrite,
        )

    def close(self) -> None:
        """Close the connection."""
        with suppress(DRIVER.Error):
            if not self._connection.closed:
                self._end()
        self._connection.close()


def _after(cursor: str) -> tuple[str, str]:
    """Return the namespace and key of the item before a page."""
    parts: Any = None
    if cursor.startswith(_CURSOR):
        with suppress(ValueError, RecursionError):
            parts = json.loads(cursor.removeprefix(_CURSOR))
    if type(parts) is not list or [type(part) for part in parts] != [str, str]:
        raise MalformedError("no page starts at this cursor", field="cursor")
    return parts[0], parts[1]
