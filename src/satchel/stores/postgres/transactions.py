"""Whether somebody else changed the database, by the transactions that the server counts.

The server gives a number to every transaction that writes, whoever runs it and with whatever
program, and each snapshot says which numbers it can see. So no edit escapes, not even one by SQL
that avoids Satchel's own counter. The server counts for all its databases together: a write to
another one also looks like a change here, and costs one more verification.
"""

import secrets
import threading
from bisect import bisect_right, insort

_MOST = 1_000
"""Stretches that are remembered; before them a transaction counts as somebody else's."""


class OwnTransactions:
    """The transactions that one store object began."""

    def __init__(self) -> None:
        self.number = secrets.randbits(62)
        """What older programs, which compare ``bank.changed_by``, tell this object by."""

        self._lock = threading.Lock()
        self._stretches: list[list[int]] = []

    def add(self, transaction: int) -> None:
        """Note a transaction, before it is committed."""
        with self._lock:
            position = bisect_right(self._stretches, [transaction]) - 1
            before = self._stretches[position] if position >= 0 else None
            if before is not None and before[1] + 1 == transaction:
                before[1] = transaction
                return
            insort(self._stretches, [transaction, transaction])
            del self._stretches[:-_MOST]

    def stamp(self, snapshot: str) -> int:
        """Return a number that is another one once somebody else's transaction can be seen.

        Args:
            snapshot: As ``pg_current_snapshot`` writes it: ``xmin:xmax:running,running``.
        """
        _, end, running = snapshot.split(":")
        with self._lock:
            last = int(end) - 1
            while (start := self._start_of(last)) is not None:
                last = start - 1
            numbers = sorted(map(int, filter(None, running.split(","))))
            others = [number for number in numbers if self._start_of(number) is None]
        return hash((last, *others))

    def _start_of(self, transaction: int) -> int | None:
        """Return where the stretch begins that a transaction is in."""
        position = bisect_right(self._stretches, [transaction, transaction + 1]) - 1
        if position < 0 or transaction > self._stretches[position][1]:
            return None
        return self._stretches[position][0]
