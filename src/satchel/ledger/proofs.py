"""Verification of a store's rows: each was logged, and has the columns of its record."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from operator import attrgetter
from typing import Final

from msgspec.structs import replace as row_replace

from satchel.crypto.log import VerifiedTree
from satchel.crypto.sealed_records import PREFIX, Sealed, hash_without_id
from satchel.errors import StoreError, VerificationError
from satchel.ledger.columns import COUNTED, VerifiedColumns, columns_of, require_standing
from satchel.ledger.heads import (
    TrustedHead,
    open_records,
    require_leaves,
    require_logged,
    require_types,
)
from satchel.ledger.projection import Likely, VerifiedRecord, column_mismatch
from satchel.model.records import Model
from satchel.ports.links import Kinds, LinkView, LoggedLink
from satchel.ports.rows import PENDING, Filter, RecordLink, Row, derive_row
from satchel.ports.store import BLOCK_BITS, ColumnBlock, MarkedRow, Reader


class ErasedRecords:
    """The records that were erased from a bank, according to its log and its witness.

    Args:
        found: The verified head of the bank.
        removed: Sorted log positions of the records that this machine erased, from its witness.
    """

    def __init__(self, trusted: TrustedHead, removed: Sequence[int]) -> None:
        self._fold, self._size = trusted.fold, trusted.head.size
        # From the position at which the log was resumed it has other records, which were not
        # erased.
        given_up = trusted.verdict.given_up
        end = given_up.size if given_up is not None else self._size
        self.removed = removed[: bisect_left(removed, end)]

    def __contains__(self, row: object) -> bool:
        """Return whether the log says that a row's record was erased."""
        return isinstance(row, Row) and self._fold.is_erased(row.id, self._size)

    def require_reason(self, row: Row) -> None:
        """Require that the log gives a reason for an empty row.

        Raises:
            VerificationError: If it does not.
        """
        if row not in self:
            raise VerificationError(
                f"record {row.seq} is empty, but no erasure is logged",
                hint="The store was changed by another program. See: satchel doctor.",
            )

    def require_kept(self, row: Row) -> None:
        """Refuse the bytes of a record that was erased, according to the log or the witness.

        Raises:
            VerificationError: If it was.
        """
        if self._fold.has_erasures and row in self:
            raise VerificationError(
                f"record {row.seq} was erased, but has its bytes again",
                hint="The store was changed by another program. See: satchel doctor --repair.",
            )
        at = bisect_left(self.removed, row.seq) if self.removed else 0
        redacted = self._fold.redacted(row.id, self._size)
        if redacted is None and at < len(self.removed) and self.removed[at] == row.seq:
            raise VerificationError(
                f"record {row.seq} was erased or redacted on this machine, and the rolled-back "
                "store has it again",
                hint="An owner can erase it again: satchel bank accept-loss.",
            )


_TOGETHER, _FEW = 256, 10

_MOST_LINKED = 50_000
"""Records whose verified links one view keeps in memory."""

_ALL = Filter(retired=True, held=True)
_CURRENT = Filter()


class VerifiedRows:
    """The records of a bank, each verified before it is returned."""

    def __init__(
        self,
        reader: Reader,
        trusted: TrustedHead,
        tree: VerifiedTree,
        removed: Sequence[int],
        columns: VerifiedColumns,
        stamp: int,
    ) -> None:
        self.head: Final = trusted.head
        """The head that everything is verified against."""
        self.signed: Final = trusted.stored.signed
        """The same head with its signature, as canonical JSON."""
        self.standing: Final = trusted.verdict.standing
        """Whether the bank is this machine's own, or untrusted."""
        self.notes: Final = trusted.verdict.notes
        """Notices for the reader: states of the bank that were seen here and abandoned."""
        self.authority: Final = trusted.authority
        """The owners of the bank, and their decisions."""
        self._reader = reader
        self._tree = tree
        self._fold = trusted.fold
        self._bank = trusted.head.bank
        self._sources: dict[int, VerifiedRecord | None] = {}
        self._linked: dict[int, tuple[RecordLink, ...]] = {}
        self._erased = ErasedRecords(trusted, removed)
        self._columns = columns
        self._stamp = stamp

    def get(self, ids: Sequence[str]) -> dict[str, VerifiedRecord]:
        """Return records by ID; missing and erased ones are omitted.

        Raises:
            VerificationError: If one differs from the logged record.
        """
        rows, wanted = self._reader.get(self._bank, ids), set(ids)
        for row in rows:
            if row.id not in wanted:  # the index of IDs points to another record
                raise column_mismatch(row)
        return {logged.record.id: logged for logged in self._verify_rows(rows)}

    def at(self, places: Sequence[int]) -> list[VerifiedRecord]:
        """Return the records at log positions, in log order; invisible ones are omitted.

        Raises:
            VerificationError: If one differs from the logged record.
        """
        rows = self._reader.at(self._bank, places)
        return self._verify_rows(sorted(rows, key=attrgetter("seq")))

    def scan(
        self,
        where: Filter = _ALL,
        *,
        after: int = -1,
        likely: Likely | None = None,
        complete: bool = True,
    ) -> Iterator[VerifiedRecord]:
        """Yield the records that match a filter, in log order.

        None can be hidden. If the filter matches records of all types, the log must give a reason
        for each position that the store skips; otherwise the columns that the filter uses are
        verified in every row.

        Args:
            where: The filter.
            after: Start after this log position.
            likely: Returns whether the bytes of a record may match; only with a filter on types.
                Skipped records are hashed and not decoded.
            complete: False if a record that the store hides does no harm, because the result only
                nominates.

        Raises:
            VerificationError: If a record differs from the logged one, or is hidden.
        """
        if complete and not where.is_plain:
            self._require_columns(where, first=after + 1, by_bytes=likely is not None)
        rows, position = self._reader.scan(self._bank, where, after=after), max(after + 1, 0)
        if likely is not None:
            rows = (row for row in rows if not is_unlikely(row, likely))
        while batch := list(islice(rows, _TOGETHER)):
            if where.is_plain:
                positions, end = {row.seq for row in batch}, batch[-1].seq
                self._explain([seq for seq in range(position, end) if seq not in positions], where)
                position = end + 1
            for logged in self._verify_rows(batch):
                state = self._as_of(logged, where)
                if where.matches(state.row) and state.row.retired != PENDING:
                    yield state
                elif where.as_of is None:
                    raise column_mismatch(logged.row)
        if where.is_plain:
            end = self.head.size if where.as_of is None else min(where.as_of, self.head.size)
            self._explain(range(position, end), where)

    def current(self, slot: str) -> VerifiedRecord | None:
        """Return the current record of a slot."""
        self.require_columns("slot")
        row = self._reader.current(self._bank, slot)
        found = [] if row is None else self._verify_rows([row])
        if found and (found[0].row.slot != slot or found[0].row.retired is not None):
            raise column_mismatch(found[0].row)
        return found[0] if found else None

    def neighbors(self, end: str, *, incoming: bool = False) -> Iterator[VerifiedRecord]:
        """Yield the records with a link from, or to, a record.

        That none is missing is verified only if ``require_columns`` was called for ``LINKS``
        before.
        """
        rows = list(self._reader.neighbors(self._bank, end, incoming=incoming))
        for logged in self._verify_rows(rows):
            ends = [link.target if incoming else link.source for link in logged.row.links]
            if end not in ends:
                raise column_mismatch(logged.row)
            yield logged

    def links(
        self, ends: Sequence[str], *, incoming: bool, kinds: Kinds = None, limit: int
    ) -> list[LoggedLink]:
        """Return the links from, or to, names; see ``ports.links``.

        The record of each is verified. That none is missing is not: a caller that lists links calls
        ``require_columns`` for ``LINKS`` before; one that only nominates does not.

        Raises:
            VerificationError: If a record differs from the logged one.
            StoreError: If the store cannot be read.
        """
        if not isinstance(self._reader, LinkView):
            raise StoreError("links of this store cannot be followed")
        if self._columns.skips_standing(self, self._stamp) and not self._has_links(ends, incoming):
            return []  # whatever the standing of records is
        self.require_columns()
        links = self._reader.links(self._bank, ends, incoming=incoming, kinds=kinds, limit=limit)
        made = self._verified_links({linked.place for linked in links})
        for place, link in links:
            if link not in made.get(place, ()):
                raise _link_mismatch(place)
        return links

    def _has_links(self, ends: Sequence[str], incoming: bool) -> bool:  # noqa: FBT001 - as there
        neighbors = partial(self._reader.neighbors, self._bank, incoming=incoming)
        return any(True for end in ends for _ in neighbors(end))

    def require_columns(self, *names: str) -> None:
        """Require that columns match the records, and the standing of rows the log.

        Args:
            names: Names of columns of ``Row``, or ``columns.LINKS`` for the index of links.

        Raises:
            VerificationError: Naming a row whose columns differ.
        """
        self._columns.require(self, frozenset(names), self._stamp)

    def require_excluded(self, rows: Iterable[Row]) -> None:
        """Require the standing of rows that a query skipped because of their columns.

        Raises:
            VerificationError: If the log does not confirm one.
        """
        marked = [
            MarkedRow(row.seq, row.id, row.type, row.at, row.retired, row.hold)
            for row in rows
            if row.retired is not None or row.hold
        ]
        self._columns.require_met(self, marked, self._stamp)

    def _require_columns(
        self,
        where: Filter,
        *,
        first: int = 0,
        by_bytes: bool = False,
        standing: bool = True,
    ) -> None:
        """Require the columns that a filter uses to find records.

        Args:
            where: The filter.
            first: First log position.
            by_bytes: Whether records are skipped by their bytes, which have their IDs.
            standing: See ``VerifiedColumns.require``.
        """
        if where.types is not None and where.types <= COUNTED:
            self._columns.require_types(self, where.types, self._stamp, first=first)
        names = columns_of(where) | ({"id"} if by_bytes else set())
        self._columns.require(self, names, self._stamp, first=first, standing=standing)

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
        return self._reader.column_blocks(
            self._bank, names, first=first, end=end, bits=bits, marked=marked
        )

    def require_counted(self, types: frozenset[str]) -> None:
        """Require that all records of these types exist, by their leaves and the head's counts."""
        require_types(self._reader, self.head, self._tree, types)

    def require_standing(self, marked: Sequence[MarkedRow]) -> None:
        """Require that the log confirms the marks of these rows."""
        require_standing(marked, self.head, self._fold, self._tree)

    def stored_links(self) -> Iterable[LoggedLink]:
        """Return the stored index of links."""
        return self._reader.every_link(self._bank)

    def verified_columns(self, places: Sequence[int]) -> list[Row]:
        """Return the rows at log positions, derived from their records, if the store's match.

        Raises:
            VerificationError: If one differs.
        """
        return self._own_rows(self._at(places))

    def require_rows(self, rows: Sequence[Row]) -> list[Row]:
        """Return the rows of an audit, derived from their records, if they match.

        Their leaves are not verified: an audit computes the whole tree.

        Raises:
            VerificationError: If one differs, or was erased and has its bytes again.
        """
        for row in rows:
            if row.body is not None:
                self._erased.require_kept(row)
        return self._own_rows(rows)

    def _own_rows(self, rows: Sequence[Row]) -> list[Row]:
        own = list[Row]()
        for row, logged in zip(rows, open_records(rows, self._redacted), strict=True):
            if logged is not None:
                own.append(self._derive_row(row, *logged))
                continue
            self._erased.require_reason(row)
            empty = row_replace(row.erased(), batch=self._fold.batch_number(row.seq))
            empty = empty.changed(self._fold.standing(row.id, row.seq, self.head.size))
            if row.columns() != empty.columns():
                raise column_mismatch(row)
            own.append(empty)
        return own

    def _verified_links(self, places: set[int]) -> dict[int, tuple[RecordLink, ...]]:
        """Return the verified links of current records; a traversal meets each from both ends."""
        if len(self._linked) + len(places) > _MOST_LINKED:
            self._linked.clear()
        places -= self._linked.keys()
        for logged in self.at(sorted(places)) if places else ():
            is_current = _CURRENT.nominates(logged.row)
            self._linked[logged.seq] = logged.row.links if is_current else ()
        return self._linked

    def _verify_rows(self, rows: list[Row], *, pending: bool = False) -> list[VerifiedRecord]:
        """Verify rows, and omit the invisible ones."""
        found = require_logged(self._tree, self._bank, rows, self._redacted)
        proved = []
        for row, logged in zip(rows, found, strict=True):
            if logged is None:
                self._erased.require_reason(row)
                continue
            self._erased.require_kept(row)
            own = self._derive_row(row, *logged)
            if pending or own.retired != PENDING:
                proved.append(VerifiedRecord(*logged, own))
        return proved

    def _redacted(self, row: Row) -> str | None:
        return self._fold.redacted(row.id, self.head.size)

    def _derive_row(self, row: Row, record: Sealed, model: Model) -> Row:
        """Return the derived columns of a record, and refuse a store with others."""
        batch = self._fold.batch_number(row.seq)
        own = derive_row(model, seq=row.seq, at=row.at, body=record.body, batch=batch)
        own = own.changed(self._fold.standing(record.id, row.seq, self.head.size))
        if row.columns() != own.columns():
            raise column_mismatch(row)
        return own

    def _as_of(self, logged: VerifiedRecord, wanted: Filter) -> VerifiedRecord:
        if wanted.as_of is None:
            return logged
        size = min(wanted.as_of, self.head.size)
        then = self._fold.standing(logged.record.id, logged.seq, size)
        return replace(logged, row=logged.row.changed(then))

    def _explain(self, positions: Sequence[int], where: Filter) -> None:
        """Require that the log gives a reason for each omitted record."""
        size = self.head.size if where.as_of is None else min(where.as_of, self.head.size)
        for start in range(0, len(positions), _TOGETHER):
            for row in self._at(positions[start : start + _TOGETHER]):
                state = row.changed(self._fold.standing(row.id, row.seq, size))
                if where.matches(state):
                    raise column_mismatch(row)

    def _at(self, places: Sequence[int]) -> list[Row]:
        """Return the rows at log positions, verified to be the logged ones."""
        rows = sorted(self._reader.at(self._bank, places), key=attrgetter("seq"))
        if [row.seq for row in rows] != list(places):
            raise VerificationError(
                "records are missing", hint="The store was changed by another program."
            )
        require_leaves(self._tree, self._bank, rows)
        return rows


def is_unlikely(row: Row, likely: Likely) -> bool:
    """Return whether a row can be skipped: its bytes have its ID and do not match."""
    if row.body is None or likely(row.body):
        return False
    return row.id == PREFIX + hash_without_id(row.body, row.id).hex()


def _link_mismatch(position: int) -> VerificationError:
    return VerificationError(
        f"the index has links that record {position} does not have",
        hint="The store was changed by another program. See: satchel doctor.",
    )
