"""Moving the memory of amplihack's agents from a program, and what amplihack itself gets wrong."""

from __future__ import annotations

import asyncio
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
    MalformedError,
    PathRefusedError,
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
    """What moves agents."""
    return HierarchicalTransfer(allow_uncontained=True)


def changed(path: Path, **change: Any) -> Path:
    """Write the sample with another text of its first fact, or other arrays."""
    document = json.loads(RUST.read_bytes())
    document["semantic_nodes"][0]["content"] = "The first ferry leaves at 5"
    path.write_text(json.dumps({**document, **change}))
    return path


def current(agent: str) -> dict[str, int]:
    """Return how many current records of each type an agent has."""
    found: dict[str, int] = {}
    with open_bank(load_settings(), agent) as bank, bank.ledger.reading() as view:
        for logged in view.scan(Filter(types=frozenset(ALL))):
            found[logged.record.type] = found.get(logged.record.type, 0) + 1
    return found


def numbers(result: ExportResult | ImportResult) -> dict[str, int]:
    """Return the statistics of a result."""
    return {name: int(number) for name, number in result.statistics}


def exported(transfer: HierarchicalTransfer, agent: str, folder: Path) -> dict[str, Any]:
    """Return what an export holds, without whose it is and when it was made."""
    path = folder / f"{len(list(folder.iterdir()))}.json"
    transfer.export_hierarchical_json(agent, path)
    found: dict[str, Any] = json.loads(path.read_bytes())
    del found["agent_name"], found["exported_at"]
    return found


def test_it_is_the_backend_that_the_seed_names(transfer: HierarchicalTransfer) -> None:
    """The four operations, and results with the seed's fields."""
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
    """And the file is private."""
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
def test_three_imports_of_a_file_give_the_same_memory(
    transfer: HierarchicalTransfer, *, merge: bool
) -> None:
    """Amplihack's merge gives 14 edges, then 28; memory-lib's 11, 22, 33 (defect 2)."""
    results = [transfer.import_hierarchical_json("agent", RUST, merge) for _ in range(3)]

    assert current("agent") == ALL
    assert [numbers(one)["edges_imported"] for one in results] == [6, 0, 0]
    assert [numbers(one)["skipped"] for one in results] == [0, 11, 11]


def test_a_database_after_its_json_adds_nothing(transfer: HierarchicalTransfer) -> None:
    """Both are the same memory, whichever file it comes in."""
    transfer.import_hierarchical_json("agent", RUST)
    transfer.import_hierarchical_raw_db("agent", DATABASE)
    assert current("agent") == ALL


def test_another_text_of_a_fact_is_a_conflict_by_policy(
    transfer: HierarchicalTransfer, tmp_path: Path
) -> None:
    """Amplihack drops the newer text in silence (defect 2)."""
    path = changed(tmp_path / "x.json")
    transfer.import_hierarchical_json("agent", RUST)
    left = transfer.import_hierarchical_json("agent", path, merge=True)
    assert (left.conflicts, left.conflict_examples) == (1, ["'sem-1' of amplihack"])
    asked = ImportOptions(on_conflict=ConflictPolicy.ERROR)
    with pytest.raises(ConflictError):
        transfer.import_hierarchical_json("agent", path, merge=True, options=asked)
    assert exported(transfer, "agent", tmp_path)["semantic_nodes"][0]["content"].endswith("6")

    asked = ImportOptions(on_conflict=ConflictPolicy.OVERWRITE)
    taken = transfer.import_hierarchical_json("agent", path, merge=True, options=asked)
    assert taken.conflicts > 0
    assert current("agent") == ALL


def test_edges_follow_a_fact_that_is_replaced(
    transfer: HierarchicalTransfer, tmp_path: Path
) -> None:
    """They lead to its new version; undone, they lead to the old one again."""
    path = changed(tmp_path / "x.json")
    before = _sorted(json.loads(RUST.read_bytes()))
    transfer.import_hierarchical_json("agent", RUST)
    transfer.import_hierarchical_json("agent", path)
    assert _sorted(exported(transfer, "agent", tmp_path)) == _sorted(json.loads(path.read_bytes()))

    undo_import(load_settings(), "agent", None)
    assert _sorted(exported(transfer, "agent", tmp_path)) == before


def _sorted(document: dict[str, Any]) -> dict[str, Any]:
    """Return the arrays of a file, their order aside."""
    return {
        name: sorted(part, key=json.dumps) if isinstance(part, list) else part
        for name, part in deepcopy(document).items()
        if name not in ("agent_name", "exported_at")
    }


def test_edges_follow_a_memory_that_was_updated_here(
    transfer: HierarchicalTransfer, tmp_path: Path
) -> None:
    """An edge to the old version is written as one to the new."""
    transfer.import_hierarchical_json("agent", RUST)
    with Satchel.open() as satchel:
        bank = satchel.bank("agent")
        found = next(one for one in bank.list() if one.text == "The first ferry leaves at 6")
        bank.update(found.id, "The first ferry leaves at half past 5")
    after = exported(transfer, "agent", tmp_path)
    assert after["semantic_nodes"][-1]["content"] == "The first ferry leaves at half past 5"
    before = json.loads(RUST.read_bytes())
    assert after["statistics"] == before["statistics"]
    assert _sorted(after)["similar_to_edges"] == _sorted(before)["similar_to_edges"]


def test_replacing_deletes_missing_memories_and_keeps_those_of_other_origin(
    transfer: HierarchicalTransfer, tmp_path: Path
) -> None:
    """Nodes and edges of amplihack that the file has not; what was remembered here stays."""
    transfer.import_hierarchical_json("agent", RUST)
    with Satchel.open() as satchel:
        satchel.bank("agent").remember("mine")
    document = json.loads(RUST.read_bytes())
    path = tmp_path / "x.json"
    less = {"similar_to_edges": [], "semantic_nodes": document["semantic_nodes"][:2]}
    path.write_text(json.dumps({**document, **less}))
    transfer.import_hierarchical_json("agent", path)
    assert current("agent") == {"semantic": 3, "episodic": 2, "edge": 4}

    transfer.import_hierarchical_json("agent", path, merge=True)
    assert current("agent") == {"semantic": 3, "episodic": 2, "edge": 4}


def test_a_link_to_a_forgotten_memory_is_omitted(
    transfer: HierarchicalTransfer, tmp_path: Path
) -> None:
    """A merge does not bring back what somebody forgot, and no edge leads to it."""
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
    assert numbers(result)["errors"] == 1
    assert current("agent") == {**ALL, "episodic": 1}


def test_a_missing_agent_is_an_error_and_nothing_is_made(
    transfer: HierarchicalTransfer, tmp_path: Path
) -> None:
    """Amplihack makes an empty store, and an empty backup of it."""
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
def test_no_path_is_made_of_a_name_that_no_agent_can_have(
    transfer: HierarchicalTransfer, tmp_path: Path, name: str
) -> None:
    """Amplihack makes ``a/b.db`` of ``a/b``, and takes line feeds."""
    with pytest.raises(UsageError):
        agent_name(name)
    with pytest.raises(UsageError):
        transfer.import_hierarchical_json(name, RUST, storage_path=tmp_path)
    with pytest.raises(UsageError):
        transfer.export_hierarchical_raw_db(name, tmp_path / "x.db", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_start_of_a_banks_id_is_no_agent(
    transfer: HierarchicalTransfer, tmp_path: Path
) -> None:
    """Only the name counts: nobody's bank is taken by a name that looks like its id."""
    transfer.import_hierarchical_json("agent", RUST)
    with open_bank(load_settings(), "agent") as bank:
        start = bank.id.removeprefix("blake3:")[:12]
    with pytest.raises(UsageError):
        transfer.export_hierarchical_json(start, tmp_path / "x.json")
    with pytest.raises(UsageError):
        transfer.import_hierarchical_json(start, RUST)


# -- databases -----------------------------------------------------------------------------


def test_a_database_is_of_the_agent_that_it_is_imported_as(
    transfer: HierarchicalTransfer, tmp_path: Path
) -> None:
    """Elsewhere its rows keep A's name, and B sees nothing (defect 11)."""
    transfer.import_hierarchical_raw_db("b", DATABASE)
    assert current("b") == ALL
    transfer.export_hierarchical_raw_db("b", tmp_path / "b.db")
    with closing(sqlite3.connect(tmp_path / "b.db")) as db:
        owners = "SELECT DISTINCT agent_id FROM semantic_memories"
        assert db.execute(owners).fetchall() == [("b",)]


def test_a_database_is_never_merged(transfer: HierarchicalTransfer) -> None:
    """JSON is; the error says so."""
    with pytest.raises(UsageError, match="cannot be merged"):
        transfer.import_hierarchical_raw_db("agent", DATABASE, merge=True)


def test_what_is_no_database_is_refused(transfer: HierarchicalTransfer, tmp_path: Path) -> None:
    """Amplihack takes a text file, and fails at the next command (defect 11)."""
    path = tmp_path / "x.db"
    path.write_text("this is no database")
    with pytest.raises(MalformedError):
        transfer.import_hierarchical_raw_db("agent", path)
    path.unlink()
    path.symlink_to(DATABASE)
    with pytest.raises(PathRefusedError):
        transfer.import_hierarchical_raw_db("agent", path)


def test_a_store_of_ours_is_not_taken_for_a_database_of_amplihack(
    transfer: HierarchicalTransfer,
) -> None:
    """It says how to bring that over."""
    transfer.import_hierarchical_json("agent", RUST)
    with pytest.raises(UsageError, match="Satchel store"):
        transfer.import_hierarchical_raw_db("other", load_settings().store)


# -- amplihack's layout --------------------------------------------------------------------


def layout(folder: Path) -> Path:
    """Return a folder with the database of an agent, as amplihack leaves it."""
    folder.mkdir()
    (folder / "agent.db").write_bytes(DATABASE.read_bytes())
    return folder


def test_amplihacks_own_database_is_exported_where_it_is(
    transfer: HierarchicalTransfer, tmp_path: Path
) -> None:
    """Nothing is brought into the store, and nothing in the folder changes."""
    tree = layout(tmp_path / "tree")
    went = transfer.export_hierarchical_json("agent", tmp_path / "x.json", tree)
    assert numbers(went)["derives_from_edge_count"] == 2
    assert [one.name for one in tree.iterdir()] == ["agent.db"]
    assert (tree / "agent.db").read_bytes() == DATABASE.read_bytes()
    with pytest.raises(UnknownBankError):
        transfer.export_hierarchical_json("agent", tmp_path / "y.json")


@pytest.mark.parametrize("merge", [True, False], ids=["merge", "replace"])
def test_amplihacks_own_database_is_written_whole_and_the_old_one_kept(
    transfer: HierarchicalTransfer, tmp_path: Path, *, merge: bool
) -> None:
    """For amplihack to go on with; private, and the one before beside it."""
    tree = layout(tmp_path / "tree")
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


def test_what_was_written_into_amplihacks_own_database_has_a_receipt(
    transfer: HierarchicalTransfer, tmp_path: Path
) -> None:
    """Of the file that was read, and of the database that was written and read back."""
    tree = layout(tmp_path / "tree")
    (one,) = transfer.import_hierarchical_json("agent", RUST, storage_path=tree).receipts
    with Satchel.open() as satchel:
        account = satchel.receipt(one).account
    assert account is not None
    assert (account.kind, account.read_back) == ("import", "equal")
    assert account.input.name == str(RUST)
    assert (account.output.name, account.output.format) == (str(tree / "agent.db"), "amplihack_db")
    assert {name: counts.read_back for name, counts in account.counts.items()} == ALL


def test_likeness_that_was_computed_goes_out_and_is_stated_where_it_arrives(
    transfer: HierarchicalTransfer, tmp_path: Path
) -> None:
    """Marked as computed; a second export says the same. What is stated is not said twice."""
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


def test_facts_of_an_import_are_linked_with_those_that_are_like_them(
    transfer: HierarchicalTransfer, tmp_path: Path
) -> None:
    """Beside the log; the file that goes out again has the links that came, and no others."""
    transfer.import_hierarchical_json("agent", RUST)
    with HierarchicalMemory("agent") as memory:
        computed = [one for one in memory.links() if one.kind == "similar_to"]
    transfer.export_hierarchical_json("agent", tmp_path / "x.json")
    came, went = (json.loads(one.read_bytes()) for one in (RUST, tmp_path / "x.json"))
    assert went["similar_to_edges"] == came["similar_to_edges"]
    assert len(computed) > len(came["similar_to_edges"])


def test_a_database_is_put_into_the_layout_under_the_agents_name(
    transfer: HierarchicalTransfer, tmp_path: Path
) -> None:
    """Checked, renamed, private; the folder is made."""
    tree = tmp_path / "tree"
    transfer.import_hierarchical_raw_db("second", DATABASE, storage_path=tree)
    assert (tree / "second.db").stat().st_mode & 0o777 == 0o600
    assert tree.stat().st_mode & 0o777 == 0o700
    with closing(sqlite3.connect(tree / "second.db")) as db:
        assert db.execute("SELECT DISTINCT agent_id FROM episodic_memories").fetchall() == [
            ("second",)
        ]


def test_a_new_agent_of_the_layout_is_a_store_of_its_own(
    transfer: HierarchicalTransfer, tmp_path: Path
) -> None:
    """With one bank; the default store knows nothing of it."""
    tree = tmp_path / "tree"
    for _ in range(2):
        transfer.import_hierarchical_json("agent", RUST, storage_path=tree)
    went = transfer.export_hierarchical_json("agent", tmp_path / "x.json", tree)
    assert numbers(went)["semantic_node_count"] == 3
    with pytest.raises(UnknownBankError):
        transfer.export_hierarchical_json("agent", tmp_path / "y.json")


def test_what_older_versions_left_is_read_and_written_under_the_usual_name(
    transfer: HierarchicalTransfer, tmp_path: Path
) -> None:
    """A folder for each agent, with ``sqlite_hierarchical.db`` in it."""
    older = tmp_path / "agent" / "sqlite_hierarchical.db"
    older.parent.mkdir()
    older.write_bytes(DATABASE.read_bytes())
    went = transfer.export_hierarchical_json("agent", tmp_path / "x.json", tmp_path)
    assert numbers(went)["semantic_node_count"] == 3
    path = tmp_path / "y.json"
    path.write_bytes(RUST.read_bytes().replace(b"sem-", b"new-"))
    transfer.import_hierarchical_json("agent", path, merge=True, storage_path=tmp_path)
    assert older.read_bytes() == DATABASE.read_bytes()
    with closing(sqlite3.connect(tmp_path / "agent.db")) as db:
        assert db.execute("SELECT count(*) FROM semantic_memories").fetchone() == (6,)


def test_a_link_in_the_layout_is_refused_and_its_target_left(
    transfer: HierarchicalTransfer, tmp_path: Path
) -> None:
    """Amplihack has made the target by the time it refuses."""
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "agent.db").symlink_to(tmp_path / "victim")
    with pytest.raises(PathRefusedError):
        transfer.import_hierarchical_json("agent", RUST, storage_path=tree)
    with pytest.raises(PathRefusedError):
        transfer.export_hierarchical_json("agent", tmp_path / "x.json", tree)
    assert not (tmp_path / "victim").exists()


def test_paths_are_kept_to_the_folders_that_are_allowed(tmp_path: Path) -> None:
    """Unless the caller says that they are his own."""
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


def test_links_of_a_bank_that_came_by_a_copy_are_known_again(
    transfer: HierarchicalTransfer,
) -> None:
    """The index of what was imported stays with the store; from the log it is made again."""
    transfer.import_hierarchical_json("agent", RUST)
    with open_bank(load_settings(), "agent", writes=True) as bank:
        with bank.ledger.reading() as view:
            kept = view.side(FINGERPRINTS)
        assert kept
        bank.ledger.append([seal(Semantic(text="mine"))], side=dict.fromkeys(kept))
    again = transfer.import_hierarchical_json("agent", RUST, merge=True)
    assert numbers(again)["skipped"] == 11
    assert current("agent") == {**ALL, "semantic": 4}


@settings(max_examples=8, deadline=None)
@given(data=st.data())
def test_merging_files_in_any_order_and_repeatedly_gives_their_union(
    data: st.DataObject,
) -> None:
    """Nodes by id, edges by kind and both ends."""
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

    assert current(agent) == {
        name: number for name, number in {**ALL, "edge": len(union)}.items() if number
    }


def test_an_agent_is_moved_by_async_calls(tmp_path: Path) -> None:
    """The same four operations, made in the same way."""

    async def work() -> tuple[ImportResult, ExportResult]:
        moving = aio.HierarchicalTransfer(allow_uncontained=True)
        came = await moving.import_hierarchical_json("agent", RUST)
        return came, await moving.export_hierarchical_raw_db("agent", tmp_path / "x.db")

    came, went = asyncio.run(work())
    assert dict(came.statistics)["semantic_nodes_imported"] == "3"
    assert dict(went.statistics)["semantic_node_count"] == "3"
