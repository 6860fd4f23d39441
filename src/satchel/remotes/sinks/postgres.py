"""A sink in a PostgreSQL database; rows and place in one commit."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from satchel.errors import TargetError, UsageError
from satchel.errors.addresses import shown_address
from satchel.ports.outward.sink import COLUMNS, SCHEMA_VERSION, Position, SinkRow
from satchel.remotes.sinks import sql
from satchel.remotes.sinks.sqlite import position_of


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
                for statement in sql.tables():
                    self._connection.execute(statement)

    def last(self, bank: str) -> Position | None:
        """Return the last row of a bank."""
        with self._explained(), self._connection.transaction():
            rows = self._connection.execute(sql.asking("%s"), (bank,)).fetchall()
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
            cursor.executemany(sql.adding("%s"), values)
            if gone:
                cursor.executemany(sql.emptying("%s"), gone)
            cursor.execute(sql.moving("%s"), end)

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
