"""Failing reads, writes, syncs and opens: a typed error, no loss, and the ledger continues."""

import itertools
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from errno import EIO, ENOSPC
from pathlib import Path

import apsw
import pytest
from at_rest_kit import at_rest  # noqa: F401 - a fixture
from fault_kit import ACTS, Fault, FaultyDisk, faulty_disk
from ledger_kit import created, listed, memories, noting, opened, require_not_ahead

from satchel.errors import StoreError, StoreFullError
from satchel.ledger.ledger import Ledger
from satchel.ledger.witness import Witness
from satchel.stores.sqlite import SqliteStore
from satchel.stores.sqlite.statements import translated

pytestmark = pytest.mark.usefixtures("at_rest")


class Rig:
    """A bank on a disk that may fail, and the IDs it acknowledged."""

    def __init__(self, root: Path, disk: FaultyDisk) -> None:
        root.mkdir()
        self.disk, self.root = disk, root
        self.path = root / "satchel.db"
        self.store = self.opened()
        self.ledger = created(self.store, Witness(root / "witness"))
        self.acknowledged: list[str] = []
        self.numbers = itertools.count()

    def opened(self) -> SqliteStore:
        """Open the store on the disk that may fail."""
        store = SqliteStore(self.path, vfs=self.disk.name)
        # SQLite goes on when the checkpoint after a commit fails; apsw does not, where the file
        # system is one in Python. So checkpoints are made apart.
        store._connection().pragma("wal_autocheckpoint", 0)
        return store

    def append(self, ledger: Ledger) -> None:
        """Append a record, which is acknowledged unless it raises."""
        records = memories(2, 2 * next(self.numbers))
        ledger.append(records)
        self.acknowledged.extend(record.id for record in records)

    # -- what is done while something fails ------------------------------------------------

    def appending(self) -> None:
        """Append with the open ledger."""
        self.append(self.ledger)

    def opening(self) -> None:
        """Reopen the closed store and append."""
        self.store = self.opened()
        self.ledger = opened(self.store, self.ledger.bank, self.root / "witness")
        self.append(self.ledger)

    def listing(self) -> None:
        """List everything, with nothing cached."""
        self.store._connection().release_memory()
        listed(self.ledger)

    def checkpointing(self) -> None:
        """Move the write-ahead log into the database."""
        connection = self.store._connection()
        with translated(self.store.name, connection):
            connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)

    # -- what is true after ----------------------------------------------------------------

    def require_sound(self) -> None:
        """Require that nothing is lost, and that the open ledger and a new one continue."""
        self.append(self.ledger)
        store = SqliteStore(self.path)
        try:
            fresh = opened(store, self.ledger.bank, self.root / "witness")
            assert listed(fresh)[2:] == self.acknowledged
            require_not_ahead(self.root / "witness", fresh)
            self.append(fresh)
            assert listed(self.ledger) == listed(fresh)
            assert store._connection().pragma("integrity_check") == "ok"
        finally:
            store.close()


Work = Callable[[Rig], None]


def _nothing(_: Rig) -> None:
    pass


WORK: dict[str, tuple[Work, Work]] = {
    "appending": (_nothing, Rig.appending),
    "opening": (lambda rig: rig.store.close(), Rig.opening),
    "listing": (_nothing, Rig.listing),
    "checkpointing": (_nothing, Rig.checkpointing),
}
"""What is done, and before it, without a fault."""


@contextmanager
def ignore_sqlite_cleanup() -> Iterator[None]:
    """Ignore errors that SQLite ignores, such as a failing clean-up."""
    hear = sys.unraisablehook
    sys.unraisablehook = lambda _: None
    try:
        yield
    finally:
        sys.unraisablehook = hear


def run_with_fault(rig: Rig, work: str, fault: Fault) -> bool:
    """Run an action with a fault and check the result; return whether the fault occurred."""
    before, act = WORK[work]
    before(rig)
    rig.disk.set(fault)
    refused: StoreError | None = None
    try:
        with ignore_sqlite_cleanup():
            act(rig)
    except StoreError as error:
        refused = error
    assert refused is None or isinstance(refused, StoreFullError) == (fault.error == ENOSPC)
    met = rig.disk.failed > 0
    rig.disk.set(None)
    if work == "opening":
        rig.opening()
    rig.require_sound()
    return met


def sweep(root: Path, work: str, act: str, error: int, *, step: int = 1) -> int:
    """Fail the first operation, then a later one, until none is left; count the faults."""
    # An empty file takes no room: SQLite makes the log, after the database was opened.
    first = 1 if (act, error) == ("open", ENOSPC) else 0
    met = 0
    for lasting in (False, True):
        with faulty_disk() as disk:
            rig = Rig(root / f"{lasting}", disk)
            for after in itertools.count(first, step):
                fault = Fault(act, after, error, lasting)
                with noting(f"{work}: {fault}"):
                    if not run_with_fault(rig, work, fault):
                        break
                met += 1
            rig.store.close()
    return met


FAULTS = [
    *(("appending", act, error) for act in ("write", "sync") for error in (EIO, ENOSPC)),
    *(("opening", act, EIO) for act in ("open", "read", "size", "write", "sync")),
    *(("opening", act, ENOSPC) for act in ("open", "write", "sync")),
    ("listing", "read", EIO),
    *(("checkpointing", act, EIO) for act in ("read", "write", "sync", "truncate", "size")),
    *(("checkpointing", act, ENOSPC) for act in ("write", "sync")),
]
"""What each does at all: the others never fail."""


@pytest.mark.in_check(14)
@pytest.mark.parametrize(("work", "act", "error"), FAULTS)
def test_any_failure_is_reported_and_nothing_is_lost(
    tmp_path: Path, work: str, act: str, error: int
) -> None:
    """Fault: some reads, writes, syncs and opens fail, each once or from then on.

    The error is typed, and a full disk is named; acknowledged records exist and refused ones do
    not. Without the fault, the same ledger continues, and so does a new one.
    """
    assert sweep(tmp_path, work, act, error, step=7 if act in {"read", "write"} else 1) > 0


@pytest.mark.prove
@pytest.mark.parametrize(("work", "act", "error"), FAULTS)
def test_every_single_failure_is_reported_and_nothing_is_lost(
    tmp_path: Path, work: str, act: str, error: int
) -> None:
    """Fault: the same, for every single operation."""
    assert sweep(tmp_path, work, act, error) > 0


def test_every_kind_of_operation_is_made_to_fail(tmp_path: Path) -> None:
    """The sweep covers each kind of operation that the actions use."""
    tried = {(work, act) for work, act, _ in FAULTS}
    with faulty_disk() as disk:
        rig = Rig(tmp_path / "rig", disk)
        for work, (before, act) in WORK.items():
            rig.append(rig.ledger)
            before(rig)
            disk.set(None)
            act(rig)
            assert {(work, name) for name in ACTS if disk.done[name]} <= tried
        rig.store.close()


@pytest.mark.parametrize("room", range(0, 120_000, 12_000))
def test_a_store_on_a_full_disk_opens_after_space_is_freed(
    mount_small: Callable[[str], Path], room: int
) -> None:
    """Fault: a real file system with few bytes left. Opening needs some, and the error says so."""
    folder = mount_small("2m")
    path, ballast = folder / "satchel.db", folder / "ballast"
    store = SqliteStore(path)
    bank = created(store).bank
    store.close()
    there = os.statvfs(folder)
    ballast.write_bytes(bytes(there.f_bavail * there.f_frsize - room))
    acknowledged = 0
    try:
        store = SqliteStore(path)
        ledger = opened(store, bank, None)
        while True:
            acknowledged = len(ledger.append(memories(1, acknowledged))) + acknowledged
    except StoreFullError:
        pass
    finally:
        store.close()
    reader = SqliteStore(path, read_only=True)
    assert len(listed(opened(reader, bank, None))) == 2 + acknowledged
    reader.close()
    ballast.unlink()
    store = SqliteStore(path)
    assert opened(store, bank, None).append(memories(1, 9000)) == [2 + acknowledged]
    store.close()
