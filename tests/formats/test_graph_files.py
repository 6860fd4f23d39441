"""Graphs of amplihack's libraries in files of Kuzu and of old and new LadybugDB."""

import gzip
import importlib.util
import os
import stat
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import ladybug
import pytest

from satchel.crypto.canonical import Limits
from satchel.errors import (
    EmptyInputError,
    InputError,
    LimitError,
    MalformedError,
    MissingExtraError,
)
from satchel.formats import _graph_child, _graph_files
from satchel.formats._graph_files import TABLES, graph_file, rows_of
from satchel.formats.amplihack_graph import FORMAT
from satchel.model.records import Edge, Episodic, Semantic
from satchel.ports.format import Location, ReadContext, formats
from satchel.stores.ladybug import LadybugStore

DATA = Path(__file__).parents[1] / "data" / "graphs"
OLD = ("kuzu-39", "ladybug-40", "ladybug-41")
LINKS = ("SIMILAR_TO", "DERIVES_FROM", "SUPERSEDES", "TRANSITIONED_TO")


def unpacked(name: str, folder: Path) -> Path:
    """Return a sample as its program left it, with its log."""
    folder.mkdir(exist_ok=True)
    for end in ("", ".wal"):
        packed = DATA / f"{name}{end}.gz"
        if packed.exists():
            (folder / f"graph{end}").write_bytes(gzip.decompress(packed.read_bytes()))
    return folder / "graph"


def read(path: Path, reading: ReadContext | None = None) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of a file, by array."""
    found: dict[str, list[dict[str, Any]]] = {}
    for row in rows_of(Location(path), reading or ReadContext()):
        of_array = found.setdefault(row.array, [])
        assert row.number == len(of_array)
        of_array.append(row.row)
    return found


def make_graph(path: Path, *statements: str) -> Path:
    """Create a graph with the installed engine."""
    database = ladybug.Database(str(path), max_db_size=1 << 30)
    connection = ladybug.Connection(database)
    for statement in statements:
        connection.execute(statement)
    connection.close()
    database.close()
    return path


def folder_state(folder: Path) -> dict[str, tuple[bytes, int, int]]:
    """Return the bytes, modification times and modes of the files of a folder."""
    found = {}
    for path in folder.iterdir():
        status = path.stat()
        found[path.name] = (path.read_bytes(), status.st_mtime_ns, stat.S_IMODE(status.st_mode))
    return found


@pytest.mark.parametrize("name", [*OLD, "kuzu-39-killed"])
def test_an_old_graph_is_read_completely_and_not_changed(name: str, tmp_path: Path) -> None:
    """Also after its program was killed: its log is read as well."""
    path = unpacked(f"amplihack-{name}", tmp_path / "old")
    path.chmod(0o400)
    before, reading = folder_state(path.parent), ReadContext()
    found = read(path, reading)
    assert folder_state(path.parent) == before
    assert list(found) == list(TABLES.values())
    facts, episodes = found["semantic_nodes"], found["episodic_nodes"]
    assert [len(rows) for rows in found.values()] == [4, 3, 2, 3, 2, 2]
    by_id = {row["memory_id"]: row for row in facts}
    assert by_id["f1"] == {
        "memory_id": "f1",
        "concept": "queue workers",
        "content": "the queue has 8 workers 🐝",
        "confidence": 0.8,
        "source_id": "ep1",
        "agent_id": "builder",
        "tags": ["ops"],
        "metadata": {"category": "domain_specific", "temporal_index": 1},
        "created_at": "2026-03-02T11:00:00+00:00",
        "entity_name": "queue",
    }
    assert by_id["f3"]["agent_id"] == "reviewer"
    assert {row["memory_id"] for row in episodes} == {"ep0", "ep1", "ep2"}
    assert {row["metadata"] for row in episodes} == {None}
    assert {(row["source_id"], row["target_id"]) for row in found["supersedes_edges"]} == {
        ("f1", "f0"),
        ("f2", "f1"),
    }
    changed = {row["source_id"]: row for row in found["transitioned_to_edges"]}["f2"]
    assert (changed["from_value"], changed["to_value"], changed["turn"]) == ("8", "12", 2)
    assert {row["extraction_method"] for row in found["derives_from_edges"]} == {"llm_extraction"}
    assert [name for name, _ in reading.report.losses] == ["table"]


def test_json_damaged_by_an_old_engine_is_kept_as_text_and_reported(tmp_path: Path) -> None:
    """LadybugDB before 0.22 changed texts that looked like JSON; Kuzu did not."""
    reading = ReadContext()
    spoiled = read(unpacked("amplihack-ladybug-41", tmp_path / "old"), reading)
    (first,) = (row for row in spoiled["semantic_nodes"] if row["memory_id"] == "f0")
    assert first["metadata"] == "{category: domain_specific, temporal_index: 0}"
    assert any("metadata" in note for note in reading.report.notes)
    whole = read(unpacked("amplihack-kuzu-39", tmp_path / "kuzu"))
    (first,) = (row for row in whole["semantic_nodes"] if row["memory_id"] == "f0")
    assert first["metadata"] == {"category": "domain_specific", "temporal_index": 0}


@pytest.mark.parametrize("version", ["40", "41"])
def test_a_log_of_an_old_engine_is_refused_with_a_hint(version: str, tmp_path: Path) -> None:
    """The installed engine cannot read it, and most of the memory would be missing."""
    path = unpacked(f"amplihack-ladybug-{version}-killed", tmp_path / "old")
    before = folder_state(path.parent)
    with pytest.raises(MalformedError) as error:
        read(path)
    assert {"40": "0.15.3", "41": "0.17.1"}[version] in (error.value.hint or "")
    assert folder_state(path.parent) == before


def test_a_graph_of_the_current_engine_is_read(tmp_path: Path) -> None:
    """With unknown columns, numbers outside JSON, and a link of another table."""
    path = make_graph(
        tmp_path / "graph",
        "CREATE NODE TABLE SemanticMemory(memory_id STRING PRIMARY KEY, content STRING,"
        " extra INT64, sure DOUBLE, made TIMESTAMP, raw BLOB)",
        "CREATE REL TABLE SIMILAR_TO(FROM SemanticMemory TO SemanticMemory, weight DOUBLE)",
        "CREATE (:SemanticMemory {memory_id: 'a', content: 'one', extra: 9223372036854775807,"
        " sure: CAST('nan' AS DOUBLE), made: timestamp('2026-03-01 10:00:00'),"
        " raw: BLOB('\\\\xAA')})",
        "CREATE (:SemanticMemory {memory_id: 'b'})",
        "MATCH (a {memory_id: 'a'}), (b {memory_id: 'b'}) CREATE (a)-[:SIMILAR_TO"
        " {weight: 0.5}]->(b)",
    )
    found = read(path)
    assert found["similar_to_edges"] == [{"source_id": "a", "target_id": "b", "weight": 0.5}]
    first, second = found["semantic_nodes"]
    assert first["extra"] == {"$int": "9223372036854775807"}
    assert first["sure"] == {"$float": "NaN"}
    assert (first["made"], first["raw"]) == ("2026-03-01 10:00:00", "aa")
    assert second == {
        "memory_id": "b",
        **dict.fromkeys(("content", "extra", "sure", "made", "raw")),
    }


def test_the_graph_in_the_folder_of_an_agent_is_found(tmp_path: Path) -> None:
    """Under the names that the libraries use; a link there is not followed."""
    agent = tmp_path / "builder"
    agent.mkdir()
    assert graph_file(Location(agent)) is None
    old = unpacked("amplihack-kuzu-39", tmp_path / "old")
    (agent / "graph_db").symlink_to(old)
    assert graph_file(Location(agent)) is None
    old.rename(agent / "kuzu_db")
    assert graph_file(Location(agent)) == agent / "kuzu_db"
    assert len(read(agent)["semantic_nodes"]) == 4


def test_attack_a_log_that_is_a_link_is_refused(tmp_path: Path) -> None:
    """It would read any file that the link names."""
    path = unpacked("amplihack-kuzu-39", tmp_path / "old")
    path.with_name("graph.wal").symlink_to("/etc/hostname")
    with pytest.raises(MalformedError, match="next to the graph"):
        read(path)


@pytest.mark.parametrize(("name", "damage"), [("kuzu-39", 0.3), ("ladybug-40", 0.9)])
def test_a_truncated_graph_is_a_typed_error(name: str, damage: float, tmp_path: Path) -> None:
    """Also if the engine crashes; no partial result is reported as complete."""
    path = unpacked(f"amplihack-{name}", tmp_path / "old")
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * damage)])
    with pytest.raises(MalformedError):
        read(path)


def test_attack_a_file_that_crashes_the_engine_does_not_crash_satchel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine runs in a child process."""
    crashing = tmp_path / "crashing.py"
    crashing.write_text("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")
    monkeypatch.setattr(_graph_child, "__file__", str(crashing))
    with pytest.raises(MalformedError, match="crashed while"):
        read(unpacked("amplihack-kuzu-39", tmp_path / "old"))


def test_attack_an_oversized_row_is_refused(tmp_path: Path) -> None:
    """A row is limited before it is read into memory."""
    path = make_graph(
        tmp_path / "graph",
        "CREATE NODE TABLE SemanticMemory(memory_id STRING PRIMARY KEY, content STRING)",
        f"CREATE (:SemanticMemory {{memory_id: 'a', content: '{'long ' * 50_000}'}})",
    )
    with pytest.raises(LimitError):
        read(path, ReadContext(limits=Limits(line_bytes=1 << 17)))
    assert len(read(path)["semantic_nodes"]) == 1


def test_a_file_that_is_not_such_a_graph_is_reported_by_its_kind(tmp_path: Path) -> None:
    """Another file, another graph, a Satchel store, and files of a newer engine."""
    letter = tmp_path / "letter"
    letter.write_bytes(b"Dear reader, this is no graph")
    with pytest.raises(MalformedError, match="not a LadybugDB or Kuzu graph"):
        read(letter)
    other = make_graph(tmp_path / "other", "CREATE NODE TABLE Person(name STRING PRIMARY KEY)")
    with pytest.raises(MalformedError, match="no hierarchical memory") as error:
        read(other)
    assert ".wal" in (error.value.hint or "")
    store = LadybugStore(tmp_path / "store")
    store.close()
    with pytest.raises(MalformedError, match="a Satchel store"):
        read(tmp_path / "store" / "graph.lbug")
    cognitive = make_graph(
        tmp_path / "cognitive", "CREATE NODE TABLE SemanticMemory(node_id STRING PRIMARY KEY)"
    )
    with pytest.raises(MalformedError, match="memory_id"):
        read(cognitive)
    (tmp_path / "newer").write_bytes(b"LBUG" + (900).to_bytes(8, "little") + bytes(4084))
    with pytest.raises(MalformedError, match="version 900"):
        read(tmp_path / "newer")


@pytest.mark.parametrize(("name", "extra"), [("kuzu-39", "graph"), ("ladybug-41", "graph")])
def test_a_missing_engine_is_reported_with_its_installation(
    name: str, extra: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before anything is copied."""
    path = unpacked(f"amplihack-{name}", tmp_path / "old")
    monkeypatch.setattr(_graph_files, "find_spec", lambda _: None)
    with pytest.raises(MissingExtraError) as error:
        read(path)
    assert f"satchel[{extra}]" in (error.value.hint or "")


def test_attack_hostile_column_and_table_names_are_quoted_or_refused(tmp_path: Path) -> None:
    """No name becomes a part of a statement."""
    path = make_graph(
        tmp_path / "graph",
        "CREATE NODE TABLE SemanticMemory(memory_id STRING PRIMARY KEY,"
        " `content, n.memory_id AS x` STRING)",
        "CREATE (:SemanticMemory {memory_id: 'a', `content, n.memory_id AS x`: 'said'})",
    )
    assert read(path)["semantic_nodes"] == [{"memory_id": "a", "content, n.memory_id AS x": "said"}]


def test_stopping_a_reader_early_ends_its_process(tmp_path: Path) -> None:
    """No child process is left behind."""
    path = unpacked("amplihack-kuzu-39", tmp_path / "old")
    children = Path(f"/proc/self/task/{os.getpid()}/children")
    before = children.read_text()
    reader = rows_of(Location(path), ReadContext())
    next(reader)
    assert children.read_text() != before
    reader.close()
    assert children.read_text() == before


def test_both_engines_cannot_be_imported_in_one_process() -> None:
    """When this fails, the child process is no longer needed."""
    assert importlib.util.find_spec("kuzu") is not None
    code = "import kuzu, ladybug; kuzu.Database(); ladybug.Database()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert done.returncode != 0


def unpacked_graph(name: str, folder: Path) -> Path:
    """Return a sample as its program left it."""
    path = folder / "graph_db"
    path.write_bytes(gzip.decompress((DATA / f"amplihack-{name}.gz").read_bytes()))
    return path


@pytest.mark.parametrize("name", OLD)
def test_a_graph_yields_facts_episodes_and_links_of_each_kind(name: str, tmp_path: Path) -> None:
    """With their agents; a fact has its episode as a parent."""
    place = Location(unpacked_graph(name, tmp_path))
    assert formats.recognize(place) == "amplihack_graph"
    found = list(FORMAT.read(place, ReadContext()))
    facts = [one for one in found if isinstance(one, Semantic)]
    episodes = [one for one in found if isinstance(one, Episodic)]
    kinds = Counter(one.kind for one in found if isinstance(one, Edge))
    assert (len(facts), len(episodes)) == (4, 3)
    assert kinds == {"similar_to": 2, "derives_from": 3, "supersedes": 2, "transitioned_to": 2}
    assert sorted(one.scope.agent or "" for one in facts if one.scope) == [
        "builder",
        "builder",
        "builder",
        "reviewer",
    ]
    assert sum(len(one.parent_ids) for one in facts) == 3
    assert {one.text for one in facts} == {f"the queue has {n} workers 🐝" for n in (4, 8, 12, 16)}


def test_one_agent_of_several_is_imported_with_the_agent_option(tmp_path: Path) -> None:
    """Rows of other agents are counted; an unknown agent is an error."""
    place = Location(unpacked_graph("ladybug-41", tmp_path))
    reading = ReadContext(agent="reviewer")
    (fact,) = FORMAT.read(place, reading)
    assert isinstance(fact, Semantic)
    assert fact.origin is not None
    assert fact.origin.id == "f3"
    assert sum(loss.count for loss in reading.report.losses.values() if loss.name == "row") == 15
    with pytest.raises(MalformedError, match="none of them"):
        list(FORMAT.read(place, ReadContext(agent="nobody")))


def test_a_truncated_graph_is_refused_with_its_file_name(tmp_path: Path) -> None:
    """It is not reported as empty."""
    path = unpacked_graph("ladybug-41", tmp_path)
    path.write_bytes(path.read_bytes()[:100_000])
    with pytest.raises(InputError) as error:
        list(FORMAT.read(Location(path), ReadContext()))
    assert error.value.file == str(path)
    assert not isinstance(error.value, EmptyInputError)
