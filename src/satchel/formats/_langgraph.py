"""An item of LangGraph's store as an entry, and back.

An item is any JSON object under a namespace and a key. LangMem stores a memory as ``{"kind":
"Memory", "content": {"content": "..."}}``; other programs mostly as one text among other members; a
profile has no text. Compared with langgraph-checkpoint-sqlite 3 and LangMem 0.0.30.
"""

from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from typing import Any

import apsw

from satchel.crypto.canonical import ABSENT, decode_foreign, encode_foreign
from satchel.crypto.json_reader import NUMBERS, float_spellings, with_numbers
from satchel.crypto.sealed_records import Sealed
from satchel.errors import InputError, MalformedError
from satchel.formats._database import columns_of, parsed
from satchel.formats._json import differences, reproduce, time_of
from satchel.formats._row_lists import as_json, in_order
from satchel.model.records import Entry, Semantic
from satchel.model.values import Origin, Scope, TrustClass, iso_text
from satchel.ports.drafts import TEXT_MEMBER
from satchel.ports.format import ReadContext
from satchel.ports.record_set import RecordSet, Report
from satchel.runtime.foreign_databases import Database
from satchel.runtime.scratch import ScratchMap

ROOT = "memories"
"""The first label for memories without a namespace, as in LangMem's examples."""

_RESERVED = "langgraph"
_OWNERS = ("user", "agent", "app", "run")


def joined(labels: tuple[str, ...]) -> str:
    """Return labels in the form of the store's column ``prefix``."""
    return ".".join(labels)


def identity_of(prefix: str, key: str) -> str:
    """Return the unique ID of an item in a store."""
    return f"{prefix.replace('%', '%25').replace('/', '%2F')}/{key}"


def key_in(prefix: str, identity: str) -> str | None:
    """Return the key of an item with an ID, or None if it is in another namespace."""
    start = identity_of(prefix, "")
    return identity.removeprefix(start) if identity.startswith(start) else None


def labels_of(scope: Scope | None) -> tuple[str, ...]:
    """Return the namespace for an owner."""
    if scope is None:
        return (ROOT,)
    owners = [(name, owner) for name in _OWNERS if (owner := getattr(scope, name)) is not None]
    own = tuple(_label(one) for one in scope.namespace)
    if not owners:
        return _rooted(own) if own else (ROOT,)
    if owners[0][0] == "user" and len(owners) == 1 and not own:
        return (ROOT, _label(owners[0][1]).replace("=", "%3D"))
    return (ROOT, *(f"{name}={_label(owner)}" for name, owner in owners), *own)


def _label(text: str) -> str:
    if not text:
        return "%"
    return text.replace("%", "%25").replace(".", "%2E").replace("\x00", "%00")


def _rooted(labels: tuple[str, ...]) -> tuple[str, ...]:
    first = labels[0]
    return (f"%{ord(first[0]):02X}{first[1:]}", *labels[1:]) if first == _RESERVED else labels


def as_they_were(labels: tuple[str, ...]) -> bool:
    """Return whether labels are a valid namespace."""
    return bool(labels) and all(_plain(one) for one in labels) and labels[0] != _RESERVED


def _plain(label: str) -> bool:
    return label != "" and "." not in label and "\x00" not in label


NAME = "langgraph"
"""The provider in the origin of entries from LangGraph, from any of its stores."""

VECTORS = "store_vectors"
"""The member of ``origin.as_written`` with the vectors of an item in the store."""

NO_TIME = "1970-01-01T00:00:00.000000Z"
"""Written for an unknown time, since the library cannot show an item without one."""

_CAMEL = {"created_at": "createdAt", "updated_at": "updatedAt"}
"""The spelling of LangGraph for JavaScript."""

TEXTS = ("text", "content", "memory", "data", "page_content")
"""Members in which programs store the text of an item, likeliest first."""

_KIND, _CONTENT, _MEMORY = "kind", "content", "Memory"
_NO_FIELD = "an item has no such field"
_SUPPORTED = frozenset(
    {"id", "nonce", "type", "kind", "text", "data", "metadata", "scope", "origin"}
    | {"created_at", "updated_at", "expires_at"}
)

Row = dict[str, Any]
"""An item: namespace, key, value, times, and other columns of the store."""

Shown = Callable[[str, str], str]
"""Returns the text of a time, for a member."""


def as_shown(_: str, time: str) -> str:
    """Return a time in the form of the library's items."""
    return iso_text(time)


def entry_of(row: Row, store_form: Shown = as_shown) -> Semantic:
    """Return an item as an entry.

    Args:
        row: The item.
        store_form: Returns the store's form of times.

    Raises:
        MalformedError: If it has no namespace or key, or its value is not an object.
    """
    labels, key, value = _namespace(row), row.get("key"), row.get("value")
    if type(key) is not str:
        raise MalformedError("`key` is not text", field="key")
    if type(value) is not dict:
        raise MalformedError("`value` is not an object", field="value")
    fields, named = _entry_fields(value)
    entry = Semantic(
        **fields,
        created_at=_time(row.get("created_at", row.get(_CAMEL["created_at"]))),
        updated_at=_time(row.get("updated_at", row.get(_CAMEL["updated_at"]))),
        expires_at=_time(row.get("expires_at")),
        scope=Scope(namespace=labels),
    )
    as_written = {} if named is None else {TEXT_MEMBER: named}
    as_written |= differences(
        {**row, "value": None}, {**_row(entry, labels, key, store_form), "value": None}
    )
    as_written.pop(NUMBERS, None)
    as_written |= float_spellings({"value": value})  # everything else is a typed column
    origin = Origin(
        provider=NAME,
        id=identity_of(joined(labels), key),
        as_written=as_written,
        trust=TrustClass.IMPORTED,
    )
    return Semantic(
        **fields,
        created_at=entry.created_at,
        updated_at=entry.updated_at,
        expires_at=entry.expires_at,
        scope=entry.scope,
        origin=origin,
    )


def _namespace(row: Row) -> tuple[str, ...]:
    labels = row.get("namespace")
    if type(labels) is not list or not all(type(one) is str for one in labels):
        raise MalformedError("`namespace` is not a list of texts", field="namespace")
    return tuple(labels)


def _entry_fields(value: Row) -> tuple[Row, str | None]:
    """Return the members of an entry from a value, and the member with its text unless LangMem's.

    A value without a text is stored as data.
    """
    kind, content = value.get(_KIND), value.get(_CONTENT)
    if type(kind) is str and type(content) is dict and type(content.get(_CONTENT)) is str:
        if len(content) == 1:
            rest = _rest(value, _KIND, _CONTENT)
            return {"text": content[_CONTENT], "kind": kind, "metadata": rest}, None
    else:
        members = [name for name in TEXTS if type(value.get(name)) is str]
        name = next((one for one in members if value[one].strip()), members[0] if members else None)
        if name is not None:
            own = (_KIND,) if type(kind) is str else ()
            rest = _rest(value, name, *own)
            return {"text": value[name], "kind": kind if own else None, "metadata": rest}, name
    return {"data": value}, None


def _rest(value: Row, *names: str) -> Row:
    return {name: part for name, part in value.items() if name not in names}


def row_of(record: Sealed, entry: Entry, report: Report, store_form: Shown = as_shown) -> Row:
    """Return an entry as an item; what it cannot hold is counted as lost.

    Args:
        record: The entry's record.
        entry: The entry, with a text or data.
        report: Counts losses.
        store_form: Returns the store's form of times.
    """
    scope, origin = entry.scope, entry.origin
    labels = scope.namespace if scope is not None and _only_namespace(scope) else ()
    if not as_they_were(labels):
        labels = labels_of(scope)
    own = origin is not None and origin.provider == NAME
    key = key_in(joined(labels), origin.id) if own and origin and origin.id else None
    row = _row(entry, labels, _key(record, origin) if key is None else key, store_form)
    _count(record, entry, labels, report)
    if own and origin is not None:
        as_written = {
            k: v for k, v in origin.as_written.items() if k not in (TEXT_MEMBER, "value", "key")
        }
        return _reproduced(entry, row, as_written)
    return row


def _only_namespace(scope: Scope) -> bool:
    return scope == Scope(namespace=scope.namespace)


def _key(record: Sealed, origin: Origin | None) -> str:
    if origin is None or origin.id is None:
        return record.id.partition(":")[2][:32]
    return origin.id


def _reproduced(entry: Entry, row: Row, as_written: Row) -> Row:
    """Restore the stored members, except times that the entry has changed."""
    for name in ("created_at", "updated_at", "expires_at"):
        camel = as_written.get(_CAMEL.get(name, name))
        stored = (
            camel
            if as_written.get(name, ABSENT) == ABSENT and camel is not None
            else as_written.get(name)
        )
        if name in as_written and _time(_none_if_absent(stored)) != getattr(entry, name):
            del as_written[name]
            as_written.pop(_CAMEL.get(name, name), None)
    numbers = as_written.pop(NUMBERS, None)
    whole = reproduce(row, as_written) | {"namespace": row["namespace"], "value": row["value"]}
    return with_numbers(whole, numbers)


def _none_if_absent(part: Any) -> Any:
    return None if part == ABSENT else part


def _row(entry: Entry, labels: tuple[str, ...], key: str, store_form: Shown) -> Row:
    created = entry.created_at or entry.updated_at or NO_TIME
    row: Row = {
        "namespace": list(labels),
        "key": key,
        "value": _value(entry),
        "created_at": store_form("created_at", created),
        "updated_at": store_form("updated_at", entry.updated_at or created),
    }
    if entry.expires_at is not None:
        row["expires_at"] = store_form("expires_at", entry.expires_at)
    return row


def _value(entry: Entry) -> Row:
    if entry.text is None:
        return entry.data if type(entry.data) is dict else {"data": entry.data}
    origin = entry.origin
    named = origin.as_written.get(TEXT_MEMBER) if origin and origin.provider == NAME else None
    if named in TEXTS:
        kind = {} if entry.kind is None else {_KIND: entry.kind}
        return {**entry.metadata, **kind, str(named): entry.text}
    whole = {_KIND: entry.kind or _MEMORY, _CONTENT: {_CONTENT: entry.text}}
    return {**entry.metadata, **whole}


def _count(record: Sealed, entry: Entry, labels: tuple[str, ...], report: Report) -> None:
    value = record.value
    lost = dict.fromkeys(sorted(value.keys() - _SUPPORTED), _NO_FIELD)
    if record.type != "semantic":
        lost["type"] = "an item cannot store the memory type"
    if entry.text is not None and entry.data is not None:
        lost["data"] = "an item must be a text or data"
    if entry.text is None:
        lost |= dict.fromkeys(
            ("kind", "metadata") & value.keys(), "an item of data cannot have other members"
        )
    again, _ = _entry_fields(_value(entry))
    if entry.text is not None and again.get("metadata", {}) != entry.metadata:
        lost["metadata"] = "an item uses that member itself"
    if entry.scope is not None and entry.scope != Scope(namespace=labels):
        lost["scope"] = "a namespace has only labels"
    origin = value.get("origin", {"provider": NAME})
    if origin.get("provider") != NAME or origin.keys() & {"source", "revision"}:
        lost["origin"] = "an item cannot store provenance"
    for name, reason in lost.items():
        report.lost(name, reason, example=record.id)


def _time(value: Any) -> str | None:
    time = time_of(value)
    return None if time == NO_TIME else time


STORE = "store"
"""The table of items."""

MIGRATIONS, VECTOR_MIGRATIONS = "store_migrations", "vector_migrations"
TABLES = frozenset({STORE, MIGRATIONS, VECTORS, VECTOR_MIGRATIONS})
"""The tables of a store; one without vectors does not have the last two."""

_NEEDED = ("prefix", "key", "value")
_VECTOR_COLUMNS = ("prefix", "key", "field_name", "embedding")
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
    """Return a time in the form of the library's columns."""
    text = iso_text(time).replace("T", " ")
    return text if name == "expires_at" else text.removesuffix("+00:00")


# -- reading -------------------------------------------------------------------------------


def items_in(database: Database, file: str, reading: ReadContext) -> Iterator[Semantic]:
    """Yield the items, in the order of insertion.

    Args:
        database: The store.
        file: Its name in errors.
        reading: The limits; takes bad items to skip.

    Raises:
        MalformedError: If an item is not valid, naming table, row and member.
    """
    columns = columns_of(database, STORE, _NEEDED, file)
    has_vectors = bool(database.columns(VECTORS))
    if has_vectors:
        columns_of(database, VECTORS, _VECTOR_COLUMNS, file)
    quoted = ", ".join('"' + name.replace('"', '""') + '"' for name in columns)
    sql = f"SELECT {quoted} FROM {STORE} ORDER BY rowid"  # noqa: S608 - quoted
    for number, values in enumerate(database.rows(sql)):
        row = dict(zip(columns, values, strict=True))
        try:
            vectors = _vectors_of(database, row) if has_vectors else {}
            yield entry_of(_item(row, vectors), in_sqlite)
        except MalformedError as error:
            reading.refuse(error.within(f"{STORE}/{number}").located(file=file))


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
            item[name] = encode_foreign(part) if type(part) is not str else part
    return item | ({VECTORS: vectors} if vectors else {})


def _vectors_of(database: Database, row: Row) -> Row:
    sql = f"SELECT field_name, embedding FROM {VECTORS} WHERE prefix = ? AND key = ? LIMIT ?"  # noqa: S608 - our own
    vectors = database.rows(sql, row["prefix"], row["key"], _MOST_FIELDS)
    return {str(name): encode_foreign(vector) for name, vector in vectors if type(vector) is bytes}


# -- writing -------------------------------------------------------------------------------


def make_store(connection: apsw.Connection, records: RecordSet, report: Report) -> None:
    """Write items to a new database, with everything else that the library creates.

    Args:
        connection: The database, in a transaction.
        records: The records to write as items.
        report: Counts losses.
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
    """Writes items to a store."""

    def __init__(self, connection: apsw.Connection, report: Report) -> None:
        self._connection = connection
        self._report = report
        self._keys = ScratchMap()
        self._has_vectors = False

    def close(self) -> None:
        """Free the temporary space."""
        self._keys.close()

    def put(self, row: Row, identity: str) -> None:
        """Insert an item; if its key exists, under a new key."""
        prefix, key = joined(tuple(row.pop("namespace"))), row.pop("key")
        vectors = row.pop(VECTORS, {})
        if not self._keys.add(f"{prefix}\0{key}".encode()):
            key = identity.partition(":")[2]
            self._report.lost("origin/id", "another item has the same key", example=identity)
            self._keys.add(f"{prefix}\0{key}".encode())
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
    """Return a value that a column accepts; None if there is none."""
    with suppress(InputError):
        value = decode_foreign(carried)
        if value is None or isinstance(value, str | bytes | int | float):
            return value
    return None
