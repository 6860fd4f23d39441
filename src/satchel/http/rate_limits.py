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

    def allows(self, address: str) -> bool:
        """Count a request of an address, and return whether it is allowed."""
        if not self._per_second:
            return True
        digest = blake3(address.encode("utf-8", "replace"), key=self._key).digest(length=16)
        group = int.from_bytes(digest[:4], "big") % _GROUPS
        full = self._per_second * _SECONDS
        with self._locked(group):
            now = self._clock()
            offset, left, at = self._find_bucket(group, digest)
            if at is None:
                left, at = full, now
            left = min(full, left + max(0.0, now - at) * self._per_second)
            _SLOT.pack_into(self._table, offset, digest, max(0.0, left - 1), now)
        return left >= 1

    def _find_bucket(self, group: int, digest: bytes) -> tuple[int, float, float | None]:
        """Return the offset of an address in the table, and its bucket if there is one."""
        start, oldest = group * _SLOTS * _SLOT.size, (float("inf"), 0)
        for offset in range(start, start + _SLOTS * _SLOT.size, _SLOT.size):
            stored, left, at = _SLOT.unpack_from(self._table, offset)
            if stored == digest:
                return offset, left, at
            oldest = min(oldest, (at if stored != _NOBODY else -1.0, offset))
        return oldest[1], 0.0, None

    @contextmanager
    def _locked(self, group: int) -> Iterator[None]:
        """Lock a group against other processes; the system unlocks it for a killed one."""
        fcntl.lockf(self._locks, fcntl.LOCK_EX, 1, group)
        try:
            yield
        finally:
            fcntl.lockf(self._locks, fcntl.LOCK_UN, 1, group)


_OF_HOLDERS, _EACH = 3 / 4, 1 / 8


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
        self._most_of_holders = max(1, int(total * _OF_HOLDERS))
        self._most_each = max(1, int(total * _EACH))
        self._used = Counter[Principal]()
        self._used_in_all = 0

    def fits(self, principal: Principal, amount: int = 1) -> bool:
        """Return whether a principal may use that much more."""
        if self._used_in_all + amount > self._total:
            return False
        if principal.is_operator:
            return True
        used = self._used_in_all - self._used[OPERATOR]
        return (
            used + amount <= self._most_of_holders
            and self._used[principal] + amount <= self._most_each
        )

    def take(self, principal: Principal, amount: int = 1) -> bool:
        """Take an amount, if it is available; return whether it was."""
        if not self.fits(principal, amount):
            return False
        self._used[principal] += amount
        self._used_in_all += amount
        return True

    def release(self, principal: Principal, amount: int = 1) -> None:
        """Return an amount."""
        self._used[principal] -= amount
        self._used_in_all -= amount
        if not self._used[principal]:
            del self._used[principal]


class RequestSlots:
    """Slots for concurrent requests, granted in the order of arrival.

    Otherwise clients that were just served could take every slot, and others would starve.

    Args:
        count: Number of slots.
        waiting: Most requests that wait for one.
        patience: Most seconds of waiting.
    """

    def __init__(self, count: int, waiting: int, patience: float) -> None:
        self._slots = Quota(count)
        self._waiting = Quota(waiting)
        self._patience = patience
        self._queue = deque[tuple[Principal, asyncio.Future[None]]]()

    async def take(self, principal: Principal) -> bool:
        """Wait for a slot, and return whether there was one in time."""
        if self._slots.take(principal):  # waiting requests may not have it
            return True
        if not self._waiting.take(principal):
            return False
        turn = asyncio.get_running_loop().create_future()
        self._queue.append((principal, turn))
        try:
            async with asyncio.timeout(self._patience):
                await turn
        except BaseException as error:
            has_slot = turn.done() and not turn.cancelled()
            if isinstance(error, TimeoutError) and has_slot:
                return True
            if has_slot:
                self.release(principal)
            else:
                self._queue.remove((principal, turn))
            if isinstance(error, TimeoutError):
                return False
            raise
        finally:
            self._waiting.release(principal)
        return True

    def release(self, released_by: Principal) -> None:
        """Release a slot to the longest waiting request that may have it."""
        self._slots.release(released_by)
        for entry in list(self._queue):
            principal, turn = entry
            if not turn.done() and self._slots.take(principal):
                self._queue.remove(entry)
                turn.set_result(None)
                return
