"""Local stores of Qdrant and Chroma, compared with the output of Qdrant's client."""

import json
import shutil
import subprocess
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from import_kit import bring, texts
from mem0_kit import digests, with_points

from benchmarks import peers
from satchel.api.store import Satchel
from satchel.connectors.qdrant_local import QdrantAddress, QdrantLocal
from satchel.crypto.sealed_records import seal
from satchel.errors import UnreadableError, UsageError
from satchel.formats.chroma import FORMAT
from satchel.model.records import Entry, Semantic
from satchel.model.values import Origin, Scope
from satchel.ports.format import ConnectorOptions, Location, ReadContext
from satchel.ports.record_set import Report
from satchel.ports.vectors import text_mark
from satchel.transfer.folders import MEM0_LOCAL, QDRANT_LOCAL, connector_for

_PEER = Path(__file__).parents[2] / "benchmarks" / "peers" / "qdrant_work.py"


def _opened(folder: Path, collection: str | None = None, **how: Any) -> QdrantLocal:
    return QdrantLocal(QdrantAddress(folder=folder, collection=collection), ConnectorOptions(**how))


def _read(folder: Path, collection: str | None = None) -> list[Entry]:
    with closing(_opened(folder, collection)) as connector:
        page = connector.page(None, Report())
    assert page.cursor is None
    return [one for one in page.items if isinstance(one, Entry)]


@pytest.mark.shared
def test_a_collection_of_the_client_is_read_and_written_back(
    shared_data: Path, tmp_path: Path
) -> None:
    """With a numeric ID, and with dense and sparse vectors."""
    shutil.copytree(shared_data / "qdrant" / "db", tmp_path / "a")
    before = digests(tmp_path / "a")
    found = {one.origin.id: one for one in _read(tmp_path / "a") if one.origin}

    assert connector_for(str(tmp_path / "a"), None) == QDRANT_LOCAL
    assert {name: one.text for name, one in found.items()} == {
        "7": "int id",
        "5c56c793-69f3-4fbf-87e6-c4bf54c28c26": "Ada prefers metric",
    }
    second = found["5c56c793-69f3-4fbf-87e6-c4bf54c28c26"]
    assert second.scope == Scope(user="ada")
    assert second.metadata == {"nested": {"a": [1, None]}}
    assert second.origin is not None
    assert second.origin.as_written["vector"]["numbers"] == {
        "dense": [0.1, 0.2, 0.3, 0.4],
        "bm25": {"indices": [1, 5], "values": [0.5, 0.2]},
    }
    done = bring(tmp_path / "a")
    assert done.unaccepted == 0
    with Satchel.open() as here:
        assert here.bank("b").export(f"qdrant:{tmp_path / 'b'}").lost == 0
    assert digests(tmp_path / "a") == before
    again = {one.origin.id: one for one in _read(tmp_path / "b") if one.origin}
    assert again == found


@pytest.mark.shared
def test_points_from_a_server_are_the_same(shared_data: Path) -> None:
    """Except for vectors, which a server normalizes."""
    bring(shared_data / "qdrant" / "scroll.json")
    assert sorted(map(str, texts())) == ["Ada prefers metric", "int id"]


def test_a_folder_of_mem0_is_recognized_by_its_contents(tmp_path: Path) -> None:
    """By the name of a collection or a history file."""
    with_points(tmp_path / "a", {"data": "tea"})
    with_points(tmp_path / "b", {"text": "tea"}, collection="notes")
    assert connector_for(str(tmp_path / "a"), None) == MEM0_LOCAL
    assert connector_for(str(tmp_path / "a" / "qdrant"), None) == MEM0_LOCAL
    assert connector_for(str(tmp_path / "b" / "qdrant"), None) == QDRANT_LOCAL
    (tmp_path / "b" / "history.db").touch()
    assert connector_for(str(tmp_path / "b" / "qdrant"), None) == MEM0_LOCAL
    (tmp_path / "meta.json").write_bytes(b"{")
    assert connector_for(str(tmp_path), None) is None


def test_several_qdrant_collections_need_a_choice(tmp_path: Path) -> None:
    """An unknown one is an error."""
    folder = with_points(tmp_path, {"text": "tea"}, collection="one") / "qdrant"
    with_points(tmp_path, {"text": "water"}, collection="two")
    with pytest.raises(UsageError, match="several collections exist: one, two"):
        _opened(folder)
    with pytest.raises(UnreadableError, match="no collection named 'three'"):
        _opened(folder, "three")
    assert [one.text for one in _read(folder, "two")] == ["water"]


@pytest.mark.parametrize(
    "text",
    ["qdrant:", "qdrant:/x?history=y", "qdrant:/x?distance=Far"],
    ids=["no path", "unknown parameter", "unknown distance"],
)
def test_an_invalid_qdrant_address_is_refused(text: str) -> None:
    """The error has the form of an address."""
    with pytest.raises(UsageError, match="address"):
        QdrantAddress.read(text)
    assert QdrantAddress.read("qdrant:///a%20b?collection=c") == QdrantAddress(
        folder=Path("/a b"), collection="c"
    )


def _point(text: str, **more: Any) -> Semantic:
    origin = Origin(provider="qdrant", source="notes", id="7", **more)
    return Semantic(text=text, origin=origin)


def test_a_different_version_of_a_point_is_replaced_only_with_overwrite(tmp_path: Path) -> None:
    """An equal point is reported as known; a stale vector is dropped."""
    with closing(_opened(tmp_path / "a", writes=True)) as connector:
        (first,) = connector.take([seal(_point("tea"))], Report())
        (again,) = connector.take([seal(_point("tea"))], Report())
        (other,) = connector.take([seal(_point("water"))], Report())
    assert (first.there, again.known, other.there) == ("7", True, None)
    report = Report()
    with closing(_opened(tmp_path / "a", writes=True, overwrite=True)) as connector:
        stale = {"vector": {"of": "0" * 32, "numbers": [1.0]}}
        (forced,) = connector.take([seal(_point("water", as_written=stale))], report)
    assert forced.there == "7"
    assert [loss.name for loss in report.losses.values()] == ["vector"]
    assert [one.text for one in _read(tmp_path / "a")] == ["water"]


def test_a_new_collection_has_a_field_for_each_vector(tmp_path: Path) -> None:
    """Also for vectors of later points only; one of another length is counted as lost."""

    def with_vectors(name: str, numbers: Any) -> Any:
        kept = {"vector": {"of": text_mark("tea"), "numbers": numbers}}
        origin = Origin(provider="qdrant", id=name, as_written=kept)
        return seal(Semantic(text="tea", origin=origin))

    words = {"indices": [1], "values": [0.5]}
    report = Report()
    with closing(_opened(tmp_path / "a", writes=True)) as connector:
        connector.take([with_vectors("1", {"dense": [1.0, 0.5]})], report)
        connector.take([with_vectors("2", {"dense": [0.5, 1.0], "words": words})], report)
        assert report.total == 0
        connector.take([with_vectors("3", {"dense": [0.5]})], report)
    assert [loss.name for loss in report.losses.values()] == ["vector/dense"]
    vectors = [
        one.origin.as_written.get("vector", {}).get("numbers")
        for one in _read(tmp_path / "a")
        if one.origin
    ]
    assert vectors == [{"dense": [1.0, 0.5]}, {"dense": [0.5, 1.0], "words": words}, None]


def test_a_dry_run_creates_no_collection(tmp_path: Path) -> None:
    """Neither a folder."""
    with closing(_opened(tmp_path / "a", writes=True, dry_run=True)) as connector:
        (taken,) = connector.take([seal(_point("tea"))], Report())
    assert taken.there == "7"
    assert not (tmp_path / "a").exists()


def _run_client(*arguments: str | Path) -> None:
    python = peers.environment("qdrant-client") / "python"
    subprocess.run([python, _PEER, *arguments], check=True, timeout=200)


@pytest.mark.prove
@pytest.mark.timeout(600)
def test_the_client_reads_our_output(tmp_path: Path) -> None:
    """1,000 points with payloads and both kinds of vectors."""
    _run_client("make", tmp_path / "a", "1000")
    shutil.copytree(tmp_path / "a", tmp_path / "copy")
    _run_client("read", tmp_path / "copy", tmp_path / "a.json")
    bring(tmp_path / "a")
    with Satchel.open() as here:
        done = here.bank("b").export(f"qdrant:{tmp_path / 'b'}?collection=notes")
    assert (done.written, done.lost) == (1000, 0)
    _run_client("read", tmp_path / "b", tmp_path / "b.json")
    said = json.loads((tmp_path / "a.json").read_bytes())
    assert len(said["notes"]) == 1000
    assert json.loads((tmp_path / "b.json").read_bytes()) == said


# -- Chroma ------------------------------------------------------------------------------


_FOLDER = Path(__file__).parent.parent / "data" / "chroma-folder"


def _texts_by_collection() -> dict[str, list[str | None]]:
    found = dict[str, list[str | None]]()
    for one in FORMAT.read(Location(_FOLDER), ReadContext()):
        if isinstance(one, Entry) and one.origin is not None:
            found.setdefault(one.origin.source or "", []).append(one.text)
    return found


def test_a_collection_is_imported_into_a_bank() -> None:
    """Completely, and without the others."""
    expected = _texts_by_collection()
    assert len(expected) > 1
    for name, said in expected.items():
        bring(f"chroma://{_FOLDER}?collection={name}", name, skip_bad=True)
        assert texts(name) == [one for one in said if one is not None]


def test_a_folder_of_several_collections_needs_a_choice() -> None:
    """An unknown collection or parameter is an error."""
    with pytest.raises(UsageError, match="several collections"):
        bring(f"chroma://{_FOLDER}")
    with pytest.raises(UnreadableError, match="no collection"):
        bring(f"chroma://{_FOLDER}?collection=none")
    with pytest.raises(UsageError, match="no such member"):
        bring(f"chroma://{_FOLDER}?table=none")


def test_a_path_imports_all_collections_with_a_note() -> None:
    """The note shows the address of a single collection."""
    done = bring(_FOLDER, skip_bad=True)
    assert any("?collection=NAME" in note for note in done.notes)
