"""Stores: rows, heads, blobs and vectors of many banks, in transactions.

A store judges nothing. It cuts blobs into pieces and returns the pieces; readers verify them with
``verified_pieces``, the same for every store: the last piece is released only when all of them
match the digest.
"""

import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from enum import Enum, auto
from pathlib import Path
from typing import NamedTuple, Protocol, runtime_checkable

from blake3 import blake3

from satchel.crypto.sealed_records import PREFIX
from satchel.errors import VerificationError
from satchel.ports.links import LoggedLink
from satchel.ports.rows import Filter, Row
from satchel.ports.vectors import Vectors, VectorsWriter

PIECE_BYTES = 1 << 20
"""The size of each piece of a blob but the last, which may be smaller."""


class BlobPieces:
    """A stream, cut into pieces of one size and hashed.

    Args:
        chunks: The bytes, in chunks of any size.
    """

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = chunks
        self._hasher = blake3()
        self.size = 0
        """Bytes so far."""

    @property
    def digest(self) -> str:
        """``blake3:`` and the hash of the bytes so far."""
        return PREFIX + self._hasher.hexdigest()

    def __iter__(self) -> Iterator[bytes]:
        held = bytearray()
        for chunk in self._chunks:
            rest = memoryview(chunk)
            while len(held) + len(rest) >= PIECE_BYTES:
                room = PIECE_BYTES - len(held)
                yield self._passed(bytes(held + rest[:room]))
                held.clear()
                rest = rest[room:]
            held += rest
        if held:
            yield self._passed(bytes(held))

    def _passed(self, piece: bytes) -> bytes:
        self._hasher.update(piece)
        self.size += len(piece)
        return piece


class Blobs(Protocol):
    """Reads the blobs of a store.

    Every method raises ``UnknownBankError`` for an unknown bank.
    """

    def listed(self, bank: str) -> Iterator[tuple[str, int]]:
        """Yield the digest and the size in bytes of each blob of a bank, by digest."""
        ...

    def has(self, bank: str, digest: str) -> bool:
        """Return whether the bank has a blob."""
        ...

    def get(self, bank: str, digest: str) -> Iterator[bytes]:
        """Yield the stored pieces of a blob, unverified.

        Raises:
            UnknownBlobError: If the bank has no such blob; raised by the call, not by the
                iteration.
        """
        ...


class BlobsWriter(Blobs, Protocol):
    """Writes the blobs of a store, within a transaction."""

    def put(self, bank: str, chunks: Iterable[bytes]) -> str:
        """Store a blob and return its digest; an existing one is replaced.

        Takes memory for a few pieces. If it fails, or ``chunks`` does, the transaction has nothing
        of the blob.
        """
        ...

    def drop(self, bank: str, digest: str) -> None:
        """Remove a blob, if the bank has it."""
        ...


def verified_pieces(pieces: Iterable[bytes], digest: str) -> Iterator[bytes]:
    """Yield the pieces of a blob, the last one only if all of them match the digest.

    So iteration that ends without an error returned the right bytes; after an error, discard what
    was returned before.

    Args:
        pieces: The pieces as stored.
        digest: ``blake3:`` and the hash of the whole.

    Raises:
        VerificationError: If a byte was changed, or a piece is missing, moved or added.
    """
    hasher, held = blake3(), b""
    for piece in filter(None, pieces):  # an empty one would release the last piece
        if held:
            yield held
        hasher.update(piece)
        held = piece
    if PREFIX + hasher.hexdigest() != digest:
        raise VerificationError(
            f"the blob {digest} does not match its digest",
            hint="The store was changed by another program. Store it again from its source.",
        )
    if held:
        yield held


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreTraits:
    """The capabilities of a store; the conformance suite checks every claim."""

    durable: bool = True
    """Whether commits survive a crash and a power failure."""

    full_text: bool = False
    """Whether ``candidates`` searches words; without it nothing is nominated."""

    vectors: bool = False
    """Whether ``vectors`` works; without it nothing can be stored there."""

    traversal: bool = False
    """Whether its views are ``LinkedView``."""

    concurrent_writers: bool = False
    """Whether several processes may write."""

    raw_copy: bool = False
    """Whether it can be copied while it is used."""


Progress = Callable[[int, int], None]
"""Called with the amount done and the total, in a unit of the store."""


class StoredHead(NamedTuple):
    """The newest head of a bank, as stored."""

    signed: bytes
    """Canonical JSON of the signed head (docs/spec/5-log.md)."""

    peaks: bytes
    """The hashes of the perfect subtrees, 32 bytes each, largest first."""


class ColumnChange(NamedTuple):
    """New values of the mutable columns of a row."""

    seq: int
    """Log position of the row."""

    retired: int | None
    hold: bool


class MarkedRow(NamedTuple):
    """A row that is not current or is in quarantine, by its columns."""

    seq: int
    id: str
    type: str
    at: str
    retired: int | None
    hold: bool


BLOCK_BITS = 8
"""Log positions that differ in this many lowest bits are a block, by default."""


class ColumnBlock(NamedTuple):
    """Columns of one block of rows, as they are stored."""

    number: int
    """The common high bits of the positions."""

    rows: int
    """The number of rows."""

    first: int
    """The lowest position."""

    last: int
    """The highest position."""

    values: tuple[bytes, ...]
    """For each requested column, bytes that differ when a value of it differs."""

    marked: list[MarkedRow]
    """The rows that are retired, pending or held, by their columns."""


class RetiredFilter(Enum):
    """Selects rows of a range by ``retired``."""

    CURRENT = auto()
    RETIRED = auto()
    PENDING = auto()


class RangeChange(NamedTuple):
    """One change to a range of rows, such as those of an import."""

    first: int
    """Log position of the first row."""

    last: int
    """Log position of the last row; may be beyond the end of the log."""

    was: RetiredFilter | None
    """The rows whose ``retired`` changes; None for none."""

    retired: int | None = None
    hold: bool | None = None
    """The new ``hold`` of all rows; None to leave it unchanged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """The changes of one transaction."""

    rows: Sequence[Row]
    """New rows, in log order, without gaps, after the existing rows.

    An import whose source record is known last leaves gaps, which a later commit of the same
    transaction fills. Until then the bank is not read.
    """

    nodes: Sequence[bytes]
    """Tree nodes by position, after the existing ones; none where rows have gaps or fill them: then
    ``Writer.put_nodes`` stores them."""

    head: StoredHead
    changes: Sequence[ColumnChange] = ()
    """Applied first, after sweeps that retire: rows that cease to be current before rows that
    become current."""

    sweeps: Sequence[RangeChange] = ()
    """Applied next, in order, before rows are added."""

    erased: Sequence[int] = ()
    """Log positions of rows to erase, next, before rows are added: bytes, words, links and vectors
    are removed, also from the index rows of other records. ``Row.erased`` remains."""

    replaced: Sequence[Row] = ()
    """Rows that replace some of the erased ones, next."""

    side: Mapping[str, bytes | None] = field(default_factory=dict)
    """Unlogged values to set in the same transaction; None removes one."""


class Reader(Protocol):
    """A consistent view of a store: later commits are not visible."""

    def stamp(self) -> int:
        """Return a number that changes when another program or object wrote to the store.

        It may change more often than that.
        """
        ...

    def banks(self, start: str = "", *, limit: int | None = None) -> list[str]:
        """Return the IDs of the banks that have a head, sorted.

        Args:
            start: Prefix of the IDs: ASCII without NUL.
            limit: How many at most; None for all.
        """
        ...

    def named(self, fragment: bytes) -> list[str]:
        """Return the IDs of the banks that have a head and may have a name, sorted.

        These are the banks in whose first row, or in a row of type ``config``, the body contains
        some bytes. Like any column, it is unverified; the caller decides.

        Args:
            fragment: What ``ports.rows.bank_name_bytes`` returns for the name.
        """
        ...

    def begun(self) -> list[str]:
        """Return the IDs of the banks whose head is empty, sorted.

        They are being copied from another store (``replication``).
        """
        ...

    def head(self, bank: str) -> StoredHead | None:
        """Return the newest head of a bank, or None for an unknown bank."""
        ...

    def counts(self, bank: str) -> dict[str, int]:
        """Return the number of rows of each type, counted."""
        ...

    def nodes(self, bank: str, positions: Sequence[int]) -> dict[int, bytes]:
        """Return the tree nodes at positions; missing ones are omitted."""
        ...

    def get(self, bank: str, ids: Sequence[str]) -> list[Row]:
        """Return the rows with these IDs, in no order; missing ones are omitted."""
        ...

    def ids(self, bank: str, digits: str, *, limit: int) -> list[str]:
        """Return the IDs whose hash starts with hexadecimal digits, sorted, up to ``limit``.

        Without digits, any ID matches; invalid digits (capitals too) match none.
        """
        ...

    def at(self, bank: str, places: Sequence[int]) -> list[Row]:
        """Return the rows at log positions, in no order; missing ones are omitted."""
        ...

    def scan(
        self, bank: str, where: Filter, *, after: int = -1, newest_first: bool = False
    ) -> Iterator[Row]:
        """Yield the rows after a log position that a filter nominates.

        In log order, or newest first.
        """
        ...

    def column_blocks(
        self,
        bank: str,
        names: Sequence[str],
        *,
        first: int,
        end: int | None = None,
        bits: int = BLOCK_BITS,
        marked: bool = True,
    ) -> Iterable[ColumnBlock]:
        """Return some columns of all rows as they are stored, in one pass and in order.

        Values have any form that is fast: they are only compared with what the same store returned
        before.

        Args:
            bank: The bank.
            names: Columns of ``Row``; without any, blocks have marked rows only.
            first: The number of the block to start at.
            end: The number of the block to stop before; None for all blocks.
            bits: The number of lowest bits of positions in which the rows of a block differ.
            marked: Whether to return marked rows. Without, blocks may have none: faster.

        Raises:
            StoreError: If a marked row belongs to another bank.
        """
        ...

    def every_link(self, bank: str) -> Iterable[LoggedLink]:
        """Return all links of a bank in the index of links, in no order."""
        ...

    def current(self, bank: str, slot: str) -> Row | None:
        """Return the current row of a slot."""
        ...

    def neighbors(self, bank: str, end: str, *, incoming: bool) -> Iterator[Row]:
        """Yield the rows with a link that starts (or, incoming, ends) at a record's ID.

        A link is an edge, or an entry's reference to a parent.
        """
        ...

    def candidates(
        self,
        bank: str,
        text: str,
        *,
        limit: int,
        where: Filter | None = None,
        without: Sequence[tuple[int, int]] = (),
    ) -> list[tuple[int, float]]:
        """Return log positions of current rows whose text may match, best first, with a score.

        Common words nominate nothing if the query has rarer ones (``stores.text_search``). Fewer
        than ``limit`` results are all that the words nominate, unless they are in very many rows.

        Args:
            bank: The bank.
            text: Words.
            limit: How many at most.
            where: Drops rows that do not match; which words are common does not depend on it. None
                includes rows in quarantine.
            without: First and last log positions of ranges to skip.
        """
        ...

    def side(self, bank: str, prefix: str = "") -> dict[str, bytes]:
        """Return unlogged values by name."""
        ...

    def is_indexed(self, bank: str, row: Row) -> bool:
        """Return whether a row is indexed by its links and words; slow, for an examination.

        Args:
            bank: The bank.
            row: With its words and links, as ``derive_row`` returns it.
        """
        ...

    def misindexed(self, bank: str, rows: Sequence[Row]) -> list[int]:
        """Return the log positions of rows that the indexes of IDs, words or slots have wrong.

        For many rows: faster than ``is_indexed``, and as thorough as the index permits.

        Args:
            bank: The bank.
            rows: Consecutive rows, with their words, as ``derive_row`` returns them.
        """
        ...

    def word_positions(self, bank: str) -> Iterable[int]:
        """Return the log positions of the rows in the index of words."""
        ...

    def orphans(self) -> list[str]:
        """Return sentences on rows that belong to no bank, generation or file.

        One for each kind, such as "there are vectors that belong to no generation". Nothing reads
        such rows.
        """
        ...

    @property
    def vectors(self) -> Vectors:
        """The vectors of records, beside the log."""
        ...

    @property
    def blobs(self) -> Blobs:
        """Bytes of any size, beside the log."""
        ...


@runtime_checkable
class UnfilteredSearch(Protocol):
    """A view of a store whose words nominate rows of any state.

    ``Reader.candidates`` ignores ``retired`` and ``hold`` there unless a filter needs them, so an
    edit of them hides nothing. The columns of nominated rows can be verified.
    """

    words_apart: bool
    """Always true."""


class RowsDigest:
    """A digest of rows: of IDs, types, arrival times, lengths and bodies, hashed separately.

    So it does not depend on the size of batches.
    """

    def __init__(self) -> None:
        self._columns = tuple(blake3() for _ in range(5))

    def add(self, rows: Sequence[tuple[str, str, str, bytes | None]]) -> None:
        """Add the id, the type, the arrival and the body of some rows."""
        if rows:
            self.add_columns(*zip(*rows, strict=True))

    def add_columns(
        self,
        ids: Iterable[str],
        types: Iterable[str],
        ats: Iterable[str],
        bodies: Sequence[bytes | None],
    ) -> None:
        """Add the ids, the types, the arrivals and the bodies of some rows."""
        for column, texts in zip(self._columns, (ids, types, ats), strict=False):
            column.update("\n".join((*texts, "")).encode())
        whole = [body or b"" for body in bodies]
        self._columns[3].update(" ".join((*map(str, map(len, whole)), "")).encode())
        self._columns[4].update(b"".join(whole))

    @property
    def value(self) -> bytes:
        """The digest of all of them."""
        return blake3(b"".join(column.digest() for column in self._columns)).digest()


@runtime_checkable
class DigestReader(Protocol):
    """A reader that hashes a range of a log without returning its rows."""

    def digest(
        self, bank: str, places: tuple[int, int], nodes: tuple[int, int]
    ) -> tuple[bytes, bytes]:
        """Return the value of ``RowsDigest`` of rows, and a BLAKE3 digest of tree nodes.

        Args:
            bank: The bank.
            places: The first log position, and the one after the last.
            nodes: The first node position, and the one after the last.
        """
        ...


class Writer(Reader, Protocol):
    """A view with exclusive write access."""

    def append(self, bank: str, commit: Commit) -> None:
        """Append to a bank's log, or create it; durable when the transaction has ended.

        Raises:
            SlotTakenError: If a current row has the slot of a new one already.
        """
        ...

    def remove(self, bank: str) -> None:
        """Remove a bank, if it exists, with all of its data."""
        ...

    def rewrite(self, bank: str, rows: Iterable[Row]) -> None:
        """Replace rows at their log positions, indexes included, as a repair.

        The vectors of a row without a body are removed.
        """
        ...

    def put_nodes(self, bank: str, first: int, nodes: Sequence[bytes]) -> None:
        """Replace tree nodes from a position on, as a repair."""
        ...

    def put_side(self, bank: str, values: Mapping[str, bytes | None]) -> None:
        """Set unlogged values, or remove them."""
        ...

    @property
    def vectors(self) -> VectorsWriter:
        """The vectors of records, beside the log."""
        ...

    @property
    def blobs(self) -> BlobsWriter:
        """Bytes of any size, beside the log."""
        ...


@runtime_checkable
class Store(Protocol):
    """A database of banks."""

    traits: StoreTraits
    name: str
    """Its name for errors: a path or address, without secrets."""

    def reading(self) -> AbstractContextManager[Reader]:
        """Open a consistent view.

        Raises:
            StoreError: If it cannot be read.
        """
        ...

    def writing(self) -> AbstractContextManager[Writer]:
        """Open a write transaction, one at a time over all processes.

        It is committed when the block ends without an error, and only then.

        Raises:
            StoreBusyError: If another writer does not finish in time.
            StoreError: If it cannot be written; the block is rolled back.
        """
        ...

    def scrub(self) -> None:
        """Remove the remains of erased bytes from the files of the engine.

        Until then they may be in free pages, logs and indexes. Takes time and space for the whole
        store; results of queries do not change.

        Raises:
            StoreBusyError: If another reader or writer does not finish in time.
            StoreError: If it cannot be written; run it again.
            UsageError: Within a block of the same thread.
        """
        ...

    def check(self) -> list[str]:
        """Return the problems of the files themselves, not of records."""
        ...

    def close(self) -> None:
        """Close files and connections."""
        ...


@runtime_checkable
class RawCopyStore(Protocol):
    """A store that can be copied while it is used; see ``StoreTraits.raw_copy``."""

    def copy_to(self, path: Path, *, progress: Progress | None = None) -> None:
        """Copy the store to a new place, as of one moment.

        Others may read and write in the meantime. The copy is whole and durable, or does not exist.
        Within a view of the same thread, its moment is copied.

        Raises:
            TargetExistsError: If the place exists.
            TargetError: If it cannot be written; nothing remains of it.
        """
        ...


class Extent(NamedTuple):
    """Raw bytes of a store, usually a file."""

    name: str
    """Its name: a path or the like, without secrets."""

    pieces: Callable[[], Iterator[bytes]]
    """Returns its bytes in pieces, in order; none if it no longer exists."""


@runtime_checkable
class InspectableStore(Protocol):
    """A store whose raw bytes can be scanned, below its own interface."""

    def laid_open(self) -> Iterator[Extent]:
        """Yield all that has bytes of it on this machine: files, logs, indexes, copies.

        Raises:
            StoreError: If it cannot be read.
        """
        ...

    def out_of_reach(self) -> list[str]:
        """Return, in words, where it or its engine may have bytes that cannot be scanned."""
        ...


_PIECE = 1 << 20


def below(folder: Path) -> Iterator[Extent]:
    """Yield the files in a folder and those below it; links are not followed."""
    for path in sorted(folder.rglob("*")) if folder.is_dir() else ():
        if is_plain(path):
            yield file_extent(path)


def beside(path: Path) -> Iterator[Extent]:
    """Yield a file, and those beside it whose names begin with its name."""
    for other in sorted(path.parent.iterdir()) if path.parent.is_dir() else ():
        if other.name.startswith(path.name) and is_plain(other):
            yield file_extent(other)


def is_plain(path: Path) -> bool:
    """Return whether a path is a regular file: no link, pipe or device."""
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        return False


def file_extent(path: Path) -> Extent:
    """Return the extent of a file."""

    def pieces() -> Iterator[bytes]:
        with suppress(FileNotFoundError):
            handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            with os.fdopen(handle, "rb") as stream:
                while piece := stream.read(_PIECE):
                    yield piece

    return Extent(str(path), pieces)
