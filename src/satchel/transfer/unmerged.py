"""What only one of two copies has, where both went on: read, proved, and told apart.

Source: docs/spec/5-log.md, 5.9.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from satchel.ledger.authority import DECISIONS
from satchel.ledger.folding import CLOSED, GROUP
from satchel.ledger.heads import require_logged
from satchel.memory.records import Config, Erasure, Model, Receipt, Source
from satchel.ports.rows import PENDING, Filter, Row
from satchel.ports.store import Reader
from satchel.seal.records import PREFIX, Sealed
from satchel.transfer.copies import Copy, blobs_named, tail

FORMAT = "satchel-merge"
"""What the source record of a merge says its format is."""

_SOURCES = Filter(types=frozenset({"source"}), retired=True, held=True)


class Conflict(NamedTuple):
    """One thing of which both copies had a current record."""

    kept: str
    """Id of the record that stays current."""

    superseded: str


@dataclass(slots=True)
class Merged:
    """What a merge did, or would do."""

    taken: dict[str, int] = field(default_factory=dict)
    """Records taken in, by type."""

    known: int = 0
    """Records that were here already."""

    erased: int = 0
    """Records that are erased in one of the copies, so that they do not come."""

    waiting: int = 0
    """Records of imports that are not complete there."""

    decisions: int = 0
    """Decisions about the other log as a whole, which cannot be taken over."""

    emptied: int = 0
    """Records here that were emptied, since they are erased there."""

    blobs: int = 0
    blobs_missing: int = 0
    conflicts: int = 0
    first_conflicts: list[Conflict] = field(default_factory=list)

    @property
    def records(self) -> int:
        """How many were taken in."""
        return sum(self.taken.values())

    def count(self, record: Sealed) -> None:
        """Count a record that is taken in."""
        self.taken[record.type] = self.taken.get(record.type, 0) + 1


class New(NamedTuple):
    """A record that only the other copy has."""

    record: Sealed
    batch: str | None
    """Id of the source record of its import there."""


def planned(source: Copy, target: Copy, common: int) -> Merged:
    """Return what a merge would take in; conflicts are not known before."""
    found = Merged()
    reading = Unmerged(source, target, common, found)
    for new in reading.new():
        found.count(new.record)
    for record in reading.erasures:
        found.count(record)
    return found


class Unmerged:
    """Reads what only one copy has."""

    def __init__(self, source: Copy, target: Copy, common: int, found: Merged) -> None:
        self.erasures: list[Sealed] = []
        """Those there that are not here; they are no part of an import."""

        self.closed: list[str] = []
        """The imports that were completed there, in that order."""

        self.blobs: set[str] = set()
        self._source = source
        self._target = target
        self._found = found
        self._start = max(common, _merged_before(source, target))
        self._batches: dict[int, str] = {}

    @property
    def places(self) -> range:
        """The part of the log that is read."""
        return range(self._start, self._source.size)

    def new(self) -> Iterator[New]:
        """Yield the records, in the order of the log there."""
        fold, size = self._source.found.fold, self._source.size
        for some in tail(self._source, self._start):
            known = self._known(some)
            self.blobs.update(blobs_named(some))
            for row, logged in some:
                if logged is None:
                    self._found.erased += 1
                    continue
                record, model = logged
                record.model = model
                if isinstance(model, Erasure) and row.id not in known:
                    self.erasures.append(record)
                    continue
                if self._is_about_the_log(row, model):
                    continue
                if row.id in known:
                    self._found.known += 1
                elif self._is_erased(row.id):
                    self._found.erased += 1
                elif fold.standing(row.id, row.seq, size).retired == PENDING:
                    self._found.waiting += 1
                else:
                    yield New(record, self._batch(fold.batch_number(row.seq)))

    def _is_about_the_log(self, row: Row, model: Model) -> bool:
        """Tell whether a record says something of the log itself, and count it."""
        if isinstance(model, Source):
            return model.format == FORMAT
        if isinstance(model, Config):
            is_decision = model.action in DECISIONS
            self._found.decisions += is_decision
            return is_decision
        if isinstance(model, Receipt) and model.action == CLOSED:
            name = str(model.result.get("source"))
            batch = self._source.found.fold.batch(name)
            if batch is not None and batch.closed == row.seq:
                self.closed.append(name)
            return True
        return isinstance(model, Receipt) and model.action == GROUP

    def _known(self, some: Sequence[tuple[Row, Any]]) -> set[str]:
        rows = self._target.reader.get(self._target.bank, [row.id for row, _ in some])
        return {row.id for row in rows}

    def _is_erased(self, identity: str) -> bool:
        return self._target.found.fold.is_erased(identity, self._target.size)

    def _batch(self, number: int) -> str | None:
        if not number:
            return None
        if number not in self._batches:
            (row,) = self._source.reader.at(self._source.bank, [number])
            self._batches[number] = row.id
        return self._batches[number]


def sources(reader: Reader, copy: Copy) -> Iterator[tuple[Row, Source]]:
    """Yield the proved source records of a copy."""
    rows = list(reader.scan(copy.bank, _SOURCES))
    for row, logged in zip(rows, require_logged(copy.tree, copy.bank, rows), strict=True):
        if logged is not None and isinstance(logged[1], Source):
            yield row, logged[1]


def _merged_before(source: Copy, target: Copy) -> int:
    """Return up to where a copy's log was taken in already, by merges that were completed."""
    best = 0
    for row, model in sources(target.reader, target):
        batch = target.found.fold.batch(row.id)
        mark = model.container.get("merged")
        if model.format != FORMAT or not isinstance(mark, dict) or batch is None:
            continue
        size, done = mark.get("size"), mark.get("done")
        if (
            batch.closed is not None
            and isinstance(size, int)
            and isinstance(done, int)
            and 0 < done <= size <= source.size
            and PREFIX + source.tree.root_at(size).hex() == mark.get("root")
        ):
            best = max(best, done)
    return best
