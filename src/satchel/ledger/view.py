"""Reading a bank: what a store nominates, proved record by record before it is handed out."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Final

from satchel.errors import VerificationError
from satchel.ledger.epochs import OWN, Verdict
from satchel.ledger.heads import require_logged
from satchel.memory.records import Erasure, Model
from satchel.ports.rows import Filter, Row, derive_row
from satchel.ports.store import Reader
from satchel.seal.log import Head
from satchel.seal.proved_tree import ProvedTree
from satchel.seal.records import Sealed

_TOGETHER = 256
_ALL = Filter(retired=True, held=True)
_CURRENT = Filter()
_ERASURES = Filter(types=frozenset({"erasure"}), retired=True, held=True)


@dataclass(frozen=True, slots=True)
class Logged:
    """A record, proved to stand at its place in the log of its bank."""

    record: Sealed
    model: Model
    """Its typed value."""

    row: Row
    """Its columns, derived again from the bytes."""

    @property
    def seq(self) -> int:
        """Its place in the log."""
        return self.row.seq


class View:
    """One consistent, verified view of a bank."""

    def __init__(
        self, reader: Reader, head: Head, tree: ProvedTree, verdict: Verdict = OWN
    ) -> None:
        self.head: Final = head
        """The signed head that everything here is proved by."""
        self.standing: Final = verdict.standing
        """Whether the bank is this machine's own, or a stranger's."""
        self.notes: Final = verdict.notes
        """Sentences for whoever reads: what this machine saw of the bank and was given up."""
        self._reader = reader
        self._tree = tree
        self._bank = head.bank

    def get(self, ids: Sequence[str]) -> dict[str, Logged]:
        """Return records by id; those that are not here, or erased, are left out.

        Raises:
            VerificationError: If one is not what was logged.
        """
        rows = self._reader.get(self._bank, ids)
        return {logged.record.id: logged for logged in self._proved(rows)}

    def scan(self, wanted: Filter = _ALL, *, after: int = -1) -> Iterator[Logged]:
        """Yield the records that a filter wants, in the order of the log.

        Raises:
            VerificationError: If one is not what was logged.
        """
        rows = self._reader.scan(self._bank, wanted, after=after)
        while some := list(islice(rows, _TOGETHER)):
            for logged in self._proved(some):
                if not wanted.matches(logged.row):
                    raise _misled(logged.row)
                yield logged

    def current(self, slot: str) -> Logged | None:
        """Return the current record of a slot."""
        row = self._reader.current(self._bank, slot)
        found = [] if row is None else self._proved([row])
        if found and (found[0].row.slot != slot or found[0].row.retired is not None):
            raise _misled(found[0].row)
        return found[0] if found else None

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
        scores = dict(self._reader.candidates(self._bank, text, limit=limit))
        rows = self._reader.at(self._bank, list(scores))
        found = [logged for logged in self._proved(rows) if _CURRENT.matches(logged.row)]
        ranked = [(logged, scores[logged.seq]) for logged in found]
        return sorted(ranked, key=lambda pair: (-pair[1], pair[0].seq))

    def _proved(self, rows: list[Row]) -> list[Logged]:
        found = require_logged(self._tree, self._bank, rows)
        proved = []
        for row, logged in zip(rows, found, strict=True):
            if logged is not None:
                proved.append(Logged(*logged, _derived(row, *logged)))
            elif row.id not in self._erased:
                raise VerificationError(
                    f"record {row.seq} is empty, and nobody erased it",
                    hint="The store was changed from outside. See: satchel doctor.",
                )
        return proved

    @cached_property
    def _erased(self) -> frozenset[str]:
        """The ids of records whose bodies were taken away by a record that says so."""
        rows = list(self._reader.scan(self._bank, _ERASURES))
        found = require_logged(self._tree, self._bank, rows)
        models = [logged[1] for logged in found if logged is not None]
        return frozenset(model.entry for model in models if isinstance(model, Erasure))


def _derived(row: Row, record: Sealed, model: Model) -> Row:
    """Return the columns of a record from its own bytes, and refuse a store that has others."""
    own = derive_row(model, seq=row.seq, at=row.at, body=record.body, batch=row.batch)
    own = own.changed(retired=row.retired, hold=row.hold)
    if row.columns() != own.columns():
        raise _misled(row)
    return own


def _misled(row: Row) -> VerificationError:
    return VerificationError(
        f"the index says something else of record {row.seq} than the record does",
        hint="The store was changed from outside. See: satchel doctor.",
    )
