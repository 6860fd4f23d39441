"""The store of LangGraph (``PostgresStore``) where it is: in a schema of a PostgreSQL server.

The same items as in its database of SQLite and as its JSON (``formats._frameworks.items``). What is
read is one snapshot of the tables, whatever the programs that use them do meanwhile. Compared with
langgraph-checkpoint-postgres 3.2.0.
"""

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar

from satchel.connectors._langgraph_tables import Columns, item_of, make_tables, put, query
from satchel.connectors.address import of_server
from satchel.errors import InputError, LimitError, MalformedError, UnreadableError, UsageError
from satchel.formats._frameworks.items import VECTORS, entry_of, row_of
from satchel.memory.entries import Entry
from satchel.memory.parts import Component
from satchel.ports.connector import Page, Taken
from satchel.ports.format import Info, Reading, Traits
from satchel.ports.report import Report
from satchel.seal.limits import DEFAULT_LIMITS, Limits
from satchel.seal.records import Sealed
from satchel.stores.postgres import connecting
from satchel.stores.postgres.errors import DRIVER, translated

_SCHEMA = "public"
_TOGETHER = 64
_ROOM = 4
"""As many times its canonical bytes may an item take as the server writes it."""

_CURSOR = "items/"
_SNAPSHOT = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_SESSION = (
    "SET search_path = pg_catalog, {schema}, pg_temp; SET TimeZone = 'UTC'; SET DateStyle = 'ISO';"
    " SET client_encoding = 'UTF8'; SET lock_timeout = '10s'; SET extra_float_digits = 3"
)


@dataclass(frozen=True, slots=True, repr=False)
class Address:
    """Where a store is: ``langgraph+postgresql://USER@HOST/DATABASE?schema=NAME``."""

    url: str
    """What the driver is given; it may hold a password."""

    name: str
    """What to call it in errors."""

    schema: str

    @classmethod
    def read(cls, text: str) -> "Address":
        """Return the address that a person wrote, with or without ``langgraph+``.

        Raises:
            UsageError: If it is none; no part of it that may be a password is in what is said.
        """
        found = connecting.read_address(of_server(text), schema=_SCHEMA)
        if found.bank is not None:
            raise UsageError("a LangGraph store has no banks", field="bank")
        return cls(found.url, found.name, found.schema)


class LangGraphPostgres:
    """The items of a store.

    Args:
        address: Where it is.
        limits: Bounds on what is read.
        writes: Whether it is written to; its tables are made where there are none.
        overwrite: Whether other versions there are replaced.
        dry_run: Whether nothing is written after all, only weighed.
        skip_bad: Whether damaged items are left out of what is read, counted.

    Raises:
        MissingExtraError: If the driver is not installed.
        StoreError: If the server cannot be reached, or does not let us in.
        UnreadableError: If there is no store in the schema.
        MalformedError: If the tables there are not LangGraph's.
    """

    info: ClassVar[Info] = Info(
        title="LangGraph store on PostgreSQL",
        suffixes=(),
        spec="langgraph-checkpoint-postgres 3.2.0 PostgresStore; values of LangMem 0.0.30",
        checked="2026-11-23",
        traits=Traits(components=frozenset({Component.SEMANTIC}), exact=True, streams=True),
        lost_on_writing=(
            "Memory types, tags, entities, provenance, salience, validity and"
            " edges; whether a label of a namespace is a user, an agent or a run."
        ),
        beside=frozenset({VECTORS}),
    )

    def __init__(
        self,
        address: Address,
        *,
        limits: Limits = DEFAULT_LIMITS,
        writes: bool = False,
        overwrite: bool = False,
        dry_run: bool = False,
        skip_bad: bool = False,
    ) -> None:
        self.address = address
        self._overwrite = overwrite
        self._dry_run = dry_run
        self._skip_bad = skip_bad
        self._most = _ROOM * limits.entry_bytes
        self._open: Any = None
        self._next: str | None = None
        with translated(address.name):
            self._connection = DRIVER.connect(
                address.url,
                autocommit=True,
                connect_timeout=connecting.CONNECT_SECONDS,
                application_name="satchel",
            )
        try:
            self._columns = self._tables(makes=writes and not dry_run, needs=not writes)
        except BaseException:
            self.close()
            raise

    def _tables(self, *, makes: bool, needs: bool) -> Columns | None:
        """Return what columns the tables have; None where there are none and none are needed."""
        schema, name = self.address.schema, self.address.name
        with translated(name):
            self._connection.execute(_SESSION.format(schema=schema))
            found = Columns.of(self._connection, schema, name)
            if found is None and makes:
                with self._connection.transaction():
                    make_tables(self._connection, schema)
                found = Columns.of(self._connection, schema, name)
        if found is None and needs:
            raise UnreadableError(
                f"no LangGraph store in the schema {schema!r}",
                file=name,
                hint="Set the schema: ?schema=NAME.",
            )
        return found

    def page(self, cursor: str | None, report: Report) -> Page:
        """List items from ``cursor``."""
        after = None if cursor is None else _after(cursor)
        if self._columns is None:
            return Page([], None)
        name = self.address.name
        with translated(name):
            if self._open is None or cursor is None or cursor != self._next:
                self._begin(after)
            rows = self._open.fetchmany(_TOGETHER)
            # Whether there is another one is known when it is asked for.
            self._next = _CURSOR + json.dumps(rows[-1][:2]) if len(rows) == _TOGETHER else None
        refuse = Reading(report=report, skip_bad=self._skip_bad).refuse
        items = list[Entry]()
        for row in rows:
            try:
                items.append(entry_of(self._item(row)))
            except InputError as error:
                error.field = f"store/{row[0]}/{row[1]}/{error.field or ''}".rstrip("/")
                refuse(error.located(file=name))  # type: ignore[arg-type]
        if self._next is None:
            self._end()
        return Page(items, self._next)

    def _item(self, row: Sequence[Any]) -> dict[str, Any]:
        if row[2] is None:
            raise LimitError(f"an item can have at most {self._most} bytes", field="value")
        return item_of(row)

    def _begin(self, after: tuple[str, str] | None) -> None:
        """Take a snapshot, and stand behind an item in it."""
        self._end()
        self._connection.execute(_SNAPSHOT)
        self._open = self._connection.cursor("satchel_items")
        assert self._columns is not None  # noqa: S101 - whoever asks has looked
        self._open.execute(*query(self.address.schema, self._columns, after, self._most))

    def _end(self) -> None:
        """Let go of the snapshot."""
        if self._open is not None:
            cursor, self._open, self._next = self._open, None, None
            cursor.close()
            self._connection.execute("ROLLBACK")

    def take(self, batch: Sequence[Sealed], report: Report) -> Sequence[Taken]:
        """Write items; durable when this returns."""
        taken = list[Taken]()
        with translated(self.address.name):
            self._end()
            with self._connection.transaction(force_rollback=self._dry_run):
                for record in batch:
                    taken.append(self._taken(record, report))
        return taken

    def _taken(self, record: Sealed, report: Report) -> Taken:
        entry = record.model
        if not isinstance(entry, Entry) or (entry.text is None and entry.data is None):
            return Taken(record.id, None, "an item must be a text or data")
        row = row_of(record, entry, report)
        if self._columns is None:  # it would be made
            return Taken(record.id, record.id)
        return put(
            self._connection,
            self._columns,
            (record.id, row),
            report,
            overwrite=self._overwrite,
        )

    def close(self) -> None:
        """Let go of the server."""
        with suppress(DRIVER.Error):
            if not self._connection.closed:
                self._end()
        self._connection.close()


def _after(cursor: str) -> tuple[str, str]:
    """Return the namespace and key of the item that a page starts behind."""
    found: Any = None
    if cursor.startswith(_CURSOR):
        with suppress(ValueError, RecursionError):
            found = json.loads(cursor.removeprefix(_CURSOR))
    if type(found) is not list or [type(one) for one in found] != [str, str]:
        raise MalformedError("no page starts at this cursor", field="cursor")
    return found[0], found[1]
