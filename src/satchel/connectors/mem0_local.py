"""Mem0's own store on this machine: a Qdrant folder with the memories, and ``history.db``.

Each point is a memory and is mapped like a memory of an export (``formats.mem0``). The history of a
memory becomes its older versions; deleted memories are read on request. Writing produces what Mem0
would have written, with the IDs and times of the memories: its library would create new ones, and
would need a model. Compared with mem0ai 2.2.1 and qdrant-client 1.20.0.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import msgspec

from satchel.connectors._mem0_store import (
    USUAL,
    Mem0Address,
    Payload,
    chosen,
    derived_id,
    payload_of_row,
    point_id,
    row_of_payload,
)
from satchel.connectors._qdrant import Identity, Points, QdrantFolder, QdrantPoint
from satchel.crypto.canonical import encode_foreign
from satchel.crypto.sealed_records import Sealed
from satchel.errors import MalformedError, TargetError, UnreadableError
from satchel.formats._json import differences, reproduce
from satchel.formats.mem0 import (
    HISTORY,
    OF_THE_STORE,
    VECTOR,
    Row,
    entry_of,
    hash_of,
    losses_of,
    row_of,
)
from satchel.model.records import Entry
from satchel.model.values import Component, read_time
from satchel.ports.format import (
    ConnectorOptions,
    Info,
    Page,
    PastVersion,
    ReadContext,
    Traits,
    WriteResult,
)
from satchel.ports.record_set import Report
from satchel.runtime.foreign_databases import Database, SortedRows

_COLUMNS = (
    *("id", "memory_id", "old_memory", "new_memory", "event"),
    *("created_at", "updated_at", "is_deleted", "actor_id", "role"),
)
_TABLE = (
    "CREATE TABLE IF NOT EXISTS history (id TEXT PRIMARY KEY, memory_id TEXT, old_memory TEXT,"
    " new_memory TEXT, event TEXT, created_at DATETIME, updated_at DATETIME, is_deleted INTEGER,"
    " actor_id TEXT, role TEXT)"
)
_TYPESCRIPT = "memory_history"
_GONE = "deleted"
_DELETE = "DELETE"


@dataclass(slots=True)
class Mem0Version:
    """A version of a memory: its state between two changes."""

    text: str
    row: Row
    """In the form of ``get_all()``; its metadata is unknown."""

    rows: list[Row] = field(default_factory=list)
    """Its rows of the history that do not follow from the memory."""


class Mem0History:
    """The update history, read.

    Args:
        path: The file.
        most_bytes: Largest size of a text.

    Raises:
        MalformedError: If it is not a history of Mem0.
    """

    def __init__(self, path: Path, *, most_bytes: int) -> None:
        self.messages = 0
        """Number of conversation turns that Mem0 stores beside the history."""

        self.gone = 0
        """Number of deletions."""

        self._sorted = SortedRows()
        database = Database(path, most_bytes=most_bytes)
        try:
            self._read(database)
        except BaseException:
            self._sorted.close()
            raise
        finally:
            database.close()

    def _read(self, database: Database) -> None:
        columns = database.columns("history")
        if not columns and database.columns(_TYPESCRIPT):
            raise MalformedError(
                "a history of the TypeScript library, which belongs to another store",
                file=str(database.path),
            )
        if columns and not {*_COLUMNS} <= {*columns}:
            raise MalformedError(
                "a history of an older Mem0",
                file=str(database.path),
                hint="Open it once with Mem0 2, which upgrades it.",
            )
        if columns:
            statement = "SELECT count(*) FROM history WHERE event = ?"
            ((self.gone,),) = database.rows(statement, _DELETE)
        self._sorted.fill(_keyed(database) if columns else iter(()))
        if database.columns("messages"):
            ((self.messages,),) = database.rows("SELECT count(*) FROM messages")

    def of(self, memory: str, owner: Row) -> list[Mem0Version]:
        """Return the versions of a memory, oldest first.

        Args:
            memory: Its ID at Mem0.
            owner: Members of its row that name its owner.
        """
        rows = [msgspec.json.decode(value) for value in self._sorted.of(f"memory {memory}")]
        versions = list[Mem0Version]()
        for row in rows:
            _apply_change(versions, row, owner)
        return versions

    def deleted(self, after: int | None, limit: int) -> list[tuple[int, str, str | None]]:
        """Return the positions, IDs and times of deletions after a position, in order."""
        rows = self._sorted.since(_GONE, after, limit)
        return [
            (place, *msgspec.json.decode(value, type=tuple[str, str | None]))
            for place, value in rows
        ]

    def close(self) -> None:
        """Free the temporary space."""
        self._sorted.close()


def _keyed(database: Database) -> Iterator[tuple[str, int, bytes]]:
    """Yield the rows by memory, and deletions under a separate key."""
    names = ", ".join(_COLUMNS)
    # The order of Mem0's history().
    statement = f"SELECT {names} FROM history ORDER BY created_at, datetime(updated_at), rowid"  # noqa: S608 - names of ours
    deletions = 0
    for position, values in enumerate(database.rows(statement)):
        row = dict(zip(_COLUMNS, values, strict=True))
        if not isinstance(row["memory_id"], str) or any(
            part is not None and type(part) not in (str, int, float) for part in values
        ):
            raise MalformedError("a row of the history is damaged", field=str(position))
        yield f"memory {row['memory_id']}", position, msgspec.json.encode(row)
        if row["event"] == _DELETE:
            value = msgspec.json.encode((row["memory_id"], _text(row["updated_at"])))
            yield _GONE, deletions, value
            deletions += 1


def _apply_change(versions: list[Mem0Version], row: Row, owner: Row) -> None:
    """Apply a change of a memory to its versions."""
    memory, old, new = row["memory_id"], _text(row["old_memory"]), _text(row["new_memory"])
    last = versions[-1] if versions else None
    if old is not None and (last is None or last.text != old):
        last = Mem0Version(old, _shown_history(row, old, owner, first=True))
        versions.append(last)
    if new is None:
        if last is not None:
            last.rows.append(differences(row, _ended(memory, last.row)))
        return
    version = Mem0Version(new, _shown_history(row, new, owner, first=False))
    made = _derived(memory, version.row, last.text if last else None)
    version.rows.append(differences(row, made))
    versions.append(version)


def _shown_history(row: Row, text: str, owner: Row, *, first: bool) -> Row:
    """Return a version as a row of ``get_all()``; its metadata is unknown."""
    created = row["created_at"]
    members = {"created_at": created, "updated_at": created if first else row["updated_at"]}
    members |= {name: row[name] for name in ("actor_id", "role")}
    known = {name: part for name, part in members.items() if part is not None}
    return {
        "id": row["memory_id"],
        "memory": text,
        "hash": hash_of(text),
        **known,
        **owner,
        "metadata": None,
    }


def _derived(memory: str, row: Row, before: str | None) -> Row:
    """Return the row that Mem0 would have written for a change of a memory.

    Args:
        memory: Its ID at Mem0.
        row: The memory, in the form of ``get_all()``.
        before: Its previous text; None for the first version.
    """
    return {
        "memory_id": memory,
        "old_memory": before,
        "new_memory": row["memory"],
        "event": "ADD" if before is None else "UPDATE",
        "created_at": row.get("created_at", row.get("createdAt")),
        "updated_at": row.get("updated_at", row.get("updatedAt")),
        "is_deleted": 0,
        "actor_id": row.get("actor_id"),
        "role": row.get("role"),
    }


def _ended(memory: str, row: Row) -> Row:
    """Return the row that Mem0 would have written for a deletion."""
    changed = {"old_memory": row["memory"], "new_memory": None, "event": _DELETE, "is_deleted": 1}
    return {**_derived(memory, row, None), **changed}


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def rows_of(memory: str, versions: Sequence[tuple[str, Entry]]) -> list[Row]:
    """Return the rows of the history of a memory.

    Rows that came with it are returned unchanged. For changes made here, and for memories of other
    origin, they are rows that Mem0 would have written.

    Args:
        memory: Its ID at Mem0.
        versions: Our IDs of its versions and their contents, oldest first.
    """
    rows, before, history_before = list[Row](), None, None
    for name, version in versions:
        row = row_of(version)
        history = None if version.origin is None else version.origin.as_written.get(HISTORY)
        original: list[Row] = [{"id": derived_id(memory, name)}]
        if isinstance(history, list) and (not history or history != history_before):
            original = history
        derived = [_derived(memory, row, before), *([_ended(memory, row)] * len(original))]
        rows += [reproduce(base, part) for base, part in zip(derived, original, strict=False)]
        before, history_before = version.text, history
    return rows


class Mem0HistoryWriter:
    """The update history, open for writing.

    Args:
        path: The file; created as Mem0 creates it, if missing.
        most_bytes: Largest size of a text.

    Raises:
        TargetError: If it is not a writable history.
    """

    def __init__(self, path: Path, *, most_bytes: int) -> None:
        self._database = Database(path, most_bytes=most_bytes, writes=True)
        try:
            if not self._database.columns("history"):
                with self._database.transaction():
                    self._database.run(_TABLE, [()])
            self._require_columns()
        except BaseException:
            self._database.close()
            raise

    def _require_columns(self) -> None:
        if {*self._database.columns("history")} != {*_COLUMNS}:
            raise TargetError(
                "this history does not have the columns of Mem0 2",
                file=str(self._database.path),
                hint="Open it once with Mem0, which upgrades it.",
            )

    def add(self, rows: Sequence[Row]) -> None:
        """Add rows that are missing; durable on return.

        Raises:
            TargetError: If they cannot be written.
        """
        places = ", ".join("?" * len(_COLUMNS))
        statement = f"INSERT OR IGNORE INTO history ({', '.join(_COLUMNS)}) VALUES ({places})"  # noqa: S608 - names of ours
        with self._database.transaction():
            self._database.run(statement, [tuple(row.get(one) for one in _COLUMNS) for row in rows])

    def close(self) -> None:
        """Close the file."""
        self._database.close()


_DEFAULT = ""
"""Qdrant's name for the vector of a point without named vectors."""


def default_vector(vectors: Any) -> list[float] | None:
    """Return the vector of a point that Mem0 compares, or None if it has no dense one."""
    vector = vectors.get(_DEFAULT) if isinstance(vectors, dict) else vectors
    if not isinstance(vector, list) or not vector:
        return None
    return vector if all(type(number) in (int, float) for number in vector) else None


def kept_vector(vector: list[float], text: str) -> dict[str, Any]:
    """Return the form of a vector that an entry stores."""
    return {VECTOR: {"hash": hash_of(text), "numbers": vector}}


def vector_of(entry: Entry) -> list[float] | None:
    """Return the vector that came with a memory; None if its text has changed since."""
    stored = None if entry.origin is None else entry.origin.as_written.get(VECTOR)
    if not isinstance(stored, dict) or stored.get("hash") != hash_of(entry.text or ""):
        return None
    vector = default_vector(stored.get("numbers"))
    return None if vector is None else [float(number) for number in vector]


def vectors_to_write(
    vector: list[float], size: int | None, report: Report, example: str
) -> dict[str, Any]:
    """Return the vectors to write with a point; one of another length is counted as lost.

    Args:
        vector: The one that came with the memory.
        size: Dimensions of the collection's vector; None if it has named vectors.
        report: Where losses go.
        example: The record's ID.
    """
    if len(vector) == size:
        return {_DEFAULT: vector}
    has = "have names" if size is None else f"have {size} numbers"
    report.lost("vector", f"the vectors of the collection {has}", example=example)
    return {}


def with_vector(entry: Entry, vectors: Any) -> Entry:
    """Return a memory with the vector of its point added, if there is one."""
    vector = default_vector(vectors)
    return entry if vector is None else keeping(entry, kept_vector(vector, entry.text or ""))


def keeping(entry: Entry, more: Row) -> Entry:
    """Return an entry with members added to its origin."""
    origin = entry.origin
    assert origin is not None  # noqa: S101 - what is read has one
    kept = {**origin.as_written, **encode_foreign(more)}
    return msgspec.structs.replace(entry, origin=msgspec.structs.replace(origin, as_written=kept))


_TOGETHER = 256
_CURSOR = re.compile(r"(points|deleted)/([0-9]{0,18})", re.ASCII)
_USUAL_DIMENSIONS = 1536
_OWNERS = ("user_id", "agent_id", "run_id", "userId", "agentId", "runId")
_OTHER_VERSION = "another version exists there; --overwrite replaces it"
_ONLY_TEXT = "Mem0 stores text only"


class Mem0Local:
    """A local Mem0, locked while open.

    Args:
        address: Its address.
        options: How to open it.

    Raises:
        UnreadableError: If it does not exist.
        LockedError: If another process has it open.
        MalformedError: If it is damaged.
        UsageError: If the collection is ambiguous.
    """

    info: ClassVar[Info] = Info(
        title="Mem0 on this machine",
        suffixes=(),
        spec="mem0ai 2.2.1 with Qdrant's local mode (qdrant-client 1.20.0) and its history.db",
        checked="2026-11-22",
        traits=Traits(
            components=frozenset({Component.SEMANTIC, Component.PROCEDURAL}),
            exact=True,
            streams=True,
        ),
        lost_on_writing=(
            "Episodic, working and identity memory, facts without a text, edges, provenance, tags,"
            " salience and validity; times of day of an expiry."
        ),
        beside=OF_THE_STORE,
    )

    def __init__(self, address: Mem0Address, options: ConnectorOptions) -> None:
        self.address = address
        self._options = options
        self._points: Points | None = None
        self._history: Mem0History | None = None
        self._written: Mem0HistoryWriter | None = None
        self._dimensions = address.dimensions
        self._folder: QdrantFolder | None = None
        self.collection = address.collection or USUAL
        if options.dry_run and not (address.qdrant / "meta.json").exists():
            return
        self._folder = QdrantFolder(address.qdrant, writes=options.writes and not options.dry_run)
        try:
            self.collection = chosen(self._folder, address, writes=options.writes)
            if options.writes and not options.dry_run:
                self._open_for_writing(self._folder)
            else:
                self._open_for_reading(self._folder)
        except BaseException:
            self.close()
            raise

    # -- reading -------------------------------------------------------------------------------

    def page(self, cursor: str | None, report: Report) -> Page:
        """List memories from ``cursor``, with their older versions, then deleted ones."""
        part, after = ("points", None) if cursor is None else _read_cursor(cursor)
        self._note(report)
        if part == "deleted":
            return self._deleted_page(after)
        if self._points is None:
            if cursor is not None:
                raise MalformedError("no page starts at this cursor", field="cursor")
            return Page([], self._first_deleted())
        refuse = ReadContext(report=report, skip_bad=self._options.skip_bad).refuse
        points, following = self._points.page(after, _TOGETHER, refuse)
        items, past = list[Entry](), list[PastVersion]()
        for each in points:
            try:
                entry, before = self._entry(each)
            except MalformedError as error:
                refuse(error)
                continue
            items.append(entry)
            past += before
        if following is not None:
            return Page(items, f"points/{following}", past)
        return Page(items, self._first_deleted(), past)

    def _entry(self, point: QdrantPoint) -> tuple[Entry, list[PastVersion]]:
        row = row_of_payload(point.id, point.payload)
        history = self._read_history()
        versions = list[Mem0Version]()
        if history is not None:
            owner = {name: row[name] for name in _OWNERS if name in row}
            versions = history.of(row["id"], owner)
        history_rows: list[Row] = []
        if versions and versions[-1].text == row.get("memory"):
            history_rows = versions.pop().rows
        try:
            entry = entry_of(row)
            if self._options.embeddings:
                entry = with_vector(entry, point.vectors)
        except MalformedError as error:
            error.field = f"{row['id']}/{error.field}"
            raise error.located(file=str(self.address.folder)) from None
        if history is not None:
            entry = _remembering(entry, history_rows)
        times = [*(_changed(one.row) for one in versions[1:]), _changed(row)]
        past = [
            PastVersion(_past(version), "superseded", at)
            for version, at in zip(versions, times, strict=False)
        ]
        return entry, past if versions else []

    def _first_deleted(self) -> str | None:
        """Return the cursor of the first deleted memories."""
        if not self._options.include_deleted or self._read_history() is None:
            return None
        return "deleted/" if self._deletions(None) else None

    def _deleted_page(self, after: int | None) -> Page:
        if not self._options.include_deleted or (after is not None and not self._existed(after)):
            raise MalformedError("no page starts at this cursor", field="cursor")
        deleted = self._deletions(after)
        past = list[PastVersion]()
        for _, memory, at in deleted[:_TOGETHER]:
            past += self._ended(memory, at)
        more = len(deleted) > _TOGETHER
        return Page([], f"deleted/{deleted[_TOGETHER - 1][0]}" if more else None, past)

    def _deletions(self, after: int | None) -> list[tuple[int, str, str | None]]:
        history = self._read_history()
        return [] if history is None else history.deleted(after, _TOGETHER + 1)

    def _existed(self, position: int) -> bool:
        deleted = self._deletions(position - 1)
        return len(deleted) > 1 and deleted[0][0] == position

    def _ended(self, memory: str, at: str | None) -> list[PastVersion]:
        """Return the versions of a deleted memory; none if it exists again."""
        history = self._read_history()
        if history is None or (self._points is not None and self._has_point(memory)):
            return []
        versions = history.of(memory, {})
        if not versions:
            return []
        times = [_changed(one.row) for one in versions[1:]]
        past = [
            PastVersion(_past(one), "superseded", when)
            for one, when in zip(versions, times, strict=False)
        ]
        return [*past, PastVersion(_past(versions[-1]), "deleted", read_time(at) if at else None)]

    def _has_point(self, memory: str) -> bool:
        assert self._points is not None  # noqa: S101 - the caller checked it
        whole: Identity = int(memory) if memory.isascii() and memory.isdecimal() else memory
        return self._points.get(whole) is not None

    def _note(self, report: Report) -> None:
        """Note data that is not memory and is not read, and a missing history."""
        history = self._read_history()
        if history is None:
            report.note(
                "there is no history.db: earlier versions of memories are unknown (to set it: mem0:///folder?history=FILE)"
            )
            return
        if history.messages:
            report.note(
                f"{history.messages} conversation turns in history.db are not memories, and "
                "were skipped"
            )
        if history.gone and not self._options.include_deleted:
            report.note(
                f"history.db still has the texts of {history.gone} deleted memories, which "
                "were skipped (to include them: --include-deleted)"
            )

    def _read_history(self) -> Mem0History | None:
        if self._history is None:
            path = self.address.found_history()
            if path is not None and path.exists():
                self._history = Mem0History(path, most_bytes=self._options.limits.line_bytes)
        return self._history

    def _forget_history(self) -> None:
        """Drop the history that was read, so that the next use reads it again."""
        history, self._history = self._history, None
        if history is not None:
            history.close()

    # -- writing -------------------------------------------------------------------------------

    def take(self, batch: Sequence[Sealed], report: Report) -> Sequence[WriteResult]:
        """Write memories; durable when this returns."""
        return self.take_versions(batch, {}, report)

    def take_versions(
        self, batch: Sequence[Sealed], older: Mapping[str, Sequence[Sealed]], report: Report
    ) -> Sequence[WriteResult]:
        """Write memories and their earlier versions; durable when this returns."""
        results, points, rows = list[WriteResult](), dict[Identity, tuple[Any, Any]](), list[Row]()
        for record in batch:
            versions = [*older.get(record.id, ()), record]
            result = self._plan_write(versions, points, report)
            results.append(result)
            if result.there is None:
                continue
            memory = _entry_of(record)
            name = point_id(memory, versions[0].id)[0]
            rows += rows_of(str(name), [(version.id, _entry_of(version)) for version in versions])
        if points:
            self._make_collection()
        if self._written is not None and rows:
            # First: without its history, a memory would look like a new one.
            self._written.add(rows)
            self._forget_history()
        if self._written is not None and self._points is not None and points:
            self._points.put([(name, *parts) for name, parts in points.items()])
        return results

    def _plan_write(
        self,
        versions: Sequence[Sealed],
        points: dict[Identity, tuple[Any, Any]],
        report: Report,
    ) -> WriteResult:
        """Decide on a memory, and add it to what is written."""
        record = versions[-1]
        entry = record.model
        if record.type not in self.info.traits.components or not isinstance(entry, Entry):
            return WriteResult(record.id, None, "Mem0 has no such records")
        if entry.text is None:
            return WriteResult(record.id, None, _ONLY_TEXT)
        name, keeps_id = point_id(entry, versions[0].id)
        row = row_of(entry)
        payload = payload_of_row(row, report, record.id)
        existing = None if self._points is None else self._points.get(name)
        same = existing is not None and _shown(existing.payload) == _shown(payload)
        if name in points or (existing is not None and not same and not self._options.overwrite):
            return WriteResult(record.id, None, _OTHER_VERSION)
        vectors = self._vectors_for(record, entry, existing, report)
        if existing is not None and same and vectors == existing.vectors:
            return self._counted(record, row, report, WriteResult(record.id, str(name), known=True))
        points[name] = (vectors, payload)
        if not keeps_id:
            report.lost("id", "IDs of Mem0's own store must be UUIDs", example=record.id)
        return self._counted(record, row, report, WriteResult(record.id, str(name)))

    def _vectors_for(
        self, record: Sealed, entry: Entry, existing: QdrantPoint | None, report: Report
    ) -> Any:
        """Return the vectors to write: its own, or existing ones of the same text."""
        same_text = existing is not None and existing.payload.get("data") == entry.text
        vectors = existing.vectors if existing is not None and same_text else {}
        vector = vector_of(entry)
        if vector is None:
            return vectors
        if not self._options.embeddings:
            report.note("vectors of memories were skipped (to include them: --include-embeddings)")
            return vectors
        if default_vector(vectors) is not None:
            return vectors
        return vectors_to_write(vector, self._size(vector), report, record.id)

    def _counted(
        self, record: Sealed, row: Row, report: Report, result: WriteResult
    ) -> WriteResult:
        """Count what a memory loses, except members that only this store can hold."""
        for name, reason in losses_of(record.value, row).items():
            report.lost(name, reason, example=record.id)
        return result

    def close(self) -> None:
        """Close the files."""
        for one in (self._points, self._history, self._written, self._folder):
            if one is not None:
                one.close()

    def _open_for_reading(self, folder: QdrantFolder) -> None:
        if self.address.history is not None and not self.address.history.is_file():
            raise UnreadableError("no such file", file=str(self.address.history))
        path = folder.storage(self.collection)
        if path.exists():
            self._points = Points(path, most_bytes=self._options.limits.line_bytes)

    def _size(self, vector: list[float]) -> int | None:
        """Return the dimensions of the vectors; in an empty collection, those of this vector."""
        if self._folder is None or self.collection not in self._folder.collections:
            self._dimensions = self._dimensions or len(vector)
            return self._dimensions
        return self._folder.dimensions(self.collection)

    def _make_collection(self) -> None:
        folder = self._folder
        if folder is None or self._written is None or self.collection in folder.collections:
            return
        folder.make(self.collection, self._dimensions or _USUAL_DIMENSIONS)

    def _open_for_writing(self, folder: QdrantFolder) -> None:
        most = self._options.limits.line_bytes
        path = folder.storage(self.collection)
        self._points = Points(path, most_bytes=most, writes=True)
        history = self.address.found_history() or folder.path.parent / "history.db"
        self._written = Mem0HistoryWriter(history, most_bytes=most)


def _read_cursor(cursor: str) -> tuple[str, int | None]:
    match = _CURSOR.fullmatch(cursor)
    if match is None or (match[1] == "points" and not match[2]):
        raise MalformedError("no page starts at this cursor", field="cursor")
    return match[1], int(match[2]) if match[2] else None


def _changed(row: Row) -> str | None:
    """Return when a memory got the state of a row."""
    for name in ("updated_at", "updatedAt", "created_at", "createdAt"):
        if isinstance(row.get(name), str):
            return read_time(row[name])
    return None


def _shown(payload: Payload) -> str:
    """Return a payload in a canonical form, so that equal ones compare equal (NaN too)."""
    return json.dumps(payload, sort_keys=True, default=repr)


def _past(version: Mem0Version) -> Entry:
    return _remembering(entry_of(version.row), version.rows)


def _remembering(entry: Entry, rows: list[Row]) -> Entry:
    """Return an entry with the rows of its history added to its origin."""
    return keeping(entry, {HISTORY: rows})


def _entry_of(record: Sealed) -> Entry:
    assert isinstance(record.model, Entry)  # noqa: S101 - others were refused
    return record.model
