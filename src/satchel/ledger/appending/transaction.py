"""Several appends in one transaction of a store, read back before they are committed."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from blake3 import blake3

from satchel.ports.rows import Row
from satchel.ports.store import Digested, Reader, RowsDigest
from satchel.seal.proved_tree import leaf_position
from satchel.seal.records import Sealed

_TOGETHER = 1024


class LogTransaction(Protocol):
    """The right to append several times; see ``Ledger.transaction``."""

    def append(
        self, records: Sequence[Sealed], *, side: Mapping[str, bytes | None] | None = None
    ) -> list[int]:
        """Add records to the log and return their log positions; see ``Ledger.append``."""
        ...

    def append_rows(self, rows: Sequence[Row], *, batch: str, visible: bool = False) -> list[int]:
        """Add records of an import; see ``Ledger.append_rows``.

        Args:
            rows: From ``unplaced_row``, of records that were sealed or opened here.
            batch: Id of the import's source record.
            visible: Whether they are current at once, because the caller closes the import in this
                transaction.
        """
        ...

    def require_stored(self) -> None:
        """Read back what was appended so far, and compare it with what was meant.

        Leaves, bodies and tree nodes are compared by their digest. The ids are the hashes of
        bodies that this process sealed or opened.

        Raises:
            StoreDamagedError: If the store has something else.
        """
        ...


class StoredDigest:
    """A digest of the rows and tree nodes of a stretch of a log, as they are added to it."""

    def __init__(self) -> None:
        self._rows, self._nodes = RowsDigest(), blake3()

    def add(self, rows: Sequence[Row], nodes: Sequence[bytes]) -> None:
        """Add rows, and the tree nodes that they complete."""
        self._rows.add([(row.id, row.type, row.at, row.body) for row in rows])
        self._nodes.update(b"".join(nodes))

    @property
    def value(self) -> tuple[bytes, bytes]:
        """The digests of rows and of nodes."""
        return self._rows.value, self._nodes.digest()


def stored_digest(reader: Reader, bank: str, start: int, end: int) -> tuple[bytes, bytes]:
    """Return the digests of the rows and nodes that a store has of a stretch of a log."""
    first, last = leaf_position(start), leaf_position(end)
    if isinstance(reader, Digested):
        return reader.digest(bank, (start, end), (first, last))
    rows, nodes = RowsDigest(), blake3()
    for places in _parts(start, end):
        found = sorted(reader.at(bank, places), key=lambda row: row.seq)
        rows.add([(row.id, row.type, row.at, row.body) for row in found])
    for positions in _parts(first, last):
        stored = reader.nodes(bank, positions)
        nodes.update(b"".join(stored.get(position, b"") for position in positions))
    return rows.value, nodes.digest()


def _parts(start: int, end: int) -> Iterator[range]:
    for at in range(start, end, _TOGETHER):
        yield range(at, min(at + _TOGETHER, end))
