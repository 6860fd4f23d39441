"""What an import is going to log, held on disk until all of it was looked at."""

from collections.abc import Iterator
from itertools import islice

from satchel.disk.spool import Strands
from satchel.memory.records import State, Status
from satchel.seal.records import Sealed
from satchel.seal.sealing import Nonces, seal

GROUP = 2048
"""Records that are logged together: one transaction, one head."""


class Stage:
    """Records in their order, then the statuses that go with them.

    Args:
        strands: Where they are held.
    """

    def __init__(self, strands: Strands) -> None:
        self._records = strands.strand()
        self._statuses = strands.strand()
        self.records = 0
        self.statuses = 0

    def add(self, record: Sealed) -> None:
        """Hold a record."""
        self._records.write(_line(record))
        self.records += 1

    def say(self, target: str, state: State, *, by: str | None, at: str, nonces: Nonces) -> None:
        """Hold a status of a record that is in the bank, or in here."""
        status = Status(target=target, state=state, by=by, reason="import", at=at)
        self._statuses.write(_line(seal(status, nonces=nonces)))
        self.statuses += 1

    def groups(self, after: int = 0) -> Iterator[list[Sealed]]:
        """Yield everything in groups, without the first ``after``."""
        found = islice(self._all(), after, None)
        while group := list(islice(found, GROUP)):
            yield group

    def _all(self) -> Iterator[Sealed]:
        for strand in (self._records, self._statuses):
            for line in strand.lines():
                record_type, identity, body = line.split(b" ", 2)
                yield Sealed(identity.decode(), record_type.decode(), body)


def _line(record: Sealed) -> bytes:
    return b"%b %b %b\n" % (record.type.encode(), record.id.encode(), record.body)
