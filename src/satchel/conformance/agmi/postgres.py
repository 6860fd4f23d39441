"""A bank in the PostgreSQL store, read through its ledger."""

import os
import secrets
import shutil
import tempfile
from pathlib import Path
from typing import Any

import psycopg
from agmi.adapters.base import MemoryAdapter, Record

from satchel.errors import SatchelError
from satchel.ledger.ledger import Ledger
from satchel.ledger.witness import Witness
from satchel.memory.entries import Semantic
from satchel.memory.parts import Origin, Scope
from satchel.seal.sealing import seal
from satchel.seal.signing.key import SigningKey
from satchel.stores.postgres import PostgresStore

ADDRESS = "SATCHEL_AGMI_POSTGRES"
"""The environment variable with the address of a database that the suite may use."""

_FOUNDING = 2  # records that every bank starts with: who owns it, who may write
_TABLES = ("bank", "record", "node", "link", "word", "side")


class SatchelPostgres(MemoryAdapter):  # type: ignore[misc]  # agmi has no types
    """Two banks in one schema: the one that is attacked, and another one.

    The attacker owns the tables. Where the database is, ``SATCHEL_AGMI_POSTGRES`` says; each run
    has a schema of its own there, and removes it.
    """

    name = "satchel-postgres"
    detection_point = "read"
    supports_replay = True
    supports_metadata = True
    supports_snapshot = True
    _store: PostgresStore | None = None
    _ledgers: list[Ledger]

    def setup(self) -> None:
        """Start with empty tables, new keys and a new witness."""
        self._root = Path(tempfile.mkdtemp(prefix="satchel-agmi-"))
        self._server = os.environ[ADDRESS]
        self._schema = f"agmi_{secrets.token_hex(8)}"
        self._raw = psycopg.connect(self._server, autocommit=True)
        self._owner, self._writer = SigningKey.generate(), SigningKey.generate()
        self._count = 0
        self._banks: list[str] = []
        for name in ("first", "other"):
            ledger = Ledger.create(
                self._open(),
                owner=self._owner,
                writer=self._writer,
                witness=Witness(self._root / "witness"),
                name=name,
            )
            self._banks.append(ledger.bank)
        self._open()

    def teardown(self) -> None:
        """Throw everything away."""
        if self._store is not None:
            self._store.close()
        self._sql(f"DROP SCHEMA {self._schema} CASCADE")
        self._raw.close()
        shutil.rmtree(self._root)

    def seed(self, n: int) -> None:
        """Write entries through the ledger."""
        self._write(0, n)

    def seed_other(self, n: int) -> None:
        """Write entries to the other bank."""
        self._write(1, n)

    def append_genuine(self) -> None:
        """Write one more, on a store that was just opened."""
        self.reload()
        self._write(0, 1)

    def reload(self) -> None:
        """Close and open again, as a restarted agent does."""
        self._open()

    def verify(self) -> bool:
        """List the bank; whether that was refused is the answer."""
        try:
            with self._ledgers[0].reading() as view:
                listed = sum(1 for _ in view.scan())
        except SatchelError as error:
            self.verify_detail = str(error)
            return False
        return listed > 0

    # -- the attacker ----------------------------------------------------------------------

    def read_all_raw(self) -> list[Record]:
        """Read the first bank's rows as they are in the table."""
        return self._rows(0)

    def read_other_raw(self) -> list[Record]:
        """Read the other bank's rows."""
        return self._rows(1)

    def write_raw(self, record: Record) -> None:
        """Put a row at a place, whatever was there."""
        # Unique indexes are the store's manners; an attacker drops them.
        self._sql(f"DROP INDEX IF EXISTS {self._schema}.record_id")
        self._sql(f"DROP INDEX IF EXISTS {self._schema}.record_slot")
        bank, seq = self._place(0, record.seq)
        row = {**record.fields, "bank": bank, "seq": seq}
        self.delete_raw(record.seq)
        columns = ", ".join(f'"{name}"' for name in row)
        marks = ", ".join(["%s"] * len(row))
        table = f"{self._schema}.record"
        self._sql(f"INSERT INTO {table} ({columns}) VALUES ({marks})", *row.values())  # noqa: S608

    def delete_raw(self, seq: int) -> None:
        """Delete a row."""
        table = f"{self._schema}.record"
        self._sql(f"DELETE FROM {table} WHERE bank = %s AND seq = %s", *self._place(0, seq))  # noqa: S608

    def mutate_payload(self, record: Record) -> Record:
        """Change what a row says, and leave its columns."""
        record.fields["body"] = record.fields["body"].replace(b"memory", b"MEMORY")
        return record

    def forge_record(self, template: Record) -> Record:
        """Return a record with a right id, one place further on."""
        forged = seal(Semantic(text="a forged memory"))
        fields = dict(template.fields) | {"body": forged.body, "slot": None}
        fields["id"] = bytes.fromhex(forged.id.removeprefix("blake3:"))
        return Record(seq=template.seq + 1, fields=fields)

    def identity_of(self, record: Record) -> str:
        """A row's place."""
        return f"{record.fields['bank']}/{record.fields['seq']}"

    def payload_of(self, record: Record) -> str:
        """What a row says."""
        return repr(record.fields["body"])

    def owner_of(self, record: Record) -> str | None:
        """The bank a row is in."""
        return str(record.fields["bank"])

    def replay_onto(self, victim_seq: int, donor: Record) -> None:
        """Put a genuine record's bytes, with its id, where another record is."""
        self._set(victim_seq, "body", donor.fields["body"])

    def read_meta(self, seq: int) -> dict[str, Any]:
        """Read the columns that say whose a record is and when it arrived."""
        sql = f'SELECT "user", at FROM {self._schema}.record WHERE bank = %s AND seq = %s'  # noqa: S608
        ((user, at),) = self._sql(sql, *self._place(0, seq))
        return {"user": user.decode(), "at": at}

    def write_meta(self, seq: int, meta: dict[str, Any]) -> None:
        """Give a record to somebody else."""
        self._set(seq, '"user"', f"{meta['user']}, {meta['agmi_meta_tampered']}".encode())

    def snapshot_store(self) -> object:
        """Copy the tables, as a backup of the server would."""
        kept = f"agmi_{secrets.token_hex(8)}"
        self._sql(f"CREATE SCHEMA {kept}")
        for table in _TABLES:
            self._sql(f"CREATE TABLE {kept}.{table} AS TABLE {self._schema}.{table}")
        return kept

    def restore_store(self, token: object) -> None:
        """Put the copy back in its place."""
        for table in _TABLES:
            target = f"{self._schema}.{table}"
            self._sql(f"DELETE FROM {target}")  # noqa: S608 - our own names
            self._sql(f"INSERT INTO {target} OVERRIDING SYSTEM VALUE TABLE {token}.{table}")
        self._open()

    # -- both ------------------------------------------------------------------------------

    def _open(self) -> PostgresStore:
        if self._store is not None:
            self._store.close()
        mark = "&" if "?" in self._server else "?"
        self._store = PostgresStore(f"{self._server}{mark}schema={self._schema}")
        witness = Witness(self._root / "witness")
        self._ledgers = [
            Ledger(self._store, bank, writer=self._writer, witness=witness) for bank in self._banks
        ]
        return self._store

    def _write(self, which: int, count: int) -> None:
        for _ in range(count):
            self._count += 1
            entry = Semantic(
                text=f"memory {self._count} of bank {which}",
                scope=Scope(user="ada"),
                origin=Origin(provider="agmi", id=str(self._count)),
            )
            self._ledgers[which].append([seal(entry)])

    def _rows(self, which: int) -> list[Record]:
        sql = f"SELECT * FROM {self._schema}.record WHERE bank = %s AND seq >= %s ORDER BY seq"  # noqa: S608
        found = self._raw.execute(sql, self._place(which, 0))
        names = [column.name for column in found.description or ()]
        return [
            Record(seq=seq, fields=dict(zip(names, row, strict=True)))
            for seq, row in enumerate(found)
        ]

    def _set(self, seq: int, column: str, value: bytes) -> None:
        sql = f"UPDATE {self._schema}.record SET {column} = %s WHERE bank = %s AND seq = %s"  # noqa: S608
        self._sql(sql, value, *self._place(0, seq))

    def _place(self, which: int, seq: int) -> tuple[int, int]:
        sql = f"SELECT number FROM {self._schema}.bank WHERE id = %s"  # noqa: S608
        ((number,),) = self._sql(sql, self._banks[which])
        return int(number), _FOUNDING + seq

    def _sql(self, sql: Any, *values: Any) -> list[Any]:
        found = self._raw.execute(sql, values or None)
        return found.fetchall() if found.description else []
