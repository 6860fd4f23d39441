"""amplihack's flat memory as its SQLite database: ``memory.db``, read only.

It has sessions, and what was learned, decided and noted in them. The type of a memory is its kind:
conversation and context are episodic, the others are facts. Its agent and its session are its
scope. A session becomes a session event for each of its agents. Compared with amplihack-rs 0.17.0.
"""

from collections.abc import Iterator
from typing import Any, ClassVar

from satchel.crypto.canonical import encode_foreign
from satchel.crypto.sealed_records import Sealed
from satchel.errors import EmptyInputError, InputError, MalformedError, UsageError
from satchel.formats._amplihack.rows import NAME, Row, require_id, time_of
from satchel.formats._database import MAGIC, columns_of, open_database_copy, other_tables, parsed
from satchel.model.records import Entry, Episodic, Model, Semantic, SessionEvent
from satchel.model.values import Component, Origin, Scope, TrustClass, iso_text
from satchel.ports.format import Info, Location, ReadContext, Signs, Target, Traits, WriteContext
from satchel.ports.record_set import RecordSet

_MEMORIES, _SESSIONS, _AGENTS = "memory_entries", "sessions", "session_agents"
_TEXTS = (
    *("id", "session_id", "agent_id", "memory_type", "title", "content", "content_hash"),
    *("created_at", "accessed_at", "expires_at", "parent_id"),
)
_NEEDED = {
    _MEMORIES: ("id", "session_id", "agent_id", "memory_type", "title", "content", "created_at"),
    _SESSIONS: ("session_id", "created_at"),
    _AGENTS: ("session_id", "agent_id"),
}
_EPISODIC_TYPES = frozenset({"conversation", "context"})
_IN_JSON = ("metadata", "tags")
_TIER = "flat"
"""The source within the product, so that mirroring it does not touch the hierarchical memory."""

_MOST_IMPORTANT = 10
_MAPPED = frozenset({"id", "session_id", "agent_id", "memory_type", "content"})


class AmplihackFlat:
    """The format."""

    info: ClassVar[Info] = Info(
        title="amplihack flat memory, SQLite database",
        suffixes=(),
        signs=Signs(texts=((MAGIC, b"memory_entries"),)),
        spec="amplihack-rs 0.17.0, memory.db",
        checked="2026-11-22",
        traits=Traits(components=frozenset({Component.SEMANTIC, Component.EPISODIC}), writes=False),
    )

    def recognizes(self, location: Location) -> bool:
        head = location.head
        return head.startswith(MAGIC) and b"memory_entries" in head

    def read(self, location: Location, reading: ReadContext) -> Iterator[Model | Sealed]:
        with open_database_copy(location, reading) as database:
            columns = {
                table: columns_of(database, table, needed, location.name)
                for table, needed in _NEEDED.items()
            }
            count = 0
            for table, statement, names in _statements(columns):
                for number, values in enumerate(database.rows(statement)):
                    row = {
                        n: encode_foreign(v)
                        for n, v in zip(names, values, strict=True)
                        if v is not None
                    }
                    count += 1
                    try:
                        yield _session(row) if table == _SESSIONS else _memory(row)
                    except InputError as error:
                        error.within(f"{table}/{number}")
                        reading.refuse(error.located(file=location.name))
            if count == 0:
                raise EmptyInputError("the database contains no memories", file=location.name)
            for name in other_tables(database, frozenset(_NEEDED)):
                reading.report.lost("table", "not an amplihack table", example=name[:80])

    def write(self, records: RecordSet, target: Target, writing: WriteContext) -> None:
        del records, target, writing
        raise UsageError(
            "amplihack's flat memory is read-only",
            field="format",
            hint="To write hierarchical memory: amplihack or amplihack_db.",
        )


def _statements(columns: dict[str, list[str]]) -> Iterator[tuple[str, str, list[str]]]:
    """Yield each table with its SQL statement, and the names of the result columns."""
    agent_columns = [name for name in columns[_AGENTS] if name not in columns[_SESSIONS]]
    joined = ", ".join([*_quoted("one", columns[_SESSIONS]), *_quoted("who", agent_columns)])
    sessions = (
        f"SELECT {joined} FROM {_SESSIONS} AS one"  # noqa: S608 - quoted
        f" LEFT JOIN {_AGENTS} AS who ON who.session_id = one.session_id ORDER BY one.rowid"
    )
    yield _SESSIONS, sessions, [*columns[_SESSIONS], *agent_columns]
    names = columns[_MEMORIES]
    columns_sql = ", ".join(_quoted("one", names))
    yield _MEMORIES, f"SELECT {columns_sql} FROM {_MEMORIES} AS one ORDER BY one.rowid", names  # noqa: S608


def _quoted(table: str, names: list[str]) -> list[str]:
    return [f'{table}."' + name.replace('"', '""') + '"' for name in names]


def _memory(row: Row) -> Entry:
    for name in _TEXTS:
        if type(row.get(name)) not in (str, type(None)):
            raise MalformedError(f"`{name}` is not text", field=name)
    identity = require_id(row, "id")
    metadata, tags = (parsed(row.get(name), name) for name in _IN_JSON)
    created, expires = time_of(row.get("created_at")), time_of(row.get("expires_at"))
    importance = row.get("importance")
    salience = None
    if type(importance) is int and 0 <= importance <= _MOST_IMPORTANT:
        salience = importance / _MOST_IMPORTANT
    good_tags = type(tags) is list and all(type(one) is str for one in tags)
    as_written = {name: part for name, part in row.items() if name not in _MAPPED}
    if type(metadata) is dict:
        as_written.pop("metadata", None)
    if good_tags:
        as_written.pop("tags", None)
    for name, time in (("created_at", created), ("expires_at", expires)):
        if time is not None and iso_text(time) == row[name]:
            del as_written[name]
    members: Row = {
        "kind": row["memory_type"],
        "text": row["content"],
        "tags": tuple(tags) if good_tags else (),
        "metadata": metadata if type(metadata) is dict else {},
        "salience": salience,
        "created_at": created,
        "expires_at": expires,
        "scope": Scope(agent=row["agent_id"] or None, run=row["session_id"] or None),
        "origin": _origin(identity, as_written),
    }
    return Episodic(**members) if row["memory_type"] in _EPISODIC_TYPES else Semantic(**members)


def _session(row: Row) -> SessionEvent:
    for name in ("session_id", "agent_id", "created_at"):
        if type(row.get(name)) not in (str, type(None)):
            raise MalformedError(f"`{name}` is not text", field=name)
    identity, metadata = require_id(row, "session_id"), parsed(row.get("metadata"), "metadata")
    created = time_of(row.get("created_at"))
    as_written = {
        name: part for name, part in row.items() if name not in ("session_id", "agent_id")
    }
    if type(metadata) is dict:
        as_written.pop("metadata", None)
    if created is not None and iso_text(created) == row["created_at"]:
        del as_written["created_at"]
    return SessionEvent(
        event="session",
        session=identity,
        created_at=created,
        metadata=metadata if type(metadata) is dict else {},
        scope=Scope(agent=row.get("agent_id") or None, run=identity),
        origin=_origin(identity, as_written),
    )


def _origin(identity: str, as_written: Row) -> Origin:
    return Origin(
        provider=NAME, source=_TIER, id=identity, trust=TrustClass.IMPORTED, as_written=as_written
    )


FORMAT: Any = AmplihackFlat()
"""The instance that the registry loads."""
