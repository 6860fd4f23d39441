"""The store: a folder with a LadybugDB graph, and what Satchel does to it."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from satchel.errors import ReadOnlyStoreError, StoreError, UsageError
from satchel.ports.store import Extent, StoreTraits
from satchel.stores.ladybug.files.scrubbing import anew, unreadable
from satchel.stores.ladybug.files.sharing import Shared, leave, share
from satchel.stores.ladybug.reading import View
from satchel.stores.ladybug.statements import Block
from satchel.stores.ladybug.writing import Transaction
from satchel.stores.raw_files import below

BUSY_MS = 5_000
"""How long others are waited for."""


class LadybugStore:
    """Banks in a graph.

    A handle may be used from any thread; handles on one folder share one database. One process
    has a store at a time. After a fork the child would have to wait for its parent.

    Args:
        path: The folder; made with mode 0700 when missing, but for reading.
        read_only: Whether nothing is going to be written; several processes may read.
        busy_ms: How long other processes and threads are waited for.

    Raises:
        MissingExtraError: If LadybugDB is not installed.
        LockedError: If another process has it; named in the message.
        StoreError: If it cannot be opened.
    """

    traits = StoreTraits(full_text=True, vectors=True, traversal=True)

    def __init__(self, path: Path, *, read_only: bool = False, busy_ms: int = BUSY_MS) -> None:
        self.path = path
        self.name = str(path)
        self._read_only = read_only
        self._busy_ms = busy_ms
        self._shared: Shared | None = None
        self._local = threading.local()
        self._opening = threading.Lock()
        self._opened()

    @contextmanager
    def reading(self) -> Iterator[View]:
        """Give a consistent view."""
        block = self._within()
        if block is not None:  # within a block of the same thread: the same view
            yield View(block)
            return
        with self._opened().reading() as block, self._holding(block):
            yield View(block)

    @contextmanager
    def writing(self) -> Iterator[Transaction]:
        """Give the right to write; committed when the block ends without an error."""
        if self._read_only:
            raise ReadOnlyStoreError("the store was opened read-only", file=self.name)
        if self._within() is not None:
            raise StoreError("this thread already has an open transaction", file=self.name)
        with self._opened().writing() as block, self._holding(block):
            yield Transaction(block)

    def scrub(self) -> None:
        """Write everything to a new file, and put it in the place of the old one.

        The engine gives space back, but does not overwrite it. Needs as much space again.

        Raises:
            StoreBusyError: If somebody reads or writes and does not end in time.
            UsageError: Within a block of the same thread.
        """
        if self._read_only:
            raise ReadOnlyStoreError("the store was opened read-only", file=self.name)
        if self._within() is not None:
            raise UsageError("a store cannot be scrubbed while it is being read", file=self.name)
        shared = self._opened()
        shared.replace(partial(anew, shared.folder))

    def laid_open(self) -> Iterator[Extent]:
        """Yield every file in its folder: those of the engine, its log, and what was set aside."""
        yield from below(self.path)

    def out_of_reach(self) -> list[str]:
        return []

    def check(self) -> list[str]:
        """Return what cannot be read of any table."""
        with self.reading() as view:
            return unreadable(view)

    def close(self) -> None:
        """Give the files back, when no other handle of this process has them."""
        with self._opening:
            shared, self._shared = self._shared, None
        self._local = threading.local()
        if shared is not None and shared.is_ours:
            leave(shared)

    def _opened(self) -> Shared:
        with self._opening:
            if self._shared is None or not self._shared.is_ours:
                self._shared = share(
                    self.path, read_only=self._read_only, wait=self._busy_ms / 1000
                )
            return self._shared

    def _within(self) -> Block | None:
        block: Block | None = getattr(self._local, "block", None)
        return block

    @contextmanager
    def _holding(self, block: Block) -> Iterator[None]:
        self._local.block = block
        try:
            yield
        finally:
            self._local.block = None
