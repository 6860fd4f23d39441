"""A bank in the LadybugDB store, read through its ledger."""

from pathlib import Path
from typing import Any

from agmi.adapters.base import Record

from satchel.conformance.agmi.sqlite import FOUNDING, SatchelSqlite
from satchel.crypto.sealed_records import PREFIX
from satchel.ports.store import Store
from satchel.stores.ladybug import LadybugStore
from satchel.stores.ladybug.database import FILE, engine
from satchel.stores.ladybug.statements import made_of

_STRETCH = 1 << 40


class SatchelLadybug(SatchelSqlite):
    """Two banks in one graph; the attacker has the engine, and rewrites nodes with it."""

    name = "satchel-ladybug"

    def write_raw(self, record: Record) -> None:
        """Put a row at a place, whatever was there."""
        self.delete_raw(record.seq)
        row = {**record.fields, "place": self._place(0, record.seq)}
        self._cypher(f"UNWIND $rows AS x {made_of('Record')}", rows=[row])

    def delete_raw(self, seq: int) -> None:
        """Delete a row."""
        self._cypher("MATCH (r:Record {place: $at}) DELETE r", at=self._place(0, seq))

    def forge_record(self, template: Record) -> Record:
        """Return a record with a right id, one place further on."""
        forged = super().forge_record(template)
        forged.fields["id"] = PREFIX + forged.fields["id"].hex()
        return forged

    def replay_onto(self, victim_seq: int, donor: Record) -> None:
        """Put a genuine record's bytes, with its id, where another record is."""
        cypher = "MATCH (r:Record {place: $at}) SET r.body = $body"
        self._cypher(cypher, at=self._place(0, victim_seq), body=donor.fields["body"])

    def read_meta(self, seq: int) -> dict[str, Any]:
        """Read the columns that say whose a record is and when it arrived."""
        cypher = "MATCH (r:Record {place: $at}) RETURN r.user, r.at"
        ((user, at),) = self._cypher(cypher, at=self._place(0, seq))
        return {"user": user, "at": at}

    def write_meta(self, seq: int, meta: dict[str, Any]) -> None:
        """Give a record to somebody else."""
        user = f"{meta['user']}, {meta['agmi_meta_tampered']}"
        cypher = "MATCH (r:Record {place: $at}) SET r.user = $user"
        self._cypher(cypher, at=self._place(0, seq), user=user)

    # -- both ------------------------------------------------------------------------------

    def _made(self, path: Path) -> Store:
        return LadybugStore(path)

    def _rows(self, which: int) -> list[Record]:
        first = self._place(which, 0)
        within = "r.place >= $first AND r.place < $after"
        cypher = f"MATCH (r:Record) WHERE {within} RETURN r ORDER BY r.place"
        found = self._cypher(cypher, first=first, after=first + _STRETCH // 2)
        return [
            Record(
                seq=seq,
                fields={name: value for name, value in node.items() if not name.startswith("_")},
            )
            for seq, (node,) in enumerate(found)
        ]

    def _place(self, which: int, seq: int) -> int:
        cypher = "MATCH (b:Bank {id: $bank}) RETURN b.number"
        ((number,),) = self._cypher(cypher, bank=self._banks[which])
        return int(number) * _STRETCH + FOUNDING + seq

    def _cypher(self, cypher: str, **values: Any) -> list[list[Any]]:
        """Ask the engine itself; the store is closed meanwhile, or it would have the files."""
        self._store.close()
        database = engine().Database(str(self._path / FILE), max_db_size=_STRETCH)
        connection = engine().Connection(database)
        try:
            found: list[list[Any]] = connection.execute(cypher, values).get_all()
            return found
        finally:
            connection.close()
            database.close()
