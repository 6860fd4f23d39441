"""Connections to a server: addresses, session settings, and a pool.

A block has a connection of its own; then the next block of any thread uses it. A connection that
the server closed in the meantime is detected when a block begins, before any work, and replaced.
"""

import os
import random
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from threading import Lock
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

from satchel.errors import StoreError, UsageError
from satchel.runtime.processes import in_child
from satchel.stores.postgres.statements import BANK_SETTING, DRIVER, is_passing, translated

SCHEMA = "satchel"
"""The default schema."""

CONNECT_SECONDS = 10
_TRIES, _FIRST_WAIT = 6, 0.05
_OLDEST = 14_00_00  # functions with a body of the standard
_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")
_SESSION = """
SET search_path = {schema}, pg_temp;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SET bytea_output = 'hex';
SET lock_timeout = {busy_ms};
SET tcp_keepalives_idle = 30;
SET tcp_keepalives_interval = 10;
SET tcp_keepalives_count = 3;
"""
_parents: list[Any] = []
"""Connections of the parent in a child process, referenced so that they are never closed."""


@dataclass(frozen=True, slots=True)
class PostgresAddress:
    """The address of a store.

    Args:
        url: The URL for the driver; may contain a password.
        name: The name for errors: host, database and schema.
        schema: The schema of the tables.
        bank: The only bank to see; None for all that the role may see.
    """

    url: str
    name: str
    schema: str
    bank: str | None

    def __repr__(self) -> str:
        return f"Address({self.name!r})"  # no password in a traceback


def read_address(address: str, *, schema: str = SCHEMA) -> PostgresAddress:
    """Parse the address of a store.

    Args:
        address: ``postgresql://USER@HOST/DATABASE?schema=NAME&bank=ID``, and other parameters of
            the driver; both members are optional.
        schema: The default schema.

    Raises:
        UsageError: If the address is invalid. The message has no part that may be a password.
    """
    hint = "Write it as postgresql://USER@HOST/DATABASE; passwords can be in ~/.pgpass."
    try:
        parts = urlsplit(address)
        parameters = dict(parse_qsl(parts.query, keep_blank_values=True))
        schema, bank = parameters.pop("schema", schema), parameters.pop("bank", None)
        url = urlunsplit(parts._replace(query=urlencode(parameters, quote_via=quote)))
        conninfo = DRIVER.conninfo.conninfo_to_dict(url)
    except (DRIVER.Error, ValueError):
        raise UsageError("not a database address", field="store", hint=hint) from None
    if parts.scheme not in {"postgresql", "postgres"} or parts.fragment:
        raise UsageError("not a database address", field="store", hint=hint)
    if not _NAME.fullmatch(schema):
        raise UsageError(
            "a schema name can contain only lower-case letters, digits and _", field="store.schema"
        )
    if bank is not None and (not bank or "\0" in bank):
        raise UsageError("not a bank ID", field="store.bank")
    if any("@" in str(conninfo.get(part, "")) for part in ("host", "port", "dbname")):
        message = "not a database address: write an @ in a password as %40"
        raise UsageError(message, field="store", hint=hint)
    port = f":{conninfo['port']}" if conninfo.get("port") else ""
    name = f"postgresql://{conninfo.get('host', '')}{port}/{conninfo.get('dbname', '')}"
    if schema != SCHEMA:
        name += f"?schema={schema}"
    return PostgresAddress(url, name, schema, bank)


class PostgresConnections:
    """The connection pool of a store.

    Args:
        address: The address.
        busy_ms: How long a statement waits for a lock, in milliseconds.
        patience: Seconds to wait for a server that does not respond.
    """

    def __init__(self, address: PostgresAddress, *, busy_ms: int, patience: float) -> None:
        self.address = address
        self._busy_ms = busy_ms
        self._patience = patience
        self._free: list[Any] = []
        self._used: set[Any] = set()
        self._lock = Lock()
        in_child(self.forget_parent)

    @contextmanager
    def begun(self, sql: str) -> Iterator[tuple[Any, list[Any]]]:
        """Yield a connection with an open transaction, and the rows of its first statements.

        Args:
            sql: Statements that begin a transaction, without parameters.

        Raises:
            StoreError: If there is no connection, or the transaction cannot begin.
        """
        connection, rows = self._begin(sql)
        process = os.getpid()
        try:
            yield connection, rows
        finally:
            if os.getpid() == process:
                self._give_back(connection)

    def _begin(self, sql: str) -> tuple[Any, list[Any]]:
        name = self.address.name
        while True:
            connection, is_new = self._take_connection()
            try:
                with translated(name):
                    cursor = connection.execute(sql)
                    while cursor.nextset():
                        pass
                    return connection, cursor.fetchall() if cursor.description else []
            except StoreError:
                gone = connection.closed
                self._give_back(connection)
                if is_new or not gone:
                    raise  # else the server closed it in the meantime: nothing was done yet

    def _take_connection(self) -> tuple[Any, bool]:
        with self._lock:
            if self._free:
                connection = self._free.pop()
                self._used.add(connection)
                return connection, False
        connection = self._connected()
        with self._lock:
            self._used.add(connection)
        return connection, True

    def _give_back(self, connection: Any) -> None:
        """Return a connection to the pool if it is clean."""
        idle = DRIVER.pq.TransactionStatus.IDLE
        with suppress(DRIVER.Error):
            if not connection.closed and connection.info.transaction_status != idle:
                connection.execute("ROLLBACK")
        with self._lock:
            known = connection in self._used
            self._used.discard(connection)
            good = not connection.closed and connection.info.transaction_status == idle
            if known and good:
                self._free.append(connection)
                return
        connection.close()

    def _connected(self) -> Any:
        """Connect; retry while the server is starting or has too many connections."""
        deadline = time.monotonic() + self._patience
        for turn in range(_TRIES):
            try:
                return self._session()
            except DRIVER.Error as error:
                wait = random.uniform(0.5, 1) * _FIRST_WAIT * 3**turn  # noqa: S311 - jitter
                last = turn == _TRIES - 1 or time.monotonic() + wait > deadline
                if last or not is_passing(error):
                    with translated(self.address.name):
                        raise
            time.sleep(wait)
        raise AssertionError  # the last attempt raises

    def _session(self) -> Any:
        connection = DRIVER.connect(
            self.address.url,
            autocommit=True,  # transactions are begun by name
            connect_timeout=CONNECT_SECONDS,
            application_name="satchel",
            tcp_user_timeout=30_000,
        )
        try:
            self._configure(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _configure(self, connection: Any) -> None:
        schema = self.address.schema
        connection.execute(_SESSION.format(schema=schema, busy_ms=self._busy_ms))
        if self.address.bank is not None:
            sql = "SELECT set_config(%s, %s, false)"
            connection.execute(sql, (BANK_SETTING, self.address.bank))
        info = connection.info
        if info.server_version < _OLDEST:
            raise StoreError("PostgreSQL 14 or newer is required", file=self.address.name)
        if info.parameter_status("server_encoding") != "UTF8":
            raise StoreError(
                "the encoding of the database is not UTF-8",
                file=self.address.name,
                hint="Create one: CREATE DATABASE ... ENCODING 'UTF8' TEMPLATE template0.",
            )

    def close(self) -> None:
        """Close all unused connections; those of blocks are closed when they are returned."""
        with self._lock:
            free, self._free = self._free, []
            self._used.clear()
        for connection in free:
            connection.close()

    def forget_parent(self) -> None:
        """Drop the parent's connections in a child process, without sending anything on them."""
        held = [*self._free, *self._used]
        self._lock, self._free, self._used = Lock(), [], set()
        _parents.extend(held)
        nothing = os.open(os.devnull, os.O_RDWR)
        try:
            for connection in held:
                with suppress(DRIVER.Error, OSError):
                    # The server must see the parent's exit, which an open copy would hide.
                    os.dup2(nothing, connection.fileno())
        finally:
            os.close(nothing)
