"""Comparison of a store's columns with the log, so that no column hides a record.

A store finds records by its columns and its index of links, and a program that can write to the
store can change these. What a read returns is verified record by record; this module verifies that
nothing is missing from it:

- Standing: each row that its columns mark as retired, pending or withheld is in that state
  according to the log. That costs one pass over three columns, once for each store that is opened
  or that another program wrote to. Queries whose nominees do not depend on these columns verify
  the rows that they skip because of them (``require_met``), until that would cost more than a pass.
- Types that change the state of other records (``FOLDED``, and configurations): there are as many
  rows of each as the signed head counts, and each is logged as one. Their columns are not compared.
- Filters: the columns that a filter uses are what the records' bytes say, in every row. Deriving
  them reads everything. So this machine caches, beside its witness and outside the store, a digest
  of each block of 256 rows whose columns it verified, and one of each stretch of 16 blocks, and
  compares these: one pass over the requested columns, combined with that for the standing. A
  stretch with another digest is compared by its blocks. A block with another or no digest is
  verified by its records, and cached.

A reader that reads backwards from the end of the log and stops has verified the rows up to there
and no others: an edit of an earlier row cannot change what was read.

The digests are a cache: without them the same stores are refused, only later.
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
"""Rows in a block, which has one digest for each column."""

_STRETCH_BITS = BLOCK_BITS + 4
"""Rows in a stretch, as a power of two: comparing block by block takes a fifth longer."""

_LARGE = 8192
"""Records in a bank from which rows are verified as they are met; in smaller banks all are."""

_MOST_MET = 64
"""Number of queries, and of rows they met, after which the standing of all rows is verified."""

_WORTH_KEEPING = 64
"""Rows of an incomplete block from which its digest is cached."""

LINKS = "links"
"""Represents the index of links among the names of columns."""

_TYPE = "type: "
"""Prefix of a type; represents all records of that type among the names of columns."""

_STANDING = "standing"
"""Represents the columns that say whether a record is current; they are always required."""

_DIGEST = 16
_UNKNOWN = bytes(_DIGEST)
_FORMAT = "satchel-columns/2"
COUNTED = FOLDED | {CONFIG}
"""Types whose records are found by their leaves, and counted by the head."""

_FEW_COUNTED = 1_000
"""Up to this many records, leaves are verified instead of columns."""

_OWNERS = ("user", "agent", "run", "app", "session", "slot")
_FILTERED = frozenset({*_OWNERS, "type", "kind", "moment", "id"})
"""Columns that a filter can use."""

_CHANGED = "The store was changed by another program. See: satchel doctor."

Digests = dict[str, dict[int, bytes]]
"""By column and block."""


def require_standing(
    marked: Sequence[MarkedRow], head: Head, fold: Fold, tree: VerifiedTree
) -> None:
    """Require that the log gives a reason for each row marked as retired, pending or withheld.

    Raises:
        VerificationError: Naming the first row without a reason.
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


def columns_of(where: Filter) -> frozenset[str]:
    """Return the columns that decide what a filter matches, except for the standing of records."""
    names = {name for name in _OWNERS if getattr(where, name) is not None}
    if where.types is not None and not where.types <= COUNTED:
        names.add("type")
    if where.kinds is not None:
        names.add("kind")
    if where.since is not None or where.until is not None:
        names.add("moment")
    return frozenset(names)


class ColumnSource(Protocol):
    """A bank, as the verification of columns reads it."""

    @property
    def head(self) -> Head:
        """The head that everything is verified against."""
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
        """Return columns of rows as they are stored; see ``Reader.column_blocks``."""
        ...

    def require_standing(self, marked: Sequence[MarkedRow]) -> None:
        """Require that the log confirms the marks of these rows."""
        ...

    def require_counted(self, types: frozenset[str]) -> None:
        """Require that all records of these types exist, by their leaves and the head's counts."""
        ...

    def stored_links(self) -> Iterable[LoggedLink]:
        """Return the stored index of links."""
        ...

    def verified_columns(self, places: Sequence[int]) -> list[Row]:
        """Return the rows at log positions, derived from their records, if the store's match."""
        ...


class VerifiedColumns:
    """The verified columns of one bank.

    Args:
        bank: ID of the bank.
        path: The file in which digests are cached, outside the store; None to cache nothing.
    """

    def __init__(self, bank: str, path: Path | None) -> None:
        self._bank = bank
        self._file = CacheFile(path)
        self._local = threading.local()
        self._lock = threading.Lock()
        self._known: tuple[int, _Known] | None = None

    def require(
        self,
        view: ColumnSource,
        names: frozenset[str],
        stamp: int,
        *,
        first: int = 0,
        standing: bool = True,
    ) -> None:
        """Require that columns match the records, and the standing of rows the log.

        Args:
            view: The bank.
            names: Names of columns of ``Row``, or ``LINKS``, for which ``first`` must be 0.
            stamp: The store's stamp in this view.
            first: Log position of the first row; of those before it, only its block is verified.
            standing: False if the standing of rows is verified as they are met.

        Raises:
            VerificationError: Naming the first row whose columns differ.
            StoreError: If a column has an impossible value.
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

    def skips_standing(self, view: ColumnSource, stamp: int) -> bool:
        """Return whether the standing of all rows is not verified, and need not be yet.

        A caller that skips rows because of their columns must then call ``require_met`` for them.
        """
        verified, size = self._verified(stamp).get(_STANDING), view.head.size
        is_verified = verified is not None and not verified.start and verified.stop >= size
        return size >= _LARGE and not is_verified and self._local.met < _MOST_MET

    def require_met(self, view: ColumnSource, marked: Sequence[MarkedRow], stamp: int) -> None:
        """Require the standing of rows that a query met, or of all rows if there are many.

        Raises:
            VerificationError: If the log does not confirm the columns of a row.
        """
        if self.skips_standing(view, stamp) and len(marked) <= _MOST_MET:
            self._local.met += 1 + len(marked)
            view.require_standing(marked)
        else:
            self.require(view, frozenset(), stamp)

    def require_types(
        self, view: ColumnSource, types: frozenset[str], stamp: int, *, first: int = 0
    ) -> None:
        """Require that no record of these types is hidden.

        Args:
            view: The bank.
            types: Some of ``COUNTED``.
            stamp: The store's stamp in this view.
            first: First log position; records before it may be hidden.

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
        """Require the standing of all rows as ``require`` does, before a write."""
        verified = self._verified(stamp)
        before = verified.get(_STANDING)
        if before is None or before.start:
            blocks = reader.column_blocks(head.bank, (), first=0)
            require_standing([row for block in blocks for row in block.marked], head, fold, tree)
            verified[_STANDING] = range(head.size)

    def _verified(self, stamp: int) -> dict[str, range]:
        """Return the verified rows of each column since another program wrote."""
        if getattr(self._local, "stamp", None) != stamp:
            self._local.stamp, self._local.verified, self._local.met = stamp, {}, 0
        verified: dict[str, range] = self._local.verified
        return verified

    def _compare(self, view: ColumnSource, names: Sequence[str], places: range) -> None:
        """Compare columns of rows; the rows before them in the first block were verified before."""
        if names == [_STANDING]:
            end = None if places.stop == view.head.size else places.stop >> BLOCK_BITS
            blocks = view.column_blocks((), places.start >> BLOCK_BITS, end)
            view.require_standing([row for block in blocks for row in block.marked])
            return
        with self._lock:
            self._compare_rows(view, names, places)

    def _compare_rows(self, view: ColumnSource, names: Sequence[str], compared: range) -> None:
        known = self._remembered(view.head.epoch)
        columns = {name for name in names if name not in (LINKS, _STANDING)}
        # Reading the records of a block verified all of its columns.
        lacks = _lacks(known.blocks, columns, compared)
        comparing = _ColumnComparison(
            view=view,
            known=known,
            asked=columns,
            columns=sorted(columns | _FILTERED) if lacks else sorted(columns),
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
        """Return the cached digests; none of an earlier epoch, since its log may be another one."""
        cached = self._file.read(_CachedDigests)
        said = None if cached is None else (cached.format, cached.bank, cached.epoch)
        if cached is None or said != (_FORMAT, self._bank, epoch):
            return _Known(defaultdict(dict), defaultdict(dict))
        return _Known(_unpacked(cached.digests), _unpacked(cached.stretches))

    def _write(self, epoch: int, known: "_Known") -> None:
        self._file.write(
            _CachedDigests(
                format=_FORMAT,
                bank=self._bank,
                epoch=epoch,
                digests=_packed(known.blocks),
                stretches=_packed(known.stretches),
            )
        )


class _Known(NamedTuple):
    """The digests of verified columns."""

    blocks: Digests
    stretches: Digests
    """Of full stretches, by the position of their first row without its lowest bits."""


class _CachedDigests(msgspec.Struct, frozen=True, kw_only=True):
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
    """Of its columns; empty if the rows are not the expected ones."""

    @property
    def is_full(self) -> bool:
        return len(self.places) == _BLOCK


@dataclass(frozen=True, slots=True, kw_only=True)
class _ColumnComparison:
    """One comparison of columns with the records."""

    view: ColumnSource
    known: _Known
    asked: set[str]
    """Columns that must be correct."""

    columns: list[str]
    """Columns that are cached if records are read."""

    links: dict[int, list[LoggedLink]] | None
    """The index of links by block, if it must be correct."""

    marked: list[MarkedRow] | None
    """Receives the marked rows; None if they are not needed."""

    def compare(self, compared: range) -> bool:
        """Compare rows and return whether something was verified that should be cached."""
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
        """Compare rows block by block.

        Returns:
            Whether something was verified that should be cached, and the columns whose digests
            match the cache in all blocks.
        """
        is_new, right = False, set(self.columns)
        for block in self._blocks(compared, marked, BLOCK_BITS):
            if not self._is_known(self.known.blocks, block):
                is_new |= self._verify(block, compared.start)
            right &= {name for name in right if self._knows(self.known.blocks, block, name)}
        return is_new, right

    def _verify(self, block: _Block, first: int) -> bool:
        """Verify the rows of a block by their records and return whether its digests are cached."""
        places = range(max(block.places.start, first), block.places.stop)
        own = self.view.verified_columns(places)
        if self.links is not None:
            _require_links(self.links[block.number], own, places)
        if not block.is_full and len(places) < _WORTH_KEEPING:
            return False
        for name, digest in block.digests.items():
            # The other columns of rows before the first may not have been verified.
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
        """Yield the blocks of rows; a missing row changes its block.

        Args:
            compared: The log positions of the rows; the last is at the end of a block, or of the
                log.
            marked: Receives the marked rows, also those of blocks beyond the log.
            bits: See ``Reader.column_blocks``.
        """
        names, size = self.columns, self.view.head.size
        numbers = range(compared.start >> bits, -(-compared.stop >> bits))
        end = None if compared.stop == size else numbers.stop
        stored = iter(
            self.view.column_blocks(names, numbers.start, end, bits=bits, marked=marked is not None)
        )
        block = next(stored, None)
        for number in numbers:
            places = range(number << bits, min((number + 1) << bits, size))
            digests = dict.fromkeys(names, b"")
            if block is not None and block.number == number:
                if marked is not None:
                    marked += block.marked
                there = (block.rows, block.first, block.last)
                if names and there == (len(places), places.start, places[-1]):
                    digests = dict(zip(names, map(_digest, block.values), strict=True))
                block = next(stored, None)
            if self.links is not None:
                links = sorted(self.links[number])
                digests[LINKS] = _digest(msgspec.msgpack.encode(links))
            yield _Block(number, places, digests)
        while block is not None:
            if marked is not None:
                marked += block.marked
            block = next(stored, None)


def _lacks(known: Digests, names: Iterable[str], compared: range) -> bool:
    """Return whether a full block of these rows lacks a digest of one of these columns."""
    full = range(compared.start >> BLOCK_BITS, compared.stop >> BLOCK_BITS)
    return any(number not in known[name] for name in names for number in full)


def _links(view: ColumnSource) -> dict[int, list[LoggedLink]]:
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
