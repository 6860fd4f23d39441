"""Columns compared with the log, so that none of them hides a record.

A store looks records up by columns and by its index of links, and whoever can write to it can
change them. What a read returns is verified record by record; that nothing is missing from it is
verified here:

- Standing: each row that its columns call retired, pending or held is so by the log. That costs
  one pass over three columns, once for a store that is opened or to which somebody else wrote.
  Questions whose nominees do not depend on these columns verify the rows that they meet and leave
  out for them (``require_met``), until there were so many that the pass costs less.
- Types of which the log speaks (``FOLDED``, and configurations): there are as many rows of them as
  the signed head counts, and each is logged as one. Their columns are not compared for that.
- Filters: the columns that a filter asks for are what the records' bytes say, in every
  row. To derive them again is to read everything. So this machine remembers, beside its
  witness and outside the store, a digest of each block of 256 rows whose columns it verified, and
  one of each stretch of 16 blocks, and compares that: one pass over the columns that are asked for,
  the same one as for the standing. A stretch with another digest is compared by its blocks. A block
  whose digest is another one, or unknown, is verified by its records, and remembered.

Who reads from the end of the log on, and stops, has verified the rows up to there and no others: no
edit of an earlier row can change what was read.

The digests are a cache: without them, or with others, the same is refused, only later.
"""

import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

import msgspec
from blake3 import blake3

from satchel.crypto.log import Head, VerifiedTree, record_leaf
from satchel.errors import VerificationError
from satchel.ledger.projection import FOLDED, CacheFile, Fold
from satchel.ports.links import LoggedLink
from satchel.ports.rows import CONFIG, Filter, Row
from satchel.ports.store import BLOCK_BITS, ColumnBlock, MarkedRow, Reader

_BLOCK = 1 << BLOCK_BITS
"""Rows whose columns have one digest."""

_STRETCH_BITS = BLOCK_BITS + 4
"""Of rows whose digests are compared first: a block at a time takes a fifth longer."""

_LARGE = 8192
"""Records of a bank from which on rows are verified as they are met: of fewer, all are at once."""

_MOST_MET = 64
"""Times that rows are met, and rows that are, before the standing of all is verified."""

_WORTH_KEEPING = 64
"""Rows of a block that is not full whose digest is worth being remembered."""

LINKS = "links"
"""Stands for the index of links among the names of columns."""

_TYPE = "type: "
"""With a type, stands for all records of it among the names of columns."""

_STANDING = "standing"
"""Stands for the columns that say whether a record is current; they are always due."""

_DIGEST = 16
_UNKNOWN = bytes(_DIGEST)
_FORMAT = "satchel-columns/2"
COUNTED = FOLDED | {CONFIG}
"""Types all records of which are found by their leaves, and counted by the head."""

_FEW_COUNTED = 1_000
"""Of so many records, leaves are verified rather than columns."""

_OWNERS = ("user", "agent", "run", "app", "session", "slot")
_FILTERED = frozenset({*_OWNERS, "type", "kind", "moment", "id"})
"""Columns that some filter asks for."""

_CHANGED = "The store was changed by another program. See: satchel doctor."

Digests = dict[str, dict[int, bytes]]
"""By column and block."""


def require_standing(
    marked: Sequence[MarkedRow], head: Head, fold: Fold, tree: VerifiedTree
) -> None:
    """Require that no row is called retired, pending or held for which the log gives no reason.

    Raises:
        VerificationError: Naming the first that is.
    """
    if not marked:
        return
    tree.require(
        {row.seq: record_leaf(head.bank, row.seq, row.type, row.id, row.at) for row in marked}
    )
    for row in marked:
        if fold.standing(row.id, row.seq, head.size) != (row.retired, row.hold):
            raise VerificationError(
                f"the store hides record {row.seq}, but the log does not", hint=_CHANGED
            )


def columns_of(wanted: Filter) -> frozenset[str]:
    """Return the columns that decide what a filter finds, but for the standing of records."""
    names = {name for name in _OWNERS if getattr(wanted, name) is not None}
    if wanted.types is not None and not wanted.types <= COUNTED:
        names.add("type")
    if wanted.kinds is not None:
        names.add("kind")
    if wanted.since is not None or wanted.until is not None:
        names.add("moment")
    return frozenset(names)


class Stored(Protocol):
    """A bank, as ``ledger.proved`` reads it."""

    @property
    def head(self) -> Head:
        """The head that everything here is verified by."""
        ...

    def column_blocks(
        self,
        names: Sequence[str],
        first: int,
        end: int | None,
        *,
        bits: int = BLOCK_BITS,
        marked: bool = True,
    ) -> Iterable[ColumnBlock]:
        """Return columns of rows as they are stored, see ``Reader.column_blocks``."""
        ...

    def require_standing(self, marked: Sequence[MarkedRow]) -> None:
        """Require that the log calls these rows what their columns call them."""
        ...

    def require_counted(self, types: frozenset[str]) -> None:
        """Require that all records of types are there, by their leaves and the head's counts."""
        ...

    def stored_links(self) -> Iterable[LoggedLink]:
        """Return the index of links as it is stored."""
        ...

    def verified_columns(self, places: Sequence[int]) -> list[Row]:
        """Return the rows at positions, derived from their records, if the store has the same."""
        ...


class VerifiedColumns:
    """The columns of one bank, as far as they were verified.

    Args:
        bank: Its id.
        path: The file in which digests are remembered, outside the store; None for not at all.
    """

    def __init__(self, bank: str, path: Path | None) -> None:
        self._bank = bank
        self._file = CacheFile(path)
        self._local = threading.local()
        self._lock = threading.Lock()
        self._known: tuple[int, _Known] | None = None

    def require(
        self,
        view: Stored,
        names: frozenset[str],
        stamp: int,
        *,
        first: int = 0,
        standing: bool = True,
    ) -> None:
        """Require that columns of rows are what the records say, and their standing the log's.

        Args:
            view: The bank.
            names: Names of columns of ``Row``, or ``LINKS``, for which ``first`` has to be 0.
            stamp: What the store's is in this view.
            first: Position of the first row; none before it are verified, but for its block.
            standing: False where the standing of rows is verified as they are met.

        Raises:
            VerificationError: Naming the first row whose columns are not.
            StoreError: If columns hold what they cannot.
        """
        verified, size = self._verified(stamp), view.head.size
        due: dict[range, list[str]] = defaultdict(list)
        first = min(first, size) >> BLOCK_BITS << BLOCK_BITS
        for name in sorted({*names, _STANDING} if standing else names):
            before = verified.get(name)
            if before is None:
                due[range(first, size)].append(name)
                continue
            if first < before.start:
                due[range(first, before.start)].append(name)
            if before.stop < size:
                due[range(before.stop, size)].append(name)
        for places, columns in due.items():
            self._compare(view, columns, places)
            for name in columns:
                before = verified.get(name, places)
                start, stop = min(before.start, places.start), max(before.stop, places.stop)
                verified[name] = range(start, stop)

    def is_sparing(self, view: Stored, stamp: int) -> bool:
        """Tell whether the standing of all rows is not verified, and need not be yet.

        Whoever leaves rows out for what their columns call them then has to ``require_met`` them.
        """
        verified, size = self._verified(stamp).get(_STANDING), view.head.size
        is_verified = verified is not None and not verified.start and verified.stop >= size
        return size >= _LARGE and not is_verified and self._local.met < _MOST_MET

    def require_met(self, view: Stored, marked: Sequence[MarkedRow], stamp: int) -> None:
        """Require the standing of rows that a question met, or of all where these are many.

        Raises:
            VerificationError: If the log does not call a row what its columns call it.
        """
        if self.is_sparing(view, stamp) and len(marked) <= _MOST_MET:
            self._local.met += 1 + len(marked)
            view.require_standing(marked)
        else:
            self.require(view, frozenset(), stamp)

    def require_types(
        self, view: Stored, types: frozenset[str], stamp: int, *, first: int = 0
    ) -> None:
        """Require that no record of types of which the log speaks is hidden.

        Args:
            view: The bank.
            types: Of ``COUNTED``.
            stamp: What the store's is in this view.
            first: Position from which on; those before it may be.

        Raises:
            VerificationError: If one is.
        """
        verified, size = self._verified(stamp), view.head.size
        whole = range(size)
        due = frozenset(name for name in types if verified.get(_TYPE + name) != whole)
        if not due:
            return
        few = sum(view.head.counts.get(name, 0) for name in due) <= _FEW_COUNTED
        if first and not few:
            self.require(view, frozenset({"type"}), stamp, first=first)
        else:
            view.require_counted(due)
            verified.update(dict.fromkeys((_TYPE + name for name in due), whole))

    def require_standing(
        self, reader: Reader, head: Head, fold: Fold, tree: VerifiedTree, stamp: int
    ) -> None:
        """Require what ``require`` does of the standing, before something is written."""
        verified = self._verified(stamp)
        before = verified.get(_STANDING)
        if before is None or before.start:
            blocks = reader.column_blocks(head.bank, (), first=0)
            require_standing([row for block in blocks for row in block.marked], head, fold, tree)
            verified[_STANDING] = range(head.size)

    def _verified(self, stamp: int) -> dict[str, range]:
        """Return which rows were verified of each column since somebody else wrote."""
        if getattr(self._local, "stamp", None) != stamp:
            self._local.stamp, self._local.verified, self._local.met = stamp, {}, 0
        verified: dict[str, range] = self._local.verified
        return verified

    def _compare(self, view: Stored, names: Sequence[str], places: range) -> None:
        """Compare columns of rows; what is in the block before the first was verified before."""
        if names == [_STANDING]:
            end = None if places.stop == view.head.size else places.stop >> BLOCK_BITS
            blocks = view.column_blocks((), places.start >> BLOCK_BITS, end)
            view.require_standing([row for block in blocks for row in block.marked])
            return
        with self._lock:
            self._compare_rows(view, names, places)

    def _compare_rows(self, view: Stored, names: Sequence[str], compared: range) -> None:
        known = self._remembered(view.head.epoch)
        asked = {name for name in names if name not in (LINKS, _STANDING)}
        # Who reads the records of a block has verified all of its columns.
        lacks = _lacks(known.blocks, asked, compared)
        comparing = _Comparing(
            view=view,
            known=known,
            asked=asked,
            columns=sorted(asked | _FILTERED) if lacks else sorted(asked),
            links=_links(view) if LINKS in names else None,
            marked=[] if _STANDING in names else None,
        )
        is_new = comparing.compare(compared)
        if comparing.marked is not None:
            view.require_standing(comparing.marked)
        if is_new:
            self._write(view.head.epoch, known)

    def _remembered(self, epoch: int) -> "_Known":
        if self._known is None or self._known[0] != epoch:
            self._known = (epoch, self._read(epoch))
        return self._known[1]

    def _read(self, epoch: int) -> "_Known":
        """Return what is remembered; of an earlier epoch nothing, since its log may be another."""
        kept = self._file.read(_Remembered)
        said = None if kept is None else (kept.format, kept.bank, kept.epoch)
        if kept is None or said != (_FORMAT, self._bank, epoch):
            return _Known(defaultdict(dict), defaultdict(dict))
        return _Known(_unpacked(kept.digests), _unpacked(kept.stretches))

    def _write(self, epoch: int, known: "_Known") -> None:
        self._file.write(
            _Remembered(
                format=_FORMAT,
                bank=self._bank,
                epoch=epoch,
                digests=_packed(known.blocks),
                stretches=_packed(known.stretches),
            )
        )


class _Known(NamedTuple):
    """The digests of columns that were verified."""

    blocks: Digests
    stretches: Digests
    """Of full ones, by the position of their first row without its lowest bits."""


class _Remembered(msgspec.Struct, frozen=True, kw_only=True):
    format: str
    bank: str
    epoch: int
    digests: dict[str, bytes]
    stretches: dict[str, bytes] = {}


class _Block(NamedTuple):
    """Consecutive rows."""

    number: int
    places: range
    digests: dict[str, bytes]
    """Of its columns; nothing where other rows are there than there should be."""

    @property
    def is_full(self) -> bool:
        return len(self.places) == _BLOCK


@dataclass(frozen=True, slots=True, kw_only=True)
class _Comparing:
    """One comparison of columns with what the records say."""

    view: Stored
    known: _Known
    asked: set[str]
    """Columns that have to be right."""

    columns: list[str]
    """Those that are remembered, where records are read for it."""

    links: dict[int, list[LoggedLink]] | None
    """The index of links by block, where it has to be right."""

    marked: list[MarkedRow] | None
    """Takes the rows that are marked; None where they do not matter."""

    def compare(self, compared: range) -> bool:
        """Compare rows, and tell whether something was verified that is worth remembering."""
        whole = range(-(-compared.start >> _STRETCH_BITS), compared.stop >> _STRETCH_BITS)
        if self.links is not None or not whole:
            is_new, _ = self._compare_blocks(compared, self.marked)
            self._require_no_more_links()
            return is_new
        start, stop = whole.start << _STRETCH_BITS, whole.stop << _STRETCH_BITS
        stretches = self._blocks(range(start, stop), self.marked, _STRETCH_BITS)
        changed = [one for one in stretches if not self._is_known(self.known.stretches, one)]
        for stretch in changed:
            _, right = self._compare_blocks(stretch.places, None)
            for name in right:
                if stretch.digests[name]:
                    self.known.stretches[name][stretch.number] = stretch.digests[name]
        is_new = bool(changed)
        for rest in (range(compared.start, start), range(stop, compared.stop)):
            if rest:
                is_new |= self._compare_blocks(rest, self.marked)[0]
        return is_new

    def _compare_blocks(
        self, compared: range, marked: list[MarkedRow] | None
    ) -> tuple[bool, set[str]]:
        """Compare rows by blocks of them.

        Returns:
            Whether something was verified that is worth remembering, and the columns of which the
            digests of all blocks are those that are remembered.
        """
        is_new, right = False, set(self.columns)
        for block in self._blocks(compared, marked, BLOCK_BITS):
            if not self._is_known(self.known.blocks, block):
                is_new |= self._verify(block, compared.start)
            right &= {name for name in right if self._knows(self.known.blocks, block, name)}
        return is_new, right

    def _verify(self, block: _Block, first: int) -> bool:
        """Verify the rows of a block by their records; tell whether its digests are remembered."""
        places = range(max(block.places.start, first), block.places.stop)
        own = self.view.verified_columns(places)
        if self.links is not None:
            _require_links(self.links[block.number], own, places)
        if not block.is_full and len(places) < _WORTH_KEEPING:
            return False
        for name, digest in block.digests.items():
            # Of rows before the first, the other columns may never have been looked at.
            if digest and (places == block.places or self._is_asked(name)):
                self.known.blocks[name][block.number] = digest
        return True

    def _is_known(self, digests: Digests, block: _Block) -> bool:
        return all(
            self._knows(digests, block, name) for name in block.digests if self._is_asked(name)
        )

    def _is_asked(self, name: str) -> bool:
        return name in self.asked or name == LINKS

    def _knows(self, digests: Digests, block: _Block, name: str) -> bool:
        return digests[name].get(block.number) == block.digests[name]

    def _require_no_more_links(self) -> None:
        size = self.view.head.size
        for found in (self.links or {}).values():
            if any(linked.place >= size for linked in found):
                raise VerificationError(
                    "the index has links of records beyond the log", hint=_CHANGED
                )

    def _blocks(
        self, compared: range, marked: list[MarkedRow] | None, bits: int
    ) -> Iterator[_Block]:
        """Yield the blocks of rows; a row that is missing makes its block another one.

        Args:
            compared: The positions of the rows; the last is at the end of a block, or of the log.
            marked: Takes the rows that are marked, also those of blocks beyond the log.
            bits: As ``Reader.column_blocks`` takes it.
        """
        names, size = self.columns, self.view.head.size
        numbers = range(compared.start >> bits, -(-compared.stop >> bits))
        end = None if compared.stop == size else numbers.stop
        stored = iter(
            self.view.column_blocks(names, numbers.start, end, bits=bits, marked=marked is not None)
        )
        found = next(stored, None)
        for number in numbers:
            places = range(number << bits, min((number + 1) << bits, size))
            digests = dict.fromkeys(names, b"")
            if found is not None and found.number == number:
                if marked is not None:
                    marked += found.marked
                there = (found.rows, found.first, found.last)
                if names and there == (len(places), places.start, places[-1]):
                    digests = dict(zip(names, map(_digest, found.values), strict=True))
                found = next(stored, None)
            if self.links is not None:
                links = sorted(self.links[number])
                digests[LINKS] = _digest(msgspec.msgpack.encode(links))
            yield _Block(number, places, digests)
        while found is not None:
            if marked is not None:
                marked += found.marked
            found = next(stored, None)


def _lacks(known: Digests, names: Iterable[str], compared: range) -> bool:
    """Tell whether a full block of these rows has no digest of one of these columns."""
    full = range(compared.start >> BLOCK_BITS, compared.stop >> BLOCK_BITS)
    return any(number not in known[name] for name in names for number in full)


def _links(view: Stored) -> dict[int, list[LoggedLink]]:
    found: dict[int, list[LoggedLink]] = defaultdict(list)
    for linked in view.stored_links():
        found[linked.place >> BLOCK_BITS].append(linked)
    return found


def _require_links(indexed: Sequence[LoggedLink], own: Sequence[Row], places: range) -> None:
    there = {linked for linked in indexed if linked.place >= places.start}
    if there != {LoggedLink(row.seq, link) for row in own for link in row.links}:
        raise VerificationError(
            f"the index has other links of the records {places.start} to {places.stop - 1} "
            "than their bodies have",
            hint=_CHANGED,
        )


def _digest(values: bytes) -> bytes:
    return blake3(values).digest(_DIGEST)


def _packed(digests: Digests) -> dict[str, bytes]:
    return {
        name: b"".join(found.get(number, _UNKNOWN) for number in range(max(found, default=-1) + 1))
        for name, found in digests.items()
    }


def _unpacked(packed: Mapping[str, bytes]) -> Digests:
    digests: Digests = defaultdict(dict)
    for name, joined in packed.items():
        pieces = (joined[start : start + _DIGEST] for start in range(0, len(joined), _DIGEST))
        digests[name] = {number: piece for number, piece in enumerate(pieces) if piece != _UNKNOWN}
    return digests
