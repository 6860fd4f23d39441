"""Reading a bank: what a store nominates, proved record by record before it is handed out."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from operator import attrgetter
from typing import Final, TypeVar

from satchel.errors import VerificationError
from satchel.ledger.folding import Promotion, Said, Unchanged
from satchel.ledger.heads import TrustedHead, require_leaves, require_logged
from satchel.ledger.logged import Import, Likely, Logged, misled
from satchel.memory.records import Model
from satchel.ports.blobs import verified
from satchel.ports.rows import PENDING, Filter, Row, derive_row
from satchel.ports.store import Reader
from satchel.ports.vectors import Generation, Given
from satchel.seal.log import LeafProof
from satchel.seal.proved_tree import ProvedTree
from satchel.seal.records import PREFIX, Sealed
from satchel.seal.tree import audit_holds

_TOGETHER, _FEW = 256, 10

_ALL = Filter(retired=True, held=True)
_CURRENT = Filter()
_Some = TypeVar("_Some")


class View:
    """One consistent, verified view of a bank."""

    def __init__(self, reader: Reader, found: TrustedHead, tree: ProvedTree) -> None:
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
        self._sources: dict[int, Logged | None] = {}

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
                raise misled(logged.row)
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
                    raise misled(logged.row)
        if wanted.is_plain:
            end = self.head.size if wanted.as_of is None else min(wanted.as_of, self.head.size)
            self._explain(range(place, end), wanted)

    def current(self, slot: str) -> Logged | None:
        """Return the current record of a slot."""
        row = self._reader.current(self._bank, slot)
        found = [] if row is None else self._proved([row])
        if found and (found[0].row.slot != slot or found[0].row.retired is not None):
            raise misled(found[0].row)
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
                raise misled(logged.row)
            yield logged

    def candidates(
        self, text: str, *, limit: int = 100, wanted: Filter | None = None
    ) -> list[tuple[Logged, float]]:
        """Return current records whose words may match, best first, with a score."""
        return list(self.ranked(self.nominees(text, limit=limit, wanted=wanted), wanted))

    def nominees(self, text: str, *, limit: int, wanted: Filter | None = None) -> dict[int, float]:
        """Return the places and scores of current records that words nominate, best first.

        Nothing of it is proved. Fewer than ``limit`` are all there are.

        Args:
            text: Words.
            limit: How many at most.
            wanted: Leaves out what it does not nominate.
        """
        hidden = self._fold.open_spans(self.head.size)
        found = self._reader.candidates(
            self._bank, text, limit=limit, wanted=wanted, without=hidden
        )
        return dict(found)

    def ranked(
        self, scores: Mapping[int, float], wanted: Filter | None = None
    ) -> Iterator[tuple[Logged, float]]:
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

    def newest(self, wanted: Filter = _CURRENT) -> Iterator[Logged]:
        """Yield the records that a filter wants, the last of the log first.

        What a store leaves out is not looked for here; ``scan`` does.
        """
        rows, count = self._reader.scan(self._bank, wanted, newest_first=True), _FEW
        while some := list(islice(rows, count)):
            count = min(2 * count, _TOGETHER)
            for logged in self._proved(some):
                shown = self._as_of(logged, wanted)
                if wanted.matches(shown.row):
                    yield shown

    def retired_since(self, size: int) -> Iterator[Logged]:
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

    def _whole(self, identity: str, logged: Logged | None) -> Iterator[Logged]:
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

    def source_of(self, logged: Logged) -> Logged | None:
        """Return the source record of the import that a record came with; None for none."""
        return self.source_at(logged.row.batch) if logged.row.batch else None

    def source_at(self, batch: int) -> Logged | None:
        """Return the source record of an import by the import's number; None if it was erased."""
        if batch not in self._sources:
            self._sources[batch] = next(iter(self._proved(self._at([batch]))), None)
        return self._sources[batch]

    def promotions(self, identity: str) -> list[Promotion]:
        """Return what raises the trust in a record."""
        return self._fold.promotions(identity, self.head.size)

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
                self._require_erased(row)
                continue
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

    def _derived(self, row: Row, record: Sealed, model: Model) -> Row:
        """Return the columns of a record, and refuse a store that has others."""
        batch = self._fold.batch_number(row.seq)
        own = derive_row(model, seq=row.seq, at=row.at, body=record.body, batch=batch)
        own = own.changed(self._fold.standing(record.id, row.seq, self.head.size))
        if row.columns() != own.columns():
            raise misled(row)
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
                    raise misled(row)

    def _at(self, places: Sequence[int]) -> list[Row]:
        """Return the rows at places, proved to be the ones that were logged there."""
        rows = sorted(self._reader.at(self._bank, places), key=attrgetter("seq"))
        if [row.seq for row in rows] != list(places):
            raise VerificationError(
                "records are missing", hint="The store was changed from outside."
            )
        require_leaves(self._tree, self._bank, rows)
        return rows


def _growing(wanted: Iterable[_Some]) -> Iterator[list[_Some]]:
    """Yield few, then more at a time: who needs only the first does not pay for the rest."""
    rest, count = iter(wanted), _FEW
    while some := list(islice(rest, count)):
        yield some
        count = min(2 * count, _TOGETHER)
