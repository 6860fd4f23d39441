"""From open to closed: nobody uses what is closed, and nothing is closed while it is used."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from satchel.api.hints import hints_for_python
from satchel.disk.forks import in_child
from satchel.errors import ClosedError


class Lifetime:
    """How long something can be used; from any thread, and after a fork.

    Args:
        end: Called once, when it was closed and nobody uses it any more.
    """

    def __init__(self, end: Callable[[], None]) -> None:
        self._end = end
        self._closed = False
        self._also = list[Callable[[], None]]()
        self._begin()
        in_child(self._begin)

    def _begin(self) -> None:
        """Start with nobody using it: the threads of a parent are not here."""
        self._change = threading.Condition()
        self._inside = 0

    @contextmanager
    def use(self) -> Iterator[None]:
        """Keep it from being closed until the block ends.

        Raises:
            ClosedError: If it is closed.
        """
        with self._change:
            if self._closed:
                raise ClosedError("the store is closed", hint="Open it again: Satchel.open().")
            self._inside += 1
        try:
            with hints_for_python():
                yield
        finally:
            with self._change:
                self._inside -= 1
                self._change.notify_all()

    def also(self, end: Callable[[], None]) -> None:
        """Have something else done first when it is closed, what came last before the others."""
        self._also.append(end)

    def close(self) -> None:
        """Close it when nobody uses it any more; do nothing when it is closed."""
        with self._change:
            if self._closed:
                return
            self._closed = True
            self._change.wait_for(lambda: self._inside <= 0)
        try:
            while self._also:
                self._also.pop()()
        finally:
            self._end()
