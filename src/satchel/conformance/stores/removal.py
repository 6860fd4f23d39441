"""Removal from a store: a record's bytes and everything derived from them, or a bank."""

from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
import pytest

from satchel.conformance.stores.oracle import (
    ALL,
    BANK,
    OTHER,
    Bench,
    StoreSubject,
    bench,
    memory,
    named,
    places_of,
)
from satchel.crypto.canonical import canonical_checked
from satchel.errors import SlotTakenError, UnknownBankError
from satchel.model.records import Edge, Semantic, SessionEvent
from satchel.model.values import Origin, Scope
from satchel.ports.rows import Filter, Row, RowState, derive_row
from satchel.ports.store import ColumnChange, Reader
from satchel.ports.vectors import Generation

_TWO = Generation("model", 2)
_GONE = ColumnChange(0, 3, hold=False)
_OWNER = Scope(user="ada", agent="a", run="r", app="x")


class _Enough(Exception):  # noqa: N818 - no error of anybody's
    pass


def _three(both: Bench, bank: str = BANK) -> list[Row]:
    """Log a record with everything that can be derived, an edge and another record."""
    parent = memory(9)
    drafts = (
        Semantic(
            text="harbour",
            kind="note",
            scope=_OWNER,
            origin=Origin(provider="test", id="1"),
            parent_ids=("blake3:" + "4" * 64,),
        ),
        Edge(source="here", target="there", kind="knows"),
        parent,
    )
    rows = both.append(*drafts, bank=bank)
    if both.store.traits.vectors:
        for store in (both.oracle, both.store):
            with store.writing() as writing:
                vectors: dict[str, Any] = {row.id: [1, row.seq] for row in rows}
                writing.vectors.put(bank, _TWO, vectors)
    return rows


def _erase(both: Bench, *places: int, **members: Any) -> None:
    both.append(memory(3), erased=places, **members)


def test_an_erased_row_keeps_only_its_leaf_and_its_state(store: StoreSubject) -> None:
    """No bytes and no derived column; the slot is free, other rows are unchanged."""
    with bench(store) as both:
        rows = _three(both)
        _erase(both, 0, 1, changes=[_GONE])
        found = both.same(lambda reader: reader.at(BANK, [0]))
        assert found == [rows[0].erased().changed(RowState(3, hold=False)).columns()]
        assert both.same(lambda reader: reader.current(BANK, rows[0].slot or "")) is None
        assert both.same(lambda reader: reader.at(BANK, [2])) == [rows[2].columns()]
        for wanted in (Filter(user="ada"), Filter(run="r"), Filter(kinds=frozenset({"note"}))):
            assert both.same(_listing(wanted)) == []
        both.append(named("1"))
        both.same_all()


def test_a_replaced_row_is_found_by_its_new_content(store: StoreSubject) -> None:
    """Bytes, words, links and slot are those of the new row; vectors are removed."""
    with bench(store) as both:
        old = _three(both)[0]
        now = Semantic(
            text="lighthouse",
            kind="note",
            scope=_OWNER,
            origin=Origin(provider="test", id="1"),
            parent_ids=("blake3:" + "5" * 64,),
            id=old.id,
        )
        body = canonical_checked(msgspec.to_builtins(now))
        new = derive_row(now, seq=old.seq, at=old.at, body=body)
        _erase(both, 0, replaced=[new])
        assert both.same(lambda reader: reader.at(BANK, [0])) == [new.columns()]
        assert both.same(lambda reader: reader.current(BANK, old.slot or "")) == new.columns()
        for link, there in (("4", []), ("5", [new.columns()])):
            end = "blake3:" + link * 64
            found = both.same(partial(_leading_to, end=end))
            assert found == there
        if both.store.traits.full_text:
            assert both.same(partial(_found_by, words="harbour")) == []
            assert both.same(partial(_found_by, words="lighthouse")) == [0]
        if both.store.traits.vectors:
            assert both.same(lambda reader: reader.vectors.get(BANK, _TWO, [old.id])) == {}
        assert both.same(lambda reader: reader.is_indexed(BANK, new))
        both.same_all()


def _found_by(reader: Reader, words: str) -> list[int]:
    return places_of(reader.candidates(BANK, words, limit=9))


def _leading_to(reader: Reader, end: str) -> Any:
    return reader.neighbors(BANK, end, incoming=True)


def _listing(wanted: Filter) -> Callable[[Reader], Any]:
    return lambda reader: reader.scan(BANK, wanted)


def test_an_erased_row_is_not_found_by_links_words_or_vectors(store: StoreSubject) -> None:
    """Also a row that was current, and the last with a vector of its generation."""
    with bench(store) as both:
        rows = _three(both)
        _erase(both, 0, 1, 2)
        for end in (rows[0].id, "here", "there", "blake3:" + "4" * 64):
            for incoming in (True, False):
                assert both.same(_linked(end, incoming=incoming)) == []
        with both.store.reading() as reader:
            assert places_of(reader.candidates(BANK, "harbour", limit=9)) == []
            assert places_of(reader.candidates(BANK, "memory 9", limit=9)) in ([], [3])
            if both.store.traits.vectors:
                assert reader.vectors.generations(BANK) == {}
                assert reader.vectors.get(BANK, _TWO, [row.id for row in rows]) == {}
                assert reader.vectors.near(BANK, _TWO, [1, 1], limit=9) == []


def _linked(end: str, *, incoming: bool) -> Callable[[Reader], Any]:
    return lambda reader: list(reader.neighbors(BANK, end, incoming=incoming))


def test_a_turn_is_not_found_by_the_words_of_an_erased_previous_turn(store: StoreSubject) -> None:
    """Its words are removed from the index of others; the preceding words replace them."""
    with bench(store) as both:
        both.need("full_text")
        texts = ("sailing", "harbour", "yes", "no")
        turns = [SessionEvent(event="message", session="s", text=text) for text in texts]
        both.append(*turns)
        _erase(both, 1)
        with both.store.reading() as reader:
            assert places_of(reader.candidates(BANK, "harbour", limit=9)) == []
            assert set(places_of(reader.candidates(BANK, "sailing", limit=9))) == {0, 2}
        _erase(both, 0, 2)
        with both.store.reading() as reader:
            assert places_of(reader.candidates(BANK, "sailing yes", limit=9)) == []
            assert places_of(reader.candidates(BANK, "no", limit=9)) == [3]


def test_an_erasure_is_committed_with_its_rows_or_not_at_all(store: StoreSubject) -> None:
    """A refused append and a failed block restore everything."""
    with bench(store) as both:
        _three(both)
        refused = both.commit(named("2"), named("2"), erased=[0, 2])
        fine = both.commit(memory(4), erased=[2])
        for each in (both.oracle, both.store):
            with each.writing() as writing, pytest.raises(SlotTakenError):
                writing.append(BANK, refused)
        both.same_all()

        def fail() -> None:
            with both.store.writing() as writing:
                writing.append(BANK, fine)
                raise _Enough

        with pytest.raises(_Enough):
            fail()
        both.same_all()
        with both.store.reading() as reader:
            if both.store.traits.full_text:
                assert places_of(reader.candidates(BANK, "harbour", limit=9)) == [0]
            if both.store.traits.vectors:
                assert reader.vectors.generations(BANK) == {_TWO: 3}


def test_a_row_rewritten_without_a_body_keeps_nothing_else(store: StoreSubject) -> None:
    """As in a repair: bytes that reappeared are removed with their words, links and vectors."""
    with bench(store) as both:
        turns = (SessionEvent(event="message", session="s", text=text) for text in ("sailing", "y"))
        rows = [*_three(both), *both.append(*turns)]
        for each in (both.oracle, both.store):
            with each.writing() as writing:
                writing.rewrite(BANK, [row.erased() for row in rows[:4]])
        both.same_all()
        with both.store.reading() as reader:
            assert places_of(reader.candidates(BANK, "harbour sailing", limit=9)) == []
            if both.store.traits.vectors:
                assert reader.vectors.generations(BANK) == {}


def test_a_removed_bank_leaves_nothing(store: StoreSubject) -> None:
    """Rows, nodes, links, words, vectors, blobs, side values; another bank is unchanged."""
    with bench(store) as both:
        _three(both)
        _three(both, OTHER)
        with both.store.writing() as writing:
            digest = writing.blobs.put(BANK, [b"a"])
            writing.blobs.put(OTHER, [b"a"])
        _erase(both, side={"note": b"one"})
        _erase(both, bank=OTHER, side={"note": b"two"})
        for each in (both.oracle, both.store):
            with each.writing() as writing:
                writing.remove(BANK)
                writing.remove(BANK)  # removing a missing bank is not an error
        del both.sizes[BANK]
        both.same_all()
        with both.store.reading() as reader:
            assert reader.head(BANK) is None
            assert reader.side(BANK) == {}
            with pytest.raises(UnknownBankError):
                reader.blobs.has(BANK, digest)
            assert reader.blobs.has(OTHER, digest)
        _three(both)  # the same bank, from the beginning
        both.same_all()
        with both.store.reading() as reader:
            assert dict(reader.blobs.listed(BANK)) == {}
            for bank in (BANK, OTHER):
                if both.store.traits.full_text:
                    assert places_of(reader.candidates(bank, "harbour", limit=9)) == [0]
                if both.store.traits.vectors:
                    assert reader.vectors.generations(bank) == {_TWO: 3}


def test_a_removal_is_rolled_back_with_its_transaction(store: StoreSubject) -> None:
    """A failed transaction removes nothing, and an open view remains usable."""
    with bench(store) as both:
        _three(both)

        def fail() -> None:
            with both.store.writing() as writing:
                writing.remove(BANK)
                raise _Enough

        with pytest.raises(_Enough):
            fail()
        both.same_all()
        if both.store.traits.full_text:
            with both.store.reading() as reader:
                assert reader.candidates(BANK, "harbour", limit=9)


def test_scrubbing_changes_no_result(store: StoreSubject) -> None:
    """All records remain, in order, found by the same words and vectors."""
    with bench(store) as both:
        _three(both)
        both.append(*map(memory, range(20)), side={"note": b"one"})
        with both.store.writing() as writing:
            digest = writing.blobs.put(BANK, [b"a"])
        _erase(both, 0, 5)
        for _ in range(2):
            before = _read_back(both)
            both.store.scrub()
            both.same_all()
            assert _read_back(both) == before
            with both.store.reading() as reader:
                assert b"".join(reader.blobs.get(BANK, digest)) == b"a"
        both.append(memory(30))
        both.same_all()


def _read_back(both: Bench) -> list[Any]:
    with both.store.reading() as reader:
        vectors = both.store.traits.vectors
        return [
            sorted(places_of(reader.candidates(BANK, "memory", limit=99))),
            reader.vectors.near(BANK, _TWO, [1, 1], limit=9) if vectors else [],
            [row.columns() for row in reader.scan(BANK, ALL)],
        ]


__all__ = [name for name in dir() if name.startswith("test_")]
