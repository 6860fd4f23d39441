"""Chroma's databases and collections: cases outside of the shared suite."""

import base64
import json
import pickle
import shutil
import sqlite3
import struct
import subprocess
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from import_kit import bring, texts

import satchel
from benchmarks import peers
from satchel.api.store import Satchel
from satchel.conformance.subject import sealed
from satchel.errors import InputError, MalformedError, UsageError
from satchel.formats._points import payload_of
from satchel.model.records import Entry, Episodic, Semantic
from satchel.model.values import Scope
from satchel.ports.format import Location, ReadContext, Target, WriteContext, formats
from satchel.ports.record_set import Report

_FOLDER = Path(__file__).parent.parent / "data" / "chroma-folder"
_PEER = Path(__file__).parents[2] / "benchmarks" / "peers" / "chroma_work.py"
_NEAR = 1e-6


def _read(name: str, path: Path, **how: Any) -> tuple[list[Semantic], Report]:
    reading = ReadContext(**how)
    found = formats[name].read(Location(path), reading)
    return [one for one in found if isinstance(one, Semantic)], reading.report


def _vector(entry: Entry) -> list[float]:
    assert entry.origin is not None
    numbers = entry.origin.as_written["embedding"]["numbers"]
    if isinstance(numbers, list):
        return numbers
    data = base64.b64decode(numbers["$bytes"])
    return list(struct.unpack(f"<{len(data) // 4}f", data))


def _copy_database(path: Path, *statements: str) -> Path:
    shutil.copytree(_FOLDER, path)
    with closing(sqlite3.connect(path / "chroma.sqlite3")) as database, database:
        for statement in statements:
            database.execute(statement)
    return path


def _assert_equals_library(found: list[Semantic], said: dict[str, Any]) -> None:
    """Compare records with the result of the library's ``get()`` for each collection."""
    by_name = {(one.origin.source, one.origin.id): one for one in found if one.origin}
    count = 0
    for name, lists in said.items():
        parts = zip(*(lists[one] for one in _LISTS), strict=True)
        for identity, document, members, vector in parts:
            one = by_name[name, identity]
            assert one.text == document
            assert payload_of(one) == (members or {})
            # A collection with the cosine metric stores vectors of length 1.
            assert _vector(one) == pytest.approx(vector, abs=_NEAR)
            count += 1
    assert count == len(found)


_LISTS = ("ids", "documents", "metadatas", "embeddings")


def test_vectors_are_read_from_the_index_and_the_queue() -> None:
    """Two collections of the real library; some vectors are only in one of the two."""
    found, report = _read("chroma", _FOLDER)
    _assert_equals_library(found, json.loads((_FOLDER / "said.json").read_bytes()))
    assert report.total == 0


@pytest.mark.shared
def test_the_folder_and_the_result_of_the_library_give_equal_records(shared_data: Path) -> None:
    """Two records with vectors; nothing is lost."""
    folder, path = shared_data / "chroma" / "db", shared_data / "chroma" / "collection_get.json"
    found, report = _read("chroma", folder)
    shown, told = _read("chroma_get", path)

    assert formats.recognize(Location(folder)) == "chroma"
    assert formats.recognize(Location(path)) == "chroma_get"
    assert (report.total, told.total) == (0, 0)
    assert [one.text for one in found] == ["Ada prefers metric units", "No Friday deploys"]
    assert [one.scope for one in found] == [Scope(user="ada"), Scope(user="bo")]
    assert found[1].tags == ("a", "b")
    for one, other in zip(found, shown, strict=True):
        assert (one.text, one.scope, one.tags) == (other.text, other.scope, other.tags)
        assert one.metadata == other.metadata
        assert _vector(one) == _vector(other)


@pytest.mark.shared
def test_the_result_of_get_round_trips(shared_data: Path, tmp_path: Path) -> None:
    """Vectors, null lists, and the members about the result itself."""
    path = shared_data / "chroma" / "collection_get.json"
    satchel.convert(path, tmp_path / "x.chroma.json")
    assert json.loads((tmp_path / "x.chroma.json").read_bytes()) == json.loads(path.read_bytes())


def test_a_folder_is_recognized_as_its_database() -> None:
    """``satchel import FOLDER`` is the first thing that users try."""
    bring(_FOLDER, "one")
    bring(_FOLDER / "chroma.sqlite3", "two")
    assert len(texts("one")) == 10
    assert texts("one") == texts("two")


def test_queued_changes_are_read(tmp_path: Path) -> None:
    """The library was stopped before it applied added, changed and deleted records."""
    topic = "(SELECT topic FROM embeddings_queue LIMIT 1)"
    queue = "INSERT INTO embeddings_queue (operation, topic, id, vector, encoding, metadata)"
    folder = _copy_database(
        tmp_path / "a",
        f"{queue} VALUES (0, {topic}, 'new', x'0000803f', 'FLOAT32',"
        ' \'{"n": 1, "chroma:document": "Newer."}\')',
        f"{queue} VALUES (1, {topic}, 'm0', NULL, NULL, '{{\"changed\": true}}')",
        f"{queue} VALUES (3, {topic}, 'm1', NULL, NULL, NULL)",
    )
    found, report = _read("chroma", folder)
    name = next(one.origin.source for one in found if one.origin and one.origin.id == "new")
    own = {one.origin.id: one for one in found if one.origin and one.origin.source == name}
    assert own["new"].text == "Newer."
    assert _vector(own["new"]) == [1.0]
    assert own["m0"].metadata["changed"] is True
    assert own["m0"].metadata["n"] == 0
    assert "m1" not in own
    assert report.total == 0


def test_a_missing_vector_is_counted(tmp_path: Path) -> None:
    """The database file alone has only the vectors in the queue."""
    shutil.copyfile(_FOLDER / "chroma.sqlite3", tmp_path / "chroma.sqlite3")
    found, report = _read("chroma", tmp_path / "chroma.sqlite3")
    assert len(found) == 10
    assert [loss.name for loss in report.losses.values()] == ["embedding"]


class _Trap:
    def __reduce__(self) -> Any:
        return Path.touch, (Path("was-run"),)


def test_attack_a_pickle_in_an_index_is_refused_and_never_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The names in an index are a pickle; it is parsed as data."""
    monkeypatch.chdir(tmp_path)
    folder = _copy_database(tmp_path / "a")
    (index, *_) = folder.glob("*/index_metadata.pickle")
    index.write_bytes(pickle.dumps({"id_to_label": _Trap()}))
    with pytest.raises(MalformedError, match="not data"):
        _read("chroma", folder)
    assert not Path("was-run").exists()


@pytest.mark.parametrize("name", ["header.bin", "index_metadata.pickle", "data_level0.bin"])
def test_attack_an_index_that_is_a_link_or_damaged_is_refused(name: str, tmp_path: Path) -> None:
    """A link would read any file; a damaged index gives no vectors."""
    folder = _copy_database(tmp_path / "a")
    for path in folder.glob(f"*/{name}"):
        path.rename(tmp_path / f"{path.parent.name}-{name}")
        path.symlink_to(tmp_path / f"{path.parent.name}-{name}")
    with pytest.raises(InputError):
        _read("chroma", folder)
    for path in folder.glob(f"*/{name}"):
        path.unlink()
        path.write_bytes(b"\x80\x04" + b"\xff" * 60)
    if name != "data_level0.bin":  # of which there are fewer records, then
        with pytest.raises(InputError):
            _read("chroma", folder)


def test_attack_a_segment_named_like_a_path_is_not_opened(tmp_path: Path) -> None:
    """The records are read without their vectors."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "index_metadata.pickle").write_bytes(b"x")
    folder = _copy_database(
        tmp_path / "a", "UPDATE segments SET id = '../elsewhere' || rowid WHERE scope = 'VECTOR'"
    )
    assert len(_read("chroma", folder)[0]) == 10


def test_members_that_a_collection_cannot_hold_are_reported(tmp_path: Path) -> None:
    """Objects, null, mixed lists, reserved names; the report names the members."""
    members = {"a": {"b": 1}, "n": None, "l": [1, "x"], "chroma:document": "y", "ok": [1, 2]}
    writing = WriteContext()
    with sealed([Episodic(text="Asked.", metadata=members, kind="k")]) as records:
        formats["chroma_get"].write(records, Target(tmp_path / "x.json"), writing)
    said = json.loads((tmp_path / "x.json").read_bytes())
    assert said["metadatas"] == [{"ok": [1, 2]}]
    assert said["documents"] == ["Asked."]
    names = {loss.name for loss in writing.report.losses.values()}
    assert names == {
        *("metadata/a", "metadata/n", "metadata/l", "metadata/chroma:document"),
        *("type", "kind"),
    }


# -- the library itself --------------------------------------------------------------------


def _library(*arguments: str | Path) -> None:
    python = peers.environment("chromadb") / "python"
    subprocess.run([python, _PEER, *arguments], check=True, timeout=300)


@pytest.mark.prove
@pytest.mark.timeout(900)
def test_the_real_library_reads_written_collections(tmp_path: Path) -> None:
    """Two collections of 1,199 records, from its folder and back through ``upsert()``."""
    _library("make", tmp_path / "a", "1200", "1000")
    _library("read", tmp_path / "a", tmp_path / "a.json")
    said = json.loads((tmp_path / "a.json").read_bytes())
    found, report = _read("chroma", tmp_path / "a")
    _assert_equals_library(found, said)
    assert report.total == 0

    bring(tmp_path / "a")
    with Satchel.open() as here:
        here.bank("b").export(tmp_path / "b.chroma.json", accept_loss=("all",))
    both = json.loads((tmp_path / "b.chroma.json").read_bytes())
    _library("take", tmp_path / "b.chroma.json", tmp_path / "b")
    _library("read", tmp_path / "b", tmp_path / "b.json")
    (back,) = json.loads((tmp_path / "b.json").read_bytes()).values()
    by_id = {name: place for place, name in enumerate(back["ids"])}
    assert len(by_id) == len(both["ids"]) == 2 * 1199
    for place, name in enumerate(both["ids"]):
        there = by_id[name]
        assert back["documents"][there] == both["documents"][place]
        assert back["metadatas"][there] == both["metadatas"][place]
        assert back["embeddings"][there] == pytest.approx(both["embeddings"][place], abs=_NEAR)


@pytest.mark.parametrize("space", ["cosine", "ip"])
def test_the_metric_of_a_collection_is_preserved(tmp_path: Path, space: str) -> None:
    """By import, export and convert, in the form of ``create_collection()``."""
    path = tmp_path / "c.chroma.json"
    lists = {"ids": ["a"], "embeddings": [[0.5, 0.25]], "documents": ["tea"], "metadatas": [None]}
    path.write_text(json.dumps({**lists, "configuration": {"hnsw": {"space": space}}}))
    (entry,), _ = _read("chroma_get", path)
    assert entry.origin is not None
    assert entry.origin.as_written["embedding"]["space"] == space
    bring(path)
    with Satchel.open() as here:
        here.bank("b").export(tmp_path / "d.chroma.json")
    assert json.loads((tmp_path / "d.chroma.json").read_bytes()) == json.loads(path.read_bytes())


def test_an_export_has_the_metric_of_its_only_collection(tmp_path: Path) -> None:
    """Two metrics cannot be in one file, so they are reported as lost."""
    for name, said in (("memories", {"hnsw": {"space": "cosine"}}), ("notes", None)):
        bring(f"chroma://{_FOLDER}?collection={name}", name)
        with Satchel.open() as here:
            out = tmp_path / f"{name}.chroma.json"
            here.bank(name).export(out, accept_loss=("all",))
        assert json.loads(out.read_bytes()).get("configuration") == said
    bring(_FOLDER)
    with Satchel.open() as here:
        done = here.bank("b").export(tmp_path / "o.chroma.json", accept_loss=("all",))
    assert "configuration" not in json.loads((tmp_path / "o.chroma.json").read_bytes())
    assert "embedding/space" in {one.name for one in done.losses}


def test_collections_with_vectors_of_different_lengths_are_not_mixed(tmp_path: Path) -> None:
    """Chroma would refuse the file; the error names both and how to import one of them."""
    topic = "(SELECT topic FROM embeddings_queue ORDER BY seq_id DESC LIMIT 1)"
    queue = "INSERT INTO embeddings_queue (operation, topic, id, vector, encoding, metadata)"
    added = "'new', x'0000803f', 'FLOAT32', '{\"chroma:document\": \"Newer.\"}'"
    folder = _copy_database(tmp_path / "a", f"{queue} VALUES (0, {topic}, {added})")
    bring(folder)
    with Satchel.open() as here, pytest.raises(UsageError) as caught:
        here.bank("b").export(tmp_path / "o.chroma.json", accept_loss=("all",))
    assert "memories" in str(caught.value)
    assert "notes" in str(caught.value)
    assert "?collection=notes is one alone" in str(caught.value.hint)
    assert not (tmp_path / "o.chroma.json").exists()
