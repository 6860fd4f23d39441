"""Copying a whole log to another store, in many commits, each of which a later run goes on from.

Until all of it is there and was compared, the bank has no head in the store that it goes to: its
rows are under an empty one, so nobody takes a part of it for the whole (``ports.store``,
``Reader.begun``). The peaks of the tree so far stand in that head, and a journal beside the log
says which head is being copied. The real head comes last, in the commit that ends the journal.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain

import msgspec
from blake3 import blake3

from satchel.errors import StoreBusyError, VerificationError
from satchel.ledger.heads import nodes_of
from satchel.memory.records import Model
from satchel.ports.rows import Row
from satchel.ports.store import Commit, Reader, Store, StoredHead, Writer
from satchel.seal.log import leaf_of
from satchel.seal.proved_tree import ProvedTree, grown, leaf_position
from satchel.seal.records import Sealed
from satchel.seal.tree import Frontier
from satchel.transfer.copies import Copy, own_row, tail
from satchel.transfer.whole_logs.beside import side_of
from satchel.type_info import resolved

JOURNAL = "copying"
"""Name of the side value that stands while a bank is being copied here."""

ROWS_IN_COMMIT = 4096
"""Records that are committed together, when they are not large."""

BYTES_IN_COMMIT = 8 << 20

_HASH = 32

Tell = Callable[[int], None]
"""Is told how many more records were brought, or compared."""


class Journal(msgspec.Struct, frozen=True, kw_only=True):
    """What is remembered of a copy under way, beside the rows that came so far."""

    head: str
    """Hash of the signed head that is copied; of another one, the copy begins anew."""

    done: int
    """Records that are there."""


@dataclass(frozen=True, slots=True)
class Brought:
    """How much of a log came."""

    records: int
    """Records that came now."""

    earlier: int
    """Records that an earlier run had brought."""

    anew: bool
    """Whether what an earlier run had brought was of another head, and was removed."""


@dataclass(frozen=True, slots=True)
class _Start:
    frontier: Frontier
    left: StoredHead | None
    """The head as it was left; None where nothing is there."""


def bring(source: Copy, store: Store, tell: Tell) -> Brought:
    """Bring the rows of a log to a store that has none of them, or some from an earlier run.

    Args:
        source: The copy that is read.
        store: Where it goes. The bank has no head there afterwards, either; see ``give_head``.
        tell: Told of the records.

    Raises:
        StoreBusyError: If somebody else writes the bank there at the same time.
        VerificationError: If a record is not what was logged; or if what an earlier run brought is
            no more what it was.
        StoreError: If it cannot be written; what was committed stays for a later run.
    """
    bank, anew = source.bank, False
    with store.writing() as writing:
        found = _journal(writing, bank)
        if found is not None and found.head != _mark(source):
            writing.remove(bank)
            anew, found = True, None
        start = _Start(Frontier(), writing.head(bank))
        if found is not None:
            start = _resumed(source, start.left, found)
        elif start.left is not None:
            raise _taken_over(bank, store.name)
    frontier, left, earlier = start.frontier, start.left, start.frontier.size
    tell(earlier)
    for part in _parts(tail(source, earlier)):
        rows = [own_row(row, logged, source.found.fold, source.size) for row, logged in part]
        leaves = [leaf_of(bank, row.seq, row.type, row.id, row.at) for row in rows]
        nodes = grown(frontier, leaves)
        head = StoredHead(b"", b"".join(frontier.peaks))
        journal = msgspec.json.encode(Journal(head=_mark(source), done=frontier.size))
        with store.writing() as writing:
            _require_left(writing, bank, left, store.name)
            writing.append(bank, Commit(rows=rows, nodes=nodes, head=head, side={JOURNAL: journal}))
        left = head
        tell(len(rows))
    return Brought(frontier.size - earlier, earlier, anew)


def give_head(source: Copy, store: Store) -> int:
    """End a copy: from this commit on the bank is there, with the head that was signed.

    Args:
        source: The copy that was read.
        store: Where all of it is, compared.

    Returns:
        How many unlogged values went along.
    """
    bank, values = source.bank, side_of(source.reader, source.bank)
    left = StoredHead(b"", source.found.stored.peaks)
    with store.writing() as writing:
        _require_left(writing, bank, left, store.name)
        side: dict[str, bytes | None] = {**values, JOURNAL: None}
        writing.append(bank, Commit(rows=(), nodes=(), head=source.found.stored, side=side))
    return len(values)


def compare(source: Copy, reader: Reader, tell: Tell) -> dict[str, int]:
    """Hold every row that is in another store to the head that was signed; count them by type.

    Bytes, places, times, ids, each column that follows from them, what the log says of each, and
    the nodes of the tree. The source need not be read again for that: the head speaks for it.

    Args:
        source: The copy that was read.
        reader: A view of the other store, in which the bank may have no head yet.
        tell: Told of the records.

    Raises:
        VerificationError: Naming the first place that differs.
    """
    bank, fold, counts = source.bank, source.found.fold, dict[str, int]()
    tree = ProvedTree(source.found.frontier, nodes_of(reader, bank))
    frontier = Frontier()
    for some in tail(Copy(reader, source.found, tree), 0):
        rows = [row for row, _ in some]
        for row, logged in some:
            if row.columns() != own_row(row, logged, fold, source.size).columns():
                raise _differs(f"record {row.seq} has different columns there")
            counts[row.type] = counts.get(row.type, 0) + 1
        leaves = [leaf_of(bank, row.seq, row.type, row.id, row.at) for row in rows]
        first = leaf_position(rows[0].seq)
        wanted = dict(enumerate(grown(frontier, leaves), first))
        if reader.nodes(bank, list(wanted)) != wanted:
            raise _differs(f"the tree differs there at record {rows[0].seq} or soon after")
        tell(len(rows))
    if counts != source.found.head.counts or reader.counts(bank) != counts:
        raise _differs("the record counts differ there")
    return dict(sorted(counts.items()))


def is_begun(reader: Reader, bank: str) -> int | None:
    """Return how many records of a bank came so far; None where no copy of it is under way."""
    stored = reader.head(bank)
    if stored is None or stored.signed:
        return None
    found = _journal(reader, bank)
    return found.done if found is not None else 0


def _mark(source: Copy) -> str:
    return blake3(source.found.stored.signed).hexdigest()


def _journal(reader: Reader, bank: str) -> Journal | None:
    """Return what an earlier run left, where the bank has no head yet.

    Raises:
        VerificationError: If it cannot be read.
    """
    stored = reader.head(bank)
    if stored is None or stored.signed:
        return None
    try:
        return msgspec.json.decode(
            reader.side(bank, JOURNAL).get(JOURNAL, b""), type=resolved(Journal)
        )
    except msgspec.DecodeError:
        raise _changed(bank) from None


def _resumed(source: Copy, left: StoredHead | None, found: Journal) -> _Start:
    """Return where an earlier run stopped, which the source's tree has to agree with.

    Raises:
        VerificationError: If it does not.
    """
    peaks = left.peaks if left is not None else b""
    try:
        frontier = Frontier(
            found.done, [peaks[at : at + _HASH] for at in range(0, len(peaks), _HASH)]
        )
    except ValueError:
        raise _changed(source.bank) from None
    if not 0 < found.done <= source.size or frontier.root != source.tree.root_at(found.done):
        raise _changed(source.bank)
    return _Start(frontier, left)


def _parts(
    some: Iterator[list[tuple[Row, tuple[Sealed, Model] | None]]],
) -> Iterator[list[tuple[Row, tuple[Sealed, Model] | None]]]:
    """Yield records as many at a time as one commit takes."""
    held, size = list[tuple[Row, tuple[Sealed, Model] | None]](), 0
    for one in chain.from_iterable(some):
        held.append(one)
        size += len(one[0].body or b"")
        if len(held) == ROWS_IN_COMMIT or size > BYTES_IN_COMMIT:
            yield held
            held, size = [], 0
    if held:
        yield held


def _require_left(writing: Writer, bank: str, left: StoredHead | None, name: str) -> None:
    if writing.head(bank) != left:
        raise _taken_over(bank, name)


def _taken_over(bank: str, name: str) -> StoreBusyError:
    return StoreBusyError(
        f"another process is writing the bank {bank} there",
        file=name,
        hint="Only one copy at a time; run again when the other has finished.",
    )


def _changed(bank: str) -> VerificationError:
    return VerificationError(
        f"the partial copy of the bank {bank} from an earlier run was changed",
        hint=f"Remove it and start again: satchel bank delete {bank}",
    )


def _differs(what: str) -> VerificationError:
    return VerificationError(what, hint="The copy is not used. Remove it, and copy again.")
