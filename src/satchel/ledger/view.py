"""Reads of a bank: records that a store nominates, each verified before it is returned."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import TypeVar

from satchel.crypto.log import LeafProof, verify_audit_path
from satchel.errors import UsageError, VerificationError
from satchel.ledger.heads import require_leaves
from satchel.ledger.projection import (
    Likely,
    LogImport,
    Precondition,
    Promotion,
    StatusEvent,
    VerifiedRecord,
    column_mismatch,
)
from satchel.ledger.proofs import VerifiedRows, is_unlikely
from satchel.model.values import ID_PREFIX
from satchel.ports.rows import Filter, Row, SessionLookup
from satchel.ports.store import UnfilteredSearch, verified_pieces
from satchel.ports.vectors import Generation, VectorValues

_TOGETHER, _FEW = 256, 10
_MANY = 1024

_CURRENT = Filter()
_NOW = (None, False, False)
_Some = TypeVar("_Some")


class View(VerifiedRows):
    """A consistent, verified view of a bank."""

    @property
    def whole(self) -> "View":
        """The whole bank: this view, unless it shows a part only (``ledger.scope``)."""
        return self

    @property
    def is_whole(self) -> bool:
        """Whether everything in the bank is visible here."""
        return self.whole is self

    def redaction(self, identity: str) -> VerifiedRecord | None:
        """Return the last redaction record of an entry; None if it is not redacted."""
        found = self._fold.redaction(identity, self.head.size)
        return None if found is None else self.log_records_at([found[0]])[found[0]]

    def with_prefix(self, digits: str, *, limit: int) -> list[VerifiedRecord]:
        """Return some records whose hash starts with hexadecimal digits.

        Raises:
            VerificationError: If one differs from the logged record or has another prefix, or if
                the store has other IDs than the log.
        """
        self.require_columns("id")
        records = self.get(self._reader.ids(self._bank, digits, limit=limit))
        for identity, logged in records.items():
            if not identity.startswith(ID_PREFIX + digits):
                raise column_mismatch(logged.row)
        return list(records.values())

    def ids_with_prefix(self, digits: str, *, limit: int) -> list[str]:
        """Return IDs with a prefix, erased ones included; ``places`` verifies that they exist."""
        self.require_columns("id")
        return self._reader.ids(self._bank, digits, limit=limit)

    def status_events(
        self, logged: VerifiedRecord, *, as_of: int | None = None
    ) -> list[StatusEvent]:
        """Return the status events of a record, now or when the log had ``as_of`` records."""
        size = self.head.size if as_of is None else min(as_of, self.head.size)
        return self._fold.status_events(logged.record.id, logged.seq, size)

    def versions(self, identity: str) -> set[str]:
        """Return the IDs of all versions of a record, earlier and later ones included."""
        return self._fold.versions(identity, self.head.size)

    def unchanged(self, records: Iterable[VerifiedRecord]) -> Precondition:
        """Return the precondition for an append that depends on these records being unchanged."""
        seen = [(logged.record.id, logged.row.seq) for logged in records]
        return Precondition(self.head.size, seen)

    def pending(self, source: str, *, after: int = -1) -> Iterator[VerifiedRecord]:
        """Yield the records of an unfinished import, in log order.

        Args:
            source: ID of its source record.
            after: Start after this log position.
        """
        batch = self._fold.batch(source)
        spans = batch.spans if batch is not None and batch.is_open(self.head.size) else []
        for first, last in spans:
            for start in range(max(first, after + 1), min(last + 1, self.head.size), _TOGETHER):
                places = range(start, min(last + 1, start + _TOGETHER))
                yield from self._verify_rows(self._at(places), pending=True)

    def pending_rows(self, source: str) -> Iterator[Row]:
        """Yield the rows of an unfinished import, in log order.

        Each is verified to have the ID logged at its position. Its bytes are not verified: a caller
        that has the record with this ID can compare them.

        Args:
            source: ID of its source record.
        """
        batch = self._fold.batch(source)
        spans = batch.spans if batch is not None and batch.is_open(self.head.size) else []
        for first, last in spans:
            end = min(last + 1, self.head.size)
            for start in range(first, end, _MANY):
                yield from self._at(range(start, min(end, start + _MANY)))

    def places(self, ids: Sequence[str]) -> dict[str, int]:
        """Return the log positions of records, erased and invisible ones included."""
        rows = self._reader.get(self._bank, ids)
        require_leaves(self._tree, self._bank, rows)
        return {row.id: row.seq for row in rows}

    def log_records_at(self, places: Sequence[int]) -> dict[int, VerifiedRecord]:
        """Return the records at log positions that define the state of the log, such as statuses.

        Raises:
            VerificationError: If one is missing, or differs from the logged record.
        """
        rows = self._at(sorted(set(places)))
        return {logged.seq: logged for logged in self._verify_rows(rows, pending=True)}

    def statuses_of(self, identity: str, as_of: int | None = None) -> list[VerifiedRecord]:
        """Return the status records in force about a record, in the order in which they apply."""
        places = self._fold.status_positions(identity, self.head.size if as_of is None else as_of)
        found = self.log_records_at(places) if places else {}
        return [found[place] for place in places]

    def rows(self, places: Sequence[int]) -> list[Row]:
        """Return the logged rows at positions, erased ones included: leaves and standing only."""
        size = self.head.size
        return [
            row.erased().changed(self._fold.standing(row.id, row.seq, size))
            for row in self._at(sorted(set(places)))
        ]

    def retirement(self, row: Row, as_of: int | None = None) -> StatusEvent | None:
        """Return the event that retired a record; None if it is current."""
        size = self.head.size if as_of is None else as_of
        return self._fold.retirement(row.id, row.seq, size)

    def erasure(self, identity: str) -> VerifiedRecord | None:
        """Return the erasure record of a record, which may also be a tombstone from elsewhere."""
        position = self._fold.erased_at(identity)
        return (
            None
            if position is None or position >= self.head.size
            else self.log_records_at([position])[position]
        )

    def open_imports(self) -> list[str]:
        """Return the IDs of the source records of unfinished imports."""
        return [one.source for one in self.imports() if not one.complete]

    def returned(self) -> list[tuple[int, str]]:
        """Return log positions and IDs of records that this machine erased and the store has again.

        That happens if a store is restored from before the erasure.
        """
        result = list[tuple[int, str]]()
        for start in range(0, len(self._erased.removed), _TOGETHER):
            rows = self._at(self._erased.removed[start : start + _TOGETHER])
            back = (row for row in rows if row.body is not None and row not in self._erased)
            result += [(row.seq, row.id) for row in back if self._redacted(row) is None]
        return result

    def imports(self) -> list[LogImport]:
        """Return the imports of the bank, oldest first."""
        size = self.head.size
        return [
            LogImport(
                source=batch.source,
                place=batch.number,
                records=sum(last - first + 1 for first, last in batch.spans),
                complete=not batch.is_open(size),
                undone=self._fold.is_undone(batch, size),
            )
            for batch in self._fold.batches()
            if batch.number < size
        ]

    def imported(self, source: str) -> Iterator[VerifiedRecord]:
        """Yield the existing records of a complete import, in log order."""
        batch = self._fold.batch(source)
        for first, last in batch.spans if batch is not None else ():
            for start in range(first, min(last + 1, self.head.size), _TOGETHER):
                places = range(start, min(last + 1, start + _TOGETHER, self.head.size))
                yield from self._verify_rows(self._at(places))

    def side(self, prefix: str) -> dict[str, bytes]:
        """Return unlogged values by name; they are not verified."""
        return self._reader.side(self._bank, prefix)

    def candidates(
        self, text: str, *, limit: int = 100, where: Filter | None = None
    ) -> list[tuple[VerifiedRecord, float]]:
        """Return current records that may match words, best first, with a score."""
        return list(self.ranked(self.nominees(text, limit=limit, where=where), where))

    def nominees(self, text: str, *, limit: int, where: Filter | None = None) -> dict[int, float]:
        """Return the log positions and scores of current records nominated by words, best first.

        Nothing is verified. Fewer than ``limit`` are all there are. A caller that skips some
        because of their standing must call ``require_excluded`` for them.

        Args:
            text: Words.
            limit: Maximum number of results.
            where: A filter on the nominated records.
        """
        hidden = self._fold.open_spans(self.head.size)
        find = partial(self._reader.candidates, self._bank, text, limit=limit, without=hidden)
        is_current = where is None or (where.as_of, where.retired, where.held) == _NOW
        if is_current and self._skips_standing():
            if where is None:
                return dict(find())
            self._require_columns(where, standing=False)
            # An index of words has no retired records. If no nominated row is marked, the filter's
            # condition on marks excludes nothing.
            scores = dict(find(where=replace(where, retired=True, held=True)))
            if not self._has_marks(list(scores)):
                return scores
        self._require_columns(where or _CURRENT)
        return dict(find(where=where))

    def _has_marks(self, places: Sequence[int]) -> bool:
        rows = self._reader.at(self._bank, places)
        return any(row.retired is not None or row.hold for row in rows)

    def _skips_standing(self) -> bool:
        """Return whether rows that words nominate are verified as they are met."""
        return isinstance(self._reader, UnfilteredSearch) and self._columns.skips_standing(
            self, self._stamp
        )

    def ranked(
        self, scores: Mapping[int, float], where: Filter | None = None
    ) -> Iterator[tuple[VerifiedRecord, float]]:
        """Yield the current records at log positions, in the given order, each verified.

        Args:
            scores: Log positions, as ``nominees`` returns them.
            where: A filter on the records.
        """
        for batch in _growing(scores):
            verified = {
                record.seq: record
                for record in self._verify_rows(self._reader.at(self._bank, batch))
            }
            for logged in (verified[seq] for seq in batch if seq in verified):
                state = self._as_of(logged, where or _CURRENT)
                if _CURRENT.matches(logged.row) and (where or _CURRENT).matches(state.row):
                    yield state, scores[logged.seq]

    def nominal(self, places: Sequence[int]) -> dict[int, Row]:
        """Return the stored rows at log positions, to sort by.

        Nothing is verified: ``ranked`` returns the verified records.
        """
        return {row.seq: row for row in self._reader.at(self._bank, places)}

    def near(
        self, generation: Generation, vector: VectorValues, *, limit: int
    ) -> list[tuple[str, float]]:
        """Return the IDs of current records with the most similar vectors, with the cosine.

        All vectors are compared. Nothing is verified.
        """
        self.require_columns()
        return self._reader.vectors.near(self._bank, generation, vector, limit=limit)

    def newest(
        self, where: Filter = _CURRENT, *, after: int = -1, likely: Likely | None = None
    ) -> Iterator[VerifiedRecord]:
        """Yield the records that match a filter, newest first.

        A hidden record is detected where it would be yielded, not before: a caller that stops early
        reads and verifies only the records so far.

        Args:
            where: The filter.
            after: Stop at this log position; it and the records before it are not verified.
            likely: See ``scan``.

        Raises:
            VerificationError: As ``scan``.
        """
        by_bytes = likely is not None
        rows = self._reader.scan(self._bank, where, after=after, newest_first=True)
        count, end = _FEW, after + 1
        if likely is not None:
            rows = (row for row in rows if not is_unlikely(row, likely))
        while batch := list(islice(rows, count)):
            first = max(end, self._ahead(batch[-1].seq)) if len(batch) == count else end
            self._require_columns(where, first=first, by_bytes=by_bytes)
            count = min(2 * count, _TOGETHER)
            for logged in self._verify_rows(batch):
                state = self._as_of(logged, where)
                if where.matches(state.row):
                    yield state
        self._require_columns(where, first=end, by_bytes=by_bytes)

    def by_moment(
        self,
        where: Filter = _CURRENT,
        *,
        oldest_first: bool = False,
        after: int | None = None,
        likely: Likely | None = None,
    ) -> Iterator[VerifiedRecord]:
        """Yield the records that match a filter by when they happened or were made, newest first.

        A record without a time counts from its arrival.

        Args:
            where: The filter.
            oldest_first: Reverse the order.
            after: Continue after the record at this log position.
            likely: See ``scan``.

        Raises:
            VerificationError: As ``scan``.
            UsageError: If ``after`` is not the log position of a record.
        """
        self._require_columns(where, by_bytes=likely is not None)
        self.require_columns("moment")
        start = None if after is None else _moment_of(self._visible(after).row)
        rows: Iterable[Row] = self._reader.scan(self._bank, where)
        if likely is not None:
            rows = (row for row in rows if not is_unlikely(row, likely))
        order = sorted(map(_moment_of, rows), reverse=not oldest_first)
        if start is not None:
            sign = 1 if oldest_first else -1
            order = [key for key in order if sign * ((key > start) - (key < start)) > 0]
        for batch in _growing(position for _, position in order):
            records = {logged.seq: logged for logged in self.at(sorted(batch))}
            for logged in (records[position] for position in batch if position in records):
                state = self._as_of(logged, where)
                if where.matches(state.row):
                    yield state

    def _visible(self, position: int) -> VerifiedRecord:
        records = self.at([position]) if 0 <= position < self.head.size else []
        if not records:
            raise UsageError(
                f"no record at position {position:,}",
                field="after",
                hint="Start again from the first page.",
            )
        return records[0]

    def _ahead(self, position: int) -> int:
        """Return the position up to which a backward read verifies: a quarter more each time."""
        return max(0, position - (self.head.size - position) // 4)

    def newest_of_sessions(
        self, sessions: Sequence[str], types: frozenset[str], *, after: int = -1
    ) -> Iterator[VerifiedRecord]:
        """Yield the newest current record of each of some sessions that has one, in any order.

        Args:
            sessions: Names of the sessions in their records.
            types: Only these types.
            after: Only after this log position; it and the records before it are not verified.

        Raises:
            VerificationError: As ``scan``.
        """
        where = Filter(types=types, session="")
        self._require_columns(where, first=after + 1)
        if isinstance(self._reader, SessionLookup):
            newest = self._reader.newest_of_sessions(self._bank, sessions, types)
            positions = [position for position in newest if position > after]
            for start in range(0, len(positions), _TOGETHER):
                yield from self.at(positions[start : start + _TOGETHER])
            return
        for session in sessions:
            where = Filter(types=types, session=session)
            yield from islice(self.newest(where, after=after), 1)

    def retired_since(self, size: int) -> Iterator[VerifiedRecord]:
        """Yield the records that were current as of ``size`` records and are not any more.

        They are returned as of then, the last retired first. Full text does not find them.
        """
        then = Filter(as_of=size)
        for some in _growing(self._fold.retired_since(size)):
            found = self.get(some)
            for identity in some:
                for logged in self._with_undone(identity, found.get(identity)):
                    shown = self._as_of(logged, then)
                    if logged.row.retired is not None and then.matches(shown.row):
                        yield shown

    def _with_undone(
        self, identity: str, logged: VerifiedRecord | None
    ) -> Iterator[VerifiedRecord]:
        """Yield a record, or for an import that was undone, its records."""
        if logged is not None:
            yield logged
        batch = self._fold.batch(identity)
        for first, last in batch.spans if batch is not None else ():
            for start in range(first, min(last + 1, self.head.size), _TOGETHER):
                yield from self._verify_rows(
                    self._at(range(start, min(last + 1, start + _TOGETHER)))
                )

    def size_at(self, moment: str) -> int:
        """Return the number of records in the log at a moment, by their arrival.

        If clocks went back, it is one of the positions at which the moment passed.
        """
        low, high = 0, self.head.size
        while low < high:
            middle = (low + high) // 2
            if self.arrival(middle) <= moment:
                low = middle + 1
            else:
                high = middle
        return low

    def arrival(self, position: int) -> str:
        """Return the arrival time of the record at a log position."""
        return self._at([position])[0].at

    def source_of(self, logged: VerifiedRecord) -> VerifiedRecord | None:
        """Return the source record of the import of a record; None if it was not imported."""
        return self.source_at(logged.row.batch) if logged.row.batch else None

    def source_at(self, batch: int) -> VerifiedRecord | None:
        """Return the source record of an import by the import's number; None if it was erased."""
        if batch not in self._sources:
            self._sources[batch] = next(iter(self._verify_rows(self._at([batch]))), None)
        return self._sources[batch]

    def promotions(self, identity: str) -> list[Promotion]:
        """Return the promotions of a record."""
        return self._fold.promotions(identity, self.head.size)

    def nearest(
        self, generation: Generation, vector: VectorValues, *, limit: int = 100
    ) -> list[tuple[VerifiedRecord, float]]:
        """Return current records with the most similar vectors, best first, with the cosine.

        The records are verified. Their vectors cannot be: they are beside the log.

        Raises:
            ValueRefusedError: If the vector is not one of the generation.
        """
        scores = dict(self.near(generation, vector, limit=limit))
        found = self.get(list(scores)).values()
        ranked = [(each, scores[each.record.id]) for each in found if _CURRENT.matches(each.row)]
        return sorted(ranked, key=lambda pair: (-pair[1], pair[0].seq))

    def generations(self) -> dict[Generation, int]:
        """Return the number of vectors in each generation of the bank."""
        return self._reader.vectors.generations(self._bank)

    def vectors(self, generation: Generation, ids: Sequence[str]) -> dict[str, tuple[float, ...]]:
        """Return the vectors of records by ID; they are not verified."""
        return self._reader.vectors.get(self._bank, generation, ids)

    def proofs(self, ids: Sequence[str]) -> dict[str, LeafProof]:
        """Return the inclusion proofs of records by ID, invisible ones included.

        Records that are not in the log are omitted.

        Raises:
            VerificationError: If the store's nodes do not lead to the head's root.
        """
        rows = self._reader.get(self._bank, ids)
        require_leaves(self._tree, self._bank, rows)
        paths = self._tree.paths([row.seq for row in rows])
        root, result = bytes.fromhex(self.head.root.removeprefix(ID_PREFIX)), dict[str, LeafProof]()
        for row in rows:
            path = [node.hex() for node in paths[row.seq]]
            proof = LeafProof(id=row.id, seq=row.seq, type=row.type, at=row.at, path=path)
            leaf = proof.leaf(self._bank)
            if not verify_audit_path(leaf, row.seq, self.head.size, paths[row.seq], root):
                raise VerificationError(f"the stored tree does not verify record {row.seq}")
            result[row.id] = proof
        return result

    def blob(self, digest: str) -> Iterator[bytes]:
        """Yield the chunks of a blob; the last one only if all of them have the digest.

        Raises:
            UnknownBlobError: If the store does not have it, before the first chunk.
            VerificationError: If it differs from what was stored; then the earlier chunks are
                invalid, too.
        """
        return verified_pieces(self._reader.blobs.get(self._bank, digest), digest)


def _moment_of(row: Row) -> tuple[str, int]:
    return row.moment or row.at, row.seq


def _growing(wanted: Iterable[_Some]) -> Iterator[list[_Some]]:
    """Yield growing lists, so that a caller that needs only the first items is fast."""
    rest, count = iter(wanted), _FEW
    while some := list(islice(rest, count)):
        yield some
        count = min(2 * count, _TOGETHER)
