"""A board of small notes for all machines on one store, among its unlogged values.

See ``satchel.ports.serving.board``. It has names of its own, which no bank can have, so nothing
that is done with banks sees it.
"""

import struct
import time
from collections.abc import Callable

from blake3 import blake3

from satchel.ports.store import Store

_NOTES, _WORDS = "board", "board/words/"
_TIME = struct.Struct(">d")
_APART = 300.0
"""Seconds by which the clocks of machines may differ."""


class StoreBoard:
    """A board in a store that several machines write. For any thread.

    Args:
        store: The store.
        clock: Tells the time, in seconds.
    """

    shared = True

    def __init__(self, store: Store, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._clock = clock

    def claim(self, word: str, seconds: float) -> bool:
        """Claim a word; see ``Board``."""
        at = self._clock()
        # Whoever claims waits for others in the same drawer alone.
        drawer = _WORDS + blake3(word.encode()).hexdigest(length=1)
        with self._store.writing() as writing:
            there = writing.side(drawer)
            gone = [one for one, until in there.items() if _TIME.unpack(until)[0] < at]
            is_new = word not in there or word in gone
            values: dict[str, bytes | None] = dict.fromkeys(gone)
            if is_new:
                values[word] = _TIME.pack(at + seconds + _APART)
            writing.put_side(drawer, values)
        return is_new

    def put(self, name: str, note: bytes | None) -> None:
        """Put a note up, or take it down; see ``Board``."""
        with self._store.writing() as writing:
            writing.put_side(_NOTES, {name: note})

    def notes(self, prefix: str) -> dict[str, bytes]:
        """Return notes by name; see ``Board``."""
        with self._store.reading() as reader:
            return reader.side(_NOTES, prefix)

    def close(self) -> None:
        """Do nothing: the store is closed by whoever opened it."""
