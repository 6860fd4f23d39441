"""Object storage of a remote place: objects by name, with conditional writes."""

import itertools
import re
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from time import monotonic, sleep
from typing import Any, NamedTuple, Protocol

import apsw

from satchel.errors import MissingExtraError, StoreVersionError, TargetError
from satchel.stores.sqlite.connection import immediate, open_for_writing, transaction
from satchel.stores.sqlite.statements import translated


class TaggedObject(NamedTuple):
    """An object and its tag, which changes with each write."""

    data: bytes
    tag: str


class NotWritten(Exception):  # noqa: N818 - says what is known
    """A conditional write was not acknowledged: it was refused, or the response was lost.

    The caller must read the object again: it may contain the caller's own write.
    """


_CAUSE = re.compile(r'message: "([^"\n]+)"')


def service_error(error: Exception, address: str) -> TargetError:
    """Return a typed error for one of ``obstore``, whose text has many lines."""
    return TargetError(
        f"object storage error: {_reason_of(error)}",
        file=address,
        hint="Check the address, the credentials and the network.",
    )


def _reason_of(error: Exception) -> str:
    """Return the first line of an error of ``obstore``, and its innermost cause."""
    text = str(error)
    first = text.partition("\n")[0] or "no reason given"
    causes = _CAUSE.findall(text)
    return f"{first[:300]} ({causes[-1][:100]})" if causes else first[:300]


class Objects(Protocol):
    """The objects of one place. Thread-safe."""

    shared: str
    """ID of the place, for what is cached about its service."""

    def get(self, name: str) -> TaggedObject | None:
        """Return an object; None if there is none.

        Raises:
            TargetError: If the service does not answer.
        """
        ...

    def part(self, name: str, start: int, length: int) -> bytes:
        """Return a range of bytes of an object.

        Raises:
            TargetError: As ``get``, and if the object is gone.
        """
        ...

    def size(self, name: str) -> int | None:
        """Return the size of an object in bytes; None if there is none.

        Raises:
            TargetError: As ``get``.
        """
        ...

    def create(self, name: str, data: bytes) -> None:
        """Write a new object.

        Raises:
            NotWritten: If it exists, or the outcome is unknown.
        """
        ...

    def replace(self, name: str, data: bytes, tag: str) -> None:
        """Replace the object with a tag.

        Raises:
            NotWritten: If the tag has changed, or the outcome is unknown.
        """
        ...

    def put(self, name: str, data: bytes) -> None:
        """Write an object unconditionally.

        Raises:
            TargetError: If the service refuses it.
        """
        ...

    def remove(self, name: str) -> None:
        """Remove an object, if it exists."""
        ...

    def names(self) -> Iterator[str]:
        """Yield the names of all objects."""
        ...

    def probe(self) -> bool:
        """Return whether conditions are enforced; a service that ignores them loses writes."""
        ...


class MemoryObjects:
    """Objects in the memory of this process.

    Args:
        address: Address of the place; the same address has the same objects.
    """

    _places: dict[str, dict[str, tuple[bytes, int]]] = {}  # noqa: RUF012 - that is the point
    _lock = threading.Lock()
    _numbers = itertools.count()

    def __init__(self, address: str) -> None:
        self.shared = "memory"
        self._prefix = address.rstrip("/") + "/"

    @property
    def _held(self) -> dict[str, tuple[bytes, int]]:
        return self._places.setdefault(self._prefix, {})

    def get(self, name: str) -> TaggedObject | None:
        """See ``Objects``."""
        with self._lock:
            found = self._held.get(name)
        return None if found is None else TaggedObject(found[0], str(found[1]))

    def part(self, name: str, start: int, length: int) -> bytes:
        """See ``Objects``."""
        with self._lock:
            stored = self._held.get(name)
        if stored is None:
            raise TargetError("part of the store is missing", file=self._prefix + name)
        return stored[0][start : start + length]

    def size(self, name: str) -> int | None:
        """See ``Objects``."""
        with self._lock:
            found = self._held.get(name)
        return None if found is None else len(found[0])

    def _put(self, name: str, data: bytes) -> None:
        self._held[name] = (data, next(self._numbers))

    def create(self, name: str, data: bytes) -> None:
        """See ``Objects``."""
        with self._lock:
            if name in self._held:
                raise NotWritten
            self._put(name, data)

    def replace(self, name: str, data: bytes, tag: str) -> None:
        """See ``Objects``."""
        with self._lock:
            found = self._held.get(name)
            if found is None or str(found[1]) != tag:
                raise NotWritten
            self._put(name, data)

    def put(self, name: str, data: bytes) -> None:
        """See ``Objects``."""
        with self._lock:
            self._put(name, data)

    def remove(self, name: str) -> None:
        """See ``Objects``."""
        with self._lock:
            self._held.pop(name, None)

    def names(self) -> Iterator[str]:
        """See ``Objects``."""
        with self._lock:
            found = list(self._held)
        yield from found

    def probe(self) -> bool:
        """See ``Objects``."""
        return True


_APPLICATION = 0x53466F31  # "SFo1"
_BUSY_MS = 30_000
_RETRY_S = 0.005
_SCHEMA = """
CREATE TABLE object (name TEXT PRIMARY KEY, tag INTEGER NOT NULL, data BLOB NOT NULL);
CREATE TABLE counter (last INTEGER NOT NULL);
INSERT INTO counter VALUES (0);
"""


class SqliteObjects:
    """Objects in an SQLite database, with a connection per call.

    Args:
        path: The database, created if missing.
        prefix: Prefix of all names.
    """

    def __init__(self, path: Path, prefix: str) -> None:
        self.shared = f"sqlite:{path}"
        self._path = path
        self._prefix = prefix.strip("/") + "/"

    @contextmanager
    def _open(self, *, writes: bool) -> Iterator[apsw.Connection]:
        self._path.parent.mkdir(0o700, parents=True, exist_ok=True)
        with transaction() as here:
            connection = open_for_writing(self._path, busy_ms=_BUSY_MS, vfs=None)
            try:
                with translated(str(self._path), connection):
                    connection.pragma("synchronous", 2)
                    connection.pragma("secure_delete", 1)  # deleted bytes are overwritten
                    self._settle(connection)
                    if writes:
                        with immediate(connection, here):
                            yield connection
                    else:
                        yield connection
            finally:
                connection.close()

    def _settle(self, connection: apsw.Connection) -> None:
        """Create the tables of a new database; SQLite itself does not wait to change modes."""
        until = monotonic() + _BUSY_MS / 1000
        while connection.pragma("application_id") != _APPLICATION:
            try:
                self._make_tables(connection)
            except apsw.BusyError:  # other processes create it, too
                if monotonic() > until:
                    raise
                sleep(_RETRY_S)

    def _make_tables(self, connection: apsw.Connection) -> None:
        connection.pragma("journal_mode", "wal")
        with immediate(connection):
            if connection.pragma("application_id") == _APPLICATION:
                return
            if connection.execute("SELECT count(*) FROM sqlite_schema").get:
                raise StoreVersionError(
                    "this database belongs to another program", file=str(self._path)
                )
            connection.execute(_SCHEMA)
            connection.pragma("application_id", _APPLICATION)

    def _row(self, connection: apsw.Connection, name: str) -> tuple[Any, str] | None:
        statement = "SELECT data, tag FROM object WHERE name = ?"
        found = connection.execute(statement, (self._prefix + name,))
        return next(((data, str(tag)) for data, tag in found), None)

    def get(self, name: str) -> TaggedObject | None:
        """See ``Objects``; reads create no database."""
        if not self._path.exists():
            return None
        with self._open(writes=False) as connection:
            found = self._row(connection, name)
        return None if found is None else TaggedObject(*found)

    def part(self, name: str, start: int, length: int) -> bytes:
        """See ``Objects``."""
        statement = "SELECT substr(data, ?, ?) FROM object WHERE name = ?"
        with self._open(writes=False) as connection:
            data = connection.execute(statement, (start + 1, length, self._prefix + name)).get
        if not isinstance(data, bytes):
            raise TargetError("part of the store is missing", file=f"{self._path}: {name}")
        return data

    def size(self, name: str) -> int | None:
        """See ``Objects``."""
        statement = "SELECT length(data) FROM object WHERE name = ?"
        with self._open(writes=False) as connection:
            found = connection.execute(statement, (self._prefix + name,)).get
        return None if found is None else int(found)

    def _write(self, name: str, data: bytes, *, over: str | None, always: bool = False) -> None:
        with self._open(writes=True) as connection:
            found = self._row(connection, name)
            there = found[1] if found else None
            if not always and there != over:
                raise NotWritten
            connection.execute("UPDATE counter SET last = last + 1")
            connection.execute(
                "INSERT OR REPLACE INTO object SELECT ?, last, ? FROM counter",
                (self._prefix + name, data),
            )

    def create(self, name: str, data: bytes) -> None:
        """See ``Objects``."""
        self._write(name, data, over=None)

    def replace(self, name: str, data: bytes, tag: str) -> None:
        """See ``Objects``."""
        self._write(name, data, over=tag)

    def put(self, name: str, data: bytes) -> None:
        """See ``Objects``."""
        self._write(name, data, over=None, always=True)

    def remove(self, name: str) -> None:
        """See ``Objects``."""
        with self._open(writes=True) as connection:
            connection.execute("DELETE FROM object WHERE name = ?", (self._prefix + name,))
        with self._open(
            writes=False
        ) as connection:  # nor in the log, unless a reader blocks the checkpoint
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").get  # noqa: B018 - runs it

    def names(self) -> Iterator[str]:
        """See ``Objects``."""
        below = self._prefix
        with self._open(writes=False) as connection:
            rows = connection.execute(
                "SELECT name FROM object WHERE name > ? AND name < ?", (below, below[:-1] + "0")
            )
            names = [str(row[0])[len(below) :] for row in rows]
        yield from names

    def probe(self) -> bool:
        """See ``Objects``."""
        return True


_PROBE = "meta/.satchel/probe-"


class ObstoreObjects:
    """Objects under an address such as ``s3://bucket/prefix``.

    Credentials come from the environment, as for the service's own tools.

    Args:
        address: Address of the place.

    Raises:
        MissingExtraError: If ``obstore`` is not installed.
        TargetError: If the address is not valid.
    """

    def __init__(self, address: str) -> None:
        try:
            self._obstore: Any = import_module("obstore")
            stores: Any = import_module("obstore.store")
        except ModuleNotFoundError:
            raise MissingExtraError(
                "object stores need obstore", hint="pip install 'satchel[objectstore]'"
            ) from None
        self._address = address
        self.shared = "/".join(address.split("/")[:3])
        scheme, _, rest = address.partition("://")
        bucket, _, self._prefix = rest.partition("/")
        self._prefix = self._prefix.strip("/") + "/" if self._prefix else ""
        retries = {"max_retries": 0}
        with self._translated():
            self._store = stores.from_url(f"{scheme}://{bucket}", retry_config=retries)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        errors = import_module("obstore.exceptions")
        try:
            yield
        except FileNotFoundError as error:
            raise TargetError("part of the store is missing", file=self._address) from error
        except (errors.BaseError, OSError, ValueError) as error:
            raise service_error(error, self._address) from error

    def get(self, name: str) -> TaggedObject | None:
        """See ``Objects``."""
        with self._translated():
            try:
                found = self._obstore.get(self._store, self._prefix + name)
                return TaggedObject(bytes(found.bytes()), str(found.meta["e_tag"]))
            except FileNotFoundError:
                return None

    def part(self, name: str, start: int, length: int) -> bytes:
        """See ``Objects``."""
        if not length:
            return b""
        with self._translated():
            return bytes(
                self._obstore.get_range(
                    self._store, self._prefix + name, start=start, length=length
                )
            )

    def size(self, name: str) -> int | None:
        """See ``Objects``."""
        with self._translated():
            try:
                return int(self._obstore.head(self._store, self._prefix + name)["size"])
            except FileNotFoundError:
                return None

    def create(self, name: str, data: bytes) -> None:
        """See ``Objects``."""
        self._conditional(name, data, "create")

    def replace(self, name: str, data: bytes, tag: str) -> None:
        """See ``Objects``."""
        self._conditional(name, data, {"e_tag": tag})

    def _conditional(self, name: str, data: bytes, mode: Any) -> None:
        errors = import_module("obstore.exceptions")
        try:
            self._obstore.put(self._store, self._prefix + name, data, mode=mode)
        except (errors.BaseError, OSError) as error:
            raise NotWritten(_reason_of(error)) from error

    def put(self, name: str, data: bytes) -> None:
        """See ``Objects``."""
        with self._translated():
            self._obstore.put(self._store, self._prefix + name, data, use_multipart=False)

    def remove(self, name: str) -> None:
        """See ``Objects``."""
        with self._translated(), suppress(FileNotFoundError):
            self._obstore.delete(self._store, self._prefix + name)

    def names(self) -> Iterator[str]:
        """See ``Objects``."""
        with self._translated():
            for batch in self._obstore.list(self._store, prefix=self._prefix.rstrip("/") or None):
                for one in batch:
                    path = str(one["path"])
                    if path.startswith(self._prefix):
                        yield path[len(self._prefix) :]

    def probe(self) -> bool:
        """See ``Objects``."""
        name = _PROBE + secrets.token_hex(8)
        self.create(name, b"1")
        try:
            try:
                self.create(name, b"2")
            except NotWritten:
                pass
            else:
                return False
            try:
                self.replace(name, b"3", '"00000000000000000000000000000000"')
            except NotWritten:
                pass
            else:
                return False
            return True
        finally:
            self.remove(name)
