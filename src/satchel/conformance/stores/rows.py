"""Rows of a store: every byte of every row, by bank."""

import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from satchel.conformance.stores.oracle import (
    ALL,
    BANK,
    OTHER,
    StoreSubject,
    bench,
    bodiless,
    commit_of,
    made_up,
    memory,
    named,
    nodes_before,
)
from satchel.crypto.canonical import DEFAULT_LIMITS
from satchel.crypto.sealed_records import seal
from satchel.errors import UnknownBankError
from satchel.model.records import Edge, Semantic
from satchel.model.values import Origin, Scope
from satchel.ports.rows import Filter, Row
from satchel.ports.store import ColumnChange, Reader, Store, StoredHead, StoreTraits

_HOSTILE = (
    *("", "\0", "a\0b", "' OR 1=1 --", '"', "%", "_", "\U0001f600", "e\u0301", "\u00e9", "\u202e"),
    *("\r\n", "\ufeff", "x" * 60_000, "SELECT", "NEAR(", "*", "\x7f", " a ", "a" * 20 + "\0b"),
)
_ALIKE = (
    ("Zo\u00eb", "Zoe\u0308"),  # composed and decomposed
    ("a", "a\0"),
    ("a\0b", "a\0c"),
    ("a", "a "),
    ("a", "A"),
    ("1", "\uff11"),  # full width
    ("1", "1.0"),
    ("", "\u200b"),
)
_TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


def test_it_reports_its_traits(store: StoreSubject) -> None:
    """It has a name for errors, and traits."""
    with bench(store) as both:
        assert isinstance(both.store, Store)
        assert isinstance(both.store.traits, StoreTraits)
        assert both.store.name


def test_a_new_store_is_empty(store: StoreSubject) -> None:
    """It has no banks and no heads."""
    with bench(store) as both:
        assert both.same(lambda reader: reader.banks()) == []
        assert both.same(lambda reader: reader.head(BANK)) is None


def test_appended_records_are_read_back_byte_for_byte(store: StoreSubject) -> None:
    """Rows come back with every column, in the order of the log, and are counted each time."""
    with bench(store) as both:
        rows = both.append(*(memory(number, metadata={"n": number}) for number in range(290)))
        both.same_all()
        gone, held = ColumnChange(291, 292, hold=False), ColumnChange(293, None, hold=True)
        rows += both.append(*map(memory, range(290, 300)), batch=7, changes=[gone, held])
        found = both.same(lambda reader: reader.scan(BANK, ALL))
        assert found == [row.columns() for row in rows]
        assert both.same(lambda reader: reader.counts(BANK)) == {"semantic": 300}
        assert both.same(lambda reader: reader.head(BANK)) == (b"head 300", made_up(300))
        nodes = both.same(lambda reader: reader.nodes(BANK, range(-1, 700)))
        assert nodes == {place: made_up(place) for place in range(nodes_before(300))}
        both.same_all()


def _examples(check: Callable[..., None]) -> Callable[..., None]:
    for text in _HOSTILE:
        check = example(text=text)(check)
    return check


@_examples
@given(text=_TEXTS)
def test_hostile_texts_are_returned_unchanged(store: StoreSubject, text: str) -> None:
    """NUL, quotes, SQL, marks, width and composition: nothing is normalized, cut or executed."""
    with bench(store) as both:
        scope = Scope(user=text, agent=text, run=text, app=text)
        origin = Origin(provider=text, source=text, id=text)
        side = {text: text.encode(), f"{text}1": b""}
        both.append(
            Semantic(text=text, kind=text, scope=scope, origin=origin, tags=(text,)), side=side
        )
        both.append(memory(1))
        (row,) = both.same(lambda reader: reader.scan(BANK, Filter(user=text)))
        slot = row[Row.__struct_fields__.index("slot")]
        assert both.same(lambda reader: reader.current(BANK, slot)) == row
        assert both.same(lambda reader: reader.side(BANK, text)) == side
        both.same(lambda reader: reader.current(BANK, text))
        both.same(lambda reader: list(reader.neighbors(BANK, text, incoming=True)))
        both.same_all()
        with both.store.reading() as reader:
            assert {place for place, _ in reader.candidates(BANK, text, limit=9)} <= {0, 1}


def test_texts_that_only_look_alike_are_different(store: StoreSubject) -> None:
    """Composed and decomposed, with and without NUL, in either case: two names, two owners."""
    assert unicodedata.normalize("NFC", _ALIKE[0][1]) == _ALIKE[0][0]
    for first, second in _ALIKE:
        with bench(store) as both:
            side = {first: b"1", second: b"2"}
            both.append(named(first), named(second), named("x", user=first), side=side)
            both.append(named("x", user=second), Edge(source=first, target=second, kind=first))
            both.same_all()
            for text in (first, second):
                assert len(both.same(partial(_of_user, user=text))) == 1
                both.same(_linked(BANK, text))


def _of_user(reader: Reader, user: str) -> Iterator[Row]:
    return reader.scan(BANK, Filter(user=user))


def test_the_largest_record_is_stored_completely(store: StoreSubject) -> None:
    """A mebibyte of canonical bytes, of one character or many."""
    with bench(store) as both:
        room = DEFAULT_LIMITS.entry_bytes - len(seal(Semantic(text="")).body)
        both.append(Semantic(text="x" * room), Semantic(text="\u91d1\u66dc " * (room // 7)))
        rows = both.same(lambda reader: reader.scan(BANK, ALL))
        sizes = [len(row[Row.__struct_fields__.index("body")]) for row in rows]
        assert max(sizes) == DEFAULT_LIMITS.entry_bytes
        both.same_all()


def test_an_erased_record_keeps_its_log_position(store: StoreSubject) -> None:
    """A row without a body is returned without one, with its other columns."""
    with bench(store) as both:
        rows = both.commit(memory(0), memory(1), memory(2)).rows
        both.put(commit_of([rows[0], bodiless(rows[1]), rows[2]], 0))
        found = both.same(lambda reader: reader.at(BANK, [1]))
        assert found == [bodiless(rows[1]).columns()]
        both.same_all()


def test_side_values_are_set_and_removed_with_the_rows(store: StoreSubject) -> None:
    """In the same transaction, found by prefix."""
    with bench(store) as both:
        both.append(memory(1), side={"job_1": b"\0a", "job_2": b"b", "other": b"", "jobs": b"!"})
        assert both.same(lambda reader: reader.side(BANK, "job_")) == {
            "job_1": b"\0a",
            "job_2": b"b",
        }
        both.append(memory(2), side={"job_1": b"c", "job_2": None, "never": None})
        assert both.same(lambda reader: reader.side(BANK)) == {
            "job_1": b"c",
            "other": b"",
            "jobs": b"!",
        }


def test_a_bank_without_a_head_is_not_listed(store: StoreSubject) -> None:
    """Its rows exist, but it is not a bank until it has a head."""
    with bench(store) as both:
        both.append(memory(1), bank=OTHER)
        commit = replace(both.commit(memory(1), named("1")), head=StoredHead(b"", made_up(2)))
        both.put(commit)
        assert both.same(lambda reader: reader.banks()) == [OTHER]
        assert both.same(lambda reader: reader.begun()) == [BANK]
        assert both.same(lambda reader: reader.head(BANK)) == (b"", made_up(2))
        both.same_all()
        both.put(replace(commit_of([], 2), side={"note": b"x"}))
        assert both.same(lambda reader: reader.banks()) == [BANK, OTHER]
        assert both.same(lambda reader: reader.begun()) == []
        both.same_all()


def test_banks_are_isolated(store: StoreSubject) -> None:
    """Rows, slots, nodes, links, counts and side values of one are not visible in another."""
    with bench(store) as both:
        edge = Edge(source="a", target="b", kind="knows")
        one = both.append(named("1"), edge, memory(5), side={"note": b"one"})
        two = both.append(memory(1), named("1"), bank=OTHER, side={"note": b"two"})
        both.same_all()
        for bank, foreign in ((BANK, two), (OTHER, one)):
            for end in ("a", "b"):
                both.same(_linked(bank, end))
            ids = [row.id for row in foreign]
            assert both.same(partial(_got, bank=bank, ids=ids)) == []
        both.append(memory(7), bank=OTHER, changes=[ColumnChange(1, 2, hold=True)])
        both.same_all()


def _got(reader: Reader, bank: str, ids: list[str]) -> list[Row]:
    return reader.get(bank, ids)


def _linked(bank: str, end: str) -> Callable[[Reader], Any]:
    return lambda reader: [
        list(reader.neighbors(bank, end, incoming=incoming)) for incoming in (True, False)
    ]


_QUESTIONS: tuple[Callable[[Reader], Any], ...] = (
    lambda reader: reader.head(OTHER),
    lambda reader: reader.counts(OTHER),
    lambda reader: reader.nodes(OTHER, range(5)),
    lambda reader: reader.at(OTHER, range(5)),
    lambda reader: reader.ids(OTHER, "", limit=5),
    lambda reader: reader.scan(OTHER, ALL),
    lambda reader: reader.neighbors(OTHER, "a", incoming=False),
    lambda reader: reader.candidates(OTHER, "memory", limit=9),
    lambda reader: reader.side(OTHER),
)


def test_an_absent_bank_is_empty(store: StoreSubject) -> None:
    """It has no head; other queries return nothing, or are refused as unknown."""
    with bench(store) as both:
        (row,) = both.append(named("1"), side={"note": b"one"})
        both.append(memory(2), Edge(source="a", target="b", kind="knows"))
        assert both.same(lambda reader: reader.head(OTHER)) is None
        slot, ids = row.slot or "", [row.id]
        questions = (
            *_QUESTIONS,
            lambda reader: reader.get(OTHER, ids),
            lambda reader: reader.current(OTHER, slot),
        )
        for ask in questions:
            with both.store.reading() as reader:
                assert not _read_or_none(ask, reader)


def _read_or_none(ask: Callable[[Reader], Any], reader: Reader) -> Any:
    try:
        result = ask(reader)
        return list(result) if isinstance(result, Iterator) else result
    except UnknownBankError:
        return None


__all__ = [name for name in dir() if name.startswith("test_")]
