"""Connections: where the server is, what each session is told, and which ones are free.

A block has a connection of its own for as long as it lasts; then the next block takes it, of
whatever thread. One that the server ended meanwhile is noticed when a block begins, when nothing
has been done yet, and another is opened.
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
"""Where the tables are when nothing else is said."""

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
"""Of a child: what it came with, kept so that nothing is ever said on it."""


@dataclass(frozen=True, slots=True)
class PostgresAddress:
    """Where a store is.

    Args:
        url: What the driver is given; it may hold a password.
        name: What to call it in errors: host, database and schema.
        schema: Where the tables are.
        bank: The one bank that is seen; None for all that the role may see.
    """

    url: str
    name: str
    schema: str
    bank: str | None

    def __repr__(self) -> str:
        return f"Address({self.name!r})"  # no password in a traceback


def read_address(address: str, *, schema: str = SCHEMA) -> PostgresAddress:
    """Take the address of a store apart.

    Args:
        address: ``postgresql://USER@HOST/DATABASE?schema=NAME&bank=ID``, with whatever else the
            driver knows; both members may be left out.
        schema: Where the tables are when it is not said.

    Raises:
        UsageError: If it is none. What it says holds no part of it that may be a password.
    """
    hint = "Write it as postgresql://USER@HOST/DATABASE; passwords can be in ~/.pgpass."
    try:
        parts = urlsplit(address)
        asked = dict(parse_qsl(parts.query, keep_blank_values=True))
        schema, bank = asked.pop("schema", schema), asked.pop("bank", None)
        url = urlunsplit(parts._replace(query=urlencode(asked, quote_via=quote)))
        found = DRIVER.conninfo.conninfo_to_dict(url)
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
    if any("@" in str(found.get(part, "")) for part in ("host", "port", "dbname")):
        what = "not a database address: write an @ in a password as %40"
        raise UsageError(what, field="store", hint=hint)
    where = f"{found.get('host', '')}{':' + found['port'] if found.get('port') else ''}"
    name = f"postgresql://{where}/{found.get('dbname', '')}"
    if schema != SCHEMA:
        name += f"?schema={schema}"
    return PostgresAddress(url, name, schema, bank)


class PostgresConnections:
    """The connections of a store; each block takes one and gives it back.

    Args:
        address: Where.
        busy_ms: How long a statement waits for a lock.
        patience: Seconds until a server that does not answer is given up.
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
        """Give a connection on which something was begun, with what that answered.

        Args:
            sql: Statements that begin a transaction, none of which takes a value.

        Raises:
            StoreError: If there is no connection, or it cannot begin.
        """
        connection, found = self._begin(sql)
        process = os.getpid()
        try:
            yield connection, found
        finally:
            if os.getpid() == process:
                self._give_back(connection)

    def _begin(self, sql: str) -> tuple[Any, list[Any]]:
        name = self.address.name
        while True:
            connection, is_new = self._taken()
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
                    raise  # otherwise the server ended it meanwhile: nothing was done on it yet

    def _taken(self) -> tuple[Any, bool]:
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
        """Keep a connection for the next block if it is as good as new."""
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
        """Connect; a server that is just starting, or has no room now, is asked again."""
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
        raise AssertionError  # the last turn raises

    def _session(self) -> Any:
        connection = DRIVER.connect(
            self.address.url,
            autocommit=True,  # transactions are begun by name
            connect_timeout=CONNECT_SECONDS,
            application_name="satchel",
            tcp_user_timeout=30_000,
        )
        try:
            self._told(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _told(self, connection: Any) -> None:
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
        """End all connections that no block has; those of others are ended when they are back."""
        with self._lock:
            free, self._free = self._free, []
            self._used.clear()
        for connection in free:
            connection.close()

    def forget_parent(self) -> None:
        """Let go, in a child, of the connections that it came with, without a word on them."""
        held = [*self._free, *self._used]
        self._lock, self._free, self._used = Lock(), [], set()
        _parents.extend(held)
        nothing = os.open(os.devnull, os.O_RDWR)
        try:
            for connection in held:
                with suppress(DRIVER.Error, OSError):
                    # The server has to see the parent's end, which an open copy would hide.
                    os.dup2(nothing, connection.fileno())
        finally:
            os.close(nothing)
