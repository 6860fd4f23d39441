"""A table in an SQL database: what SQLite and PostgreSQL say the same."""

import io
import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import apsw
import msgspec

from satchel.errors import TargetError, UsageError, shown_address
from satchel.ports.sinks import COLUMNS, SCHEMA_VERSION, WORDS, Position, SinkRow
from satchel.runtime.files import PRIVATE_FILE, atomic_write, target_error
from satchel.runtime.private_files import private_folder, secure_database

TABLE, POSITIONS = "satchel_log", "satchel_sink"

_POSITION = "bank TEXT PRIMARY KEY, seq BIGINT, id TEXT, version BIGINT"
_INTEGERS = frozenset({"seq", "batch"})
_QUOTED = {name: f'"{name}"' for name in COLUMNS}  # `user` and others are words of SQL


def tables() -> list[str]:
    """Return the statements that make the tables where they are not there."""
    kinds = {name: "BIGINT" if name in _INTEGERS else "TEXT" for name in COLUMNS}
    columns = ", ".join(f"{_QUOTED[name]} {kind}" for name, kind in kinds.items())
    return [
        f"CREATE TABLE IF NOT EXISTS {TABLE} ({columns}, PRIMARY KEY (bank, seq))",
        f"CREATE INDEX IF NOT EXISTS {TABLE}_id ON {TABLE} (id)",
        f"CREATE INDEX IF NOT EXISTS {TABLE}_target ON {TABLE} (target)",
        f"CREATE TABLE IF NOT EXISTS {POSITIONS} ({_POSITION})",
    ]


def adding(mark: str) -> str:
    """Return the statement that adds a row, or leaves the same one that is there."""
    names, marks = ", ".join(_QUOTED.values()), ", ".join(mark for _ in COLUMNS)
    what = f"INSERT INTO {TABLE} ({names}) VALUES ({marks})"  # noqa: S608 - names of ours only
    return f"{what} ON CONFLICT (bank, seq) DO NOTHING"


def emptying(mark: str) -> str:
    """Return the statement that takes the words of an erased record away: of bank and id."""
    words = ", ".join(f"{_QUOTED[name]} = NULL" for name in WORDS)
    where = f"bank = {mark} AND id = {mark}"
    return f"UPDATE {TABLE} SET {words} WHERE {where}"  # noqa: S608 - names of ours only


def moving(mark: str) -> str:
    """Return the statement that sets the last row: bank, place, id, version."""
    marks = ", ".join([mark] * 4)
    what = f"INSERT INTO {POSITIONS} (bank, seq, id, version) VALUES ({marks})"  # noqa: S608 - idem
    new = "seq = excluded.seq, id = excluded.id, version = excluded.version"
    return f"{what} ON CONFLICT (bank) DO UPDATE SET {new}"


def asking(mark: str) -> str:
    """Return the query for the last row of a bank: place, id, version."""
    return f"SELECT seq, id, version FROM {POSITIONS} WHERE bank = {mark}"  # noqa: S608 - idem


_BUSY_MS = 30_000
_OTHERS_PROGRAM = "this file belongs to another program, or is a Satchel store"


class SqliteSink:
    """Rows in an SQLite file.

    Args:
        path: The file; made, for its owner only, when it is not there.

    Raises:
        PathRefusedError: If a link or anything but a file of ours is there.
        TargetError: If it cannot be opened, or is a store.
    """

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        secure_database(path, own_folder=False)
        with self._explained():
            self._connection = apsw.Connection(str(path))
            self._connection.set_busy_timeout(_BUSY_MS)
            if self._connection.pragma("application_id"):
                self._connection.close()
                raise TargetError(_OTHERS_PROGRAM, file=self.name, hint="Choose another file.")
            self._connection.pragma("journal_mode", "wal")
            self._connection.pragma("synchronous", "full")
            for statement in tables():
                self._connection.execute(statement)

    def last(self, bank: str) -> Position | None:
        """Return the last row of a bank."""
        with self._explained():
            rows = list(self._connection.execute(asking("?"), (bank,)))
        return position_of(rows, self.name)

    def write(self, bank: str, rows: Sequence[SinkRow]) -> None:
        """Add rows and the place in one commit, so each is there once."""
        if not rows:
            return
        end = (bank, rows[-1].seq, rows[-1].id, SCHEMA_VERSION)
        with self._explained(), self._connection:
            values = ([getattr(row, name) for name in COLUMNS] for row in rows)
            self._connection.executemany(adding("?"), values)
            gone = [(bank, row.target) for row in rows if row.type == "erasure"]
            self._connection.executemany(emptying("?"), gone)
            self._connection.execute(moving("?"), end)

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except apsw.Error as error:
            raise TargetError(f"SQLite error: {error}", file=self.name) from error


def position_of(rows: Sequence[Sequence[object]], name: str) -> Position | None:
    """Return a position from what was asked of a database.

    Raises:
        TargetError: If it is of another version.
    """
    if not rows:
        return None
    seq, identity, version = rows[0]
    if version != SCHEMA_VERSION:
        raise TargetError(f"the sink has column version {version}", file=name)
    return Position(int(str(seq)), str(identity))


class PostgresSink:
    """Rows in a table of the database that an address names.

    Args:
        address: ``postgresql://USER@HOST/DATABASE``.

    Raises:
        UsageError: If the driver is not installed.
        TargetError: If it cannot be reached.
    """

    def __init__(self, address: str) -> None:
        self.name = shown_address(address).partition("?")[0]
        try:
            import psycopg
        except ImportError:
            raise UsageError(
                "a sink in PostgreSQL needs an extra",
                hint="Install it: pip install 'satchel[postgres]'",
            ) from None
        self._error = psycopg.Error
        with self._explained():
            self._connection: Any = psycopg.connect(address)
            with self._connection.transaction():
                for statement in tables():
                    self._connection.execute(statement)

    def last(self, bank: str) -> Position | None:
        """Return the last row of a bank."""
        with self._explained(), self._connection.transaction():
            rows = self._connection.execute(asking("%s"), (bank,)).fetchall()
        return position_of(rows, self.name)

    def write(self, bank: str, rows: Sequence[SinkRow]) -> None:
        """Add rows and the place in one commit, so each is there once."""
        if not rows:
            return
        end = (bank, rows[-1].seq, rows[-1].id, SCHEMA_VERSION)
        values = [[_held(getattr(row, name)) for name in COLUMNS] for row in rows]
        gone = [(bank, row.target) for row in rows if row.type == "erasure"]
        with (
            self._explained(),
            self._connection.transaction(),
            self._connection.cursor() as cursor,
        ):
            cursor.executemany(adding("%s"), values)
            if gone:
                cursor.executemany(emptying("%s"), gone)
            cursor.execute(moving("%s"), end)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except self._error as error:
            # What the server says can hold the address, and that a password.
            what = str(error).splitlines()[0] if getattr(error, "sqlstate", None) else "no answer"
            raise TargetError(f"PostgreSQL error: {what}", file=self.name) from None


def _held(value: Any) -> Any:
    """Return a text without what PostgreSQL has no place for: it replaces a NUL by its picture."""
    return value.replace("\0", "\u2400") if isinstance(value, str) else value


_DIGITS, _ID_DIGITS = 15, 16
_PREFIX = "blake3:"
_NAME = re.compile(r"^(\d{15})-(\d{15})-([0-9a-f]{16})\.v(\d+)\.(jsonl|parquet)$")

Encode = Callable[[Sequence[SinkRow]], bytes]
"""Gives the content of a file."""


class SegmentFiles(Protocol):
    """Where files are put."""

    name: str

    def listed(self, folder: str) -> Iterator[str]:
        """Yield the names of the files in a folder."""
        ...

    def put(self, path: str, data: bytes) -> None:
        """Put a file; it is there whole and durable when this returns."""
        ...


class SegmentSink:
    """Rows in files.

    Args:
        files: Where they are put.
        encode: Gives their content.
        ending: Of their names.
    """

    def __init__(self, files: SegmentFiles, encode: Encode, ending: str) -> None:
        self.name = files.name
        self._files = files
        self._encode = encode
        self._ending = ending
        self._last: dict[str, Position] = {}

    def last(self, bank: str) -> Position | None:
        """Return the last row of a bank, from the names of the files."""
        if bank not in self._last:
            found = [match for name in self._files.listed(_folder(bank)) if (match := _of(name))]
            for match in found:
                if int(match[4]) != SCHEMA_VERSION:
                    what = f"the sink has column version {match[4]}"
                    raise TargetError(what, file=self.name)
            if found:
                newest = max(found, key=lambda match: int(match[2]))
                self._last[bank] = Position(int(newest[2]), _PREFIX + newest[3])
        return self._last.get(bank)

    def write(self, bank: str, rows: Sequence[SinkRow]) -> None:
        """Put a file with the rows."""
        if not rows:
            return
        digits = rows[-1].id.removeprefix(_PREFIX)[:_ID_DIGITS]
        stretch = f"{rows[0].seq:0{_DIGITS}d}-{rows[-1].seq:0{_DIGITS}d}-{digits}"
        path = f"{_folder(bank)}/{stretch}.v{SCHEMA_VERSION}.{self._ending}"
        self._files.put(path, self._encode(rows))
        self._last[bank] = Position(rows[-1].seq, _PREFIX + digits)

    def close(self) -> None:
        """Nothing is held."""


def _of(name: str) -> "re.Match[str] | None":
    return _NAME.match(name)


def _folder(bank: str) -> str:
    # The id's digits alone: no name of a bank becomes a path.
    return bank.removeprefix(_PREFIX)


class LocalFiles:
    """Files in a folder of this machine.

    Args:
        folder: The folder; made, for its owner only, when it is not there.
    """

    def __init__(self, folder: Path) -> None:
        self.name = str(folder)
        self._folder = folder

    def listed(self, folder: str) -> Iterator[str]:
        """Yield the names in a folder."""
        try:
            yield from [found.name for found in (self._folder / folder).iterdir()]
        except FileNotFoundError:
            return
        except OSError as error:
            raise target_error(self._folder / folder, error) from error

    def put(self, path: str, data: bytes) -> None:
        """Write a file atomically."""
        target = self._folder / path
        if not self._folder.exists():
            private_folder(self._folder)
        private_folder(target.parent)
        with atomic_write(target, mode=PRIVATE_FILE) as stream:
            stream.write(data)


class ObjectFiles:
    """Objects in object storage.

    Args:
        address: ``s3://BUCKET/PREFIX``, ``gs://``, ``az://``, or ``memory://`` to try it. Who may
            write is told by the environment, as that storage's own tools have it.

    Raises:
        UsageError: If the driver is not installed, or the address cannot be meant.
    """

    def __init__(self, address: str) -> None:
        try:
            import obstore
            from obstore.exceptions import BaseError
            from obstore.store import MemoryStore, from_url
        except ImportError:
            raise UsageError(
                "a sink in object storage needs an extra",
                hint="Install it: pip install 'satchel[objectstore]'",
            ) from None
        self.name = address.partition("?")[0]
        self._obstore: Any = obstore
        self._error = BaseError
        try:
            is_memory = address.startswith("memory:")
            self._store: Any = MemoryStore() if is_memory else from_url(address)
        except (BaseError, ValueError) as error:
            raise UsageError(f"not an object storage address: {error}", field="target") from None

    def listed(self, folder: str) -> Iterator[str]:
        """Yield the names of the objects under a prefix."""
        try:
            for some in self._obstore.list(self._store, prefix=f"{folder}/"):
                for found in some:
                    yield found["path"].rpartition("/")[2]
        except self._error as error:
            raise self._failed(error) from error

    def put(self, path: str, data: bytes) -> None:
        """Put an object, which is whole or not there."""
        try:
            self._obstore.put(self._store, path, data)
        except self._error as error:
            raise self._failed(error) from error

    def _failed(self, error: Exception) -> TargetError:
        what = (str(error).splitlines() or ["no reason given"])[0]
        return TargetError(f"object storage error: {what}", file=self.name)


def as_jsonl(rows: Sequence[SinkRow]) -> bytes:
    """Return rows as JSON lines; a column without a value is left out."""
    lines = (
        {name: value for name, value in msgspec.structs.asdict(row).items() if value is not None}
        for row in rows
    )
    return b"".join(
        json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
        for line in lines
    )


def as_parquet(rows: Sequence[SinkRow]) -> bytes:
    """Return rows as a Parquet file; its metadata says ``satchel.schema``.

    Raises:
        UsageError: If what writes Parquet is not installed.
    """
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError:
        raise UsageError(
            "a sink of Parquet files needs an extra",
            hint="Install it: pip install 'satchel[parquet]'",
        ) from None
    fields = [(name, pa.int64() if name in _INTEGERS else pa.string()) for name in COLUMNS]
    schema = pa.schema(fields, metadata={"satchel.schema": str(SCHEMA_VERSION)})
    columns = {name: [getattr(row, name) for row in rows] for name in COLUMNS}
    held = io.BytesIO()
    parquet.write_table(pa.table(columns, schema=schema), held)
    return held.getvalue()
