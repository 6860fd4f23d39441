"""Migrations: older stores are upgraded once, completely or not at all, and a copy is kept."""

import json
import os
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest
from folder_kit import picture
from ledger_kit import listed, memories, opened
from older_kit import OLDEST, STEPS, build_links, make_older, version_of

from satchel.errors import StoreError, StoreFullError, StoreVersionError, TargetError
from satchel.ports.rows import Filter
from satchel.ports.vectors import Generation
from satchel.stores.sqlite import SqliteStore
from satchel.stores.sqlite.connection import Step
from satchel.stores.sqlite.statements import VERSION

KIT = Path(make_older.__code__.co_filename).parent
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join([str(KIT), *sys.path])}


def backups_of(path: Path) -> list[Path]:
    """Return the copies next to a store."""
    return sorted(path.parent.glob(f"{path.name}.v*.bak"))


def require_current(path: Path, bank: str, ids: list[str]) -> None:
    """Require that a store is upgraded and complete, and accepts appends."""
    store = SqliteStore(path)
    try:
        ledger = opened(store, bank, None)
        there = listed(ledger)
        assert there[2 : 2 + len(ids)] == ids
        with ledger.reading() as view:
            (child,) = view.neighbors(ids[-2], incoming=True)
        assert child.record.id == ids[-1]
        assert ledger.append(memories(1, len(there) + 1000)) == [len(there)]
        assert store._connection().pragma("integrity_check") == "ok"
    finally:
        store.close()
    assert version_of(path) == VERSION


def require_old(path: Path, size: int) -> None:
    """Require a complete store of the oldest version that an older program can open."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        assert connection.pragma("user_version") == OLDEST
        assert connection.pragma("integrity_check") == "ok"
        assert connection.execute("SELECT count(*) FROM record").get == size
        assert not connection.table_exists("main", "link")
    finally:
        connection.close()


def test_an_older_store_is_upgraded_and_a_copy_is_kept(tmp_path: Path) -> None:
    """Every record verifies, derived data was built, and the copy is the old file."""
    path = tmp_path / "satchel.db"
    bank, records = make_older(path)
    before = path.read_bytes()
    store = SqliteStore(path, steps=STEPS)
    store.close()
    (kept,) = backups_of(path)
    assert store.migration_backup == kept
    assert kept.name.startswith(f"satchel.db.v{OLDEST}.20")
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert kept.read_bytes()[100:] == before[100:]  # before that, SQLite counts changes
    require_old(kept, len(records) + 2)
    require_current(path, bank, [record.id for record in records])
    again = SqliteStore(path, steps=STEPS)
    assert again.migration_backup is None
    again.close()
    assert sorted(found.name for found in tmp_path.iterdir()) == [path.name, kept.name]


def _lose(connection: apsw.Connection) -> None:
    build_links(connection)
    connection.execute("DELETE FROM record WHERE place % 7 = 3")


def _swap_heads(connection: apsw.Connection) -> None:
    build_links(connection)
    connection.execute("UPDATE bank SET head = peaks")


def _break(connection: apsw.Connection) -> None:
    build_links(connection)
    connection.pragma("writable_schema", 1)
    connection.execute("UPDATE sqlite_schema SET rootpage = 99999 WHERE name = 'link_target'")
    connection.pragma("writable_schema", "reset")


@pytest.mark.parametrize("step", [_lose, _swap_heads, _break, "SELECT nonsense", "DROP TABLE bank"])
def test_a_failed_migration_step_leaves_the_old_file_and_no_copy(
    tmp_path: Path, step: Step
) -> None:
    """Lost records, changed heads, damage and invalid SQL are detected before the commit."""
    path = tmp_path / "satchel.db"
    bank, records = make_older(path)
    before = picture(tmp_path)
    with pytest.raises(StoreError):
        SqliteStore(path, steps={**STEPS, 0: step})
    assert picture(tmp_path) == before
    SqliteStore(path, steps=STEPS).close()
    require_current(path, bank, [record.id for record in records])


@pytest.mark.in_check(2)
@pytest.mark.parametrize("moment", ["fsync", "link", "unlink", "between steps", "in a step"])
def test_a_killed_migration_leaves_the_old_file_and_no_partial_copy(
    tmp_path: Path, moment: str
) -> None:
    """Fault: kill -9 while the copy is synced or renamed, after it, and between steps."""
    path = tmp_path / "satchel.db"
    bank, records = make_older(path)
    program = (
        "import sys, older_kit, pathlib as p; older_kit.killed_at(sys.argv[1], p.Path(sys.argv[2]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, moment, str(path)], env=ENVIRONMENT, check=False
    )
    assert done.returncode == -signal.SIGKILL
    for kept in backups_of(path):
        require_old(kept, len(records) + 2)
    require_old(path, len(records) + 2)
    SqliteStore(path, steps=STEPS).close()
    require_current(path, bank, [record.id for record in records])
    assert {path, *backups_of(path)} == set(tmp_path.iterdir())
    assert backups_of(path)


def test_two_programs_that_open_an_older_store_concurrently_migrate_it_once(tmp_path: Path) -> None:
    """The second finds it done; both continue, and there is one copy."""
    program = """
import pathlib, sys
from older_kit import STEPS
from satchel.stores.sqlite import SqliteStore
for line in sys.stdin:
    store = SqliteStore(pathlib.Path(line.strip()), steps=STEPS)
    store.close()  # who closes last writes the log back, which is looked at afterwards
    print(store.migration_backup, flush=True)
"""
    programs = [
        subprocess.Popen(
            [sys.executable, "-c", program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=ENVIRONMENT,
        )
        for _ in range(2)
    ]
    for number in range(8):
        path = tmp_path / f"{number}" / "satchel.db"
        path.parent.mkdir()
        bank, records = make_older(path)
        for each in programs:
            assert each.stdin is not None
            print(path, file=each.stdin, flush=True)
        told = [each.stdout.readline().strip() for each in programs if each.stdout is not None]
        assert sorted(told) == sorted(["None", *map(str, backups_of(path))])
        assert len(backups_of(path)) == 1
        require_current(path, bank, [record.id for record in records])
    for each in programs:
        each.communicate()


@pytest.mark.parametrize("room", ["no copy", "no steps"])
def test_a_migration_on_a_full_disk_leaves_the_old_file_and_no_partial_copy(
    mount_small: Callable[[str], Path], room: str
) -> None:
    """Fault: no space for the copy, or for the steps after it; with space it succeeds."""
    folder = mount_small("4m")
    path = folder / "satchel.db"
    bank, records = make_older(path, size=600)
    ids = [record.id for record in records]

    def spread(connection: apsw.Connection) -> None:
        build_links(connection)
        connection.execute("CREATE TABLE more AS SELECT body FROM record")

    free = os.statvfs(folder).f_bavail * os.statvfs(folder).f_frsize
    # The log and its index need some pages before anything else.
    left = path.stat().st_size + (80_000 if room == "no steps" else -8_192)
    ballast = folder / "ballast"
    ballast.write_bytes(bytes(free - left))
    before = set(folder.iterdir())
    with pytest.raises(StoreFullError if room == "no steps" else TargetError):
        SqliteStore(path, steps={**STEPS, 0: spread})
    assert set(folder.iterdir()) == before
    require_old(path, len(records) + 2)
    ballast.unlink()
    SqliteStore(path, steps=STEPS).close()
    require_current(path, bank, ids)


def test_an_older_store_cannot_be_read_before_it_is_upgraded(tmp_path: Path) -> None:
    """The error says to open it for writing once; nothing is changed."""
    path = tmp_path / "satchel.db"
    make_older(path)
    before = picture(tmp_path)
    with pytest.raises(StoreVersionError, match="Open it once for writing"):
        SqliteStore(path, read_only=True, steps=STEPS)
    with pytest.raises(StoreVersionError, match=f"version {OLDEST}"):
        SqliteStore(path)  # no migration step starts there
    assert picture(tmp_path) == before


@pytest.mark.parametrize("read_only", [True, False])
def test_a_newer_store_is_refused_and_not_changed(tmp_path: Path, read_only: bool) -> None:  # noqa: FBT001 - a parameter
    """For reading and writing; the error says what helps."""
    path = tmp_path / "satchel.db"
    SqliteStore(path).close()
    connection = apsw.Connection(str(path))
    connection.pragma("user_version", VERSION + 1)
    connection.pragma("journal_mode", "delete")  # whatever a newer version may do
    connection.close()
    before = picture(tmp_path)
    with pytest.raises(StoreVersionError, match="Use a newer satchel"):
        SqliteStore(path, read_only=read_only)
    assert picture(tmp_path) == before


@pytest.mark.parametrize("read_only", [True, False])
def test_a_foreign_database_is_refused_and_not_changed(
    tmp_path: Path,
    read_only: bool,  # noqa: FBT001 - a parameter
) -> None:
    """Its journal mode stays."""
    path = tmp_path / "other.db"
    connection = apsw.Connection(str(path))
    connection.execute("CREATE TABLE theirs (x)")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(StoreVersionError, match="not a Satchel database"):
        SqliteStore(path, read_only=read_only)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_running_older_program_cannot_write_to_an_upgraded_store(tmp_path: Path) -> None:
    """It had the store open before; its appends are refused, and the newer program's stay."""
    path = tmp_path / "satchel.db"
    bank, records = make_older(path)
    SqliteStore(path, steps=STEPS).close()
    store = SqliteStore(path)
    ledger = opened(store, bank, None)
    ledger.append(memories(1, 500))
    newer = apsw.Connection(str(path))
    newer.pragma("user_version", VERSION + 1)
    newer.close()
    with pytest.raises(StoreVersionError, match="Use a newer satchel"):
        ledger.append(memories(1, 501))
    assert len(listed(ledger)) == len(records) + 3
    store.close()


RELEASED = Path(__file__).parent.parent / "data" / "released"
STORES = sorted(RELEASED.glob("store-*.db"))


@pytest.fixture(params=STORES, ids=lambda path: path.stem)
def released(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, Any]:
    """A copy of a released store, and its expected content."""
    path = tmp_path / "satchel.db"
    shutil.copy(request.param, path)
    return path, json.loads(request.param.with_suffix(".json").read_text())


def require_all(store: SqliteStore, told: Any) -> None:
    """Require that every record verifies under the old head, with the same query results."""
    ledger = opened(store, told["bank"], None)
    with ledger.reading() as view:
        assert (view.head.size, view.head.root) == (told["size"], told["root"])
        assert [logged.record.id for logged in view.scan()] == told["all"]
        assert [logged.record.id for logged in view.scan(Filter())] == told["current"]
        near = view.nearest(Generation("model", 3), [1, 0, 0])
        assert [found.record.id for found, _ in near] == told["near"]
        assert b"".join(view.blob(told["blob"])) == b"a blob"
        assert [found.record.id for found, _ in view.candidates("金曜日")] == told["friday"]


def test_this_version_has_a_released_store() -> None:
    """A change of the tables needs a new file: tests/data/released/make.py."""
    assert f"store-{VERSION}" in [path.stem for path in STORES]


def test_a_released_store_is_upgraded_verified_and_extended(released: tuple[Path, Any]) -> None:
    """Every step of the upgrade runs on open."""
    path, told = released
    store = SqliteStore(path)
    require_all(store, told)
    ledger = opened(store, told["bank"], None)
    assert ledger.append(memories(2, 900)) == [told["size"], told["size"] + 1]
    store.close()
    store = SqliteStore(path)
    assert len(listed(opened(store, told["bank"], None))) == told["size"] + 2
    store.close()


def test_a_released_store_of_this_version_is_read_in_place() -> None:
    """Read only, from the folder of the samples, which does not change."""
    path = RELEASED / f"store-{VERSION}.db"
    before = sorted(RELEASED.iterdir()), path.read_bytes()
    store = SqliteStore(path, read_only=True)
    require_all(store, json.loads(path.with_suffix(".json").read_text()))
    store.close()
    assert (sorted(RELEASED.iterdir()), path.read_bytes()) == before


def test_upgraded_stores_have_the_tables_of_new_ones(
    released: tuple[Path, Any], tmp_path: Path
) -> None:
    """Changed tables without a new version, or an incomplete step, are detected.

    The index of names needs no new version: the first write creates it.
    """
    path, _ = released
    for each in (path, tmp_path / "new.db"):
        store = SqliteStore(each)
        with store.writing():
            pass
        store.close()
    assert _tables(path) == _tables(tmp_path / "new.db")


def _tables(path: Path) -> list[tuple[Any, ...]]:
    connection = apsw.Connection(str(path))
    try:
        found = connection.execute("SELECT type, name, sql FROM sqlite_schema").fetchall()
    finally:
        connection.close()
    return sorted((kind, name, " ".join(str(sql).split())) for kind, name, sql in found)
