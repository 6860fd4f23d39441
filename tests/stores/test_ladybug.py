"""LadybugDB: one owner of the files, unreadable logs, its graph, many rows and older engines."""

import gc
import gzip
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import ladybug
import pyarrow as pa
import pytest

from satchel.bank.connections import open_store
from satchel.conformance.stores.oracle import ALL, AT, BANK, commit_of, memory
from satchel.crypto.sealed_records import seal
from satchel.errors import (
    LockedError,
    MissingExtraError,
    PathRefusedError,
    ReadOnlyStoreError,
    StoreBusyError,
    StoreDamagedError,
    StoreError,
    StoreVersionError,
    UsageError,
)
from satchel.model.records import Edge, Model, Semantic
from satchel.model.values import Scope
from satchel.ports.rows import Row, derive_row
from satchel.ports.store import ColumnChange
from satchel.stores.ladybug import LadybugStore
from satchel.stores.ladybug.database import FILE, LOCK, LOG
from satchel.stores.ladybug.statements import AT_ONCE, MANY
from satchel.stores.sqlite import SqliteStore

HOLD = """
import sys
from pathlib import Path
from satchel.errors import LockedError
from satchel.stores.ladybug import LadybugStore

try:
    store = LadybugStore(Path(sys.argv[1]), read_only=sys.argv[2] == "read", busy_ms=50)
except LockedError as error:
    print(error.message, flush=True)
else:
    with store.reading() as reader:
        print(sum(reader.counts(sys.argv[3]).values()), flush=True)
    sys.stdin.readline()
    store.close()
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The path of a store that does not exist yet."""
    return tmp_path / "bank.graph"


def write(store: LadybugStore, *drafts: Model, erased: tuple[int, ...] = ()) -> list[Row]:
    """Append drafts to the log."""
    size, rows = size_of(store), []
    for place, draft in enumerate(drafts, size):
        record = seal(draft)
        rows.append(derive_row(record.model, seq=place, at=AT, body=record.body))
    with store.writing() as writing:
        writing.append(BANK, commit_of(rows, size, erased=erased))
    return rows


def size_of(store: LadybugStore) -> int:
    """Return the number of records, counted one by one."""
    with store.reading() as reader:
        return len(list(reader.scan(BANK, ALL))) if reader.banks() else 0


def cypher(folder: Path, statement: str) -> list[list[Any]]:
    """Query the closed store with the engine itself."""
    database = ladybug.Database(str(folder / FILE), max_db_size=1 << 40)
    connection = ladybug.Connection(database)
    found: list[list[Any]] = connection.execute(statement).get_all()
    connection.close()
    database.close()
    return found


def start_holder(folder: Path, how: str) -> "subprocess.Popen[str]":
    """Start a process that opens the store."""
    return subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder), how, BANK],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def read_line(process: "subprocess.Popen[str]") -> str:
    """Return the next line of a process."""
    assert process.stdout is not None
    return process.stdout.readline().strip()


@pytest.mark.parametrize("closed_first", [0, 1])
def test_two_handles_on_one_path_lose_no_acknowledged_write(
    folder: Path, tmp_path: Path, closed_first: int
) -> None:
    """Whichever closes first, also if the second names the folder through a link."""
    (tmp_path / "link").symlink_to(tmp_path)
    handles = [LadybugStore(folder), LadybugStore(tmp_path / "link" / folder.name)]
    for number in range(3):
        for handle in handles:
            write(handle, memory(number))
    handles.pop(closed_first).close()
    write(handles[0], memory(6))
    assert size_of(handles[0]) == 7
    handles[0].close()
    again = LadybugStore(folder)
    assert size_of(again) == 7
    again.close()


def test_a_second_process_is_refused_with_the_id_of_the_first(folder: Path) -> None:
    """For reading as well; with the process ID, until that process has closed it."""
    store = LadybugStore(folder)
    write(store, memory(1))
    for how in ("write", "read"):
        other = start_holder(folder, how)
        assert f"process {os.getpid()} on" in read_line(other)
        other.communicate()
    store.close()
    other = start_holder(folder, "write")
    assert read_line(other) == "1"
    with pytest.raises(LockedError, match=f"process {other.pid} on"):
        LadybugStore(folder, busy_ms=50)
    other.communicate("\n")


def test_several_processes_can_read(folder: Path) -> None:
    """None of them changes a file; a writer must wait."""
    store = LadybugStore(folder)
    write(store, memory(1))
    store.close()
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    store, other = LadybugStore(folder, read_only=True), start_holder(folder, "read")
    assert read_line(other) == "1"
    assert size_of(store) == 1
    with pytest.raises(ReadOnlyStoreError), store.writing():
        pass
    with pytest.raises(ReadOnlyStoreError):
        store.scrub()
    with pytest.raises(LockedError):
        LadybugStore(folder, busy_ms=50)
    other.communicate("\n")
    store.close()
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_reading_a_missing_store_creates_nothing(folder: Path) -> None:
    """A mistyped address is an error, not a new empty store."""
    with pytest.raises(StoreError, match="no store"):
        LadybugStore(folder, read_only=True)
    assert not folder.exists()


def test_the_folder_of_a_store_is_private(folder: Path) -> None:
    """The engine's files follow the umask, so nobody else may enter the folder."""
    store = open_store(f"ladybug:///{folder}")
    assert store.name == str(folder)
    assert folder.stat().st_mode & 0o777 == 0o700
    store.close()
    open_store(f"ladybug:///{folder}", read_only=True).close()


def killed_store(folder: Path, rows: int) -> None:
    """Leave a store as a killed program does, with all of some rows in the log."""
    store = LadybugStore(folder.with_name("living"))
    for number in range(rows):
        write(store, memory(number))
    shutil.copytree(store.path, folder)
    store.close()


def _flip(log: bytes) -> bytes:
    middle = len(log) // 2
    return log[:middle] + bytes([log[middle] ^ 1]) + log[middle + 1 :]


def _lengthen_record(log: bytes) -> bytes:
    """A record in the middle seems to end after the end of the log."""
    commit = (9).to_bytes(8, "little") + b"\2"
    length = log.index(commit, len(log) // 2) + 25
    return log[: length + 4] + b"\1" + log[length + 5 :]


@pytest.mark.parametrize("damage", [_flip, _lengthen_record])
def test_an_unreadable_log_is_kept_and_reported(
    folder: Path, damage: Callable[[bytes], bytes]
) -> None:
    """Once, with the path of the files; then the store has the state before it, complete."""
    killed_store(folder, 20)
    log = folder / LOG
    log.write_bytes(damage(log.read_bytes()))
    before = {name: (folder / name).read_bytes() for name in (FILE, LOG)}
    with pytest.raises(StoreDamagedError):
        LadybugStore(folder, read_only=True)
    assert not (folder / "damaged-1").exists()
    with pytest.raises(StoreDamagedError, match="may be missing") as error:
        LadybugStore(folder)
    kept = folder / "damaged-1"
    assert str(kept) in (error.value.hint or "")
    assert {path.name: path.read_bytes() for path in kept.iterdir()} == before
    assert {path.stat().st_mode & 0o777 for path in kept.iterdir()} == {0o600}
    store = LadybugStore(folder)
    size = size_of(store)
    assert size < 20
    with store.reading() as reader:
        assert reader.head(BANK) == commit_of([], size).head
    write(store, memory(99))
    store.close()


def test_an_interrupted_write_is_dropped(folder: Path) -> None:
    """A kill can leave any part of the last transaction; it was not acknowledged."""
    living = LadybugStore(folder.with_name("living"))
    for number in range(3):
        write(living, memory(number))
    before = (living.path / LOG).stat().st_size
    write(living, memory(3))
    shutil.copytree(living.path, folder)
    living.close()
    files = {path.name: path.read_bytes() for path in folder.iterdir()}
    written = len(files[LOG])
    for size in (before + 1, before + 8, *range(before + 100, written, 300), written - 1):
        for name, data in files.items():
            (folder / name).write_bytes(data[:size] if name == LOG else data)
        reader = LadybugStore(folder, read_only=True)
        assert size_of(reader) == 3
        reader.close()
        assert (folder / LOG).read_bytes() == files[LOG][:size]
        store = LadybugStore(folder)
        write(store, memory(99))
        assert size_of(store) == 4
        store.close()
    assert not (folder / "damaged-1").exists()


def test_an_undamaged_log_is_read(folder: Path) -> None:
    """Writes acknowledged before the kill exist."""
    killed_store(folder, 5)
    reader = LadybugStore(folder, read_only=True)
    assert size_of(reader) == 5
    reader.close()
    store = LadybugStore(folder)
    assert size_of(store) == 5
    assert store.check() == []
    store.close()


def test_foreign_files_are_refused(folder: Path) -> None:
    """Another file, another graph, and files of a newer engine."""
    folder.mkdir()
    (folder / FILE).write_bytes(b"a letter, and not a graph" * 999)
    with pytest.raises(StoreDamagedError):
        LadybugStore(folder)
    newer = (1_000).to_bytes(8, "little")
    (folder / FILE).write_bytes(b"LBUG" + newer + bytes(4084))
    with pytest.raises(StoreVersionError, match="1000"):
        LadybugStore(folder)
    (folder / FILE).unlink()
    cypher(folder, "CREATE NODE TABLE Person (name STRING PRIMARY KEY)")
    with pytest.raises(StoreVersionError, match="not a Satchel database"):
        LadybugStore(folder)
    (folder / FILE).unlink()
    LadybugStore(folder).close()
    cypher(folder, "MATCH (m:Meta) SET m.value = 2")
    with pytest.raises(StoreVersionError, match="version 2"):
        LadybugStore(folder)


def test_files_of_an_older_engine_are_copied_before_they_are_opened_for_writing(
    folder: Path,
) -> None:
    """The engine rewrites them; a reader changes nothing."""
    LadybugStore(folder).close()
    older = b"LBUG" + (40).to_bytes(8, "little") + (folder / FILE).read_bytes()[12:]
    (folder / FILE).write_bytes(older)
    with suppress(StoreDamagedError):  # it is only called older
        LadybugStore(folder, read_only=True).close()
    assert {path.name for path in folder.iterdir()} == {FILE, "lock"}
    with suppress(StoreDamagedError):
        LadybugStore(folder).close()
    assert (folder / "graph.storage-40.lbug").read_bytes() == older


def test_a_listing_ends_with_its_block(folder: Path) -> None:
    """Continuing it is an error, and it shows nothing that was written since."""
    store = LadybugStore(folder)
    write(store, memory(1))
    with store.reading() as reader:
        rows = reader.scan(BANK, ALL)
    with pytest.raises(StoreError, match="ended"):
        next(rows)
    store.close()


def test_a_missing_engine_is_reported_with_the_install_command(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So is the other package with its name."""
    monkeypatch.setitem(sys.modules, "ladybug", None)
    with pytest.raises(MissingExtraError) as error:
        LadybugStore(folder)
    assert "satchel[graph]" in (error.value.hint or "")
    monkeypatch.setitem(sys.modules, "ladybug", os)
    with pytest.raises(MissingExtraError) as error:
        LadybugStore(folder)
    assert "ladybug-core" in (error.value.hint or "")


def test_a_child_process_does_not_touch_its_parents_files(folder: Path) -> None:
    """Whatever it does before it ends; it gets the error that its parent has the store."""
    store = LadybugStore(folder, busy_ms=50)
    write(store, memory(1))
    child = os.fork()
    if not child:  # nothing of the test may go on in here
        status = 1
        try:
            try:
                size_of(store)
            except LockedError:
                store.close()
                del store
                status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0) == (child, 0)
    write(store, memory(2))
    store.close()
    store = LadybugStore(folder)
    assert size_of(store) == 2
    store.close()


def test_a_block_with_a_failed_statement_commits_nothing(folder: Path) -> None:
    """Also if the error is caught: the engine rolled the block back."""
    store = LadybugStore(folder)
    (row,) = write(store, memory(1))
    record = seal(memory(2))
    other = derive_row(record.model, seq=0, at=AT, body=record.body)  # a place that is taken

    def fail() -> None:
        with store.writing() as writing:
            writing.put_side(BANK, {"note": b"lost"})
            with pytest.raises(StoreError):
                writing.append(BANK, commit_of([other], 0))
            with pytest.raises(StoreError, match="rolled back"):
                writing.put_side(BANK, {"note": b"lost too"})

    with pytest.raises(StoreError, match="rolled back"):
        fail()
    with store.reading() as reader:
        assert reader.side(BANK) == {}
        assert [each.id for each in reader.scan(BANK, ALL)] == [row.id]
    write(store, memory(3))
    store.close()


def test_only_one_thread_writes_at_a_time(folder: Path) -> None:
    """A writer that waits too long gets an error; a nested block is refused, not a deadlock."""
    store, errors = LadybugStore(folder, busy_ms=20), list[type[BaseException]]()

    def also() -> None:
        for work in (lambda: write(store, memory(1)), store.scrub):
            try:
                work()
            except StoreError as error:
                errors.append(type(error))

    with store.writing():
        thread = threading.Thread(target=also)
        thread.start()
        thread.join()
        with pytest.raises(StoreError, match="already has an open transaction"), store.writing():
            pass
        with pytest.raises(UsageError):
            store.scrub()
    assert errors == [StoreBusyError, StoreBusyError]
    store.close()


def test_scrubbed_files_hold_no_erased_data(folder: Path) -> None:
    """Neither the words of a record nor the name of a placeholder that only it linked to."""
    store = LadybugStore(folder)
    secret = Edge(source="xyzzy-one", target="xyzzy-two", kind="xyzzy-kind")
    write(store, Semantic(text="the xyzzy word"), secret, memory(2))
    write(store, memory(3), erased=(0, 1))
    store.scrub()
    assert size_of(store) == 4
    store.close()
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert not [path for path in files if b"xyzzy" in path.read_bytes()]
    assert {path.name for path in files} == {FILE, "lock"}


def test_a_killed_scrub_leaves_the_store_and_is_cleaned_up(folder: Path) -> None:
    """The new file counts once it is renamed."""
    store = LadybugStore(folder)
    write(store, memory(1))
    (folder / "graph.new.lbug").write_bytes(b"half a file")
    store.scrub()
    assert size_of(store) == 1
    assert not list(folder.glob("graph.new*"))
    store.close()


def test_readable_files_are_made_private_and_links_are_refused(tmp_path: Path) -> None:
    """At every open: the files, the log that the engine recreates, and links in their place."""
    folder = tmp_path / "a"
    with closing(LadybugStore(folder)) as there:
        write(there, memory(1))
        modes = {path.name: path.stat().st_mode & 0o777 for path in folder.iterdir()}
        assert modes == dict.fromkeys([FILE, LOG, LOCK], 0o600)
    (folder / FILE).chmod(0o644)
    folder.chmod(0o755)
    with closing(LadybugStore(folder)):
        assert (folder / FILE).stat().st_mode & 0o777 == 0o600
        assert folder.stat().st_mode & 0o777 == 0o700

    victim = tmp_path / "victim"
    (tmp_path / "link").symlink_to(folder)
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / FILE).symlink_to(victim)
    for hostile in ("link", "b"):
        with pytest.raises(PathRefusedError):
            LadybugStore(tmp_path / hostile)
    assert not victim.exists()


def test_core_links_have_their_own_tables_and_missing_ends_are_placeholders(
    folder: Path,
) -> None:
    """In the graph as Cypher sees it; a placeholder is filled when its record arrives."""
    store = LadybugStore(folder)
    late = seal(memory(9)).id
    (child,) = write(store, memory(1, parent_ids=(late,)))
    write(store, Edge(source=child.id, target="elsewhere", kind="knows"))
    write(store, Edge(source=child.id, target="elsewhere", kind="similar_to"))
    store.close()
    walked = "MATCH (:Thing)-[l]->(t:Thing) RETURN label(l), t.place IS NULL ORDER BY label(l)"
    kinds = ["DERIVES_FROM", "EDGE", "SIMILAR_TO"]
    assert cypher(folder, walked) == [[kind, True] for kind in kinds]
    assert cypher(folder, "MATCH ()-[l:EDGE]->() RETURN l.kind") == [["knows"]]


KILLED = """
import os, sys
from itertools import count
from pathlib import Path
from satchel.conformance.stores.oracle import AT, BANK, commit_of
from satchel.model.records import Semantic
from satchel.model.records import Edge
from satchel.ports.rows import derive_row
from satchel.crypto.sealed_records import seal
from satchel.stores.ladybug import LadybugStore

store = LadybugStore(Path(sys.argv[1]))
with store.reading() as reader:
    size = sum(reader.counts(BANK).values()) if reader.banks() else 0
for turn in count():
    number = (1, 2, 25)[turn % 3]
    drafts = [Semantic(text=f"{os.getpid()} {turn} {n} " + "word " * 20) for n in range(number)]
    drafts += [Edge(source=f"{turn}", target=f"{n}", kind="similar_to") for n in range(number)]
    rows = []
    for place, draft in enumerate(drafts, size):
        record = seal(draft)
        rows.append(derive_row(record.model, seq=place, at=AT, body=record.body))
    with store.writing() as writing:
        writing.append(BANK, commit_of(rows, size))
    size += len(rows)
    os.write(1, f"{size} {rows[-1].id}\\n".encode())
    if turn % 9 == 8:
        store.close()  # with the checkpoint that closing makes
"""


def kill_writers(folder: Path, rounds: int) -> None:
    """Kill writers at random; compare records and links with what they acknowledged."""
    for turn in range(rounds):
        process = subprocess.Popen(
            [sys.executable, "-c", KILLED, str(folder)], stdout=subprocess.PIPE, text=True
        )
        said = [read_line(process) for _ in range(1 + turn * 7 % 11)]
        process.send_signal(signal.SIGKILL)
        said += process.communicate()[0].splitlines()
        size, newest = said[-1].split()
        store = LadybugStore(folder)
        with store.reading() as reader:
            rows = list(reader.scan(BANK, ALL))
            assert [row.seq for row in rows] == list(range(len(rows)))
            assert len(rows) >= int(size)
            assert rows[int(size) - 1].id == newest
            assert reader.head(BANK) == commit_of(rows, 0).head
            edges = [row for row in rows if row.type == "edge"]
            ((links,),) = reader._all("MATCH ()-[l:SIMILAR_TO]->() RETURN count(l)")
            assert links == len(edges)
        store.close()


def test_a_killed_ladybug_writer_loses_no_acknowledged_write(folder: Path) -> None:
    """Records and links, a few times."""
    kill_writers(folder, 1)


@pytest.mark.prove
@pytest.mark.timeout(1_500)
def test_many_killed_ladybug_writers_lose_no_acknowledged_write(folder: Path) -> None:
    """Records and links, two hundred times, each store opened after the last kill."""
    for number in range(10):
        kill_writers(folder.with_name(f"{number}.graph"), 20)


def test_a_record_without_a_size_is_reported_as_damage(folder: Path) -> None:
    """A column that was emptied from outside is named in the error."""
    store = LadybugStore(folder)
    write(store, memory(1))
    store.close()
    cypher(folder, "MATCH (r:Record) SET r.size = NULL")
    with (
        closing(LadybugStore(folder)) as damaged,
        pytest.raises(StoreDamagedError, match="contains an invalid value"),
        damaged.reading() as reader,
    ):
        list(reader.scan(BANK, ALL))


ODD = ("", "a\0b", "\x01", "🐝" * 9, "{'a': 1}", '{"a": 1}', "[]", "null", "1e5", "'", "\\", "`$x`")


def rows_of(drafts: list[Model], first: int = 0) -> list[Row]:
    """Return the rows of drafts, from a sequence number on."""
    records = [seal(draft) for draft in drafts]
    return [
        derive_row(record.model, seq=place, at=AT, body=record.body)
        for place, record in enumerate(records, first)
    ]


def facts(count: int, turn: int = 0) -> list[Model]:
    """Return facts, each of another user."""
    return [Semantic(text=f"fact {turn} {n}", scope=Scope(user=f"u{n}")) for n in range(count)]


@pytest.mark.parametrize("count", [MANY - 1, MANY, AT_ONCE, AT_ONCE + MANY])
def test_rows_are_the_same_for_any_number_of_rows_per_statement(count: int, tmp_path: Path) -> None:
    """Equal to SQLite's, including unusual texts and many changes at once."""
    drafts = facts(count)
    for number, odd in enumerate(ODD):
        drafts[number] = Semantic(text=f"odd {odd} text", scope=Scope(user=odd or None, agent="x"))
    drafts += [Edge(source=f"s{n}", target=f"t{n}", kind=f"k{n % 3}") for n in range(count)]
    rows = rows_of(drafts)
    changes = [ColumnChange(row.seq, retired=len(rows), hold=row.seq % 2 == 0) for row in rows[::2]]
    (last,) = rows_of([Semantic(text="the last")], len(rows))
    stores = LadybugStore(tmp_path / "graph"), SqliteStore(tmp_path / "store.db")
    found = []
    for store in stores:
        with store.writing() as writing:
            writing.append(BANK, commit_of(rows, 0))
        with store.writing() as writing:
            writing.append(BANK, commit_of([last], len(rows), changes=changes))
        with store.reading() as reader:
            found.append(list(reader.scan(BANK, ALL)))
            assert [row.hold for row in found[-1][:4]] == [True, False, True, False]
            assert reader.candidates(BANK, "odd", limit=99)
        store.close()
    assert found[0] == found[1]


def test_a_bulk_load_frees_its_tables(tmp_path: Path) -> None:
    """A cached statement would keep the table that it read in memory."""
    store = LadybugStore(tmp_path / "graph")
    gc.collect()
    before, size = pa.total_allocated_bytes(), 0
    for turn in range(5):
        rows = rows_of(facts(2 * MANY, turn), size)
        with store.writing() as writing:
            writing.append(BANK, commit_of(rows, size))
        size += len(rows)
    gc.collect()
    assert pa.total_allocated_bytes() == before
    store.close()


def test_rows_refused_by_the_engine_roll_back_the_transaction(tmp_path: Path) -> None:
    """Nothing of the block stays, and the store continues."""
    store = LadybugStore(tmp_path / "graph")
    first = rows_of(facts(MANY))
    with store.writing() as writing:
        writing.append(BANK, commit_of(first, 0))
    taken = rows_of(facts(MANY, turn=1))  # at places that are taken

    def fail() -> None:
        with store.writing() as writing:
            writing.put_side(BANK, {"note": b"lost"})
            writing.append(BANK, commit_of(taken, 0))

    with pytest.raises(StoreError):
        fail()
    more = rows_of(facts(MANY, turn=2), MANY)
    with store.writing() as writing:
        writing.append(BANK, commit_of(more, MANY))
    store.close()
    again = LadybugStore(tmp_path / "graph")
    with again.reading() as reader:
        assert [row.id for row in reader.scan(BANK, ALL)] == [row.id for row in first + more]
        assert reader.side(BANK) == {}
    again.close()


def test_a_bulk_load_without_arrow_names_the_install_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None of the rows is written; a few rows still work."""
    store = LadybugStore(tmp_path / "graph")
    monkeypatch.setitem(sys.modules, "pyarrow", None)

    def fail() -> None:
        with store.writing() as writing:
            writing.append(BANK, commit_of(rows_of(facts(MANY)), 0))

    with pytest.raises(MissingExtraError) as error:
        fail()
    assert "satchel[graph]" in (error.value.hint or "")
    with store.writing() as writing:
        writing.append(BANK, commit_of(rows_of(facts(2)), 0))
    with store.reading() as reader:
        assert len(list(reader.scan(BANK, ALL))) == 2
    store.close()


DATA = Path(__file__).parents[1] / "data" / "graphs"
VERSIONS = ("40", "41")


def unpacked(name: str, folder: Path) -> Path:
    """Return a folder with an unpacked store."""
    folder.mkdir(mode=0o700)
    for packed, file in ((f"{name}.gz", FILE), (f"{name}.wal.gz", LOG)):
        if (DATA / packed).exists():
            (folder / file).write_bytes(gzip.decompress((DATA / packed).read_bytes()))
    return folder


def rows_in(store: LadybugStore) -> list[Row]:
    """Return all rows."""
    with store.reading() as reader:
        return list(reader.scan(BANK, ALL))


@pytest.mark.parametrize("version", VERSIONS)
def test_a_store_of_an_older_engine_is_copied_opened_and_continued(
    version: str, tmp_path: Path
) -> None:
    """Records, links and words; the copy equals the old file, and opens as well."""
    folder = unpacked(f"satchel-{version}", tmp_path / "store")
    before = (folder / FILE).read_bytes()
    reader = LadybugStore(folder, read_only=True)
    rows = rows_in(reader)
    reader.close()
    assert (folder / FILE).read_bytes() == before
    assert [row.type for row in rows] == ["semantic"] * 5 + ["edge"] * 3
    store = LadybugStore(folder)
    assert rows_in(store) == rows
    with store.reading() as reading:
        assert reading.head(BANK) == commit_of(rows, 0).head
        linked = {
            (link.link.target, link.link.kind)
            for link in reading.links(BANK, [rows[0].id], incoming=False, kinds=None, limit=9)
        }
    kinds = ("similar_to", "knows", "derives_from")
    assert linked == {(rows[place].id, kind) for place, kind in enumerate(kinds, 1)}
    record = seal(memory(9))
    new = derive_row(record.model, seq=len(rows), at=AT, body=record.body)
    with store.writing() as writing:
        writing.append(BANK, commit_of([new], len(rows)))
    store.close()
    kept = folder / f"graph.storage-{version}.lbug"
    assert kept.read_bytes() == before
    assert kept.stat().st_mode & 0o777 == 0o600
    own = ladybug.Database.get_storage_version()
    assert (folder / FILE).read_bytes()[4:12] == own.to_bytes(8, "little")
    kept.rename(folder / FILE)
    again = LadybugStore(folder)
    assert rows_in(again) == rows
    again.close()


@pytest.mark.parametrize("read_only", [True, False])
@pytest.mark.parametrize("version", VERSIONS)
def test_a_log_of_an_older_engine_is_refused_before_anything_is_changed(
    version: str,
    read_only: bool,  # noqa: FBT001 - a parameter of the test
    tmp_path: Path,
) -> None:
    """The current engine would truncate what it cannot read: the last acknowledged writes."""
    folder = unpacked(f"satchel-{version}-killed", tmp_path / "store")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(StoreVersionError, match=f"version {version}") as error:
        LadybugStore(folder, read_only=read_only)
    release = {"40": "0.15.3", "41": "0.17.1"}[version]
    assert f"ladybug=={release}" in (error.value.hint or "")
    after = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert {name: after[name] for name in before} == before
    assert set(after) <= {*before, "lock"}
