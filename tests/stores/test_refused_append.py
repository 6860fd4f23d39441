"""Refused appends and records: nothing of them is logged."""

from collections.abc import Callable
from pathlib import Path

import pytest

from satchel.conformance.stores.oracle import AT, BANK
from satchel.crypto.sealed_records import seal
from satchel.errors import SlotTakenError, StoreError
from satchel.model.records import Semantic
from satchel.model.values import Origin
from satchel.ports.rows import Filter, Row, derive_row
from satchel.ports.store import Commit, Store, StoredHead
from satchel.stores.memory import InMemoryStore
from satchel.stores.sqlite import SqliteStore

STORES: list[Callable[[Path], Store]] = [lambda _: InMemoryStore(), SqliteStore]


def row(place: int, name: str) -> Row:
    """Return the row of a memory with an origin of that name."""
    record = seal(Semantic(text=name, origin=Origin(provider="test", id=name)))
    return derive_row(record.model, seq=place, at=AT, body=record.body)


def commit(head: bytes, *rows: Row) -> Commit:
    """Return a commit that adds rows under a head."""
    nodes = [b"n" * 32] * (1 if rows[0].seq == 0 else 2)
    return Commit(rows=rows, nodes=nodes, head=StoredHead(head, b""), side={"last": head})


@pytest.mark.parametrize("make", STORES, ids=["memory", "sqlite"])
def test_a_refused_append_leaves_nothing_in_a_block_that_continues(
    make: Callable[[Path], Store], tmp_path: Path
) -> None:
    """Neither the head, nor the rows before the refused one, nor side values."""
    store = make(tmp_path / "satchel.db")
    try:
        first = row(0, "a")
        with store.writing() as writing:
            writing.append(BANK, commit(b"first", first))
            with pytest.raises(SlotTakenError):
                writing.append(BANK, commit(b"taken", row(1, "b"), row(2, "a")))
            with pytest.raises(StoreError):
                writing.append(BANK, commit(b"twice", first))
        with store.reading() as reader:
            assert reader.head(BANK) == (b"first", b"")
            assert reader.side(BANK) == {"last": b"first"}
            assert [found.id for found in reader.scan(BANK, Filter())] == [first.id]
    finally:
        store.close()
