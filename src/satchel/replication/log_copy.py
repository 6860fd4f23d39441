"""Copying a whole log to another store, in many commits, each of which a later run goes on from.

Until all of it is there and was compared, the bank has no head in the store that it goes to: its
rows are under an empty one, so nobody takes a part of it for the whole (``ports.store``,
``Reader.begun``). The peaks of the tree so far stand in that head, and a journal beside the log
says which head is being copied. The real head comes last, in the commit that ends the journal.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain

import msgspec
from blake3 import blake3

from satchel.crypto.log import Frontier, VerifiedTree, append_leaves, leaf_position, record_leaf
from satchel.crypto.sealed_records import Sealed
from satchel.errors import StoreBusyError, VerificationError
from satchel.ledger.erasure import BLOB, UNFINISHED, blob_digests_in
from satchel.ledger.heads import node_fetcher
from satchel.model.records import Model
from satchel.model.values import resolved
from satchel.ports.rows import Filter, Row
from satchel.ports.store import Commit, Reader, Store, StoredHead, Writer, verified_pieces
from satchel.ports.vectors import Generation
from satchel.replication.copies import Replica, own_row, read_log_from

_ALL = Filter(retired=True, held=True)
_TOGETHER = 256
_NUMBERS_IN_COMMIT = 1 << 20
"""Numbers of vectors that are committed together: 8 MiB at most."""


@dataclass(slots=True)
class SideDataCounts:
    """What there is beside a log, and how much of it came now."""

    vectors: int = 0
    vectors_now: int = 0
    vectors_other: int = 0
    """Vectors that the other store has of the same generations, with other numbers."""

    blobs: int = 0
    blobs_now: int = 0


def side_of(reader: Reader, bank: str) -> dict[str, bytes]:
    """Return the unlogged values of a bank that go with it wherever it goes.

    What speaks of the place does not: which erased bytes a store's files may still hold.
    """
    found = reader.side(bank)
    return {name: value for name, value in found.items() if not name.startswith(UNFINISHED)}


def bring_beside(source: Reader, bank: str, store: Store, found: SideDataCounts) -> None:
    """Bring the vectors and blobs that a copy of a bank lacks; may be done again at will.

    What is there stays, whatever it is.

    Args:
        source: A view of where they are.
        bank: The bank, whose rows are there.
        store: Where they go.
        found: Is told.

    Raises:
        VerificationError: If a blob is not what was put there.
    """
    for generation in source.vectors.generations(bank):
        _bring_vectors(source, bank, store, generation, found)
    for digest, _ in blobs_of(source, bank):
        found.blobs += 1
        with store.reading() as reader:
            there = reader.blobs.has(bank, digest)
        if not there:
            found.blobs_now += 1
            with store.writing() as writing:
                writing.blobs.put(bank, verified_pieces(source.blobs.get(bank, digest), digest))


def require_beside(source: Reader, bank: str, reader: Reader) -> None:
    """Read what is beside a log again where it went, and compare it.

    Raises:
        VerificationError: If a vector is missing or another, or a blob is not what it was.
    """
    for generation in source.vectors.generations(bank):
        for ids in _ids(source, bank):
            wanted = source.vectors.get(bank, generation, ids)
            if reader.vectors.get(bank, generation, ids) != wanted:
                raise VerificationError("vectors are missing or differ in the copy")
    for digest, _ in blobs_of(source, bank):
        if not reader.blobs.has(bank, digest):
            raise VerificationError(f"the blob {digest} is missing in the copy")
        for _ in verified_pieces(reader.blobs.get(bank, digest), digest):
            pass


def _bring_vectors(
    source: Reader, bank: str, store: Store, generation: Generation, found: SideDataCounts
) -> None:
    held = dict[str, tuple[float, ...]]()
    for ids in _ids(source, bank):
        own = source.vectors.get(bank, generation, ids)
        if not own:
            continue
        with store.reading() as reader:
            there = reader.vectors.get(bank, generation, list(own))
        found.vectors += len(own)
        found.vectors_other += sum(own[identity] != vector for identity, vector in there.items())
        held |= {identity: vector for identity, vector in own.items() if identity not in there}
        if len(held) * generation.dimensions > _NUMBERS_IN_COMMIT:
            _put(store, bank, generation, held, found)
    _put(store, bank, generation, held, found)


def _put(
    store: Store,
    bank: str,
    generation: Generation,
    held: dict[str, tuple[float, ...]],
    found: SideDataCounts,
) -> None:
    if held:
        with store.writing() as writing:
            writing.vectors.put(bank, generation, held)
        found.vectors_now += len(held)
        held.clear()


def _ids(reader: Reader, bank: str) -> Iterator[Sequence[str]]:
    """Yield the ids of a bank's records in the order of its log, some at a time."""
    held = list[str]()
    for row in reader.scan(bank, _ALL):
        held.append(row.id)
        if len(held) == _TOGETHER:
            yield held
            held = []
    if held:
        yield held


def blobs_of(reader: Reader, bank: str) -> list[tuple[str, int]]:
    """Return the digests and sizes of a bank's blobs, without what an erasure has still to drop."""
    erased = {name.removeprefix(BLOB) for name in reader.side(bank, BLOB)}
    for row in reader.scan(bank, _ALL) if erased else ():
        erased -= blob_digests_in(row.body or b"")
    return [one for one in reader.blobs.listed(bank) if one[0] not in erased]


JOURNAL = "copying"
"""Name of the side value that stands while a bank is being copied here."""

ROWS_IN_COMMIT = 4096
"""Records that are committed together, when they are not large."""

BYTES_IN_COMMIT = 8 << 20

_HASH = 32

Tell = Callable[[int], None]
"""Is told how many more records were brought, or compared."""


class CopyJournal(msgspec.Struct, frozen=True, kw_only=True):
    """What is remembered of a copy under way, beside the rows that came so far."""

    head: str
    """Hash of the signed head that is copied; of another one, the copy begins anew."""

    done: int
    """Records that are there."""


@dataclass(frozen=True, slots=True)
class LogCopyResult:
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


def copy_log(source: Replica, store: Store, tell: Tell) -> LogCopyResult:
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
    for part in _parts(read_log_from(source, earlier)):
        rows = [own_row(row, logged, source.found.fold, source.size) for row, logged in part]
        leaves = [record_leaf(bank, row.seq, row.type, row.id, row.at) for row in rows]
        nodes = append_leaves(frontier, leaves)
        head = StoredHead(b"", b"".join(frontier.peaks))
        journal = msgspec.json.encode(CopyJournal(head=_mark(source), done=frontier.size))
        with store.writing() as writing:
            _require_left(writing, bank, left, store.name)
            writing.append(bank, Commit(rows=rows, nodes=nodes, head=head, side={JOURNAL: journal}))
        left = head
        tell(len(rows))
    return LogCopyResult(frontier.size - earlier, earlier, anew)


def give_head(source: Replica, store: Store) -> int:
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


def compare(source: Replica, reader: Reader, tell: Tell) -> dict[str, int]:
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
    tree = VerifiedTree(source.found.frontier, node_fetcher(reader, bank))
    frontier = Frontier()
    for some in read_log_from(Replica(reader, source.found, tree), 0):
        rows = [row for row, _ in some]
        for row, logged in some:
            if row.columns() != own_row(row, logged, fold, source.size).columns():
                raise _differs(f"record {row.seq} has different columns there")
            counts[row.type] = counts.get(row.type, 0) + 1
        leaves = [record_leaf(bank, row.seq, row.type, row.id, row.at) for row in rows]
        first = leaf_position(rows[0].seq)
        wanted = dict(enumerate(append_leaves(frontier, leaves), first))
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


def _mark(source: Replica) -> str:
    return blake3(source.found.stored.signed).hexdigest()


def _journal(reader: Reader, bank: str) -> CopyJournal | None:
    """Return what an earlier run left, where the bank has no head yet.

    Raises:
        VerificationError: If it cannot be read.
    """
    stored = reader.head(bank)
    if stored is None or stored.signed:
        return None
    try:
        return msgspec.json.decode(
            reader.side(bank, JOURNAL).get(JOURNAL, b""), type=resolved(CopyJournal)
        )
    except msgspec.DecodeError:
        raise _changed(bank) from None


def _resumed(source: Replica, left: StoredHead | None, found: CopyJournal) -> _Start:
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


Progress = Callable[[int, int], None]
"""Called now and then with the records done and the records there are."""


@dataclass(slots=True)
class ReplicaCheck:
    """What was found when a copy was read again."""

    records: dict[str, int] = field(default_factory=dict)
    """How many of each type, counted one by one."""

    vectors: int = 0


def read_again(source: Replica, target: Replica, progress: Progress | None = None) -> ReplicaCheck:
    """Read a copy from its first record to its last, each proved, and compare it with another.

    Raises:
        VerificationError: If it is not the same log, or a record of it is missing or not what was
            logged.
    """
    if target.found.stored != source.found.stored:
        raise VerificationError("the heads of the two copies differ")
    counts = Counter[str]()
    for some in read_log_from(target, 0):
        counts.update(row.type for row, _ in some)
        if progress is not None:
            progress(counts.total(), target.size)
    if counts != source.found.head.counts:
        raise VerificationError("the record counts of the copy differ from the signed ones")
    return ReplicaCheck(records=dict(sorted(counts.items())))


def carry_vectors(source: Reader, store: Store, bank: str, ids: list[str]) -> int:
    """Carry the vectors of records, with their generations; they are beside the log.

    Args:
        source: Where they are.
        store: Where they go; those that are there are set again.
        bank: The bank, which is in both.
        ids: Of the records, some at a time.
    """
    number = 0
    for generation in source.vectors.generations(bank):
        found = source.vectors.get(bank, generation, ids)
        if found:
            with store.writing() as writing:
                writing.vectors.put(bank, generation, found)
            number += len(found)
    return number


def vectors_lacking(source: Reader, target: Reader, bank: str) -> bool:
    """Tell whether one copy has vectors that the other lacks."""
    there = target.vectors.generations(bank)
    own = source.vectors.generations(bank)
    return any(there.get(generation, 0) < number for generation, number in own.items())
