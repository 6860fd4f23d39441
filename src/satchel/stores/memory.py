"""A store in memory: the plainest thing that keeps the contract, and what others are compared to.

Nothing survives the process. Meant for tests, and for a bank that is only passed on.
"""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from satchel.disk.forks import in_child
from satchel.errors import SlotTakenError, StoreError
from satchel.ports.rows import Filter, Row
from satchel.ports.store import Commit, StoredHead, StoreTraits

_NO_HEAD = StoredHead(b"", b"")


@dataclass(slots=True)
class _Bank:
    rows: list[Row] = field(default_factory=list)
    nodes: list[bytes] = field(default_factory=list)
    head: StoredHead = _NO_HEAD

    def copy(self) -> "_Bank":
        return _Bank(list(self.rows), list(self.nodes), self.head)


class _View:
    """The store as it was at one moment."""

    def __init__(self, banks: dict[str, _Bank], side: dict[str, dict[str, bytes]]) -> None:
        self._banks = banks
        self._side = side

    def stamp(self) -> int:
        return 0  # nobody else can

    def banks(self) -> list[str]:
        return sorted(self._banks)

    def head(self, bank: str) -> StoredHead | None:
        found = self._banks.get(bank)
        return found.head if found else None

    def counts(self, bank: str) -> dict[str, int]:
        counts: dict[str, int] = {}
        for row in self._rows(bank):
            counts[row.type] = counts.get(row.type, 0) + 1
        return counts

    def nodes(self, bank: str, positions: Sequence[int]) -> dict[int, bytes]:
        nodes = self._banks[bank].nodes if bank in self._banks else []
        return {place: nodes[place] for place in positions if 0 <= place < len(nodes)}

    def get(self, bank: str, ids: Sequence[str]) -> list[Row]:
        wanted = set(ids)
        return [row for row in self._rows(bank) if row.id in wanted]

    def at(self, bank: str, places: Sequence[int]) -> list[Row]:
        rows = self._rows(bank)
        return [rows[place] for place in set(places) if 0 <= place < len(rows)]

    def scan(self, bank: str, wanted: Filter, *, after: int = -1) -> Iterator[Row]:
        return (row for row in self._rows(bank)[after + 1 :] if wanted.matches(row))

    def current(self, bank: str, slot: str) -> Row | None:
        return next((row for row in self._rows(bank) if _holds(row, slot)), None)

    def neighbours(self, bank: str, end: str, *, incoming: bool) -> Iterator[Row]:
        for row in self._rows(bank):
            if any((link.target if incoming else link.source) == end for link in row.links):
                yield row

    def candidates(self, bank: str, text: str, *, limit: int) -> list[tuple[int, float]]:
        return []

    def side(self, bank: str, prefix: str = "") -> dict[str, bytes]:
        values = self._side.get(bank, {})
        return {name: value for name, value in values.items() if name.startswith(prefix)}

    def _rows(self, bank: str) -> list[Row]:
        return self._banks[bank].rows if bank in self._banks else []


class _Transaction(_View):
    """A private copy of the banks that are written; published when the block ends well."""

    def append(self, bank: str, commit: Commit) -> None:
        mine = self._banks[bank].copy() if bank in self._banks else _Bank()
        for change in commit.changes:
            row = mine.rows[change.seq]
            mine.rows[change.seq] = row.changed(retired=change.retired, hold=change.hold)
        mine.rows += commit.rows
        _refuse_doubles(mine.rows)
        mine.nodes += commit.nodes
        mine.head = commit.head
        self._banks[bank] = mine
        values = dict(self._side.get(bank, {}))
        for name, value in commit.side.items():
            if value is None:
                values.pop(name, None)
            else:
                values[name] = value
        self._side[bank] = values


def _holds(row: Row, slot: str) -> bool:
    return row.slot == slot and row.retired is None


def _refuse_doubles(rows: list[Row]) -> None:
    seen: set[str] = set()
    ids: set[str] = set()
    for row in rows:
        if row.id in ids:
            raise StoreError(f"a record is logged twice: {row.id}")
        ids.add(row.id)
        if row.slot is not None and row.retired is None:
            if row.slot in seen:
                raise SlotTakenError(f"there is a current record for {row.slot} already")
            seen.add(row.slot)


class MemoryStore:
    """Banks in memory."""

    traits = StoreTraits(durable=False)
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
            mine = _Transaction(dict(self._banks), dict(self._side))
            yield mine
            self._banks, self._side = mine._banks, mine._side  # noqa: SLF001 - its own view

    def close(self) -> None:
        self._banks, self._side = {}, {}
