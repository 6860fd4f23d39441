"""Attacks on the write-ahead log of an open store: no acknowledged write is lost."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import pytest
from ledger_kit import WRITER, created, listed, memories

from satchel.errors import StoreError
from satchel.ledger.ledger import Ledger
from satchel.stores.sqlite import SqliteStore

_GONE = "was deleted or replaced while it was in use"
_KILLED = """
import os, sys
from pathlib import Path
from ledger_kit import created, listed, memories
from satchel.errors import StoreError
from satchel.stores.sqlite import SqliteStore

path = Path(sys.argv[1])
ledger = created(SqliteStore(path))
before = len(listed(ledger))
ledger.append(memories(3))
path.with_name(path.name + "-wal").unlink()
try:
    ledger.append(memories(1, 3))
except StoreError as error:
    os.write(1, f"{ledger.bank} {before} {error.message}".encode())
os._exit(9)  # as if killed: nothing is closed
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The path of the store."""
    return tmp_path / "satchel.db"


def _sibling(path: Path, ending: str) -> Path:
    return path.with_name(path.name + ending)


@pytest.mark.parametrize("ending", ["-wal", "-shm"])
@pytest.mark.parametrize("replaced", [False, True])
def test_a_deleted_log_is_noticed_by_the_next_transaction(
    path: Path, ending: str, *, replaced: bool
) -> None:
    """No program reads or writes the store any more, until all have closed it."""
    store = SqliteStore(path)
    ledger = created(store)
    ledger.append(memories(2))
    file = _sibling(path, ending)
    data = file.read_bytes()
    file.unlink()
    if replaced:
        file.write_bytes(data)

    for _ in range(2):
        with pytest.raises(StoreError, match=_GONE):
            ledger.append(memories(1, 2))
    with pytest.raises(StoreError, match=_GONE), store.reading():
        pass


def test_deleting_the_log_within_a_transaction_fails_it(path: Path) -> None:
    """A write to an unlinked file is not acknowledged."""
    store = SqliteStore(path)
    ledger = created(store)

    def write() -> None:
        with store.writing() as writing:
            writing.put_side(ledger.bank, {"note": b"x"})
            _sibling(path, "-wal").unlink()

    with pytest.raises(StoreError, match=_GONE):
        write()


def test_a_later_thread_makes_no_second_log(path: Path) -> None:
    """Two logs of one file would overwrite each other."""
    store = SqliteStore(path)
    ledger = created(store)
    _sibling(path, "-wal").unlink()
    said = list[str]()

    def write() -> None:
        try:
            ledger.append(memories(1))
        except StoreError as error:
            said.append(error.message)

    thread = threading.Thread(target=write)
    thread.start()
    thread.join()
    assert [message for message in said if re.search(_GONE, message)]
    assert not _sibling(path, "-wal").exists()


def test_a_deleted_log_loses_no_acknowledged_write(path: Path) -> None:
    """Once the deletion is noticed, its content is in the file, so that a kill loses nothing."""
    found = subprocess.run(
        [sys.executable, "-c", _KILLED, str(path)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    assert found.returncode == 9, found.stderr
    bank, before, said = found.stdout.split(" ", 2)
    assert "all its content is in the file now" in said
    store = SqliteStore(path)
    assert len(listed(Ledger(store, bank))) == int(before) + 3
    store.close()


def test_opening_and_closing_does_not_disturb_other_processes(path: Path) -> None:
    """Processes that open and close the store leave the log in place."""
    store = SqliteStore(path)
    ledger = created(store)
    before = len(listed(ledger))
    for number in range(3):
        with closing(SqliteStore(path)) as other:
            Ledger(other, ledger.bank, writer=WRITER).append(memories(1, number))
        with closing(SqliteStore(path, read_only=True)) as other, other.reading():
            pass
        thread = threading.Thread(target=lambda: listed(ledger))
        thread.start()
        thread.join()
        store.close()  # and opens it again, with a new log
        assert len(listed(ledger)) == before + number + 1
