"""Reading a bank: what a store nominates, proved record by record before it is handed out."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import TypeVar

from satchel.crypto.log import LeafProof, audit_holds
from satchel.crypto.sealed_records import PREFIX
from satchel.errors import UsageError, VerificationError
from satchel.ledger.heads import require_leaves
from satchel.ledger.projection import (
    Likely,
    LogImport,
    Precondition,
    Promotion,
    StatusEvent,
    VerifiedRecord,
    misled,
)
from satchel.ledger.proofs import VerifiedRows, is_unlikely
from satchel.ports.rows import Filter, Row, SessionLookup
from satchel.ports.store import UnfilteredSearch, verified_pieces
from satchel.ports.vectors import Generation, Given

_TOGETHER, _FEW = 256, 10
_MANY = 1024

_ALL = Filter(retired=True, held=True)
_CURRENT = Filter()
_NOW = (None, False, False)
_Some = TypeVar("_Some")


class View(VerifiedRows):
    """One consistent, verified view of a bank."""

    @property
    def whole(self) -> "View":
        """All of the bank: this view, unless it shows a part only (``ledger.scoped``)."""
        return self

    @property
    def is_whole(self) -> bool:
        """Whether everything in the bank can be seen here."""
        return self.whole is self

    def redaction(self, identity: str) -> VerifiedRecord | None:
        """Return the record by which an entry was redacted last; None for one that is whole."""
        found = self._fold.redaction(identity, self.head.size)
        return None if found is None else self.told_at([found[0]])[found[0]]

    def starting(self, digits: str, *, limit: int) -> list[VerifiedRecord]:
        """Return some records whose hash starts with hexadecimal digits.

        Raises:
            VerificationError: If one is not what was logged, or starts otherwise, or if the store
                has other ids than were logged.
        """
        self.require_columns("id")
        found = self.get(self._reader.ids(self._bank, digits, limit=limit))
        for identity, logged in found.items():
            if not identity.startswith(PREFIX + digits):
                raise misled(logged.row)
        return list(found.values())

    def nominated(self, digits: str, *, limit: int) -> list[str]:
        """Return ids that start so, erased ones too; ``places`` proves that they are there."""
        self.require_columns("id")
        return self._reader.ids(self._bank, digits, limit=limit)

    def said(self, logged: VerifiedRecord, *, as_of: int | None = None) -> list[StatusEvent]:
        """Return what was said of a record, now or when the log had so many records."""
        size = self.head.size if as_of is None else min(as_of, self.head.size)
        return self._fold.said(logged.record.id, logged.seq, size)

    def versions(self, identity: str) -> set[str]:
        """Return the ids of what took one another's place, up to and from a record."""
        return self._fold.versions(identity, self.head.size)

    def unchanged(self, records: Iterable[VerifiedRecord]) -> Precondition:
        """Return what an append has to be given that builds on the standing of records."""
        seen = [(logged.record.id, logged.row.seq) for logged in records]
        return Precondition(self.head.size, seen)

    def pending(self, source: str, *, after: int = -1) -> Iterator[VerifiedRecord]:
        """Yield the records of an import that is not complete, in the order of the log.

        Args:
            source: Id of its source record.
            after: Start after this place of the log.
        """
        batch = self._fold.batch(source)
        spans = batch.spans if batch is not None and batch.is_open(self.head.size) else []
        for first, last in spans:
            for start in range(max(first, after + 1), min(last + 1, self.head.size), _TOGETHER):
                places = range(start, min(last + 1, start + _TOGETHER))
                yield from self._proved(self._at(places), pending=True)

    def held(self, source: str) -> Iterator[Row]:
        """Yield the rows of an import that is not complete, in the order of the log.

        Each is proved to have the id that was logged at its place. Its bytes are not looked at: who
        knows the record that has this id can compare them.

        Args:
            source: Id of its source record.
        """
        batch = self._fold.batch(source)
        spans = batch.spans if batch is not None and batch.is_open(self.head.size) else []
        for first, last in spans:
            end = min(last + 1, self.head.size)
            for start in range(first, end, _MANY):
                yield from self._at(range(start, min(end, start + _MANY)))

    def places(self, ids: Sequence[str]) -> dict[str, int]:
        """Return where records are in the log, also those that are erased or not visible yet."""
        rows = self._reader.get(self._bank, ids)
        require_leaves(self._tree, self._bank, rows)
        return {row.id: row.seq for row in rows}

    def told_at(self, places: Sequence[int]) -> dict[int, VerifiedRecord]:
        """Return the records at places of which the log itself speaks, such as its statuses.

        Raises:
            VerificationError: If one is missing, or not what was logged.
        """
        rows = self._at(sorted(set(places)))
        return {logged.seq: logged for logged in self._proved(rows, pending=True)}

    def said_of(self, identity: str, as_of: int | None = None) -> list[VerifiedRecord]:
        """Return the status records that name a record and count, in the order they count in."""
        places = self._fold.said_of(identity, self.head.size if as_of is None else as_of)
        found = self.told_at(places) if places else {}
        return [found[place] for place in places]

    def rows(self, places: Sequence[int]) -> list[Row]:
        """Return what the log has of places, erased or not: leaves and standing, nothing else."""
        size = self.head.size
        return [
            row.erased().changed(self._fold.standing(row.id, row.seq, size))
            for row in self._at(sorted(set(places)))
        ]

    def retirement(self, row: Row, as_of: int | None = None) -> StatusEvent | None:
        """Return what ended the time in which a record was current; None while it is."""
        size = self.head.size if as_of is None else as_of
        return self._fold.retirement(row.id, row.seq, size)

    def erasure(self, identity: str) -> VerifiedRecord | None:
        """Return the record by which a record was erased, or that says so of one elsewhere."""
        place = self._fold.erased_at(identity)
        return None if place is None or place >= self.head.size else self.told_at([place])[place]

    def open_imports(self) -> list[str]:
        """Return the ids of the source records of imports that are not complete."""
        return [one.source for one in self.imports() if not one.complete]

    def returned(self) -> list[tuple[int, str]]:
        """Return the places and ids of records that this machine erased and that are back.

        So it is when a store was put back from before they were erased.
        """
        found = list[tuple[int, str]]()
        for start in range(0, len(self._erased.removed), _TOGETHER):
            rows = self._at(self._erased.removed[start : start + _TOGETHER])
            back = (row for row in rows if row.body is not None and row not in self._erased)
            found += [(row.seq, row.id) for row in back if self._redacted(row) is None]
        return found

    def imports(self) -> list[LogImport]:
        """Return the imports of the bank, in the order in which they began."""
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
        """Yield the records of a complete import that are still there, in the order of the log."""
        batch = self._fold.batch(source)
        for first, last in batch.spans if batch is not None else ():
            for start in range(first, min(last + 1, self.head.size), _TOGETHER):
                places = range(start, min(last + 1, start + _TOGETHER, self.head.size))
                yield from self._proved(self._at(places))

    def side(self, prefix: str) -> dict[str, bytes]:
        """Return unlogged values by name; nothing proves them."""
        return self._reader.side(self._bank, prefix)

    def candidates(
        self, text: str, *, limit: int = 100, wanted: Filter | None = None
    ) -> list[tuple[VerifiedRecord, float]]:
        """Return current records whose words may match, best first, with a score."""
        return list(self.ranked(self.nominees(text, limit=limit, wanted=wanted), wanted))

    def nominees(self, text: str, *, limit: int, wanted: Filter | None = None) -> dict[int, float]:
        """Return the places and scores of current records that words nominate, best first.

        Nothing of it is proved. Fewer than ``limit`` are all there are. Whoever leaves some out for
        their standing has it verified: ``require_excluded``.

        Args:
            text: Words.
            limit: How many at most.
            wanted: Leaves out what it does not nominate.
        """
        hidden = self._fold.open_spans(self.head.size)
        find = partial(self._reader.candidates, self._bank, text, limit=limit, without=hidden)
        is_current = wanted is None or (wanted.as_of, wanted.retired, wanted.held) == _NOW
        if is_current and self._is_sparing():
            if wanted is None:
                return dict(find())
            self._require_columns(wanted, standing=False)
            # In an index of words alone nothing is retired. Where nothing that is nominated has a
            # mark, the filter's condition that it has none leaves nothing out.
            found = dict(find(wanted=replace(wanted, retired=True, held=True)))
            if not self._has_marks(list(found)):
                return found
        self._require_columns(wanted or _CURRENT)
        return dict(find(wanted=wanted))

    def _has_marks(self, places: Sequence[int]) -> bool:
        rows = self._reader.at(self._bank, places)
        return any(row.retired is not None or row.hold for row in rows)

    def _is_sparing(self) -> bool:
        """Tell whether rows that words nominate are verified as they are met."""
        return isinstance(self._reader, UnfilteredSearch) and self._columns.is_sparing(
            self, self._stamp
        )

    def ranked(
        self, scores: Mapping[int, float], wanted: Filter | None = None
    ) -> Iterator[tuple[VerifiedRecord, float]]:
        """Yield the current records among places, in their order; each is proved when it comes.

        Args:
            scores: Places, as ``nominees`` returns them.
            wanted: Leaves out those that it does not want.
        """
        for some in _growing(scores):
            proved = {one.seq: one for one in self._proved(self._reader.at(self._bank, some))}
            for logged in (proved[seq] for seq in some if seq in proved):
                shown = self._as_of(logged, wanted or _CURRENT)
                if _CURRENT.matches(logged.row) and (wanted or _CURRENT).matches(shown.row):
                    yield shown, scores[logged.seq]

    def nominal(self, places: Sequence[int]) -> dict[int, Row]:
        """Return what the store has at places of the log, to put them in an order by.

        Nothing of it is proved: whoever shows one gets it from ``ranked``.
        """
        return {row.seq: row for row in self._reader.at(self._bank, places)}

    def near(self, generation: Generation, vector: Given, *, limit: int) -> list[tuple[str, float]]:
        """Return the ids of current records whose vectors are most like one, with the cosine.

        Every vector is looked at. Nothing of it is proved.
        """
        self.require_columns()
        return self._reader.vectors.near(self._bank, generation, vector, limit=limit)

    def newest(
        self, wanted: Filter = _CURRENT, *, after: int = -1, likely: Likely | None = None
    ) -> Iterator[VerifiedRecord]:
        """Yield the records that a filter wants, the last of the log first.

        Args:
            wanted: Which.
            after: Stop at this position; it and what is before it are not verified.
            likely: As ``scan`` takes it.

        What is hidden is noticed where it would come, not before: who stops early reads, and
        verifies, no more than what is behind.

        Raises:
            VerificationError: As ``scan``.
        """
        by_bytes = likely is not None
        rows = self._reader.scan(self._bank, wanted, after=after, newest_first=True)
        count, end = _FEW, after + 1
        if likely is not None:
            rows = (row for row in rows if not is_unlikely(row, likely))
        while some := list(islice(rows, count)):
            first = max(end, self._ahead(some[-1].seq)) if len(some) == count else end
            self._require_columns(wanted, first=first, by_bytes=by_bytes)
            count = min(2 * count, _TOGETHER)
            for logged in self._proved(some):
                shown = self._as_of(logged, wanted)
                if wanted.matches(shown.row):
                    yield shown
        self._require_columns(wanted, first=end, by_bytes=by_bytes)

    def by_moment(
        self,
        wanted: Filter = _CURRENT,
        *,
        oldest_first: bool = False,
        after: int | None = None,
        likely: Likely | None = None,
    ) -> Iterator[VerifiedRecord]:
        """Yield the records that a filter wants by when they happened or were made, newest first.

        A record that says neither counts from when it arrived.

        Args:
            wanted: Which.
            oldest_first: The other way round.
            after: Continue after the record at this position.
            likely: As ``scan`` takes it.

        Raises:
            VerificationError: As ``scan``.
            UsageError: If ``after`` is not the position of a record.
        """
        self._require_columns(wanted, by_bytes=likely is not None)
        self.require_columns("moment")
        start = None if after is None else _moment_of(self._visible(after).row)
        rows: Iterable[Row] = self._reader.scan(self._bank, wanted)
        if likely is not None:
            rows = (row for row in rows if not is_unlikely(row, likely))
        order = sorted(map(_moment_of, rows), reverse=not oldest_first)
        if start is not None:
            sign = 1 if oldest_first else -1
            order = [key for key in order if sign * ((key > start) - (key < start)) > 0]
        for some in _growing(position for _, position in order):
            there = {logged.seq: logged for logged in self.at(sorted(some))}
            for logged in (there[position] for position in some if position in there):
                shown = self._as_of(logged, wanted)
                if wanted.matches(shown.row):
                    yield shown

    def _visible(self, position: int) -> VerifiedRecord:
        found = self.at([position]) if 0 <= position < self.head.size else []
        if not found:
            raise UsageError(
                f"no record at position {position:,}",
                field="after",
                hint="Start again from the first page.",
            )
        return found[0]

    def _ahead(self, position: int) -> int:
        """Return from where on to verify what is read backwards: each time a quarter more."""
        return max(0, position - (self.head.size - position) // 4)

    def newest_of_sessions(
        self, sessions: Sequence[str], types: frozenset[str], *, after: int = -1
    ) -> Iterator[VerifiedRecord]:
        """Yield the newest current record of each of some sessions that has one, in any order.

        Args:
            sessions: What their records name them by.
            types: Of these types only.
            after: After this position only; it and what is before it are not verified.

        Raises:
            VerificationError: As ``scan``.
        """
        wanted = Filter(types=types, session="")
        self._require_columns(wanted, first=after + 1)
        if isinstance(self._reader, SessionLookup):
            newest = self._reader.newest_of_sessions(self._bank, sessions, types)
            places = [place for place in newest if place > after]
            for start in range(0, len(places), _TOGETHER):
                yield from self.at(places[start : start + _TOGETHER])
            return
        for session in sessions:
            wanted = Filter(types=types, session=session)
            yield from islice(self.newest(wanted, after=after), 1)

    def retired_since(self, size: int) -> Iterator[VerifiedRecord]:
        """Yield what was current when the log had ``size`` records and is not any more.

        As it was then, what was retired last first. Full text does not find these.
        """
        then = Filter(as_of=size)
        for some in _growing(self._fold.retired_since(size)):
            found = self.get(some)
            for identity in some:
                for logged in self._whole(identity, found.get(identity)):
                    shown = self._as_of(logged, then)
                    if logged.row.retired is not None and then.matches(shown.row):
                        yield shown

    def _whole(self, identity: str, logged: VerifiedRecord | None) -> Iterator[VerifiedRecord]:
        """Yield a record; of an import that was taken back, its records."""
        if logged is not None:
            yield logged
        batch = self._fold.batch(identity)
        for first, last in batch.spans if batch is not None else ():
            for start in range(first, min(last + 1, self.head.size), _TOGETHER):
                yield from self._proved(self._at(range(start, min(last + 1, start + _TOGETHER))))

    def size_at(self, moment: str) -> int:
        """Return how many records the log had at a moment, by when they arrived.

        Where clocks went back, one of the places at which the moment passed.
        """
        low, high = 0, self.head.size
        while low < high:
            middle = (low + high) // 2
            if self.arrival(middle) <= moment:
                low = middle + 1
            else:
                high = middle
        return low

    def arrival(self, place: int) -> str:
        """Return when the record at a place of the log arrived."""
        return self._at([place])[0].at

    def source_of(self, logged: VerifiedRecord) -> VerifiedRecord | None:
        """Return the source record of the import that a record came with; None for none."""
        return self.source_at(logged.row.batch) if logged.row.batch else None

    def source_at(self, batch: int) -> VerifiedRecord | None:
        """Return the source record of an import by the import's number; None if it was erased."""
        if batch not in self._sources:
            self._sources[batch] = next(iter(self._proved(self._at([batch]))), None)
        return self._sources[batch]

    def promotions(self, identity: str) -> list[Promotion]:
        """Return what raises the trust in a record."""
        return self._fold.promotions(identity, self.head.size)

    def nearest(
        self, generation: Generation, vector: Given, *, limit: int = 100
    ) -> list[tuple[VerifiedRecord, float]]:
        """Return current records whose vectors are most like one, best first, with the cosine.

        The records are proved. Their vectors cannot be: they are beside the log.

        Raises:
            ValueRefusedError: If the vector is not one of the generation.
        """
        scores = dict(self.near(generation, vector, limit=limit))
        found = self.get(list(scores)).values()
        ranked = [(each, scores[each.record.id]) for each in found if _CURRENT.matches(each.row)]
        return sorted(ranked, key=lambda pair: (-pair[1], pair[0].seq))

    def generations(self) -> dict[Generation, int]:
        """Return how many vectors each generation of the bank has."""
        return self._reader.vectors.generations(self._bank)

    def vectors(self, generation: Generation, ids: Sequence[str]) -> dict[str, tuple[float, ...]]:
        """Return the vectors of records by id; nothing proves them."""
        return self._reader.vectors.get(self._bank, generation, ids)

    def proofs(self, ids: Sequence[str]) -> dict[str, LeafProof]:
        """Return the proofs that records were logged, by id, also of those that nobody sees.

        Records that are not in the log are left out.

        Raises:
            VerificationError: If the store does not prove one.
        """
        rows = self._reader.get(self._bank, ids)
        require_leaves(self._tree, self._bank, rows)
        paths = self._tree.paths([row.seq for row in rows])
        root, found = bytes.fromhex(self.head.root.removeprefix(PREFIX)), dict[str, LeafProof]()
        for row in rows:
            path = [node.hex() for node in paths[row.seq]]
            proof = LeafProof(id=row.id, seq=row.seq, type=row.type, at=row.at, path=path)
            leaf = proof.leaf(self._bank)
            if not audit_holds(leaf, row.seq, self.head.size, paths[row.seq], root):
                raise VerificationError(f"the stored tree does not verify record {row.seq}")
            found[row.id] = proof
        return found

    def blob(self, digest: str) -> Iterator[bytes]:
        """Yield the pieces of a blob; its last piece only when all of them have the digest.

        Raises:
            UnknownBlobError: If it is not there, before the first piece is asked for.
            VerificationError: If it is not what was put there; what came before is not, either.
        """
        return verified_pieces(self._reader.blobs.get(self._bank, digest), digest)


def _moment_of(row: Row) -> tuple[str, int]:
    return row.moment or row.at, row.seq


def _growing(wanted: Iterable[_Some]) -> Iterator[list[_Some]]:
    """Yield few, then more at a time: who needs only the first does not pay for the rest."""
    rest, count = iter(wanted), _FEW
    while some := list(islice(rest, count)):
        yield some
        count = min(2 * count, _TOGETHER)
