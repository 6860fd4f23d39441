"""Follow the log of a bank to a sink: each record verified, in order, at least once."""

import io
import json
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import unquote, urlsplit

import msgspec

from satchel.bank.connections import configured_store, has_store
from satchel.bank.machine_keys import require_owner
from satchel.bank.open_bank import find_bank, name_of, open_bank_in
from satchel.config.settings import Settings
from satchel.errors import (
    TargetError,
    UnknownBankError,
    UsageError,
    VerificationError,
    shown_address,
)
from satchel.files.remote.objects import service_error
from satchel.ledger.projection import VerifiedRecord
from satchel.ledger.view import View
from satchel.model.records import Edge, Entry, Erasure, Status
from satchel.model.text import memory_text
from satchel.model.values import ID_PREFIX, Origin
from satchel.ports.sinks import COLUMNS, SCHEMA_VERSION, WORDS, Position, Sink, SinkRow
from satchel.ports.store import Store
from satchel.runtime.files import PRIVATE_FILE, atomic_write, target_error
from satchel.runtime.private_files import private_folder, secure_database

TOGETHER = 1000
"""Number of rows in one write."""

_BYTES_TOGETHER = 8 * 2**20

Progress = Callable[[int, int], None]
"""Called with the number of log positions done and the total."""

_TIMES = (
    *("created_at", "updated_at", "occurred_at"),
    *("valid_from", "valid_until", "expires_at"),
)
_OWNERS = ("user", "agent", "run", "app", "session")


@dataclass(slots=True)
class DrainResult:
    """Result of following a log."""

    rows: int = 0
    seq: int = -1
    """Last log position in the sink; -1 for none."""

    waiting: int = 0
    """Number of positions from the first incomplete import on; they are written later."""


def drain(view: View, sink: Sink, progress: Progress | None = None) -> DrainResult:
    """Write what a sink lacks of a bank.

    Records from the start of an incomplete import on are not written yet: they are not visible, and
    the order of the log is preserved.

    Raises:
        VerificationError: If the sink followed another history of the bank, or the bank is not
            what was signed.
        TargetError: If the sink cannot be written.
    """
    bank, last = view.head.bank, sink.last(view.head.bank)
    if last is not None:
        _require_same(view, last.seq, last.id, sink.name)
    result = DrainResult(seq=last.seq if last is not None else -1)
    end = min(
        (batch.place for batch in view.imports() if not batch.complete), default=view.head.size
    )
    result.waiting = view.head.size - end
    for rows in _together(_rows(view, result.seq, end)):
        sink.write(bank, rows)
        result.rows += len(rows)
        result.seq = rows[-1].seq
        if progress is not None:
            progress(result.seq + 1, end)
    return result


def _require_same(view: View, seq: int, identity: str, name: str) -> None:
    same = seq < view.head.size and view.rows([seq])[0].id.startswith(identity)
    if not same:
        raise VerificationError(
            f"the sink followed another history: its last row is {seq}, which is not in this log",
            file=name,
            hint="The bank was rolled back to before that. Use a new sink for it.",
        )


def _rows(view: View, after: int, end: int) -> Iterator[SinkRow]:
    if after + 1 >= end:
        return
    for logged in view.scan(after=after):
        if logged.seq >= end:
            return
        yield row_of(view.head.bank, logged)


def _together(rows: Iterator[SinkRow]) -> Iterator[list[SinkRow]]:
    batch, size = list[SinkRow](), 0
    for row in rows:
        batch.append(row)
        size += len(row.text or "") + len(row.metadata or "")
        if len(batch) == TOGETHER or size > _BYTES_TOGETHER:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def row_of(bank: str, logged: VerifiedRecord) -> SinkRow:
    """Return a record as the columns of a sink."""
    model, row = logged.model, logged.row
    members: dict[str, Any] = {}
    if isinstance(model, Entry):
        members = {name: getattr(model, name) for name in _TIMES}
        members |= {"component": row.type, "kind": model.kind}
        members["text"] = memory_text(model) if model.text is None else model.text
        members["tags"] = _json(list(model.tags))
    elif isinstance(model, Status):
        names = ("target", "state", "by", "reason", "actor")
        members = {name: getattr(model, name) for name in names}
    elif isinstance(model, Edge):
        members = {"source": model.source, "target": model.target, "kind": model.kind}
    elif isinstance(model, Erasure):
        members = {"target": model.entry, "reason": model.reason}
    else:
        members["text"] = getattr(model, "text", None)
    members["metadata"] = _json(dict(model.metadata))
    members |= {name: getattr(row, name) for name in _OWNERS}
    origin = getattr(model, "origin", None)
    if isinstance(origin, Origin):
        members |= {
            "origin_provider": origin.provider,
            "origin_source": origin.source,
            "origin_id": origin.id,
        }
    return SinkRow(
        bank=bank,
        seq=row.seq,
        id=row.id,
        type=row.type,
        arrived_at=row.at,
        batch=row.batch or None,
        **members,
    )


def _json(value: Any) -> str | None:
    return msgspec.json.encode(value).decode() if value else None


SCHEMES = ("sqlite", "postgresql", "parquet", "file", "s3", "gs", "az", "memory")
"""Schemes of addresses of sinks; also ``parquet+s3`` and the like."""

_PARQUET = "parquet"


class SinkResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Result of following the log of one bank."""

    bank: str
    name: str | None = None
    rows: int = 0
    """Number of rows written now."""

    seq: int = -1
    """Last log position in the sink; -1 for none."""

    waiting: int = 0
    """Number of positions that wait for an import to complete."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowOptions:
    """Options for following banks."""

    bank: str | None = None
    """Name or ID of the bank, as for ``find_bank``; None for all."""

    interval: float = 2.0
    """Seconds between polls."""

    on_result: Callable[[SinkResult], None] | None = None
    """Called with the result when something was written."""

    progress: Progress | None = None
    stop: threading.Event = field(default_factory=threading.Event)
    """Stops following when set."""


def open_sink(settings: Settings, address: str) -> Sink:
    """Open the sink at an address.

    Args:
        settings: Settings of this machine.
        address: ``sqlite:///FILE``, ``postgresql://...``, ``parquet:///FOLDER``, ``file:///FOLDER``
            (JSON lines), ``s3://BUCKET/PREFIX`` and other object storage (JSON lines), or
            ``parquet+s3://...``.

    Raises:
        UsageError: If the address is invalid, or an extra is missing.
        TargetError: If it cannot be opened.
    """
    require_owner(settings, "sink")
    scheme, _, rest = address.partition("://")
    kind, _, storage = scheme.partition("+")
    if not rest and not scheme.endswith("memory"):
        kind = ""
    if kind not in SCHEMES or (storage and (kind != _PARQUET or storage not in SCHEMES)):
        raise UsageError(
            f"not a sink address: {shown_address(address)}",
            field="target",
            hint=f"It must start with one of {', '.join(f'{name}://' for name in SCHEMES)}.",
        )
    if kind == "sqlite":
        return SqliteSink(_path(address))
    if kind == "postgresql":
        return PostgresSink(address)
    return _segments(address, kind, storage)


def _segments(address: str, kind: str, storage: str) -> Sink:
    is_parquet = kind == _PARQUET
    scheme = storage or ("file" if is_parquet else kind)
    inner = f"{scheme}://{address.partition('://')[2]}"
    files = LocalFiles(_path(inner)) if scheme == "file" else ObjectFiles(inner)
    if is_parquet:
        as_parquet([])  # a missing extra is reported before anything is read
        return SegmentSink(files, as_parquet, "parquet")
    return SegmentSink(files, as_jsonl, "jsonl")


def _path(address: str) -> Path:
    try:
        parts = urlsplit(address)
    except ValueError:
        raise UsageError("not a file address", field="target") from None
    if parts.netloc or parts.query or parts.fragment or len(parts.path) <= 1:
        raise UsageError(
            f"not a file address: {shown_address(address)}",
            field="target",
            hint=f"Write it as {parts.scheme}:///relative or {parts.scheme}:////absolute.",
        )
    return Path(unquote(parts.path.removeprefix("/"))).expanduser()


def follow_once(settings: Settings, sink: Sink, options: FollowOptions) -> list[SinkResult]:
    """Write what a sink lacks of banks once.

    Raises:
        UnknownBankError: If there is no bank, or not the given one.
        VerificationError: If a bank is not what was signed, or the sink followed another history.
        TargetError: If the sink cannot be written; what it has stays.
    """
    require_owner(settings, "sink")
    if not has_store(settings):
        raise UnknownBankError("there is no store yet", hint="Create one: satchel init")
    with configured_store(settings, read_only=True) as store:
        return [_followed(settings, store, bank, sink, options) for bank in _banks(store, options)]


def follow(settings: Settings, sink: Sink, options: FollowOptions) -> list[SinkResult]:
    """Write what a sink lacks of banks repeatedly, until ``options.stop`` is set.

    Raises:
        UsageError: If the interval is invalid.
        SatchelError: As ``follow_once``.
    """
    require_owner(settings, "sink")
    if options.interval <= 0:
        raise UsageError("the interval must be more than 0 seconds", field="interval")
    while True:
        results = follow_once(settings, sink, options)
        if options.stop.wait(options.interval):
            return results


def _banks(store: Store, options: FollowOptions) -> list[str]:
    if options.bank is not None:
        return [find_bank(store, options.bank)]
    with store.reading() as reader:
        return reader.banks()


def _followed(
    settings: Settings, store: Store, bank: str, sink: Sink, options: FollowOptions
) -> SinkResult:
    opened = open_bank_in(settings, store, bank)
    with opened.ledger.reading() as view:
        done = drain(view, sink, options.progress)
    with store.reading() as reader:
        name = name_of(reader, bank)
    result = SinkResult(bank=bank, name=name, rows=done.rows, seq=done.seq, waiting=done.waiting)
    if options.on_result is not None and done.rows:
        options.on_result(result)
    return result


TABLE, POSITIONS = "satchel_log", "satchel_sink"

_POSITION = "bank TEXT PRIMARY KEY, seq BIGINT, id TEXT, version BIGINT"
_INTEGERS = frozenset({"seq", "batch"})
_QUOTED = {name: f'"{name}"' for name in COLUMNS}  # `user` and others are words of SQL


def tables() -> list[str]:
    """Return the statements that create missing tables."""
    kinds = {name: "BIGINT" if name in _INTEGERS else "TEXT" for name in COLUMNS}
    columns = ", ".join(f"{_QUOTED[name]} {kind}" for name, kind in kinds.items())
    return [
        f"CREATE TABLE IF NOT EXISTS {TABLE} ({columns}, PRIMARY KEY (bank, seq))",
        f"CREATE INDEX IF NOT EXISTS {TABLE}_id ON {TABLE} (id)",
        f"CREATE INDEX IF NOT EXISTS {TABLE}_target ON {TABLE} (target)",
        f"CREATE TABLE IF NOT EXISTS {POSITIONS} ({_POSITION})",
    ]


def adding(mark: str) -> str:
    """Return the statement that adds a row, or keeps an existing equal one."""
    names, marks = ", ".join(_QUOTED.values()), ", ".join(mark for _ in COLUMNS)
    what = f"INSERT INTO {TABLE} ({names}) VALUES ({marks})"  # noqa: S608 - names of ours only
    return f"{what} ON CONFLICT (bank, seq) DO NOTHING"


def emptying(mark: str) -> str:
    """Return the statement that removes the text of an erased record; parameters: bank, ID."""
    words = ", ".join(f"{_QUOTED[name]} = NULL" for name in WORDS)
    where = f"bank = {mark} AND id = {mark}"
    return f"UPDATE {TABLE} SET {words} WHERE {where}"  # noqa: S608 - names of ours only


def moving(mark: str) -> str:
    """Return the statement that sets the last row; parameters: bank, position, ID, version."""
    marks = ", ".join([mark] * 4)
    what = f"INSERT INTO {POSITIONS} (bank, seq, id, version) VALUES ({marks})"  # noqa: S608 - idem
    new = "seq = excluded.seq, id = excluded.id, version = excluded.version"
    return f"{what} ON CONFLICT (bank) DO UPDATE SET {new}"


def asking(mark: str) -> str:
    """Return the query for the last row of a bank: position, ID, version."""
    return f"SELECT seq, id, version FROM {POSITIONS} WHERE bank = {mark}"  # noqa: S608 - idem


_BUSY_MS = 30_000
_OTHERS_PROGRAM = "this file belongs to another program, or is a Satchel store"


class SqliteSink:
    """Rows in an SQLite file.

    Args:
        path: The file; created with mode 0600 if missing.

    Raises:
        PathRefusedError: If it is a link or not a regular file of this user.
        TargetError: If it cannot be opened, or is a store.
    """

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        secure_database(path, own_folder=False)
        import apsw

        with self._translated():
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
        with self._translated():
            rows = list(self._connection.execute(asking("?"), (bank,)))
        return position_of(rows, self.name)

    def write(self, bank: str, rows: Sequence[SinkRow]) -> None:
        """Add rows and the position in one commit, so that each is written once."""
        if not rows:
            return
        end = (bank, rows[-1].seq, rows[-1].id, SCHEMA_VERSION)
        with self._translated(), self._connection:
            values = ([getattr(row, name) for name in COLUMNS] for row in rows)
            self._connection.executemany(adding("?"), values)
            erased = [(bank, row.target) for row in rows if row.type == "erasure"]
            self._connection.executemany(emptying("?"), erased)
            self._connection.execute(moving("?"), end)

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    @contextmanager
    def _translated(self) -> Iterator[None]:
        import apsw

        try:
            yield
        except apsw.Error as error:
            raise TargetError(f"SQLite error: {error}", file=self.name) from error


def position_of(rows: Sequence[Sequence[object]], name: str) -> Position | None:
    """Return the position in the result of a query.

    Raises:
        TargetError: If it has another schema version.
    """
    if not rows:
        return None
    seq, identity, version = rows[0]
    if version != SCHEMA_VERSION:
        raise TargetError(f"the sink has column version {version}", file=name)
    return Position(int(str(seq)), str(identity))


class PostgresSink:
    """Rows in a table of a PostgreSQL database.

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
        with self._translated():
            self._connection: Any = psycopg.connect(address)
            with self._connection.transaction():
                for statement in tables():
                    self._connection.execute(statement)

    def last(self, bank: str) -> Position | None:
        """Return the last row of a bank."""
        with self._translated(), self._connection.transaction():
            rows = self._connection.execute(asking("%s"), (bank,)).fetchall()
        return position_of(rows, self.name)

    def write(self, bank: str, rows: Sequence[SinkRow]) -> None:
        """Add rows and the position in one commit, so that each is written once."""
        if not rows:
            return
        end = (bank, rows[-1].seq, rows[-1].id, SCHEMA_VERSION)
        values = [[_without_nul(getattr(row, name)) for name in COLUMNS] for row in rows]
        erased = [(bank, row.target) for row in rows if row.type == "erasure"]
        with (
            self._translated(),
            self._connection.transaction(),
            self._connection.cursor() as cursor,
        ):
            cursor.executemany(adding("%s"), values)
            if erased:
                cursor.executemany(emptying("%s"), erased)
            cursor.execute(moving("%s"), end)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except self._error as error:
            # The server's message may contain the address, and that a password.
            message = (
                str(error).splitlines()[0] if getattr(error, "sqlstate", None) else "no answer"
            )
            raise TargetError(f"PostgreSQL error: {message}", file=self.name) from None


def _without_nul(value: Any) -> Any:
    """Return a text for PostgreSQL, with NUL replaced by its symbol."""
    return value.replace("\0", "\u2400") if isinstance(value, str) else value


_DIGITS, _ID_DIGITS = 15, 16
_NAME = re.compile(r"^(\d{15})-(\d{15})-([0-9a-f]{16})\.v(\d+)\.(jsonl|parquet)$")

Encode = Callable[[Sequence[SinkRow]], bytes]
"""Returns the content of a file."""


class SegmentFiles(Protocol):
    """A place for files."""

    name: str

    def listed(self, folder: str) -> Iterator[str]:
        """Yield the names of the files in a folder."""
        ...

    def put(self, path: str, data: bytes) -> None:
        """Write a file atomically and durably."""
        ...


class SegmentSink:
    """Rows in files.

    Args:
        files: The place for the files.
        encode: Returns their content.
        ending: Suffix of their names.
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
            segments = [
                segment
                for name in self._files.listed(_folder(bank))
                if (segment := _NAME.match(name))
            ]
            for segment in segments:
                if int(segment[4]) != SCHEMA_VERSION:
                    message = f"the sink has column version {segment[4]}"
                    raise TargetError(message, file=self.name)
            if segments:
                newest = max(segments, key=lambda segment: int(segment[2]))
                self._last[bank] = Position(int(newest[2]), ID_PREFIX + newest[3])
        return self._last.get(bank)

    def write(self, bank: str, rows: Sequence[SinkRow]) -> None:
        """Write a file with the rows."""
        if not rows:
            return
        digits = rows[-1].id.removeprefix(ID_PREFIX)[:_ID_DIGITS]
        stretch = f"{rows[0].seq:0{_DIGITS}d}-{rows[-1].seq:0{_DIGITS}d}-{digits}"
        path = f"{_folder(bank)}/{stretch}.v{SCHEMA_VERSION}.{self._ending}"
        self._files.put(path, self._encode(rows))
        self._last[bank] = Position(rows[-1].seq, ID_PREFIX + digits)

    def close(self) -> None:
        """Do nothing."""


def _folder(bank: str) -> str:
    # Only the digits of the ID: the name of a bank never becomes a path.
    return bank.removeprefix(ID_PREFIX)


class LocalFiles:
    """Files in a folder of this machine.

    Args:
        folder: The folder; created with mode 0700 if missing.
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
        address: ``s3://BUCKET/PREFIX``, ``gs://``, ``az://``, or ``memory://`` for tests.
            Credentials are read from the environment, as by the tools of that storage.

    Raises:
        UsageError: If the driver is not installed, or the address is invalid.
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
            raise service_error(error, self.name) from error

    def put(self, path: str, data: bytes) -> None:
        """Write an object atomically."""
        try:
            self._obstore.put(self._store, path, data)
        except self._error as error:
            raise service_error(error, self.name) from error


def as_jsonl(rows: Sequence[SinkRow]) -> bytes:
    """Return rows as JSON lines; columns without a value are omitted."""
    lines = (
        {name: value for name, value in msgspec.structs.asdict(row).items() if value is not None}
        for row in rows
    )
    return b"".join(
        json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
        for line in lines
    )


def as_parquet(rows: Sequence[SinkRow]) -> bytes:
    """Return rows as a Parquet file with ``satchel.schema`` in its metadata.

    Raises:
        UsageError: If the extra for Parquet is not installed.
    """
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError:
        raise UsageError(
            "a sink of Parquet files needs an extra",
            hint="Install it: pip install 'satchel[graph]'",
        ) from None
    fields = [(name, pa.int64() if name in _INTEGERS else pa.string()) for name in COLUMNS]
    schema = pa.schema(fields, metadata={"satchel.schema": str(SCHEMA_VERSION)})
    columns = {name: [getattr(row, name) for row in rows] for name in COLUMNS}
    held = io.BytesIO()
    parquet.write_table(pa.table(columns, schema=schema), held)
    return held.getvalue()
