"""Who else holds what a bank says: the contract, and those who are there.

A part of the program that keeps texts of memories outside the store (memory files, sessions beside
the log, backups) adds one ``Holder`` to ``HOLDERS``. It is asked to erase its copy of each record
before the log is, so that an erasure that is cut short finds the record again; and it shows its
bytes to whoever looks through them afterwards. Source: docs/decisions/0041.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Protocol

from satchel.actions.backing_up.holding import Backups
from satchel.actions.filing.opened import namespace_of, opened_files
from satchel.actions.opened import OpenBank
from satchel.actions.receipts.finding import list_receipts
from satchel.errors import MemoryStoreError, SatchelError
from satchel.files import MemoryStore
from satchel.ledger.logged import Logged
from satchel.memory.records import FileVersion
from satchel.ports.store import Extent
from satchel.stores.raw_files import below

_MOST_NAMED = 40
_SECRET_FOLDERS = frozenset({"keys", "identities"})


class Holder(Protocol):
    """One place outside the store that may hold what is erased."""

    name: str
    """What to call it in the report."""

    def erase(self, gone: Sequence[Logged]) -> int:
        """Rid it of some records that are about to be erased; return how many things went.

        Called again for the same records after a program was killed.

        Raises:
            SatchelError: If it cannot; then the records are not erased either.
        """
        ...

    def laid_open(self) -> Iterator[Extent]:
        """Yield all bytes in which it may hold something, compressed ones as they were."""
        ...

    def out_of_reach(self) -> list[str]:
        """Return in words where it may hold something that nobody here can look at."""
        ...

    def close(self) -> None:
        """Give back what it has open."""
        ...


class MemoryFiles:
    """The memory files of a bank's name: a file goes with all its versions."""

    name = "memory files"

    def __init__(self, bank: OpenBank) -> None:
        self._bank = bank
        self._open = ExitStack()
        self._store: MemoryStore | None = None

    def erase(self, gone: Sequence[Logged]) -> int:
        """See ``Holder``."""
        paths = {
            one.model.path: one.model.metadata.get("store")
            for one in gone
            if isinstance(one.model, FileVersion)
        }
        store = self._opened() if paths else None
        if store is None:
            return 0
        erased = 0
        for path, where in sorted(paths.items()):
            if where == store.id and _was_there(store, path):
                erased += store.erase(path, reason="erased from the bank")
        return erased

    def laid_open(self) -> Iterator[Extent]:
        """See ``Holder``."""
        store = self._opened()
        if store is not None:
            yield from store.laid_open()

    def out_of_reach(self) -> list[str]:
        """See ``Holder``."""
        store = self._opened()
        if store is None:
            return []
        found = (
            ["the audit log of memory files, which contains paths and digests"]
            if store.audit
            else []
        )
        if not store.is_in_place:
            found.append("removed memory files that the object store retains")
            found.append("working copies of memory files on other machines")
        return found

    def close(self) -> None:
        """See ``Holder``."""
        self._open.close()

    def _opened(self) -> MemoryStore | None:
        name = self._bank.name
        if self._store is None and name:
            with suppress(MemoryStoreError):
                known = {**namespace_of(self._bank.settings)._asdict(), "key": name}
                if MemoryStore.exists(**known):
                    files = opened_files(self._bank.settings, name)
                    self._store = self._open.enter_context(files)
        return self._store


class Home:
    """What this machine keeps beside stores: receipts, journals, copies of older stores."""

    name = "home folder"

    def __init__(self, bank: OpenBank) -> None:
        self._bank = bank

    def erase(self, gone: Sequence[Logged]) -> int:
        """See ``Holder``; nothing there is of one record."""
        del gone
        return 0

    def laid_open(self) -> Iterator[Extent]:
        """See ``Holder``; keys are not looked at."""
        home = self._bank.settings.home
        for one in below(home):
            if Path(one.name).relative_to(home).parts[0] not in _SECRET_FOLDERS:
                yield one

    def out_of_reach(self) -> list[str]:
        """See ``Holder``; the files that were written of the bank, as far as receipts say."""
        bank, names = self._bank, dict[str, None]()
        with suppress(SatchelError, OSError):
            for receipt in list_receipts(bank.settings, bank.id, limit=10_000):
                if receipt.kind in ("export", "convert", "migrate", "copy"):
                    names[f"an exported copy: {receipt.output}"] = None
        found = list(names)
        if found[_MOST_NAMED:]:
            more = f"{len(found) - _MOST_NAMED} more copies; see: satchel receipt list"
            found[_MOST_NAMED:] = [more]
        return found

    def close(self) -> None:
        """See ``Holder``."""


HOLDERS: tuple[Callable[[OpenBank], Holder], ...] = (MemoryFiles, Backups, Home)
"""Everybody who is asked, in this order."""


def _was_there(store: MemoryStore, path: str) -> bool:
    """Tell whether a store has a path, or a version of what was there."""
    return store.exists(path) or bool(store.history(path))
