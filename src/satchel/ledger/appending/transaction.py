"""Several appends in one transaction of a store, read back before they are committed."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Protocol

from blake3 import blake3

from satchel.errors import UsageError
from satchel.ledger.folding import FOLDED, GROUP, Fact
from satchel.memory.records import Receipt
from satchel.ports.rows import VISIBLE, Row, unplaced_row
from satchel.ports.store import Digested, Reader, RowsDigest, Writer
from satchel.seal.log import leaf_of
from satchel.seal.proved_tree import grown, leaf_position
from satchel.seal.records import Sealed
from satchel.seal.sealing import seal
from satchel.seal.tree import Frontier

GROUP_RECORDS = 4096
"""Records of one group of an import that is named last, unless more are added at once."""

_TOGETHER = 1024
_HASH = 32
"""Bytes of a leaf."""


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

    def begin_import(self, size: int | None = None) -> None:
        """Begin an import whose source record is known only when the rest of it is logged.

        It is the first thing of the transaction. The source record, and the receipt before each
        group, get their log positions now and their bytes from ``name_import``.

        Args:
            size: How long the log has to be; None for any.

        Raises:
            ChangedError: If it is longer.
            ReadOnlyStoreError: If no key may sign here.
        """
        ...

    def append_unnamed(self, rows: Sequence[Row]) -> None:
        """Add records to the import that was begun; they are current at once.

        Args:
            rows: From ``unplaced_row``, of records that were sealed or opened here.

        Raises:
            UsageError: If a record says something of others.
        """
        ...

    def name_import(self, source: Sealed) -> int:
        """Put the source record before what was added, and return its log position."""
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
        self._rows.add(list(map(_said, rows)))
        self._nodes.update(b"".join(nodes))

    @property
    def value(self) -> tuple[bytes, bytes]:
        """The digests of rows and of nodes."""
        return self._rows.value, self._nodes.digest()


class UnnamedImport:
    """An import in one transaction, while its source record is not known yet.

    Args:
        bank: The bank.
        frontier: Of its log.
        at: When the source record arrived.
    """

    def __init__(self, bank: str, frontier: Frontier, at: str) -> None:
        self._bank = bank
        self.frontier = frontier
        self._start = frontier.size
        self._open = [(frontier.size, 0, at)]
        """Positions that are left open, each with the number of records that follow and arrival."""

        self._leaves = bytearray(_HASH)
        self._digests = list[RowsDigest]()
        """Of the rows of each group."""

        self._named = list[Row]()
        self._nodes = blake3()
        self.counts = Counter[str]()

    @property
    def size(self) -> int:
        """How long the log is with it."""
        return self._start + len(self._leaves) // _HASH

    def placed(self, rows: Sequence[Row], at: str) -> list[Row]:
        """Return rows as they are stored, behind others of their group or the receipt of a new one.

        Raises:
            UsageError: If a record says something of others.
        """
        if any(row.type in FOLDED for row in rows):
            raise UsageError("a record about other records needs a named import")
        place, count, arrived = self._open[-1]
        if self._digests and count + len(rows) <= GROUP_RECORDS:
            self._open[-1] = (place, count + len(rows), arrived)
        else:
            self._open.append((self.size, len(rows), at))
            self._digests.append(RowsDigest())
            self._leaves += bytes(_HASH)
        places = enumerate(rows, self.size)
        found = [row.placed(seq, at, self._start, VISIBLE) for seq, row in places]
        leaves = [leaf_of(self._bank, row.seq, row.type, row.id, at) for row in found]
        self._leaves += b"".join(leaves)
        self._digests[-1].add(list(map(_said, found)))
        self.counts.update(row.type for row in rows)
        return found

    def named(self, source: Sealed) -> tuple[list[Row], list[Fact]]:
        """Return the rows of the positions that were left open, and what they say."""
        facts = list[Fact]()
        for seq, count, at in self._open:
            record = source if seq == self._start else _group(source.id, count, at)
            row = unplaced_row(record.model, record.id, record.body)
            self._named.append(row.placed(seq, at, 0, VISIBLE))
            start = (seq - self._start) * _HASH
            leaf = leaf_of(self._bank, seq, row.type, row.id, at)
            self._leaves[start : start + _HASH] = leaf
            facts.append(Fact(seq, record.id, record.model))
        self.counts.update(row.type for row in self._named)
        return self._named, facts

    def put_nodes(self, writing: Writer) -> None:
        """Store the nodes of the tree, and let the frontier grow."""
        for start in range(0, len(self._leaves), _HASH * _TOGETHER):
            some = memoryview(self._leaves)[start : start + _HASH * _TOGETHER]
            first = leaf_position(self.frontier.size)
            leaves = (bytes(some[at : at + _HASH]) for at in range(0, len(some), _HASH))
            nodes = grown(self.frontier, leaves)
            self._nodes.update(b"".join(nodes))
            writing.put_nodes(self._bank, first, nodes)

    def is_stored(self, reader: Reader) -> bool:
        """Tell whether a store reads back what was meant."""
        none = leaf_position(self._start)
        groups = zip(self._open[1:], self._digests, strict=True)  # the first is the source record's
        spans = all(
            stored_digest(reader, self._bank, (seq + 1, seq + 1 + count), (none, none))[0]
            == digest.value
            for (seq, count, _), digest in groups
        )
        there = {row.seq: row for row in reader.at(self._bank, [row.seq for row in self._named])}
        said = ((there.get(row.seq), row) for row in self._named)
        named = all(one is not None and _said(one) == _said(row) for one, row in said)
        places = (none, leaf_position(self.size))
        nodes = stored_digest(reader, self._bank, (self._start, self._start), places)[1]
        return spans and named and nodes == self._nodes.digest()


_said = attrgetter("id", "type", "at", "body")


def _group(source: str, count: int, at: str) -> Sealed:
    return seal(Receipt(action=GROUP, result={"source": source, "records": count}, at=at))


def stored_digest(
    reader: Reader, bank: str, places: tuple[int, int], positions: tuple[int, int]
) -> tuple[bytes, bytes]:
    """Return the digests of the rows of a stretch of a log, and of the nodes of one of its tree.

    Args:
        reader: The store.
        bank: The bank.
        places: The first log position, and the one behind the last.
        positions: The same of nodes.
    """
    if isinstance(reader, Digested):
        return reader.digest(bank, places, positions)
    rows, nodes = RowsDigest(), blake3()
    for some in _parts(*places):
        found = sorted(reader.at(bank, some), key=lambda row: row.seq)
        rows.add([_said(row) for row in found])
    for some in _parts(*positions):
        stored = reader.nodes(bank, some)
        nodes.update(b"".join(stored.get(position, b"") for position in some))
    return rows.value, nodes.digest()


def _parts(start: int, end: int) -> Iterator[range]:
    for at in range(start, end, _TOGETHER):
        yield range(at, min(at + _TOGETHER, end))
