"""The manifest: files, versions, contents and the audit log of a store.

It is one SQLite database in the store's folder, with deduplicated contents by SHA-256. A change
takes effect with its commit here; the folder is a copy. There are two connections, one for commits
and one for reads, each used by one thread at a time.
"""

import json
import os
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import apsw

from satchel.errors import StoreVersionError
from satchel.files.paths import Prefixes
from satchel.stores.sqlite.connection import immediate, open_for_writing, transaction, watch
from satchel.stores.sqlite.statements import translated

FILE_NAME = "manifest.db"

_APPLICATION = 0x53466D31  # "SFm1"
_VERSION = 1
_BUSY_MS = 30_000
_LOG_PAGES = 1_000
_SCHEMA = """
CREATE TABLE fact (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE content (sha TEXT PRIMARY KEY, data BLOB NOT NULL);
CREATE TABLE file (
    path TEXT PRIMARY KEY, sha TEXT NOT NULL, bytes INTEGER NOT NULL,
    version INTEGER NOT NULL, revision INTEGER NOT NULL, at TEXT NOT NULL, actor TEXT NOT NULL,
    reason TEXT NOT NULL, away INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
CREATE INDEX file_sha ON file(sha);
CREATE INDEX file_away ON file(path) WHERE away;
CREATE TABLE version (
    path TEXT NOT NULL, version INTEGER NOT NULL, revision INTEGER NOT NULL, op TEXT NOT NULL,
    sha TEXT NOT NULL, bytes INTEGER NOT NULL, at TEXT NOT NULL, actor TEXT NOT NULL,
    reason TEXT NOT NULL, other TEXT NOT NULL, PRIMARY KEY (path, version)
) WITHOUT ROWID;
CREATE INDEX version_revision ON version(revision);
CREATE INDEX version_sha ON version(sha);
CREATE TABLE spot (
    sha TEXT PRIMARY KEY, pack TEXT NOT NULL, start INTEGER NOT NULL, length INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE brought (path TEXT PRIMARY KEY, sha TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE event (seq INTEGER PRIMARY KEY, line TEXT NOT NULL, ends INTEGER NOT NULL);
"""


class FileRow(NamedTuple):
    """An existing file."""

    path: str
    sha: str
    bytes: int
    version: int
    revision: int
    at: str
    actor: str
    reason: str
    away: int
    """1 if only the remote place has the content."""


class StoredVersion(NamedTuple):
    """One version of a path."""

    path: str
    version: int
    """From 1; continues when a path is deleted and created again."""

    revision: int
    """Its number among all changes of the store."""

    op: str
    """``create``, ``update``, ``delete``, ``rename``, ``restore``, ``promote``, ``sync``."""

    sha: str
    """SHA of the content; empty for a deletion."""

    bytes: int
    at: str
    actor: str
    reason: str
    other: str
    """The other path of a rename or promotion; empty for anything else."""


class FilesManifest:
    """The database of one store, open.

    Args:
        folder: The folder it is in.

    Raises:
        StoreError: If it cannot be opened, or is another program's.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE_NAME
        self._open()
        watch(self)

    def _open(self) -> None:
        self._writing, self._reading = threading.RLock(), threading.RLock()
        self._pid = os.getpid()
        self._writer = self._connected()
        with self._translated(self._writer):
            self._require_schema()
        self._reader = self._connected()

    def _connected(self) -> apsw.Connection:
        connection = open_for_writing(self.path, busy_ms=_BUSY_MS, vfs=None)
        with self._translated(connection):
            connection.pragma("synchronous", 2)  # FULL: acknowledged commits are on the disk
            connection.pragma("wal_autocheckpoint", _LOG_PAGES)
            connection.pragma("secure_delete", 1)  # deleted bytes are overwritten
        return connection

    def _require_schema(self) -> None:
        connection = self._writer
        if connection.pragma("application_id") == 0 and connection.pragma("page_count") == 0:
            connection.pragma("journal_mode", "wal")
            with immediate(connection):
                if connection.pragma("user_version") == 0:
                    connection.execute(_SCHEMA)
                    connection.pragma("application_id", _APPLICATION)
                    connection.pragma("user_version", _VERSION)
        if connection.pragma("application_id") != _APPLICATION:
            raise StoreVersionError("not a manifest of memory files", file=str(self.path))
        if (version := connection.pragma("user_version")) != _VERSION:
            raise StoreVersionError(
                f"the manifest has version {version}, this program reads {_VERSION}",
                file=str(self.path),
                hint="Use a newer version of satchel.",
            )

    def empty_log(self) -> bool:
        """Checkpoint the write-ahead log; return whether no reader prevented it.

        Afterwards the log has no deleted bytes.
        """
        self._reopen_after_fork()
        with self._writing, self._translated(self._writer), transaction():
            row = next(iter(self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")))
        return bool(row[0] == 0)

    def close(self) -> None:
        """Close both connections. May be called more than once."""
        if self._pid == os.getpid():
            with self._writing, self._reading:
                for connection in (self._reader, self._writer):
                    with suppress(apsw.Error):
                        connection.close()

    def forget_parent(self) -> None:
        """Close an inherited connection in a child process; the next call opens another one."""
        with suppress(apsw.Error):
            for connection in (self._reader, self._writer):
                connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
                connection.close()
        self._pid = -1

    def _translated(self, connection: apsw.Connection) -> Any:
        return translated(str(self.path), connection)

    @contextmanager
    def committing(self) -> Iterator["ManifestRows"]:
        """Yield rows for writing, committed to the disk when the block ends without an error."""
        self._reopen_after_fork()
        with (
            self._writing,
            self._translated(self._writer),
            transaction() as here,
            immediate(self._writer, here),
        ):
            yield ManifestRows(self._writer)

    @contextmanager
    def looking(self) -> Iterator["ManifestRows"]:
        """Yield the committed rows."""
        self._reopen_after_fork()
        with self._reading, self._translated(self._reader), transaction():
            yield ManifestRows(self._reader)

    def _reopen_after_fork(self) -> None:
        if self._pid != os.getpid():
            self._open()


class ManifestRows:
    """The rows of a manifest, within a transaction or outside one."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection

    def all(self, statement: str, *values: Any) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a statement."""
        yield from self._connection.execute(statement, values)

    def one(self, statement: str, *values: Any) -> Any:
        """Return the first value of the first row; None if there is none."""
        return next((row[0] for row in self._connection.execute(statement, values)), None)

    def do(self, statement: str, *values: Any) -> int:
        """Run a statement, and return the number of changed rows."""
        self._connection.execute(statement, values)
        return self._connection.changes()

    def fact(self, name: str, default: Any = None) -> Any:
        """Return the value of a name."""
        found = self.one("SELECT value FROM fact WHERE name = ?", name)
        return default if found is None else found

    def state(self, name: str, value: Any) -> None:
        """Set the value of a name."""
        self.do("INSERT OR REPLACE INTO fact VALUES (?, ?)", name, value)

    def file(self, path: str) -> FileRow | None:
        """Return the row of an existing file."""
        found = self._connection.execute("SELECT * FROM file WHERE path = ?", (path,))
        return next((FileRow(*row) for row in found), None)

    def files(self, folder: str = "") -> Iterator[FileRow]:
        """Yield the rows of the files in a folder and below, by path; of all by default."""
        below = (folder + "/", folder + "0") if folder else ("", "\U0010ffff")  # 0 follows /
        rows = self.all("SELECT * FROM file WHERE path > ? AND path < ? ORDER BY path", *below)
        yield from (FileRow(*row) for row in rows)

    def away(self, folder: str = "") -> Iterator[FileRow]:
        """Yield the rows of files whose content only the remote place has."""
        rows = self.all("SELECT * FROM file WHERE away ORDER BY path")
        below = folder + "/" if folder else ""
        yield from (row for found in rows if (row := FileRow(*found)).path.startswith(below))

    def versions(self, path: str) -> Iterator[StoredVersion]:
        """Yield the versions of a path, oldest first."""
        rows = self.all("SELECT * FROM version WHERE path = ? ORDER BY version", path)
        yield from (StoredVersion(*row) for row in rows)

    def version(self, path: str, number: int) -> StoredVersion | None:
        """Return one version of a path."""
        rows = self.all("SELECT * FROM version WHERE path = ? AND version = ?", path, number)
        return next((StoredVersion(*row) for row in rows), None)

    def last_version(self, path: str) -> int:
        """Return the number of the newest version of a path; 0 if it never existed."""
        last = self.one("SELECT max(version) FROM version WHERE path = ?", path) or 0
        now: int = self.one("SELECT version FROM file WHERE path = ?", path) or 0
        return max(last, now)

    def put(self, row: FileRow) -> None:
        """Insert or replace the row of a file."""
        self.do("INSERT OR REPLACE INTO file VALUES (?,?,?,?,?,?,?,?,?)", *row)

    def add(self, version: StoredVersion) -> None:
        """Insert a new version of a path."""
        self.do("INSERT INTO version VALUES (?,?,?,?,?,?,?,?,?,?)", *version)

    def content(self, sha: str) -> bytes | None:
        """Return the bytes of a digest; None if they are not stored."""
        found: bytes | None = self.one("SELECT data FROM content WHERE sha = ?", sha)
        return found

    def keep(self, sha: str, data: bytes) -> None:
        """Store bytes under their digest."""
        self.do("INSERT OR IGNORE INTO content VALUES (?, ?)", sha, data)

    def erase(self, path: str) -> None:
        """Delete the bytes of all versions of a path that no other path has."""
        self.do(
            "DELETE FROM content WHERE sha IN (SELECT sha FROM version WHERE path = ?1)"
            " AND sha NOT IN (SELECT sha FROM version WHERE path <> ?1)"
            " AND sha NOT IN (SELECT sha FROM file WHERE path <> ?1)",
            path,
        )

    def drop_unused(self, sha: str, *, versions: bool) -> None:
        """Delete bytes that no file has, and no version if versions are kept."""
        if versions and self.one("SELECT 1 FROM version WHERE sha = ? LIMIT 1", sha):
            return
        if self.one("SELECT 1 FROM file WHERE sha = ? LIMIT 1", sha) is None:
            self.do("DELETE FROM content WHERE sha = ?", sha)


_FIELDS = ("path", "sha256", "updated_at", "updated_by", "reason", "bytes")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LARGEST_SIDECAR = 1 << 20


@dataclass(frozen=True)
class MemoryMeta:
    """Metadata of a memory file."""

    path: str
    sha256: str
    """SHA-256 of its bytes, 64 lower-case hexadecimal digits."""

    updated_at: str
    """UTC, ISO 8601 with microseconds; later changes of a store have later times."""

    updated_by: str
    reason: str
    bytes: int
    version: int | None = field(default=None, compare=False)
    """Version number of the path, from 1; None if unknown."""

    @classmethod
    def of(cls, row: FileRow) -> "MemoryMeta":
        """Return the metadata of the manifest."""
        return cls(
            path=row.path,
            sha256=row.sha,
            updated_at=row.at,
            updated_by=row.actor,
            reason=row.reason,
            bytes=row.bytes,
            version=row.version,
        )


def sidecar(meta: MemoryMeta, before: bytes | None) -> bytes:
    """Return the sidecar of a file: Flyte's six fields, and the members of other programs.

    Args:
        meta: The metadata.
        before: The present sidecar; a damaged one is replaced.
    """
    other = {k: v for k, v in _read(before).items() if k not in _FIELDS}
    members = {name: getattr(meta, name) for name in _FIELDS}
    return json.dumps({**members, **other}, indent=2).encode()


def from_sidecar(data: bytes | None, path: str, sha: str) -> MemoryMeta | None:
    """Return the metadata of a sidecar; None if it is for another content."""
    members = _read(data)
    if members.get("path") != path or members.get("sha256") != sha:
        return None
    size = members.get("bytes")
    return MemoryMeta(
        path=path,
        sha256=sha,
        updated_at=str(members.get("updated_at", "")),
        updated_by=str(members.get("updated_by", "")),
        reason=str(members.get("reason", "")),
        bytes=size if isinstance(size, int) else 0,
    )


def _read(data: bytes | None) -> dict[str, Any]:
    if data is None or len(data) > _LARGEST_SIDECAR:
        return {}
    try:
        members = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return members if isinstance(members, dict) else {}


def moment(microseconds: int) -> str:
    """Return a time as text that sorts like the time."""
    return (_EPOCH + timedelta(microseconds=microseconds)).isoformat(timespec="microseconds")


def version_name(at: str, sha: str) -> str:
    """Return the file name of a version."""
    return f"{at.replace(':', '-')}_{sha}.txt"


@dataclass(frozen=True)
class Policy:
    """The rules of a store."""

    read_only: Prefixes
    audit: bool
    keep_versions: bool

    @classmethod
    def of(
        cls, read_only_prefixes: Iterable[str] | str, *, audit: bool, keep_versions: bool
    ) -> "Policy":
        """Return the given rules, validated.

        Raises:
            MemoryStoreError: If a prefix is not a path.
        """
        return cls(Prefixes(read_only_prefixes), bool(audit), bool(keep_versions))

    @classmethod
    def read(cls, rows: ManifestRows) -> "Policy | None":
        """Return the rules of a store; None if it has none yet."""
        prefixes = rows.fact("policy_read_only")
        if prefixes is None:
            return None
        return cls(
            Prefixes(json.loads(prefixes)),
            bool(rows.fact("policy_audit", 1)),
            bool(rows.fact("policy_versions", 0)),
        )

    def encoded(self) -> str:
        """Return the rules as one text; equal rules have equal texts."""
        return json.dumps([sorted(self.read_only.paths), self.audit, self.keep_versions])

    def write(self, rows: ManifestRows) -> None:
        """Store these rules."""
        rows.state("policy_read_only", json.dumps(list(self.read_only.paths)))
        rows.state("policy_audit", int(self.audit))
        rows.state("policy_versions", int(self.keep_versions))

    def and_also(self, prefixes: Prefixes) -> "Policy":
        """Return these rules with further read-only prefixes."""
        both = Prefixes((*self.read_only.paths, *prefixes.paths))
        return Policy(both, self.audit, self.keep_versions)
