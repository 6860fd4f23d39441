"""A store beside the oracle: both run every operation, and must return the same."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from satchel.crypto.sealed_records import seal
from satchel.errors import SatchelError
from satchel.model.records import Model, Semantic
from satchel.model.values import Origin, Scope
from satchel.ports.rows import Filter, Row, RowState, derive_row
from satchel.ports.store import ColumnChange, Commit, Reader, Store, StoredHead
from satchel.stores.memory import InMemoryStore

BANK, OTHER = "blake3:" + "1" * 64, "blake3:" + "2" * 64
"""The default bank, and another one."""

AT = "2026-03-01T09:30:00.000001Z"
"""The time of all records."""

ALL = Filter(retired=True, held=True)
"""A filter for every row."""


@dataclass(frozen=True, slots=True)
class StoreSubject:
    """A store under test.

    Args:
        name: Its name.
        make: Returns a new, empty store.
        elsewhere: Returns a function that opens the same store again, with the first open or
            closed. Other processes call it, too, so ``pickle`` must accept it.
            None if the store claims neither durability nor concurrent writers.
        open_copy: Opens a copy made by ``copy_to``; None if copies are not supported.
    """

    name: str
    make: Callable[[], Store]
    elsewhere: Callable[[Store], Callable[[], Store]] | None = None
    open_copy: Callable[[Path], Store] | None = None


@dataclass(slots=True)
class Bench:
    """A store and the oracle; every operation runs in both."""

    subject: StoreSubject
    store: Store
    oracle: InMemoryStore = field(default_factory=InMemoryStore)
    sizes: dict[str, int] = field(default_factory=dict)

    def need(self, trait: str) -> None:
        """Skip the test if the store does not claim a trait; the only reason to skip."""
        if not getattr(self.store.traits, trait):
            pytest.skip(f"{self.subject.name} does not claim `{trait}`")

    def opener(self, trait: str) -> Callable[[], Store]:
        """Return a function that opens the same store again, for tests of a claimed trait."""
        self.need(trait)
        elsewhere = self.subject.elsewhere
        assert elsewhere is not None, f"claims `{trait}`, and cannot be reopened"
        return elsewhere(self.store)

    def commit(
        self,
        *drafts: Model,
        bank: str = BANK,
        changes: Sequence[ColumnChange] = (),
        batch: int = 0,
        side: Mapping[str, bytes | None] | None = None,
        erased: Sequence[int] = (),
        replaced: Sequence[Row] = (),
    ) -> Commit:
        """Return the commit that logs drafts next; changes at their positions are in their rows."""
        first = self.sizes.get(bank, 0)
        own = {change.seq: change for change in changes if change.seq >= first}
        rows = []
        for place, draft in enumerate(drafts, first):
            record = seal(draft)
            row = derive_row(record.model, seq=place, at=AT, body=record.body, batch=batch)
            if change := own.get(place):
                row = row.changed(RowState(change.retired, change.hold))
            rows.append(row)
        earlier = [change for change in changes if change.seq < first]
        removed = {"erased": erased, "replaced": replaced}
        return commit_of(rows, first, changes=earlier, side=side or {}, **removed)

    def append(self, *drafts: Model, bank: str = BANK, **members: Any) -> list[Row]:
        """Log drafts in both and return their rows; ``members`` are those of ``commit``."""
        return self.put(self.commit(*drafts, bank=bank, **members), bank)

    def put(self, commit: Commit, bank: str = BANK) -> list[Row]:
        """Commit to both; both must accept or both must refuse it."""
        outcome = [outcome_of(each, bank, commit) for each in (self.oracle, self.store)]
        assert outcome[0] == outcome[1]
        if outcome[0] is not None:
            raise outcome[0]("refused by both")
        self.sizes[bank] = self.sizes.get(bank, 0) + len(commit.rows)
        return list(commit.rows)

    def same(self, ask: Callable[[Reader], Any]) -> Any:
        """Query both, require the same result, and return it."""
        with self.oracle.reading() as oracle, self.store.reading() as reader:
            expected, found = _comparable(ask(oracle)), _comparable(ask(reader))
        assert found == expected
        return found

    def same_all(self) -> None:
        """Compare the whole content of all banks."""
        self.same(lambda reader: reader.banks())
        for bank, size in self.sizes.items():
            self.same(partial(_read_everything, bank=bank, size=size))


def commit_of(rows: Sequence[Row], first: int, **members: Any) -> Commit:
    """Return a commit of rows that follow ``first`` others; heads and nodes are synthetic."""
    size = first + len(rows)
    return Commit(
        rows=rows,
        nodes=[made_up(place) for place in range(nodes_before(first), nodes_before(size))],
        head=StoredHead(b"head %d" % size, made_up(size)),
        **members,
    )


def made_up(number: int) -> bytes:
    """Return 32 bytes that depend on a number."""
    return number.to_bytes(32, "big")


def outcome_of(store: Store, bank: str, commit: Commit) -> type[SatchelError] | None:
    """Append; return the class of the error, None for none."""
    try:
        with store.writing() as writing:
            writing.append(bank, commit)
    except SatchelError as error:
        return type(error)
    return None


def nodes_before(leaves: int) -> int:
    """Return the number of nodes of a tree before a leaf is added."""
    return 2 * leaves - leaves.bit_count()


def memory(number: int, **members: Any) -> Semantic:
    """Return a draft that depends on a number."""
    return Semantic(text=f"memory {number}", **members)


def named(identity: str, user: str | None = "ada") -> Semantic:
    """Return a draft about one entity."""
    scope = Scope(user=user) if user is not None else None
    return Semantic(text="x", scope=scope, origin=Origin(provider="mem0", id=identity))


def bodiless(row: Row) -> Row:
    """Return a row without a body, as after an erasure."""
    return replace(row, body=None, text=None, links=())


def places_of(found: Sequence[tuple[int, float]]) -> list[int]:
    """Return the log positions of candidates."""
    return [place for place, _ in found]


def columns(row: Row) -> tuple[str, ...]:
    """Return a row in a sortable form."""
    return tuple(map(repr, row.columns()))


def _read_everything(reader: Reader, bank: str, size: int) -> Any:
    """Return the content of a bank, read in every way."""
    rows = list(reader.scan(bank, ALL))
    return [
        reader.head(bank),
        reader.counts(bank),
        reader.nodes(bank, range(-1, nodes_before(size) + 3)),
        rows,
        sorted(map(columns, reader.get(bank, [row.id for row in rows]))),
        sorted(map(columns, reader.at(bank, range(-1, size + 1)))),
        [reader.current(bank, row.slot) for row in rows if row.slot is not None],
        [[*reader.neighbors(bank, row.id, incoming=True)] for row in rows],
        [[*reader.neighbors(bank, row.id, incoming=False)] for row in rows],
        reader.side(bank),
    ]


def _comparable(answer: Any) -> Any:
    if isinstance(answer, Row):
        return answer.columns()
    if isinstance(answer, Iterator | list):
        return [_comparable(part) for part in answer]
    return answer


@contextmanager
def bench(subject: StoreSubject) -> Iterator[Bench]:
    """Yield a new store and the oracle."""
    store = subject.make()
    both = Bench(subject, store)
    try:
        yield both
    finally:
        both.store.close()
