"""Agents whose memory is in a graph: amplihack's own, which is only read, and ours."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from satchel.amplihack import HierarchicalTransfer
from satchel.errors import (
    InputError,
    MalformedError,
    PathRefusedError,
    ReadOnlyStoreError,
    UsageError,
)

DATA = Path(__file__).parent.parent / "data"
RUST = DATA / "formats" / "amplihack" / "good-rust.json"
OF_BUILDER = {
    "semantic_node_count": "3",
    "episodic_node_count": "3",
    "similar_to_edge_count": "2",
    "derives_from_edge_count": "3",
    "supersedes_edge_count": "2",
    "transitioned_to_edge_count": "2",
}


@pytest.fixture
def transfer() -> HierarchicalTransfer:
    """What moves agents."""
    return HierarchicalTransfer(allow_uncontained=True)


def graph(path: Path, name: str = "kuzu-39") -> Path:
    """Put a graph of amplihack's at a path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.decompress((DATA / "graphs" / f"amplihack-{name}.gz").read_bytes()))
    return path


@pytest.mark.parametrize(("name", "called"), [("kuzu-39", "kuzu_db"), ("ladybug-41", "graph_db")])
def test_an_agent_in_a_graph_of_amplihacks_is_exported_and_stays_there(
    transfer: HierarchicalTransfer, tmp_path: Path, name: str, called: str
) -> None:
    """The old one as the new one; nothing is written into it."""
    path = graph(tmp_path / "tree" / "builder" / called, name)
    before = path.read_bytes()
    done = transfer.export_hierarchical_json("builder", tmp_path / "x.json", tmp_path / "tree")
    assert dict(done.statistics) == OF_BUILDER
    said = json.loads((tmp_path / "x.json").read_bytes())
    assert {node["content"] for node in said["semantic_nodes"]} == {
        f"the queue has {count} workers 🐝" for count in (4, 8, 12)
    }
    with pytest.raises(ReadOnlyStoreError):
        transfer.import_hierarchical_json("builder", RUST, storage_path=tmp_path / "tree")
    assert path.read_bytes() == before


def test_a_graph_is_imported_as_a_database_is_and_never_merged(
    transfer: HierarchicalTransfer, tmp_path: Path
) -> None:
    """Under the agent that it has; one that is not in it is refused."""
    path = graph(tmp_path / "graph_db")
    done = dict(transfer.import_hierarchical_raw_db("builder", path).statistics)
    assert (done["semantic_nodes_imported"], done["episodic_nodes_imported"]) == ("3", "3")
    with pytest.raises(MalformedError, match="none of them"):
        transfer.import_hierarchical_raw_db("nobody", path)
    with pytest.raises(UsageError):
        transfer.import_hierarchical_raw_db("builder", path, merge=True)


@pytest.mark.parametrize("magic", [b"LBUG\x31\0", b"KUZU\x27\0", None])
def test_what_is_no_graph_is_refused_and_not_taken_for_an_empty_one(
    transfer: HierarchicalTransfer, tmp_path: Path, magic: bytes | None
) -> None:
    """A file that only begins like one, and an empty folder."""
    path = tmp_path / "agent" / "graph_db"
    path.parent.mkdir()
    path.mkdir() if magic is None else path.write_bytes(magic)
    with pytest.raises(InputError):
        transfer.import_hierarchical_raw_db("agent", path)
    with pytest.raises(InputError):
        transfer.export_hierarchical_json("agent", tmp_path / "x.json", tmp_path)
    assert not (tmp_path / "x.json").exists()


def test_a_folder_keeps_an_agent_in_a_graph_of_ours_when_that_was_chosen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is found again without being chosen; a link in its place is refused."""
    tree = tmp_path / "tree"
    monkeypatch.setenv("SATCHEL_MEMORY_BACKEND", "graph-db")
    transfer = HierarchicalTransfer(allow_uncontained=True)
    first = transfer.import_hierarchical_json("agent", RUST, storage_path=tree)
    again = transfer.import_hierarchical_json("agent", RUST, merge=True, storage_path=tree)
    assert dict(first.statistics)["semantic_nodes_imported"] == "3"
    assert dict(again.statistics)["semantic_nodes_imported"] == "0"
    monkeypatch.delenv("SATCHEL_MEMORY_BACKEND")
    transfer = HierarchicalTransfer(allow_uncontained=True)
    assert (tree / "agent" / "graph_db" / "graph.lbug").is_file()
    assert not (tree / "agent.db").exists()
    transfer.export_hierarchical_json("agent", tmp_path / "x.json", tree)
    said, there = (json.loads(one.read_bytes()) for one in (tmp_path / "x.json", RUST))
    for name in ("semantic_nodes", "episodic_nodes", "supersedes_edges", "similar_to_edges"):
        assert said[name] == there[name]
    (tree / "agent" / "graph_db").rename(tmp_path / "moved")
    (tree / "agent" / "graph_db").symlink_to(tmp_path / "moved")
    with pytest.raises(PathRefusedError):
        transfer.export_hierarchical_json("agent", tmp_path / "y.json", tree)
