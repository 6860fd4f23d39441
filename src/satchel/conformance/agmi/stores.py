"""Banks in the SQLite and LadybugDB stores, read through their ledger."""

import shutil
import tempfile
from pathlib import Path
from typing import Any

import apsw
from agmi.adapters.base import MemoryAdapter, Record

from satchel.crypto.keys import SigningKey
from satchel.crypto.sealed_records import seal
from satchel.errors import SatchelError
from satchel.ledger.ledger import Ledger
from satchel.ledger.witness import Witness
from satchel.model.records import Semantic
from satchel.model.values import ID_PREFIX, Origin, Scope
from satchel.ports.store import Store
from satchel.stores.ladybug import LadybugStore
from satchel.stores.ladybug.database import FILE, engine
from satchel.stores.ladybug.statements import create_statement
from satchel.stores.sqlite import SqliteStore

FOUNDING = 2
"""Number of records that every bank starts with: its owner and its writers."""


class SatchelSqlite(MemoryAdapter):  # type: ignore[misc]  # agmi has no types
    """Two banks in one SQLite store: the attacked one, and another one."""

    name = "satchel-sqlite"
    detection_point = "read"
    supports_replay = True
    supports_metadata = True
    supports_snapshot = True

    def setup(self) -> None:
        """Start with an empty store, new keys and a new witness."""
        self._root = Path(tempfile.mkdtemp(prefix="satchel-agmi-"))
        self._path = self._root / "store" / "satchel.db"
        self._path.parent.mkdir()
        self._owner, self._writer = SigningKey.generate(), SigningKey.generate()
        self._count = 0
        self._banks: list[str] = []
        self._open()
        for name in ("first", "other"):
            ledger = Ledger.create(
                self._store,
                owner=self._owner,
                writer=self._writer,
                witness=Witness(self._root / "witness"),
                name=name,
            )
            self._banks.append(ledger.bank)
        self.reload()

    def teardown(self) -> None:
        """Delete everything."""
        self._store.close()
        shutil.rmtree(self._root)

    def seed(self, n: int) -> None:
        """Write entries through the ledger."""
        self._write(0, n)

    def seed_other(self, n: int) -> None:
        """Write entries to the other bank."""
        self._write(1, n)

    def append_genuine(self) -> None:
        """Write another entry to a store that was just opened."""
        self.reload()
        self._write(0, 1)

    def reload(self) -> None:
        """Close and open again, as a restarted agent does."""
        self._store.close()
        self._open()

    def verify(self) -> bool:
        """List the bank; return whether it was accepted."""
        try:
            with self._ledgers[0].reading() as view:
                listed = sum(1 for _ in view.scan())
        except SatchelError as error:
            self.verify_detail = str(error)
            return False
        return listed > 0

    # -- the attacker ----------------------------------------------------------------------

    def read_all_raw(self) -> list[Record]:
        """Read the first bank's rows as they are on disk."""
        return self._rows(0)

    def read_other_raw(self) -> list[Record]:
        """Read the other bank's rows."""
        return self._rows(1)

    def write_raw(self, record: Record) -> None:
        """Write a row at a position, replacing any other."""
        # An attacker drops the store's unique indexes.
        self._sql("DROP INDEX IF EXISTS record_id")
        self._sql("DROP INDEX IF EXISTS record_slot")
        row = {**record.fields, "place": self._place(0, record.seq)}
        self._sql("DELETE FROM record WHERE place = ?", row["place"])
        marks = ", ".join("?" * len(row))
        self._sql(f"INSERT INTO record ({', '.join(row)}) VALUES ({marks})", *row.values())  # noqa: S608

    def delete_raw(self, seq: int) -> None:
        """Delete a row."""
        self._sql("DELETE FROM record WHERE place = ?", self._place(0, seq))

    def mutate_payload(self, record: Record) -> Record:
        """Change the body of a row, not its columns."""
        record.fields["body"] = record.fields["body"].replace(b"memory", b"MEMORY")
        return record

    def forge_record(self, template: Record) -> Record:
        """Return a record with a valid ID at the next position."""
        forged = seal(Semantic(text="a forged memory"))
        fields = dict(template.fields) | {"body": forged.body, "slot": None}
        fields["id"] = bytes.fromhex(forged.id.removeprefix("blake3:"))
        return Record(seq=template.seq + 1, fields=fields)

    def identity_of(self, record: Record) -> str:
        """Return the position of a row."""
        return str(record.fields["place"])

    def payload_of(self, record: Record) -> str:
        """Return the body of a row."""
        return repr(record.fields["body"])

    def owner_of(self, record: Record) -> str | None:
        """Return the bank of a row."""
        return str(record.fields["bank"])

    def replay_onto(self, victim_seq: int, donor: Record) -> None:
        """Replace a record by the bytes and ID of another genuine record."""
        self._sql(
            "UPDATE record SET body = ? WHERE place = ?",
            donor.fields["body"],
            self._place(0, victim_seq),
        )

    def read_meta(self, seq: int) -> dict[str, Any]:
        """Read the columns with the owner and time of a record."""
        sql = "SELECT user, at FROM record WHERE place = ?"
        ((user, at),) = self._sql(sql, self._place(0, seq))
        return {"user": user, "at": at}

    def write_meta(self, seq: int, meta: dict[str, Any]) -> None:
        """Change the owner of a record."""
        sql = "UPDATE record SET user = ? WHERE place = ?"
        self._sql(sql, f"{meta['user']}, {meta['agmi_meta_tampered']}", self._place(0, seq))

    def snapshot_store(self) -> object:
        """Copy the store's folder."""
        self._store.close()
        self._open()
        return self._copy_store(self._path.parent)

    def restore_store(self, token: object) -> None:
        """Restore the copy."""
        self._store.close()
        self._restore_store(token, self._path.parent)
        self._open()

    # -- both ------------------------------------------------------------------------------

    def _open(self) -> None:
        self._store = self._open_store(self._path)
        witness = Witness(self._root / "witness")
        self._ledgers = [
            Ledger(self._store, bank, writer=self._writer, witness=witness) for bank in self._banks
        ]

    def _open_store(self, path: Path) -> Store:
        return SqliteStore(path)

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
        first = self._place(which, 0)
        sql = "SELECT * FROM record WHERE place >= ? AND place < ? ORDER BY place"
        connection = apsw.Connection(str(self._path))
        try:
            names = [column[1] for column in connection.execute("PRAGMA table_info(record)")]
            rows = connection.execute(sql, (first, first + (1 << 39)))
            return [
                Record(seq=seq, fields=dict(zip(names, row, strict=True)))
                for seq, row in enumerate(rows)
            ]
        finally:
            connection.close()

    def _place(self, which: int, seq: int) -> int:
        ((number,),) = self._sql("SELECT number FROM bank WHERE id = ?", self._banks[which])
        return (int(number) << 40) + FOUNDING + seq

    def _sql(self, sql: str, *values: Any) -> list[Any]:
        connection = apsw.Connection(str(self._path))
        try:
            return connection.execute(sql, values).fetchall()
        finally:
            connection.close()


_STRETCH = 1 << 40


class SatchelLadybug(SatchelSqlite):
    """Two banks in one graph; the attacker rewrites nodes with the engine."""

    name = "satchel-ladybug"

    def write_raw(self, record: Record) -> None:
        """Write a row at a position, replacing any other."""
        self.delete_raw(record.seq)
        row = {**record.fields, "place": self._place(0, record.seq)}
        self._cypher(f"UNWIND $rows AS x {create_statement('Record')}", rows=[row])

    def delete_raw(self, seq: int) -> None:
        """Delete a row."""
        self._cypher("MATCH (r:Record {place: $at}) DELETE r", at=self._place(0, seq))

    def forge_record(self, template: Record) -> Record:
        """Return a record with a valid ID at the next position."""
        forged = super().forge_record(template)
        forged.fields["id"] = ID_PREFIX + forged.fields["id"].hex()
        return forged

    def replay_onto(self, victim_seq: int, donor: Record) -> None:
        """Replace a record by the bytes and ID of another genuine record."""
        cypher = "MATCH (r:Record {place: $at}) SET r.body = $body"
        self._cypher(cypher, at=self._place(0, victim_seq), body=donor.fields["body"])

    def read_meta(self, seq: int) -> dict[str, Any]:
        """Read the columns with the owner and time of a record."""
        cypher = "MATCH (r:Record {place: $at}) RETURN r.user, r.at"
        ((user, at),) = self._cypher(cypher, at=self._place(0, seq))
        return {"user": user, "at": at}

    def write_meta(self, seq: int, meta: dict[str, Any]) -> None:
        """Change the owner of a record."""
        user = f"{meta['user']}, {meta['agmi_meta_tampered']}"
        cypher = "MATCH (r:Record {place: $at}) SET r.user = $user"
        self._cypher(cypher, at=self._place(0, seq), user=user)

    # -- both ------------------------------------------------------------------------------

    def _open_store(self, path: Path) -> Store:
        return LadybugStore(path)

    def _rows(self, which: int) -> list[Record]:
        first = self._place(which, 0)
        within = "r.place >= $first AND r.place < $after"
        cypher = f"MATCH (r:Record) WHERE {within} RETURN r ORDER BY r.place"
        nodes = self._cypher(cypher, first=first, after=first + _STRETCH // 2)
        return [
            Record(
                seq=seq,
                fields={name: value for name, value in node.items() if not name.startswith("_")},
            )
            for seq, (node,) in enumerate(nodes)
        ]

    def _place(self, which: int, seq: int) -> int:
        cypher = "MATCH (b:Bank {id: $bank}) RETURN b.number"
        ((number,),) = self._cypher(cypher, bank=self._banks[which])
        return int(number) * _STRETCH + FOUNDING + seq

    def _cypher(self, cypher: str, **values: Any) -> list[list[Any]]:
        """Run a query in the engine, with the store closed, since it locks the files."""
        self._store.close()
        database = engine().Database(str(self._path / FILE), max_db_size=_STRETCH)
        connection = engine().Connection(database)
        try:
            found: list[list[Any]] = connection.execute(cypher, values).get_all()
            return found
        finally:
            connection.close()
            database.close()
