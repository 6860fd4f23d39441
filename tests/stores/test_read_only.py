"""Read-only stores: on any medium, with concurrent writers, and without a trace."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest
from folder_kit import picture
from ledger_kit import created, listed, memories, opened

from satchel.errors import (
    PathRefusedError,
    ReadOnlyStoreError,
    StoreBusyError,
    StoreError,
    UnknownBankError,
)
from satchel.ledger.ledger import Ledger
from satchel.stores.sqlite import SqliteStore

LEFT = {
    "nothing": (),
    "a log": ("-wal",),
    "a log and its index": ("-wal", "-shm"),
    "an empty log": ("-wal",),
    "a log and an empty index": ("-wal", "-shm"),
    "an index": ("-shm",),
}
"""What a writer may have left beside the store."""

SEEN = 40


def make_store_with_leftovers(folder: Path, left: str) -> tuple[Path, str]:
    """Put a store into a folder with the files that a writer left; return it and its bank.

    Half of its records are only in the log, if a log with content was left.
    """
    origin = folder.parent / "origin"
    origin.mkdir()
    path, target = origin / "satchel.db", folder / "satchel.db"
    store = SqliteStore(path)
    ledger = created(store)
    ledger.append(memories(SEEN // 2))
    store._connection().pragma("wal_checkpoint", "truncate")
    in_log = "-wal" in LEFT[left] and left != "an empty log"
    ledger.append(memories(SEEN - SEEN // 2 - 2, SEEN))
    if not in_log:
        store._connection().pragma("wal_checkpoint", "truncate")
    for ending in ("", *LEFT[left]):
        shutil.copy(f"{path}{ending}", f"{target}{ending}")
    store.close()
    if left == "a log and an empty index":
        os.truncate(folder / "satchel.db-shm", 0)
    if in_log:
        assert (folder / "satchel.db-wal").stat().st_size > 0
    return target, ledger.bank


def require_readable(path: Path, bank: str) -> None:
    """Require that all records exist, verify and can be searched; appends are refused."""
    store = SqliteStore(path, read_only=True)
    try:
        ledger = opened(store, bank, None)
        for _ in range(2):
            assert len(listed(ledger)) == SEEN
        with ledger.reading() as view:
            assert len(view.candidates("memory")) == SEEN - 2
        with pytest.raises(ReadOnlyStoreError):
            ledger.append(memories(1, 900))
        with store.reading() as reader, pytest.raises(UnknownBankError):
            reader.counts("blake3:no")
    finally:
        store.close()


@pytest.mark.parametrize("left", LEFT)
def test_a_store_on_a_read_only_mount_can_be_read(
    mount_small: Callable[[str], Path], left: str
) -> None:
    """Whatever a writer left next to the store: every record exists."""
    folder = mount_small("8m")
    path, bank = make_store_with_leftovers(folder, left)
    subprocess.run(["mount", "-o", "remount,ro", folder], check=True)
    before = picture(folder)
    require_readable(path, bank)
    assert picture(folder) == before


@pytest.mark.parametrize("left", LEFT)
def test_reading_a_store_leaves_no_trace(tmp_path: Path, left: str) -> None:
    """No file is made and no byte changed, except in the shared memory file of an existing log.

    It is the lock table between the programs that use a store.
    """
    folder = tmp_path / "media"
    folder.mkdir()
    path, bank = make_store_with_leftovers(folder, left)
    before = picture(folder)
    require_readable(path, bank)
    after = picture(folder)
    if left == "a log and its index":
        assert before.pop("satchel.db-shm")[0] == after.pop("satchel.db-shm")[0]
    assert after == before


@pytest.mark.in_check(2)
@pytest.mark.parametrize("left", LEFT)
def test_a_store_can_be_read_without_write_permission(tmp_path: Path, left: str) -> None:
    """Files of mode 0400 in a folder of mode 0500, without the right to override modes."""
    folder = tmp_path / "media"
    folder.mkdir()
    path, bank = make_store_with_leftovers(folder, left)
    for found in folder.iterdir():
        found.chmod(0o400)
    folder.chmod(0o500)
    before = picture(folder)
    kit, here = Path(picture.__code__.co_filename).parent, Path(__file__).parent
    program = """
import os, pathlib, sys
from test_read_only import require_readable
path = pathlib.Path(sys.argv[1])
assert not os.access(path, os.W_OK) and not os.access(path.parent, os.W_OK)
require_readable(path, sys.argv[2])
"""
    lowered = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"]
    subprocess.run(
        [*(lowered if os.geteuid() == 0 else []), sys.executable, "-c", program, path, bank],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(kit), str(here), *sys.path])},
        check=True,
    )
    assert picture(folder) == before
    folder.chmod(0o700)


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[Ledger]:
    """A bank in a store that is open for writing."""
    store = SqliteStore(tmp_path / "satchel.db")
    yield created(store)
    store.close()


def test_a_reader_sees_commits_of_another_process(tmp_path: Path, writer: Ledger) -> None:
    """The writer was there before; each new view is the newest."""
    store = SqliteStore(tmp_path / "satchel.db", read_only=True)
    ledger = opened(store, writer.bank, None)
    for number in range(5):
        assert len(listed(ledger)) == 2 + number
        writer.append(memories(1, number))
    store.close()


def test_a_read_only_mount_is_read_while_others_write_the_folder(
    tmp_path: Path, mount_small: Callable[[str], Path]
) -> None:
    """As in a container that got the folder for reading only."""
    folder, mounted = mount_small("8m"), tmp_path / "mounted"
    mounted.mkdir()
    written = SqliteStore(folder / "satchel.db")
    writer = created(written)
    subprocess.run(["mount", "--bind", folder, mounted], check=True)
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", mounted], check=True)
        store = SqliteStore(mounted / "satchel.db", read_only=True)
        ledger = opened(store, writer.bank, None)
        for number in range(3):
            assert len(listed(ledger)) == 2 + number
            writer.append(memories(1, number))
        written.close()
        assert len(listed(ledger)) == 5
        written = SqliteStore(folder / "satchel.db")
        opened(written, writer.bank, None).append(memories(1, 9))
        assert len(listed(ledger)) == 6
        store.close()
        written.close()
    finally:
        subprocess.run(["umount", mounted], check=True)


@pytest.mark.parametrize("left", LEFT)
def test_an_exclusive_reader_sees_later_writes(tmp_path: Path, left: str) -> None:
    """A later writer is noticed, while it runs and after it has ended."""
    folder = tmp_path / "media"
    folder.mkdir()
    path, bank = make_store_with_leftovers(folder, left)
    store = SqliteStore(path, read_only=True)
    ledger = opened(store, bank, None)
    for turn in range(3):
        assert len(listed(ledger)) == SEEN + 2 * turn
        written = SqliteStore(path)
        opened(written, bank, None).append(memories(1, 1000 + 2 * turn))
        assert len(listed(ledger)) == SEEN + 2 * turn + 1
        opened(written, bank, None).append(memories(1, 1001 + 2 * turn))
        written.close()
    store.close()


@pytest.mark.parametrize("left", ["nothing", "a log"])
def test_a_read_during_a_concurrent_write_is_repeated(tmp_path: Path, left: str) -> None:
    """The reader has no locks then: it must read again, and takes them."""
    folder = tmp_path / "media"
    folder.mkdir()
    path, bank = make_store_with_leftovers(folder, left)
    store = SqliteStore(path, read_only=True)
    ledger = opened(store, bank, None)

    numbers = count(1000)

    def read_while_written() -> None:
        with ledger.reading() as view:
            written = SqliteStore(path)
            opened(written, bank, None).append(memories(1, next(numbers)))
            written.close()
            for _ in view.scan():
                pass

    with pytest.raises(StoreBusyError, match="Read it again"):
        read_while_written()
    read_while_written()
    assert len(listed(ledger)) == SEEN + 2
    store.close()


def test_reading_releases_no_locks_of_a_writer_of_the_same_program(tmp_path: Path) -> None:
    """A program that reads, then writes, and stops reading, still holds its locks as a writer.

    The system drops all locks of a program on a file when it closes any descriptor of it. Another
    program would then see no other user, and remove the log that is being written.
    """
    folder = tmp_path / "media"
    folder.mkdir()
    path, bank = make_store_with_leftovers(folder, "a log")
    reading = SqliteStore(path, read_only=True)
    written = SqliteStore(path)
    writer = opened(written, bank, None)
    writer.append(memories(1, 1000))
    reading.close()
    # The bytes that SQLite locks shared while it uses a file, and alone before it tidies up.
    program = """
import fcntl, sys
with open(sys.argv[1], "r+b") as file:
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 510, 0x40000002)
    except BlockingIOError:
        print("in use")
"""
    said = subprocess.run([sys.executable, "-c", program, path], check=True, capture_output=True)
    assert said.stdout == b"in use\n"
    writer.append(memories(1, 1001))
    assert len(listed(writer)) == SEEN + 2
    written.close()


def test_a_store_with_a_rollback_journal_is_not_read(tmp_path: Path) -> None:
    """Its writer was killed in a transaction; only a writer can roll it back."""
    path = tmp_path / "satchel.db"
    SqliteStore(path).close()
    path.with_name("satchel.db-journal").write_bytes(b"\xd9\xd5\x05\xf9 \xa1c\xd7")
    before = picture(tmp_path)
    with pytest.raises(StoreError, match="killed while creating the store or changing its key"):
        SqliteStore(path, read_only=True)
    assert picture(tmp_path) == before


def test_reading_creates_no_missing_files(tmp_path: Path) -> None:
    """No store, an empty file, a missing folder: refused and unchanged."""
    empty = tmp_path / "empty.db"
    empty.touch()
    before = picture(tmp_path)
    for path in (empty, tmp_path / "none.db", tmp_path / "no" / "satchel.db"):
        with pytest.raises(StoreError):
            SqliteStore(path, read_only=True)
    assert picture(tmp_path) == before


@pytest.mark.parametrize("ending", ["", "-wal", "-shm", "-journal"])
def test_reading_follows_no_links(tmp_path: Path, ending: str) -> None:
    """The store itself, or a file that SQLite would use as a part of it."""
    path, bank = tmp_path / "satchel.db", tmp_path / "other"
    SqliteStore(path).close()
    bank.write_bytes(b"")
    path.with_name(f"{path.name}{ending}").unlink(missing_ok=True)
    path.with_name(f"{path.name}{ending}").symlink_to(bank)
    with pytest.raises(PathRefusedError, match="link"):
        SqliteStore(path, read_only=True)


def test_a_file_name_that_looks_like_a_uri_is_a_file_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names that begin with "file:" or contain special characters of a URI."""
    monkeypatch.chdir(tmp_path)
    for name in ("file:x", "a?mode=memory", "b#c", "d%41", "e f", "é\udcff"):
        store = SqliteStore(Path(name))
        bank = created(store).bank
        store.close()
        store = SqliteStore(Path(name), read_only=True)
        assert len(listed(opened(store, bank, None))) == 2
        store.close()
        assert (tmp_path / name).stat().st_size > 0
