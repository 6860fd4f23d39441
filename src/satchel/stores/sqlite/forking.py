"""Forks: SQLite notes in memory which locks a process has, and a fork copies that memory.

A child that opened a file anew would be believed to have the locks that its parent had on it when
it forked: it would not take them, and the parent could remove the log from under it. So a fork
waits until no other thread is within a transaction, and the child closes the connections that it
came with, which clears those notes. It closes them quietly: the parent still has its locks, so
nothing is written and nothing removed.
"""

import os
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

PATIENCE = 10
"""Seconds that a fork waits for the transactions of other threads; one may wait for the fork."""


class Forked(Protocol):
    """What has connections."""

    def forget_parent(self) -> None:
        """Close, in a child, the connections that it came with."""
        ...


_known: "weakref.WeakSet[Forked]" = weakref.WeakSet()
_change = threading.Condition()
_inside: dict[int, int] = {}  # how many blocks each thread is in
_forking = False


def watch(store: Forked) -> None:
    """Tell a store when it finds itself in a child."""
    _known.add(store)


@contextmanager
def transaction() -> Iterator[Callable[[], bool]]:
    """Have other threads wait with forking until the block has ended.

    Gives what tells whether this is still the process that began the block.
    """
    thread, process = threading.get_ident(), os.getpid()
    with _change:
        if thread not in _inside:
            _change.wait_for(lambda: not _forking)
        _inside[thread] = _inside.get(thread, 0) + 1
    try:
        yield lambda: os.getpid() == process
    finally:
        if os.getpid() == process:
            with _change:
                _inside[thread] -= 1
                if not _inside[thread]:
                    del _inside[thread]
                    _change.notify_all()


def _before() -> None:
    global _forking  # noqa: PLW0603 - there is one process
    _change.acquire()
    _forking = True
    me = threading.get_ident()
    _change.wait_for(lambda: not _inside.keys() - {me}, PATIENCE)


def _in_parent() -> None:
    global _forking  # noqa: PLW0603
    _forking = False
    _change.notify_all()
    _change.release()


def _in_child() -> None:
    global _change, _forking
    _change, _forking = threading.Condition(), False
    _inside.clear()
    for store in list(_known):
        store.forget_parent()


os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)
