"""The memory files of a bank, and those of any name for who serves a store."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:  # most programs open no memory files
    from satchel.actions.config import Settings
    from satchel.actions.opened import OpenBank
    from satchel.api.lifetime import Lifetime
    from satchel.files import MemoryStore

_opening = Lock()


class Filing:
    """The part of ``Bank`` that gives its memory files."""

    _opened: OpenBank
    _lifetime: Lifetime
    _memory_files: Any = None

    @property
    def files(self) -> MemoryStore:
        """Its memory files: text at paths, with history and audit; those of its name.

        Open as long as the bank is, and made where there are none, unless the bank is open for
        reading. What is written to them is in the bank's log when it is recalled or exported, or
        closed; where they are kept elsewhere, what was saved. For the holder of a token each call
        asks whether it is allowed.

        Raises:
            MemoryStoreError: If the bank has no name, or one that no folder can have; or there are
                none, and the bank is open for reading.
            PermissionRefusedError: If the token that was presented does not allow it.
        """
        with self._lifetime.use(), _opening:
            if self._memory_files is None:
                self._memory_files = self._files_opened()
            found: MemoryStore = self._memory_files
            return found

    def _files_opened(self) -> MemoryStore:
        from satchel.actions.filing.behind import tell
        from satchel.actions.filing.opened import files_of_bank

        bank = self._opened
        store = files_of_bank(bank)

        def end() -> None:
            tell(bank, store)
            store.close()

        self._lifetime.also(end)
        return store


class _Settled(Protocol):
    """An open store, of which only the surroundings are needed."""

    _settings: Settings


@contextmanager
def files_of(satchel: _Settled, key: str, *, create: bool = False) -> Iterator[MemoryStore]:
    """Open the memory files of a name as whoever has a store open may use them."""
    from satchel.actions.filing.opened import opened_files

    with opened_files(satchel._settings, key, create=create) as store:  # noqa: SLF001 - its own
        yield store
