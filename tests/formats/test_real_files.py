"""Regressions found with real files and live products."""

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
from import_kit import bring

from satchel.api.store import Satchel
from satchel.connectors._qdrant import QdrantFolder
from satchel.errors import UnknownFormatError
from satchel.ports.format import Location, formats


def _export(bank: str, output: str | Path, **options: Any) -> Any:
    with Satchel.open() as there:
        return there.bank(bank).export(output, **options)


def _collection(folder: Path, config: dict[str, Any]) -> None:
    """Make a collection with a point as the client does, through our own writer."""
    from satchel.connectors._qdrant import Points
    from satchel.formats._pickles import POINTS, Global, Model

    made = QdrantFolder(folder, writes=True)
    made.make_with("notes", config)
    sparse = Model(Global(POINTS, "SparseVector"))
    sparse.members = {"indices": [1], "values": [0.5]}
    points = Points(made.storage("notes"), most_bytes=2**20, writes=True)
    points.put([(1, {"dense": [0.5, 2.0], "img": [1.0, 0.0, 0.0], "bm25": sparse}, {"text": "a"})])
    points.close()
    made.close()


def test_each_named_vector_keeps_its_metric(tmp_path: Path) -> None:
    """A new collection for vectors from Qdrant has their metric."""
    config = {
        "vectors": {
            "dense": {"size": 2, "distance": "Dot"},
            "img": {"size": 3, "distance": "Cosine"},
        },
        "sparse_vectors": {"bm25": {"index": None, "modifier": "idf"}},
    }
    _collection(tmp_path / "a", config)
    done = bring(f"qdrant://{tmp_path}/a?collection=notes", embeddings=True)
    assert done.unaccepted == 0
    out = _export("b", f"qdrant://{tmp_path}/b?collection=notes", include_embeddings=True)
    assert out.unaccepted == 0
    folder = QdrantFolder(tmp_path / "b")
    made = folder.collections["notes"]
    folder.close()
    assert {name: one["distance"] for name, one in made["vectors"].items()} == {
        "dense": "Dot",
        "img": "Cosine",
    }
    assert made["sparse_vectors"] == {"bm25": {"modifier": "idf"}}
    _export("b", f"qdrant://{tmp_path}/c?collection=notes&distance=Euclid", include_embeddings=True)
    folder = QdrantFolder(tmp_path / "c")
    assert folder.collections["notes"]["vectors"]["img"]["distance"] == "Euclid"
    folder.close()


def test_an_existing_collection_with_another_metric_is_reported(tmp_path: Path) -> None:
    """Its metric is not changed, and the difference is a loss."""
    config = {"vectors": {"dense": {"size": 2, "distance": "Dot"}}, "sparse_vectors": None}
    _collection(tmp_path / "a", config)
    bring(f"qdrant://{tmp_path}/a?collection=notes", embeddings=True)
    other = QdrantFolder(tmp_path / "b", writes=True)
    other.make_with(
        "notes",
        {"vectors": {"dense": {"size": 2, "distance": "Cosine"}}, "sparse_vectors": None},
    )
    other.close()
    done = _export("b", f"qdrant://{tmp_path}/b?collection=notes", include_embeddings=True)
    assert "vector/distance" in {loss.name for loss in done.losses}


def test_an_agent_keeps_its_name(tmp_path: Path) -> None:
    """The file of an agent that was imported into a bank of another name."""
    node = {
        "memory_id": "m1",
        "concept": "c",
        "content": "Tea is green",
        "confidence": 0.5,
        "source_id": "",
        "tags": [],
        "metadata": {},
        "created_at": "2026-01-01T00:00:00",
        "entity_name": "",
    }
    edges = ("similar_to", "derives_from", "supersedes", "transitioned_to")
    path = tmp_path / "a.json"
    path.write_text(
        json.dumps(
            {
                "agent_name": "tea-agent",
                "exported_at": "2026-01-01T00:00:00",
                "format_version": "1.1",
                "semantic_nodes": [node],
                "episodic_nodes": [],
                **{f"{name}_edges": [] for name in edges},
            }
        )
    )
    bring(path, "other")
    done = _export("other", tmp_path / "o.json", to="amplihack")
    assert json.loads((tmp_path / "o.json").read_text())["agent_name"] == "tea-agent"
    assert done.unaccepted == 0


@pytest.mark.parametrize("shape", ["lines", "graph"])
def test_two_entities_with_one_name_stay_distinct(tmp_path: Path, shape: str) -> None:
    """By their types, with their own observations, in the file and in a bank."""
    rows: list[dict[str, Any]] = [
        {"type": "entity", "name": "Apollo", "entityType": "person", "observations": ["walks"]},
        {"type": "entity", "name": "Apollo", "entityType": "rocket", "observations": ["walks"]},
        {"type": "entity", "name": "Apollo", "entityType": "dog", "observations": []},
        {"type": "entity", "name": "Apollo", "entityType": "cat", "observations": []},
    ]
    path = tmp_path / "m.memory.jsonl"
    if shape == "lines":
        path.write_text("\n".join(json.dumps(row, separators=(",", ":")) for row in rows))
    else:
        bare = [{name: part for name, part in row.items() if name != "type"} for row in rows]
        path.write_text(json.dumps({"entities": bare, "relations": []}))
    assert bring(path).unaccepted == 0
    done = _export("b", tmp_path / "o.memory.jsonl")
    assert done.unaccepted == 0
    text = (tmp_path / "o.memory.jsonl").read_text()
    found = [json.loads(line) for line in text.splitlines()]
    found = found[0]["entities"] if shape == "graph" and "entities" in found[0] else found
    said = {(one["entityType"], tuple(one["observations"])) for one in found}
    assert said == {("person", ("walks",)), ("rocket", ("walks",)), ("dog", ()), ("cat", ())}
    assert not bring(path).changed


def test_inspect_lists_the_ignored_files_of_a_mixed_archive(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As an import would."""
    from satchel.cli.main import run

    talk = {
        "conversation_id": "c",
        "title": "T",
        "create_time": 1_770_000_000,
        "mapping": {
            "a": {
                "id": "a",
                "message": {
                    "id": "a",
                    "author": {"role": "user"},
                    "content": {"content_type": "text", "parts": ["hi"]},
                },
                "parent": None,
            }
        },
        "current_node": "a",
    }
    path = tmp_path / "e.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("conversations.json", json.dumps([talk]))
        archive.writestr("mem0.json", json.dumps([{"id": "1", "memory": "tea"}]))
        archive.writestr("user.json", "{}")
    assert run(["inspect", str(path)]) == 0
    told = capsys.readouterr().err
    assert "not read: mem0.json" in told
    assert "1 user.json" in told


def test_the_error_for_an_unknown_file_lists_only_the_nearest_formats(tmp_path: Path) -> None:
    """And the command that lists all of them."""
    path = tmp_path / "x.jsonl"
    path.write_text('{"a": 1}\n')
    with pytest.raises(UnknownFormatError) as caught:
        formats.recognize(Location(path))
    hint = str(caught.value.hint)
    assert "satchel formats" in hint
    assert "ama" in hint
    assert hint.count(",") < 6


@pytest.mark.parametrize(
    "files",
    [
        {".obsidian/app.json": "{}", "Tea.md": "Green tea is best at 80 degrees."},
        {"note.md": "---\ntitle: Tea\ntype: note\npermalink: tea\n---\n- [fact] Tea is green"},
        {"SOUL.md": "Be calm.", "memory/2026-03-01.md": "- Ada likes tea"},
    ],
    ids=["obsidian", "basic-memory", "openclaw"],
)
def test_folders_of_notes_are_recognized(tmp_path: Path, files: dict[str, str]) -> None:
    """Without ``--from``, by files of their programs; attachments are reported."""
    for name, text in {**files, "picture.png": "x"}.items():
        path = tmp_path / "notes" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    done = bring(tmp_path / "notes")
    assert done.source_format == "markdown_memory"
    assert "*.png" in {loss.name for loss in done.losses}


_WORKSPACE = {
    "SOUL.md": "Be calm.",
    "USER.md": "Ada, a baker.",
    "MEMORY.md": "# Memory\n\n## Ada\n- likes tea\n- bakes rye\n  - on Fridays\n\n"
    "## How to bake\nFirst:\n- mix\n- wait\n",
    "memory/2026-03-01.md": "Ada came at nine.",
    "memory/2026-03-02-evening.md": "---\noccurred_at: 2026-03-03T08:00:00Z\n---\nAda called.\n",
    "memory/2026-13-45.md": "no day",
}


def _workspace(folder: Path) -> Path:
    for name, text in _WORKSPACE.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def test_an_openclaw_workspace_gives_typed_dated_and_separate_memories(tmp_path: Path) -> None:
    """The identity, the events of a day, and each item of a list."""
    bring(_workspace(tmp_path / "claw"))
    with Satchel.open() as satchel:
        found = {one.text: one for one in satchel.bank("b").list()}
    types = {text: one.type for text, one in found.items()}
    assert types == {
        "Be calm.": "identity",
        "Ada, a baker.": "identity",
        "likes tea": "semantic",
        "bakes rye\n  - on Fridays": "semantic",
        "First:\n- mix\n- wait": "semantic",
        "Ada came at nine.": "episodic",
        "Ada called.": "episodic",
        "no day": "semantic",
    }
    assert list(found["likes tea"].tags) == ["Ada"]
    with Satchel.open() as satchel:
        records = [satchel.bank("b").show(one.id).record for one in found.values()]
    days = {one["text"]: one["occurred_at"][:10] for one in records if "occurred_at" in one}
    assert days == {"Ada came at nine.": "2026-03-01", "Ada called.": "2026-03-03"}


def test_an_openclaw_workspace_round_trips_byte_for_byte(tmp_path: Path) -> None:
    """Through a bank; days do not repeat what their names say."""
    bring(_workspace(tmp_path / "claw"))
    again = tmp_path / "again"
    _export("b", again, to="markdown_memory")
    found = {
        path.relative_to(again).as_posix(): path.read_text()
        for path in again.rglob("*")
        if path.is_file()
    }
    assert found == _WORKSPACE
