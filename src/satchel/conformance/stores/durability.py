"""What survives a store's object and its process, and what concurrent users may do."""

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from satchel.conformance.stores.commits import require_turns, write_turns
from satchel.conformance.stores.oracle import (
    ALL,
    BANK,
    StoreSubject,
    bench,
    memory,
    named,
    outcome_of,
)
from satchel.errors import TargetExistsError
from satchel.model.records import Semantic
from satchel.ports.store import ColumnChange, RawCopyStore, Store

_PROCESSES, _TURNS = 2, 12
_STAMPS = 20


def test_it_can_be_closed_twice(store: StoreSubject) -> None:
    """Closing again is not an error."""
    with bench(store) as both:
        both.append(memory(1))
        both.store.close()


def test_committed_rows_are_durable_after_reopening(store: StoreSubject) -> None:
    """Rows, nodes, heads, words and side values survive the object."""
    with bench(store) as both:
        opener = both.opener("durable")
        both.append(named("1"), memory(1), Semantic(text="harbour"), side={"note": b"x"})
        both.append(named("1"), changes=[ColumnChange(0, 3, hold=False)])
        both.store.close()
        both.store = opener()
        both.same_all()
        if both.store.traits.full_text:
            with both.store.reading() as reader:
                ((place, _),) = reader.candidates(BANK, "harbour", limit=9)
            assert place == 2  # noqa: PLR2004 - the third
        both.append(memory(3))
        both.same_all()


def test_committed_rows_are_durable_after_the_process_is_killed(store: StoreSubject) -> None:
    """It is durable at the end of the block, not only after the store is closed."""
    with bench(store) as both:
        opener = both.opener("durable")
        both.store.close()
        assert _ran(_write_and_die, opener, 1) == [-signal.SIGKILL]
        both.store = opener()
        require_turns(both.store, _TURNS)


def test_writers_in_several_processes_are_serialized(store: StoreSubject) -> None:
    """Each sees the previous one's records; no log position is used twice, and none is lost."""
    with bench(store) as both:
        opener = both.opener("concurrent_writers")
        assert _ran(_write, opener, _PROCESSES, beside=lambda: _write_here(both.store)) == (
            [0] * _PROCESSES
        )
        require_turns(both.store, (_PROCESSES + 1) * _TURNS)


def test_the_stamp_changes_when_another_process_writes(store: StoreSubject) -> None:
    """After a write by another handle or process the number differs, and seldom otherwise."""
    with bench(store) as both:
        opener = both.opener("concurrent_writers")
        both.append(memory(1))
        # A server may count writes to its other databases, too.
        stamps = [_stamp(both.store) for _ in range(_STAMPS)]
        assert len(set(stamps)) < _STAMPS
        first = stamps[-1]
        other = opener()
        assert outcome_of(other, BANK, both.commit(memory(2))) is None
        other.close()
        assert _stamp(both.store) != first


def test_a_raw_copy_is_a_consistent_snapshot(store: StoreSubject, tmp_path: Path) -> None:
    """It has the state of its view, whatever is committed in the meantime."""
    with bench(store) as both:
        both.need("raw_copy")
        assert isinstance(both.store, RawCopyStore)
        assert store.open_copy is not None
        both.append(named("1"), memory(1), side={"note": b"x"})
        with both.store.reading() as reader:
            assert reader.banks() == [BANK]
            expected, head = list(reader.scan(BANK, ALL)), reader.head(BANK)
            writer = threading.Thread(target=both.append, args=(memory(2),))
            writer.start()
            writer.join()
            both.store.copy_to(tmp_path / "copy")
        with pytest.raises(TargetExistsError):
            both.store.copy_to(tmp_path / "copy")
        copied = store.open_copy(tmp_path / "copy")
        with copied.reading() as reader:
            assert list(reader.scan(BANK, ALL)) == expected
            assert reader.head(BANK) == head
            assert reader.side(BANK) == {"note": b"x"}
        copied.close()
        assert len(both.same(lambda reader: reader.scan(BANK, ALL))) == len(expected) + 1


def _stamp(store: Store) -> int:
    with store.reading() as reader:
        return reader.stamp()


def _write(opener: Callable[[], Store]) -> None:
    store = opener()
    write_turns(store, _TURNS)
    store.close()


def _write_here(store: Store) -> None:
    write_turns(store, _TURNS)


def _write_and_die(opener: Callable[[], Store]) -> None:
    write_turns(opener(), _TURNS)
    os.kill(os.getpid(), signal.SIGKILL)


def _ran(
    work: Callable[[Callable[[], Store]], None],
    opener: Callable[[], Store],
    processes: int,
    beside: Callable[[], None] | None = None,
) -> list[int | None]:
    """Run work in new processes, and a function beside them; return their exit codes."""
    # Not forked: a fork would inherit this process's connections and locks.
    context = multiprocessing.get_context("spawn")
    others = [context.Process(target=work, args=(opener,)) for _ in range(processes)]
    for other in others:
        other.start()
    if beside is not None:
        beside()
    for other in others:
        other.join()
    return [other.exitcode for other in others]


__all__ = [name for name in dir() if name.startswith("test_")]
