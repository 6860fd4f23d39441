"""A bank in the PostgreSQL store, read through its ledger."""

import os
import secrets
from pathlib import Path
from typing import Any

import psycopg
from agmi.adapters.base import Record

from satchel.conformance.agmi.stores import FOUNDING, SatchelSqlite
from satchel.ports.store import Store
from satchel.stores.postgres import PostgresStore

ADDRESS = "SATCHEL_AGMI_POSTGRES"
"""Environment variable with the address of a database for the suite."""

_TABLES = ("bank", "record", "node", "link", "word", "side")


class SatchelPostgres(SatchelSqlite):
    """Two banks in one schema: the attacked one, and another one.

    The attacker owns the tables. ``SATCHEL_AGMI_POSTGRES`` is the address of the database; each run
    creates a schema in it, and removes it.
    """

    name = "satchel-postgres"

    def setup(self) -> None:
        """Start with empty tables, new keys and a new witness."""
        self._server = os.environ[ADDRESS]
        self._schema = f"agmi_{secrets.token_hex(8)}"
        self._raw = psycopg.connect(self._server, autocommit=True)
        super().setup()

    def teardown(self) -> None:
        """Delete everything."""
        super().teardown()
        self._sql(f"DROP SCHEMA {self._schema} CASCADE")
        self._raw.close()

    # -- the attacker ----------------------------------------------------------------------

    def write_raw(self, record: Record) -> None:
        """Write a row at a position, replacing any other."""
        # An attacker drops the store's unique indexes.
        self._sql(f"DROP INDEX IF EXISTS {self._schema}.record_id")
        self._sql(f"DROP INDEX IF EXISTS {self._schema}.record_slot")
        bank, seq = self._where(0, record.seq)
        row = {**record.fields, "bank": bank, "seq": seq}
        self.delete_raw(record.seq)
        columns = ", ".join(f'"{name}"' for name in row)
        marks = ", ".join(["%s"] * len(row))
        table = f"{self._schema}.record"
        self._sql(f"INSERT INTO {table} ({columns}) VALUES ({marks})", *row.values())  # noqa: S608

    def delete_raw(self, seq: int) -> None:
        """Delete a row."""
        table = f"{self._schema}.record"
        self._sql(f"DELETE FROM {table} WHERE bank = %s AND seq = %s", *self._where(0, seq))  # noqa: S608

    def identity_of(self, record: Record) -> str:
        """Return the position of a row."""
        return f"{record.fields['bank']}/{record.fields['seq']}"

    def replay_onto(self, victim_seq: int, donor: Record) -> None:
        """Replace a record by the bytes and ID of another genuine record."""
        self._set(victim_seq, "body", donor.fields["body"])

    def read_meta(self, seq: int) -> dict[str, Any]:
        """Read the columns with the owner and time of a record."""
        sql = f'SELECT "user", at FROM {self._schema}.record WHERE bank = %s AND seq = %s'  # noqa: S608
        ((user, at),) = self._sql(sql, *self._where(0, seq))
        return {"user": user.decode(), "at": at}

    def write_meta(self, seq: int, meta: dict[str, Any]) -> None:
        """Change the owner of a record."""
        self._set(seq, '"user"', f"{meta['user']}, {meta['agmi_meta_tampered']}".encode())

    def snapshot_store(self) -> object:
        """Copy the tables, as a backup of the server would."""
        snapshot = f"agmi_{secrets.token_hex(8)}"
        self._sql(f"CREATE SCHEMA {snapshot}")
        for table in _TABLES:
            self._sql(f"CREATE TABLE {snapshot}.{table} AS TABLE {self._schema}.{table}")
        return snapshot

    def restore_store(self, token: object) -> None:
        """Restore the copy."""
        for table in _TABLES:
            target = f"{self._schema}.{table}"
            self._sql(f"DELETE FROM {target}")  # noqa: S608 - our own names
            self._sql(f"INSERT INTO {target} OVERRIDING SYSTEM VALUE TABLE {token}.{table}")
        self.reload()

    # -- both ------------------------------------------------------------------------------

    def _open_store(self, path: Path) -> Store:
        del path
        mark = "&" if "?" in self._server else "?"
        return PostgresStore(f"{self._server}{mark}schema={self._schema}")

    def _rows(self, which: int) -> list[Record]:
        sql = f"SELECT * FROM {self._schema}.record WHERE bank = %s AND seq >= %s ORDER BY seq"  # noqa: S608
        cursor = self._raw.execute(sql, self._where(which, 0))
        names = [column.name for column in cursor.description or ()]
        return [
            Record(seq=seq, fields=dict(zip(names, row, strict=True)))
            for seq, row in enumerate(cursor)
        ]

    def _set(self, seq: int, column: str, value: bytes) -> None:
        sql = f"UPDATE {self._schema}.record SET {column} = %s WHERE bank = %s AND seq = %s"  # noqa: S608
        self._sql(sql, value, *self._where(0, seq))

    def _where(self, which: int, seq: int) -> tuple[int, int]:
        sql = f"SELECT number FROM {self._schema}.bank WHERE id = %s"  # noqa: S608
        ((number,),) = self._sql(sql, self._banks[which])
        return int(number), FOUNDING + seq

    def _sql(self, sql: Any, *values: Any) -> list[Any]:
        found = self._raw.execute(sql, values or None)
        return found.fetchall() if found.description else []
