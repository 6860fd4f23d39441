"""Refused appends and records: nothing of them is logged."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ledger_kit import created, listed, memories

from satchel.conformance.stores.oracle import AT, BANK
from satchel.crypto.canonical import DEFAULT_LIMITS, Limits
from satchel.crypto.sealed_records import Sealed, seal
from satchel.errors import (
    InputError,
    LimitError,
    SatchelError,
    SlotTakenError,
    StoreError,
    ValueRefusedError,
)
from satchel.model.records import Edge, FileVersion, Model, Semantic, SessionEvent, Status
from satchel.model.values import Origin, Scope
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


_MAKERS: dict[str, Callable[[str], Model]] = {
    "text": lambda text: Semantic(text=text),
    "user": lambda text: Semantic(text="x", scope=Scope(user=text)),
    "origin": lambda text: Semantic(text="x", origin=Origin(provider="p", id=text)),
    "tag": lambda text: Semantic(text="x", tags=(text,)),
    "metadata": lambda text: Semantic(text="x", metadata={"a": [text]}),
    "name of metadata": lambda text: Semantic(text="x", metadata={text: 1}),
    "session": lambda text: SessionEvent(event="message", session=text),
    "path": lambda text: FileVersion(path=text, text="x"),
    "edge": lambda text: Edge(source=text, target="b", kind="k"),
    "reason": lambda text: Status(target="blake3:" + "0" * 64, state="deleted", reason=text),
}


@pytest.mark.parametrize("member", _MAKERS)
@given(before=st.text(st.characters(exclude_categories=["Cs"]), max_size=3), lone=st.data())
def test_sealing_refuses_a_lone_surrogate(member: str, before: str, lone: st.DataObject) -> None:
    """In any text of any record: UTF-8 has no form for it."""
    surrogate = chr(lone.draw(st.integers(0xD800, 0xDFFF)))
    with pytest.raises(ValueRefusedError):
        seal(_MAKERS[member](before + surrogate))


def _of_size(size: int, limits: Limits = DEFAULT_LIMITS) -> Sealed:
    around = len(seal(Semantic(text="")).body)
    return seal(Semantic(text="x" * (size - around)), limits=limits)


def test_a_record_of_a_mebibyte_is_accepted_and_one_byte_more_is_refused() -> None:
    """The bound is on canonical bytes."""
    ledger = created(InMemoryStore())
    largest = _of_size(DEFAULT_LIMITS.entry_bytes)
    ledger.append([largest])
    assert listed(ledger)[2:] == [largest.id]
    with pytest.raises(LimitError, match=str(DEFAULT_LIMITS.entry_bytes)):
        _of_size(DEFAULT_LIMITS.entry_bytes + 1)


def _too_large() -> Sealed:
    return _of_size(2 * DEFAULT_LIMITS.entry_bytes, Limits(entry_bytes=2**22))


def _wrong_id() -> Sealed:
    record, other = memories(2, 5)
    return Sealed(other.id, record.type, record.body)


def _wrong_type() -> Sealed:
    (record,) = memories(1, 5)
    return Sealed(record.id, "episodic", record.body)


def _not_canonical() -> Sealed:
    (record,) = memories(1, 5)
    return Sealed(record.id, record.type, record.body.replace(b":", b": ", 1))


def _no_record() -> Sealed:
    (record,) = memories(1, 5)
    return Sealed(record.id, record.type, b"{}")


@pytest.mark.parametrize("make", [_too_large, _wrong_id, _wrong_type, _not_canonical, _no_record])
def test_an_invalid_record_is_not_logged(make: Callable[[], Sealed]) -> None:
    """Every reader would refuse a log that holds it."""
    ledger = created(InMemoryStore())
    (before,) = memories(1)
    ledger.append([before])
    with pytest.raises(SatchelError) as refused:
        ledger.append([make()])
    assert isinstance(refused.value, InputError)
    assert listed(ledger)[2:] == [before.id]
