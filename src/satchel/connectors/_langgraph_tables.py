"""The tables in which LangGraph's ``PostgresStore`` keeps items, and one item of them.

Values are ``jsonb``, times have a zone. Vectors are of pgvector, whose numbers have 32 bits: they
are kept as the same bytes that the library's store of SQLite has, so either can be filled from the
other. Compared with langgraph-checkpoint-postgres 3.2.0.
"""

import json
import re
from array import array
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from satchel.errors import MalformedError
from satchel.formats._database import parsed
from satchel.formats._frameworks.items import NO_TIME, VECTORS, Row
from satchel.formats._frameworks.json_text import as_json
from satchel.formats._frameworks.namespaces import identity_of, joined
from satchel.formats._frameworks.store_tables import plain
from satchel.memory.times import iso_text, read_time
from satchel.ports.connector import Taken
from satchel.ports.report import Report
from satchel.seal.encoding.carry import carry
from satchel.stores.postgres.errors import DRIVER

_NEEDED = ("prefix", "key", "value", "created_at", "updated_at")
_TIMES = ("created_at", "updated_at", "expires_at")
_LIVES = ("expires_at", "ttl_minutes")
_MOST_FIELDS = 64
_OTHER_VERSION = "another version exists there; --overwrite replaces it"
_ENDLESS = frozenset({"infinity", "-infinity"})
_REFUSED = ("22", "54")
"""Classes of errors: a value that the server does not hold, and one that is too long for it."""

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
    """Make the tables as the library does, so that it takes them for its own.

    Args:
        connection: In a transaction.
        schema: There already, and called by plain letters.
    """
    connection.execute(_MAKE.format(schema))


@dataclass(frozen=True, slots=True)
class Columns:
    """What the tables of a store have."""

    items: frozenset[str]
    has_vectors: bool

    @classmethod
    def of(cls, connection: Any, schema: str, file: str) -> "Columns | None":
        """Return what there is in a schema, or None where there is no such table.

        Raises:
            MalformedError: If the table is another program's.
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
    """Return what gives items in the order of their names, and its values.

    Args:
        schema: Where the tables are.
        columns: What they have.
        after: The namespace and key of the item that they come after.
        most: Bytes that a value may have; of a longer one comes nothing.
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
    """Return what ``query`` gave of an item as its library shows it.

    Raises:
        MalformedError: If its value is no JSON that can be kept.
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
    """Return a vector as the library's store of SQLite keeps it; one of bits as its text."""
    found = _numbers(text)
    return text if found is None else carry(array("f", map(float, found[1].split(","))).tobytes())


# -- writing -------------------------------------------------------------------------------


def put(
    connection: Any,
    columns: Columns,
    item: tuple[str, Row],
    report: Report,
    *,
    overwrite: bool,
) -> Taken:
    """Put an item in, unless another one is there.

    Args:
        connection: In a transaction; the schema is the first that is looked in.
        columns: What the tables have.
        item: Our id of it, and the item.
        report: Where losses go.
        overwrite: Whether another one is replaced.
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
        return Taken(
            identity, None, "PostgreSQL cannot store this text or number, or a name this long"
        )
    if known is None:
        return Taken(identity, None, _OTHER_VERSION)
    packed = {name: plain(part) for name, part in vectors.items()} if vectors else {}
    if _put_vectors(connection, columns, (prefix, key), packed):
        known = False
    lost = len(packed) - _count_vectors(connection, columns, (prefix, key), packed)
    if lost:
        report.lost(
            VECTORS, "the store has no vectors, or vectors of another length", example=identity
        )
    return Taken(identity, identity_of(prefix, key), known=known)


def _fit(values: dict[str, Any], identity: str, report: Report) -> None:
    """Have values be such as the columns take."""
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
    """Return whether it was there already as it is; None where another one is, and stays."""
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


def _same_end(there: Any, values: dict[str, Any]) -> bool:
    wanted = values.get("expires_at")
    if there is None or wanted is None:
        return there is wanted
    return read_time(there.isoformat()) == read_time(str(wanted))


def _put_vectors(
    connection: Any, columns: Columns, name: tuple[str, str], vectors: dict[str, Any]
) -> bool:
    """Put vectors in that are not there as they are; return whether there were any."""
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
    """Return how many of the vectors the store has."""
    if not vectors or not columns.has_vectors:
        return 0
    sql = (
        "SELECT count(*) FROM store_vectors WHERE prefix = %s AND key = %s AND field_name = ANY(%s)"
    )
    ((found,),) = connection.execute(sql, (*name, list(vectors))).fetchall()
    return int(found)


def _shown(vector: Any) -> str | None:
    """Return a vector as pgvector takes it."""
    if isinstance(vector, bytes) and vector and len(vector) % 4 == 0:
        numbers = array("f")
        numbers.frombytes(vector)
        return "[" + ",".join(map(repr, numbers)) + "]"
    return vector if isinstance(vector, str) else None
