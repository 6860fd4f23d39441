"""A store beside the oracle: everything is done to both, and both must answer alike."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from satchel.errors import SatchelError
from satchel.memory.records import Model
from satchel.ports.rows import Row, derive_row
from satchel.ports.store import Change, Commit, Reader, Store, StoredHead
from satchel.seal.sealing import seal
from satchel.stores.memory import MemoryStore

BANK = "blake3:" + "1" * 64
"""The bank that is used when nothing else is said."""

AT = "2026-03-01T09:30:00.000001Z"
"""When all records arrive."""


@dataclass(frozen=True, slots=True)
class StoreSubject:
    """A store under test.

    Args:
        name: Its name.
        make: Gives a new, empty store.
        reopen: Closes a store and gives it opened again; None where nothing outlives it.
        open_copy: Opens a copy that ``copy_to`` made; None where there are none.
    """

    name: str
    make: Callable[[], Store]
    reopen: Callable[[Store], Store] | None = None
    open_copy: Callable[[Path], Store] | None = None


@dataclass(slots=True)
class Bench:
    """A store with the oracle beside it: everything is done to both."""

    store: Store
    oracle: MemoryStore = field(default_factory=MemoryStore)
    sizes: dict[str, int] = field(default_factory=dict)

    def append(
        self, *drafts: Model, bank: str = BANK, changes: Sequence[Change] = (), **side: bytes
    ) -> list[Row]:
        """Log drafts in both and return their rows."""
        first = self.sizes.get(bank, 0)
        rows = []
        for place, draft in enumerate(drafts, first):
            record = seal(draft)
            rows.append(derive_row(record.model, seq=place, at=AT, body=record.body))
        head = StoredHead(b"head %d" % (first + len(rows)), b"p" * 32)
        count = nodes_before(first + len(rows)) - nodes_before(first)
        nodes = [bytes([number % 256]) * 32 for number in range(count)]
        commit = Commit(rows=rows, nodes=nodes, head=head, changes=changes, side=side)
        outcome = [outcome_of(each, bank, commit) for each in (self.oracle, self.store)]
        assert outcome[0] == outcome[1]
        if outcome[0] is not None:
            raise outcome[0]("refused by both")
        self.sizes[bank] = first + len(rows)
        return rows

    def same(self, ask: Callable[[Reader], Any]) -> Any:
        """Ask both, require the same answer, and return it."""
        with self.oracle.reading() as oracle, self.store.reading() as reader:
            expected, found = _comparable(ask(oracle)), _comparable(ask(reader))
        assert found == expected
        return found


def outcome_of(store: Store, bank: str, commit: Commit) -> type[SatchelError] | None:
    """Append, and return the kind of error where there was one."""
    try:
        with store.writing() as writing:
            writing.append(bank, commit)
    except SatchelError as error:
        return type(error)
    return None


def nodes_before(leaves: int) -> int:
    """Return how many nodes a tree has before a leaf arrives."""
    return 2 * leaves - leaves.bit_count()


def _comparable(answer: Any) -> Any:
    if isinstance(answer, Row):
        return answer.columns()
    if isinstance(answer, Iterator | list):
        return [_comparable(part) for part in answer]
    return answer


@contextmanager
def bench(subject: StoreSubject) -> Iterator[Bench]:
    """Give a new store with the oracle beside it."""
    store = subject.make()
    try:
        yield Bench(store)
    finally:
        store.close()
