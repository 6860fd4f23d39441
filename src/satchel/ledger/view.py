"""Reading a bank: what a store nominates, proved record by record before it is handed out."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from operator import attrgetter
from typing import Final

from satchel.errors import VerificationError
from satchel.ledger.erasure.returning import Erased
from satchel.ledger.folding import Said, Unchanged
from satchel.ledger.heads import TrustedHead, require_leaves, require_logged
from satchel.memory.records import Model
from satchel.ports.blobs import verified
from satchel.ports.rows import PENDING, Filter, Row, derive_row
from satchel.ports.store import Reader
from satchel.ports.vectors import Generation, Given
from satchel.seal.log import LeafProof
from satchel.seal.proved_tree import ProvedTree
from satchel.seal.records import PREFIX, Sealed
from satchel.seal.tree import audit_holds

_TOGETHER = 256

Likely = Callable[[bytes], bool]
"""Tells whether a record with these canonical bytes could be wanted."""

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
        self, reader: Reader, found: TrustedHead, tree: ProvedTree, removed: Sequence[int] = ()
    ) -> None:
        self.head: Final = found.head
        """The head that everything here is proved by."""
        self.signed: Final = found.stored.signed
        """The same head with its signature, as canonical JSON."""
        self.standing: Final = found.verdict.standing
        """Whether the bank is this machine's own, or a stranger's."""
        self.notes: Final = found.verdict.notes
        """Sentences for whoever reads: what this machine saw of the bank and was given up."""
        self._reader = reader
        self._tree = tree
        self._fold = found.fold
        self._bank = found.head.bank
        self._erased = Erased(found, removed)

    def get(self, ids: Sequence[str]) -> dict[str, Logged]:
        """Return records by id; those that are not here, or erased, are left out.

        Raises:
            VerificationError: If one is not what was logged.
        """
        rows = self._reader.get(self._bank, ids)
        return {logged.record.id: logged for logged in self._proved(rows)}

    def at(self, places: Sequence[int]) -> list[Logged]:
        """Return the records at places of the log, in its order; those not to be seen are left out.

        Raises:
            VerificationError: If one is not what was logged.
        """
        rows = self._reader.at(self._bank, places)
        return self._proved(sorted(rows, key=attrgetter("seq")))

    def starting(self, digits: str, *, limit: int) -> list[Logged]:
        """Return some records whose hash starts with hexadecimal digits.

        Each is proved. That the store knows no other is its word.

        Raises:
            VerificationError: If one is not what was logged, or starts otherwise.
        """
        found = self.get(self._reader.ids(self._bank, digits, limit=limit))
        for identity, logged in found.items():
            if not identity.startswith(PREFIX + digits):
                raise _misled(logged.row)
        return list(found.values())

    def said(self, logged: Logged, *, as_of: int | None = None) -> list[Said]:
        """Return what was said of a record, now or when the log had so many records."""
        size = self.head.size if as_of is None else min(as_of, self.head.size)
        return self._fold.said(logged.record.id, logged.seq, size)

    def versions(self, identity: str) -> set[str]:
        """Return the ids of what took one another's place, up to and from a record."""
        return self._fold.versions(identity, self.head.size)

    def unchanged(self, records: Iterable[Logged]) -> Unchanged:
        """Return what an append has to be given that builds on the standing of records."""
        seen = [(logged.record.id, logged.row.seq) for logged in records]
        return Unchanged(self.head.size, seen)

    def scan(
        self, wanted: Filter = _ALL, *, after: int = -1, likely: Likely | None = None
    ) -> Iterator[Logged]:
        """Yield the records that a filter wants, in the order of the log.

        Args:
            wanted: Which.
            after: Start after this place.
            likely: Tells by the bytes of a record, before it is proved, whether the caller could
                want it; only with a filter that wants records of some sort.

        Where the filter wants records of all sorts, none can be hidden: each place that the store
        leaves out has to have a reason in the log.

        Raises:
            VerificationError: If one is not what was logged, or is hidden.
        """
        rows, place = self._reader.scan(self._bank, wanted, after=after), max(after + 1, 0)
        if likely is not None:
            rows = (row for row in rows if row.body is None or likely(row.body))
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

    def told_at(self, places: Sequence[int]) -> dict[int, Logged]:
        """Return the records at places of which the log itself speaks, such as its statuses.

        Raises:
            VerificationError: If one is missing, or not what was logged.
        """
        rows = self._at(sorted(set(places)))
        return {logged.seq: logged for logged in self._proved(rows, pending=True)}

    def said_of(self, identity: str, as_of: int | None = None) -> list[Logged]:
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

    def retirement(self, row: Row, as_of: int | None = None) -> Said | None:
        """Return what ended the time in which a record was current; None while it is."""
        size = self.head.size if as_of is None else as_of
        return self._fold.retirement(row.id, row.seq, size)

    def erasure(self, identity: str) -> Logged | None:
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
            found += [(row.seq, row.id) for row in back]
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
                raise VerificationError(f"the stored tree does not prove record {row.seq}")
            found[row.id] = proof
        return found

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
                self._erased.require_reason(row)
                continue
            self._erased.require_kept(row)
            own = self._derived(row, *logged)
            if pending or own.retired != PENDING:
                proved.append(Logged(*logged, own))
        return proved

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
