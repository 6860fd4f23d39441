"""``satchel.amplihack``: transfers of agents, from and to files, databases and graphs."""

from __future__ import annotations

import asyncio
import gzip
import json
import sqlite3
import tempfile
from contextlib import closing
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from satchel import Satchel, aio
from satchel.amplihack import (
    ExportResult,
    HierarchicalMemory,
    HierarchicalTransfer,
    HierarchicalTransferBackend,
    ImportResult,
    agent_name,
)
from satchel.bank.open_bank import open_bank
from satchel.config.settings import load_settings
from satchel.crypto.sealed_records import seal
from satchel.errors import (
    ConflictError,
    ContainmentError,
    InputError,
    MalformedError,
    PathRefusedError,
    ReadOnlyStoreError,
    UnknownBankError,
    UsageError,
)
from satchel.ledger.transaction import FINGERPRINTS
from satchel.model.records import Semantic
from satchel.ports.rows import Filter
from satchel.transfer.import_results import ConflictPolicy, ImportOptions
from satchel.transfer.imports import undo_import

SAMPLES = Path(__file__).parent.parent / "data" / "formats"
RUST = SAMPLES / "amplihack" / "good-rust.json"
DATABASE = SAMPLES / "amplihack_db" / "good-agent.db"
ALL = {"semantic": 3, "episodic": 2, "edge": 6}


@pytest.fixture
def transfer() -> HierarchicalTransfer:
    """A backend that transfers agents without containment of paths."""
    return HierarchicalTransfer(allow_uncontained=True)


def write_changed_sample(path: Path, **change: Any) -> Path:
    """Write the sample with a different text of its first fact, or other arrays."""
    document = json.loads(RUST.read_bytes())
    document["semantic_nodes"][0]["content"] = "The first ferry leaves at 5"
    path.write_text(json.dumps({**document, **change}))
    return path


def current_counts(agent: str) -> dict[str, int]:
    """Return the number of current records of an agent by type."""
    found: dict[str, int] = {}
    with open_bank(load_settings(), agent) as bank, bank.ledger.reading() as view:
        for logged in view.scan(Filter(types=frozenset(ALL))):
            found[logged.record.type] = found.get(logged.record.type, 0) + 1
    return found


def statistics_of(result: ExportResult | ImportResult) -> dict[str, int]:
    """Return the statistics of a result as numbers."""
    return {name: int(number) for name, number in result.statistics}


def exported_document(transfer: HierarchicalTransfer, agent: str, folder: Path) -> dict[str, Any]:
    """Return the document of an export without its agent and time."""
    path = folder / f"{len(list(folder.iterdir()))}.json"
    transfer.export_hierarchical_json(agent, path)
    found: dict[str, Any] = json.loads(path.read_bytes())
    del found["agent_name"], found["exported_at"]
    return found


def test_the_transfer_class_implements_the_backend_protocol(transfer: HierarchicalTransfer) -> None:
    """With the four operations and the fields of their results."""
    assert isinstance(transfer, HierarchicalTransferBackend)
    came = transfer.import_hierarchical_json("agent", RUST)
    assert (came.agent_name, came.format, came.source_agent, came.merge) == (
        *("agent", "json", "harbour-agent"),
        False,
    )
    assert came.statistics == [
        ("semantic_nodes_imported", "3"),
        ("episodic_nodes_imported", "2"),
        ("edges_imported", "6"),
        ("skipped", "0"),
        ("errors", "0"),
    ]


def test_an_export_reports_its_six_counts_and_size(
    transfer: HierarchicalTransfer, tmp_path: Path
) -> None:
    """The file is readable only by its owner."""
    transfer.import_hierarchical_json("agent", RUST)
    went = transfer.export_hierarchical_json("agent", tmp_path / "x.json")
    assert [name for name, _ in went.statistics] == [
        *("semantic_node_count", "episodic_node_count", "similar_to_edge_count"),
        *("derives_from_edge_count", "supersedes_edge_count", "transitioned_to_edge_count"),
    ]
    assert [number for _, number in went.statistics] == ["3", "2", "2", "2", "1", "1"]
    assert went.file_size_bytes == (tmp_path / "x.json").stat().st_size
    assert went.output_path == str((tmp_path / "x.json").resolve())
    assert (tmp_path / "x.json").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("merge", [True, False], ids=["merge", "replace"])
def test_three_imports_of_a_file_are_idempotent(
    transfer: HierarchicalTransfer, *, merge: bool
) -> None:
    """A merge in amplihack gives 14 edges, then 28; in memory-lib 11, 22, 33 (defect 2)."""
    results = [transfer.import_hierarchical_json("agent", RUST, merge) for _ in range(3)]

    assert current_counts("agent") == ALL
    assert [statistics_of(one)["edges_imported"] for one in results] == [6, 0, 0]
    assert [statistics_of(one)["skipped"] for one in results] == [0, 11, 11]


def test_a_database_adds_nothing_after_its_json_export(transfer: HierarchicalTransfer) -> None:
    """Both have the same memories."""
    transfer.import_hierarchical_json("agent", RUST)
    transfer.import_hierarchical_raw_db("agent", DATABASE)
    assert current_counts("agent") == ALL


def test_a_changed_fact_is_resolved_by_the_conflict_policy(
    transfer: HierarchicalTransfer, tmp_path: Path
) -> None:
    """Amplihack drops the newer text in silence (defect 2)."""
    path = write_changed_sample(tmp_path / "x.json")
    transfer.import_hierarchical_json("agent", RUST)
    left = transfer.import_hierarchical_json("agent", path, merge=True)
    assert (left.conflicts, left.conflict_examples) == (1, ["'sem-1' of amplihack"])
    asked = ImportOptions(on_conflict=ConflictPolicy.ERROR)
    with pytest.raises(ConflictError):
        transfer.import_hierarchical_json("agent", path, merge=True, options=asked)
    assert exported_document(transfer, "agent", tmp_path)["semantic_nodes"][0]["content"].endswith(
        "6"
    )

    asked = ImportOptions(on_conflict=ConflictPolicy.OVERWRITE)
    taken = transfer.import_hierarchical_json("agent", path, merge=True, options=asked)
    assert taken.conflicts > 0
    assert current_counts("agent") == ALL


def test_edges_follow_a_replaced_fact(transfer: HierarchicalTransfer, tmp_path: Path) -> None:
    """They lead to its new version, and after an undo to the old one again."""
    path = write_changed_sample(tmp_path / "x.json")
    before = _sorted_arrays(json.loads(RUST.read_bytes()))
    transfer.import_hierarchical_json("agent", RUST)
    transfer.import_hierarchical_json("agent", path)
    assert _sorted_arrays(exported_document(transfer, "agent", tmp_path)) == _sorted_arrays(
        json.loads(path.read_bytes())
    )

    undo_import(load_settings(), "agent", None)
    assert _sorted_arrays(exported_document(transfer, "agent", tmp_path)) == before


def _sorted_arrays(document: dict[str, Any]) -> dict[str, Any]:
    """Return the arrays of a document in a canonical order."""
    return {
        name: sorted(part, key=json.dumps) if isinstance(part, list) else part
        for name, part in deepcopy(document).items()
        if name not in ("agent_name", "exported_at")
    }


def test_edges_follow_a_locally_updated_memory(
    transfer: HierarchicalTransfer, tmp_path: Path
) -> None:
    """An edge to the old version is exported as an edge to the new one."""
    transfer.import_hierarchical_json("agent", RUST)
    with Satchel.open() as satchel:
        bank = satchel.bank("agent")
        found = next(one for one in bank.list() if one.text == "The first ferry leaves at 6")
        bank.update(found.id, "The first ferry leaves at half past 5")
    after = exported_document(transfer, "agent", tmp_path)
    assert after["semantic_nodes"][-1]["content"] == "The first ferry leaves at half past 5"
    before = json.loads(RUST.read_bytes())
    assert after["statistics"] == before["statistics"]
    assert _sorted_arrays(after)["similar_to_edges"] == _sorted_arrays(before)["similar_to_edges"]


def test_replace_deletes_missing_memories_and_keeps_those_of_other_origin(
    transfer: HierarchicalTransfer, tmp_path: Path
) -> None:
    """Local memories stay."""
    transfer.import_hierarchical_json("agent", RUST)
    with Satchel.open() as satchel:
        satchel.bank("agent").remember("mine")
    document = json.loads(RUST.read_bytes())
    path = tmp_path / "x.json"
    less = {"similar_to_edges": [], "semantic_nodes": document["semantic_nodes"][:2]}
    path.write_text(json.dumps({**document, **less}))
    transfer.import_hierarchical_json("agent", path)
    assert current_counts("agent") == {"semantic": 3, "episodic": 2, "edge": 4}

    transfer.import_hierarchical_json("agent", path, merge=True)
    assert current_counts("agent") == {"semantic": 3, "episodic": 2, "edge": 4}


def test_a_link_to_a_forgotten_memory_is_omitted(
    transfer: HierarchicalTransfer, tmp_path: Path
) -> None:
    """A merge does not restore a forgotten memory."""
    transfer.import_hierarchical_json("agent", RUST)
    with Satchel.open() as satchel:
        bank = satchel.bank("agent")
        found = next(one for one in bank.list() if one.text == "The harbour master phoned.")
        bank.forget(found.id)
    document = json.loads(RUST.read_bytes())
    edge = {"source_id": "sem-3", "target_id": "epi-2", "extraction_method": "", "confidence": 1}
    path = tmp_path / "x.json"
    path.write_text(
        json.dumps({**document, "derives_from_edges": [*document["derives_from_edges"], edge]})
    )
    result = transfer.import_hierarchical_json("agent", path, merge=True)
    assert statistics_of(result)["errors"] == 1
    assert current_counts("agent") == {**ALL, "episodic": 1}


def test_export_of_a_missing_agent_is_an_error_and_creates_nothing(
    transfer: HierarchicalTransfer, tmp_path: Path
) -> None:
    """Amplihack creates an empty store and an empty backup of it."""
    home = load_settings().home
    before = sorted(home.rglob("*"))
    with pytest.raises(UnknownBankError):
        transfer.export_hierarchical_json("nobody", tmp_path / "x.json")
    with pytest.raises(UnknownBankError):
        transfer.export_hierarchical_json("nobody", tmp_path / "x.json", tmp_path)
    assert sorted(home.rglob("*")) == before
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "name", ["", "a/b", "a\\b", "..", ".a", "-a", "_a", "a b", "a\n", "é", "a" * 65, "a\0"]
)
def test_attack_an_invalid_agent_name_is_refused(
    transfer: HierarchicalTransfer, tmp_path: Path, name: str
) -> None:
    """Amplihack creates ``a/b.db`` for ``a/b``, and accepts line feeds."""
    with pytest.raises(UsageError):
        agent_name(name)
    with pytest.raises(UsageError):
        transfer.import_hierarchical_json(name, RUST, storage_path=tmp_path)
    with pytest.raises(UsageError):
        transfer.export_hierarchical_raw_db(name, tmp_path / "x.db", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_prefix_of_a_bank_id_is_not_an_agent_name(
    transfer: HierarchicalTransfer, tmp_path: Path
) -> None:
    """Only the name of a bank is compared."""
    transfer.import_hierarchical_json("agent", RUST)
    with open_bank(load_settings(), "agent") as bank:
        start = bank.id.removeprefix("blake3:")[:12]
    with pytest.raises(UsageError):
        transfer.export_hierarchical_json(start, tmp_path / "x.json")
    with pytest.raises(UsageError):
        transfer.import_hierarchical_json(start, RUST)


# -- databases -----------------------------------------------------------------------------


def test_an_imported_database_belongs_to_the_named_agent(
    transfer: HierarchicalTransfer, tmp_path: Path
) -> None:
    """Elsewhere its rows keep the name of agent A, so agent B sees nothing (defect 11)."""
    transfer.import_hierarchical_raw_db("b", DATABASE)
    assert current_counts("b") == ALL
    transfer.export_hierarchical_raw_db("b", tmp_path / "b.db")
    with closing(sqlite3.connect(tmp_path / "b.db")) as db:
        owners = "SELECT DISTINCT agent_id FROM semantic_memories"
        assert db.execute(owners).fetchall() == [("b",)]


def test_merging_a_database_is_refused(transfer: HierarchicalTransfer) -> None:
    """The error suggests JSON."""
    with pytest.raises(UsageError, match="cannot be merged"):
        transfer.import_hierarchical_raw_db("agent", DATABASE, merge=True)


def test_a_file_that_is_not_a_database_is_refused(
    transfer: HierarchicalTransfer, tmp_path: Path
) -> None:
    """Amplihack accepts a text file and fails at the next command (defect 11)."""
    path = tmp_path / "x.db"
    path.write_text("this is no database")
    with pytest.raises(MalformedError):
        transfer.import_hierarchical_raw_db("agent", path)
    path.unlink()
    path.symlink_to(DATABASE)
    with pytest.raises(PathRefusedError):
        transfer.import_hierarchical_raw_db("agent", path)


def test_a_satchel_store_is_not_imported_as_an_amplihack_database(
    transfer: HierarchicalTransfer,
) -> None:
    """The error says how to import it."""
    transfer.import_hierarchical_json("agent", RUST)
    with pytest.raises(UsageError, match="Satchel store"):
        transfer.import_hierarchical_raw_db("other", load_settings().store)


# -- amplihack's layout --------------------------------------------------------------------


def write_layout(folder: Path) -> Path:
    """Return a folder with the database of an agent, as amplihack writes it."""
    folder.mkdir()
    (folder / "agent.db").write_bytes(DATABASE.read_bytes())
    return folder


def test_an_amplihack_database_is_exported_in_place(
    transfer: HierarchicalTransfer, tmp_path: Path
) -> None:
    """The store of Satchel and the folder do not change."""
    tree = write_layout(tmp_path / "tree")
    went = transfer.export_hierarchical_json("agent", tmp_path / "x.json", tree)
    assert statistics_of(went)["derives_from_edge_count"] == 2
    assert [one.name for one in tree.iterdir()] == ["agent.db"]
    assert (tree / "agent.db").read_bytes() == DATABASE.read_bytes()
    with pytest.raises(UnknownBankError):
        transfer.export_hierarchical_json("agent", tmp_path / "y.json")


@pytest.mark.parametrize("merge", [True, False], ids=["merge", "replace"])
def test_an_amplihack_database_is_replaced_and_the_old_one_kept(
    transfer: HierarchicalTransfer, tmp_path: Path, *, merge: bool
) -> None:
    """The new one is private, with the old one as backup beside it."""
    tree = write_layout(tmp_path / "tree")
    document = json.loads(RUST.read_bytes())
    document["semantic_nodes"] = [{**document["semantic_nodes"][0], "memory_id": "new"}]
    for name in document:
        document[name] = [] if name.endswith("_edges") else document[name]
    path = tmp_path / "x.json"
    path.write_text(json.dumps(document))
    transfer.import_hierarchical_json("agent", path, merge, tree)

    assert (tree / "agent.db.bak").read_bytes() == DATABASE.read_bytes()
    assert {one.stat().st_mode & 0o777 for one in tree.iterdir()} == {0o600}
    with closing(sqlite3.connect(tree / "agent.db")) as db:
        facts = db.execute("SELECT count(*) FROM semantic_memories").fetchone()[0]
        edges = db.execute("SELECT count(*) FROM similar_to_edges").fetchone()[0]
    assert (facts, edges) == ((4, 2) if merge else (1, 0))


def test_a_write_to_an_amplihack_database_has_a_receipt(
    transfer: HierarchicalTransfer, tmp_path: Path
) -> None:
    """Of the input file and of the database, which is read back."""
    tree = write_layout(tmp_path / "tree")
    (one,) = transfer.import_hierarchical_json("agent", RUST, storage_path=tree).receipts
    with Satchel.open() as satchel:
        account = satchel.receipt(one).account
    assert account is not None
    assert (account.kind, account.read_back) == ("import", "equal")
    assert account.input.name == str(RUST)
    assert (account.output.name, account.output.format) == (str(tree / "agent.db"), "amplihack_db")
    assert {name: counts.read_back for name, counts in account.counts.items()} == ALL


def test_computed_similarity_links_are_exported_once(
    transfer: HierarchicalTransfer, tmp_path: Path
) -> None:
    """They are marked as computed; a second export is the same."""
    with HierarchicalMemory("agent") as memory:
        memory.store_knowledge("the ferry leaves from pier four at nine", "ferry times")
        memory.store_knowledge("the ferry leaves from pier four at noon", "ferry times")
        here = [one for one in memory.links() if one.kind == "similar_to"]
    paths = [tmp_path / "one.json", tmp_path / "two.json"]
    transfer.export_hierarchical_json("agent", paths[0])
    transfer.import_hierarchical_json("other", paths[0])
    transfer.export_hierarchical_json("other", paths[1])
    found = [json.loads(path.read_bytes())["similar_to_edges"] for path in paths]
    assert [(one["source_id"], one["target_id"]) for one in found[0]] == [
        (one.source, one.target) for one in here
    ]
    assert len(here) == 1
    assert found[0][0]["metadata"]["computed_by"] == "satchel"
    assert found[1] == found[0]


def test_imported_facts_get_similarity_links_that_are_not_exported(
    transfer: HierarchicalTransfer, tmp_path: Path
) -> None:
    """The export has the imported links only."""
    transfer.import_hierarchical_json("agent", RUST)
    with HierarchicalMemory("agent") as memory:
        computed = [one for one in memory.links() if one.kind == "similar_to"]
    transfer.export_hierarchical_json("agent", tmp_path / "x.json")
    came, went = (json.loads(one.read_bytes()) for one in (RUST, tmp_path / "x.json"))
    assert went["similar_to_edges"] == came["similar_to_edges"]
    assert len(computed) > len(came["similar_to_edges"])


def test_a_database_is_imported_into_the_layout_of_an_agent(
    transfer: HierarchicalTransfer, tmp_path: Path
) -> None:
    """It is verified, renamed and private; the folder is created."""
    tree = tmp_path / "tree"
    transfer.import_hierarchical_raw_db("second", DATABASE, storage_path=tree)
    assert (tree / "second.db").stat().st_mode & 0o777 == 0o600
    assert tree.stat().st_mode & 0o777 == 0o700
    with closing(sqlite3.connect(tree / "second.db")) as db:
        assert db.execute("SELECT DISTINCT agent_id FROM episodic_memories").fetchall() == [
            ("second",)
        ]


def test_a_new_agent_of_a_layout_has_a_separate_store(
    transfer: HierarchicalTransfer, tmp_path: Path
) -> None:
    """With one bank; the default store does not change."""
    tree = tmp_path / "tree"
    for _ in range(2):
        transfer.import_hierarchical_json("agent", RUST, storage_path=tree)
    went = transfer.export_hierarchical_json("agent", tmp_path / "x.json", tree)
    assert statistics_of(went)["semantic_node_count"] == 3
    with pytest.raises(UnknownBankError):
        transfer.export_hierarchical_json("agent", tmp_path / "y.json")


def test_databases_of_older_versions_are_read_and_written_to_the_new_path(
    transfer: HierarchicalTransfer, tmp_path: Path
) -> None:
    """Older versions have a folder for each agent with ``sqlite_hierarchical.db`` in it."""
    older = tmp_path / "agent" / "sqlite_hierarchical.db"
    older.parent.mkdir()
    older.write_bytes(DATABASE.read_bytes())
    went = transfer.export_hierarchical_json("agent", tmp_path / "x.json", tmp_path)
    assert statistics_of(went)["semantic_node_count"] == 3
    path = tmp_path / "y.json"
    path.write_bytes(RUST.read_bytes().replace(b"sem-", b"new-"))
    transfer.import_hierarchical_json("agent", path, merge=True, storage_path=tmp_path)
    assert older.read_bytes() == DATABASE.read_bytes()
    with closing(sqlite3.connect(tmp_path / "agent.db")) as db:
        assert db.execute("SELECT count(*) FROM semantic_memories").fetchone() == (6,)


def test_attack_a_symbolic_link_in_the_layout_is_refused(
    transfer: HierarchicalTransfer, tmp_path: Path
) -> None:
    """Amplihack creates the target before it refuses."""
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "agent.db").symlink_to(tmp_path / "victim")
    with pytest.raises(PathRefusedError):
        transfer.import_hierarchical_json("agent", RUST, storage_path=tree)
    with pytest.raises(PathRefusedError):
        transfer.export_hierarchical_json("agent", tmp_path / "x.json", tree)
    assert not (tmp_path / "victim").exists()


def test_paths_outside_the_allowed_roots_are_refused(tmp_path: Path) -> None:
    """Unless the caller allows uncontained paths."""
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "x.json").write_bytes(RUST.read_bytes())
    with pytest.raises(ContainmentError):
        HierarchicalTransfer().import_hierarchical_json("agent", RUST)
    transfer = HierarchicalTransfer(allowed_roots=[inside])
    transfer.import_hierarchical_json("agent", inside / "x.json")
    for refused in (RUST, tmp_path / "y.json"):
        with pytest.raises(ContainmentError):
            transfer.import_hierarchical_json("agent", refused)
    with pytest.raises(ContainmentError):
        transfer.export_hierarchical_json("agent", inside / "z.json", tmp_path)


def test_a_missing_fingerprint_index_is_rebuilt_from_the_log(
    transfer: HierarchicalTransfer,
) -> None:
    """So a merge after a copy of the bank adds no edge twice."""
    transfer.import_hierarchical_json("agent", RUST)
    with open_bank(load_settings(), "agent", writes=True) as bank:
        with bank.ledger.reading() as view:
            kept = view.side(FINGERPRINTS)
        assert kept
        bank.ledger.append([seal(Semantic(text="mine"))], side=dict.fromkeys(kept))
    again = transfer.import_hierarchical_json("agent", RUST, merge=True)
    assert statistics_of(again)["skipped"] == 11
    assert current_counts("agent") == {**ALL, "semantic": 4}


@settings(max_examples=8, deadline=None)
@given(data=st.data())
def test_merges_in_any_order_give_the_union(data: st.DataObject) -> None:
    """Nodes by ID, edges by kind and both ends."""
    document = json.loads(RUST.read_bytes())
    names = [name for name, part in document.items() if isinstance(part, list)]
    parts = []
    for _ in range(2):
        one = dict(document)
        for name in names:
            some = data.draw(st.lists(st.sampled_from(document[name]), max_size=4))
            one[name] = some if "edges" in name else document[name]
        parts.append(one)
    union = {
        (name, edge["source_id"], edge["target_id"])
        for one in parts
        for name in names
        if "edges" in name
        for edge in one[name]
    }
    agent = f"agent{data.draw(st.integers(0, 2**40))}"
    transfer = HierarchicalTransfer(allow_uncontained=True)
    with tempfile.TemporaryDirectory() as folder:
        for place in data.draw(st.permutations([0, 1, 0, 1])):
            path = Path(folder) / "x.json"
            path.write_text(json.dumps(parts[place]))
            transfer.import_hierarchical_json(agent, path, merge=True)

    assert current_counts(agent) == {
        name: number for name, number in {**ALL, "edge": len(union)}.items() if number
    }


def test_an_agent_is_transferred_by_async_calls(tmp_path: Path) -> None:
    """The same operations in ``satchel.aio``."""

    async def work() -> tuple[ImportResult, ExportResult]:
        moving = aio.HierarchicalTransfer(allow_uncontained=True)
        came = await moving.import_hierarchical_json("agent", RUST)
        return came, await moving.export_hierarchical_raw_db("agent", tmp_path / "x.db")

    came, went = asyncio.run(work())
    assert dict(came.statistics)["semantic_nodes_imported"] == "3"
    assert dict(went.statistics)["semantic_node_count"] == "3"


# -- graphs ------------------------------------------------------------------------------


DATA = Path(__file__).parent.parent / "data"
OF_BUILDER = {
    "semantic_node_count": "3",
    "episodic_node_count": "3",
    "similar_to_edge_count": "2",
    "derives_from_edge_count": "3",
    "supersedes_edge_count": "2",
    "transitioned_to_edge_count": "2",
}


def write_graph(path: Path, name: str = "kuzu-39") -> Path:
    """Write a graph database of amplihack to a path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.decompress((DATA / "graphs" / f"amplihack-{name}.gz").read_bytes()))
    return path


@pytest.mark.parametrize(("name", "called"), [("kuzu-39", "kuzu_db"), ("ladybug-41", "graph_db")])
def test_an_amplihack_graph_is_exported_and_never_written(
    transfer: HierarchicalTransfer, tmp_path: Path, name: str, called: str
) -> None:
    """Of old and of new versions."""
    path = write_graph(tmp_path / "tree" / "builder" / called, name)
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


def test_a_graph_is_imported_like_a_database_and_cannot_be_merged(
    transfer: HierarchicalTransfer, tmp_path: Path
) -> None:
    """For the agents in it only."""
    path = write_graph(tmp_path / "graph_db")
    done = dict(transfer.import_hierarchical_raw_db("builder", path).statistics)
    assert (done["semantic_nodes_imported"], done["episodic_nodes_imported"]) == ("3", "3")
    with pytest.raises(MalformedError, match="none of them"):
        transfer.import_hierarchical_raw_db("nobody", path)
    with pytest.raises(UsageError):
        transfer.import_hierarchical_raw_db("builder", path, merge=True)


@pytest.mark.parametrize("magic", [b"LBUG\x31\0", b"KUZU\x27\0", None])
def test_a_file_that_is_not_a_graph_is_refused(
    transfer: HierarchicalTransfer, tmp_path: Path, magic: bytes | None
) -> None:
    """Not read as an empty one: a file with only the magic bytes, and an empty folder."""
    path = tmp_path / "agent" / "graph_db"
    path.parent.mkdir()
    path.mkdir() if magic is None else path.write_bytes(magic)
    with pytest.raises(InputError):
        transfer.import_hierarchical_raw_db("agent", path)
    with pytest.raises(InputError):
        transfer.export_hierarchical_json("agent", tmp_path / "x.json", tmp_path)
    assert not (tmp_path / "x.json").exists()


def test_an_agent_of_a_layout_is_stored_in_a_graph_on_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Later calls find it without the setting; a symbolic link in its place is refused."""
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
