"""Limits on requests: a rate for each address, and slots and memory for each principal."""

import asyncio
import fcntl
import mmap
import os
import secrets
import struct
import tempfile
import time
import weakref
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from blake3 import blake3

_SECONDS = 10
_GROUPS, _SLOTS = 1024, 8
_SLOT = struct.Struct("=16sdd")  # address, rest, time of the last request
_NOBODY = bytes(16)


class RateLimiter:
    """A token bucket for each address.

    The table is shared with processes that are forked later. If it is full, the addresses with the
    oldest requests are dropped; a keyed hash hides which addresses share a group.

    Args:
        per_second: Requests a second, averaged over ten seconds; 0 for no limit.
        clock: Returns the time in seconds, the same in all processes.
    """

    def __init__(self, per_second: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_second = per_second
        self._clock = clock
        self._key = secrets.token_bytes(32)
        self._table = mmap.mmap(-1, _GROUPS * _SLOTS * _SLOT.size)
        self._locks, name = tempfile.mkstemp(prefix="satchel-")
        Path(name).unlink()
        weakref.finalize(self, os.close, self._locks)

    def takes(self, address: str) -> bool:
        """Count a request of an address, and return whether it is allowed."""
        if not self._per_second:
            return True
        who = blake3(address.encode("utf-8", "replace"), key=self._key).digest(length=16)
        group = int.from_bytes(who[:4], "big") % _GROUPS
        full = self._per_second * _SECONDS
        with self._alone(group):
            now = self._clock()
            place, left, at = self._place(group, who)
            if at is None:
                left, at = full, now
            left = min(full, left + max(0.0, now - at) * self._per_second)
            _SLOT.pack_into(self._table, place, who, max(0.0, left - 1), now)
        return left >= 1

    def _place(self, group: int, who: bytes) -> tuple[int, float, float | None]:
        """Return the offset of an address in the table, and its bucket if there is one."""
        start, oldest = group * _SLOTS * _SLOT.size, (float("inf"), 0)
        for place in range(start, start + _SLOTS * _SLOT.size, _SLOT.size):
            found, left, at = _SLOT.unpack_from(self._table, place)
            if found == who:
                return place, left, at
            oldest = min(oldest, (at if found != _NOBODY else -1.0, place))
        return oldest[1], 0.0, None

    @contextmanager
    def _alone(self, group: int) -> Iterator[None]:
        """Lock a group against other processes; the system unlocks it for a killed one."""
        fcntl.lockf(self._locks, fcntl.LOCK_EX, 1, group)
        try:
            yield
        finally:
            fcntl.lockf(self._locks, fcntl.LOCK_UN, 1, group)


_TOGETHER, _EACH = 3 / 4, 1 / 8


@dataclass(frozen=True, slots=True)
class Principal:
    """The principal whose limits apply to a request."""

    token: str | None = None
    """The owner's token that the presented one was derived from; None for the operator.

    Derived tokens share the limits: otherwise each holder could make any number of them.
    """

    @property
    def is_operator(self) -> bool:
        """Whether it is the operator."""
        return self.token is None


OPERATOR = Principal()


class Quota:
    """A shared amount, and the parts that principals use.

    Args:
        total: The whole amount.
    """

    def __init__(self, total: int) -> None:
        self._total = total
        self._together = max(1, int(total * _TOGETHER))
        self._each = max(1, int(total * _EACH))
        self._taken = Counter[Principal]()
        self._all = 0

    def fits(self, who: Principal, amount: int = 1) -> bool:
        """Return whether a principal may use that much more."""
        if self._all + amount > self._total:
            return False
        if who.is_operator:
            return True
        together = self._all - self._taken[OPERATOR]
        return together + amount <= self._together and self._taken[who] + amount <= self._each

    def take(self, who: Principal, amount: int = 1) -> bool:
        """Take an amount, if it is available; return whether it was."""
        if not self.fits(who, amount):
            return False
        self._taken[who] += amount
        self._all += amount
        return True

    def release(self, who: Principal, amount: int = 1) -> None:
        """Return an amount."""
        self._taken[who] -= amount
        self._all -= amount
        if not self._taken[who]:
            del self._taken[who]


class RequestSlots:
    """Slots for concurrent requests, granted in the order of arrival.

    Otherwise clients that were just served could take every slot, and others would starve.

    Args:
        count: Number of slots.
        waiting: Most requests that wait for one.
        patience: Most seconds of waiting.
    """

    def __init__(self, count: int, waiting: int, patience: float) -> None:
        self._places = Quota(count)
        self._waiting = Quota(waiting)
        self._patience = patience
        self._line = deque[tuple[Principal, asyncio.Future[None]]]()

    async def take(self, who: Principal) -> bool:
        """Wait for a slot, and return whether there was one in time."""
        if self._places.take(who):  # waiting requests may not have it
            return True
        if not self._waiting.take(who):
            return False
        place = asyncio.get_running_loop().create_future()
        self._line.append((who, place))
        try:
            async with asyncio.timeout(self._patience):
                await place
        except BaseException as error:
            has_one = place.done() and not place.cancelled()
            if isinstance(error, TimeoutError) and has_one:
                return True
            if has_one:
                self.release(who)
            else:
                self._line.remove((who, place))
            if isinstance(error, TimeoutError):
                return False
            raise
        finally:
            self._waiting.release(who)
        return True

    def release(self, who: Principal) -> None:
        """Release a slot to the longest waiting request that may have it."""
        self._places.release(who)
        for one in list(self._line):
            principal, place = one
            if not place.done() and self._places.take(principal):
                self._line.remove(one)
                place.set_result(None)
                return
