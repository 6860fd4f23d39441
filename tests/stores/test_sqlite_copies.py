"""A copy of a SQLite store is one consistent state, complete or absent, while others write."""

import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import apsw
import msgspec
import pytest
from folder_kit import picture
from ledger_kit import created, listed, memories, opened

from satchel.errors import TargetError, TargetExistsError, UsageError
from satchel.ledger.ledger import Ledger
from satchel.ledger.witness import Witness
from satchel.stores.sqlite import SqliteStore


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    """A store of some 6 MB, so that the copy takes several steps."""
    (tmp_path / "store").mkdir()
    store = SqliteStore(tmp_path / "store" / "satchel.db")
    with store.writing() as writing:
        for number in range(60):
            writing._all("INSERT INTO side VALUES ('none', ?, randomblob(100000))", f"{number}")
    yield store
    store.close()


def require_prefix(path: Path, ledger: Ledger, store: SqliteStore, folder: Path) -> int:
    """Require a sound store that is a prefix of the original; return its size."""
    copied = SqliteStore(path, read_only=True)
    try:
        assert copied._connection().pragma("integrity_check") == "ok"
        there = listed(opened(copied, ledger.bank, None))
        assert there == listed(ledger)[: len(there)]
        with copied.reading() as reader:
            head = reader.head(ledger.bank)
    finally:
        copied.close()
    assert head is not None
    witness = Witness(folder / "witness of the copy")
    witness.record(msgspec.json.decode(head.signed))
    listed(Ledger(store, ledger.bank, witness=witness))  # refuses a state that does not continue it
    return len(there)


def test_a_copy_made_during_writes_is_one_earlier_state(store: SqliteStore, tmp_path: Path) -> None:
    """Appends between all steps: the copy is the bank at the start, and verifies."""
    ledger = created(store)
    ledger.append(memories(30))
    other = SqliteStore(store.path)
    writer = opened(other, ledger.bank, None)
    path, told = tmp_path / "copy.db", list[tuple[int, int]]()

    def write(done: int, total: int) -> None:
        told.append((done, total))
        writer.append(memories(50, 1000 * len(told)))

    store.copy_to(path, progress=write)
    other.close()
    assert len(told) > 3
    assert told == sorted(set(told))
    assert told[-1][0] == told[-1][1]
    assert require_prefix(path, ledger, store, tmp_path) == 32
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert not list(tmp_path.glob("*copy.db*?")) + list(tmp_path.glob(".*"))


def test_a_copy_is_an_independent_store(store: SqliteStore, tmp_path: Path) -> None:
    """Later records of the copy are not in the original."""
    ledger = created(store)
    store.copy_to(tmp_path / "copy.db")
    copied = SqliteStore(tmp_path / "copy.db")
    assert opened(copied, ledger.bank, None).append(memories(3)) == [2, 3, 4]
    copied.close()
    assert len(listed(ledger)) == 2


def test_a_copy_within_a_read_block_is_what_the_block_sees(
    store: SqliteStore, tmp_path: Path
) -> None:
    """Commits since the block began are not in the copy."""
    ledger = created(store)
    other = SqliteStore(store.path)
    with ledger.reading():
        opened(other, ledger.bank, None).append(memories(5))
        store.copy_to(tmp_path / "copy.db")
    other.close()
    assert require_prefix(tmp_path / "copy.db", ledger, store, tmp_path) == 2


def test_a_copy_within_a_write_block_is_refused(store: SqliteStore, tmp_path: Path) -> None:
    """Its changes may never be committed."""
    with store.writing(), pytest.raises(UsageError):
        store.copy_to(tmp_path / "copy.db")
    assert not (tmp_path / "copy.db").exists()


@pytest.mark.parametrize("ending", ["", "-wal", "-shm", "-journal"])
@pytest.mark.parametrize("link", [True, False])
def test_a_copy_refuses_an_existing_target(
    store: SqliteStore,
    tmp_path: Path,
    ending: str,
    link: bool,  # noqa: FBT001 - a parameter
) -> None:
    """A file or link in its place, or one that SQLite would use as a part of it."""
    taken = tmp_path / f"copy.db{ending}"
    if link:
        taken.symlink_to(tmp_path / "elsewhere")
    else:
        taken.write_bytes(b"kept")
    before = picture(tmp_path)
    with pytest.raises(TargetExistsError):
        store.copy_to(tmp_path / "copy.db")
    assert picture(tmp_path) == before


def test_a_failed_copy_leaves_no_file(store: SqliteStore, tmp_path: Path) -> None:
    """A progress callback may stop it; the folder must exist."""

    class _Enough(Exception):  # noqa: N818 - no error of anybody's
        pass

    def stop(*_: int) -> None:
        raise _Enough

    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(_Enough):
        store.copy_to(tmp_path / "copy.db", progress=stop)
    with pytest.raises(TargetError):
        store.copy_to(tmp_path / "none" / "copy.db")
    assert sorted(tmp_path.rglob("*")) == before


def test_a_copy_to_a_full_disk_leaves_no_file_and_succeeds_with_space(
    store: SqliteStore, tmp_path: Path, mount_small: Callable[[str], Path]
) -> None:
    """Fault: the disk of the copy is full."""
    ledger = created(store)
    folder = mount_small("8m")
    (folder / "ballast").write_bytes(bytes(5_000_000))
    with pytest.raises(TargetError, match="Free disk space"):
        store.copy_to(folder / "copy.db")
    assert [found.name for found in folder.iterdir()] == ["ballast"]
    (folder / "ballast").unlink()
    store.copy_to(folder / "copy.db")
    assert require_prefix(folder / "copy.db", ledger, store, tmp_path) == 2


@pytest.mark.parametrize("moment", ["fsync", "link"])
def test_a_killed_copy_leaves_no_target(store: SqliteStore, tmp_path: Path, moment: str) -> None:
    """Fault: kill -9 before the sync, and before the rename; the next copy succeeds."""
    ledger = created(store)
    program = """
import os, pathlib, signal, sys
from satchel.stores.sqlite import SqliteStore
store = SqliteStore(pathlib.Path(sys.argv[1]))
setattr(os, sys.argv[3], lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL))
store.copy_to(pathlib.Path(sys.argv[2]))
"""
    target = tmp_path / "copy.db"
    done = subprocess.run(
        [sys.executable, "-c", program, store.path, target, moment],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        check=False,
    )
    assert done.returncode == -signal.SIGKILL
    assert not target.exists()
    store.copy_to(target)
    assert require_prefix(target, ledger, store, tmp_path) == 2


def test_a_read_only_store_can_be_copied(
    store: SqliteStore, tmp_path: Path, mount_small: Callable[[str], Path]
) -> None:
    """From a read-only medium, including what is only in its log."""
    ledger = created(store)
    ledger.append(memories(5))
    folder = mount_small("20m")
    for ending in ("", "-wal"):
        source = Path(f"{store.path}{ending}")
        (folder / source.name).write_bytes(source.read_bytes())
    subprocess.run(["mount", "-o", "remount,ro", folder], check=True)
    backup = SqliteStore(folder / "satchel.db", read_only=True)
    backup.copy_to(tmp_path / "copy.db")
    backup.close()
    assert require_prefix(tmp_path / "copy.db", ledger, store, tmp_path) == 7


def test_copying_takes_no_more_memory_for_a_larger_store(
    store: SqliteStore, tmp_path: Path
) -> None:
    """50 MB are copied within SQLite's page cache."""
    with store.writing() as writing:
        for number in range(60, 500):
            writing._all("INSERT INTO side VALUES ('none', ?, randomblob(100000))", f"{number}")
    reader = SqliteStore(store.path, read_only=True)
    before = apsw.memory_used()
    apsw.memory_high_water(reset=True)
    reader.copy_to(tmp_path / "copy.db")
    assert apsw.memory_high_water() - before < 24 << 20
    reader.close()
    assert (tmp_path / "copy.db").stat().st_size > 50_000_000
