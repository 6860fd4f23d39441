"""A local Mem0 store, read and written; compared with the output of its library."""

import fcntl
import json
import os
import shutil
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from mem0_kit import SAMPLE, STORAGE, copy_of_sample, digests, entry_of, opened, read, with_points

from satchel.connectors._mem0_store import Mem0Address
from satchel.connectors._qdrant import Points, _key, pickled, point
from satchel.crypto.canonical import Limits, decode_foreign
from satchel.crypto.sealed_records import seal
from satchel.errors import (
    LimitError,
    LockedError,
    MalformedError,
    SatchelError,
    TargetError,
    UnreadableError,
    UsageError,
)
from satchel.formats.mem0 import HISTORY, row_of
from satchel.model.records import Entry, Procedural, Semantic
from satchel.model.values import Origin, Scope
from satchel.ports.record_set import Report

_TS = {
    "data": "likes tea",
    "hash": "x",
    "textLemmatized": "like tea",
    "createdAt": "2026-01-02T03:04:05.678Z",
    "updatedAt": "2026-02-02T03:04:05.678Z",
    "user_id": "ada",
    "attributedTo": "user",
    "topic": "drinks",
}


def _library_output() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((SAMPLE / "said.json").read_bytes())
    return found


def _json_of(entry: Entry) -> Any:
    return decode_foreign(row_of(entry))


def test_memories_equal_the_output_of_the_library() -> None:
    """Every member of ``get_all()``, also of expired ones."""
    items, _ = read(SAMPLE)
    wanted = {
        one["id"]: {k: v for k, v in one.items() if k != "history"} for one in _library_output()
    }
    assert {_json_of(entry)["id"]: _json_of(entry) for entry in items} == wanted


def test_history_rows_become_older_versions() -> None:
    """As ``history()`` returns them, oldest first."""
    _, past = read(SAMPLE)
    assert {one.state for one in past} == {"superseded"}
    versions = [_json_of(entry) for entry in map(entry_of, past)]
    for memory in _library_output():
        *changes, _ = memory["history"]
        own = [one for one in versions if one["id"] == memory["id"]]
        assert [one["memory"] for one in own] == [one["new_memory"] for one in changes]
        assert [one["updated_at"] for one in own] == [one["updated_at"] for one in changes]
        assert all(one["user_id"] == memory["user_id"] for one in own)
    assert len(versions) == sum(len(memory["history"]) - 1 for memory in _library_output())


def test_deleted_texts_are_read_only_on_request() -> None:
    """They are counted otherwise; they have no owner."""
    report = Report()
    _, past = read(SAMPLE, report)
    assert {one.state for one in past} == {"superseded"}
    assert "2 deleted memories" in " ".join(report.notes)

    report = Report()
    _, past = read(SAMPLE, report, include_deleted=True)
    gone = [one for one in past if one.state == "deleted"]
    assert sorted(str(entry_of(one).text) for one in gone) == [
        "Fact 19 of bo. e\u0301",
        "Fact 9 of ada. e\u0301",
    ]
    assert all(one.at for one in gone)
    assert all(entry_of(one).scope is None for one in gone)
    assert "deleted" not in " ".join(report.notes)


def test_a_read_changes_nothing_in_the_folder(tmp_path: Path) -> None:
    """Also in a read-only folder."""
    folder = copy_of_sample(tmp_path / "a")
    before = digests(folder)
    for path in [folder, *folder.rglob("*")]:
        path.chmod(path.stat().st_mode & ~(stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH))
    assert len(read(folder, include_deleted=True)[0]) == len(_library_output())
    assert digests(folder) == before


@pytest.mark.parametrize("end", ["-journal", "-wal"])
def test_a_journal_of_a_killed_writer_is_applied_to_a_copy(tmp_path: Path, end: str) -> None:
    """The folder is unchanged, and committed data is read."""
    folder = copy_of_sample(tmp_path / "live")
    mode = {"-journal": "DELETE", "-wal": "WAL"}[end]
    path = folder / STORAGE
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute(f"PRAGMA journal_mode={mode}")
        database.execute("PRAGMA cache_size=1")
        database.execute("BEGIN")
        if end == "-wal":
            database.execute("DELETE FROM points WHERE rowid = (SELECT max(rowid) FROM points)")
            database.execute("COMMIT")
        else:
            database.execute("UPDATE points SET point = zeroblob(200000)")
        shutil.copytree(folder, tmp_path / "killed")
    folder = tmp_path / "killed"
    assert (folder / (str(STORAGE) + end)).stat().st_size
    before = digests(folder)
    assert len(read(folder)[0]) == len(_library_output()) - (end == "-wal")
    assert digests(folder) == before


def test_a_store_that_another_process_has_open_is_refused(tmp_path: Path) -> None:
    """By the lock of Qdrant's client; the error has the process ID."""
    folder = copy_of_sample(tmp_path / "a")
    hold = (
        "import fcntl, sys; f = open(sys.argv[1], 'r+'); fcntl.flock(f, fcntl.LOCK_EX);"
        " print('held', flush=True); sys.stdin.read()"
    )
    lock = folder / "qdrant" / ".lock"
    with subprocess.Popen(
        [sys.executable, "-c", hold, lock], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        for writes in (False, True):
            with pytest.raises(LockedError) as refusal:
                opened(folder, writes=writes)
            if Path("/proc/locks").exists():
                assert f"process {holder.pid}" in refusal.value.message
        holder.communicate()
    assert read(folder)


def test_the_library_cannot_open_the_store_during_a_read(tmp_path: Path) -> None:
    """So all pages come from one state."""
    folder = copy_of_sample(tmp_path / "a")
    with (
        closing(opened(folder)),
        (folder / "qdrant" / ".lock").open("r+") as lock,
        pytest.raises(BlockingIOError),
    ):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    with (folder / "qdrant" / ".lock").open("r+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_members_of_the_typescript_library_round_trip(tmp_path: Path) -> None:
    """Times and two other members are in camel case."""
    folder = with_points(tmp_path / "a", _TS)
    ((entry,), past) = read(folder)
    assert past == []
    assert (entry.text, entry.created_at) == ("likes tea", "2026-01-02T03:04:05.678000Z")
    assert entry.scope == Scope(user="ada")
    assert entry.metadata == {"topic": "drinks"}
    assert _write_and_read(tmp_path / "b", entry).payload == _TS


def test_camel_case_members_of_the_python_library_are_metadata(tmp_path: Path) -> None:
    """A user may call a member ``createdAt``."""
    folder = with_points(tmp_path / "a", {"data": "a", "created_at": "x", "createdAt": 5, "id": 7})
    ((entry,), _) = read(folder)
    assert entry.metadata == {"createdAt": 5, "id": 7}


def _write_and_read(folder: Path, *entries: Entry, **how: Any) -> Any:
    """Write entries, and return the first point of the store."""
    with closing(opened(folder, writes=True, **how)) as connector:
        connector.take([seal(entry) for entry in entries], Report())
    with closing(Points(folder / STORAGE, most_bytes=10**6)) as points:
        return points.page(None, 1)[0][0]


@pytest.mark.parametrize(
    "payload",
    [
        {"data": "a", "big": 2**70, "$int": "5", "nan": float("nan"), "bytes": b"\xff", "n": None},
        {"data": "a", "hash": None, "created_at": "soon", "expiration_date": 5, "user_id": ["x"]},
        {"data": "", "text_lemmatized": "other", "memory_type": "procedural_memory"},
        {"data": "a", "text_lemmatized": "a", "metadata": {"inner": 1}, "categories": ["x"]},
    ],
    ids=["foreign", "odd", "procedural", "names"],
)
def test_odd_payloads_round_trip(tmp_path: Path, payload: dict[str, Any]) -> None:
    """Unknown members, wrong types, and values outside of JSON."""
    ((entry,), _) = read(with_points(tmp_path / "a", payload))
    back = _write_and_read(tmp_path / "b", entry).payload
    back = {
        name: part for name, part in back.items() if name in payload or name != "text_lemmatized"
    }
    assert repr(sorted(back.items())) == repr(sorted(payload.items()))


def test_a_point_without_a_text_is_refused_by_its_id(tmp_path: Path) -> None:
    """It is not skipped in silence."""
    with pytest.raises(MalformedError) as refusal:
        read(with_points(tmp_path / "a", {"data": "a"}, {"user_id": "ada"}))
    assert refusal.value.field == "2/memory"


def test_attack_a_pickle_that_runs_code_is_refused_with_its_position(tmp_path: Path) -> None:
    """Among valid points; the code is not run."""
    folder = with_points(tmp_path / "a", {"data": "a"})
    with closing(sqlite3.connect(folder / STORAGE)) as database, database:
        database.execute("INSERT INTO points VALUES ('x', ?)", [b"cos\nsystem\n(X\x01\0\0\0atR."])
    with pytest.raises(MalformedError, match=r"os\.system") as refusal:
        read(folder)
    assert refusal.value.field == "points/2"
    assert refusal.value.file == str(folder / STORAGE)


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE VIEW points AS WITH x(id) AS (SELECT 1 UNION ALL SELECT id FROM x) SELECT * FROM x",
        "CREATE TABLE points (id TEXT, point BLOB AS (zeroblob(900000000)))",
        "CREATE TABLE points (id TEXT)",
        "CREATE TABLE other (id TEXT)",
    ],
    ids=["endless view", "computed column", "fewer columns", "no table"],
)
def test_attack_an_invalid_table_of_points_is_refused(tmp_path: Path, statement: str) -> None:
    """A view could have endless rows."""
    folder = with_points(tmp_path / "a")
    with closing(sqlite3.connect(folder / STORAGE)) as database, database:
        database.execute("DROP TABLE points")
        database.execute(statement)
    with pytest.raises(MalformedError):
        read(folder)


def test_attack_a_point_over_the_limit_is_refused(tmp_path: Path) -> None:
    """Before it is read into memory."""
    folder = with_points(tmp_path / "a", {"data": "x" * 5000})
    with pytest.raises(SatchelError):
        read(folder, limits=Limits(line_bytes=1000))


@pytest.mark.parametrize("name", ["../../up", "", ".", "a/b", "\x00"])
def test_attack_a_collection_name_that_is_a_path_is_refused(tmp_path: Path, name: str) -> None:
    """The name comes from an untrusted file."""
    folder = with_points(tmp_path / "a", {"data": "a"})
    meta = folder / "qdrant" / "meta.json"
    meta.write_text(json.dumps({"collections": {name: {}}}))
    with pytest.raises(MalformedError):
        read(folder)


def test_attack_a_symbolic_link_instead_of_the_points_is_refused(tmp_path: Path) -> None:
    """Its target is not read."""
    folder = copy_of_sample(tmp_path / "a")
    shutil.move(folder / STORAGE, tmp_path / "elsewhere")
    (folder / STORAGE).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(SatchelError):
        read(folder)


@pytest.mark.parametrize("text", ["", "[]", "{", "[" * 100_000, '{"collections": []}', "\xff"])
def test_attack_an_invalid_description_is_refused(tmp_path: Path, text: str) -> None:
    """``meta.json`` is untrusted."""
    folder = with_points(tmp_path / "a")
    (folder / "qdrant" / "meta.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(MalformedError):
        read(folder)


def test_attack_an_oversized_description_is_refused(tmp_path: Path) -> None:
    """It is read up to the limit only."""
    folder = with_points(tmp_path / "a")
    os.truncate(folder / "qdrant" / "meta.json", 2**40)
    with pytest.raises(LimitError):
        read(folder)


def test_a_truncated_file_of_points_is_refused(tmp_path: Path) -> None:
    """At any length."""
    for size in (0, 50, 5000, 20_000):
        folder = copy_of_sample(tmp_path / str(size))
        os.truncate(folder / STORAGE, size)
        with pytest.raises(MalformedError):
            read(folder)


def test_the_last_of_duplicate_points_is_read(tmp_path: Path) -> None:
    """Older versions wrote a second row for another form of the key."""
    name = "46730D4A-BE9B-49BD-B0A4-101BB738191B"
    folder = with_points(tmp_path / "a")
    with closing(sqlite3.connect(folder / STORAGE)) as database, database:
        for key, text in ((_key(name), "old"), (_key(name.lower()), "new"), (_key(7), "other")):
            data = pickled(point(name if text == "old" else name.lower(), {}, {"data": text}))
            database.execute("INSERT INTO points VALUES (?, ?)", [key, data])
    assert [entry.text for entry in read(folder)[0]] == ["new", "other"]


def test_several_mem0_collections_need_a_choice(tmp_path: Path) -> None:
    """A single one is used; the collections of entities are ignored."""
    folder = with_points(tmp_path / "a", {"data": "one"}, collection="notes")
    with_points(folder, {"data": "x"}, collection="notes_entities")
    assert [entry.text for entry in read(folder)[0]] == ["one"]
    with_points(folder, {"data": "two"}, collection="more")
    with pytest.raises(UsageError, match="several"):
        read(folder)
    assert [one.text for one in read(f"mem0://{folder}?collection=more")[0]] == ["two"]
    with pytest.raises(UnreadableError):
        read(f"mem0://{folder}?collection=none")


@pytest.mark.parametrize(
    "text", ["mem0:", "mem0:///a?colection=x", "mem0:///a?dimensions=0", "mem0:///a?dimensions=1e3"]
)
def test_an_invalid_mem0_address_is_refused(text: str) -> None:
    """A misspelled parameter is not ignored."""
    with pytest.raises(UsageError):
        Mem0Address.read(text)


def test_the_path_of_the_history_is_configurable(tmp_path: Path) -> None:
    """It is in Mem0's folder by default; a missing one is reported."""
    folder = copy_of_sample(tmp_path / "a")
    shutil.move(folder / "history.db", tmp_path / "b.db")
    report = Report()
    assert read(folder, report)[1] == []
    assert "there is no history.db" in " ".join(report.notes)
    assert read(f"mem0://{folder}?history={tmp_path / 'b.db'}")[1]
    with pytest.raises(UnreadableError):
        read(f"mem0://{folder}?history={tmp_path / 'c.db'}")


def test_an_incomplete_history_is_read(tmp_path: Path) -> None:
    """Texts missing from the store and changes without their start become versions."""
    folder = with_points(tmp_path / "a", {"data": "four", "updated_at": "2026-01-04"})
    with closing(sqlite3.connect(folder / "history.db")) as database, database:
        database.execute(
            "CREATE TABLE history (id TEXT PRIMARY KEY, memory_id TEXT, old_memory TEXT,"
            " new_memory TEXT, event TEXT, created_at DATETIME, updated_at DATETIME,"
            " is_deleted INTEGER, actor_id TEXT, role TEXT)"
        )
        rows = [("h1", "one", "two", "2026-01-02"), ("h2", "three", "four", "2026-01-04")]
        for name, old, new, at in rows:
            values = (name, "1", old, new, "UPDATE", "2026-01-01", at, 0, None, "user")
            database.execute("INSERT INTO history VALUES (?,?,?,?,?,?,?,?,?,?)", values)
    ((entry,), past) = read(folder)
    assert [entry_of(one).text for one in past] == ["one", "two", "three"]
    assert entry.text == "four"


# -- writing -------------------------------------------------------------------------------


_TEA = Semantic(
    text="likes tea",
    created_at="2026-01-02T03:04:05.000000Z",
    scope=Scope(user="ada", run="r-1"),
    metadata={"topic": "drinks"},
)


def test_a_second_write_changes_nothing(tmp_path: Path) -> None:
    """Each memory is reported as known."""
    batch = [seal(_TEA), seal(Semantic(text="b", scope=Scope(user="bo")))]
    with closing(opened(tmp_path / "a", writes=True)) as connector:
        first = connector.take(batch, Report())
    before = digests(tmp_path / "a")
    with closing(opened(tmp_path / "a", writes=True)) as connector:
        again = connector.take(batch, Report())
    assert digests(tmp_path / "a") == before
    assert [one.there for one in again] == [one.there for one in first]
    assert [one.known for one in [*first, *again]] == [False, False, True, True]


def test_a_different_version_of_a_memory_is_replaced_only_with_overwrite(tmp_path: Path) -> None:
    """The vector of the old text is removed; that of the same text stays."""
    folder = with_points(tmp_path / "a", {"data": "old"})
    entry = Semantic(text="new", origin=Origin(provider="mem0", id="1"))
    with closing(opened(folder, writes=True)) as connector:
        (refused,) = connector.take([seal(entry)], Report())
    assert refused.there is None
    assert "--overwrite" in str(refused.problem)
    found = _write_and_read(folder, entry, overwrite=True)
    assert (found.payload["data"], found.vectors) == ("new", {})

    other = with_points(tmp_path / "b", {"data": "new"})
    assert _write_and_read(other, entry, overwrite=True).vectors == {"": [0.5, 0.5]}


def test_an_interrupted_batch_is_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between history and memories; after a second run each exists once."""
    batch = [seal(_TEA)]
    with monkeypatch.context() as cut:
        cut.setattr(Points, "put", _raise_disk_full)
        connector = opened(tmp_path / "a", writes=True)
        with closing(connector), pytest.raises(TargetError):
            connector.take(batch, Report())
    with closing(opened(tmp_path / "a", writes=True)) as connector:
        assert connector.take(batch, Report())[0].there
    with closing(sqlite3.connect(tmp_path / "a" / "history.db")) as database:
        assert database.execute("SELECT count(*) FROM history").fetchall() == [(1,)]


def _raise_disk_full(*_: object) -> None:
    raise TargetError("the disk is full")


def test_the_history_is_written_as_mem0_would_have_done(tmp_path: Path) -> None:
    """One row per version."""
    older = seal(msgspec.structs.replace(_TEA, text="likes coffee"))
    now = seal(msgspec.structs.replace(_TEA, updated_at="2026-02-02T03:04:05.000000Z"))
    with closing(opened(tmp_path / "a", writes=True)) as connector:
        (taken,) = connector.take_versions([now], {now.id: [older]}, Report())
    with closing(sqlite3.connect(tmp_path / "a" / "history.db")) as database:
        rows = database.execute(
            "SELECT memory_id, old_memory, new_memory, event, created_at, updated_at, is_deleted"
            " FROM history ORDER BY rowid"
        ).fetchall()
    at = "2026-01-02T03:04:05+00:00"
    assert rows == [
        (taken.there, None, "likes coffee", "ADD", at, None, 0),
        (taken.there, "likes coffee", "likes tea", "UPDATE", at, "2026-02-02T03:04:05+00:00", 0),
    ]


def test_members_that_mem0_cannot_hold_are_counted_by_name(tmp_path: Path) -> None:
    """They are not written elsewhere."""
    entry = Semantic(
        text="a",
        tags=("x",),
        salience=0.5,
        scope=Scope(user="ada", app="app"),
        metadata={"user_id": "bo", "fine": 1},
        origin=Origin(provider="letta", id="7"),
    )
    report = Report()
    with closing(opened(tmp_path / "a", writes=True)) as connector:
        connector.take([seal(entry)], report)
        ((found,), _) = (connector.page(None, Report()).items, None)
    assert {loss.name for loss in report.losses.values()} == {
        "tags",
        "salience",
        "scope/app",
        "metadata/user_id",
        "origin",
    }
    assert isinstance(found, Entry)
    assert (found.scope, found.metadata, found.tags) == (Scope(user="ada"), {"fine": 1}, ())


def test_a_procedure_round_trips(tmp_path: Path) -> None:
    """By a member of Mem0's metadata."""
    _write_and_read(tmp_path / "a", Procedural(text="boil water", scope=Scope(user="ada")))
    ((found,), _) = read(tmp_path / "a")
    assert isinstance(found, Procedural)


def test_a_dry_run_writes_nothing_to_mem0(tmp_path: Path) -> None:
    """It returns the result of a real run."""
    with closing(opened(tmp_path / "a", writes=True, dry_run=True)) as connector:
        assert connector.take([seal(_TEA)], Report())[0].there
    assert not (tmp_path / "a").exists()

    folder = with_points(tmp_path / "b", {"data": "a"})
    before = digests(folder)
    with closing(opened(folder, writes=True, dry_run=True)) as connector:
        assert connector.take([seal(_TEA)], Report())[0].there
    assert digests(folder) == before


def test_local_updates_are_written_as_history_rows(tmp_path: Path) -> None:
    """The row of the previous text is not duplicated."""
    items, _ = read(SAMPLE)
    entry = next(one for one in items if one.origin and one.origin.as_written[HISTORY])
    older, now = seal(entry), seal(msgspec.structs.replace(entry, text="said anew"))
    with closing(opened(tmp_path / "a", writes=True)) as connector:
        connector.take_versions([now], {now.id: [older]}, Report())
    with closing(sqlite3.connect(tmp_path / "a" / "history.db")) as database:
        rows = database.execute("SELECT new_memory, event FROM history ORDER BY rowid").fetchall()
    assert rows == [(entry.text, "ADD"), ("said anew", "UPDATE")]
    assert _first_point(tmp_path / "a").payload["text_lemmatized"] == "said anew"


def _first_point(folder: Path) -> Any:
    with closing(Points(folder / STORAGE, most_bytes=10**6)) as points:
        return points.page(None, 1)[0][0]


# -- vectors -------------------------------------------------------------------------------


def test_vectors_are_read_and_written_on_request(tmp_path: Path) -> None:
    """A new collection has their length."""
    folder = with_points(tmp_path / "a", {"data": "a"})
    assert HISTORY not in row_of(read(folder)[0][0])
    ((entry,), _) = read(folder, embeddings=True)
    assert set(row_of(entry)) == set(row_of(read(folder)[0][0]))

    with closing(opened(f"mem0://{tmp_path / 'b'}?dimensions=2", writes=True)) as connector:
        connector.take([seal(entry)], Report())
    assert _first_point(tmp_path / "b").vectors == {}
    assert _write_and_read(tmp_path / "b", entry, embeddings=True).vectors == {"": [0.5, 0.5]}
    assert _write_and_read(tmp_path / "c", entry, embeddings=True).vectors == {"": [0.5, 0.5]}
    meta = json.loads((tmp_path / "c" / "qdrant" / "meta.json").read_bytes())
    assert meta["collections"]["mem0"]["vectors"]["size"] == 2


def test_a_vector_of_another_text_or_length_is_not_written(tmp_path: Path) -> None:
    """The first would give wrong results, and the library could not load the second."""
    ((entry,), _) = read(with_points(tmp_path / "a", {"data": "a"}), embeddings=True)
    changed = msgspec.structs.replace(entry, text="b")
    assert _write_and_read(tmp_path / "b", changed, embeddings=True).vectors == {}

    report = Report()
    with closing(
        opened(f"mem0://{tmp_path / 'c'}?dimensions=3", writes=True, embeddings=True)
    ) as connector:
        connector.take([seal(entry)], report)
    assert [loss.name for loss in report.losses.values()] == ["vector"]
    assert _first_point(tmp_path / "c").vectors == {}
