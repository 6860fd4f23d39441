"""Commits of a store: atomic, one writer at a time, invisible until they are done."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import pytest

from satchel.conformance.stores.oracle import (
    ALL,
    BANK,
    OTHER,
    Bench,
    StoreSubject,
    bench,
    commit_of,
    made_up,
    memory,
    named,
)
from satchel.crypto.sealed_records import seal
from satchel.errors import SlotTakenError
from satchel.model.records import Semantic
from satchel.ports.rows import derive_row
from satchel.ports.store import ColumnChange, Store

_T = TypeVar("_T")
_WRITERS, _TURNS = 4, 6
_PATIENCE = 60  # seconds until a thread counts as stuck


class _Enough(Exception):  # noqa: N818 - no error of anybody's
    pass


def test_a_slot_has_one_current_row(store: StoreSubject) -> None:
    """A second one is refused as a whole; after the first is retired, it is accepted."""
    with bench(store) as both:
        (first,) = both.append(named("1"))
        with pytest.raises(SlotTakenError):
            both.append(memory(2), named("1"))
        with pytest.raises(SlotTakenError):
            both.append(named("2"), named("2"))
        assert len(both.same(lambda reader: reader.scan(BANK, ALL))) == 1
        both.append(named("1", user="emi"), named("1", user=None), named("2"))
        both.append(named("1"), bank=OTHER)
        (second,) = both.append(named("1"), changes=[ColumnChange(0, 4, hold=False)])
        assert both.same(lambda reader: reader.current(BANK, first.slot or "")) == second.columns()
        with pytest.raises(SlotTakenError):
            both.append(memory(3), changes=[ColumnChange(0, None, hold=False)])
        # The final state counts: the successor may come first in a commit.
        both.append(
            memory(4), changes=[ColumnChange(0, None, hold=False), ColumnChange(4, 5, hold=False)]
        )
        assert both.same(lambda reader: reader.current(BANK, first.slot or "")) == first.columns()
        both.append(
            memory(5), changes=[ColumnChange(0, 6, hold=False), ColumnChange(4, None, hold=False)]
        )
        both.same_all()


def test_a_record_is_logged_once(store: StoreSubject) -> None:
    """A second record of the same ID is refused in the bank, not in another bank."""
    record = seal(memory(1))
    first, again = (
        derive_row(record.model, seq=seq, at=made, body=record.body)
        for seq, made in ((0, "2026-03-01T09:30:00.000001Z"), (1, "2026-03-02T09:30:00.000001Z"))
    )
    with bench(store) as both:
        both.put(commit_of([first], 0))
        both.put(commit_of([first], 0), OTHER)
        with both.store.writing() as writing:  # the store chooses the class of the error
            assert _refused(lambda: writing.append(BANK, commit_of([again], 1)))
        both.same_all()


def _refused(work: Callable[[], object]) -> bool:
    try:
        work()
    except Exception:  # noqa: BLE001 - any way of saying no
        return True
    return False


def test_a_refused_append_leaves_nothing_if_its_transaction_continues(store: StoreSubject) -> None:
    """Rows, nodes, head and side values before the refused one are rolled back, too."""
    with bench(store) as both:
        both.append(named("1"), memory(1), side={"note": b"one"})
        change = [ColumnChange(1, 2, hold=True)]
        refused = both.commit(memory(2), named("1"), changes=change, side={"note": None, "x": b""})
        accepted = both.commit(memory(3))
        for each in (both.oracle, both.store):
            with each.writing() as writing:
                with pytest.raises(SlotTakenError):
                    writing.append(BANK, refused)
                writing.append(BANK, accepted)
        both.sizes[BANK] += 1
        both.same_all()


def test_a_failed_transaction_leaves_nothing(store: StoreSubject) -> None:
    """An error after the append rolls back rows, changes, nodes, head and side values."""
    with bench(store) as both:
        both.append(memory(1), named("1"), side={"note": b"one"})
        change = [ColumnChange(1, 2, hold=True)]
        commit = both.commit(memory(2), changes=change, side={"note": None, "other": b"two"})

        def fail() -> None:
            with both.store.writing() as writing:
                writing.append(BANK, commit)
                writing.append(OTHER, commit_of(commit.rows, 0))
                raise _Enough

        with pytest.raises(_Enough):
            fail()
        both.same_all()
        both.append(memory(3))
        both.same_all()


def _in_a_thread(work: Callable[[], _T]) -> _T:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result(_PATIENCE)


def _size_in(store: Store) -> int:
    with store.reading() as reader:
        return sum(reader.counts(BANK).values()) if reader.banks() else 0


def test_uncommitted_rows_are_not_visible(store: StoreSubject) -> None:
    """By a reader in another thread, which does not wait for the writer."""
    with bench(store) as both:
        both.append(memory(1), side={"note": b"one"})
        commit = both.commit(memory(2), side={"note": b"two"})
        with both.store.writing() as writing:
            writing.append(BANK, commit)
            _in_a_thread(both.same_all)
        with both.oracle.writing() as writing:
            writing.append(BANK, commit)
        both.sizes[BANK] += 1
        _in_a_thread(both.same_all)


def test_a_view_does_not_see_later_commits(store: StoreSubject) -> None:
    """A view shows the state of its first read."""
    with bench(store) as both:
        both.append(memory(0), named("1"), side={"note": b"one"})
        with both.store.reading() as before, both.oracle.reading() as expected:
            rows = before.scan(BANK, ALL)
            first = next(rows)
            _in_a_thread(lambda: _more(both))
            columns = [row.columns() for row in expected.scan(BANK, ALL)]
            assert [row.columns() for row in (first, *rows)] == columns
            assert before.head(BANK) == expected.head(BANK) == (b"head 2", made_up(2))
            assert before.counts(BANK) == expected.counts(BANK)
            assert before.side(BANK) == expected.side(BANK)
            assert before.banks() == [BANK]
            assert [row.columns() for row in before.scan(BANK, ALL)] == columns


def _more(both: Bench) -> None:
    both.append(memory(1), changes=[ColumnChange(1, 2, hold=True)], side={"note": b"two"})
    both.append(memory(2), bank=OTHER)


def test_a_new_view_sees_all_committed_rows(store: StoreSubject) -> None:
    """In the writer's thread, and in one that read before."""
    with bench(store) as both, ThreadPoolExecutor(1) as other:
        for size in range(5):
            assert _size_in(both.store) == size
            assert other.submit(_size_in, both.store).result(_PATIENCE) == size
            (both.append if size % 2 else partial_in(other, both))(memory(size))
            _in_a_thread(both.same_all)
            other.submit(both.same_all).result(_PATIENCE)
            both.same_all()


def partial_in(pool: ThreadPoolExecutor, both: Bench) -> Callable[[Semantic], object]:
    """Return a function that appends in a thread of a pool."""
    return lambda draft: pool.submit(both.append, draft).result(_PATIENCE)


def test_writers_in_many_threads_are_serialized(store: StoreSubject) -> None:
    """Each sees the previous one's records; no log position is used twice, and none is lost."""
    with bench(store) as both, ThreadPoolExecutor(_WRITERS) as pool:
        work = [pool.submit(write_turns, both.store, _TURNS) for _ in range(_WRITERS)]
        for each in work:
            each.result(_PATIENCE)
        require_turns(both.store, _WRITERS * _TURNS)


def write_turns(store: Store, turns: int) -> None:
    """Append records one at a time, after the existing ones."""
    for _ in range(turns):
        record = seal(Semantic(text="a turn"))
        with store.writing() as writing:
            size = sum(writing.counts(BANK).values()) if writing.banks() else 0
            row = derive_row(
                record.model, seq=size, at="2026-03-01T09:30:00.000001Z", body=record.body
            )
            writing.append(BANK, commit_of([row], size))


def require_turns(store: Store, turns: int) -> None:
    """Require that this many records were written, one after another."""
    with store.reading() as reader:
        rows = list(reader.scan(BANK, ALL))
        assert [row.seq for row in rows] == list(range(turns))
        assert len({row.id for row in rows}) == turns
        assert reader.head(BANK) == (b"head %d" % turns, made_up(turns))


__all__ = [name for name in dir() if name.startswith("test_")]
