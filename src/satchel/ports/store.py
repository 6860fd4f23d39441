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
"""A store keeps and gives back no larger piece; every one but the last of a blob has this size."""


class BlobPieces:
    """A stream cut into pieces of one size, and hashed as it passes.

    Args:
        chunks: The bytes, cut in whatever way.
    """

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = chunks
        self._hasher = blake3()
        self.size = 0
        """Bytes that have passed."""

    @property
    def digest(self) -> str:
        """``blake3:`` and the hash of what has passed."""
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
    """The blobs of a store, for reading.

    Every method raises ``UnknownBankError`` for a bank that is not here.
    """

    def listed(self, bank: str) -> Iterator[tuple[str, int]]:
        """Yield the digest and the size in bytes of each blob of a bank, by digest."""
        ...

    def has(self, bank: str, digest: str) -> bool:
        """Tell whether a blob is there."""
        ...

    def get(self, bank: str, digest: str) -> Iterator[bytes]:
        """Yield the pieces of a blob, as they are kept: nothing says yet that they are right.

        Raises:
            UnknownBlobError: If it is not there, before the first piece is asked for.
        """
        ...


class BlobsWriter(Blobs, Protocol):
    """The blobs of a store, for the one who may write; committed with the block around."""

    def put(self, bank: str, chunks: Iterable[bytes]) -> str:
        """Keep bytes, and return ``blake3:`` and their hash; one that is there is replaced.

        Takes memory for a few pieces, however much comes. When it fails, also because ``chunks``
        does, nothing of it is left in the transaction.
        """
        ...

    def drop(self, bank: str, digest: str) -> None:
        """Remove a blob, where it is there."""
        ...


def verified_pieces(pieces: Iterable[bytes], digest: str) -> Iterator[bytes]:
    """Yield the pieces of a blob; the last one only when all of them have the digest.

    So whoever got to the end without an error has the right bytes, and whoever keeps what he gets
    in the meantime has to let go of it after one.

    Args:
        pieces: What a store gives.
        digest: ``blake3:`` and the hash of the whole.

    Raises:
        VerificationError: If a byte was changed, or a piece is missing, moved or added.
    """
    hasher, held = blake3(), b""
    for piece in filter(None, pieces):  # an empty one would let go of the last
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
    """What a store can do; every claim is checked by the conformance suite."""

    durable: bool = True
    """Whether what was committed survives the process and the power."""

    full_text: bool = False
    """Whether ``candidates`` finds words; without it nothing is nominated."""

    vectors: bool = False
    """Whether ``vectors`` works; without it nothing can be put there."""

    traversal: bool = False
    """Whether its views are ``ports.traversal.Walked``."""

    concurrent_writers: bool = False
    """Whether several processes may write."""

    raw_copy: bool = False
    """Whether it is a ``RawCopied``: a copy can be taken while it is used."""


Progress = Callable[[int, int], None]
"""Is told how much is done, and of how much, in a unit of the store's own."""


class StoredHead(NamedTuple):
    """The newest head of a bank, as kept."""

    signed: bytes
    """Canonical JSON of the signed head (docs/spec/5-log.md)."""

    peaks: bytes
    """The hashes of the perfect subtrees, 32 bytes each, largest first."""


class ColumnChange(NamedTuple):
    """New values of the columns of one row that can change."""

    seq: int
    """Place of the row in the log."""

    retired: int | None
    hold: bool


class MarkedRow(NamedTuple):
    """A row that is not current, or is in quarantine, as the columns say."""

    seq: int
    id: str
    type: str
    at: str
    retired: int | None
    hold: bool


BLOCK_BITS = 8
"""Rows whose positions have all but so many bits in common are a block, unless others are named."""


class ColumnBlock(NamedTuple):
    """Columns of one block of rows, as they are stored."""

    number: int
    """The bits of the positions that are the same."""

    rows: int
    """How many are there."""

    first: int
    """The lowest of their positions."""

    last: int
    """The highest of their positions."""

    values: tuple[bytes, ...]
    """Of each column that was asked for, bytes that differ when a value of it differs."""

    marked: list[MarkedRow]
    """Rows that their columns call retired, pending or held."""


class RetiredFilter(Enum):
    """Which rows of a stretch are meant, by what ``retired`` says."""

    CURRENT = auto()
    RETIRED = auto()
    PENDING = auto()


class RangeChange(NamedTuple):
    """The same change to many rows: those of an import."""

    first: int
    """Place of the first row in the log."""

    last: int
    """Place of the last; it may be beyond the rows that are there."""

    was: RetiredFilter | None
    """Which of them get another ``retired``; None to leave that as it is."""

    retired: int | None = None
    hold: bool | None = None
    """What ``hold`` is to be for all of them; None to leave that as it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """What is written in one transaction."""

    rows: Sequence[Row]
    """In the order of the log, without gaps, right after the rows that are there.

    Of an import whose source record is known last, they leave gaps, which rows of a later commit
    fill before the transaction ends. Until then nobody reads the bank.
    """

    nodes: Sequence[bytes]
    """Tree nodes, in the order of their positions, right after those that are there; none where
    rows have gaps, or fill them: ``Writer.put_nodes`` has them then."""

    head: StoredHead
    changes: Sequence[ColumnChange] = ()
    """Applied first but for sweeps that retire, which come before them: rows that are no longer
    current before those that are again."""

    sweeps: Sequence[RangeChange] = ()
    """Applied then, all of them in order, before the rows are added."""

    erased: Sequence[int] = ()
    """Places of rows that are left as ``Row.erased`` gives them, after that and before the rows are
    added: bytes, words, links and vectors go, and what an index holds of them for other rows."""

    replaced: Sequence[Row] = ()
    """Rows that are put in the places of some of those that are erased, after that."""

    side: Mapping[str, bytes | None] = field(default_factory=dict)
    """Unlogged values to set in the same transaction, or to remove."""


class Reader(Protocol):
    """A consistent view of a store: nothing that is committed meanwhile is seen."""

    def stamp(self) -> int:
        """Return a number that changes when something else wrote to the store.

        Whoever wrote, and by whatever program; it may change more often than that.
        """
        ...

    def banks(self, start: str = "", *, limit: int | None = None) -> list[str]:
        """Return the ids of the banks that have a head, sorted.

        Args:
            start: What the ids begin with: ASCII, and no NUL.
            limit: How many at most; None for all.
        """
        ...

    def named(self, said: bytes) -> list[str]:
        """Return the ids of the banks that have a head and may have a name, sorted.

        These are the ones in whose first row, or in a row of type ``config``, the body has some
        bytes. It is as unproved as any column; which of them are called so is decided above.

        Args:
            said: What ``ports.rows.saying_name`` gives for the name.
        """
        ...

    def begun(self) -> list[str]:
        """Return the ids of the banks that have no head yet, sorted: their head is empty.

        They are on their way from another store (``transfer.whole_logs.copying``).
        """
        ...

    def head(self, bank: str) -> StoredHead | None:
        """Return the newest head of a bank, or None for a bank that is not here."""
        ...

    def counts(self, bank: str) -> dict[str, int]:
        """Return how many rows there are of each type, counted one by one."""
        ...

    def nodes(self, bank: str, positions: Sequence[int]) -> dict[int, bytes]:
        """Return the tree nodes at positions; those that are not there are left out."""
        ...

    def get(self, bank: str, ids: Sequence[str]) -> list[Row]:
        """Return the rows with these ids, in no order; those that are not there are left out."""
        ...

    def ids(self, bank: str, digits: str, *, limit: int) -> list[str]:
        """Return the ids whose hash starts with hexadecimal digits, sorted, and no more than asked.

        Without digits that is any id; digits that no hash has (capitals too) find none.
        """
        ...

    def at(self, bank: str, places: Sequence[int]) -> list[Row]:
        """Return the rows at these places of the log, in no order."""
        ...

    def scan(
        self, bank: str, wanted: Filter, *, after: int = -1, newest_first: bool = False
    ) -> Iterator[Row]:
        """Yield the rows that a filter nominates and that come after a place.

        In the order of the log, or from its end.
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

        Values have whatever form is the quickest: they are only compared with what the same store
        returned before.

        Args:
            bank: The bank.
            names: Columns of ``Row``; without any, blocks have nothing but marked rows.
            first: The number of the block to start at.
            end: The number of the block to stop before; None for all blocks there are.
            bits: How many of the lowest bits of their positions the rows of a block differ in.
            marked: Whether marked rows are wanted. Without, blocks may have none: that is quicker.

        Raises:
            StoreError: If a marked row that is wanted says that it is of another bank.
        """
        ...

    def every_link(self, bank: str) -> Iterable[LoggedLink]:
        """Return all links that the index of links has for a bank, in no order."""
        ...

    def current(self, bank: str, slot: str) -> Row | None:
        """Return the current row of a slot."""
        ...

    def neighbours(self, bank: str, end: str, *, incoming: bool) -> Iterator[Row]:
        """Yield the rows with a link that starts (or, incoming, ends) at a record's id.

        A link is an edge, or an entry's mention of a parent.
        """
        ...

    def candidates(
        self,
        bank: str,
        text: str,
        *,
        limit: int,
        wanted: Filter | None = None,
        without: Sequence[tuple[int, int]] = (),
    ) -> list[tuple[int, float]]:
        """Return places of current rows whose text may match, best first, with a score.

        Words that many rows have nominate none where others are rarer (``stores._driving``).
        Fewer than ``limit`` are all that the words nominate, unless they are in very many rows.

        Args:
            bank: The bank.
            text: Words.
            limit: How many at most.
            wanted: Leaves out rows that it does not nominate; what words are common does not
                depend on it. None takes those in quarantine as well.
            without: First and last places of stretches that are left out.
        """
        ...

    def side(self, bank: str, prefix: str = "") -> dict[str, bytes]:
        """Return unlogged values by name."""
        ...

    def is_indexed(self, bank: str, row: Row) -> bool:
        """Tell whether a row is found by its links and words; slow, for an examination.

        Args:
            bank: The bank.
            row: With its words and links, as ``derive_row`` returns it.
        """
        ...

    def misindexed(self, bank: str, rows: Sequence[Row]) -> list[int]:
        """Return the positions of rows that indexes of ids, words and slots have otherwise.

        For many rows at once: quicker than ``is_indexed``, and as thorough as the index lets it.

        Args:
            bank: The bank.
            rows: Some of the log that follow each other, with their words, as ``derive_row`` gives
                them.
        """
        ...

    def word_positions(self, bank: str) -> Iterable[int]:
        """Return the positions of the rows that the index of words has."""
        ...

    def orphans(self) -> list[str]:
        """Return what the tables hold that belongs to no bank, generation or file.

        Nothing reads it. One sentence for each kind, such as "there are vectors of no generation".
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
    """A view of a store whose words nominate rows whatever their columns call them.

    ``Reader.candidates`` does not look at ``retired`` and ``hold`` there, unless a filter asks for
    it, so an edit of them leaves nothing out. Of what is nominated so, the columns can be verified.
    """

    words_apart: bool
    """Always true."""


class RowsDigest:
    """A digest of rows of a log: of ids, types, arrivals, lengths and bodies, each by itself.

    So it does not depend on how many are added at a time.
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
    """A reader that hashes a stretch of a log without giving its rows out; others are read."""

    def digest(
        self, bank: str, places: tuple[int, int], nodes: tuple[int, int]
    ) -> tuple[bytes, bytes]:
        """Return the value of ``RowsDigest`` of rows, and a BLAKE3 digest of tree nodes.

        Args:
            bank: The bank.
            places: The first log position, and the one behind the last.
            nodes: The first position of a node, and the one behind the last.
        """
        ...


class Writer(Reader, Protocol):
    """A view that nobody else writes beneath, and one commit to it."""

    def append(self, bank: str, commit: Commit) -> None:
        """Add to a bank's log, or start it; it is durable when the block around it has ended.

        Raises:
            SlotTakenError: If a current row has the slot of a new one already.
        """
        ...

    def remove(self, bank: str) -> None:
        """Remove a bank, where it is there, with everything that is kept of it or beside it."""
        ...

    def rewrite(self, bank: str, rows: Iterable[Row]) -> None:
        """Replace what is kept of rows at their places, indexes included, as a repair.

        Of a row without a body nothing else is kept: its vectors go as well.
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
    """Where banks are kept."""

    traits: StoreTraits
    name: str
    """What to call it in errors: a path or address, without secrets."""

    def reading(self) -> AbstractContextManager[Reader]:
        """Give a consistent view.

        Raises:
            StoreError: If it cannot be read.
        """
        ...

    def writing(self) -> AbstractContextManager[Writer]:
        """Give the right to write, one at a time over all processes.

        What was appended is committed when the block ends without an error, and only then.

        Raises:
            StoreBusyError: If another writer does not end in time.
            StoreError: If it cannot be written; nothing of the block is kept then.
        """
        ...

    def scrub(self) -> None:
        """Rid the files of what the engine still keeps of bytes that were erased or removed.

        Until then they may be in free pages, logs and indexes. Takes time and space for all that
        is left; nothing that is asked has another answer afterwards.

        Raises:
            StoreBusyError: If somebody reads or writes and does not end in time.
            StoreError: If it cannot be written; do it again.
            UsageError: Within a block of the same thread.
        """
        ...

    def check(self) -> list[str]:
        """Return what is wrong with the files themselves; nothing of that is about records."""
        ...

    def close(self) -> None:
        """Give files and connections back."""
        ...


@runtime_checkable
class RawCopyStore(Protocol):
    """A store that can copy itself as it is; which ones do is told by their traits."""

    def copy_to(self, path: Path, *, progress: Progress | None = None) -> None:
        """Make a store of the same kind at a new place, with what was committed at one moment.

        Others may read and write meanwhile. The copy is there whole and durable, or not at all.
        Inside a block of the same thread that reads, that moment is its own.

        Raises:
            TargetExistsError: If there is something already.
            TargetError: If it cannot be written; nothing of it is left.
        """
        ...


class Extent(NamedTuple):
    """A stretch of raw bytes in which something of a store may be: a file, as a rule."""

    name: str
    """What to call it: a path or the like, without secrets."""

    pieces: Callable[[], Iterator[bytes]]
    """Gives its bytes in order, some at a time; not there any more, it gives none."""


@runtime_checkable
class InspectableStore(Protocol):
    """A store whose raw bytes can be looked through, below all that it says of itself."""

    def laid_open(self) -> Iterator[Extent]:
        """Yield everything on this side in which it has bytes: files, logs, indexes, copies kept.

        Raises:
            StoreError: If it cannot be read.
        """
        ...

    def out_of_reach(self) -> list[str]:
        """Return in words where it or its engine may have bytes that nobody here can look at."""
        ...


_PIECE = 1 << 20


def below(folder: Path) -> Iterator[Extent]:
    """Yield the files in a folder and those below it; links are not followed."""
    for path in sorted(folder.rglob("*")) if folder.is_dir() else ():
        if is_plain(path):
            yield file_extent(path)


def beside(path: Path) -> Iterator[Extent]:
    """Yield a file, and those beside it whose names go on from its own."""
    for other in sorted(path.parent.iterdir()) if path.parent.is_dir() else ():
        if other.name.startswith(path.name) and is_plain(other):
            yield file_extent(other)


def is_plain(path: Path) -> bool:
    """Tell whether there is a file: no link, pipe or device."""
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        return False


def file_extent(path: Path) -> Extent:
    """Return the bytes of a file."""

    def pieces() -> Iterator[bytes]:
        with suppress(FileNotFoundError):
            handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            with os.fdopen(handle, "rb") as stream:
                while piece := stream.read(_PIECE):
                    yield piece

    return Extent(str(path), pieces)
