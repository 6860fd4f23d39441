"""Reading a bank: what a store nominates, proved record by record before it is handed out."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from operator import attrgetter
from typing import Final

from satchel.errors import VerificationError
from satchel.ledger.blobs import verified
from satchel.ledger.epochs import Verdict
from satchel.ledger.folding import Fold, Retirement
from satchel.ledger.heads import require_leaves, require_logged
from satchel.memory.records import Model
from satchel.ports.rows import PENDING, Filter, Row, derive_row
from satchel.ports.store import Reader
from satchel.ports.vectors import Generation, Given
from satchel.seal.log import Head
from satchel.seal.proved_tree import ProvedTree
from satchel.seal.records import Sealed

_TOGETHER = 256
_ALL = Filter(retired=True, held=True)
_CURRENT = Filter()


@dataclass(frozen=True, slots=True)
class Logged:
    """A record, proved to stand at its place in the log of its bank."""

    record: Sealed
    model: Model
    """Its typed value."""

    row: Row
    """Its columns, derived again from the bytes and the log; as they were at the moment asked."""

    @property
    def seq(self) -> int:
        """Its place in the log."""
        return self.row.seq


@dataclass(frozen=True, slots=True, kw_only=True)
class Import:
    """One import into a bank."""

    source: str
    """Id of its source record."""

    place: int
    """Place of that in the log."""

    records: int
    """How many records came with it so far, statuses included."""

    complete: bool
    """Whether its records were made visible."""

    undone: bool
    """Whether it was taken back."""


class View:
    """One consistent, verified view of a bank."""

    def __init__(
        self,
        reader: Reader,
        head: Head,
        tree: ProvedTree,
        fold: Fold,
        verdict: Verdict,
        removed: Sequence[int] = (),
    ) -> None:
        self.head: Final = head
        """The signed head that everything here is proved by."""
        self.standing: Final = verdict.standing
        """Whether the bank is this machine's own, or a stranger's."""
        self.notes: Final = verdict.notes
        """Sentences for whoever reads: what this machine saw of the bank and was given up."""
        self._reader = reader
        self._tree = tree
        self._fold = fold
        self._bank = head.bank
        # From where the log was taken up again it has other records, which nobody removed.
        end = verdict.given_up.size if verdict.given_up is not None else head.size
        self._removed = removed[: bisect_left(removed, end)]

    def get(self, ids: Sequence[str]) -> dict[str, Logged]:
        """Return records by id; those that are not here, or erased, are left out.

        Raises:
            VerificationError: If one is not what was logged.
        """
        rows = self._reader.get(self._bank, ids)
        return {logged.record.id: logged for logged in self._proved(rows)}

    def scan(self, wanted: Filter = _ALL, *, after: int = -1) -> Iterator[Logged]:
        """Yield the records that a filter wants, in the order of the log.

        Where the filter wants records of all sorts, none can be hidden: each place that the store
        leaves out has to have a reason in the log.

        Raises:
            VerificationError: If one is not what was logged, or is hidden.
        """
        rows, place = self._reader.scan(self._bank, wanted, after=after), max(after + 1, 0)
        while some := list(islice(rows, _TOGETHER)):
            if wanted.is_plain:
                there, end = {row.seq for row in some}, some[-1].seq
                self._explain([seq for seq in range(place, end) if seq not in there], wanted)
                place = end + 1
            for logged in self._proved(some):
                shown = self._as_of(logged, wanted)
                if wanted.matches(shown.row) and shown.row.retired != PENDING:
                    yield shown
                elif wanted.as_of is None:
                    raise _misled(logged.row)
        if wanted.is_plain:
            end = self.head.size if wanted.as_of is None else min(wanted.as_of, self.head.size)
            self._explain(range(place, end), wanted)

    def current(self, slot: str) -> Logged | None:
        """Return the current record of a slot."""
        row = self._reader.current(self._bank, slot)
        found = [] if row is None else self._proved([row])
        if found and (found[0].row.slot != slot or found[0].row.retired is not None):
            raise _misled(found[0].row)
        return found[0] if found else None

    def pending(self, source: str, *, after: int = -1) -> Iterator[Logged]:
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

    def places(self, ids: Sequence[str]) -> dict[str, int]:
        """Return where records are in the log, also those that are erased or not visible yet."""
        rows = self._reader.get(self._bank, ids)
        require_leaves(self._tree, self._bank, rows)
        return {row.id: row.seq for row in rows}

    def at(self, places: Sequence[int]) -> dict[int, Logged]:
        """Return records by their places, in order; those that are erased are left out.

        Raises:
            VerificationError: If one is missing, or not what was logged.
        """
        rows = self._at(sorted(set(places)))
        return {logged.seq: logged for logged in self._proved(rows, pending=True)}

    def said_of(self, identity: str, as_of: int | None = None) -> list[Logged]:
        """Return the status records that name a record and count, in the order they count in."""
        places = self._fold.said_of(identity, self.head.size if as_of is None else as_of)
        found = self.at(places) if places else {}
        return [found[place] for place in places]

    def rows(self, places: Sequence[int]) -> list[Row]:
        """Return what the log has of places, erased or not: leaves and standing, nothing else."""
        size = self.head.size
        return [
            row.erased().changed(self._fold.standing(row.id, row.seq, size))
            for row in self._at(sorted(set(places)))
        ]

    def retirement(self, row: Row, as_of: int | None = None) -> Retirement | None:
        """Return what ended the time in which a record was current; None while it is."""
        size = self.head.size if as_of is None else as_of
        return self._fold.retirement(row.id, row.seq, size)

    def erasure(self, identity: str) -> Logged | None:
        """Return the record by which a record was erased, or that says so of one elsewhere."""
        place = self._fold.erased_at(identity)
        return None if place is None or place >= self.head.size else self.at([place])[place]

    def open_imports(self) -> list[str]:
        """Return the ids of the source records of imports that are not complete."""
        return self._fold.open_imports(self.head.size)

    def returned(self) -> list[tuple[int, str]]:
        """Return the places and ids of records that this machine erased and that are back.

        So it is when a store was put back from before they were erased.
        """
        found = list[tuple[int, str]]()
        for start in range(0, len(self._removed), _TOGETHER):
            rows = self._at(self._removed[start : start + _TOGETHER])
            found += [
                (row.seq, row.id)
                for row in rows
                if row.body is not None and not self._fold.is_erased(row.id, self.head.size)
            ]
        return found

    def imports(self) -> list[Import]:
        """Return the imports of the bank, in the order in which they began."""
        size = self.head.size
        return [
            Import(
                source=batch.source,
                place=batch.number,
                records=sum(last - first + 1 for first, last in batch.spans),
                complete=not batch.is_open(size),
                undone=self._fold.is_undone(batch, size),
            )
            for batch in self._fold.batches()
            if batch.number < size
        ]

    def imported(self, source: str) -> Iterator[Logged]:
        """Yield the records of a complete import that are still there, in the order of the log."""
        batch = self._fold.batch(source)
        for first, last in batch.spans if batch is not None else ():
            for start in range(first, min(last + 1, self.head.size), _TOGETHER):
                places = range(start, min(last + 1, start + _TOGETHER, self.head.size))
                yield from self._proved(self._at(places))

    def side(self, prefix: str) -> dict[str, bytes]:
        """Return unlogged values by name; nothing proves them."""
        return self._reader.side(self._bank, prefix)

    def neighbours(self, end: str, *, incoming: bool = False) -> Iterator[Logged]:
        """Yield the records with a link that starts, or ends, at a record's id."""
        rows = list(self._reader.neighbours(self._bank, end, incoming=incoming))
        for logged in self._proved(rows):
            ends = [link.target if incoming else link.source for link in logged.row.links]
            if end not in ends:
                raise _misled(logged.row)
            yield logged

    def candidates(self, text: str, *, limit: int = 100) -> list[tuple[Logged, float]]:
        """Return current records whose words may match, best first, with a score."""
        hidden = self._fold.open_spans(self.head.size)
        found = self._reader.candidates(self._bank, text, limit=limit, without=hidden)
        scores = dict(found)
        rows = self._reader.at(self._bank, list(scores))
        shown = [logged for logged in self._proved(rows) if _CURRENT.matches(logged.row)]
        ranked = [(logged, scores[logged.seq]) for logged in shown]
        return sorted(ranked, key=lambda pair: (-pair[1], pair[0].seq))

    def nearest(
        self, generation: Generation, vector: Given, *, limit: int = 100
    ) -> list[tuple[Logged, float]]:
        """Return current records whose vectors are most like one, best first, with the cosine.

        The records are proved. Their vectors cannot be: they are beside the log.

        Raises:
            ValueRefusedError: If the vector is not one of the generation.
        """
        scores = dict(self._reader.vectors.near(self._bank, generation, vector, limit=limit))
        found = self.get(list(scores)).values()
        ranked = [(each, scores[each.record.id]) for each in found if _CURRENT.matches(each.row)]
        return sorted(ranked, key=lambda pair: (-pair[1], pair[0].seq))

    def blob(self, digest: str) -> Iterator[bytes]:
        """Yield the pieces of a blob; its last piece only when all of them have the digest.

        Raises:
            UnknownBlobError: If it is not there, before the first piece is asked for.
            VerificationError: If it is not what was put there; what came before is not, either.
        """
        return verified(self._reader.blobs.get(self._bank, digest), digest)

    def _proved(self, rows: list[Row], *, pending: bool = False) -> list[Logged]:
        """Prove rows, and leave out what nobody sees."""
        found = require_logged(self._tree, self._bank, rows)
        proved = []
        for row, logged in zip(rows, found, strict=True):
            if logged is None:
                self._require_erased(row)
                continue
            self._require_kept(row)
            own = self._derived(row, *logged)
            if pending or own.retired != PENDING:
                proved.append(Logged(*logged, own))
        return proved

    def _require_erased(self, row: Row) -> None:
        if not self._fold.is_erased(row.id, self.head.size):
            raise VerificationError(
                f"record {row.seq} is empty, and nobody erased it",
                hint="The store was changed from outside. See: satchel doctor.",
            )

    def _require_kept(self, row: Row) -> None:
        """Refuse the bytes of a record that was erased, by the log or on this machine."""
        if self._fold.has_erasures and self._fold.is_erased(row.id, self.head.size):
            raise VerificationError(
                f"record {row.seq} was erased, and has its bytes again",
                hint="The store was changed from outside. See: satchel doctor --repair.",
            )
        if self._is_removed(row.seq):
            raise VerificationError(
                f"record {row.seq} was erased on this machine, and the store that was put back has"
                " it again",
                hint="An owner erases it once more: satchel banks accept-loss.",
            )

    def _is_removed(self, seq: int) -> bool:
        at = bisect_left(self._removed, seq)
        return at < len(self._removed) and self._removed[at] == seq

    def _derived(self, row: Row, record: Sealed, model: Model) -> Row:
        """Return the columns of a record, and refuse a store that has others."""
        batch = self._fold.batch_number(row.seq)
        own = derive_row(model, seq=row.seq, at=row.at, body=record.body, batch=batch)
        own = own.changed(self._fold.standing(record.id, row.seq, self.head.size))
        if row.columns() != own.columns():
            raise _misled(row)
        return own

    def _as_of(self, logged: Logged, wanted: Filter) -> Logged:
        if wanted.as_of is None:
            return logged
        size = min(wanted.as_of, self.head.size)
        then = self._fold.standing(logged.record.id, logged.seq, size)
        return replace(logged, row=logged.row.changed(then))

    def _explain(self, places: Sequence[int], wanted: Filter) -> None:
        """Require that records were left out for what the log says of them."""
        size = self.head.size if wanted.as_of is None else min(wanted.as_of, self.head.size)
        for start in range(0, len(places), _TOGETHER):
            for row in self._at(places[start : start + _TOGETHER]):
                then = row.changed(self._fold.standing(row.id, row.seq, size))
                if wanted.matches(then):
                    raise _misled(row)

    def _at(self, places: Sequence[int]) -> list[Row]:
        """Return the rows at places, proved to be the ones that were logged there."""
        rows = sorted(self._reader.at(self._bank, places), key=attrgetter("seq"))
        if [row.seq for row in rows] != list(places):
            raise VerificationError(
                "records are missing", hint="The store was changed from outside."
            )
        require_leaves(self._tree, self._bank, rows)
        return rows


def _misled(row: Row) -> VerificationError:
    return VerificationError(
        f"the index says something else of record {row.seq} than the record does",
        hint="The store was changed from outside. See: satchel doctor.",
    )
