"""What every store promises, one test function a promise.

Use it on your own store: import everything from here in a test module of yours and define a
session-scoped fixture ``store`` that returns a ``StoreSubject``.
"""

import threading
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from satchel.conformance.beside import *  # noqa: F403 - more promises
from satchel.conformance.store_bench import AT, BANK, StoreSubject, bench, nodes_before, outcome_of
from satchel.errors import SlotTakenError
from satchel.memory.entries import Semantic
from satchel.memory.parts import Origin, Scope
from satchel.memory.records import Edge, Model, SessionEvent
from satchel.ports.rows import Filter, Row, derive_row
from satchel.ports.store import Change, Commit, Reader, StoredHead
from satchel.seal.sealing import seal

__all__ = ["StoreSubject"]  # and every promise: see the end

_OTHER = "blake3:" + "2" * 64
_ALL = Filter(retired=True, held=True)
_HOSTILE = (
    *("", "\0", "a\0b", "' OR 1=1 --", '"', "%", "_", "\U0001f600", "e\u0301", "\u00e9", "\u202e"),
    *("\r\n", "\ufeff", "x" * 60_000, "SELECT", "NEAR(", "*", "\x7f"),
)


def _scan(reader: Reader, bank: str, wanted: Filter) -> Iterator[Row]:
    return reader.scan(bank, wanted)


def _linked(reader: Reader, bank: str, end: str, *, incoming: bool) -> Iterator[Row]:
    return reader.neighbours(bank, end, incoming=incoming)


def _beside(reader: Reader, bank: str) -> object:
    return reader.side(bank), reader.nodes(bank, range(9))


def _memory(number: int, **members: Any) -> Semantic:
    return Semantic(text=f"memory {number}", **members)


def _named(identity: str, user: str | None = "ada") -> Semantic:
    scope = Scope(user=user) if user else None
    return Semantic(text="x", scope=scope, origin=Origin(provider="mem0", id=identity))


def test_a_store_that_is_new_is_empty(store: StoreSubject) -> None:
    """No banks, no heads."""
    with bench(store) as both:
        assert both.same(lambda reader: reader.banks()) == []
        assert both.same(lambda reader: reader.head(BANK)) is None


def test_what_was_appended_is_there_byte_for_byte(store: StoreSubject) -> None:
    """Rows come back with every column, in the order of the log."""
    with bench(store) as both:
        rows = both.append(*(_memory(number, metadata={"n": number}) for number in range(300)))
        found = both.same(lambda reader: reader.scan(BANK, _ALL))
        assert found == [row.columns() for row in rows]
        assert both.same(lambda reader: reader.counts(BANK)) == {"semantic": 300}
        assert both.same(lambda reader: reader.head(BANK)) == (b"head 300", b"p" * 32)
        assert len(both.same(lambda reader: reader.nodes(BANK, range(-1, 700)))) == nodes_before(
            300
        )


@pytest.mark.parametrize("number", range(len(_HOSTILE)))
def test_hostile_texts_come_back_as_they_were(store: StoreSubject, number: int) -> None:
    """NUL, quotes, SQL, marks, width and composition: nothing is normalised, cut or acted on."""
    text = _HOSTILE[number]
    with bench(store) as both:
        scope = Scope(user=text, agent=text, run=text, app=text)
        origin = Origin(provider=text, source=text, id=text)
        both.append(Semantic(text=text, kind=text, scope=scope, origin=origin, tags=(text,)))
        both.append(_memory(1))
        (row,) = both.same(lambda reader: reader.scan(BANK, Filter(user=text)))
        slot = row[Row.__struct_fields__.index("slot")]
        assert both.same(lambda reader: reader.current(BANK, slot)) == row
        both.same(lambda reader: reader.current(BANK, text))
        both.same(lambda reader: list(reader.neighbours(BANK, text, incoming=True)))
        with both.store.reading() as reader:
            assert {place for place, _ in reader.candidates(BANK, text, limit=9)} <= {0, 1}


@given(st.lists(st.integers(-3, 40), max_size=30), st.integers(-1, 30))
def test_places_and_ids_are_found_whatever_is_asked(
    store: StoreSubject, places: list[int], after: int
) -> None:
    """For all places: those that are there are given, others left out."""
    with bench(store) as both:
        rows = both.append(*map(_memory, range(20)))
        ids = [rows[place].id for place in places if 0 <= place < len(rows)]
        found = both.same(lambda reader: sorted(map(_columns, reader.at(BANK, places))))
        assert len(found) == len({place for place in places if 0 <= place < len(rows)})
        both.same(lambda reader: sorted(map(_columns, reader.get(BANK, [*ids, "blake3:no", ""]))))
        both.same(lambda reader: reader.scan(BANK, _ALL, after=after))


def _columns(row: Row) -> tuple[Any, ...]:
    return tuple(map(repr, row.columns()))


_FEW = st.sampled_from([None, "a", "b", ""])
_FILTERS = st.builds(
    Filter,
    types=st.sampled_from(
        [None, frozenset({"semantic"}), frozenset({"edge", "semantic"}), frozenset()]
    ),
    kinds=st.sampled_from([None, frozenset({"a"}), frozenset({"a", "b"})]),
    user=_FEW,
    agent=_FEW,
    run=_FEW,
    app=_FEW,
    session=_FEW,
    since=st.sampled_from([None, "2026-01-02T00:00:00.000000Z"]),
    until=st.sampled_from([None, "2026-01-03T00:00:00.000000Z"]),
    as_of=st.sampled_from([None, 0, 3, 6, 100]),
    retired=st.booleans(),
    held=st.booleans(),
)
_DAYS = st.sampled_from([None, *(f"2026-01-0{day}T00:00:00.000000Z" for day in (1, 2, 3))])
_DRAFTS = st.one_of(
    st.builds(
        Semantic,
        text=st.just("x"),
        kind=_FEW,
        scope=st.none() | st.builds(Scope, user=_FEW, agent=_FEW, run=_FEW, app=_FEW),
        created_at=_DAYS,
        occurred_at=_DAYS,
    ),
    st.builds(SessionEvent, event=st.just("message"), session=_FEW, text=st.just("x")),
    st.builds(Edge, source=st.just("a"), target=st.just("b"), kind=st.sampled_from(["a", "b"])),
)
_CHANGES = st.builds(Change, st.integers(0, 4), st.none() | st.integers(0, 9), st.booleans())


@given(st.lists(_DRAFTS, min_size=5, max_size=8), st.lists(_CHANGES, max_size=4), st.data())
def test_filters_find_what_the_oracle_finds(
    store: StoreSubject, drafts: list[Model], changes: list[Change], data: st.DataObject
) -> None:
    """For all filters, states and moments: the same rows, in the same order."""
    with bench(store) as both:
        both.append(*drafts)
        both.append(_memory(1), changes=changes)
        for wanted in data.draw(st.lists(_FILTERS, min_size=1, max_size=5)):
            both.same(partial(_scan, bank=BANK, wanted=wanted))


def test_a_slot_has_one_current_row(store: StoreSubject) -> None:
    """A second one is refused, whole; once the first is retired it is taken."""
    with bench(store) as both:
        (first,) = both.append(_named("1"))
        with pytest.raises(SlotTakenError):
            both.append(_memory(2), _named("1"))
        assert len(both.same(lambda reader: reader.scan(BANK, _ALL))) == 1
        both.append(_named("1", user="emi"), _named("1", user=None), _named("2"))
        (second,) = both.append(_named("1"), changes=[Change(0, 4, hold=False)])
        assert both.same(lambda reader: reader.current(BANK, first.slot or "")) == second.columns()
        with pytest.raises(SlotTakenError):
            both.append(_memory(3), changes=[Change(0, None, hold=False)])


def test_a_record_is_logged_once(store: StoreSubject) -> None:
    """The same id a second time in a bank is refused; in another bank it is not."""
    record = seal(_memory(1))
    row = derive_row(record.model, seq=0, at=AT, body=record.body)
    again = derive_row(record.model, seq=1, at=AT, body=record.body)
    store_ = store.make()
    try:
        assert (
            outcome_of(
                store_, BANK, Commit(rows=[row], nodes=[b"n" * 32], head=StoredHead(b"h", b""))
            )
            is None
        )
        assert (
            outcome_of(
                store_, _OTHER, Commit(rows=[row], nodes=[b"n" * 32], head=StoredHead(b"h", b""))
            )
            is None
        )
        twice = Commit(rows=[again], nodes=[b"n" * 32] * 2, head=StoredHead(b"i", b""))
        assert outcome_of(store_, BANK, twice) is not None
        with store_.reading() as reader:
            assert reader.head(BANK) == (b"h", b"")
    finally:
        store_.close()


def test_banks_know_nothing_of_each_other(store: StoreSubject) -> None:
    """Rows, slots, nodes, links, words and side values of one are not seen in another."""
    with bench(store) as both:
        edge = Edge(source="a", target="b", kind="knows")
        both.append(_named("1"), edge, note=b"one")
        both.append(_memory(1), _named("1"), bank=_OTHER, note=b"two")
        for bank in (BANK, _OTHER):
            both.same(partial(_scan, bank=bank, wanted=_ALL))
            both.same(partial(_linked, bank=bank, end="a", incoming=False))
            both.same(partial(_beside, bank=bank))
            with both.store.reading() as reader:
                size = both.sizes[bank]
                assert all(0 <= place < size for place, _ in reader.candidates(bank, "x", limit=9))


def test_links_are_followed_both_ways(store: StoreSubject) -> None:
    """Edges and parents, from either end."""
    with bench(store) as both:
        (parent,) = both.append(_memory(1))
        (child,) = both.append(_memory(2, parent_ids=(parent.id,)))
        both.append(Edge(source=child.id, target="elsewhere", kind="about"))
        for end in (parent.id, child.id, "elsewhere", ""):
            for incoming in (True, False):
                both.same(partial(_linked, bank=BANK, end=end, incoming=incoming))
        found = both.same(lambda reader: reader.neighbours(BANK, parent.id, incoming=True))
        assert found == [child.columns()]


def test_words_nominate_current_rows(store: StoreSubject) -> None:
    """A word inside a sentence is found in any script, until its row is retired."""
    with bench(store) as both:
        if not both.store.traits.full_text:
            pytest.skip(f"{store.name} does not claim `full_text`")
        texts = [
            "The deployments run on Friday",
            "メモは金曜日に更新します",
            "我喜欢喝咖啡和茶",
            "ผมชอบกาแฟร้อน",
        ]
        both.append(*(Semantic(text=text) for text in texts))
        words = ["deployment", "金曜日", "咖啡", "กาแฟ"]
        with both.store.reading() as reader:
            found = [reader.candidates(BANK, word, limit=9) for word in words]
        assert [[place for place, _ in each] for each in found] == [[0], [1], [2], [3]]
        both.append(_memory(9), changes=[Change(1, 4, hold=False)])
        with both.store.reading() as reader:
            assert reader.candidates(BANK, "金曜日", limit=9) == []
        both.append(_memory(10), changes=[Change(1, None, hold=False)])
        with both.store.reading() as reader:
            assert [place for place, _ in reader.candidates(BANK, "金曜日", limit=9)] == [1]


def test_a_turn_is_found_by_the_words_of_the_one_before(store: StoreSubject) -> None:
    """An answer is found by its question, in the same session and in no other."""
    with bench(store) as both:
        if not both.store.traits.full_text:
            pytest.skip(f"{store.name} does not claim `full_text`")
        turns = [("s", "Which harbour?"), ("t", "Nothing"), ("s", "The one in Accra")]
        for session, text in turns:
            both.append(SessionEvent(event="message", session=session, text=text))
        with both.store.reading() as reader:
            found = {place for place, _ in reader.candidates(BANK, "harbour", limit=9)}
        assert found == {0, 2}


def test_side_values_are_set_and_removed_with_the_rows(store: StoreSubject) -> None:
    """In the same transaction, found by the start of their names."""
    with bench(store) as both:
        both.append(_memory(1), job_1=b"\0a", job_2=b"b", other=b"")
        assert both.same(lambda reader: reader.side(BANK, "job_")) == {
            "job_1": b"\0a",
            "job_2": b"b",
        }
        both.append(_memory(2), job_1=b"c")
        assert both.same(lambda reader: reader.side(BANK)) == {
            "job_1": b"c",
            "job_2": b"b",
            "other": b"",
        }


def test_a_block_that_fails_leaves_nothing(store: StoreSubject) -> None:
    """An error after the append takes all of it back."""

    class _Enough(Exception):  # noqa: N818 - no error of anybody's
        pass

    with bench(store) as both:
        both.append(_memory(1))
        record = seal(_memory(2))
        row = derive_row(record.model, seq=1, at=AT, body=record.body)
        commit = Commit(rows=[row], nodes=[b"n" * 32] * 2, head=StoredHead(b"h", b""))

        def fail() -> None:
            with both.store.writing() as writing:
                writing.append(BANK, commit)
                raise _Enough

        with pytest.raises(_Enough):
            fail()
        assert len(both.same(lambda reader: reader.scan(BANK, _ALL))) == 1
        both.append(_memory(3))


def test_a_view_does_not_see_what_is_committed_meanwhile(store: StoreSubject) -> None:
    """What was true when it was first read stays true in it."""
    with bench(store) as both, both.store.reading() as before:
        assert before.banks() == []
        writer = threading.Thread(target=both.append, args=(_memory(1),))
        writer.start()
        writer.join()
        assert before.banks() == []
        with both.oracle.reading() as after:
            assert after.banks() == [BANK]


def test_what_is_committed_is_there_after_it_was_opened_again(store: StoreSubject) -> None:
    """Rows, nodes, heads, words and side values outlive the object."""
    if store.reopen is None:
        pytest.skip(f"{store.name} does not claim `durable`")
    with bench(store) as both:
        both.append(_named("1"), _memory(1), note=b"x")
        both.append(_named("1"), changes=[Change(0, 2, hold=False)])
        both.store = store.reopen(both.store)
        both.same(lambda reader: reader.banks())
        both.same(lambda reader: reader.head(BANK))
        both.same(lambda reader: reader.scan(BANK, _ALL))
        both.same(lambda reader: reader.nodes(BANK, range(9)))
        both.same(lambda reader: reader.side(BANK))
        both.append(_memory(3))


__all__ += [name for name in dir() if name.startswith("test_")]
