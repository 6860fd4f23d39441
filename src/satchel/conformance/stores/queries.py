"""Queries of a store: positions, IDs, filters, links, words."""

import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from satchel.conformance.stores.oracle import (
    ALL,
    BANK,
    OTHER,
    StoreSubject,
    bench,
    columns,
    memory,
    named,
    places_of,
)
from satchel.model.records import Edge, Model, Semantic, SessionEvent
from satchel.model.values import Scope
from satchel.ports.rows import Filter, Row, slot_of
from satchel.ports.store import ColumnChange, Reader
from satchel.stores.text_search import FEW


def _scan(reader: Reader, where: Filter, after: int) -> Iterator[Row]:
    return reader.scan(BANK, where, after=after)


def _linked(reader: Reader, end: str, *, incoming: bool) -> Iterator[Row]:
    return reader.neighbors(BANK, end, incoming=incoming)


@given(st.lists(st.integers(-3, 40), max_size=30), st.integers(-1, 30))
def test_log_positions_and_ids_are_found_in_any_order(
    store: StoreSubject, places: list[int], after: int
) -> None:
    """For all positions: existing ones are returned, once; others are skipped."""
    with bench(store) as both:
        rows = both.append(*map(memory, range(20)))
        wanted = {place for place in places if 0 <= place < len(rows)}
        ids = [rows[place].id for place in places if place in wanted]
        found = both.same(lambda reader: sorted(map(columns, reader.at(BANK, places))))
        assert len(found) == len(wanted)
        both.same(lambda reader: sorted(map(columns, reader.get(BANK, [*ids, "blake3:no", ""]))))
        assert both.same(lambda reader: reader.nodes(BANK, places)).keys() <= set(places)
        listed = both.same(lambda reader: reader.scan(BANK, ALL, after=after))
        assert listed == [row.columns() for row in rows[after + 1 :]]


def test_ids_are_found_by_prefix(store: StoreSubject) -> None:
    """Up to the limit, sorted; of this bank only."""
    with bench(store) as both:
        rows = both.append(*map(memory, range(300)))
        both.append(*map(memory, range(300)), bank=OTHER)
        ids = sorted(row.id for row in rows)
        assert both.same(lambda reader: reader.ids(BANK, "", limit=1000)) == ids
        for identity in ids[::29]:
            digits = identity.removeprefix("blake3:")
            for length in (1, 2, 3, 7, 8, 64):
                start = digits[:length]
                found = both.same(partial(_started, digits=start, limit=1000))
                assert found == [each for each in ids if each.startswith(f"blake3:{start}")]
                assert both.same(partial(_started, digits=start, limit=2)) == found[:2]
        whole = ids[0].removeprefix("blake3:")
        odd = ("blake3:", ids[0], whole + "0", "A", "A" * 64, "g", " ", "0 ", "%", "_", "\0", "٣")
        for digits in odd:
            assert both.same(partial(_started, digits=digits, limit=9)) == []


def _started(reader: Reader, digits: str, limit: int) -> list[str]:
    return reader.ids(BANK, digits, limit=limit)


_DAY, _NEXT, _LAST = (f"2026-01-0{day}T00:00:00.000000Z" for day in (1, 2, 3))
_MEMBERS: dict[str, list[Any]] = {
    "types": [frozenset({"semantic"}), frozenset({"edge", "semantic"}), frozenset()],
    "kinds": [frozenset({"a"}), frozenset({"a", "b"}), frozenset()],
    **{name: ["a", "b", ""] for name in ("user", "agent", "run", "app", "session")},
    "slot": [slot_of(named("1")), slot_of(named("1", user=None)), "", "a"],
    "since": [_NEXT],
    "until": [_LAST],
    "as_of": [0, 3, 6, 100],
    "retired": [True],
    "held": [True],
}
# A few members at a time: a filter with all of them finds nothing, even if a store ignores some.
_FILTERS = st.lists(st.sampled_from(sorted(_MEMBERS)), max_size=3, unique=True).flatmap(
    lambda names: st.builds(Filter, **{name: st.sampled_from(_MEMBERS[name]) for name in names})
)
_FEW = st.sampled_from([None, "a", "b", ""])
_DAYS = st.sampled_from([None, _DAY, _NEXT, _LAST])
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
_CHANGES = st.builds(ColumnChange, st.integers(0, 4), st.none() | st.integers(0, 9), st.booleans())
_AFTER = st.sampled_from([-1, 2])


@given(st.lists(_DRAFTS, min_size=5, max_size=8), st.lists(_CHANGES, max_size=4), st.data())
def test_filters_find_what_the_oracle_finds(
    store: StoreSubject, drafts: list[Model], changes: list[ColumnChange], data: st.DataObject
) -> None:
    """For all filters, states and moments: the same rows, in the same order."""
    with bench(store) as both:
        both.append(*drafts)
        both.append(memory(1), changes=changes)
        for where in data.draw(st.lists(_FILTERS, min_size=1, max_size=5)):
            both.same(partial(_scan, where=where, after=data.draw(_AFTER)))


def test_each_member_of_a_filter_is_applied(store: StoreSubject) -> None:
    """Alone, and with retired or held records: each excludes rows that the others do not."""
    words = ("a", "b", None)
    scopes = [Scope(user=first, agent=second) for first in words for second in words]
    scopes += [Scope(run=first, app=second) for first in words for second in words]
    drafts: list[Model] = [Semantic(text="x", scope=scope) for scope in scopes]
    drafts += [Semantic(text="x", kind=kind, created_at=_NEXT) for kind in ("a", "b", "")]
    drafts += [Semantic(text="x", occurred_at=day) for day in (_DAY, _NEXT, _LAST)]
    drafts += [SessionEvent(event="message", session=word, text="x") for word in ("a", "b", "")]
    drafts += [Edge(source="a", target="b", kind="a")]
    drafts += [named("1"), named("2"), named("1", user=None)]
    size = len(drafts)
    with bench(store) as both:
        both.append(*drafts)
        changes = [ColumnChange(place, size, hold=False) for place in range(0, size, 5)]
        changes += [ColumnChange(place, None, hold=True) for place in range(1, size, 5)]
        changes += [ColumnChange(place, place + 1, hold=True) for place in range(2, size, 9)]
        both.append(memory(1), changes=changes)
        both.append(memory(2))
        filters = [Filter(**{name: value}) for name, values in _MEMBERS.items() for value in values]
        filters += [
            replace(where, as_of=moment, retired=retired, held=held)
            for where in filters
            for moment in (None, 4, size, size + 1)
            for retired in (False, True)
            for held in (False, True)
        ]
        for where in filters:
            both.same(partial(_scan, where=where, after=-1))
        both.same(partial(_scan, where=Filter(), after=3))


def test_a_listing_streams(store: StoreSubject) -> None:
    """Iterating over a bank needs the memory of a few rows, whatever its size."""
    with bench(store) as both:
        both.append(*(Semantic(text=f"{number:,}" * 50_000) for number in range(10_000, 10_024)))
        with both.store.reading() as reader:
            whole = sum(len(row.body or b"") for row in reader.scan(BANK, ALL))
            assert _peak_of(lambda: reader.scan(BANK, ALL)) < whole // 3


def _peak_of(scan: Callable[[], Iterator[Row]]) -> int:
    """Return the peak memory of iterating over rows, in bytes."""
    before = tracemalloc.is_tracing()
    tracemalloc.start()
    try:
        tracemalloc.reset_peak()
        start, _ = tracemalloc.get_traced_memory()
        for _ in scan():
            pass
        return tracemalloc.get_traced_memory()[1] - start
    finally:
        if not before:
            tracemalloc.stop()


def test_links_are_followed_both_ways(store: StoreSubject) -> None:
    """Edges and parents, from either end, in the order of the log."""
    with bench(store) as both:
        (parent,) = both.append(memory(1))
        (child,) = both.append(memory(2, parent_ids=(parent.id,)))
        both.append(Edge(source=child.id, target="elsewhere", kind="about"))
        both.append(Edge(source=child.id, target="elsewhere", kind="also about"))
        both.append(Edge(source=child.id, target=child.id, kind="is"))
        for end in (parent.id, child.id, "elsewhere", ""):
            for incoming in (True, False):
                both.same(partial(_linked, end=end, incoming=incoming))
        found = both.same(lambda reader: reader.neighbors(BANK, parent.id, incoming=True))
        assert found == [child.columns()]
        assert len(both.same(partial(_linked, end="elsewhere", incoming=True))) == 2  # noqa: PLR2004


def test_words_find_current_rows_only(store: StoreSubject) -> None:
    """A word in a sentence is found in any script, until its row is retired."""
    with bench(store) as both:
        both.need("full_text")
        texts = [
            "The deployments run on Friday",
            "メモは金曜日に更新します",
            "我喜欢喝咖啡和茶",
            "ผมชอบกาแฟร้อน",
        ]
        both.append(*(Semantic(text=text) for text in texts))
        words = ["deployment", "金曜日", "咖啡", "กาแฟ"]
        with both.store.reading() as reader:
            found = [places_of(reader.candidates(BANK, word, limit=9)) for word in words]
        assert found == [[0], [1], [2], [3]]
        both.append(memory(9), changes=[ColumnChange(1, 4, hold=False)])
        with both.store.reading() as reader:
            assert reader.candidates(BANK, "金曜日", limit=9) == []
        both.append(memory(10), changes=[ColumnChange(1, None, hold=False)])
        with both.store.reading() as reader:
            assert places_of(reader.candidates(BANK, "金曜日", limit=9)) == [1]


def test_words_find_rows_of_one_bank_only(store: StoreSubject) -> None:
    """Texts of another bank nominate nothing here."""
    with bench(store) as both:
        both.need("full_text")
        both.append(memory(0), Semantic(text="harbour"))
        both.append(Semantic(text="harbour"), Semantic(text="staging"), bank=OTHER)
        with both.store.reading() as reader:
            positions = {
                (bank, word): places_of(reader.candidates(bank, word, limit=9))
                for bank in (BANK, OTHER)
                for word in ("harbour", "staging")
            }
        assert positions == {
            (BANK, "harbour"): [1],
            (BANK, "staging"): [],
            (OTHER, "harbour"): [0],
            (OTHER, "staging"): [1],
        }


def test_the_best_matches_come_first_up_to_the_limit(store: StoreSubject) -> None:
    """Scores descend, and a text about the query precedes one that mentions it."""
    with bench(store) as both:
        both.need("full_text")
        long = "The weekly report names the harbour once, among much else that was said on Friday"
        both.append(*(Semantic(text=f"{long} {number}") for number in range(9)))
        both.append(Semantic(text="harbour, harbour"))
        with both.store.reading() as reader:
            nominees = reader.candidates(BANK, "harbour", limit=5)
        scores = [score for _, score in nominees]
        assert nominees[0][0] == 9  # noqa: PLR2004 - the last one
        assert scores == sorted(scores, reverse=True)
        assert len(nominees) == 5  # noqa: PLR2004 - as asked


_ALL = 10_000
_FIFTY = [
    Semantic(text=f"the report {number}, to be read", scope=Scope(user="ab"[number % 2]))
    for number in range(50)
]
_HARBOUR = Semantic(text="the report names the harbour, to be read", scope=Scope(user="a"))
_COMMON = FEW + 2


def test_common_words_find_nothing_if_others_are_rarer(store: StoreSubject) -> None:
    """A word of very many rows does not add them to the row with the rare word."""
    with bench(store) as both:
        both.need("full_text")
        both.append(*(Semantic(text="the report") for _ in range(_COMMON)), _HARBOUR)
        with both.store.reading() as reader:
            found = reader.candidates(BANK, "the harbour report", limit=_ALL)
        assert places_of(found) == [_COMMON]


def test_common_words_alone_still_find_rows(store: StoreSubject) -> None:
    """The rarest ones do, and words that are ignored beside others."""
    with bench(store) as both:
        both.need("full_text")
        both.append(*_FIFTY, memory(1))
        with both.store.reading() as reader:
            for text in ("report", "read report", "to be", "the"):
                assert len(reader.candidates(BANK, text, limit=_ALL)) == len(_FIFTY)
            assert len(reader.candidates(BANK, "report", limit=9)) == 9  # noqa: PLR2004 - as asked


def test_a_filter_excludes_rows_found_by_words(store: StoreSubject) -> None:
    """Excluded rows do not count toward the limit."""
    with bench(store) as both:
        both.need("full_text")
        both.append(*_FIFTY, _HARBOUR, changes=[ColumnChange(2, None, hold=True)])
        with both.store.reading() as reader:
            nominate = partial(reader.candidates, BANK, limit=9)
            assert nominate("harbour", where=Filter(user="b")) == []
            assert places_of(nominate("harbour", where=Filter(user="a"))) == [50]
            assert all(place % 2 for place in places_of(nominate("report", where=Filter(user="b"))))
            assert places_of(nominate("report", where=Filter(as_of=3, held=True))) == [0, 1, 2]
            assert places_of(nominate("report", where=Filter(as_of=3, user="a"))) == [0, 2]
            assert sorted(places_of(nominate("2", where=Filter()))) == []
            assert sorted(places_of(nominate("2"))) == [2]


_SAID = [
    "the",
    "report",
    "harbours",
    "ships",
    "shipping",
    "次の金曜日",
    "会議は",
    "茶",
    "a@b.example",
]
_ASKED = st.lists(st.sampled_from([*_SAID, "金曜日の会議", "harbour", "zzz"]), max_size=5)


@given(
    st.lists(st.lists(st.sampled_from(_SAID), min_size=1, max_size=6), min_size=1, max_size=8),
    st.integers(1, 12),
    st.lists(_ASKED, min_size=1, max_size=4),
)
def test_words_find_what_the_oracle_finds(
    store: StoreSubject, texts: list[list[str]], times: int, queries: list[list[str]]
) -> None:
    """For all texts and queries: the same rows; the ranking is up to the store."""
    with bench(store) as both:
        both.need("full_text")
        said = [" ".join(words) for words in texts]
        both.append(*(Semantic(text=f"{text} {time}") for time in range(times) for text in said))
        both.append(memory(1), changes=[ColumnChange(0, len(texts) * times, hold=False)])
        for words in queries:
            both.same(partial(_nominated, text=" ".join(words)))


def _nominated(reader: Reader, text: str) -> list[int]:
    return sorted(places_of(reader.candidates(BANK, text, limit=_ALL)))


def test_a_listing_is_newest_first_on_request(store: StoreSubject) -> None:
    """The same rows in reverse; the position it starts after has the same meaning."""
    with bench(store) as both:
        rows = both.append(*map(memory, range(9)))
        for after in (-1, 3):
            found = both.same(partial(_backwards, after=after))
            assert found == [row.columns() for row in reversed(rows[after + 1 :])]


def _backwards(reader: Reader, after: int) -> Iterator[Row]:
    return reader.scan(BANK, ALL, after=after, newest_first=True)


def test_a_turn_is_found_by_the_words_of_the_previous_turn(store: StoreSubject) -> None:
    """An answer is found by its question, in the same session only."""
    with bench(store) as both:
        both.need("full_text")
        turns = [("s", "Which harbour?"), ("t", "Nothing"), ("s", "The one in Accra")]
        for session, text in turns:
            both.append(SessionEvent(event="message", session=session, text=text))
        with both.store.reading() as reader:
            assert set(places_of(reader.candidates(BANK, "harbour", limit=9))) == {0, 2}


__all__ = [name for name in dir() if name.startswith("test_")]
