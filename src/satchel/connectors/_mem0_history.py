"""Mem0's ``history.db``: what each memory said before, and what was deleted."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from satchel.connectors._payloads import derived_id
from satchel.disk.databases.foreign import Database, Sorted
from satchel.errors import MalformedError, TargetError
from satchel.formats._as_written import differences, reproduce
from satchel.formats._mem0 import HISTORY, Row, hash_of, row_of
from satchel.memory.entries import Entry

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
class Version:
    """A memory as it was between two of its changes."""

    text: str
    row: Row
    """As ``get_all()`` would have shown it; nobody knows what metadata it had."""

    rows: list[Row] = field(default_factory=list)
    """What the history says of it: what its own rows do not follow from the memory itself."""


class History:
    """The update history, read.

    Args:
        path: The file.
        most_bytes: The longest text.

    Raises:
        MalformedError: If it is no history of Mem0's.
    """

    def __init__(self, path: Path, *, most_bytes: int) -> None:
        self.messages = 0
        """Turns of conversations that Mem0 keeps beside the history."""

        self.gone = 0
        """Deletions."""

        self._sorted = Sorted()
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

    def of(self, memory: str, owner: Row) -> list[Version]:
        """Return the versions of a memory, oldest first.

        Args:
            memory: Its id there.
            owner: Members of its row that say whose it is.
        """
        rows = [msgspec.json.decode(value) for value in self._sorted.of(f"memory {memory}")]
        versions = list[Version]()
        for row in rows:
            _follow(versions, row, owner)
        return versions

    def deleted(self, after: int | None, limit: int) -> list[tuple[int, str, str | None]]:
        """Return places, ids and times of deletions after a place, in their order."""
        found = self._sorted.since(_GONE, after, limit)
        return [
            (place, *msgspec.json.decode(value, type=tuple[str, str | None]))
            for place, value in found
        ]

    def close(self) -> None:
        """Give the space back."""
        self._sorted.close()


def _keyed(database: Database) -> Iterator[tuple[str, int, bytes]]:
    """Yield the rows under their memory, and what was deleted under a key of its own."""
    names = ", ".join(_COLUMNS)
    # The order is Mem0's own, in history().
    statement = f"SELECT {names} FROM history ORDER BY created_at, datetime(updated_at), rowid"  # noqa: S608 - names of ours
    gone = 0
    for place, values in enumerate(database.rows(statement)):
        row = dict(zip(_COLUMNS, values, strict=True))
        if not isinstance(row["memory_id"], str) or any(
            part is not None and type(part) not in (str, int, float) for part in values
        ):
            raise MalformedError("a row of the history is damaged", field=str(place))
        yield f"memory {row['memory_id']}", place, msgspec.json.encode(row)
        if row["event"] == _DELETE:
            value = msgspec.json.encode((row["memory_id"], _text(row["updated_at"])))
            yield _GONE, gone, value
            gone += 1


def _follow(versions: list[Version], row: Row, owner: Row) -> None:
    """Take one change of a memory into its versions."""
    memory, old, new = row["memory_id"], _text(row["old_memory"]), _text(row["new_memory"])
    last = versions[-1] if versions else None
    if old is not None and (last is None or last.text != old):
        last = Version(old, _shown(row, old, owner, first=True))
        versions.append(last)
    if new is None:
        if last is not None:
            last.rows.append(differences(row, _ended(memory, last.row)))
        return
    version = Version(new, _shown(row, new, owner, first=False))
    made = _derived(memory, version.row, last.text if last else None)
    version.rows.append(differences(row, made))
    versions.append(version)


def _shown(row: Row, text: str, owner: Row, *, first: bool) -> Row:
    """Return a version as a row of ``get_all()``; what metadata it had, nobody knows."""
    created = row["created_at"]
    said = {"created_at": created, "updated_at": created if first else row["updated_at"]}
    said |= {name: row[name] for name in ("actor_id", "role")}
    known = {name: part for name, part in said.items() if part is not None}
    return {
        "id": row["memory_id"],
        "memory": text,
        "hash": hash_of(text),
        **known,
        **owner,
        "metadata": None,
    }


def _derived(memory: str, row: Row, before: str | None) -> Row:
    """Return the row that Mem0 itself would have written when a memory became what it is.

    Args:
        memory: Its id there.
        row: The memory, as ``get_all()`` shows it.
        before: What it said before; None for the first version.
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
    """Return the row that Mem0 would have written when it deleted a memory."""
    changed = {"old_memory": row["memory"], "new_memory": None, "event": _DELETE, "is_deleted": 1}
    return {**_derived(memory, row, None), **changed}


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def rows_of(memory: str, versions: Sequence[tuple[str, Entry]]) -> list[Row]:
    """Return the rows of the history that say how a memory became what it is.

    Those that it came with are given back as they were; for what was changed here, or came from
    elsewhere, there are such as Mem0 itself would have written.

    Args:
        memory: Its id there.
        versions: Our ids of its versions and what they say, oldest first.
    """
    rows, before, said_before = list[Row](), None, None
    for name, version in versions:
        row = row_of(version)
        said = None if version.origin is None else version.origin.as_written.get(HISTORY)
        kept: list[Row] = [{"id": derived_id(memory, name)}]
        if isinstance(said, list) and (not said or said != said_before):
            kept = said
        made = [_derived(memory, row, before), *([_ended(memory, row)] * len(kept))]
        rows += [reproduce(base, part) for base, part in zip(made, kept, strict=False)]
        before, said_before = version.text, said
    return rows


class Written:
    """The update history, written to.

    Args:
        path: The file; made when it is not there, as Mem0 makes it.
        most_bytes: The longest text.

    Raises:
        TargetError: If it is no history that can be written.
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
        """Add rows, those that are there already left as they are; durable on return.

        Raises:
            TargetError: If they cannot be written.
        """
        places = ", ".join("?" * len(_COLUMNS))
        statement = f"INSERT OR IGNORE INTO history ({', '.join(_COLUMNS)}) VALUES ({places})"  # noqa: S608 - names of ours
        with self._database.transaction():
            self._database.run(statement, [tuple(row.get(one) for one in _COLUMNS) for row in rows])

    def close(self) -> None:
        """Let go of it."""
        self._database.close()
