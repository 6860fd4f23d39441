"""How many requests an address may make, over all workers of a server."""

import fcntl
import mmap
import os
import secrets
import struct
import tempfile
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from blake3 import blake3

_SECONDS = 10
_GROUPS, _SLOTS = 1024, 8
_SLOT = struct.Struct("=16sdd")  # who, how much is left, when that was
_NOBODY = bytes(16)


class RateLimiter:
    """Buckets that fill up again, one for each address.

    What it counts in is shared with processes that are forked later. Of more addresses than it has
    room for, those that came longest ago are forgotten; which share a place nobody outside knows.

    Args:
        per_second: Requests, on the average of ten seconds; 0 for any number.
        clock: Tells the time in seconds, the same in all processes.
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
        """Take a request of an address into account, and tell whether it may be made."""
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
        """Return where an address is counted, or can be; and what is there of it."""
        start, oldest = group * _SLOTS * _SLOT.size, (float("inf"), 0)
        for place in range(start, start + _SLOTS * _SLOT.size, _SLOT.size):
            found, left, at = _SLOT.unpack_from(self._table, place)
            if found == who:
                return place, left, at
            oldest = min(oldest, (at if found != _NOBODY else -1.0, place))
        return oldest[1], 0.0, None

    @contextmanager
    def _alone(self, group: int) -> Iterator[None]:
        """Keep other processes from a group; the system lets go for one that is killed."""
        fcntl.lockf(self._locks, fcntl.LOCK_EX, 1, group)
        try:
            yield
        finally:
            fcntl.lockf(self._locks, fcntl.LOCK_UN, 1, group)
