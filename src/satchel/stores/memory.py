"""A store in memory: the simplest implementation of the contract, the reference for others.

Nothing survives the process. For tests, and for temporary banks.
"""

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from operator import attrgetter

from satchel.crypto.sealed_records import PREFIX as ID_PREFIX
from satchel.errors import (
    SlotTakenError,
    StoreError,
    UnknownBankError,
    UnknownBlobError,
    ValueRefusedError,
)
from satchel.ports.links import Kinds, LoggedLink, link_sort_key
from satchel.ports.rows import CONFIG, PENDING, Filter, Row, RowState
from satchel.ports.store import (
    BLOCK_BITS,
    BlobPieces,
    ColumnBlock,
    Commit,
    MarkedRow,
    RangeChange,
    RetiredFilter,
    StoredHead,
    StoreTraits,
)
from satchel.ports.vectors import Generation, PackedVector, VectorValues, pack_vector, unpack_vector
from satchel.runtime.processes import in_child
from satchel.stores import text_search
from satchel.stores.text_search import FEW, Spread, is_searched, searches, thread_of
from satchel.stores.vectors import column_blocks, nearest


def sweep(rows: list[Row], changes: Iterable[RangeChange]) -> None:
    """Apply changes of ranges, in order."""
    for change in changes:
        positions = slice(change.first, change.last + 1)
        rows[positions] = [_swept(row, change) for row in rows[positions]]


def _swept(row: Row, sweep: RangeChange) -> Row:
    hold = row.hold if sweep.hold is None else sweep.hold
    retired = sweep.retired if _was(row) is sweep.was else row.retired
    return row.changed(RowState(retired, hold))


def _was(row: Row) -> RetiredFilter:
    if row.retired is None:
        return RetiredFilter.CURRENT
    return RetiredFilter.PENDING if row.retired == PENDING else RetiredFilter.RETIRED


def refuse_doubles(rows: Sequence[Row]) -> None:
    """Refuse a log with a record twice, or with two current rows of a slot."""
    seen: set[str] = set()
    ids: set[str] = set()
    for row in rows:
        if row.id in ids:
            raise StoreError(f"a record is logged twice: {row.id}")
        ids.add(row.id)
        if row.slot is not None and row.retired is None:
            if row.slot in seen:
                raise SlotTakenError(f"a current record for {row.slot} already exists")
            seen.add(row.slot)


_NO_HEAD = StoredHead(b"", b"")


@dataclass(slots=True)
class _Bank:
    rows: list[Row] = field(default_factory=list)
    nodes: list[bytes] = field(default_factory=list)
    head: StoredHead = _NO_HEAD
    vectors: dict[Generation, dict[str, PackedVector]] = field(default_factory=dict)
    blobs: dict[str, list[bytes]] = field(default_factory=dict)
    naming: bytes | None = None
    """The bytes of the rows that may name the bank, cached; dropped by changes."""

    def copy(self) -> "_Bank":
        return _Bank(
            list(self.rows), list(self.nodes), self.head, dict(self.vectors), dict(self.blobs)
        )

    def is_named_in(self, fragment: bytes) -> bool:
        """Return whether the first row or the configuration contains bytes without line ends."""
        if self.naming is None:
            rows = (row for row in self.rows if not row.seq or row.type == CONFIG)
            self.naming = b"\n".join(row.body or b"" for row in rows)
        return fragment in self.naming

    def drop_vectors(self, ids: set[str]) -> None:
        """Remove the vectors of records; a generation exists while it has any."""
        for generation, vectors in list(self.vectors.items()):
            remaining = {name: vector for name, vector in vectors.items() if name not in ids}
            self.vectors[generation] = remaining
            if not remaining:
                del self.vectors[generation]


class _View:
    """A snapshot of the store."""

    def __init__(self, banks: dict[str, _Bank], side: dict[str, dict[str, bytes]]) -> None:
        self._banks = banks
        self._side = side

    def stamp(self) -> int:
        return 0  # no other program can

    def banks(self, start: str = "", *, limit: int | None = None) -> list[str]:
        ids = sorted(bank for bank, stored in self._banks.items() if stored.head.signed)
        return [bank for bank in ids if bank.startswith(start)][:limit]

    def named(self, fragment: bytes) -> list[str]:
        ids = (bank for bank, stored in self._banks.items() if stored.is_named_in(fragment))
        return sorted(bank for bank in ids if self._banks[bank].head.signed)

    def begun(self) -> list[str]:
        return sorted(bank for bank, stored in self._banks.items() if not stored.head.signed)

    def head(self, bank: str) -> StoredHead | None:
        stored = self._banks.get(bank)
        return stored.head if stored else None

    def counts(self, bank: str) -> dict[str, int]:
        counts: dict[str, int] = {}
        for row in self._rows(bank):
            counts[row.type] = counts.get(row.type, 0) + 1
        return counts

    def nodes(self, bank: str, positions: Sequence[int]) -> dict[int, bytes]:
        nodes = self._banks[bank].nodes if bank in self._banks else []
        return {position: nodes[position] for position in positions if 0 <= position < len(nodes)}

    def get(self, bank: str, ids: Sequence[str]) -> list[Row]:
        requested = set(ids)
        return [row for row in self._rows(bank) if row.id in requested]

    def ids(self, bank: str, digits: str, *, limit: int) -> list[str]:
        start = ID_PREFIX + digits
        return sorted(row.id for row in self._rows(bank) if row.id.startswith(start))[:limit]

    def at(self, bank: str, places: Sequence[int]) -> list[Row]:
        rows = self._rows(bank)
        return [rows[position] for position in set(places) if 0 <= position < len(rows)]

    def scan(
        self, bank: str, where: Filter, *, after: int = -1, newest_first: bool = False
    ) -> Iterator[Row]:
        rows = self._rows(bank)[after + 1 :]
        return (row for row in (rows[::-1] if newest_first else rows) if where.nominates(row))

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
        stop = None if end is None else end << bits
        rows = self._rows(bank)[first << bits : stop]
        marks = [
            MarkedRow(row.seq, row.id, row.type, row.at, row.retired, row.hold)
            for row in rows
            if marked and (row.retired is not None or row.hold)
        ]
        return column_blocks(map(attrgetter("seq", *names), rows) if names else (), marks, bits)

    def every_link(self, bank: str) -> Iterable[LoggedLink]:
        return [LoggedLink(row.seq, link) for row in self._rows(bank) for link in row.links]

    def current(self, bank: str, slot: str) -> Row | None:
        rows = self._rows(bank)
        return next((row for row in rows if (row.slot, row.retired) == (slot, None)), None)

    def neighbors(self, bank: str, end: str, *, incoming: bool) -> Iterator[Row]:
        for row in self._rows(bank):
            if any((link.target if incoming else link.source) == end for link in row.links):
                yield row

    def links(
        self, bank: str, ends: Sequence[str], *, incoming: bool, kinds: Kinds, limit: int
    ) -> list[LoggedLink]:
        names = set(ends)
        links = {
            LoggedLink(row.seq, link)
            for row in self._rows(bank)
            if row.retired is None and not row.hold
            for link in row.links
            if (link.target if incoming else link.source) in names
            and (kinds is None or link.kind in kinds)
        }
        return sorted(links, key=link_sort_key)[:limit]

    def candidates(
        self,
        bank: str,
        text: str,
        *,
        limit: int,
        where: Filter | None = None,
        without: Sequence[tuple[int, int]] = (),
    ) -> list[tuple[int, float]]:
        terms = text_search.terms_of(text)
        texts = _searched(self._rows(bank))
        # As in other stores: the rarity of a word is computed over all banks.
        every = [tokens for each in self._banks for tokens in _searched(self._rows(each)).values()]
        totals = text_search.CorpusTotals(len(every), sum(map(len, every)))
        seen = {
            position: tokens
            for position, tokens in texts.items()
            if not any(first <= position <= last for first, last in without)
        }
        spreads = [_spread(term, seen, FEW + 1) for term in terms]
        rows = self._rows(bank)
        matching = {
            position: tokens
            for position, tokens in seen.items()
            if where is None or where.nominates(rows[position])
        }
        best: dict[int, float] = {}
        for search in searches(spreads, FEW):
            newest = max(search.newest, limit)
            scores = text_search.scores(search, matching, every, totals, newest)
            for position, score in _best(scores, limit):
                best.setdefault(position, score)
            if len(best) >= limit:
                break
        return _best(best, limit)

    def side(self, bank: str, prefix: str = "") -> dict[str, bytes]:
        values = self._side.get(bank, {})
        return {name: value for name, value in values.items() if name.startswith(prefix)}

    def is_indexed(self, bank: str, row: Row) -> bool:
        return True  # there is no index

    def misindexed(self, bank: str, rows: Sequence[Row]) -> list[int]:
        stored, columns = self._rows(bank), attrgetter("id", "text")
        return [
            row.seq for row in rows if [columns(row)] != list(map(columns, stored[row.seq :][:1]))
        ]

    def word_positions(self, bank: str) -> Iterable[int]:
        return [row.seq for row in self._rows(bank) if row.text and is_searched(row)]

    def orphans(self) -> list[str]:
        return []

    @property
    def vectors(self) -> "_Vectors":
        return _Vectors(self._banks)

    @property
    def blobs(self) -> "_Blobs":
        return _Blobs(self._banks)

    def _rows(self, bank: str) -> list[Row]:
        return self._banks[bank].rows if bank in self._banks else []


class _Transaction(_View):
    """A private copy of the written banks; published when the block ends without an error."""

    def append(self, bank: str, commit: Commit) -> None:
        private = self._banks[bank].copy() if bank in self._banks else _Bank()
        sweep(private.rows, [sweep for sweep in commit.sweeps if sweep.retired is not None])
        for change in commit.changes:
            row = private.rows[change.seq]
            private.rows[change.seq] = row.changed(RowState(change.retired, change.hold))
        sweep(private.rows, commit.sweeps)
        private.drop_vectors({private.rows[position].id for position in commit.erased})
        for row in (
            *(private.rows[position].erased() for position in commit.erased),
            *commit.replaced,
        ):
            private.rows[row.seq] = row
        private.rows += commit.rows
        if commit.rows and private.rows[-1].seq != len(private.rows) - 1:
            private.rows.sort(key=attrgetter("seq"))  # some come before existing ones
        refuse_doubles(private.rows)
        private.nodes += commit.nodes
        private.head = commit.head
        self._banks[bank] = private
        self.put_side(bank, commit.side)

    def remove(self, bank: str) -> None:
        self._banks.pop(bank, None)
        self._side.pop(bank, None)

    def rewrite(self, bank: str, rows: Iterable[Row]) -> None:
        private = self._banks[bank] = self._banks[bank].copy()
        empty = set[str]()
        for row in rows:
            private.rows[row.seq] = row
            if row.body is None:
                empty.add(row.id)
        private.drop_vectors(empty)
        refuse_doubles(private.rows)
        private.naming = None

    def put_nodes(self, bank: str, first: int, nodes: Sequence[bytes]) -> None:
        private = self._banks[bank] = self._banks[bank].copy()
        private.nodes[first : first + len(nodes)] = nodes

    def put_side(self, bank: str, values: Mapping[str, bytes | None]) -> None:
        merged = {**self._side.get(bank, {}), **values}
        self._side[bank] = {name: value for name, value in merged.items() if value is not None}

    @property
    def vectors(self) -> "_VectorsWriting":
        return _VectorsWriting(self._banks)

    @property
    def blobs(self) -> "_BlobsWriting":
        return _BlobsWriting(self._banks)


class _BankData:
    """The unlogged data of banks."""

    def __init__(self, banks: dict[str, _Bank]) -> None:
        self._banks = banks

    def _bank(self, bank: str) -> _Bank:
        if bank not in self._banks:
            raise UnknownBankError(f"there is no bank {bank} here")
        return self._banks[bank]

    def _mine(self, bank: str) -> _Bank:
        """Replace a bank by a private copy, which others see when the block has ended."""
        self._banks[bank] = self._bank(bank).copy()
        return self._banks[bank]


class _Vectors(_BankData):
    def generations(self, bank: str) -> dict[Generation, int]:
        return {key: len(vectors) for key, vectors in sorted(self._bank(bank).vectors.items())}

    def get(
        self, bank: str, generation: Generation, ids: Sequence[str]
    ) -> dict[str, tuple[float, ...]]:
        vectors = self._bank(bank).vectors.get(generation, {})
        return {
            key: unpack_vector(vectors[key], generation.dimensions) for key in ids if key in vectors
        }

    def near(
        self, bank: str, generation: Generation, vector: VectorValues, *, limit: int
    ) -> list[tuple[str, float]]:
        count = generation.dimensions
        target = unpack_vector(pack_vector(vector, count, "vector"), count)
        rows, vectors = self._bank(bank).rows, self._bank(bank).vectors.get(generation, {})
        current = (
            row for row in rows if row.retired is None and not row.hold and row.id in vectors
        )
        best = nearest(((row.seq, vectors[row.id].numbers) for row in current), target, limit)
        return [(rows[position].id, cosine) for position, cosine in best]


class _VectorsWriting(_Vectors):
    def put(self, bank: str, generation: Generation, vectors: Mapping[str, VectorValues]) -> None:
        known = {row.id for row in self._bank(bank).rows}
        for identity in vectors:
            if identity not in known:
                raise ValueRefusedError("no such record in the bank", field=identity)
        count = generation.dimensions
        new = {key: pack_vector(vector, count, key) for key, vector in vectors.items()}
        if new:
            private = self._mine(bank)
            private.vectors[generation] = {**private.vectors.get(generation, {}), **new}

    def drop(self, bank: str, generation: Generation) -> None:
        self._mine(bank).vectors.pop(generation, None)


class _Blobs(_BankData):
    def listed(self, bank: str) -> Iterator[tuple[str, int]]:
        blobs = sorted(self._bank(bank).blobs.items())
        return ((digest, sum(map(len, pieces))) for digest, pieces in blobs)

    def has(self, bank: str, digest: str) -> bool:
        return digest in self._bank(bank).blobs

    def get(self, bank: str, digest: str) -> Iterator[bytes]:
        if not self.has(bank, digest):
            raise UnknownBlobError(f"no blob {digest} in the bank")
        return iter(self._bank(bank).blobs[digest])


class _BlobsWriting(_Blobs):
    def put(self, bank: str, chunks: Iterable[bytes]) -> str:
        self._bank(bank)
        pieces = BlobPieces(chunks)
        stored = list(pieces)
        self._mine(bank).blobs[pieces.digest] = stored
        return pieces.digest

    def drop(self, bank: str, digest: str) -> None:
        self._mine(bank).blobs.pop(digest, None)


def _searched(rows: Sequence[Row]) -> dict[int, list[str]]:
    """Return the words of the searched rows, each with those of the turn before it."""
    texts: dict[int, list[str]] = {}
    last: dict[tuple[str, str], str] = {}
    for row in rows:
        words, thread = row.text or "", thread_of(row)
        if words and is_searched(row):
            before = last.get(thread) if thread is not None else None
            joined = words if before is None else f"{before}\n{words}"
            texts[row.seq] = text_search.tokens_of(joined)
        if thread is not None and row.body is not None:
            last[thread] = words
    return texts


def _spread(term: text_search.Term, texts: dict[int, list[str]], most: int) -> Spread:
    matching = [position for position in sorted(texts, reverse=True) if term.times(texts[position])]
    newest = matching[:most]
    return Spread(term.expression, len(newest), newest[-1] if newest else 0)


def _best(scores: dict[int, float], limit: int) -> list[tuple[int, float]]:
    return sorted(scores.items(), key=lambda pair: (-pair[1], pair[0]))[:limit]


class InMemoryStore:
    """Banks in memory."""

    traits = StoreTraits(durable=False, full_text=True, vectors=True, traversal=True)
    name = "memory"

    def __init__(self) -> None:
        self._banks: dict[str, _Bank] = {}
        self._side: dict[str, dict[str, bytes]] = {}
        self._unlock()
        in_child(self._unlock)

    def _unlock(self) -> None:
        self._lock = threading.Lock()

    @contextmanager
    def reading(self) -> Iterator[_View]:
        yield _View(dict(self._banks), dict(self._side))

    @contextmanager
    def writing(self) -> Iterator[_Transaction]:
        with self._lock:
            transaction = _Transaction(dict(self._banks), dict(self._side))
            yield transaction
            self._banks, self._side = transaction._banks, transaction._side  # noqa: SLF001 - its own view

    def scrub(self) -> None:
        pass  # all data is dropped

    def check(self) -> list[str]:
        return []

    def close(self) -> None:
        self._banks, self._side = {}, {}
