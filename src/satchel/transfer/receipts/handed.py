"""What a live product was handed: which records, and under which ids it has them.

So that the product can be read again like a file, and compared: what others have there is passed
over, and what it does to an id is taken back, since that was told when the record was handed over.
Kept on disk; memory is bounded.
"""

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import ClassVar

import msgspec

from satchel.disk.databases.scratch import Scratch
from satchel.errors import UsageError
from satchel.memory.parts import Origin
from satchel.memory.records import Model
from satchel.ports.connector import Connector, pages
from satchel.ports.format import Info, Reading, Writing
from satchel.ports.place import Place, Target
from satchel.ports.records import RecordSet
from satchel.ports.report import Report
from satchel.seal.encoding.carry import ABSENT
from satchel.seal.records import Sealed
from satchel.type_info import resolved


class Handed(Scratch):
    """The records that a product was handed, as a format whose file is the product.

    Args:
        opening: Opens the product anew, for reading.
    """

    info: ClassVar[Info]

    def __init__(self, opening: Callable[[], Connector]) -> None:
        self._opening = opening
        super().__init__(
            "CREATE TABLE handed(there TEXT PRIMARY KEY, origin BLOB) WITHOUT ROWID;",
            cache_kib=4096,
        )

    def is_to(self, connector: Connector) -> None:
        """Say what the product is."""
        # Each product has its own; the protocol knows them by class.
        self.info = connector.info  # type: ignore[misc]

    def add(self, there: str, record: Sealed) -> None:
        """Note that the product has a record, under an id of its own."""
        origin = getattr(record.model, "origin", None)
        row = (there, None if origin is None else msgspec.json.encode(origin))
        self._db.execute("INSERT OR REPLACE INTO handed VALUES (?, ?)", row)

    def recognises(self, place: Place) -> bool:
        """Tell that no file is one."""
        del place
        return False

    def read(self, place: Place, reading: Reading) -> Iterator[Model | Sealed]:
        """Yield what the product has now of that which it was handed."""
        del place, reading
        with closing(self._opening()) as connector:
            for page in pages(connector, Report()):
                for item in page.items:
                    found = self._as_handed(item.model if isinstance(item, Sealed) else item)
                    if found is not None:
                        yield found

    def write(self, records: RecordSet, target: Target, writing: Writing) -> None:
        """Refuse: it has been written already."""
        del records, target, writing
        raise UsageError("a product that received records is only read")

    def _as_handed(self, item: Model) -> Model | None:
        """Return a record with the origin that it was handed with, where its product kept that."""
        origin = getattr(item, "origin", None)
        if origin is None or origin.id is None:
            return None
        sql = "SELECT origin FROM handed WHERE there = ?"
        row = self._db.execute(sql, [origin.id]).fetchone()
        if row is None:
            return None
        before = None if row[0] is None else _decode(row[0])
        if before is not None and before.provider != origin.provider:
            return item
        back = None if before is None else _as_before(origin, before)
        return msgspec.structs.replace(item, origin=back)


_decode = msgspec.json.Decoder(resolved(Origin)).decode


def _as_before(origin: Origin, before: Origin) -> Origin:
    """Return an origin with the id that it had; what its product filled in is no difference."""
    kept = {name: part for name, part in origin.as_written.items() if part != ABSENT}
    kept |= {
        name: part
        for name, part in before.as_written.items()
        if part == ABSENT and name not in kept
    }
    return msgspec.structs.replace(origin, id=before.id, as_written=kept)
